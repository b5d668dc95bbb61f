//! Gradient checks: against finite differences, and reverse against forward mode.
//!
//! The derivatives of `f` are computed as every walk does, as a function of Variables. So the
//! function from inputs and cotangents to gradients is checked in the same way as `f`, and with it
//! the second derivative.

mod batches;
mod examples;

use bibun_array::{Array, DType, Generator, concat};

use crate::error::{Error, attempt, raise};
use crate::forward::jvp;
use crate::functions::watch;
use crate::reverse::{GradOptions, gradients_with};
use crate::scope::{no_grad, recording};
use crate::variable::Variable;
use batches::check_batches;
pub(crate) use examples::check_examples;

/// Options of [`gradient_check`].
#[derive(Clone, Debug)]
pub struct GradientCheckOptions {
    /// The highest order of derivative that is checked. Defaults to 1. Use 2 for functions whose
    /// gradients are differentiated again.
    pub order: usize,
    /// The relative difference allowed between a derivative and finite differences. Defaults to 1e-6.
    pub tolerance: f64,
    /// Whether `jvp` is checked, too. Defaults to `true`. Must be `false` for functions without such
    /// a rule.
    pub forward: bool,
    /// The axis of the outputs that has the examples, to also compare the gradients of
    /// [`per_example`](crate::per_example) with a loop over the losses. A refusal because examples
    /// are mixed passes the check, but only if they are. Defaults to `None`, for no such check.
    pub per_example: Option<isize>,
    /// Whether the results and gradients of a batch, by [`vmap`](crate::vmap), are compared with those of a loop over
    /// inputs near the given ones. Defaults to `false`, because a function need not have a rule for batches.
    pub batch: bool,
    /// The number of elements of each input that are varied. In a larger input they are chosen at
    /// random. Defaults to 64.
    pub positions: usize,
    /// The seed of the random cotangents and tangents. Defaults to 0.
    pub seed: u64,
}

impl Default for GradientCheckOptions {
    fn default() -> Self {
        Self {
            order: 1,
            tolerance: 1e-6,
            forward: true,
            per_example: None,
            batch: false,
            positions: 64,
            seed: 0,
        }
    }
}

impl From<&Self> for GradientCheckOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}

impl GradientCheckOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the highest order of derivative that is checked. Defaults to 1.
    ///
    /// ```
    /// use bibun::GradientCheckOptions;
    /// assert_eq!(GradientCheckOptions::new().order(2).order, 2);
    /// ```
    #[must_use]
    pub fn order(self, order: usize) -> Self {
        Self { order, ..self }
    }

    /// Sets the relative difference allowed between a derivative and finite differences. Defaults to
    /// 1e-6.
    #[must_use]
    pub fn tolerance(self, tolerance: f64) -> Self {
        Self { tolerance, ..self }
    }

    /// Sets whether `jvp` is checked, too. Defaults to `true`.
    #[must_use]
    pub fn forward(self, forward: bool) -> Self {
        Self { forward, ..self }
    }

    /// Also compares the gradients of [`per_example`](crate::per_example), for examples along this axis
    /// of the outputs, with a loop over the losses.
    #[must_use]
    pub fn per_example(self, axis: isize) -> Self {
        let per_example = Some(axis);
        Self {
            per_example,
            ..self
        }
    }

    /// Sets whether batches, by [`vmap`](crate::vmap), are compared with a loop. Defaults to `false`.
    ///
    /// ```
    /// use bibun::{gradient_check, Batched, GradientCheckOptions, GradientError, Rules, Variable};
    /// // A rule that forgets a factor.
    /// let rules = Rules::new().batch("square", |x| {
    ///     vec![Batched { value: x[0].value.clone(), axis: x[0].axis }]
    /// });
    /// let f = |x: &[Variable]| rules.scope(|| x[0].square());
    /// let x = [Variable::new([0.5, -1.5])];
    /// assert!(gradient_check(f, &x, GradientCheckOptions::new()).is_ok());
    /// let error = gradient_check(f, &x, GradientCheckOptions::new().batch(true)).unwrap_err();
    /// assert!(matches!(error, GradientError::Batch { what, .. } if what == "output 0"));
    /// ```
    #[must_use]
    pub fn batch(self, batch: bool) -> Self {
        Self { batch, ..self }
    }

    /// Sets the number of elements of each input that are varied. Defaults to 64.
    #[must_use]
    pub fn positions(self, positions: usize) -> Self {
        Self { positions, ..self }
    }

    /// Sets the seed of the random cotangents and tangents. Defaults to 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// The error that [`gradient_check`] found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// A gradient differs from finite differences.
    #[error(
        "derivative {order}: the gradient of {argument} at {position:?} is {found}, \
         finite differences give {expected}"
    )]
    Gradient {
        /// The order of the derivative.
        order: usize,
        /// The input of the function or, in higher orders, the cotangent.
        argument: String,
        /// The position of the element in it.
        position: Vec<usize>,
        /// The gradient by the reverse walk.
        found: f64,
        /// The gradient by finite differences.
        expected: f64,
    },
    /// The forward and the reverse walk do not agree: one rule is not the transpose of the other.
    #[error("derivative {order}: the product <w, J v> is {forward} by jvp, {reverse} by vjp")]
    Transpose {
        /// The order of the derivative.
        order: usize,
        /// The product by the forward walk.
        forward: f64,
        /// The product by the reverse walk.
        reverse: f64,
    },
    /// The result of [`per_example`](crate::per_example) differs from a loop over the losses.
    #[error(
        "per example: {what} of {argument} at {position:?} is {found}, a loop over the losses gives \
         {expected}"
    )]
    PerExample {
        /// The result that was computed: `rows`, `norms` and so on.
        what: &'static str,
        /// The input of the function.
        argument: String,
        /// The position of the element in the result.
        position: Vec<usize>,
        /// The value by the per-example walk.
        found: f64,
        /// The value by the loop.
        expected: f64,
    },
    /// A result of [`vmap`](crate::vmap) differs from a loop over the examples.
    #[error("batch: {what} at {position:?} is {found}, a loop over the examples gives {expected}")]
    Batch {
        /// The result, or the gradient that it is.
        what: String,
        /// The position of the element in it, whose first number is that of the example.
        position: Vec<usize>,
        /// The value in the batch.
        found: f64,
        /// The value by the loop.
        expected: f64,
    },
    /// The function or one of its rules raised an error.
    #[error("derivative {order}: {source}")]
    Failed {
        /// The order of the derivative.
        order: usize,
        /// The error that was raised.
        source: Error,
    },
}

/// Checks the derivatives of `f` at `inputs`: each gradient against finite differences, and the
/// forward walk against the reverse one.
///
/// The cotangents of the outputs are random, so the gradients compared are those of a random weighted
/// sum of all output elements. `f` may return one Variable or a `Vec` of them. It is called many
/// times and must return the same result each time (a random function must start from the same
/// state). Inputs must be far enough from kinks. They are f64, because f32 is too coarse to tell a
/// wrong gradient from a rounded one; integer and bool inputs are held fixed. Complex numbers, which
/// are c128, are checked in both of their parts, along a last axis of two.
///
/// Source: central differences at steps h, h/2, h/4, extrapolated to 0 (L. F. Richardson, 1911).
///
/// # Errors
/// Returns the first wrong gradient, with its input and position, or the error that `f` raised.
///
/// # Panics
/// Panics if an input has a float dtype other than f64, or a complex one other than c128.
///
/// ```
/// use bibun::{gradient_check, GradientCheckOptions, GradientError, Variable};
///
/// let inputs = [Variable::new([0.5, -1.5]), Variable::new([2.0, 3.0])];
/// let product = |x: &[Variable]| (&x[0] * &x[1]).tanh();
/// gradient_check(product, &inputs, GradientCheckOptions::new().order(2)).unwrap();
///
/// // A function that forgets where one of its inputs came from.
/// let broken = |x: &[Variable]| &x[0] * x[1].detach();
/// let error = gradient_check(broken, &inputs, GradientCheckOptions::new()).unwrap_err();
/// assert!(matches!(error, GradientError::Gradient { argument, .. } if argument == "input 1"));
///
/// // Examples along the first axis, taken apart by a rule that gives each twice its gradient.
/// use bibun::{ExampleCotangent, Rules};
/// let rules = Rules::new().per_example("tanh", |cx, gy| {
///     let ExampleCotangent { cotangent, examples } = gy[0].clone();
///     let gradients = cx.original_vjp(&[cotangent * 2.0]).into_iter();
///     gradients.map(|gx| Some(bibun::ExampleGradient::sliced(gx?, examples.clone()))).collect()
/// });
/// let options = GradientCheckOptions { per_example: Some(0), ..Default::default() };
/// let f = |x: &[Variable]| rules.scope(|| (&x[0] * &x[1]).tanh());
/// let error = gradient_check(f, &inputs, &options).unwrap_err();
/// assert!(matches!(error, GradientError::PerExample { what: "rows", .. }));
/// ```
#[track_caller]
pub fn gradient_check<R: Into<Vec<Variable>>>(
    f: impl Fn(&[Variable]) -> R,
    inputs: &[Variable],
    options: impl Into<GradientCheckOptions>,
) -> Result<(), GradientError> {
    let options = &options.into();
    let (x, fixed): (Vec<_>, Vec<_>) =
        (inputs.iter().enumerate()).partition(|(_, input)| input.dtype().is_differentiable());
    let is_double = |x: &Variable| matches!(x.dtype(), DType::F64 | DType::C128);
    if let Some((i, input)) = x.iter().find(|(_, input)| !is_double(input)) {
        let what = format!(
            "input {i} is {}; finite differences need f64 or c128",
            input.dtype()
        );
        raise(Error::argument("gradient_check", what));
    }
    let whole = |x: &[Variable]| {
        let mut all: Vec<(usize, Variable)> = fixed.iter().map(|&(i, x)| (i, x.clone())).collect();
        // Complex numbers are checked in both directions.
        let own = free_positions(inputs)
            .zip(x)
            .map(|(i, x)| match inputs[i].dtype() {
                DType::C128 => (i, x.view_as_complex()),
                _ => (i, x.clone()),
            });
        all.extend(own);
        all.sort_by_key(|&(i, _)| i);
        let all: Vec<Variable> = all.into_iter().map(|(_, x)| x).collect();
        floats(f(&all).into())
    };
    let arguments = x.iter().map(|(i, input)| Argument {
        name: match input.name() {
            Some(name) => format!("input {i} ({name})"),
            None => format!("input {i}"),
        },
        value: match input.dtype().is_complex() {
            true => input.array().view_as_real(),
            false => input.array(),
        },
    });
    let arguments: Vec<Argument> = arguments.collect();
    let mut generator = Generator::new(options.seed);
    check_order(&whole, &arguments, 1, options, &mut generator)?;
    if let Some(axis) = options.per_example {
        check_examples(&whole, &arguments, axis, &mut generator)?;
    }
    match options.batch {
        true => check_batches(&whole, &arguments, &mut generator),
        false => Ok(()),
    }
}

/// Does the same as [`gradient_check`], for tests.
///
/// # Panics
/// Panics with the error, if there is one.
///
/// ```
/// use bibun::{assert_gradients, GradientCheckOptions, Variable};
/// let x = Variable::new([[0.5, -1.5], [0.1, 2.0]]);
/// assert_gradients(|x| (&x[0] * &x[0]).sum(0), &[x], GradientCheckOptions::new().order(2));
/// ```
#[track_caller]
pub fn assert_gradients<R: Into<Vec<Variable>>>(
    f: impl Fn(&[Variable]) -> R,
    inputs: &[Variable],
    options: impl Into<GradientCheckOptions>,
) {
    if let Err(error) = gradient_check(f, inputs, options) {
        panic!("{error}");
    }
}

impl From<Variable> for Vec<Variable> {
    /// Creates a list of one, so that a function may return one output or many.
    fn from(x: Variable) -> Self {
        vec![x]
    }
}

/// An input that is varied, with its name in errors.
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) value: Array,
}

/// Returns the positions of the inputs that have gradients.
fn free_positions(inputs: &[Variable]) -> impl Iterator<Item = usize> {
    (inputs.iter().enumerate())
        .filter(|(_, input)| input.dtype().is_differentiable())
        .map(|(i, _)| i)
}

/// Checks the first derivative of `f`, which is the derivative of this `order` of the user's
/// function, and the higher ones by checking the function that computes its gradients.
fn check_order(
    f: Call<'_>,
    arguments: &[Argument],
    order: usize,
    options: &GradientCheckOptions,
    generator: &mut Generator,
) -> Result<(), GradientError> {
    let failed = |source| GradientError::Failed { order, source };
    let x: Vec<Variable> = (arguments.iter())
        .map(|argument| Variable::constant(argument.value.clone()))
        .collect();
    let y = attempt(|| f(&x)).map_err(failed)?;
    let w = normal_like(&y, generator);
    let gradients = attempt(|| pull(f, &x, &w, false)).map_err(failed)?;
    let weighted = |x: &[Variable]| vec![inner(&no_grad(|| f(x)), &w)];
    // The terms may cancel, and their rounding errors do not.
    let terms = flat(&y).into_iter().zip(flat(&w));
    let size: f64 = terms.map(|(y, w)| (y * w).abs()).sum();
    for (i, argument) in arguments.iter().enumerate() {
        let gradient = gradients[i].to_vec::<f64>();
        let shape = argument.value.shape();
        for position in chosen(shape.size(), options.positions, generator) {
            let mut direction = vec![0.0; shape.size()];
            direction[position] = 1.0;
            let direction = Array::from_vec(direction, shape);
            let curve = |t: f64| {
                let mut moved = x.clone();
                moved[i] = Variable::constant(&argument.value + &(&direction * t));
                weighted(&moved)
            };
            let found = gradient[position];
            let difference = attempt(|| disagreement(&[found], &curve, size, options.tolerance));
            if let Some((_, expected)) = difference.map_err(failed)? {
                return Err(GradientError::Gradient {
                    order,
                    argument: argument.name.clone(),
                    position: index_of(position, shape),
                    found,
                    expected,
                });
            }
        }
    }
    if options.forward {
        let v = normal_like(&x, generator);
        let (tangents, again) =
            attempt(|| (push(f, &x, &v), pull(f, &x, &w, true))).map_err(failed)?;
        for gradients in [gradients, again] {
            if let Err((forward, reverse)) = transposed(&tangents, &w, &gradients, &v) {
                return Err(GradientError::Transpose {
                    order,
                    forward,
                    reverse,
                });
            }
        }
    }
    if order == options.order {
        return Ok(());
    }
    let cotangents = w.iter().enumerate().map(|(i, w)| Argument {
        name: format!("the cotangent of output {i}"),
        value: w.array(),
    });
    let arguments: Vec<Argument> = (arguments.iter())
        .map(|argument| Argument {
            name: argument.name.clone(),
            value: argument.value.clone(),
        })
        .chain(cotangents)
        .collect();
    let count = x.len();
    let gradients = |args: &[Variable]| pull(f, &args[..count], &args[count..], true);
    check_order(&gradients, &arguments, order + 1, options, generator)
}

/// Returns all positions, or `wanted` of them at random.
fn chosen(size: usize, wanted: usize, generator: &mut Generator) -> Vec<usize> {
    if size <= wanted {
        return (0..size).collect();
    }
    let order = generator.permutation(size).to_vec::<i64>();
    order.into_iter().take(wanted).map(|i| i as usize).collect()
}

fn index_of(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, size) in index.iter_mut().zip(shape).rev() {
        *i = position % size;
        position /= size;
    }
    index
}

/// A function of a list of Variables.
pub(crate) type Call<'a> = &'a dyn Fn(&[Variable]) -> Vec<Variable>;

/// Returns the outputs that have derivatives, complex ones as their parts.
pub(crate) fn floats(outputs: Vec<Variable>) -> Vec<Variable> {
    let outputs = outputs.into_iter();
    let outputs = outputs.filter(|y| y.dtype().is_differentiable());
    let parts = |y: Variable| match y.dtype().is_complex() {
        true => y.view_as_real(),
        false => y,
    };
    outputs.map(parts).collect()
}

/// Computes the gradients of `<w, f(x)>` by the reverse walk, with zeros where none arrives. It
/// records even where recording is off.
pub(crate) fn pull(
    f: Call<'_>,
    x: &[Variable],
    w: &[Variable],
    create_graph: bool,
) -> Vec<Variable> {
    let x: Vec<Variable> = x.iter().map(watch).collect();
    let y = recording(true, || f(&x));
    let options = GradOptions {
        cotangents: w.to_vec(),
        create_graph,
        ..GradOptions::new()
    };
    if y.is_empty() {
        return x.iter().map(zeros_like).collect();
    }
    let outputs: Vec<&Variable> = y.iter().collect();
    let inputs: Vec<&Variable> = x.iter().collect();
    gradients_with(&outputs, &inputs, &options)
        .into_iter()
        .zip(&x)
        .map(|(gradient, x)| gradient.unwrap_or_else(|| zeros_like(x)))
        .collect()
}

/// Computes the derivative of `f` at `x` along `v` by the forward walk, with zeros where none
/// arrives.
pub(crate) fn push(f: Call<'_>, x: &[Variable], v: &[Variable]) -> Vec<Variable> {
    let (y, tangents) = jvp(f, x, v);
    y.iter()
        .zip(tangents)
        .map(|(y, tangent)| tangent.unwrap_or_else(|| zeros_like(y)))
        .collect()
}

fn zeros_like(x: &Variable) -> Variable {
    Variable::constant(Array::zeros(x.shape(), x.dtype()))
}

/// Draws normally distributed numbers in the shapes of `x`.
pub(crate) fn normal_like(x: &[Variable], generator: &mut Generator) -> Vec<Variable> {
    x.iter()
        .map(|x| Variable::constant(generator.normal(x.shape(), 0.0, 1.0, x.dtype())))
        .collect()
}

/// Returns all elements, one list after the other.
pub(crate) fn flat(x: &[Variable]) -> Vec<f64> {
    let parts = x
        .iter()
        .map(|x| x.array().cast(DType::F64).reshape(x.size()));
    let parts: Vec<Array> = parts.collect();
    match parts.is_empty() {
        true => Vec::new(),
        false => concat(&parts.iter().collect::<Vec<_>>(), 0).to_vec(),
    }
}

/// Computes the inner product of two lists.
fn inner(a: &[Variable], b: &[Variable]) -> Variable {
    let product = flat(a)
        .iter()
        .zip(&flat(b))
        .map(|(a, b)| a * b)
        .sum::<f64>();
    Variable::constant(product)
}

/// Checks that `<w, tangents> = <gradients, v>`, up to rounding. Returns both products if not.
pub(crate) fn transposed(
    tangents: &[Variable],
    w: &[Variable],
    gradients: &[Variable],
    v: &[Variable],
) -> Result<(), (f64, f64)> {
    let product = |a: &[Variable], b: &[Variable]| {
        let terms = flat(a).into_iter().zip(flat(b)).map(|(a, b)| a * b);
        terms.fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + term.abs())
        })
    };
    let ((forward, forward_size), (reverse, reverse_size)) =
        (product(tangents, w), product(gradients, v));
    let allowed = 1e-12 * (1.0 + forward_size + reverse_size);
    match (forward - reverse).abs() <= allowed {
        true => Ok(()),
        false => Err((forward, reverse)),
    }
}

/// The steps to try. The largest is the most accurate where the function is smooth; the smaller ones
/// are for elements near a kink or a pole. A wrong derivative agrees with none of them.
const STEPS: [f64; 3] = [2e-3, 5e-5, 2e-6];

/// Compares a derivative of a curve at 0 with finite differences, each element at the step that suits
/// it best. If it is wrong, returns the position of the largest difference and the expected value
/// there. Elements of the curve may be sums of terms of this size.
pub(crate) fn disagreement(
    found: &[f64],
    curve: &dyn Fn(f64) -> Vec<Variable>,
    size: f64,
    tolerance: f64,
) -> Option<(usize, f64)> {
    // For each element, the difference at its best step relative to the allowed difference, and the
    // expected value at that step.
    let mut best = vec![(f64::INFINITY, f64::NAN); found.len()];
    for step in STEPS {
        let (expected, noise) = slope(curve, size, step);
        assert_eq!(found.len(), expected.len(), "a derivative for each element");
        let sizes = expected.iter().map(|x| x.abs());
        let largest = sizes.fold(0.0f64, f64::max);
        for ((best, &found), &expected) in best.iter_mut().zip(found).zip(&expected) {
            let allowed = tolerance * expected.abs() + 1e-2 * tolerance * largest + noise;
            let off = (found - expected).abs() / allowed.max(f64::MIN_POSITIVE);
            if off < best.0 || best.1.is_nan() {
                *best = (if off.is_nan() { f64::INFINITY } else { off }, expected);
            }
        }
        if best.iter().all(|&(off, _)| off <= 1.0) {
            return None;
        }
    }
    let farthest = (best.into_iter().enumerate()).max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b));
    farthest.map(|(position, (_, expected))| (position, expected))
}

/// Computes the derivative at 0 of a curve by central differences at three steps and extrapolation,
/// and an estimate of its rounding error.
fn slope(curve: &dyn Fn(f64) -> Vec<Variable>, size: f64, step: f64) -> (Vec<f64>, f64) {
    let mut largest = size;
    let mut central = |step: f64| -> Vec<f64> {
        let (ahead, behind) = (flat(&curve(step)), flat(&curve(-step)));
        let size = |list: &[f64]| list.iter().fold(0.0f64, |size, x| size.max(x.abs()));
        largest = largest.max(size(&ahead)).max(size(&behind));
        let pairs = ahead.iter().zip(&behind);
        pairs.map(|(a, b)| (a - b) / (2.0 * step)).collect()
    };
    let extrapolated = |coarse: &[f64], fine: &[f64], factor: f64| -> Vec<f64> {
        let pairs = coarse.iter().zip(fine);
        pairs
            .map(|(coarse, fine)| fine + (fine - coarse) / (factor - 1.0))
            .collect()
    };
    let [first, second, third] = [step, step / 2.0, step / 4.0].map(&mut central);
    let once = [
        extrapolated(&first, &second, 4.0),
        extrapolated(&second, &third, 4.0),
    ];
    let slope = extrapolated(&once[0], &once[1], 16.0);
    (slope, 64.0 * f64::EPSILON * largest / step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_exact_for_polynomials_of_degree_six() {
        let curve = |t: f64| vec![Variable::constant((1.0 + t).powi(6))];
        let (slope, _) = slope(&curve, 0.0, 2e-3);
        assert!((slope[0] - 6.0).abs() < 1e-11, "{slope:?}");
    }

    #[test]
    fn a_derivative_that_is_off_by_a_millionth_is_seen() {
        let curve = |t: f64| vec![Variable::constant((0.7 + t).sin())];
        let right = 0.7f64.cos();
        assert!(disagreement(&[right], &curve, 0.0, 1e-7).is_none());
        assert!(disagreement(&[right * (1.0 + 1e-6)], &curve, 0.0, 1e-7).is_some());
        assert!(disagreement(&[f64::NAN], &curve, 0.0, 1e-7).is_some());
    }
}
