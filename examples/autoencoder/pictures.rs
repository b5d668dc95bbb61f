//! Pictures of what an autoencoder has found.

use std::fs;
use std::path::Path;

use bibun::array::Array;
use bibun::datasets::LabeledImages;
use bibun::training::BoxError;
use bibun::{Variable, eval_mode, no_grad};
use image::imageops::{self, FilterType};
use image::{GrayImage, Luma, Rgb, RgbImage};

use crate::{Autoencoder, upright};

/// Images that are not learned from, and what is drawn of them.
#[derive(Clone)]
pub(crate) struct Pictures {
    images: Array,
    classes: Vec<usize>,
}

type Place = [f64; 2];

/// The side of an image.
const SIDE: u32 = 28;
/// Half the side of the map in standard deviations: nearly all codes lie within.
const REACH: f64 = 3.4;
/// A colour for each class.
const COLOURS: [[u8; 3]; 10] = [
    [214, 64, 58],
    [40, 116, 196],
    [236, 151, 31],
    [42, 145, 80],
    [134, 80, 176],
    [121, 85, 62],
    [222, 98, 172],
    [92, 100, 112],
    [150, 163, 22],
    [22, 163, 176],
];

impl Pictures {
    /// Of the first images of some, no more than 2000.
    pub(crate) fn of(images: &LabeledImages) -> Self {
        let count = images.len().min(2000);
        let places = Array::arange(0, count as i64);
        let classes = images.labels()[..count].iter();
        Self {
            images: upright::all(images).take(&places, 0),
            classes: classes.map(|&class| class.into()).collect(),
        }
    }

    /// Draws everything into a folder.
    pub(crate) fn draw(&self, model: &Autoencoder, folder: &Path) -> Result<(), BoxError> {
        fs::create_dir_all(folder)?;
        self.digits(model).save(folder.join("digits.png"))?;
        map(model).save(folder.join("map.png"))?;
        self.cloud(model).save(folder.join("codes.png"))?;
        Ok(())
    }

    /// The part of images whose nearest neighbour on the map is of their own class.
    pub(crate) fn neighbours_alike(&self, model: &Autoencoder) -> f64 {
        let places = self.places(model);
        let nearest = |i: usize| {
            let others = (0..places.len()).filter(|&j| j != i);
            others.min_by(|&j, &k| {
                let [near, far] = [j, k].map(|j| distance(places[i], places[j]));
                near.total_cmp(&far)
            })
        };
        let alike = |&i: &usize| nearest(i).is_some_and(|j| self.classes[i] == self.classes[j]);
        (0..places.len()).filter(alike).count() as f64 / places.len() as f64
    }

    /// Where the images lie.
    fn places(&self, model: &Autoencoder) -> Vec<Place> {
        let [mean, _] = eval_mode(|| no_grad(|| model.encode(&Variable::constant(&self.images))));
        let numbers = mean.to_vec::<f32>();
        numbers
            .chunks(2)
            .map(|code| [code[0].into(), code[1].into()])
            .collect()
    }

    /// Two images of each class in a row, and below each the one drawn from its code.
    fn digits(&self, model: &Autoencoder) -> GrayImage {
        let of_class = |class| (0..self.classes.len()).filter(move |&i| self.classes[i] == class);
        let chosen: Vec<usize> = (0..10).flat_map(|class| of_class(class).take(2)).collect();
        let places = self.places(model);
        let drawn = decode(
            model,
            &chosen.iter().map(|&i| places[i]).collect::<Vec<_>>(),
        );
        let pixels = self.images.to_vec::<f32>();
        let size = (SIDE * SIDE) as usize;
        let mut originals = chosen.iter().map(|&i| pixels[i * size..][..size].to_vec());
        let mut drawn = drawn.into_iter();
        // Two rows of pairs.
        let half = chosen.len().div_ceil(2);
        let rows = (0..2).flat_map(|_| {
            let above: Vec<_> = originals.by_ref().take(half).collect();
            [above, drawn.by_ref().take(half).collect()]
        });
        sheet(&rows.collect::<Vec<_>>(), 6)
    }

    /// A dot for each image in the colour of its class, and amid the dots of a class its digit.
    fn cloud(&self, model: &Autoencoder) -> RgbImage {
        const SIZE: u32 = 900;
        let mut picture = RgbImage::from_pixel(SIZE, SIZE, Rgb([255; 3]));
        let pixel = |[x, y]: Place| [x, y].map(|x| (x / REACH + 1.0) / 2.0 * f64::from(SIZE));
        let places = self.places(model);
        for (&place, &class) in places.iter().zip(&self.classes) {
            disc(&mut picture, pixel(place), 3.5, COLOURS[class], 0.75);
        }
        for (class, colour) in COLOURS.into_iter().enumerate() {
            let all = places.iter().zip(&self.classes);
            let all: Vec<Place> = all.filter(|(_, c)| **c == class).map(|(p, _)| *p).collect();
            // The one with the smallest distance to all others lies amid them, unlike their mean.
            let far = |&p: &Place| all.iter().map(|&q| distance(p, q).sqrt()).sum::<f64>();
            let Some(middle) = all.iter().copied().min_by(|p, q| far(p).total_cmp(&far(q))) else {
                continue;
            };
            disc(&mut picture, pixel(middle), 26.0, [255; 3], 0.85);
            let ink = decode(model, &[middle]).remove(0);
            stamp(&mut picture, pixel(middle), &ink, colour);
        }
        picture
    }
}

fn distance(p: Place, q: Place) -> f64 {
    (p[0] - q[0]).powi(2) + (p[1] - q[1]).powi(2)
}

/// The ink of the images at places of the map.
fn decode(model: &Autoencoder, places: &[Place]) -> Vec<Vec<f32>> {
    let codes: Vec<f32> = places.iter().flatten().map(|&x| x as f32).collect();
    let codes = Variable::constant(Array::from_vec(codes, [places.len(), 2]));
    let ink = eval_mode(|| no_grad(|| model.decode(&codes))).to_vec::<f32>();
    ink.chunks((SIDE * SIDE) as usize)
        .map(<[f32]>::to_vec)
        .collect()
}

/// A grid over the map in steps that leave equally many codes between them.
fn map(model: &Autoencoder) -> GrayImage {
    const COUNT: usize = 20;
    let steps: Vec<f64> = (0..COUNT)
        .map(|i| quantile((i as f64 + 0.5) / COUNT as f64))
        .collect();
    let rows = steps.iter().map(|&y| {
        let row: Vec<Place> = steps.iter().map(|&x| [x, y]).collect();
        decode(model, &row)
    });
    sheet(&rows.collect::<Vec<_>>(), 0)
}

/// Below which number a standard normal one is with this probability.
fn quantile(probability: f64) -> f64 {
    let below = |x: f64| {
        let erf = bibun::functions::erf(Variable::constant(x / 2f64.sqrt()));
        0.5 * (1.0 + erf.item::<f64>())
    };
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if below(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Rows of images with dark ink on white, twice as large, and room behind every second row.
fn sheet(rows: &[Vec<Vec<f32>>], gap: u32) -> GrayImage {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let (width, height) = (
        columns * SIDE,
        rows.len() as u32 * SIDE + rows.len() as u32 / 2 * gap,
    );
    let mut sheet = GrayImage::from_pixel(width, height, Luma([255]));
    for (i, row) in (0..).zip(rows) {
        for (j, ink) in (0..).zip(row) {
            let (left, top) = (j * SIDE, i * SIDE + i / 2 * gap);
            for (pixel, &ink) in (0..).zip(ink) {
                let shade = Luma([(255.0 * (1.0 - ink)).round() as u8]);
                sheet.put_pixel(left + pixel % SIDE, top + pixel / SIDE, shade);
            }
        }
    }
    imageops::resize(&sheet, 2 * width, 2 * height, FilterType::CatmullRom)
}

/// Ink in a colour, with its middle at a point.
fn stamp(picture: &mut RgbImage, [x, y]: Place, ink: &[f32], colour: [u8; 3]) {
    let digit = GrayImage::from_fn(SIDE, SIDE, |x, y| {
        Luma([(255.0 * ink[(y * SIDE + x) as usize]).round() as u8])
    });
    let digit = imageops::resize(&digit, 2 * SIDE, 2 * SIDE, FilterType::CatmullRom);
    let (left, top) = (x as i64 - i64::from(SIDE), y as i64 - i64::from(SIDE));
    for (column, row, &Luma([ink])) in digit.enumerate_pixels() {
        let at = [left + i64::from(column), top + i64::from(row)];
        blend(picture, at, colour, f64::from(ink) / 255.0);
    }
}

/// A round dot with soft edges.
fn disc(picture: &mut RgbImage, [x, y]: Place, radius: f64, colour: [u8; 3], strength: f64) {
    let around = |x: f64| (x - radius - 1.0).floor() as i64..=(x + radius + 1.0).ceil() as i64;
    for row in around(y) {
        for column in around(x) {
            let from_middle = distance([x, y], [column as f64, row as f64]).sqrt();
            let covered = (radius + 0.5 - from_middle).clamp(0.0, 1.0);
            blend(picture, [column, row], colour, strength * covered);
        }
    }
}

/// Mixes a colour into a pixel, if there is such a pixel.
fn blend(picture: &mut RgbImage, at: [i64; 2], colour: [u8; 3], strength: f64) {
    let [Ok(x), Ok(y)] = at.map(u32::try_from) else {
        return;
    };
    if let Some(pixel) = picture.get_pixel_mut_checked(x, y) {
        for (channel, colour) in pixel.0.iter_mut().zip(colour) {
            let (old, new) = (f64::from(*channel), f64::from(colour));
            *channel = (old + strength * (new - old)).round() as u8;
        }
    }
}
