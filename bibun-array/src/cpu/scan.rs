//! Running sums and products, by the folds of reductions: one result after every element.

use std::array::from_fn;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::dispatch_short;
use super::index::spread;
use super::reduce::{Fold, Product, Sum};
use super::threads::{Sharing, chunks, for_each};
use crate::device::Scan;
use crate::dtype::Accumulator;
use crate::{Array, Element};

/// Computes the running reduction along `axis` of `x`.
pub(super) fn scan(scan: Scan, x: &Array, axis: usize) -> Array {
    // A dense array is processed in its memory order, which is then that of the result.
    let mut order: SmallVec<[usize; 4]> = (0..x.rank()).collect();
    if x.inline().is_none() && x.layout().is_dense() {
        order = x.layout().order();
    }
    let signed = |axes: &[usize]| {
        axes.iter()
            .map(|&a| a as isize)
            .collect::<SmallVec<[_; 4]>>()
    };
    let place = |axis| {
        order
            .iter()
            .position(|&a| a == axis)
            .expect("an order has all axes")
    };
    let places: SmallVec<[usize; 4]> = (0..x.rank()).map(place).collect();

    let (moved, axis) = (x.permute(&signed(&order)), places[axis]);
    let y = match (scan, x.dtype().computed()) {
        (Scan::Sum, Accumulator::I64) => run::<i64, Sum<i64>>(&moved, axis),
        (Scan::Sum, Accumulator::F32) => run::<f32, Sum<f32>>(&moved, axis),
        (Scan::Sum, Accumulator::F64) => run::<f64, Sum<f64>>(&moved, axis),
        (Scan::Product, Accumulator::I64) => run::<i64, Product<i64>>(&moved, axis),
        (Scan::Product, Accumulator::F32) => run::<f32, Product<f32>>(&moved, axis),
        (Scan::Product, Accumulator::F64) => run::<f64, Product<f64>>(&moved, axis),
        (_, Accumulator::Bool) => unreachable!("the caller converts bool"),
        (_, Accumulator::C64 | Accumulator::C128) => crate::dtype::not_complex(),
    };
    y.permute(&signed(&places))
}

/// The running reduction as a row-major array.
fn run<T: Element, F: Fold<Input = T, Output = T>>(x: &Array, axis: usize) -> Array {
    let (length, shape) = (x.shape()[axis], x.shape().clone());
    let width: usize = shape[axis + 1..].iter().product();
    if x.size() == 0 {
        return x.clone();
    }
    let x = spread(x);
    let x = x.host_slice::<T>();
    Array::filled_by(shape, |out: &mut [T]| {
        let sharing = Sharing::of(out.len());
        let size = length * width * if width == 1 { SIDE } else { 1 };
        for_each(chunks(out, size), sharing, 1, &|i, out| {
            let block = Block::<F> {
                x: &x[i * size..][..out.len()],
                out,
                length,
                width,
            };
            match const { F::SELDOM } {
                true => dispatch_short(block),
                false => Arch::new().dispatch(block),
            }
        });
    })
}

/// The number of rows of single numbers that are added up side by side, because each number waits for
/// the one before it.
const SIDE: usize = 8;

/// Rows that are added up, each to the next; of one number each, up to [`SIDE`] times `length` of them.
struct Block<'a, F: Fold> {
    x: &'a [F::Input],
    out: &'a mut [F::Output],
    length: usize,
    width: usize,
}

impl<T: Element, F: Fold<Input = T, Output = T>> NullaryFnOnce for Block<'_, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            x,
            out,
            length,
            width,
        } = self;
        let next = |total: &mut F::Total, x: T| {
            *total = F::collect(*total, F::add(F::START, x));
            F::finish(*total, 1)
        };
        if width > 1 {
            let mut totals = vec![F::EMPTY; width];
            for (row, out) in x.chunks(width).zip(out.chunks_mut(width)) {
                for ((total, &x), out) in totals.iter_mut().zip(row).zip(out) {
                    *out = next(total, x);
                }
            }
            return;
        }
        let (mut x, mut out) = (x.chunks_exact(length), out.chunks_exact_mut(length));
        if x.len() < SIDE {
            for (x, out) in x.zip(out) {
                let mut total = F::EMPTY;
                for (&x, out) in x.iter().zip(out) {
                    *out = next(&mut total, x);
                }
            }
            return;
        }
        let counted = "they were counted";
        let x: [&[T]; SIDE] = from_fn(|_| x.next().expect(counted));
        let out: [&mut [T]; SIDE] = from_fn(|_| out.next().expect(counted));
        let mut totals = [F::EMPTY; SIDE];
        let (x, mut out) = (
            x.map(|row| row.as_chunks::<SIDE>()),
            out.map(|row| row.as_chunks_mut::<SIDE>()),
        );
        // Squares, whose transposes are loaded and stored as whole vectors.
        for i in 0..length / SIDE {
            let rows: [[T; SIDE]; SIDE] = from_fn(|row| x[row].0[i]);
            let mut columns: [[T; SIDE]; SIDE] = from_fn(|column| from_fn(|row| rows[row][column]));
            for column in &mut columns {
                for (total, x) in totals.iter_mut().zip(column) {
                    *x = next(total, *x);
                }
            }
            for (row, out) in out.iter_mut().enumerate() {
                out.0[i] = from_fn(|column| columns[column][row]);
            }
        }
        for i in 0..length % SIDE {
            for (row, out) in out.iter_mut().enumerate() {
                out.1[i] = next(&mut totals[row], x[row].1[i]);
            }
        }
    }
}
