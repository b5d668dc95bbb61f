//! The loss of a trainer as programs.

use std::fmt;

use bibun_array::{Array, Generator};

use super::report::{Report, Reported, Step};
use super::train_step::expect_number;
use crate::apply::apply;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic, no_rule};
use crate::transformations;
use crate::tree::{Mapper, Tree, Visitor};
use crate::variable::Variable;

/// The programs that a [compiled](super::Trainer::compiled) trainer runs: those of a loss and its gradient.
pub struct LossPrograms<M, B>(Box<dyn Run<M, B>>);

/// Programs for arguments of these types. It hides that they are Trees.
trait Run<M, B> {
    /// Runs the program of `f`, or returns `None` where the function itself has to run. `examples` is the
    /// number of examples in the batch.
    fn run(
        &mut self,
        model: &M,
        batch: &B,
        examples: usize,
        f: &dyn Fn(&M, &B) -> Outcome,
    ) -> Option<(Outcome, Vec<(Variable, Variable)>)>;

    fn traces(&self) -> usize;
}

impl<M: Tree, B: Tree> Run<M, B> for transformations::LossPrograms<(M, B, usize)> {
    fn run(
        &mut self,
        model: &M,
        batch: &B,
        examples: usize,
        f: &dyn Fn(&M, &B) -> Outcome,
    ) -> Option<(Outcome, Vec<(Variable, Variable)>)> {
        let mut same = |x: &Variable, _| x.clone();
        let mapper = &mut Mapper::new(&mut same);
        let argument = (model.map(mapper), batch.map(mapper), examples);
        self.run(&argument, |(model, batch, _)| f(model, batch))
    }

    fn traces(&self) -> usize {
        self.traces()
    }
}

impl<M, B> LossPrograms<M, B> {
    pub(super) fn new() -> Self
    where
        M: Tree + 'static,
        B: Tree + 'static,
    {
        Self(Box::new(
            transformations::LossPrograms::<(M, B, usize)>::new(),
        ))
    }

    pub(super) fn traces(&self) -> usize {
        self.0.traces()
    }

    /// Computes a loss whose gradient is known, and makes its reports; or returns `None` where the function
    /// itself has to run.
    pub(super) fn run(
        &mut self,
        model: &M,
        batch: &B,
        step: &mut Step<'_>,
        loss: &dyn Fn(&M, &B, &mut Step<'_>) -> Variable,
    ) -> Option<Variable> {
        let (examples, weight) = (step.examples, step.weight);
        let clock = step.clock;
        let outcome = |model: &M, batch: &B| {
            let mut traced = Step {
                report: &mut Report::default(),
                random: Generator::new(0),
                clock,
                examples,
                weight,
                share: step.share,
                look: None,
                traced: Some(Vec::new()),
            };
            let loss = loss(model, batch, &mut traced);
            expect_number(&loss);
            Outcome {
                loss,
                weight: traced.weight,
                reported: traced.traced.unwrap_or_default(),
            }
        };
        let (outcome, gradients) = self.0.run(model, batch, examples, &outcome)?;
        step.add_all(&outcome.reported);
        step.weight = outcome.weight;
        let (parameters, gradients): (Vec<Variable>, Vec<Variable>) = gradients.into_iter().unzip();
        let known = Known {
            loss: outcome.loss.array(),
            gradients: gradients.iter().map(Variable::array).collect(),
        };
        apply(known, parameters).pop()
    }
}

impl<M, B> fmt::Debug for LossPrograms<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossPrograms")
            .field("traces", &self.traces())
            .finish()
    }
}

/// A loss, and what else it leaves behind.
struct Outcome {
    loss: Variable,
    reported: Vec<Reported>,
    /// The weight of the loss in the report.
    weight: f64,
}

impl Tree for Outcome {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("loss", &self.loss);
        visitor.child("reported", &self.reported);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        Self {
            loss: self.loss.map(mapper),
            reported: self.reported.map(mapper),
            weight: self.weight,
        }
    }
}

/// A loss as a function of parameters, whose gradient has been computed with it.
#[derive(Clone, Debug)]
struct Known {
    loss: Array,
    gradients: Vec<Array>,
}

impl Function for Known {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "compiled loss"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, _: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        Ok(vec![Spec::new(self.loss.shape(), self.loss.dtype())])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, _: Vec<Array>) -> Vec<Array> {
        vec![self.loss.clone()]
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        let scaled = |gradient: &Array| {
            let gradient = Variable::constant(gradient);
            match gy[0].plain_array().and_then(|gy| gy.known_item()) {
                Some(1.0) => gradient,
                _ => gradient * gy[0].reshape(()),
            }
        };
        let each = self.gradients.iter().enumerate();
        each.map(|(i, gradient)| cx.needs(i).then(|| scaled(gradient)))
            .collect()
    }

    fn jvp(&self, _: &Context<'_>, _: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        no_rule(
            "compiled loss",
            "jvp",
            "a trainer differentiates it backwards",
        )
    }

    fn batch(&self, _: Vec<Batched>) -> Vec<Batched> {
        no_rule(
            "compiled loss",
            "batch",
            "a trainer makes one step at a time",
        )
    }

    fn per_example(
        &self,
        _: &Context<'_>,
        _: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        let advice = "a trainer asks for the gradient of the whole batch";
        no_rule("compiled loss", "per_example", advice)
    }
}
