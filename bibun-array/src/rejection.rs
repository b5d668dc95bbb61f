//! Random numbers by rejection, of which each element needs a number of words that is not known
//! before: each has a stream of its own, whose key is the element's seed.
//!
//! Everything is computed in f64, so a seed and parameters make the same number on every machine.

use std::f64::consts::PI;

use crate::math::Float;
use crate::random::{join_words, normal_pair_f64, number_block};
use crate::{Array, DType, Definition, Kernel, Slice, SliceMut, run_kernel};

/// A distribution of single numbers that is drawn from by rejection, with parameters for each element.
///
/// Elements whose parameters are out of range, or NaN, become NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The logarithm of a number of the gamma distribution with rate 1 and this concentration, which does
    /// not underflow for small concentrations. Source: G. Marsaglia, W. W. Tsang, "A simple method for
    /// generating gamma variables", 2000.
    LogGamma,
    /// Counts with this mean. Source: W. Hörmann, "The transformed rejection method for generating
    /// Poisson random variables", 1993 (PTRS); below 10, products of uniform numbers.
    Poisson,
    /// The number of successes among this number of trials with this probability. Source: W. Hörmann,
    /// "The generation of binomial random variates", 1993 (BTRS); for fewer than 10 successes on average,
    /// the distances between successes.
    Binomial,
    /// Angles in `[-π, π]` around 0 with this concentration. Source: D. J. Best, N. I. Fisher, "Efficient
    /// simulation of the von Mises distribution", 1979; from 10⁶ on, the normal distribution.
    VonMises,
}

impl Rejection {
    /// Returns the number of parameters of each element.
    pub const fn parameter_count(self) -> usize {
        match self {
            Self::LogGamma | Self::Poisson | Self::VonMises => 1,
            Self::Binomial => 2,
        }
    }

    /// Draws a number for each element from its seed, which is any i64, and its parameters, f64. Seeds and
    /// parameters broadcast; the result is f64.
    ///
    /// ```
    /// use bibun_array::{Array, Generator, Rejection};
    /// let seeds = Generator::new(0).integers(i64::MIN, i64::MAX, [10_000]);
    /// let counts = Rejection::Poisson.draw(&seeds, &[Array::from(3.0)]);
    /// assert!((counts.mean(..).item::<f64>() - 3.0).abs() < 0.1);
    /// ```
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, the number of parameters is another, or a dtype is.
    #[track_caller]
    pub fn draw(self, seeds: &Array, parameters: &[Array]) -> Array {
        assert!(
            seeds.dtype() == DType::I64
                && parameters.len() == self.parameter_count()
                && parameters.iter().all(|x| x.dtype() == DType::F64),
            "{self:?} draws from seeds (i64) and {} parameters (f64)",
            self.parameter_count()
        );
        let mut inputs = vec![seeds.clone()];
        inputs.extend_from_slice(parameters);
        run_kernel(&Kernel::new(self.definition(), &[]), &mut inputs)
    }

    const fn definition(self) -> &'static Definition {
        const TO: Option<DType> = Some(DType::F64);
        match self {
            Self::LogGamma => {
                &const {
                    Definition::host("log_gamma", TO, |_, x, out| {
                        each(x, out, |words, [a]| log_gamma(words, a));
                    })
                }
            }
            Self::Poisson => {
                &const {
                    Definition::host("poisson", TO, |_, x, out| {
                        each(x, out, |words, [rate]| poisson(words, rate));
                    })
                }
            }
            Self::Binomial => {
                &const {
                    Definition::host("binomial", TO, |_, x, out| {
                        each(x, out, |words, [n, p]| binomial(words, n, p));
                    })
                }
            }
            Self::VonMises => {
                &const {
                    Definition::host("von_mises", TO, |_, x, out| {
                        each(x, out, |words, [k]| von_mises(words, k));
                    })
                }
            }
        }
    }
}

/// Fills `out` from the seeds and the parameters.
fn each<const N: usize>(
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
    draw: impl Fn(&mut Words, [f64; N]) -> f64,
) {
    let (Slice::I64(seeds), SliceMut::F64(out)) = (inputs[0], out) else {
        unreachable!("the dtypes have been checked")
    };
    let parameters: [&[f64]; N] = std::array::from_fn(|i| match inputs[1 + i] {
        Slice::F64(x) => x,
        _ => unreachable!("the dtypes have been checked"),
    });
    for (i, (&seed, out)) in seeds.iter().zip(out).enumerate() {
        *out = draw(&mut Words::of(seed), parameters.map(|x| x[i]));
    }
}

/// The words of the stream of one element.
struct Words {
    key: u64,
    counter: u64,
    next: Option<u64>,
}

impl Words {
    fn of(seed: i64) -> Self {
        Self {
            key: seed.cast_unsigned(),
            counter: 0,
            next: None,
        }
    }

    fn pair(&mut self) -> [u64; 2] {
        let [a, b, c, d] = number_block(self.key, self.counter, 0);
        self.counter += 1;
        [join_words(a, b), join_words(c, d)]
    }

    /// A number between 0 and 1, and neither of them.
    fn uniform(&mut self) -> f64 {
        let word = self.next.take().unwrap_or_else(|| {
            let [first, second] = self.pair();
            self.next = Some(second);
            first
        });
        ((word >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    fn normal(&mut self) -> f64 {
        let [first, second] = self.pair();
        normal_pair_f64(first, second)[0]
    }
}

fn log_gamma(words: &mut Words, concentration: f64) -> f64 {
    if !(concentration > 0.0 && concentration.is_finite()) {
        return f64::NAN;
    }
    // A number of concentration `a` is one of concentration `a + 1`, times the power `1 / a` of a uniform one.
    let (a, factor) = match concentration < 1.0 {
        true => (
            concentration + 1.0,
            Float::ln(words.uniform()) / concentration,
        ),
        false => (concentration, 0.0),
    };
    let d = a - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = words.normal();
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let log_v = 3.0 * Float::ln(root);
        let v = root * root * root;
        if Float::ln(words.uniform()) < 0.5 * x * x + d * (1.0 - v + log_v) {
            return Float::ln(d) + log_v + factor;
        }
    }
}

fn poisson(words: &mut Words, rate: f64) -> f64 {
    if !(rate >= 0.0 && rate.is_finite()) {
        return f64::NAN;
    }
    if rate < 10.0 {
        let end = Float::exp(-rate);
        let (mut count, mut product) = (0.0, words.uniform());
        while product > end {
            product *= words.uniform();
            count += 1.0;
        }
        return count;
    }
    let log_rate = Float::ln(rate);
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let accepted = 0.9277 - 3.6224 / (b - 2.0);
    transformed(words, a, b, rate + 0.43, accepted, |k, density| {
        if k < 0.0 {
            return None;
        }
        let log_probability = k * log_rate - rate - Float::lgamma(k + 1.0);
        Some(log_probability - Float::ln(inverse_alpha / density))
    })
}

fn binomial(words: &mut Words, trials: f64, p: f64) -> f64 {
    if !(trials >= 0.0 && trials.is_finite() && (0.0..=1.0).contains(&p)) {
        return f64::NAN;
    }
    if p > 0.5 {
        return trials - binomial(words, trials, 1.0 - p);
    }
    if p == 0.0 {
        return 0.0;
    }
    if trials * p < 10.0 {
        let scale = 1.0 / Float::log1p(-p);
        let (mut count, mut trial) = (0.0, 0.0);
        loop {
            trial += (Float::ln(words.uniform()) * scale).ceil().max(1.0);
            if trial > trials {
                return count;
            }
            count += 1.0;
        }
    }
    let deviation = (trials * p * (1.0 - p)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let alpha = (2.83 + 5.1 / b) * deviation;
    let mode = ((trials + 1.0) * p).floor();
    let log_odds = Float::ln(p / (1.0 - p));
    let log_weight = |k: f64| -Float::lgamma(k + 1.0) - Float::lgamma(trials - k + 1.0);
    let at_mode = log_weight(mode);
    transformed(
        words,
        a,
        b,
        trials * p + 0.5,
        0.92 - 4.2 / b,
        |k, density| {
            if k < 0.0 || k > trials {
                return None;
            }
            let log_ratio = log_weight(k) - at_mode + (k - mode) * log_odds;
            Some(log_ratio - Float::ln(alpha / density))
        },
    )
}

/// Hörmann's transformed rejection. `log_bound(k, density)` is the logarithm of the largest second number
/// with which `k` is accepted, or `None` if `k` is out of range.
fn transformed(
    words: &mut Words,
    a: f64,
    b: f64,
    center: f64,
    accepted: f64,
    log_bound: impl Fn(f64, f64) -> Option<f64>,
) -> f64 {
    loop {
        let (u, v) = (words.uniform() - 0.5, words.uniform());
        let distance = 0.5 - u.abs();
        let k = ((2.0 * a / distance + b) * u + center).floor();
        if distance >= 0.07 && v <= accepted {
            return k;
        }
        let bound = log_bound(k, a / (distance * distance) + b);
        if bound.is_some_and(|bound| Float::ln(v) <= bound) {
            return k;
        }
    }
}

fn von_mises(words: &mut Words, concentration: f64) -> f64 {
    let k = concentration;
    if k.is_nan() || k < 0.0 {
        return f64::NAN;
    }
    if k > 1e6 {
        return (words.normal() / k.sqrt()).clamp(-PI, PI);
    }
    // Below, `r` loses all digits to a difference, and nothing distinguishes the circle from a uniform one.
    if k < 1e-8 {
        return PI * (2.0 * words.uniform() - 1.0);
    }
    let t = 1.0 + (1.0 + 4.0 * k * k).sqrt();
    // (t - √2t) / 2k without the difference: t - √2t = t (t - 2) / (t + √2t), and t (t - 2) = 4k².
    let rho = 2.0 * k / (t + (2.0 * t).sqrt());
    let r = (1.0 + rho * rho) / (2.0 * rho);
    loop {
        let z = Float::cos(PI * words.uniform());
        let f = (1.0 + r * z) / (r + z);
        let c = k * (r - f);
        let u = words.uniform();
        if c * (2.0 - c) > u || Float::ln(c / u) + 1.0 >= c {
            let angle = Float::acos(f.clamp(-1.0, 1.0));
            return match words.uniform() < 0.5 {
                true => -angle,
                false => angle,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    /// Mean and variance of many draws, in units of their standard errors from those that are known.
    fn errors(draws: &[f64], mean: f64, variance: f64, kurtosis: f64) -> [f64; 2] {
        let n = draws.len() as f64;
        let found = draws.iter().sum::<f64>() / n;
        let spread = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let error_of_spread = variance * ((kurtosis - 1.0) / n).sqrt();
        [
            (found - mean) / (variance / n).sqrt(),
            (spread - variance) / error_of_spread,
        ]
    }

    fn draws(rejection: Rejection, parameters: &[f64]) -> Vec<f64> {
        let seeds = Generator::new(5).integers(i64::MIN, i64::MAX, [200_000]);
        let parameters: Vec<Array> = parameters.iter().map(|&x| Array::from(x)).collect();
        rejection.draw(&seeds, &parameters).to_vec()
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let near = |name: &str, [mean, variance]: [f64; 2]| {
            assert!(
                mean.abs() < 4.0 && variance.abs() < 4.0,
                "{name}: {mean} {variance}"
            );
        };
        for a in [0.3, 1.0, 2.5, 40.0] {
            let x: Vec<f64> = draws(Rejection::LogGamma, &[a])
                .iter()
                .map(|x| x.exp())
                .collect();
            near(&format!("gamma {a}"), errors(&x, a, a, 3.0 + 6.0 / a));
        }
        for rate in [0.2, 3.0, 9.9, 10.0, 25.0, 1e4] {
            let x = draws(Rejection::Poisson, &[rate]);
            near(
                &format!("poisson {rate}"),
                errors(&x, rate, rate, 3.0 + 1.0 / rate),
            );
        }
        for (n, p) in [
            (5.0, 0.3),
            (1.0, 0.9),
            (40.0, 0.25),
            (40.0, 0.5),
            (1e5, 0.999),
        ] {
            let x = draws(Rejection::Binomial, &[n, p]);
            let variance = n * p * (1.0 - p);
            let kurtosis = 3.0 + (1.0 - 6.0 * p * (1.0 - p)) / variance;
            near(
                &format!("binomial {n} {p}"),
                errors(&x, n * p, variance, kurtosis),
            );
        }
    }

    #[test]
    fn angles_have_the_mean_cosine_of_their_concentration() {
        // I1(k) / I0(k)
        for (k, mean) in [
            (0.0, 0.0),
            (1e-5, 5e-6),
            (0.5, 0.242_499_6),
            (4.0, 0.863_523_8),
            (1e7, 0.999_999_95),
        ] {
            let x = draws(Rejection::VonMises, &[k]);
            let found = x.iter().map(|x| x.cos()).sum::<f64>() / x.len() as f64;
            assert!(
                (found - mean).abs() < 4.0 * 0.708 / (x.len() as f64).sqrt(),
                "{k}: {found}"
            );
            assert!(x.iter().all(|x| x.abs() <= PI));
        }
    }

    #[test]
    fn parameters_out_of_range_give_nan() {
        let wrong: [(Rejection, &[f64]); 6] = [
            (Rejection::LogGamma, &[0.0]),
            (Rejection::LogGamma, &[f64::NAN]),
            (Rejection::Poisson, &[-1.0]),
            (Rejection::Binomial, &[3.0, 1.5]),
            (Rejection::Binomial, &[f64::NAN, 0.5]),
            (Rejection::VonMises, &[-1.0]),
        ];
        for (rejection, parameters) in wrong {
            assert!(
                draws(rejection, parameters)[0].is_nan(),
                "{rejection:?} {parameters:?}"
            );
        }
        assert_eq!(draws(Rejection::Poisson, &[0.0])[0], 0.0);
        assert_eq!(draws(Rejection::Binomial, &[7.0, 1.0])[0], 7.0);
        assert_eq!(draws(Rejection::Binomial, &[0.0, 0.5])[0], 0.0);
    }
}
