//! A function as a link.

use std::fmt;
use std::sync::Arc;

use super::{Chain, Link};
use crate::variable::Variable;

/// A function of one Variable, as a link without parameters.
///
/// Shapes: those of the function. Walks over the model do not see Variables that a closure has
/// captured: a learned value belongs in a link.
///
/// ```
/// use bibun::links::{FunctionLink, Link};
/// use bibun::Variable;
/// let double = FunctionLink::new(|x| 2.0 * x);
/// assert_eq!(double.forward(&Variable::constant([1.0, 2.0])).to_vec::<f64>(), [2.0, 4.0]);
/// let relu = FunctionLink::new(Variable::relu);
/// assert_eq!(relu.forward(&Variable::constant([-1.0, 2.0])).to_vec::<f64>(), [0.0, 2.0]);
/// ```
#[derive(Chain, Clone)]
pub struct FunctionLink(#[chain(skip)] Arc<Function>);

type Function = dyn Fn(&Variable) -> Variable + Send + Sync;

impl FunctionLink {
    /// Creates a link from a function.
    pub fn new(function: impl Fn(&Variable) -> Variable + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }
}

impl Link for FunctionLink {
    fn compute(&self, x: &Variable) -> Variable {
        (self.0)(x)
    }
}

impl fmt::Debug for FunctionLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionLink")
    }
}
