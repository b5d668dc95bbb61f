//! History as a table.

use std::fmt;

use super::{Call, History, counted, distinct_bytes, grouped, line};

/// The number of inputs or outputs that are written in full. If there are more, the rest is counted.
const LISTED: usize = 6;

/// Writes one line for each function, in an order in which they may have run, and the totals. A
/// composite function is one line with the generation of its last part, unless it is
/// [unfolded](History::unfolded). The kept bytes are those of the values that the function saves for
/// its rules. The total counts shared memory once.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().write_table(f)
    }
}

impl History {
    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<Vec<String>> = vec![
            ["function", "shapes", "dtype", "generation", "called at"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows[0].push("bytes kept".to_owned());
        rows[0].extend(self.has_links().then(|| "link".to_owned()));
        rows.extend(self.calls.iter().map(|call| self.row(call)));
        // Numbers are aligned at their ends, words at their beginnings.
        let at_end = |column| matches!(column, 3 | 5);
        let widths: Vec<usize> = (0..rows[0].len())
            .map(|column| {
                rows.iter()
                    .map(|row| width(&row[column]))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in rows.iter().filter(|_| !self.calls.is_empty()) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let space = " ".repeat(widths[column] - width(cell));
                let (before, after) = if at_end(column) {
                    (space, "".into())
                } else {
                    ("".into(), space)
                };
                let gap = if column == 0 { "" } else { "  " };
                line += &format!("{gap}{before}{cell}{after}");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        let leaves = self
            .data
            .iter()
            .filter(|datum| datum.entry.is_leaf())
            .count();
        let made = self
            .data
            .iter()
            .filter(|datum| datum.maker.is_some())
            .count();
        writeln!(
            f,
            "{}, {}, {}; {} kept",
            counted(self.calls.len(), "function", "functions"),
            counted(leaves, "leaf", "leaves"),
            counted(self.data.len() - leaves - made, "constant", "constants"),
            counted(self.kept_bytes(), "byte", "bytes"),
        )
    }

    fn has_links(&self) -> bool {
        self.frames
            .first()
            .is_some_and(|frame| !frame.is_function())
    }

    fn row(&self, call: &Call) -> Vec<String> {
        let mut dtypes: Vec<String> = (call.outputs.iter())
            .map(|&output| self.data[output].entry.dtype().to_string())
            .collect();
        dtypes.dedup();
        let mut row = vec![
            call.name.to_owned(),
            self.signature(call),
            dtypes.join(", "),
            call.generation().to_string(),
            line(call.first().location()),
            grouped(distinct_bytes(call.parts.iter())),
        ];
        if self.has_links() {
            let mut around = self.enclosing(call.frame);
            let link = around.find(|&at| !self.frames[at].is_function());
            row.push(link.map_or_else(String::new, |link| self.frames[link].name.clone()));
        }
        row
    }

    /// Returns a text such as `x [2, 3], [4, 3] -> [2, 4]`.
    pub(super) fn signature(&self, call: &Call) -> String {
        let list = |data: &[usize]| {
            let mut labels: Vec<String> = data.iter().map(|&at| self.data[at].label()).collect();
            if labels.len() > LISTED + 1 {
                let more = labels.len() - LISTED;
                labels.truncate(LISTED);
                labels.push(format!("{more} more"));
            }
            labels.join(", ")
        };
        format!("{} -> {}", list(&call.inputs), list(&call.outputs))
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}
