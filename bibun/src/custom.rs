//! Functions of a user's own, from closures over Variables.

use std::fmt;
use std::sync::Arc;

use bibun_array::Array;

use crate::batch::{Lane, run_lanes};
use crate::context::Context;
use crate::function::{Fixed, Function, Keeps, Mismatch, Needs, Spec};
use crate::functions::watch;
use crate::reverse::{GradOptions, grad_with};
use crate::scope;
use crate::variable::Variable;

type Forward<const N: usize> = Arc<dyn Fn([&Variable; N]) -> Variable + Send + Sync>;
type Backward<const N: usize> =
    Arc<dyn Fn([&Variable; N], &Variable, &Variable) -> [Variable; N] + Send + Sync>;

/// A function with a gradient rule of its own: `forward` computes it in Variables, without history;
/// `backward` gives the cotangents of the inputs from the inputs, the output and its cotangent.
///
/// The rule replaces what history would have given, so it may differ from the true derivative
/// (clipped, passed straight through, reversed) or be cheaper or more accurate. It is written in
/// Variables and is differentiated again by history; `jvp` is derived from it, as the transpose of
/// a transpose; under `vmap` both closures run on all lanes.
///
/// ```
/// use bibun::{custom, Variable};
/// // Rounding, with the gradient passed straight through (Bengio et al. 2013, arXiv:1308.3432).
/// let round_through = custom(
///     "round_through",
///     |[x]: [&Variable; 1]| Variable::constant(x.array().round()),
///     |_, _, gy| [gy.clone()],
/// );
/// let x = Variable::new(1.7);
/// let y = round_through.call([&x]);
/// y.backward();
/// assert_eq!(y.item::<f64>(), 2.0);
/// assert_eq!(x.grad().unwrap().item::<f64>(), 1.0);
/// ```
pub fn custom<const N: usize>(
    name: &'static str,
    forward: impl Fn([&Variable; N]) -> Variable + Send + Sync + 'static,
    backward: impl Fn([&Variable; N], &Variable, &Variable) -> [Variable; N] + Send + Sync + 'static,
) -> Custom<N> {
    Custom {
        name,
        forward: Arc::new(forward),
        backward: Arc::new(backward),
    }
}

/// What [`custom`] makes: a function to be [called](Custom::call) any number of times.
#[derive(Clone)]
pub struct Custom<const N: usize> {
    name: &'static str,
    forward: Forward<N>,
    backward: Backward<N>,
}

impl<const N: usize> Custom<N> {
    /// The function of its inputs.
    ///
    /// # Panics
    /// Where the closures do, and if `backward` gives a cotangent of another shape than its input.
    #[track_caller]
    pub fn call(&self, inputs: [&Variable; N]) -> Variable {
        let y = scope::no_grad(|| (self.forward)(inputs));
        let call = Call {
            custom: self.clone(),
            spec: y.spec(),
            value: y.plain_array(),
        };
        let [y] = crate::apply(call, inputs.map(Variable::clone));
        y
    }
}

impl<const N: usize> fmt::Debug for Custom<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (custom)", self.name)
    }
}

/// One call: what the output looks like is known only once `forward` has run.
#[derive(Clone)]
struct Call<const N: usize> {
    custom: Custom<N>,
    spec: Spec,
    /// The output, unless a transformation hides it.
    value: Option<Array>,
}

impl<const N: usize> Function for Call<N> {
    type Inputs = Fixed<N>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.custom.name
    }

    fn keeps(&self, _: Needs<'_>) -> Keeps {
        Keeps::ALL
    }

    fn shape(&self, _: [&Spec; N]) -> Result<[Spec; 1], Mismatch> {
        Ok([self.spec.clone()])
    }

    fn forward(&self, inputs: [Array; N]) -> [Array; 1] {
        let y = self.value.clone().unwrap_or_else(|| {
            let inputs = inputs.map(Variable::constant);
            scope::no_grad(|| (self.custom.forward)(inputs.each_ref())).array()
        });
        [y]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; N] {
        let inputs: [Variable; N] = std::array::from_fn(|i| cx.input(i));
        (self.custom.backward)(inputs.each_ref(), &cx.output(0), &gy).map(Some)
    }

    /// `vjp` is linear in the cotangent `u`; the derivative of `⟨vjp(u), dx⟩` by `u` is the tangent.
    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; N]) -> [Option<Variable>; 1] {
        let inputs: [Variable; N] = std::array::from_fn(|i| cx.input(i));
        let create_graph = scope::is_recording();
        let u = watch(Array::zeros(cx.output_shape(0), cx.output_dtype(0)));
        let gx = scope::recording(true, || {
            (self.custom.backward)(inputs.each_ref(), &cx.output(0), &u)
        });
        let (outputs, cotangents): (Vec<_>, Vec<_>) = gx
            .iter()
            .zip(dx)
            .filter_map(|(gx, dx)| Some((gx, dx?)))
            .unzip();
        let options = GradOptions {
            cotangents,
            create_graph,
            ..GradOptions::default()
        };
        let mut tangents = grad_with(&outputs, &[&u], &options);
        [tangents.remove(0)]
    }

    fn batch(&self, inputs: [Lane; N]) -> [Lane; 1] {
        let count = Lane::common_count(&inputs);
        let axes = inputs.each_ref().map(|lane| lane.axis);
        let lanes = move |values: [&Variable; N]| -> Vec<Lane> {
            (values.into_iter().zip(axes))
                .map(|(value, axis)| Lane {
                    value: value.clone(),
                    axis,
                })
                .collect()
        };
        let Custom {
            name,
            forward,
            backward,
        } = self.custom.clone();
        let all_forward = move |values: [&Variable; N]| {
            let y = run_lanes(|x| vec![forward(every(x))], &lanes(values));
            y[0].to_front(count)
        };
        let all_backward = move |values: [&Variable; N], y: &Variable, gy: &Variable| {
            let mut arguments = lanes(values);
            arguments.extend([y, gy].map(|value| Lane::along(value.clone(), 0)));
            let gx = run_lanes(
                |all| backward(every(&all[..N]), &all[N], &all[N + 1]).to_vec(),
                &arguments,
            );
            // An input that is the same in every lane gets the sum of what the lanes send it.
            std::array::from_fn(|i| match axes[i] {
                Some(axis) => gx[i].to_front(count).move_axis(0, axis as isize),
                None => gx[i].to_front(count).sum(0),
            })
        };
        let inputs = inputs.map(|lane| lane.value);
        let y = custom(name, all_forward, all_backward).call(inputs.each_ref());
        [Lane::along(y, 0)]
    }
}

impl<const N: usize> fmt::Debug for Call<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.custom.fmt(f)
    }
}

fn every<const N: usize>(values: &[Variable]) -> [&Variable; N] {
    std::array::from_fn(|i| &values[i])
}
