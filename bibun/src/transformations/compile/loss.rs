//! Programs of a loss and its gradient, for a caller who has the function at hand in every call: it may
//! borrow, and needs not be shared with other threads.

use super::super::derived::watched;
use super::super::running::followed;
use super::back::Back;
use super::function::{Signature, Traced, note_terms, plain_arrays, trace};
use super::structure::Structure;
use super::{Argument, STRUCTURES, is_attended, noted, result};
use crate::functions::ones_like;
use crate::surroundings::Scopes;
use crate::tree::Tree;
use crate::variable::Variable;

/// The programs of a loss and its gradient.
pub(crate) struct LossPrograms<A> {
    /// Those for each structure of an argument, the latest last.
    known: Vec<Known<A>>,
    traces: usize,
}

/// The programs for one structure.
struct Known<A> {
    structure: Structure,
    argument: Argument<A>,
    /// Each with the inputs that have a gradient.
    programs: Vec<(Vec<bool>, Traced)>,
}

/// A result, and the gradient of the loss by each leaf of the argument for which there is one.
pub(crate) type WithGradients<Y> = (Y, Vec<(Variable, Variable)>);

impl<A: Tree> LossPrograms<A> {
    pub(crate) fn new() -> Self {
        let known = Vec::new();
        Self { known, traces: 0 }
    }

    /// The number of traces so far.
    pub(crate) fn traces(&self) -> usize {
        self.traces
    }

    /// Runs the program of `f`, whose first leaf is the loss, and of its gradient; or returns `None` where
    /// the function itself has to run.
    #[track_caller]
    pub(crate) fn run<Y: Tree + Send + 'static>(
        &mut self,
        x: &A,
        f: impl Fn(&A) -> Y,
    ) -> Option<WithGradients<Y>> {
        if is_attended() {
            return None;
        }
        let mut found = self.known.iter().enumerate().rev();
        let found = found.find_map(|(i, known)| Some((i, known.structure.inputs(x)?)));
        let (at, inputs) = found.unwrap_or_else(|| {
            let (structure, inputs, argument) = Argument::of(x);
            if self.known.len() == STRUCTURES {
                self.known.remove(0);
            }
            self.known.push(Known {
                structure,
                argument,
                programs: Vec::new(),
            });
            (self.known.len() - 1, inputs)
        });
        let arrays = plain_arrays(&inputs)?;
        let asked: Vec<bool> = inputs.iter().map(Variable::has_history).collect();
        let Known {
            argument, programs, ..
        } = &mut self.known[at];
        let mut fitting = programs.iter();
        let fits = |(own, traced): &(Vec<bool>, Traced)| *own == asked && traced.fits(&arrays, &[]);
        let program = fitting.position(fits).unwrap_or_else(|| {
            let forward = |inputs: &[Variable]| {
                let (inputs, targets) = watched(inputs, |i| asked[i]);
                let outputs = followed(&inputs, || noted(&f(&argument.with(&inputs))));
                let mut cotangents = vec![None; outputs.len()];
                cotangents[0] = Some(ones_like(&outputs[0]));
                let edges = outputs.iter().map(Variable::edge).collect();
                let back = Back::whole(asked.clone());
                let (gx, terms) = back.walk(edges, &targets, cotangents, false);
                note_terms(terms);
                outputs.into_iter().chain(gx).collect()
            };
            let signature = Signature::of(&arrays, &[]);
            let traced = trace(&forward, &arrays, &Scopes::current(), signature, false);
            self.traces += 1;
            if programs.len() == STRUCTURES {
                programs.remove(0);
            }
            programs.push((asked.clone(), traced));
            programs.len() - 1
        });
        let traced = &programs[program].1;
        let mut outputs = traced.run(&arrays);
        let terms = traced.notes.terms.as_ref().expect("it was traced");
        let present = || terms.iter().map(|terms| !terms.is_empty());
        let count = present().filter(|present| *present).count();
        let gradients = outputs.split_off(outputs.len() - count);
        let outputs = outputs.into_iter().map(Variable::constant);
        let leaves = inputs.into_iter().zip(&asked).filter(|(_, asked)| **asked);
        let leaves = leaves.zip(present()).filter(|(_, present)| *present);
        let gradients = gradients.into_iter().map(Variable::constant);
        let pairs = leaves.map(|((leaf, _), _)| leaf).zip(gradients).collect();
        Some((result(outputs, traced.notes.form.as_ref()), pairs))
    }
}
