//! A network that learns to swing from the law of a damped spring alone, `u'' + 2 γ u' + ω² u = 0`
//! with `u(0) = 1` and `u'(0) = 0`. It sees no solution, only how far it is from satisfying the law:
//! derivatives by time are part of the loss, which is differentiated with respect to the weights.
//!
//! Source: Raissi, Perdikaris, Karniadakis, "Physics-informed neural networks", 2019.

use bibun::array::{Array, DType, Generator};
use bibun::initializers::GlorotNormal;
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, jvp, value_and_grad, vmap};

const GAMMA: f64 = 0.5;
const OMEGA: f64 = 3.0;
const END: f64 = 2.0;

#[derive(Chain)]
struct Network {
    layers: [Linear; 3],
}

impl Network {
    fn new(random: &mut Generator) -> Self {
        let layers = [(1, 24), (24, 24), (24, 1)].map(|(inputs, outputs)| {
            let layer = Linear::builder(inputs, outputs).dtype(DType::F64);
            layer.initializer(GlorotNormal).build(random)
        });
        Self { layers }
    }

    /// The displacement at a single time. Its form has the initial values built in.
    fn displacement(&self, t: &Variable) -> Variable {
        let [first, second, last] = &self.layers;
        let h = first.forward(&(t - END / 2.0).reshape([1])).tanh();
        let h = second.forward(&h).tanh();
        1.0 + t.tanh().square() * last.forward(&h).sum(..)
    }

    /// By how much the law is broken at a single time.
    fn residual(&self, t: &Variable) -> Variable {
        let velocity = |t: &Variable| value_and_grad(|t| self.displacement(t), t);
        let ((u, du), (_, ddu)) = jvp(velocity, t, &Variable::constant(1.0));
        ddu + 2.0 * GAMMA * du + OMEGA * OMEGA * u
    }
}

fn exact(t: f64) -> f64 {
    let frequency = (OMEGA * OMEGA - GAMMA * GAMMA).sqrt();
    let (sin, cos) = (frequency * t).sin_cos();
    (-GAMMA * t).exp() * (cos + GAMMA / frequency * sin)
}

fn main() {
    let model = Network::new(&mut Generator::new(0));
    let times = Variable::constant(Array::linspace(0.0, END, 24));
    let loss = |model: &Network| vmap(|t| model.residual(t), &times).square().mean(..);

    let mut optimizer = Adam::new(0.02).betas(0.9, 0.99);
    let steps = 2000;
    for step in 0..steps {
        // The rate falls to zero along half a wave.
        let phase = std::f64::consts::PI * step as f64 / steps as f64;
        optimizer.set_learning_rate(0.01 * (1.0 + phase.cos()));
        let (loss, gradient) = value_and_grad(loss, &model);
        if step % 400 == 0 {
            println!("step {step:4}: loss {:.1e}", loss.item::<f64>());
        }
        model.set_gradients(&gradient);
        optimizer.update(&model);
    }

    // Between the times at which it learned, too.
    let times = Variable::constant(Array::linspace(0.0, END, 101));
    let u = vmap(|t| model.displacement(t), &times).to_vec::<f64>();
    let mut worst = 0f64;
    for (i, (t, u)) in times.to_vec().into_iter().zip(u).enumerate() {
        worst = worst.max((u - exact(t)).abs());
        if i % 5 == 0 {
            let column = (30.0 + 30.0 * u).round() as usize;
            println!("{t:.1} {:column$}*", "");
        }
    }
    println!("largest error: {worst:.1e}");
    assert!(worst < 1e-3);
}
