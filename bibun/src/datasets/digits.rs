//! Handwritten digits drawn at random by the program.
//!
//! A digit is a few strokes through given points. The points are jittered, rotated, slanted,
//! scaled, shifted and moved by an elastic field, and a pen of random width follows them. Source of
//! the elastic field: Simard, Steinkraus, Platt, "Best practices for convolutional neural networks
//! applied to visual document analysis", ICDAR 2003.

use std::ops::Range;

use bibun_array::{DType, Generator};

use super::LabeledImages;

const SIDE: usize = 28;
const SIZE: usize = SIDE * SIDE;
/// The number of random numbers for an image: two fields, and more than everything else needs.
const DRAWS: usize = 2 * SIZE + 128;

type Point = [f32; 2];

/// A movement of the pen through points `x, y, x, y, ...` of a square of side 100, y downwards.
enum Stroke {
    /// A smooth curve.
    Curve(&'static [u8]),
    /// A line with corners.
    Line(&'static [u8]),
}
use Stroke::{Curve, Line};

/// The ways in which people write each digit.
const FORMS: [&[&[Stroke]]; 10] = [
    &[
        &[Curve(&[
            55, 10, 30, 25, 22, 55, 35, 85, 55, 90, 75, 70, 78, 40, 68, 16, 50, 10,
        ])],
        &[Curve(&[
            50, 10, 36, 30, 34, 60, 45, 88, 58, 86, 66, 60, 64, 30, 50, 10,
        ])],
    ],
    &[
        &[Line(&[50, 10, 50, 90])],
        &[Line(&[32, 30, 52, 10, 52, 90])],
        &[Line(&[34, 28, 52, 10, 52, 90]), Line(&[30, 90, 74, 90])],
    ],
    &[
        &[
            Curve(&[25, 30, 35, 14, 55, 10, 72, 24, 68, 45, 45, 68, 22, 88]),
            Line(&[22, 88, 80, 88]),
        ],
        &[Curve(&[
            26, 26, 45, 10, 68, 20, 66, 45, 42, 75, 25, 88, 22, 76, 36, 76, 55, 88, 80, 85,
        ])],
    ],
    &[
        &[
            Curve(&[26, 20, 45, 10, 68, 18, 68, 36, 45, 47]),
            Curve(&[45, 47, 70, 55, 75, 74, 55, 90, 25, 82]),
        ],
        &[
            Line(&[26, 12, 72, 12, 46, 44]),
            Curve(&[46, 44, 72, 52, 76, 72, 58, 90, 26, 84]),
        ],
    ],
    &[
        &[Line(&[32, 12, 24, 56, 78, 56]), Line(&[64, 20, 60, 92])],
        &[Line(&[62, 92, 62, 10, 20, 62, 82, 62])],
    ],
    &[
        &[
            Line(&[72, 12, 34, 12, 30, 45]),
            Curve(&[30, 45, 50, 40, 72, 52, 72, 76, 50, 90, 24, 82]),
        ],
        &[Curve(&[
            72, 14, 42, 14, 32, 38, 55, 46, 72, 62, 60, 86, 26, 86,
        ])],
    ],
    &[
        &[Curve(&[
            66, 12, 42, 30, 28, 58, 34, 84, 56, 90, 74, 72, 62, 54, 40, 56, 29, 70,
        ])],
        &[Curve(&[
            56, 8, 36, 40, 28, 70, 42, 90, 64, 86, 70, 68, 54, 58, 34, 70,
        ])],
    ],
    &[
        &[Line(&[24, 14, 76, 14, 44, 90])],
        &[Line(&[24, 14, 76, 14, 44, 90]), Line(&[38, 50, 72, 50])],
        &[Curve(&[22, 26, 26, 15, 50, 17, 74, 14, 54, 48, 44, 90])],
    ],
    &[
        &[Curve(&[
            68, 20, 48, 10, 30, 22, 42, 42, 66, 58, 72, 78, 50, 90, 28, 78, 34, 58, 60, 42, 70, 24,
            60, 12,
        ])],
        &[
            Curve(&[50, 10, 32, 20, 34, 40, 50, 47, 67, 38, 67, 20, 50, 10]),
            Curve(&[50, 47, 26, 60, 28, 82, 50, 90, 73, 80, 72, 58, 50, 47]),
        ],
    ],
    &[
        &[
            Curve(&[70, 28, 52, 10, 30, 22, 32, 44, 54, 48, 70, 28]),
            Line(&[70, 28, 66, 90]),
        ],
        &[
            Curve(&[70, 26, 52, 10, 30, 22, 32, 44, 54, 46, 70, 26]),
            Curve(&[70, 26, 72, 55, 60, 85, 34, 88]),
        ],
    ],
];

/// An endless supply of handwritten digits, 28 by 28 pixels, drawn by the program itself.
///
/// Image `i` of a seed is always the same, on every machine, whatever else is drawn.
///
/// ```
/// use bibun::datasets::Digits;
/// let digits = Digits::new(0);
/// let train = digits.images(0..200);
/// let test = digits.images(200..250);
/// assert_eq!(train.pixels(7), digits.images(7..8).pixels(0));
/// assert_ne!(train.pixels(0), test.pixels(0));
/// ```
#[derive(Clone, Debug)]
pub struct Digits {
    generator: Generator,
}

impl Digits {
    /// Creates the digits of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            generator: Generator::new(seed),
        }
    }

    /// Returns the images with these indices. Their classes are random, all equally likely.
    pub fn images(&self, indices: Range<u64>) -> LabeledImages {
        let mut images = LabeledImages {
            height: SIDE,
            width: SIDE,
            pixels: Vec::new(),
            labels: Vec::new(),
        };
        for index in indices {
            let (pixels, label) = draw(&mut self.generator.split(index));
            images.pixels.extend(pixels);
            images.labels.push(label);
        }
        images
    }
}

/// Random numbers that are taken one by one.
struct Hand {
    numbers: std::vec::IntoIter<f32>,
}

impl Hand {
    /// Returns a number between two others.
    fn between(&mut self, low: f32, high: f32) -> f32 {
        let u = self
            .numbers
            .next()
            .expect("DRAWS are enough for every form");
        low + (high - low) * u
    }

    /// Returns a whole number below `count`.
    fn below(&mut self, count: usize) -> usize {
        (self.between(0.0, count as f32) as usize).min(count - 1)
    }
}

/// Draws an image and returns it with its class.
fn draw(generator: &mut Generator) -> ([u8; SIZE], u8) {
    let mut hand = Hand {
        numbers: generator
            .uniform(DRAWS, 0.0, 1.0, DType::F32)
            .to_vec::<f32>()
            .into_iter(),
    };
    let class = hand.below(FORMS.len());
    let forms = FORMS[class];
    let form = forms[hand.below(forms.len())];
    let slope = Slope::new(&mut hand);
    let bend = Bend::new(&mut hand);
    let radius = hand.between(0.6, 1.7);
    let ink = hand.between(170.0, 255.0);

    let mut coverage = [0.0f32; SIZE];
    for stroke in form {
        let path: Vec<Point> = path(stroke, &mut hand)
            .into_iter()
            .map(|point| bend.apply(slope.apply(point)))
            .collect();
        for ends in path.windows(2) {
            add_segment(&mut coverage, ends[0], ends[1], radius);
        }
    }
    (coverage.map(|part| (part * ink).round() as u8), class as u8)
}

/// Returns the path of the pen in the unit square, with the points jittered.
fn path(stroke: &Stroke, hand: &mut Hand) -> Vec<Point> {
    let (Curve(points) | Line(points)) = stroke;
    let points: Vec<Point> = points
        .as_chunks()
        .0
        .iter()
        .map(|point: &[u8; 2]| point.map(|x| f32::from(x) / 100.0 + hand.between(-0.045, 0.045)))
        .collect();
    match stroke {
        Line(_) => subdivided(&points),
        Curve(_) => smooth(&points),
    }
}

/// The number of steps into which the segment between two points is divided, so that fields can
/// bend it.
const STEPS: usize = 6;

fn subdivided(points: &[Point]) -> Vec<Point> {
    let mut path = vec![points[0]];
    for ends in points.windows(2) {
        let [a, b] = [ends[0], ends[1]];
        path.extend((1..=STEPS).map(|i| mix(a, b, i as f32 / STEPS as f32)));
    }
    path
}

/// Returns the Catmull-Rom spline through all points.
fn smooth(points: &[Point]) -> Vec<Point> {
    let last = points.len() - 1;
    let mut path = vec![points[0]];
    for i in 0..last {
        let [a, b] = [points[i], points[i + 1]];
        let [before, after] = [points[i.saturating_sub(1)], points[(i + 2).min(last)]];
        path.extend((1..=STEPS).map(|step| {
            let t = step as f32 / STEPS as f32;
            std::array::from_fn(|k| {
                let bend = 2.0 * before[k] - 5.0 * a[k] + 4.0 * b[k] - after[k];
                let twist = 3.0 * (a[k] - b[k]) + after[k] - before[k];
                a[k] + 0.5 * t * (b[k] - before[k] + t * (bend + t * twist))
            })
        }));
    }
    path
}

fn mix(a: Point, b: Point, t: f32) -> Point {
    std::array::from_fn(|k| a[k] + t * (b[k] - a[k]))
}

/// A transformation from the unit square to pixels: rotation, slant, scale and shift.
struct Slope {
    matrix: [Point; 2],
    center: Point,
}

impl Slope {
    fn new(hand: &mut Hand) -> Self {
        let width = hand.between(14.0, 24.0);
        let height = hand.between(18.0, 24.0);
        let slant = hand.between(-0.25, 0.45);
        // The tangent of half the angle gives sine and cosine without calling either function,
        // because their last digits differ between machines.
        let t = hand.between(-0.13, 0.13);
        let (cos, sin) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let middle = SIDE as f32 / 2.0;
        Self {
            matrix: [
                [cos * width, (-slant * cos - sin) * height],
                [sin * width, (-slant * sin + cos) * height],
            ],
            center: [(); 2].map(|()| middle + hand.between(-2.0, 2.0)),
        }
    }

    fn apply(&self, point: Point) -> Point {
        let [x, y] = point.map(|x| x - 0.5);
        std::array::from_fn(|k| self.center[k] + self.matrix[k][0] * x + self.matrix[k][1] * y)
    }
}

/// A smooth random displacement of every pixel, in x and in y.
struct Bend([[f32; SIZE]; 2]);

impl Bend {
    fn new(hand: &mut Hand) -> Self {
        let strength = hand.between(10.0, 50.0);
        Self([(); 2].map(|()| {
            let mut field = std::array::from_fn(|_| strength * hand.between(-1.0, 1.0));
            blur(&mut field);
            field
        }))
    }

    fn apply(&self, point: Point) -> Point {
        let [x, y] = point.map(|x| (x - 0.5).clamp(0.0, (SIDE - 1) as f32));
        let (column, row) = ((x as usize).min(SIDE - 2), (y as usize).min(SIDE - 2));
        let (right, down) = (x - column as f32, y - row as f32);
        let corner = row * SIDE + column;
        std::array::from_fn(|k| {
            let field = &self.0[k];
            let across = |i: usize| field[i] + right * (field[i + 1] - field[i]);
            point[k] + across(corner) + down * (across(corner + SIDE) - across(corner))
        })
    }
}

/// Averages three times over 9 pixels along each axis, which is nearly a Gaussian of width 4.5.
fn blur(field: &mut [f32; SIZE]) {
    for _ in 0..3 {
        for line in 0..SIDE {
            mean_along(field, line * SIDE, 1);
            mean_along(field, line, SIDE);
        }
    }
}

/// Replaces the elements of a line by the means of themselves and four neighbours on either side;
/// positions beyond the ends count as 0.
fn mean_along(field: &mut [f32; SIZE], start: usize, step: usize) {
    const REACH: usize = 4;
    let mut line = [0.0; SIDE + 2 * REACH];
    // PERF: plain loops, which are fast even in programs built with little optimisation.
    let mut i = 0;
    while i < SIDE {
        line[i + REACH] = field[start + i * step];
        i += 1;
    }
    i = 0;
    while i < SIDE {
        let mut sum = 0.0;
        let mut k = i;
        while k <= i + 2 * REACH {
            sum += line[k];
            k += 1;
        }
        field[start + i * step] = sum / (2 * REACH + 1) as f32;
        i += 1;
    }
}

/// Draws a segment of a stroke; where strokes overlap, the darker one is kept.
fn add_segment(coverage: &mut [f32; SIZE], a: Point, b: Point, radius: f32) {
    let reach = radius + 1.0;
    let [columns, rows] = [0, 1].map(|k| {
        let low = (a[k].min(b[k]) - reach).max(0.0) as usize;
        let high = (a[k].max(b[k]) + reach).clamp(0.0, SIDE as f32) as usize;
        low.min(high)..high
    });
    let along = [b[0] - a[0], b[1] - a[1]];
    let length_squared = (along[0] * along[0] + along[1] * along[1]).max(1e-12);
    let (mut row, mut column) = (rows.start, columns.start);
    while row < rows.end {
        while column < columns.end {
            let from_a = [column as f32 + 0.5 - a[0], row as f32 + 0.5 - a[1]];
            let t = (from_a[0] * along[0] + from_a[1] * along[1]) / length_squared;
            let t = t.clamp(0.0, 1.0);
            let off = [from_a[0] - t * along[0], from_a[1] - t * along[1]];
            let distance = (off[0] * off[0] + off[1] * off[1]).sqrt();
            let covered = (radius + 0.5 - distance).clamp(0.0, 1.0);
            let pixel = &mut coverage[row * SIDE + column];
            *pixel = pixel.max(covered);
            column += 1;
        }
        (row, column) = (row + 1, columns.start);
    }
}
