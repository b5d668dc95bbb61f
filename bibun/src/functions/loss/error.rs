//! Elementwise errors.

use crate::functions::families::binary;

binary! {
    /// Computes the squared error of each element, `(a - b)²`; [`mean_squared_error`] is their
    /// mean.
    ///
    /// Gradient: `2 gy (a - b)` to a, the opposite to b.
    ///
    /// ```
    /// use bibun::{functions::squared_error, Variable};
    /// assert_eq!(squared_error(Variable::new([1.0, 5.0]), 2.0).to_vec::<f64>(), [1.0, 9.0]);
    /// ```
    ///
    /// [`mean_squared_error`]: crate::functions::mean_squared_error
    squared_error(a, b) via to_float -> SquaredError {
        value: (a - b).square(),
        sample: (-2.0..2.0, -2.0..2.0, |a, b| (a - b) * (a - b)),
    }

    /// Computes the absolute error of each element, `|a - b|`; [`mean_absolute_error`] is their
    /// mean.
    ///
    /// Gradient: `gy sign(a - b)` to a, the opposite to b; 0 where they are equal.
    ///
    /// ```
    /// use bibun::{functions::absolute_error, Variable};
    /// assert_eq!(absolute_error(Variable::new([1.0, 5.0]), 2.0).to_vec::<f64>(), [1.0, 3.0]);
    /// ```
    ///
    /// [`mean_absolute_error`]: crate::functions::mean_absolute_error
    absolute_error(a, b) via to_float -> AbsoluteError {
        value: (a - b).abs(),
        sample: (0.5..2.0, -2.0..0.2, |a, b| f64::abs(a - b)),
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::absolute_error;
    use crate::{Variable, gradients};

    #[test]
    fn equal_elements_have_no_absolute_gradient() {
        let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([1.0, 3.0]));
        let gradients = gradients(&[&absolute_error(&a, &b).sum(..)], &[&a, &b]);
        assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [0.0, -1.0]);
        assert_eq!(gradients[1].as_ref().unwrap().to_vec::<f64>(), [0.0, 1.0]);
    }
}
