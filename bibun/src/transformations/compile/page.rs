//! Programs as a page: the picture and the page of history, with steps in the place of functions.

use bibun_array::listing::{self, Listing, Origin, Read, Source, Step, Value};
use rustc_hash::FxHashMap;

use super::shown::Shown;
use crate::history::page::page;
use crate::history::picture::{Frame, Kind, LETTERS, Picture, Vertex, shortened};
use crate::history::svg::Use;
use crate::history::{counted, grouped, line};

/// The number of operations that are drawn. Of more, passes over memory are drawn as one box each,
/// and then the last steps alone.
const DRAWN: usize = 1_000;

/// The number of lines that the page lists of a pass.
const LINES: usize = 16;

/// The number of steps up to which a program is drawn with all of its edges. In larger ones, inputs are
/// drawn at each step that reads them, and so are values that were made long before.
const SMALL: usize = 24;

/// The number of steps over which an edge of a larger program goes.
const NEAR: usize = 8;

/// Returns a self-contained page of some programs.
pub(super) fn html(programs: &[Shown]) -> String {
    let summary = match programs {
        [one] => {
            let listing = &one.listing;
            format!(
                "{} in {}, at most {} bytes at a time; left out: {}",
                counted(listing.recorded, "recorded call", "recorded calls"),
                counted(listing.steps.len(), "step", "steps"),
                grouped(listing.peak_bytes),
                removed(listing)
            )
        }
        _ => counted(programs.len(), "program", "programs"),
    };
    page("Compiled function", &summary, &picture(programs))
}

/// Returns the picture as SVG.
pub(super) fn svg(programs: &[Shown]) -> String {
    picture(programs).svg(Use::Alone)
}

fn picture(programs: &[Shown]) -> Picture {
    let (mut drawn, mut operations) = (DRAWN, DRAWN);
    loop {
        let mut drawing = Drawing::default();
        let mut before = 0;
        for (i, shown) in programs.iter().enumerate() {
            let frame = (programs.len() > 1).then(|| drawing.program_frame(shown, i > 0));
            let program = Drawn {
                shown,
                before,
                frame,
                makers: FxHashMap::default(),
                beside: FxHashMap::default(),
            };
            drawing.program(program, drawn, operations);
            before += shown.listing.steps.len() as u64;
        }
        let arranged = (drawing.vertices.len() <= 6 * DRAWN || drawn == 0)
            .then(|| Picture::arranged(drawing.vertices, drawing.frames, drawing.edges));
        if let Some(picture) = arranged.flatten() {
            return picture.of_program();
        }
        assert!(drawn > 0, "no edge passes a layer without steps");
        match operations {
            0 => drawn /= 2,
            _ => operations = 0,
        }
    }
}

/// What is drawn so far.
#[derive(Default)]
struct Drawing {
    vertices: Vec<Vertex>,
    frames: Vec<Frame>,
    edges: Vec<(usize, usize)>,
}

/// A program while it is drawn.
struct Drawn<'a> {
    shown: &'a Shown,
    /// The number of steps of the programs before it, so that the page plays one after the other.
    before: u64,
    /// The frame around it.
    frame: Option<usize>,
    /// The step that each value comes from, with the vertex.
    makers: FxHashMap<usize, (usize, usize)>,
    /// The vertices of values that are drawn at the step that reads them, or once for all steps.
    beside: FxHashMap<(usize, Option<usize>), usize>,
}

impl Drawn<'_> {
    /// When a step has its turn as the page plays.
    fn turn(&self, step: usize) -> u64 {
        self.before + step as u64 + 1
    }
}

impl Drawing {
    fn program_frame(&mut self, shown: &Shown, is_folded: bool) -> usize {
        let Shown { title, listing, .. } = shown;
        let count = listing.steps.len();
        self.frames.push(Frame {
            name: title.clone(),
            parent: None,
            class: "",
            count,
            note: Some(counted(count, "step", "steps")),
            about: vec![
                ("program", title.clone()),
                ("steps", count.to_string()),
                (
                    "memory",
                    format!("at most {} bytes at a time", grouped(listing.peak_bytes)),
                ),
                ("left out", removed(listing)),
            ],
            is_folded,
        });
        self.frames.len() - 1
    }

    /// Adds the last steps of a program, and one box for all before them. Passes of more operations
    /// than are to be drawn are one box each.
    fn program(&mut self, mut program: Drawn<'_>, drawn: usize, operations: usize) {
        let Drawn { shown, frame, .. } = program;
        let listing = &shown.listing;
        let first = listing.steps.len().saturating_sub(drawn);
        let steps = &listing.steps[first..];
        let most = largest_pass(steps, operations);
        if first > 0 {
            let text = counted(first, "earlier step", "earlier steps");
            let about = vec![("not drawn", text.clone())];
            let earlier = self.add(Kind::Earlier, "", vec![text], about, frame, 0);
            for step in &listing.steps[..first] {
                let made = step.results.iter();
                (program.makers).extend(made.map(|&value| (value, (first - 1, earlier))));
            }
        }
        for (i, step) in steps.iter().enumerate() {
            self.step(&mut program, step, first + i, frame, most);
        }
        for (read, name) in listing.outputs.iter().zip(&shown.outputs) {
            let (Read::Value(value) | Read::View(value, _)) = read else {
                continue;
            };
            let about = [("result", name.clone())];
            let spec = &listing.values[*value];
            let vertex = self.datum("result output", name, spec, &about, frame);
            match program.makers.get(value) {
                Some(&(_, maker)) => self.edges.push((maker, vertex)),
                None => self.connect(read, &mut program, vertex, 0),
            }
        }
    }

    /// Adds a step, or a part of the step of this number.
    fn step(
        &mut self,
        program: &mut Drawn<'_>,
        step: &Step,
        number: usize,
        frame: Option<usize>,
        most: usize,
    ) {
        let listing = &program.shown.listing;
        let is_part = frame != program.frame;
        let about = about_step(listing, step, number, is_part);
        let is_hot = !is_part && share(listing, number).is_some_and(|share| share >= 0.1);
        if (2..=most).contains(&weight(step)) {
            let class = match (step.kind, is_hot) {
                (listing::Kind::Rows, false) => "rows",
                (listing::Kind::Rows, true) => "rows hot",
                (_, false) => "pass",
                (_, true) => "pass hot",
            };
            self.frames.push(Frame {
                name: title(step),
                parent: frame,
                class,
                count: step.operations.len() + step.parts.len(),
                note: Some(format!("{}, {}", content(step), traffic(step))),
                about,
                is_folded: true,
            });
            let inside = self.frames.len() - 1;
            for part in &step.parts {
                self.step(program, part, number, Some(inside), most);
            }
            if step.parts.is_empty() {
                self.pass(program, step, number, inside);
            }
            return;
        }
        let class = match (step.kind, is_hot) {
            (listing::Kind::Call, true) => "call hot",
            (listing::Kind::Call, false) => "call",
            (_, true) => "hot",
            (_, false) => "",
        };
        let lines = step_lines(listing, step);
        let turn = program.turn(number);
        let vertex = self.add(Kind::Function, class, lines, about, frame, turn);
        for read in &step.reads {
            self.connect(read, program, vertex, number);
        }
        let made = step.results.iter();
        (program.makers).extend(made.map(|&value| (value, (number, vertex))));
    }

    /// Adds the operations of a pass.
    fn pass(&mut self, program: &mut Drawn<'_>, step: &Step, number: usize, frame: usize) {
        let listing = &program.shown.listing;
        let mut made: Vec<usize> = Vec::with_capacity(step.operations.len());
        for operation in &step.operations {
            let origin = &operation.origin;
            let mut lines = vec![shortened(origin.operation, LETTERS)];
            let mut about = vec![
                ("operation", origin.operation.to_owned()),
                ("function", origin.function.to_owned()),
                ("called at", line(origin.location)),
            ];
            let numbers = operation.sources.iter().filter_map(|source| match source {
                Source::Number(number) => Some(number.as_str()),
                Source::Read(_) | Source::Operation(_) => None,
            });
            let numbers = numbers.collect::<Vec<_>>().join(", ");
            if !numbers.is_empty() {
                about.push(("with", numbers));
            }
            if let Some(value) = operation.result {
                lines.push(listing.values[value].to_string());
                about.push(("writes", value_text(listing, value)));
            }
            let turn = program.turn(number);
            let vertex = self.add(Kind::Function, "", lines, about, Some(frame), turn);
            for source in &operation.sources {
                match source {
                    Source::Read(i) => self.connect(&step.reads[*i], program, vertex, number),
                    Source::Operation(i) => self.edges.push((made[*i], vertex)),
                    Source::Number(_) => {}
                }
            }
            made.push(vertex);
        }
        let results = step.operations.iter().zip(made);
        let results = results.filter_map(|(operation, vertex)| {
            let value = operation.result?;
            Some((value, (number, vertex)))
        });
        program.makers.extend(results);
    }

    /// Connects what is read with its reader in the step of this number.
    fn connect(&mut self, read: &Read, program: &mut Drawn<'_>, reader: usize, number: usize) {
        let Shown {
            listing, inputs, ..
        } = program.shown;
        let is_small = listing.steps.len() <= SMALL;
        let maker = match read {
            Read::Number(_) => return,
            // Each is a vertex of its own.
            Read::Constant(dtype, shape) => {
                let value = Value {
                    dtype: *dtype,
                    shape: shape.clone(),
                    bytes: shape.size() * dtype.size(),
                };
                let about = [("constant", "known when the function was traced".to_owned())];
                self.datum("constant", "", &value, &about, program.frame)
            }
            Read::Value(value) | Read::View(value, _) => match program.makers.get(value) {
                Some(&(step, vertex)) if is_small || number - step <= NEAR => vertex,
                maker => {
                    let (class, name, about) = match maker {
                        Some((step, _)) => {
                            let name = format!("from step {}", step + 1);
                            let by = &listing.steps[*step];
                            ("remote", name, ("made by", title(by)))
                        }
                        None => {
                            let i = listing.inputs.iter().position(|input| input == value);
                            let name = i.map(|i| inputs[i].clone()).unwrap_or_default();
                            ("leaf", name.clone(), ("input", name))
                        }
                    };
                    let key = (*value, (!is_small).then_some(number));
                    match program.beside.get(&key) {
                        Some(&vertex) => vertex,
                        None => {
                            let (spec, frame) = (&listing.values[*value], program.frame);
                            let vertex = self.datum(class, &name, spec, &[about], frame);
                            let turn = maker.map_or(0, |(step, _)| program.turn(*step));
                            self.vertices[vertex].generation = turn;
                            program.beside.insert(key, vertex);
                            vertex
                        }
                    }
                }
            },
        };
        if !self.edges.contains(&(maker, reader)) {
            self.edges.push((maker, reader));
        }
    }

    fn datum(
        &mut self,
        class: &str,
        name: &str,
        value: &Value,
        about: &[(&'static str, String)],
        frame: Option<usize>,
    ) -> usize {
        let mut lines = vec![shortened(name, LETTERS), value.to_string()];
        lines.retain(|line| !line.is_empty());
        let mut about: Vec<(&'static str, String)> = about.to_vec();
        about.push(("shape", value.shape.to_string()));
        about.push(("dtype", value.dtype.to_string()));
        about.push(("bytes", grouped(value.bytes)));
        self.add(Kind::Datum, class, lines, about, frame, 0)
    }

    fn add(
        &mut self,
        kind: Kind,
        class: &str,
        lines: Vec<String>,
        about: Vec<(&'static str, String)>,
        frame: Option<usize>,
        generation: u64,
    ) -> usize {
        let number = self.vertices.len();
        self.vertices.push(Vertex {
            id: format!("v{number}"),
            kind,
            class: class.to_owned(),
            lines,
            frame,
            generation,
            about,
            values: Vec::new(),
        });
        number
    }
}

/// The number of operations of the largest pass that is drawn open, so that there are not too many.
fn largest_pass(steps: &[Step], operations: usize) -> usize {
    let mut sizes: Vec<usize> = steps.iter().map(weight).collect();
    sizes.sort_unstable();
    let mut sum = 0;
    let fitting = sizes.into_iter().take_while(|size| {
        sum += size;
        sum <= operations
    });
    fitting.last().unwrap_or(0)
}

/// The number of operations of a step, with those of its parts.
fn weight(step: &Step) -> usize {
    let parts = step.parts.iter().map(weight);
    step.operations.len() + parts.sum::<usize>()
}

/// The calls that the operations of a step and of its parts come from.
fn origins(step: &Step) -> Vec<&Origin> {
    let own = step.operations.iter().map(|operation| &operation.origin);
    own.chain(step.parts.iter().flat_map(origins)).collect()
}

/// The distinct functions of a step, in the order of their calls.
fn functions(step: &Step) -> String {
    let mut names: Vec<&str> = Vec::new();
    for origin in origins(step) {
        if !names.contains(&origin.function) {
            names.push(origin.function);
        }
    }
    names.join(", ")
}

/// The number of what is inside of a step.
fn content(step: &Step) -> String {
    match step.kind {
        listing::Kind::Rows => counted(step.parts.len(), "step by rows", "steps by rows"),
        listing::Kind::Pass | listing::Kind::Call => {
            counted(step.operations.len(), "operation", "operations")
        }
    }
}

fn traffic(step: &Step) -> String {
    format!("{} → {}", bytes(step.bytes_read), bytes(step.bytes_written))
}

/// A number of bytes in three digits.
fn bytes(count: usize) -> String {
    let mut count = count as f64;
    if count < 1e4 {
        return format!("{count} B");
    }
    for unit in ["kB", "MB", "GB"] {
        count /= 1e3;
        if count < 1e3 || unit == "GB" {
            let digits = if count < 100.0 { 1 } else { 0 };
            return format!("{count:.digits$} {unit}");
        }
    }
    unreachable!("the last unit takes all")
}

/// The part of the profiled time that a step took.
fn share(listing: &Listing, number: usize) -> Option<f64> {
    let whole: f64 = listing.times.iter().map(|time| time.as_secs_f64()).sum();
    let time = listing.times.get(number)?.as_secs_f64();
    (whole > 0.0).then(|| time / whole)
}

fn value_text(listing: &Listing, value: usize) -> String {
    format!("%{value} {}", listing.values[value])
}

fn about_step(
    listing: &Listing,
    step: &Step,
    number: usize,
    is_part: bool,
) -> Vec<(&'static str, String)> {
    let kind = match step.kind {
        listing::Kind::Pass => "pass",
        listing::Kind::Call => "call",
        listing::Kind::Rows => "rows",
    };
    let reads = step.reads.iter().map(|read| match read {
        Read::Value(value) => value_text(listing, *value),
        Read::View(value, shape) => format!("{} as {shape}", value_text(listing, *value)),
        Read::Number(_) | Read::Constant(..) => read.to_string(),
    });
    let results = step.results.iter();
    let results = results.map(|&value| value_text(listing, value));
    let mut about = vec![
        (kind, step.name.clone()),
        ("step", format!("{} of {}", number + 1, listing.steps.len())),
        (
            "reads",
            shortened(&reads.collect::<Vec<_>>().join(", "), 300),
        ),
        ("bytes in", grouped(step.bytes_read)),
        (
            "writes",
            shortened(&results.collect::<Vec<_>>().join(", "), 300),
        ),
        ("bytes out", grouped(step.bytes_written)),
    ];
    if let (Some(time), Some(share), false) =
        (listing.times.get(number), share(listing, number), is_part)
    {
        let (time, share) = (time.as_secs_f64() * 1e6, 100.0 * share);
        about.push(("time", format!("{time:.1} µs, {share:.1}% of the run")));
    }
    let mut lines: Vec<String> = Vec::new();
    for origin in origins(step) {
        let Origin {
            function, location, ..
        } = origin;
        let text = format!("{function} at {}", line(location));
        if !lines.contains(&text) {
            lines.push(text);
        }
    }
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    about.extend(lines.into_iter().map(|line| ("computes", line)));
    if more > 0 {
        about.push(("computes", format!("{more} more")));
    }
    about
}

/// The operation of a step, or the functions of its pass.
fn title(step: &Step) -> String {
    match step.kind {
        listing::Kind::Pass | listing::Kind::Rows => functions(step),
        listing::Kind::Call => step.name.clone(),
    }
}

/// The lines in the box of a step.
fn step_lines(listing: &Listing, step: &Step) -> Vec<String> {
    let mut lines = vec![title(step)];
    if let [operation] = &step.operations[..]
        && operation.origin.function != lines[0]
    {
        lines.push(format!("of {}", operation.origin.function));
    }
    let results = step.results.iter();
    let results = results.map(|&value| listing.values[value].to_string());
    lines.push(results.collect::<Vec<_>>().join(", "));
    if weight(step) > 1 {
        lines.push(content(step));
    }
    lines.push(traffic(step));
    lines.retain(|line| !line.is_empty());
    lines.iter().map(|line| shortened(line, LETTERS)).collect()
}

fn removed(listing: &Listing) -> String {
    format!(
        "{} computed before, {} that no result needs",
        counted(listing.repeated.len(), "call", "calls"),
        counted(listing.unneeded.len(), "call", "calls")
    )
}
