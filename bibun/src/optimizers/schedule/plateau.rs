//! A learning rate that is reduced when a metric stops improving.

use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError, Stateful};

/// A reduction of the learning rate of an optimizer: multiplies it by `factor` when a metric has not
/// improved for more than `patience` observations in a row.
///
/// A metric has improved if it is below the best one so far, `b`, by more than `threshold · |b|`
/// (above it, with [`largest`](Self::largest)); NaN never counts as better. As in PyTorch,
/// `patience` bad observations are tolerated and the next one reduces. Unlike in PyTorch, the
/// threshold has the right sign for a negative `b` too.
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
    /// The best metric so far, negated if the largest is the best.
    best: f64,
    /// The number of bad observations since then.
    bad: u64,
    /// The number of coming observations that are not counted as bad.
    cooling: u64,
}

impl ReduceOnPlateau {
    /// Creates the schedule with the factor, commonly 0.1, a patience of 10 observations, a
    /// threshold of `10⁻⁴`, no cooldown and no minimum.
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

    /// Sets the number of tolerated observations without improvement. Defaults to 10.
    #[must_use]
    pub fn patience(mut self, observations: u64) -> Self {
        self.patience = observations;
        self
    }

    /// Sets the fraction of the best metric by which the next one must be better. Defaults to
    /// `10⁻⁴`.
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// Sets the number of observations after a reduction that are not counted as bad. Defaults to
    /// 0.
    #[must_use]
    pub fn cooldown(mut self, observations: u64) -> Self {
        self.cooldown = observations;
        self
    }

    /// Sets a base learning rate below which there is no reduction. Defaults to 0.
    #[must_use]
    pub fn minimum(mut self, learning_rate: f64) -> Self {
        self.minimum = learning_rate;
        self
    }

    /// Treats the largest metric as the best, for an accuracy for example.
    #[must_use]
    pub fn largest(mut self) -> Self {
        self.sign = -1.0;
        self
    }

    /// Observes a metric, and returns whether it reduced the base learning rate of the optimizer.
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
