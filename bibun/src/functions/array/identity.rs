//! The identity.

use bibun_array::Array;

use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule};
use crate::variable::Variable;

/// Computes `y = x`, a step of history that changes nothing.
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`.
///
/// ```
/// use bibun::{functions::identity, Variable};
/// let y = identity(&Variable::new([1.0, 2.0]));
/// assert_eq!(y.creator().unwrap().name(), "identity");
/// ```
#[track_caller]
pub fn identity(x: impl Into<Variable>) -> Variable {
    Linear::of(Identity("identity"), x.into())
}

/// Returns the same value behind an identity that is always recorded, so that gradients with respect to
/// it can be taken wherever it is used, and continue to the history of `x`. A function that
/// differentiates inside of another transformation begins with it.
///
/// ```
/// use bibun::{functions::watch, gradients, no_grad, Variable};
/// let x = Variable::constant(3.0);
/// let x = watch(&x);
/// assert_eq!(gradients(&[&(&x * &x)], &[&x])[0].as_ref().unwrap().item::<f64>(), 6.0);
/// ```
#[track_caller]
pub fn watch(x: impl Into<Variable>) -> Variable {
    let [y] = crate::apply::apply_watched(Linear(Identity("watch")), [x.into()]);
    y
}

/// Returns the same value with a call of its own, which distinguishes it from other values of the same
/// history.
pub(crate) fn apart(x: &Variable) -> Variable {
    Linear::of(Identity("watch"), x.clone())
}

/// An identity with a name. One that a transformation inserts is not the one that a user calls, so that
/// [`Rules`](crate::Rules) for one do not apply to the other.
#[derive(Clone, Debug)]
struct Identity(&'static str);

impl LinearRule for Identity {
    fn name(&self) -> &'static str {
        self.0
    }
    fn forward(&self, x: Array) -> Array {
        x
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        gy
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    vec![
        Sample::new(
            "identity",
            |x| vec![identity(&x[0])],
            |x| vec![x[0].clone()],
        )
        .input([2, 3], -2.0..2.0),
    ]
}
