//! The terminal, which a progress bar and printed lines share.

use std::fmt;
use std::io::{self, Write};

use indicatif::ProgressBar;

/// The place where lines are printed, above a bar if there is one.
#[derive(Default, Debug)]
pub(super) struct Terminal {
    pub(super) bar: Option<ProgressBar>,
}

impl Terminal {
    /// Prints a line. A closed standard output does not stop the training.
    pub(super) fn print(&self, line: impl fmt::Display) {
        let print = || {
            let _ = writeln!(io::stdout(), "{line}");
        };
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
