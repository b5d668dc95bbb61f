//! Building blocks of derivatives of other functions. Each is a function of its own because a
//! formula of sums, products and roots would lose a small difference, overflow in between, or
//! multiply zero by an infinity. Their own derivatives are built from them again, so that this
//! holds at every order.

use bibun_array::Number;
use bibun_array::math::Float;

#[cfg(test)]
use crate::functions::Operand;
use crate::functions::families::{call, element_function};
use crate::variable::Variable;

impl Variable {
    /// Computes `e^x` of numbers that are not positive, in fewer steps than [`exp`](Self::exp) and with
    /// the same bits.
    pub(crate) fn exp_of_negative(&self) -> Self {
        call(ExpOfNegative::function(), &[], [self.clone()])
    }
}

/// For the table of checks.
#[cfg(test)]
impl Variable {
    /// Computes `sigmoid(x) sigmoid(-x)`, the density of the logistic distribution, which is the
    /// derivative of the sigmoid.
    pub(crate) fn logistic_density(&self) -> Self {
        call(LogisticDensity::function(), &[], [self.clone()])
    }

    /// Computes the density of the standard normal distribution.
    pub(crate) fn normal_density(&self) -> Self {
        call(NormalDensity::function(), &[], [self.clone()])
    }

    /// Computes `1 - x²` without cancellation near -1 and 1.
    pub(crate) fn one_minus_square(&self) -> Self {
        call(OneMinusSquare::function(), &[], [self.clone()])
    }

    /// Computes `a / √(a² + b²)`, the cosine of the angle between the first axis and the vector
    /// `(a, b)`; 0 at the origin.
    pub(crate) fn direction(&self, b: impl Into<Operand>) -> Self {
        let (inputs, _whole) = Operand::pair("direction", self.into(), b.into());
        call(Direction::function(), &[], inputs)
    }

    /// Computes `a / (a² + b²)`, the first coordinate of `(a, b)` inverted in the unit circle; 0 at
    /// the origin.
    pub(crate) fn inversion(&self, b: &Self) -> Self {
        call(Inversion::function(), &[], [self.clone(), b.clone()])
    }
}

pub(super) struct LogisticDensity;

element_function! {
    LogisticDensity = "logistic_density", [x] [];
    value: x.logistic_density();
    derivative(x; gy): -(gy * x.logistic_density() * (x * 0.5).tanh());
}

pub(super) struct ExpOfNegative;

element_function! {
    ExpOfNegative = "exp_of_negative", [x] [];
    operation: ExpOfNegative;
    derivative(y; gy): gy * y;
}

pub(super) struct NormalDensity;

element_function! {
    NormalDensity = "normal_density", [x] [];
    operation: NormalDensity;
    // Beyond 40 the density is 0, which must not be multiplied by an infinity.
    derivative(x; gy): -(gy * x.clip(-40.0, 40.0) * x.normal_density());
}

pub(super) struct OneMinusSquare;

element_function! {
    OneMinusSquare = "one_minus_square", [x] [];
    value: x.one_minus_square();
    derivative(x; gy): gy * (x * -2.0);
}

pub(super) struct Direction;

element_function! {
    Direction = "direction", [a, b] [];
    value: a.direction(b);
    derivative(a, b; gy): {
        // Where the direction is 0 the product is 0, even if the inversion is infinite.
        let direction = b.direction(a);
        gy * direction * direction.equal(0.0).where_(0.0, b.inversion(a))
    };
    derivative(a, b; gy): {
        let direction = a.direction(b);
        -(gy * direction * direction.equal(0.0).where_(0.0, b.inversion(a)))
    };
}

pub(super) struct Inversion;

/// Returns `a / (a² + b²)` and `b / (a² + b²)`, clipped so that their sum and difference stay
/// finite.
fn parts<T: Float>(a: Number<T>, b: Number<T>) -> [Number<T>; 2] {
    let most = Number::largest() * 0.5;
    [a.inversion(b), b.inversion(a)].map(|x| x.clip(-most, most))
}

element_function! {
    Inversion = "inversion", [a, b] [];
    value: a.inversion(b);
    derivative(a, b; gy): {
        let [s, t] = parts(a, b);
        gy * (t - s) * (t + s)
    };
    derivative(a, b; gy): {
        let [s, t] = parts(a, b);
        gy * s * t * -2.0
    };
}

pub(super) struct Softplus;

element_function! {
    Softplus = "softplus", [x] [];
    operation: Softplus;
    derivative(x; gy): gy * x.sigmoid();
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
            "exp_of_negative",
            0.5..3.0,
            |x| (-x.abs()).exp_of_negative(),
            |x| (-x.abs()).exp(),
        ),
        Sample::unary("normal_density", -3.0..3.0, Variable::normal_density, |x| {
            (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
        }),
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
