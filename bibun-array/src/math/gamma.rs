//! Functions around Γ, in f64 for both types and with loops: one number at a time.
//!
//! Method: above 1/2 the recurrence leads `lgamma` to `[1, 2]`, where it is `(x - 1) (x - 2)` times
//! a polynomial and so exact at its two zeros; from 8 on Stirling's series is used. `digamma` goes
//! up to 10 and uses its asymptotic series. Below 1/2 both are reflected.
//! `zeta` is summed in units of its first term up to where Euler's and Maclaurin's formula converges; below 0 the
//! terms on both sides of 0 are two sums, or one of their differences. `polygamma` is a multiple of it, whose
//! factors are multiplied in an order that keeps the product in range. Where an argument of `betaln` is large, the
//! large parts of Stirling's formula are subtracted before they are computed.
//! Bound: relative error 1e-14, away from the zeros below 0 and from the zero of `digamma` at 1.46.
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", sections 6.1 to 6.4 and 23.1.

use std::f64::consts::PI;

use super::coefficients::{DIGAMMA, LGAMMA_F64, STIRLING};
use super::kernel::polynomial;

/// `ln sqrt(2 pi)`.
const HALF_LN_TWO_PI: f64 = 0.9189385332046728;

/// `ln |gamma(x)|`.
pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_infinite() {
        f64::INFINITY
    } else if x < 0.5 {
        // gamma(x) gamma(1 - x) sin(pi x) = pi
        let distance = x - x.round();
        if distance == 0.0 && x != 0.0 {
            return f64::INFINITY;
        }
        if x.abs() < f64::MIN_POSITIVE {
            return -x.abs().ln();
        }
        (PI / (PI * distance).sin().abs()).ln() - lgamma(1.0 - x)
    } else if x < 1.0 {
        x * (x - 1.0) * polynomial(x - 0.5, LGAMMA_F64) - x.ln()
    } else if x < 8.0 {
        let (mut x, mut product) = (x, 1.0);
        while x > 2.0 {
            x -= 1.0;
            product *= x;
        }
        (x - 1.0) * (x - 2.0) * polynomial(x - 1.5, LGAMMA_F64) + product.ln()
    } else {
        let reciprocal = 1.0 / x;
        let series = reciprocal * polynomial(reciprocal * reciprocal, STIRLING);
        (x - 0.5) * (x.ln() - 1.0) + (HALF_LN_TWO_PI - 0.5 + series)
    }
}

/// `ln gamma(1 + x)` for `x >= 0`, exactly near 0.
pub(super) fn lgamma_of_one_plus(x: f64) -> f64 {
    match x < 1.0 {
        true => x * (x - 1.0) * polynomial(x - 0.5, LGAMMA_F64),
        false => lgamma(1.0 + x),
    }
}

/// The derivative of `ln gamma(x)`, which is NaN at the negative integers and infinite at zero.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        -1.0 / x
    } else if x < 0.5 {
        // psi(1 - x) - psi(x) = pi / tan(pi x)
        let distance = x - x.round();
        if distance == 0.0 || x == f64::NEG_INFINITY {
            return f64::NAN;
        }
        digamma(1.0 - x) - PI / (PI * distance).tan()
    } else {
        let (mut x, mut sum) = (x, 0.0);
        while x < 10.0 {
            sum -= 1.0 / x;
            x += 1.0;
        }
        let square = 1.0 / (x * x);
        sum + (x.ln() - 0.5 / x - square * polynomial(square, DIGAMMA))
    }
}

/// `B(2k) / (2k)!`.
const EULER_MACLAURIN: [f64; 10] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
];

/// The sum of `(q + k)^-s`, which is infinite at `q = 0` and at the negative integers.
pub(super) fn zeta(s: f64, q: f64) -> f64 {
    if s.is_nan() || q.is_nan() || s < 1.0 || q == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if s == 1.0 {
        return f64::INFINITY;
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    if q > 0.0 {
        // The power itself may underflow where the sum does not.
        return q.powf(1.0 - s) * (scaled_zeta(s, q) / q);
    }
    if q == q.floor() {
        return f64::INFINITY;
    }
    if s != s.floor() {
        return f64::NAN;
    }
    of_parts(zeta_on_the_left(s, q), |sum, unit| {
        unit.powf(1.0 - s) * (sum / unit)
    })
}

/// Hurwitz's zeta function for `q > 0`, times `q^s`.
fn scaled_zeta(s: f64, q: f64) -> f64 {
    let power = |k: f64| (-s * (k / q).ln_1p()).exp();
    let (mut sum, mut k) = (0.0, 0.0);
    while q + k < 10.0 + s {
        let term = if k == 0.0 { 1.0 } else { power(k) };
        sum += term;
        if term <= sum * 1e-17 {
            return sum;
        }
        k += 1.0;
    }
    let end = q + k;
    let rest = euler_maclaurin(s, end, |_| 1.0);
    sum + if k == 0.0 { rest } else { power(k) * rest }
}

/// `c^s` times the sum of `(c + k)^-s - (c + gap + k)^-s`, which is not computed as a difference of sums.
fn scaled_zeta_difference(s: f64, c: f64, gap: f64) -> f64 {
    let power = |k: f64| (-s * (k / c).ln_1p()).exp();
    let (mut sum, mut k) = (0.0, 0.0);
    while c + k < 10.0 + s {
        let term = power(k) * -(-s * (gap / (c + k)).ln_1p()).exp_m1();
        sum += term;
        if term <= sum * 1e-17 {
            return sum;
        }
        k += 1.0;
    }
    let end = c + k;
    let logarithm = (gap / end).ln_1p();
    sum + power(k) * euler_maclaurin(s, end, |s| -(-s * logarithm).exp_m1())
}

/// The rest of the sum from `q` on, times `q^s`: the formula of Euler and Maclaurin, in which `share` is a factor
/// of the power with each exponent.
fn euler_maclaurin(s: f64, q: f64, share: impl Fn(f64) -> f64) -> f64 {
    let square = 1.0 / (q * q);
    let (mut rest, mut factor) = (0.0, s / q);
    for (k, coefficient) in EULER_MACLAURIN.into_iter().enumerate() {
        let k = 2.0 * k as f64;
        rest += coefficient * factor * share(s + k + 1.0);
        factor *= (s + k + 1.0) * (s + k + 2.0) * square;
    }
    q / (s - 1.0) * share(s - 1.0) + 0.5 * share(s) + rest
}

/// Parts of `zeta(s, q)` for `q < 0` and a whole number `s`: sums, each of them in units of a power `-s` of a number.
fn zeta_on_the_left(s: f64, q: f64) -> [(f64, f64); 2] {
    let (distance, end) = (q - q.round(), 1.0 - q);
    // From the nearest pole, and from the one on the other side.
    let (near, far) = (distance.abs(), 1.0 - distance.abs());
    if s % 2.0 == 1.0 {
        // Terms on both sides have different signs. Each is subtracted from that of the same number.
        let difference = scaled_zeta_difference(s, near, far - near);
        return [
            (difference.copysign(distance), near),
            (scaled_zeta(s, end), end),
        ];
    }
    let (left, right) = match distance < 0.0 {
        true => (near, far),
        false => (far, near),
    };
    let beyond = (-s * (end / left).ln()).exp() * scaled_zeta(s, end);
    [
        (scaled_zeta(s, right), right),
        (scaled_zeta(s, left) - beyond, left),
    ]
}

/// The sum of parts, each computed from a number and its unit. Of two infinite ones with different signs, the first is
/// larger: it is that of the nearest poles.
fn of_parts(parts: [(f64, f64); 2], value: impl Fn(f64, f64) -> f64) -> f64 {
    let [first, second] = parts.map(|(sum, unit)| value(sum, unit));
    if first.is_infinite() {
        first
    } else {
        first + second
    }
}

/// The derivative of order `n` of `digamma`.
pub(super) fn polygamma(x: f64, n: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    let is_odd = n % 2.0 == 1.0;
    if x <= 0.0 && x == x.round() && x.is_finite() {
        // The pole has different signs on both sides if the order is even.
        return match (is_odd, x == 0.0) {
            (true, _) => f64::INFINITY,
            (false, true) => -1.0 / x,
            (false, false) => f64::NAN,
        };
    }
    let value = if x.is_nan() || x == f64::NEG_INFINITY {
        f64::NAN
    } else if x == f64::INFINITY {
        0.0
    } else if x > 0.0 {
        times_factorial(scaled_zeta(n + 1.0, x), x, n)
    } else {
        of_parts(zeta_on_the_left(n + 1.0, x), |sum, unit| {
            times_factorial(sum, unit, n)
        })
    };
    if is_odd { value } else { -value }
}

/// `sum n! / unit^(n + 1)`, which neither overflows nor underflows on the way.
fn times_factorial(sum: f64, unit: f64, n: f64) -> f64 {
    let (mut product, mut low, mut high) = (sum / unit, 1.0, n);
    while low <= high && product != 0.0 && product.is_finite() {
        // The factors from both ends, such that the product stays near 1.
        if product.abs() > 1.0 {
            product *= low / unit;
            low += 1.0;
        } else {
            product *= high / unit;
            high -= 1.0;
        }
    }
    product
}

/// Stirling's series: `ln gamma(x) - (x - 1/2) ln x + x - ln sqrt(2 pi)` for `x >= 8`.
pub(super) fn stirling(x: f64) -> f64 {
    let reciprocal = 1.0 / x;
    reciprocal * polynomial(reciprocal * reciprocal, STIRLING)
}

/// `ln |B(a, b)|` and the sign of `B(a, b)`.
fn beta_parts(a: f64, b: f64) -> (f64, f64) {
    let (p, q) = if a < b { (b, a) } else { (a, b) };
    if a.is_nan() || b.is_nan() {
        return (f64::NAN, 1.0);
    }
    if q > 0.0 {
        return (betaln_on_the_right(p, q), 1.0);
    }
    if q == q.floor() || p <= 0.0 && p == p.floor() {
        return (f64::INFINITY, 1.0);
    }
    (
        lgamma(p) + lgamma(q) - lgamma(p + q),
        gamma_sign(p) * gamma_sign(q) * gamma_sign(p + q),
    )
}

/// `ln B(p, q)` for `p >= q > 0`.
fn betaln_on_the_right(p: f64, q: f64) -> f64 {
    if p == f64::INFINITY {
        return f64::NEG_INFINITY;
    }
    if p < 10.0 {
        return lgamma(q) + (lgamma(p) - lgamma(p + q));
    }
    let quotient = q / p;
    let correction = stirling(p) - stirling(p + q);
    if q < 10.0 {
        let difference = -(p - 0.5) * quotient.ln_1p() - q * ((p + q).ln() - 1.0);
        return lgamma(q) + (difference + correction);
    }
    let of_smaller = (q - 0.5) * (quotient / (1.0 + quotient)).ln();
    of_smaller - p * quotient.ln_1p() - 0.5 * p.ln() + (HALF_LN_TWO_PI + stirling(q) + correction)
}

/// The derivative of order `n` of `digamma` at `a`, less that at `a + b`.
pub(super) fn polygamma_difference(a: f64, b: f64, n: f64) -> f64 {
    if n > 0.0 {
        let value = polygamma(a, n);
        if value.is_infinite() || b.abs() > 1e-3 * a {
            return if value.is_infinite() {
                value
            } else {
                value - polygamma(a + b, n)
            };
        }
        // Taylor's series, where the difference would cancel.
        let mut factor = -1.0;
        return (1..=6).fold(0.0, |sum, k| {
            let k = f64::from(k);
            factor *= b / k;
            sum + factor * polygamma(a, n + k)
        });
    }
    let (low, high) = (a.min(a + b), a.max(a + b));
    if high == f64::INFINITY || low < -100.0 || low < 10.0 && high > 1e4 && b < 0.0 {
        return digamma(a) - digamma(a + b);
    }
    let (mut a, mut sum) = (a, 0.0);
    while a.min(a + b) < 10.0 {
        sum -= b / a / (a + b);
        a += 1.0;
    }
    let logarithm = (b / a).ln_1p();
    if a > 1e100 {
        return -logarithm;
    }
    // The differences of powers of 1 / a² and 1 / (a + b)² have a common factor.
    let (end, square) = (a + b, 1.0 / (a * a));
    let ratio = (a / end) * (a / end);
    let (mut rest, mut power, mut terms) = (0.0, b / end * ((a + end) / end), 0.0);
    for coefficient in DIGAMMA {
        power *= square;
        terms = terms * ratio + 1.0;
        rest += coefficient * power * terms;
    }
    sum - logarithm - 0.5 * (b / a / end) - rest
}

/// The derivative of the beta function by its first argument.
pub(super) fn beta_slope(a: f64, b: f64) -> f64 {
    let end = a + b;
    if end <= 0.0 && end == end.round() && end.is_finite() {
        // The beta function is 0 here, and the derivative of 1 / gamma(x) is the factorial of -x or its opposite.
        let factorial = lgamma(1.0 - end).exp();
        let sign = if end % 2.0 == 0.0 { 1.0 } else { -1.0 };
        let (of_a, of_b) = (
            gamma_sign(a) * lgamma(a).exp(),
            gamma_sign(b) * lgamma(b).exp(),
        );
        return of_a * of_b * factorial * sign;
    }
    beta(a, b) * polygamma_difference(a, b, 0.0)
}

/// The sign of the gamma function, which changes at each pole.
fn gamma_sign(x: f64) -> f64 {
    if x < 0.0 && x.floor() % 2.0 != 0.0 {
        -1.0
    } else {
        1.0
    }
}

/// `ln |B(a, b)|`.
pub(super) fn betaln(a: f64, b: f64) -> f64 {
    beta_parts(a, b).0
}

/// `gamma(a) gamma(b) / gamma(a + b)`.
pub(super) fn beta(a: f64, b: f64) -> f64 {
    let (logarithm, sign) = beta_parts(a, b);
    sign * logarithm.exp()
}
