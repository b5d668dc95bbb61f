//! A Kalman filter learnt by gradient: a damped oscillator is seen by a good and by a bad sensor. How stiff and how damped it
//! is, how strongly it is shaken and how far each sensor may be trusted is found where the observations are most likely, by the
//! derivatives of a hundred steps of the filter and of the exponential of a matrix. Second derivatives say how well it is known.
//!
//! Source: R. E. Kalman, "A new approach to linear filtering and prediction problems", 1960.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{diag, eye, stack};
use bibun::linalg::{Triangle, cholesky, cholesky_solve, expm, inv, triangular_solve};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, hessian, no_grad, s};

const STEPS: usize = 100;
const SEQUENCES: usize = 16;
/// The time between two observations.
const TIME: f64 = 0.2;
/// Stiffness, damping, and the variances of the shaking and of both sensors.
const TRUTH: [f64; 5] = [4.0, 0.3, 0.01, 0.04, 1.0];

/// Logarithms of the numbers of [`TRUTH`].
#[derive(Clone, Chain)]
struct Model {
    numbers: Variable,
}

/// What the filter knows, and how well it has foreseen what it saw.
struct Filtered {
    /// The mean state after each observation.
    means: Vec<Variable>,
    /// The negative logarithm of the likelihood, for each sequence.
    loss: Variable,
}

impl Model {
    fn new(numbers: [f64; 5]) -> Self {
        let numbers = Variable::new(numbers.map(f64::ln));
        Self { numbers }
    }

    /// How the state (place and speed) changes in a step, and the covariances of shaking and of sensors.
    fn matrices(&self) -> [Variable; 3] {
        let [stiffness, damping, shaking, good, bad] =
            [0, 1, 2, 3, 4].map(|i| self.numbers.slice(s![i]).exp());
        let zero = Variable::constant(0.0);
        let one = Variable::constant(1.0);
        let place = stack([&zero, &one], 0);
        let speed = stack([-stiffness, -damping], 0);
        let moves = expm(stack([place, speed], 0) * TIME);
        [
            moves,
            diag(stack([zero, shaking], 0), 0),
            diag(stack([good, bad], 0), 0),
        ]
    }

    /// Goes through observations `[sequences, steps, sensors]`. Covariances do not depend on them.
    fn filter(&self, seen: &Variable) -> Filtered {
        let [moves, shaking, noise] = self.matrices();
        // Both sensors see the place.
        let sensors = Variable::constant(Array::from([[1.0, 0.0], [1.0, 0.0]]));
        let mut mean = Variable::constant(Array::zeros([SEQUENCES, 2], DType::F64));
        let mut covariance = eye(2, DType::F64);
        let mut loss = Variable::constant(0.0);
        let mut means = Vec::new();
        for step in 0..STEPS {
            let foreseen = sensors.matmul(&covariance);
            let l = cholesky(foreseen.matmul(sensors.swapaxes(0, 1)) + &noise);
            let surprise =
                seen.slice(s![.., step as isize, ..]) - mean.matmul(sensors.swapaxes(0, 1));
            let scaled = triangular_solve(&l, surprise.swapaxes(0, 1), Triangle::Lower);
            loss = loss + 0.5 * scaled.square().sum(0) + l.diagonal(0, [0, 1]).log().sum(..);

            // The gain, transposed.
            let gain = cholesky_solve(&foreseen, &l);
            mean += surprise.matmul(&gain);
            covariance = &covariance - foreseen.swapaxes(0, 1).matmul(gain);
            means.push(mean.clone());

            mean = mean.matmul(moves.swapaxes(0, 1));
            covariance = moves.matmul(covariance).matmul(moves.swapaxes(0, 1)) + &shaking;
        }
        Filtered { means, loss }
    }

    fn loss(&self, seen: &Variable) -> Variable {
        self.filter(seen).loss.mean(..) / STEPS as f64
    }
}

/// States `[sequences, steps, 2]`, and what the sensors see of them.
fn simulated(random: &mut Generator) -> [Variable; 2] {
    let [moves, shaking, noise] = Model::new(TRUTH).matrices();
    let mut drawn = |covariance: &Variable| {
        let normal = random.normal([SEQUENCES, 2], 0.0, 1.0, DType::F64);
        Variable::constant(normal).matmul(covariance.sqrt())
    };
    let mut state = drawn(&eye(2, DType::F64));
    let (mut states, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let place = state.slice(s![.., ..1]);
        seen.push(place + drawn(&noise));
        states.push(state.clone());
        state = state.matmul(moves.swapaxes(0, 1)) + drawn(&shaking);
    }
    [stack(states, 1), stack(seen, 1)]
}

/// The root of the mean square of the errors of places.
fn error(places: &Variable, states: &Variable) -> f64 {
    let error = places - states.slice(s![.., .., 0]);
    error.square().mean(..).sqrt().item::<f64>()
}

fn main() {
    let random = &mut Generator::new(0);
    let [_, seen] = no_grad(|| simulated(random));
    let [unseen_states, unseen] = no_grad(|| simulated(random));

    let places = |model: &Model, seen: &Variable| {
        let means = no_grad(|| model.filter(seen).means);
        stack(means, 1).slice(s![.., .., 0])
    };
    let model = Model::new([1.0, 1.0, 0.1, 0.3, 0.3]);
    let before = error(&places(&model, &unseen), &unseen_states);
    let mut optimizer = Adam::new(0.05);
    for step in 0..200 {
        let loss = optimizer.minimize(&model, &mut || model.loss(&seen));
        if step % 50 == 0 {
            println!("step {step:3}: {:.4}", loss.item::<f64>());
        }
    }

    let found = model.numbers.exp().to_vec::<f64>();
    println!("found {found:.3?} where it is {TRUTH:?}");
    // How well they are known: the inverse of the Hessian is the covariance of the logarithms.
    let information = hessian(
        |numbers| {
            Model {
                numbers: numbers.clone(),
            }
            .filter(&seen)
            .loss
            .sum(..)
        },
        &model.numbers,
    );
    let errors = inv(information).diagonal(0, [0, 1]).sqrt().to_vec::<f64>();
    println!("relative standard errors {errors:.3?}");
    for ((found, truth), error) in found.iter().zip(TRUTH).zip(errors) {
        assert!(error < 0.3, "{found} is not known: {error}");
        assert!(
            (found / truth).ln().abs() < 3.0 * error,
            "{found} instead of {truth}"
        );
    }
    // It is where the likelihood is greatest, not where the truth is.
    let [own, true_one] = [&model, &Model::new(TRUTH)].map(|model| model.loss(&seen).item::<f64>());
    println!("loss {own:.5}, of the true numbers {true_one:.5}");
    assert!(own < true_one);

    // On sequences it has not seen: better than the good sensor, and as good as can be.
    let after = error(&places(&model, &unseen), &unseen_states);
    let best = error(&places(&Model::new(TRUTH), &unseen), &unseen_states);
    let sensor = error(&unseen.slice(s![.., .., 0]), &unseen_states);
    println!(
        "error {before:.3} before, {after:.3} after, {best:.3} at best, {sensor:.3} of the good sensor"
    );
    assert!(after < 1.02 * best && after < 0.9 * before && after < 0.8 * sensor);
}
