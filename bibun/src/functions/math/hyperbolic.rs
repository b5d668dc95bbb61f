//! Hyperbolic functions and their inverses.

use crate::functions::families::unary;

unary! {
    /// Computes the hyperbolic sine `(eˣ - e⁻ˣ) / 2` of each element.
    ///
    /// Gradient: `gy cosh x`.
    ///
    /// ```
    /// use bibun::{functions::sinh, Variable};
    /// assert_eq!(sinh(Variable::new([0.0, 1e-20])).to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    sinh(x) via to_differentiable -> Sinh {
        operation: Sinh,
        derivative(x; gy): gy * x.cosh(),
        sample: (-2.0..2.0, f64::sinh),
    }

    /// Computes the hyperbolic cosine `(eˣ + e⁻ˣ) / 2` of each element.
    ///
    /// Gradient: `gy sinh x`.
    ///
    /// ```
    /// use bibun::{functions::cosh, Variable};
    /// assert_eq!(cosh(Variable::new([0.0])).to_vec::<f64>(), [1.0]);
    /// ```
    cosh(x) via to_differentiable -> Cosh {
        operation: Cosh,
        derivative(x; gy): gy * x.sinh(),
        sample: (-2.0..2.0, f64::cosh),
    }

    /// Computes the hyperbolic tangent `(eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)` of each element.
    ///
    /// Gradient: `gy / cosh² x`, which is `gy (1 - y²)` without its cancellation, and so is exact
    /// far from zero too. For this, x is saved instead of y, and an exponential is computed.
    ///
    /// ```
    /// use bibun::{functions::tanh, Variable};
    /// let x = Variable::new([0.0, 0.5]);
    /// assert_eq!(tanh(&x).to_vec::<f64>(), [0.0, 0.5f64.tanh()]);
    /// ```
    tanh(x) via to_differentiable -> Tanh {
        operation: Tanh,
        // Not 1 - y², which is 0 as soon as y is 1.
        fused(x; gy): gy * (x * 2.0).logistic_density() * 4.0,
        sample: (-3.0..3.0, f64::tanh),
    }

    /// Computes the inverse hyperbolic sine `log(x + √(x² + 1))` of each element.
    ///
    /// Gradient: `gy / √(1 + x²)`.
    ///
    /// ```
    /// use bibun::{functions::asinh, Variable};
    /// assert_eq!(asinh(Variable::new([0.0])).to_vec::<f64>(), [0.0]);
    /// ```
    asinh(x) -> Asinh {
        operation: Asinh,
        derivative(x; gy): gy / x.hypot(1.0),
        sample: (-2.0..2.0, f64::asinh),
    }

    /// Computes the inverse hyperbolic cosine `log(x + √(x² - 1))` of each element; NaN below 1.
    ///
    /// Gradient: `gy / √(x² - 1)`, infinite at 1.
    ///
    /// ```
    /// use bibun::{functions::acosh, Variable};
    /// assert_eq!(acosh(Variable::new([1.0])).to_vec::<f64>(), [0.0]);
    /// ```
    acosh(x) -> Acosh {
        operation: Acosh,
        // (x - 1)(x + 1) has no cancellation near 1, where x² - 1 has.
        derivative(x; gy): gy * (x - 1.0).rsqrt() * (x + 1.0).rsqrt(),
        sample: (1.3..3.0, f64::acosh),
    }

    /// Computes the inverse hyperbolic tangent `log((1 + x) / (1 - x)) / 2` of each element; NaN
    /// below -1 and above 1.
    ///
    /// Gradient: `gy / (1 - x²)`, infinite at -1 and 1.
    ///
    /// ```
    /// use bibun::{functions::atanh, Variable};
    /// assert_eq!(atanh(Variable::new([0.0, 1.0])).to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    atanh(x) -> Atanh {
        operation: Atanh,
        derivative(x; gy): gy / x.one_minus_square(),
        sample: (-0.7..0.7, f64::atanh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, gradient};

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -80.0, 0.0, 80.0, 1000.0];
        assert_finite("tanh", |x| tanh(x), &points);
        assert_finite("asinh", |x| asinh(x), &points);
        assert_finite("acosh", |x| acosh(x), &[1.5, 80.0, 1000.0]);
        assert_finite("sinh", |x| sinh(x), &[-80.0, 0.0, 80.0]);
        assert_finite("cosh", |x| cosh(x), &[-80.0, 0.0, 80.0]);
    }

    #[test]
    fn ends() {
        assert_eq!(gradient(|x| acosh(x), 1.0), f64::INFINITY);
        assert_eq!(gradient(|x| atanh(x), -1.0), f64::INFINITY);
        assert!(gradient(|x| acosh(x), -2.0).is_nan());
    }
}
