//! Random numbers have the distributions they promise. Seeds are fixed, bounds are at 4.5 standard
//! deviations of a right generator or wider.

use crate::layouts::{message, numbers};
use bibun_array::{Array, DType, Generator, s};

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn moment(x: &[f64], power: i32) -> f64 {
    let center = mean(x);
    x.iter().map(|x| (x - center).powi(power)).sum::<f64>() / x.len() as f64
}

fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (a, b) = (mean(x), mean(y));
    let product: f64 = x.iter().zip(y).map(|(x, y)| (x - a) * (y - b)).sum();
    product / x.len() as f64 / (moment(x, 2) * moment(y, 2)).sqrt()
}

/// Raises unless the chi-square of the counts lies within 4.5 of its standard deviations. (Too
/// even is as wrong as too uneven.)
fn expect_counts(counts: &[usize], probabilities: &[f64], what: &str) {
    let total = counts.iter().sum::<usize>() as f64;
    let chi_square: f64 = (counts.iter().zip(probabilities))
        .map(|(&count, p)| (count as f64 - total * p).powi(2) / (total * p))
        .sum();
    let freedom = counts.len() as f64 - 1.0;
    let spread = 4.5 * (2.0 * freedom).sqrt();
    // With few degrees of freedom the distribution leans to the right.
    let (low, high) = (freedom - spread, freedom + spread + 10.0);
    assert!(
        low < chi_square && chi_square < high,
        "{what}: {chi_square} of {freedom}"
    );
}

fn expect_even(counts: &[usize], what: &str) {
    expect_counts(counts, &vec![1.0 / counts.len() as f64; counts.len()], what);
}

fn histogram(x: &[f64], bins: usize, bin: impl Fn(f64) -> usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    x.iter().for_each(|&x| counts[bin(x)] += 1);
    counts
}

const N: usize = 1 << 20;

#[test]
fn the_first_words_of_seed_zero_are_the_published_ones() {
    let x = Generator::new(0)
        .uniform(4, 0.0, 1.0, DType::F32)
        .to_vec::<f32>();
    let words = [0x6627_e8d5u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
    assert_eq!(x, words.map(|word| (word >> 8) as f32 / 16_777_216.0));
}

#[test]
fn uniform_numbers_are_uniform() {
    for (seed, dtype) in [(1, DType::F32), (2, DType::F64)] {
        let x = numbers(&Generator::new(seed).uniform(N, -1.0, 3.0, dtype));
        let u: Vec<f64> = x.iter().map(|x| (x + 1.0) / 4.0).collect();
        let n = N as f64;
        assert!(u.iter().all(|&u| (0.0..1.0).contains(&u)));
        assert!((mean(&u) - 0.5).abs() < 4.5 / (12.0 * n).sqrt());
        assert!((moment(&u, 2) - 1.0 / 12.0).abs() < 4.5 / (180.0 * n).sqrt());
        for bins in [16, 1000] {
            let counts = histogram(&u, bins, |u| (u * bins as f64) as usize);
            expect_even(&counts, "uniform");
        }
        // Neighbours, and elements a block apart, know nothing of each other.
        for lag in 1..9 {
            assert!(
                correlation(&u[lag..], &u[..N - lag]).abs() < 4.5 / n.sqrt(),
                "lag {lag}"
            );
        }
        let pairs: Vec<f64> = u
            .chunks(2)
            .map(|u| (u[0] * 32.0).floor() * 32.0 + u[1] * 32.0)
            .collect();
        expect_even(&histogram(&pairs, 1024, |x| x as usize), "pairs");
        // The last bits are as random as the first.
        let scale = if dtype == DType::F32 {
            16_777_216.0
        } else {
            9_007_199_254_740_992.0
        };
        let u = numbers(&Generator::new(seed).uniform(N, 0.0, 1.0, dtype));
        expect_even(
            &histogram(&u, 256, |u| (u * scale) as usize % 256),
            "last bits",
        );
    }
}

#[test]
fn uniform_numbers_never_reach_the_upper_bound() {
    let high = 1.0 + f64::from(f32::EPSILON);
    let x = Generator::new(3)
        .uniform(1000, 1.0, high, DType::F32)
        .to_vec::<f32>();
    assert!(x.iter().all(|&x| x == 1.0));
    let x = Generator::new(3)
        .uniform(1000, 1.0, 1.0 + f64::EPSILON, DType::F64)
        .to_vec::<f64>();
    assert!(x.iter().all(|&x| x == 1.0));
}

#[test]
fn normal_numbers_are_normal() {
    for (seed, dtype) in [(4, DType::F32), (5, DType::F64)] {
        let x = numbers(&Generator::new(seed).normal([N], 3.0, 2.0, dtype));
        let z: Vec<f64> = x.iter().map(|x| (x - 3.0) / 2.0).collect();
        let n = N as f64;
        assert!(mean(&z).abs() < 4.5 / n.sqrt());
        assert!((moment(&z, 2) - 1.0).abs() < 4.5 * (2.0 / n).sqrt());
        assert!(moment(&z, 3).abs() < 4.5 * (15.0 / n).sqrt());
        assert!((moment(&z, 4) - 3.0).abs() < 4.5 * (96.0 / n).sqrt());
        // Probabilities of half standard deviations, from tables.
        let half = [
            0.191_462_461,
            0.149_882_285,
            0.091_848_053,
            0.044_057_069,
            0.016_540_467,
            0.004_859_767,
        ];
        let probabilities: Vec<f64> = half.iter().rev().chain(&half).copied().collect();
        let inside: Vec<f64> = z.iter().copied().filter(|z| z.abs() < 3.0).collect();
        let share = inside.len() as f64 / n;
        assert!((share - 0.997_300_204).abs() < 4.5 * (0.0027 / n).sqrt());
        let probabilities: Vec<f64> = probabilities.iter().map(|p| p / 0.997_300_204).collect();
        expect_counts(
            &histogram(&inside, 12, |z| (z * 2.0 + 6.0) as usize),
            &probabilities,
            "normal",
        );
        for lag in 1..9 {
            assert!(
                correlation(&z[lag..], &z[..N - lag]).abs() < 4.5 / n.sqrt(),
                "lag {lag}"
            );
            let squares: Vec<f64> = z.iter().map(|z| z * z).collect();
            let r = correlation(&squares[lag..], &squares[..N - lag]);
            assert!(r.abs() < 4.5 / n.sqrt(), "squares, lag {lag}");
        }
    }
}

#[test]
fn integers_and_bernoulli_are_fair() {
    let mut generator = Generator::new(6);
    for range in [1, 2, 7, 1000] {
        let x = generator.integers(-3, range - 3, N).to_vec::<i64>();
        let mut counts = vec![0; range as usize];
        x.iter().for_each(|x| counts[(x + 3) as usize] += 1);
        if range > 1 {
            expect_even(&counts, "integers");
        }
    }
    // Without rejection every third number of this range would come twice as often.
    let x = generator.integers(i64::MIN, 1 << 62, N).to_vec::<i64>();
    let mut counts = [0; 3];
    x.iter()
        .for_each(|&x| counts[(x.wrapping_sub(i64::MIN) as u64 % 3) as usize] += 1);
    expect_even(&counts, "integers of a large range");
    for p in [0.0, 0.1, 0.5, 0.999, 1.0] {
        let x = numbers(&generator.bernoulli(p, [N / 4, 4]));
        let bound = 4.5 * (p * (1.0 - p) / N as f64).sqrt();
        assert!((mean(&x) - p).abs() <= bound, "{p}");
    }
}

#[test]
fn split_streams_are_independent() {
    let parent = Generator::new(7);
    let n = 1 << 14;
    let draw = |generator: &Generator| numbers(&generator.clone().uniform(n, 0.0, 1.0, DType::F64));
    let mut streams = vec![draw(&parent), draw(&Generator::new(8))];
    streams.extend((0..12).map(|stream| draw(&parent.split(stream))));
    streams.push(draw(&parent.split(0).split(0)));
    streams.push(draw(&parent.split(1).split(0)));
    for (i, a) in streams.iter().enumerate() {
        for b in &streams[..i] {
            assert!(correlation(a, b).abs() < 5.0 / (n as f64).sqrt());
            let same = a.iter().zip(b).filter(|(a, b)| a == b).count();
            assert_eq!(same, 0);
        }
    }
    // First elements over many streams are as good as a stream.
    let first: Vec<f64> = (0..100_000)
        .map(|stream| {
            parent
                .split(stream)
                .uniform(1, 0.0, 1.0, DType::F64)
                .item::<f64>()
        })
        .collect();
    expect_even(
        &histogram(&first, 100, |u| (u * 100.0) as usize),
        "over streams",
    );
    let keys: std::collections::HashSet<u64> =
        (0..100_000).map(|i| parent.split(i).key()).collect();
    assert_eq!(keys.len(), 100_000);
    for bit in 0..64 {
        let ones = keys.iter().filter(|&&key| key >> bit & 1 == 1).count() as f64;
        assert!(
            (ones - 50_000.0).abs() < 4.5 * 25_000f64.sqrt(),
            "bit {bit}"
        );
    }
}

/// The number of an arrangement of distinct numbers below `n`.
fn number_of(order: &[i64], n: usize) -> usize {
    order.iter().fold(0, |number, &i| number * n + i as usize)
}

#[test]
fn permutations_and_choices_are_all_equally_likely() {
    let mut generator = Generator::new(9);
    let mut counts = std::collections::BTreeMap::new();
    let mut shuffled = counts.clone();
    let mut pairs = counts.clone();
    let rows = Array::arange(0, 8).reshape([2, 4]);
    for _ in 0..24_000 {
        *counts
            .entry(number_of(&generator.permutation(4).to_vec(), 4))
            .or_insert(0) += 1;
        let y = generator.shuffle(&rows, 1);
        let (top, bottom) = (
            y.slice(s![0]).to_vec::<i64>(),
            y.slice(s![1]).to_vec::<i64>(),
        );
        assert!(top.iter().zip(&bottom).all(|(a, b)| a + 4 == *b));
        *shuffled.entry(number_of(&top, 4)).or_insert(0) += 1;
        let pair = generator.choice(5, 2, false, None).to_vec();
        *pairs.entry(number_of(&pair, 5)).or_insert(0) += 1;
    }
    for (counts, kinds) in [(counts, 24), (shuffled, 24), (pairs, 20)] {
        let counts: Vec<usize> = counts.into_values().collect();
        assert_eq!(counts.len(), kinds);
        expect_even(&counts, "orders");
    }
    for n in [0, 1, 2, 1000] {
        let mut generator = Generator::new(n as u64);
        let mut order = generator.permutation(n).to_vec::<i64>();
        assert_eq!(generator.counter(), n.div_ceil(2) as u64);
        order.sort_unstable();
        assert_eq!(order, (0..n as i64).collect::<Vec<_>>());
    }
}

#[test]
fn few_of_many_are_the_first_of_a_permutation() {
    for seed in 0..50 {
        let all = Generator::new(seed).permutation(700).to_vec::<i64>();
        for count in [0, 1, 5, 43, 44, 500, 700] {
            let some = Generator::new(seed)
                .choice(700, count, false, None)
                .to_vec::<i64>();
            assert_eq!(some, all[..count]);
        }
    }
    let few = Generator::new(1).choice(1 << 60, [2, 2], false, None);
    assert!(few.to_vec::<i64>().iter().all(|i| (0..1 << 60).contains(i)));
}

/// Only the proportions count: sums of weights may overflow, and quotients by them.
#[test]
fn choices_know_weights_of_any_size() {
    let p = [0.5, 0.25, 0.25];
    for unit in [1.0, f64::MAX, f64::MAX / 4.0, 4e-323, 1e-310] {
        let weights = Array::from(p.map(|p| p * unit));
        for replace in [true, false] {
            let choose = |weights: &Array| {
                let mut generator = Generator::new(4);
                let draws = (0..2000).map(|_| generator.choice(3, 1, replace, Some(weights)));
                draws.map(|x| x.item::<i64>()).collect::<Vec<i64>>()
            };
            assert_eq!(
                choose(&weights),
                choose(&Array::from(p)),
                "{unit:e} {replace}"
            );
        }
    }
    let weights = Array::from([5e-324, f64::MAX]);
    let order = Generator::new(4).choice(2, 2, false, Some(&weights));
    assert_eq!(order.to_vec::<i64>(), [1, 0]);
}

#[test]
fn choices_follow_their_probabilities() {
    let mut generator = Generator::new(10);
    let p = [0.1, 0.0, 0.6, 0.3];
    let weights = Array::from(p.map(|p| 5.0 * p as f32));
    let x = generator.choice(4, [N / 2, 2], true, Some(&weights));
    assert_eq!(x.shape(), &[N / 2, 2][..]);
    let mut counts = [0; 4];
    x.to_vec::<i64>()
        .iter()
        .for_each(|&i| counts[i as usize] += 1);
    assert_eq!(counts[1], 0);
    expect_counts(
        &[counts[0], counts[2], counts[3]],
        &[0.1, 0.6, 0.3],
        "with replacement",
    );

    let weights = Array::from(p);
    let mut counts = [0; 16];
    for _ in 0..40_000 {
        counts[number_of(&generator.choice(4, 2, false, Some(&weights)).to_vec(), 4)] += 1;
    }
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    for i in 0..4 {
        for j in 0..4 {
            if i != j && p[i] * p[j] > 0.0 {
                seen.push(counts[4 * i + j]);
                expected.push(p[i] * p[j] / (1.0 - p[i]));
            }
        }
    }
    assert_eq!(seen.iter().sum::<usize>(), 40_000);
    expect_counts(&seen, &expected, "without replacement");
    let x = generator.choice(3, 1000, true, None).to_vec::<i64>();
    assert!((0..3).all(|i| x.contains(&i)));
    assert_eq!(generator.choice(0, 0, true, None).size(), 0);
}

#[test]
fn errors_say_what_is_wrong() {
    let generator = || Generator::new(0);
    let p = |p: [f64; 3]| Array::from(p);
    let cases: Vec<(String, &str)> = vec![
        (
            message(|| drop(generator().uniform(3, 1.0, 1.0, DType::F64))),
            "uniform: [1, 1) is no interval of finite length for f64",
        ),
        (
            message(|| drop(generator().uniform(3, 1.0, 1.0 + 1e-12, DType::F32))),
            "uniform: [1, 1.000000000001) is no interval of finite length for f32",
        ),
        (
            message(|| drop(generator().uniform(3, -1e308, 1e308, DType::F64))),
            "uniform: [-1",
        ),
        (
            message(|| drop(generator().uniform(3, f64::NAN, 1.0, DType::F64))),
            "uniform: [NaN, 1)",
        ),
        (
            message(|| drop(generator().uniform(3, 0.0, 1.0, DType::I64))),
            "uniform: the dtype is i64",
        ),
        (
            message(|| drop(generator().normal(3, 0.0, -1.0, DType::F64))),
            "normal: -1 is no standard deviation",
        ),
        (
            message(|| drop(generator().normal(3, 0.0, f64::NAN, DType::F64))),
            "normal: NaN is no standard",
        ),
        (
            message(|| drop(generator().normal(3, 0.0, 1.0, DType::Bool))),
            "normal: the dtype is bool",
        ),
        (
            message(|| drop(generator().integers(2, 2, 3))),
            "integers: there are no integers in 2..2",
        ),
        (
            message(|| drop(generator().bernoulli(1.1, 3))),
            "bernoulli: 1.1 is no probability",
        ),
        (
            message(|| drop(generator().bernoulli(f64::NAN, 3))),
            "bernoulli: NaN is no probability",
        ),
        (
            message(|| drop(generator().shuffle(&p([0.0; 3]), 1))),
            "shuffle: axis 1 is outside of the rank 1",
        ),
        (
            message(|| drop(generator().choice(3, 4, false, None))),
            "choice: 4 of 3 integers cannot be chosen",
        ),
        (
            message(|| drop(generator().choice(0, 1, true, None))),
            "choice: 1 of 0 integers cannot be chosen",
        ),
        (
            message(|| drop(generator().choice(3, 3, false, Some(&p([1.0, 0.0, 1.0]))))),
            "choice: 3 of 2 integers cannot be chosen",
        ),
        (
            message(|| drop(generator().choice(3, 1, true, Some(&p([0.0; 3]))))),
            "choice: 1 of 0 integers cannot be chosen",
        ),
        (
            message(|| drop(generator().choice(2, 1, true, Some(&p([1.0; 3]))))),
            "choice: the probabilities [3] are no vector of 2",
        ),
        (
            message(|| drop(generator().choice(3, 1, true, Some(&p([1.0, -1.0, 0.0]))))),
            "choice: -1 is no probability",
        ),
        (
            message(|| drop(generator().choice(3, 1, true, Some(&Array::from([1i64, 2, 3]))))),
            "choice: the dtype is i64",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
}
