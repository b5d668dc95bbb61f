//! Random numbers under `vmap`: which lanes draw their own, and which the same.

use std::cell::{Cell, RefCell};

use bibun_array::{Array, Shape};

use crate::batch::{Batched, Lane};
use crate::error::{Error, raise};
use crate::scope::Level;
use crate::variable::{Value, Variable};

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
    Own,
    Shared,
    /// Not at all: they follow lanes of another run, with which they would have to share.
    Impossible,
}

impl From<Randomness> for Draw {
    fn from(randomness: Randomness) -> Self {
        match randomness {
            Randomness::Different => Self::Own,
            Randomness::Same => Self::Shared,
        }
    }
}

thread_local! {
    /// The transformations whose lanes draw, from the outermost in.
    static DRAWS: RefCell<Vec<Draws>> = const { RefCell::new(Vec::new()) };
    /// How the lanes draw for which a batch rule is running.
    static RULE: Cell<Draw> = const { Cell::new(Draw::Own) };
}

/// How the lanes at one level draw random numbers.
#[derive(Clone, Copy)]
struct Draws {
    level: Level,
    count: usize,
    draw: Draw,
}

/// Ends the draws of a level, also when a panic passes.
pub(crate) struct EndDraws;

/// Lets the lanes at a level draw so until the result is dropped.
pub(crate) fn drawing(level: Level, count: usize, draw: Draw) -> EndDraws {
    DRAWS.with_borrow_mut(|all| all.push(Draws { level, count, draw }));
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
    struct PutBack(Option<(usize, Draws)>, Draw);
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
    let draw = put_aside.map_or(Draw::Own, |(_, draws)| draws.draw);
    let _put_back = PutBack(put_aside, RULE.replace(draw));
    rule()
}

/// How the lanes draw for which a batch rule is running.
pub(crate) fn draw_of_rule() -> Draw {
    RULE.get()
}

/// Runs `f` on one lane by itself: what it draws belongs to no others.
pub(crate) fn alone<T>(f: impl FnOnce() -> T) -> T {
    struct PutBack(Vec<Draws>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            DRAWS.set(std::mem::take(&mut self.0));
        }
    }
    let _put_back = PutBack(DRAWS.take());
    f()
}

/// Random numbers: `draw` fills an array of the shape it is given, which is that of a single
/// lane with an axis in front for every `vmap` around whose lanes draw their own.
///
/// # Panics
/// If `vmap` runs in chunks whose lanes shall all draw the same.
#[track_caller]
pub(crate) fn random(shape: Shape, draw: impl FnOnce(Shape) -> Array) -> Variable {
    let draws = DRAWS.with_borrow(Clone::clone);
    if draws.iter().any(|draws| draws.draw == Draw::Impossible) {
        let what = "lanes of several chunks cannot draw the same random numbers; draw them \
                    before, and let the function capture them";
        raise(Error::argument("vmap", what));
    }
    let own: Vec<Draws> = draws
        .into_iter()
        .filter(|draws| draws.draw == Draw::Own)
        .collect();
    let sizes: Vec<usize> = own
        .iter()
        .map(|draws| draws.count)
        .chain(shape.iter().copied())
        .collect();
    let all = Variable::constant(draw(Shape::from(sizes)));
    own.into_iter().fold(all, |value, Draws { level, .. }| {
        let lane = Lane {
            value,
            axis: Some(0),
        };
        Variable::from_value(Value::Batched(Batched { level, lane }))
    })
}
