//! Random numbers under `vmap`: which lanes draw their own, and which the same.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use bibun_array::{Device, Distribution, Generator, Shape};

use crate::batch::{Batched, Lane};
use crate::scope::Level;
use crate::surroundings::Aside;
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
    static DRAWS: RefCell<Vec<LaneDraws>> = const { RefCell::new(Vec::new()) };
    /// How the lanes draw for which a batch rule is running.
    static RULE: Cell<Draw> = const { Cell::new(Draw::Own(0)) };
}

/// How the lanes at one level draw random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneDraws {
    level: Level,
    count: usize,
    draw: Draw,
}

/// Ends the draws of a level, also when a panic passes.
pub(crate) struct EndDraws;

/// Lets the lanes at a level draw so until the result is dropped.
pub(crate) fn drawing(level: Level, count: usize, draw: Draw) -> EndDraws {
    DRAWS.with_borrow_mut(|all| all.push(LaneDraws { level, count, draw }));
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
    struct PutBack(Option<(usize, LaneDraws)>, Draw);
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
    let draw = put_aside.map_or(Draw::Own(0), |(_, draws)| draws.draw);
    let _put_back = PutBack(put_aside, RULE.replace(draw));
    rule()
}

/// How the lanes draw for which a batch rule is running.
pub(crate) fn draw_of_rule() -> Draw {
    RULE.get()
}

/// How the lanes draw of the transformations around, from the outermost in.
pub(crate) fn lanes() -> Vec<LaneDraws> {
    DRAWS.with_borrow(Clone::clone)
}

/// Runs `f` with lanes that draw so, and no others.
pub(crate) fn in_lanes<T>(lanes: Vec<LaneDraws>, f: impl FnOnce() -> T) -> T {
    struct PutBack(Vec<LaneDraws>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            DRAWS.set(std::mem::take(&mut self.0));
        }
    }
    let _put_back = PutBack(DRAWS.replace(lanes));
    f()
}

pub(crate) fn put_aside() -> impl Sized {
    (
        Aside::of(&DRAWS, Vec::new()),
        Aside::of(&RULE, Draw::Own(0)),
    )
}

/// Random numbers on a device, of the shape of a single lane, with an axis in front for every `vmap` around whose
/// lanes draw their own.
#[track_caller]
pub(crate) fn random(
    distribution: Distribution,
    shape: Shape,
    generator: &mut Generator,
    device: &'static dyn Device,
) -> Variable {
    let own: Vec<(LaneDraws, Range<u64>)> = DRAWS.with_borrow(|all| {
        let own = all.iter().filter_map(|draws| match draws.draw {
            Draw::Own(first) => Some((*draws, first as u64..(first + draws.count) as u64)),
            Draw::Shared => None,
        });
        own.collect()
    });
    let numbers: Vec<Range<u64>> = own.iter().map(|(_, lanes)| lanes.clone()).collect();
    let all = match numbers.is_empty() {
        true => generator.draw(distribution, shape, device),
        false => generator.draw_lanes(distribution, &numbers, shape, device),
    };
    own.into_iter()
        .fold(Variable::constant(all), |value, (draws, _)| {
            let (level, axis) = (draws.level, Some(0));
            let lane = Lane { value, axis };
            Variable::from_value(Value::Batched(Batched { level, lane }))
        })
}
