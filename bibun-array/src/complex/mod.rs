//! Complex numbers: their parts, and what is computed by parts.

mod formula;
mod functions;

use std::ops::Mul;

use num_complex::Complex;

pub(crate) use formula::{complex_formula, formula_of, run};

use crate::error::allocating;
use crate::{Array, DType, Definition, Element, Error, Slice, SliceMut, ops, raise};

/// The kernels of one precision.
struct Kernels {
    real: Definition,
    imaginary: Definition,
    conjugate: Definition,
    joined: Definition,
}

/// The complex numbers with parts of this type.
trait Part: Element
where
    Complex<Self>: Element,
{
    const KERNELS: &'static Kernels;
}

fn slice<T: Element>(x: Slice<'_>) -> &[T] {
    T::from_slice(x).expect("the dtypes have been checked")
}

fn slice_mut<T: Element>(x: SliceMut<'_>) -> &mut [T] {
    T::from_slice_mut(x).expect("the device made the output")
}

macro_rules! parts {
    ($($T:ty),*) => {$(
        impl Part for $T {
            const KERNELS: &'static Kernels = {
                static KERNELS: Kernels = Kernels {
                    real: Definition::of_complex("real", Some(<$T>::DTYPE), |_, x, y| {
                        let pairs = slice_mut::<$T>(y).iter_mut().zip(slice::<Complex<$T>>(x[0]));
                        pairs.for_each(|(y, x)| *y = x.re);
                    }),
                    imaginary: Definition::of_complex("imag", Some(<$T>::DTYPE), |_, x, y| {
                        let pairs = slice_mut::<$T>(y).iter_mut().zip(slice::<Complex<$T>>(x[0]));
                        pairs.for_each(|(y, x)| *y = x.im);
                    }),
                    conjugate: Definition::of_complex("conj", None, |_, x, y| {
                        let x = slice::<Complex<$T>>(x[0]);
                        let pairs = slice_mut::<Complex<$T>>(y).iter_mut().zip(x);
                        pairs.for_each(|(y, x)| *y = x.conj());
                    }),
                    joined: Definition::to_complex("complex", Complex::<$T>::DTYPE, |_, x, y| {
                        let parts = slice::<$T>(x[0]).iter().zip(slice::<$T>(x[1]));
                        let pairs = slice_mut::<Complex<$T>>(y).iter_mut().zip(parts);
                        pairs.for_each(|(y, (&re, &im))| *y = Complex::new(re, im));
                    }),
                };
                &KERNELS
            };
        }
    )*};
}
parts!(f32, f64);

/// The kernels for complex numbers of a dtype.
fn kernels(dtype: DType) -> &'static Kernels {
    match dtype.size() {
        8 => f32::KERNELS,
        _ => f64::KERNELS,
    }
}

impl Array {
    /// Returns the real part of each element; the elements themselves if they are real.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::from([Complex::new(1.0, 2.0)]);
    /// assert_eq!((z.real().to_vec::<f64>(), z.imag().to_vec::<f64>()), (vec![1.0], vec![2.0]));
    /// ```
    #[must_use]
    pub fn real(&self) -> Self {
        match self.dtype().is_complex() {
            true => ops::run(&kernels(self.dtype()).real, [self.clone()]),
            false => self.clone(),
        }
    }

    /// Returns the imaginary part of each element; zeros if they are real.
    #[must_use]
    pub fn imag(&self) -> Self {
        match self.dtype().is_complex() {
            true => ops::run(&kernels(self.dtype()).imaginary, [self.clone()]),
            false => Self::zeros(self.shape(), self.dtype()),
        }
    }

    /// Returns the complex conjugate of each element; the elements themselves if they are real.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::from([Complex::new(1.0, 2.0)]);
    /// assert_eq!(z.conj().to_vec::<Complex<f64>>(), [Complex::new(1.0, -2.0)]);
    /// ```
    #[must_use]
    pub fn conj(&self) -> Self {
        match self.dtype().is_complex() {
            true => ops::run(&kernels(self.dtype()).conjugate, [self.clone()]),
            false => self.clone(),
        }
    }

    /// Returns the complex numbers with these real and imaginary parts, in
    /// [`DType::to_complex`] of their promoted dtype.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one of the parts is complex.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::complex(&Array::from([1.0, 2.0]), &Array::from(3.0));
    /// assert_eq!(z.to_vec::<Complex<f64>>()[1], Complex::new(2.0, 3.0));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn complex(real: &Self, imag: &Self) -> Self {
        let dtype = real.dtype().promote(imag.dtype());
        if dtype.is_complex() {
            let what = format!(
                "the parts are {} and {}; they must be real",
                real.dtype(),
                imag.dtype()
            );
            raise(Error::invalid("complex", what));
        }
        let dtype = dtype.to_complex();
        let parts = [real, imag].map(|part| part.cast(dtype.to_real()));
        ops::run(&kernels(dtype).joined, parts)
    }

    /// Returns the real and imaginary parts along a new last axis of two, as a copy.
    ///
    /// # Panics
    /// Panics if the elements are not complex.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::from([Complex::new(1.0, 2.0)]);
    /// assert_eq!(z.view_as_real().to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn view_as_real(&self) -> Self {
        if !self.dtype().is_complex() {
            let what = format!("the dtype is {}, expected a complex one", self.dtype());
            raise(Error::invalid("view_as_real", what));
        }
        allocating("view_as_real", || {
            crate::stack(&[&self.real(), &self.imag()], -1)
        })
    }

    /// Returns the complex numbers whose parts are along the last axis, as a copy.
    ///
    /// # Panics
    /// Panics if the last axis has not two elements, or these are not floats.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::from([[1.0, 2.0]]).view_as_complex();
    /// assert_eq!(z.to_vec::<Complex<f64>>(), [Complex::new(1.0, 2.0)]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn view_as_complex(&self) -> Self {
        if self.shape().last() != Some(&2) || !self.dtype().is_float() {
            let (shape, dtype) = (self.shape(), self.dtype());
            let what = format!("x is {shape} {dtype}; it must be [.., 2] of floats");
            raise(Error::invalid("view_as_complex", what));
        }
        let last = self.rank() as isize - 1;
        let part = |i: i64| self.take(&Self::scalar(i), last);
        Self::complex(&part(0), &part(1))
    }

    /// Computes the angle of each element as a point in the plane, from -π to π.
    ///
    /// ```
    /// use bibun_array::{Array, Complex};
    /// let z = Array::from([Complex::new(0.0, 2.0)]);
    /// assert_eq!(z.angle().to_vec::<f64>(), [std::f64::consts::FRAC_PI_2]);
    /// ```
    #[must_use]
    pub fn angle(&self) -> Self {
        ops::atan2(self.imag(), self.real())
    }
}

/// Computes an operation that is linear with real coefficients for both parts.
pub(crate) fn by_parts<const N: usize>(x: [&Array; N], f: impl Fn([Array; N]) -> Array) -> Array {
    let real = f(x.map(Array::real));
    let imag = f(x.map(Array::imag));
    Array::complex(&real, &imag)
}

/// The products of each `count` complex numbers in row-major order, in one axis: one of each row, or
/// the running ones.
pub(crate) fn products(x: &Array, count: usize, running: bool) -> Array {
    fn of<T: Element + Mul<Output = T>>(x: &Array, count: usize, running: bool, one: T) -> Array {
        let mut elements = x.to_vec::<T>();
        let mut whole = Vec::new();
        for row in elements.chunks_mut(count.max(1)) {
            let mut product = one;
            for x in row {
                product = product * *x;
                *x = product;
            }
            whole.push(product);
        }
        let y = if running { elements } else { whole };
        let len = y.len();
        Array::from_vec(y, len)
    }
    match x.dtype().size() {
        8 => of(x, count, running, Complex::<f32>::ONE),
        _ => of(x, count, running, Complex::<f64>::ONE),
    }
}
