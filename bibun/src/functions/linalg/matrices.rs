//! What functions of matrices have in common: the checks of their arguments, and parts of their rules.

use bibun_array::{DType, Shape};

use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::condition::first_nonzero;
use crate::functions::{
    broadcast_to, cast, expand_dims, matmul, slice, squeeze, swapaxes, to_differentiable, to_float,
};
use crate::variable::Variable;

/// An argument in the dtype in which it is computed, and the dtype of the result: 16-bit floats are computed in f32.
/// Complex numbers are refused.
#[track_caller]
pub(super) fn widened(x: Variable) -> (Variable, DType) {
    widened_or_complex(to_float(x))
}

/// Does the same, and takes complex numbers as well.
pub(super) fn widened_or_complex(x: Variable) -> (Variable, DType) {
    let x = to_differentiable(x);
    let dtype = x.dtype();
    (cast(x, dtype.accumulator()), dtype)
}

/// Expects matrices, and returns their sizes.
#[track_caller]
pub(super) fn expect_matrices(function: &'static str, a: &Variable) -> [usize; 2] {
    let spec = a.spec();
    match &spec.shape[..] {
        &[.., m, n] => [m, n],
        _ => mismatch(
            function,
            &[("a [.., m, n]", &spec)],
            "it must have two axes or more",
        ),
    }
}

/// Expects square matrices, and returns their order.
#[track_caller]
pub(super) fn expect_square(function: &'static str, a: &Variable) -> usize {
    let spec = a.spec();
    match &spec.shape[..] {
        &[.., m, n] if m == n => n,
        _ => mismatch(function, &[("a [.., n, n]", &spec)], "a must be square"),
    }
}

/// Two arguments with the same axes in front.
pub(super) struct Pair {
    pub(super) a: Variable,
    /// Matrices, even if they were vectors.
    pub(super) b: Variable,
    pub(super) is_vector: bool,
    pub(super) batch: Shape,
    pub(super) dtype: DType,
}

/// Brings matrices and the right sides of equations together: `[.., m, n]` and `[.., m, k]`, or a single vector.
/// Complex numbers are taken.
#[track_caller]
pub(super) fn pair(function: &'static str, a: Variable, b: Variable) -> Pair {
    let (a, b) = (to_differentiable(a), to_differentiable(b));
    let dtype = a.dtype().promote(b.dtype());
    let (a_spec, b_spec) = (a.spec(), b.spec());
    let inputs = [("a [.., m, n]", &a_spec), ("b [.., m, k] or [m]", &b_spec)];
    let is_vector = b.rank() == 1;
    let b = if is_vector { expand_dims(b, 1) } else { b };
    let b_shape = b.shape();
    let (&[.., m, _], &[.., rows, _]) = (&a_spec.shape[..], &b_shape[..]) else {
        mismatch(function, &inputs, "a must have two axes or more, and b one");
    };
    if m != rows {
        mismatch(function, &inputs, "a and b must have as many rows");
    }
    let front = |shape: &Shape| Shape::new(&shape[..shape.rank() - 2]);
    let Some(batch) = front(&a_spec.shape).broadcast(&front(&b_shape)) else {
        mismatch(function, &inputs, "the axes in front must broadcast");
    };
    let computed = dtype.accumulator();
    Pair {
        a: cast(a, computed),
        b: in_batch(cast(b, computed), &batch, 2),
        is_vector,
        batch,
        dtype,
    }
}

impl Pair {
    /// Returns a result for `b` as it was given.
    pub(super) fn result(&self, x: Variable) -> Variable {
        let x = if self.is_vector { squeeze(x, -1) } else { x };
        cast(x, self.dtype)
    }
}

/// Broadcasts the axes in front of the last `rank`.
pub(super) fn in_batch(x: Variable, batch: &Shape, rank: usize) -> Variable {
    let shape = x.shape();
    let whole = [&batch[..], &shape[shape.rank() - rank..]].concat();
    broadcast_to(x, whole)
}

/// Returns the spec of a result with the axes in front of those of `x`, whose own axes are two.
pub(super) fn beside(x: &Spec, own: &[usize]) -> Spec {
    let front = &x.shape[..x.shape.rank() - 2];
    Spec::new([front, own].concat(), x.dtype)
}

/// Returns the spec of the numbers that say what was found in each matrix.
pub(super) fn info(x: &Spec) -> Spec {
    Spec::new(&x.shape[..x.shape.rank() - 2], DType::I64)
}

// ----- parts of rules

pub(super) fn t(x: impl Into<Variable>) -> Variable {
    swapaxes(x, -1, -2)
}

/// Returns the first k columns.
pub(super) fn first_columns(x: impl Into<Variable>, k: usize) -> Variable {
    let x = x.into();
    match x.shape()[x.rank() - 1] == k {
        true => x,
        false => slice(x, crate::s![..., ..k as isize]),
    }
}

/// Returns the first k rows.
pub(super) fn first_rows(x: impl Into<Variable>, k: usize) -> Variable {
    t(first_columns(t(x), k))
}
/// Returns the symmetric part.
pub(super) fn symmetric(x: Variable) -> Variable {
    (&x + t(&x)) * 0.5
}

/// Returns the product of three matrices.
pub(super) fn product3(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    c: impl Into<Variable>,
) -> Variable {
    matmul(matmul(a, b), c)
}

/// Panics if the number of some matrix is not 0. `why` says what the number means.
///
/// Under transformations, the matrices of all batch elements are looked at. In a function that is being traced,
/// nothing is known yet, and the results are NaN there.
#[track_caller]
pub(super) fn expect_success(
    function: &'static str,
    info: &Variable,
    why: impl FnOnce(i64) -> String,
) {
    let Some((number, place)) = first_nonzero(info) else {
        return;
    };
    let which = match place.is_empty() {
        true => String::from("the matrix"),
        false => format!("the matrix at {place:?}"),
    };
    let what = match number {
        ..0 => String::from("has elements that are not finite"),
        number => why(number),
    };
    raise(Error::argument(function, format!("{which} {what}")));
}
