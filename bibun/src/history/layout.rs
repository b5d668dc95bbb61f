//! The layout of the vertices and edges of a picture.
//!
//! Layers go from top to bottom, after Sugiyama: the crate `rust_sugiyama` finds the layers and the
//! columns. Each link is laid out by itself and is then one vertex of the frame around it, so that
//! its frame contains nothing else. Edges cannot cross a box: they go straight down through a layer,
//! in a column of their own, and sideways only between two layers.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use rust_sugiyama::configure::Config;
use rustc_hash::FxHashMap;

/// The space between neighbours in a layer.
const BESIDE: f64 = 22.0;
/// The space between layers: the minimum, and the maximum where edges go far to the side.
const BETWEEN: (f64, f64) = (40.0, 84.0);
/// The space between a frame and its content: at the top (for its name), and elsewhere.
pub(super) const HEADER: f64 = 30.0;
pub(super) const PADDING: f64 = 14.0;
/// The space around the picture.
const MARGIN: f64 = 20.0;
/// The limit of the number of bends. More would take minutes.
const BENDS: usize = 20_000;

/// The parts to be laid out.
pub(super) struct Sketch {
    pub(super) vertices: Vec<Part>,
    pub(super) frames: Vec<Part>,
    pub(super) edges: Vec<(usize, usize)>,
}

/// A part with a size, in a frame or outside all of them. For a frame the width is the minimum.
/// Frames come before those inside them.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) frame: Option<usize>,
}

/// The positions of all parts.
pub(super) struct Layout {
    pub(super) vertices: Vec<Rectangle>,
    /// `None` for a frame with no content.
    pub(super) frames: Vec<Option<Rectangle>>,
    /// Whether a frame's name is better placed on its right side, out of the way of edges.
    pub(super) named_right: Vec<bool>,
    /// The points of each edge. Between two points it goes straight down or up if they have the same
    /// x, and is bent otherwise.
    pub(super) edges: Vec<Vec<Point>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rectangle {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rectangle {
    pub(super) fn center(&self) -> Point {
        Point {
            x: (self.left + self.right) / 2.0,
            y: (self.top + self.bottom) / 2.0,
        }
    }

    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    fn moved(&self, by: Point) -> Self {
        Self {
            left: self.left + by.x,
            top: self.top + by.y,
            right: self.right + by.x,
            bottom: self.bottom + by.y,
        }
    }
}

/// A part of a frame's content at its own level. If edges of a vertex outside come in, or those of a
/// vertex inside go out, there is a door for that vertex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Item {
    DoorIn(usize),
    Vertex(usize),
    Frame(usize),
    DoorOut(usize),
}

/// The part of an edge within one frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Hop {
    from: Item,
    to: Item,
    /// The vertex where the edge begins. Edges with the same source share their path.
    source: usize,
}

/// Lays out the whole sketch. Returns `None` if the edges are too long for it to end soon.
pub(super) fn arrange(sketch: &Sketch) -> Option<Layout> {
    // The crate that finds the layers recurses once for each layer.
    const STACK: usize = 256 << 20;
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        match thread.spawn_scoped(scope, || arrange_on_this_stack(sketch)) {
            Ok(layout) => layout.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => arrange_on_this_stack(sketch),
        }
    })
}

fn arrange_on_this_stack(sketch: &Sketch) -> Option<Layout> {
    let whole = sketch.frames.len();
    let within = |frame: Option<usize>| frame.unwrap_or(whole);
    let mut items: Vec<Vec<Item>> = vec![Vec::new(); whole + 1];
    let mut hops: Vec<Vec<Hop>> = vec![Vec::new(); whole + 1];
    for (vertex, part) in sketch.vertices.iter().enumerate() {
        items[within(part.frame)].push(Item::Vertex(vertex));
    }
    let routes: Vec<Vec<(usize, Hop)>> = (sketch.edges.iter())
        .map(|&(from, to)| route(sketch, from, to))
        .collect();
    for &(frame, hop) in routes.iter().flatten() {
        hops[frame].push(hop);
    }
    // From the innermost frames outwards. The last one is the whole picture.
    let mut insides: Vec<Option<Inside>> = (0..=whole).map(|_| None).collect();
    let mut bends = BENDS;
    for frame in (0..whole).rev().chain([whole]) {
        let (mut items_here, hops) = (
            std::mem::take(&mut items[frame]),
            std::mem::take(&mut hops[frame]),
        );
        if items_here.is_empty() {
            continue;
        }
        for item in hops.iter().flat_map(|hop| [hop.from, hop.to]) {
            if matches!(item, Item::DoorIn(_) | Item::DoorOut(_)) {
                items_here.push(item);
            }
        }
        items_here.sort();
        items_here.dedup();
        let least = sketch.frames.get(frame).map_or(0.0, |part| part.width);
        let inside = Inside::arrange(sketch, &insides, items_here, hops, least, &mut bends)?;
        insides[frame] = Some(inside);
        if let Some(part) = sketch.frames.get(frame) {
            items[within(part.frame)].push(Item::Frame(frame));
        }
    }

    // From the outside inwards: the position of each frame in the picture.
    let mut layout = Layout {
        vertices: vec![Rectangle::default(); sketch.vertices.len()],
        frames: vec![None; whole],
        named_right: vec![false; whole],
        edges: Vec::with_capacity(routes.len()),
        width: 2.0 * MARGIN,
        height: 2.0 * MARGIN,
    };
    let mut origins = vec![Point::default(); whole + 1];
    origins[whole] = Point {
        x: MARGIN,
        y: MARGIN,
    };
    for frame in std::iter::once(whole).chain(0..whole) {
        let Some(inside) = &insides[frame] else {
            continue;
        };
        for (&item, rectangle) in &inside.places {
            let rectangle = rectangle.moved(origins[frame]);
            match item {
                Item::Vertex(vertex) => layout.vertices[vertex] = rectangle,
                Item::Frame(inner) => {
                    layout.frames[inner] = Some(rectangle);
                    origins[inner] = Point {
                        x: rectangle.left,
                        y: rectangle.top,
                    };
                }
                Item::DoorIn(_) | Item::DoorOut(_) => {}
            }
        }
        if frame < whole {
            layout.named_right[frame] = inside.named_right;
        } else {
            layout.width += inside.width;
            layout.height += inside.height;
        }
    }
    for route in &routes {
        let mut points: Vec<Point> = Vec::new();
        for &(frame, hop) in route {
            let inside = insides[frame].as_ref().expect("a frame with edges");
            for point in &inside.lines[&hop] {
                let point = Point {
                    x: point.x + origins[frame].x,
                    y: point.y + origins[frame].y,
                };
                // Where one part ends and the next begins, numbers may differ in the last digit.
                let is_new = |last: &Point| (last.x - point.x).hypot(last.y - point.y) > 1e-6;
                if points.last().is_none_or(is_new) {
                    points.push(point);
                }
            }
        }
        layout.edges.push(points);
    }
    Some(layout)
}

/// Returns the parts of an edge: out of the frames of its beginning, across, and into those of its
/// end.
fn route(sketch: &Sketch, from: usize, to: usize) -> Vec<(usize, Hop)> {
    let whole = sketch.frames.len();
    let enclosing = |vertex: usize| -> Vec<usize> {
        let innermost = sketch.vertices[vertex].frame;
        std::iter::successors(innermost, |&frame| sketch.frames[frame].frame).collect()
    };
    let (mut out_of, mut into) = (enclosing(from), enclosing(to));
    let mut shared = whole;
    while let (Some(a), Some(b)) = (out_of.last(), into.last())
        && a == b
    {
        shared = *a;
        out_of.pop();
        into.pop();
    }
    let mut route = Vec::new();
    let mut at = Item::Vertex(from);
    for frame in out_of {
        let (to, source) = (Item::DoorOut(from), from);
        route.push((
            frame,
            Hop {
                from: at,
                to,
                source,
            },
        ));
        at = Item::Frame(frame);
    }
    let mut frame = shared;
    for inner in into.into_iter().rev() {
        let (to, source) = (Item::Frame(inner), from);
        route.push((
            frame,
            Hop {
                from: at,
                to,
                source,
            },
        ));
        at = Item::DoorIn(from);
        frame = inner;
    }
    let (to, source) = (Item::Vertex(to), from);
    route.push((
        frame,
        Hop {
            from: at,
            to,
            source,
        },
    ));
    route
}

/// The content of a frame, in coordinates relative to its upper left corner.
struct Inside {
    width: f64,
    height: f64,
    named_right: bool,
    places: BTreeMap<Item, Rectangle>,
    lines: FxHashMap<Hop, Vec<Point>>,
}

/// One step of a path, from a layer to the next. Numbers below the number of items are items; those
/// above are points where paths pass through a layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Step {
    from: usize,
    to: usize,
    source: usize,
}

impl Inside {
    fn arrange(
        sketch: &Sketch,
        insides: &[Option<Self>],
        items: Vec<Item>,
        hops: Vec<Hop>,
        least_width: f64,
        bends: &mut usize,
    ) -> Option<Self> {
        let numbers: FxHashMap<Item, usize> = items.iter().copied().zip(0..).collect();
        let mut widths = Vec::with_capacity(items.len());
        let mut heights = Vec::with_capacity(items.len());
        for &item in &items {
            let (width, height) = match item {
                Item::Vertex(vertex) => {
                    let part = sketch.vertices[vertex];
                    (part.width, part.height)
                }
                Item::Frame(frame) => {
                    let inside = insides[frame].as_ref().expect("inner frames come first");
                    (inside.width, inside.height)
                }
                Item::DoorIn(_) | Item::DoorOut(_) => (0.0, 0.0),
            };
            widths.push(width);
            heights.push(height);
        }
        let mut layers = layers(&items, &hops);

        // The paths through the layers between. Those of one source stay together as far as possible.
        let mut hops: Vec<Hop> = hops;
        hops.sort();
        hops.dedup();
        let mut passages: FxHashMap<(Item, usize), Vec<usize>> = FxHashMap::default();
        let mut ways: Vec<Vec<usize>> = Vec::with_capacity(hops.len());
        let mut steps: Vec<Step> = Vec::new();
        for hop in &hops {
            let (from, to) = (numbers[&hop.from], numbers[&hop.to]);
            let between = layers[to] - layers[from] - 1;
            let passed = passages.entry((hop.from, hop.source)).or_default();
            while passed.len() < between {
                *bends = bends.checked_sub(1)?;
                passed.push(layers.len());
                layers.push(layers[from] + passed.len());
                widths.push(0.0);
                heights.push(0.0);
            }
            let mut way = vec![from];
            way.extend(&passed[..between]);
            way.push(to);
            let source = hop.source;
            steps.extend(way.windows(2).map(|pair| Step {
                from: pair[0],
                to: pair[1],
                source,
            }));
            ways.push(way);
        }
        steps.sort();
        steps.dedup();
        let columns = columns(&widths, &steps);

        // The points where each path begins and ends at an item.
        let door = |item: Item, source: usize, door: fn(usize) -> Item| match item {
            Item::Frame(frame) => {
                let inside = insides[frame].as_ref().expect("inner frames come first");
                Some(inside.places[&door(source)].left - inside.width / 2.0)
            }
            _ => None,
        };
        let mut starts: FxHashMap<Step, f64> = FxHashMap::default();
        let mut ends: FxHashMap<Step, f64> = FxHashMap::default();
        spread(
            &steps,
            &columns,
            &widths,
            |step| (step.from, step.to),
            &mut starts,
        );
        spread(
            &steps,
            &columns,
            &widths,
            |step| (step.to, step.from),
            &mut ends,
        );
        for step in &steps {
            let item = |number: usize| items.get(number).copied();
            let at = |number: usize, x: Option<f64>| x.map(|x| columns[number] + x);
            let start = item(step.from).and_then(|item| door(item, step.source, Item::DoorOut));
            let end = item(step.to).and_then(|item| door(item, step.source, Item::DoorIn));
            starts.extend(at(step.from, start).map(|x| (*step, x)));
            ends.extend(at(step.to, end).map(|x| (*step, x)));
        }

        // The layers from top to bottom, further apart where edges go far to the side.
        let count = layers.iter().max().map_or(0, |last| last + 1);
        let mut tall = vec![0.0f64; count];
        let mut aside = vec![0.0f64; count];
        for (number, &layer) in layers.iter().enumerate() {
            tall[layer] = tall[layer].max(heights[number]);
        }
        for step in &steps {
            let far = (starts[step] - ends[step]).abs();
            let aside = &mut aside[layers[step.from]];
            *aside = aside.max(far);
        }
        let framed = least_width > 0.0;
        let doors_in = matches!(items.first(), Some(Item::DoorIn(_)));
        let doors_out = matches!(items.last(), Some(Item::DoorOut(_)));
        let mut tops = Vec::with_capacity(count);
        let mut height = if framed && !doors_in { HEADER } else { 0.0 };
        for layer in 0..count {
            tops.push(height);
            height += tall[layer];
            if layer + 1 < count {
                let space = (BETWEEN.0 + 0.1 * aside[layer]).min(BETWEEN.1);
                let space = match (layer, framed && doors_in) {
                    (0, true) => space.max(HEADER + 14.0),
                    _ => space,
                };
                height += space;
            }
        }
        if framed && !doors_out {
            height += PADDING;
        }

        // Centres the content in the frame.
        let edge = |side: f64| {
            let sides = columns.iter().zip(&widths);
            sides.map(move |(x, width)| x + side * width / 2.0)
        };
        let left = edge(-1.0).fold(f64::INFINITY, f64::min);
        let right = edge(1.0).fold(f64::NEG_INFINITY, f64::max);
        let padding = if framed { PADDING } else { 0.0 };
        let width = (right - left + 2.0 * padding).max(least_width);
        let shift = (width - left - right) / 2.0;

        // The name goes to a side where no edge comes in, if there is one.
        let name = least_width - HEADER;
        let crosses = |from: f64, to: f64| {
            let coming_in = steps
                .iter()
                .filter(|step| doors_in && layers[step.from] == 0);
            let mut spans = coming_in.map(|step| (starts[step] + shift, ends[step] + shift));
            spans.any(|(a, b)| a.min(b) < to && from < a.max(b))
        };
        let named_right = crosses(0.0, name) && !crosses(width - name, width);

        let bottom = |layer: usize| tops[layer] + tall[layer];
        let mut places = BTreeMap::new();
        for (number, &item) in items.iter().enumerate() {
            let (x, layer) = (columns[number] + shift, layers[number]);
            let y = (tops[layer] + bottom(layer)) / 2.0;
            places.insert(
                item,
                Rectangle {
                    left: x - widths[number] / 2.0,
                    top: y - heights[number] / 2.0,
                    right: x + widths[number] / 2.0,
                    bottom: y + heights[number] / 2.0,
                },
            );
        }
        let mut lines = FxHashMap::default();
        for (hop, way) in hops.into_iter().zip(ways) {
            let mut line = Vec::new();
            let (first, last) = (places[&hop.from], places[&hop.to]);
            for pair in way.windows(2) {
                let (from, to, source) = (pair[0], pair[1], hop.source);
                let step = Step { from, to, source };
                let (start, end) = (starts[&step] + shift, ends[&step] + shift);
                if line.is_empty() {
                    line.push(Point {
                        x: start,
                        y: first.bottom,
                    });
                }
                line.push(Point {
                    x: start,
                    y: bottom(layers[from]),
                });
                line.push(Point {
                    x: end,
                    y: tops[layers[to]],
                });
                if to == way[way.len() - 1] {
                    line.push(Point {
                        x: end,
                        y: last.top,
                    });
                }
            }
            line.dedup();
            lines.insert(hop, line);
        }
        Some(Self {
            width,
            height,
            named_right,
            places,
            lines,
        })
    }
}

/// Returns the layer of each item: doors outermost, all others so that edges are short.
fn layers(items: &[Item], hops: &[Hop]) -> Vec<usize> {
    let is_door = |item: &Item| matches!(item, Item::DoorIn(_) | Item::DoorOut(_));
    // The crate requires numbers without gaps.
    let inner: Vec<usize> = (0..items.len())
        .filter(|&number| !is_door(&items[number]))
        .collect();
    let compact: FxHashMap<Item, u32> = (inner.iter())
        .map(|&number| items[number])
        .zip(0..)
        .collect();
    let vertices: Vec<(u32, (f64, f64))> = (0..inner.len() as u32)
        .map(|number| (number, (1.0, 1.0)))
        .collect();
    let mut edges: Vec<(u32, u32)> = (hops.iter())
        .filter(|hop| !is_door(&hop.from) && !is_door(&hop.to))
        .map(|hop| (compact[&hop.from], compact[&hop.to]))
        .collect();
    edges.sort();
    edges.dedup();
    let config = Config {
        // Only the layers matter here. The columns are found with the real sizes.
        transpose: false,
        dummy_vertices: false,
        ..Config::default()
    };
    let first = usize::from(matches!(items.first(), Some(Item::DoorIn(_))));
    let mut layers = vec![0; items.len()];
    for (part, _, _) in rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config) {
        let mut heights: Vec<f64> = part.iter().map(|(_, (_, y))| *y).collect();
        heights.sort_by(f64::total_cmp);
        heights.dedup();
        for (number, (_, y)) in part {
            layers[inner[number]] = first + heights.partition_point(|height| *height < y);
        }
    }
    let last = 1 + layers.iter().max().copied().unwrap_or(0);
    for (item, layer) in items.iter().zip(&mut layers) {
        if let Item::DoorOut(_) = item {
            *layer = last;
        }
    }
    layers
}

/// Returns the centre of each item and passage. Unconnected parts are placed side by side.
fn columns(widths: &[f64], steps: &[Step]) -> Vec<f64> {
    let vertices: Vec<(u32, (f64, f64))> = (widths.iter().zip(0..))
        .map(|(&width, number)| (number, (width, 1.0)))
        .collect();
    let mut edges: Vec<(u32, u32)> = (steps.iter())
        .map(|step| (step.from as u32, step.to as u32))
        .collect();
    edges.dedup();
    let config = Config {
        vertex_spacing: BESIDE,
        dummy_vertices: false,
        ..Config::default()
    };
    let mut parts = rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config);
    parts.sort_by_key(|(part, _, _)| part.iter().map(|(number, _)| *number).min());
    let mut columns = vec![0.0; widths.len()];
    let mut right = 0.0;
    for (part, _, _) in parts {
        let lefts = part
            .iter()
            .map(|&(number, (x, _))| x - widths[number] / 2.0);
        let left = lefts.fold(f64::INFINITY, f64::min);
        let mut next = right;
        for (number, (x, _)) in part {
            columns[number] = right + x - left;
            next = f64::max(next, columns[number] + widths[number] / 2.0 + BESIDE);
        }
        right = next;
    }
    columns
}

/// Spreads the ends of edges along one side of each item, in the order of their other ends.
fn spread(
    steps: &[Step],
    columns: &[f64],
    widths: &[f64],
    ends: impl Fn(&Step) -> (usize, usize),
    at: &mut FxHashMap<Step, f64>,
) {
    let mut sides: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    for step in steps {
        sides.entry(ends(step).0).or_default().push(*step);
    }
    for (item, mut side) in sides {
        side.sort_by(|a, b| columns[ends(a).1].total_cmp(&columns[ends(b).1]));
        let count = side.len() as f64;
        for (i, step) in side.into_iter().enumerate() {
            let part = (i as f64 + 1.0) / (count + 1.0) - 0.5;
            at.insert(step, columns[item] + 0.8 * widths[item] * part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::Generator;

    /// Returns points on the curve between two points of an edge, as it is drawn.
    fn curve(from: Point, to: Point) -> impl Iterator<Item = Point> {
        (0..=40).map(move |i| {
            let t = f64::from(i) / 40.0;
            let (a, b, c, d) = (
                (1.0 - t).powi(3),
                3.0 * t * (1.0 - t).powi(2),
                3.0 * t * t * (1.0 - t),
                t.powi(3),
            );
            let middle = (from.y + to.y) / 2.0;
            Point {
                x: (a + b) * from.x + (c + d) * to.x,
                y: a * from.y + (b + c) * middle + d * to.y,
            }
        })
    }

    fn overlap(a: &Rectangle, b: &Rectangle) -> bool {
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
    }

    fn holds(outer: &Rectangle, inner: &Rectangle) -> bool {
        outer.left <= inner.left
            && outer.right >= inner.right
            && outer.top <= inner.top
            && outer.bottom >= inner.bottom
    }

    /// Returns a random graph whose vertices are grouped into frames on two levels.
    fn sketch(generator: &mut Generator) -> Sketch {
        let mut random = |below: i64| generator.integers(0, below, ()).item::<i64>() as usize;
        let count = 2 + random(30);
        let frames: Vec<Part> = (0..6)
            .map(|frame| Part {
                width: 90.0,
                height: 0.0,
                frame: (frame >= 2).then(|| (frame - 2) / 2),
            })
            .collect();
        let vertices: Vec<Part> = (0..count)
            .map(|vertex| Part {
                width: 40.0 + random(160) as f64,
                height: 20.0 + random(40) as f64,
                // Four groups in two frames, and some vertices beside them.
                frame: (random(6) > 0).then_some(2 + vertex * 4 / count),
            })
            .collect();
        let mut edges = Vec::new();
        for to in 1..count {
            for _ in 0..random(3) {
                edges.push((random(to as i64), to));
            }
        }
        // A vertex without a frame must not be between vertices of one.
        let free = |vertex: usize| vertices[vertex].frame.is_none();
        edges.retain(|&(from, to)| from != to && (!free(to) || free(from)));
        edges.sort();
        edges.dedup();
        Sketch {
            vertices,
            frames,
            edges,
        }
    }

    #[test]
    fn boxes_lie_apart_and_edges_keep_out_of_them() {
        let mut generator = Generator::new(3);
        for _ in 0..200 {
            let sketch = sketch(&mut generator);
            let layout = arrange(&sketch).expect("small");
            for (a, part) in layout.vertices.iter().zip(&sketch.vertices) {
                assert!((a.width() - part.width).abs() < 1e-9);
                assert!((a.height() - part.height).abs() < 1e-9);
                assert!(a.left >= 0.0 && a.right <= layout.width);
                assert!(a.top >= 0.0 && a.bottom <= layout.height);
            }
            for (i, a) in layout.vertices.iter().enumerate() {
                for b in &layout.vertices[..i] {
                    assert!(!overlap(a, b), "{a:?} {b:?}");
                }
                let inside = std::iter::successors(sketch.vertices[i].frame, |&frame| {
                    sketch.frames[frame].frame
                });
                let inside: Vec<usize> = inside.collect();
                for (frame, b) in layout.frames.iter().enumerate() {
                    let Some(b) = b else { continue };
                    let inside = inside.contains(&frame);
                    assert!(if inside { holds(b, a) } else { !overlap(a, b) });
                }
            }
            for (&(from, to), points) in sketch.edges.iter().zip(&layout.edges) {
                let (start, end) = (points[0], points[points.len() - 1]);
                assert!((start.y - layout.vertices[from].bottom).abs() < 1e-6);
                assert!((end.y - layout.vertices[to].top).abs() < 1e-6);
                for pair in points.windows(2) {
                    assert!(pair[0].y <= pair[1].y + 1e-6);
                    for point in curve(pair[0], pair[1]) {
                        for (vertex, a) in layout.vertices.iter().enumerate() {
                            let inside = a.left + 0.01 < point.x
                                && point.x < a.right - 0.01
                                && a.top + 0.01 < point.y
                                && point.y < a.bottom - 0.01;
                            assert!(!inside, "edge {from} to {to} crosses {vertex}: {point:?}");
                        }
                    }
                }
            }
        }
    }
}
