//! The von Mises distribution of angles.

use std::f64::consts::{PI, TAU};

use bibun_array::{Array, Generator, Shape};

use super::parameters::{described_by, parameterized};
use super::quantiles::root;
use super::{Distribution, Statistic, Support};
use crate::functions::{
    broadcast_to, clip, full_like, i0e, i1e, logical_and, minimum, ndtri, random_von_mises,
    remainder, where_, zeros_like,
};
use crate::variable::Variable;

/// The number of points at which the density is integrated, with an error below `1e-14`.
const NODES: usize = 28;
/// The number of steps to a quantile. From the normal distribution's, most need five.
const STEPS: usize = 20;

/// The points between 0 and 1 and the weights that integrate polynomials up to the degree `2 count - 1`: the zeros of a
/// Legendre polynomial, by Newton's steps.
fn gauss_legendre(count: usize) -> (Vec<f64>, Vec<f64>) {
    let n = count as f64;
    let node = |i: usize| {
        let mut x = (PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..6 {
            let (mut before, mut value) = (1.0, x);
            for k in 1..count {
                let k = k as f64;
                (before, value) = (
                    value,
                    ((2.0 * k + 1.0) * x * value - k * before) / (k + 1.0),
                );
            }
            slope = n * (before - x * value) / (1.0 - x * x);
            x -= value / slope;
        }
        (0.5 + 0.5 * x, 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..count).map(node).unzip()
}

parameterized! {
    /// The von Mises distribution of angles in radians, with the density `exp(κ cos(x - μ)) / 2π I₀(κ)`.
    ///
    /// Samples are on `[-π, π)`; a density belongs to every angle. The variance is the circular one,
    /// `1 - I₁(κ) / I₀(κ)`. `cdf` and `icdf` are those on the turn around the mean direction, `[μ - π, μ + π]`, with an
    /// error below `1e-14` in f64.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, VonMises};
    /// let x = VonMises::new(0.0, 1.0);
    /// let turn = std::f64::consts::TAU;
    /// let (here, there) = (x.log_prob(0.5).item::<f64>(), x.log_prob(0.5 - turn).item::<f64>());
    /// assert!((here - there).abs() < 1e-12);
    /// ```
    VonMises {
        /// The mean direction μ, which is the mode, too.
        loc: expect_finite,
        /// The concentration κ; for large ones, `1/κ` is about the variance of a normal distribution.
        concentration: expect_positive,
    }
}

impl VonMises {
    /// The expected cosine of the angle from the mean direction.
    pub(super) fn mean_cosine(&self) -> Variable {
        i1e(&self.concentration) / i0e(&self.concentration)
    }

    /// The probability between the mean direction and an angle from -π to π beside it, negative on the left: the integral
    /// of the density by Gauss and Legendre, up to where nothing is left of it.
    fn half(&self, angle: &Variable) -> Variable {
        let k = &self.concentration;
        // exp(-2κ sin²(d/2)) = exp(-40)
        let end = 2.0 * minimum((20.0 / k).sqrt(), 1.0).detach().asin();
        let end = clip(angle, -&end, &end);
        let mut shape = vec![1; end.shape().rank() + 1];
        shape[0] = NODES;
        let along = |numbers: Vec<f64>| {
            let numbers = Array::from_vec(numbers, &shape[..]).cast(end.dtype());
            Variable::constant(numbers)
        };
        let (nodes, weights) = gauss_legendre(NODES);
        let half = (0.5 * &end * along(nodes)).sin();
        let density = (-2.0 * k * half.square()).exp();
        &end * (density * along(weights)).sum(0) / (TAU * i0e(k))
    }

    /// `log 2π I₀(κ)`
    pub(super) fn log_normalizer(&self) -> Variable {
        i0e(&self.concentration).log() + &self.concentration + TAU.ln()
    }
}

impl Distribution for VonMises {
    described_by!(VonMises, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let x = random_von_mises(broadcast_to(&self.concentration, shape), generator);
        remainder(x + &self.loc + PI, TAU) - PI
    }

    fn log_density(&self, x: &Variable) -> Variable {
        // κ (cos d - 1) = -2κ sin²(d/2), which loses nothing near the mean.
        let half = (0.5 * (x - &self.loc)).sin();
        let log_normalizer = i0e(&self.concentration).log() + TAU.ln();
        -2.0 * &self.concentration * half.square() - log_normalizer
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(0.5 + self.half(&clip(x - &self.loc, -PI, PI)))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let own = Self {
            loc: zeros_like(&self.loc),
            concentration: self.concentration.detach(),
        };
        let wanted = (p.detach() - 0.5).abs();
        // Newton's steps from that of the normal distribution; one that leaves what is known is replaced by halving.
        let uniform = TAU * &wanted;
        let normal = ndtri(0.5 + &wanted) / own.concentration.sqrt();
        let mut angle = minimum(normal, uniform);
        let mut low = zeros_like(&angle);
        let mut high = full_like(&angle, PI);
        for _ in 0..STEPS {
            let excess = own.half(&angle) - &wanted;
            let is_below = excess.less(0.0);
            low = where_(&is_below, &angle, low);
            high = where_(is_below, high, &angle);
            let next = &angle - excess / own.log_density(&angle).exp();
            let is_between = logical_and(next.greater_equal(&low), next.less_equal(&high));
            angle = where_(is_between, next, 0.5 * (&low + &high));
        }
        let shift = where_(p.less(0.5), -&angle, angle);
        root(self, &(&self.loc + shift), p)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => 1.0 - self.mean_cosine(),
            Statistic::Entropy => self.log_normalizer() - &self.concentration * self.mean_cosine(),
        })
    }
}
