//! Sorting by integers that have the order of the elements, with the position in their lower bits:
//! no two are equal, so a fast unstable sort produces the stable order. Of a few first elements, vector instructions
//! find a bound, and most of the elements after it.

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
trait Sortable: Element + PartialEq {
    /// An integer with room for a rank and a position.
    type Entry: Copy + Ord + Send;
    /// An entry that orders as the element does (NaN last), or in reverse if `descending`, and then
    /// by position.
    fn entry(self, position: usize, descending: bool) -> Self::Entry;
    /// The position in an entry.
    fn position(entry: Self::Entry) -> i64;
    /// Whether two numbers are in this order. It is false of NaN.
    fn precedes(self, other: Self, descending: bool) -> bool;
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
            fn precedes(self, other: Self, descending: bool) -> bool {
                if descending { self > other } else { self < other }
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

/// The number of columns of a row of which each has an element that is not after a bound, and up to how many first
/// elements are found with it.
const BLOCK: usize = 64;
const FEW: usize = 32;
/// Up to as many are kept in order.
const FEWEST: usize = 12;

type Entries<T> = SmallVec<[<T as Sortable>::Entry; BLOCK]>;

/// The first entries of a row, in order.
struct First<'a, T: Sortable> {
    row: &'a [T],
    count: usize,
    descending: bool,
}

impl<T: Sortable> NullaryFnOnce for First<'_, T> {
    type Output = Entries<T>;
    #[inline(always)]
    fn call(self) -> Entries<T> {
        let mut first = self.candidates();
        cut::<T>(&mut first, self.count);
        if self.count > FEWEST {
            first.sort_unstable();
        }
        first
    }
}

impl<T: Sortable> First<'_, T> {
    /// The entries that are not after a bound, or all of a short row.
    #[inline(always)]
    fn candidates(&self) -> Entries<T> {
        let Self {
            row,
            count,
            descending,
        } = *self;
        let entry = |(i, &x): (usize, &T)| x.entry(i, descending);
        let (blocks, rest) = row.as_chunks::<BLOCK>();
        let [start, others @ ..] = blocks else {
            return row.iter().enumerate().map(entry).collect();
        };
        // Every column of blocks has an element that is as early as its bound or earlier.
        let mut earliest = *start;
        for block in others {
            for (y, &x) in earliest.iter_mut().zip(block) {
                *y = if x.precedes(*y, descending) { x } else { *y };
            }
        }
        let mut bounds: Entries<T> = earliest.iter().enumerate().map(entry).collect();
        cut::<T>(&mut bounds, count);
        let mut bound = earliest[T::position(bounds[count - 1]) as usize];
        let mut are_enough = false;
        // Of numbers, few others are not after it.
        let mut kept = Entries::<T>::new();
        let blocks = blocks.iter().map(|block| &block[..]);
        for (i, block) in blocks.chain([rest]).enumerate() {
            // Of equal numbers, all are, until there are enough before them.
            if kept.len() >= BLOCK {
                cut::<T>(&mut kept, count);
                bound = row[T::position(kept[count - 1]) as usize];
                are_enough = true;
            }
            let mut is_kept = [0_u8; BLOCK];
            for (is_kept, &x) in is_kept.iter_mut().zip(block) {
                let is_late = bound.precedes(x, descending) | (are_enough & (x == bound));
                *is_kept = (!is_late).into();
            }
            for (k, is_kept) in is_kept.as_chunks().0.iter().enumerate() {
                let mut is_kept = u64::from_le_bytes(*is_kept);
                while is_kept != 0 {
                    let place = k * size_of::<u64>() + is_kept.trailing_zeros() as usize / 8;
                    kept.push(block[place].entry(i * BLOCK + place, descending));
                    is_kept &= is_kept - 1;
                }
            }
        }
        kept
    }
}

/// Leaves the first `count` entries, with the last of them at the end, and in order up to [`FEWEST`].
#[inline(never)]
fn cut<T: Sortable>(entries: &mut Entries<T>, count: usize) {
    if count > FEWEST {
        entries.select_nth_unstable(count - 1);
    } else {
        for i in 1..entries.len() {
            let (first, others) = entries.split_at_mut(i);
            let mut entry = others[0];
            if i < count || entry < first[count - 1] {
                // PERF: without branches, of which most would be predicted wrongly.
                for kept in first.iter_mut().take(count) {
                    (*kept, entry) = (entry.min(*kept), entry.max(*kept));
                }
                others[0] = entry;
            }
        }
    }
    entries.truncate(count);
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
        let are_few = count <= FEW && count < length;
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
