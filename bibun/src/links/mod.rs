//! Links: parameters and the computation that uses them, and Chains of them, walked by name.

mod chain;
mod linear;

pub use bibun_derive::Chain;
pub(crate) use chain::for_each_parameter;
pub use chain::{Chain, Visitor};
pub use linear::{Linear, LinearBuilder};

use crate::variable::Variable;

/// A Chain that makes one Variable from one.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Chain, Linear, Link};
/// use bibun::Variable;
///
/// #[derive(Chain)]
/// struct Stack(Vec<Box<dyn Link>>);
///
/// impl Link for Stack {
///     fn forward(&self, x: &Variable) -> Variable {
///         self.0.iter().fold(x.clone(), |x, link| link.forward(&x))
///     }
/// }
///
/// let g = &mut Generator::new(0);
/// let stack = Stack(vec![Box::new(Linear::new(3, 4, g)), Box::new(Linear::new(4, 2, g))]);
/// let x = Variable::constant([[1.0f32, 2.0, 3.0]]);
/// assert_eq!(stack.forward(&x).shape(), [1, 2]);
/// assert_eq!(stack.parameters()[0].0, "0/w");
/// ```
pub trait Link: Chain {
    /// What the link computes.
    fn forward(&self, x: &Variable) -> Variable;
}
