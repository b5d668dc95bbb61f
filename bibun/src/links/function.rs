//! A function as a link.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use super::{Chain, Link, Mapper, Tree, Visitor};
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
#[derive(Clone)]
pub struct FunctionLink {
    function: Arc<Function>,
    /// The type of a function that captures nothing, of which there is one only.
    only: Option<TypeId>,
}

type Function = dyn Fn(&Variable) -> Variable + Send + Sync;

impl FunctionLink {
    /// Creates a link from a function.
    pub fn new<F>(function: F) -> Self
    where
        F: Fn(&Variable) -> Variable + Send + Sync + 'static,
    {
        Self {
            only: (size_of::<F>() == 0).then(TypeId::of::<F>),
            function: Arc::new(function),
        }
    }
}

impl Tree for FunctionLink {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        match self.only {
            Some(only) => visitor.plain(&only),
            None => visitor.plain(&Arc::as_ptr(&self.function).addr()),
        }
    }
    fn map(&self, _: &mut Mapper<'_>) -> Self {
        self.clone()
    }
}

impl Chain for FunctionLink {}

impl Link for FunctionLink {
    fn compute(&self, x: &Variable) -> Variable {
        (self.function)(x)
    }
}

impl fmt::Debug for FunctionLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionLink")
    }
}
