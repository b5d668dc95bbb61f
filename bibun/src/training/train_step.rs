//! One step of training.

use std::fmt;

use super::error::TrainingError;
use super::report::Step;
use crate::error::{Error, attempt, raise};
use crate::hooks::detect_anomaly;
use crate::links::Chain;
use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError, Stateful};
use crate::surroundings::Surroundings;
use crate::variable::Variable;

/// What a step of training does with a batch. [`GradientStep`] is what most training is; two models
/// against each other, or several optimizers, are an `TrainStep` of one's own.
pub trait TrainStep<M, B>: Stateful {
    /// Learns from a batch.
    ///
    /// # Errors
    /// Returns an error if the loss is not finite; then nothing has been learnt.
    fn update(&mut self, model: &M, batch: &B, step: &mut Step<'_>) -> Result<(), TrainingError>;

    /// The optimizer, or the one to which schedules and the log refer.
    fn optimizer(&mut self) -> &mut dyn Optimizer;
}

/// One loss that one optimizer makes smaller.
pub struct GradientStep<F> {
    optimizer: Box<dyn Optimizer>,
    loss: F,
}

impl<F> GradientStep<F> {
    /// By an optimizer, with the loss as a function of model and batch.
    pub fn new(optimizer: impl Optimizer + 'static, loss: F) -> Self {
        let optimizer = Box::new(optimizer);
        Self { optimizer, loss }
    }
}

impl<F> fmt::Debug for GradientStep<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GradientStep")
            .field("optimizer", &self.optimizer)
            .finish_non_exhaustive()
    }
}

impl<F> Stateful for GradientStep<F> {
    fn state(&self) -> State {
        self.optimizer.state()
    }
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.optimizer.load_state(state)
    }
}

impl<M, B, F> TrainStep<M, B> for GradientStep<F>
where
    M: Chain,
    F: Fn(&M, &B, &mut Step<'_>) -> Variable,
{
    /// One step of the optimizer; tells `loss`.
    fn update(&mut self, model: &M, batch: &B, step: &mut Step<'_>) -> Result<(), TrainingError> {
        let Self { optimizer, loss } = self;
        let random = step.random.clone();
        let mut not_finite = None;
        let mut objective = || {
            // An optimizer may look at the loss several times; the last one counts.
            step.report.clear();
            step.random = random.clone();
            let (value, seen) = Surroundings::record(|| loss(model, batch, step));
            if value.size() != 1 {
                let what = format!(
                    "the loss is {}, expected one number, such as a mean",
                    value.spec()
                );
                raise(Error::argument("GradientStep", what));
            }
            step.show(&value);
            if let Some(found) = unusual(&value) {
                let again = || detect_anomaly(|| drop(loss(model, batch, step)));
                not_finite = Some((found, attempt(|| seen.again(again)).err()));
                // Nothing may be learnt from this loss.
                raise(Error::argument("GradientStep", "the loss is not finite"));
            }
            step.report("loss", value.item());
            value
        };
        let updated = attempt(|| drop(optimizer.minimize(model, &mut objective)));
        match (updated, not_finite) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some((value, anomaly))) => Err(TrainingError::NotFinite {
                iteration: step.clock.iteration + 1,
                what: "the loss".to_owned(),
                value,
                anomaly: anomaly.map(Box::new),
            }),
            (Err(error), None) => raise(error),
        }
    }

    fn optimizer(&mut self) -> &mut dyn Optimizer {
        &mut *self.optimizer
    }
}

/// The loss, if it is not finite.
fn unusual(loss: &Variable) -> Option<f64> {
    Some(loss.item::<f64>()).filter(|value| !value.is_finite())
}
