//! Differences of higher order, derivatives and integrals of what is sampled along an axis.

use bibun_array::normalize_axis;

use super::scan::part;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::families::method;
use crate::functions::{Operand, cast, concat, cumsum, diff, reshape, sum, to_float};
use crate::variable::Variable;

/// Options of differences.
///
/// ```
/// use bibun::functions::DiffOptions;
/// assert_eq!(DiffOptions::new().order(2).order, 2);
/// ```
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// How many times differences are taken. Defaults to 1.
    pub order: usize,
    /// What is put before x first. Defaults to nothing.
    pub prepend: Option<Variable>,
    /// What is put behind x first. Defaults to nothing.
    pub append: Option<Variable>,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            order: 1,
            prepend: None,
            append: None,
        }
    }
}

impl DiffOptions {
    /// Creates the options with their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many times differences are taken. Defaults to 1.
    #[must_use]
    pub fn order(self, order: usize) -> Self {
        Self { order, ..self }
    }

    /// Sets what is put before x along the axis first. Defaults to nothing.
    #[must_use]
    pub fn prepend(self, values: impl Into<Variable>) -> Self {
        let prepend = Some(values.into());
        Self { prepend, ..self }
    }

    /// Sets what is put behind x along the axis first. Defaults to nothing.
    #[must_use]
    pub fn append(self, values: impl Into<Variable>) -> Self {
        let append = Some(values.into());
        Self { append, ..self }
    }
}

/// Computes the differences of neighbours along an axis several times; see [`diff`].
///
/// Shapes: x, and what is put around it, equal but for the axis → the same, with `order` elements less
/// along the axis of all together, and not less than 0.
/// Types: all, promoted; integers wrap around, bool counts as i64.
/// Gradient: that of the differences, with alternating signs.
///
/// Source: `numpy.diff`, `torch.diff`.
///
/// # Panics
/// Panics if there is no such axis, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::{DiffOptions, diff_with}, Variable};
/// let x = Variable::new([1.0, 4.0, 9.0]);
/// assert_eq!(diff_with(&x, 0, DiffOptions::new().order(2)).to_vec::<f64>(), [2.0]);
/// let y = diff_with(&x, 0, DiffOptions::new().prepend([0.0]));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 5.0]);
/// ```
#[track_caller]
pub fn diff_with(x: impl Into<Variable>, axis: isize, options: DiffOptions) -> Variable {
    let _whole = composite("diff");
    let x = x.into();
    let axis = normalize_axis("diff", axis, x.rank()) as isize;
    let DiffOptions {
        order,
        prepend,
        append,
    } = options;
    let parts: Vec<&Variable> = prepend.iter().chain([&x]).chain(&append).collect();
    let whole = if parts.len() > 1 {
        concat(&parts, axis)
    } else {
        x
    };
    // Differences of nothing are nothing.
    let order = order.min(whole.shape()[axis as usize]);
    (0..order).fold(whole, |x, _| diff(x, axis))
}
method!(diff_with, axis: isize, options: DiffOptions);

/// Computes the derivative along an axis from samples: inside by the parabola through an element and its
/// two neighbours, at both ends by the difference to the only neighbour. The spacing is a number, or the
/// coordinates of the samples.
///
/// Shapes: x any with at least 2 elements along the axis, spacing `[]` or a vector → as x. Types: floats,
/// promoted; integers give f64. Gradient: that of the formula, to x and the spacing.
///
/// Source: `numpy.gradient` with `edge_order=1`.
///
/// # Panics
/// Panics if there is no such axis, it has fewer than 2 elements, or the spacing does not fit.
///
/// ```
/// use bibun::{functions::gradient, Variable};
/// let x = Variable::new([1.0, 2.0, 4.0, 7.0]);
/// assert_eq!(gradient(&x, 1.0, 0).to_vec::<f64>(), [1.0, 1.5, 2.5, 3.0]);
/// assert_eq!(gradient(&x, [0.0, 1.0, 3.0, 4.0], 0).to_vec::<f64>(), [1.0, 1.0, 2.3333333333333335, 3.0]);
/// ```
#[track_caller]
pub fn gradient(x: impl Into<Variable>, spacing: impl Into<Operand>, axis: isize) -> Variable {
    let _whole = composite("gradient");
    slopes(x.into(), spacing.into(), axis, 1)
}

/// Computes the derivative along an axis from samples as [`gradient`] does, at both ends with an error of this order:
/// 1, by the difference to the neighbour, or 2, by the parabola through the first or last three elements.
///
/// Shapes: x any with more elements along the axis than the order, spacing `[]` or a vector → as x. Types: floats,
/// promoted; integers give f64. Gradient: that of the formula, to x and the spacing.
///
/// Source: `numpy.gradient` and `torch.gradient` with `edge_order`.
///
/// # Panics
/// Panics if there is no such axis, it has too few elements, the spacing does not fit, or the order is not 1 or 2.
///
/// ```
/// use bibun::{functions::gradient_with, Variable};
/// let x = Variable::new([1.0, 2.0, 4.0, 7.0]);
/// assert_eq!(gradient_with(&x, 1.0, 0, 2).to_vec::<f64>(), [0.5, 1.5, 2.5, 3.5]);
/// ```
#[track_caller]
pub fn gradient_with(
    x: impl Into<Variable>,
    spacing: impl Into<Operand>,
    axis: isize,
    edge_order: usize,
) -> Variable {
    let _whole = composite("gradient");
    if !(1..=2).contains(&edge_order) {
        let what = format!("the order at the edges is {edge_order}, it must be 1 or 2");
        raise(Error::argument("gradient", what));
    }
    slopes(x.into(), spacing.into(), axis, edge_order)
}

#[track_caller]
fn slopes(x: Variable, spacing: Operand, axis: isize, edge_order: usize) -> Variable {
    let [x, spacing] = floats(x, spacing);
    let axis = normalize_axis("gradient", axis, x.rank());
    let size = x.shape()[axis];
    if size <= edge_order {
        let least = edge_order + 1;
        let what = format!(
            "axis {axis} of x = {} has fewer than {least} elements",
            x.spec()
        );
        raise(Error::argument("gradient", what));
    }
    let steps = diff(&x, axis as isize);
    let distances = distances("gradient", &x, &spacing, axis);
    let slopes = &steps / &distances;
    if size == 2 {
        return concat([&slopes, &slopes], axis as isize);
    }
    // The mean of the slopes on both sides, each weighted by the distance on the other side.
    let pairs = |x: &Variable| {
        [(0, size - 2), (1, size - 1)].map(|(start, stop)| part(x, axis, start, stop))
    };
    let [left, right] = pairs(&slopes);
    // The share of the distance before in that of both.
    let share = (spacing.rank() > 0).then(|| {
        let [before, behind] = pairs(&distances);
        &before / (&before + behind)
    });
    let inside = match &share {
        // The element itself is not read: it may be large or not finite.
        None => {
            let [before, behind] =
                [(0, size - 2), (2, size)].map(|(start, stop)| part(&x, axis, start, stop));
            (behind - before) / (&spacing * 2.0)
        }
        Some(_) => {
            let [before, behind] = pairs(&distances);
            (&left * &behind + &right * &before) / (before + behind)
        }
    };
    let [mut first, mut last] = [0, size - 2].map(|at| part(&slopes, axis, at, at + 1));
    if edge_order == 2 {
        let bend = right - left;
        let at = |x: &Variable, i: usize| part(x, axis, i, i + 1);
        let [near, far] = match &share {
            None => [0, size - 3].map(|i| at(&bend, i) * 0.5),
            Some(share) => [
                at(&bend, 0) * at(share, 0),
                at(&bend, size - 3) * (1.0 - at(share, size - 3)),
            ],
        };
        (first, last) = (first - near, last + far);
    }
    concat([&first, &inside, &last], axis as isize)
}

/// Computes the integral along an axis from samples by the trapezoidal rule. The spacing is a number, or
/// the coordinates of the samples.
///
/// Shapes: x any, spacing `[]`, a vector or as x → without the axis. Types: floats, promoted; integers
/// give f64. Gradient: that of the sum, to x and the spacing.
///
/// Source: `numpy.trapezoid`, `torch.trapezoid`.
///
/// # Panics
/// Panics if there is no such axis, or the spacing does not fit.
///
/// ```
/// use bibun::{functions::trapezoid, Variable};
/// let x = Variable::new([1.0, 2.0, 4.0]);
/// assert_eq!(trapezoid(&x, 1.0, 0).item::<f64>(), 4.5);
/// assert_eq!(trapezoid(&x, [0.0, 2.0, 3.0], 0).item::<f64>(), 6.0);
/// ```
#[track_caller]
pub fn trapezoid(x: impl Into<Variable>, spacing: impl Into<Operand>, axis: isize) -> Variable {
    let _whole = composite("trapezoid");
    sum(areas("trapezoid", x.into(), spacing.into(), axis), axis)
}
method!(trapezoid, spacing: impl Into<Operand>, axis: isize);

/// Computes the running integrals along an axis from samples by the trapezoidal rule: from the first
/// element to the second, to the third, and so on. The spacing is a number, or the coordinates of the
/// samples.
///
/// Shapes: x any, spacing `[]`, a vector or as x → the same as x, with one element less along the axis;
/// none stay none. Types: floats, promoted; integers give f64. Gradient: that of the sums, to x and the
/// spacing.
///
/// Source: `torch.cumulative_trapezoid`, `scipy.integrate.cumulative_trapezoid`.
///
/// # Panics
/// Panics if there is no such axis, or the spacing does not fit.
///
/// ```
/// use bibun::{functions::cumulative_trapezoid, Variable};
/// let x = Variable::new([1.0, 2.0, 4.0]);
/// assert_eq!(cumulative_trapezoid(&x, 1.0, 0).to_vec::<f64>(), [1.5, 4.5]);
/// ```
#[track_caller]
pub fn cumulative_trapezoid(
    x: impl Into<Variable>,
    spacing: impl Into<Operand>,
    axis: isize,
) -> Variable {
    let _whole = composite("cumulative_trapezoid");
    cumsum(
        areas("cumulative_trapezoid", x.into(), spacing.into(), axis),
        axis,
    )
}
method!(cumulative_trapezoid, spacing: impl Into<Operand>, axis: isize);

/// Returns both as floats of one dtype.
#[track_caller]
fn floats(x: Variable, spacing: Operand) -> [Variable; 2] {
    let x = to_float(x);
    let spacing = to_float(spacing.beside(x.dtype()));
    let dtype = x.dtype().promote(spacing.dtype());
    [cast(x, dtype), cast(spacing, dtype)]
}

/// Returns the areas between neighbours.
#[track_caller]
fn areas(function: &'static str, x: Variable, spacing: Operand, axis: isize) -> Variable {
    let [x, spacing] = floats(x, spacing);
    let axis = normalize_axis(function, axis, x.rank());
    let size = x.shape()[axis];
    let distances = distances(function, &x, &spacing, axis);
    let [before, behind] = [(0, size.saturating_sub(1)), (1.min(size), size)]
        .map(|(start, stop)| part(&x, axis, start, stop));
    (before + behind) * distances * 0.5
}

/// Returns the distances between the samples along an axis, which broadcast to x.
#[track_caller]
fn distances(function: &'static str, x: &Variable, spacing: &Variable, axis: usize) -> Variable {
    let (shape, own) = (x.shape(), spacing.shape());
    if own.rank() == 0 {
        return spacing.clone();
    }
    if own == shape {
        return diff(spacing, axis as isize);
    }
    if own != [shape[axis]] {
        let inputs = [("x", &x.spec()), ("spacing", &spacing.spec())];
        let must_hold = format!("spacing must be a number or the coordinates along axis {axis}");
        mismatch(function, &inputs, must_hold)
    }
    let mut aligned = vec![1; shape.rank()];
    aligned[axis] = own[0];
    diff(reshape(spacing, aligned), axis as isize)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::along_axis;
    let range = -2.0..2.0;
    let slopes = |x: &[f64], at: &[f64]| -> Vec<f64> {
        let last = x.len() - 1;
        let slope = |i: usize| (x[i + 1] - x[i]) / (at[i + 1] - at[i]);
        let inside = |i: usize| {
            let (before, behind) = (at[i] - at[i - 1], at[i + 1] - at[i]);
            let sum = before * before * x[i + 1] + (behind * behind - before * before) * x[i]
                - behind * behind * x[i - 1];
            sum / (before * behind * (before + behind))
        };
        let all = (0..=last).map(|i| match i {
            0 => slope(0),
            i if i == last => slope(last - 1),
            i => inside(i),
        });
        all.collect()
    };
    let sums = |x: &[f64], at: &[f64]| -> Vec<f64> {
        let mut total = 0.0;
        let mut next = |i: usize| {
            total += (x[i] + x[i + 1]) / 2.0 * (at[i + 1] - at[i]);
            total
        };
        (0..x.len() - 1).map(&mut next).collect()
    };
    let even = |x: &[f64]| (0..x.len()).map(|i| i as f64 * 0.5).collect::<Vec<f64>>();
    vec![
        Sample::new(
            "diff_with",
            |x| {
                let options = DiffOptions::new().order(2).prepend(&x[1]);
                vec![diff_with(&x[0], 1, options)]
            },
            |x| {
                let whole = bibun_array::concat(&[&x[1], &x[0]], 1);
                vec![along_axis(&whole, 1, |x| {
                    x.windows(3).map(|x| x[2] - 2.0 * x[1] + x[0]).collect()
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 2], range.clone()),
        Sample::new(
            "gradient",
            |x| vec![gradient(&x[0], 0.5, 0)],
            move |x| vec![along_axis(&x[0], 0, |x| slopes(x, &even(x)))],
        )
        .input([4, 2], range.clone()),
        Sample::new(
            "gradient",
            |x| vec![gradient(&x[0], &x[1], -1)],
            move |x| {
                let at = x[1].to_vec::<f64>();
                vec![along_axis(&x[0], 1, |x| slopes(x, &at))]
            },
        )
        .input([2, 3], range.clone())
        .input([3], range.clone()),
        Sample::new(
            "gradient",
            |x| vec![gradient(&x[0], &x[1], 0)],
            |x| {
                let step = x[1].item::<f64>();
                vec![along_axis(&x[0], 0, |x| vec![(x[1] - x[0]) / step; 2])]
            },
        )
        .input([2], range.clone())
        .input((), 0.5..2.0),
        Sample::new(
            "gradient_with",
            |x| vec![gradient_with(&x[0], &x[1], 1, 2)],
            |x| {
                let at = x[1].to_vec::<f64>();
                // The slope at one place of the parabola through three points.
                let slope = |x: &[f64], i: usize, t: f64| {
                    (0..3)
                        .map(|own| {
                            let [a, b] = [(own + 1) % 3, (own + 2) % 3].map(|j| at[i + j]);
                            let own_at = at[i + own];
                            x[i + own] * (2.0 * t - a - b) / ((own_at - a) * (own_at - b))
                        })
                        .sum::<f64>()
                };
                vec![along_axis(&x[0], 1, |x| {
                    let places = [(0, 0), (0, 1), (1, 2), (1, 3)];
                    let y = places.map(|(start, i)| slope(x, start, at[i]));
                    y.to_vec()
                })]
            },
        )
        .input([2, 4], range.clone())
        .input([4], range.clone()),
        Sample::new(
            "gradient_with",
            |x| vec![gradient_with(&x[0], 0.5, 0, 2)],
            |x| {
                vec![along_axis(&x[0], 0, |x| {
                    vec![
                        -3.0 * x[0] + 4.0 * x[1] - x[2],
                        x[2] - x[0],
                        3.0 * x[2] - 4.0 * x[1] + x[0],
                    ]
                })]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "trapezoid",
            |x| vec![trapezoid(&x[0], &x[1], 1)],
            move |x| {
                let at = x[1].to_vec::<f64>();
                let y = along_axis(&x[0], 1, |x| vec![sums(x, &at)[2]]);
                vec![y.reshape([2])]
            },
        )
        .input([2, 4], range.clone())
        .input([4], range.clone()),
        Sample::new(
            "cumulative_trapezoid",
            |x| vec![cumulative_trapezoid(&x[0], 0.5, 0)],
            move |x| vec![along_axis(&x[0], 0, |x| sums(x, &even(x)))],
        )
        .input([3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::{Array, DType};

    #[test]
    fn the_slope_between_neighbours_does_not_read_the_element_itself() {
        for middle in [1e20, f64::NAN, f64::INFINITY] {
            let slopes = gradient(Variable::new([0.0, middle, 1.0]), 1.0, 0);
            assert_eq!(slopes.to_vec::<f64>()[1], 0.5);
        }
    }

    #[test]
    fn short_axes() {
        let one = Variable::new([5.0]);
        assert_eq!(trapezoid(&one, 1.0, 0).item::<f64>(), 0.0);
        assert_eq!(cumulative_trapezoid(&one, 1.0, 0).shape(), [0]);
        assert!(attempt(|| gradient(&one, 1.0, 0)).is_err());
        let none = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(trapezoid(&none, 1.0, 1).to_vec::<f64>(), [0.0, 0.0]);
        let x = Variable::constant([1i64, 4, 9, 16]);
        assert_eq!(
            diff_with(&x, 0, DiffOptions::new().order(0)).to_vec::<i64>(),
            [1, 4, 9, 16]
        );
        assert_eq!(diff_with(&x, 0, DiffOptions::new().order(7)).shape(), [0]);
        assert_eq!(
            diff_with(&x, 0, DiffOptions::new().append([25i64])).to_vec::<i64>(),
            [3, 5, 7, 9]
        );
        assert_eq!(gradient(&x, 1, 0).to_vec::<f64>(), [3.0, 4.0, 6.0, 7.0]);
        assert!(attempt(|| trapezoid(&x, [1.0, 2.0], 0)).is_err());
    }
}
