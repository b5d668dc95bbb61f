//! Sums, extremes and variances, along each axis.

use bibun::Variable;
use bibun::functions::{logsumexp, max, mean, sum, var};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for (name, f) in [
        ("sum", sum_of as fn(&Variable, &[isize]) -> Variable),
        ("mean", |x, axes| mean(x, axes)),
        ("max", |x, axes| max(x, axes)),
        ("variance", |x, axes| var(x, axes, 0)),
        ("logsumexp", |x, axes| logsumexp(x, axes)),
    ] {
        rows.both(&format!("reductions/{name}-rows"), move |[x]| f(x, &[1]));
        rows.both(&format!("reductions/{name}-columns"), move |[x]| f(x, &[0]));
        rows.both(&format!("reductions/{name}-all"), move |[x]| f(x, &[0, 1]));
    }
    rows.forward("reductions/sum-middle", |[x]| sum(x, 1));
    rows.forward("reductions/sum-outer", |[x]| sum(x, [0, 2]));
}

fn sum_of(x: &Variable, axes: &[isize]) -> Variable {
    sum(x, axes)
}
