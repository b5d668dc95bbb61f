//! Positions at the border, from which some elements of the kernel meet padding.

use std::ops::Range;

use super::memory::{places, steps};

/// The most sets of taps. More of them, as large kernels have, take longer to tell apart than they save.
const SETS: usize = 64;

/// The taps that meet elements from each position along an axis, and not padding.
pub(super) struct AxisMeetings {
    taps: usize,
    /// Different sets of taps, each of neighbours.
    sets: Vec<Range<usize>>,
    /// The set of each position.
    of: Vec<usize>,
}

impl AxisMeetings {
    /// Creates it for so many positions and taps. Those that meet elements are neighbours. If there are many sets,
    /// all taps are taken to meet some.
    pub(super) fn new(positions: usize, taps: usize, meets: impl Fn(usize, usize) -> bool) -> Self {
        let mut sets: Vec<Range<usize>> = Vec::new();
        let mut of = Vec::with_capacity(positions);
        for position in 0..positions {
            let is_met = |&tap: &usize| meets(position, tap);
            let first = (0..taps).find(is_met).unwrap_or(0);
            let last = (first..taps).rfind(is_met);
            let set = first..last.map_or(first, |last| last + 1);
            let known = sets.iter().position(|other| *other == set);
            of.push(known.unwrap_or(sets.len()));
            if known.is_none() {
                sets.push(set);
            }
            if sets.len() > SETS {
                sets.clear();
                sets.push(0..taps);
                of = vec![0; positions];
                break;
            }
        }
        Self { taps, sets, of }
    }
}

/// The taps that meet elements from each position.
pub(super) struct Meetings {
    pub(super) sets: Vec<Vec<usize>>,
    /// The set of each position.
    pub(super) of: Vec<usize>,
}

impl Meetings {
    /// Creates those of all axes, whose taps and positions are numbered with the last axis fastest.
    pub(super) fn new(axes: &[&AxisMeetings]) -> Self {
        let sizes =
            |of: fn(&AxisMeetings) -> usize| axes.iter().map(|axis| of(axis)).collect::<Vec<_>>();
        let taps = steps(&sizes(|axis| axis.taps), 1);
        if !are_few(axes) {
            let all = sizes(|axis| axis.taps).iter().product();
            let positions = sizes(|axis| axis.of.len()).iter().product();
            return Self {
                sets: vec![(0..all).collect()],
                of: vec![0; positions],
            };
        }
        let of_sets = steps(&sizes(|axis| axis.sets.len()), 1);
        let along = axes.iter().zip(&of_sets);
        let of = places(along.map(|(axis, step)| axis.of.iter().map(move |set| set * step)));
        let count: usize = sizes(|axis| axis.sets.len()).iter().product();
        let sets = (0..count).map(|set| {
            let along = axes.iter().zip(&of_sets).zip(&taps);
            places(along.map(|((axis, step), tap)| {
                let set = &axis.sets[set / step % axis.sets.len()];
                set.clone().map(move |i| i * tap)
            }))
        });
        Self {
            sets: sets.collect(),
            of,
        }
    }

    /// The number of elements that all positions meet, without making the sets.
    pub(super) fn count(axes: &[&AxisMeetings]) -> usize {
        let is_told = are_few(axes);
        let along = axes.iter().map(|axis| match is_told {
            true => axis.of.iter().map(|&set| axis.sets[set].len()).sum(),
            false => axis.of.len() * axis.taps,
        });
        along.product()
    }
}

fn are_few(axes: &[&AxisMeetings]) -> bool {
    axes.iter().map(|axis| axis.sets.len()).product::<usize>() <= SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(size: usize, kernel: usize, stride: usize, padding: usize) -> AxisMeetings {
        let positions = (size + 2 * padding - kernel) / stride + 1;
        AxisMeetings::new(positions, kernel, |i, tap| {
            (padding..padding + size).contains(&(i * stride + tap))
        })
    }

    #[test]
    fn each_position_has_the_taps_that_meet_elements() {
        let axes = [axis(7, 3, 1, 1), axis(6, 4, 2, 3)];
        let meetings = Meetings::new(&[&axes[0], &axes[1]]);
        let mut count = 0;
        for row in 0..7 {
            for column in 0..5 {
                let all = (0..3).flat_map(|i| (0..4).map(move |j| (i, j)));
                let met = all.filter(|&(i, j)| {
                    (1..8).contains(&(row + i)) && (3..9).contains(&(2 * column + j))
                });
                let met: Vec<usize> = met.map(|(i, j)| 4 * i + j).collect();
                count += met.len();
                assert_eq!(meetings.sets[meetings.of[5 * row + column]], met);
            }
        }
        assert_eq!(Meetings::count(&[&axes[0], &axes[1]]), count);
    }

    #[test]
    fn positions_without_padding_or_with_many_sets_have_all_taps() {
        let many = axis(1 << 14, 1 << 13, 1, 1 << 12);
        for axis in [
            axis(9, 3, 2, 0),
            axis(60, 90, 1, 50),
            axis(1, 1, 1, 0),
            many,
        ] {
            let meetings = Meetings::new(&[&axis]);
            assert_eq!(meetings.sets, [(0..axis.taps).collect::<Vec<_>>()]);
            assert_eq!(meetings.of, vec![0; axis.of.len()]);
            assert_eq!(Meetings::count(&[&axis]), axis.of.len() * axis.taps);
        }
    }
}
