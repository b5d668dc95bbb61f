//! Rectifiers with an exponential branch for negative inputs, and smooth rectifiers made of
//! logarithms.

use crate::functions::families::unary;

/// The constants of [`selu`], which keep the mean 0 and the variance 1 from layer to layer.
const SELU_ALPHA: f64 = 1.6732632423543772;
const SELU_SCALE: f64 = 1.0507009873554805;

macro_rules! held {
    ($x:ident) => {
        $x.clip(-800.0, 40.0)
    };
}

macro_rules! gate {
    ($x:ident) => {
        held!($x).exp() * (held!($x).exp() + 2.0)
    };
}

// The exponentials get no positive numbers: they would overflow where the other branch is chosen,
// and the derivative of an overflowed value is NaN even where it is not used.
unary! {
    /// Computes the exponential linear unit of each element: `x` where it is positive,
    /// `alpha (eˣ - 1)` elsewhere.
    ///
    /// Gradient: `gy` where `x > 0`, `alpha gy eˣ` elsewhere, also at zero.
    ///
    /// Source: Clevert, Unterthiner and Hochreiter, "Fast and Accurate Deep Network Learning by
    /// Exponential Linear Units", 2015.
    ///
    /// ```
    /// use bibun::{functions::elu, Variable};
    /// assert_eq!(elu(Variable::new([-1000.0, 2.0]), 0.5).to_vec::<f64>(), [-0.5, 2.0]);
    /// ```
    elu(x, alpha) -> Elu {
        value: x.greater(0.0).where_(x, alpha * x.expm1()),
        fused(x; gy): x
            .greater(0.0)
            .where_(gy, gy * alpha * x.greater(0.0).where_(0.0, x).exp()),
        sample(0.7): (-2.0..2.0, move |x| if x > 0.0 { x } else { alpha * x.exp_m1() }),
    }

    /// Computes [`elu`] with a fixed `alpha`, times a constant, which together keep mean and variance
    /// from layer to layer.
    ///
    /// Gradient: that of [`elu`] with this `alpha`, times 1.0507...
    ///
    /// Source: Klambauer, Unterthiner, Mayr and Hochreiter, "Self-Normalizing Neural Networks",
    /// 2017.
    ///
    /// ```
    /// use bibun::{functions::selu, Variable};
    /// assert_eq!(selu(Variable::new([0.0, 2.0])).to_vec::<f64>(), [0.0, 2.101401974710961]);
    /// ```
    selu(x) -> Selu {
        value: SELU_SCALE * x.greater(0.0).where_(x, SELU_ALPHA * x.expm1()),
        fused(x; gy): SELU_SCALE * x
            .greater(0.0)
            .where_(gy, gy * SELU_ALPHA * x.greater(0.0).where_(0.0, x).exp()),
        sample: (-2.0..2.0, |x| {
            SELU_SCALE * if x > 0.0 { x } else { SELU_ALPHA * x.exp_m1() }
        }),
    }

    /// Computes the continuously differentiable exponential linear unit of each element: `x` where
    /// it is positive, `alpha (exp(x / alpha) - 1)` elsewhere.
    ///
    /// Gradient: `gy` where `x > 0`, `gy exp(x / alpha)` elsewhere, also at zero.
    ///
    /// Source: Barron, "Continuously Differentiable Exponential Linear Units", 2017.
    ///
    /// ```
    /// use bibun::{functions::celu, Variable};
    /// assert_eq!(celu(Variable::new([-1000.0, 2.0]), 0.5).to_vec::<f64>(), [-0.5, 2.0]);
    /// ```
    celu(x, alpha) -> Celu {
        value: x.greater(0.0).where_(x, alpha * (x / alpha).expm1()),
        derivative(x; gy): x
            .greater(0.0)
            .where_(gy, gy * (x.greater(0.0).where_(0.0, x) / alpha).exp()),
        sample(0.7): (-2.0..2.0, move |x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() }),
    }

    /// Computes `log(1 + exp(beta x)) / beta` of each element: a smooth
    /// [`relu`](crate::functions::relu), which is the sharper the greater `beta` is.
    ///
    /// Gradient: `gy sigmoid(beta x)`.
    ///
    /// ```
    /// use bibun::{functions::softplus, Variable};
    /// let y = softplus(Variable::new([0.0, 1000.0]), 1.0);
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::LN_2, 1000.0]);
    /// ```
    softplus(x, beta) -> Softplus {
        // Not softplus(beta x) / beta, because beta x may overflow where the result does not.
        value: (beta * x).greater(0.0).where_(x, 0.0)
            + (-(beta * x).abs()).softplus() / beta,
        fused(x; gy): gy * (beta * x).sigmoid(),
        sample(1.5): (-2.0..2.0, move |x| (1.0 + (beta * x).exp()).ln() / beta),
    }

    /// Computes `x tanh(log(1 + eˣ))` of each element.
    ///
    /// Gradient: `gy (t + x (1 - t²) sigmoid(x))`, `t = tanh(log(1 + eˣ))`.
    ///
    /// Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.
    ///
    /// ```
    /// use bibun::{functions::mish, Variable};
    /// assert_eq!(mish(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.0, 1000.0]);
    /// ```
    mish(x) -> Mish {
        // tanh(log(1 + e)) = w / (w + 2) with w = e (e + 2), and e = eˣ. Beyond 40 it is 1 and does not
        // grow; below -800 it is 0, which must not be multiplied by an infinity.
        value: x.maximum(-800.0) * (gate!(x) / (gate!(x) + 2.0)),
        // Its own derivative is that of a product of well conditioned factors: log(1 + eˣ) is computed as
        // -log_sigmoid(-x), and 1 - tanh² as four times the logistic density of twice its argument, which
        // is the same on both sides of zero.
        derivative(x; gy): gy
            * (x.clip(-800.0, 800.0)
                * x.sigmoid()
                * ((-x).log_sigmoid() * 2.0).logistic_density()
                * 4.0
                - (-x).log_sigmoid().tanh()),
        sample: (-3.0..3.0, |x| x * (1.0 + x.exp()).ln().tanh()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient};

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -89.0, -1.0, 0.0, 1.0, 89.0, 1000.0];
        assert_finite("elu", |x| elu(x, 0.7), &points);
        assert_finite("selu", |x| selu(x), &points);
        assert_finite("celu", |x| celu(x, 0.7), &points);
        assert_finite("softplus", |x| softplus(x, 2.0), &points);
        assert_finite("mish", |x| mish(x), &points);
        assert_eq!(
            derivatives(|x| softplus(x, 3.0), 1000.0, 2),
            [1000.0, 1.0, 0.0]
        );
        assert_eq!(derivatives(|x| mish(x), 1000.0, 2), [1000.0, 1.0, 0.0]);
        assert_eq!(derivatives(|x| elu(x, 1.0), -1000.0, 2), [-1.0, 0.0, 0.0]);
    }

    #[test]
    fn at_zero_the_left_side_counts() {
        assert_eq!(derivatives(|x| elu(x, 0.5), 0.0, 2), [0.0, 0.5, 0.5]);
        assert_eq!(gradient(|x| selu(x), 0.0), SELU_SCALE * SELU_ALPHA);
        assert_eq!(derivatives(|x| celu(x, 0.5), 0.0, 2), [0.0, 1.0, 2.0]);
    }
}
