//! Sorting by integers that have the order of the elements, with the position in their lower bits:
//! no two are equal, so a fast unstable sort produces the stable order. A few first elements are kept in
//! order while a row is read, most of which is passed over by vector instructions.

use std::borrow::Cow;

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;
use smallvec::SmallVec;

use super::threads::{chunks, for_each};
use super::{converted, worth_threads};
use crate::dtype::with_accumulator;
use crate::{Array, DType, Element};

/// The positions along `axis` of the first `count` elements in order.
pub(super) fn argsort(x: &Array, axis: usize, descending: bool, count: usize) -> Array {
    // Entries of f32 have room for positions of 32 bits.
    let long = x.dtype() == DType::F32 && x.shape()[axis] > u32::MAX as usize;
    let x = if long {
        converted(x, DType::F64)
    } else {
        Cow::Borrowed(x)
    };
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
    /// Whether the entry of an element that comes later may be before that of `other`. It is not if
    /// this is false.
    fn may_precede(self, other: Self, descending: bool) -> bool;
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
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN may be before and after all")]
            fn may_precede(self, other: Self, descending: bool) -> bool {
                if descending { !(self <= other) } else { !(self >= other) }
            }
        }
    )*};
}
sortable! {
    bool, u64 => u128, |x| u64::from(x);
    i64, u64 => u128, |x| x.cast_unsigned() ^ (1 << 63);
    f32, u32 => u64, |x| rank_of_single(x);
    f64, u64 => u128, |x| rank_of_double(x);
}

/// Integers that order as floats do, with all NaN equal and after infinity, and both zeros equal.
macro_rules! float_rank {
    ($($name:ident: $float:ident => $rank:ident;)*) => {$(
        #[inline]
        fn $name(x: $float) -> $rank {
            let bits = (x + 0.0).to_bits();
            let rank = match bits >> ($rank::BITS - 1) {
                0 => bits | 1 << ($rank::BITS - 1),
                _ => !bits,
            };
            if x.is_nan() { $rank::MAX } else { rank }
        }
    )*};
}
float_rank! {
    rank_of_single: f32 => u32;
    rank_of_double: f64 => u64;
}

/// Up to as many entries are kept in order while a row is read.
const FEW: usize = 32;
/// The number of elements among which there is none of the first ones, most of the time.
const BLOCK: usize = 64;

/// The first entries of a row, in order.
struct First<'a, T: Sortable> {
    row: &'a [T],
    count: usize,
    descending: bool,
}

impl<T: Sortable> NullaryFnOnce for First<'_, T> {
    type Output = SmallVec<[T::Entry; FEW]>;
    #[inline(always)]
    fn call(self) -> Self::Output {
        let Self {
            row,
            count,
            descending,
        } = self;
        let (start, rest) = row.split_at(count);
        let entries = start
            .iter()
            .enumerate()
            .map(|(i, &x)| x.entry(i, descending));
        let mut first: Self::Output = entries.collect();
        first.sort_unstable();
        for (i, block) in rest.chunks(BLOCK).enumerate() {
            let last = |first: &Self::Output| row[T::position(first[count - 1]) as usize];
            let mut worst = last(&first);
            let mut any = false;
            for &x in block {
                any |= x.may_precede(worst, descending);
            }
            if !any {
                continue;
            }
            for (k, &x) in block.iter().enumerate() {
                if !x.may_precede(worst, descending) {
                    continue;
                }
                let entry = x.entry(count + i * BLOCK + k, descending);
                if entry < first[count - 1] {
                    first.pop();
                    let place = first.partition_point(|&other| other < entry);
                    first.insert(place, entry);
                    worst = last(&first);
                }
            }
        }
        first
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
        let are_few = count <= FEW && count <= length / 4;
        // The approximate time of comparing and moving, in nanoseconds.
        let work = |entries: usize| match are_few {
            true => entries,
            false => entries * (entries.max(2).ilog2() as usize) * 2,
        };
        let sort_row = |(row, out): (&[T], &mut [i64]), threads: bool| {
            if are_few {
                let first = Arch::new().dispatch(First {
                    row,
                    count,
                    descending,
                });
                for (y, &entry) in out.iter_mut().zip(&first) {
                    *y = T::position(entry);
                }
                return;
            }
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
