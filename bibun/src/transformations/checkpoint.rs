//! The transformation that forgets.

use std::sync::{Arc, Mutex};

use super::custom::Closures;
use crate::call::calling;
use crate::error::caller;
use crate::tree::{Leaves, Mapper, Role, Tree};
use crate::variable::Variable;

/// `f(x)`, of whose run nothing is remembered but `x`: for a gradient, `f` is run again. A long
/// computation cut into checkpoints takes the memory of its longest part, and one more run (Chen et
/// al. 2016, arXiv:1604.06174).
///
/// It can be differentiated any number of times, forwards, backwards and under
/// [`vmap`](crate::vmap). Gradients reach `x` only: what has history must be handed in, such as the
/// model in `checkpoint(|(model, x)| model.forward(x), &(model, x))`. `f` must give the same result
/// each time.
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
/// Where `f` does, and if `f` captures a Variable that has history or is hidden by a transformation.
#[track_caller]
pub fn checkpoint<A, Y>(f: impl Fn(&A) -> Y + Send + Sync + 'static, x: &A) -> Y
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    let _called = calling("checkpoint");
    let leaves = Leaves::of(x);
    let inputs = leaves.variables.clone();
    // The form alone: the values that `x` has now are not held.
    let form = x.map(&mut Mapper::new(&mut |x, role| match role {
        Role::Buffer => x.clone(),
        _ if x.is_absent() => x.clone(),
        Role::Argument | Role::Parameter => Variable::constant(0.0),
    }));
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    let forward = move |variables: &[Variable]| {
        let y = f(&leaves.replaced(&form, variables));
        let outputs = Leaves::of(&y);
        let variables = outputs.variables.clone();
        let mut slot = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *slot = Some((y, outputs));
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
    let mut slot = result
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (y, form) = slot.take().expect("the function has run");
    // What is frozen was recorded with the others, but no gradient goes through it.
    let outputs = outputs.iter().zip(&form.variables);
    let outputs = outputs.map(|(output, y)| match y.is_frozen() {
        true => output.detach(),
        false => output.clone(),
    });
    form.replaced(&y, &outputs.collect::<Vec<_>>())
}
