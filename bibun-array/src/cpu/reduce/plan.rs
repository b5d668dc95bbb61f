//! The elements of each result, and the parts in which they are taken.

use smallvec::SmallVec;

use super::BLOCK;
use crate::cpu::elementwise::PARALLEL;
use crate::cpu::steps::Steps;
use crate::shape::{Layout, Shape};

/// The number of results that a fold computes at once: their parts fit the first-level cache.
pub(super) const TILE: usize = 4096;
/// The number of pieces into which the elements of a few large results are split.
const PIECES: usize = 16;

/// The elements of each result.
pub(super) struct Plan {
    /// The first elements of the results, in the memory order of the results.
    pub(super) kept: Steps,
    /// The walk from the first element of a result to its others.
    pub(super) reduced: Steps,
    /// Whether neighbouring results are closer in memory than the elements of one result.
    pub(super) across: bool,
    /// The number of equal elements for which each element that is read stands.
    pub(super) repeats: usize,
    /// The sizes of the results in memory order.
    pub(super) shape: Shape,
    /// The layout of the results in that memory.
    pub(super) layout: Layout,
    /// Whether some axis of the result is reversed in memory.
    pub(super) flipped: bool,
}

impl Plan {
    /// The plan for an array that is not empty.
    pub(super) fn new(x: &Layout, axes: &[usize]) -> Self {
        /// An axis of the array: size, step and place in the result.
        type Axis = (usize, usize, usize);
        let mut kept: SmallVec<[Axis; 4]> = SmallVec::new();
        let mut reduced: SmallVec<[Axis; 4]> = SmallVec::new();
        let (mut first, mut repeats, mut flips) = (x.offset, 1, SmallVec::<[usize; 4]>::new());
        let shape = x.shape.reduced(axes, false);
        let mut place = 0;
        for (axis, (&size, &step)) in x.shape.iter().zip(x.strides.iter()).enumerate() {
            let is_reduced = axes.contains(&axis);
            if size > 1 && step < 0 {
                first = first.wrapping_add_signed((size - 1) as isize * step);
            }
            if is_reduced {
                match step {
                    0 => repeats *= size,
                    _ if size == 1 => {}
                    _ => reduced.push((size, step.unsigned_abs(), 0)),
                }
                continue;
            }
            if size > 1 && step != 0 {
                kept.push((size, step.unsigned_abs(), place));
                if step < 0 {
                    flips.push(place);
                }
            }
            place += 1;
        }
        kept.sort_by_key(|&(_, step, _)| std::cmp::Reverse(step));
        reduced.sort_by_key(|&(_, step, _)| std::cmp::Reverse(step));

        let across = match (kept.last(), reduced.last()) {
            (Some(kept), Some(reduced)) => kept.1 < reduced.1,
            (kept, _) => kept.is_some(),
        };
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.rank());
        let mut offset = 0;
        let mut step = 1;
        for &(size, _, place) in kept.iter().rev() {
            strides[place] = step;
            if flips.contains(&place) {
                offset += (size - 1) * step as usize;
                strides[place] = -step;
            }
            step *= size as isize;
        }
        let layout = Layout {
            shape,
            strides: strides.into_iter().collect(),
            offset,
        };
        let steps = |axes: &[Axis], offset| {
            Steps::new(&Layout {
                shape: axes.iter().map(|axis| axis.0).collect(),
                strides: axes.iter().map(|axis| axis.1 as isize).collect(),
                offset,
            })
        };
        Self {
            across,
            repeats,
            shape: kept.iter().map(|axis| axis.0).collect(),
            layout,
            flipped: !flips.is_empty(),
            reduced: steps(&reduced, 0),
            kept: steps(&kept, first),
        }
    }

    /// The number of results that are computed at once.
    pub(super) fn tile(&self) -> usize {
        let at_once = (PARALLEL * 2 / self.reduced.len()).max(1);
        match (self.across, self.row()) {
            (true, row) if row < self.kept.len() => at_once.next_multiple_of(row).min(TILE),
            (true, _) => TILE,
            (false, _) => at_once.min(TILE),
        }
    }

    /// The number of neighbouring results that are folded across memory together.
    fn row(&self) -> usize {
        self.kept.inner().0
    }

    /// See [`piece`].
    pub(super) fn piece(&self) -> usize {
        let (depth, results) = (self.reduced.len(), self.kept.len());
        match self.across && results / self.row() >= PIECES {
            true => depth,
            false => piece(self.across, depth, results),
        }
    }
}

/// The number of elements of a result that are reduced before it is merged: few results of many
/// elements are split into pieces, which are merged in order.
pub(super) fn piece(across: bool, depth: usize, results: usize) -> usize {
    let piece = match across {
        true => depth.div_ceil(PIECES),
        false => depth.div_ceil(PIECES).max(BLOCK),
    };
    // Sums depend on this: it says nothing of how many results are computed at once.
    let together = match across {
        true => TILE,
        false => (PARALLEL / 4 / depth).clamp(1, TILE),
    };
    let are_few = results.div_ceil(together) < PIECES;
    match results * depth >= PARALLEL && are_few {
        true => piece.min(depth),
        false => depth,
    }
}
