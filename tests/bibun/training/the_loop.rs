//! What the loop does in which order, and how it ends.

use std::cell::RefCell;
use std::rc::Rc;

use bibun::array::{Array, DType};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer, Sgd};
use bibun::serializers::{State, StateError, Stateful};
use bibun::training::{
    BatchSource, BoxError, Entry, Extension, Once, Outcome, Session, Snapshots, Step, TrainStep,
    Trainer, TrainingError, Trigger, Until,
};
use bibun::{Variable, attempt};

use super::points::{Folder, Net, Points, bits, loss, told};

fn trainer(epochs: f64) -> Trainer<Net, Points> {
    Trainer::new(Net::new(0), Points::new(100, 32), Adam::new(0.01), loss)
        .until(Until::Epochs(epochs))
}

#[test]
fn it_learns_and_counts() {
    let mut trainer = trainer(30.0);
    assert_eq!(trainer.run().expect("no trouble"), Outcome::Finished);
    let clock = trainer.clock();
    assert_eq!(
        (clock.iteration(), clock.epochs(), clock.examples()),
        (120, 30, 3000)
    );
    let losses: Vec<f64> = trainer.log().values("loss").map(|(_, loss)| loss).collect();
    assert_eq!(losses.len(), 30);
    assert!(losses[29] < 0.2 * losses[0], "{losses:?}");
    let last = trainer.log().last().expect("30 lines");
    assert_eq!(last.get("iteration"), Some(120.0));
    assert_eq!(last.get("learning_rate"), Some(0.01));
    assert!(last.get("worst").expect("told") > last.get("loss").expect("told"));
}

#[test]
fn a_loop_written_by_hand_comes_to_the_same() {
    let mut trainer = trainer(3.0);
    trainer.run().expect("no trouble");

    let model = Net::new(0);
    let mut source = Points::new(100, 32);
    let mut optimizer = Adam::new(0.01);
    for iteration in 0..12 {
        let ((x, t), _) = source.next_batch().expect("a batch");
        let mut random = bibun::array::Generator::new(0).split(iteration);
        let noise = random.normal(x.shape(), 0.0, 0.01, DType::F32);
        let y = bibun::links::Link::forward(&model, &Variable::constant(x + noise));
        model.clear_grads();
        (y - &t).square().mean(..).backward();
        optimizer.update(&model);
    }
    assert_eq!(bits(trainer.model()), bits(&model));
}

/// Writes down what it is told.
struct Diary(Rc<RefCell<Vec<String>>>, Trigger);

impl<M> Extension<M> for Diary {
    fn name(&self) -> &str {
        "diary"
    }
    fn trigger(&self) -> &Trigger {
        &self.1
    }
    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.write("start", session);
        Ok(())
    }
    fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.write("step", session);
        Ok(())
    }
    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.report().add("told", 5.0, 1.0);
        self.write("run", session);
        Ok(())
    }
    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        assert_eq!(entry.get("told"), Some(5.0));
        self.write("logged", session);
        Ok(())
    }
    fn finish(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.write("finish", session);
        Ok(())
    }
}

impl Diary {
    fn write<M>(&self, what: &str, session: &Session<'_, M>) {
        self.0
            .borrow_mut()
            .push(format!("{what} {}", session.clock().iteration()));
    }
}

#[test]
fn the_order_of_things() {
    let diary = Rc::default();
    let mut trainer = trainer(1.0)
        .log_every(Trigger::Iterations(2))
        .extend(Diary(Rc::clone(&diary), Trigger::Iterations(2)));
    trainer.run().expect("no trouble");
    let expected = [
        "start 0", "step 1", "step 2", "run 2", "logged 2", "step 3", "step 4", "run 4",
        "logged 4", "finish 4",
    ];
    assert_eq!(*diary.borrow(), expected);
}

#[test]
fn nothing_to_do() {
    let mut trainer = trainer(0.0);
    assert_eq!(trainer.run().expect("no trouble"), Outcome::Finished);
    assert_eq!(trainer.clock().iteration(), 0);
}

#[test]
fn an_extension_that_fails_ends_it_by_name() {
    struct Broken;
    impl<M> Extension<M> for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
            match session.clock().iteration() {
                3 => Err("no paper".into()),
                _ => Ok(()),
            }
        }
    }
    let mut trainer = trainer(2.0).extend(Broken).extend(Broken);
    let error = trainer.run().expect_err("it breaks");
    assert_eq!(error.to_string(), "broken: no paper");
    assert_eq!(trainer.clock().iteration(), 3);
}

#[test]
fn the_data_may_fail() {
    struct Torn(u64);
    impl BatchSource for Torn {
        type Batch = ();
        fn next_batch(&mut self) -> Result<((), usize), BoxError> {
            self.0 += 1;
            if self.0 > 2 {
                Err("page 3 is missing".into())
            } else {
                Ok(((), 1))
            }
        }
        fn epoch(&self) -> f64 {
            self.0 as f64 / 10.0
        }
        fn once(&self) -> Once<'_, ()> {
            Box::new(std::iter::empty())
        }
    }
    impl Stateful for Torn {
        fn state(&self) -> State {
            State::new()
        }
        fn load_state(&mut self, _: &State) -> Result<(), StateError> {
            Ok(())
        }
    }
    let square = |w: &Variable, (): &(), _: &mut Step<'_>| w * w;
    let mut trainer = Trainer::new(Variable::new(1.0), Torn(0), Sgd::new(0.1), square);
    let error = trainer.run().expect_err("a page is missing");
    assert_eq!(error.to_string(), "the data: page 3 is missing");
    assert_eq!(trainer.clock().iteration(), 2);
}

#[test]
fn a_loss_that_is_no_number_is_not_learnt_from() {
    let bad = |w: &Variable, (x, _): &(Array, Array), step: &mut Step<'_>| {
        let away = if step.clock().iteration() == 2 {
            1e5
        } else {
            0.0
        };
        (w * x - away).mean(..).log() + step.examples() as f64
    };
    let w = Variable::new(Array::from([[900f32, 900.0]]));
    let mut source = Points::new(10, 5);
    // Positive, so that the logarithm exists until something is taken away.
    let shift = |(x, t): (Array, Array)| (x + 2.0, t);
    struct Shifted<'a>(&'a mut Points, fn((Array, Array)) -> (Array, Array));
    impl BatchSource for Shifted<'_> {
        type Batch = (Array, Array);
        fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError> {
            let (batch, examples) = self.0.next_batch()?;
            Ok((self.1(batch), examples))
        }
        fn epoch(&self) -> f64 {
            self.0.epoch()
        }
        fn once(&self) -> Once<'_, Self::Batch> {
            self.0.once()
        }
    }
    impl Stateful for Shifted<'_> {
        fn state(&self) -> State {
            self.0.state()
        }
        fn load_state(&mut self, state: &State) -> Result<(), StateError> {
            self.0.load_state(state)
        }
    }
    let mut trainer = Trainer::new(
        w.clone(),
        Shifted(&mut source, shift),
        Sgd::new(1000.0),
        bad,
    )
    .until(Until::Iterations(9));
    let error = trainer
        .run()
        .expect_err("the logarithm of a negative number");
    let TrainingError::NotFinite {
        iteration,
        what,
        value,
        anomaly,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*iteration, &**what), (3, "the loss"));
    assert!(value.is_nan());
    let anomaly = anomaly.as_ref().expect("log is found").to_string();
    assert!(
        anomaly.starts_with("log:") && anomaly.contains(&format!("called at {}:", file!())),
        "{anomaly}"
    );
    assert_eq!(trainer.clock().iteration(), 2);
    assert!(w.to_vec::<f32>().iter().all(|w| w.is_finite()));
}

#[test]
fn a_last_gradient_that_is_no_number_is_found() {
    // The root of zero has a loss, and no gradient. No entry of the log is due.
    let root = |w: &Variable, _: &(Array, Array), _: &mut Step<'_>| w.square().sqrt().sum(..);
    let until = Until::Iterations(1);
    let mut trainer = Trainer::new(
        Variable::new([0f32]),
        Points::new(8, 4),
        Sgd::new(0.1),
        root,
    )
    .until(until);
    let error = trainer.run().expect_err("0 / 0").to_string();
    assert!(
        error.contains("an element of the parameter `` is NaN at iteration 1"),
        "{error}"
    );
}

#[test]
fn a_parameter_that_is_no_number_is_not_kept() {
    let folder = Folder::new("not-finite");
    // The loss stays finite while the parameter overflows.
    let fall = |w: &Variable, _: &(Array, Array), _: &mut Step<'_>| -w.sum(..);
    let mut trainer = Trainer::new(
        Variable::new([0f32]),
        Points::new(4, 4),
        Sgd::new(3e38),
        fall,
    )
    .until(Until::Iterations(5))
    .log_every(Trigger::Iterations(1))
    .folder(folder.path())
    .snapshots(Snapshots::every(Trigger::Iterations(1)));
    let error = trainer.run().expect_err("it overflows").to_string();
    assert!(
        error.contains("an element of the parameter `` is inf at iteration 2"),
        "{error}"
    );
    assert_eq!(folder.files(), ["log.jsonl", "snapshot_00000001.npz"]);
}

#[test]
fn a_mistake_in_the_loss_panics_with_its_place() {
    let vector = |w: &Variable, (x, _): &(Array, Array), _: &mut Step<'_>| w * x;
    let mut trainer = Trainer::new(
        Variable::new([[1f32, 1.0]]),
        Points::new(4, 4),
        Sgd::new(1.0),
        vector,
    );
    let error = attempt(|| drop(trainer.run())).expect_err("no number");
    assert!(
        error
            .to_string()
            .contains("the loss is [4, 2] f32, expected one number"),
        "{error}"
    );
    let misfit = |w: &Variable, (x, _): &(Array, Array), _: &mut Step<'_>| (w + x).sum(..);
    let w = Variable::new([1f32, 1.0, 1.0]);
    let mut trainer = Trainer::new(w, Points::new(4, 4), Sgd::new(1.0), misfit);
    let error = attempt(|| drop(trainer.run()))
        .expect_err("shapes differ")
        .to_string();
    assert!(
        error.contains("add") && error.contains(&format!("called at {}:", file!())),
        "{error}"
    );
}

/// Two models against each other: one makes the product larger, the other smaller.
struct Duel(Sgd, Sgd);

impl Stateful for Duel {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert_part("first", self.0.state());
        state.insert_part("second", self.1.state());
        state
    }
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        state.load_part("first", &mut self.0)?;
        state.load_part("second", &mut self.1)
    }
}

impl<B> TrainStep<(Variable, Variable), B> for Duel {
    fn update(
        &mut self,
        model: &(Variable, Variable),
        _: &B,
        step: &mut Step<'_>,
    ) -> Result<(), TrainingError> {
        let (a, b) = model;
        let product = self.0.minimize(a, &mut || a * &b.detach());
        self.1.minimize(b, &mut || -(&a.detach() * b));
        step.report("product", product.item());
        Ok(())
    }
    fn optimizer(&mut self) -> &mut dyn Optimizer {
        &mut self.0
    }
}

#[test]
fn steps_of_ones_own() {
    let model = (Variable::new(1.0), Variable::new(2.0));
    let duel = Duel(Sgd::new(0.5), Sgd::new(0.25));
    let mut trainer =
        Trainer::with_train_step(model, Points::new(4, 4), duel).until(Until::Iterations(1));
    trainer.run().expect("no trouble");
    let (a, b) = trainer.model();
    assert_eq!((a.item::<f64>(), b.item::<f64>()), (0.0, 2.0));
    assert_eq!(
        trainer.log().last().and_then(|entry| entry.get("product")),
        Some(2.0)
    );
}

#[test]
fn a_resumed_training_is_the_same_training() {
    let make = |folder: &Folder| {
        trainer(4.0)
            .folder(folder.path())
            .log_every(Trigger::Iterations(3))
            .snapshots(Snapshots::every(Trigger::Iterations(1)).keep(100))
    };
    let folder = Folder::new("unbroken");
    let mut unbroken = make(&folder);
    unbroken.run().expect("no trouble");
    let snapshots: Vec<String> = folder.files();
    let snapshots: Vec<&String> = snapshots
        .iter()
        .filter(|name| name.starts_with("snapshot_"))
        .collect();
    assert_eq!(snapshots.len(), 16);
    for snapshot in snapshots {
        let elsewhere = Folder::new("resumed");
        let mut resumed = make(&elsewhere);
        resumed
            .resume_from(folder.path().join(snapshot))
            .expect("a snapshot");
        resumed.run().expect("no trouble");
        assert_eq!(bits(resumed.model()), bits(unbroken.model()), "{snapshot}");
        assert_eq!(told(resumed.log()), told(unbroken.log()), "{snapshot}");
        assert_eq!(resumed.clock().iteration(), 16);
        let read = bibun::training::Log::read(elsewhere.path().join("log.jsonl")).expect("a log");
        assert_eq!(told(&read), told(unbroken.log()));
    }
}

#[test]
fn a_longer_training_goes_on_from_a_shorter_one() {
    let folder = Folder::new("longer");
    let snapshots = || Snapshots::every(Trigger::Epochs(1.0)).keep(1);
    let mut first = trainer(2.0).folder(folder.path()).snapshots(snapshots());
    first.run().expect("no trouble");
    assert_eq!(folder.files(), ["log.jsonl", "snapshot_00000008.npz"]);
    let mut second = trainer(3.0).folder(folder.path()).snapshots(snapshots());
    let refused = second.run().expect_err("there is a snapshot");
    assert!(
        matches!(refused, TrainingError::OtherSnapshots { .. }),
        "{refused}"
    );
    let resumed = second.resume().expect("a snapshot");
    assert!(resumed.snapshot.is_some() && resumed.damaged.is_empty());
    second.run().expect("no trouble");
    let mut whole = trainer(3.0);
    whole.run().expect("no trouble");
    assert_eq!(bits(second.model()), bits(whole.model()));
    assert_eq!(folder.files(), ["log.jsonl", "snapshot_00000012.npz"]);
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let folder = Folder::new("damaged");
    let make = || {
        let snapshots = Snapshots::every(Trigger::Epochs(1.0)).keep(3);
        trainer(3.0).folder(folder.path()).snapshots(snapshots)
    };
    let mut first = make();
    first.run().expect("no trouble");
    let newest = folder.path().join("snapshot_00000012.npz");
    let mut bytes = std::fs::read(&newest).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).expect("written");
    // What a killed process was writing.
    let unfinished = folder.path().join("snapshot_00000016.npz.1-2.part");
    std::fs::write(&unfinished, "half").expect("written");
    let mut second = make();
    let resumed = second.resume().expect("an older snapshot");
    assert_eq!(resumed.damaged.len(), 1);
    assert!(
        resumed.damaged[0]
            .to_string()
            .contains("snapshot_00000012.npz")
    );
    assert_eq!(second.clock().iteration(), 8);
    second.run().expect("no trouble");
    assert_eq!(bits(second.model()), bits(first.model()));
    assert!(!unfinished.exists());
}

#[test]
fn a_snapshot_of_another_training_is_refused() {
    let folder = Folder::new("other");
    let snapshots = || Snapshots::every(Trigger::Epochs(1.0));
    let mut first = trainer(1.0).folder(folder.path()).snapshots(snapshots());
    first.run().expect("no trouble");
    let model = (
        Net::new(1),
        bibun::links::Linear::new(2, 2, &mut bibun::array::Generator::new(0)),
    );
    let other_loss = |model: &(Net, bibun::links::Linear),
                      batch: &(Array, Array),
                      step: &mut Step<'_>| { loss(&model.0, batch, step) };
    let mut other = Trainer::new(model, Points::new(100, 32), Adam::new(0.01), other_loss)
        .folder(folder.path())
        .snapshots(snapshots());
    let before = bits(other.model());
    let error = other.resume().expect_err("another model");
    let TrainingError::OtherTraining { source, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        source.missing.iter().any(|name| name == "model/1/weight"),
        "{source}"
    );
    assert!(
        source
            .unexpected
            .iter()
            .any(|name| name == "model/l1/weight"),
        "{source}"
    );
    assert_eq!(bits(other.model()), before);
    assert_eq!(other.clock().iteration(), 0);
    // The same names with another shape.
    let w = Variable::new([1.0, 2.0]);
    let square = |w: &Variable, _: &(Array, Array), _: &mut Step<'_>| w.square().sum(..);
    let make = |w: &Variable| Trainer::new(w.clone(), Points::new(4, 4), Adam::new(0.1), square);
    let mut trained = make(&w);
    trained.run().expect("no trouble");
    let longer = Variable::new([1.0, 2.0, 3.0]);
    let error = make(&longer)
        .load_state(&trained.state())
        .expect_err("another shape");
    assert!(
        error.to_string().contains("is [2] f64, expected [3] f64"),
        "{error}"
    );
    assert_eq!(longer.to_vec::<f64>(), [1.0, 2.0, 3.0]);
}

#[test]
fn lengths_and_periods_without_a_meaning_are_refused() {
    for epochs in [-1.0, f64::NAN] {
        let message = attempt(|| trainer(epochs)).unwrap_err().to_string();
        assert!(
            message.contains("until") && message.contains("are no length"),
            "{message}"
        );
    }
    for period in [0.0, -1.0, f64::NAN] {
        let refused = [
            attempt(|| drop(trainer(1.0).log_every(Trigger::Epochs(period)))),
            attempt(|| drop(Snapshots::every(Trigger::Epochs(period)))),
        ];
        for refused in refused {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("epochs is not more than 0"), "{message}");
        }
    }
    assert_eq!(trainer(0.0).run().expect("no trouble"), Outcome::Finished);
}

#[test]
fn names_of_the_log_are_not_reported_under() {
    for (name, expected) in [
        ("epoch", "every line of the log has a number `epoch`"),
        (
            "loss",
            "the trainer reports what the loss returns as `loss`",
        ),
    ] {
        let loss = move |net: &Net, batch: &(Array, Array), step: &mut Step<'_>| {
            step.report(name, 7.0);
            loss(net, batch, step)
        };
        let mut trainer = Trainer::new(Net::new(0), Points::new(10, 5), Sgd::new(0.01), loss);
        let message = attempt(|| trainer.run())
            .expect_err("a name that is taken")
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
}
