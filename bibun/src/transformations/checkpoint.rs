//! The transformation that runs its function again instead of recording it.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::custom::Closures;
use crate::call::calling;
use crate::error::caller;
use crate::tree::{Leaves, Mapper, Role, Tree};
use crate::variable::Variable;

/// Computes `f(x)` and remembers nothing of the run but `x`. For a gradient, `f` is run again. A long
/// computation cut into checkpoints takes the memory of its longest part, and one more run (Chen et
/// al. 2016, arXiv:1604.06174).
///
/// It can be differentiated any number of times, forwards, backwards and under [`vmap`](crate::vmap).
/// Gradients reach only `x`, so values with history must be part of it, such as the model in
/// `checkpoint(|(model, x)| model.forward(x), &(model, x))`.
///
/// `f` is kept with the history of the result and runs whenever its gradient is wanted, so it cannot
/// borrow from its surroundings. What it uses is a part of `x` or moved into it as a clone; clones of
/// Variables and models share their values.
///
/// When `f` is run again, it sees the same surroundings as the first time: training or evaluation
/// mode, the [`Rules`](crate::Rules) in force, the random numbers of every generator, and the
/// contents of [buffers](crate::links::Buffer) and of leaves that it captures as constants. It draws
/// no new numbers and changes no buffer a second time. Nothing else that `f` reads may have changed, and `f` computes
/// on one thread: what other threads draw or read for it is not seen again.
///
/// ```
/// use bibun::{checkpoint, grad, Variable};
/// let block = |x: &Variable| x.tanh().sin().tanh();
/// let x = Variable::constant(0.5);
/// let g = grad(|x| checkpoint(block, x), &x);
/// assert_eq!(g.item::<f64>(), grad(block, &x).item::<f64>());
/// ```
///
/// # Panics
/// Panics if `f` does, and if `f` captures a Variable that has history or is hidden by a
/// transformation.
#[track_caller]
pub fn checkpoint<A, Y>(f: impl Fn(&A) -> Y + Send + Sync + 'static, x: &A) -> Y
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    let _called = calling("checkpoint");
    let mut leaves = Leaves::of(x);
    // Only the structure of `x`: its current values and their history are not held.
    let inputs = mem::take(&mut leaves.variables);
    let form = x.map(&mut Mapper::new(&mut |x, role| match role {
        Role::Buffer => x.clone(),
        _ if x.is_absent() => x.clone(),
        Role::Argument | Role::Parameter => Variable::constant(0.0),
    }));
    // The result of the first run. Later runs are for its derivatives.
    let result = Arc::new(OnceLock::new());
    let made = Arc::downgrade(&result);
    let forward = move |variables: &[Variable]| {
        let y = f(&leaves.replaced(&form, variables));
        let outputs = Leaves::of(&y);
        let variables = outputs.variables.clone();
        if let Some(result) = made.upgrade() {
            let _ = result.set(Mutex::new((y, outputs)));
        }
        variables
    };
    let closures = Closures {
        name: "checkpoint",
        forward: Arc::new(forward),
        vjp: None,
        jvp: None,
        batch: None,
    };
    let outputs = closures.call(inputs, caller());
    let made = Arc::into_inner(result).and_then(OnceLock::into_inner);
    let made = made.expect("the function has run, and nobody else holds what it made");
    let (y, form) = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Frozen parameters were recorded with the others, but no gradient goes through them.
    let outputs = outputs.iter().zip(&form.variables);
    let outputs = outputs.map(|(output, y)| match y.is_frozen() {
        true => output.detach(),
        false => output.clone(),
    });
    form.replaced(&y, &outputs.collect::<Vec<_>>())
}
