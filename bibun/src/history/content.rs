//! The content of a picture of a history.

use rustc_hash::FxHashMap;

use super::picture::{Frame, Kind, LETTERS, Picture, Vertex, shortened};
use super::statistics::Statistics;
use super::svg::Use;
use super::{Call, Creator, History, counted, distinct_bytes, line};
use crate::variable::Variable;

/// The number of functions that are drawn. Earlier ones are one box.
pub(crate) const DRAWN: usize = 1_000;

/// A vertex of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    Call(usize),
    Datum(usize),
    /// A number of functions that are not drawn one by one.
    Earlier(usize),
}

impl History {
    /// Returns the picture of the history, or of its last part.
    pub(super) fn picture(&self, used: Use) -> Picture {
        let mut drawn = self.calls.len().min(DRAWN);
        loop {
            let (items, edges) = select(self, self.calls.len() - drawn);
            if items.len() <= 6 * DRAWN || drawn == 0 {
                let vertices = items.into_iter().map(|item| self.vertex(item, used));
                if let Some(picture) =
                    Picture::arranged(vertices.collect(), self.drawn_frames(), edges)
                {
                    return picture;
                }
            }
            assert!(drawn > 0, "no edge passes a layer without functions");
            drawn /= 2;
        }
    }

    fn drawn_frames(&self) -> Vec<Frame> {
        let mut counts = vec![0; self.frames.len()];
        for call in &self.calls {
            for frame in self.enclosing(call.frame) {
                counts[frame] += 1;
            }
        }
        let frames = self.frames.iter().zip(counts);
        let frames = frames.map(|(frame, count)| {
            let (class, about) = match frame.location {
                Some(called) => (
                    "composite",
                    vec![
                        ("function", frame.name.clone()),
                        ("made of", counted(count, "function", "functions")),
                        ("called at", line(called)),
                    ],
                ),
                None => (
                    "",
                    vec![
                        ("link", frame.name.clone()),
                        ("functions", count.to_string()),
                    ],
                ),
            };
            Frame {
                name: frame.name.clone(),
                parent: frame.parent,
                class,
                count,
                note: None,
                about,
                is_folded: frame.is_function() && !self.is_unfolded,
            }
        });
        frames.collect()
    }

    fn vertex(&self, item: Item, used: Use) -> Vertex {
        let (id, kind, class, frame) = match item {
            Item::Call(call) => (
                format!("f{call}"),
                Kind::Function,
                String::new(),
                self.calls[call].frame,
            ),
            Item::Earlier(_) => ("earlier".to_owned(), Kind::Earlier, String::new(), None),
            Item::Datum(datum) => {
                let is_output = self.outputs.contains(&datum);
                let output = if is_output { " output" } else { "" };
                let class = format!("{}{output}", self.data[datum].kind());
                let frame = self.data[datum].frame;
                (format!("d{datum}"), Kind::Datum, class, frame)
            }
        };
        let mut about = self.about(item);
        let mut values = Vec::new();
        // A picture that is viewed by itself shows no values.
        if used == Use::InPage {
            for (what, full, short) in self.values(item) {
                values.extend(short.map(|short| (what, short)));
                about.push((what, full));
            }
        }
        Vertex {
            id,
            kind,
            class,
            lines: lines(self, item),
            frame,
            generation: self.generation(item),
            about,
            values,
        }
    }

    /// Returns the generation of a function, or of the function that made a Variable. It is 0 for a
    /// Variable that was not made by a function.
    fn generation(&self, item: Item) -> u64 {
        let generation = |call: usize| self.calls[call].generation();
        match item {
            Item::Call(call) => generation(call),
            Item::Datum(datum) => self.data[datum].maker.map_or(0, generation),
            Item::Earlier(count) => generation(count - 1),
        }
    }

    /// Returns all information about a vertex except its values.
    fn about(&self, item: Item) -> Vec<(&'static str, String)> {
        match item {
            Item::Call(call) => {
                let call = &self.calls[call];
                let bytes = distinct_bytes(call.parts.iter());
                vec![
                    ("function", call.name.to_owned()),
                    ("described", shortened(&describe(call), 200)),
                    ("shapes", self.signature(call)),
                    ("generation", call.generation().to_string()),
                    ("called at", line(call.first().location())),
                    ("saves", counted(bytes, "byte", "bytes")),
                ]
            }
            Item::Datum(datum) => {
                let datum = &self.data[datum];
                let made = datum.maker.map(|maker| &self.calls[maker]);
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
            Item::Earlier(count) => {
                vec![(
                    "not drawn",
                    counted(count, "earlier function", "earlier functions"),
                )]
            }
        }
    }

    /// Returns statistics of the value of a Variable and of its gradient: a label, the full text, and
    /// a short one.
    fn values(&self, item: Item) -> Vec<(&'static str, String, Option<String>)> {
        let Item::Datum(datum) = item else {
            return Vec::new();
        };
        let entry = &self.data[datum].entry;
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
fn select(history: &History, first: usize) -> (Vec<Item>, Vec<(usize, usize)>) {
    let mut numbers: FxHashMap<Item, usize> = FxHashMap::default();
    let mut vertices = Vec::new();
    let mut number = |item: Item| {
        *numbers.entry(item).or_insert_with(|| {
            vertices.push(item);
            vertices.len() - 1
        })
    };
    let earlier = (first > 0).then(|| number(Item::Earlier(first)));
    let mut edges = Vec::new();
    for (at, call) in history.calls.iter().enumerate().skip(first) {
        for &input in &call.inputs {
            let input = number(Item::Datum(input));
            edges.push((input, number(Item::Call(at))));
        }
        let call_number = number(Item::Call(at));
        for &output in &call.outputs {
            edges.push((call_number, number(Item::Datum(output))));
        }
    }
    for &output in &history.outputs {
        number(Item::Datum(output));
    }
    if let Some(earlier) = earlier {
        for (number, vertex) in vertices.iter().enumerate() {
            let Item::Datum(datum) = vertex else {
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

fn lines(history: &History, item: Item) -> Vec<String> {
    match item {
        Item::Call(call) => vec![shortened(history.calls[call].name, LETTERS)],
        Item::Datum(datum) => {
            let datum = &history.data[datum];
            let shape = shortened(&datum.entry.shape().to_string(), LETTERS);
            let name = datum.name().map(|name| shortened(&name, LETTERS));
            name.into_iter().chain([shape]).collect()
        }
        Item::Earlier(count) => vec![counted(count, "earlier function", "earlier functions")],
    }
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
