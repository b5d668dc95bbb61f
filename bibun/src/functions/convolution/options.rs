//! How convolutions move their kernels, and what lies around their input.

use bibun_array::Window;

use crate::functions::PerAxis;
use crate::functions::per_axis::window_setters;

/// What lies around the input of a convolution.
///
/// ```
/// use bibun::functions::Padding;
/// assert_eq!(Padding::from(1), Padding::Sizes([1, 1]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Padding<const N: usize> {
    /// Nothing.
    #[default]
    Valid,
    /// As many zeros as make the output `⌈size / stride⌉` long, and where their number is odd, one
    /// more behind than in front. Of a transposed convolution: `size · stride` long.
    Same,
    /// So many zeros on both sides of each axis.
    Sizes([usize; N]),
    /// So many zeros before and after each axis.
    Pairs([(usize, usize); N]),
}

impl<const N: usize> From<usize> for Padding<N> {
    fn from(size: usize) -> Self {
        Self::Sizes([size; N])
    }
}

impl<const N: usize> From<[usize; N]> for Padding<N> {
    fn from(sizes: [usize; N]) -> Self {
        Self::Sizes(sizes)
    }
}

impl<const N: usize> Padding<N> {
    /// The zeros before and after an axis, of which so many are wanted for [`Padding::Same`].
    pub(super) fn around(&self, axis: usize, same: usize) -> [usize; 2] {
        match self {
            Self::Valid => [0, 0],
            Self::Same => [same / 2, same - same / 2],
            Self::Sizes(sizes) => [sizes[axis]; 2],
            Self::Pairs(pairs) => pairs[axis].into(),
        }
    }

    /// How a kernel moves along an axis of `size`.
    pub(crate) fn window(
        &self,
        axis: usize,
        size: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
    ) -> Window {
        let mut window = Window {
            kernel,
            stride,
            padding: [0, 0],
            dilation,
        };
        let reach = size.div_ceil(stride).saturating_sub(1) * stride;
        let same = reach.saturating_add(window.extent()).saturating_sub(size);
        window.padding = self.around(axis, same);
        window
    }
}

/// How a convolution over `N` axes moves its kernels.
///
/// ```
/// use bibun::functions::{ConvOptions, Padding};
/// let options = ConvOptions::<2>::new().stride(2).padding(Padding::Same);
/// assert_eq!((options.stride, options.groups), ([2, 2], 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvOptions<const N: usize> {
    /// How far from one position to the next; by default 1.
    pub stride: [usize; N],
    /// The zeros around the input; by default none.
    pub padding: Padding<N>,
    /// How far apart the elements are that a kernel reads; by default 1.
    pub dilation: [usize; N],
    /// How many groups the channels are in, of which none reads another's; by default 1. As many as
    /// there are input channels make a depthwise convolution.
    pub groups: usize,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: Padding::Valid,
            dilation: [1; N],
            groups: 1,
        }
    }
}

/// How a transposed convolution over `N` axes moves its kernels.
///
/// ```
/// use bibun::functions::ConvTransposeOptions;
/// let options = ConvTransposeOptions::<2>::new().stride(2);
/// assert_eq!(options.output_padding, [0, 0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// How far apart in the output neighbours of the input are written; by default 1.
    pub stride: [usize; N],
    /// What is taken away around the output; by default nothing.
    pub padding: Padding<N>,
    /// How much longer the output is at its end, less than the stride: of the sizes that a
    /// convolution with this stride makes one, the one meant. By default 0, the smallest.
    pub output_padding: [usize; N],
    /// How far apart the elements are that a kernel writes; by default 1.
    pub dilation: [usize; N],
    /// How many groups the channels are in; by default 1.
    pub groups: usize,
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: Padding::Valid,
            output_padding: [0; N],
            dilation: [1; N],
            groups: 1,
        }
    }
}

/// The setters that both kinds of options have.
macro_rules! setters {
    ($Options:ident) => {
        impl<const N: usize> $Options<N> {
            /// Returns the defaults.
            pub fn new() -> Self {
                Self::default()
            }

            window_setters!(N, stride: "Defaults to 1.", padding: "Defaults to none.");

            /// Sets the number of groups of channels. Defaults to 1.
            #[must_use]
            pub fn groups(self, groups: usize) -> Self {
                Self { groups, ..self }
            }
        }

        impl<const N: usize> From<&Self> for $Options<N> {
            fn from(options: &Self) -> Self {
                *options
            }
        }
    };
}
setters!(ConvOptions);
setters!(ConvTransposeOptions);

impl<const N: usize> ConvTransposeOptions<N> {
    /// Sets how much longer the output is at its end: one number for all axes, or one for each.
    /// Defaults to 0.
    #[must_use]
    pub fn output_padding(self, output_padding: impl Into<PerAxis<N>>) -> Self {
        let output_padding = output_padding.into().each();
        Self {
            output_padding,
            ..self
        }
    }
}
