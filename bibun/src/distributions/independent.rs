//! Independent values as one value.

use bibun_array::{DType, Generator, Shape};

use super::parameters::last_axes;
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::all;
use crate::variable::Variable;

/// A distribution whose last axes of the batch are axes of a single value: its density is the product along
/// them.
///
/// ```
/// use bibun::distributions::{Distribution, Independent, Normal};
/// let x = Independent::new(Normal::new([0.0, 1.0], 1.0), 1);
/// assert_eq!((x.batch_shape().rank(), x.event_shape()), (0, [2].into()));
/// assert_eq!(x.log_prob([0.0, 1.0]).shape(), []);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Independent<D> {
    /// The distribution of the parts.
    pub base: D,
    /// The number of axes of the batch that belong to a single value.
    pub axes: usize,
}

impl<D: Distribution> Independent<D> {
    /// Creates the distribution from that of the parts and a number of axes.
    ///
    /// # Panics
    /// Panics if the batch has fewer axes.
    #[track_caller]
    pub fn new(base: D, axes: usize) -> Self {
        let _whole = composite("Independent");
        if axes > base.batch_shape().rank() {
            let (name, shape) = (base.name(), base.batch_shape());
            let what = format!(
                "{axes} axes of the batch shape {shape} of {name} cannot be those of a value"
            );
            raise(Error::argument("Independent", what));
        }
        Self { base, axes }
    }

    /// The sum over the axes that belong to a value.
    fn total(&self, x: Variable) -> Variable {
        x.sum(last_axes(self.axes))
    }
}

impl<D: Distribution> Distribution for Independent<D> {
    fn name(&self) -> &'static str {
        self.base.name()
    }

    fn batch_shape(&self) -> Shape {
        let shape = self.base.batch_shape();
        Shape::new(&shape[..shape.rank() - self.axes])
    }

    fn event_shape(&self) -> Shape {
        let batch = self.base.batch_shape();
        let own = &batch[batch.rank() - self.axes..];
        Shape::from([own, &self.base.event_shape()[..]].concat())
    }

    fn dtype(&self) -> DType {
        self.base.dtype()
    }

    fn support(&self) -> Support {
        self.base.support()
    }

    fn contains(&self, x: &Variable) -> Variable {
        all(self.base.contains(x), last_axes(self.axes))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        self.base.draw(shape, generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        self.total(self.base.log_density(x))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let of_parts = self.base.statistic(statistic)?;
        Some(match statistic {
            Statistic::Entropy => self.total(of_parts),
            Statistic::Mean | Statistic::Variance | Statistic::Mode => of_parts,
        })
    }
}

impl<D: Reparameterized> Reparameterized for Independent<D> {}
