//! Sums, products, quotients and remainders.
//!
//! Integers wrap around at the ends of their range, and a quotient or remainder of integers by zero
//! is 0. Nothing here panics because of a value.

use super::{binary, unary};
use crate::math::{composed, integer};
use crate::{DType, Number};

unary! {
    /// Computes `-x` of each element. Integers wrap around, and `bool` counts as `i64`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, -2.0]).negative().to_vec::<f64>(), [-1.0, 2.0]);
    /// ```
    negative(x) -> NEGATIVE {
        number: -x,
        @via numbers
    }

    /// Computes the magnitude `|x|` of each element. `bool` counts as `i64`, the smallest integer
    /// stays unchanged, and that of a complex number is real.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, -2.0]).abs().to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    abs(x) -> ABS {
        number: x.abs(),
        @via numbers,
        @complex super::hypot(x.real(), x.imag())
    }

    /// Computes the sign of each element: `-1`, `0` or `1` if it is negative, zero or positive. NaN
    /// stays NaN, and `bool` counts as `i64`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([-2.0, 0.0, 7.0]).sign().to_vec::<f64>(), [-1.0, 0.0, 1.0]);
    /// ```
    sign(x) -> SIGN {
        number: x.sign(),
        @via numbers
    }

    /// Computes `x²` of each element. Integers wrap around, and `bool` counts as `i64`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([3, -4]).square().to_vec::<i64>(), [9, 16]);
    /// ```
    square(x) -> SQUARE {
        number: x * x,
        @via numbers
    }
}

binary! {
    /// Computes `a + b`. For `bool` this is the logical or, as in NumPy.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).add(10).to_vec::<i64>(), [11, 12]);
    /// ```
    add(a, b) -> ADD {
        bool: a | b,
        number: a + b,
        @via |dtype| dtype
    }

    /// Computes `a - b`. Two arrays of `bool` are subtracted as `i64`; NumPy raises an error.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).subtract(10).to_vec::<i64>(), [-9, -8]);
    /// ```
    subtract(a, b) -> SUBTRACT {
        number: a - b,
        @via numbers
    }

    /// Computes `a b`. For `bool` this is the logical and, as in NumPy.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).multiply(10).to_vec::<i64>(), [10, 20]);
    /// ```
    multiply(a, b) -> MULTIPLY {
        bool: a & b,
        number: a * b,
        @via |dtype| dtype
    }

    /// Computes `a / b`, which is always a float: integers and `bool` are divided as `f64`, as in
    /// NumPy.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1, 2]).divide(4).to_vec::<f64>(), [0.25, 0.5]);
    /// ```
    divide(a, b) -> DIVIDE {
        float: a / b,
        @via floats
    }

    /// Computes the greatest integer that is at most `a / b`: Python's `a // b`. Integers stay
    /// integers; division by zero is 0, and the one quotient that overflows wraps around. Floats
    /// divided by zero are `a / b`.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([7, -7]).floor_divide(2).to_vec::<i64>(), [3, -4]);
    /// ```
    floor_divide(a, b) -> FLOOR_DIVIDE {
        integer: integer::floor_quotient(a, b),
        float: Number(composed::floor_quotient(a.0, b.0)),
        @via numbers
    }

    /// Computes the remainder of [`floor_divide`](Self::floor_divide), with the sign of `b`:
    /// Python's `a % b`, and the operator `%` of arrays. For a zero `b` it is 0 for integers and
    /// NaN for floats.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([7, -7]).remainder(4).to_vec::<i64>(), [3, 1]);
    /// assert_eq!(Array::from([7.0, -7.0]).remainder(-4.0).to_vec::<f64>(), [-1.0, -3.0]);
    /// ```
    remainder(a, b) -> REMAINDER {
        integer: integer::floor_remainder(a, b),
        float: a.remainder(b),
        @via numbers
    }

    /// Computes the remainder of the quotient rounded towards zero, with the sign of `a`: Rust's
    /// `a % b` and C's `fmod`. For a zero `b` it is 0 for integers and NaN for floats.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([7, -7]).fmod(4).to_vec::<i64>(), [3, -3]);
    /// ```
    fmod(a, b) -> FMOD {
        integer: a.rest(integer::divisor(b)),
        float: a.fmod(b),
        @via numbers
    }

    /// Returns the greater of both at each element, or NaN if one is NaN.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([-1.0, 2.0]).maximum(0.0).to_vec::<f64>(), [0.0, 2.0]);
    /// ```
    maximum(a, b) -> MAXIMUM {
        bool: a | b,
        number: a.maximum(b),
        @via |dtype| dtype
    }

    /// Returns the lesser of both at each element, or NaN if one is NaN.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([-1.0, 2.0]).minimum(0.0).to_vec::<f64>(), [-1.0, 0.0]);
    /// ```
    minimum(a, b) -> MINIMUM {
        bool: a & b,
        number: a.minimum(b),
        @via |dtype| dtype
    }

    /// Computes the bitwise `a & b` of `bool` or integers: the operator `&`.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast or the dtype is a float.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([6, 5]).bitwise_and(3).to_vec::<i64>(), [2, 1]);
    /// ```
    bitwise_and(a, b) -> BITWISE_AND {
        bool: a & b,
        integer: a & b,
        @via |dtype| dtype
    }

    /// Computes the bitwise `a | b` of `bool` or integers: the operator `|`.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast or the dtype is a float.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([6, 5]).bitwise_or(3).to_vec::<i64>(), [7, 7]);
    /// ```
    bitwise_or(a, b) -> BITWISE_OR {
        bool: a | b,
        integer: a | b,
        @via |dtype| dtype
    }

    /// Computes the bitwise `a ^ b` of `bool` or integers: the operator `^`.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast or the dtype is a float.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([true, false]).bitwise_xor(true).to_vec::<bool>(), [false, true]);
    /// ```
    bitwise_xor(a, b) -> BITWISE_XOR {
        bool: a ^ b,
        integer: a ^ b,
        @via |dtype| dtype
    }
}

/// The dtype in which numbers are computed: `bool` counts as `i64`.
pub(super) fn numbers(dtype: DType) -> DType {
    if dtype == DType::Bool {
        DType::I64
    } else {
        dtype
    }
}

/// The dtype in which floats and complex numbers are computed: integers count as `f64`.
pub(super) fn floats(dtype: DType) -> DType {
    if dtype.is_differentiable() {
        dtype
    } else {
        DType::F64
    }
}
