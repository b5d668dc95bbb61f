//! A normalising flow (RealNVP) learns the density of two half-moons: a chain of functions with simple
//! inverses, each of which shifts and stretches one coordinate by a network of the other. The layer is a
//! bijector of the program's own; samples, densities and their gradients come with it.
//!
//! Source: L. Dinh, J. Sohl-Dickstein, S. Bengio, "Density estimation using Real NVP", 2017.

use std::f64::consts::PI;

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::distributions::bijectors::Bijector;
use bibun::distributions::{Distribution, Independent, Normal, Reparameterized, Transformed};
use bibun::functions::{concat, random_normal, random_uniform};
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{no_grad, s};

/// One coordinate stays, and says how the other moves.
#[derive(Clone, Chain)]
struct Coupling {
    network: Mlp,
    #[chain(skip)]
    stays: usize,
}

impl Coupling {
    fn new(stays: usize, random: &mut Generator) -> Self {
        let network = Mlp::builder(&[1, 64, 64, 2])
            .activation(Variable::tanh)
            .build(random);
        Self { network, stays }
    }

    /// The coordinate that stays, the other one, and how that moves: the logarithm of a factor, a shift.
    fn parts(&self, x: &Variable) -> [Variable; 4] {
        let column = |i: usize| x.slice(s![.., i as isize..i as isize + 1]);
        let (kept, other) = (column(self.stays), column(1 - self.stays));
        let both = self.network.forward(&kept);
        let (log_scale, shift) = (both.slice(s![.., ..1]).tanh(), both.slice(s![.., 1..]));
        [kept, other, log_scale, shift]
    }

    fn joined(&self, kept: &Variable, other: &Variable) -> Variable {
        match self.stays {
            0 => concat([kept, other], 1),
            _ => concat([other, kept], 1),
        }
    }
}

impl Bijector for Coupling {
    fn name(&self) -> &'static str {
        "Coupling"
    }

    fn event_rank(&self) -> usize {
        1
    }

    fn forward(&self, x: &Variable) -> Variable {
        let [kept, other, log_scale, shift] = self.parts(x);
        self.joined(&kept, &(other * log_scale.exp() + shift))
    }

    fn inverse(&self, y: &Variable) -> Variable {
        let [kept, other, log_scale, shift] = self.parts(y);
        self.joined(&kept, &((other - shift) * (-log_scale).exp()))
    }

    fn log_abs_det_jacobian(&self, _: &Variable, y: &Variable) -> Variable {
        let [_, _, log_scale, _] = self.parts(y);
        log_scale.sum(1)
    }
}

/// Points on two half-circles that reach into each other, with noise.
fn moons(count: usize, random: &mut Generator) -> Variable {
    let angle = random_uniform([count, 1], 0.0, PI, DType::F32, random);
    let upper = random.bernoulli(0.5, [count, 1]);
    let side = 2.0 * Variable::constant(upper.cast(DType::F32)) - 1.0;
    let x = &side * angle.cos() - 0.5 * &side + 0.5;
    let y = &side * (angle.sin() - 0.25);
    concat([&x, &y], 1) + 0.08 * random_normal([count, 2], 0.0, 1.0, DType::F32, random)
}

fn main() {
    let random = &mut Generator::new(0);
    let layers: Vec<Coupling> = (0..6).map(|i| Coupling::new(i % 2, random)).collect();
    let base = Independent::new(Normal::new([0.0f32, 0.0], 1.0f32), 1);
    let flow = Transformed::new(base, layers);

    let test = moons(4000, random);
    let loss = |x: &Variable| -flow.log_prob(x).mean(..);
    let mut optimizer = Adam::new(2e-3);
    for step in 0..1200 {
        if step % 200 == 0 {
            println!(
                "step {step:4}: {:.3} nats a point",
                no_grad(|| loss(&test)).item::<f32>()
            );
        }
        let x = moons(256, random);
        optimizer.minimize(&flow.bijector, &mut || loss(&x));
    }

    // What a normal distribution of both coordinates reaches, which is what the flow starts from.
    let (mean, deviation) = (test.mean(0), test.std(0, 0));
    let normal = Independent::new(Normal::new(mean, deviation), 1);
    let of_normal = -normal.log_prob(&test).mean(..).item::<f32>();
    let of_flow = no_grad(|| loss(&test)).item::<f32>();
    println!("a normal distribution {of_normal:.3}, the flow {of_flow:.3} nats a point");
    assert!(
        of_flow < of_normal - 0.9,
        "the flow has not found the moons"
    );

    // There and back again.
    let x = no_grad(|| flow.rsample([1000], random));
    let back = no_grad(|| flow.bijector.forward(&flow.bijector.inverse(&x)));
    let error = (back - &x).abs().max(..).item::<f32>();
    println!("the inverse of the inverse is off by {error:.1e}");
    assert!(error < 1e-3);
}
