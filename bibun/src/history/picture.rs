//! The content of a picture of a history, with its layout.

use rustc_hash::FxHashMap;

use super::layout::{self, Layout, Part, Sketch};
use super::statistics::Statistics;
use super::{Call, Creator, History, counted, distinct_bytes, line};
use crate::variable::Variable;

/// The number of functions that are drawn. Earlier ones are one box.
pub(super) const DRAWN: usize = 1_000;
/// The number of characters of a name that are drawn.
pub(super) const LETTERS: usize = 34;

/// A history, or its last part, with the position of everything.
pub(super) struct Picture<'a> {
    pub(super) history: &'a History,
    pub(super) vertices: Vec<Vertex>,
    /// Pairs of vertices, in the order of the layout's edges.
    pub(super) edges: Vec<(usize, usize)>,
    pub(super) layout: Layout,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Vertex {
    Call(usize),
    Datum(usize),
    /// A number of functions that are not drawn one by one.
    Earlier(usize),
}

impl<'a> Picture<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut drawn = history.calls.len().min(DRAWN);
        loop {
            let (vertices, edges) = select(history, history.calls.len() - drawn);
            let few = vertices.len() <= 6 * DRAWN || drawn == 0;
            let layout = few.then(|| layout::arrange(&sketch(history, &vertices, &edges)));
            if let Some(layout) = layout.flatten() {
                return Self {
                    history,
                    vertices,
                    edges,
                    layout,
                };
            }
            assert!(drawn > 0, "no edge passes a layer without functions");
            drawn /= 2;
        }
    }

    /// Returns the lines of text in a vertex.
    pub(super) fn lines(&self, vertex: Vertex) -> Vec<String> {
        lines(self.history, vertex)
    }

    /// Returns the generation of a function, or of the function that made a Variable. It is 0 for a
    /// Variable that was not made by a function.
    pub(super) fn generation(&self, vertex: Vertex) -> u64 {
        let generation = |call: usize| self.history.calls[call].generation();
        match vertex {
            Vertex::Call(call) => generation(call),
            Vertex::Datum(datum) => self.history.data[datum].maker.map_or(0, generation),
            Vertex::Earlier(count) => generation(count - 1),
        }
    }

    /// Returns all information about a vertex except its values.
    pub(super) fn about(&self, vertex: Vertex) -> Vec<(&'static str, String)> {
        match vertex {
            Vertex::Call(call) => {
                let call = &self.history.calls[call];
                let bytes = distinct_bytes(call.parts.iter());
                vec![
                    ("function", call.name.to_owned()),
                    ("described", shortened(&describe(call), 200)),
                    ("shapes", self.history.signature(call)),
                    ("generation", call.generation().to_string()),
                    ("called at", line(call.first().location())),
                    ("saves", counted(bytes, "byte", "bytes")),
                ]
            }
            Vertex::Datum(datum) => {
                let datum = &self.history.data[datum];
                let made = datum.maker.map(|maker| &self.history.calls[maker]);
                let mut about: Vec<(&str, String)> = Vec::new();
                about.extend(datum.name().map(|name| (datum.kind(), name)));
                if about.is_empty() {
                    let kind = made.map_or(datum.kind().to_owned(), |made| {
                        format!("result of {}", made.name)
                    });
                    about.push(("variable", kind));
                }
                about.push(("shape", datum.entry.shape().to_string()));
                about.push(("dtype", datum.entry.dtype().to_string()));
                about.extend(made.map(|made| ("made at", line(made.first().location()))));
                about
            }
            Vertex::Earlier(count) => {
                vec![(
                    "not drawn",
                    counted(count, "earlier function", "earlier functions"),
                )]
            }
        }
    }

    /// Returns statistics of the value of a Variable and of its gradient: a label, the full text, and
    /// a short one.
    pub(super) fn values(&self, vertex: Vertex) -> Vec<(&'static str, String, Option<String>)> {
        let Vertex::Datum(datum) = vertex else {
            return Vec::new();
        };
        let entry = &self.history.data[datum].entry;
        let mut values = vec![statistics("value", entry.value())];
        if let Some(gradient) = entry.grad() {
            values.push(statistics("gradient", Some(gradient)));
        }
        values
    }
}

fn statistics(what: &'static str, x: Option<Variable>) -> (&'static str, String, Option<String>) {
    match x.as_ref().map(Statistics::of) {
        None => (what, "not kept".to_owned(), None),
        Some(None) => (what, "hidden by a transformation".to_owned(), None),
        Some(Some(statistics)) => (what, statistics.to_string(), Some(statistics.short())),
    }
}

/// Returns the calls from `first` on, their inputs and outputs, and the edges between them.
fn select(history: &History, first: usize) -> (Vec<Vertex>, Vec<(usize, usize)>) {
    let mut numbers: FxHashMap<Vertex, usize> = FxHashMap::default();
    let mut vertices = Vec::new();
    let mut number = |vertex: Vertex| {
        *numbers.entry(vertex).or_insert_with(|| {
            vertices.push(vertex);
            vertices.len() - 1
        })
    };
    let earlier = (first > 0).then(|| number(Vertex::Earlier(first)));
    let mut edges = Vec::new();
    for (at, call) in history.calls.iter().enumerate().skip(first) {
        for &input in &call.inputs {
            let input = number(Vertex::Datum(input));
            edges.push((input, number(Vertex::Call(at))));
        }
        let call_number = number(Vertex::Call(at));
        for &output in &call.outputs {
            edges.push((call_number, number(Vertex::Datum(output))));
        }
    }
    for &output in &history.outputs {
        number(Vertex::Datum(output));
    }
    if let Some(earlier) = earlier {
        for (number, vertex) in vertices.iter().enumerate() {
            let Vertex::Datum(datum) = vertex else {
                continue;
            };
            let datum = &history.data[*datum];
            if datum.maker.is_some_and(|maker| maker < first) {
                edges.push((earlier, number));
            } else if datum.consumers.iter().any(|&consumer| consumer < first) {
                edges.push((number, earlier));
            }
        }
    }
    edges.sort();
    edges.dedup();
    (vertices, edges)
}

fn sketch(history: &History, vertices: &[Vertex], edges: &[(usize, usize)]) -> Sketch {
    let parts = vertices.iter().map(|&vertex| {
        let lines = lines(history, vertex);
        let widest = lines.iter().map(|line| letters(line)).max().unwrap_or(0) as f64;
        match vertex {
            Vertex::Call(call) => Part {
                width: (7.9 * widest + 26.0).max(56.0),
                height: 32.0,
                frame: history.calls[call].frame,
            },
            Vertex::Datum(datum) => Part {
                width: (7.3 * widest + 26.0).max(136.0),
                height: 13.0 + 15.0 * lines.len() as f64,
                frame: history.data[datum].frame,
            },
            Vertex::Earlier(_) => Part {
                width: 7.9 * widest + 40.0,
                height: 40.0,
                frame: None,
            },
        }
    });
    let frames = history.frames.iter().map(|frame| Part {
        width: 7.3 * letters(&shortened(&frame.name, LETTERS)) as f64 + 60.0,
        height: 0.0,
        frame: frame.parent,
    });
    Sketch {
        vertices: parts.collect(),
        frames: frames.collect(),
        edges: edges.to_vec(),
    }
}

fn lines(history: &History, vertex: Vertex) -> Vec<String> {
    match vertex {
        Vertex::Call(call) => vec![shortened(history.calls[call].name, LETTERS)],
        Vertex::Datum(datum) => {
            let datum = &history.data[datum];
            let shape = shortened(&datum.entry.shape().to_string(), LETTERS);
            let name = datum.name().map(|name| shortened(&name, LETTERS));
            name.into_iter().chain([shape]).collect()
        }
        Vertex::Earlier(count) => vec![counted(count, "earlier function", "earlier functions")],
    }
}

/// Returns the beginning and the end of a text if it is longer than `most`.
pub(super) fn shortened(text: &str, most: usize) -> String {
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

/// Describes the function with its parameters, or lists the parts of a composite function.
fn describe(call: &Call) -> String {
    match &call.parts[..] {
        [function] => function.describe(),
        parts => {
            let names: Vec<&str> = parts.iter().map(Creator::name).collect();
            format!("made of {}", names.join(", "))
        }
    }
}
