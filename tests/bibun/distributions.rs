//! Distributions: numbers of SciPy, the shape of samples, gradients, transformations, errors.

use std::f64::consts::PI;
use std::sync::Mutex;

use bibun::array::{Array, DType, Generator};
use bibun::distributions::bijectors::{
    Affine, Autoregressive, Bijector, Exp, Inverse, Sigmoid, Softplus, StickBreaking, Tanh,
};
use bibun::distributions::{
    Bernoulli, Beta, Binomial, Categorical, Cauchy, Dirichlet, Distribution, Exponential, Gamma,
    Geometric, Gumbel, Independent, KlDivergence, Laplace, LogNormal, MixtureSameFamily,
    Multinomial, MultivariateNormal, Normal, OneHotCategorical, Poisson, Reparameterized, StudentT,
    Transformed, Uniform, VonMises, Weibull, kl_divergence,
};
use bibun::links::{Chain, Link, Made};
use bibun::{
    GradientCheckOptions, Variable, assert_gradients, attempt, checkpoint, compile, eval_mode,
    grad, jacobian, jvp, vmap,
};
use rayon::prelude::*;

const GOLDEN: &str = include_str!("../golden/distributions/values.txt");

/// Calls a function, generic over the distribution, with the distribution of a name and parameters.
macro_rules! with_distribution {
    ($name:expr, $p:expr, $d:ident => $body:expr) => {{
        let p: &[f64] = $p;
        match $name {
            "Normal" => {
                let $d = Normal::new(p[0], p[1]);
                $body
            }
            "LogNormal" => {
                let $d = LogNormal::new(p[0], p[1]);
                $body
            }
            "Exponential" => {
                let $d = Exponential::new(p[0]);
                $body
            }
            "Laplace" => {
                let $d = Laplace::new(p[0], p[1]);
                $body
            }
            "Cauchy" => {
                let $d = Cauchy::new(p[0], p[1]);
                $body
            }
            "Uniform" => {
                let $d = Uniform::new(p[0], p[1]);
                $body
            }
            "Gumbel" => {
                let $d = Gumbel::new(p[0], p[1]);
                $body
            }
            "Weibull" => {
                let $d = Weibull::new(p[0], p[1]);
                $body
            }
            "Gamma" => {
                let $d = Gamma::new(p[0], p[1]);
                $body
            }
            "Beta" => {
                let $d = Beta::new(p[0], p[1]);
                $body
            }
            "StudentT" => {
                let $d = StudentT::new(p[0], p[1], p[2]);
                $body
            }
            "VonMises" => {
                let $d = VonMises::new(p[0], p[1]);
                $body
            }
            "Bernoulli" => {
                let $d = Bernoulli::from_probs(p[0]);
                $body
            }
            "Geometric" => {
                let $d = Geometric::from_probs(p[0]);
                $body
            }
            "Binomial" => {
                let $d = Binomial::from_probs(p[0], p[1]);
                $body
            }
            "Poisson" => {
                let $d = Poisson::new(p[0]);
                $body
            }
            "Dirichlet" => {
                let $d = Dirichlet::new([0.5, 2.0, 3.5]);
                $body
            }
            "Multinomial" => {
                let $d = Multinomial::from_probs(7, [0.2, 0.3, 0.5]);
                $body
            }
            "MultivariateNormal" => {
                let factor = [[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 2.0]];
                let $d = MultivariateNormal::new([0.1, -0.2, 0.3], factor);
                $body
            }
            name => panic!("{name} is not known here"),
        }
    }};
}

fn answer(d: &impl Distribution, question: &str, x: &[f64]) -> Variable {
    let x = || match x {
        [x] => Variable::constant(*x),
        x => Variable::constant(x.to_vec()),
    };
    match question {
        "log_prob" => d.log_prob(x()),
        "cdf" => d.cdf(x()),
        "icdf" => d.icdf(x()),
        "mean" => d.mean(),
        "variance" => d.variance(),
        "entropy" => d.entropy(),
        question => panic!("{question} is not known here"),
    }
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<f64> {
    words.map(|word| word.parse().expect("a number")).collect()
}

/// The name, the parameters, the question, its arguments and the answer of each line.
fn golden() -> impl Iterator<Item = (&'static str, Vec<f64>, &'static str, f64)> {
    GOLDEN.lines().map(|line| {
        let parts: Vec<&str> = line.split("; ").collect();
        let mut words = parts[0].split_whitespace();
        let name = words.next().expect("a name");
        (
            name,
            numbers(words),
            parts[1],
            parts[2].parse().expect("a number"),
        )
    })
}

#[test]
fn numbers_are_those_of_scipy() {
    let mut count = 0;
    for (name, parameters, question, expected) in golden() {
        let mut words = question.split_whitespace();
        let question = words.next().expect("a question");
        if question == "kl" {
            continue;
        }
        let arguments = numbers(words);
        let found = with_distribution!(name, &parameters, d => answer(&d, question, &arguments));
        let found = found.item::<f64>();
        let is_near = (found - expected).abs() <= 1e-11 * expected.abs().max(1e-2);
        assert!(
            is_near || found == expected,
            "{name} {parameters:?} {question} {arguments:?}: {found}, not {expected}"
        );
        count += 1;
    }
    assert!(count > 180, "only {count} lines");
}

#[test]
fn a_common_bijector_changes_no_divergence() {
    let near = |found: Variable, expected: Variable| {
        assert_eq!(found.shape(), expected.shape());
        let error = (found - expected).abs().max(..).item::<f64>();
        assert!(error < 1e-14, "{error}");
    };
    let (p, q) = (Normal::new([0.3, -1.0], 0.8), Normal::new([-0.2, 0.5], 1.3));
    let (f, g) = (
        Transformed::new(p.clone(), Exp),
        Transformed::new(q.clone(), Exp),
    );
    near(kl_divergence(&f, &g), kl_divergence(&p, &q));
    let shift = |loc: f64| (Affine::new(loc, [2.0, 3.0]), StickBreaking);
    let of = |x: &Normal, loc: f64| Transformed::new(x.clone(), shift(loc));
    let sum = kl_divergence(&p, &q).sum(..);
    near(kl_divergence(&of(&p, 1.0), &of(&q, 1.0)), sum);
    // Three values of one distribution.
    let (p, q) = (Normal::new(0.3, 0.8), Normal::new(-0.2, 1.3));
    let of = |x: &Normal, loc: f64| Transformed::new(x.clone(), Affine::new([loc, 1.0, 2.0], 2.0));
    let found = kl_divergence(&of(&p, 0.0), &of(&q, 0.0));
    near(found, kl_divergence(&p, &q).broadcast_to([3]));
    let error = attempt(|| kl_divergence(&of(&p, 0.0), &of(&q, 0.5))).unwrap_err();
    let must = "the parameter loc of a bijector is 0.0 at [0]; it must be that of the other one";
    assert!(error.to_string().contains(must), "{error}");
}

#[test]
fn quantiles_follow_their_parameters() {
    let p = [0.01, 0.3, 0.5, 0.8];
    let expect = |f: &dyn Fn(&[Variable]) -> Variable, x: &[f64]| {
        let x: Vec<Variable> = x.iter().map(|&x| Variable::new(x)).collect();
        assert_gradients(|x| [f(x)], &x, GradientCheckOptions::new().order(2));
    };
    for p in p {
        expect(&|x| Gamma::new(&x[0], &x[1]).icdf(&x[2]), &[0.7, 2.0, p]);
        expect(&|x| Beta::new(&x[0], &x[1]).icdf(&x[2]), &[0.7, 3.0, p]);
        expect(
            &|x| StudentT::new(&x[0], &x[1], &x[2]).icdf(&x[3]),
            &[3.5, 0.5, 1.5, p],
        );
        expect(&|x| VonMises::new(&x[0], &x[1]).icdf(&x[2]), &[0.4, 1.5, p]);
        expect(&|x| VonMises::new(&x[0], &x[1]).cdf(&x[2]), &[0.4, 30.0, p]);
    }
    // A quantile comes back from both tails, for angles of every concentration.
    for concentration in [1e-3, 0.5, 4.0, 19.0, 21.0, 1e3, 1e6] {
        let d = VonMises::new(0.3, concentration);
        let p = Variable::constant([0.0, 1e-6, 0.2, 0.5, 0.7, 1.0 - 1e-9, 1.0]);
        let error = (d.cdf(d.icdf(&p)) - p).abs().max(..).item::<f64>();
        assert!(error < 1e-14, "{concentration}: {error}");
    }
    let far = VonMises::new(0.3, 2.0).cdf([-10.0, 0.3 - PI, 0.3 + PI, 10.0]);
    let expected = Variable::constant([0.0, 0.0, 1.0, 1.0]);
    assert!((far - expected).abs().max(..).item::<f64>() < 1e-14);
    let t = StudentT::new(2.5, 0.0, 1.0)
        .icdf([0.0, 1e-12, 1.0 - 1e-12, 1.0])
        .to_vec::<f64>();
    assert_eq!((t[0], t[3]), (f64::NEG_INFINITY, f64::INFINITY));
    assert!((t[1] + t[2]).abs() < 1e-3 * t[2]);
}

#[test]
fn quantiles_of_counts_are_the_smallest_that_reach_the_probability() {
    fn expect(d: impl Distribution + Clone + Send + Sync + 'static, most: i64) {
        let counts = Variable::constant(Array::arange(0, most + 1).cast(d.dtype()));
        let p = d.cdf(&counts);
        let name = d.name();
        assert_eq!(d.icdf(&p).to_vec::<f64>(), counts.to_vec::<f64>(), "{name}");
        // A little more is only reached by the next one.
        let next = d.icdf(&p + 1e-6).slice(bibun::s![..-1]).to_vec::<f64>();
        assert_eq!(next, counts.slice(bibun::s![1..]).to_vec::<f64>(), "{name}");
        assert_eq!(d.icdf(0.0).item::<f64>(), 0.0, "{name}");
        assert!(d.icdf(1.5).item::<f64>().is_nan(), "{name}");
        let own = d.clone();
        let traced = compile(move |p: &Variable| own.icdf(p));
        assert_eq!(
            traced.call(&p).to_vec::<f64>(),
            d.icdf(p).to_vec::<f64>(),
            "{name}"
        );
    }
    expect(Poisson::new(4.5), 12);
    expect(Poisson::new(4.5f32), 12);
    expect(Geometric::from_probs(0.3), 12);
    expect(Geometric::from_logits(-1.0f32), 12);
    expect(Binomial::from_probs(9, 0.4), 8);
    expect(Binomial::from_logits(9, 0.4f32), 8);
    expect(Categorical::from_probs([0.25, 0.25, 0.125, 0.375]), 3);
    expect(Bernoulli::from_probs(0.75), 1);

    let all = Variable::constant([0.3, 1.0]);
    let infinity = f64::INFINITY;
    assert_eq!(Poisson::new(0.0).icdf(&all).to_vec::<f64>(), [0.0, 0.0]);
    assert_eq!(
        Poisson::new(1e6).icdf([0.5, 1.0]).to_vec::<f64>(),
        [1e6, infinity]
    );
    assert_eq!(
        Geometric::from_probs(1.0).icdf(&all).to_vec::<f64>(),
        [0.0, 0.0]
    );
    assert_eq!(Geometric::from_probs(0.5).icdf(1.0).item::<f64>(), infinity);
    assert_eq!(
        Binomial::from_probs(7, [0.0, 1.0])
            .icdf(&all)
            .to_vec::<f64>(),
        [0.0, 7.0]
    );
    assert_eq!(
        Binomial::from_probs(0, 0.5).icdf(&all).to_vec::<f64>(),
        [0.0, 0.0]
    );
    // Classes that are impossible are not reached, and no class is behind the last.
    let d = Categorical::from_probs([[0.0, 0.3, 0.7, 0.0], [1.0, 0.0, 0.0, 0.0]]);
    assert_eq!(
        d.icdf([[1e-9], [1.0]]).to_vec::<f64>(),
        [1.0, 0.0, 2.0, 0.0]
    );
    assert_eq!(
        d.cdf([[-1.0], [1.5], [9.0]]).to_vec::<f64>(),
        [0.0, 0.0, 0.3, 1.0, 1.0, 1.0]
    );
    let slope = grad(
        |p: &Variable| Categorical::from_probs(p).cdf(1.0),
        &Variable::constant([0.25, 0.25, 0.5]),
    );
    assert_eq!(slope.to_vec::<f64>(), [0.5, 0.5, -0.5]);
}

#[test]
fn divergences_are_the_integrals() {
    fn kl<P: KlDivergence<Q>, Q>(p: P, q: Q) -> f64 {
        kl_divergence(&p, &q).item()
    }
    macro_rules! pairs {
        ($p_name:expr, $p:expr, $q_name:expr, $q:expr; $($P:ident => $($Q:ident)+;)+) => {{
            let (p, q) = ($p, $q);
            match ($p_name, $q_name) {
                $($((stringify!($P), stringify!($Q)) => kl(make!($P, p), make!($Q, q)),)+)+
                pair => panic!("{pair:?} is not known here"),
            }
        }};
    }
    macro_rules! make {
        (Exponential, $p:ident) => {
            Exponential::new($p[0])
        };
        (Poisson, $p:ident) => {
            Poisson::new($p[0])
        };
        (Bernoulli, $p:ident) => {
            Bernoulli::from_probs($p[0])
        };
        (Geometric, $p:ident) => {
            Geometric::from_probs($p[0])
        };
        (Binomial, $p:ident) => {
            Binomial::from_probs($p[0], $p[1])
        };
        (StudentT, $p:ident) => {
            StudentT::new($p[0], $p[1], $p[2])
        };
        ($D:ident, $p:ident) => {
            $D::new($p[0], $p[1])
        };
    }
    let mut count = 0;
    for (name, p, question, expected) in golden() {
        let mut words = question.split_whitespace();
        if words.next() != Some("kl") {
            continue;
        }
        let to = words.next().expect("a name");
        let q = numbers(words);
        let found = pairs!(name, &p, to, &q;
            Normal => Normal Gumbel Laplace; LogNormal => LogNormal Normal Exponential Gamma Weibull;
            Exponential => Exponential Normal Gamma LogNormal Gumbel Weibull Laplace;
            Laplace => Laplace Normal Gumbel; Cauchy => Cauchy;
            Uniform => Uniform Normal Gumbel Exponential Gamma LogNormal Weibull Beta;
            Gumbel => Gumbel Normal; Weibull => Weibull Normal Exponential Gamma LogNormal;
            Gamma => Gamma Normal Exponential LogNormal Gumbel Weibull;
            Beta => Beta Normal Exponential Gamma LogNormal Weibull; StudentT => Normal; VonMises => VonMises;
            Bernoulli => Bernoulli Poisson Geometric; Geometric => Geometric; Binomial => Binomial; Poisson => Poisson;
        );
        assert!(
            (found - expected).abs() < 1e-8 * expected.abs().max(1.0),
            "{name} to {to}: {found}, not {expected}"
        );
        count += 1;
    }
    assert_eq!(count, 15 + 39);
}

#[test]
fn divergences_from_where_the_other_one_begins_and_beyond() {
    let kl = |low: f64, high: f64| {
        let p = Uniform::new(low, high);
        let gamma = Gamma::new(1.6, 0.8);
        [
            kl_divergence(&p, &Exponential::new(0.9)).item::<f64>(),
            kl_divergence(&p, &gamma).item(),
            kl_divergence(&p, &Weibull::new(0.9, 1.2)).item(),
            kl_divergence(&p, &Beta::new(1.4, 2.3)).item(),
        ]
    };
    assert_eq!(kl(-0.1, 0.5), [f64::INFINITY; 4]);
    assert_eq!(kl(0.5, 1.5)[3], f64::INFINITY);
    assert!(kl(0.0, 1.0).into_iter().all(f64::is_finite));
    // A short interval has the density of its middle.
    let (middle, length) = (700f64, 1e-9f64);
    let p = Uniform::new(middle - length, middle + length);
    let q = Gamma::new(600.0, 1.0);
    let expected = -(2.0 * length).ln() - q.log_prob(middle).item::<f64>();
    let found = kl_divergence(&p, &q).item::<f64>();
    assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    let slope = |low: &Variable| kl_divergence(&Uniform::new(low, 1.0), &Exponential::new(0.5));
    let slope = grad(slope, &Variable::constant(0.0)).item::<f64>();
    assert!((slope - 1.25).abs() < 1e-14, "{slope}");
    let found = kl_divergence(&Exponential::new(1.7), &Laplace::new(0.8, 1.4)).item::<f64>();
    assert!((found - 0.927_189_497_616_064_7).abs() < 1e-14, "{found}");
    let certain = Geometric::from_probs(1.0);
    assert_eq!(
        kl_divergence(&Bernoulli::from_probs(0.0), &certain).item::<f64>(),
        0.0
    );
    let found = kl_divergence(&Bernoulli::from_probs(0.5), &certain).item::<f64>();
    assert_eq!(found, f64::INFINITY);
}

#[test]
fn entropies_by_sums() {
    for (rate, expected) in [
        (0.0, 0.0),
        (0.01, 0.056_086_311_342_591_01),
        (3.5, 2.015_172_522_512_972),
        (150.0, 3.923_698_756_980_677),
        (199.0, 4.065_171_126_165_89),
        (201.0, 4.070_175_355_639_193),
        (1e6, 8.326_693_728_853_435),
    ] {
        let d = Poisson::new(rate);
        let found = d.entropy().item::<f64>();
        assert!(
            (found - expected).abs() < 1e-10,
            "{rate}: {found}, not {expected}"
        );
        let narrow = Poisson::new(rate as f32).entropy().item::<f32>();
        assert!(
            (f64::from(narrow) - expected).abs() < 1e-5,
            "{rate}: {narrow}"
        );
    }
    let plain = |log_prob: &dyn Fn(f64) -> f64, most: usize| {
        let terms = (0..=most).map(|k| log_prob(k as f64));
        terms
            .filter(|log| log.is_finite())
            .map(|log| -log.exp() * log)
            .sum::<f64>()
    };
    let p = Variable::constant([[0.0, 0.2], [0.7, 1.0]]);
    let n = Variable::constant([[5.0], [30.0]]);
    let found = Binomial::from_probs(&n, &p).entropy();
    assert_eq!(found.shape(), [2, 2]);
    let (n, p, found) = (
        [5.0, 5.0, 30.0, 30.0],
        p.to_vec::<f64>(),
        found.to_vec::<f64>(),
    );
    for i in 0..4 {
        let d = Binomial::from_probs(n[i], p[i]);
        let expected = plain(&|k| d.log_prob(k).item::<f64>(), n[i] as usize);
        assert!(
            (found[i] - expected).abs() < 1e-12,
            "{} {expected}",
            found[i]
        );
    }
    assert_eq!(Binomial::from_probs(0, 0.5).entropy().item::<f64>(), 0.0);
    // Two classes are those of a binomial distribution.
    let of_two = Multinomial::from_probs(9, [[0.3, 0.7], [0.0, 1.0]]).entropy();
    let of_one = Binomial::from_probs(9, [0.3, 0.0]).entropy();
    for (a, b) in of_two.to_vec::<f64>().iter().zip(of_one.to_vec::<f64>()) {
        assert!((a - b).abs() < 1e-13, "{a} {b}");
    }
    type Entropy = fn(&Variable) -> Variable;
    let checked: [(Entropy, [f64; 2]); 3] = [
        (|p| Binomial::from_probs(7, p).entropy(), [0.3, 0.6]),
        (|p| Multinomial::from_probs(7, p).entropy(), [0.3, 0.6]),
        (|rate| Poisson::new(rate).entropy(), [0.5, 30.0]),
    ];
    for (f, at) in checked {
        let options = GradientCheckOptions::default();
        assert_gradients(|x| [f(&x[0])], &[Variable::constant(at)], &options);
    }
    let slope = grad(
        |rate| Poisson::new(rate).entropy(),
        &Variable::constant(0.0),
    );
    assert_eq!(slope.item::<f64>(), f64::INFINITY);
}

/// The largest distance of the empirical distribution function from the true one, in units in which 1.95 is
/// exceeded once in a thousand times.
fn kolmogorov_smirnov(mut sample: Vec<f64>, cdf: impl Fn(&Variable) -> Variable) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let at = cdf(&Variable::constant(sample)).to_vec::<f64>();
    let distance = |(i, f): (usize, &f64)| {
        let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
        (f - below).abs().max((f - above).abs())
    };
    at.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn samples_of_numbers_have_their_distribution() {
    let cases: [(&str, &[f64]); 15] = [
        ("Normal", &[0.3, 1.7]),
        ("LogNormal", &[0.3, 0.7]),
        ("Exponential", &[2.5]),
        ("Laplace", &[0.5, 1.5]),
        ("Cauchy", &[0.5, 1.5]),
        ("Uniform", &[-1.0, 2.5]),
        ("Gumbel", &[0.5, 1.5]),
        ("Weibull", &[1.5, 0.8]),
        ("Gamma", &[0.05, 2.0]),
        ("Gamma", &[0.4, 2.0]),
        ("Gamma", &[75.0, 0.5]),
        ("Beta", &[0.5, 2.0]),
        ("Beta", &[3.0, 5.5]),
        ("StudentT", &[1.5, 0.5, 1.5]),
        ("StudentT", &[30.0, 0.5, 1.5]),
    ];
    let generator = &mut Generator::new(11);
    for (name, parameters) in cases {
        with_distribution!(name, parameters, d => {
            let sample = d.sample([20_000], generator).to_vec::<f64>();
            let distance = kolmogorov_smirnov(sample, |x| d.cdf(x));
            assert!(distance < 1.95, "{name} {parameters:?}: {distance}");
        });
    }
}

#[test]
fn samples_of_vectors_have_their_distribution() {
    let generator = &mut Generator::new(12);
    let n = 20_000;
    // Each component of a Dirichlet vector is a beta number.
    let x = Dirichlet::new([0.5, 2.0, 3.5]).sample([n], generator);
    let first = x.slice(bibun::s![.., 0]).to_vec::<f64>();
    let of_first = Beta::new(0.5, 5.5);
    assert!(kolmogorov_smirnov(first, |x| of_first.cdf(x)) < 1.95);
    // A sum of the components of a normal vector is a normal number.
    let d = MultivariateNormal::new(
        [0.1, -0.2, 0.3],
        [[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 2.0]],
    );
    let draws = d.sample([n], generator);
    let distances = &draws - draws.mean(0);
    let found = distances.transpose().matmul(&distances) / n as f64;
    let error = (found - d.covariance()).abs().max(..).item::<f64>();
    assert!(error < 0.12, "the covariance is off by {error}");
    let sum = draws.sum(-1).to_vec::<f64>();
    let deviation = d.covariance().sum(..).item::<f64>().sqrt();
    assert!(kolmogorov_smirnov(sum, |x| Normal::new(0.2, deviation).cdf(x)) < 1.95);
    // Angles, whose distribution function is an integral of the density.
    let d = VonMises::new(0.4, 2.5);
    let n = 200_000;
    let mut x = d.sample([n], generator).to_vec::<f64>();
    assert!(x.iter().all(|x| (-PI..=PI).contains(x)));
    x.sort_by(f64::total_cmp);
    let grid: Vec<f64> = (0..=4000)
        .map(|i| -PI + 2.0 * PI * f64::from(i) / 4000.0)
        .collect();
    let density = d.log_prob(grid.clone()).exp().to_vec::<f64>();
    let (mut below, mut largest) = (0.0f64, 0.0f64);
    for (i, pair) in density.windows(2).enumerate() {
        below += 0.5 * (pair[0] + pair[1]) * 2.0 * PI / 4000.0;
        let found = x.partition_point(|&x| x <= grid[i + 1]) as f64 / n as f64;
        largest = largest.max((found - below).abs());
    }
    assert!(
        (below - 1.0).abs() < 1e-9 && largest * (n as f64).sqrt() < 1.95,
        "{below} {largest}"
    );
}

/// Pearson's statistic of counts of the values `0..expected.len()`, less its mean, in standard deviations.
fn chi_squared(sample: &[f64], probabilities: &[f64]) -> f64 {
    let n = sample.len() as f64;
    let (mut sum, mut cells) = (0.0, 0.0);
    let (mut rest_found, mut rest_expected) = (n, n);
    for (value, p) in probabilities.iter().enumerate() {
        let found = sample.iter().filter(|&&x| x == value as f64).count() as f64;
        if n * p > 20.0 {
            sum += (found - n * p).powi(2) / (n * p);
            cells += 1.0;
            (rest_found, rest_expected) = (rest_found - found, rest_expected - n * p);
        }
    }
    if rest_expected > 20.0 {
        sum += (rest_found - rest_expected).powi(2) / rest_expected;
        cells += 1.0;
    } else {
        assert!(
            rest_found < 60.0,
            "{rest_found} values that should hardly occur"
        );
    }
    (sum - (cells - 1.0)) / (2.0 * (cells - 1.0f64)).sqrt()
}

#[test]
fn samples_of_counts_have_their_distribution() {
    let cases: [(&str, &[f64]); 10] = [
        ("Bernoulli", &[0.3]),
        ("Geometric", &[0.3]),
        ("Geometric", &[0.02]),
        ("Binomial", &[12.0, 0.3]),
        ("Binomial", &[60.0, 0.4]),
        ("Binomial", &[300.0, 0.97]),
        ("Poisson", &[0.7]),
        ("Poisson", &[9.5]),
        ("Poisson", &[14.0]),
        ("Poisson", &[90.0]),
    ];
    let generator = &mut Generator::new(13);
    for (name, parameters) in cases {
        with_distribution!(name, parameters, d => {
            let sample = d.sample([40_000], generator).to_vec::<f64>();
            let last = match name { "Bernoulli" => 2, "Binomial" => parameters[0] as usize + 1, _ => 400 };
            let values = Array::arange(0, last as i64).cast(DType::F64);
            let p = d.log_prob(&values).exp().to_vec::<f64>();
            let excess = chi_squared(&sample, &p);
            assert!(excess.abs() < 4.0, "{name} {parameters:?}: {excess}");
            // The distribution function is the running sum.
            let below = d.cdf(&values).to_vec::<f64>();
            let mut sum = 0.0;
            for (p, below) in p.iter().zip(&below) {
                sum += p;
                assert!((sum - below).abs() < 1e-11, "{name} {parameters:?}: {sum} {below}");
            }
            let halfway = d.cdf(&values + 0.5).to_vec::<f64>();
            assert_eq!((halfway, d.cdf(-0.5).item::<f64>()), (below, 0.0));
        });
    }
    let weights = [0.1, 0.0, 0.6, 0.3];
    let classes = Categorical::from_probs(weights).sample([40_000], generator);
    let classes: Vec<f64> = classes.to_vec::<i64>().iter().map(|&x| x as f64).collect();
    assert!(chi_squared(&classes, &weights).abs() < 4.0);
    let one_hot = OneHotCategorical::from_probs(weights).sample([40_000], generator);
    let found = one_hot.mean(0).to_vec::<f64>();
    assert!(
        found
            .iter()
            .zip(weights)
            .all(|(found, p)| (found - p).abs() < 0.01),
        "{found:?}"
    );
    let counts = Multinomial::from_probs(9, weights).sample([40_000], generator);
    let of_third: Vec<f64> = counts.slice(bibun::s![.., 2]).to_vec();
    let binomial = Binomial::from_probs(9.0, 0.6)
        .log_prob(Array::arange(0, 10))
        .exp()
        .to_vec::<f64>();
    assert!(chi_squared(&of_third, &binomial).abs() < 4.0);
    assert_eq!(counts.sum(-1).to_vec::<f64>(), vec![9.0; 40_000]);
}

/// Compares the derivative of samples by a parameter with that of the quantile: `-dF/dθ / f`.
fn expect_implicit<D: Reparameterized>(name: &str, make: impl Fn(&Variable) -> D, at: f64) {
    let n = 200;
    let draw = |p: &Variable| make(p).rsample([n], &mut Generator::new(3));
    let p = Variable::constant(at);
    let (x, slope) = jvp(draw, &p, &Variable::constant(1.0));
    let h = 1e-5 * at;
    let cdf = |at: f64| make(&Variable::constant(at)).cdf(&x);
    let of_cdf = (cdf(at + h) - cdf(at - h)) / (2.0 * h);
    let expected = -of_cdf / make(&p).log_prob(&x).exp();
    for (found, expected) in slope.to_vec::<f64>().iter().zip(expected.to_vec::<f64>()) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-5 * expected.abs().max(1e-3),
            "{name} {at}: {found}, not {expected}"
        );
    }
    // By the walk back, too.
    let backward = jacobian(draw, &p).to_vec::<f64>();
    let forward = slope.to_vec::<f64>();
    let is_same = backward
        .iter()
        .zip(&forward)
        .all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs());
    assert!(is_same, "{name}");
}

#[test]
fn samples_follow_their_parameters() {
    for a in [0.3, 1.0, 4.5, 60.0] {
        expect_implicit("Gamma, concentration", |a| Gamma::new(a, 1.3), a);
    }
    expect_implicit("Gamma, rate", |b| Gamma::new(2.5, b), 0.7);
    expect_implicit("Normal", |s| Normal::new(0.5, s), 1.3);
    expect_implicit("LogNormal", |s| LogNormal::new(0.5, s), 0.6);
    expect_implicit("Exponential", |r| Exponential::new(r), 1.3);
    expect_implicit("Laplace", |s| Laplace::new(0.5, s), 1.3);
    expect_implicit("Cauchy", |s| Cauchy::new(0.5, s), 1.3);
    expect_implicit("Uniform", |h| Uniform::new(-0.5, h), 1.3);
    expect_implicit("Gumbel", |s| Gumbel::new(0.5, s), 1.3);
    expect_implicit("Weibull", |k| Weibull::new(1.5, k), 1.3);
}

#[test]
fn gradients_of_expectations_are_those_of_the_moments() {
    // E x of a beta number is a / (a + b), that of the squares of Dirichlet numbers a (a + 1) / s (s + 1).
    let n = 200_000;
    let mean = |p: &(Variable, Variable)| {
        Beta::new(&p.0, &p.1)
            .rsample([n], &mut Generator::new(0))
            .mean(..)
    };
    let (a, b) = (1.5, 0.8);
    let slopes = grad(mean, &(Variable::constant(a), Variable::constant(b)));
    let total = (a + b) * (a + b);
    assert!(
        (slopes.0.item::<f64>() - b / total).abs() < 2e-3,
        "{slopes:?}"
    );
    assert!(
        (slopes.1.item::<f64>() + a / total).abs() < 2e-3,
        "{slopes:?}"
    );
    let square = |a: &Variable| {
        Dirichlet::new(a)
            .rsample([n], &mut Generator::new(0))
            .square()
            .mean(0)
            .slice(bibun::s![0])
    };
    let found = grad(square, &Variable::constant([0.5, 2.0, 1.0])).to_vec::<f64>();
    let (a, s) = (0.5, 3.5);
    let of_total = -a * (a + 1.0) * (2.0 * s + 1.0) / (s * (s + 1.0f64)).powi(2);
    let expected = [
        (2.0 * a + 1.0) / (s * (s + 1.0)) + of_total,
        of_total,
        of_total,
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 4e-3, "{found} {expected}");
    }
    // The median distance of Student numbers grows with the scale alone.
    let spread = |df: &Variable| {
        StudentT::new(df, 0.0, 1.0)
            .rsample([n], &mut Generator::new(0))
            .square()
            .mean(..)
    };
    let found = grad(spread, &Variable::constant(8.0)).item::<f64>();
    assert!((found + 2.0 / 36.0).abs() < 0.01, "{found}");
}

#[test]
fn mixtures_are_sums_of_their_components() {
    let classes = Categorical::from_probs([0.25, 0.75]);
    let x = MixtureSameFamily::new(classes.clone(), Normal::new([-2.0, 1.0], [0.5, 1.5]));
    let at = [-3.0, 0.0, 2.0];
    let parts = [
        (0.25, Normal::new(-2.0, 0.5)),
        (0.75, Normal::new(1.0, 1.5)),
    ];
    let sum = |of: &dyn Fn(&Normal) -> Variable| &of(&parts[0].1) * 0.25 + &of(&parts[1].1) * 0.75;
    let near = |a: Variable, b: Variable| assert!((a - b).abs().max(..).item::<f64>() < 1e-12);
    near(x.log_prob(at).exp(), sum(&|d| d.log_prob(at).exp()));
    near(x.cdf(at), sum(&|d| d.cdf(at)));
    near(x.mean(), Variable::constant(0.25));
    let draws = x.sample([20_000], &mut Generator::new(1)).to_vec::<f64>();
    assert!(kolmogorov_smirnov(draws, |at| x.cdf(at)) < 1.95);
    // Of vectors, and with a value that one component cannot have.
    let vectors = Independent::new(
        Normal::new(Array::arange(0, 6).cast(DType::F64).reshape([2, 3]), 1.0),
        1,
    );
    let x = MixtureSameFamily::new(classes, vectors);
    assert_eq!(x.sample([4], &mut Generator::new(0)).shape(), [4, 3]);
    assert_eq!(x.log_prob([[0.0, 1.0, 2.0]]).shape(), [1]);
    let ranges = Uniform::new([0.0, 5.0], [1.0, 6.0]);
    let x = MixtureSameFamily::new(Categorical::from_probs([0.5, 0.5]), ranges);
    near(x.log_prob([0.5, 5.5]), Variable::constant([0.5f64.ln(); 2]));
    assert!(attempt(|| x.log_prob(3.0)).is_err());
}

#[test]
fn bijectors_are_inverted_and_stretch_by_their_jacobian() {
    fn expect(f: &impl Bijector, x: Variable) {
        let y = f.forward(&x);
        let back = f.inverse(&y);
        assert!(
            (back - &x).abs().max(..).item::<f64>() < 1e-9,
            "{}",
            f.name()
        );
        let log = f.log_abs_det_jacobian(&x, &y).to_vec::<f64>();
        if f.event_rank() == 0 {
            let slopes = grad(|x| f.forward(x).sum(..), &x)
                .abs()
                .log()
                .to_vec::<f64>();
            let is_near = log.iter().zip(&slopes).all(|(a, b)| (a - b).abs() < 1e-9);
            return assert!(is_near, "{}: {log:?} {slopes:?}", f.name());
        }
        let slopes = jacobian(|x| f.forward(x), &x);
        let size = x.size();
        // The square part, whose determinant is that of the function onto its surface.
        let square = slopes.slice(bibun::s![..size as isize]).to_vec::<f64>();
        let expected = determinant(square, size).abs().ln();
        assert!(
            (log[0] - expected).abs() < 1e-9,
            "{}: {log:?} {expected}",
            f.name()
        );
    }
    let x = || Variable::constant([-1.5, -0.2, 0.1, 2.0]);
    expect(&Affine::new(0.5, -2.0), x());
    expect(&Exp, x());
    expect(&Sigmoid, x());
    expect(&Softplus, x());
    expect(&Tanh, x());
    expect(&Inverse(Exp), x().exp());
    expect(&(Affine::new(0.1, 3.0), Softplus), x());
    expect(&vec![Affine::new(0.1, 3.0), Affine::new(-1.0, 0.5)], x());
    expect(&StickBreaking, x());
    expect(&(Affine::new(0.1, 3.0), StickBreaking), x());
    let network = Made::new(4, &[16, 16], 2, &mut Generator::new(0));
    let network = bibun::tree_map(|x| x.cast(DType::F64), &network);
    expect(&Autoregressive::new(network), x());
}

fn determinant(mut a: Vec<f64>, n: usize) -> f64 {
    let mut product = 1.0;
    for i in 0..n {
        product *= a[i * n + i];
        for j in i + 1..n {
            let factor = a[j * n + i] / a[i * n + i];
            for k in i..n {
                a[j * n + k] -= factor * a[i * n + k];
            }
        }
    }
    product
}

#[test]
fn transformed_distributions_are_those_with_a_name() {
    let near = |a: Variable, b: Variable| {
        let difference = (a - b).abs().max(..).item::<f64>();
        assert!(difference < 1e-11, "{difference}");
    };
    let x = [0.1, 1.0, 7.0];
    let log_normal = LogNormal::new(0.3, 0.7);
    let same = Transformed::new(Normal::new(0.0, 1.0), (Affine::new(0.3, 0.7), Exp));
    near(same.log_prob(x), log_normal.log_prob(x));
    near(
        same.cdf([-1.0, 0.0, 0.1, 7.0]),
        log_normal.cdf([-1.0, 0.0, 0.1, 7.0]),
    );
    near(same.icdf([0.1, 0.9]), log_normal.icdf([0.1, 0.9]));
    // A decreasing function: 1 - u, and -log u.
    let turned = Transformed::new(
        Uniform::new(0.0, 1.0),
        (Affine::new(0.0, -1.0), Affine::new(1.0, 1.0)),
    );
    near(turned.cdf([0.2, 0.9]), Variable::constant([0.2, 0.9]));
    let exponential = Transformed::new(
        Uniform::new(0.0, 1.0),
        (Inverse(Exp), Affine::new(0.0, -1.0)),
    );
    near(exponential.log_prob(x), Exponential::new(1.0).log_prob(x));
    near(exponential.cdf(x), Exponential::new(1.0).cdf(x));
    near(
        exponential.icdf([0.1, 0.9]),
        Exponential::new(1.0).icdf([0.1, 0.9]),
    );
    // A bijector of vectors takes the batch, and makes it longer.
    let simplex = Transformed::new(Normal::new([0.0, 0.0, 0.0], 1.0), StickBreaking);
    assert_eq!(
        (simplex.batch_shape(), simplex.event_shape()),
        ([].into(), [4].into())
    );
    let y = simplex.rsample([5, 2], &mut Generator::new(0));
    assert_eq!(
        (y.shape(), simplex.log_prob(&y).shape()),
        ([5, 2, 4].into(), [5, 2].into())
    );
    assert!((y.sum(-1) - 1.0).abs().max(..).item::<f64>() < 1e-12);
    let of_matrix = Transformed::new(
        Independent::new(Normal::new(Array::zeros([3, 2], DType::F64), 1.0), 1),
        Exp,
    );
    assert_eq!(of_matrix.log_prob(Array::full([3, 2], 2.0)).shape(), [3]);
}

#[test]
fn shapes_broadcast() {
    let x = Normal::new([[0.0], [1.0]], [1.0, 2.0, 3.0]);
    assert_eq!(x.batch_shape(), [2, 3]);
    assert_eq!(
        x.sample([4, 5], &mut Generator::new(0)).shape(),
        [4, 5, 2, 3]
    );
    assert_eq!(x.log_prob(0.5).shape(), [2, 3]);
    assert_eq!(
        x.log_prob(Array::zeros([7, 1, 1], DType::F64)).shape(),
        [7, 2, 3]
    );
    let single = Normal::new(0.0f32, 1.0f32);
    assert_eq!(
        (single.dtype(), single.log_prob(1.0).dtype()),
        (DType::F32, DType::F32)
    );
    let vectors = MultivariateNormal::new([0.0, 1.0], Array::eye(2, DType::F64).reshape([1, 2, 2]));
    assert_eq!(
        (vectors.batch_shape(), vectors.event_shape()),
        ([1].into(), [2].into())
    );
    assert_eq!(
        vectors.sample([3], &mut Generator::new(0)).shape(),
        [3, 1, 2]
    );
    let classes = Categorical::from_logits(Array::zeros([4, 3], DType::F64));
    assert_eq!(classes.log_prob([[0i64], [2]]).shape(), [2, 4]);
    assert_eq!(
        classes.sample([], &mut Generator::new(0)).dtype(),
        DType::I64
    );
}

#[test]
fn transformations_go_through_distributions() {
    // vmap over parameters and values, against a loop.
    let scales = Variable::constant([0.5, 1.0, 2.0]);
    let density = |s: &Variable| Gamma::new(s, 1.5).log_prob([0.3, 2.0]);
    let all = vmap(density, &scales).to_vec::<f64>();
    let each: Vec<f64> = [0.5, 1.0, 2.0]
        .iter()
        .flat_map(|&s| density(&Variable::constant(s)).to_vec::<f64>())
        .collect();
    assert_eq!(all, each);
    // Batch elements draw their own numbers, also by rejection.
    let generator = &mut Generator::new(0);
    let counts = vmap(
        |rate| Poisson::new(rate).sample([2], generator),
        &Variable::constant([20.0; 3]),
    );
    assert_eq!(counts.shape(), [3, 2]);
    let counts = counts.to_vec::<f64>();
    assert!(
        counts[..2] != counts[2..4] && counts[2..4] != counts[4..],
        "{counts:?}"
    );
    // A compiled function draws the same numbers as eager code, others in every call.
    let draw = |(a, g): &(Variable, Generator)| {
        let mut g = g.clone();
        let x = Gamma::new(a, 1.0).rsample([5], &mut g);
        (x.log().sum(..), Gamma::new(a, 1.0).log_prob(&x))
    };
    let compiled = compile(draw);
    for seed in 0..3 {
        let argument = (Variable::constant(2.5), Generator::new(seed));
        let (now, later) = (draw(&argument), compiled.call(&argument));
        assert_eq!(now.0.to_vec::<f64>(), later.0.to_vec::<f64>());
        assert_eq!(now.1.to_vec::<f64>(), later.1.to_vec::<f64>());
    }
    // Outside of the support, where a trace cannot look: no probability.
    let density = compile(|x: &Variable| Exponential::new(2.0).log_prob(x));
    let found = density
        .call(&Variable::constant([-1.0, 0.0]))
        .to_vec::<f64>();
    assert_eq!(found, [f64::NEG_INFINITY, 2f64.ln()]);
}

#[test]
fn a_distribution_is_a_tree() {
    let loss = |q: &Normal| kl_divergence(q, &Normal::new(0.0, 1.0));
    let slope = grad(loss, &Normal::new(2.0, 0.5));
    assert_eq!(
        (slope.loc.item::<f64>(), slope.scale.item::<f64>()),
        (2.0, 0.5 - 2.0)
    );
    let density = |x: &[Variable]| {
        let classes = Categorical::from_logits(&x[0]);
        let d = MixtureSameFamily::new(classes, Normal::new(&x[1], &x[2]));
        vec![d.log_prob([0.3, -0.7])]
    };
    let parameters = [[0.2, -0.4], [0.0, 1.0], [0.5, 2.0]].map(Variable::new);
    assert_gradients(density, &parameters, GradientCheckOptions::default());
}

#[test]
fn errors_name_the_distribution_and_the_line() {
    // The call is in the lines of the macro's call.
    macro_rules! refused {
        ($what:expr, $parts:expr) => {{
            let error = attempt(|| drop($what)).unwrap_err();
            let text = error.to_string();
            assert!(
                $parts.iter().all(|part: &&str| text.contains(part)),
                "{text}"
            );
            assert!(
                error.location().file().ends_with("bibun/distributions.rs"),
                "{text}"
            );
            assert!(
                (line!()..line!() + 5).contains(&error.location().line()),
                "{text}"
            );
        }};
    }
    refused!(
        Normal::new(0.0, [1.0, -2.0]),
        ["Normal", "scale", "-2", "[1]", "positive"]
    );
    refused!(
        Normal::new([0.0; 2], [1.0; 3]),
        ["Normal", "broadcast", "[2]", "[3]"]
    );
    refused!(Uniform::new(1.0, 1.0), ["Uniform", "low", "below high"]);
    refused!(
        Bernoulli::from_probs(1.5),
        ["Bernoulli", "probs", "1.5", "between 0 and 1"]
    );
    refused!(
        Categorical::from_probs([-1.0, 2.0]),
        ["Categorical", "-1", "not negative"]
    );
    refused!(
        Binomial::from_probs(2.5, 0.5),
        ["Binomial", "total_count", "2.5", "whole"]
    );
    refused!(
        Exponential::new(1.0).log_prob([0.0, -1.0]),
        ["log_prob", "Exponential", "-1", "[1]"]
    );
    refused!(
        Poisson::new(1.0).log_prob(0.5),
        ["Poisson", "0.5", "whole number"]
    );
    refused!(
        Dirichlet::new([1.0, 1.0]).log_prob([0.5, 0.6]),
        ["Dirichlet", "sum 1"]
    );
    refused!(
        Normal::new([0.0; 2], 1.0).log_prob([0.0; 3]),
        ["log_prob", "[3]", "[2]", "Normal"]
    );
    refused!(
        Multinomial::from_probs(2, [0.5, 0.5]).mode(),
        ["mode", "Multinomial", "closed form"]
    );
    refused!(
        Dirichlet::new([1.0, 1.0]).icdf([0.5, 0.5]),
        ["icdf", "Dirichlet", "closed form"]
    );
    refused!(
        Independent::new(Normal::new(0.0, 1.0), 1),
        ["Independent", "Normal", "1 axes"]
    );
    let factor = [[1.0, 0.0], [0.0, 0.0]];
    refused!(
        MultivariateNormal::new([0.0; 2], factor),
        ["MultivariateNormal", "diagonal", "positive"]
    );
    // Values of batch elements are seen, too.
    let rates = Variable::constant([1.0, -1.0]);
    refused!(
        vmap(|rate| Poisson::new(rate).mean(), &rates),
        ["Poisson", "rate", "-1"]
    );
}

#[test]
fn halves_are_computed_in_single_precision() {
    // Class 257 is no number of bf16.
    let mut logits = vec![0.0; 600];
    logits[257] = 9.0;
    let logits = Variable::constant(logits).cast(DType::BF16);
    let x = Categorical::from_logits(&logits);
    let expected = 9.0 - (599.0 + 9f64.exp()).ln();
    assert!((x.log_prob(257).cast(DType::F64).item::<f64>() - expected).abs() < 1e-5);
    let slope = grad(
        |logits| Categorical::from_logits(logits).log_prob(257),
        &logits,
    );
    let slope = slope.cast(DType::F64).to_vec::<f64>();
    assert!(slope[256] < 0.0 && slope[257] > 0.0);
    // The tail is there.
    let waiting = Exponential::new(Variable::constant(1.0).cast(DType::F16));
    let draws = waiting.sample([100_000], &mut Generator::new(0));
    assert!(draws.max(..).item::<f32>() > 9.0);
    let counts = Poisson::new(Variable::constant(300.0).cast(DType::BF16)).log_prob([258.0, 300.0]);
    assert!((counts.cast(DType::F64).to_vec::<f64>()[1] + 3.771).abs() < 0.01);
}

#[test]
fn derivatives_at_the_ends_are_finite() {
    let entropy = |logits: &Variable| Categorical::from_logits(logits).entropy();
    let masked = Variable::constant([0.0, 1.0, f64::NEG_INFINITY]);
    let slope = grad(entropy, &masked).to_vec::<f64>();
    let expected = 0.196_611_933_241_481_85;
    assert!(
        (slope[0] - expected).abs() < 1e-12
            && (slope[1] + expected).abs() < 1e-12
            && slope[2] == 0.0,
        "{slope:?}"
    );
    let p = Variable::constant([0.4, 0.6, 0.0]);
    let slope = grad(|p| Categorical::from_probs(p).log_prob(0), &p).to_vec::<f64>();
    assert!(
        (slope[0] - 1.5).abs() < 1e-12
            && (slope[1] + 1.0).abs() < 1e-12
            && (slope[2] + 1.0).abs() < 1e-12
    );
    let kl = |logits: &Variable| {
        kl_divergence(
            &Categorical::from_logits(logits),
            &Categorical::from_probs([0.2, 0.3, 0.5]),
        )
    };
    assert!(grad(kl, &masked).is_finite().all(..).item::<bool>());
    assert!(
        grad(
            |x| Gumbel::new(0.0, 1.0).cdf(x),
            &Variable::constant(-900.0)
        )
        .item::<f64>()
            == 0.0
    );
}

#[test]
fn derivatives_to_certain_probabilities_are_limits_from_inside() {
    fn slopes(f: impl Fn(&Variable) -> Variable, p: f64) -> [f64; 2] {
        let p = Variable::constant(p);
        let first = |p: &Variable| grad(&f, p);
        [first(&p).item(), grad(first, &p).item()]
    }
    let infinity = f64::INFINITY;
    let bernoulli = |x: f64| move |p: &Variable| Bernoulli::from_probs(p).log_prob(x);
    assert_eq!(slopes(bernoulli(0.0), 0.0), [-1.0, -1.0]);
    assert_eq!(slopes(bernoulli(1.0), 1.0), [1.0, -1.0]);
    assert_eq!(slopes(bernoulli(1.0), 0.0), [infinity, -infinity]);
    assert_eq!(slopes(bernoulli(0.0), 1.0), [-infinity, -infinity]);
    let [first, second] = slopes(bernoulli(0.0), 0.75);
    assert!((first + 4.0).abs() < 1e-14 && (second + 16.0).abs() < 1e-13);
    let binomial = |x: f64| move |p: &Variable| Binomial::from_probs(20, p).log_prob(x);
    assert_eq!(slopes(binomial(0.0), 0.0), [-20.0, -20.0]);
    assert_eq!(slopes(binomial(20.0), 1.0), [20.0, -20.0]);
    assert_eq!(slopes(binomial(3.0), 0.0)[0], infinity);
    let geometric = |x: f64| move |p: &Variable| Geometric::from_probs(p).log_prob(x);
    assert_eq!(slopes(geometric(0.0), 1.0), [1.0, -1.0]);
    assert_eq!(slopes(geometric(2.0), 1.0)[0], -infinity);

    // Moments, the distribution function, the entropy and divergences.
    assert_eq!(slopes(|p| Bernoulli::from_probs(p).mean(), 0.0), [1.0, 0.0]);
    assert_eq!(
        slopes(|p| Bernoulli::from_probs(p).variance(), 0.0),
        [1.0, -2.0]
    );
    assert_eq!(
        slopes(|p| Binomial::from_probs(20, p).variance(), 1.0),
        [-20.0, -40.0]
    );
    assert_eq!(
        slopes(|p| Binomial::from_probs(20, p).cdf(0.0), 0.0),
        [-20.0, 380.0]
    );
    assert_eq!(
        slopes(|p| Geometric::from_probs(p).mean(), 1.0),
        [-1.0, 2.0]
    );
    assert_eq!(
        slopes(|p| Geometric::from_probs(p).cdf(0.0), 1.0),
        [1.0, 0.0]
    );
    assert_eq!(
        slopes(|p| Geometric::from_probs(p).cdf(1.0), 1.0),
        [0.0, -2.0]
    );
    assert_eq!(
        slopes(|p| Bernoulli::from_probs(p).entropy(), 0.0)[0],
        infinity
    );
    assert_eq!(
        slopes(|p| Bernoulli::from_probs(p).entropy(), 1.0)[0],
        -infinity
    );
    let certain =
        |q: &Variable| kl_divergence(&Bernoulli::from_probs(0.0), &Bernoulli::from_probs(q));
    assert_eq!(slopes(certain, 0.0), [1.0, 1.0]);
    let from = |p: &Variable| kl_divergence(&Bernoulli::from_probs(p), &Bernoulli::from_probs(0.5));
    assert_eq!(slopes(from, 0.0)[0], -infinity);

    // Small probabilities are not rounded beside 1.
    let rare = Bernoulli::from_probs(1e-20);
    assert_eq!(rare.log_prob(0.0).item::<f64>(), -1e-20);
    let entropy = rare.entropy().item::<f64>() / 1e-20;
    assert!((entropy - 47.051_701_859_880_91).abs() < 1e-12, "{entropy}");
    let cdf = Geometric::from_probs(1e-20).cdf(1.0).item::<f64>();
    assert!((cdf / 2e-20 - 1.0).abs() < 1e-14, "{cdf:e}");

    // One of several is at an end.
    let p = Variable::constant([0.0, 0.25, 1.0]);
    let sum = |p: &Variable| Bernoulli::from_probs(p).log_prob([0.0, 1.0, 1.0]).sum(..);
    let slopes = grad(sum, &p).to_vec::<f64>();
    assert!((slopes[1] - 4.0).abs() < 1e-14, "{slopes:?}");
    assert_eq!([slopes[0], slopes[2]], [-1.0, 1.0]);
}

#[test]
fn the_entropy_of_many_degrees_of_freedom_is_that_of_a_normal_distribution() {
    let df = [1e4, 1e5, 1e6, 1e7];
    let expected = [
        1.419_038_535_704_506,
        1.418_948_533_229_672_6,
        1.418_939_533_204_922_7,
        1.418_938_633_204_675_2,
    ];
    let narrow = StudentT::new(df.map(|df| df as f32), 0.0, 1.0).entropy();
    let wide = StudentT::new(df, 0.0, 1.0).entropy();
    for ((narrow, wide), expected) in narrow
        .to_vec::<f32>()
        .iter()
        .zip(wide.to_vec::<f64>())
        .zip(expected)
    {
        assert!(
            (f64::from(*narrow) - expected).abs() < 3e-6,
            "{narrow} {expected}"
        );
        assert!((wide - expected).abs() < 1e-14 * 16.0, "{wide} {expected}");
    }
    let entropy = |df: &[Variable]| [StudentT::new(&df[0], 0.0, 1.0).entropy()];
    let df = Variable::constant([0.7, 5.0, 300.0]);
    assert_gradients(entropy, &[df], GradientCheckOptions::default());
}

#[test]
fn student_numbers_near_the_median_and_near_the_normal_distribution() {
    for df in [0.1, 3.0, 1000.0] {
        let d = StudentT::new(df, 0.0, 1.0);
        for x in [0.0, 1e-9, 1e-4, 3e-3, 0.01, -0.01, 2.0] {
            let x = Variable::constant(x);
            let slope = grad(|x| d.cdf(x), &x).item::<f64>();
            let density = d.log_prob(&x).exp().item::<f64>();
            assert!(
                (slope / density - 1.0).abs() < 1e-9,
                "{df} {x:?}: {slope} {density}"
            );
            let of_df = grad(
                |df| StudentT::new(df, 0.0, 1.0).cdf(&x),
                &Variable::constant(df),
            )
            .item::<f64>();
            assert!(of_df.is_finite());
        }
    }
    let x = Variable::constant(Array::arange(-100, 101).cast(DType::F64) * 1e-4);
    let values = StudentT::new(3.0, 0.0, 1.0).cdf(&x).to_vec::<f64>();
    assert!(
        values.windows(2).all(|pair| pair[1] > pair[0]),
        "it increases from one piece to the other"
    );
    let flat = StudentT::new([1e12, 1e15, 1e300], 0.0, 1.0)
        .log_prob(0.0)
        .to_vec::<f64>();
    assert!(
        flat.iter().all(|x| (x + 0.918_938_533).abs() < 1e-6),
        "{flat:?}"
    );
}

#[test]
fn samples_have_a_density() {
    let generator = &mut Generator::new(0);
    let small = Variable::constant(0.01f32);
    let finite = |x: Variable| x.is_finite().all(..).item::<bool>();
    let d = Beta::new(&small, &small);
    assert!(finite(d.log_prob(d.sample([1000], generator))));
    let d = Gamma::new(&small, 1.0);
    assert!(finite(d.log_prob(d.sample([1000], generator))));
    let d = Dirichlet::new([0.01f32; 3]);
    assert!(finite(d.log_prob(d.sample([1000], generator))));
}

#[test]
fn parameters_of_bijectors_make_the_batch_larger() {
    let d = Transformed::new(Normal::new(0.0, 1.0), Affine::new([0.0, 10.0, 20.0], 1.0));
    assert_eq!(d.batch_shape(), [3]);
    let x = d.sample([2], &mut Generator::new(0));
    assert_eq!(
        (x.shape(), d.log_prob(&x).shape()),
        ([2, 3].into(), [2, 3].into())
    );
    let noise = (x - [0.0, 10.0, 20.0]).to_vec::<f64>();
    assert!(noise[0] != noise[1] && noise[1] != noise[2]);
    let d = Transformed::new(Normal::new([0.0; 3], 1.0), Affine::new([[0.0], [1.0]], 1.0));
    assert_eq!(d.sample([2], &mut Generator::new(0)).shape(), [2, 2, 3]);
    assert!(
        attempt(|| Transformed::new(Normal::new([0.0; 3], 1.0), Affine::new([0.0, 1.0], 1.0)))
            .is_err()
    );
    assert!(attempt(|| Transformed::new(Poisson::new(2.0), Affine::new(0.0, 2.0))).is_err());
    let p = [-0.1, 0.5, 1.1];
    for values in [
        Exponential::new(1.0).icdf(p),
        Uniform::new(0.0, 1.0).icdf(p),
        Cauchy::new(0.0, 1.0).icdf(p),
    ] {
        let is_nan: Vec<bool> = values.to_vec::<f64>().iter().map(|x| x.is_nan()).collect();
        assert_eq!(is_nan, [true, false, true]);
    }
    assert!(
        LogNormal::new(0.0, 1.0)
            .cdf(f64::NAN)
            .item::<f64>()
            .is_nan()
    );
}

#[test]
fn samples_do_not_depend_on_threads() {
    let draw = || {
        let generator = &mut Generator::new(4);
        let a = Variable::constant(generator.uniform([70_000], 0.1, 20.0, DType::F64));
        let gamma = Gamma::new(&a, 1.0).rsample([], generator);
        let counts = Poisson::new(&a).sample([], generator);
        let classes = Categorical::from_probs([0.2, 0.3, 0.5]).sample([70_000], generator);
        (
            gamma.to_vec::<f64>(),
            counts.to_vec::<f64>(),
            classes.to_vec::<i64>(),
        )
    };
    let expected = draw();
    for threads in [1, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a pool");
        assert!(pool.install(draw) == expected, "{threads} threads");
    }
    // Several tasks at once, each with its own generator.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .expect("a pool");
    let all: Vec<_> = pool.install(|| (0..4).into_par_iter().map(|_| draw()).collect());
    assert!(all.iter().all(|found| *found == expected));
}

#[test]
fn a_second_run_draws_the_same_numbers() {
    let loss = |a: &Variable, generator: &mut Generator| {
        let x = Gamma::new(a, 1.0).rsample([50], generator);
        Poisson::new(&x)
            .log_prob(Poisson::new(&x).sample([], generator))
            .sum(..)
    };
    let a = Variable::new(2.5);
    loss(&a, &mut Generator::new(1)).backward();
    let expected = a.grad().expect("a gradient").item::<f64>();
    a.clear_grad();
    let generator = Mutex::new(Generator::new(1));
    let again = checkpoint(
        move |a: &Variable| loss(a, &mut generator.lock().expect("one call at a time")),
        &a,
    );
    again.backward();
    assert_eq!(a.grad().expect("a gradient").item::<f64>(), expected);
    // A generator that goes on from where it was saved.
    let mut generator = Generator::new(9);
    let d = StudentT::new(3.0, 0.0, 1.0);
    let _ = d.sample([7], &mut generator);
    let (key, counter) = (generator.key(), generator.counter());
    let next = d.sample([3], &mut generator).to_vec::<f64>();
    let resumed = d.sample([3], &mut Generator::from_state(key, counter));
    assert_eq!(resumed.to_vec::<f64>(), next);
    // Evaluation mode changes nothing.
    let draw = || d.sample([3], &mut Generator::new(2)).to_vec::<f64>();
    assert_eq!(eval_mode(draw), draw());
}

#[test]
fn empty_and_huge_shapes() {
    let generator = &mut Generator::new(0);
    let none = Normal::new(Array::zeros([0, 2], DType::F64), 1.0);
    assert_eq!(none.rsample([3], generator).shape(), [3, 0, 2]);
    assert_eq!(none.log_prob(0.0).sum(..).item::<f64>(), 0.0);
    assert_eq!(
        Gamma::new(Array::zeros([0], DType::F64), 1.0)
            .sample([2], generator)
            .shape(),
        [2, 0]
    );
    assert_eq!(
        Categorical::from_probs([0.5, 0.5])
            .sample([0], generator)
            .shape(),
        [0]
    );
    assert_eq!(
        Multinomial::from_probs(0, [0.5, 0.5])
            .sample([], generator)
            .to_vec::<f64>(),
        [0.0, 0.0]
    );
    let before = generator.counter();
    for shape in [usize::MAX, 1 << 50] {
        assert!(
            attempt(|| Normal::new(0.0, 1.0).sample([shape, 4], &mut Generator::new(0))).is_err()
        );
        assert!(attempt(|| Poisson::new(2.0).sample([shape, 4], generator)).is_err());
    }
    assert_eq!(generator.counter(), before, "nothing was drawn");
    assert!(attempt(|| Dirichlet::new(1.0)).is_err());
    assert!(attempt(|| Categorical::from_probs(Array::zeros([2, 0], DType::F64))).is_err());
}

#[test]
fn masks_of_a_made_are_saved_and_not_learnt() {
    let network = || Made::new(3, &[8], 2, &mut Generator::new(0));
    let (first, second) = (network(), Made::new(3, &[8], 2, &mut Generator::new(1)));
    assert_eq!(first.parameters().len(), 4);
    second.load_state(&first.state()).expect("the same network");
    let x = Variable::constant([0.3f32, -0.4, 0.5]);
    assert_eq!(
        first.forward(&x).to_vec::<f32>(),
        second.forward(&x).to_vec::<f32>()
    );
}

#[test]
fn weibull_far_out() {
    let x = Variable::constant([0.0, 1.0, 20.0, 1e300]);
    let cdf = |k: &Variable| Weibull::new(1.0, k).cdf(&x).sum(..);
    assert!(
        grad(cdf, &Variable::constant(30.0))
            .item::<f64>()
            .is_finite()
    );
    let d = Weibull::new(1.0, 30.0);
    assert_eq!(d.cdf(&x).to_vec::<f64>()[2..], [1.0, 1.0]);
    let slope = grad(|x| d.cdf(x).sum(..), &x).to_vec::<f64>();
    assert_eq!((slope[0], slope[2], slope[3]), (0.0, 0.0, 0.0));
}
