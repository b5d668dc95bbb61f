//! Random numbers under `vmap`: whether each batch element draws its own numbers or all draw the
//! same; and for a part of a batch, whose examples draw what they would draw in the whole batch.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::batch::Batched;
use crate::error::{Error, raise};
use crate::scope::Level;
use crate::surroundings::{Aside, keep_to_this_task};
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
    /// The part of a batch that is computed.
    static PART: Cell<Option<BatchPart>> = const { Cell::new(None) };
}

/// Some consecutive examples of a batch whose other examples are computed elsewhere, by other processes or
/// at other times.
///
/// While a part [runs](Self::run), the functions that draw random numbers (`dropout`, `random_normal` and so on,
/// and links that use them) draw for its examples what they would draw for them in the whole batch, and
/// generators advance as by the whole batch. So the numbers do not depend on how a batch is divided. The
/// examples of a draw are along its first axis whose size is the number of examples of the part; a draw
/// without such an axis, noise on weights for example, is the same in all parts. The examples of
/// [`vmap`](crate::vmap) are numbered as in the whole batch. What a [`Generator`](bibun_array::Generator) is
/// asked for directly has no examples, and is the same in all parts too.
///
/// A [`DataLoader`](crate::datasets::DataLoader::part) knows the part of its last batch, and a
/// [`Trainer`](crate::training::Trainer) runs it.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{BatchPart, Variable, functions::dropout};
/// let x = Variable::constant(bibun::array::Array::ones([5, 3], bibun::array::DType::F64));
/// let whole = dropout(&x, 0.5, &mut Generator::new(0)).to_vec::<f64>();
/// let part = BatchPart::new(2..4, 5);
/// let x = x.slice(&[(2..4).into()]);
/// let rows = part.run(|| dropout(&x, 0.5, &mut Generator::new(0))).to_vec::<f64>();
/// assert_eq!(rows, whole[6..12]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchPart {
    first: usize,
    count: usize,
    whole: usize,
}

impl BatchPart {
    /// Creates the part with these examples of a batch of `whole` examples.
    ///
    /// # Panics
    /// Panics if the batch does not have these examples.
    #[track_caller]
    pub fn new(examples: Range<usize>, whole: usize) -> Self {
        if examples.start > examples.end || examples.end > whole {
            let what = format!("a batch of {whole} examples has no examples {examples:?}");
            raise(Error::argument("BatchPart", what));
        }
        Self {
            first: examples.start,
            count: examples.len(),
            whole,
        }
    }

    /// Returns the examples of the part, by their numbers in the batch.
    pub fn examples(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// Returns the number of examples of the whole batch.
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// Runs `f`, which computes this part.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        in_part(Some(*self), f)
    }

    /// Returns the axis of a draw along which the examples are.
    pub(crate) fn axis(&self, shape: &[usize]) -> Option<usize> {
        shape.iter().position(|&size| size == self.count)
    }
}

/// Returns the part of a batch that is computed, unless it is the whole.
pub(crate) fn part() -> Option<BatchPart> {
    PART.get().filter(|part| part.count < part.whole)
}

/// Runs `f` as the computation of a part of a batch, or of no part.
pub(crate) fn in_part<T>(part: Option<BatchPart>, f: impl FnOnce() -> T) -> T {
    keep_to_this_task();
    let _put_back = Aside::of(&PART, part);
    f()
}

/// Returns the number of the first of so many batch elements, which is not 0 if they are the examples of a
/// part of a batch. Then what is drawn until the second result is dropped is for one example.
pub(crate) fn first_of_elements(count: usize) -> (usize, impl Sized) {
    let part = part().filter(|part| part.count == count);
    let first = part.map_or(0, |part| part.first);
    (first, part.map(|_| Aside::of(&PART, None)))
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
        Aside::of(&PART, None),
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
