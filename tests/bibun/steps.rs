//! Whole train steps as compiled functions: the same bits as the steps of `minimize`.

use crate::compile::Net;
use bibun::array::{Array, DType, Generator};
use bibun::functions::{Reduction, softmax_cross_entropy, softmax_cross_entropy_with};
use bibun::links::Link;
use bibun::links::{Chain, Linear, Mlp};
use bibun::optimizers::hooks::{ClipNorm, ClipValue, GradientNoise, Lasso, WeightDecay};
use bibun::optimizers::schedule::{Lasting, cosine, warm_up};
use bibun::optimizers::{
    AdaDelta, AdaGrad, Adam, AdamW, AmsGrad, Eve, Lamb, Lbfgs, Lion, MomentumSgd, NesterovAg,
    Optimizer, RmsProp, RmsPropGraves, Rprop, RuleOptimizer, Sgd, Smorms3, UpdateRule,
};
use bibun::serializers::{Stateful, Value};
use bibun::{
    Tree, Variable, attempt, checkpoint, compile, detect_anomaly, fori_loop, grad, hvp, jacobian,
    jvp, no_grad, per_example, scan, stop_gradient, value_and_grad,
};

fn loss_of(net: &Net, x: &Variable, t: &Variable) -> Variable {
    softmax_cross_entropy(net.forward(x), t)
}

fn batch(i: u64) -> (Variable, Variable) {
    let mut g = Generator::new(11).split(i);
    let x = g.normal([10, 6], 0.0, 1.0, DType::F32);
    let t = Array::arange(0, 10) % 3;
    (Variable::constant(x), Variable::constant(t))
}

#[track_caller]
fn same_states<N: Chain>(a: &N, b: &N, one: &impl Stateful, other: &impl Stateful) {
    for [a, b] in [[a.state(), b.state()], [one.state(), other.state()]] {
        assert_eq!(a.iter().count(), b.iter().count());
        for (name, value) in a.iter() {
            match value {
                Value::Text(text) => assert_eq!(b.text(name), Ok(&**text)),
                Value::Array(a) => {
                    let b = b.array(name).unwrap();
                    assert!(a.has_same_bits(b), "{name}: {a:?} is not {b:?}");
                }
            }
        }
    }
}

/// Trains by `minimize` and by compiled steps, and compares all bits after each step.
#[track_caller]
fn check<R, const N: usize, const G: usize>(make: impl Fn() -> RuleOptimizer<R, N, G>)
where
    R: UpdateRule<N, G>,
{
    type Argument<O> = (Net, O, Variable, Variable);
    let step = compile(
        |(net, optimizer, x, t): &Argument<RuleOptimizer<R, N, G>>| {
            optimizer.minimized(net, |net| loss_of(net, x, t))
        },
    );
    let (eager, mut minimizer) = (Net::new(), make());
    let (mut net, mut optimizer) = (Net::new(), make());
    for i in 0..6 {
        let loss;
        let (x, t) = batch(i);
        let expected = minimizer.minimize(&eager, &mut || loss_of(&eager, &x, &t));
        (loss, net, optimizer) = match i % 2 {
            0 => step.call_donated((net, optimizer, x, t)),
            _ => step.call(&(net, optimizer, x, t)),
        };
        assert!(loss.array().has_same_bits(&expected.array()), "step {i}");
        same_states(&eager, &net, &minimizer, &optimizer);
        assert_eq!(optimizer.steps(), i + 1);
        assert_eq!(optimizer.learning_rate(), minimizer.learning_rate());
    }
    // With and without history; before the first step there is no state, and after it biases are not
    // repeated zeros any more.
    assert!(step.traces() <= 4, "{} traces", step.traces());
    assert!(net.parameters().iter().all(|(_, w)| w.is_leaf()));
    // The optimizer goes on by itself.
    let (x, t) = batch(7);
    minimizer.minimize(&eager, &mut || loss_of(&eager, &x, &t));
    optimizer.minimize(&net, &mut || loss_of(&net, &x, &t));
    same_states(&eager, &net, &minimizer, &optimizer);
}

#[test]
fn every_optimizer_makes_compiled_steps_with_the_same_bits() {
    check(|| Sgd::new(0.1));
    check(|| MomentumSgd::new(0.1, 0.9));
    check(|| NesterovAg::new(0.1, 0.9));
    check(|| AdaGrad::new(0.1));
    check(|| AdaDelta::new(1.0));
    check(|| Adam::new(0.01));
    check(|| AdamW::new(0.01));
    check(|| AmsGrad::new(0.01));
    check(|| RmsProp::new(0.01));
    check(|| RmsPropGraves::new(0.01));
    check(|| Smorms3::new(0.01));
    check(|| Rprop::new(0.01));
    check(|| Eve::new(0.01));
    check(|| Lion::new(0.01));
    check(|| Lamb::new(0.01));
}

#[test]
fn hooks_groups_and_schedules_run_in_compiled_steps() {
    let is_bias = |name: &str| name.ends_with("bias");
    check(|| {
        Adam::new(0.01)
            .hook(ClipNorm(0.1))
            .hook_where(move |name| !is_bias(name), WeightDecay(0.01))
            .hook(Lasso(0.001))
            .hook(ClipValue(0.05))
            .schedule(warm_up(3).then(cosine(10)))
            .group(is_bias, |biases| {
                biases.learning_rate = 0.1;
                biases.rule.betas = [0.5, 0.6];
            })
    });
    check(|| MomentumSgd::new(0.1, 0.5).hook(GradientNoise::new(0.01, 3)));
    check(|| Eve::new(0.01).group(is_bias, |biases| biases.rule.least = -1.0));
}

#[test]
fn a_training_of_compiled_steps_can_be_saved_frozen_and_given_another_rate() {
    type Argument = (Net, AdamW, Variable, Variable);
    let step = compile(|(net, optimizer, x, t): &Argument| {
        optimizer.minimized(net, |net| (loss_of(net, x, t), x.sum(..)))
    });
    let (eager, mut minimizer) = (Net::new(), AdamW::new(0.01));
    let (mut net, mut optimizer) = (Net::new(), AdamW::new(0.01));
    for i in 0..8 {
        if i == 3 {
            // From here on in other objects, as after a restart.
            let (fresh, mut loaded) = (Net::new(), AdamW::new(0.5));
            fresh.load_state(&net.state()).unwrap();
            loaded.load_state(&optimizer.state()).unwrap();
            (net, optimizer) = (fresh, loaded);
        }
        if i == 5 {
            optimizer.set_learning_rate(0.002);
            minimizer.set_learning_rate(0.002);
        }
        for net in [&eager, &net] {
            match i {
                4 => net.first.freeze(),
                6 => net.first.unfreeze(),
                _ => {}
            }
        }
        let (x, t) = batch(i);
        minimizer.minimize(&eager, &mut || loss_of(&eager, &x, &t));
        let traces = step.traces();
        ((_, _), net, optimizer) = step.call_donated((net, optimizer, x, t));
        same_states(&eager, &net, &minimizer, &optimizer);
        assert!(
            i != 5 || step.traces() == traces,
            "a learning rate is an input"
        );
    }
}

#[test]
fn parameters_of_sixteen_bits_have_compiled_steps() {
    let model = || {
        let layer = Linear::builder(6, 3)
            .dtype(DType::BF16)
            .build(&mut Generator::new(1));
        vec![layer]
    };
    let loss = |model: &Vec<Linear>, x: &Variable| model[0].forward(x).square().sum(..);
    let step = compile(move |(model, adam, x): &(Vec<Linear>, Adam, Variable)| {
        adam.minimized(model, |model| loss(model, x))
    });
    let (eager, mut minimizer) = (model(), Adam::new(0.01));
    let (mut own, mut adam) = (model(), Adam::new(0.01));
    for i in 0..4 {
        let x = batch(i).0.cast(DType::BF16);
        minimizer.minimize(&eager, &mut || loss(&eager, &x));
        (_, own, adam) = step.call_donated((own, adam, x));
        assert_eq!(eager.state().checksum(), own.state().checksum());
        assert_eq!(minimizer.state().checksum(), adam.state().checksum());
    }
}

/// Private training: clipped gradients of examples by the leaves of a model that is given away.
#[test]
fn a_model_that_is_given_away_has_gradients_of_examples() {
    type Argument = (Mlp, Adam, Variable, Variable);
    let model = || Mlp::new(&[6, 4, 3], &mut Generator::new(0));
    let f = |(net, adam, x, t): &Argument| {
        let losses = softmax_cross_entropy_with(net.forward(x), t, Reduction::None);
        let examples = per_example(&losses, net);
        let (net, adam) = adam.updated(net, &examples.clipped_sum(0.5));
        (losses.mean(..), examples.norms(), net, adam)
    };
    let step = compile(f);
    let (mut eager, mut minimizer) = (model(), Adam::new(0.01));
    let (mut net, mut adam) = (model(), Adam::new(0.01));
    for i in 0..5 {
        let (x, t) = batch(i);
        let (loss, norms, own_loss, own_norms);
        (loss, norms, eager, minimizer) = f(&(eager, minimizer, x.clone(), t.clone()));
        let argument = (net, adam, x, t);
        if i == 1 {
            assert!(step.peak_bytes(&argument) > 0);
        }
        (own_loss, own_norms, net, adam) = match i {
            3 => detect_anomaly(|| step.call_donated(argument)),
            _ => step.call_donated(argument),
        };
        assert!(loss.array().has_same_bits(&own_loss.array()));
        assert!(norms.array().has_same_bits(&own_norms.array()));
        same_states(&eager, &net, &minimizer, &adam);
        // Nothing leads back from what was computed, and the new parameters are leaves.
        assert!(!own_loss.requires_grad() && !own_norms.requires_grad());
        assert!(net.parameters().iter().all(|(_, w)| w.is_leaf()));
    }
    // The state of Adam comes with its first step.
    assert!(step.traces() <= 3, "{} traces", step.traces());
    // Without recording there are none, as in the function itself.
    let (x, t) = batch(0);
    let argument = (net, adam, x, t);
    let error = attempt(|| no_grad(|| step.call_donated(argument)));
    let error = error.map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("no history leads to it"),
        "{error}"
    );
}

#[test]
fn steps_as_functions_change_nothing() {
    let (x, t) = batch(0);
    let net = Mlp::new(&[6, 4, 3], &mut Generator::new(0));
    let loss = |net: &Mlp| softmax_cross_entropy(net.forward(&x), &t);
    let adam = Adam::new(0.1).hook(ClipNorm(0.5));
    let before = (net.state().checksum(), adam.state().checksum());
    let (value, stepped, next) = adam.minimized(&net, loss);
    assert!(!value.requires_grad());
    let (_, gradient) = value_and_grad(loss, &net);
    let (other, _) = adam.updated(&net, &gradient);
    assert_eq!(stepped.state().checksum(), other.state().checksum());
    assert_eq!((net.state().checksum(), adam.state().checksum()), before);
    let mut minimizer = Adam::new(0.1).hook(ClipNorm(0.5));
    minimizer.minimize(&net, &mut || loss(&net));
    assert_eq!(stepped.state().checksum(), net.state().checksum());
    assert_eq!(next.state().checksum(), minimizer.state().checksum());
    // Any Tree of Variables will do.
    let pair = (Variable::new(1.0), vec![Variable::new([2.0, 3.0])]);
    let (_, (a, b), _) = Sgd::new(0.5).minimized(&pair, |(a, b)| a * b[0].sum(..));
    assert_eq!(
        (a.item::<f64>(), b[0].to_vec::<f64>()),
        (-1.5, vec![1.5, 2.5])
    );
}

#[test]
fn parameters_that_the_loss_does_not_depend_on_make_no_step() {
    let model = || (Variable::new(3.0), Variable::new(4.0));
    let adam = || Adam::new(0.1).hook(WeightDecay(0.1));
    // The first step uses the second parameter alone, the next one both.
    let loss = |(a, b): &(Variable, Variable), both: bool| match both {
        true => a * b,
        false => b * 2.0,
    };
    let (own, mut minimizer) = (model(), adam());
    let (mut stepped, mut state) = (model(), adam());
    let compiled = [false, true].map(|both| {
        compile(move |(model, adam): &((Variable, Variable), Adam)| {
            adam.minimized(model, |model| loss(model, both))
        })
    });
    let (mut other, mut its_state) = (model(), adam());
    for both in [false, true, false] {
        minimizer.minimize(&own, &mut || loss(&own, both));
        (_, stepped, state) = state.minimized(&stepped, |model| loss(model, both));
        (_, other, its_state) = compiled[both as usize].call(&(other, its_state));
        same_states(&own, &stepped, &minimizer, &state);
        same_states(&own, &other, &minimizer, &its_state);
        assert!(stepped.0.is_leaf() && !stepped.0.is_same(&own.0));
    }
}

#[test]
fn clones_of_a_parameter_in_any_container_stay_one() {
    let model = || {
        let w = Variable::new(3.0);
        (w.clone(), vec![w])
    };
    let loss = |(a, b): &(Variable, Vec<Variable>)| a * 2.0 + b[0].square();
    let (own, mut minimizer) = (model(), Adam::new(0.1));
    let (mut stepped, mut state) = (model(), Adam::new(0.1));
    let (mut other, mut its_state) = (model(), Adam::new(0.1));
    let compiled = compile(move |(model, adam): &((Variable, Vec<Variable>), Adam)| {
        adam.minimized(model, loss)
    });
    for _ in 0..3 {
        minimizer.minimize(&own, &mut || loss(&own));
        (_, stepped, state) = state.minimized(&stepped, loss);
        (_, other, its_state) = compiled.call_donated((other, its_state));
        for (a, b) in [&stepped, &other] {
            assert!(a.is_same(&b[0]));
        }
        same_states(&own, &stepped, &minimizer, &state);
        same_states(&own, &other, &minimizer, &its_state);
    }
    assert_eq!(compiled.traces(), 2);
    // Each place has a gradient of its own in a container that is no model.
    let gradient = bibun::grad(loss, &own);
    let message = attempt(|| minimizer.updated(&own, &gradient))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("one Variable with an earlier one"),
        "{message}"
    );
}

#[test]
fn donated_memory_becomes_that_of_results() {
    type Argument = (Variable, Adam, Variable);
    let step = compile(|(w, adam, x): &Argument| adam.minimized(w, |w| (w - x).square().sum(..)));
    let start = || Variable::new(Array::arange(0, 5000).cast(DType::F32));
    let x = Variable::constant(Array::zeros([5000], DType::F32).to_row_major());
    let memory = |w: &Variable, adam: &Adam| -> Vec<usize> {
        let state = adam.state();
        let arrays =
            ["parameters/m", "parameters/v"].map(|name| state.array(name).unwrap().clone());
        let all = arrays.into_iter().chain([w.array()]);
        all.map(|x| x.as_slice::<f32>().unwrap().as_ptr().addr())
            .collect()
    };
    let (_, mut w, mut adam) = step.call_donated((start(), Adam::new(0.1), x.clone()));
    for _ in 0..3 {
        let before = memory(&w, &adam);
        (_, w, adam) = step.call_donated((w, adam, x.clone()));
        assert_eq!(memory(&w, &adam), before);
    }
    // What somebody else holds stays as it is.
    let held = w.clone();
    let before = held.to_vec::<f32>();
    let (_, next, _) = step.call_donated((w, adam, x));
    assert_eq!(held.to_vec::<f32>(), before);
    assert_ne!(next.to_vec::<f32>(), before);
}

#[test]
fn donated_memory_is_that_of_steps_written_by_hand() {
    for (dtype, size) in [
        (DType::F32, 200_000),
        (DType::F32, 200_001),
        (DType::F64, 100),
        (DType::F64, 70_000),
    ] {
        let f = |(w, m, v): &(Variable, Variable, Variable)| {
            let g = w.sin() * w + 0.5;
            let m = 0.9 * m + 0.1 * &g;
            let v = 0.99 * v + 0.01 * g.square();
            (w - 0.1 * &m / (v.sqrt() + 1e-8), m, v)
        };
        let step = compile(f);
        let start = |stream: u64| {
            let mut g = Generator::new(3).split(stream);
            Variable::constant(g.uniform([size], 0.0, 1.0, dtype))
        };
        let mut eager = (start(1), start(2), start(3));
        let mut own = (start(1), start(2), start(3));
        for i in 0..3 {
            let before = memory_of(&own);
            own = step.call_donated(own);
            // The memory of the three is that of the three before, in some order.
            if size % 8 == 0 || dtype == DType::F64 || has_masks() {
                assert_eq!(memory_of(&own), before, "{dtype} {size}, step {i}");
            }
            eager = f(&eager);
            assert!(own.0.array().has_same_bits(&eager.0.array()));
            assert!(own.1.array().has_same_bits(&eager.1.array()));
            assert!(own.2.array().has_same_bits(&eager.2.array()));
        }
        // An array that is given twice has two readers.
        let same = start(1);
        let expected = f(&(same.clone(), same.clone(), same.clone()));
        let found = step.call_donated((same.clone(), same.clone(), same));
        assert!(found.0.array().has_same_bits(&expected.0.array()));
        assert!(found.2.array().has_same_bits(&expected.2.array()));
    }
}

/// Whether machine code stores parts of vectors here. Without masks it computes some elements of a last vector again
/// that is not whole, so these must not have taken the place of what they are computed from.
fn has_masks() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Where the elements are.
fn memory_of((a, b, c): &(Variable, Variable, Variable)) -> std::collections::BTreeSet<usize> {
    let address = |x: &Variable| match x.dtype() {
        DType::F32 => x.array().as_slice::<f32>().unwrap().as_ptr().addr(),
        _ => x.array().as_slice::<f64>().unwrap().as_ptr().addr(),
    };
    [a, b, c].map(address).into()
}

#[test]
fn the_derivative_of_a_step_is_refused_and_not_zero() {
    fn inner(w: &Variable) -> Variable {
        (w - 3.0).square()
    }
    fn updated(w: &Variable) -> Variable {
        inner(&Sgd::new(0.1).updated(w, &grad(inner, w)).0)
    }
    let minimized = |w: &Variable| Sgd::new(0.1).minimized(w, inner).0;
    let captured = |a: &Variable| {
        let w = Variable::new(3.0);
        let (_, w, _) = Sgd::new(0.1).minimized(&w, |w| (w * a).square());
        w.square()
    };
    let w = Variable::new(0.0);
    let again = |w: &Variable| checkpoint(updated, w);
    fn moved(w: &Variable) -> Variable {
        Sgd::new(0.1).minimized(w, inner).1
    }
    fn looped(w: &Variable) -> Variable {
        inner(&fori_loop(0..2, |_, w| moved(w), w))
    }
    fn scanned(w: &Variable) -> Variable {
        let step = |w: &Variable, _: &Variable| {
            let (loss, w, _) = Sgd::new(0.1).minimized(w, inner);
            (w, loss)
        };
        scan(step, w, &Variable::constant([0.0, 0.0])).1.sum(..)
    }
    let compiled = compile(updated);
    let steps = compile(looped);
    // What was traced without a derivative is not asked for one.
    assert!((compiled.call(&w).item::<f64>() - 5.76).abs() < 1e-12);
    let once = compile(moved);
    assert!(moved(&w).creator().is_none() && once.call(&once.call(&w)).creator().is_none());
    let backward = 11;
    let calls: [&dyn Fn(); 15] = [
        &|| drop(grad(again, &w)),
        &|| drop(grad(updated, &w)),
        &|| drop(grad(captured, &Variable::new(2.0))),
        &|| drop(jacobian(updated, &w)),
        &|| drop(compile(|w: &Variable| grad(updated, w)).call(&w)),
        &|| drop(grad(looped, &w)),
        &|| drop(grad(scanned, &w)),
        &|| drop(compile(|w: &Variable| grad(looped, w)).call(&w)),
        &|| drop(compile(|w: &Variable| grad(scanned, w)).call(&w)),
        &|| drop(grad(|w| compiled.call(w), &w)),
        &|| drop(grad(|w| steps.call(w), &w)),
        &|| drop(jacobian(|w| compiled.call(w), &w)),
        &|| drop(hvp(|w| compiled.call(w), &w, &w)),
        &|| drop(jvp(updated, &w, &w)),
        &|| drop(jvp(looped, &w, &w)),
    ];
    for (i, call) in calls.into_iter().enumerate() {
        let error = attempt(call).expect_err("a derivative").to_string();
        assert!(error.contains("steps.rs"), "{i}: {error}");
        let expected = match i >= backward {
            true => "hidden by jvp",
            false => "the gradient would be lost",
        };
        assert!(error.contains(expected), "{i}: {error}");
    }
    // The loss that comes with a step has its derivatives.
    let g = grad(minimized, &w);
    assert_eq!(g.item::<f64>(), -6.0);
    let second = grad(|w| grad(minimized, w), &w);
    assert_eq!(second.item::<f64>(), 2.0);
    // A step whose result no derivative is asked for.
    let aside = |w: &Variable| {
        let (loss, _, _) = Sgd::new(0.1).minimized(w, inner);
        loss + inner(&stop_gradient(&updated(w)))
    };
    assert_eq!(grad(aside, &w).item::<f64>(), -6.0);
    assert_eq!(
        compile(move |w: &Variable| grad(aside, w))
            .call(&w)
            .item::<f64>(),
        -6.0
    );
    // What is no derivative of a step: a captured constant, one that is detached, and a network beside it.
    let constant = |w: &Variable| updated(&w.detach()) * w;
    assert!((grad(constant, &w).item::<f64>() - 5.76).abs() < 1e-12);
    let beside = |x: &Variable| x * no_grad(|| minimized(x));
    assert_eq!(grad(beside, &w).item::<f64>(), 9.0);
    let other = Variable::new(2.0);
    let (_, moved, _) = Sgd::new(0.1).minimized(&w, |w| (w - &other).square());
    assert!((moved.item::<f64>() - 0.4).abs() < 1e-12);
    let penalised = grad(inner, &w) + &w * 0.1;
    assert!((Sgd::new(0.1).updated(&w, &penalised).0.item::<f64>() - 0.6).abs() < 1e-12);
}

#[test]
fn what_a_compiled_step_cannot_do_is_refused() {
    #[track_caller]
    fn refused<A: Tree + Send + Sync + 'static>(
        f: impl Fn(&A) -> Variable + Send + Sync + 'static,
        x: A,
        expected: &str,
    ) {
        let error = attempt(|| compile(f).call(&x)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("steps.rs"), "{error}");
    }
    let w = || Variable::new([1.0, 2.0]);
    let loss = |w: &Variable| w.square().sum(..);
    refused(
        move |w: &Variable| Lbfgs::new(1.0).minimize(w, &mut || loss(w)),
        w(),
        "backward: gradients would be put",
    );
    refused(
        |(w, adam): &(Variable, Adam)| w * adam.learning_rate(),
        (w(), Adam::new(0.1)),
        "learning_rate: the state of this optimizer has no elements yet",
    );
    refused(
        move |(w, eve): &(Variable, Eve)| eve.updated(w, w).0,
        (w(), Eve::new(0.1)),
        "updated: this optimizer follows the loss",
    );
    let mut several = Adam::new(0.1);
    let both = [w(), w()];
    for w in &both {
        several.minimize(w, &mut || loss(w));
    }
    refused(
        move |(w, adam): &(Variable, Adam)| adam.minimized(w, loss).1,
        (w(), several),
        "compile: the optimizer has updated several models",
    );
    let frozen = w();
    frozen.freeze();
    refused(
        move |(w, adam): &(Variable, Adam)| adam.updated(w, w).0,
        (frozen, Adam::new(0.1)),
        "updated: the model has no parameters that are not frozen",
    );
}
