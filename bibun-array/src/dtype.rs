//! The element types of arrays, slices of elements, and single values.
//!
//! The table at the end has a row for each type. Enums, conversions, promotion and the names in
//! files follow from it.

use std::fmt;

use crate::display::decimal;
use crate::{Error, raise};

/// A kind of elements, from the least to the most general.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `true` and `false`.
    Truth,
    /// Whole numbers.
    Integer,
    /// Floating-point numbers, which carry a gradient.
    Float,
    /// Pairs of floating-point numbers, which carry a gradient as well.
    Complex,
}

/// The size of the words as which elements are moved; see [`Word`](crate::storage::Word).
pub(crate) enum WordSize {
    Truth,
    One,
    Two,
    Four,
    Eight,
    Sixteen,
}

/// The types in which elements are computed. Each of them is its own accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accumulator {
    Bool,
    I64,
    F32,
    F64,
    C64,
    C128,
}

impl DType {
    /// The number of dtypes.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns whether this is a type of real floating-point numbers.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Returns whether this is an integer type (`bool` is not).
    #[inline]
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Integer)
    }

    /// Returns whether this is a type of complex numbers.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }

    /// Returns whether values of this type can carry a gradient: real and complex floating-point
    /// numbers.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        matches!(self.kind(), Kind::Float | Kind::Complex)
    }

    /// Returns the type of complex numbers whose parts hold numbers of this type: `C128` for `F64`
    /// and integers, `C64` for the other floats.
    ///
    /// ```
    /// use bibun_array::DType;
    /// assert_eq!(DType::F32.to_complex(), DType::C64);
    /// ```
    #[inline]
    pub const fn to_complex(self) -> Self {
        match self.kind() {
            Kind::Complex => self,
            Kind::Float if self.size() < 8 => Self::C64,
            Kind::Float | Kind::Integer | Kind::Truth => Self::C128,
        }
    }

    /// Returns the type of the parts of complex numbers; other types are returned unchanged.
    ///
    /// ```
    /// use bibun_array::DType;
    /// assert_eq!(DType::C64.to_real(), DType::F32);
    /// ```
    #[inline]
    pub const fn to_real(self) -> Self {
        match self.kind() {
            Kind::Complex if self.size() == 8 => Self::F32,
            Kind::Complex => Self::F64,
            Kind::Float | Kind::Integer | Kind::Truth => self,
        }
    }

    /// Returns the type of `a ∘ b` for operands of two types, as in JAX: the first type in the
    /// order `Bool < U8 < I32 < I64 < F16, BF16 < F32 < F64, C64 < C128` that both can become. So
    /// integers never widen a float, the two types of 16 bits meet in `F32`, and `F64` and `C64` in
    /// `C128`.
    ///
    /// ```
    /// use bibun_array::DType;
    /// assert_eq!(DType::I64.promote(DType::BF16), DType::BF16);
    /// assert_eq!(DType::F16.promote(DType::BF16), DType::F32);
    /// ```
    #[inline]
    pub const fn promote(self, other: Self) -> Self {
        PROMOTED[self as usize][other as usize]
    }

    /// Returns the type of sums and products over elements: floats keep their type, and all others
    /// are summed as `I64`, as in NumPy and PyTorch.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// assert_eq!(Array::from([200u8, 100]).sum(..).item::<i64>(), 300);
    /// assert_eq!(DType::BF16.of_sums(), DType::BF16);
    /// ```
    #[inline]
    pub const fn of_sums(self) -> Self {
        match self.kind() {
            Kind::Float | Kind::Complex => self,
            Kind::Integer | Kind::Truth => Self::I64,
        }
    }

    /// Returns the lowest finite value of a float type, or the smallest integer.
    ///
    /// # Panics
    /// Panics for complex numbers, which have no order.
    ///
    /// ```
    /// use bibun_array::{DType, Scalar};
    /// assert_eq!(DType::F16.lowest().to_f64(), -65504.0);
    /// assert_eq!(DType::U8.lowest(), Scalar::U8(0));
    /// ```
    #[track_caller]
    pub fn lowest(self) -> Scalar {
        match self {
            Self::Bool => Scalar::Bool(false),
            Self::U8 => Scalar::U8(u8::MIN),
            Self::I32 => Scalar::I32(i32::MIN),
            Self::I64 => Scalar::I64(i64::MIN),
            Self::F16 => Scalar::F16(half::f16::MIN),
            Self::BF16 => Scalar::BF16(half::bf16::MIN),
            Self::F32 => Scalar::F32(f32::MIN),
            Self::F64 => Scalar::F64(f64::MIN),
            Self::C64 | Self::C128 => no_order("lowest", self),
        }
    }

    /// Returns the highest finite value of a float type, or the largest integer.
    ///
    /// # Panics
    /// Panics for complex numbers, which have no order.
    ///
    /// ```
    /// use bibun_array::{DType, Scalar};
    /// assert_eq!(DType::F16.highest().to_f64(), 65504.0);
    /// assert_eq!(DType::U8.highest(), Scalar::U8(255));
    /// ```
    #[track_caller]
    pub fn highest(self) -> Scalar {
        match self {
            Self::Bool => Scalar::Bool(true),
            Self::U8 => Scalar::U8(u8::MAX),
            Self::I32 => Scalar::I32(i32::MAX),
            Self::I64 => Scalar::I64(i64::MAX),
            Self::F16 => Scalar::F16(half::f16::MAX),
            Self::BF16 => Scalar::BF16(half::bf16::MAX),
            Self::F32 => Scalar::F32(f32::MAX),
            Self::F64 => Scalar::F64(f64::MAX),
            Self::C64 | Self::C128 => no_order("highest", self),
        }
    }

    /// The size of the words as which elements are moved.
    pub(crate) const fn word(self) -> WordSize {
        match (self.kind(), self.size()) {
            (Kind::Truth, _) => WordSize::Truth,
            (_, 1) => WordSize::One,
            (_, 2) => WordSize::Two,
            (_, 4) => WordSize::Four,
            (_, 8) => WordSize::Eight,
            (_, 16) => WordSize::Sixteen,
            (_, _) => unreachable!(),
        }
    }

    /// Whether [`promote`](DType::promote) may turn this type into `other`.
    const fn widens_to(self, other: Self) -> bool {
        if self as usize == other as usize {
            return true;
        }
        let (wider, mut i) = (self.wider(), 0);
        while i < wider.len() {
            if wider[i].widens_to(other) {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Returns whether every value of `other` is a value of this type, too.
    ///
    /// ```
    /// use bibun_array::DType;
    /// assert!(DType::F32.holds(DType::BF16) && DType::I64.holds(DType::U8));
    /// assert!(!DType::F32.holds(DType::I64));
    /// ```
    pub const fn holds(self, other: Self) -> bool {
        let widens = other.widens_to(self);
        widens && self.digits() >= other.digits()
    }
}

/// Raises that a function needs an order, which complex numbers do not have.
#[cold]
#[track_caller]
fn no_order(function: &'static str, dtype: DType) -> ! {
    let what = format!("numbers of the dtype {dtype} have no order");
    raise(Error::invalid(function, what))
}

/// The promoted type of every pair.
const PROMOTED: [[DType; DType::COUNT]; DType::COUNT] = {
    let mut table = [[DType::Bool; DType::COUNT]; DType::COUNT];
    let mut a = 0;
    while a < DType::COUNT {
        let mut b = 0;
        while b < DType::COUNT {
            let mut both = 0;
            while !(DType::ALL[a].widens_to(DType::ALL[both])
                && DType::ALL[b].widens_to(DType::ALL[both]))
            {
                both += 1;
            }
            table[a][b] = DType::ALL[both];
            b += 1;
        }
        a += 1;
    }
    table
};

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Scalar {
    /// Returns the zero (or `false`) of a dtype.
    pub fn zero(dtype: DType) -> Self {
        Self::from_bits(dtype, 0)
    }

    /// Returns the one (or `true`) of a dtype.
    pub fn one(dtype: DType) -> Self {
        Self::Bool(true).cast(dtype)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that an array can hold: `bool`, `u8`, `i32`, `i64`, `f32`, `f64`,
/// [`f16`](half::f16) and [`bf16`](half::bf16) of the crate [`half`], and `Complex<f32>` and
/// `Complex<f64>` of the crate [`num_complex`].
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static
{
    /// The dtype of this type.
    const DTYPE: DType;
    /// The type in which elements are computed; see [`DType::accumulator`].
    type Accumulator: Element;
    /// Returns the value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
    /// Returns the value of a [`Scalar`], converted as by [`Scalar::cast`].
    fn from_scalar(scalar: Scalar) -> Self;
    /// Returns the typed slice inside, if it has this type.
    fn from_slice(slice: Slice<'_>) -> Option<&[Self]>;
    /// Returns the typed mutable slice inside, if it has this type.
    fn from_slice_mut(slice: SliceMut<'_>) -> Option<&mut [Self]>;
    /// Wraps a typed slice.
    fn to_slice(slice: &[Self]) -> Slice<'_>;
    /// Wraps a typed mutable slice.
    fn to_slice_mut(slice: &mut [Self]) -> SliceMut<'_>;
    /// Returns the element inside a scalar of exactly this type, by reference.
    fn borrow_scalar(scalar: &Scalar) -> Option<&Self>;
    /// Returns the element inside a scalar of exactly this type, by mutable reference.
    fn borrow_scalar_mut(scalar: &mut Scalar) -> Option<&mut Self>;
}

/// Defines everything that has one case for each dtype.
macro_rules! dtypes {
    ($d:tt $(
        $(#[$documentation:meta])*
        $variant:ident($type:ty) {
            kind: $kind:ident,
            name: $name:literal,
            accumulator: $accumulator:ident($computed:ty),
            wider: [$($wider:ident),*],
            digits: $digits:literal,
            numpy: $numpy:literal,
            safetensors: $safetensors:expr,
            to_bits: $to_bits:expr,
            from_bits: $from_bits:expr,
        }
    )*) => {
        /// The type of an array's elements.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum DType {$(
            $(#[$documentation])*
            $variant,
        )*}

        impl DType {
            /// All dtypes.
            pub const ALL: [Self; [$(Self::$variant),*].len()] = [$(Self::$variant),*];

            /// Returns the kind of the elements.
            #[inline]
            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)*
                }
            }

            /// Returns the number of bytes of one element.
            #[inline]
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$variant => size_of::<$type>(),)*
                }
            }

            /// Returns the name that the type has in Rust.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the name of the type in files of the safetensors format, if it has one.
            pub const fn safetensors(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => $safetensors,)*
                }
            }

            /// Returns the name of the type in files of the npy format. NumPy itself has no
            /// bfloat16; JAX and others write its elements as two bytes without a type.
            pub const fn numpy(self) -> &'static str {
                match self {
                    $(Self::$variant => $numpy,)*
                }
            }

            /// Returns the type in which elements are computed and added up before they are rounded
            /// once.
            ///
            /// ```
            /// use bibun_array::DType;
            /// assert_eq!(DType::BF16.accumulator(), DType::F32);
            /// ```
            #[inline]
            pub const fn accumulator(self) -> Self {
                match self {
                    $(Self::$variant => Self::$accumulator,)*
                }
            }

            /// [`DType::accumulator`] as an enum, for matches with code for each.
            #[inline]
            pub(crate) const fn computed(self) -> Accumulator {
                match self {
                    $(Self::$variant => Accumulator::$accumulator,)*
                }
            }

            /// The next wider types that this one may become when combined with others.
            const fn wider(self) -> &'static [Self] {
                match self {
                    $(Self::$variant => &[$(Self::$wider),*],)*
                }
            }

            /// The number of binary digits of its numbers.
            const fn digits(self) -> u32 {
                match self {
                    $(Self::$variant => $digits,)*
                }
            }
        }

        /// A single value of any dtype.
        ///
        /// ```
        /// use bibun_array::{DType, Scalar};
        /// let x = Scalar::from(2.5f32);
        /// assert_eq!(x.cast(DType::I64), Scalar::I64(2));
        /// ```
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum Scalar {$(
            $(#[$documentation])*
            $variant($type),
        )*}

        impl Scalar {
            /// Returns the type of the value.
            #[inline]
            pub const fn dtype(self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant,)*
                }
            }

            /// The value that has these bits, in its lowest bits.
            pub(crate) fn from_bits(dtype: DType, bits: u128) -> Self {
                match dtype {
                    $(DType::$variant => {
                        let from_bits: fn(u128) -> $type = $from_bits;
                        Self::$variant(from_bits(bits))
                    })*
                }
            }

            /// The bits of the value; all higher bits are zero.
            pub(crate) fn to_bits(self) -> u128 {
                match self {
                    $(Self::$variant(x) => {
                        let to_bits: fn($type) -> u128 = $to_bits;
                        to_bits(x)
                    })*
                }
            }
        }

        impl fmt::Display for Scalar {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match decimal(*self) {
                    $(Self::$variant(x) => write!(f, "{x}"),)*
                }
            }
        }

        /// A slice of elements of any dtype.
        #[derive(Clone, Copy, Debug)]
        pub enum Slice<'a> {$(
            $(#[$documentation])*
            $variant(&'a [$type]),
        )*}

        impl<'a> Slice<'a> {
            /// Creates a slice of one element.
            pub fn of_scalar(scalar: &'a Scalar) -> Self {
                match scalar {
                    $(Scalar::$variant(x) => Self::$variant(std::slice::from_ref(x)),)*
                }
            }

            /// Returns the type of the elements.
            #[inline]
            pub fn dtype(&self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant,)*
                }
            }

            /// Returns the number of elements.
            #[inline]
            #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(x) => x.len(),)*
                }
            }

            /// Returns the first element.
            ///
            /// # Panics
            /// Panics if there is none.
            pub fn first(&self) -> Scalar {
                match self {
                    $(Self::$variant(x) => Scalar::$variant(x[0]),)*
                }
            }

            /// Returns a part of the slice.
            pub fn range(self, start: usize, len: usize) -> Self {
                match self {
                    $(Self::$variant(x) => Self::$variant(&x[start..start + len]),)*
                }
            }
        }

        /// A mutable slice of elements of any dtype.
        #[derive(Debug)]
        pub enum SliceMut<'a> {$(
            $(#[$documentation])*
            $variant(&'a mut [$type]),
        )*}

        impl<'a> SliceMut<'a> {
            /// Creates a mutable slice of one element.
            pub fn of_scalar(scalar: &'a mut Scalar) -> Self {
                match scalar {
                    $(Scalar::$variant(x) => Self::$variant(std::slice::from_mut(x)),)*
                }
            }

            /// Returns the type of the elements.
            #[inline]
            pub fn dtype(&self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant,)*
                }
            }

            /// Returns the number of elements.
            #[inline]
            #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(x) => x.len(),)*
                }
            }

            /// Returns the elements, to be read.
            pub fn as_slice(&self) -> Slice<'_> {
                match self {
                    $(Self::$variant(x) => Slice::$variant(x),)*
                }
            }

            /// Returns a part of the slice.
            pub fn range(&mut self, start: usize, len: usize) -> SliceMut<'_> {
                match self {
                    $(Self::$variant(x) => SliceMut::$variant(&mut x[start..start + len]),)*
                }
            }

            /// Returns the first elements and the others.
            pub(crate) fn split_at(self, count: usize) -> (Self, Self) {
                match self {
                    $(Self::$variant(x) => {
                        let (first, others) = x.split_at_mut(count);
                        (Self::$variant(first), Self::$variant(others))
                    })*
                }
            }

            /// Takes the slice out. An empty one stays behind.
            pub(crate) fn take(&mut self) -> Self {
                match self {
                    $(Self::$variant(x) => Self::$variant(std::mem::take(x)),)*
                }
            }
        }

        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: DType = DType::$variant;
                type Accumulator = $computed;
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
        )*

        /// Runs `$body` with the type alias `$T` bound to the Rust type of a dtype.
        macro_rules! with_dtype {
            ($d dtype:expr, $d T:ident => $d body:expr) => {
                match $d dtype {
                    $($crate::DType::$variant => {
                        type $d T = $type;
                        $d body
                    })*
                }
            };
        }
        pub(crate) use with_dtype;
    };
}

// To add a dtype, write its row, with the types that it becomes when combined with others, and its
// conversions in `conversion.rs`. If its accumulator is another type, all functions work with it
// then: they convert what they read and what they write. The compiler points out other places to
// change.
dtypes! { $
    /// `bool`.
    Bool(bool) {
        kind: Truth,
        name: "bool",
        accumulator: Bool(bool),
        wider: [U8],
        digits: 1,
        numpy: "|b1",
        safetensors: Some("BOOL"),
        to_bits: u128::from,
        from_bits: |bits| bits != 0,
    }
    /// Unsigned 8-bit integers, such as the channels of images. Sums of them are `I64`.
    U8(u8) {
        kind: Integer,
        name: "u8",
        accumulator: I64(i64),
        wider: [I32],
        digits: 8,
        numpy: "|u1",
        safetensors: Some("U8"),
        to_bits: u128::from,
        from_bits: |bits| bits as u8,
    }
    /// Signed 32-bit integers. Sums of them are `I64`.
    I32(i32) {
        kind: Integer,
        name: "i32",
        accumulator: I64(i64),
        wider: [I64],
        digits: 31,
        numpy: "<i4",
        safetensors: Some("I32"),
        to_bits: |x| u128::from(x.cast_unsigned()),
        from_bits: |bits| bits as i32,
    }
    /// Signed 64-bit integers: counts, class numbers, indices.
    I64(i64) {
        kind: Integer,
        name: "i64",
        accumulator: I64(i64),
        wider: [F16, BF16],
        digits: 63,
        numpy: "<i8",
        safetensors: Some("I64"),
        to_bits: |x| u128::from(x.cast_unsigned()),
        from_bits: |bits| bits as i64,
    }
    /// Half precision of IEEE 754, with 11 binary digits and 5 bits of exponent: at most 65,504.
    F16(half::f16) {
        kind: Float,
        name: "f16",
        accumulator: F32(f32),
        wider: [F32],
        digits: 11,
        numpy: "<f2",
        safetensors: Some("F16"),
        to_bits: |x| u128::from(x.to_bits()),
        from_bits: |bits| half::f16::from_bits(bits as u16),
    }
    /// The upper half of an `F32`, with 8 binary digits and the range of `F32`.
    BF16(half::bf16) {
        kind: Float,
        name: "bf16",
        accumulator: F32(f32),
        wider: [F32],
        digits: 8,
        numpy: "<V2",
        safetensors: Some("BF16"),
        to_bits: |x| u128::from(x.to_bits()),
        from_bits: |bits| half::bf16::from_bits(bits as u16),
    }
    /// Single precision.
    F32(f32) {
        kind: Float,
        name: "f32",
        accumulator: F32(f32),
        wider: [F64, C64],
        digits: 24,
        numpy: "<f4",
        safetensors: Some("F32"),
        to_bits: |x| u128::from(x.to_bits()),
        from_bits: |bits| f32::from_bits(bits as u32),
    }
    /// Double precision.
    F64(f64) {
        kind: Float,
        name: "f64",
        accumulator: F64(f64),
        wider: [C128],
        digits: 53,
        numpy: "<f8",
        safetensors: Some("F64"),
        to_bits: |x| u128::from(x.to_bits()),
        from_bits: |bits| f64::from_bits(bits as u64),
    }
    /// Complex numbers of single precision, with parts of 32 bits: `complex64` of NumPy.
    C64(num_complex::Complex<f32>) {
        kind: Complex,
        name: "c64",
        accumulator: C64(num_complex::Complex<f32>),
        wider: [C128],
        digits: 24,
        numpy: "<c8",
        safetensors: Some("C64"),
        to_bits: |x| u128::from(x.re.to_bits()) | u128::from(x.im.to_bits()) << 32,
        from_bits: |bits| num_complex::Complex::new(f32::from_bits(bits as u32), f32::from_bits((bits >> 32) as u32)),
    }
    /// Complex numbers of double precision, with parts of 64 bits: `complex128` of NumPy.
    C128(num_complex::Complex<f64>) {
        kind: Complex,
        name: "c128",
        accumulator: C128(num_complex::Complex<f64>),
        wider: [],
        digits: 53,
        numpy: "<c16",
        safetensors: None,
        to_bits: |x| u128::from(x.re.to_bits()) | u128::from(x.im.to_bits()) << 64,
        from_bits: |bits| num_complex::Complex::new(f64::from_bits(bits as u64), f64::from_bits((bits >> 64) as u64)),
    }
}

/// Runs `$body` with the type alias `$T` bound to the Rust type of a dtype's accumulator. Complex
/// numbers, which have their own loops or are computed by their parts, do not come here.
macro_rules! with_accumulator {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $crate::DType::computed($dtype) {
            $crate::dtype::Accumulator::Bool => {
                type $T = bool;
                $body
            }
            $crate::dtype::Accumulator::I64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::Accumulator::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::Accumulator::F64 => {
                type $T = f64;
                $body
            }
            $crate::dtype::Accumulator::C64 | $crate::dtype::Accumulator::C128 => {
                $crate::dtype::not_complex()
            }
        }
    };
}
pub(crate) use with_accumulator;

/// Panics, where functions have refused complex numbers or computed with their parts.
#[cold]
pub(crate) fn not_complex() -> ! {
    unreachable!("complex numbers are refused or computed by their parts")
}

/// [`with_accumulator`] for dtypes that the caller has checked to be floats.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $crate::DType::computed($dtype) {
            $crate::dtype::Accumulator::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::Accumulator::F64 => {
                type $T = f64;
                $body
            }
            $crate::dtype::Accumulator::Bool
            | $crate::dtype::Accumulator::I64
            | $crate::dtype::Accumulator::C64
            | $crate::dtype::Accumulator::C128 => {
                unreachable!("only floats come here")
            }
        }
    };
}
pub(crate) use with_float;

/// Runs `$body` with the type alias `$W` bound to the [`Word`](crate::storage::Word) that has the
/// size of a dtype, for functions that move elements without interpreting them.
macro_rules! with_word {
    ($dtype:expr, $W:ident => $body:expr) => {
        match $crate::DType::word($dtype) {
            $crate::dtype::WordSize::Truth => {
                type $W = bool;
                $body
            }
            $crate::dtype::WordSize::One => {
                type $W = u8;
                $body
            }
            $crate::dtype::WordSize::Two => {
                type $W = u16;
                $body
            }
            $crate::dtype::WordSize::Four => {
                type $W = u32;
                $body
            }
            $crate::dtype::WordSize::Eight => {
                type $W = u64;
                $body
            }
            $crate::dtype::WordSize::Sixteen => {
                type $W = u128;
                $body
            }
        }
    };
}
pub(crate) use with_word;

impl From<usize> for Scalar {
    fn from(x: usize) -> Self {
        Self::I64(i64::try_from(x).expect("an index fits into i64"))
    }
}
