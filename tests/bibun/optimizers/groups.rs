//! Settings of some parameters, and rules of one's own.

use bibun::array::math::Float;
use bibun::array::{ElementFormula, Given, Kernel, Number};
use bibun::links::Chain;
use bibun::optimizers::schedule::linear;
use bibun::optimizers::*;
use bibun::serializers::Stateful;
use bibun::{Variable, attempt};

#[derive(Chain)]
struct Layer {
    w: Variable,
    b: Variable,
}

#[derive(Chain)]
struct Model {
    first: Layer,
    second: Layer,
}

fn model() -> Model {
    let layer = || Layer {
        w: Variable::new(1.0),
        b: Variable::new(1.0),
    };
    Model {
        first: layer(),
        second: layer(),
    }
}

fn values(model: &Model) -> [f64; 4] {
    let Model { first, second } = model;
    [&first.w, &first.b, &second.w, &second.b].map(Variable::item)
}

fn step(optimizer: &mut dyn Optimizer, model: &Model) {
    for (_, w) in model.parameters() {
        w.set_grad(&Variable::constant(-1.0));
    }
    optimizer.update(model);
}

#[test]
fn the_first_group_that_fits() {
    let mut optimizer = Sgd::new(1.0)
        .group(
            |name| name.ends_with("/b"),
            |group| group.learning_rate = 0.5,
        )
        .group(
            |name| name.starts_with("second"),
            |group| group.learning_rate = 0.25,
        );
    let model = model();
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [2.0, 1.5, 1.25, 1.5]);
    assert_eq!(optimizer.learning_rate(), 1.0);
}

#[test]
fn rates_of_groups_follow() {
    let mut optimizer = Sgd::new(1.0)
        .group(
            |name| name.ends_with("/b"),
            |group| group.learning_rate = 0.5,
        )
        .schedule(linear(4));
    let model = model();
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [2.0, 1.5, 2.0, 1.5]);
    optimizer.set_learning_rate(4.0);
    assert_eq!(
        (optimizer.base_learning_rate(), optimizer.learning_rate()),
        (4.0, 3.0)
    );
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [5.0, 3.0, 5.0, 3.0]);
    optimizer.set_learning_rate(0.0);
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [5.0, 3.0, 5.0, 3.0]);
    optimizer.set_learning_rate(1.0);
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [5.25, 3.125, 5.25, 3.125]);
    // Beyond the end of the schedule.
    step(&mut optimizer, &model);
    assert_eq!(values(&model), [5.25, 3.125, 5.25, 3.125]);
}

#[test]
fn settings_of_the_rule() {
    let mut optimizer = AdamW::new(0.5).weight_decay(0.5).group(
        |name| name.ends_with("/b"),
        |group| group.rule.weight_decay = 0.0,
    );
    let model = model();
    for (_, w) in model.parameters() {
        w.set_grad(&Variable::constant(0.0));
    }
    optimizer.update(&model);
    assert_eq!(values(&model), [0.75, 1.0, 0.75, 1.0]);
}

/// Two passes, numbers of state that do not begin at zero, and numbers of the rule itself.
#[derive(Clone, Debug)]
struct Counting {
    losses: f64,
}

/// The number of state and the gradient, added up.
struct Sum;

impl ElementFormula<3> for Sum {
    const NAME: &'static str = "sum";

    fn value<T: Float>([_, gw, count]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
        gw + count
    }
}

impl UpdateRule<1, 1> for Counting {
    const NAME: &'static str = "Counting";
    const STATE: [&'static str; 1] = ["count"];
    const INITIAL: [f64; 1] = [10.0];
    const OBSERVES: bool = true;

    fn measured(&self, _: &ParameterStep) -> Option<Kernel> {
        Some(Kernel::of(Sum, []))
    }

    fn given(&self, step: &ParameterStep) -> [Given; 1] {
        let [w, sum] = &step.squares;
        let number = step.number as f64 + self.losses;
        [(w + 2.0 * sum + number).into()]
    }

    fn element<T: Float>(
        _: Number<T>,
        gw: Number<T>,
        [count]: [Number<T>; 1],
        [number]: [Number<T>; 1],
    ) -> (Number<T>, [Number<T>; 1]) {
        let count = count + gw;
        (count * number, [count])
    }

    fn observe(&mut self, loss: f64) {
        self.losses += loss;
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![("losses", &mut self.losses)]
    }
}

#[test]
fn a_rule_of_ones_own() {
    let n = 5000;
    let w = Variable::new(vec![1.0; n]);
    let mut optimizer = RuleOptimizer::with_rule(1.0, Counting { losses: 0.0 });
    let loss = optimizer.minimize(&w, &mut || w.sum(..));
    assert_eq!(loss.item::<f64>(), n as f64);
    // Σ w², Σ (gw + count)², the step and the loss.
    let number = n as f64 + 2.0 * 121.0 * n as f64 + 1.0 + n as f64;
    assert_eq!(w.to_vec::<f64>(), vec![11.0 * number; n]);
}

/// A rule whose names in a state may be those of others.
#[derive(Clone, Debug)]
struct Named<const STEPS: bool>(&'static str, f64);

impl<const STEPS: bool> UpdateRule<1, 0> for Named<STEPS> {
    const NAME: &'static str = "Named";
    const STATE: [&'static str; 1] = [if STEPS { "steps" } else { "m" }];

    fn given(&self, _: &ParameterStep) -> [Given; 0] {
        []
    }

    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [m]: [Number<T>; 1],
        []: [Number<T>; 0],
    ) -> (Number<T>, [Number<T>; 1]) {
        (w - gw, [m + gw])
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![(self.0, &mut self.1)]
    }
}

#[test]
fn names_that_a_state_has_already_are_refused() {
    fn refused<const STEPS: bool>(number: &'static str, what: &str) {
        let make = || RuleOptimizer::with_rule(1.0, Named::<STEPS>(number, 0.0));
        let error = attempt(make).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(file!()), "{error}");
    }
    refused::<true>("own", "`STATE` is called `steps`");
    for number in ["rule", "steps", "learning_rate"] {
        refused::<false>(number, &format!("number of the rule is called `{number}`"));
    }
    let state = RuleOptimizer::with_rule(1.0, Named::<false>("own", 2.0)).state();
    assert_eq!(state.number("own"), Ok(2.0));
}
