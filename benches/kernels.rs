//! Throughput of elementwise functions and reductions in bytes per second, and of matrix products
//! in floating-point operations per second.
//!
//! `cargo bench -p bibun-benches --bench kernels`. The limits: `copy` shows what memory gives for one
//! read and one write; the largest square product shows what the cores give.

use bibun_array::{Array, DType, Generator, matmul, ops};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};

const SIZES: &[usize] = &[1 << 10, 1 << 16, 1 << 22];

fn data(size: usize) -> Array {
    Generator::new(1).uniform([size], 0.1, 1.0, DType::F32)
}

fn unary(bencher: Bencher<'_, '_>, size: usize, f: fn(Array) -> Array) {
    let x = data(size);
    bencher
        .counter(BytesCount::new(size * 8))
        .bench_local(|| f(x.clone()));
}

#[divan::bench(args = SIZES)]
fn copy(bencher: Bencher<'_, '_>, size: usize) {
    let x = data(size).to_vec::<f32>();
    let mut y = vec![0f32; size];
    bencher
        .counter(BytesCount::new(size * 8))
        .bench_local(|| y.copy_from_slice(&x));
}

#[divan::bench(args = SIZES)]
fn add_number(bencher: Bencher<'_, '_>, size: usize) {
    unary(bencher, size, |x| x + 1.0);
}

#[divan::bench(args = SIZES)]
fn exp(bencher: Bencher<'_, '_>, size: usize) {
    unary(bencher, size, ops::exp);
}

#[divan::bench(args = SIZES)]
fn tanh(bencher: Bencher<'_, '_>, size: usize) {
    unary(bencher, size, ops::tanh);
}

#[divan::bench(args = SIZES)]
fn sum_all(bencher: Bencher<'_, '_>, size: usize) {
    let x = data(size);
    bencher
        .counter(BytesCount::new(size * 4))
        .bench_local(|| x.sum(..));
}

#[divan::bench(args = [0, 1])]
fn sum_axis(bencher: Bencher<'_, '_>, axis: i32) {
    let x = data(1 << 22).reshape([2048, 2048]);
    bencher
        .counter(BytesCount::new(4usize << 22))
        .bench_local(|| x.sum(axis));
}

#[divan::bench(args = [(128, 784, 100), (128, 100, 100), (128, 100, 10), (512, 512, 512), (1024, 1024, 1024)])]
fn product(bencher: Bencher<'_, '_>, (m, k, n): (usize, usize, usize)) {
    let a = data(m * k).reshape([m, k]);
    let b = data(k * n).reshape([k, n]);
    bencher
        .counter(ItemsCount::new(2 * m * k * n))
        .bench_local(|| matmul(&a, &b));
}

fn main() {
    divan::main();
}
