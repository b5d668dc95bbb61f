//! The function behind all normalizations, with the scale and the shift after it.

use bibun_array::{Array, DType, Normalization, Shape, keep_dims};
use smallvec::SmallVec;

use super::gradient::NormalizeGradient;
use crate::batch::Batched;
use crate::context::Context;
use crate::error::{Error, mismatch, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::products::reshaped;
use crate::functions::{
    Over, broadcast_to, cast, expand_dims, float_of, moveaxis, rsqrt, sqrt, sum,
};
use crate::variable::Variable;

/// The scale and the shift after a normalization, and the dtype of its result: the floats promoted from
/// all of them.
pub(super) struct Scaling {
    dtype: DType,
    parameters: [Option<Variable>; 2],
}

impl Scaling {
    /// Takes a scale and a shift that vary along some axes of x (sorted).
    ///
    /// # Panics
    /// Panics if a scale or shift does not have the shape of x along these axes; the message names
    /// all inputs.
    #[track_caller]
    pub(super) fn of(
        function: &'static str,
        x: &Variable,
        along: &[usize],
        [gamma, beta]: [Option<&Variable>; 2],
    ) -> Self {
        let shape = x.shape();
        let own: Shape = along.iter().map(|&axis| shape[axis]).collect();
        let mut all = [gamma, beta].into_iter().flatten();
        if all.any(|parameter| parameter.shape() != own) {
            let specs = [Some(x), gamma, beta].map(|p| p.map(Variable::spec));
            let named: Vec<(&str, &Spec)> = (["x", "gamma", "beta"].into_iter().zip(&specs))
                .filter_map(|(name, spec)| Some((name, spec.as_ref()?)))
                .collect();
            let must_hold = format!("gamma and beta must be {own}, as x along its axes {along:?}");
            mismatch(function, &named, must_hold);
        }
        let mut sizes = Shape::from(vec![1; shape.rank()]);
        for &axis in along {
            sizes = sizes.replaced(axis, shape[axis]);
        }
        let aligned = |parameter: &Variable| reshaped(parameter.clone(), &sizes);
        Self {
            dtype: float_of(x.dtype(), gamma.into_iter().chain(beta)),
            parameters: [gamma, beta].map(|parameter| parameter.map(aligned)),
        }
    }

    /// Splits the axis of channels into one of groups and one of channels.
    #[must_use]
    pub(super) fn in_groups(self, groups: usize) -> Self {
        let split = |x: Variable| {
            let shape = x.shape();
            let split = shape.replaced(1, shape[1] / groups).inserted(1, groups);
            reshaped(x, split)
        };
        let parameters = self.parameters.map(|parameter| parameter.map(split));
        Self { parameters, ..self }
    }

    /// Multiplies and adds, and rounds once.
    #[track_caller]
    pub(super) fn apply(self, y: Variable) -> Variable {
        let [gamma, beta] = self.parameters;
        let y = match gamma {
            Some(gamma) => y * gamma,
            None => y,
        };
        let y = match beta {
            Some(beta) => y + beta,
            None => y,
        };
        cast(y, self.dtype)
    }
}

/// Returns `[y, mean, variance]` over axes (sorted), where
/// `y = (x - mean) / √(variance + epsilon)`, scaled and shifted. Mean and variance have size 1 along
/// the axes. Without `centered` the mean is taken to be zero. The result is rounded once.
///
/// # Panics
/// Panics if epsilon is negative or NaN.
#[track_caller]
pub(super) fn normalize(
    function: &'static str,
    x: Variable,
    over: &[usize],
    rule: Normalization,
    scaling: Scaling,
) -> [Variable; 3] {
    expect_epsilon(function, rule.epsilon);
    let normalize = Normalize {
        function,
        over: Over {
            axes: over.into(),
            keep_dims: true,
        },
        rule,
    };
    let Scaling {
        dtype,
        parameters: [gamma, beta],
    } = scaling;
    // A shift alone is an addition like any other.
    let (shift, term) = match gamma.is_some() {
        true => (beta, None),
        false => (None, beta),
    };
    let inputs = std::iter::once(x).chain(gamma).chain(shift);
    let inputs = inputs.map(|x| cast(x, dtype.accumulator()));
    let [y, mean, variance] = crate::apply(normalize, inputs.collect());
    let y = match term {
        Some(term) => y + term,
        None => y,
    };
    [cast(y, dtype), mean, variance]
}

#[track_caller]
pub(super) fn expect_epsilon(function: &'static str, epsilon: f64) {
    if epsilon.is_nan() || epsilon < 0.0 {
        let what = format!("epsilon is {epsilon}, it must not be negative");
        raise(Error::argument(function, what));
    }
}

/// Raises an error for sets of one element each, which would be normalized to 0 whatever they are.
#[track_caller]
pub(super) fn expect_several(
    function: &'static str,
    x: (&str, &Variable),
    over: &[usize],
    set: &str,
) {
    let (name, spec) = (x.0, x.1.spec());
    if spec.shape.size() > 0 && over.iter().all(|&axis| spec.shape[axis] == 1) {
        let must_hold = format!(
            "there must be more than one value in a {set}: less its own mean, one is always 0"
        );
        mismatch(function, &[(name, &spec)], must_hold)
    }
}

/// A normalization of x, which a scale and a shift may follow: both have the axes of x, with those of
/// size 1 along which they do not vary.
#[derive(Clone, Debug)]
pub(super) struct Normalize {
    /// The name of the public function.
    function: &'static str,
    over: Over,
    pub(super) rule: Normalization,
}

/// Where the scale is among the inputs.
const SCALE: usize = 1;

impl Normalize {
    /// Returns the mean over the axes, which are kept with size 1.
    pub(super) fn mean(&self, x: Variable) -> Variable {
        let count = self.count(&x.shape());
        sum(x, self.over.axes()) / count
    }

    /// Returns the number of elements over the axes of a shape.
    pub(super) fn count(&self, shape: &Shape) -> f64 {
        self.over.count(shape) as f64
    }

    /// Returns the axes.
    pub(super) fn axes(&self) -> SmallVec<[isize; 4]> {
        self.over.names()
    }

    /// Returns the same function of values with a batch axis in front.
    pub(super) fn in_batch(&self) -> Self {
        let over = self.over.in_batch();
        Self { over, ..*self }
    }

    pub(super) fn less_mean(&self, x: Variable) -> Variable {
        match self.rule.centered {
            true => &x - self.mean(x.clone()),
            false => x,
        }
    }

    /// Returns the normalized elements from x, its mean and its variance.
    pub(super) fn normal(&self, [x, mean, variance]: [&Variable; 3]) -> Variable {
        let factor = rsqrt(variance + self.rule.epsilon);
        match self.rule.centered {
            true => (x - mean) * factor,
            false => x * factor,
        }
    }

    /// Computes the cotangents of x, the scale and the shift.
    fn gradients(
        &self,
        cx: &Context<'_>,
        scale: Option<Variable>,
        cotangents: [Variable; 3],
    ) -> Vec<Variable> {
        let read = [cx.input(0), cx.output(1), cx.output(2)];
        let inputs = read.into_iter().chain(cotangents).chain(scale).collect();
        crate::apply(NormalizeGradient(self.clone()), inputs)
    }
}

impl Function for Normalize {
    type Inputs = Variadic;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        self.function
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).input(SCALE).output(1).output(2)
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<[Spec; 3], Mismatch> {
        let x = inputs[0];
        let statistic = Spec::new(self.over.reduced(&x.shape), x.dtype);
        Ok([x.clone(), statistic.clone(), statistic])
    }

    fn forward(&self, inputs: Vec<Array>) -> [Array; 3] {
        let parameters: SmallVec<[&Array; 2]> = inputs[1..].iter().collect();
        inputs[0].normalize(self.rule, &self.over.names(), &parameters)
    }

    fn vjp(&self, cx: &Context<'_>, gy: [Variable; 3]) -> Vec<Option<Variable>> {
        let count = cx.input_count();
        let scale = (count > SCALE).then(|| cx.input(SCALE));
        let gradients = self.gradients(cx, scale, gy).into_iter();
        gradients.map(Some).take(count).collect()
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> [Option<Variable>; 3] {
        let [mean, variance] = [cx.output(1), cx.output(2)];
        let normal = self.normal([&cx.input(0), &mean, &variance]);
        let shifted = variance + self.rule.epsilon;
        let mut dx = dx.into_iter();
        let (dx, dscale, dshift) = (dx.next().flatten(), dx.next(), dx.next());
        let mut statistics = [None, None];
        let dnormal = dx.map(|dx| {
            let along = self.mean(&normal * &dx);
            let dmean = self.rule.centered.then(|| self.mean(dx.clone()));
            statistics = [dmean, Some(&along * sqrt(&shifted) * 2.0)];
            rsqrt(&shifted) * (self.less_mean(dx) - &normal * along)
        });
        let by_x = dnormal.map(|dnormal| match dscale.is_some() {
            true => dnormal * cx.input(SCALE),
            false => dnormal,
        });
        let by_scale = dscale.flatten().map(|dscale| &normal * dscale);
        let terms = [by_x, by_scale, dshift.flatten()].into_iter().flatten();
        let dy = terms.reduce(|sum, term| sum + term);
        let dy = dy.map(|dy| broadcast_to(dy, cx.input_shape(0)));
        let [dmean, dvariance] = statistics;
        [dy, dmean, dvariance]
    }

    fn batch(&self, inputs: Vec<Batched>) -> [Batched; 3] {
        let count = Batched::batch_size(&inputs);
        let is_shared = inputs[SCALE..].iter().all(|input| input.axis.is_none());
        let in_front = |(i, input): (usize, &Batched)| match i >= SCALE && is_shared {
            true => expand_dims(&input.value, 0),
            false => input.to_front(count),
        };
        let values = inputs.iter().enumerate().map(in_front).collect();
        crate::apply(self.in_batch(), values).map(|y| Batched::along(y, 0))
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [y, mean, variance]: [ExampleCotangent; 3],
    ) -> Vec<Option<ExampleGradient>> {
        let (count, examples) = (cx.input_count(), y.examples);
        let axis = examples.axis();
        // Mixed examples have gradients of the parameters nevertheless.
        let is_mixed = self.over.axes.contains(&axis);
        let is_known = [&mean, &variance].iter().all(|gy| gy.examples == examples);
        if !is_mixed && !is_known {
            return vec![Some(ExampleGradient::Unknown); count];
        }
        // The gradients of the parameters are kept apart for the slices.
        let is_shared = count > SCALE && cx.input_shape(SCALE)[axis] == 1;
        let scale = (count > SCALE).then(|| {
            let scale = cx.input(SCALE);
            let apart = scale.shape().replaced(axis, examples.slices());
            broadcast_to(scale, apart)
        });
        let cotangents = [y.cotangent, mean.cotangent, variance.cotangent];
        let gradients = self
            .gradients(cx, scale, cotangents)
            .into_iter()
            .enumerate();
        let gradients = gradients.map(|(i, gradient)| match i {
            0 if is_mixed => ExampleGradient::Mixed,
            SCALE.. if is_shared => {
                // [examples, l, ..], with l where the examples' axis was.
                let each = examples.of_each(&gradient);
                let each = moveaxis(each, 1, axis as isize + 1);
                ExampleGradient::Stacked(sum(each, keep_dims(axis as isize + 1)))
            }
            _ => ExampleGradient::sliced(gradient, examples.clone()),
        });
        gradients.take(count).map(Some).collect()
    }
}

/// Returns the axes that are not among the given ones (sorted).
pub(super) fn others(axes: &[usize], rank: usize) -> SmallVec<[usize; 4]> {
    (0..rank).filter(|axis| !axes.contains(axis)).collect()
}

/// Computes the mean and variance of each set of elements that `group` maps to one number, and the
/// normalized elements, by plain loops; used to write references.
#[cfg(test)]
pub(super) fn reference(
    x: &Array,
    groups: usize,
    epsilon: f64,
    group: impl Fn(usize) -> usize,
) -> [Vec<f64>; 3] {
    let x = x.to_vec::<f64>();
    let of = |k: usize| {
        (0..x.len())
            .filter(|&i| group(i) == k)
            .map(|i| x[i])
            .collect()
    };
    let sets: Vec<Vec<f64>> = (0..groups).map(of).collect();
    let mean: Vec<f64> = (sets.iter())
        .map(|set| set.iter().sum::<f64>() / set.len() as f64)
        .collect();
    let variance: Vec<f64> = (sets.iter().zip(&mean))
        .map(|(set, mean)| {
            let squares = set.iter().map(|x| (x - mean) * (x - mean));
            squares.sum::<f64>() / set.len() as f64
        })
        .collect();
    let y = (x.iter().enumerate())
        .map(|(i, x)| (x - mean[group(i)]) / (variance[group(i)] + epsilon).sqrt())
        .collect();
    [y, mean, variance]
}

/// Normalizes without a scale and a shift.
#[cfg(test)]
#[track_caller]
fn plain(x: &Variable, over: &[usize], centered: bool, epsilon: f64) -> [Variable; 3] {
    let scaling = Scaling::of("normalize", x, &[], [None, None]);
    let rule = Normalization { centered, epsilon };
    normalize("normalize", x.clone(), over, rule, scaling)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // Axes of any order and number; the group of an element is determined by its index on the other
    // axes.
    let sample = |shape: &'static [usize], over: &'static [usize], centered: bool| {
        let call = move |x: &[Variable]| {
            let [y, mean, variance] = plain(&x[0], over, centered, 0.1);
            match centered {
                true => vec![y, mean, variance],
                false => vec![y, variance],
            }
        };
        let expected = move |x: &[Array]| {
            let shape = Shape::from(shape);
            let reduced = shape.reduced(over, true);
            let group = |i: usize| {
                let mut rest = i;
                let (mut group, mut step) = (0, 1);
                for axis in (0..shape.rank()).rev() {
                    let at = rest % shape[axis];
                    rest /= shape[axis];
                    if !over.contains(&axis) {
                        group += at * step;
                        step *= shape[axis];
                    }
                }
                group
            };
            if !centered {
                let x = x[0].to_vec::<f64>();
                let square = |k: usize| {
                    let own = (0..x.len()).filter(|&i| group(i) == k);
                    let squares: Vec<f64> = own.map(|i| x[i] * x[i]).collect();
                    squares.iter().sum::<f64>() / squares.len() as f64
                };
                let squares: Vec<f64> = (0..reduced.size()).map(square).collect();
                let y = (x.iter().enumerate()).map(|(i, x)| x / (squares[group(i)] + 0.1).sqrt());
                return vec![
                    Array::from_vec(y.collect(), &shape),
                    Array::from_vec(squares, &reduced),
                ];
            }
            let [y, mean, variance] = reference(&x[0], reduced.size(), 0.1, group);
            vec![
                Array::from_vec(y, &shape),
                Array::from_vec(mean, &reduced),
                Array::from_vec(variance, &reduced),
            ]
        };
        Sample::new("normalize", call, expected).input(Shape::from(shape), -2.0..2.0)
    };
    vec![
        sample(&[2, 5], &[1], true),
        sample(&[5, 2], &[0], true),
        sample(&[5, 2], &[0], false),
        sample(&[3, 2, 17], &[0, 2], true),
        sample(&[2, 3, 4], &[1], true),
        sample(&[2, 3, 2, 2], &[0, 2], true),
        sample(&[2, 3, 2, 3], &[1, 3], true),
        sample(&[2, 3, 1], &[2], true),
        sample(&[4], &[0], false),
        sample(&[2, 3], &[], true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GradOptions, attempt, gradients_with};
    use bibun_array::{DType, Generator};

    /// Sizes at which threads, blocks, several pieces and remainders are all involved.
    #[test]
    fn large_arrays_agree_with_loops_and_formulae() {
        let shapes: [(&[usize], &[usize]); 4] = [
            (&[3, 37, 1500], &[0, 2]),
            (&[700, 301], &[1]),
            (&[700, 301], &[0]),
            (&[70, 31, 9, 11], &[0, 2]),
        ];
        for (shape, over) in shapes {
            for dtype in [DType::F32, DType::F64] {
                let tolerance = if dtype == DType::F32 { 2e-5 } else { 1e-11 };
                let generator = &mut Generator::new(3);
                let x = generator.normal(shape, 5.0, 2.0, dtype);
                let gy = generator.normal(shape, 0.0, 1.0, dtype);
                let x = Variable::new(x);
                let [y, ..] = plain(&x, over, true, 1e-5);
                let over: Vec<isize> = over.iter().map(|&axis| axis as isize).collect();
                let kept = || bibun_array::keep_dims(&over[..]);
                let plain = (&x - x.mean(kept())) / (x.var(kept(), 0) + 1e-5).sqrt();
                let largest = |a: &Variable| a.abs().max(..).cast(DType::F64).item::<f64>();
                assert!(largest(&(&y - &plain)) < tolerance, "{shape:?} {dtype}");
                let options = GradOptions {
                    cotangents: vec![Variable::constant(gy)],
                    ..Default::default()
                };
                let gradient = |y: &Variable| {
                    let found = gradients_with(&[y], &[&x], &options);
                    found[0].clone().expect("a gradient")
                };
                let difference = gradient(&y) - gradient(&plain);
                assert!(largest(&difference) < tolerance, "{shape:?} {dtype}");
            }
        }
    }

    #[test]
    fn a_mean_far_from_zero_loses_nothing() {
        let x = Variable::constant([1e8, 1e8 + 1.0, 1e8 + 2.0]);
        let [y, mean, variance] = plain(&x, &[0], true, 0.0);
        assert_eq!(mean.to_vec::<f64>(), [1e8 + 1.0]);
        assert_eq!(variance.to_vec::<f64>(), [2.0 / 3.0]);
        assert_eq!(y.to_vec::<f64>()[1], 0.0);
    }

    #[test]
    fn nothing_is_normalised() {
        let x = Variable::new(Array::zeros([0, 3], DType::F32));
        let [y, mean, variance] = plain(&x, &[0], true, 1e-5);
        assert_eq!((y.shape(), mean.shape()), ([0, 3].into(), [1, 3].into()));
        assert!(variance.to_vec::<f32>().iter().all(|x| x.is_nan()));
        y.sum(..).backward();
        assert_eq!(x.grad().expect("a gradient").shape(), [0, 3]);
    }

    #[test]
    fn only_the_input_and_statistics_are_kept() {
        let x = Variable::new([[1.0, 2.0], [3.0, 5.0]]);
        let [y, ..] = plain(&(&x * 1.0), &[1], true, 1e-5);
        let creator = y.creator().expect("recorded");
        assert!(creator.inputs()[0].value().is_some());
        let outputs = creator.outputs();
        let is_kept: Vec<bool> = outputs.iter().map(|y| y.value().is_some()).collect();
        assert_eq!(is_kept, [false, true, true]);
    }

    #[test]
    fn a_negative_epsilon_is_refused() {
        let x = Variable::new([1.0]);
        let message = attempt(|| plain(&x, &[0], true, -1.0))
            .expect_err("an error")
            .to_string();
        assert!(message.contains("normalize: epsilon is -1"), "{message}");
    }
}
