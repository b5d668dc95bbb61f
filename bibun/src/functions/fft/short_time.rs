//! Fourier transforms of short pieces of signals.

use bibun_array::{Array, DType};

use super::{FourierNorm, FourierOptions, fft, ifft, irfft, rfft};
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    add_at, cast, constant_beside, expand_dims, greater, multiply, pad, part, square, swapaxes,
    take, to_differentiable,
};
use crate::variable::Variable;

/// The pieces of [`stft`] and [`istft`].
///
/// ```
/// use bibun::functions::{StftOptions, stft};
/// use bibun::Variable;
/// let signal = Variable::new(vec![1.0; 32]);
/// assert_eq!(stft(&signal, StftOptions::new(8).hop(4)).shape(), [5, 9]);
/// ```
#[derive(Clone, Debug)]
pub struct StftOptions {
    size: usize,
    hop: Option<usize>,
    window: Option<Variable>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<usize>,
}

impl StftOptions {
    /// Returns the defaults for pieces of `size` samples.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            hop: None,
            window: None,
            center: true,
            normalized: false,
            onesided: None,
            length: None,
        }
    }

    /// Sets the distance between the beginnings of pieces. Defaults to a quarter of their size.
    #[must_use]
    pub fn hop(self, hop: usize) -> Self {
        let hop = Some(hop);
        Self { hop, ..self }
    }

    /// Sets the factors of the samples of a piece, as many as these or fewer, which are then in its
    /// middle. Defaults to ones.
    #[must_use]
    pub fn window(self, window: impl Into<Variable>) -> Self {
        let window = Some(window.into());
        Self { window, ..self }
    }

    /// Sets whether pieces are around their time, so that the signal is reflected at its ends by half
    /// a piece. Defaults to true.
    #[must_use]
    pub fn center(self, center: bool) -> Self {
        Self { center, ..self }
    }

    /// Sets whether results are divided by the square root of the size. Defaults to false.
    #[must_use]
    pub fn normalized(self, normalized: bool) -> Self {
        Self { normalized, ..self }
    }

    /// Sets whether only frequencies that are not negative are there. Defaults to true for real
    /// signals, to which [`istft`] leads back, and to false for complex ones.
    #[must_use]
    pub fn onesided(self, onesided: bool) -> Self {
        let onesided = Some(onesided);
        Self { onesided, ..self }
    }

    /// Sets the length of the signal that [`istft`] returns. Defaults to that of whole pieces.
    #[must_use]
    pub fn length(self, length: usize) -> Self {
        let length = Some(length);
        Self { length, ..self }
    }

    /// Returns the distance between pieces, after a check.
    #[track_caller]
    fn step(&self, function: &'static str) -> usize {
        let hop = self.hop.unwrap_or((self.size / 4).max(1));
        if self.size == 0 || hop == 0 {
            let what = format!("size {} and hop {hop}; both must be at least 1", self.size);
            raise(Error::argument(function, what));
        }
        hop
    }

    /// Returns the factors of all samples of a piece, beside values of a dtype.
    #[track_caller]
    fn factors(&self, function: &'static str, dtype: DType) -> Variable {
        let Some(window) = &self.window else {
            return Variable::constant(Array::ones(self.size, dtype));
        };
        let spec = window.spec();
        if spec.shape.rank() != 1 || spec.shape[0] > self.size || !spec.dtype.is_float() {
            let must = format!("it must be a vector of at most {} floats", self.size);
            mismatch(function, &[("window", &spec)], must);
        }
        let missing = self.size - spec.shape[0];
        let before = missing / 2;
        cast(pad(window, &[(before, missing - before)], 0.0), dtype)
    }

    fn options(&self) -> FourierOptions {
        let norm = match self.normalized {
            true => FourierNorm::Ortho,
            false => FourierNorm::Backward,
        };
        FourierOptions::new().norm(norm).lengths([self.size])
    }

    /// Returns the places of the samples of each piece, as a matrix.
    fn places(&self, values: &[&Variable], hop: usize, count: usize) -> Variable {
        let place = |i: usize| (i / self.size * hop + i % self.size) as i64;
        let places = (0..count * self.size).map(place).collect();
        constant_beside(values, Array::from_vec(places, [count, self.size]))
    }
}

/// Computes the Fourier transforms of pieces of a signal that begin at equal distances.
///
/// Requires the feature `fft`. See [`StftOptions`] for windows, distances and what happens at the
/// ends.
///
/// Shapes: x `[.., t]` → `[.., frequencies, pieces]`.
/// Types: all → complex numbers.
/// Gradient: to the signal and to the window, of every order.
/// Source: `torch.stft`.
///
/// # Panics
/// Panics if the signal is shorter than a piece, a reflection needs more samples than there are, the
/// window does not fit, or a complex signal is to be onesided.
///
/// ```
/// use bibun::functions::{StftOptions, abs, stft};
/// use bibun::Variable;
/// let y = stft(Variable::new(vec![1.0; 8]), StftOptions::new(4).center(false));
/// assert_eq!(abs(y).to_vec::<f64>()[..5], [4.0; 5]);
/// ```
#[track_caller]
pub fn stft(x: impl Into<Variable>, options: StftOptions) -> Variable {
    let _whole = composite("stft");
    let x = to_differentiable(x.into());
    let hop = options.step("stft");
    let spec = x.spec();
    let Some(&t) = spec.shape.last() else {
        mismatch("stft", &[("x [.., t]", &spec)], "x must have an axis");
    };
    let onesided = options.onesided.unwrap_or(!spec.dtype.is_complex());
    if onesided && spec.dtype.is_complex() {
        mismatch("stft", &[("x", &spec)], "a onesided signal must be real");
    }
    let half = options.size / 2;
    let is_long = if options.center {
        t > half
    } else {
        t >= options.size
    };
    if !is_long {
        let must = format!("t must be enough for pieces of {}", options.size);
        mismatch("stft", &[("x [.., t]", &spec)], must);
    }
    let x = match options.center {
        true => {
            let (half, t) = (half as i64, t as i64);
            let reflected = |i: i64| match i {
                ..0 => -i,
                i if i < t => i,
                i => 2 * (t - 1) - i,
            };
            let places: Vec<i64> = (-half..t + half).map(reflected).collect();
            let values: Vec<&Variable> = [&x].into_iter().chain(&options.window).collect();
            let places = constant_beside(&values, Array::from(places));
            take(x, places, -1)
        }
        false => x,
    };
    let length = x.shape()[x.rank() - 1];
    if length < options.size {
        let must = format!("t must be enough for pieces of {}", options.size);
        mismatch("stft", &[("x [.., t]", &spec)], must);
    }
    let count = (length - options.size) / hop + 1;
    let factors = options.factors("stft", x.dtype());
    let places = options.places(&[&x, &factors], hop, count);
    let pieces = multiply(take(x, places, -1), factors);
    let y = match onesided {
        true => rfft(pieces, options.options()),
        false => fft(pieces, options.options()),
    };
    swapaxes(y, -1, -2)
}

/// Computes the signal that has these [`stft`] with the same options, or the one that is nearest to
/// having it.
///
/// Requires the feature `fft`. Pieces are multiplied by the window, added up, and divided by the sum
/// of the squared windows.
///
/// Shapes: y `[.., frequencies, pieces]` → `[.., t]`.
/// Types: complex numbers → floats, or complex numbers if it is not onesided.
/// Gradient: to y and to the window, of every order.
/// Source: `torch.istft`; D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time
/// Fourier transform", 1984.
///
/// # Panics
/// Panics if the number of frequencies is not that of the size, the window does not fit, the result would be
/// longer than the pieces, or there is a sample over which all windows are zero (in a compiled function it is NaN).
///
/// ```
/// use bibun::functions::{StftOptions, istft, stft};
/// use bibun::Variable;
/// let x = Variable::new(vec![1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
/// let y = stft(&x, StftOptions::new(4));
/// let back = istft(y, StftOptions::new(4));
/// assert!((back - x).abs().max(..).item::<f64>() < 1e-12);
/// ```
#[track_caller]
pub fn istft(y: impl Into<Variable>, options: StftOptions) -> Variable {
    let _whole = composite("istft");
    let y = y.into();
    let hop = options.step("istft");
    let spec = y.spec();
    let onesided = options.onesided.unwrap_or(true);
    let expected = if onesided {
        options.size / 2 + 1
    } else {
        options.size
    };
    let fits = match spec.shape[..] {
        [.., frequencies, pieces] => frequencies == expected && pieces > 0,
        _ => false,
    };
    if !fits || !spec.dtype.is_complex() {
        let must = format!("y must be complex, of {expected} frequencies and of pieces");
        mismatch("istft", &[("y [.., frequencies, pieces]", &spec)], must);
    }
    let count = spec.shape[spec.shape.rank() - 1];
    let y = swapaxes(y, -1, -2);
    let pieces = match onesided {
        true => irfft(y, options.options()),
        false => ifft(y, options.options()),
    };
    let factors = options.factors("istft", pieces.dtype().to_real());
    let length = (count - 1) * hop + options.size;
    let places = options.places(&[&pieces, &factors], hop, count);
    let weighted = multiply(pieces, &factors);
    let rank = weighted.rank();
    let mut shape = weighted.shape()[..rank - 2].to_vec();
    shape.push(length);
    let zeros = |shape: Vec<usize>, dtype| Variable::constant(Array::zeros(shape, dtype));
    let sum = add_at(zeros(shape, weighted.dtype()), &places, -1, &weighted);
    let squares = multiply(square(expand_dims(&factors, 0)), ones_of(&factors, count));
    let envelope = add_at(zeros(vec![length], factors.dtype()), places, -1, squares);
    let start = if options.center { options.size / 2 } else { 0 };
    let end = match (options.length, options.center) {
        (Some(wanted), _) => start + wanted,
        (None, true) => length - options.size / 2,
        (None, false) => length,
    };
    if end > length || end <= start {
        let what = format!(
            "{count} pieces have {} samples, fewer than the length",
            length - start
        );
        raise(Error::argument("istft", what));
    }
    let kept = |x: &Variable| part(x, x.rank() - 1, start, end);
    let envelope = kept(&envelope);
    expect_everywhere(
        "istft",
        "the sum of the squares of the windows over a sample",
        &envelope,
        &greater(&envelope, 1e-11),
        "greater than 1e-11",
    );
    kept(&sum) / envelope
}

/// Ones for each piece, beside the factors of its samples.
fn ones_of(factors: &Variable, count: usize) -> Variable {
    let ones = Array::ones([count, factors.size()], factors.dtype());
    Variable::constant(ones)
}
