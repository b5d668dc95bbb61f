//! Convolutional layers.

use bibun_array::{Array, Generator, Shape};

use super::{Chain, Link, Start, expect_float, start_setters};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::{ConvOptions, ConvTransposeOptions, Padding, PerAxis, conv, conv_transpose};
use crate::initializers::HeNormal;
use crate::variable::Variable;

/// A convolutional layer over one axis; see [`Conv`].
pub type Conv1d = Conv<1>;
/// A convolutional layer over two axes; see [`Conv`].
pub type Conv2d = Conv<2>;
/// A convolutional layer over three axes; see [`Conv`].
pub type Conv3d = Conv<3>;
/// A transposed convolution over one axis; see [`ConvTranspose`].
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution over two axes; see [`ConvTranspose`].
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution over three axes; see [`ConvTranspose`].
pub type ConvTranspose3d = ConvTranspose<3>;

/// Declares a layer and its builder.
macro_rules! layer {
    (
        $(#[$documentation:meta])*
        $Layer:ident, $Layer2d:literal, $Builder:ident, $Options:ident, $function:ident,
        $w:literal, $shape:literal, $built:literal
    ) => {
        $(#[$documentation])*
        #[derive(Chain, Clone, Debug)]
        pub struct $Layer<const N: usize> {
            #[doc = concat!("The weights, `", $w, "`.")]
            pub weight: Variable,
            /// The biases, one for each output channel, if there are any.
            pub bias: Option<Variable>,
            #[chain(skip)]
            options: $Options<N>,
        }

        impl<const N: usize> $Layer<N> {
            /// Creates a layer in f32 with a stride of 1, no padding, weights from [`HeNormal`] and
            /// biases of zero.
            ///
            /// # Panics
            /// Panics if the kernel size is 0 along an axis.
            #[track_caller]
            pub fn new(
                inputs: usize,
                outputs: usize,
                kernel: impl Into<PerAxis<N>>,
                generator: &mut Generator,
            ) -> Self {
                Self::builder(inputs, outputs, kernel).build(generator)
            }

            /// Returns a builder of a layer with custom options.
            ///
            /// ```
            /// use bibun::array::{DType, Generator};
            /// use bibun::functions::Padding;
            /// use bibun::initializers::GlorotUniform;
            #[doc = concat!("use bibun::links::", $Layer2d, ";")]
            #[doc = concat!("let layer = ", $Layer2d, "::builder(4, 6, [3, 5])")]
            ///     .stride(2)
            ///     .padding(Padding::Same)
            ///     .groups(2)
            ///     .initializer(GlorotUniform)
            ///     .without_bias()
            ///     .dtype(DType::F64)
            ///     .build(&mut Generator::new(0));
            #[doc = concat!("assert_eq!(layer.weight.shape(), ", $built, ");")]
            /// ```
            pub fn builder(
                inputs: usize,
                outputs: usize,
                kernel: impl Into<PerAxis<N>>,
            ) -> $Builder<N> {
                $Builder {
                    inputs,
                    outputs,
                    kernel: kernel.into().each(),
                    options: $Options::default(),
                    start: Start::new(HeNormal),
                }
            }

            /// Returns the options of the convolution.
            pub fn options(&self) -> &$Options<N> {
                &self.options
            }
        }

        impl<const N: usize> Link for $Layer<N> {
            /// Applies the convolution to x with the layer's parameters.
            ///
            /// # Panics
            #[doc = concat!("Panics if x is not `", $shape, "` or too small; the message has all shapes.")]
            fn compute(&self, x: &Variable) -> Variable {
                $function(x.clone(), self.weight.clone(), self.bias.as_ref(), &self.options)
            }
        }

        #[doc = concat!("The settings of a [`", stringify!($Layer), "`] to be built; see [`", stringify!($Layer), "::builder`].")]
        #[derive(Debug)]
        #[must_use = "nothing is made before `build`"]
        pub struct $Builder<const N: usize> {
            inputs: usize,
            outputs: usize,
            kernel: [usize; N],
            options: $Options<N>,
            start: Start,
        }

        impl<const N: usize> $Builder<N> {
            /// Sets the stride, the distance between positions of the kernel. Defaults to 1.
            pub fn stride(mut self, stride: impl Into<PerAxis<N>>) -> Self {
                self.options.stride = stride.into().each();
                self
            }

            /// Sets the padding. Defaults to no padding.
            pub fn padding(mut self, padding: impl Into<Padding<N>>) -> Self {
                self.options.padding = padding.into();
                self
            }

            /// Sets the dilation, the distance between the elements under a kernel. Defaults to 1.
            pub fn dilation(mut self, dilation: impl Into<PerAxis<N>>) -> Self {
                self.options.dilation = dilation.into().each();
                self
            }

            /// Sets the number of groups that the channels are divided into. Defaults to 1.
            pub fn groups(mut self, groups: usize) -> Self {
                self.options.groups = groups;
                self
            }

            start_setters!(start, HeNormal);

            /// Draws the weights `[outputs, inputs / groups, kernel..]`, a shape from which an
            /// initializer sees the fan-in of an output, and the biases.
            #[track_caller]
            fn draw(&self, generator: &mut Generator) -> (Array, Option<Variable>) {
                let name = stringify!($Layer);
                let Self { inputs, outputs, kernel, ref options, .. } = *self;
                let groups = options.groups;
                expect_float(name, self.start.dtype);
                if groups == 0 || inputs % groups != 0 || outputs % groups != 0 {
                    let what = format!(
                        "{groups} groups must divide {inputs} input and {outputs} output channels"
                    );
                    raise(Error::argument(name, what));
                }
                if kernel.contains(&0) {
                    let what = format!("the kernel is {kernel:?}, it must not be empty");
                    raise(Error::argument(name, what));
                }
                let shape: Shape = [outputs, inputs / groups].into_iter().chain(kernel).collect();
                self.start.draw(shape, generator)
            }
        }
    };
}

layer! {
    /// A convolutional layer over `N` axes ([`conv2d`](crate::functions::conv2d) and its like):
    /// [`Conv1d`], [`Conv2d`], [`Conv3d`].
    ///
    /// Shapes: x `[n, inputs, ..]` → `[n, outputs, ..]`. Cloning shares the parameters.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::{Conv2d, Link};
    /// use bibun::Variable;
    /// let layer = Conv2d::builder(3, 8, 3).padding(1).build(&mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 3, 5, 4], DType::F32));
    /// assert_eq!(layer.forward(&x).shape(), [2, 8, 5, 4]);
    /// assert_eq!(layer.weight.shape(), [8, 3, 3, 3]);
    /// ```
    Conv, "Conv2d", ConvBuilder, ConvOptions, conv,
    "[outputs, inputs / groups, kernel..]", "[n, inputs, ..]", "[6, 2, 3, 5]"
}

layer! {
    /// A layer of transposed convolution over `N` axes
    /// ([`conv_transpose2d`](crate::functions::conv_transpose2d) and its like):
    /// [`ConvTranspose1d`], [`ConvTranspose2d`], [`ConvTranspose3d`].
    ///
    /// Shapes: x `[n, inputs, ..]` → `[n, outputs, ..]`. Cloning shares the parameters.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::{ConvTranspose2d, Link};
    /// use bibun::Variable;
    /// let layer = ConvTranspose2d::builder(8, 3, 4).stride(2).padding(1);
    /// let layer = layer.build(&mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 8, 5, 4], DType::F32));
    /// assert_eq!(layer.forward(&x).shape(), [2, 3, 10, 8]);
    /// assert_eq!(layer.weight.shape(), [8, 3, 4, 4]);
    /// ```
    ConvTranspose, "ConvTranspose2d", ConvTransposeBuilder, ConvTransposeOptions, conv_transpose,
    "[inputs, outputs / groups, kernel..]", "[n, inputs, ..]", "[4, 3, 3, 5]"
}

impl<const N: usize> ConvBuilder<N> {
    /// Draws the parameters and builds the layer.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type, the kernel size is 0 along an axis, or the groups
    /// do not divide the channels.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Conv<N> {
        let _called = calling("Conv");
        let (w, b) = self.draw(generator);
        Conv {
            weight: Variable::new(w),
            bias: b,
            options: self.options,
        }
    }
}

impl<const N: usize> ConvTransposeBuilder<N> {
    /// Sets the number of positions added at the end of the output. Defaults to 0.
    pub fn output_padding(mut self, output_padding: impl Into<PerAxis<N>>) -> Self {
        self.options.output_padding = output_padding.into().each();
        self
    }

    /// Draws the parameters and builds the layer.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type, the kernel size is 0 along an axis, or the groups
    /// do not divide the channels.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> ConvTranspose<N> {
        let _called = calling("ConvTranspose");
        let (w, b) = self.draw(generator);
        let (groups, kernel) = (self.options.groups, self.kernel);
        let shape = |sizes: &[usize]| sizes.iter().copied().chain(kernel).collect::<Shape>();
        let (inputs, outputs) = (self.inputs / groups, self.outputs / groups);
        let w = w.reshape(shape(&[groups, outputs, inputs])).swapaxes(1, 2);
        let w = w.to_row_major().reshape(shape(&[self.inputs, outputs]));
        ConvTranspose {
            weight: Variable::new(w),
            bias: b,
            options: self.options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::DType;

    #[test]
    fn weights_start_as_large_as_their_inputs_allow() {
        let generator = &mut Generator::new(1);
        let deviation = |w: &Variable| {
            let w = w.to_vec::<f32>();
            (w.iter().map(|x| f64::from(x * x)).sum::<f64>() / w.len() as f64).sqrt()
        };
        // 2 / (24 / 2 · 9) for both layers.
        let expected = (2.0 / 108.0f64).sqrt();
        let layer = Conv2d::builder(24, 64, 3).groups(2).build(generator);
        assert!((deviation(&layer.weight) / expected - 1.0).abs() < 0.05);
        let layer = ConvTranspose2d::builder(24, 64, 3)
            .groups(2)
            .build(generator);
        assert_eq!(layer.weight.shape(), [24, 32, 3, 3]);
        assert!((deviation(&layer.weight) / expected - 1.0).abs() < 0.05);
    }

    #[test]
    fn mistakes_are_named() {
        let generator = &mut Generator::new(0);
        let mut message = |builder: ConvBuilder<1>| {
            attempt(|| builder.build(generator))
                .unwrap_err()
                .to_string()
        };
        assert!(message(Conv1d::builder(3, 4, 2).groups(2)).contains("2 groups must divide 3"));
        assert!(message(Conv1d::builder(3, 4, 0)).contains("must not be empty"));
        assert!(message(Conv1d::builder(3, 4, 1).dtype(DType::I64)).contains("i64"));
    }

    #[test]
    fn parameters_have_names_and_settings_stay() {
        let layer = Conv1d::builder(2, 3, 2)
            .stride(2)
            .build(&mut Generator::new(0));
        let names: Vec<String> = layer
            .parameters()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["weight", "bias"]);
        assert_eq!(layer.options().stride, [2]);
    }
}
