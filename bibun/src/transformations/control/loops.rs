//! Loops over a state.

use std::ops::Range;
use std::sync::Arc;

use super::call::Forward;
use super::{Form, Holds, choose, expect_bool, guarded, run};
use crate::call::calling;
use crate::scope::no_grad;
use crate::tree::Tree;
use crate::variable::Variable;

const WHAT: [&str; 2] = ["the state", "the result of the body"];

/// Runs `body` on a state, again and again while `condition` of it holds, and returns the last state.
///
/// In ordinary code, this is a `while`. It is a function so that it can also be a part of what cannot
/// read a value: [`compile`](crate::compile), where condition and body become programs, and
/// [`vmap`](crate::vmap), where it runs until no batch element goes on, and each keeps the state that
/// it ends with. (The body then also runs on states for which the condition does not hold; what it
/// returns for them is left out, and so is their gradient.)
///
/// It can be differentiated any number of times, backwards and forwards. For the gradient, a program
/// saves the state of each iteration and computes everything else again; ordinary code saves what the
/// body's own functions do, and [`checkpoint`](crate::checkpoint) in the body or around the loop saves
/// less. Gradients reach `start` alone, so values with history must be part of it, such as a model. The body
/// must return the structure, shapes and dtypes of `start`.
///
/// Types: any Tree; the condition a single bool.
///
/// ```
/// use bibun::{grad, while_loop, Variable};
/// // Newton's method for the square root.
/// let sqrt = |x: &Variable| {
///     let is_far = |(y, x): &(Variable, Variable)| (y * y - x).abs().greater(1e-12);
///     let step = |(y, x): &(Variable, Variable)| (0.5 * (y + x / y), x.clone());
///     while_loop(is_far, step, &(Variable::constant(1.0), x.clone())).0
/// };
/// let x = Variable::constant(4.0);
/// assert!((sqrt(&x).item::<f64>() - 2.0).abs() < 1e-12);
/// assert!((grad(sqrt, &x).item::<f64>() - 0.25).abs() < 1e-6);
/// ```
///
/// # Panics
/// Panics if the condition is not a single bool, if the body returns another structure, shape or
/// dtype, or if one of them captures a Variable that has history or is hidden by a transformation.
#[track_caller]
pub fn while_loop<C: Tree + Send + Sync + 'static>(
    condition: impl Fn(&C) -> Variable + Send + Sync + 'static,
    body: impl Fn(&C) -> C + Send + Sync + 'static,
    start: &C,
) -> C {
    const NAME: &str = "while_loop";
    let _called = calling(NAME);
    let (form, inputs) = Form::of(start);
    let form = Arc::new(form);
    let condition: Arc<Forward> = {
        let form = Arc::clone(&form);
        Arc::new(move |state| {
            let holds = condition(&form.with(state));
            expect_bool(NAME, "the condition", &holds);
            vec![holds]
        })
    };
    let body: Arc<Forward> = {
        let form = Arc::clone(&form);
        Arc::new(move |state| form.matching(NAME, WHAT, &body(&form.with(state))))
    };
    let once = |[condition, body]: &[Arc<Forward>; 2], state: &[Variable]| {
        condition(state);
        body(state)
    };
    let arrays = form.arrays.len();
    let whole = |[condition, body]: [Arc<Forward>; 2]| -> Arc<Forward> {
        Arc::new(move |start| {
            let mut state = start.to_vec();
            loop {
                let holds = no_grad(|| condition(&state).remove(0));
                state = match Holds::read(NAME, "the condition", &holds) {
                    Holds::Nowhere => return state,
                    Holds::Everywhere => body(&state),
                    Holds::Somewhere => {
                        let next = body(&guarded(&holds, &state));
                        choose(NAME, &holds, [&next, &state], arrays)
                    }
                }
            }
        })
    };
    form.returned(&run(NAME, [condition, body], inputs, once, whole))
}

/// Runs `body` on a state for each number of `range`, and returns the last state. The number is an
/// i64 without axes.
///
/// In ordinary code, this is a `for`. Inside of [`compile`](crate::compile), where a `for` would be
/// traced as often as it runs, the body becomes one program. Everything else is as for
/// [`while_loop`].
///
/// ```
/// use bibun::{compile, fori_loop, Variable};
/// let sum = compile(|x: &Variable| fori_loop(0..100, |i, sum| sum + i, x));
/// assert_eq!(sum.call(&Variable::constant(0.5)).item::<f64>(), 4950.5);
/// ```
///
/// # Panics
/// Panics if the body returns another structure, shape or dtype, or captures a Variable that has
/// history or is hidden by a transformation.
#[track_caller]
pub fn fori_loop<C: Tree + Send + Sync + 'static>(
    range: Range<i64>,
    body: impl Fn(&Variable, &C) -> C + Send + Sync + 'static,
    start: &C,
) -> C {
    const NAME: &str = "fori_loop";
    let _called = calling(NAME);
    let (form, inputs) = Form::of(start);
    let form = Arc::new(form);
    let body: Arc<Forward> = {
        let form = Arc::clone(&form);
        Arc::new(move |inputs| {
            let (i, state) = (&inputs[0], &inputs[1..]);
            form.matching(NAME, WHAT, &body(i, &form.with(state)))
        })
    };
    let with = |i: Variable, state: &[Variable]| [&[i], state].concat();
    let once = |[body]: &[Arc<Forward>; 1], state: &[Variable]| {
        body(&with(Variable::constant(0i64), state))
    };
    let whole = |[body]: [Arc<Forward>; 1]| -> Arc<Forward> {
        Arc::new(move |start| {
            range.clone().fold(start.to_vec(), |state, i| {
                body(&with(Variable::constant(i), &state))
            })
        })
    };
    form.returned(&run(NAME, [body], inputs, once, whole))
}
