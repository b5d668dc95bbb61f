//! The operators of arrays: `+ - * / %`, `& | ^`, `-x`, `!x`, and assignments such as `+=`.
//!
//! Either operand may be an [`Array`], a `&Array` or a Rust number (see [`ArrayLike`] for the
//! dtypes). An array that is moved in and that no other array shares gives its memory to the
//! result. Broadcasting and the behaviour at the ends of the integers are described at the methods
//! of the same meaning, such as [`Array::add`] and [`Array::remainder`].
//!
//! A number on the left may be an `f64`, an `i32` or, for the bitwise operators, a `bool`. With a
//! second float type, Rust could not infer the type of `1.0` in `(1.0 - x).log()`. The dtype of the
//! result is that of `x` in any case: write a variable of type `f32` as `f64::from(scale)`, which
//! loses nothing.
//!
//! ```
//! use bibun_array::Array;
//! let x = Array::from([0.0f32, 1.0]);
//! assert_eq!((1.0 - &x).sqrt().to_vec::<f32>(), [1.0, 0.0]);
//! ```

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Sub, SubAssign,
};

use crate::{Array, ArrayLike, Error, ops, raise};

/// With a single implementation for every right operand, the type of `x + 1.0` is known, so that
/// methods can be called on it.
macro_rules! operators {
    ($(
        $Trait:ident $method:ident, $Assign:ident $assign:ident: $function:ident,
        [$($number:ty),*];
    )+) => {$(
        impl<B: Into<ArrayLike>> $Trait<B> for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, b: B) -> Array {
                let b = b.into().beside(self.dtype());
                ops::$function(self, b)
            }
        }
        impl<B: Into<ArrayLike>> $Trait<B> for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, b: B) -> Array {
                self.clone().$method(b)
            }
        }
        impl<B: Into<ArrayLike>> $Assign<B> for Array {
            #[track_caller]
            fn $assign(&mut self, b: B) {
                assign(self, stringify!($assign), ops::$function, b.into());
            }
        }
        $(
            impl $Trait<Array> for $number {
                type Output = Array;
                #[track_caller]
                fn $method(self, b: Array) -> Array {
                    ops::$function(ArrayLike::from(self).beside(b.dtype()), b)
                }
            }
            impl $Trait<&Array> for $number {
                type Output = Array;
                #[track_caller]
                fn $method(self, b: &Array) -> Array {
                    self.$method(b.clone())
                }
            }
        )*
    )+};
}

operators! {
    Add add, AddAssign add_assign: add, [f64, i32];
    Sub sub, SubAssign sub_assign: subtract, [f64, i32];
    Mul mul, MulAssign mul_assign: multiply, [f64, i32];
    Div div, DivAssign div_assign: divide, [f64, i32];
    Rem rem, RemAssign rem_assign: remainder, [f64, i32];
    BitAnd bitand, BitAndAssign bitand_assign: bitwise_and, [bool, i32];
    BitOr bitor, BitOrAssign bitor_assign: bitwise_or, [bool, i32];
    BitXor bitxor, BitXorAssign bitxor_assign: bitwise_xor, [bool, i32];
}

macro_rules! prefix_operators {
    ($($Trait:ident $method:ident: $function:ident;)+) => {$(
        impl $Trait for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self) -> Array {
                ops::$function(self)
            }
        }
        impl $Trait for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self) -> Array {
                ops::$function(self.clone())
            }
        }
    )+};
}

prefix_operators! {
    Neg neg: negative;
    Not not: invert;
}

/// Computes `x = function(x, b)`, in the memory of `x` if no other array shares it. As in NumPy,
/// `x` keeps its shape and its dtype, and the result must fit that dtype without a change of kind.
#[track_caller]
fn assign(x: &mut Array, name: &'static str, function: fn(Array, Array) -> Array, b: ArrayLike) {
    let dtype = x.dtype();
    let b = b.beside(dtype);
    if x.shape().broadcast(b.shape()).as_ref() != Some(x.shape()) {
        let what = format!("x {} cannot take in b {}", x.shape(), b.shape());
        raise(Error::invalid(name, what));
    }
    // Single values determine the dtype of the result, and raise any error of the function, while x
    // is still intact.
    let result = function(Array::zeros((), dtype), Array::zeros((), b.dtype())).dtype();
    if result.kind() > dtype.kind() {
        let what = format!("the result is {result} and cannot be kept as {dtype}");
        raise(Error::invalid(name, what));
    }
    let taken = std::mem::replace(x, Array::zeros((), dtype));
    *x = ops::cast(function(taken, b), dtype);
}
