//! Mixtures of distributions of one family.

use bibun_array::{DType, Generator, Shape};

use super::{Categorical, Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{any, broadcast_to, cast, expand_dims, logsumexp, one_hot, where_};
use crate::variable::Variable;

/// A mixture: a class is drawn, and then a value of the component of this class. The components are the last
/// axis of the batch shape of one distribution.
///
/// ```
/// use bibun::distributions::{Categorical, Distribution, MixtureSameFamily, Normal};
/// let classes = Categorical::from_probs([0.5, 0.5]);
/// let x = MixtureSameFamily::new(classes, Normal::new([-1.0, 1.0], 0.1));
/// assert_eq!(x.mean().item::<f64>(), 0.0);
/// assert!((x.variance().item::<f64>() - 1.01).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MixtureSameFamily<D> {
    /// The distribution of the class.
    pub mixture: Categorical,
    /// The distributions of the classes.
    pub components: D,
}

impl<D: Distribution> MixtureSameFamily<D> {
    /// Creates the mixture.
    ///
    /// # Panics
    /// Panics if the mixture's probabilities do not broadcast to the batch shape of the components, with as many
    /// classes as its last axis.
    #[track_caller]
    pub fn new(mixture: Categorical, components: D) -> Self {
        let _whole = composite("MixtureSameFamily");
        let (classes, own) = (mixture.log_probs.shape(), components.batch_shape());
        if !classes.broadcasts_to(&own) || classes.last() != own.last() {
            let what = format!(
                "the probabilities of the components have the shape {classes}, the components the batch \
                 shape {own}; the last axes must be equal, and the others broadcast to those of the \
                 components"
            );
            raise(Error::argument("MixtureSameFamily", what));
        }
        let mixture = Categorical {
            log_probs: broadcast_to(&mixture.log_probs, own),
        };
        Self {
            mixture,
            components,
        }
    }

    /// The axis of the components in their values, counted from the end.
    fn axis(&self) -> isize {
        -1 - self.components.event_shape().rank() as isize
    }

    /// `Σ p x` over the components, for `x` with the axis of the components.
    fn averaged(&self, x: &Variable) -> Variable {
        let mut p = self.mixture.probs();
        for _ in 0..self.components.event_shape().rank() {
            p = expand_dims(p, -1);
        }
        (p * x).sum(self.axis())
    }
}

impl<D: Distribution> Distribution for MixtureSameFamily<D> {
    fn name(&self) -> &'static str {
        "MixtureSameFamily"
    }

    fn batch_shape(&self) -> Shape {
        self.mixture.batch_shape()
    }

    fn event_shape(&self) -> Shape {
        self.components.event_shape()
    }

    fn dtype(&self) -> DType {
        self.components.dtype()
    }

    fn support(&self) -> Support {
        self.components.support()
    }

    /// A value of any of the components.
    fn contains(&self, x: &Variable) -> Variable {
        any(self.components.contains(&expand_dims(x, self.axis())), -1)
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let event = self.event_shape().rank();
        let outer = Shape::new(&shape[..shape.rank() - event]);
        let class = self.mixture.draw(&outer, generator);
        let count = super::categorical::count(&self.mixture.log_probs);
        let all = shape.inserted(outer.rank(), count);
        let x = self.components.draw(&all, generator);
        let mut is_chosen = one_hot(class, count, DType::Bool);
        for _ in 0..event {
            is_chosen = expand_dims(is_chosen, -1);
        }
        cast(where_(is_chosen, x, 0.0).sum(self.axis()), self.dtype())
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let x = expand_dims(x, self.axis());
        // A component without the value has no part in it.
        let inside = self.components.contains(&x);
        let parts = where_(inside, self.components.log_density(&x), f64::NEG_INFINITY);
        logsumexp(&self.mixture.log_probs + parts, -1)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let parts = self.components.cumulative(&expand_dims(x, -1))?;
        Some((self.mixture.probs() * parts).sum(-1))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        match statistic {
            Statistic::Mean => Some(self.averaged(&self.components.statistic(statistic)?)),
            Statistic::Variance => {
                let means = self.components.statistic(Statistic::Mean)?;
                let mean = expand_dims(self.averaged(&means), self.axis());
                let within = self.components.statistic(statistic)?;
                Some(self.averaged(&(within + (means - mean).square())))
            }
            Statistic::Mode | Statistic::Entropy => None,
        }
    }
}
