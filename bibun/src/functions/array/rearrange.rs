//! The elements in another arrangement: turned round, shifted, repeated, framed, cut to triangles
//! and laid on diagonals.

use bibun_array::{Array, Axes, Index, Scalar, Shape, normalize_axis};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{broadcast_to, expand_dims, moveaxis, permute, reshape, slice, sum};
use crate::variable::Variable;

/// The elements from the last to the first along axes (`..` for all; see [`Axes`]).
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, turned back.
///
/// # Panics
/// If there is no such axis.
///
/// ```
/// use bibun::{functions::flip, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(flip(&x, 1).to_vec::<f64>(), [2.0, 1.0, 4.0, 3.0]);
/// ```
#[track_caller]
pub fn flip(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = x.into();
    let (axes, _) = axes.into().resolve("flip", x.rank());
    if axes.is_empty() {
        return x;
    }
    let axes = axes.into_iter().map(|axis| axis as isize).collect();
    Linear::of(Flip(axes), x)
}
method!(flip, axes: impl Into<Axes>);

/// Left and right exchanged: [`flip`] along the second axis.
///
/// Shapes: x `[n, m, ..]` → the same. Types: all. Gradient: `gy`, turned back.
///
/// # Panics
/// If there are fewer than two axes.
///
/// ```
/// use bibun::{functions::fliplr, Variable};
/// assert_eq!(fliplr(&Variable::new([[1.0, 2.0]])).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn fliplr(x: impl Into<Variable>) -> Variable {
    let _whole = composite("fliplr");
    flip(x, 1)
}
method!(fliplr);

/// Up and down exchanged: [`flip`] along the first axis.
///
/// Shapes: x `[n, ..]` → the same. Types: all. Gradient: `gy`, turned back.
///
/// # Panics
/// If there are no axes.
///
/// ```
/// use bibun::{functions::flipud, Variable};
/// assert_eq!(flipud(&Variable::new([[1.0], [2.0]])).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn flipud(x: impl Into<Variable>) -> Variable {
    let _whole = composite("flipud");
    flip(x, 0)
}
method!(flipud);

#[derive(Clone, Debug)]
struct Flip(SmallVec<[isize; 4]>);

impl LinearRule for Flip {
    fn name(&self) -> &'static str {
        "flip"
    }
    fn forward(&self, x: Array) -> Array {
        x.flip(&self.0)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(self.clone(), gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let axes = self.0.iter().map(|axis| axis + 1).collect();
        Linear::in_front(Self(axes), x, axis)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        Some(match self.0.contains(&(y.axis() as isize)) {
            true => y.picked(y.axis(), (0..y.slices()).rev()),
            false => y.clone(),
        })
    }
}

/// The elements moved on by `shift` along `axis`; what leaves at the end comes in at the start. A
/// negative shift moves towards the start.
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, moved back.
///
/// # Panics
/// If there is no such axis.
///
/// ```
/// use bibun::{functions::roll, Variable};
/// assert_eq!(roll(&Variable::new([1.0, 2.0, 3.0]), 1, 0).to_vec::<f64>(), [3.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn roll(x: impl Into<Variable>, shift: isize, axis: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("roll", axis, x.rank());
    // Within the axis, so that it can be taken back for any number.
    let shift = match x.shape()[axis] {
        0 => 0,
        size => shift.rem_euclid(size as isize),
    };
    Linear::of(Roll { shift, axis }, x)
}
method!(roll, shift: isize, axis: isize);

#[derive(Clone, Debug)]
struct Roll {
    shift: isize,
    axis: usize,
}

impl LinearRule for Roll {
    fn name(&self) -> &'static str {
        "roll"
    }
    fn forward(&self, x: Array) -> Array {
        x.roll(self.shift, self.axis as isize)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        roll(gy, -self.shift, self.axis as isize)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let own = self.axis + 1;
        Linear::in_front(Self { axis: own, ..*self }, x, axis)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        let (axis, slices) = (y.axis(), y.slices());
        let from = |slice| (slice + self.shift as usize) % slices;
        Some(match axis == self.axis {
            true => y.picked(axis, (0..slices).map(from)),
            false => y.clone(),
        })
    }
}

/// x with `value` around it: `widths[i]` elements before and after axis `i`.
///
/// Shapes: x `[n, ..]` → `[before + n + after, ..]`. Types: all; value takes the dtype of x.
/// Gradient: the inner part of `gy`.
///
/// # Panics
/// If there is not one pair of widths for each axis.
///
/// ```
/// use bibun::{functions::pad, Variable};
/// let y = pad(&Variable::new([1.0, 2.0]), &[(1, 2)], 0.5);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 1.0, 2.0, 0.5, 0.5]);
/// ```
#[track_caller]
pub fn pad(
    x: impl Into<Variable>,
    widths: &[(usize, usize)],
    value: impl Into<Scalar>,
) -> Variable {
    let x = x.into();
    let value = value.into().beside(x.dtype()).cast(x.dtype());
    let widths = SmallVec::from_slice(widths);
    let [y] = crate::apply(Pad { widths, value }, [x]);
    y
}
method!(pad, widths: &[(usize, usize)], value: impl Into<Scalar>);

#[derive(Clone, Debug)]
struct Pad {
    widths: SmallVec<[(usize, usize); 4]>,
    value: Scalar,
}

impl Function for Pad {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "pad"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        if self.widths.len() != x.shape.rank() {
            let must_hold = format!("each axis needs a pair of widths of {:?}", self.widths);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        let sizes = x.shape.iter().zip(&self.widths);
        let shape: Shape = sizes
            .map(|(size, (before, after))| before.saturating_add(*size).saturating_add(*after))
            .collect();
        Ok([Spec::new(shape, x.dtype)])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [x.pad(&self.widths, self.value)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let sizes = cx.input_shape(0).iter().zip(&self.widths);
        let inside = sizes.map(|(&size, &(before, _))| Index::from(before..before + size));
        let inside: SmallVec<[Index; 4]> = inside.collect();
        [Some(slice(gy, &inside))]
    }

    fn jvp(&self, _: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| pad(dx, &self.widths, 0.0))]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let mut widths = self.widths.clone();
        widths.insert(0, (0, 0));
        Batched::in_front(Self { widths, ..*self }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let axis = gy.examples.axis();
        let (before, size) = (self.widths[axis].0, cx.input_shape(0)[axis]);
        let examples = gy.examples.picked(axis, before..before + size);
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

/// Each element along `axis` repeated `times` times, its repeats side by side.
///
/// Shapes: x `[.., n, ..]` → `[.., n times, ..]`. Types: all.
/// Gradient: `gy`, summed over the repeats.
///
/// # Panics
/// If there is no such axis.
///
/// ```
/// use bibun::{functions::repeat, Variable};
/// let y = repeat(&Variable::new([1.0, 2.0]), 2, 0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 2.0, 2.0]);
/// ```
#[track_caller]
pub fn repeat(x: impl Into<Variable>, times: usize, axis: isize) -> Variable {
    let _whole = composite("repeat");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("repeat", axis, shape.rank());
    let apart = expand_dims(x, axis as isize + 1);
    let repeated = shape.inserted(axis + 1, times).addressable("repeat");
    let joined = shape.replaced(axis, shape[axis].saturating_mul(times));
    reshape(broadcast_to(apart, repeated), joined.addressable("repeat"))
}
method!(repeat, times: usize, axis: isize);

/// x repeated as a whole, `repeats[i]` times along axis `i`. Fewer repeats than axes belong to the
/// last axes; if there are more, x gets new axes in front.
///
/// Shapes: x `[n, ..]` → `[n repeats, ..]`. Types: all. Gradient: `gy`, summed over the repeats.
///
/// ```
/// use bibun::{functions::tile, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// assert_eq!(tile(&x, &[2]).to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
/// assert_eq!(tile(&x, &[3, 1]).shape(), [3, 2]);
/// ```
#[track_caller]
pub fn tile(x: impl Into<Variable>, repeats: &[usize]) -> Variable {
    let _whole = composite("tile");
    let x = x.into();
    let shape = x.shape();
    let rank = shape.rank().max(repeats.len());
    let aligned = |sizes: &[usize]| -> SmallVec<[usize; 4]> {
        let new = std::iter::repeat_n(1, rank - sizes.len());
        new.chain(sizes.iter().copied()).collect()
    };
    let (sizes, repeats) = (aligned(&shape), aligned(repeats));
    let pairs = || repeats.iter().copied().zip(sizes.iter().copied());
    let apart: Shape = pairs().flat_map(|(_, size)| [1, size]).collect();
    let repeated: Shape = pairs().flat_map(|(times, size)| [times, size]).collect();
    let tiled = pairs().map(|(times, size)| times.saturating_mul(size));
    let tiled = tiled.collect::<Shape>().addressable("tile");
    let repeated = repeated.addressable("tile");
    reshape(broadcast_to(reshape(x, apart), repeated), tiled)
}
method!(tile, repeats: &[usize]);

/// The lower triangle of the last two axes: zero above the diagonal `offset`, which counts to the
/// upper right.
///
/// Shapes: x `[.., n, m]` → the same. Types: all. Gradient: the lower triangle of `gy`.
///
/// # Panics
/// If there are fewer than two axes.
///
/// ```
/// use bibun::{functions::tril, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(tril(&x, 0).to_vec::<f64>(), [1.0, 0.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn tril(x: impl Into<Variable>, offset: isize) -> Variable {
    let part = Part::Lower;
    Linear::of(Triangle { part, offset }, x.into())
}
method!(tril, offset: isize);

/// The upper triangle of the last two axes: zero below the diagonal `offset`, which counts to the
/// upper right.
///
/// Shapes: x `[.., n, m]` → the same. Types: all. Gradient: the upper triangle of `gy`.
///
/// # Panics
/// If there are fewer than two axes.
///
/// ```
/// use bibun::{functions::triu, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(triu(&x, 1).to_vec::<f64>(), [0.0, 2.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn triu(x: impl Into<Variable>, offset: isize) -> Variable {
    let part = Part::Upper;
    Linear::of(Triangle { part, offset }, x.into())
}
method!(triu, offset: isize);

#[derive(Clone, Copy, Debug)]
enum Part {
    Lower,
    Upper,
}

#[derive(Clone, Debug)]
struct Triangle {
    part: Part,
    offset: isize,
}

impl LinearRule for Triangle {
    fn name(&self) -> &'static str {
        match self.part {
            Part::Lower => "tril",
            Part::Upper => "triu",
        }
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        expect_matrix(x)?;
        Ok(x.clone())
    }
    fn forward(&self, x: Array) -> Array {
        match self.part {
            Part::Lower => x.tril(self.offset),
            Part::Upper => x.triu(self.offset),
        }
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(self.clone(), gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }
}

fn expect_matrix(x: &Spec) -> Result<(), Mismatch> {
    match x.shape.rank() {
        0 | 1 => Err(Mismatch::new(&[("x", x)], "at least two axes are needed")),
        _ => Ok(()),
    }
}

/// Matrices that are zero but for the diagonal `offset`, which counts to the upper right: there
/// they have x.
///
/// Shapes: x `[.., n]` → `[.., m, m]` with `m = n + |offset|`. Types: all.
/// Gradient: the diagonal of `gy` ([`diagonal`]).
///
/// # Panics
/// If there are no axes.
///
/// ```
/// use bibun::{functions::diag, Variable};
/// assert_eq!(diag(&Variable::new([1.0, 2.0]), 0).to_vec::<f64>(), [1.0, 0.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn diag(x: impl Into<Variable>, offset: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("diag", -1, x.rank());
    let size = x.shape()[axis].saturating_add(offset.unsigned_abs());
    let matrix = [size, size];
    Linear::of(PutDiagonal { offset, matrix }, x)
}
method!(diag, offset: isize);

/// A diagonal of two axes, rows and columns, put last; `offset` counts to the upper right.
///
/// Shapes: x `[.., n, m]` (for the axes `[-2, -1]`) → `[.., k]`, as long as the diagonal.
/// Types: all. Gradient: `gy` on the diagonal, zero elsewhere.
///
/// # Panics
/// If there is no such axis or both are the same.
///
/// ```
/// use bibun::{functions::diagonal, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(diagonal(&x, 1, [0, 1]).to_vec::<f64>(), [2.0, 6.0]);
/// assert_eq!(diagonal(&x, 1, [1, 0]).to_vec::<f64>(), [4.0]);
/// ```
#[track_caller]
pub fn diagonal(x: impl Into<Variable>, offset: isize, axes: [isize; 2]) -> Variable {
    let _whole = composite("diagonal");
    let x = x.into();
    let rank = x.rank();
    let [rows, columns] = axes.map(|axis| normalize_axis("diagonal", axis, rank));
    if rows == columns {
        let what = format!("the axes {axes:?} are the same");
        raise(Error::argument("diagonal", what));
    }
    let others = (0..rank).filter(|&axis| axis != rows && axis != columns);
    let order = others.chain([rows, columns]).map(|axis| axis as isize);
    let order: SmallVec<[isize; 4]> = order.collect();
    Linear::of(Diagonal { offset }, permute(x, &order))
}
method!(diagonal, offset: isize, axes: [isize; 2]);

/// The sum of the main diagonal of the last two axes.
///
/// Shapes: x `[.., n, m]` → `[..]`. Types: all; integers and bools are added up as i64.
/// Gradient: `gy` on the diagonal, zero elsewhere.
///
/// # Panics
/// If there are fewer than two axes.
///
/// ```
/// use bibun::{functions::trace, Variable};
/// assert_eq!(trace(&Variable::new([[1.0, 2.0], [3.0, 4.0]])).item::<f64>(), 5.0);
/// ```
#[track_caller]
pub fn trace(x: impl Into<Variable>) -> Variable {
    let _whole = composite("trace");
    sum(diagonal(x, 0, [-2, -1]), -1)
}
method!(trace);

/// Where the diagonal `offset` of a matrix lies among its elements in row-major order.
fn positions(offset: isize, [rows, columns]: [usize; 2]) -> Option<Index> {
    let (down, right) = match offset < 0 {
        true => (offset.unsigned_abs(), 0),
        false => (0, offset.unsigned_abs()),
    };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let last = length.checked_sub(1)?;
    let start = down * columns + right;
    let step = columns + 1;
    // The last element of the diagonal ends the range.
    let stop = start + last * step + 1;
    Some(Index::from(start..stop).step_by(step as isize))
}

#[derive(Clone, Debug)]
struct Diagonal {
    offset: isize,
}

impl LinearRule for Diagonal {
    fn name(&self) -> &'static str {
        "diagonal"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        expect_matrix(x)?;
        let axis = x.shape.rank() - 2;
        let (rows, columns) = (x.shape[axis] as isize, x.shape[axis + 1] as isize);
        let length = (rows + self.offset.min(0)).min(columns - self.offset.max(0));
        let shape = x.shape.removed(axis).replaced(axis, length.max(0) as usize);
        Ok(Spec::new(shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.diagonal(self.offset)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        let axis = x.shape.rank() - 2;
        let matrix = [x.shape[axis], x.shape[axis + 1]];
        let offset = self.offset;
        Linear::of(PutDiagonal { offset, matrix }, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() + 2 < x.shape.rank()).then(|| y.clone())
    }
}

/// Zeros with x on a diagonal of the last two axes.
#[derive(Clone, Debug)]
struct PutDiagonal {
    offset: isize,
    /// Rows and columns.
    matrix: [usize; 2],
}

impl LinearRule for PutDiagonal {
    fn name(&self) -> &'static str {
        "diag"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let axis = x.shape.rank() - 1;
        let [rows, columns] = self.matrix;
        let shape = x.shape.replaced(axis, columns).inserted(axis, rows);
        Ok(Spec::new(shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        let axis = x.rank() - 1;
        let [rows, columns] = self.matrix;
        let flat = x.shape().replaced(axis, rows * columns);
        let mut matrices = Array::zeros(flat, x.dtype());
        if let Some(positions) = positions(self.offset, self.matrix) {
            matrices.assign(&[Index::Ellipsis, positions], &x);
        }
        matrices.reshape(x.shape().replaced(axis, columns).inserted(axis, rows))
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let offset = self.offset;
        Linear::of(Diagonal { offset }, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() + 1 < x.shape.rank()).then(|| y.clone())
    }
}

/// `axis` moved back until it stands before what is axis `start` now, or behind all if that is the
/// rank; [`moveaxis`] says instead where it ends up.
///
/// Shapes: x any → the sizes in the new order. Types: all. Gradient: `gy`, moved back.
///
/// # Panics
/// If there is no such axis.
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
    // A negative start counts axes from the end, where the place behind all has no number.
    let start = match start {
        start if start == rank as isize => rank,
        start => normalize_axis("rollaxis", start, rank),
    };
    let to = start - usize::from(axis < start);
    moveaxis(x, axis as isize, to as isize)
}
method!(rollaxis, axis: isize, start: isize);

/// The elements in row-major order as a vector.
///
/// Shapes: x any → `[n]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{functions::flatten, Variable};
/// assert_eq!(flatten(&Variable::new([[1.0, 2.0]])).shape(), [2]);
/// ```
#[track_caller]
pub fn flatten(x: impl Into<Variable>) -> Variable {
    let _whole = composite("flatten");
    let x = x.into();
    let size = x.size();
    reshape(x, size)
}
method!(flatten);

/// The axes from `axis` on as one: how images become the inputs of a linear layer.
///
/// Shapes: x `[n, ...]`, axis 1 → `[n, m]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{array::{Array, DType}, functions::flatten_from, Variable};
/// let x = Variable::new(Array::zeros([2, 3, 4, 4], DType::F32));
/// assert_eq!(flatten_from(&x, 1).shape(), [2, 48]);
/// assert_eq!(flatten_from(&x, -2).shape(), [2, 3, 16]);
/// ```
///
/// # Panics
/// If x has no such axis.
#[track_caller]
pub fn flatten_from(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("flatten_from");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("flatten_from", axis, shape.rank());
    let (before, joined) = shape.split_at(axis);
    let shape: Shape = before
        .iter()
        .copied()
        .chain([joined.iter().product()])
        .collect();
    reshape(x, shape)
}
method!(flatten_from, axis: isize);

/// [`flatten`] by its name in NumPy.
///
/// Shapes: x any → `[n]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{functions::ravel, Variable};
/// assert_eq!(ravel(&Variable::new([[1.0, 2.0]])).shape(), [2]);
/// ```
#[track_caller]
pub fn ravel(x: impl Into<Variable>) -> Variable {
    let _whole = composite("ravel");
    flatten(x)
}
method!(ravel);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::by_index;
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    let at = |x: &Array, index: &[usize]| x.element(index).to_f64();
    let shifted = |i: usize, offset: isize| i as isize + offset;
    vec![
        Sample::new(
            "flip",
            |x| vec![flip(&x[0], [0, -1])],
            move |x| {
                vec![by_index([2, 3, 2], |i| {
                    at(&x[0], &[1 - i[0], i[1], 1 - i[2]])
                })]
            },
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "flip",
            |x| vec![flip(&x[0], ..)],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[1 - i[0], 2 - i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "fliplr",
            |x| vec![fliplr(&x[0])],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[i[0], 2 - i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "flipud",
            |x| vec![flipud(&x[0])],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[1 - i[0], i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], 1, 0)],
            move |x| vec![by_index([3, 2], |i| at(&x[0], &[(i[0] + 2) % 3, i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], -5, -1)],
            move |x| vec![by_index([1, 3], |i| at(&x[0], &[i[0], (i[1] + 5) % 3]))],
        )
        .input([1, 3], range.clone()),
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(0, 1), (2, 0)], 0.5)],
            move |x| {
                vec![by_index([3, 5], |i| match (i[0] < 2, i[1] >= 2) {
                    (true, true) => at(&x[0], &[i[0], i[1] - 2]),
                    _ => 0.5,
                })]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new("pad", |x| vec![pad(&x[0], &[], 1)], |x| vec![x[0].clone()])
            .input((), range.clone()),
        Sample::new(
            "repeat",
            |x| vec![repeat(&x[0], 3, 0)],
            move |x| vec![by_index([6, 3], |i| at(&x[0], &[i[0] / 3, i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "repeat",
            |x| vec![repeat(&x[0], 2, -1)],
            move |x| vec![by_index([2, 6], |i| at(&x[0], &[i[0], i[1] / 2]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "tile",
            |x| vec![tile(&x[0], &[2])],
            move |x| vec![by_index([2, 6], |i| at(&x[0], &[i[0], i[1] % 3]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "tile",
            |x| vec![tile(&x[0], &[2, 1, 3])],
            move |x| vec![by_index([2, 1, 6], |i| at(&x[0], &[i[2] % 2]))],
        )
        .input([2], range.clone()),
        Sample::new(
            "tril",
            |x| vec![tril(&x[0], 1)],
            move |x| {
                vec![by_index([2, 2, 3], |i| {
                    match i[2] as isize <= shifted(i[1], 1) {
                        true => at(&x[0], i),
                        false => 0.0,
                    }
                })]
            },
        )
        .input([2, 2, 3], range.clone()),
        Sample::new(
            "triu",
            |x| vec![triu(&x[0], -1)],
            move |x| {
                vec![by_index([3, 2], |i| {
                    match i[1] as isize >= shifted(i[0], -1) {
                        true => at(&x[0], i),
                        false => 0.0,
                    }
                })]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "diag",
            |x| vec![diag(&x[0], 1)],
            move |x| {
                vec![by_index([4, 4], |i| match i[1] == i[0] + 1 {
                    true => at(&x[0], &[i[0]]),
                    false => 0.0,
                })]
            },
        )
        .input([3], range.clone()),
        Sample::new(
            "diag",
            |x| vec![diag(&x[0], -2)],
            move |x| {
                vec![by_index([2, 3, 3], |i| match i[1] == i[2] + 2 {
                    true => at(&x[0], &[i[0], i[2]]),
                    false => 0.0,
                })]
            },
        )
        .input([2, 1], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], 1, [0, 2])],
            move |x| vec![by_index([2, 2], |i| at(&x[0], &[i[1], i[0], i[1] + 1]))],
        )
        .input([2, 2, 3], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], -1, [-2, -1])],
            move |x| vec![by_index([2], |i| at(&x[0], &[i[0] + 1, i[0]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], 5, [0, 1])],
            |_| vec![by_index([0], |_| 0.0)],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "trace",
            |x| vec![trace(&x[0])],
            move |x| {
                vec![by_index([3], |i| {
                    at(&x[0], &[i[0], 0, 0]) + at(&x[0], &[i[0], 1, 1])
                })]
            },
        )
        .input([3, 2, 2], range.clone()),
        Sample::new(
            "rollaxis",
            |x| vec![rollaxis(&x[0], 0, 2)],
            move |x| vec![by_index([3, 2, 1], |i| at(&x[0], &[i[1], i[0], i[2]]))],
        )
        .input([2, 3, 1], range.clone()),
        Sample::new(
            "flatten",
            |x| vec![flatten(&x[0]), ravel(&x[0])],
            move |x| {
                let y = by_index([6], |i| at(&x[0], &[i[0] / 3, i[0] % 3]));
                vec![y.clone(), y]
            },
        )
        .input([2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::DType;

    #[test]
    fn integers_and_bools_are_rearranged() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        assert_eq!(x.flip(0).to_vec::<i64>(), [3, 4, 1, 2]);
        assert_eq!(x.tril(0).trace().item::<i64>(), 5);
        let frame = [9, 1, 2, 9, 3, 4];
        assert_eq!(x.pad(&[(0, 0), (1, 0)], 9.0).to_vec::<i64>(), frame);
        let flags = Variable::constant([true, false]);
        let matrix = [true, false, false, false];
        assert_eq!(flags.diag(0).to_vec::<bool>(), matrix);
        assert_eq!(flags.diag(0).trace().item::<i64>(), 1);
        assert_eq!(flags.roll(1, 0).to_vec::<bool>(), [false, true]);
        let twice = [true, true, false, false];
        assert_eq!(flags.repeat(2, 0).to_vec::<bool>(), twice);
    }

    #[test]
    fn a_frame_may_be_infinite() {
        let x = Variable::new([1.0]);
        let y = x.pad(&[(1, 0)], f64::NEG_INFINITY);
        assert_eq!(y.to_vec::<f64>(), [f64::NEG_INFINITY, 1.0]);
        y.slice(crate::s![1]).backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0]);
    }

    #[test]
    fn nothing_stays_nothing() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(x.flip(..).shape(), [2, 0]);
        assert_eq!(x.roll(3, 1).shape(), [2, 0]);
        assert_eq!(x.repeat(0, 0).shape(), [0, 0]);
        assert_eq!(x.diagonal(0, [0, 1]).shape(), [0]);
        assert_eq!(x.diag(1).shape(), [2, 1, 1]);
        assert_eq!(x.tile(&[0]).shape(), [2, 0]);
        assert!(Variable::new(1.0).flip(..).is_leaf());
    }

    #[test]
    fn mistakes_name_the_place() {
        let x = Variable::new([1.0, 2.0]);
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        for error in [
            message(&|| fliplr(&x)),
            message(&|| roll(&x, 1, 1)),
            message(&|| pad(&x, &[], 0)),
            message(&|| tril(&x, 0)),
            message(&|| trace(&x)),
            message(&|| diagonal(&x, 0, [0, 0])),
            message(&|| diag(Variable::new(1.0), 0)),
            message(&|| rollaxis(&x, 0, 2)),
        ] {
            assert!(error.contains(file!()), "{error}");
        }
    }
}
