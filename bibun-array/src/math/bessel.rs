//! Bessel functions of integer order: `J`, `Y`, the modified `I` and `K`, and those scaled by an exponential with
//! their derivatives.
//!
//! Method: `I` by its series of positive terms, `J` by its recurrence downwards, whose sum is known (Miller's
//! algorithm), and `Y` of the first two orders by Neumann's series of the same `J`; all by Hankel's asymptotic
//! series where that has as many digits. `K` by the trapezoidal rule for an integral of positive terms.
//! Bounds: relative error 1e-14; for `J` and `Y`, relative to their envelope.
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", chapter 9.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, LN_2, TAU};

use super::Float;

/// From which number on Hankel's series is used.
fn far(n: f64) -> f64 {
    25.0 + n * n
}

/// Hankel's coefficients `(4 n² - 1) (4 n² - 9) .. / (8^k k!)`, divided by powers of `x`, up to the smallest.
fn hankel(n: f64, x: f64) -> impl Iterator<Item = f64> {
    let mut term = 1.0f64;
    (1..200).map_while(move |k| {
        let k = f64::from(k);
        let value = term;
        let odd = 2.0 * k - 1.0;
        term *= (4.0 * n * n - odd * odd) / (8.0 * k * x);
        (value != 0.0 && k < 2.0 * x + n).then_some(value)
    })
}

/// `I_n(x)` for `n >= 0` and `0 <= x`, by its series.
fn series(n: f64, x: f64) -> f64 {
    let half = 0.5 * x;
    let mut term = (1..=n as u32).fold(1.0, |product, k| product * (half / f64::from(k)));
    let mut sum = 0.0;
    let mut k = 1.0;
    loop {
        sum += term;
        term *= half / k * (half / (k + n));
        if term <= sum * 1e-17 {
            return sum;
        }
        k += 1.0;
    }
}

/// The sign of a function with the parity of `n` at `x`.
fn sign(n: f64, x: f64) -> f64 {
    if x < 0.0 && n % 2.0 != 0.0 { -1.0 } else { 1.0 }
}

/// `I_n(x)`.
pub(super) fn bessel_i(x: f64, n: f64) -> f64 {
    let (n, size) = (n.abs(), x.abs());
    if x.is_nan() || n.is_nan() {
        return f64::NAN;
    }
    if size < far(n) {
        return sign(n, x) * series(n, size);
    }
    // In two steps, because the exponential overflows first.
    let root = (0.5 * size).exp();
    sign(n, x) * (root * scaled(size, n, 0)) * root
}

/// The derivative of order `k` of `e^-x I_n(x)`, by Hankel's series.
fn scaled(x: f64, n: f64, k: u32) -> f64 {
    if x == f64::INFINITY {
        // For I it is multiplied by a larger infinity.
        return if k == 0 { f64::MIN_POSITIVE } else { 0.0 };
    }
    let terms = hankel(n, x).zip(0u32..).map(|(term, m)| {
        let power = f64::from(m) + 0.5;
        let parity = if m.is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..k).fold(parity * term, |term, r| -term * (power + f64::from(r)) / x)
    });
    terms.sum::<f64>() / (TAU.sqrt() * x.sqrt())
}

/// The derivative of order `k` of `e^-|x| I_n(x)`; at 0, the mean of those on both sides.
pub(super) fn bessel_ie(x: f64, n: f64, k: f64) -> f64 {
    let (n, size) = (n.abs(), x.abs());
    if x.is_nan() || n.is_nan() || k.is_nan() {
        return f64::NAN;
    }
    if x == 0.0 && (n + k) % 2.0 != 0.0 || size == f64::INFINITY {
        return 0.0;
    }
    let order = k as u32;
    if size >= far(n) {
        return sign(n + k, x) * scaled(size, n, order);
    }
    let choose = |n: u32, k: u32| {
        (0..k).fold(1.0, |product, i| {
            product * f64::from(n - i) / f64::from(i + 1)
        })
    };
    // By the rule of Leibniz, from the derivatives of I, which are sums of its neighbours.
    let derivative = |j: u32| {
        let terms = (0..=j).map(|i| {
            let order = n - f64::from(j) + 2.0 * f64::from(i);
            choose(j, i) * series(order.abs(), size)
        });
        terms.sum::<f64>() * 0.5f64.powi(j as i32)
    };
    let terms = (0..=order).map(|j| {
        let parity = if (order - j).is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        parity * choose(order, j) * derivative(j)
    });
    sign(n + k, x) * (-size).exp() * terms.sum::<f64>()
}

/// `J_n(x)`.
pub(super) fn bessel_j(x: f64, n: f64) -> f64 {
    if x.is_nan() || n.is_nan() {
        return f64::NAN;
    }
    let size = x.abs();
    // Both changes of sign are odd ones of odd orders.
    let sign = sign(n, x) * sign(n, n);
    let n = n.abs();
    if size == f64::INFINITY {
        return 0.0;
    }
    if size >= far(n) {
        return sign * oscillating(n, size)[0];
    }
    if size < 1.0 {
        let square = 0.25 * size * size;
        let mut term = (1..=n as u32).fold(1.0, |product, k| product * (0.5 * size / f64::from(k)));
        let mut sum = 0.0;
        for k in 1..20 {
            let k = f64::from(k);
            sum += term;
            term *= -square / (k * (k + n));
        }
        return sign * sum;
    }
    let mut found = 0.0;
    let sum = downwards(n, size, |k, value| {
        if k == n {
            found = value;
        }
    });
    sign * found / sum
}

/// Visits the orders from one down to 0 where `J` has died out, with the same multiple of each `J_k(x)`, and returns
/// that multiple of 1. For `x` that is much smaller than 1 the multiples would overflow.
fn downwards(n: f64, x: f64, mut visit: impl FnMut(f64, f64)) -> f64 {
    let start = n.max(x);
    let mut k = 2.0 * ((start + 20.0 + (40.0 * start).sqrt()) / 2.0).floor();
    let (mut above, mut value) = (0.0, 1e-300);
    let mut sum = 0.0;
    loop {
        visit(k, value);
        if k == 0.0 {
            return sum + value;
        }
        if k % 2.0 == 0.0 {
            sum += 2.0 * value;
        }
        (above, value) = (value, 2.0 * k / x * value - above);
        k -= 1.0;
    }
}

/// `Y_n(x)`.
pub(super) fn bessel_y(x: f64, n: f64) -> f64 {
    if x.is_nan() || n.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    let sign = sign(n, n);
    let n = n.abs();
    if x == 0.0 {
        return sign * f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    if x >= far(n) {
        return sign * oscillating(n, x)[1];
    }
    let (mut before, mut value) = if x >= far(1.0) {
        (oscillating(0.0, x)[1], oscillating(1.0, x)[1])
    } else {
        first_two(x)
    };
    if n == 0.0 {
        return before;
    }
    // Upwards it grows, so errors do not.
    let mut k = 1.0;
    while k < n && value.is_finite() {
        (before, value) = (value, 2.0 * k / x * value - before);
        k += 1.0;
    }
    sign * value
}

/// `Y_0(x)` and `Y_1(x)` by Neumann's series `2/π (ln(x/2) + γ) J₀ - 4/π Σ (-1)ᵏ J₂ₖ / k` and its derivative.
fn first_two(x: f64) -> (f64, f64) {
    /// Euler's constant.
    const GAMMA: f64 = 0.577_215_664_901_532_9;
    let logarithm = Float::ln(x) + (GAMMA - LN_2);
    if x < 0.1 {
        // The terms up to x⁸, by powers: A & S 9.1.11.
        let square = 0.25 * x * x;
        let (mut zero, mut one) = (0.0, 0.0);
        let (mut term, mut harmonic) = (1.0, 0.0);
        for k in 0..8 {
            let k = f64::from(k);
            let next = harmonic + 1.0 / (k + 1.0);
            zero += term * (logarithm - harmonic);
            one += term / (k + 1.0) * (2.0 * logarithm - harmonic - next);
            harmonic = next;
            term *= -square / ((k + 1.0) * (k + 1.0));
        }
        let half = 0.5 * x;
        return (FRAC_2_PI * zero, 0.5 * FRAC_2_PI * (half * one - 2.0 / x));
    }
    let (mut zero, mut one) = (0.0, 0.0);
    let (mut of_zero, mut of_one) = (0.0, 0.0);
    let mut above = 0.0;
    let sum = downwards(1.0, x, |k, value| {
        let half = (k / 2.0).floor();
        let parity = if half % 2.0 == 0.0 { 1.0 } else { -1.0 };
        match k {
            0.0 => of_zero = value,
            _ if k % 2.0 == 0.0 => {
                zero += parity * value / half;
                // The derivative of J₂ₖ has its neighbours.
                one -= parity * above / half;
            }
            _ => {}
        }
        if k % 2.0 == 1.0 {
            // Of the even order above.
            let order = half + 1.0;
            one -= parity * value / order;
            above = value;
        }
        if k == 1.0 {
            of_one = value;
        }
    });
    (
        FRAC_2_PI * (logarithm * of_zero - 2.0 * zero) / sum,
        FRAC_2_PI * (logarithm * of_one - of_zero / x + one) / sum,
    )
}

/// `K_n(x)`.
pub(super) fn bessel_k(x: f64, n: f64) -> f64 {
    let root = (-0.5 * x).exp();
    root * (root * bessel_ke(x, n, 0.0))
}

/// The derivative of order `k` of `e^x K_n(x)`, which is `(-1)ᵏ ∫₀^∞ (cosh t - 1)ᵏ e^(-x (cosh t - 1)) cosh n t dt`.
pub(super) fn bessel_ke(x: f64, n: f64, k: f64) -> f64 {
    if x.is_nan() || n.is_nan() || k.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    let sign = if k % 2.0 == 0.0 { 1.0 } else { -1.0 };
    if x == 0.0 {
        return sign * f64::INFINITY;
    }
    if x == f64::INFINITY {
        return sign * 0.0;
    }
    let n = n.abs();
    // Powers of two, so that all t and n t are exact. The error of the rule is that of a Gaussian of variance
    // 1 / x, or where x is small of the strip in which the integrand is regular.
    let step = 0.125 * (-(0.5 * x.max(1.0).log2()).ceil()).exp2();
    let (mut sum, mut largest) = (0.0f64, 0.0f64);
    let mut i = 0.0;
    loop {
        let t = i * step;
        let half = Float::sinh(0.5 * t);
        let stretch = 2.0 * half * half;
        // In this order, because the square may underflow.
        let exponent = 2.0 * half * (half * x);
        let damping = (-exponent).exp();
        // In two steps, because the growth overflows first.
        let growth = (0.5 * n * t).exp();
        let power = match (k, stretch) {
            (0.0, _) => 1.0,
            _ => stretch.powi(k as i32),
        };
        let term = damping * growth * power * growth * (0.5 + 0.5 * (-2.0 * n * t).exp());
        let term = if damping == 0.0 { 0.0 } else { term };
        sum += if i == 0.0 { 0.5 * term } else { term };
        largest = largest.max(term);
        if damping == 0.0 || term < largest * 1e-19 && exponent > n + k {
            return sign * sum * step;
        }
        i += 1.0;
    }
}

/// `J_n(x)` and `Y_n(x)` by Hankel's series.
fn oscillating(n: f64, x: f64) -> [f64; 2] {
    let (mut even, mut odd) = (0.0, 0.0);
    for (k, term) in hankel(n, x).enumerate() {
        let term = if k % 4 < 2 { term } else { -term };
        if k % 2 == 0 {
            even += term;
        } else {
            odd += term;
        }
    }
    let (s, c) = (Float::sin(x), Float::cos(x));
    // Of x - pi / 4, and then of n right angles less.
    let (c, s) = ((c + s) * FRAC_1_SQRT_2, (s - c) * FRAC_1_SQRT_2);
    let (c, s) = match (n % 4.0) as u32 {
        0 => (c, s),
        1 => (s, -c),
        2 => (-c, -s),
        _ => (-s, c),
    };
    let amplitude = (FRAC_2_PI / x).sqrt();
    [
        amplitude * (even * c - odd * s),
        amplitude * (even * s + odd * c),
    ]
}
