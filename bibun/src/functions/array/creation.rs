//! Constants: with the shape and dtype of a given value, in equal steps, and the identity.

use bibun_array::{Array, DType, Element, Index, Scalar, Shape, allocating};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::array::concat::variables;
use crate::functions::{
    Operand, broadcast_to, cast, constant_beside, is_finite, pow, reshape, to_float, where_,
};
use crate::variable::Variable;

/// Returns zeros (or `false`) of the shape and dtype of x. They take no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::zeros_like, Variable};
/// assert_eq!(zeros_like(&Variable::new([1.0, 2.0])).to_vec::<f64>(), [0.0, 0.0]);
/// ```
pub fn zeros_like(x: impl Into<Variable>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::zeros(shape, dtype))
}

/// Returns ones (or `true`) of the shape and dtype of x. They take no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::ones_like, Variable};
/// assert_eq!(ones_like(&Variable::new([1.0, 2.0])).to_vec::<f64>(), [1.0, 1.0]);
/// ```
pub fn ones_like(x: impl Into<Variable>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::ones(shape, dtype))
}

/// Returns an array of one value, of the shape and dtype of x. It takes no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::full_like, Variable};
/// assert_eq!(full_like(&Variable::new([1.0f32, 2.0]), 7).to_vec::<f32>(), [7.0, 7.0]);
/// ```
#[track_caller]
pub fn full_like(x: impl Into<Variable>, value: impl Into<Scalar>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::full(shape, value.into().beside(dtype).cast(dtype)))
}

/// Returns the numbers from `start` in steps, up to `stop`, which is not included. Three integers give
/// i64, others f64.
///
/// Shapes: → `[count]` with `count = ⌈(stop - start) / step⌉`. Gradient: none.
///
/// # Panics
/// Panics if the step is zero or NaN, or there are more elements than memory holds.
///
/// ```
/// use bibun::functions::arange;
/// assert_eq!(arange(0, 5, 2).to_vec::<i64>(), [0, 2, 4]);
/// assert_eq!(arange(1.0, 0, -0.5).to_vec::<f64>(), [1.0, 0.5]);
/// ```
#[track_caller]
pub fn arange(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
) -> Variable {
    let bounds = [start.into(), stop.into(), step.into()];
    let [start, stop, step] = bounds.map(Scalar::to_f64);
    if step == 0.0 || [start, stop, step].iter().any(|bound| !bound.is_finite()) {
        let what = format!("no numbers from {start} to {stop} in steps of {step}");
        raise(Error::argument("arange", what));
    }
    if bounds.iter().any(|bound| bound.dtype().is_float()) {
        let count = ((stop - start) / step).ceil().max(0.0) as usize;
        let shape = Shape::from(count).addressable("arange");
        let places = allocating("arange", || Array::arange(0, shape.size() as i64));
        return Variable::constant(places.cast(DType::F64) * step + start);
    }
    let [start, stop, step] = bounds.map(i64::from_scalar);
    let distance = match step > 0 {
        true => start <= stop,
        false => start >= stop,
    };
    let distance = if distance { start.abs_diff(stop) } else { 0 };
    let count = distance.div_ceil(step.unsigned_abs());
    let shape = Shape::from(usize::try_from(count).unwrap_or(usize::MAX)).addressable("arange");
    let places = allocating("arange", || Array::arange(0, shape.size() as i64));
    Variable::constant(places * step + start)
}

/// Returns `count` numbers in equal steps from `start` to `stop`, both included.
///
/// Shapes: start, stop that broadcast to `[..]` → `[count, ..]`. Types: floats, promoted; integers give
/// f64.
/// Gradient: `Σ gy (1 - t)` to start and `Σ gy t` to stop, for the fractions t of the way.
///
/// # Panics
/// Panics if the shapes do not broadcast, or there are more elements than memory holds.
///
/// ```
/// use bibun::functions::linspace;
/// assert_eq!(linspace(0, 1, 5).to_vec::<f64>(), [0.0, 0.25, 0.5, 0.75, 1.0]);
/// ```
#[track_caller]
pub fn linspace(start: impl Into<Operand>, stop: impl Into<Operand>, count: usize) -> Variable {
    let _whole = composite("linspace");
    let (pair, _) = Operand::pair("linspace", start.into(), stop.into());
    let [start, stop] = pair.map(to_float);
    let dtype = start.dtype();
    let shape = start.shape().inserted(0, count).addressable("linspace");
    let mut aligned = vec![1; shape.rank()];
    aligned[0] = count;
    let places = Array::arange(0, count as i64).reshape(aligned);
    let last = count.saturating_sub(1);
    let is_last = constant_beside(&[&start, &stop], places.equal(last.max(1) as i64));
    let places = places.cast(dtype.accumulator());
    let places = constant_beside(&[&start, &stop], places);
    let [start, stop] = [start, stop].map(|end| cast(end, dtype.accumulator()));
    let count = last.max(1) as f64;
    let step = (&stop - &start) / count;
    // Where the ends are too far apart for a step, both are weighted.
    let part = &places / count;
    let far = &start * (1.0 - &part) + &stop * part;
    let y = where_(is_finite(&step), start + step * places, far);
    let y = where_(is_last, stop, y);
    cast(broadcast_to(y, shape), dtype)
}

/// Returns the powers of a base whose exponents are `count` numbers in equal steps from `start` to
/// `stop`, both included.
///
/// Shapes: start, stop that broadcast to `[..]` → `[count, ..]`. Types: floats, promoted; integers give
/// f64.
/// Gradient: that of the power and of [`linspace`].
///
/// # Panics
/// Panics if the shapes do not broadcast, or there are more elements than memory holds.
///
/// ```
/// use bibun::functions::logspace;
/// assert_eq!(logspace(0, 3, 4, 2.0).to_vec::<f64>(), [1.0, 2.0, 4.0, 8.0]);
/// ```
#[track_caller]
pub fn logspace(
    start: impl Into<Operand>,
    stop: impl Into<Operand>,
    count: usize,
    base: f64,
) -> Variable {
    let _whole = composite("logspace");
    pow(base, linspace(start, stop, count))
}

/// Returns the identity matrix, or, for two sizes, a matrix with ones on its diagonal and zeros elsewhere.
///
/// Shapes: → `[n, n]` or `[m, n]`. Types: `dtype`, any. Gradient: none.
///
/// # Panics
/// Panics if there are not one or two sizes, or the matrix has more elements than memory holds.
///
/// ```
/// use bibun::{array::DType, functions::eye};
/// assert_eq!(eye(2, DType::F32).to_vec::<f32>(), [1.0, 0.0, 0.0, 1.0]);
/// assert_eq!(eye([2, 1], DType::F32).to_vec::<f32>(), [1.0, 0.0]);
/// ```
#[track_caller]
pub fn eye(sizes: impl Into<Shape>, dtype: DType) -> Variable {
    Variable::constant(Array::eye(sizes, dtype))
}

/// Returns the positions of the lower triangle of a matrix in row-major order: rows and columns. Elements
/// above the diagonal `offset` do not belong to it.
///
/// Shapes: → `[count]`, `[count]`. Types: → i64. Gradient: none.
///
/// # Panics
/// Panics if the matrix has more elements than memory holds.
///
/// ```
/// use bibun::{at, functions::tril_indices, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let (rows, columns) = tril_indices(2, 2, 0);
/// assert_eq!(x.index(at![rows, columns]).to_vec::<f64>(), [1.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn tril_indices(rows: usize, columns: usize, offset: isize) -> (Variable, Variable) {
    indices_of("tril_indices", rows, columns, |ones| ones.tril(offset))
}

/// Returns the positions of the upper triangle of a matrix in row-major order: rows and columns. Elements
/// below the diagonal `offset` do not belong to it.
///
/// Shapes: → `[count]`, `[count]`. Types: → i64. Gradient: none.
///
/// # Panics
/// Panics if the matrix has more elements than memory holds.
///
/// ```
/// use bibun::functions::triu_indices;
/// let (rows, columns) = triu_indices(2, 3, 1);
/// assert_eq!(rows.to_vec::<i64>(), [0, 0, 1]);
/// assert_eq!(columns.to_vec::<i64>(), [1, 2, 2]);
/// ```
#[track_caller]
pub fn triu_indices(rows: usize, columns: usize, offset: isize) -> (Variable, Variable) {
    indices_of("triu_indices", rows, columns, |ones| ones.triu(offset))
}

#[track_caller]
fn indices_of(
    function: &'static str,
    rows: usize,
    columns: usize,
    part: impl Fn(Array) -> Array,
) -> (Variable, Variable) {
    let shape = Shape::from([rows, columns]).addressable(function);
    let found = allocating(function, || part(Array::ones(shape, DType::Bool)).nonzero());
    let of = |axis: isize| Variable::constant(found.slice(&[Index::ALL, Index::At(axis)]));
    (of(0), of(1))
}

/// Returns for each of several vectors an array in which it runs along its own axis of a grid and is
/// repeated along the others.
///
/// Shapes: `[n]`, `[m]`, .. → each `[n, m, ..]`. Types: all. Gradient: `gy`, summed over the other axes.
///
/// Source: `torch.meshgrid` with its default `indexing="ij"`; NumPy's default is what `swapaxes(0, 1)`
/// gives.
///
/// # Panics
/// Panics if one is not a vector or of shape `[]`.
///
/// ```
/// use bibun::{functions::meshgrid, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
/// let grid = meshgrid([&a, &b]);
/// assert_eq!(grid[0].to_vec::<f64>(), [1.0, 1.0, 2.0, 2.0]);
/// assert_eq!(grid[1].to_vec::<f64>(), [3.0, 4.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn meshgrid(vectors: impl IntoIterator<Item = impl Into<Variable>>) -> Vec<Variable> {
    let _whole = composite("meshgrid");
    let vectors = variables(vectors);
    if let Some(vector) = vectors.iter().find(|vector| vector.rank() > 1) {
        mismatch("meshgrid", &[("x", &vector.spec())], "it must be a vector")
    }
    let shape: Shape = vectors.iter().map(|vector| vector.size()).collect();
    let shape = shape.addressable("meshgrid");
    let along = |(axis, vector): (usize, Variable)| {
        let mut aligned = vec![1; shape.rank()];
        aligned[axis] = vector.size();
        broadcast_to(reshape(vector, aligned), &shape)
    };
    vectors.into_iter().enumerate().map(along).collect()
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let way = |x: &[Array], i: &[usize], count: usize| {
        let t = i[0] as f64 / (count - 1) as f64;
        at(&x[0], &i[1..]) * (1.0 - t) + at(&x[1], &[]) * t
    };
    vec![
        Sample::new(
            "linspace",
            |x| vec![linspace(&x[0], &x[1], 4)],
            move |x| vec![by_index([4, 2], |i| way(x, i, 4))],
        )
        .input([2], -2.0..2.0)
        .input((), -2.0..2.0),
        Sample::new(
            "logspace",
            |x| vec![logspace(&x[0], &x[1], 3, 2.0)],
            move |x| vec![by_index([3, 2], |i| way(x, i, 3).exp2())],
        )
        .input([2], -2.0..2.0)
        .input((), -2.0..2.0),
        Sample::new(
            "meshgrid",
            |x| meshgrid([&x[0], &x[1]]),
            move |x| {
                [0, 1]
                    .map(|own| by_index([2, 3], |i| at(&x[own], &[i[own]])))
                    .to_vec()
            },
        )
        .input([2], -2.0..2.0)
        .input([3], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_ends() {
        assert_eq!(arange(3, 0, 1).shape(), [0]);
        assert_eq!(arange(3, -1, -2).to_vec::<i64>(), [3, 1]);
        assert_eq!(arange(i64::MIN, i64::MAX, i64::MAX).size(), 3);
        assert_eq!(arange(0.0, 1.0, 0.3).size(), 4);
        assert!(crate::attempt(|| arange(0, 1, 0)).is_err());
        assert!(crate::attempt(|| arange(0.0, f64::NAN, 1.0)).is_err());
        assert_eq!(linspace(3, 5, 1).to_vec::<f64>(), [3.0]);
        assert_eq!(linspace(3, 5, 0).shape(), [0]);
        let ends = linspace(0.1, 0.7, 11).to_vec::<f64>();
        assert_eq!((ends[0], ends[10]), (0.1, 0.7));
        assert_eq!(linspace(Variable::new(0.0f32), 1.0, 3).dtype(), DType::F32);
    }

    #[test]
    fn triangles_may_be_empty() {
        assert_eq!(tril_indices(2, 3, -2).0.shape(), [0]);
        assert_eq!(triu_indices(0, 3, 0).1.shape(), [0]);
        assert!(meshgrid(Vec::<Variable>::new()).is_empty());
    }
    use crate::batch::vmap;

    #[test]
    fn the_dtype_is_that_of_x() {
        let flags = Variable::constant([true, false]);
        assert_eq!(zeros_like(&flags).to_vec::<bool>(), [false, false]);
        assert_eq!(ones_like(&flags).to_vec::<bool>(), [true, true]);
        assert_eq!(full_like([1i64], 2.5).to_vec::<i64>(), [2]);
        assert_eq!(zeros_like(Variable::new(1.0f32)).dtype(), DType::F32);
    }

    #[test]
    fn they_are_constants_of_one_batch_element() {
        let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        assert!(!ones_like(&x).requires_grad());
        let y = vmap(|v| vec![full_like(&v[0], 5.0)], &[x], &[Some(1)]);
        assert_eq!(y[0].to_vec::<f64>(), [5.0; 4]);
    }

    #[test]
    fn points_are_those_of_numpy() {
        let end = 2f64.powi(1023);
        let far = [linspace(-end, end, 5), Array::linspace(-end, end, 5).into()];
        for found in far {
            let expected = [-end, -end / 2.0, 0.0, end / 2.0, end];
            assert_eq!(found.to_vec::<f64>(), expected);
        }
        let expected = [
            0.0,
            0.3,
            0.6,
            0.8999999999999999,
            1.2,
            1.5,
            1.7999999999999998,
            2.1,
        ];
        let found = [linspace(0.0, 3.0, 11), Array::linspace(0.0, 3.0, 11).into()];
        for found in found.map(|x| x.to_vec::<f64>()) {
            assert_eq!(found[..8], expected);
            assert_eq!(found[10], 3.0);
        }
    }
}
