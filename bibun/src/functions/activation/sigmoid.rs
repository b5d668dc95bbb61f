//! The sigmoid, functions built from it, and the piecewise linear forms of sigmoid and tanh.

use crate::functions::families::{binary, unary};

unary! {
    samples in unary_samples;

    /// Computes the logistic sigmoid `1 / (1 + e⁻ˣ)` of each element.
    ///
    /// Gradient: `gy sigmoid(x) sigmoid(-x)`, which is `gy y (1 - y)` without its cancellation, and
    /// so is exact far from zero too. For this, x is saved instead of y, and an exponential is
    /// computed.
    ///
    /// ```
    /// use bibun::{functions::sigmoid, Variable};
    /// assert_eq!(sigmoid(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.5, 1.0]);
    /// ```
    sigmoid(x) via to_differentiable -> Sigmoid {
        operation: Sigmoid,
        // Not y (1 - y), which is 0 as soon as y is 1.
        fused(x; gy): gy * x.logistic_density(),
        sample: (-3.0..3.0, |x| 1.0 / (1.0 + (-x).exp())),
    }

    /// Computes `log(1 / (1 + e⁻ˣ))` of each element, which neither overflows nor reaches `-∞`.
    ///
    /// Gradient: `gy sigmoid(-x)`.
    ///
    /// ```
    /// use bibun::{functions::log_sigmoid, Variable};
    /// assert_eq!(log_sigmoid(Variable::new([-1000.0, 1000.0])).to_vec::<f64>(), [-1000.0, 0.0]);
    /// ```
    log_sigmoid(x) -> LogSigmoid {
        value: x.log_sigmoid(),
        derivative(x; gy): gy * (-x).sigmoid(),
        sample: (-3.0..3.0, |x| -(1.0 + (-x).exp()).ln()),
    }

    /// Computes the sigmoid-weighted linear unit `x sigmoid(x)` of each element, which is [`swish`]
    /// with `beta = 1`.
    ///
    /// Gradient: `gy sigmoid(x) (1 + x sigmoid(-x))`.
    ///
    /// Source: Elfwing, Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function
    /// Approximation in Reinforcement Learning", 2017.
    ///
    /// ```
    /// use bibun::{functions::silu, Variable};
    /// assert_eq!(silu(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.0, 1000.0]);
    /// ```
    silu(x) -> Silu {
        // Beyond 800, sigmoid is 0 or 1 to the last bit, also in f64; the 0 must not be multiplied
        // by an infinity.
        value: x.maximum(-800.0) * x.sigmoid(),
        fused(x; gy): gy * (x.sigmoid() + x.clip(-800.0, 800.0) * x.logistic_density()),
        sample: (-3.0..3.0, |x| x / (1.0 + (-x).exp())),
    }

    /// Computes `x / 6 + 0.5` clipped to between 0 and 1: a sigmoid of three straight lines, and
    /// the factor of `x` in [`hardswish`]. It is the same as in PyTorch and JAX; that of Chainer
    /// and of Courbariaux et al. (2015) is steeper, `(0.2 * x + 0.5).clip(0.0, 1.0)`.
    ///
    /// Gradient: `gy / 6` for `-3 < x < 3`, zero elsewhere.
    ///
    /// Source: Howard et al., "Searching for MobileNetV3", 2019.
    ///
    /// ```
    /// use bibun::{functions::hardsigmoid, Variable};
    /// let y = hardsigmoid(Variable::new([-4.0, 0.0, 1.5, 3.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.5, 0.75, 1.0]);
    /// ```
    hardsigmoid(x) -> Hardsigmoid {
        value: (x / 6.0 + 0.5).maximum(0.0).minimum(1.0),
        fused(x; gy): x.abs().greater_equal(3.0).where_(0.0, gy / 6.0),
        sample: (-5.0..5.0, |x| (x / 6.0 + 0.5).clamp(0.0, 1.0)),
    }

    /// Clips each element to between -1 and 1; [`clip`](crate::functions::clip) takes other bounds.
    ///
    /// Gradient: `gy` for `-1 ≤ x ≤ 1`, zero elsewhere.
    ///
    /// ```
    /// use bibun::{functions::hardtanh, Variable};
    /// let y = hardtanh(Variable::new([-3.0, 0.5, 3.0]));
    /// assert_eq!(y.to_vec::<f64>(), [-1.0, 0.5, 1.0]);
    /// ```
    hardtanh(x) -> Hardtanh {
        value: x.maximum(-1.0).minimum(1.0),
        fused(x; gy): x.abs().less_equal(1.0).where_(gy, 0.0),
        sample: (-2.0..2.0, |x| x.clamp(-1.0, 1.0)),
    }

    /// Computes `x / 6` times `x + 3` clipped to between 0 and 6: a [`silu`] without an
    /// exponential.
    ///
    /// Gradient: `gy (x / 3 + 1/2)` between -3 and 3, zero from -3 down, `gy` from 3 up.
    ///
    /// Source: Howard et al., "Searching for MobileNetV3", 2019.
    ///
    /// ```
    /// use bibun::{functions::hardswish, Variable};
    /// let y = hardswish(Variable::new([-4.0, 3.0, 4.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 3.0, 4.0]);
    /// ```
    hardswish(x) -> Hardswish {
        value: x.maximum(-3.0) * ((x + 3.0).clip(0.0, 6.0) / 6.0),
        fused(x; gy): x.less_equal(-3.0).where_(
            0.0,
            x.greater_equal(3.0).where_(gy, gy * (x / 3.0 + 0.5))
        ),
        sample: (-5.0..5.0, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
    }

    /// Computes `x / (1 + |x|)` of each element.
    ///
    /// Gradient: `gy / (1 + |x|)²`.
    ///
    /// ```
    /// use bibun::{functions::softsign, Variable};
    /// assert_eq!(softsign(Variable::new([-1.0, 3.0])).to_vec::<f64>(), [-0.5, 0.75]);
    /// ```
    softsign(x) -> Softsign {
        // At 1e30 the result has long been ±1 to the last bit; clipping there avoids ∞ / ∞.
        value: x.clip(-1e30, 1e30) / (1.0 + x.clip(-1e30, 1e30).abs()),
        derivative(x; gy): gy * (1.0 + x.abs()).reciprocal().square(),
        sample: (0.2..3.0, |x| x / (1.0 + x.abs())),
    }
}

binary! {
    samples in binary_samples;

    /// Computes `x sigmoid(beta x)` of each element, where `beta` may be learned.
    ///
    /// Gradient: to both.
    ///
    /// Source: Ramachandran, Zoph and Le, "Searching for Activation Functions", 2017.
    ///
    /// ```
    /// use bibun::{functions::swish, Variable};
    /// assert_eq!(swish(Variable::new([0.0, 2.0]), 1000.0).to_vec::<f64>(), [0.0, 2.0]);
    /// ```
    swish(a, b) via to_float -> Swish {
        value: {
            let gate = (b * a).sigmoid();
            gate.equal(0.0).where_(0.0, a) * gate
        },
        // Far from zero the formulas are given 0, so that no infinity is multiplied by a density of
        // 0.
        derivative(a, b; gy): {
            let far = (a * b).abs().greater(800.0);
            let u = far.where_(0.0, a) * far.where_(0.0, b);
            let limit = (a * b).greater(0.0).where_(1.0, 0.0);
            gy * far.where_(limit, u.sigmoid() + u * u.logistic_density())
        },
        derivative(a, b; gy): {
            let far = (a * b).abs().greater(800.0);
            let (a, b) = (far.where_(0.0, a), far.where_(0.0, b));
            gy * (a.square() * (a * b).logistic_density())
        },
        sample: (-2.0..2.0, -2.0..2.0, |x, beta| x / (1.0 + f64::exp(-beta * x))),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [unary_samples(), binary_samples()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient};
    use crate::variable::Variable;

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -89.0, -1.0, 0.0, 1.0, 89.0, 1000.0];
        assert_finite("sigmoid", |x| sigmoid(x), &points);
        assert_finite("log_sigmoid", |x| log_sigmoid(x), &points);
        assert_finite("silu", |x| silu(x), &points);
        assert_finite("hardsigmoid", |x| hardsigmoid(x), &points);
        assert_finite("hardtanh", |x| hardtanh(x), &points);
        assert_finite("hardswish", |x| hardswish(x), &points);
        assert_finite("softsign", |x| softsign(x), &points);
        assert_finite("swish", |x| swish(x, 2.0), &points);
        assert_eq!(derivatives(|x| sigmoid(x), -1000.0, 1), [0.0, 0.0]);
        assert_eq!(derivatives(|x| log_sigmoid(x), -1000.0, 1), [-1000.0, 1.0]);
        assert_eq!(derivatives(|x| silu(x), 1000.0, 2), [1000.0, 1.0, 0.0]);
        assert_eq!(gradient(|x| softsign(x), 1e300), 0.0);
    }

    #[test]
    fn kinks() {
        let slopes =
            |f: fn(&Variable) -> Variable, points: [f64; 4]| points.map(|x| gradient(f, x));
        assert_eq!(
            slopes(|x| hardsigmoid(x), [-3.0, -2.9, 2.9, 3.0]),
            [0.0, 1.0 / 6.0, 1.0 / 6.0, 0.0]
        );
        assert_eq!(
            slopes(|x| hardtanh(x), [-1.1, -1.0, 1.0, 1.1]),
            [0.0, 1.0, 1.0, 0.0]
        );
        assert_eq!(
            slopes(|x| hardswish(x), [-3.0, 0.0, 3.0, 9.0]),
            [0.0, 0.5, 1.0, 1.0]
        );
        assert_eq!(derivatives(|x| softsign(x), 0.0, 2), [0.0, 1.0, 0.0]);
    }
}
