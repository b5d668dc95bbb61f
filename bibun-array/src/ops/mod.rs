//! The elementwise functions, taking arrays by value.
//!
//! An array that is passed by value and that no other array shares gives its memory to the result:
//! `ops::exp(ops::negative(x))` allocates nothing. The methods of [`Array`](crate::Array) of the
//! same names borrow instead, and their documentation describes each function.
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
mod neighbour;
mod rounding;
mod selection;

pub use arithmetic::*;
pub use comparison::*;
pub use elementary::*;
pub use neighbour::nextafter;
pub use rounding::*;
pub use selection::*;

/// A [`Definition`](crate::Definition) from the name, the pattern of the inputs, and the value at
/// one element for each kind of dtype that it takes, as a formula: `bool` of
/// [`Truth`](crate::math::Truth)s, `integer` of [`Whole`](crate::Whole)s and `float` of
/// [`Number`](crate::Number)s, `angle` of those in a function with a loop over slices, `number` of
/// integers and floats. Kinds with the suffix `_to_bool` have boolean
/// results.
macro_rules! definition {
    ($name:ident[$count:literal] $inputs:tt: $($kind:ident: $value:expr,)+) => {{
        struct Own;
        $($crate::ops::kind! { $kind Own[$count] $inputs $name $value })+
        $crate::Definition::named(stringify!($name))$(.$kind::<$count, Own>())+
    }};
}
pub(super) use definition;

/// The formula of a kind.
macro_rules! kind {
    (number $($rest:tt)*) => {
        $crate::ops::kind! { integer $($rest)* }
        $crate::ops::kind! { float $($rest)* }
    };
    (number_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { integer_to_bool $($rest)* }
        $crate::ops::kind! { float_to_bool $($rest)* }
    };
    (bool $($rest:tt)*) => { $crate::ops::kind! { @of LogicFormula, Truth, T => T, $($rest)* } };
    (integer $($rest:tt)*) => {
        $crate::ops::kind! { @of IntegerFormula, Integer, $crate::Whole<T> => $crate::Whole<T>, $($rest)* }
    };
    (integer_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @of IntegerTruthFormula, Integer, $crate::Whole<T> => T::Truth, $($rest)* }
    };
    (float_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @of TruthFormula, Float, $crate::Number<T> => $crate::Mask<T>, $($rest)* }
    };
    (
        @of $Formula:ident, $Bound:ident, $X:ty => $Y:ty,
        $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr
    ) => {
        impl $crate::kernel::$Formula<$count> for $Own {
            #[inline(always)]
            fn value<T: $crate::math::$Bound>($inputs: [$X; $count]) -> $Y {
                $value
            }
        }
    };
    (integer_loop $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::IntegerLoop<$count> for $Own {
            #[inline(always)]
            fn value($inputs: [i64; $count]) -> i64 {
                $value
            }
        }
    };
    (angle $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        $crate::ops::kind! { float $Own[$count] $inputs $name $value }
        impl $crate::kernel::AngleFormula<$count> for $Own {
            #[inline(always)]
            fn fill<T: $crate::math::Machine>(x: &[T], y: &mut [T]) {
                $crate::ops::kind! { @slice $name T x y }
            }
        }
    };
    (@slice sin $T:ident $x:ident $y:ident) => { $T::sin_slice($x, $y) };
    (@slice cos $T:ident $x:ident $y:ident) => { $T::cos_slice($x, $y) };
    (@slice tan $T:ident $x:ident $y:ident) => { $T::tan_slice($x, $y) };
    (float $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::ElementFormula<$count> for $Own {
            const NAME: &'static str = stringify!($name);
            #[inline(always)]
            fn value<T: $crate::math::Float>(
                $inputs: [$crate::Number<T>; $count],
                []: [$crate::Number<T>; 0],
            ) -> $crate::Number<T> {
                $value
            }
        }
    };
}
pub(super) use kind;

/// The documentation of a function that takes arrays by value. That of the method has the rest.
macro_rules! by_value {
    ($name:ident(x)) => {
        $crate::ops::by_value!(@text $name, "an array", "(x.clone())", "()")
    };
    ($name:ident(a, b)) => {
        $crate::ops::by_value!(@text $name, "arrays", "(x.clone(), x.clone())", "(&x)")
    };
    (@text $name:ident, $what:literal, $values:literal, $references:literal) => {
        concat!(
            "Computes [`Array::", stringify!($name), "`](crate::Array::", stringify!($name), ") of ", $what,
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

/// Defines functions of one array: the value for each kind of dtype that they take, and the map
/// from the dtype of the array to the dtype in which they are computed. What complex numbers need
/// besides a formula is an expression of arrays.
macro_rules! unary {
    ($($(#[$documentation:meta])* $name:ident($x:ident) -> $DEFINITION:ident {
        $($kind:ident: $value:expr,)+
        @via $via:expr
        $(, @complex $complex:expr)?
    })+) => {
        $(
            pub(crate) static $DEFINITION: $crate::Definition =
                $crate::ops::definition! { $name[1] [$x]: $($kind: $value,)+ };

            #[doc = $crate::ops::by_value!($name(x))]
            #[track_caller]
            pub fn $name($x: $crate::Array) -> $crate::Array {
                $(if $x.dtype().is_complex() {
                    return $complex;
                })?
                let via: fn($crate::DType) -> $crate::DType = $via;
                let dtype = via($x.dtype());
                if !$DEFINITION.takes(dtype) {
                    $crate::ops::no_such_dtype(stringify!($name), dtype)
                }
                $crate::ops::run(&$DEFINITION, [$crate::ops::cast($x, dtype)])
            }
        )+
        impl $crate::Array {$(
            $(#[$documentation])*
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Self {
                $name(self.clone())
            }
        )+}
    };
}
pub(super) use unary;

/// Defines functions of two arrays: the value for each kind of dtype in which they are computed,
/// and the map from the promoted dtype to the dtype in which they are computed.
macro_rules! binary {
    ($($(#[$documentation:meta])* $name:ident($a:ident, $b:ident) -> $DEFINITION:ident $body:tt)+) => {
        $($crate::ops::binary! {
            @function
            #[doc = $crate::ops::by_value!($name(a, b))]
            pub $name = $name($a, $b) -> $DEFINITION $body
        })+
        impl $crate::Array {$(
            $(#[$documentation])*
            #[must_use]
            #[track_caller]
            pub fn $name(&self, other: impl Into<$crate::ArrayLike>) -> Self {
                $name(self.clone(), other.into().beside(self.dtype()))
            }
        )+}
    };
    (
        @function $(#[$documentation:meta])*
        $visibility:vis $function:ident = $name:ident($a:ident, $b:ident) -> $DEFINITION:ident {
            $($kind:ident: $value:expr,)+
            @via $via:expr
            $(, @complex $complex:expr)?
        }
    ) => {
        pub(crate) static $DEFINITION: $crate::Definition =
            $crate::ops::definition! { $name[2] [$a, $b]: $($kind: $value,)+ };

        $(#[$documentation])*
        #[track_caller]
        $visibility fn $function($a: $crate::Array, $b: $crate::Array) -> $crate::Array {
            let via: fn($crate::DType) -> $crate::DType = $via;
            let dtype = via($a.dtype().promote($b.dtype()));
            $(if dtype.is_complex() {
                return $complex;
            })?
            if !$DEFINITION.takes(dtype) {
                $crate::ops::no_such_dtype(stringify!($name), dtype)
            }
            let inputs = [$crate::ops::cast($a, dtype), $crate::ops::cast($b, dtype)];
            $crate::ops::run(&$DEFINITION, inputs)
        }
    };
}
pub(super) use binary;

/// Runs a kernel without given numbers.
#[track_caller]
pub(crate) fn run<const N: usize>(
    definition: &'static crate::Definition,
    mut inputs: [crate::Array; N],
) -> crate::Array {
    crate::run_kernel(&crate::Kernel::new(definition, &[]), &mut inputs)
}

/// Raises that a function is not defined for a dtype.
#[track_caller]
pub(crate) fn no_such_dtype(function: &'static str, dtype: crate::DType) -> ! {
    let what = format!("is not defined for the dtype {dtype}");
    crate::raise(crate::Error::invalid(function, what))
}
