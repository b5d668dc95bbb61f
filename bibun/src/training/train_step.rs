//! One step of training.

use std::fmt;

use super::compiled::LossPrograms;
use super::error::{TrainingError, is_of_communication};
use super::report::Step;
use crate::error::{Error, attempt, raise};
use crate::hooks::detect_anomaly;
use crate::links::Chain;
use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError, Stateful};
use crate::surroundings::Surroundings;
use crate::variable::Variable;

/// The treatment of a batch in one train step. [`GradientStep`] suits most training; two models
/// trained against each other, or several optimizers, need a custom `TrainStep`.
pub trait TrainStep<M, B>: Stateful {
    /// Learns from a batch.
    ///
    /// # Errors
    /// Returns an error if the loss is not finite; the model has learned nothing then.
    fn update(&mut self, model: &M, batch: &B, step: &mut Step<'_>) -> Result<(), TrainingError>;

    /// Learns from a batch by programs, for a [compiled](super::Trainer::compiled) trainer. Defaults to an
    /// error, which says that this train step does not.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`update`](Self::update).
    ///
    /// # Panics
    /// Panics if the train step does not compile its loss.
    fn update_compiled(
        &mut self,
        model: &M,
        batch: &B,
        step: &mut Step<'_>,
        programs: &mut LossPrograms<M, B>,
    ) -> Result<(), TrainingError> {
        let _ = (model, batch, step, programs);
        let what =
            "this train step does not compile its loss; call a function made by `compile` in it";
        raise(Error::argument("compiled", what))
    }

    /// Returns the optimizer; if there are several, the one to which schedules and the log refer.
    fn optimizer(&mut self) -> &mut dyn Optimizer;
}

/// A train step in which one optimizer minimizes one loss.
pub struct GradientStep<F> {
    optimizer: Box<dyn Optimizer>,
    loss: F,
}

impl<F> GradientStep<F> {
    /// Creates a train step from an optimizer and a loss, which is a function of model and batch.
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
    /// Makes one step of the optimizer and reports `loss`.
    fn update(&mut self, model: &M, batch: &B, step: &mut Step<'_>) -> Result<(), TrainingError> {
        self.learn(model, batch, step, None)
    }

    fn update_compiled(
        &mut self,
        model: &M,
        batch: &B,
        step: &mut Step<'_>,
        programs: &mut LossPrograms<M, B>,
    ) -> Result<(), TrainingError> {
        self.learn(model, batch, step, Some(programs))
    }

    fn optimizer(&mut self) -> &mut dyn Optimizer {
        &mut *self.optimizer
    }
}

impl<F> GradientStep<F> {
    fn learn<M, B>(
        &mut self,
        model: &M,
        batch: &B,
        step: &mut Step<'_>,
        mut programs: Option<&mut LossPrograms<M, B>>,
    ) -> Result<(), TrainingError>
    where
        M: Chain,
        F: Fn(&M, &B, &mut Step<'_>) -> Variable,
    {
        let Self { optimizer, loss } = self;
        let random = step.random.clone();
        let mut not_finite = None;
        let mut objective = || {
            // An optimizer may evaluate the loss several times; the last evaluation is the one
            // reported.
            step.report.clear();
            step.random = random.clone();
            // A history to be drawn is that of the loss itself.
            let programs = programs.as_deref_mut().filter(|_| step.look.is_none());
            let (value, seen) = Surroundings::record(|| {
                let computed =
                    programs.and_then(|programs| programs.run(model, batch, step, &*loss));
                computed.unwrap_or_else(|| loss(model, batch, step))
            });
            expect_number(&value);
            step.show(&value);
            if let Some(found) = unusual(&value) {
                let again = || detect_anomaly(|| drop(loss(model, batch, step)));
                not_finite = Some((found, attempt(|| seen.again(again)).err()));
                // The model must not learn from this loss.
                raise(Error::argument("GradientStep", "the loss is not finite"));
            }
            if step.report.get("loss").is_some() {
                let what = "the trainer reports what the loss returns as `loss`; use another name";
                raise(Error::argument("report", what));
            }
            step.report("loss", value.item());
            match step.share {
                1.0 => value,
                share => value * share,
            }
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
            (Err(error), None) if is_of_communication(&error) => {
                Err(TrainingError::Communication(Box::new(error)))
            }
            (Err(error), None) => raise(error),
        }
    }
}

/// Checks that a loss is a single number.
pub(super) fn expect_number(loss: &Variable) {
    if loss.size() != 1 {
        let spec = loss.spec();
        let what = format!("the loss is {spec}, expected one number, such as a mean");
        raise(Error::argument("GradientStep", what));
    }
}

/// Returns the loss, if it is not finite.
fn unusual(loss: &Variable) -> Option<f64> {
    Some(loss.item::<f64>()).filter(|value| !value.is_finite())
}
