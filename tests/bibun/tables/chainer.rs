//! What bibun has for Chainer's names.

use bibun::array::{Array, DType};
use bibun::functions::{self as f, ConvOptions, ConvTransposeOptions, CrossEntropyOptions};
use bibun::functions::{Interpolation, Padding, Pooling, Reduction, UnfoldOptions};
use bibun::initializers::*;
use bibun::links::*;
use bibun::optimizers::hooks::{ClipNorm, ClipValue, Lasso, WeightDecay};
use bibun::optimizers::schedule::*;
use bibun::optimizers::*;
use bibun::{GradOptions, Variable, checkpoint, gradients, gradients_with, s};

use super::*;

pub(crate) const WITHOUT_NUMBERS: Without = &[
    (
        "between processes: tests of their own compare with one process",
        &[
            "chainermn.create_communicator",
            "chainermn.create_multi_node_optimizer",
            "chainermn.scatter_dataset",
            "comm.bcast_data(model)",
            "create_multi_node_evaluator",
            "create_multi_node_checkpointer",
            "MultiNodeBatchNormalization",
            "comm.allreduce_grad",
            "comm.split",
            "chainermn.functions.allgather",
            "alltoall",
            "bcast",
            "chainermn.functions.send",
            "recv",
            "pseudo_connect",
        ],
    ),
    (
        "a way to write, without numbers of its own",
        &[
            "Variable(x)",
            "as_variable",
            "loss.backward()",
            "model.cleargrads()",
            "optimizer.update()",
            "optimizer.update(lossfun, x, t)",
            "optimizer.setup(model)",
            "with self.init_scope():",
            "self.add_persistent",
            "ChainList",
            "Sequential",
            "model.namedparams()",
            "/l1/W",
            "using_config(\"train\", False)",
            "no_backprop_mode()",
            "x.unchain()",
            "unchain_backward()",
            "FunctionNode",
            "FunctionHook",
            "TimerHook",
            "gradient_check.check_backward",
            "x.creator",
            "computational_graph",
            "type_check.InvalidType",
            "L.Classifier",
            "optimizer.add_hook",
            "param.update_rule.hyperparam",
        ],
    ),
    (
        "what is frozen has tests of its own",
        &["model.disable_update()", "enable_update()"],
    ),
    (
        "random, each library with its own numbers",
        &["GradientNoise"],
    ),
    (
        "data and training, in which the order is random and the rest has no numbers",
        &[
            "SerialIterator",
            "MultithreadIterator",
            "TupleDataset",
            "TransformDataset",
            "ConcatenatedDataset",
            "concat_examples",
            "split_dataset_random",
            "get_cross_validation_datasets",
            "get_mnist",
            "get_fashion_mnist",
            "StandardUpdater",
            "Trainer(updater, (20, \"epoch\"), out)",
            "chainer.report",
            "Evaluator",
            "PrintReport",
            "ProgressBar",
            "PlotReport",
            "LogReport",
            "snapshot",
            "snapshot_object",
            "DumpGraph",
            "ParameterStatistics",
            "FailOnNonNumber",
            "EarlyStoppingTrigger",
            "(1, \"epoch\")",
            "(100, \"iteration\")",
            "@make_extension",
        ],
    ),
    (
        "files have tests of their own, with files of Chainer's",
        &["serializers.save_npz", "load_npz"],
    ),
];

pub(crate) fn cases() -> Cases {
    let mut cases = Cases::default();
    idioms(&mut cases);
    functions(&mut cases);
    links(&mut cases);
    recurrent(&mut cases);
    optimizers(&mut cases);
    initializers(&mut cases);
    cases
}

fn idioms(cases: &mut Cases) {
    let cubes = |w: &Variable| (w * w * w).sum(..);
    let w = wave([2, 3], 0);
    cubes(&w).backward();
    w.square().sum(..).backward();
    cases.row("x.grad", [grad_of(&w)]);
    cases.row("x.array", [Variable::constant(w.array())]);
    let h = &w * 2.0;
    h.retain_grad();
    h.square().sum(..).backward();
    cases.row("retain_grad=True", [grad_of(&h)]);
    let g = gradients_with(&[&cubes(&w)], &[&w], GradOptions::new().create_graph());
    let g = g[0].clone().expect("a gradient");
    cases.row("chainer.grad", [g.clone()]);
    let second = gradients(&[&g.sum(..)], &[&w])[0]
        .clone()
        .expect("one more");
    cases.row("enable_double_backprop=True", [second]);
    let w = wave([2, 3], 0);
    checkpoint(|w: &Variable| w.sin().exp(), &w)
        .sum(..)
        .backward();
    cases.row("F.forget", [grad_of(&w)]);
}

fn functions(cases: &mut Cases) {
    let (x, y, images) = (wave([2, 3], 0), wave([2, 3], 1), wave([2, 4, 5, 6], 0));
    let options = ConvOptions {
        stride: [2, 1],
        padding: Padding::Sizes([1, 1]),
        groups: 2,
        ..Default::default()
    };
    let z = f::conv2d(&images, wave([6, 2, 3, 3], 1), Some(&wave(6, 0)), options);
    cases.row("F.convolution_2d", [z]);
    let options = ConvTransposeOptions {
        stride: [2, 2],
        padding: Padding::Sizes([1, 1]),
        ..Default::default()
    };
    let z = f::conv_transpose2d(&images, wave([4, 3, 3, 3], 1), Some(&wave(3, 0)), options);
    cases.row("F.deconvolution_2d", [z]);
    let options = ConvOptions {
        padding: Padding::Sizes([2, 2]),
        dilation: [2, 2],
        ..Default::default()
    };
    let z = f::conv2d(&images, wave([6, 4, 3, 3], 1), Some(&wave(6, 0)), options);
    cases.row("F.dilated_convolution_2d", [z]);
    let options = UnfoldOptions {
        stride: [2, 2],
        padding: Padding::Sizes([1, 1]),
        ..Default::default()
    };
    let patches = f::unfold(&images, [2, 3], options).reshape([2, 24, 3, 3]);
    cases.row("F.im2col", [patches]);
    let threes = Pooling::new([3, 3]).stride(2).padding(1);
    let covering = Pooling::new([3, 3]).ceil_mode(true);
    let pooled = [
        f::max_pool(&images, &threes),
        f::max_pool(&images, covering),
    ];
    cases.row("F.max_pooling_2d", pooled);
    let (volumes, twos) = (wave([1, 2, 3, 4, 5], 0), Pooling::new([2, 2, 2]).stride(1));
    cases.row("F.max_pooling_nd", [f::max_pool(&volumes, &twos)]);
    cases.row("F.average_pooling_2d", [f::avg_pool(&images, threes)]);
    cases.row("F.average_pooling_nd", [f::avg_pool(&volumes, twos)]);
    let resized = |interpolation| f::interpolate(f32(&images), [7, 4], interpolation);
    let resized = [Interpolation::LINEAR_ALIGN_CORNERS, Interpolation::LINEAR].map(resized);
    cases.row("F.resize_images", resized);
    // Chainer counts the places in a block before the channels, bibun (as PyTorch) behind them.
    let before = wave([2, 8, 2, 3], 0).reshape([2, 4, 2, 2, 3]);
    let behind = before.swapaxes(1, 2).reshape([2, 8, 2, 3]);
    cases.row("F.depth2space", [f::pixel_shuffle(behind, 2)]);
    let behind = f::pixel_unshuffle(wave([2, 2, 4, 6], 0), 2).reshape([2, 2, 4, 2, 3]);
    cases.row(
        "F.space2depth",
        [behind.swapaxes(1, 2).reshape([2, 8, 2, 3])],
    );
    let ids = Variable::constant([1i64, 0, 1]);
    cases.row("F.embed_id", [f::embedding(&ids, &x, None)]);
    cases.row("F.transpose(x, axes)", [images.permute(&[2, 0, 3, 1])]);
    cases.row("F.swapaxes", [images.swapaxes(1, -1)]);
    cases.row("F.moveaxis", [images.moveaxis(1, -1)]);
    cases.row("F.get_item", [x.slice(s![.., 1..3]), f::take(&x, ids, 0)]);
    let six = wave([6, 2], 0);
    let parts = [six.split(3, 0), six.split_at(&[1, 4], 0)];
    cases.row("F.split_axis", parts.concat());
    cases.row("F.where", [x.greater(0).where_(&x, &y)]);
    let product = f::matmul(f32(&wave([2, 3, 4], 0)), f32(&wave([2, 4, 2], 0)));
    cases.row("F.batch_matmul", [product]);
    cases.row("F.absolute", [x.abs()]);
    cases.row("F.fix", [x.trunc()]);
    cases.row("F.fmod", [f::fmod(&x * 3.0, &y)]);
    cases.row("F.log_softmax", [x.log_softmax(1)]);
    cases.row("F.softmax", [x.softmax(1)]);
    cases.row("F.arctan2", [f::atan2(&x, &y)]);
    cases.row("F.sum", [x.sum(1)]);
    cases.row("axis=None", [x.sum(..)]);
    cases.row("F.hard_sigmoid", [(0.2 * (&x * 2.0) + 0.5).clip(0.0, 1.0)]);
    let each = f::huber_loss_with(&x, &y, 0.7, Reduction::None);
    cases.row("F.huber_loss", [each.sum(1), each]);
    let t = Variable::constant([2i64, 0, -1, 1]);
    let with = |reduction, class_weight| {
        let options = CrossEntropyOptions {
            reduction,
            class_weight,
            ..Default::default()
        };
        f::softmax_cross_entropy_with(wave([4, 3], 0), &t, options)
    };
    let weight = Some(wave(3, 0).abs());
    let found = [
        with(Reduction::Sum, weight.clone()) / 3.0,
        with(Reduction::None, weight),
        with(Reduction::Mean, None),
    ];
    cases.row("`class_weight=` of `F.softmax_cross_entropy`", found);
}

fn links(cases: &mut Cases) {
    let random = &mut random();
    let (x, images) = (f32(&wave([2, 3], 0)), f32(&wave([2, 4, 5, 6], 0)));
    cases.row("L.Linear", [waves(Linear::new(3, 4, random)).forward(&x)]);
    let conv = Conv2d::builder(4, 6, 3).stride(2).padding(1);
    cases.row(
        "L.Convolution2D",
        [waves(conv.build(random)).forward(&images)],
    );
    let conv = ConvTranspose2d::builder(4, 6, 3).stride(2).padding(1);
    cases.row(
        "L.Deconvolution2D",
        [waves(conv.build(random)).forward(&images)],
    );
    let conv = Conv2d::builder(4, 8, 3)
        .stride(2)
        .padding(1)
        .groups(4)
        .build(random);
    let w = array([2, 4, 3, 3], 5).swapaxes(0, 1);
    let conv = with(conv, &[("weight", w), ("bias", array(8, 6))]);
    cases.row("L.DepthwiseConvolution2D", [conv.forward(&images)]);
    let ids = Variable::constant([[1i64, 4], [0, 1]]);
    cases.row(
        "L.EmbedID",
        [waves(Embedding::new(5, 3, random)).forward(&ids)],
    );
    // In the order of Chainer's names, beta is before gamma.
    let scales = |size: usize| [("beta", array(size, 5)), ("gamma", array(size, 6))];
    let norm = with(BatchNorm::new(3), &scales(3));
    let y = norm.forward(&x);
    let statistics = (norm.running_mean.get(), norm.running_variance.get());
    cases.row("L.BatchNormalization", [y, statistics.0, statistics.1]);
    cases.row(
        "L.LayerNormalization",
        [with(LayerNorm::new(3), &scales(3)).forward(&x)],
    );
    let norm = with(GroupNorm::new(2, 4), &scales(4));
    cases.row("L.GroupNormalization", [norm.forward(&images)]);
    cases.row(
        "L.Maxout",
        [waves(Maxout::new(3, 2, 4, random)).forward(&x)],
    );
    cases.row("L.Highway", [waves(Highway::new(3, random)).forward(&x)]);
    cases.row("L.Parameter", [Parameter::new(array([2, 3], 0)).forward()]);
}

/// One direction of Chainer's `NStep` networks: the biases are before the weights, those of the inputs
/// before those of the states; `order` is that of bibun's gates among them.
fn gates(order: &[usize], first: usize) -> [Array; 4] {
    let count = order.len();
    let rows = |columns: usize, first: usize| {
        let parts: Vec<Array> = (order.iter())
            .map(|gate| array([4, columns], first + gate))
            .collect();
        bibun::array::concat(&parts.iter().collect::<Vec<_>>(), 0)
    };
    let weights = first + 2 * count;
    let bias = |first| rows(1, first).reshape([4 * count]);
    [
        rows(2, weights),
        rows(4, weights + count),
        bias(first),
        bias(first + count),
    ]
}

fn recurrent(cases: &mut Cases) {
    let random = &mut random();
    // From (unit; g, i, f, o) to (i, f, g, o; unit).
    let turned = |x: Array, columns: usize| {
        let by_gate = x.reshape([4, 4, columns]).swapaxes(0, 1);
        by_gate
            .take(&Array::from([1i64, 2, 0, 3]), 0)
            .reshape([16, columns])
    };
    let lstm = [
        ("weight_hh", turned(array([16, 4], 5), 4)),
        ("weight_ih", turned(array([16, 2], 6), 2)),
        ("bias", turned(array(16, 7), 1)),
    ];
    let cell = with(LstmCell::new(2, 4, random), &lstm);
    let first = cell.step(&f32(&wave([3, 2], 0)), &cell.zero_state(&[3]));
    let second = cell.step(&f32(&wave([3, 2], 1)), &first);
    cases.row("L.LSTM", [first.h, second.h]);

    let x = f::stack([&f32(&wave([3, 2], 0)), &f32(&wave([3, 2], 1))], 0);
    let lstm = |first: usize| {
        let [wx, wh, b, own] = gates(&[0, 1, 2, 3], first);
        [wx, wh, b + own]
    };
    let [wx, wh, b] = lstm(5);
    let one = [
        ("forward/weight_ih", wx),
        ("forward/weight_hh", wh),
        ("forward/bias", b),
    ];
    let network = with(Lstm::new(2, 4, random), &one);
    cases.row("L.NStepLSTM", f::unstack(network.forward(&x), 0));
    let [wx, wh, b] = lstm(21);
    let other = [
        ("backward/weight_ih", wx),
        ("backward/weight_hh", wh),
        ("backward/bias", b),
    ];
    let network = Lstm::builder(2, 4).bidirectional().build(random);
    let network = with(with(network, &one), &other);
    cases.row("L.NStepBiLSTM", f::unstack(network.forward(&x), 0));
    let [wx, wh, b, own] = gates(&[0, 1, 2], 5);
    let joined = [&(b.slice(s![..8]) + own.slice(s![..8])), &b.slice(s![8..])];
    let b = bibun::array::concat(&joined, 0);
    let gru = [
        ("weight_ih", wx),
        ("weight_hh", wh),
        ("bias", b),
        ("bias_hn", own.slice(s![8..])),
    ];
    let network = with(Gru::new(2, 4, random), &gru);
    cases.row("L.NStepGRU", f::unstack(network.forward(&x), 0));
    let [wx, wh, b, own] = gates(&[0], 5);
    let rnn = [("weight_ih", wx), ("weight_hh", wh), ("bias", b + own)];
    let network = with(Rnn::new(2, 4, random), &rnn);
    cases.row("L.NStepRNNTanh", f::unstack(network.forward(&x), 0));
    let network = with(Rnn::builder(2, 4).relu().build(random), &rnn);
    cases.row("L.NStepRNNReLU", f::unstack(network.forward(&x), 0));
}

fn optimizers(cases: &mut Cases) {
    cases.row("SGD", [steps(Sgd::new(0.05))]);
    cases.row("MomentumSGD", [steps(MomentumSgd::new(0.05, 0.9))]);
    cases.row("NesterovAG", [chainers_nesterov()]);
    cases.row("AdaGrad", [steps(AdaGrad::new(0.1))]);
    cases.row("AdaDelta", [steps(AdaDelta::new(1.0))]);
    cases.row("RMSprop", [steps(RmsProp::new(0.1))]);
    cases.row("RMSpropGraves", [steps(RmsPropGraves::new(0.01))]);
    cases.row("SMORMS3", [steps(Smorms3::new(0.1))]);
    // Beside gradients of ordinary size it hardly matters where epsilon stands.
    cases.about(1e-6, "Adam", [steps(Adam::new(0.1))]);
    cases.about(1e-6, "AMSGrad", [steps(AmsGrad::new(0.1))]);
    // Chainer's decay is not multiplied by the learning rate.
    cases.about(1e-6, "AdamW", [steps(AdamW::new(0.1).weight_decay(0.1))]);
    cases.row(
        "WeightDecay",
        [steps(Sgd::new(0.05).hook(WeightDecay(0.1)))],
    );
    cases.row("Lasso", [steps(Sgd::new(0.05).hook(Lasso(0.1)))]);
    cases.row(
        "GradientClipping",
        [steps(Sgd::new(0.05).hook(ClipNorm(1.0)))],
    );
    cases.row(
        "GradientHardClipping",
        [steps(Sgd::new(0.05).hook(ClipValue(1.0)))],
    );
    cases.row("ExponentialShift", [rates(exponential(0.9), 10)]);
    cases.row("LinearShift", [rates(linear(8).down_to(0.25), 10)]);
    cases.row("PolynomialShift", [rates(polynomial(10, 2.0), 10)]);
    cases.row("StepShift", [rates(step_decay(4, 0.5), 10)]);
    cases.row("WarmupShift", [rates(warm_up(5), 10)]);
}

/// Chainer's steps are not Nesterov's: it puts the new velocity where the formula has the old one.
/// `NesterovAg` is held against PyTorch's.
fn chainers_nesterov() -> Variable {
    let (p, lr, momentum) = (wave(4, 0), 0.05, 0.9);
    let mut velocity = Array::zeros(4, DType::F64);
    for _ in 0..5 {
        p.clear_grad();
        bowl(&p).backward();
        let g = grad_of(&p).array();
        velocity = velocity * momentum - &g * lr;
        p.set_array(p.array() + &velocity * (momentum * momentum) - g * ((1.0 + momentum) * lr));
    }
    p
}

fn initializers(cases: &mut Cases) {
    cases.about(0.02, "LeCunNormal", [spread(LeCunNormal)]);
    cases.about(0.02, "GlorotUniform", [spread(GlorotUniform)]);
    cases.about(0.02, "HeNormal", [spread(HeNormal)]);
    let (mean, std) = (0.0, 0.05);
    cases.about(0.02, "Normal", [spread(Normal { mean, std })]);
    let (low, high) = (-0.05, 0.05);
    cases.about(0.02, "Uniform", [spread(Uniform { low, high })]);
    let of = |initializer: &dyn Initializer, shape: &[usize]| {
        Variable::constant(initializer.initialize(&shape.into(), DType::F64, &mut random()))
    };
    let w = of(&Orthogonal { gain: 1.1 }, &[3, 5]);
    cases.row("Orthogonal", [f::matmul(&w, w.transpose())]);
    let square: &[usize] = &[3, 3];
    cases.row("Identity", [of(&Identity { gain: 2.0 }, square)]);
    cases.row("Constant", [of(&Constant(0.5), square)]);
    cases.row("Zero", [of(&Zero, square)]);
    cases.row("One", [of(&One, square)]);
    cases.row(
        "UpsamplingDeconvFilter",
        [of(&LinearUpsampling, &[2, 2, 4, 4])],
    );
}
