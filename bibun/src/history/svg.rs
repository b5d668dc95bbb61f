//! History as a picture.

use std::fmt::Write;

use super::layout::{PADDING, Point};
use super::picture::{LETTERS, Picture, Vertex, shortened};
use super::{History, line};

pub(super) const STYLE: &str = include_str!("picture.css");
pub(super) const STYLE_DARK: &str = include_str!("picture_dark.css");

/// The use of a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The picture is viewed by itself.
    Alone,
    /// The picture is moved by the page's script, which reads all it needs from the elements.
    InPage,
}

impl History {
    /// Returns the picture as SVG, with data above and results below. Functions are boxes, Variables
    /// have round ends (leaves are coloured, constants dashed, outputs have a strong border), and
    /// links and [unfolded](History::unfolded) composite functions are frames. The colours follow the
    /// viewer's dark mode. Pointing at a vertex shows more information about it.
    ///
    /// Requires the feature `pictures`.
    ///
    /// Of a history of more than 1,000 functions, the last ones are drawn, and one box for all
    /// earlier ones; fewer are drawn if very many edges are long. A thousand take about a tenth of a
    /// second.
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let x = Variable::new([1.0, 2.0]);
    /// let svg = history(&x.tanh()).svg();
    /// assert!(svg.starts_with("<svg") && svg.contains(">tanh</text>"));
    /// ```
    pub fn svg(&self) -> String {
        Picture::of(&self.shown()).svg(Use::Alone)
    }
}

impl Picture<'_> {
    pub(super) fn svg(&self, used: Use) -> String {
        let mut svg = String::new();
        self.draw(used, &mut svg)
            .expect("a String takes everything");
        svg
    }

    fn draw(&self, used: Use, svg: &mut String) -> std::fmt::Result {
        let (width, height) = (self.layout.width, self.layout.height);
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="history" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}">"#
        )?;
        if used == Use::Alone {
            writeln!(
                svg,
                "<style>\n{STYLE}@media (prefers-color-scheme: dark) {{\n{STYLE_DARK}}}\n</style>"
            )?;
        }
        writeln!(
            svg,
            r#"<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto-start-reverse"><path class="tip" d="M0 1L10 5L0 9z"/></marker></defs>"#
        )?;
        writeln!(svg, r#"<g id="scene">"#)?;
        let mut sizes = vec![0; self.layout.frames.len()];
        for call in &self.history.calls {
            for frame in self.history.enclosing(call.frame) {
                sizes[frame] += 1;
            }
        }
        for (frame, size) in sizes.into_iter().enumerate() {
            self.draw_frame(frame, size, used, svg)?;
        }
        for edge in 0..self.edges.len() {
            self.draw_edge(edge, used, svg)?;
        }
        for vertex in 0..self.vertices.len() {
            self.draw_vertex(vertex, used, svg)?;
        }
        writeln!(svg, "</g>\n</svg>")
    }

    fn draw_frame(&self, at: usize, size: usize, used: Use, svg: &mut String) -> std::fmt::Result {
        let (frame, Some(place)) = (&self.history.frames[at], self.layout.frames[at]) else {
            return Ok(());
        };
        let path = xml(&frame.name);
        let (x, anchor) = match self.layout.named_right[at] {
            true => (place.right - PADDING, "end"),
            false => (place.left + PADDING, "start"),
        };
        let class = match frame.is_function() {
            true => "link composite",
            false => "link",
        };
        write!(svg, r#"<g class="{class}" id="l{at}""#)?;
        if used == Use::InPage {
            write!(
                svg,
                r#" data-path="{path}" data-count="{size}" data-anchor="{anchor}" data-left="{:.1}" data-top="{:.1}" data-right="{:.1}" data-bottom="{:.1}""#,
                place.left, place.top, place.right, place.bottom
            )?;
            if let Some(parent) = frame.parent {
                write!(svg, r#" data-link="l{parent}""#)?;
            }
            if let Some(called) = frame.location {
                let is_folded = !self.history.is_unfolded;
                let called = xml(&line(called));
                write!(svg, r#" data-place="{called}" data-folded="{is_folded}""#)?;
            }
        }
        let (width, height, y) = (place.width(), place.height(), place.top + PADDING);
        let text = xml(&shortened(&frame.name, LETTERS));
        writeln!(
            svg,
            r#"><rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}" rx="10"/><text x="{x:.1}" y="{y:.1}" style="text-anchor:{anchor}">{text}</text></g>"#,
            place.left, place.top
        )
    }

    fn draw_edge(&self, at: usize, used: Use, svg: &mut String) -> std::fmt::Result {
        let (from, to) = self.edges[at];
        let points = &self.layout.edges[at];
        write!(svg, r#"<path class="edge" d="{}""#, curve(points))?;
        if used == Use::InPage {
            let (from, to) = (self.vertices[from], self.vertices[to]);
            let list: Vec<String> = (points.iter())
                .map(|point| format!("{:.1},{:.1}", point.x, point.y))
                .collect();
            write!(
                svg,
                r#" data-from="{}" data-to="{}" data-points="{}""#,
                id(from),
                id(to),
                list.join(" ")
            )?;
        }
        writeln!(svg, "/>")
    }

    fn draw_vertex(&self, at: usize, used: Use, svg: &mut String) -> std::fmt::Result {
        let (vertex, place) = (self.vertices[at], self.layout.vertices[at]);
        let lines = self.lines(vertex);
        let (width, height, Point { x, y }) = (place.width(), place.height(), place.center());
        let class = match vertex {
            Vertex::Call(_) => "function".to_owned(),
            Vertex::Earlier(_) => "earlier".to_owned(),
            Vertex::Datum(datum) => {
                let is_output = self.history.outputs.contains(&datum);
                let output = if is_output { " output" } else { "" };
                format!("datum {}{output}", self.history.data[datum].kind())
            }
        };
        write!(
            svg,
            r#"<g class="vertex {class}" id="{}" transform="translate({x:.1} {y:.1})""#,
            id(vertex)
        )?;
        let mut about = self.about(vertex);
        if used == Use::InPage {
            let link = match vertex {
                Vertex::Call(call) => self.history.calls[call].frame,
                Vertex::Datum(datum) => self.history.data[datum].frame,
                Vertex::Earlier(_) => None,
            };
            let generation = self.generation(vertex);
            write!(
                svg,
                r#" tabindex="0" data-x="{x:.1}" data-y="{y:.1}" data-width="{width:.1}" data-height="{height:.1}" data-generation="{generation}""#
            )?;
            if let Some(link) = link {
                write!(svg, r#" data-link="l{link}""#)?;
            }
            for (what, full, short) in self.values(vertex) {
                if let Some(short) = short {
                    write!(svg, r#" data-{what}="{}""#, xml(&short))?;
                }
                about.push((what, full));
            }
            let about: Vec<String> = (about.iter())
                .map(|(what, text)| format!("{what}: {text}"))
                .collect();
            let about = xml(&about.join("\n"));
            write!(svg, r#" aria-label="{about}""#)?;
        }
        write!(svg, ">")?;
        if used == Use::Alone {
            let about: Vec<String> = (about.iter())
                .map(|(what, text)| format!("{what}: {text}"))
                .collect();
            write!(svg, "<title>{}</title>", xml(&about.join("\n")))?;
        }
        let round = match vertex {
            Vertex::Call(_) | Vertex::Earlier(_) => 6.0,
            Vertex::Datum(_) => height.min(34.0) / 2.0,
        };
        write!(
            svg,
            r#"<rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}" rx="{round:.1}"/>"#,
            -width / 2.0,
            -height / 2.0
        )?;
        for (i, line) in lines.iter().enumerate() {
            let y = 15.0 * (i as f64 - (lines.len() as f64 - 1.0) / 2.0);
            let class = match vertex {
                Vertex::Datum(_) if i + 1 == lines.len() => r#" class="shape""#,
                Vertex::Datum(_) => r#" class="name""#,
                Vertex::Call(_) | Vertex::Earlier(_) => "",
            };
            write!(svg, r#"<text y="{y:.1}"{class}>{}</text>"#, xml(line))?;
        }
        writeln!(svg, "</g>")
    }
}

/// Returns the id of a vertex's element.
fn id(vertex: Vertex) -> String {
    match vertex {
        Vertex::Call(call) => format!("f{call}"),
        Vertex::Datum(datum) => format!("d{datum}"),
        Vertex::Earlier(_) => "earlier".to_owned(),
    }
}

/// Returns a line through the points that is vertical at each of them.
fn curve(points: &[Point]) -> String {
    let mut curve = format!("M{:.1} {:.1}", points[0].x, points[0].y);
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let middle = (from.y + to.y) / 2.0;
        curve += &match from.x == to.x {
            true => format!("V{:.1}", to.y),
            false => format!(
                "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
                from.x, to.x, to.x, to.y
            ),
        };
    }
    curve
}

/// Escapes text for use in XML, in attributes, too. Characters that XML cannot hold are replaced.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
