//! Initializers: how parameters start.
//!
//! All randomness comes from the [`Generator`] passed in, so one seed makes one model.
//!
//! The scaled ones depend on the numbers of values that meet in one output, `fan_in`, and that one
//! input goes to, `fan_out`. Of a weight of shape `[o, i, ...]`, `fan_in` is `i` and `fan_out` is
//! `o`, each times the size of the rest (the kernel of a convolution).

mod constant;
mod orthogonal;
mod random;
mod scaled;

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape};

pub use constant::{Constant, One, Zero};
pub use orthogonal::Orthogonal;
pub use random::{Normal, Uniform};
pub use scaled::{GlorotNormal, GlorotUniform, HeNormal, HeUniform, LeCunNormal, LeCunUniform};

/// How a parameter starts.
///
/// ```
/// use bibun::array::{Array, DType, Generator, Shape};
/// use bibun::initializers::Initializer;
///
/// /// The identity, for square weights.
/// #[derive(Debug)]
/// struct Identity;
/// impl Initializer for Identity {
///     fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
///         Array::eye(shape[0], dtype)
///     }
/// }
/// let w = Identity.initialize(&[2, 2].into(), DType::F32, &mut Generator::new(0));
/// assert_eq!(w.to_vec::<f32>(), [1.0, 0.0, 0.0, 1.0]);
/// ```
pub trait Initializer: fmt::Debug {
    /// The first value of a parameter of this shape and float dtype.
    ///
    /// # Panics
    /// If the initializer is not made for such a shape, or the dtype is no float type.
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array;
}

/// One initializer for several parameters.
impl<I: Initializer + ?Sized> Initializer for Arc<I> {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        (**self).initialize(shape, dtype, generator)
    }
}
