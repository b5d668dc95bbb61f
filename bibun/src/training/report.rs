//! What steps and evaluations tell.

use std::fmt;

use bibun_array::{Array, Generator};
use indexmap::IndexMap;

use super::Clock;
use crate::serializers::{State, StateError, Stateful};
use crate::variable::Variable;

/// Values by name, each the mean of all that was told under its name, weighted by the number of
/// examples each was told for.
#[derive(Clone, Default, Debug)]
pub struct Report(IndexMap<String, Mean>);

#[derive(Clone, Copy, Default, Debug)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Report {
    /// Tells a value that holds for so many examples (or whatever else shall be the weight).
    pub fn add(&mut self, name: impl Into<String>, value: f64, weight: f64) {
        // A mean over nothing says nothing, not even if it is no number.
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

    /// The mean of what was told, if anything was.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(Mean::value)
    }

    /// Names and means, in the order in which they were first told.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0
            .iter()
            .map(|(name, mean)| (name.as_str(), mean.value()))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds all that was told to another.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, mean) in &other.0 {
            self.include(name.clone(), *mean);
        }
    }

    /// Adds all that was told to another, under `prefix/`.
    pub(super) fn merge_part(&mut self, prefix: &str, part: &Self) {
        for (name, mean) in &part.0 {
            self.include(format!("{prefix}/{name}"), *mean);
        }
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

/// One use of a model on one batch, in training or evaluation: what can be told, and what can be
/// drawn.
pub struct Step<'a> {
    pub(super) report: &'a mut Report,
    pub(super) random: Generator,
    pub(super) clock: &'a Clock,
    pub(super) examples: usize,
    pub(super) weight: f64,
    pub(super) look: Option<&'a mut dyn FnMut(&Variable)>,
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
    /// Tells a mean over the batch: logged as the mean over all examples.
    pub fn report(&mut self, name: &str, mean: f64) {
        self.report.add(name, mean, self.weight);
    }

    /// What the means of this batch count from here on, the loss among them, in place of its number
    /// of examples: its number of words, say, where the loss is a mean over words.
    pub fn set_weight(&mut self, weight: f64) {
        self.weight = weight;
    }

    /// Tells a mean with a weight of its own, such as the number of words in the batch.
    pub fn report_weighted(&mut self, name: &str, mean: f64, weight: f64) {
        self.report.add(name, mean, weight);
    }

    /// Random numbers that belong to this step: the same whenever and however often training was
    /// resumed.
    pub fn random(&mut self) -> &mut Generator {
        &mut self.random
    }

    /// Shows a loss with its history to whoever wants to look at it: the picture of the graph is
    /// made here.
    pub fn show(&mut self, loss: &Variable) {
        if let Some(look) = &mut self.look {
            look(loss);
        }
    }

    /// The number of examples in the batch.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Where training stood before this step.
    pub fn clock(&self) -> &Clock {
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
        other.merge_part("test", &report);
        assert_eq!(other.get("test/loss"), Some(2.0));
        assert_eq!(other.get("nothing"), None);
        other.add("loss", f64::NAN, 0.0);
        assert_eq!(other.get("loss"), Some(2.0));
    }
}
