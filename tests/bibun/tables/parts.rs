//! What bibun has for the names of PyTorch and JAX that pick, write, count and order elements.

use bibun::functions::{self as f, Combine, DiffOptions};
use bibun::{Variable, at, grad, s};

use super::*;

pub(super) fn of_pytorch(cases: &mut Cases) {
    let (x, y, images) = (wave([2, 3], 0), wave([2, 3], 1), wave([2, 4, 5, 6], 0));
    writing(cases, &x, &y);
    let at = at![[[1], [0]], [2, 0, 2]];
    let apart = images.index(at![.., [1, 0], .., [3, -1]]);
    cases.row("x[i, j]", [x.index(at), apart, x.index(at![x.greater(0)])]);
    let put = |(x, y): &(Variable, Variable)| x.index_put_with(at, y, Combine::Sum);
    let both = (x.clone(), y.clone());
    let (gx, gy) = grad(|both| put(both).square().sum(..), &both);
    cases.row("index_put", [put(&both), gx, gy]);
    cases.row("masked_select", [x.masked_select(x.greater(0))]);
    cases.row("nonzero", [x.greater(0).nonzero()]);
    let numbers = Variable::constant([3i64, 1, 3, 0]);
    let weighted = numbers.bincount(wave(4, 0), Some(6));
    cases.row("x.bincount", [numbers.bincount(None, None), weighted]);
    let (elements, positions, counts) = numbers.unique();
    cases.row("unique", [elements, positions, counts]);
    let edges = Variable::constant([-1.0, 0.0, 0.5]);
    let searched = [
        edges.searchsorted(&x, false),
        edges.searchsorted(&edges, true),
    ];
    cases.row("searchsorted", searched);
    let bins = [edges.bucketize(&edges, false), x.bucketize(&edges, true)];
    cases.row("bucketize", bins);
    let bits = [
        numbers.bitwise_and(2),
        numbers.bitwise_or(4),
        numbers.bitwise_xor(1),
        numbers.bitwise_not(),
        numbers.left_shift(3),
        numbers.right_shift(1),
    ];
    cases.row("bitwise_and", bits);
    let widths = [(0, 0), (0, 0), (2, 1), (1, 2)];
    cases.row("F.pad(mode=\"reflect\")", [images.reflection_pad(&widths)]);
    cases.row(
        "F.pad(mode=\"replicate\")",
        [images.replication_pad(&widths)],
    );
    cases.row("F.pad(mode=\"circular\")", [images.circular_pad(&widths)]);
    order(cases, &x, &y);
}

fn writing(cases: &mut Cases, x: &Variable, y: &Variable) {
    let few = y.slice(s![..1, ..2]);
    cases.row("scatter", [x.scatter([[2i64, 0]], 1, few)]);
    let combines = [
        Combine::Sum,
        Combine::Product,
        Combine::Mean,
        Combine::Max,
        Combine::Min,
    ];
    let reduced = combines.map(|combine| {
        let rows = [[1i64, 0, 1], [1, 1, 1]];
        [true, false].map(|own| wave([2, 3], 0).scatter_reduce(rows, 0, y, combine, own))
    });
    cases.row("torch.scatter_reduce", reduced.concat());
    let two = y.slice(s![.., ..2]);
    cases.row("index_copy", [x.index_copy([2i64, 0], 1, two)]);
    cases.row("index_fill", [x.index_fill([2i64, 0], 1, 0.5)]);
    cases.row("masked_fill", [x.masked_fill(x.greater(0), 0.5)]);
    cases.row("masked_scatter", [x.masked_scatter(x.greater(0), y)]);
    cases.row("select_scatter", [x.select_scatter(y.slice(s![0]), 0, 1)]);
    let line = y.slice(s![0, ..2]);
    cases.row("diagonal_scatter", [x.diagonal_scatter(line, 1, [0, 1])]);
}

fn order(cases: &mut Cases, x: &Variable, y: &Variable) {
    let (values, positions) = x.cummax(1);
    cases.row("cummax", [values, positions]);
    let (values, positions) = x.cummin(1);
    cases.row("cummin", [values, positions]);
    cases.row("logcumsumexp", [x.logcumsumexp(1)]);
    let appended = DiffOptions::new().append(y.slice(s![..1]));
    let twice = x.diff_with(1, DiffOptions::new().order(2));
    cases.row("diff", [twice, x.diff_with(0, appended)]);
    cases.row("torch.gradient", [f::gradient(x, 0.5, 1)]);
    let running = x.cumulative_trapezoid([0.0, 1.0, 3.0], 1);
    cases.row("trapezoid", [x.trapezoid(0.5, 1), running]);
    cases.row("quantile", [x.quantile(0.3, 1), x.quantile([0.1, 0.9], 0)]);
    let (values, positions) = f::mode([[2.0, 1.0, 2.0, 1.0, 3.0]], 1);
    cases.row("x.mode", [values, positions]);
    let gap = Variable::constant([1.0, f64::NAN, 2.0]);
    cases.row("nansum", [gap.nansum(..)]);
    cases.row("nanmean", [gap.nanmean(..)]);
}

pub(super) fn of_jax(cases: &mut Cases) {
    let (x, y) = (wave([2, 3], 0), wave([2, 3], 1));
    let at = at![[[1], [0]], [2, 0, 2]];
    cases.row("x[i, j]", [x.index(at)]);
    let written = x.index_put(at![[1, 0], [2, 0]], y.slice(s![0, ..2]));
    cases.row("x.at[i, j].set(v)", [written]);
    let combines = [Combine::Product, Combine::Max, Combine::Min];
    let combined = combines.map(|combine| x.index_put_with(at, &y, combine));
    cases.row("x.at[i, j].multiply(v)", combined);
    let (rows, ids) = (wave([4, 3], 0), [2i64, 0, 2, 2]);
    let segments = [
        rows.segment_sum(ids, 3),
        rows.segment_prod(ids, 3),
        rows.segment_max(ids, 3),
        rows.segment_min(ids, 3),
    ];
    let not_empty = segments.map(|segments| segments.slice(s![..; 2]));
    cases.row("jax.ops.segment_sum", not_empty);
    let (counts, edges) = x.histogram(4);
    cases.row("jnp.histogram", [counts, edges]);
    let gap = Variable::constant([1.0, f64::NAN, 3.0, 4.0, 9.0]);
    let medians = [wave([2, 4], 0).median(1), gap.nanmedian(0)];
    cases.row("jnp.median", medians);
    cases.row("jnp.nanquantile", [gap.nanquantile(0.3, 0)]);
    let gap = gap.slice(s![..3]);
    cases.row("jnp.nanvar", [gap.nanvar(.., 1), gap.nanstd(.., 0)]);
    let steps = [f::linspace(0.5, 2.0, 4), f::logspace(0.5, 2.0, 4, 10.0)];
    cases.row("jnp.linspace", steps);
    cases.row("jnp.repeat", [x.repeat_interleave([2i64, 0, 1], 1)]);
}
