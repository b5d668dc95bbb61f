//! Random numbers of a given spread.

use bibun_array::{Array, DType, Generator, Shape};

use super::Initializer;

/// Normally distributed numbers.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, Normal};
/// let normal = Normal { mean: 0.0, std: 0.02 };
/// let w = normal.initialize(&[50, 4].into(), DType::F32, &mut Generator::new(0));
/// assert!(w.to_vec::<f32>().iter().all(|w| w.abs() < 0.2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
}

impl Initializer for Normal {
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        generator.normal(shape, self.mean, self.std, dtype)
    }
}

/// Numbers equally likely everywhere on `[low, high)`.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, Uniform};
/// let uniform = Uniform { low: -0.1, high: 0.1 };
/// let w = uniform.initialize(&[50, 4].into(), DType::F64, &mut Generator::new(0));
/// assert!(w.to_vec::<f64>().iter().all(|w| (-0.1..0.1).contains(w)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// The lower end, which is included.
    pub low: f64,
    /// The upper end, which is not.
    pub high: f64,
}

impl Initializer for Uniform {
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        generator.uniform(shape, self.low, self.high, dtype)
    }
}
