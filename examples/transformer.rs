//! A small transformer learns to add.
//!
//! ```sh
//! cargo run --release --example transformer
//! cargo run --release --example transformer -- --digits 4 --epochs 40
//! cargo run --release --example transformer -- --out FOLDER   # with plots and snapshots: stop it
//!                                                             # by Ctrl-C, and it goes on next time
//! ```
//!
//! It reads `427+095=` and writes the sum from its last digit to its first, as one does on paper:
//! each digit needs the two digits above it and the carry, and nothing that is not written yet. It knows
//! nothing of digits, places or carries, only which character comes next in many sums. The test is
//! exact: for numbers that it never added, all digits must be right. Within
//! half a minute they are, for all of 2000 sums.

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::array::{Array, Generator};
use bibun::datasets::{DataError, DataLoader, Dataset};
use bibun::functions::softmax_cross_entropy;
use bibun::links::{Chain, Embedding, LayerNorm, Linear, Link, TransformerBlock};
use bibun::optimizers::AdamW;
use bibun::optimizers::schedule::{Lasting, cosine, warm_up};
use bibun::training::{
    BoxError, Evaluator, Plot, PrintReport, ProgressBar, Snapshots, Step, Trainer, Trigger, Until,
};
use bibun::{Variable, eval_mode, no_grad, s};
use clap::Parser;

/// Trains a transformer to add numbers.
#[derive(Parser)]
struct Options {
    /// Digits of the numbers that are added
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=9))]
    digits: u32,
    /// Sums in an epoch
    #[arg(long, default_value_t = 16_000, value_parser = clap::value_parser!(u64).range(1..))]
    sums: u64,
    /// Number of epochs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Folder for the log, plots and snapshots; if it has a snapshot, training goes on from there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const SIGNS: &str = "0123456789+=";

/// Sums of two numbers as signs.
#[derive(Clone, Copy)]
struct Sums {
    digits: u32,
    count: usize,
    /// Every eleventh pair is never learned from.
    unseen: bool,
}

impl Sums {
    /// The signs up to the result, and those of the result.
    fn write(self, a: u64, b: u64) -> (String, String) {
        let width = self.digits as usize;
        let sum = format!("{:0>1$}", a + b, width + 1);
        let question = format!("{a:0>width$}+{b:0>width$}=");
        (question, sum.chars().rev().collect())
    }

    fn draw(self, random: &mut Generator) -> (u64, u64) {
        let bound = 10i64.pow(self.digits);
        loop {
            let pair = random.integers(0, bound, 2).to_vec::<i64>();
            if ((pair[0] + 7 * pair[1]) % 11 == 0) == self.unseen {
                return (pair[0] as u64, pair[1] as u64);
            }
        }
    }
}

fn numbers(text: &str) -> Vec<i64> {
    let number = |sign| SIGNS.find(sign).expect("a sign that there is") as i64;
    text.chars().map(number).collect()
}

/// An example is the signs of a sum but for the last, and the sign after each; -1 before the result,
/// which nobody can foresee.
impl Dataset for Sums {
    type Example = (Array, Array);

    fn len(&self) -> usize {
        self.count
    }

    fn example(&self, _: usize, random: &mut Generator) -> Result<(Array, Array), DataError> {
        let (a, b) = self.draw(random);
        let (question, result) = self.write(a, b);
        let signs = numbers(&(question.clone() + &result));
        let mut next = vec![-1; question.len() - 1];
        next.extend(numbers(&result));
        Ok((Array::from(&signs[..signs.len() - 1]), Array::from(next)))
    }
}

/// The transformer: signs and their places as vectors, blocks in which each place looks at those
/// before it, and scores for what comes next.
#[derive(Chain)]
struct Transformer {
    signs: Embedding,
    places: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    scores: Linear,
}

impl Transformer {
    fn new(length: usize, g: &mut Generator) -> Self {
        let (size, heads) = (64, 4);
        let block = |_| TransformerBlock::builder(size, heads).causal().build(g);
        let blocks = (0..2).map(block).collect();
        Self {
            signs: Embedding::new(SIGNS.len(), size, g),
            places: Embedding::new(length, size, g),
            blocks,
            norm: LayerNorm::new(size),
            scores: Linear::new(size, SIGNS.len(), g),
        }
    }
}

impl Link for Transformer {
    /// Signs `[.., place]` → scores `[.., place, sign]`.
    fn compute(&self, signs: &Variable) -> Variable {
        let length = *signs.shape().last().expect("an axis of places");
        let places = Variable::constant(Array::arange(0, length as i64));
        let mut h = self.signs.forward(signs) + self.places.forward(&places);
        for block in &self.blocks {
            h = block.forward(&h);
        }
        self.scores.forward(&self.norm.forward(&h))
    }
}

/// What the transformer writes behind a question, sign by sign.
fn answer(model: &Transformer, question: &str, length: usize) -> String {
    let mut signs = numbers(question);
    for _ in 0..length {
        let x = Variable::constant(Array::from(&*signs));
        let y = eval_mode(|| no_grad(|| model.forward(&x)));
        signs.push(y.slice(s![-1]).argmax(0).item());
    }
    let written = signs[question.len()..].iter();
    written.map(|&sign| &SIGNS[sign as usize..][..1]).collect()
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
    let generator = Generator::new(options.seed);
    let train = Sums {
        digits: options.digits,
        count: options.sums as usize,
        unseen: false,
    };
    let unseen = Sums {
        count: 2000,
        unseen: true,
        ..train
    };
    let model = Transformer::new(3 * options.digits as usize + 2, &mut generator.split(0));
    println!("{} parameters", model.parameter_count());

    let loss = |model: &Transformer, (x, t): &(Array, Array), step: &mut Step<'_>| {
        let y = model.forward(&Variable::constant(x)).swapaxes(1, 2);
        let right = y.array().argmax(1).equal(t);
        let free = t.less(0i64);
        // Written one after another the signs would be right as well if all are right here.
        let exact = right.logical_or(&free).all(1).mean(..);
        step.report("exact", exact.item());
        softmax_cross_entropy(y, t)
    };
    let batch_size = 128;
    let steps = options.epochs * options.sums.div_ceil(batch_size);
    let warm = steps.min(100);
    let schedule = warm_up(warm).then(cosine((steps - warm).max(1)));
    let batches = DataLoader::new(train, batch_size as usize).seed(options.seed);
    let mut trainer = Trainer::new(model, batches, AdamW::new(0.002).schedule(schedule), loss)
        .until(Until::Epochs(options.epochs as f64))
        .stop_on_interrupt()
        .extend(Evaluator::new(
            "unseen",
            DataLoader::new(unseen, 500).seed(options.seed),
            loss,
        ))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "exact",
            "unseen/exact",
            "elapsed_time",
        ]))
        .extend(ProgressBar::new());
    if let Some(folder) = &options.out {
        trainer = trainer
            .folder(folder)
            .snapshots(Snapshots::every(Trigger::Epochs(1.0)))
            .extend(Plot::new("loss.svg", ["loss", "unseen/loss"]).logarithmic())
            .extend(Plot::new("exact.svg", ["exact", "unseen/exact"]));
    }
    println!("{}", trainer.resume()?);
    println!("{}", trainer.run()?);

    println!("\nnumbers it never added, and what it writes:");
    let random = &mut generator.split(1);
    for _ in 0..5 {
        let (a, b) = unseen.draw(random);
        let (question, result) = unseen.write(a, b);
        let written = answer(trainer.model(), &question, result.len());
        let read: String = written.chars().rev().collect();
        let verdict = if written == result { "right" } else { "wrong" };
        println!(
            "  {question}{written}   {a} + {b} = {}: {verdict}",
            read.trim_start_matches('0')
        );
    }
    if let Some((_, exact)) = trainer.log().values("unseen/exact").last() {
        println!("exact on unseen sums: {exact:.4}");
    }
    Ok(())
}
