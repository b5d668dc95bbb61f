//! The terminal, which a progress bar and printed lines share.

use std::fmt;
use std::io::{self, Write};

use indicatif::ProgressBar;

/// The place where lines are printed, above a bar if there is one.
#[derive(Default, Debug)]
pub(super) struct Terminal {
    pub(super) bar: Option<ProgressBar>,
    /// Whether nothing is printed, because another process prints.
    pub(super) is_quiet: bool,
}

impl Terminal {
    /// Prints a line. A closed standard output does not stop the training.
    pub(super) fn print(&self, line: impl fmt::Display) {
        if self.is_quiet {
            return;
        }
        let print = || {
            let _ = writeln!(io::stdout(), "{line}");
        };
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
