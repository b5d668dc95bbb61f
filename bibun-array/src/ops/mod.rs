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
mod operation;
mod rounding;
mod selection;

pub use arithmetic::*;
pub use comparison::*;
pub use elementary::*;
pub use rounding::*;
pub use selection::*;

/// A [`Definition`](crate::Definition): the name, the pattern that names the inputs, and the value at
/// one element for each kind of dtype that it has, as a formula: `bool` of [`Truth`](crate::math::Truth)s,
/// `integer` of [`Whole`](crate::Whole) and `float` of [`Number`](crate::Number)s, `number` of both, and
/// with `_to_bool` what answers.
macro_rules! definition {
    ($name:ident[$count:literal] $inputs:tt: $($kind:ident: $value:expr,)+) => {{
        struct Own;
        $($crate::ops::kind! { @value $kind Own[$count] $inputs $name $value })+
        fn run(_: &[f64], inputs: &[$crate::Slice<'_>], out: $crate::SliceMut<'_>) {
            let kind = inputs[0].dtype().kind();
            $($crate::ops::kind! { @run $kind Own[$count] kind inputs out })+
            unreachable!("{} has no such dtype", stringify!($name))
        }
        fn formula(input: $crate::DType) -> Option<$crate::formula::Formula> {
            let kind = input.kind();
            $($crate::ops::kind! { @formula $kind Own[$count] kind })+
            None
        }
        let outputs: [Option<$crate::DType>; _] = [$($crate::ops::kind! { @output $kind }),+];
        // The numbers come last.
        $crate::Definition::new(stringify!($name), outputs[outputs.len() - 1], formula, run)
    }};
}
pub(super) use definition;

/// What differs from kind to kind.
macro_rules! kind {
    (@value number $($rest:tt)*) => {
        $crate::ops::kind! { @value integer $($rest)* }
        $crate::ops::kind! { @value float $($rest)* }
    };
    (@value number_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @value integer_to_bool $($rest)* }
        $crate::ops::kind! { @value float_to_bool $($rest)* }
    };
    (@value bool $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::LogicFormula<$count> for $Own {
            #[inline(always)]
            fn value<B: $crate::math::Truth>($inputs: [B; $count]) -> B {
                $value
            }
        }
    };
    (@value integer $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::IntegerFormula<$count> for $Own {
            #[inline(always)]
            fn value<T: $crate::math::Integer>(
                $inputs: [$crate::Whole<T>; $count],
            ) -> $crate::Whole<T> {
                $value
            }
        }
    };
    (@value integer_to_bool $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::IntegerTruthFormula<$count> for $Own {
            #[inline(always)]
            fn value<T: $crate::math::Integer>($inputs: [$crate::Whole<T>; $count]) -> T::Truth {
                $value
            }
        }
    };
    (@value integer_loop $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::IntegerLoop<$count> for $Own {
            #[inline(always)]
            fn value($inputs: [i64; $count]) -> i64 {
                $value
            }
        }
    };
    (@value float $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
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
    (@value float_to_bool $Own:ident[$count:literal] $inputs:tt $name:ident $value:expr) => {
        impl $crate::kernel::TruthFormula<$count> for $Own {
            #[inline(always)]
            fn value<T: $crate::math::Float>(
                $inputs: [$crate::Number<T>; $count],
            ) -> $crate::Mask<T> {
                $value
            }
        }
    };

    (@run number $($rest:tt)*) => {
        $crate::ops::kind! { @run integer $($rest)* }
        $crate::ops::kind! { @run float $($rest)* }
    };
    (@run number_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @run integer_to_bool $($rest)* }
        $crate::ops::kind! { @run float_to_bool $($rest)* }
    };
    (@run bool $($rest:tt)*) => { $crate::ops::kind! { @case Truth run_logic $($rest)* } };
    (@run integer $($rest:tt)*) => { $crate::ops::kind! { @case Integer run_integers $($rest)* } };
    (@run integer_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @case Integer run_integer_truths $($rest)* }
    };
    (@run integer_loop $($rest:tt)*) => {
        $crate::ops::kind! { @case Integer run_integer_loop $($rest)* }
    };
    (@run float_to_bool $($rest:tt)*) => { $crate::ops::kind! { @case Float run_truths $($rest)* } };
    (@run float $Own:ident[$count:literal] $kind:ident $inputs:ident $out:ident) => {
        if $kind == $crate::Kind::Float {
            return $crate::kernel::run_floats::<$count, 0, $Own>(&[], $inputs, $out);
        }
    };
    (@case $Kind:ident $run:ident $Own:ident[$count:literal] $kind:ident $inputs:ident $out:ident) => {
        if $kind == $crate::Kind::$Kind {
            return $crate::kernel::$run::<$count, $Own>($inputs, $out);
        }
    };

    (@formula number $($rest:tt)*) => {
        $crate::ops::kind! { @formula integer $($rest)* }
        $crate::ops::kind! { @formula float $($rest)* }
    };
    (@formula number_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @formula integer_to_bool $($rest)* }
        $crate::ops::kind! { @formula float_to_bool $($rest)* }
    };
    (@formula bool $($rest:tt)*) => { $crate::ops::kind! { @read Truth trace_logic $($rest)* } };
    (@formula integer $($rest:tt)*) => {
        $crate::ops::kind! { @read Integer trace_integer $($rest)* }
    };
    (@formula integer_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @read Integer trace_integer_truth $($rest)* }
    };
    (@formula integer_loop $($rest:tt)*) => {};
    (@formula float_to_bool $($rest:tt)*) => {
        $crate::ops::kind! { @read Float trace_truth $($rest)* }
    };
    (@formula float $Own:ident[$count:literal] $kind:ident) => {
        if $kind == $crate::Kind::Float {
            return Some($crate::kernel::trace::<$count, 0, $Own>());
        }
    };
    (@read $Kind:ident $trace:ident $Own:ident[$count:literal] $kind:ident) => {
        if $kind == $crate::Kind::$Kind {
            return Some($crate::kernel::$trace::<$count, $Own>());
        }
    };

    (@output float_to_bool) => { Some($crate::DType::Bool) };
    (@output integer_to_bool) => { Some($crate::DType::Bool) };
    (@output number_to_bool) => { Some($crate::DType::Bool) };
    (@output $kind:ident) => { None };

    (@has bool $dtype:ident) => { matches!($dtype, $crate::DType::Bool) };
    (@has integer $dtype:ident) => { $dtype.is_integer() };
    (@has integer_loop $dtype:ident) => { $dtype.is_integer() };
    (@has integer_to_bool $dtype:ident) => { $dtype.is_integer() };
    (@has float $dtype:ident) => { $dtype.is_float() };
    (@has float_to_bool $dtype:ident) => { $dtype.is_float() };
    (@has number $dtype:ident) => { !matches!($dtype, $crate::DType::Bool) };
    (@has number_to_bool $dtype:ident) => { !matches!($dtype, $crate::DType::Bool) };
}
pub(super) use kind;

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

/// Functions of one array: the value for each kind of dtype that it has, and how the dtype of the
/// array leads to one of those.
macro_rules! unary {
    ($($(#[$documentation:meta])* $name:ident($x:ident) -> $DEFINITION:ident {
        $($kind:ident: $value:expr,)+
        @via $via:expr
    })+) => {
        $(
            pub(crate) const $DEFINITION: &$crate::Definition =
                &$crate::ops::definition! { $name[1] [$x]: $($kind: $value,)+ };

            #[doc = $crate::ops::by_value!($name(x))]
            #[track_caller]
            pub fn $name($x: $crate::Array) -> $crate::Array {
                let via: fn($crate::DType) -> $crate::DType = $via;
                let dtype = via($x.dtype());
                if !(false $(|| $crate::ops::kind!(@has $kind dtype))+) {
                    $crate::ops::no_such_dtype(stringify!($name), dtype)
                }
                $crate::ops::run($DEFINITION, [$crate::ops::cast($x, dtype)])
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

/// Functions of two arrays: the value for each kind of dtype in which they are computed, and how the
/// promoted dtype leads to one of those.
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
            pub fn $name(&self, other: impl Into<$crate::Operand>) -> Self {
                $name(self.clone(), other.into().beside(self.dtype()))
            }
        )+}
    };
    (
        @function $(#[$documentation:meta])*
        $visibility:vis $function:ident = $name:ident($a:ident, $b:ident) -> $DEFINITION:ident {
            $($kind:ident: $value:expr,)+
            @via $via:expr
        }
    ) => {
        pub(crate) const $DEFINITION: &$crate::Definition =
            &$crate::ops::definition! { $name[2] [$a, $b]: $($kind: $value,)+ };

        $(#[$documentation])*
        #[track_caller]
        $visibility fn $function($a: $crate::Array, $b: $crate::Array) -> $crate::Array {
            let via: fn($crate::DType) -> $crate::DType = $via;
            let dtype = via($a.dtype().promote($b.dtype()));
            if !(false $(|| $crate::ops::kind!(@has $kind dtype))+) {
                $crate::ops::no_such_dtype(stringify!($name), dtype)
            }
            let inputs = [$crate::ops::cast($a, dtype), $crate::ops::cast($b, dtype)];
            $crate::ops::run($DEFINITION, inputs)
        }
    };
}
pub(super) use binary;

/// Runs a kernel without given numbers.
#[track_caller]
fn run<const N: usize>(
    definition: &'static crate::Definition,
    mut inputs: [crate::Array; N],
) -> crate::Array {
    crate::run_kernel(&crate::Kernel::new(definition, &[]), &mut inputs)
}

/// Raises that a function is not defined for a dtype.
#[track_caller]
fn no_such_dtype(function: &'static str, dtype: crate::DType) -> ! {
    crate::raise(crate::Error::invalid(
        function,
        format!("is not defined for the dtype {dtype}"),
    ))
}
