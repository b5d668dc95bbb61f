//! Draws of random numbers that can be repeated.

use std::cell::{Cell, RefCell};
use std::mem;

use crate::{Array, Error, is_traced, raise};

/// The positions of streams of random numbers at which a piece of code drew from them, in order.
/// They allow it to be run again with the same numbers, whatever generators it holds.
///
/// ```
/// use bibun_array::{Draws, Generator};
/// let mut generator = Generator::new(0);
/// let mut toss = || generator.bernoulli(0.5, 64).to_vec::<bool>();
/// let (first, draws) = Draws::record(&mut toss);
/// let second = toss();
/// assert_eq!(draws.repeat(&mut toss), first);
/// assert_ne!(second, first);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draws(Vec<Position>);

/// A position in a stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) enum Position {
    /// A key and a counter.
    Known(u64, u64),
    /// A position `[2]` in a program that is being traced, and the number of blocks drawn since.
    Traced(Box<Array>, u64),
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(key, counter), Self::Known(own, at)) => (key, counter) == (own, at),
            (Self::Traced(x, ahead), Self::Traced(y, by)) => x.shares_memory_with(y) && ahead == by,
            (Self::Known(..), Self::Traced(..)) | (Self::Traced(..), Self::Known(..)) => false,
        }
    }
}

impl Eq for Position {}

impl Position {
    /// The position that an array `[2]` says.
    pub(crate) fn of(x: &Array) -> Self {
        if is_traced(x) {
            return Self::Traced(Box::new(x.clone()), 0);
        }
        let [key, counter] = x.to_vec::<i64>()[..] else {
            unreachable!("a position is two numbers")
        };
        Self::Known(key as u64, counter as u64)
    }

    pub(crate) fn array(&self) -> Array {
        match self {
            Self::Known(key, counter) => Array::from([*key as i64, *counter as i64]),
            Self::Traced(x, 0) => (**x).clone(),
            Self::Traced(x, ahead) => &**x + &Array::from([0, *ahead as i64]),
        }
    }

    /// The position behind this number of blocks.
    pub(crate) fn behind(&self, blocks: u64) -> Self {
        match self {
            Self::Known(key, counter) => Self::Known(*key, counter.wrapping_add(blocks)),
            Self::Traced(x, ahead) => Self::Traced(x.clone(), ahead.wrapping_add(blocks)),
        }
    }
}

/// How the draws on a thread are treated. Layers nest.
enum Layer {
    Recording(Vec<Position>),
    Repeating { draws: Vec<Position>, next: usize },
}

thread_local! {
    static LAYERS: RefCell<Vec<Layer>> = const { RefCell::new(Vec::new()) };
    static ARE_ANY: Cell<bool> = const { Cell::new(false) };
}

impl Draws {
    /// Runs `f` and returns its result and its draws.
    pub fn record<T>(f: impl FnOnce() -> T) -> (T, Self) {
        let layer = Inside::of(Layer::Recording(Vec::new()));
        let result = f();
        let Layer::Recording(draws) = layer.end() else {
            unreachable!("layers end in order")
        };
        (result, Self(draws))
    }

    /// Returns whether all positions are computed by a program that is being traced, so that the draws are
    /// others in every run.
    pub fn are_traced(&self) -> bool {
        let is_traced = |position: &Position| matches!(position, Position::Traced(..));
        self.0.iter().all(is_traced)
    }

    /// Runs `f` with the numbers of these draws in place of its own. The generators that it draws
    /// from do not advance.
    ///
    /// # Panics
    /// Panics if `f` draws more often than there are draws.
    pub fn repeat<T>(&self, f: impl FnOnce() -> T) -> T {
        let draws = self.0.clone();
        let _layer = Inside::of(Layer::Repeating { draws, next: 0 });
        f()
    }
}

/// Runs `f`, whose draws are neither recorded nor repeated, because the positions that it draws from
/// are computed from its arguments.
pub fn undrawn<T>(f: impl FnOnce() -> T) -> T {
    let _layers = put_aside();
    f()
}

/// A layer in force. It ends when this is dropped, also by a panic.
struct Inside;

impl Inside {
    fn of(layer: Layer) -> Self {
        LAYERS.with_borrow_mut(|layers| layers.push(layer));
        ARE_ANY.set(true);
        Self
    }

    fn end(self) -> Layer {
        mem::forget(self);
        pop()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        pop();
    }
}

fn pop() -> Layer {
    LAYERS.with_borrow_mut(|layers| {
        ARE_ANY.set(layers.len() > 1);
        layers.pop().expect("layers end in order")
    })
}

/// The position from which a generator at the position `own` draws, and whether the generator
/// advances.
#[track_caller]
pub(crate) fn position(own: &Position) -> (Position, bool) {
    if !ARE_ANY.get() {
        return (own.clone(), true);
    }
    let found = LAYERS.with_borrow_mut(|layers| {
        let answers = |layer: &Layer| matches!(layer, Layer::Repeating { .. });
        let at = layers.iter().rposition(answers);
        let (position, moves) = match at.map(|at| &mut layers[at]) {
            None | Some(Layer::Recording(_)) => (own.clone(), true),
            Some(Layer::Repeating { draws, next }) => {
                let position = draws.get(*next)?.clone();
                *next += 1;
                (position, false)
            }
        };
        for layer in &mut layers[at.map_or(0, |at| at + 1)..] {
            if let Layer::Recording(draws) = layer {
                draws.push(position.clone());
            }
        }
        Some((position, moves))
    });
    found.unwrap_or_else(|| {
        let what = "a function that is run again draws more often than the first time; it must do \
                    the same each time";
        raise(Error::invalid("Draws::repeat", what))
    })
}

/// Puts the layers aside until the result is dropped.
pub(crate) fn put_aside() -> impl Drop {
    struct PutBack(Vec<Layer>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            ARE_ANY.set(!self.0.is_empty());
            LAYERS.set(mem::take(&mut self.0));
        }
    }
    ARE_ANY.set(false);
    PutBack(LAYERS.take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, attempt};

    fn toss(generator: &mut Generator) -> Vec<i64> {
        generator.integers(0, i64::MAX, 2).to_vec()
    }

    #[test]
    fn recordings_and_repetitions_nest() {
        let mut g = Generator::new(1);
        let ((first, inner), outer) = Draws::record(|| {
            let first = toss(&mut g);
            (first, Draws::record(|| toss(&mut g)))
        });
        let after = g.clone();
        // A recording inside a repetition records the draws that are repeated.
        let again = outer.repeat(|| (toss(&mut g), Draws::record(|| toss(&mut g))));
        assert_eq!((first, inner.clone()), again);
        assert_eq!(inner.1.repeat(|| toss(&mut g)), inner.0);
        // A repetition inside a recording adds nothing to it.
        let (_, none) = Draws::record(|| inner.1.repeat(|| toss(&mut g)));
        assert_eq!((none, g.clone()), (Draws::default(), after));
        let more = attempt::<_, Error>(|| inner.1.repeat(|| (toss(&mut g), toss(&mut g))));
        assert!(more.unwrap_err().to_string().contains("more often"));
        assert_eq!(Draws::record(|| toss(&mut g)).1.0.len(), 1);
    }
}
