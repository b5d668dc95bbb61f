//! Random splits of data sets, as indices to be used with
//! [`Dataset::subset`](super::Dataset::subset).

use std::collections::BTreeMap;

use bibun_array::Generator;

use crate::error::{Error, raise};

/// The size of a part: a fraction of the whole (`f64`) or a count (`usize`).
pub trait SplitSize: Copy + sealed::Sealed {
    /// Returns the size of a part of `total` examples, not yet rounded.
    #[doc(hidden)]
    fn of(self, total: usize) -> f64;
}

impl SplitSize for f64 {
    fn of(self, total: usize) -> f64 {
        self * total as f64
    }
}

impl SplitSize for usize {
    fn of(self, _: usize) -> f64 {
        self as f64
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for usize {}
}

/// The examples of one fold: all except a part, and that part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    /// The examples for training.
    pub train: Vec<usize>,
    /// The examples for testing.
    pub test: Vec<usize>,
}

/// Splits the indices `0..len`, in random order, into parts. Indices beyond the parts are in none
/// of them.
///
/// A fraction that is not a whole number of examples is rounded, such that the sizes of all parts
/// add up to the rounded sum of their fractions.
///
/// # Panics
/// Panics if a part is negative, or the parts together are larger than the whole.
///
/// ```
/// use bibun::datasets::splits::shuffled;
/// let [train, test] = shuffled(10, [0.7, 0.3], 0);
/// assert_eq!((train.len(), test.len()), (7, 3));
/// assert_eq!(shuffled(10, [2], 0)[0], train[..2]);
/// ```
#[track_caller]
pub fn shuffled<S: SplitSize, const N: usize>(
    len: usize,
    shares: [S; N],
    seed: u64,
) -> [Vec<usize>; N] {
    let sizes = sizes("shuffled", len, shares);
    let order = permutation(len, seed);
    let mut end = 0.0;
    sizes.map(|size| {
        let start = f64::round(end) as usize;
        end += size;
        order[start..(end.round() as usize).min(len)].to_vec()
    })
}

/// Splits the examples into parts that each have their fraction of every class to within one
/// example: of `c` examples of a class, a part with the fraction `s` has `s c`, rounded down or up.
/// The sizes of the parts may therefore differ from the requested ones by an example or so.
///
/// `labels[i]` is the class of example `i`. Each part is in random order.
///
/// # Panics
/// Panics if a part is negative, or the parts together are larger than the whole.
///
/// ```
/// use bibun::datasets::splits::stratified;
/// let labels = ["cat", "dog", "cat", "cat", "dog", "cat"];
/// let [train, test] = stratified(&labels, [0.5, 0.5], 0);
/// for part in [train, test] {
///     assert_eq!(part.iter().filter(|&&i| labels[i] == "cat").count(), 2);
/// }
/// ```
#[track_caller]
pub fn stratified<L: Ord, S: SplitSize, const N: usize>(
    labels: &[L],
    shares: [S; N],
    seed: u64,
) -> [Vec<usize>; N] {
    let sizes = sizes("stratified", labels.len(), shares);
    let parts = strata(labels, &sizes, seed);
    parts.try_into().expect("as many parts as shares")
}

/// Returns `k` folds: each example is in the test part of exactly one, in random order. The sizes
/// of the test parts differ by at most one.
///
/// # Panics
/// Panics if `k` is below 2 or there are fewer than `k` examples.
///
/// ```
/// use bibun::datasets::splits::folds;
/// for fold in folds(10, 3, 0) {
///     assert_eq!(fold.train.len() + fold.test.len(), 10);
///     assert!(fold.test.iter().all(|i| !fold.train.contains(i)));
/// }
/// ```
#[track_caller]
pub fn folds(len: usize, k: usize, seed: u64) -> Vec<Fold> {
    expect_folds("folds", len, k);
    let order = permutation(len, seed);
    let cut = |i: usize| i * len / k;
    folded(
        &(0..k)
            .map(|i| order[cut(i)..cut(i + 1)].to_vec())
            .collect::<Vec<_>>(),
    )
}

/// Returns `k` folds whose test parts each have their fraction of every class to within one
/// example; see [`stratified`].
///
/// # Panics
/// Panics if `k` is below 2 or there are fewer than `k` examples.
///
/// ```
/// use bibun::datasets::splits::stratified_folds;
/// let labels = [0, 0, 0, 0, 1, 1];
/// for fold in stratified_folds(&labels, 2, 0) {
///     assert_eq!(fold.test.iter().filter(|&&i| labels[i] == 1).count(), 1);
/// }
/// ```
#[track_caller]
pub fn stratified_folds<L: Ord>(labels: &[L], k: usize, seed: u64) -> Vec<Fold> {
    expect_folds("stratified_folds", labels.len(), k);
    let size = labels.len() as f64 / k as f64;
    folded(&strata(labels, &vec![size; k], seed))
}

#[track_caller]
fn expect_folds(function: &'static str, len: usize, k: usize) {
    if k < 2 || k > len {
        let what = format!("{len} examples cannot be {k} folds (2 to as many as examples)");
        raise(Error::argument(function, what));
    }
}

fn folded(parts: &[Vec<usize>]) -> Vec<Fold> {
    let fold = |test: usize| {
        let others = parts[..test].iter().chain(&parts[test + 1..]);
        Fold {
            train: others.flatten().copied().collect(),
            test: parts[test].clone(),
        }
    };
    (0..parts.len()).map(fold).collect()
}

fn permutation(len: usize, seed: u64) -> Vec<usize> {
    let order = Generator::new(seed).permutation(len).to_vec::<i64>();
    order.into_iter().map(|index| index as usize).collect()
}

/// The tolerance, in examples, for sums of fractions like 0.1, which are not exact.
const SLACK: f64 = 1e-6;

/// Returns the sizes of the parts, not yet rounded.
#[track_caller]
fn sizes<S: SplitSize, const N: usize>(
    function: &'static str,
    total: usize,
    shares: [S; N],
) -> [f64; N] {
    let sizes = shares.map(|share| share.of(total));
    if let Some(size) = sizes.iter().find(|&&size| size.is_nan() || size < 0.0) {
        raise(Error::argument(
            function,
            format!("no part can have {size} examples"),
        ));
    }
    let sum: f64 = sizes.iter().sum();
    if sum > total as f64 + SLACK {
        let what =
            format!("the parts have {sum} examples together, more than the {total} there are");
        raise(Error::argument(function, what));
    }
    sizes
}

/// Returns parts with the same fraction of every class.
fn strata<L: Ord>(labels: &[L], sizes: &[f64], seed: u64) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<&L, Vec<usize>> = BTreeMap::new();
    for index in permutation(labels.len(), seed) {
        classes.entry(&labels[index]).or_default().push(index);
    }
    // The examples that are in no part are treated as one more part until the end.
    let total = labels.len() as f64;
    let rest = (total - sizes.iter().sum::<f64>()).max(0.0);
    let shares: Vec<f64> = sizes
        .iter()
        .chain(&[rest])
        .map(|size| size / total.max(1.0))
        .collect();

    let mut part_of = vec![0; labels.len()];
    // What each part should have received of the classes so far, minus what it received.
    let mut owed = vec![0.0; shares.len()];
    for members in classes.values() {
        let mut members = members.as_slice();
        for (part, count) in rounded(members.len(), &shares, &mut owed)
            .into_iter()
            .enumerate()
        {
            let (taken, left) = members.split_at(count);
            taken.iter().for_each(|&index| part_of[index] = part);
            members = left;
        }
    }

    let mut parts = vec![Vec::new(); shares.len()];
    for index in permutation(labels.len(), seed) {
        parts[part_of[index]].push(index);
    }
    parts.truncate(sizes.len());
    parts
}

/// Divides `count` by shares that sum to one, rounding each down or up; those to which most is owed
/// are rounded up.
fn rounded(count: usize, shares: &[f64], owed: &mut [f64]) -> Vec<usize> {
    let exact: Vec<f64> = shares.iter().map(|share| share * count as f64).collect();
    let mut counts: Vec<usize> = exact.iter().map(|x| (x + SLACK).floor() as usize).collect();
    let mut open: Vec<usize> = (0..shares.len())
        .filter(|&part| exact[part] - counts[part] as f64 > SLACK)
        .collect();
    let due = |part: usize, counts: &[usize]| owed[part] + exact[part] - counts[part] as f64;
    open.sort_by(|&a, &b| due(b, &counts).total_cmp(&due(a, &counts)));
    let left = count - counts.iter().sum::<usize>();
    open.iter().take(left).for_each(|&part| counts[part] += 1);
    for (owed, (exact, &count)) in owed.iter_mut().zip(exact.iter().zip(&counts)) {
        *owed += exact - count as f64;
    }
    counts
}
