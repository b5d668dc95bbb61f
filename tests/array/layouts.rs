//! The same elements in many layouts, and elements as plain numbers to compare with.
#![allow(dead_code)]

use bibun_array::{Array, DType, Index};

/// All real dtypes.
pub(crate) const DTYPES: [DType; 8] = [
    DType::Bool,
    DType::U8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// The elements in row-major order.
pub(crate) fn numbers(x: &Array) -> Vec<f64> {
    x.cast(DType::F64).to_vec()
}

pub(crate) fn array(numbers: &[f64], shape: &[usize], dtype: DType) -> Array {
    Array::from_slice(numbers, shape).cast(dtype)
}

/// Small integers, some of them zero, with no pattern that index arithmetic could hit by luck.
pub(crate) fn some_numbers(count: usize, salt: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i + 31 * salt + 1).wrapping_mul(2_654_435_761) >> 7) % 17)
        .map(|x| x as f64 - 5.0)
        .map(|x| if x == 3.0 { 0.0 } else { x })
        .collect()
}

/// Arrays of one shape, each with its elements in another layout.
pub(crate) fn layouts(shape: &[usize], dtype: DType, salt: usize) -> Vec<Array> {
    let elements = some_numbers(shape.iter().product(), salt);
    let x = array(&elements, shape, dtype);
    let first = elements.first().copied().unwrap_or(1.0);
    let mut all = vec![
        x.clone(),
        x.transpose().to_row_major().transpose(),
        x.flip(&[]).to_row_major().flip(&[]),
        array(&[first], &[], dtype).broadcast_to(shape),
        spaced(&elements, shape, dtype),
    ];
    if shape.len() > 1 {
        all.push(x.swapaxes(0, 1).to_row_major().swapaxes(0, 1));
    }
    for axis in 0..shape.len() {
        if shape[axis] > 0 {
            let mut first = vec![Index::ALL; axis];
            first.push(Index::from(0..1usize));
            all.push(x.slice(&first).broadcast_to(shape));
        }
    }
    all
}

/// Every second element of a larger array, from the second on, backwards along odd axes.
fn spaced(elements: &[f64], shape: &[usize], dtype: DType) -> Array {
    let larger: Vec<usize> = shape.iter().map(|size| 2 * size + 1).collect();
    let mut memory = vec![0.0; larger.iter().product()];
    for (i, &x) in elements.iter().enumerate() {
        let at: Vec<usize> = (index_of(i, shape).iter().zip(shape).enumerate())
            .map(|(axis, (&i, &size))| 1 + 2 * if axis % 2 == 1 { size - 1 - i } else { i })
            .collect();
        memory[position_of(&at, &larger)] = x;
    }
    let part: Vec<Index> = (0..shape.len())
        .map(|axis| match axis % 2 {
            1 => Index::from(..).step_by(-1),
            _ => Index::ALL,
        })
        .collect();
    let odd: Vec<Index> = shape
        .iter()
        .map(|_| Index::from(1isize..).step_by(2))
        .collect();
    array(&memory, &larger, dtype).slice(&odd).slice(&part)
}

pub(crate) fn index_of(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = position % size;
        position /= size;
    }
    index
}

pub(crate) fn position_of(index: &[usize], shape: &[usize]) -> usize {
    index
        .iter()
        .zip(shape)
        .fold(0, |position, (i, size)| position * size + i)
}

/// The elements of an array of `shape`, each computed from its index.
pub(crate) fn by_index(shape: &[usize], element: impl Fn(&[usize]) -> f64) -> Vec<f64> {
    (0..shape.iter().product())
        .map(|i| element(&index_of(i, shape)))
        .collect()
}

/// Adds as a dtype adds.
pub(crate) fn add(a: f64, b: f64, dtype: DType) -> f64 {
    match dtype {
        DType::Bool => a.max(b),
        DType::U8 => (a + b).rem_euclid(256.0),
        _ => a + b,
    }
}

/// Runs on pools of several sizes and checks that the results are the same, bit for bit.
pub(crate) fn for_any_number_of_threads(f: impl Fn() -> Array + Sync) -> Array {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(&f)
    };
    let one = run(1);
    for threads in [2, 3, 7] {
        let many = run(threads);
        assert_eq!(many.shape(), one.shape());
        assert_eq!(numbers(&many), numbers(&one), "{threads} threads");
    }
    one
}

/// The message of the error that `f` raises.
pub(crate) fn message(f: impl FnOnce()) -> String {
    bibun_array::attempt::<_, bibun_array::Error>(f)
        .expect_err("an error")
        .to_string()
}
