//! Rectifiers with an exponential branch for negative inputs, and smooth rectifiers made of
//! logarithms.

use bibun_array::Number;

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
    /// Gradient: `gy` where `x > 0`, `alpha gy eˣ` elsewhere, also at zero; to `alpha`, if it is a
    /// Variable, `gy (eˣ - 1)` where x is not positive.
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
            .where_(gy, gy * alpha * x.greater(0.0).where_(0.0, x).exp_of_negative()),
        parameter(x; gy): gy * x.greater(0.0).where_(0.0, x).expm1(),
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
            .where_(gy, gy * SELU_ALPHA * x.greater(0.0).where_(0.0, x).exp_of_negative()),
        sample: (-2.0..2.0, |x| {
            SELU_SCALE * if x > 0.0 { x } else { SELU_ALPHA * x.exp_m1() }
        }),
    }

    /// Computes the continuously differentiable exponential linear unit of each element: `x` where
    /// it is positive, `alpha (exp(x / alpha) - 1)` elsewhere.
    ///
    /// Gradient: `gy` where `x > 0`, `gy exp(x / alpha)` elsewhere, also at zero; to `alpha`, if it
    /// is a Variable, `gy (eᵘ - 1 - u eᵘ)` with `u = x / alpha` where x is not positive.
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
        // Near 0 the terms cancel, and the power series is used: the sum of -(k - 1) uᵏ / k!. Far from
        // it eᵘ is 0, which must not be multiplied by an infinity.
        parameter(x; gy): {
            let u = (x.greater(0.0).where_(0.0, x) / alpha).maximum(-800.0);
            let is_near = u.abs().less(1.0);
            let near = is_near.where_(u, 0.0);
            let mut series = Number::from(0.0);
            for k in (2..20).rev() {
                series = series * near / f64::from(k + 1) + f64::from(k - 1);
            }
            let far = is_near.where_(-1.0, u);
            let slope = is_near.where_(near * near * -0.5 * series, far.expm1() - far * far.exp());
            x.greater(0.0).where_(0.0, gy * slope)
        },
        sample(0.7): (-2.0..2.0, move |x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() }),
    }

    /// Computes `log(1 + exp(beta x)) / beta` of each element: a smooth
    /// [`relu`](crate::functions::relu), which is the sharper the greater `beta` is.
    ///
    /// Gradient: `gy sigmoid(beta x)`; to `beta`, if it is a Variable, `-gy H / beta²`, where `H` is
    /// the entropy of a choice with the probability `sigmoid(beta x)`.
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
        // Far from 0 one term is 0, which must not be multiplied by an infinity.
        parameter(x; gy): {
            let u = (beta * x).clip(-800.0, 800.0);
            let entropy = u.sigmoid() * u.log_sigmoid() + (-u).sigmoid() * (-u).log_sigmoid();
            gy * (entropy / beta / beta)
        },
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
    use bibun_array::Array;

    use super::*;
    use crate::Variable;
    use crate::functions::probe::{assert_finite, derivatives, gradient, partial_derivatives};

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

    /// Parameters as Variables, also far from 0 and near it.
    #[test]
    fn derivatives_by_parameters() {
        let by = |f: fn(&Variable, &Variable) -> Variable, x: f64, parameter: f64| {
            partial_derivatives(f, x, parameter)
        };
        for x in [-1e300, -1000.0, -3.0, 0.0, 3.0, 1000.0, f64::INFINITY] {
            for f in [
                |x: &Variable, p: &Variable| elu(x, p),
                |x: &Variable, p: &Variable| celu(x, p),
                |x: &Variable, p: &Variable| softplus(x, p),
            ] {
                let [by_x, by_parameter] = by(f, x, 1.5);
                assert!(by_x.is_finite() && by_parameter.is_finite(), "at {x}");
                // A number and a Variable are the same function of x.
                assert_eq!(by_x, gradient(|x| f(x, &Variable::constant([1.5])), x));
            }
        }
        for x in [-1000.0, -3.0, 0.0, 3.0, 1000.0] {
            let beside = |p: &Variable| Variable::constant(Array::full((), x).cast(p.dtype()));
            assert_finite("elu", |p| elu(beside(p), p), &[0.5, 1.0, 2.0]);
            assert_finite("celu", |p| celu(beside(p), p), &[0.5, 1.0, 2.0]);
            assert_finite("softplus", |p| softplus(beside(p), p), &[0.5, 1.0, 2.0]);
        }
        // -u²/2 - u³/3, without cancellation.
        let [_, small] = by(|x, p| celu(x, p), -1e-6, 1.0);
        assert!(
            (small / (-0.5e-12 + 1e-18 / 3.0) - 1.0).abs() < 1e-12,
            "{small}"
        );
        let [_, near] = by(|x, p| celu(x, p), -0.999_999_999, 1.0);
        let [_, far] = by(|x, p| celu(x, p), -1.000_000_001, 1.0);
        assert!((near - far).abs() < 1e-8, "{near} {far}");
        let [_, entropy] = by(|x, p| softplus(x, p), 0.0, 2.0);
        assert!(
            (entropy + std::f64::consts::LN_2 / 4.0).abs() < 1e-15,
            "{entropy}"
        );
        let mixed = derivatives(|p| softplus(Variable::constant([0.5]), p), 2.0, 3);
        assert!(
            mixed.iter().all(|derivative| derivative.is_finite()),
            "{mixed:?}"
        );
    }

    #[test]
    fn at_zero_the_left_side_counts() {
        assert_eq!(derivatives(|x| elu(x, 0.5), 0.0, 2), [0.0, 0.5, 0.5]);
        assert_eq!(gradient(|x| selu(x), 0.0), SELU_SCALE * SELU_ALPHA);
        assert_eq!(derivatives(|x| celu(x, 0.5), 0.0, 2), [0.0, 1.0, 2.0]);
    }
}
