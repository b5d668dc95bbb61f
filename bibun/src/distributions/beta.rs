//! The beta distribution, and the Dirichlet distribution of vectors.

use bibun_array::{DType, Generator, Shape};

use super::parameters::{described_by, expect_positive, parameter, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{
    Operand, betainc, betaincinv, betaln, broadcast_to, clip, digamma, expand_dims, full_like,
    lgamma, log_softmax, logical_and, random_log_gamma, sigmoid, where_, xlog1py, xlogy,
    zeros_like,
};
use crate::variable::Variable;

parameterized! {
    /// The beta distribution, with the density `xᵅ⁻¹ (1 - x)ᵝ⁻¹ / B(α, β)` on `[0, 1]`.
    ///
    /// ```
    /// use bibun::distributions::{Beta, Distribution};
    /// assert_eq!(Beta::new(2.0, 2.0).log_prob(0.5).item::<f64>(), 1.5f64.ln());
    /// ```
    Beta {
        /// The power α of x, plus 1.
        concentration1: expect_positive,
        /// The power β of `1 - x`, plus 1.
        concentration0: expect_positive,
    }
}

/// The smallest and the largest number between 0 and 1, which samples keep away from: the density may be
/// infinite there.
fn ends(dtype: DType) -> [f64; 2] {
    match dtype == DType::F64 {
        true => [f64::MIN_POSITIVE, 1.0 - 0.5 * f64::EPSILON],
        false => [
            f64::from(f32::MIN_POSITIVE),
            f64::from(1.0 - 0.5 * f32::EPSILON),
        ],
    }
}

impl Distribution for Beta {
    described_by!(Beta, concentration1);

    fn support(&self) -> Support {
        let x = &self.concentration1;
        Support::Interval(zeros_like(x), full_like(x, 1.0))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let [a, b] = [&self.concentration1, &self.concentration0]
            .map(|x| random_log_gamma(broadcast_to(x, shape), generator));
        let [least, most] = ends(self.dtype());
        sigmoid(a - b).clip(least, most)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let (a, b) = (&self.concentration1, &self.concentration0);
        xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(betainc(
            &self.concentration1,
            &self.concentration0,
            clip(x, 0.0, 1.0),
        ))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(betaincinv(&self.concentration1, &self.concentration0, p))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (a, b) = (&self.concentration1, &self.concentration0);
        let total = a + b;
        Some(match statistic {
            Statistic::Mean => a / total,
            Statistic::Variance => a * b / (total.square() * (&total + 1.0)),
            Statistic::Mode => {
                // Below, both ends or all values are modes, or one end.
                let inner = logical_and(a.greater(1.0), b.greater(1.0));
                let divisor = where_(&inner, &total - 2.0, 1.0);
                let end = where_(
                    a.equal(b),
                    f64::NAN,
                    where_(a.greater(b), 1.0, zeros_like(a)),
                );
                where_(inner, (a - 1.0) / divisor, end)
            }
            Statistic::Entropy => {
                betaln(a, b) - (a - 1.0) * digamma(a) - (b - 1.0) * digamma(b)
                    + (&total - 2.0) * digamma(&total)
            }
        })
    }
}

impl Reparameterized for Beta {}

/// The Dirichlet distribution of vectors on the simplex, with the density `Π xᵢ^(αᵢ - 1) / B(α)`.
///
/// ```
/// use bibun::distributions::{Dirichlet, Distribution};
/// let x = Dirichlet::new([1.0, 1.0, 2.0]);
/// assert_eq!(x.mean().to_vec::<f64>(), [0.25, 0.25, 0.5]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Dirichlet {
    /// The powers α of the components, plus 1, along the last axis.
    pub concentration: Variable,
}

impl Dirichlet {
    /// Creates the distribution from its concentrations `[.., d]`.
    ///
    /// # Panics
    /// Panics if the concentrations are a number or no components, or one is not positive.
    #[track_caller]
    pub fn new(concentration: impl Into<Operand>) -> Self {
        let _whole = composite("Dirichlet");
        let concentration = parameter("Dirichlet", concentration.into());
        expect_positive("Dirichlet", "concentration", &concentration);
        if concentration.shape().last().is_none_or(|&d| d == 0) {
            let shape = concentration.shape();
            let what = format!(
                "concentration has the shape {shape}; its last axis must have the components"
            );
            raise(Error::argument("Dirichlet", what));
        }
        Self { concentration }
    }

    /// The logarithm of the factor `B(α)`.
    pub(super) fn log_normalizer(&self) -> Variable {
        lgamma(&self.concentration).sum(-1) - lgamma(self.concentration.sum(-1))
    }
}

impl Distribution for Dirichlet {
    fn name(&self) -> &'static str {
        "Dirichlet"
    }

    fn batch_shape(&self) -> Shape {
        let shape = self.concentration.shape();
        shape.removed(shape.rank() - 1)
    }

    fn event_shape(&self) -> Shape {
        let shape = self.concentration.shape();
        Shape::new(&shape[shape.rank() - 1..])
    }

    fn dtype(&self) -> DType {
        self.concentration.dtype()
    }

    fn support(&self) -> Support {
        Support::Simplex
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let logs = random_log_gamma(broadcast_to(&self.concentration, shape), generator);
        let [least, _] = ends(self.dtype());
        log_softmax(logs, -1).exp().clip(least, None)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        xlogy(&self.concentration - 1.0, x).sum(-1) - self.log_normalizer()
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let a = &self.concentration;
        let total = expand_dims(a.sum(-1), -1);
        let mean = a / &total;
        Some(match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => &mean * (1.0 - &mean) / (total + 1.0),
            Statistic::Mode => {
                let inner = expand_dims(a.greater(1.0).all(-1), -1);
                let size = *a.shape().last()? as f64;
                let divisor = where_(&inner, total - size, 1.0);
                where_(inner, (a - 1.0) / divisor, f64::NAN)
            }
            Statistic::Entropy => {
                let (total, size) = (a.sum(-1), *a.shape().last()? as f64);
                self.log_normalizer() + (&total - size) * digamma(&total)
                    - ((a - 1.0) * digamma(a)).sum(-1)
            }
        })
    }
}

impl Reparameterized for Dirichlet {}
