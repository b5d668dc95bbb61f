//! What is hung onto the loop.

use bibun::array::Array;
use bibun::links::Chain;
use bibun::optimizers::{Adam, Sgd};
use bibun::serializers::Stateful;
use bibun::training::{
    Callback, EarlyStopping, Evaluator, Goal, Histograms, KeepBest, Outcome, Plot, PrintReport,
    Session, Snapshots, Step, Trainer, Trigger, Until,
};
use bibun::{Variable, is_recording, is_training};

use super::points::{Folder, Net, Points, bits, loss};

#[test]
fn evaluation_is_a_mean_over_all_examples() {
    let exact = |w: &Variable, (x, _): &(Array, Array), step: &mut Step<'_>| {
        assert!(!is_training() && !is_recording());
        let sum = x.sum(1);
        step.report("first", sum.element(&[0]).to_f64());
        w * sum.mean(..)
    };
    let learn = |w: &Variable, _: &(Array, Array), _: &mut Step<'_>| {
        assert!(is_training() && is_recording());
        w * 0.0
    };
    // 10 examples in batches of 4, 4 and 2.
    let mut trainer = Trainer::new(
        Variable::new(2.0f32),
        Points::new(10, 5),
        Sgd::new(0.1),
        learn,
    )
    .extend(Evaluator::new("test", Points::new(10, 4), exact));
    trainer.run().expect("no trouble");
    let ((x, _), _) = bibun::training::BatchSource::once(&Points::new(10, 10))
        .next()
        .expect("one")
        .expect("read");
    let expected = 2.0 * x.sum(1).mean(..).item::<f64>();
    let entry = trainer.log().last().expect("a line");
    let found = entry.get("test/loss").expect("evaluated");
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    let sums = x.sum(1).to_vec::<f32>();
    let expected = f64::from(sums[0]) * 0.4 + f64::from(sums[4]) * 0.4 + f64::from(sums[8]) * 0.2;
    let found = entry.get("test/first").expect("evaluated");
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
}

#[test]
fn values_of_two_evaluators_are_not_pooled() {
    let exact = |w: &Variable, (x, _): &(Array, Array), _: &mut Step<'_>| w * x.mean(..);
    let mut trainer = still()
        .extend(Evaluator::new("test", Points::new(8, 4), exact))
        .extend(Evaluator::new("test", Points::new(4, 4), exact));
    let message = trainer
        .run()
        .expect_err("one name, two data sets")
        .to_string();
    assert!(message.contains("test/loss"), "{message}");

    let twice = |w: &Variable, (x, _): &(Array, Array), step: &mut Step<'_>| {
        step.report("loss", 1.0);
        w * x.mean(..)
    };
    let mut trainer = still().extend(Evaluator::new("test", Points::new(8, 4), twice));
    let message = trainer.run().expect_err("two losses").to_string();
    assert!(message.contains("`test`"), "{message}");
}

#[test]
fn evaluating_does_not_change_training() {
    let make = || {
        Trainer::new(Net::new(0), Points::new(60, 20), Adam::new(0.01), loss)
            .until(Until::Epochs(2.0))
    };
    let (mut plain, mut watched) = (make(), make());
    watched = watched
        .extend(Evaluator::new("test", Points::new(30, 7), loss).every(Trigger::Iterations(1)));
    plain.run().expect("no trouble");
    watched.run().expect("no trouble");
    assert_eq!(bits(plain.model()), bits(watched.model()));
}

/// Tells the values of a list, one for each epoch.
fn tell(
    values: &'static [f64],
) -> Callback<impl FnMut(&mut Session<'_, Variable>) -> Result<(), bibun::training::BoxError>> {
    Callback::new(
        "tell",
        Trigger::Epochs(1.0),
        move |session: &mut Session<'_, Variable>| {
            let epoch = session.clock().epochs() as usize;
            session.report().add("value", values[epoch - 1], 1.0);
            Ok(())
        },
    )
}

fn still() -> Trainer<Variable, Points> {
    let learn = |w: &Variable, _: &(Array, Array), _: &mut Step<'_>| (w - 1.0).square();
    Trainer::new(Variable::new(0.0), Points::new(4, 4), Sgd::new(0.25), learn)
        .until(Until::Epochs(9.0))
}

#[test]
fn early_stopping_waits_as_long_as_it_says() {
    const VALUES: &[f64] = &[5.0, 4.0, 4.5, f64::NAN, 3.99, 4.0, 4.1, 3.0, 2.0];
    let stop = || EarlyStopping::new("value", Goal::Lowest);
    let ends = |stop: EarlyStopping| {
        let mut trainer = still().extend(tell(VALUES)).extend(stop);
        let outcome = trainer.run().expect("no trouble");
        (trainer.clock().epochs(), outcome)
    };
    assert_eq!(ends(stop().patience(3)), (9, Outcome::Finished));
    let (epochs, outcome) = ends(stop().patience(2));
    assert_eq!(epochs, 4);
    let Outcome::Stopped(reason) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        reason,
        "value has not got better than 4.000000 for 2 lines of the log"
    );
    // 3.99 is not better by 0.1.
    assert_eq!(ends(stop().patience(3).margin(0.1)).0, 5);
    assert_eq!(
        ends(EarlyStopping::new("value", Goal::Highest).patience(3)).0,
        4
    );
}

#[test]
fn an_extension_that_a_state_does_not_know_begins_anew() {
    const VALUES: &[f64] = &[5.0, 6.0, 7.0, 8.0];
    let state = still().state();
    let stop = EarlyStopping::new("value", Goal::Lowest).patience(9);
    let mut trainer = still()
        .until(Until::Epochs(4.0))
        .extend(tell(VALUES))
        .extend(stop);
    trainer.run().expect("no trouble");
    let waited = |trainer: &Trainer<Variable, Points>| {
        trainer.state().count("extensions/early_stopping/waited")
    };
    assert_eq!(waited(&trainer), Ok(3));
    trainer.load_state(&state).expect("its own kind");
    assert_eq!(waited(&trainer), Ok(0));
}

#[test]
fn early_stopping_goes_on_waiting_after_a_resumption() {
    const VALUES: &[f64] = &[5.0, 4.0, 4.5, 4.6, 4.7, 4.8, 4.9, 3.0, 2.0];
    let folder = Folder::new("waiting");
    let make = |epochs| {
        let snapshots = Snapshots::every(Trigger::Epochs(1.0));
        let stop = EarlyStopping::new("value", Goal::Lowest).patience(3);
        still()
            .until(Until::Epochs(epochs))
            .folder(folder.path())
            .snapshots(snapshots)
            .extend(tell(VALUES))
            .extend(stop)
    };
    make(4.0).run().expect("no trouble");
    for _ in 0..2 {
        let mut trainer = make(9.0);
        trainer.resume().expect("a snapshot");
        // What has stopped stays so.
        assert!(matches!(
            trainer.run().expect("no trouble"),
            Outcome::Stopped(_)
        ));
        assert_eq!(trainer.clock().epochs(), 5);
    }
}

#[test]
fn the_best_model_is_kept() {
    const VALUES: &[f64] = &[5.0, 2.0, 4.5, 2.0, 3.0, 2.5, 4.1, f64::NAN, 7.0];
    let folder = Folder::new("best");
    let mut trainer = still()
        .folder(folder.path())
        .extend(tell(VALUES))
        .extend(KeepBest::new("best.npz", "value", Goal::Lowest));
    trainer.run().expect("no trouble");
    let best = Variable::new(0.0);
    let state = bibun::serializers::load_npz(folder.path().join("best.npz")).expect("the best");
    best.load_state(&state).expect("a model");
    // After two steps that each go half of the way to 1.
    assert_eq!(best.item::<f64>(), 0.75);
    assert!(trainer.model().item::<f64>() > 0.99);
}

#[test]
fn pictures_are_drawn() {
    let folder = Folder::new("pictures");
    let mut trainer = Trainer::new(Net::new(0), Points::new(100, 20), Adam::new(0.01), loss)
        .until(Until::Epochs(4.0))
        .folder(folder.path())
        .draw_graph("graph.svg")
        .extend(Evaluator::new("test", Points::new(50, 25), loss))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "test/loss",
            "no such value",
        ]))
        .extend(Plot::new("loss.svg", ["loss", "test/loss", "no such value"]).logarithmic())
        .extend(Plot::new("worst.svg", ["worst"]).over("iteration"))
        .extend(Histograms::new("histograms.svg"));
    trainer.run().expect("no trouble");
    assert_eq!(
        folder.files(),
        [
            "graph.svg",
            "histograms.svg",
            "log.jsonl",
            "loss.svg",
            "worst.svg"
        ]
    );
    for (file, words) in [
        ("graph.svg", vec!["batch_norm", "linear"]),
        (
            "histograms.svg",
            vec!["l1/weight", "gradient of norm/gamma", "after 20 steps"],
        ),
        ("loss.svg", vec!["test/loss", "epoch"]),
        ("worst.svg", vec!["worst", "iteration"]),
    ] {
        let text = std::fs::read_to_string(folder.path().join(file)).expect("a picture");
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        for word in words {
            let has =
                |node: roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.contains(word));
            assert!(document.descendants().any(has), "{file}: {word}");
        }
        if let Some(keep) = std::env::var_os("BIBUN_KEEP_PICTURES") {
            std::fs::copy(
                folder.path().join(file),
                std::path::Path::new(&keep).join(file),
            )
            .expect("copied");
        }
    }
    let curves = std::fs::read_to_string(folder.path().join("worst.svg")).expect("a picture");
    assert!(curves.matches("<polyline").count() >= 2);
}

#[test]
fn extensions_that_write_files_need_a_folder() {
    let mut trainer = still().extend(Plot::new("loss.svg", ["loss"]));
    let error = trainer.run().expect_err("no folder").to_string();
    assert!(error.starts_with("plot: files go to the folder"), "{error}");
    let folder = Folder::new("wrong-picture");
    let mut trainer = still()
        .folder(folder.path())
        .extend(Plot::new("loss.png", ["loss"]));
    let error = trainer.run().expect_err("no such kind").to_string();
    assert!(error.contains("pictures are `.svg` files"), "{error}");
}
