//! Letting go of history: in a loop, for it may be millions of functions deep.
//!
//! What is let go of first is dropped on the spot; what that lets go of in turn waits here until it is
//! its turn. So it does not matter by which way history hangs together: inputs, values kept for rules,
//! gradients, closures that have captured Variables.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::hooks::GradientHooks;
use crate::node::Node;
use crate::variable::Variable;

/// What can lead to more of its kind.
#[expect(dead_code, reason = "held only to be dropped")]
pub(crate) enum Released {
    Node(Arc<Node>),
    Gradient(Variable),
    Hooks(Box<GradientHooks>),
}

thread_local! {
    static IS_RELEASING: Cell<bool> = const { Cell::new(false) };
    /// Empty but while something is being let go of. (Without a destructor of its own, so that it
    /// outlives whatever other thread-locals hold.)
    static WAITING: RefCell<ManuallyDrop<Vec<Released>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Drops it, and then one by one whatever is let go of by that.
pub(crate) fn release(released: Released) {
    if IS_RELEASING.replace(true) {
        return WAITING.with_borrow_mut(|waiting| waiting.push(released));
    }
    // Also when a captured value's own destructor panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            while let Some(next) = WAITING.with_borrow_mut(|waiting| waiting.pop()) {
                drop(next);
            }
            let emptied = WAITING.with_borrow_mut(|waiting| std::mem::take(&mut **waiting));
            IS_RELEASING.set(false);
            drop(emptied);
        }
    }
    let _end = End;
    drop(released);
}
