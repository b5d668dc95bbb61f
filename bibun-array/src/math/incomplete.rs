//! The incomplete gamma and beta functions, regularized, with their densities and their derivatives by every
//! argument.
//!
//! Method: a series or a continued fraction, whichever converges fast, of numbers that may have derivatives:
//! one computation serves the value and the derivatives by the parameters. The factor before it, a density, is
//! computed without the cancellation of its large parts.
//! Inverses are solved for by steps of third order, of the tail that is the smaller one.
//! Bounds: relative error 1e-12 for parameters up to 1e6, and 1e-10 for their derivatives; NaN where a million
//! terms are not enough.
//! Source: Didonato and Morris, "Algorithm 708: Significant digit computation of the incomplete beta function
//! ratios" (1992), for the fraction; Loader, "Fast and accurate computation of binomial probabilities" (2000),
//! for the densities.

use std::f64::consts::TAU;

use super::gamma::{
    betaln, digamma, lgamma_of_one_plus, polygamma, polygamma_difference, stirling,
};
use super::hyperdual::{Hyperdual, Smooth};
use super::normal::ndtri;

/// The number of terms after which a sum is given up.
const MOST: usize = 1_000_000;
/// An exponent below which the exponential may be no normal number when it is multiplied.
const SMALL: f64 = -600.0;

/// `u - ln(1 + u)`, from both numbers: where `u` is near -1 it has lost the digits of the other.
fn excess(u: f64, one_plus_u: f64) -> f64 {
    if !(-0.3..=0.5).contains(&u) {
        return u - one_plus_u.ln();
    }
    let r = u / (2.0 + u);
    let square = r * r;
    let (mut sum, mut power, mut k) = (0.0, 1.0, 3.0);
    while power > 1e-18 {
        sum += power / k;
        power *= square;
        k += 2.0;
    }
    r * (u - 2.0 * square * sum)
}

/// The continued fraction `b0 + a1 / (b1 + a2 / (b2 + ..))`, from the terms `(a, b)`.
/// Source: Lentz's algorithm as in Press et al., "Numerical Recipes", 5.2.
fn fraction<S: Smooth>(first: S, mut terms: impl FnMut(f64) -> (S, S)) -> S {
    let not_zero = |x: S| {
        if x.value() == 0.0 {
            x + S::of(1e-300)
        } else {
            x
        }
    };
    let mut value = not_zero(first);
    let (mut c, mut d) = (value, S::of(0.0));
    for k in 1..MOST {
        let (a, b) = terms(k as f64);
        d = S::of(1.0) / not_zero(b + a * d);
        c = not_zero(b + a / c);
        let factor = c * d;
        value = value * factor;
        if factor.is_one(value, c) || factor.value().is_nan() {
            return value;
        }
    }
    S::of(f64::NAN)
}

/// The exponent and the factor of `x^a e^-x / gamma(a + 1)` for `a >= 0`.
fn poisson_parts(a: f64, x: f64) -> (f64, f64) {
    if a < 10.0 {
        return (a * x.ln() - x - lgamma_of_one_plus(a), 1.0);
    }
    let exponent = -a * excess((x - a) / a, x / a) - stirling(a);
    (exponent, 1.0 / (TAU * a).sqrt())
}

/// `x^a e^-x / gamma(a + 1)` for `a >= 0`.
fn poisson(a: f64, x: f64) -> f64 {
    let (exponent, factor) = poisson_parts(a, x);
    exponent.exp() * factor
}

/// A density that begins as `factor x^(a - 1)`, where it begins.
fn at_the_end(a: f64, factor: f64) -> f64 {
    if a == 1.0 {
        factor
    } else if a < 1.0 {
        f64::INFINITY
    } else {
        0.0
    }
}

/// The density of the gamma distribution, `x^(a - 1) e^-x / gamma(a)`.
pub(super) fn gamma_density(a: f64, x: f64) -> f64 {
    if !(a >= 0.0 && x >= 0.0) {
        f64::NAN
    } else if x.is_infinite() || a.is_infinite() || a == 0.0 {
        0.0
    } else if x == 0.0 {
        at_the_end(a, 1.0)
    } else {
        let (exponent, factor) = poisson_parts(a, x);
        let quotient = a / x;
        if exponent > SMALL && quotient.is_finite() {
            exponent.exp() * factor * quotient
        } else {
            // One of the two may be out of range where the product is not.
            (exponent + (a.ln() - x.ln())).exp() * factor
        }
    }
}

/// The lower function, or else the upper one, and whether it is the upper one.
fn of_gamma<S: Smooth>(a: S, x: f64) -> (S, bool) {
    let (parameter, one) = (a.value(), S::of(1.0));
    let is_upper = if x > 1.1 {
        x > parameter
    } else if x <= 0.5 {
        -0.4 / x.ln() >= parameter
    } else {
        x * 1.1 >= parameter
    };
    // The logarithm of x^a / gamma(a + 1), with its derivatives.
    let slope = || match parameter < 10.0 {
        true => x.ln() - digamma(parameter + 1.0),
        // The difference to a logarithm is that of neighbours, about which the fraction is known.
        false => (x / parameter).ln() - (digamma(parameter + 1.0) - parameter.ln()),
    };
    let curvature = || -polygamma(parameter + 1.0, 1.0);
    if is_upper && x <= 1.1 {
        let logarithm = parameter * x.ln() - lgamma_of_one_plus(parameter);
        let power = logarithm.exp();
        let derivatives = |factor: f64| {
            let (first, second) = (slope(), curvature());
            [
                factor * first,
                0.0,
                factor * (first * first + second),
                0.0,
                0.0,
            ]
        };
        let rest = S::function(a, a, -logarithm.exp_m1(), || derivatives(-power));
        let factor = S::function(a, a, power, || derivatives(power));
        let (mut sum, mut power) = (S::of(0.0), 1.0);
        for n in 1..MOST {
            power *= -x / n as f64;
            let term = S::of(power) / (a + S::of(n as f64));
            sum = sum + term;
            if term.is_negligible(sum) {
                break;
            }
        }
        return (rest - factor * a * sum, true);
    }
    let density = poisson(parameter, x);
    if density == 0.0 {
        // The series may not converge here.
        return (S::of(0.0), is_upper);
    }
    let density = S::function(a, a, density, || {
        let first = slope();
        [
            density * first,
            0.0,
            density * (first * first + curvature()),
            0.0,
            0.0,
        ]
    });
    if !is_upper {
        let (mut term, mut sum) = (one, one);
        for n in 1..MOST {
            term = term * S::of(x) / (a + S::of(n as f64));
            sum = sum + term;
            if term.is_negligible(sum) {
                return (density * sum, false);
            }
        }
        return (S::of(f64::NAN), false);
    }
    let first = S::of(x + 1.0) - a;
    let divisor = fraction(first, |n| {
        let (k, b) = (S::of(n), S::of(x + 1.0 + 2.0 * n) - a);
        (k * (a - k), b)
    });
    (density * a / divisor, true)
}

/// The regularized lower and upper functions.
fn both(a: f64, x: f64) -> [f64; 2] {
    if !(a >= 0.0 && x >= 0.0) || a == 0.0 && x == 0.0 || a.is_infinite() && x.is_infinite() {
        [f64::NAN; 2]
    } else if x == 0.0 || a.is_infinite() {
        [0.0, 1.0]
    } else if a == 0.0 || x.is_infinite() {
        [1.0, 0.0]
    } else {
        match of_gamma(a, x) {
            (value, false) => [value, 1.0 - value],
            (value, true) => [1.0 - value, value],
        }
    }
}

/// The regularized lower incomplete gamma function.
pub(super) fn gammainc(a: f64, x: f64) -> f64 {
    both(a, x)[0]
}

/// The regularized upper incomplete gamma function.
pub(super) fn gammaincc(a: f64, x: f64) -> f64 {
    both(a, x)[1]
}

/// The first and the second derivative of the lower function by `a`.
fn gamma_derivatives(a: f64, x: f64) -> [f64; 2] {
    if !(a >= 0.0 && x >= 0.0) {
        return [f64::NAN; 2];
    }
    if x == 0.0 || x.is_infinite() || a.is_infinite() {
        return [0.0; 2];
    }
    let (value, is_upper) = of_gamma(Hyperdual::argument(a, [true; 2]), x);
    let derivatives = value.derivatives();
    if is_upper {
        derivatives.map(|d| -d)
    } else {
        derivatives
    }
}

/// The derivative of `gammainc` by `a`.
pub(super) fn gammainc_a(a: f64, x: f64) -> f64 {
    gamma_derivatives(a, x)[0]
}

/// The second derivative of `gammainc` by `a`.
pub(super) fn gammainc_aa(a: f64, x: f64) -> f64 {
    gamma_derivatives(a, x)[1]
}

/// The exponent and the factor of `x^a y^b / B(a, b)`, where `y = 1 - x`.
fn binomial_parts(a: f64, b: f64, x: f64) -> (f64, f64) {
    let n = a + b;
    if a < 10.0 || b < 10.0 {
        return (a * x.ln() + b * (-x).ln_1p() - betaln(a, b), 1.0);
    }
    let distance = x * n - a;
    let of_a = a * excess(distance / a, x * (n / a));
    let of_b = b * excess(-distance / b, (1.0 - x) * (n / b));
    let correction = stirling(n) - stirling(a) - stirling(b);
    (correction - of_a - of_b, (a * (b / n) / TAU).sqrt())
}

/// `x^a y^b / B(a, b)`, where `y = 1 - x`.
fn binomial(a: f64, b: f64, x: f64) -> f64 {
    let (exponent, factor) = binomial_parts(a, b, x);
    exponent.exp() * factor
}

/// The density of the beta distribution, `x^(a - 1) (1 - x)^(b - 1) / B(a, b)`.
pub(super) fn beta_density(a: f64, b: f64, x: f64) -> f64 {
    if !(a >= 0.0 && b >= 0.0 && (0.0..=1.0).contains(&x)) || a == 0.0 && b == 0.0 {
        return f64::NAN;
    }
    if a == 0.0 || b == 0.0 || a.is_infinite() || b.is_infinite() {
        return 0.0;
    }
    if x == 0.0 || x == 1.0 {
        return if x == 0.0 {
            at_the_end(a, b)
        } else {
            at_the_end(b, a)
        };
    }
    let (exponent, factor) = binomial_parts(a, b, x);
    match exponent > SMALL {
        true => exponent.exp() * factor / x / (1.0 - x),
        false => (exponent - x.ln()).exp() * factor / (1.0 - x),
    }
}

/// The regularized function, or its complement, and whether it is the complement.
fn of_beta<S: Smooth>(a: S, b: S, x: f64) -> (S, bool) {
    let (p, q, y) = (a.value(), b.value(), 1.0 - x);
    let factor = binomial(p, q, x);
    let is_complement = x * (p + q + 2.0) >= p + 1.0;
    if factor == 0.0 {
        return (S::of(0.0), is_complement);
    }
    let factor = S::function(a, b, factor, || {
        let (by_a, by_b) = (
            x.ln() - polygamma_difference(p, q, 0.0),
            (-x).ln_1p() - polygamma_difference(q, p, 0.0),
        );
        let (aa, bb) = (
            -polygamma_difference(p, q, 1.0),
            -polygamma_difference(q, p, 1.0),
        );
        let mixed = by_a * by_b + polygamma(p + q, 1.0);
        [by_a, by_b, by_a * by_a + aa, mixed, by_b * by_b + bb].map(|d| factor * d)
    });
    let (a, b, x, y) = if is_complement {
        (b, a, y, x)
    } else {
        (a, b, x, y)
    };
    let (one, of_x) = (S::of(1.0), S::of(x));
    // How far x is from the mean, times a + b.
    let distance = a * S::of(y) - b * of_x + one;
    let below = |m: f64| a + S::of(2.0 * m - 1.0);
    let whole = |m: f64| {
        let k = S::of(m);
        k + k * (b - k) * of_x / below(m)
            + (a + k) * (distance + S::of(m * (1.0 + y))) / (a + S::of(2.0 * m + 1.0))
    };
    // Its first term is without the part that is 0 / 0 at a = 1.
    let first = a * distance / (a + one);
    let divisor = fraction(first, |m| {
        let (k, below) = (S::of(m), below(m));
        let product = (a + k - one) * (a + b + k - one) * k * (b - k);
        (product * S::of(x * x) / (below * below), whole(m))
    });
    (factor / divisor, is_complement)
}

/// Whether there is a beta distribution with these parameters, of which all may be at one end.
fn has_beta(a: f64, b: f64) -> bool {
    a >= 0.0 && b >= 0.0 && (a > 0.0 || b > 0.0) && (a.is_finite() || b.is_finite())
}

/// The regularized function and its complement.
fn both_of_beta(a: f64, b: f64, x: f64) -> [f64; 2] {
    if !has_beta(a, b) || !(0.0..=1.0).contains(&x) {
        [f64::NAN; 2]
    } else if x == 0.0 || x == 1.0 {
        [x, 1.0 - x]
    } else if a == 0.0 || b.is_infinite() {
        [1.0, 0.0]
    } else if b == 0.0 || a.is_infinite() {
        [0.0, 1.0]
    } else {
        match of_beta(a, b, x) {
            (value, false) => [value, 1.0 - value],
            (value, true) => [1.0 - value, value],
        }
    }
}

/// The regularized incomplete beta function.
pub(super) fn betainc(a: f64, b: f64, x: f64) -> f64 {
    both_of_beta(a, b, x)[0]
}

/// The first or second derivative, for the arguments to which the two infinitesimal numbers are added.
fn beta_derivatives(a: (f64, [bool; 2]), b: (f64, [bool; 2]), x: f64) -> [f64; 2] {
    if !(a.0 >= 0.0 && b.0 >= 0.0 && (0.0..=1.0).contains(&x)) {
        return [f64::NAN; 2];
    }
    if x == 0.0 || x == 1.0 || a.0.is_infinite() || b.0.is_infinite() {
        return [0.0; 2];
    }
    if a.0 == 0.0 && b.0 == 0.0 {
        return [f64::NAN; 2];
    }
    // Below, derivatives are those at 0, but parts of them would overflow.
    let held = |x: f64| x.max(1e-150);
    let (a, b) = ((held(a.0), a.1), (held(b.0), b.1));
    let (a, b) = (Hyperdual::argument(a.0, a.1), Hyperdual::argument(b.0, b.1));
    let (value, is_complement) = of_beta(a, b, x);
    let derivatives = value.derivatives();
    if is_complement {
        derivatives.map(|d| -d)
    } else {
        derivatives
    }
}

/// The derivative of `betainc` by `a`.
pub(super) fn betainc_a(a: f64, b: f64, x: f64) -> f64 {
    beta_derivatives((a, [true, false]), (b, [false; 2]), x)[0]
}

/// The derivative of `betainc` by `b`.
pub(super) fn betainc_b(a: f64, b: f64, x: f64) -> f64 {
    beta_derivatives((a, [false; 2]), (b, [true, false]), x)[0]
}

/// The second derivative of `betainc` by `a`.
pub(super) fn betainc_aa(a: f64, b: f64, x: f64) -> f64 {
    beta_derivatives((a, [true; 2]), (b, [false; 2]), x)[1]
}

/// The derivative of `betainc` by `a` and `b`.
pub(super) fn betainc_ab(a: f64, b: f64, x: f64) -> f64 {
    beta_derivatives((a, [true, false]), (b, [false, true]), x)[1]
}

/// The second derivative of `betainc` by `b`.
pub(super) fn betainc_bb(a: f64, b: f64, x: f64) -> f64 {
    beta_derivatives((a, [false; 2]), (b, [true; 2]), x)[1]
}

/// A number below which the second term of the series of a distribution function is lost beside the first one.
const FIRST_TERM: f64 = 1e-17;

/// The logarithm of the first of two probabilities that sum to 1.
fn logarithm_of_first([first, second]: [f64; 2]) -> f64 {
    match first > 0.5 {
        true => (-second).ln_1p(),
        false => first.ln(),
    }
}

/// The normal number with these probabilities below and above it.
fn normal_between([lower, upper]: [f64; 2]) -> f64 {
    match lower > upper {
        true => -ndtri(upper),
        false => ndtri(lower),
    }
}

/// The positive number x with these probabilities below and above it, the smaller of which is exact. `at` gives those
/// of any x, their derivative by `ln x`, and that of its logarithm.
///
/// The steps are Halley's for the logarithm of the smaller one, which is concave in `ln x`. One that leaves what is
/// known of x is replaced by halving.
fn inverse(wanted: [f64; 2], start: f64, at: impl Fn(f64) -> ([f64; 2], f64, f64)) -> f64 {
    let is_upper = wanted[0] > wanted[1];
    let tail = |both: [f64; 2]| both[usize::from(is_upper)];
    let (mut low, mut high) = (f64::from_bits(1), f64::MAX);
    let mut x = start.clamp(low, high);
    // Halving all powers of 2 alone takes fewer steps.
    for _ in 0..100 {
        let (both, slope, bend) = at(x);
        let excess = (tail(both) / tail(wanted)).ln();
        if excess.is_nan() {
            return f64::NAN;
        }
        match (excess > 0.0) == is_upper {
            true => low = x,
            false => high = x,
        }
        let slope = if is_upper { -slope } else { slope } / tail(both);
        let straight = excess / slope;
        let step = straight / (1.0 - 0.5 * straight * (bend - slope)).clamp(0.5, 1.5);
        let next = x * (-step).exp();
        // What is left is of the order of its cube.
        if step.abs() < 1e-8 {
            return next;
        }
        x = match low < next && next < high {
            true => next,
            false => low.sqrt() * high.sqrt(),
        };
    }
    x
}

/// The x with these probabilities of the gamma distribution below and above it.
fn inverse_of_gamma(a: f64, wanted: [f64; 2]) -> f64 {
    let [lower, upper] = wanted;
    if !(a >= 0.0 && lower >= 0.0 && upper >= 0.0) {
        return f64::NAN;
    }
    if lower == 0.0 || upper == 0.0 {
        return if lower == 0.0 { 0.0 } else { f64::INFINITY };
    }
    if a == 0.0 || a.is_infinite() {
        return a;
    }
    let first = ((logarithm_of_first(wanted) + lgamma_of_one_plus(a)) / a).exp();
    if first < FIRST_TERM {
        return first;
    }
    // Source: Wilson and Hilferty, "The distribution of chi-square" (1931).
    let root = 1.0 - 1.0 / (9.0 * a) + normal_between(wanted) / (3.0 * a.sqrt());
    let start = first.max(a * root.powi(3));
    inverse(wanted, start, |x| (both(a, x), a * poisson(a, x), a - x))
}

/// The inverse of `gammainc` by its second argument.
pub(super) fn gammaincinv(a: f64, p: f64) -> f64 {
    inverse_of_gamma(a, [p, 1.0 - p])
}

/// The inverse of `gammaincc` by its second argument.
pub(super) fn gammainccinv(a: f64, q: f64) -> f64 {
    inverse_of_gamma(a, [1.0 - q, q])
}

/// The x up to 1/2 with these probabilities of the beta distribution below and above it.
fn inverse_of_beta(a: f64, b: f64, wanted: [f64; 2]) -> f64 {
    let first = ((logarithm_of_first(wanted) + a.ln() + betaln(a, b)) / a).exp();
    if first * (1.0 + b) < FIRST_TERM {
        return first;
    }
    // Solved for the odds x / (1 - x), whose logarithm is about normal.
    let deviation = (1.0 / a + 1.0 / b).sqrt();
    let normal = a / b * (normal_between(wanted) * deviation).exp();
    let x_of = |odds: f64| odds / (1.0 + odds);
    x_of(inverse(wanted, first.max(normal).min(1.0), |odds| {
        let x = x_of(odds);
        let bend = a * (1.0 - x) - b * x;
        (both_of_beta(a, b, x), binomial(a, b, x), bend)
    }))
}

/// The inverse of `betainc` by its third argument.
pub(super) fn betaincinv(a: f64, b: f64, p: f64) -> f64 {
    if !has_beta(a, b) || !(0.0..=1.0).contains(&p) {
        f64::NAN
    } else if p == 0.0 || p == 1.0 {
        p
    } else if a == 0.0 || b.is_infinite() {
        0.0
    } else if b == 0.0 || a.is_infinite() {
        1.0
    } else if p <= betainc(a, b, 0.5) {
        inverse_of_beta(a, b, [p, 1.0 - p])
    } else {
        1.0 - inverse_of_beta(b, a, [1.0 - p, p])
    }
}
