//! The error function, its complement and its inverse.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::functions::families::unary;

/// `e^(-x²)`, with x clipped where the result has underflowed to 0, so that `0 · ∞` cannot occur.
macro_rules! bell {
    ($x:ident) => {
        (-$x.clip(-30.0, 30.0).square()).exp()
    };
}

unary! {
    /// Computes the error function `2/√π ∫₀ˣ e^(-t²) dt` of each element.
    ///
    /// Gradient: `2/√π gy e^(-x²)`.
    ///
    /// ```
    /// use bibun::{functions::erf, Variable};
    /// assert_eq!(erf(Variable::new([0.0, 9.0])).to_vec::<f64>(), [0.0, 1.0]);
    /// ```
    erf(x) -> Erf {
        operation: Erf,
        derivative(x; gy): gy * bell!(x) * FRAC_2_SQRT_PI,
        sample: (-2.0..2.0, reference),
    }

    /// Computes `1 - erf x` of each element, without cancellation for large x.
    ///
    /// Gradient: `-2/√π gy e^(-x²)`.
    ///
    /// ```
    /// use bibun::{functions::erfc, Variable};
    /// assert_eq!(erfc(Variable::new([0.0, 40.0])).to_vec::<f64>(), [1.0, 0.0]);
    /// ```
    erfc(x) -> Erfc {
        operation: Erfc,
        derivative(x; gy): gy * bell!(x) * -FRAC_2_SQRT_PI,
        sample: (-2.0..2.0, |x| 1.0 - reference(x)),
    }

    /// Computes the inverse of [`erf`] of each element; infinite at -1 and 1, NaN beyond.
    ///
    /// Gradient: `√π/2 gy e^(y²)`.
    ///
    /// ```
    /// use bibun::{functions::erfinv, Variable};
    /// assert_eq!(erfinv(Variable::new([0.0, 1.0])).to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    erfinv(x) -> Erfinv {
        operation: Erfinv,
        derivative(y; gy): gy * (y * y).exp() / FRAC_2_SQRT_PI,
        sample: (-0.8..0.8, |x| {
            // Newton's method on the reference of erf.
            (0..60).fold(0.0, |y: f64, _| {
                y - (reference(y) - x) / (FRAC_2_SQRT_PI * (-y * y).exp())
            })
        }),
    }
}

/// Computes the error function by its series of positive terms,
/// `2/√π e^(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!`.
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.6.
#[cfg(test)]
fn reference(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives};

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -5.0, 0.0, 5.0, 1000.0];
        assert_finite("erf", |x| erf(x), &points);
        assert_finite("erfc", |x| erfc(x), &points);
        assert_finite("erfinv", |x| erfinv(x), &[-0.9, 0.0, 0.9]);
        assert_eq!(derivatives(|x| erf(x), 1000.0, 2), [1.0, 0.0, 0.0]);
    }
}
