//! The forward walk: each function's `jvp` rule is asked as the function runs, so that every value
//! carries its tangent along.

use std::sync::Arc;

use bibun_array::settle;
use rustc_hash::FxHashMap;

use crate::call::Called;
use crate::context::{Call, Context};
use crate::error::{Error, Place, asked_at, caller, raise};
use crate::function::{AnyFunction, Items, Spec, items};
use crate::node::{Edge, Key, Node};
use crate::reverse::Paths;
use crate::scope::{self, Level};
use crate::variable::{Value, Variable};

/// A value with its tangent. Both live one level below.
#[derive(Clone, Debug)]
pub(crate) struct Dual {
    pub(crate) level: Level,
    pub(crate) primal: Variable,
    /// `None` is zero.
    pub(crate) tangent: Option<Variable>,
}

/// The value of `f` at `primals`, and the derivative of `f` there along `tangents`: the product of
/// the Jacobian with a vector, in one run of `f`. Tangents are `None` where `f` does not depend on
/// its inputs. (The walk itself, over slices.)
///
/// # Panics
/// If tangents and primals differ in number, shape or dtype.
#[track_caller]
pub(crate) fn jvp(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    primals: &[Variable],
    tangents: &[Variable],
) -> (Vec<Variable>, Vec<Option<Variable>>) {
    let fits = |(primal, tangent): (&Variable, &Variable)| primal.has_same_spec(tangent);
    if primals.len() != tangents.len() || !primals.iter().zip(tangents).all(fits) {
        let specs = |list: &[Variable]| {
            let specs: Vec<String> = list.iter().map(|x| x.spec().to_string()).collect();
            specs.join(", ")
        };
        let what = format!(
            "primals are [{}], tangents are [{}]; they must be equal in number, shape and dtype",
            specs(primals),
            specs(tangents)
        );
        raise(Error::argument("jvp", what));
    }
    let outputs = scope::nested(|level| {
        let duals: Vec<Variable> = (primals.iter().zip(tangents))
            .map(|(primal, tangent)| {
                let (primal, tangent) = (primal.clone(), Some(tangent.clone()));
                Variable::from_value(Value::Dual(Dual {
                    level,
                    primal,
                    tangent,
                }))
            })
            .collect();
        f(&duals)
            .into_iter()
            .map(|y| split(&y, level))
            .collect::<Vec<_>>()
    });
    outputs.into_iter().unzip()
}

/// A value's primal and tangent at `level`.
fn split(x: &Variable, level: Level) -> (Variable, Option<Variable>) {
    x.look(|value| match value {
        Value::Dual(dual) if dual.level == level => (dual.primal.clone(), dual.tangent.clone()),
        _ => (x.clone(), None),
    })
}

/// Runs a function on inputs of which some carry tangents at `level`.
pub(crate) fn run(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    level: Level,
    input_specs: &[Spec],
    output_specs: &[Spec],
    place: Place,
) -> Items<Arc<Value>> {
    let (mut primals, mut tangents) = (Items::new(), Items::new());
    for input in inputs {
        let (primal, tangent) = split(&input, level);
        primals.push(primal);
        tangents.push(tangent);
    }
    let outputs = function.apply(primals.clone(), place);
    let passes = |tangent: &Option<Variable>| tangent.is_some() && !scope::is_constant(level);
    let needs = items(tangents.iter().map(passes));
    let tangents = if needs.contains(&true) {
        let cx = Context {
            call: Call::Values {
                function,
                inputs: &primals,
                input_specs,
                outputs: &outputs,
                output_specs,
            },
            needs: &needs,
            create_graph: true,
        };
        let tangents = asked_at(function.name(), place, || function.jvp(&cx, tangents));
        check(function, &tangents, output_specs);
        tangents
    } else {
        items(outputs.iter().map(|_| None))
    };
    items(outputs.into_iter().zip(tangents).map(|(primal, tangent)| {
        let tangent = tangent.filter(|_| primal.dtype().is_float());
        Arc::new(Value::Dual(Dual {
            level,
            primal,
            tangent,
        }))
    }))
}

/// A tangent must look like its output.
fn check(function: &dyn AnyFunction, tangents: &[Option<Variable>], specs: &[Spec]) {
    if tangents.len() != specs.len() {
        raise(Error::wrong_number(
            function.name(),
            "jvp",
            tangents.len(),
            specs.len(),
        ));
    }
    for (i, (tangent, expected)) in tangents.iter().zip(specs).enumerate() {
        if let Some(tangent) = tangent
            && expected.dtype.is_float()
            && !tangent.has_spec(expected)
        {
            raise(Error::WrongRule {
                function: function.name(),
                rule: "jvp",
                argument: format!("output {i}"),
                found: Box::new(tangent.spec()),
                expected: Box::new(expected.clone()),
                place: caller(),
            });
        }
    }
}

/// The derivative of outputs along tangents of what they were computed from, by the memory of the
/// run: each function on the way is asked for its `jvp` rule again. The history must have been
/// recorded under [`retain`](crate::retain), for the rule may read any value.
pub(crate) fn push_forward(
    paths: &Paths,
    nodes: &[Arc<Node>],
    tangents: &[Variable],
    create_graph: bool,
) -> Vec<Option<Variable>> {
    let mut known: FxHashMap<Key, Variable> = FxHashMap::default();
    for (edge, tangent) in paths.inputs().iter().zip(tangents) {
        known.insert(edge.key().expect("an input has history"), tangent.clone());
    }
    for node in nodes {
        let tangents: Items<Option<Variable>> = node
            .inputs()
            .iter()
            .map(|edge| known.get(&edge.key()?).cloned())
            .collect();
        let needs: Items<bool> = tangents.iter().map(Option::is_some).collect();
        if !needs.contains(&true) {
            continue;
        }
        let cx = Context {
            call: Call::Node(node),
            needs: &needs,
            create_graph,
        };
        let function = node.function();
        let (_, _entered) = Called::begin(function.name(), node.place);
        let _settled = node.device.map(settle);
        let jvp = || function.jvp(&cx, tangents);
        let tangents = asked_at(function.name(), node.place, jvp);
        check(function, &tangents, node.output_specs());
        for ((slot, tangent), spec) in (0..).zip(tangents).zip(node.output_specs()) {
            if let Some(tangent) = tangent
                && spec.dtype.is_float()
            {
                known.insert((node.address(), slot), tangent);
            }
        }
    }
    let find = |edge: &Edge| known.get(&edge.key()?).cloned();
    paths.outputs().iter().map(find).collect()
}
