//! Mathematical functions: arithmetic, exponentials, trigonometry, reductions.

mod arithmetic;
mod binning;
mod bitwise;
mod closeness;
mod comparison;
mod derivatives;
mod differences;
mod distance;
mod elementwise;
mod error_function;
mod exponential;
mod extreme;
mod finding;
mod floating;
mod hyperbolic;
mod interpolation;
mod logsumexp;
mod norm;
mod order;
mod piecewise;
mod polynomial;
mod power;
mod quantile;
mod reduction;
mod rounding;
mod running;
mod scan;
mod sort;
mod trigonometric;
mod variance;
mod vectors;
mod without_nan;

use bibun_array::formula::Operation;

use crate::functions::families::ElementFunction;
use crate::functions::special::of_special;

pub use arithmetic::*;
pub use binning::*;
pub use bitwise::*;
pub use closeness::*;
pub use comparison::*;
pub use differences::*;
pub use distance::*;
pub use elementwise::*;
pub use error_function::*;
pub use exponential::*;
pub(in crate::functions) use extreme::if_number;
pub use extreme::*;
pub use finding::*;
pub use floating::*;
pub use hyperbolic::*;
pub use interpolation::*;
pub use logsumexp::*;
pub use norm::*;
pub use order::*;
pub use piecewise::*;
pub use polynomial::*;
pub use power::*;
pub use quantile::*;
pub use reduction::*;
pub use rounding::*;
pub use running::*;
pub use scan::*;
pub use sort::*;
pub use trigonometric::*;
pub use variance::*;
pub use vectors::*;
pub use without_nan::*;

/// Maps operations to functions: most have the same name, some have another, and some have no
/// function.
macro_rules! function_of {
    ($operation:ident: $($Same:ident)+; $($Operation:ident: $Rule:ident)+; none: $($None:ident)+) => {
        match $operation {
            $(Operation::$Same => $Same::function(),)+
            $(Operation::$Operation => $Rule::function(),)+
            Operation::Special(function) => of_special(function),
            $(Operation::$None { .. })|+ => {
                unreachable!("it is no function, or its derivative is written elsewhere")
            }
        }
    };
}

/// Returns the function of an operation of formulas, with its derivatives.
pub(in crate::functions) fn of_operation(operation: Operation) -> &'static ElementFunction {
    use crate::functions::{Digamma, Gelu, Lgamma, LogSigmoid, Ndtr, Sigmoid};
    use derivatives::{
        Direction, ExpOfNegative, Inversion, LogisticDensity, NormalDensity, OneMinusSquare,
        Softplus,
    };
    function_of! {
        operation:
        Add Subtract Multiply Divide Negative Abs Sign Floor Ceil Trunc Round Maximum Minimum Fmod
        Remainder Hypot Square Reciprocal Sqrt Rsqrt Cbrt Exp ExpOfNegative Exp2 Expm1 Log Log2 Log10 Log1p Sigmoid
        LogSigmoid LogisticDensity OneMinusSquare Direction Inversion Softplus Lgamma Digamma Sin Cos Tan Asin
        Acos Atan Atan2 Sinh Cosh Tanh Asinh Acosh Atanh Erf Erfc Erfinv NormalDensity Gelu;
        Power: Pow Logaddexp: LogAddExp NormalDistribution: Ndtr;
        none: Input Given Constant Always Largest MultiplyAdd Clip Equal Less LessEqual IsNan And Or Not
        Select PowerOfTwo IsOdd HasBitOfTwo Exponent Fraction CopySign IsSignNegative Widen Narrow
        Whole Xor Quotient Rest BitsAnd BitsOr BitsXor ToNumber ToInteger
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        arithmetic::samples(),
        binning::samples(),
        comparison::samples(),
        distance::samples(),
        derivatives::samples(),
        differences::samples(),
        elementwise::samples(),
        error_function::samples(),
        exponential::samples(),
        extreme::samples(),
        finding::samples(),
        floating::samples(),
        hyperbolic::samples(),
        logsumexp::samples(),
        norm::samples(),
        piecewise::samples(),
        polynomial::samples(),
        power::samples(),
        quantile::samples(),
        reduction::samples(),
        rounding::samples(),
        running::samples(),
        scan::samples(),
        sort::samples(),
        trigonometric::samples(),
        variance::samples(),
        without_nan::samples(),
        closeness::samples(),
        interpolation::samples(),
        order::samples(),
        vectors::samples(),
    ]
    .concat()
}
