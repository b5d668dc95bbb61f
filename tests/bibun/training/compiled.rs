//! A compiled trainer does what the other does, with the same bits.

use bibun::array::{Array, Generator};
use bibun::datasets::{DataLoader, Digits};
use bibun::functions::{accuracy, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link, Mlp};
use bibun::optimizers::{Adam, AdamW, Eve, Lbfgs, MomentumSgd, Optimizer, Sgd};
use bibun::serializers::Stateful;
use bibun::training::{
    BatchSource, Evaluator, GradientStep, Outcome, Snapshots, Step, Trainer, TrainingError,
    Trigger, Until,
};
use bibun::{Variable, attempt};

use super::points::{Folder, Net, Points, bits, still, told};

fn learn(model: &Mlp, (x, t): &(Array, Array), step: &mut Step<'_>) -> Variable {
    let (y, t) = (model.forward(&Variable::constant(x)), Variable::constant(t));
    step.report_metric("accuracy", [&y, &t], |[y, t]| accuracy(y, t));
    softmax_cross_entropy(y, t)
}

fn of_digits() -> Trainer<Mlp, impl BatchSource<Batch = (Array, Array)>> {
    let digits = Digits::new(0);
    let model = Mlp::builder(&[784, 20, 10])
        .dropout(0.2)
        .build(&mut Generator::new(0));
    let train = DataLoader::new(digits.images(0..230), 50).shuffle(0);
    let test = DataLoader::new(digits.images(230..300), 40);
    Trainer::new(model, train, Adam::new(0.01), learn)
        .until(Until::Epochs(3.0))
        .extend(Evaluator::new("test", test, learn))
}

#[test]
fn digits_are_learnt_with_the_same_bits() {
    let (mut eager, mut compiled) = (of_digits(), of_digits().compiled());
    assert_eq!(eager.run().unwrap(), Outcome::Finished);
    assert_eq!(compiled.run().unwrap(), Outcome::Finished);
    assert_eq!(bits(eager.model()), bits(compiled.model()));
    assert_eq!(told(eager.log()), told(compiled.log()));
    let [one, other] = [&eager, &compiled].map(|trainer| trainer.state().part("train_step"));
    assert_eq!(one.checksum(), other.checksum());
    // The first step has biases that are repeated zeros; the last batch of an epoch is smaller.
    assert_eq!((eager.traces(), compiled.traces()), (0, 3));
    assert!(compiled.log().last().unwrap().get("accuracy").is_some());
}

fn of_points(optimizer: impl Optimizer + 'static) -> Trainer<Net, Points> {
    Trainer::new(Net::new(0), Points::new(70, 16), optimizer, still)
        .until(Until::Epochs(4.0))
        .log_every(Trigger::Iterations(3))
}

#[test]
fn snapshots_of_both_go_on_in_both() {
    let mut whole = of_points(Adam::new(0.01));
    whole.run().unwrap();
    for compiled_first in [false, true] {
        let folder = Folder::new("compiled");
        let trainer = |is_compiled: bool, epochs: f64| {
            let trainer = of_points(Adam::new(0.01)).until(Until::Epochs(epochs));
            let trainer = trainer.folder(folder.path());
            let trainer = trainer.snapshots(Snapshots::every(Trigger::Iterations(2)));
            match is_compiled {
                true => trainer.compiled(),
                false => trainer,
            }
        };
        trainer(compiled_first, 1.6).run().unwrap();
        let mut last = trainer(!compiled_first, 4.0);
        last.resume().unwrap();
        last.run().unwrap();
        assert_eq!(bits(last.model()), bits(whole.model()));
        assert_eq!(told(last.log()), told(whole.log()));
    }
}

#[test]
fn all_optimizers_learn_from_a_compiled_loss() {
    fn check(make: impl Fn() -> Box<dyn Optimizer>) {
        let (mut eager, mut compiled) = (of_points(make()), of_points(make()).compiled());
        eager.run().unwrap();
        compiled.run().unwrap();
        assert_eq!(bits(eager.model()), bits(compiled.model()));
        assert_eq!(told(eager.log()), told(compiled.log()));
    }
    check(|| Box::new(MomentumSgd::new(0.1, 0.9)));
    check(|| Box::new(Eve::new(0.01)));
    check(|| Box::new(Lbfgs::new(0.1).iterations(3)));
}

#[derive(Chain)]
struct Parts {
    used: Linear,
    unused: Linear,
    frozen: Linear,
}

#[test]
fn parameters_without_gradient_do_not_change() {
    let run = |is_compiled: bool| {
        let g = &mut Generator::new(2);
        let model = Parts {
            used: Linear::new(2, 3, g),
            unused: Linear::new(3, 1, g),
            frozen: Linear::new(3, 1, g),
        };
        model.frozen.freeze();
        let loss = |model: &Parts, (x, t): &(Array, Array), step: &mut Step<'_>| {
            step.set_weight(7.0);
            step.report("size", x.shape()[0] as f64);
            let h = model.used.forward(&Variable::constant(x)).tanh();
            (model.frozen.forward(&h) - t).square().mean(..)
        };
        let optimizer = AdamW::new(0.1).weight_decay(0.5);
        let trainer = Trainer::new(model, Points::new(30, 8), optimizer, loss);
        let mut trainer = match is_compiled {
            true => trainer.compiled(),
            false => trainer,
        };
        trainer.run().unwrap();
        (
            bits(trainer.model()),
            told(trainer.log()),
            trainer.state().part("train_step").checksum(),
        )
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_loss_that_is_not_finite_is_found() {
    let run = |is_compiled: bool| {
        let loss = |w: &Variable, (x, _): &(Array, Array), _: &mut Step<'_>| {
            ((w - 1.0).log() * Variable::constant(x).sum(..)).sum(..)
        };
        let trainer = Trainer::new(
            Variable::new([2.0f32, 0.5]),
            Points::new(8, 4),
            Sgd::new(0.1),
            loss,
        );
        let mut trainer = match is_compiled {
            true => trainer.compiled(),
            false => trainer,
        };
        let error = trainer.run().unwrap_err();
        assert!(matches!(
            error,
            TrainingError::NotFinite {
                anomaly: Some(_),
                ..
            }
        ));
        (error.to_string(), trainer.model().to_vec::<f32>())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn what_a_compiled_loss_cannot_do_is_refused() {
    #[track_caller]
    fn refused(
        loss: impl Fn(&Net, &(Array, Array), &mut Step<'_>) -> Variable + 'static,
        expected: &str,
    ) {
        let trainer = Trainer::new(Net::new(0), Points::new(10, 4), Sgd::new(0.1), loss);
        let error = attempt(|| trainer.compiled().run().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("compiled.rs"), "{error}");
    }
    refused(
        |model, batch, step| {
            let _ = step.random();
            still(model, batch, step)
        },
        "random: the trainer is compiled and traces its loss",
    );
    refused(
        |model, batch, step| still(model, batch, step) * step.clock().epoch(),
        "clock: the trainer is compiled and traces its loss",
    );
    refused(
        |model, batch, step| {
            let loss = still(model, batch, step);
            step.report("own", loss.item());
            loss
        },
        "item: reads the elements of a value, but compile is tracing its function",
    );
    refused(
        |model, (x, _), _| model.forward(&Variable::constant(x)),
        "GradientStep: the loss is",
    );
    type Loss = fn(&Net, &(Array, Array), &mut Step<'_>) -> Variable;
    struct Own(GradientStep<Loss>);
    impl Stateful for Own {
        fn state(&self) -> bibun::serializers::State {
            self.0.state()
        }
        fn load_state(
            &mut self,
            state: &bibun::serializers::State,
        ) -> Result<(), bibun::serializers::StateError> {
            self.0.load_state(state)
        }
    }
    impl bibun::training::TrainStep<Net, (Array, Array)> for Own {
        fn update(
            &mut self,
            model: &Net,
            batch: &(Array, Array),
            step: &mut Step<'_>,
        ) -> Result<(), TrainingError> {
            self.0.update(model, batch, step)
        }
        fn optimizer(&mut self) -> &mut dyn Optimizer {
            bibun::training::TrainStep::<Net, (Array, Array)>::optimizer(&mut self.0)
        }
    }
    let own = Own(GradientStep::new(Sgd::new(0.1), still as Loss));
    let trainer = Trainer::with_train_step(Net::new(0), Points::new(10, 4), own);
    let error = attempt(|| trainer.compiled().run().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("does not compile its loss"),
        "{error}"
    );
}
