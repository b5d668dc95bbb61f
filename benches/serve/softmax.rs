//! Softmax, its losses, and attention.

use bibun::functions::{attention, causal_attention, log_softmax, softmax, softmax_cross_entropy};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for shape in ["1024x1024", "2048x64"] {
        rows.both(&format!("softmax/softmax-{shape}"), |[x]| softmax(x, -1));
        rows.both(&format!("softmax/log-softmax-{shape}"), |[x]| {
            log_softmax(x, -1)
        });
        rows.gradient(&format!("softmax/cross-entropy-{shape}"), |[x, t]| {
            softmax_cross_entropy(x, t)
        });
    }
    for length in ["64", "512", "2048"] {
        rows.both(&format!("attention/full-{length}"), |[q, k, v]| {
            attention(q, k, v, None)
        });
        rows.both(&format!("attention/causal-{length}"), |[q, k, v]| {
            causal_attention(q, k, v, None)
        });
    }
    rows.both("attention/masked-512", |[q, k, v, mask]| {
        attention(q, k, v, mask)
    });
}
