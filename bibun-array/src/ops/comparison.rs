//! Comparisons, predicates and logic: functions to `bool`.

use super::{binary, cast, element_kernels};
use crate::{Array, DType, elementwise};

/// Comparisons by one operator for all dtypes.
macro_rules! comparisons {
    ($($(#[$documentation:meta])* $name:ident: $operator:tt;)+) => {
        // Operators of `bool` are what `PartialOrd` says: `false < true`.
        binary! {$(
            $(#[$documentation])*
            $name(a, b) {
                bool -> bool: a $operator b,
                i64 -> bool: a $operator b,
                f32 -> bool: a $operator b,
                f64 -> bool: a $operator b,
                @via |dtype| dtype
            }
        )+}
    };
}

comparisons! {
    /// Where `a == b`, as `bool`. NaN equals nothing.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    equal: ==;

    /// Where `a != b`, as `bool`. NaN differs from everything.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).not_equal(2).to_vec::<bool>(), [true, false]);
    /// ```
    not_equal: !=;

    /// Where `a < b`, as `bool`; nowhere beside NaN.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).less(1.5).to_vec::<bool>(), [true, false]);
    /// ```
    less: <;

    /// Where `a <= b`, as `bool`; nowhere beside NaN.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).less_equal(1).to_vec::<bool>(), [true, false]);
    /// ```
    less_equal: <=;

    /// Where `a > b`, as `bool`; nowhere beside NaN.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).greater(1).to_vec::<bool>(), [false, true]);
    /// ```
    greater: >;

    /// Where `a >= b`, as `bool`; nowhere beside NaN.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).greater_equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    greater_equal: >=;
}

binary! {
    /// Where both are true; numbers count as true unless they are zero.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_and(Array::from([1, 1])).to_vec::<bool>(), [true, false]);
    /// ```
    logical_and(a, b) {
        bool -> bool: a & b,
        @via |_| DType::Bool
    }

    /// Where one or both are true; numbers count as true unless they are zero.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_or(Array::from([1, 0])).to_vec::<bool>(), [true, false]);
    /// ```
    logical_or(a, b) {
        bool -> bool: a | b,
        @via |_| DType::Bool
    }

    /// Where just one is true; numbers count as true unless they are zero.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([true, false]);
    /// assert_eq!(x.logical_xor(Array::from([1, 0])).to_vec::<bool>(), [false, false]);
    /// ```
    logical_xor(a, b) {
        bool -> bool: a ^ b,
        @via |_| DType::Bool
    }
}

#[derive(Clone, Copy)]
struct Not<T>(T);
element_kernels! { Not logical_not[1] [x]: bool -> bool => !x; }
element_kernels! { Not invert[1] [x]: i64 -> i64 => !x; }

#[doc = super::by_value!(logical_not(x))]
pub fn logical_not(x: Array) -> Array {
    elementwise(&Not(false), [cast(x, DType::Bool)])
}

#[doc = super::by_value!(invert(x))]
#[track_caller]
pub fn invert(x: Array) -> Array {
    match x.dtype() {
        DType::Bool => elementwise(&Not(false), [x]),
        DType::I64 => elementwise(&Not(0), [x]),
        DType::F32 | DType::F64 => super::no_such_dtype("invert", x.dtype()),
    }
}

impl Array {
    /// Where this is false; numbers count as true unless they are zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 2.0]).logical_not().to_vec::<bool>(), [true, false]);
    /// ```
    #[must_use]
    pub fn logical_not(&self) -> Self {
        logical_not(self.clone())
    }

    /// Every bit turned over, of `bool` or integers: the operator `!`.
    ///
    /// # Panics
    /// If the dtype is a float.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([true, false]).invert().to_vec::<bool>(), [false, true]);
    /// assert_eq!(Array::from([0, 5]).invert().to_vec::<i64>(), [-1, -6]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn invert(&self) -> Self {
        invert(self.clone())
    }
}

/// Predicates of floats, and the one answer for all integers.
macro_rules! predicates {
    ($(
        $(#[$documentation:meta])*
        $name:ident($x:ident): $value:expr, integers: $integers:literal;
    )+) => {
        $(
            #[doc = super::by_value!($name(x))]
            pub fn $name(x: Array) -> Array {
                #[derive(Clone, Copy)]
                struct Kernel<T>(std::marker::PhantomData<T>);
                element_kernels! { Kernel $name[1] [$x]:
                    f32 -> bool => $value;
                    f64 -> bool => $value;
                }
                match x.dtype() {
                    DType::Bool | DType::I64 => Array::full(x.shape(), $integers),
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

predicates! {
    /// Where elements are NaN.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, f64::NAN]).is_nan().to_vec::<bool>(), [false, true]);
    /// ```
    is_nan(x): x.is_nan(), integers: false;

    /// Where elements are neither infinite nor NaN.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, f64::NAN]).is_finite().to_vec::<bool>(), [true, false]);
    /// ```
    is_finite(x): x.is_finite(), integers: true;

    /// Where elements are infinite, of either sign.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([0.0, f64::NEG_INFINITY]);
    /// assert_eq!(x.is_inf().to_vec::<bool>(), [false, true]);
    /// ```
    is_inf(x): x.is_infinite(), integers: false;
}
