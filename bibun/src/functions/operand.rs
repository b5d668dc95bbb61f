//! The operands of operators and functions of two arguments.

use bibun_array::{Array, Complex, DType, Scalar, bf16, f16};

use crate::call::{Whole, composite};
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::{broadcast_to, cast};
use crate::variable::Variable;

/// An argument of operators and functions of two arguments: a Variable, an array or a Rust number.
///
/// Two arrays are computed in [`DType::promote`] of their dtypes. A number takes the dtype of the
/// other operand and never widens it, except that a float with integers or `bool` makes both `f64`,
/// an integer with `bool` makes both `i64`, and a complex number makes both complex. An integer with integers must be representable in
/// their dtype.
///
/// ```
/// use bibun::{array::DType, Variable};
/// let x = Variable::new([1.0f32, 2.0]);
/// assert_eq!((&x * 0.5).dtype(), DType::F32);
/// assert_eq!((1 - &x).dtype(), DType::F32);
/// ```
#[derive(Clone, Debug)]
pub enum Operand {
    /// A Variable, which has its own dtype.
    Variable(Variable),
    /// A number, which takes its dtype from the other operand.
    Number(Scalar),
}

/// The requirement on inputs of different shapes, for error messages.
pub(crate) const MUST_BROADCAST: &str = "sizes must be equal or 1, counted from the last axis";

impl Operand {
    /// Returns two operands of equal shape and dtype: numbers are filled out, arrays are cast and
    /// broadcast.
    ///
    /// If two arrays have to be cast or broadcast, these steps and the function become parts of one
    /// composite, which lasts as long as the guard.
    #[track_caller]
    pub(crate) fn pair(function: &'static str, a: Self, b: Self) -> ([Variable; 2], Option<Whole>) {
        let pair = match (a, b) {
            (Self::Variable(a), Self::Variable(b)) => {
                if a.has_same_spec(&b) {
                    return ([a, b], None);
                }
                let whole = composite(function);
                let (a_spec, b_spec) = (a.spec(), b.spec());
                let Some(shape) = a_spec.shape.broadcast(&b_spec.shape) else {
                    let inputs = [("a", &a_spec), ("b", &b_spec)];
                    mismatch(function, &inputs, MUST_BROADCAST)
                };
                let dtype = a_spec.dtype.promote(b_spec.dtype);
                let shape = shape.addressable(function);
                let pair = [a, b].map(|x| broadcast_to(cast(x, dtype), &shape));
                return (pair, Some(whole));
            }
            (Self::Variable(a), Self::Number(b)) => {
                let (a, b) = beside(a, b);
                [a, b]
            }
            (Self::Number(a), Self::Variable(b)) => {
                let (b, a) = beside(b, a);
                [a, b]
            }
            (Self::Number(a), Self::Number(b)) => {
                let dtype = a.dtype().promote(b.dtype());
                [a, b].map(|x| Variable::constant(Array::scalar(x.cast(dtype))))
            }
        };
        (pair, None)
    }

    /// Returns the operand as a Variable, next to values of `dtype`.
    #[track_caller]
    pub(crate) fn beside(self, dtype: DType) -> Variable {
        match self {
            Self::Variable(x) => x,
            Self::Number(x) => Variable::constant(Array::scalar(x.beside(dtype))),
        }
    }
}

/// What an iterator over references gives.
impl From<&&Self> for Variable {
    fn from(x: &&Self) -> Self {
        Self::clone(x)
    }
}

/// A bound of [`clip`](crate::functions::clip): an [`Operand`], or `None` where there is none.
#[derive(Clone, Debug)]
pub struct Bound(Option<Operand>);

impl Bound {
    /// Returns the bound, or the number that bounds nothing.
    pub(crate) fn or(self, nothing: f64) -> Operand {
        self.0.unwrap_or_else(|| nothing.into())
    }

    /// Returns the bound, if there is one.
    pub(crate) fn bounds(self) -> Option<Operand> {
        self.0
    }

    /// Whether integers between such bounds are integers.
    pub(crate) fn is_integer(&self) -> bool {
        let dtype = self.0.as_ref().map(|bound| match bound {
            Operand::Variable(bound) => bound.dtype(),
            Operand::Number(bound) => bound.dtype(),
        });
        dtype.is_none_or(|dtype| !dtype.is_differentiable())
    }
}

impl<T: Into<Operand>> From<T> for Bound {
    fn from(bound: T) -> Self {
        Self(Some(bound.into()))
    }
}

/// The only conversion from an [`Option`], so that Rust can tell the type of `None`.
impl From<Option<f64>> for Bound {
    fn from(bound: Option<f64>) -> Self {
        Self(bound.map(Operand::from))
    }
}

/// Returns a Variable, and a number filled out to its shape.
#[track_caller]
fn beside(x: Variable, number: Scalar) -> (Variable, Variable) {
    let Spec { shape, dtype } = x.spec();
    let number = number.beside(dtype);
    let common = number.dtype();
    (
        cast(x, common),
        Variable::constant(Array::full(shape, number)),
    )
}

impl From<Variable> for Operand {
    fn from(x: Variable) -> Self {
        Self::Variable(x)
    }
}
impl From<&Variable> for Operand {
    fn from(x: &Variable) -> Self {
        Self::Variable(x.clone())
    }
}
impl From<&mut Variable> for Operand {
    fn from(x: &mut Variable) -> Self {
        Self::Variable(x.clone())
    }
}
impl From<Array> for Operand {
    fn from(x: Array) -> Self {
        Self::Variable(Variable::constant(x))
    }
}
impl From<&Array> for Operand {
    fn from(x: &Array) -> Self {
        Self::Variable(Variable::constant(x.clone()))
    }
}
impl<T, const N: usize> From<[T; N]> for Operand
where
    Array: From<[T; N]>,
{
    fn from(x: [T; N]) -> Self {
        Self::from(Array::from(x))
    }
}
impl<T> From<Vec<T>> for Operand
where
    Array: From<Vec<T>>,
{
    fn from(x: Vec<T>) -> Self {
        Self::from(Array::from(x))
    }
}
macro_rules! operand_from_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Operand {
            fn from(x: $number) -> Self {
                Self::Number(x.into())
            }
        }
    )*};
}
operand_from_numbers!(
    bool,
    u8,
    i32,
    i64,
    usize,
    f16,
    bf16,
    f32,
    f64,
    Complex<f32>,
    Complex<f64>,
    Scalar
);
