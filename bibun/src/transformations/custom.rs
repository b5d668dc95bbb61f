//! Custom functions, made from closures over Variables.

use std::fmt;
use std::sync::Arc;

use bibun_array::Array;

use super::derived::{
    Batch, FirstRun, Forward, along, in_front, inputs, pull_apart_again, pull_through, values,
};
use crate::apply;
use crate::batch::Batched;
use crate::call::calling;
use crate::context::Context;
use crate::error::{Error, Location, caller, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::zeros_like;
use crate::scope;
use crate::surroundings::Scopes;
use crate::variable::Variable;

/// Inputs, outputs, and cotangents or tangents.
type Rule = dyn Fn(&[Variable], &[Variable], &[Variable]) -> Vec<Variable> + Send + Sync;
type BatchRule = dyn Fn(&[Batched]) -> Vec<Batched> + Send + Sync;

/// Creates a function with a custom gradient. `f` computes the function, without history; `backward`
/// computes the cotangents of the inputs from the inputs, the output and its cotangent.
///
/// The rule replaces the gradient of the history, so it may differ from the true derivative (clipped,
/// passed straight through, reversed) or be cheaper or more accurate. One that is not linear in the cotangent, such as
/// clipping, is for gradients alone; see [`Custom::vjp`]. Values that `f` captures are constants. [`custom`] also takes a
/// name and other rules.
///
/// ```
/// use bibun::{custom_gradient, Variable};
/// // Rounding, with the gradient passed straight through (Bengio et al. 2013, arXiv:1308.3432).
/// let round = custom_gradient(|[x]| x.round(), |_, _, gy| [gy.clone()]);
/// let x = Variable::new(1.7);
/// let y = round.call([&x]);
/// y.backward();
/// assert_eq!((y.item::<f64>(), x.grad().unwrap().item::<f64>()), (2.0, 1.0));
/// ```
pub fn custom_gradient<const N: usize>(
    f: impl Fn([&Variable; N]) -> Variable + Send + Sync + 'static,
    backward: impl Fn([&Variable; N], &Variable, &Variable) -> [Variable; N] + Send + Sync + 'static,
) -> Custom<N> {
    custom("custom_gradient", f).vjp(backward)
}

/// Creates a function from a closure over Variables, to which rules can be added:
/// [`vjp`](Custom::vjp), [`jvp`](Custom::jvp), [`batch`](Custom::batch), or any of them.
///
/// Missing rules are derived. If only one of `vjp` and `jvp` is there, the other is its transpose. If
/// neither is there, `forward` is run again for both, and only the inputs are saved. Under `vmap`
/// without a `batch` rule, the closures run on all batch elements at once. Rules are written in
/// Variables, so they can be differentiated and batched, too.
///
/// ```
/// use bibun::{custom, grad, jvp, Variable};
/// // ln(1 + eˣ), whose derivative is written so that it never overflows.
/// let softplus = custom("softplus", |[x]| (1.0 + x.exp()).log())
///     .vjp(|[x], _, gy| [gy * x.sigmoid()]);
/// let x = Variable::constant(1.0);
/// let slope = grad(|x| softplus.call([x]), &x).item::<f64>();
/// assert!((slope - 0.7310585786300049).abs() < 1e-15);
/// let (_, tangent) = jvp(|x| softplus.call([x]), &x, &Variable::constant(1.0));
/// assert_eq!(tangent.item::<f64>(), slope);
/// ```
pub fn custom<const N: usize>(
    name: &'static str,
    forward: impl Fn([&Variable; N]) -> Variable + Send + Sync + 'static,
) -> Custom<N> {
    Custom(Closures {
        name,
        forward: Arc::new(move |x| vec![forward(each(x))]),
        vjp: None,
        jvp: None,
        batch: None,
    })
}

/// The result of [`custom`]: a function that can be [called](Custom::call) any number of times.
#[derive(Clone, Debug)]
pub struct Custom<const N: usize>(Closures);

impl<const N: usize> Custom<N> {
    /// Sets the reverse rule, which computes the cotangents of the inputs from the inputs, the output
    /// and its cotangent. A forward rule is derived from it only if it is linear in the cotangent: beside one that clips
    /// it, for example, [`jvp`](crate::jvp), [`jacobian`](crate::jacobian) and [`hvp`](crate::hvp) would compute something
    /// else, and need a rule of their own.
    #[must_use]
    pub fn vjp(
        mut self,
        rule: impl Fn([&Variable; N], &Variable, &Variable) -> [Variable; N] + Send + Sync + 'static,
    ) -> Self {
        let rule = move |x: &[Variable], y: &[Variable], gy: &[Variable]| {
            rule(each(x), &y[0], &gy[0]).to_vec()
        };
        self.0.vjp = Some(Arc::new(rule));
        self
    }

    /// Sets the forward rule, which computes the tangent of the output from the inputs, the output
    /// and the tangents of the inputs. At least one of the tangents is not zero. The rule must be
    /// linear in the tangents.
    ///
    /// ```
    /// use bibun::{custom, grad, Variable};
    /// let cube = custom("cube", |[x]| x * x * x).jvp(|[x], _, [dx]| 3.0 * x * x * dx);
    /// assert_eq!(grad(|x| cube.call([x]), &Variable::constant(2.0)).item::<f64>(), 12.0);
    /// ```
    #[must_use]
    pub fn jvp(
        mut self,
        rule: impl Fn([&Variable; N], &Variable, [&Variable; N]) -> Variable + Send + Sync + 'static,
    ) -> Self {
        let rule = move |x: &[Variable], y: &[Variable], dx: &[Variable]| {
            vec![rule(each(x), &y[0], each(dx))]
        };
        self.0.jvp = Some(Arc::new(rule));
        self
    }

    /// Sets the rule for all batch elements at once. Its derivatives are those of the functions that
    /// it calls, not those of the rules for single batch elements.
    ///
    /// ```
    /// use bibun::{custom, vmap, Batched, Variable};
    /// let double = custom("double", |[x]| 2.0 * x).batch(|[x]| Batched {
    ///     value: 2.0 * &x.value,
    ///     axis: x.axis,
    /// });
    /// let y = vmap(|x| double.call([x]), &Variable::constant([1.0, 2.0]));
    /// assert_eq!(y.to_vec::<f64>(), [2.0, 4.0]);
    /// ```
    #[must_use]
    pub fn batch(
        mut self,
        rule: impl Fn([&Batched; N]) -> Batched + Send + Sync + 'static,
    ) -> Self {
        self.0.batch = Some(Arc::new(move |inputs| vec![rule(each(inputs))]));
        self
    }

    /// Calls the function with these inputs.
    ///
    /// # Panics
    /// Panics if a closure does, or if a rule returns a Variable of a wrong shape. If the function
    /// has no gradient rule, also panics if it captures a Variable that has history or is hidden by a
    /// transformation, because its gradient would be lost.
    #[track_caller]
    pub fn call(&self, inputs: [&Variable; N]) -> Variable {
        let _called = calling(self.0.name);
        let inputs: Vec<Variable> = inputs.into_iter().cloned().collect();
        let outputs = self.0.call(inputs, caller());
        let [y] = <[Variable; 1]>::try_from(outputs).unwrap_or_else(|outputs| {
            // The number can differ if a replaced rule ran.
            raise(Error::wrong_number(self.0.name, "batch", outputs.len(), 1))
        });
        y
    }
}

fn each<T, const N: usize>(values: &[T]) -> [&T; N] {
    std::array::from_fn(|i| &values[i])
}

/// A function of lists, with its rules.
#[derive(Clone)]
pub(crate) struct Closures {
    pub(crate) name: &'static str,
    pub(crate) forward: Arc<Forward>,
    pub(crate) vjp: Option<Arc<Rule>>,
    pub(crate) jvp: Option<Arc<Rule>>,
    pub(crate) batch: Option<Arc<BatchRule>>,
}

impl Closures {
    /// Runs the function.
    pub(crate) fn call(&self, inputs: Vec<Variable>, location: Location) -> Vec<Variable> {
        self.call_in(inputs, location, FirstRun::default())
    }

    fn call_in(&self, inputs: Vec<Variable>, location: Location, first: FirstRun) -> Vec<Variable> {
        let call = Call {
            closures: self.clone(),
            scopes: Scopes::current(),
            first,
        };
        apply::run(&call, inputs, location, false)
    }

    /// Returns whether the derivatives are those of the function itself, which is then run again.
    fn is_derived(&self) -> bool {
        self.vjp.is_none() && self.jvp.is_none()
    }
}

impl fmt::Debug for Closures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (custom)", self.name)
    }
}

/// One call. The shapes of its outputs are known only once the function has run.
#[derive(Clone)]
struct Call {
    closures: Closures,
    /// The scopes around the call.
    scopes: Scopes,
    /// The surroundings of the first run. All levels of one call share them, so that the function
    /// runs for the first time only once.
    first: FirstRun,
}

impl Call {
    /// Computes the outputs and their tangents in one run, as a function of inputs and tangents that
    /// has no rules of its own, like this one.
    fn run_along(
        &self,
        moving: Vec<usize>,
        inputs: Vec<Variable>,
        tangents: Vec<Variable>,
    ) -> (Vec<Variable>, Vec<Variable>) {
        let (n, f) = (inputs.len(), Arc::clone(&self.closures.forward));
        let along = Closures {
            forward: Arc::new(move |x| {
                let (inputs, tangents) = x.split_at(n);
                let (outputs, tangents) = along(&*f, &moving, inputs, tangents);
                [outputs, tangents].concat()
            }),
            batch: None,
            ..self.closures.clone()
        };
        let inputs = [inputs, tangents].concat();
        let mut outputs = along.call_in(inputs, caller(), self.first.clone());
        let tangents = outputs.split_off(outputs.len() / 2);
        (outputs, tangents)
    }

    /// Runs the function again, recorded, for its derivatives.
    fn run_again(&self, inputs: &[Variable]) -> Vec<Variable> {
        let run = || (self.closures.forward)(inputs);
        self.first.run_recorded(&self.scopes, run)
    }
}

impl Function for Call {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        self.closures.name
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        let Closures { vjp, jvp, .. } = &self.closures;
        match vjp.is_some() || jvp.is_some() {
            true => Saved::ALL,
            false => Saved::ALL.without_outputs(),
        }
    }

    fn shape(&self, _: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        Err(Mismatch::KNOWN_BY_RUNNING)
    }

    fn takes_complex(&self) -> bool {
        true
    }

    /// Runs the function. Captured values are constants.
    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        let inputs: Vec<Variable> = inputs.into_iter().map(Variable::constant).collect();
        let run = || (self.closures.forward)(&inputs);
        let outputs = match self.closures.is_derived() {
            // It captures no values with history, and sees the same scopes in every run.
            true => scope::sealed(self.closures.name, || self.first.run(run)),
            false => scope::no_grad(run),
        };
        outputs.iter().map(Variable::array).collect()
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        let inputs = inputs(cx);
        let Closures { vjp, jvp, .. } = &self.closures;
        match (vjp, jvp) {
            (Some(vjp), _) => vjp(&inputs, &outputs(cx), &gy)
                .into_iter()
                .map(Some)
                .collect(),
            (None, Some(jvp)) => {
                let outputs = outputs(cx);
                let zeros: Vec<Variable> = inputs.iter().map(zeros_like).collect();
                pull_through(|dx| jvp(&inputs, &outputs, dx), &zeros, |i| cx.needs(i), gy)
            }
            (None, None) => pull_through(|x| self.run_again(x), &inputs, |i| cx.needs(i), gy),
        }
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let inputs = inputs(cx);
        let Closures { vjp, jvp, .. } = &self.closures;
        let all = |dx: Vec<Option<Variable>>| -> Vec<Variable> {
            let or_zero = |(x, dx): (_, Option<Variable>)| dx.unwrap_or_else(|| zeros_like(x));
            inputs.iter().zip(dx).map(or_zero).collect()
        };
        match (vjp, jvp) {
            (_, Some(jvp)) => {
                let tangents = jvp(&inputs, &outputs(cx), &all(dx));
                tangents.into_iter().map(Some).collect()
            }
            // The reverse rule is linear in the cotangent u; the derivative of ⟨vjp(u), dx⟩ with
            // respect to u is the tangent.
            (Some(vjp), None) => {
                let outputs = outputs(cx);
                let zeros: Vec<Variable> = outputs.iter().map(zeros_like).collect();
                pull_through(|u| vjp(&inputs, &outputs, u), &zeros, |_| true, all(dx))
            }
            (None, None) => {
                let moving: Vec<usize> = (0..dx.len()).filter(|&i| dx[i].is_some()).collect();
                let dx: Vec<Variable> = dx.into_iter().flatten().collect();
                let tangents = match cx.is_running() {
                    false => along(|x| self.run_again(x), &moving, &inputs, &dx).1,
                    true => {
                        let (outputs, tangents) = self.run_along(moving, inputs, dx);
                        // If there is a `batch` rule, the outputs are computed by it.
                        if self.closures.batch.is_none() {
                            cx.give_outputs(outputs);
                        }
                        tangents
                    }
                };
                tangents.into_iter().map(Some).collect()
            }
        }
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        if let Some(batch) = &self.closures.batch {
            return batch(&inputs);
        }
        let batch = Batch::of(&inputs);
        let Closures {
            name,
            forward,
            vjp,
            jvp,
            ..
        } = self.closures.clone();
        let on_batch = Closures {
            name,
            forward: batch.of_function(forward),
            vjp: vjp.map(|vjp| -> Arc<Rule> {
                let batch = batch.clone();
                Arc::new(move |x, y, gy| {
                    let all = [x, y, gy].concat();
                    let (n, m) = (x.len(), x.len() + y.len());
                    let split = |v: &[Variable]| vjp(&v[..n], &v[n..m], &v[m..]);
                    let axes = [&batch.axes[..], &vec![Some(0); all.len() - n]].concat();
                    let gx = batch.along(axes).run(split, &all);
                    // An input that is the same for all batch elements gets the sum of their
                    // cotangents.
                    let of_input = |(gx, axis): (Variable, &Option<usize>)| match *axis {
                        Some(axis) => gx.moveaxis(0, axis as isize),
                        None => gx.sum(0),
                    };
                    gx.into_iter().zip(&batch.axes).map(of_input).collect()
                })
            }),
            jvp: jvp.map(|jvp| -> Arc<Rule> {
                let batch = batch.clone();
                Arc::new(move |x, y, dx| {
                    let (n, m) = (x.len(), x.len() + y.len());
                    let split = |v: &[Variable]| jvp(&v[..n], &v[n..m], &v[m..]);
                    // Tangents have the batch axes of their inputs.
                    let in_front = vec![Some(0); y.len()];
                    let axes = [&batch.axes[..], &in_front, &batch.axes[..dx.len()]].concat();
                    batch.along(axes).run(split, &[x, y, dx].concat())
                })
            }),
            batch: None,
        };
        in_front(on_batch.call_in(values(inputs), caller(), self.first.clone()))
    }

    /// Walks through the function itself, if its derivatives are those of the function.
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        if !self.closures.is_derived() {
            return vec![Some(ExampleGradient::Unknown); cx.input_count()];
        }
        pull_apart_again(|x| self.run_again(x), cx, gy)
    }
}

fn outputs(cx: &Context<'_>) -> Vec<Variable> {
    (0..cx.output_count()).map(|i| cx.output(i)).collect()
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.closures.fmt(f)
    }
}
