//! Printing of the log on the terminal.

use crate::training::{BoxError, Entry, Extension, Session};

/// An extension that prints chosen values of each line of the log, in columns under a heading.
///
/// ```text
///   epoch        loss   test/loss  test/accuracy  elapsed_time
///       1    0.321754    0.131206       0.960300          2.61
///       2    0.109302    0.096812       0.970500          5.20
/// ```
///
/// If a line does not have a value, its cell is empty.
///
/// ```
/// use bibun::training::PrintReport;
/// let table = PrintReport::new(["epoch", "loss", "test/accuracy"]);
/// # let _ = table;
/// ```
#[derive(Debug)]
pub struct PrintReport {
    columns: Vec<String>,
}

impl PrintReport {
    /// Creates an extension that prints the values of these names.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = N>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
        }
    }

    fn row(&self, cell: impl Fn(&str) -> String) -> String {
        let cells = self.columns.iter().map(|name| {
            let width = name.chars().count().max(10);
            format!("{:>width$}", cell(name))
        });
        cells.collect::<Vec<_>>().join("  ")
    }

    fn line(&self, entry: &Entry) -> String {
        self.row(|name| entry.get(name).map_or_else(String::new, shown))
    }
}

/// Formats a number with about six significant digits, and whole numbers without a point.
fn shown(value: f64) -> String {
    match value {
        _ if !value.is_finite() => value.to_string(),
        _ if value.fract() == 0.0 && value.abs() < 1e9 => format!("{value:.0}"),
        _ if value.abs() >= 1000.0 => format!("{value:.1}"),
        _ if value.abs() >= 10.0 => format!("{value:.2}"),
        _ if value.abs() >= 1e-3 => format!("{value:.6}"),
        _ => format!("{value:.3e}"),
    }
}

impl<M> Extension<M> for PrintReport {
    fn name(&self) -> &str {
        "print_report"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.print(self.row(str::to_owned));
        // A resumed training prints its log so far.
        for entry in session.log().entries() {
            session.print(self.line(entry));
        }
        Ok(())
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.print(self.line(entry));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let table = PrintReport::new(["epoch", "loss", "a_rather_long_name"]);
        let heading = table.row(str::to_owned);
        let row = table.row(|name| shown(if name == "epoch" { 12.0 } else { 0.25 }));
        assert_eq!(heading, "     epoch        loss  a_rather_long_name");
        assert_eq!(row, "        12    0.250000            0.250000");
        assert_eq!(shown(f64::NAN), "NaN");
        assert_eq!(shown(0.00012352), "1.235e-4");
        assert_eq!(shown(1234.56), "1234.6");
        assert_eq!(shown(98.765), "98.77");
    }
}
