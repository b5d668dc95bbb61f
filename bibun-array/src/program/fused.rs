//! Functions of arrays that run as programs when they come again.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Program;
use crate::recent::{InputSpec, Recent, Seen};
use crate::{Array, Tracer};

/// The number of elements of the largest input from which on passes over memory cost more than a
/// program does.
const LEAST: usize = 1 << 13;

thread_local! {
    static RECENT: RefCell<Recent<Call, Arc<Program>>> = const { RefCell::new(Recent::new()) };
}

/// A function with the inputs that it had.
struct Call {
    function: TypeId,
    options: Box<dyn Any>,
    inputs: SmallVec<[InputSpec; 4]>,
}

/// Computes `f(&options, inputs)`. If an input is large, then from the second call on, for the same
/// options, shapes, dtypes and strides, this runs as a [`Program`], whose steps go through memory
/// together; the results have the same bits. Programs are kept for each thread, the latest 64.
///
/// The type of `f` stands for what it computes, so it cannot capture anything: this does not compile
/// for a closure that does. It must not read an element.
///
/// ```
/// use bibun_array::{Array, DType, fused};
/// let norm = |x: Array| {
///     let [y] = fused(0.5, [x], |scale: &f64, [x]| [(&x * &x).sum(..).sqrt() * *scale]);
///     y.item::<f32>()
/// };
/// let x = Array::ones([100, 100], DType::F32);
/// assert_eq!([norm(x.clone()), norm(x.clone()), norm(x)], [50.0; 3]);
/// ```
pub fn fused<const N: usize, const M: usize, O, F>(
    options: O,
    inputs: [Array; N],
    f: F,
) -> [Array; M]
where
    O: PartialEq + Clone + 'static,
    F: Fn(&O, [Array; N]) -> [Array; M] + 'static,
{
    const { assert!(size_of::<F>() == 0, "the function captures something") };
    let is_here = |x: &Array| x.inline().is_some() || x.buffer().is_some();
    let size = inputs.iter().map(Array::size).max();
    // Repeated values alone are on every device, and another one may be chosen.
    let has_memory = inputs.iter().any(|x| x.buffer().is_some());
    if size.is_none_or(|size| size < LEAST) || !has_memory || !inputs.iter().all(is_here) {
        return f(&options, inputs);
    }
    match program(&options, &inputs, &f) {
        Some(program) => {
            let outputs = program.run(inputs.into());
            outputs.try_into().expect("as many as the function has")
        }
        None => f(&options, inputs),
    }
}

/// The program for these inputs, if they have come before.
fn program<const N: usize, const M: usize, O, F>(
    options: &O,
    inputs: &[Array; N],
    f: &F,
) -> Option<Arc<Program>>
where
    O: PartialEq + Clone + 'static,
    F: Fn(&O, [Array; N]) -> [Array; M] + 'static,
{
    let function = TypeId::of::<F>();
    let fits = |call: &Call| {
        call.function == function
            && (call.inputs.iter().zip(inputs)).all(|(spec, x)| spec.fits(x))
            && call.options.downcast_ref() == Some(options)
    };
    let call = || Call {
        function,
        options: Box::new(options.clone()),
        inputs: inputs.iter().map(InputSpec::of).collect(),
    };
    match RECENT.with_borrow_mut(|recent| recent.look(fits, call)) {
        Seen::Never => None,
        Seen::Made(program) => Some(program),
        Seen::Before => {
            let tracer = Tracer::new("fused");
            let slots = inputs.each_ref().map(|x| tracer.input(x));
            let outputs = tracer.run(|| f(options, slots));
            let program = Arc::new(tracer.finish(&outputs));
            RECENT.with_borrow_mut(|recent| recent.keep(fits, Arc::clone(&program)));
            Some(program)
        }
    }
}
