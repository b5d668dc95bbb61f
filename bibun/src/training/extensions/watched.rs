//! The logged value that an extension follows.

use crate::training::{Entry, Log, Session};

/// The name of a value of the log that an extension follows. A name that the log does not have, such as a misspelled
/// one, is told once: the extension would do nothing, and nobody would know.
#[derive(Debug)]
pub(super) struct Watched {
    name: String,
    is_told: bool,
}

impl Watched {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_told: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value in a line of the log, if the line has it.
    pub(super) fn value<M>(
        &mut self,
        extension: &str,
        entry: &Entry,
        session: &Session<'_, M>,
    ) -> Option<f64> {
        if let Some(missing) = self.missing(entry, session.log()) {
            session.print(format!("{extension}: {missing}"));
        }
        entry.get(&self.name)
    }

    /// Returns what is to be told of a name that no line has had so far.
    fn missing(&mut self, entry: &Entry, log: &Log) -> Option<String> {
        let is_there = entry.get(&self.name).is_some() || log.values(&self.name).next().is_some();
        if is_there || std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let names: Vec<String> = entry.iter().map(|(name, _)| format!("`{name}`")).collect();
        Some(format!(
            "no line of the log has had `{}` so far; this one has {}",
            self.name,
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::Clock;

    #[test]
    fn a_name_that_the_log_does_not_have_is_told_once() {
        let mut log = Log::default();
        let entry = log.close(&Clock::default(), 0.1).clone();
        let mut watched = Watched::new("test/acuracy");
        let told = watched.missing(&entry, &log).expect("it is not there");
        assert!(told.contains("`test/acuracy`"), "{told}");
        assert!(told.contains("`learning_rate`"), "{told}");
        assert_eq!(watched.missing(&entry, &log), None);
        assert_eq!(Watched::new("learning_rate").missing(&entry, &log), None);
    }

    #[test]
    fn a_value_that_only_some_lines_have_is_not_missed() {
        let mut log = Log::default();
        log.interval.add("test/loss", 1.0, 1.0);
        log.close(&Clock::default(), 0.1);
        let entry = log.close(&Clock::default(), 0.1).clone();
        assert_eq!(entry.get("test/loss"), None);
        assert_eq!(Watched::new("test/loss").missing(&entry, &log), None);
    }
}
