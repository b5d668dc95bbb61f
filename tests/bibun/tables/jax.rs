//! What bibun has for the names of JAX, Flax and Optax.

use bibun::array::{Array, DType, concat};
use bibun::functions::{self as f, ConvOptions, Padding, Reduction};
use bibun::links::*;
use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::schedule::*;
use bibun::optimizers::*;
use bibun::{
    Variable, VmapOptions, checkpoint, custom, grad, hessian, hvp, jacobian, jacobian_forward,
    jacobian_reverse, jvp, linearize, per_example, ravel_tree, s, stop_gradient, tree_map,
    tree_zip, value_and_grad, vjp, vmap, vmap_with,
};

use super::*;

pub(crate) const WITHOUT_NUMBERS: Without = &[
    (
        "a way to write, without numbers of its own",
        &[
            "jax.custom_batching.custom_vmap",
            "jax.jit",
            "jax.jit(donate_argnums=..)",
            "optimizer.update",
            "optax.apply_updates",
            "lax.cond",
            "lax.scan",
            "lax.fori_loop",
            "lax.while_loop",
            "`jnp.where` under `vmap`",
            "jax_debug_nans",
            "jax.test_util.check_grads",
            "jax.make_jaxpr",
            "pytrees",
            "register_pytree_node",
            "nnx.Module",
            "optax.multi_transform",
            "optax.masked",
        ],
    ),
    (
        "what is frozen has tests of its own",
        &["eqx.partition", "eqx.filter_grad"],
    ),
    (
        "random, each library with its own numbers",
        &[
            "jax.random.key(0)",
            "jax.random.split",
            "fold_in",
            "jax.random.normal(key, shape)",
            "jax.random.permutation",
            "choice",
            "bernoulli",
        ],
    ),
];

pub(crate) fn cases() -> Cases {
    let mut cases = Cases::default();
    transformations(&mut cases);
    functions(&mut cases);
    parts::of_jax(&mut cases);
    activations(&mut cases);
    links(&mut cases);
    optimizers(&mut cases);
    cases
}

fn transformations(cases: &mut Cases) {
    let (x, y) = (wave([2, 3], 0), wave([2, 3], 1));
    let f = |x: &Variable| (x.sin() * x).sum(..);
    let g = |x: &Variable| f::stack([&x.sin().sum(..), &(x * x).sum(..)], 0);
    let exp = |x: &Variable| x.exp();
    cases.row("jax.grad(f)(x)", [grad(f, &x)]);
    let (value, gradient) = value_and_grad(f, &x);
    cases.row("jax.value_and_grad(f)(x)", [value, gradient]);
    let ((value, largest), gradient) = value_and_grad(|x: &Variable| (f(x), x.max(..)), &x);
    cases.row("has_aux=True", [value, largest, gradient]);
    let (value, pull) = vjp(exp, &x);
    cases.row("jax.vjp(f, x)", [value, pull.call(&y)]);
    let (value, tangent) = jvp(exp, &x, &y);
    cases.row("jax.jvp(f, (x,), (v,))", [value, tangent]);
    let (value, push) = linearize(exp, &x);
    cases.row("jax.linearize(f, x)", [value, push.call(&y)]);
    cases.row("jax.jacobian", [jacobian(g, &x)]);
    cases.row("jacrev", [jacobian_reverse(g, &x)]);
    cases.row("jacfwd", [jacobian_forward(g, &x)]);
    let cubes = |x: &Variable| (x * x * x).sum(..) * x.slice(s![0]);
    cases.row("jax.hessian", [hessian(cubes, &wave(3, 0))]);
    cases.row("`jvp` of `grad`", [hvp(cubes, &wave(3, 0), &wave(3, 1)).1]);
    cases.row("jax.vmap(f)(x)", [vmap(f, &x)]);
    let both = (x.clone(), y.clone());
    let mixed = |(a, b): &(Variable, Variable)| a * b.sum(..);
    cases.row(
        "in_axes",
        [vmap_with(
            mixed,
            &both,
            VmapOptions::new().in_axes((1, None)),
        )],
    );
    let options = VmapOptions::new().out_axes(1);
    cases.row(
        "out_axes",
        [vmap_with(|a: &Variable| a * 2.0, &x, &options)],
    );
    let options = VmapOptions {
        chunk_size: Some(2),
        ..VmapOptions::new()
    };
    cases.row(
        "lax.map(batch_size=..)",
        [vmap_with(f, &wave([5, 3], 0), &options)],
    );
    let kept = |x: &Variable| checkpoint(|x: &Variable| x.sin().exp(), x).sum(..);
    cases.row("jax.checkpoint", [grad(kept, &x)]);
    let stopped = |x: &Variable| (x * stop_gradient(x)).sum(..);
    cases.row("lax.stop_gradient", [grad(stopped, &x)]);
    let doubled = custom("doubled", |[x]| x.sin()).vjp(|[x], _, gy| [2.0 * gy * x.cos()]);
    cases.row("jax.custom_vjp", [grad(|x| doubled.call([x]).sum(..), &x)]);
    let tripled = custom("tripled", |[x]| x.sin()).jvp(|[x], _, [dx]| 3.0 * x.cos() * dx);
    cases.row(
        "jax.custom_jvp",
        [jvp(|x: &Variable| tripled.call([x]), &x, &y).1],
    );
    cases.row(
        "`vmap(grad(f))` for each example",
        [vmap(|x: &Variable| grad(f, x), &x)],
    );
    let tree = (x, (y, wave(2, 0)));
    cases.row("jax.tree.map(f, x)", leaves(&tree_map(|x| x * 2.0, &tree)));
    cases.row(
        "jax.tree.map(f, x, y)",
        leaves(&tree_zip(|x, y| x * y, &tree, &tree)),
    );
    cases.row("ravel_pytree", [ravel_tree(&tree).0]);
}

fn functions(cases: &mut Cases) {
    let (x, y, images) = (wave([2, 3], 0), wave([2, 3], 1), wave([2, 4, 5, 6], 0));
    let dots = [
        f::dot(&x, y.transpose()),
        f::dot(x.slice(s![0]), y.slice(s![0])),
    ];
    cases.row("jnp.dot", dots);
    cases.row("jnp.matmul", [f::matmul(&images, wave([4, 6, 2], 0))]);
    cases.row("jnp.einsum", [f::einsum("ij,kj->ik", [&x, &y])]);
    cases.row("jnp.concatenate", [f::concat([&x, &y], 1)]);
    cases.row("jnp.stack", [f::stack([&x, &y], 1)]);
    cases.row("jnp.split", wave([6, 2], 0).split(3, 0));
    cases.row("jnp.where", [x.greater(0).where_(&x, &y)]);
    cases.row(
        "jnp.take",
        [f::take(&x, Variable::constant([2i64, 0, 2]), 1)],
    );
    let positions = Variable::constant([[2i64, 0], [1, 1]]);
    cases.row("take_along_axis", [f::gather(&x, positions, 1)]);
    let rows = Variable::constant([1i64, 3, 1]);
    cases.row(
        "x.at[i].add(v)",
        [f::add_at(wave([4, 3], 0), rows, 0, wave([3, 3], 1))],
    );
    cases.row("x[1:, None]", [x.slice(s![1.., new])]);
    cases.row("jnp.clip", [x.clip(-0.5, 1.0)]);
    cases.row("jnp.maximum", [f::maximum(&x, &y)]);
    let pieces = x.greater(0).piecewise(&x, |x| x + 0.5, |x| x * 3.0);
    cases.row("jnp.piecewise", [pieces]);
    let (values, positions) = x.top_k(2, 1);
    cases.row("jax.lax.top_k", [values, positions]);

    let flat = ConvOptions {
        stride: [2, 1],
        padding: Padding::Sizes([1, 1]),
        dilation: [1, 2],
        ..Default::default()
    };
    let line = ConvOptions {
        stride: [2],
        padding: Padding::Sizes([1]),
        ..Default::default()
    };
    let convolved = [
        f::conv2d(&images, wave([6, 4, 3, 3], 1), None, flat),
        f::conv1d(wave([2, 4, 7], 0), wave([3, 4, 3], 1), None, line),
        f::conv3d(
            wave([1, 2, 3, 4, 5], 0),
            wave([3, 2, 2, 2, 2], 1),
            None,
            ConvOptions::new(),
        ),
    ];
    cases.row("lax.conv_general_dilated", convolved);
    let heads = |steps: usize, seed: usize| wave([2, steps, 2, 4], seed).swapaxes(1, 2);
    let attended =
        |mask: Option<&Variable>| f::attention(heads(3, 0), heads(5, 1), heads(5, 2), mask);
    let first = Variable::constant([true, false, false, false, false]);
    let mask = f::logical_or(wave([3, 5], 3).greater(0), first);
    let found = [
        attended(None),
        attended(Some(&wave([3, 5], 4))),
        attended(Some(&mask)),
    ];
    // JAX's softmax is in f32 there.
    cases.about(1e-5, "jax.nn.dot_product_attention", found);
}

fn activations(cases: &mut Cases) {
    let x = wave([2, 3], 0);
    let at_the_kink = Variable::constant([-1.0, 0.0, 1.0]);
    let slopes = grad(|x| x.relu().sum(..), &at_the_kink);
    cases.row("jax.nn.relu", [x.relu(), slopes]);
    cases.row("gelu", [x.gelu_tanh()]);
    cases.row("silu", [x.silu()]);
    cases.row("softplus", [x.softplus(1.0)]);
    cases.row("hard_sigmoid", [(&x * 2.0).hardsigmoid()]);
    cases.row("hard_swish", [(&x * 2.0).hardswish()]);
    cases.row("jax.nn.softmax", [x.softmax(1)]);
    cases.row("log_softmax", [x.log_softmax(1)]);
    cases.row("logsumexp", [x.logsumexp(1)]);
    let ids = Variable::constant([1i64, 0, 3]);
    cases.row("jax.nn.one_hot", [f::one_hot(ids, 4, DType::F64)]);
}

/// A kernel of Flax as a weight: outputs in front.
fn kernel(shape: [usize; 2], seed: usize) -> Array {
    array(shape, seed).transpose()
}

fn links(cases: &mut Cases) {
    let random = &mut random();
    let (x, images) = (f32(&wave([2, 3], 0)), f32(&wave([2, 4, 5, 6], 0)));
    let linear = with(
        Linear::new(3, 4, random),
        &[("weight", kernel([3, 4], 5)), ("bias", array(4, 6))],
    );
    cases.row("nnx.Linear", [linear.forward(&x)]);
    let conv = Conv2d::builder(4, 6, 3).stride(2).padding(1).build(random);
    let w = array([3, 3, 4, 6], 5).permute(&[3, 2, 0, 1]);
    let conv = with(conv, &[("weight", w), ("bias", array(6, 6))]);
    cases.row("nnx.Conv", [conv.forward(&images)]);
    let norm = waves(BatchNorm::new(3));
    let y = norm.forward(&x);
    cases.row("nnx.BatchNorm", [y, norm.running_mean.get()]);
    cases.row("nnx.LayerNorm", [waves(LayerNorm::new(3)).forward(&x)]);
    cases.row("nnx.RMSNorm", [waves(RmsNorm::new(3)).forward(&x)]);

    let gates = |parts: [Array; 4]| concat(&parts.each_ref(), 0);
    let lstm = [
        (
            "weight_ih",
            gates([5, 6, 7, 8].map(|seed| kernel([2, 4], seed))),
        ),
        (
            "weight_hh",
            gates([15, 16, 17, 18].map(|seed| kernel([4, 4], seed))),
        ),
        ("bias", gates([25, 26, 27, 28].map(|seed| array(4, seed)))),
    ];
    let input = x.slice(s![.., ..2]);
    let state = LstmState {
        h: f32(&wave([2, 4], 3)),
        c: f32(&wave([2, 4], 2)),
    };
    let cell = with(LstmCell::new(2, 4, random), &lstm);
    cases.row("nnx.LSTMCell", [cell.step(&input, &state).h]);
    let network = with(Lstm::new(2, 4, random), &lstm);
    cases.row("nnx.RNN", [network.forward(&f32(&wave([2, 3, 2], 0)))]);
    let gru = [
        ("weight_ih", kernel([2, 12], 5)),
        ("weight_hh", kernel([4, 12], 7)),
        ("bias", array(12, 6)),
        ("bias_hn", Array::zeros(4, DType::F64)),
    ];
    let cell = with(GruCell::new(2, 4, random), &gru);
    cases.row("nnx.GRUCell", [cell.step(&input, &f32(&wave([2, 4], 2)))]);
    let mut parts = Vec::new();
    for (i, [w, b]) in [
        ["query/weight", "query/bias"],
        ["key/weight", "key/bias"],
        ["value/weight", "value/bias"],
        ["output/weight", "output/bias"],
    ]
    .into_iter()
    .enumerate()
    {
        parts.push((w, kernel([4, 4], 5 + i)));
        parts.push((b, array(4, 15 + i)));
    }
    let layer = with(MultiHeadAttention::new(4, 2, random), &parts);
    cases.row(
        "nnx.MultiHeadAttention",
        [layer.forward(&f32(&wave([2, 3, 4], 0)))],
    );
}

fn optimizers(cases: &mut Cases) {
    cases.row("optax.sgd", [steps(Sgd::new(0.05))]);
    cases.row("adam", [steps(Adam::new(0.1))]);
    cases.row("adamw", [steps(AdamW::new(0.1).weight_decay(0.1))]);
    cases.row("lion", [steps(Lion::new(0.1).weight_decay(0.1))]);
    cases.row(
        "lamb",
        [steps(Lamb::new(0.1).epsilon(1e-6).weight_decay(0.1))],
    );
    let p = wave(4, 0);
    Lbfgs::new(1.0)
        .iterations(50)
        .minimize(&p, &mut || bowl(&p));
    cases.about(1e-5, "lbfgs", [p]);
    let clipped = steps(Sgd::new(0.05).hook(ClipNorm(1.0)));
    cases.row("optax.chain(clip_by_global_norm(1), ..)", [clipped]);
    cases.row("optax.cosine_decay_schedule", [rates(cosine(10), 15)]);
    let schedule = warm_up(4).for_steps(3).then(cosine(10));
    cases.row("warmup_cosine_decay_schedule", [rates(schedule, 15)]);
    let (x, y) = (wave([2, 3], 0), wave([2, 3], 1));
    let classes = Variable::constant([2i64, 0]);
    let losses = f::softmax_cross_entropy_with(&x, classes, Reduction::None);
    cases.row("softmax_cross_entropy_with_integer_labels", [losses]);
    let losses = f::sigmoid_cross_entropy_with(&x, y.sigmoid(), Reduction::None);
    cases.row("optax.sigmoid_binary_cross_entropy", [losses]);
    let losses = f::mean_squared_error_with(&x, &y, Reduction::None);
    cases.row("optax.squared_error", [losses]);
    cases.row(
        "optax.huber_loss",
        [f::huber_loss_with(&x, &y, 0.7, Reduction::None)],
    );
    let w = wave(3, 0);
    let losses = f::matmul(wave([4, 3], 1).detach(), &w).sin();
    let clipped = per_example(&losses, &w).clipped_sum(0.5);
    cases.row("optax.per_example_global_norm_clip", [clipped]);
}
