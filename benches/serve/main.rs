//! bibun's side of the table beside its peers: computes and times rows on request.
//!
//! `benches/peers/run` starts this program beside the other libraries and takes turns between them,
//! so that all see the same state of the machine. Each line on standard input is a request, and each
//! answer is a line:
//! - `rows`: the names of all rows,
//! - `message`: the nanoseconds of a message from one processor to another and back,
//! - `load ROW FILE`: reads the inputs of a row,
//! - `check MODE FILE`: computes once, and writes all outputs; or `refused` and why,
//! - `time MODE COUNT`: the nanoseconds that so many runs took.
//!
//! The modes are `eager` and `compiled`. Every row has the same name, inputs and outputs as in
//! `benches/peers/rows`.

mod arrays;
mod convolutions;
mod elementwise;
mod limits;
mod linalg;
mod networks;
mod normalization;
mod optimizers;
mod processors;
mod products;
mod recurrent;
mod reductions;
mod row;
mod scalars;
mod softmax;
mod transformations;

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use bibun::attempt;
use bibun::serializers::{State, load_safetensors, save_safetensors};

use crate::row::{Inputs, Mode, Rows, Work};

fn rows() -> Rows {
    let mut rows = Rows::default();
    limits::rows(&mut rows);
    softmax::rows(&mut rows);
    normalization::rows(&mut rows);
    elementwise::rows(&mut rows);
    reductions::rows(&mut rows);
    arrays::rows(&mut rows);
    products::rows(&mut rows);
    linalg::rows(&mut rows);
    convolutions::rows(&mut rows);
    networks::rows(&mut rows);
    recurrent::rows(&mut rows);
    transformations::rows(&mut rows);
    optimizers::rows(&mut rows);
    scalars::rows(&mut rows);
    rows
}

/// The answer to a request.
fn answer(
    rows: &Rows,
    loaded: &mut Option<Box<dyn Work>>,
    words: &[&str],
) -> Result<String, Box<dyn Error>> {
    match *words {
        ["rows"] => return Ok(rows.names().collect::<Vec<_>>().join(" ")),
        ["message"] => return Ok(processors::round_trip().to_string()),
        ["load", row, file] => {
            *loaded = None;
            let inputs = Inputs::new(load_safetensors(file)?);
            *loaded = Some(rows.work(row, &inputs)?);
            return Ok("loaded".to_owned());
        }
        _ => {}
    }
    let work = loaded.as_deref_mut().ok_or("no row is loaded")?;
    match *words {
        ["check", mode, file] => {
            let mode = Mode::named(mode)?;
            match attempt(|| work.outputs(mode)) {
                Ok(outputs) => {
                    let outputs: State = outputs.into_iter().collect();
                    save_safetensors(file, &outputs)?;
                    Ok("written".to_owned())
                }
                Err(error) => Ok(format!("refused {error}").replace('\n', " ")),
            }
        }
        ["time", mode, count] => {
            let (mode, count) = (Mode::named(mode)?, count.parse::<u64>()?);
            let start = Instant::now();
            for _ in 0..count {
                work.run(mode);
            }
            Ok(start.elapsed().as_nanos().to_string())
        }
        _ => Err(format!("what is {words:?}?").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rows = rows();
    let mut loaded = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        println!("{}", answer(&rows, &mut loaded, &words)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
