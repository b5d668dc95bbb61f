//! Dropping history in a loop, because it may be millions of functions deep.
//!
//! The first value is dropped at once; the values that it releases in turn wait here until it is
//! their turn. So it does not matter how history hangs together: by inputs, saved values, gradients,
//! or closures that have captured Variables.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::hooks::GradientHooks;
use crate::node::Node;
use crate::variable::Variable;

/// A value that can lead to more of its kind.
#[expect(dead_code, reason = "held only to be dropped")]
pub(crate) enum Released {
    Node(Arc<Node>),
    Gradient(Variable),
    Hooks(Box<GradientHooks>),
}

thread_local! {
    static IS_RELEASING: Cell<bool> = const { Cell::new(false) };
    /// Empty except while a value is being released. (It has no destructor of its own, so that it
    /// outlives the contents of other thread-locals.)
    static WAITING: RefCell<ManuallyDrop<Vec<Released>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Drops a value, and then one by one the values that it releases.
pub(crate) fn release(released: Released) {
    if IS_RELEASING.replace(true) {
        return WAITING.with_borrow_mut(|waiting| waiting.push(released));
    }
    // The list is emptied even if the destructor of a captured value panics.
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
