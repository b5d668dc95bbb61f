//! The gradient of a convolution's weights for every example in a batch, computed in four ways.
//!
//! An old trick computes it with a single convolution: each channel of each example is a group of its own,
//! and the cotangent, repeated for every channel, is the kernel. One call returns all gradients, and yet
//! it is slower than a loop over the examples: the repeated cotangents are many times the data that is
//! otherwise read, and no group has more than one channel to share work with.

use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};
use bibun::functions::{ConvOptions, Padding, conv2d, stack};
use bibun::{GradOptions, Variable, gradients_with, per_example, s};

/// A layer's batch, channels, size of pictures, size of kernels and padding.
struct Layer {
    n: usize,
    inputs: usize,
    outputs: usize,
    size: usize,
    kernel: usize,
    padding: usize,
}

impl Layer {
    fn options(&self) -> ConvOptions<2> {
        ConvOptions {
            padding: Padding::from(self.padding),
            ..ConvOptions::new()
        }
    }
}

/// The gradient of `Σ gy · conv(x, w)` for the whole batch.
fn ordinary(layer: &Layer, [x, gy]: [&Variable; 2], w: &Variable) -> Variable {
    let y = conv2d(x, w, None, layer.options());
    let gradients = gradients_with(&[&y], &[w], GradOptions::new().cotangents(&[gy]));
    gradients.into_iter().flatten().next().expect("a gradient")
}

/// One example after the other.
fn by_loop(layer: &Layer, [x, gy]: [&Variable; 2], w: &Variable) -> Variable {
    let of_example = |i: usize| {
        let [x, gy] = [x, gy].map(|batch| batch.slice(s![i..i + 1]));
        ordinary(layer, [&x, &gy], w)
    };
    let each: Vec<Variable> = (0..layer.n).map(of_example).collect();
    stack(each.iter(), 0)
}

/// The trick: a depthwise convolution of all channels of all examples by the cotangents.
fn by_depthwise(layer: &Layer, [x, gy]: [&Variable; 2], w: &Variable) -> Variable {
    let (n, inputs, outputs) = (layer.n, layer.inputs, layer.outputs);
    let positions = gy.shape()[2];
    let channels = x.reshape([1, n * inputs, layer.size, layer.size]);
    let kernels = gy
        .expand_dims(1)
        .broadcast_to([n, inputs, outputs, positions, positions])
        .reshape([n * inputs * outputs, 1, positions, positions]);
    let options = ConvOptions {
        groups: n * inputs,
        ..layer.options()
    };
    let [height, width] = [w.shape()[2], w.shape()[3]];
    conv2d(channels, kernels, None, options)
        .reshape([n, inputs, outputs, height, width])
        .swapaxes(1, 2)
}

/// One walk back, with the examples kept apart.
fn by_one_walk(layer: &Layer, [x, gy]: [&Variable; 2], w: &Variable) -> Variable {
    let y = conv2d(x, w, None, layer.options());
    per_example(&(y * gy).sum([1, 2, 3]), w).rows()
}

/// The shortest of a few runs.
fn time(run: impl Fn() -> Variable) -> Duration {
    let runs = (0..5).map(|_| {
        let start = Instant::now();
        drop(run());
        start.elapsed()
    });
    runs.min().expect("runs")
}

fn main() {
    let layer = |inputs, outputs, size, padding| Layer {
        n: 32,
        inputs,
        outputs,
        size,
        kernel: 3,
        padding,
    };
    let layers = [
        layer(32, 64, 26, 0),
        layer(32, 32, 32, 1),
        layer(64, 128, 8, 1),
    ];
    let random = &mut Generator::new(0);
    println!("| layer | batch | ordinary, ms | depthwise, ms | loop, ms | per_example, ms |");
    println!("|---|---|---|---|---|---|");
    for layer in &layers {
        let mut normal = |shape: [usize; 4]| random.normal(shape, 0.0, 1.0, DType::F32);
        let x = normal([layer.n, layer.inputs, layer.size, layer.size]);
        let w = normal([layer.outputs, layer.inputs, layer.kernel, layer.kernel]);
        let positions = layer.size + 2 * layer.padding + 1 - layer.kernel;
        let gy = normal([layer.n, layer.outputs, positions, positions]);
        let [x, gy] = [x, gy].map(Variable::constant);
        let (w, given) = (Variable::new(w), [&x, &gy]);

        // All are the same gradients, and their sum is the batch's.
        let expected = by_loop(layer, given, &w);
        let largest = |x: &Variable| x.abs().max(..).item::<f32>();
        for each in [by_depthwise, by_one_walk] {
            let difference = each(layer, given, &w) - &expected;
            assert!(largest(&difference) < 1e-4 * largest(&expected));
        }
        let sum = ordinary(layer, given, &w);
        assert!(largest(&(expected.sum(0) - &sum)) < 1e-4 * largest(&sum));

        let Layer {
            n,
            inputs,
            outputs,
            size,
            kernel,
            ..
        } = layer;
        print!("| {inputs} to {outputs} channels, {kernel}x{kernel} on {size}x{size} | {n} |");
        for way in [ordinary, by_depthwise, by_loop, by_one_walk] {
            let time = time(|| way(layer, given, &w));
            print!(" {:.1} |", time.as_secs_f64() * 1e3);
        }
        println!();
    }
}
