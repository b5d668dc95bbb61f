//! Large results of inputs that are broadcast, by machine code: it reads a row or an element again and again,
//! where a loop over runs of neighbours has to copy them first.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::elementwise::in_memory_order;
use super::fused::Fused;
use super::interpreter::is_alone;
use crate::formula::{Member, Source};
use crate::kernel::Kernel;
use crate::recent::{InputSpec, Recent, Seen};
use crate::shape::Layout;
use crate::{Array, DType};

/// The least number of elements for which it is worth to look for the code.
const LEAST: usize = 1 << 16;

thread_local! {
    /// The code for what has come twice, if there can be some.
    static RECENT: RefCell<Recent<Call, Option<Arc<Fused>>>> = const { RefCell::new(Recent::new()) };
}

/// A kernel with the inputs that it had.
struct Call {
    kernel: Kernel,
    inputs: SmallVec<[InputSpec; 3]>,
}

/// The pass that computes a kernel for such inputs, if it has come before, is large and reads elements of
/// an input several times. The result has this layout.
pub(super) fn pass(kernel: &Kernel, inputs: &[Array], layout: &Layout) -> Option<Arc<Fused>> {
    let is_broadcast = |x: &Array| !x.layout().has_steps_of(layout);
    if layout.shape.size() < LEAST || !inputs.iter().any(is_broadcast) || is_alone() {
        return None;
    }
    let fits = |call: &Call| {
        call.kernel.is_same(kernel)
            && call.inputs.len() == inputs.len()
            && (call.inputs.iter().zip(inputs)).all(|(spec, x)| spec.fits(x))
    };
    let call = || Call {
        kernel: kernel.with_given(kernel.given()),
        inputs: inputs.iter().map(InputSpec::of).collect(),
    };
    match RECENT.with_borrow_mut(|recent| recent.look(fits, call)) {
        Seen::Never => None,
        Seen::Made(pass) => pass,
        Seen::Before => {
            let pass = made(kernel, inputs, layout).map(Arc::new);
            RECENT.with_borrow_mut(|recent| recent.keep(fits, pass.clone()));
            pass
        }
    }
}

fn made(kernel: &Kernel, inputs: &[Array], layout: &Layout) -> Option<Fused> {
    let output = kernel.output(inputs[0].dtype());
    let dtypes: Vec<DType> = inputs.iter().map(Array::dtype).chain([output]).collect();
    let member = Member {
        formula: kernel.bound_formula(&dtypes)?,
        inputs: (0..inputs.len()).map(Source::Input).collect(),
    };
    let read = inputs.iter().map(|x| {
        let own = in_memory_order(x.layout(), layout);
        (x.dtype(), own)
    });
    let written = vec![(output, layout.clone())];
    let pass = Fused::new(
        layout.shape.size(),
        read.collect(),
        &[member],
        &[0],
        written,
    );
    pass.reads_in_place().then_some(pass)
}
