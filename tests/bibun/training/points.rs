//! A small training that takes part in everything: random batches, normalization, dropout, Adam with
//! a schedule.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::functions::relu;
use bibun::links::{BatchNorm, Chain, Dropout, Linear, Link};
use bibun::serializers::{State, StateError, Stateful};
use bibun::training::{BatchSource, BoxError, Once, Step};

/// Points and the values of a function there, in random order, anew in each epoch.
pub(crate) struct Points {
    x: Array,
    t: Array,
    batch_size: usize,
    seed: u64,
    epoch: u64,
    position: usize,
}

impl Points {
    pub(crate) fn new(count: usize, batch_size: usize) -> Self {
        let x = Generator::new(7).uniform([count, 2], -1.0, 1.0, DType::F32);
        let t = (&x * &x).sum(1).reshape([count, 1]);
        let (seed, epoch, position) = (3, 0, 0);
        Self {
            x,
            t,
            batch_size,
            seed,
            epoch,
            position,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.x.shape()[0]
    }

    /// The points and the values there.
    pub(crate) fn into_arrays(self) -> (Array, Array) {
        (self.x, self.t)
    }

    fn batch(&self, order: &Array, from: usize) -> ((Array, Array), usize) {
        let to = (from + self.batch_size).min(self.len());
        let order = order.slice(bibun::s![from..to]);
        ((self.x.take(&order, 0), self.t.take(&order, 0)), to - from)
    }
}

impl BatchSource for Points {
    type Batch = (Array, Array);

    fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError> {
        let order = Generator::new(self.seed)
            .split(self.epoch)
            .permutation(self.len());
        let (batch, examples) = self.batch(&order, self.position);
        self.position += examples;
        if self.position == self.len() {
            (self.epoch, self.position) = (self.epoch + 1, 0);
        }
        Ok((batch, examples))
    }

    fn epoch(&self) -> f64 {
        self.epoch as f64 + self.position as f64 / self.len() as f64
    }

    fn once(&self) -> Once<'_, Self::Batch> {
        let order = Array::arange(0, self.len() as i64);
        let starts = (0..self.len()).step_by(self.batch_size);
        Box::new(starts.map(move |from| Ok(self.batch(&order, from))))
    }
}

impl Stateful for Points {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert("epoch", self.epoch);
        state.insert("position", self.position as u64);
        state
    }
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.epoch = state.count("epoch")?;
        self.position = state.count("position")? as usize;
        Ok(())
    }
}

/// A network with state of every kind.
#[derive(Chain)]
pub(crate) struct Net {
    l1: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    pub(crate) l2: Linear,
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        let g = &mut Generator::new(seed);
        Self {
            l1: Linear::new(2, 16, g),
            norm: BatchNorm::new(16),
            dropout: Dropout::new(0.1, g),
            l2: Linear::new(16, 1, g),
        }
    }
}

impl Link for Net {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.norm.forward(&self.l1.forward(x)));
        self.l2.forward(&self.dropout.forward(&h))
    }
}

/// The mean squared error, at points moved a little.
pub(crate) fn loss(model: &Net, (x, t): &(Array, Array), step: &mut Step<'_>) -> Variable {
    let noise = step.random().normal(x.shape(), 0.0, 0.01, DType::F32);
    let error = (model.forward(&Variable::constant(x + noise)) - t).square();
    step.report("worst", error.array().max(..).item());
    error.mean(..)
}

/// The mean squared error, as it can be compiled.
pub(crate) fn still(model: &Net, (x, t): &(Array, Array), step: &mut Step<'_>) -> Variable {
    let error = (model.forward(&Variable::constant(x)) - t).square();
    step.report_metric("worst", [&error], |[error]| error.array().max(..).item());
    error.mean(..)
}

/// A folder of its own, gone with the value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bibun-{name}-{}-{count}", process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The names of the files in it that are not hidden.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All bits of a model.
pub(crate) fn bits(model: &impl Chain) -> Vec<(String, Vec<u64>)> {
    let state = model.state();
    let bits = |(name, value): (&str, &bibun::serializers::Value)| match value {
        bibun::serializers::Value::Array(x) => {
            let x = x.cast(DType::F64).to_vec::<f64>();
            (name.to_owned(), x.into_iter().map(f64::to_bits).collect())
        }
        bibun::serializers::Value::Text(_) => panic!("models have no texts"),
    };
    state.iter().map(bits).collect()
}

/// What a log has told, without the time it took.
pub(crate) fn told(log: &bibun::training::Log) -> Vec<Vec<(String, u64)>> {
    let line = |entry: &bibun::training::Entry| {
        let values = entry.iter().filter(|(name, _)| *name != "elapsed_time");
        values
            .map(|(name, value)| (name.to_owned(), value.to_bits()))
            .collect()
    };
    log.entries().iter().map(line).collect()
}
