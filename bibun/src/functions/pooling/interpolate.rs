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
    /// A straight line between neighbours: linear along one axis, bilinear along two, and so on.
    Linear {
        /// Whether elements are points, the outermost at the ends of the axis, rather than cells.
        align_corners: bool,
    },
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

    /// Returns the stencil that makes `new` elements of `size`.
    fn stencil(self, size: usize, new: usize) -> Stencil {
        let of_one = |i: usize| {
            let place = match self {
                // Computed with integers, so that rounding cannot select a neighbour.
                Self::Nearest => return vec![(share(i, size, new), 1.0)],
                Self::Linear {
                    align_corners: true,
                } => i as f64 * (size - 1) as f64 / (new.max(2) - 1) as f64,
                Self::Linear {
                    align_corners: false,
                } => ((i as f64 + 0.5) * size as f64 / new as f64 - 0.5).max(0.0),
            };
            let before = (place as usize).min(size - 1);
            let part = place - before as f64;
            match part > 0.0 && before + 1 < size {
                true => vec![(before, 1.0 - part), (before + 1, part)],
                false => vec![(before, 1.0)],
            }
        };
        Stencil::new(size, (0..new).map(of_one))
    }
}

/// Resizes the last axes by interpolation, separately along each axis.
///
/// Along an axis from n to m, element i of y is read at `(i + ½) n/m − ½`, clipped at the ends;
/// with `align_corners` at `i (n − 1)/(m − 1)`; with [`Interpolation::Nearest`] at `⌊i n/m⌋`.
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
    interpolated("interpolate", x.into(), &size.into(), interpolation)
}
method!(interpolate, size: impl Into<Shape>, interpolation: Interpolation);

#[track_caller]
fn interpolated(
    function: &'static str,
    x: Variable,
    size: &Shape,
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
        axes()
            .map(|(old, new)| interpolation.stencil(old, new))
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
    interpolated("upsample", x, &size.collect(), interpolation)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;

    /// Interpolates along one axis, by the formula for each element.
    fn line(x: &[f64], new: usize, interpolation: Interpolation) -> Vec<f64> {
        let n = x.len() as f64;
        let element = |i: usize| {
            let ratio = n / new as f64;
            let place = match interpolation {
                Interpolation::Nearest => return x[((i as f64 + 1e-9) * ratio) as usize],
                Interpolation::LINEAR_ALIGN_CORNERS if new == 1 => 0.0,
                Interpolation::LINEAR_ALIGN_CORNERS => i as f64 * (n - 1.0) / (new as f64 - 1.0),
                Interpolation::LINEAR => (i as f64 + 0.5) * ratio - 0.5,
            };
            // Sums over all elements, each weighted by a hat function around it.
            let place = place.clamp(0.0, n - 1.0);
            let hat = |j: usize| (1.0 - (place - j as f64).abs()).max(0.0);
            x.iter().enumerate().map(|(j, x)| x * hat(j)).sum()
        };
        (0..new).map(element).collect()
    }
    fn plane(x: &Array, size: [usize; 2], interpolation: Interpolation) -> Array {
        let [blocks, h, w] = x.shape().dims().expect("three axes");
        let mut y = Vec::new();
        for block in 0..blocks {
            let at = |i, j| x.element(&[block, i, j]).to_f64();
            let row = |i| {
                line(
                    &(0..w).map(|j| at(i, j)).collect::<Vec<_>>(),
                    size[1],
                    interpolation,
                )
            };
            let rows: Vec<Vec<f64>> = (0..h).map(row).collect();
            let column = |j: usize| {
                let column: Vec<f64> = rows.iter().map(|row| row[j]).collect();
                line(&column, size[0], interpolation)
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
            move |x| vec![plane(&x[0], size, interpolation)],
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
                    .flat_map(|row| line(row, 5, Interpolation::LINEAR));
                vec![Array::from_vec(rows.collect(), [2, 5])]
            },
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "upsample",
            |x| vec![upsample(&x[0], [2, 3], Interpolation::LINEAR)],
            |x| vec![plane(&x[0], [6, 6], Interpolation::LINEAR)],
        )
        .input([1, 3, 2], -2.0..2.0),
    ];
    for interpolation in [
        Interpolation::Nearest,
        Interpolation::LINEAR,
        Interpolation::LINEAR_ALIGN_CORNERS,
    ] {
        samples.push(sample([5, 2], [2, 3, 5], interpolation));
        samples.push(sample([1, 3], [2, 4, 1], interpolation));
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
            Interpolation::LINEAR,
            Interpolation::LINEAR_ALIGN_CORNERS,
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
            text.starts_with("interpolate: shapes do not fit: x [.., l] = [2, 0] f64"),
            "{text}"
        );
        assert_eq!(
            interpolate(&x, [3, 0], Interpolation::LINEAR).shape(),
            [3, 0]
        );
        let text = attempt(|| upsample(&x, [1, 1, 2], Interpolation::Nearest)).unwrap_err();
        assert!(
            text.to_string().contains("upsample: shapes do not fit"),
            "{text}"
        );
        let text = attempt(|| upsample(&x, [0], Interpolation::Nearest)).unwrap_err();
        assert!(
            text.to_string().contains("factors = [0] must be positive"),
            "{text}"
        );
    }
}
