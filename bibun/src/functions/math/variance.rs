//! The variance and the standard deviation.

use bibun_array::{Array, Axes};

use super::norm::root_of_squares;
use super::reduction::{Over, count_over};
use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::fused::fused;
use crate::functions::{cast, in_accumulator, reshape, sum, to_float, to_float_of};
use crate::variable::Variable;

/// Computes the variance over axes, `Σ (x - mean)² / (n - ddof)`. With `ddof` 0 it is that of the
/// elements, with 1 an unbiased estimate from a sample; it may be a fraction, as 1.5, with which the root is about
/// unbiased.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `2 gy (x - mean) / (n - ddof)`. NaN or ∞ if there are not more than `ddof` elements.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::var, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(var(&x, .., 0).item::<f64>(), 1.25);
/// ```
#[track_caller]
pub fn var(x: impl Into<Variable>, axes: impl Into<Axes>, ddof: impl Into<f64>) -> Variable {
    let (x, axes) = (to_float_of("var", x.into()), axes.into());
    let rule = Variance {
        degrees: degrees_of_freedom("var", &x, &axes, ddof.into()),
        over: Over::new("var", &axes, &x),
    };
    let [y] = crate::apply(rule, [x]);
    y
}
method!(var, axes: impl Into<Axes>, ddof: impl Into<f64>);

/// Returns the number of elements of a sum of squares that are not fixed by the mean, or none of fewer.
#[track_caller]
fn degrees_of_freedom(function: &'static str, x: &Variable, axes: &Axes, ddof: f64) -> f64 {
    (count_over(function, x, axes) as f64 - ddof).max(0.0)
}

/// Computes the standard deviation over axes, the square root of [`var`], without overflow or
/// underflow in between.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers and bools give f64.
/// Gradient: `gy (x - mean) / (n - ddof) / y`. Where all elements are equal there is a kink, and
/// the gradient is 0.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::std, Variable};
/// assert_eq!(std(Variable::new([1.0, 3.0]), .., 0).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn std(x: impl Into<Variable>, axes: impl Into<Axes>, ddof: impl Into<f64>) -> Variable {
    let _whole = composite("std");
    let (x, axes) = (to_float(x.into()), axes.into());
    let degrees = degrees_of_freedom("std", &x, &axes, ddof.into());
    in_accumulator(x, |x| {
        root_of_squares("std", centred("std", x, &axes), axes, degrees)
    })
}
method!(std, axes: impl Into<Axes>, ddof: impl Into<f64>);

#[derive(Clone, PartialEq, Debug)]
struct Variance {
    over: Over,
    /// The number that the sum of squares is divided by.
    degrees: f64,
}

impl Variance {
    /// Returns the derivative to each element.
    fn slopes(&self, x: Variable) -> Variable {
        Linear::of(Centred(self.over.clone()), x) * (2.0 / self.degrees)
    }
}

impl Function for Variance {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "var"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new(self.over.reduced(&x.shape), x.dtype)])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        let count = self.over.count(x.shape()) as f64;
        let [_, variance] = x.moments(self.over.axes());
        match count == self.degrees {
            true => [variance],
            false => [variance * (count / self.degrees)],
        }
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        fused(self.clone(), [cx.input(0), gy], |own, [x, gy]| {
            let gy = reshape(gy, own.over.aligned(&x.shape()));
            [in_accumulator(x, |x| {
                let gy = cast(gy, x.dtype());
                own.slopes(x) * gy
            })]
        })
        .map(Some)
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| {
            let [dy] = fused(self.clone(), [cx.input(0), dx], |own, [x, dx]| {
                [in_accumulator(x, |x| {
                    let dx = cast(dx, x.dtype());
                    sum(own.slopes(x) * dx, own.over.axes())
                })]
            });
            dy
        })]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over, ..*self }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let examples = self.over.examples(cx.input_shape(0), &gy.examples);
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

/// Returns the differences from the mean over axes.
#[track_caller]
fn centred(function: &'static str, x: Variable, axes: &Axes) -> Variable {
    Linear::of(Centred(Over::new(function, axes, &x)), x)
}

/// The projection `x - mean(x)`, which is its own transpose.
#[derive(Clone, Debug)]
struct Centred(Over);

impl LinearRule for Centred {
    fn name(&self) -> &'static str {
        "centred"
    }
    fn in_accumulator(&self) -> bool {
        true
    }
    fn forward(&self, x: Array) -> Array {
        let over = || self.0.kept_axes();
        let count = self.0.count(x.shape()) as f64;
        let mut mean = &x.sum(over()) / count;
        let finite = mean.is_finite();
        // A device is not asked whether this is needed.
        if finite.all(..).known_item() != Some(true) {
            // The sum overflows before the mean does.
            mean = finite.where_(&mean, (&x / count).sum(over()));
        }
        x - mean
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(self.clone(), gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(Self(self.0.in_batch()), x, axis)
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        let [gradient] = gy.pull_back_unless(&self.0.axes, |gy| [Some(self.transpose(x, gy))]);
        gradient.expect("there is a transpose")
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::keep_dims;

    use super::reduction::{over_axes, reduction_samples};
    use crate::conformance::Sample;

    let range = -2.0..2.0;
    let variance_of = move |x: &[f64], ddof: f64| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let squares: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
        squares / (x.len() as f64 - ddof)
    };
    let mut samples = reduction_samples(
        "var",
        range.clone(),
        |x, axes| var(x, axes, 0),
        move |x| variance_of(x, 0.0),
    );
    for ddof in [1.0, 1.5] {
        samples.push(
            Sample::new(
                "var",
                move |x| vec![var(&x[0], 1, ddof)],
                move |x| vec![over_axes(&x[0], &[1], false, |x| variance_of(x, ddof))],
            )
            .input([2, 3], range.clone()),
        );
    }
    // With more than one element, not all of them equal.
    samples.push(
        Sample::new(
            "std",
            |x| vec![std(&x[0], keep_dims(0), 1)],
            move |x| vec![over_axes(&x[0], &[0], true, |x| variance_of(x, 1.0).sqrt())],
        )
        .input([3, 2], range),
    );
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;

    #[test]
    fn equal_elements_have_no_deviation_and_no_gradient() {
        let x = Variable::new([[2.0, 2.0], [1.0, 3.0]]);
        let y = std(&x, 1, 0);
        assert_eq!(y.to_vec::<f64>(), [0.0, 1.0]);
        let gradients = gradients(&[&y.sum(..)], &[&x]);
        assert_eq!(
            gradients[0].as_ref().unwrap().to_vec::<f64>(),
            [0.0, 0.0, -0.5, 0.5]
        );
    }
}
