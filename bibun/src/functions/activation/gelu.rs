//! Gaussian error linear units.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::functions::families::unary;

/// The height of the normal density at zero, `1/√2π`.
#[cfg(test)]
const DENSITY: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// `2√(2/π)`, because `(1 + tanh u) / 2 = sigmoid(2u)`.
const SLOPE: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const CUBIC: f64 = 0.044715;

/// `x` clipped to a range beyond which the distributions are 0 and 1 to the last bit, also in f64:
/// powers cannot overflow, and 0 is never multiplied by an infinity.
macro_rules! held {
    ($x:ident) => {
        $x.clip(-40.0, 40.0)
    };
}

/// The argument of the sigmoid in [`gelu_tanh`].
macro_rules! cubic {
    ($x:ident) => {
        held!($x) * (SLOPE + SLOPE * CUBIC * held!($x).square())
    };
}

unary! {
    /// Computes `x Φ(x)` of each element, where `Φ(x) = (1 + erf(x/√2)) / 2` is the distribution
    /// function of the normal distribution.
    ///
    /// Gradient: `gy (Φ(x) + x φ(x))` with the density `φ(x) = e^(-x²/2) / √2π`.
    ///
    /// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.
    ///
    /// ```
    /// use bibun::{functions::gelu, Variable};
    /// assert_eq!(gelu(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.0, 1000.0]);
    /// ```
    gelu(x) -> Gelu {
        operation: Gelu,
        fused(x; gy): gy * (x.normal_distribution() + held!(x) * x.normal_density()),
        sample: (-3.0..3.0, |x| x * normal_distribution(x)),
    }

    /// Computes the approximation `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2` of [`gelu`].
    ///
    /// Gradient: that of the approximation.
    ///
    /// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.
    ///
    /// ```
    /// use bibun::{functions::gelu_tanh, Variable};
    /// assert_eq!(gelu_tanh(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.0, 1000.0]);
    /// ```
    gelu_tanh(x) -> GeluTanh {
        value: x.maximum(-40.0) * cubic!(x).sigmoid(),
        fused(x; gy): gy
            * (cubic!(x).sigmoid()
                + held!(x)
                    * (SLOPE + 3.0 * SLOPE * CUBIC * held!(x).square())
                    * cubic!(x).logistic_density()),
        sample: (-3.0..3.0, |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }),
    }
}

/// Computes `Φ(x)` by its series, `1/2 + φ(x) Σ x²ⁿ⁺¹ / (2n + 1)!!`.
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.11.
#[cfg(test)]
pub(crate) fn normal_distribution(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + DENSITY * (-0.5 * x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives};

    #[test]
    fn far_from_zero() {
        let points = [-1e18, -1000.0, -20.0, -1.0, 0.0, 1.0, 20.0, 1000.0, 1e18];
        assert_finite("gelu", |x| gelu(x), &points);
        assert_finite("gelu_tanh", |x| gelu_tanh(x), &points);
        let functions: [fn(&crate::Variable) -> crate::Variable; 2] =
            [|x| gelu(x), |x| gelu_tanh(x)];
        for function in functions {
            assert_eq!(derivatives(function, 1000.0, 2), [1000.0, 1.0, 0.0]);
            assert_eq!(derivatives(function, -1000.0, 2), [0.0, 0.0, 0.0]);
            assert_eq!(derivatives(function, 0.0, 1), [0.0, 0.5]);
        }
    }
}
