//! Random numbers under `vmap`: whether each batch element draws its own numbers or all draw the
//! same.

use std::cell::{Cell, RefCell};

use crate::batch::Batched;
use crate::scope::Level;
use crate::surroundings::Aside;
use crate::variable::Variable;

/// Whether each batch element of `vmap` draws its own random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    /// Each batch element draws its own numbers, as the iterations of a loop would.
    Different,
    /// All batch elements draw the same numbers.
    Same,
}

/// The way in which batch elements draw.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Draw {
    /// Each batch element draws its own numbers. They are numbered from this number on.
    Own(usize),
    Shared,
}

impl Draw {
    /// Returns how batch elements draw, given the number of the first one.
    pub(crate) fn of(randomness: Randomness, first: usize) -> Self {
        match randomness {
            Randomness::Different => Self::Own(first),
            Randomness::Same => Self::Shared,
        }
    }
}

thread_local! {
    /// The transformations whose batch elements draw, from the outermost to the innermost.
    static DRAWS: RefCell<Vec<BatchDraws>> = const { RefCell::new(Vec::new()) };
    /// The way of drawing of the batch elements whose batch rule is running.
    static RULE: Cell<Draw> = const { Cell::new(Draw::Own(0)) };
}

/// The way in which the batch elements at one level draw random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchDraws {
    level: Level,
    count: usize,
    draw: Draw,
}

/// A guard that ends the draws of a level, also on panic.
pub(crate) struct EndDraws;

/// Sets how the batch elements at a level draw, until the result is dropped.
pub(crate) fn drawing(level: Level, count: usize, draw: Draw) -> EndDraws {
    DRAWS.with_borrow_mut(|all| all.push(BatchDraws { level, count, draw }));
    EndDraws
}

impl Drop for EndDraws {
    fn drop(&mut self) {
        DRAWS.with_borrow_mut(|all| all.pop());
    }
}

/// Runs a batch rule for the batch elements at `level`, which draw nothing meanwhile. If the rule
/// runs a function with batch elements of its own, those draw in their place, according to
/// [`draw_of_rule`].
pub(crate) fn in_rule<T>(level: Level, rule: impl FnOnce() -> T) -> T {
    struct PutBack(Option<(usize, BatchDraws)>, Draw);
    impl Drop for PutBack {
        fn drop(&mut self) {
            if let Some((at, draws)) = self.0.take() {
                DRAWS.with_borrow_mut(|all| all.insert(at, draws));
            }
            RULE.set(self.1);
        }
    }
    let put_aside = DRAWS.with_borrow_mut(|all| {
        let at = all.iter().rposition(|draws| draws.level == level)?;
        Some((at, all.remove(at)))
    });
    // A second run for batch elements that did not draw then draws the same numbers as the first.
    let draw = put_aside.map_or(Draw::Shared, |(_, draws)| draws.draw);
    let _put_back = PutBack(put_aside, RULE.replace(draw));
    rule()
}

/// Returns how the batch elements draw whose batch rule is running.
pub(crate) fn draw_of_rule() -> Draw {
    RULE.get()
}

/// Returns how batch elements of the transformations around draw, from the outermost to the
/// innermost.
pub(crate) fn batch() -> Vec<BatchDraws> {
    DRAWS.with_borrow(Clone::clone)
}

/// Runs `f` with batch elements that draw in this way, and no others.
pub(crate) fn in_batch<T>(batch: Vec<BatchDraws>, f: impl FnOnce() -> T) -> T {
    struct PutBack(Vec<BatchDraws>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            DRAWS.set(std::mem::take(&mut self.0));
        }
    }
    let _put_back = PutBack(DRAWS.replace(batch));
    f()
}

pub(crate) fn put_aside() -> impl Sized {
    (
        Aside::of(&DRAWS, Vec::new()),
        Aside::of(&RULE, Draw::Own(0)),
    )
}

/// Returns the number of each batch element, for every `vmap` around whose batch elements draw their
/// own numbers, from the outermost to the innermost. Their random numbers are a function of these.
pub(crate) fn element_numbers() -> Vec<Variable> {
    let number = |draws: BatchDraws| match draws.draw {
        Draw::Own(first) => {
            let numbers: Vec<i64> = (first..first + draws.count)
                .map(|element| element as i64)
                .collect();
            let (value, axis) = (Variable::constant(numbers), Some(0));
            Some(Batched { value, axis }.hidden(draws.level))
        }
        Draw::Shared => None,
    };
    DRAWS.with_borrow(|all| all.iter().filter_map(|draws| number(*draws)).collect())
}
