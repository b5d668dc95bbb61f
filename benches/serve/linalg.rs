//! Factorisations: one matrix of some sizes, and many small ones.

use bibun::linalg::{cholesky, eigh, inv, logdet, qr, solve, svd};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for suffix in ["", "-f64"] {
        for size in [
            "64",
            "256",
            "1024",
            "10000-of-3",
            "10000-of-8",
            "10000-of-16",
        ] {
            let name = |function: &str| format!("linalg/{function}-{size}{suffix}");
            rows.forward(&name("cholesky"), |[a]| cholesky(a));
            rows.forward(&name("solve"), |[a, b]| solve(a, b));
            rows.forward(&name("inv"), |[a]| inv(a));
            rows.forward(&name("logdet"), |[a]| logdet(a));
            rows.forward(&name("qr"), |[a]| qr(a).r.abs());
            // Vectors are computed, too.
            rows.forward(&name("eigh"), |[a]| eigh(a).0);
            rows.forward(&name("svd"), |[a]| svd(a).s);
        }
    }
}
