//! History for Graphviz.

use std::fmt::Write;

use super::History;

impl History {
    /// Returns the graph in the language of Graphviz: functions as boxes, Variables as ellipses with
    /// their names and shapes, links as clusters.
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let x = Variable::new([1.0, 2.0]).named("x");
    /// let dot = history(&x.tanh()).dot();
    /// assert!(dot.contains("label=\"tanh\""));
    /// assert!(dot.contains("label=\"x\\n[2]\""));
    /// ```
    pub fn dot(&self) -> String {
        self.shown().write_dot()
    }

    fn write_dot(&self) -> String {
        let mut inside: Vec<String> = vec![String::new(); self.frames.len() + 1];
        let within = |frame: Option<usize>| frame.unwrap_or(self.frames.len());
        for (at, datum) in self.data.iter().enumerate() {
            let name = datum.name().map(|name| format!("{}\\n", escaped(&name)));
            let (name, shape) = (name.unwrap_or_default(), datum.entry.shape());
            let color = match datum.kind() {
                "constant" => "gray92",
                "result" => "white",
                _ => "moccasin",
            };
            let border = if self.outputs.contains(&at) { 2 } else { 1 };
            let line = format!(
                "d{at} [label=\"{name}{shape}\", shape=ellipse, fillcolor={color}, penwidth={border}];\n"
            );
            inside[within(datum.frame)] += &line;
        }
        for (at, call) in self.calls.iter().enumerate() {
            let name = escaped(call.name);
            let line = format!("f{at} [label=\"{name}\", shape=box, fillcolor=lightblue];\n");
            inside[within(call.frame)] += &line;
        }
        // Inner frames come later, so going backwards everything can be put into the frame around it.
        for (at, frame) in self.frames.iter().enumerate().rev() {
            let label = escaped(&frame.name);
            let body = std::mem::take(&mut inside[at]);
            let cluster = format!("subgraph cluster_{at} {{\nlabel=\"{label}\";\n{body}}}\n");
            inside[within(frame.parent)] += &cluster;
        }
        let mut dot = String::from("digraph history {\nnode [style=filled];\n");
        dot += &inside[self.frames.len()];
        for (at, call) in self.calls.iter().enumerate() {
            let mut inputs = call.inputs.clone();
            inputs.sort();
            inputs.dedup();
            for input in inputs {
                writeln!(dot, "d{input} -> f{at};").expect("a String takes everything");
            }
            for output in &call.outputs {
                writeln!(dot, "f{at} -> d{output};").expect("a String takes everything");
            }
        }
        dot + "}\n"
    }
}

/// Escapes text for use between quotes in DOT.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
