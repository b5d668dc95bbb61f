//! Picking by computed indices, and adding back to where was picked.
//!
//! Each function of indices has its transpose beside it: [`take`] and [`add_at`], [`gather`] and
//! [`scatter_add`]. Indices are integers, have no gradient, and may differ between the lanes of a
//! `vmap`.

use std::cmp::Ordering;
use std::fmt;

use bibun_array::{Array, DType, Device, Shape, cpu, normalize_axis};

use crate::batch::Batched;
use crate::call::{composite, composite_if};
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, OuterProduct, ProductForm};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{
    Operand, batch_in_front, broadcast_to, expand_dims, moveaxis, reshape, to_indices,
};
use crate::variable::Variable;

/// Picks along `axis`: the axes of `indices` come in the place of `axis`. Negative indices count
/// from the end. Rows of an embedding are `take(&table, &words, 0)`.
///
/// Shapes: x `[a.., n, b..]`, indices any `[i..]` → `[a.., i.., b..]`. Types: x all, indices integers.
/// Gradient: `gy`, added up where x was picked ([`add_at`]); indices have none.
///
/// # Panics
/// If indices are not integers, an index is out of bounds, or there is no such axis.
///
/// ```
/// use bibun::{functions::take, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = take(&x, [2i64, 0, -1], 0);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 1.0, 3.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn take(x: impl Into<Variable>, indices: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    Picking::new("take", &x, axis).pick(x, to_indices(indices))
}
method!(take, indices: impl Into<Variable>, axis: isize);

/// x with `value`, broadcast, added to what [`take`] picks; equal indices add up.
///
/// Shapes: x `[a.., n, b..]`, indices any `[i..]`, value that broadcasts to `[a.., i.., b..]` →
/// `[a.., n, b..]`. Types: x all, indices integers, value as x (integers wrap around, bools combine by
/// "or"). Gradient: `gy` to x, what [`take`] picks from `gy` to value; indices have none.
///
/// # Panics
/// As [`take`], and if value does not fit.
///
/// ```
/// use bibun::{functions::add_at, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = add_at(&x, [2i64, 0, 2], 0, 10.0);
/// assert_eq!(y.to_vec::<f64>(), [11.0, 2.0, 23.0]);
/// ```
#[track_caller]
pub fn add_at(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    added("add_at", x.into(), to_indices(indices), axis, value.into())
}
method!(add_at, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Picks along `axis` with one index for each element of the result (NumPy's `take_along_axis`):
/// `y[i, j] = x[indices[i, j], j]` for `axis` 0 of a matrix. Negative indices count from the end.
///
/// Shapes: x `[a.., n, b..]`, indices `[a.., m, b..]` → `[a.., m, b..]`. Types: x all, indices integers.
/// Gradient: `gy`, added up where x was picked ([`scatter_add`]); indices have none.
///
/// # Panics
/// If indices are not integers, an index is out of bounds, the shapes do not fit, or there is no such
/// axis.
///
/// ```
/// use bibun::{functions::gather, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(gather(&x, [[2i64], [0]], 1).to_vec::<f64>(), [3.0, 4.0]);
/// ```
#[track_caller]
pub fn gather(x: impl Into<Variable>, indices: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    Picking::new("gather", &x, axis).pick(x, to_indices(indices))
}
method!(gather, indices: impl Into<Variable>, axis: isize);

/// x with `value`, broadcast, added to what [`gather`] picks; equal indices add up.
///
/// Shapes: x `[a.., n, b..]`, indices `[a.., m, b..]`, value that broadcasts to `[a.., m, b..]` →
/// `[a.., n, b..]`. Types: x all, indices integers, value as x (integers wrap around, bools combine by
/// "or"). Gradient: `gy` to x, what [`gather`] picks from `gy` to value; indices have none.
///
/// # Panics
/// As [`gather`], and if value does not fit.
///
/// ```
/// use bibun::{functions::scatter_add, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = scatter_add(&x, [[1i64], [0]], 1, 10.0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 12.0, 13.0, 4.0]);
/// ```
#[track_caller]
pub fn scatter_add(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    added(
        "scatter_add",
        x.into(),
        to_indices(indices),
        axis,
        value.into(),
    )
}
method!(scatter_add, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Ones at the classes that `indices` name and zeros elsewhere, along a new last axis. Negative
/// indices count from the end.
///
/// Shapes: indices any `[i..]` → `[i.., classes]`. Types: integers → `dtype`. Gradient: none.
///
/// # Panics
/// If indices are not integers or an index is out of bounds.
///
/// ```
/// use bibun::{array::DType, functions::one_hot};
/// let y = one_hot([1i64, 0], 3, DType::F32);
/// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn one_hot(indices: impl Into<Variable>, classes: usize, dtype: DType) -> Variable {
    Discrete::of(OneHot { classes, dtype }, [to_indices(indices)])
}

/// One element of each row: `y[i] = x[i, t[i]]`. Negative indices count from the end.
///
/// Shapes: x `[n, c]`, t `[n]` → `[n]`. Types: x all, t integers.
/// Gradient: `gy` at the elements picked, zero elsewhere; t has none.
///
/// # Panics
/// If t is not of integers, an index is out of bounds, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::select_item, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(select_item(&x, [1i64, 0]).to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn select_item(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    let _whole = composite("select_item");
    let t = t.into();
    let shape = t.shape();
    reshape(gather(x, expand_dims(t, -1), 1), shape)
}

/// x with `value`, broadcast, added where `indices` pick.
#[track_caller]
fn added(
    function: &'static str,
    x: Variable,
    indices: Variable,
    axis: isize,
    value: Operand,
) -> Variable {
    let picking = Picking::new(function, &x, axis);
    let picked = picking.shape(&x.shape(), &indices.shape());
    let value = value.beside(x.dtype());
    let _whole = composite_if(value.shape() != picked, function);
    picking.add(x, indices, broadcast_to(value, picked))
}

/// What indices pick along an axis, and where to values are added.
#[derive(Clone, Copy)]
struct Picking {
    /// One index for each element, as [`gather`], and not for whole slices, as [`take`].
    each: bool,
    axis: usize,
}

impl Picking {
    #[track_caller]
    fn new(function: &'static str, x: &Variable, axis: isize) -> Self {
        Self {
            each: matches!(function, "gather" | "scatter_add"),
            axis: normalize_axis(function, axis, x.rank()),
        }
    }

    /// The same for lanes in front.
    fn in_batch(self) -> Self {
        let axis = self.axis + 1;
        Self { axis, ..self }
    }

    /// The shape of what is picked.
    fn shape(self, x: &Shape, indices: &Shape) -> Shape {
        if self.each {
            return indices.clone();
        }
        let (before, after) = (&x[..self.axis], &x[self.axis + 1..]);
        let sizes = before.iter().chain(indices.iter()).chain(after);
        sizes.copied().collect()
    }

    fn checked_shape(self, x: &Spec, indices: &Spec) -> Result<Shape, Mismatch> {
        let inputs = [("x", x), ("indices", indices)];
        if indices.dtype != DType::I64 {
            return Err(Mismatch::new(&inputs, "indices must be integers"));
        }
        let axis = self.axis;
        let fits = !self.each
            || indices.shape.rank() == x.shape.rank()
                && indices.shape == x.shape.replaced(axis, indices.shape[axis]);
        if !fits {
            let must_hold = format!("all sizes but those of axis {axis} must be equal");
            return Err(Mismatch::new(&inputs, must_hold));
        }
        Ok(self.shape(&x.shape, &indices.shape))
    }

    #[track_caller]
    fn pick(self, x: Variable, indices: Variable) -> Variable {
        let [y] = crate::apply(Pick(self), [x, indices]);
        y
    }

    #[track_caller]
    fn add(self, x: Variable, indices: Variable, value: Variable) -> Variable {
        let [y] = crate::apply(Add(self), [x, indices, value]);
        y
    }

    /// `value` added to zeros that look like `x`.
    #[track_caller]
    fn put(self, x: &Spec, indices: Variable, value: Variable) -> Variable {
        self.add(zeros(x), indices, value)
    }
}

impl fmt::Debug for Picking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.each { "elements" } else { "slices" };
        write!(f, "{what} along axis {}", self.axis)
    }
}

/// Zeros that look like an input, for cotangents to be added to.
fn zeros(spec: &Spec) -> Variable {
    Variable::constant(Array::zeros(&spec.shape, spec.dtype))
}

/// x with `axis` first and lanes, which are in front, folded into it: lane `l` has the rows from
/// `l n` on.
fn fold_batch(x: Variable, axis: usize) -> Variable {
    let x = moveaxis(x, axis as isize + 1, 1);
    let shape = x.shape();
    let folded = shape.removed(0).replaced(0, shape[0] * shape[1]);
    reshape(x, folded)
}

#[derive(Clone, Debug)]
struct Pick(Picking);

impl Function for Pick {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        if self.0.each { "gather" } else { "take" }
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(1)
    }

    fn shape(&self, [x, indices]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        let shape = self.0.checked_shape(x, indices)?;
        Ok([Spec::new(shape, x.dtype)])
    }

    fn forward(&self, [x, indices]: [Array; 2]) -> [Array; 1] {
        let axis = self.0.axis as isize;
        [match self.0.each {
            true => x.gather(&indices, axis),
            false => x.take(&indices, axis),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        [Some(self.0.put(cx.input_spec(0), cx.input(1), gy)), None]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, _]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [dx.map(|dx| self.0.pick(dx, cx.input(1)))]
    }

    fn batch(&self, [x, indices]: [Batched; 2]) -> [Batched; 1] {
        let Picking { each, axis: own } = self.0;
        match (x.axis, indices.axis) {
            _ if each => Batched::in_front(Self(self.0.in_batch()), [x, indices]),
            // The lanes of the indices are picked like further axes of them.
            (None, Some(batch)) => {
                let indices = batch_in_front(indices.value, batch);
                [Batched::along(self.0.pick(x.value, indices), own)]
            }
            (Some(batch), None) => {
                let x = batch_in_front(x.value, batch);
                let y = self.0.in_batch().pick(x, indices.value);
                [Batched::along(y, 0)]
            }
            (Some(x_batch), Some(batch)) => {
                let x = batch_in_front(x.value, x_batch);
                let indices = batch_in_front(indices.value, batch);
                let own_rank = indices.rank() - 1;
                let rows = rows_of_batch(indices, &x, own + 1);
                // [lanes, i.., a.., b..]: the axes a.. go back to where they were.
                let mut y = take(fold_batch(x, own), rows, 0);
                for before in 0..own {
                    y = moveaxis(y, (1 + own_rank + before) as isize, 1 + before as isize);
                }
                [Batched::along(y, 0)]
            }
            (None, None) => unreachable!("a batch rule is asked only where there is a batch"),
        }
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        let Picking { each, axis: own } = self.0;
        let (x, axis) = (cx.input_spec(0).clone(), gy.examples.axis());
        if each && axis == own {
            return [Some(ExampleGradient::Unknown), None];
        }
        let rank = if each { 1 } else { cx.input_shape(1).rank() };
        let indices = cx.input(1);
        let inside = axis >= own && axis < own + rank;
        let examples = match (inside, rank) {
            (false, _) if axis < own => Some(gy.examples.clone()),
            (false, _) => Some(gy.examples.moved(axis + 1 - rank)),
            (true, 1) => known_positions(&indices, x.shape[own])
                .and_then(|positions| gy.examples.spread(own, x.shape[own], positions)),
            (true, _) => None,
        };
        if let Some(examples) = examples {
            let [gx, _] = self.vjp(cx, [gy.cotangent]);
            return [gx.map(|gx| ExampleGradient::sliced(gx, examples)), None];
        }
        if own != 0 {
            return [Some(ExampleGradient::Unknown), None];
        }
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        // All that examples pick, `[examples, l]`, and the rows there.
        let indices = examples.of_each(&indices);
        let count = examples.count();
        let most = indices.shape()[1..].iter().product();
        let rows = examples.of_each(&cotangent);
        let rows = reshape(rows, x.shape.replaced(0, most).inserted(0, count));
        let indices = reshape(indices, [count, most]);
        let picking = self.0;
        let sum = move |indices: &Variable, rows: &Variable| {
            picking.put(&x, indices.clone(), rows.clone())
        };
        let product = OuterProduct::new(ProductForm::Picked, indices, rows, sum);
        [Some(ExampleGradient::OuterProduct(product)), None]
    }
}

#[derive(Clone, Debug)]
struct Add(Picking);

impl Function for Add {
    type Inputs = Fixed<3>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        if self.0.each { "scatter_add" } else { "add_at" }
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        Saved::NOTHING.input(1).only_if(needs[2])
    }

    fn shape(&self, [x, indices, value]: [&Spec; 3]) -> Result<[Spec; 1], Mismatch> {
        let shape = self.0.checked_shape(x, indices)?;
        if value.dtype != x.dtype || value.shape != shape {
            let must_hold = format!("value must be {shape} {}", x.dtype);
            return Err(Mismatch::new(&[("x", x), ("value", value)], must_hold));
        }
        Ok([x.clone()])
    }

    fn forward(&self, [x, indices, value]: [Array; 3]) -> [Array; 1] {
        let axis = self.0.axis as isize;
        [match self.0.each {
            true => x.scatter_add(&indices, axis, &value),
            false => x.add_at(&indices, axis, &value),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 3] {
        let of_value = cx.needs(2).then(|| self.0.pick(gy.clone(), cx.input(1)));
        [cx.needs(0).then_some(gy), None, of_value]
    }

    fn jvp(
        &self,
        cx: &Context<'_>,
        [dx, _, dvalue]: [Option<Variable>; 3],
    ) -> [Option<Variable>; 1] {
        let dx = dx.unwrap_or_else(|| zeros(cx.input_spec(0)));
        [Some(match dvalue {
            Some(dvalue) => self.0.add(dx, cx.input(1), dvalue),
            None => dx,
        })]
    }

    fn batch(&self, inputs: [Batched; 3]) -> [Batched; 1] {
        let Picking { each, axis } = self.0;
        if each {
            return Batched::in_front(Self(self.0.in_batch()), inputs);
        }
        let count = Batched::batch_size(&inputs);
        let [x, indices, value] = inputs;
        let (x, mut value) = (x.to_front(count), value.to_front(count));
        let Some(batch) = indices.axis else {
            let y = self.0.in_batch().add(x, indices.value, value);
            return [Batched::along(y, 0)];
        };
        let indices = batch_in_front(indices.value, batch);
        let own_rank = indices.rank() - 1;
        let rows = rows_of_batch(indices, &x, axis + 1);
        let unfolded = moveaxis(&x, axis as isize + 1, 1).shape();
        // [lanes, a.., i.., b..] to [lanes, i.., a.., b..], as rows of the folded x are picked.
        for _ in 0..axis {
            value = moveaxis(value, 1, (axis + own_rank) as isize);
        }
        let y = add_at(fold_batch(x, axis), rows, 0, value);
        let y = moveaxis(reshape(y, unfolded), 1, axis as isize + 1);
        [Batched::along(y, 0)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 3] {
        let Picking { each, axis: own } = self.0;
        let (examples, rank) = (gy.examples, cx.input_shape(1).rank());
        let axis = examples.axis();
        let of_value = match axis.cmp(&own) {
            Ordering::Equal if each || rank != 1 || !cx.needs(2) => None,
            Ordering::Equal => known_positions(&cx.input(1), cx.input_shape(0)[own])
                .map(|positions| examples.picked(own, positions)),
            Ordering::Greater if !each => Some(examples.moved(axis + rank - 1)),
            _ => Some(examples.clone()),
        };
        let [gx, _, of_needed] = self.vjp(cx, [gy.cotangent]);
        let value = match of_value {
            Some(examples) => of_needed.map(|value| ExampleGradient::sliced(value, examples)),
            None => Some(ExampleGradient::Unknown),
        };
        [
            gx.map(|gx| ExampleGradient::sliced(gx, examples)),
            None,
            value,
        ]
    }
}

#[derive(Clone, Debug)]
struct OneHot {
    classes: usize,
    dtype: DType,
}

impl DiscreteRule for OneHot {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "one_hot"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        if indices.dtype != DType::I64 {
            return Err(Mismatch::new(&[("indices", indices)], "must be integers"));
        }
        let rank = indices.shape.rank();
        let shape = indices.shape.inserted(rank, self.classes);
        Ok(Spec::new(shape, self.dtype))
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        Array::one_hot(&indices, self.classes, self.dtype)
    }
}

/// Where indices along an axis of `size` point to, if they can be read without waiting for a device.
fn known_positions(indices: &Variable, size: usize) -> Option<impl Iterator<Item = usize>> {
    let indices = indices.plain_array();
    let indices = indices.filter(|indices| indices.device() == cpu())?;
    let position = move |index: i64| index.rem_euclid(size as i64) as usize;
    Some(indices.to_vec::<i64>().into_iter().map(position))
}

/// The rows of lanes that lie one after another, `size` each, from the indices of each lane, which
/// lie along `axis`: an index that is out of bounds must not reach the next lane's rows.
#[derive(Clone, Debug)]
struct RowsOfBatch {
    axis: usize,
    size: usize,
    /// Where the rows are.
    device: &'static dyn Device,
}

/// [`RowsOfBatch`] along an axis of `x`, of indices with lanes in front.
#[track_caller]
fn rows_of_batch(indices: Variable, x: &Variable, axis: usize) -> Variable {
    let function = RowsOfBatch {
        axis: 0,
        size: x.shape()[axis],
        device: x.known_device().or(indices.known_device()).unwrap_or(cpu()),
    };
    Discrete::of(function, [indices])
}

impl DiscreteRule for RowsOfBatch {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "rows_of_batch"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(indices.clone())
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        let batch = indices.shape()[self.axis];
        // Picked from all positions, indices are checked and count from the front.
        let positions = |count| Array::arange(0, count as i64).to(self.device);
        let own = positions(self.size).take(&indices, 0);
        let mut aligned = vec![1; indices.rank() - self.axis];
        aligned[0] = batch;
        let first = positions(batch) * self.size as i64;
        own + first.reshape(aligned)
    }

    fn batch(&self, indices: [Batched; 1]) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Discrete(Self { axis, ..*self }), indices)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "take",
            |x| vec![take(&x[0], beside(x, [2i64, 0, -1, 2]), 0)],
            move |x| vec![by_index([4, 2], |i| at(&x[0], &[[2, 0, 2, 2][i[0]], i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "take",
            |x| vec![take(&x[0], beside(x, [[1i64, 0], [-1, 1], [0, 0]]), 1)],
            move |x| {
                let indices = [[1, 0], [1, 1], [0, 0]];
                vec![by_index([3, 3, 2, 1], |i| {
                    at(&x[0], &[i[0], indices[i[1]][i[2]], i[3]])
                })]
            },
        )
        .input([3, 2, 1], range.clone()),
        Sample::new(
            "take",
            |x| vec![take(&x[0], 1i64, -1)],
            move |x| vec![by_index([2], |i| at(&x[0], &[i[0], 1]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "add_at",
            |x| vec![add_at(&x[0], beside(x, [[2i64, 0], [-1, 2]]), 1, &x[1])],
            move |x| {
                let indices = [[2, 0], [2, 2]];
                vec![by_index([2, 3], |i| {
                    let mut sum = at(&x[0], i);
                    for (j, row) in indices.iter().enumerate() {
                        for (k, &index) in row.iter().enumerate() {
                            if index == i[1] {
                                sum += at(&x[1], &[i[0], j, k]);
                            }
                        }
                    }
                    sum
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 2, 2], range.clone()),
        Sample::new(
            "add_at",
            |x| vec![add_at(&x[0], beside(x, [1i64, 1]), 0, &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| {
                    at(&x[0], i) + (2 * i[0]) as f64 * at(&x[1], &[i[1]])
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([3], range.clone()),
        Sample::new(
            "gather",
            |x| vec![gather(&x[0], beside(x, [[2i64, 0], [-1, 1]]), 1)],
            move |x| {
                let indices = [[2, 0], [2, 1]];
                vec![by_index([2, 2], |i| {
                    at(&x[0], &[i[0], indices[i[0]][i[1]]])
                })]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "gather",
            |x| vec![gather(&x[0], beside(x, [[0i64, 1, -2]]), -2)],
            move |x| vec![by_index([1, 3], |i| at(&x[0], &[[0, 1, 0][i[1]], i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "scatter_add",
            |x| {
                vec![scatter_add(
                    &x[0],
                    beside(x, [[1i64, 1, 0], [1, 0, -1]]),
                    0,
                    &x[1],
                )]
            },
            move |x| {
                let indices = [[1, 1, 0], [1, 0, 1]];
                vec![by_index([2, 3], |i| {
                    let mut sum = at(&x[0], i);
                    for (j, row) in indices.iter().enumerate() {
                        if row[i[1]] == i[0] {
                            sum += at(&x[1], &[j, i[1]]);
                        }
                    }
                    sum
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "scatter_add",
            |x| vec![scatter_add(&x[0], beside(x, [[1i64, 0, -1]]), 1, &x[1])],
            move |x| {
                vec![by_index([1, 2], |i| {
                    at(&x[0], i) + [1.0, 2.0][i[1]] * at(&x[1], &[])
                })]
            },
        )
        .input([1, 2], range.clone())
        .input((), range.clone()),
        Sample::new(
            "select_item",
            |x| vec![select_item(&x[0], beside(x, [1i64, 2, -3]))],
            move |x| vec![by_index([3], |i| at(&x[0], &[i[0], [1, 2, 0][i[0]]]))],
        )
        .input([3, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::{attempt, gradients};
    use bibun_array::Generator;

    /// `f` and its gradients under `vmap` against a loop over lanes, for every choice of inputs
    /// that are mapped and every place of the lanes. Inputs have the lanes in front.
    fn check_batch(f: &dyn Fn(&[Variable]) -> Variable, inputs: &[Array]) {
        let with_gradients = |x: &[Variable]| {
            let x: Vec<Variable> = x.iter().map(crate::functions::watch).collect();
            let y = f(&x);
            let weights = Array::arange(1, y.size() as i64 + 1).cast(DType::F64);
            let loss = (&y * &Variable::constant(weights.reshape(y.shape()))).sum(..);
            let floats: Vec<&Variable> = x.iter().filter(|x| x.dtype().is_float()).collect();
            let gradients = gradients(&[&loss], &floats).into_iter();
            let gradients = gradients.map(|g| g.expect("every input is used"));
            [y].into_iter().chain(gradients).collect::<Vec<_>>()
        };
        let count = inputs[0].shape()[0];
        for choice in 1..1usize << inputs.len() {
            for behind in [false, true] {
                let mapped = |i: usize| choice >> i & 1 == 1;
                let element = |i: usize, l: usize| {
                    let first = Array::from(if mapped(i) { l as i64 } else { 0 });
                    Variable::constant(inputs[i].take(&first, 0))
                };
                let whole: Vec<Variable> = (0..inputs.len())
                    .map(|i| match (mapped(i), behind) {
                        (false, _) => element(i, 0),
                        (true, false) => Variable::constant(inputs[i].clone()),
                        (true, true) => Variable::constant(inputs[i].moveaxis(0, -1)),
                    })
                    .collect();
                let axis = if behind { -1 } else { 0 };
                let axes: Vec<Option<isize>> = (0..inputs.len())
                    .map(|i| mapped(i).then_some(axis))
                    .collect();
                let together = vmap(with_gradients, &whole, &axes);
                for l in 0..count {
                    let batch: Vec<Variable> = (0..inputs.len()).map(|i| element(i, l)).collect();
                    let alone = with_gradients(&batch);
                    for (all, one) in together.iter().zip(alone) {
                        let all = all.array().take(&Array::from(l as i64), 0);
                        assert_eq!(all.shape(), &*one.shape());
                        for (a, b) in all.to_vec::<f64>().iter().zip(one.to_vec::<f64>()) {
                            assert!((a - b).abs() < 1e-12, "{a} {b}, mapped {axes:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn indices_may_differ_between_batch_elements() {
        let mut generator = Generator::new(1);
        let mut draw = |shape: &[usize]| generator.uniform(shape, -1.0, 1.0, DType::F64);
        let mut indices = Generator::new(2);
        for count in [1, 3] {
            for axis in 0..3isize {
                let x = draw(&[count, 2, 3, 4]);
                let size = x.shape()[axis as usize + 1] as i64;
                let picks = indices.integers(-size, size, [count, 5, 1]);
                check_batch(&|x| take(&x[0], &x[1], axis), &[x.clone(), picks.clone()]);
                let value = x.slice(bibun_array::s![..1]);
                let one = value.take(&Array::zeros([5, 1], DType::I64), axis + 1);
                let value = one.broadcast_to(one.shape().replaced(0, count)) * 2.0;
                check_batch(
                    &|x| add_at(&x[0], &x[1], axis, &x[2]),
                    &[x.clone(), picks, value],
                );
                let single = indices.integers(-size, size, [count]);
                check_batch(&|x| take(&x[0], &x[1], axis), &[x.clone(), single]);
                let shape = x.shape().replaced(axis as usize + 1, 2);
                let picks = indices.integers(-size, size, &shape);
                check_batch(&|x| gather(&x[0], &x[1], axis), &[x.clone(), picks.clone()]);
                let value = draw(&shape);
                check_batch(
                    &|x| scatter_add(&x[0], &x[1], axis, &x[2]),
                    &[x, picks, value],
                );
            }
            let x = draw(&[count, 4, 3]);
            let t = indices.integers(-3, 3, [count, 4]);
            check_batch(&|x| select_item(&x[0], &x[1]), &[x, t]);
        }
    }

    #[test]
    fn indices_may_differ_between_batch_elements_of_batch_elements() {
        let x = Generator::new(3).uniform([2, 3, 4], -1.0, 1.0, DType::F64);
        let picks = Generator::new(4).integers(-4, 4, [3, 2, 5]);
        let y = vmap(
            |v| vmap(|v| vec![take(&v[0], &v[1], 0)], v, &[Some(0), Some(0)]),
            &[Variable::new(x.clone()), Variable::constant(picks.clone())],
            &[Some(0), Some(1)],
        );
        let expected = x.gather(&picks.swapaxes(0, 1), 2);
        assert_eq!(y[0].to_vec::<f64>(), expected.to_vec::<f64>());
    }

    #[test]
    fn no_batch_at_all() {
        let x = Variable::new(Array::zeros([0, 3], DType::F64));
        let t = Variable::constant(Array::zeros([0, 2], DType::I64));
        let axes = [Some(0), Some(0)];
        let y = vmap(
            |v| vec![take(&v[0], &v[1], 0)],
            &[x.clone(), t.clone()],
            &axes,
        );
        assert_eq!(y[0].shape(), [0, 2]);
        let y = vmap(|v| vec![add_at(&v[0], &v[1], 0, 1.0)], &[x, t], &axes);
        assert_eq!(y[0].shape(), [0, 3]);
    }

    #[test]
    fn an_index_does_not_reach_the_next_batch_element() {
        let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        let t = Variable::constant([[2i64], [0]]);
        let pick = |v: &[Variable]| vec![take(&v[0], &v[1], 0)];
        let error = attempt(|| vmap(pick, &[x, t], &[Some(0), Some(0)])).unwrap_err();
        assert!(error.to_string().contains("index 2 is outside"), "{error}");
    }

    #[test]
    fn integers_and_bools_are_picked() {
        let flags = Variable::constant([true, false]);
        assert_eq!(flags.take([1i64, 0], 0).to_vec::<bool>(), [false, true]);
        assert_eq!(flags.add_at([1i64], 0, true).to_vec::<bool>(), [true, true]);
        let counts = Variable::constant([1i64, 2]);
        assert_eq!(counts.add_at([1i64, 1], 0, 3).to_vec::<i64>(), [1, 8]);
        assert_eq!(counts.scatter_add([0i64], 0, 3).to_vec::<i64>(), [4, 2]);
    }

    #[test]
    fn one_hot_of_batch_elements() {
        let t = Variable::constant([[0i64, -1, 1]]);
        let y = vmap(|v| vec![one_hot(&v[0], 2, DType::I64)], &[t], &[Some(1)]);
        assert_eq!(y[0].shape(), [3, 1, 2]);
        assert_eq!(y[0].to_vec::<i64>(), [1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        let error = message(&|| take(&x, [0.0], 0));
        assert!(error.contains("indices must be integers"), "{error}");
        let error = message(&|| one_hot([0.0], 2, DType::F64));
        assert!(error.contains("must be integers"), "{error}");
        let error = message(&|| gather(&x, [[0i64], [0]], 1));
        assert!(error.contains("all sizes but those of axis 1"), "{error}");
        let error = message(&|| add_at(&x, [0i64], 0, Array::from([1i64, 2])));
        assert!(error.contains("value must be [1, 2] f64"), "{error}");
        let error = message(&|| take(&x, [2i64], 1));
        assert!(error.contains("index 2 is outside of axis 1"), "{error}");
    }
}
