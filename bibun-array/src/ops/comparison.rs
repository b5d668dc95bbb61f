//! Comparisons, predicates and logic: functions to `bool`.

use super::{binary, unary};
use crate::{Array, DType, Definition};

/// Comparisons for all dtypes. For booleans, `false` is less than `true`.
macro_rules! comparisons {
    ($(
        $(#[$documentation:meta])*
        $name:ident($a:ident, $b:ident) -> $DEFINITION:ident: $of_truths:expr
            $(, complex: $complex:expr)?;
    )+) => {
        binary! {$(
            $(#[$documentation])*
            $name($a, $b) -> $DEFINITION {
                bool: $of_truths,
                number_to_bool: $a.$name($b),
                @via |dtype| dtype
                $(, @complex $complex)?
            }
        )+}
    };
}

comparisons! {
    /// Returns where `a == b`, as `bool`. NaN equals nothing.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    equal(a, b) -> EQUAL: !(a ^ b), complex: logical_and(
        equal(a.real(), b.real()),
        equal(a.imag(), b.imag()),
    );

    /// Returns where `a != b`, as `bool`. NaN differs from everything.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).not_equal(2).to_vec::<bool>(), [true, false]);
    /// ```
    not_equal(a, b) -> NOT_EQUAL: a ^ b, complex: logical_not(equal(a, b));

    /// Returns where `a < b`, as `bool`. With NaN the comparison is false.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).less(1.5).to_vec::<bool>(), [true, false]);
    /// ```
    less(a, b) -> LESS: !a & b;

    /// Returns where `a <= b`, as `bool`. With NaN the comparison is false.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).less_equal(1).to_vec::<bool>(), [true, false]);
    /// ```
    less_equal(a, b) -> LESS_EQUAL: !a | b;

    /// Returns where `a > b`, as `bool`. With NaN the comparison is false.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).greater(1).to_vec::<bool>(), [false, true]);
    /// ```
    greater(a, b) -> GREATER: a & !b;

    /// Returns where `a >= b`, as `bool`. With NaN the comparison is false.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).greater_equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    greater_equal(a, b) -> GREATER_EQUAL: a | !b;
}

binary! {
    /// Returns where both are true. Numbers count as true unless they are zero.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_and(Array::from([1, 1])).to_vec::<bool>(), [true, false]);
    /// ```
    logical_and(a, b) -> LOGICAL_AND {
        bool: a & b,
        @via |_| DType::Bool
    }

    /// Returns where one or both are true. Numbers count as true unless they are zero.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_or(Array::from([1, 0])).to_vec::<bool>(), [true, false]);
    /// ```
    logical_or(a, b) -> LOGICAL_OR {
        bool: a | b,
        @via |_| DType::Bool
    }

    /// Returns where exactly one is true. Numbers count as true unless they are zero.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_xor(Array::from([1, 0])).to_vec::<bool>(), [false, false]);
    /// ```
    logical_xor(a, b) -> LOGICAL_XOR {
        bool: a ^ b,
        @via |_| DType::Bool
    }
}

unary! {
    /// Returns where the array is false. Numbers count as true unless they are zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 2.0]).logical_not().to_vec::<bool>(), [true, false]);
    /// ```
    logical_not(x) -> LOGICAL_NOT {
        bool: !x,
        @via |_| DType::Bool
    }

    /// Inverts every bit, of `bool` or integers: the operator `!`.
    ///
    /// # Panics
    /// Panics if the dtype is a float.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([true, false]).invert().to_vec::<bool>(), [false, true]);
    /// assert_eq!(Array::from([0, 5]).invert().to_vec::<i64>(), [-1, -6]);
    /// ```
    invert(x) -> INVERT {
        bool: !x,
        integer: !x,
        @via |dtype| dtype
    }
}

/// Predicates of floats, their single result for all integers, and the combination of those of both
/// parts of complex numbers.
macro_rules! predicates {
    ($(
        $(#[$documentation:meta])*
        $name:ident($x:ident) -> $DEFINITION:ident: $value:expr, integers: $integers:literal,
            parts: $combine:expr;
    )+) => {
        $(
            pub(crate) static $DEFINITION: Definition =
                super::definition! { $name[1] [$x]: float_to_bool: $value, };

            #[doc = super::by_value!($name(x))]
            pub fn $name(x: Array) -> Array {
                if x.dtype().is_complex() {
                    let combine: fn(Array, Array) -> Array = $combine;
                    return combine($name(x.real()), $name(x.imag()));
                }
                match x.dtype().is_float() {
                    true => super::run(&$DEFINITION, [x]),
                    false => Array::full(x.shape(), $integers),
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

predicates! {
    /// Returns where elements are NaN.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, f64::NAN]).is_nan().to_vec::<bool>(), [false, true]);
    /// ```
    is_nan(x) -> IS_NAN: x.is_nan(), integers: false, parts: logical_or;

    /// Returns where elements are neither infinite nor NaN.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, f64::NAN]).is_finite().to_vec::<bool>(), [true, false]);
    /// ```
    is_finite(x) -> IS_FINITE: x.abs().less(f64::INFINITY), integers: true, parts: logical_and;

    /// Returns where elements are infinite, of either sign.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([0.0, f64::NEG_INFINITY]);
    /// assert_eq!(x.is_inf().to_vec::<bool>(), [false, true]);
    /// ```
    is_inf(x) -> IS_INF: x.abs().equal(f64::INFINITY), integers: false, parts: logical_or;
}
