//! Convolutions over any number of axes, and the two products that their derivatives consist of.

use smallvec::SmallVec;

use crate::{Array, Error, Shape, raise};

/// The movement of a kernel along one axis.
///
/// ```
/// use bibun_array::Window;
/// let window = Window { kernel: 3, stride: 2, padding: [1, 1], dilation: 1 };
/// assert_eq!(window.positions(5), Some(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// The number of elements that the kernel reads.
    pub kernel: usize,
    /// The step from one position of the kernel to the next.
    pub stride: usize,
    /// The numbers of zeros before and after the axis.
    pub padding: [usize; 2],
    /// The distance between neighbouring elements that the kernel reads.
    pub dilation: usize,
}

impl Window {
    /// Returns the number of elements from the first that the kernel reads to the last, both
    /// included.
    pub fn extent(&self) -> usize {
        match self.kernel {
            0 => 0,
            kernel => ((kernel - 1).saturating_mul(self.dilation)).saturating_add(1),
        }
    }

    /// Returns the size of an axis of `size` elements with its padding.
    pub fn padded(&self, size: usize) -> usize {
        let [before, behind] = self.padding;
        before.saturating_add(size).saturating_add(behind)
    }

    /// Returns the number of positions of the kernel on an axis of `size` elements, or `None` if it
    /// does not fit.
    pub fn positions(&self, size: usize) -> Option<usize> {
        let room = self.padded(size).checked_sub(self.extent())?;
        Some((room / self.stride).saturating_add(1))
    }
}

/// One of the three arrays of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConvolutionPart {
    /// The array that the kernels move over.
    Input,
    /// The kernels.
    Weights,
    /// The result.
    Output,
}

/// The sizes of a convolution over any number of axes, which determine all shapes.
///
/// The input x is `[n, groups * inputs, sizes..]`, the weights w
/// `[groups * outputs, inputs, kernel..]` and the output y `[n, groups * outputs, positions..]`. If
/// `s(p, k)` is the element that the kernel reads at position `p` for its element `k`, then
/// `y[n, o, p] = Σ_{c, k} x[n, c, s(p, k)] w[o, c, k]`, where an output channel reads the input
/// channels of its group only and x is 0 in the padding.
///
/// The sum `Σ x[n, c, s(p, k)] w[o, c, k] y[n, o, p]` over everything is linear in each of the
/// three parts, and the factor of one part in it is the product of the other two:
/// [`Convolution::product`]. All derivatives of a convolution are such products.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Convolution {
    /// The number of groups of channels.
    pub groups: usize,
    /// The number of input channels of a group.
    pub inputs: usize,
    /// The number of output channels of a group.
    pub outputs: usize,
    /// The sizes of the input along the axes that the kernel moves over.
    pub sizes: Shape,
    /// The movement of the kernel along each of these axes.
    pub windows: SmallVec<[Window; 3]>,
}

impl Convolution {
    /// Returns the number of positions of the kernel along each axis.
    ///
    /// # Panics
    /// Panics if the kernel does not fit.
    pub fn positions(&self) -> Shape {
        let windows = self.sizes.iter().zip(&self.windows);
        let positions = windows.map(|(&size, window)| window.positions(size));
        positions.map(|count| count.expect("it fits")).collect()
    }

    /// Returns the shape of a part for `n` examples (the weights have no axis for them).
    ///
    /// # Panics
    /// Panics if the kernel does not fit.
    pub fn shape(&self, part: ConvolutionPart, n: usize) -> Shape {
        let (first, axes): ([usize; 2], Shape) = match part {
            ConvolutionPart::Input => (
                [n, self.groups.saturating_mul(self.inputs)],
                self.sizes.clone(),
            ),
            ConvolutionPart::Weights => {
                let kernel = self.windows.iter().map(|window| window.kernel);
                let channels = [self.groups.saturating_mul(self.outputs), self.inputs];
                (channels, kernel.collect())
            }
            ConvolutionPart::Output => (
                [n, self.groups.saturating_mul(self.outputs)],
                self.positions(),
            ),
        };
        first.iter().chain(axes.iter()).copied().collect()
    }

    /// Computes the part `made` from the other two, which are passed in their order. The output is
    /// the convolution of input and weights, the input is the transposed convolution of weights and
    /// output, and the weights are their own gradient, from input and output.
    ///
    /// What lies beyond the ends counts as zeros, which may be multiplied: near them, an infinite weight can give
    /// NaN where no element meets it.
    ///
    /// # Panics
    /// Panics if a shape is not that of its part, or the dtypes are not equal float types.
    ///
    /// ```
    /// use bibun_array::{Array, Convolution, ConvolutionPart, Window};
    /// let convolution = Convolution {
    ///     groups: 1,
    ///     inputs: 1,
    ///     outputs: 1,
    ///     sizes: [4].into(),
    ///     windows: [Window { kernel: 2, stride: 1, padding: [0, 0], dilation: 1 }]
    ///         .into_iter()
    ///         .collect(),
    /// };
    /// let x = Array::from([[[1.0, 2.0, 3.0, 4.0]]]);
    /// let w = Array::from([[[10.0, 1.0]]]);
    /// let y = convolution.product(ConvolutionPart::Output, &x, &w);
    /// assert_eq!(y.to_vec::<f64>(), [12.0, 23.0, 34.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn product(&self, made: ConvolutionPart, a: &Array, b: &Array) -> Array {
        let n = match made {
            ConvolutionPart::Input => b.shape().first(),
            ConvolutionPart::Weights | ConvolutionPart::Output => a.shape().first(),
        };
        let n = n.copied().unwrap_or_default();
        let [first, second] = made.others();
        let (a_shape, b_shape) = (self.shape(first, n), self.shape(second, n));
        let floats = a.dtype().is_float() && a.dtype() == b.dtype();
        if *a.shape() != a_shape || *b.shape() != b_shape || !floats {
            let what = format!(
                "found {} {} and {} {}, expected {a_shape} and {b_shape} of one float type",
                a.shape(),
                a.dtype(),
                b.shape(),
                b.dtype()
            );
            raise(Error::invalid("convolution", what));
        }
        let device = crate::placement::common("convolution", [a, b]);
        let _ = self.shape(made, n).addressable("convolution");
        self.expect_padded("convolution");
        crate::error::allocating("convolution", || device.convolve(self, made, a, b))
    }
}

impl Convolution {
    /// Extracts the patches that the kernels see of each example at each position. The output is
    /// the product of these patches with the kernels.
    ///
    /// Shapes: x, the input `[n, groups * inputs, sizes..]` →
    /// `[n, groups, positions, stencil * inputs]`, where all positions are one axis, `stencil` is
    /// the number of elements of a kernel, and the channels of one of these are side by side.
    ///
    /// # Panics
    /// Panics if x does not have the shape of the input or its dtype is not a float.
    ///
    /// ```
    /// use bibun_array::{Array, Convolution, Window};
    /// let convolution = Convolution {
    ///     groups: 1,
    ///     inputs: 1,
    ///     outputs: 1,
    ///     sizes: [3].into(),
    ///     windows: [Window { kernel: 2, stride: 1, padding: [1, 0], dilation: 1 }]
    ///         .into_iter()
    ///         .collect(),
    /// };
    /// let patches = convolution.patches(&Array::from([[[1.0, 2.0, 3.0]]]));
    /// assert_eq!(*patches.shape(), [1, 1, 3, 2]);
    /// assert_eq!(patches.to_vec::<f64>(), [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn patches(&self, x: &Array) -> Array {
        let n = x.shape().first().copied().unwrap_or_default();
        let expected = self.shape(ConvolutionPart::Input, n);
        if *x.shape() != expected || !x.dtype().is_float() {
            let what = format!(
                "found {} {}, expected {expected} of a float type",
                x.shape(),
                x.dtype()
            );
            raise(Error::invalid("patches", what));
        }
        let stencil = self.windows.iter().map(|window| window.kernel);
        let channels = self.groups.saturating_mul(self.inputs);
        let elements = stencil.fold(channels, usize::saturating_mul);
        let positions = self.positions();
        let _ = Shape::from([n, positions.size(), elements]).addressable("patches");
        self.expect_padded("patches");
        crate::error::allocating("patches", || {
            crate::placement::common("patches", [x]).patches(self, x)
        })
    }

    /// Raises an error unless the elements with their padding can be counted.
    #[track_caller]
    fn expect_padded(&self, function: &'static str) {
        let channels = self.groups.saturating_mul(self.inputs.max(self.outputs));
        let sizes = self.sizes.iter().zip(&self.windows);
        let padded = sizes.map(|(&size, window)| window.padded(size));
        let padded: Shape = [channels].into_iter().chain(padded).collect();
        let _ = padded.addressable(function);
    }
}

impl ConvolutionPart {
    /// Returns the other two parts, in the order input, weights, output.
    pub fn others(self) -> [Self; 2] {
        match self {
            Self::Input => [Self::Weights, Self::Output],
            Self::Weights => [Self::Input, Self::Output],
            Self::Output => [Self::Input, Self::Weights],
        }
    }
}
