//! Probability distributions: sampling with and without gradients, densities, moments, divergences.
//!
//! A [`Distribution`] is a struct of Variables and a [`Tree`], so transformations take it whole: its
//! gradient by [`grad`](crate::grad) is a distribution whose parameters are the derivatives.
//!
//! ```
//! use bibun::array::Generator;
//! use bibun::distributions::{Distribution, Normal, Reparameterized, kl_divergence};
//! use bibun::value_and_grad;
//!
//! // The evidence bound of a normal posterior, by one draw per step.
//! let generator = &mut Generator::new(0);
//! let prior = Normal::new(0.0, 1.0);
//! let posterior = Normal::new(0.5, 2.0);
//! let loss = |q: &Normal| {
//!     let z = q.rsample([1000], generator);
//!     kl_divergence(q, &prior) - Normal::new(&z, 0.5).log_prob(1.3).mean(..)
//! };
//! let (loss, gradient) = value_and_grad(loss, &posterior);
//! assert!(loss.item::<f64>() > 0.0 && gradient.scale.item::<f64>() > 0.0);
//! ```
//!
//! # Shapes
//!
//! The parameters of a distribution broadcast to its [batch shape](Distribution::batch_shape): one
//! independent distribution for each element. A single value has the
//! [event shape](Distribution::event_shape): `[]` for numbers, `[d]` for vectors.
//! [`sample`](Distribution::sample) adds axes in front, [`log_prob`](Distribution::log_prob) takes values
//! that broadcast and removes the axes of the event. [`Independent`] counts axes of the batch as axes of the
//! event.
//!
//! # Which distribution has what
//!
//! All have `sample`, `log_prob`, and, where it exists, `mean` and `variance` (those of a
//! [`Transformed`] distribution have no closed form).
//!
//! | | `rsample` | `cdf` | `icdf` | `entropy` |
//! |---|---|---|---|---|
//! | `Normal`, `LogNormal`, `Exponential`, `Laplace`, `Cauchy`, `Uniform`, `Gumbel`, `Weibull`, `Gamma`, `Beta`, `StudentT` | yes | yes | yes | yes |
//! | `Dirichlet`, `MultivariateNormal` | yes | | | yes |
//! | `VonMises`, `Bernoulli`, `Geometric`, `Poisson`, `Categorical` | | yes | yes | yes |
//! | `Binomial` | | yes | yes | yes, where the number of trials can be read |
//! | `OneHotCategorical`, `Multinomial` | | | | yes |
//! | `MixtureSameFamily` | | as the components | | |
//! | `Independent` | as the base | | | as the base |
//! | `Transformed` | as the base | as the base | as the base | |
//!
//! `rsample` is a method of [`Reparameterized`], so a missing one is an error of the compiler. The others
//! panic with an error that names the distribution.
//!
//! # Values out of range
//!
//! Parameters are checked when a distribution is made, and values by `log_prob`; the error names the caller's
//! line. In a function that is being traced ([`compile`](crate::compile)) there are no values to check:
//! there, `log_prob` is -∞ outside of the support (its derivatives may be NaN there).
//!
//! The names are those of `torch.distributions`.

pub mod bijectors;

mod bernoulli;
mod beta;
mod binomial;
mod categorical;
mod cauchy;
mod chance;
mod exponential;
mod gamma;
mod geometric;
mod gumbel;
mod independent;
mod kl;
mod laplace;
mod mixture;
mod multinomial;
mod multivariate_normal;
mod normal;
mod parameters;
mod poisson;
mod quantiles;
mod student_t;
mod support;
mod transformed;
mod uniform;
mod von_mises;
mod weibull;

pub use bernoulli::Bernoulli;
pub use beta::{Beta, Dirichlet};
pub use binomial::Binomial;
pub use categorical::{Categorical, OneHotCategorical};
pub use cauchy::Cauchy;
pub use exponential::Exponential;
pub use gamma::Gamma;
pub use geometric::Geometric;
pub use gumbel::Gumbel;
pub use independent::Independent;
pub use kl::{KlDivergence, kl_divergence};
pub use laplace::Laplace;
pub use mixture::MixtureSameFamily;
pub use multinomial::Multinomial;
pub use multivariate_normal::MultivariateNormal;
pub use normal::{LogNormal, Normal};
pub use poisson::Poisson;
pub use student_t::StudentT;
pub use support::Support;
pub use transformed::Transformed;
pub use uniform::Uniform;
pub use von_mises::VonMises;
pub use weibull::Weibull;

use bibun_array::{DType, Generator, Shape};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::condition::exception;
use crate::functions::{Operand, cast, greater_equal, less_equal, logical_and, sqrt, where_};
use crate::tree::Tree;
use crate::variable::Variable;

/// A number that describes a distribution, for [`Distribution::statistic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Statistic {
    /// The expected value; NaN where it does not exist.
    Mean,
    /// The expected square of the distance from the mean; infinite or NaN where it does not exist.
    Variance,
    /// A value of largest probability or density.
    Mode,
    /// The expected `-log p`, in nats; of continuous distributions, the differential entropy.
    Entropy,
}

impl Statistic {
    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Variance => "variance",
            Self::Mode => "mode",
            Self::Entropy => "entropy",
        }
    }
}

/// A probability distribution, or one for each element of its batch shape.
///
/// To implement one, write the methods without a body (and `cumulative`, `quantile`, `statistic` where there
/// are closed forms) in functions of Variables: gradients, `vmap` and the like follow from these.
pub trait Distribution: Tree {
    /// Returns the name, for errors.
    fn name(&self) -> &'static str;

    /// Returns the common shape of the parameters: that of the independent distributions.
    fn batch_shape(&self) -> Shape;

    /// Returns the shape of a single value. Defaults to `[]`.
    fn event_shape(&self) -> Shape {
        Shape::new(&[])
    }

    /// Returns the dtype of the parameters, which is that of samples (except of
    /// [`Categorical`], whose samples are i64) and of densities. Parameters of bf16 and f16 become f32.
    fn dtype(&self) -> DType;

    /// Returns the set of the values that have a probability or a density.
    fn support(&self) -> Support;

    /// Returns which values are in the support, as bools without the axes of single values.
    /// [`log_prob`](Self::log_prob) calls this. Defaults to what [`support`](Self::support) says.
    fn contains(&self, x: &Variable) -> Variable {
        self.support().contains(x)
    }

    /// Draws an array of `shape`, which is that of the batch and of a single value, with further axes in
    /// front. [`sample`](Self::sample) calls this.
    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable;

    /// Computes the logarithm of the probability or density of values in the support.
    /// [`log_prob`](Self::log_prob) calls this.
    fn log_density(&self, x: &Variable) -> Variable;

    /// Computes the probability of values up to `x`, for any number x, if there is a closed form.
    /// [`cdf`](Self::cdf) calls this.
    fn cumulative(&self, _x: &Variable) -> Option<Variable> {
        None
    }

    /// Computes the value up to which the probability is `p`, if there is a closed form.
    /// [`icdf`](Self::icdf) calls this.
    fn quantile(&self, _p: &Variable) -> Option<Variable> {
        None
    }

    /// Computes a statistic, if there is a closed form. [`mean`](Self::mean) and the like call this.
    fn statistic(&self, _statistic: Statistic) -> Option<Variable> {
        None
    }

    /// Draws values without gradients to the parameters.
    ///
    /// Shapes: `shape`, then the batch shape, then the event shape.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::distributions::{Categorical, Distribution};
    /// let dice = Categorical::from_probs([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]);
    /// let thrown = dice.sample([4], &mut Generator::new(0));
    /// assert_eq!(thrown.shape(), [4, 2]);
    /// ```
    #[track_caller]
    fn sample(&self, shape: impl Into<Shape>, generator: &mut Generator) -> Variable
    where
        Self: Sized,
    {
        let _whole = composite("sample");
        self.draw(&of_samples(self, shape.into()), generator)
            .detach()
    }

    /// Computes the logarithm of the probability, or of the density, of values.
    ///
    /// Shapes: x that broadcasts with the batch shape and the event shape → their common shape without the
    /// axes of the event.
    /// Types: x floats, integers or bool.
    /// Gradient: to the parameters, and to x for continuous distributions.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or a value is not in the [`support`](Self::support). In a
    /// function that is being traced, the result is -∞ there.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Exponential};
    /// let waiting = Exponential::new(2.0);
    /// assert!((waiting.log_prob(1.0).item::<f64>() - (2f64.ln() - 2.0)).abs() < 1e-15);
    /// assert!(bibun::attempt(|| waiting.log_prob(-1.0)).is_err());
    /// ```
    #[track_caller]
    fn log_prob(&self, x: impl Into<Operand>) -> Variable
    where
        Self: Sized,
    {
        let _whole = composite("log_prob");
        let x = value(self, "log_prob", x.into());
        let inside = self.contains(&x);
        if let Some(found) = exception(&x, &inside) {
            let (name, support) = (self.name(), self.support());
            let what = format!("a value of {name} is {found}; it must be {support}");
            raise(Error::argument("log_prob", what));
        }
        // Nothing is out of the support here, except in a function that is being traced. It has to be the same
        // function otherwise, to the last bit of its gradients.
        where_(inside, self.log_density(&x), f64::NEG_INFINITY)
    }

    /// Computes the probability of values up to `x`.
    ///
    /// Shapes: x that broadcasts with the batch shape → their common shape.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or there is no closed form.
    #[track_caller]
    fn cdf(&self, x: impl Into<Operand>) -> Variable
    where
        Self: Sized,
    {
        let _whole = composite("cdf");
        let x = value(self, "cdf", x.into());
        known(self.name(), "cdf", self.cumulative(&x))
    }

    /// Computes the value up to which the probability is `p`: the inverse of [`cdf`](Self::cdf); of a discrete
    /// distribution, the smallest value up to which it is `p` or more. NaN for numbers that are no probability.
    ///
    /// Shapes: p that broadcasts with the batch shape → their common shape.
    /// Gradient: to p and to the parameters; 0 of discrete distributions.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or there is no closed form.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Laplace};
    /// assert_eq!(Laplace::new(3.0, 1.0).icdf(0.5).item::<f64>(), 3.0);
    /// ```
    #[track_caller]
    fn icdf(&self, p: impl Into<Operand>) -> Variable
    where
        Self: Sized,
    {
        let _whole = composite("icdf");
        let p = value(self, "icdf", p.into());
        let value = known(self.name(), "icdf", self.quantile(&p));
        let is_probability = logical_and(greater_equal(&p, 0.0), less_equal(&p, 1.0));
        where_(is_probability, value, f64::NAN)
    }

    /// Computes the expected value; NaN where it does not exist.
    ///
    /// # Panics
    /// Panics if there is no closed form.
    #[track_caller]
    fn mean(&self) -> Variable {
        of_statistic(self.name(), Statistic::Mean, || {
            self.statistic(Statistic::Mean)
        })
    }

    /// Computes the variance; of vectors, that of each component.
    ///
    /// # Panics
    /// Panics if there is no closed form.
    #[track_caller]
    fn variance(&self) -> Variable {
        of_statistic(self.name(), Statistic::Variance, || {
            self.statistic(Statistic::Variance)
        })
    }

    /// Computes the standard deviation, the root of the variance.
    ///
    /// # Panics
    /// Panics if there is no closed form.
    #[track_caller]
    fn stddev(&self) -> Variable {
        let _whole = composite("stddev");
        sqrt(self.variance())
    }

    /// Computes a value of largest probability or density.
    ///
    /// # Panics
    /// Panics if there is no closed form.
    #[track_caller]
    fn mode(&self) -> Variable {
        of_statistic(self.name(), Statistic::Mode, || {
            self.statistic(Statistic::Mode)
        })
    }

    /// Computes the entropy in nats: the expected `-log p`.
    ///
    /// # Panics
    /// Panics if there is no closed form.
    ///
    /// ```
    /// use bibun::distributions::{Bernoulli, Distribution};
    /// let coin = Bernoulli::from_probs(0.5);
    /// assert!((coin.entropy().item::<f64>() - 2f64.ln()).abs() < 1e-15);
    /// ```
    #[track_caller]
    fn entropy(&self) -> Variable {
        of_statistic(self.name(), Statistic::Entropy, || {
            self.statistic(Statistic::Entropy)
        })
    }
}

/// A distribution whose samples are differentiable functions of its parameters.
///
/// The gradient of an expectation is then the expectation of a gradient. Source: D. P. Kingma, M. Welling,
/// "Auto-encoding variational Bayes", 2014; for distributions that are drawn from by rejection, M. Figurnov,
/// S. Mohamed, A. Mnih, "Implicit reparameterization gradients", 2018.
pub trait Reparameterized: Distribution {
    /// Draws values with gradients to the parameters.
    ///
    /// Shapes: `shape`, then the batch shape, then the event shape.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::distributions::{Normal, Reparameterized};
    /// use bibun::{grad, Variable};
    /// let square = |scale: &Variable| {
    ///     Normal::new(0.0, scale).rsample([100_000], &mut Generator::new(0)).square().mean(..)
    /// };
    /// let slope = grad(square, &Variable::constant(3.0)).item::<f64>();
    /// assert!((slope - 6.0).abs() < 0.1); // the mean square is the square of the scale
    /// ```
    #[track_caller]
    fn rsample(&self, shape: impl Into<Shape>, generator: &mut Generator) -> Variable
    where
        Self: Sized,
    {
        let _whole = composite("rsample");
        self.draw(&of_samples(self, shape.into()), generator)
    }
}

/// Returns the shape of samples.
#[track_caller]
fn of_samples(distribution: &impl Distribution, shape: Shape) -> Shape {
    let parts = [
        shape,
        distribution.batch_shape(),
        distribution.event_shape(),
    ];
    let sizes: Vec<usize> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    Shape::from(sizes).addressable("sample")
}

/// Returns values as Variables of a distribution's dtype, after a check of their shape.
#[track_caller]
fn value(distribution: &impl Distribution, function: &'static str, x: Operand) -> Variable {
    let x = x.beside(distribution.dtype());
    let x = match x.dtype().is_float() {
        true => x,
        false => cast(x, distribution.dtype()),
    };
    let (event, batch) = (distribution.event_shape(), distribution.batch_shape());
    let whole = Shape::from([&batch[..], &event[..]].concat());
    let shape = x.shape();
    let ends_alike = shape.rank() >= event.rank() && shape.ends_with(&event);
    if !ends_alike || shape.broadcast(&whole).is_none() {
        let must = "the value must broadcast with the distribution's shape (that of the batch, then that of \
                    a single value), and be whole along the axes of a single value";
        let own = Spec::new(whole, distribution.dtype());
        mismatch(
            function,
            &[("x", &x.spec()), (distribution.name(), &own)],
            must,
        );
    }
    x
}

#[track_caller]
fn of_statistic(
    name: &'static str,
    statistic: Statistic,
    compute: impl FnOnce() -> Option<Variable>,
) -> Variable {
    let _whole = composite(statistic.name());
    known(name, statistic.name(), compute())
}

#[track_caller]
fn known(name: &'static str, what: &'static str, result: Option<Variable>) -> Variable {
    result.unwrap_or_else(|| {
        let what_it_is = format!("there is no closed form of this for the distribution {name}");
        raise(Error::argument(what, what_it_is))
    })
}

#[cfg(test)]
mod densities;
#[cfg(test)]
pub(crate) use densities::samples;
