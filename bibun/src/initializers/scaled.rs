//! Random numbers scaled so that signals neither die out nor blow up on their way through layers.

use bibun_array::{Array, DType, Generator, Shape};

use super::Initializer;
use crate::error::{Error, raise};

/// How many values meet in one output of a weight, and how many outputs one input reaches.
#[track_caller]
fn fans(initializer: &'static str, shape: &Shape) -> (f64, f64) {
    let [outputs, inputs, kernel @ ..] = &**shape else {
        let what = format!("the shape is {shape}, expected the one of a weight, [o, i, ...]");
        raise(Error::argument(initializer, what))
    };
    let kernel: usize = kernel.iter().product();
    ((inputs * kernel) as f64, (outputs * kernel) as f64)
}

/// Declares the normal and the uniform initializer of one variance.
macro_rules! scaled {
    (
        $(#[$documentation:meta])*
        |$fan_in:ident, $fan_out:ident| $variance:expr,
        $normal_range:literal, $uniform_range:literal,
        $Normal:ident, $Uniform:ident
    ) => {
        #[doc = concat!("Normally distributed with mean 0 and standard deviation ", $normal_range, ".")]
        ///
        $(#[$documentation])*
        ///
        /// ```
        /// use bibun::array::{DType, Generator};
        #[doc = concat!("use bibun::initializers::{Initializer, ", stringify!($Normal), "};")]
        #[doc = concat!("let w = ", stringify!($Normal))]
        ///     .initialize(&[30, 20].into(), DType::F32, &mut Generator::new(0));
        /// assert_eq!(w.shape(), &[30, 20][..]);
        /// ```
        #[derive(Clone, Copy, Debug)]
        pub struct $Normal;

        impl Initializer for $Normal {
            #[track_caller]
            fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
                let ($fan_in, $fan_out) = fans(stringify!($Normal), shape);
                if shape.size() == 0 {
                    return Array::zeros(shape, dtype);
                }
                let variance: f64 = $variance;
                generator.normal(shape, 0.0, variance.sqrt(), dtype)
            }
        }

        #[doc = concat!("Uniformly distributed on ±", $uniform_range, ".")]
        ///
        $(#[$documentation])*
        ///
        /// ```
        /// use bibun::array::{DType, Generator};
        #[doc = concat!("use bibun::initializers::{Initializer, ", stringify!($Uniform), "};")]
        #[doc = concat!("let w = ", stringify!($Uniform))]
        ///     .initialize(&[30, 20].into(), DType::F32, &mut Generator::new(0));
        /// assert_eq!(w.shape(), &[30, 20][..]);
        /// ```
        #[derive(Clone, Copy, Debug)]
        pub struct $Uniform;

        impl Initializer for $Uniform {
            #[track_caller]
            fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
                let ($fan_in, $fan_out) = fans(stringify!($Uniform), shape);
                if shape.size() == 0 {
                    return Array::zeros(shape, dtype);
                }
                let variance: f64 = $variance;
                // The variance of the uniform distribution on ±r is r² / 3.
                let range = (3.0 * variance).sqrt();
                generator.uniform(shape, -range, range, dtype)
            }
        }
    };
}

scaled! {
    /// Keeps the size of signals through linear layers and those with `selu`. Source: LeCun,
    /// Bottou, Orr, Müller, "Efficient BackProp", 1998.
    |fan_in, _fan_out| 1.0 / fan_in,
    "`√(1 / fan_in)`", "`√(3 / fan_in)`",
    LeCunNormal, LeCunUniform
}

scaled! {
    /// A compromise between keeping the size of signals forward and of gradients backward, for
    /// layers with `tanh` and the like. Source: Glorot, Bengio, "Understanding the difficulty of
    /// training deep feedforward neural networks", AISTATS 2010.
    |fan_in, fan_out| 2.0 / (fan_in + fan_out),
    "`√(2 / (fan_in + fan_out))`", "`√(6 / (fan_in + fan_out))`",
    GlorotNormal, GlorotUniform
}

scaled! {
    /// Keeps the size of signals through layers with `relu`, which halves their variance. Source:
    /// He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015.
    |fan_in, _fan_out| 2.0 / fan_in,
    "`√(2 / fan_in)`", "`√(6 / fan_in)`",
    HeNormal, HeUniform
}
