//! Weights as a length times a direction.

use super::{Chain, Conv, Linear, Link};
use crate::functions::{norm, reshape};
use crate::variable::Variable;
use bibun_array::{Shape, keep_dims};

/// A link whose weight is given by a length and a direction, `w = g v / ‖v‖`, for each of its
/// outputs: the norm is over all elements of `v` that belong to one output.
///
/// The wrapped link's own weight is `v`. The parameters are `g` and those of the link: `g`,
/// `link/weight`, `link/bias`. At first `w` equals the link's original weight.
///
/// Shapes: as the link, with g `[o]`. An output whose `v` is zero has no direction: its weights are
/// NaN. Cloning shares the parameters.
///
/// Source: Salimans, Kingma, "Weight Normalization", NeurIPS 2016.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Linear, Link, WeightNorm};
/// use bibun::Variable;
/// let linear = Linear::new(3, 2, &mut Generator::new(0));
/// let layer = WeightNorm::new(linear.clone());
/// let x = Variable::constant([[1.0f32, 2.0, 3.0]]);
/// let (y, plain) = (layer.forward(&x).to_vec::<f32>(), linear.forward(&x).to_vec::<f32>());
/// assert!((y[0] - plain[0]).abs() < 1e-5 && (y[1] - plain[1]).abs() < 1e-5);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct WeightNorm<L> {
    /// The lengths, `[o]`.
    pub g: Variable,
    /// The link, with the directions `v` as its weight.
    pub link: L,
}

impl<L: Weighted> WeightNorm<L> {
    /// Wraps a link, splitting its weight into length and direction; it shares the other parameters
    /// with `link`.
    pub fn new(link: L) -> Self {
        let v = link.weight();
        let g = norms(v).array().reshape(v.shape()[0]);
        Self {
            g: Variable::new(g),
            link: link.with_weight(Variable::new(v.array())),
        }
    }

    /// Computes the weight, `g v / ‖v‖`.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, WeightNorm};
    /// let layer = WeightNorm::new(Linear::new(3, 2, &mut Generator::new(0)));
    /// layer.g.set_array([2.0f32, 0.0].into());
    /// assert!((layer.weight().square().sum(..).item::<f32>() - 4.0).abs() < 1e-5);
    /// ```
    pub fn weight(&self) -> Variable {
        let v = self.link.weight();
        let outputs = Shape::from(vec![1; v.rank()]).replaced(0, self.g.size());
        v * (reshape(&self.g, outputs) / norms(v))
    }

    /// Returns the link with the combined weight: the same function, for use without training.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, WeightNorm};
    /// let layer = WeightNorm::new(Linear::new(3, 2, &mut Generator::new(0)));
    /// let plain: Linear = layer.fused();
    /// assert!(plain.weight.is_leaf());
    /// ```
    pub fn fused(&self) -> L {
        self.link.with_weight(Variable::new(self.weight().array()))
    }
}

impl<L: Weighted + Link + 'static> Link for WeightNorm<L> {
    /// Applies the link to x with the weight `g v / ‖v‖`.
    ///
    /// # Panics
    /// Panics if the link does not accept x.
    fn compute(&self, x: &Variable) -> Variable {
        self.link.with_weight(self.weight()).forward(x)
    }
}

/// Returns the norms for each output, keeping the other axes with size 1.
fn norms(v: &Variable) -> Variable {
    let rest: Vec<isize> = (1..v.rank() as isize).collect();
    norm(v, keep_dims(&rest[..]))
}

/// A link whose weight has its outputs along the first axis.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Linear, Weighted};
/// let layer = Linear::new(3, 2, &mut Generator::new(0));
/// let double = layer.with_weight(layer.weight() * 2.0);
/// assert_eq!(double.weight.shape(), [2, 3]);
/// ```
pub trait Weighted: Chain {
    /// Returns the weight, `[o, ..]`.
    fn weight(&self) -> &Variable;
    /// Returns the same link with another weight; the other parameters are shared.
    #[must_use]
    fn with_weight(&self, w: Variable) -> Self;
}

impl Weighted for Linear {
    fn weight(&self) -> &Variable {
        &self.weight
    }
    fn with_weight(&self, w: Variable) -> Self {
        Self {
            weight: w,
            ..self.clone()
        }
    }
}

impl<const N: usize> Weighted for Conv<N> {
    fn weight(&self) -> &Variable {
        &self.weight
    }
    fn with_weight(&self, w: Variable) -> Self {
        let mut link = self.clone();
        link.weight = w;
        link
    }
}
