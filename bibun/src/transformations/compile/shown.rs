//! The programs of a compiled function, to be shown.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use bibun_array::listing::Listing;

#[cfg(feature = "pictures")]
use super::page;
#[cfg(not(feature = "pictures"))]
use crate::history::without_pictures;

/// A program with the names of its inputs and results, which pictures show.
#[cfg_attr(not(feature = "pictures"), expect(dead_code))]
pub(super) struct Shown {
    /// What it computes.
    pub(super) title: String,
    /// Whether it is the function itself, and not one of its derivatives or batches.
    pub(super) is_function: bool,
    pub(super) listing: Listing,
    /// The names of the inputs of the function. Further inputs have none.
    pub(super) inputs: Vec<String>,
    /// The names of the results, as far as they have some.
    pub(super) outputs: Vec<String>,
}

/// Programs as text.
pub(super) struct Text<'a>(pub(super) &'a [Shown]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.0;
        if programs.is_empty() {
            return f.write_str("a function that has not been traced yet");
        }
        let is_alone = programs.len() == 1 && programs[0].is_function;
        for (i, one) in programs.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            if !is_alone {
                writeln!(f, "{}:", one.title)?;
            }
            one.listing.fmt(f)?;
        }
        Ok(())
    }
}

/// Writes programs to a file, in the format given by its extension.
pub(super) fn save(programs: &[Shown], path: &Path) -> io::Result<()> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let text = match &*extension.to_lowercase() {
        #[cfg(feature = "pictures")]
        "html" => page::html(programs),
        #[cfg(feature = "pictures")]
        "svg" => page::svg(programs),
        #[cfg(not(feature = "pictures"))]
        "html" | "svg" => return Err(without_pictures(path)),
        "txt" => Text(programs).to_string(),
        other => {
            let what = format!(
                "a compiled function is saved as .html, .svg or .txt, not as {other:?} ({})",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    };
    fs::write(path, text)
}
