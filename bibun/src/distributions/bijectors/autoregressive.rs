//! Affine functions of each number of a vector, by the numbers before it.

use bibun_array::s;

use super::Bijector;
use crate::Tree;
use crate::error::{Error, raise};
use crate::functions::zeros_like;
use crate::links::Link;
use crate::variable::Variable;

/// `yᵢ = shiftᵢ + exp(log_scaleᵢ) xᵢ`, where shift and log-scale are results of a network that reads the
/// `yⱼ` with `j < i`, such as [`Made`](crate::links::Made) with two outputs for each input.
///
/// The inverse, and so the density, is one run of the network; `forward` runs it once for each number of a
/// vector. [`Inverse`](super::Inverse) exchanges the two (an inverse autoregressive flow).
///
/// Shapes: the network takes `[.., d]` and returns `[.., 2d]`: the shifts, then the logarithms of the
/// scales.
/// Source: G. Papamakarios, T. Pavlakou, I. Murray, "Masked autoregressive flow for density estimation",
/// 2017.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::distributions::bijectors::{Autoregressive, Bijector};
/// use bibun::links::Made;
/// use bibun::Variable;
/// let f = Autoregressive::new(Made::new(3, &[16], 2, &mut Generator::new(0)));
/// let x = Variable::constant([0.5f32, -1.0, 2.0]);
/// let y = f.forward(&x);
/// assert!((f.inverse(&y) - x).abs().max(..).item::<f32>() < 1e-5);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Autoregressive<N> {
    /// The network.
    pub network: N,
}

impl<N: Link> Autoregressive<N> {
    /// Creates the bijector from its network, in which no output of number i may depend on an input from
    /// number i on: else `forward` is not the inverse of `inverse`.
    pub fn new(network: N) -> Self {
        Self { network }
    }

    /// The shifts and the logarithms of the scales.
    fn affine(&self, y: &Variable) -> [Variable; 2] {
        let (size, both) = (y.shape(), self.network.forward(y));
        let count = *size.last().expect("vectors") as isize;
        if both.shape() != size.replaced(size.rank() - 1, 2 * count as usize) {
            let found = both.shape();
            let what =
                format!("the network makes {found} of {size}; it must make two numbers of each");
            raise(Error::argument("Autoregressive", what));
        }
        [both.slice(s![..., ..count]), both.slice(s![..., count..])]
    }
}

impl<N: Link> Bijector for Autoregressive<N> {
    fn name(&self) -> &'static str {
        "Autoregressive"
    }

    fn event_rank(&self) -> usize {
        1
    }

    fn forward(&self, x: &Variable) -> Variable {
        // After run i, the first i numbers are right.
        let mut y = zeros_like(x);
        for _ in 0..*x.shape().last().expect("vectors") {
            let [shift, log_scale] = self.affine(&y);
            y = shift + log_scale.exp() * x;
        }
        y
    }

    fn inverse(&self, y: &Variable) -> Variable {
        let [shift, log_scale] = self.affine(y);
        (y - shift) * (-log_scale).exp()
    }

    fn log_abs_det_jacobian(&self, _: &Variable, y: &Variable) -> Variable {
        let [_, log_scale] = self.affine(y);
        log_scale.sum(-1)
    }
}
