//! The forward walk: each function's `jvp` rule is called as the function runs, so that every value
//! carries its tangent along.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use bibun_array::DType;

use crate::apply::Call;
use crate::context::{self, Context, Running};
use crate::error::{Error, raise};
use crate::function::{AnyFunction, Items, Spec, items};
use crate::hidden::Hidden;
use crate::node::{Edge, Key, Node};
use crate::reverse::Paths;
use crate::scope::{self, Level};
use crate::variable::{Value, Variable};

/// A value with its tangent. Both belong to the level below.
#[derive(Debug)]
struct Dual {
    level: Level,
    primal: Variable,
    /// The tangent, or `None` for zero.
    tangent: Option<Variable>,
}

/// Computes `f` at `primals` and its derivative there along `tangents`, the product of the Jacobian
/// with a vector, in one run of `f`. A tangent is `None` where `f` does not depend on its inputs.
/// (This is the walk itself, for slices.)
///
/// # Panics
/// Panics if tangents and primals differ in number, shape or dtype.
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
                Variable::from_value(Value::hiding(Dual {
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

/// Returns a value's primal and tangent at `level`.
fn split(x: &Variable, level: Level) -> (Variable, Option<Variable>) {
    x.look(|value| match value.hidden_at::<Dual>(level) {
        Some(dual) => (dual.primal.clone(), dual.tangent.clone()),
        None => (x.clone(), None),
    })
}

impl Hidden for Dual {
    fn level(&self) -> Level {
        self.level
    }

    fn spec(&self) -> Spec {
        self.primal.spec()
    }

    fn dtype(&self) -> DType {
        self.primal.dtype()
    }

    fn hidden_by(&self) -> (&'static str, &'static str) {
        ("jvp", "use detach if its derivative may be dropped")
    }

    fn parts(&self) -> Items<&Variable> {
        items([&self.primal].into_iter().chain(&self.tangent))
    }

    fn is_differentiated(&self) -> bool {
        true
    }

    fn detach(&self) -> Variable {
        self.primal.detach()
    }

    fn run(
        &self,
        function: &dyn AnyFunction,
        inputs: Items<Variable>,
        call: &Call<'_>,
    ) -> Items<Arc<Value>> {
        let level = self.level;
        let (mut primals, mut tangents) = (Items::new(), Items::new());
        for input in inputs {
            let (primal, tangent) = split(&input, level);
            primals.push(primal);
            tangents.push(tangent);
        }
        let running = Running::new(function, primals, call);
        let passes = |tangent: &Option<Variable>| tangent.is_some() && !scope::is_constant(level);
        let needs: Items<bool> = items(tangents.iter().map(passes));
        let tangents = needs.contains(&true).then(|| {
            let cx = Context {
                call: context::Call::Running(&running),
                needs: &needs,
                create_graph: true,
            };
            cx.ask_jvp(tangents)
        });
        let outputs = running.into_outputs();
        let tangents = tangents.unwrap_or_else(|| items(outputs.iter().map(|_| None)));
        items(outputs.into_iter().zip(tangents).map(|(primal, tangent)| {
            Arc::new(Value::hiding(Dual {
                level,
                primal,
                tangent,
            }))
        }))
    }
}

/// Computes the derivative of outputs along tangents of the inputs they were computed from, from a
/// recorded run. Each function on the way is asked for its `jvp` rule again. The history must have
/// been recorded under [`retain`](crate::retain), because the rule may read any value.
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
        let tangents = Context::of(node, &needs, create_graph).ask_jvp(tangents);
        for (slot, tangent) in (0..).zip(tangents) {
            if let Some(tangent) = tangent {
                known.insert((node.address(), slot), tangent);
            }
        }
    }
    let find = |edge: &Edge| known.get(&edge.key()?).cloned();
    paths.outputs().iter().map(find).collect()
}
