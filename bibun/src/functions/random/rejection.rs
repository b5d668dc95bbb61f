//! Random numbers of distributions that are drawn from by rejection, as constants.

use bibun_array::Generator;
use bibun_array::math::Float;
use bibun_array::{Array, DType, Distribution, Number, Rejection, cpu};

use super::draws::Random;
use crate::call::{calling, composite};
use crate::function::{Mismatch, Spec, Variadic};
use crate::functions::condition::expect_everywhere;
use crate::functions::families::{Discrete, DiscreteRule, call, element_function};
use crate::functions::{
    Operand, cast, greater, greater_equal, less, less_equal, logical_and, to_float,
};
use crate::variable::Variable;

/// Draws a count of the Poisson distribution for each mean.
///
/// Shapes: rate any → the same.
/// Types: floats; integers give f64. Counts are floats.
/// Gradient: none.
/// Source: `torch.poisson`, `jax.random.poisson`; W. Hörmann, "The transformed rejection method for
/// generating Poisson random variables", 1993.
///
/// # Panics
/// Panics if a mean is negative or not finite.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_poisson;
/// let counts = random_poisson([0.0, 1000.0], &mut Generator::new(0)).to_vec::<f64>();
/// assert!(counts[0] == 0.0 && (800.0..1200.0).contains(&counts[1]));
/// ```
#[track_caller]
pub fn random_poisson(rate: impl Into<Variable>, generator: &mut Generator) -> Variable {
    let _called = calling("random_poisson");
    let rate = to_float(rate.into());
    let must = "a finite number, not negative";
    let holds = logical_and(greater_equal(&rate, 0.0), rate.less(f64::INFINITY));
    expect_everywhere("random_poisson", "the rate", &rate, &holds, must);
    rejected("random_poisson", Rejection::Poisson, [rate], generator)
}

/// Draws the number of successes among `total_count` trials of probability `p`.
///
/// Shapes: total_count, p that broadcast → their common shape.
/// Types: floats, promoted; integers give f64. Counts are floats.
/// Gradient: none.
/// Source: `jax.random.binomial`; W. Hörmann, "The generation of binomial random variates", 1993.
///
/// # Panics
/// Panics if a number of trials is negative or not finite, or a probability is not between 0 and 1.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_binomial;
/// let counts = random_binomial(100, [0.0, 0.5, 1.0], &mut Generator::new(0)).to_vec::<f64>();
/// assert!(counts[0] == 0.0 && (25.0..75.0).contains(&counts[1]) && counts[2] == 100.0);
/// ```
#[track_caller]
pub fn random_binomial(
    total_count: impl Into<Operand>,
    p: impl Into<Operand>,
    generator: &mut Generator,
) -> Variable {
    let _called = calling("random_binomial");
    let (inputs, _whole) = Operand::pair("random_binomial", total_count.into(), p.into());
    let [count, p] = inputs.map(to_float);
    let holds = logical_and(greater_equal(&count, 0.0), count.less(f64::INFINITY));
    let must = "a finite number, not negative";
    expect_everywhere(
        "random_binomial",
        "the number of trials",
        &count,
        &holds,
        must,
    );
    let holds = logical_and(greater_equal(&p, 0.0), less_equal(&p, 1.0));
    expect_everywhere(
        "random_binomial",
        "the probability",
        &p,
        &holds,
        "between 0 and 1",
    );
    rejected(
        "random_binomial",
        Rejection::Binomial,
        [count, p],
        generator,
    )
}

/// Draws angles around 0 from the von Mises distribution, in `[-π, π]`.
///
/// Shapes: concentration any → the same.
/// Types: floats; integers give f64.
/// Gradient: none.
/// Source: D. J. Best, N. I. Fisher, "Efficient simulation of the von Mises distribution", 1979.
///
/// # Panics
/// Panics if a concentration is negative or NaN.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_von_mises;
/// let angles = random_von_mises([0.0, 1e6], &mut Generator::new(0)).to_vec::<f64>();
/// assert!(angles[0].abs() <= std::f64::consts::PI && angles[1].abs() < 0.01);
/// ```
#[track_caller]
pub fn random_von_mises(concentration: impl Into<Variable>, generator: &mut Generator) -> Variable {
    let _called = calling("random_von_mises");
    let concentration = to_float(concentration.into());
    let holds = greater_equal(&concentration, 0.0);
    expect_everywhere(
        "random_von_mises",
        "the concentration",
        &concentration,
        &holds,
        "0 or more",
    );
    rejected(
        "random_von_mises",
        Rejection::VonMises,
        [concentration],
        generator,
    )
}

/// Draws the logarithms of numbers of the gamma distribution with rate 1, which do not underflow for small
/// concentrations, as the numbers themselves do.
///
/// Shapes: concentration any → the same.
/// Types: floats; integers give f64.
/// Gradient: implicit, that of the value y at which the distribution function F stays what it is:
/// `-gy ∂F/∂a / ∂F/∂y`. Two orders of derivative are known.
/// Source: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", 2000; M. Figurnov,
/// S. Mohamed, A. Mnih, "Implicit reparameterization gradients", 2018; `jax.random.loggamma`.
///
/// # Panics
/// Panics if a concentration is not positive and finite.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_log_gamma;
/// let y = random_log_gamma([1e-4, 1e4], &mut Generator::new(0)).to_vec::<f64>();
/// assert!(y[0] < 0.0 && (9.0..9.5).contains(&y[1]));
/// ```
#[track_caller]
pub fn random_log_gamma(concentration: impl Into<Variable>, generator: &mut Generator) -> Variable {
    let _whole = composite("random_log_gamma");
    let a = to_float(concentration.into());
    let holds = logical_and(greater(&a, 0.0), less(&a, f64::INFINITY));
    let must = "a positive, finite number";
    expect_everywhere("random_log_gamma", "the concentration", &a, &holds, must);
    let drawn = rejected(
        "random_log_gamma",
        Rejection::LogGamma,
        [a.clone()],
        generator,
    );
    call(Drawn::function(), &[], [a, drawn])
}

/// The logarithm of a gamma number as a function of the concentration: the number that was drawn, whose
/// distribution function has the same value for every concentration.
struct Drawn;

element_function! {
    Drawn = "random_log_gamma", [a, b] [];
    value: b;
    derivative(a, y; gy): {
        // Far on the left, F is exp(a y) / Γ(a + 1), and both derivatives underflow.
        let far = -40.0;
        let x = y.maximum(far).exp();
        let slope = -(a.gammainc_a(x) / (x * a.gamma_density(x)));
        gy * y.less(far).where_((digamma_of_next(a) - y) / a, slope)
    };
    derivative(; gy): gy;
}

/// `ψ(a + 1)`
fn digamma_of_next<T: Float>(a: Number<T>) -> Number<T> {
    (a + 1.0).digamma()
}

/// Draws by rejection with parameters of one shape and dtype. Every element draws a seed, from which its
/// rejection goes on.
#[track_caller]
fn rejected<const N: usize>(
    name: &'static str,
    rejection: Rejection,
    parameters: [Variable; N],
    generator: &mut Generator,
) -> Variable {
    let Spec { shape, dtype } = parameters[0].spec();
    let device = parameters
        .iter()
        .find_map(Variable::known_device)
        .unwrap_or(cpu());
    let seeds = Distribution::Integers {
        low: i64::MIN,
        high: i64::MAX,
    };
    let seeds = Random::new(name, seeds, shape, device).draw(generator);
    let parameters = parameters.map(|x| cast(x.detach(), DType::F64));
    let inputs = std::iter::once(seeds).chain(parameters).collect();
    cast(Discrete::of(Rejected { name, rejection }, inputs), dtype)
}

/// A function of seeds and parameters of equal shapes.
#[derive(Clone, Debug)]
struct Rejected {
    name: &'static str,
    rejection: Rejection,
}

impl DiscreteRule for Rejected {
    type Inputs = Variadic;

    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&inputs[0].shape, DType::F64))
    }

    fn forward(&self, inputs: Vec<Array>) -> Array {
        self.rejection.draw(&inputs[0], &inputs[1..])
    }
}
