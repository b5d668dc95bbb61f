//! The identity.

use bibun_array::Array;

use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule};
use crate::variable::Variable;

/// `y = x`: a step of history that changes nothing.
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

/// The same value behind an identity that is recorded in any case: gradients can be taken with
/// respect to it wherever it is used, and go on to what `x` came from. A function that
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

/// The same value, told from others of the same history by a call of its own.
pub(crate) fn apart(x: &Variable) -> Variable {
    Linear::of(Identity("watch"), x.clone())
}

/// By its name: what transformations put in is not what a user calls, so that
/// [`Rules`](crate::Rules) for the one leave the other alone.
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
