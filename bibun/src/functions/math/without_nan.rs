//! Reductions of the elements that are not NaN.

use bibun_array::Axes;

use super::reduction::Over;
use crate::call::composite;
use crate::functions::families::method;
use crate::functions::{
    all, cast, cumprod, cumsum, in_accumulator, is_nan, logical_not, max, min, norm, prod, reshape,
    sqrt, square, sum, to_float, where_,
};
use crate::variable::Variable;

/// Sums the elements that are not NaN over axes. The sum of none is 0.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: all; integers and bools are added up as i64.
/// Gradient: `gy` to each element, 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nansum, Variable};
/// assert_eq!(nansum(&Variable::new([1.0, f64::NAN, 2.0]), ..).item::<f64>(), 3.0);
/// ```
#[track_caller]
pub fn nansum(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nansum");
    let x = x.into();
    sum(filled(&x, 0.0), axes)
}
method!(nansum, axes: impl Into<Axes>);

/// Computes the mean of the elements that are not NaN over axes. The mean of none is NaN.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `gy / n` to each of n elements, 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nanmean, Variable};
/// assert_eq!(nanmean(&Variable::new([1.0, f64::NAN, 2.0]), ..).item::<f64>(), 1.5);
/// ```
#[track_caller]
pub fn nanmean(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nanmean");
    let (x, axes) = (to_float(x.into()), axes.into());
    in_accumulator(x, |x| {
        let count = count_of("nanmean", &x, axes.clone());
        sum(filled(&x, 0.0), axes) / count
    })
}
method!(nanmean, axes: impl Into<Axes>);

/// Computes the variance of the n elements that are not NaN over axes, `Σ (x - mean)² / (n - ddof)`. NaN
/// if there are not more than `ddof`.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `2 gy (x - mean) / (n - ddof)`, 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nanvar, Variable};
/// assert_eq!(nanvar(&Variable::new([1.0, f64::NAN, 2.0]), .., 1).item::<f64>(), 0.5);
/// ```
#[track_caller]
pub fn nanvar(x: impl Into<Variable>, axes: impl Into<Axes>, ddof: impl Into<f64>) -> Variable {
    let _whole = composite("nanvar");
    let (x, axes) = (to_float(x.into()), axes.into());
    in_accumulator(x, |x| {
        let (centred, degrees) = centred("nanvar", &x, &axes, ddof.into());
        sum(square(centred), axes) / degrees
    })
}
method!(nanvar, axes: impl Into<Axes>, ddof: impl Into<f64>);

/// Computes the standard deviation of the elements that are not NaN over axes, the square root of
/// [`nanvar`], without overflow or underflow in between.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `gy (x - mean) / (n - ddof) / y`, 0 to NaN. Where all elements are equal there is a kink,
/// and the gradient is 0.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nanstd, Variable};
/// assert_eq!(nanstd(&Variable::new([1.0, f64::NAN, 3.0]), .., 0).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn nanstd(x: impl Into<Variable>, axes: impl Into<Axes>, ddof: impl Into<f64>) -> Variable {
    let _whole = composite("nanstd");
    let (x, axes) = (to_float(x.into()), axes.into());
    in_accumulator(x, |x| {
        let (centred, degrees) = centred("nanstd", &x, &axes, ddof.into());
        norm(centred, axes) / sqrt(degrees)
    })
}
method!(nanstd, axes: impl Into<Axes>, ddof: impl Into<f64>);

/// Returns the maximum of the elements that are not NaN over axes, or NaN if there are none.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: `gy` to the maximum; equal maxima share it equally. 0 to NaN.
///
/// # Panics
/// Panics if there are no elements to choose from, or there is no such axis.
///
/// ```
/// use bibun::{functions::nanmax, Variable};
/// assert_eq!(nanmax(&Variable::new([1.0, f64::NAN, 2.0]), ..).item::<f64>(), 2.0);
/// ```
#[track_caller]
pub fn nanmax(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nanmax");
    let (x, axes) = (x.into(), axes.into());
    let y = max(filled(&x, f64::NEG_INFINITY), axes.clone());
    or_nan(&x, axes, y)
}
method!(nanmax, axes: impl Into<Axes>);

/// Returns the minimum of the elements that are not NaN over axes, or NaN if there are none.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: `gy` to the minimum; equal minima share it equally. 0 to NaN.
///
/// # Panics
/// Panics if there are no elements to choose from, or there is no such axis.
///
/// ```
/// use bibun::{functions::nanmin, Variable};
/// assert_eq!(nanmin(&Variable::new([1.0, f64::NAN, 2.0]), ..).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn nanmin(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nanmin");
    let (x, axes) = (x.into(), axes.into());
    let y = min(filled(&x, f64::INFINITY), axes.clone());
    or_nan(&x, axes, y)
}
method!(nanmin, axes: impl Into<Axes>);

/// Computes the product of the elements that are not NaN over axes. The product of none is 1.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: all; integers and bools are multiplied as i64.
/// Gradient: as of [`prod`](crate::functions::prod), 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nanprod, Variable};
/// assert_eq!(nanprod(&Variable::new([3.0, f64::NAN, 2.0]), ..).item::<f64>(), 6.0);
/// ```
#[track_caller]
pub fn nanprod(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("nanprod");
    let x = x.into();
    prod(filled(&x, 1.0), axes)
}
method!(nanprod, axes: impl Into<Axes>);

/// Computes the cumulative sum along an axis, to which NaN adds nothing.
///
/// Shapes: x any → the same. Types: all; integers and bools are added up as i64.
/// Gradient: the sum of those behind, 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nancumsum, Variable};
/// let y = nancumsum(&Variable::new([3.0, f64::NAN, 2.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 3.0, 5.0]);
/// ```
#[track_caller]
pub fn nancumsum(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("nancumsum");
    let x = x.into();
    cumsum(filled(&x, 0.0), axis)
}
method!(nancumsum, axis: isize);

/// Computes the cumulative product along an axis, which NaN leaves as it is.
///
/// Shapes: x any → the same. Types: all; integers and bools are multiplied as i64.
/// Gradient: as of [`cumprod`](crate::functions::cumprod), 0 to NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::nancumprod, Variable};
/// let y = nancumprod(&Variable::new([3.0, f64::NAN, 2.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 3.0, 6.0]);
/// ```
#[track_caller]
pub fn nancumprod(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("nancumprod");
    let x = x.into();
    cumprod(filled(&x, 1.0), axis)
}
method!(nancumprod, axis: isize);

/// Returns x with another value in the place of NaN.
#[track_caller]
fn filled(x: &Variable, value: f64) -> Variable {
    match x.dtype().is_differentiable() {
        true => where_(is_nan(x), value, x),
        false => x.clone(),
    }
}

/// Returns the result of a reduction, or NaN where all elements are NaN.
#[track_caller]
fn or_nan(x: &Variable, axes: Axes, y: Variable) -> Variable {
    match x.dtype().is_differentiable() {
        true => where_(all(is_nan(x), axes), f64::NAN, y),
        false => y,
    }
}

/// Returns the number of elements that are not NaN, in the dtype of x.
#[track_caller]
fn count_of(function: &'static str, x: &Variable, axes: impl Into<Axes>) -> Variable {
    let axes = axes.into();
    // The function that is named if the axes are wrong.
    let _ = Over::new(function, &axes, x);
    cast(sum(logical_not(is_nan(x)), axes), x.dtype())
}

/// Returns the differences from the mean, 0 for NaN, and the degrees of freedom.
#[track_caller]
fn centred(function: &'static str, x: &Variable, axes: &Axes, ddof: f64) -> (Variable, Variable) {
    let over = Over::new(function, axes, x);
    let count = count_of(function, x, over.kept_axes());
    let mean = sum(filled(x, 0.0), over.kept_axes()) / &count;
    let degrees = count - ddof;
    // 0 / 0 is NaN; the number of none and fewer is none.
    let degrees = where_(degrees.greater(0), degrees, 0.0);
    let reduced = over.reduced(&x.shape());
    (where_(is_nan(x), 0.0, x - mean), reshape(degrees, reduced))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use crate::functions::{over_axes, unstack};
    use bibun_array::Array;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let variance = move |x: &[f64]| {
        let mean = mean(x);
        x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (x.len() - 1) as f64
    };
    type Call = fn(Variable, Axes) -> Variable;
    fn of_last(cumulative: fn(Variable, isize) -> Variable, x: Variable, axes: Axes) -> Variable {
        let (axes, _) = axes.resolve("", x.rank());
        let axis = axes[0] as isize;
        let y = unstack(cumulative(x, axis), axis);
        y.last().expect("there are three").clone()
    }
    type Reference = Box<dyn Fn(&[f64]) -> f64 + Send + Sync>;
    let functions: [(&'static str, Call, Reference); 9] = [
        (
            "nanprod",
            |x, axes| nanprod(x, axes),
            Box::new(|x| x.iter().product()),
        ),
        // The last of the cumulative ones.
        (
            "nancumsum",
            |x, axes| of_last(nancumsum, x, axes),
            Box::new(|x| x.iter().sum()),
        ),
        (
            "nancumprod",
            |x, axes| of_last(nancumprod, x, axes),
            Box::new(|x| x.iter().product()),
        ),
        (
            "nansum",
            |x, axes| nansum(x, axes),
            Box::new(|x| x.iter().sum()),
        ),
        ("nanmean", |x, axes| nanmean(x, axes), Box::new(mean)),
        ("nanvar", |x, axes| nanvar(x, axes, 1), Box::new(variance)),
        (
            "nanstd",
            |x, axes| nanstd(x, axes, 1),
            Box::new(move |x| variance(x).sqrt()),
        ),
        (
            "nanmax",
            |x, axes| nanmax(x, axes),
            Box::new(|x| x.iter().copied().fold(f64::MIN, f64::max)),
        ),
        (
            "nanmin",
            |x, axes| nanmin(x, axes),
            Box::new(|x| x.iter().copied().fold(f64::MAX, f64::min)),
        ),
    ];
    let mut samples = Vec::new();
    for (name, call, reference) in functions {
        let reference = std::sync::Arc::new(reference);
        let masked = |x: &Array| {
            let kept = Array::from([[true, false, true], [true, true, true], [false, true, true]]);
            kept.where_(x, f64::NAN)
        };
        for (axes, own) in [(Axes::from(0), 0), (Axes::from(-1), 1)] {
            let reference = std::sync::Arc::clone(&reference);
            samples.push(
                Sample::new(
                    name,
                    move |x| {
                        let kept = [[true, false, true], [true, true, true], [false, true, true]];
                        vec![call(beside(x, kept).where_(&x[0], f64::NAN), axes.clone())]
                    },
                    move |x| {
                        let numbers = |x: &[f64]| {
                            let x: Vec<f64> = x.iter().copied().filter(|x| !x.is_nan()).collect();
                            reference(&x)
                        };
                        vec![over_axes(&masked(&x[0]), &[own], false, numbers)]
                    },
                )
                .input([3, 3], -2.0..2.0),
            );
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;
    use bibun_array::{Array, DType, keep_dims};

    #[test]
    fn nothing_but_nan() {
        let nan = f64::NAN;
        let x = Variable::new([[nan, nan], [nan, 5.0]]);
        assert_eq!(nansum(&x, 1).to_vec::<f64>(), [0.0, 5.0]);
        for y in [
            nanmean(&x, 1),
            nanmax(&x, 1),
            nanmin(&x, 1),
            nanvar(&x, 1, 0),
            nanstd(&x, 1, 0),
        ] {
            assert!(y.to_vec::<f64>()[0].is_nan());
            let one = y.slice(crate::s![1]);
            let gx = gradients(&[&one], &[&x]);
            let gx = gx[0].as_ref().unwrap().to_vec::<f64>();
            assert!(gx.iter().all(|gx| gx.is_finite()), "{gx:?}");
        }
        assert!(nanvar(&x, 1, 1).to_vec::<f64>()[1].is_nan());
        assert!(nanstd(&x, 1, 2).to_vec::<f64>()[1].is_nan());
    }

    #[test]
    fn integers_have_no_nan() {
        let x = Variable::constant([1i64, 2, 4]);
        assert_eq!(nansum(&x, 0).item::<i64>(), 7);
        assert_eq!(nanmax(&x, 0).item::<i64>(), 4);
        assert_eq!(nanmin(&x, 0).item::<i64>(), 1);
        assert_eq!(nanmean(&x, 0).item::<f64>(), 7.0 / 3.0);
        let (x, axes) = (Variable::new([[1.0, f64::NAN], [3.0, 5.0]]), keep_dims(1));
        for y in [
            nansum(&x, axes.clone()),
            nanmean(&x, axes.clone()),
            nanmax(&x, axes.clone()),
        ] {
            assert_eq!(y.shape(), [2, 1]);
        }
        assert_eq!(nanvar(&x, axes.clone(), 0).to_vec::<f64>(), [0.0, 1.0]);
        let y = nanstd(&x, axes, 0);
        assert_eq!(
            (y.shape(), y.to_vec::<f64>()),
            ([2, 1].into(), vec![0.0, 1.0])
        );
        let none = Variable::new(Array::zeros([2, 0], DType::F32));
        assert_eq!(nansum(&none, 1).to_vec::<f32>(), [0.0, 0.0]);
        assert!(nanmean(&none, 1).to_vec::<f32>()[0].is_nan());
    }
}
