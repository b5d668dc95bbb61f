//! Convolutions and transposed convolutions.

use bibun_array::{Convolution, ConvolutionPart, DType, Shape, Window};

use super::options::{ConvOptions, ConvTransposeOptions, Padding};
use super::product::{CONVOLUTION, ConvolutionProduct, TRANSPOSED, named};
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::OptionalVariable;
use crate::functions::families::Bilinear;
use crate::functions::products::reshaped;
use crate::functions::{cast, expand_dims, squeeze};
use crate::variable::Variable;

/// Declares the functions of one number of axes, with an example of each: its result for x and w.
macro_rules! convolutions {
    (
        $N:literal $Axes:literal: $axes:literal, $kernel:literal -> $positions:literal;
        $conv:ident -> $y:literal { $x:literal, $w:literal }
        $conv_transpose:ident -> $ty:literal { $tx:literal, $tw:literal }
    ) => {
        #[doc = concat!("Computes the convolution over ", $Axes, " (without mirrored kernels, as everywhere in networks),")]
        /// `y[n, o, p] = b[o] + Σ_{c, k} x[n, c, p·stride + k·dilation - padding] w[o, c, k]`.
        ///
        #[doc = concat!("Shapes: x `[n, i, ", $axes, "]`, w `[o, i / groups, ", $kernel, "]`, b `[o]` → `[n, o, ", $positions, "]`,")]
        /// where an axis of `size` becomes `(size + paddings - (k - 1)·dilation - 1) / stride + 1`
        /// long, rounded down. Without the axis n of examples, x is one example, and so is y.
        /// Types: floats, promoted.
        #[doc = concat!("Gradient: [`", stringify!($conv_transpose), "`] of gy with the same w to x; to w the sum of")]
        /// `gy[n, o, p]` times the x that was multiplied by it; `Σ gy` to b.
        ///
        /// # Panics
        /// Panics if the shapes do not fit, a stride, a dilation, the kernel or the number of groups is
        /// 0, the groups do not divide the channels, or the dtype is not a float type.
        ///
        /// ```
        #[doc = concat!("use bibun::{functions::{", stringify!($conv), ", ConvOptions}, Variable};")]
        #[doc = concat!("let x = ", $x, ";")]
        #[doc = concat!("let w = ", $w, ";")]
        #[doc = concat!("let y = ", stringify!($conv), "(&x, &w, None, ConvOptions::new());")]
        #[doc = concat!("assert_eq!(y.to_vec::<f64>(), ", $y, ");")]
        /// ```
        #[track_caller]
        pub fn $conv(
            x: impl Into<Variable>,
            w: impl Into<Variable>,
            b: impl Into<OptionalVariable>,
            options: impl Into<ConvOptions<$N>>,
        ) -> Variable {
            conv(x.into(), w.into(), b.into().get(), &options.into())
        }

        #[doc = concat!("Computes the transposed convolution over ", $Axes, ": each element of x adds a")]
        /// multiple of the kernel to the output,
        /// `y[n, o, p·stride + k·dilation - padding] += x[n, i, p] w[i, o, k]`, and b is added.
        ///
        #[doc = concat!("Shapes: x `[n, i, ", $axes, "]`, w `[i, o / groups, ", $kernel, "]`, b `[o]` → `[n, o, ", $positions, "]`,")]
        /// where an axis of `size` becomes `(size - 1)·stride + (k - 1)·dilation + 1 - paddings +
        /// output_padding` long. Without the axis n of examples, x is one example, and so is y.
        /// Types: floats, promoted.
        #[doc = concat!("Gradient: [`", stringify!($conv), "`] of gy with the same w to x; to w the sum of `x[n, i, p]`")]
        /// times the gy that it contributed to; `Σ gy` to b.
        ///
        /// # Panics
        #[doc = concat!("Panics where [`", stringify!($conv), "`] does, if the padding removes more than there is, and if an output padding")]
        /// is not less than the stride.
        ///
        /// Source: Zeiler, Krishnan, Taylor, Fergus, "Deconvolutional networks", CVPR 2010.
        ///
        /// ```
        #[doc = concat!("use bibun::{functions::{", stringify!($conv_transpose), ", ConvTransposeOptions}, Variable};")]
        #[doc = concat!("let x = ", $tx, ";")]
        #[doc = concat!("let w = ", $tw, ";")]
        #[doc = concat!("let y = ", stringify!($conv_transpose), "(&x, &w, None, ConvTransposeOptions::new());")]
        #[doc = concat!("assert_eq!(y.to_vec::<f64>(), ", $ty, ");")]
        /// ```
        #[track_caller]
        pub fn $conv_transpose(
            x: impl Into<Variable>,
            w: impl Into<Variable>,
            b: impl Into<OptionalVariable>,
            options: impl Into<ConvTransposeOptions<$N>>,
        ) -> Variable {
            conv_transpose(x.into(), w.into(), b.into().get(), &options.into())
        }
    };
}

convolutions! {
    1 "one axis": "l", "k" -> "p";
    conv1d -> "[12.0, 23.0]" {
        "Variable::new([[[1.0, 2.0, 3.0]]])", "Variable::new([[[10.0, 1.0]]])"
    }
    conv_transpose1d -> "[10.0, 21.0, 2.0]" {
        "Variable::new([[[1.0, 2.0]]])", "Variable::new([[[10.0, 1.0]]])"
    }
}
convolutions! {
    2 "two axes": "h, w", "kh, kw" -> "ph, pw";
    conv2d -> "[12.0, 34.0]" {
        "Variable::new([1.0, 2.0, 3.0, 4.0]).reshape([1, 1, 2, 2])",
        "Variable::new([10.0, 1.0]).reshape([1, 1, 1, 2])"
    }
    conv_transpose2d -> "[10.0, 20.0, 1.0, 2.0]" {
        "Variable::new([1.0, 2.0]).reshape([1, 1, 1, 2])",
        "Variable::new([10.0, 1.0]).reshape([1, 1, 2, 1])"
    }
}
convolutions! {
    3 "three axes": "d, h, w", "kd, kh, kw" -> "pd, ph, pw";
    conv3d -> "[12.0, 34.0]" {
        "Variable::new([1.0, 2.0, 3.0, 4.0]).reshape([1, 1, 1, 2, 2])",
        "Variable::new([10.0, 1.0]).reshape([1, 1, 1, 1, 2])"
    }
    conv_transpose3d -> "[10.0, 20.0, 1.0, 2.0]" {
        "Variable::new([1.0, 2.0]).reshape([1, 1, 1, 1, 2])",
        "Variable::new([10.0, 1.0]).reshape([1, 1, 1, 2, 1])"
    }
}

#[track_caller]
pub(super) fn expect_positive(function: &'static str, settings: &[(&str, &[usize])]) {
    if let Some((name, values)) = settings.iter().find(|(_, values)| values.contains(&0)) {
        let given = match values {
            [one] => one.to_string(),
            _ => format!("{values:?}"),
        };
        let what = format!("{name} is {given}, it must be 1 or more");
        raise(Error::argument(function, what));
    }
}

/// The inputs of a call.
struct Call<const N: usize> {
    function: &'static str,
    /// The name of the channels of w, for errors.
    channels: &'static str,
    x: Variable,
    w: Variable,
    b: Option<Variable>,
    /// Whether x is one example, whose axis n was added.
    is_single: bool,
}

impl<const N: usize> Call<N> {
    #[cold]
    #[track_caller]
    fn fail(&self, must_hold: &str) -> ! {
        let axes = named(["l", "h, w", "d, h, w"], N);
        let kernel = named(["k", "kh, kw", "kd, kh, kw"], N);
        let mut x = self.x.spec();
        let n = if self.is_single { "" } else { "n, " };
        if self.is_single {
            x.shape = Shape::from(&x.shape[1..]);
        }
        let names = [
            format!("x [{n}i, {axes}]"),
            format!("w [{}, {kernel}]", self.channels),
        ];
        let mut specs = vec![x, self.w.spec()];
        specs.extend(self.b.as_ref().map(Variable::spec));
        let names = names.iter().map(String::as_str).chain(["b [o]"]);
        let inputs: Vec<_> = names.zip(&specs).collect();
        mismatch(self.function, &inputs, must_hold)
    }

    /// Returns the inputs in one float dtype, with the checks of shapes that both directions share.
    #[track_caller]
    fn new(
        function: &'static str,
        channels: &'static str,
        [x, w]: [Variable; 2],
        b: Option<&Variable>,
        [stride, dilation]: [&[usize; N]; 2],
        groups: usize,
    ) -> Self {
        let settings = [
            ("stride", &stride[..]),
            ("dilation", &dilation[..]),
            ("groups", &[groups]),
        ];
        expect_positive(function, &settings);
        let (b, is_single) = (b.cloned(), x.rank() == N + 1);
        let x = if is_single { expand_dims(x, 0) } else { x };
        let mut call = Self {
            function,
            channels,
            x,
            w,
            b,
            is_single,
        };
        let inputs = [&mut call.x, &mut call.w].into_iter().chain(&mut call.b);
        let dtypes = inputs.map(|input| input.dtype());
        let dtype = dtypes.reduce(DType::promote).expect("at least two");
        if !dtype.is_float() {
            call.fail("a convolution is of floats");
        }
        if call.x.rank() != N + 2 || call.w.rank() != N + 2 {
            let axes = N + 2;
            call.fail(&format!(
                "x and w must have {axes} axes, or x without n one less"
            ));
        }
        if call.w.shape()[2..].contains(&0) {
            call.fail("the kernel must not be empty");
        }
        for input in [&mut call.x, &mut call.w].into_iter().chain(&mut call.b) {
            *input = cast(&*input, dtype);
        }
        call
    }

    /// Computes the product of x and w, and adds b.
    #[track_caller]
    fn finish(self, convolution: Convolution, made: ConvolutionPart) -> Variable {
        let outputs = convolution.shape(made, 0)[1];
        if self.b.as_ref().is_some_and(|b| b.shape() != [outputs]) {
            self.fail("b must have one element for each output channel");
        }
        let dtype = self.x.dtype();
        // What b is still added to is rounded after that.
        let rule = ConvolutionProduct {
            convolution,
            made,
            is_wide: self.b.is_some(),
        };
        let sum = rule.dtype(dtype);
        let y = match made {
            ConvolutionPart::Input => Bilinear::of(rule, self.w, self.x),
            _ => Bilinear::of(rule, self.x, self.w),
        };
        let along = [outputs].into_iter().chain([1; N]).collect::<Shape>();
        let y = match self.b {
            Some(b) => cast(y + reshaped(cast(b, sum), along), dtype),
            None => y,
        };
        match self.is_single {
            true => squeeze(y, 0),
            false => y,
        }
    }
}

/// Computes the convolution over `N` axes.
#[track_caller]
pub(crate) fn conv<const N: usize>(
    x: Variable,
    w: Variable,
    b: Option<&Variable>,
    options: &ConvOptions<N>,
) -> Variable {
    let _whole = composite(named(CONVOLUTION, N));
    let ConvOptions {
        stride,
        padding,
        dilation,
        groups,
    } = *options;
    let (channels, steps) = ("o, i / groups", [&stride, &dilation]);
    let call = Call::new(named(CONVOLUTION, N), channels, [x, w], b, steps, groups);
    let (x, w) = (call.x.shape(), call.w.shape());
    if w[1].checked_mul(groups) != Some(x[1]) {
        call.fail(&format!(
            "the i of x must be that of w, and groups is {groups}"
        ));
    }
    if w[0] % groups != 0 {
        call.fail(&format!(
            "o must be a multiple of groups, which is {groups}"
        ));
    }
    let windows = (0..N).map(|axis| {
        let [kernel, stride, dilation] = [w[axis + 2], stride[axis], dilation[axis]];
        padding.window(axis, x[axis + 2], kernel, stride, dilation)
    });
    let convolution = Convolution {
        groups,
        inputs: w[1],
        outputs: w[0] / groups,
        sizes: Shape::from(&x[2..]),
        windows: windows.collect(),
    };
    for (window, &size) in convolution.windows.iter().zip(&x[2..]) {
        if window.positions(size).is_none() {
            call.fail(&format!(
                "a kernel that reaches over {} elements does not fit into {}, with padding",
                window.extent(),
                window.padded(size)
            ));
        }
    }
    call.finish(convolution, ConvolutionPart::Output)
}

/// Computes the transposed convolution over `N` axes.
#[track_caller]
pub(crate) fn conv_transpose<const N: usize>(
    x: Variable,
    w: Variable,
    b: Option<&Variable>,
    options: &ConvTransposeOptions<N>,
) -> Variable {
    let _whole = composite(named(TRANSPOSED, N));
    let ConvTransposeOptions {
        stride,
        padding,
        output_padding,
        dilation,
        groups,
    } = *options;
    let function = named(TRANSPOSED, N);
    let (channels, steps) = ("i, o / groups", [&stride, &dilation]);
    let call = Call::new(function, channels, [x, w], b, steps, groups);
    let (x, w) = (call.x.shape(), call.w.shape());
    if w[0] != x[1] || x[1] % groups != 0 {
        call.fail(&format!(
            "i must be equal, and a multiple of groups, which is {groups}"
        ));
    }
    let mut sizes = Vec::with_capacity(N);
    let mut windows = Vec::with_capacity(N);
    for axis in 0..N {
        let mut window = Window {
            kernel: w[axis + 2],
            stride: stride[axis],
            padding: [0, 0],
            dilation: dilation[axis],
        };
        let (count, more) = (x[axis + 2], output_padding[axis]);
        let Some(steps) = count.checked_sub(1) else {
            call.fail("x must have elements along every axis that the kernel moves on")
        };
        if more >= window.stride {
            let what = format!(
                "output_padding is {output_padding:?}, it must be less than the stride {stride:?}"
            );
            raise(Error::argument(function, what));
        }
        let reach = steps.saturating_mul(window.stride);
        let written = reach.saturating_add(window.extent()).saturating_add(more);
        let size = match padding {
            // The elements that a stride leaves between kernels count too.
            Padding::Same => {
                let size = count.saturating_mul(window.stride);
                window.padding = padding.around(axis, written.saturating_sub(size));
                Some(size)
            }
            _ => {
                window.padding = padding.around(axis, 0);
                let [before, behind] = window.padding;
                written.checked_sub(before.saturating_add(behind))
            }
        };
        let Some(size) = size else {
            call.fail(&format!(
                "the padding takes away more than the {written} elements made"
            ))
        };
        if window.positions(size) != Some(count) {
            let what = format!(
                "padding {padding:?} and output_padding {output_padding:?} do not go together"
            );
            raise(Error::argument(function, what));
        }
        sizes.push(size);
        windows.push(window);
    }
    let convolution = Convolution {
        groups,
        inputs: w[1],
        outputs: w[0] / groups,
        sizes: sizes.into(),
        windows: windows.into(),
    };
    call.finish(convolution, ConvolutionPart::Input)
}
