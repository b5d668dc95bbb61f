//! Training on another device than the CPU: what is computed there, what it costs, and that nothing is
//! read in between.

use bibun::array::{Array, DType, Device, Distribution, Generator, cpu};
use bibun::functions::{self, relu, softmax_cross_entropy};
use bibun::links::{
    BatchNorm, Chain, Conv2d, Dropout, Embedding, Linear, Link, Lstm, Mlp, TransformerBlock,
};
use bibun::optimizers::hooks::{ClipNorm, ClipValue, GradientNoise, Lasso, WeightDecay};
use bibun::optimizers::{Lamb, Optimizer, Sgd};
use bibun::{Variable, attempt, grad, history, per_example};
use test_device::{BARE, Counting, expect_golden};

use crate::optimizers;

fn bits(x: &Array) -> Vec<u64> {
    let x = x.to(cpu()).cast(DType::F64).to_vec::<f64>();
    x.into_iter().map(f64::to_bits).collect()
}

fn drawn(g: &mut Generator, shape: &[usize]) -> Array {
    g.normal(shape, 0.0, 1.0, DType::F32)
}

/// Data and classes of eight examples.
fn batch(device: &'static dyn Device) -> (Variable, Variable) {
    let g = &mut Generator::new(1);
    let x = Variable::constant(drawn(g, &[8, 6]).to(device));
    (x, Variable::constant(g.integers(0, 3, 8).to(device)))
}

fn mlp(device: &'static dyn Device) -> Mlp {
    let model = Mlp::builder(&[6, 5, 3])
        .dropout(0.25)
        .build(&mut Generator::new(0));
    model.to(device);
    model
}

/// The parameters after three steps, and how often each function read from the device.
#[test]
fn every_optimizer_learns_the_same_on_a_device() {
    let train = |device: &'static dyn Device, mut optimizer: Box<dyn Optimizer>| {
        let (model, (x, t)) = (mlp(device), batch(device));
        let losses: Vec<f64> = (0..3)
            .map(|_| {
                let loss = optimizer
                    .minimize(&model, &mut || softmax_cross_entropy(model.forward(&x), &t));
                loss.item()
            })
            .collect();
        let parameters = model.parameters().into_iter();
        let parameters = parameters.map(|(_, w)| {
            let places = [w.device(), w.grad().expect("a gradient").device()];
            assert!(places == [device; 2], "a parameter has left its device");
            bits(&w.array())
        });
        (losses, parameters.collect::<Vec<_>>())
    };
    let others = optimizers::all(0.01).into_iter();
    for ((name, on_cpu), (_, on_device)) in optimizers::all(0.01).into_iter().zip(others) {
        let device = Counting::new(&["to", "item", "to_vec"]);
        let expected = train(cpu(), on_cpu);
        assert!(train(device, on_device) == expected, "{name}");
    }
    let hooked = || {
        let noisy = Lamb::new(0.01).hook(GradientNoise::new(0.01, 1));
        Box::new(noisy.hook(WeightDecay(0.1)).hook(ClipNorm(0.5)))
    };
    let expected = train(cpu(), hooked());
    assert!(train(&BARE, hooked()) == expected);
    assert!(train(Counting::new(&["to", "item"]), hooked()) == expected);
}

#[test]
fn a_step_reads_nothing_but_the_loss() {
    let mut all = optimizers::all(0.01);
    let hooked = Lamb::new(0.01)
        .hook(WeightDecay(0.1))
        .hook(ClipNorm(0.5))
        .hook(GradientNoise::new(0.01, 1))
        .hook(ClipValue(0.1))
        .hook(Lasso(0.1))
        .hook(ClipNorm(0.1));
    all.push(("with hooks", Box::new(hooked)));
    for (name, mut optimizer) in all {
        // A line search is done on the host.
        if name == "lbfgs" {
            continue;
        }
        let device = Counting::new(&["item"]);
        let (model, (x, t)) = (mlp(device), batch(device));
        let loss = || softmax_cross_entropy(model.forward(&x), &t);
        let mut step = || optimizer.minimize(&model, &mut || loss()).item::<f64>();
        step();
        let (_, counts) = device.counting(step);
        // Once for us, and once for a rule that follows the loss.
        let reads = if name == "eve" { 2 } else { 1 };
        assert_eq!(counts.copies, reads, "{name}: {counts:?}");
        assert_eq!(counts.kernels["update"], 4, "{name}: {counts:?}");
    }
}

/// What a step of training costs: forward and history, the walk back, the update.
fn costs(device: &Counting, model: &dyn Chain, loss: &dyn Fn() -> Variable) -> String {
    let mut optimizer = Sgd::new(0.01);
    // The first step makes what the others find.
    loss().backward();
    optimizer.update(model);
    model.clear_grads();
    let (y, forward) = device.counting(loss);
    let kept = history(&y).kept_bytes();
    let ((), backward) = device.counting(|| y.backward());
    drop(y);
    let ((), update) = device.counting(|| optimizer.update(model));
    let cells = [forward.cell(), backward.cell(), update.cell()];
    format!("{} | {kept:6} | {} | {}", cells[0], cells[1], cells[2])
}

#[derive(Chain)]
struct Convolutional {
    first: Conv2d,
    norm: BatchNorm,
    pointwise: Conv2d,
    head: Linear,
}

#[derive(Chain)]
struct Sequence<L> {
    words: Embedding,
    body: L,
    head: Linear,
}

impl<L: Link> Sequence<L> {
    fn loss(&self, words: &Variable, next: &Variable) -> Variable {
        let y = self
            .head
            .forward(&self.body.forward(&self.words.forward(words)));
        softmax_cross_entropy(y.reshape([8, 5]), next.reshape([8]))
    }
}

#[test]
fn steps_as_functions_are_made_on_the_device() {
    let device = Counting::new(&["to"]);
    let (eager, model, (x, t)) = (mlp(device), mlp(device), batch(device));
    let loss = |model: &Mlp| softmax_cross_entropy(model.forward(&x), &t);
    let make = || Lamb::new(0.01).hook(ClipNorm(0.1));
    let mut minimizer = make();
    for _ in 0..2 {
        minimizer.minimize(&eager, &mut || loss(&eager));
    }
    let (_, stepped, optimizer) = make().minimized(&model, loss);
    let (_, stepped, _) = optimizer.minimized(&stepped, loss);
    let parameters = eager.parameters().into_iter().zip(stepped.parameters());
    for ((name, a), (_, b)) in parameters {
        assert!(b.device() == device as &dyn Device, "{name}");
        assert_eq!(bits(&a.array()), bits(&b.array()), "{name}");
    }
}

const HEAD: &str = "\
# What a step of training costs on a device: kernels, allocations and copies on the way forward, bytes
# that history keeps, and kernels, allocations and copies on the way back and of the update (one kernel
# for each parameter).
# BLESS=1 cargo test -p bibun-tests --test bibun device::
";

#[test]
fn steps_of_training_cost_what_they_did() {
    let device = Counting::new(&["to"]);
    let g = &mut Generator::new(2);
    let mut table = HEAD.to_owned();
    let mut row = |name: &str, model: &dyn Chain, loss: &dyn Fn() -> Variable| {
        table += &format!("{name:15} | {}\n", costs(device, model, loss));
    };
    let (x, t) = batch(device);

    let model = mlp(device);
    let loss = || softmax_cross_entropy(model.forward(&x), &t);
    row("mlp", &model, &loss);

    let model = Convolutional {
        first: Conv2d::new(2, 4, 3, g),
        norm: BatchNorm::new(4),
        pointwise: Conv2d::new(4, 4, 1, g),
        head: Linear::new(4 * 4 * 4, 3, g),
    };
    model.to(device);
    let images = Variable::constant(drawn(g, &[8, 2, 6, 6]).to(device));
    let loss = || {
        let h = relu(model.norm.forward(&model.first.forward(&images)));
        let h = relu(model.pointwise.forward(&h)).reshape([8, 64]);
        softmax_cross_entropy(model.head.forward(&h), &t)
    };
    row("convolutional", &model, &loss);

    let words = Variable::constant(g.integers(0, 5, [2, 4]).to(device));
    let next = Variable::constant(g.integers(0, 5, [2, 4]).to(device));
    let model = Sequence {
        words: Embedding::new(5, 6, g),
        body: Lstm::new(6, 4, g),
        head: Linear::new(4, 5, g),
    };
    model.to(device);
    row("lstm", &model, &|| model.loss(&words, &next));

    let model = Sequence {
        words: Embedding::new(5, 6, g),
        body: TransformerBlock::builder(6, 2).dropout(0.1).build(g),
        head: Linear::new(6, 5, g),
    };
    model.to(device);
    row("transformer", &model, &|| model.loss(&words, &next));

    expect_golden("costs/training.txt", &table);
}

#[test]
fn a_gradient_comes_back_to_where_the_input_is() {
    let device = Counting::new(&["to"]);
    let x = Variable::new([1.0, 2.0, 3.0]);
    let y = (&x.to(device) * 2.0).square();
    assert!(y.device() == device as &dyn Device);
    y.sum(..).backward();
    let gradient = x.grad().expect("a gradient");
    assert!(gradient.device() == cpu());
    assert_eq!(gradient.to_vec::<f64>(), [8.0, 16.0, 24.0]);
    assert!(x.to(cpu()).is_leaf() && !history(&y).to_string().is_empty());
    // What is the same everywhere is put where it belongs.
    let there = Variable::new(Array::from([1.0, 2.0, 3.0]).to(device));
    let slope = grad(|x| x.slice(bibun::s![1..]).cumsum(0).sum(..), &there);
    assert!(slope.device() == device as &dyn Device);
    assert_eq!(slope.array().to(cpu()).to_vec::<f64>(), [0.0, 2.0, 1.0]);
}

#[test]
fn a_model_moves_with_all_that_it_has() {
    let device = Counting::new(&["to", "save", "display", "to_vec"]);
    let g = &mut Generator::new(0);
    let model = (
        BatchNorm::new(3),
        Dropout::new(0.5, g),
        Linear::new(3, 3, g),
    );
    let x = Variable::constant(drawn(g, &[4, 3]));
    let step = |x: &Variable| model.2.forward(&model.1.forward(&model.0.forward(x)));
    step(&x).sum(..).backward();
    let (state, gradient) = (
        model.state(),
        model.2.weight.grad().expect("a gradient").array(),
    );
    model.to(device);
    assert!(model.2.weight.device() == device as &dyn Device);
    assert_eq!(
        bits(&model.2.weight.grad().expect("a gradient").array()),
        bits(&gradient)
    );
    assert_eq!(model.state().checksum(), state.checksum());
    // Where the stream of numbers stands is read by the program.
    let (y, counts) = device.counting(|| step(&x.to(device)));
    assert_eq!(counts.copies, 1, "{counts:?}");
    assert!(y.device() == device as &dyn Device);
    let means = model.0.state();
    model.load_state(&state).expect("its own");
    assert!(model.2.weight.device() == device as &dyn Device);
    assert_eq!(model.state().checksum(), state.checksum());
    assert_ne!(model.0.state().checksum(), means.checksum());
    model.to(cpu());
    assert!(model.2.weight.device() == cpu());
    assert_eq!(model.state().checksum(), state.checksum());
    // A constant cannot change.
    let fixed = (model.2, Variable::constant([1.0, 2.0]));
    let error = attempt(|| fixed.to(device)).unwrap_err().to_string();
    assert!(
        error.contains("`1` is neither a parameter nor a Buffer"),
        "{error}"
    );
    assert!(fixed.0.weight.device() == cpu());
}

#[test]
fn mistakes_on_a_device_name_the_call() {
    let device = Counting::new(&["to_vec"]);
    let x = Variable::new(Array::from([[1.0, 2.0], [3.0, 4.0]]).to(device));
    let error = attempt(|| &x + Variable::constant([1.0, 2.0])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("bring them together with `to(device)`"),
        "{error}"
    );
    // Classes are looked at where they are, and told when elements are read.
    let t = Variable::constant(Array::from([0i64, 2]).to(device));
    let (loss, line) = (softmax_cross_entropy(&x, &t), line!());
    let error = attempt(|| loss.to_vec::<f64>()).unwrap_err();
    let told = "softmax_cross_entropy: there is no class 2 among 2";
    assert!(error.to_string().starts_with(told), "{error}");
    assert_eq!(error.location().line(), line);
}

#[test]
fn random_numbers_are_the_same_on_every_device() {
    let device = Counting::new(&["to"]);
    let draw = |device: &'static dyn Device| {
        let dice = Distribution::Integers { low: 1, high: 7 };
        let x = Generator::new(3).draw(dice, [4, 5], device);
        assert!(x.device() == device);
        bits(&x)
    };
    assert_eq!(draw(device), draw(cpu()));
    let x = Variable::constant(Array::ones([4, 5], DType::F64) + Array::arange(0, 5).to(device));
    let on_device = functions::dropout(&x, 0.5, &mut Generator::new(1));
    let on_cpu = functions::dropout(x.to(cpu()), 0.5, &mut Generator::new(1));
    assert_eq!(bits(&on_device.array()), bits(&on_cpu.array()));
}

#[test]
fn per_example_gradients_are_on_the_models_device() {
    let device = Counting::new(&["to"]);
    let gradients = |device: &'static dyn Device| {
        let (model, (x, t)) = (Mlp::new(&[6, 5, 3], &mut Generator::new(0)), batch(device));
        model.to(device);
        let losses = functions::softmax_cross_entropy_with(
            model.forward(&x),
            &t,
            functions::Reduction::None,
        );
        let gradients = per_example(&losses, &model);
        let rows = gradients.rows();
        let mut all = vec![bits(&gradients.norms().array())];
        all.extend(rows.layers.iter().map(|layer| bits(&layer.weight.array())));
        all
    };
    assert!(gradients(device) == gradients(cpu()));
}
