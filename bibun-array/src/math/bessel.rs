//! Bessel functions of integer order: `J`, the modified `I`, and `I` scaled by an exponential with its
//! derivatives.
//!
//! Method: `I` by its series of positive terms, `J` by its recurrence downwards, whose sum is known (Miller's
//! algorithm); both by Hankel's asymptotic series where that has as many digits.
//! Bounds: relative error 1e-14; for `J`, relative to its envelope.
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", chapter 9.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, TAU};

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
        return sign * oscillating(n, size);
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
    // Downwards from where the function has died out.
    let start = n.max(size);
    let mut k = 2.0 * ((start + 20.0 + (40.0 * start).sqrt()) / 2.0).floor();
    let (mut above, mut value) = (0.0, 1e-300);
    let (mut sum, mut found) = (0.0, 0.0);
    while k > 0.0 {
        if k == n {
            found = value;
        }
        if k % 2.0 == 0.0 {
            sum += 2.0 * value;
        }
        (above, value) = (value, 2.0 * k / size * value - above);
        k -= 1.0;
    }
    let found = if n == 0.0 { value } else { found };
    sign * found / (sum + value)
}

/// `J_n(x)` by Hankel's series.
fn oscillating(n: f64, x: f64) -> f64 {
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
    (FRAC_2_PI / x).sqrt() * (even * c - odd * s)
}
