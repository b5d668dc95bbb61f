//! Matrix products of floats: a block of `b` in the second cache, a few rows of `a` in the first and
//! a tile of sums in registers (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication", 2008; F. Van Zee and R. van de Geijn, "BLIS: A Framework for Rapidly
//! Instantiating BLAS Functionality", 2015).
//!
//! Only the sizes of a product decide the order in which an element of it is summed: over blocks of
//! `k`, and in each of them over one `k` after the other. In a product with a vector, each lane of
//! a vector is summed over its own `k`s, at a distance of one vector, and then the lanes are
//! summed. The layout of the factors, copies, and the distribution over threads change no bit.

// Loops over indices are unrolled early enough for their targets to stay in registers.
#![allow(clippy::needless_range_loop)]

mod blocks;
mod narrow;
mod pack;
mod part;
mod plan;
mod scratch;
#[cfg(test)]
mod tests;
mod tiles;
mod vector;

use pulp::{Arch, Simd, WithSimd};

use super::matmul::{Matrix, MatrixProduct};
use super::threads::{chunks, for_each};
use super::tile::Float;
use part::{Part, Rows, is_outer};
use vector::WithVector;

pub(super) use pack::{Pack, Panels};
pub(super) use tiles::{HIGH, wide};

/// The number of multiplications that are worth a task.
const TASK: usize = 1 << 19;

/// Computes `out = alpha a b + beta addend`, where nothing is added if `beta` is 0.
pub(super) fn product<T: Float>(product: MatrixProduct<'_, T>, parallel: bool) {
    let MatrixProduct { m, n, k, .. } = product;
    let tasks = match m * n * k / TASK {
        tasks if parallel && tasks > 1 => tasks.min(rayon::current_num_threads()),
        _ => 1,
    };
    compute(product, tasks, &|work| match work {
        Work::Matrix(part) => Arch::new().dispatch(part),
        Work::Vector(part) => Arch::new().dispatch(part),
    });
}

/// Computes products of the same sizes and steps, for which one of them decides how.
pub(super) fn products<'a, T: Float>(products: impl Iterator<Item = MatrixProduct<'a, T>>) {
    Arch::new().dispatch(Products(products));
}

struct Products<I>(I);

impl<'a, T: Float, I: Iterator<Item = MatrixProduct<'a, T>>> WithSimd for Products<I> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut way = None;
        for product in self.0 {
            if product.is_tiny() {
                product.by_rows();
                continue;
            }
            let mut copied = Vec::new();
            match work(product, &mut copied) {
                None => {}
                Some(Work::Matrix(mut part)) => {
                    let way = match way {
                        Some(way) => way,
                        None => *way.insert(part.way::<S>()),
                    };
                    part.compute(simd, way);
                }
                Some(Work::Vector(mut part)) => simd.vectorize(&mut part),
            }
        }
    }
}

/// Computes some rows of a product, of which the sums are those of a product of more than one row and
/// column.
pub(super) fn some_rows<T: Float>(product: MatrixProduct<'_, T>) {
    let MatrixProduct {
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        addend,
        out,
        step,
    } = product;
    // No tile has a single row, so it is computed twice.
    let is_alone = m == 1;
    let mut twice = vec![T::ZERO; if is_alone { 2 * n } else { 0 }];
    let (memory, step) = match is_alone {
        true => (&mut twice[..], n),
        false => (&mut out[..(m - 1) * step + n], step),
    };
    let row = |step: usize| if is_alone { 0 } else { step };
    Arch::new().dispatch(&mut Part {
        m: if is_alone { 2 } else { m },
        n,
        k,
        alpha,
        a: Matrix {
            row: row(a.row),
            ..a
        },
        b,
        beta,
        addend: addend.map(|addend| Matrix {
            row: row(addend.row),
            ..addend
        }),
        out: Rows::Even(memory, step),
    });
    if is_alone {
        out[..n].copy_from_slice(&twice[..n]);
    }
}

/// [`product`] with given instructions and tasks.
#[cfg(test)]
fn with<S: Simd, T: Float>(simd: S, product: MatrixProduct<'_, T>, tasks: usize) {
    compute(product, tasks, &|work| match work {
        Work::Matrix(part) => simd.vectorize(part),
        Work::Vector(part) => simd.vectorize(part),
    });
}

fn compute<T: Float>(
    product: MatrixProduct<'_, T>,
    tasks: usize,
    run: &(dyn Fn(&mut Work<'_, T>) + Sync),
) {
    let mut copied = Vec::new();
    let Some(mut work) = work(product, &mut copied) else {
        return;
    };
    if tasks == 1 {
        return run(&mut work);
    }
    let mut parts = match work {
        Work::Matrix(part) => part.cut(tasks),
        Work::Vector(part) => part.cut(tasks),
    };
    for_each(chunks(&mut parts, 1), true, 1, &|_, part| {
        run(&mut part[0]);
    });
}

/// Returns the work of a product, if there is any. A vector may be `copied`.
#[inline(always)]
fn work<'a, T: Float>(
    product: MatrixProduct<'a, T>,
    copied: &'a mut Vec<T>,
) -> Option<Work<'a, T>> {
    let MatrixProduct {
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        addend,
        out,
        step,
    } = product;
    if m == 0 || n == 0 {
        return None;
    }
    let out = &mut out[..(m - 1) * step + n];
    if k == 0 {
        for (i, row) in out.chunks_mut(step).enumerate() {
            for (j, y) in row[..n].iter_mut().enumerate() {
                *y = match beta == T::ZERO {
                    true => T::ZERO,
                    false => beta.times(addend.map_or(*y, |addend| addend.at(i, j))),
                };
            }
        }
        return None;
    }
    let is_one_row = m == 1 && !(n > 1 && is_outer(k, beta, b));
    Some(if is_one_row || n == 1 {
        // A row is a column of the transposed product.
        let turned = Matrix {
            memory: b.memory,
            row: b.column,
            column: b.row,
        };
        let (a, x, x_step, step, addend) = match n {
            1 => (a, b.memory, b.row, step, addend),
            _ => (
                turned,
                a.memory,
                a.column,
                1,
                addend.map(Matrix::transposed),
            ),
        };
        let x = if x_step == 1 || k == 1 {
            &x[..k]
        } else {
            copied.extend((0..k).map(|l| x[l * x_step]));
            copied
        };
        let alone = m == 1 && n == 1;
        Work::Vector(WithVector {
            alpha,
            a,
            x,
            beta,
            addend,
            y: out,
            step,
            alone,
        })
    } else {
        Work::Matrix(Part {
            m,
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            out: Rows::Even(out, step),
        })
    })
}

/// The work of one thread.
enum Work<'a, T> {
    Matrix(Part<'a, T>),
    Vector(WithVector<'a, T>),
}

/// The matrix that begins at an element of another one.
#[inline]
fn from<T>(matrix: Matrix<'_, T>, start: usize) -> Matrix<'_, T> {
    Matrix {
        memory: &matrix.memory[start.min(matrix.memory.len())..],
        ..matrix
    }
}
