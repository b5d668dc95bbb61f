//! Eve: Adam with a learning rate that follows the changes of the loss.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::adam::{AdamRule, moments};
use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;
use super::settings::{Range, check};

/// Eve: [`Adam`](super::Adam) with its learning rate divided by `d`, a running average of the
/// change of the loss `f` from one step to the next, relative to its distance from the least loss,
/// `f*`. At step t, starting from `d = 1` at the first:
///
/// ```text
/// d ← β₃ d + (1 - β₃) clip(|fₜ - fₜ₋₁| / (min(fₜ, fₜ₋₁) - f*), 1/c, c)
/// w ← w - η/d m̂ / (√v̂ + ε)
/// ```
///
/// The loss is known in [`minimize`](super::Optimizer::minimize) only; a call of
/// [`update`](super::Optimizer::update) alone does not change `d`. A quotient that is NaN, because
/// the loss stays at `f*`, counts as `1/c`, and so does a negative one.
///
/// Source: Hayashi, Koushik, Neubig, "Eve: a gradient based optimization method with locally and
/// globally adaptive learning rates", arXiv:1611.01505, version 3, algorithm 1 (earlier versions
/// have another formula, with thresholds k and K).
///
/// ```
/// use bibun::optimizers::{Eve, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new(5.0);
/// let mut optimizer = Eve::new(0.1);
/// for _ in 0..1000 {
///     optimizer.minimize(&w, &mut || (&w - 3.0).square());
/// }
/// assert!((w.item::<f64>() - 3.0).abs() < 1e-4);
/// ```
pub type Eve = RuleOptimizer<EveRule, 2, 9>;

impl Eve {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`,
    /// `β₃ = 0.999`, `c = 10`, `ε = 10⁻⁸`, `f* = 0`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, EveRule::default())
    }
}

rule! {
    EveRule of Eve {
        betas(first: 0.9, second: 0.999, third: 0.999) in Fraction: "decay rates β₁ and β₂ of the moments and β₃ of `d`";
        bound(10.0) in AtLeastOne: "bound c of the relative change";
        epsilon(1e-8) in NotNegative: "number ε added to the root";
        least(0.0) in Finite: "least possible loss f*";
    }
    /// The running average d.
    average = 1.0;
    /// The loss of the previous step; NaN before the first.
    last = f64::NAN;
}

impl UpdateRule<2, 9> for EveRule {
    const NAME: &'static str = "Eve";
    const STATE: [&'static str; 2] = ["m", "v"];
    const OBSERVES: bool = true;

    fn check(&self) -> Result<(), String> {
        self.check_options()?;
        check("running average `d`", self.average, Range::Positive)
    }

    fn given(&self, step: &ParameterStep) -> [Given; 9] {
        let ([first, second, _], rate) = (self.betas, step.learning_rate / self.average);
        moments([first, second], self.epsilon, step.number, [rate, 0.0]).map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; 2],
        given: [Number<T>; 9],
    ) -> (Number<T>, [Number<T>; 2]) {
        AdamRule::element(w, gw, state, given)
    }

    fn observe(&mut self, loss: f64) {
        let last = std::mem::replace(&mut self.last, loss);
        if last.is_nan() {
            return;
        }
        let change = (loss - last).abs() / (loss.min(last) - self.least);
        // In this order, a quotient that is NaN becomes the lower bound.
        let change = change.max(1.0 / self.bound).min(self.bound);
        self.average = self.betas[2] * self.average + (1.0 - self.betas[2]) * change;
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![("d", &mut self.average), ("loss", &mut self.last)]
    }
}
