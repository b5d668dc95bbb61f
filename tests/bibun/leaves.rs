//! Leaves: updates, gradients from many threads, and that history is let go of, whole and in a loop.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use bibun::array::math::Float;
use bibun::array::{Given, Number};
use bibun::optimizers::{Optimizer, ParameterStep, RuleOptimizer, Sgd, UpdateRule};
use bibun::{GradOptions, Variable, attempt, checkpoint, custom, gradients_with, history, no_grad};

/// So little stack that a recursion of a few hundred steps is noticed.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(128 << 10).spawn(f);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn an_update_may_read_the_leaf() {
    let w = Variable::new([1.0, 2.0]);
    w.update(|old| old - w.array() * 0.5);
    assert_eq!(w.to_vec::<f64>(), [0.5, 1.0]);
    // Also from another thread that it waits for.
    w.update(|old| {
        let other = thread::scope(|threads| threads.spawn(|| w.array()).join().expect("no panic"));
        old + other
    });
    assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
}

#[test]
fn an_update_must_not_write_the_leaf_that_it_updates() {
    let w = Variable::new([1.0, 2.0]);
    let writes: [(&str, &dyn Fn()); 3] = [
        ("update", &|| w.update(|old| old + 1.0)),
        ("set_array", &|| w.set_array([5.0, 6.0].into())),
        ("update", &|| {
            w.set_grad(&Variable::constant([1.0, 1.0]));
            Sgd::new(0.1).update(&w);
        }),
    ];
    for (function, write) in writes {
        let update = || {
            w.update(|old| {
                write();
                old
            });
        };
        let error = attempt(update).unwrap_err().to_string();
        assert!(error.starts_with(function), "{error}");
        assert!(
            error.contains("being updated on this very thread"),
            "{error}"
        );
        assert!(error.contains(file!()), "{error}");
        assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
    }
    // Another leaf may be written.
    let other = Variable::new(1.0);
    w.update(|old| {
        other.update(|old| old + 1.0);
        old
    });
    assert_eq!(other.item::<f64>(), 2.0);
}

#[test]
fn an_update_that_fails_changes_nothing() {
    let w = Variable::new([1.0, 2.0]);
    let error = attempt(|| w.update(|old| old.sum(..)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the leaf is [2] f64, the value [] f64"),
        "{error}"
    );
    assert!(error.contains(file!()), "{error}");
    let broken = || w.update(|_| std::panic::resume_unwind(Box::new(1)));
    assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
    assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
    w.update(|old| old + 1.0);
    assert_eq!(w.to_vec::<f64>(), [2.0, 3.0]);
}

thread_local! {
    /// What a [`Broken`] rule reads at the second element.
    static OTHER: RefCell<Option<Variable>> = const { RefCell::new(None) };
    static ELEMENTS: Cell<usize> = const { Cell::new(0) };
}

/// A rule that breaks off at the second element of a parameter.
#[derive(Clone, Debug)]
struct Broken;

impl UpdateRule<0, 0> for Broken {
    const NAME: &'static str = "Broken";
    const STATE: [&'static str; 0] = [];

    fn given(&self, _: &ParameterStep) -> [Given; 0] {
        ELEMENTS.set(0);
        []
    }

    fn element<T: Float>(
        _: Number<T>,
        _: Number<T>,
        []: [Number<T>; 0],
        []: [Number<T>; 0],
    ) -> (Number<T>, [Number<T>; 0]) {
        if ELEMENTS.replace(1) == 1 {
            let other = OTHER.with_borrow(|other| other.clone().expect("it was set"));
            other.array();
            resume_unwind(Box::new("in the middle"));
        }
        (7.0.into(), [])
    }
}

#[test]
fn a_panicking_update_leaves_the_parameter_usable() {
    let w = Variable::new([1.0, 2.0]);
    w.set_grad(&Variable::constant([1.0, 1.0]));
    let step = |other: &Variable| {
        OTHER.set(Some(other.clone()));
        let step = AssertUnwindSafe(|| RuleOptimizer::with_rule(0.1, Broken).update(&w));
        catch_unwind(step).expect_err("a panic")
    };
    let payload = step(&Variable::new(1.0));
    assert_eq!(payload.downcast_ref(), Some(&"in the middle"));
    assert_eq!(w.to_vec::<f64>(), [7.0, 2.0]);
    // A rule that reads the very parameter that it changes is told so, and does not wait for itself.
    w.set_array([1.0, 2.0].into());
    let error = attempt::<()>(|| resume_unwind(step(&w)));
    let error = error.expect_err("an error").to_string();
    assert!(
        error.contains("being updated on this very thread"),
        "{error}"
    );
    assert_eq!(w.to_vec::<f64>(), [7.0, 2.0]);
}

#[test]
fn updates_from_many_threads_all_take_effect() {
    let w = Variable::new([0.0; 4]);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..200).for_each(|_| w.update(|old| old + 1.0)));
        }
    });
    assert_eq!(w.to_vec::<f64>(), [800.0; 4]);
}

#[test]
fn gradients_from_many_threads_add_up() {
    let w = Variable::new([1.0, 2.0]);
    let u = &w * 1.0;
    u.retain_grad();
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..100).for_each(|_| (&u * 3.0).sum(..).backward()));
        }
    });
    assert_eq!(w.grad().unwrap().to_vec::<f64>(), [1200.0; 2]);
    assert_eq!(u.grad().unwrap().to_vec::<f64>(), [1200.0; 2]);
}

#[test]
fn a_retained_gradient_is_added_to_by_a_second_walk() {
    let x = Variable::new(2.0);
    let y = &x * &x;
    y.retain_grad();
    (3.0 * &y).backward();
    // To ask for it again changes nothing.
    y.retain_grad();
    (5.0 * &y).backward();
    assert_eq!(y.grad().unwrap().item::<f64>(), 8.0);
    y.clear_grad();
    assert!(y.grad().is_none());
    (5.0 * &y).backward();
    assert_eq!(y.grad().unwrap().item::<f64>(), 5.0);
}

/// A function of which every call holds `witness`.
fn square(witness: &Arc<()>) -> impl Fn(&Variable) -> Variable + use<> {
    let witness = Arc::clone(witness);
    let square = custom("square", move |[x]| {
        let _ = &witness;
        x * x
    })
    .vjp(|[x], _, gy| [2.0 * x * gy]);
    move |x| square.call([x])
}

#[test]
fn rings_do_not_keep_themselves() {
    let witness = Arc::new(());
    // A gradient with history leads back to the leaf that holds it.
    let x = Variable::new(3.0);
    let y = square(&witness)(&square(&witness)(&x));
    y.backward_with(GradOptions::new().create_graph());
    let slope = x.grad().unwrap();
    slope.backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 4.0 * 27.0 + 12.0 * 9.0);
    drop((slope, y));
    assert!(Arc::strong_count(&witness) > 1);
    drop(x);
    assert_eq!(Arc::strong_count(&witness), 1);

    // So does what is put there by hand, around two leaves too.
    let [a, b] = [Variable::new(1.0), Variable::new(2.0)];
    a.set_grad(&square(&witness)(&b));
    b.set_grad(&square(&witness)(&a));
    assert!(Arc::strong_count(&witness) > 1);
    drop((a, b));
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn history_returns_leaves_that_only_it_holds() {
    let y = {
        let x = Variable::new(3.0);
        &x * &x
    };
    let x = y.creator().unwrap().inputs()[0].value().unwrap();
    assert!(x.is_leaf());
    y.backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 6.0);
    let same = y.creator().unwrap().inputs()[1].value().unwrap();
    assert!(same.is_same(&x));
    assert_eq!(same.grad().unwrap().item::<f64>(), 6.0);
    drop(same);
    assert_eq!(x.grad().unwrap().item::<f64>(), 6.0);
    // As history remembers it, with the value that it had then.
    x.set_array(5.0.into());
    let then = y.creator().unwrap().inputs()[0].value().unwrap();
    assert!(then.is_same(&x) && then.item::<f64>() == 3.0);
}

/// Longer than a recursion on the stack of the test could go.
const LONG: usize = 30_000;

#[test]
fn long_chains_of_checkpoints_are_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let x = Variable::new(0.5);
        let mut y = x.clone();
        for _ in 0..LONG {
            y = checkpoint(|x: &Variable| x * 1.0, &y);
        }
        y.backward();
        assert_eq!(x.grad().unwrap().item::<f64>(), 1.0);
        drop(y);
    });
}

#[test]
fn closures_with_history_are_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let x = Variable::new(0.5);
        let mut y = x.clone();
        for _ in 0..LONG {
            let captured = y.clone();
            let next = custom("next", |[x]| x * 1.0).vjp(move |_, _, gy| {
                let _ = &captured;
                [gy.clone()]
            });
            y = next.call([&x]);
        }
        drop(y);
    });
}

#[test]
fn gradients_with_history_are_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        // The gradient of each leaf was computed from the next.
        let mut last = Variable::new(1.0);
        for _ in 0..LONG {
            let leaf = Variable::new(1.0);
            leaf.set_grad(&(&last * 2.0));
            last = leaf;
        }
        drop(last);
        // Each is the next leaf itself.
        let mut last = Variable::new(1.0);
        for _ in 0..LONG {
            let leaf = Variable::new(1.0);
            leaf.set_grad(&last);
            last = leaf;
        }
        drop(last);
        // Each has a hook that holds the next.
        let mut last = Variable::new(1.0);
        for _ in 0..LONG {
            let leaf = Variable::new(1.0);
            leaf.register_hook(move |_| {
                let _ = &last;
                None
            });
            last = leaf;
        }
        drop(last);
        // Retained gradients with history.
        let mut y = Variable::new(1.0);
        for _ in 0..LONG {
            let next = &y * 1.0;
            next.retain_grad();
            next.set_grad(&y);
            y = no_grad(|| &next + 0.0) + &next;
        }
        drop(y);
    });
}

#[test]
fn history_in_a_thread_local_is_dropped_when_the_thread_ends() {
    thread_local!(static KEPT: std::cell::RefCell<Option<Variable>> = const { std::cell::RefCell::new(None) });
    on_a_small_stack(|| {
        KEPT.with_borrow_mut(|kept| *kept = Some(Variable::new(1.0)));
        drop(Variable::new(1.0) * 2.0 * 2.0);
        let mut y = Variable::new(1.0);
        for _ in 0..LONG {
            y *= 1.0;
        }
        KEPT.with_borrow_mut(|kept| *kept = Some(y));
    });
}

#[test]
fn long_histories_are_drawn_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut y = Variable::new(0.5);
        for _ in 0..900 {
            y = y.tanh();
        }
        assert!(history(&y).svg().contains("tanh"));
        assert!(history(&y).html().contains("tanh"));
    });
}

#[test]
fn gradients_of_gradients_through_long_chains() {
    on_a_small_stack(|| {
        let x = Variable::new(0.5);
        let mut y = &x * &x;
        for _ in 0..2_000 {
            y = checkpoint(|x: &Variable| x * 1.0, &y);
        }
        let options = GradOptions::new().create_graph();
        let slope = gradients_with(&[&y], &[&x], &options).remove(0).unwrap();
        slope.backward();
        assert_eq!(x.grad().unwrap().item::<f64>(), 2.0);
    });
}
