//! Divergences between two distributions of one kind.

use super::KlDivergence;
use crate::distributions::bijectors::Bijector;
use crate::distributions::parameters::{EULER, last_axes, times};
use crate::distributions::{
    Bernoulli, Beta, Binomial, Categorical, Cauchy, Dirichlet, Distribution, Exponential, Gamma,
    Geometric, Gumbel, Independent, Laplace, LogNormal, Multinomial, MultivariateNormal, Normal,
    OneHotCategorical, Poisson, Transformed, Uniform, VonMises, Weibull,
};
use crate::error::{Error, mismatch, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Triangle, all, betaln, broadcast_to, digamma, equal, exp, expand_dims, greater_equal,
    less_equal, lgamma, logical_and, triangular_solve, where_, xlogy,
};
use crate::tree::Visitor;
use crate::variable::Variable;

impl KlDivergence<Self> for Normal {
    fn kl_to(&self, q: &Self) -> Variable {
        let ratio = (&self.scale / &q.scale).square();
        let shift = ((&self.loc - &q.loc) / &q.scale).square();
        0.5 * (&ratio - 1.0 - ratio.log() + shift)
    }
}

impl KlDivergence<Self> for LogNormal {
    fn kl_to(&self, q: &Self) -> Variable {
        self.of_logarithm().kl_to(&q.of_logarithm())
    }
}

impl KlDivergence<Self> for MultivariateNormal {
    fn kl_to(&self, q: &Self) -> Variable {
        let size = self.dimension();
        if size != q.dimension() {
            let what = format!(
                "vectors of {size} and of {} numbers; they must be equal",
                q.dimension()
            );
            raise(Error::argument("kl_divergence", what));
        }
        let spread = triangular_solve(&q.scale_tril, &self.scale_tril, Triangle::Lower);
        let difference = expand_dims(&q.loc - &self.loc, -1);
        let shift = triangular_solve(&q.scale_tril, difference, Triangle::Lower);
        let squares = spread.square().sum([-2, -1]) + shift.square().sum([-2, -1]);
        0.5 * (squares - size as f64) + q.half_log_det() - self.half_log_det()
    }
}

impl KlDivergence<Self> for Laplace {
    fn kl_to(&self, q: &Self) -> Variable {
        let distance = (&self.loc - &q.loc).abs();
        let near = &self.scale * (-(&distance / &self.scale)).exp();
        (&q.scale / &self.scale).log() + (near + distance) / &q.scale - 1.0
    }
}

/// Source: F. Chyzak, F. Nielsen, "A closed-form formula for the Kullback–Leibler divergence between Cauchy
/// distributions", 2019.
impl KlDivergence<Self> for Cauchy {
    fn kl_to(&self, q: &Self) -> Variable {
        let numerator = (&self.scale + &q.scale).square() + (&self.loc - &q.loc).square();
        (numerator / (4.0 * &self.scale * &q.scale)).log()
    }
}

impl KlDivergence<Self> for Uniform {
    fn kl_to(&self, q: &Self) -> Variable {
        let is_inside = logical_and(
            greater_equal(&self.low, &q.low),
            less_equal(&self.high, &q.high),
        );
        let ratio = ((&q.high - &q.low) / (&self.high - &self.low)).log();
        where_(is_inside, ratio, f64::INFINITY)
    }
}

impl KlDivergence<Self> for Exponential {
    fn kl_to(&self, q: &Self) -> Variable {
        let ratio = &q.rate / &self.rate;
        &ratio - 1.0 - ratio.log()
    }
}

impl KlDivergence<Self> for Gamma {
    fn kl_to(&self, q: &Self) -> Variable {
        let (a, b) = (&self.concentration, &q.concentration);
        (a - b) * digamma(a) - lgamma(a)
            + lgamma(b)
            + b * (&self.rate / &q.rate).log()
            + a * (&q.rate / &self.rate - 1.0)
    }
}

impl KlDivergence<Self> for Beta {
    fn kl_to(&self, q: &Self) -> Variable {
        let (a, b) = (&self.concentration1, &self.concentration0);
        let (c, d) = (&q.concentration1, &q.concentration0);
        betaln(c, d) - betaln(a, b)
            + (a - c) * digamma(a)
            + (b - d) * digamma(b)
            + (c - a + d - b) * digamma(a + b)
    }
}

impl KlDivergence<Self> for Dirichlet {
    fn kl_to(&self, q: &Self) -> Variable {
        let (a, b) = (&self.concentration, &q.concentration);
        let total = expand_dims(a.sum(-1), -1);
        q.log_normalizer() - self.log_normalizer()
            + ((a - b) * (digamma(a) - digamma(total))).sum(-1)
    }
}

impl KlDivergence<Self> for Gumbel {
    fn kl_to(&self, q: &Self) -> Variable {
        let ratio = &self.scale / &q.scale;
        let shift = (&self.loc - &q.loc) / &q.scale;
        // The expected exp(-z) of q, of which E x and the entropy are known.
        let moment = (lgamma(1.0 + &ratio) - &shift).exp();
        shift + EULER * &ratio + moment - ratio.log() - (1.0 + EULER)
    }
}

/// Source: C. Bauckhage, "Computing the Kullback–Leibler divergence between two Weibull distributions",
/// 2013.
impl KlDivergence<Self> for Weibull {
    fn kl_to(&self, q: &Self) -> Variable {
        let (k, l) = (&self.concentration, &q.concentration);
        let log_ratio = (&self.scale / &q.scale).log();
        let moment = (l * &log_ratio + lgamma(l / k + 1.0)).exp();
        (k / l).log() - l * log_ratio + (l / k - 1.0) * EULER + moment - 1.0
    }
}

impl KlDivergence<Self> for VonMises {
    fn kl_to(&self, q: &Self) -> Variable {
        let cosine = self.mean_cosine();
        let along = &self.concentration - &q.concentration * (&self.loc - &q.loc).cos();
        cosine * along + q.log_normalizer() - self.log_normalizer()
    }
}

impl KlDivergence<Self> for Bernoulli {
    fn kl_to(&self, q: &Self) -> Variable {
        self.chance().kl_to(q.chance())
    }
}

impl KlDivergence<Self> for Geometric {
    fn kl_to(&self, q: &Self) -> Variable {
        self.chance().kl_to(q.chance()) / self.probs()
    }
}

impl KlDivergence<Self> for Binomial {
    /// Infinite where there may be more successes than `q` has trials, and NaN where it has more trials than
    /// `self`, for which there is no closed form.
    fn kl_to(&self, q: &Self) -> Variable {
        let (own, other) = (&self.total_count, &q.total_count);
        let missing = where_(own.greater(other), f64::INFINITY, f64::NAN);
        where_(
            own.equal(other),
            own * self.chance().kl_to(q.chance()),
            missing,
        )
    }
}

impl KlDivergence<Self> for Poisson {
    fn kl_to(&self, q: &Self) -> Variable {
        xlogy(&self.rate, &self.rate) - xlogy(&self.rate, &q.rate) - (&self.rate - &q.rate)
    }
}

/// `Σ p (log p - log q)` over classes.
fn of_classes(p: &Variable, q: &Variable) -> Variable {
    let (p_spec, q_spec) = (p.spec(), q.spec());
    if p_spec.shape.last() != q_spec.shape.last() {
        let must = "the last axes, of classes, must be equal";
        mismatch("kl_divergence", &[("p", &p_spec), ("q", &q_spec)], must);
    }
    times(&exp(p), &(p - q)).sum(-1)
}

impl KlDivergence<Self> for Categorical {
    fn kl_to(&self, q: &Self) -> Variable {
        of_classes(&self.log_probs, &q.log_probs)
    }
}

impl KlDivergence<Self> for OneHotCategorical {
    fn kl_to(&self, q: &Self) -> Variable {
        of_classes(&self.log_probs, &q.log_probs)
    }
}

impl KlDivergence<Self> for Multinomial {
    fn kl_to(&self, q: &Self) -> Variable {
        if self.total_count != q.total_count {
            let (own, other) = (self.total_count, q.total_count);
            let what = format!("{own} and {other} draws; the closed form is for equal numbers");
            raise(Error::argument("kl_divergence", what));
        }
        self.total_count as f64 * of_classes(&self.log_probs, &q.log_probs)
    }
}

impl<P: KlDivergence<Q>, Q> KlDivergence<Independent<Q>> for Independent<P> {
    fn kl_to(&self, q: &Independent<Q>) -> Variable {
        if self.axes != q.axes {
            let (own, other) = (self.axes, q.axes);
            let what = format!("values of {own} and {other} axes of the batch; they must be equal");
            raise(Error::argument("kl_divergence", what));
        }
        self.base.kl_to(&q.base).sum(last_axes(self.axes))
    }
}

/// Returns whether bijectors have the same parameters, after a check wherever their elements are there.
#[track_caller]
fn are_same<B: Bijector>(own: &B, other: &B) -> Variable {
    let parameters = |bijector: &B| {
        let mut all = Vec::new();
        let mut see = |name: &str, x: &Variable, _| all.push((name.to_owned(), x.clone()));
        bijector.visit(&mut Visitor::new(&mut see));
        all
    };
    let (own, other) = (parameters(own), parameters(other));
    let kinds = |all: &[(String, Variable)]| -> Vec<_> {
        all.iter()
            .map(|(name, x)| (name.clone(), x.spec()))
            .collect()
    };
    if kinds(&own) != kinds(&other) {
        let what = "the bijectors have other parameters; they must be the same";
        raise(Error::argument("kl_divergence", what));
    }
    let mut is_same = Variable::constant(bibun_array::Array::from(true));
    for ((name, own), (_, other)) in own.iter().zip(&other) {
        let holds = equal(own, other);
        let what = format!("the parameter {name} of a bijector");
        let must = "that of the other one, which must be the same";
        expect_everywhere("kl_divergence", &what, own, &holds, must);
        is_same = logical_and(is_same, all(holds, ..));
    }
    is_same
}

/// A bijector of both changes nothing: it stretches both densities alike. For other bijectors there is no closed form; in a
/// function that is being traced, they make it NaN.
impl<P, Q, B> KlDivergence<Transformed<Q, B>> for Transformed<P, B>
where
    P: Distribution + KlDivergence<Q>,
    Q: Distribution,
    B: Bijector,
{
    fn kl_to(&self, q: &Transformed<Q, B>) -> Variable {
        let is_same = are_same(&self.bijector, &q.bijector);
        let of_base = self.base.kl_to(&q.base);
        // Parameters of the bijector may make the batch larger, by values of their own.
        let whole = self.bijector.forward_shape(&self.base_shape());
        let values = self.bijector.inverse_shape(&whole);
        let own = values.rank() - self.base.event_shape().rank();
        let shape = of_base.shape().broadcast(&values[..own].into());
        let of_base = shape.map_or(of_base.clone(), |shape| broadcast_to(of_base, &shape));
        let sum = of_base.sum(last_axes(self.rank() - self.base.event_shape().rank()));
        where_(is_same, sum, f64::NAN)
    }
}
