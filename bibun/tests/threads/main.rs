//! Threads: no schedule changes a result, and none stands still.
//!
//! A short form of `tools/src/bin/scope_storm.rs`, which runs for hours.

mod storm;

use std::time::Duration;

use bibun::Variable;
use bibun::array::{Array, DType};
use rayon::prelude::*;

use storm::{Threads, Watch, round};

/// Much longer than a round takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn no_schedule_changes_a_result() {
    let watch = Watch::begin(PATIENCE);
    let places = [
        Threads::Pool(4),
        Threads::Global,
        Threads::Scoped(3),
        Threads::Pool(8),
    ];
    let wrong: Vec<String> = (1..)
        .zip(places)
        .flat_map(|(seed, threads)| round(seed, 16, threads, &watch))
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
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
    let pool = pool.expect("threads can be started");
    for step in 0..10 {
        // Sums of whole numbers are exact in any order.
        let w = Variable::new(Array::full([200_000], 3.0).cast(DType::F64));
        watch.during(step, "(w * w).sum(..).backward()", || {
            let add = |_| (&w * &w).sum(..).backward();
            pool.install(|| (0..16).into_par_iter().for_each(add));
        });
        let gradient = w.grad().expect("it has arrived").to_vec::<f64>();
        assert!(gradient.iter().all(|&g| g == 16.0 * 6.0));
    }
}
