//! Joining, splitting, repeating and shifting against plain loops.

use crate::layouts::*;
use bibun_array::{Array, DType, concat, stack};

const SHAPES: [&[usize]; 7] = [
    &[1],
    &[5],
    &[3, 4],
    &[2, 3, 4],
    &[0, 3],
    &[3, 0, 2],
    &[1, 2, 1, 3],
];

fn check(y: &Array, shape: &[usize], element: impl Fn(&[usize]) -> f64, what: &str) {
    assert_eq!(&**y.shape(), shape, "{what}");
    assert_eq!(numbers(y), by_index(shape, element), "{what}");
}

#[test]
fn concat_and_stack_lay_arrays_side_by_side() {
    for shape in SHAPES {
        for dtype in DTYPES {
            for axis in 0..=shape.len() {
                let (left, right) = (layouts(shape, dtype, 1), layouts(shape, dtype, 2));
                for (a, b) in left.iter().zip(right.iter().rev()) {
                    let arrays = [a, b, a];
                    let all: Vec<Vec<f64>> = arrays.iter().map(|x| numbers(x)).collect();
                    let mut larger = shape.to_vec();
                    larger.insert(axis, 3);
                    let element = |index: &[usize]| {
                        let mut index = index.to_vec();
                        let which = index.remove(axis);
                        all[which][position_of(&index, shape)]
                    };
                    let behind = axis as isize - shape.len() as isize - 1;
                    check(&stack(&arrays, behind), &larger, element, "stack");
                    if axis == shape.len() {
                        continue;
                    }
                    let size = shape[axis];
                    let mut larger = shape.to_vec();
                    larger[axis] *= 3;
                    let element = |index: &[usize]| {
                        let mut index = index.to_vec();
                        let which = index[axis] / size;
                        index[axis] %= size;
                        all[which][position_of(&index, shape)]
                    };
                    check(&concat(&arrays, axis as isize), &larger, element, "concat");
                }
            }
        }
    }
    let (a, b) = (
        Array::zeros([2, 0], DType::I64),
        Array::from([[1i64, 2, 3], [4, 5, 6]]),
    );
    assert_eq!(
        numbers(&concat(&[&a, &b, &a], 1)),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
    assert!(concat(&[&b], 0).shares_memory_with(&b));
}

#[test]
fn split_parts_join_to_the_whole() {
    for shape in SHAPES {
        for x in layouts(shape, DType::F32, 3) {
            for axis in 0..shape.len() as isize {
                let size = shape[axis as usize];
                let mut cuts = vec![
                    x.split_at(&[], axis),
                    x.split_at(&[0, 1, 1, size + 3], axis),
                ];
                for sections in 1..7 {
                    let parts = x.array_split(sections, axis);
                    let sizes: Vec<usize> = parts
                        .iter()
                        .map(|part| part.shape()[axis as usize])
                        .collect();
                    assert_eq!(sizes.len(), sections);
                    assert!(sizes.iter().rev().is_sorted() && sizes[0] - sizes[sections - 1] <= 1);
                    if size.is_multiple_of(sections) {
                        assert!(sizes.iter().all(|&part| part == size / sections));
                        cuts.push(x.split(sections, axis));
                    }
                    cuts.push(parts);
                }
                for parts in cuts {
                    let parts: Vec<&Array> = parts.iter().collect();
                    assert_eq!(numbers(&concat(&parts, axis)), numbers(&x));
                }
            }
        }
    }
    let sizes: Vec<usize> = (Array::arange(0, 10).split_at(&[2, 5, 5], 0).iter())
        .map(Array::size)
        .collect();
    assert_eq!(sizes, [2, 3, 0, 5]);
}

#[test]
fn tile_repeat_and_roll_equal_plain_loops() {
    for shape in SHAPES {
        for dtype in DTYPES {
            for x in layouts(shape, dtype, 4) {
                let elements = numbers(&x);
                for repeats in [
                    &[][..],
                    &[2],
                    &[3, 1],
                    &[0, 2],
                    &[2, 1, 3],
                    &[1, 2, 1, 1, 2],
                ] {
                    let rank = shape.len().max(repeats.len());
                    let ones = |values: &[usize]| [&vec![1; rank - values.len()], values].concat();
                    let (old, times) = (ones(shape), ones(repeats));
                    let new: Vec<usize> = old.iter().zip(&times).map(|(a, b)| a * b).collect();
                    let element = |index: &[usize]| {
                        let index: Vec<usize> =
                            index.iter().zip(&old).map(|(i, n)| i % n).collect();
                        elements[position_of(&index, &old)]
                    };
                    check(&x.tile(repeats), &new, element, "tile");
                }
                for axis in 0..shape.len() {
                    for times in 0..4 {
                        let mut new = shape.to_vec();
                        new[axis] *= times;
                        let element = |index: &[usize]| {
                            let mut index = index.to_vec();
                            index[axis] /= times;
                            elements[position_of(&index, shape)]
                        };
                        check(&x.repeat(times, axis as isize), &new, element, "repeat");
                    }
                    for shift in [-7, -1, 0, 1, 2, 23] {
                        let element = |index: &[usize]| {
                            let mut index = index.to_vec();
                            let from = index[axis] as isize - shift;
                            index[axis] = from.rem_euclid(shape[axis] as isize) as usize;
                            elements[position_of(&index, shape)]
                        };
                        check(&x.roll(shift, axis as isize), shape, element, "roll");
                    }
                }
            }
        }
    }
}

#[test]
fn pad_puts_the_value_around() {
    for shape in SHAPES {
        let widths: Vec<(usize, usize)> = (0..shape.len())
            .map(|axis| (axis % 3, (axis + 1) % 2))
            .collect();
        let larger: Vec<usize> = shape
            .iter()
            .zip(&widths)
            .map(|(n, (a, b))| n + a + b)
            .collect();
        for dtype in DTYPES {
            for x in layouts(shape, dtype, 5) {
                let elements = numbers(&x);
                let element = |index: &[usize]| {
                    let inside: Option<Vec<usize>> = (index.iter().zip(&widths).zip(shape))
                        .map(|((i, (before, _)), n)| i.checked_sub(*before).filter(|i| i < n))
                        .collect();
                    inside.map_or(1.0, |index| elements[position_of(&index, shape)])
                };
                check(&x.pad(&widths, 1), &larger, element, "pad");
            }
        }
    }
}

#[test]
fn triangles_and_diagonals_equal_plain_loops() {
    for shape in [
        &[1, 1][..],
        &[4, 4],
        &[3, 5],
        &[5, 2],
        &[2, 3, 4],
        &[0, 3],
        &[3, 0],
    ] {
        let rank = shape.len();
        for dtype in DTYPES {
            for x in layouts(shape, dtype, 6) {
                let elements = numbers(&x);
                for offset in [-9, -3, -1, 0, 1, 2, 9, isize::MAX, isize::MIN] {
                    let lower = |index: &[usize]| {
                        index[rank - 1] as i128 - index[rank - 2] as i128 <= offset as i128
                    };
                    let upper = |index: &[usize]| {
                        index[rank - 1] as i128 - index[rank - 2] as i128 >= offset as i128
                    };
                    let at = |index: &[usize]| elements[position_of(index, shape)];
                    let below = |index: &[usize]| if lower(index) { at(index) } else { 0.0 };
                    let above = |index: &[usize]| if upper(index) { at(index) } else { 0.0 };
                    check(&x.tril(offset), shape, below, "tril");
                    check(&x.triu(offset), shape, above, "triu");
                }
                for offset in [-2, -1, 0, 1, 3] {
                    let y = x.diag(offset);
                    let size = shape[rank - 1] + offset.unsigned_abs();
                    let square = [&shape[..rank - 1], &[size, size]].concat();
                    let element = |index: &[usize]| {
                        let (row, column) = (index[rank - 1] as isize, index[rank] as isize);
                        let mut index = index[..rank].to_vec();
                        index[rank - 1] = row.min(column) as usize;
                        if column - row == offset {
                            elements[position_of(&index, shape)]
                        } else {
                            0.0
                        }
                    };
                    check(&y, &square, element, "diag");
                    assert_eq!(numbers(&y.diagonal(offset)), elements);
                }
            }
        }
    }
}

#[test]
fn errors_name_the_shapes() {
    let x = Array::zeros([2, 3], DType::F64);
    let vector = Array::zeros([3], DType::F64);
    let cases: Vec<(String, &str)> = vec![
        (
            message(|| drop(concat(&[], 0))),
            "concat: there are no arrays",
        ),
        (
            message(|| drop(concat(&[&x, &vector], 0))),
            "concat: the shapes [2, 3] and [3] do not fit (all axes but 0 must be equal)",
        ),
        (
            message(|| drop(concat(&[&x, &x.transpose()], 1))),
            "concat: the shapes [2, 3] and [3, 2] do not fit",
        ),
        (
            message(|| drop(concat(&[&x, &x], 2))),
            "concat: axis 2 is outside of the rank 2",
        ),
        (
            message(|| drop(concat(&[&x, &Array::zeros([2, 3], DType::F32)], 0))),
            "concat: the dtypes f64 and f32 differ",
        ),
        (
            message(|| drop(stack(&[], 0))),
            "stack: there are no arrays",
        ),
        (
            message(|| drop(stack(&[&x, &vector], 0))),
            "stack: the shapes [2, 3] and [3] differ",
        ),
        (
            message(|| drop(stack(&[&x, &Array::zeros([2, 3], DType::I64)], 0))),
            "stack: the dtypes f64 and i64 differ",
        ),
        (
            message(|| drop(stack(&[&x], 3))),
            "stack: axis 3 is outside of the rank 3",
        ),
        (
            message(|| drop(x.split(2, 1))),
            "split: axis 1 of the shape [2, 3] cannot be cut into 2 equal sections",
        ),
        (
            message(|| drop(x.split(0, 1))),
            "split: axis 1 of the shape [2, 3] cannot be cut into 0 equal",
        ),
        (
            message(|| drop(x.array_split(0, 1))),
            "array_split: no sections are asked for",
        ),
        (
            message(|| drop(x.split_at(&[2, 1], 0))),
            "split_at: the positions [2, 1] are not in ascending order",
        ),
        (
            message(|| drop(x.repeat(2, -3))),
            "repeat: axis -3 is outside of the rank 2",
        ),
        (
            message(|| drop(x.roll(2, 5))),
            "roll: axis 5 is outside of the rank 2",
        ),
        (
            message(|| drop(x.pad(&[(1, 1)], 0.0))),
            "pad: 1 pairs of widths for the shape [2, 3]",
        ),
        (
            message(|| drop(vector.tril(0))),
            "tril: needs at least two axes, the shape is [3]",
        ),
        (
            message(|| drop(vector.triu(0))),
            "triu: needs at least two axes, the shape is [3]",
        ),
        (
            message(|| drop(Array::from(1.0).diag(0))),
            "diag: axis -1 is outside of the rank 0",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
}
