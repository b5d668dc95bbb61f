//! The values that steps and evaluations report.

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, Generator};
use indexmap::IndexMap;

use super::{Clock, Log};
use crate::error::{Error, raise};
use crate::serializers::{State, StateError, Stateful};
use crate::tree::{Mapper, Tree, Visitor};
use crate::variable::Variable;

/// Values by name, each the mean of all values reported under its name, weighted by the numbers of
/// examples they were reported for.
#[derive(Clone, Default, Debug)]
pub struct Report(IndexMap<String, Mean>);

#[derive(Clone, Copy, Default, Debug)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Report {
    /// Adds a value with a weight, which is usually the number of examples that it holds for.
    pub fn add(&mut self, name: impl Into<String>, value: f64, weight: f64) {
        // A value without weight is ignored, even if it is NaN.
        if weight == 0.0 {
            return;
        }
        let sum = value * weight;
        self.include(name.into(), Mean { sum, weight });
    }

    fn include(&mut self, name: String, mean: Mean) {
        let whole = self.0.entry(name).or_default();
        whole.sum += mean.sum;
        whole.weight += mean.weight;
    }

    /// Returns the mean of the values reported under a name, if there are any.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(Mean::value)
    }

    /// Returns an iterator over names and means, in the order in which they were first reported.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0
            .iter()
            .map(|(name, mean)| (name.as_str(), mean.value()))
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds everything that was reported to another.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, mean) in &other.0 {
            self.include(name.clone(), *mean);
        }
    }

    /// Adds everything that was reported to another, under `prefix/`, or returns a name that has a value already.
    pub(super) fn merge_part(&mut self, prefix: &str, part: &Self) -> Result<(), String> {
        for (name, mean) in &part.0 {
            let name = format!("{prefix}/{name}");
            if self.0.contains_key(&name) {
                return Err(name);
            }
            self.include(name, *mean);
        }
        Ok(())
    }
}

/// What the processes of a training report, put together.
impl Report {
    /// Returns the report as bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, mean) in &self.0 {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(mean.sum.to_le_bytes());
            bytes.extend(mean.weight.to_le_bytes());
        }
        bytes
    }

    /// Reads a report from its bytes, or returns `None` if they are not of one.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut report = Self::default();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (name, rest) = rest.split_at_checked(length)?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            let (sum, rest) = rest.split_first_chunk()?;
            let (weight, rest) = rest.split_first_chunk()?;
            let (sum, weight) = (f64::from_le_bytes(*sum), f64::from_le_bytes(*weight));
            report.include(name, Mean { sum, weight });
            bytes = rest;
        }
        Some(report)
    }

    /// Returns the report of all processes from what each reported. A value that is the same in all is that
    /// value, if `of_all` says that each may have computed it for all examples.
    pub(super) fn of_processes(all: &[Self], of_all: bool) -> Self {
        let mut whole = Self::default();
        for report in all {
            whole.merge(report);
        }
        if of_all {
            for (name, mean) in &mut whole.0 {
                let bits = |report: &Self| {
                    let mean = report.0.get(name)?;
                    Some((mean.sum.to_bits(), mean.weight.to_bits()))
                };
                if all.iter().all(|report| bits(report) == bits(&all[0])) {
                    *mean = all[0].0[name];
                }
            }
        }
        whole
    }
}

impl Mean {
    fn value(&self) -> f64 {
        self.sum / self.weight
    }
}

impl Stateful for Report {
    fn state(&self) -> State {
        let value =
            |(name, mean): (&String, &Mean)| (name.clone(), Array::from([mean.sum, mean.weight]));
        self.0.iter().map(value).collect()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let like = Array::from([0.0, 0.0]);
        let mut means = IndexMap::new();
        for (name, _) in state.iter() {
            let pair = state.array_like(name, &like)?.to_vec::<f64>();
            let mean = Mean {
                sum: pair[0],
                weight: pair[1],
            };
            means.insert(name.to_owned(), mean);
        }
        self.0 = means;
        Ok(())
    }
}

/// One use of a model on one batch, in training or evaluation: it takes reported values and
/// provides random numbers.
pub struct Step<'a> {
    pub(super) report: &'a mut Report,
    pub(super) random: Generator,
    pub(super) clock: &'a Clock,
    pub(super) examples: usize,
    pub(super) weight: f64,
    /// The weight of the batch in the mean over all processes.
    pub(super) share: f64,
    pub(super) look: Option<&'a mut dyn FnMut(&Variable)>,
    /// What is reported while the loss is traced.
    pub(super) traced: Option<Vec<Reported>>,
}

/// A report of a loss that is traced, which is made in every step.
#[derive(Clone)]
pub(super) struct Reported {
    name: String,
    weight: f64,
    value: Value,
}

/// The value of a report.
#[derive(Clone)]
enum Value {
    Number(f64),
    /// A function of Variables.
    Metric(Vec<Variable>, Arc<Metric>),
}

type Metric = dyn Fn(&[Variable]) -> f64 + Send + Sync;

impl Reported {
    fn add_to(&self, report: &mut Report) {
        let value = match &self.value {
            Value::Number(value) => *value,
            Value::Metric(values, metric) => metric(values),
        };
        report.add(&self.name, value, self.weight);
    }
}

/// The Variables of a metric are results of the loss.
impl Tree for Reported {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Value::Metric(values, _) = &self.value {
            values.visit(visitor);
        }
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let mut mapped = self.clone();
        if let Value::Metric(values, _) = &mut mapped.value {
            *values = values.map(mapper);
        }
        mapped
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("clock", &self.clock)
            .field("examples", &self.examples)
            .finish_non_exhaustive()
    }
}

impl Step<'_> {
    /// Reports a mean over the batch, which is logged as the mean over all examples.
    ///
    /// # Panics
    /// Panics if the name is that of a number which every line of the log has (`epoch`, `iteration`, `elapsed_time`,
    /// `learning_rate`).
    #[track_caller]
    pub fn report(&mut self, name: &str, mean: f64) {
        self.report_weighted(name, mean, self.weight);
    }

    /// Reports a mean over the batch that is a function of Variables, such as an accuracy. A
    /// [compiled](super::Trainer::compiled) loss cannot read values while it is traced, so it reports
    /// metrics in this way: the function is called in every step, with the values of that step.
    ///
    /// ```
    /// use bibun::functions::{accuracy, softmax_cross_entropy};
    /// use bibun::links::{Linear, Link};
    /// use bibun::training::Step;
    /// use bibun::{array::Array, Variable};
    /// let loss = |model: &Linear, (x, t): &(Array, Array), step: &mut Step<'_>| {
    ///     let (y, t) = (model.forward(&Variable::constant(x)), Variable::constant(t));
    ///     step.report_metric("accuracy", [&y, &t], |[y, t]| accuracy(y, t));
    ///     softmax_cross_entropy(y, t)
    /// };
    /// ```
    ///
    /// # Panics
    /// Panics as [`report`](Self::report) does.
    #[track_caller]
    pub fn report_metric<const N: usize>(
        &mut self,
        name: &str,
        values: [&Variable; N],
        metric: impl Fn([&Variable; N]) -> f64 + Send + Sync + 'static,
    ) {
        if self.traced.is_none() {
            return self.report(name, metric(values));
        }
        let values = values.map(Variable::detach).to_vec();
        let metric = move |values: &[Variable]| metric(std::array::from_fn(|i| &values[i]));
        self.add(name, self.weight, Value::Metric(values, Arc::new(metric)));
    }

    #[track_caller]
    fn add(&mut self, name: &str, weight: f64, value: Value) {
        if Log::is_of_every_line(name) {
            let what = format!("every line of the log has a number `{name}`; use another name");
            raise(Error::argument("report", what));
        }
        let name = name.to_owned();
        let reported = Reported {
            name,
            weight,
            value,
        };
        match &mut self.traced {
            Some(traced) => traced.push(reported),
            None => reported.add_to(self.report),
        }
    }

    /// Makes the reports of a loss that was traced.
    pub(super) fn add_all(&mut self, reported: &[Reported]) {
        reported
            .iter()
            .for_each(|reported| reported.add_to(self.report));
    }

    /// Checks that the loss is not being traced, because what it asks for changes with every step.
    #[track_caller]
    fn expect_now(&self, function: &'static str, advice: &str) {
        if self.traced.is_some() {
            let what = format!(
                "the trainer is compiled and traces its loss, so what this returns would be the same \
                 in every later step; {advice}"
            );
            raise(Error::argument(function, what));
        }
    }

    /// Sets the weight of the following means of this batch, including the loss, instead of its
    /// number of examples: for example its number of words, if the loss is a mean over words.
    pub fn set_weight(&mut self, weight: f64) {
        self.weight = weight;
    }

    /// Reports a mean with its own weight, such as the number of words in the batch.
    ///
    /// # Panics
    /// Panics as [`report`](Self::report) does.
    #[track_caller]
    pub fn report_weighted(&mut self, name: &str, mean: f64, weight: f64) {
        self.add(name, weight, Value::Number(mean));
    }

    /// Returns the random numbers of this step: the same however often training was resumed.
    ///
    /// # Panics
    /// Panics in a [compiled](super::Trainer::compiled) loss.
    #[track_caller]
    pub fn random(&mut self) -> &mut Generator {
        let advice =
            "draw in the data set, which adds numbers to a batch, or by a link such as `Dropout`";
        self.expect_now("random", advice);
        &mut self.random
    }

    /// Shows a loss with its history, from which the picture of the graph is drawn if one is
    /// wanted.
    pub fn show(&mut self, loss: &Variable) {
        if let Some(look) = &mut self.look {
            look(loss);
        }
    }

    /// Returns the number of examples in the batch.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Returns the progress of training before this step.
    ///
    /// # Panics
    /// Panics in a [compiled](super::Trainer::compiled) loss.
    #[track_caller]
    pub fn clock(&self) -> &Clock {
        let advice =
            "a number that changes belongs into the batch, or into a `Buffer` of the model";
        self.expect_now("clock", advice);
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_and_kept() {
        let mut report = Report::default();
        report.add("loss", 1.0, 3.0);
        report.add("loss", 5.0, 1.0);
        report.add("a/b", 7.0, 2.0);
        assert_eq!(
            report.iter().collect::<Vec<_>>(),
            [("loss", 2.0), ("a/b", 7.0)]
        );
        let mut other = Report::default();
        other.load_state(&report.state()).expect("a report's state");
        other.merge(&report);
        assert_eq!(
            (other.get("loss"), other.get("a/b")),
            (Some(2.0), Some(7.0))
        );
        assert_eq!(other.merge_part("test", &report), Ok(()));
        assert_eq!(other.get("test/loss"), Some(2.0));
        let twice = other.merge_part("test", &report);
        assert_eq!(twice, Err("test/loss".to_owned()));
        assert_eq!(other.get("nothing"), None);
        other.add("loss", f64::NAN, 0.0);
        assert_eq!(other.get("loss"), Some(2.0));
    }
}
