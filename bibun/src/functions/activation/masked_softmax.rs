//! Softmax over some of the elements.

use bibun_array::DType;

use crate::functions::{softmax, to_float, where_};
use crate::variable::Variable;

/// Softmax along an axis over those elements where the mask is true; zero elsewhere. Where it is
/// true nowhere along the axis, all is zero.
///
/// Shapes: x any, mask that broadcasts to it → as x. Types: x f32, f64; integers give f64; mask any,
/// zero is false. Gradient: that of [`softmax`] over the elements that take part, exactly zero to
/// the others, whatever they are.
///
/// # Panics
/// If there is no such axis, or the mask does not broadcast to x.
///
/// ```
/// use bibun::{functions::masked_softmax, Variable};
/// let x = Variable::new([[1.0, 9.0, 1.0], [2.0, 3.0, 4.0]]);
/// let mask = Variable::constant([[true, false, true], [false, false, false]]);
/// let y = masked_softmax(&x, &mask, 1);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn masked_softmax(x: impl Into<Variable>, mask: impl Into<Variable>, axis: isize) -> Variable {
    let (x, mask) = (to_float(x.into()), mask.into());
    let mask = mask.broadcast_to(x.shape());
    // Not -∞: a row of nothing else would be NaN, and so would its gradient.
    let lowest = match x.dtype() {
        DType::F32 => f64::from(f32::MIN),
        _ => f64::MIN,
    };
    where_(&mask, softmax(where_(&mask, x, lowest), axis), 0.0)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let mask = [
        true, false, true, true, false, true, true, true, false, false, false, false,
    ];
    let kept = move || Variable::constant(Array::from_vec(mask.to_vec(), [4, 3]));
    vec![
        Sample::new(
            "masked_softmax",
            move |x| vec![masked_softmax(&x[0], kept(), 1)],
            move |x| {
                let x = x[0].to_vec::<f64>();
                let powers = x.iter().zip(mask);
                let powers = powers.map(|(x, kept)| if kept { x.exp() } else { 0.0 });
                let powers: Vec<f64> = powers.collect();
                let y = (0..12).map(|i| {
                    let sum: f64 = powers[i / 3 * 3..][..3].iter().sum();
                    if mask[i] { powers[i] / sum } else { 0.0 }
                });
                vec![Array::from_vec(y.collect(), [4, 3])]
            },
        )
        .input([4, 3], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;

    #[test]
    fn what_is_masked_may_be_anything() {
        for dtype in [DType::F32, DType::F64] {
            let x = [[f64::NAN, 700.0, 700.0], [f64::INFINITY, f64::NAN, 1.0]];
            let x = Variable::new(Variable::constant(x).cast(dtype).array());
            let mask = Variable::constant([[false, true, true], [false, false, false]]);
            let y = masked_softmax(&x, mask, 1);
            let found = y.cast(DType::F64).to_vec::<f64>();
            assert_eq!(found, [0.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
            let weights = Variable::constant([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]);
            let gradients = gradients(&[&(y.cast(DType::F64) * weights).sum(..)], &[&x]);
            let gx = gradients[0].as_ref().expect("a gradient").cast(DType::F64);
            assert_eq!(gx.to_vec::<f64>(), [0.0, -0.5, 0.5, 0.0, 0.0, 0.0]);
        }
    }
}
