//! Conversion between dtypes.

use bibun_array::{Array, DType, ops};

use crate::call::innermost;
use crate::error::{Error, raise};
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::real;
use crate::variable::Variable;

/// Casts x to another dtype; returns x itself if it has this dtype already.
///
/// Shapes: x any → the same. Types: all, to all; floats are rounded towards zero to
/// integers.
/// Gradient: `gy`, cast to the dtype of x, between floats and complex numbers, of its real part if x
/// is real; integers and bools have none.
///
/// # Panics
/// Panics if complex numbers are to become real ones: take [`real`], `imag`, `abs` or `angle`.
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

/// Returns x itself if its elements are floats, and casts it to f64 otherwise. Complex numbers are an
/// error.
#[track_caller]
pub(crate) fn to_float(x: Variable) -> Variable {
    let is_refused = x.dtype().is_complex();
    to_float_of(
        if is_refused {
            innermost().unwrap_or("cast")
        } else {
            "cast"
        },
        x,
    )
}

/// Does the same, for a function of this name.
#[track_caller]
pub(crate) fn to_float_of(function: &'static str, x: Variable) -> Variable {
    if x.dtype().is_float() {
        return x;
    }
    if x.dtype().is_complex() {
        let what = format!(
            "x is {}, and must be real: take `real`, `imag`, `abs` or `angle` of it",
            x.dtype()
        );
        raise(Error::argument(function, what));
    }
    cast(x, DType::F64)
}

/// Returns x itself if its elements are floats or complex numbers, and casts it to f64 otherwise.
#[track_caller]
pub(crate) fn to_differentiable(x: Variable) -> Variable {
    if x.dtype().is_differentiable() {
        x
    } else {
        cast(x, DType::F64)
    }
}

/// Returns the float dtype of values of a dtype beside parameters of others: integers give way to any
/// float, and give f64 if there is none.
pub(crate) fn float_of<'a>(dtype: DType, others: impl IntoIterator<Item = &'a Variable>) -> DType {
    let all = (others.into_iter()).fold(dtype, |all, other| all.promote(other.dtype()));
    if all.is_float() { all } else { DType::F64 }
}

/// Casts x to its accumulator, in floats.
#[track_caller]
pub(crate) fn to_accumulator(x: impl Into<Variable>) -> Variable {
    let x = to_float(x.into());
    let dtype = x.dtype().accumulator();
    cast(x, dtype)
}

/// Computes in the accumulator of x and rounds once, to the dtype of x.
#[track_caller]
pub(crate) fn in_accumulator(x: Variable, compute: impl FnOnce(Variable) -> Variable) -> Variable {
    let dtype = x.dtype();
    cast(compute(cast(x, dtype.accumulator())), dtype)
}

/// Casts integers to i64, the dtype of indices and classes. Other values are returned as they are, for
/// the function to refuse.
#[track_caller]
pub(crate) fn to_indices(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    if x.dtype().is_integer() {
        cast(x, DType::I64)
    } else {
        x
    }
}

/// Returns x itself unless it is `bool`, which arithmetic counts as i64.
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
        if x.dtype.is_complex() && !self.0.is_complex() && self.0 != DType::Bool {
            let must = format!(
                "complex numbers do not become {}; take `real`, `imag`, `abs` or `angle`",
                self.0
            );
            return Err(Mismatch::new(&[("x", x)], must));
        }
        Ok(Spec::new(&x.shape, self.0))
    }
    fn forward(&self, x: Array) -> Array {
        ops::cast(x, self.0)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        // A real number changes the real part alone.
        let gy = if x.dtype.is_complex() { gy } else { real(gy) };
        cast(gy, x.dtype)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // There and back, because the checks are in f64.
    vec![
        Sample::new(
            "cast",
            |x| vec![cast(&x[0], DType::F64)],
            |x| vec![x[0].clone()],
        )
        .input([2, 3], -2.0..2.0),
    ]
}
