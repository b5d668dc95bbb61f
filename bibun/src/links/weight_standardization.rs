//! Weights with mean 0 and variance 1.

use super::{Chain, Link, Weighted};
use crate::functions::{layer_normalization, reshape};
use crate::variable::Variable;

/// What is added to variances, so that outputs with equal weights have finite ones.
const EPSILON: f64 = 1e-5;

/// A link whose weight is standardised for each of its outputs, `w = (v - mean) / √(variance + 10⁻⁵)`,
/// over all elements of `v` that belong to one output. It is used before a
/// [`GroupNorm`](super::GroupNorm), with which small batches suffice.
///
/// The wrapped link's own weight is `v`. The parameters are those of the link: `link/weight`,
/// `link/bias`.
///
/// Shapes: as the link. Cloning shares the parameters.
///
/// Source: Qiao, Wang, Liu, Shen, Yuille, "Micro-Batch Training with Batch-Channel Normalization and Weight
/// Standardization", 2019.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Conv2d, WeightStandardization};
/// let layer = WeightStandardization::new(Conv2d::new(3, 8, 3, &mut Generator::new(0)));
/// let means = layer.weight().mean([1, 2, 3]);
/// assert!(means.abs().max(..).item::<f32>() < 1e-6);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct WeightStandardization<L> {
    /// The link, with `v` as its weight.
    pub link: L,
}

impl<L: Weighted> WeightStandardization<L> {
    /// Wraps a link, whose parameters it shares.
    pub fn new(link: L) -> Self {
        Self { link }
    }

    /// Computes the weight, `(v - mean) / √(variance + 10⁻⁵)`.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, WeightStandardization};
    /// let layer = WeightStandardization::new(Linear::new(300, 2, &mut Generator::new(0)));
    /// let variances = layer.weight().var(1, 0);
    /// assert!((variances - 1.0).abs().max(..).item::<f32>() < 1e-2);
    /// ```
    pub fn weight(&self) -> Variable {
        let v = self.link.weight();
        let shape = v.shape();
        let rows = reshape(v, [shape[0], shape[1..].iter().product()]);
        reshape(layer_normalization(rows, -1, None, None, EPSILON), shape)
    }

    /// Returns the link with the standardised weight: the same function, for use without training.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, WeightStandardization};
    /// let layer = WeightStandardization::new(Linear::new(3, 2, &mut Generator::new(0)));
    /// let plain: Linear = layer.fused();
    /// assert!(plain.weight.is_leaf());
    /// ```
    pub fn fused(&self) -> L {
        self.link.with_weight(Variable::new(self.weight().array()))
    }
}

impl<L: Weighted + Link + 'static> Link for WeightStandardization<L> {
    /// Applies the link to x with the standardised weight.
    ///
    /// # Panics
    /// Panics if the link does not accept x.
    fn compute(&self, x: &Variable) -> Variable {
        self.link.with_weight(self.weight()).forward(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::Conv2d;
    use crate::{GradientCheckOptions, assert_gradients};
    use bibun_array::{Array, DType, Generator};

    #[test]
    fn each_output_has_mean_zero_and_variance_one() {
        let generator = &mut Generator::new(0);
        let conv = Conv2d::builder(2, 3, 3).dtype(DType::F64).build(generator);
        let layer = WeightStandardization::new(conv.clone());
        let v = conv.weight.to_vec::<f64>();
        let expected = v.chunks(18).flat_map(|v| {
            let mean = v.iter().sum::<f64>() / 18.0;
            let variance = v.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 18.0;
            v.iter()
                .map(move |v| (v - mean) / (variance + EPSILON).sqrt())
        });
        for (found, expected) in layer.weight().to_vec::<f64>().iter().zip(expected) {
            assert!((found - expected).abs() < 1e-13);
        }
        let x = Variable::constant(generator.uniform([1, 2, 4, 4], -1.0, 1.0, DType::F64));
        assert_eq!(
            layer.forward(&x).to_vec::<f64>(),
            layer.fused().forward(&x).to_vec::<f64>()
        );
        let bias = conv.bias.clone();
        let of_weight = |v: &[Variable]| {
            let mut conv = conv.with_weight(v[0].clone());
            conv.bias = bias.clone();
            [WeightStandardization::new(conv)
                .forward(&x)
                .square()
                .sum(..)]
        };
        assert_gradients(
            of_weight,
            &[Variable::new(conv.weight.array())],
            GradientCheckOptions::new(),
        );
        // Equal weights have the direction of none.
        conv.weight
            .set_array(Array::ones(conv.weight.shape(), DType::F64));
        assert_eq!(layer.weight().to_vec::<f64>(), [0.0; 54]);
    }
}
