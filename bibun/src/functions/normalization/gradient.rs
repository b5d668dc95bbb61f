//! The gradient of the function behind all normalizations.

use bibun_array::{Array, Shape, keep_dims, normalize_gradient};
use smallvec::SmallVec;

use super::normalize::Normalize;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::{rsqrt, sqrt, sum, zeros_like};
use crate::variable::Variable;

/// The cotangents of x, and of the scale and the shift if there is a scale. The inputs are x, its mean
/// and variance, the cotangents of y, the mean and the variance, and perhaps the scale.
///
/// With `m` the mean over the axes, `c` a value minus its mean, `n` the number of elements,
/// `σ² = variance + ε`, `z` the normalized elements and `A(w) = (c(w) - z m(z w)) / σ`:
///
/// `gx = A(gy scale) + 2 σ gvariance z / n + gmean / n`, `gscale = Σ gy z`, `gshift = Σ gy`
///
/// A is symmetric, and the gradient of an x with neither scale nor cotangents of mean and variance.
/// The rules take mean and variance for functions of x, whose derivatives contain what would come by
/// them.
#[derive(Clone, Debug)]
pub(super) struct NormalizeGradient(pub(super) Normalize);

/// Where the inputs are.
const GY: usize = 3;
const GVARIANCE: usize = 5;
const SCALE: usize = 6;

/// What the rules read.
struct Read<'a> {
    normalize: &'a Normalize,
    x: [Variable; 3],
    normal: Variable,
    /// `1 / σ`.
    factor: Variable,
    gy: Variable,
    gvariance: Variable,
    scale: Option<Variable>,
    count: f64,
}

impl<'a> Read<'a> {
    fn of(normalize: &'a Normalize, cx: &Context<'_>) -> Self {
        let x = [0, 1, 2].map(|i| cx.input(i));
        Self {
            normalize,
            normal: normalize.normal(x.each_ref()),
            factor: rsqrt(&x[2] + normalize.rule.epsilon),
            x,
            gy: cx.input(GY),
            gvariance: cx.input(GVARIANCE),
            scale: (cx.input_count() > SCALE).then(|| cx.input(SCALE)),
            count: normalize.count(cx.input_shape(0)),
        }
    }

    /// The gradient of x for these cotangents of the normalized elements, the mean and the variance,
    /// where `None` is zero. With the first alone it is `A`.
    fn gradient(&self, [g, gmean, gvariance]: [Option<Variable>; 3]) -> Variable {
        let [x, mean, variance] = self.x.clone();
        let g = g.unwrap_or_else(|| zeros_like(&x));
        let [gmean, gvariance] =
            [gmean, gvariance].map(|g| g.unwrap_or_else(|| zeros_like(&variance)));
        let inputs = vec![x, mean, variance, g, gmean, gvariance];
        let mut gradients = crate::apply(NormalizeGradient(self.normalize.clone()), inputs);
        gradients.swap_remove(0)
    }

    /// `A(w)`.
    fn along(&self, w: Variable) -> Variable {
        self.gradient([Some(w), None, None])
    }

    /// A value times the scale.
    fn scaled(&self, x: Variable) -> Variable {
        match &self.scale {
            Some(scale) => x * scale,
            None => x,
        }
    }

    fn mean(&self, x: Variable) -> Variable {
        self.normalize.mean(x)
    }
}

/// The sums over the axes along which the scale does not vary.
fn summed(x: Variable, scale: &Shape) -> Variable {
    let axes = (0..scale.rank()).filter(|&axis| scale[axis] == 1);
    let axes: SmallVec<[isize; 4]> = axes.map(|axis| axis as isize).collect();
    sum(x, keep_dims(&axes[..]))
}

impl Function for NormalizeGradient {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "normalize gradient"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL.without_outputs()
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        let scale = inputs.get(SCALE);
        let all = [Some(&inputs[0]), scale, scale].into_iter().flatten();
        Ok(all.map(|&spec| spec.clone()).collect())
    }

    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        let ([x, mean, variance, gy, gmean, gvariance], scale) =
            inputs.split_first_chunk().expect("there are six");
        let (statistics, cotangents) = ([mean, variance], [gy, gmean, gvariance]);
        let (rule, axes) = (self.0.rule, self.0.axes());
        normalize_gradient(rule, &axes, x, statistics, scale.first(), cotangents)
    }

    fn vjp(&self, cx: &Context<'_>, h: Vec<Variable>) -> Vec<Option<Variable>> {
        let read = Read::of(&self.0, cx);
        let (normal, factor, gy) = (&read.normal, &read.factor, &read.gy);
        let mut h = h.into_iter();
        let (h, hscale, hshift) = (h.next().expect("one for x"), h.next(), h.next());
        let along_h = read.along(h.clone());
        let g = read.scaled(gy.clone());
        let p = read.mean(normal * &h);
        let mut gradients = vec![None; cx.input_count()];
        gradients[0] = cx.needs(0).then(|| {
            let q = read.mean(normal * &g);
            let apart = self.0.less_mean(h.clone());
            let r = read.mean(&apart * &g);
            let turned = (&h * &q + &g * &p) * factor;
            let turned = match &hscale {
                Some(hscale) => gy * hscale - turned,
                None => -turned,
            };
            let bent = normal * ((r - &p * q) * factor.square());
            read.along(turned) - bent + apart * (&read.gvariance * (2.0 / read.count))
        });
        gradients[GY] = cx.needs(GY).then(|| {
            let by_x = read.scaled(along_h.clone());
            let by_scale = hscale.map(|hscale| normal * hscale);
            let terms = [by_scale, hshift].into_iter().flatten();
            terms.fold(by_x, |sum, term| sum + term)
        });
        if self.0.rule.centered {
            gradients[GY + 1] = cx.needs(GY + 1).then(|| read.mean(h));
        }
        gradients[GVARIANCE] = (cx.needs(GVARIANCE)).then(|| {
            let deviation = sqrt(&read.x[2] + self.0.rule.epsilon);
            p * deviation * 2.0
        });
        if let Some(scale) = &read.scale {
            gradients[SCALE] = (cx.needs(SCALE)).then(|| summed(gy * along_h, &scale.shape()));
        }
        gradients
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let read = Read::of(&self.0, cx);
        let (normal, factor, gy) = (&read.normal, &read.factor, &read.gy);
        let dscale = dx.get(SCALE).cloned().flatten();
        let [dx, dgy, dgmean, dgvariance] = [0, GY, GY + 1, GVARIANCE].map(|i| dx[i].clone());
        let along_dx = dx.clone().map(|dx| read.along(dx));
        let dg = [
            dgy.clone().map(|dgy| read.scaled(dgy)),
            dscale.map(|dscale| gy * dscale),
        ];
        let dg = dg.into_iter().flatten().reduce(|sum, term| sum + term);
        let is_linear = [&dg, &dgmean, &dgvariance].iter().any(|d| d.is_some());
        let linear = is_linear.then(|| read.gradient([dg, dgmean, dgvariance]));
        let by_x = dx.zip(along_dx.clone()).map(|(dx, along_dx)| {
            let g = read.scaled(gy.clone());
            let along_g = read.along(g.clone()) * read.mean(normal * &dx);
            let across = normal * read.mean(&along_dx * &g);
            let bent = along_g + along_dx * read.mean(normal * g) + across;
            self.0.less_mean(dx) * (&read.gvariance * (2.0 / read.count)) - bent * factor
        });
        let dgx = [linear, by_x]
            .into_iter()
            .flatten()
            .reduce(|sum, term| sum + term);
        let Some(scale) = &read.scale else {
            return vec![dgx];
        };
        let dgscale = [
            dgy.as_ref().map(|dgy| dgy * normal),
            along_dx.map(|along_dx| gy * along_dx),
        ];
        let dgscale = dgscale.into_iter().flatten().reduce(|sum, term| sum + term);
        let summed = |x| summed(x, &scale.shape());
        vec![dgx, dgscale.map(summed), dgy.map(summed)]
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        Batched::in_front(Self(self.0.in_batch()), inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        vec![Some(ExampleGradient::Unknown); cx.input_count()]
    }
}
