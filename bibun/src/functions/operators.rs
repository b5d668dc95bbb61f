//! The operators `+ - * /` and `-x`, for every mix of Variables, references to them, arrays and
//! Rust numbers on either side.
//!
//! On the left, numbers are only `f64`, `i32` and `Complex<f64>`: with two float types of literals to
//! choose from, Rust could not infer the type of `2.0` in `(2.0 * x).exp()`.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bibun_array::{Array, Complex};

use crate::functions::{Operand, add, divide, multiply, negative, subtract};
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
}

impl Neg for Variable {
    type Output = Variable;
    #[track_caller]
    fn neg(self) -> Variable {
        negative(self)
    }
}

impl Neg for &Variable {
    type Output = Variable;
    #[track_caller]
    fn neg(self) -> Variable {
        negative(self)
    }
}
