//! Running sums and products, by the folds of reductions: one result after every element.

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::index::spread;
use super::reduce::{Fold, Product, Sum};
use super::threads::{chunks, for_each};
use super::{dispatch_seldom, elementwise, worth_threads};
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
    let width: usize = x.shape()[axis + 1..].iter().product();
    let mut y = match x.inline() {
        Some(_) => spread(x),
        None => elementwise::copy(x),
    };
    if y.size() > 0 {
        let out = y.as_mut_slice::<T>();
        let threads = worth_threads(out.len());
        let length = x.shape()[axis];
        let block = length * width * if width == 1 { SIDE } else { 1 };
        for_each(chunks(out, block), threads, 1, &|_, block| {
            let block = Block::<F> {
                block,
                length,
                width,
            };
            match const { F::SELDOM } {
                true => dispatch_seldom(block),
                false => Arch::new().dispatch(block),
            }
        });
    }
    y
}

/// The number of rows of single numbers that are added up side by side, because each number waits for
/// the one before it.
const SIDE: usize = 4;

/// Rows that are added up in place, each to the next; of one number each, up to [`SIDE`] times `length`
/// of them.
struct Block<'a, F: Fold> {
    block: &'a mut [F::Input],
    length: usize,
    width: usize,
}

impl<T: Element, F: Fold<Input = T, Output = T>> NullaryFnOnce for Block<'_, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let next = |total: &mut F::Total, x: &mut T| {
            *total = F::collect(*total, F::add(F::START, *x));
            *x = F::finish(*total, 1);
        };
        if self.width == 1 {
            let mut rows = self.block.chunks_exact_mut(self.length);
            if rows.len() == SIDE {
                let rows: [&mut [T]; SIDE] =
                    std::array::from_fn(|_| rows.next().expect("they were counted"));
                let ([a, b, c, d], mut totals) = (rows, [F::EMPTY; SIDE]);
                for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                    for (total, x) in totals.iter_mut().zip([a, b, c, d]) {
                        next(total, x);
                    }
                }
                return;
            }
            for row in rows {
                let mut total = F::EMPTY;
                row.iter_mut().for_each(|x| next(&mut total, x));
            }
            return;
        }
        let mut totals = vec![F::EMPTY; self.width];
        for row in self.block.chunks_mut(self.width) {
            for (total, x) in totals.iter_mut().zip(row) {
                next(total, x);
            }
        }
    }
}
