//! Sampling at places that a grid names, and grids of affine maps.

use bibun_array::{Array, DType, Shape};

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{
    abs, broadcast_to, cast, clip, expand_dims, float_of, floor, gather, in_accumulator, is_nan,
    logical_or, matmul, remainder, reshape, round, swapaxes, to_float, unstack, where_,
};
use crate::variable::Variable;

/// The way [`grid_sample`] reads between elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GridMode {
    /// The nearest element; halfway between two, the one of even position.
    Nearest,
    /// Straight lines between neighbours: bilinear along two axes.
    #[default]
    Linear,
    /// Cubic polynomials by four elements along each axis, with the slope -¾ (R. G. Keys, 1981).
    Cubic,
}

/// What [`grid_sample`] reads outside of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The outermost elements.
    Border,
    /// The elements in reverse order, as in a mirror at the border: at the middles of the outermost
    /// elements with `align_corners`, at their outer ends without.
    Reflection,
}

/// Options of [`grid_sample`].
///
/// ```
/// use bibun::functions::{GridMode, GridPadding, GridSampleOptions};
/// let options = GridSampleOptions::new().mode(GridMode::Cubic).padding(GridPadding::Border);
/// assert!(!options.align_corners);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GridSampleOptions {
    /// The way to read between elements. Defaults to linear.
    pub mode: GridMode,
    /// What is outside. Defaults to zeros.
    pub padding: GridPadding,
    /// Whether -1 and 1 are the middles of the outermost elements, rather than their outer ends. Defaults
    /// to false.
    pub align_corners: bool,
}

impl GridSampleOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the way to read between elements. Defaults to linear.
    #[must_use]
    pub fn mode(self, mode: GridMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets what is outside. Defaults to zeros.
    #[must_use]
    pub fn padding(self, padding: GridPadding) -> Self {
        Self { padding, ..self }
    }

    /// Sets whether -1 and 1 are the middles of the outermost elements. Defaults to false.
    #[must_use]
    pub fn align_corners(self, align_corners: bool) -> Self {
        Self {
            align_corners,
            ..self
        }
    }

    /// Returns the positions along an axis of `size` elements that are read for coordinates, and their weights.
    #[track_caller]
    fn taps(self, coordinates: &Variable, size: usize) -> Vec<(Variable, Variable)> {
        let (n, one) = (size as f64, coordinates + 1.0);
        let place = match self.align_corners {
            true => one * ((n - 1.0) / 2.0),
            false => one * (n / 2.0) - 0.5,
        };
        let last = n - 1.0;
        let tap = |position: Variable, weight: Option<Variable>| {
            let inside = clip(&position, 0.0, last);
            // A place that is not a number is passed on.
            let weight = weight.unwrap_or_else(|| {
                let one = cast(Variable::constant(1.0), coordinates.dtype());
                where_(is_nan(coordinates), f64::NAN, one)
            });
            let weight = match self.padding {
                GridPadding::Zeros => {
                    let is_outside = logical_or(position.less(0.0), position.greater(last));
                    where_(is_outside, 0.0, weight)
                }
                GridPadding::Border | GridPadding::Reflection => weight,
            };
            (cast(inside, DType::I64), weight)
        };
        match self.mode {
            GridMode::Nearest => vec![tap(round(self.moved_inside(place, n)), None)],
            GridMode::Linear => {
                let place = self.moved_inside(place, n);
                let before = floor(&place);
                let part = place - &before;
                let behind = tap(&before + 1.0, Some(part.clone()));
                vec![tap(before, Some(1.0 - part)), behind]
            }
            GridMode::Cubic => {
                let before = floor(&place);
                let part = place - &before;
                let tap = |at: i32| {
                    let position = self.moved_inside(&before + f64::from(at), n);
                    tap(position, Some(cubic(&part, at)))
                };
                [-1, 0, 1, 2].map(tap).to_vec()
            }
        }
    }

    /// Moves places outside of an axis of `n` elements to those that are read instead.
    #[track_caller]
    fn moved_inside(self, place: Variable, n: f64) -> Variable {
        // The mirrors are at `first` and `first + span`.
        let (first, span) = match self.align_corners {
            true => (0.0, n - 1.0),
            false => (-0.5, n),
        };
        let place = match self.padding {
            GridPadding::Zeros => return place,
            GridPadding::Border => place,
            // The axis and its mirror image repeat with this period.
            GridPadding::Reflection if span > 0.0 => {
                let around = remainder(place - first, 2.0 * span);
                first + span - abs(around - span)
            }
            GridPadding::Reflection => place * 0.0,
        };
        clip(place, 0.0, n - 1.0)
    }
}

/// Keys's weight of the element `at` positions behind the one before a place, which is a part of the
/// distance to the next one away.
#[track_caller]
fn cubic(part: &Variable, at: i32) -> Variable {
    const A: f64 = -0.75;
    let near = |x: Variable| ((A + 2.0) * &x - (A + 3.0)) * &x * x + 1.0;
    let far = |x: Variable| ((&x - 5.0) * &x + 8.0) * x * A - 4.0 * A;
    match at {
        -1 => far(part + 1.0),
        0 => near(part.clone()),
        1 => near(1.0 - part),
        _ => far(2.0 - part),
    }
}

/// Reads x at the places of a grid, by interpolation between its elements.
///
/// The last axis of the grid has a coordinate for each axis of the channels, that of the last axis first
/// (x before y). They are from -1, the beginning, to 1, the end.
///
/// Shapes: x `[n, c, h, w]`, grid `[n, .., 2]` → `[n, c, ..]`; likewise x `[n, c, l]` with a grid
/// `[n, .., 1]`, or `[n, c, d, h, w]` with `[n, .., 3]`.
/// Types: floats, promoted; integers give f64.
/// Gradient: to x by the weights; to the grid by the slopes between elements, 0 for the nearest ones and
/// outside of the border.
/// Source: M. Jaderberg, K. Simonyan, A. Zisserman and K. Kavukcuoglu, Spatial transformer networks, 2015.
///
/// # Panics
/// Panics if the shapes do not fit, or an axis of the channels is empty.
///
/// ```
/// use bibun::functions::{grid_sample, GridPadding, GridSampleOptions};
/// use bibun::Variable;
/// let x = Variable::new([[[1.0, 2.0, 4.0]]]);
/// let grid = Variable::new([[[0.0], [-1.0], [0.5], [9.0]]]);
/// let options = GridSampleOptions::new().align_corners(true);
/// assert_eq!(grid_sample(&x, &grid, options).to_vec::<f64>(), [2.0, 1.0, 3.0, 0.0]);
/// let options = options.padding(GridPadding::Border);
/// assert_eq!(grid_sample(&x, &grid, options).to_vec::<f64>(), [2.0, 1.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn grid_sample(
    x: impl Into<Variable>,
    grid: impl Into<Variable>,
    options: GridSampleOptions,
) -> Variable {
    let function = "grid_sample";
    let _whole = composite(function);
    let (x, grid) = (to_float(x.into()), to_float(grid.into()));
    let (x_spec, spec) = (x.spec(), grid.spec());
    let (shape, last) = (&x_spec.shape, spec.shape.rank().saturating_sub(1));
    let fits = shape.rank() > 2
        && last > 0
        && spec.shape[0] == shape[0]
        && spec.shape[last] == shape.rank() - 2
        && shape[2..].iter().all(|&size| size > 0);
    if !fits {
        let inputs = [("x [n, c, ..]", &x_spec), ("grid [n, .., axes]", &spec)];
        let must_hold =
            "n must be equal, with a coordinate for each axis of the channels, none empty";
        mismatch(function, &inputs, must_hold)
    }
    let dtype = float_of(x_spec.dtype, [&grid]);
    let [x, grid] = [x, grid].map(|x| cast(x, dtype.accumulator()));
    let (examples, channels) = (shape[0], shape[1]);
    let points: usize = spec.shape[1..last].iter().product();
    let flat = reshape(x, [examples, channels, shape[2..].iter().product()]);
    let coordinates = unstack(reshape(grid, [examples, points, shape.rank() - 2]), 2);
    // Positions in row-major order and weights, for one more axis each time.
    let mut taps: Vec<(Variable, Variable)> = Vec::new();
    for (&size, coordinates) in shape[2..].iter().zip(coordinates.iter().rev()) {
        let own = options.taps(coordinates, size);
        if taps.is_empty() {
            taps = own;
            continue;
        }
        let pairs = taps
            .iter()
            .flat_map(|tap| own.iter().map(move |own| (tap, own)));
        let joined = pairs.map(|((position, weight), (own, own_weight))| {
            (position * size as i64 + own, weight * own_weight)
        });
        taps = joined.collect();
    }
    let terms = taps.into_iter().map(|(position, weight)| {
        let positions = broadcast_to(expand_dims(position, 1), [examples, channels, points]);
        gather(&flat, positions, 2) * expand_dims(weight, 1)
    });
    let y = terms
        .reduce(|sum, term| sum + term)
        .expect("there is an axis");
    let front = [examples, channels].into_iter();
    let out: Shape = front.chain(spec.shape[1..last].iter().copied()).collect();
    cast(reshape(y, out), dtype)
}

/// Computes the grid for [`grid_sample`] of affine maps: the product of each matrix with the coordinates
/// of the elements of an array of `size`, and 1.
///
/// The coordinates are those of the last axis first; the first and the last elements have -1 and 1 with
/// `align_corners`, and are half an element away from there without.
///
/// Shapes: theta `[n, 2, 3]`, two sizes → `[n, h, w, 2]`; likewise `[n, 1, 2]` with one size, or
/// `[n, 3, 4]` with three.
/// Types: floats; integers give f64.
/// Gradient: to theta, the sums of `gy` times the coordinates.
/// Source: M. Jaderberg, K. Simonyan, A. Zisserman and K. Kavukcuoglu, Spatial transformer networks, 2015.
///
/// # Panics
/// Panics if theta does not have a row for each size and one more column.
///
/// ```
/// use bibun::{functions::affine_grid, Variable};
/// let theta = Variable::new([[[2.0, 0.0, 10.0], [0.0, 1.0, 0.0]]]);
/// let grid = affine_grid(&theta, [1, 2], true);
/// assert_eq!(grid.shape(), [1, 1, 2, 2]);
/// assert_eq!(grid.to_vec::<f64>(), [8.0, -1.0, 12.0, -1.0]);
/// ```
#[track_caller]
pub fn affine_grid<const N: usize>(
    theta: impl Into<Variable>,
    size: [usize; N],
    align_corners: bool,
) -> Variable {
    let function = "affine_grid";
    let _whole = composite(function);
    let theta = to_float(theta.into());
    let spec = theta.spec();
    if spec.shape.rank() != 3 || spec.shape[1..] != [N, N + 1] {
        let must_hold = format!("theta must be [n, {N}, {}] for the sizes {size:?}", N + 1);
        mismatch(function, &[("theta", &spec)], must_hold)
    }
    let shape: Shape = [spec.shape[0]].into_iter().chain(size).chain([N]).collect();
    let shape = shape.addressable(function);
    let points: usize = size.iter().product();
    let mut places = Vec::with_capacity(points * (N + 1));
    for point in 0..points {
        let mut rest = point;
        for &size in size.iter().rev() {
            let (i, n) = ((rest % size) as f64, size as f64);
            rest /= size;
            places.push(match align_corners {
                // One element is at the beginning.
                true => 2.0 * i / (n - 1.0).max(1.0) - 1.0,
                false => (2.0 * i + 1.0) / n - 1.0,
            });
        }
        places.push(1.0);
    }
    let places = Array::from_vec(places, [points, N + 1]);
    in_accumulator(theta, |theta| {
        let places = Variable::constant(places.cast(theta.dtype())).to(theta.device());
        reshape(matmul(places, swapaxes(theta, 1, 2)), shape)
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;

    /// Reads along one axis, which goes on outside as the padding says.
    fn taps(options: GridSampleOptions, coordinate: f64, n: i64) -> Vec<(Option<i64>, f64)> {
        let place = match options.align_corners {
            true => (coordinate + 1.0) / 2.0 * (n - 1) as f64,
            false => ((coordinate + 1.0) * n as f64 - 1.0) / 2.0,
        };
        let position = |mut i: i64| match options.padding {
            GridPadding::Zeros => (0..n).contains(&i).then_some(i),
            GridPadding::Border => Some(i.clamp(0, n - 1)),
            // Back and forth.
            GridPadding::Reflection => loop {
                let mirrored = i64::from(!options.align_corners);
                if i < 0 {
                    i = -mirrored - i;
                } else if i >= n {
                    i = 2 * (n - 1) + mirrored - i;
                } else {
                    return Some(i);
                }
            },
        };
        let before = place.floor() as i64;
        let keys = |d: f64| match d.abs() {
            d if d <= 1.0 => 1.25 * d.powi(3) - 2.25 * d.powi(2) + 1.0,
            d => -0.75 * (d.powi(3) - 5.0 * d.powi(2) + 8.0 * d - 4.0),
        };
        match options.mode {
            GridMode::Nearest => vec![(position(place.round() as i64), 1.0)],
            GridMode::Linear => [0, 1]
                .map(|at| {
                    (
                        position(before + at),
                        1.0 - (place - (before + at) as f64).abs(),
                    )
                })
                .to_vec(),
            GridMode::Cubic => [-1, 0, 1, 2]
                .map(|at| (position(before + at), keys(place - (before + at) as f64)))
                .to_vec(),
        }
    }
    let mut samples = Vec::new();
    for (i, mode) in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic]
        .into_iter()
        .enumerate()
    {
        let paddings = [
            GridPadding::Zeros,
            GridPadding::Border,
            GridPadding::Reflection,
        ];
        for (j, padding) in paddings.into_iter().enumerate() {
            let align_corners = (i + j) % 2 == 1;
            let options = GridSampleOptions {
                mode,
                padding,
                align_corners,
            };
            let sample = Sample::new(
                "grid_sample",
                move |x| vec![grid_sample(&x[0], &x[1], options)],
                move |x| {
                    let grid = x[1].to_vec::<f64>();
                    let mut y = Vec::new();
                    for place in grid.chunks(2) {
                        let (rows, columns) =
                            (taps(options, place[1], 3), taps(options, place[0], 4));
                        let mut sum = 0.0;
                        for (row, a) in rows {
                            for (column, b) in &columns {
                                if let (Some(row), Some(column)) = (row, column) {
                                    let index = [0, 0, row as usize, *column as usize];
                                    sum += a * b * x[0].element(&index).to_f64();
                                }
                            }
                        }
                        y.push(sum);
                    }
                    vec![Array::from_vec(y, [1, 1, 2])]
                },
            );
            // Places between two middles of elements, of which some are outside.
            let range = match (padding, align_corners) {
                (GridPadding::Border, _) => 0.05..0.3,
                (_, false) => 1.05..1.2,
                (_, true) => 1.1..1.3,
            };
            samples.push(
                sample
                    .input([1, 1, 3, 4], -2.0..2.0)
                    .input([1, 2, 2], range),
            );
        }
    }
    samples.push(
        Sample::new(
            "affine_grid",
            |x| vec![affine_grid(&x[0], [2, 3], false)],
            |x| {
                let theta = x[0].to_vec::<f64>();
                let mut grid = Vec::new();
                for theta in theta.chunks(6) {
                    for (row, column) in (0..6).map(|i| (i / 3, i % 3)) {
                        let (a, b) = (column as f64 * 2.0 / 3.0 - 2.0 / 3.0, row as f64 - 0.5);
                        grid.push(theta[0] * a + theta[1] * b + theta[2]);
                        grid.push(theta[3] * a + theta[4] * b + theta[5]);
                    }
                }
                vec![Array::from_vec(grid, [2, 2, 3, 2])]
            },
        )
        .input([2, 2, 3], -2.0..2.0),
    );
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::transformations::grad;

    const MODES: [GridMode; 3] = [GridMode::Nearest, GridMode::Linear, GridMode::Cubic];

    fn all_options() -> impl Iterator<Item = GridSampleOptions> {
        use GridPadding::{Border, Reflection, Zeros};
        let of_mode = |mode| {
            let options = GridSampleOptions::new().mode(mode);
            [Zeros, Border, Reflection].map(|padding| options.padding(padding))
        };
        MODES.into_iter().flat_map(of_mode)
    }

    #[test]
    fn the_same_grid_is_the_same_array() {
        let values = (0..24).map(f64::from).collect();
        let x = Variable::new(Array::from_vec(values, [1, 1, 2, 3, 4]));
        let mut same = [[0.0; 4]; 3];
        (0..3).for_each(|i| same[i][i] = 1.0);
        for align_corners in [false, true] {
            let grid = affine_grid(Variable::new([same]), [2, 3, 4], align_corners);
            for mode in MODES {
                let options = GridSampleOptions::new().mode(mode);
                let y = grid_sample(&x, &grid, options.align_corners(align_corners));
                let difference = (y - &x).abs().max(..).item::<f64>();
                assert!(difference < 1e-12, "{mode:?} {align_corners}: {difference}");
            }
        }
    }

    #[test]
    fn far_outside_nothing_is_nan() {
        let x = Variable::new([[[1.0, 2.0, 4.0]]]);
        let grid = Variable::new([[[1e30], [-1e30], [-1.0], [1.0]]]);
        for options in all_options() {
            let y = |grid: &Variable| grid_sample(&x, grid, options).sum(..);
            assert!(y(&grid).item::<f64>().is_finite(), "{options:?}");
            let slopes = grad(y, &grid).to_vec::<f64>();
            assert!(
                slopes.iter().all(|x| x.is_finite()),
                "{options:?}: {slopes:?}"
            );
        }
        // A single element is its own mirror image.
        let options = GridSampleOptions::new().padding(GridPadding::Reflection);
        let one = Variable::new([[[3.0]]]);
        let y = grid_sample(&one, &grid, options.align_corners(true));
        assert_eq!(y.to_vec::<f64>(), [3.0; 4]);
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[[1.0, 2.0, 4.0]]]);
        let error = attempt(|| grid_sample(&x, Variable::new([[[0.0, 0.0]]]), Default::default()));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("grid [n, .., axes] = [1, 1, 2] f64"),
            "{message}"
        );
        let error = attempt(|| affine_grid(&x, [2, 2], true)).unwrap_err();
        assert!(
            error.to_string().contains("theta must be [n, 2, 3]"),
            "{error}"
        );
    }

    #[test]
    fn a_place_that_is_not_a_number_is_passed_on() {
        let x = Variable::constant([[[5.0, 6.0, 7.0]]]);
        let grid = Variable::constant([[[f64::NAN], [0.0]]]);
        for options in all_options() {
            let y = grid_sample(&x, &grid, options).to_vec::<f64>();
            assert!(y[0].is_nan() && y[1] == 6.0, "{options:?}: {y:?}");
        }
    }
}
