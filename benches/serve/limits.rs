//! What the machine can do: the rate of arithmetic and that of memory.

use bibun::functions::matmul;

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    rows.forward("limits/product", |[a, b]| matmul(a, b));
    for name in ["limits/copy-2^16", "limits/copy-2^20", "limits/copy-2^25"] {
        rows.forward(name, |[x]| 2.0 * x);
    }
}
