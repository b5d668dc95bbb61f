//! Rounding to integers. Floats stay floats; integers and `bool` are whole already and are returned
//! unchanged.

use crate::{Array, Definition};

macro_rules! rounding {
    ($($(#[$documentation:meta])* $name:ident -> $DEFINITION:ident;)+) => {
        $(
            pub(crate) static $DEFINITION: Definition =
                super::definition! { $name[1] [x]: integer: x, float: x.$name(), };

            #[doc = super::by_value!($name(x))]
            #[track_caller]
            pub fn $name(x: Array) -> Array {
                match x.dtype().is_differentiable() {
                    true => super::run(&$DEFINITION, [x]),
                    false => x,
                }
            }
        )+
        impl Array {$(
            $(#[$documentation])*
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Self {
                $name(self.clone())
            }
        )+}
    };
}

rounding! {
    /// Returns the greatest integer that is at most `x`, for each element, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).floor().to_vec::<f64>(), [1.0, -2.0]);
    /// ```
    floor -> FLOOR;

    /// Returns the least integer that is at least `x`, for each element, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).ceil().to_vec::<f64>(), [2.0, -1.0]);
    /// ```
    ceil -> CEIL;

    /// Returns the integer part of each element, rounded towards zero, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).trunc().to_vec::<f64>(), [1.0, -1.0]);
    /// ```
    trunc -> TRUNC;

    /// Returns the nearest integer of each element, in the dtype of `x`. Halves go to the even one,
    /// as in NumPy and IEEE 754.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.5, 1.5, -2.6]).round().to_vec::<f64>(), [0.0, 2.0, -3.0]);
    /// ```
    round -> ROUND;
}
