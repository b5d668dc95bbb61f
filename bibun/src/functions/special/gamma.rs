//! The gamma function's logarithm and its derivatives, the beta function, Hurwitz's zeta function.

use bibun_array::Number;
use bibun_array::math::Special as Function;

use crate::functions::families::{binary, binary_function, call, element_function, method, unary};
use crate::functions::{Operand, to_float_of};
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    /// Computes `log |Γ(x)|` of each element; infinite at zero and at the negative integers.
    ///
    /// The relative error is below `1e-14` in f64 on the right of zero, and as far from the zeros on its
    /// left.
    ///
    /// Gradient: `gy digamma(x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 6.1.
    ///
    /// ```
    /// use bibun::{functions::lgamma, Variable};
    /// let y = lgamma(Variable::new([1.0, 5.0, 0.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 24f64.ln(), f64::INFINITY]);
    /// ```
    lgamma(x) -> Lgamma {
        operation: Lgamma,
        derivative(x; gy): gy * x.digamma(),
        sample: (0.5..3.0, reference),
    }

    /// Computes the derivative of [`lgamma`] of each element. It is `∓∞` at `±0`, NaN at the negative
    /// integers.
    ///
    /// The relative error is below `1e-14` in f64, away from its zeros.
    ///
    /// Gradient: `gy polygamma(1, x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 6.3.
    ///
    /// ```
    /// use bibun::{functions::digamma, Variable};
    /// let y = digamma(Variable::new([1.0, 2.0])).to_vec::<f64>();
    /// assert!((y[0] + 0.577_215_664_901_532_9).abs() < 1e-14); // Euler's constant, negative
    /// assert!((y[1] - y[0] - 1.0).abs() < 1e-14);
    /// ```
    digamma(x) -> Digamma {
        operation: Digamma,
        derivative(x; gy): gy * x.polygamma(1.0),
        sample: (0.5..3.0, |x| polygamma_reference(0, x)),
    }
}

/// Computes the derivative of order n of [`digamma`] of each element: `(-1)ⁿ⁺¹ n! Σ (x + k)⁻ⁿ⁻¹` over natural
/// k.
///
/// At zero and at the negative integers it is infinite for odd n; for even n it is `∓∞` at `±0` and NaN at the
/// negative integers. The relative error is below `1e-14` in f64, away from its zeros, up to order 100.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `gy polygamma(n + 1, x)`.
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 6.4.
///
/// ```
/// use bibun::{functions::polygamma, Variable};
/// let y = polygamma(1, Variable::new([1.0, 0.5])).to_vec::<f64>();
/// let square = std::f64::consts::PI.powi(2);
/// assert!((y[0] - square / 6.0).abs() < 1e-14);
/// assert!((y[1] - square / 2.0).abs() < 1e-14);
/// ```
#[track_caller]
pub fn polygamma(n: u32, x: impl Into<Variable>) -> Variable {
    let x = to_float_of("polygamma", x.into());
    match n {
        0 => call(Digamma::function(), &[], [x]),
        _ => call(OfOrder::function(), &[f64::from(n)], [x]),
    }
}

impl Variable {
    /// Calls [`functions::polygamma`](crate::functions::polygamma) of this Variable.
    #[must_use]
    #[track_caller]
    pub fn polygamma(&self, n: u32) -> Self {
        polygamma(n, self)
    }
}

/// The function of a constant order.
struct OfOrder;

element_function! {
    OfOrder = "polygamma", [x] [n];
    value: x.polygamma(n);
    derivative(x; gy): gy * x.polygamma(n + 1.0);
}

/// The same as an operation of formulas.
pub(super) struct Polygamma;

element_function! {
    Polygamma = "polygamma", [a, b] [];
    operation: Special(Function::Polygamma);
    derivative(a, b; gy): gy * a.polygamma(b + 1.0);
    derivative(; gy): Number::from(0.0);
}

binary_function! {
    /// Computes Hurwitz's zeta function `Σ (q + k)⁻ˢ` over natural k, where s is the first argument and q the
    /// second; Riemann's is that of `q = 1`.
    ///
    /// It is infinite where `s = 1` or q is zero or a negative integer; NaN where `s < 1`, or q is negative and
    /// s no integer. The relative error is below `1e-14` in f64 for positive q.
    ///
    /// Gradient: `-gy s zeta(s + 1, q)` to q. There is none to s, as in PyTorch and JAX: to ask for it is an
    /// error.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 23.1 and 23.2.
    ///
    /// ```
    /// use bibun::{functions::zeta, Variable};
    /// let y = zeta(2.0, Variable::new([1.0, 2.0])).to_vec::<f64>();
    /// assert!((y[0] - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-14);
    /// assert!((y[0] - y[1] - 1.0).abs() < 1e-14);
    /// ```
    zeta(a, b) via to_float -> Zeta;
    operation: Special(Function::Zeta);
    unknown(; gy): "to its first argument it is not known";
    derivative(a, b; gy): -(gy * a * (a + 1.0).zeta(b));
}

method!(zeta, b: impl Into<Operand>);

binary! {
    samples in binary_samples;

    /// Computes the logarithm of the magnitude of the [`beta`] function of each pair of elements.
    ///
    /// In f64 and for positive arguments the error is below `1e-14` times the larger of 1 and the magnitude of
    /// the result.
    ///
    /// Gradient: `gy (digamma(a) - digamma(a + b))` to a, and in the same way to b.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 6.2.
    ///
    /// ```
    /// use bibun::{functions::betaln, Variable};
    /// let y = betaln(Variable::new([1.0, 2.0]), 3.0).to_vec::<f64>();
    /// assert!((y[0] + 3f64.ln()).abs() < 1e-14);
    /// assert!((y[1] + 12f64.ln()).abs() < 1e-14);
    /// ```
    betaln(a, b) via to_float -> Betaln {
        operation: Special(Function::Betaln),
        derivative(a, b; gy): gy * a.polygamma_difference(b, 0.0),
        derivative(a, b; gy): gy * b.polygamma_difference(a, 0.0),
        sample: (0.5..3.0, 0.5..3.0, betaln_reference),
    }

    /// Computes the beta function `Γ(a) Γ(b) / Γ(a + b)` of each pair of elements.
    ///
    /// It is infinite where a or b is zero or a negative integer. The relative error is below `1e-12` in f64 for
    /// positive arguments.
    ///
    /// Gradient: `gy y (digamma(a) - digamma(a + b))` to a, and in the same way to b.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 6.2.
    ///
    /// ```
    /// use bibun::{functions::beta, Variable};
    /// let y = beta(Variable::new([1.0, 2.0]), 3.0).to_vec::<f64>();
    /// assert!((y[0] - 1.0 / 3.0).abs() < 1e-14);
    /// assert!((y[1] - 1.0 / 12.0).abs() < 1e-14);
    /// ```
    beta(a, b) via to_float -> BetaFunction {
        operation: Special(Function::Beta),
        derivative(a, b; gy): gy * a.beta_slope(b),
        derivative(a, b; gy): gy * b.beta_slope(a),
        sample: (0.5..3.0, 0.5..3.0, |a, b| betaln_reference(a, b).exp()),
    }
}

/// The derivative of the beta function by its first argument.
pub(super) struct BetaSlope;

element_function! {
    BetaSlope = "beta_slope", [a, b] [];
    operation: Special(Function::BetaSlope);
    derivative(a, b; gy): {
        let difference = a.polygamma_difference(b, 0.0);
        gy * (a.beta_slope(b) * difference + a.beta(b) * a.polygamma_difference(b, 1.0))
    };
    derivative(a, b; gy): {
        let difference = a.polygamma_difference(b, 0.0);
        gy * (b.beta_slope(a) * difference - a.beta(b) * (a + b).polygamma(1.0))
    };
}

/// The difference of the polygamma function between `a` and `a + b`.
pub(super) struct PolygammaDifference;

element_function! {
    PolygammaDifference = "polygamma_difference", [a, b, c] [];
    operation: Special(Function::PolygammaDifference);
    derivative(a, b, c; gy): gy * a.polygamma_difference(b, c + 1.0);
    derivative(a, b, c; gy): -(gy * (a + b).polygamma(c + 1.0));
    derivative(; gy): Number::from(0.0);
}

/// Computes the derivative of order n of [`digamma`] at a, less that at `a + b`, without the cancellation of large
/// arguments.
pub(crate) fn polygamma_difference(n: u32, a: &Variable, b: impl Into<Operand>) -> Variable {
    let ([a, b], _pair) = Operand::pair("polygamma_difference", a.into(), b.into());
    call(DifferenceOfOrder::function(), &[f64::from(n)], [a, b])
}

/// The function of a constant order.
struct DifferenceOfOrder;

element_function! {
    DifferenceOfOrder = "polygamma_difference", [a, b] [n];
    value: a.polygamma_difference(b, n);
    derivative(a, b; gy): gy * a.polygamma_difference(b, n + 1.0);
    derivative(a, b; gy): -(gy * (a + b).polygamma(n + 1.0));
}

/// Computes `log Γ(x)` by Stirling's series, far on the right.
#[cfg(test)]
pub(super) fn reference(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 20.0 {
        product *= x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - product.ln()
}

#[cfg(test)]
fn betaln_reference(a: f64, b: f64) -> f64 {
    reference(a) + reference(b) - reference(a + b)
}

/// Computes the sum and, in the place of its tail, the integral from the middle between two terms on with the
/// first correction.
#[cfg(test)]
fn zeta_reference(s: f64, q: f64) -> f64 {
    let terms = 200;
    let sum: f64 = (0..terms).rev().map(|k| (q + f64::from(k)).powf(-s)).sum();
    let end = q + f64::from(terms) - 0.5;
    sum + end.powf(1.0 - s) / (s - 1.0) - s * end.powf(-s - 1.0) / 24.0
}

#[cfg(test)]
fn polygamma_reference(n: u32, x: f64) -> f64 {
    if n > 0 {
        let factorial: f64 = (1..=n).map(f64::from).product();
        let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
        return sign * factorial * zeta_reference(f64::from(n) + 1.0, x);
    }
    // The derivative of the series above.
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 {
        sum += 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    x.ln() - 0.5 / x - z * (1.0 / 12.0 - z * (1.0 / 120.0 - z / 252.0)) - sum
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let mut samples = unary_samples();
    samples.extend(binary_samples());
    samples.push(Sample::unary(
        "zeta",
        0.5..2.0,
        |q| zeta(2.5, q),
        |q| zeta_reference(2.5, q),
    ));
    for n in 0..4 {
        samples.push(Sample::unary(
            "polygamma",
            0.5..3.0,
            move |x| polygamma(n, x),
            move |x| polygamma_reference(n, x),
        ));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::derivatives;

    #[test]
    fn all_derivatives_of_lgamma() {
        let euler = 0.577_215_664_901_532_9;
        let zeta = |s: i32| {
            (1..200_000)
                .rev()
                .map(|k| f64::from(k).powi(-s))
                .sum::<f64>()
        };
        let expected = [
            0.0,
            -euler,
            std::f64::consts::PI.powi(2) / 6.0,
            -2.0 * zeta(3),
            6.0 * zeta(4),
            -24.0 * zeta(5),
        ];
        let found = derivatives(|x| lgamma(x), 1.0, 5);
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-9 * (1.0 + expected.abs()),
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn poles() {
        let x = Variable::new([0.0, -0.0, -1.0, -2.0]);
        let infinity = f64::INFINITY;
        assert_eq!(lgamma(&x).to_vec::<f64>(), [infinity; 4]);
        assert_eq!(polygamma(1, &x).to_vec::<f64>(), [infinity; 4]);
        for y in [digamma(&x), polygamma(2, &x)] {
            let y = y.to_vec::<f64>();
            assert_eq!(y[..2], [-infinity, infinity]);
            assert!(y[2].is_nan() && y[3].is_nan());
        }
        let y = beta(Variable::new([-3.0, 0.0]), Variable::new([5.0, 1.0]));
        assert_eq!(y.to_vec::<f64>(), [infinity; 2]);
        // Γ(-1/2) = -2 √π, Γ(3/2) = √π / 2, and 1 / Γ is 0 at a pole.
        let y = beta(Variable::new([-0.5, -0.5]), Variable::new([1.5, 0.5])).to_vec::<f64>();
        assert!(
            (y[0] + std::f64::consts::PI).abs() < 1e-14 && y[1] == 0.0,
            "{y:?}"
        );
    }

    #[test]
    fn zeta_says_that_it_has_no_derivative_to_its_first_argument() {
        let (s, q) = (Variable::new(2.0), Variable::new(0.5));
        let y = zeta(&s, &q);
        let error = crate::attempt(|| y.backward()).expect_err("no derivative to s");
        assert!(error.to_string().contains("zeta"), "{error}");
        let y = zeta(s.detach(), &q);
        y.backward();
        let slope = q.grad().expect("a gradient").item::<f64>();
        assert!(
            (slope + 2.0 * zeta_reference(3.0, 0.5)).abs() < 1e-8,
            "{slope}"
        );
    }
}
