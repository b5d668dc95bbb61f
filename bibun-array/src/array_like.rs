//! What may be used with an array in a formula, and the dtype in which both are computed.

use half::{bf16, f16};
use num_complex::Complex;

use crate::{Array, DType, Error, Kind, Scalar, ops, raise};

/// An array or a Rust number: an argument of operators and of functions of two arguments.
///
/// Two arrays are computed in [`DType::promote`] of their dtypes. A number takes the dtype of the
/// array that it is combined with, so that `x + 1.0` keeps an `f32` array `f32`, with one
/// exception: the number never loses its kind. A float with an array of integers or `bool` makes
/// both `f64`, an integer with an array of `bool` makes both `i64`, and a complex number makes both
/// complex, as in NumPy.
///
/// ```
/// use bibun_array::{Array, DType};
/// assert_eq!((Array::from([1.0f32]) + 0.5).dtype(), DType::F32);
/// assert_eq!((Array::from([1]) + 0.5).dtype(), DType::F64);
/// assert_eq!((Array::from([true]) + 1).dtype(), DType::I64);
/// ```
#[derive(Clone, Debug)]
pub enum ArrayLike {
    /// An array, which has its own dtype.
    Array(Array),
    /// A number, which takes the dtype of the array that it is combined with.
    Number(Scalar),
}

impl ArrayLike {
    /// Returns the operand as an array to be combined with one of dtype `other`.
    ///
    /// # Panics
    /// Panics if `other` is an integer dtype and the number is an integer out of its range.
    ///
    /// ```
    /// use bibun_array::{DType, ArrayLike};
    /// let one = ArrayLike::from(1.0).beside(DType::F32);
    /// assert_eq!(one.dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn beside(self, other: DType) -> Array {
        match self {
            Self::Array(x) => x,
            Self::Number(x) => Array::scalar(x.beside(other)),
        }
    }

    /// Two operands as arrays. Two numbers keep the dtypes that they have in Rust.
    #[track_caller]
    pub(crate) fn pair(a: Self, b: Self) -> (Array, Array) {
        let dtype = |x: &Self| match x {
            Self::Array(x) => x.dtype(),
            Self::Number(x) => x.dtype(),
        };
        let (left, right) = (dtype(&a), dtype(&b));
        (a.beside(right), b.beside(left))
    }
}

impl Scalar {
    /// Returns the number as it is computed with an array of dtype `other`: in that dtype, unless
    /// it would lose its kind. A float with integers or `bool` is `f64`, an integer with `bool` is
    /// `i64`, and a complex number is [`DType::to_complex`] of it.
    ///
    /// # Panics
    /// Panics if `other` is an integer dtype and the number is an integer out of its range.
    ///
    /// ```
    /// use bibun_array::{DType, Scalar};
    /// assert_eq!(Scalar::from(0.5).beside(DType::F32), Scalar::F32(0.5));
    /// assert_eq!(Scalar::from(0.5).beside(DType::U8), Scalar::F64(0.5));
    /// ```
    #[inline]
    #[track_caller]
    pub fn beside(self, other: DType) -> Self {
        match (self.dtype().kind(), other.kind()) {
            (Kind::Float, Kind::Integer | Kind::Truth) => self.cast(DType::F64),
            (Kind::Integer, Kind::Truth) => self.cast(DType::I64),
            (Kind::Integer, Kind::Integer) => {
                let same = self.cast(other);
                if same.cast(self.dtype()) != self {
                    no_such_integer(self, other)
                }
                same
            }
            // A complex number is as precise as the numbers beside it.
            (Kind::Complex, Kind::Float | Kind::Integer | Kind::Truth) => {
                self.cast(other.to_complex())
            }
            (_, Kind::Complex) | (_, Kind::Float) | (Kind::Truth, _) => self.cast(other),
        }
    }
}

#[cold]
#[track_caller]
fn no_such_integer(x: Scalar, dtype: DType) -> ! {
    let what =
        format!("there is no {x} in {dtype}; cast the array beside it to a type that has it");
    raise(Error::invalid("beside", what))
}

impl From<Array> for ArrayLike {
    fn from(x: Array) -> Self {
        Self::Array(x)
    }
}
impl From<&Array> for ArrayLike {
    fn from(x: &Array) -> Self {
        Self::Array(x.clone())
    }
}
impl From<&mut Array> for ArrayLike {
    fn from(x: &mut Array) -> Self {
        Self::Array(x.clone())
    }
}
macro_rules! operand_from_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for ArrayLike {
            fn from(x: $number) -> Self {
                Self::Number(x.into())
            }
        }
    )*};
}
operand_from_numbers!(
    bool,
    u8,
    i32,
    i64,
    usize,
    f16,
    bf16,
    f32,
    f64,
    Complex<f32>,
    Complex<f64>,
    Scalar
);

/// Both arrays in the dtype that they are computed in.
pub(crate) fn promoted(a: Array, b: Array) -> (Array, Array) {
    let dtype = a.dtype().promote(b.dtype());
    (ops::cast(a, dtype), ops::cast(b, dtype))
}
