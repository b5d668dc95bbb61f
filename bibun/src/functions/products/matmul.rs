//! Matrix products.

use bibun_array::{Array, DType, Shape, normalize_axis};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::{composite, composite_if};
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, OuterProduct, ProductForm};
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Bilinear, BilinearRule, method};
use crate::functions::{broadcast_to, cast, permute, reshape, swapaxes};
use crate::variable::Variable;

/// Computes the matrix product as in NumPy, `y[.., i, j] = Σₖ a[.., i, k] b[.., k, j]`.
///
/// Shapes: a `[.., m, k]`, b `[.., k, n]` → `[.., m, n]`; the axes in front are broadcast. A vector
/// a is a row and a vector b a column, and the axis of size 1 that this adds is removed again.
/// Transposed operands are read in place.
/// Types: floats and integers, promoted.
/// Gradient: `gy bᵀ` to a, `aᵀ gy` to b, summed over the axes that were broadcast.
///
/// # Panics
/// Panics if an operand is a scalar, the shapes do not fit, or both are bool.
///
/// ```
/// use bibun::{functions::matmul, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(matmul(&x, &Variable::new([1.0, 10.0])).to_vec::<f64>(), [21.0, 43.0]);
/// assert_eq!(matmul(&x, x.transpose()).to_vec::<f64>(), [5.0, 11.0, 11.0, 25.0]);
/// ```
#[track_caller]
pub fn matmul(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let (a, b) = (a.into(), b.into());
    let are_matrices = [&a, &b].iter().all(|x| x.rank() == 2) && a.dtype() == b.dtype();
    let _whole = composite_if(!are_matrices, "matmul");
    let [a, b] = promoted(a, b);
    let (a_shape, b_shape) = (a.shape(), b.shape());
    let (Some(&k), false) = (a_shape.last(), b_shape.is_empty()) else {
        mismatch("matmul", &a, &b, HAVE_AXES)
    };
    if k != b_shape[b_shape.rank().saturating_sub(2)] {
        mismatch("matmul", &a, &b, "k must be equal")
    }
    if b_shape.rank() <= 2 {
        // With a single matrix `b`, all rows of `a` are rows of one product.
        let columns = &b_shape[1..];
        let rows: usize = a_shape[..a_shape.rank() - 1].iter().product();
        let shape: Shape = (a_shape[..a_shape.rank() - 1].iter().chain(columns))
            .copied()
            .collect();
        let b = reshaped(b, [k, columns.first().copied().unwrap_or(1)]);
        return reshaped(Bilinear::of(MatMul, reshaped(a, [rows, k]), b), shape);
    }
    let (is_row, [m, n]) = match a_shape.rank() {
        1 => (true, [1, b_shape[b_shape.rank() - 1]]),
        rank => (false, [a_shape[rank - 2], b_shape[b_shape.rank() - 1]]),
    };
    let a = reshaped(a, if is_row { Shape::from([1, k]) } else { a_shape });
    let in_front = |shape: &Shape| Shape::from(&shape[..shape.rank() - 2]);
    let Some(batch) = in_front(&a.shape()).broadcast(&in_front(&b_shape)) else {
        mismatch("matmul", &a, &b, "the axes in front must broadcast")
    };
    let with = |sizes: &[usize]| batch.iter().chain(sizes).copied().collect::<Shape>();
    let y = Bilinear::of(
        MatMul,
        broadcast_to(a, with(&[m, k])),
        broadcast_to(b, with(&[k, n])),
    );
    reshaped(y, if is_row { with(&[n]) } else { with(&[m, n]) })
}
method!(matmul, b: impl Into<Variable>);

/// Sums products over the last axis of a and the last but one of b (the only one of a vector), as
/// in NumPy: the inner product of two vectors, the matrix product of two matrices.
///
/// Shapes: a `[.., k]`, b `[.., k, n]` or `[k]` → the other axes of a, then those of b.
/// Types: floats and integers, promoted.
/// Gradient: that of [`tensordot`].
///
/// # Panics
/// Panics if an operand is a scalar, the sizes differ, or both are bool.
///
/// ```
/// use bibun::{functions::dot, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// assert_eq!(dot(&x, &x).item::<f64>(), 14.0);
/// ```
#[track_caller]
pub fn dot(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("dot");
    let (a, b) = (a.into(), b.into());
    if a.rank() == 0 || b.rank() == 0 {
        mismatch("dot", &a, &b, HAVE_AXES)
    }
    let row = if b.rank() == 1 { -1 } else { -2 };
    contract("dot", a, b, &[-1], &[row])
}
method!(dot, b: impl Into<Variable>);

/// Computes all products of an element of a and one of b, `y[i, j] = a[i] b[j]`.
///
/// Shapes: a, b any, taken as vectors → `[a.size(), b.size()]`.
/// Types: floats and integers, promoted.
/// Gradient: `gy b` to a, `gyᵀ a` to b.
///
/// # Panics
/// Panics if both are bool.
///
/// ```
/// use bibun::{functions::outer, Variable};
/// let y = outer(&Variable::new([1.0, 2.0]), &Variable::new([3.0, 4.0]));
/// assert_eq!(y.to_vec::<f64>(), [3.0, 4.0, 6.0, 8.0]);
/// ```
#[track_caller]
pub fn outer(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("outer");
    let [a, b] = promoted(a.into(), b.into());
    let (n, m) = (a.size(), b.size());
    Bilinear::of(MatMul, reshaped(a, [n, 1]), reshaped(b, [1, m]))
}
method!(outer, b: impl Into<Variable>);

/// Sums products over pairs of axes: axis `axes_a[i]` of a with axis `axes_b[i]` of b.
///
/// Shapes: a, b any, equal along the pairs → the other axes of a, then those of b. Without pairs
/// the result has all products of two elements.
/// Types: floats and integers, promoted.
/// Gradient: `gy` contracted with the other operand over the axes that came from it.
///
/// # Panics
/// Panics if the sizes differ, an axis does not exist or is named twice, or both are bool.
///
/// ```
/// use bibun::{array::Array, functions::tensordot, Variable};
/// let a = Variable::new(Array::arange(0, 24).reshape([2, 3, 4]));
/// let b = Variable::new(Array::arange(0, 12).reshape([4, 3]));
/// let y = tensordot(&a, &b, &[1, 2], &[1, 0]);
/// assert_eq!(y.to_vec::<i64>(), [440, 1232]);
/// ```
#[track_caller]
pub fn tensordot(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    axes_a: &[isize],
    axes_b: &[isize],
) -> Variable {
    let _whole = composite("tensordot");
    contract("tensordot", a.into(), b.into(), axes_a, axes_b)
}
method!(tensordot, b: impl Into<Variable>, axes_a: &[isize], axes_b: &[isize]);

/// Computes [`tensordot`] by one matrix product.
#[track_caller]
fn contract(
    function: &'static str,
    a: Variable,
    b: Variable,
    axes_a: &[isize],
    axes_b: &[isize],
) -> Variable {
    if axes_a.len() != axes_b.len() {
        let what = format!("axes_a = {axes_a:?} and axes_b = {axes_b:?} must be pairs");
        raise(Error::argument(function, what));
    }
    let [a, b] = promoted(a, b);
    let (a_shape, b_shape) = (a.shape(), b.shape());
    let own = |axes: &[isize], rank| {
        // This call only checks the axes; the pairs must keep their order.
        bibun_array::normalize_axes(function, axes, rank);
        let axes = axes
            .iter()
            .map(|&axis| normalize_axis(function, axis, rank));
        axes.collect::<SmallVec<[usize; 4]>>()
    };
    let (axes_a, axes_b) = (own(axes_a, a_shape.rank()), own(axes_b, b_shape.rank()));
    if axes_a
        .iter()
        .zip(&axes_b)
        .any(|(&i, &j)| a_shape[i] != b_shape[j])
    {
        let must_hold = format!("sizes along {axes_a:?} of a and {axes_b:?} of b must be equal");
        mismatch(function, &a, &b, &must_hold)
    }
    let others = |axes: &[usize], rank: usize| {
        let others = (0..rank).filter(|axis| !axes.contains(axis));
        others.collect::<SmallVec<[usize; 4]>>()
    };
    let (rows, columns) = (
        others(&axes_a, a_shape.rank()),
        others(&axes_b, b_shape.rank()),
    );
    let in_order = |x: Variable, first: &[usize], then: &[usize]| {
        let order: SmallVec<[isize; 4]> = first.iter().chain(then).map(|&i| i as isize).collect();
        permute(x, &order)
    };
    let size = |shape: &Shape, axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product();
    let k = size(&a_shape, &axes_a);
    let y = Bilinear::of(
        MatMul,
        reshaped(in_order(a, &rows, &axes_a), [size(&a_shape, &rows), k]),
        reshaped(
            in_order(b, &axes_b, &columns),
            [k, size(&b_shape, &columns)],
        ),
    );
    let rows = rows.iter().map(|&axis| a_shape[axis]);
    reshaped(
        y,
        rows.chain(columns.iter().map(|&axis| b_shape[axis]))
            .collect::<Shape>(),
    )
}

/// Casts both to the dtype in which the product is computed.
#[track_caller]
pub(crate) fn promoted(a: Variable, b: Variable) -> [Variable; 2] {
    let dtype = a.dtype().promote(b.dtype());
    [cast(a, dtype), cast(b, dtype)]
}

/// Calls [`reshape`], but only if the shape changes, to save a step of history.
#[track_caller]
pub(crate) fn reshaped(x: Variable, shape: impl Into<Shape>) -> Variable {
    let shape = shape.into();
    if x.shape() == shape {
        x
    } else {
        reshape(x, shape)
    }
}

const HAVE_AXES: &str = "a product needs at least one axis on both sides";

#[cold]
#[track_caller]
fn mismatch(function: &'static str, a: &Variable, b: &Variable, must_hold: &str) -> ! {
    let inputs = [("a [.., m, k]", &a.spec()), ("b [.., k, n]", &b.spec())];
    crate::error::mismatch(function, &inputs, must_hold)
}

/// The products of matrices on the last two axes; all axes before them are equal.
#[derive(Clone, Debug)]
pub(crate) struct MatMul;

impl BilinearRule for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn shape(&self, a: &Spec, b: &Spec) -> Result<Spec, Mismatch> {
        let inputs = [("a [.., m, k]", a), ("b [.., k, n]", b)];
        if a.dtype == DType::Bool {
            return Err(Mismatch::new(&inputs, "a product is not defined for bools"));
        }
        let rank = a.shape.rank();
        let fit = rank >= 2
            && rank == b.shape.rank()
            && a.shape[..rank - 2] == b.shape[..rank - 2]
            && a.shape[rank - 1] == b.shape[rank - 2];
        if !fit || a.dtype != b.dtype {
            let must_hold = "the axes in front and k must be equal";
            return Err(Mismatch::new(&inputs, must_hold));
        }
        let shape = a.shape.replaced(rank - 1, b.shape[rank - 1]);
        Ok(Spec::new(shape, a.dtype))
    }

    fn forward(&self, a: Array, b: Array) -> Array {
        bibun_array::matmul(&a, &b)
    }

    fn transpose_a(&self, _: &Spec, b: Variable, gy: Variable) -> Variable {
        Bilinear::of(Self, gy, swapaxes(b, -1, -2))
    }

    fn transpose_b(&self, _: &Spec, a: Variable, gy: Variable) -> Variable {
        Bilinear::of(Self, swapaxes(a, -1, -2), gy)
    }

    fn batch(&self, a: Batched, b: Batched) -> Batched {
        match (a.axis, b.axis) {
            (Some(axis), None) if b.value.rank() == 2 => rows_in_batch(a.value, axis, b.value),
            (None, Some(axis)) if a.value.rank() == 2 => {
                // (a b)ᵀ = bᵀ aᵀ; swapping the axes of the matrix moves the batch axis at most by a
                // swap.
                let b = swapaxes(Batched::along(b.value, axis).to_front(0), -1, -2);
                let y = rows_in_batch(b, 0, swapaxes(a.value, 0, 1));
                Batched::along(swapaxes(y.value, -1, -2), 0)
            }
            _ => {
                let count = Batched::batch_size(&[a.clone(), b.clone()]);
                Batched::along(Bilinear::of(Self, a.to_front(count), b.to_front(count)), 0)
            }
        }
    }

    fn per_example(&self, cx: &Context<'_>, gy: ExampleCotangent) -> [Option<ExampleGradient>; 2] {
        let rank = cx.input_shape(0).rank();
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        let of_a = || self.transpose_a(cx.input_spec(0), cx.input(1), cotangent.clone());
        let of_b = || self.transpose_b(cx.input_spec(1), cx.input(0), cotangent.clone());
        let own = |gradient| Some(ExampleGradient::sliced(gradient, examples.clone()));
        let (rows, columns) = (rank - 2, rank - 1);
        if examples.axis() < rows {
            let ga = cx.needs(0).then(of_a).and_then(own);
            return [ga, cx.needs(1).then(of_b).and_then(own)];
        }
        if rank > 2 {
            return [0, 1].map(|i| cx.needs(i).then_some(ExampleGradient::Unknown));
        }
        if examples.axis() == columns {
            let by_rows = |x: &Variable| examples.moved(0).of_each(&swapaxes(x, 0, 1));
            let joined = || {
                let sum = |b: &Variable, gy: &Variable| matmul(swapaxes(gy, 0, 1), b);
                let (b, gy) = (by_rows(&cx.input(1)), by_rows(&cotangent));
                let form = ProductForm::Matrix { transposed: true };
                ExampleGradient::OuterProduct(OuterProduct::new(form, b, gy, sum))
            };
            let ga = cx.needs(0).then(joined);
            return [ga, cx.needs(1).then(of_b).and_then(own)];
        }
        let ga = cx.needs(0).then(of_a).and_then(own);
        let joined = || {
            let sum = |a: &Variable, gy: &Variable| matmul(swapaxes(a, 0, 1), gy);
            let (a, gy) = (examples.of_each(&cx.input(0)), examples.of_each(&cotangent));
            let form = ProductForm::Matrix { transposed: false };
            ExampleGradient::OuterProduct(OuterProduct::new(form, a, gy, sum))
        };
        [ga, cx.needs(1).then(joined)]
    }
}

/// Computes the product of each batch element's matrix and one matrix for all, as one product of
/// all rows.
fn rows_in_batch(a: Variable, axis: usize, b: Variable) -> Batched {
    // The batch axis may stay before or after the axis of the rows.
    let (a, axis) = match axis {
        2 => (Batched::along(a, axis).to_front(0), 0),
        axis => (a, axis),
    };
    Batched::along(matmul(a, b), axis)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    let at = |x: &Array, index: &[usize]| x.element(index).to_f64();
    let sample = |call: fn(&Variable, &Variable) -> Variable,
                  a: Shape,
                  b: Shape,
                  y: Shape,
                  k: usize,
                  // The k-th term of an output element, given the element's position in row-major
                  // order.
                  term: fn(&[f64], &[f64], usize, usize) -> f64| {
        let size = y.size();
        let reference = move |x: &[Array]| {
            let (a, b) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
            let element = |i| (0..k).map(|k| term(&a, &b, i, k)).sum::<f64>();
            vec![Array::from_vec((0..size).map(element).collect(), &y)]
        };
        Sample::new("matmul", move |x| vec![call(&x[0], &x[1])], reference)
            .input(a, range.clone())
            .input(b, range.clone())
    };
    let named = |name: &'static str, sample: Sample| Sample { name, ..sample };
    let product = |a: &Variable, b: &Variable| matmul(a, b);
    vec![
        sample(
            product,
            [2, 3].into(),
            [3, 4].into(),
            [2, 4].into(),
            3,
            |a, b, i, k| a[i / 4 * 3 + k] * b[k * 4 + i % 4],
        ),
        sample(
            product,
            [3].into(),
            [3].into(),
            ().into(),
            3,
            |a, b, _, k| a[k] * b[k],
        ),
        sample(
            product,
            [3].into(),
            [3, 2].into(),
            [2].into(),
            3,
            |a, b, i, k| a[k] * b[k * 2 + i],
        ),
        sample(
            product,
            [2, 3].into(),
            [3].into(),
            [2].into(),
            3,
            |a, b, i, k| a[i * 3 + k] * b[k],
        ),
        // A batch axis on both sides, broadcast on either; then with a vector.
        sample(
            product,
            [2, 1, 3].into(),
            [2, 3, 2].into(),
            [2, 1, 2].into(),
            3,
            |a, b, i, k| a[i / 2 * 3 + k] * b[i / 2 * 6 + k * 2 + i % 2],
        ),
        sample(
            product,
            [2, 2, 3].into(),
            [3, 1].into(),
            [2, 2, 1].into(),
            3,
            |a, b, i, k| a[i * 3 + k] * b[k],
        ),
        sample(
            product,
            [2, 3].into(),
            [2, 1, 3, 1].into(),
            [2, 1, 2, 1].into(),
            3,
            |a, b, i, k| a[i % 2 * 3 + k] * b[i / 2 * 3 + k],
        ),
        sample(
            product,
            [2, 1, 1, 3].into(),
            [3, 3, 2].into(),
            [2, 3, 1, 2].into(),
            3,
            |a, b, i, k| a[i / 6 * 3 + k] * b[i / 2 % 3 * 6 + k * 2 + i % 2],
        ),
        sample(
            product,
            [3].into(),
            [2, 3, 2].into(),
            [2, 2].into(),
            3,
            |a, b, i, k| a[k] * b[i / 2 * 6 + k * 2 + i % 2],
        ),
        sample(
            |a, b| matmul(transpose_last(a), transpose_last(b)),
            [3, 2].into(),
            [1, 3].into(),
            [2, 1].into(),
            3,
            |a, b, i, k| a[k * 2 + i] * b[k],
        ),
        named(
            "dot",
            sample(
                |a, b| dot(a, b),
                [3].into(),
                [3].into(),
                ().into(),
                3,
                |a, b, _, k| a[k] * b[k],
            ),
        ),
        named(
            "dot",
            sample(
                |a, b| dot(a, b),
                [2, 3].into(),
                [2, 3, 2].into(),
                [2, 2, 2].into(),
                3,
                |a, b, i, k| a[i / 4 * 3 + k] * b[i / 2 % 2 * 6 + k * 2 + i % 2],
            ),
        ),
        named(
            "outer",
            sample(
                |a, b| outer(a, b),
                [3].into(),
                [1, 2].into(),
                [3, 2].into(),
                1,
                |a, b, i, _| a[i / 2] * b[i % 2],
            ),
        ),
        Sample::new(
            "tensordot",
            |x| vec![tensordot(&x[0], &x[1], &[-1, 0], &[0, 2])],
            move |x| {
                let element = |i: usize, j: usize| {
                    let pairs = (0..4).flat_map(|k| (0..2).map(move |l| (k, l)));
                    let products =
                        pairs.map(|(k, l)| at(&x[0], &[l, i, k]) * at(&x[1], &[k, j, l]));
                    products.sum::<f64>()
                };
                let elements = (0..3).flat_map(|i| (0..2).map(move |j| (i, j)));
                let elements = elements.map(|(i, j)| element(i, j)).collect();
                vec![Array::from_vec(elements, [3, 2])]
            },
        )
        .input([2, 3, 4], -2.0..2.0)
        .input([4, 2, 2], -2.0..2.0),
    ]
}

#[cfg(test)]
fn transpose_last(x: &Variable) -> Variable {
    swapaxes(x, -1, -2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::{Error, attempt, gradients};

    #[test]
    fn mistakes_are_named() {
        let a = Variable::new([[1.0, 2.0]]);
        let error = attempt(|| matmul(&a, &a)).unwrap_err();
        assert!(matches!(
            error,
            Error::Mismatch {
                function: "matmul",
                ..
            }
        ));
        let message = error.to_string();
        assert!(message.contains("a [.., m, k] = [1, 2] f64"), "{message}");
        assert!(message.contains("k must be equal"), "{message}");
        let scalar = Variable::new(1.0);
        assert!(attempt(|| matmul(&a, &scalar)).is_err());
        assert!(attempt(|| dot(&scalar, &a)).is_err());
        let truths = Variable::constant([[true], [false]]);
        let message = attempt(|| matmul(truths.transpose(), &truths))
            .unwrap_err()
            .to_string();
        assert!(message.contains("bools"), "{message}");
        let wide = Variable::new(Array::zeros([2, 2, 1], DType::F64));
        let other = Variable::new(Array::zeros([3, 1, 2], DType::F64));
        let message = attempt(|| matmul(&wide, &other)).unwrap_err().to_string();
        assert!(message.contains("must broadcast"), "{message}");
        let message = attempt(|| tensordot(&wide, &other, &[0], &[0]))
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("tensordot: inputs do not fit"),
            "{message}"
        );
        assert!(attempt(|| tensordot(&wide, &other, &[0, 0], &[0, 1])).is_err());
        assert!(attempt(|| tensordot(&wide, &other, &[0], &[])).is_err());
    }

    #[test]
    fn dtypes_are_promoted_and_integers_have_no_gradient() {
        let x = Variable::new([[1.0f32, 2.0]]);
        let n = Variable::constant([[3i64], [4]]);
        let y = matmul(&x, &n);
        assert_eq!((y.dtype(), y.item::<f32>()), (DType::F32, 11.0));
        let gradients = gradients(&[&y], &[&x]);
        let gradient = gradients[0].as_ref().unwrap();
        assert_eq!(gradient.to_vec::<f32>(), [3.0, 4.0]);
    }

    #[test]
    fn nothing_times_nothing_is_zero() {
        let a = Variable::new(Array::zeros([2, 0], DType::F64));
        let b = Variable::new(Array::zeros([0, 3], DType::F64));
        assert_eq!(matmul(&a, &b).to_vec::<f64>(), [0.0; 6]);
        let (gradients, a) = (gradients(&[&matmul(&a, &b).sum(..)], &[&a]), a);
        assert_eq!(gradients[0].as_ref().unwrap().shape(), a.shape());
    }

    #[test]
    fn batches_times_one_matrix_are_rows_of_one_product() {
        let x = Variable::new(Array::from_vec((0..24).map(f64::from).collect(), [2, 3, 4]));
        let w = Variable::new(Array::from_vec((0..8).map(f64::from).collect(), [4, 2]));
        for axis in 0..2 {
            let y = vmap(|x| vec![matmul(&x[0], &w)], &[x.clone()], &[Some(axis)]);
            let expected = match axis {
                0 => matmul(&x, &w),
                _ => matmul(&x, &w).swapaxes(0, 1),
            };
            assert_eq!(y[0].to_vec::<f64>(), expected.to_vec::<f64>());
            let mut creator = y[0].creator().expect("recorded");
            while creator.name() != "matmul" {
                creator = creator.inputs()[0].creator().expect("a product somewhere");
            }
            assert_eq!(*creator.inputs()[0].shape(), [6, 4]);
        }
    }
}
