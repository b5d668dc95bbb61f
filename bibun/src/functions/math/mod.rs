//! Functions of mathematics: arithmetic, exponentials, trigonometry, reductions.

mod arithmetic;
mod comparison;
mod derivatives;
mod elementwise;
mod error_function;
mod exponential;
mod extreme;
mod finding;
mod hyperbolic;
mod logsumexp;
mod norm;
mod piecewise;
mod power;
mod reduction;
mod rounding;
mod scan;
mod sort;
mod trigonometric;

use bibun_array::formula::Operation;

use crate::function::no_rule;
use crate::functions::family::ElementFunction;

pub use arithmetic::*;
pub use comparison::*;
pub use elementwise::*;
pub use error_function::*;
pub use exponential::*;
pub use extreme::*;
pub use finding::*;
pub use hyperbolic::*;
pub use logsumexp::*;
pub use norm::*;
pub use piecewise::*;
pub use power::*;
pub use reduction::*;
pub use rounding::*;
pub use scan::*;
pub use sort::*;
pub use trigonometric::*;

/// The function that an operation of formulas is, with its derivatives.
pub(in crate::functions) fn of_operation(operation: Operation) -> &'static ElementFunction {
    use Operation::*;
    match operation {
        Add => arithmetic::Add::function(),
        Subtract => arithmetic::Subtract::function(),
        Multiply => arithmetic::Multiply::function(),
        Divide => arithmetic::Divide::function(),
        Negative => arithmetic::Negative::function(),
        Abs => rounding::Abs::function(),
        Sign => rounding::Sign::function(),
        Floor => rounding::Floor::function(),
        Ceil => rounding::Ceil::function(),
        Trunc => rounding::Trunc::function(),
        Round => rounding::Round::function(),
        Maximum => rounding::Maximum::function(),
        Minimum => rounding::Minimum::function(),
        Fmod => rounding::Fmod::function(),
        Remainder => rounding::Remainder::function(),
        Hypot => rounding::Hypot::function(),
        Square => power::Square::function(),
        Reciprocal => power::Reciprocal::function(),
        Sqrt => power::Sqrt::function(),
        Rsqrt => power::Rsqrt::function(),
        Cbrt => power::Cbrt::function(),
        Power => power::Pow::function(),
        Exp => exponential::Exp::function(),
        Exp2 => exponential::Exp2::function(),
        Expm1 => exponential::Expm1::function(),
        Log => exponential::Log::function(),
        Log2 => exponential::Log2::function(),
        Log10 => exponential::Log10::function(),
        Log1p => exponential::Log1p::function(),
        Logaddexp => exponential::LogAddExp::function(),
        Sigmoid => crate::functions::Sigmoid::function(),
        LogSigmoid => crate::functions::LogSigmoid::function(),
        LogisticDensity => derivatives::LogisticDensity::function(),
        OneMinusSquare => derivatives::OneMinusSquare::function(),
        Direction => derivatives::Direction::function(),
        Inversion => derivatives::Inversion::function(),
        Softplus => derivatives::Softplus::function(),
        Lgamma => derivatives::Lgamma::function(),
        Sin => trigonometric::Sin::function(),
        Cos => trigonometric::Cos::function(),
        Tan => trigonometric::Tan::function(),
        Asin => trigonometric::Asin::function(),
        Acos => trigonometric::Acos::function(),
        Atan => trigonometric::Atan::function(),
        Atan2 => trigonometric::Atan2::function(),
        Sinh => hyperbolic::Sinh::function(),
        Cosh => hyperbolic::Cosh::function(),
        Tanh => hyperbolic::Tanh::function(),
        Asinh => hyperbolic::Asinh::function(),
        Acosh => hyperbolic::Acosh::function(),
        Atanh => hyperbolic::Atanh::function(),
        Erf => error_function::Erf::function(),
        Erfc => error_function::Erfc::function(),
        Erfinv => error_function::Erfinv::function(),
        Digamma => no_rule(
            "digamma",
            "derivative",
            "no formula of its derivative is known here",
        ),
        Input(_) | Given(_) | Constant(_) | Always(_) | Largest | MultiplyAdd | Clip | Equal
        | Less | LessEqual | IsNan | And | Or | Not | Select | PowerOfTwo | IsOdd | HasBitOfTwo
        | Exponent | Fraction | CopySign | IsSignNegative | Widen | Narrow | Whole(_) | Xor
        | Quotient | Rest | BitsAnd | BitsOr | BitsXor | ToNumber | ToInteger => {
            unreachable!("{operation:?} is no function, or its derivative is written elsewhere")
        }
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        arithmetic::samples(),
        comparison::samples(),
        derivatives::samples(),
        elementwise::samples(),
        error_function::samples(),
        exponential::samples(),
        extreme::samples(),
        finding::samples(),
        hyperbolic::samples(),
        logsumexp::samples(),
        norm::samples(),
        piecewise::samples(),
        power::samples(),
        reduction::samples(),
        rounding::samples(),
        scan::samples(),
        sort::samples(),
        trigonometric::samples(),
    ]
    .concat()
}
