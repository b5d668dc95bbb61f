//! Divergences to distributions whose logarithm is a sum of few terms, by expected values of these terms.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::KlDivergence;
use crate::distributions::parameters::{EULER, HALF_LOG_TWO_PI};
use crate::distributions::{
    Bernoulli, Beta, Distribution, Exponential, Gamma, Geometric, Gumbel, Laplace, LogNormal,
    Normal, Poisson, Statistic, StudentT, Uniform, Weibull,
};
use crate::functions::{
    betaln, digamma, entr, erf, full_like, greater_equal, less_equal, lgamma, logical_and,
    polygamma, polygamma_difference, where_,
};
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

/// A distribution of positive numbers whose logarithm has a known mean and variance, and whose powers have a known
/// mean, too.
trait OfLogarithm: Distribution {
    fn log_mean(&self) -> Variable;
    fn log_variance(&self) -> Variable;
    /// The logarithm of the mean of a positive power.
    fn log_moment(&self, power: &Variable) -> Variable;
}

impl OfLogarithm for Beta {
    fn log_mean(&self) -> Variable {
        polygamma_difference(0, &self.concentration1, &self.concentration0)
    }
    fn log_variance(&self) -> Variable {
        polygamma_difference(1, &self.concentration1, &self.concentration0)
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        let (a, b) = (&self.concentration1, &self.concentration0);
        betaln(a + power, b) - betaln(a, b)
    }
}

impl OfLogarithm for Exponential {
    fn log_mean(&self) -> Variable {
        -self.rate.log() - EULER
    }
    fn log_variance(&self) -> Variable {
        full_like(&self.rate, PI * PI / 6.0)
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        lgamma(power + 1.0) - power * self.rate.log()
    }
}

impl OfLogarithm for Gamma {
    fn log_mean(&self) -> Variable {
        digamma(&self.concentration) - self.rate.log()
    }
    fn log_variance(&self) -> Variable {
        polygamma(1, &self.concentration)
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        lgamma(power) - betaln(&self.concentration, power) - power * self.rate.log()
    }
}

impl OfLogarithm for LogNormal {
    fn log_mean(&self) -> Variable {
        self.loc.clone()
    }
    fn log_variance(&self) -> Variable {
        self.scale.square()
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        power * (&self.loc + 0.5 * power * self.scale.square())
    }
}

impl OfLogarithm for Weibull {
    fn log_mean(&self) -> Variable {
        self.scale.log() - EULER / &self.concentration
    }
    fn log_variance(&self) -> Variable {
        PI * PI / 6.0 / self.concentration.square()
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        lgamma(power / &self.concentration + 1.0) + power * self.scale.log()
    }
}

/// For intervals from 0 on.
impl OfLogarithm for Uniform {
    fn log_mean(&self) -> Variable {
        let (low, high, length) = (&self.low, &self.high, &self.high - &self.low);
        let (is_away, ratio) = self.relative_length();
        // Low log(high / low) / length, of which at 0 only the slope is left, which is infinite.
        let start = where_(&is_away, 0.0, low);
        let at_start = (entr(&start) + start * high.log()) / length;
        high.log() + where_(is_away, ratio.log1p() / ratio, at_start) - 1.0
    }
    fn log_variance(&self) -> Variable {
        let (is_away, ratio) = self.relative_length();
        let square = (ratio.log1p() / &ratio).square() * (&ratio + 1.0);
        where_(is_away, 1.0 - square, 1.0)
    }
    fn log_moment(&self, power: &Variable) -> Variable {
        let above = power + 1.0;
        let (is_away, ratio) = self.relative_length();
        let part = (-(-&above * ratio.log1p()).expm1()).log();
        let length = &self.high - &self.low;
        &above * self.high.log() + where_(is_away, part, 0.0) - (above * length).log()
    }
}

impl Uniform {
    /// Whether the interval does not begin at 0, and its length in units of its beginning.
    fn relative_length(&self) -> (Variable, Variable) {
        let is_away = self.low.greater(0.0);
        let ratio = (&self.high - &self.low) / where_(&is_away, &self.low, 1.0);
        (is_away, ratio)
    }

    /// The divergence to a distribution of numbers from 0 up to `most`, computed for an interval between them. It is
    /// infinite for others.
    fn kl_inside(&self, most: f64, kl: impl FnOnce(&Self) -> Variable) -> Variable {
        let is_inside = logical_and(greater_equal(&self.low, 0.0), less_equal(&self.high, most));
        let held = Self {
            low: where_(&is_inside, &self.low, 0.0),
            high: where_(&is_inside, &self.high, 1.0),
        };
        where_(is_inside, kl(&held), f64::INFINITY)
    }
}

fn to_exponential(p: &impl OfLogarithm, q: &Exponential) -> Variable {
    let cross = &q.rate * known(p, Statistic::Mean) - q.rate.log();
    cross - known(p, Statistic::Entropy)
}

fn to_gamma(p: &impl OfLogarithm, q: &Gamma) -> Variable {
    let (a, b) = (&q.concentration, &q.rate);
    let cross = lgamma(a) - a * b.log() - (a - 1.0) * p.log_mean() + b * known(p, Statistic::Mean);
    cross - known(p, Statistic::Entropy)
}

fn to_log_normal(p: &impl OfLogarithm, q: &LogNormal) -> Variable {
    let log_mean = p.log_mean();
    let of_logarithm = normal(&q.of_logarithm(), &log_mean, &p.log_variance());
    of_logarithm + log_mean - known(p, Statistic::Entropy)
}

fn to_weibull(p: &impl OfLogarithm, q: &Weibull) -> Variable {
    let (k, log_scale) = (&q.concentration, q.scale.log());
    let moment = (p.log_moment(k) - k * &log_scale).exp();
    let cross = k * log_scale - k.log() - (k - 1.0) * p.log_mean() + moment;
    cross - known(p, Statistic::Entropy)
}

macro_rules! by_logarithm {
    ($($Q:ident by $to:ident: $($P:ident)+;)+) => {$(
        $(
            impl KlDivergence<$Q> for $P {
                fn kl_to(&self, q: &$Q) -> Variable {
                    $to(self, q)
                }
            }
        )+
        impl KlDivergence<$Q> for Uniform {
            /// Infinite if the interval begins below 0.
            fn kl_to(&self, q: &$Q) -> Variable {
                self.kl_inside(f64::INFINITY, |p| $to(p, q))
            }
        }
    )+};
}
by_logarithm! {
    Exponential by to_exponential: Beta Gamma LogNormal Weibull;
    Gamma by to_gamma: Beta Exponential LogNormal Weibull;
    LogNormal by to_log_normal: Beta Exponential Gamma Weibull;
    Weibull by to_weibull: Beta Exponential Gamma LogNormal;
}

impl KlDivergence<Beta> for Uniform {
    /// Infinite if the interval is not between 0 and 1.
    fn kl_to(&self, q: &Beta) -> Variable {
        self.kl_inside(1.0, |p| {
            let (a, b) = (&q.concentration1, &q.concentration0);
            let mirrored = Self {
                low: 1.0 - &p.high,
                high: 1.0 - &p.low,
            };
            let powers = (a - 1.0) * p.log_mean() + (b - 1.0) * mirrored.log_mean();
            betaln(a, b) - powers - known(p, Statistic::Entropy)
        })
    }
}

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

impl KlDivergence<Laplace> for Exponential {
    fn kl_to(&self, q: &Laplace) -> Variable {
        // The mean distance from a point, in units of the mean: values are on both sides of one above 0.
        let point = &self.rate * &q.loc;
        let is_above = point.greater(0.0);
        let tail = (-where_(&is_above, &point, 0.0)).exp();
        let distance = where_(is_above, &point - 1.0 + 2.0 * tail, 1.0 - &point);
        let cross = (2.0 * &q.scale).log() + distance / (&self.rate * &q.scale);
        cross - known(self, Statistic::Entropy)
    }
}

impl KlDivergence<Geometric> for Bernoulli {
    fn kl_to(&self, q: &Geometric) -> Variable {
        // The logarithm of q is linear in the value.
        -q.log_density(&self.probs()) - known(self, Statistic::Entropy)
    }
}

impl KlDivergence<Poisson> for Bernoulli {
    fn kl_to(&self, q: &Poisson) -> Variable {
        let p = self.probs();
        &q.rate - &p * q.rate.log() - known(self, Statistic::Entropy)
    }
}
