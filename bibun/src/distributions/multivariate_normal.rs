//! The normal distribution of vectors.

use bibun_array::{DType, Generator, Shape};

use super::parameters::{HALF_LOG_TWO_PI, expect_finite, normals};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Triangle, broadcast_to, cast, diagonal, expand_dims, float_of, greater, is_finite, logical_and,
    matmul, squeeze, triangular_solve, tril,
};
use crate::variable::Variable;

/// The normal distribution of vectors, by its mean and the Cholesky factor L of its covariance `L Lᵀ`.
///
/// ```
/// use bibun::distributions::{Distribution, MultivariateNormal};
/// let x = MultivariateNormal::new([0.0, 0.0], [[1.0, 0.0], [0.5, 2.0]]);
/// assert_eq!(x.covariance().to_vec::<f64>(), [1.0, 0.5, 0.5, 4.25]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MultivariateNormal {
    /// The mean `[.., d]`.
    pub loc: Variable,
    /// The factor L `[.., d, d]`, a lower triangle with a positive diagonal.
    pub scale_tril: Variable,
}

impl MultivariateNormal {
    /// Creates the distribution from its mean `[.., d]` and the Cholesky factor `[.., d, d]` of its
    /// covariance, whose axes in front broadcast. What is above the diagonal counts as zero.
    ///
    /// # Panics
    /// Panics if the shapes do not fit, a number is not finite, or one on the diagonal is not positive.
    #[track_caller]
    pub fn new(loc: impl Into<Variable>, scale_tril: impl Into<Variable>) -> Self {
        const NAME: &str = "MultivariateNormal";
        let _whole = composite(NAME);
        let (loc, scale) = (loc.into(), scale_tril.into());
        let dtype = float_of(loc.dtype(), [&scale]).accumulator();
        let (loc, scale) = (cast(loc, dtype), cast(scale, dtype));
        let (means, factors) = (loc.shape(), scale.shape());
        let whole = match (&means[..], &factors[..]) {
            ([front @ .., d], [others @ .., rows, columns]) if d == rows && d == columns => {
                let front = Shape::new(front).broadcast(&Shape::new(others));
                front.map(|front| (front, *d))
            }
            _ => None,
        };
        let Some((front, d)) = whole else {
            let what = format!(
                "the mean has the shape {means} and the factor {factors}; they must be [.., d] and \
                 [.., d, d], with axes in front that broadcast"
            );
            raise(Error::argument(NAME, what))
        };
        expect_finite(NAME, "loc", &loc);
        let scale = tril(scale, 0);
        expect_finite(NAME, "scale_tril", &scale);
        let variances = diagonal(&scale, 0, [-2, -1]);
        let holds = logical_and(greater(&variances, 0.0), is_finite(&variances));
        let what = "the diagonal of scale_tril";
        expect_everywhere(NAME, what, &variances, &holds, "positive");
        Self {
            loc: broadcast_to(loc, [&front[..], &[d]].concat()),
            scale_tril: broadcast_to(scale, [&front[..], &[d, d]].concat()),
        }
    }

    /// Returns the number of numbers in a vector.
    pub fn dimension(&self) -> usize {
        *self.loc.shape().last().expect("it has been checked")
    }

    /// Computes the covariance `L Lᵀ`, `[.., d, d]`.
    #[track_caller]
    pub fn covariance(&self) -> Variable {
        let _whole = composite("covariance");
        matmul(&self.scale_tril, self.scale_tril.swapaxes(-1, -2))
    }

    /// The logarithm of the determinant of L.
    pub(super) fn half_log_det(&self) -> Variable {
        diagonal(&self.scale_tril, 0, [-2, -1]).log().sum(-1)
    }
}

impl Distribution for MultivariateNormal {
    fn name(&self) -> &'static str {
        "MultivariateNormal"
    }

    fn batch_shape(&self) -> Shape {
        let shape = self.loc.shape();
        shape.removed(shape.rank() - 1)
    }

    fn event_shape(&self) -> Shape {
        Shape::new(&[self.dimension()])
    }

    fn dtype(&self) -> DType {
        self.loc.dtype()
    }

    fn support(&self) -> Support {
        Support::Vectors
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let z = expand_dims(normals(&self.loc, shape, generator), -1);
        &self.loc + squeeze(matmul(&self.scale_tril, z), -1)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let z = triangular_solve(
            &self.scale_tril,
            expand_dims(x - &self.loc, -1),
            Triangle::Lower,
        );
        let log_factor = self.half_log_det() + self.dimension() as f64 * HALF_LOG_TWO_PI;
        -0.5 * z.square().sum([-2, -1]) - log_factor
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => self.scale_tril.square().sum(-1),
            Statistic::Entropy => {
                self.half_log_det() + self.dimension() as f64 * (0.5 + HALF_LOG_TWO_PI)
            }
        })
    }
}

impl Reparameterized for MultivariateNormal {}
