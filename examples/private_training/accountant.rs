//! How much privacy noisy training spends.
//!
//! A step takes every example with the same probability, adds up the gradients of those it has, each
//! of norm at most C, and adds normal noise of standard deviation σC: the sampled Gaussian mechanism.
//! Neighbours are data sets of which one has one example more.
//!
//! The Rényi divergence of order α between the results of a step on neighbours is, for whole α, at
//! most
//!
//! ```text
//! 1/(α-1) · ln Σₖ C(α, k) (1-q)^(α-k) q^k exp((k² - k) / 2σ²),    k = 0 .. α
//! ```
//!
//! (Mironov, Talwar, Zhang, "Rényi differential privacy of the sampled Gaussian mechanism",
//! arXiv:1908.10530, 2019, section 3.3). Divergences of steps add up. Those of order α then say that
//! training is (ε, δ)-private with
//!
//! ```text
//! ε = divergence + ln((α-1)/α) - (ln δ + ln α) / (α-1)
//! ```
//!
//! (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", arXiv:2004.00010,
//! 2020, proposition 12 of version 4), whatever α; the least ε is what is said.

use std::ops::RangeInclusive;

/// The orders that are tried. Real ones between them could say a little less.
const ORDERS: RangeInclusive<u32> = 2..=512;

/// What steps of one kind spend.
pub(crate) struct Accountant {
    /// The divergences of one step of all [`ORDERS`].
    divergences: Vec<f64>,
}

impl Accountant {
    /// Of steps that take each example with probability `sampling_rate` and add noise whose standard
    /// deviation is `noise` times the norm to which gradients are clipped.
    pub(crate) fn new(sampling_rate: f64, noise: f64) -> Self {
        assert!((0.0..=1.0).contains(&sampling_rate) && noise > 0.0);
        let divergence = |order| divergence(sampling_rate, noise, order);
        Self {
            divergences: ORDERS.map(divergence).collect(),
        }
    }

    /// The ε such that so many steps are (ε, δ)-private.
    pub(crate) fn epsilon(&self, steps: usize, delta: f64) -> f64 {
        self.least(steps, |order, divergence| {
            let rest = (delta.ln() + order.ln()) / (order - 1.0);
            divergence + (-1.0 / order).ln_1p() - rest
        })
    }

    /// The least ε over all orders, which is never below 0.
    fn least(&self, steps: usize, epsilon: impl Fn(f64, f64) -> f64) -> f64 {
        let epsilons = ORDERS
            .zip(&self.divergences)
            .map(|(order, divergence)| epsilon(order.into(), steps as f64 * divergence));
        epsilons.fold(f64::INFINITY, f64::min).max(0.0)
    }
}

/// The divergence of one step. Terms are as large as e^(α²/2σ²), so only their logarithms are made.
fn divergence(q: f64, noise: f64, order: u32) -> f64 {
    let alpha = f64::from(order);
    if q == 1.0 {
        return alpha / (2.0 * noise * noise);
    }
    let mut logarithms = Vec::with_capacity(order as usize + 1);
    let mut choices = 0.0f64;
    for k in 0..=order {
        let k = f64::from(k);
        let taken = if k == 0.0 { 0.0 } else { k * q.ln() };
        let grown = (k * k - k) / (2.0 * noise * noise);
        logarithms.push(choices + (alpha - k) * (-q).ln_1p() + taken + grown);
        choices += (alpha - k).ln() - (k + 1.0).ln();
    }
    // Rounding can leave less than nothing.
    (log_sum_exp(&logarithms) / (alpha - 1.0)).max(0.0)
}

fn log_sum_exp(logarithms: &[f64]) -> f64 {
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logarithms.iter().map(|x| (x - largest).exp()).sum();
    largest + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::{Accountant, divergence};

    /// The older, looser way from divergences to ε with which published values were computed:
    /// Mironov, "Rényi differential privacy", arXiv:1702.07476, 2017, proposition 3.
    fn loose_epsilon(accountant: &Accountant, steps: usize, delta: f64) -> f64 {
        accountant.least(steps, |order, divergence| {
            divergence - delta.ln() / (order - 1.0)
        })
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance,
            "{found} is not {expected}"
        );
    }

    #[test]
    fn published_values_are_found() {
        // Abadi et al., "Deep learning with differential privacy", arXiv:1607.00133, 2016.
        let abadi = Accountant::new(0.01, 4.0);
        close(loose_epsilon(&abadi, 10_000, 1e-5), 1.26, 0.01);
        assert!(abadi.epsilon(10_000, 1e-5) < 1.26);
        // The tutorial of TensorFlow Privacy: 60 epochs of MNIST.
        let tutorial = Accountant::new(256.0 / 60_000.0, 1.1);
        let steps = 60 * 60_000 / 256;
        close(loose_epsilon(&tutorial, steps, 1e-5), 3.01, 0.01);
        assert!(tutorial.epsilon(steps, 1e-5) < 3.01);
    }

    #[test]
    fn divergences_are_the_expected_power() {
        // Of order α between the mixture (1-q) N(0, σ²) + q N(1, σ²) and N(0, σ²), by the sum over
        // small intervals.
        for (q, noise, order) in [(0.01, 1.1, 2), (0.2, 0.8, 5), (0.5, 3.0, 17), (0.9, 2.0, 8)] {
            let step = 1e-3;
            let power: f64 = (-60_000..120_000)
                .map(|i| {
                    let x = f64::from(i) * step;
                    let density = -x * x / (2.0 * noise * noise);
                    let ratio = 1.0 - q + q * ((2.0 * x - 1.0) / (2.0 * noise * noise)).exp();
                    (density + f64::from(order) * ratio.ln()).exp() * step
                })
                .sum();
            let power = power / (noise * (2.0 * std::f64::consts::PI).sqrt());
            let expected = power.ln() / (f64::from(order) - 1.0);
            close(divergence(q, noise, order), expected, 1e-9);
        }
    }

    #[test]
    fn the_ends_are_right() {
        assert_eq!(divergence(0.0, 1.0, 7), 0.0);
        assert_eq!(divergence(1.0, 2.0, 8), 1.0);
        close(divergence(1.0 - 1e-12, 2.0, 8), 1.0, 1e-9);
        let accountant = Accountant::new(0.01, 1.0);
        assert!(divergence(0.01, 0.3, 512).is_finite());
        assert_eq!(accountant.epsilon(0, 1.0 - 1e-9), 0.0);
        assert!(accountant.epsilon(10, 1e-5) < accountant.epsilon(20, 1e-5));
        assert!(accountant.epsilon(10, 1e-5) < accountant.epsilon(10, 1e-6));
    }
}
