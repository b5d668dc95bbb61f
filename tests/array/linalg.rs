//! Factorisations against the products that they are made of, for sizes around the limits of the loops.

use std::iter::zip;

use bibun_array::linalg::{
    Spectral, TINY, Triangle, cholesky, determinants, eigh, eigvalsh, expm, inv, lu_factor,
    lu_solve, qr, solve, spectral, svd, svdvals, triangular_solve,
};
use bibun_array::{Array, DType, Generator, Index, Shape, concat, matmul};

const SIZES: [usize; 10] = [0, 1, 2, 3, 5, 8, 16, 17, 33, 150];

fn transposed(x: &Array) -> Array {
    x.swapaxes(-1, -2)
}

/// The largest difference, relative to the largest element.
fn distance(a: &Array, b: &Array) -> f64 {
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()));
    let pairs = (a.to_vec::<f64>().into_iter()).zip(b.to_vec::<f64>());
    let size = b
        .to_vec::<f64>()
        .iter()
        .fold(1.0f64, |size, x| size.max(x.abs()));
    pairs.fold(0.0f64, |most, (a, b)| match (a - b).abs() / size {
        apart if apart.is_nan() => f64::INFINITY,
        apart => most.max(apart),
    })
}

#[track_caller]
fn expect_close(a: &Array, b: &Array, n: usize) {
    let epsilon = if b.dtype() == DType::F32 {
        1.2e-7
    } else {
        2.3e-16
    };
    let apart = distance(a, b);
    assert!(
        apart <= 20.0 * (n + 4) as f64 * epsilon,
        "{apart:e} apart, of {} {}",
        b.shape(),
        b.dtype()
    );
}

fn random(seed: u64, shape: impl Into<Shape>, dtype: DType) -> Array {
    let shape: Shape = shape.into();
    let two = dtype.is_complex().then_some(2);
    let shape: Shape = shape.iter().copied().chain(two).collect();
    let numbers = Generator::new(seed).uniform(shape, -1.0, 1.0, DType::F64);
    match dtype.is_complex() {
        true => numbers.cast(dtype.to_real()).view_as_complex(),
        false => numbers.cast(dtype),
    }
}

fn identity(batch: usize, n: usize, dtype: DType) -> Array {
    Array::eye(n, dtype).broadcast_to([batch, n, n])
}

/// All shapes of square matrices, in both dtypes.
fn for_squares(each: impl Fn(Array, usize, usize)) {
    for n in SIZES {
        for batch in [0, 1, 7, 19] {
            let batch = if n > 20 { batch.min(2) } else { batch };
            for dtype in [DType::F32, DType::F64] {
                each(random(n as u64 + 7, [batch, n, n], dtype), batch, n);
            }
        }
    }
}

/// The sums of squares with ones on the diagonal.
fn positive(a: &Array, batch: usize, n: usize) -> Array {
    matmul(a, &transposed(a)) + identity(batch, n, a.dtype())
}

#[test]
fn cholesky_factors_multiply_to_the_matrix() {
    for_squares(|a, batch, n| {
        let a = positive(&a, batch, n);
        let [l, info] = cholesky(&a);
        assert_eq!(l.tril(0).to_vec::<f64>(), l.to_vec::<f64>());
        assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
        expect_close(&matmul(&l, &transposed(&l)), &a, n);
    });
}

#[test]
fn what_is_not_positive_definite_is_told() {
    for n in [2, 16, 40] {
        let mut a = Array::eye(n, DType::F64)
            .broadcast_to([9, n, n])
            .to_row_major();
        a.assign(
            &[Index::from(4), Index::from(1), Index::from(1)],
            &Array::from(-1.0),
        );
        a.assign(
            &[Index::from(7), Index::from(0), Index::from(0)],
            &Array::from(f64::NAN),
        );
        let [l, info] = cholesky(&a);
        assert_eq!(info.to_vec::<i64>(), [0, 0, 0, 0, 2, 0, 0, 1, 0], "{n}");
        let l = l.to_vec::<f64>();
        for (k, l) in l.chunks(n * n).enumerate() {
            let is_none = [4, 7].contains(&k);
            assert!(l.iter().all(|x| x.is_nan() == is_none), "{n} {k}");
        }
    }
}

#[test]
fn triangles_and_systems_solve() {
    for_squares(|a, batch, n| {
        for m in [0, 1, 3, 20] {
            let b = random(3, [batch, n, m], a.dtype());
            let a = &a + &identity(batch, n, a.dtype()) * (2.0 + n as f64 / 4.0);
            for triangle in [Triangle::Lower, Triangle::Upper] {
                let part = match triangle {
                    Triangle::Lower => a.tril(0),
                    Triangle::Upper => a.triu(0),
                };
                // The other part is not read.
                let x = triangular_solve(&a, &b, triangle);
                expect_close(&matmul(&part, &x), &b, n);
            }
            let [lu, rows, info] = lu_factor(&a);
            assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
            expect_close(&matmul(&a, &lu_solve(&lu, &rows, &b, false)), &b, 4 * n);
            expect_close(
                &matmul(&transposed(&a), &lu_solve(&lu, &rows, &b, true)),
                &b,
                4 * n,
            );
            for is_transposed in [false, true] {
                let [x, info] = solve(&a, &b, is_transposed);
                assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
                let expected = lu_solve(&lu, &rows, &b, is_transposed);
                match n <= TINY && m > TINY {
                    true => expect_close(&x, &expected, 4 * n),
                    false => assert!(x.has_same_bits(&expected)),
                }
            }
        }
        let a = &a + &identity(batch, n, a.dtype()) * (2.0 + n as f64 / 4.0);
        let [y, _] = inv(&a);
        expect_close(
            &matmul(&a, &y),
            &identity(batch, n, a.dtype()).to_row_major(),
            4 * n,
        );
    });
}

#[test]
fn lu_factors_of_any_shape_multiply_to_the_exchanged_rows() {
    for [m, n] in [
        [3, 3],
        [2, 5],
        [5, 2],
        [16, 16],
        [40, 40],
        [40, 7],
        [7, 40],
        [0, 3],
        [3, 0],
    ] {
        for dtype in [DType::F32, DType::F64] {
            let a = random(5, [11, m, n], dtype);
            let [lu, rows, _] = lu_factor(&a);
            let k = m.min(n);
            let part = |x: &Array, m: usize, n: usize| {
                x.slice(&[Index::ALL, Index::from(0..m), Index::from(0..n)])
            };
            let ones = part(&Array::eye(m, dtype).expand_dims(0), m, k);
            let l = part(&lu.tril(-1), m, k) + ones;
            let u = part(&lu.triu(0), k, n);
            let mut expected = Vec::new();
            let (a, rows) = (a.to_vec::<f64>(), rows.to_vec::<i64>());
            for (i, &row) in rows.iter().enumerate() {
                let at = (i / m * m + row as usize) * n;
                expected.extend_from_slice(&a[at..at + n]);
            }
            let expected = Array::from_vec(expected, [11, m, n]).cast(dtype);
            expect_close(&matmul(&l, &u), &expected, n);
            assert!(l.to_vec::<f64>().iter().all(|l| l.abs() <= 1.0));
        }
    }
}

#[test]
fn singular_matrices_are_told() {
    for n in [3, 16, 30] {
        let mut a = Array::eye(n, DType::F64)
            .broadcast_to([10, n, n])
            .to_row_major();
        a.assign(
            &[Index::from(2), Index::from(1), Index::from(1)],
            &Array::from(0.0),
        );
        a.assign(
            &[Index::from(9), Index::from(1), Index::from(1)],
            &Array::from(f64::INFINITY),
        );
        let [_, info] = inv(&a);
        let [.., factored] = lu_factor(&a);
        let expected = [0, 0, 2, 0, 0, 0, 0, 0, 0, -1];
        assert_eq!(factored.to_vec::<i64>(), expected);
        assert_eq!(info.to_vec::<i64>(), expected);
    }
}

#[test]
fn eigenvectors_diagonalize() {
    for_squares(|a, batch, n| {
        let [w, v, info] = eigh(&a);
        assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
        let part = (&a + &transposed(&a)) * 0.5;
        let scaled = &v * &w.expand_dims(-2);
        expect_close(&matmul(&scaled, &transposed(&v)), &part, n);
        expect_close(
            &matmul(&transposed(&v), &v),
            &identity(batch, n, a.dtype()).to_row_major(),
            n,
        );
        let values = w.to_vec::<f64>();
        assert!(values.chunks(n.max(1)).all(|w| w.is_sorted()));
        expect_close(&eigvalsh(&a)[0], &w, n);
    });
}

/// Whether no element of `found - expected` is larger than rounding of sums of n numbers near 1.
#[track_caller]
fn expect_near(found: &Array, expected: &Array, n: usize, dtype: DType, what: &str) {
    let epsilon = match dtype == DType::F32 {
        true => f64::from(f32::EPSILON),
        false => f64::EPSILON,
    };
    let bound = n as f64 * epsilon;
    for (found, expected) in zip(found.to_vec::<f64>(), expected.to_vec::<f64>()) {
        let apart = (found - expected).abs();
        assert!(apart <= bound, "{what} {n} {dtype}: {apart:e} > {bound:e}");
    }
}

/// Symmetric matrices of order n whose eigenvectors are hard to find. The largest elements of graded ones are `range`
/// orders of magnitude larger than the smallest.
fn hard_to_diagonalize(n: usize, range: f64) -> Vec<(&'static str, Vec<f64>)> {
    let random = random(31, [n, n], DType::F64).to_vec::<f64>();
    let any = |i: usize, j: usize| random[i.max(j) * n + i.min(j)];
    let grade = |i: usize| 10f64.powf(range * (0.5 - i as f64 / (n - 1) as f64) / 2.0);
    let of = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..n * n).map(|k| f(k / n, k % n)).collect()
    };
    let diagonal = |f: &dyn Fn(usize) -> f64| of(&|i, j| if i == j { f(i) } else { 0.0 });
    let graded = |order: &dyn Fn(usize) -> usize| {
        of(&|i, j| match i.abs_diff(j) {
            0 | 1 => any(i, j) * grade(order(i)) * grade(order(j)),
            _ => 0.0,
        })
    };
    // Two equal eigenvalues for each piece that is glued, which differ by less than any rounding.
    let glued = |glue: f64| {
        of(&|i, j| match (i.abs_diff(j), i.max(j) % 21) {
            (0, k) => (10.0 - k as f64).abs(),
            (1, 0) => glue,
            (1, _) => 1.0,
            _ => 0.0,
        })
    };
    let largest = 10f64.powf(0.6 * range);
    vec![
        ("any", of(&any)),
        ("of zeros", of(&|_, _| 0.0)),
        ("of ones", of(&|_, _| 1.0)),
        ("of rank one", of(&|i, j| random[i] * random[j])),
        ("of three values", diagonal(&|i| (i % 3) as f64)),
        ("diagonal", diagonal(&|i| random[i])),
        (
            "of blocks",
            of(&|i, j| {
                if i / 5 == j / 5 {
                    any(i % 5, j % 5)
                } else {
                    0.0
                }
            }),
        ),
        (
            "an arrow",
            of(&|i, j| match (i == j, i * j) {
                (true, _) => i as f64,
                (false, 0) => 1e-3,
                _ => 0.0,
            }),
        ),
        ("glued", glued(1e-6)),
        ("hardly glued", glued(1e-14)),
        ("graded down", graded(&|i| i)),
        ("graded up", graded(&|i| n - 1 - i)),
        ("a valley", graded(&|i| i.min(n - 1 - i))),
        ("a hill", graded(&|i| n / 2 - i.min(n - 1 - i))),
        ("up and down", graded(&|i| i * 7 % n)),
        ("tiny", of(&|i, j| any(i, j) / largest / 10.0)),
        ("huge", of(&|i, j| any(i, j) / n as f64 * largest)),
    ]
}

#[test]
fn eigenvectors_of_any_symmetric_matrix_are_orthonormal() {
    // The orders of what is not divided, of the first halves, and of panels.
    for n in [17, 24, 25, 49, 100, 370, 520] {
        for dtype in [DType::F32, DType::F64] {
            let is_single = dtype == DType::F32;
            if n > 100 && is_single != (n == 520) {
                continue;
            }
            for (name, a) in hard_to_diagonalize(n, range(dtype)) {
                let a = Array::from_vec(a, [n, n]).cast(dtype);
                let [w, v, info] = eigh(&a);
                assert_eq!(info.item::<i64>(), 0);
                expect_eigenvectors(name, &a, [w, v, eigvalsh(&a)[0].clone()], n);
            }
        }
    }
}

/// Small matrices are as exact as others of this many times their order, with a little more.
const SMALL: usize = 2;

/// The orders of magnitude of hard matrices.
fn range(dtype: DType) -> f64 {
    match dtype == DType::F32 {
        true => 60.0,
        false => 500.0,
    }
}

/// Checks eigenvalues, eigenvectors, and eigenvalues without them. They may be as far away as those of order n.
fn expect_eigenvectors(name: &str, a: &Array, [w, v, alone]: [Array; 3], n: usize) {
    let dtype = a.dtype();
    let [a, w, v, alone] = [a, &w, &v, &alone].map(|x| x.cast(DType::F64));
    let values = w.to_vec::<f64>();
    assert!(values.is_sorted(), "{name} {n} {dtype}");
    let size = (values.iter()).fold(f64::MIN_POSITIVE, |most, w| most.max(w.abs()));
    let [a, w, alone] = [a, w, alone].map(|x| x / size);
    let product = matmul(&v, &transposed(&v));
    let identity = Array::eye(values.len(), DType::F64);
    expect_near(&matmul(&a, &v), &(&v * &w), n, dtype, name);
    expect_near(&product, &identity, n, dtype, name);
    expect_near(&alone, &w, n, dtype, name);
}

/// Calls a function with matrices of all kinds that are computed together, and some that are left, for all small orders.
fn for_small_batches(
    kinds: impl Fn(usize, f64) -> Vec<(&'static str, Vec<f64>)>,
    each: impl Fn(Vec<&'static str>, Array),
) {
    const COUNT: usize = 2 * 16 + 3;
    for n in 2..=TINY {
        for dtype in [DType::F32, DType::F64] {
            let kinds = kinds(n, range(dtype));
            let kinds: Vec<_> = kinds.into_iter().cycle().take(COUNT).collect();
            let names = kinds.iter().map(|(name, _)| *name).collect();
            let all: Vec<f64> = kinds.into_iter().flat_map(|(_, a)| a).collect();
            each(names, Array::from_vec(all, [COUNT, n, n]).cast(dtype));
        }
    }
}

/// Checks that no matrix of a batch changes the results of others, not even one that is not finite.
fn expect_alone(a: &Array, found: &[Array], compute: impl Fn(&Array) -> Vec<Array>) {
    let [count, n] = [a.shape()[0], a.shape()[1]];
    let wrong = [3, count - 1];
    let mut other = a.clone();
    for (&i, x) in zip(&wrong, [f64::NAN, f64::INFINITY]) {
        let place = [i, n - 1, 0].map(Index::from);
        other.assign(&place, &Array::from(x).cast(a.dtype()));
    }
    let others = compute(&other);
    for i in 0..count {
        let own = [Index::from(i..i + 1)];
        let alone = compute(&a.slice(&own));
        for ((found, others), alone) in zip(zip(found, &others), &alone) {
            let [found, others] = [found, others].map(|x| x.slice(&own));
            assert!(alone.has_same_bits(&found), "{i} of order {n}");
            match wrong.contains(&i) {
                false => assert!(alone.has_same_bits(&others), "{i} of order {n}"),
                true if others.dtype() == DType::I64 => assert_eq!(others.to_vec::<i64>(), [-1]),
                true => assert!(others.to_vec::<f64>().iter().all(|x| x.is_nan())),
            }
        }
    }
}

#[test]
fn eigenvectors_of_any_small_matrices_are_orthonormal() {
    for_small_batches(hard_to_diagonalize, |names, a| {
        let n = SMALL * (a.shape()[1] + 4);
        let compute = |a: &Array| [&eigh(a)[..], &eigvalsh(a)].concat();
        let found = compute(&a);
        for (i, name) in names.into_iter().enumerate() {
            let of = |x: &Array| x.slice(&[Index::from(i)]);
            assert_eq!(of(&found[2]).item::<i64>(), 0);
            expect_eigenvectors(name, &of(&a), [0, 1, 3].map(|k| of(&found[k])), n);
        }
        expect_alone(&a, &found, compute);
    });
}

/// The same for singular vectors.
fn hard_to_factor(n: usize, range: f64) -> Vec<(&'static str, Vec<f64>)> {
    let random = random(32, [n, n], DType::F64).to_vec::<f64>();
    let grade = |i: usize| 10f64.powf(range * (0.5 - i as f64 / (n - 1) as f64));
    let of = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..n * n).map(|k| f(k / n, k % n)).collect()
    };
    let any = |i: usize, j: usize| random[i * n + j];
    let beside = |i: usize, j: usize, f: &dyn Fn(usize) -> f64| match j.wrapping_sub(i) {
        0 | 1 => any(i, j) * f(i),
        _ => 0.0,
    };
    let shifted = |i: usize, j: usize, diagonal: f64| match j.wrapping_sub(i) {
        0 => diagonal,
        1 => 1.0,
        _ => 0.0,
    };
    let mut all = hard_to_diagonalize(n, range);
    all.extend([
        ("not symmetric", of(&any)),
        (
            "of rank three",
            of(&|i, j| (0..n.min(3)).map(|k| any(i, k) * any(k, j)).sum()),
        ),
        (
            "without a column",
            of(&|i, j| if j == n / 2 { 0.0 } else { any(i, j) }),
        ),
        (
            "without its last row",
            of(&|i, j| if i == n - 1 { 0.0 } else { any(i, j) }),
        ),
        ("a shift", of(&|i, j| shifted(i, j, 0.0))),
        ("a shift back", of(&|i, j| shifted(j, i, 0.0))),
        ("of one block", of(&|i, j| shifted(i, j, 0.5))),
        ("bidiagonal", of(&|i, j| beside(i, j, &|_| 1.0))),
        ("bidiagonal down", of(&|i, j| beside(i, j, &grade))),
        (
            "bidiagonal up",
            of(&|i, j| beside(j, i, &|i| grade(n - 1 - i))),
        ),
    ]);
    all
}

#[test]
fn singular_vectors_of_any_matrix_are_orthonormal() {
    for n in [17, 24, 25, 49, 100, 270, 380] {
        for dtype in [DType::F32, DType::F64] {
            let is_single = dtype == DType::F32;
            if n > 100 && is_single != (n == 380) {
                continue;
            }
            for (name, a) in hard_to_factor(n, range(dtype)) {
                let a = Array::from_vec(a, [n, n]).cast(dtype);
                let [u, s, vt, info] = svd(&a, false);
                assert_eq!(info.item::<i64>(), 0);
                expect_singular_vectors(name, &a, [u, s, vt, svdvals(&a)[0].clone()], n);
            }
        }
    }
}

/// The same as [`expect_eigenvectors`] for singular values and vectors.
fn expect_singular_vectors(name: &str, a: &Array, [u, s, vt, alone]: [Array; 4], n: usize) {
    let dtype = a.dtype();
    let [a, u, s, vt, alone] = [a, &u, &s, &vt, &alone].map(|x| x.cast(DType::F64));
    let values = s.to_vec::<f64>();
    assert!(
        values.iter().rev().is_sorted() && values[values.len() - 1] >= 0.0,
        "{name} {n}"
    );
    let size = values[0].max(f64::MIN_POSITIVE);
    let [a, s, alone] = [a, s, alone].map(|x| x / size);
    let identity = Array::eye(values.len(), DType::F64);
    expect_near(&matmul(&a, &transposed(&vt)), &(&u * &s), n, dtype, name);
    expect_near(&matmul(&transposed(&u), &u), &identity, n, dtype, name);
    expect_near(&matmul(&vt, &transposed(&vt)), &identity, n, dtype, name);
    expect_near(&alone, &s, n, dtype, name);
}

#[test]
fn singular_vectors_of_any_small_matrices_are_orthonormal() {
    for_small_batches(hard_to_factor, |names, a| {
        let n = SMALL * (a.shape()[1] + 4);
        let compute = |a: &Array| [&svd(a, false)[..], &svdvals(a)].concat();
        let found = compute(&a);
        for (i, name) in names.into_iter().enumerate() {
            let of = |x: &Array| x.slice(&[Index::from(i)]);
            assert_eq!(of(&found[3]).item::<i64>(), 0);
            expect_singular_vectors(name, &of(&a), [0, 1, 2, 4].map(|k| of(&found[k])), n);
        }
        expect_alone(&a, &found, compute);
    });
}

/// Values that stand alone, and a symmetric part that is small beside the rest.
#[test]
fn small_values_are_kept() {
    for size in [1e-20, 1e20] {
        let a = Array::from([[1.0, 0.0, 0.0], [0.0, size, 0.0], [0.0, 0.0, 1e-30]]);
        let mut values = [1e-30, size, 1.0];
        values.sort_by(f64::total_cmp);
        assert_eq!(eigh(&a)[0].to_vec::<f64>(), values);
        values.reverse();
        assert_eq!(svd(&a, false)[1].to_vec::<f64>(), values);
        let a = Array::from([[2.0, size + 1.0], [1.0 - size, 2.0]]);
        let part = (&a + &transposed(&a)) * 0.5;
        assert!(eigh(&a)[0].has_same_bits(&eigh(&part)[0]));
    }
}

/// Elements of any size, and those that are no numbers, in matrices that are not square.
#[test]
fn singular_values_of_long_matrices_scale() {
    for (m, n) in [(40, 20), (20, 40), (300, 3)] {
        for (dtype, sizes) in [
            (DType::F32, [1e-36, 3.3e38]),
            (DType::F64, [1e-305, 1.7e308]),
        ] {
            // Nearly of rank one: sums of products are larger than the largest value, which is near 1.
            let mut weights = vec![1e-3; n];
            weights[n - 1] = 1.0;
            let a = random(33, [m, 1], DType::F64) * Array::from_vec(weights, [n]);
            let a = &a / &svdvals(&a)[0].max(..);
            let expected = svdvals(&a)[0].to_vec::<f64>();
            for size in sizes {
                let found = svdvals(&(&a * size).cast(dtype))[0].cast(DType::F64) / size;
                let expected = Array::from_vec(expected.clone(), [m.min(n)]);
                expect_near(&found, &expected, m, dtype, "scaled");
            }
            for wrong in [f64::NAN, f64::INFINITY] {
                let mut a = a.cast(dtype);
                let last = [m - 1, n - 1].map(Index::from);
                a.assign(&last, &Array::from(wrong).cast(dtype));
                let [u, s, vt, info] = svd(&a, false);
                assert_eq!(info.item::<i64>(), -1);
                let all = [u, s, vt].map(|x| x.to_vec::<f64>()).concat();
                assert!(all.iter().all(|x| x.is_nan()));
            }
        }
    }
}

#[test]
fn singular_vectors_multiply_to_the_matrix() {
    for [m, n] in [
        [0, 0],
        [0, 4],
        [4, 0],
        [1, 1],
        [3, 3],
        [5, 2],
        [2, 5],
        [16, 16],
        [16, 3],
        [17, 17],
        [60, 9],
        [9, 60],
        [0, 20],
        [20, 0],
        [1, 20],
        [20, 1],
        [90, 70],
        [40, 130],
    ] {
        for dtype in [DType::F32, DType::F64] {
            let a = random(9, [11, m, n], dtype);
            let k = m.min(n);
            for full in [false, true] {
                let [u, s, vt, info] = svd(&a, full);
                assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
                let (of_u, of_v) = if full { (m, n) } else { (k, k) };
                assert_eq!(
                    (u.shape(), vt.shape()),
                    (&[11, m, of_u].into(), &[11, of_v, n].into())
                );
                expect_close(
                    &matmul(&transposed(&u), &u),
                    &identity(11, of_u, dtype).to_row_major(),
                    m + n,
                );
                expect_close(
                    &matmul(&vt, &transposed(&vt)),
                    &identity(11, of_v, dtype).to_row_major(),
                    m + n,
                );
                let first = u.slice(&[Index::ALL, Index::ALL, Index::from(0..k)]);
                let right = vt.slice(&[Index::ALL, Index::from(0..k)]);
                expect_close(&matmul(&(first * s.expand_dims(-2)), &right), &a, m + n);
                assert!(
                    s.to_vec::<f64>()
                        .chunks(k.max(1))
                        .all(|s| s.is_sorted_by(|a, b| a >= b))
                );
                expect_close(&svdvals(&a)[0], &s, m + n);
            }
        }
    }
}

#[test]
fn singular_vectors_of_matrices_of_low_rank_are_orthonormal() {
    for n in [3, 16, 24] {
        let a = Array::ones([9, n, n], DType::F64) * 2.0;
        for a in [a, Array::zeros([9, n, n], DType::F64)] {
            let [u, s, vt, _] = svd(&a, false);
            expect_close(
                &matmul(&transposed(&u), &u),
                &identity(9, n, DType::F64).to_row_major(),
                n,
            );
            expect_close(
                &matmul(&vt, &transposed(&vt)),
                &identity(9, n, DType::F64).to_row_major(),
                n,
            );
            expect_close(&matmul(&(u * s.expand_dims(-2)), &vt), &a.to_row_major(), n);
        }
    }
}

#[test]
fn orthonormal_columns_times_a_triangle() {
    for [m, n] in [
        [0, 0],
        [0, 4],
        [4, 0],
        [1, 1],
        [3, 3],
        [5, 2],
        [2, 5],
        [16, 16],
        [17, 17],
        [60, 9],
        [9, 60],
        [33, 32],
        [129, 70],
        [70, 129],
        [257, 31],
    ] {
        for dtype in [DType::F32, DType::F64] {
            let a = random(9, [11, m, n], dtype);
            for full in [false, true] {
                if full && m > 100 {
                    continue;
                }
                let [q, r] = qr(&a, full);
                let k = if full { m } else { m.min(n) };
                expect_close(
                    &matmul(&transposed(&q), &q),
                    &identity(11, k, dtype).to_row_major(),
                    m + n,
                );
                expect_close(&matmul(&q, &r), &a, m + n);
                assert_eq!(r.triu(0).to_vec::<f64>(), r.to_vec::<f64>());
                assert!(r.diagonal(0).to_vec::<f64>().iter().all(|&x| x >= 0.0));
            }
        }
    }
}

#[test]
fn reflections_of_columns_whose_squares_are_no_numbers() {
    let wide = |x: &Array| x.cast(DType::F64);
    let dtypes = [DType::F32, DType::F64];
    for (dtype, [m, n]) in dtypes.map(|x| [(x, [50, 40]), (x, [16, 12])]).concat() {
        let far = if dtype == DType::F32 { 30 } else { 250 };
        let a = random(27, [m, n], dtype);
        // Columns of very different sizes, some of zeros, and two that are equal.
        let sizes = (0..n).map(|j| match j % 5 {
            0 => 10f64.powi(far),
            1 => 10f64.powi(-far),
            2 => 0.0,
            _ => 1.0,
        });
        let sizes = Array::from_vec(sizes.collect::<Vec<_>>(), [n]).cast(dtype);
        let mut a = &a * &sizes;
        let [own, other] = [3, 4].map(|j| [Index::ALL, Index::from(j)]);
        let column = a.slice(&own);
        a.assign(&other, &column);
        let [q, r] = qr(&a, false);
        let identity = identity(1, n, dtype).to_row_major().reshape([n, n]);
        expect_close(&matmul(&transposed(&q), &q), &identity, m + n);
        // Each column is as exact as its size allows.
        let is_zero = sizes.equal(Array::from(0.0).cast(dtype));
        let size = is_zero.where_(1.0, &sizes);
        let found = wide(&matmul(&q, &(&r / &size)));
        expect_close(&found.cast(dtype), &(&a / &size), m + n);
        a.assign(
            &[Index::from(7), Index::from(n - 2)],
            &Array::from(f64::NAN).cast(dtype),
        );
        let [_, r] = qr(&a, false);
        assert!(
            r.slice(&[Index::ALL, Index::from(n - 2)])
                .to_vec::<f64>()
                .iter()
                .any(|x| x.is_nan())
        );
    }
}

#[test]
fn exponentials_of_a_sum_multiply() {
    for_squares(|a, _, n| {
        for scale in [1e-3, 1.0, 4.0] {
            let a = &a * (scale / (n as f64 + 1.0).sqrt());
            let y = expm(&a);
            let half = expm(&(&a * 0.5));
            expect_close(&matmul(&half, &half), &y, 20 * n);
        }
    });
    let y = expm(&Array::from([[0.0, -1.0], [1.0, 0.0]])).to_vec::<f64>();
    for (y, expected) in y
        .iter()
        .zip([1f64.cos(), -1f64.sin(), 1f64.sin(), 1f64.cos()])
    {
        assert!((y - expected).abs() < 1e-15);
    }
}

#[test]
fn roots_and_logarithms_undo() {
    for_squares(|a, batch, n| {
        let a = positive(&a, batch, n);
        let [root, info] = spectral(Spectral::Power(0.5), &a, &[]);
        assert!(info.to_vec::<i64>().iter().all(|&k| k == 0));
        expect_close(&matmul(&root, &root), &a, 4 * n);
        let [log, _] = spectral(Spectral::Log, &a, &[]);
        expect_close(&expm(&log), &a, 20 * n);
    });
}

/// A matrix alone has the bits that it has among others.
#[test]
fn the_batch_changes_no_bits() {
    for n in [3, 16, 18] {
        for dtype in [DType::F32, DType::F64, DType::C64, DType::C128] {
            let a = random(11, [21, n, n], dtype);
            let all = |a: &Array| -> Vec<Array> {
                let batch = a.shape()[0];
                let [lu, rows, _] = lu_factor(a);
                let [y, _] = inv(a);
                if dtype.is_complex() {
                    return vec![lu, rows, y, expm(a)];
                }
                let [l, _] = cholesky(&positive(a, batch, n));
                let [w, v, _] = eigh(a);
                let [u, s, vt, _] = svd(a, false);
                let [q, r] = qr(a, false);
                vec![l, lu, rows, y, w, v, u, s, vt, q, r, expm(a)]
            };
            let together = all(&a);
            for i in [0, 9, 20] {
                let alone = all(&a.slice(&[Index::from(i..i + 1)]));
                for (k, (alone, together)) in alone.iter().zip(&together).enumerate() {
                    let own = together.slice(&[Index::from(i..i + 1)]);
                    assert!(alone.has_same_bits(&own), "result {k} of {n} {dtype}, {i}");
                }
            }
        }
    }
}

/// The orders of all blocks that factorisations are made of, and their neighbours.
fn for_orders(each: impl Fn(usize, DType)) {
    let borders = [63, 64, 65, 127, 128, 129, 200, 256, 257];
    for n in (1..=40).chain(borders) {
        for dtype in [DType::F32, DType::F64] {
            each(n, dtype);
        }
    }
}

/// Rows and columns of very different sizes.
fn badly_scaled(a: &Array, n: usize) -> Array {
    let scale: Vec<f64> = (0..n)
        .map(|i| 2f64.powi((i * 7 % 23) as i32 - 11))
        .collect();
    let scale = Array::from_vec(scale, [n]).cast(a.dtype());
    a * scale.expand_dims(-1) * scale
}

/// Each of two parts of a complex matrix.
fn parts(x: &Array) -> [Array; 2] {
    let x = x.view_as_real();
    [0, 1].map(|part| x.slice(&[Index::ALL, Index::ALL, Index::ALL, Index::from(part)]))
}

/// Matrices of f64 that multiply as these do: complex numbers are `[[re, -im], [im, re]]`.
fn wide(x: &Array) -> Array {
    if !x.dtype().is_complex() {
        return x.cast(DType::F64);
    }
    let [re, im] = parts(x).map(|x| x.cast(DType::F64));
    let [above, below] = [[&re, &-&im], [&im, &re]].map(|row| concat(&row, -1));
    concat(&[&above, &below], -2)
}

/// What bounds sums of products of absolute values, for matrices like those of [`wide`].
fn sizes(x: &Array) -> Array {
    if !x.dtype().is_complex() {
        return wide(x).abs();
    }
    let [re, im] = parts(x).map(|x| x.cast(DType::F64).abs());
    let row = concat(&[&(&re + &im), &(&re + &im)], -1);
    concat(&[&row, &row], -2)
}

/// Whether no element of `a - b` is larger than rounding of sums of n such products makes it, in this dtype, where `sizes`
/// are the sums of the absolute values.
#[track_caller]
fn expect_rounded(a: &Array, b: &Array, sizes: &Array, n: usize, dtype: DType) {
    let epsilon = match dtype == DType::F32 || dtype == DType::C64 {
        true => f64::from(f32::EPSILON),
        false => f64::EPSILON,
    };
    let [a, b, sizes] = [a, b, sizes].map(|x| x.cast(DType::F64).to_vec::<f64>());
    for ((a, b), size) in a.iter().zip(&b).zip(&sizes) {
        let bound = (n + 2) as f64 * epsilon * size;
        assert!((a - b).abs() <= bound, "{a} and {b}, within {bound:e}, {n}");
    }
}

/// The rows of two matrices `[n, m]` that factors are those of.
fn exchanged(x: &Array, rows: &Array, [n, m]: [usize; 2]) -> Array {
    let width = if x.dtype().is_complex() { 2 * m } else { m };
    let numbers = match x.dtype().is_complex() {
        true => x.view_as_real(),
        false => x.clone(),
    };
    let (all, rows) = (numbers.to_vec::<f64>(), rows.to_vec::<i64>());
    let chosen = (rows.iter().enumerate())
        .flat_map(|(i, &row)| all[(i / n * n + row as usize) * width..][..width].to_vec());
    let chosen = Array::from_vec(chosen.collect::<Vec<_>>(), numbers.shape().clone());
    match x.dtype().is_complex() {
        true => chosen.view_as_complex(),
        false => chosen,
    }
}

fn expect_factors(n: usize, dtype: DType) {
    let a = random(21, [2, n, n], dtype);
    for a in [a.clone(), badly_scaled(&a, n)] {
        let [lu, rows, info] = lu_factor(&a);
        assert_eq!(info.to_vec::<i64>(), [0, 0]);
        let l = &lu.tril(-1) + &Array::eye(n, dtype);
        let u = lu.triu(0);
        // Of complex numbers, pivots have the largest sum of both parts.
        let most = if dtype.is_complex() { 1.4143 } else { 1.0 };
        assert!(wide(&l).to_vec::<f64>().iter().all(|l| l.abs() <= most));
        let (product, of_product) = (matmul(&wide(&l), &wide(&u)), matmul(&sizes(&l), &sizes(&u)));
        let expected = wide(&exchanged(&a, &rows, [n, n]));
        expect_rounded(&product, &expected, &of_product, n, dtype);

        let b = random(22, [2, n, 5], dtype);
        let x = lu_solve(&lu, &rows, &b, false);
        let expected = wide(&exchanged(&b, &rows, [n, 5]));
        let of_solution = matmul(&of_product, &sizes(&x));
        expect_rounded(
            &matmul(&product, &wide(&x)),
            &expected,
            &of_solution,
            3 * n,
            dtype,
        );
        // The transposed factors of the transposed product, whose result has these rows.
        let x = exchanged(&lu_solve(&lu, &rows, &b, true), &rows, [n, 5]).cast(dtype);
        let [l, u] = [&l, &u].map(transposed);
        let (product, of_product) = (matmul(&wide(&u), &wide(&l)), matmul(&sizes(&u), &sizes(&l)));
        let of_solution = matmul(&of_product, &sizes(&x));
        expect_rounded(
            &matmul(&product, &wide(&x)),
            &wide(&b),
            &of_solution,
            3 * n,
            dtype,
        );
    }
}

#[test]
fn residuals_of_factors_are_rounding_element_by_element() {
    for_orders(|n, dtype| {
        expect_factors(n, dtype);
        expect_factors(n, dtype.to_complex());
        let a = positive(&random(23, [2, n, n], dtype), 2, n);
        for a in [a.clone(), badly_scaled(&a, n)] {
            let [l, info] = cholesky(&a);
            assert_eq!(info.to_vec::<i64>(), [0, 0]);
            let l = wide(&l);
            let sizes = matmul(&l.abs(), &transposed(&l.abs()));
            expect_rounded(&matmul(&l, &transposed(&l)), &a, &sizes, n, dtype);
        }
    });
}

#[test]
fn what_has_no_factors_is_told_wherever_it_is() {
    for_orders(|n, dtype| {
        let a = positive(&random(24, [3, n, n], dtype), 3, n);
        for (place, at) in [(0, 0), (1, n / 2), (2, n - 1)] {
            let position = [place, at, at].map(Index::from);
            for (value, of_cholesky, of_lu) in
                [(-1e3, at as i64 + 1, 0), (f64::NAN, at as i64 + 1, -1)]
            {
                let mut a = a.clone();
                a.assign(&position, &Array::from(value).cast(dtype));
                let mut expected = [0; 3];
                expected[place] = of_cholesky;
                assert_eq!(cholesky(&a)[1].to_vec::<i64>(), expected, "{n}");
                expected[place] = of_lu;
                assert_eq!(lu_factor(&a)[2].to_vec::<i64>(), expected, "{n}");
            }
            let turned = &a.cast(dtype.to_complex()) * &random(27, [n, 1], dtype.to_complex());
            for a in [&a, &turned] {
                // A column of zeros stays one.
                let mut a = a.clone();
                let column = [Index::from(place), Index::ALL, Index::from(at)];
                a.assign(&column, &Array::from(0.0).cast(a.dtype()));
                let mut expected = [0; 3];
                expected[place] = at as i64 + 1;
                assert_eq!(lu_factor(&a)[2].to_vec::<i64>(), expected, "{n}");
                assert_eq!(inv(&a)[1].to_vec::<i64>(), expected, "{n}");
            }
            for fault in [f64::NAN, f64::INFINITY] {
                let mut numbers = turned.view_as_real().to_row_major();
                let part = Index::from(usize::from(fault.is_nan()));
                let position = [Index::from(place), Index::from(at), Index::from(at), part];
                numbers.assign(&position, &Array::from(fault).cast(dtype));
                let [.., info] = lu_factor(&numbers.view_as_complex());
                let mut expected = [0; 3];
                expected[place] = -1;
                assert_eq!(info.to_vec::<i64>(), expected, "{n}");
            }
        }
    });
}

#[test]
fn threads_and_layouts_change_no_bits() {
    let pools = [1, 2].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().expect("a pool")
    });
    for (batch, n) in [(30, 5), (3, 63), (1, 129), (1, 257), (2, 257), (1, 390)] {
        for dtype in [DType::F32, DType::F64, DType::C64, DType::C128] {
            let a = random(25, [batch, n, n], dtype);
            let b = random(26, [batch, n, 40], dtype);
            let turned = transposed(&transposed(&a).to_row_major());
            let all = |a: &Array| -> Vec<Array> {
                let [lu, rows, _] = lu_factor(a);
                let x = lu_solve(&lu, &rows, &b, false);
                let back = lu_solve(&lu, &rows, &b, true);
                let y = triangular_solve(&lu, &b, Triangle::Upper);
                let [z, _] = inv(a);
                let [solved, _] = solve(a, &b, true);
                let power = expm(&(a * (1.0 / n as f64)));
                let of_any = vec![lu, rows, x, back, y, z, solved, power];
                if dtype.is_complex() {
                    return of_any;
                }
                let [l, _] = cholesky(&positive(a, batch, n));
                let [q, r] = qr(a, false);
                let [w, v, _] = eigh(a);
                let [alone, _] = eigvalsh(a);
                let [u, s, vt, _] = svd(a, false);
                let [values, _] = svdvals(a);
                [of_any, vec![l, q, r, w, v, alone, u, s, vt, values]].concat()
            };
            let [one, two] = [0, 1].map(|i| pools[i].install(|| all(&a)));
            let others = [two, all(&a), pools[0].install(|| all(&turned))];
            for (i, other) in others.iter().enumerate() {
                for (k, (a, b)) in one.iter().zip(other).enumerate() {
                    assert!(a.has_same_bits(b), "result {k} of {n} {dtype}, {i}");
                }
            }
        }
    }
}

#[test]
fn determinants_neither_overflow_nor_underflow_on_the_way() {
    for (pivots, expected) in [
        (vec![1e200, 1e200, 0.0], 0.0),
        (vec![1e200, -1e200, 1e-200, 1e-200], -1.0),
        (vec![1e-200, 1e-200, 1e200, 1e200], 1.0),
        (vec![1e-200, 1e-200, 1e300], 1e-100),
        (vec![1e200, 1e200, 1.0], f64::INFINITY),
        (vec![1e-200, 1e-200, 1.0], 0.0),
        (vec![3e-200, 5e-124], 15e-324),
        (vec![10.0; 70], 1e70),
        ([vec![1e10; 69], vec![0.0]].concat(), 0.0),
    ] {
        let n = pivots.len();
        let a = &Array::eye(n, DType::F64) * &Array::from_vec(pivots.clone(), [n]);
        for count in [1, 9] {
            let real = a.broadcast_to([count, n, n]);
            let [found, _, _] = determinants(&real);
            let [complex, _, _] = determinants(&real.cast(DType::C128));
            for found in [found, complex.real()] {
                for found in found.to_vec::<f64>() {
                    let is_near = found == expected || (found / expected - 1.0).abs() < 1e-13;
                    assert!(is_near, "{pivots:?}: {found} instead of {expected}");
                }
            }
        }
    }
    // Of ordinary numbers, where the product of the others has none.
    let mut g = Generator::new(3);
    for n in [40, 64, 65] {
        let a = g.normal([n, n], 0.0, 1.0, DType::F32);
        let rows = Array::from_vec((0..n).map(|i| f32::from(i + 1 < n)).collect(), [n]);
        let [det, sign, _] = determinants(&(a * rows.expand_dims(1)));
        assert_eq!([det, sign].map(|y| y.item::<f32>()), [0.0, 0.0]);
    }
}

#[test]
fn logarithms_of_determinants_that_no_number_holds() {
    for (count, pivots, log, sign) in [
        (9, vec![1e-310; 4], 4.0 * f64::ln(1e-310), 1.0),
        (
            1,
            vec![-5e-324, 3e-320, 2.0],
            5e-324_f64.ln() + 3e-320_f64.ln() + 2_f64.ln(),
            -1.0,
        ),
        (
            10,
            vec![1e300, 1e300, -1e8, -1.0],
            2.0 * 1e300_f64.ln() + 1e8_f64.ln(),
            1.0,
        ),
        (8, vec![3.0, 0.0, -1.0], f64::NEG_INFINITY, 0.0),
        (3, vec![1.5; 300], 300.0 * 1.5_f64.ln(), 1.0),
    ] {
        let n = pivots.len();
        let a = &Array::eye(n, DType::F64) * &Array::from_vec(pivots, [n]);
        let a = a.broadcast_to([count, n, n]);
        let [_, signs, logs] = determinants(&a);
        assert_eq!(signs.to_vec::<f64>(), vec![sign; count]);
        for found in logs.to_vec::<f64>() {
            let is_near = found == log || (found - log).abs() < 1e-12 * log.abs();
            assert!(is_near, "{found} instead of {log}");
        }
    }
    let a = Array::from([[1e-40_f32, 0.0], [0.0, 1e-40]]).broadcast_to([9, 2, 2]);
    let [_, _, logs] = determinants(&a);
    for found in logs.to_vec::<f32>() {
        assert!((found + 184.2068).abs() < 1e-3, "{found}");
    }
    // What is not finite is seen.
    let a = Array::from([[f64::INFINITY, 0.0], [0.0, 1.0]]).broadcast_to([9, 2, 2]);
    let [_, signs, logs] = determinants(&a);
    assert!(logs.to_vec::<f64>().iter().all(|x| !x.is_finite()));
    assert!(signs.to_vec::<f64>().iter().all(|x| x.is_nan()));
}
