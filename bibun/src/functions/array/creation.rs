//! Constants with the shape and dtype of a given value.

use bibun_array::{Array, Scalar};

use crate::function::Spec;
use crate::variable::Variable;

/// Returns zeros (or `false`) of the shape and dtype of x. They take no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::zeros_like, Variable};
/// assert_eq!(zeros_like(&Variable::new([1.0, 2.0])).to_vec::<f64>(), [0.0, 0.0]);
/// ```
pub fn zeros_like(x: impl Into<Variable>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::zeros(shape, dtype))
}

/// Returns ones (or `true`) of the shape and dtype of x. They take no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::ones_like, Variable};
/// assert_eq!(ones_like(&Variable::new([1.0, 2.0])).to_vec::<f64>(), [1.0, 1.0]);
/// ```
pub fn ones_like(x: impl Into<Variable>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::ones(shape, dtype))
}

/// Returns an array of one value, of the shape and dtype of x. It takes no memory.
///
/// Shapes: x any → the same. Types: all. Gradient: none.
///
/// ```
/// use bibun::{functions::full_like, Variable};
/// assert_eq!(full_like(&Variable::new([1.0f32, 2.0]), 7).to_vec::<f32>(), [7.0, 7.0]);
/// ```
#[track_caller]
pub fn full_like(x: impl Into<Variable>, value: impl Into<Scalar>) -> Variable {
    let Spec { shape, dtype } = x.into().spec();
    Variable::constant(Array::full(shape, value.into().beside(dtype).cast(dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use bibun_array::DType;

    #[test]
    fn the_dtype_is_that_of_x() {
        let flags = Variable::constant([true, false]);
        assert_eq!(zeros_like(&flags).to_vec::<bool>(), [false, false]);
        assert_eq!(ones_like(&flags).to_vec::<bool>(), [true, true]);
        assert_eq!(full_like([1i64], 2.5).to_vec::<i64>(), [2]);
        assert_eq!(zeros_like(Variable::new(1.0f32)).dtype(), DType::F32);
    }

    #[test]
    fn they_are_constants_of_one_batch_element() {
        let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        assert!(!ones_like(&x).requires_grad());
        let y = vmap(|v| vec![full_like(&v[0], 5.0)], &[x], &[Some(1)]);
        assert_eq!(y[0].to_vec::<f64>(), [5.0; 4]);
    }
}
