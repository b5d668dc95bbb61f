//! Recurrences over time along a row of places: one row at a time, the examples side by side.

use pulp::NullaryFnOnce;

use super::threads::{chunks, for_each};
use super::{dispatch_short, worth_threads};
use crate::math::Machine;
use crate::{Array, Element, Number};

/// The number of places behind which nothing is reached.
const REACH: usize = 2;

pub(crate) fn log_scan<T: Machine + Element>(x: &Array, skips: &Array) -> Array {
    let shape = x.shape();
    let (time, places) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let (mut y, skips) = (x.to_vec::<T>(), skips.to_vec::<bool>());
    if y.is_empty() {
        return x.clone();
    }
    // About six nanoseconds for each place.
    let threads = worth_threads(6 * y.len());
    for_each(chunks(&mut y, time * places), threads, 1, &|i, y| {
        let skips = &skips[i * places..][..places];
        dispatch_short(LogScan { y, skips });
    });
    Array::from_vec(y, shape)
}

/// One example, in place.
struct LogScan<'a, T> {
    y: &'a mut [T],
    skips: &'a [bool],
}

impl<T: Machine + Element> NullaryFnOnce for LogScan<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let never = Number(T::from_f64(f64::NEG_INFINITY));
        let zero = Number(T::ZERO);
        let places = self.skips.len();
        let cost = |&skips: &bool| if skips { zero } else { never };
        let costs: Vec<Number<T>> = self.skips.iter().map(cost).collect();
        // The row before, behind places that are never reached.
        let mut before = vec![never; REACH + places];
        for (t, row) in self.y.chunks_exact_mut(places).enumerate() {
            if t > 0 {
                let (row, costs) = (&mut row[..places], &costs[..places]);
                let (last, middle, own) = (
                    &before[..places],
                    &before[1..][..places],
                    &before[REACH..][..places],
                );
                for p in 0..places {
                    let (a, b, c) = (own[p], middle[p], last[p] + costs[p]);
                    let most = a.maximum(b).maximum(c);
                    // Nothing is subtracted from itself where nothing is reached.
                    let top = most.equal(never).where_(zero, most);
                    let sum = (a - top).exp() + (b - top).exp() + (c - top).exp();
                    row[p] = (Number(row[p]) + top + sum.log()).0;
                }
            }
            for (before, &now) in before[REACH..].iter_mut().zip(&*row) {
                *before = Number(now);
            }
        }
    }
}

pub(crate) fn scan<T: Machine + Element>(x: &Array, w: &Array, reverse: bool) -> Array {
    let shape = x.shape();
    let (time, places) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let (mut y, w) = (x.to_vec::<T>(), w.to_vec::<T>());
    if y.is_empty() {
        return x.clone();
    }
    let size = time * places;
    let threads = worth_threads(2 * y.len());
    for_each(chunks(&mut y, size), threads, 1, &|i, y| {
        let w = &w[3 * i * size..][..3 * size];
        dispatch_short(Scan {
            y,
            w,
            places,
            reverse,
        });
    });
    Array::from_vec(y, shape)
}

/// One example, in place.
struct Scan<'a, T> {
    y: &'a mut [T],
    w: &'a [T],
    places: usize,
    reverse: bool,
}

impl<T: Machine + Element> NullaryFnOnce for Scan<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let places = self.places;
        let time = self.y.len() / places;
        for step in 1..time {
            let (t, weights) = match self.reverse {
                false => (step, step),
                true => (time - 1 - step, time - step),
            };
            let w = &self.w[3 * places * weights..][..3 * places];
            let (first, second) = self.y.split_at_mut(places * t.max(weights));
            let (row, other) = match self.reverse {
                false => (&mut second[..places], &first[places * (t - 1)..]),
                true => (&mut first[places * t..], &second[..places]),
            };
            for (k, w) in w.chunks_exact(places).enumerate().take(places) {
                let len = places - k;
                let (row, w, other) = match self.reverse {
                    false => (&mut row[k..], &w[k..], &other[..len]),
                    true => (&mut row[..len], &w[k..], &other[k..]),
                };
                for ((y, &w), &other) in row.iter_mut().zip(w).zip(other) {
                    *y = (Number(*y) + Number(w) * Number(other)).0;
                }
            }
        }
    }
}
