//! Steps that end in the midst, by a panic or an error: the training does not go on as if nothing had
//! been, and it goes on with the same bits once it is put back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bibun::array::{Array, Change, DType, Generator};
use bibun::datasets::{DataError, DataLoader};
use bibun::optimizers::Adam;
use bibun::optimizers::Optimizer;
use bibun::optimizers::hooks::{Hook, Site};
use bibun::optimizers::schedule::Schedule;
use bibun::serializers::{State, StateError, Stateful};
use bibun::training::{
    BatchSource, BoxError, EarlyStopping, Entry, Evaluator, Extension, Goal, GradientStep,
    KeepBest, Outcome, Session, Snapshots, Step, TrainStep, Trainer, TrainingError, Trigger, Until,
};

use super::points::{Folder, Net, Points, bits, loss, told};

/// Where a step can end early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    DataThread,
    Data,
    LossBefore,
    LossAfter,
    Hook,
    Schedule,
    AfterUpdate,
    AfterStep,
    Evaluator,
    Run,
    Logged,
}

const PLACES: [Place; 11] = [
    Place::DataThread,
    Place::Data,
    Place::LossBefore,
    Place::LossAfter,
    Place::Hook,
    Place::Schedule,
    Place::AfterUpdate,
    Place::AfterStep,
    Place::Evaluator,
    Place::Run,
    Place::Logged,
];

/// Goes off once, when a place has been passed so often.
#[derive(Debug)]
struct Bomb {
    place: Option<Place>,
    left: AtomicUsize,
    /// In which it went off, if that is known there.
    step: AtomicU64,
}

impl Bomb {
    fn new(place: Option<Place>, after: usize) -> Arc<Self> {
        Arc::new(Self {
            place,
            left: AtomicUsize::new(after),
            step: AtomicU64::new(0),
        })
    }

    fn ticks(&self, place: Place) -> bool {
        self.place == Some(place) && self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }

    fn pass(&self, place: Place) {
        assert!(!self.ticks(place), "the bomb");
    }

    fn pass_or_fail(&self, place: Place) -> Result<(), BoxError> {
        match self.ticks(place) {
            true => Err("the bomb".into()),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Explosive(Arc<Bomb>);

impl Hook for Explosive {
    fn change(&self, _: &Site<'_>) -> Option<Change> {
        self.0.pass(Place::Hook);
        None
    }
}

impl Schedule for Explosive {
    fn factor(&self, step: u64) -> f64 {
        self.0.pass(Place::Schedule);
        1.0 / (1.0 + step as f64)
    }
}

/// Fails or panics, whichever it is.
impl<M> Extension<M> for Explosive {
    fn name(&self) -> &str {
        "explosive"
    }
    fn trigger(&self) -> &Trigger {
        &Trigger::Iterations(1)
    }
    fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let step = session.clock().iteration();
        self.0.step.store(step, Ordering::SeqCst);
        self.0.pass(Place::AfterStep);
        Ok(())
    }
    fn run(&mut self, _: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.0.pass_or_fail(Place::Run)
    }
    fn logged(&mut self, _: &Entry, _: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.0.pass(Place::Logged);
        Ok(())
    }
}

/// The ordinary step, and a place behind it.
struct Then<U>(U, Arc<Bomb>);

impl<U: Stateful> Stateful for Then<U> {
    fn state(&self) -> State {
        self.0.state()
    }
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.0.load_state(state)
    }
}

impl<M, B, U: TrainStep<M, B>> TrainStep<M, B> for Then<U> {
    fn update(&mut self, model: &M, batch: &B, step: &mut Step<'_>) -> Result<(), TrainingError> {
        self.0.update(model, batch, step)?;
        self.1.pass(Place::AfterUpdate);
        Ok(())
    }
    fn optimizer(&mut self) -> &mut dyn Optimizer {
        self.0.optimizer()
    }
}

const STEPS: u64 = 20;

fn trainer(bomb: &Arc<Bomb>, folder: &Folder) -> Trainer<Net, impl BatchSource + use<>> {
    use bibun::datasets::Dataset;
    let data = Arc::clone(bomb);
    let moved = move |(x, t): (Array, Array), random: &mut Generator| {
        data.pass(Place::DataThread);
        match data.ticks(Place::Data) {
            true => Err(DataError::other("the bomb")),
            false => Ok((x + random.normal(2, 0.0, 0.01, DType::F32), t)),
        }
    };
    let batches = DataLoader::new(Points::new(40, 16).into_arrays().map(moved), 8)
        .shuffle(3)
        .prefetch(3, 2);
    let bombed = {
        let bomb = Arc::clone(bomb);
        move |model: &Net, batch: &(Array, Array), step: &mut Step<'_>| {
            bomb.pass(Place::LossBefore);
            let value = loss(model, batch, step);
            bomb.pass(Place::LossAfter);
            value
        }
    };
    let evaluated = {
        let bomb = Arc::clone(bomb);
        move |model: &Net, batch: &(Array, Array), step: &mut Step<'_>| {
            bomb.pass(Place::Evaluator);
            loss(model, batch, step)
        }
    };
    let explosive = || Explosive(Arc::clone(bomb));
    let optimizer = Adam::new(0.05).hook(explosive()).schedule(explosive());
    let train_step = Then(GradientStep::new(optimizer, bombed), Arc::clone(bomb));
    Trainer::with_train_step(Net::new(0), batches, train_step)
        .until(Until::Iterations(STEPS))
        .folder(folder.path())
        .log_every(Trigger::Iterations(2))
        .snapshots(Snapshots::every(Trigger::Iterations(3)))
        .extend(
            Evaluator::new("test", Points::new(20, 10), evaluated).every(Trigger::Iterations(4)),
        )
        .extend(EarlyStopping::new("loss", Goal::Lowest).patience(1000))
        .extend(explosive())
        .extend(KeepBest::new("best.npz", "loss", Goal::Lowest))
}

#[test]
fn it_is_put_back_before_it_goes_on() {
    let whole = Folder::new("whole");
    let mut unbroken = trainer(&Bomb::new(None, 0), &whole);
    unbroken.run().expect("no trouble");
    let best = |folder: &Folder| std::fs::read(folder.path().join("best.npz")).expect("the best");
    for place in PLACES {
        // Places that are passed often go off later, none of them before there is a snapshot.
        let after = match place {
            Place::DataThread | Place::Data => 8 * 12 + 3,
            Place::Hook | Place::Schedule => 6 * 9 + 2,
            Place::Evaluator => 5,
            Place::Logged => 5,
            _ => 11,
        };
        let bomb = Bomb::new(Some(place), after);
        let folder = Folder::new("broken-off");
        let mut trainer = trainer(&bomb, &folder);
        let first = catch_unwind(AssertUnwindSafe(|| trainer.run()));
        assert!(
            !matches!(first, Ok(Ok(_))),
            "{place:?} was not passed {after} times"
        );
        // Not once, and not twice.
        for _ in 0..2 {
            let error = trainer.run().expect_err("half a step");
            let TrainingError::BrokenOff { iteration } = error else {
                panic!("{place:?}: {error}")
            };
            // Extensions know of a step only once the model has learnt.
            let told = bomb.step.load(Ordering::SeqCst);
            let is_late = [
                Place::AfterStep,
                Place::Evaluator,
                Place::Run,
                Place::Logged,
            ];
            assert_eq!(
                iteration,
                told + u64::from(!is_late.contains(&place)),
                "{place:?}"
            );
        }
        // What a hook breaks off while a parameter changes costs the parameter: only a new model can
        // go on.
        let mut trainer = match place {
            Place::Hook => self::trainer(&bomb, &folder),
            _ => trainer,
        };
        let resumed = trainer.resume().expect("the folder is whole");
        assert!(resumed.snapshot.is_some() && resumed.damaged.is_empty());
        assert_eq!(trainer.run().expect("no bomb is left"), Outcome::Finished);
        assert_eq!(bits(trainer.model()), bits(unbroken.model()), "{place:?}");
        assert_eq!(told(trainer.log()), told(unbroken.log()), "{place:?}");
        assert!(
            best(&folder) == best(&whole),
            "{place:?}: other models were the best"
        );
    }
}

#[test]
fn a_loaded_state_mends_training_without_a_folder() {
    let fail_once = {
        let bomb = Bomb::new(Some(Place::LossAfter), 4);
        move |model: &Net, batch: &(Array, Array), step: &mut Step<'_>| {
            let value = loss(model, batch, step);
            bomb.pass(Place::LossAfter);
            value
        }
    };
    let until = Until::Iterations(6);
    let mut broken = Trainer::new(
        Net::new(0),
        Points::new(100, 32),
        Adam::new(0.01),
        fail_once,
    )
    .until(until);
    let beginning = broken.state();
    assert!(catch_unwind(AssertUnwindSafe(|| broken.run())).is_err());
    assert!(matches!(
        broken.run(),
        Err(TrainingError::BrokenOff { iteration: 4 })
    ));
    // Nothing is found, so nothing is put back.
    assert!(broken.resume().expect("no folder").snapshot.is_none());
    assert!(matches!(
        broken.run(),
        Err(TrainingError::BrokenOff { iteration: 4 })
    ));
    // What does not fit does not make it whole either.
    broken
        .load_state(&State::new())
        .expect_err("nothing is in there");
    assert!(matches!(
        broken.run(),
        Err(TrainingError::BrokenOff { iteration: 4 })
    ));
    broken.load_state(&beginning).expect("its own state");
    broken.run().expect("no bomb is left");
    let mut unbroken =
        Trainer::new(Net::new(0), Points::new(100, 32), Adam::new(0.01), loss).until(until);
    unbroken.run().expect("no trouble");
    assert_eq!(bits(broken.model()), bits(unbroken.model()));
}
