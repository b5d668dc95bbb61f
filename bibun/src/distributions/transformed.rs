//! Distributions of functions of values.

use bibun_array::{DType, Generator, Shape};

use super::bijectors::Bijector;
use super::parameters::last_axes;
use super::{Distribution, Reparameterized, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{all, where_};
use crate::variable::Variable;

/// The distribution of `f(x)` for a [`Bijector`] f and values x of another distribution.
///
/// Several bijectors in a row are a tuple or a `Vec`. A bijector of vectors takes the last axis of the batch
/// as that of its vectors if the values are numbers.
///
/// ```
/// use bibun::distributions::{bijectors::{Affine, Exp}, Distribution, LogNormal, Normal, Transformed};
/// let x = Transformed::new(Normal::new(0.0, 1.0), (Affine::new(1.0, 0.5), Exp));
/// let same = LogNormal::new(1.0, 0.5);
/// let difference = x.log_prob(3.0) - same.log_prob(3.0);
/// assert!(difference.item::<f64>().abs() < 1e-14);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Transformed<D, B> {
    /// The distribution of x.
    pub base: D,
    /// The function f.
    pub bijector: B,
}

impl<D: Distribution, B: Bijector> Transformed<D, B> {
    /// Creates the distribution of `bijector(x)` for x of `base`.
    ///
    /// # Panics
    /// Panics if the values of `base`, with all axes of the batch, have fewer axes than those of the
    /// bijector, it does not take their shape, or they are discrete.
    #[track_caller]
    pub fn new(base: D, bijector: B) -> Self {
        let _whole = composite("Transformed");
        let made = Self { base, bijector };
        let (shape, rank) = (made.base_shape(), made.bijector.event_rank());
        if shape.rank() < rank {
            let (name, own) = (made.base.name(), made.bijector.name());
            let what = format!(
                "the values of {name}, {shape}, have fewer axes than those of {own}, {rank}"
            );
            raise(Error::argument("Transformed", what));
        }
        let _shape = made.bijector.forward_shape(&shape);
        let support = made.base.support();
        if support.is_discrete() {
            let what = format!(
                "the values of {} are {support}, and have no density to stretch",
                made.base.name()
            );
            raise(Error::argument("Transformed", what));
        }
        made
    }

    /// The shape of a value of the base distribution with all of its batch.
    pub(super) fn base_shape(&self) -> Shape {
        Shape::from([&self.base.batch_shape()[..], &self.base.event_shape()[..]].concat())
    }

    /// The number of axes of a value.
    pub(super) fn rank(&self) -> usize {
        self.base
            .event_shape()
            .rank()
            .max(self.bijector.event_rank())
    }
}

impl<D: Distribution, B: Bijector> Distribution for Transformed<D, B> {
    fn name(&self) -> &'static str {
        "Transformed"
    }

    fn batch_shape(&self) -> Shape {
        let shape = self.bijector.forward_shape(&self.base_shape());
        Shape::new(&shape[..shape.rank() - self.rank()])
    }

    fn event_shape(&self) -> Shape {
        let shape = self.bijector.forward_shape(&self.base_shape());
        Shape::new(&shape[shape.rank() - self.rank()..])
    }

    fn dtype(&self) -> DType {
        self.base.dtype()
    }

    fn support(&self) -> Support {
        Support::Image(Box::new(self.base.support()))
    }

    fn contains(&self, y: &Variable) -> Variable {
        let inside = self.base.contains(&self.bijector.inverse(y));
        all(
            inside,
            last_axes(self.rank() - self.base.event_shape().rank()),
        )
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let shape = self.bijector.inverse_shape(shape);
        self.bijector.forward(&self.base.draw(&shape, generator))
    }

    fn log_density(&self, y: &Variable) -> Variable {
        let x = self.bijector.inverse(y);
        let log_density = self.base.log_density(&x);
        let of_base = log_density.sum(last_axes(self.rank() - self.base.event_shape().rank()));
        let log_slope = self.bijector.log_abs_det_jacobian(&x, y);
        of_base - log_slope.sum(last_axes(self.rank() - self.bijector.event_rank()))
    }

    fn cumulative(&self, y: &Variable) -> Option<Variable> {
        let increases = self.bijector.increases()?;
        let below = self.base.cumulative(&self.bijector.inverse(y))?;
        Some(where_(increases, &below, 1.0 - &below))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let increases = self.bijector.increases()?;
        let p = where_(increases, p, 1.0 - p);
        Some(self.bijector.forward(&self.base.quantile(&p)?))
    }
}

impl<D: Reparameterized, B: Bijector> Reparameterized for Transformed<D, B> {}
