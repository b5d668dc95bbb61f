//! Shrinkage towards zero, and thresholds.

use bibun_array::Number;

use crate::functions::families::unary;

unary! {
    samples in unary_samples;

    /// Computes `x - tanh x` of each element.
    ///
    /// Gradient: `gy tanh² x`.
    ///
    /// ```
    /// use bibun::{functions::tanhshrink, Variable};
    /// assert_eq!(tanhshrink(Variable::new([0.0, 1000.0])).to_vec::<f64>(), [0.0, 999.0]);
    /// ```
    tanhshrink(x) -> Tanhshrink {
        // Near 0, Lambert's continued fraction of tanh is used, because it has no cancellation.
        value: {
            let z = x * x;
            let mut t = z / 19.0;
            for n in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
                t = z / (n + t);
            }
            x.abs().less(1.0).where_(x * t / (1.0 + t), x - x.tanh())
        },
        derivative(x; gy): gy * x.tanh().square(),
        sample: (-3.0..3.0, |x| x - x.tanh()),
    }

    /// Moves each element towards zero by `lambda`; elements nearer to zero than that become zero.
    ///
    /// Gradient: `gy` where `|x| > lambda`, zero elsewhere, also at the bounds; to `lambda`, if it is
    /// a Variable, `-gy sign(x)` in the same places.
    ///
    /// ```
    /// use bibun::{functions::softshrink, Variable};
    /// let y = softshrink(Variable::new([-2.0, 0.25, 2.0]), 0.5);
    /// assert_eq!(y.to_vec::<f64>(), [-1.5, 0.0, 1.5]);
    /// ```
    softshrink(x, lambda) -> Softshrink {
        value: x - x.maximum(-lambda).minimum(lambda),
        derivative(x; gy): x.abs().greater(lambda).where_(gy, 0.0),
        parameter(x; gy): x
            .maximum(-lambda)
            .greater(lambda)
            .where_(-gy, x.less(-lambda).where_(gy, 0.0)),
        sample(0.6): (-2.0..2.0, move |x| {
            if x > lambda {
                x - lambda
            } else if x < -lambda {
                x + lambda
            } else {
                0.0
            }
        }),
    }

    /// Returns `x` with zero in place of the elements whose magnitude is at most `lambda`.
    ///
    /// Gradient: `gy` where `|x| > lambda`, zero elsewhere, also at the bounds, and to `lambda`.
    ///
    /// ```
    /// use bibun::{functions::hardshrink, Variable};
    /// let y = hardshrink(Variable::new([-2.0, 0.25, 2.0]), 0.5);
    /// assert_eq!(y.to_vec::<f64>(), [-2.0, 0.0, 2.0]);
    /// ```
    hardshrink(x, lambda) -> Hardshrink {
        value: x.abs().less_equal(lambda).where_(0.0, x),
        derivative(x; gy): x.abs().greater(lambda).where_(gy, 0.0),
        parameter(; gy): Number::from(0.0),
        sample(0.6): (0.7..2.0, move |x| if x.abs() > lambda { x } else { 0.0 }),
    }

    /// Returns `x` where it is greater than `bound`, and `replacement` elsewhere.
    ///
    /// Gradient: `gy` where `x > bound`, zero elsewhere, also at the bound; to `replacement`, if it is
    /// a Variable, `gy` where it is the result; zero to `bound`.
    ///
    /// ```
    /// use bibun::{functions::threshold, Variable};
    /// let y = threshold(Variable::new([-2.0, 0.25, 2.0]), 0.5, -1.0);
    /// assert_eq!(y.to_vec::<f64>(), [-1.0, -1.0, 2.0]);
    /// ```
    threshold(x, bound, replacement) -> Threshold {
        value: x.less_equal(bound).where_(replacement, x),
        derivative(x; gy): x.greater(bound).where_(gy, 0.0),
        parameter(; gy): Number::from(0.0),
        parameter(x; gy): x.less_equal(bound).where_(gy, 0.0),
        sample(0.4, 3.0): (-2.0..2.0, move |x| if x > bound { x } else { replacement }),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let mut samples = unary_samples();
    // It jumps at its bounds, so that there are samples between and beyond them.
    for (range, is_near) in [(-0.5..0.5, true), (-2.0..-0.7, false)] {
        let reference = move |x| if is_near { 0.0 } else { x };
        samples.push(Sample::unary(
            "hardshrink",
            range,
            |x| hardshrink(x, 0.6),
            reference,
        ));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient};

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -1.0, 0.0, 1.0, 1000.0];
        assert_finite("tanhshrink", |x| tanhshrink(x), &points);
        assert_finite("softshrink", |x| softshrink(x, 0.5), &points);
        assert_finite("hardshrink", |x| hardshrink(x, 0.5), &points);
        assert_finite("threshold", |x| threshold(x, 0.5, 2.0), &points);
    }

    #[test]
    fn bounds() {
        for x in [-0.5, 0.0, 0.5] {
            assert_eq!(derivatives(|x| softshrink(x, 0.5), x, 1), [0.0, 0.0]);
            assert_eq!(derivatives(|x| hardshrink(x, 0.5), x, 1), [0.0, 0.0]);
        }
        assert_eq!(gradient(|x| threshold(x, 0.5, 0.0), 0.5), 0.0);
        assert_eq!(gradient(|x| softshrink(x, 0.5), -0.6), 1.0);
        assert!(derivatives(|x| softshrink(x, 0.5), f64::NAN, 0)[0].is_nan());
    }
}
