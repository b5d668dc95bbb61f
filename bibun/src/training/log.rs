//! The log of training.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Map, Number, Value};

use super::report::Report;
use super::{Clock, TrainingError};
use crate::serializers::{FileError, State, StateError, Stateful, write_whole};

/// The file of the log in the folder of a training.
pub(super) const FILE: &str = "log.jsonl";

/// One line of the [`Log`]: numbers by name. It always has `iteration`, `epoch`, `elapsed_time`
/// (seconds) and `learning_rate`; the rest was reported by steps and evaluations since the line
/// before.
#[derive(Clone, Default, Debug)]
pub struct Entry(IndexMap<String, f64>);

/// The lines that training has logged so far.
///
/// In the folder of a training they are in `log.jsonl`, each as a line of JSON; numbers that are
/// not finite are `null` there.
#[derive(Clone, Default, Debug)]
pub struct Log {
    entries: Vec<Entry>,
    /// The values reported since the last line.
    pub(super) interval: Report,
}

impl Entry {
    /// Returns a number by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Returns an iterator over names and numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    fn to_json(&self) -> String {
        // Whole numbers are written without a point, except -0, whose sign would be lost.
        let is_whole = |value: f64| {
            value.fract() == 0.0 && value.abs() < 1e15 && value.to_bits() != (-0.0f64).to_bits()
        };
        let number = |value: f64| match Number::from_f64(value) {
            Some(_) if is_whole(value) => Value::from(value as i64),
            Some(number) => Value::Number(number),
            None => Value::Null,
        };
        let values = self
            .iter()
            .map(|(name, value)| (name.to_owned(), number(value)));
        Value::Object(values.collect::<Map<_, _>>()).to_string()
    }

    fn from_json(line: &str) -> Option<Self> {
        let Ok(Value::Object(values)) = serde_json::from_str(line) else {
            return None;
        };
        let number = |(name, value): (String, Value)| match value {
            Value::Null => Some((name, f64::NAN)),
            value => Some((name, value.as_f64()?)),
        };
        Some(Self(values.into_iter().map(number).collect::<Option<_>>()?))
    }
}

impl Log {
    /// Returns all lines, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the last line, if there is one.
    pub fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }

    /// Returns an iterator over all values of a name, each with its line.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Entry, f64)> {
        self.entries
            .iter()
            .filter_map(move |entry| Some((entry, entry.get(name)?)))
    }

    /// Reads the `log.jsonl` of a training. A truncated last line is left out.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or another line is not a JSON object of numbers.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TrainingError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(TrainingError::io(path))?;
        let lines: io::Result<Vec<String>> = BufReader::new(file).lines().collect();
        let lines = lines.map_err(TrainingError::io(path))?;
        let mut log = Self::default();
        for (i, line) in lines.iter().enumerate() {
            match Entry::from_json(line) {
                Some(entry) => log.entries.push(entry),
                None if i + 1 == lines.len() => {}
                None => {
                    let what = format!("line {} is no JSON object of numbers", i + 1);
                    return Err(FileError::format(what).in_file(path).into());
                }
            }
        }
        Ok(log)
    }

    /// Whether every line has a number of this name.
    pub(super) fn is_of_every_line(name: &str) -> bool {
        ["epoch", "iteration", "elapsed_time", "learning_rate"].contains(&name)
    }

    /// Closes the interval: adds a line with the values that were reported in it.
    pub(super) fn close(&mut self, clock: &Clock, learning_rate: f64) -> &Entry {
        let mut entry = Entry::default();
        entry.0.insert("epoch".to_owned(), clock.epoch());
        entry
            .0
            .insert("iteration".to_owned(), clock.iteration() as f64);
        let elapsed = (clock.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        entry.0.insert("elapsed_time".to_owned(), elapsed);
        entry.0.insert("learning_rate".to_owned(), learning_rate);
        entry.0.extend(
            self.interval
                .iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        self.interval.clear();
        self.entries.push(entry);
        self.entries.last().expect("just put there")
    }

    /// Whether a folder has a log with lines.
    pub(super) fn is_in(folder: &Path) -> bool {
        fs::metadata(folder.join(FILE)).is_ok_and(|file| file.len() > 0)
    }

    /// Writes all lines to the file, replacing its contents.
    pub(super) fn write(&self, folder: &Path) -> Result<(), TrainingError> {
        let file = folder.join(FILE);
        let lines: String = self
            .entries
            .iter()
            .map(|entry| entry.to_json() + "\n")
            .collect();
        Ok(write_whole(&file, |writer| {
            Ok(writer.write_all(lines.as_bytes())?)
        })?)
    }

    /// Appends the last line to the file.
    pub(super) fn append(&self, folder: &Path) -> Result<(), TrainingError> {
        let Some(entry) = self.last() else {
            return Ok(());
        };
        let path = folder.join(FILE);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all((entry.to_json() + "\n").as_bytes()))
            .map_err(TrainingError::io(path))
    }
}

impl Stateful for Log {
    fn state(&self) -> State {
        let mut state = State::new();
        let lines: String = self
            .entries
            .iter()
            .map(|entry| entry.to_json() + "\n")
            .collect();
        state.insert("lines", lines);
        state.insert_part("interval", self.interval.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let entry =
            |line| Entry::from_json(line).ok_or_else(|| StateError::wrong("lines", "is no log"));
        let entries = state
            .text("lines")?
            .lines()
            .map(entry)
            .collect::<Result<_, _>>()?;
        state.load_part("interval", &mut self.interval)?;
        self.entries = entries;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_bit_for_bit() {
        let mut log = Log::default();
        for i in 0..50 {
            let x = f64::from(i) + 0.1;
            log.interval.add("loss", x.sin() * 1e-3, 3.0);
            log.interval.add("a \"b\"/\n", 1.0 / x, 1.0);
            log.interval.add("whole", -3.0, 1.0);
            log.interval.add("infinite", f64::INFINITY, 1.0);
            log.close(&Clock::default(), if i == 3 { -0.0 } else { x.sqrt() });
        }
        log.interval.add("loss", 0.1, 0.3);
        let mut again = Log::default();
        again.load_state(&log.state()).expect("the state of a log");
        for (a, b) in log.entries.iter().zip(&again.entries) {
            for ((a_name, a), (b_name, b)) in a.iter().zip(b.iter()) {
                assert_eq!(a_name, b_name);
                assert!(a.to_bits() == b.to_bits() || (a.is_infinite() && b.is_nan()));
            }
        }
        assert_eq!(again.entries.len(), 50);
        assert_eq!(again.interval.get("loss"), log.interval.get("loss"));
        assert_eq!(log.values("loss").count(), 50);
    }
}
