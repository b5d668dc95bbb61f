//! Sorting along an axis.

use bibun_array::{Array, DType, SortAxis, ascending, descending};

use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{beside_batch, gather};
use crate::variable::Variable;

/// Returns the positions that sort an axis: in ascending order, unless it is
/// [`descending`](bibun_array::descending). NaN counts as larger than all numbers. The order is
/// stable: equal elements stay as they are, in both directions.
///
/// Shapes: x any → the same.
/// Types: all → i64.
/// Gradient: none.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{array::descending, functions::argsort, Variable};
/// let x = Variable::new([2.0, 1.0, 2.0]);
/// assert_eq!(argsort(&x, 0).to_vec::<i64>(), [1, 0, 2]);
/// assert_eq!(argsort(&x, descending(0)).to_vec::<i64>(), [0, 2, 1]);
/// ```
#[track_caller]
pub fn argsort(x: impl Into<Variable>, axis: impl Into<SortAxis>) -> Variable {
    let x = x.into();
    let (axis, descending) = axis.into().resolve("argsort", x.rank(), false);
    Discrete::of(ArgSort { axis, descending }, [x])
}
method!(argsort, axis: impl Into<SortAxis>);

/// Sorts the elements along an axis: in ascending order, unless it is
/// [`descending`](bibun_array::descending); see [`argsort`].
///
/// Shapes: x any → the same.
/// Types: all.
/// Gradient: `gy`, put back in the original order; of equal elements, the first in x gets that of
/// the first in y, because sorting is stable.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::sort, Variable};
/// let x = Variable::new([3.0, 1.0, 2.0]);
/// let y = sort(&x, 0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 3.0]);
/// (y * Variable::constant([1.0, 10.0, 100.0])).sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [100.0, 1.0, 10.0]);
/// ```
#[track_caller]
pub fn sort(x: impl Into<Variable>, axis: impl Into<SortAxis>) -> Variable {
    let _whole = composite("sort");
    let x = x.into();
    let (axis, descending) = axis.into().resolve("sort", x.rank(), false);
    let positions = Discrete::of(ArgSort { axis, descending }, [x.clone()]);
    gather(x, positions, axis as isize)
}
method!(sort, axis: impl Into<SortAxis>);

/// Returns the `k` largest elements along an axis, largest first, and their positions; the
/// smallest, smallest first, if the axis is [`ascending`](bibun_array::ascending). NaN counts as
/// larger than all numbers; of equal elements the first comes first.
///
/// Shapes: x any → two results with the shape of x, with size `k` along the axis.
/// Types: all; positions are i64.
/// Gradient: that of the values goes to their positions, 0 elsewhere; the positions have none.
///
/// # Panics
/// Panics if there is no such axis, or there are fewer than `k` elements along it.
///
/// ```
/// use bibun::{array::ascending, functions::top_k, Variable};
/// let x = Variable::new([3.0, 9.0, 1.0]);
/// let (values, positions) = top_k(&x, 2, 0);
/// assert_eq!(values.to_vec::<f64>(), [9.0, 3.0]);
/// assert_eq!(positions.to_vec::<i64>(), [1, 0]);
/// assert_eq!(top_k(&x, 2, ascending(0)).0.to_vec::<f64>(), [1.0, 3.0]);
/// ```
#[track_caller]
pub fn top_k(x: impl Into<Variable>, k: usize, axis: impl Into<SortAxis>) -> (Variable, Variable) {
    let _whole = composite("top_k");
    let x = x.into();
    let (axis, descending) = axis.into().resolve("top_k", x.rank(), true);
    if k > x.shape()[axis] {
        let what = format!(
            "axis {axis} of x = {} has fewer than {k} elements",
            x.spec()
        );
        raise(Error::argument("top_k", what));
    }
    let positions = Discrete::of(
        TopK {
            k,
            axis,
            descending,
        },
        [x.clone()],
    );
    (gather(x, &positions, axis as isize), positions)
}
method!(top_k -> (Self, Self), k: usize, axis: impl Into<SortAxis>);

#[derive(Clone, Debug)]
struct ArgSort {
    axis: usize,
    descending: bool,
}

impl DiscreteRule for ArgSort {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "argsort"
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&x.shape, DType::I64))
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        x.argsort(along(self.axis, self.descending))
    }
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        [Batched::along(
            Discrete::of(Self { axis, ..*self }, [x]),
            batch_axis,
        )]
    }
}

/// Returns an axis with its order.
fn along(axis: usize, is_descending: bool) -> SortAxis {
    match is_descending {
        true => descending(axis as isize),
        false => ascending(axis as isize),
    }
}

/// The positions of the largest or smallest elements.
#[derive(Clone, Debug)]
struct TopK {
    k: usize,
    axis: usize,
    descending: bool,
}

impl DiscreteRule for TopK {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "top_k"
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(x.shape.replaced(self.axis, self.k), DType::I64))
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        let (_, positions) = x.top_k(self.k, along(self.axis, self.descending));
        positions
    }
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        [Batched::along(
            Discrete::of(Self { axis, ..*self }, [x]),
            batch_axis,
        )]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::along_axis;
    let ranked = |x: &[f64]| {
        let mut positions: Vec<usize> = (0..x.len()).collect();
        positions.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
        positions
    };
    let mut samples = vec![
        Sample::new(
            "sort",
            |x| vec![sort(&x[0], descending(-1)), sort(&x[0], ascending(0))],
            move |x| {
                let sorted = |x: &[f64]| ranked(x).into_iter().map(|i| x[i]).collect::<Vec<_>>();
                let reversed = |x: &[f64]| sorted(x).into_iter().rev().collect();
                vec![along_axis(&x[0], 1, reversed), along_axis(&x[0], 0, sorted)]
            },
        )
        .input([2, 4], -2.0..2.0),
        Sample::new(
            "argsort",
            |x| vec![argsort(&x[0], descending(0))],
            move |x| {
                let positions = |x: &[f64]| {
                    let positions = ranked(x).into_iter().rev();
                    positions.map(|i| i as f64).collect()
                };
                vec![along_axis(&x[0], 0, positions).cast(DType::I64)]
            },
        )
        .input([3, 2], -2.0..2.0),
        Sample::new(
            "top_k",
            |x| vec![top_k(&x[0], 2, ascending(1)).0],
            move |x| {
                let least = |x: &[f64]| ranked(x).into_iter().take(2).map(|i| x[i]).collect();
                vec![along_axis(&x[0], 1, least)]
            },
        )
        .input([2, 4], -2.0..2.0),
    ];
    for (shape, axis) in [(vec![2, 3], 1), (vec![3, 1, 2], 0), (vec![2, 1, 3], 1)] {
        let at = axis as usize;
        samples.push(
            Sample::new(
                "sort",
                move |x| vec![sort(&x[0], axis)],
                move |x| {
                    let sorted = |x: &[f64]| ranked(x).into_iter().map(|i| x[i]).collect();
                    vec![along_axis(&x[0], at, sorted)]
                },
            )
            .input(&shape, -2.0..2.0),
        );
        samples.push(
            Sample::new(
                "argsort",
                move |x| vec![argsort(&x[0], axis)],
                move |x| {
                    let positions = |x: &[f64]| ranked(x).into_iter().map(|i| i as f64).collect();
                    vec![along_axis(&x[0], at, positions).cast(DType::I64)]
                },
            )
            .input(&shape, -2.0..2.0),
        );
        let k = if shape[at] == 1 { 1 } else { 2 };
        samples.push(
            Sample::new(
                "top_k",
                move |x| {
                    let (values, positions) = top_k(&x[0], k, axis);
                    vec![values, positions]
                },
                move |x| {
                    let best = |x: &[f64]| ranked(x).into_iter().rev().take(k).collect::<Vec<_>>();
                    let values = |x: &[f64]| best(x).into_iter().map(|i| x[i]).collect();
                    let positions = |x: &[f64]| best(x).into_iter().map(|i| i as f64).collect();
                    vec![
                        along_axis(&x[0], at, values),
                        along_axis(&x[0], at, positions).cast(DType::I64),
                    ]
                },
            )
            .input(&shape, -2.0..2.0),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, gradients};

    #[test]
    fn equal_elements_and_nan_have_their_places() {
        let x = Variable::new([2.0, f64::NAN, 1.0, 2.0]);
        assert_eq!(argsort(&x, 0).to_vec::<i64>(), [2, 0, 3, 1]);
        assert_eq!(argsort(&x, descending(0)).to_vec::<i64>(), [1, 0, 3, 2]);
        let (_, positions) = top_k(&x, 3, -1);
        assert_eq!(positions.to_vec::<i64>(), [1, 0, 3]);
        let (_, positions) = top_k(&x, 3, ascending(-1));
        assert_eq!(positions.to_vec::<i64>(), [2, 0, 3]);
        let x = Variable::new([5.0, 5.0]);
        let y = sort(&x, 0) * Variable::constant([1.0, 2.0]);
        let gradients = gradients(&[&y.sum(..)], &[&x]);
        assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [1.0, 2.0]);
    }

    #[test]
    fn there_must_be_k() {
        let x = Variable::new([2.0, 1.0]);
        let message = attempt(|| top_k(&x, 3, 0)).unwrap_err().to_string();
        assert!(message.contains("fewer than 3 elements"), "{message}");
        assert_eq!(top_k(&x, 0, 0).0.shape(), [0]);
    }
}
