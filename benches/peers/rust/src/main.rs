//! The process of a peer that is written in Rust, which the environment variable PEER names: computes
//! and times rows on request, as bibun's program does, and says which ones it has not.
//!
//! - `load ROW FILE`: reads the inputs of a row,
//! - `check MODE FILE`: computes once, and writes all outputs; or `refused` and why,
//! - `time MODE COUNT`: the nanoseconds that so many runs took.

mod burn;
mod candle;

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

/// A row with its inputs.
trait Work {
    fn run(&self) -> Result<(), Box<dyn Error>>;
    fn write_outputs(&self, file: &str) -> Result<(), Box<dyn Error>>;
}

type Load = fn(&str, &str) -> Result<Box<dyn Work>, Box<dyn Error>>;

fn answer(
    load: Load,
    loaded: &mut Result<Box<dyn Work>, String>,
    words: &[&str],
) -> Result<String, Box<dyn Error>> {
    match (words, &*loaded) {
        (["load", row, file], _) => {
            *loaded = load(row, file).map_err(|error| error.to_string());
            Ok("loaded".to_owned())
        }
        (["check", _, _], Err(error)) => Ok(format!("refused {error}").replace('\n', " ")),
        (["check", _, file], Ok(work)) => match work.write_outputs(file) {
            Ok(()) => Ok("written".to_owned()),
            Err(error) => Ok(format!("refused {error}").replace('\n', " ")),
        },
        (["time", _, count], Ok(work)) => {
            let count: u64 = count.parse()?;
            let start = Instant::now();
            for _ in 0..count {
                work.run()?;
            }
            Ok(start.elapsed().as_nanos().to_string())
        }
        _ => Err(format!("what is {words:?}?").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let load = match std::env::var("PEER").as_deref() {
        Ok("burn") => burn::load,
        _ => candle::load,
    };
    let mut loaded = Err("no row is loaded".to_owned());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        println!("{}", answer(load, &mut loaded, &words)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
