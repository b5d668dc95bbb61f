//! Products with logarithms, which are zero where the factor is, and entropies.

use crate::functions::families::{binary, unary};

/// `$b`, or the number whose logarithm is 0 where `$a` is 0 and `$b` has no logarithm that counts.
macro_rules! held {
    ($a:ident, $b:ident, $counts:expr; $one:literal) => {
        $a.equal(0.0).logical_and($counts).where_($one, $b)
    };
}

/// Whether one of two numbers is negative and none is NaN.
macro_rules! is_out {
    ($a:ident, $b:ident) => {
        ($a.less(0.0).logical_or($b.less(0.0)))
            .logical_and($a.is_nan().logical_or($b.is_nan()).logical_not())
    };
}

/// `log(a / b)`, where `$is_out` does not hold; elsewhere some number. Where the quotient leaves the range of
/// numbers, it is the difference of two logarithms, which would cancel near `a = b`.
macro_rules! logarithm_of_quotient {
    ($is_out:ident, $a:ident, $b:ident) => {{
        let (a, b) = ($is_out.where_(1.0, $a), $is_out.where_(1.0, $b));
        let quotient = a / b;
        let is_far = (quotient.less(1e-30)).logical_or(quotient.greater(1e30));
        let near = is_far.where_(1.0, a) / is_far.where_(1.0, b);
        is_far.where_(a.log() - b.log(), near.log())
    }};
}

binary! {
    samples in binary_samples;

    /// Computes `a log b` of each pair of elements; 0 where a is 0, whatever b is, except that NaN stays NaN.
    ///
    /// Gradient: `gy log b` to a, 0 where a is 0 and b is not positive; `gy a / b` to b, 0 where both are 0.
    ///
    /// ```
    /// use bibun::{functions::xlogy, Variable};
    /// let y = xlogy(Variable::new([0.0, 2.0]), Variable::new([0.0, 1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0]);
    /// ```
    xlogy(a, b) via to_float -> Xlogy {
        value: a * held!(a, b, b.is_nan().logical_not(); 1.0).log(),
        derivative(a, b; gy): gy * held!(a, b, b.less_equal(0.0); 1.0).log(),
        derivative(a, b; gy): gy * a / held!(a, b, b.equal(0.0); 1.0),
        sample: (0.3..2.0, 0.3..3.0, |a, b| a * b.ln()),
    }

    /// Computes `a log(1 + b)` of each pair of elements, without cancellation near zero; 0 where a is 0,
    /// whatever b is, except that NaN stays NaN.
    ///
    /// Gradient: `gy log(1 + b)` to a, 0 where a is 0 and b is at most -1; `gy a / (1 + b)` to b, 0 where a is
    /// 0 and b is -1.
    ///
    /// ```
    /// use bibun::{functions::xlog1py, Variable};
    /// let y = xlog1py(Variable::new([0.0, 2.0]), Variable::new([-1.0, 1e-20]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 2e-20]);
    /// ```
    xlog1py(a, b) via to_float -> Xlog1py {
        value: a * held!(a, b, b.is_nan().logical_not(); 0.0).log1p(),
        derivative(a, b; gy): gy * held!(a, b, b.less_equal(-1.0); 0.0).log1p(),
        derivative(a, b; gy): gy * a / (held!(a, b, b.equal(-1.0); 0.0) + 1.0),
        sample: (0.3..2.0, -0.6..2.0, |a, b| a * b.ln_1p()),
    }

    /// Computes the terms of the relative entropy, `a log(a / b)`, of each pair of elements: 0 where a is 0 and
    /// b is not negative, infinite where only b is 0 or one of them is negative.
    ///
    /// The sum of these terms is the divergence of Kullback and Leibler.
    ///
    /// Gradient: `gy (log(a / b) + 1)` to a, `-gy a / b` to b; NaN where one of them is negative.
    ///
    /// ```
    /// use bibun::{functions::rel_entr, Variable};
    /// let y = rel_entr(Variable::new([0.0, 2.0, 1.0]), Variable::new([0.5, 2.0, 0.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0, f64::INFINITY]);
    /// ```
    rel_entr(a, b) via to_float -> RelEntr {
        value: {
            let is_out = is_out!(a, b);
            let is_zero = a.equal(0.0).logical_and(b.greater_equal(0.0));
            let value = is_zero.where_(0.0, a * logarithm_of_quotient!(is_zero, a, b));
            is_out.where_(f64::INFINITY, value)
        },
        derivative(a, b; gy): {
            let is_out = is_out!(a, b);
            let logarithm = logarithm_of_quotient!(is_out, a, b);
            gy * is_out.where_(f64::NAN, logarithm + 1.0)
        },
        derivative(a, b; gy): {
            let is_out = is_out!(a, b);
            gy * is_out.where_(f64::NAN, -(a / held!(a, b, b.equal(0.0); 1.0)))
        },
        sample: (0.3..2.0, 0.3..3.0, |a, b| a * (a / b).ln()),
    }
}

unary! {
    samples in unary_samples;

    /// Computes the terms of the entropy, `-x log x`, of each element: 0 at zero, `-∞` below.
    ///
    /// Gradient: `-gy (log x + 1)`, infinite at zero and NaN below.
    ///
    /// ```
    /// use bibun::{functions::entr, Variable};
    /// let y = entr(Variable::new([0.0, 1.0, -1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0, f64::NEG_INFINITY]);
    /// ```
    entr(x) -> Entr {
        value: {
            let held = x.less_equal(0.0).where_(1.0, x);
            let value = -(x * held.log());
            x.less(0.0).where_(f64::NEG_INFINITY, x.equal(0.0).where_(0.0, value))
        },
        derivative(x; gy): -(gy * (x.log() + 1.0)),
        sample: (0.3..2.0, |x| -x * x.ln()),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [unary_samples(), binary_samples()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::partial_derivatives;
    use crate::variable::Variable;
    use crate::{grad, value_and_grad};

    #[test]
    fn where_the_factor_is_zero() {
        let log = |a: &Variable, b: &Variable| xlogy(a, b);
        let log1p = |a: &Variable, b: &Variable| xlog1py(a, b);
        for (b, to_a, to_b) in [(0.0, 0.0, 0.0), (-2.0, 0.0, -0.0), (3.0, 3f64.ln(), 0.0)] {
            assert_eq!(partial_derivatives(log, 0.0, b), [to_a, to_b]);
            assert_eq!(partial_derivatives(log1p, 0.0, b - 1.0)[1], to_b);
        }
        assert_eq!(partial_derivatives(log1p, 0.0, -1.0), [0.0, 0.0]);
        let y = xlogy(0.0, Variable::new([f64::NAN, f64::INFINITY, -1.0]));
        let y = y.to_vec::<f64>();
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [0.0, 0.0]);
        // The mixed second derivative is 1 / b there, too.
        let (a, b) = (Variable::new([0.0]), Variable::new([4.0]));
        let mixed = grad(|a| grad(|b| xlogy(a, b).sum(..), &b).sum(..), &a);
        assert_eq!(mixed.to_vec::<f64>(), [0.25]);
    }

    #[test]
    fn entropies_at_the_ends_of_their_domains() {
        let x = Variable::new([0.0, 1.0]);
        let (y, slope) = value_and_grad(|x: &Variable| entr(x).sum(..), &x);
        assert_eq!(y.item::<f64>(), 0.0);
        assert_eq!(slope.to_vec::<f64>(), [f64::INFINITY, -1.0]);
        let y = rel_entr(
            Variable::new([0.0, 0.0, 1.0, -1.0, 1.0, 1e300]),
            Variable::new([0.0, 2.0, 0.0, 1.0, -1.0, 1e-300]),
        );
        let infinity = f64::INFINITY;
        let expected = [0.0, 0.0, infinity, infinity, infinity];
        assert_eq!(y.to_vec::<f64>()[..5], expected);
        assert!((y.to_vec::<f64>()[5] / (1e300 * 600.0 * 10f64.ln()) - 1.0).abs() < 1e-14);
        assert_eq!(
            partial_derivatives(|a, b| rel_entr(a, b), 2.0, 2.0),
            [1.0, -1.0]
        );
    }
}
