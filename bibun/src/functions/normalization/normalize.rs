//! The function behind all normalizations, and the scale and shift after it.

use bibun_array::{Array, DType, Normalization, Shape, normalize_gradient};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::context::Context;
use crate::error::{Error, mismatch, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::products::reshaped;
use crate::functions::{Over, cast, float_of, rsqrt, sqrt, sum, to_accumulator, zeros_like};
use crate::variable::Variable;

/// Returns `[y, mean, variance]` over axes (sorted), where
/// `y = (x - mean) / √(variance + epsilon)`. Mean and variance have size 1 along the axes. Without
/// `centered` the mean is taken to be zero.
///
/// # Panics
/// Panics if epsilon is negative or NaN.
#[track_caller]
pub(super) fn normalize(
    function: &'static str,
    x: Variable,
    over: &[usize],
    centered: bool,
    epsilon: f64,
) -> [Variable; 3] {
    expect_epsilon(function, epsilon);
    let normalize = Normalize {
        function,
        over: Over {
            axes: over.into(),
            keep_dims: true,
        },
        rule: Normalization { centered, epsilon },
    };
    crate::apply(normalize, [to_accumulator(x)])
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

#[derive(Clone, Debug)]
struct Normalize {
    /// The name of the public function.
    function: &'static str,
    over: Over,
    rule: Normalization,
}

impl Normalize {
    /// Returns the mean over the axes, which are kept with size 1.
    fn mean(&self, x: Variable) -> Variable {
        let count = self.over.count(&x.shape()) as f64;
        sum(x, self.over.axes()) / count
    }

    /// Returns the same function of values with a batch axis in front.
    fn in_batch(&self) -> Self {
        let over = self.over.in_batch();
        Self { over, ..*self }
    }

    fn less_mean(&self, x: Variable) -> Variable {
        match self.rule.centered {
            true => &x - self.mean(x.clone()),
            false => x,
        }
    }
}

impl Function for Normalize {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        self.function
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        // The result serves as well as the input, and the functions after it save it anyway.
        Saved::NOTHING.output(0).output(2)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 3], Mismatch> {
        let statistic = Spec::new(self.over.reduced(&x.shape), x.dtype);
        Ok([x.clone(), statistic.clone(), statistic])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 3] {
        x.normalize(self.rule, &self.over.names())
    }

    fn vjp(
        &self,
        cx: &Context<'_>,
        [gy, gmean, gvariance]: [Variable; 3],
    ) -> [Option<Variable>; 1] {
        let inputs = [cx.output(0), cx.output(2), gy, gmean, gvariance];
        let [gx] = crate::apply(NormalizeGradient(self.clone()), inputs);
        [Some(gx)]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 3] {
        let Some(dx) = dx else {
            return [None, None, None];
        };
        let (y, variance) = (cx.output(0), cx.output(2));
        let shifted = variance + self.rule.epsilon;
        let along_y = self.mean(&y * &dx);
        let dmean = self.rule.centered.then(|| self.mean(dx.clone()));
        let dy = rsqrt(&shifted) * (self.less_mean(dx) - y * &along_y);
        [Some(dy), dmean, Some(along_y * sqrt(shifted) * 2.0)]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 3] {
        Batched::in_front(self.in_batch(), x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: [ExampleCotangent; 3],
    ) -> [Option<ExampleGradient>; 1] {
        let [y, mean, variance] = gy;
        if self.over.axes.contains(&y.examples.axis()) {
            return [Some(ExampleGradient::Mixed)];
        }
        let [mean, variance] = match [&mean, &variance].map(|gy| gy.examples == y.examples) {
            [true, true] => [mean.cotangent, variance.cotangent],
            _ => return [Some(ExampleGradient::Unknown)],
        };
        y.pull_back(|gy| self.vjp(cx, [gy, mean, variance]))
    }
}

/// The cotangent of the input, from the results y and variance and the cotangents of y, the mean
/// and the variance. With `m` the mean over the axes, `c` a value minus its mean, `n` the number of
/// elements and `σ² = variance + ε`:
///
/// `gx = c(gy) / σ + y (2 σ gvariance / n - m(y gy) / σ) + gmean / n`
///
/// It is linear in the cotangents, and its own transpose in gy.
#[derive(Clone, Debug)]
struct NormalizeGradient(Normalize);

impl NormalizeGradient {
    /// Computes the gradient for these cotangents, where `None` is zero.
    fn of(&self, cx: &Context<'_>, [gy, gmean, gvariance]: [Option<Variable>; 3]) -> Variable {
        let (y, variance) = (cx.input(0), cx.input(1));
        let gy = gy.unwrap_or_else(|| zeros_like(&y));
        let [gmean, gvariance] =
            [gmean, gvariance].map(|g| g.unwrap_or_else(|| zeros_like(&variance)));
        let [gx] = crate::apply(self.clone(), [y, variance, gy, gmean, gvariance]);
        gx
    }

    /// Returns `n`, the number of elements over the axes.
    fn count(&self, cx: &Context<'_>) -> f64 {
        self.0.over.count(cx.input_shape(0)) as f64
    }
}

impl Function for NormalizeGradient {
    type Inputs = Fixed<5>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "normalize gradient"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL.without_outputs()
    }

    fn shape(&self, inputs: [&Spec; 5]) -> Result<[Spec; 1], Mismatch> {
        Ok([inputs[0].clone()])
    }

    fn forward(&self, [y, variance, gy, gmean, gvariance]: [Array; 5]) -> [Array; 1] {
        let (results, cotangents) = ([&y, &variance], [&gy, &gmean, &gvariance]);
        let (rule, over) = (self.0.rule, self.0.over.names());
        [normalize_gradient(rule, results, cotangents, &over)]
    }

    fn vjp(&self, cx: &Context<'_>, [g]: [Variable; 1]) -> [Option<Variable>; 5] {
        let normalize = &self.0;
        let [y, variance, gy, gvariance] = [0, 1, 2, 4].map(|i| cx.input(i));
        let deviation = sqrt(&variance + normalize.rule.epsilon);
        let count = self.count(cx);
        let along_g = normalize.mean(&y * &g);
        let along_gy = normalize.mean(&y * &gy);
        let slope = || &gvariance * &deviation * (2.0 / count) - &along_gy / &deviation;
        let of_y = || &g * slope() - &gy * (&along_g / &deviation);
        let of_variance = || {
            let across = normalize.mean(&g * normalize.less_mean(gy.clone()));
            let cubed = deviation.square() * &deviation;
            (&along_g * &along_gy - across) / cubed * (0.5 * count)
                + &along_g * &gvariance / &deviation
        };
        let centered = normalize.rule.centered;
        [
            cx.needs(0).then(of_y),
            cx.needs(1).then(of_variance),
            (cx.needs(2)).then(|| self.of(cx, [Some(g.clone()), None, None])),
            (cx.needs(3) && centered).then(|| normalize.mean(g.clone())),
            (cx.needs(4)).then(|| &along_g * &deviation * 2.0),
        ]
    }

    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; 5]) -> [Option<Variable>; 1] {
        let normalize = &self.0;
        let [dy, dvariance, dgy, dgmean, dgvariance] = dx;
        let [y, variance, gy, gvariance] = [0, 1, 2, 4].map(|i| cx.input(i));
        let deviation = sqrt(&variance + normalize.rule.epsilon);
        let count = self.count(cx);
        let along_gy = normalize.mean(&y * &gy);
        let by_cotangents = [&dgy, &dgmean, &dgvariance].iter().any(|d| d.is_some());
        let terms = [
            by_cotangents.then(|| self.of(cx, [dgy, dgmean, dgvariance])),
            dy.map(|dy| {
                let slope = &gvariance * &deviation * (2.0 / count) - &along_gy / &deviation;
                let along_dy = normalize.mean(&dy * &gy);
                dy * slope - &y * (along_dy / &deviation)
            }),
            dvariance.map(|dvariance| {
                let cubed = deviation.square() * &deviation;
                let of_y = &gvariance / &deviation / count + &along_gy / &cubed * 0.5;
                (&y * of_y - normalize.less_mean(gy.clone()) / cubed * 0.5) * dvariance
            }),
        ];
        [terms.into_iter().flatten().reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: [Batched; 5]) -> [Batched; 1] {
        Batched::in_front(Self(self.0.in_batch()), inputs)
    }

    fn per_example(
        &self,
        _: &Context<'_>,
        _: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 5] {
        [const { Some(ExampleGradient::Unknown) }; 5]
    }
}

/// Computes `y gamma + beta`, with scales and shifts that vary along some axes of y (sorted). The
/// result is rounded once to the floats promoted from all of them and `dtype`, the original dtype
/// of y.
///
/// # Panics
/// Panics if a scale or shift does not have the shape of y along these axes; the message names all
/// inputs.
#[track_caller]
pub(super) fn scaled(
    function: &'static str,
    y: Variable,
    dtype: DType,
    along: &[usize],
    [gamma, beta]: [Option<&Variable>; 2],
) -> Variable {
    let dtype = float_of(dtype, gamma.into_iter().chain(beta));
    let shape = y.shape();
    let own: Shape = along.iter().map(|&axis| shape[axis]).collect();
    if [gamma, beta]
        .into_iter()
        .flatten()
        .any(|p| p.shape() != own)
    {
        let specs = [Some(&y), gamma, beta].map(|p| p.map(Variable::spec));
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
    let y = match gamma {
        Some(gamma) => y * reshaped(gamma.clone(), &sizes),
        None => y,
    };
    let y = match beta {
        Some(beta) => y + reshaped(beta.clone(), &sizes),
        None => y,
    };
    cast(y, dtype)
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

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // Axes of any order and number; the group of an element is determined by its index on the other
    // axes.
    let sample = |shape: &'static [usize], over: &'static [usize], centered: bool| {
        let call = move |x: &[Variable]| {
            let [y, mean, variance] = normalize("normalize", x[0].clone(), over, centered, 0.1);
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
                let [y, ..] = normalize("normalize", x.clone(), over, true, 1e-5);
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
        let [y, mean, variance] = normalize("normalize", x, &[0], true, 0.0);
        assert_eq!(mean.to_vec::<f64>(), [1e8 + 1.0]);
        assert_eq!(variance.to_vec::<f64>(), [2.0 / 3.0]);
        assert_eq!(y.to_vec::<f64>()[1], 0.0);
    }

    #[test]
    fn nothing_is_normalised() {
        let x = Variable::new(Array::zeros([0, 3], DType::F32));
        let [y, mean, variance] = normalize("normalize", x.clone(), &[0], true, 1e-5);
        assert_eq!((y.shape(), mean.shape()), ([0, 3].into(), [1, 3].into()));
        assert!(variance.to_vec::<f32>().iter().all(|x| x.is_nan()));
        y.sum(..).backward();
        assert_eq!(x.grad().expect("a gradient").shape(), [0, 3]);
    }

    #[test]
    fn only_results_are_kept() {
        let x = Variable::new([[1.0, 2.0], [3.0, 5.0]]);
        let [y, ..] = normalize("normalize", &x * 1.0, &[1], true, 1e-5);
        let creator = y.creator().expect("recorded");
        assert!(creator.inputs()[0].value().is_none());
        assert!(creator.outputs()[0].value().is_some());
    }

    #[test]
    fn a_negative_epsilon_is_refused() {
        let x = Variable::new([1.0]);
        let message = attempt(|| normalize("layer_normalization", x, &[0], true, -1.0))
            .expect_err("an error")
            .to_string();
        assert!(
            message.contains("layer_normalization: epsilon is -1"),
            "{message}"
        );
    }
}
