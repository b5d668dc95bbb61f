//! Products of matrices, in all sizes and orders in memory.

use bibun::functions::{einsum, linear, matmul};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for size in ["64", "128", "256", "512", "1024"] {
        rows.forward(&format!("products/nn-{size}"), |[a, b]| matmul(a, b));
        rows.forward(&format!("products/nt-{size}"), |[a, b]| {
            matmul(a, b.transpose())
        });
        rows.forward(&format!("products/tn-{size}"), |[a, b]| {
            matmul(a.transpose(), b)
        });
        rows.forward(&format!("products/tt-{size}"), |[a, b]| {
            matmul(a.transpose(), b.transpose())
        });
    }
    for name in [
        "32x256x1024",
        "1024x8x1024",
        "8x1024x1024",
        "1024x1024x8",
        "4096x64x64",
        "64-of-64x64x32",
        "512-of-16x16x16",
        "matrix-vector-1024",
        "vector-matrix-1024",
    ] {
        rows.both(&format!("products/{name}"), |[a, b]| matmul(a, b));
    }
    rows.both("products/linear-128x784x100", |[x, w, b]| linear(x, w, b));
    rows.both("products/linear-1x128x128", |[x, w, b]| linear(x, w, b));
    rows.both("products/einsum-bilinear", |[x, w, y]| {
        einsum("bi,oij,bj->bo", [x, w, y])
    });
}
