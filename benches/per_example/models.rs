//! The models, in the sizes in which the literature measures gradients of examples.

use bibun::Variable;
use bibun::array::Generator;
use bibun::functions::{Pooling, concat, global_avg_pool, matmul, relu, softmax, split, unstack};
use bibun::links::{Chain, Conv2d, Embedding, GroupNorm, LayerNorm, Linear, Link};

/// Linear layers with ReLUs between: Goodfellow, "Efficient per-example gradient computations",
/// arXiv:1510.01799, has it wide and shallow.
#[derive(Chain)]
pub(crate) struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    pub(crate) fn new(sizes: &[usize], random: &mut Generator) -> Self {
        let pairs = sizes.windows(2);
        Self {
            layers: pairs
                .map(|pair| Linear::new(pair[0], pair[1], random))
                .collect(),
        }
    }
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        let (first, rest) = self.layers.split_first().expect("layers");
        rest.iter()
            .fold(first.forward(x), |h, layer| layer.forward(&relu(h)))
    }
}

/// Each example as a vector.
fn vectors(x: &Variable) -> Variable {
    let n = x.shape()[0];
    x.reshape([n, x.size() / n])
}

/// The network that tutorials on training with differential privacy begin with, for digits.
#[derive(Chain)]
pub(crate) struct MnistNet {
    conv1: Conv2d,
    conv2: Conv2d,
    linear1: Linear,
    linear2: Linear,
}

impl MnistNet {
    pub(crate) fn new(random: &mut Generator) -> Self {
        Self {
            conv1: Conv2d::builder(1, 16, 8).stride(2).padding(3).build(random),
            conv2: Conv2d::builder(16, 32, 4).stride(2).build(random),
            linear1: Linear::new(512, 32, random),
            linear2: Linear::new(32, 10, random),
        }
    }
}

impl Link for MnistNet {
    fn compute(&self, x: &Variable) -> Variable {
        let windows = Pooling::new([2, 2]).stride(1);
        let h = relu(self.conv1.forward(x)).max_pool(&windows);
        let h = relu(self.conv2.forward(&h)).max_pool(&windows);
        self.linear2
            .forward(&relu(self.linear1.forward(&vectors(&h))))
    }
}

/// Two large convolutions and a larger linear layer, for digits.
#[derive(Chain)]
pub(crate) struct SimpleCnn {
    conv1: Conv2d,
    conv2: Conv2d,
    linear1: Linear,
    linear2: Linear,
}

impl SimpleCnn {
    pub(crate) fn new(random: &mut Generator) -> Self {
        Self {
            conv1: Conv2d::new(1, 32, 3, random),
            conv2: Conv2d::new(32, 64, 3, random),
            linear1: Linear::new(9216, 128, random),
            linear2: Linear::new(128, 10, random),
        }
    }
}

impl Link for SimpleCnn {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.conv1.forward(x));
        let h = relu(self.conv2.forward(&h)).max_pool([2, 2]);
        self.linear2
            .forward(&relu(self.linear1.forward(&vectors(&h))))
    }
}

/// Eight convolutions, in pairs between averages, for small pictures in colour.
#[derive(Chain)]
pub(crate) struct CifarCnn {
    convs: Vec<Conv2d>,
}

impl CifarCnn {
    pub(crate) fn new(random: &mut Generator) -> Self {
        let channels = [3, 32, 32, 64, 64, 128, 128, 256, 10];
        let layer = |pair: &[usize]| {
            Conv2d::builder(pair[0], pair[1], 3)
                .padding(1)
                .build(random)
        };
        Self {
            convs: channels.windows(2).map(layer).collect(),
        }
    }
}

impl Link for CifarCnn {
    fn compute(&self, x: &Variable) -> Variable {
        let mut h = x.clone();
        for (i, conv) in self.convs.iter().enumerate() {
            if i > 0 {
                h = relu(h);
            }
            if i > 0 && i % 2 == 0 {
                h = h.avg_pool([2, 2]);
            }
            h = conv.forward(&h);
        }
        global_avg_pool(h)
    }
}

/// The mean of the vectors of words, and a linear layer: for whether a review was a good one.
#[derive(Chain)]
pub(crate) struct EmbeddingNet {
    table: Embedding,
    linear: Linear,
}

impl EmbeddingNet {
    pub(crate) fn new(random: &mut Generator) -> Self {
        Self {
            table: Embedding::new(10_004, 16, random),
            linear: Linear::new(16, 2, random),
        }
    }
}

impl Link for EmbeddingNet {
    fn compute(&self, words: &Variable) -> Variable {
        self.linear.forward(&self.table.forward(words).mean(1))
    }
}

/// A long short-term memory of 100 units, written out of linear layers (Hochreiter and Schmidhuber
/// 1997, with a forget gate), and a linear layer on the mean of its states.
#[derive(Chain)]
pub(crate) struct Lstm {
    input: Linear,
    hidden: Linear,
    head: Linear,
}

impl Lstm {
    pub(crate) fn new(random: &mut Generator) -> Self {
        Self {
            input: Linear::new(100, 400, random),
            hidden: Linear::new(100, 400, random),
            head: Linear::new(100, 2, random),
        }
    }
}

impl Link for Lstm {
    fn compute(&self, x: &Variable) -> Variable {
        let steps = unstack(self.input.forward(x), 1);
        let mut state: Option<[Variable; 2]> = None;
        let mut outputs = Vec::with_capacity(steps.len());
        for step in &steps {
            let gates = match &state {
                Some([h, _]) => step + self.hidden.forward(h),
                // The first state is zero, of which the biases are left.
                None => step + self.hidden.bias.as_ref().expect("a layer with biases"),
            };
            let [i, f, g, o] = &split(gates, 4, 1)[..] else {
                unreachable!("four gates")
            };
            let new = i.sigmoid() * g.tanh();
            let c = match &state {
                Some([_, c]) => f.sigmoid() * c + new,
                None => new,
            };
            let h = o.sigmoid() * c.tanh();
            outputs.push(h.expand_dims(1));
            state = Some([h, c]);
        }
        let outputs: Vec<&Variable> = outputs.iter().collect();
        self.head.forward(&concat(&outputs, 1).mean(1))
    }
}

/// A block of a transformer that normalises before each part (Vaswani et al. 2017, arXiv:1706.03762;
/// Xiong et al. 2020, arXiv:2002.04745), and a linear layer on the mean of its outputs.
#[derive(Chain)]
pub(crate) struct Transformer {
    norm1: LayerNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
    head: Linear,
}

impl Transformer {
    const WIDTH: usize = 128;
    const HEADS: usize = 4;

    pub(crate) fn new(random: &mut Generator) -> Self {
        let width = Self::WIDTH;
        let mut linear = |inputs, outputs| Linear::new(inputs, outputs, random);
        Self {
            norm1: LayerNorm::new(width),
            query: linear(width, width),
            key: linear(width, width),
            value: linear(width, width),
            output: linear(width, width),
            norm2: LayerNorm::new(width),
            up: linear(width, 4 * width),
            down: linear(4 * width, width),
            head: linear(width, 10),
        }
    }

    fn attention(&self, x: &Variable) -> Variable {
        let (n, length) = (x.shape()[0], x.shape()[1]);
        let size = Self::WIDTH / Self::HEADS;
        let heads = |layer: &Linear| {
            let y = layer.forward(x).reshape([n, length, Self::HEADS, size]);
            y.permute(&[0, 2, 1, 3])
        };
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let scores = matmul(q, k.swapaxes(2, 3)) / (size as f64).sqrt();
        let mixed = matmul(softmax(scores, -1), v).permute(&[0, 2, 1, 3]);
        self.output
            .forward(&mixed.reshape([n, length, Self::WIDTH]))
    }
}

impl Link for Transformer {
    fn compute(&self, x: &Variable) -> Variable {
        let x = x + self.attention(&self.norm1.forward(x));
        let h = relu(self.up.forward(&self.norm2.forward(&x)));
        let x = x + self.down.forward(&h);
        self.head.forward(&x.mean(1))
    }
}

/// Two convolutions beside a shortcut (He et al. 2015, arXiv:1512.03385), with group normalisation.
#[derive(Chain)]
struct Residual {
    conv1: Conv2d,
    norm1: GroupNorm,
    conv2: Conv2d,
    norm2: GroupNorm,
    shortcut: Option<Conv2d>,
}

impl Residual {
    fn new(inputs: usize, outputs: usize, stride: usize, random: &mut Generator) -> Self {
        let conv = |inputs, outputs, kernel: usize, stride: usize| {
            let builder = Conv2d::builder(inputs, outputs, kernel).stride(stride);
            builder.padding(kernel / 2).without_bias()
        };
        Self {
            conv1: conv(inputs, outputs, 3, stride).build(random),
            norm1: GroupNorm::new(8, outputs),
            conv2: conv(outputs, outputs, 3, 1).build(random),
            norm2: GroupNorm::new(8, outputs),
            shortcut: (inputs != outputs).then(|| conv(inputs, outputs, 1, stride).build(random)),
        }
    }
}

impl Link for Residual {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm1.forward(&self.conv1.forward(x)));
        let h = self.norm2.forward(&self.conv2.forward(&h));
        match &self.shortcut {
            Some(shortcut) => relu(h + shortcut.forward(x)),
            None => relu(h + x),
        }
    }
}

/// A small residual network: three stages of two blocks.
#[derive(Chain)]
pub(crate) struct ResNet {
    stem: Conv2d,
    norm: GroupNorm,
    blocks: Vec<Residual>,
    linear: Linear,
}

impl ResNet {
    pub(crate) fn new(random: &mut Generator) -> Self {
        let stem = Conv2d::builder(3, 16, 3).padding(1).without_bias();
        let mut block = |inputs, outputs, stride| Residual::new(inputs, outputs, stride, random);
        let blocks = vec![
            block(16, 16, 1),
            block(16, 16, 1),
            block(16, 32, 2),
            block(32, 32, 1),
            block(32, 64, 2),
            block(64, 64, 1),
        ];
        Self {
            stem: stem.build(random),
            norm: GroupNorm::new(8, 16),
            blocks,
            linear: Linear::new(64, 10, random),
        }
    }
}

impl Link for ResNet {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm.forward(&self.stem.forward(x)));
        let h = self.blocks.iter().fold(h, |h, block| block.forward(&h));
        self.linear.forward(&global_avg_pool(h))
    }
}
