//! Determinants.

use bibun_array::{Array, Complex, DType};

use super::matrices::{beside, expect_square, product3, t, widened, widened_or_complex};
use super::solve::inverse_or_nan;
use super::svd::{thin, values};
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{
    abs, cast, clip, constant_beside, diag, diagonal, equal, exp2, expand_dims, floor, greater,
    imag, is_finite, less, log2, logical_and, logical_or, polar, prod, real, sum, where_,
};
use crate::variable::Variable;

/// Computes the determinants of matrices, by elimination.
///
/// Shapes: a `[.., n, n]` → `[..]`; of matrices without elements, 1.
/// Types: floats and complex numbers; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `gy` times the cofactors of a, which are right at singular matrices, too: they are computed from singular
/// values. So are second derivatives. Higher ones exist where a is regular, or its singular values differ; elsewhere
/// they are infinite or NaN. Of complex numbers, whose singular values have no derivatives, they are computed from
/// inverses, and of singular matrices from regular ones around them: derivatives of all orders exist.
/// Source: `numpy.linalg.det`.
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::det, grad, Variable};
/// let a = Variable::new([[1.0, 2.0], [2.0, 4.0]]);
/// assert_eq!(det(&a).item::<f64>(), 0.0);
/// let ga = grad(|a| det(a), &a).to_vec::<f64>();
/// assert!(ga.iter().zip([4.0, -2.0, -2.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-14));
/// ```
#[track_caller]
pub fn det(a: impl Into<Variable>) -> Variable {
    let _whole = composite("det");
    let a = a.into();
    expect_square("det", &a);
    let (a, dtype) = widened_or_complex(a);
    let [y] = OfMatrices::of(Determinant, [a]);
    cast(y, dtype)
}

/// Computes the signs of determinants (1, 0 or -1; of complex ones `y / |y|` or 0) and the logarithms of their absolute
/// values, which neither overflow nor underflow.
///
/// Shapes: a `[.., n, n]` → `[..]`, `[..]`. Types: floats; complex numbers, whose logarithms are real; integers give
/// f64. 16-bit floats are computed in f32.
/// Gradient: `g a⁻ᵀ` of the logarithm (of complex numbers `g a⁻ᴴ`); NaN where a is singular, whose logarithm is -∞. None
/// of the sign of real numbers; of complex ones `i Im(conj(sign) g) a⁻ᴴ`.
/// Source: `numpy.linalg.slogdet`.
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::slogdet, Variable};
/// let (sign, log) = slogdet(Variable::new([[0.0, 1e200], [1e200, 0.0]]));
/// assert_eq!(sign.item::<f64>(), -1.0);
/// assert!((log.item::<f64>() - 400.0 * 10f64.ln()).abs() < 1e-12);
/// ```
#[track_caller]
pub fn slogdet(a: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("slogdet");
    let a = a.into();
    if a.dtype().is_complex() {
        let log = complex_log("slogdet", a);
        let of_size = real(&log);
        let is_zero = equal(of_size.detach(), f64::NEG_INFINITY);
        let sign = polar(1.0, imag(log));
        return (where_(is_zero, 0.0, sign), of_size);
    }
    let [sign, log] = sign_and_log("slogdet", a);
    (sign, log)
}

/// Computes the logarithms of determinants: -∞ of singular matrices, NaN of negative determinants. Of complex numbers,
/// imaginary parts are from -π to π.
///
/// Shapes: a `[.., n, n]` → `[..]`. Types: floats and complex numbers; integers give f64. Gradient: `g a⁻ᵀ`; of complex
/// numbers `g a⁻ᴴ`. NaN where a is singular.
/// Source: `torch.logdet`. (For positive definite matrices, twice the sum of the logarithms of the diagonal of the
/// Cholesky factor takes half the time.)
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::logdet, Variable};
/// let y = logdet(Variable::new([[2.0, 0.0], [0.0, 3.0]])).item::<f64>();
/// assert!((y - 6f64.ln()).abs() < 1e-15);
/// ```
#[track_caller]
pub fn logdet(a: impl Into<Variable>) -> Variable {
    let _whole = composite("logdet");
    let a = a.into();
    if a.dtype().is_complex() {
        return complex_log("logdet", a);
    }
    let [sign, log] = sign_and_log("logdet", a);
    where_(less(sign, 0.0), f64::NAN, log)
}

#[track_caller]
fn sign_and_log(function: &'static str, a: Variable) -> [Variable; 2] {
    expect_square(function, &a);
    let (a, dtype) = widened(a);
    OfMatrices::of(SignAndLog, [a]).map(|y| cast(y, dtype))
}

#[track_caller]
fn complex_log(function: &'static str, a: Variable) -> Variable {
    expect_square(function, &a);
    let [log] = OfMatrices::of(ComplexLog, [a]);
    log
}

#[derive(Clone, Debug)]
struct Determinant;

impl MatrixRule for Determinant {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "det"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 1] {
        [beside(a, &[])]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 1] {
        let [det, ..] = bibun_array::linalg::determinants(&a);
        [det]
    }
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(of_each(gy) * cofactors(cx.input(0)))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [da.map(|da| inner(cofactors(cx.input(0)), da))]
    }
}

/// Returns a number of each matrix for all of its elements.
fn of_each(x: Variable) -> Variable {
    expand_dims(expand_dims(x, -1), -1)
}

/// Returns the sums of products of the elements of matrices.
fn inner(a: Variable, b: Variable) -> Variable {
    sum(a * b, [-2, -1])
}

fn cofactors(a: Variable) -> Variable {
    match a.dtype().is_complex() {
        true => cofactors_of_complex(a),
        false => {
            let [y] = OfMatrices::of(Cofactors, [a]);
            y
        }
    }
}

/// The number of regular matrices around a singular one.
const AROUND: usize = 8;

/// Returns the cofactors of complex matrices by determinants and inverses: those of singular matrices are the means of those
/// of matrices on a circle around them.
///
/// Source: Cauchy's integral formula, by the trapezoidal rule (L. Trefethen and J. Weideman, "The exponentially convergent
/// trapezoidal rule", 2014). Cofactors are polynomials: up to order [`AROUND`], the mean is exact.
fn cofactors_of_complex(a: Variable) -> Variable {
    // Rows are scaled by powers of two, so that neither the determinant nor the inverse ends where numbers do.
    let exponents = exponents_of_rows(&a);
    let others = sum(&exponents, bibun_array::keep_dims(-2)) - &exponents;
    let a = a * exp2(-exponents);
    let by_inverse = |a: Variable| {
        let [det] = OfMatrices::of(Determinant, [a.clone()]);
        of_each(det) * t(inverse_or_nan(a))
    };

    let (n, own, dtype) = (a.shape()[a.rank() - 1], a.detach(), a.dtype());
    let length = |x: &Variable| sum(abs(x) * abs(x), [-2, -1]).sqrt();
    let condition = length(&own) * length(&inverse_or_nan(own.clone()));
    let is_regular = less(condition * (n as f64 * epsilon(dtype)), 1.0);
    let all_are = crate::functions::all(&is_regular, ..);
    if all_are.plain_array().and_then(|x| x.known_item()) == Some(true) {
        return by_inverse(a) * exp2(others);
    }

    // Both ways are taken everywhere, of matrices that are harmless where the other one counts.
    let is_regular = of_each(is_regular);
    let unit = constant_beside(&[&a], Array::eye(n, dtype));
    let regular = by_inverse(where_(&is_regular, &a, &unit));
    // So near that higher powers of the radius are nothing, and so far that inverses are near their own.
    let radius = if dtype == DType::C64 {
        1.0 / 16.0
    } else {
        1.0 / 256.0
    };
    let on_circle = (0..AROUND).map(|i| {
        let angle = std::f64::consts::TAU * (i as f64 + 0.3) / AROUND as f64;
        let shift = Complex::from_polar(radius, angle);
        let shift = Array::eye(n, DType::C128) * Array::scalar(shift);
        let shifted = &a + constant_beside(&[&a], shift.cast(dtype));
        by_inverse(where_(&is_regular, &unit, shifted))
    });
    let singular = on_circle.reduce(|sum, x| sum + x).expect("some are around") / AROUND as f64;
    where_(is_regular, regular, singular) * exp2(others)
}

/// Returns the exponents of the largest elements of the rows of complex matrices, `[.., n, 1]`.
fn exponents_of_rows(a: &Variable) -> Variable {
    let sizes = crate::functions::max(abs(a.detach()), bibun_array::keep_dims(-1));
    let is_size = logical_and(greater(&sizes, 0.0), is_finite(&sizes));
    let exponents = floor(log2(where_(is_size, sizes, 1.0)));
    // The power of the opposite exponent must be a number, too.
    let most = if a.dtype() == DType::C64 {
        120.0
    } else {
        1000.0
    };
    clip(exponents, -most, most)
}

/// The derivative of the determinant by each element.
#[derive(Clone, Debug)]
struct Cofactors;

impl Cofactors {
    /// Returns the second derivative of the determinant along `x`, by each element. As a map of x it is symmetric.
    fn slope(a: &Variable, x: Variable) -> Variable {
        let n = a.shape()[a.rank() - 1];
        // Both ways are taken everywhere, of matrices that are harmless where the other one counts.
        let [s, _] = values(a.detach());
        let largest = crate::functions::max(&s, bibun_array::keep_dims(-1));
        let tolerance = n as f64 * epsilon(a.dtype());
        let is_regular = greater(
            crate::functions::min(s, -1),
            crate::functions::squeeze(largest, -1) * tolerance,
        );
        let is_regular = of_each(is_regular);
        let regular = Self::slope_by_inverse(
            where_(
                &is_regular,
                a,
                constant_beside(&[a], Array::eye(n, a.dtype())),
            ),
            x.clone(),
        );
        let steps = Array::arange(1, n as i64 + 1).cast(a.dtype());
        let steps = diag(constant_beside(&[a], steps), 0);
        let singular = Self::slope_by_values(where_(&is_regular, steps, a), x);
        where_(is_regular, regular, singular)
    }

    /// `C <W, x> - W xᵀ C` with the cofactors C and the transposed inverse W.
    fn slope_by_inverse(a: Variable, x: Variable) -> Variable {
        let w = t(inverse_or_nan(a.clone()));
        let c = cofactors(a);
        of_each(inner(w.clone(), x.clone())) * &c - product3(w, t(x), c)
    }

    /// With `a = u diag(s) vᵀ` and `m = uᵀ x v`, `det(u) det(v) u k vᵀ`, where the products p of all values but two
    /// make `k[i, i] = Σ p[i, j] m[j, j]` and `k[i, j] = -p[i, j] m[j, i]`.
    fn slope_by_values(a: Variable, x: Variable) -> Variable {
        let n = a.shape()[a.rank() - 1];
        let [u, s, vt, _] = thin(a);
        let turned = det(&u) * det(&vt);
        let m = product3(t(&u), x, t(&vt));
        let (others, is_diagonal) = products_of_others(&s, n);
        let of_diagonal = sum(&others * expand_dims(diagonal(&m, 0, [-2, -1]), -2), -1);
        let k = where_(is_diagonal, diag(of_diagonal, 0), -(others * t(m)));
        of_each(turned) * product3(u, k, vt)
    }
}

/// Returns the products of all singular values but two, zeros on the diagonal, and where that is.
fn products_of_others(s: &Variable, n: usize) -> (Variable, Variable) {
    let order = constant_beside(&[s], Array::arange(0, n as i64));
    let row = |axes: [isize; 2]| expand_dims(expand_dims(&order, axes[0]), axes[1]);
    let (i, j, k) = (row([-1, -1]), row([0, -1]), row([0, 0]));
    let is_left_out = logical_or(equal(&i, &k), equal(&j, &k));
    let s = expand_dims(expand_dims(s, -2), -2);
    let products = prod(where_(is_left_out, 1.0, s), -1);
    let is_diagonal = equal(expand_dims(&order, -1), &order);
    (where_(&is_diagonal, 0.0, products), is_diagonal)
}

fn epsilon(dtype: DType) -> f64 {
    if matches!(dtype, DType::F32 | DType::C64) {
        f64::from(f32::EPSILON)
    } else {
        f64::EPSILON
    }
}

impl MatrixRule for Cofactors {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "cofactors"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 1] {
        [a.clone()]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 1] {
        [bibun_array::linalg::cofactors(&a)]
    }
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(Self::slope(&cx.input(0), gy))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [da.map(|da| Self::slope(&cx.input(0), da))]
    }
}

/// The logarithm of the determinant of complex numbers.
#[derive(Clone, Debug)]
struct ComplexLog;

impl MatrixRule for ComplexLog {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "logdet"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 1] {
        [beside(a, &[])]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 1] {
        let [_, _, log] = bibun_array::linalg::determinants(&a);
        [log]
    }
    fn vjp(&self, cx: &Context<'_>, [g]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(of_each(g) * t(inverse_or_nan(cx.input(0))))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [da.map(|da| inner(t(inverse_or_nan(cx.input(0))), da))]
    }
}

#[derive(Clone, Debug)]
struct SignAndLog;

impl MatrixRule for SignAndLog {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "slogdet"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        [beside(a, &[]), beside(a, &[])]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        let [_, sign, log] = bibun_array::linalg::determinants(&a);
        [sign, log]
    }
    fn vjp(&self, cx: &Context<'_>, [_, g]: [Variable; 2]) -> [Option<Variable>; 1] {
        [Some(of_each(g) * t(inverse_or_nan(cx.input(0))))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let of_log = da.map(|da| inner(t(inverse_or_nan(cx.input(0))), da));
        [None, of_log]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, Matrix, complex_determinants, numbers};
    use crate::conformance::{Draw, Sample};

    let number = |x: f64| Matrix::of(1, 1, |_, _| x);
    let size = |x: &Array| (&x.real() * &x.real() + &x.imag() * &x.imag()).sqrt();
    let of = |shape: &[usize]| {
        Sample::new(
            "det",
            |x| vec![det(&x[0])],
            move |x| numbers(reference::each(x, |x| vec![number(x[0].det())])),
        )
        .input(shape, Draw::Regular)
    };
    // The last row is zero, but its derivatives are not.
    let singular = Sample::new(
        "det",
        |x| {
            let rows = crate::functions::concat([&x[0], &x[1]], -2);
            // Beside numbers of this size, differences of 0 are not compared.
            vec![det(rows) + crate::functions::sum(&x[0], ..)]
        },
        |x| vec![x[0].sum(..)],
    )
    .input([2, 3], Draw::Separated)
    .input([1, 3], 0.0..1e-300);
    vec![
        of(&[3, 3]),
        of(&[2, 2, 2]),
        singular,
        Sample::new(
            "slogdet",
            |x| {
                let (sign, log) = slogdet(&x[0]);
                vec![sign, log]
            },
            move |x| {
                numbers(reference::each(x, |x| {
                    let det = x[0].det();
                    vec![number(det.signum()), number(det.abs().ln())]
                }))
            },
        )
        .input([2, 3, 3], Draw::Regular),
        Sample::new(
            "logdet",
            |x| vec![logdet(&x[0])],
            move |x| numbers(reference::each(x, |x| vec![number(x[0].det().ln())])),
        )
        .input([3, 3], Draw::PositiveDefinite),
        Sample::of_complex(
            "det",
            &[([2, 3, 3].into(), reference::REGULAR)],
            |x| vec![det(&x[0])],
            |x| vec![complex_determinants(&x[0])],
        ),
        Sample::of_complex(
            "slogdet",
            &[([2, 3, 3].into(), reference::REGULAR)],
            |x| {
                let (sign, log) = slogdet(&x[0]);
                vec![sign, log]
            },
            move |x| {
                let det = complex_determinants(&x[0]);
                let size = size(&det);
                let sign = Array::complex(&(det.real() / &size), &(det.imag() / &size));
                vec![sign, size.log()]
            },
        ),
        Sample::of_complex(
            "logdet",
            // Determinants far from the negative numbers, where their angles have a jump.
            &[(
                [2, 2].into(),
                [Draw::PositiveDefinite, Draw::Uniform(-0.2..0.2)],
            )],
            |x| vec![logdet(&x[0])],
            move |x| {
                let det = complex_determinants(&x[0]);
                vec![Array::complex(&size(&det).log(), &det.angle())]
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{grad, hessian};

    #[test]
    fn the_gradient_at_singular_matrices() {
        // Rank 2, 1 and 0 of 3: the cofactors are those of the smaller matrices.
        let a = Variable::new([[1.0, 2.0, 3.0], [0.0, 1.0, 4.0], [1.0, 3.0, 7.0]]);
        let g = grad(|a| det(a), &a).to_vec::<f64>();
        let expected = [-5.0, 4.0, -1.0, -5.0, 4.0, -1.0, 5.0, -4.0, 1.0];
        assert!(
            g.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-13),
            "{g:?}"
        );
        let a = Variable::new(Array::ones([3, 3], DType::F64));
        let g = grad(|a| det(a), &a).to_vec::<f64>();
        assert!(g.iter().all(|g| g.abs() < 1e-14), "{g:?}");
        // Of `x y - z w`, everywhere.
        for a in [
            [[1.0, 2.0], [2.0, 4.0]],
            [[0.0; 2]; 2],
            [[1.0, 0.0], [0.0, 1.0]],
        ] {
            let h = hessian(|a| det(a), &Variable::new(a)).to_vec::<f64>();
            for (at, h) in h.iter().enumerate() {
                let expected = [3, 12].contains(&at) as i64 - [6, 9].contains(&at) as i64;
                assert!(
                    (h - expected as f64).abs() < 1e-13,
                    "{h:?} at {at} of {a:?}"
                );
            }
        }
    }

    #[test]
    fn special_matrices() {
        let empty = Variable::new(Array::zeros([0, 0], DType::F64));
        assert_eq!(det(&empty).item::<f64>(), 1.0);
        let singular = Variable::new([[1.0, 2.0], [2.0, 4.0]]);
        let (sign, log) = slogdet(&singular);
        assert_eq!(
            (sign.item::<f64>(), log.item::<f64>()),
            (0.0, f64::NEG_INFINITY)
        );
        assert!(
            logdet(Variable::new([[0.0, 1.0], [1.0, 0.0]]))
                .item::<f64>()
                .is_nan()
        );
        assert!(det(singular * f64::NAN).item::<f64>().is_nan());
    }

    #[test]
    fn derivatives_at_singular_complex_matrices() {
        use crate::functions::{complex, real, stack};
        use crate::transformations::{jvp, vmap};
        // Expanded along rows, which holds everywhere.
        fn expanded(a: &Variable) -> Variable {
            let n = a.shape()[0];
            if n == 1 {
                return reshape_to_number(a);
            }
            (0..n)
                .map(|j| {
                    let others: Vec<i64> = (0..n as i64).filter(|&i| i != j as i64).collect();
                    let minor = a.slice(bibun_array::s![1..]).take(Array::from(others), 1);
                    let sign = if j % 2 == 0 { 1.0 } else { -1.0 };
                    a.slice(bibun_array::s![0, j as isize]) * expanded(&minor) * sign
                })
                .reduce(|sum, x| sum + x)
                .expect("there are columns")
        }
        fn reshape_to_number(a: &Variable) -> Variable {
            crate::functions::reshape(a, bibun_array::Shape::from([]))
        }
        let rank = |n: usize, rank: usize| -> Variable {
            let draw = |rows: usize, columns: usize, by: f64| {
                let all = (0..rows * columns).map(|i| (by * (i * i + 3 * i + 1) as f64).sin());
                Variable::constant(Array::from_vec(all.collect::<Vec<f64>>(), [rows, columns]))
            };
            let of =
                |rows, columns, by| complex(draw(rows, columns, by), draw(rows, columns, 2.0 * by));
            of(n, rank, 0.7).matmul(of(rank, n, 0.3))
        };
        for (n, of_rank) in [(2, 1), (3, 2), (3, 1), (4, 3), (4, 2), (4, 4)] {
            let (a, along) = (rank(n, of_rank), rank(n, n));
            let two_ways = [|a: &Variable| det(a), |a: &Variable| expanded(a)];
            let derivatives = two_ways.map(|f| {
                let g = grad(|a| real(f(a)), &a);
                let twice = grad(|a| real(jvp(f, a, &along).1), &a);
                let thrice = jvp(
                    |a: &Variable| jvp(|a: &Variable| jvp(f, a, &along).1, a, &along).1,
                    &a,
                    &along,
                )
                .1;
                [g, twice, thrice]
            });
            let [found, expected] = derivatives;
            for ((found, expected), bound) in found.iter().zip(&expected).zip([1e-12, 1e-9, 1e-6]) {
                let apart = abs(found - expected).max(..).item::<f64>();
                assert!(apart < bound, "order {n}, rank {of_rank}: {apart}");
            }
        }
        // Regular and singular ones in one batch.
        let batch = stack([rank(3, 2), rank(3, 3), rank(3, 1)], 0);
        let of_one = |a: &Variable| grad(|a| real(det(a)), a);
        let together = grad(|a| real(det(a)).sum(..), &batch);
        let mapped = vmap(of_one, &batch);
        assert!(abs(&together - mapped).max(..).item::<f64>() < 1e-13);
        let single = grad(|a| real(det(a)), &cast(rank(3, 2), DType::C64));
        let exact = grad(|a| real(det(a)), &rank(3, 2));
        assert!(abs(single - exact).max(..).item::<f64>() < 1e-5);
    }

    #[test]
    fn complex_gradients_near_the_ends_of_numbers() {
        let of = |diagonal: [f64; 3], dtype: DType| -> Vec<f64> {
            let a = diag(Variable::constant(diagonal), 0);
            let a = cast(crate::functions::complex(a, 0.0), dtype);
            let g = grad(|a| crate::functions::real(det(a)), &a);
            let g = crate::functions::real(diagonal_of(&g));
            cast(g, DType::F64).to_vec()
        };
        fn diagonal_of(x: &Variable) -> Variable {
            diagonal(x, 0, [-2, -1])
        }
        for (found, expected) in [
            (
                of([1e-100, 1e-100, 2.0], DType::C128),
                [2e-100, 2e-100, 1e-200],
            ),
            (of([1e-200, 1e-200, 1e200], DType::C128), [1.0, 1.0, 0.0]),
            (of([1e200, 1e-200, 3.0], DType::C128), [3e-200, 3e200, 1.0]),
            (of([1e25, 1e5, 1e-20], DType::C64), [1e-15, 1e5, 1e30]),
            (of([1e-25, 1e-25, 1e10], DType::C64), [1e-15, 1e-15, 0.0]),
        ] {
            for (found, expected) in found.iter().zip(expected) {
                let is_near = *found == expected || (found / expected - 1.0).abs() < 1e-6;
                assert!(is_near, "{found} instead of {expected}");
            }
        }
    }
}
