//! A Wasserstein GAN with a gradient penalty learns eight clusters on a circle. The penalty is a function of the
//! critic's gradient, so that training differentiates a derivative.
//!
//! Source: I. Gulrajani et al., "Improved training of Wasserstein GANs", arXiv:1704.00028, 2017.

use std::f64::consts::TAU;

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::{random_normal, random_uniform, stack};
use bibun::links::{Link, Mlp};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{grad, no_grad};

const BATCH: usize = 128;
const CLUSTERS: usize = 8;
const DEVIATION: f64 = 0.05;

/// Points of the clusters, on the circle of radius 1.
fn real(count: usize, random: &mut Generator) -> Variable {
    let cluster = Variable::constant(
        random
            .integers(0, CLUSTERS as i64, [count])
            .cast(DType::F32),
    );
    let angle = cluster * (TAU / CLUSTERS as f64);
    let centers = stack([angle.cos(), angle.sin()], 1);
    centers + random_normal([count, 2], 0.0, DEVIATION, DType::F32, random)
}

fn main() {
    let random = &mut Generator::new(0);
    let network = |sizes: &[usize], random: &mut Generator| {
        Mlp::builder(sizes)
            .activation(|x| x.leaky_relu(0.2))
            .build(random)
    };
    let critic = network(&[2, 128, 128, 1], random);
    let generator = network(&[8, 128, 128, 2], random);
    let noise =
        |count, random: &mut Generator| random_normal([count, 8], 0.0, 1.0, DType::F32, random);

    let optimizer = || Adam::new(1e-3).betas(0.5, 0.9);
    let (mut of_critic, mut of_generator) = (optimizer(), optimizer());
    for step in 0..3000 {
        let mut distance = 0.0;
        for _ in 0..3 {
            let x = real(BATCH, random);
            let y = no_grad(|| generator.forward(&noise(BATCH, random)));
            // Points between real and made ones, where the critic's slope is to be 1.
            let part = random_uniform([BATCH, 1], 0.0, 1.0, DType::F32, random);
            let between = &x + part * (&y - &x);
            let mut loss = || {
                let gap = critic.forward(&x).mean(..) - critic.forward(&y).mean(..);
                distance = gap.item::<f32>();
                let slopes = grad(|x| critic.forward(x).sum(..), &between);
                let penalty = (slopes.norm(1) - 1.0).square().mean(..);
                0.1 * penalty - gap
            };
            of_critic.minimize(&critic, &mut loss);
        }
        let z = noise(BATCH, random);
        of_generator.minimize(&generator, &mut || {
            -critic.forward(&generator.forward(&z)).mean(..)
        });
        if step % 500 == 0 {
            println!("step {step:4}: distance {distance:.3}");
        }
    }

    // Which clusters are met, and how many points are near one.
    let made = no_grad(|| generator.forward(&noise(4000, random))).to_vec::<f32>();
    let mut counts = [0; CLUSTERS];
    for point in made.chunks(2) {
        let (x, y) = (f64::from(point[0]), f64::from(point[1]));
        let cluster = (y.atan2(x) / TAU * CLUSTERS as f64)
            .round()
            .rem_euclid(CLUSTERS as f64);
        let angle = cluster * TAU / CLUSTERS as f64;
        if (x - angle.cos()).hypot(y - angle.sin()) < 5.0 * DEVIATION {
            counts[cluster as usize] += 1;
        }
    }
    let near = counts.iter().sum::<i32>() as f64 / 4000.0;
    println!("points near each cluster {counts:?}, {near:.3} of all");
    assert!(
        counts.iter().all(|&count| count > 150),
        "a cluster is missing"
    );
    assert!(near > 0.6, "too many points are between the clusters");
}
