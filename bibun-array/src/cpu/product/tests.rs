//! Products of all sizes and layouts, on every instruction set of this machine.

use super::super::matmul::{Matrix, MatrixProduct};
use super::super::tile::Float;
use super::*;

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn of<T: Copy>(&mut self, x: &[T]) -> T {
        x[self.below(x.len())]
    }
    fn value(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 53) as f64 - 0.5
    }
}

trait Test: Float {
    fn new(x: f64) -> Self;
    fn get(self) -> f64;
    fn bits(self) -> u64;
    const EPSILON: f64;
}
impl Test for f32 {
    fn new(x: f64) -> f32 {
        x as f32
    }
    fn get(self) -> f64 {
        self.into()
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    const EPSILON: f64 = f32::EPSILON as f64;
}
impl Test for f64 {
    fn new(x: f64) -> f64 {
        x
    }
    fn get(self) -> f64 {
        self
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    const EPSILON: f64 = f64::EPSILON;
}

/// A matrix in its own memory, which ends at its last element.
struct Laid<T> {
    memory: Vec<T>,
    row: usize,
    column: usize,
}
impl<T: Test> Laid<T> {
    fn view(&self) -> Matrix<'_, T> {
        Matrix {
            memory: &self.memory,
            row: self.row,
            column: self.column,
        }
    }
    fn new(
        rows: usize,
        columns: usize,
        values: &dyn Fn(usize, usize) -> T,
        layout: usize,
        extra: usize,
    ) -> Self {
        let (row, column) = match layout {
            0 => (columns, 1),
            1 => (1, rows),
            2 => (columns + 3, 1),
            3 => (1, rows + 5),
            4 => (2 * columns, 2),
            5 => (3, 3 * rows + 1),
            6 => (0, 1),
            7 => (1, 0),
            8 => (0, 0),
            9 => (0, 2),
            _ => (2, 0),
        };
        let len = if rows == 0 || columns == 0 {
            0
        } else {
            (rows - 1) * row + (columns - 1) * column + 1
        };
        let mut memory = vec![T::new(f64::NAN); len + extra];
        for i in 0..rows {
            for j in 0..columns {
                memory[i * row + j * column] = values(
                    if row == 0 { 0 } else { i },
                    if column == 0 { 0 } else { j },
                );
            }
        }
        Self {
            memory,
            row,
            column,
        }
    }
}

fn sizes(random: &mut Random) -> [usize; 3] {
    let small = [
        0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18, 24, 31, 32, 33, 48, 49, 63, 64,
        65, 70,
    ];
    let mut x = [random.of(&small), random.of(&small), random.of(&small)];
    match random.below(12) {
        0 => x[random.below(3)] = random.below(900),
        1 => x = [random.below(20), random.below(20), 500 + random.below(700)],
        2 => x[random.below(2)] = 1,
        3 => {
            // Few columns, or few rows.
            let [many, few] = [64 + random.below(200), 2 + random.below(9)];
            x = [many, few, random.of(&[16, 17, 40, 511, 530, 1100])];
            x[..2].rotate_left(random.below(2));
        }
        _ => {}
    }
    x
}

#[allow(clippy::too_many_arguments)]
fn run<T: Test>(
    [m, n, k]: [usize; 3],
    alpha: f64,
    beta: f64,
    a: &Laid<T>,
    b: &Laid<T>,
    addend: Option<&Laid<T>>,
    out: &mut [T],
    step: usize,
    how: &dyn Fn(MatrixProduct<'_, T>),
) {
    how(MatrixProduct {
        m,
        n,
        k,
        alpha: T::new(alpha),
        a: a.view(),
        b: b.view(),
        beta: T::new(beta),
        addend: addend.map(Laid::view),
        out,
        step,
    });
}

fn against_loops<T: Test>(seed: u64, rounds: usize, how: &dyn Fn(MatrixProduct<'_, T>)) {
    let mut random = Random(seed);
    for _ in 0..rounds {
        let [m, n, k] = sizes(&mut random);
        let (a_values, b_values): (Vec<T>, Vec<T>) = (
            (0..m * k).map(|_| T::new(random.value())).collect(),
            (0..k * n).map(|_| T::new(random.value())).collect(),
        );
        let (la, lb) = (random.below(11), random.below(11));
        let extra = random.of(&[0, 0, 1, 40]);
        let a = Laid::new(m, k, &|i, l| a_values[i * k + l], la, extra);
        let b = Laid::new(k, n, &|l, j| b_values[l * n + j], lb, extra);
        let (alpha, beta) = (
            random.of(&[1.0, 1.0, -0.5, 0.0]),
            random.of(&[0.0, 0.0, 1.0, -0.5]),
        );
        let step = n + random.of(&[0, 0, 1, 7]);
        let gap = -77.0;
        let mut out: Vec<T> = (0..if m == 0 { 0 } else { (m - 1) * step + n + 3 })
            .map(|i| {
                if i % step.max(1) < n && i < m * step {
                    T::new(random.value())
                } else {
                    T::new(gap)
                }
            })
            .collect();
        let last = if m == 0 { 0 } else { (m - 1) * step + n };
        for x in &mut out[last..] {
            *x = T::new(gap);
        }
        if beta == 0.0 {
            for i in 0..m {
                for j in 0..n {
                    out[i * step + j] = T::new(f64::NAN);
                }
            }
        }
        let before = out.clone();
        run([m, n, k], alpha, beta, &a, &b, None, &mut out, step, how);
        for (i, x) in out.iter().enumerate() {
            let (row, column) = (i / step.max(1), i % step.max(1));
            if row >= m || column >= n {
                assert_eq!(x.get(), gap, "{m} {n} {k} gap {i}");
                continue;
            }
            let (mut sum, mut size) = (0.0, 0.0f64);
            for l in 0..k {
                let p = a.memory[row * a.row + l * a.column].get()
                    * b.memory[l * b.row + column * b.column].get();
                sum += p;
                size += p.abs();
            }
            let mut want = alpha * sum;
            if beta != 0.0 {
                want += beta * before[i].get();
                size += before[i].get().abs();
            }
            let tolerance = T::EPSILON * (size + want.abs()) * (k as f64 + 4.0);
            assert!(
                (x.get() - want).abs() <= tolerance,
                "{m}x{n}x{k} layouts {la} {lb} alpha {alpha} beta {beta} at {row},{column}: {x:?} {want}"
            );
        }
    }
}

#[test]
fn agrees_with_loops() {
    against_loops::<f32>(1, 1000, &|p| product(p, false));
    against_loops::<f64>(2, 1000, &|p| product(p, false));
    against_loops::<f32>(3, 500, &|p| product(p, true));
}

/// Products of the same sizes in one memory, which ends at the last element of the last one, together and one
/// after another.
fn batches<S: Simd, T: Test>(simd: S, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..400 {
        let sides = [1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 33, 40, 64, 70];
        let [m, n, k] = [(); 3].map(|()| random.of(&sides));
        let count = 1 + random.below(4);
        let mut values =
            |len: usize| -> Vec<T> { (0..count * len).map(|_| wild(&mut random, true)).collect() };
        let (a, b, before) = (values(m * k), values(k * n), values(m * n));
        let [turned_a, turned_b] = [(); 2].map(|()| random.below(2) == 0);
        let beta = T::new(random.of(&[0.0, 0.0, 1.0, -0.5]));
        let (mut one_by_one, mut together) = (before.clone(), before);
        let product_of = |(i, out)| {
            let matrix = |memory, rows: usize, columns: usize, is_turned| match is_turned {
                false => Matrix::of_rows(memory, columns),
                true => Matrix::of_rows(memory, rows).transposed(),
            };
            MatrixProduct {
                m,
                n,
                k,
                alpha: T::new(1.5),
                a: matrix(&a[i * m * k..], m, k, turned_a),
                b: matrix(&b[i * k * n..], k, n, turned_b),
                beta,
                addend: None,
                out,
                step: n,
            }
        };
        for product in one_by_one.chunks_mut(m * n).enumerate().map(product_of) {
            match product.is_tiny() {
                true => product.by_rows(),
                false => with(simd, product, 1),
            }
        }
        let all = together.chunks_mut(m * n).enumerate().map(product_of);
        simd.vectorize(Products(all));
        assert!(
            same_bits(&one_by_one, &together),
            "{count} of {m}x{n}x{k} {turned_a} {turned_b}"
        );
    }
}

#[test]
fn products_of_a_batch_are_those_one_after_another() {
    batches::<_, f32>(pulp::Scalar, 31);
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = pulp::x86::V3::try_new() {
            batches::<_, f32>(simd, 32);
            batches::<_, f64>(simd, 33);
        }
        if let Some(simd) = pulp::x86::V4::try_new() {
            batches::<_, f32>(simd, 34);
            batches::<_, f64>(simd, 35);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(simd) = pulp::aarch64::Neon::try_new() {
        batches::<_, f32>(simd, 34);
        batches::<_, f64>(simd, 35);
    }
}

#[test]
fn agrees_with_loops_on_every_instruction_set() {
    against_loops::<f32>(4, 600, &|p| with(pulp::Scalar, p, 1));
    against_loops::<f64>(5, 600, &|p| with(pulp::Scalar, p, 1));
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        against_loops::<f32>(6, 600, &|p| with(simd, p, 1));
        against_loops::<f64>(7, 600, &|p| with(simd, p, 1));
    }
}

fn same_bits<T: Test>(x: &[T], y: &[T]) -> bool {
    x.iter()
        .zip(y)
        .all(|(x, y)| x.bits() == y.bits() || x.get().is_nan() && y.get().is_nan())
}

/// Values of all sizes, sometimes infinities and NaN.
fn wild<T: Test>(random: &mut Random, odd: bool) -> T {
    let x = random.value() * 10f64.powi(random.below(60) as i32 - 30);
    match random.below(200) {
        0 if odd => T::new(f64::INFINITY),
        1 if odd => T::new(f64::NAN),
        2 => T::new(-0.0),
        3 => T::new(0.0),
        _ => T::new(x),
    }
}

fn layouts<T: Test>(seed: u64, rounds: usize, how: &dyn Fn(MatrixProduct<'_, T>)) {
    let mut random = Random(seed);
    for round in 0..rounds {
        let [m, n, k] = sizes(&mut random);
        let odd = round % 4 == 0;
        let (a_values, b_values): (Vec<T>, Vec<T>) = (
            (0..m * k).map(|_| wild(&mut random, odd)).collect(),
            (0..k * n).map(|_| wild(&mut random, odd)).collect(),
        );
        let before: Vec<T> = (0..m * n).map(|_| wild(&mut random, false)).collect();
        let (alpha, beta) = (random.of(&[1.0, -0.5]), random.of(&[0.0, 1.0, -0.5]));
        let mut first: Option<Vec<T>> = None;
        for la in 0..6 {
            for lb in 0..6 {
                let a = Laid::new(m, k, &|i, l| a_values[i * k + l], la, 0);
                let b = Laid::new(k, n, &|l, j| b_values[l * n + j], lb, 0);
                // What is added lies in the result, or elsewhere.
                let addend = Laid::new(m, n, &|i, j| before[i * n + j], (la + lb) % 6, 0);
                for addend in [None, Some(&addend)] {
                    let mut out = match addend {
                        None => before.clone(),
                        Some(_) => vec![T::new(f64::NAN); m * n],
                    };
                    run([m, n, k], alpha, beta, &a, &b, addend, &mut out, n, how);
                    match &first {
                        None => first = Some(out),
                        Some(first) => assert!(same_bits(first, &out), "{m}x{n}x{k} {la} {lb}"),
                    }
                }
            }
        }
    }
}

#[test]
fn layouts_change_no_bit() {
    layouts::<f32>(11, 50, &|p| product(p, false));
    layouts::<f64>(12, 50, &|p| product(p, false));
    layouts::<f32>(13, 20, &|p| with(pulp::Scalar, p, 1));
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        layouts::<f32>(14, 33, &|p| with(simd, p, 1));
        layouts::<f64>(15, 33, &|p| with(simd, p, 1));
    }
}

fn threads<T: Test>(seed: u64) {
    let mut random = Random(seed);
    let pools: Vec<_> = [1, 2, 3, 5, 16]
        .iter()
        .map(|&n| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(n)
                .build()
                .unwrap()
        })
        .collect();
    for round in 0..18 {
        let [m, n, k] = match round % 6 {
            0 => [1, 2000 + random.below(1000), 300 + random.below(900)],
            1 => [2000 + random.below(1000), 1, 300 + random.below(900)],
            2 => [
                1 + random.below(40),
                700 + random.below(700),
                100 + random.below(600),
            ],
            3 => [
                700 + random.below(700),
                1 + random.below(40),
                100 + random.below(600),
            ],
            _ => [
                100 + random.below(300),
                100 + random.below(300),
                100 + random.below(600),
            ],
        };
        let (la, lb) = (random.below(6), random.below(6));
        let (a_values, b_values): (Vec<T>, Vec<T>) = (
            (0..m * k).map(|_| wild(&mut random, false)).collect(),
            (0..k * n).map(|_| wild(&mut random, false)).collect(),
        );
        let a = Laid::new(m, k, &|i, l| a_values[i * k + l], la, 0);
        let b = Laid::new(k, n, &|l, j| b_values[l * n + j], lb, 0);
        let step = n + random.of(&[0, 3]);
        let before: Vec<T> = (0..(m - 1) * step + n)
            .map(|_| wild(&mut random, false))
            .collect();
        let beta = random.of(&[0.0, 1.0, -0.5]);
        let mut first = before.clone();
        run(
            [m, n, k],
            -0.5,
            beta,
            &a,
            &b,
            None,
            &mut first,
            step,
            &|p| product(p, false),
        );
        for pool in &pools {
            let mut out = before.clone();
            pool.install(|| {
                run([m, n, k], -0.5, beta, &a, &b, None, &mut out, step, &|p| {
                    product(p, true)
                })
            });
            assert!(
                same_bits(&first, &out),
                "{m}x{n}x{k} {la} {lb} on {}",
                pool.current_num_threads()
            );
        }
    }
}

#[test]
fn threads_change_no_bit() {
    threads::<f32>(21);
    threads::<f64>(22);
}

/// Computes `alpha a b` of row-major matrices.
fn dense<T: Test>([m, n, k]: [usize; 3], alpha: T, a: &[T], b: &[T], out: &mut [T]) {
    let row_major = |memory, row| Matrix {
        memory,
        row,
        column: 1,
    };
    let product_of = MatrixProduct {
        m,
        n,
        k,
        alpha,
        a: row_major(a, k),
        b: row_major(b, n),
        beta: T::ZERO,
        addend: None,
        out,
        step: n,
    };
    product(product_of, false);
}

#[test]
fn infinities_and_nans_spread() {
    for (m, n, k) in [
        (9, 9, 9),
        (1, 40, 33),
        (40, 1, 33),
        (13, 50, 600),
        (70, 33, 20),
    ] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut a = vec![0.0f32; m * k];
            let b = vec![0.0f32; k * n];
            a[k / 2] = bad;
            let mut out = vec![1.0f32; m * n];
            dense([m, n, k], 1.0, &a, &b, &mut out);
            assert!(out[..n].iter().all(|x| x.is_nan()) && out[n..].iter().all(|&x| x == 0.0));
        }
        // alpha = 0 skips nothing, and beta = 0 reads nothing.
        let a = vec![f64::INFINITY; m * k];
        let b = vec![1.0; k * n];
        let mut out = vec![f64::NAN; m * n];
        dense([m, n, k], 0.0, &a, &b, &mut out);
        assert!(out.iter().all(|x| x.is_nan()));
        let a = vec![1.0; m * k];
        dense([m, n, k], 1.0, &a, &b, &mut out);
        assert!(out.iter().all(|&x| x == k as f64));
    }
}

#[test]
fn sums_that_vanish_have_one_sign() {
    // Products below the smallest number are -0, which 0 * 0 for a missing lane turns into 0.
    for k in 1..70 {
        for n in [1, 2] {
            let m = 9;
            let mut first: Option<Vec<f32>> = None;
            for la in 0..6 {
                for lb in 0..6 {
                    let a = Laid::new(m, k, &|_, _| -1e-30f32, la, 0);
                    let b = Laid::new(k, n, &|_, _| 1e-30f32, lb, 0);
                    let mut out = vec![0.0; m * n];
                    run([m, n, k], 1.0, 0.0, &a, &b, None, &mut out, n, &|p| {
                        product(p, false)
                    });
                    match &first {
                        None => first = Some(out),
                        Some(first) => assert!(same_bits(first, &out), "{k} {n} {la} {lb}"),
                    }
                }
            }
        }
    }
}
