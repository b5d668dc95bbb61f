//! Learning to learn: a network from which one step of gradient descent, on ten points of a sine
//! wave it has never seen, makes a good fit. The loss after the step is differentiated with respect to the
//! weights before it, through the gradient that the step used.
//!
//! Source: Finn, Abbeel, Levine, "Model-agnostic meta-learning", ICML 2017.

use bibun::array::{DType, Generator};
use bibun::functions::mean_squared_error;
use bibun::initializers::GlorotNormal;
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, grad, tree_map, tree_zip, value_and_grad, vmap};

#[derive(Chain)]
struct Network {
    layers: [Linear; 3],
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let [first, second, last] = &self.layers;
        last.forward(&second.forward(&first.forward(x).tanh()).tanh())
    }
}

/// Points of sine waves, `[tasks, points, 1]`: those to learn from, and those to be judged by.
type Tasks = (Points, Points);
type Points = (Variable, Variable);

fn draw(tasks: usize, random: &mut Generator) -> Tasks {
    let amplitude = random.uniform([tasks, 1, 1], 0.5, 2.0, DType::F64);
    let phase = random.uniform([tasks, 1, 1], 0.0, std::f64::consts::PI, DType::F64);
    let mut points = || {
        let x = random.uniform([tasks, 10, 1], -3.0, 3.0, DType::F64);
        let y = &amplitude * (&x + &phase).sin();
        (x.into(), y.into())
    };
    (points(), points())
}

fn loss(model: &Network, (x, y): &Points) -> Variable {
    mean_squared_error(model.forward(x), y)
}

/// The model after so many steps on these points.
fn adapted(model: &Network, points: &Points, steps: usize) -> Network {
    let mut model = tree_map(Variable::clone, model);
    for _ in 0..steps {
        let gradient = grad(|model| loss(model, points), &model);
        model = tree_zip(|w, gw| w - 0.1 * gw, &model, &gradient);
    }
    model
}

/// The loss on unseen points after steps on seen ones, the mean over all tasks, which are learned
/// side by side.
fn loss_after(steps: usize, model: &Network, tasks: &Tasks) -> Variable {
    let of_one = |(seen, unseen): &Tasks| loss(&adapted(model, seen, steps), unseen);
    vmap(of_one, tasks).mean(..)
}

fn main() {
    let mut random = Generator::new(0);
    let layers = [(1, 24), (24, 24), (24, 1)].map(|(inputs, outputs)| {
        let layer = Linear::builder(inputs, outputs).dtype(DType::F64);
        layer.initializer(GlorotNormal).build(&mut random)
    });
    let model = Network { layers };
    let unknown = draw(100, &mut random);
    let losses = |model: &Network| {
        [0, 1, 5, 20].map(|steps| loss_after(steps, model, &unknown).item::<f64>())
    };
    let at_first = losses(&model);

    let mut optimizer = Adam::new(0.003);
    for step in 1..=1200 {
        let tasks = draw(16, &mut random);
        let (loss, gradient) = value_and_grad(|model| loss_after(1, model, &tasks), &model);
        model.set_gradients(&gradient);
        optimizer.update(&model);
        if step % 200 == 0 {
            println!("{step:4}: loss after a step {:.3}", loss.item::<f64>());
        }
    }

    let learned = losses(&model);
    println!("loss on unknown waves after 0, 1, 5, 20 steps");
    println!("from the start it began with: {at_first:.3?}");
    println!("from the start it has learned: {learned:.3?}");
    // A single step does more than twenty did.
    assert!(learned[1] < 0.5 * at_first[3]);
    assert!(learned[1] < 0.3 * learned[0]);
}
