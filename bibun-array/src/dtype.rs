//! The element types of an array, and single values of them.

use std::fmt;

use crate::kernel::{Slice, SliceMut};

/// The type of an array's elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    /// `bool`.
    Bool,
    /// Signed 64-bit integers: counts, class numbers, indices.
    I64,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether this is `F32` or `F64`: the types that can carry a gradient.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// The type of `a ∘ b` for operands of two types: the later one in
    /// `Bool < I64 < F32 < F64`, so that integers never widen a float (as in JAX and PyTorch).
    ///
    /// ```
    /// use bibun_array::DType;
    /// assert_eq!(DType::I64.promote(DType::F32), DType::F32);
    /// ```
    pub fn promote(self, other: Self) -> Self {
        self.max(other)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// One value of any dtype.
///
/// ```
/// use bibun_array::{DType, Scalar};
/// let x = Scalar::from(2.5f32);
/// assert_eq!(x.cast(DType::I64), Scalar::I64(2));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A `bool`.
    Bool(bool),
    /// An `i64`.
    I64(i64),
    /// An `f32`.
    F32(f32),
    /// An `f64`.
    F64(f64),
}

impl Scalar {
    /// Zero (or `false`) of a dtype.
    pub const fn zero(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool(false),
            DType::I64 => Self::I64(0),
            DType::F32 => Self::F32(0.0),
            DType::F64 => Self::F64(0.0),
        }
    }

    /// One (or `true`) of a dtype.
    pub const fn one(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool(true),
            DType::I64 => Self::I64(1),
            DType::F32 => Self::F32(1.0),
            DType::F64 => Self::F64(1.0),
        }
    }

    /// The type of the value.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::I64(_) => DType::I64,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
        }
    }

    /// The value as another type, converted as Rust's `as` does (floats to integers round towards
    /// zero and saturate; everything but zero is `true`).
    pub fn cast(self, dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool(self.to_f64() != 0.0),
            DType::I64 => Self::I64(match self {
                Self::I64(x) => x,
                _ => self.to_f64() as i64,
            }),
            DType::F32 => Self::F32(match self {
                Self::F32(x) => x,
                Self::I64(x) => x as f32,
                _ => self.to_f64() as f32,
            }),
            DType::F64 => Self::F64(self.to_f64()),
        }
    }

    /// The value as `f64`.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Bool(x) => f64::from(u8::from(x)),
            Self::I64(x) => x as f64,
            Self::F32(x) => f64::from(x),
            Self::F64(x) => x,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(x) => write!(f, "{x}"),
            Self::I64(x) => write!(f, "{x}"),
            Self::F32(x) => write!(f, "{x}"),
            Self::F64(x) => write!(f, "{x}"),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that an array can hold: `f32`, `f64`, `i64`, `bool`.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + PartialOrd + fmt::Debug + Send + Sync + 'static
{
    /// The type's name among the dtypes.
    const DTYPE: DType;
    /// The value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
    /// The value of a [`Scalar`], converted as by [`Scalar::cast`].
    fn from_scalar(scalar: Scalar) -> Self;
    /// The typed slice inside, if it has this type.
    fn from_slice(slice: Slice<'_>) -> Option<&[Self]>;
    /// The typed mutable slice inside, if it has this type.
    fn from_slice_mut(slice: SliceMut<'_>) -> Option<&mut [Self]>;
    /// Wraps a typed slice.
    fn to_slice(slice: &[Self]) -> Slice<'_>;
    /// Wraps a typed mutable slice.
    fn to_slice_mut(slice: &mut [Self]) -> SliceMut<'_>;
    /// The element inside a scalar of this very type, by reference.
    fn borrow_scalar(scalar: &Scalar) -> Option<&Self>;
    /// The element inside a scalar of this very type, by mutable reference.
    fn borrow_scalar_mut(scalar: &mut Scalar) -> Option<&mut Self>;
}

macro_rules! element {
    ($($type:ty, $variant:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$variant;
            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self)
            }
            #[inline]
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar.cast(DType::$variant) {
                    Scalar::$variant(x) => x,
                    other => unreachable!("cast to {} gave {other:?}", DType::$variant),
                }
            }
            #[inline]
            fn from_slice(slice: Slice<'_>) -> Option<&[Self]> {
                if let Slice::$variant(x) = slice { Some(x) } else { None }
            }
            #[inline]
            fn from_slice_mut(slice: SliceMut<'_>) -> Option<&mut [Self]> {
                if let SliceMut::$variant(x) = slice { Some(x) } else { None }
            }
            #[inline]
            fn to_slice(slice: &[Self]) -> Slice<'_> {
                Slice::$variant(slice)
            }
            #[inline]
            fn to_slice_mut(slice: &mut [Self]) -> SliceMut<'_> {
                SliceMut::$variant(slice)
            }
            #[inline]
            fn borrow_scalar(scalar: &Scalar) -> Option<&Self> {
                if let Scalar::$variant(x) = scalar { Some(x) } else { None }
            }
            #[inline]
            fn borrow_scalar_mut(scalar: &mut Scalar) -> Option<&mut Self> {
                if let Scalar::$variant(x) = scalar { Some(x) } else { None }
            }
        }
        impl From<$type> for Scalar {
            fn from(x: $type) -> Self {
                Scalar::$variant(x)
            }
        }
    )*};
}

element! {
    bool, Bool;
    i64, I64;
    f32, F32;
    f64, F64;
}

impl From<i32> for Scalar {
    fn from(x: i32) -> Self {
        Self::I64(i64::from(x))
    }
}

impl From<usize> for Scalar {
    fn from(x: usize) -> Self {
        Self::I64(i64::try_from(x).expect("an index fits into i64"))
    }
}

/// Runs `$body` with the type alias `$T` bound to the Rust type of a dtype.
macro_rules! with_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Bool => {
                type $T = bool;
                $body
            }
            $crate::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_dtype;
