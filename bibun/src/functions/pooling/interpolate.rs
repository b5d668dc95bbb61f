//! Resizing by interpolation.

use std::sync::Arc;

use bibun_array::{Shape, Stencil, allocating};

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::pooling::window::{WindowSum, last_sizes, mismatch, share};
use crate::variable::Variable;

const NAMES: [&str; 2] = ["interpolate", "interpolate_transpose"];

/// The method of [`interpolate`] between elements.
///
/// An element is a cell with its value in the middle, as in PyTorch; with `align_corners` it is a
/// point, and the first and the last one keep their positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The nearest element: that of the cell in which the new cell begins.
    Nearest,
    /// The nearest element: that of the cell in which the middle of the new cell is.
    NearestExact,
    /// A straight line between neighbours: linear along one axis, bilinear along two, and so on.
    Linear {
        /// Whether elements are points, the outermost at the ends of the axis, rather than cells.
        align_corners: bool,
    },
    /// A cubic polynomial between two neighbours, by the four around them (R. G. Keys, Cubic
    /// convolution interpolation for digital image processing, 1981, with the slope -¾). The outermost
    /// elements go on beyond the ends.
    Cubic {
        /// Whether elements are points, the outermost at the ends of the axis, rather than cells.
        align_corners: bool,
    },
    /// [`Interpolation::LINEAR`], in which the weights of larger new cells are as much wider as these
    /// are, so that none of the elements is left out.
    LinearAntialiased,
    /// [`Interpolation::CUBIC`] with the slope -½, in which the weights of larger new cells are as much
    /// wider as these are, so that none of the elements is left out.
    CubicAntialiased,
}

impl Interpolation {
    /// Linear interpolation between the middles of cells.
    pub const LINEAR: Self = Self::Linear {
        align_corners: false,
    };
    /// Linear interpolation between points, the outermost of which keep their positions.
    pub const LINEAR_ALIGN_CORNERS: Self = Self::Linear {
        align_corners: true,
    };
    /// Cubic interpolation between the middles of cells.
    pub const CUBIC: Self = Self::Cubic {
        align_corners: false,
    };
    /// Cubic interpolation between points, the outermost of which keep their positions.
    pub const CUBIC_ALIGN_CORNERS: Self = Self::Cubic {
        align_corners: true,
    };

    /// Returns the stencil that makes `new` elements of `size`: as many times as many, or `factor` times.
    fn stencil(self, size: usize, new: usize, factor: Option<f64>) -> Stencil {
        // The middle of new cell i, and a part of it.
        let at = |part: f64| match factor {
            None => part * size as f64 / new as f64,
            Some(factor) => part / factor,
        };
        let middle = |i: usize| at(i as f64 + 0.5);
        let point = |i: usize| i as f64 * (size - 1) as f64 / (new.max(2) - 1) as f64;
        let one = |position: usize| vec![(position.min(size - 1), 1.0)];
        let of_one = |i: usize| match (self, factor) {
            // Computed with integers, so that rounding cannot select a neighbour.
            (Self::Nearest, None) => one(share(i, size, new)),
            (Self::NearestExact, None) => one(share(2 * i + 1, size, 2 * new)),
            (Self::Nearest, Some(_)) => one(at(i as f64) as usize),
            (Self::NearestExact, Some(_)) => one(middle(i) as usize),
            (Self::Linear { align_corners }, _) => {
                let place = match align_corners {
                    true => point(i),
                    false => (middle(i) - 0.5).max(0.0),
                };
                let before = (place as usize).min(size - 1);
                let part = place - before as f64;
                match part > 0.0 && before + 1 < size {
                    true => vec![(before, 1.0 - part), (before + 1, part)],
                    false => one(before),
                }
            }
            (Self::Cubic { align_corners }, _) => {
                let place = match align_corners {
                    true => point(i),
                    false => middle(i) - 0.5,
                };
                let before = place.floor();
                let mut taps: Vec<(usize, f64)> = Vec::with_capacity(4);
                for tap in [-1.0, 0.0, 1.0, 2.0] {
                    let weight = cubic(place - before - tap, -0.75);
                    // Negative numbers become 0.
                    let position = ((before + tap) as usize).min(size - 1);
                    match taps.last_mut() {
                        Some((last, sum)) if *last == position => *sum += weight,
                        _ => taps.push((position, weight)),
                    }
                }
                taps.retain(|&(_, weight)| weight != 0.0);
                taps
            }
            (Self::LinearAntialiased, _) => {
                widened(size, middle(i), at(1.0), 1.0, |x| 1.0 - x.abs())
            }
            (Self::CubicAntialiased, _) => {
                widened(size, middle(i), at(1.0), 2.0, |x| cubic(x, -0.5))
            }
        };
        Stencil::new(size, (0..new).map(of_one))
    }
}

/// Keys's weight of an element at a distance, with the slope `a` at distance 1.
fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    } else {
        0.0
    }
}

/// Returns the weights of the elements whose middles are nearer to a place than `radius` times the
/// `width` of a new cell, at least 1.
fn widened(
    size: usize,
    place: f64,
    width: f64,
    radius: f64,
    weight: impl Fn(f64) -> f64,
) -> Vec<(usize, f64)> {
    let width = width.max(1.0);
    let first = (place - radius * width + 0.5).max(0.0) as usize;
    let end = ((place + radius * width + 0.5) as usize).min(size);
    let weights = (first..end).map(|i| (i, weight((i as f64 + 0.5 - place) / width)));
    let mut weights: Vec<_> = weights.filter(|&(_, weight)| weight != 0.0).collect();
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    weights.iter_mut().for_each(|(_, weight)| *weight /= total);
    weights
}

/// Resizes the last axes by interpolation, separately along each axis.
///
/// Along an axis from n to m, element i of y is read at `(i + ½) n/m − ½`, clipped at the ends;
/// with `align_corners` at `i (n − 1)/(m − 1)`; with [`Interpolation::Nearest`] at `⌊i n/m⌋`, and with
/// [`Interpolation::NearestExact`] at `⌊(i + ½) n/m⌋`.
///
/// Shapes: x `[.., h, w]` → `[.., size]`, over one, two or more axes.
/// Types: floats.
/// Gradient: `gy` to the elements read, with the same weights.
///
/// # Panics
/// Panics if x has too few axes, or an empty axis is to be resized to a positive size.
///
/// ```
/// use bibun::{functions::{interpolate, Interpolation}, Variable};
/// let x = Variable::new([[0.0, 4.0]]);
/// let y = interpolate(&x, [4], Interpolation::LINEAR);
/// assert_eq!(y.to_vec::<f64>(), [0.0, 1.0, 3.0, 4.0]);
/// let y = interpolate(&x, [2, 3], Interpolation::LINEAR_ALIGN_CORNERS);
/// assert_eq!(y.to_vec::<f64>(), [0.0, 2.0, 4.0, 0.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn interpolate(
    x: impl Into<Variable>,
    size: impl Into<Shape>,
    interpolation: Interpolation,
) -> Variable {
    interpolated("interpolate", x.into(), &size.into(), None, interpolation)
}
method!(interpolate, size: impl Into<Shape>, interpolation: Interpolation);

/// Resizes the last axes by [interpolation](interpolate) to `factor` times their sizes, rounded down:
/// element i of y is read at `(i + ½)/factor − ½`, whatever the rounding leaves out, and with
/// `align_corners` as by [`interpolate`].
///
/// Shapes: x `[.., h, w]` → `[.., ⌊h factor⌋, ⌊w factor⌋]`, over one, two or more axes.
/// Types: floats.
/// Gradient: that of [`interpolate`].
///
/// # Panics
/// Panics if x has too few axes, a factor is not positive and finite, or an empty axis is to be resized
/// to a positive size.
///
/// ```
/// use bibun::{functions::{interpolate_by, Interpolation}, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = interpolate_by(&x, [0.5], Interpolation::LINEAR);
/// assert_eq!(y.to_vec::<f64>(), [1.5]);
/// ```
#[track_caller]
pub fn interpolate_by(
    x: impl Into<Variable>,
    factor: impl AsRef<[f64]>,
    interpolation: Interpolation,
) -> Variable {
    let function = "interpolate_by";
    let _whole = composite(function);
    let (x, factor) = (x.into(), factor.as_ref());
    if !factor
        .iter()
        .all(|&factor| factor > 0.0 && factor.is_finite())
    {
        let what = format!("factor = {factor:?} must be positive and finite");
        raise(Error::argument(function, what));
    }
    let sizes = last_sizes(function, &x, factor.len());
    let sizes = sizes.iter().zip(factor);
    let size = sizes.map(|(&size, factor)| (size as f64 * factor) as usize);
    interpolated(function, x, &size.collect(), Some(factor), interpolation)
}
method!(interpolate_by, factor: impl AsRef<[f64]>, interpolation: Interpolation);

#[track_caller]
fn interpolated(
    function: &'static str,
    x: Variable,
    size: &Shape,
    factor: Option<&[f64]>,
    interpolation: Interpolation,
) -> Variable {
    let sizes = last_sizes(function, &x, size.rank());
    let axes = || sizes.iter().copied().zip(size.iter().copied());
    if axes().any(|(old, new)| old == 0 && new > 0) {
        let must_hold = format!("from nothing nothing can be read for the sizes {size}");
        mismatch(function, &x, size.rank(), must_hold)
    }
    let shape = x.shape();
    let in_front = &shape[..shape.rank() - size.rank()];
    let shape: Shape = in_front.iter().chain(size.iter()).copied().collect();
    let _ = shape.addressable(function);
    let stencil: Arc<[Stencil]> = allocating(function, || {
        (axes().enumerate())
            .map(|(i, (old, new))| interpolation.stencil(old, new, factor.map(|factor| factor[i])))
            .collect()
    });
    WindowSum::of(NAMES, stencil, x)
}

/// Resizes the last axes by [interpolation](interpolate) to multiples of their sizes: `factors` has
/// one for each of them.
///
/// Shapes: x `[.., h, w]` → `[.., h f₀, w f₁]`, over one, two or more axes.
/// Types: floats.
/// Gradient: that of [`interpolate`].
///
/// # Panics
/// Panics if x has too few axes or a factor is 0.
///
/// ```
/// use bibun::{functions::{upsample, Interpolation}, Variable};
/// let x = Variable::new([[1.0, 2.0]]);
/// let y = upsample(&x, [2, 2], Interpolation::Nearest);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
/// let y = upsample(&x, [1, 3], Interpolation::Nearest);
/// assert_eq!(y.shape(), [1, 6]);
/// ```
#[track_caller]
pub fn upsample(
    x: impl Into<Variable>,
    factors: impl Into<Shape>,
    interpolation: Interpolation,
) -> Variable {
    let _whole = composite("upsample");
    let (x, factors) = (x.into(), factors.into());
    if factors.contains(&0) {
        let what = format!("factors = {factors} must be positive");
        raise(Error::argument("upsample", what));
    }
    let sizes = last_sizes("upsample", &x, factors.rank());
    let sizes = sizes.iter().zip(factors.iter());
    let size = sizes.map(|(size, factor)| size.saturating_mul(*factor));
    interpolated("upsample", x, &size.collect(), None, interpolation)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;

    /// Interpolates along one axis, by the formula for each element.
    fn line(x: &[f64], new: usize, ratio: f64, interpolation: Interpolation) -> Vec<f64> {
        let n = x.len() as f64;
        let hat = |d: f64| (1.0 - d.abs()).max(0.0);
        let keys = |d: f64, a: f64| match d.abs() {
            d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
            d if d < 2.0 => a * (d.powi(3) - 5.0 * d.powi(2) + 8.0 * d - 4.0),
            _ => 0.0,
        };
        let element = |i: usize| {
            let cell = (i as f64 + 0.5) * ratio - 0.5;
            let point = i as f64 * (n - 1.0) / (new as f64 - 1.0).max(1.0);
            // Sums over all elements and some beyond, each weighted by a function around it.
            let sum = |place: f64, width: f64, weight: &dyn Fn(f64) -> f64| {
                let terms = (-20..20 + x.len() as i64).map(|j| {
                    let weight = weight((place - j as f64) / width);
                    (weight, x[j.clamp(0, x.len() as i64 - 1) as usize])
                });
                terms.collect::<Vec<_>>()
            };
            let total = |terms: Vec<(f64, f64)>| terms.iter().map(|(w, x)| w * x).sum::<f64>();
            // Only elements that are there, whose weights are made to sum to 1.
            let mean = |weight: &dyn Fn(f64) -> f64| {
                let width = ratio.max(1.0);
                let weights = (0..x.len()).map(|j| weight((cell - j as f64) / width));
                let weights: Vec<f64> = weights.collect();
                let all: f64 = weights.iter().sum();
                weights.iter().zip(x).map(|(w, x)| w * x / all).sum::<f64>()
            };
            match interpolation {
                Interpolation::Nearest => x[((i as f64 + 1e-9) * ratio) as usize],
                Interpolation::NearestExact => x[((i as f64 + 0.5 + 1e-9) * ratio) as usize],
                Interpolation::LINEAR_ALIGN_CORNERS => total(sum(point, 1.0, &hat)),
                Interpolation::Linear { .. } => total(sum(cell.clamp(0.0, n - 1.0), 1.0, &hat)),
                Interpolation::CUBIC_ALIGN_CORNERS => total(sum(point, 1.0, &|d| keys(d, -0.75))),
                Interpolation::Cubic { .. } => total(sum(cell, 1.0, &|d| keys(d, -0.75))),
                Interpolation::LinearAntialiased => mean(&hat),
                Interpolation::CubicAntialiased => mean(&|d| keys(d, -0.5)),
            }
        };
        (0..new).map(element).collect()
    }
    const ALL: [Interpolation; 8] = [
        Interpolation::Nearest,
        Interpolation::NearestExact,
        Interpolation::LINEAR,
        Interpolation::LINEAR_ALIGN_CORNERS,
        Interpolation::CUBIC,
        Interpolation::CUBIC_ALIGN_CORNERS,
        Interpolation::LinearAntialiased,
        Interpolation::CubicAntialiased,
    ];
    fn plane(
        x: &Array,
        size: [usize; 2],
        factor: Option<[f64; 2]>,
        interpolation: Interpolation,
    ) -> Array {
        let [blocks, h, w] = x.shape().dims().expect("three axes");
        let ratio = match factor {
            Some(factor) => factor.map(f64::recip),
            None => [h as f64 / size[0] as f64, w as f64 / size[1] as f64],
        };
        let mut y = Vec::new();
        for block in 0..blocks {
            let at = |i, j| x.element(&[block, i, j]).to_f64();
            let row = |i| {
                let row = (0..w).map(|j| at(i, j)).collect::<Vec<_>>();
                line(&row, size[1], ratio[1], interpolation)
            };
            let rows: Vec<Vec<f64>> = (0..h).map(row).collect();
            let column = |j: usize| {
                let column: Vec<f64> = rows.iter().map(|row| row[j]).collect();
                line(&column, size[0], ratio[0], interpolation)
            };
            let columns: Vec<Vec<f64>> = (0..size[1]).map(column).collect();
            for i in 0..size[0] {
                y.extend(columns.iter().map(|column| column[i]));
            }
        }
        Array::from_vec(y, [blocks, size[0], size[1]])
    }
    let sample = |size: [usize; 2], x: [usize; 3], interpolation| {
        Sample::new(
            "interpolate",
            move |x| vec![interpolate(&x[0], size, interpolation)],
            move |x| vec![plane(&x[0], size, None, interpolation)],
        )
        .input(x, -2.0..2.0)
    };
    let mut samples = vec![
        Sample::new(
            "interpolate",
            |x| vec![interpolate(&x[0], [5], Interpolation::LINEAR)],
            |x| {
                let rows = x[0].to_vec::<f64>();
                let rows = rows
                    .chunks(3)
                    .flat_map(|row| line(row, 5, 0.6, Interpolation::LINEAR));
                vec![Array::from_vec(rows.collect(), [2, 5])]
            },
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "upsample",
            |x| vec![upsample(&x[0], [2, 3], Interpolation::LINEAR)],
            |x| vec![plane(&x[0], [6, 6], None, Interpolation::LINEAR)],
        )
        .input([1, 3, 2], -2.0..2.0),
    ];
    for interpolation in ALL {
        samples.push(sample([5, 2], [2, 3, 5], interpolation));
        samples.push(sample([1, 3], [2, 4, 1], interpolation));
        let factor = [1.7, 0.55];
        samples.push(
            Sample::new(
                "interpolate_by",
                move |x| vec![interpolate_by(&x[0], factor, interpolation)],
                move |x| vec![plane(&x[0], [5, 2], Some(factor), interpolation)],
            )
            .input([2, 3, 5], -2.0..2.0),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::{Array, DType};

    #[test]
    fn the_same_size_is_the_same_array() {
        let x = Variable::new([[0.1, -2.0, 3.0], [4.0, 5.5, 6.0]]);
        for interpolation in [
            Interpolation::Nearest,
            Interpolation::NearestExact,
            Interpolation::LINEAR,
            Interpolation::LINEAR_ALIGN_CORNERS,
            Interpolation::CUBIC,
            Interpolation::CUBIC_ALIGN_CORNERS,
            Interpolation::LinearAntialiased,
            Interpolation::CubicAntialiased,
        ] {
            let y = interpolate(&x, [2, 3], interpolation);
            assert_eq!(y.to_vec::<f64>(), x.to_vec::<f64>());
        }
    }

    #[test]
    fn elements_without_weight_are_not_read() {
        let x = Variable::new([1.0f32, f32::INFINITY, 3.0]);
        let y = interpolate(&x, [5], Interpolation::LINEAR_ALIGN_CORNERS);
        assert_eq!((y.to_vec::<f32>()[0], y.to_vec::<f32>()[4]), (1.0, 3.0));
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        let text = attempt(|| interpolate(&x, [3], Interpolation::Nearest))
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("interpolate: inputs do not fit: x [.., l] = [2, 0] f64"),
            "{text}"
        );
        assert_eq!(
            interpolate(&x, [3, 0], Interpolation::LINEAR).shape(),
            [3, 0]
        );
        for factor in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let error = attempt(|| interpolate_by(&x, [factor], Interpolation::CUBIC)).unwrap_err();
            assert!(error.to_string().contains("must be positive"), "{error}");
        }
        let text = attempt(|| upsample(&x, [1, 1, 2], Interpolation::Nearest)).unwrap_err();
        assert!(
            text.to_string().contains("upsample: inputs do not fit"),
            "{text}"
        );
        let text = attempt(|| upsample(&x, [0], Interpolation::Nearest)).unwrap_err();
        assert!(
            text.to_string().contains("factors = [0] must be positive"),
            "{text}"
        );
    }
}
