//! Copies of transposed arrays, square by square.

use pulp::bytemuck::{cast_slice, cast_slice_mut};
use pulp::{Arch, Simd, WithSimd};
use smallvec::SmallVec;

use super::steps::Steps;
use super::tile::{Float, SQUARE, transpose_square, transposed};
use crate::storage::Word;

/// The copy of elements of which those along `axis` are neighbours in memory, and those along the last axis are far
/// apart.
pub(super) struct Transpose<'a, T> {
    pub(super) memory: &'a [T],
    pub(super) steps: &'a Steps,
    pub(super) axis: usize,
    pub(super) out: &'a mut [T],
}

/// Words that are copied in squares.
pub(super) trait Transposed: Word {
    fn transpose(copy: Transpose<'_, Self>);
}

macro_rules! transposed_words {
    ($($word:ty),*) => {$(
        impl Transposed for $word {
            fn transpose(copy: Transpose<'_, Self>) {
                copy.by(pulp::Scalar, One);
            }
        }
    )*};
    ($($word:ty as $float:ty),*) => {$(
        impl Transposed for $word {
            fn transpose(copy: Transpose<'_, Self>) {
                let Transpose { memory, steps, axis, out } = copy;
                Arch::new().dispatch(Transpose::<$float> {
                    memory: cast_slice(memory),
                    steps,
                    axis,
                    out: cast_slice_mut(out),
                });
            }
        }
    )*};
}
transposed_words!(bool, u8, u16, u128);
transposed_words!(u32 as f32, u64 as f64);

impl<T: Float> WithSimd for Transpose<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.by(simd, Vectors);
    }
}

impl<T: Copy> Transpose<'_, T> {
    #[inline(always)]
    fn by<S: Simd>(self, simd: S, squares: impl Squares<T>) {
        let Self {
            memory,
            steps,
            axis,
            out,
        } = self;
        let Steps {
            sizes,
            strides,
            offset,
        } = steps;
        if out.is_empty() {
            return;
        }
        let last = sizes.len() - 1;
        let inner: usize = sizes[axis + 1..].iter().product();
        let mut plane = Plane {
            memory,
            first: 0,
            step: strides[last],
            rows: sizes[axis],
            columns: sizes[last],
        };
        let order = Order::of(&plane, inner);
        let mut room = match order {
            Order::Room => vec![memory[0]; Plane::<T>::HEIGHT * ROOM_STEP],
            Order::Columns | Order::Rows => Vec::new(),
        };
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, sizes.len());
        loop {
            plane.first = *offset as isize;
            let mut to = 0;
            for (i, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
                plane.first += index[i] as isize * stride;
                to = to * size + index[i];
            }
            let out = (&mut out[to..], inner);
            match order {
                Order::Columns => plane.by_columns(simd, &squares, out),
                Order::Rows => plane.by_rows(simd, &squares, out),
                Order::Room => plane.by_way_of(&mut room, simd, &squares, out),
            }
            let others = (0..last).rev().filter(|&i| i != axis);
            let mut is_done = true;
            for i in others {
                index[i] += 1;
                if index[i] < sizes[i] {
                    is_done = false;
                    break;
                }
                index[i] = 0;
            }
            if is_done {
                return;
            }
        }
    }
}

/// The order in which a plane is copied, by squares.
// PERF: lines whose addresses differ by a large power of two share few places in the nearest caches. What is close to
// each other is read, or written, one after the other where that is less so.
#[derive(Clone, Copy)]
enum Order {
    /// Along the columns, as they are read.
    Columns,
    /// Along the rows, as they are written.
    Rows,
    /// Along the rows of parts, which are written to memory that is not so spread, and from there as a whole.
    Room,
}

impl Order {
    /// The order for rows that are written so many elements apart.
    fn of<T>(plane: &Plane<'_, T>, out_step: usize) -> Self {
        let spread = |step: usize| 1 << (step * size_of::<T>()).trailing_zeros();
        let (row, column) = (spread(out_step), spread(plane.step.unsigned_abs()));
        match row {
            4096.. if plane.rows > SQUARE => Self::Room,
            1024.. if row > column => Self::Rows,
            _ => Self::Columns,
        }
    }
}

/// The most columns of which the rows are written before those of further ones.
const PANEL: usize = 512;

/// The columns of a part, and the distance of its rows.
const ROOM: usize = 128;
const ROOM_STEP: usize = ROOM + SQUARE;

/// Columns that are `step` apart from the first, whose elements are neighbours in memory.
#[derive(Clone, Copy)]
struct Plane<'a, T> {
    memory: &'a [T],
    first: isize,
    step: isize,
    rows: usize,
    columns: usize,
}

impl<T: Copy> Plane<'_, T> {
    /// The rows of a part: some lines of each column.
    const HEIGHT: usize = match 256 / size_of::<T>() {
        ..SQUARE => SQUARE,
        rows @ SQUARE..64 => rows,
        64.. => 64,
    };

    /// Writes the rows `out_step` elements apart, in the order of [`Order::Columns`].
    #[inline(always)]
    fn by_columns<S: Simd>(
        &self,
        simd: S,
        squares: &impl Squares<T>,
        (out, out_step): (&mut [T], usize),
    ) {
        for column in (0..self.columns).step_by(SQUARE) {
            for row in (0..self.rows).step_by(SQUARE) {
                self.square(simd, squares, [row, column], (out, out_step));
            }
        }
    }

    /// The same in the order of [`Order::Rows`].
    #[inline(always)]
    fn by_rows<S: Simd>(
        &self,
        simd: S,
        squares: &impl Squares<T>,
        (out, out_step): (&mut [T], usize),
    ) {
        for panel in (0..self.columns).step_by(PANEL) {
            for row in (0..self.rows).step_by(SQUARE) {
                for column in (panel..self.columns.min(panel + PANEL)).step_by(SQUARE) {
                    self.square(simd, squares, [row, column], (out, out_step));
                }
            }
        }
    }

    /// The same in the order of [`Order::Room`].
    #[inline(always)]
    fn by_way_of<S: Simd>(
        &self,
        room: &mut [T],
        simd: S,
        squares: &impl Squares<T>,
        (out, out_step): (&mut [T], usize),
    ) {
        for column in (0..self.columns).step_by(ROOM) {
            for row in (0..self.rows).step_by(Self::HEIGHT) {
                let part = Self {
                    first: self.first + row as isize + column as isize * self.step,
                    rows: Self::HEIGHT.min(self.rows - row),
                    columns: ROOM.min(self.columns - column),
                    ..*self
                };
                part.by_rows(simd, squares, (room, ROOM_STEP));
                for i in 0..part.rows {
                    let out = &mut out[(row + i) * out_step + column..][..part.columns];
                    out.copy_from_slice(&room[i * ROOM_STEP..][..part.columns]);
                }
            }
        }
    }

    /// Copies a square, or what there is of it.
    #[inline(always)]
    fn square<S: Simd>(
        &self,
        simd: S,
        squares: &impl Squares<T>,
        [row, column]: [usize; 2],
        (out, out_step): (&mut [T], usize),
    ) {
        let first = self.first + row as isize + column as isize * self.step;
        let out = &mut out[row * out_step + column..];
        let (high, wide) = (
            SQUARE.min(self.rows - row),
            SQUARE.min(self.columns - column),
        );
        if high == SQUARE && wide == SQUARE {
            return squares.transpose(simd, (self.memory, first, self.step), (out, out_step));
        }
        for i in 0..high {
            for j in 0..wide {
                let place = first + i as isize + j as isize * self.step;
                out[i * out_step + j] = self.memory[place as usize];
            }
        }
    }
}

/// How a square is transposed, whose columns are neighbours in memory, `step` apart from the first, and rows in the result.
trait Squares<T> {
    fn transpose<S: Simd>(&self, simd: S, from: (&[T], isize, isize), to: (&mut [T], usize));
}

/// One word after the other.
struct One;

impl<T: Copy> Squares<T> for One {
    #[inline(always)]
    fn transpose<S: Simd>(
        &self,
        _: S,
        (memory, first, step): (&[T], isize, isize),
        (out, out_step): (&mut [T], usize),
    ) {
        let columns: [&[T; SQUARE]; SQUARE] = std::array::from_fn(|j| {
            let start = (first + j as isize * step) as usize;
            memory[start..].first_chunk().expect("the square has rows")
        });
        let square = columns.map(|column| *column);
        for i in 0..SQUARE {
            let row = out[i * out_step..].first_chunk_mut::<SQUARE>();
            let row = row.expect("the square has columns");
            for j in 0..SQUARE {
                row[j] = square[j][i];
            }
        }
    }
}

/// By exchanges of vectors.
struct Vectors;

impl<T: Float> Squares<T> for Vectors {
    #[inline(always)]
    fn transpose<S: Simd>(
        &self,
        simd: S,
        (memory, first, step): (&[T], isize, isize),
        (out, out_step): (&mut [T], usize),
    ) {
        let column = |j: usize| &memory[(first + j as isize * step) as usize..];
        if T::lanes::<S>() == SQUARE {
            let square = transposed::<S, T>(simd, column);
            for i in 0..SQUARE {
                T::store::<S>(&mut out[i * out_step..], square[i]);
            }
            return;
        }
        let mut square = [[T::ZERO; SQUARE]; SQUARE];
        transpose_square::<S, T>(simd, column, &mut square);
        for (i, row) in square.iter().enumerate() {
            out[i * out_step..][..SQUARE].copy_from_slice(row);
        }
    }
}
