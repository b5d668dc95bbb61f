//! A pole on a cart learns to stand, by REINFORCE and by proximal policy optimisation (PPO), from nothing but
//! the time it has stood. 32 carts run side by side; the policy is a distribution over two pushes, and both
//! methods are gradients of its log-probabilities.
//!
//! Source: A. G. Barto, R. S. Sutton, C. W. Anderson, "Neuronlike adaptive elements that can solve difficult
//! learning control problems", 1983; R. J. Williams, "Simple statistical gradient-following algorithms for
//! connectionist reinforcement learning", 1992; J. Schulman et al., "Proximal policy optimization algorithms",
//! arXiv:1707.06347, 2017.

use bibun::array::{Array, DType, Generator};
use bibun::distributions::{Categorical, Distribution};
use bibun::functions::{minimum, squeeze};
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, no_grad};

const CARTS: usize = 32;
/// Steps of all carts between two updates.
const HORIZON: usize = 128;
/// A pole that stands for so long is put back.
const LONGEST: usize = 500;
const DISCOUNT: f64 = 0.99;
/// About how much returns differ.
const SPREAD: f64 = 30.0;

/// Carts with poles: position, velocity, angle, angular velocity, and the time each has stood.
struct Carts {
    states: Vec<[f64; 4]>,
    times: Vec<usize>,
    /// The times of the last poles that fell or were put back.
    finished: Vec<usize>,
    random: Generator,
}

impl Carts {
    fn new(random: Generator) -> Self {
        let mut carts = Self {
            states: vec![[0.0; 4]; CARTS],
            times: vec![0; CARTS],
            finished: Vec::new(),
            random,
        };
        (0..CARTS).for_each(|cart| carts.reset(cart));
        carts
    }

    fn reset(&mut self, cart: usize) {
        let start = self
            .random
            .uniform(4, -0.05, 0.05, DType::F64)
            .to_vec::<f64>();
        self.states[cart].copy_from_slice(&start);
        self.times[cart] = 0;
    }

    fn observed(&self) -> Array {
        Array::from(&self.states).cast(DType::F32)
    }

    /// Pushes each cart to the left (0) or to the right (1), and returns which poles have fallen.
    fn step(&mut self, pushes: &[i64]) -> Vec<bool> {
        let mut fallen = vec![false; CARTS];
        for (cart, &push) in pushes.iter().enumerate() {
            let [x, velocity, angle, spin] = self.states[cart];
            let force = if push == 1 { 10.0 } else { -10.0 };
            let (sin, cos) = angle.sin_cos();
            // A pole of half a metre and 100 g on a cart of 1 kg.
            let pull = (force + 0.05 * spin * spin * sin) / 1.1;
            let turning = (9.8 * sin - cos * pull) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1));
            let speeding = pull - 0.05 * turning * cos / 1.1;
            const TICK: f64 = 0.02;
            let state = [
                x + TICK * velocity,
                velocity + TICK * speeding,
                angle + TICK * spin,
                spin + TICK * turning,
            ];
            self.states[cart] = state;
            self.times[cart] += 1;
            fallen[cart] = state[0].abs() > 2.4 || state[2].abs() > 0.2095;
            if fallen[cart] || self.times[cart] == LONGEST {
                self.finished.push(self.times[cart]);
                self.reset(cart);
                fallen[cart] = true;
            }
        }
        fallen
    }

    /// The mean time of the last poles.
    fn mean_time(&self) -> f64 {
        let last = &self.finished[self.finished.len().saturating_sub(2 * CARTS)..];
        last.iter().sum::<usize>() as f64 / last.len().max(1) as f64
    }
}

/// The policy, and an estimate of the time that is left (discounted).
#[derive(Chain)]
struct Agent {
    policy: Mlp,
    value: Mlp,
}

impl Agent {
    fn new(random: &mut Generator) -> Self {
        let network = |outputs, random: &mut Generator| {
            Mlp::builder(&[4, 64, 64, outputs])
                .activation(Variable::tanh)
                .build(random)
        };
        Self {
            policy: network(2, random),
            value: network(1, random),
        }
    }

    fn pushes(&self, states: &Variable) -> Categorical {
        Categorical::from_logits(self.policy.forward(states))
    }

    fn values(&self, states: &Variable) -> Variable {
        SPREAD * squeeze(self.value.forward(states), -1)
    }
}

/// What all carts did between two updates, one after the other.
struct Experience {
    states: Variable,
    pushes: Variable,
    /// The logarithm of the probability that each push had.
    log_probs: Variable,
    /// How much better it went than expected, and how it went.
    advantages: Variable,
    returns: Variable,
}

fn experience(agent: &Agent, carts: &mut Carts, random: &mut Generator, decay: f64) -> Experience {
    let (mut states, mut pushes, mut log_probs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..HORIZON {
        let state = Variable::constant(carts.observed());
        let policy = agent.pushes(&state);
        let push = policy.sample([], random);
        log_probs.extend(policy.log_prob(&push).to_vec::<f32>());
        values.push(agent.values(&state).to_vec::<f32>());
        let moves = push.to_vec::<i64>();
        ends.push(carts.step(&moves));
        states.extend(state.to_vec::<f32>());
        pushes.extend(moves);
    }
    values.push(
        agent
            .values(&Variable::constant(carts.observed()))
            .to_vec::<f32>(),
    );
    // Generalised advantages (Schulman et al. 2016), from the end: each step is worth 1.
    let mut advantages = vec![0f32; HORIZON * CARTS];
    for cart in 0..CARTS {
        let mut advantage = 0.0;
        for step in (0..HORIZON).rev() {
            let goes_on = if ends[step][cart] { 0.0 } else { 1.0 };
            let (now, next) = (
                f64::from(values[step][cart]),
                f64::from(values[step + 1][cart]),
            );
            let surprise = 1.0 + DISCOUNT * goes_on * next - now;
            advantage = surprise + DISCOUNT * decay * goes_on * advantage;
            advantages[step * CARTS + cart] = advantage as f32;
        }
    }
    let advantages = Variable::constant(advantages);
    let of_steps: Vec<f32> = values[..HORIZON].concat();
    Experience {
        states: Variable::constant(Array::from_vec(states, [HORIZON * CARTS, 4])),
        pushes: Variable::constant(pushes),
        log_probs: Variable::constant(log_probs),
        returns: &advantages + Variable::constant(of_steps),
        advantages: (&advantages - advantages.mean(..)) / (advantages.std(.., 0) + 1e-6),
    }
}

/// The mean time after as many updates, or as soon as it is nearly the longest.
fn learn(name: &str, updates: usize, is_proximal: bool) -> f64 {
    let random = Generator::new(1);
    let agent = Agent::new(&mut random.split(0));
    let mut carts = Carts::new(random.split(1));
    let draws = &mut random.split(2);
    let rate = if is_proximal { 1e-3 } else { 3e-3 };
    let mut optimizer = Adam::new(rate).hook(ClipNorm(0.5));
    let mut best = 0.0f64;
    for update in 0..updates {
        // REINFORCE takes the whole return, and one step; PPO looks less far, and takes several.
        let decay = if is_proximal { 0.95 } else { 1.0 };
        let seen = no_grad(|| experience(&agent, &mut carts, draws, decay));
        for _ in 0..if is_proximal { 10 } else { 1 } {
            let mut loss = || {
                let policy = agent.pushes(&seen.states);
                let log_probs = policy.log_prob(&seen.pushes);
                let gain = if is_proximal {
                    let ratio = (log_probs - &seen.log_probs).exp();
                    minimum(
                        &ratio * &seen.advantages,
                        ratio.clip(0.8, 1.2) * &seen.advantages,
                    )
                } else {
                    log_probs * &seen.advantages
                };
                let errors = (agent.values(&seen.states) - &seen.returns) / SPREAD;
                0.5 * errors.square().mean(..) - gain.mean(..) - 0.01 * policy.entropy().mean(..)
            };
            optimizer.minimize(&agent, &mut loss);
        }
        let time = carts.mean_time();
        best = best.max(time);
        if update % 10 == 9 {
            println!(
                "{name:9}  update {:3}: the last poles stood {time:5.1} steps",
                update + 1
            );
        }
        if best > 0.95 * LONGEST as f64 {
            break;
        }
    }
    println!(
        "{name:9}  best mean of {} poles: {best:.1} of {LONGEST} steps",
        2 * CARTS
    );
    best
}

fn main() {
    let reinforce = learn("REINFORCE", 120, false);
    let proximal = learn("PPO", 60, true);
    assert!(reinforce > 150.0, "REINFORCE has not learnt to balance");
    assert!(proximal > 300.0, "PPO has not learnt to balance");
}
