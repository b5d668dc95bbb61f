//! Conditions on the elements of inputs, which are checked wherever the elements are there.

use bibun_array::{Array, DType, cpu, is_traced};

use crate::error::{Error, raise};
use crate::functions::logical_not;
use crate::variable::{Value, Variable};

/// Panics unless a condition on `x` holds everywhere. `what` names x in the message, and `must` says what
/// must hold of it.
///
/// Under transformations, the elements of all batch elements are checked. In a function that is being
/// traced there are no elements yet, and nothing is checked.
#[track_caller]
pub(crate) fn expect_everywhere(
    function: &'static str,
    what: &str,
    x: &Variable,
    condition: &Variable,
    must: &str,
) {
    if let Some(found) = exception(x, condition) {
        let what = format!("{what} is {found}; it must be {must}");
        raise(Error::argument(function, what));
    }
}

/// Returns the first element of `x` for which a condition does not hold, and its place, as a text.
pub(crate) fn exception(x: &Variable, condition: &Variable) -> Option<String> {
    let wrong = elements(&logical_not(condition.detach()))?;
    // Of values on a device, only this one is read.
    if !wrong.any(..).to(cpu()).item::<bool>() {
        return None;
    }
    let wrong = wrong.to(cpu());
    let at = wrong.to_vec::<bool>().into_iter().position(|wrong| wrong);
    let at = at.expect("one of them is");
    let index = wrong.shape().unravel(at);
    let found = elements(x).filter(|x| x.shape() == wrong.shape());
    let found = found.map_or(String::from("out of range"), |x| {
        let x = x.to(cpu());
        match x.dtype() {
            DType::I64 => x.to_vec::<i64>()[at].to_string(),
            _ => format!("{:?}", x.cast(DType::F64).to_vec::<f64>()[at]),
        }
    });
    Some(match index.is_empty() {
        true => found,
        false => format!("{found} at {index:?}"),
    })
}

/// Returns the largest element, or 0 of none, unless it is being traced.
pub(crate) fn largest(x: &Variable) -> Option<f64> {
    let x = elements(&x.detach())?;
    Some(match x.size() {
        0 => 0.0,
        _ => x.max(..).to(cpu()).cast(DType::F64).item::<f64>(),
    })
}

/// Returns the first integer that is not 0, and its place, unless it is being traced.
pub(crate) fn first_nonzero(x: &Variable) -> Option<(i64, Vec<usize>)> {
    let x = elements(&x.detach())?.to(cpu());
    let all = x.to_vec::<i64>();
    let at = all.iter().position(|&x| x != 0)?;
    Some((all[at], x.shape().unravel(at).to_vec()))
}

/// Returns the elements below all transformations, unless they are being traced.
fn elements(x: &Variable) -> Option<Array> {
    match &*x.value() {
        Value::Array(x) => (!is_traced(x)).then(|| x.clone()),
        Value::Hidden(hidden) => elements(hidden.parts().first()?),
    }
}
