//! Views and elementwise kernels over every kind of layout, against plain index arithmetic.

use bibun_array::math::Float;
use bibun_array::{
    Array, DType, ElementFormula, Generator, Index, Number, concat, elementwise, ops, s, stack,
};

struct Fma;
impl ElementFormula<3> for Fma {
    const NAME: &'static str = "fma";
    #[inline(always)]
    fn value<T: Float>([a, b, c]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
        a * b + c
    }
}

fn numbers(shape: [usize; 3]) -> Array {
    let size = shape.iter().product::<usize>();
    Array::from_vec((0..size).map(|i| (i as f64 * 0.7).sin()).collect(), shape)
}

#[test]
fn elementwise_over_mixed_layouts_equals_plain_loops() {
    for size in [1, 3, 40] {
        let a = numbers([size, 5, 7]);
        let layouts = [
            numbers([size, 5, 7]),
            numbers([7, 5, size]).transpose(),
            numbers([5, size, 7]).swapaxes(0, 1),
            numbers([size, 5, 7]).slice(s![..; -1, .., ..; -1]),
            numbers([2 * size, 5, 14]).slice(s![1..; 2, .., ..; 2]),
            numbers([1, 5, 7]).broadcast_to([size, 5, 7]),
            numbers([size, 1, 1]).broadcast_to([size, 5, 7]),
            Array::full([size, 5, 7], 0.25),
        ];
        for b in &layouts {
            for c in &layouts {
                let y = elementwise(Fma, [a.clone(), b.clone(), c.clone()], []);
                let z = elementwise(Fma, [b.clone(), a.transpose().transpose(), c.clone()], []);
                let expected: Vec<f64> = (a.to_vec::<f64>().iter())
                    .zip(b.to_vec::<f64>())
                    .zip(c.to_vec::<f64>())
                    .map(|((a, b), c)| a * b + c)
                    .collect();
                assert_eq!(y.to_vec::<f64>(), expected);
                assert_eq!(z.to_vec::<f64>(), expected);
                for (i, &want) in expected.iter().enumerate() {
                    let index = [i / 35, i / 7 % 5, i % 7];
                    assert_eq!(y.element(&index).to_f64(), want);
                }
            }
        }
    }
}

#[test]
fn a_moved_input_gives_its_memory_and_a_shared_one_does_not() {
    let a = numbers([4, 5, 6]);
    let kept = a.clone();
    let before = a.to_vec::<f64>();
    let y = elementwise(Fma, [a, Array::full((), 2.0), Array::full((), 1.0)], []);
    assert!(!y.shares_memory_with(&kept));
    assert_eq!(kept.to_vec::<f64>(), before);
    let address = y.as_slice::<f64>().unwrap().as_ptr();
    let z = elementwise(Fma, [y, Array::full((), 2.0), Array::full((), 1.0)], []);
    assert_eq!(z.as_slice::<f64>().unwrap().as_ptr(), address);
    let expected: Vec<f64> = before.iter().map(|x| (x * 2.0 + 1.0) * 2.0 + 1.0).collect();
    assert_eq!(z.to_vec::<f64>(), expected);
}

/// What comes again is computed by machine code, which writes to the memory of what it reads.
#[test]
fn large_inputs_that_are_moved_have_the_bits_of_small_ones() {
    fn bits(x: &Array) -> Vec<u64> {
        let x = x.cast(DType::F64).to_vec::<f64>();
        x.into_iter().map(f64::to_bits).collect()
    }
    type Function = fn(Array, &Array) -> Array;
    let functions: [(&str, Function); 4] = [
        ("add", |x, y| x + y),
        ("add to itself", |x, _| x.clone() + x),
        ("exp", |x, _| ops::exp(x)),
        ("scale", |x, y| x * Array::scalar(3).cast(y.dtype()) * y),
    ];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    let pool = pool.expect("threads start");
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I64] {
        // The second has a size that no number of lanes divides.
        for (rows, columns) in [(256, 1024), (301, 997)] {
            let mut random = Generator::new(rows as u64);
            let mut normal =
                |shape: [usize; 2]| random.normal(shape, 0.0, 9.0, DType::F64).cast(dtype);
            let x = normal([rows, columns]);
            let zero = Array::scalar(0).cast(dtype);
            for shape in [[rows, columns], [1, columns], [rows, 1], [1, 1]] {
                let y = normal(shape);
                for (name, f) in functions {
                    if dtype == DType::I64 && name == "exp" {
                        continue;
                    }
                    for turn in 0..5 {
                        let moved = &x + &zero;
                        let memory = moved.memory_key();
                        let made = match turn {
                            4 => pool.install(|| f(moved, &y)),
                            _ => f(moved, &y),
                        };
                        let is_whole = shape == [rows, columns] && rows == 256;
                        if is_whole && name != "add to itself" {
                            assert_eq!(made.memory_key(), memory, "{name} of {dtype}");
                        }
                        for row in [0, 1, rows / 2, rows - 1] {
                            let x = x.slice(s![row..row + 1]);
                            let row_of_y = row.min(shape[0] - 1);
                            let y = y.slice(s![row_of_y..row_of_y + 1]);
                            let expected = f(&x + &zero, &y);
                            let found = made.slice(s![row..row + 1]);
                            assert_eq!(bits(&found), bits(&expected), "{name}, {shape:?}, {row}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn very_large_inputs_that_are_moved_give_their_memory_for_rows_too() {
    let row = Array::arange(0, 1024).cast(DType::F32);
    let mut x = Array::zeros([4096, 1024], DType::F32).add(&row);
    let memory = x.memory_key();
    for _ in 0..3 {
        x = ops::add(x, row.clone());
        assert_eq!(x.memory_key(), memory);
    }
    let expected = (0..1024).map(|i| i as f32 * 4.0).collect::<Vec<_>>();
    assert_eq!(x.slice(s![4095]).to_vec::<f32>(), expected);
}

#[test]
fn copies_in_another_order_have_the_elements_of_the_view() {
    let sizes = [35, 4, 37];
    let x = Array::arange(0, sizes.iter().product::<usize>() as i64).reshape(sizes);
    let windows = [
        x.clone(),
        x.slice(s![1.., ..; -1, 3..]),
        x.slice(s![..; -1, .., ..; 2]),
        x.slice(s![.., 2.., ..; -1]),
    ];
    for x in windows {
        for dtype in [
            DType::I64,
            DType::I32,
            DType::F32,
            DType::F64,
            DType::BF16,
            DType::U8,
        ] {
            let x = x.cast(dtype);
            for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let view = x.permute(&order);
                let mut expected = Vec::new();
                for i in 0..view.shape()[0] {
                    for j in 0..view.shape()[1] {
                        for k in 0..view.shape()[2] {
                            expected.push(view.slice(s![i, j, k]).cast(DType::I64).item::<i64>());
                        }
                    }
                }
                let copy = view.to_row_major();
                assert_eq!(copy.cast(DType::I64).to_vec::<i64>(), expected, "{order:?}");
            }
        }
    }
}

#[test]
fn transposed_copies_with_rows_a_power_of_two_apart_have_the_elements_of_the_view() {
    // Rows of the result are 4 KiB apart, of which there are parts of blocks, or 3 KiB, of which the last columns are
    // few.
    for dtype in DType::ALL {
        for bytes in [4096, 3072] {
            let columns = bytes / dtype.size();
            for (planes, rows) in [(1, 150), (2, 70), (1, 17), (3, 16), (1, 9)] {
                let value = |plane: usize, row: usize, column: usize| {
                    (plane * 50 + row * 3 + column * 7) as i64 % 101
                };
                let shape = [planes, columns, rows];
                let places = || (0..planes).flat_map(|p| (0..columns).map(move |c| (p, c)));
                let values = places().flat_map(|(p, c)| (0..rows).map(move |r| value(p, r, c)));
                let x = Array::from_vec(values.collect(), &shape[..]).cast(dtype);
                let mut expected: Vec<i64> = Vec::new();
                for plane in 0..planes {
                    for row in 0..rows {
                        expected.extend((0..columns).map(|column| value(plane, row, column)));
                    }
                }
                let expected = Array::from_vec(expected, &[planes, rows, columns][..]).cast(dtype);
                let backwards = x.slice(s![.., ..; -1, ..]).permute(&[0, 2, 1]);
                for (view, expected) in [
                    (x.permute(&[0, 2, 1]), expected.clone()),
                    (backwards, expected.slice(s![.., .., ..; -1]).to_row_major()),
                ] {
                    let copy = view.to_row_major();
                    assert!(copy.has_same_bits(&expected), "{dtype} {:?}", copy.shape());
                }
            }
        }
    }
}

#[test]
fn large_copies_and_parts_are_the_same_on_any_number_of_threads() {
    let numbers = |shape: &[usize], dtype| {
        let size = shape.iter().product::<usize>();
        (Array::arange(0, size as i64).reshape(shape) * 7 % 251).cast(dtype)
    };
    for dtype in [DType::F32, DType::F64, DType::U8, DType::Bool] {
        let x = numbers(&[48, 50, 41], dtype);
        let y = numbers(&[3, 50_001], dtype);
        let run = || {
            let windows = [
                x.transpose(),
                x.permute(&[0, 2, 1]),
                x.permute(&[1, 0, 2]),
                x.slice(s![.., 3..47, ..; -1]),
                x.slice(s![..; -1, .., 2..]),
                y.transpose(),
                y.slice(s![.., ..; 2]),
                y.slice(s![1, ..50_000]).broadcast_to([3, 50_000]),
            ];
            let mut made: Vec<Array> = windows.iter().map(Array::to_row_major).collect();
            for axis in 0..3 {
                made.push(concat(&[&x, &x, &x], axis));
                made.push(stack(&[&x, &x], axis));
            }
            let mut assign = |index: &[Index]| {
                let mut target = Array::zeros([48, 50, 41], dtype);
                target.assign(index, &x.slice(index));
                made.push(target);
            };
            assign(s![1..40, .., ..]);
            assign(s![..; 3, 5..45, ..]);
            assign(s![..; -1, .., 1..40]);
            made
        };
        let pools = [1, 2, 3, 7].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().expect("threads start").install(run)
        });
        // Element by element.
        let shape = x.shape().to_vec();
        for (i, j, k) in [(0, 0, 0), (47, 49, 40), (13, 31, 7), (20, 2, 39)] {
            assert_eq!(pools[0][0].element(&[k, j, i]), x.element(&[i, j, k]));
            let row = pools[0][8].element(&[2 * shape[0] + i, j, k]);
            assert_eq!(row, x.element(&[i, j, k]));
        }
        for other in pools[1..].iter().chain([&run()]) {
            for (i, (a, b)) in pools[0].iter().zip(other).enumerate() {
                assert!(a.has_same_bits(b), "{dtype}, array {i}");
            }
        }
    }
}
