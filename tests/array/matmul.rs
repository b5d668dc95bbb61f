//! Matrix products of every kind of layout against plain loops.

use crate::common::{Numbers, indices, same_for_all_thread_counts};
use bibun_array::{Array, DType, Error, Generator, attempt, dot, gemm, matmul, outer, s};

/// The sum of products for one element of a matrix product with full batch axes.
fn expected(a: &Array, b: &Array, index: &[usize]) -> f64 {
    let rank = index.len();
    let at = |x: &Array, row: usize, column: usize| {
        let skip = rank - x.rank();
        let mut place: Vec<usize> = (0..x.rank() - 2)
            .map(|axis| {
                if x.shape()[axis] == 1 {
                    0
                } else {
                    index[axis + skip]
                }
            })
            .collect();
        place.extend([row, column]);
        x.element(&place).to_f64()
    };
    (0..b.shape()[b.rank() - 2])
        .map(|l| at(a, index[rank - 2], l) * at(b, l, index[rank - 1]))
        .sum()
}

fn check(a: &Array, b: &Array, shape: &[usize], tolerance: f64) -> Array {
    let y = matmul(a, b);
    assert_eq!(y.shape(), shape);
    assert_eq!(y.dtype(), a.dtype());
    for index in indices(shape).step_by(1 + y.size() / 500) {
        let (got, want) = (y.element(&index).to_f64(), expected(a, b, &index));
        assert!(
            (got - want).abs() <= tolerance,
            "{a:?} {b:?} at {index:?}: {got}, not {want}"
        );
    }
    y
}

#[test]
fn products_of_every_layout_equal_plain_loops() {
    let mut numbers = Numbers(1);
    let sizes = [0, 1, 2, 3, 7, 17, 64, 65, 130];
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::F64, 1e-12), (DType::I64, 0.0)] {
        for _ in 0..400 {
            let [m, k, n] = [0; 3].map(|_| sizes[numbers.below(sizes.len())]);
            let (a, b) = (
                numbers.layout(&[m, k], dtype),
                numbers.layout(&[k, n], dtype),
            );
            check(&a, &b, &[m, n], tolerance);
        }
        for size in [1, 2, 7, 300] {
            let a = numbers.layout(&[size, 1000], dtype);
            let b = numbers.layout(&[1000, size], dtype);
            check(&a, &b, &[size, size], 10.0 * tolerance);
        }
    }
}

#[test]
fn batches_broadcast() {
    let mut numbers = Numbers(2);
    let cases = [
        (&[2, 3][..], &[2, 3][..], &[2, 3][..]),
        (&[2, 3], &[3], &[2, 3]),
        (&[], &[5], &[5]),
        (&[5], &[], &[5]),
        (&[4, 1], &[3], &[4, 3]),
        (&[1], &[2, 1], &[2, 1]),
        (&[0], &[1], &[0]),
        (&[40], &[40], &[40]),
    ];
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::F64, 1e-12), (DType::I64, 0.0)] {
        for (left, right, batch) in cases {
            for _ in 0..12 {
                let [m, k, n] = [0; 3].map(|_| [0, 1, 2, 5, 33][numbers.below(5)]);
                let a = numbers.layout(&[left, &[m, k]].concat(), dtype);
                let b = numbers.layout(&[right, &[k, n]].concat(), dtype);
                check(&a, &b, &[batch, &[m, n]].concat(), tolerance);
            }
        }
    }
}

#[test]
fn vectors_lose_the_axis_they_were_given() {
    let mut numbers = Numbers(3);
    let (v, w) = (
        numbers.layout(&[7], DType::F64),
        numbers.layout(&[5], DType::F64),
    );
    let x = numbers.layout(&[7, 5], DType::F64);
    let batch = numbers.layout(&[3, 7, 5], DType::F64);
    let (row, column) = (v.expand_dims(0), w.expand_dims(1));
    assert_eq!(matmul(&v, &v).shape(), &[][..]);
    assert_eq!(
        matmul(&v, &x).to_vec::<f64>(),
        matmul(&row, &x).to_vec::<f64>()
    );
    assert_eq!(matmul(&v, &x).shape(), &[5][..]);
    assert_eq!(
        matmul(&x, &w).to_vec::<f64>(),
        matmul(&x, &column).to_vec::<f64>()
    );
    assert_eq!(matmul(&v, &batch).shape(), &[3, 5][..]);
    assert_eq!(matmul(&batch, &w).shape(), &[3, 7][..]);
    let nothing = Array::zeros([0], DType::F64);
    assert_eq!(matmul(&nothing, &nothing).item::<f64>(), 0.0);
}

#[test]
fn dot_and_outer_follow_numpy() {
    let mut numbers = Numbers(4);
    let a = numbers.layout(&[2, 3, 4], DType::I64);
    let b = numbers.layout(&[5, 4, 6], DType::I64);
    let y = dot(&a, &b);
    assert_eq!(y.shape(), &[2, 3, 5, 6][..]);
    for index in indices(y.shape()) {
        let sum: i64 = (0..4)
            .map(|l| {
                a.slice(s![index[0], index[1], l]).item::<i64>()
                    * b.slice(s![index[2], l, index[3]]).item::<i64>()
            })
            .sum();
        assert_eq!(y.element(&index), sum.into());
    }
    let v = numbers.layout(&[4], DType::I64);
    assert_eq!(dot(&a, &v).shape(), &[2, 3][..]);
    assert_eq!(dot(&a, &v).to_vec::<i64>(), matmul(&a, &v).to_vec::<i64>());
    assert_eq!(dot(&v, &b).shape(), &[5, 6][..]);
    assert_eq!(dot(&v, &b).to_vec::<i64>(), matmul(&v, &b).to_vec::<i64>());
    for dtype in [DType::F64, DType::I64] {
        let (a, b) = (numbers.layout(&[70], dtype), numbers.layout(&[3, 5], dtype));
        let y = outer(&a, &b);
        assert_eq!(y.shape(), &[70, 15][..]);
        for (i, j) in (0..70).flat_map(|i| (0..15).map(move |j| (i, j))) {
            let product = a.element(&[i]).to_f64() * b.element(&[j / 5, j % 5]).to_f64();
            assert_eq!(y.element(&[i, j]).to_f64(), product);
        }
    }
}

#[test]
fn gemm_adds_to_what_is_there() {
    let mut numbers = Numbers(5);
    for (m, k, n) in [
        (3, 4, 5),
        (1, 9, 1),
        (70, 65, 33),
        (4, 0, 3),
        (5, 1, 6),
        (300, 1, 4000),
    ] {
        for dtype in [DType::F64, DType::I64] {
            let (a, b) = (
                numbers.layout(&[m, k], dtype),
                numbers.layout(&[k, n], dtype),
            );
            let plain = matmul(&a, &b);
            for c in [
                numbers.array(&[m, n], dtype),
                numbers.layout(&[m, n], dtype),
                numbers.layout(&[n], dtype),
                numbers.layout(&[m, 1], dtype),
                numbers.layout(&[], dtype),
            ] {
                let kept = c.to_vec_f64();
                let full = c.broadcast_to([m, n]).to_vec_f64();
                let y = gemm(2.0, &a, &b, -3.0, c.clone());
                for ((y, p), c) in y.to_vec_f64().iter().zip(plain.to_vec_f64()).zip(&full) {
                    assert!((y - (2.0 * p - 3.0 * c)).abs() < 1e-12, "{y} {p} {c}");
                }
                assert_eq!(c.to_vec_f64(), kept);
                let again = gemm(2.0, &a, &b, -3.0, c);
                assert_eq!(again.to_vec_f64(), y.to_vec_f64());
                let overwritten = gemm(1.0, &a, &b, 0.0, Array::full((), f64::NAN).like(dtype));
                assert_eq!(overwritten.to_vec_f64(), plain.to_vec_f64());
            }
        }
    }
    let c = numbers.array(&[6, 6], DType::F32);
    let address = c.as_slice::<f32>().unwrap().as_ptr();
    let a = numbers.array(&[6, 6], DType::F32);
    let y = gemm(1.0, &a, &a, 1.0, c);
    assert_eq!(y.as_slice::<f32>().unwrap().as_ptr(), address);
    // A vector result takes a vector `c`.
    let v = numbers.array(&[6], DType::F32);
    assert_eq!(gemm(1.0, &a, &v, 1.0, v.clone()).shape(), &[6][..]);
    assert_eq!(
        gemm(1.0, &v, &v, 1.0, Array::scalar(1.0f32)).shape(),
        &[][..]
    );
}

trait Convert {
    fn to_vec_f64(&self) -> Vec<f64>;
    fn like(self, dtype: DType) -> Array;
}
impl Convert for Array {
    fn to_vec_f64(&self) -> Vec<f64> {
        match self.dtype() {
            DType::I64 => self.to_vec::<i64>().iter().map(|&x| x as f64).collect(),
            _ => self.to_vec::<f64>(),
        }
    }
    fn like(self, dtype: DType) -> Array {
        Array::full(self.shape(), self.element(&[]).cast(dtype))
    }
}

#[test]
fn dtypes_are_promoted() {
    let (x, w) = (Array::from([[1.5f32, 2.0]]), Array::from([2, 4]));
    let y = matmul(&x, &w);
    assert_eq!((y.dtype(), y.item::<f32>()), (DType::F32, 11.0));
    assert_eq!(matmul(&w, &Array::from([true, false])).item::<i64>(), 2);
    assert_eq!(
        gemm(1.0, &w, &w, 0.5, Array::scalar(1.0)).item::<f64>(),
        20.5
    );
}

#[test]
fn integers_wrap_and_nan_spreads() {
    let big = Array::full([2, 2], i64::MAX);
    assert_eq!(matmul(&big, &big).to_vec::<i64>(), [2; 4]);
    let x = Array::from([[f64::NAN, 1.0], [f64::INFINITY, 1.0]]);
    let y = matmul(&x, &Array::from([[0.0, 1.0], [1.0, 1.0]])).to_vec::<f64>();
    assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_nan() && y[3] == f64::INFINITY);
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut numbers = Numbers(6);
    let mut bits = |a: &[usize], b: &[usize], turned: [bool; 2]| {
        for dtype in [DType::F32, DType::F64] {
            let turn = |x: Array, turned| if turned { x.swapaxes(-1, -2) } else { x };
            let a = turn(numbers.array(a, dtype), turned[0]);
            let b = turn(numbers.array(b, dtype), turned[1]);
            same_for_all_thread_counts(|| {
                let y = matmul(&a, &b);
                match dtype {
                    DType::F32 => y
                        .to_vec::<f32>()
                        .iter()
                        .map(|x| x.to_bits().into())
                        .collect(),
                    _ => y
                        .to_vec::<f64>()
                        .iter()
                        .map(|x| x.to_bits())
                        .collect::<Vec<u64>>(),
                }
            });
        }
    };
    for n in [100, 129, 257] {
        for k in [3, 65, 784, 1030] {
            bits(&[333, k], &[k, n], [false; 2]);
            bits(&[k, 333], &[k, n], [true, false]);
            bits(&[333, k], &[n, k], [false, true]);
            bits(&[k, 333], &[n, k], [true; 2]);
        }
    }
    bits(&[3000, 1000], &[1000, 1], [false; 2]);
    bits(&[1000, 3000], &[1000, 1], [true, false]);
    bits(&[1, 3000], &[3000, 1000], [false; 2]);
    bits(&[3000, 1], &[1, 1000], [false; 2]);
    bits(&[3000, 2], &[2, 1000], [false; 2]);
    bits(&[100, 64, 33], &[100, 33, 17], [false; 2]);
    bits(&[2, 300, 100], &[2, 100, 100], [false; 2]);
    bits(&[50, 20, 100], &[100, 100], [false; 2]);
}

#[test]
fn mistakes_are_named() {
    let message = |f: &dyn Fn() -> Array| attempt::<_, Error>(f).unwrap_err().to_string();
    let zeros = |shape: &[usize]| Array::zeros(shape, DType::F32);
    assert!(
        message(&|| matmul(&zeros(&[2, 3]), &zeros(&[4, 5]))).starts_with(
            "matmul: the shapes are [2, 3] and [4, 5]: 3 columns on the left, 4 rows on the right"
        )
    );
    assert!(message(&|| matmul(&zeros(&[]), &zeros(&[4]))).contains("expected at least one axis"));
    assert!(message(&|| dot(&zeros(&[]), &zeros(&[4, 4, 4]))).contains("dot: the shapes are []"));
    assert!(message(&|| dot(&zeros(&[2, 2, 3]), &zeros(&[4]))).contains("4 rows on the right"));
    assert!(
        message(&|| matmul(&zeros(&[2, 3, 3]), &zeros(&[4, 3, 3])))
            .contains("matmul: shapes do not broadcast: [2, 3, 3] and [4, 3, 3]")
    );
    let flags = Array::zeros([2, 2], DType::Bool);
    assert!(
        message(&|| matmul(&flags, &flags)).contains("matmul: is not defined for the dtype bool")
    );
    let whole = Array::zeros([2, 2], DType::I64);
    assert!(
        message(&|| gemm(0.5, &whole, &whole, 0.0, whole.clone()))
            .contains("gemm: the factors 0.5 and 0 of whole numbers are not whole")
    );
    assert!(
        message(&|| gemm(1.0, &zeros(&[2, 2]), &zeros(&[2, 2]), 1.0, zeros(&[3])))
            .contains("gemm: c [3] cannot be repeated to the shape [2, 2] of the product of a [2, 2] and b [2, 2]")
    );
    assert!(message(&|| matmul(&zeros(&[2, 2]), &zeros(&[3, 2]))).contains(file!()));
}

/// Results that go past the caches: short sums of many products, beginning anywhere.
#[test]
fn large_results_of_short_sums_are_right() {
    let mut generator = Generator::new(8);
    for (k, n, dtype) in [
        (1, 301, DType::F32),
        (3, 301, DType::F32),
        (8, 999, DType::F64),
        (2, 7, DType::F64),
    ] {
        let (batch, m) = ((1 << 21) / (200 * n) + 1, 200);
        let a = generator
            .normal([batch, k, m], 0.0, 1.0, dtype)
            .swapaxes(1, 2);
        let b = generator.normal([batch, k, n], 0.0, 1.0, dtype);
        let found = matmul(&a, &b);
        let terms =
            (0..k as isize).map(|l| a.slice(s![.., .., l..l + 1]) * b.slice(s![.., l..l + 1]));
        let expected = terms.reduce(|sum, term| sum + term).expect("a term");
        let difference = (found - expected)
            .abs()
            .max(..)
            .cast(DType::F64)
            .item::<f64>();
        assert!(difference < 1e-5, "k = {k}: {difference}");
    }
}
