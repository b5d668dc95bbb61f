//! The device that records.

use std::ops::Range;
use std::sync::Arc;

use super::{ASSIGN, Along, AlongAxes, CHECK, COPY, EMPTY, Recording, Run, SlotSpec, Work};
use crate::convolution::{Convolution, ConvolutionPart};
use crate::cpu::output_layout;
use crate::kernel::Kernel;
use crate::random::Distribution;
use crate::shape::Layout;
use crate::{
    Array, Attention, Change, Complaint, DType, Device, Error, Memory, Normalization, Recurrence,
    Reduce, Scan, Scatter, Shape, Slice, Stencil, Update, View, cpu, raise,
};

/// The device of values that are not there yet.
#[derive(Debug)]
pub(super) struct Trace;

pub(super) static TRACE: Trace = Trace;

/// A result, whose order in memory is found by a [`rehearsal`].
fn result(shape: impl Into<Shape>, dtype: DType) -> SlotSpec {
    let layout = Layout::row_major(shape.into());
    SlotSpec {
        dtype,
        layout,
        is_inline: false,
    }
}

/// Records a call of the CPU.
fn record(
    name: &'static str,
    parameters: Option<String>,
    inputs: &[&Array],
    outputs: impl IntoIterator<Item = SlotSpec>,
    run: impl Fn(Vec<Array>) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    record_call(name, parameters, (None, None), inputs, outputs, run)
}

/// Records a call of the CPU that works along axes.
fn record_along(
    name: &'static str,
    operation: AlongAxes,
    axes: &[usize],
    inputs: &[&Array],
    outputs: impl IntoIterator<Item = SlotSpec>,
    run: impl Fn(Vec<Array>) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    let axes = axes.to_vec();
    let along = Along { operation, axes };
    let parameters = format!("{along:?}");
    let what = (Some(along), None);
    record_call(name, Some(parameters), what, inputs, outputs, run)
}

/// Records a call of the CPU whose results are row-major, whatever the inputs are. It is so long that
/// it is not rehearsed.
fn record_row_major(
    name: &'static str,
    parameters: String,
    inputs: &[&Array],
    shapes: &[Shape],
    run: impl Fn(Vec<Array>) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    let Some(recording) = Recording::of(name, inputs) else {
        return run(inputs.iter().map(|&x| x.clone()).collect());
    };
    let outputs = shapes.iter().map(|shape| {
        let mut output = result(shape, inputs[0].dtype());
        if shape.size() == 1 {
            output.set_inline();
        }
        output
    });
    let work = Work::Call {
        name,
        parameters: Some(parameters),
        along: None,
        part: None,
        run: Arc::new(run),
    };
    recording.write(work, inputs, outputs.collect::<Vec<_>>())
}

fn record_call(
    name: &'static str,
    parameters: Option<String>,
    (along, part): (Option<Along>, Option<Layout>),
    inputs: &[&Array],
    outputs: impl IntoIterator<Item = SlotSpec>,
    run: impl Fn(Vec<Array>) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    let Some(recording) = Recording::of(name, inputs) else {
        return run(inputs.iter().map(|&x| x.clone()).collect());
    };
    let run: Arc<Run> = Arc::new(run);
    let mut outputs: Vec<SlotSpec> = outputs.into_iter().collect();
    rehearse(&*run, inputs, &mut outputs);
    let work = Work::Call {
        name,
        parameters,
        along,
        part,
        run,
    };
    recording.write(work, inputs, outputs)
}

/// Runs a call of the CPU on zeros, for the order in memory of its results: later sums may depend on
/// it, to the last bit.
fn rehearse(run: &Run, inputs: &[&Array], outputs: &mut [SlotSpec]) {
    if outputs.is_empty() {
        return;
    }
    let made = run(inputs.iter().map(|x| super::zeros_for(x)).collect());
    for (y, output) in made.into_iter().zip(outputs) {
        debug_assert_eq!((y.shape(), y.dtype()), (&output.layout.shape, output.dtype));
        match y.inline() {
            None => output.layout.strides = y.layout().strides.clone(),
            Some(_) => output.set_inline(),
        }
    }
}

/// Records a call with one result.
fn record_one<const N: usize>(
    name: &'static str,
    parameters: String,
    inputs: [&Array; N],
    output: SlotSpec,
    run: impl Fn([Array; N]) -> Array + Send + Sync + 'static,
) -> Array {
    let run =
        move |inputs: Vec<Array>| vec![run(inputs.try_into().expect("as many as were recorded"))];
    let mut results = record(name, Some(parameters), &inputs, [output], run);
    results.pop().expect("there is one result")
}

/// What picks elements of `x`. Of a single value it is the same value, whatever the indices are.
fn picked(x: &Array, shape: impl Into<Shape>) -> SlotSpec {
    let mut output = result(shape, x.dtype());
    if super::is_inline(x) {
        output.set_inline();
    }
    output
}

/// Raises an error if the trace of an array has ended.
fn expect_going_on(x: &Array, function: &'static str) {
    if let Some(slot) = super::slot(x)
        && !slot.recording.is_going_on()
    {
        slot.recording.escaped(function);
    }
}

/// Raises an error about a traced array.
#[track_caller]
fn refuse(x: &Array, error: Error) -> ! {
    match super::slot(x) {
        Some(slot) => slot.recording.going_on().refuse(error),
        None => raise(error),
    }
}

impl Device for Trace {
    fn name(&self) -> &str {
        "trace"
    }

    fn host(&self) -> &'static dyn Device {
        cpu()
    }

    fn takes_constants(&self) -> bool {
        true
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
        cpu().upload(elements)
    }

    fn download(&'static self, x: &Array, asked_by: &'static str) -> Array {
        expect_going_on(x, asked_by);
        let name = super::slot(x).map_or("trace", |slot| slot.recording.name);
        let what = format!(
            "reads the elements of a value, but {name} is tracing its function, and no value has \
             elements yet; compute with arrays instead (`where_` in place of a branch on a \
             value), or return the value and read it outside"
        );
        refuse(x, Error::invalid(asked_by, what))
    }

    fn nonzero(&'static self, x: &Array) -> Array {
        expect_going_on(x, "nonzero");
        let name = super::slot(x).map_or("trace", |slot| slot.recording.name);
        let what = format!(
            "the shape of the result depends on values, but {name} is tracing its function, and no \
             value has elements yet; a mask of fixed shape does the same with `where_`"
        );
        refuse(x, Error::invalid("nonzero", what))
    }

    fn copy(&'static self, x: &Array) -> Array {
        let output = result(x.shape(), x.dtype());
        record_one(COPY, String::new(), [x], output, |[x]| x.to_row_major())
    }

    fn empty(&'static self, shape: &Shape, dtype: DType) -> Array {
        let (of, output) = (shape.clone(), result(shape, dtype));
        record_one(
            EMPTY,
            format!("{shape:?} {dtype}"),
            [],
            output,
            move |[]| cpu().empty(&of, dtype),
        )
    }

    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        let dtype = kernel.output(inputs[0].dtype());
        let mut output = SlotSpec {
            dtype,
            layout: output_layout(inputs),
            is_inline: false,
        };
        // What the CPU is not even asked for.
        if inputs.iter().all(super::is_inline) || output.layout.shape.size() == 1 {
            output.set_inline();
        }
        let inputs: Vec<&Array> = inputs.iter().collect();
        let Some(recording) = Recording::of(kernel.name(), &inputs) else {
            let mut inputs: Vec<Array> = inputs.into_iter().cloned().collect();
            return cpu().elementwise(kernel, &mut inputs);
        };
        let work = Work::Kernel(kernel.clone());
        let mut results = recording.write(work, &inputs, [output]);
        results.pop().expect("there is one result")
    }

    fn update(
        &'static self,
        update: &Update,
        parameter: &mut Array,
        gradient: &Array,
        state: &mut [Array],
    ) {
        let mut inputs = vec![parameter.clone(), gradient.clone()];
        inputs.extend(state.iter().cloned());
        let states = state.len();
        let _ = update.map(|x| {
            inputs.push(x.clone());
            x.clone()
        });
        let outputs: Vec<SlotSpec> = [&*parameter]
            .into_iter()
            .chain(&*state)
            .map(|x| result(x.shape(), x.dtype()))
            .collect();
        let (update, refs) = (update.clone(), inputs.iter().collect::<Vec<_>>());
        let results = record("update", None, &refs, outputs, move |mut inputs| {
            let mut others = inputs.split_off(2 + states).into_iter();
            let update = update.map(|_| others.next().expect("as many as were recorded"));
            let mut state = inputs.split_off(2);
            let [mut parameter, gradient] =
                <[Array; 2]>::try_from(inputs).expect("a parameter and its gradient");
            cpu().update(&update, &mut parameter, &gradient, &mut state);
            state.insert(0, parameter);
            state
        });
        let mut results = results.into_iter();
        *parameter = results.next().expect("the parameter");
        for (state, new) in state.iter_mut().zip(results) {
            *state = new;
        }
    }

    fn sum_of_squares(
        &'static self,
        changes: &[Change],
        parameter: &Array,
        gradient: &Array,
    ) -> Array {
        let mut inputs = vec![parameter.clone(), gradient.clone()];
        inputs.extend(changes.iter().flat_map(Change::others).cloned());
        let (changes, refs) = (changes.to_vec(), inputs.iter().collect::<Vec<_>>());
        let output = result((), DType::F64);
        let mut results = record("sum_of_squares", None, &refs, [output], move |inputs| {
            let mut others = inputs[2..].iter();
            let mut next = |_: &Array| others.next().expect("as many as were recorded").clone();
            let changes: Vec<Change> = changes.iter().map(|change| change.map(&mut next)).collect();
            vec![cpu().sum_of_squares(&changes, &inputs[0], &inputs[1])]
        });
        results.pop().expect("there is one result")
    }

    fn assign(&'static self, target: &mut Array, part: View, value: &Array) {
        let output = result(target.shape(), target.dtype());
        let (parameters, own) = (Some(format!("{part:?}")), Some(part.0.clone()));
        let inputs = [&*target, value];
        let run = move |mut inputs: Vec<Array>| {
            let (value, target) = (inputs.pop(), inputs.pop());
            let (mut target, value) = target.zip(value).expect("a target and a value");
            cpu().assign(&mut target, part.clone(), &value);
            vec![target]
        };
        let mut results = record_call(ASSIGN, parameters, (None, own), &inputs, [output], run);
        *target = results.pop().expect("there is one result");
    }

    fn reduce(&'static self, reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
        let dtype = match reduction {
            Reduce::Sum | Reduce::Product => x.dtype().of_sums(),
            Reduce::Max | Reduce::Min => x.dtype(),
            Reduce::ArgMax | Reduce::ArgMin => DType::I64,
            Reduce::All | Reduce::Any => DType::Bool,
        };
        let output = result(x.shape().reduced(axes, false), dtype);
        let own = axes.to_vec();
        let run = move |inputs: Vec<Array>| vec![cpu().reduce(reduction, &inputs[0], &own)];
        let operation = AlongAxes::Reduce(reduction);
        let mut results = record_along("reduce", operation, axes, &[x], [output], run);
        results.pop().expect("there is one result")
    }

    fn check(&'static self, x: &Array, bounds: Range<i64>, complaint: Complaint) {
        record(CHECK, None, &[x], [], move |inputs| {
            cpu().check(&inputs[0], bounds.clone(), Arc::clone(&complaint));
            Vec::new()
        });
    }

    fn take(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        let sizes = x.shape();
        let shape: Shape = [&sizes[..axis], &indices.shape()[..], &sizes[axis + 1..]]
            .concat()
            .into();
        let output = picked(x, shape);
        record_one(
            "take",
            axis.to_string(),
            [x, indices],
            output,
            move |[x, indices]| cpu().take(&x, &indices, axis),
        )
    }

    fn add_at(&'static self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array {
        let output = result(target.shape(), target.dtype());
        let inputs = [&target, indices, value];
        record_one(
            "add_at",
            axis.to_string(),
            inputs,
            output,
            move |[target, indices, value]| cpu().add_at(target, &indices, axis, &value),
        )
    }

    fn gather(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        let output = picked(x, indices.shape());
        record_one(
            "gather",
            axis.to_string(),
            [x, indices],
            output,
            move |[x, indices]| cpu().gather(&x, &indices, axis),
        )
    }

    fn scatter_add(
        &'static self,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let output = result(target.shape(), target.dtype());
        let inputs = [&target, indices, value];
        record_one(
            "scatter_add",
            axis.to_string(),
            inputs,
            output,
            move |[target, indices, value]| cpu().scatter_add(target, &indices, axis, &value),
        )
    }

    fn scatter(
        &'static self,
        rule: Scatter,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let output = result(target.shape(), target.dtype());
        let inputs = [&target, indices, value];
        let parameters = format!("{rule:?} {axis}");
        record_one(
            "scatter",
            parameters,
            inputs,
            output,
            move |[target, indices, value]| cpu().scatter(rule, target, &indices, axis, &value),
        )
    }

    fn random(
        &'static self,
        distribution: Distribution,
        keys: &[u64],
        counter: u64,
        shape: &Shape,
    ) -> Array {
        // Keys and counter are known to the host, so the numbers are.
        cpu().random(distribution, keys, counter, shape)
    }

    fn gemm(&'static self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        let (rows, columns) = (a.shape(), b.shape());
        let shape: Shape = [&rows[..rows.rank() - 1], &columns[columns.rank() - 1..]]
            .concat()
            .into();
        let output = result(shape, a.dtype());
        let operation = AlongAxes::Product { alpha, beta };
        let run = move |inputs: Vec<Array>| {
            let [a, b, c] = <[Array; 3]>::try_from(inputs).expect("it has three inputs");
            vec![cpu().gemm(alpha, &a, &b, beta, c)]
        };
        let mut results = record_along("gemm", operation, &[], &[a, b, &c], [output], run);
        results.remove(0)
    }

    fn convolve(
        &'static self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array {
        let n = match made {
            ConvolutionPart::Input => b.shape()[0],
            ConvolutionPart::Weights | ConvolutionPart::Output => a.shape()[0],
        };
        let output = result(convolution.shape(made, n), a.dtype());
        let own = convolution.clone();
        if made == ConvolutionPart::Weights {
            let parameters = format!("{convolution:?} {made:?}");
            return record_one("convolve", parameters, [a, b], output, move |[a, b]| {
                cpu().convolve(&own, made, &a, &b)
            });
        }
        // The examples come first.
        let [examples, weights] = match made {
            ConvolutionPart::Input => [b, a],
            _ => [a, b],
        };
        let run = move |inputs: Vec<Array>| {
            let [a, b] = match made {
                ConvolutionPart::Input => [1, 0].map(|i: usize| &inputs[i]),
                _ => [0, 1].map(|i| &inputs[i]),
            };
            vec![cpu().convolve(&own, made, a, b)]
        };
        let operation = AlongAxes::Convolve(Arc::new(convolution.clone()), made);
        let mut results = record_along(
            "convolve",
            operation,
            &[],
            &[examples, weights],
            [output],
            run,
        );
        results.remove(0)
    }

    fn patches(&'static self, convolution: &Convolution, x: &Array) -> Array {
        let kernel: usize = convolution
            .windows
            .iter()
            .map(|window| window.kernel)
            .product();
        let positions = convolution.positions().size();
        let depth = convolution.inputs * kernel;
        let output = result(
            [x.shape()[0], convolution.groups, positions, depth],
            x.dtype(),
        );
        let (parameters, convolution) = (format!("{convolution:?}"), convolution.clone());
        record_one("patches", parameters, [x], output, move |[x]| {
            cpu().patches(&convolution, &x)
        })
    }

    fn scan(&'static self, scan: Scan, x: &Array, axis: usize) -> Array {
        let dtype = x.dtype().of_sums();
        let output = result(x.shape(), dtype);
        record_one(
            "scan",
            format!("{scan:?} {axis}"),
            [x],
            output,
            move |[x]| cpu().scan(scan, &x, axis),
        )
    }

    fn moments(&'static self, x: &Array, axes: &[usize]) -> [Array; 2] {
        let output = || result(x.shape().reduced(axes, true), x.dtype());
        let own = axes.to_vec();
        let run = move |inputs: Vec<Array>| cpu().moments(&inputs[0], &own).into();
        let name = Some(format!("{axes:?}"));
        let results = record("moments", name, &[x], [output(), output()], run);
        results.try_into().expect("there are two results")
    }

    fn normalize(
        &'static self,
        rule: Normalization,
        x: &Array,
        axes: &[usize],
        parameters: &[&Array],
    ) -> [Array; 3] {
        let reduced = x.shape().reduced(axes, true);
        let spec = |shape: &Shape| result(shape, x.dtype());
        let outputs = [x.shape(), &reduced, &reduced].map(spec);
        let name = format!("{rule:?} {axes:?}");
        let inputs: Vec<&Array> = std::iter::once(x)
            .chain(parameters.iter().copied())
            .collect();
        let own = axes.to_vec();
        let run = move |inputs: Vec<Array>| {
            let parameters: Vec<&Array> = inputs[1..].iter().collect();
            cpu().normalize(rule, &inputs[0], &own, &parameters).into()
        };
        let results = record("normalize", Some(name), &inputs, outputs, run);
        results.try_into().expect("there are three results")
    }

    fn normalize_gradient(
        &'static self,
        rule: Normalization,
        axes: &[usize],
        x: &Array,
        [mean, variance]: [&Array; 2],
        scale: Option<&Array>,
        [gy, gmean, gvariance]: [&Array; 3],
    ) -> Vec<Array> {
        let shapes = [x].into_iter().chain(scale).chain(scale);
        let outputs = shapes.map(|like| result(like.shape(), x.dtype()));
        let name = format!("{rule:?} {axes:?}");
        let inputs = [x, mean, variance, gy, gmean, gvariance]
            .into_iter()
            .chain(scale);
        let inputs: Vec<&Array> = inputs.collect();
        let own = axes.to_vec();
        let run = move |inputs: Vec<Array>| {
            let ([x, mean, variance, gy, gmean, gvariance], scale) = inputs
                .split_first_chunk()
                .expect("as many as were recorded");
            let (statistics, cotangents) = ([mean, variance], [gy, gmean, gvariance]);
            cpu().normalize_gradient(rule, &own, x, statistics, scale.first(), cotangents)
        };
        record("normalize_gradient", Some(name), &inputs, outputs, run)
    }

    fn attention(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
    ) -> [Array; 2] {
        let [query, _, value] = inputs;
        let last = query.rank() - 1;
        let outputs = [
            result(
                query.shape().replaced(last, value.shape()[last]),
                query.dtype(),
            ),
            result(query.shape().replaced(last, 1), query.dtype().accumulator()),
        ];
        let all: Vec<&Array> = inputs.into_iter().chain(mask).collect();
        let parameters = Some(format!("{rule:?}"));
        let results = record("attention", parameters, &all, outputs, move |inputs| {
            let (inputs, mask) = inputs.split_first_chunk::<3>().expect("there are three");
            cpu()
                .attention(rule, inputs.each_ref(), mask.first())
                .into()
        });
        results.try_into().expect("there are two results")
    }

    fn attention_gradient(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
        results: [&Array; 3],
    ) -> [Array; 3] {
        let outputs = inputs.map(|x| result(x.shape(), x.dtype()));
        let all: Vec<&Array> = inputs.into_iter().chain(results).chain(mask).collect();
        let (name, parameters) = ("attention_gradient", Some(format!("{rule:?}")));
        let results = record(name, parameters, &all, outputs, move |inputs| {
            let (inputs, rest) = inputs.split_first_chunk::<3>().expect("there are three");
            let (results, mask) = rest.split_first_chunk::<3>().expect("there are three");
            let (inputs, results) = (inputs.each_ref(), results.each_ref());
            (cpu().attention_gradient(rule, inputs, mask.first(), results)).into()
        });
        results.try_into().expect("there are three results")
    }

    fn recurrence(&'static self, rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
        let shapes = rule.outputs(inputs[0].shape(), inputs[1].shape());
        let (parameters, rule) = (format!("{rule:?}"), rule.clone());
        let inputs: Vec<&Array> = inputs.iter().collect();
        record_row_major("recurrence", parameters, &inputs, &shapes, move |inputs| {
            cpu().recurrence(&rule, inputs)
        })
    }

    fn recurrence_gradient(&'static self, rule: &Recurrence, inputs: &[Array]) -> Vec<Array> {
        let (w, gates) = (inputs[0].shape(), inputs[2].shape());
        let shapes = rule.gradients(&gates.replaced(2, w[0]), w);
        let (parameters, rule) = (format!("{rule:?}"), rule.clone());
        let inputs: Vec<&Array> = inputs.iter().collect();
        let name = "recurrence_gradient";
        record_row_major(name, parameters, &inputs, &shapes, move |inputs| {
            cpu().recurrence_gradient(&rule, &inputs)
        })
    }

    fn argsort(&'static self, x: &Array, axis: usize, descending: bool, count: usize) -> Array {
        let mut sizes = x.shape().to_vec();
        sizes[axis] = count;
        let output = result(sizes, DType::I64);
        let parameters = format!("{axis} {descending} {count}");
        record_one("argsort", parameters, [x], output, move |[x]| {
            cpu().argsort(&x, axis, descending, count)
        })
    }

    fn reduce_window(&'static self, x: &Array, first: usize, stencil: &[Stencil]) -> Array {
        let mut sizes = x.shape().to_vec();
        for (size, stencil) in sizes[first..].iter_mut().zip(stencil) {
            *size = stencil.count();
        }
        let output = result(sizes, x.dtype());
        let stencil = stencil.to_vec();
        let mut results = record("reduce_window", None, &[x], [output], move |inputs| {
            vec![cpu().reduce_window(&inputs[0], first, &stencil)]
        });
        results.pop().expect("there is one result")
    }

    fn window_max(&'static self, x: &Array, rows: &Stencil, columns: &Stencil) -> (Array, Array) {
        let mut sizes = x.shape().to_vec();
        let rank = sizes.len();
        sizes[rank - 2..].copy_from_slice(&[rows.count(), columns.count()]);
        let spec = |dtype| result(&sizes, dtype);
        let outputs = [x.dtype(), DType::I64].map(spec);
        let (rows, columns) = (rows.clone(), columns.clone());
        let results = record("window_max", None, &[x], outputs, move |inputs| {
            let (largest, positions) = cpu().window_max(&inputs[0], &rows, &columns);
            vec![largest, positions]
        });
        let [largest, positions] = results.try_into().expect("there are two results");
        (largest, positions)
    }
}
