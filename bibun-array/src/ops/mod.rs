//! The elementwise functions, taking arrays by value.
//!
//! An array that is passed by value and shared with nobody gives its memory to the result:
//! `ops::exp(ops::negative(x))` allocates nothing. The methods of [`Array`](crate::Array) of the
//! same names borrow instead, and their documentation says what each function computes.
//!
//! ```
//! use bibun_array::{ops, Array};
//! let x = Array::from([0.0, 1.0]);
//! let y = ops::exp(ops::negative(x.clone()));
//! assert_eq!(y.to_vec::<f64>(), (-&x).exp().to_vec::<f64>());
//! ```
//!
//! Functions of floats take integers and `bool` as `f64`. Functions of two arrays broadcast them
//! and compute in [`DType::promote`](crate::DType::promote) of their dtypes.

mod arithmetic;
mod comparison;
mod elementary;
mod rounding;
mod selection;

pub use arithmetic::*;
pub use comparison::*;
pub use elementary::*;
pub use rounding::*;
pub use selection::*;

/// An [`ElementKernel`](crate::ElementKernel) of the enclosing type `$kernel<T>` for each type `T`
/// listed: the number of inputs, the pattern that names them, and the value at each element.
macro_rules! element_kernels {
    (
        $kernel:ident $name:ident[$count:literal] $inputs:tt:
        $($T:ident -> $Y:ident => $value:expr;)+
    ) => {$(
        impl $crate::ElementKernel<$count> for $kernel<$T> {
            type Input = $T;
            type Output = $Y;
            const NAME: &'static str = stringify!($name);
            #[inline(always)]
            fn apply(self, $inputs: [$T; $count]) -> $Y {
                $value
            }
        }
    )+};
}
pub(super) use element_kernels;

/// The documentation of a by-value function whose method tells the rest.
macro_rules! by_value {
    ($name:ident(x)) => {
        $crate::ops::by_value!(@text $name, "an array", "(x.clone())", "()")
    };
    ($name:ident(a, b)) => {
        $crate::ops::by_value!(@text $name, "arrays", "(x.clone(), x.clone())", "(&x)")
    };
    (@text $name:ident, $what:literal, $values:literal, $references:literal) => {
        concat!(
            "[`Array::", stringify!($name), "`](crate::Array::", stringify!($name), ") of ", $what,
            " by value, whose memory may become that of the result.\n\n",
            "```\n",
            "use bibun_array::{ops, Array};\n",
            "let x = Array::from([1, 2]);\n",
            "let y = ops::", stringify!($name), $values, ";\n",
            "assert_eq!(y.to_string(), x.", stringify!($name), $references, ".to_string());\n",
            "```\n",
        )
    };
}
pub(super) use by_value;

/// Functions of one array of numbers: what `bool` is taken as, then an expression for `i64` and one
/// for floats.
macro_rules! unary_of_numbers {
    ($($(#[$documentation:meta])* $name:ident($x:ident) {
        i64: $integer:expr,
        float: $float:expr $(,)?
    })+) => {
        $(
            #[doc = $crate::ops::by_value!($name(x))]
            pub fn $name($x: $crate::Array) -> $crate::Array {
                #[derive(Clone, Copy)]
                struct Kernel<T>(std::marker::PhantomData<T>);
                $crate::ops::element_kernels! { Kernel $name[1] [$x]:
                    i64 -> i64 => $integer;
                    f32 -> f32 => $float;
                    f64 -> f64 => $float;
                }
                use $crate::{DType, elementwise};
                match $x.dtype() {
                    DType::Bool => $name($crate::ops::cast($x, DType::I64)),
                    DType::I64 => elementwise(&Kernel::<i64>(std::marker::PhantomData), [$x]),
                    DType::F32 => elementwise(&Kernel::<f32>(std::marker::PhantomData), [$x]),
                    DType::F64 => elementwise(&Kernel::<f64>(std::marker::PhantomData), [$x]),
                }
            }
        )+
        impl $crate::Array {$(
            $(#[$documentation])*
            #[must_use]
            pub fn $name(&self) -> Self {
                $name(self.clone())
            }
        )+}
    };
}
pub(super) use unary_of_numbers;

/// Functions of one array of floats, which take integers and `bool` as `f64`.
macro_rules! unary_of_floats {
    ($($(#[$documentation:meta])* $name:ident($x:ident): $value:expr;)+) => {
        $(
            #[doc = $crate::ops::by_value!($name(x))]
            pub fn $name($x: $crate::Array) -> $crate::Array {
                #[derive(Clone, Copy)]
                struct Kernel<T>(std::marker::PhantomData<T>);
                $crate::ops::element_kernels! { Kernel $name[1] [$x]:
                    f32 -> f32 => $value;
                    f64 -> f64 => $value;
                }
                use $crate::{DType, elementwise};
                match $x.dtype() {
                    DType::Bool | DType::I64 => $name($crate::ops::cast($x, DType::F64)),
                    DType::F32 => elementwise(&Kernel::<f32>(std::marker::PhantomData), [$x]),
                    DType::F64 => elementwise(&Kernel::<f64>(std::marker::PhantomData), [$x]),
                }
            }
        )+
        impl $crate::Array {$(
            $(#[$documentation])*
            #[must_use]
            pub fn $name(&self) -> Self {
                $name(self.clone())
            }
        )+}
    };
}
pub(super) use unary_of_floats;

/// Functions of two arrays: an expression for each dtype in which they are computed with the type
/// of the result there, and at the end how the promoted dtype leads to one of those.
macro_rules! binary {
    ($($(#[$documentation:meta])* $name:ident($a:ident, $b:ident) $body:tt)+) => {
        $($crate::ops::binary! {
            @function
            #[doc = $crate::ops::by_value!($name(a, b))]
            pub $name = $name($a, $b) $body
        })+
        impl $crate::Array {$(
            $(#[$documentation])*
            #[must_use]
            #[track_caller]
            pub fn $name(&self, other: impl Into<$crate::Operand>) -> Self {
                $name(self.clone(), other.into().beside(self.dtype()))
            }
        )+}
    };
    (
        @function $(#[$documentation:meta])*
        $visibility:vis $function:ident = $name:ident($a:ident, $b:ident) {
            $($T:ident -> $Y:ident: $value:expr,)+
            @via $via:expr
        }
    ) => {
        $(#[$documentation])*
        #[track_caller]
        $visibility fn $function($a: $crate::Array, $b: $crate::Array) -> $crate::Array {
            #[derive(Clone, Copy)]
            struct Kernel<T>(std::marker::PhantomData<T>);
            $crate::ops::element_kernels! { Kernel $name[2] [$a, $b]: $($T -> $Y => $value;)+ }
            let via: fn($crate::DType) -> $crate::DType = $via;
            let dtype = via($a.dtype().promote($b.dtype()));
            let inputs = [$crate::ops::cast($a, dtype), $crate::ops::cast($b, dtype)];
            $(if dtype == <$T as $crate::Element>::DTYPE {
                return $crate::elementwise(&Kernel::<$T>(std::marker::PhantomData), inputs);
            })+
            $crate::ops::no_such_dtype(stringify!($name), dtype)
        }
    };
}
pub(super) use binary;

/// Raises that a function is not defined for a dtype.
#[track_caller]
fn no_such_dtype(function: &'static str, dtype: crate::DType) -> ! {
    crate::raise(crate::Error::invalid(
        function,
        format!("is not defined for the dtype {dtype}"),
    ))
}
