//! Calls whose gradient may be asked for. The function is one recording; the ways back from its results are
//! others, which go on from there. The first program also returns the values that they need.

use std::sync::Arc;

use bibun_array::{Array, Cut, Draws, Tracer, undrawn};
use rustc_hash::FxHashSet;

use super::super::derived::watched;
use super::super::running::followed;
use super::back::{Back, Term, Terms};
use super::function::{Core, InputSpec, Signature, Trace, Traced, noting, record, spec};
use super::programs::Programs;
use crate::error::attempt;
use crate::functions::ones_like;
use crate::node::Edge;
use crate::scope;
use crate::surroundings::{self, Scopes};
use crate::variable::Variable;

/// The number of ways back that are kept, for other examples and cotangents of other shapes or orders in
/// memory.
const PULLBACKS: usize = 8;

/// The number of orders of derivatives that add up their terms in the order of the function itself: inputs are as
/// many generations behind cotangents, and these behind cotangents of the next order, as if each derivative
/// had put Variables of its own in the place of inputs.
const ORDERS: usize = 4;

/// A function that was traced for a gradient by some of its inputs.
pub(super) struct Differentiable {
    /// The inputs that have history.
    pub(super) wanted: Vec<bool>,
    /// Whether a transformation around the call may ask for the gradient.
    pub(super) is_followed: bool,
    /// The program of the results, and behind them of the gradient, if it comes with them, or of the values
    /// that are kept.
    pub(super) traced: Traced,
    /// The number of results.
    pub(super) results: usize,
    /// The results that depend on no input that has history.
    pub(super) constant: Vec<bool>,
    /// The gradient of a single number, by the wanted inputs that have one, if it was asked for with it.
    pub(super) gradient: Option<Terms>,
    /// `None` if no way back can be cut off: it reads something else, or is refused.
    ways: Option<Ways>,
}

/// What ways back go on from.
struct Ways {
    /// The order of the derivatives that they compute.
    order: usize,
    cut: Cut,
    scopes: Scopes,
    /// The nodes and leaves that the function has made.
    made: FxHashSet<usize>,
    /// The traced results, and the inputs with history.
    outputs: Vec<Edge>,
    inputs: Vec<Edge>,
    /// The traced inputs of the program, and the values that are kept.
    given: Vec<Array>,
    kept: Vec<Array>,
    pulled: Programs<Arc<Known<Traced>>, PULLBACKS>,
    /// The ways back whose own gradients may be asked for.
    differentiable: Programs<Arc<Known<Differentiable>>, PULLBACKS>,
}

/// What is known for a way back and its cotangents, and in the second case for the inputs that have history;
/// `None` if there can be no program.
struct Known<T> {
    back: Back,
    cotangents: Vec<InputSpec>,
    wanted: Vec<bool>,
    made: Option<Arc<T>>,
}

/// A run of a program whose gradient may be asked for.
pub(super) struct Ran {
    pub(super) differentiable: Arc<Differentiable>,
    pub(super) given: Vec<Array>,
    /// What the program has returned behind the results.
    pub(super) behind: Vec<Array>,
}

impl Ran {
    /// Returns the inputs of a way back.
    pub(super) fn inputs(&self, cotangents: &[Array]) -> Vec<Array> {
        let kept = match self.differentiable.gradient {
            Some(_) => &[],
            None => &self.behind[..],
        };
        [&self.given[..], kept, cotangents].concat()
    }
}

/// A recording of a way back.
struct Way {
    values: Vec<Variable>,
    terms: Terms,
    made: FxHashSet<usize>,
    /// The edges of the cotangents.
    edges: Vec<Edge>,
}

impl Differentiable {
    /// Traces a function, with its gradient if that is asked for and the function is a single number.
    pub(super) fn trace(
        core: &Core,
        wanted: &[bool],
        is_followed: bool,
        with_gradient: bool,
        inputs: &[Array],
        scopes: &Scopes,
        signature: Signature,
    ) -> Self {
        let Trace {
            tracer,
            given,
            result: (outputs, targets),
            found,
            notes,
            made,
        } = record(inputs, scopes, |x| {
            let (x, targets) = watched_again(x, wanted, ORDERS);
            let run = || core.compute(&x);
            let outputs = match is_followed {
                true => followed(&x, run),
                false => scope::recording(true, run),
            };
            (outputs, targets)
        });
        let contents = found.changed.iter().map(|(_, content)| content.array());
        let contents: Vec<Array> = contents.collect();
        let changed = found.changed.into_iter().map(|(buffer, _)| buffer);
        // A function that runs again changes nothing a second time.
        let (contents, changed) = match core.runs_again {
            true => Default::default(),
            false => (contents, changed.collect()),
        };
        let results: Vec<Array> = outputs.iter().map(Variable::array).collect();
        let is_single = |y: &Variable| y.size() == 1 && y.dtype().is_float();
        let seed = match &outputs[..] {
            [y] if with_gradient && is_single(y) => Some(ones_like(y)),
            _ => None,
        };
        let mut ways = Ways::new(tracer.cut(), scopes, made, &outputs, targets, given);
        let with_value = seed.and_then(|seed| {
            let (tracer, back) = (ways.cut.tracer(), Back::whole(wanted.to_vec()));
            let way = attempt(|| ways.walk(&tracer, &back, vec![seed], None));
            let Way { values, terms, .. } = way.ok().flatten()?;
            let gradient: Vec<Array> = values.iter().map(Variable::array).collect();
            let outputs = [&results[..], &gradient, &contents].concat();
            Some((tracer.finish(&outputs), terms))
        });
        let of_wanted = Back::whole(wanted.to_vec());
        let (program, gradient, can_go_back) = match with_value {
            Some((program, terms)) => (program, Some(terms), true),
            None => {
                let can_go_back = ways.keep_for(&of_wanted, &results);
                let outputs = [&results[..], &ways.kept, &contents].concat();
                (ways.cut.program(&outputs), None, can_go_back)
            }
        };
        Self {
            wanted: wanted.to_vec(),
            is_followed,
            results: results.len(),
            constant: outputs.iter().map(|y| !y.has_history()).collect(),
            traced: Traced::new(signature, program, notes, found.captured, changed),
            gradient,
            ways: can_go_back.then_some(ways),
        }
    }

    /// The program of a way back for these cotangents, which is traced if there is none. `None` if what it
    /// needs is not there.
    pub(super) fn pulled(
        &self,
        core: &Core,
        back: &Back,
        cotangents: &[Array],
    ) -> Option<Arc<Traced>> {
        let ways = self.ways_of(back)?;
        Known::get_or_trace(&ways.pulled, core, back, cotangents, &[], || {
            ways.pulled(back, cotangents)
        })
    }

    /// The same for a way back whose own gradient may be asked for, by the `wanted` ones of the inputs
    /// and cotangents.
    pub(super) fn differentiable(
        &self,
        core: &Core,
        back: &Back,
        cotangents: &[Array],
        wanted: &[bool],
    ) -> Option<Arc<Self>> {
        let ways = self.ways_of(back)?;
        // The inputs that have history are the same as before.
        if !wanted.starts_with(&self.wanted) {
            return None;
        }
        Known::get_or_trace(&ways.differentiable, core, back, cotangents, wanted, || {
            ways.differentiable(back, cotangents, wanted)
        })
    }

    fn ways_of(&self, back: &Back) -> Option<&Ways> {
        let is_wanted = |(needed, wanted): (&bool, &bool)| *wanted || !needed;
        let all = back.needs.iter().zip(&self.wanted).all(is_wanted);
        self.ways.as_ref().filter(|_| all)
    }

    /// The programs that were used last, with their titles.
    pub(super) fn programs(&self) -> Vec<(&'static str, Arc<Traced>)> {
        let Some(ways) = &self.ways else {
            return Vec::new();
        };
        let title = |back: &Back| match back.examples {
            None => "gradient",
            Some(_) => "gradients of examples",
        };
        let last = ways.pulled.find_last(|known| {
            let traced = Arc::clone(known.made.as_ref()?);
            Some((title(&known.back), traced))
        });
        last.into_iter().collect()
    }

    /// The last of the ways back whose own gradients were asked for.
    pub(super) fn latest(&self) -> Option<Arc<Self>> {
        let ways = self.ways.as_ref()?;
        ways.differentiable.find_last(|known| known.made.clone())
    }
}

impl<T> Known<T> {
    /// The program for these, which is traced if there is none.
    fn get_or_trace(
        all: &Programs<Arc<Self>, PULLBACKS>,
        core: &Core,
        back: &Back,
        cotangents: &[Array],
        wanted: &[bool],
        trace: impl FnOnce() -> Option<T>,
    ) -> Option<Arc<T>> {
        let specs: Vec<InputSpec> = cotangents.iter().map(spec).collect();
        let fits = |known: &Arc<Self>| {
            known.back == *back && known.cotangents == specs && known.wanted == wanted
        };
        let known = all.get_or_trace(&core.counts, cotangents, fits, || {
            Arc::new(Self {
                made: trace().map(Arc::new),
                back: back.clone(),
                cotangents: specs.clone(),
                wanted: wanted.to_vec(),
            })
        });
        known.made.clone()
    }
}

/// Returns the inputs that are wanted as Variables of this generation, and all edges.
fn watched_again(
    inputs: &[Variable],
    wanted: &[bool],
    generation: usize,
) -> (Vec<Variable>, Vec<Edge>) {
    let first = watched(inputs, |i| wanted[i]);
    (1..generation).fold(first, |(x, _), _| watched(&x, |i| wanted[i]))
}

impl Ways {
    fn new(
        cut: Cut,
        scopes: &Scopes,
        made: FxHashSet<usize>,
        outputs: &[Variable],
        inputs: Vec<Edge>,
        given: Vec<Array>,
    ) -> Self {
        Self {
            order: 1,
            cut,
            scopes: scopes.clone(),
            made,
            outputs: outputs.iter().map(Variable::edge).collect(),
            inputs,
            given,
            kept: Vec::new(),
            pulled: Programs::default(),
            differentiable: Programs::default(),
        }
    }

    /// Finds out what is to be kept for a way back. Returns `false` if it cannot be cut off.
    fn keep_for(&mut self, back: &Back, results: &[Array]) -> bool {
        let tracer = self.cut.tracer();
        // Cotangents are mostly in row-major order. Others lead to another program of the same values.
        let cotangents = results.iter().map(|y| {
            let cotangent = tracer.row_major_input(y.shape(), y.dtype());
            Variable::constant(cotangent)
        });
        let cotangents = cotangents.collect();
        let way = attempt(|| self.walk(&tracer, back, cotangents, None));
        let Some(Way { values, .. }) = way.ok().flatten() else {
            return false;
        };
        let gradient: Vec<Array> = values.iter().map(Variable::array).collect();
        self.kept = tracer.kept(&self.given, &gradient);
        true
    }

    /// Records a way back, which has a history of its own if `history` says which of the cotangents have
    /// one. Returns `None` if it reads something else than what the function computed.
    fn walk(
        &self,
        tracer: &Tracer,
        back: &Back,
        cotangents: Vec<Variable>,
        history: Option<&[bool]>,
    ) -> Option<Way> {
        let outputs = self.outputs.clone();
        let walk = || match history {
            None => {
                let cotangents = cotangents.into_iter().map(Some).collect();
                let (values, terms) = back.walk(outputs, &self.inputs, cotangents, false);
                (values, terms, Vec::new())
            }
            Some(wanted) => {
                let generations = ORDERS.saturating_sub(self.order).max(1);
                let (cotangents, edges) = watched_again(&cotangents, wanted, generations);
                let cotangents = cotangents.into_iter().map(Some).collect();
                let walk = || back.walk(outputs, &self.inputs, cotangents, true);
                let (values, terms) = scope::recording(true, walk);
                (values, terms, edges)
            }
        };
        let made = self.made.clone();
        let walk = || scope::sealed_with("compile", made, walk);
        let walk = || self.scopes.run(walk);
        let own = tracer.clone();
        let lift = move |x: &Array| own.row_major_input(x.shape(), x.dtype());
        let walk = || Draws::record(|| tracer.run(|| surroundings::lifting(lift, walk)));
        let (((((values, terms, edges), made), found), draws), _) = noting(|| undrawn(walk));
        tracer.expect_not_refused();
        let is_alone = found.captured.is_empty() && found.changed.is_empty();
        let is_alone = is_alone && draws.are_traced();
        (is_alone && Term::are_free(&terms, &values)).then_some(Way {
            values,
            terms,
            made,
            edges,
        })
    }

    fn pulled(&self, back: &Back, cotangents: &[Array]) -> Option<Traced> {
        let tracer = self.cut.tracer();
        let cotangents: Vec<Array> = cotangents.iter().map(|g| tracer.input(g)).collect();
        let variables = cotangents.iter().cloned().map(Variable::constant).collect();
        let Way { values, terms, .. } = self.walk(&tracer, back, variables, None)?;
        let gradient: Vec<Array> = values.iter().map(Variable::array).collect();
        let inputs = [&self.given[..], &self.kept, &cotangents].concat();
        let program = tracer.rest(&inputs, &gradient)?;
        Some(Traced::of_way(program, terms))
    }

    fn differentiable(
        &self,
        back: &Back,
        cotangents: &[Array],
        wanted: &[bool],
    ) -> Option<Differentiable> {
        let tracer = self.cut.tracer();
        let cotangents: Vec<Array> = cotangents.iter().map(|g| tracer.input(g)).collect();
        let variables = cotangents.iter().cloned().map(Variable::constant).collect();
        let of_cotangents = &wanted[self.inputs.len()..];
        let way = self.walk(&tracer, back, variables, Some(of_cotangents))?;
        let outputs = &way.values;
        let results: Vec<Array> = outputs.iter().map(Variable::array).collect();
        let inputs = [&self.inputs[..], &way.edges].concat();
        let given = [&self.given[..], &self.kept, &cotangents].concat();
        let mut ways = Self::new(tracer.cut(), &self.scopes, way.made, outputs, inputs, given);
        ways.order = self.order + 1;
        let can_go_back = ways.keep_for(&Back::whole(wanted.to_vec()), &results);
        let program = tracer.rest(&ways.given, &[&results[..], &ways.kept].concat())?;
        Some(Differentiable {
            wanted: wanted.to_vec(),
            is_followed: true,
            results: results.len(),
            constant: outputs.iter().map(|y| !y.has_history()).collect(),
            traced: Traced::of_way(program, way.terms),
            gradient: None,
            ways: can_go_back.then_some(ways),
        })
    }
}
