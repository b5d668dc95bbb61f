//! A recurrent network learns to write like this project's documents, letter by letter.
//!
//! ```sh
//! cargo run --release --example character_model
//! cargo run --release --example character_model -- --temperature 0.4   # safer letters
//! cargo run --release --example character_model -- --out FOLDER   # with plots and snapshots: stop
//!                                                                 # it by Ctrl-C, and it goes on
//!                                                                 # next time
//! ```
//!
//! It reads pieces of the text and predicts the next letter after each one. Its quality is
//! measured on the last tenth of each document, which it never trains on: the number of bits needed
//! to encode a letter with the network's predictions. If all letters were equally likely, this would be
//! log₂ of their number, 6 or 7; knowing the frequency of each letter, about 5. The network reaches about
//! 2.6 in less than a minute, which is as far as so short a text allows.
//! a minute, which is as far as so short a text leads it.

use std::collections::BTreeSet;
use std::f64::consts::LN_2;
use std::path::PathBuf;
use std::process::ExitCode;

use bibun::array::{Array, Generator};
use bibun::datasets::{DataError, DataLoader, Dataset};
use bibun::functions::{softmax, softmax_cross_entropy};
use bibun::links::{Chain, Dropout, Embedding, Linear, Link, Lstm, LstmState, RecurrentState};
use bibun::optimizers::Adam;
use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::schedule::linear;
use bibun::training::{
    BoxError, Callback, Evaluator, Plot, PrintReport, ProgressBar, Snapshots, Step, Trainer,
    Trigger, Until,
};
use bibun::{Variable, eval_mode, no_grad};
use clap::Parser;

/// Trains a network to foresee the next letter of a text.
#[derive(Parser)]
struct Options {
    /// How often to go through the text
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Units of the recurrent network
    #[arg(long, default_value_t = 192, value_parser = clap::value_parser!(u64).range(1..))]
    units: u64,
    /// How daring the samples are: below 1 the network prefers what is likely still more
    #[arg(long, default_value_t = 0.7, allow_negative_numbers = true, value_parser = positive)]
    temperature: f64,
    /// Folder for the log, plots and snapshots; if it has a snapshot, training goes on from there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        Ok(_) => Err("must be positive and finite".into()),
        Err(error) => Err(error.to_string()),
    }
}

const DOCUMENTS: [&str; 14] = [
    include_str!("../README.md"),
    include_str!("../CHANGELOG.md"),
    include_str!("../ARCHITECTURE.md"),
    include_str!("../CONTRIBUTING.md"),
    include_str!("../docs/src/start.md"),
    include_str!("../docs/src/idea.md"),
    include_str!("../docs/src/arrays.md"),
    include_str!("../docs/src/functions.md"),
    include_str!("../docs/src/transformations.md"),
    include_str!("../docs/src/per-example.md"),
    include_str!("../docs/src/links.md"),
    include_str!("../docs/src/training.md"),
    include_str!("../docs/src/performance.md"),
    include_str!("../docs/src/design.md"),
];

/// Letters in a piece: what is further back than this, the network does not learn to use.
const PIECE: usize = 64;

/// Letters by number.
#[derive(Clone)]
struct Alphabet(Vec<char>);

impl Alphabet {
    fn of(text: &str) -> Self {
        Self(text.chars().collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn number(&self, letter: char) -> i64 {
        self.0.binary_search(&letter).expect("a letter of the text") as i64
    }
}

/// Pieces from random places of a text, as many as it takes to go through it once.
struct Pieces(Vec<i64>);

/// An example is the letters of a piece, and the letter after each.
impl Dataset for Pieces {
    type Example = (Array, Array);

    fn len(&self) -> usize {
        self.0.len() / PIECE
    }

    fn example(&self, _: usize, random: &mut Generator) -> Result<(Array, Array), DataError> {
        let places = (self.0.len() - PIECE) as i64;
        let start = random.integers(0, places, ()).item::<i64>() as usize;
        let letters = &self.0[start..=start + PIECE];
        Ok((Array::from(&letters[..PIECE]), Array::from(&letters[1..])))
    }
}

/// Letters as vectors, a network that keeps in mind what it has read, and from that a score for each
/// letter that may come next.
#[derive(Chain)]
struct Model {
    embedding: Embedding,
    memory: Lstm,
    dropout: Dropout,
    scores: Linear,
}

impl Model {
    fn new(letters: usize, units: usize, g: &mut Generator) -> Self {
        Self {
            embedding: Embedding::new(letters, 32, g),
            memory: Lstm::new(32, units, g),
            dropout: Dropout::new(0.5, g),
            scores: Linear::new(units, letters, g),
        }
    }

    /// The scores after one more letter.
    fn step(&self, letter: i64, states: &[LstmState]) -> (Variable, Vec<LstmState>) {
        let x = self.embedding.forward(&Variable::constant(letter));
        let states = self.memory.step(&x, states);
        (self.scores.forward(states[0].output()), states)
    }
}

impl Link for Model {
    /// Letters `[n, place]` → scores `[n, place, letter]`.
    fn compute(&self, letters: &Variable) -> Variable {
        let x = self.embedding.forward(letters);
        let (h, _) = self.memory.forward_sequence(&x, None);
        self.scores.forward(&self.dropout.forward(&h))
    }
}

/// What the model writes after a beginning.
fn sample(
    model: &Model,
    alphabet: &Alphabet,
    beginning: &str,
    length: usize,
    temperature: f64,
    random: &mut Generator,
) -> String {
    let mut text = beginning.to_owned();
    let mut states = model.memory.zero_states(&[]);
    let mut scores = None;
    for letter in beginning.chars() {
        let (y, after) = model.step(alphabet.number(letter), &states);
        (scores, states) = (Some(y), after);
    }
    for _ in 0..length {
        let Some(y) = &scores else { break };
        let p = softmax(y / temperature, 0).array();
        let letter = random
            .choice(alphabet.0.len(), (), true, Some(&p))
            .item::<i64>();
        text.push(alphabet.0[letter as usize]);
        let (y, after) = model.step(letter, &states);
        (scores, states) = (Some(y), after);
    }
    text
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), BoxError> {
    let alphabet = Alphabet::of(&DOCUMENTS.concat());
    let (mut train, mut unseen) = (Vec::new(), Vec::new());
    for document in DOCUMENTS {
        let mut letters: Vec<i64> = document
            .chars()
            .map(|letter| alphabet.number(letter))
            .collect();
        unseen.extend(letters.split_off(letters.len() * 9 / 10));
        train.extend(letters);
    }
    let letters = alphabet.0.len();
    let generator = Generator::new(options.seed);
    let model = Model::new(letters, options.units as usize, &mut generator.split(0));
    println!(
        "{} letters to train, {} to test, {letters} different ones, {} parameters",
        train.len(),
        unseen.len(),
        model.parameter_count(),
    );

    let train = DataLoader::new(Pieces(train), 16).seed(options.seed);
    let pieces = (unseen.len() - 1) / PIECE;
    let rows =
        |from: usize| Array::from(&unseen[from..][..pieces * PIECE]).reshape([pieces, PIECE]);
    let unseen = DataLoader::new((rows(0), rows(1)), 100);

    let loss = |model: &Model, (x, t): &(Array, Array), step: &mut Step<'_>| {
        let y = model.forward(&Variable::constant(x));
        let loss = softmax_cross_entropy(y.swapaxes(1, 2), t);
        step.report("bits", loss.item::<f64>() / LN_2);
        loss
    };
    let steps = options.epochs * train.batches_per_epoch() as u64;
    let optimizer = Adam::new(0.004).schedule(linear(steps)).hook(ClipNorm(1.0));
    let (temperature, random) = (options.temperature, generator.split(1));
    let write = move |model: &Model, length: usize, stream: u64| {
        let random = &mut random.split(stream);
        eval_mode(|| no_grad(|| sample(model, &alphabet, "## ", length, temperature, random)))
    };
    let often = write.clone();
    let mut trainer = Trainer::new(model, train, optimizer, loss)
        .until(Until::Epochs(options.epochs as f64))
        .stop_on_interrupt()
        .extend(Evaluator::new("test", unseen, loss))
        .extend(PrintReport::new([
            "epoch",
            "bits",
            "test/bits",
            "elapsed_time",
        ]))
        .extend(Callback::new(
            "sample",
            Trigger::Epochs(1.0),
            move |session| {
                let epoch = session.clock().epochs();
                session.print(format!("{:?}", often(session.model(), 70, epoch)));
                Ok(())
            },
        ))
        .extend(ProgressBar::new());
    if let Some(folder) = &options.out {
        trainer = trainer
            .folder(folder)
            .snapshots(Snapshots::every(Trigger::Epochs(1.0)))
            .extend(Plot::new("bits.svg", ["bits", "test/bits"]));
    }
    println!("{}", trainer.resume()?);
    println!("{}", trainer.run()?);
    println!("\n{}\n", write(trainer.model(), 600, 0));
    if let Some((_, bits)) = trainer.log().values("test/bits").last() {
        println!("bits per letter on unseen text: {bits:.3}");
    }
    Ok(())
}
