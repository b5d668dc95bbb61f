//! Rectifiers.

use bibun_array::Shape;

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::{method, unary};
use crate::functions::{Operand, reshape};
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    /// Computes the rectified linear unit `max(x, 0)` of each element.
    ///
    /// Gradient: `gy` where `x > 0`, zero elsewhere, also at zero.
    ///
    /// ```
    /// use bibun::{functions::relu, Variable};
    /// assert_eq!(relu(Variable::new([-1.0, 2.0])).to_vec::<f64>(), [0.0, 2.0]);
    /// ```
    relu(x) -> Relu {
        value: x.maximum(0.0),
        fused(y; gy): y.greater(0.0).where_(gy, 0.0),
        sample: (-2.0..2.0, |x| x.max(0.0)),
    }

    /// Computes `min(max(x, 0), 6)` of each element.
    ///
    /// Gradient: `gy` where `0 < x < 6`, zero elsewhere, also at both ends.
    ///
    /// ```
    /// use bibun::{functions::relu6, Variable};
    /// assert_eq!(relu6(Variable::new([-1.0, 2.0, 7.0])).to_vec::<f64>(), [0.0, 2.0, 6.0]);
    /// ```
    relu6(x) -> Relu6 {
        value: x.maximum(0.0).minimum(6.0),
        fused(y; gy): y.greater(0.0).logical_and(y.less(6.0)).where_(gy, 0.0),
        sample: (-4.0..10.0, |x| x.clamp(0.0, 6.0)),
    }

    /// Computes `min(max(x, 0), limit)` of each element.
    ///
    /// Gradient: `gy` where `0 < x < limit`, zero elsewhere, also at both ends; to `limit`, if it is
    /// a Variable, `gy` where it is the result.
    ///
    /// ```
    /// use bibun::{functions::clipped_relu, Variable};
    /// let y = clipped_relu(Variable::new([-1.0, 2.0, 30.0]), 20.0);
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 2.0, 20.0]);
    /// ```
    clipped_relu(x, limit) -> ClippedRelu {
        value: x.maximum(0.0).minimum(limit),
        fused(x; gy): x.greater(0.0).logical_and(x.less(limit)).where_(gy, 0.0),
        parameter(x; gy): x.maximum(0.0).greater_equal(limit).where_(gy, 0.0),
        sample(0.8): (-2.0..2.0, move |x| x.clamp(0.0, limit)),
    }

    /// Computes the leaky rectifier of each element: `x` where it is positive, `slope x` elsewhere.
    ///
    /// Gradient: `gy` where `x > 0`, `slope gy` elsewhere, also at zero; to `slope`, if it is a
    /// Variable, `gy x` where x is not positive.
    ///
    /// ```
    /// use bibun::{functions::leaky_relu, Variable};
    /// assert_eq!(leaky_relu(Variable::new([-1.0, 2.0]), 0.5).to_vec::<f64>(), [-0.5, 2.0]);
    /// ```
    leaky_relu(x, slope) -> LeakyRelu {
        value: x.greater(0.0).where_(x, slope * x),
        fused(x; gy): x.greater(0.0).where_(gy, slope * gy),
        parameter(x; gy): x.greater(0.0).where_(0.0, gy * x),
        sample(0.2): (-2.0..2.0, move |x| if x > 0.0 { x } else { slope * x }),
    }
}

/// Computes the rectifier with a learned slope: `x` where it is positive, `w x` elsewhere.
///
/// Shapes: x \[n, ...\], w the sizes of the axes of x from the second on, or 1, or the first few of
/// these (\[c\] is one slope for each channel, \[1\] and \[\] are one for all) → the shape of x.
/// Types: floats.
/// Gradient: to x `gy` where `x > 0`, `w gy` elsewhere; to w the sum of `gy x` over the elements
/// that are not positive.
///
/// Source: He, Zhang, Ren and Sun, "Delving Deep into Rectifiers", 2015.
///
/// # Panics
/// Panics if the sizes of w are not those of x.
///
/// ```
/// use bibun::{functions::prelu, Variable};
/// let x = Variable::new([[-1.0, -1.0], [2.0, -4.0]]);
/// let w = Variable::new([0.5, 0.25]);
/// assert_eq!(prelu(&x, &w).to_vec::<f64>(), [-0.5, -0.25, 2.0, -1.0]);
/// ```
#[track_caller]
pub fn prelu(x: impl Into<Variable>, w: impl Into<Operand>) -> Variable {
    let _whole = composite("prelu");
    let x = x.into();
    let w = w.into().beside(x.dtype());
    let (x_spec, w_spec) = (x.spec(), w.spec());
    let mut sizes = x_spec.shape.iter().skip(1).zip(w_spec.shape.iter());
    if w.rank() >= x.rank().max(1) || sizes.any(|(x, w)| x != w && *w != 1) {
        let what =
            format!("w = {w_spec} must be the sizes of x = {x_spec} from the second axis on, or 1");
        raise(Error::argument("prelu", what));
    }
    let trailing = x.rank().saturating_sub(1 + w.rank());
    let ones = std::iter::repeat_n(&1, trailing);
    let shape: Shape = w_spec.shape.iter().chain(ones).copied().collect();
    leaky_relu(x, reshape(w, shape))
}
method!(prelu, w: impl Into<Operand>);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use crate::conformance::Sample;
    let mut samples = unary_samples();
    samples.push(
        Sample::new(
            "prelu",
            |x| vec![prelu(&x[0], &x[1])],
            |x| {
                let (x, w) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
                let y = x.iter().enumerate();
                let y = y.map(|(i, &x)| if x > 0.0 { x } else { w[i / 2 % 3] * x });
                vec![Array::from_vec(y.collect(), [2, 3, 2])]
            },
        )
        .input([2, 3, 2], -2.0..2.0)
        .input([3], 0.1..0.5),
    );
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient};

    #[test]
    fn kinks() {
        assert_eq!(derivatives(|x| relu(x), 0.0, 2), [0.0; 3]);
        assert_eq!(gradient(|x| relu(x), 1e-300), 1.0);
        assert_eq!(gradient(|x| relu6(x), 6.0), 0.0);
        assert_eq!(gradient(|x| relu6(x), 0.0), 0.0);
        assert_eq!(gradient(|x| clipped_relu(x, 2.0), 2.0), 0.0);
        assert_eq!(gradient(|x| clipped_relu(x, 2.0), 1.9), 1.0);
        assert_eq!(gradient(|x| leaky_relu(x, 0.1), 0.0), 0.1);
        assert!(derivatives(|x| relu(x), f64::NAN, 0)[0].is_nan());
    }

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -1.0, 0.0, 1.0, 1000.0];
        assert_finite("relu", |x| relu(x), &points);
        assert_finite("relu6", |x| relu6(x), &points);
        assert_finite("clipped_relu", |x| clipped_relu(x, 20.0), &points);
        assert_finite("leaky_relu", |x| leaky_relu(x, 0.2), &points);
    }

    #[test]
    fn slopes_of_prelu() {
        let x = Variable::new([[-1.0, 2.0], [-3.0, -4.0]]);
        let w = Variable::new(0.5);
        let y = prelu(&x, &w);
        assert_eq!(y.to_vec::<f64>(), [-0.5, 2.0, -1.5, -2.0]);
        y.sum(..).backward();
        assert_eq!(w.grad().expect("a gradient").item::<f64>(), -8.0);
        assert_eq!(
            prelu(&x, Variable::new([0.5])).to_vec::<f64>(),
            y.to_vec::<f64>()
        );
        let wrong = Variable::new([0.5, 0.5, 0.5]);
        let error = crate::attempt(|| prelu(&x, &wrong)).expect_err("three slopes for two");
        assert!(error.to_string().contains("w = [3] f64"), "{error}");
    }
}
