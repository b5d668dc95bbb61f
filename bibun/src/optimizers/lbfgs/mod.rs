//! L-BFGS: steps by the curvature estimated from the last gradients.

mod line_search;
mod vectors;

use std::collections::VecDeque;
use std::thread;

use bibun_array::Array;
use indexmap::IndexMap;

use self::line_search::{Trial, strong_wolfe};
use self::vectors::{Parts, dot};
use super::settings::{RULE, Range, check_rule, expect, expect_learning_rate, learning_rate_of};
use super::slots::expect_loaded;
use super::{Optimizer, check_trainable, evaluate};
use crate::call::calling;
use crate::links::{Chain, for_each_parameter};
use crate::serializers::{State, StateError, Stateful};
use crate::variable::Variable;

/// L-BFGS: steps along `-H ∇f`, where H is an approximation of the inverse Hessian from the last
/// pairs of steps and changes of the gradient. It is for losses that give the same value when they
/// are evaluated again: full batches, fits, small problems.
///
/// Use it through [`minimize`](Optimizer::minimize), which makes up to
/// [`iterations`](Self::iterations) iterations, until no element of the gradient is larger than the
/// [`tolerance`](Self::tolerance). Each iteration has a line search for the strong Wolfe conditions
/// (`c₁ = 10⁻⁴`, `c₂ = 0.9`) that begins at the learning rate and evaluates the loss once or more.
/// If the loss is not finite at the beginning, nothing is changed. [`update`](Optimizer::update)
/// alone makes a step of the learning rate times the direction. The very first direction is the
/// negative gradient, shortened if the sum of its elements' absolute values is over 1.
///
/// All parameters that have a gradient and are not frozen are treated as one vector, of `f64`. If
/// the set of these parameters changes, the history starts anew. There are no groups, hooks or
/// schedules, because they would make the gradient differ from that of the loss; add penalties to
/// the loss instead.
///
/// Its state has `rule`, `steps`, `learning_rate`, the number of `pairs`, whether there is a `last` point
/// of an `update` alone, and for each parameter the pairs, `parameters/l1/weight/s0`,
/// `parameters/l1/weight/y0` and so on from the oldest, and that point and its gradient,
/// `parameters/l1/weight/w` and `parameters/l1/weight/g`.
///
/// Source: Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; Nocedal, Wright,
/// "Numerical optimization", 2nd edition, 2006, algorithms 7.4, 7.5, 3.5 and 3.6.
///
/// ```
/// use bibun::optimizers::{Lbfgs, Optimizer};
/// use bibun::Variable;
/// let (x, y) = (Variable::new(-1.2), Variable::new(1.0));
/// let mut rosenbrock = || (1.0 - &x).square() + 100.0 * (&y - x.square()).square();
/// Lbfgs::new(1.0).iterations(100).minimize(&(x.clone(), y.clone()), &mut rosenbrock);
/// assert!((x.item::<f64>() - 1.0).abs() < 1e-8);
/// assert!((y.item::<f64>() - 1.0).abs() < 1e-8);
/// ```
#[derive(Debug)]
pub struct Lbfgs {
    learning_rate: f64,
    memory: usize,
    iterations: usize,
    tolerance: f64,
    steps: u64,
    parts: Parts,
    history: History,
    waiting: Option<Loaded>,
}

/// The known curvature.
#[derive(Clone, Default, Debug)]
struct History {
    /// The pairs, from the oldest.
    pairs: VecDeque<Pair>,
    /// The point from which the last `update` started, and the gradient there.
    last: Option<[Vec<f64>; 2]>,
}

/// A step and the change of the gradient over it.
#[derive(Clone, Debug)]
struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
}

/// A state that was loaded and has not been used yet.
#[derive(Debug)]
struct Loaded {
    pairs: usize,
    has_last: bool,
    /// The arrays of each parameter: `s0, y0, s1, y1, ..`, and `w, g` if there is a last point.
    arrays: IndexMap<String, Vec<Array>>,
}

impl Lbfgs {
    /// Creates the optimizer with the learning rate η, commonly 1, a memory of 10 pairs, 20
    /// iterations for each call of `minimize`, and a tolerance of `10⁻⁷`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        expect_learning_rate("new", learning_rate);
        Self {
            learning_rate,
            memory: 10,
            iterations: 20,
            tolerance: 1e-7,
            steps: 0,
            parts: Parts::default(),
            history: History::default(),
            waiting: None,
        }
    }

    /// Sets the number of pairs in memory. Defaults to 10.
    #[must_use]
    pub fn memory(mut self, pairs: usize) -> Self {
        self.memory = pairs;
        self
    }

    /// Sets the largest number of iterations in a call of `minimize`. Defaults to 20.
    #[must_use]
    pub fn iterations(mut self, iterations: usize) -> Self {
        self.iterations = iterations;
        self
    }

    /// Sets the size of the gradient's elements at which `minimize` stops. Defaults to `10⁻⁷`.
    ///
    /// # Panics
    /// Panics if it is negative or not finite.
    #[must_use]
    #[track_caller]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        expect("tolerance", "tolerance", tolerance, Range::NotNegative);
        self.tolerance = tolerance;
        self
    }

    /// Takes the parameters that have gradients now, with their history if they have one.
    #[track_caller]
    fn settle(&mut self, model: &dyn Chain) {
        let parts = Parts::of(model);
        if parts.are_same(&self.parts) && self.waiting.is_none() {
            return;
        }
        // What does not fit stays where it is.
        self.history = match &self.waiting {
            Some(loaded) => {
                let mut names = Vec::new();
                for_each_parameter(model, |name, _| names.push(name.to_owned()));
                let known = loaded.arrays.keys().map(String::as_str);
                expect_loaded("update", known, names.iter().map(String::as_str));
                match parts.have_names(&loaded.arrays) {
                    true => loaded.history(&parts),
                    false => History::default(),
                }
            }
            None => History::default(),
        };
        self.waiting = None;
        self.parts = parts;
    }
}

impl History {
    /// Adds the pair of two points, if the loss has positive curvature between them.
    fn remember(&mut self, from: [&[f64]; 2], to: [&[f64]; 2], memory: usize) {
        let difference = |i: usize| -> Vec<f64> {
            let pairs = to[i].iter().zip(from[i]);
            pairs.map(|(to, from)| to - from).collect()
        };
        let (s, y) = (difference(0), difference(1));
        if dot(&s, &y) > f64::EPSILON * dot(&y, &y) {
            self.pairs.push_back(Pair { s, y });
        }
        while self.pairs.len() > memory {
            self.pairs.pop_front();
        }
    }

    /// Computes `-H g` by two loops over the pairs; without pairs, `-g / max(1, Σ|g|)`.
    fn direction(&self, g: &[f64]) -> Vec<f64> {
        let Some(newest) = self.pairs.back() else {
            let size: f64 = g.iter().map(|g| g.abs()).sum();
            return g.iter().map(|g| -g / size.max(1.0)).collect();
        };
        let mut direction: Vec<f64> = g.iter().map(|g| -g).collect();
        let mut weights = Vec::with_capacity(self.pairs.len());
        for Pair { s, y } in self.pairs.iter().rev() {
            let weight = dot(s, &direction) / dot(s, y);
            add(&mut direction, -weight, y);
            weights.push(weight);
        }
        let scale = dot(&newest.s, &newest.y) / dot(&newest.y, &newest.y);
        direction.iter_mut().for_each(|d| *d *= scale);
        for (Pair { s, y }, weight) in self.pairs.iter().zip(weights.into_iter().rev()) {
            let back = dot(y, &direction) / dot(s, y);
            add(&mut direction, weight - back, s);
        }
        direction
    }
}

/// Gives parameters their old values if the objective fails at a trial.
struct PutBack<'a>(&'a Parts, &'a [f64]);

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set_values(self.1);
        }
    }
}

/// Computes `x + factor y` in place of x.
fn add(x: &mut [f64], factor: f64, y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += factor * y;
    }
}

impl Optimizer for Lbfgs {
    #[track_caller]
    fn update(&mut self, model: &dyn Chain) {
        let _called = calling("update");
        check_trainable("update", model);
        self.settle(model);
        let (mut w, gw) = (self.parts.values(), self.parts.gradients());
        if let Some([last_w, last_gw]) = self.history.last.take() {
            let memory = self.memory;
            self.history
                .remember([&last_w, &last_gw], [&w, &gw], memory);
        }
        let direction = self.history.direction(&gw);
        self.history.last = Some([w.clone(), gw]);
        add(&mut w, self.learning_rate, &direction);
        self.parts.set_values(&w);
        self.steps += 1;
    }

    #[track_caller]
    fn minimize(&mut self, model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
        let _called = calling("minimize");
        let loss = evaluate(model, objective);
        self.settle(model);
        self.history.last = None;
        self.steps += 1;
        let mut here = Trial {
            length: 0.0,
            loss: loss.item(),
            slope: 0.0,
            w: self.parts.values(),
            gw: self.parts.gradients(),
        };
        if !here.loss.is_finite() || self.learning_rate <= 0.0 {
            return loss;
        }
        for _ in 0..self.iterations {
            if here.gw.iter().all(|g| g.abs() <= self.tolerance) {
                break;
            }
            let direction = self.history.direction(&here.gw);
            (here.length, here.slope) = (0.0, dot(&here.gw, &direction));
            let mut at = |length: f64| {
                let mut w = here.w.clone();
                add(&mut w, length, &direction);
                let _back = PutBack(&self.parts, &here.w);
                self.parts.set_values(&w);
                let loss = evaluate(model, objective).item();
                let gw = self.parts.gradients();
                Trial {
                    length,
                    loss,
                    slope: dot(&gw, &direction),
                    // The actual values of the parameters, which f32 rounds.
                    w: self.parts.values(),
                    gw,
                }
            };
            let next = match here.slope < 0.0 {
                true => strong_wolfe(&here, self.learning_rate, &mut at),
                false => None,
            };
            match next {
                Some(next) => {
                    let memory = self.memory;
                    self.history
                        .remember([&here.w, &here.gw], [&next.w, &next.gw], memory);
                    here = next;
                }
                None if self.history.pairs.is_empty() => break,
                // The known curvature is misleading.
                None => self.history.pairs.clear(),
            }
        }
        self.parts.set_values(&here.w);
        loss
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn base_learning_rate(&self) -> f64 {
        self.learning_rate
    }

    #[track_caller]
    fn set_learning_rate(&mut self, learning_rate: f64) {
        expect_learning_rate("set_learning_rate", learning_rate);
        self.learning_rate = learning_rate;
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Its name in a state, as [`UpdateRule::NAME`](super::UpdateRule::NAME).
const NAME: &str = "Lbfgs";

impl Stateful for Lbfgs {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert(RULE, NAME);
        state.insert("steps", self.steps);
        state.insert("learning_rate", self.learning_rate);
        let (pairs, has_last, arrays) = match &self.waiting {
            Some(loaded) => (loaded.pairs, loaded.has_last, loaded.arrays.clone()),
            None => {
                let History { pairs, last } = &self.history;
                let vectors = pairs.iter().flat_map(|pair| [&pair.s, &pair.y]);
                let vectors: Vec<&[f64]> = vectors
                    .chain(last.iter().flatten())
                    .map(|vector| &vector[..])
                    .collect();
                (pairs.len(), last.is_some(), self.parts.split(&vectors))
            }
        };
        state.insert("pairs", pairs as u64);
        state.insert("last", has_last);
        let mut parameters = State::new();
        for (name, arrays) in arrays {
            for (part, array) in vector_names(pairs, has_last).zip(arrays) {
                parameters.insert(super::slots::within(&name, &part), array);
            }
        }
        state.insert_part("parameters", parameters);
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        check_rule(state, NAME)?;
        let steps = state.count("steps")?;
        let learning_rate = learning_rate_of(state)?;
        let (pairs, has_last) = (state.count("pairs")?, state.flag("last")?);
        let pairs = usize::try_from(pairs)
            .ok()
            .filter(|&pairs| pairs <= state.len())
            .ok_or_else(|| {
                StateError::wrong("pairs", format!("is {pairs}, more than there are"))
            })?;
        let arrays = self
            .parts
            .read(&state.part("parameters"), &|| vector_names(pairs, has_last))
            .map_err(|error| error.within("parameters"))?;
        let is_wanted = |name: &str| {
            [RULE, "steps", "learning_rate", "pairs", "last"].contains(&name)
                || name.starts_with("parameters/")
        };
        let unexpected = state.iter().map(|(name, _)| name.to_owned());
        StateError {
            unexpected: unexpected.filter(|name| !is_wanted(name)).collect(),
            ..StateError::default()
        }
        .or_ok()?;
        (self.steps, self.learning_rate) = (steps, learning_rate);
        self.waiting = Some(Loaded {
            pairs,
            has_last,
            arrays,
        });
        Ok(())
    }
}

/// Returns the names of the vectors of a history in a state.
fn vector_names(pairs: usize, has_last: bool) -> impl Iterator<Item = String> {
    let pairs = (0..pairs).flat_map(|i| [format!("s{i}"), format!("y{i}")]);
    let last = has_last.then(|| ["w", "g"].map(str::to_owned));
    pairs.chain(last.into_iter().flatten())
}

impl Loaded {
    /// Returns the history, with vectors joined from the arrays of these parameters.
    #[track_caller]
    fn history(&self, parts: &Parts) -> History {
        let mut vectors = parts
            .join(&self.arrays, || vector_names(self.pairs, self.has_last))
            .into_iter();
        let mut two = || Some([vectors.next()?, vectors.next()?]);
        let pairs = (0..self.pairs).map_while(|_| two().map(|[s, y]| Pair { s, y }));
        let pairs = pairs.collect();
        History { pairs, last: two() }
    }
}
