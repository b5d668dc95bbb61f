//! Order statistics: quantiles, medians and the most frequent element.

use bibun_array::{Array, Axes, DType, keep_dims, normalize_axis};
use smallvec::SmallVec;

use super::reduction::Over;
use super::scan::part;
use crate::call::composite;
use crate::error::mismatch;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{
    Operand, argmax, argsort, cast, ceil, concat, constant_beside, cummax, equal, expand_dims,
    floor, full_like, gather, is_finite, is_nan, logical_and, logical_not, maximum, minimum,
    moveaxis, not_equal, permute, remainder, reshape, round, sort, sum, to_float_of, where_,
    zeros_like,
};
use crate::variable::Variable;

/// Computes quantiles over axes: the value below which the fraction `q` of the elements lies, by linear
/// interpolation between the two elements around it in their order. NaN if any element is NaN.
///
/// Shapes: x any, q `[]` or `[k]` → `[..]` or `[k, ..]`, without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: x floats; integers and bools give f64; q numbers.
/// Gradient: `gy` to the two elements, by their weights in the interpolation; of equal elements to the
/// first in the order of [`argsort`]. That of q is the difference of the two elements times the number of
/// steps.
///
/// Source: `numpy.quantile` and `torch.quantile` with the method "linear".
///
/// # Panics
/// Panics if there are no elements, there is no such axis, or q is not between 0 and 1.
///
/// ```
/// use bibun::{functions::quantile, Variable};
/// let x = Variable::new([[5.0, 1.0, 2.0], [0.0, 4.0, 8.0]]);
/// assert_eq!(quantile(&x, 0.75, 1).to_vec::<f64>(), [3.5, 6.0]);
/// assert_eq!(quantile(&x, [0.0, 1.0], ..).to_vec::<f64>(), [0.0, 8.0]);
/// ```
#[track_caller]
pub fn quantile(x: impl Into<Variable>, q: impl Into<Operand>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("quantile");
    quantiles(
        "quantile",
        x.into(),
        q.into(),
        &axes.into(),
        false,
        QuantileMethod::Linear,
    )
}
method!(quantile, q: impl Into<Operand>, axes: impl Into<Axes>);

/// How a quantile is found from the elements around it in their order: NumPy's methods, of which nine are those of
/// R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", 1996, with their numbers there. `n` is the
/// number of elements, and elements are counted from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QuantileMethod {
    /// The place `1 + (n - 1) q` between two elements, by linear interpolation: number 7.
    #[default]
    Linear,
    /// The lower of the two.
    Lower,
    /// The higher of the two.
    Higher,
    /// Their mean.
    Midpoint,
    /// The nearer of the two; the one at an even distance from the first if it is in the middle.
    Nearest,
    /// The smallest element that so many are not above: number 1.
    InvertedCdf,
    /// Number 1, but the mean of two elements where the fraction is met exactly: number 2.
    AveragedInvertedCdf,
    /// The element that is nearest to the place `n q`: number 3.
    ClosestObservation,
    /// The place `n q`: number 4.
    InterpolatedInvertedCdf,
    /// The place `n q + 1/2`: number 5.
    Hazen,
    /// The place `(n + 1) q`: number 6.
    Weibull,
    /// The place `(n + 1/3) q + 1/3`: number 8.
    MedianUnbiased,
    /// The place `(n + 1/4) q + 3/8`: number 9.
    NormalUnbiased,
}

/// The two elements of each line by their places from zero on, and the weight of the second.
struct Between {
    low: Variable,
    high: Variable,
    weight: Variable,
}

impl Between {
    /// Places of one element.
    fn only(place: Variable) -> Self {
        let weight = zeros_like(&place);
        Self {
            low: place.clone(),
            high: place,
            weight,
        }
    }

    fn interpolated(place: Variable) -> Self {
        let [low, high] = [floor(place.detach()), ceil(place.detach())];
        let weight = place - &low;
        Self { low, high, weight }
    }
}

impl QuantileMethod {
    /// Finds the places of a fraction among one more than so many elements.
    fn between(self, steps: &Variable, q: &Variable) -> Between {
        let inside = |place: Variable| minimum(maximum(place, 0.0), steps);
        let count = || steps + 1.0;
        // The place n q + a + q (1 - 2 a), from one on.
        let continuous = |a: f64| {
            let place = count() * q + (a - 1.0) + q * (1.0 - 2.0 * a);
            Between::interpolated(inside(place))
        };
        let linear = || steps * q;
        match self {
            Self::Linear => Between::interpolated(linear()),
            Self::Lower => Between::only(floor(linear().detach())),
            Self::Higher => Between::only(ceil(linear().detach())),
            Self::Nearest => Between::only(round(linear().detach())),
            Self::Midpoint => {
                let Between { low, high, weight } = Between::interpolated(linear().detach());
                let weight = full_like(&weight, 0.5);
                Between { low, high, weight }
            }
            Self::InvertedCdf => Between::only(inside(ceil((count() * q).detach()) - 1.0)),
            Self::AveragedInvertedCdf => {
                let reached = (count() * q).detach();
                let [low, high] = [ceil(&reached) - 1.0, floor(&reached)].map(inside);
                let weight = full_like(&low, 0.5);
                Between { low, high, weight }
            }
            Self::ClosestObservation => {
                let reached = (count() * q).detach() - 0.5;
                let below = floor(&reached);
                let is_met =
                    logical_and(equal(&reached, &below), equal(remainder(&below, 2.0), 0.0));
                Between::only(inside(where_(is_met, &below - 1.0, &below)))
            }
            Self::InterpolatedInvertedCdf => Between::interpolated(inside(count() * q - 1.0)),
            Self::Hazen => continuous(0.5),
            Self::Weibull => continuous(0.0),
            Self::MedianUnbiased => continuous(1.0 / 3.0),
            Self::NormalUnbiased => continuous(0.375),
        }
    }
}

/// Computes quantiles over axes as [`quantile`] does, by one of NumPy's [methods](QuantileMethod).
///
/// Shapes: x any, q `[]` or `[k]` → `[..]` or `[k, ..]`, without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: x floats; integers and bools give f64; q numbers.
/// Gradient: `gy` to the elements by their weights; to q where the method interpolates linearly.
///
/// Source: `numpy.quantile` with `method`; `torch.quantile` has the first five.
///
/// # Panics
/// Panics if there are no elements, there is no such axis, or q is not between 0 and 1.
///
/// ```
/// use bibun::{functions::{quantile_with, QuantileMethod}, Variable};
/// let x = Variable::new([5.0, 1.0, 2.0, 4.0]);
/// assert_eq!(quantile_with(&x, 0.5, 0, QuantileMethod::Lower).item::<f64>(), 2.0);
/// assert_eq!(quantile_with(&x, 0.25, 0, QuantileMethod::Hazen).item::<f64>(), 1.5);
/// ```
#[track_caller]
pub fn quantile_with(
    x: impl Into<Variable>,
    q: impl Into<Operand>,
    axes: impl Into<Axes>,
    method: QuantileMethod,
) -> Variable {
    let _whole = composite("quantile");
    quantiles("quantile", x.into(), q.into(), &axes.into(), false, method)
}
method!(quantile_with, q: impl Into<Operand>, axes: impl Into<Axes>, method: QuantileMethod);

/// Computes quantiles over axes as [`quantile`] does, of the elements that are not NaN. NaN if there are
/// none.
///
/// Shapes: x any, q `[]` or `[k]` → `[..]` or `[k, ..]`, without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: x floats; integers and bools give f64; q numbers.
/// Gradient: that of [`quantile`]; 0 to NaN.
///
/// Source: `numpy.nanquantile`, `torch.nanquantile`.
///
/// # Panics
/// Panics if there are no elements, there is no such axis, or q is not between 0 and 1.
///
/// ```
/// use bibun::{functions::nanquantile, Variable};
/// let x = Variable::new([5.0, f64::NAN, 1.0]);
/// assert_eq!(nanquantile(&x, 0.75, 0).item::<f64>(), 4.0);
/// ```
#[track_caller]
pub fn nanquantile(
    x: impl Into<Variable>,
    q: impl Into<Operand>,
    axes: impl Into<Axes>,
) -> Variable {
    let _whole = composite("nanquantile");
    quantiles(
        "nanquantile",
        x.into(),
        q.into(),
        &axes.into(),
        true,
        QuantileMethod::Linear,
    )
}
method!(nanquantile, q: impl Into<Operand>, axes: impl Into<Axes>);

/// Computes the median over axes: the element in the middle of their order, or the mean of the two in the
/// middle. NaN if any element is NaN.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `gy` to the element in the middle, or half to each of the two.
///
/// Source: `numpy.median`; `torch.median` is the lower of the two.
///
/// # Panics
/// Panics if there are no elements, or there is no such axis.
///
/// ```
/// use bibun::{functions::median, Variable};
/// let x = Variable::new([[5.0, 1.0, 2.0], [0.0, 4.0, 8.0]]);
/// assert_eq!(median(&x, 1).to_vec::<f64>(), [2.0, 4.0]);
/// assert_eq!(median(&x, ..).item::<f64>(), 3.0);
/// ```
#[track_caller]
pub fn median(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("median");
    quantiles(
        "median",
        x.into(),
        0.5.into(),
        &axes.into(),
        false,
        QuantileMethod::Linear,
    )
}
method!(median, axes: impl Into<Axes>);

/// Computes the median over axes as [`median`] does, of the elements that are not NaN. NaN if there are
/// none.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: that of [`median`]; 0 to NaN.
///
/// Source: `numpy.nanmedian`; `torch.nanmedian` is the lower of the two.
///
/// # Panics
/// Panics if there are no elements, or there is no such axis.
///
/// ```
/// use bibun::{functions::nanmedian, Variable};
/// assert_eq!(nanmedian(&Variable::new([5.0, f64::NAN, 1.0]), 0).item::<f64>(), 3.0);
/// ```
#[track_caller]
pub fn nanmedian(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nanmedian");
    quantiles(
        "nanmedian",
        x.into(),
        0.5.into(),
        &axes.into(),
        true,
        QuantileMethod::Linear,
    )
}
method!(nanmedian, axes: impl Into<Axes>);

#[track_caller]
fn quantiles(
    function: &'static str,
    x: Variable,
    q: Operand,
    axes: &Axes,
    without_nan: bool,
    method: QuantileMethod,
) -> Variable {
    let x = to_float_of(function, x);
    let q = to_float_of(function, q.beside(DType::F64));
    if q.rank() > 1 {
        mismatch(
            function,
            &[("q", &q.spec())],
            "it must be a number or a vector",
        )
    }
    let _ = Discrete::of(Fraction(function), [q.detach()]);
    let over = Over::new(function, axes, &x);
    let shape = x.shape();
    if over.count(&shape) == 0 {
        let must_hold = format!("there must be something over axes {:?}", over.axes);
        mismatch(function, &[("x", &x.spec())], must_hold)
    }
    // All axes are merged into one, which comes last.
    let kept = (0..shape.rank()).filter(|axis| !over.axes.contains(axis));
    let order = kept
        .chain(over.axes.iter().copied())
        .map(|axis| axis as isize);
    let order: SmallVec<[isize; 4]> = order.collect();
    let lines = shape.reduced(&over.axes, false);
    let (last, size) = (lines.rank(), over.count(&shape));
    let x = sort(reshape(permute(x, &order), lines.inserted(last, size)), -1);
    let of_nan = is_nan(&x);
    let steps = match without_nan {
        true => sum(cast(logical_not(&of_nan), DType::F64), keep_dims(-1)) - 1.0,
        false => constant_beside(
            &[&x],
            Array::full(lines.inserted(last, 1), (size - 1) as f64),
        ),
    };
    // Where there is nothing but NaN, this is taken.
    let steps = maximum(steps, 0.0);
    let count = q.size();
    let Between { low, high, weight } = method.between(&steps, &reshape(&q, count));
    let weight = cast(weight, x.dtype().accumulator());
    let [low, high] = [low, high].map(|place| {
        let element = gather(&x, cast(place, DType::I64), -1);
        cast(element, x.dtype().accumulator())
    });
    let way = &high - &low;
    let is_finite = is_finite(&way);
    let near = &low + where_(&is_finite, way, 0.0) * &weight;
    // Where the way is infinite: between infinities, or finite numbers that are far apart.
    let far = &low * (1.0 - &weight) + high * &weight;
    let far = where_(equal(weight, 0.0), &low, far);
    let mut y = cast(where_(is_finite, near, far), x.dtype());
    if !without_nan {
        let last = part(&x, last, size - 1, size);
        y = where_(is_nan(&last), &last, y);
    }
    let reduced = over.reduced(&shape);
    match q.rank() {
        0 => reshape(y, reduced),
        _ => reshape(moveaxis(y, -1, 0), reduced.inserted(0, count)),
    }
}

/// Numbers, after a check that they are between 0 and 1.
#[derive(Clone, Debug)]
struct Fraction(&'static str);

impl DiscreteRule for Fraction {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "fraction"
    }
    fn shape(&self, [q]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&q.shape, DType::I64))
    }
    fn forward(&self, [q]: [Array; 1]) -> Array {
        let is_inside = q.greater_equal(0.0) & q.less_equal(1.0);
        let is_outside = is_inside.logical_not().cast(DType::I64);
        is_outside.expect_between(self.0, 0..1, |_| "q must be between 0 and 1".to_owned());
        is_outside
    }
}

/// Returns the most frequent element along an axis, the smallest of equally frequent ones, and the
/// position of its last occurrence. NaN counts as larger than all numbers and equal to itself.
///
/// Shapes: x any → without the axis, twice. Types: all; positions are i64.
/// Gradient: `gy` at the position; the positions have none.
///
/// Source: `torch.mode`.
///
/// # Panics
/// Panics if there is no such axis, or there are no elements along it.
///
/// ```
/// use bibun::{functions::mode, Variable};
/// let x = Variable::new([[3.0, 1.0, 3.0, 1.0, 2.0], [5.0, 5.0, 0.0, 5.0, 0.0]]);
/// let (y, positions) = mode(&x, 1);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 5.0]);
/// assert_eq!(positions.to_vec::<i64>(), [3, 3]);
/// ```
#[track_caller]
pub fn mode(x: impl Into<Variable>, axis: isize) -> (Variable, Variable) {
    let _whole = composite("mode");
    let x = x.into();
    let axis = normalize_axis("mode", axis, x.rank());
    let (own, shape) = (axis as isize, x.shape());
    let size = shape[axis];
    if size == 0 {
        let must_hold = format!("there must be something along axis {axis}");
        mismatch("mode", &[("x", &x.spec())], must_hold)
    }
    let order = argsort(&x, own);
    let sorted = gather(x.detach(), &order, own);
    let [before, behind] =
        [(0, size - 1), (1, size)].map(|(start, stop)| part(&sorted, axis, start, stop));
    let is_new = logical_and(
        not_equal(&before, &behind),
        logical_not(logical_and(is_nan(&before), is_nan(&behind))),
    );
    // The length of the run of equal elements so far.
    let mut aligned = vec![1; shape.rank()];
    aligned[axis] = size;
    let places = constant_beside(&[&x], Array::arange(0, size as i64).reshape(aligned));
    let starts = where_(is_new, part(&places, axis, 1, size), 0);
    let first = Variable::constant(Array::zeros(shape.replaced(axis, 1), DType::I64));
    let (starts, _) = cummax(concat([&first, &starts], own), own);
    let best = expand_dims(argmax(places - starts, own), own);
    let positions = gather(order, best, own);
    let y = gather(x, &positions, own);
    let reduced = shape.removed(axis);
    (reshape(y, &reduced), reshape(positions, reduced))
}
method!(mode -> (Self, Self), axis: isize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use crate::functions::{along_axis, over_axes, reduction_samples};
    let at = |x: &[f64], q: f64| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        let place = q * (x.len() - 1) as f64;
        let low = place.floor() as usize;
        let high = (low + 1).min(x.len() - 1);
        x[low] + (x[high] - x[low]) * (place - low as f64)
    };
    let mut samples = [
        reduction_samples(
            "quantile",
            -2.0..2.0,
            |x, axes| quantile(x, 0.3, axes),
            move |x| at(x, 0.3),
        ),
        reduction_samples(
            "median",
            -2.0..2.0,
            |x, axes| median(x, axes),
            move |x| at(x, 0.5),
        ),
        reduction_samples(
            "nanmedian",
            -2.0..2.0,
            |x, axes| nanmedian(x, axes),
            move |x| at(x, 0.5),
        ),
    ]
    .concat();
    samples.extend([
        // The fractions have derivatives, too.
        Sample::new(
            "quantile",
            |x| vec![quantile(&x[0], &x[1], keep_dims(1))],
            move |x| {
                let rows = x[1].to_vec::<f64>().into_iter();
                let rows = rows.map(|q| over_axes(&x[0], &[1], true, |x| at(x, q)));
                let rows: Vec<Array> = rows.collect();
                vec![bibun_array::stack(&rows.iter().collect::<Vec<_>>(), 0)]
            },
        )
        .input([2, 4], -2.0..2.0)
        .input([2], 0.4..0.6),
        Sample::new(
            "quantile_with",
            |x| vec![quantile_with(&x[0], &x[1], 1, QuantileMethod::Hazen)],
            |x| {
                let q = x[1].item::<f64>();
                vec![over_axes(&x[0], &[1], false, |x| {
                    let mut x = x.to_vec();
                    x.sort_by(f64::total_cmp);
                    let place = x.len() as f64 * q - 0.5;
                    let low = place.floor() as usize;
                    x[low] + (x[low + 1] - x[low]) * (place - low as f64)
                })]
            },
        )
        .input([2, 4], -2.0..2.0)
        .input((), 0.4..0.6),
        Sample::new(
            "quantile_with",
            |x| vec![quantile_with(&x[0], 0.4, 1, QuantileMethod::Midpoint)],
            |x| {
                vec![over_axes(&x[0], &[1], false, |x| {
                    let mut x = x.to_vec();
                    x.sort_by(f64::total_cmp);
                    (x[1] + x[2]) / 2.0
                })]
            },
        )
        .input([2, 4], -2.0..2.0),
        Sample::new(
            "nanquantile",
            |x| {
                let kept = beside(x, [[true, false, true, true], [false, true, true, false]]);
                vec![nanquantile(kept.where_(&x[0], f64::NAN), 0.7, 1)]
            },
            move |x| {
                let x = x[0].to_vec::<f64>();
                let y = [at(&[x[0], x[2], x[3]], 0.7), at(&[x[5], x[6]], 0.7)];
                vec![Array::from(y)]
            },
        )
        .input([2, 4], -2.0..2.0),
        Sample::new(
            "mode",
            |x| {
                // The second element is there twice.
                let (y, _) = mode(concat([&x[0], &part(&x[0], 1, 1, 2)], 1), 1);
                vec![y]
            },
            |x| vec![along_axis(&x[0], 1, |x| vec![x[1]]).reshape([2])],
        )
        .input([2, 3], -2.0..2.0),
    ]);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, gradients};

    #[test]
    fn nan_and_infinity() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let x = Variable::new([[1.0, nan, 3.0], [nan, nan, nan], [-infinity, 2.0, infinity]]);
        let y = quantile(&x, [0.0, 0.5, 1.0], 1).to_vec::<f64>();
        assert!(y[0].is_nan() && y[1].is_nan() && y[4].is_nan());
        assert_eq!([y[2], y[5], y[8]], [-infinity, 2.0, infinity]);
        let y = nanquantile(&x, 0.5, 1);
        let found = y.to_vec::<f64>();
        assert!(found[0] == 2.0 && found[1].is_nan() && found[2] == 2.0);
        let gx = gradients(&[&y.slice(crate::s![..; 2]).sum(..)], &[&x]);
        let expected = [0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        assert_eq!(gx[0].as_ref().unwrap().to_vec::<f64>(), expected);
    }

    /// NumPy's numbers.
    #[test]
    fn all_methods() {
        use QuantileMethod::*;
        let x = Variable::new([3.0, 1.0, 7.0, 4.0, 9.0, 2.0]);
        let known = [
            (Linear, [1.0, 2.25, 2.5, 3.5, 8.0, 9.0]),
            (Lower, [1.0, 2.0, 2.0, 3.0, 7.0, 9.0]),
            (Higher, [1.0, 3.0, 3.0, 4.0, 9.0, 9.0]),
            (Midpoint, [1.0, 2.5, 2.5, 3.5, 8.0, 9.0]),
            (Nearest, [1.0, 2.0, 3.0, 3.0, 7.0, 9.0]),
            (InvertedCdf, [1.0, 2.0, 2.0, 3.0, 9.0, 9.0]),
            (AveragedInvertedCdf, [1.0, 2.0, 2.0, 3.5, 9.0, 9.0]),
            (ClosestObservation, [1.0, 2.0, 2.0, 3.0, 7.0, 9.0]),
            (InterpolatedInvertedCdf, [1.0, 1.5, 1.8, 3.0, 7.8, 9.0]),
            (Hazen, [1.0, 2.0, 2.3, 3.5, 8.8, 9.0]),
            (Weibull, [1.0, 1.75, 2.1, 3.5, 9.0, 9.0]),
            (
                MedianUnbiased,
                [1.0, 23.0 / 12.0, 67.0 / 30.0, 3.5, 9.0, 9.0],
            ),
            (NormalUnbiased, [1.0, 1.9375, 2.25, 3.5, 9.0, 9.0]),
        ];
        for (method, expected) in known {
            let y = quantile_with(&x, [0.0, 0.25, 0.3, 0.5, 0.9, 1.0], 0, method);
            for (found, expected) in y.to_vec::<f64>().into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-13, "{method:?}: {y:?}");
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let x = Variable::new([1.0, 2.0]);
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        assert!(message(&|| quantile(&x, 1.5, 0)).contains("q must be between 0 and 1"));
        assert!(message(&|| quantile(&x, [0.5, f64::NAN], 0)).contains("quantile: q must be"));
        assert!(message(&|| quantile(&x, [[0.5]], 0)).contains("a number or a vector"));
        let none = Variable::new(Array::zeros([0, 2], DType::F64));
        assert!(message(&|| median(&none, 0)).contains("something over axes [0]"));
        assert_eq!(median(&none, 1).shape(), [0]);
        assert!(attempt(|| mode(&none, 0)).is_err());
        assert_eq!(mode(&none, 1).0.shape(), [0]);
        assert_eq!(median([1i64, 2], 0).item::<f64>(), 1.5);
        assert_eq!(median(7.0, ..).item::<f64>(), 7.0);
        assert_eq!(
            quantile(Variable::new([1.0f32, 2.0]), 0.5, 0).dtype(),
            DType::F32
        );
    }

    #[test]
    fn frequent_nan_and_bools() {
        let nan = f64::NAN;
        let (y, positions) = mode(Variable::new([nan, 1.0, nan, 2.0]), 0);
        assert!(y.item::<f64>().is_nan());
        assert_eq!(positions.item::<i64>(), 2);
        let (y, positions) = mode([true, false, true], 0);
        assert_eq!((y.item::<bool>(), positions.item::<i64>()), (true, 2));
    }

    #[test]
    fn between_an_infinity_and_a_number() {
        let infinity = f64::INFINITY;
        let of = |x: [f64; 3], q: f64| quantile(x, q, 0).item::<f64>();
        assert_eq!(median([-infinity, 1.0], 0).item::<f64>(), -infinity);
        assert_eq!(
            nanmedian([-infinity, f64::NAN, 1.0], 0).item::<f64>(),
            -infinity
        );
        assert_eq!(of([-infinity, 1.0, 2.0], 0.25), -infinity);
        assert_eq!(of([-infinity, 1.0, 2.0], 0.5), 1.0);
        assert_eq!(of([1.0, 2.0, infinity], 0.75), infinity);
        assert_eq!(of([1.0, 2.0, infinity], 0.5), 2.0);
        assert_eq!(of([-infinity, -infinity, 0.0], 0.1), -infinity);
        assert!(of([-infinity, infinity, infinity], 0.25).is_nan());
        let end = 2f64.powi(1023);
        assert_eq!(of([-end, end, f64::MAX], 0.125), -end / 2.0);
    }
}
