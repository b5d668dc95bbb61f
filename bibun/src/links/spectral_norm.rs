//! Weights divided by their largest singular value.

use bibun_array::{DType, Generator, Shape};

use super::{Buffer, Chain, Link, Weighted};
use crate::functions::{cast, in_accumulator, matmul, norm, reshape, sum};
use crate::scope::{is_training, no_grad};
use crate::variable::Variable;

/// The iterations with which the first singular vector is found when a link is wrapped.
const FIRST_ITERATIONS: usize = 15;

/// A link whose weight is divided by its largest singular value σ, as a matrix with a row for each
/// output, so that the link lengthens no vector.
///
/// σ is found by iterating with the singular vector `u`, which a call in training mode improves once, or
/// [`power_iterations`](Self::power_iterations) times, and stores; in evaluation mode it is not stored. The
/// gradient goes through `σ = u · w v`, with constant `u` and `v`.
///
/// The wrapped link's own weight is not divided. The parameters are those of the link: `link/weight`,
/// `link/bias`; `u` is a buffer. Under [`vmap`](crate::vmap), `u` cannot be stored if the weights are
/// batched: use evaluation mode. Cloning shares the parameters and the buffer.
///
/// Shapes: as the link, with u `[o]`. A weight of zeros gives NaN.
///
/// Source: Miyato, Kataoka, Koyama, Yoshida, "Spectral Normalization for Generative Adversarial Networks",
/// ICLR 2018.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Linear, Link, SpectralNorm};
/// use bibun::Variable;
/// let g = &mut Generator::new(0);
/// let linear = Linear::new(2, 2, g);
/// linear.weight.set_array([[3f32, 0.0], [0.0, 4.0]].into());
/// let layer = SpectralNorm::new(linear, g);
/// let y = layer.forward(&Variable::constant([[1f32, 1.0]])).to_vec::<f32>();
/// assert!((y[0] - 0.75).abs() < 1e-3 && (y[1] - 1.0).abs() < 1e-3);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct SpectralNorm<L> {
    /// The link, with the weight that is divided.
    pub link: L,
    /// The estimate of the left singular vector, `[o]`.
    pub u: Buffer,
    power_iterations: usize,
}

impl<L: Weighted> SpectralNorm<L> {
    /// Wraps a link, whose parameters it shares, and estimates the largest singular value of its weight,
    /// from a random vector.
    pub fn new(link: L, generator: &mut Generator) -> Self {
        let dtype = link.weight().dtype().accumulator();
        let outputs = link.weight().shape()[0];
        let start = generator.normal([outputs], 0.0, 1.0, DType::F64);
        let start = Variable::constant(start.cast(dtype)).to(link.weight().device());
        let [u, _] = no_grad(|| iterated(&matrix(link.weight()), start, FIRST_ITERATIONS));
        Self {
            u: Buffer::new(u.array()),
            link,
            power_iterations: 1,
        }
    }

    /// Sets the number of iterations of each call. Defaults to 1.
    #[must_use]
    pub fn power_iterations(self, power_iterations: usize) -> Self {
        Self {
            power_iterations,
            ..self
        }
    }

    /// Computes the weight, `w / σ`.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, SpectralNorm};
    /// let g = &mut Generator::new(0);
    /// let layer = SpectralNorm::new(Linear::new(3, 1, g), g);
    /// assert!((layer.weight().square().sum(..).item::<f32>() - 1.0).abs() < 1e-5);
    /// ```
    pub fn weight(&self) -> Variable {
        self.weight_and_vector().0
    }

    /// Computes the weight, and the singular vector after the iterations.
    fn weight_and_vector(&self) -> (Variable, Variable) {
        let w = self.link.weight();
        let matrix = matrix(w);
        let [u, v] = no_grad(|| {
            let matrix = matrix.detach();
            iterated(&matrix, self.u.get(), self.power_iterations.max(1))
        });
        let sigma = sum(&u * matmul(&matrix, v), ..);
        (in_accumulator(w.clone(), |w| w / sigma), u)
    }

    /// Returns the link with the divided weight: the same function, for use without training.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, SpectralNorm};
    /// let g = &mut Generator::new(0);
    /// let plain: Linear = SpectralNorm::new(Linear::new(3, 2, g), g).fused();
    /// assert!(plain.weight.is_leaf());
    /// ```
    pub fn fused(&self) -> L {
        self.link.with_weight(Variable::new(self.weight().array()))
    }
}

impl<L: Weighted + Link + 'static> Link for SpectralNorm<L> {
    /// Applies the link to x with the weight `w / σ`; in training mode it also stores `u`.
    ///
    /// # Panics
    /// Panics if the link does not accept x.
    fn compute(&self, x: &Variable) -> Variable {
        let (weight, u) = self.weight_and_vector();
        if is_training() {
            self.u.change("SpectralNorm", [&u], false, |_, [u]| u);
        }
        self.link.with_weight(weight).forward(x)
    }
}

/// Returns a weight with a row for each output, in its accumulator's dtype.
fn matrix(w: &Variable) -> Variable {
    let shape = w.shape();
    let inputs: usize = shape[1..].iter().product();
    cast(
        reshape(w, Shape::from([shape[0], inputs])),
        w.dtype().accumulator(),
    )
}

/// Returns the singular vectors u and v after some iterations that begin with u.
fn iterated(matrix: &Variable, mut u: Variable, times: usize) -> [Variable; 2] {
    let unit = |x: Variable| {
        let length = norm(&x, 0);
        x / length
    };
    let mut v = unit(matmul(&u, matrix));
    for time in 0..times {
        if time > 0 {
            v = unit(matmul(&u, matrix));
        }
        u = unit(matmul(matrix, &v));
    }
    [u, v]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Conv2d, Linear};
    use crate::{eval_mode, grad, train_mode};
    use bibun_array::Array;

    fn wave(shape: impl Into<Shape>) -> Array {
        let shape = shape.into();
        let values = (0..shape.size()).map(|i| ((i * 37 % 101) as f64 - 50.5) / 25.0);
        Array::from_vec(values.collect(), shape)
    }

    fn layer() -> SpectralNorm<Linear> {
        let generator = &mut Generator::new(3);
        let linear = Linear::builder(3, 4).dtype(DType::F64).build(generator);
        linear.weight.set_array(wave([4, 3]));
        SpectralNorm::new(linear, generator)
    }

    const WEIGHT: [f64; 12] = [
        -0.5421613945803102,
        -0.1449342341947364,
        0.25229292619083743,
        -0.4348027025842092,
        -0.03757554219863536,
        0.35965161818693847,
        -0.3274440105881081,
        0.06978314979746567,
        0.46701031018303946,
        -0.22008531859200708,
        0.1771418417935667,
        -0.5099537869814799,
    ];
    const SLOPES: [f64; 12] = [
        -0.7308322024676421,
        -0.20695574669589972,
        -0.3979866595930459,
        -0.5248752579608029,
        -0.15658923628953114,
        -0.4948791063796196,
        -0.3189183134539617,
        -0.10622272588316223,
        -0.5917715531661945,
        -0.34324602391696124,
        -0.060130969702097,
        0.5245091217867712,
    ];

    /// The numbers are those of PyTorch's `spectral_norm` after 200 iterations.
    #[test]
    fn weights_and_gradients_of_the_largest_singular_value() {
        let layer = layer().power_iterations(200);
        for (found, expected) in layer.weight().to_vec::<f64>().iter().zip(WEIGHT) {
            assert!((found - expected).abs() < 1e-12);
        }
        let x = Variable::constant(wave([2, 3]));
        let loss = |layer: &SpectralNorm<Linear>| train_mode(|| layer.forward(&x).square().sum(..));
        let slopes = grad(loss, &layer).link.weight.to_vec::<f64>();
        for (found, expected) in slopes.iter().zip(SLOPES) {
            assert!((found - expected).abs() < 1e-11, "{slopes:?}");
        }
    }

    #[test]
    fn the_vector_is_stored_in_training_mode_only() {
        let layer = layer();
        layer.link.weight.set_array(-wave([4, 3]).abs());
        let x = Variable::constant(wave([2, 3]));
        let before = layer.u.get().to_vec::<f64>();
        let y = eval_mode(|| layer.forward(&x)).to_vec::<f64>();
        assert_eq!(layer.u.get().to_vec::<f64>(), before);
        assert_eq!(train_mode(|| layer.forward(&x)).to_vec::<f64>(), y);
        assert_ne!(layer.u.get().to_vec::<f64>(), before);
        let plain = layer.fused().forward(&x).to_vec::<f64>();
        let own = eval_mode(|| layer.forward(&x)).to_vec::<f64>();
        assert_eq!(plain, own);
        assert_eq!(layer.buffers()[0].0, "u");
    }

    #[test]
    fn convolutions_have_a_row_for_each_output() {
        let generator = &mut Generator::new(0);
        let conv = Conv2d::builder(2, 3, 3).dtype(DType::F64).build(generator);
        let layer = SpectralNorm::new(conv, generator).power_iterations(100);
        let matrix = layer.weight().reshape([3, 18]);
        let product = matmul(&matrix, matrix.transpose());
        // 1 is an eigenvalue of the product.
        let shifted = (product - Array::eye(3, DType::F64)).to_vec::<f64>();
        let [a, b, c, d, e, f, g, h, i] = shifted[..].try_into().expect("nine");
        let determinant: f64 = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
        assert!(determinant.abs() < 1e-9, "{determinant}");
    }
}
