//! Kullback–Leibler divergences in closed form.

mod between;
mod moments;

use crate::call::composite;
use crate::variable::Variable;

/// A distribution p with a closed form of the divergence `KL(p ‖ q)` to distributions q.
pub trait KlDivergence<Q> {
    /// Computes `KL(p ‖ q)` for each element of the batches. [`kl_divergence`] calls this.
    fn kl_to(&self, q: &Q) -> Variable;
}

/// Computes the Kullback–Leibler divergence `KL(p ‖ q)`, the expected `log p(x) - log q(x)` of values of p,
/// in nats.
///
/// Pairs of distributions without a closed form are errors of the compiler. Those with one are each with its
/// own kind (without `StudentT` and mixtures; `Independent` and `Transformed` as their bases, with the same bijector), and
///
/// | from | to |
/// |---|---|
/// | `Beta`, `Exponential`, `Gamma`, `Gumbel`, `Laplace`, `LogNormal`, `StudentT`, `Uniform`, `Weibull` | `Normal` |
/// | `Beta`, `Gamma`, `LogNormal`, `Uniform`, `Weibull` | `Exponential` |
/// | `Beta`, `Exponential`, `LogNormal`, `Uniform`, `Weibull` | `Gamma` |
/// | `Beta`, `Exponential`, `Gamma`, `Uniform`, `Weibull` | `LogNormal` |
/// | `Beta`, `Exponential`, `Gamma`, `LogNormal`, `Uniform` | `Weibull` |
/// | `Uniform` | `Beta` |
/// | `Exponential`, `Gamma`, `Laplace`, `Normal`, `Uniform` | `Gumbel` |
/// | `Exponential`, `Normal` | `Laplace` |
/// | `Bernoulli` | `Geometric`, `Poisson` |
///
/// It is infinite where q gives no density to values of p.
///
/// Shapes: batch shapes that broadcast → their common shape.
/// Gradient: to the parameters of both.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::distributions::{Normal, kl_divergence};
/// let kl = kl_divergence(&Normal::new(1.0, 1.0), &Normal::new(0.0, 1.0));
/// assert_eq!(kl.item::<f64>(), 0.5);
/// ```
#[track_caller]
pub fn kl_divergence<P: KlDivergence<Q>, Q>(p: &P, q: &Q) -> Variable {
    let _whole = composite("kl_divergence");
    p.kl_to(q)
}
