//! Normalisation with scales and shifts of every pattern, beside its formula in whole arrays.

use bibun_array::{Array, DType, Normalization, keep_dims, normalize_gradient};

use crate::common::{Numbers, same_for_all_thread_counts};
use crate::layouts::message;

/// A shape, the axes that are normalised, and the axes along which the scale varies.
type Pattern = (&'static [usize], &'static [isize], &'static [usize]);

const PATTERNS: [Pattern; 28] = [
    // A scale for every element of a row: whole blocks of lines and a rest, one line, short ones.
    (&[300, 301], &[1], &[1]),
    (&[1, 40], &[1], &[1]),
    (&[200, 3], &[1], &[1]),
    (&[5, 8, 64], &[1, 2], &[1, 2]),
    // Other scales for other rows.
    (&[9, 22, 40], &[2], &[0, 2]),
    (&[9, 37, 40], &[2], &[0, 2]),
    (&[9, 7, 40], &[2], &[0, 1, 2]),
    (&[9, 7, 40], &[2], &[1, 2]),
    // Equal scales of neighbours, in pieces and in rows.
    (&[16, 9, 700], &[0, 2], &[1]),
    (&[6, 5, 300], &[0, 2], &[0, 1]),
    (&[70, 5, 3], &[0, 2], &[1]),
    (&[6, 4, 3, 50], &[2, 3], &[1, 2]),
    (&[6, 4, 50], &[2], &[1]),
    (&[6, 4, 50], &[2], &[]),
    // Pieces that are moved together to be summed: equal scales in lines, or other ones in each piece.
    (&[40, 6, 5, 5], &[0, 2, 3], &[1]),
    (&[3, 40, 6, 25], &[1, 3], &[0, 2]),
    (&[7, 3, 200], &[0, 2], &[]),
    (&[40, 6, 25], &[0, 2], &[0]),
    (&[3, 40, 6, 25], &[1, 3], &[1, 2]),
    // Lines side by side.
    (&[700, 75], &[0], &[1]),
    (&[600, 9], &[0], &[]),
    (&[4, 30, 400], &[1], &[0, 2]),
    (&[3, 5, 6, 33], &[0, 1, 2], &[3]),
    (&[70, 31], &[0], &[0]),
    (&[70, 3], &[0], &[1]),
    // Patterns that have no kernel of their own.
    (&[6, 5, 300], &[0, 2], &[2]),
    (&[6, 3, 5, 20], &[1, 2, 3], &[1, 3]),
    (&[6, 1, 5, 20], &[0, 3], &[0, 2, 3]),
];

fn all(results: &[Array]) -> Vec<f64> {
    results.iter().flat_map(Array::to_vec::<f64>).collect()
}

#[test]
fn scales_of_every_pattern_agree_with_the_formula() {
    let mut numbers = Numbers(5);
    for (shape, axes, along) in PATTERNS {
        let sizes: Vec<usize> = (0..shape.len())
            .map(|axis| {
                if along.contains(&axis) {
                    shape[axis]
                } else {
                    1
                }
            })
            .collect();
        let own: Vec<isize> = (0..shape.len() as isize)
            .filter(|&axis| sizes[axis as usize] == 1)
            .collect();
        for (dtype, centered) in [(DType::F32, true), (DType::F64, true), (DType::F64, false)] {
            let tolerance = if dtype == DType::F32 { 1e-4 } else { 1e-10 };
            let rule = Normalization {
                centered,
                epsilon: 1e-3,
            };
            let x = numbers.array(shape, dtype) + 3.0;
            let (scale, shift) = (numbers.array(&sizes, dtype), numbers.array(&sizes, dtype));
            let gy = numbers.layout(shape, dtype);
            let results = || {
                let [y, mean, variance] = x.normalize(rule, axes, &[&scale, &shift]);
                let [scaled, ..] = x.normalize(rule, axes, &[&scale]);
                let (gmean, gvariance) = (&mean * 0.5, &variance * 0.25);
                let (statistics, cotangents) = ([&mean, &variance], [&gy, &gmean, &gvariance]);
                let gradients =
                    normalize_gradient(rule, axes, &x, statistics, Some(&scale), cotangents);
                let plain = normalize_gradient(rule, axes, &x, statistics, None, cotangents);
                let results = [vec![y, mean, variance, scaled], gradients, plain];
                results.concat()
            };
            let found = results();
            same_for_all_thread_counts(|| all(&results()));

            let wide = |x: &Array| x.cast(DType::F64);
            let (x, scale, shift, gy) = (wide(&x), wide(&scale), wide(&shift), wide(&gy));
            let count = axes.iter().map(|&axis| shape[axis as usize] as f64);
            let count: f64 = count.product();
            let average = |x: &Array| x.sum(keep_dims(axes)) / count;
            let mean = match centered {
                true => average(&x),
                false => average(&x) * 0.0,
            };
            let apart = &x - &mean;
            let variance = average(&(&apart * &apart));
            let deviation = (&variance + 1e-3).sqrt();
            let normal = &apart / &deviation;
            let gradient = |g: &Array| {
                let along = &normal * average(&(&normal * g));
                let gx = match centered {
                    true => (g - average(g) - along) / &deviation + &mean * (0.5 / count),
                    false => (g - along) / &deviation,
                };
                gx + &apart * &variance * (0.5 / count)
            };
            let own = || keep_dims(&own[..]);
            let expected = [
                &normal * &scale + &shift,
                mean.clone(),
                variance.clone(),
                &normal * &scale,
                gradient(&(&gy * &scale)),
                (&gy * &normal).sum(own()),
                gy.sum(own()),
                gradient(&gy),
            ];
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(
                    found.shape(),
                    expected.shape(),
                    "{i} of {shape:?} {along:?}"
                );
                let largest = expected.abs().max(..).item::<f64>().max(1.0);
                let difference = (wide(found) - expected).abs().max(..).item::<f64>();
                assert!(
                    difference < tolerance * largest,
                    "{i} of {shape:?} over {axes:?}, scale along {along:?}, {dtype}: {difference}"
                );
            }
        }
    }
}

/// Lines of f32 whose first elements are far from the others, that are far from zero, all equal, or whose squares are
/// beyond all f32 or rounded to zero.
#[test]
fn moments_of_singles_are_right_for_any_line() {
    let width = 100_000;
    let mut numbers = Numbers(7);
    let mut line = |number: &dyn Fn(usize, f64) -> f64| -> Vec<f32> {
        (0..width)
            .map(|i| number(i, numbers.float()) as f32)
            .collect()
    };
    let lines = [
        line(&|_, x| x),
        line(&|i, x| if i < 8 { 1e4 } else { x }),
        line(&|i, x| if i < 8 { -3e6 } else { 1e6 + x }),
        line(&|_, x| 1e4 + x),
        line(&|_, _| 0.1),
        line(&|_, x| 1e25 * x),
        line(&|_, x| 1e-25 * x),
        line(&|i, _| if i % 2 == 0 { 3e38 } else { -3e38 }),
    ];
    for (number, line) in lines.iter().enumerate() {
        for centered in [true, false] {
            let rule = Normalization {
                centered,
                epsilon: 1e-60,
            };
            let x = Array::from_slice(line, [1, width]);
            let [_, mean, variance] = x.normalize(rule, &[1], &[]);
            let [mean, variance] = [mean, variance].map(|x| x.item::<f64>());
            let count = width as f64;
            let exact_mean = match centered {
                true => line.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
                false => 0.0,
            };
            let squares = line.iter().map(|&x| (f64::from(x) - exact_mean).powi(2));
            let exact = (squares.sum::<f64>() / count) as f32;
            let size = line
                .iter()
                .fold(0.0, |size: f64, &x| size.max(f64::from(x).abs()));
            assert!((mean - exact_mean).abs() <= 1e-6 * size, "line {number}");
            let exact = f64::from(exact);
            let is_right = variance == exact || (variance - exact).abs() <= 1e-5 * exact;
            // Equal elements differ from their mean by its rounding.
            let is_zero = number == 4 && centered && variance < 1e-14;
            assert!(
                is_right || is_zero,
                "line {number}: {variance} is not {exact}"
            );
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_line() {
    let rule = Normalization {
        centered: true,
        epsilon: 1e-5,
    };
    // Along rows and along columns; the first line is for comparison.
    for (turned, axis) in [(false, 1), (true, 0)] {
        let line = |bad: f64, at: usize| {
            let mut elements: Vec<f64> = (0..20).map(f64::from).collect();
            elements[at] = bad;
            elements
        };
        let cases = [
            (0.0, 0),
            (f64::NAN, 3),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 5),
            (1e300, 0),
            (-1e300, 7),
        ];
        let mut lines: Vec<Vec<f64>> = cases.iter().map(|&(bad, at)| line(bad, at)).collect();
        lines.resize(16, line(0.0, 0));
        let x = Array::from_vec(lines.concat(), [16, 20]);
        let x = if turned {
            x.transpose().to_row_major()
        } else {
            x
        };
        let [y, mean, variance] = x.normalize(rule, &[axis], &[]);
        let [y, mean, variance] = [y, mean, variance].map(|x| match turned {
            true => x.transpose().to_vec::<f64>(),
            false => x.to_vec::<f64>(),
        });
        assert!(y[..20].iter().all(|y| y.is_finite()));
        assert_eq!((mean[0], variance[0]), (9.5, 33.25));
        assert!(mean[1].is_nan() && variance[1].is_nan() && y[20..40].iter().all(|y| y.is_nan()));
        assert_eq!((mean[2], mean[3]), (f64::INFINITY, f64::NEG_INFINITY));
        assert!(variance[2].is_nan() && variance[3].is_nan());
        // Finite elements with squares beyond all numbers.
        for (i, sign) in [(4, 1.0), (5, -1.0)] {
            assert!((mean[i] * sign / 5e298 - 1.0).abs() < 1e-12, "{}", mean[i]);
            assert_eq!(variance[i], f64::INFINITY);
            assert!(y[i * 20..(i + 1) * 20].iter().all(|&y| y == 0.0));
        }
        assert!(y[120..].iter().all(|y| y.is_finite()));
    }
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let x = Array::ones([2, 3], DType::F64);
    let rule = Normalization {
        centered: true,
        epsilon: 1e-3,
    };
    for wrong in [
        Array::ones([3], DType::F64),
        Array::ones([1, 2], DType::F64),
        Array::ones([1, 3], DType::F32),
    ] {
        let message = message(|| {
            let _ = x.normalize(rule, &[1], &[&wrong]);
        });
        assert!(
            message.contains("normalize: the parameters are"),
            "{message}"
        );
    }
}
