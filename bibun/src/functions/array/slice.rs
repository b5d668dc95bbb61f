//! Parts of an array, and the adjoint: a part put into zeros.

use bibun_array::{Array, DType, Index, Shape};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::{calling, composite_if};
use crate::examples::Examples;
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{batch_in_front, broadcast_to};
use crate::variable::Variable;

type Indices = SmallVec<[Index; 4]>;

/// Returns a part of x; [`s!`](crate::s) describes how to write the index. Axes that it does not
/// mention are taken whole.
///
/// Shapes: x any → ranges keep their axes, integers remove them, `new` adds one of size 1.
/// Types: all. Gradient: `gy` at the part, zero elsewhere ([`put_slice`]).
///
/// # Panics
/// Panics if there are more indices than axes, or an integer index is out of bounds.
///
/// ```
/// use bibun::{functions::slice, s, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(slice(&x, s![1, ..; -1]).to_vec::<f64>(), [6.0, 5.0, 4.0]);
/// assert_eq!(slice(&x, s![..., new, 1..]).shape(), [2, 1, 2]);
/// ```
#[track_caller]
pub fn slice(x: impl Into<Variable>, index: &[Index]) -> Variable {
    let x = x.into();
    let part = part_of(&x.shape(), index);
    let index = Indices::from_slice(index);
    Linear::of(Slice { index, part }, x)
}
method!(slice, index: &[Index]);

/// Returns zeros of a shape with x, broadcast, at the part that [`slice()`] returns.
///
/// Shapes: x that broadcasts to the part → `shape`. Types: all.
/// Gradient: the part of `gy` ([`slice()`]).
///
/// # Panics
/// Panics if x cannot be broadcast to the part, there are more indices than axes, or an integer index is
/// out of bounds.
///
/// ```
/// use bibun::{functions::put_slice, s, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// assert_eq!(put_slice(&x, s![1..3], 4).to_vec::<f64>(), [0.0, 1.0, 2.0, 0.0]);
/// ```
#[track_caller]
pub fn put_slice(x: impl Into<Variable>, index: &[Index], shape: impl Into<Shape>) -> Variable {
    let _called = calling("put_slice");
    let (x, shape) = (x.into(), shape.into());
    let part = part_of(&shape, index);
    let _whole = composite_if(x.shape() != part, "put_slice");
    let x = broadcast_to(x, &part);
    let index = Indices::from_slice(index);
    Linear::of(PutSlice { index, part, shape }, x)
}
method!(put_slice, index: &[Index], shape: impl Into<Shape>);

/// Returns the shape of a part. An error names the caller's location.
#[track_caller]
fn part_of(shape: &Shape, index: &[Index]) -> Shape {
    // Zeros have no memory: this computes nothing but the shape.
    let part = Array::zeros(shape, DType::Bool).slice(index);
    part.shape().clone()
}

/// Returns the index of the part of all batch elements, whose axis is in front.
fn for_the_batch(index: &[Index]) -> Indices {
    [Index::ALL].iter().chain(index).copied().collect()
}

/// Returns the axis of the whole that `axis` of its part belongs to, and the positions along it, or
/// `None` for a new axis.
fn whole_axis(shape: &Shape, index: &[Index], axis: usize) -> Option<(usize, Vec<usize>)> {
    let named = |index: &&Index| matches!(index, Index::At(_) | Index::Range { .. });
    let whole = shape.rank() - index.iter().filter(named).count();
    let has_ellipsis = index.iter().any(|index| matches!(index, Index::Ellipsis));
    let rest = (!has_ellipsis).then_some(Index::Ellipsis);
    // The axes of the part, each with the axis of the whole and its range.
    let (mut axes, mut at) = (Vec::new(), 0);
    for index in index.iter().copied().chain(rest) {
        match index {
            Index::At(_) => at += 1,
            Index::Range { .. } => {
                axes.push(Some((at, index)));
                at += 1;
            }
            Index::NewAxis => axes.push(None),
            Index::Ellipsis => {
                axes.extend((at..at + whole).map(|axis| Some((axis, Index::ALL))));
                at += whole;
            }
        }
    }
    let (of_whole, range) = axes[axis]?;
    let positions = Array::arange(0, shape[of_whole] as i64).slice(&[range]);
    let positions = positions.to_vec::<i64>().into_iter();
    Some((
        of_whole,
        positions.map(|position| position as usize).collect(),
    ))
}

#[derive(Clone, Debug)]
struct Slice {
    index: Indices,
    /// The shape of the part.
    part: Shape,
}

impl LinearRule for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&self.part, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.slice(&self.index)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        put_slice(gy, &self.index, &x.shape)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let x = batch_in_front(x, axis);
        Batched::along(slice(x, &for_the_batch(&self.index)), 0)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        let (axis, positions) = whole_axis(&x.shape, &self.index, y.axis())?;
        y.spread(axis, x.shape[axis], positions)
    }
}

#[derive(Clone, Debug)]
struct PutSlice {
    index: Indices,
    /// The shape of the part.
    part: Shape,
    /// The shape of the whole.
    shape: Shape,
}

impl LinearRule for PutSlice {
    fn name(&self) -> &'static str {
        "put_slice"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        if x.shape != self.part {
            let must_hold = format!("the part has the shape {}", self.part);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        Ok(Spec::new(&self.shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        let mut whole = Array::zeros(&self.shape, x.dtype());
        whole.assign(&self.index, &x);
        whole
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        slice(gy, &self.index)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let x = batch_in_front(x, axis);
        let shape = self.shape.inserted(0, x.shape()[0]);
        Batched::along(put_slice(x, &for_the_batch(&self.index), shape), 0)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        (0..x.shape.rank()).find_map(|axis| {
            let (whole, positions) = whole_axis(&self.shape, &self.index, axis)?;
            (whole == y.axis()).then(|| y.picked(axis, positions))
        })
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    use crate::s;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "slice",
            |x| vec![slice(&x[0], s![.., 1..])],
            move |x| vec![by_index([2, 2], |i| at(&x[0], &[i[0], i[1] + 1]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "slice",
            |x| vec![slice(&x[0], s![-1, new, ..; -2])],
            move |x| vec![by_index([1, 2, 2], |i| at(&x[0], &[1, 2 - 2 * i[1], i[2]]))],
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "slice",
            |x| vec![slice(&x[0], s![..., new, 0])],
            move |x| vec![by_index([2, 3, 1], |i| at(&x[0], &[i[0], i[1], 0]))],
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "slice",
            |x| vec![slice(&x[0], s![2..2, 0])],
            |_| vec![by_index([0], |_| 0.0)],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "put_slice",
            |x| vec![put_slice(&x[0], s![..; -2, 1], [3, 2])],
            move |x| {
                vec![by_index([3, 2], |i| match i {
                    [0, 1] => at(&x[0], &[1]),
                    [2, 1] => at(&x[0], &[0]),
                    _ => 0.0,
                })]
            },
        )
        .input([2], range.clone()),
        Sample::new(
            "put_slice",
            |x| vec![put_slice(&x[0], s![..., new, 1..3], [2, 4])],
            move |x| {
                vec![by_index([2, 4], |i| match i[1] {
                    1 | 2 => at(&x[0], &[0, i[1] - 1]),
                    _ => 0.0,
                })]
            },
        )
        .input([1, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, s};

    #[test]
    fn integers_and_bools_are_cut() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        assert_eq!(x.slice(s![.., 1]).to_vec::<i64>(), [2, 4]);
        let flags = Variable::constant([true, false, true]);
        assert_eq!(flags.slice(s![1..]).to_vec::<bool>(), [false, true]);
        let whole = put_slice(&flags, s![1..4], 5);
        assert_eq!(whole.to_vec::<bool>(), [false, true, false, true, false]);
    }

    #[test]
    fn mistakes_name_the_shape() {
        let x = Variable::new([[1.0, 2.0]]);
        for index in [s![3], s![.., .., ..], s![..., ...]] {
            let error = attempt(|| slice(&x, index)).unwrap_err().to_string();
            assert!(error.contains("[1, 2]"), "{error}");
        }
        assert!(attempt(|| put_slice(&x, s![..3], 4)).is_err());
    }
}
