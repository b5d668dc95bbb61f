//! Exponentials and logarithms.

use crate::functions::families::{binary, unary};

unary! {
    samples in unary_samples;

    /// Computes the exponential `eˣ` of each element.
    ///
    /// Gradient: `gy y`.
    ///
    /// ```
    /// use bibun::{functions::exp, Variable};
    /// assert_eq!(exp(Variable::new([0.0, -1000.0])).to_vec::<f64>(), [1.0, 0.0]);
    /// ```
    exp(x) -> Exp {
        operation: Exp,
        derivative(y; gy): gy * y,
        sample: (-2.0..2.0, f64::exp),
    }

    /// Computes the power `2ˣ` of each element.
    ///
    /// Gradient: `gy y log 2`.
    ///
    /// ```
    /// use bibun::{functions::exp2, Variable};
    /// assert_eq!(exp2(Variable::new([3.0, -1.0])).to_vec::<f64>(), [8.0, 0.5]);
    /// ```
    exp2(x) -> Exp2 {
        operation: Exp2,
        derivative(y; gy): gy * y * std::f64::consts::LN_2,
        sample: (-2.0..2.0, f64::exp2),
    }

    /// Computes `eˣ - 1` of each element, without cancellation near zero.
    ///
    /// Gradient: `gy eˣ`.
    ///
    /// ```
    /// use bibun::{functions::expm1, Variable};
    /// assert_eq!(expm1(Variable::new([0.0, 1e-20])).to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    expm1(x) -> Expm1 {
        operation: Expm1,
        derivative(x; gy): gy * x.exp(),
        sample: (-2.0..2.0, f64::exp_m1),
    }

    /// Computes the natural logarithm of each element; `-∞` at zero, NaN for negative numbers.
    ///
    /// Gradient: `gy / x`, infinite at zero.
    ///
    /// ```
    /// use bibun::{functions::log, Variable};
    /// assert_eq!(log(Variable::new([1.0, 0.0])).to_vec::<f64>(), [0.0, f64::NEG_INFINITY]);
    /// ```
    log(x) -> Log {
        operation: Log,
        derivative(x; gy): gy / x,
        sample: (0.3..3.0, f64::ln),
    }

    /// Computes the logarithm to base 2 of each element; `-∞` at zero, NaN for negative numbers.
    ///
    /// Gradient: `gy / (x log 2)`, infinite at zero.
    ///
    /// ```
    /// use bibun::{functions::log2, Variable};
    /// assert_eq!(log2(Variable::new([8.0, 0.5])).to_vec::<f64>(), [3.0, -1.0]);
    /// ```
    log2(x) -> Log2 {
        operation: Log2,
        derivative(x; gy): gy / x * std::f64::consts::LOG2_E,
        sample: (0.3..3.0, f64::log2),
    }

    /// Computes the logarithm to base 10 of each element; `-∞` at zero, NaN for negative numbers.
    ///
    /// Gradient: `gy / (x log 10)`, infinite at zero.
    ///
    /// ```
    /// use bibun::{functions::log10, Variable};
    /// assert_eq!(log10(Variable::new([1.0, 1000.0])).to_vec::<f64>(), [0.0, 3.0]);
    /// ```
    log10(x) -> Log10 {
        operation: Log10,
        derivative(x; gy): gy / x * std::f64::consts::LOG10_E,
        sample: (0.3..3.0, f64::log10),
    }

    /// Computes `log(1 + x)` of each element, without cancellation near zero; `-∞` at -1, NaN
    /// below.
    ///
    /// Gradient: `gy / (1 + x)`, infinite at -1.
    ///
    /// ```
    /// use bibun::{functions::log1p, Variable};
    /// assert_eq!(log1p(Variable::new([0.0, 1e-20])).to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    log1p(x) -> Log1p {
        operation: Log1p,
        derivative(x; gy): gy / (x + 1.0),
        sample: (-0.6..2.0, f64::ln_1p),
    }
}

binary! {
    samples in binary_samples;

    /// Computes `log(eᵃ + eᵇ)`, element by element, which neither overflows nor cancels.
    ///
    /// Gradient: `gy sigmoid(a - b)` to a, `gy sigmoid(b - a)` to b; where both are the same
    /// infinity, half to each.
    ///
    /// ```
    /// use bibun::{functions::logaddexp, Variable};
    /// let y = logaddexp(Variable::new([0.0, 1000.0]), 0.0);
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::LN_2, 1000.0]);
    /// ```
    logaddexp(a, b) via to_float -> LogAddExp {
        operation: Logaddexp,
        derivative(a, b; gy): gy * a
            .equal(b)
            .logical_and(a.abs().equal(f64::INFINITY))
            .where_(0.0, a - b)
            .sigmoid(),
        derivative(a, b; gy): gy * a
            .equal(b)
            .logical_and(a.abs().equal(f64::INFINITY))
            .where_(0.0, b - a)
            .sigmoid(),
        sample: (-2.0..2.0, -2.0..2.0, |a, b| (a.exp() + b.exp()).ln()),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [unary_samples(), binary_samples()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variable;
    use crate::functions::probe::{assert_finite, derivatives, partial_derivatives};

    #[test]
    fn logaddexp_far_from_zero() {
        for (a, b) in [
            (1000.0, -1000.0),
            (-1000.0, 1000.0),
            (1000.0, 1000.0),
            (0.0, 0.0),
        ] {
            assert_finite("logaddexp a", |x| logaddexp(x + a, b), &[0.0, 1.0, -1.0]);
            assert_finite("logaddexp b", |x| logaddexp(a, x + b), &[0.0, 1.0, -1.0]);
        }
        let infinity = f64::INFINITY;
        assert_eq!(
            partial_derivatives(|a, b| logaddexp(a, b), infinity, infinity),
            [0.5, 0.5]
        );
        assert_eq!(
            partial_derivatives(|a, b| logaddexp(a, b), -infinity, -infinity),
            [0.5, 0.5]
        );
        assert_eq!(
            partial_derivatives(|a, b| logaddexp(a, b), -infinity, 3.0),
            [0.0, 1.0]
        );
        let y = logaddexp(Variable::new([0, 1]), Variable::new([0, 1]));
        assert_eq!(y.to_vec::<f64>()[0], std::f64::consts::LN_2);
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(derivatives(|x| expm1(x), -1000.0, 2), [-1.0, 0.0, 0.0]);
        assert_eq!(derivatives(|x| exp(x), -1000.0, 2), [0.0; 3]);
        assert_eq!(
            derivatives(|x| log(x), 0.0, 1),
            [f64::NEG_INFINITY, f64::INFINITY]
        );
        assert!(derivatives(|x| log(x), -1.0, 0)[0].is_nan());
        assert_eq!(derivatives(|x| log1p(x), 1e-20, 2), [1e-20, 1.0, -1.0]);
    }
}
