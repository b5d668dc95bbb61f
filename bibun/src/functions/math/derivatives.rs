//! What derivatives of other functions are made of: functions of their own where a formula of
//! sums, products and roots would lose a small difference, overflow on the way, or multiply zero by
//! an infinity. Their own derivatives are made of them again, so that this holds at every order.

use bibun_array::Array;

use crate::context::Context;
use crate::function::{Keeps, Needs};
use crate::functions::family::{Elementwise, ElementwiseRule, number_kernel};
use crate::functions::{Operand, hypot, tanh, where_};
use crate::variable::Variable;

impl Variable {
    /// `sigmoid(x) sigmoid(-x)`, the density of the logistic distribution: the derivative of the
    /// sigmoid.
    pub(crate) fn logistic_density(&self) -> Self {
        let [y] = crate::apply(Elementwise::<1, _>(LogisticDensity {}), [self.clone()]);
        y
    }

    /// `1 - x²`, which loses nothing near -1 and 1.
    pub(crate) fn one_minus_square(&self) -> Self {
        let [y] = crate::apply(Elementwise::<1, _>(OneMinusSquare {}), [self.clone()]);
        y
    }

    /// `a / √(a² + b²)`, the cosine of the angle between the first axis and the way to `(a, b)`;
    /// 0 at the origin.
    pub(crate) fn direction(&self, b: impl Into<Operand>) -> Self {
        let (inputs, _whole) = Operand::pair("direction", self.into(), b.into());
        let [y] = crate::apply(Elementwise::<2, _>(Direction {}), inputs);
        y
    }

    /// `√(a² + b²)` as a divisor of directions: 1 at the origin, where these are 0.
    pub(crate) fn distance(&self, b: &Self) -> Self {
        let distance = hypot(self, b);
        where_(distance.equal(0.0), 1.0, distance)
    }
}

#[derive(Clone, Copy, Debug)]
struct LogisticDensity {}

number_kernel!(
    Density,
    "logistic_density",
    LogisticDensity {},
    [x],
    x.logistic_density()
);

impl ElementwiseRule<1> for LogisticDensity {
    const NAME: &'static str = "logistic_density";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING.x()
    }
    fn forward(self, inputs: [Array; 1]) -> Array {
        Density::run(self, inputs)
    }
    fn partial(self, _: usize, cx: &Context<'_>, g: Variable) -> Variable {
        -(g * cx.x().logistic_density() * tanh(cx.x() * 0.5))
    }
}

#[derive(Clone, Copy, Debug)]
struct OneMinusSquare {}

number_kernel!(
    Product,
    "one_minus_square",
    OneMinusSquare {},
    [x],
    (1.0 - x) * (1.0 + x)
);

impl ElementwiseRule<1> for OneMinusSquare {
    const NAME: &'static str = "one_minus_square";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING.x()
    }
    fn forward(self, inputs: [Array; 1]) -> Array {
        Product::run(self, inputs)
    }
    fn partial(self, _: usize, cx: &Context<'_>, g: Variable) -> Variable {
        g * (cx.x() * -2.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Direction {}

number_kernel!(Cosine, "direction", Direction {}, [a, b], {
    // As parts of the larger one, whose squares are neither too large nor both too small. Infinite
    // ones count as equal, as atan2 has it.
    let largest = a.abs().maximum(b.abs());
    let u = (a.abs().equal(f64::INFINITY)).where_(a.sign(), a / largest);
    let v = (b.abs().equal(f64::INFINITY)).where_(b.sign(), b / largest);
    (largest.equal(0.0)).where_(0.0, u / (u * u + v * v).sqrt())
});

impl ElementwiseRule<2> for Direction {
    const NAME: &'static str = "direction";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING.a().b()
    }
    fn forward(self, inputs: [Array; 2]) -> Array {
        Cosine::run(self, inputs)
    }
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable {
        let (a, b) = (cx.a(), cx.b());
        let other = b.direction(&a);
        let turn = &other / a.distance(&b);
        match i {
            0 => g * other * turn,
            _ => -(g * a.direction(&b) * turn),
        }
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    vec![
        Sample::unary(
            "logistic_density",
            -3.0..3.0,
            Variable::logistic_density,
            |x| 1.0 / (2.0 + x.exp() + (-x).exp()),
        ),
        Sample::unary(
            "one_minus_square",
            -2.0..2.0,
            Variable::one_minus_square,
            |x| 1.0 - x * x,
        ),
        Sample::binary(
            "direction",
            0.5..2.0,
            -2.0..-0.5,
            |a, b| a.direction(b),
            |a, b| a / f64::hypot(a, b),
        ),
    ]
}
