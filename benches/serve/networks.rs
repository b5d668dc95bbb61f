//! Networks: steps of training, and inference.

use bibun::array::Generator;
use bibun::functions::{
    Pooling, clip, concat, exp, global_avg_pool, log_softmax, max_pool, minimum, relu, select_item,
    softmax_cross_entropy, sqrt, tanh,
};
use bibun::links::{
    BatchNorm, Chain, Conv2d, ConvTranspose2d, Embedding, GroupNorm, LayerNorm, Linear, Link, Mlp,
    TransformerBlock,
};
use bibun::optimizers::{Adam, Sgd};
use bibun::{Variable, eval_mode, grad};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    let sgd = || Sgd::new(0.05);
    rows.training(
        "networks/mlp-784-100-100-10",
        || Mlp::new(&[784, 100, 100, 10], &mut Generator::new(0)),
        sgd,
        |mlp, [x, t]| softmax_cross_entropy(mlp.forward(x), t),
    );
    let control = || Mlp::new(&[4, 128, 128, 2], &mut Generator::new(0));
    rows.inference("networks/mlp-4-128-128-2-one", control, |mlp, [x]| {
        mlp.forward(x)
    });
    rows.training(
        "networks/mlp-4-128-128-2",
        control,
        || Adam::new(1e-3),
        |mlp, [x, t]| softmax_cross_entropy(mlp.forward(x), t),
    );
    rows.training("networks/all-cnn", AllCnn::new, sgd, |net, [x, t]| {
        softmax_cross_entropy(net.forward(x), t)
    });
    rows.training("networks/separable", Separable::new, sgd, |net, [x, t]| {
        softmax_cross_entropy(net.forward(x), t)
    });
    rows.training(
        "networks/resnet-group-norm",
        SmallResNet::new,
        sgd,
        |net, [x, t]| softmax_cross_entropy(net.forward(x), t),
    );
    rows.training(
        "networks/resnet-18",
        || ResNet18::new(Stem::Small),
        sgd,
        |net, [x, t]| softmax_cross_entropy(net.forward(x), t),
    );
    rows.inference(
        "networks/resnet-18-one-224",
        || ResNet18::new(Stem::Large),
        |net, [x]| eval_mode(|| net.forward(x)),
    );
    rows.training(
        "networks/transformer-block",
        || TransformerBlock::new(128, 4, &mut Generator::new(0)),
        sgd,
        |block, [x]| block.forward(x).square().mean(..),
    );
    rows.inference(
        "networks/transformer-block-forward",
        || TransformerBlock::new(128, 4, &mut Generator::new(0)),
        |block, [x]| block.forward(x),
    );
    rows.training(
        "networks/gpt",
        Gpt::new,
        || Adam::new(1e-3),
        |gpt, [words, next]| softmax_cross_entropy(gpt.forward(words), next),
    );
    rows.training("networks/u-net", UNet::new, sgd, |net, [x, y]| {
        (net.forward(x) - y).square().mean(..)
    });
    rows.training(
        "networks/critic-gradient-penalty",
        || Mlp::new(&[64, 256, 256, 1], &mut Generator::new(0)),
        || Adam::new(1e-3),
        critic_loss,
    );
    rows.training(
        "networks/ppo",
        Agent::new,
        || Adam::new(1e-3),
        proximal_policy_loss,
    );
}

fn conv(
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    random: &mut Generator,
) -> Conv2d {
    let builder = Conv2d::builder(inputs, outputs, kernel).stride(stride);
    builder.padding(kernel / 2).without_bias().build(random)
}

/// Convolutions alone, the strided ones in the place of pooling (Springenberg et al. 2014,
/// arXiv:1412.6806).
#[derive(Chain)]
struct AllCnn {
    convs: Vec<Conv2d>,
}

impl AllCnn {
    fn new() -> Self {
        let layers = [
            (3, 32, 3, 1),
            (32, 32, 3, 1),
            (32, 64, 3, 2),
            (64, 64, 3, 1),
            (64, 64, 3, 2),
            (64, 64, 1, 1),
            (64, 10, 1, 1),
        ];
        let random = &mut Generator::new(0);
        let layer = |(inputs, outputs, kernel, stride): (usize, usize, usize, usize)| {
            let builder = Conv2d::builder(inputs, outputs, kernel).stride(stride);
            builder.padding(kernel / 2).build(random)
        };
        Self {
            convs: layers.map(layer).into(),
        }
    }
}

impl Link for AllCnn {
    fn compute(&self, x: &Variable) -> Variable {
        let (last, convs) = self.convs.split_last().expect("layers");
        let h = convs
            .iter()
            .fold(x.clone(), |h, conv| relu(conv.forward(&h)));
        global_avg_pool(last.forward(&h))
    }
}

/// Convolutions of single channels and of single places in turns (Howard et al. 2017,
/// arXiv:1704.04861).
#[derive(Chain)]
struct Separable {
    stem: Conv2d,
    blocks: Vec<SeparableBlock>,
    head: Linear,
}

#[derive(Chain)]
struct SeparableBlock {
    depthwise: Conv2d,
    norm1: BatchNorm,
    pointwise: Conv2d,
    norm2: BatchNorm,
}

impl Separable {
    fn new() -> Self {
        let random = &mut Generator::new(0);
        let blocks = [
            (32, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
        ];
        Self {
            stem: conv(3, 32, 3, 1, random),
            blocks: blocks
                .map(|(inputs, outputs, stride)| {
                    SeparableBlock::new(inputs, outputs, stride, random)
                })
                .into(),
            head: Linear::new(256, 10, random),
        }
    }
}

impl SeparableBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, random: &mut Generator) -> Self {
        let depthwise = Conv2d::builder(inputs, inputs, 3).stride(stride).padding(1);
        Self {
            depthwise: depthwise.groups(inputs).without_bias().build(random),
            norm1: BatchNorm::new(inputs),
            pointwise: conv(inputs, outputs, 1, 1, random),
            norm2: BatchNorm::new(outputs),
        }
    }
}

impl Link for SeparableBlock {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm1.forward(&self.depthwise.forward(x)));
        relu(self.norm2.forward(&self.pointwise.forward(&h)))
    }
}

impl Link for Separable {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.stem.forward(x));
        let h = self.blocks.iter().fold(h, |h, block| block.forward(&h));
        self.head.forward(&global_avg_pool(h))
    }
}

/// Two convolutions beside a shortcut (He et al. 2015, arXiv:1512.03385).
#[derive(Chain)]
struct Residual<N: Chain> {
    conv1: Conv2d,
    norm1: N,
    conv2: Conv2d,
    norm2: N,
    shortcut: Option<Conv2d>,
}

impl<N: Chain> Residual<N> {
    fn new(
        [inputs, outputs, stride]: [usize; 3],
        norm: fn(usize) -> N,
        random: &mut Generator,
    ) -> Self {
        let is_new = inputs != outputs || stride != 1;
        Self {
            conv1: conv(inputs, outputs, 3, stride, random),
            norm1: norm(outputs),
            conv2: conv(outputs, outputs, 3, 1, random),
            norm2: norm(outputs),
            shortcut: is_new.then(|| conv(inputs, outputs, 1, stride, random)),
        }
    }
}

impl<N: Link + 'static> Link for Residual<N> {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm1.forward(&self.conv1.forward(x)));
        let h = self.norm2.forward(&self.conv2.forward(&h));
        match &self.shortcut {
            Some(shortcut) => relu(h + shortcut.forward(x)),
            None => relu(h + x),
        }
    }
}

/// Three stages of two blocks, with group normalisation.
#[derive(Chain)]
struct SmallResNet {
    stem: Conv2d,
    norm: GroupNorm,
    blocks: Vec<Residual<GroupNorm>>,
    head: Linear,
}

impl SmallResNet {
    fn new() -> Self {
        let random = &mut Generator::new(0);
        let blocks = [
            [16, 16, 1],
            [16, 16, 1],
            [16, 32, 2],
            [32, 32, 1],
            [32, 64, 2],
            [64, 64, 1],
        ];
        Self {
            stem: conv(3, 16, 3, 1, random),
            norm: GroupNorm::new(8, 16),
            blocks: blocks
                .map(|sizes| Residual::new(sizes, |channels| GroupNorm::new(8, channels), random))
                .into(),
            head: Linear::new(64, 10, random),
        }
    }
}

impl Link for SmallResNet {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm.forward(&self.stem.forward(x)));
        let h = self.blocks.iter().fold(h, |h, block| block.forward(&h));
        self.head.forward(&global_avg_pool(h))
    }
}

/// How a network begins, for small and for large images.
#[derive(Clone, Copy)]
enum Stem {
    Small,
    Large,
}

/// Four stages of two blocks, with batch normalisation.
#[derive(Chain)]
struct ResNet18 {
    stem: Conv2d,
    norm: BatchNorm,
    has_pool: bool,
    blocks: Vec<Residual<BatchNorm>>,
    head: Linear,
}

impl ResNet18 {
    fn new(stem: Stem) -> Self {
        let random = &mut Generator::new(0);
        let blocks = [
            [64, 64, 1],
            [64, 64, 1],
            [64, 128, 2],
            [128, 128, 1],
            [128, 256, 2],
            [256, 256, 1],
            [256, 512, 2],
            [512, 512, 1],
        ];
        let (kernel, stride, has_pool, classes) = match stem {
            Stem::Small => (3, 1, false, 10),
            Stem::Large => (7, 2, true, 1000),
        };
        Self {
            stem: conv(3, 64, kernel, stride, random),
            norm: BatchNorm::new(64),
            has_pool,
            blocks: blocks
                .map(|sizes| Residual::new(sizes, BatchNorm::new, random))
                .into(),
            head: Linear::new(512, classes, random),
        }
    }
}

impl Link for ResNet18 {
    fn compute(&self, x: &Variable) -> Variable {
        let mut h = relu(self.norm.forward(&self.stem.forward(x)));
        if self.has_pool {
            h = max_pool(h, Pooling::new([3, 3]).stride(2).padding(1));
        }
        let h = self.blocks.iter().fold(h, |h, block| block.forward(&h));
        self.head.forward(&global_avg_pool(h))
    }
}

/// A language model of six blocks (Radford et al. 2019, "Language models are unsupervised multitask
/// learners").
#[derive(Chain)]
struct Gpt {
    words: Embedding,
    positions: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    const WORDS: usize = 256;
    const WIDTH: usize = 384;
    const LENGTH: usize = 128;

    fn new() -> Self {
        let random = &mut Generator::new(0);
        let block = |_| {
            TransformerBlock::builder(Self::WIDTH, 6)
                .causal()
                .build(random)
        };
        Self {
            blocks: (0..6).map(block).collect(),
            words: Embedding::new(Self::WORDS, Self::WIDTH, &mut Generator::new(0)),
            positions: Embedding::new(Self::LENGTH, Self::WIDTH, &mut Generator::new(0)),
            norm: LayerNorm::new(Self::WIDTH),
            head: Linear::builder(Self::WIDTH, Self::WORDS)
                .without_bias()
                .build(&mut Generator::new(0)),
        }
    }
}

impl Link for Gpt {
    /// The scores of the next word, `[n t, words]` for `[n, t]`.
    fn compute(&self, words: &Variable) -> Variable {
        let h = self.words.forward(words) + &self.positions.weight;
        let h = self.blocks.iter().fold(h, |h, block| block.forward(&h));
        let scores = self.head.forward(&self.norm.forward(&h));
        scores.reshape([words.size(), Self::WORDS])
    }
}

/// Convolutions on coarser and coarser images, and back, with shortcuts between equal sizes
/// (Ronneberger, Fischer and Brox 2015, arXiv:1505.04597).
#[derive(Chain)]
struct UNet {
    down: Vec<Pair>,
    up: Vec<Up>,
    head: Conv2d,
}

/// Two convolutions.
#[derive(Chain)]
struct Pair {
    conv1: Conv2d,
    conv2: Conv2d,
}

#[derive(Chain)]
struct Up {
    grow: ConvTranspose2d,
    convs: Pair,
}

impl UNet {
    fn new() -> Self {
        let random = &mut Generator::new(0);
        let down = [(1, 16), (16, 32), (32, 64)];
        let down = down.map(|(inputs, outputs)| Pair::new(inputs, outputs, random));
        let mut up = |(inputs, outputs)| Up {
            grow: ConvTranspose2d::builder(inputs, outputs, 2)
                .stride(2)
                .build(random),
            convs: Pair::new(inputs, outputs, random),
        };
        Self {
            down: down.into(),
            up: [(64, 32), (32, 16)].map(&mut up).into(),
            head: Conv2d::builder(16, 1, 1).build(random),
        }
    }
}

impl Pair {
    fn new(inputs: usize, outputs: usize, random: &mut Generator) -> Self {
        let mut conv = |inputs| Conv2d::builder(inputs, outputs, 3).padding(1).build(random);
        Self {
            conv1: conv(inputs),
            conv2: conv(outputs),
        }
    }
}

impl Link for Pair {
    fn compute(&self, x: &Variable) -> Variable {
        relu(self.conv2.forward(&relu(self.conv1.forward(x))))
    }
}

impl Link for UNet {
    fn compute(&self, x: &Variable) -> Variable {
        let mut sizes: Vec<Variable> = Vec::new();
        for pair in &self.down {
            let x = match sizes.last() {
                Some(h) => max_pool(h, Pooling::new([2, 2]).stride(2)),
                None => x.clone(),
            };
            sizes.push(pair.forward(&x));
        }
        let mut h = sizes.pop().expect("the coarsest");
        for (up, shortcut) in self.up.iter().zip(sizes.iter().rev()) {
            h = up
                .convs
                .forward(&concat([shortcut, &up.grow.forward(&h)], 1));
        }
        self.head.forward(&h)
    }
}

/// The loss of a critic whose gradient is to have length 1 between true and made examples (Gulrajani
/// et al. 2017, arXiv:1704.00028).
fn critic_loss(critic: &Mlp, [real, fake, weights]: &[Variable; 3]) -> Variable {
    let between = real * weights + fake * (1.0 - weights);
    let slopes = grad(|x| critic.forward(x).sum(..), &between);
    let penalty = (sqrt(slopes.square().sum(1)) - 1.0).square().mean(..);
    critic.forward(fake).mean(..) - critic.forward(real).mean(..) + 10.0 * penalty
}

/// A policy and a value of what is observed.
#[derive(Chain)]
struct Agent {
    trunk: Mlp,
    policy: Linear,
    value: Linear,
}

impl Agent {
    fn new() -> Self {
        let random = &mut Generator::new(0);
        Self {
            trunk: Mlp::new(&[8, 64, 64], random),
            policy: Linear::new(64, 4, random),
            value: Linear::new(64, 1, random),
        }
    }
}

/// The clipped loss of proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).
fn proximal_policy_loss(
    agent: &Agent,
    [observed, actions, before, advantages, returns]: &[Variable; 5],
) -> Variable {
    let h = tanh(agent.trunk.forward(observed));
    let log_policy = log_softmax(agent.policy.forward(&h), -1);
    let ratio = exp(select_item(&log_policy, actions) - before);
    let gain = minimum(&ratio * advantages, clip(&ratio, 0.8, 1.2) * advantages);
    let value = agent.value.forward(&h).squeeze(-1);
    let entropy = -(exp(&log_policy) * &log_policy).sum(-1).mean(..);
    (value - returns).square().mean(..) * 0.5 - gain.mean(..) - entropy * 0.01
}
