//! Discrete Fourier transforms, and what is computed by them.
//!
//! All are linear, with transposes that are transforms again, so that there are derivatives of every
//! order. They are computed on the CPU.

mod cosine;
mod options;
mod short_time;
mod transform;

use bibun_array::{Array, Axes, Fourier};

pub use cosine::{dct, dctn, idct, idctn};
pub use options::{FourierAxes, FourierNorm, FourierOptions};
pub use short_time::{StftOptions, istft, stft};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::{cast, conj, multiply, part, roll, to_differentiable};
use crate::variable::Variable;
use transform::{Transform, along, resized, size_of};

/// Returns x as the complex numbers that are transformed.
#[track_caller]
fn to_complex(x: Variable) -> Variable {
    let dtype = x.dtype().to_complex();
    cast(x, dtype)
}

/// Returns x as the real numbers that are transformed.
#[track_caller]
fn to_real(function: &'static str, x: Variable) -> Variable {
    if x.dtype().is_complex() {
        mismatch(
            function,
            &[("x", &x.spec())],
            "x must be real; `fft` is for complex numbers",
        );
    }
    let dtype = x.dtype().to_complex().to_real();
    cast(x, dtype)
}

/// Transforms complex numbers along axes, each of which is first cut or filled up to its length.
#[track_caller]
fn complex_along(
    function: &'static str,
    x: Variable,
    axes: &[(usize, Option<usize>)],
    norm: FourierNorm,
    inverse: bool,
) -> Variable {
    let transform = if inverse {
        Fourier::Inverse
    } else {
        Fourier::Forward
    };
    axes.iter().rev().fold(x, |x, &(axis, length)| {
        let n = length.unwrap_or_else(|| size_of(function, &x, axis));
        let scale = norm.scale(n, inverse);
        along(resized(x, axis, n), axis, Transform { transform, scale })
    })
}

#[track_caller]
fn complex_transform(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
    inverse: bool,
) -> Variable {
    let _whole = composite(function);
    let axes = options.resolve(function, x.rank(), count);
    complex_along(function, to_complex(x), &axes, options.scaling(), inverse)
}

#[track_caller]
fn real_transform(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
) -> Variable {
    let _whole = composite(function);
    let axes = options.resolve(function, x.rank(), count);
    let ((axis, length), others) = axes.split_last().expect("there is an axis");
    let x = to_real(function, x);
    let n = length.unwrap_or_else(|| size_of(function, &x, *axis));
    let scale = options.scaling().scale(n, false);
    let (transform, x) = (Fourier::Real, resized(x, *axis, n));
    let x = along(x, *axis, Transform { transform, scale });
    complex_along(function, x, others, options.scaling(), false)
}

#[track_caller]
fn inverse_to_real(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
) -> Variable {
    let _whole = composite(function);
    let axes = options.resolve(function, x.rank(), count);
    let ((axis, length), others) = axes.split_last().expect("there is an axis");
    let x = complex_along(function, to_complex(x), others, options.scaling(), true);
    let n = length.unwrap_or_else(|| 2 * (size_of(function, &x, *axis) - 1));
    if n == 0 {
        let what = format!(
            "x is {}; without a length, axis {axis} must have 2 elements",
            x.spec()
        );
        raise(Error::argument(function, what));
    }
    let transform = Fourier::RealInverse(n);
    let scale = options.scaling().scale(n, true);
    let x = resized(x, *axis, n / 2 + 1);
    along(x, *axis, Transform { transform, scale })
}

/// Writes the part of the documentation that transforms share.
macro_rules! documentation {
    ($types:literal, $shapes:literal, $gradient:literal) => {
        concat!(
            "\nRequires the feature `fft`. `options` sets axes, lengths and scale; see [`FourierOptions`]. It is computed \
             on the CPU.\n\nShapes: ", $shapes, ".\nTypes: ", $types, "\nGradient: ", $gradient, "\nSource: \
             `numpy.fft`; J. W. Cooley and J. W. Tukey, \"An algorithm for the machine calculation of complex Fourier \
             series\", 1965.\n\n# Panics\nPanics if the axes or lengths do not fit, or an axis is empty."
        )
    };
}

/// Defines the forms of a transform for one, two and any number of axes.
macro_rules! transforms {
    ($(
        $(#[$documentation:meta])*
        $name:ident($count:expr) -> $transform:ident $(, $inverse:literal)?;
        $types:literal, $shapes:literal, $gradient:literal;
    )+) => {$(
        $(#[$documentation])*
        #[doc = documentation!($types, $shapes, $gradient)]
        #[track_caller]
        pub fn $name(x: impl Into<Variable>, options: FourierOptions) -> Variable {
            $transform(stringify!($name), x.into(), &options, $count $(, $inverse)?)
        }
    )+};
}

transforms! {
    /// Computes the discrete Fourier transform `yₖ = Σⱼ xⱼ e^(-2πi jk/n)` along an axis.
    ///
    /// ```
    /// use bibun::{array::Complex, functions::{fft, FourierOptions}, Variable};
    /// let y = fft(Variable::new([1.0, 2.0]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<Complex<f64>>(), [Complex::new(3.0, 0.0), Complex::new(-1.0, 0.0)]);
    /// ```
    fft(Some(1)) -> complex_transform, false;
    "all → complex numbers.", "x any → the same, with the length", "the other transform of `gy`.";

    /// Computes the inverse `xⱼ = Σₖ yₖ e^(2πi jk/n) / n` along an axis.
    ///
    /// ```
    /// use bibun::{functions::{fft, ifft, real, FourierOptions}, Variable};
    /// let y = fft(Variable::new([1.0, 2.0]), FourierOptions::new());
    /// assert_eq!(real(ifft(y, FourierOptions::new())).to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    ifft(Some(1)) -> complex_transform, true;
    "all → complex numbers.", "x any → the same, with the length", "the other transform of `gy`.";

    /// Computes [`fft`] along two axes.
    ///
    /// ```
    /// use bibun::{functions::{fft2, real, FourierOptions}, Variable};
    /// let y = fft2(Variable::new([[1.0, 2.0], [3.0, 4.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [10.0, -2.0, -4.0, 0.0]);
    /// ```
    fft2(Some(2)) -> complex_transform, false;
    "all → complex numbers.", "x any → the same, with the lengths", "the other transform of `gy`.";

    /// Computes [`ifft`] along two axes.
    ///
    /// ```
    /// use bibun::{functions::{ifft2, real, FourierOptions}, Variable};
    /// let y = ifft2(Variable::new([[4.0, 0.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [1.0; 4]);
    /// ```
    ifft2(Some(2)) -> complex_transform, true;
    "all → complex numbers.", "x any → the same, with the lengths", "the other transform of `gy`.";

    /// Computes [`fft`] along several axes.
    ///
    /// ```
    /// use bibun::{functions::{fftn, real, FourierOptions}, Variable};
    /// let y = fftn(Variable::new([[1.0, 2.0], [3.0, 4.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [10.0, -2.0, -4.0, 0.0]);
    /// ```
    fftn(None) -> complex_transform, false;
    "all → complex numbers.", "x any → the same, with the lengths", "the other transform of `gy`.";

    /// Computes [`ifft`] along several axes.
    ///
    /// ```
    /// use bibun::{functions::{ifftn, real, FourierOptions}, Variable};
    /// let y = ifftn(Variable::new([[4.0, 0.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [1.0; 4]);
    /// ```
    ifftn(None) -> complex_transform, true;
    "all → complex numbers.", "x any → the same, with the lengths", "the other transform of `gy`.";

    /// Computes the first `n / 2 + 1` results of [`fft`] of real numbers along an axis; the others are
    /// their conjugates.
    ///
    /// ```
    /// use bibun::{array::Complex, functions::{rfft, FourierOptions}, Variable};
    /// let y = rfft(Variable::new([1.0, 0.0, 0.0, 0.0]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<Complex<f64>>(), [Complex::new(1.0, 0.0); 3]);
    /// ```
    rfft(Some(1)) -> real_transform;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the axis",
    "the inverse transform of `gy` and zeros, real.";

    /// Computes the inverse of [`rfft`] along an axis, of the length `2 (m - 1)` if none is set. The
    /// imaginary parts of the first number and, of an even length, of the last one are ignored.
    ///
    /// ```
    /// use bibun::{functions::{irfft, rfft, FourierOptions}, Variable};
    /// let y = rfft(Variable::new([1.0, 2.0, 4.0]), FourierOptions::new());
    /// let x = irfft(y, FourierOptions::new().lengths([3]));
    /// assert!((x - Variable::new([1.0, 2.0, 4.0])).abs().sum(..).item::<f64>() < 1e-12);
    /// ```
    irfft(Some(1)) -> inverse_to_real;
    "all → floats.", "x any → the same, with the length along the axis",
    "the transform of `gy`, twice that of numbers that stand for their conjugates, too.";

    /// Computes [`rfft`] along the last of two axes and [`fft`] along the other.
    ///
    /// ```
    /// use bibun::{functions::{rfft2, real, FourierOptions}, Variable};
    /// let y = rfft2(Variable::new([[1.0, 2.0], [3.0, 4.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [10.0, -2.0, -4.0, 0.0]);
    /// ```
    rfft2(Some(2)) -> real_transform;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the last axis",
    "the inverse transforms of `gy` and zeros, real.";

    /// Computes the inverse of [`rfft2`].
    ///
    /// ```
    /// use bibun::{functions::{irfft2, FourierOptions}, Variable};
    /// let y = irfft2(Variable::new([[4.0, 0.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<f64>(), [1.0; 4]);
    /// ```
    irfft2(Some(2)) -> inverse_to_real;
    "all → floats.", "x any → the same, with the length along the last axis",
    "the transforms of `gy`, as of [`irfft`].";

    /// Computes [`rfft`] along the last of several axes and [`fft`] along the others.
    ///
    /// ```
    /// use bibun::{functions::{rfftn, real, FourierOptions}, Variable};
    /// let y = rfftn(Variable::new([[1.0, 2.0], [3.0, 4.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [10.0, -2.0, -4.0, 0.0]);
    /// ```
    rfftn(None) -> real_transform;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the last axis",
    "the inverse transforms of `gy` and zeros, real.";

    /// Computes the inverse of [`rfftn`].
    ///
    /// ```
    /// use bibun::{functions::{irfftn, FourierOptions}, Variable};
    /// let y = irfftn(Variable::new([[4.0, 0.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<f64>(), [1.0; 4]);
    /// ```
    irfftn(None) -> inverse_to_real;
    "all → floats.", "x any → the same, with the length along the last axis",
    "the transforms of `gy`, as of [`irfft`].";

    /// Computes the transform along an axis of numbers of which the second half are the conjugates of
    /// the first: its results are real.
    ///
    /// ```
    /// use bibun::{functions::{hfft, FourierOptions}, Variable};
    /// let y = hfft(Variable::new([1.0, 2.0]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<f64>(), [3.0, -1.0]);
    /// ```
    hfft(Some(1)) -> of_conjugates;
    "all → floats.", "x any → the same, with the length along the axis", "as of [`irfft`].";

    /// Computes the inverse of [`hfft`].
    ///
    /// ```
    /// use bibun::{functions::{ihfft, real, FourierOptions}, Variable};
    /// let y = ihfft(Variable::new([3.0, -1.0]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    ihfft(Some(1)) -> to_conjugates;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the axis",
    "as of [`rfft`].";

    /// Computes [`hfft`] along the last of two axes and [`fft`] along the other.
    ///
    /// ```
    /// use bibun::{functions::{hfft2, FourierOptions}, Variable};
    /// let y = hfft2(Variable::new([[1.0, 2.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<f64>(), [3.0, -1.0, 3.0, -1.0]);
    /// ```
    hfft2(Some(2)) -> of_conjugates;
    "all → floats.", "x any → the same, with the length along the last axis", "as of [`irfft2`].";

    /// Computes the inverse of [`hfft2`].
    ///
    /// ```
    /// use bibun::{functions::{ihfft2, real, FourierOptions}, Variable};
    /// let y = ihfft2(Variable::new([[3.0, -1.0], [3.0, -1.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [1.0, 2.0, 0.0, 0.0]);
    /// ```
    ihfft2(Some(2)) -> to_conjugates;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the last axis",
    "as of [`rfft2`].";

    /// Computes [`hfft`] along the last of several axes and [`fft`] along the others.
    ///
    /// ```
    /// use bibun::{functions::{hfftn, FourierOptions}, Variable};
    /// let y = hfftn(Variable::new([[1.0, 2.0], [0.0, 0.0]]), FourierOptions::new());
    /// assert_eq!(y.to_vec::<f64>(), [3.0, -1.0, 3.0, -1.0]);
    /// ```
    hfftn(None) -> of_conjugates;
    "all → floats.", "x any → the same, with the length along the last axis", "as of [`irfftn`].";

    /// Computes the inverse of [`hfftn`].
    ///
    /// ```
    /// use bibun::{functions::{ihfftn, real, FourierOptions}, Variable};
    /// let y = ihfftn(Variable::new([[3.0, -1.0], [3.0, -1.0]]), FourierOptions::new());
    /// assert_eq!(real(y).to_vec::<f64>(), [1.0, 2.0, 0.0, 0.0]);
    /// ```
    ihfftn(None) -> to_conjugates;
    "real numbers → complex numbers.", "x any → the same, with `n / 2 + 1` along the last axis",
    "as of [`rfftn`].";
}

#[track_caller]
fn of_conjugates(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
) -> Variable {
    let _whole = composite(function);
    let options = options.clone().norm(options.scaling().swapped());
    inverse_to_real(function, conj(x), &options, count)
}

#[track_caller]
fn to_conjugates(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
) -> Variable {
    let _whole = composite(function);
    let options = options.clone().norm(options.scaling().swapped());
    conj(real_transform(function, x, &options, count))
}

/// Moves frequency zero to the middle of axes: the second half comes first.
///
/// Requires the feature `fft`.
///
/// Shapes: x any → the same.
/// Types: all.
/// Gradient: [`ifftshift`] of `gy`.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::{fftfreq, fftshift}, Variable};
/// assert_eq!(fftshift(fftfreq(4, 0.25), ..).to_vec::<f64>(), [-2.0, -1.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn fftshift(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    shifted("fftshift", x.into(), &axes.into(), |size| size / 2)
}

/// Undoes [`fftshift`].
///
/// Requires the feature `fft`.
///
/// Shapes: x any → the same.
/// Types: all.
/// Gradient: [`fftshift`] of `gy`.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::ifftshift, Variable};
/// assert_eq!(ifftshift(Variable::new([-1.0, 0.0, 1.0]), ..).to_vec::<f64>(), [0.0, 1.0, -1.0]);
/// ```
#[track_caller]
pub fn ifftshift(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    shifted("ifftshift", x.into(), &axes.into(), |size| size - size / 2)
}

#[track_caller]
fn shifted(function: &'static str, x: Variable, axes: &Axes, by: fn(usize) -> usize) -> Variable {
    let _whole = composite(function);
    let (axes, _) = axes.resolve(function, x.rank());
    let shape = x.shape();
    axes.iter().fold(x, |x, &axis| {
        roll(x, by(shape[axis]) as isize, axis as isize)
    })
}

/// Returns the frequencies of the results of [`fft`] of `n` samples that are `spacing` apart: as many
/// as are not negative, then the negative ones, in f64.
///
/// Requires the feature `fft`.
///
/// # Panics
/// Panics if `n` is 0.
///
/// ```
/// use bibun::functions::fftfreq;
/// assert_eq!(fftfreq(5, 0.2).to_vec::<f64>(), [0.0, 1.0, 2.0, -2.0, -1.0]);
/// ```
#[track_caller]
pub fn fftfreq(n: usize, spacing: f64) -> Variable {
    frequencies("fftfreq", n, n, n.div_ceil(2), spacing)
}

/// Returns the frequencies of the results of [`rfft`] of `n` samples that are `spacing` apart, in f64.
///
/// Requires the feature `fft`.
///
/// # Panics
/// Panics if `n` is 0.
///
/// ```
/// use bibun::functions::rfftfreq;
/// assert_eq!(rfftfreq(4, 0.25).to_vec::<f64>(), [0.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn rfftfreq(n: usize, spacing: f64) -> Variable {
    frequencies("rfftfreq", n, n / 2 + 1, n, spacing)
}

/// Returns the first `count` frequencies, of which those from `negative` on are less by `n`.
#[track_caller]
fn frequencies(
    function: &'static str,
    n: usize,
    count: usize,
    negative: usize,
    spacing: f64,
) -> Variable {
    if n == 0 {
        raise(Error::argument(function, "n is 0; it must be at least 1"));
    }
    let all = (0..count).map(|k| {
        let less = if k >= negative { n as f64 } else { 0.0 };
        (k as f64 - less) / (n as f64 * spacing)
    });
    Variable::constant(Array::from_vec(all.collect(), count))
}

/// Computes the whole linear convolution `yₖ = Σⱼ aⱼ bₖ₋ⱼ` along the last axis, by Fourier transforms.
/// Its error is relative to the largest results.
///
/// Requires the feature `fft`.
///
/// Shapes: a `[.., n]`, b `[.., m]`, whose other axes broadcast → `[.., n + m - 1]`.
/// Types: floats and complex numbers, promoted; integers give f64.
/// Gradient: the correlation of `gy` with the other one.
/// Source: `scipy.signal.fftconvolve`, mode `full`.
///
/// # Panics
/// Panics if the shapes do not broadcast, or a last axis is missing or empty.
///
/// ```
/// use bibun::{functions::fft_convolve, Variable};
/// let y = fft_convolve(Variable::new([1.0, 2.0]), Variable::new([1.0, -1.0, 3.0]));
/// assert!((y - Variable::new([1.0, 1.0, 1.0, 6.0])).abs().sum(..).item::<f64>() < 1e-12);
/// ```
#[track_caller]
pub fn fft_convolve(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("fft_convolve");
    let (a, b) = (to_differentiable(a.into()), to_differentiable(b.into()));
    if a.rank() == 0 || b.rank() == 0 {
        let inputs = [("a [.., n]", &a.spec()), ("b [.., m]", &b.spec())];
        mismatch("fft_convolve", &inputs, "both must have an axis");
    }
    let dtype = a.dtype().promote(b.dtype());
    let size = |x: &Variable| size_of("fft_convolve", x, x.rank() - 1);
    let length = size(&a) + size(&b) - 1;
    // Lengths of small factors are quick.
    let quick = (length..)
        .find(|&n| is_quick(n))
        .expect("powers of two are");
    let options = || FourierOptions::new().lengths([quick]);
    let whole = match dtype.is_complex() {
        true => ifft(multiply(fft(a, options()), fft(b, options())), options()),
        false => irfft(multiply(rfft(a, options()), rfft(b, options())), options()),
    };
    let axis = whole.rank() - 1;
    cast(part(&whole, axis, 0, length), dtype)
}

fn is_quick(n: usize) -> bool {
    let without = |n: usize, factor: usize| {
        let mut n = n;
        while n.is_multiple_of(factor) {
            n /= factor;
        }
        n
    };
    [2, 3, 5].iter().fold(n, |n, &factor| without(n, factor)) == 1
}

#[cfg(test)]
mod samples;

#[cfg(test)]
pub(super) use samples::samples;
