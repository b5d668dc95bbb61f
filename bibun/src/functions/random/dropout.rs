//! Dropout.

use bibun_array::{Distribution, Generator};

use super::draws::Random;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::to_float;
use crate::scope;
use crate::variable::Variable;

/// Sets each element to zero with probability `rate` in training mode, and divides the others by
/// `1 - rate` to keep the expectation; returns x in evaluation mode (Srivastava et al. 2014).
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `gy / (1 - rate)` to the remaining elements, zero elsewhere.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{functions::dropout, Variable};
/// let x = Variable::new([1.0, 1.0, 1.0, 1.0]);
/// let generator = &mut Generator::new(0);
/// let y = dropout(&x, 0.5, generator).to_vec::<f64>();
/// assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
/// assert_eq!(bibun::eval_mode(|| dropout(&x, 0.5, generator)).to_vec::<f64>(), [1.0; 4]);
/// ```
///
/// # Panics
/// Panics if `rate` is not in `[0, 1)`.
#[track_caller]
pub fn dropout(x: impl Into<Variable>, rate: f64, generator: &mut Generator) -> Variable {
    drop_out(x.into(), rate, |left| left.draw(generator))
}

/// Computes [`dropout`] with the numbers of one call of a link, which come from the stream that is
/// split, with the call's number, from the stream with this key.
#[track_caller]
pub(crate) fn dropout_of_call(
    x: &Variable,
    rate: f64,
    key_and_call: impl FnOnce() -> Variable,
) -> Variable {
    drop_out(x.clone(), rate, |left| left.draw_below(key_and_call()))
}

#[track_caller]
fn drop_out(x: Variable, rate: f64, draw: impl FnOnce(Random) -> Variable) -> Variable {
    let _whole = composite("dropout");
    if !(0.0..1.0).contains(&rate) {
        let what = format!("the rate is {rate}, it must be at least 0 and less than 1");
        raise(Error::argument("dropout", what));
    }
    let x = to_float(x);
    if !scope::is_training() || rate == 0.0 {
        return x;
    }
    let left = Distribution::bernoulli(1.0 - rate);
    let left = draw(Random::new("random_bernoulli", left, x.shape(), x.device()));
    let scale = left.cast(x.dtype()) * (1.0 / (1.0 - rate));
    x * scale
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    // The stream starts anew with every call, so that all calls and all batch elements draw the
    // same. Batches with draws of their own are tested with the transformations.
    let call = |x: &[Variable]| {
        let mut generator = Generator::new(7);
        vec![crate::train_mode(|| dropout(&x[0], 0.25, &mut generator))]
    };
    let reference = |x: &[Array]| {
        let left = Generator::new(7).bernoulli(0.75, x[0].shape());
        let elements = x[0].to_vec::<f64>().into_iter().zip(left.to_vec::<bool>());
        let elements: Vec<f64> = elements
            .map(|(x, left)| if left { x / 0.75 } else { 0.0 })
            .collect();
        assert!(elements.contains(&0.0) && elements.iter().any(|&x| x != 0.0));
        vec![Array::from_vec(elements, x[0].shape())]
    };
    vec![Sample::new("dropout", call, reference).input([4, 3], -1.0..1.0)]
}
