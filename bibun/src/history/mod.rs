//! Views of history: a table, a picture, and a page that plays it.

mod composites;
#[cfg(feature = "pictures")]
mod content;
mod dot;
#[cfg(feature = "pictures")]
mod layout;
mod links;
#[cfg(feature = "pictures")]
pub(crate) mod page;
#[cfg(feature = "pictures")]
pub(crate) mod picture;
#[cfg(feature = "pictures")]
mod statistics;
#[cfg(feature = "pictures")]
pub(crate) mod svg;
mod table;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Location;
use crate::node::{self, Creator, HistoryEntry, Key};
use crate::variable::Variable;

/// Returns the history of a Variable: all functions and Variables that it was computed by and from.
///
/// This is the short form of [`History::of`] for one output.
///
/// ```
/// use bibun::{history, Variable};
/// let x = Variable::new([1.0, 2.0]).named("x");
/// let y = (&x * 3.0).tanh();
/// let text = history(&y).to_string();
/// assert!(text.contains("multiply") && text.contains("tanh"));
/// assert!(text.contains("x [2]"));
/// ```
pub fn history(output: &Variable) -> History {
    History::of(&[output])
}

/// The functions that led to some Variables, and all Variables between them.
///
/// It is a view, not a copy: names, values and gradients are read when it is printed or drawn. As
/// long as it lives, so does the history that it shows.
///
/// | output | method |
/// |---|---|
/// | a table of the functions | `Display` |
/// | a graph for Graphviz | [`dot`](History::dot) |
/// | a picture | `svg`, with the feature `pictures` |
/// | a page to zoom, fold and play | `html`, with the feature `pictures` |
/// | any of these as a file | [`save`](History::save) |
///
/// A constant is one vertex if its value is still there to identify it. A function that does not save
/// the value of a constant shows a separate vertex for it. Values hidden by `vmap` or `jvp` have a
/// shape, but no statistics.
///
/// The table and `dot` take any history, at about a second for a hundred thousand functions. Pictures
/// and pages draw the last 1,000 functions (fewer if very many edges are long) and one box for all
/// earlier ones.
///
/// ```
/// use bibun::{History, Variable};
/// let x = Variable::new([1.0, 2.0]).named("x");
/// let (a, b) = (x.exp(), x.sin());
/// let history = History::of(&[&a, &b]);
/// assert_eq!(history.function_count(), 2);
/// assert!(history.dot().starts_with("digraph"));
/// ```
#[derive(Clone)]
pub struct History {
    /// In an order in which they may have run, by generation.
    calls: Vec<Call>,
    data: Vec<Datum>,
    outputs: Vec<usize>,
    /// Links, then composite functions. A frame comes before the frames inside it.
    frames: Vec<Frame>,
    /// Whether the parts of composite functions are shown.
    is_unfolded: bool,
}

/// A function call in a history.
#[derive(Clone)]
struct Call {
    /// The name of the function that the user called.
    name: &'static str,
    /// The function, or all parts of a composite function.
    parts: Vec<Creator>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    frame: Option<usize>,
}

impl Call {
    fn first(&self) -> &Creator {
        &self.parts[0]
    }

    /// Returns the generation of the last part.
    fn generation(&self) -> u64 {
        let generations = self.parts.iter().map(Creator::generation);
        generations.max().unwrap_or_default()
    }
}

/// Calls that are shown together and can be folded.
#[derive(Clone)]
struct Frame {
    /// The name of a link in its model, such as `layers/0`, or of a function.
    name: String,
    /// The frame around this one.
    parent: Option<usize>,
    /// The location of the call of a composite function, or `None` for a link.
    location: Option<Location>,
}

impl Frame {
    fn is_function(&self) -> bool {
        self.location.is_some()
    }
}

/// A Variable in a history.
#[derive(Clone)]
struct Datum {
    entry: HistoryEntry,
    /// The name of the parameter in a model.
    parameter: Option<String>,
    maker: Option<usize>,
    consumers: Vec<usize>,
    frame: Option<usize>,
}

impl Datum {
    fn name(&self) -> Option<String> {
        self.parameter.clone().or_else(|| self.entry.name())
    }

    /// Returns whether it is known to be a single number, which may be repeated to any shape.
    fn is_single(&self) -> bool {
        let array = || self.entry.value()?.plain_array();
        self.entry.shape().size() == 1 || array().is_some_and(|x| x.memory_key().is_none())
    }

    /// Returns its name, if it has one, and its shape.
    fn label(&self) -> String {
        match self.name() {
            Some(name) => format!("{name} {}", self.entry.shape()),
            None => self.entry.shape().to_string(),
        }
    }

    fn kind(&self) -> &'static str {
        match (&self.parameter, self.maker) {
            (Some(_), _) => "parameter",
            (None, Some(_)) => "result",
            (None, None) if self.entry.is_leaf() => "leaf",
            (None, None) => "constant",
        }
    }
}

impl History {
    /// Returns the history of several Variables together.
    ///
    /// The History of a Variable without history has only this Variable.
    ///
    /// ```
    /// use bibun::{History, Variable};
    /// let history = History::of(&[&Variable::constant(1.0)]);
    /// assert_eq!(history.function_count(), 0);
    /// assert!(history.to_string().ends_with("0 functions, 0 leaves, 1 constant; 0 bytes kept\n"));
    /// ```
    pub fn of(outputs: &[&Variable]) -> Self {
        let mut history = Self {
            calls: Vec::new(),
            data: Vec::new(),
            outputs: Vec::new(),
            frames: Vec::new(),
            is_unfolded: false,
        };
        let mut known = FxHashMap::default();
        for creator in creators(outputs) {
            let call = history.calls.len();
            let inputs: Vec<usize> = (creator.inputs().into_iter())
                .map(|entry| history.datum(entry, &mut known))
                .collect();
            let outputs: Vec<usize> = (creator.outputs().into_iter())
                .map(|entry| history.datum(entry, &mut known))
                .collect();
            for &input in &inputs {
                let consumers = &mut history.data[input].consumers;
                if consumers.last() != Some(&call) {
                    consumers.push(call);
                }
            }
            for &output in &outputs {
                history.data[output].maker = Some(call);
            }
            history.calls.push(Call {
                name: creator.name(),
                parts: vec![creator],
                inputs,
                outputs,
                frame: None,
            });
        }
        for &output in outputs {
            let output = history.datum(HistoryEntry::of(output), &mut known);
            if !history.outputs.contains(&output) {
                history.outputs.push(output);
            }
        }
        history.frame_composites();
        history.place_data();
        history
    }

    /// Shows the parts of composite functions, each with its own values. A loss, for example, is made
    /// of cross entropy, choice, sum and quotient. Defaults to showing such a function as one in the
    /// table and in pictures; on a page it is unfolded by a click.
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let x = Variable::new([1.0, 2.0, 4.0]);
    /// let y = x.mean(..);
    /// assert_eq!(history(&y).function_count(), 1);
    /// assert!(history(&y).to_string().contains("mean"));
    /// let parts = history(&y).unfolded();
    /// assert_eq!(parts.function_count(), 2);
    /// assert!(parts.to_string().contains("sum"));
    /// ```
    #[must_use]
    pub fn unfolded(mut self) -> Self {
        self.is_unfolded = true;
        self
    }

    /// Returns the index of a Variable among the data. A Variable that is known already may get a
    /// value.
    fn datum(&mut self, entry: HistoryEntry, known: &mut FxHashMap<Key, usize>) -> usize {
        let key = entry.key();
        if let Some(&at) = key.and_then(|key| known.get(&key)) {
            let old = &mut self.data[at].entry;
            if old.value().is_none() && entry.value().is_some() {
                *old = entry;
            }
            return at;
        }
        let at = self.data.len();
        self.data.push(Datum {
            entry,
            parameter: None,
            maker: None,
            consumers: Vec::new(),
            frame: None,
        });
        known.extend(key.map(|key| (key, at)));
        at
    }

    /// Returns the number of function calls. A composite function counts as one, unless it is
    /// [unfolded](History::unfolded).
    pub fn function_count(&self) -> usize {
        if self.is_unfolded {
            return self.calls.len();
        }
        let is_part = |place: Option<usize>| place.is_some_and(|at| self.frames[at].is_function());
        let wholes = self.frames.iter().filter(|frame| frame.is_function());
        let wholes = wholes.filter(|frame| !is_part(frame.parent)).count();
        wholes + (self.calls.iter().filter(|call| !is_part(call.frame))).count()
    }

    /// Returns the number of bytes of the values that all functions together save for their rules.
    /// Values saved by several functions are counted once.
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// let y = x.sin() + x.cos();
    /// assert_eq!(history(&y).kept_bytes(), 24);
    /// ```
    pub fn kept_bytes(&self) -> usize {
        distinct_bytes(self.calls.iter().flat_map(|call| &call.parts))
    }

    /// Writes the history to a file, in the format given by its extension: `.html`, `.svg`, `.dot`
    /// (or `.gv`), or `.txt` for the table.
    ///
    /// # Errors
    /// Returns an error if the extension is another one, or if the file cannot be written.
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let y = Variable::new(1.0).exp();
    /// let error = history(&y).save("history.jpeg").unwrap_err();
    /// assert!(error.to_string().contains(".svg"));
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let text = match &*extension.to_lowercase() {
            #[cfg(feature = "pictures")]
            "html" => self.html(),
            #[cfg(feature = "pictures")]
            "svg" => self.svg(),
            #[cfg(not(feature = "pictures"))]
            "html" | "svg" => return Err(without_pictures(path)),
            "dot" | "gv" => self.dot(),
            "txt" => self.to_string(),
            other => {
                let what = format!(
                    "a history is saved as .html, .svg, .dot, .gv or .txt, not as {other:?} ({})",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        };
        fs::write(path, text)
    }
}

/// The error of a picture without the feature for it.
#[cfg(not(feature = "pictures"))]
pub(crate) fn without_pictures(path: &Path) -> io::Error {
    let what = format!(
        "{} takes bibun's feature `pictures`, which this program is built without",
        path.display()
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("functions", &self.function_count())
            .field("variables", &self.data.len())
            .field("frames", &self.frames.len())
            .finish()
    }
}

/// Returns all function calls behind some Variables, by generation. Those of one generation are in
/// the order in which they appear in the formula.
fn creators(outputs: &[&Variable]) -> Vec<Creator> {
    enum Visit {
        Enter(Creator),
        Leave(Creator),
    }
    let outputs = outputs.iter().rev().filter_map(|output| output.creator());
    let mut pending: Vec<Visit> = outputs.map(Visit::Enter).collect();
    let mut seen = FxHashSet::default();
    let mut creators = Vec::new();
    while let Some(visit) = pending.pop() {
        match visit {
            Visit::Leave(creator) => creators.push(creator),
            Visit::Enter(creator) => {
                if !seen.insert(creator.0.address()) {
                    continue;
                }
                let inputs = creator.inputs();
                pending.push(Visit::Leave(creator));
                let before = inputs.iter().rev().filter_map(HistoryEntry::creator);
                pending.extend(before.map(Visit::Enter));
            }
        }
    }
    creators.sort_by_key(Creator::generation);
    creators
}

/// Returns the number of bytes that some calls save together, without counting any memory twice.
fn distinct_bytes<'a>(creators: impl Iterator<Item = &'a Creator>) -> usize {
    node::distinct_bytes(creators.flat_map(Creator::kept))
}

/// Returns the line of a call. An absolute path (of a dependency, for example) is cut to the part
/// that identifies the file, so that no folders of the machine are shown.
pub(crate) fn line(location: Location) -> String {
    let path = Path::new(location.file());
    let mut file = location.file().replace('\\', "/");
    if path.has_root() {
        let parts: Vec<&str> = file.split('/').collect();
        let source = parts.iter().rposition(|part| *part == "src");
        let from = source.map_or(parts.len().saturating_sub(2), |src| src.saturating_sub(1));
        file = parts[from..].join("/");
    }
    format!("{file}:{}", location.line())
}

/// Returns a text such as `1 leaf` or `2 leaves`.
pub(crate) fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { more })
}

/// Returns a number with its digits in groups of three.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
