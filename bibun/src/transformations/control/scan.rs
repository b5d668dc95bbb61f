//! A loop over the slices of an axis.

use std::sync::Arc;

use bibun_array::{Shape, s};

use super::call::Forward;
use super::{Form, ResultForm, run};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::{stack, unstack};
use crate::tree::Tree;
use crate::variable::Variable;

const NAME: &str = "scan";

/// Options of [`scan_with`].
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Whether the loop begins with the last slice. Defaults to the first.
    pub reverse: bool,
}

impl ScanOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins with the last slice. Defaults to the first. The results are in the order of `xs`.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }
}

impl From<&Self> for ScanOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}

/// Runs `f` for each slice along the first axis of `xs`, with a state that it hands on. Returns the
/// last state, and the other results stacked along their first axis.
///
/// In ordinary code, this is a `for`. Inside of [`compile`](crate::compile), where a `for` would be
/// traced as often as it runs, `f` becomes one program. Everything else is as for
/// [`while_loop`](crate::while_loop).
///
/// Shapes: xs `[n, ..]`, all leaves with the same n → results `[n, ..]`. Types: any Trees.
///
/// ```
/// use bibun::{grad, scan, Variable};
/// // A moving average, and all of its values.
/// let average = |mean: &Variable, x: &Variable| {
///     let mean = 0.5 * mean + 0.5 * x;
///     (mean.clone(), mean)
/// };
/// let xs = Variable::constant([4.0, 8.0, 0.0]);
/// let (last, all) = scan(average, &Variable::constant(0.0), &xs);
/// assert_eq!((last.item::<f64>(), all.to_vec::<f64>()), (2.5, vec![2.0, 5.0, 2.5]));
/// let g = grad(|xs| scan(average, &Variable::constant(0.0), xs).0, &xs);
/// assert_eq!(g.to_vec::<f64>(), [0.125, 0.25, 0.5]);
/// ```
///
/// # Panics
/// Panics if there is no leaf in `xs`, if their first axes are missing, empty or of different sizes,
/// if `f` returns a state of another structure, shape or dtype, if its other results differ in these,
/// or if it captures a Variable that has history or is hidden by a transformation.
#[track_caller]
pub fn scan<C, X, Y>(
    f: impl Fn(&C, &X) -> (C, Y) + Send + Sync + 'static,
    start: &C,
    xs: &X,
) -> (C, Y)
where
    C: Tree + Send + Sync + 'static,
    X: Tree + Send + Sync + 'static,
    Y: Tree + Send + Sync + 'static,
{
    let _called = calling(NAME);
    scan_with(f, start, xs, ScanOptions::new())
}

/// Does the same as [`scan`], with options: from the last slice to the first.
///
/// ```
/// use bibun::{scan_with, ScanOptions, Variable};
/// let rewards = Variable::constant([1.0, 0.0, 4.0]);
/// let discounted = |value: &Variable, reward: &Variable| {
///     let value = reward + 0.5 * value;
///     (value.clone(), value)
/// };
/// let options = ScanOptions::new().reverse();
/// let (_, values) = scan_with(discounted, &Variable::constant(0.0), &rewards, options);
/// assert_eq!(values.to_vec::<f64>(), [2.0, 2.0, 4.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`scan`].
#[track_caller]
pub fn scan_with<C, X, Y>(
    f: impl Fn(&C, &X) -> (C, Y) + Send + Sync + 'static,
    start: &C,
    xs: &X,
    options: impl Into<ScanOptions>,
) -> (C, Y)
where
    C: Tree + Send + Sync + 'static,
    X: Tree + Send + Sync + 'static,
    Y: Tree + Send + Sync + 'static,
{
    let _called = calling(NAME);
    let ScanOptions { reverse } = options.into();
    let (state, mut inputs) = Form::of(start);
    let (slice, whole_xs) = Form::of(xs);
    // Arrays are not sliced: each step sees the whole of them.
    let sliced = slice.leaves.variables.len();
    let count = number_of_slices(&slice.leaves.names, &whole_xs[..sliced]);
    inputs.extend(whole_xs);
    let (states, state) = (state.len(), Arc::new(state));
    let result = ResultForm::new(NAME, ["the first result", "a later one"]);
    let step: Arc<Forward> = {
        let (state, result) = (Arc::clone(&state), Arc::clone(&result));
        Arc::new(move |inputs| {
            let (own, x) = inputs.split_at(states);
            let (next, y) = f(&state.with(own), &slice.with(x));
            let what = ["the state", "the state that the function returns"];
            let next = state.matching(NAME, what, &next);
            let results = result.leaves(&y);
            if !result.form().arrays.is_empty() {
                let what = "beside the state, the function returns an `Array` or a `Generator`, and only \
                            Variables are stacked; return it as part of the state";
                raise(Error::argument(NAME, what));
            }
            [next, results].concat()
        })
    };
    let once = |[step]: &[Arc<Forward>; 1], inputs: &[Variable]| {
        let (state, xs) = inputs.split_at(states);
        let (leaves, arrays) = xs.split_at(sliced);
        let first: Vec<Variable> = leaves.iter().map(|x| x.slice(s![0])).collect();
        let mut outputs = step(&[state, &first, arrays].concat());
        let results = outputs.split_off(states);
        outputs.extend(results.iter().map(|y| {
            let stacked: Shape = [&[count], &y.shape()[..]].concat().into();
            y.broadcast_to(stacked)
        }));
        outputs
    };
    let whole = |[step]: [Arc<Forward>; 1]| -> Arc<Forward> {
        Arc::new(move |inputs| {
            let (start, xs) = inputs.split_at(states);
            let mut state = start.to_vec();
            let (leaves, arrays) = xs.split_at(sliced);
            let slices: Vec<Vec<Variable>> = leaves.iter().map(|x| unstack(x, 0)).collect();
            let mut results: Vec<Vec<Variable>> = Vec::with_capacity(count);
            for i in 0..count {
                let i = if reverse { count - 1 - i } else { i };
                state.extend(slices.iter().map(|slices| slices[i].clone()));
                state.extend_from_slice(arrays);
                let mut outputs = step(&state);
                results.push(outputs.split_off(states));
                state = outputs;
            }
            if reverse {
                results.reverse();
            }
            for leaf in 0..results[0].len() {
                let leaves: Vec<&Variable> = results.iter().map(|y| &y[leaf]).collect();
                state.push(stack(&leaves, 0));
            }
            state
        })
    };
    let outputs = run(NAME, [step], inputs, once, whole);
    let (last, results) = outputs.split_at(states);
    (state.returned(last), result.returned(results))
}

/// Returns the size of the first axes.
///
/// # Panics
/// Panics if there are none, or if they differ or are empty.
#[track_caller]
fn number_of_slices(names: &[String], xs: &[Variable]) -> usize {
    let refuse = |what: String| -> ! { raise(Error::argument(NAME, what)) };
    let called = |name: &str| match name {
        "" => String::from("xs"),
        name => format!("`{name}` of xs"),
    };
    let Some(first) = xs.first() else {
        let what = "there is no Variable in xs; fori_loop runs a given number of times";
        refuse(what.to_owned())
    };
    for (name, x) in names.iter().zip(xs) {
        let (name, spec) = (called(name), x.spec());
        match spec.shape.first() {
            None => refuse(format!(
                "{name} is {spec}, and has no first axis to run along"
            )),
            Some(0) => refuse(format!(
                "{name} is {spec}: its first axis is empty, and what the function returns is known \
                 by running it only"
            )),
            Some(&count) if count != first.shape()[0] => refuse(format!(
                "the first axes differ: {} is {}, {name} is {spec}",
                called(&names[0]),
                first.spec()
            )),
            Some(_) => {}
        }
    }
    first.shape()[0]
}
