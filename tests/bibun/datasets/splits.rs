//! Parts of data sets.

use std::collections::HashSet;

use bibun::array::Generator;
use bibun::attempt;
use bibun::datasets::Dataset;
use bibun::datasets::splits::{folds, shuffled, stratified, stratified_folds};

fn all_once<'a>(parts: impl IntoIterator<Item = &'a Vec<usize>>, len: usize) {
    let all: Vec<usize> = parts.into_iter().flatten().copied().collect();
    assert_eq!(all.len(), len);
    assert_eq!(all.into_iter().collect::<HashSet<_>>(), (0..len).collect());
}

#[test]
fn shuffled_parts_have_every_example_once() {
    for len in [0, 1, 2, 7, 100, 1001] {
        let parts = shuffled(len, [0.7, 0.2, 0.1], 3);
        all_once(&parts, len);
        for (part, share) in parts.iter().zip([0.7, 0.2, 0.1]) {
            assert!((part.len() as f64 - share * len as f64).abs() <= 1.0);
        }
    }
    let parts = shuffled(100, [60usize, 40], 3);
    assert_eq!([parts[0].len(), parts[1].len()], [60, 40]);
    assert_eq!(parts, shuffled(100, [60usize, 40], 3));
    assert_ne!(parts, shuffled(100, [60usize, 40], 4));
    assert!(parts[0].windows(2).any(|pair| pair[0] > pair[1]));
}

#[test]
fn parts_that_cannot_be() {
    for what in [
        attempt(|| shuffled(10, [0.7, 0.4], 0)).unwrap_err(),
        attempt(|| shuffled(10, [8usize, 4], 0)).unwrap_err(),
    ] {
        assert!(what.to_string().contains("more than the 10"), "{what}");
    }
    let what = attempt(|| shuffled(10, [-0.5, 0.5], 0))
        .unwrap_err()
        .to_string();
    assert!(what.contains("no part can have -5 examples"), "{what}");
    let what = attempt(|| folds(3, 4, 0)).unwrap_err().to_string();
    assert!(what.contains("3 examples cannot be 4 folds"), "{what}");
    let labels = [0; 3];
    let what = attempt(|| vec![1.0; 4].stratified_split(&labels, [0.5], 0)).unwrap_err();
    assert!(
        what.to_string().contains("3 labels for 4 examples"),
        "{what}"
    );
    let what = attempt(|| vec![1.0; 4].subset([0, 4])).unwrap_err();
    assert!(what.to_string().contains("no example 4 among 4"), "{what}");
}

/// Classes of very different sizes.
fn labels(random: &mut Generator, len: usize, classes: i64) -> Vec<i64> {
    let draw = random.integers(0, classes * classes, len).to_vec::<i64>();
    draw.into_iter().map(|x| (x as f64).sqrt() as i64).collect()
}

#[test]
fn each_class_keeps_its_share_to_within_one_example() {
    let mut random = Generator::new(9);
    let shares = [0.61, 0.23, 0.1];
    for case in 0..60 {
        let classes = 1 + case % 11;
        let labels = labels(&mut random, 10 + 37 * case as usize, classes);
        let parts = stratified(&labels, shares, 5);
        let mut seen = HashSet::new();
        for (part, share) in parts.iter().zip(shares) {
            assert!(part.iter().all(|&i| seen.insert(i)));
            for class in 0..classes {
                let of =
                    |labels: &mut dyn Iterator<Item = i64>| labels.filter(|&l| l == class).count();
                let there = of(&mut labels.iter().copied());
                let here = of(&mut part.iter().map(|&i| labels[i]));
                let off = (here as f64 - share * there as f64).abs();
                assert!(off < 1.0, "case {case}, class {class}: {here} of {there}");
            }
            let off = (part.len() as f64 - share * labels.len() as f64).abs();
            assert!(off < 2.0, "case {case}: {} of {}", part.len(), labels.len());
        }
    }
    let parts = stratified(&[2, 1, 2, 1, 2, 2], [0.5, 0.5], 0);
    all_once(&parts, 6);
}

#[test]
fn folds_test_every_example_once() {
    let labels = labels(&mut Generator::new(4), 103, 5);
    for k in [2, 3, 10] {
        for folds in [folds(103, k, 1), stratified_folds(&labels, k, 1)] {
            assert_eq!(folds.len(), k);
            all_once(folds.iter().map(|fold| &fold.test), 103);
            for fold in &folds {
                all_once([&fold.train, &fold.test], 103);
                assert!((fold.test.len() as f64 - 103.0 / k as f64).abs() < 2.0);
            }
        }
        for fold in stratified_folds(&labels, k, 1) {
            for class in 0..5 {
                let there = labels.iter().filter(|&&l| l == class).count();
                let here = fold.test.iter().filter(|&&i| labels[i] == class).count();
                assert!((here as f64 - there as f64 / k as f64).abs() < 1.0);
            }
        }
    }
}

#[test]
fn parts_of_a_data_set() {
    let numbers: Vec<i64> = (0..50).map(|i| i * i).collect();
    let [train, test] = numbers.clone().shuffled_split([40usize, 10], 2);
    let random = Generator::new(0);
    let indices: Vec<usize> = (0..test.len()).collect();
    let batch = test.batch(&indices, &random).unwrap().to_vec::<i64>();
    let expected: Vec<i64> = test.indices().iter().map(|&i| numbers[i]).collect();
    assert_eq!(batch, expected);
    assert_eq!(train.len() + test.len(), 50);
}
