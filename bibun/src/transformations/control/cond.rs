//! A branch on a value.

use std::sync::Arc;

use super::call::Forward;
use super::{Form, Holds, ResultForm, choose, expect_bool, guarded, run};
use crate::call::calling;
use crate::tree::Tree;
use crate::variable::Variable;

/// Computes `if_true(x)` if the predicate holds, and `if_false(x)` if not. Only that function runs.
///
/// In ordinary code, this is an `if`. It is a function so that it can also be a part of what cannot
/// read a value: [`compile`](crate::compile), where the branches become programs, and
/// [`vmap`](crate::vmap), where both run if the batch elements differ, and each has the result of its
/// own. The other one's gradient is left out even where it is infinite or NaN.
///
/// Gradients reach `x` alone, so values with history must be part of it, such as a model. Both
/// functions must return the same structure, shapes and dtypes.
///
/// Types: predicate a single bool; x and the result any Trees.
///
/// ```
/// use bibun::{compile, cond, grad, Variable};
/// let f = |x: &Variable| cond(&x.greater(1.0), |x| x.log(), |x| x - 1.0, x);
/// assert_eq!(grad(f, &Variable::constant(4.0)).item::<f64>(), 0.25);
/// let slope = compile(move |x: &Variable| grad(f, x));
/// assert_eq!(slope.call(&Variable::constant(4.0)).item::<f64>(), 0.25);
/// assert_eq!(slope.call(&Variable::constant(-4.0)).item::<f64>(), 1.0);
/// ```
///
/// # Panics
/// Panics if the predicate is not a single bool, if a function captures a Variable that has history
/// or is hidden by a transformation, or, where both of them run, if their results differ in structure,
/// shape or dtype.
#[track_caller]
pub fn cond<A, Y>(
    predicate: &Variable,
    if_true: impl Fn(&A) -> Y + Send + Sync + 'static,
    if_false: impl Fn(&A) -> Y + Send + Sync + 'static,
    x: &A,
) -> Y
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + Sync + 'static,
{
    let _called = calling("cond");
    expect_bool("cond", "the predicate", predicate);
    let (form, leaves) = Form::of(x);
    let form = Arc::new(form);
    let what = ["the result of one branch", "that of the other"];
    let result = ResultForm::new("cond", what);
    let branch = |f: Box<dyn Fn(&A) -> Y + Send + Sync>| -> Arc<Forward> {
        let (form, result) = (Arc::clone(&form), Arc::clone(&result));
        Arc::new(move |x| result.leaves(&f(&form.with(x))))
    };
    let branches = [branch(Box::new(if_true)), branch(Box::new(if_false))];
    let inputs = [vec![predicate.clone()], leaves].concat();
    let once = |[if_true, if_false]: &[Arc<Forward>; 2], inputs: &[Variable]| {
        if_false(&inputs[1..]);
        if_true(&inputs[1..])
    };
    let made = Arc::clone(&result);
    let whole = |[if_true, if_false]: [Arc<Forward>; 2]| -> Arc<Forward> {
        Arc::new(move |inputs| {
            let (predicate, x) = (&inputs[0], &inputs[1..]);
            match Holds::read("cond", "the predicate", predicate) {
                Holds::Everywhere => if_true(x),
                Holds::Nowhere => if_false(x),
                Holds::Somewhere => {
                    let a = if_true(&guarded(predicate, x));
                    let b = if_false(&guarded(&predicate.logical_not(), x));
                    choose("cond", predicate, [&a, &b], made.form().arrays.len())
                }
            }
        })
    };
    result.returned(&run("cond", branches, inputs, once, whole))
}
