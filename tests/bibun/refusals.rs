//! Every function, called wrongly in every way that it refuses: the error names the line of the call
//! in this file.

use std::collections::BTreeSet;

use bibun::array::math::Float;
use bibun::array::{Array, DType, ElementFormula, Generator, Index, Number, s};
use bibun::datasets::DataLoader;
use bibun::functions::*;
use bibun::linalg;
use bibun::links::{
    BatchNorm, Chain, Dropout, Embedding, Linear, Link, Mlp, MultiHeadAttention, Sequential,
};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::parallel::local::alone;
use bibun::{
    Error, Variable, at, attempt, checkpoint, cond, custom, fori_loop, grad, gradients, jvp,
    linearize, no_grad, per_example, scan, vmap, while_loop, with_hook,
};

use crate::sources::public_functions;

/// A call that is refused, and where it stands.
struct Row {
    function: &'static str,
    line: u32,
    call: Box<dyn Fn() + Send + Sync>,
}

fn row<T>(function: &'static str, line: u32, call: impl Fn() -> T + Send + Sync + 'static) -> Row {
    Row {
        function,
        line,
        call: Box::new(move || drop(call())),
    }
}

/// Ones.
fn x<const N: usize>(shape: [usize; N]) -> Variable {
    Variable::new(Array::ones(shape, DType::F64))
}

/// Complex ones.
fn z<const N: usize>(shape: [usize; N]) -> Variable {
    Variable::new(Array::ones(shape, DType::C128))
}

fn i<const N: usize>(elements: [i64; N]) -> Variable {
    Variable::constant(elements)
}

fn b<const N: usize>(elements: [bool; N]) -> Variable {
    Variable::constant(elements)
}

fn g() -> Generator {
    Generator::new(0)
}

fn conv<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new()
}

fn back<const N: usize>() -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new()
}

fn patches() -> UnfoldOptions {
    UnfoldOptions::new()
}

/// A formula of one's own.
struct Sum;
impl ElementFormula<2> for Sum {
    const NAME: &'static str = "elementwise";
    fn value<T: Float>([a, b]: [Number<T>; 2], []: [Number<T>; 0]) -> Number<T> {
        a + b
    }
}

/// One row a line, so that a line says which row it is.
#[rustfmt::skip]
fn rows() -> Vec<Row> {
    const LINEAR: Interpolation = Interpolation::LINEAR;
    let nan = f64::NAN;
    vec![
        row("absolute_error", line!(), || absolute_error(x([2]), x([3]))),
        row("accuracy", line!(), || accuracy(&x([2, 3]), i([0, 1, 2]))),
        row("accuracy", line!(), || accuracy(&x([2, 3]), x([2]))),
        row("adaptive_avg_pool", line!(), || adaptive_avg_pool(x([2]), [1, 1])),
        row("adaptive_avg_pool", line!(), || adaptive_avg_pool(x([2, 0]), [1])),
        row("adaptive_avg_pool", line!(), || adaptive_avg_pool(i([1, 2]), [1])),
        row("adaptive_max_pool", line!(), || adaptive_max_pool(x([2]), [1, 1])),
        row("adaptive_max_pool", line!(), || adaptive_max_pool(x([2, 0]), [1])),
        row("add", line!(), || add(x([2]), x([3]))),
        row("add", line!(), || x([2]) + x([3])),
        row("add", line!(), || 1.0 + x([2]) + x([3])),
        row("add_at", line!(), || add_at(x([2]), i([2]), 0, 1.0)),
        row("add_at", line!(), || add_at(x([2]), i([-3]), 0, x([1]))),
        row("add_at", line!(), || add_at(x([2]), x([1]), 0, 1.0)),
        row("add_at", line!(), || add_at(x([2]), i([0]), 1, 1.0)),
        row("add_at", line!(), || add_at(x([2]), i([0]), 0, x([3]))),
        row("affine_grid", line!(), || affine_grid(x([1, 2, 2]), [3, 3], true)),
        row("affine_grid", line!(), || affine_grid(x([2, 3]), [3, 3], true)),
        row("all", line!(), || all(b([true]), 1)),
        row("all_close", line!(), || all_close(x([2]), x([3]), 0.0, 0.0)),
        row("alpha_dropout", line!(), || alpha_dropout(x([2]), 1.0, &mut g())),
        row("aminmax", line!(), || aminmax(x([2]), 1)),
        row("aminmax", line!(), || aminmax(x([0]), 0)),
        row("any", line!(), || any(b([true]), 1)),
        row("arange", line!(), || arange(0, 1, 0)),
        row("arange", line!(), || arange(0.0, f64::NAN, 1.0)),
        row("argmax", line!(), || argmax(x([2]), 1)),
        row("argmax", line!(), || argmax(x([0]), 0)),
        row("argmax", line!(), || argmax(x([2, 0]), ..)),
        row("argmin", line!(), || argmin(x([2]), -2)),
        row("argmin", line!(), || argmin(x([0]), 0)),
        row("argmin", line!(), || argmin(x([2, 2]), [0, -2])),
        row("argsort", line!(), || argsort(x([2]), 1)),
        row("array_split", line!(), || array_split(x([2]), 0, 0)),
        row("array_split", line!(), || array_split(x([2]), 2, 1)),
        row("atan2", line!(), || atan2(x([2]), x([3]))),
        row("attention", line!(), || attention(x([2, 3]), x([2, 4]), x([2, 3]), None)),
        row("attention", line!(), || attention(x([2, 3]), x([2, 3]), x([3, 3]), None)),
        row("attention", line!(), || attention(x([3]), x([2, 3]), x([2, 3]), None)),
        row("attention", line!(), || attention(x([2, 3]), x([2, 3]), x([2, 3]), Some(&b([true, true, true])))),
        row("attention", line!(), || attention(x([2, 1, 3]), x([3, 1, 3]), x([3, 1, 3]), None)),
        row("attention", line!(), || attention(x([2, 3]), x([2, 3]), x([2, 3]), Some(&i([0, 1])))),
        row("attention_weights", line!(), || attention_weights(x([2, 3]), x([2, 4]), None)),
        row("attention_weights", line!(), || attention_weights(x([2, 3]), x([2, 3]), Some(&b([true, true, true])))),
        row("attention_with", line!(), || attention_with(x([4, 2, 3]), x([2, 2, 3]), x([2, 2, 3]), None, AttentionOptions::new())),
        row("attention_with", line!(), || attention_with(x([4, 2, 3]), x([3, 2, 3]), x([3, 2, 3]), None, AttentionOptions::new().grouped_queries(true))),
        row("attention_with", line!(), || attention_with(x([4, 2, 3]), x([2, 2, 3]), x([4, 2, 3]), None, AttentionOptions::new().grouped_queries(true))),
        row("attention_with", line!(), || attention_with(x([2, 3]), x([2, 3]), x([2, 3]), None, AttentionOptions::new().grouped_queries(true))),
        row("attention_with", line!(), || attention_with(x([2, 3]), x([2, 4]), x([2, 3]), None, AttentionOptions::new())),
        row("average", line!(), || average(x([2]), 1, x([2]))),
        row("average", line!(), || average(x([2]), 0, x([3]))),
        row("average_precision", line!(), || average_precision(&x([2]), i([0, 1, 1]))),
        row("average_precision", line!(), || average_precision(&x([2]), i([0, 2]))),
        row("avg_pool", line!(), || avg_pool(x([2]), [3])),
        row("avg_pool", line!(), || avg_pool(x([2]), [0])),
        row("avg_pool", line!(), || avg_pool(x([2]), Pooling::new([1]).stride(0))),
        row("avg_pool", line!(), || avg_pool(x([2, 2, 2]), Pooling::new([1, 1, 1]).stride([1, 2]))),
        row("avg_pool", line!(), || avg_pool(x([2, 2, 2]), Pooling::new([1, 1, 1]).padding([0, 0]))),
        row("avg_pool", line!(), || avg_pool(x([2]), Pooling::new([1]).dilation(0))),
        row("avg_pool", line!(), || avg_pool(x([2]), [1, 1])),
        row("avg_pool", line!(), || avg_pool(i([2]), [1])),
        row("avg_pool", line!(), || avg_pool(x([2]), Pooling::new([1]).divisor(0))),
        row("bartlett_window", line!(), || bartlett_window(usize::MAX, true)),
        row("batch_l2_norm_squared", line!(), || batch_l2_norm_squared(x([]))),
        row("batch_normalization", line!(), || batch_normalization(x([2]), None, None, 0.0)),
        row("batch_normalization", line!(), || batch_normalization(x([2, 3]), Some(&x([2])), None, 0.0)),
        row("batch_normalization", line!(), || batch_normalization(x([2, 3]), None, Some(&x([2])), 0.0)),
        row("batch_normalization", line!(), || batch_normalization(x([2, 3]), None, None, -1.0)),
        row("batch_normalization", line!(), || batch_normalization(x([1, 3]), None, None, 0.0)),
        row("batch_normalization_with_statistics", line!(), || batch_normalization_with_statistics(x([2]), None, None, 0.0)),
        row("batch_normalization_with_statistics", line!(), || batch_normalization_with_statistics(x([2, 3]), None, None, f64::NAN)),
        row("beta", line!(), || beta(x([2]), x([3]))),
        row("betainc", line!(), || betainc(x([2]), 1.0, x([3]))),
        row("betaincinv", line!(), || betaincinv(x([2]), 1.0, x([3]))),
        row("betaln", line!(), || betaln(x([2]), x([3]))),
        row("bilinear", line!(), || bilinear(x([2, 3]), x([2, 2]), x([4, 2, 3]), None)),
        row("bilinear", line!(), || bilinear(x([1, 3]), x([2, 2]), x([4, 3, 2]), None)),
        row("bilinear", line!(), || bilinear(x([3]), x([2]), x([4, 3, 2]), x([3]))),
        row("bilinear", line!(), || bilinear(x([]), x([2]), x([4, 3, 2]), None)),
        row("binary_accuracy", line!(), || binary_accuracy(&x([2]), i([0, 1, 2]))),
        row("binary_accuracy", line!(), || binary_accuracy(&x([2]), x([2]))),
        row("binary_cross_entropy", line!(), || binary_cross_entropy(x([2]), x([3]))),
        row("binary_cross_entropy_with", line!(), || binary_cross_entropy_with(x([2]), x([2]), BinaryCrossEntropyOptions::new().pos_weight(x([2, 2])))),
        row("binary_cross_entropy_with", line!(), || binary_cross_entropy_with(x([2]), x([2]), BinaryCrossEntropyOptions::new().weight(x([3])))),
        row("bincount", line!(), || bincount(i([-1]), None, None)),
        row("bincount", line!(), || bincount(i([1, 2]), x([3]), None)),
        row("bincount", line!(), || bincount(i([3]), None, Some(3))),
        row("bincount", line!(), || bincount(x([2]), None, None)),
        row("bitwise_and", line!(), || bitwise_and(i([1, 2]), i([1, 2, 3]))),
        row("bitwise_and", line!(), || bitwise_and(i([1]), x([1]))),
        row("bitwise_not", line!(), || bitwise_not(x([1]))),
        row("bitwise_or", line!(), || bitwise_or(i([1, 2]), i([1, 2, 3]))),
        row("bitwise_or", line!(), || bitwise_or(i([1]), x([1]))),
        row("bitwise_xor", line!(), || bitwise_xor(i([1, 2]), i([1, 2, 3]))),
        row("bitwise_xor", line!(), || bitwise_xor(i([1]), x([1]))),
        row("blackman_window", line!(), || blackman_window(usize::MAX, true)),
        row("broadcast_to", line!(), || broadcast_to(x([2]), 3)),
        row("bucketize", line!(), || bucketize(x([2]), x([2, 2]), true)),
        row("cartesian_prod", line!(), || cartesian_prod([x([2, 1])])),
        row("cartesian_prod", line!(), || cartesian_prod(Vec::<Variable>::new())),
        row("causal_attention", line!(), || causal_attention(x([2, 3]), x([2, 4]), x([2, 3]), None)),
        row("causal_attention", line!(), || causal_attention(x([2, 1, 3]), x([3, 1, 3]), x([3, 1, 3]), None)),
        row("causal_attention", line!(), || causal_attention(x([2, 3]), x([2, 3]), x([2, 3]), Some(&i([0, 1])))),
        row("cdist", line!(), || cdist(x([1, 2]), x([1, 2]), f64::NAN)),
        row("cdist", line!(), || cdist(x([2, 1, 2]), x([3, 1, 2]), 2.0)),
        row("cdist", line!(), || cdist(x([2, 3]), x([2, 2]), 2.0)),
        row("cdist", line!(), || cdist(x([2]), x([2, 2]), 2.0)),
        row("celu", line!(), || celu(x([2]), x([3]))),
        row("channel_shuffle", line!(), || channel_shuffle(x([4]), 2)),
        row("channel_shuffle", line!(), || channel_shuffle(x([1, 4]), 3)),
        row("channel_shuffle", line!(), || channel_shuffle(x([1, 4]), 0)),
        row("chunk", line!(), || chunk(x([2]), 0, 0)),
        row("chunk", line!(), || chunk(x([2]), 1, 1)),
        row("circulant", line!(), || circulant(x([2, 1]))),
        row("circulant", line!(), || circulant(x([0]))),
        row("circular_pad", line!(), || circular_pad(x([0]), &[(1, 0)])),
        row("circular_pad", line!(), || circular_pad(x([2]), &[])),
        row("clip", line!(), || clip(x([2]), x([3]), None)),
        row("clip", line!(), || clip(z([2]), 0.0, 1.0)),
        row("clipped_relu", line!(), || clipped_relu(x([2]), x([3]))),
        row("combinations", line!(), || combinations(x([2, 1]), 1)),
        row("combinations", line!(), || combinations(x([100]), 50)),
        row("concat", line!(), || concat([&x([2, 3]), &i([1])], 0)),
        row("concat", line!(), || concat([&x([2, 3]), &x([2, 4])], 0)),
        row("concat", line!(), || concat([&x([2])], 1)),
        row("concat", line!(), || concat([] as [&Variable; 0], 0)),
        row("confusion_matrix", line!(), || confusion_matrix(&x([2]), i([0]))),
        row("confusion_matrix", line!(), || confusion_matrix(&x([2, 3]), i([0]))),
        row("confusion_matrix", line!(), || confusion_matrix(&x([1, 3]), i([3]))),
        row("conv1d", line!(), || conv1d(x([1, 2]), x([1, 2, 1]), None, conv())),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 1, 1]), None, conv())),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 4]), None, conv())),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 0]), None, conv())),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 1]), Some(&x([2])), conv())),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 1]), None, ConvOptions { stride: [0], ..conv() })),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 1]), None, ConvOptions { dilation: [0], ..conv() })),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 2, 1]), None, ConvOptions { groups: 0, ..conv() })),
        row("conv1d", line!(), || conv1d(x([1, 2, 3]), x([1, 1, 1]), None, ConvOptions { groups: 2, ..conv() })),
        row("conv2d", line!(), || conv2d(x([1, 2, 3]), x([1, 2, 1, 1]), None, conv())),
        row("conv2d", line!(), || conv2d(i([1]), i([1]), None, conv())),
        row("conv3d", line!(), || conv3d(x([1, 2, 3]), x([1, 2, 1, 1]), None, conv())),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2]), x([2, 1, 1]), None, back())),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 3]), x([1, 1, 1]), None, back())),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 0]), x([2, 1, 1]), None, back())),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 3]), x([2, 1, 1]), Some(&x([2])), back())),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 3]), x([2, 1, 1]), None, ConvTransposeOptions { output_padding: [1], ..back() })),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 3]), x([2, 1, 1]), None, ConvTransposeOptions { padding: 2.into(), ..back() })),
        row("conv_transpose1d", line!(), || conv_transpose1d(x([1, 2, 3]), x([2, 1, 1]), None, ConvTransposeOptions { groups: 3, ..back() })),
        row("conv_transpose2d", line!(), || conv_transpose2d(x([1, 2]), x([2, 1, 1]), None, back())),
        row("conv_transpose3d", line!(), || conv_transpose3d(x([1, 2]), x([2, 1, 1]), None, back())),
        row("convolve", line!(), || convolve(x([2, 1]), x([2]), Overlap::Full)),
        row("convolve", line!(), || convolve(x([2]), x([0]), Overlap::Full)),
        row("copysign", line!(), || copysign(x([2]), x([3]))),
        row("correlate", line!(), || correlate(x([2]), x([]), Overlap::Same)),
        row("cosine_embedding_loss", line!(), || cosine_embedding_loss(x([2, 3]), x([2, 3]), i([1]), 0.0)),
        row("cosine_embedding_loss", line!(), || cosine_embedding_loss(x([2, 3]), x([3]), i([1, 1]), 0.0)),
        row("cosine_embedding_loss_with", line!(), || cosine_embedding_loss_with(x([]), x([]), x([]), 0.0, Reduction::Sum)),
        row("cosine_similarity", line!(), || cosine_similarity(x([2]), x([2]), 1)),
        row("cosine_similarity", line!(), || cosine_similarity(x([2]), x([3]), 0)),
        row("count_nonzero", line!(), || count_nonzero(x([2]), 1)),
        row("crelu", line!(), || crelu(x([2]), 1)),
        row("ctc_loss", line!(), || ctc_loss(x([0, 3]), i([1]))),
        row("ctc_loss", line!(), || ctc_loss(x([2, 4, 3]), i([1, 2]))),
        row("ctc_loss", line!(), || ctc_loss(x([4, 3]), i([3]))),
        row("ctc_loss", line!(), || ctc_loss(x([4, 3]), x([2]))),
        row("ctc_loss", line!(), || ctc_loss(x([2, 3]), i([-1]))),
        row("ctc_loss", line!(), || ctc_loss(x([2, 3]), i([3]))),
        row("ctc_loss_with", line!(), || ctc_loss_with(x([1, 2, 3]), i([1]).reshape([1, 1]), CtcOptions::new().target_lengths(i([-1])))),
        row("ctc_loss_with", line!(), || ctc_loss_with(x([1, 2, 3]), i([1]).reshape([1, 1]), CtcOptions::new().input_lengths(i([5])))),
        row("ctc_loss_with", line!(), || ctc_loss_with(x([4, 3]), i([1]), CtcOptions::new().blank(3))),
        row("ctc_loss_with", line!(), || ctc_loss_with(x([4, 3]), i([1]), CtcOptions::new().input_lengths(i([1, 1])))),
        row("ctc_loss_with", line!(), || ctc_loss_with(x([4, 3]), i([1]), CtcOptions::new().target_lengths(x([])))),
        row("cummax", line!(), || cummax(x([2]), 1)),
        row("cummin", line!(), || cummin(x([2]), 1)),
        row("cumprod", line!(), || cumprod(x([2]), 1)),
        row("cumsum", line!(), || cumsum(x([2]), 1)),
        row("cumulative_trapezoid", line!(), || cumulative_trapezoid(x([2]), 1.0, 1)),
        row("cumulative_trapezoid", line!(), || cumulative_trapezoid(x([2]), x([3]), 0)),
        row("diag", line!(), || diag(x([]), 0)),
        row("diagonal", line!(), || diagonal(x([2, 2]), 0, [0, 2])),
        row("diagonal", line!(), || diagonal(x([2, 2]), 0, [0, -2])),
        row("diagonal", line!(), || diagonal(x([2]), 0, [0, 0])),
        row("diagonal_scatter", line!(), || diagonal_scatter(x([2, 2]), 1.0, 0, [0, 0])),
        row("diagonal_scatter", line!(), || diagonal_scatter(x([2, 2]), 1.0, 0, [0, 2])),
        row("diagonal_scatter", line!(), || diagonal_scatter(x([2, 2]), x([3]), 0, [0, 1])),
        row("diff", line!(), || diff(x([2]), 1)),
        row("diff_with", line!(), || diff_with(x([2]), 1, DiffOptions::new())),
        row("diff_with", line!(), || diff_with(x([2]), 0, DiffOptions::new().prepend(x([1, 1])))),
        row("divide", line!(), || divide(x([2]), x([3]))),
        row("dot", line!(), || dot(x([]), x([2]))),
        row("dot", line!(), || dot(x([2]), x([3]))),
        row("dot", line!(), || dot(b([true]), b([true]))),
        row("dropout", line!(), || dropout(x([2]), 1.0, &mut g())),
        row("dropout", line!(), || dropout(x([2]), -0.5, &mut g())),
        row("dstack", line!(), || dstack([] as [&Variable; 0])),
        row("dstack", line!(), || dstack([&x([2]), &x([3])])),
        row("einsum", line!(), || einsum("i,j->ij", [&x([2])])),
        row("einsum", line!(), || einsum("ij,jk->ik", [&x([2, 3]), &x([2, 3])])),
        row("einsum", line!(), || einsum("i", [&x([2, 3])])),
        row("einsum", line!(), || einsum("ijk...", [&x([2, 3])])),
        row("einsum", line!(), || einsum("i1", [&x([2, 3])])),
        row("einsum", line!(), || einsum("ij->k", [&x([2, 3])])),
        row("einsum", line!(), || einsum("ij->ii", [&x([2, 3])])),
        row("einsum", line!(), || einsum("...i,...i", [&x([2, 3]), &x([4, 3])])),
        row("einsum", line!(), || einsum("ij,jk", [&Variable::constant([[true]]), &Variable::constant([[true]])])),
        row("elementwise", line!(), || elementwise(Sum, [x([2]), x([3])], [])),
        row("elu", line!(), || elu(x([2]), x([3]))),
        row("embedding", line!(), || embedding(i([3]), x([3, 2]), None)),
        row("embedding", line!(), || embedding(i([-4]), x([3, 2]), Some(0))),
        row("embedding", line!(), || embedding(x([3]), x([3, 2]), None)),
        row("embedding", line!(), || embedding(i([0]), x([]), None)),
        row("embedding_bag", line!(), || embedding_bag(i([0, 2]), x([2, 2]), Bag::Sum)),
        row("embedding_bag", line!(), || embedding_bag(x([2]), x([2, 2]), Bag::Sum)),
        row("embedding_bag", line!(), || embedding_bag(i([0]), x([2]), Bag::Sum)),
        row("equal", line!(), || equal(x([2]), x([3]))),
        row("expand_dims", line!(), || expand_dims(x([2]), 2)),
        row("eye", line!(), || eye(usize::MAX, DType::F64)),
        row("f1_score", line!(), || f1_score(&x([2, 3]), i([0, 3]), Average::Micro)),
        row("f1_score", line!(), || f1_score(&x([2, 3]), i([0]), Average::Micro)),
        row("feature_dropout", line!(), || feature_dropout(x([2, 2]), -0.5, &mut g())),
        row("feature_dropout", line!(), || feature_dropout(x([2]), 0.5, &mut g())),
        row("fixed_batch_normalization", line!(), || fixed_batch_normalization(x([2]), None, None, x([2]), x([2]), 0.0)),
        row("fixed_batch_normalization", line!(), || fixed_batch_normalization(x([1, 2]), None, None, x([3]), x([2]), 0.0)),
        row("fixed_batch_normalization", line!(), || fixed_batch_normalization(x([1, 2]), None, None, x([2]), x([2]), -1.0)),
        row("flatten_from", line!(), || flatten_from(x([2]), 1)),
        row("flip", line!(), || flip(x([2]), 1)),
        row("fliplr", line!(), || fliplr(x([2]))),
        row("flipud", line!(), || flipud(x([]))),
        row("fmax", line!(), || fmax(x([2]), x([3]))),
        row("fmin", line!(), || fmin(x([2]), x([3]))),
        row("fmod", line!(), || fmod(x([2]), x([3]))),
        row("fold", line!(), || fold(x([1, 2, 3]), [2, 2], [3, 3], patches())),
        row("fold", line!(), || fold(x([1, 2, 3]), [2, 2], [1, 1], patches())),
        row("fractional_max_pool", line!(), || fractional_max_pool(x([3]), [0], [3], &mut g())),
        row("fractional_max_pool", line!(), || fractional_max_pool(x([3]), [1, 1], [1], &mut g())),
        row("fractional_max_pool", line!(), || fractional_max_pool(x([3]), [1, 1], [1, 1], &mut g())),
        row("fractional_max_pool", line!(), || fractional_max_pool(x([3]), [2], [3], &mut g())),
        row("gammainc", line!(), || gammainc(x([2]), x([3]))),
        row("gammaincc", line!(), || gammaincc(x([2]), x([3]))),
        row("gammainccinv", line!(), || gammainccinv(x([2]), x([3]))),
        row("gammaincinv", line!(), || gammaincinv(x([2]), x([3]))),
        row("gather", line!(), || gather(x([2]), i([2]), 0)),
        row("gather", line!(), || gather(x([2]), i([-3]), 0)),
        row("gather", line!(), || gather(x([2]), x([2]), 0)),
        row("gather", line!(), || gather(x([2]), i([0]), 1)),
        row("gather", line!(), || gather(x([2, 2]), i([0]), 0)),
        row("gaussian_nll_loss", line!(), || gaussian_nll_loss(x([2]), x([3]), x([2]))),
        row("gaussian_nll_loss", line!(), || gaussian_nll_loss(x([2]), x([2]), x([3]))),
        row("gaussian_nll_loss_with", line!(), || gaussian_nll_loss_with(x([2]), x([2]), x([2, 2]), Reduction::Sum)),
        row("gcd", line!(), || gcd(i([1, 2]), i([1, 2, 3]))),
        row("gcd", line!(), || gcd(i([1]), x([1]))),
        row("global_avg_pool", line!(), || global_avg_pool(x([2, 3]))),
        row("global_max_pool", line!(), || global_max_pool(x([2, 3]))),
        row("global_max_pool", line!(), || global_max_pool(x([2, 3, 0]))),
        row("glu", line!(), || glu(x([3]), 0)),
        row("glu", line!(), || glu(x([4]), 1)),
        row("gradient", line!(), || gradient(x([1]), 1.0, 0)),
        row("gradient", line!(), || gradient(x([2]), 1.0, 1)),
        row("gradient", line!(), || gradient(x([2]), x([3]), 0)),
        row("greater", line!(), || greater(x([2]), x([3]))),
        row("greater_equal", line!(), || greater_equal(x([2]), x([3]))),
        row("grid_sample", line!(), || grid_sample(x([1, 2, 3]), x([1, 4, 2]), GridSampleOptions::new())),
        row("grid_sample", line!(), || grid_sample(x([1, 2, 3]), x([2, 4, 1]), GridSampleOptions::new())),
        row("grid_sample", line!(), || grid_sample(x([1, 2]), x([1, 0]), GridSampleOptions::new())),
        row("group_normalization", line!(), || group_normalization(x([2]), 1, None, None, 0.0)),
        row("group_normalization", line!(), || group_normalization(x([2, 3]), 2, None, None, 0.0)),
        row("group_normalization", line!(), || group_normalization(x([2, 3]), 0, None, None, 0.0)),
        row("group_normalization", line!(), || group_normalization(x([2, 3]), 3, Some(&x([2])), None, 0.0)),
        row("group_normalization", line!(), || group_normalization(x([2, 3]), 3, None, None, -1.0)),
        row("gumbel_softmax", line!(), || gumbel_softmax(x([2]), 0.0, false, 0, &mut g())),
        row("gumbel_softmax", line!(), || gumbel_softmax(x([2]), -1.0 * x([]), false, 0, &mut g())),
        row("gumbel_softmax", line!(), || gumbel_softmax(x([2]), 1.0, true, 1, &mut g())),
        row("hamming_window", line!(), || hamming_window(usize::MAX, true)),
        row("hankel", line!(), || hankel(x([2]), x([2, 1]))),
        row("hann_window", line!(), || hann_window(usize::MAX, true)),
        row("hardshrink", line!(), || hardshrink(x([2]), x([3]))),
        row("heaviside", line!(), || heaviside(x([2]), x([3]))),
        row("hinge_embedding_loss", line!(), || hinge_embedding_loss(x([2]), x([3]), 1.0)),
        row("hinge_embedding_loss_with", line!(), || hinge_embedding_loss_with(x([2]), x([3]), 1.0, Reduction::Sum)),
        row("hinge_loss", line!(), || hinge_loss(x([2]), x([3]))),
        row("hinge_loss_with", line!(), || hinge_loss_with(x([2]), x([3]), Reduction::Sum)),
        row("histogram", line!(), || histogram(x([2]), 0)),
        row("histogram", line!(), || histogram(x([2]), x([2, 2]))),
        row("hstack", line!(), || hstack([&x([2, 2]), &x([3, 2])])),
        row("hstack", line!(), || hstack([] as [&Variable; 0])),
        row("huber", line!(), || huber(x([2]), x([3]))),
        row("huber_loss", line!(), || huber_loss(x([2]), x([3]), 1.0)),
        row("huber_loss_with", line!(), || huber_loss_with(x([2]), x([1]), 1.0, Reduction::None)),
        row("hypot", line!(), || hypot(x([2]), x([3]))),
        row("index", line!(), || index(x([2]), at![0, [0]])),
        row("index", line!(), || index(x([2]), at![[2]])),
        row("index", line!(), || index(x([2, 2]), at![[0, 1], [0, 1, 1]])),
        row("index", line!(), || index(x([2]), at![[true]])),
        row("index", line!(), || index(x([2]), at![[0.5]])),
        row("index", line!(), || index(x([2]), at![..., 2])),
        row("index_copy", line!(), || index_copy(x([2]), i([2]), 0, 1.0)),
        row("index_copy", line!(), || index_copy(x([2]), i([0]), 1, 1.0)),
        row("index_copy", line!(), || index_copy(x([2]), i([0]), 0, x([3]))),
        row("index_copy", line!(), || index_copy(x([2]), x([1]), 0, 1.0)),
        row("index_fill", line!(), || index_fill(x([2]), i([2]), 0, 1.0)),
        row("index_fill", line!(), || index_fill(x([2]), i([0]), 0, x([1]))),
        row("index_put", line!(), || index_put(x([2]), at![[2]], 1.0)),
        row("index_put", line!(), || index_put(x([2]), at![0, 0], 1.0)),
        row("index_put", line!(), || index_put(x([2]), at![[0]], x([3]))),
        row("index_put", line!(), || index_put(i([2]), at![[0]], 0.5)),
        row("index_put", line!(), || index_put(x([2]), at![[true]], 1.0)),
        row("index_put_with", line!(), || index_put_with(x([2]), at![[2]], 1.0, Combine::Sum)),
        row("index_put_with", line!(), || index_put_with(x([2]), at![[0]], x([3]), Combine::Max)),
        row("instance_normalization", line!(), || instance_normalization(x([2, 3]), None, None, 0.0)),
        row("instance_normalization", line!(), || instance_normalization(x([2, 3, 4]), Some(&x([2])), None, 0.0)),
        row("instance_normalization", line!(), || instance_normalization(x([2, 3, 4]), None, None, -1.0)),
        row("interp", line!(), || interp(x([2]), x([2]), x([3]))),
        row("interp", line!(), || interp(x([2]), x([0]), x([0]))),
        row("interp", line!(), || interp(x([2]), x([2, 1]), x([2, 1]))),
        row("interpolate_by", line!(), || interpolate_by(x([2]), [0.0], Interpolation::CUBIC)),
        row("interpolate_by", line!(), || interpolate_by(x([2]), [1.5, 1.5], Interpolation::CUBIC)),
        row("is_close", line!(), || is_close(x([2]), x([3]), 0.0, 0.0)),
        row("kaiser_window", line!(), || kaiser_window(usize::MAX, true, 1.0)),
        row("kl_div", line!(), || kl_div(x([2]), x([3]))),
        row("kl_div_with", line!(), || kl_div_with(x([2]), x([3]), Reduction::Sum)),
        row("kthvalue", line!(), || kthvalue(x([2]), 0, 0)),
        row("kthvalue", line!(), || kthvalue(x([2]), 3, 0)),
        row("kthvalue", line!(), || kthvalue(x([2]), 1, 1)),
        row("layer_normalization", line!(), || layer_normalization(x([2]), 1, None, None, 0.0)),
        row("layer_normalization", line!(), || layer_normalization(x([2]), 0, Some(&x([3])), None, 0.0)),
        row("layer_normalization", line!(), || layer_normalization(x([2]), 0, None, None, -1.0)),
        row("lcm", line!(), || lcm(i([1]), x([1]))),
        row("ldexp", line!(), || ldexp(x([2]), x([3]))),
        row("leaky_relu", line!(), || leaky_relu(x([2]), x([3]))),
        row("length_mask", line!(), || length_mask(&[3], 2)),
        row("lerp", line!(), || lerp(x([2]), x([3]), 0.5)),
        row("lerp", line!(), || lerp(x([2]), x([2]), x([3]))),
        row("less", line!(), || less(x([2]), x([3]))),
        row("less_equal", line!(), || less_equal(x([2]), x([3]))),
        row("linear", line!(), || linear(x([]), x([2, 3]), None)),
        row("linear", line!(), || linear(x([2]), x([2, 3]), None)),
        row("linear", line!(), || linear(x([3]), x([2, 3]), Some(&x([3])))),
        row("linear", line!(), || linear(b([true]), Variable::constant([[true]]), None)),
        row("linear", line!(), || linear(i([1]), x([2, 3]), None)),
        row("local_response_normalization", line!(), || local_response_normalization(x([2]), 1, 1.0, 1.0, 1.0)),
        row("local_response_normalization", line!(), || local_response_normalization(x([2, 3]), 0, 1.0, 1.0, 1.0)),
        row("log_softmax", line!(), || log_softmax(x([2]), 1)),
        row("logaddexp", line!(), || logaddexp(x([2]), x([3]))),
        row("logaddexp2", line!(), || logaddexp2(x([2]), x([3]))),
        row("logical_and", line!(), || logical_and(b([true, true]), b([true, true, true]))),
        row("logical_or", line!(), || logical_or(b([true, true]), b([true, true, true]))),
        row("logical_xor", line!(), || logical_xor(b([true, true]), b([true, true, true]))),
        row("logsumexp", line!(), || logsumexp(x([2]), 1)),
        row("logsumexp", line!(), || logsumexp(x([0]), 0)),
        row("logsumexp", line!(), || logsumexp(z([2]), 0)),
        row("lp_pool", line!(), || lp_pool(x([2]), 0.0, [1])),
        row("lp_pool", line!(), || lp_pool(x([2]), 2.0, [3])),
        row("lp_pool", line!(), || lp_pool(x([2]), f64::INFINITY, [3])),
        row("margin_ranking_loss", line!(), || margin_ranking_loss(x([2]), x([2]), x([3]), 0.0)),
        row("margin_ranking_loss_with", line!(), || margin_ranking_loss_with(x([2]), x([1]), x([2]), 0.0, Reduction::Sum)),
        row("masked_softmax", line!(), || masked_softmax(x([2]), b([true, true, true]), 0)),
        row("masked_softmax", line!(), || masked_softmax(x([2]), b([true, true]), 1)),
        row("masked_softmax", line!(), || masked_softmax(x([2]), i([0, 1]), 0)),
        row("matmul", line!(), || matmul(x([]), x([2]))),
        row("matmul", line!(), || matmul(x([2, 3]), x([2, 3]))),
        row("matmul", line!(), || matmul(x([2, 2, 3]), x([3, 3, 2]))),
        row("matmul", line!(), || matmul(b([true]), b([true]))),
        row("max", line!(), || max(x([2]), 1)),
        row("max", line!(), || max(x([0]), 0)),
        row("max_pool", line!(), || max_pool(x([2]), [3])),
        row("max_pool", line!(), || max_pool(x([2]), [1, 1])),
        row("max_pool", line!(), || max_pool(x([2]), Pooling::new([1]).stride(0))),
        row("max_pool_with_indices", line!(), || max_pool_with_indices(x([2]), [3])),
        row("max_unpool", line!(), || max_unpool(x([2]), i([0, 1, 2]), [3])),
        row("max_unpool", line!(), || max_unpool(x([2]), i([0, 3]), [3])),
        row("max_unpool", line!(), || max_unpool(x([2]), x([2]), [3])),
        row("max_unpool", line!(), || max_unpool(x([2]), i([0, 1]), [3, 3])),
        row("maximum", line!(), || maximum(x([2]), x([3]))),
        row("maxout", line!(), || maxout(x([4]), 2, 1)),
        row("maxout", line!(), || maxout(x([4]), 3, 0)),
        row("maxout", line!(), || maxout(x([4]), 0, 0)),
        row("mean", line!(), || mean(x([2]), 1)),
        row("mean_absolute_error", line!(), || mean_absolute_error(x([2]), x([3]))),
        row("mean_absolute_error", line!(), || mean_absolute_error(x([2]), x([1]))),
        row("mean_absolute_error_with", line!(), || mean_absolute_error_with(x([2]), x([1]), Reduction::Sum)),
        row("mean_squared_error", line!(), || mean_squared_error(x([2]), x([3]))),
        row("mean_squared_error_with", line!(), || mean_squared_error_with(x([2]), x([1]), Reduction::Sum)),
        row("min", line!(), || min(x([2]), 1)),
        row("min", line!(), || min(x([0]), 0)),
        row("minimum", line!(), || minimum(x([2]), x([3]))),
        row("moveaxis", line!(), || moveaxis(x([2]), 1, 0)),
        row("moveaxis", line!(), || moveaxis(x([2]), 0, 1)),
        row("multi_margin_loss", line!(), || multi_margin_loss(x([2, 3]), i([0]))),
        row("multi_margin_loss", line!(), || multi_margin_loss(x([1, 3]), i([3]))),
        row("multi_margin_loss", line!(), || multi_margin_loss(x([1, 3]), x([1]))),
        row("multi_margin_loss_with", line!(), || multi_margin_loss_with(x([1, 3]), i([0]), MultiMarginOptions::new().p(3))),
        row("multi_margin_loss_with", line!(), || multi_margin_loss_with(x([1, 3]), i([0]), MultiMarginOptions::new().class_weight(x([2])))),
        row("multigammaln", line!(), || multigammaln(x([2]), 0)),
        row("multilabel_margin_loss", line!(), || multilabel_margin_loss(x([3]), x([3]))),
        row("multilabel_margin_loss", line!(), || multilabel_margin_loss(x([3]), i([3, 0, 0]))),
        row("multilabel_margin_loss_with", line!(), || multilabel_margin_loss_with(x([2, 3]), i([0, 1]), Reduction::Sum)),
        row("multilabel_soft_margin_loss", line!(), || multilabel_soft_margin_loss(x([3]), x([2]))),
        row("multilabel_soft_margin_loss", line!(), || multilabel_soft_margin_loss(x([]), x([]))),
        row("multilabel_soft_margin_loss_with", line!(), || multilabel_soft_margin_loss_with(x([3]), x([3]), MultilabelSoftMarginOptions::new().class_weight(x([2])))),
        row("multiply", line!(), || multiply(x([2]), x([3]))),
        row("multiply", line!(), || 2.0 * (x([2]) * x([3]))),
        row("nancumprod", line!(), || nancumprod(x([2]), 1)),
        row("nancumsum", line!(), || nancumsum(x([2]), 1)),
        row("nanprod", line!(), || nanprod(x([2]), 1)),
        row("nextafter", line!(), || nextafter(x([2]), x([3]))),
        row("nll_loss", line!(), || nll_loss(x([1, 2]), i([2]))),
        row("nll_loss", line!(), || nll_loss(x([1, 2]), i([0, 1]))),
        row("nll_loss", line!(), || nll_loss(x([1, 2]), x([1]))),
        row("nll_loss_with", line!(), || nll_loss_with(x([1, 2]), i([-2]), CrossEntropyOptions::new())),
        row("nll_loss_with", line!(), || nll_loss_with(x([1, 2]), i([0]), CrossEntropyOptions::new().label_smoothing(-0.1))),
        row("norm", line!(), || norm(x([2]), 1)),
        row("not_equal", line!(), || not_equal(x([2]), x([3]))),
        row("one_hot", line!(), || one_hot(i([2]), 2, DType::F32)),
        row("one_hot", line!(), || one_hot(i([-1]), 2, DType::F32)),
        row("one_hot", line!(), || one_hot(x([2]), 2, DType::F32)),
        row("outer", line!(), || outer(b([true]), b([true]))),
        row("pad", line!(), || pad(x([2]), &[(-3, 0)], 0.0)),
        row("pad", line!(), || pad(x([2]), &[(0, 0); 0], 0.0)),
        row("pad", line!(), || pad(x([2]), &[(0, 0, -1)], 0.0)),
        row("pad", line!(), || pad(x([2]), &[(1, 0)], x([1]))),
        row("pad", line!(), || pad(x([2]), &[(1, 0, 1), (0, 0, 0)], 0.0)),
        row("pairwise_distance", line!(), || pairwise_distance(x([2]), x([2]), -1.0)),
        row("pairwise_distance", line!(), || pairwise_distance(x([2]), x([3]), 2.0)),
        row("pairwise_distance", line!(), || pairwise_distance(x([]), x([]), 1.0)),
        row("pdist", line!(), || pdist(x([2]), 2.0)),
        row("pdist", line!(), || pdist(x([2, 2]), -1.0)),
        row("permute", line!(), || permute(x([2, 3]), &[0])),
        row("permute", line!(), || permute(x([2, 3]), &[0, 2])),
        row("permute", line!(), || permute(x([2, 3]), &[0, 0])),
        row("perplexity", line!(), || perplexity(&x([2, 3]), i([0]))),
        row("perplexity", line!(), || perplexity(&x([2, 3]), i([0, 3]))),
        row("piecewise", line!(), || piecewise(b([true, false]), &x([3]), |x| x.exp(), |x| x.sin())),
        row("piecewise", line!(), || piecewise(b([true, false]), &x([2]), |_| Variable::constant([1.0, 2.0, 3.0]), |x| x.sin())),
        row("pixel_shuffle", line!(), || pixel_shuffle(x([4, 2]), 2)),
        row("pixel_shuffle", line!(), || pixel_shuffle(x([3, 2, 2]), 2)),
        row("pixel_unshuffle", line!(), || pixel_unshuffle(x([4, 2]), 2)),
        row("pixel_unshuffle", line!(), || pixel_unshuffle(x([3, 3, 2]), 2)),
        row("poisson_nll_loss", line!(), || poisson_nll_loss(x([2]), x([3]))),
        row("poisson_nll_loss_with", line!(), || poisson_nll_loss_with(x([2]), x([3]), Reduction::Sum)),
        row("polyval", line!(), || polyval(x([2, 1]), x([2]))),
        row("pow", line!(), || pow(x([2]), x([3]))),
        row("pow", line!(), || pow(i([2]), -1)),
        row("pow", line!(), || pow(i([2]), i([-1]))),
        row("pow", line!(), || pow(2, i([-1]))),
        row("precision", line!(), || precision(&x([2, 3]), i([0]), Average::Macro)),
        row("precision", line!(), || precision(&x([2, 3]), i([0, 1]), Average::Binary)),
        row("precision", line!(), || precision(&x([2, 3]), i([0, 1]), Average::Class(3))),
        row("prelu", line!(), || prelu(x([2, 3]), x([2]))),
        row("prelu", line!(), || prelu(x([2]), x([2]))),
        row("prod", line!(), || prod(x([2]), 1)),
        row("put_slice", line!(), || put_slice(x([3]), s![..2], 4)),
        row("put_slice", line!(), || put_slice(x([]), s![4], 4)),
        row("put_slice", line!(), || put_slice(x([]), s![0, 0], 4)),
        row("r2_score", line!(), || r2_score(&x([2]), x([3]))),
        row("random_bernoulli", line!(), || random_bernoulli([2], 1.5, &mut g())),
        row("random_bernoulli", line!(), move || random_bernoulli([2], nan, &mut g())),
        row("random_binomial", line!(), || random_binomial(x([2]), x([3]), &mut g())),
        row("random_binomial", line!(), || random_binomial(3, 1.5, &mut g())),
        row("random_binomial", line!(), || random_binomial(-1, 0.5, &mut g())),
        row("random_log_gamma", line!(), || random_log_gamma([0.0], &mut g())),
        row("random_normal", line!(), || random_normal([2], 0.0, -1.0, DType::F32, &mut g())),
        row("random_normal", line!(), || random_normal([2], 0.0, 1.0, DType::I64, &mut g())),
        row("random_poisson", line!(), || random_poisson([-1.0], &mut g())),
        row("random_uniform", line!(), || random_uniform([2], 1.0, 0.0, DType::F32, &mut g())),
        row("random_uniform", line!(), || random_uniform([2], 0.0, 1.0, DType::Bool, &mut g())),
        row("random_von_mises", line!(), || random_von_mises([-1.0], &mut g())),
        row("recall", line!(), || recall(&x([2, 3]), x([2]), Average::Weighted)),
        row("rel_entr", line!(), || rel_entr(x([2]), x([3]))),
        row("remainder", line!(), || remainder(x([2]), x([3]))),
        row("renorm", line!(), || renorm(x([2, 2]), 2.0, 2, 1.0)),
        row("renorm", line!(), || renorm(x([2, 2]), 2.0, 0, -1.0)),
        row("renorm", line!(), || renorm(x([2, 2]), f64::NAN, 0, 1.0)),
        row("repeat", line!(), || repeat(x([2]), 2, 1)),
        row("reshape", line!(), || reshape(x([2]), 3)),
        row("interpolate", line!(), || interpolate(x([2]), [2, 2], LINEAR)),
        row("interpolate", line!(), || interpolate(x([0]), [2], LINEAR)),
        row("interpolate", line!(), || interpolate(i([1]), [2], LINEAR)),
        row("left_shift", line!(), || left_shift(i([1]), -1)),
        row("left_shift", line!(), || left_shift(i([1]), x([1]))),
        row("linspace", line!(), || linspace(x([2]), x([3]), 2)),
        row("logcumsumexp", line!(), || logcumsumexp(x([2]), 1)),
        row("logspace", line!(), || logspace(x([2]), x([3]), 2, 10.0)),
        row("masked_fill", line!(), || masked_fill(x([2]), b([true, true, true]), 1.0)),
        row("masked_fill", line!(), || masked_fill(x([2]), b([true, true]), x([2]))),
        row("masked_scatter", line!(), || masked_scatter(x([2]), b([true, true]), x([1]))),
        row("masked_scatter", line!(), || masked_scatter(x([2]), b([true, true, true]), x([3]))),
        row("masked_select", line!(), || masked_select(x([2]), b([true, true, true]))),
        row("median", line!(), || median(x([2]), 1)),
        row("median", line!(), || median(x([0]), 0)),
        row("meshgrid", line!(), || meshgrid([x([2, 2])])),
        row("mode", line!(), || mode(x([2]), 1)),
        row("mode", line!(), || mode(x([0]), 0)),
        row("nanmax", line!(), || nanmax(x([2]), 1)),
        row("nanmax", line!(), || nanmax(x([0]), 0)),
        row("nanmean", line!(), || nanmean(x([2]), 1)),
        row("nanmedian", line!(), || nanmedian(x([2]), 1)),
        row("nanmedian", line!(), || nanmedian(x([0]), 0)),
        row("nanmin", line!(), || nanmin(x([2]), 1)),
        row("nanmin", line!(), || nanmin(x([0]), 0)),
        row("nanquantile", line!(), || nanquantile(x([2]), 2.0, 0)),
        row("nanquantile", line!(), || nanquantile(x([2]), 0.5, 1)),
        row("nanstd", line!(), || nanstd(x([2]), 1, 0)),
        row("nansum", line!(), || nansum(x([2]), 1)),
        row("nanvar", line!(), || nanvar(x([2]), 1, 0)),
        row("quantile", line!(), || quantile(x([2]), -0.5, 0)),
        row("quantile", line!(), || quantile(x([2]), x([1, 1]), 0)),
        row("quantile", line!(), || quantile(x([2]), 0.5, 1)),
        row("quantile", line!(), || quantile(x([0]), 0.5, 0)),
        row("quantile", line!(), || quantile(z([2]), 0.5, 0)),
        row("reflection_pad", line!(), || reflection_pad(x([2]), &[])),
        row("reflection_pad", line!(), || reflection_pad(x([0]), &[(1, 0)])),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), i([1]), 0)),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), i([1, -1]), 0)),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), i([1, 1]), 1)),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), i([1 << 61, 1]), 0)),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), i([i64::MAX - 1, 2]), 0)),
        row("repeat_interleave", line!(), || repeat_interleave(x([2]), x([2]), 0)),
        row("replication_pad", line!(), || replication_pad(x([2]), &[])),
        row("replication_pad", line!(), || replication_pad(x([0]), &[(1, 0)])),
        row("right_shift", line!(), || right_shift(i([1]), -1)),
        row("right_shift", line!(), || right_shift(i([1]), x([1]))),
        row("rms_normalization", line!(), || rms_normalization(x([2]), 1, None, 0.0)),
        row("rms_normalization", line!(), || rms_normalization(x([2]), 0, Some(&x([3])), 0.0)),
        row("rms_normalization", line!(), || rms_normalization(x([2]), 0, None, -1.0)),
        row("roc_auc", line!(), || roc_auc(&x([2]), x([2]))),
        row("roc_auc", line!(), || roc_auc(&x([2]), i([0, 2]))),
        row("roll", line!(), || roll(x([2]), 1, 1)),
        row("roll", line!(), || roll(x([2, 2]), [1, 2, 3], [0, 1])),
        row("rollaxis", line!(), || rollaxis(x([2]), 1, 0)),
        row("rollaxis", line!(), || rollaxis(x([2]), 0, 2)),
        row("rot90", line!(), || rot90(x([2, 2]), 1, [0, 2])),
        row("rot90", line!(), || rot90(x([2, 2]), 1, [0, -2])),
        row("rotary_embedding", line!(), || rotary_embedding(x([2, 3]))),
        row("rotary_embedding", line!(), || rotary_embedding(x([2]))),
        row("rotary_embedding_with", line!(), || rotary_embedding_with(x([2, 3]), RotaryOptions::new())),
        row("rrelu", line!(), || rrelu(x([2]), 0.5, 0.5, &mut g())),
        row("rrelu", line!(), || rrelu(x([2]), f64::NAN, 0.5, &mut g())),
        row("scatter", line!(), || scatter(i([2]), i([0]), 0, 0.5)),
        row("scatter", line!(), || scatter(x([2, 2]), i([0]), 0, 1.0)),
        row("scatter", line!(), || scatter(x([2]), i([0]), 0, x([3]))),
        row("scatter", line!(), || scatter(x([2]), i([0]), 1, 1.0)),
        row("scatter", line!(), || scatter(x([2]), i([2]), 0, 1.0)),
        row("scatter", line!(), || scatter(x([2]), x([1]), 0, 1.0)),
        row("scatter_add", line!(), || scatter_add(x([2]), i([2]), 0, 1.0)),
        row("scatter_add", line!(), || scatter_add(x([2]), i([0]), 0, x([3]))),
        row("scatter_add", line!(), || scatter_add(x([2]), x([1]), 0, 1.0)),
        row("scatter_add", line!(), || scatter_add(x([2]), i([0]), 1, 1.0)),
        row("scatter_add", line!(), || scatter_add(x([2, 2]), i([0]), 0, 1.0)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2]), i([2]), 0, 1.0, Combine::Max, true)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2]), i([2]), 0, 1.0, Combine::Product, true)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2]), i([2]), 0, 1.0, Combine::Mean, false)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2]), x([1]), 0, 1.0, Combine::Product, true)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2]), x([1]), 0, 1.0, Combine::Min, false)),
        row("scatter_reduce", line!(), || scatter_reduce(x([2, 2]), i([0]), 0, 1.0, Combine::Min, true)),
        row("searchsorted", line!(), || searchsorted(x([]), 1.0, true)),
        row("searchsorted", line!(), || searchsorted(x([2, 2]), x([3, 2]), true)),
        row("segment_max", line!(), || segment_max(x([2]), i([0]), 1)),
        row("segment_max", line!(), || segment_max(x([1]), i([1]), 1)),
        row("segment_mean", line!(), || segment_mean(x([2]), i([0]), 1)),
        row("segment_mean", line!(), || segment_mean(x([1]), i([1]), 1)),
        row("segment_min", line!(), || segment_min(x([2]), i([0]), 1)),
        row("segment_min", line!(), || segment_min(x([1]), i([1]), 1)),
        row("segment_prod", line!(), || segment_prod(x([2]), i([0]), 1)),
        row("segment_prod", line!(), || segment_prod(x([1]), i([1]), 1)),
        row("segment_sum", line!(), || segment_sum(x([2]), i([0]), 1)),
        row("segment_sum", line!(), || segment_sum(x([1]), i([1]), 1)),
        row("segment_sum", line!(), || segment_sum(x([]), i([]), 1)),
        row("select_item", line!(), || select_item(x([2, 3]), i([0, 3]))),
        row("select_item", line!(), || select_item(x([2, 3]), x([2]))),
        row("select_item", line!(), || select_item(x([2, 3]), i([0]))),
        row("select_item", line!(), || select_item(x([2]), i([0]))),
        row("select_scatter", line!(), || select_scatter(x([2]), 1.0, 0, 2)),
        row("select_scatter", line!(), || select_scatter(x([2]), 1.0, 1, 0)),
        row("select_scatter", line!(), || select_scatter(x([2]), x([2]), 0, 0)),
        row("soft_margin_loss", line!(), || soft_margin_loss(x([2]), x([3]))),
        row("soft_margin_loss_with", line!(), || soft_margin_loss_with(x([2]), x([3]), Reduction::Sum)),
        row("softmin", line!(), || softmin(x([2]), 1)),
        row("softplus", line!(), || softplus(x([2]), x([3]))),
        row("softshrink", line!(), || softshrink(x([2]), x([3]))),
        row("threshold", line!(), || threshold(x([2]), x([3]), 0.0)),
        row("companion", line!(), || companion(x([1]))),
        row("fiedler", line!(), || fiedler(x([2, 2]))),
        row("hadamard", line!(), || hadamard(3)),
        row("helmert", line!(), || helmert(usize::MAX)),
        row("hilbert", line!(), || hilbert(usize::MAX)),
        row("invhilbert", line!(), || invhilbert(usize::MAX)),
        row("invpascal", line!(), || invpascal(usize::MAX, Pascal::Lower)),
        row("leslie", line!(), || leslie(x([2]), x([2]))),
        row("pascal", line!(), || pascal(usize::MAX, Pascal::Upper)),
        row("poly", line!(), || poly(x([2, 1]))),
        row("polyder", line!(), || polyder(x([2, 1]), 1)),
        row("polydiv", line!(), || polydiv(x([2]), x([0]))),
        row("polydiv", line!(), || polydiv(x([2]), x([2, 1]))),
        row("polyint", line!(), || polyint(x([2, 1]), 1)),
        row("ravel_multi_index", line!(), || ravel_multi_index(&[], [2])),
        row("ravel_multi_index", line!(), || ravel_multi_index(&[&i([2])], [2])),
        row("ravel_multi_index", line!(), || ravel_multi_index(&[&i([0, 1]), &i([0, 1, 1])], [2, 2])),
        row("unravel_index", line!(), || unravel_index(x([2]), [2])),
        row("unravel_index", line!(), || unravel_index(i([4]), [2, 2])),
        row("feature_alpha_dropout", line!(), || feature_alpha_dropout(x([2]), 0.5, &mut g())),
        row("feature_alpha_dropout", line!(), || feature_alpha_dropout(x([2, 2]), 1.0, &mut g())),
        row("quantile_with", line!(), || quantile_with(x([2]), 1.5, 0, QuantileMethod::Lower)),
        row("gradient_with", line!(), || gradient_with(x([2]), 1.0, 0, 2)),
        row("gradient_with", line!(), || gradient_with(x([4]), 1.0, 0, 3)),
        row("toeplitz", line!(), || toeplitz(x([0]), x([2]))),
        row("top_k_accuracy", line!(), || top_k_accuracy(&x([2, 3]), i([0, 1]), 4)),
        row("top_k_accuracy", line!(), || top_k_accuracy(&x([2, 3]), i([0]), 1)),
        row("complex", line!(), || complex(x([2]), x([3]))),
        row("complex", line!(), || complex(z([2]), x([2]))),
        row("polar", line!(), || polar(x([2]), x([3]))),
        row("view_as_complex", line!(), || view_as_complex(x([3]))),
        row("view_as_complex", line!(), || view_as_complex(z([2]))),
        row("view_as_real", line!(), || view_as_real(x([2]))),
        row("fft", line!(), || fft(x([2]), FourierOptions::new().axes(1))),
        row("fft", line!(), || fft(x([2]), FourierOptions::new().lengths([0]))),
        row("fft", line!(), || fft(x([2, 0]), FourierOptions::new())),
        row("ifft", line!(), || ifft(x([2]), FourierOptions::new().axes(1))),
        row("ifft", line!(), || ifft(x([2]), FourierOptions::new().lengths([0]))),
        row("ifft", line!(), || ifft(x([2, 0]), FourierOptions::new())),
        row("rfft", line!(), || rfft(x([2]), FourierOptions::new().axes(1))),
        row("rfft", line!(), || rfft(x([2]), FourierOptions::new().lengths([0]))),
        row("rfft", line!(), || rfft(x([2, 0]), FourierOptions::new())),
        row("irfft", line!(), || irfft(x([2]), FourierOptions::new().axes(1))),
        row("irfft", line!(), || irfft(x([2]), FourierOptions::new().lengths([0]))),
        row("irfft", line!(), || irfft(x([2, 0]), FourierOptions::new())),
        row("hfft2", line!(), || hfft2(x([2]), FourierOptions::new().axes(1))),
        row("hfftn", line!(), || hfftn(x([2]), FourierOptions::new().axes(1))),
        row("ihfft2", line!(), || ihfft2(x([2]), FourierOptions::new().axes(1))),
        row("ihfftn", line!(), || ihfftn(x([2]), FourierOptions::new().axes(1))),
        row("dct", line!(), || dct(x([2]), FourierOptions::new().axes(1))),
        row("idct", line!(), || idct(x([2]), FourierOptions::new().axes(1))),
        row("dctn", line!(), || dctn(x([2]), FourierOptions::new().axes(1))),
        row("idctn", line!(), || idctn(x([2]), FourierOptions::new().axes(1))),
        row("dct", line!(), || dct(z([2]), FourierOptions::new())),
        row("idct", line!(), || idct(z([2]), FourierOptions::new())),
        row("dctn", line!(), || dctn(z([2]), FourierOptions::new())),
        row("idctn", line!(), || idctn(z([2]), FourierOptions::new())),
        row("hfft", line!(), || hfft(x([2]), FourierOptions::new().axes(1))),
        row("hfft", line!(), || hfft(x([2]), FourierOptions::new().lengths([0]))),
        row("hfft", line!(), || hfft(x([2, 0]), FourierOptions::new())),
        row("ihfft", line!(), || ihfft(x([2]), FourierOptions::new().axes(1))),
        row("ihfft", line!(), || ihfft(x([2]), FourierOptions::new().lengths([0]))),
        row("ihfft", line!(), || ihfft(x([2, 0]), FourierOptions::new())),
        row("irfft", line!(), || irfft(x([1]), FourierOptions::new())),
        row("hfft", line!(), || hfft(x([1]), FourierOptions::new())),
        row("rfft", line!(), || rfft(z([2]), FourierOptions::new())),
        row("ihfft", line!(), || ihfft(z([2]), FourierOptions::new())),
        row("fft2", line!(), || fft2(x([2]), FourierOptions::new())),
        row("fft2", line!(), || fft2(x([2, 2]), FourierOptions::new().axes([0, 0]))),
        row("ifft2", line!(), || ifft2(x([2]), FourierOptions::new())),
        row("ifft2", line!(), || ifft2(x([2, 2]), FourierOptions::new().axes([0, 0]))),
        row("rfft2", line!(), || rfft2(x([2]), FourierOptions::new())),
        row("rfft2", line!(), || rfft2(x([2, 2]), FourierOptions::new().axes([0, 0]))),
        row("irfft2", line!(), || irfft2(x([2]), FourierOptions::new())),
        row("irfft2", line!(), || irfft2(x([2, 2]), FourierOptions::new().axes([0, 0]))),
        row("fftn", line!(), || fftn(x([2, 2]), FourierOptions::new().axes([0]).lengths([2, 2]))),
        row("fftn", line!(), || fftn(x([]), FourierOptions::new())),
        row("ifftn", line!(), || ifftn(x([2, 2]), FourierOptions::new().axes([0]).lengths([2, 2]))),
        row("ifftn", line!(), || ifftn(x([]), FourierOptions::new())),
        row("rfftn", line!(), || rfftn(x([2, 2]), FourierOptions::new().axes([0]).lengths([2, 2]))),
        row("rfftn", line!(), || rfftn(x([]), FourierOptions::new())),
        row("irfftn", line!(), || irfftn(x([2, 2]), FourierOptions::new().axes([0]).lengths([2, 2]))),
        row("irfftn", line!(), || irfftn(x([]), FourierOptions::new())),
        row("rfft2", line!(), || rfft2(z([2, 2]), FourierOptions::new())),
        row("istft", line!(), || istft(z([3, 2]), StftOptions::new(4).hop(4).window(Variable::constant([0.0, 1.0, 1.0, 0.0])).center(false))),
        row("rfftn", line!(), || rfftn(z([2, 2]), FourierOptions::new())),
        row("fftfreq", line!(), || fftfreq(0, 1.0)),
        row("rfftfreq", line!(), || rfftfreq(0, 1.0)),
        row("fftshift", line!(), || fftshift(x([2]), 1)),
        row("ifftshift", line!(), || ifftshift(x([2]), 1)),
        row("fft_convolve", line!(), || fft_convolve(x([]), x([2]))),
        row("fft_convolve", line!(), || fft_convolve(x([2, 3]), x([3, 2]))),
        row("fft_convolve", line!(), || fft_convolve(x([0]), x([2]))),
        row("stft", line!(), || stft(x([8]), StftOptions::new(0))),
        row("stft", line!(), || stft(x([8]), StftOptions::new(4).hop(0))),
        row("stft", line!(), || stft(x([2]), StftOptions::new(8))),
        row("stft", line!(), || stft(x([]), StftOptions::new(1))),
        row("stft", line!(), || stft(x([8]), StftOptions::new(4).window(x([5])))),
        row("stft", line!(), || stft(z([8]), StftOptions::new(4).onesided(true))),
        row("istft", line!(), || istft(x([3, 2]), StftOptions::new(4))),
        row("istft", line!(), || istft(z([4, 2]), StftOptions::new(4))),
        row("istft", line!(), || istft(z([3, 2]), StftOptions::new(4).length(90))),
        row("istft", line!(), || istft(z([3, 2]), StftOptions::new(4).hop(0))),
        row("block_diag", line!(), || linalg::block_diag([x([2])])),
        row("block_diag", line!(), || linalg::block_diag([x([2, 2, 2]), x([3, 2, 2])])),
        row("block_diag", line!(), || linalg::block_diag(Vec::<Variable>::new())),
        row("cholesky", line!(), || linalg::cholesky(x([2, 3]))),
        row("cholesky", line!(), || linalg::cholesky(-x([2, 2]))),
        row("cholesky_ex", line!(), || linalg::cholesky_ex(x([2]))),
        row("cholesky_inverse", line!(), || linalg::cholesky_inverse(x([2, 3]))),
        row("cholesky_solve", line!(), || linalg::cholesky_solve(x([3]), x([2, 2]))),
        row("cholesky_solve", line!(), || linalg::cholesky_solve(x([3, 2, 1]), x([2, 2, 2]))),
        row("cond", line!(), || linalg::cond(x([3, 2]), linalg::MatrixNorm::Fro)),
        row("cond", line!(), || linalg::cond(x([2]), linalg::MatrixNorm::Two)),
        row("corrcoef", line!(), || linalg::corrcoef(x([2]))),
        row("cov", line!(), || linalg::cov(x([2]), 1)),
        row("cross", line!(), || linalg::cross(x([2]), x([2]), 0)),
        row("cross", line!(), || linalg::cross(x([3]), x([2]), 0)),
        row("cross", line!(), || linalg::cross(x([3]), x([3]), 1)),
        row("det", line!(), || linalg::det(x([2, 3]))),
        row("eigh", line!(), || linalg::eigh(x([2, 3]))),
        row("eigh", line!(), || linalg::eigh(x([2, 2]) * f64::NAN)),
        row("eigvalsh", line!(), || linalg::eigvalsh(x([2, 3]))),
        row("eigvalsh", line!(), || linalg::eigvalsh(x([2, 2]) * f64::INFINITY)),
        row("expm", line!(), || linalg::expm(x([2, 3]))),
        row("fractional_matrix_power", line!(), || linalg::fractional_matrix_power(x([2, 3]), 0.5)),
        row("fractional_matrix_power", line!(), || linalg::fractional_matrix_power(x([2, 2]), f64::NAN)),
        row("fractional_matrix_power", line!(), || linalg::fractional_matrix_power(-x([2, 2]), 0.3)),
        row("inv", line!(), || linalg::inv(x([2, 3]))),
        row("inv", line!(), || linalg::inv(x([2, 2]))),
        row("inv_ex", line!(), || linalg::inv_ex(x([2, 3]))),
        row("kron", line!(), || linalg::kron(x([2]), x([2, 2]))),
        row("kron", line!(), || linalg::kron(x([2, 1, 1]), x([3, 2, 2]))),
        row("logdet", line!(), || linalg::logdet(x([2, 3]))),
        row("logm", line!(), || linalg::logm(x([2, 3]))),
        row("logm", line!(), || linalg::logm(-x([2, 2]))),
        row("lstsq", line!(), || linalg::lstsq(x([2, 3]), x([3]))),
        row("lstsq", line!(), || linalg::lstsq(x([2, 3]) * f64::NAN, x([2]))),
        row("lu", line!(), || linalg::lu(x([2]))),
        row("lu_factor", line!(), || linalg::lu_factor(x([2]))),
        row("matrix_norm", line!(), || linalg::matrix_norm(x([2, 3]), linalg::MatrixNorm::Fro, 0)),
        row("matrix_norm", line!(), || linalg::matrix_norm(x([2, 3]), linalg::MatrixNorm::Fro, [0, 2])),
        row("matrix_norm", line!(), || linalg::matrix_norm(x([2, 0]), linalg::MatrixNorm::One, [0, 1])),
        row("matrix_norm", line!(), || linalg::matrix_norm(x([2, 2]) * f64::NAN, linalg::MatrixNorm::Nuc, [0, 1])),
        row("matrix_power", line!(), || linalg::matrix_power(x([2, 3]), 2)),
        row("matrix_power", line!(), || linalg::matrix_power(i([1]).reshape([1, 1]), -1)),
        row("matrix_power", line!(), || linalg::matrix_power(x([2, 2]), -1)),
        row("matrix_rank", line!(), || linalg::matrix_rank(x([2]))),
        row("matrix_rank", line!(), || linalg::matrix_rank(x([2, 2]) * f64::NAN)),
        row("multi_dot", line!(), || linalg::multi_dot([x([2, 3])])),
        row("multi_dot", line!(), || linalg::multi_dot([x([2, 3]), x([2, 3])])),
        row("multi_dot", line!(), || linalg::multi_dot([x([2, 3]), x([3]), x([3])])),
        row("norm", line!(), || linalg::norm(x([2]), linalg::VectorNorm::Inf, 1)),
        row("pinv", line!(), || linalg::pinv(x([2]))),
        row("pinv", line!(), || linalg::pinv(x([2, 2]) * f64::NAN)),
        row("pinv_with", line!(), || linalg::pinv_with(x([2, 2]), -1.0)),
        row("pinv_with", line!(), || linalg::pinv_with(x([2]), 0.1)),
        row("qr", line!(), || linalg::qr(x([2]))),
        row("qr_full", line!(), || linalg::qr_full(x([2]))),
        row("slogdet", line!(), || linalg::slogdet(x([2, 3]))),
        row("solve", line!(), || linalg::solve(x([2, 3]), x([2]))),
        row("solve", line!(), || linalg::solve(x([2, 2]), x([3]))),
        row("solve", line!(), || linalg::solve(x([2, 2, 2]), x([3, 2, 1]))),
        row("solve", line!(), || linalg::solve(x([2, 2]), x([2]))),
        row("solve_ex", line!(), || linalg::solve_ex(x([2, 3]), x([2]))),
        row("sqrtm", line!(), || linalg::sqrtm(x([2, 3]))),
        row("sqrtm", line!(), || linalg::sqrtm(-x([2, 2]))),
        row("svd", line!(), || linalg::svd(x([2]))),
        row("svd", line!(), || linalg::svd(x([2, 2]) * f64::NAN)),
        row("svd_full", line!(), || linalg::svd_full(x([2]))),
        row("svdvals", line!(), || linalg::svdvals(x([2]))),
        row("svdvals", line!(), || linalg::svdvals(x([2, 2]) * f64::NAN)),
        row("vander", line!(), || linalg::vander(Variable::new(1.0), 2, false)),
        row("vector_norm", line!(), || linalg::vector_norm(x([2]), linalg::VectorNorm::P(0.0), 0)),
        row("vector_norm", line!(), || linalg::vector_norm(x([2]), linalg::VectorNorm::P(1.5), 1)),
        row("vector_norm", line!(), || linalg::vector_norm(x([0]), linalg::VectorNorm::Inf, 0)),
        row("triangular_solve", line!(), || triangular_solve(x([2, 2]), x([3, 1]), Triangle::Lower)),
        row("triangular_solve", line!(), || triangular_solve(x([2]), x([2, 1]), Triangle::Lower)),
        row("triangular_solve", line!(), || triangular_solve(x([2, 2]), x([3]), Triangle::Lower)),
        row("triangular_solve", line!(), || triangular_solve(x([3, 2, 2]), x([2, 2, 1]), Triangle::Upper)),
        row("triplet_margin_loss", line!(), || triplet_margin_loss(x([2, 3]), x([2, 3]), x([3]))),
        row("triplet_margin_loss_with", line!(), || triplet_margin_loss_with(x([2]), x([2]), x([2]), TripletMarginOptions::new().p(-1.0))),
        row("unstack", line!(), || unstack(x([2]), 1)),
        row("sigmoid_cross_entropy", line!(), || sigmoid_cross_entropy(x([2]), x([3]))),
        row("sigmoid_cross_entropy_with", line!(), || sigmoid_cross_entropy_with(x([2]), i([1]), Reduction::default())),
        row("sigmoid_cross_entropy_with", line!(), || sigmoid_cross_entropy_with(x([2]), x([2]), BinaryCrossEntropyOptions::new().pos_weight(x([3])))),
        row("slice", line!(), || slice(x([2]), s![2])),
        row("slice", line!(), || slice(x([2]), s![-3])),
        row("slice", line!(), || slice(x([2]), s![0, 0])),
        row("slice", line!(), || slice(x([2]), &[Index::Ellipsis, Index::Ellipsis])),
        row("softmax", line!(), || softmax(x([2]), 1)),
        row("softmax", line!(), || softmax(z([2]), 0)),
        row("softmax_cross_entropy", line!(), || softmax_cross_entropy(x([1, 2]), i([2]))),
        row("softmax_cross_entropy", line!(), || softmax_cross_entropy(x([2]), i([]).reshape([0]))),
        row("softmax_cross_entropy", line!(), || softmax_cross_entropy(x([2]), Variable::constant(-3i64))),
        row("softmax_cross_entropy", line!(), || softmax_cross_entropy(x([1, 2]), x([1]))),
        row("softmax_cross_entropy", line!(), || softmax_cross_entropy(x([]), i([1]))),
        row("softmax_cross_entropy_with", line!(), || softmax_cross_entropy_with(x([1, 2]), i([5]), CrossEntropyOptions::new())),
        row("softmax_cross_entropy_with", line!(), || softmax_cross_entropy_with(x([1, 2]), i([0]), CrossEntropyOptions { class_weight: Some(x([3])), ..Default::default() })),
        row("softmax_cross_entropy_with", line!(), || softmax_cross_entropy_with(x([1, 2]), x([1, 2]), CrossEntropyOptions { class_weight: Some(x([3])), ..Default::default() })),
        row("softmax_cross_entropy_with", line!(), || softmax_cross_entropy_with(x([1, 2]), i([0]), CrossEntropyOptions::new().label_smoothing(1.5))),
        row("sort", line!(), || sort(x([2]), 1)),
        row("split", line!(), || split(x([4]), 3, 0)),
        row("split", line!(), || split(x([4]), 0, 0)),
        row("split", line!(), || split(x([4]), 2, 1)),
        row("split_at", line!(), || split_at(x([4]), &[2, 1], 0)),
        row("split_at", line!(), || split_at(x([4]), &[1], 1)),
        row("split_sizes", line!(), || split_sizes(x([4]), &[1, 2], 0)),
        row("split_sizes", line!(), || split_sizes(x([4]), &[4], 1)),
        row("squared_error", line!(), || squared_error(x([2]), x([3]))),
        row("squeeze", line!(), || squeeze(x([2]), 0)),
        row("squeeze", line!(), || squeeze(x([2]), 1)),
        row("stack", line!(), || stack([] as [&Variable; 0], 0)),
        row("stack", line!(), || stack([&x([2]), &x([3])], 0)),
        row("stack", line!(), || stack([&x([2])], 2)),
        row("std", line!(), || std(x([2]), 1, 0)),
        row("subtract", line!(), || subtract(x([2]), x([3]))),
        row("sum", line!(), || sum(x([2]), 1)),
        row("sum", line!(), || sum(x([2]), [0, -1])),
        row("swapaxes", line!(), || swapaxes(x([2]), 0, 1)),
        row("swish", line!(), || swish(x([2]), x([3]))),
        row("take", line!(), || take(x([2]), i([2]), 0)),
        row("take", line!(), || take(x([2]), i([-3]), 0)),
        row("take", line!(), || take(x([2]), x([1]), 0)),
        row("take", line!(), || take(x([2]), i([0]), 1)),
        row("tensordot", line!(), || tensordot(x([2, 3]), x([2, 3]), &[0], &[1])),
        row("tensordot", line!(), || tensordot(x([2, 3]), x([2, 3]), &[0], &[0, 1])),
        row("tensordot", line!(), || tensordot(x([2, 3]), x([2, 3]), &[2], &[0])),
        row("tensordot", line!(), || tensordot(x([2, 3]), x([2, 3]), &[0, 0], &[0, 0])),
        row("tensordot", line!(), || tensordot(b([true]), b([true]), &[0], &[0])),
        row("top_k", line!(), || top_k(x([2]), 3, 0)),
        row("top_k", line!(), || top_k(x([2]), 1, 1)),
        row("trace", line!(), || trace(x([2]))),
        row("trapezoid", line!(), || trapezoid(x([2]), 1.0, 1)),
        row("trapezoid", line!(), || trapezoid(x([2]), x([3]), 0)),
        row("tril", line!(), || tril(x([2]), 0)),
        row("tril_indices", line!(), || tril_indices(usize::MAX, 2, 0)),
        row("triu", line!(), || triu(x([2]), 0)),
        row("triu_indices", line!(), || triu_indices(usize::MAX, 2, 0)),
        row("unfold", line!(), || unfold(x([2]), [1, 1], patches())),
        row("unfold", line!(), || unfold(x([1, 1, 2, 2]), [3, 1], patches())),
        row("unfold", line!(), || unfold(x([1, 1, 2, 2]), [0, 1], patches())),
        row("unfold", line!(), || unfold(x([1, 1, 2, 2]), [1, 1], UnfoldOptions { stride: [0, 1], ..patches() })),
        row("upsample", line!(), || upsample(x([2]), [1, 1], LINEAR)),
        row("upsample", line!(), || upsample(x([2]), [0], LINEAR)),
        row("var", line!(), || var(x([2]), 1, 0)),
        row("var", line!(), || var(z([2]), 0, 0)),
        row("vecdot", line!(), || vecdot(x([2]), x([3]), 0)),
        row("vecdot", line!(), || vecdot(x([2]), x([2]), 1)),
        row("vstack", line!(), || vstack([] as [&Variable; 0])),
        row("vstack", line!(), || vstack([&x([2]), &x([3])])),
        row("where_", line!(), || where_(b([true]), x([2]), x([3]))),
        row("where_", line!(), || where_(b([true, true]), x([3]), 0.0)),
        row("xlog1py", line!(), || xlog1py(x([2]), x([3]))),
        row("xlogy", line!(), || xlogy(x([2]), x([3]))),
        row("zeta", line!(), || zeta(x([2]), x([3]))),
        // Between processes.
        row("all_gather", line!(), || all_gather(x([]), &alone())),
        row("all_reduce", line!(), || all_reduce(b([true]), &alone())),
        row("all_to_all", line!(), || all_to_all(x([]), &alone())),
        row("broadcast", line!(), || broadcast(x([2]), 1, &alone())),
        row("receive", line!(), || receive(x([2]), x([2]).spec(), 0, &alone())),
        row("receive", line!(), || receive(x([2]), x([2]).spec(), 1, &alone())),
        row("reduce", line!(), || reduce(x([2]), 1, &alone())),
        row("reduce", line!(), || reduce(b([true]), 0, &alone())),
        row("reduce_scatter", line!(), || reduce_scatter(x([]), &alone())),
        row("reduce_scatter", line!(), || reduce_scatter(b([true]), &alone())),
        row("send", line!(), || send(x([2]), 0, &alone())),
        row("send", line!(), || send(x([2]), 1, &alone())),
        // The same as methods, in which the place goes on.
        row("take", line!(), || x([2]).take(i([2]), 0)),
        row("pow", line!(), || i([2]).pow(-1)),
        row("std", line!(), || x([2]).std(1, 0)),
        row("where_", line!(), || b([true, true]).where_(x([3]), 0.0)),
        row("top_k", line!(), || x([2]).top_k(3, 0)),
        row("max_pool", line!(), || x([2]).max_pool([3])),
    ]
}

/// Functions that take whatever they are given, and why.
const TAKE_ANYTHING: [(&str, &[&str]); 7] = [
    ("a formula of a formula", &["derivative"]),
    ("a copy of whatever it is", &["to"]),
    (
        "elements of any dtype and number",
        &["is_in", "nonzero", "unique"],
    ),
    (
        "a formula of each element alone, for every dtype",
        &[
            "abs",
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "cbrt",
            "ceil",
            "chebyshev_polynomial_t",
            "chebyshev_polynomial_u",
            "chebyshev_polynomial_v",
            "chebyshev_polynomial_w",
            "cos",
            "cosh",
            "degrees",
            "digamma",
            "entr",
            "erf",
            "erfc",
            "erfcx",
            "erfinv",
            "exp",
            "exp1",
            "exp2",
            "expi",
            "expm1",
            "expn",
            "floor",
            "frac",
            "frexp",
            "gelu",
            "gelu_tanh",
            "hardsigmoid",
            "hardswish",
            "hardtanh",
            "hermite_polynomial_h",
            "hermite_polynomial_he",
            "i0",
            "i0e",
            "i1",
            "i1e",
            "is_finite",
            "is_inf",
            "is_nan",
            "j0",
            "j1",
            "k0",
            "k0e",
            "k1",
            "k1e",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
            "lgamma",
            "log",
            "log10",
            "log1mexp",
            "log1p",
            "log2",
            "log_ndtr",
            "log_sigmoid",
            "logical_not",
            "logit",
            "mish",
            "nan_to_num",
            "nan_to_num_with",
            "ndtr",
            "ndtri",
            "negative",
            "polygamma",
            "radians",
            "reciprocal",
            "relu",
            "relu6",
            "round",
            "rsqrt",
            "selu",
            "sigmoid",
            "sign",
            "signbit",
            "silu",
            "sin",
            "sinc",
            "sinh",
            "softsign",
            "sqrt",
            "square",
            "tan",
            "tanh",
            "tanhshrink",
            "trunc",
            "y0",
            "y1",
        ],
    ),
    (
        "any shape and dtype",
        &[
            "angle",
            "cast",
            "conj",
            "flatten",
            "identity",
            "imag",
            "ravel",
            "real",
            "transpose",
            "watch",
        ],
    ),
    ("any number of repetitions, of axes too", &["tile"]),
    (
        "made from a shape",
        &[
            "causal_mask",
            "full_like",
            "ones_like",
            "sinusoidal_positions",
            "zeros_like",
        ],
    ),
];

/// What a call raised, against where it stands.
fn verdict(row: &Row, how: &str, call: impl FnOnce()) -> Option<String> {
    let what = format!("{}, line {} ({how})", row.function, row.line);
    let error = match attempt(call) {
        Ok(()) => return Some(format!("{what}: nothing was refused")),
        Err(error) => error,
    };
    let place = error.location();
    let here = place.file() == file!() && place.line() == row.line;
    let message = error.to_string();
    let told = message.contains(&format!("{}:{}:", file!(), row.line));
    (!here || !told).then(|| format!("{what}: {message}"))
}

#[test]
fn every_refusal_names_the_line_of_the_call() {
    let mut wrong = Vec::new();
    for row in rows() {
        wrong.extend(verdict(&row, "by itself", || (row.call)()));
        // Where somebody looks on.
        wrong.extend(verdict(&row, "with a hook", || {
            with_hook(|_| {}, || (row.call)())
        }));
        // Where nothing is recorded.
        wrong.extend(verdict(&row, "no_grad", || no_grad(|| (row.call)())));
    }
    // Somewhere in a model, behind a `dyn Link`.
    for row in rows() {
        let (function, line, call) = (row.function, row.line, row.call);
        let inside = Sequential::new().then_function(move |x| {
            call();
            x.clone()
        });
        let row = self::row(function, line, || ());
        wrong.extend(verdict(&row, "in a link", || drop(inside.forward(&x([1])))));
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn errors_name_the_function_that_was_called() {
    for row in rows() {
        let error = attempt(|| (row.call)()).expect_err("an error").to_string();
        let name = row
            .function
            .trim_end_matches("_with")
            .trim_end_matches("_with_statistics");
        let named =
            error.starts_with(&format!("{name}:")) || error.contains(&format!("(in {name})"));
        let of_family = ["conv", "max_pool", "random_"]
            .iter()
            .any(|family| name.starts_with(family));
        assert!(
            named || of_family,
            "{} (line {}): {error}",
            row.function,
            row.line
        );
    }
}

#[test]
fn every_function_has_a_row_or_a_reason() {
    let known: BTreeSet<String> = public_functions().into_values().flatten().collect();
    assert!(
        known.len() > 200,
        "only {} functions were found",
        known.len()
    );
    for name in [
        "add",
        "relu",
        "less",
        "conv3d",
        "where_",
        "floor",
        "logaddexp",
        "einsum",
    ] {
        assert!(known.contains(name), "{name} was not found");
    }
    let mut told: BTreeSet<String> = rows().iter().map(|row| row.function.to_owned()).collect();
    for (_, names) in TAKE_ANYTHING {
        for name in names {
            assert!(
                told.insert((*name).to_owned()),
                "{name} has rows and a reason to have none"
            );
        }
    }
    let missing: Vec<&String> = known.difference(&told).collect();
    assert!(missing.is_empty(), "no row and no reason: {missing:?}");
    let gone: Vec<&String> = told.difference(&known).collect();
    assert!(gone.is_empty(), "no such function: {gone:?}");
}

/// The line of the error's place, which must be in this file.
#[track_caller]
fn line_of(error: &Error) -> u32 {
    let place = error.location();
    assert_eq!(place.file(), file!(), "{error}");
    place.line()
}

#[test]
fn rules_of_transformations_name_the_call() {
    let (scores, t) = (x([2, 3]), i([0, 7]));
    // The class is out of range in one batch element only, where all batch elements run as one.
    let batch = |v: &Vec<Variable>| vec![softmax_cross_entropy(&v[0], &v[1])];
    let line = line!() - 1;
    let error = attempt(|| vmap(batch, &vec![scores.clone(), t.clone()])).expect_err("an error");
    assert_eq!(line_of(&error), line, "{error}");
    let run = |x: &Variable| softmax_cross_entropy(x, i([0, 7]));
    let line = line!() - 1;
    for error in [
        attempt(|| jvp(run, &scores, &scores)).expect_err("an error"),
        attempt(|| grad(run, &scores)).expect_err("an error"),
        attempt(|| linearize(run, &scores)).expect_err("an error"),
        attempt(|| checkpoint(run, &scores)).expect_err("an error"),
        attempt(|| cond(&Variable::constant(true), run, run, &scores)).expect_err("an error"),
        attempt(|| fori_loop(0..1, move |_, x| run(x), &scores)).expect_err("an error"),
        attempt(|| while_loop(move |x| run(x), Variable::clone, &scores)).expect_err("an error"),
        attempt(|| {
            scan(
                move |h: &Variable, x| (h.clone(), run(x)),
                &scores,
                &x([4, 2, 3]),
            )
        })
        .expect_err("an error"),
        attempt(|| vmap(run, &x([4, 2, 3]))).expect_err("an error"),
    ] {
        assert_eq!(line_of(&error), line, "{error}");
    }
    // A function that is handed over by its name is called by nobody but the one it was handed to.
    let error = attempt(|| grad(Variable::tanh, &scores)).expect_err("no number");
    assert_eq!(line_of(&error), line!() - 1);
    let error = attempt(|| vmap(Variable::trace, &scores)).expect_err("no matrix");
    assert_eq!(line_of(&error), line!() - 1);
}

#[test]
fn mistakes_inside_of_a_users_function_name_its_line() {
    let f = custom("mine", |[x]: [&Variable; 1]| take(x, i([9]), 0));
    let line = line!() - 1;
    let error = attempt(|| f.call([&x([3])])).expect_err("an error");
    assert_eq!(line_of(&error), line, "{error}");
}

#[test]
fn a_gradient_under_no_grad_is_told_so() {
    let w = x([2]);
    let loss = no_grad(|| (&w * 2.0).sum(..));
    let recorded = line!() - 1;
    let error = attempt(|| loss.backward()).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1);
    let message = error.to_string();
    assert!(message.contains("was computed under no_grad"), "{message}");
    assert!(
        message.contains(&format!("{}:{recorded}:", file!())),
        "{message}"
    );
    // What is computed from it knows as well.
    let error = attempt(|| (loss * 2.0).backward()).expect_err("an error");
    assert!(error.to_string().contains("under no_grad"), "{error}");
    // A constant is none, and in a model it is a buffer.
    let error = attempt(|| Variable::constant(1.0).backward()).expect_err("an error");
    assert!(error.to_string().contains("no leaf took part"), "{error}");
    #[derive(Chain)]
    struct Scale {
        factor: Variable,
        mean: Variable,
    }
    let mean = no_grad(|| w.mean(..));
    let scale = Scale { factor: w, mean };
    assert_eq!(
        (scale.parameters().len(), scale.buffers()[0].0.as_str()),
        (1, "mean")
    );
    assert!(!scale.factor.is_same(&scale.mean));
}

#[test]
fn per_example_names_the_call() {
    let w = x([3]);
    let losses = (&w * 0.5).sum(..) * 0.5;
    let error = attempt(|| per_example(&losses, &w)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
    let error = attempt(|| per_example(&i([1]), &w)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
    let error = attempt(|| per_example(&x([2]).detach(), &w)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
}

// ----- links

#[derive(Chain)]
struct Block {
    linear: Linear,
    activation: bibun::links::FunctionLink,
}

impl Link for Block {
    fn compute(&self, x: &Variable) -> Variable {
        self.activation.forward(&self.linear.forward(x))
    }
}

/// The line in [`Block`] on which its links are called.
const IN_BLOCK: u32 = line!() - 5;

#[derive(Chain)]
struct Model {
    encoder: Sequential,
    head: Box<dyn Link>,
}

impl Link for Model {
    fn compute(&self, x: &Variable) -> Variable {
        self.head.forward(&self.encoder.forward(x))
    }
}

const IN_MODEL: u32 = line!() - 4;

fn model(sizes: [[usize; 2]; 3]) -> Model {
    let g = &mut g();
    let block = |[inputs, outputs]: [usize; 2], g: &mut Generator| Block {
        linear: Linear::builder(inputs, outputs).dtype(DType::F64).build(g),
        activation: bibun::links::FunctionLink::new(Variable::tanh),
    };
    Model {
        encoder: Sequential::new()
            .then(block(sizes[0], g))
            .then(block(sizes[1], g)),
        head: Box::new(block(sizes[2], g)),
    }
}

/// The path of the link that went wrong, and what went wrong there.
fn in_link(error: Error) -> (String, Error) {
    match error {
        Error::InLink { path, source } => (path.to_string(), *source),
        error => panic!("no link: {error}"),
    }
}

#[test]
fn errors_in_models_name_the_layer_and_the_users_line() {
    // The second layer of the encoder.
    let error =
        attempt(|| model([[2, 3], [4, 4], [4, 1]]).forward(&x([1, 2]))).expect_err("an error");
    assert!(
        error
            .to_string()
            .starts_with("in encoder/1/linear: linear: inputs do not fit"),
        "{error}"
    );
    assert_eq!(line_of(&error), IN_BLOCK);
    let (path, source) = in_link(error);
    assert_eq!(path, "encoder/1/linear");
    assert!(matches!(
        source,
        Error::Mismatch {
            function: "linear",
            ..
        }
    ));
    // The boxed one.
    let error =
        attempt(|| model([[2, 3], [3, 4], [5, 1]]).forward(&x([1, 2]))).expect_err("an error");
    assert_eq!(line_of(&error), IN_BLOCK);
    assert_eq!(in_link(error).0, "head/linear");
    // As a `&dyn Link`, as a Box, and as a part of another model.
    let boxed: Vec<Box<dyn Link>> = vec![Box::new(model([[2, 3], [4, 4], [4, 1]]))];
    let error = attempt(|| boxed[0].forward(&x([1, 2]))).expect_err("an error");
    assert_eq!(in_link(error).0, "encoder/1/linear");
    let outer = Sequential::from_iter(boxed);
    let error = attempt(|| outer.forward(&x([1, 2]))).expect_err("an error");
    assert_eq!(in_link(error).0, "0/encoder/1/linear");
    assert_ne!(IN_MODEL, IN_BLOCK);
}

#[test]
fn a_link_of_the_library_has_the_line_of_its_call() {
    let g = &mut g();
    let links: Vec<Box<dyn Link>> = vec![
        Box::new(Linear::new(3, 2, g)),
        Box::new(Embedding::new(3, 2, g)),
        Box::new(BatchNorm::new(3)),
        Box::new(Mlp::new(&[3, 2], g)),
        Box::new(Sequential::new().then(Sequential::new().then(Linear::new(3, 2, g)))),
        Box::new(Sequential::new().then_function(Variable::trace)),
    ];
    let wrong = Variable::constant([7f32, 8.0]);
    for link in &links {
        let error = attempt(|| link.forward(&wrong)).expect_err("an error");
        assert_eq!(line_of(&error), line!() - 1, "{error}");
        let link: &dyn Link = &**link;
        let error = attempt(|| link.forward(&wrong)).expect_err("an error");
        assert_eq!(line_of(&error), line!() - 1, "{error}");
    }
    // A link by itself is no part of any, and its error no other than that of the function.
    let error = attempt(|| links[0].forward(&wrong)).expect_err("an error");
    assert!(
        matches!(
            error,
            Error::Mismatch {
                function: "linear",
                ..
            }
        ),
        "{error}"
    );
    // Parts without Variables are known by their place.
    let parts = Sequential::new()
        .then(Dropout::new(0.5, g))
        .then_function(Variable::trace);
    let error = attempt(|| Sequential::new().then(parts).forward(&wrong)).expect_err("an error");
    assert_eq!(in_link(error).0, "0/1");
    // Links with several inputs.
    let attention = MultiHeadAttention::new(4, 2, g);
    let error = attempt(|| attention.attend(&wrong, &wrong, &wrong, None)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
    // After a mistake everything is as before.
    let error = attempt(|| take(x([2]), i([2]), 0)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
    assert!(matches!(error, Error::Array(_)), "{error}");
}

#[test]
fn a_panic_that_is_no_error_goes_through_links() {
    let model = Sequential::new().then_function(|_| std::panic::resume_unwind(Box::new(5)));
    let forward = std::panic::AssertUnwindSafe(|| model.forward(&x([1])));
    let payload = std::panic::catch_unwind(forward).expect_err("a panic");
    assert_eq!(payload.downcast_ref::<i32>(), Some(&5));
}

#[test]
fn data_and_arrays_name_the_users_line() {
    let arrays = || [3, 2].map(|size| Array::zeros([size], DType::F32));
    let sides = || drop(DataLoader::new(<(Array, Array)>::from(arrays()), 1));
    let error = attempt(sides).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 2, "{error}");
    let scalar = || drop(DataLoader::new(Array::scalar(1.0), 1));
    let error = attempt(scalar).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 2, "{error}");
    let a = Array::zeros([2, 2, 3], DType::F32);
    let b = Array::zeros([4, 3, 2], DType::F32);
    let error = attempt(|| bibun::array::matmul(&a, &b)).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
}

#[test]
fn gradients_and_training_name_the_users_line() {
    let linear = Linear::builder(2, 2).dtype(DType::F64).build(&mut g());
    let mut optimizer = Sgd::new(0.1);
    let step = || optimizer.minimize(&linear, &mut || linear.forward(&x([3])).sum(..));
    let line = line!() - 1;
    let error = attempt(step).expect_err("an error");
    assert_eq!(line_of(&error), line, "{error}");
    let error = attempt(|| gradients(&[&x([2])], &[&x([2])])).expect_err("an error");
    assert_eq!(line_of(&error), line!() - 1, "{error}");
}
