//! What bibun has for PyTorch's names.

use bibun::array::{Array, DType, concat};
use bibun::functions::{self as f, ConvOptions, ConvTransposeOptions};
use bibun::functions::{Interpolation, Padding, Pooling, UnfoldOptions};
use bibun::initializers::*;
use bibun::links::*;
use bibun::optimizers::hooks::{ClipNorm, ClipValue, WeightDecay};
use bibun::optimizers::schedule::*;
use bibun::optimizers::*;
use bibun::{
    GradOptions, Variable, checkpoint, eval_mode, grad, gradients, gradients_with, hessian,
    jacobian_forward, jacobian_reverse, jvp, s, vjp, vmap,
};

use super::*;

pub(crate) const WITHOUT_NUMBERS: Without = &[
    (
        "a way to write, without numbers of its own",
        &[
            "torch.tensor(..)",
            "requires_grad=True",
            "x.detach()",
            "x.to(device)",
            "x.device",
            "model.to(device)",
            "optimizer.zero_grad()",
            "with torch.no_grad():",
            "model.train()",
            "model.eval()",
            "nn.Module",
            "forward",
            "nn.Parameter",
            "register_buffer",
            "model.named_parameters()",
            "torch.autograd.Function",
            "torch.compile",
            "torch.cond",
            "torch.while_loop",
            "torch.autograd.gradcheck",
            "set_detect_anomaly",
            "module(x)",
            "nn.ModuleList",
            "`nn.ReLU()` in a `Sequential`",
            "parameter groups",
        ],
    ),
    (
        "states in files have tests of their own, with files of PyTorch's",
        &["model.state_dict()", "load_state_dict", "torch.save"],
    ),
    (
        "what is frozen has tests of its own",
        &[
            "p.requires_grad_(False)",
            "model.requires_grad_(False)",
            "[p for p in model.parameters() if p.requires_grad]",
        ],
    ),
    (
        "random, each library with its own numbers",
        &[
            "torch.manual_seed",
            "nn.Dropout",
            "F.dropout",
            "F.rrelu",
            "F.gumbel_softmax",
            "F.fractional_max_pool2d",
        ],
    ),
    (
        "compared in benches/peers/per_example",
        &["Opacus, `ExpandedWeights`"],
    ),
    (
        "between processes: tests of their own compare with one process",
        &[
            "init_process_group",
            "torchrun",
            "DistributedDataParallel",
            "DistributedSampler",
            "model.no_sync()",
            "ZeroRedundancyOptimizer",
            "nn.SyncBatchNorm",
            "torch.distributed.all_reduce",
            "all_gather",
            "send",
            "recv",
            "reduce_scatter_tensor",
            "all_to_all_single",
            "broadcast",
            "barrier",
            "get_rank",
            "get_world_size",
            "new_group",
            "bucket_cap_mb",
            "find_unused_parameters",
        ],
    ),
    (
        "data and training, in which the order is random and the rest has no numbers",
        &[
            "Dataset",
            "TensorDataset",
            "DataLoader(shuffle, num_workers)",
            "collate_fn",
            "pad_sequence",
            "random_split",
            "Subset",
            "ConcatDataset",
            "torchvision.transforms",
            "ImageFolder",
            "MNIST",
            "SummaryWriter",
            "Lightning's `Trainer`, `EarlyStopping`, `ModelCheckpoint`",
        ],
    ),
];

/// PyTorch's two biases, from which bibun makes one; of a GRU's last gate both stay.
fn biases(size: usize) -> Array {
    array(size, 7) + array(size, 8)
}

fn gru() -> [(&'static str, Array); 4] {
    let (ih, hh) = (array(12, 7), array(12, 8));
    let b = concat(
        &[&(ih.slice(s![..8]) + hh.slice(s![..8])), &ih.slice(s![8..])],
        0,
    );
    [
        ("weight_ih", array([12, 2], 5)),
        ("weight_hh", array([12, 4], 6)),
        ("bias", b),
        ("bias_hn", hh.slice(s![8..])),
    ]
}

fn attention(prefix: &str) -> Vec<(String, Array)> {
    let (w, b) = (array([12, 4], 5), array(12, 6));
    let mut values = Vec::new();
    for (i, part) in ["query", "key", "value"].into_iter().enumerate() {
        let (start, end) = (4 * i as isize, 4 * (i as isize + 1));
        values.push((format!("{prefix}{part}/weight"), w.slice(s![start..end])));
        values.push((format!("{prefix}{part}/bias"), b.slice(s![start..end])));
    }
    values.push((format!("{prefix}output/weight"), array([4, 4], 7)));
    values.push((format!("{prefix}output/bias"), array(4, 8)));
    values
}

fn named<C: Chain>(link: C, values: &[(String, Array)]) -> C {
    let values: Vec<(&str, Array)> = (values.iter())
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    with(link, &values)
}

pub(crate) fn cases() -> Cases {
    let mut cases = Cases::default();
    idioms(&mut cases);
    modules(&mut cases);
    functions(&mut cases);
    pytorch_networks::losses(&mut cases);
    pytorch_networks::distances(&mut cases);
    pytorch_networks::activations(&mut cases);
    pytorch_networks::attention(&mut cases);
    pytorch_networks::pooling(&mut cases);
    pytorch_networks::links(&mut cases);
    arrays(&mut cases);
    parts::of_pytorch(&mut cases);
    optimizers(&mut cases);
    initializers(&mut cases);
    cases
}

fn idioms(cases: &mut Cases) {
    let (x, y) = (wave([2, 3], 0), wave([2, 3], 1));
    let cubes = |w: &Variable| (w * w * w).sum(..);
    let w = wave([2, 3], 0);
    cubes(&w).backward();
    w.square().sum(..).backward();
    cases.row("x.grad", [grad_of(&w)]);
    let item = x.slice(s![0, 1]).item::<f64>();
    cases.row("x.item()", [Variable::constant(item)]);
    let list = Array::from_vec(x.to_vec::<f64>(), [2, 3]);
    cases.row("x.tolist()", [Variable::constant(list)]);
    let p = wave([2, 3], 0);
    p.square().sum(..).backward();
    Sgd::new(0.1).update(&p);
    cases.row("loss.backward(); optimizer.step()", [p]);
    let w = wave([2, 3], 0);
    let g = gradients_with(&[&cubes(&w)], &[&w], GradOptions::new().create_graph());
    let g = g[0].clone().expect("a gradient");
    cases.row("torch.autograd.grad", [g.clone()]);
    let second = gradients(&[&g.sum(..)], &[&w])[0]
        .clone()
        .expect("one more");
    cases.row("create_graph=True", [second]);
    let w = wave([2, 3], 0);
    let h = &w * 2.0;
    h.register_hook(|g| Some(g * 10.0));
    h.retain_grad();
    h.square().sum(..).backward();
    cases.row("x.register_hook", [grad_of(&w)]);
    cases.row("x.retain_grad", [grad_of(&h)]);
    let w = wave([2, 3], 0);
    checkpoint(|w: &Variable| w.sin().exp(), &w)
        .sum(..)
        .backward();
    cases.row("torch.utils.checkpoint", [grad_of(&w)]);
    let f = |x: &Variable| (x.sin() * x).sum(..);
    cases.row("torch.func.grad", [grad(f, &x)]);
    cases.row("vmap", [vmap(f, &x)]);
    let (value, tangent) = jvp(f, &x, &y);
    cases.row("jvp", [value, tangent]);
    let (value, pull) = vjp(|x: &Variable| x.exp(), &x);
    cases.row("vjp", [value, pull.call(&y)]);
    let g = |x: &Variable| f::stack([&x.sin().sum(..), &(x * x).sum(..)], 0);
    cases.row("torch.func.jacrev", [jacobian_reverse(g, &x)]);
    cases.row("jacfwd", [jacobian_forward(g, &x)]);
    let f = |x: &Variable| (x * x * x).sum(..) * x.slice(s![0]);
    cases.row("hessian", [hessian(f, &wave(3, 0))]);
}

fn modules(cases: &mut Cases) {
    let random = &mut random();
    let (x, images) = (f32(&wave([2, 3], 0)), f32(&wave([2, 4, 5, 6], 0)));
    cases.row("nn.Linear", [waves(Linear::new(3, 4, random)).forward(&x)]);
    let conv = Conv2d::builder(4, 6, 3).stride(2).padding(1).groups(2);
    cases.row("nn.Conv2d", [waves(conv.build(random)).forward(&images)]);
    let conv = ConvTranspose2d::builder(4, 6, 3)
        .stride(2)
        .padding(1)
        .output_padding(1);
    cases.row(
        "nn.ConvTranspose2d",
        [waves(conv.build(random)).forward(&images)],
    );
    let ids = Variable::constant([[1i64, 4], [0, 1]]);
    cases.row(
        "nn.Embedding",
        [waves(Embedding::new(5, 3, random)).forward(&ids)],
    );
    let volumes = f32(&wave([3, 2, 1, 2, 3], 0));
    for (name, channels, z) in [
        ("nn.BatchNorm1d", 3, &x),
        ("2d", 4, &images),
        ("3d", 2, &volumes),
    ] {
        let norm = waves(BatchNorm::new(channels));
        let first = norm.forward(z);
        norm.forward(&(z + 1.0));
        let (mean, variance) = (norm.running_mean.get(), norm.running_variance.get());
        cases.row(name, [first, mean, variance, eval_mode(|| norm.forward(z))]);
    }
    cases.row("nn.LayerNorm", [waves(LayerNorm::new(3)).forward(&x)]);
    cases.row(
        "nn.GroupNorm",
        [waves(GroupNorm::new(2, 4)).forward(&images)],
    );
    cases.row(
        "nn.InstanceNorm2d",
        [waves(InstanceNorm::new(4)).forward(&images)],
    );
    cases.row("nn.RMSNorm", [waves(RmsNorm::new(3)).forward(&x)]);

    let sequence = f32(&wave([2, 3, 2], 0));
    let of = |gates: usize| {
        let (wx, wh) = (array([4 * gates, 2], 5), array([4 * gates, 4], 6));
        [
            ("weight_ih", wx),
            ("weight_hh", wh),
            ("bias", biases(4 * gates)),
        ]
    };
    cases.row(
        "nn.RNN",
        [with(Rnn::new(2, 4, random), &of(1)).forward(&sequence)],
    );
    cases.row(
        "nn.LSTM",
        [with(Lstm::new(2, 4, random), &of(4)).forward(&sequence)],
    );
    cases.row(
        "nn.GRU",
        [with(Gru::new(2, 4, random), &gru()).forward(&sequence)],
    );
    let at = |step: isize| sequence.slice(s![.., step]);
    let cell = with(LstmCell::new(2, 4, random), &of(4));
    let state = cell.step(&at(0), &cell.step(&at(1), &cell.zero_state(&[2])));
    cases.row("nn.LSTMCell", [state.h, state.c]);
    let cell = with(GruCell::new(2, 4, random), &gru());
    let state = cell.step(&at(0), &cell.step(&at(1), &cell.zero_state(&[2])));
    cases.row("nn.GRUCell", [state]);

    let z = f32(&wave([2, 3, 4], 0));
    let layer = named(MultiHeadAttention::new(4, 2, random), &attention(""));
    cases.row("nn.MultiheadAttention", [layer.forward(&z)]);
    let block = TransformerBlock::builder(4, 2).post_norm().feed_forward(8);
    let block = block.activation(Variable::relu).build(random);
    let mut values = attention("attention/");
    let rest = [
        ("layers/0/weight", array([8, 4], 9)),
        ("layers/0/bias", array(8, 10)),
        ("layers/1/weight", array([4, 8], 11)),
        ("layers/1/bias", array(4, 12)),
        ("attention_norm/gamma", array(4, 13)),
        ("attention_norm/beta", array(4, 14)),
        ("feed_forward_norm/gamma", array(4, 15)),
        ("feed_forward_norm/beta", array(4, 16)),
    ];
    values.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    cases.row(
        "nn.TransformerEncoderLayer",
        [named(block, &values).forward(&z)],
    );
    let [first, second] = [(3, 4), (4, 2)].map(|(i, o)| waves(Linear::new(i, o, random)));
    let model = Sequential::new()
        .then(first)
        .then_function(Variable::relu)
        .then(second);
    cases.row("nn.Sequential", [model.forward(&x)]);
    let layer = WeightNorm::new(Linear::new(3, 4, random));
    set(&layer.g, &array(4, 5));
    set(&layer.link.weight, &array([4, 3], 6));
    set(layer.link.bias.as_ref().expect("a bias"), &array(4, 7));
    cases.row("weight_norm", [layer.forward(&x)]);
}

fn functions(cases: &mut Cases) {
    let x = wave([2, 3], 0);
    type Activation = (&'static str, fn(&Variable) -> Variable);
    let activations: [Activation; 7] = [
        ("F.relu", |x| x.relu()),
        ("F.gelu", |x| x.gelu()),
        ("F.silu", |x| x.silu()),
        ("F.elu", |x| x.elu(1.0)),
        ("F.softplus", |x| x.softplus(1.0)),
        ("F.hardsigmoid", |x| x.hardsigmoid()),
        ("F.hardswish", |x| x.hardswish()),
    ];
    for (name, f) in activations {
        let x = &x * 2.0;
        // PyTorch's sixth is one of f32.
        let tolerance = (name == "F.hardsigmoid").then_some(1e-7);
        cases.about(tolerance, name, [f(&x), grad(|x| f(x).sum(..), &x)]);
    }
    cases.row(r#"F.gelu(approximate="tanh")"#, [x.gelu_tanh()]);
    cases.row("F.leaky_relu(x, 0.01)", [x.leaky_relu(0.01)]);
    cases.row("F.softmax(x, dim)", [x.softmax(1)]);
    cases.row("F.log_softmax", [x.log_softmax(1)]);

    let images = wave([2, 4, 5, 6], 0);
    let options = ConvOptions {
        stride: [2, 1],
        padding: Padding::Sizes([1, 1]),
        dilation: [1, 2],
        groups: 2,
    };
    let y = f::conv2d(&images, wave([6, 2, 3, 3], 1), Some(&wave(6, 0)), options);
    cases.row("F.conv2d", [y]);
    let options = ConvTransposeOptions {
        stride: [2, 2],
        padding: Padding::Sizes([1, 1]),
        ..Default::default()
    };
    let y = f::conv_transpose2d(&images, wave([4, 3, 3, 3], 1), Some(&wave(3, 0)), options);
    cases.row("F.conv_transpose2d", [y]);
    let options = UnfoldOptions {
        stride: [2, 2],
        padding: Padding::Sizes([1, 1]),
        ..Default::default()
    };
    let patches = f::unfold(&images, [2, 3], options);
    cases.row("F.unfold", [patches.clone()]);
    cases.row("F.fold", [f::fold(&patches, [5, 6], [2, 3], options)]);
    let threes = Pooling::new([3, 3]).stride(2).padding(1);
    let twos = Pooling::new([2, 2]).ceil_mode(true);
    cases.row(
        "F.max_pool2d",
        [f::max_pool(&images, &threes), f::max_pool(&images, twos)],
    );
    cases.row("F.avg_pool2d", [f::avg_pool(&images, threes)]);
    cases.row(
        "F.adaptive_avg_pool2d",
        [f::adaptive_avg_pool(&images, [2, 4])],
    );
    cases.row(
        "F.adaptive_max_pool2d",
        [f::adaptive_max_pool(&images, [2, 4])],
    );
    let resized = |interpolation| f::interpolate(&images, [7, 4], interpolation);
    let interpolated = [
        f::upsample(&images, [2, 2], Interpolation::Nearest),
        resized(Interpolation::LINEAR),
        resized(Interpolation::LINEAR_ALIGN_CORNERS),
    ];
    cases.row("F.interpolate", interpolated);
    cases.row("F.pixel_shuffle", [f::pixel_shuffle(&images, 2)]);
    let (q, k, v) = (wave([2, 3, 4], 0), wave([2, 5, 4], 1), wave([2, 5, 2], 2));
    let attended = |mask: Option<&Variable>| f::attention(&q, &k, &v, mask);
    let found = [
        attended(None),
        attended(Some(&wave([3, 5], 3).greater(0))),
        attended(Some(&wave([3, 5], 4))),
        attended(Some(&numbers([0.0, f64::NEG_INFINITY, 0.0, 0.0, 1.0]))),
    ];
    cases.row("F.scaled_dot_product_attention", found);
    let ids = Variable::constant([1i64, 0, 1]);
    cases.row("F.embedding", [f::embedding(ids, &x, None)]);
    let ids = Variable::constant([1i64, 0, 3]);
    cases.row("F.one_hot", [f::one_hot(ids, 4, DType::F64)]);
}

fn arrays(cases: &mut Cases) {
    let (x, y, images) = (wave([2, 3], 0), wave([2, 3], 1), wave([2, 4, 5, 6], 0));
    let long = wave([5, 2], 0);
    cases.row("torch.cat", [f::concat([&x, &y], 1)]);
    cases.row("stack", [f::stack([&x, &y], 1)]);
    cases.row("x.split([2, 3])", long.split_sizes(&[2, 3], 0));
    let chunks = [
        long.chunk(4, 0),
        long.chunk(2, 0),
        wave([2, 9], 0).chunk(3, 1),
        wave(3, 0).chunk(5, 0),
    ];
    cases.row("x.chunk(4)", chunks.concat());
    cases.row("unbind", f::unstack(&x, 1));
    cases.row("x.view", [x.reshape([3, 2])]);
    cases.row("permute", [images.permute(&[2, 0, 3, 1])]);
    cases.row("transpose(a, b)", [images.swapaxes(1, -1)]);
    cases.row("unsqueeze", [x.expand_dims(1)]);
    cases.row("x.expand", [x.broadcast_to([4, 2, 3])]);
    cases.row("repeat", [x.tile(&[2, 3])]);
    cases.row("repeat_interleave", [x.repeat(2, 1)]);
    cases.row("torch.where", [x.greater(0).where_(&x, &y)]);
    let positions = Variable::constant([[2i64, 0], [1, 1]]);
    cases.row("gather", [f::gather(&x, positions, 1)]);
    cases.row(
        "index_select",
        [f::take(&x, Variable::constant([2i64, 0, 2]), 1)],
    );
    let positions = Variable::constant([[2i64, 0, 2], [1, 1, 1]]);
    cases.row("scatter_add", [f::scatter_add(&x, positions, 1, &y)]);
    cases.row("torch.matmul", [f::matmul(&images, wave([4, 6, 2], 0))]);
    cases.row("einsum", [f::einsum("ij,kj->ik", [&x, &y])]);
    cases.row(
        "tensordot",
        [f::tensordot(&images, wave([6, 3, 5], 0), &[2, 3], &[2, 0])],
    );
    cases.row("outer", [f::outer(x.slice(s![0]), y.slice(s![1]))]);
    let w = Variable::new([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]);
    cases.row("x.amax", [w.max(1), grad(|w| w.max(1).sum(..), &w)]);
    cases.row("x.max(dim)", [w.max(1), w.argmax(1)]);
    let (values, positions) = x.top_k(2, 1);
    cases.row("x.topk", [values, positions]);
    cases.row("sort", [x.sort(1)]);
    cases.row("cumsum", [x.cumsum(1)]);
    cases.row("logsumexp", [x.logsumexp(1)]);
    cases.row("x.clamp", [x.clip(-0.5, 1.0)]);
}

fn optimizers(cases: &mut Cases) {
    let moments = [
        steps(Sgd::new(0.05)),
        steps(MomentumSgd::new(0.05, 0.9)),
        steps(NesterovAg::new(0.05, 0.9)),
    ];
    cases.row("`SGD(lr)`, with `momentum`, with `nesterov`", moments);
    cases.row("Adam", [steps(Adam::new(0.1))]);
    cases.row("AdamW", [steps(AdamW::new(0.1).weight_decay(0.1))]);
    cases.row("Adam(amsgrad=True)", [steps(AmsGrad::new(0.1))]);
    cases.row("Adagrad", [steps(AdaGrad::new(0.1).epsilon(1e-10))]);
    cases.row("Adadelta", [steps(AdaDelta::new(1.0))]);
    cases.row("RMSprop", [steps(RmsProp::new(0.1))]);
    cases.row("Rprop", [steps(Rprop::new(0.1).bounds(0.5, 2.0))]);
    let p = wave(4, 0);
    let mut loss = || bowl(&p) + (&p - 0.3).square().square().sum(..);
    Lbfgs::new(1.0).iterations(50).minimize(&p, &mut loss);
    // PyTorch stops a little earlier.
    cases.about(1e-4, "LBFGS", [p]);
    let decayed = [
        steps(Sgd::new(0.05).hook(WeightDecay(0.1))),
        steps(Adam::new(0.1).hook(WeightDecay(0.1))),
    ];
    cases.row("`weight_decay=` of SGD and Adam", decayed);
    // PyTorch adds 1e-6 to the norm.
    cases.about(
        1e-5,
        "clip_grad_norm_",
        [steps(Sgd::new(0.05).hook(ClipNorm(1.0)))],
    );
    cases.row(
        "clip_grad_value_",
        [steps(Sgd::new(0.05).hook(ClipValue(1.0)))],
    );

    cases.row("StepLR", [rates(step_decay(4, 0.5), 20)]);
    cases.row(
        "MultiStepLR",
        [rates(piecewise(1.0, [(3, 0.1), (7, 0.01)]), 20)],
    );
    cases.row("ExponentialLR", [rates(exponential(0.9), 20)]);
    cases.row("CosineAnnealingLR", [rates(cosine(20).down_to(0.1), 20)]);
    cases.row(
        "CosineAnnealingWarmRestarts",
        [rates(cosine_restarts(3, 2), 20)],
    );
    cases.row("OneCycleLR", [rates(one_cycle(20), 20)]);
    let linear = [rates(warm_up(5), 20), rates(linear(8).down_to(0.25), 20)];
    cases.row("LinearLR", linear);
    cases.row("PolynomialLR", [rates(polynomial(10, 2.0), 20)]);
    let joined = exponential(0.9).for_steps(5).then(step_decay(4, 0.5));
    cases.row("SequentialLR", [rates(joined, 20)]);
    cases.row(
        "ChainedScheduler",
        [rates(exponential(0.9).times(step_decay(4, 0.5)), 20)],
    );
    let (mut optimizer, mut plateau) = (Sgd::new(1.0), ReduceOnPlateau::new(0.5).patience(1));
    let metrics = [3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    let found = metrics.map(|metric| {
        plateau.observe(metric, &mut optimizer);
        optimizer.learning_rate()
    });
    cases.row("ReduceLROnPlateau", [numbers(found)]);
}

fn initializers(cases: &mut Cases) {
    let leaky = Nonlinearity::LeakyRelu(0.2);
    let kaiming = |kind| spread(VarianceScaling::kaiming(leaky, Fan::Out, kind));
    let tanh = Nonlinearity::Tanh.gain();
    let xavier = |kind| spread(VarianceScaling::xavier(tanh, kind));
    let (normal, uniform) = (Spread::Normal, Spread::Uniform);
    let mut row = |name, plain, with_gain| cases.about(0.02, name, [plain, with_gain]);
    row("kaiming_normal_", spread(HeNormal), kaiming(normal));
    row("kaiming_uniform_", spread(HeUniform), kaiming(uniform));
    row("xavier_normal_", spread(GlorotNormal), xavier(normal));
    row("xavier_uniform_", spread(GlorotUniform), xavier(uniform));
    let (mean, std, low, high) = (0.0, 1.0, -2.0, 2.0);
    let cut = TruncatedNormal {
        mean,
        std,
        low,
        high,
    };
    cases.about(0.02, "trunc_normal_", [spread(cut)]);
    let sparse = Sparse {
        sparsity: 0.3,
        std: 0.01,
    };
    cases.about(0.02, "sparse_", [spread(sparse)]);
    let w = Orthogonal { gain: 1.0 }.initialize(&[3, 5].into(), DType::F64, &mut random());
    cases.about(1e-5, "orthogonal_", [f::matmul(&w, w.transpose())]);
    let w = Dirac { groups: 1 }.initialize(&[4, 2, 3, 3].into(), DType::F64, &mut random());
    cases.row("dirac_", [Variable::constant(w)]);
    // The bias has 400 numbers only.
    let b = FanInUniform::of_bias(300).initialize(&[400].into(), DType::F64, &mut random());
    let b = Variable::constant(b).std(.., 0).reshape([1]);
    cases.about(
        0.08,
        "the default of `nn.Linear`",
        [spread(FanInUniform), b],
    );
}
