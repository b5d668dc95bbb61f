//! Exponentials and logarithms.

use std::f64::consts::{LN_2, LOG2_E};

use crate::functions::families::{binary, unary};

/// `$a - $b`, which is 0 where both are the same infinity.
macro_rules! difference {
    ($a:ident, $b:ident) => {
        ($a.equal($b).logical_and($a.abs().equal(f64::INFINITY))).where_(0.0, $a - $b)
    };
}

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
    exp(x) via to_differentiable -> Exp {
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
    exp2(x) via to_differentiable -> Exp2 {
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
    expm1(x) via to_differentiable -> Expm1 {
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
    log(x) via to_differentiable -> Log {
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
    log2(x) via to_differentiable -> Log2 {
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
    log10(x) via to_differentiable -> Log10 {
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
    log1p(x) via to_differentiable -> Log1p {
        operation: Log1p,
        derivative(x; gy): gy / (x + 1.0),
        sample: (-0.6..2.0, f64::ln_1p),
    }

    /// Computes `log(1 - e⁻ˣ)` of each element, without cancellation; `-∞` at zero, NaN below.
    ///
    /// Gradient: `gy / (eˣ - 1)`, infinite at zero.
    ///
    /// Source: M. Mächler, "Accurately computing log(1 - exp(-|a|))", 2012.
    ///
    /// ```
    /// use bibun::{functions::log1mexp, Variable};
    /// let y = log1mexp(Variable::new([0.0, 1e-20, 1000.0])).to_vec::<f64>();
    /// assert_eq!(y, [f64::NEG_INFINITY, 1e-20f64.ln(), 0.0]);
    /// ```
    log1mexp(x) -> Log1mexp {
        value: {
            let is_small = x.less(LN_2);
            let small = is_small.where_(x, LN_2);
            is_small.where_((-(-small).expm1()).log(), (-(-x).exp()).log1p())
        },
        // Of the reciprocal, the second derivative would be a quotient of infinities.
        derivative(x; gy): gy * ((-x).exp() / -(-x).expm1()),
        sample: (0.2..2.0, |x| (1.0 - (-x).exp()).ln()),
    }

    /// Computes the logit `log(x / (1 - x))` of each element, the inverse of
    /// [`sigmoid`](crate::functions::sigmoid), without cancellation near 1/2; infinite at 0 and 1, NaN outside.
    ///
    /// Gradient: `gy / (x (1 - x))`, infinite at 0 and 1.
    ///
    /// ```
    /// use bibun::{functions::logit, Variable};
    /// let y = logit(Variable::new([0.0, 0.5, 1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [f64::NEG_INFINITY, 0.0, f64::INFINITY]);
    /// ```
    logit(x) -> Logit {
        value: {
            let is_middle = x.greater(0.25).logical_and(x.less(0.75));
            let middle = is_middle.where_(x, 0.5) * 2.0 - 1.0;
            is_middle.where_(middle.atanh() * 2.0, x.log() - (-x).log1p())
        },
        // Of the product, the second derivative would be a difference of infinities at the ends.
        derivative(x; gy): gy * (x.reciprocal() + (1.0 - x).reciprocal()),
        sample: (0.1..0.9, |x| (x / (1.0 - x)).ln()),
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
        derivative(a, b; gy): gy * difference!(a, b).sigmoid(),
        derivative(a, b; gy): gy * difference!(b, a).sigmoid(),
        sample: (-2.0..2.0, -2.0..2.0, |a, b| (a.exp() + b.exp()).ln()),
    }

    /// Computes `log₂(2ᵃ + 2ᵇ)`, element by element, which does not overflow.
    ///
    /// Gradient: `gy sigmoid((a - b) log 2)` to a, `gy sigmoid((b - a) log 2)` to b; where both are the same
    /// infinity, half to each.
    ///
    /// ```
    /// use bibun::{functions::logaddexp2, Variable};
    /// let y = logaddexp2(Variable::new([3.0, 2000.0]), 3.0);
    /// assert_eq!(y.to_vec::<f64>(), [4.0, 2000.0]);
    /// ```
    logaddexp2(a, b) via to_float -> LogAddExp2 {
        value: {
            let difference = a.equal(b).where_(0.0, a - b).abs();
            a.maximum(b) + (-difference).exp2().log1p() * LOG2_E
        },
        derivative(a, b; gy): gy * (difference!(a, b) * LN_2).sigmoid(),
        derivative(a, b; gy): gy * (difference!(b, a) * LN_2).sigmoid(),
        sample: (-2.0..2.0, -2.0..2.0, |a, b| (a.exp2() + b.exp2()).log2()),
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
