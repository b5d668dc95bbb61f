//! What is transformed, and how the results are scaled.

use bibun_array::normalize_axis;

use crate::error::{Error, raise};

/// The scale of a transform and of its inverse, whose product is `1 / n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FourierNorm {
    /// The inverse is divided by n.
    #[default]
    Backward,
    /// Both are divided by `√n`, so that lengths are kept.
    Ortho,
    /// The transform is divided by n.
    Forward,
}

impl FourierNorm {
    /// Returns the scale of a transform of `n` elements.
    pub(super) fn scale(self, n: usize, inverse: bool) -> f64 {
        let n = n as f64;
        match (self, inverse) {
            (Self::Backward, false) | (Self::Forward, true) => 1.0,
            (Self::Backward, true) | (Self::Forward, false) => 1.0 / n,
            (Self::Ortho, _) => 1.0 / n.sqrt(),
        }
    }

    /// Returns the norm whose inverse has the scale of this one's transform.
    pub(super) fn swapped(self) -> Self {
        match self {
            Self::Backward => Self::Forward,
            Self::Ortho => Self::Ortho,
            Self::Forward => Self::Backward,
        }
    }
}

/// The axes, lengths and scale of a Fourier transform.
///
/// ```
/// use bibun::functions::{FourierNorm, FourierOptions, fft};
/// use bibun::Variable;
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let options = FourierOptions::new().axes(0).lengths([4]).norm(FourierNorm::Ortho);
/// assert_eq!(fft(&x, options).shape(), [4, 2]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FourierOptions {
    axes: Option<Vec<isize>>,
    lengths: Option<Vec<usize>>,
    norm: FourierNorm,
}

impl FourierOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the axes, in the order of the lengths. Defaults to the last one, the last two or all, for
    /// transforms of one, of two or of any number of axes.
    #[must_use]
    pub fn axes(self, axes: impl Into<FourierAxes>) -> Self {
        let axes = Some(axes.into().0);
        Self { axes, ..self }
    }

    /// Sets the lengths of the axes, to which they are cut or filled up by zeros. Of the last axis of
    /// an inverse to real numbers it is that of the result. Defaults to those of the input.
    #[must_use]
    pub fn lengths(self, lengths: impl Into<Vec<usize>>) -> Self {
        let lengths = Some(lengths.into());
        Self { lengths, ..self }
    }

    /// Sets the scale. Defaults to [`FourierNorm::Backward`].
    #[must_use]
    pub fn norm(self, norm: FourierNorm) -> Self {
        Self { norm, ..self }
    }

    pub(super) fn scaling(&self) -> FourierNorm {
        self.norm
    }

    /// Returns the axes, of a transform that has `count` of them (or any number), each with its
    /// length if one was set.
    #[track_caller]
    pub(super) fn resolve(
        &self,
        function: &'static str,
        rank: usize,
        count: Option<usize>,
    ) -> Vec<(usize, Option<usize>)> {
        let given = self.lengths.as_ref().map(Vec::len);
        let default = count.or(given).unwrap_or(rank);
        let axes = match &self.axes {
            Some(axes) => axes.clone(),
            None => (1..=default as isize).rev().map(|back| -back).collect(),
        };
        let fits = |len: usize| len == axes.len();
        if axes.is_empty() || !count.is_none_or(fits) || !given.is_none_or(fits) {
            let expected = count.map_or("one or more".to_owned(), |count| count.to_string());
            let lengths = given.map_or("no".to_owned(), |given| given.to_string());
            let what = format!(
                "{} axes and {lengths} lengths; there must be {expected} axes, each with a length if \
                 there are any",
                axes.len()
            );
            raise(Error::argument(function, what));
        }
        let mut resolved: Vec<(usize, Option<usize>)> = Vec::new();
        for (i, axis) in axes.into_iter().enumerate() {
            let axis = normalize_axis(function, axis, rank);
            if resolved.iter().any(|(known, _)| *known == axis) {
                raise(Error::argument(
                    function,
                    format!("axis {axis} is named twice"),
                ));
            }
            let length = self.lengths.as_ref().map(|lengths| lengths[i]);
            if length == Some(0) {
                raise(Error::argument(
                    function,
                    "a length is 0; it must be at least 1",
                ));
            }
            resolved.push((axis, length));
        }
        resolved
    }
}

/// An axis or several, in order.
#[derive(Clone, Debug)]
pub struct FourierAxes(Vec<isize>);

impl From<isize> for FourierAxes {
    fn from(axis: isize) -> Self {
        Self(vec![axis])
    }
}
impl<const N: usize> From<[isize; N]> for FourierAxes {
    fn from(axes: [isize; N]) -> Self {
        Self(axes.to_vec())
    }
}
impl From<Vec<isize>> for FourierAxes {
    fn from(axes: Vec<isize>) -> Self {
        Self(axes)
    }
}
