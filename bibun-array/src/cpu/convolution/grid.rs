//! Positions in vectors.

use std::ops::Range;

use crate::cpu::tile::Lane;

/// The cost of copying a vector, in multiplications of two vectors, and that of a part of one.
pub(super) const COPY: usize = 5;
const SPREAD: usize = 16;

/// Positions that are neighbours where they are read.
pub(super) struct Piece {
    /// The first one's place in its vector.
    pub(super) lane: usize,
    pub(super) len: usize,
    /// The places where it is read and where it is written.
    pub(super) start: usize,
    pub(super) place: usize,
}

/// Positions of one or more examples, in vectors.
#[derive(Default)]
pub(super) struct Grid {
    pub(super) vectors: Vec<Vector>,
    pub(super) pieces: Vec<Piece>,
}

pub(super) struct Vector {
    pub(super) lane: Lane,
    /// Whether its positions are neighbours where they are written.
    pub(super) whole: bool,
    pub(super) pieces: Range<usize>,
}

/// Rows of positions: the places where they are read and written, their length, and the step between
/// neighbours where they are written.
pub(super) struct PositionRows {
    pub(super) rows: Vec<[usize; 2]>,
    pub(super) len: usize,
    /// The step between neighbours where they are read, which is 1 for vectors of positions.
    pub(super) read: usize,
    pub(super) step: usize,
}

impl PositionRows {
    /// Returns the rows of several examples that are `steps` apart.
    pub(super) fn all(
        &self,
        examples: usize,
        steps: [usize; 2],
    ) -> impl Iterator<Item = [usize; 2]> {
        (0..examples).flat_map(move |example| {
            let rows = self.rows.iter();
            rows.map(move |&[start, place]| {
                [start + example * steps[0], place + example * steps[1]]
            })
        })
    }

    /// Returns vectors of positions of one row.
    pub(super) fn apart(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        for [start, place] in self.all(examples, steps) {
            for first in (0..self.len).step_by(lanes) {
                let piece = Piece {
                    lane: 0,
                    len: lanes.min(self.len - first),
                    start: start + first,
                    place: place + first * self.step,
                };
                grid.push(piece, self.step);
            }
        }
        grid
    }

    /// Returns vectors of positions of rows at even distances, with the elements between them.
    pub(super) fn flat(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        let (mut begin, mut end) = (0, 0);
        for [start, place] in self.all(examples, steps) {
            let mut first = 0;
            while first < self.len {
                let at = start + first;
                if at >= end {
                    (begin, end) = (at, at + lanes);
                }
                let piece = Piece {
                    lane: at - begin,
                    len: (end - at).min(self.len - first),
                    start: at,
                    place: place + first * self.step,
                };
                first += piece.len;
                grid.push(piece, self.step);
            }
        }
        grid
    }

    /// Returns vectors of positions of any rows.
    pub(super) fn gathered(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        let mut lane = 0;
        for [start, place] in self.all(examples, steps) {
            let mut first = 0;
            while first < self.len {
                let piece = Piece {
                    lane,
                    len: (lanes - lane).min(self.len - first),
                    start: start + first,
                    place: place + first * self.step,
                };
                first += piece.len;
                lane = (lane + piece.len) % lanes;
                grid.push(piece, self.step);
            }
        }
        grid
    }
}

impl Grid {
    fn push(&mut self, piece: Piece, step: usize) {
        match self.vectors.last_mut() {
            Some(vector) if piece.lane > 0 => {
                let place = vector.lane.place + piece.lane;
                vector.whole &= vector.lane.len == piece.lane && piece.place == place;
                vector.lane.len = piece.lane + piece.len;
                vector.pieces.end += 1;
            }
            _ => self.vectors.push(Vector {
                lane: Lane {
                    start: piece.start,
                    place: piece.place,
                    len: piece.len,
                },
                whole: step == 1,
                pieces: self.pieces.len()..self.pieces.len() + 1,
            }),
        }
        self.pieces.push(piece);
    }

    /// Returns the cost of its tiles, in multiplications of two vectors, with this number of rows and of
    /// products in each.
    pub(super) fn cost(&self, rows: usize, depth: usize, gathered: bool) -> usize {
        let copies = if gathered { self.pieces.len() } else { 0 };
        let spread = self.vectors.iter().filter(|vector| !vector.whole);
        let spread: usize = spread.map(|vector| vector.pieces.len()).sum();
        (self.vectors.len() * rows + copies * COPY) * depth + spread * rows * SPREAD
    }
}
