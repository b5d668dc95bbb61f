//! Conversion from one dtype to another, of single values and of runs of elements.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;
use pulp::{Arch, NullaryFnOnce};

use crate::{DType, Element, Error, Scalar, Slice, SliceMut, raise};

/// A value as the widest type of its kind.
enum Widest {
    Integer(i64),
    Float(f64),
    Complex(Complex<f64>),
}

impl Scalar {
    /// Converts the value to another type, as Rust's `as` does: floats to integers round towards
    /// zero and saturate, integers to smaller ones wrap around, everything but zero is `true`, and
    /// a number that a float type does not have is rounded once, to the nearest, ties to even. Complex
    /// numbers become other complex numbers or `bool`.
    ///
    /// # Panics
    /// Panics if a complex number is to become a real one, which would lose a part of it.
    #[inline]
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        match self.widest() {
            Widest::Integer(x) => match dtype {
                DType::Bool => Self::Bool(x != 0),
                DType::U8 => Self::U8(x as u8),
                DType::I32 => Self::I32(x as i32),
                DType::I64 => Self::I64(x),
                DType::F16 => Self::F16(f16::from_f32(to_odd(sticky(x)))),
                DType::BF16 => Self::BF16(bf16::from_f32(to_odd(sticky(x)))),
                DType::F32 => Self::F32(x as f32),
                DType::F64 => Self::F64(x as f64),
                DType::C64 => Self::C64((x as f32).into()),
                DType::C128 => Self::C128((x as f64).into()),
            },
            Widest::Float(x) => match dtype {
                DType::Bool => Self::Bool(x != 0.0),
                DType::U8 => Self::U8(x as u8),
                DType::I32 => Self::I32(x as i32),
                DType::I64 => Self::I64(x as i64),
                DType::F16 => Self::F16(f16::from_f32(to_odd(x))),
                DType::BF16 => Self::BF16(bf16::from_f32(to_odd(x))),
                DType::F32 => Self::F32(x as f32),
                DType::F64 => Self::F64(x),
                DType::C64 => Self::C64((x as f32).into()),
                DType::C128 => Self::C128(x.into()),
            },
            Widest::Complex(x) => match dtype {
                DType::Bool => Self::Bool(x != Complex::ZERO),
                DType::C64 => Self::C64(narrow(x)),
                DType::C128 => Self::C128(x),
                DType::U8
                | DType::I32
                | DType::I64
                | DType::F16
                | DType::BF16
                | DType::F32
                | DType::F64 => not_real(self.dtype(), dtype),
            },
        }
    }

    #[inline]
    fn widest(self) -> Widest {
        match self {
            Self::Bool(x) => Widest::Integer(i64::from(x)),
            Self::U8(x) => Widest::Integer(i64::from(x)),
            Self::I32(x) => Widest::Integer(i64::from(x)),
            Self::I64(x) => Widest::Integer(x),
            Self::F16(x) => Widest::Float(x.to_f64()),
            Self::BF16(x) => Widest::Float(x.to_f64()),
            Self::F32(x) => Widest::Float(f64::from(x)),
            Self::F64(x) => Widest::Float(x),
            Self::C64(x) => Widest::Complex(widen(x)),
            Self::C128(x) => Widest::Complex(x),
        }
    }

    /// Returns the value as `f64`.
    ///
    /// # Panics
    /// Panics if it is a complex number.
    #[inline]
    #[track_caller]
    pub fn to_f64(self) -> f64 {
        match self.widest() {
            Widest::Integer(x) => x as f64,
            Widest::Float(x) => x,
            Widest::Complex(_) => not_real(self.dtype(), DType::F64),
        }
    }

    /// Returns the value as a complex number.
    ///
    /// ```
    /// use bibun_array::{Complex, Scalar};
    /// assert_eq!(Scalar::from(2).to_complex(), Complex::new(2.0, 0.0));
    /// ```
    #[inline]
    pub fn to_complex(self) -> Complex<f64> {
        match self.widest() {
            Widest::Integer(x) => Complex::from(x as f64),
            Widest::Float(x) => Complex::from(x),
            Widest::Complex(x) => x,
        }
    }
}

/// Raises that complex numbers do not become real ones.
#[cold]
#[track_caller]
pub(crate) fn not_real(from: DType, to: DType) -> ! {
    let what = format!("{from} does not become {to}; take `real`, `imag`, `abs` or `angle` of it");
    raise(Error::invalid("cast", what))
}

#[inline(always)]
fn widen(x: Complex<f32>) -> Complex<f64> {
    Complex::new(x.re.into(), x.im.into())
}

#[inline(always)]
fn narrow(x: Complex<f64>) -> Complex<f32> {
    Complex::new(x.re as f32, x.im as f32)
}

/// An integer as a float that rounds to 16 bits as the integer would: the digits that `f64` has no
/// room for are replaced by one last digit, which is set if any of them is.
fn sticky(x: i64) -> f64 {
    const LOST: i64 = (1 << 11) - 1;
    match x.unsigned_abs() >> 53 {
        0 => x as f64,
        _ => ((x & !LOST) | (i64::from(x & LOST != 0) << 11)) as f64,
    }
}

/// A number of single precision that rounds to 16 bits as `x` does: an inexact one ends in an odd
/// digit, so that it is never halfway between two (Boldo and Melquiond, Emulation of FMA and
/// correctly rounded sums, 2008).
#[inline(always)]
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    // One step towards zero if it was rounded away from zero; then the last digit is set.
    let cut = bits - u32::from(back.abs() > x.abs());
    f32::from_bits(if back == x || x.is_nan() {
        bits
    } else {
        cut | 1
    })
}

/// Converts a run of elements to another dtype, as [`Scalar::cast`] does.
pub(crate) fn convert(x: Slice<'_>, y: SliceMut<'_>) {
    /// The pairs of types that have their own loop.
    macro_rules! loops {
        ($($X:ident($x:ident) -> $Y:ident: $value:expr;)*) => {
            match (x, y) {
                $((Slice::$X(x), SliceMut::$Y(y)) => run(x, y, #[inline(always)] |$x| $value),)*
                (Slice::F16(x), SliceMut::F32(y)) => x.convert_to_f32_slice(y),
                (Slice::F32(x), SliceMut::F16(y)) => y.convert_from_f32_slice(x),
                (x, y) if x.dtype() == y.dtype() => copy(x, y),
                (x, y) => indirectly(x, y),
            }
        };
    }
    loops! {
        Bool(x) -> I64: i64::from(x);
        Bool(x) -> F32: f32::from(u8::from(x));
        Bool(x) -> F64: f64::from(u8::from(x));
        U8(x) -> I64: i64::from(x);
        I32(x) -> I64: i64::from(x);
        I64(x) -> Bool: x != 0;
        I64(x) -> U8: x as u8;
        I64(x) -> I32: x as i32;
        I64(x) -> F16: f16::from_f32(to_odd(sticky(x)));
        I64(x) -> BF16: bf16::from_f32(to_odd(sticky(x)));
        I64(x) -> F32: x as f32;
        I64(x) -> F64: x as f64;
        BF16(x) -> F32: x.to_f32();
        F32(x) -> Bool: x != 0.0;
        F32(x) -> U8: x as u8;
        F32(x) -> I32: x as i32;
        F32(x) -> I64: x as i64;
        F32(x) -> BF16: bf16::from_f32(x);
        F32(x) -> F64: f64::from(x);
        F64(x) -> Bool: x != 0.0;
        F64(x) -> U8: x as u8;
        F64(x) -> I32: x as i32;
        F64(x) -> I64: x as i64;
        F64(x) -> F16: f16::from_f32(to_odd(x));
        F64(x) -> BF16: bf16::from_f32(to_odd(x));
        F64(x) -> F32: x as f32;
        F32(x) -> C64: x.into();
        F64(x) -> C128: x.into();
        C64(x) -> C128: widen(x);
        C128(x) -> C64: narrow(x);
    }
}

/// Converts by way of an accumulator. Nothing is lost: the accumulator has all values of one of the
/// two types.
fn indirectly(x: Slice<'_>, mut y: SliceMut<'_>) {
    const BLOCK: usize = 512;
    fn by_way_of<T: Element>(x: Slice<'_>, y: &mut SliceMut<'_>) {
        let mut between = [T::default(); BLOCK];
        for start in (0..x.len()).step_by(BLOCK) {
            let between = &mut between[..BLOCK.min(x.len() - start)];
            convert(x.range(start, between.len()), T::to_slice_mut(between));
            convert(T::to_slice(between), y.range(start, between.len()));
        }
    }
    let (from, to) = (x.dtype(), y.dtype());
    if from.is_complex() || to.is_complex() {
        return one_by_one(x, y);
    }
    let between = match from.accumulator() {
        own if own != from => own,
        _ => to.accumulator(),
    };
    crate::dtype::with_accumulator!(between, T => by_way_of::<T>(x, &mut y));
}

/// Converts between pairs of types that are rare.
fn one_by_one(x: Slice<'_>, mut y: SliceMut<'_>) {
    let dtype = y.dtype();
    for i in 0..x.len() {
        let value = x.range(i, 1).first().cast(dtype);
        copy(Slice::of_scalar(&value), y.range(i, 1));
    }
}

fn copy(x: Slice<'_>, y: SliceMut<'_>) {
    crate::dtype::with_dtype!(x.dtype(), T => {
        let (x, y) = (T::from_slice(x), T::from_slice_mut(y));
        y.expect("of the same dtype").copy_from_slice(x.expect("of this dtype"));
    });
}

fn run<X: Copy, Y>(x: &[X], y: &mut [Y], convert: impl Fn(X) -> Y) {
    Arch::new().dispatch(Conversion(x, y, convert));
}

struct Conversion<'a, X, Y, F>(&'a [X], &'a mut [Y], F);

impl<X: Copy, Y, F: Fn(X) -> Y> NullaryFnOnce for Conversion<'_, X, Y, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(x, y, convert) = self;
        let len = y.len();
        let x = &x[..len];
        let mut i = 0;
        while i < len {
            y[i] = convert(x[i]);
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::with_dtype;

    /// Values of a dtype, including awkward ones.
    fn values(dtype: DType) -> Vec<Scalar> {
        let mut state = 7u64;
        let random = (0..3000).map(|i| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Few bits are small integers and subnormals; all bits are any number.
            state >> (i % 64)
        });
        let awkward = [
            0,
            1,
            u64::MAX,
            1 << 63,
            0x7ff0 << 48,
            0x7f80_0000,
            0x7c00,
            0x8000,
        ];
        let mut values: Vec<Scalar> = random
            .chain(awkward)
            .map(|bits| Scalar::from_bits(dtype, bits.into()))
            .collect();
        let numbers = [
            0.5,
            -1.5,
            254.6,
            255.9,
            256.0,
            -0.0,
            65519.9,
            65520.0,
            2147483647.4,
            -3e9,
            1e19,
            f64::NAN,
        ];
        values.extend(numbers.map(|x| Scalar::F64(x).cast(dtype)));
        let halfway = (1 << 60) + (1 << 52);
        values.extend(
            [halfway, halfway + 1, halfway - 1, -halfway - 1].map(|x| Scalar::I64(x).cast(dtype)),
        );
        values
    }

    #[test]
    fn runs_are_converted_as_single_values_are() {
        for from in DType::ALL {
            let values = values(from);
            for to in DType::ALL {
                if from.is_complex() && !to.is_complex() {
                    continue;
                }
                with_dtype!(from, X => with_dtype!(to, Y => {
                    let x: Vec<X> = values.iter().map(|x| X::from_scalar(*x)).collect();
                    let mut y = vec![Y::default(); x.len()];
                    convert(X::to_slice(&x), Y::to_slice_mut(&mut y));
                    for (&x, &y) in values.iter().zip(&y) {
                        let (y, expected) = (y.to_scalar(), x.cast(to));
                        let both_nan = y.to_complex().is_nan() && expected.to_complex().is_nan();
                        assert!(both_nan || y.to_bits() == expected.to_bits(), "{x:?} to {to}: {y:?}, not {expected:?}");
                    }
                }));
            }
        }
    }

    #[test]
    fn sixteen_bits_get_the_nearest_number() {
        for to in [DType::F16, DType::BF16] {
            // Finite numbers in order, and the middle of each two neighbours. Ties go to the even
            // one.
            let count = if to == DType::F16 { 0x7c00 } else { 0x7f80u64 };
            let number = |bits: u64| Scalar::from_bits(to, bits.into()).to_f64();
            for bits in 0..count - 1 {
                let (low, high) = (number(bits), number(bits + 1));
                let middle = low + (high - low) / 2.0;
                let even = bits + bits % 2;
                let cases = [
                    (low, bits),
                    (middle.next_down(), bits),
                    (middle, even),
                    (middle.next_up(), bits + 1),
                ];
                for (x, expected) in cases {
                    let bits = Scalar::F64(x).cast(to).to_bits();
                    assert_eq!(bits, expected.into(), "{x:e} to {to}");
                    assert_eq!(
                        Scalar::F64(-x).cast(to).to_bits(),
                        u128::from(expected | 0x8000),
                        "-{x:e} to {to}"
                    );
                }
            }
            let last = number(count - 1);
            let beyond = last + (last - number(count - 2)) / 2.0;
            assert_eq!(Scalar::F64(beyond).cast(to).to_f64(), f64::INFINITY);
            assert_eq!(Scalar::F64(beyond.next_down()).cast(to).to_f64(), last);
        }
    }

    #[test]
    fn what_holds_a_type_brings_it_back() {
        for from in DType::ALL {
            for to in DType::ALL.into_iter().filter(|to| to.holds(from)) {
                if from.is_complex() != to.is_complex() {
                    continue;
                }
                for x in values(from)
                    .into_iter()
                    .filter(|x| !x.to_complex().is_nan())
                {
                    assert_eq!(
                        x.cast(to).cast(from).to_bits(),
                        x.to_bits(),
                        "{x:?} by way of {to}"
                    );
                }
            }
        }
        assert!(!DType::F64.holds(DType::I64) && DType::F64.holds(DType::I32));
        assert!(!DType::BF16.holds(DType::F16) && !DType::F16.holds(DType::BF16));
    }

    #[test]
    fn integers_are_rounded_once_to_sixteen_bits() {
        // 2^60 + 2^52 is halfway between two neighbours of bf16, of which the lower one is even.
        let halfway = (1i64 << 60) + (1 << 52);
        let rounded = |x: i64| Scalar::I64(x).cast(DType::BF16).to_f64();
        assert_eq!(rounded(halfway), 2f64.powi(60));
        assert_eq!(rounded(halfway + 1), 2f64.powi(60) + 2f64.powi(53));
    }
}
