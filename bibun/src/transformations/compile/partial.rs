//! Calls whose gradient may be asked for. The function and its pullback are one recording, which is cut
//! where the cotangents come in: the first program also returns the values that the second one needs.

use std::sync::{Arc, Mutex};

use bibun_array::{Array, Cut, Draws, Tracer};

use super::super::custom::watched;
use super::function::{Core, InputSpec, Signature, Trace, Traced, noting, present, record, spec};
use crate::error::attempt;
use crate::functions::ones_like;
use crate::locks::lock;
use crate::node::Edge;
use crate::reverse::Paths;
use crate::scope;
use crate::surroundings::{self, Scopes};
use crate::variable::Variable;

/// The number of pullbacks that are kept, for cotangents of different shapes or orders in memory.
const PULLBACKS: usize = 8;

/// A function that was traced for a gradient by some of its inputs.
pub(super) struct Differentiable {
    /// The inputs that have history.
    pub(super) wanted: Vec<bool>,
    /// The program of the results and of what `after` describes.
    pub(super) traced: Traced,
    /// The number of results.
    pub(super) results: usize,
    /// The results that depend on no input that has history.
    pub(super) constant: Vec<bool>,
    pub(super) after: After,
}

/// What the first program returns behind the results.
pub(super) enum After {
    /// The gradient of a single number, by the wanted inputs that have one.
    Gradient(Vec<bool>),
    /// The values that pullbacks are computed from.
    Kept(Box<Pullback>),
    /// Nothing, because the pullback cannot be cut off: it reads something else, or is refused.
    Nothing,
}

/// The part of a recording behind the cut.
pub(super) struct Pullback {
    tracer: Tracer,
    cut: Cut,
    scopes: Scopes,
    /// The traced results and inputs.
    outputs: Vec<Edge>,
    inputs: Vec<Edge>,
    /// The traced values that are kept.
    kept: Vec<Array>,
    programs: Mutex<Vec<Arc<Pulled>>>,
}

/// A pullback for cotangents of some shapes.
pub(super) struct Pulled {
    needs: Vec<bool>,
    cotangents: Vec<InputSpec>,
    /// The program, and the wanted inputs that have a gradient; `None` if it takes more than what is kept.
    program: Option<(Traced, Vec<bool>)>,
}

impl Differentiable {
    pub(super) fn trace(
        core: &Core,
        wanted: &[bool],
        inputs: &[Array],
        scopes: &Scopes,
        signature: Signature,
    ) -> Self {
        let Trace {
            tracer,
            result: (outputs, edges, targets),
            found,
            notes,
            cut,
            after: gradient,
        } = record(
            inputs,
            scopes,
            |x| {
                let (x, targets) = watched(x, |i| wanted[i]);
                let outputs = scope::recording(true, || core.compute(&x));
                let edges: Vec<Edge> = outputs.iter().map(Variable::edge).collect();
                (outputs, edges, targets)
            },
            |(outputs, edges, targets)| {
                let [y] = &outputs[..] else { return None };
                let is_single = y.size() == 1 && y.dtype().is_float();
                let seed = is_single.then(|| vec![Some(ones_like(y))])?;
                let paths = Paths::between(edges.clone(), targets.clone());
                attempt(|| paths.pull_back(seed, false)).ok()
            },
        );
        let results: Vec<Array> = outputs.iter().map(Variable::array).collect();
        let constant = outputs.iter().map(|y| !y.has_history()).collect();
        let (changed, contents) = found
            .changed
            .into_iter()
            .unzip::<_, Variable, Vec<_>, Vec<_>>();
        let contents: Vec<Array> = contents.iter().map(Variable::array).collect();
        let traced = |program| Traced::new(signature, program, notes, found.captured, changed);
        let wanted = wanted.to_vec();
        if let Some(gradient) = gradient {
            let (present, gradient) = present(gradient, &wanted);
            let gradient: Vec<Array> = gradient.iter().map(Variable::array).collect();
            let outputs = [&results[..], &gradient, &contents].concat();
            return Self {
                wanted,
                results: results.len(),
                constant,
                traced: traced(tracer.finish(&outputs)),
                after: After::Gradient(present),
            };
        }
        let mut pullback = Pullback {
            tracer,
            cut,
            scopes: scopes.clone(),
            outputs: edges,
            inputs: targets,
            kept: Vec::new(),
            programs: Mutex::default(),
        };
        // Cotangents are mostly in row-major order. Those that are not lead to another pullback from
        // the same values.
        let cotangents = results.iter().map(|y| {
            let cotangent = pullback.tracer.row_major_input(y.shape(), y.dtype());
            Variable::constant(cotangent)
        });
        let cotangents = cotangents.collect();
        let gradient = attempt(|| pullback.pull(&wanted, cotangents))
            .ok()
            .flatten();
        let after = gradient.map(|gradient| -> Vec<Array> {
            let (_, gradient) = present(gradient, &wanted);
            gradient.iter().map(Variable::array).collect()
        });
        if let Some(gradient) = &after {
            pullback.kept = pullback.cut.kept(gradient);
        }
        let outputs = [&results[..], &pullback.kept, &contents].concat();
        Self {
            wanted,
            results: results.len(),
            constant,
            traced: traced(pullback.cut.first(&outputs)),
            after: match after {
                Some(_) => After::Kept(Box::new(pullback)),
                None => After::Nothing,
            },
        }
    }
}

impl Pullback {
    /// The traced gradient by the inputs that need one, or `None` if it reads something else than what the
    /// function computed.
    fn pull(&self, needs: &[bool], cotangents: Vec<Variable>) -> Option<Vec<Option<Variable>>> {
        let inputs = self
            .inputs
            .iter()
            .zip(needs)
            .map(|(edge, needed)| match needed {
                true => edge.clone(),
                false => Edge::None,
            });
        let paths = Paths::between(self.outputs.clone(), inputs.collect());
        let cotangents = cotangents.into_iter().map(Some).collect();
        let pull = || paths.pull_back(cotangents, false);
        let pull = || self.scopes.run(|| scope::sealed("compile", pull));
        let tracer = self.tracer.clone();
        let lift = move |x: &Array| tracer.row_major_input(x.shape(), x.dtype());
        let pull = || Draws::record(|| self.tracer.run(|| surroundings::lifting(lift, pull)));
        let (((gradient, found), draws), _) = noting(pull);
        let is_alone = found.captured.is_empty() && found.changed.is_empty();
        (is_alone && draws == Draws::default()).then_some(gradient)
    }

    /// The program for these cotangents, which is traced if there is none, and the inputs that have a
    /// gradient.
    pub(super) fn program(&self, core: &Core, needs: &[bool], cotangents: &[Array]) -> Arc<Pulled> {
        let specs: Vec<InputSpec> = cotangents.iter().map(spec).collect();
        let is_it = |pulled: &&Arc<Pulled>| pulled.needs == needs && pulled.cotangents == specs;
        if let Some(known) = lock(&self.programs).iter().find(is_it) {
            return Arc::clone(known);
        }
        core.count_trace(&specs);
        let inputs = cotangents.iter().map(|g| self.tracer.input(g));
        let inputs: Vec<Array> = inputs.collect();
        let variables = inputs.iter().cloned().map(Variable::constant).collect();
        let program = self.pull(needs, variables).and_then(|gradient| {
            let (present, gradient) = present(gradient, needs);
            let gradient: Vec<Array> = gradient.iter().map(Variable::array).collect();
            let inputs = [&self.kept[..], &inputs].concat();
            let program = self.cut.rest(&inputs, &gradient)?;
            let signature = Signature::of(&[]);
            Some((Traced::of_program(signature, program), present))
        });
        let pulled = Arc::new(Pulled {
            needs: needs.to_vec(),
            cotangents: specs,
            program,
        });
        let mut programs = lock(&self.programs);
        if programs.len() == PULLBACKS {
            programs.remove(0);
        }
        programs.push(Arc::clone(&pulled));
        pulled
    }

    /// The pullback that was traced last.
    pub(super) fn latest(&self) -> Option<Arc<Pulled>> {
        lock(&self.programs).last().cloned()
    }
}

impl Pulled {
    pub(super) fn program(&self) -> Option<&(Traced, Vec<bool>)> {
        self.program.as_ref()
    }
}
