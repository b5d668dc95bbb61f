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
