//! Conversion between dtypes.

use bibun_array::{Array, DType, ops};

use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::variable::Variable;

/// `x` as another dtype; nothing happens if it has it already.
///
/// Shapes: x any → the same. Types: from and to all; floats to integers round towards zero.
/// Gradient: `gy` as the dtype of x, from one float to another; integers and bools have none.
///
/// ```
/// use bibun::{array::DType, functions::cast, Variable};
/// let x = Variable::new([1.5, 2.5]);
/// assert_eq!(cast(&x, DType::I64).to_vec::<i64>(), [1, 2]);
/// ```
#[track_caller]
pub fn cast(x: impl Into<Variable>, dtype: DType) -> Variable {
    let x = x.into();
    if x.dtype() == dtype {
        x
    } else {
        Linear::of(Cast(dtype), x)
    }
}
method!(cast, dtype: DType);

/// `x` itself if its elements are floats, as f64 otherwise: what functions of floats take.
#[track_caller]
pub(crate) fn to_float(x: Variable) -> Variable {
    if x.dtype().is_float() {
        x
    } else {
        cast(x, DType::F64)
    }
}

/// The type of floats that values of a type become beside parameters of others: integers give way to
/// any float, and give f64 where there is none.
pub(crate) fn float_of<'a>(dtype: DType, others: impl IntoIterator<Item = &'a Variable>) -> DType {
    let all = (others.into_iter()).fold(dtype, |all, other| all.promote(other.dtype()));
    if all.is_float() { all } else { DType::F64 }
}

/// `x` as the floats in which it is computed.
#[track_caller]
pub(crate) fn to_accumulator(x: impl Into<Variable>) -> Variable {
    let x = to_float(x.into());
    let dtype = x.dtype().accumulator();
    cast(x, dtype)
}

/// What `compute` makes of floats in the type that they are added up in, rounded once.
#[track_caller]
pub(crate) fn in_accumulator(x: Variable, compute: impl FnOnce(Variable) -> Variable) -> Variable {
    let dtype = x.dtype();
    cast(compute(cast(x, dtype.accumulator())), dtype)
}

/// Integers as i64, which indices and classes are; what is none comes back for the function to refuse.
#[track_caller]
pub(crate) fn to_indices(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    if x.dtype().is_integer() {
        cast(x, DType::I64)
    } else {
        x
    }
}

/// `x` itself unless it is `bool`, which counts as i64: what arithmetic takes.
#[track_caller]
pub(crate) fn to_number(x: Variable) -> Variable {
    if x.dtype() == DType::Bool {
        cast(x, DType::I64)
    } else {
        x
    }
}

#[derive(Clone, Debug)]
struct Cast(DType);

impl LinearRule for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&x.shape, self.0))
    }
    fn forward(&self, x: Array) -> Array {
        ops::cast(x, self.0)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        cast(gy, x.dtype)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // There and back, for the checks are done in f64.
    vec![
        Sample::new(
            "cast",
            |x| vec![cast(&x[0], DType::F64)],
            |x| vec![x[0].clone()],
        )
        .input([2, 3], -2.0..2.0),
    ]
}
