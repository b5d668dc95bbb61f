//! Dropout.

use bibun_array::Generator;

use super::random_bernoulli;
use crate::error::{Error, raise};
use crate::functions::to_float;
use crate::scope;
use crate::variable::Variable;

/// In training mode each element is zero with probability `ratio`, and the others are divided by
/// `1 - ratio`, so that the expectation stays; in test mode x itself (Srivastava et al. 2014).
///
/// Shapes: x any → the same. Types: floats. Gradient: that of the elements that are left.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{functions::dropout, Variable};
/// let x = Variable::new([1.0, 1.0, 1.0, 1.0]);
/// let generator = &mut Generator::new(0);
/// let y = dropout(&x, 0.5, generator).to_vec::<f64>();
/// assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
/// assert_eq!(bibun::test(|| dropout(&x, 0.5, generator)).to_vec::<f64>(), [1.0; 4]);
/// ```
///
/// # Panics
/// If `ratio` is not in `[0, 1)`.
#[track_caller]
pub fn dropout(x: impl Into<Variable>, ratio: f64, generator: &mut Generator) -> Variable {
    if !(0.0..1.0).contains(&ratio) {
        let what = format!("the ratio is {ratio}, it must be at least 0 and less than 1");
        raise(Error::argument("dropout", what));
    }
    let x = to_float(x.into());
    if !scope::is_training() || ratio == 0.0 {
        return x;
    }
    let left = random_bernoulli(x.shape(), 1.0 - ratio, generator);
    let scale = left.cast(x.dtype()) * (1.0 / (1.0 - ratio));
    x * scale
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    // Every lane must do what it does alone, so all elements share one draw here: the seed leaves
    // it. Lanes with draws of their own are tested with the transformations.
    let call = |x: &[Variable]| vec![crate::test(|| dropout(&x[0], 0.5, &mut Generator::new(0)))];
    let reference = |x: &[Array]| vec![x[0].clone()];
    vec![Sample::new("dropout", call, reference).input([3, 2], -1.0..1.0)]
}
