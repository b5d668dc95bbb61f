//! Sorting by integers that have the order of the elements, with the position in their lower bits:
//! no two are equal, so a fast unstable sort produces the stable order.

use std::borrow::Cow;

use rayon::prelude::*;

use super::threads::{chunks, for_each};
use super::worth_threads;
use crate::dtype::with_accumulator;
use crate::{Array, Element};

/// The positions along `axis` of the first `count` elements in order.
pub(super) fn argsort(x: &Array, axis: usize, descending: bool, count: usize) -> Array {
    let rows = x.moveaxis(axis as isize, -1);
    let positions = with_accumulator!(x.dtype(), T => sort_rows::<T>(&rows, descending, count));
    positions.moveaxis(-1, axis as isize)
}

/// An element that can be sorted.
trait Sortable: Element {
    /// An integer with room for a rank and a position.
    type Entry: Copy + Ord + Send;
    /// An entry that orders as the element does (NaN last), or in reverse if `descending`, and then
    /// by position.
    fn entry(self, position: usize, descending: bool) -> Self::Entry;
    /// The position in an entry.
    fn position(entry: Self::Entry) -> i64;
}

/// Stores the rank of an element, a `$rank`, and its position in one integer of type `$entry`.
macro_rules! sortable {
    ($($type:ty, $rank:ty => $entry:ty, |$x:ident| $order:expr;)*) => {$(
        impl Sortable for $type {
            type Entry = $entry;
            #[inline]
            fn entry(self, position: usize, descending: bool) -> $entry {
                let $x = self;
                let rank: $rank = $order;
                let rank = if descending { !rank } else { rank };
                <$entry>::from(rank) << <$rank>::BITS | position as $entry
            }
            #[inline]
            fn position(entry: $entry) -> i64 {
                (entry & <$entry>::from(<$rank>::MAX)) as i64
            }
        }
    )*};
}
sortable! {
    bool, u64 => u128, |x| u64::from(x);
    i64, u64 => u128, |x| x.cast_unsigned() ^ (1 << 63);
    f32, u64 => u128, |x| float_rank(f64::from(x));
    f64, u64 => u128, |x| float_rank(x);
}

/// An integer that orders as floats do, with all NaN equal and after infinity, and both zeros
/// equal.
#[inline]
fn float_rank(x: f64) -> u64 {
    if x.is_nan() {
        return u64::MAX;
    }
    let bits = (x + 0.0).to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

fn sort_rows<T: Sortable>(x: &Array, descending: bool, count: usize) -> Array {
    let length = x.shape()[x.rank() - 1];
    let shape = x.shape().replaced(x.rank() - 1, count);
    let elements = match x.as_slice::<T>() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(x.to_vec::<T>()),
    };
    Array::filled_by(shape, |out: &mut [i64]| {
        if out.is_empty() {
            return;
        }
        let rows = out.len() / count;
        // The approximate time of comparing and moving, in nanoseconds.
        let work = |entries: usize| entries * (entries.max(2).ilog2() as usize) * 2;
        let sort_row = |(row, out): (&[T], &mut [i64]), threads: bool| {
            let mut entries: Vec<T::Entry> = (row.iter().enumerate())
                .map(|(i, &x)| x.entry(i, descending))
                .collect();
            if count < length {
                entries.select_nth_unstable(count);
                entries.truncate(count);
            }
            match threads {
                true => entries.par_sort_unstable(),
                false => entries.sort_unstable(),
            }
            for (y, &entry) in out.iter_mut().zip(&entries) {
                *y = T::position(entry);
            }
        };
        let pairs = elements.chunks(length).zip(out.chunks_mut(count));
        if !worth_threads(rows * work(length)) {
            pairs.for_each(|pair| sort_row(pair, false));
        } else if rows < rayon::current_num_threads() {
            pairs.for_each(|pair| sort_row(pair, true));
        } else {
            for_each(chunks(out, count), true, 1, &|i, out| {
                sort_row((&elements[i * length..][..length], out), false);
            });
        }
    })
}
