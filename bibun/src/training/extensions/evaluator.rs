//! Evaluation of the model on data that it does not learn from.

use std::fmt;

use bibun_array::Generator;

use crate::scope::{eval_mode, no_grad};
use crate::training::batch_source::BatchSource;
use crate::training::report::Report;
use crate::training::{BoxError, Extension, Session, Step, Trigger};
use crate::variable::Variable;

/// An extension that passes over other data once, in evaluation mode and without history. It
/// reports the values that the function reports and its loss, with the name of the evaluator as a
/// prefix: `test/loss`, `test/accuracy`.
///
/// The function may be the same as in training. Means are over all examples. The random numbers of
/// a batch are the same in each evaluation. If a value of this name was reported in the same step, by another
/// evaluator for example, the training ends with an error.
pub struct Evaluator<S, F> {
    name: String,
    source: S,
    loss: F,
    trigger: Trigger,
}

impl<S: BatchSource, F> Evaluator<S, F> {
    /// Creates an evaluator that runs after each epoch.
    pub fn new<M>(name: impl Into<String>, source: S, loss: F) -> Self
    where
        F: Fn(&M, &S::Batch, &mut Step<'_>) -> Variable,
    {
        Self {
            name: name.into(),
            source,
            loss,
            trigger: Trigger::Epochs(1.0),
        }
    }

    /// Sets when to evaluate. Defaults to every epoch.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[must_use]
    #[track_caller]
    pub fn every(mut self, trigger: Trigger) -> Self {
        trigger.expect("every");
        self.trigger = trigger;
        self
    }
}

impl<S, F> fmt::Debug for Evaluator<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator")
            .field("name", &self.name)
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

impl<M, S, F> Extension<M> for Evaluator<S, F>
where
    S: BatchSource,
    F: Fn(&M, &S::Batch, &mut Step<'_>) -> Variable,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let mut whole = Report::default();
        for (i, batch) in self.source.once().enumerate() {
            let (batch, examples) = batch?;
            let mut report = Report::default();
            let mut step = Step {
                report: &mut report,
                random: Generator::new(0).split(i as u64),
                clock: session.clock,
                examples,
                weight: examples as f64,
                share: 1.0,
                look: None,
                traced: None,
            };
            let loss = eval_mode(|| no_grad(|| (self.loss)(session.model(), &batch, &mut step)));
            if step.report.get("loss").is_some() {
                let name = &self.name;
                return Err(format!(
                    "the evaluator `{name}` reports what its function returns as `loss`; use another name"
                )
                .into());
            }
            step.report("loss", loss.item());
            whole.merge(&report);
        }
        match session.report().merge_part(&self.name, &whole) {
            Ok(()) => Ok(()),
            Err(name) => Err(format!(
                "`{name}` was reported before the evaluator `{}` did; give evaluators different names",
                self.name
            )
            .into()),
        }
    }
}
