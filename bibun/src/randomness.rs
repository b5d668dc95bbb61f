//! Random numbers under `vmap`: which lanes draw their own, and which the same.

use std::cell::{Cell, RefCell};

use crate::batch::Batched;
use crate::scope::Level;
use crate::surroundings::Aside;
use crate::variable::Variable;

/// Whether lanes of `vmap` draw random numbers of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    /// Each lane draws its own, as turns of a loop would.
    Different,
    /// All lanes draw the same.
    Same,
}

/// How lanes draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Draw {
    /// Each its own: they are numbered, from here on.
    Own(usize),
    Shared,
}

impl Draw {
    /// How the lanes draw of which the first has this number.
    pub(crate) fn of(randomness: Randomness, first: usize) -> Self {
        match randomness {
            Randomness::Different => Self::Own(first),
            Randomness::Same => Self::Shared,
        }
    }
}

thread_local! {
    /// The transformations whose lanes draw, from the outermost in.
    static DRAWS: RefCell<Vec<BatchDraws>> = const { RefCell::new(Vec::new()) };
    /// How the lanes draw for which a batch rule is running.
    static RULE: Cell<Draw> = const { Cell::new(Draw::Own(0)) };
}

/// How the lanes at one level draw random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchDraws {
    level: Level,
    count: usize,
    draw: Draw,
}

/// Ends the draws of a level, also when a panic passes.
pub(crate) struct EndDraws;

/// Lets the lanes at a level draw so until the result is dropped.
pub(crate) fn drawing(level: Level, count: usize, draw: Draw) -> EndDraws {
    DRAWS.with_borrow_mut(|all| all.push(BatchDraws { level, count, draw }));
    EndDraws
}

impl Drop for EndDraws {
    fn drop(&mut self) {
        DRAWS.with_borrow_mut(|all| all.pop());
    }
}

/// Runs a batch rule for the lanes at `level`, which draw nothing meanwhile: where the rule runs a
/// function in lanes of its own, those draw in their place, as [`draw_of_rule`] says.
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
    // What is run again for lanes that did not draw then draws what it drew.
    let draw = put_aside.map_or(Draw::Shared, |(_, draws)| draws.draw);
    let _put_back = PutBack(put_aside, RULE.replace(draw));
    rule()
}

/// How the lanes draw for which a batch rule is running.
pub(crate) fn draw_of_rule() -> Draw {
    RULE.get()
}

/// How the lanes draw of the transformations around, from the outermost in.
pub(crate) fn batch() -> Vec<BatchDraws> {
    DRAWS.with_borrow(Clone::clone)
}

/// Runs `f` with lanes that draw so, and no others.
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

/// The number of each lane that draws its own, for every `vmap` around in which lanes do, from the
/// outermost in: what their random numbers are a function of.
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
