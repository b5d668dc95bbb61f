//! Cosine transforms, by Fourier transforms of what is mirrored at its end.

use std::f64::consts::PI;

use bibun_array::{Array, Complex};

use super::transform::{resized, size_of};
use super::{FourierNorm, FourierOptions, irfft, rfft, to_complex, to_real};
use crate::call::composite;
use crate::functions::{cast, concat, constant_beside, flip, moveaxis, real, slice};
use crate::variable::Variable;
use bibun_array::Index;

/// Returns the half turns `e^(sign i π k / 2n)` for the first n natural k, each times a scale.
fn turns(x: &Variable, n: usize, sign: f64, scale: impl Fn(usize) -> f64) -> Variable {
    let turn = |k: usize| Complex::from_polar(scale(k), sign * PI * k as f64 / (2 * n) as f64);
    let turns = Array::from_vec((0..n).map(turn).collect::<Vec<Complex<f64>>>(), [n]);
    constant_beside(&[x], turns.cast(x.dtype().to_complex()))
}

/// Returns the scale of result k of n, behind that of SciPy's transform without a norm.
fn scale(norm: FourierNorm, n: usize, k: usize) -> f64 {
    match norm {
        FourierNorm::Backward => 1.0,
        FourierNorm::Forward => 0.5 / n as f64,
        FourierNorm::Ortho if k == 0 => (0.25 / n as f64).sqrt(),
        FourierNorm::Ortho => (0.5 / n as f64).sqrt(),
    }
}

/// Returns the first elements along the last axis.
fn first(x: Variable, count: usize) -> Variable {
    slice(x, &[Index::Ellipsis, Index::from(..count)])
}

/// Transforms the last axis.
#[track_caller]
fn forward(x: Variable, n: usize, norm: FourierNorm) -> Variable {
    let turns = turns(&x, n, -1.0, |k| scale(norm, n, k));
    let mirrored = concat([&x, &flip(&x, -1)], -1);
    real(first(rfft(mirrored, FourierOptions::new()), n) * turns)
}

/// Undoes it.
#[track_caller]
fn inverse(x: Variable, n: usize, norm: FourierNorm) -> Variable {
    let turns = turns(&x, n, 1.0, |k| 1.0 / scale(norm, n, k));
    let turned = to_complex(x) * turns;
    // The number behind the last one is zero.
    let options = FourierOptions::new().lengths([2 * n]);
    first(irfft(turned, options), n)
}

#[track_caller]
fn transform(
    function: &'static str,
    x: Variable,
    options: &FourierOptions,
    count: Option<usize>,
    along: fn(Variable, usize, FourierNorm) -> Variable,
) -> Variable {
    let _whole = composite(function);
    let axes = options.resolve(function, x.rank(), count);
    let x = to_real(function, x);
    let dtype = x.dtype();
    let y = axes.into_iter().fold(x, |x, (axis, length)| {
        let n = length.unwrap_or_else(|| size_of(function, &x, axis));
        let x = moveaxis(resized(x, axis, n), axis as isize, -1);
        moveaxis(along(x, n, options.scaling()), -1, axis as isize)
    });
    cast(y, dtype)
}

macro_rules! transforms {
    ($($(#[$documentation:meta])* $name:ident($count:expr) -> $along:ident;)+) => {$(
        $(#[$documentation])*
        ///
        /// Requires the feature `fft`. `options` sets axes, lengths and scale; see [`FourierOptions`]. It is computed
        /// on the CPU.
        ///
        /// Shapes: x any → the same, with the lengths. Types: real numbers → floats.
        /// Gradient: the transpose of the transform, by Fourier transforms.
        ///
        /// Source: `scipy.fft` with its default `type=2`; J. Makhoul, "A fast cosine transform in one and two
        /// dimensions", 1980.
        ///
        /// # Panics
        /// Panics if x is complex, the axes or lengths do not fit, or an axis is empty.
        #[track_caller]
        pub fn $name(x: impl Into<Variable>, options: FourierOptions) -> Variable {
            transform(stringify!($name), x.into(), &options, $count, $along)
        }
    )+};
}

transforms! {
    /// Computes the cosine transform `yₖ = 2 Σⱼ xⱼ cos(π k (2j + 1) / 2n)` along an axis. With
    /// [`FourierNorm::Ortho`] it keeps lengths.
    ///
    /// ```
    /// use bibun::{functions::{dct, FourierOptions}, Variable};
    /// let y = dct(Variable::new([1.0, 2.0]), FourierOptions::new()).to_vec::<f64>();
    /// assert!((y[0] - 6.0).abs() < 1e-14 && (y[1] + 2f64.sqrt()).abs() < 1e-14);
    /// ```
    dct(Some(1)) -> forward;

    /// Computes the inverse of [`dct`] of the same options.
    ///
    /// ```
    /// use bibun::{functions::{dct, idct, FourierNorm, FourierOptions}, Variable};
    /// let ortho = || FourierOptions::new().norm(FourierNorm::Ortho);
    /// let y = idct(dct(Variable::new([1.0, 2.0]), ortho()), ortho()).to_vec::<f64>();
    /// assert!((y[0] - 1.0).abs() < 1e-14 && (y[1] - 2.0).abs() < 1e-14);
    /// ```
    idct(Some(1)) -> inverse;

    /// Computes [`dct`] along several axes.
    ///
    /// ```
    /// use bibun::{functions::{dctn, FourierOptions}, Variable};
    /// let y = dctn(Variable::new([[1.0, 2.0], [3.0, 4.0]]), FourierOptions::new());
    /// assert!((y.to_vec::<f64>()[0] - 40.0).abs() < 1e-13);
    /// ```
    dctn(None) -> forward;

    /// Computes the inverse of [`dctn`] of the same options.
    ///
    /// ```
    /// use bibun::{functions::{dctn, idctn, FourierOptions}, Variable};
    /// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    /// let y = idctn(dctn(&x, FourierOptions::new()), FourierOptions::new());
    /// assert!((x - y).abs().sum(..).item::<f64>() < 1e-13);
    /// ```
    idctn(None) -> inverse;
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // The transform of the rows of a matrix, and with `inverse` its inverse, by the sums.
    fn rows(x: &Array, n: usize, norm: FourierNorm, inverse: bool) -> Array {
        let m = x.shape()[1];
        let count = x.shape()[0];
        let x = x.to_vec::<f64>();
        let cosine = |j: usize, k: usize| (PI * (k * (2 * j + 1)) as f64 / (2 * n) as f64).cos();
        let element = |i: usize| {
            let (row, own) = (i / n, i % n);
            let term = |other: usize| {
                let value = x[row * m + other];
                match inverse {
                    false => 2.0 * scale(norm, n, own) * value * cosine(other, own),
                    true => {
                        let weight = if other == 0 { 0.5 } else { 1.0 };
                        weight * value / scale(norm, n, other) * cosine(own, other) / n as f64
                    }
                }
            };
            (0..m.min(n)).map(term).sum::<f64>()
        };
        Array::from_vec((0..count * n).map(element).collect(), [count, n])
    }
    fn both(x: &Array, inverse: bool) -> Array {
        let (n, m) = (x.shape()[0], x.shape()[1]);
        let first = rows(x, m, FourierNorm::Backward, inverse);
        rows(&first.transpose(), n, FourierNorm::Backward, inverse).transpose()
    }
    let plain = FourierOptions::new;
    vec![
        Sample::new(
            "dct",
            move |x| vec![dct(&x[0], plain())],
            |x| vec![rows(&x[0], 3, FourierNorm::Backward, false)],
        )
        .input([2, 3], -1.0..1.0),
        Sample::new(
            "dct",
            move |x| {
                vec![dct(
                    &x[0],
                    plain().axes(0).lengths([4]).norm(FourierNorm::Ortho),
                )]
            },
            |x| vec![rows(&x[0].transpose(), 4, FourierNorm::Ortho, false).transpose()],
        )
        .input([3, 2], -1.0..1.0),
        Sample::new(
            "idct",
            move |x| vec![idct(&x[0], plain())],
            |x| vec![rows(&x[0], 3, FourierNorm::Backward, true)],
        )
        .input([2, 3], -1.0..1.0),
        Sample::new(
            "idct",
            move |x| vec![idct(&x[0], plain().lengths([2]).norm(FourierNorm::Forward))],
            |x| vec![rows(&x[0], 2, FourierNorm::Forward, true)],
        )
        .input([2, 3], -1.0..1.0),
        Sample::new(
            "dctn",
            move |x| vec![dctn(&x[0], plain())],
            |x| vec![both(&x[0], false)],
        )
        .input([2, 3], -1.0..1.0),
        Sample::new(
            "idctn",
            move |x| vec![idctn(&x[0], plain())],
            |x| vec![both(&x[0], true)],
        )
        .input([2, 3], -1.0..1.0),
    ]
}
