//! Functions of matrices: those of symmetric ones by their eigenvalues, and the exponential of any.

use bibun_array::linalg::Spectral;
use bibun_array::{Array, keep_dims};

use super::matrices::{
    expect_square, expect_success, first_columns, first_rows, info, t, widened, widened_or_complex,
};
use crate::call::composite;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::function::{Fixed, Needs, Saved, Spec, Variadic};
use crate::functions::families::{MatrixRule, OfMatrices, sum_of};
use crate::functions::{
    abs, cast, concat, greater, is_finite, logical_and, max, slice, where_, zeros_like,
};
use crate::variable::Variable;

/// Computes the square root of positive semidefinite matrices, which is one, too: `a = y y`.
///
/// Only the symmetric part `(a + aᵀ) / 2` counts.
///
/// Shapes: a `[.., n, n]` → the same. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: by divided differences of the eigenvalues, right at equal ones, in any order (an order k takes `nᵏ⁺¹`
/// steps). Infinite or NaN at singular matrices.
/// Source: R. Bhatia, "Matrix Analysis", V.3; `scipy.linalg.sqrtm`, which takes any matrix.
///
/// # Panics
/// Panics if a is not square, or a matrix is not finite or has a negative eigenvalue (beyond rounding); in a compiled
/// function, its root is NaN then.
///
/// ```
/// use bibun::{linalg::sqrtm, Variable};
/// let y = sqrtm(Variable::new([[4.0, 0.0], [0.0, 9.0]]));
/// assert_eq!(y.to_vec::<f64>(), [2.0, 0.0, 0.0, 3.0]);
/// ```
#[track_caller]
pub fn sqrtm(a: impl Into<Variable>) -> Variable {
    let _whole = composite("sqrtm");
    of_eigenvalues("sqrtm", Spectral::Power(0.5), a.into())
}

/// Computes the symmetric logarithm of positive definite matrices, of which [`expm`] is the inverse.
///
/// Only the symmetric part `(a + aᵀ) / 2` counts.
///
/// Shapes: a `[.., n, n]` → the same. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: as [`sqrtm`]. Source: `scipy.linalg.logm`, which takes any matrix.
///
/// # Panics
/// Panics if a is not square, or a matrix is not positive definite; in a compiled function, its logarithm is NaN then.
///
/// ```
/// use bibun::{linalg::logm, Variable};
/// let y = logm(Variable::new([[1.0, 0.0], [0.0, 1.0]]));
/// assert_eq!(y.to_vec::<f64>(), [0.0; 4]);
/// ```
#[track_caller]
pub fn logm(a: impl Into<Variable>) -> Variable {
    let _whole = composite("logm");
    of_eigenvalues("logm", Spectral::Log, a.into())
}

/// Computes a power p of positive definite matrices, with any real number p: -0.5 whitens. For positive p, eigenvalues may
/// be zero.
///
/// Only the symmetric part `(a + aᵀ) / 2` counts.
///
/// Shapes: a `[.., n, n]` → the same. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: as [`sqrtm`]. Source: `scipy.linalg.fractional_matrix_power`, which takes any matrix.
///
/// # Panics
/// Panics if a is not square, p is not finite, or a matrix is not positive definite; in a compiled function, its power is
/// NaN then.
///
/// ```
/// use bibun::{linalg::fractional_matrix_power, Variable};
/// let y = fractional_matrix_power(Variable::new([[4.0, 0.0], [0.0, 1.0]]), -0.5);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn fractional_matrix_power(a: impl Into<Variable>, p: f64) -> Variable {
    let _whole = composite("fractional_matrix_power");
    if !p.is_finite() {
        let what = format!("p is {p}; it must be finite");
        raise(Error::argument("fractional_matrix_power", what));
    }
    of_eigenvalues("fractional_matrix_power", Spectral::Power(p), a.into())
}

#[track_caller]
fn of_eigenvalues(function: &'static str, f: Spectral, a: Variable) -> Variable {
    expect_square(function, &a);
    let (a, dtype) = widened(a);
    let [y, info] = OfMatrices::of(OfEigenvalues { function, f }, vec![a])
        .try_into()
        .expect("two");
    let why = |k| match f {
        Spectral::Power(p) if p > 0.0 => format!("has a negative eigenvalue, number {k}"),
        Spectral::Power(_) | Spectral::Log => {
            format!("has an eigenvalue that is not positive, number {k}")
        }
    };
    expect_success(function, &info, why);
    cast(y, dtype)
}

/// The derivative of a function of eigenvalues along directions: of the matrix, which is the first input, and of those.
/// It is linear in each direction, and symmetric: as a map of one direction it is its own transpose. Its derivative by the
/// matrix has one direction more. So its rules are all derivatives there are.
#[derive(Clone, Debug)]
struct OfEigenvalues {
    function: &'static str,
    f: Spectral,
}

impl OfEigenvalues {
    fn along(&self, inputs: Vec<Variable>) -> Variable {
        OfMatrices::of(self.clone(), inputs).swap_remove(0)
    }

    fn inputs(cx: &Context<'_>) -> Vec<Variable> {
        (0..cx.needs.len()).map(|i| cx.input(i)).collect()
    }

    /// Returns the derivative by input i along x.
    fn by(&self, cx: &Context<'_>, i: usize, x: Variable) -> Variable {
        let mut inputs = Self::inputs(cx);
        match i {
            0 => inputs.push(x),
            i => inputs[i] = x,
        }
        self.along(inputs)
    }
}

impl MatrixRule for OfEigenvalues {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        self.function
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL.without_outputs()
    }
    fn results(&self, x: Vec<&Spec>) -> Vec<Spec> {
        vec![x[0].clone(), info(x[0])]
    }
    fn forward(&self, x: Vec<Array>) -> Vec<Array> {
        bibun_array::linalg::spectral(self.f, &x[0], &x[1..]).to_vec()
    }
    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        let by = |i| cx.needs(i).then(|| self.by(cx, i, gy[0].clone()));
        (0..cx.needs.len()).map(by).collect()
    }
    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let each = dx.into_iter().enumerate();
        let each = each.map(|(i, dx)| Some(self.by(cx, i, dx?)));
        vec![each.fold(None, sum_of), None]
    }
}

/// Computes the exponential of matrices, `Σ aᵏ / k!`.
///
/// Shapes: a `[.., n, n]` → the same. Types: floats and complex numbers; integers give f64. 16-bit floats are computed
/// in f32.
/// Gradient: by the exponential of `[[aᵀ, gy], [0, aᵀ]]`, whose upper right part it is, so all derivatives exist; of complex
/// numbers with `aᴴ`.
/// Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005; R. Mathias, 1996, for
/// the derivative; `scipy.linalg.expm`. A matrix that is not finite makes its result NaN.
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::expm, Variable};
/// let y = expm(Variable::new([[0.0, 1.0], [0.0, 0.0]]));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn expm(a: impl Into<Variable>) -> Variable {
    let _whole = composite("expm");
    let a = a.into();
    expect_square("expm", &a);
    let (a, dtype) = widened_or_complex(a);
    cast(exponential(a), dtype)
}

fn exponential(a: Variable) -> Variable {
    let [y] = OfMatrices::of(Exponential, [a]);
    y
}

#[derive(Clone, Debug)]
struct Exponential;

impl Exponential {
    /// Returns the derivative at `a` along `x`.
    fn along(a: Variable, x: Variable) -> Variable {
        let n = a.shape()[a.rank() - 1];
        if a.size() == 0 {
            return x;
        }
        // It is linear in x, which must not be what decides how far the whole is scaled down.
        let size = max(abs(x.detach()), keep_dims([-1, -2]));
        let is_size = logical_and(greater(&size, 0.0), is_finite(&size));
        let size = where_(is_size, size, 1.0);
        let above = concat([a.clone(), x / &size], -1);
        let below = concat([zeros_like(&a), a], -1);
        let whole = exponential(concat([above, below], -2));
        let right = slice(whole, crate::s![..., n as isize..]);
        first_rows(first_columns(right, n), n) * size
    }
}

impl MatrixRule for Exponential {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "expm"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 1] {
        [a.clone()]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 1] {
        [bibun_array::linalg::expm(&a)]
    }
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(Self::along(t(cx.input(0)), gy))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [da.map(|da| Self::along(cx.input(0), da))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference;
    use crate::conformance::{Draw, Sample};

    let of = |name: &'static str,
              call: fn(Variable) -> Variable,
              value: fn(f64) -> f64,
              shape: &[usize]| {
        Sample::new(
            name,
            move |x| vec![call(x[0].clone())],
            move |x| reference::each(x, |x| vec![x[0].spectral(value)]),
        )
        .input(shape, Draw::PositiveDefinite)
    };
    vec![
        of("sqrtm", |a| sqrtm(a), f64::sqrt, &[3, 3]),
        of("sqrtm", |a| sqrtm(a), f64::sqrt, &[2, 2, 2]),
        of("logm", |a| logm(a), f64::ln, &[3, 3]),
        of(
            "fractional_matrix_power",
            |a| fractional_matrix_power(a, -1.5),
            |x| x.powf(-1.5),
            &[2, 2],
        ),
        Sample::new(
            "expm",
            |x| vec![expm(&x[0])],
            |x| reference::each(x, |x| vec![x[0].exponential()]),
        )
        .input([2, 3, 3], -1.0..1.0),
        Sample::of_complex(
            "expm",
            &[([2, 3, 3].into(), [-1.0..1.0, -1.0..1.0])],
            |x| vec![expm(&x[0])],
            |x| reference::each_complex(x, |x| vec![x[0].exponential()]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad, jvp};
    use bibun_array::DType;

    /// At equal eigenvalues the derivatives are those of numbers.
    #[test]
    fn equal_eigenvalues() {
        let a = Variable::new(Array::eye(3, DType::F64) * 4.0);
        let along = Variable::constant([[1.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]);
        let square = along.matmul(&along);
        for (call, first, second) in [
            (
                (|a: &Variable| sqrtm(a)) as fn(&Variable) -> Variable,
                0.25,
                -1.0 / 32.0,
            ),
            (|a| logm(a), 0.25, -1.0 / 16.0),
            (|a| fractional_matrix_power(a, 2.0), 8.0, 2.0),
        ] {
            let derivative = |a: &Variable| jvp(|a: &Variable| call(a), a, &along).1;
            let found = derivative(&a);
            let twice = jvp(derivative, &a, &along).1;
            for (found, expected) in [(found, &along * first), (twice, &square * second)] {
                let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
                let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
                assert!(apart.fold(0.0, f64::max) < 1e-13, "{found:?} {expected:?}");
            }
        }
        let g = grad(|a| logm(a).sum(..), &a).to_vec::<f64>();
        assert!(g.iter().all(|g| (g - 0.25).abs() < 1e-15));
    }

    #[test]
    fn outside_of_the_domain() {
        let a = Variable::new([[1.0, 2.0], [2.0, 1.0]]);
        let message = attempt(|| sqrtm(&a)).unwrap_err().to_string();
        assert!(
            message.contains("the matrix has a negative eigenvalue, number 1"),
            "{message}"
        );
        let message = attempt(|| logm(&a * 0.0)).unwrap_err().to_string();
        assert!(
            message.contains("has an eigenvalue that is not positive, number 1"),
            "{message}"
        );
        let ones = Variable::new(Array::ones([2, 2], DType::F64));
        let y = sqrtm(&ones).to_vec::<f64>();
        assert!(y.iter().all(|y| (y - 0.5f64.sqrt()).abs() < 1e-15), "{y:?}");
        assert!(
            attempt(|| logm(ones * f64::NAN))
                .unwrap_err()
                .to_string()
                .contains("not finite")
        );
    }

    #[test]
    fn exponentials_of_large_and_wrong_matrices() {
        let y = expm(Variable::new([[-1000.0, 0.0], [0.0, 2.0]])).to_vec::<f64>();
        assert!(
            y[0] == 0.0 && (y[3] / 2f64.exp() - 1.0).abs() < 1e-13,
            "{y:?}"
        );
        let y = expm(Variable::new([[f64::INFINITY, 0.0], [0.0, 2.0]])).to_vec::<f64>();
        assert!(y.iter().all(|y| y.is_nan()));
    }
}
