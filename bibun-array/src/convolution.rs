//! Convolutions over any number of axes, and the two products that their derivatives are made of.

use smallvec::SmallVec;

use crate::{Array, Error, Shape, raise};

/// How a kernel moves along one axis.
///
/// ```
/// use bibun_array::Window;
/// let window = Window { kernel: 3, stride: 2, padding: [1, 1], dilation: 1 };
/// assert_eq!(window.positions(5), Some(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// How many elements the kernel reads.
    pub kernel: usize,
    /// How far it moves from one position to the next.
    pub stride: usize,
    /// How many zeros lie before and after the axis.
    pub padding: [usize; 2],
    /// How far apart the elements are that it reads.
    pub dilation: usize,
}

impl Window {
    /// How many elements lie from the first that the kernel reads to the last, with both.
    pub fn extent(&self) -> usize {
        match self.kernel {
            0 => 0,
            kernel => ((kernel - 1).saturating_mul(self.dilation)).saturating_add(1),
        }
    }

    /// An axis of `size` with its padding.
    pub fn padded(&self, size: usize) -> usize {
        let [before, behind] = self.padding;
        before.saturating_add(size).saturating_add(behind)
    }

    /// How many positions the kernel has on an axis of `size`; `None` if it does not fit.
    pub fn positions(&self, size: usize) -> Option<usize> {
        let room = self.padded(size).checked_sub(self.extent())?;
        Some((room / self.stride).saturating_add(1))
    }
}

/// What a convolution connects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConvolutionPart {
    /// What the kernels move over.
    Input,
    /// The kernels.
    Weights,
    /// What they give.
    Output,
}

/// The sizes of a convolution over any number of axes, from which all shapes follow.
///
/// Input x `[n, groups * inputs, sizes..]`, weights w `[groups * outputs, inputs, kernel..]`,
/// output y `[n, groups * outputs, positions..]`. With `s` the place that position `p` reads for
/// the element `k` of the kernel, `y[n, o, p] = Σ_{c, k} x[n, c, s(p, k)] w[o, c, k]`, where an
/// output channel reads the input channels of its group only and x is 0 in the padding.
///
/// The sum `Σ x[n, c, s(p, k)] w[o, c, k] y[n, o, p]` over everything is linear in each of the
/// three parts, and what stands beside one of them in it is the product of the other two:
/// [`Convolution::product`]. All derivatives of a convolution are such products.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Convolution {
    /// How many groups the channels are in.
    pub groups: usize,
    /// Input channels of a group.
    pub inputs: usize,
    /// Output channels of a group.
    pub outputs: usize,
    /// The sizes of the input along the axes that the kernel moves on.
    pub sizes: Shape,
    /// How it moves, for each of these axes.
    pub windows: SmallVec<[Window; 3]>,
}

impl Convolution {
    /// The positions of the kernel along each axis.
    ///
    /// # Panics
    /// Panics if it does not fit.
    pub fn positions(&self) -> Shape {
        let windows = self.sizes.iter().zip(&self.windows);
        let positions = windows.map(|(&size, window)| window.positions(size));
        positions.map(|count| count.expect("it fits")).collect()
    }

    /// The shape of a part, for `n` examples (which the weights have no axis for).
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

    /// The part `made` from the other two, in their order: the output is the convolution of input
    /// and weights; the input the transposed convolution of weights and output; the weights those
    /// of the gradient by them, from input and output.
    ///
    /// # Panics
    /// Panics if a shape is not that of its part, or the dtypes are not both f32 or both f64.
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
        let device = crate::device::common("convolution", [a, b]);
        let _ = self.shape(made, n).addressable("convolution");
        self.expect_padded("convolution");
        crate::device::allocating("convolution", || device.convolve(self, made, a, b))
    }
}

impl Convolution {
    /// What the kernels see of each example at each position: the output is the product of these
    /// patches with the kernels.
    ///
    /// Shapes: x, the input `[n, groups * inputs, sizes..]` → `[n, groups, positions, stencil * inputs]`,
    /// with all positions as one axis and the channels of a tap side by side.
    ///
    /// # Panics
    /// Panics if x has not the shape of the input or is neither f32 nor f64.
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
        crate::device::allocating("patches", || {
            crate::device::common("patches", [x]).patches(self, x)
        })
    }

    /// Raises unless all elements between the padding can be counted.
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
    /// The other two, in the order input, weights, output.
    pub fn others(self) -> [Self; 2] {
        match self {
            Self::Input => [Self::Weights, Self::Output],
            Self::Weights => [Self::Input, Self::Output],
            Self::Output => [Self::Input, Self::Weights],
        }
    }
}
