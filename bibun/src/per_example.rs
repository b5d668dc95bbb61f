//! The per-example walk: it goes back from a vector of losses and keeps the cotangents of the
//! examples apart.
//!
//! Seeded with ones, each slice of a cotangent belongs to one loss, as long as no function mixes
//! examples. Each function's `per_example` rule says which slices of its inputs belong to which
//! example, and the values are those of the ordinary walk. Where all examples use one value (a
//! parameter), the rule returns the cotangents of that value for each example, as factors. Behind
//! such a value, in functions of parameters alone, the ordinary `vjp` runs under `vmap`.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch::vmap;
use crate::call::Called;
use crate::context::Context;
use crate::error::{Error, Location, attempt, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, OuterProduct};
use crate::function::{Items, items};
use crate::node::{Edge, Key, Node};
use crate::reverse::Paths;
use crate::scope;
use crate::variable::{Value, Variable};

/// A part of the gradients of one parameter.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Sliced(ExampleCotangent),
    Stacked(Variable),
    OuterProduct(OuterProduct),
}

/// Returns, for each input, the parts of its cotangents, computed from the cotangents of outputs that
/// belong to the examples. The cotangents are the sum of the parts.
pub(crate) fn pull_apart(
    outputs: Vec<(Edge, ExampleCotangent)>,
    inputs: Vec<Edge>,
    create_graph: bool,
) -> Vec<Vec<Part>> {
    let keys: Vec<Option<Key>> = inputs.iter().map(Edge::key).collect();
    let edges = outputs.iter().map(|(edge, _)| edge.clone());
    let paths = Paths::between(edges.collect(), inputs);
    let mut walk = Walk {
        paths: &paths,
        create_graph,
        arrived: FxHashMap::default(),
        parts: FxHashMap::default(),
        data: FxHashSet::default(),
        shared: FxHashMap::default(),
    };
    let back = || {
        for (edge, mut sliced) in outputs {
            if !create_graph {
                sliced.cotangent = sliced.cotangent.without_history();
            }
            walk.deliver(&edge, Part::Sliced(sliced), None);
        }
        for node in paths.nodes().iter().rev() {
            walk.pass(node);
        }
    };
    match create_graph {
        true => scope::recording(true, back),
        false => back(),
    }
    let parts_of = |key: &Option<Key>| walk.parts.get(&(*key)?).cloned();
    keys.iter()
        .map(|key| parts_of(key).unwrap_or_default())
        .collect()
}

impl Part {
    /// Returns the sum of the parts, for a rule to return.
    pub(crate) fn sum(parts: Vec<Self>) -> Option<ExampleGradient> {
        let gradient = |part| match part {
            Self::Sliced(sliced) => ExampleGradient::Sliced(sliced),
            Self::Stacked(cotangent) => ExampleGradient::Stacked(cotangent),
            Self::OuterProduct(product) => ExampleGradient::OuterProduct(product),
        };
        let sliced = (parts.iter().filter(|part| matches!(part, Self::Sliced(_)))).count();
        // Behind the function, these would not be known to come from what knows no better.
        if 0 < sliced && sliced < parts.len() {
            let terms = parts.into_iter().map(Self::stacked);
            return terms.reduce(|a, b| a + b).map(ExampleGradient::Stacked);
        }
        let mut terms: Vec<ExampleGradient> = parts.into_iter().map(gradient).collect();
        match terms.len() {
            0 | 1 => terms.pop(),
            _ => Some(ExampleGradient::Sum(terms)),
        }
    }

    /// Returns the cotangent of each example.
    fn stacked(self) -> Variable {
        match self {
            Self::Sliced(sliced) => sliced.stacked(),
            Self::Stacked(cotangent) => cotangent,
            Self::OuterProduct(product) => product.rows(),
        }
    }

    /// Adds the parts that a rule has returned to a list.
    fn list(gradient: ExampleGradient, parts: &mut Vec<Self>) {
        match gradient {
            ExampleGradient::Sliced(sliced) => parts.push(Self::Sliced(sliced)),
            ExampleGradient::Stacked(cotangent) => parts.push(Self::Stacked(cotangent)),
            ExampleGradient::OuterProduct(product) => parts.push(Self::OuterProduct(product)),
            ExampleGradient::Sum(terms) => {
                (terms.into_iter()).for_each(|term| Self::list(term, parts));
            }
            ExampleGradient::Unknown | ExampleGradient::Mixed => {
                unreachable!("these are no gradients, and no terms of one")
            }
        }
    }
}

/// The cotangents that have arrived at one output of a node.
enum Arrived {
    Sliced(ExampleCotangent),
    /// A cotangent for each example, along an axis in front, and the function from which they came
    /// last. `None` means that they are stacked only because no rule knew better.
    Stacked(Variable, Option<Origin>),
}

/// A function and the location of its call.
#[derive(Clone, Copy)]
struct Origin {
    function: &'static str,
    location: Location,
}

impl Origin {
    #[cold]
    fn mixes(self) -> ! {
        let Self { function, location } = self;
        raise(Error::MixesExamples { function, location })
    }
}

struct Walk<'a> {
    paths: &'a Paths,
    create_graph: bool,
    arrived: FxHashMap<Key, Arrived>,
    parts: FxHashMap<Key, Vec<Part>>,
    /// The memory of constants that meet the losses of single examples (the data), and of constants
    /// that meet values shared by all examples, with the function that uses them.
    data: FxHashSet<usize>,
    shared: FxHashMap<usize, Origin>,
}

impl Walk<'_> {
    /// Adds a rule's result to the cotangents of the value that an edge leads to.
    fn deliver(&mut self, edge: &Edge, part: Part, origin: Option<Origin>) {
        let Some(key) = edge.key() else { return };
        if self.paths.is_target(edge) {
            self.parts.entry(key).or_default().push(part.clone());
        }
        if !matches!(edge, Edge::Output(node, _) if self.paths.go_through(node)) {
            return;
        }
        let new = match part {
            Part::Sliced(sliced) => Arrived::Sliced(sliced),
            Part::Stacked(cotangent) => Arrived::Stacked(cotangent, origin),
            Part::OuterProduct(product) => Arrived::Stacked(product.rows(), origin),
        };
        let sum = match self.arrived.remove(&key) {
            None => new,
            Some(known) => known.plus(new),
        };
        self.arrived.insert(key, sum);
    }

    /// Refuses to compute values shared by all examples from the data of the examples, such as a mean
    /// over a second run of the model on the batch. Two constants count as the same if they share
    /// memory.
    fn expect_other_data(
        &mut self,
        node: &Node,
        arrived: &[Option<Arrived>],
        added: Option<Origin>,
    ) {
        let own = arrived.iter().flatten().find_map(|arrived| match arrived {
            Arrived::Sliced(sliced) => Some(&sliced.examples),
            Arrived::Stacked(..) => None,
        });
        let constants = (node.inputs().iter().zip(node.saved_inputs())).zip(node.input_specs());
        for ((edge, value), spec) in constants {
            let value = value.as_deref().filter(|_| edge.key().is_none());
            let Some(constant) = value.and_then(Value::array) else {
                continue;
            };
            let Some(memory) = constant.memory_key().filter(|_| constant.size() > 1) else {
                continue;
            };
            match (own, added) {
                (Some(examples), _) if examples.count() > 1 && examples.fit(spec) => {
                    self.data.insert(memory);
                    if let Some(shared) = self.shared.get(&memory) {
                        shared.mixes();
                    }
                }
                (None, Some(origin)) => {
                    self.shared.insert(memory, origin);
                    if self.data.contains(&memory) {
                        origin.mixes();
                    }
                }
                _ => {}
            }
        }
    }

    /// Asks a node's rule, and delivers its results.
    fn pass(&mut self, node: &Arc<Node>) {
        let key = |slot| Some((node.address(), slot as u32));
        let arrived: Vec<Option<Arrived>> = (0..node.output_specs().len())
            .map(|slot| self.arrived.remove(&key(slot)?))
            .collect();
        let here = Origin {
            function: node.function().name(),
            location: node.location,
        };
        // Cotangents that a rule has stacked stay stacked.
        let known = |arrived: &Arrived| matches!(arrived, Arrived::Stacked(_, Some(_)));
        let added = arrived.iter().flatten().any(known).then_some(here);
        self.expect_other_data(node, &arrived, added);
        let follows = node.inputs().iter().map(|edge| self.paths.follows(edge));
        let needs: Items<bool> = items(follows);
        let (_, _entered) = Called::begin(here.function, here.location);
        let asked = attempt(|| self.ask(node, &arrived, &needs, here));
        let parts = asked.unwrap_or_else(|error| match error {
            error @ Error::MixesExamples { .. } => raise(error),
            error => raise(node.failed(error)),
        });
        for (edge, parts) in node.inputs().iter().zip(parts) {
            if let Some((parts, is_known)) = parts {
                let origin = if is_known { Some(here) } else { added };
                for part in parts {
                    self.deliver(edge, part, origin);
                }
            }
        }
    }

    /// Returns the parts of the result of a node's rule for each input, and whether the rule knew them.
    fn ask(
        &self,
        node: &Arc<Node>,
        arrived: &[Option<Arrived>],
        needs: &[bool],
        here: Origin,
    ) -> Items<Option<(Vec<Part>, bool)>> {
        let gradients = match sliced_by_example(node, arrived) {
            Some(sliced) => {
                // A single example cannot be mixed with another.
                let alone = sliced.iter().all(|sliced| sliced.examples.count() <= 1);
                let cx = Context::of(node, needs, self.create_graph);
                let gradients = cx.ask_per_example(sliced);
                items(gradients.into_iter().map(|gradient| match gradient {
                    Some(ExampleGradient::Mixed) if alone => Some(ExampleGradient::Unknown),
                    Some(ExampleGradient::Mixed) => here.mixes(),
                    gradient => gradient,
                }))
            }
            None => items(
                needs
                    .iter()
                    .map(|&need| need.then_some(ExampleGradient::Unknown)),
            ),
        };
        let unknown =
            |gradient: &Option<ExampleGradient>| matches!(gradient, Some(ExampleGradient::Unknown));
        let unknown: Items<bool> = items(gradients.iter().map(unknown));
        let mut computed = Items::new().into_iter();
        if unknown.contains(&true) {
            let cotangents = arrived.iter().map(|arrived| match arrived {
                None => None,
                Some(Arrived::Sliced(sliced)) => Some(sliced.stacked()),
                Some(Arrived::Stacked(cotangent, _)) => Some(cotangent.clone()),
            });
            let cotangents: Items<Option<Variable>> = items(cotangents);
            computed = self.under_vmap(node, &cotangents, &unknown).into_iter();
        }
        items(gradients.into_iter().map(|gradient| {
            let computed = computed.next().flatten();
            Some(match gradient? {
                ExampleGradient::Unknown | ExampleGradient::Mixed => {
                    (vec![Part::Stacked(computed?)], false)
                }
                known => {
                    let mut parts = Vec::new();
                    Part::list(known, &mut parts);
                    (parts, true)
                }
            })
        }))
    }

    /// Runs the ordinary rule for the cotangents of all examples at once.
    fn under_vmap(
        &self,
        node: &Arc<Node>,
        cotangents: &[Option<Variable>],
        needs: &[bool],
    ) -> Items<Option<Variable>> {
        let present: Vec<Variable> = cotangents.iter().flatten().cloned().collect();
        let has_gradient: RefCell<Items<bool>> = RefCell::default();
        let pull_back = |present: &[Variable]| {
            let mut present = present.iter().cloned();
            let in_place = |gy: &Option<Variable>| gy.as_ref().and_then(|_| present.next());
            let mut gy: Items<Option<Variable>> = items(cotangents.iter().map(in_place));
            let gradients = Context::of(node, needs, self.create_graph).ask_vjp(&mut gy);
            let needed = gradients.into_iter().zip(needs);
            let gradients: Items<Option<Variable>> =
                items(needed.map(|(gradient, &need)| gradient.filter(|_| need)));
            has_gradient.replace(items(gradients.iter().map(Option::is_some)));
            gradients.into_iter().flatten().collect()
        };
        let axes = vec![Some(0); present.len()];
        let mut gradients = vmap(pull_back, &present, &axes).into_iter();
        let has_gradient = has_gradient.into_inner();
        let gradient = |&has: &bool| if has { gradients.next() } else { None };
        items(has_gradient.iter().map(gradient))
    }
}

/// Returns the cotangents of all outputs, with zeros where none arrived, if each slice of all of them
/// belongs to one example.
fn sliced_by_example(
    node: &Arc<Node>,
    arrived: &[Option<Arrived>],
) -> Option<Items<ExampleCotangent>> {
    let mut first = None;
    for arrived in arrived.iter().flatten() {
        match arrived {
            Arrived::Sliced(sliced) => first = first.or(Some(&sliced.examples)),
            Arrived::Stacked(..) => return None,
        }
    }
    let first = first?;
    let mut all = Items::new();
    for (arrived, spec) in arrived.iter().zip(node.output_specs()) {
        all.push(match arrived {
            Some(Arrived::Sliced(sliced)) => sliced.clone(),
            _ => {
                let axis = first.axis();
                let unowned = || Some(first.owned_by(axis, vec![None; *spec.shape.get(axis)?]));
                let examples = match first.fit(spec) {
                    true => first.clone(),
                    false => unowned()?,
                };
                let cotangent = Variable::zeros(spec);
                ExampleCotangent {
                    cotangent,
                    examples,
                }
            }
        });
    }
    Some(all)
}

impl Arrived {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Sliced(a), Self::Sliced(b)) => match a.examples.merged(&b.examples) {
                Some(examples) => Self::Sliced(ExampleCotangent {
                    cotangent: a.cotangent + b.cotangent,
                    examples,
                }),
                None => Self::Stacked(a.stacked() + b.stacked(), None),
            },
            (Self::Stacked(a, from_a), Self::Stacked(b, from_b)) => {
                Self::Stacked(a + b, from_a.or(from_b))
            }
            (Self::Stacked(_, Some(origin)), Self::Sliced(_))
            | (Self::Sliced(_), Self::Stacked(_, Some(origin))) => origin.mixes(),
            (Self::Stacked(added, None), Self::Sliced(sliced))
            | (Self::Sliced(sliced), Self::Stacked(added, None)) => {
                Self::Stacked(added + sliced.stacked(), None)
            }
        }
    }
}

impl OuterProduct {
    /// Computes the cotangents of all examples.
    pub(crate) fn rows(&self) -> Variable {
        let inputs = [self.a.clone(), self.b.clone()];
        let mut rows = vmap(
            |element| vec![(self.sum)(&element[0], &element[1])],
            &inputs,
            &[Some(0), Some(0)],
        );
        rows.remove(0)
    }
}
