//! Programs compute the same bits as the functions that they were recorded from.

use bibun_array::{Array, DType, Normalization, Tracer, concat, normalize_gradient};

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
                let [y, mean, variance] = x.normalize(rule, &[-1]);
                let gradient =
                    normalize_gradient(rule, [&y, &variance], [&x, &mean, &(&stat * 0.1)], &[-1]);
                tables.push(y);
                stats.push(variance);
                tables.push(gradient);
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
        assert_eq!(taken, memory, "{size} elements");
    }
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
            let [y, mean, variance] = exponentials.normalize(rule, &[-1]);
            let gradient =
                normalize_gradient(rule, [&y, &variance], [&exponentials, &few, &mean], &[-1]);
            vec![half, gradient]
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
