//! The regularized incomplete gamma and beta functions and their inverses, with derivatives by every argument.

use bibun_array::math::{Float, Special as Function};
use bibun_array::{Mask, Number};

use crate::call::composite_if;
use crate::functions::families::{
    ElementFunction, binary, call, element_function, function_type, method,
};
use crate::functions::{Operand, alike};
use crate::variable::Variable;

binary! {
    samples in binary_samples;

    /// Computes the regularized lower incomplete gamma function `1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt` of each pair of
    /// elements a and x: the probability below x of the gamma distribution with shape a.
    ///
    /// It is NaN where one of them is negative or both are 0. In f64 and up to `a = 1e6` the relative error is
    /// below `1e-12`, that of the derivatives to a below `1e-10`. Beyond `a = 1e10` the result may be NaN near
    /// `x = a`.
    ///
    /// Gradient: `gy xᵃ⁻¹ e⁻ˣ / Γ(a)` to x; to a, the derivative of each step of the computation. Two derivatives
    /// to a are known, beside any number of those to x: to ask for a third one is an error.
    /// Source: Gautschi, "A computational procedure for incomplete gamma functions" (1979).
    ///
    /// ```
    /// use bibun::{functions::gammainc, Variable};
    /// let y = gammainc(1.0, Variable::new([0.0, 2.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 0.0);
    /// assert!((y[1] - (1.0 - (-2f64).exp())).abs() < 1e-15);
    /// ```
    gammainc(a, b) via to_float -> Gammainc {
        operation: Special(Function::Gammainc),
        derivative(a, b; gy): gy * a.gammainc_a(b),
        derivative(a, b; gy): gy * a.gamma_density(b),
        sample: (0.5..4.0, 0.3..5.0, gamma_reference),
    }

    /// Computes the regularized upper incomplete gamma function, `1 - gammainc(a, x)` without cancellation, of
    /// each pair of elements a and x: the probability above x of the gamma distribution with shape a.
    ///
    /// Limits, bounds and derivatives are those of [`gammainc`].
    ///
    /// Gradient: that of [`gammainc`] with the opposite sign.
    /// Source: Gautschi, "A computational procedure for incomplete gamma functions" (1979).
    ///
    /// ```
    /// use bibun::{functions::gammaincc, Variable};
    /// let y = gammaincc(1.0, Variable::new([0.0, 100.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 1.0);
    /// assert!((y[1] / (-100f64).exp() - 1.0).abs() < 1e-12);
    /// ```
    gammaincc(a, b) via to_float -> Gammaincc {
        operation: Special(Function::Gammaincc),
        derivative(a, b; gy): -(gy * a.gammainc_a(b)),
        derivative(a, b; gy): -(gy * a.gamma_density(b)),
        sample: (0.5..4.0, 0.3..5.0, |a, x| 1.0 - gamma_reference(a, x)),
    }

    /// Computes the inverse of [`gammainc`] to its second argument, of each pair of elements a and p: the x with
    /// `gammainc(a, x) = p`, below which the gamma distribution with shape a has the probability p.
    ///
    /// It is NaN where a is negative or p is not between 0 and 1. In f64 and up to `a = 1e6` the relative error is
    /// below `1e-12`, and below `1e-12 / a` for a below 1. Where p is near 1, [`gammainccinv`] of `1 - p` keeps
    /// the digits that are lost in p.
    ///
    /// Gradient: by the implicit function theorem, `gy / f(x)` to p, where f is the density, and `-gy / f(x)` times the
    /// derivative of [`gammainc`] to a; 0 to a where p is 0 or 1. Two derivatives to a are known, as of
    /// [`gammainc`].
    /// Source: Gil, Segura and Temme, "Efficient and accurate algorithms for the computation and inversion of the
    /// incomplete gamma function ratios" (2012), for the first term of the series.
    ///
    /// ```
    /// use bibun::{functions::gammaincinv, Variable};
    /// let x = gammaincinv(1.0, Variable::new([0.0, 0.5, 1.0])).to_vec::<f64>();
    /// assert_eq!((x[0], x[2]), (0.0, f64::INFINITY));
    /// assert!((x[1] - 2f64.ln()).abs() < 1e-15);
    /// ```
    gammaincinv(a, b) via to_float -> Gammaincinv {
        operation: Special(Function::Gammaincinv),
        derivative(a, y; gy): -(gy * gamma_shift(a, y)),
        derivative(a, y; gy): gy / a.gamma_density(y),
        sample: (0.6..4.0, 0.1..0.9, |a, p| solution(p, 30.0, |x| gamma_reference(a, x))),
    }

    /// Computes the inverse of [`gammaincc`] to its second argument, of each pair of elements a and q: the x with
    /// `gammaincc(a, x) = q`, above which the gamma distribution with shape a has the probability q.
    ///
    /// Limits, bounds and derivatives are those of [`gammaincinv`] of `p = 1 - q`.
    ///
    /// Gradient: that of [`gammaincinv`], with the opposite sign to q.
    /// Source: that of [`gammaincinv`].
    ///
    /// ```
    /// use bibun::{functions::gammainccinv, Variable};
    /// let x = gammainccinv(1.0, Variable::new([1.0, 1e-100])).to_vec::<f64>();
    /// assert_eq!(x[0], 0.0);
    /// assert!((x[1] / 1e100f64.ln() - 1.0).abs() < 1e-14);
    /// ```
    gammainccinv(a, b) via to_float -> Gammainccinv {
        operation: Special(Function::Gammainccinv),
        derivative(a, y; gy): -(gy * gamma_shift(a, y)),
        derivative(a, y; gy): -(gy / a.gamma_density(y)),
        sample: (0.6..4.0, 0.1..0.9, |a, q| solution(1.0 - q, 30.0, |x| gamma_reference(a, x))),
    }
}

/// How far the value of a quantile moves down with a parameter: the derivative of the distribution function by it,
/// divided by the density. Nothing moves the ends, and where the density is lost, so is the other one.
fn shift<T: Float>(is_end: Mask<T>, by_parameter: Number<T>, density: Number<T>) -> Number<T> {
    let is_still = is_end.logical_or(density.equal(0.0));
    is_still.where_(0.0, by_parameter / is_still.where_(1.0, density))
}

/// That of the gamma distribution at x.
fn gamma_shift<T: Float>(a: Number<T>, x: Number<T>) -> Number<T> {
    let is_end = x.equal(0.0).logical_or(x.equal(f64::INFINITY));
    let x = is_end.where_(1.0, x);
    shift(is_end, a.gammainc_a(x), a.gamma_density(x))
}

/// The derivative of a density by a parameter, from that of its logarithm. At the ends, where the density is 0
/// and the logarithm infinite, it is 0.
fn by_parameter<T: Float>(
    is_positive: Mask<T>,
    density: Number<T>,
    of_logarithm: Number<T>,
) -> Number<T> {
    let is_end = density.equal(0.0).logical_and(is_positive);
    is_end.where_(0.0, density * of_logarithm)
}

/// The derivative of the density of the gamma distribution by x. At 0 the one of the logarithm is infinite, and it is
/// the difference of two densities, for which derivatives of all orders follow in the same way.
fn gamma_density_slope<T: Float>(a: Number<T>, x: Number<T>) -> Number<T> {
    let is_start = x.equal(0.0).logical_and(a.greater_equal(1.0));
    let (shape, start) = (is_start.where_(a, 3.0), is_start.where_(x, 1.0));
    let at_start = (shape - 1.0).gamma_density(start) - shape.gamma_density(start);
    // Without a shape the density is 0 everywhere.
    let x = is_start.logical_or(a.equal(0.0)).where_(1.0, x);
    let inside = a.gamma_density(x) * ((a - 1.0) / x - 1.0);
    is_start.where_(at_start, inside)
}

/// The derivative of `gammainc` by its first argument.
pub(super) struct GammaincA;

element_function! {
    GammaincA = "gammainc_a", [a, b] [];
    operation: Special(Function::GammaincA);
    derivative(a, b; gy): gy * a.gammainc_aa(b);
    derivative(a, b; gy): {
        let slope = b.log() - a.digamma();
        gy * by_parameter(a.greater(0.0), a.gamma_density(b), slope)
    };
}

/// The second one.
pub(super) struct GammaincAa;

element_function! {
    GammaincAa = "gammainc_aa", [a, b] [];
    operation: Special(Function::GammaincAa);
    unknown(; gy): "the third one of gammainc to its first argument is not known";
    derivative(a, b; gy): {
        let slope = b.log() - a.digamma();
        let curvature = slope * slope - a.polygamma(1.0);
        gy * by_parameter(a.greater(0.0), a.gamma_density(b), curvature)
    };
}

/// The density of the gamma distribution.
pub(super) struct GammaDensity;

element_function! {
    GammaDensity = "gamma_density", [a, b] [];
    operation: Special(Function::GammaDensity);
    derivative(a, b, y; gy): gy * by_parameter(a.greater(0.0), y, b.log() - a.digamma());
    derivative(a, b; gy): gy * gamma_density_slope(a, b);
}

/// Calls a function of three numbers, of which each may be that of a Variable.
#[track_caller]
fn of_three(
    name: &'static str,
    function: &'static ElementFunction,
    operands: [Operand; 3],
) -> Variable {
    let dtypes = operands.iter().filter_map(|operand| match operand {
        Operand::Variable(x) => Some(x.dtype()),
        Operand::Number(_) => None,
    });
    let dtype = dtypes.reduce(bibun_array::DType::promote);
    let dtype = dtype.unwrap_or(bibun_array::DType::F64);
    let inputs = operands.map(|operand| operand.beside(dtype));
    let first = inputs[0].spec();
    let fits = first.dtype.is_float() && inputs.iter().all(|x| x.spec() == first);
    let _whole = composite_if(!fits, name);
    let inputs = if fits { inputs } else { alike(name, inputs) };
    call(function, &[], inputs)
}

/// Computes the regularized incomplete beta function `1/B(a, b) ∫₀ˣ tᵃ⁻¹ (1 - t)ᵇ⁻¹ dt` of each three elements
/// a, b and x: the probability below x of the beta distribution.
///
/// It is NaN where a or b is negative, both are 0, or x is not between 0 and 1. In f64 and up to 1e6 for a and b the
/// relative error is below `1e-12`, that of the derivatives to a and b below `1e-10`. Where a or b is beyond
/// 1e10, the result may be NaN near the mean.
///
/// Shapes: inputs that broadcast → their common shape.
/// Types: floats, promoted; integers give f64.
/// Gradient: `gy xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b)` to x; to a and b, the derivative of each step of the computation.
/// Two derivatives to a and b are known, beside any number of those to x: to ask for a third one is an error.
/// Source: Didonato and Morris, "Algorithm 708: Significant digit computation of the incomplete beta function
/// ratios" (1992).
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::betainc, Variable};
/// let y = betainc(2.0, 1.0, Variable::new([0.0, 0.5, 1.0])).to_vec::<f64>();
/// assert_eq!((y[0], y[2]), (0.0, 1.0));
/// assert!((y[1] - 0.25).abs() < 1e-15);
/// ```
#[track_caller]
pub fn betainc(a: impl Into<Operand>, b: impl Into<Operand>, x: impl Into<Operand>) -> Variable {
    let operands = [a.into(), b.into(), x.into()];
    of_three("betainc", Betainc::function(), operands)
}
method!(betainc, b: impl Into<Operand>, x: impl Into<Operand>);
function_type!(betainc, 3, Betainc);

element_function! {
    Betainc = "betainc", [a, b, c] [];
    operation: Special(Function::Betainc);
    derivative(a, b, c; gy): gy * a.betainc_a(b, c);
    derivative(a, b, c; gy): gy * a.betainc_b(b, c);
    derivative(a, b, c; gy): gy * a.beta_density(b, c);
}

/// Computes the inverse of [`betainc`] to its third argument, of each three elements a, b and p: the x with
/// `betainc(a, b, x) = p`, below which the beta distribution has the probability p.
///
/// It is NaN where a or b is negative, both are 0, or p is not between 0 and 1. In f64 and up to 1e6 for a and b the
/// relative error is below `1e-12`, and below `1e-12` by the smaller of a and b if one is below 1. Where x is
/// near 1, the one with a and b exchanged, of `1 - p`, is `1 - x` with the digits that are lost in x.
///
/// Shapes: inputs that broadcast → their common shape.
/// Types: floats, promoted; integers give f64.
/// Gradient: by the implicit function theorem, `gy / f(x)` to p, where f is the density, and `-gy / f(x)` times the
/// derivatives of [`betainc`] to a and b; 0 to these where x is 0 or 1. Two derivatives to a and b are known, as of
/// [`betainc`].
/// Source: that of [`betainc`], which is solved for x by Halley's method for logarithms.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::betaincinv, Variable};
/// let x = betaincinv(2.0, 1.0, Variable::new([0.0, 0.25, 1.0])).to_vec::<f64>();
/// assert_eq!((x[0], x[2]), (0.0, 1.0));
/// assert!((x[1] - 0.5).abs() < 1e-15);
/// ```
#[track_caller]
pub fn betaincinv(a: impl Into<Operand>, b: impl Into<Operand>, p: impl Into<Operand>) -> Variable {
    let operands = [a.into(), b.into(), p.into()];
    of_three("betaincinv", Betaincinv::function(), operands)
}
method!(betaincinv, b: impl Into<Operand>, p: impl Into<Operand>);
function_type!(betaincinv, 3, Betaincinv);

element_function! {
    Betaincinv = "betaincinv", [a, b, c] [];
    operation: Special(Function::Betaincinv);
    derivative(a, b, y; gy): {
        let (is_end, x) = inside(y);
        -(gy * shift(is_end, a.betainc_a(b, x), a.beta_density(b, x)))
    };
    derivative(a, b, y; gy): {
        let (is_end, x) = inside(y);
        -(gy * shift(is_end, a.betainc_b(b, x), a.beta_density(b, x)))
    };
    derivative(a, b, y; gy): gy / a.beta_density(b, y);
}

/// Whether x is an end of the beta distribution, which no parameter moves, and else x.
fn inside<T: Float>(x: Number<T>) -> (Mask<T>, Number<T>) {
    let is_end = x.equal(0.0).logical_or(x.equal(1.0));
    (is_end, is_end.where_(0.5, x))
}

/// The derivative of the density's logarithm by the first parameter; that by the second one has the parameters
/// exchanged and `1 - x`.
macro_rules! slope {
    ($a:ident, $b:ident, $logarithm:expr) => {
        $logarithm - $a.polygamma_difference($b, 0.0)
    };
}

/// Whether both parameters of the beta distribution are positive.
fn are_positive<T: Float>(a: Number<T>, b: Number<T>) -> Mask<T> {
    a.minimum(b).greater(0.0)
}

/// The derivative of the density of the beta distribution by x, at 0 and 1 by densities with a smaller parameter.
fn beta_density_slope<T: Float>(a: Number<T>, b: Number<T>, x: Number<T>) -> Number<T> {
    let is_start = x.equal(0.0).logical_and(a.greater_equal(1.0));
    let is_end = x.equal(1.0).logical_and(b.greater_equal(1.0));
    let is_either = is_start.logical_or(is_end);
    // At 1, it is that at 0 with the parameters exchanged.
    let start = is_start.where_(x, is_end.where_(1.0 - x, 0.5));
    let first = is_start.where_(a, is_end.where_(b, 3.0));
    let second = is_start.where_(b, is_end.where_(a, 3.0));
    let smaller = (first + second - 1.0) * (first - 1.0).beta_density(second, start);
    let same = (second - 1.0) * first.beta_density(second, start) / (1.0 - start);
    let slope = smaller - same;
    // Without one of the parameters the density is 0 inside.
    let is_nothing = a.equal(0.0).logical_or(b.equal(0.0));
    let x = is_either.logical_or(is_nothing).where_(0.5, x);
    let inside = a.beta_density(b, x) * ((a - 1.0) / x - (b - 1.0) / (1.0 - x));
    is_either.where_(is_end.where_(-slope, slope), inside)
}

/// The derivatives of `betainc` by its parameters, whose derivatives by `x` are those of the density.
pub(super) struct BetaincA;
element_function! {
    BetaincA = "betainc_a", [a, b, c] [];
    operation: Special(Function::BetaincA);
    derivative(a, b, c; gy): gy * a.betainc_aa(b, c);
    derivative(a, b, c; gy): gy * a.betainc_ab(b, c);
    derivative(a, b, c; gy): {
        let slope = slope!(a, b, c.log());
        gy * by_parameter(are_positive(a, b), a.beta_density(b, c), slope)
    };
}

pub(super) struct BetaincB;
element_function! {
    BetaincB = "betainc_b", [a, b, c] [];
    operation: Special(Function::BetaincB);
    derivative(a, b, c; gy): gy * a.betainc_ab(b, c);
    derivative(a, b, c; gy): gy * a.betainc_bb(b, c);
    derivative(a, b, c; gy): {
        let slope = slope!(b, a, (-c).log1p());
        gy * by_parameter(are_positive(a, b), a.beta_density(b, c), slope)
    };
}

/// Why there are no more derivatives.
const THIRD: &str = "the third one of betainc to its first two arguments is not known";

pub(super) struct BetaincAa;
element_function! {
    BetaincAa = "betainc_aa", [a, b, c] [];
    operation: Special(Function::BetaincAa);
    unknown(; gy): THIRD;
    unknown(; gy): THIRD;
    derivative(a, b, c; gy): {
        let slope = slope!(a, b, c.log());
        let curvature = slope * slope - a.polygamma_difference(b, 1.0);
        gy * by_parameter(are_positive(a, b), a.beta_density(b, c), curvature)
    };
}

pub(super) struct BetaincAb;
element_function! {
    BetaincAb = "betainc_ab", [a, b, c] [];
    operation: Special(Function::BetaincAb);
    unknown(; gy): THIRD;
    unknown(; gy): THIRD;
    derivative(a, b, c; gy): {
        let slopes = slope!(a, b, c.log()) * slope!(b, a, (-c).log1p());
        let curvature = slopes + (a + b).polygamma(1.0);
        gy * by_parameter(are_positive(a, b), a.beta_density(b, c), curvature)
    };
}

pub(super) struct BetaincBb;
element_function! {
    BetaincBb = "betainc_bb", [a, b, c] [];
    operation: Special(Function::BetaincBb);
    unknown(; gy): THIRD;
    unknown(; gy): THIRD;
    derivative(a, b, c; gy): {
        let slope = slope!(b, a, (-c).log1p());
        let curvature = slope * slope - b.polygamma_difference(a, 1.0);
        gy * by_parameter(are_positive(a, b), a.beta_density(b, c), curvature)
    };
}

/// The density of the beta distribution.
pub(super) struct BetaDensity;
element_function! {
    BetaDensity = "beta_density", [a, b, c] [];
    operation: Special(Function::BetaDensity);
    derivative(a, b, c, y; gy): gy * by_parameter(are_positive(a, b), y, slope!(a, b, c.log()));
    derivative(a, b, c, y; gy): {
        gy * by_parameter(are_positive(a, b), y, slope!(b, a, (-c).log1p()))
    };
    derivative(a, b, c; gy): gy * beta_density_slope(a, b, c);
}

/// Computes the lower incomplete gamma function by its series of positive terms.
#[cfg(test)]
fn gamma_reference(a: f64, x: f64) -> f64 {
    let mut term = (a * x.ln() - x - super::gamma::reference(a + 1.0)).exp();
    let mut sum = 0.0;
    for n in 1..300 {
        sum += term;
        term *= x / (a + f64::from(n));
    }
    sum
}

/// Computes the incomplete beta function by its series of positive terms.
#[cfg(test)]
fn beta_reference(a: f64, b: f64, x: f64) -> f64 {
    use super::gamma::reference;
    let logarithm = reference(a + b) - reference(a + 1.0) - reference(b);
    let mut term = (a * x.ln() + b * (-x).ln_1p() + logarithm).exp();
    let mut sum = 0.0;
    for n in 0..800 {
        let n = f64::from(n);
        sum += term;
        term *= (a + b + n) / (a + 1.0 + n) * x;
    }
    sum
}

/// Computes where an increasing function of the numbers from 0 to `high` has a value, by halving.
#[cfg(test)]
fn solution(value: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let mut low = 0.0;
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        match f(middle) < value {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use std::ops::Range;

    use bibun_array::Array;

    use crate::conformance::Sample;
    // Third derivatives are not known.
    let two = binary_samples().into_iter();
    let mut samples: Vec<Sample> = two.map(|sample| Sample { order: 2, ..sample }).collect();
    type Call = fn(&[Variable]) -> Variable;
    let of_three = |name, function, f: Call, last: Range<f64>, reference: fn([f64; 3]) -> f64| {
        let expected = move |x: &[Array]| {
            let [a, b, c] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
            let y = (0..a.len()).map(|i| reference([a[i], b[i], c[i]]));
            vec![Array::from_vec(y.collect(), x[0].shape())]
        };
        let sample = Sample {
            elementwise: true,
            ..Sample::new(name, move |x| vec![f(x)], expected)
        };
        let sample = sample.input([2, 3], 1.6..4.0).input([2, 3], 1.6..4.0);
        sample.input([2, 3], last).of(function, &[])
    };
    samples.push(of_three(
        "betainc",
        Betainc::function(),
        |x| betainc(&x[0], &x[1], &x[2]),
        0.1..0.9,
        |[a, b, x]| beta_reference(a, b, x),
    ));
    samples.push(Sample {
        order: 2,
        ..of_three(
            "betaincinv",
            Betaincinv::function(),
            |x| betaincinv(&x[0], &x[1], &x[2]),
            0.1..0.9,
            |[a, b, p]| solution(p, 1.0, |x| beta_reference(a, b, x)),
        )
    });
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::derivatives;
    use crate::{attempt, grad};

    #[test]
    fn ends() {
        let a = Variable::new([0.0, 2.0, 2.0, 0.0, -1.0, f64::INFINITY]);
        let x = Variable::new([1.0, 0.0, f64::INFINITY, 0.0, 1.0, 1.0]);
        let lower = gammainc(&a, &x).to_vec::<f64>();
        assert_eq!((&lower[..3], lower[5]), (&[1.0, 0.0, 1.0][..], 0.0));
        assert!(lower[3].is_nan() && lower[4].is_nan());
        let upper = gammaincc(&a, &x).to_vec::<f64>();
        assert_eq!((&upper[..3], upper[5]), (&[0.0, 1.0, 0.0][..], 1.0));
        let b = Variable::new([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let a = Variable::new([0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
        let x = Variable::new([0.5, 0.5, 0.5, 1.5, 0.0, 1.0]);
        let y = betainc(&a, &b, &x).to_vec::<f64>();
        assert_eq!((&y[..2], &y[4..]), (&[1.0, 0.0][..], &[0.0, 1.0][..]));
        assert!(y[2].is_nan() && y[3].is_nan());
    }

    #[test]
    fn ends_of_inverses() {
        let (infinity, nan) = (f64::INFINITY, f64::NAN);
        let a = Variable::new([2.0, 2.0, 0.0, infinity, -1.0, 2.0, 1e-3]);
        let p = Variable::new([0.0, 1.0, 0.5, 0.5, 0.5, 1.5, 0.1]);
        let same = |found: Variable, expected: &[f64]| {
            let found = found.to_vec::<f64>();
            let alike = |(x, y): (&f64, &f64)| x == y || x.is_nan() && y.is_nan();
            assert!(
                found.iter().zip(expected).all(alike),
                "{found:?} {expected:?}"
            );
        };
        let expected = [0.0, infinity, 0.0, infinity, nan, nan, 0.0];
        same(gammaincinv(&a, &p), &expected);
        same(gammainccinv(&a, 1.0 - &p), &expected);
        let b = Variable::new([1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 2.0]);
        same(betaincinv(&a, &b, &p), &[0.0, 1.0, 0.0, 1.0, nan, nan, 0.0]);
        same(
            betaincinv(&b, &a, 1.0 - &p),
            &[1.0, 0.0, 1.0, 0.0, nan, nan, 1.0],
        );

        // The ends do not move with the parameters.
        let found = grad(|a| gammaincinv(a, &p).sum(..), &a).to_vec::<f64>();
        assert_eq!((found[0], found[1], found[6]), (0.0, 0.0, 0.0));
        let found = grad(
            |b| betaincinv(2.0, b, [0.0, 1.0]).sum(..),
            &Variable::new(3.0),
        );
        assert_eq!(found.item::<f64>(), 0.0);
        // The slope to the probability at an end is that of a power.
        for (a, slope) in [(0.5, 0.0), (1.0, 1.0), (2.0, infinity)] {
            let at_zero = |f: &dyn Fn(&Variable) -> Variable| grad(f, &Variable::new(0.0));
            assert_eq!(at_zero(&|p| gammaincinv(a, p)).item::<f64>(), slope);
            assert_eq!(at_zero(&|p| betaincinv(a, 1.0, p)).item::<f64>(), slope);
        }
    }

    #[test]
    fn inverses_come_back_from_both_tails() {
        let p = Variable::new([1e-15, 1e-8, 0.1, 0.5, 0.9, 1.0 - 1e-12]);
        let tiny = Variable::new([1e-300, 1e-100, 1e-30]);
        let near = |found: Variable, expected: &Variable| {
            let error = ((found - expected) / expected).abs().max(..).item::<f64>();
            assert!(error < 1e-10, "{error}");
        };
        for a in [0.05, 0.7, 3.0, 200.0] {
            near(gammainc(a, gammaincinv(a, &p)), &p);
            near(gammaincc(a, gammainccinv(a, &p)), &p);
            near(gammaincc(a, gammainccinv(a, &tiny)), &tiny);
            near(betainc(a, 40.0, betaincinv(a, 40.0, &p)), &p);
        }
        for a in [3.0, 200.0, 1e6] {
            near(gammainc(a, gammaincinv(a, &tiny)), &tiny);
            near(gammainc(a, gammaincinv(a, &p)), &p);
            near(betainc(a, 1e4, betaincinv(a, 1e4, &tiny)), &tiny);
        }
    }

    #[test]
    fn derivatives_where_the_densities_begin() {
        let at = |f: &dyn Fn(&Variable) -> Variable, x: f64| {
            let found = derivatives(f, x, 4);
            [found[1], found[2], found[3], found[4]]
        };
        let infinity = f64::INFINITY;
        for (a, expected) in [
            (1.0, [1.0, -1.0, 1.0, -1.0]),
            (2.0, [0.0, 1.0, -2.0, 3.0]),
            (3.0, [0.0, 0.0, 1.0, -3.0]),
            (20.0, [0.0; 4]),
            (1.5, [0.0, infinity, -infinity, infinity]),
        ] {
            assert_eq!(at(&|x| gammainc(a, x), 0.0), expected, "{a}");
            assert_eq!(at(&|x| -gammaincc(a, x), 0.0), expected, "{a}");
        }
        // x, 2x - x², 3x² - 2x³, and x³ (4 - 3x).
        for (a, b, expected) in [
            (1.0, 1.0, [1.0, 0.0, 0.0, 0.0]),
            (1.0, 2.0, [2.0, -2.0, 0.0, 0.0]),
            (2.0, 2.0, [0.0, 6.0, -12.0, 0.0]),
            (3.0, 2.0, [0.0, 0.0, 24.0, -72.0]),
        ] {
            assert_eq!(at(&|x| betainc(a, b, x), 0.0), expected, "{a} {b}");
            assert_eq!(at(&|x| -betainc(b, a, 1.0 - x), 0.0), expected, "{a} {b}");
        }
        // The slope to x does not depend on the parameter there, if it is above 1.
        let mixed = |a: &Variable| grad(|x| gammainc(a, x), &Variable::constant(0.0));
        assert_eq!(grad(mixed, &Variable::constant(2.0)).item::<f64>(), 0.0);
        let mixed = |a: &Variable| grad(|x| betainc(a, 2.0, x), &Variable::constant(0.0));
        assert_eq!(grad(mixed, &Variable::constant(2.0)).item::<f64>(), 0.0);
    }

    #[test]
    fn a_third_derivative_to_a_parameter_is_refused_but_not_one_to_the_variable() {
        let (a, x) = (Variable::new(2.0), Variable::new(1.5));
        let first = |a: &Variable, x: &Variable| grad(|a| gammainc(a, x), a);
        let second = |a: &Variable, x: &Variable| grad(|a| first(a, x), a);
        // Its derivative to x is that of the density.
        let found = grad(|x| second(&a, x), &x).item::<f64>();
        let (density, slope) = (1.5 * (-1.5f64).exp(), 1.5f64.ln() - 0.422_784_335_098_467_1);
        let expected = density * (slope * slope - 0.644_934_066_848_226_4);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        let error = attempt(|| grad(|a| second(a, &x), &a)).expect_err("no third derivative");
        assert!(error.to_string().contains("gammainc"), "{error}");
        let of_beta = |a: &Variable| grad(|a| grad(|a| betainc(a, 2.0, x.sigmoid()), a), a);
        let error = attempt(|| grad(of_beta, &a)).expect_err("no third derivative");
        assert!(error.to_string().contains("betainc"), "{error}");
    }

    #[test]
    fn numbers_integers_and_shapes() {
        let x = Variable::new([[0.25f32], [0.5]]);
        let y = betainc(Variable::new([1, 2, 3]), 1, &x);
        assert_eq!(y.shape(), [2, 3]);
        let expected = [0.25, 0.0625, 0.015625, 0.5, 0.25, 0.125];
        for (y, expected) in y.to_vec::<f64>().iter().zip(expected) {
            assert!((y - expected).abs() < 1e-7, "{y} {expected}");
        }
        assert_eq!(betainc(1, 1.0, &x).dtype(), bibun_array::DType::F32);
        let error = attempt(|| betainc(&x, Variable::new([1.0; 3]), Variable::new([1.0; 4])));
        assert!(error.is_err());
    }
}
