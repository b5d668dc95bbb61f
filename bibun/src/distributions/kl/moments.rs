//! Divergences to distributions whose logarithm is a sum of few terms, by expected values of these terms.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::KlDivergence;
use crate::distributions::parameters::{EULER, HALF_LOG_TWO_PI};
use crate::distributions::{
    Bernoulli, Beta, Distribution, Exponential, Gamma, Gumbel, Laplace, LogNormal, Normal, Poisson,
    Statistic, StudentT, Uniform, Weibull,
};
use crate::functions::{digamma, erf, full_like, lgamma, polygamma, where_};
use crate::variable::Variable;

/// A statistic that the distribution is known to have.
fn known(p: &impl Distribution, statistic: Statistic) -> Variable {
    p.statistic(statistic).expect("it has a closed form")
}

/// `-E log q` of a normal distribution, for numbers with this mean and variance.
fn normal(q: &Normal, mean: &Variable, variance: &Variable) -> Variable {
    let square = (variance + (mean - &q.loc).square()) / q.scale.square();
    0.5 * square + q.scale.log() + HALF_LOG_TWO_PI
}

macro_rules! to_normal {
    ($($P:ident)+) => {$(
        impl KlDivergence<Normal> for $P {
            fn kl_to(&self, q: &Normal) -> Variable {
                let (mean, variance) = (known(self, Statistic::Mean), known(self, Statistic::Variance));
                normal(q, &mean, &variance) - known(self, Statistic::Entropy)
            }
        }
    )+};
}
to_normal!(Beta Exponential Gamma Gumbel Laplace LogNormal StudentT Uniform Weibull);

/// A distribution of positive numbers whose logarithm has a known mean and variance.
trait OfLogarithm: Distribution {
    fn log_mean(&self) -> Variable;
    fn log_variance(&self) -> Variable;
}

impl OfLogarithm for Beta {
    fn log_mean(&self) -> Variable {
        digamma(&self.concentration1) - digamma(&self.concentration1 + &self.concentration0)
    }
    fn log_variance(&self) -> Variable {
        let total = &self.concentration1 + &self.concentration0;
        polygamma(1, &self.concentration1) - polygamma(1, total)
    }
}

impl OfLogarithm for Exponential {
    fn log_mean(&self) -> Variable {
        -self.rate.log() - EULER
    }
    fn log_variance(&self) -> Variable {
        full_like(&self.rate, PI * PI / 6.0)
    }
}

impl OfLogarithm for Gamma {
    fn log_mean(&self) -> Variable {
        digamma(&self.concentration) - self.rate.log()
    }
    fn log_variance(&self) -> Variable {
        polygamma(1, &self.concentration)
    }
}

impl OfLogarithm for LogNormal {
    fn log_mean(&self) -> Variable {
        self.loc.clone()
    }
    fn log_variance(&self) -> Variable {
        self.scale.square()
    }
}

impl OfLogarithm for Weibull {
    fn log_mean(&self) -> Variable {
        self.scale.log() - EULER / &self.concentration
    }
    fn log_variance(&self) -> Variable {
        PI * PI / 6.0 / self.concentration.square()
    }
}

macro_rules! to_exponential {
    ($($P:ident)+) => {$(
        impl KlDivergence<Exponential> for $P {
            fn kl_to(&self, q: &Exponential) -> Variable {
                let cross = &q.rate * known(self, Statistic::Mean) - q.rate.log();
                cross - known(self, Statistic::Entropy)
            }
        }
    )+};
}
to_exponential!(Beta Gamma LogNormal Weibull);

macro_rules! to_gamma {
    ($($P:ident)+) => {$(
        impl KlDivergence<Gamma> for $P {
            fn kl_to(&self, q: &Gamma) -> Variable {
                let (a, b) = (&q.concentration, &q.rate);
                let cross = lgamma(a) - a * b.log() - (a - 1.0) * self.log_mean()
                    + b * known(self, Statistic::Mean);
                cross - known(self, Statistic::Entropy)
            }
        }
    )+};
}
to_gamma!(Beta Exponential LogNormal Weibull);

macro_rules! to_log_normal {
    ($($P:ident)+) => {$(
        impl KlDivergence<LogNormal> for $P {
            fn kl_to(&self, q: &LogNormal) -> Variable {
                let log_mean = self.log_mean();
                let of_logarithm = normal(&q.of_logarithm(), &log_mean, &self.log_variance());
                of_logarithm + log_mean - known(self, Statistic::Entropy)
            }
        }
    )+};
}
to_log_normal!(Beta Exponential Gamma Weibull);

/// The divergence to a Gumbel distribution, by the logarithm of the expected `exp(-x / β)`.
fn to_gumbel(p: &impl Distribution, q: &Gumbel, log_moment: Variable) -> Variable {
    let z = (known(p, Statistic::Mean) - &q.loc) / &q.scale;
    let moment = (&q.loc / &q.scale + log_moment).exp();
    z + moment + q.scale.log() - known(p, Statistic::Entropy)
}

impl KlDivergence<Gumbel> for Normal {
    fn kl_to(&self, q: &Gumbel) -> Variable {
        let ratio = &self.scale / &q.scale;
        to_gumbel(self, q, 0.5 * ratio.square() - &self.loc / &q.scale)
    }
}

impl KlDivergence<Gumbel> for Exponential {
    fn kl_to(&self, q: &Gumbel) -> Variable {
        to_gumbel(self, q, -(&self.rate * &q.scale).reciprocal().log1p())
    }
}

impl KlDivergence<Gumbel> for Gamma {
    fn kl_to(&self, q: &Gumbel) -> Variable {
        let log = (&self.rate * &q.scale).reciprocal().log1p();
        to_gumbel(self, q, -(&self.concentration * log))
    }
}

impl KlDivergence<Gumbel> for Uniform {
    fn kl_to(&self, q: &Gumbel) -> Variable {
        let length = (&self.high - &self.low) / &q.scale;
        let log = (-(-&length).expm1()).log() - length.log();
        to_gumbel(self, q, log - &self.low / &q.scale)
    }
}

impl KlDivergence<Gumbel> for Laplace {
    /// Infinite if the scale of `self` is not below that of `q`.
    fn kl_to(&self, q: &Gumbel) -> Variable {
        let square = (&self.scale / &q.scale).square();
        let is_finite = square.less(1.0);
        let log = -(-where_(&is_finite, square, 0.0)).log1p() - &self.loc / &q.scale;
        where_(is_finite, to_gumbel(self, q, log), f64::INFINITY)
    }
}

impl KlDivergence<Laplace> for Normal {
    fn kl_to(&self, q: &Laplace) -> Variable {
        let shift = &self.loc - &q.loc;
        let z = &shift / &self.scale;
        // The mean of the absolute value of a normal number.
        let near = (2.0 / PI).sqrt() * &self.scale * (-0.5 * z.square()).exp();
        let distance = near + shift * erf(z * FRAC_1_SQRT_2);
        (2.0 * &q.scale).log() + distance / &q.scale - known(self, Statistic::Entropy)
    }
}

impl KlDivergence<Poisson> for Bernoulli {
    fn kl_to(&self, q: &Poisson) -> Variable {
        let p = self.probs();
        &q.rate - &p * q.rate.log() - known(self, Statistic::Entropy)
    }
}
