//! Log-densities in the table of checks, as functions of their parameters and values.

use std::f64::consts::PI;
use std::ops::Range;

use bibun_array::Array;
use bibun_array::math::Float;

use super::{
    Bernoulli, Beta, Binomial, Categorical, Cauchy, Dirichlet, Distribution, Exponential, Gamma,
    Gumbel, Laplace, LogNormal, MultivariateNormal, Normal, Poisson, StudentT, VonMises, Weibull,
};
use crate::conformance::{Sample, beside};
use crate::variable::Variable;

/// The densities of numbers, of which each element has parameters of its own.
fn of_numbers(
    name: &'static str,
    ranges: &[Range<f64>],
    density: impl Fn(&[Variable]) -> Variable + Send + Sync + 'static,
    reference: fn(&[f64]) -> f64,
) -> Sample {
    let expected = move |x: &[Array]| {
        let columns: Vec<Vec<f64>> = x.iter().map(Array::to_vec).collect();
        let row = |i: usize| columns.iter().map(|column| column[i]).collect::<Vec<f64>>();
        let elements = (0..x[0].size()).map(|i| reference(&row(i))).collect();
        vec![Array::from_vec(elements, x[0].shape())]
    };
    let sample = Sample::new(name, move |x| vec![density(x)], expected);
    (ranges.iter().cloned()).fold(sample, |sample, range| sample.input([2, 3], range))
}

/// Densities of one vector for each of two rows of the first input.
fn of_vectors(
    name: &'static str,
    density: impl Fn(&[Variable]) -> Variable + Send + Sync + 'static,
    reference: fn(&[f64]) -> f64,
) -> Sample {
    let expected = move |x: &[Array]| {
        let rows = x[0].to_vec::<f64>();
        let elements = rows.chunks(3).map(reference).collect();
        vec![Array::from_vec(elements, [2])]
    };
    Sample::new(name, move |x| vec![density(x)], expected)
}

pub(crate) fn samples() -> Vec<Sample> {
    let (real, positive) = (-1.0..1.0, 0.8..2.0);
    let located = [real.clone(), positive.clone(), real.clone()];
    vec![
        of_numbers(
            "Normal",
            &located,
            |x| Normal::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let z = (x[2] - x[0]) / x[1];
                -0.5 * z * z - x[1].ln() - 0.5 * (2.0 * PI).ln()
            },
        ),
        of_numbers(
            "LogNormal",
            &[real.clone(), positive.clone(), positive.clone()],
            |x| LogNormal::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let z = (x[2].ln() - x[0]) / x[1];
                -0.5 * z * z - (x[1] * x[2]).ln() - 0.5 * (2.0 * PI).ln()
            },
        ),
        of_numbers(
            "Laplace",
            &[-2.0..-1.0, positive.clone(), -0.5..2.0],
            |x| Laplace::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| -(x[2] - x[0]).abs() / x[1] - (2.0 * x[1]).ln(),
        ),
        of_numbers(
            "Cauchy",
            &located,
            |x| Cauchy::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let z = (x[2] - x[0]) / x[1];
                -(PI * x[1] * (1.0 + z * z)).ln()
            },
        ),
        of_numbers(
            "Gumbel",
            &located,
            |x| Gumbel::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let z = (x[2] - x[0]) / x[1];
                -z - (-z).exp() - x[1].ln()
            },
        ),
        of_numbers(
            "Exponential",
            &[positive.clone(), positive.clone()],
            |x| Exponential::new(&x[0]).log_prob(&x[1]),
            |x| x[0].ln() - x[0] * x[1],
        ),
        of_numbers(
            "Weibull",
            &[positive.clone(), positive.clone(), positive.clone()],
            |x| Weibull::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let z = x[2] / x[0];
                (x[1] / x[0]).ln() + (x[1] - 1.0) * z.ln() - z.powf(x[1])
            },
        ),
        of_numbers(
            "Gamma",
            &[positive.clone(), positive.clone(), positive.clone()],
            |x| Gamma::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| x[0] * x[1].ln() + (x[0] - 1.0) * x[2].ln() - x[1] * x[2] - Float::lgamma(x[0]),
        ),
        of_numbers(
            "Beta",
            &[positive.clone(), positive.clone(), 0.2..0.8],
            |x| Beta::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let log_beta =
                    Float::lgamma(x[0]) + Float::lgamma(x[1]) - Float::lgamma(x[0] + x[1]);
                (x[0] - 1.0) * x[2].ln() + (x[1] - 1.0) * (1.0 - x[2]).ln() - log_beta
            },
        ),
        of_numbers(
            "StudentT",
            &[
                positive.clone(),
                real.clone(),
                positive.clone(),
                real.clone(),
            ],
            |x| StudentT::new(&x[0], &x[1], &x[2]).log_prob(&x[3]),
            |x| {
                let (df, z) = (x[0], (x[3] - x[1]) / x[2]);
                Float::lgamma(0.5 * (df + 1.0))
                    - Float::lgamma(0.5 * df)
                    - 0.5 * (PI * df).ln()
                    - x[2].ln()
                    - 0.5 * (df + 1.0) * (1.0 + z * z / df).ln()
            },
        ),
        of_numbers(
            "VonMises",
            &located,
            |x| VonMises::new(&x[0], &x[1]).log_prob(&x[2]),
            |x| {
                let (k, mut bessel, mut term) = (x[1], 0.0, 1.0);
                for n in 1..60 {
                    bessel += term;
                    term *= k * k / (4.0 * f64::from(n * n));
                }
                k * (x[2] - x[0]).cos() - (2.0 * PI * bessel).ln()
            },
        ),
        of_numbers(
            "Bernoulli",
            &[real.clone(), 0.1..0.9],
            |x| Bernoulli::from_logits(&x[0] * &x[1]).log_prob(1),
            |x| -(1.0 + (-x[0] * x[1]).exp()).ln(),
        ),
        of_numbers(
            "Binomial",
            &[real.clone()],
            move |x| Binomial::from_logits(3.0, &x[0]).log_prob(beside(x, [[2.0]])),
            |x| {
                let p = 1.0 / (1.0 + (-x[0]).exp());
                (3.0 * p * p * (1.0 - p)).ln()
            },
        ),
        of_numbers(
            "Poisson",
            &[positive.clone()],
            move |x| Poisson::new(&x[0]).log_prob(beside(x, [[2.0]])),
            |x| 2.0 * x[0].ln() - x[0] - 2f64.ln(),
        ),
        of_vectors(
            "Categorical",
            |x| Categorical::from_logits(&x[0]).log_prob(beside(x, [2i64])),
            |x| x[2] - x.iter().map(|x| x.exp()).sum::<f64>().ln(),
        )
        .input([2, 3], real.clone()),
        of_vectors(
            "Dirichlet",
            |x| Dirichlet::new(&x[0]).log_prob(beside(x, [0.25, 0.25, 0.5])),
            |a| {
                let log_beta = a.iter().map(|&a| Float::lgamma(a)).sum::<f64>()
                    - Float::lgamma(a.iter().sum::<f64>());
                (a[0] + a[1] - 2.0) * 0.25f64.ln() + (a[2] - 1.0) * 0.5f64.ln() - log_beta
            },
        )
        .input([2, 3], positive),
        Sample::new(
            "MultivariateNormal",
            |x| {
                // A triangle whose diagonal is away from zero.
                let factor = &x[1] * 0.3 + beside(x, Array::eye(3, x[1].dtype()));
                let mean = beside(x, Array::zeros([3], x[0].dtype()));
                vec![MultivariateNormal::new(mean, factor).log_prob(&x[0])]
            },
            of_multivariate_normal,
        )
        .input([2, 3], real.clone())
        .input([3, 3], real),
    ]
}

fn of_multivariate_normal(x: &[Array]) -> Vec<Array> {
    let (values, factor) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
    let factor = |i: usize, j: usize| 0.3 * factor[i * 3 + j] + f64::from(u8::from(i == j));
    let density = |x: &[f64]| {
        let mut z = [0.0; 3];
        let mut log = -1.5 * (2.0 * PI).ln();
        for i in 0..3 {
            let known: f64 = (0..i).map(|j| factor(i, j) * z[j]).sum();
            z[i] = (x[i] - known) / factor(i, i);
            log -= 0.5 * z[i] * z[i] + factor(i, i).ln();
        }
        log
    };
    let elements = values.chunks(3).map(density).collect();
    vec![Array::from_vec(elements, [2])]
}
