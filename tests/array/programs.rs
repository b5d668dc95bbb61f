//! Programs compute the same bits as the functions that they were recorded from.

use bibun_array::math::Float;
use bibun_array::{
    Array, DType, ElementFormula, Normalization, Number, Tracer, concat, elementwise, gemm, matmul,
    normalize_gradient,
};

use crate::common::Numbers;

/// Runs a function, and the program that it becomes, on the same arrays.
fn agree(name: &str, arrays: &[Array], f: &dyn Fn(&[Array]) -> Vec<Array>) -> String {
    let expected = f(arrays);
    let tracer = Tracer::new("agree");
    let inputs: Vec<Array> = arrays.iter().map(|x| tracer.input(x)).collect();
    let outputs = tracer.run(|| f(&inputs));
    let program = tracer.finish(&outputs);
    for _ in 0..2 {
        let found = program.run(arrays.to_vec());
        for (i, (x, y)) in expected.iter().zip(&found).enumerate() {
            assert!(
                x.has_same_bits(y),
                "{name}, result {i}: {x}\n{y}\n{program}"
            );
        }
    }
    program.to_string()
}

/// Sums, extremes and normalisations of rows, in a random order, with passes between them.
fn along_rows(seed: u64, arrays: &[Array]) -> Vec<Array> {
    let mut numbers = Numbers(seed);
    let [x, column, row] = arrays else {
        unreachable!("there are three arrays")
    };
    let (mut tables, mut stats) = (vec![x.clone()], vec![column.clone()]);
    let mut results: Vec<Array> = Vec::new();
    for _ in 0..8 {
        let x = tables[numbers.below(tables.len())].clone();
        let stat = stats[numbers.below(stats.len())].clone();
        match numbers.below(10) {
            0 => stats.push(x.max(-1).expand_dims(-1)),
            1 => stats.push(x.sum(-1).expand_dims(-1)),
            2 => stats.push(x.min(-1).expand_dims(-1)),
            3 => tables.push((&x - &stat).tanh()),
            4 => tables.push(&x * row + &stat),
            5 => stats.push(&stat * 0.5 + 1.0),
            6 => results.push(x.sum(0)),
            7 => {
                let rule = Normalization {
                    centered: numbers.below(2) == 0,
                    epsilon: 1e-5,
                };
                let front = std::iter::repeat_n(1, x.rank() - 1);
                let scale = row.reshape(front.chain([row.size()]).collect::<Vec<_>>());
                let parameters = &[&scale, &scale][..numbers.below(3)];
                let [y, mean, variance] = x.normalize(rule, &[-1], parameters);
                let scale = parameters.first().copied();
                let (statistics, cotangents) = ([&mean, &variance], [&y, &mean, &(&stat * 0.1)]);
                let gradients = normalize_gradient(rule, &[-1], &x, statistics, scale, cotangents);
                tables.push(y);
                stats.push(variance);
                tables.push(gradients[0].clone());
                results.extend(gradients.into_iter().skip(1));
            }
            8 => tables.push(&x / (1.0 + stat.abs())),
            _ => results.push((&x * row).sum(0)),
        }
    }
    results.push((-x.clone()).sum(-1));
    results.extend(tables.pop());
    results.extend(stats.pop());
    results
}

#[test]
fn steps_that_go_through_rows_compute_the_same_bits() {
    let (mut numbers, mut by_rows) = (Numbers(1), 0);
    let shapes = [
        (2, 3),
        (17, 64),
        (300, 40),
        (3000, 33),
        (70, 1000),
        (20, 9000),
        (9000, 2),
        (1, 5),
        (5, 1),
        (3, 70_000),
        // So few and so long that sums of rows are cut into pieces.
        (16, 8000),
        (20, 5000),
        (0, 5),
    ];
    for (round, (rows, width)) in shapes.into_iter().cycle().take(78).enumerate() {
        let dtype = match round % 7 {
            0 | 3 => DType::F64,
            5 => DType::BF16,
            _ => DType::F32,
        };
        let shape: &[usize] = match round % 4 {
            0 if rows % 2 == 0 => &[2, rows / 2, width],
            _ => &[rows, width],
        };
        let mut stat = shape.to_vec();
        stat[shape.len() - 1] = 1;
        let mut x = match round % 2 {
            0 => numbers.array(shape, dtype),
            _ => numbers.layout(shape, dtype),
        };
        if round % 5 == 0 {
            let special = [f64::NAN, -0.0, f64::INFINITY, 1e-310, -3.0];
            let is_special = numbers
                .array(shape, dtype)
                .abs()
                .less(Array::from(0.01).cast(dtype));
            let special = Array::from(special[round / 5 % 5]).cast(dtype);
            x = Array::where_(&is_special, &special, &x);
        }
        if round % 5 == 2 || round % 5 == 3 {
            // Sums of nothing but errors of rounding, which depend on the order.
            x = &x * (numbers.array(shape, dtype) * 40.0).exp();
            x = &x - x.flip(&[-1]);
        }
        let arrays = [
            x,
            numbers.array(&stat, dtype),
            numbers.array(&[width], dtype),
        ];
        let seed = numbers.word();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let listing = pool.expect("threads start").install(|| {
                agree(&format!("{shape:?} {dtype} {seed}"), &arrays, &|arrays| {
                    along_rows(seed, arrays)
                })
            });
            by_rows += usize::from(listing.contains("rows at a time"));
        }
    }
    assert!(by_rows > 70, "{by_rows} of 156 programs go through rows");
}

/// Products with factors that are there before, in a random order, with passes between them.
fn through_products(seed: u64, arrays: &[Array]) -> Vec<Array> {
    let mut numbers = Numbers(seed);
    let [x, factors @ ..] = arrays else {
        unreachable!("there is a table")
    };
    let mut tables = vec![x.clone()];
    let mut results: Vec<Array> = Vec::new();
    for _ in 0..9 {
        let x = tables[numbers.below(tables.len())].clone();
        let width = x.shape()[1];
        match numbers.below(7) {
            0 => tables.push(x.maximum(0.0)),
            1 => {
                let other = tables[numbers.below(tables.len())].clone();
                if other.shape() == x.shape() {
                    tables.push(&x * (other * 0.5).tanh());
                }
            }
            2 => results.push(x.sum(0)),
            3 => {
                let rule = Normalization {
                    centered: true,
                    epsilon: 1e-5,
                };
                let [y, ..] = x.normalize(rule, &[-1], &[]);
                tables.push(y);
            }
            _ => {
                let fits = |w: &&Array| w.shape()[0] == width;
                let all: Vec<&Array> = factors.iter().filter(fits).collect();
                let w = all[numbers.below(all.len())];
                let row = w.slice(&[0.into()]);
                let y = match numbers.below(4) {
                    0 => matmul(&x, w),
                    1 => gemm(0.5, &x, w, -2.0, row),
                    // The same for all columns, and one that is no row.
                    2 => gemm(1.0, &x, w, 1.0, Array::from(0.25).cast(x.dtype())),
                    _ => gemm(1.0, &x, w, 1.0, row),
                };
                tables.push(y * 0.25);
            }
        }
    }
    results.extend(tables.pop());
    results.extend(tables.pop());
    results
}

#[test]
fn products_go_through_rows_with_the_passes_around_them() {
    let (mut numbers, mut by_rows) = (Numbers(8), 0);
    // Rows of fewer bytes stay in the cache between two steps, and are not computed some at a time.
    let sizes = [
        [40_001, 27, 8],
        [64, 2, 3],
        [18_000, 64, 48],
        [129, 33, 100],
        [8_200, 100, 140],
        [4_097, 257, 16],
        [1, 20, 20],
        [70_000, 16, 17],
        [12_345, 90, 5],
    ];
    for (round, [rows, width, other]) in sizes.into_iter().cycle().take(27).enumerate() {
        let dtype = match round % 7 {
            0 | 3 => DType::F64,
            5 => DType::BF16,
            _ => DType::F32,
        };
        let x = match round % 3 {
            0 => numbers.layout(&[rows, width], dtype),
            _ => numbers.array(&[rows, width], dtype),
        };
        let mut arrays = vec![x];
        for [k, n] in [
            [width, other],
            [other, width],
            [width, width],
            [other, other],
        ] {
            arrays.push(numbers.layout(&[k, n], dtype));
            arrays.push(numbers.array(&[n, k], dtype).transpose());
        }
        if round % 10 == 7 {
            arrays[5] = Array::full([width, width], 0.5).cast(dtype);
        }
        let seed = numbers.word();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let listing = pool.expect("threads start").install(|| {
                agree(
                    &format!("{rows} {width} {other} {dtype} {seed}"),
                    &arrays,
                    &|arrays| through_products(seed, arrays),
                )
            });
            let is_inside = |line: &str| line.starts_with(' ') && line.contains("= gemm(");
            by_rows += usize::from(listing.lines().any(is_inside));
        }
    }
    assert!(
        by_rows > 20,
        "{by_rows} of 54 programs have products in rows"
    );
}

#[test]
fn inputs_that_repeat_along_any_axes_are_read_where_they_are() {
    let mut numbers = Numbers(4);
    for sizes in [
        [2, 3, 4, 300],
        [3, 5, 40, 16],
        [2, 30, 7, 64],
        [6, 2, 9, 33],
    ] {
        for along in 0..16_usize {
            let repeated = |numbers: &mut Numbers, along: usize| {
                let kept = |axis: usize| along >> axis & 1 == 0;
                let shape: Vec<usize> = (0..4)
                    .map(|axis| if kept(axis) { sizes[axis] } else { 1 })
                    .collect();
                numbers.array(&shape, DType::F32)
            };
            let other = numbers.below(16);
            let arrays = [
                repeated(&mut numbers, 0),
                repeated(&mut numbers, along),
                repeated(&mut numbers, other),
            ];
            agree(&format!("{sizes:?} {along} {other}"), &arrays, &|arrays| {
                let [x, y, z] = arrays else {
                    unreachable!("there are three arrays")
                };
                vec![x * y + z, (y + z) * 0.5]
            });
        }
    }
}

#[test]
fn results_take_the_memory_of_inputs_that_are_given_away() {
    let mut numbers = Numbers(5);
    for size in [2, 33, 5000, 70_000] {
        let arrays = [0, 1].map(|_| numbers.array(&[size], DType::F32));
        let f = |arrays: &[Array]| vec![&arrays[0] * &arrays[1], &arrays[0] - &arrays[1]];
        let expected = f(&arrays);
        let tracer = Tracer::new("taking");
        let inputs: Vec<Array> = arrays.iter().map(|x| tracer.input(x)).collect();
        let outputs = tracer.run(|| f(&inputs));
        let program = tracer.finish(&outputs);
        let given: Vec<Array> = (arrays.iter())
            .map(|x| Array::from_vec(x.to_vec::<f32>(), [size]))
            .collect();
        let address = |x: &Array| x.as_slice::<f32>().expect("row-major").as_ptr();
        let memory: Vec<*const f32> = given.iter().map(address).collect();
        let found = program.run(given);
        for (x, y) in expected.iter().zip(&found) {
            assert!(x.has_same_bits(y), "{size} elements: {x}\n{y}");
        }
        let taken: Vec<*const f32> = found.iter().map(address).collect();
        if size != 33 || has_masks() {
            assert_eq!(taken, memory, "{size} elements");
        }
    }
}

/// Whether machine code stores parts of vectors here. Without masks it computes some elements of a last vector again
/// that is not whole, so these must not have taken the place of what they are computed from.
fn has_masks() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[test]
fn windows_that_are_no_rows_are_read_from_memory() {
    let mut numbers = Numbers(6);
    for (rows, width) in [(100, 6), (2000, 40)] {
        let x = numbers.array(&[rows, width], DType::F32);
        agree("windows", &[x], &|arrays| {
            let x = &arrays[0];
            let exponentials = (x - x.max(-1).expand_dims(-1)).exp();
            let sums = exponentials.sum(-1).expand_dims(-1);
            let all = exponentials.reshape([-1]);
            // As many rows, but of others' elements.
            let half = all.slice(&[(..(rows * width / 2) as i64).into()]);
            let half = half.reshape([rows, width / 2]) * 2.0 - &sums;
            let few = all.slice(&[(..rows as i64).into()]).reshape([rows, 1]);
            let rule = Normalization {
                centered: true,
                epsilon: 1e-5,
            };
            let [y, mean, variance] = exponentials.normalize(rule, &[-1], &[]);
            let (statistics, cotangents) = ([&mean, &variance], [&y, &few, &mean]);
            let gradients =
                normalize_gradient(rule, &[-1], &exponentials, statistics, None, cotangents);
            vec![half, gradients[0].clone()]
        });
    }
}

#[test]
fn a_softmax_goes_through_rows_in_one_step() {
    let mut numbers = Numbers(2);
    for shape in [&[1024, 300][..], &[8, 4, 64, 64], &[5000, 20]] {
        let x = numbers.array(shape, DType::F32);
        let listing = agree("softmax", &[x], &|arrays| {
            let x = &arrays[0];
            let exponentials = (x - x.max(-1).expand_dims(-1)).exp();
            let sums = exponentials.sum(-1).expand_dims(-1);
            vec![exponentials / sums]
        });
        assert!(listing.contains("rows at a time"), "{listing}");
        assert!(listing.contains("in 1 steps"), "{listing}");
    }
}

/// Though nothing else in the step reads the rows of the cotangent before.
#[test]
fn the_sum_of_a_cotangent_is_in_the_step_of_its_softmax() {
    let mut numbers = Numbers(7);
    for shape in [&[1024, 300][..], &[8, 4, 64, 64], &[5000, 20]] {
        let arrays = [0, 1].map(|_| numbers.array(shape, DType::F32));
        let listing = agree("gradient of log_softmax", &arrays, &|arrays| {
            let [x, cotangent] = arrays else {
                unreachable!("there are two arrays")
            };
            let shifted = x - x.max(-1).expand_dims(-1);
            let y = &shifted - shifted.exp().sum(-1).log().expand_dims(-1);
            vec![cotangent - y.exp() * cotangent.sum(-1).expand_dims(-1)]
        });
        assert!(listing.contains("in 1 steps"), "{listing}");
        // A sum for rows that are not there is no part of the step.
        let listing = agree("two sums", &arrays, &|arrays| {
            let [x, other] = arrays else {
                unreachable!("there are two arrays")
            };
            let centered = x - x.sum(-1).expand_dims(-1);
            vec![centered, other.sum(-1)]
        });
        assert!(listing.contains("in 2 steps"), "{listing}");
    }
}

#[test]
fn rows_that_are_read_once_go_through_in_larger_blocks() {
    let x = Numbers(4).array(&[1024, 1024], DType::F32);
    let mean = agree("mean", std::slice::from_ref(&x), &|arrays| {
        vec![arrays[0].sum(-1) * (1.0 / 1024.0)]
    });
    assert!(mean.contains("256 of 1024 rows at a time"), "{mean}");
    // The second step reads them again.
    let centered = agree("centered", &[x], &|arrays| {
        let x = &arrays[0];
        vec![x - (x.sum(-1) * (1.0 / 1024.0)).expand_dims(-1)]
    });
    assert!(centered.contains("32 of 1024 rows at a time"), "{centered}");
}

#[test]
fn parts_are_written_into_one_array_by_one_step() {
    let mut numbers = Numbers(3);
    let arrays: Vec<Array> = [[2, 3], [4, 3], [1, 3]]
        .map(|shape| numbers.array(&shape, DType::F32))
        .into();
    let listing = agree("concat", &arrays, &|arrays| {
        let [a, b, c] = arrays else {
            unreachable!("there are three arrays")
        };
        let first = concat(&[a, b, c], 0);
        let second = concat(&[c, &(a + 1.0), b], 0);
        // An array that is read between its parts, and one that is joined from joined ones.
        let both = concat(&[&first, &second, &first], 1);
        let mut changed = first.clone();
        changed.assign(&[(..2).into()], a);
        changed.assign(&[(2..3).into()], c);
        // One that is kept as it was before the next part.
        let third = concat(&[c, a], 0);
        let mut fourth = third.clone();
        fourth.assign(&[(1..3).into()], &(a * 2.0));
        vec![both, changed, second, first, third, fourth]
    });
    assert_eq!(listing.matches("= join(").count(), 4, "{listing}");
}

/// Threads share the writing of a long part, which is a step of its own.
#[test]
fn long_parts_are_written_by_threads_and_short_ones_together() {
    let long = Array::from_vec((0..1 << 16).map(|i| i as f32).collect(), [256, 256]);
    let short = Array::from_vec((0..256).map(|i| -(i as f32)).collect(), [1, 256]);
    let listing = agree("concat", &[long, short], &|arrays| {
        let [long, short] = arrays else {
            unreachable!("two arrays are given");
        };
        let turned = long.transpose();
        vec![
            concat(&[long, short, short, &turned], 0),
            concat(&[short, short, long, short], 0),
            concat(&[&turned, long], 1),
        ]
    });
    // The parts before the first long one.
    assert_eq!(listing.matches("= join(").count(), 1, "{listing}");
}

/// Machine code has the sums and extremes of rows in the passes that compute the rows, and does not store
/// what only they read.
#[test]
fn rows_are_folded_by_the_passes_that_compute_them() {
    let mut numbers = Numbers(3);
    // Long enough for parts of sums to be collected in doubles.
    let x = numbers.array(&[300, 544], DType::F32);
    let tracer = Tracer::new("folds");
    let slot = tracer.input(&x);
    let log_sum = tracer.run(|| {
        let largest = slot.max(-1).expand_dims(-1);
        (&slot - largest).exp().sum(-1)
    });
    let program = tracer.finish(&[log_sum]);
    let code = program.assembly();
    if code.is_empty() {
        // There is no machine code here.
        return;
    }
    assert_eq!(code.matches("; rows").count(), 2, "{code}");
    let rows = code.split("; rows").nth(2).expect("there are two");
    assert!(
        rows.contains("cvtps2pd") || rows.contains("fcvtl"),
        "{rows}"
    );
}

/// -∞ instead of what is NaN, which the maximum of machine code passes over by itself.
struct NumberOrLeast;

impl ElementFormula<1> for NumberOrLeast {
    const NAME: &'static str = "where";

    fn value<T: Float>([x]: [Number<T>; 1], []: [Number<T>; 0]) -> Number<T> {
        x.is_nan().where_(f64::NEG_INFINITY, x)
    }
}

/// The same for the minimum.
struct NumberOrGreatest;

impl ElementFormula<1> for NumberOrGreatest {
    const NAME: &'static str = "where";

    fn value<T: Float>([x]: [Number<T>; 1], []: [Number<T>; 0]) -> Number<T> {
        x.is_nan().where_(f64::INFINITY, x)
    }
}

#[test]
fn extremes_of_rows_can_leave_nan_out() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for width in [1, 7, 16, 130, 544] {
            let mut numbers = Numbers(8);
            let x = numbers.array(&[400, width], dtype);
            let mut values: Vec<f64> = x.cast(DType::F64).to_vec();
            for (row, values) in values.chunks_mut(width).enumerate() {
                let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                match row % 5 {
                    0 => values.fill(special[numbers.below(3)]),
                    1 | 2 => {
                        for _ in 0..=numbers.below(width) {
                            values[numbers.below(width)] = special[numbers.below(3)];
                        }
                    }
                    3 => values[numbers.below(width)] = f64::NAN,
                    _ => {}
                }
            }
            let x = Array::from_vec(values, [400, width]).cast(dtype);
            let listing = agree("extremes without NaN", &[x], &|arrays| {
                let x = &arrays[0];
                let most = elementwise(NumberOrLeast, [x.clone()], []).max(-1);
                let least = elementwise(NumberOrGreatest, [x.clone()], []).min(-1);
                // One that is not the neutral number of its fold, and one with NaN.
                let other = elementwise(NumberOrGreatest, [x.clone()], []).max(-1);
                let far = (x - most.expand_dims(-1)).exp().sum(-1);
                vec![most, least, other, x.max(-1), far]
            });
            let by_rows = dtype == DType::F32 && width > 7;
            assert!(!by_rows || listing.contains("rows"), "{listing}");
        }
    }
}

#[test]
fn extremes_without_nan_need_no_comparisons() {
    let x = Numbers(9).array(&[300, 544], DType::F32);
    let code_of = |f: &dyn Fn(&Array) -> Array| {
        let tracer = Tracer::new("extremes");
        let slot = tracer.input(&x);
        let far = tracer.run(|| (&slot - f(&slot).expand_dims(-1)).sum(-1));
        tracer.finish(&[far]).assembly()
    };
    let with = code_of(&|x| x.max(-1));
    let without = code_of(&|x| elementwise(NumberOrLeast, [x.clone()], []).max(-1));
    let comparisons = |code: &str| code.matches("vcmpps").count();
    #[cfg(target_arch = "x86_64")]
    assert!(with.is_empty() || comparisons(&with) > 0, "{with}");
    assert_eq!(comparisons(&without), 0, "{without}");
    assert!(without.is_empty() || without.len() < with.len());
}
