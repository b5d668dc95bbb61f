//! Convolutions and transposed convolutions.

use bibun_array::{Array, Convolution, ConvolutionPart, DType, Shape, Window};

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::error::{Error, mismatch, raise};
use crate::examples::{self, ExampleCotangent, ExampleGradient, Examples, ProductForm};
use crate::function::{Mismatch, Spec};
use crate::functions::connection::matmul::reshaped;
use crate::functions::family::{Bilinear, BilinearRule, Linear, LinearRule};
use crate::functions::{cast, moveaxis, reshape, swapaxes};
use crate::variable::Variable;

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
    fn around(&self, axis: usize, same: usize) -> [usize; 2] {
        match self {
            Self::Valid => [0, 0],
            Self::Same => [same / 2, same - same / 2],
            Self::Sizes(sizes) => [sizes[axis]; 2],
            Self::Pairs(pairs) => pairs[axis].into(),
        }
    }

    /// How a kernel moves along an axis of `size`.
    pub(super) fn window(
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
/// let options = ConvOptions::<2> { padding: Padding::Same, ..Default::default() };
/// assert_eq!((options.stride, options.groups), ([1, 1], 1));
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
/// let options = ConvTransposeOptions::<2> { stride: [2, 2], ..Default::default() };
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

/// The names of the functions over `N` axes.
const fn named(names: [&'static str; 3], axes: usize) -> &'static str {
    match axes {
        1 => names[0],
        2 => names[1],
        _ => names[2],
    }
}

const CONVOLUTION: [&str; 3] = ["conv1d", "conv2d", "conv3d"];
const TRANSPOSED: [&str; 3] = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"];
const BY_WEIGHTS: [&str; 3] = ["conv1d_weights", "conv2d_weights", "conv3d_weights"];

/// Declares the functions of one number of axes, with an example of each: what it makes of x and w.
macro_rules! convolutions {
    (
        $N:literal $Axes:literal: $axes:literal, $kernel:literal -> $positions:literal;
        $conv:ident -> $y:literal { $x:literal, $w:literal }
        $conv_transpose:ident -> $ty:literal { $tx:literal, $tw:literal }
    ) => {
        #[doc = concat!("The convolution over ", $Axes, " (without mirrored kernels, as everywhere in networks),")]
        /// `y[n, o, p] = b[o] + Σ_{c, k} x[n, c, p·stride + k·dilation - padding] w[o, c, k]`.
        ///
        #[doc = concat!("Shapes: x `[n, i, ", $axes, "]`, w `[o, i / groups, ", $kernel, "]`, b `[o]` → `[n, o, ", $positions, "]`,")]
        /// where an axis of `size` becomes `(size + paddings - (k - 1)·dilation - 1) / stride + 1`
        /// long, rounded down. Types: floats, promoted.
        #[doc = concat!("Gradient: [`", stringify!($conv_transpose), "`] of gy with the same w to x; to w the sum of")]
        /// `gy[n, o, p]` times the x that it met; `Σ gy` to b.
        ///
        /// # Panics
        /// If the shapes do not fit, a stride, a dilation, the kernel or the number of groups is 0,
        /// the groups do not divide the channels, or the dtype is no float type.
        ///
        /// ```
        #[doc = concat!("use bibun::{functions::{", stringify!($conv), ", ConvOptions}, Variable};")]
        #[doc = concat!("let x = ", $x, ";")]
        #[doc = concat!("let w = ", $w, ";")]
        #[doc = concat!("let y = ", stringify!($conv), "(&x, &w, None, &ConvOptions::default());")]
        #[doc = concat!("assert_eq!(y.to_vec::<f64>(), ", $y, ");")]
        /// ```
        #[track_caller]
        pub fn $conv(
            x: impl Into<Variable>,
            w: impl Into<Variable>,
            b: Option<&Variable>,
            options: &ConvOptions<$N>,
        ) -> Variable {
            conv(x.into(), w.into(), b, options)
        }

        #[doc = concat!("The transposed convolution over ", $Axes, ": each element of x writes a kernel, and what is")]
        /// written in one place adds up,
        /// `y[n, o, p·stride + k·dilation - padding] += x[n, i, p] w[i, o, k]`, and b on top.
        ///
        #[doc = concat!("Shapes: x `[n, i, ", $axes, "]`, w `[i, o / groups, ", $kernel, "]`, b `[o]` → `[n, o, ", $positions, "]`,")]
        /// where an axis of `size` becomes `(size - 1)·stride + (k - 1)·dilation + 1 - paddings +
        /// output_padding` long. Types: floats, promoted.
        #[doc = concat!("Gradient: [`", stringify!($conv), "`] of gy with the same w to x; to w the sum of `x[n, i, p]`")]
        /// times the gy that it made; `Σ gy` to b.
        ///
        /// # Panics
        #[doc = concat!("As [`", stringify!($conv), "`]; and if the padding takes away everything or an output padding is not")]
        /// less than the stride.
        ///
        /// Source: Zeiler, Krishnan, Taylor, Fergus, "Deconvolutional networks", CVPR 2010.
        ///
        /// ```
        #[doc = concat!("use bibun::{functions::{", stringify!($conv_transpose), ", ConvTransposeOptions}, Variable};")]
        #[doc = concat!("let x = ", $tx, ";")]
        #[doc = concat!("let w = ", $tw, ";")]
        #[doc = concat!("let y = ", stringify!($conv_transpose), "(&x, &w, None, &ConvTransposeOptions::default());")]
        #[doc = concat!("assert_eq!(y.to_vec::<f64>(), ", $ty, ");")]
        /// ```
        #[track_caller]
        pub fn $conv_transpose(
            x: impl Into<Variable>,
            w: impl Into<Variable>,
            b: Option<&Variable>,
            options: &ConvTransposeOptions<$N>,
        ) -> Variable {
            conv_transpose(x.into(), w.into(), b, options)
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
        let what = format!("{name} is {values:?}, it must be 1 or more");
        raise(Error::argument(function, what));
    }
}

/// The inputs of a call.
struct Call<const N: usize> {
    function: &'static str,
    /// What the channels of w are, for errors.
    channels: &'static str,
    x: Variable,
    w: Variable,
    b: Option<Variable>,
}

impl<const N: usize> Call<N> {
    #[cold]
    #[track_caller]
    fn fail(&self, must_hold: &str) -> ! {
        let axes = named(["l", "h, w", "d, h, w"], N);
        let kernel = named(["k", "kh, kw", "kd, kh, kw"], N);
        let names = [
            format!("x [n, i, {axes}]"),
            format!("w [{}, {kernel}]", self.channels),
        ];
        let mut specs = vec![self.x.spec(), self.w.spec()];
        specs.extend(self.b.as_ref().map(Variable::spec));
        let names = names.iter().map(String::as_str).chain(["b [o]"]);
        let inputs: Vec<_> = names.zip(&specs).collect();
        mismatch(self.function, &inputs, must_hold)
    }

    /// Everything in one float dtype, and what x and w look like is right as far as it is the same
    /// for both directions.
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
        let b = b.cloned();
        let mut call = Self {
            function,
            channels,
            x,
            w,
            b,
        };
        let inputs = [&mut call.x, &mut call.w].into_iter().chain(&mut call.b);
        let dtypes = inputs.map(|input| input.dtype());
        let dtype = dtypes.reduce(DType::promote).expect("at least two");
        if !dtype.is_float() {
            call.fail("a convolution is of floats");
        }
        if call.x.rank() != N + 2 || call.w.rank() != N + 2 {
            call.fail(&format!("x and w must have {} axes", N + 2));
        }
        if call.w.shape()[2..].contains(&0) {
            call.fail("the kernel must not be empty");
        }
        for input in [&mut call.x, &mut call.w].into_iter().chain(&mut call.b) {
            *input = cast(&*input, dtype);
        }
        call
    }

    /// The product of x and w, with b on top.
    #[track_caller]
    fn finish(self, convolution: Convolution, made: ConvolutionPart) -> Variable {
        let outputs = convolution.shape(made, 0)[1];
        if self.b.as_ref().is_some_and(|b| b.shape() != [outputs]) {
            self.fail("b must have one element for each output channel");
        }
        let rule = ConvolutionProduct { convolution, made };
        let y = match made {
            ConvolutionPart::Input => Bilinear::of(rule, self.w, self.x),
            _ => Bilinear::of(rule, self.x, self.w),
        };
        let along = [outputs].into_iter().chain([1; N]).collect::<Shape>();
        match self.b {
            Some(b) => y + reshaped(b, along),
            None => y,
        }
    }
}

/// The convolution over `N` axes.
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
            "i must be {groups} groups of as many channels as w reads"
        ));
    }
    if w[0] % groups != 0 {
        call.fail(&format!("o must be {groups} groups of equal size"));
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

/// The transposed convolution over `N` axes.
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
            "i must be equal, and {groups} groups of equal size"
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
            // What a stride leaves between kernels belongs to the size, too.
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

/// One part of a convolution from the other two: all that its derivatives consist of.
#[derive(Clone, Debug)]
struct ConvolutionProduct {
    convolution: Convolution,
    made: ConvolutionPart,
}

impl ConvolutionProduct {
    /// The same convolution with another part made.
    #[track_caller]
    fn of(&self, made: ConvolutionPart, a: Variable, b: Variable) -> Variable {
        let convolution = self.convolution.clone();
        Bilinear::of(Self { convolution, made }, a, b)
    }
}

impl BilinearRule for ConvolutionProduct {
    fn name(&self) -> &'static str {
        let names = match self.made {
            ConvolutionPart::Output => CONVOLUTION,
            ConvolutionPart::Input => TRANSPOSED,
            ConvolutionPart::Weights => BY_WEIGHTS,
        };
        named(names, self.convolution.windows.len())
    }

    fn shape(&self, a: &Spec, b: &Spec) -> Result<Spec, Mismatch> {
        let examples = match self.made {
            ConvolutionPart::Input => b,
            _ => a,
        };
        let n = examples.shape.first().copied().unwrap_or_default();
        let [first, second] = self.made.others();
        let expected = [first, second].map(|part| self.convolution.shape(part, n));
        if a.shape != expected[0] || b.shape != expected[1] || a.dtype != b.dtype {
            let [first, second] = expected;
            let must_hold = format!("the shapes must be {first} and {second}, of one dtype");
            return Err(Mismatch::new(&[("a", a), ("b", b)], must_hold));
        }
        Ok(Spec::new(self.convolution.shape(self.made, n), a.dtype))
    }

    fn forward(&self, a: Array, b: Array) -> Array {
        self.convolution.product(self.made, &a, &b)
    }

    fn transpose_a(&self, _: &Spec, b: Variable, gy: Variable) -> Variable {
        match self.made {
            // Made of weights a and output b.
            ConvolutionPart::Input => self.of(ConvolutionPart::Weights, gy, b),
            // Of input a and output b.
            ConvolutionPart::Weights => self.of(ConvolutionPart::Input, gy, b),
            // Of input a and weights b.
            ConvolutionPart::Output => self.of(ConvolutionPart::Input, b, gy),
        }
    }

    fn transpose_b(&self, _: &Spec, a: Variable, gy: Variable) -> Variable {
        match self.made {
            ConvolutionPart::Input => self.of(ConvolutionPart::Output, gy, a),
            ConvolutionPart::Weights => self.of(ConvolutionPart::Output, a, gy),
            ConvolutionPart::Output => self.of(ConvolutionPart::Weights, a, gy),
        }
    }

    fn batch(&self, a: Batched, b: Batched) -> Batched {
        let count = Batched::batch_size(&[a.clone(), b.clone()]);
        let [first, second] = self.made.others();
        let folding = match (a.axis, b.axis) {
            (Some(_), Some(_)) => Folding::Groups,
            (Some(_), None) => Folding::not_in(second),
            _ => Folding::not_in(first),
        };
        let mut wider = self.convolution.clone();
        match folding {
            Folding::Examples => {}
            Folding::Groups => wider.groups *= count,
            Folding::Inputs => wider.inputs *= count,
            Folding::Outputs => wider.outputs *= count,
        }
        let examples = match self.made {
            ConvolutionPart::Input => &b,
            _ => &a,
        };
        let n = examples.spec().shape[0];
        let folded = |element: Batched, part| match element.axis {
            None => element.value,
            Some(_) => self.fold(element.to_front(count), part, folding),
        };
        let rule = Self {
            convolution: wider,
            made: self.made,
        };
        let y = Bilinear::of(rule, folded(a, first), folded(b, second));
        self.unfold(y, n, count, folding)
    }

    fn per_example(&self, cx: &Context<'_>, gy: ExampleCotangent) -> [Option<ExampleGradient>; 2] {
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        if examples.axis() != 0 || self.made == ConvolutionPart::Weights {
            return [0, 1].map(|i| cx.needs(i).then_some(ExampleGradient::Unknown));
        }
        let by_weights = |flip: bool, x: Variable| {
            let rule = Self {
                made: ConvolutionPart::Weights,
                ..self.clone()
            };
            let (x, gy) = (examples.of_each(&x), examples.of_each(&cotangent));
            let sum = move |x: &Variable, gy: &Variable| {
                let (input, output) = if flip { (gy, x) } else { (x, gy) };
                Bilinear::of(rule.clone(), input.clone(), output.clone())
            };
            let [l, positions] = [x.shape()[1], self.convolution.positions().size()];
            let Convolution {
                groups,
                inputs,
                outputs,
                ..
            } = self.convolution;
            let taps = taps(&self.convolution);
            let sizes = [l * positions, inputs * taps, outputs];
            let convolution = self.convolution.clone();
            // Examples' patches, and the cotangents that meet them.
            let matrices = move |x: &Variable, gy: &Variable| {
                let [x, y] = if flip { [gy, x] } else { [x, gy] };
                let [n, l] = [x.shape()[0], x.shape()[1]];
                let one = reshape(x, x.shape().removed(0).replaced(0, n * l));
                let patches = Linear::of(Patches(convolution.clone()), one);
                let y = swapaxes(reshape(y, [n, l, outputs, positions]), -1, -2);
                let rows = |x: Variable, columns| reshape(x, [n, l * positions, columns]);
                [rows(patches, inputs * taps), rows(y, outputs)]
            };
            let product = examples::OuterProduct::new(ProductForm::Other, x, gy, sum);
            ExampleGradient::OuterProduct(match groups {
                1 => product.with_matrices(sizes, matrices),
                _ => product,
            })
        };
        let gy = || cotangent.clone();
        let own = |gradient| ExampleGradient::sliced(gradient, examples.clone());
        match self.made {
            // The weights are a, and gy looks like the convolution's input.
            ConvolutionPart::Input => [
                cx.needs(0).then(|| by_weights(true, cx.input(1))),
                (cx.needs(1)).then(|| own(self.transpose_b(cx.input_spec(1), cx.input(0), gy()))),
            ],
            _ => [
                (cx.needs(0)).then(|| own(self.transpose_a(cx.input_spec(0), cx.input(1), gy()))),
                cx.needs(1).then(|| by_weights(false, cx.input(0))),
            ],
        }
    }
}

/// How many positions a kernel reads at once.
fn taps(convolution: &Convolution) -> usize {
    let windows = convolution.windows.iter();
    windows.map(|window| window.kernel).product()
}

/// What the kernels of one group see of each example at each position; see [`Convolution::patches`].
#[derive(Clone, Debug)]
struct Patches(Convolution);

impl Patches {
    /// The numbers that a kernel sees at one position.
    fn seen(&self) -> usize {
        taps(&self.0) * self.0.inputs
    }
}

impl LinearRule for Patches {
    fn name(&self) -> &'static str {
        "patches"
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let sizes = [x.shape[0], 1, self.0.positions().size(), self.seen()];
        Ok(Spec::new(sizes, x.dtype))
    }

    fn forward(&self, x: Array) -> Array {
        self.0.patches(&x)
    }

    /// Patches are a convolution whose kernels pick one number each.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        let (seen, inputs) = (self.seen(), self.0.inputs);
        let kernels = Array::eye(seen, x.dtype).reshape([seen, seen / inputs, inputs]);
        let convolution = Convolution {
            outputs: seen,
            ..self.0.clone()
        };
        let kernels = kernels.swapaxes(-1, -2);
        let kernels = kernels.reshape(convolution.shape(ConvolutionPart::Weights, 0));
        let n = x.shape[0];
        let gy = swapaxes(reshape(gy, [n, self.0.positions().size(), seen]), -1, -2);
        let gy = reshape(gy, convolution.shape(ConvolutionPart::Output, n));
        let rule = ConvolutionProduct {
            convolution,
            made: ConvolutionPart::Input,
        };
        Bilinear::of(rule, Variable::constant(kernels), gy)
    }

    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let [y] = Batched::as_examples(Linear(self.clone()), [Batched::along(x, axis)]);
        y
    }

    fn examples(&self, _: &Spec, _: &Examples) -> Option<Examples> {
        None
    }
}

/// What lanes become more of, in all parts that have them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folding {
    Examples,
    Groups,
    Inputs,
    Outputs,
}

impl Folding {
    /// Where lanes go which one part does not have: each part lacks one of the letters that the
    /// other two share.
    fn not_in(part: ConvolutionPart) -> Self {
        match part {
            ConvolutionPart::Input => Self::Outputs,
            ConvolutionPart::Weights => Self::Examples,
            ConvolutionPart::Output => Self::Inputs,
        }
    }

    /// The axis of a part that holds this, and whether it lies inside of the groups there.
    fn place(self, part: ConvolutionPart) -> (usize, bool) {
        match (self, part) {
            (Self::Examples, _) => (0, false),
            (Self::Groups, ConvolutionPart::Weights) => (0, false),
            (Self::Groups, _) => (1, false),
            (Self::Inputs, ConvolutionPart::Weights) => (1, false),
            (Self::Outputs, ConvolutionPart::Weights) => (0, true),
            (Self::Inputs | Self::Outputs, _) => (1, true),
        }
    }
}

impl ConvolutionProduct {
    /// A part with lanes in front as a part of the wider convolution.
    fn fold(&self, x: Variable, part: ConvolutionPart, folding: Folding) -> Variable {
        let (axis, inside) = folding.place(part);
        let shape = x.shape().removed(0);
        let count = x.shape()[0];
        let folded = shape.replaced(axis, count * shape[axis]);
        if !inside {
            return reshaped(moveaxis(x, 0, axis as isize), folded);
        }
        let apart = self.apart(&shape, part, axis);
        let x = reshaped(x, apart.inserted(0, count));
        reshaped(moveaxis(x, 0, axis as isize + 1), folded)
    }

    /// A shape with its axis of channels as groups and what is in each.
    fn apart(&self, shape: &Shape, part: ConvolutionPart, axis: usize) -> Shape {
        let Convolution {
            groups,
            inputs,
            outputs,
            ..
        } = self.convolution;
        let channels = match part {
            ConvolutionPart::Input => inputs,
            ConvolutionPart::Weights | ConvolutionPart::Output => outputs,
        };
        shape.replaced(axis, channels).inserted(axis, groups)
    }

    /// The lanes of the part made, of `n` examples each.
    fn unfold(&self, y: Variable, n: usize, count: usize, folding: Folding) -> Batched {
        let (axis, inside) = folding.place(self.made);
        let shape = self.convolution.shape(self.made, n);
        if !inside {
            return Batched::along(reshaped(y, shape.inserted(axis, count)), axis);
        }
        let apart = self.apart(&shape, self.made, axis);
        let y = reshaped(y, apart.inserted(axis + 1, count));
        let y = moveaxis(y, axis as isize + 1, 0);
        Batched::along(reshaped(y, shape.inserted(0, count)), 0)
    }
}

/// Calls `each` with all indices of a shape, in row-major order.
#[cfg(test)]
fn for_each_index(sizes: &[usize], mut each: impl FnMut(&[usize])) {
    let mut index = vec![0; sizes.len()];
    for i in 0..sizes.iter().product() {
        let mut rest = i;
        for (at, size) in index.iter_mut().zip(sizes).rev() {
            *at = rest % size;
            rest /= size;
        }
        each(&index);
    }
}

/// The place in a row-major array.
#[cfg(test)]
fn place(shape: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    shape
        .iter()
        .zip(index)
        .fold(0, |place, (&size, i)| place * size + i)
}

/// Calls `each` with the places of every x, w and y that meet in a convolution, by plain loops.
#[cfg(test)]
fn meetings(
    [x, w, y]: [&[usize]; 3],
    windows: &[Window],
    groups: usize,
    mut each: impl FnMut(usize, usize, usize),
) {
    let (inputs, outputs) = (w[1], w[0] / groups);
    for_each_index(&[y, &w[1..]].concat(), |p| {
        let (of_y, c, k) = (&p[..y.len()], p[y.len()], &p[y.len() + 1..]);
        let spatial = windows.iter().enumerate().map(|(axis, window)| {
            let at = of_y[axis + 2] * window.stride + k[axis] * window.dilation;
            at.checked_sub(window.padding[0])
                .filter(|&at| at < x[axis + 2])
        });
        let Some(spatial) = spatial.collect::<Option<Vec<usize>>>() else {
            return;
        };
        let channel = of_y[1] / outputs * inputs + c;
        each(
            place(x, [of_y[0], channel].into_iter().chain(spatial)),
            place(w, [of_y[1], c].into_iter().chain(k.iter().copied())),
            place(y, of_y.iter().copied()),
        );
    });
}

#[cfg(test)]
fn with_bias(mut y: Vec<f64>, shape: &[usize], b: Option<&Array>) -> Vec<Array> {
    if let Some(b) = b {
        let channel: usize = shape[2..].iter().product();
        for (i, y) in y.iter_mut().enumerate() {
            *y += b.to_vec::<f64>()[i / channel % shape[1]];
        }
    }
    vec![Array::from_vec(y, shape)]
}

/// A sample of a convolution whose padding is told in numbers for the reference.
#[cfg(test)]
fn sample<const N: usize>(
    x: &'static [usize],
    w: &'static [usize],
    y: &'static [usize],
    bias: bool,
    options: ConvOptions<N>,
    padding: [[usize; 2]; N],
) -> crate::conformance::Sample {
    let windows: Vec<Window> = (0..N)
        .map(|axis| Window {
            kernel: w[axis + 2],
            stride: options.stride[axis],
            padding: padding[axis],
            dilation: options.dilation[axis],
        })
        .collect();
    let sample = crate::conformance::Sample::new(
        named(CONVOLUTION, N),
        move |x| vec![conv(x[0].clone(), x[1].clone(), x.get(2), &options)],
        move |inputs| {
            let (a, b) = (inputs[0].to_vec::<f64>(), inputs[1].to_vec::<f64>());
            let mut out = vec![0.0; y.iter().product()];
            meetings([x, w, y], &windows, options.groups, |i, j, k| {
                out[k] += a[i] * b[j]
            });
            with_bias(out, y, inputs.get(2))
        },
    );
    let sample = sample.input(x, -2.0..2.0).input(w, -2.0..2.0);
    if bias {
        sample.input([y[1]], -2.0..2.0)
    } else {
        sample
    }
}

/// A sample of a transposed convolution: of y, as the convolution has it, to x.
#[cfg(test)]
fn transposed_sample<const N: usize>(
    y: &'static [usize],
    w: &'static [usize],
    x: &'static [usize],
    bias: bool,
    options: ConvTransposeOptions<N>,
    padding: [[usize; 2]; N],
) -> crate::conformance::Sample {
    let windows: Vec<Window> = (0..N)
        .map(|axis| Window {
            kernel: w[axis + 2],
            stride: options.stride[axis],
            padding: padding[axis],
            dilation: options.dilation[axis],
        })
        .collect();
    let sample = crate::conformance::Sample::new(
        named(TRANSPOSED, N),
        move |x| {
            vec![conv_transpose(
                x[0].clone(),
                x[1].clone(),
                x.get(2),
                &options,
            )]
        },
        move |inputs| {
            let (a, b) = (inputs[0].to_vec::<f64>(), inputs[1].to_vec::<f64>());
            let mut out = vec![0.0; x.iter().product()];
            meetings([x, w, y], &windows, options.groups, |i, j, k| {
                out[i] += a[k] * b[j]
            });
            with_bias(out, x, inputs.get(2))
        },
    );
    let sample = sample.input(y, -2.0..2.0).input(w, -2.0..2.0);
    if bias {
        sample.input([x[1]], -2.0..2.0)
    } else {
        sample
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    let one = ConvOptions::<1>::default();
    let two = ConvOptions::<2>::default();
    let back_one = ConvTransposeOptions::<1>::default();
    let back_two = ConvTransposeOptions::<2>::default();
    vec![
        sample(
            &[2, 3, 5],
            &[2, 3, 2],
            &[2, 2, 2],
            true,
            ConvOptions { stride: [2], ..one },
            [[0, 0]],
        ),
        // Depthwise, two outputs for each channel, strided and dilated.
        sample(
            &[2, 3, 6],
            &[6, 1, 2],
            &[2, 6, 3],
            false,
            ConvOptions {
                stride: [2],
                padding: 1.into(),
                dilation: [3],
                groups: 3,
            },
            [[1, 1]],
        ),
        // A kernel that lies in the padding altogether, and no elements at all.
        sample(
            &[1, 2, 0],
            &[1, 2, 2],
            &[1, 1, 2],
            true,
            ConvOptions {
                padding: Padding::Pairs([(1, 2)]),
                ..one
            },
            [[1, 2]],
        ),
        sample(
            &[2, 2, 5, 3],
            &[3, 2, 3, 2],
            &[2, 3, 3, 3],
            true,
            ConvOptions {
                stride: [2, 1],
                padding: Padding::Same,
                ..two
            },
            [[1, 1], [0, 1]],
        ),
        // Groups, dilation, unequal padding.
        sample(
            &[1, 4, 4, 3],
            &[2, 2, 2, 1],
            &[1, 2, 3, 2],
            false,
            ConvOptions {
                stride: [1, 2],
                padding: Padding::Pairs([(1, 0), (0, 1)]),
                dilation: [2, 1],
                groups: 2,
            },
            [[1, 0], [0, 1]],
        ),
        // Depthwise, and of size 1.
        sample(
            &[2, 2, 3, 4],
            &[2, 1, 2, 3],
            &[2, 2, 4, 4],
            true,
            ConvOptions {
                padding: [1, 1].into(),
                groups: 2,
                ..two
            },
            [[1, 1], [1, 1]],
        ),
        sample(
            &[2, 3, 2, 2],
            &[2, 3, 1, 1],
            &[2, 2, 2, 2],
            true,
            two,
            [[0, 0], [0, 0]],
        ),
        sample(
            &[1, 2, 3, 2, 3],
            &[2, 2, 2, 1, 2],
            &[1, 2, 2, 2, 2],
            false,
            ConvOptions {
                stride: [2, 1, 2],
                padding: [1, 0, 1].into(),
                ..ConvOptions::default()
            },
            [[1, 1], [0, 0], [1, 1]],
        ),
        transposed_sample(
            &[2, 3, 2],
            &[3, 2, 3],
            &[2, 2, 4],
            true,
            ConvTransposeOptions {
                stride: [2],
                padding: 1.into(),
                output_padding: [1],
                ..back_one
            },
            [[1, 1]],
        ),
        transposed_sample(
            &[2, 2, 2],
            &[2, 1, 2],
            &[2, 2, 7],
            false,
            ConvTransposeOptions {
                stride: [3],
                dilation: [3],
                groups: 2,
                ..back_one
            },
            [[0, 0]],
        ),
        transposed_sample(
            &[2, 4, 2, 2],
            &[4, 1, 3, 2],
            &[2, 2, 4, 2],
            true,
            ConvTransposeOptions {
                stride: [2, 1],
                padding: Padding::Same,
                groups: 2,
                ..back_two
            },
            [[0, 1], [0, 1]],
        ),
        transposed_sample(
            &[1, 2, 2, 1],
            &[2, 3, 1, 1],
            &[1, 3, 2, 1],
            false,
            back_two,
            [[0, 0], [0, 0]],
        ),
        transposed_sample(
            &[1, 2, 2, 1, 2],
            &[2, 1, 2, 2, 1],
            &[1, 1, 3, 2, 2],
            true,
            ConvTransposeOptions::<3>::default(),
            [[0, 0]; 3],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad, vmap};

    fn zeros(shape: &[usize]) -> Variable {
        Variable::new(Array::zeros(shape, DType::F32))
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let x = zeros(&[2, 4, 5]);
        let message = |w: &[usize], b: Option<&Variable>, options| {
            attempt(|| conv1d(&x, zeros(w), b, &options))
                .unwrap_err()
                .to_string()
        };
        let one = ConvOptions::default();
        let found = message(&[3, 2, 2], Some(&zeros(&[3])), one);
        assert!(found.starts_with("conv1d: "), "{found}");
        let shapes =
            "x [n, i, l] = [2, 4, 5] f32, w [o, i / groups, k] = [3, 2, 2] f32, b [o] = [3] f32";
        assert!(found.contains(shapes), "{found}");
        assert!(found.contains("1 groups of as many channels"), "{found}");
        let two = ConvOptions { groups: 2, ..one };
        assert!(message(&[3, 2, 2], None, two).contains("o must be 2 groups"));
        assert!(
            message(&[3, 4, 6], None, one).contains("reaches over 6 elements does not fit into 5")
        );
        assert!(message(&[3, 4, 0], None, one).contains("must not be empty"));
        assert!(message(&[3, 4], None, one).contains("3 axes"));
        assert!(message(&[3, 4, 1], Some(&zeros(&[4])), one).contains("each output channel"));
        let still = ConvOptions { stride: [0], ..one };
        assert!(message(&[3, 4, 1], None, still).contains("stride is [0]"));

        let message = |w: &[usize], options| {
            attempt(|| conv_transpose1d(&x, zeros(w), None, &options))
                .unwrap_err()
                .to_string()
        };
        let one = ConvTransposeOptions::default();
        assert!(message(&[3, 2, 2], one).contains("w [i, o / groups, k] = [3, 2, 2] f32"));
        let longer = ConvTransposeOptions {
            output_padding: [1],
            ..one
        };
        assert!(message(&[4, 2, 2], longer).contains("less than the stride"));
        let less = ConvTransposeOptions {
            padding: 9.into(),
            ..one
        };
        assert!(message(&[4, 2, 2], less).contains("takes away more than the 6"));
    }

    #[test]
    fn same_keeps_what_the_stride_leaves() {
        for (size, stride, dilation) in [(5, 1, 1), (5, 2, 1), (6, 3, 2), (1, 2, 1), (7, 4, 1)] {
            let (x, w) = (zeros(&[1, 1, size]), zeros(&[1, 1, 3]));
            let options = ConvOptions {
                stride: [stride],
                padding: Padding::Same,
                dilation: [dilation],
                groups: 1,
            };
            let y = conv1d(&x, &w, None, &options);
            assert_eq!(y.shape(), [1, 1, size.div_ceil(stride)]);
            let options = ConvTransposeOptions {
                stride: [stride],
                padding: Padding::Same,
                dilation: [dilation],
                ..Default::default()
            };
            let x = conv_transpose1d(&y, &w, None, &options);
            assert_eq!(x.shape(), [1, 1, size.div_ceil(stride) * stride]);
        }
    }

    /// Sizes at which patches are made in several parts, sums are cut and threads are used, against
    /// plain loops.
    #[test]
    fn large_ones_are_like_loops() {
        let mut generator = bibun_array::Generator::new(3);
        let cases = [
            ([8, 8, 24, 25], [16, 8, 3, 3], [1, 1], [1, 1], 1),
            ([5, 4, 40, 33], [12, 4, 3, 3], [2, 1], [1, 1], 1),
            ([5, 8, 21, 22], [16, 2, 3, 2], [1, 1], [1, 2], 4),
            ([3, 48, 30, 31], [48, 1, 3, 3], [1, 2], [1, 1], 48),
            ([9, 12, 20, 20], [20, 12, 1, 1], [1, 1], [0, 0], 1),
            ([1, 20, 40, 26], [6, 20, 3, 3], [1, 1], [1, 0], 1),
        ];
        for (x, w, stride, padding, groups) in cases {
            let options = ConvOptions {
                stride,
                padding: padding.into(),
                dilation: [1, 1],
                groups,
            };
            let [a, b] = [&x, &w]
                .map(|shape| Variable::new(generator.normal(&shape[..], 0.0, 1.0, DType::F64)));
            let y = conv2d(&a, &b, None, &options);
            let gy = Variable::constant(generator.normal(y.shape(), 0.0, 1.0, DType::F64));
            let windows = [0, 1].map(|axis| Window {
                kernel: w[axis + 2],
                stride: stride[axis],
                padding: [padding[axis]; 2],
                dilation: 1,
            });
            let values = [&a, &b, &gy].map(|x| x.to_vec::<f64>());
            let mut sums = values.clone().map(|x| vec![0.0; x.len()]);
            meetings([&x, &w, &y.shape()], &windows, groups, |i, j, k| {
                sums[0][i] += values[1][j] * values[2][k];
                sums[1][j] += values[0][i] * values[2][k];
                sums[2][k] += values[0][i] * values[1][j];
            });
            (&y * &gy).sum(..).backward();
            let found = [a.grad().unwrap(), b.grad().unwrap(), y.clone()];
            for (found, expected) in found.iter().zip(&sums) {
                let wrong = found
                    .to_vec::<f64>()
                    .iter()
                    .zip(expected)
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f64::max);
                assert!(wrong < 1e-10, "{x:?} {w:?}: off by {wrong:e}");
            }
        }
    }

    #[test]
    fn gradients_of_examples_are_groups() {
        let mut generator = bibun_array::Generator::new(5);
        let x = Variable::constant(generator.normal([4, 1, 3, 6], 0.0, 1.0, DType::F64));
        let w = Variable::constant(generator.normal([2, 3, 2], 0.0, 1.0, DType::F64));
        let loss = |w: &Variable, x: &Variable| {
            conv1d(x, w, None, &ConvOptions::default()).square().sum(..)
        };
        let each = vmap(|x: &Variable| grad(|w: &Variable| loss(w, x), &w), &x);
        assert_eq!(each.shape(), [4, 2, 3, 2]);
        let all = grad(|w: &Variable| loss(w, &x.reshape([4, 3, 6])), &w);
        let wrong = (each.sum(0) - all).abs().max(..);
        assert!(wrong.item::<f64>() < 1e-12);
    }
}
