//! What derivatives of other functions are made of: functions of their own where a formula of
//! sums, products and roots would lose a small difference, overflow on the way, or multiply zero by
//! an infinity. Their own derivatives are made of them again, so that this holds at every order.

use bibun_array::{Array, DType};

use crate::context::Context;
use crate::function::{Keeps, Needs};
use crate::functions::family::{Elementwise, ElementwiseRule, number_kernel};
use crate::functions::{Operand, tanh};
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

    /// `a / (a² + b²)`, the first coordinate of `(a, b)` inverted in the unit circle; 0 at the
    /// origin.
    pub(crate) fn inversion(&self, b: &Self) -> Self {
        let [y] = crate::apply(Elementwise::<2, _>(Inversion {}), [self.clone(), b.clone()]);
        y
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

/// `[u, v, largest]`: both as parts of the larger one, whose squares are neither too large nor both
/// too small. Infinite ones count as equal, as atan2 has it.
macro_rules! parts {
    ($a:ident, $b:ident) => {{
        let largest = $a.abs().maximum($b.abs());
        let u = ($a.abs().equal(f64::INFINITY)).where_($a.sign(), $a / largest);
        let v = ($b.abs().equal(f64::INFINITY)).where_($b.sign(), $b / largest);
        [u, v, largest]
    }};
}

number_kernel!(Cosine, "direction", Direction {}, [a, b], {
    let [u, v, largest] = parts!(a, b);
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
        // No part of it is none of an infinity, too.
        let part = |direction: Variable| {
            let inversion = direction.equal(0.0).where_(0.0, b.inversion(&a));
            g * direction * inversion
        };
        match i {
            0 => part(b.direction(&a)),
            _ => -part(a.direction(&b)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Inversion {}

number_kernel!(Inverted, "inversion", Inversion {}, [a, b], {
    let [u, v, largest] = parts!(a, b);
    (largest.equal(0.0)).where_(0.0, u / (u * u + v * v) / largest)
});

impl ElementwiseRule<2> for Inversion {
    const NAME: &'static str = "inversion";
    fn keeps(_: Needs<'_>) -> Keeps {
        Keeps::NOTHING.a().b()
    }
    fn forward(self, inputs: [Array; 2]) -> Array {
        Inverted::run(self, inputs)
    }
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable {
        // The real and the imaginary part of the square of 1 / (b + a i).
        let (a, b) = (cx.a(), cx.b());
        // Short of infinity, for the sake of their difference.
        let most = 0.5
            * if a.dtype() == DType::F32 {
                f64::from(f32::MAX)
            } else {
                f64::MAX
            };
        let [s, t] = [a.inversion(&b), b.inversion(&a)].map(|x| x.clip(-most, most));
        match i {
            0 => g * (&t - &s) * (t + s),
            _ => g * s * t * -2.0,
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
        Sample::binary(
            "inversion",
            0.5..2.0,
            -2.0..-0.5,
            |a, b| a.inversion(b),
            |a, b| a / (a * a + b * b),
        ),
    ]
}
