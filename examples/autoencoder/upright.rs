//! Digits brought upright.

use bibun::array::Array;
use bibun::datasets::LabeledImages;

/// All images, `[n, height · width]`, each with its ink in the middle, as high as that of all others
/// and not slanted.
pub(crate) fn all(images: &LabeledImages) -> Array {
    let (height, width) = (images.height(), images.width());
    let ink = (0..images.len()).flat_map(|i| upright(images.pixels(i), width));
    Array::from_vec(ink.collect(), [images.len(), height * width])
}

/// How far ink is from its middle, upwards and downwards, as a part of the height of an image.
const SPREAD: f64 = 0.2;

fn upright(pixels: &[u8], width: usize) -> Vec<f32> {
    let height = pixels.len() / width;
    let mean = |f: &dyn Fn(f64, f64) -> f64| {
        let weighted = pixels
            .iter()
            .enumerate()
            .map(|(i, &ink)| f64::from(ink) * f((i % width) as f64, (i / width) as f64));
        weighted.sum::<f64>()
            / pixels
                .iter()
                .map(|&ink| f64::from(ink))
                .sum::<f64>()
                .max(1.0)
    };
    let (x, y) = (mean(&|x, _| x), mean(&|_, y| y));
    let variance = mean(&|_, b| (b - y).powi(2)).max(1e-3);
    let slant = mean(&|a, b| (a - x) * (b - y)) / variance;
    let scale = variance.sqrt() / (SPREAD * height as f64);

    let at = |x: i64, y: i64| match (usize::try_from(x), usize::try_from(y)) {
        (Ok(x), Ok(y)) if x < width && y < height => f64::from(pixels[y * width + x]) / 255.0,
        _ => 0.0,
    };
    // Each pixel is looked up where it comes from, between four pixels.
    let from = |i: usize| {
        let down = scale * ((i / width) as f64 - (height - 1) as f64 / 2.0);
        let right = scale * ((i % width) as f64 - (width - 1) as f64 / 2.0);
        let (x, y) = (x + right + slant * down, y + down);
        let (left, top) = (x.floor(), y.floor());
        let (across, below) = (x - left, y - top);
        let (left, top) = (left as i64, top as i64);
        let upper = (1.0 - across) * at(left, top) + across * at(left + 1, top);
        let lower = (1.0 - across) * at(left, top + 1) + across * at(left + 1, top + 1);
        ((1.0 - below) * upper + below * lower) as f32
    };
    (0..pixels.len()).map(from).collect()
}
