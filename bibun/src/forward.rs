//! The forward walk: each function's `jvp` rule is asked as the function runs, so that every value
//! carries its tangent along.

use std::sync::Arc;

use crate::context::{Call, Context};
use crate::error::{Error, Place, asked_at, raise};
use crate::function::{AnyFunction, Items, Spec};
use crate::scope::{self, Level};
use crate::variable::{Value, Variable};

/// A value with its tangent. Both live one level below.
#[derive(Debug)]
pub(crate) struct Dual {
    pub(crate) level: Level,
    pub(crate) primal: Variable,
    /// `None` is zero.
    pub(crate) tangent: Option<Variable>,
}

/// The value of `f` at `primals`, and the derivative of `f` there along `tangents`: the product of
/// the Jacobian with a vector, in one run of `f`. Tangents are `None` where `f` does not depend on
/// its inputs. (The interface for one function over slices; any order nests.)
///
/// # Panics
/// If tangents and primals differ in number, shape or dtype.
///
/// ```
/// use bibun::{jvp, Variable};
/// let (y, dy) = jvp(|x| vec![&x[0] * &x[0]], &[Variable::new(3.0)], &[Variable::new(1.0)]);
/// assert_eq!(y[0].item::<f64>(), 9.0);
/// assert_eq!(dy[0].as_ref().unwrap().item::<f64>(), 6.0);
/// ```
#[track_caller]
pub fn jvp(
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
    match &*x.value() {
        Value::Dual(dual) if dual.level == level => (dual.primal.clone(), dual.tangent.clone()),
        _ => (x.clone(), None),
    }
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
    let (primals, tangents): (Items<_>, Items<_>) =
        inputs.iter().map(|input| split(input, level)).unzip();
    let outputs = function.apply(primals.clone(), place);
    let needs: Items<bool> = tangents.iter().map(Option::is_some).collect();
    let tangents = if needs.contains(&true) {
        let cx = Context {
            call: Call::Values {
                function: function.name(),
                inputs: &primals,
                input_specs,
                outputs: &outputs,
                output_specs,
            },
            needs: &needs,
        };
        let tangents = asked_at(place, || function.jvp(&cx, tangents));
        check(function, &tangents, output_specs);
        tangents
    } else {
        outputs.iter().map(|_| None).collect()
    };
    outputs
        .into_iter()
        .zip(tangents)
        .map(|(primal, tangent)| {
            let tangent = tangent.filter(|_| primal.dtype().is_float());
            Arc::new(Value::Dual(Dual {
                level,
                primal,
                tangent,
            }))
        })
        .collect()
}

/// A tangent must look like its output.
fn check(function: &dyn AnyFunction, tangents: &[Option<Variable>], specs: &[Spec]) {
    assert_eq!(
        tangents.len(),
        specs.len(),
        "{}: wrong number of tangents",
        function.name()
    );
    for (i, (tangent, expected)) in tangents.iter().zip(specs).enumerate() {
        if let Some(tangent) = tangent
            && expected.dtype.is_float()
            && tangent.spec() != *expected
        {
            raise(Error::WrongRule {
                function: function.name(),
                rule: "jvp",
                argument: format!("output {i}"),
                found: Box::new(tangent.spec()),
                expected: Box::new(expected.clone()),
            });
        }
    }
}
