//! Softmax with a mask.

use bibun_array::{DType, keep_dims};

use crate::call::composite;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::{any, cast, not_equal, softmax, to_float, where_};
use crate::variable::Variable;

/// Computes the softmax along an axis with a mask: over the elements where a mask of bools is true,
/// or of `x + mask` with a mask of floats.
///
/// Masked elements (false, or -∞) are exactly zero; where all elements along the axis are masked,
/// all are zero. If those that are not masked are all -∞, they are NaN, as in [`softmax`].
///
/// Shapes: x any, mask that broadcasts to it → the shape of x.
/// Types: x floats; integers give f64; mask bool, or a float, which is cast to the dtype of x.
/// Gradient: that of [`softmax`] over the unmasked elements, exactly zero to the masked ones,
/// whatever they are; to a mask of floats as to x.
///
/// # Panics
/// Panics if there is no such axis, or the mask does not broadcast to x or is of integers. Integers
/// are ambiguous, because 0 and 1 could select or be added: use `mask.not_equal(0)`, or cast the
/// mask to floats.
///
/// ```
/// use bibun::{functions::masked_softmax, Variable};
/// let x = Variable::new([[1.0, 9.0, 1.0], [2.0, 3.0, 4.0]]);
/// let mask = Variable::constant([[true, false, true], [false, false, false]]);
/// let y = masked_softmax(&x, &mask, 1);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]);
/// let added = Variable::constant([3f64.ln(), f64::NEG_INFINITY, 0.0]);
/// let y = masked_softmax(Variable::new([1.0, 9.0, 1.0]), &added, 0);
/// assert!((y - Variable::constant([0.75, 0.0, 0.25])).abs().max(..).item::<f64>() < 1e-15);
/// ```
#[track_caller]
pub fn masked_softmax(x: impl Into<Variable>, mask: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("masked_softmax");
    let (x, mask) = (to_float(x.into()), mask.into());
    expect_mask("masked_softmax", &[("x", &x.spec())], &x.spec(), &mask);
    let (x, kept) = if mask.dtype() == DType::Bool {
        (x, mask)
    } else {
        let mask = cast(mask, x.dtype());
        (x + &mask, not_equal(mask, f64::NEG_INFINITY))
    };
    let kept = kept.broadcast_to(x.shape());
    // The softmax of a row of -∞ would be NaN, and so would its gradient.
    let hidden = where_(any(&kept, keep_dims(axis)), f64::NEG_INFINITY, 0.0);
    let hidden = cast(hidden, x.dtype());
    where_(&kept, softmax(where_(&kept, x, hidden), axis), 0.0)
}

/// Raises an error for a mask of scores that is neither bool nor float, or does not broadcast to
/// them.
#[track_caller]
pub(crate) fn expect_mask(
    function: &'static str,
    inputs: &[(&str, &Spec)],
    scores: &Spec,
    mask: &Variable,
) {
    let mask = mask.spec();
    let is_one = mask.dtype == DType::Bool || mask.dtype.is_float();
    if is_one && mask.shape.broadcasts_to(&scores.shape) {
        return;
    }
    let shape = &scores.shape;
    let must_hold = format!(
        "the mask must broadcast to {shape} and be bool, true where an element takes part, or float, \
         which is added"
    );
    let inputs = [inputs, &[("mask", &mask)]].concat();
    mismatch(function, &inputs, must_hold)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    let mask = [
        true, false, true, true, false, true, true, true, false, false, false, false,
    ];
    let kept = move || Variable::constant(Array::from_vec(mask.to_vec(), [4, 3]));
    vec![
        Sample::new(
            "masked_softmax",
            move |x| vec![masked_softmax(&x[0], beside(x, kept()), 1)],
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
        Sample::new(
            "masked_softmax",
            move |x| {
                let kept = beside(x, kept());
                let hidden = kept.where_(&x[1], f64::NEG_INFINITY);
                vec![masked_softmax(&x[0], hidden, 0)]
            },
            move |x| {
                let [x, added] = [0, 1].map(|i| x[i].to_vec::<f64>());
                let power = |i: usize| {
                    if mask[i] {
                        (x[i] + added[i]).exp()
                    } else {
                        0.0
                    }
                };
                let y =
                    (0..12).map(|i| power(i) / (0..4).map(|k| power(k * 3 + i % 3)).sum::<f64>());
                vec![Array::from_vec(y.collect(), [4, 3])]
            },
        )
        .input([4, 3], -2.0..2.0)
        .input([4, 3], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;

    #[test]
    fn masked_elements_may_be_anything() {
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

    #[test]
    fn scores_that_are_all_infinite_are_nan_as_in_softmax() {
        let x = Variable::constant([[f64::NEG_INFINITY, 3.0], [1.0, 3.0]]);
        let mask = Variable::constant([[true, false], [true, false]]);
        let y = masked_softmax(x, mask, 1).to_vec::<f64>();
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [0.0, 1.0, 0.0]);
    }

    #[test]
    fn the_lowest_number_is_a_score_like_others() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let lowest = Variable::constant(bibun_array::Array::full([1, 2], dtype.lowest()));
            let mask = Variable::constant([[true, false]]);
            assert_eq!(
                masked_softmax(&lowest, &mask, 1).to_vec::<f64>(),
                [1.0, 0.0]
            );
            let added = Variable::constant([[0.0, f64::NEG_INFINITY]]);
            assert_eq!(
                masked_softmax(&lowest, &added, 1).to_vec::<f64>(),
                [1.0, 0.0]
            );
        }
    }

    #[test]
    fn floats_are_added() {
        let x = Variable::new([[0.0f32, f32::NAN, 0.0], [f32::NAN, 1.0, 2.0]]);
        let hidden = f64::NEG_INFINITY;
        let mask = Variable::new([[0.0, hidden, 3f64.ln()], [hidden; 3]]);
        let y = masked_softmax(&x, &mask, 1);
        assert_eq!(y.dtype(), DType::F32);
        let found = y.to_vec::<f32>();
        assert_eq!(found[1], 0.0);
        assert_eq!(found[3..], [0.0; 3]);
        assert!((found[0] - 0.25).abs() < 1e-7 && (found[2] - 0.75).abs() < 1e-7);
        let weights = Variable::constant([[0f32, 5.0, 1.0], [1.0, 2.0, 3.0]]);
        let gradients = gradients(&[&(y * weights).sum(..)], &[&x, &mask]);
        for gradient in gradients {
            let gradient = gradient
                .expect("a gradient")
                .cast(DType::F64)
                .to_vec::<f64>();
            let expected = [-0.1875, 0.0, 0.1875, 0.0, 0.0, 0.0];
            for (found, expected) in gradient.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-7 && (expected != 0.0 || found == 0.0));
            }
        }
    }

    #[test]
    fn integers_and_other_shapes_are_refused() {
        let x = Variable::new([[1.0, 2.0]]);
        for mask in [
            Variable::constant([[1i64, 0]]),
            Variable::constant([true, false, true]),
            Variable::constant([[true, false], [true, false]]),
        ] {
            let error = crate::attempt(|| masked_softmax(&x, &mask, 1)).unwrap_err();
            let message = error.to_string();
            let beginning = format!(
                "masked_softmax: inputs do not fit: x = [1, 2] f64, mask = {} (",
                mask.spec()
            );
            assert!(message.starts_with(&beginning), "{message}");
            assert!(message.contains("float, which is added"), "{message}");
        }
    }
}
