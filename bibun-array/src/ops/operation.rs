//! The loops of the operations that formulas are made of.

use super::arithmetic::*;
use super::comparison::*;
use super::elementary::*;
use super::rounding::*;
use super::selection::{CLIP, run_where, where_formula};
use crate::dtype::with_float;
use crate::formula::Operation;
use crate::{Definition, Kind, Number};

impl Operation {
    /// The kernel of the operation; `None` where it is composed of others.
    ///
    /// ```
    /// use bibun_array::formula::Operation;
    /// assert_eq!(Operation::Tanh.definition().unwrap().name(), "tanh");
    /// ```
    pub const fn definition(self) -> Option<&'static Definition> {
        definition(self)
    }
}

const fn definition(operation: Operation) -> Option<&'static Definition> {
    use Operation::*;
    Some(match operation {
        Add => ADD,
        Subtract => SUBTRACT,
        Multiply => MULTIPLY,
        Divide => DIVIDE,
        MultiplyAdd => MULTIPLY_ADD,
        Negative => NEGATIVE,
        Abs => ABS,
        Sign => SIGN,
        Sqrt => SQRT,
        Floor => FLOOR,
        Ceil => CEIL,
        Trunc => TRUNC,
        Round => ROUND,
        Maximum => MAXIMUM,
        Minimum => MINIMUM,
        Clip => CLIP,
        Equal => EQUAL,
        Less => LESS,
        LessEqual => LESS_EQUAL,
        IsNan => IS_NAN,
        And => LOGICAL_AND,
        Or => LOGICAL_OR,
        Xor => LOGICAL_XOR,
        Not => LOGICAL_NOT,
        Select => SELECT,
        Square => SQUARE,
        Reciprocal => RECIPROCAL,
        Rsqrt => RSQRT,
        Cbrt => CBRT,
        Hypot => HYPOT,
        Power => POWER,
        Exp => EXP,
        Exp2 => EXP2,
        Expm1 => EXPM1,
        Log => LOG,
        Log2 => LOG2,
        Log10 => LOG10,
        Log1p => LOG1P,
        Logaddexp => LOGADDEXP,
        Sigmoid => SIGMOID,
        Softplus => SOFTPLUS,
        Sin => SIN,
        Cos => COS,
        Tan => TAN,
        Asin => ASIN,
        Acos => ACOS,
        Atan => ATAN,
        Atan2 => ATAN2,
        Sinh => SINH,
        Cosh => COSH,
        Tanh => TANH,
        Asinh => ASINH,
        Acosh => ACOSH,
        Atanh => ATANH,
        Erf => ERF,
        Erfc => ERFC,
        Erfinv => ERFINV,
        Lgamma => LGAMMA,
        Digamma => DIGAMMA,
        Fmod => FMOD,
        Remainder => REMAINDER,
        BitsAnd => BITWISE_AND,
        BitsOr => BITWISE_OR,
        BitsXor => BITWISE_XOR,
        CopySign => COPY_SIGN,
        IsSignNegative => IS_SIGN_NEGATIVE,
        LogSigmoid | LogisticDensity | OneMinusSquare | Direction | Inversion => return None,
        // Leaves, and what only expanded formulas have.
        Input(_) | Given(_) | Constant(_) | Always(_) | Whole(_) | Quotient | Rest | ToNumber
        | ToInteger | Largest | PowerOfTwo | IsOdd | HasBitOfTwo | Exponent | Fraction | Widen
        | Narrow => {
            return None;
        }
    })
}

const MULTIPLY_ADD: &Definition = &super::definition! { multiply_add[3] [a, b, c]:
    float: Number(a.0.mul_add(b.0, c.0)),
};

const COPY_SIGN: &Definition = &super::definition! { copysign[2] [a, b]:
    float: a.copysign(b),
};

const IS_SIGN_NEGATIVE: &Definition = &super::definition! { is_sign_negative[1] [x]:
    float_to_bool: crate::Mask(x.0.is_sign_negative()),
};

/// The choice between numbers.
const SELECT: &Definition = &Definition::new(
    "where_",
    None,
    |_| Some(where_formula(Kind::Float)),
    |given, inputs, out| with_float!(out.dtype(), T => run_where::<T>(given, inputs, out)),
);
