//! Sums over axes, and functions built from sums.

use bibun_array::{Array, Axes, Shape, keep_dims};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::examples::Examples;
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{
    Operand, abs, broadcast_to, cast, float_of, in_accumulator, reshape, square, to_differentiable,
};
use crate::variable::Variable;

/// Sums over axes (`..` for all; see [`Axes`]).
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all; integers and bools are added up as i64.
/// Gradient: `gy` to each element.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::sum, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(sum(&x, 0).to_vec::<f64>(), [4.0, 6.0]);
/// assert_eq!(sum(&x, ..).item::<f64>(), 10.0);
/// ```
#[track_caller]
pub fn sum(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = x.into();
    Linear::of(Sum(Over::new("sum", &axes.into(), &x)), x)
}
method!(sum, axes: impl Into<Axes>);

/// Computes the mean over axes.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `gy / n` to each of the n elements. The mean of no elements is NaN.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::mean, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(mean(&x, 0).to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn mean(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("mean");
    let (x, axes) = (to_differentiable(x.into()), axes.into());
    let count = count_over("mean", &x, &axes);
    in_accumulator(x, |x| sum(x, axes) / count as f64)
}
method!(mean, axes: impl Into<Axes>);

/// Computes the weighted mean over axes, `Σ w x / Σ w`.
///
/// Shapes: x any; weights that broadcast to x, or a vector along the axis if only one is given
/// → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims).
/// Types: floats, promoted; integers give f64.
/// Gradient: `gy w / Σ w` to x, `gy (x - y) / Σ w` to w.
///
/// # Panics
/// Panics if there is no such axis or the weights do not fit.
///
/// ```
/// use bibun::{functions::average, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 6.0]]);
/// let y = average(&x, 0, Variable::constant([3.0, 1.0]));
/// assert_eq!(y.to_vec::<f64>(), [1.5, 3.0]);
/// ```
#[track_caller]
pub fn average(
    x: impl Into<Variable>,
    axes: impl Into<Axes>,
    weights: impl Into<Operand>,
) -> Variable {
    let _whole = composite("average");
    let (x, axes) = (x.into(), axes.into());
    let mut weights = weights.into().beside(x.dtype());
    let x_spec = x.spec();
    if let ([axis], 1) = (&Over::new("average", &axes, &x).axes[..], weights.rank()) {
        let mut along = vec![1; x_spec.shape.rank()];
        along[*axis] = weights.size();
        weights = reshape(weights, along);
    }
    if !weights.shape().broadcasts_to(&x_spec.shape) {
        let inputs = [("x", &x_spec), ("weights", &weights.spec())];
        mismatch("average", &inputs, "the weights must broadcast to x")
    }
    let dtype = float_of(x_spec.dtype, [&weights]);
    let [x, weights] = [x, weights].map(|value| cast(value, dtype.accumulator()));
    let weights = broadcast_to(weights, &x_spec.shape);
    cast(sum(x * &weights, axes.clone()) / sum(weights, axes), dtype)
}
method!(average, axes: impl Into<Axes>, weights: impl Into<Operand>);

/// Computes the squared Euclidean norm of each example, `yᵢ = Σ xᵢ²`.
///
/// Shapes: x `[n, ..]` → `[n]`.
/// Types: all but bool.
/// Gradient: `2 gy x`.
///
/// # Panics
/// Panics if x is a scalar.
///
/// ```
/// use bibun::{functions::batch_l2_norm_squared, Variable};
/// let x = Variable::new([[3.0, 4.0], [1.0, 0.0]]);
/// assert_eq!(batch_l2_norm_squared(&x).to_vec::<f64>(), [25.0, 1.0]);
/// ```
#[track_caller]
pub fn batch_l2_norm_squared(x: impl Into<Variable>) -> Variable {
    let _whole = composite("batch_l2_norm_squared");
    let x = x.into();
    // That of complex numbers is real.
    let x = if x.dtype().is_complex() { abs(x) } else { x };
    let own: SmallVec<[isize; 4]> = (1..x.rank() as isize).collect();
    if x.rank() == 0 {
        let what = format!("x [n, ..] = {} has no axis of examples", x.spec());
        raise(Error::argument("batch_l2_norm_squared", what));
    }
    sum(square(x), &own[..])
}
method!(batch_l2_norm_squared);

/// Returns the number of elements that are reduced to one.
#[track_caller]
pub(super) fn count_over(function: &'static str, x: &Variable, axes: &Axes) -> usize {
    Over::new(function, axes, x).count(&x.shape())
}

#[derive(Clone, Debug)]
struct Sum(Over);

impl LinearRule for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(Spec::new(self.0.reduced(&x.shape), x.dtype.of_sums()))
    }
    fn forward(&self, x: Array) -> Array {
        x.sum(self.0.axes())
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        broadcast_to(reshape(gy, self.0.aligned(&x.shape)), &x.shape)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(Self(self.0.in_batch()), x, axis)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        Some(self.0.examples(&x.shape, y))
    }
}

/// The axes of a reduction.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Over {
    /// The axes, sorted.
    pub(crate) axes: SmallVec<[usize; 4]>,
    /// Whether the axes are kept, with size 1.
    pub(crate) keep_dims: bool,
}

impl Over {
    #[track_caller]
    pub(crate) fn new(function: &'static str, axes: &Axes, x: &Variable) -> Self {
        let (axes, keep_dims) = axes.resolve(function, x.rank());
        Self { axes, keep_dims }
    }

    /// Returns the same axes after a batch axis in front.
    pub(crate) fn in_batch(&self) -> Self {
        let axes = self.axes.iter().map(|axis| axis + 1).collect();
        Self { axes, ..*self }
    }

    /// Returns the axes as an argument of an array's reductions.
    pub(crate) fn axes(&self) -> Axes {
        match self.keep_dims {
            true => self.kept_axes(),
            false => Axes::new(&self.names()),
        }
    }

    /// Returns the axes, kept with size 1.
    pub(crate) fn kept_axes(&self) -> Axes {
        keep_dims(Axes::new(&self.names()))
    }

    pub(crate) fn names(&self) -> SmallVec<[isize; 4]> {
        self.axes.iter().map(|&axis| axis as isize).collect()
    }

    /// Returns the shape of the result.
    pub(crate) fn reduced(&self, x: &Shape) -> Shape {
        x.reduced(&self.axes, self.keep_dims)
    }

    /// Returns the shape of the result with the axes kept, which broadcasts to that of x.
    pub(crate) fn aligned(&self, x: &Shape) -> Shape {
        x.reduced(&self.axes, true)
    }

    /// Returns the number of elements that are reduced to one.
    pub(crate) fn count(&self, x: &Shape) -> usize {
        self.axes.iter().map(|&axis| x[axis]).product()
    }

    /// Returns the spec of the result, with the dtype of x.
    ///
    /// # Errors
    /// Returns an error if there are no elements to reduce.
    pub(crate) fn of_something(&self, x: &Spec) -> Result<[Spec; 1], Mismatch> {
        if x.shape.size() == 0 && x.shape.reduced(&self.axes, false).size() > 0 {
            let must_hold = format!("there must be something over axes {:?}", self.axes);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        Ok([Spec::new(self.reduced(&x.shape), x.dtype)])
    }

    /// Returns the positions in x of the examples of the result.
    pub(crate) fn examples(&self, x: &Shape, y: &Examples) -> Examples {
        let axis = y.axis();
        if !self.keep_dims {
            let mut kept = (0..x.rank()).filter(|axis| !self.axes.contains(axis));
            return y.moved(kept.nth(axis).expect("as many as the result has"));
        }
        match self.axes.contains(&axis) {
            true => y.owned_by(axis, vec![y.owner(0); x[axis]]),
            false => y.clone(),
        }
    }
}

/// Applies `f` to each line of `x` along `axis`; used to write references.
#[cfg(test)]
pub(crate) fn along_axis(x: &Array, axis: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Array {
    let size = x.shape()[axis];
    let last = x.moveaxis(axis as isize, -1);
    let lines = last.to_vec::<f64>();
    let results: Vec<Vec<f64>> = lines.chunks(size).map(f).collect();
    let shape = last.shape().replaced(x.rank() - 1, results[0].len());
    Array::from_vec(results.concat(), shape).moveaxis(-1, axis as isize)
}

/// Applies `f` to the elements of `x` over `axes`.
#[cfg(test)]
pub(crate) fn over_axes(
    x: &Array,
    axes: &[usize],
    keep_dims: bool,
    f: impl Fn(&[f64]) -> f64,
) -> Array {
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<isize> = kept
        .chain(axes.iter().copied())
        .map(|axis| axis as isize)
        .collect();
    let size: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let lines = x.permute(&order).to_vec::<f64>();
    let results = lines.chunks(size).map(f).collect();
    Array::from_vec(results, x.shape().reduced(axes, keep_dims))
}

/// Returns samples of a reduction over various axes of various shapes.
#[cfg(test)]
pub(crate) fn reduction_samples(
    name: &'static str,
    range: std::ops::Range<f64>,
    call: impl Fn(&Variable, Axes) -> Variable + Clone + Send + Sync + 'static,
    reference: impl Fn(&[f64]) -> f64 + Clone + Send + Sync + 'static,
) -> Vec<crate::conformance::Sample> {
    let cases: [(&[usize], Axes, &[usize], bool); 5] = [
        (&[2, 3], Axes::from(..), &[0, 1], false),
        (&[2, 3], Axes::from(0), &[0], false),
        (&[3, 1, 2], keep_dims([0, -1]), &[0, 2], true),
        (&[2, 1, 3], Axes::from(1), &[1], false),
        (&[2, 3, 2], keep_dims(1), &[1], true),
    ];
    let sample = |(shape, axes, own, keep): (&[usize], Axes, &'static [usize], bool)| {
        let (call, reference) = (call.clone(), reference.clone());
        crate::conformance::Sample::new(
            name,
            move |x| vec![call(&x[0], axes.clone())],
            move |x| vec![over_axes(&x[0], own, keep, &reference)],
        )
        .input(shape, range.clone())
    };
    cases.into_iter().map(sample).collect()
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    let mean_of = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let norm_of = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut samples = [
        reduction_samples(
            "sum",
            range.clone(),
            |x, axes| sum(x, axes),
            |x| x.iter().sum(),
        ),
        reduction_samples("mean", range.clone(), |x, axes| mean(x, axes), mean_of),
    ]
    .concat();
    let average_of = |x: &[f64], w: &[f64]| {
        let products: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
        products / w.iter().sum::<f64>()
    };
    samples.push(
        Sample::new(
            "average",
            |x| vec![average(&x[0], 0, &x[1])],
            move |x| {
                let w = x[1].to_vec::<f64>();
                vec![over_axes(&x[0], &[0], false, |x| average_of(x, &w))]
            },
        )
        .input([3, 2], range.clone())
        .input([3], 0.5..2.0),
    );
    samples.push(
        Sample::new(
            "average",
            |x| vec![average(&x[0], .., &x[1])],
            move |x| {
                let w = x[1].broadcast_to([2, 3]).to_vec::<f64>();
                vec![over_axes(&x[0], &[0, 1], false, |x| average_of(x, &w))]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 1], 0.5..2.0),
    );
    samples.push(
        Sample::new(
            "batch_l2_norm_squared",
            |x| vec![batch_l2_norm_squared(&x[0])],
            move |x| vec![over_axes(&x[0], &[1, 2], false, |x| norm_of(x).powi(2))],
        )
        .input([2, 3, 1], range),
    );
    samples
}

#[cfg(test)]
mod tests {
    use bibun_array::DType;

    use super::*;
    use crate::attempt;

    #[test]
    fn whole_numbers_have_fractional_means() {
        let x = Variable::constant([true, false, true, true]);
        assert_eq!(mean(&x, ..).item::<f64>(), 0.75);
        let nothing = Variable::new(Array::zeros([0], DType::F32));
        assert!(mean(&nothing, ..).item::<f32>().is_nan());
    }

    #[test]
    fn weights_that_do_not_fit_are_named() {
        let x = Variable::new([[1.0, 2.0], [3.0, 6.0]]);
        let weights = Variable::constant([1.0, 1.0, 1.0]);
        let message = attempt(|| average(&x, 1, &weights))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("average: inputs do not fit: x = [2, 2] f64"),
            "{message}"
        );
        assert!(attempt(|| average(&x, 2, &weights)).is_err());
        assert!(attempt(|| batch_l2_norm_squared(Variable::new(1.0))).is_err());
    }
}
