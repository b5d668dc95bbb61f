//! Low-rank adapters: a network that reads digits learns to read them rotated onto their side, without a
//! change of its weights. Beside every layer is a product of two narrow matrices, and only these are
//! trained and saved.
//!
//! Source: Hu et al., "LoRA: Low-rank adaptation of large language models", arXiv:2106.09685, 2021.

use std::fs;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::Digits;
use bibun::functions::{accuracy, avg_pool, relu, softmax_cross_entropy};
use bibun::initializers::{HeNormal, Initializer};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, Optimizer};
use bibun::serializers::{load_npz, save_npz};
use bibun::{Variable, no_grad};

const RANK: usize = 4;

#[derive(Chain)]
struct Network {
    layers: [Linear; 3],
}

impl Network {
    fn new(random: &mut Generator) -> Self {
        Self {
            layers: [(196, 64), (64, 64), (64, 10)].map(|(i, o)| Linear::new(i, o, random)),
        }
    }
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let [first, second, last] = &self.layers;
        last.forward(&relu(second.forward(&relu(first.forward(x)))))
    }
}

/// `x downᵀ upᵀ`: what is added to a layer `x wᵀ`. It begins as nothing, for `up` is zero.
#[derive(Chain)]
struct Adapter {
    /// `[RANK, inputs]`
    down: Variable,
    /// `[outputs, RANK]`
    up: Variable,
}

impl Adapter {
    fn beside(layer: &Linear, random: &mut Generator) -> Self {
        let [outputs, inputs] = layer.weight.shape()[..] else {
            unreachable!("weights are a matrix")
        };
        let down = HeNormal.initialize(&[RANK, inputs].into(), DType::F32, random);
        Self {
            down: Variable::new(down),
            up: Variable::new(Array::zeros([outputs, RANK], DType::F32)),
        }
    }
}

impl Link for Adapter {
    fn compute(&self, x: &Variable) -> Variable {
        x.matmul(self.down.transpose()).matmul(self.up.transpose())
    }
}

#[derive(Chain)]
struct Adapted {
    base: Network,
    adapters: [Adapter; 3],
}

impl Adapted {
    /// The network, frozen, with adapters that do nothing yet.
    fn new(base: Network, random: &mut Generator) -> Self {
        base.freeze();
        let adapters = base
            .layers
            .each_ref()
            .map(|layer| Adapter::beside(layer, random));
        Self { base, adapters }
    }

    /// The network that does the same without adapters: `w + up down` in place of `w`.
    fn merged(&self) -> Network {
        let merge = |(layer, adapter): (&Linear, &Adapter)| Linear {
            weight: Variable::new((&layer.weight + adapter.up.matmul(&adapter.down)).array()),
            bias: layer.bias.as_ref().map(|b| Variable::new(b.array())),
        };
        let mut layers = self.base.layers.iter().zip(&self.adapters).map(merge);
        Network {
            layers: std::array::from_fn(|_| layers.next().expect("an adapter for each layer")),
        }
    }
}

impl Link for Adapted {
    fn compute(&self, x: &Variable) -> Variable {
        let layer =
            |i: usize, x: &Variable| self.base.layers[i].forward(x) + self.adapters[i].forward(x);
        layer(2, &relu(layer(1, &relu(layer(0, x)))))
    }
}

/// Images `[n, 196]` and their digits.
type Data = (Variable, Variable);

fn upright(digits: std::ops::Range<u64>) -> Data {
    let images = Digits::new(0).images(digits);
    let n = images.len();
    let (x, t) = images.batch(&(0..n).collect::<Vec<_>>());
    let x = avg_pool(Variable::constant(x.reshape([n, 28, 28])), [2, 2]);
    (x.reshape([n, 196]), Variable::constant(t))
}

fn on_their_side((x, t): &Data) -> Data {
    let n = x.shape()[0];
    let turned = x.reshape([n, 14, 14]).swapaxes(1, 2).flip(2);
    (turned.reshape([n, 196]), t.clone())
}

fn train(model: &impl Link, (x, t): &Data, epochs: usize) {
    const BATCH: usize = 50;
    let mut optimizer = Adam::new(0.003);
    for start in (0..epochs).flat_map(|_| (0..x.shape()[0]).step_by(BATCH)) {
        let batch = |v: &Variable| v.slice(bibun::s![start..start + BATCH]);
        optimizer.minimize(model, &mut || {
            softmax_cross_entropy(model.forward(&batch(x)), batch(t))
        });
    }
}

fn right(model: &impl Link, (x, t): &Data) -> f64 {
    no_grad(|| accuracy(&model.forward(x), t))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("bibun-lora-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let [base_file, adapter_file] = ["base.npz", "adapters.npz"].map(|name| folder.join(name));
    let random = &mut Generator::new(0);
    let (seen, unseen) = (upright(0..4000), upright(4000..5000));
    let (turned, unseen_turned) = (on_their_side(&seen), on_their_side(&unseen));

    let base = Network::new(random);
    train(&base, &seen, 12);
    save_npz(&base_file, &base.state())?;
    let (up, side) = (right(&base, &unseen), right(&base, &unseen_turned));
    println!("the network: {up:.3} of upright digits, {side:.3} of those on their side");

    // Adapters that do nothing, and then all that is trained.
    let checksum = base.state().checksum();
    let adapted = Adapted::new(base, random);
    assert_eq!(right(&adapted, &unseen), up);
    train(&adapted, &turned, 25);
    let side_after = right(&adapted, &unseen_turned);
    assert_eq!(adapted.base.state().checksum(), checksum);
    let (all, trained) = (
        adapted.parameter_count(),
        adapted.trainable_parameter_count(),
    );
    println!("with {trained} of {all} parameters trained: {side_after:.3} of those on their side");

    // Only these are saved.
    save_npz(&adapter_file, &adapted.trainable_state())?;
    let size = |file| fs::metadata(file).map(|file| file.len());
    let (base_size, adapter_size) = (size(&base_file)?, size(&adapter_file)?);
    println!("the network is a file of {base_size} bytes, its adapters one of {adapter_size}");

    // Another process: the same network, other adapters, then these.
    let random = &mut Generator::new(1);
    let fresh = Adapted::new(Network::new(random), random);
    fresh.base.load_state(&load_npz(&base_file)?)?;
    fresh.load_trainable_state(&load_npz(&adapter_file)?)?;
    let (x, _) = &unseen_turned;
    let (expected, found) = no_grad(|| (adapted.forward(x), fresh.forward(x)));
    assert_eq!(found.to_vec::<f32>(), expected.to_vec::<f32>());

    // Or without adapters, as fast as the network was.
    let merged = no_grad(|| adapted.merged());
    let difference = (no_grad(|| merged.forward(x)) - &expected).abs().max(..);
    assert!(difference.item::<f32>() < 1e-3);
    assert_eq!(merged.parameter_count(), adapted.base.parameter_count());

    assert!(up > 0.8 && side < 0.3 && side_after > 0.65);
    assert!(adapter_size < 12_000 && 5 * adapter_size < base_size);
    assert_eq!(trained, RANK * ((196 + 64) + (64 + 64) + (64 + 10)));
    fs::remove_dir_all(folder)?;
    Ok(())
}
