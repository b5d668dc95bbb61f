//! Elements that are found by their values, whose number is known only by looking at them.

use bibun_array::{Array, DType};

use crate::batch::Batched;
use crate::call::composite;
use crate::error::mismatch;
use crate::function::{Fixed, Mismatch, Spec, no_rule};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{broadcast_to, cast, reshape, take};
use crate::variable::Variable;

/// Returns the positions of the elements that are not zero (or are true), in row-major order, one row
/// for each. NaN is not zero. The number of rows depends on the elements, so they cannot be traced or
/// differ between the elements of a batch.
///
/// Shapes: x any of rank r → `[count, r]`. Types: all → i64. Gradient: none.
///
/// ```
/// use bibun::{functions::nonzero, Variable};
/// let y = nonzero(&Variable::new([[0.0, 1.0], [2.0, 0.0]]));
/// assert_eq!(y.shape(), [2, 2]);
/// assert_eq!(y.to_vec::<i64>(), [0, 1, 1, 0]);
/// ```
#[track_caller]
pub fn nonzero(x: impl Into<Variable>) -> Variable {
    Discrete::of(Nonzero, [x.into()])
}
method!(nonzero);

/// Returns the elements of x where the mask holds, in row-major order. Both are broadcast. The number of
/// elements depends on the mask, so it cannot be traced or differ between the elements of a batch.
///
/// Shapes: x, mask that broadcast → `[count]`. Types: x all, mask any, zero is false.
/// Gradient: `gy` to the elements that are selected, zero elsewhere; the mask has none.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::masked_select, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(masked_select(&x, [true, false]).to_vec::<f64>(), [1.0, 3.0]);
/// ```
#[track_caller]
pub fn masked_select(x: impl Into<Variable>, mask: impl Into<Variable>) -> Variable {
    let _whole = composite("masked_select");
    let (x, mask) = (x.into(), mask.into());
    let (x_spec, spec) = (x.spec(), mask.spec());
    let Some(shape) = x_spec.shape.broadcast(&spec.shape) else {
        mismatch(
            "masked_select",
            &[("x", &x_spec), ("mask", &spec)],
            MUST_BROADCAST,
        )
    };
    let [x, mask] =
        [x, cast(mask, DType::Bool)].map(|x| reshape(broadcast_to(x, &shape), shape.size()));
    let found = nonzero(mask);
    let count = found.shape()[0];
    take(x, reshape(found, count), 0)
}
method!(masked_select, mask: impl Into<Variable>);

#[derive(Clone, Debug)]
struct Nonzero;

impl DiscreteRule for Nonzero {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "nonzero"
    }

    fn shape(&self, _: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Err(Mismatch::KNOWN_BY_RUNNING)
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x]: [Array; 1]) -> Array {
        x.nonzero()
    }

    fn batch(&self, _: [Batched; 1]) -> [Batched; 1] {
        let advice = "the elements of a batch would differ in shape; a mask of fixed shape does the same \
                      with `where_`";
        no_rule("nonzero", "batch", advice)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    vec![
        Sample::new(
            "masked_select",
            |x| {
                vec![masked_select(
                    &x[0],
                    beside(x, [[true, false, true], [false, false, true]]),
                )]
            },
            move |x| {
                let places = [[0, 0], [0, 2], [1, 2]];
                vec![by_index([3], |i| at(&x[0], &places[i[0]]))]
            },
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "masked_select",
            |x| vec![masked_select(&x[0], beside(x, [[true], [false]]))],
            move |x| vec![by_index([2], |i| at(&x[0], &[i[0]]))],
        )
        .input([2], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_one() {
        let empty = Variable::constant(Array::zeros([0, 2], DType::F64));
        assert_eq!(nonzero(&empty).shape(), [0, 2]);
        assert_eq!(nonzero(5.0).shape(), [1, 0]);
        assert_eq!(nonzero(false).shape(), [0, 0]);
        let x = Variable::constant([0.0, f64::NAN, -0.0, 2.0]);
        assert_eq!(nonzero(&x).to_vec::<i64>(), [1, 3]);
        assert_eq!(masked_select(1.0, [true, true]).to_vec::<f64>(), [1.0, 1.0]);
    }
}
