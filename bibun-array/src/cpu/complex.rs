//! Operations on complex arrays, by those on their real and imaginary parts.

use super::{CPU, converted};
use crate::complex::{by_parts, products};
use crate::device::{Device, Reduce, Scan};
use crate::{Array, Change, DType, Update};

pub(super) fn reduce(reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
    match reduction {
        Reduce::Sum => by_parts([x], |[x]| CPU.reduce(Reduce::Sum, &x, axes)),
        Reduce::Product if x.size() == 0 => Array::ones(x.shape().reduced(axes, false), x.dtype()),
        Reduce::Product => {
            let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
            let order: Vec<isize> = (kept.chain(axes.iter().copied()))
                .map(|axis| axis as isize)
                .collect();
            let count = axes.iter().map(|&axis| x.shape()[axis]).product();
            let whole = products(&x.permute(&order), count, false);
            whole.reshape(x.shape().reduced(axes, false))
        }
        Reduce::All | Reduce::Any => CPU.reduce(reduction, &converted(x, DType::Bool), axes),
        Reduce::Max | Reduce::Min | Reduce::ArgMax | Reduce::ArgMin => {
            unreachable!("complex numbers have no order, which the caller has said")
        }
    }
}

pub(super) fn scan(scan: Scan, x: &Array, axis: usize) -> Array {
    match scan {
        Scan::Sum => by_parts([x], |[x]| CPU.scan(Scan::Sum, &x, axis)),
        Scan::Product => {
            let rows = x.moveaxis(axis as isize, -1);
            let running = products(&rows, x.shape()[axis], true).reshape(rows.shape());
            running.moveaxis(-1, axis as isize)
        }
    }
}

/// Four products of real matrices.
pub(super) fn gemm(alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
    let [[a, ai], [b, bi]] = [a, b].map(|x| [x.real(), x.imag()]);
    let (c, ci) = match beta == 0.0 {
        // It is not read, and may hold anything.
        true => [(); 2]
            .map(|()| Array::zeros(c.shape(), c.dtype().to_real()))
            .into(),
        false => (c.real(), c.imag()),
    };
    let real = CPU.gemm(-alpha, &ai, &bi, 1.0, CPU.gemm(alpha, &a, &b, beta, c));
    let imag = CPU.gemm(alpha, &ai, &b, 1.0, CPU.gemm(alpha, &a, &bi, beta, ci));
    Array::complex(&real, &imag)
}

/// The array as twice as many real numbers.
fn flattened(x: &Array) -> Array {
    match x.dtype().is_complex() {
        true => x.view_as_real(),
        false if x.rank() == 0 => x.clone(),
        false => crate::stack(&[x, x], -1),
    }
}

/// Changes both parts as if they were two parameters.
pub(super) fn update(update: &Update, x: &mut Array, gradient: &Array, state: &mut [Array]) {
    let mut parts = x.view_as_real();
    let gradient = gradient.view_as_real();
    let mut states: Vec<Array> = state.iter().map(Array::view_as_real).collect();
    CPU.update(&update.map(flattened), &mut parts, &gradient, &mut states);
    *x = parts.view_as_complex();
    for (state, parts) in state.iter_mut().zip(states) {
        *state = parts.view_as_complex();
    }
}

pub(super) fn sum_of_squares(changes: &[Change], parameter: &Array, gradient: &Array) -> Array {
    let changes: Vec<Change> = changes.iter().map(|change| change.map(flattened)).collect();
    CPU.sum_of_squares(
        &changes,
        &parameter.view_as_real(),
        &gradient.view_as_real(),
    )
}
