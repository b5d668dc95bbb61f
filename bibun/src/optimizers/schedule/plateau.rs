//! A learning rate that becomes smaller when nothing becomes better.

use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError, Stateful};

/// Multiplies the learning rate of an optimizer by `factor` when a metric has not become better for
/// more than `patience` observations one after the other.
///
/// A metric is better if it is below the best one so far, `b`, by more than `threshold · |b|`
/// (above it, with [`largest`](Self::largest)); NaN never is. As in PyTorch, `patience` bad
/// observations are borne and the next one reduces; unlike there, the threshold has the right sign
/// for a negative `b` too.
///
/// ```
/// use bibun::optimizers::schedule::ReduceOnPlateau;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let mut optimizer = Sgd::new(1.0);
/// let mut plateau = ReduceOnPlateau::new(0.5).patience(1);
/// for loss in [3.0, 2.0, 2.5, 2.1] {
///     plateau.observe(loss, &mut optimizer);
/// }
/// assert_eq!(optimizer.learning_rate(), 0.5);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReduceOnPlateau {
    factor: f64,
    patience: u64,
    threshold: f64,
    cooldown: u64,
    minimum: f64,
    sign: f64,
    /// The best metric so far, with its sign turned if the largest is the best.
    best: f64,
    /// Observations since then.
    bad: u64,
    /// Observations that will not be counted as bad.
    cooling: u64,
}

impl ReduceOnPlateau {
    /// With the factor, commonly 0.1, and a patience of 10 observations, a threshold of `10⁻⁴`, no
    /// cooldown and no minimum.
    pub fn new(factor: f64) -> Self {
        Self {
            factor,
            patience: 10,
            threshold: 1e-4,
            cooldown: 0,
            minimum: 0.0,
            sign: 1.0,
            best: f64::INFINITY,
            bad: 0,
            cooling: 0,
        }
    }

    /// With another number of observations without progress that are borne.
    #[must_use]
    pub fn patience(mut self, observations: u64) -> Self {
        self.patience = observations;
        self
    }

    /// With another part of the best metric by which the next one must be better.
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// With a number of observations after a reduction in which none is counted as bad.
    #[must_use]
    pub fn cooldown(mut self, observations: u64) -> Self {
        self.cooldown = observations;
        self
    }

    /// With a base learning rate below which it is not reduced.
    #[must_use]
    pub fn minimum(mut self, learning_rate: f64) -> Self {
        self.minimum = learning_rate;
        self
    }

    /// For a metric of which the largest is the best, an accuracy say.
    #[must_use]
    pub fn largest(mut self) -> Self {
        self.sign = -1.0;
        self
    }

    /// Looks at a metric, and tells whether it reduced the base learning rate of the optimizer.
    pub fn observe(&mut self, metric: f64, optimizer: &mut dyn Optimizer) -> bool {
        let metric = self.sign * metric;
        let is_first = self.best == f64::INFINITY && metric < self.best;
        if is_first || metric < self.best - self.threshold * self.best.abs() {
            (self.best, self.bad) = (metric, 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.bad = 0;
        }
        if self.bad <= self.patience {
            return false;
        }
        (self.cooling, self.bad) = (self.cooldown, 0);
        let before = optimizer.base_learning_rate();
        let after = (before * self.factor).max(self.minimum).min(before);
        optimizer.set_learning_rate(after);
        after < before
    }
}

impl Stateful for ReduceOnPlateau {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert("best", self.sign * self.best);
        state.insert("bad", self.bad);
        state.insert("cooling", self.cooling);
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let best = state.number("best")?;
        let (bad, cooling) = (state.count("bad")?, state.count("cooling")?);
        (self.best, self.bad, self.cooling) = (self.sign * best, bad, cooling);
        Ok(())
    }
}
