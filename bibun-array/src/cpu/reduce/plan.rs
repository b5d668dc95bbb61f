//! The elements of each result.

use smallvec::SmallVec;

use crate::cpu::elementwise::Steps;
use crate::shape::{Layout, Shape};

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
}
