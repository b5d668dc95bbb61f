//! Pictures of boxes and the edges between them, whatever they show.

use super::layout::{self, Layout, Part, Sketch};

/// The number of characters of a name that are drawn.
pub(crate) const LETTERS: usize = 34;

/// Vertices in frames, with the position of everything.
pub(crate) struct Picture {
    pub(super) vertices: Vec<Vertex>,
    pub(super) frames: Vec<Frame>,
    /// Pairs of vertices, in the order of the layout's edges.
    pub(super) edges: Vec<(usize, usize)>,
    pub(super) layout: Layout,
    /// The classes of the whole.
    pub(super) class: &'static str,
}

/// A box with some lines of text.
pub(crate) struct Vertex {
    /// The id of its element.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Its classes beside the one of its kind.
    pub(crate) class: String,
    pub(crate) lines: Vec<String>,
    pub(crate) frame: Option<usize>,
    /// When it has its turn as the page plays.
    pub(crate) generation: u64,
    /// All that the page says of it: labels and texts.
    pub(crate) about: Vec<(&'static str, String)>,
    /// Values that the page shows as it plays: labels and short texts.
    pub(crate) values: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Datum,
    /// Functions that are not drawn one by one.
    Earlier,
}

impl Kind {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Datum => "datum",
            Self::Earlier => "earlier",
        }
    }
}

/// A frame around vertices, which can be folded. Frames come before those inside them.
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    /// Its classes beside `link`.
    pub(crate) class: &'static str,
    /// The number of functions inside.
    pub(crate) count: usize,
    /// The line under the name while it is folded, instead of the number of functions.
    pub(crate) note: Option<String>,
    /// All that the page says of it.
    pub(crate) about: Vec<(&'static str, String)>,
    /// Whether it is folded at first.
    pub(crate) is_folded: bool,
}

impl Picture {
    /// Finds the position of everything. Returns `None` if there are too many long edges.
    pub(crate) fn arranged(
        vertices: Vec<Vertex>,
        frames: Vec<Frame>,
        edges: Vec<(usize, usize)>,
    ) -> Option<Self> {
        let sketch = Sketch {
            vertices: vertices.iter().map(Vertex::part).collect(),
            frames: frames.iter().map(Frame::part).collect(),
            edges,
        };
        let layout = layout::arrange(&sketch)?;
        Some(Self {
            vertices,
            frames,
            edges: sketch.edges,
            layout,
            class: "history",
        })
    }

    /// Makes it the picture of a program, whose steps run in one direction.
    pub(crate) fn of_program(self) -> Self {
        let class = "history program";
        Self { class, ..self }
    }
}

impl Vertex {
    fn part(&self) -> Part {
        let widest = self.lines.iter().map(|line| letters(line)).max();
        let widest = widest.unwrap_or(0) as f64;
        let height = 15.0 * self.lines.len() as f64;
        let (width, height) = match self.kind {
            Kind::Function => ((7.9 * widest + 26.0).max(56.0), 17.0 + height),
            Kind::Datum => ((7.3 * widest + 26.0).max(136.0), 13.0 + height),
            Kind::Earlier => (7.9 * widest + 40.0, 40.0),
        };
        Part {
            width,
            height,
            frame: self.frame,
        }
    }
}

impl Frame {
    fn part(&self) -> Part {
        let name = letters(&shortened(&self.name, LETTERS));
        let note = self.note.as_ref().map_or(0, |note| letters(note));
        Part {
            width: 7.3 * name.max(note) as f64 + 60.0,
            height: 0.0,
            frame: self.parent,
        }
    }
}

/// Returns the beginning and the end of a text if it is longer than `most`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let (begin, end) = (most / 2, letters.len() - (most - 1 - most / 2));
    let part = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}…{}", part(&letters[..begin]), part(&letters[end..]))
}

/// Returns the width of a text in a font of fixed width. Letters of East Asia are twice as wide.
fn letters(text: &str) -> usize {
    let wide =
        |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{ffdf}' | '\u{1f000}'..);
    text.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}
