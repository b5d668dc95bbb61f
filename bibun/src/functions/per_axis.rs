//! Numbers for the axes that windows move along.

/// A number for each of `N` axes: `3` is the same for all, `[3, 1]` has one for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerAxis<const N: usize>([usize; N]);

impl<const N: usize> PerAxis<N> {
    /// Returns the number for each axis.
    pub fn each(self) -> [usize; N] {
        self.0
    }
}

impl<const N: usize> From<usize> for PerAxis<N> {
    fn from(all: usize) -> Self {
        Self([all; N])
    }
}

impl<const N: usize> From<[usize; N]> for PerAxis<N> {
    fn from(each: [usize; N]) -> Self {
        Self(each)
    }
}

/// Defines the setters of how windows move along `$N` axes, with the rest of their documentation.
macro_rules! window_setters {
    ($N:tt, stride: $stride:literal, padding: $padding:literal) => {
        /// Sets the stride, the distance between the beginnings of neighbouring windows: one for
        /// all axes, or one for each.
        #[doc = $stride]
        #[must_use]
        pub fn stride(self, stride: impl Into<$crate::functions::PerAxis<$N>>) -> Self {
            let stride = stride.into().each();
            Self { stride, ..self }
        }

        /// Sets the padding.
        #[doc = $padding]
        #[must_use]
        pub fn padding(self, padding: impl Into<$crate::functions::Padding<$N>>) -> Self {
            let padding = padding.into();
            Self { padding, ..self }
        }

        /// Sets the dilation, the distance between the elements of a window: one for all axes, or
        /// one for each. Defaults to 1.
        #[must_use]
        pub fn dilation(self, dilation: impl Into<$crate::functions::PerAxis<$N>>) -> Self {
            let dilation = dilation.into().each();
            Self { dilation, ..self }
        }
    };
}
pub(crate) use window_setters;
