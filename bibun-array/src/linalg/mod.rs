//! Linear algebra: factorisations of matrices, with any axes of a batch in front.
//!
//! All of it is computed on the CPU, in f32 or f64, elimination and exponentials also for complex numbers: small matrices in
//! groups, of which each has a lane of vector instructions (`small`); others one after the other, by products of blocks:
//! triangular and orthogonal factors (`blocked`, `reflections`); eigenvectors and singular vectors by reflections that
//! leave two diagonals (`tridiagonal`, `bidiagonal`), whose vectors are found by dividing them (`divide`). Products of
//! complex matrices are those of real ones (`complex`). The dtype and the sizes of one matrix alone decide which of
//! this is done. Threads share the matrices of a batch, or one large matrix.

mod batch;
mod bidiagonal;
mod blocked;
mod cholesky;
mod complex;
mod determinant;
mod divide;
mod eigh;
mod entries;
mod exponential;
mod lu;
mod numbers;
mod passes;
mod qr;
mod reflections;
mod small;
mod spectral;
mod svd;
mod tiles;
mod triangular;
mod tridiagonal;

pub use batch::TINY;
pub use cholesky::cholesky;
pub use determinant::{cofactors, determinants};
pub use eigh::{eigh, eigvalsh};
pub use exponential::expm;
pub use lu::{inv, lu_factor, lu_solve, solve};
pub use qr::qr;
pub use spectral::{Spectral, spectral};
pub use svd::{svd, svdvals};
pub use triangular::{Triangle, triangular_solve};

use self::numbers::Numbers;
use crate::{Array, DType, Error, raise};

/// What functions return for matrices with elements that are not finite.
const NOT_A_NUMBER: i64 = -1;

/// Fills the results of a matrix that is not finite with NaN, and returns the number that says so.
fn checked<T: Numbers>(is_finite: bool, y: &mut [&mut [T]]) -> i64 {
    if is_finite {
        return 0;
    }
    y.iter_mut().for_each(|y| y.fill(T::of(f64::NAN)));
    NOT_A_NUMBER
}

/// Raises an error of inputs that do not fit.
#[track_caller]
fn raise_mismatch(function: &'static str, inputs: &[(&str, &Array)]) -> ! {
    let each = inputs.iter();
    let each = each.map(|(name, x)| format!("{name} is {} {}", x.shape(), x.dtype()));
    let what = format!(
        "the inputs do not fit: {}",
        each.collect::<Vec<_>>().join(", ")
    );
    raise(Error::invalid(function, what))
}

/// Returns the last two sizes of matrices of real numbers.
#[track_caller]
fn expect_matrices(function: &'static str, a: &Array) -> [usize; 2] {
    expect_sizes(function, a, is_real(a), "f32 or f64")
}

/// The same of real or complex numbers.
#[track_caller]
fn expect_entries(function: &'static str, a: &Array) -> [usize; 2] {
    let is_known = is_real(a) || a.dtype().is_complex();
    expect_sizes(function, a, is_known, "f32, f64 or complex numbers")
}

fn is_real(a: &Array) -> bool {
    matches!(a.dtype(), DType::F32 | DType::F64)
}

#[track_caller]
fn expect_sizes(function: &'static str, a: &Array, is_known: bool, known: &str) -> [usize; 2] {
    match &a.shape()[..] {
        &[.., m, n] if is_known => [m, n],
        _ => {
            let (shape, dtype) = (a.shape(), a.dtype());
            let what = format!("a is {shape} {dtype}; it must be [.., m, n] of {known}");
            raise(Error::invalid(function, what))
        }
    }
}

/// Returns the order of square matrices of real numbers.
#[track_caller]
fn expect_square(function: &'static str, a: &Array) -> usize {
    expect_order(function, a, expect_matrices(function, a))
}

/// The same of real or complex numbers.
#[track_caller]
fn expect_square_entries(function: &'static str, a: &Array) -> usize {
    expect_order(function, a, expect_entries(function, a))
}

#[track_caller]
fn expect_order(function: &'static str, a: &Array, [m, n]: [usize; 2]) -> usize {
    if m != n {
        let what = format!("a is {}; it must be square", a.shape());
        raise(Error::invalid(function, what));
    }
    n
}

/// Returns results whose number is known.
fn results<const N: usize>(list: Vec<Array>) -> [Array; N] {
    list.try_into().expect("the rule's results")
}
