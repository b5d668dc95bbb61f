//! Frozen parameters: still parameters, but no gradient goes to them and nobody moves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bibun::array::{Array, DType, Generator};
use bibun::datasets::DataLoader;
use bibun::links::{BatchNorm, Chain, Linear, Link};
use bibun::optimizers::hooks::{ClipNorm, GradientNoise, WeightDecay};
use bibun::optimizers::{Adam, AdamW, Lbfgs, MomentumSgd, Optimizer, Sgd};
use bibun::serializers::{LoadOptions, StateError, Stateful};
use bibun::training::{BoxError, Extension, Session, Step, Trainer, Trigger, Until};
use bibun::{
    Error, GradOptions, Variable, attempt, checkpoint, grad, gradients, hessian, history, hvp,
    jacobian, jvp, linearize, per_example, ravel_tree, stop_gradient, tree_map, tree_zip,
    value_and_grad, vjp, vmap,
};

#[derive(Chain, Clone)]
struct Net {
    encoder: Linear,
    middle: Linear,
    head: Linear,
}

impl Net {
    fn new(seed: u64) -> Self {
        let random = &mut Generator::new(seed);
        let mut layer = |i, o| Linear::builder(i, o).dtype(DType::F64).build(random);
        Self {
            encoder: layer(3, 4),
            middle: layer(4, 4),
            head: layer(4, 2),
        }
    }

    fn losses(&self, x: &Variable) -> Variable {
        let h = self.encoder.forward(x).tanh();
        let h = self.middle.forward(&h).tanh();
        self.head.forward(&h).square().sum(1)
    }
}

fn data(n: usize) -> Variable {
    let mut random = Generator::new(7);
    Variable::constant(random.normal([n, 3], 0.0, 1.0, DType::F64))
}

fn names(parameters: Vec<(String, Variable)>) -> Vec<String> {
    parameters.into_iter().map(|(name, _)| name).collect()
}

/// What stands in an error that the call raises at a line of this file.
fn error_of<T>(f: impl FnOnce() -> T) -> String {
    let Err(error) = attempt(f) else {
        panic!("no error")
    };
    let text = error.to_string();
    assert!(text.contains("bibun/frozen.rs:"), "{text}");
    text
}

#[test]
fn a_frozen_parameter_is_one_by_name() {
    let (net, other) = (Net::new(1), Net::new(2));
    let all = names(net.parameters());
    let count = net.parameter_count();
    net.encoder.freeze();
    net.middle.weight.freeze();
    assert_eq!(names(net.parameters()), all);
    assert_eq!(net.parameter_count(), count);
    let trainable = names(net.trainable_parameters());
    assert_eq!(trainable, ["middle/bias", "head/weight", "head/bias"]);
    assert_eq!(net.trainable_parameter_count(), 4 + 4 * 2 + 2);
    assert!(net.buffers().is_empty());
    assert!(net.encoder.weight.is_leaf() && !net.encoder.weight.requires_grad());

    // It is saved, and loaded into.
    assert_eq!(net.state().len(), all.len());
    net.load_state(&other.state()).unwrap();
    assert_eq!(net.state().checksum(), other.state().checksum());
    assert!(net.encoder.weight.is_frozen());
    net.encoder
        .weight
        .set_array(Array::zeros([4, 3], DType::F64));
    net.encoder.weight.update(|w| w + 1.0);
    assert_eq!(net.encoder.weight.to_vec::<f64>(), [1.0; 12]);
    net.encoder.weight.set_name("frozen weights");
    assert_eq!(net.encoder.weight.name().as_deref(), Some("frozen weights"));
    assert!(format!("{:?}", net.encoder.weight).ends_with("frozen)"));

    net.unfreeze();
    assert_eq!(names(net.trainable_parameters()), all);
}

#[test]
fn clones_tied_places_and_threads_share_it() {
    let tied = Linear::new(3, 3, &mut Generator::new(0));
    let pair = (tied.clone(), vec![tied.clone()]);
    pair.0.freeze();
    assert!(tied.weight.is_frozen() && pair.trainable_parameters().is_empty());
    std::thread::scope(|scope| {
        scope.spawn(|| pair.1.unfreeze());
    });
    assert_eq!(names(pair.trainable_parameters()), ["0/weight", "0/bias"]);
}

#[test]
fn frozen_parameters_alone_leave_no_history() {
    let (net, x) = (Net::new(1), data(5));
    let free = net.losses(&x).mean(..);
    free.backward();
    let expected = net.head.weight.grad().unwrap().to_vec::<f64>();
    let functions = history(&free).function_count();
    net.clear_grads();

    net.encoder.freeze();
    net.middle.freeze();
    let h = net.middle.forward(&net.encoder.forward(&x).tanh()).tanh();
    assert!(!h.requires_grad() && h.creator().is_none());
    let loss = net.losses(&x).mean(..);
    assert!(history(&loss).function_count() < functions);
    assert_eq!(history(&loss).with_links(&net).function_count(), 4);
    loss.backward();
    assert_eq!(net.head.weight.grad().unwrap().to_vec::<f64>(), expected);
    assert!(
        net.encoder.weight.grad().is_none() && net.middle.bias.as_ref().unwrap().grad().is_none()
    );

    let net = Net::new(1);
    net.freeze();
    let text = error_of(|| net.losses(&x).mean(..).backward());
    assert!(text.contains("backward"), "{text}");
}

#[test]
fn gradients_go_through_a_frozen_layer() {
    let (net, x) = (Net::new(1), data(5));
    net.losses(&x).mean(..).backward();
    let expected = net.encoder.weight.grad().unwrap().to_vec::<f64>();
    net.clear_grads();
    net.middle.freeze();
    net.losses(&x).mean(..).backward();
    assert_eq!(net.encoder.weight.grad().unwrap().to_vec::<f64>(), expected);
    assert!(net.middle.weight.grad().is_none());
    let of_frozen = gradients(
        &[&net.losses(&x).mean(..)],
        &[&net.middle.weight, &net.head.weight],
    );
    assert!(of_frozen[0].is_none() && of_frozen[1].is_some());
}

#[test]
fn frozen_parameters_are_absent_from_gradients() {
    let (net, x) = (Net::new(1), data(5));
    let loss = |net: &Net| net.losses(&x).mean(..);
    let whole = grad(loss, &net);
    net.middle.freeze();
    let (_, gradient) = value_and_grad(loss, &net);
    for (name, expected) in whole.parameters() {
        let found = gradient.parameters();
        let found = found.iter().find(|(other, _)| *other == name);
        match name.starts_with("middle") {
            true => assert!(found.is_none()),
            false => assert_eq!(found.unwrap().1.to_vec::<f64>(), expected.to_vec::<f64>()),
        }
    }
    assert_eq!(
        names(
            gradient
                .state()
                .into_iter()
                .map(|(n, _)| (n, x.clone()))
                .collect()
        )
        .len(),
        4
    );
    let absent = &gradient.middle.weight;
    assert!(absent.is_frozen() && absent.shape() == [4, 4] && !absent.requires_grad());
    assert!(error_of(|| absent.to_vec::<f64>()).contains("there is no gradient"));
    assert!(error_of(|| absent + 1.0).contains("there is no gradient"));
    assert!(error_of(|| net.head.weight.matmul(absent)).contains("there is no gradient"));
    assert!(error_of(|| stop_gradient(&gradient).middle.weight.array()).contains("no gradient"));
    assert!(format!("{absent:?}").contains("no gradient"));

    // A step along it, in any form, leaves frozen parameters alone.
    let step = tree_zip(|w, g| w - 0.1 * g, &net, &gradient);
    assert!(step.middle.weight.is_same(&net.middle.weight) && step.middle.weight.is_frozen());
    let (w, g) = (
        net.head.weight.to_vec::<f64>(),
        gradient.head.weight.to_vec::<f64>(),
    );
    let expected: Vec<f64> = w.iter().zip(g).map(|(w, g)| w - 0.1 * g).collect();
    assert_eq!(step.head.weight.to_vec::<f64>(), expected);
    let sum = tree_zip(|a, b| a + b, &gradient, &gradient);
    assert!(sum.middle.weight.is_frozen() && sum.parameters().len() == 4);
    assert_eq!(tree_map(|g| 2.0 * g, &gradient).parameters().len(), 4);
    net.set_gradients(&gradient);
    assert!(net.middle.weight.grad().is_none() && net.head.weight.grad().is_some());

    // A gradient from before is none for what was thawed since.
    net.unfreeze();
    let text = error_of(|| net.set_gradients(&gradient));
    assert!(
        text.contains("`middle/weight` of the gradient is not there"),
        "{text}"
    );

    net.freeze();
    assert!(error_of(|| grad(loss, &net)).contains("every Variable in the argument is frozen"));
}

#[test]
fn frozen_parameters_are_constants_of_transformations() {
    let (w, x) = (Variable::new([2.0, 3.0]), Variable::constant([0.5, -1.0]));
    let f = |(w, x): &(Variable, Variable)| (w * x * x).sin();
    let alone = |x: &Variable| (Variable::constant([2.0, 3.0]) * x * x).sin();
    w.freeze();
    let both = (w.clone(), x.clone());

    let ones = Variable::constant([1.0, 1.0]);
    let (_, pullback) = vjp(f, &both);
    let (gw, gx) = pullback.call(&ones);
    assert!(gw.is_frozen() && attempt(|| gw.array()).is_err());
    let expected = vjp(alone, &x).1.call(&ones).to_vec::<f64>();
    assert_eq!(gx.to_vec::<f64>(), expected);

    let tangent = (w.clone(), ones.clone());
    assert_eq!(jvp(f, &both, &tangent).1.to_vec::<f64>(), expected);
    let (_, derivative) = linearize(f, &both);
    assert_eq!(derivative.call(&tangent).to_vec::<f64>(), expected);
    // What has no gradient is no tangent of a frozen parameter either.
    let tangent = (gw, ones.clone());
    assert_eq!(jvp(f, &both, &tangent).1.to_vec::<f64>(), expected);

    let (by_w, by_x) = jacobian(f, &both);
    assert!(by_w.is_frozen());
    assert_eq!(by_x.to_vec::<f64>(), jacobian(alone, &x).to_vec::<f64>());
    let loss = |both: &(Variable, Variable)| f(both).sum(..);
    let ((ww, wx), (xw, xx)) = hessian(loss, &both);
    assert!(ww.is_frozen() && wx.is_frozen() && xw.is_frozen());
    let expected = hessian(|x| alone(x).sum(..), &x);
    assert_eq!(xx.to_vec::<f64>(), expected.to_vec::<f64>());
    let (gradient, product) = hvp(loss, &both, &(w.clone(), ones));
    assert!(gradient.0.is_frozen() && product.0.is_frozen());

    let (vector, unravel) = ravel_tree(&both);
    assert_eq!(vector.to_vec::<f64>(), [0.5, -1.0]);
    let back = unravel(&vector);
    assert!(back.0.is_same(&w) && back.1.to_vec::<f64>() == [0.5, -1.0]);

    // A result that is frozen does not depend on the argument.
    let zero = jvp(|_| w.clone(), &x, &Variable::constant([1.0, 1.0])).1;
    assert_eq!(zero.to_vec::<f64>(), [0.0, 0.0]);
    w.set_array(Array::from([4.0, 9.0]));
    assert_eq!(grad(|_| w.sum(..), &x).to_vec::<f64>(), [0.0, 0.0]);
}

#[test]
fn per_example_leaves_it_out() {
    let (net, x) = (Net::new(1), data(5));
    let losses = net.losses(&x);
    let whole = per_example(&losses, &net);
    let (rows, of_middle) = (
        whole.rows(),
        per_example(&losses, &net.middle).squared_norms(),
    );
    let squares = whole.squared_norms();
    net.middle.freeze();
    let losses = net.losses(&x);
    let found = per_example(&losses, &net);
    let left = found.rows();
    assert_eq!(
        left.encoder.weight.to_vec::<f64>(),
        rows.encoder.weight.to_vec::<f64>()
    );
    assert_eq!(
        left.head.weight.to_vec::<f64>(),
        rows.head.weight.to_vec::<f64>()
    );
    assert!(left.middle.weight.is_frozen() && attempt(|| left.middle.weight.array()).is_err());
    let difference = squares - of_middle - found.squared_norms();
    assert!(difference.abs().max(..).item::<f64>() < 1e-12);
    assert_eq!(found.bytes(), 5 * 8 * net.trainable_parameter_count());
    let sum = found.clipped_sum(1.0);
    net.set_gradients(&sum);
    assert!(net.middle.weight.grad().is_none());
    assert_eq!(found.dot(&net).shape(), [5]);
    let text = error_of(|| per_example(&losses, &net.middle));
    assert!(text.contains("frozen"), "{text}");
}

#[test]
fn models_side_by_side_stay_frozen() {
    let x = data(5);
    let nets = [1, 2, 3].map(Net::new);
    let together = |of: fn(&Net) -> &Variable| {
        let rows: Vec<Variable> = nets.iter().map(|net| of(net).expand_dims(0)).collect();
        let rows: Vec<&Variable> = rows.iter().collect();
        Variable::new(bibun::functions::concat(&rows, 0).array())
    };
    let stacked = Net {
        encoder: Linear {
            weight: together(|n| &n.encoder.weight),
            bias: Some(together(|n| n.encoder.bias.as_ref().unwrap())),
        },
        middle: Linear {
            weight: together(|n| &n.middle.weight),
            bias: Some(together(|n| n.middle.bias.as_ref().unwrap())),
        },
        head: Linear {
            weight: together(|n| &n.head.weight),
            bias: Some(together(|n| n.head.bias.as_ref().unwrap())),
        },
    };
    stacked.encoder.freeze();
    let gradients = vmap(
        |net: &Net| {
            assert!(net.encoder.weight.is_frozen() && net.encoder.weight.shape() == [4, 3]);
            assert_eq!(names(net.trainable_parameters()).len(), 4);
            grad(|net: &Net| net.losses(&x).mean(..), net)
        },
        &stacked,
    );
    assert!(
        gradients.encoder.weight.is_frozen()
            && attempt(|| gradients.encoder.weight.array()).is_err()
    );
    for (i, net) in nets.iter().enumerate() {
        let expected = grad(|net: &Net| net.losses(&x).mean(..), net)
            .head
            .weight
            .to_vec::<f64>();
        let found = gradients.head.weight.slice(bibun::s![i]).to_vec::<f64>();
        for (a, b) in expected.iter().zip(found) {
            assert!((a - b).abs() < 1e-13);
        }
    }
    // A model that comes back is one with the same parameters frozen.
    let same = vmap(|net: &Net| tree_map(|w| 2.0 * w, net), &stacked);
    assert!(same.encoder.weight.is_frozen() && same.encoder.weight.shape() == [3, 4, 3]);
    assert_eq!(
        same.encoder.weight.to_vec::<f64>()[0],
        2.0 * stacked.encoder.weight.to_vec::<f64>()[0]
    );
    assert!(!same.head.weight.is_frozen());
}

#[test]
fn checkpoints_stay_frozen() {
    let (net, x) = (Net::new(1), data(5));
    net.middle.freeze();
    let expected = grad(|net: &Net| net.losses(&x).mean(..), &net);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let losses = move |(net, x): &(Net, Variable)| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(net.middle.weight.is_frozen() && !net.encoder.weight.is_frozen());
        // Nothing within is asked for its gradient.
        assert!(
            grad(|net: &Net| net.losses(x).sum(..), net)
                .middle
                .weight
                .is_frozen()
        );
        net.losses(x)
    };
    let run = losses.clone();
    let found = grad(
        |net: &Net| checkpoint(run.clone(), &(net.clone(), x.clone())).mean(..),
        &net,
    );
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    for (a, b) in expected.parameters().iter().zip(found.parameters()) {
        assert_eq!((&a.0, a.1.to_vec::<f64>()), (&b.0, b.1.to_vec::<f64>()));
    }
    checkpoint(losses.clone(), &(net.clone(), x.clone()))
        .mean(..)
        .backward();
    assert!(net.middle.weight.grad().is_none());
    assert_eq!(
        net.head.weight.grad().unwrap().to_vec::<f64>(),
        expected.head.weight.to_vec::<f64>()
    );
    let tangent = (net.clone(), x.clone());
    jvp(
        |pair| checkpoint(losses.clone(), pair),
        &(net.clone(), x),
        &tangent,
    );

    // A model that comes out of it is frozen where it was.
    let out = checkpoint(|net: &Net| tree_map(|w| 2.0 * w, net), &net);
    assert!(out.middle.weight.is_frozen() && !out.encoder.weight.is_frozen());
    assert!(out.encoder.weight.requires_grad() && !out.middle.weight.requires_grad());
}

#[test]
fn parameters_frozen_after_the_run_get_no_gradient() {
    let (w, b) = (Variable::new(2.0), Variable::new(3.0));
    let called = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&called);
    w.register_hook(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let y = &w * &b;
    w.freeze();
    y.backward();
    assert!(w.grad().is_none());
    assert_eq!(b.grad().unwrap().item::<f64>(), 2.0);
    assert_eq!(called.load(Ordering::Relaxed), 0);
    assert!(gradients(&[&y], &[&w])[0].is_none());
    // Thawed in time, it does.
    w.unfreeze();
    y.backward();
    assert_eq!(w.grad().unwrap().item::<f64>(), 3.0);
    assert_eq!(called.load(Ordering::Relaxed), 1);
    // What there is stays until it is cleared.
    w.freeze();
    assert!(w.grad().is_some());
    w.clear_grad();
    // To what was computed while it was frozen no gradient goes back.
    let y = &w * &b;
    w.unfreeze();
    y.backward();
    assert!(w.grad().is_none());
    // The same in a walk that can be differentiated again.
    let y = &w * &w * &b;
    w.freeze();
    b.clear_grad();
    y.backward_with(GradOptions::new().create_graph());
    assert_eq!(b.grad().unwrap().item::<f64>(), 4.0);
    assert!(w.grad().is_none());
    b.clear_grad();
}

#[test]
fn only_leaves_are_frozen() {
    let w = Variable::new(2.0);
    let y = &w * 3.0;
    assert!(error_of(|| y.set_requires_grad(false)).contains("set_requires_grad: this is no leaf"));
    y.set_requires_grad(true);
    let c = Variable::constant(1.0);
    c.set_requires_grad(false);
    assert!(error_of(|| c.set_requires_grad(true)).contains("Variable::new"));
    let net = Net::new(1);
    let text = error_of(|| {
        grad(
            |net: &Net| {
                net.head.freeze();
                net.losses(&data(2)).sum(..)
            },
            &net,
        )
    });
    assert!(
        text.contains("freeze: the parameter `weight` is no leaf"),
        "{text}"
    );
    assert_eq!(net.trainable_parameters().len(), 6);
}

/// What a test does with a model and an optimizer at a step.
fn train(optimizer: &mut dyn Optimizer, net: &Net, x: &Variable, steps: usize) {
    for _ in 0..steps {
        optimizer.minimize(net, &mut || net.losses(x).mean(..));
    }
}

#[test]
fn optimizers_leave_it_alone() {
    let x = data(5);
    let optimizers: [Box<dyn Optimizer>; 5] = [
        Box::new(Sgd::new(0.1).hook(WeightDecay(0.1)).hook(ClipNorm(0.5))),
        Box::new(MomentumSgd::new(0.1, 0.9)),
        Box::new(AdamW::new(0.01).weight_decay(0.1)),
        Box::new(Adam::new(0.01).hook(GradientNoise::new(0.01, 3))),
        Box::new(Lbfgs::new(1.0).iterations(2)),
    ];
    for mut optimizer in optimizers {
        let net = Net::new(1);
        train(&mut *optimizer, &net, &x, 2);
        net.middle.freeze();
        let (frozen, free) = (net.middle.state().checksum(), net.head.state().checksum());
        // Also if a gradient is there.
        net.middle
            .weight
            .set_grad(&Variable::constant(Array::ones([4, 4], DType::F64)));
        optimizer.update(&net);
        train(&mut *optimizer, &net, &x, 2);
        assert_eq!(net.middle.state().checksum(), frozen, "{optimizer:?}");
        assert_ne!(net.head.state().checksum(), free, "{optimizer:?}");
        net.unfreeze();
        train(&mut *optimizer, &net, &x, 1);
        assert_ne!(net.middle.state().checksum(), frozen, "{optimizer:?}");

        net.freeze();
        let text = error_of(|| optimizer.minimize(&net, &mut || net.losses(&x).mean(..)));
        assert!(
            text.contains("minimize: all parameters of the model are frozen (6)"),
            "{text}"
        );
        assert!(error_of(|| optimizer.update(&net)).contains("update: all parameters"));
    }
    let text = error_of(|| Sgd::new(0.1).update(&Vec::<Linear>::new()));
    assert!(text.contains("no parameters"), "{text}");
}

#[test]
fn optimizers_go_on_with_the_state_they_had() {
    // To freeze a parameter for a step is to have no gradient for it in that step.
    let x = data(5);
    let (net, other) = (Net::new(1), Net::new(1));
    let (mut optimizer, mut by_hand) = (AdamW::new(0.01), AdamW::new(0.01));
    let whole = |net: &Net| net.losses(&x).mean(..);
    for step in 0..6 {
        let frozen = (2..4).contains(&step);
        match frozen {
            true => net.middle.freeze(),
            false => net.middle.unfreeze(),
        }
        optimizer.minimize(&net, &mut || whole(&net));
        other.clear_grads();
        whole(&other).backward();
        if frozen {
            other.middle.clear_grads();
        }
        by_hand.update(&other);
        assert_eq!(
            net.state().checksum(),
            other.state().checksum(),
            "step {step}"
        );
        assert_eq!(
            optimizer.state().checksum(),
            by_hand.state().checksum(),
            "step {step}"
        );
        // The state of what is frozen is saved and loaded with the rest.
        let mut loaded = AdamW::new(0.01);
        loaded.load_state(&optimizer.state()).unwrap();
        optimizer = loaded;
    }
}

#[test]
fn only_what_is_trained_is_saved_and_loaded() {
    let (tuned, fresh) = (Net::new(1), Net::new(2));
    for net in [&tuned, &fresh] {
        net.freeze();
        net.head.unfreeze();
    }
    let state = tuned.trainable_state();
    assert_eq!(
        state.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["head/weight", "head/bias"]
    );
    let encoder = fresh.encoder.state().checksum();
    fresh.load_trainable_state(&state).unwrap();
    assert_eq!(fresh.head.state().checksum(), tuned.head.state().checksum());
    assert_eq!(fresh.encoder.state().checksum(), encoder);

    // More than is trained, or less, is an error, and nothing has changed.
    let before = fresh.state().checksum();
    let error = fresh
        .load_trainable_state(&Net::new(3).state())
        .unwrap_err();
    assert_eq!(
        error.unexpected,
        [
            "encoder/weight",
            "encoder/bias",
            "middle/weight",
            "middle/bias"
        ]
    );
    fresh.middle.weight.unfreeze();
    let error = fresh.load_trainable_state(&state).unwrap_err();
    assert_eq!(error, StateError::missing("middle/weight"));
    assert_eq!(fresh.state().checksum(), before);

    // Only some parts, of a state that has all.
    let (whole, fresh) = (Net::new(4), Net::new(5));
    let options = LoadOptions::new().only(["middle", "head/bias"]);
    let loaded = fresh.load_state_with(&whole.state(), &options).unwrap();
    assert_eq!(loaded.loaded, ["middle/weight", "middle/bias", "head/bias"]);
    assert!(loaded.unexpected.is_empty() && loaded.missing.is_empty());
    assert_ne!(
        fresh.head.weight.to_vec::<f64>(),
        whole.head.weight.to_vec::<f64>()
    );
    let part = whole.state().filter(|name| name != "middle/bias");
    let error = fresh.load_state_with(&part, &options).unwrap_err();
    assert_eq!(error, StateError::missing("middle/bias"));
    let options = LoadOptions::new().only(["midle", "mid"]);
    let error = fresh.load_state_with(&whole.state(), &options).unwrap_err();
    assert_eq!(error.wrong.len(), 2);
    assert!(
        error
            .to_string()
            .contains("`midle` is no part of the model"),
        "{error}"
    );
}

#[test]
fn maps_keep_it() {
    let net = Net::new(1);
    net.middle.freeze();
    // A copy by itself.
    let copy = tree_map(|w| Variable::new(w.array()), &net);
    assert!(
        copy.middle.weight.is_frozen()
            && copy.middle.weight.is_leaf()
            && copy.head.weight.requires_grad()
    );
    copy.middle.weight.update(|w| w * 0.0);
    assert_ne!(
        net.middle.weight.to_vec::<f64>(),
        copy.middle.weight.to_vec::<f64>()
    );
    let narrow = tree_map(|w| w.cast(DType::F32), &net);
    assert!(narrow.middle.weight.is_frozen() && narrow.middle.weight.dtype() == DType::F32);
    assert_eq!(narrow.parameters().len(), 6);
    // What is computed from something that is trained is trained: its gradient is not lost.
    let scale = Variable::new(2.0);
    let scaled = tree_map(|w| w * &scale, &net);
    scaled.losses(&data(3)).sum(..).backward();
    let of_all = scale.grad().unwrap().item::<f64>();
    let by = |scale: &Variable| {
        tree_map(|w| w.detach() * scale, &net)
            .losses(&data(3))
            .sum(..)
    };
    assert!((of_all - grad(by, &Variable::constant(2.0)).item::<f64>()).abs() < 1e-9);
    let tangent = jvp(by, &Variable::constant(2.0), &Variable::constant(1.0)).1;
    assert!((of_all - tangent.item::<f64>()).abs() < 1e-9);
}

#[test]
fn normalisation_still_moves_its_statistics() {
    let layer = BatchNorm::new(2);
    layer.freeze();
    layer.forward(&Variable::constant([[1f32, 2.0], [3.0, 6.0]]));
    assert_ne!(layer.running_mean.get().to_vec::<f32>(), [0.0, 0.0]);
    assert_eq!(layer.buffers().len(), 2);
    assert!(layer.trainable_state().is_empty());
}

/// A container of one's own, of every kind that can be derived.
#[derive(Chain)]
enum Body<T> {
    Some {
        parts: Vec<T>,
        extra: Option<Variable>,
    },
    #[allow(dead_code)]
    None,
}

#[derive(Chain)]
struct Plain {
    body: Body<Linear>,
    other: Variable,
}

#[test]
fn derived_containers_keep_it() {
    let random = &mut Generator::new(0);
    let plain = Plain {
        body: Body::Some {
            parts: vec![Linear::new(2, 2, random)],
            extra: Some(Variable::new([1f32, 2.0])),
        },
        other: Variable::new([3f32, 4.0]),
    };
    let Body::Some { parts, extra } = &plain.body else {
        unreachable!()
    };
    parts.freeze();
    plain.other.freeze();
    let trainable = names(plain.trainable_parameters());
    assert_eq!(trainable, ["body/extra"]);
    let x = Variable::constant([1f32, 1.0]);
    let f = |plain: &Plain| {
        let Body::Some { parts, extra } = &plain.body else {
            unreachable!()
        };
        (parts[0].forward(&x) * extra.as_ref().unwrap() * &plain.other).sum(..)
    };
    let gradient = grad(f, &plain);
    assert!(gradient.other.is_frozen());
    assert_eq!(names(gradient.parameters()), ["body/extra"]);
    plain.set_gradients(&gradient);
    assert!(extra.as_ref().unwrap().grad().is_some());
    let Err(Error::Argument { function, .. }) = attempt(|| grad(f, &plain).other.item::<f32>())
    else {
        panic!("no error")
    };
    assert_eq!(function, "item");
}

/// Thaws the middle when an epoch is over.
struct Thaw(Trigger);

impl Extension<Net> for Thaw {
    fn name(&self) -> &str {
        "thaw"
    }

    fn trigger(&self) -> &Trigger {
        &self.0
    }

    fn run(&mut self, session: &mut Session<'_, Net>) -> Result<(), BoxError> {
        if session.clock().epochs() == 1 {
            session.model().middle.unfreeze();
        }
        Ok(())
    }
}

#[test]
fn training_goes_on_with_the_same_parameters_frozen() {
    let trainer = |epochs: f64| {
        let net = Net::new(1);
        net.encoder.freeze();
        net.middle.freeze();
        let x = data(20).array();
        let batches = DataLoader::new(x, 5).shuffle(0);
        let loss =
            |net: &Net, x: &Array, _: &mut Step<'_>| net.losses(&Variable::constant(x)).mean(..);
        Trainer::new(net, batches, Adam::new(0.01), loss)
            .until(Until::Epochs(epochs))
            .extend(Thaw(Trigger::Epochs(1.0)))
    };
    let mut whole = trainer(4.0);
    whole.run().unwrap();
    let mut first = trainer(2.0);
    first.run().unwrap();
    let mut second = trainer(4.0);
    second.load_state(&first.state()).unwrap();
    let net = second.model();
    assert!(net.encoder.weight.is_frozen() && !net.middle.weight.is_frozen());
    second.run().unwrap();
    assert_eq!(
        second.model().state().checksum(),
        whole.model().state().checksum()
    );
    let start = Net::new(1);
    assert_eq!(
        whole.model().encoder.state().checksum(),
        start.encoder.state().checksum()
    );
    assert_ne!(
        whole.model().middle.state().checksum(),
        start.middle.state().checksum()
    );
}
