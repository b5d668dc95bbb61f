//! The gradients of all examples of a batch, on request, for a comparison with other libraries:
//! `benches/peers/per_example/run` starts this program beside theirs and takes turns between them.
//!
//! Each line on standard input is a request, each answer a line:
//! - `load WORKLOAD FILE`: the weights and examples of a workload; the answer is what it can do,
//! - `write MODE FILE`: writes what the workload computes in this way, or says what it refused,
//! - `time MODE COUNT`: the nanoseconds of each of so many runs, after one that is not counted.

mod models;
mod tensors;
mod workloads;

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use bibun::attempt;

use crate::tensors::Tensors;
use crate::workloads::{Workload, workload};

/// The answer to a request.
fn answer(
    loaded: &mut Option<Box<dyn Workload>>,
    words: &[&str],
) -> Result<String, Box<dyn Error>> {
    if let ["load", name, file] = *words {
        let new = loaded.insert(workload(name, &Tensors::read(Path::new(file))?)?);
        return Ok(new.modes().join(" "));
    }
    let loaded = loaded.as_deref().ok_or("nothing is loaded")?;
    if let [_, mode, _] = *words
        && !loaded.modes().contains(&mode)
    {
        return Err(format!("there is no mode {mode}").into());
    }
    match *words {
        ["write", mode, file] => {
            let outcome = match attempt(|| loaded.run(mode)) {
                Ok(outcome) => outcome,
                Err(error) => return Ok(format!("refused {error}").replace('\n', " ")),
            };
            let named = loaded.names(mode).into_iter().zip(outcome.joined());
            tensors::write(Path::new(file), named)?;
            Ok("written".to_owned())
        }
        ["time", mode, count] => {
            let count: usize = count.parse()?;
            drop(loaded.run(mode));
            let times = (0..count).map(|_| {
                let start = Instant::now();
                drop(loaded.run(mode));
                start.elapsed().as_nanos().to_string()
            });
            Ok(times.collect::<Vec<_>>().join(" "))
        }
        _ => Err(format!("what is {words:?}?").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut loaded = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        println!("{}", answer(&mut loaded, &words)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
