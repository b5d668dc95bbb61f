//! Norms of vectors and matrices.

use bibun_array::Axes;

use super::matrices::{expect_matrices, expect_square, widened_or_complex};
use super::solve::inverse_or_nan;
use super::svd::checked_values;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{
    abs, cast, expand_dims, in_accumulator, is_nan, max, min, norm as length, norm_of_order,
    not_equal, permute, sum, to_differentiable, where_,
};
use crate::variable::Variable;

/// A norm of vectors, for [`vector_norm`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum VectorNorm {
    /// `Σ |x|ᵖ` to the power `1 / p`, for any p but 0: the length is that of 2. Negative numbers give 0 where there is a zero.
    P(f64),
    /// The largest absolute value.
    Inf,
    /// The smallest absolute value.
    NegInf,
    /// The number of elements that are not zero (which is no norm).
    NonZero,
}

/// A norm of matrices, for [`matrix_norm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixNorm {
    /// Of Frobenius: the length of all elements.
    Fro,
    /// Nuclear: the sum of the singular values.
    Nuc,
    /// The largest sum of absolute values in a column.
    One,
    /// The smallest sum of absolute values in a column.
    NegOne,
    /// Spectral: the largest singular value.
    Two,
    /// The smallest singular value.
    NegTwo,
    /// The largest sum of absolute values in a row.
    Inf,
    /// The smallest sum of absolute values in a row.
    NegInf,
}

/// Computes norms of vectors along axes, which are one vector together.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; complex numbers, whose norms are real; integers give f64.
/// Gradient: zero at elements that are zero, and at vectors of zeros; equal elements share those of [`VectorNorm::Inf`]
/// and [`VectorNorm::NegInf`]; NaN at infinite elements, for p above 0 other than 1 and 2. [`VectorNorm::NonZero`] has
/// none. (Second derivatives for p below 2 are infinite or NaN at zeros.)
/// Source: `numpy.linalg.vector_norm`.
///
/// # Panics
/// Panics if there is no such axis, if p is 0 or NaN, or if extremes are asked of no elements.
///
/// ```
/// use bibun::{linalg::{vector_norm, VectorNorm}, Variable};
/// let x = Variable::new([[3.0, -4.0], [0.0, 2.0]]);
/// assert_eq!(vector_norm(&x, VectorNorm::P(2.0), 1).to_vec::<f64>(), [5.0, 2.0]);
/// assert_eq!(vector_norm(&x, VectorNorm::P(1.0), 1).to_vec::<f64>(), [7.0, 2.0]);
/// assert_eq!(vector_norm(&x, VectorNorm::NonZero, 1).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn vector_norm(x: impl Into<Variable>, order: VectorNorm, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("vector_norm");
    let (x, axes) = (to_differentiable(x.into()), axes.into());
    let (own, _) = axes.resolve("vector_norm", x.rank());
    let is_empty = own.iter().any(|&axis| x.shape()[axis] == 0);
    match order {
        VectorNorm::Inf | VectorNorm::P(f64::INFINITY) => max(abs(x), axes),
        VectorNorm::NegInf | VectorNorm::P(f64::NEG_INFINITY) => min(abs(x), axes),
        VectorNorm::NonZero => {
            let dtype = x.dtype().to_real();
            sum(cast(not_equal(x, 0.0), dtype), axes)
        }
        VectorNorm::P(2.0) => length(x, axes),
        VectorNorm::P(1.0) => sum(abs(x), axes),
        VectorNorm::P(p) if p == 0.0 || p.is_nan() => {
            let what = format!("p is {p}; it must be a number that is not 0");
            raise(Error::argument("vector_norm", what))
        }
        // Of nothing: the sum of no powers, and its root.
        VectorNorm::P(p) if is_empty => {
            sum(abs(x), axes) + if p > 0.0 { 0.0 } else { f64::INFINITY }
        }
        VectorNorm::P(p) => in_accumulator(abs(x), |size| norm_of_order(size, p, axes)),
    }
}

/// Computes norms of matrices, whose rows and columns are two axes.
///
/// Shapes: a any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; complex numbers, whose norms are real; integers give f64.
/// Gradient: by the formula of each; of singular values that of [`svdvals`](super::svdvals); equal sums share it; that of
/// Frobenius is zero at zero.
/// Source: `numpy.linalg.matrix_norm`, whose axes are the last two.
///
/// # Panics
/// Panics if the axes are not two, if extremes are asked of no elements, or, for norms of singular values, if elements are
/// not finite.
///
/// ```
/// use bibun::{linalg::{matrix_norm, MatrixNorm}, Variable};
/// let a = Variable::new([[3.0, 0.0], [-4.0, 0.0]]);
/// assert_eq!(matrix_norm(&a, MatrixNorm::Fro, [-2, -1]).item::<f64>(), 5.0);
/// assert_eq!(matrix_norm(&a, MatrixNorm::One, [-2, -1]).item::<f64>(), 7.0);
/// assert_eq!(matrix_norm(&a, MatrixNorm::One, [-1, -2]).item::<f64>(), 4.0);
/// ```
#[track_caller]
pub fn matrix_norm(a: impl Into<Variable>, order: MatrixNorm, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("matrix_norm");
    let (a, axes) = (to_differentiable(a.into()), axes.into());
    let rank = a.rank();
    let (own, keeps) = axes.resolve("matrix_norm", rank);
    let in_order = axes.in_order("matrix_norm", rank);
    let [rows, columns] = in_order[..] else {
        let what = format!("the axes are {in_order:?}; a norm of matrices has two");
        raise(Error::argument("matrix_norm", what));
    };
    let others = (0..rank).filter(|axis| !own.contains(axis));
    let all: Vec<isize> = others
        .chain([rows, columns])
        .map(|axis| axis as isize)
        .collect();
    let y = of_matrices("matrix_norm", permute(a, &all), order);
    match keeps {
        true => expand_dims(expand_dims(y, own[0] as isize), own[1] as isize),
        false => y,
    }
}

#[track_caller]
fn of_matrices(function: &'static str, a: Variable, order: MatrixNorm) -> Variable {
    expect_matrices(function, &a);
    match order {
        MatrixNorm::Fro => length(a, [-2, -1]),
        MatrixNorm::Nuc => sum(checked_values(function, a), -1),
        MatrixNorm::One => max(sum(abs(a), -2), -1),
        MatrixNorm::NegOne => min(sum(abs(a), -2), -1),
        MatrixNorm::Two => max(checked_values(function, a), -1),
        MatrixNorm::NegTwo => min(checked_values(function, a), -1),
        MatrixNorm::Inf => max(sum(abs(a), -1), -1),
        MatrixNorm::NegInf => min(sum(abs(a), -1), -1),
    }
}

/// A norm of vectors or of matrices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Norm {
    /// Of vectors.
    Vector(VectorNorm),
    /// Of matrices.
    Matrix(MatrixNorm),
}

impl From<VectorNorm> for Norm {
    fn from(order: VectorNorm) -> Self {
        Self::Vector(order)
    }
}

impl From<MatrixNorm> for Norm {
    fn from(order: MatrixNorm) -> Self {
        Self::Matrix(order)
    }
}

/// Computes a norm of vectors or of matrices: [`vector_norm`] or [`matrix_norm`].
///
/// Shapes, types and gradient: as these. Source: `numpy.linalg.norm`.
///
/// # Panics
/// Panics as these do.
///
/// ```
/// use bibun::{linalg::{norm, MatrixNorm, VectorNorm}, Variable};
/// let x = Variable::new([[3.0, 0.0], [-4.0, 0.0]]);
/// assert_eq!(norm(&x, VectorNorm::P(2.0), ..).item::<f64>(), 5.0);
/// assert_eq!(norm(&x, MatrixNorm::One, ..).item::<f64>(), 7.0);
/// ```
#[track_caller]
pub fn norm(x: impl Into<Variable>, order: impl Into<Norm>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("norm");
    match order.into() {
        Norm::Vector(order) => vector_norm(x, order, axes),
        Norm::Matrix(order) => matrix_norm(x, order, axes),
    }
}

/// Computes condition numbers: of [`MatrixNorm::Two`] (NumPy's default) the largest singular value by the smallest, of
/// [`MatrixNorm::NegTwo`] the inverse of that, of other norms that of a times that of its inverse.
///
/// Shapes: a `[.., m, n]`, square except for these two → `[..]`. Types: floats; complex numbers, whose condition numbers
/// are real; integers give f64.
/// Gradient: that of the norms. Infinite of singular matrices (without a gradient).
/// Source: `numpy.linalg.cond`.
///
/// # Panics
/// Panics as [`matrix_norm`] does, and if a is not square where it must be.
///
/// ```
/// use bibun::{linalg::{cond, MatrixNorm}, Variable};
/// assert_eq!(cond(Variable::new([[4.0, 0.0], [0.0, 2.0]]), MatrixNorm::Two).item::<f64>(), 2.0);
/// ```
#[track_caller]
pub fn cond(a: impl Into<Variable>, order: MatrixNorm) -> Variable {
    let _whole = composite("cond");
    let a = to_differentiable(a.into());
    match order {
        MatrixNorm::Two | MatrixNorm::NegTwo => {
            let s = checked_values("cond", a);
            let (most, least) = (max(&s, -1), min(&s, -1));
            match order == MatrixNorm::Two {
                true => most / least,
                false => least / most,
            }
        }
        MatrixNorm::Fro
        | MatrixNorm::One
        | MatrixNorm::NegOne
        | MatrixNorm::Inf
        | MatrixNorm::NegInf => {
            expect_square("cond", &a);
            let (wide, dtype) = widened_or_complex(a.clone());
            let inverse = of_matrices("cond", cast(inverse_or_nan(wide), dtype), order);
            let product = of_matrices("cond", a, order) * &inverse;
            where_(is_nan(inverse), f64::INFINITY, product)
        }
        MatrixNorm::Nuc => {
            expect_square("cond", &a);
            let s = checked_values("cond", a);
            sum(&s, -1) * sum(1.0 / s, -1)
        }
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{Matrix, SEPARATED, each, each_embedded, numbers};
    use crate::conformance::{Draw, Sample};
    use bibun_array::{Array, Complex};

    /// Of absolute values and singular values.
    fn value(a: &Matrix, s: &[f64], order: MatrixNorm) -> f64 {
        let sums =
            |a: &Matrix| -> Vec<f64> { a.x.chunks(a.n).map(|row| row.iter().sum()).collect() };
        let most = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = |x: &[f64]| x.iter().copied().fold(f64::INFINITY, f64::min);
        match order {
            MatrixNorm::Fro => a.x.iter().map(|x| x * x).sum::<f64>().sqrt(),
            MatrixNorm::Nuc => s.iter().sum(),
            MatrixNorm::One => most(&sums(&a.transposed())),
            MatrixNorm::NegOne => least(&sums(&a.transposed())),
            MatrixNorm::Two => most(s),
            MatrixNorm::NegTwo => least(s),
            MatrixNorm::Inf => most(&sums(a)),
            MatrixNorm::NegInf => least(&sums(a)),
        }
    }
    fn of_real(a: &Matrix, order: MatrixNorm) -> f64 {
        value(&a.map(f64::abs), &a.svd()[1].x, order)
    }
    fn of_complex(a: &Matrix, order: MatrixNorm) -> f64 {
        let s: Vec<f64> = a.svd()[1].x.iter().copied().step_by(2).collect();
        value(&a.sizes(), &s, order)
    }
    let orders = [
        MatrixNorm::Fro,
        MatrixNorm::Nuc,
        MatrixNorm::One,
        MatrixNorm::NegOne,
        MatrixNorm::Two,
        MatrixNorm::NegTwo,
        MatrixNorm::Inf,
        MatrixNorm::NegInf,
    ];
    let number = |x: f64| Matrix::of(1, 1, |_, _| x);
    let mut samples = Vec::new();
    for order in orders {
        let norms = Sample::new(
            "matrix_norm",
            move |x| vec![matrix_norm(&x[0], order, [-2, -1])],
            move |x| numbers(each(x, |x| vec![number(of_real(&x[0], order))])),
        );
        samples.push(norms.input([2, 2, 3], Draw::Separated));
        let conds = Sample::new(
            "cond",
            move |x| vec![cond(&x[0], order)],
            move |x| {
                numbers(each(x, |x| {
                    let [a, inverse] = [&x[0], &x[0].inverse()].map(|x| of_real(x, order));
                    vec![number(a * inverse)]
                }))
            },
        );
        samples.push(conds.input([3, 3], Draw::Separated));
        samples.push(Sample::of_complex(
            "matrix_norm",
            &[([2, 3].into(), SEPARATED)],
            move |x| vec![matrix_norm(&x[0], order, [-2, -1])],
            move |x| numbers(each_embedded(x, |x| vec![number(of_complex(&x[0], order))])),
        ));
    }
    samples.push(Sample::of_complex(
        "cond",
        &[([2, 2].into(), SEPARATED)],
        |x| vec![cond(&x[0], MatrixNorm::One), cond(&x[0], MatrixNorm::Nuc)],
        move |x| {
            numbers(each_embedded(x, |x| {
                let of = |order| of_complex(&x[0], order) * of_complex(&x[0].inverse(), order);
                [MatrixNorm::One, MatrixNorm::Nuc]
                    .map(|order| number(of(order)))
                    .to_vec()
            }))
        },
    ));
    fn length(sizes: &[f64], order: VectorNorm) -> f64 {
        match order {
            VectorNorm::P(p) => sizes.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
            VectorNorm::Inf => sizes.iter().copied().fold(0.0, f64::max),
            VectorNorm::NegInf => sizes.iter().copied().fold(f64::INFINITY, f64::min),
            VectorNorm::NonZero => sizes.iter().filter(|&&x| x != 0.0).count() as f64,
        }
    }
    let orders = [1.0, 2.0, 3.0, 1.5, -1.5].map(VectorNorm::P);
    for order in orders
        .into_iter()
        .chain([VectorNorm::Inf, VectorNorm::NegInf])
    {
        let of_rows = move |sizes: Vec<f64>| {
            let lengths = sizes.chunks(3).map(|row| length(row, order));
            vec![Array::from_vec(lengths.collect(), [2])]
        };
        let of = Sample::new(
            "vector_norm",
            move |x| vec![vector_norm(&x[0], order, 1)],
            move |x| of_rows(x[0].to_vec::<f64>()),
        );
        samples.push(of.input([2, 3], 0.3..2.0));
        samples.push(Sample::of_complex(
            "vector_norm",
            &[([2, 3].into(), [0.4..1.6, -1.3..1.2])],
            move |x| vec![vector_norm(&x[0], order, 1)],
            move |x| {
                let x = x[0].to_vec::<Complex<f64>>().into_iter();
                of_rows(x.map(|x| x.norm()).collect())
            },
        ));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad};
    use bibun_array::Complex;

    #[test]
    fn zeros_have_the_gradient_zero() {
        for p in [0.5, 1.0, 1.5, 2.0, 3.0] {
            for x in [[0.0, 0.0], [0.0, 4.0]] {
                let g = grad(|x| vector_norm(x, VectorNorm::P(p), ..), &Variable::new(x))
                    .to_vec::<f64>();
                assert_eq!(g[0], 0.0, "{p} {x:?}");
                assert!((g[1] - x[1] / 4.0).abs() < 1e-15, "{p} {x:?}");
            }
        }
        let zero = Complex::new(0.0, 0.0);
        for p in [1.0, 1.5, 2.0, 3.0] {
            let x = Variable::new([zero, Complex::new(0.0, 4.0)]);
            let g = grad(|x| vector_norm(x, VectorNorm::P(p), ..), &x);
            let expected = Complex::new(0.0, 1.0);
            let [first, second] = g.to_vec::<Complex<f64>>()[..] else {
                panic!("{g:?}");
            };
            assert!(
                first == zero && (second - expected).norm() < 1e-15,
                "{p} {g:?}"
            );
            let g = grad(|x| vector_norm(x, VectorNorm::P(p), ..), &(x * 0.0));
            assert_eq!(g.to_vec::<Complex<f64>>(), [zero; 2], "{p}");
        }
        let x = [zero, Complex::new(0.0, 4.0)];
        let count = vector_norm(Variable::new(x), VectorNorm::NonZero, ..);
        assert_eq!(count.item::<f64>(), 1.0);
        assert_eq!(
            vector_norm([0.0, 2.0], VectorNorm::P(-1.0), ..).item::<f64>(),
            0.0
        );
        assert_eq!(
            vector_norm([-3.0, 2.0], VectorNorm::Inf, ..).item::<f64>(),
            3.0
        );
        assert_eq!(
            vector_norm([-3.0, 2.0], VectorNorm::NegInf, ..).item::<f64>(),
            2.0
        );
    }

    #[test]
    fn axes_and_singular_matrices() {
        let a = Variable::new(bibun_array::Array::arange(0, 12).reshape([2, 3, 2]));
        let y = matrix_norm(&a, MatrixNorm::One, bibun_array::keep_dims([2, 0]));
        assert_eq!(
            (y.shape(), y.to_vec::<f64>()),
            ([1, 3, 1].into(), vec![13.0, 17.0, 21.0])
        );
        let singular = Variable::new([[1.0, 2.0], [2.0, 4.0]]);
        assert_eq!(
            cond(&singular, MatrixNorm::Fro).item::<f64>(),
            f64::INFINITY
        );
        assert!(attempt(|| norm(&singular, MatrixNorm::One, 0)).is_err());
    }
}
