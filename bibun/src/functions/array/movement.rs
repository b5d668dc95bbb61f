//! New shapes over the same elements: reshape, permute, broadcast, and functions made of them.

use bibun_array::{Array, Axes, NewShape, Shape, normalize_axes, normalize_axis};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::sum;
use crate::variable::Variable;

type AxisList = SmallVec<[isize; 4]>;

/// Changes the shape and keeps the elements in row-major order. One size may be -1, which stands for
/// the size that follows from the others.
///
/// Shapes: x any → `shape`, of the same size. Types: all. Gradient: `gy` in the shape of x.
///
/// # Panics
/// Panics if the sizes differ.
///
/// ```
/// use bibun::{functions::reshape, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(reshape(&x, [2, 2]).shape(), [2, 2]);
/// assert_eq!(reshape(&x, [-1, 1]).shape(), [4, 1]);
/// ```
#[track_caller]
pub fn reshape(x: impl Into<Variable>, shape: impl Into<NewShape>) -> Variable {
    let x = x.into();
    match shape.into().resolve(&x.shape()) {
        Ok(shape) => Linear::of(Reshape(shape), x),
        Err(what) => mismatch("reshape", &[("x", &x.spec())], what),
    }
}
method!(reshape, shape: impl Into<NewShape>);

#[derive(Clone, Debug)]
struct Reshape(Shape);

impl LinearRule for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        if x.shape.size() != self.0.size() {
            let must_hold = format!("the new shape {} must have as many elements", self.0);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        Ok(Spec::new(&self.0, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.reshape(&self.0)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        reshape(gy, &x.shape)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let x = batch_in_front(x, axis);
        let shape = self.0.inserted(0, x.shape()[0]);
        Batched::along(reshape(x, shape), 0)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        y.reshaped(&self.0, &x.shape)
    }
}

/// Puts the axes in another order.
///
/// Shapes: x any → the sizes in the new order. Types: all. Gradient: `gy`, permuted back.
///
/// # Panics
/// Panics if `axes` does not name each axis once.
///
/// ```
/// use bibun::{functions::permute, Variable};
/// let x = Variable::new([[[1.0, 2.0, 3.0]]]);
/// assert_eq!(permute(&x, &[2, 0, 1]).shape(), [3, 1, 1]);
/// ```
#[track_caller]
pub fn permute(x: impl Into<Variable>, axes: &[isize]) -> Variable {
    let x = x.into();
    let rank = x.rank();
    if normalize_axes("permute", axes, rank).len() != rank {
        let what = format!("{axes:?} does not name every axis of x = {}", x.spec());
        raise(Error::argument("permute", what));
    }
    let axes: AxisList = axes
        .iter()
        .map(|&axis| normalize_axis("permute", axis, rank) as isize)
        .collect();
    if axes.is_sorted() {
        x
    } else {
        Linear::of(Permute(axes), x)
    }
}
method!(permute, axes: &[isize]);

#[derive(Clone, Debug)]
struct Permute(AxisList);

impl LinearRule for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let shape: Shape = self.0.iter().map(|&axis| x.shape[axis as usize]).collect();
        Ok(Spec::new(shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.permute(&self.0)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let mut back: AxisList = SmallVec::from_elem(0, self.0.len());
        for (to, &from) in self.0.iter().enumerate() {
            back[from as usize] = to as isize;
        }
        permute(gy, &back)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let own = |of_element: isize| of_element + isize::from(of_element >= axis as isize);
        let axes: AxisList = std::iter::once(axis as isize)
            .chain(self.0.iter().map(|&a| own(a)))
            .collect();
        Batched::along(permute(x, &axes), 0)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        Some(y.moved(self.0[y.axis()] as usize))
    }
}

/// Reverses the order of the axes, which transposes a matrix.
///
/// Shapes: x `[n, m]` → `[m, n]`, and so on. Types: all. Gradient: `gy`, transposed.
///
/// ```
/// use bibun::{functions::transpose, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(transpose(&x).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn transpose(x: impl Into<Variable>) -> Variable {
    let _whole = composite("transpose");
    let x = x.into();
    let axes: AxisList = (0..x.rank() as isize).rev().collect();
    permute(x, &axes)
}
method!(transpose);

/// Moves one axis to another position. The others keep their order.
///
/// Shapes: x any → the sizes in the new order. Types: all. Gradient: `gy`, moved back.
///
/// # Panics
/// Panics if an axis does not exist.
///
/// ```
/// use bibun::{functions::moveaxis, Variable};
/// let x = Variable::new([[[1.0, 2.0, 3.0]]]);
/// assert_eq!(moveaxis(&x, -1, 0).shape(), [3, 1, 1]);
/// ```
#[track_caller]
pub fn moveaxis(x: impl Into<Variable>, from: isize, to: isize) -> Variable {
    let _whole = composite("moveaxis");
    let x = x.into();
    let rank = x.rank();
    let from = normalize_axis("moveaxis", from, rank);
    let to = normalize_axis("moveaxis", to, rank);
    let mut axes: AxisList = (0..rank as isize).collect();
    let axis = axes.remove(from);
    axes.insert(to, axis);
    permute(x, &axes)
}
method!(moveaxis, from: isize, to: isize);

/// Moves `axis` to the position before the present axis `start`, or behind all axes if `start` is the
/// rank. [`moveaxis`] takes the position after the move instead.
///
/// Shapes: x any → the sizes in the new order. Types: all. Gradient: `gy`, moved back.
///
/// # Panics
/// Panics if `axis` or `start` does not exist.
///
/// ```
/// use bibun::{functions::rollaxis, Variable};
/// let x = Variable::new([[[1.0, 2.0, 3.0]]]);
/// assert_eq!(rollaxis(&x, 2, 0).shape(), [3, 1, 1]);
/// ```
#[track_caller]
pub fn rollaxis(x: impl Into<Variable>, axis: isize, start: isize) -> Variable {
    let _whole = composite("rollaxis");
    let x = x.into();
    let rank = x.rank();
    let axis = normalize_axis("rollaxis", axis, rank);
    // A negative start counts axes from the end, where the position behind all has no number.
    let start = match start {
        start if start == rank as isize => rank,
        start => normalize_axis("rollaxis", start, rank),
    };
    let to = start - usize::from(axis < start);
    moveaxis(x, axis as isize, to as isize)
}
method!(rollaxis, axis: isize, start: isize);

/// Exchanges two axes.
///
/// Shapes: x any → the sizes in the new order. Types: all. Gradient: `gy`, exchanged back.
///
/// # Panics
/// Panics if an axis does not exist.
///
/// ```
/// use bibun::{functions::swapaxes, Variable};
/// let x = Variable::new([[[1.0, 2.0, 3.0]]]);
/// assert_eq!(swapaxes(&x, 0, 2).shape(), [3, 1, 1]);
/// ```
#[track_caller]
pub fn swapaxes(x: impl Into<Variable>, a: isize, b: isize) -> Variable {
    let _whole = composite("swapaxes");
    let x = x.into();
    let rank = x.rank();
    let mut axes: AxisList = (0..rank as isize).collect();
    axes.swap(
        normalize_axis("swapaxes", a, rank),
        normalize_axis("swapaxes", b, rank),
    );
    permute(x, &axes)
}
method!(swapaxes, a: isize, b: isize);

/// Inserts an axis of size 1 before `axis`, which may be the rank (or `-1`) for a new last axis.
///
/// Shapes: x any → one axis more. Types: all. Gradient: `gy` in the shape of x.
///
/// # Panics
/// Panics if `axis` is greater than the rank.
///
/// ```
/// use bibun::{functions::expand_dims, Variable};
/// assert_eq!(expand_dims(&Variable::new([1.0, 2.0]), -1).shape(), [2, 1]);
/// ```
#[track_caller]
pub fn expand_dims(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("expand_dims");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("expand_dims", axis, shape.rank() + 1);
    reshape(x, shape.inserted(axis, 1))
}
method!(expand_dims, axis: isize);

/// Removes axes of size 1 (all of them for `..`).
///
/// Shapes: x any → without these axes. Types: all. Gradient: `gy` in the shape of x.
///
/// # Panics
/// Panics if an axis has another size or does not exist.
///
/// ```
/// use bibun::{functions::squeeze, Variable};
/// let x = Variable::new([[[1.0, 2.0]]]);
/// assert_eq!(squeeze(&x, 0).shape(), [1, 2]);
/// assert_eq!(squeeze(&x, ..).shape(), [2]);
/// ```
#[track_caller]
pub fn squeeze(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("squeeze");
    let (x, axes) = (x.into(), axes.into());
    let shape = x.shape();
    let (mut gone, _) = axes.resolve("squeeze", shape.rank());
    if axes == Axes::from(..) {
        gone.retain(|axis| shape[*axis] == 1);
    }
    if let Some(&axis) = gone.iter().find(|&&axis| shape[axis] != 1) {
        let what = format!("axis {axis} of x = {} must have size 1", x.spec());
        raise(Error::argument("squeeze", what));
    }
    reshape(x, shape.reduced(&gone, false))
}
method!(squeeze, axes: impl Into<Axes>);

/// Broadcasts to `shape`: repeats axes of size 1 and adds new ones in front. No element is copied.
///
/// Shapes: x any → `shape`, which it must broadcast to. Types: all.
/// Gradient: `gy`, summed over the repeats.
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::{functions::broadcast_to, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let y = broadcast_to(&x, [3, 2]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [3.0, 3.0]);
/// ```
#[track_caller]
pub fn broadcast_to(x: impl Into<Variable>, shape: impl Into<Shape>) -> Variable {
    let (x, shape) = (x.into(), shape.into());
    if x.shape() == shape {
        x
    } else {
        Linear::of(BroadcastTo(shape), x)
    }
}
method!(broadcast_to, shape: impl Into<Shape>);

#[derive(Clone, Debug)]
struct BroadcastTo(Shape);

impl BroadcastTo {
    /// Returns the axes along which an input of this shape is repeated.
    fn repeated(&self, x: &Shape) -> AxisList {
        let new = self.0.rank() - x.rank();
        let repeated = (0..self.0.rank()).filter(|&axis| match axis.checked_sub(new) {
            Some(own) => x[own] != self.0[axis],
            None => true,
        });
        repeated.map(|axis| axis as isize).collect()
    }
}

impl LinearRule for BroadcastTo {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        if !x.shape.broadcasts_to(&self.0) {
            let must_hold = format!("it cannot be repeated to the shape {}", self.0);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        Ok(Spec::new(&self.0, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.broadcast_to(&self.0)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        let repeated = self.repeated(&x.shape);
        reshape(sum(gy, &repeated[..]), &x.shape)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let x = batch_in_front(x, axis);
        let shape = x.shape();
        let (count, own) = (shape[0], &shape[1..]);
        // The new axes come between the batch axis and the axes that x has.
        let new = std::iter::repeat_n(1, self.0.rank() - own.len());
        let aligned: Shape = [count]
            .into_iter()
            .chain(new)
            .chain(own.iter().copied())
            .collect();
        Batched::along(
            broadcast_to(reshape(x, aligned), self.0.inserted(0, count)),
            0,
        )
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        let (axis, new) = (examples.axis(), self.0.rank() - x.shape.rank());
        let repeated = self.repeated(&x.shape);
        if !repeated.contains(&(axis as isize)) && axis >= new {
            return ExampleGradient::sliced(
                self.transpose(x, cotangent),
                examples.moved(axis - new),
            );
        }
        // [examples, l, ..], with l where the examples' axis was.
        let each = moveaxis(examples.of_each(&cotangent), 1, axis as isize + 1);
        let repeated: AxisList = repeated.iter().map(|axis| axis + 1).collect();
        let rows = sum(each, &repeated[..]);
        ExampleGradient::Stacked(reshape(rows, x.shape.inserted(0, examples.count())))
    }
}

/// Moves the batch axis of a value from `axis` to the front.
#[track_caller]
pub(crate) fn batch_in_front(x: Variable, axis: usize) -> Variable {
    moveaxis(x, axis as isize, 0)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "reshape",
            |x| vec![reshape(&x[0], [3, 2])],
            |x| vec![x[0].reshape([3, 2])],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "reshape",
            |x| vec![reshape(&x[0], ())],
            |x| vec![x[0].reshape(())],
        )
        .input([1, 1], range.clone()),
        Sample::new(
            "permute",
            |x| vec![permute(&x[0], &[2, 0, -2])],
            |x| vec![x[0].permute(&[2, 0, 1])],
        )
        .input([2, 3, 4], range.clone()),
        Sample::new(
            "rollaxis",
            |x| vec![rollaxis(&x[0], 0, 2)],
            move |x| vec![by_index([3, 2, 1], |i| at(&x[0], &[i[1], i[0], i[2]]))],
        )
        .input([2, 3, 1], range.clone()),
        Sample::new(
            "broadcast_to",
            |x| vec![broadcast_to(&x[0], [4, 2, 3])],
            |x| vec![x[0].broadcast_to([4, 2, 3])],
        )
        .input([2, 1], range.clone()),
        Sample::new(
            "broadcast_to",
            |x| vec![broadcast_to(&x[0], [2, 3])],
            |x| vec![x[0].broadcast_to([2, 3])],
        )
        .input((), range),
    ]
}
