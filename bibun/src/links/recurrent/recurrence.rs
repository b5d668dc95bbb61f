//! The built-in cells over all steps at once, as one function with all rules.

use bibun_array::{Array, Recurrence, RecurrenceCell, Shape, recurrence, recurrence_gradient, s};

use super::{RecurrentSteps, mismatch};
use crate::apply;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, Examples, OuterProduct, ProductForm};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::{
    cast, concat, expand_dims, float_of, greater, length_mask, matmul, reshape, slice, split,
    stack, sum, swapaxes, tanh, unstack, where_,
};
use crate::transformations::{along, inputs_of, pull_through};
use crate::variable::Variable;

/// Runs a cell over all steps of x `[.., time, inputs]`, whose inputs `project` computes. `states` are
/// the parts of the initial state, `[.., units]`. Returns the outputs and the parts of the last state.
#[track_caller]
pub(super) fn unroll<const N: usize>(
    cell: RecurrenceCell,
    project: impl FnOnce(&Variable) -> Variable,
    x: &Variable,
    weight: &Variable,
    bias: Option<Variable>,
    states: [&Variable; N],
    steps: &RecurrentSteps,
) -> (Variable, [Variable; N]) {
    let (shape, units) = (x.shape(), weight.shape()[1]);
    let (leading, time) = match &shape[..] {
        [leading @ .., time, _] if *time > 0 => (leading, *time),
        _ => {
            let must_hold = "there must be at least one step".to_owned();
            mismatch(&[("x [.., time, inputs]", &x.spec())], must_hold)
        }
    };
    let batch = leading.iter().product();
    let own: Shape = [leading, &[units]].concat().into();
    if let Some(state) = states.iter().find(|state| state.shape() != own) {
        let (x, state) = (x.spec(), state.spec());
        let named = [("x [.., time, inputs]", &x), ("the state", &state)];
        mismatch(&named, format!("the state must be {own}"));
    }
    // With the steps in front, the rows of a step are neighbours in memory.
    let x = reshape(x, [batch, time, shape[shape.rank() - 1]]);
    let mut inputs = vec![project(&swapaxes(x, 0, 1)), weight.clone()];
    inputs.extend(states.map(|state| reshape(state, [batch, units])));
    inputs.extend(bias);
    let dtype = float_of(inputs[0].dtype(), &inputs[1..]);
    let inputs = inputs.into_iter().map(|input| cast(input, dtype)).collect();
    let rule = Recurrence {
        cell,
        reverse: steps.is_backward(),
        lengths: steps.lengths.clone(),
    };
    let outputs = apply(RecurrenceCall(rule), inputs);
    let end = if steps.is_backward() { 0 } else { time - 1 };
    let with = |sizes: &[usize]| -> Shape { [leading, sizes].concat().into() };
    let last = std::array::from_fn(|i| reshape(slice(&outputs[i], s![end]), with(&[units])));
    let h = swapaxes(&outputs[0], 0, 1);
    let y = match &steps.lengths {
        Some(lengths) => {
            let inside = length_mask(lengths, time).to(h.device());
            where_(expand_dims(inside, -1), h, 0.0)
        }
        None => h,
    };
    (reshape(y, with(&[time, units])), last)
}

/// A call of a [`Recurrence`].
#[derive(Clone, Debug)]
struct RecurrenceCall(Recurrence);

impl RecurrenceCall {
    /// Returns the number of outputs.
    fn outputs(&self) -> usize {
        if self.0.cell.has_gates() { 3 } else { 1 }
    }

    /// Returns the index of the initial value of what the gates change.
    fn start(&self) -> usize {
        if self.0.cell == RecurrenceCell::Lstm {
            3
        } else {
            2
        }
    }

    /// Returns the states before each step.
    fn states_before(&self, start: &Variable, h: &Variable) -> Variable {
        let start = expand_dims(start, 0);
        match self.0.reverse {
            true => concat([&slice(h, s![1..]), &start], 0),
            false => concat([&start, &slice(h, s![..-1])], 0),
        }
    }

    /// Returns the cotangents of the inputs that are needed. All gradients of the weights are one
    /// product, over all steps.
    fn pull_back(
        &self,
        cx: &Context<'_>,
        needs: impl Fn(usize) -> bool,
        gy: &[Variable],
    ) -> Vec<Option<Variable>> {
        let gradients = self.cotangents(cx, gy);
        let hidden = self.of_products(&gradients);
        let weight = needs(1).then(|| {
            let before = self.states_before(&cx.input(2), &cx.output(0));
            let rows = |x: &Variable| {
                let [steps, batch, width] = x.shape().dims().expect("three axes");
                reshape(x, [steps * batch, width])
            };
            matmul(swapaxes(rows(hidden), 0, 1), rows(&before))
        });
        let of = |i: usize, at: usize| needs(i).then(|| gradients[at].clone());
        let mut all = vec![of(0, 0), weight, of(2, 1)];
        match self.0.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => {}
            RecurrenceCell::Lstm => all.push(of(3, 2)),
            RecurrenceCell::Gru => {
                all.push(needs(3).then(|| sum(self.of_candidate(cx, hidden), [0, 1])));
            }
        }
        all
    }

    /// Returns the results of [`recurrence_gradient`].
    fn cotangents(&self, cx: &Context<'_>, gy: &[Variable]) -> Vec<Variable> {
        let mut inputs = vec![cx.input(1), cx.input(self.start())];
        inputs.extend((0..self.outputs()).map(|i| cx.output(i)));
        inputs.extend(gy.iter().cloned());
        apply(RecurrenceGradient(self.clone()), inputs)
    }

    /// Returns the cotangents of the products with the weights.
    fn of_products<'a>(&self, gradients: &'a [Variable]) -> &'a Variable {
        match self.0.cell {
            RecurrenceCell::Gru => &gradients[2],
            RecurrenceCell::Tanh | RecurrenceCell::Relu | RecurrenceCell::Lstm => &gradients[0],
        }
    }

    /// Returns the part of these cotangents that belongs to the candidate of a GRU.
    fn of_candidate(&self, cx: &Context<'_>, hidden: &Variable) -> Variable {
        let units = cx.input_shape(1)[1];
        slice(hidden, s![.., .., 2 * units..])
    }

    fn mismatch(&self, inputs: &[&Spec]) -> Option<Mismatch> {
        let (p, w) = (&inputs[0].shape, &inputs[1].shape);
        let (sizes, units) = (p.dims::<3>(), w.dims::<2>().map(|[_, units]| units));
        let [steps, batch, _] = sizes.unwrap_or_default();
        let expected = self.0.inputs(steps, batch, units.unwrap_or_default());
        let fit = inputs.iter().zip(&expected);
        let fit = inputs.len() == expected.len()
            && fit.clone().all(|(x, (_, shape))| x.shape == *shape)
            && fit
                .clone()
                .all(|(x, _)| x.dtype == inputs[0].dtype && x.dtype.is_float());
        let named: Vec<(&str, &Spec)> = expected
            .iter()
            .map(|(name, _)| *name)
            .zip(inputs.iter().copied())
            .collect();
        let must_hold = "sizes of one name must be equal, and all be floats of one dtype";
        (!fit).then(|| Mismatch::new(&named, must_hold))
    }
}

impl Function for RecurrenceCall {
    /// Those of [`Recurrence`].
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        match self.0.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => "rnn",
            RecurrenceCell::Lstm => "lstm",
            RecurrenceCell::Gru => "gru",
        }
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        let outputs = (0..self.outputs()).fold(Saved::NOTHING, Saved::output);
        let of_weight = Saved::NOTHING.input(2).only_if(needs[1]);
        outputs.input(1).input(self.start()).and(of_weight)
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        if let Some(mismatch) = self.mismatch(&inputs) {
            return Err(mismatch);
        }
        let shapes = self
            .0
            .outputs(&inputs[0].shape, &inputs[1].shape)
            .into_iter();
        Ok(shapes
            .map(|shape| Spec::new(shape, inputs[0].dtype))
            .collect())
    }

    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        recurrence(&self.0, inputs)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        self.pull_back(cx, |i| cx.needs(i), &gy)
    }

    /// The transpose of `vjp`, which is linear in the cotangents.
    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let spec = |i| Spec::new(cx.output_shape(i).clone(), cx.output_dtype(i));
        let zeros = (0..self.outputs()).map(|i| Variable::zeros(&spec(i)));
        let pulled = |gy: &[Variable]| {
            let gx = self.pull_back(cx, |i| dx[i].is_some(), gy);
            gx.into_iter().flatten().collect()
        };
        let tangents = dx.iter().flatten().cloned().collect();
        pull_through(pulled, &zeros.collect::<Vec<_>>(), |_| true, tangents)
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        let weights: &[usize] = match self.0.cell {
            RecurrenceCell::Gru => &[1, 3],
            RecurrenceCell::Tanh | RecurrenceCell::Relu | RecurrenceCell::Lstm => &[1],
        };
        in_batch(&self.0, inputs, weights, |rule, inputs| {
            apply(Self(rule), inputs)
        })
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        let first = gy[0].examples.clone();
        let merged = gy[1..]
            .iter()
            .try_fold(first, |all, gy| all.merged(&gy.examples));
        let Some(examples) = merged.filter(|examples| examples.axis() == 1) else {
            return vec![Some(ExampleGradient::Unknown); cx.input_count()];
        };
        let gy: Vec<Variable> = gy.into_iter().map(|gy| gy.cotangent).collect();
        let gradients = self.cotangents(cx, &gy);
        let hidden = self.of_products(&gradients);
        let of_each = |x: &Variable| rows_of_each(&examples, x);
        let weight = cx.needs(1).then(|| {
            let before = self.states_before(&cx.input(2), &cx.output(0));
            let sum = |h: &Variable, gy: &Variable| matmul(swapaxes(gy, 0, 1), h);
            let form = ProductForm::Matrix { transposed: true };
            let product = OuterProduct::new(form, of_each(&before), of_each(hidden), sum);
            ExampleGradient::OuterProduct(product)
        });
        let sliced = |i: usize, at: usize, axis: usize| {
            let own = || ExampleGradient::sliced(gradients[at].clone(), examples.moved(axis));
            cx.needs(i).then(own)
        };
        let mut all = vec![sliced(0, 0, 1), weight, sliced(2, 1, 0)];
        match self.0.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => {}
            RecurrenceCell::Lstm => all.push(sliced(3, 2, 0)),
            RecurrenceCell::Gru => all.push(cx.needs(3).then(|| {
                let candidate = self.of_candidate(cx, hidden);
                ExampleGradient::Stacked(sum(of_each(&candidate), 1))
            })),
        }
        all
    }
}

/// Returns the slices of each example, `[examples, l, width]`.
fn rows_of_each(examples: &Examples, x: &Variable) -> Variable {
    let each = examples.of_each(x);
    let shape = each.shape();
    let (width, rows) = shape.split_last().expect("axes of examples");
    reshape(each, [rows[0], rows[1..].iter().product(), *width])
}

/// The results of [`recurrence_gradient`]. Its derivatives are those of the same loop over Variables.
#[derive(Clone, Debug)]
struct RecurrenceGradient(RecurrenceCall);

impl RecurrenceGradient {
    /// Computes the same by functions of one step.
    fn by_steps(&self, inputs: &[Variable]) -> Vec<Variable> {
        let (rule, count) = (&self.0.0, self.0.outputs());
        let (weight, start, values) = (&inputs[0], &inputs[1], &inputs[2..]);
        let values: Vec<Vec<Variable>> = values.iter().map(|x| unstack(x, 0)).collect();
        let (outputs, gy) = values.split_at(count);
        let steps = outputs[0].len();
        let running = (rule.lengths.as_ref())
            .map(|lengths| unstack(length_mask(lengths, steps).to(weight.device()), 1));
        let units = weight.shape()[1];
        let mut gh = Variable::zeros(&start.spec());
        let mut gc = gh.clone();
        let (mut of_p, mut of_products) = (Vec::new(), Vec::new());
        for i in 0..steps {
            let (step, earlier) = match rule.reverse {
                true => (i, (i + 1 < steps).then_some(i + 1)),
                false => (steps - 1 - i, (steps - 1 - i).checked_sub(1)),
            };
            let before = |output: usize| earlier.map_or(start, |step| &outputs[output][step]);
            let still = |next: Variable, other: &Variable| match &running {
                Some(running) => where_(expand_dims(&running[step], -1), next, other),
                None => next,
            };
            let stopped = |next: Variable| {
                let zeros = Variable::zeros(&next.spec());
                still(next, &zeros)
            };
            let slope = |gate: &Variable| gate * (1.0 - gate);
            gh += &gy[0][step];
            let (p, hidden, direct) = match rule.cell {
                RecurrenceCell::Tanh => {
                    let p = &gh * (1.0 - outputs[0][step].square());
                    (p.clone(), p, None)
                }
                RecurrenceCell::Relu => {
                    let p = where_(greater(&outputs[0][step], 0.0), &gh, 0.0);
                    (p.clone(), p, None)
                }
                RecurrenceCell::Lstm => {
                    let gates = split(&outputs[2][step], 4, -1);
                    let own = split(&gy[2][step], 4, -1);
                    let [i, f, g, o] = [0, 1, 2, 3].map(|k| &gates[k]);
                    let tanh = tanh(&outputs[1][step]);
                    gc += &gy[1][step];
                    let inside = &gc + &gh * o * (1.0 - tanh.square());
                    let parts = [
                        (&inside * g + &own[0]) * slope(i),
                        (&inside * before(1) + &own[1]) * slope(f),
                        (&inside * i + &own[2]) * (1.0 - g.square()),
                        (&gh * tanh + &own[3]) * slope(o),
                    ];
                    gc = still(inside * f, &gc);
                    let p = concat(&parts, -1);
                    (p.clone(), p, None)
                }
                RecurrenceCell::Gru => {
                    let gates = split(&outputs[2][step], 3, -1);
                    let own = split(&gy[2][step], 3, -1);
                    let [r, z, n] = [0, 1, 2].map(|k| &gates[k]);
                    let gn = (&gh * (1.0 - z) + &own[2]) * (1.0 - n.square());
                    let gz = (&gh * (before(0) - n) + &own[1]) * slope(z);
                    let gr = (&gn * &outputs[1][step] + &own[0]) * slope(r);
                    let gm = &gn * r + &gy[1][step];
                    let p = concat([&gr, &gz, &gn], -1);
                    (p, concat([&gr, &gz, &gm], -1), Some(&gh * z))
                }
            };
            let (p, hidden) = (stopped(p), stopped(hidden));
            let direct = direct.unwrap_or_else(|| Variable::zeros(&gh.spec()));
            gh = matmul(&hidden, weight) + still(direct, &gh);
            of_p.push(p);
            of_products.push(hidden);
        }
        let all = |mut steps: Vec<Variable>| {
            if !rule.reverse {
                steps.reverse();
            }
            match steps.is_empty() {
                true => Variable::zeros(&Spec::new(
                    [0, start.shape()[0], rule.cell.gates() * units],
                    start.dtype(),
                )),
                false => stack(steps.iter(), 0),
            }
        };
        let mut results = vec![all(of_p), gh];
        match rule.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => {}
            RecurrenceCell::Lstm => results.push(gc),
            RecurrenceCell::Gru => results.push(all(of_products)),
        }
        results
    }
}

impl Function for RecurrenceGradient {
    /// Those of [`recurrence_gradient`].
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        match self.0.0.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => "rnn gradient",
            RecurrenceCell::Lstm => "lstm gradient",
            RecurrenceCell::Gru => "gru gradient",
        }
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL.without_outputs()
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        let (w, h) = (&inputs[0].shape, &inputs[2].shape);
        let shapes = self.0.0.gradients(&h.replaced(2, w[0]), w).into_iter();
        Ok(shapes
            .map(|shape| Spec::new(shape, inputs[0].dtype))
            .collect())
    }

    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        recurrence_gradient(&self.0.0, &inputs)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        pull_through(|x| self.by_steps(x), &inputs_of(cx), |i| cx.needs(i), gy)
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let moving: Vec<usize> = (0..dx.len()).filter(|&i| dx[i].is_some()).collect();
        let dx: Vec<Variable> = dx.into_iter().flatten().collect();
        let (_, tangents) = along(|x| self.by_steps(x), &moving, &inputs_of(cx), &dx);
        tangents.into_iter().map(Some).collect()
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        in_batch(&self.0.0, inputs, &[0], |rule, inputs| {
            apply(Self(RecurrenceCall(rule)), inputs)
        })
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        vec![Some(ExampleGradient::Unknown); cx.input_count()]
    }
}

/// Runs a recurrence, or its gradient, on batch elements: as more sequences, or one after the other if
/// one of the `weights` differs between them.
fn in_batch(
    rule: &Recurrence,
    inputs: Vec<Batched>,
    weights: &[usize],
    run: impl Fn(Recurrence, Vec<Variable>) -> Vec<Variable>,
) -> Vec<Batched> {
    let count = Batched::batch_size(&inputs);
    let is_own = |i: &usize| inputs[*i].axis.is_some();
    if count > 0 && weights.iter().any(is_own) {
        let of_elements = |input: &Batched| match input.axis {
            Some(_) => unstack(input.to_front(count), 0),
            None => vec![input.value.clone(); count],
        };
        let lists: Vec<Vec<Variable>> = inputs.iter().map(of_elements).collect();
        let outputs: Vec<Vec<Variable>> = (0..count)
            .map(|k| {
                run(
                    rule.clone(),
                    lists.iter().map(|list| list[k].clone()).collect(),
                )
            })
            .collect();
        let joined = |i: usize| {
            let list: Vec<&Variable> = outputs.iter().map(|outputs| &outputs[i]).collect();
            Batched::along(stack(&list, 0), 0)
        };
        return (0..outputs[0].len()).map(joined).collect();
    }
    // Of one batch element.
    let sequences = (inputs.iter().enumerate())
        .find(|(i, _)| !weights.contains(i))
        .map(|(_, input)| input.spec().shape)
        .map(|shape| shape[shape.rank() - 2])
        .expect("there are other inputs");
    let folded = |(i, input): (usize, &Batched)| {
        if weights.contains(&i) {
            // Without batch elements, the weights do not matter.
            return match input.axis {
                Some(_) => Variable::zeros(&input.spec()),
                None => input.value.clone(),
            };
        }
        let x = input.to_front(count);
        let shape = x.shape();
        match shape.dims() {
            Some([_, steps, batch, width]) => {
                reshape(swapaxes(x, 0, 1), [steps, count * batch, width])
            }
            None => reshape(x, [count * shape[1], shape[2]]),
        }
    };
    let inputs: Vec<Variable> = inputs.iter().enumerate().map(folded).collect();
    let lengths = rule
        .lengths
        .as_ref()
        .map(|lengths| lengths.repeat(count).into());
    let rule = Recurrence {
        lengths,
        ..rule.clone()
    };
    let unfolded = |y: Variable| match y.shape().dims() {
        Some([steps, _, width]) => Batched::along(reshape(y, [steps, count, sequences, width]), 1),
        None => {
            let [_, units] = y.shape().dims().expect("a state");
            Batched::along(reshape(y, [count, sequences, units]), 0)
        }
    };
    run(rule, inputs).into_iter().map(unfolded).collect()
}

#[cfg(test)]
pub(in crate::links) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    const STEPS: usize = 3;
    const BATCH: usize = 2;
    const UNITS: usize = 2;
    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }
    /// The outputs, one number after the other.
    fn by_loops(rule: &Recurrence, x: &[Array]) -> Vec<Array> {
        let x: Vec<Vec<f64>> = x.iter().map(Array::to_vec::<f64>).collect();
        let (gates, cell) = (rule.cell.gates(), rule.cell);
        let mut outputs = [UNITS, UNITS, gates * UNITS].map(|n| vec![0.0; STEPS * BATCH * n]);
        for row in 0..BATCH {
            let mut h = x[2][row * UNITS..][..UNITS].to_vec();
            let mut c: Vec<f64> = match cell {
                RecurrenceCell::Lstm => x[3][row * UNITS..][..UNITS].to_vec(),
                RecurrenceCell::Tanh | RecurrenceCell::Relu | RecurrenceCell::Gru => vec![0.0; 2],
            };
            for i in 0..STEPS {
                let step = if rule.reverse { STEPS - 1 - i } else { i };
                let at = step * BATCH + row;
                let before = h.clone();
                let over = (rule.lengths.as_ref()).is_some_and(|lengths| step >= lengths[row]);
                for k in (0..UNITS).filter(|_| !over) {
                    let p = |gate: usize| x[0][(at * gates + gate) * UNITS + k];
                    let q = |gate: usize| {
                        let w = &x[1][(gate * UNITS + k) * UNITS..][..UNITS];
                        w.iter().zip(&before).map(|(w, h)| w * h).sum::<f64>()
                    };
                    let mut own = Vec::new();
                    h[k] = match cell {
                        RecurrenceCell::Tanh => (p(0) + q(0)).tanh(),
                        RecurrenceCell::Relu => (p(0) + q(0)).max(0.0),
                        RecurrenceCell::Lstm => {
                            own = (0..4).map(|gate| p(gate) + q(gate)).collect();
                            own = [
                                sigmoid(own[0]),
                                sigmoid(own[1]),
                                own[2].tanh(),
                                sigmoid(own[3]),
                            ]
                            .into();
                            c[k] = own[1] * c[k] + own[0] * own[2];
                            own[3] * c[k].tanh()
                        }
                        RecurrenceCell::Gru => {
                            let (r, z) = (sigmoid(p(0) + q(0)), sigmoid(p(1) + q(1)));
                            c[k] = q(2) + x[3][k];
                            let n = (p(2) + r * c[k]).tanh();
                            own = vec![r, z, n];
                            (1.0 - z) * n + z * before[k]
                        }
                    };
                    for (gate, own) in own.into_iter().enumerate() {
                        outputs[2][(at * gates + gate) * UNITS + k] = own;
                    }
                }
                for k in 0..UNITS {
                    let kept = !over || cell == RecurrenceCell::Lstm;
                    outputs[0][at * UNITS + k] = h[k];
                    outputs[1][at * UNITS + k] = if kept { c[k] } else { 0.0 };
                }
            }
        }
        let widths = [UNITS, UNITS, gates * UNITS];
        let count = if cell.has_gates() { 3 } else { 1 };
        (outputs.into_iter().zip(widths).take(count))
            .map(|(y, width)| Array::from_vec(y, [STEPS, BATCH, width]))
            .collect()
    }
    let sample = |cell: RecurrenceCell, reverse: bool, lengths: Option<&[usize]>| {
        let lengths = lengths.map(Into::into);
        let rule = Recurrence {
            cell,
            reverse,
            lengths,
        };
        let call = RecurrenceCall(rule.clone());
        let name = call.name();
        // The kink of relu is left of all inputs.
        let range = match cell {
            RecurrenceCell::Relu => 0.1..0.6,
            RecurrenceCell::Tanh | RecurrenceCell::Lstm | RecurrenceCell::Gru => -1.0..1.0,
        };
        let shapes = rule.inputs(STEPS, BATCH, UNITS);
        let sample = Sample::new(
            name,
            move |x| apply(call.clone(), x.to_vec()),
            move |x| by_loops(&rule, x),
        );
        let with = |sample: Sample, (_, shape)| sample.input(shape, range.clone());
        shapes.into_iter().fold(sample, with)
    };
    vec![
        sample(RecurrenceCell::Tanh, false, None),
        sample(RecurrenceCell::Relu, true, Some(&[3, 1])),
        sample(RecurrenceCell::Lstm, false, None),
        sample(RecurrenceCell::Lstm, true, Some(&[2, 0])),
        sample(RecurrenceCell::Gru, true, None),
        sample(RecurrenceCell::Gru, false, Some(&[1, 3])),
    ]
}
