//! Indexing against plain loops, over every layout, axis and dtype.

use crate::layouts::*;
use bibun_array::{Array, DType, Generator, Index, Scatter, s};

/// A rule for an element and a value that is written to it.
type Rule = fn(f64, f64) -> f64;

const SHAPES: [&[usize]; 9] = [
    &[1],
    &[5],
    &[3, 4],
    &[4, 1],
    &[2, 3, 4],
    &[0, 3],
    &[3, 0],
    &[2, 3, 1, 2],
    &[1, 2, 20, 3],
];

fn index_arrays(size: usize, shape: &[usize]) -> Vec<Array> {
    let count = shape.iter().product();
    let numbers: Vec<f64> = (some_numbers(count, 9).iter())
        .map(|x| (*x as i64).rem_euclid(2 * size as i64) as f64 - size as f64)
        .collect();
    let x = array(&numbers, shape, DType::I64);
    vec![
        x.transpose().to_row_major().transpose(),
        x,
        Array::full(shape, -1),
    ]
}

fn from_front(index: f64, size: usize) -> usize {
    (if index < 0.0 {
        index + size as f64
    } else {
        index
    }) as usize
}

#[test]
fn take_and_add_at_equal_plain_loops() {
    for shape in SHAPES {
        for axis in 0..shape.len() {
            let size = shape[axis];
            let index_shapes: &[&[usize]] = match size {
                0 => &[&[0], &[2, 0]],
                _ => &[&[], &[1], &[7], &[2, 3], &[0]],
            };
            let index_arrays = index_shapes
                .iter()
                .flat_map(|s| index_arrays(size.max(1), s));
            for indices in index_arrays {
                let picked: Vec<f64> = numbers(&indices);
                let rank = indices.rank();
                let y_shape = [&shape[..axis], indices.shape(), &shape[axis + 1..]].concat();
                let source = |index: &[usize]| {
                    let j = position_of(&index[axis..axis + rank], indices.shape());
                    let mut source = index[..axis].to_vec();
                    source.push(from_front(picked[j], size));
                    source.extend(&index[axis + rank..]);
                    position_of(&source, shape)
                };
                for dtype in DTYPES {
                    for x in layouts(shape, dtype, 1) {
                        let elements = numbers(&x);
                        let y = x.take(&indices, axis as isize - shape.len() as isize);
                        assert_eq!(*y.shape(), y_shape[..]);
                        let expected = by_index(&y_shape, |index| elements[source(index)]);
                        assert_eq!(numbers(&y), expected, "take of {shape:?} along {axis}");
                    }
                    let x = layouts(shape, dtype, 2).swap_remove(axis % 4);
                    for value in layouts(&y_shape, dtype, 3) {
                        let mut expected = numbers(&x);
                        for (i, v) in numbers(&value).into_iter().enumerate() {
                            let at = source(&index_of(i, &y_shape));
                            expected[at] = add(expected[at], v, dtype);
                        }
                        let before = numbers(&x);
                        let y = x.clone().add_at(&indices, axis as isize, &value);
                        assert_eq!(numbers(&y), expected, "add_at to {shape:?} along {axis}");
                        assert_eq!(numbers(&x), before);
                    }
                }
            }
        }
    }
}

#[test]
fn gather_and_scatter_add_equal_plain_loops() {
    for shape in SHAPES {
        for axis in 0..shape.len() {
            let size = shape[axis];
            for count in if size == 0 {
                vec![0]
            } else {
                vec![0, 1, size, 2 * size + 1]
            } {
                let mut y_shape = shape.to_vec();
                y_shape[axis] = count;
                for indices in index_arrays(size.max(1), &y_shape) {
                    let picked = numbers(&indices);
                    let source = |index: &[usize]| {
                        let mut source = index.to_vec();
                        source[axis] = from_front(picked[position_of(index, &y_shape)], size);
                        position_of(&source, shape)
                    };
                    for dtype in DTYPES {
                        for x in layouts(shape, dtype, 4) {
                            let elements = numbers(&x);
                            let y = x.gather(&indices, axis as isize);
                            assert_eq!(*y.shape(), y_shape[..]);
                            let expected = by_index(&y_shape, |index| elements[source(index)]);
                            assert_eq!(numbers(&y), expected, "gather {shape:?} along {axis}");
                        }
                        let x = layouts(shape, dtype, 5).swap_remove(axis % 4);
                        for value in layouts(&y_shape, dtype, 6) {
                            let mut expected = numbers(&x);
                            for (i, v) in numbers(&value).into_iter().enumerate() {
                                let at = source(&index_of(i, &y_shape));
                                expected[at] = add(expected[at], v, dtype);
                            }
                            // Rounded once.
                            let expected = numbers(&array(&expected, shape, dtype));
                            let y = x.clone().scatter_add(&indices, axis as isize, &value);
                            assert_eq!(numbers(&y), expected, "scatter {shape:?} along {axis}");
                        }
                        let value = layouts(&y_shape, dtype, 6).swap_remove(axis % 4);
                        let rules: [(Scatter, Rule); 3] = [
                            (Scatter::Set, |_, v| v),
                            (Scatter::Max, f64::max),
                            (Scatter::Min, f64::min),
                        ];
                        for (rule, written) in rules {
                            let mut expected = numbers(&x);
                            for (i, v) in numbers(&value).into_iter().enumerate() {
                                let at = source(&index_of(i, &y_shape));
                                expected[at] = written(expected[at], v);
                            }
                            let y = x.clone().scatter(rule, &indices, axis as isize, &value);
                            assert_eq!(numbers(&y), expected, "{rule:?} {shape:?} along {axis}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn large_indexing_does_not_depend_on_threads() {
    let mut generator = Generator::new(3);
    for (shape, axis) in [
        ([700, 300, 1], 0),
        ([3, 300, 200], 1),
        ([900, 30, 8], 1),
        ([2, 2, 60_000], 2),
    ] {
        let x = generator.normal(shape, 0.0, 1.0, DType::F32);
        let size = shape[axis];
        let indices = generator.integers(-(size as i64), size as i64, 2 * size);
        let axis = axis as isize;
        let y = for_any_number_of_threads(|| x.take(&indices, axis));
        let strided = x.transpose().to_row_major().transpose();
        let z = for_any_number_of_threads(|| strided.take(&indices, axis));
        assert_eq!(numbers(&z), numbers(&y));
        let z = for_any_number_of_threads(|| x.clone().add_at(&indices, axis, &y));
        // Each thread's sums must come in the order of the indices, which f32 rounding shows.
        let one_by_one = (0..2 * size).fold(x.clone(), |sum, i| {
            let part = Index::from(i..i + 1);
            let value = y.moveaxis(axis, 0).slice(&[part]).moveaxis(0, axis);
            if size > 1000 {
                sum
            } else {
                sum.add_at(&indices.slice(&[part]), axis, &value)
            }
        });
        if size <= 1000 {
            assert_eq!(numbers(&one_by_one), numbers(&z));
        }
        let same = generator.integers(0, size as i64, shape);
        let y = for_any_number_of_threads(|| x.gather(&same, axis));
        let z = for_any_number_of_threads(|| x.clone().scatter_add(&same, axis, &y));
        // In place, in memory that nobody else holds.
        let own = for_any_number_of_threads(|| {
            let mut own = x.clone();
            own.as_mut_slice::<f32>();
            own.scatter_add(&same, axis, &y)
        });
        assert_eq!(numbers(&own), numbers(&z));
        for rule in [Scatter::Set, Scatter::Max, Scatter::Min] {
            for_any_number_of_threads(|| x.clone().scatter(rule, &same, axis, &y));
        }
        let z = for_any_number_of_threads(|| strided.gather(&same, axis));
        assert_eq!(numbers(&z), numbers(&y));
    }
}

#[test]
fn nan_is_the_extreme_of_what_is_scattered() {
    let x = Array::from([f64::NAN, 1.0, 2.0]);
    let (indices, value) = (Array::from([0i64, 1, 1]), Array::from([5.0, f64::NAN, 7.0]));
    for rule in [Scatter::Max, Scatter::Min] {
        let y = numbers(&x.clone().scatter(rule, &indices, 0, &value));
        assert!(y[0].is_nan() && y[1].is_nan() && y[2] == 2.0, "{y:?}");
    }
}

#[test]
fn a_moved_target_keeps_its_memory() {
    let x = array(&some_numbers(12, 0), &[4, 3], DType::F64);
    let address = x.as_slice::<f64>().unwrap().as_ptr();
    let x = x.add_at(&Array::from([1i64, 1]), 0, &Array::from(1.0));
    let mut x = x.scatter_add(&Array::full([1, 3], 2), 0, &Array::from(1.0));
    x.assign(s![0], &Array::from(7.0));
    x.add_assign_slice(s![.., 0], &Array::from(1.0));
    assert_eq!(x.as_slice::<f64>().unwrap().as_ptr(), address);
}

#[test]
fn one_hot_has_ones_where_the_indices_say() {
    for indices in [
        Array::from([[2i64, 0], [-1, 1]]),
        Array::full([2, 2], 1),
        Array::scalar(2),
        Array::zeros([0], DType::I64),
    ] {
        for dtype in DTYPES {
            let y = Array::one_hot(&indices, 3, dtype);
            let classes = numbers(&indices);
            let shape = [&**indices.shape(), &[3]].concat();
            let expected = by_index(&shape, |index| {
                let (class, at) = index.split_last().unwrap();
                let wanted = from_front(classes[position_of(at, indices.shape())], 3);
                f64::from(u8::from(*class == wanted))
            });
            assert_eq!((numbers(&y), &**y.shape()), (expected, &shape[..]));
        }
    }
}

#[test]
fn masks_select_what_a_loop_selects() {
    for shape in SHAPES {
        for dtype in DTYPES {
            for x in layouts(shape, dtype, 7) {
                let elements = numbers(&x);
                let flat: Vec<f64> = (0..x.size())
                    .filter(|&i| elements[i] != 0.0)
                    .map(|i| i as f64)
                    .collect();
                assert_eq!(numbers(&x.flat_nonzero()), flat);
                let rows: Vec<f64> = (flat.iter())
                    .flat_map(|&i| index_of(i as usize, shape))
                    .map(|i| i as f64)
                    .collect();
                let nonzero = x.nonzero();
                assert_eq!(
                    (numbers(&nonzero), &**nonzero.shape()),
                    (rows, &[flat.len(), shape.len()][..])
                );
                for masked in 0..=shape.len() {
                    let inner: usize = shape[masked..].iter().product();
                    for mask in layouts(&shape[..masked], DType::Bool, 8) {
                        let kept = numbers(&mask);
                        let expected: Vec<f64> = (0..x.size())
                            .filter(|i| kept[i / inner] != 0.0)
                            .map(|i| elements[i])
                            .collect();
                        let y = x.mask_select(&mask);
                        assert_eq!(numbers(&y), expected);
                        assert_eq!(y.shape()[1..], shape[masked..]);
                    }
                }
                for axis in 0..shape.len() {
                    for mask in layouts(&shape[axis..=axis], DType::Bool, 9) {
                        let kept = numbers(&mask);
                        let expected: Vec<f64> = (0..x.size())
                            .filter(|&i| kept[index_of(i, shape)[axis]] != 0.0)
                            .map(|i| elements[i])
                            .collect();
                        assert_eq!(numbers(&x.compress(&mask, axis as isize)), expected);
                    }
                }
            }
        }
    }
    assert_eq!(
        numbers(&Array::from([f64::NAN, -0.0]).flat_nonzero()),
        [0.0]
    );
}

#[test]
fn assign_writes_the_part_and_nothing_else() {
    let shape = [4, 3, 5];
    let parts: [&[Index]; 9] = [
        s![],
        s![2],
        s![.., 1..],
        s![..; -1, .., ..; 2],
        s![-1, new, 2],
        s![..., -2],
        s![1, 2, 3],
        s![2..2],
        s![3..; -2, 0, 4..; -3],
    ];
    for dtype in DTYPES {
        for x in layouts(&shape, dtype, 10) {
            for part in parts {
                let positions = Array::arange(0, 60).reshape(shape).slice(part);
                let whole = positions.shape().to_vec();
                let mut values = layouts(&whole, dtype, 11);
                values.push(array(&[3.0], &[], dtype));
                if let Some(last) = whole.last() {
                    values.push(array(&some_numbers(*last, 1), &[*last], dtype));
                }
                for value in values {
                    let (before, kept) = (numbers(&x), x.clone());
                    let spread = numbers(&value.broadcast_to(&whole[..]));
                    let (mut assigned, mut added) = (before.clone(), before.clone());
                    for (at, v) in positions.to_vec::<i64>().into_iter().zip(spread) {
                        assigned[at as usize] = v;
                        added[at as usize] = add(before[at as usize], v, dtype);
                    }
                    let mut y = x.clone();
                    y.assign(part, &value);
                    assert_eq!(numbers(&y), assigned, "{part:?}");
                    let mut y = x.clone();
                    y.add_assign_slice(part, &value);
                    assert_eq!(numbers(&y), added, "{part:?}");
                    assert_eq!(numbers(&kept), before);
                }
            }
        }
    }
    // An array may be assigned to itself.
    let mut x = Array::from([1.0, 2.0, 3.0]);
    let reversed = x.flip(&[]);
    x.assign(s![..], &reversed);
    assert_eq!(numbers(&x), [3.0, 2.0, 1.0]);
}

#[test]
fn errors_name_the_index_the_axis_and_the_shapes() {
    let x = Array::zeros([2, 3], DType::F64);
    let index = |i: i64| Array::from([0, i]);
    let float = Array::from([0.0]);
    let cases: Vec<(String, &str)> = vec![
        (
            message(|| drop(x.take(&index(3), 1))),
            "take: index 3 is outside of axis 1 of the shape [2, 3]; it is element 1",
        ),
        (
            message(|| drop(x.take(&index(-3), 0))),
            "take: index -3 is outside of axis 0 of the shape [2, 3]",
        ),
        (
            message(|| drop(x.take(&Array::full([2, 2], 9), 0))),
            "take: index 9 is outside of axis 0",
        ),
        (
            message(|| drop(x.take(&float, 0))),
            "take: the indices are f64, expected integers",
        ),
        (
            message(|| drop(x.take(&index(0), 2))),
            "take: axis 2 is outside of the rank 2",
        ),
        (
            message(|| drop(Array::zeros([0], DType::F32).take(&Array::from(0), 0))),
            "take: index 0 is outside of axis 0 of the shape [0]",
        ),
        (
            message(|| drop(x.clone().add_at(&index(2), 0, &float))),
            "add_at: index 2 is outside of axis 0",
        ),
        (
            message(|| drop(x.clone().add_at(&index(1), 0, &Array::from([1.0, 2.0])))),
            "add_at: the value [2] cannot be repeated to the shape [2, 3] of the part",
        ),
        (
            message(|| drop(x.clone().add_at(&index(1), 0, &Array::from(1.0f32)))),
            "add_at: the dtype is f32, expected f64",
        ),
        (
            message(|| drop(x.gather(&index(1), 0))),
            "gather: the indices [2] do not fit the shape [2, 3] (all axes but 0 must be equal)",
        ),
        (
            message(|| drop(x.gather(&Array::full([2, 2], 1), 0))),
            "gather: the indices [2, 2] do not fit",
        ),
        (
            message(|| drop(x.gather(&Array::from([[0i64, 2, 0]]), 0))),
            "gather: index 2 is outside of axis 0 of the shape [2, 3]; it is element 1",
        ),
        // So many that their places are computed together.
        (
            message(|| {
                let x = Array::arange(0, 1200).reshape([4, 300]);
                drop(x.gather(&Array::full([2, 300], i64::MAX), 0));
            }),
            "gather: index 9223372036854775807 is outside of axis 0",
        ),
        (
            message(|| {
                drop(
                    x.clone()
                        .scatter_add(&Array::from([[0i64, 2, 0]]), 0, &float),
                )
            }),
            "scatter_add: index 2 is outside of axis 0 of the shape [2, 3]; it is element 1",
        ),
        (
            message(|| {
                let x = Array::zeros([2, 0, 3], DType::F32);
                drop(x.scatter_add(
                    &Array::zeros([2, 1, 3], DType::I64),
                    1,
                    &Array::from(1.0f32),
                ))
            }),
            "scatter_add: index 0 is outside of axis 1 of the shape [2, 0, 3]",
        ),
        (
            message(|| drop(Array::zeros([0], DType::F32).gather(&Array::from([0i64]), 0))),
            "gather: index 0 is outside of axis 0 of the shape [0]",
        ),
        (
            message(|| drop(x.clone().scatter_add(&Array::from([[0i64, 0]]), 0, &float))),
            "scatter_add: the indices [1, 2] do not fit",
        ),
        (
            message(|| drop(Array::one_hot(&index(4), 4, DType::F32))),
            "one_hot: index 4 is outside of axis 1 of the shape [2, 4]",
        ),
        (
            message(|| drop(x.mask_select(&float))),
            "mask_select: the dtype is f64, expected bool",
        ),
        (
            message(|| drop(x.mask_select(&Array::from([true])))),
            "mask_select: the mask [1] does not fit the first axes of the shape [2, 3]",
        ),
        (
            message(|| drop(x.compress(&Array::from([true]), 1))),
            "compress: the mask [1] is not a vector as long as axis 1 of the shape [2, 3]",
        ),
        (
            message(|| drop(x.compress(&float, 1))),
            "compress: the dtype is f64, expected bool",
        ),
        (
            message(|| x.clone().assign(s![2], &float)),
            "assign: index 2 is outside of axis 0 of the shape [2, 3]",
        ),
        (
            message(|| x.clone().assign(s![.., 1..], &Array::from([1.0, 2.0, 3.0]))),
            "assign: the value [3] cannot be repeated to the shape [2, 2] of the part",
        ),
        (
            message(|| x.clone().assign(s![1], &Array::from(1))),
            "assign: the dtype is i32, expected f64",
        ),
        (
            message(|| x.clone().add_assign_slice(s![0, 0, 0], &float)),
            "add_assign_slice: the index",
        ),
        (
            message(|| x.clone().add_assign_slice(s![1], &Array::from(true))),
            "add_assign_slice: the dtype is bool, expected f64",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
}
