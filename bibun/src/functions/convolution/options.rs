//! Options of convolutions: stride, padding, dilation and groups.

use bibun_array::Window;

use crate::functions::PerAxis;
use crate::functions::per_axis::window_setters;

/// The padding around the input of a convolution or a pooling.
///
/// ```
/// use bibun::functions::Padding;
/// assert_eq!(Padding::from(1), Padding::Sizes([1, 1]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Padding<const N: usize> {
    /// No padding.
    #[default]
    Valid,
    /// The number of zeros that makes the output `⌈size / stride⌉` long, or `size · stride` for a
    /// transposed convolution. If it is odd, there is one more at the end than at the beginning.
    Same,
    /// The number of zeros on both sides of each axis.
    Sizes([usize; N]),
    /// The numbers of zeros before and after each axis.
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
    /// Returns the numbers of zeros before and after an axis; under [`Padding::Same`] there are `same`.
    pub(super) fn around(&self, axis: usize, same: usize) -> [usize; 2] {
        match self {
            Self::Valid => [0, 0],
            Self::Same => [same / 2, same - same / 2],
            Self::Sizes(sizes) => [sizes[axis]; 2],
            Self::Pairs(pairs) => pairs[axis].into(),
        }
    }

    /// Returns the window that moves along an axis of `size`.
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

/// Options of a convolution over `N` axes.
///
/// ```
/// use bibun::functions::{ConvOptions, Padding};
/// let options = ConvOptions::<2>::new().stride(2).padding(Padding::Same);
/// assert_eq!((options.stride, options.groups), ([2, 2], 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvOptions<const N: usize> {
    /// The distance between neighbouring positions of the kernel. Defaults to 1.
    pub stride: [usize; N],
    /// The padding of the input with zeros. Defaults to none.
    pub padding: Padding<N>,
    /// The distance between the elements that a kernel reads. Defaults to 1.
    pub dilation: [usize; N],
    /// The number of groups of channels; the outputs of a group depend only on its own inputs.
    /// Defaults to 1. With one group for each input channel, the convolution is depthwise.
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

/// Options of a transposed convolution over `N` axes.
///
/// ```
/// use bibun::functions::ConvTransposeOptions;
/// let options = ConvTransposeOptions::<2>::new().stride(2);
/// assert_eq!(options.output_padding, [0, 0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// The distance in the output between neighbours of the input. Defaults to 1.
    pub stride: [usize; N],
    /// The elements that are removed around the output. Defaults to none.
    pub padding: Padding<N>,
    /// The number of elements that the output is longer at its end, less than the stride. It chooses
    /// among the sizes for which a convolution of this stride has the same size of output. Defaults to
    /// 0, the smallest of them.
    pub output_padding: [usize; N],
    /// The distance between the elements that a kernel writes. Defaults to 1.
    pub dilation: [usize; N],
    /// The number of groups of channels. Defaults to 1.
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

/// Defines the setters that both kinds of options have.
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
    /// Sets the number of elements that the output is longer at its end: one for all axes, or one for each.
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
