//! Rounding to integers. Floats stay floats; integers and `bool` are whole already and come back as
//! they are.

use super::element_kernels;
use crate::{Array, DType, elementwise};

macro_rules! rounding {
    ($($(#[$documentation:meta])* $name:ident: $method:ident;)+) => {
        $(
            #[doc = super::by_value!($name(x))]
            pub fn $name(x: Array) -> Array {
                #[derive(Clone, Copy)]
                struct Kernel<T>(std::marker::PhantomData<T>);
                element_kernels! { Kernel $name[1] [x]:
                    f32 -> f32 => x.$method();
                    f64 -> f64 => x.$method();
                }
                match x.dtype() {
                    DType::Bool | DType::I64 => x,
                    DType::F32 => elementwise(&Kernel::<f32>(std::marker::PhantomData), [x]),
                    DType::F64 => elementwise(&Kernel::<f64>(std::marker::PhantomData), [x]),
                }
            }
        )+
        impl Array {$(
            $(#[$documentation])*
            #[must_use]
            pub fn $name(&self) -> Self {
                $name(self.clone())
            }
        )+}
    };
}

rounding! {
    /// The greatest integer that is at most `x`, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).floor().to_vec::<f64>(), [1.0, -2.0]);
    /// ```
    floor: floor;

    /// The least integer that is at least `x`, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).ceil().to_vec::<f64>(), [2.0, -1.0]);
    /// ```
    ceil: ceil;

    /// The integer part, towards zero, in the dtype of `x`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5, -1.5]).trunc().to_vec::<f64>(), [1.0, -1.0]);
    /// ```
    trunc: trunc;

    /// The nearest integer, in the dtype of `x`; halves go to the even one, as in NumPy and IEEE
    /// 754.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.5, 1.5, -2.6]).round().to_vec::<f64>(), [0.0, 2.0, -3.0]);
    /// ```
    round: round_ties_even;
}
