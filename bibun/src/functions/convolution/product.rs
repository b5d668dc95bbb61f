//! The product behind convolutions: each of input, weights and output from the other two.

use bibun_array::{Array, Convolution, ConvolutionPart, DType, Shape};

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, Examples, OuterProduct, ProductForm};
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Bilinear, BilinearRule, Linear, LinearRule};
use crate::functions::products::reshaped;
use crate::functions::{cast, moveaxis, reshape, swapaxes};
use crate::variable::Variable;

/// Returns the name of a function over this number of axes.
pub(super) const fn named(names: [&'static str; 3], axes: usize) -> &'static str {
    match axes {
        1 => names[0],
        2 => names[1],
        _ => names[2],
    }
}

pub(super) const CONVOLUTION: [&str; 3] = ["conv1d", "conv2d", "conv3d"];
pub(super) const TRANSPOSED: [&str; 3] =
    ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"];
pub(super) const BY_WEIGHTS: [&str; 3] = ["conv1d_weights", "conv2d_weights", "conv3d_weights"];

/// The computation of one part of a convolution from the other two; its derivatives are the others of
/// its kind.
#[derive(Clone, Debug)]
pub(super) struct ConvolutionProduct {
    pub(super) convolution: Convolution,
    pub(super) made: ConvolutionPart,
    /// Whether the result has the dtype of the factors' accumulator, because it is rounded later.
    pub(super) is_wide: bool,
}

impl ConvolutionProduct {
    /// Computes another part of the same convolution.
    #[track_caller]
    fn of(&self, made: ConvolutionPart, a: Variable, b: Variable) -> Variable {
        let rule = Self {
            convolution: self.convolution.clone(),
            made,
            is_wide: false,
        };
        Bilinear::of(rule, a, b)
    }

    /// Returns the dtype of the result for factors of this one.
    pub(super) fn dtype(&self, factors: DType) -> DType {
        match self.is_wide {
            true => factors.accumulator(),
            false => factors,
        }
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
        Ok(Spec::new(
            self.convolution.shape(self.made, n),
            self.dtype(a.dtype),
        ))
    }

    fn takes_complex(&self) -> bool {
        false
    }

    fn forward(&self, a: Array, b: Array) -> Array {
        let dtype = self.dtype(a.dtype());
        let [a, b] = [a, b].map(|factor| factor.cast(dtype));
        self.convolution.product(self.made, &a, &b)
    }

    fn transpose_a(&self, _: &Spec, b: Variable, gy: Variable) -> Variable {
        let gy = cast(gy, b.dtype());
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
        let gy = cast(gy, a.dtype());
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
        let folded = |input: Batched, part| match input.axis {
            None => input.value,
            Some(_) => self.fold(input.to_front(count), part, folding),
        };
        let rule = Self {
            convolution: wider,
            ..self.clone()
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
        let cotangent = cast(cotangent, cx.input_spec(0).dtype);
        let by_weights = |flip: bool, x: Variable| {
            let rule = Self {
                made: ConvolutionPart::Weights,
                is_wide: false,
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
            // The patches of the examples, and the cotangents that belong to them.
            let matrices = move |x: &Variable, gy: &Variable| {
                let [x, y] = if flip { [gy, x] } else { [x, gy] };
                let [n, l] = [x.shape()[0], x.shape()[1]];
                let one = reshape(x, x.shape().removed(0).replaced(0, n * l));
                let patches = Linear::of(Patches(convolution.clone()), one);
                let y = swapaxes(reshape(y, [n, l, outputs, positions]), -1, -2);
                let rows = |x: Variable, columns| reshape(x, [n, l * positions, columns]);
                [rows(patches, inputs * taps), rows(y, outputs)]
            };
            let product = OuterProduct::new(ProductForm::Other, x, gy, sum);
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

/// Returns the number of elements of a kernel.
fn taps(convolution: &Convolution) -> usize {
    let windows = convolution.windows.iter();
    windows.map(|window| window.kernel).product()
}

/// The elements of each example that the kernels of one group read at each position; see
/// [`Convolution::patches`].
#[derive(Clone, Debug)]
struct Patches(Convolution);

impl Patches {
    /// Returns the number of elements that a kernel reads at one position.
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

    fn takes_complex(&self) -> bool {
        false
    }

    fn forward(&self, x: Array) -> Array {
        self.0.patches(&x)
    }

    /// Patches are a convolution whose kernels pick one element each.
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
            is_wide: false,
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

/// The axis that batch elements are folded into, in all parts that have a batch axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folding {
    Examples,
    Groups,
    Inputs,
    Outputs,
}

impl Folding {
    /// Returns the axis for batch elements that this part does not have: each part lacks one of the axes
    /// that the other two share.
    fn not_in(part: ConvolutionPart) -> Self {
        match part {
            ConvolutionPart::Input => Self::Outputs,
            ConvolutionPart::Weights => Self::Examples,
            ConvolutionPart::Output => Self::Inputs,
        }
    }

    /// Returns the axis of a part that batch elements are folded into, and whether it is inside of the
    /// groups there.
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
    /// Returns a part, with the batch axis in front, as a part of the wider convolution.
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

    /// Returns a shape with its axis of channels split into groups and the channels of each.
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

    /// Returns the batch elements of the part made, of `n` examples each.
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
