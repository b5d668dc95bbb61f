//! What optimizers remember, by name, and training that goes on as if it had never stopped.

use bibun::array::{Array, DType, Generator};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::hooks::{ClipNorm, GradientNoise};
use bibun::optimizers::schedule::cosine;
use bibun::optimizers::*;
use bibun::serializers::{State, Stateful};
use bibun::{Variable, attempt, compile};

use super::all;

fn model(seed: u64) -> Vec<Linear> {
    let g = &mut Generator::new(seed);
    vec![Linear::new(3, 4, g), Linear::new(4, 2, g)]
}

/// Some steps by the loss and some by gradients alone; the data depend on the number of the step.
fn train(optimizer: &mut dyn Optimizer, model: &Vec<Linear>, steps: std::ops::Range<u64>) {
    for step in steps {
        let g = &mut Generator::new(100 + step);
        let x = Variable::constant(g.normal([5, 3], 0.0, 1.0, DType::F32));
        let mut loss = || {
            (model[1].forward(&model[0].forward(&x).tanh()) - 1.0)
                .square()
                .mean(..)
        };
        match step % 4 {
            3 => {
                model.clear_grads();
                loss().backward();
                optimizer.update(model);
            }
            _ => drop(optimizer.minimize(model, &mut loss)),
        }
    }
}

fn bits(model: &Vec<Linear>) -> Vec<u32> {
    let parameters = model.parameters();
    let elements = parameters.iter().flat_map(|(_, w)| w.to_vec::<f32>());
    elements.map(f32::to_bits).collect()
}

fn every() -> Vec<(&'static str, Box<dyn Optimizer>)> {
    let whole = Eve::new(0.01)
        .group(
            |name| name.ends_with("/bias"),
            |group| group.rule.betas[2] = 0.5,
        )
        .hook(ClipNorm(0.5))
        .hook(GradientNoise::new(0.01, 3))
        .schedule(cosine(20));
    let mut all = all(0.01);
    all.push(("eve with all", Box::new(whole)));
    all
}

#[test]
fn resumed_training_has_the_same_bits() {
    for stop in [1, 4, 5] {
        for (i, (name, mut optimizer)) in every().into_iter().enumerate() {
            let first = model(1);
            optimizer.set_learning_rate(0.02);
            train(&mut *optimizer, &first, 0..stop);
            let (state, weights) = (optimizer.state(), Chain::state(&first));
            train(&mut *optimizer, &first, stop..10);

            // Into something fresh, before its first update.
            let second = model(2);
            Chain::load_state(&second, &weights).unwrap();
            let mut fresh = every().swap_remove(i).1;
            fresh.load_state(&state).unwrap();
            // What was loaded and not used yet can be saved again.
            assert_eq!(names(&fresh.state()), names(&state), "{name}");
            train(&mut *fresh, &second, stop..10);
            assert_eq!(bits(&second), bits(&first), "{name}, stopped after {stop}");
            assert_eq!(fresh.learning_rate(), optimizer.learning_rate());
            assert_eq!(fresh.steps(), 10);

            // And back in the same optimizer.
            Chain::load_state(&second, &weights).unwrap();
            fresh.load_state(&state).unwrap();
            train(&mut *fresh, &second, stop..10);
            assert_eq!(bits(&second), bits(&first), "{name}, back to {stop}");
        }
    }
}

fn names(state: &State) -> Vec<String> {
    let mut names: Vec<String> = state.iter().map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names
}

#[test]
fn names_of_the_state() {
    let mut optimizer = Adam::new(0.1);
    assert_eq!(
        names(&optimizer.state()),
        ["learning_rate", "rule", "steps"]
    );
    assert_eq!(optimizer.state().text("rule"), Ok("Adam"));
    train(&mut optimizer, &model(0), 0..3);
    let state = optimizer.state();
    let expected: Vec<&str> = state.iter().map(|(name, _)| name).collect();
    assert_eq!(
        expected[..6],
        [
            "rule",
            "steps",
            "learning_rate",
            "parameters/0/weight/m",
            "parameters/0/weight/v",
            "parameters/0/weight/steps"
        ]
    );
    assert_eq!(state.len(), 3 + 4 * 3);
    assert_eq!(state.count("parameters/1/bias/steps"), Ok(3));
    assert_eq!(
        state.array("parameters/1/bias/v").unwrap().shape(),
        &[2][..]
    );

    // A lone parameter has no name.
    let mut optimizer = MomentumSgd::new(0.1, 0.9);
    let lone = Variable::new([1.0, 2.0]);
    optimizer.minimize(&lone, &mut || lone.square().sum(..));
    let state = optimizer.state();
    let expected = [
        "learning_rate",
        "parameters/steps",
        "parameters/v",
        "rule",
        "steps",
    ];
    assert_eq!(names(&state), expected);
    let again = Variable::new(lone.array());
    let mut other = MomentumSgd::new(0.1, 0.9);
    other.load_state(&state).unwrap();
    optimizer.minimize(&lone, &mut || lone.square().sum(..));
    other.minimize(&again, &mut || again.square().sum(..));
    assert_eq!(lone.to_vec::<f64>(), again.to_vec::<f64>());
}

#[test]
fn states_of_others_are_refused_and_change_nothing() {
    let trained = model(0);
    let mut adam = Adam::new(0.1);
    train(&mut adam, &trained, 0..2);
    for (name, mut optimizer) in every() {
        if name == "adam" {
            continue;
        }
        let mut own = model(0);
        train(&mut *optimizer, &own, 0..2);
        let (before, weights) = (optimizer.state(), Chain::state(&own));
        let error = optimizer.load_state(&adam.state()).unwrap_err();
        assert_eq!(error.wrong.len(), 1, "{name}: {error}");
        assert!(
            error.to_string().contains("`rule` is `Adam`, expected `"),
            "{name}: {error}"
        );
        assert!(optimizer.load_state(&State::new()).is_err(), "{name}");
        train(&mut *optimizer, &own, 2..4);
        let expected = bits(&own);
        own = own.clone();
        Chain::load_state(&own, &weights).unwrap();
        optimizer.load_state(&before).unwrap();
        train(&mut *optimizer, &own, 2..4);
        assert_eq!(bits(&own), expected, "{name}");
    }

    // Who wants the memory of another rule says so, and gets what is in it.
    let mut state = adam.state();
    state.insert("rule", "AdamW");
    AdamW::new(0.1).load_state(&state).unwrap();
    state.insert("rule", "Sgd");
    let error = Sgd::new(0.1).load_state(&state).unwrap_err();
    assert_eq!(error.unexpected.len(), 8);
    assert_eq!(error.unexpected[0], "parameters/0/weight/m");
    state.insert("rule", "AmsGrad");
    let error = AmsGrad::new(0.1).load_state(&state).unwrap_err();
    assert_eq!(error.missing[0], "parameters/0/weight/largest");
    let mut state = adam.state();
    state.remove("rule");
    let error = Adam::new(0.1).load_state(&state).unwrap_err();
    assert_eq!(error.missing, ["rule"]);
    let mut state = adam.state();
    state.insert("other", 1.0);
    assert_eq!(
        Adam::new(0.1).load_state(&state).unwrap_err().unexpected,
        ["other"]
    );
}

#[test]
fn numbers_of_rules_without_a_meaning_are_refused() {
    let mut eve = Eve::new(0.1).group(|name| name.ends_with("bias"), |_| {});
    let own = model(0);
    train(&mut eve, &own, 0..3);
    let good = eve.state();
    let numbers = |state: &State| ["d", "loss", "groups/0/d"].map(|name| state.number(name));
    for d in [0.0, -0.5, f64::NAN, f64::INFINITY] {
        for name in ["d", "groups/0/d"] {
            let mut state = good.clone();
            state.insert(name, d);
            let message = eve.load_state(&state).unwrap_err().to_string();
            let what = format!(
                "`{name}` has no meaning: the running average `d` is {d}; it must be finite and more than 0"
            );
            assert!(message.contains(&what), "{message}");
            assert_eq!(numbers(&eve.state()), numbers(&good));
        }
    }
    // Before the first step there is no loss.
    let mut state = good;
    state.insert("loss", f64::NAN);
    eve.load_state(&state).unwrap();
    train(&mut eve, &own, 3..5);
}

#[test]
fn parameters_that_move_in_a_model_keep_their_state() {
    let loss = |model: &Vec<Variable>| {
        let squares = model
            .iter()
            .enumerate()
            .map(|(i, w)| w.square() * (i + 1) as f64);
        squares.fold(Variable::constant(0.0), |sum, square| sum + square)
    };
    let mut model = vec![Variable::new(1.0), Variable::new(2.0)];
    let mut adam = Adam::new(0.1);
    for _ in 0..3 {
        adam.minimize(&model, &mut || loss(&model));
    }
    model.insert(0, Variable::new(5.0));
    adam.minimize(&model, &mut || loss(&model));
    let counts =
        ["0", "1", "2"].map(|name| adam.state().count(&format!("parameters/{name}/steps")));
    assert_eq!(counts, [Ok(1), Ok(4), Ok(4)]);
    let copy: Vec<Variable> = model.iter().map(|w| Variable::new(w.array())).collect();
    let mut resumed = Adam::new(0.1);
    resumed.load_state(&adam.state()).unwrap();
    for _ in 0..2 {
        adam.minimize(&model, &mut || loss(&model));
        resumed.minimize(&copy, &mut || loss(&copy));
    }
    for (a, b) in model.iter().zip(&copy) {
        assert_eq!(a.item::<f64>(), b.item::<f64>());
    }
    // A part of a model has other names, which nobody else has.
    adam.minimize(&model[1], &mut || model[1].square());
    assert_eq!(adam.state().iter().count(), resumed.state().iter().count());
}

type Surgery = fn(&mut Vec<Linear>);

/// Ways to change a model between two steps.
const SURGERIES: [(&str, Surgery); 7] = [
    ("another head", |m| m[2] = linear(7)),
    ("another first layer", |m| m[0] = linear(7)),
    ("without the first layer", |m| drop(m.remove(0))),
    ("without the last layer", |m| drop(m.remove(2))),
    ("two layers swapped", |m| m.swap(0, 2)),
    ("tied layers", |m| m[0] = m[2].clone()),
    ("a frozen layer in front", |m| {
        let layer = linear(7);
        layer.freeze();
        m.insert(0, layer);
    }),
];

fn linear(seed: u64) -> Linear {
    Linear::new(2, 2, &mut Generator::new(seed))
}

/// Of a different size for each layer.
fn total(model: &[Linear]) -> Variable {
    let size = |(i, layer): (usize, &Linear)| {
        let bias = layer.bias.as_ref().expect("it has one");
        (layer.weight.square().sum(..) + (bias - 1.0).square().sum(..)) * (i + 1) as f64
    };
    let sizes = model.iter().enumerate().map(size);
    sizes.fold(Variable::constant(0f32), |sum, size| sum + size)
}

#[test]
fn a_training_whose_model_was_changed_resumes_with_the_same_bits() {
    for (name, surgery) in SURGERIES {
        let mut model: Vec<Linear> = (0..3).map(linear).collect();
        let mut optimizer = MomentumSgd::new(0.01, 0.9);
        for _ in 0..3 {
            optimizer.minimize(&model, &mut || total(&model));
        }
        surgery(&mut model);
        optimizer.minimize(&model, &mut || total(&model));

        let mut again: Vec<Linear> = (0..3).map(|i| linear(10 + i)).collect();
        surgery(&mut again);
        again.load_state(&model.state()).unwrap();
        let mut resumed = MomentumSgd::new(0.01, 0.9);
        resumed.load_state(&optimizer.state()).unwrap();
        for _ in 0..2 {
            optimizer.minimize(&model, &mut || total(&model));
            resumed.minimize(&again, &mut || total(&again));
        }
        assert_eq!(bits(&model), bits(&again), "{name}");
        // What belongs to nobody is not kept.
        let numbered = names(&optimizer.state());
        assert!(
            numbered.iter().all(|name| !name.contains('#')),
            "{numbered:?}"
        );
    }
}

#[test]
fn groups_go_by_the_names_in_the_model() {
    let moved = |surgery: Surgery| {
        let mut model: Vec<Linear> = (0..2).map(linear).collect();
        let mut sgd = Sgd::new(0.1).group(
            |name| name.starts_with("0/"),
            |first| first.learning_rate = 0.0,
        );
        sgd.minimize(&model, &mut || total(&model));
        surgery(&mut model);
        let before: Vec<Array> = model.iter().map(|layer| layer.weight.array()).collect();
        sgd.minimize(&model, &mut || total(&model));
        let pairs = model.iter().zip(&before);
        pairs
            .map(|(layer, before)| layer.weight.to_vec::<f32>() != before.to_vec::<f32>())
            .collect::<Vec<bool>>()
    };
    assert_eq!(moved(|m| m.swap(0, 1)), [false, true]);
    assert_eq!(moved(|m| m.insert(0, linear(5))), [false, true, true]);
    let frozen_in_front = |m: &mut Vec<Linear>| {
        m.insert(0, linear(5));
        m[0].freeze();
    };
    assert_eq!(moved(frozen_in_front), [false, true, true]);
}

#[test]
fn a_state_is_of_one_model() {
    let (first, second) = (linear(0), linear(1));
    // Groups know the names in each of both.
    let mut sgd = MomentumSgd::new(0.1, 0.9).group(
        |name| name == "weight",
        |weights| weights.learning_rate = 0.0,
    );
    for layer in [&first, &second] {
        let before = layer.weight.to_vec::<f32>();
        sgd.minimize(layer, &mut || layer.weight.square().sum(..));
        assert_eq!(layer.weight.to_vec::<f32>(), before);
    }
    let error = attempt(|| sgd.state()).unwrap_err().to_string();
    assert!(
        error.starts_with("state: ") && error.contains("`weight`"),
        "{error}"
    );
    assert!(error.contains("optimizers/state.rs"), "{error}");
    let before = sgd.steps();
    let empty = MomentumSgd::new(0.1, 0.9).state();
    assert!(attempt(|| sgd.load_state(&empty)).is_err());
    assert_eq!(sgd.steps(), before);
    drop(first);
    let state = sgd.state();
    assert!(state.array("parameters/weight/v").is_ok());
    assert_eq!(state.count("parameters/weight/steps"), Ok(1));
}

#[test]
fn names_are_those_of_a_whole_model_where_parts_make_steps() {
    let model: Vec<Linear> = (0..2).map(linear).collect();
    let mut adam = Adam::new(0.1);
    adam.minimize(&model, &mut || total(&model));
    let before = names(&adam.state());
    for layer in &model {
        adam.minimize(layer, &mut || layer.weight.square().sum(..));
    }
    assert_eq!(names(&adam.state()), before);
    // A part that came first has its name in the whole from then on.
    let mut adam = Adam::new(0.1);
    adam.minimize(&model[1], &mut || model[1].weight.square().sum(..));
    adam.minimize(&model, &mut || total(&model));
    assert_eq!(names(&adam.state()), before);
    let again: Vec<Linear> = (2..4).map(linear).collect();
    again.load_state(&model.state()).unwrap();
    let mut other = Adam::new(0.1);
    other.load_state(&adam.state()).unwrap();
    adam.minimize(&model, &mut || total(&model));
    other.minimize(&again, &mut || total(&again));
    assert_eq!(bits(&again), bits(&model));
}

#[test]
fn what_is_loaded_belongs_to_the_names_of_the_next_step() {
    let mut model: Vec<Linear> = (0..2).map(linear).collect();
    let mut adam = Adam::new(0.1);
    adam.minimize(&model, &mut || total(&model));
    let (before, state) = (model.state(), adam.state());
    adam.minimize(&model, &mut || total(&model));
    let expected = bits(&model);
    // The layers change places, and the optimizer learns their names there.
    model.swap(0, 1);
    adam.minimize(&model, &mut || total(&model));
    model.swap(0, 1);
    model.load_state(&before).unwrap();
    adam.load_state(&state).unwrap();
    adam.minimize(&model, &mut || total(&model));
    assert_eq!(bits(&model), expected);
}

#[test]
fn a_parameter_that_moves_to_a_name_that_was_loaded_keeps_its_own_state() {
    let loss = |model: &Vec<Variable>| {
        let squares = model.iter().map(Variable::square);
        squares.fold(Variable::constant(0.0), |sum, square| sum + square)
    };
    let model = vec![1.0, 2.0, 3.0].into_iter().map(Variable::new).collect();
    let mut adam = Adam::new(0.1);
    for _ in 0..3 {
        adam.minimize(&model, &mut || loss(&model));
    }
    let mut resumed = Adam::new(0.1);
    resumed.load_state(&adam.state()).unwrap();
    let mut model = model[..2].to_vec();
    resumed.minimize(&model, &mut || loss(&model));
    let counts = |adam: &Adam| {
        ["0", "1", "2"].map(|name| {
            adam.state()
                .count(&format!("parameters/{name}/steps"))
                .unwrap()
        })
    };
    assert_eq!(counts(&resumed), [4, 4, 3]);
    model.insert(0, Variable::new(5.0));
    resumed.minimize(&model, &mut || loss(&model));
    assert_eq!(counts(&resumed), [1, 5, 5]);
}

#[test]
fn states_of_other_shapes_are_refused() {
    for (name, mut optimizer) in every() {
        let small = model(0);
        train(&mut *optimizer, &small, 0..4);
        let mut state = State::new();
        for (name, value) in optimizer.state() {
            let value = match value {
                bibun::serializers::Value::Array(x) if x.shape() == &[4][..] => {
                    Array::zeros([7], x.dtype()).into()
                }
                other => other,
            };
            state.insert(name, value);
        }
        if name == "sgd" {
            continue;
        }
        // At once where the parameter is known.
        let error = optimizer.load_state(&state).unwrap_err();
        assert!(
            error.wrong[0].0.starts_with("parameters/0/bias/"),
            "{name}: {error}"
        );
        // When the parameter appears where it is not.
        let mut fresh = every()
            .into_iter()
            .find(|(other, _)| *other == name)
            .unwrap()
            .1;
        fresh.load_state(&state).unwrap();
        let mut refused = || attempt(|| train(&mut *fresh, &small, 4..5)).unwrap_err();
        let error = refused();
        // The state is still there, to be refused again.
        assert_eq!(refused().to_string(), error.to_string());
        assert!(
            error.to_string().contains("of the loaded state is"),
            "{name}: {error}"
        );
    }
}

#[test]
fn the_first_step_after_loading_is_of_the_model_that_was_saved() {
    let whole = model(0);
    let mut adam = Adam::new(0.1);
    train(&mut adam, &whole, 0..3);
    let state = adam.state();
    let loaded = || {
        let mut adam = Adam::new(0.1);
        adam.load_state(&state).unwrap();
        adam
    };
    let loss = |layer: &Linear| layer.weight.square().sum(..);
    let expected = "the loaded state is of other parameters (`0/weight` and 3 more) than the model's (`weight` and \
                    1 more); use the model that the state was saved with, or a new optimizer";

    // A part of the model, whose parameters have other names there.
    let mut eager = loaded();
    let before = bits(&whole);
    for _ in 0..2 {
        let error = attempt(|| eager.minimize(&whole[0], &mut || loss(&whole[0]))).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(bits(&whole), before);
    assert_eq!(names(&eager.state()), names(&state));
    let error = attempt(|| loaded().minimized(&whole[0], loss)).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    let step = compile(move |(layer, adam): &(Linear, Adam)| adam.minimized(layer, loss));
    let error = attempt(|| step.call(&(whole[0].clone(), loaded()))).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");

    // After a step of the model itself, others may follow; so they may where nothing was loaded.
    train(&mut eager, &whole, 3..4);
    eager.minimize(&whole[0], &mut || loss(&whole[0]));
    let both = compile(move |(model, adam): &(Vec<Linear>, Adam)| {
        let total = |model: &Vec<Linear>| loss(&model[0]) + loss(&model[1]);
        adam.minimized(model, total)
    });
    let (_, stepped, adam) = both.call(&(whole.clone(), loaded()));
    let (_, stepped, adam) = both.call(&(stepped, adam));
    assert_eq!(Optimizer::steps(&adam), 5);
    let (_, _, adam) = step.call(&(stepped[0].clone(), adam));
    assert_eq!(Optimizer::steps(&adam), 6);
    assert!(names(&adam.state()).contains(&"parameters/weight/m".to_owned()));

    // Another part of the model may be trained than was before.
    let mut part = Adam::new(0.1);
    whole[1].freeze();
    part.minimize(&whole, &mut || loss(&whole[0]));
    let mut resumed = Adam::new(0.1);
    resumed.load_state(&part.state()).unwrap();
    whole[0].freeze();
    whole[1].unfreeze();
    resumed.minimize(&whole, &mut || loss(&whole[1]));
    whole[0].unfreeze();
    let one = compile(move |(model, adam): &(Vec<Linear>, Adam)| {
        adam.minimized(model, |model| loss(&model[1]))
    });
    let mut resumed = Adam::new(0.1);
    resumed.load_state(&part.state()).unwrap();
    let (_, _, resumed) = one.call(&(whole.clone(), resumed));
    assert_eq!(Optimizer::steps(&resumed), 2);

    // A state without parameters is of any.
    let mut fresh = Adam::new(0.1);
    fresh.load_state(&Adam::new(0.1).state()).unwrap();
    fresh.minimize(&whole[0], &mut || loss(&whole[0]));
    // Some of them may be new.
    let grown: Vec<Linear> = whole.iter().cloned().chain([linear(7)]).collect();
    loaded().minimize(&grown, &mut || loss(&grown[0]) + loss(&grown[2]));
}

#[test]
fn curvature_is_that_of_the_same_parameters_after_loading() {
    let far = |model: &Vec<Linear>| {
        let x = Variable::constant(Generator::new(3).normal([9, 3], 0.0, 1.0, DType::F32));
        let y = model[1].forward(&model[0].forward(&x).tanh());
        (y - 1.0).square().mean(..)
    };
    let train = |lbfgs: &mut Lbfgs, model: &Vec<Linear>| {
        drop(lbfgs.minimize(model, &mut || far(model)));
    };
    let trained = || {
        let (model, mut lbfgs) = (model(0), Lbfgs::new(0.5).iterations(3));
        train(&mut lbfgs, &model);
        (model, lbfgs)
    };
    // Frozen since: the history starts anew, with and without loading. Frozen before: likewise.
    for (before, after) in [(false, true), (true, false), (false, false)] {
        let (own, mut lbfgs) = trained();
        if before {
            own[0].freeze();
            train(&mut lbfgs, &own);
        }
        let copy = model(1);
        Chain::load_state(&copy, &Chain::state(&own)).unwrap();
        let mut loaded = Lbfgs::new(0.5).iterations(3);
        loaded.load_state(&lbfgs.state()).unwrap();
        for model in [&own, &copy] {
            match after {
                true => model[0].freeze(),
                false => model[0].unfreeze(),
            }
        }
        for _ in 0..2 {
            train(&mut lbfgs, &own);
            train(&mut loaded, &copy);
            assert_eq!(
                bits(&own),
                bits(&copy),
                "frozen before: {before}, after: {after}"
            );
        }
    }
    // A state without pairs is of any model, one of others of none.
    let (own, mut lbfgs) = (model(0), Lbfgs::new(0.5));
    lbfgs.load_state(&Lbfgs::new(0.5).state()).unwrap();
    train(&mut lbfgs, &own);
    let state = trained().1.state();
    lbfgs = Lbfgs::new(0.5);
    lbfgs.load_state(&state).unwrap();
    let part = || own[1].weight.square().sum(..);
    let error = attempt(|| lbfgs.minimize(&own[1], &mut || part())).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the loaded state is of other parameters"),
        "{error}"
    );
    assert!(error.to_string().contains(file!()), "{error}");
}

#[test]
fn parameters_missing_in_the_state_begin_anew() {
    let steps = |optimizer: &mut Adam, w: &Variable, count: usize| {
        for _ in 0..count {
            optimizer.minimize(w, &mut || (w - 3.0).square());
        }
    };
    let mut optimizer = Adam::new(0.1);
    let before = optimizer.state();
    let w = Variable::new(0.0);
    steps(&mut optimizer, &w, 3);
    optimizer.load_state(&before).unwrap();
    w.set_array(Array::scalar(0.0));
    steps(&mut optimizer, &w, 2);
    let (other, mut fresh) = (Variable::new(0.0), Adam::new(0.1));
    steps(&mut fresh, &other, 2);
    assert_eq!(w.item::<f64>(), other.item::<f64>());
    assert_eq!(optimizer.steps(), 2);
}
