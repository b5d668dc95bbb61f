//! Addition, subtraction, multiplication, division and negation: the functions behind the
//! operators.

use crate::functions::families::{binary_function, call, element_function, function_type};
use crate::functions::to_number;
use crate::variable::Variable;

binary_function! {
    /// Adds `a` and `b` element by element, broadcast; the operator `+`.
    ///
    /// Gradient: `gy` to both.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([[1.0], [2.0]]);
    /// let y = &x + &Variable::new([10.0, 20.0]);
    /// assert_eq!(y.to_vec::<f64>(), [11.0, 21.0, 12.0, 22.0]);
    /// ```
    add(a, b) -> Add;
    operation: Add;
    derivative(; gy): gy;
    derivative(; gy): gy;
}

binary_function! {
    /// Subtracts `b` from `a` element by element, broadcast; the operator `-`.
    ///
    /// Gradient: `gy` to a, `-gy` to b.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((3.0 - Variable::new([1.0, 5.0])).to_vec::<f64>(), [2.0, -2.0]);
    /// ```
    subtract(a, b) via to_number -> Subtract;
    operation: Subtract;
    derivative(; gy): gy;
    derivative(; gy): -gy;
}

binary_function! {
    /// Multiplies `a` and `b` element by element, broadcast; the operator `*`.
    ///
    /// Gradient: `gy b` to a, `gy a` to b.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((2.0 * Variable::new([1.0, 5.0])).to_vec::<f64>(), [2.0, 10.0]);
    /// ```
    multiply(a, b) -> Multiply;
    operation: Multiply;
    derivative(b; gy): gy * b;
    derivative(a; gy): gy * a;
}

binary_function! {
    /// Divides `a` by `b` element by element, broadcast; the operator `/`.
    ///
    /// Gradient: `gy / b` to a, `-gy y / b` to b.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((1.0 / Variable::new([2.0, 4.0])).to_vec::<f64>(), [0.5, 0.25]);
    /// ```
    divide(a, b) via to_differentiable -> Divide;
    operation: Divide;
    derivative(b; gy): gy / b;
    derivative(b, y; gy): -(gy * y / b);
}

/// Negates each element; the prefix operator `-`.
///
/// Shapes: x any → the same.
/// Types: all; bool gives i64.
/// Gradient: `-gy`.
///
/// ```
/// use bibun::Variable;
/// assert_eq!((-Variable::new([1.0, -2.0])).to_vec::<f64>(), [-1.0, 2.0]);
/// ```
#[track_caller]
pub fn negative(x: impl Into<Variable>) -> Variable {
    call(Negative::function(), &[], [to_number(x.into())])
}

function_type!(negative, 1, Negative);

element_function! {
    Negative = "negative", [x] [];
    operation: Negative;
    derivative(; gy): -gy;
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    vec![
        Sample::binary("add", -2.0..2.0, -2.0..2.0, |a, b| a + b, |a, b| a + b),
        Sample::binary("subtract", -2.0..2.0, -2.0..2.0, |a, b| a - b, |a, b| a - b),
        Sample::binary("multiply", -2.0..2.0, -2.0..2.0, |a, b| a * b, |a, b| a * b),
        Sample::binary("divide", -2.0..2.0, 0.5..2.0, |a, b| a / b, |a, b| a / b),
        Sample::unary("negative", -2.0..2.0, |x| -x, |x| -x),
    ]
}

#[cfg(test)]
mod tests {
    use bibun_array::DType;

    use crate::Variable;

    #[test]
    fn integers_and_bools() {
        for dtype in [DType::U8, DType::I32, DType::I64] {
            let x = Variable::new(bibun_array::Array::from([250, 2]).cast(dtype));
            assert_eq!((&x + 4).dtype(), dtype);
            assert_eq!((&x + &x).cast(DType::I64).to_vec::<i64>()[1], 4);
        }
        let x = Variable::new([1, 2]);
        assert_eq!((&x / 4).to_vec::<f64>(), [0.25, 0.5]);
        assert_eq!((&x / 0.5).to_vec::<f64>(), [2.0, 4.0]);
        let flag = Variable::new([true, false]);
        assert_eq!((&flag - &flag).to_vec::<i64>(), [0, 0]);
        assert_eq!((-&flag).to_vec::<i64>(), [-1, 0]);
    }
}
