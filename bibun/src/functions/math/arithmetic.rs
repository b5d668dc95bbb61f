//! Addition, subtraction, multiplication, division and negation: what the operators call.

use bibun_array::{Array, ops};

use crate::context::Context;
use crate::function::{Keeps, Needs};
use crate::functions::family::{Elementwise, ElementwiseRule, plain};
use crate::functions::{Operand, to_number};
use crate::variable::Variable;

/// Declares the function in front of a rule of two inputs.
macro_rules! front {
    ($(#[$documentation:meta])* $name:ident $(via $convert:ident)?, $Rule:ident) => {
        $(#[$documentation])*
        #[track_caller]
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Variable {
            let (inputs, _whole) = Operand::pair(stringify!($name), a.into(), b.into());
            $(let inputs = inputs.map(crate::functions::$convert);)?
            let [y] = crate::apply(Elementwise::<2, _>($Rule), inputs);
            y
        }

        #[derive(Clone, Copy, Debug)]
        struct $Rule;
    };
}

front! {
    /// `a + b`, broadcast; the operator `+`.
    ///
    /// Shapes: a, b that broadcast → their common shape. Types: all, promoted.
    /// Gradient: `gy` to both.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([[1.0], [2.0]]);
    /// let y = &x + &Variable::new([10.0, 20.0]);
    /// assert_eq!(y.to_vec::<f64>(), [11.0, 21.0, 12.0, 22.0]);
    /// ```
    add, AddRule
}

impl ElementwiseRule<2> for AddRule {
    const NAME: &'static str = "add";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING
    }
    fn forward(self, [a, b]: [Array; 2]) -> Array {
        ops::add(a, b)
    }
    fn partial(self, _: usize, _: &Context<'_>, g: Variable) -> Variable {
        g
    }
}

front! {
    /// `a - b`, broadcast; the operator `-`.
    ///
    /// Shapes: a, b that broadcast → their common shape. Types: all, promoted; bool gives i64.
    /// Gradient: `gy` to a, `-gy` to b.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((3.0 - Variable::new([1.0, 5.0])).to_vec::<f64>(), [2.0, -2.0]);
    /// ```
    subtract via to_number, SubtractRule
}

impl ElementwiseRule<2> for SubtractRule {
    const NAME: &'static str = "subtract";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING
    }
    fn forward(self, [a, b]: [Array; 2]) -> Array {
        ops::subtract(a, b)
    }
    fn partial(self, i: usize, _: &Context<'_>, g: Variable) -> Variable {
        if i == 0 { g } else { -g }
    }
}

front! {
    /// `a b`, element by element, broadcast; the operator `*`.
    ///
    /// Shapes: a, b that broadcast → their common shape. Types: all, promoted.
    /// Gradient: `gy b` to a, `gy a` to b.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((2.0 * Variable::new([1.0, 5.0])).to_vec::<f64>(), [2.0, 10.0]);
    /// ```
    multiply, MultiplyRule
}

impl ElementwiseRule<2> for MultiplyRule {
    const NAME: &'static str = "multiply";
    fn keeps(needs: Needs<'_>) -> Keeps {
        let keeps = if needs[0] {
            Keeps::NOTHING.b()
        } else {
            Keeps::NOTHING
        };
        if needs[1] { keeps.a() } else { keeps }
    }
    fn forward(self, [a, b]: [Array; 2]) -> Array {
        ops::multiply(a, b)
    }
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable {
        let factor = if i == 0 { cx.b() } else { cx.a() };
        // PERF: the product as such, without the door, where nobody will look behind it.
        match plain([&g, &factor]) {
            Some([g_array, factor]) => {
                drop(g);
                Variable::constant(ops::multiply(g_array, factor))
            }
            None => g * factor,
        }
    }
}

front! {
    /// `a / b`, element by element, broadcast; the operator `/`. Integers give f64.
    ///
    /// Shapes: a, b that broadcast → their common shape. Types: all, promoted.
    /// Gradient: `gy / b` to a, `-gy y / b` to b.
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!((1.0 / Variable::new([2.0, 4.0])).to_vec::<f64>(), [0.5, 0.25]);
    /// ```
    divide via to_float, DivideRule
}

impl ElementwiseRule<2> for DivideRule {
    const NAME: &'static str = "divide";
    fn keeps(needs: Needs<'_>) -> Keeps {
        let keeps = Keeps::NOTHING.b();
        if needs[1] { keeps.y() } else { keeps }
    }
    fn forward(self, [a, b]: [Array; 2]) -> Array {
        ops::divide(a, b)
    }
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable {
        if i == 0 {
            g / cx.b()
        } else {
            -(g * cx.y() / cx.b())
        }
    }
}

/// `-x`; the prefix operator `-`.
///
/// Shapes: x any → the same. Types: all; bool gives i64. Gradient: `-gy`.
///
/// ```
/// use bibun::Variable;
/// assert_eq!((-Variable::new([1.0, -2.0])).to_vec::<f64>(), [-1.0, 2.0]);
/// ```
#[track_caller]
pub fn negative(x: impl Into<Variable>) -> Variable {
    let [y] = crate::apply(Elementwise::<1, _>(NegativeRule), [to_number(x.into())]);
    y
}

#[derive(Clone, Copy, Debug)]
struct NegativeRule;

impl ElementwiseRule<1> for NegativeRule {
    const NAME: &'static str = "negative";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING
    }
    fn forward(self, [x]: [Array; 1]) -> Array {
        ops::negative(x)
    }
    fn partial(self, _: usize, _: &Context<'_>, g: Variable) -> Variable {
        -g
    }
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
        let x = Variable::new([1, 2]);
        assert_eq!((&x + &x).dtype(), DType::I64);
        assert_eq!((&x / 4).to_vec::<f64>(), [0.25, 0.5]);
        assert_eq!((&x / 0.5).to_vec::<f64>(), [2.0, 4.0]);
        let flag = Variable::new([true, false]);
        assert_eq!((&flag - &flag).to_vec::<i64>(), [0, 0]);
        assert_eq!((-&flag).to_vec::<i64>(), [-1, 0]);
    }
}
