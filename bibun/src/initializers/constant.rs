//! Initializers with one value everywhere.

use bibun_array::{Array, DType, Generator, Scalar, Shape};

use super::Initializer;

/// Zeros, the usual initial value of biases.
#[derive(Clone, Copy, Debug)]
pub struct Zero;

/// Ones, the usual initial value of scales.
#[derive(Clone, Copy, Debug)]
pub struct One;

/// One value everywhere.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Constant, Initializer};
/// let b = Constant(0.1).initialize(&[3].into(), DType::F64, &mut Generator::new(0));
/// assert_eq!(b.to_vec::<f64>(), [0.1; 3]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub f64);

impl Initializer for Constant {
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        Array::full(shape, Scalar::from(self.0).cast(dtype))
    }
}

impl Initializer for Zero {
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        Array::zeros(shape, dtype)
    }
}

impl Initializer for One {
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        Array::ones(shape, dtype)
    }
}
