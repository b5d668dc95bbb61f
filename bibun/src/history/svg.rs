//! History as a picture.

use std::fmt::Write;

use super::History;
use super::layout::{PADDING, Point};
use super::picture::{Kind, LETTERS, Picture, shortened};

pub(crate) const STYLE: &str = include_str!("picture.css");
pub(crate) const STYLE_DARK: &str = include_str!("picture_dark.css");

/// The use of a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
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
        self.shown().picture(Use::Alone).svg(Use::Alone)
    }
}

impl Picture {
    pub(crate) fn svg(&self, used: Use) -> String {
        let mut svg = String::new();
        self.draw(used, &mut svg)
            .expect("a String takes everything");
        svg
    }

    fn draw(&self, used: Use, svg: &mut String) -> std::fmt::Result {
        let (width, height, class) = (self.layout.width, self.layout.height, self.class);
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="{class}" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}">"#
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
        for frame in 0..self.frames.len() {
            self.draw_frame(frame, used, svg)?;
        }
        for edge in 0..self.edges.len() {
            self.draw_edge(edge, used, svg)?;
        }
        for vertex in 0..self.vertices.len() {
            self.draw_vertex(vertex, used, svg)?;
        }
        writeln!(svg, "</g>\n</svg>")
    }

    fn draw_frame(&self, at: usize, used: Use, svg: &mut String) -> std::fmt::Result {
        let (frame, Some(place)) = (&self.frames[at], self.layout.frames[at]) else {
            return Ok(());
        };
        let path = xml(&frame.name);
        let (x, anchor) = match self.layout.named_right[at] {
            true => (place.right - PADDING, "end"),
            false => (place.left + PADDING, "start"),
        };
        let class = format!("link {}", frame.class);
        write!(svg, r#"<g class="{}" id="l{at}""#, class.trim_end())?;
        if used == Use::InPage {
            let count = frame.count;
            let about = xml(&listed(&frame.about));
            write!(
                svg,
                r#" data-path="{path}" data-count="{count}" data-about="{about}" data-anchor="{anchor}" data-folded="{}" data-left="{:.1}" data-top="{:.1}" data-right="{:.1}" data-bottom="{:.1}""#,
                frame.is_folded, place.left, place.top, place.right, place.bottom
            )?;
            if let Some(parent) = frame.parent {
                write!(svg, r#" data-link="l{parent}""#)?;
            }
            if let Some(note) = &frame.note {
                write!(svg, r#" data-note="{}""#, xml(note))?;
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
            let (from, to) = (&self.vertices[from], &self.vertices[to]);
            let list: Vec<String> = (points.iter())
                .map(|point| format!("{:.1},{:.1}", point.x, point.y))
                .collect();
            write!(
                svg,
                r#" data-from="{}" data-to="{}" data-points="{}""#,
                from.id,
                to.id,
                list.join(" ")
            )?;
        }
        writeln!(svg, "/>")
    }

    fn draw_vertex(&self, at: usize, used: Use, svg: &mut String) -> std::fmt::Result {
        let (vertex, place) = (&self.vertices[at], self.layout.vertices[at]);
        let (width, height, Point { x, y }) = (place.width(), place.height(), place.center());
        let class = format!("vertex {} {}", vertex.kind.class(), vertex.class);
        write!(
            svg,
            r#"<g class="{}" id="{}" transform="translate({x:.1} {y:.1})""#,
            class.trim_end(),
            vertex.id
        )?;
        let about = xml(&listed(&vertex.about));
        match used {
            Use::InPage => {
                let generation = vertex.generation;
                write!(
                    svg,
                    r#" tabindex="0" data-x="{x:.1}" data-y="{y:.1}" data-width="{width:.1}" data-height="{height:.1}" data-generation="{generation}""#
                )?;
                if let Some(frame) = vertex.frame {
                    write!(svg, r#" data-link="l{frame}""#)?;
                }
                for (what, value) in &vertex.values {
                    write!(svg, r#" data-{what}="{}""#, xml(value))?;
                }
                write!(svg, r#" aria-label="{about}">"#)?;
            }
            Use::Alone => write!(svg, "><title>{about}</title>")?,
        }
        let round = match vertex.kind {
            Kind::Function | Kind::Earlier => 6.0,
            Kind::Datum => height.min(34.0) / 2.0,
        };
        write!(
            svg,
            r#"<rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}" rx="{round:.1}"/>"#,
            -width / 2.0,
            -height / 2.0
        )?;
        let count = vertex.lines.len();
        for (i, line) in vertex.lines.iter().enumerate() {
            let y = 15.0 * (i as f64 - (count as f64 - 1.0) / 2.0);
            let class = match vertex.kind {
                Kind::Datum if i + 1 == count => r#" class="shape""#,
                Kind::Datum => r#" class="name""#,
                Kind::Function if i > 0 => r#" class="note""#,
                Kind::Function | Kind::Earlier => "",
            };
            write!(svg, r#"<text y="{y:.1}"{class}>{}</text>"#, xml(line))?;
        }
        writeln!(svg, "</g>")
    }
}

/// Returns labels and texts, one pair in each line.
fn listed(about: &[(&'static str, String)]) -> String {
    let lines: Vec<String> = (about.iter())
        .map(|(what, text)| format!("{what}: {text}"))
        .collect();
    lines.join("\n")
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
