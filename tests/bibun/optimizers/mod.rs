//! Optimizers: what every one of them promises.

mod complex;
mod convergence;
mod first_steps;
mod groups;
mod hooks;
mod schedules;
mod state;

use bibun::array::{Array, DType};
use bibun::optimizers::{
    AdaDelta, AdaGrad, Adam, AdamW, AmsGrad, Eve, Lamb, Lbfgs, Lion, MomentumSgd, NesterovAg,
    Optimizer, RmsProp, RmsPropGraves, Rprop, Sgd, Smorms3,
};
use bibun::{Variable, attempt};

/// Every optimizer, by name.
pub(crate) fn all(learning_rate: f64) -> Vec<(&'static str, Box<dyn Optimizer>)> {
    vec![
        ("sgd", Box::new(Sgd::new(learning_rate))),
        ("momentum", Box::new(MomentumSgd::new(learning_rate, 0.9))),
        ("nesterov", Box::new(NesterovAg::new(learning_rate, 0.9))),
        ("ada_grad", Box::new(AdaGrad::new(learning_rate))),
        ("ada_delta", Box::new(AdaDelta::new(learning_rate))),
        ("adam", Box::new(Adam::new(learning_rate))),
        ("adam_w", Box::new(AdamW::new(learning_rate))),
        ("ams_grad", Box::new(AmsGrad::new(learning_rate))),
        ("rms_prop", Box::new(RmsProp::new(learning_rate))),
        ("graves", Box::new(RmsPropGraves::new(learning_rate))),
        ("smorms3", Box::new(Smorms3::new(learning_rate))),
        ("rprop", Box::new(Rprop::new(learning_rate))),
        ("eve", Box::new(Eve::new(learning_rate))),
        ("lion", Box::new(Lion::new(learning_rate))),
        ("lamb", Box::new(Lamb::new(learning_rate))),
        ("lbfgs", Box::new(Lbfgs::new(learning_rate))),
    ]
}

fn set(w: &Variable, gradient: impl Into<Array>) {
    w.set_grad(&Variable::constant(gradient));
}

#[test]
fn no_gradient_no_change() {
    for ((name, mut optimizer), (_, mut fresh)) in all(0.5).into_iter().zip(all(0.5)) {
        let model = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
        for _ in 0..3 {
            set(&model.0, [1.0, 1.0]);
            optimizer.update(&model);
        }
        assert_ne!(model.0.to_vec::<f64>(), [1.0, 2.0], "{name}");
        assert_eq!(model.1.to_vec::<f64>(), [3.0, 4.0], "{name}");
        model.0.clear_grad();
        let before = model.0.to_vec::<f64>();
        set(&model.1, [1.0, 1.0]);
        optimizer.update(&model);
        assert_eq!(model.0.to_vec::<f64>(), before, "{name}");
        // The second takes its first step.
        let second = Variable::new([3.0, 4.0]);
        set(&second, [1.0, 1.0]);
        fresh.update(&second);
        assert_eq!(model.1.to_vec::<f64>(), second.to_vec::<f64>(), "{name}");
        assert_eq!(optimizer.steps(), 4);
    }
}

#[test]
fn shared_parameters_move_once() {
    for ((name, mut once), (_, mut twice)) in all(0.5).into_iter().zip(all(0.5)) {
        let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([1.0, 2.0]));
        for _ in 0..3 {
            for w in [&a, &b] {
                set(w, [0.5, -1.0]);
            }
            once.update(&a);
            twice.update(&(b.clone(), vec![b.clone()]));
        }
        assert_eq!(a.to_vec::<f64>(), b.to_vec::<f64>(), "{name}");
    }
}

#[test]
fn learning_rates_change() {
    for (name, mut optimizer) in all(0.5) {
        assert_eq!(optimizer.learning_rate(), 0.5);
        optimizer.set_learning_rate(0.0);
        assert_eq!(optimizer.learning_rate(), 0.0);
        let w = Variable::new([1.0, 2.0]);
        set(&w, [1.0, 1.0]);
        optimizer.update(&w);
        assert_eq!(w.to_vec::<f64>(), [1.0, 2.0], "{name}");
        let loss = optimizer.minimize(&w, &mut || w.square().sum(..));
        assert_eq!(loss.item::<f64>(), 5.0);
        assert_eq!(w.to_vec::<f64>(), [1.0, 2.0], "{name}");
        optimizer.set_learning_rate(0.25);
        set(&w, [1.0, 1.0]);
        optimizer.update(&w);
        assert!(w.to_vec::<f64>()[0] < 1.0, "{name}");
    }
}

#[test]
fn gradients_of_any_layout_and_parameters_of_any_size() {
    for ((name, mut optimizer), (_, mut plain)) in all(0.5).into_iter().zip(all(0.5)) {
        let w = Variable::new(Array::zeros([2, 3], DType::F32));
        let rows = Array::from([[1f32, 3.0], [2.0, 4.0], [3.0, 5.0]]);
        for gradient in [rows.transpose(), Array::ones([2, 3], DType::F32)] {
            set(&w, gradient);
            optimizer.update(&w);
        }
        let w = w.to_vec::<f32>();
        assert!(w.iter().all(|&w| w < 0.0), "{name}: {w:?}");
        let same = Variable::new(Array::from([[0f32; 3]; 2]));
        for gradient in [
            [[1f32, 2.0, 3.0], [3.0, 4.0, 5.0]],
            [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        ] {
            set(&same, gradient);
            plain.update(&same);
        }
        // The order of the sums of norms is that of the pieces.
        for (found, expected) in w.iter().zip(same.to_vec::<f32>()) {
            assert!((found - expected).abs() < 1e-6, "{name}");
        }
        let scalar = Variable::new(1.0);
        set(&scalar, 1.0);
        optimizer.update(&scalar);
        assert!(scalar.item::<f64>() < 1.0, "{name}");
        let empty = Variable::new(Array::zeros([0, 3], DType::F64));
        set(&empty, Array::zeros([0, 3], DType::F64));
        optimizer.update(&empty);
    }
}

/// Layouts that are gathered block by block give what the same elements in a row give.
#[test]
fn large_gradients_of_any_layout() {
    let g = &mut bibun::array::Generator::new(5);
    let turned = g.normal([130, 70], 0.0, 1.0, DType::F32).transpose();
    let cut = g
        .normal([1, 90, 200], 0.0, 1.0, DType::F32)
        .slice(bibun::s![.., 5..75, ..130]);
    let cut = cut.reshape([70, 130]);
    for gradient in [turned, cut, Array::full([70, 130], 0.5f32)] {
        for ((name, mut one), (_, mut other)) in all(0.01).into_iter().zip(all(0.01)) {
            let w = g.normal([70, 130], 0.0, 1.0, DType::F32);
            let (a, b) = (Variable::new(w.clone()), Variable::new(w));
            set(&a, gradient.clone());
            set(&b, Array::from_vec(gradient.to_vec::<f32>(), [70, 130]));
            one.update(&a);
            other.update(&b);
            for (a, b) in a.to_vec::<f32>().iter().zip(b.to_vec::<f32>()) {
                assert!((a - b).abs() < 1e-6, "{name}");
            }
        }
    }
}

#[test]
fn memory_is_kept_and_history_is_not_changed() {
    for (name, mut optimizer) in all(0.5) {
        let w = Variable::new(vec![1.0; 100]);
        set(&w, vec![1.0; 100]);
        optimizer.update(&w);
        let address = || w.array().as_slice::<f64>().unwrap().as_ptr();
        let first = address();
        optimizer.update(&w);
        assert_eq!(address(), first, "{name}");
        optimizer.minimize(&w, &mut || w.square().sum(..));
        assert_eq!(address(), first, "{name}");

        set(&w, vec![1.0; 100]);
        let before = w.array();
        let values = before.to_vec::<f64>();
        optimizer.update(&w);
        assert_eq!(before.to_vec::<f64>(), values, "{name}");
        assert_ne!(w.to_vec::<f64>(), values, "{name}");
    }
}

#[test]
fn minimize_returns_the_loss_before_the_step() {
    for (name, mut optimizer) in all(0.01) {
        let w = Variable::new([1.0, 2.0]);
        // What an earlier walk left is no part of the step.
        set(&w, [f64::NAN, f64::NAN]);
        let loss = optimizer.minimize(&w, &mut || w.square().sum(..));
        assert_eq!(loss.item::<f64>(), 5.0, "{name}");
        assert!(!loss.requires_grad(), "{name}");
        assert!(w.square().sum(..).item::<f64>() < 5.0, "{name}");
        assert_eq!(optimizer.steps(), 1, "{name}");
    }
}

#[test]
fn mistakes_are_told() {
    use bibun::optimizers::schedule::{cosine_restarts, piecewise, step_decay};
    let error = attempt(|| piecewise(1.0, [(5, 0.1), (5, 0.2)])).unwrap_err();
    assert!(
        error.to_string().contains("the steps [5, 5] do not ascend"),
        "{error}"
    );
    assert!(attempt(|| step_decay(0, 0.5)).is_err());
    assert!(attempt(|| cosine_restarts(0, 2)).is_err());
}

/// The message of an error, which names a line of this file.
fn refused<T>(call: impl FnOnce() -> T) -> String {
    let message = attempt(|| drop(call())).unwrap_err().to_string();
    assert!(message.contains(file!()), "{message}");
    message
}

#[test]
fn settings_without_a_meaning_are_refused() {
    use bibun::optimizers::hooks::{ClipNorm, ClipValue, GradientNoise, Lasso, WeightDecay};
    use bibun::optimizers::{AdamRule, RuleOptimizer};
    use bibun::{clip_factors, per_example};
    for rate in [-0.1, f64::NAN, f64::INFINITY] {
        let refusals = [
            refused(|| Adam::new(rate)),
            refused(|| Sgd::new(rate)),
            refused(|| MomentumSgd::new(rate, 0.9)),
            refused(|| Lbfgs::new(rate)),
            refused(|| Sgd::new(0.1).set_learning_rate(rate)),
            refused(|| Lbfgs::new(1.0).set_learning_rate(rate)),
            refused(|| Sgd::new(0.1).group(|_| true, |group| group.learning_rate = rate)),
        ];
        for message in refusals {
            assert!(
                message.contains(&format!("the learning rate η is {rate}; it must be finite")),
                "{message}"
            );
        }
    }
    let message = refused(|| Adam::new(0.1).betas(0.9, 1.0));
    let expected = "betas: the `second` of the decay rates β₁ and β₂ of the moments is 1; it must be at least 0 \
                    and less than 1";
    assert!(message.contains(expected), "{message}");
    refused(|| Adam::new(0.1).epsilon(-1e-8));
    refused(|| AdamW::new(0.1).weight_decay(f64::NAN));
    refused(|| RmsProp::new(0.1).alpha(1.5));
    refused(|| NesterovAg::new(0.1, -0.5));
    refused(|| Rprop::new(0.1).factors(-0.5, 1.2));
    refused(|| Eve::new(0.1).least(f64::NEG_INFINITY));
    refused(|| Eve::new(0.1).bound(0.5));
    refused(|| Lbfgs::new(1.0).tolerance(-1.0));
    refused(|| GradientNoise::new(-1.0, 0));
    let norms = Variable::new([1.0, 2.0]);
    for bound in [-1.0, 0.0, f64::NAN] {
        refused(|| clip_factors(&norms, bound));
        let losses = Variable::constant([[1.0, 2.0]]).matmul(&norms);
        refused(|| per_example(&losses, &norms).clipped_sum(bound));
    }

    // However a setting comes into a rule.
    let rule = AdamRule {
        epsilon: -1e-8,
        ..AdamRule::default()
    };
    let messages = [
        refused(|| RuleOptimizer::with_rule(0.1, rule)),
        refused(|| Adam::new(0.1).with(|rule| rule.epsilon = -1e-8)),
        refused(|| Adam::new(0.1).group(|_| true, |group| group.rule.epsilon = -1e-8)),
    ];
    for (message, function) in messages.into_iter().zip(["new", "with", "group"]) {
        let expected =
            format!("{function}: the number ε added to the root is -0.00000001; it must be");
        assert!(message.starts_with(&expected), "{message}");
    }
    refused(|| MomentumSgd::new(0.1, 0.9).with(|rule| rule.momentum = f64::NAN));
    refused(|| NesterovAg::new(0.1, 0.9).with(|rule| rule.momentum = -0.9));
    refused(|| Lamb::new(0.1).with(|rule| rule.betas = [0.9, 1.5]));

    // Hooks are written as they are, and refused where they are added.
    let hooked = || Sgd::new(0.1);
    let messages = [
        refused(|| hooked().hook(ClipNorm(-1.0))),
        refused(|| hooked().hook(ClipValue(f64::NAN))),
        refused(|| hooked().hook_where(|_| true, WeightDecay(-0.1))),
        refused(|| hooked().hook(Lasso(f64::INFINITY))),
    ];
    for message in messages {
        assert!(message.starts_with("hook: the "), "{message}");
    }
    refused(|| GradientNoise::new(1.0, 0).decay(f64::NAN));

    // What is called through `dyn` knows the line, too.
    let boxed = || -> Box<dyn Optimizer> { Box::new(hooked()) };
    let nothing: Vec<Variable> = Vec::new();
    refused(|| boxed().set_learning_rate(-1.0));
    refused(|| boxed().update(&nothing));
    refused(|| boxed().minimize(&nothing, &mut || Variable::new(1.0)));

    // Files are not believed either, and change nothing.
    let optimizers: [Box<dyn Optimizer>; 2] = [Box::new(Sgd::new(0.1)), Box::new(Lbfgs::new(0.1))];
    for mut optimizer in optimizers {
        for rate in [-1.0, f64::NAN, f64::INFINITY] {
            let mut state = optimizer.state();
            state.insert("steps", 7u64);
            state.insert("learning_rate", rate);
            let message = optimizer.load_state(&state).unwrap_err().to_string();
            assert!(
                message.contains(&format!("is {rate}; it must be finite")),
                "{message}"
            );
            assert_eq!((optimizer.learning_rate(), optimizer.steps()), (0.1, 0));
        }
    }

    // The ends of the ranges have a meaning.
    let w = Variable::new([1.0, -2.0]);
    w.set_grad(&Variable::constant([3.0, -4.0]));
    hooked().hook(ClipNorm(f64::INFINITY)).update(&w);
    Adam::new(0.0).betas(0.0, 0.0).epsilon(0.0).update(&w);
}
