//! Initializers of parameters.
//!
//! All randomness comes from the [`Generator`] that is passed in, so the same seed always gives the
//! same model.
//!
//! The scaled initializers depend on the number of inputs that contribute to one output, `fan_in`,
//! and the number of outputs that one input contributes to, `fan_out`. For a weight of shape
//! `[o, i, ...]`, `fan_in` is `i` and `fan_out` is `o`, each times the size of the rest (the kernel
//! of a convolution).

mod constant;
mod orthogonal;
mod pattern;
mod random;
mod scaled;

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape};

pub use constant::{Constant, One, Zero};
pub use orthogonal::Orthogonal;
pub use pattern::{Dirac, Identity, LinearUpsampling};
pub use random::{Normal, Sparse, TruncatedNormal, Uniform};
pub use scaled::{
    Fan, FanInNormal, FanInUniform, GlorotNormal, GlorotUniform, HeNormal, HeUniform, LeCunNormal,
    LeCunUniform, Nonlinearity, Spread, VarianceScaling,
};

/// An initializer of a parameter.
///
/// ```
/// use bibun::array::{Array, DType, Generator, Shape};
/// use bibun::initializers::{Initializer, One};
///
/// /// Twice what another one gives.
/// #[derive(Debug)]
/// struct Double<I>(I);
/// impl<I: Initializer> Initializer for Double<I> {
///     fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
///         self.0.initialize(shape, dtype, generator) * 2.0
///     }
/// }
/// let w = Double(One).initialize(&[2].into(), DType::F32, &mut Generator::new(0));
/// assert_eq!(w.to_vec::<f32>(), [2.0, 2.0]);
/// ```
pub trait Initializer: fmt::Debug {
    /// Returns the initial value of a parameter of this shape and float dtype.
    ///
    /// # Panics
    /// Panics if the initializer does not support such a shape, or the dtype is not a float type.
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array;
}

/// A shared initializer, for several parameters.
impl<I: Initializer + ?Sized> Initializer for Arc<I> {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        (**self).initialize(shape, dtype, generator)
    }
}
