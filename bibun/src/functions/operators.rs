//! The operators `+ - * /` and `-x`, and `& | ^` and `!x` of integers and bools, for every mix of Variables,
//! references to them, arrays and Rust numbers on either side.
//!
//! On the left, numbers are only `f64`, `i32` and `Complex<f64>`: with two float types of literals to
//! choose from, Rust could not infer the type of `2.0` in `(2.0 * x).exp()`.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Sub, SubAssign,
};

use bibun_array::{Array, Complex};

use crate::functions::{
    Operand, add, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, divide, multiply, negative,
    subtract,
};
use crate::variable::Variable;

macro_rules! operators {
    ($($Operator:ident::$operator:ident, $Assign:ident::$assign:ident => $function:ident;)+) => {$(
        impl<B: Into<Operand>> $Operator<B> for Variable {
            type Output = Variable;
            #[track_caller]
            fn $operator(self, b: B) -> Variable {
                $function(self, b)
            }
        }
        impl<B: Into<Operand>> $Operator<B> for &Variable {
            type Output = Variable;
            #[track_caller]
            fn $operator(self, b: B) -> Variable {
                $function(self, b)
            }
        }
        /// Rebinds the name to the result; other handles of the original Variable are unaffected.
        impl<B: Into<Operand>> $Assign<B> for Variable {
            #[track_caller]
            fn $assign(&mut self, b: B) {
                *self = $function(&*self, b);
            }
        }
        operators!(@left $Operator::$operator => $function, f64, i32, Complex<f64>, Array, &Array);
    )+};
    (@left $Operator:ident::$operator:ident => $function:ident, $($Left:ty),+) => {$(
        impl $Operator<Variable> for $Left {
            type Output = Variable;
            #[track_caller]
            fn $operator(self, b: Variable) -> Variable {
                $function(self, b)
            }
        }
        impl $Operator<&Variable> for $Left {
            type Output = Variable;
            #[track_caller]
            fn $operator(self, b: &Variable) -> Variable {
                $function(self, b)
            }
        }
    )+};
}

operators! {
    Add::add, AddAssign::add_assign => add;
    Sub::sub, SubAssign::sub_assign => subtract;
    Mul::mul, MulAssign::mul_assign => multiply;
    Div::div, DivAssign::div_assign => divide;
    BitAnd::bitand, BitAndAssign::bitand_assign => bitwise_and;
    BitOr::bitor, BitOrAssign::bitor_assign => bitwise_or;
    BitXor::bitxor, BitXorAssign::bitxor_assign => bitwise_xor;
}

macro_rules! operators_of_one {
    ($($Operator:ident::$operator:ident => $function:ident of $($X:ty),+;)+) => {$($(
        impl $Operator for $X {
            type Output = Variable;
            #[track_caller]
            fn $operator(self) -> Variable {
                $function(self)
            }
        }
    )+)+};
}

operators_of_one! {
    Neg::neg => negative of Variable, &Variable;
    Not::not => bitwise_not of Variable, &Variable;
}
