//! Threads: no schedule changes a result, and none stands still.
//!
//! A short form of `tools/src/bin/scope_storm.rs`, which runs for hours.

mod storm;

use std::time::Duration;

use bibun::array::Array;
use bibun::{Rules, Variable, eval_mode, gradients, is_recording, is_training, no_grad};
use rayon::prelude::*;

use storm::{Threads, Watch, round, wait};

/// Much longer than a round takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn no_schedule_changes_a_result() {
    let watch = Watch::begin(PATIENCE);
    let places = [
        (Threads::Pool(8), 64),
        (Threads::Pool(4), 32),
        (Threads::Global, 30),
        (Threads::Scoped(3), 30),
    ];
    let wrong: Vec<String> = (1..)
        .zip(places)
        .flat_map(|(seed, (threads, tasks))| round(seed, tasks, threads, &watch))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_leaf_takes_gradients_from_many_threads() {
    let watch = Watch::begin(PATIENCE);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build();
    let pool = pool.expect("threads can be started");
    for step in 0..40 {
        // Sums of whole numbers are exact in any order.
        let elements: Vec<f64> = (0..200_000).map(|i| f64::from(i % 7)).collect();
        let w = Variable::new(Array::from(&elements[..]));
        watch.during(step, "(w * w).sum(..).backward()", || {
            let add = |_| (&w * &w).sum(..).backward();
            pool.install(|| (0..16).into_par_iter().with_max_len(1).for_each(add));
        });
        let gradient = w.grad().expect("it has arrived").to_vec::<f64>();
        let expected = elements.iter().map(|w| 16.0 * 2.0 * w);
        assert!(gradient.into_iter().eq(expected));
    }
}

#[test]
fn scopes_stay_with_their_task() {
    let watch = Watch::begin(PATIENCE);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build();
    let pool = pool.expect("threads can be started");
    let elements: Vec<f64> = (0..200_000).map(|i| f64::from(i % 7)).collect();
    let x = Variable::constant(&elements[..]);
    let doubled = Rules::new().vjp("square", |cx, gy| {
        let gradients = cx.original_vjp(gy).into_iter();
        gradients.map(|gx| gx.map(|gx| 2.0 * gx)).collect()
    });
    // What a task finds wrong.
    let task = |i: usize| -> Option<String> {
        let f = |w: &Variable| {
            wait();
            let y = (&x * w).square();
            wait();
            y.sum(..)
        };
        let w = Variable::new(1.0);
        let (scope, y, expected) = match i % 4 {
            0 => ("no_grad", no_grad(|| f(&w)), None),
            1 => ("test", eval_mode(|| f(&w)), Some(1.0)),
            2 => ("rules", doubled.scope(|| f(&w)), Some(2.0)),
            _ => ("none", f(&w), Some(1.0)),
        };
        if !is_training() || !is_recording() {
            return Some(format!("{scope}: not the mode it began with"));
        }
        let twice = 2.0 * y.item::<f64>();
        let found = gradients(&[&y], &[&w]).remove(0).map(|g| g.item::<f64>());
        let expected = expected.map(|factor| factor * twice);
        (found != expected).then(|| format!("{scope}: {found:?}, expected {expected:?}"))
    };
    // Threads wait for one another where tasks come to an end, so there are few at a time.
    let mut wrong = Vec::new();
    for round in 0..10 {
        wrong.extend(watch.during(round, "gradients under scopes", || {
            let tasks = (0..16).into_par_iter().with_max_len(1);
            pool.install(|| tasks.filter_map(task).collect::<Vec<_>>())
        }));
    }
    assert!(
        wrong.is_empty(),
        "{} of 160 wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
