//! Arrays put together and taken apart.

use bibun_array::{Array, DType, normalize_axis};

use crate::batch::Batched;
use crate::call::{composite, composite_if};
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::families::method;
use crate::functions::{cast, expand_dims, reshape};
use crate::variable::Variable;

/// The arrays one after another along `axis`.
///
/// Shapes: x₀ `[.., n₀, ..]`, x₁ `[.., n₁, ..]`, ... → `[.., n₀ + n₁ + ..., ..]`; all sizes but
/// those of `axis` are equal. Types: all, promoted.
/// Gradient: to each array its part of `gy`.
///
/// # Panics
/// If there are no arrays, there is no such axis, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::concat, Variable};
/// let (a, b) = (Variable::new([[1.0], [2.0]]), Variable::new([[3.0, 4.0], [5.0, 6.0]]));
/// assert_eq!(concat(&[&a, &b], 1).to_vec::<f64>(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
/// ```
#[track_caller]
pub fn concat(xs: &[&Variable], axis: isize) -> Variable {
    let alike = xs.windows(2).all(|pair| pair[0].dtype() == pair[1].dtype());
    let _whole = composite_if(!alike, "concat");
    let xs = promoted("concat", xs);
    let axis = normalize_axis("concat", axis, xs[0].rank());
    joined(xs, axis)
}

/// The arrays, all of one shape, along a new axis at `axis`, which may be the rank (or `-1`: behind
/// all).
///
/// Shapes: n arrays `[a, ..]` → `[a, .., n, ..]`. Types: all, promoted.
/// Gradient: to each array its part of `gy`.
///
/// # Panics
/// If there are no arrays, there is no such axis, or the shapes differ.
///
/// ```
/// use bibun::{functions::stack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
/// assert_eq!(stack(&[&a, &b], 1).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn stack(xs: &[&Variable], axis: isize) -> Variable {
    let _whole = composite("stack");
    let xs = promoted("stack", xs);
    let (first, rank) = (xs[0].spec(), xs[0].rank());
    if let Some(other) = xs.iter().find(|x| x.shape() != first.shape) {
        let what = format!("the shapes {} and {} differ", first.shape, other.shape());
        raise(Error::argument("stack", what));
    }
    let axis = normalize_axis("stack", axis, rank + 1);
    joined(layers(xs, axis), axis)
}

/// The arrays side by side: along the second axis, vectors and scalars along the only one.
///
/// Shapes: `[n, a]`, `[n, b]`, ... → `[n, a + b + ...]`. Types: all, promoted.
/// Gradient: to each array its part of `gy`.
///
/// # Panics
/// If there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::hstack, Variable};
/// let (a, b) = (Variable::new([[1.0], [2.0]]), Variable::new([[3.0], [4.0]]));
/// assert_eq!(hstack(&[&a, &b]).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn hstack(xs: &[&Variable]) -> Variable {
    let _whole = composite("hstack");
    let xs = with_axes(promoted("hstack", xs), |shape| match shape {
        [] => Some([1].into()),
        _ => None,
    });
    let axis = usize::from(xs[0].rank() > 1);
    joined(xs, axis)
}

/// The arrays one above the other: along the first axis; vectors are rows.
///
/// Shapes: `[a, m]`, `[b, m]`, ... → `[a + b + ..., m]`; `[m]` counts as `[1, m]`. Types: all,
/// promoted. Gradient: to each array its part of `gy`.
///
/// # Panics
/// If there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::vstack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([[3.0, 4.0]]));
/// assert_eq!(vstack(&[&a, &b]).shape(), [2, 2]);
/// ```
#[track_caller]
pub fn vstack(xs: &[&Variable]) -> Variable {
    let _whole = composite("vstack");
    let xs = with_axes(promoted("vstack", xs), |shape| match *shape {
        [] => Some([1, 1].into()),
        [m] => Some([1, m].into()),
        _ => None,
    });
    joined(xs, 0)
}

/// The arrays one behind the other: along the third axis, which vectors `[m]` (as `[1, m, 1]`) and
/// matrices `[n, m]` (as `[n, m, 1]`) get.
///
/// Shapes: `[n, m, a]`, `[n, m, b]`, ... → `[n, m, a + b + ...]`. Types: all, promoted.
/// Gradient: to each array its part of `gy`.
///
/// # Panics
/// If there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::dstack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
/// let y = dstack(&[&a, &b]);
/// assert_eq!(y.shape(), [1, 2, 2]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn dstack(xs: &[&Variable]) -> Variable {
    let _whole = composite("dstack");
    let xs = with_axes(promoted("dstack", xs), |shape| match *shape {
        [] => Some([1, 1, 1].into()),
        [m] => Some([1, m, 1].into()),
        [n, m] => Some([n, m, 1].into()),
        _ => None,
    });
    joined(xs, 2)
}

/// `sections` parts of equal size, one after another along `axis`.
///
/// Shapes: x `[.., n, ..]` → `sections` times `[.., n / sections, ..]`. Types: all.
/// Gradient: those of the parts, joined; zeros for parts that are not used.
///
/// # Panics
/// If the axis cannot be cut into equal sections (see [`array_split`]) or does not exist.
///
/// ```
/// use bibun::{functions::split, Variable};
/// let parts = split(&Variable::new([1.0, 2.0, 3.0, 4.0]), 2, 0);
/// assert_eq!(parts[1].to_vec::<f64>(), [3.0, 4.0]);
/// ```
#[track_caller]
pub fn split(x: impl Into<Variable>, sections: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split", axis, x.rank());
    if sections == 0 || !x.shape()[axis].is_multiple_of(sections) {
        let spec = x.spec();
        let what = format!("axis {axis} of x = {spec} has no {sections} sections of equal size");
        raise(Error::argument("split", what));
    }
    array_split(x, sections, axis as isize)
}
method!(split -> Vec<Self>, sections: usize, axis: isize);

/// `sections` parts along `axis` whose sizes differ by at most one, the larger ones first.
///
/// Shapes: x `[.., n, ..]` → `sections` times `[.., m, ..]` with `m` about `n / sections`.
/// Types: all. Gradient: those of the parts, joined; zeros for parts that are not used.
///
/// # Panics
/// If `sections` is zero or there is no such axis.
///
/// ```
/// use bibun::{functions::array_split, Variable};
/// let parts = array_split(&Variable::new([1.0, 2.0, 3.0]), 2, 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [3.0]);
/// ```
#[track_caller]
pub fn array_split(x: impl Into<Variable>, sections: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("array_split", axis, x.rank());
    if sections == 0 {
        raise(Error::argument("array_split", "no sections are asked for"));
    }
    let size = x.shape()[axis];
    let (each, larger) = (size / sections, size % sections);
    let positions = (1..sections).map(|section| section * each + section.min(larger));
    let positions = positions.collect();
    crate::apply(Split { positions, axis }, [x])
}
method!(array_split -> Vec<Self>, sections: usize, axis: isize);

/// The parts along `axis`, cut before each of `positions`: from the start to the first, from there
/// to the second, ..., and from the last to the end. Positions behind the end give empty parts.
///
/// Shapes: x `[.., n, ..]` → one array more than there are positions. Types: all.
/// Gradient: those of the parts, joined; zeros for parts that are not used.
///
/// # Panics
/// If the positions are not in ascending order or there is no such axis.
///
/// ```
/// use bibun::{functions::split_at, Variable};
/// let parts = split_at(&Variable::new([1.0, 2.0, 3.0, 4.0]), &[1], 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [2.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn split_at(x: impl Into<Variable>, positions: &[usize], axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split_at", axis, x.rank());
    if !positions.is_sorted() {
        let what = format!("the positions {positions:?} are not in ascending order");
        raise(Error::argument("split_at", what));
    }
    let size = x.shape()[axis];
    let positions = positions.iter().map(|&position| position.min(size));
    let positions = positions.collect();
    crate::apply(Split { positions, axis }, [x])
}
method!(split_at -> Vec<Self>, positions: &[usize], axis: isize);

/// Parts of these sizes along `axis`, one after another.
///
/// Shapes: x `[.., n, ..]`, sizes that add up to n → for each of them `[.., size, ..]`. Types: all.
/// Gradient: those of the parts, joined; zeros for parts that are not used.
///
/// # Panics
/// If the sizes do not add up to that of the axis, or there is no such axis.
///
/// ```
/// use bibun::{functions::split_sizes, Variable};
/// let parts = split_sizes(&Variable::new([1.0, 2.0, 3.0]), &[1, 2], 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn split_sizes(x: impl Into<Variable>, sizes: &[usize], axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split_sizes", axis, x.rank());
    let total = sizes
        .iter()
        .try_fold(0usize, |sum, &size| sum.checked_add(size));
    if total != Some(x.shape()[axis]) {
        let what = format!(
            "the sizes {sizes:?} do not add up to axis {axis} of x = {}",
            x.spec()
        );
        raise(Error::argument("split_sizes", what));
    }
    if sizes.is_empty() {
        return Vec::new();
    }
    let mut end = 0;
    let mut positions = Vec::with_capacity(sizes.len() - 1);
    for size in &sizes[..sizes.len() - 1] {
        end += size;
        positions.push(end);
    }
    crate::apply(Split { positions, axis }, [x])
}
method!(split_sizes -> Vec<Self>, sizes: &[usize], axis: isize);

/// At most `chunks` parts along `axis`, all but the last of one size, `⌈n / chunks⌉`: as `torch.chunk`.
/// There may be fewer parts than asked for; [`array_split`] has that number always.
///
/// Shapes: x `[.., n, ..]` → several `[.., ⌈n / chunks⌉, ..]`, the last of what is left. Types: all.
/// Gradient: those of the parts, joined; zeros for parts that are not used.
///
/// # Panics
/// If `chunks` is zero or there is no such axis.
///
/// ```
/// use bibun::{functions::chunk, Variable};
/// let parts = chunk(&Variable::new([1.0, 2.0, 3.0, 4.0, 5.0]), 4, 0);
/// let sizes: Vec<usize> = parts.iter().map(Variable::size).collect();
/// assert_eq!(sizes, [2, 2, 1]);
/// ```
#[track_caller]
pub fn chunk(x: impl Into<Variable>, chunks: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("chunk", axis, x.rank());
    if chunks == 0 {
        raise(Error::argument("chunk", "no chunks are asked for"));
    }
    let size = x.shape()[axis];
    let positions = match size.div_ceil(chunks) {
        // Of nothing as many as were asked for, as there.
        0 => vec![0; chunks - 1],
        each => (1..size.div_ceil(each)).map(|part| part * each).collect(),
    };
    crate::apply(Split { positions, axis }, [x])
}
method!(chunk -> Vec<Self>, chunks: usize, axis: isize);

/// The layers along `axis`, one by one and without it: what [`stack`] puts together.
///
/// Shapes: x `[.., n, ..]` → n arrays `[.., ..]`. Types: all.
/// Gradient: those of the layers, stacked; zeros for layers that are not used.
///
/// # Panics
/// If there is no such axis.
///
/// ```
/// use bibun::{functions::unstack, Variable};
/// let columns = unstack(&Variable::new([[1.0, 2.0], [3.0, 4.0]]), 1);
/// assert_eq!(columns[1].to_vec::<f64>(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn unstack(x: impl Into<Variable>, axis: isize) -> Vec<Variable> {
    let _whole = composite("unstack");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("unstack", axis, shape.rank());
    if shape[axis] == 0 {
        return Vec::new();
    }
    let layer = shape.removed(axis);
    let positions = (1..shape[axis]).collect();
    let layers = crate::apply(Split { positions, axis }, [x]);
    layers.into_iter().map(|x| reshape(x, &layer)).collect()
}
method!(unstack -> Vec<Self>, axis: isize);

/// All in the dtype that they promote to; there is at least one.
#[track_caller]
fn promoted(function: &'static str, xs: &[&Variable]) -> Vec<Variable> {
    let Some(dtype) = xs.iter().map(|x| x.dtype()).reduce(DType::promote) else {
        raise(Error::argument(function, "there are no arrays to join"))
    };
    xs.iter().map(|&x| cast(x, dtype)).collect()
}

#[track_caller]
fn joined(xs: Vec<Variable>, axis: usize) -> Variable {
    let [y] = crate::apply(Concat { axis }, xs);
    y
}

/// Each with a new axis of size 1.
#[track_caller]
fn layers(xs: Vec<Variable>, axis: usize) -> Vec<Variable> {
    let axis = axis as isize;
    xs.into_iter().map(|x| expand_dims(x, axis)).collect()
}

/// Each in the shape that stands for its own, where there is one.
#[track_caller]
fn with_axes(
    xs: Vec<Variable>,
    longer: impl Fn(&[usize]) -> Option<bibun_array::Shape>,
) -> Vec<Variable> {
    xs.into_iter()
        .map(|x| match longer(&x.shape()) {
            Some(shape) => reshape(x, shape),
            None => x,
        })
        .collect()
}

#[derive(Clone, Debug)]
struct Concat {
    axis: usize,
}

impl Function for Concat {
    type Inputs = Variadic;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "concat"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, xs: Vec<&Spec>) -> Result<[Spec; 1], Mismatch> {
        let (first, axis) = (xs[0], self.axis);
        if axis >= first.shape.rank() {
            let must_hold = format!("there must be an axis {axis}");
            return Err(Mismatch::new(&[("x0", first)], must_hold));
        }
        for (i, x) in xs.iter().enumerate() {
            let fits = x.dtype == first.dtype
                && x.shape.rank() == first.shape.rank()
                && x.shape == first.shape.replaced(axis, x.shape[axis]);
            if !fits {
                let must_hold = format!("all sizes but those of axis {axis} must be equal");
                let inputs = [("x0", first), (&format!("x{i}"), x)];
                return Err(Mismatch::new(&inputs, must_hold));
            }
        }
        let sizes = xs.iter().map(|x| x.shape[axis]);
        let size = sizes.fold(0, usize::saturating_add);
        Ok([Spec::new(first.shape.replaced(axis, size), first.dtype)])
    }

    fn forward(&self, xs: Vec<Array>) -> [Array; 1] {
        let xs: Vec<&Array> = xs.iter().collect();
        [bibun_array::concat(&xs, self.axis as isize)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> Vec<Option<Variable>> {
        let mut end = 0;
        let positions = (0..cx.input_count() - 1).map(|i| {
            end += cx.input_shape(i)[self.axis];
            end
        });
        let positions = positions.collect();
        let axis = self.axis;
        let parts = crate::apply(Split { positions, axis }, [gy]);
        let parts = parts.into_iter().enumerate();
        parts.map(|(i, gx)| cx.needs(i).then_some(gx)).collect()
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> [Option<Variable>; 1] {
        let zeros = |i| Array::zeros(cx.input_shape(i), cx.input_dtype(i));
        let dx = dx.into_iter().enumerate();
        let dx = dx.map(|(i, dx)| dx.unwrap_or_else(|| Variable::constant(zeros(i))));
        crate::apply(self.clone(), dx.collect()).map(Some)
    }

    fn batch(&self, xs: Vec<Batched>) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Self { axis }, xs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> Vec<Option<ExampleGradient>> {
        let (axis, mut start) = (gy.examples.axis(), 0);
        let parts = self.vjp(cx, [gy.cotangent]).into_iter().enumerate();
        let share = |(i, gx): (usize, Option<Variable>)| {
            let size = cx.input_shape(i)[self.axis];
            let slices = start..start + size;
            start += size;
            let examples = match axis == self.axis {
                true => gy.examples.picked(axis, slices),
                false => gy.examples.clone(),
            };
            Some(ExampleGradient::sliced(gx?, examples))
        };
        parts.map(share).collect()
    }
}

/// Cuts before each of `positions`, which ascend within the axis.
#[derive(Clone, Debug)]
struct Split {
    positions: Vec<usize>,
    axis: usize,
}

impl Function for Split {
    type Inputs = Fixed<1>;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "split"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<Vec<Spec>, Mismatch> {
        let size = x.shape[self.axis];
        let starts = [0].into_iter().chain(self.positions.iter().copied());
        let stops = self.positions.iter().copied().chain([size]);
        let part = |(start, stop)| Spec::new(x.shape.replaced(self.axis, stop - start), x.dtype);
        Ok(starts.zip(stops).map(part).collect())
    }

    fn forward(&self, [x]: [Array; 1]) -> Vec<Array> {
        x.split_at(&self.positions, self.axis as isize)
    }

    fn vjp(&self, _: &Context<'_>, gy: Vec<Variable>) -> [Option<Variable>; 1] {
        crate::apply(Concat { axis: self.axis }, gy).map(Some)
    }

    fn jvp(&self, _: &Context<'_>, [dx]: [Option<Variable>; 1]) -> Vec<Option<Variable>> {
        let parts = self.positions.len() + 1;
        match dx {
            Some(dx) => crate::apply(self.clone(), [dx])
                .into_iter()
                .map(Some)
                .collect(),
            None => vec![None; parts],
        }
    }

    fn batch(&self, [x]: [Batched; 1]) -> Vec<Batched> {
        let batch = x.axis.expect("the only input has a batch axis");
        // Parts of a mapped array are cut where it lies: only the axis may have moved on.
        let split = Self {
            axis: self.axis + usize::from(batch <= self.axis),
            ..self.clone()
        };
        let parts = crate::apply(split, [x.value]);
        parts
            .into_iter()
            .map(|y| Batched::along(y, batch))
            .collect()
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> [Option<ExampleGradient>; 1] {
        let first = &gy[0].examples;
        let axis = first.axis();
        let examples = match axis == self.axis {
            _ if gy.iter().any(|gy| gy.examples.axis() != axis) => None,
            true => {
                let owners = gy
                    .iter()
                    .flat_map(|gy| (0..gy.examples.slices()).map(|slice| gy.examples.owner(slice)));
                Some(first.owned_by(axis, owners.collect()))
            }
            false => {
                let merged = |all: Examples, gy: &ExampleCotangent| all.merged(&gy.examples);
                gy.iter().try_fold(first.clone(), merged)
            }
        };
        let Some(examples) = examples else {
            return [Some(ExampleGradient::Unknown)];
        };
        let cotangents = gy.into_iter().map(|gy| gy.cotangent).collect();
        let [gx] = self.vjp(cx, cotangents);
        [gx.map(|gx| ExampleGradient::sliced(gx, examples))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "concat",
            |x| vec![concat(&[&x[0], &x[1], &x[2]], -1)],
            move |x| {
                vec![by_index([2, 6], |i| match i[1] {
                    0 | 1 => at(&x[0], i),
                    2..5 => at(&x[1], &[i[0], i[1] - 2]),
                    _ => at(&x[2], &[i[0], i[1] - 5]),
                })]
            },
        )
        .input([2, 2], range.clone())
        .input([2, 3], range.clone())
        .input([2, 1], range.clone()),
        Sample::new(
            "concat",
            |x| vec![concat(&[&x[0], &x[0]], 0)],
            move |x| vec![by_index([4, 3], |i| at(&x[0], &[i[0] % 2, i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "stack",
            |x| vec![stack(&[&x[0], &x[1]], 1)],
            move |x| vec![by_index([3, 2, 1], |i| at(&x[i[1]], &[i[0], i[2]]))],
        )
        .input([3, 1], range.clone())
        .input([3, 1], range.clone()),
        Sample::new(
            "stack",
            |x| vec![stack(&[&x[0], &x[1]], -1)],
            move |x| vec![by_index([2], |i| at(&x[i[0]], &[]))],
        )
        .input((), range.clone())
        .input((), range.clone()),
        Sample::new(
            "hstack",
            |x| vec![hstack(&[&x[0], &x[1]])],
            move |x| {
                vec![by_index([2, 4], |i| match i[1] {
                    0 => at(&x[0], i),
                    _ => at(&x[1], &[i[0], i[1] - 1]),
                })]
            },
        )
        .input([2, 1], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "vstack",
            |x| vec![vstack(&[&x[0], &x[1]])],
            move |x| {
                vec![by_index([3, 3], |i| match i[0] {
                    0 => at(&x[0], &[i[1]]),
                    _ => at(&x[1], &[i[0] - 1, i[1]]),
                })]
            },
        )
        .input([3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "dstack",
            |x| vec![dstack(&[&x[0], &x[1]])],
            move |x| vec![by_index([2, 3, 2], |i| at(&x[i[2]], &[i[0], i[1]]))],
        )
        .input([2, 3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "split",
            |x| split(&x[0], 2, 1),
            move |x| {
                let part = |p: usize| by_index([3, 2], |i| at(&x[0], &[i[0], 2 * p + i[1]]));
                vec![part(0), part(1)]
            },
        )
        .input([3, 4], range.clone()),
        Sample::new(
            "split",
            |x| split(&x[0], 3, 0).split_off(2),
            move |x| vec![by_index([1, 2], |i| at(&x[0], &[2, i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "array_split",
            |x| array_split(&x[0], 2, -2),
            move |x| {
                vec![
                    by_index([2, 2], |i| at(&x[0], i)),
                    by_index([1, 2], |i| at(&x[0], &[2, i[1]])),
                ]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "split_sizes",
            |x| split_sizes(&x[0], &[1, 0, 2], 0),
            move |x| {
                vec![
                    by_index([1, 2], |i| at(&x[0], i)),
                    by_index([0, 2], |_| 0.0),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 1, i[1]])),
                ]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "chunk",
            |x| chunk(&x[0], 4, -2),
            move |x| {
                vec![
                    by_index([2, 2], |i| at(&x[0], i)),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 2, i[1]])),
                    by_index([1, 2], |i| at(&x[0], &[i[0] + 4, i[1]])),
                ]
            },
        )
        .input([5, 2], range.clone()),
        Sample::new(
            "split_at",
            |x| split_at(&x[0], &[1, 1, 7], 0),
            move |x| {
                vec![
                    by_index([1, 2], |i| at(&x[0], i)),
                    by_index([0, 2], |_| 0.0),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 1, i[1]])),
                    by_index([0, 2], |_| 0.0),
                ]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "unstack",
            |x| unstack(&x[0], 1),
            move |x| {
                let layer = |p: usize| by_index([2, 2], |i| at(&x[0], &[i[0], p, i[1]]));
                vec![layer(0), layer(1), layer(2)]
            },
        )
        .input([2, 3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn joining_promotes() {
        let (a, b) = (Variable::constant([1i64, 2]), Variable::new([0.5f32]));
        assert_eq!(concat(&[&a, &b], 0).dtype(), DType::F32.promote(DType::I64));
        assert_eq!(stack(&[&a, &a], 0).to_vec::<i64>(), [1, 2, 1, 2]);
        let flags = Variable::constant([true, false]);
        assert!(!unstack(&flags, 0)[1].item::<bool>());
        assert_eq!(concat(&[&flags, &a], 0).to_vec::<i64>(), [1, 0, 1, 2]);
    }

    #[test]
    fn scalars_and_vectors_get_axes() {
        let scalar = Variable::new(1.0);
        assert_eq!(hstack(&[&scalar, &Variable::new([2.0, 3.0])]).shape(), [3]);
        assert_eq!(vstack(&[&scalar, &scalar]).shape(), [2, 1]);
        assert_eq!(dstack(&[&scalar, &scalar]).shape(), [1, 1, 2]);
    }

    #[test]
    fn nothing_is_separated_into_nothing() {
        assert!(unstack(Variable::new(Array::zeros([2, 0], DType::F64)), 1).is_empty());
    }

    #[test]
    fn a_part_that_is_not_used_has_zero_gradient() {
        let x = Variable::new([1.0, 2.0, 3.0]);
        (3.0 * &unstack(&x, 0)[1]).backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 3.0, 0.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let (a, b) = (Variable::new([[1.0, 2.0]]), Variable::new([[1.0]]));
        let message = |f: &dyn Fn() -> Vec<Variable>| attempt(f).unwrap_err().to_string();
        let error = message(&|| vec![concat(&[&a, &b], 0)]);
        assert!(
            error.contains("x0 = [1, 2] f64, x1 = [1, 1] f64"),
            "{error}"
        );
        let error = message(&|| vec![stack(&[&a, &b], 0)]);
        assert!(error.contains("[1, 2] and [1, 1] differ"), "{error}");
        let error = message(&|| vec![concat(&[], 0)]);
        assert!(error.contains("no arrays to join"), "{error}");
        let error = message(&|| split(&a, 3, 1));
        assert!(error.contains("no 3 sections of equal size"), "{error}");
        let error = message(&|| split_at(&a, &[2, 1], 1));
        assert!(error.contains("ascending"), "{error}");
        for error in [
            message(&|| unstack(&a, 2)),
            message(&|| array_split(&a, 0, 0)),
        ] {
            assert!(error.contains(file!()), "{error}");
        }
    }

    #[test]
    fn chunks_may_be_fewer_and_sizes_must_add_up() {
        let sizes = |parts: Vec<Variable>| {
            let sizes = parts.iter().map(|part| part.shape()[0]);
            sizes.collect::<Vec<usize>>()
        };
        let x = Variable::new([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(sizes(x.chunk(4, 0)), [2, 2, 1]);
        assert_eq!(sizes(x.chunk(2, 0)), [3, 2]);
        assert_eq!(sizes(x.chunk(9, 0)), [1; 5]);
        let nothing = Variable::new(Array::zeros([0, 2], DType::F64));
        assert_eq!(sizes(nothing.chunk(3, 0)), [0; 3]);
        assert_eq!(sizes(x.split_sizes(&[0, 5], 0)), [0, 5]);
        assert!(nothing.split_sizes(&[], 0).is_empty());
        for wrong in [&[2, 2][..], &[], &[usize::MAX, 6]] {
            let error = crate::attempt(|| x.split_sizes(wrong, 0)).unwrap_err();
            let message =
                format!("split_sizes: the sizes {wrong:?} do not add up to axis 0 of x = [5] f64");
            assert!(error.to_string().starts_with(&message), "{error}");
        }
        assert!(crate::attempt(|| x.chunk(0, 0)).is_err());
    }
}
