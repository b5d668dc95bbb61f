//! The pass over the memory of a parameter.

use std::ops::Range;

use bibun_array::Array;

use super::rule::Real;

/// How many elements are worked on at a time where a gradient has to be changed first: few enough
/// for a copy on the stack that stays in the processor's first cache.
const BLOCK: usize = 2048;

/// Calls `f` with pieces of an array in row-major order: with all of it where it lies so, else with
/// blocks that are gathered one at a time.
pub(super) fn for_each_piece<T: Real>(x: &Array, f: &mut impl FnMut(Range<usize>, &[T])) {
    fn pieces<T: Real>(x: &Array, start: usize, f: &mut impl FnMut(Range<usize>, &[T])) {
        let range = start..start + x.size();
        match x.as_slice() {
            Some(elements) => f(range, elements),
            None if x.size() <= BLOCK => f(range, &x.to_vec()),
            None => {
                // Before the first axis that is not of size 1, halves follow each other.
                let axis = x.shape().iter().position(|&size| size > 1).unwrap_or(0);
                let mut start = start;
                for half in x.array_split(2, axis as isize) {
                    pieces(&half, start, f);
                    start += half.size();
                }
            }
        }
    }
    pieces(x, 0, f);
}

/// [`for_each_piece`] with copies of at most [`BLOCK`] elements, which may be changed.
pub(super) fn for_each_copied<T: Real>(x: &Array, f: &mut impl FnMut(Range<usize>, &mut [T])) {
    let mut buffer = [T::ZERO; BLOCK];
    for_each_piece(x, &mut |range, piece: &[T]| {
        let mut start = range.start;
        for block in piece.chunks(BLOCK) {
            let copy = &mut buffer[..block.len()];
            copy.copy_from_slice(block);
            f(start..start + block.len(), copy);
            start += block.len();
        }
    });
}

/// `Σ x²`, in f64.
pub(super) fn sum_of_squares<T: Real>(x: &[T]) -> f64 {
    let square = |x: T| x.to_f64() * x.to_f64();
    // Sums that do not wait for each other.
    let mut sums = [0.0; 8];
    let chunks = x.chunks_exact(sums.len());
    let rest: f64 = chunks.remainder().iter().map(|&x| square(x)).sum();
    for chunk in chunks {
        for (sum, &x) in sums.iter_mut().zip(chunk) {
            *sum += square(x);
        }
    }
    sums.iter().sum::<f64>() + rest
}
