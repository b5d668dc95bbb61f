//! Bessel functions.

use bibun_array::Number;
use bibun_array::math::Special as Function;

use crate::functions::families::{element_function, unary};

unary! {
    /// Computes the modified Bessel function `I₀` of each element.
    ///
    /// The relative error is below `1e-14` in f64.
    ///
    /// Gradient: `gy i1(x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6 and 9.7.
    ///
    /// ```
    /// use bibun::{functions::i0, Variable};
    /// let y = i0(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 1.0);
    /// assert!((y[1] - 1.266_065_877_752_008_4).abs() < 1e-15);
    /// ```
    i0(x) -> I0 {
        value: x.bessel_i(0.0),
        derivative(x; gy): gy * x.bessel_i(1.0),
        sample: (-3.0..3.0, |x| modified_reference(0, x)),
    }

    /// Computes the modified Bessel function `I₁` of each element.
    ///
    /// The relative error is below `1e-14` in f64.
    ///
    /// Gradient: `gy (I₀(x) + I₂(x)) / 2`, which is `gy (i0(x) - i1(x) / x)` without a division at zero.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6 and 9.7.
    ///
    /// ```
    /// use bibun::{functions::i1, Variable};
    /// let y = i1(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 0.0);
    /// assert!((y[1] - 0.565_159_103_992_485).abs() < 1e-15);
    /// ```
    i1(x) -> I1 {
        value: x.bessel_i(1.0),
        derivative(x; gy): gy * 0.5 * (x.bessel_i(0.0) + x.bessel_i(2.0)),
        sample: (-3.0..3.0, |x| modified_reference(1, x)),
    }

    /// Computes `e^-|x| I₀(x)` of each element, which does not overflow.
    ///
    /// The relative error is below `1e-14` in f64, that of the derivative below `1e-13`.
    ///
    /// Gradient: `gy (i1e(x) - sign(x) y)`, without cancellation far from zero; 0 at zero, the mean of the
    /// slopes on both sides.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6 and 9.7.
    ///
    /// ```
    /// use bibun::{functions::i0e, Variable};
    /// let y = i0e(Variable::new([0.0, 1e6])).to_vec::<f64>();
    /// assert_eq!(y[0], 1.0);
    /// assert!((y[1] - 3.989_423_302_692_458e-4).abs() < 1e-17);
    /// ```
    i0e(x) -> I0e {
        value: x.bessel_ie(0.0, 0.0),
        derivative(x; gy): gy * x.bessel_ie(0.0, 1.0),
        sample: (0.3..3.0, |x| (-x).exp() * modified_reference(0, x)),
    }

    /// Computes `e^-|x| I₁(x)` of each element, which does not overflow.
    ///
    /// The relative error is below `1e-14` in f64, that of the derivative below `1e-13` away from its zeros.
    ///
    /// Gradient: `gy (I₀(x) + I₂(x)) e^-|x| / 2 - gy sign(x) y`, without cancellation far from zero.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6 and 9.7.
    ///
    /// ```
    /// use bibun::{functions::i1e, Variable};
    /// let y = i1e(Variable::new([0.0, -1e6])).to_vec::<f64>();
    /// assert_eq!(y[0], 0.0);
    /// assert!((y[1] + 3.989_421_307_980_308e-4).abs() < 1e-17);
    /// ```
    i1e(x) -> I1e {
        value: x.bessel_ie(1.0, 0.0),
        derivative(x; gy): gy * x.bessel_ie(1.0, 1.0),
        sample: (0.3..3.0, |x| (-x).exp() * modified_reference(1, x)),
    }

    /// Computes the Bessel function `J₀` of each element.
    ///
    /// The error is below `1e-14` times the larger of the result and the amplitude `√(2 / π|x|)` in f64.
    ///
    /// Gradient: `-gy j1(x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.1 and 9.2.
    ///
    /// ```
    /// use bibun::{functions::j0, Variable};
    /// let y = j0(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 1.0);
    /// assert!((y[1] - 0.765_197_686_557_966_6).abs() < 1e-15);
    /// ```
    j0(x) -> J0 {
        value: x.bessel_j(0.0),
        derivative(x; gy): -(gy * x.bessel_j(1.0)),
        sample: (-3.0..3.0, |x| reference(0, x)),
    }

    /// Computes the Bessel function `J₁` of each element.
    ///
    /// The error is below `1e-14` times the larger of the result and the amplitude `√(2 / π|x|)` in f64, and
    /// relative near zero.
    ///
    /// Gradient: `gy (J₀(x) - J₂(x)) / 2`, which is `gy (j0(x) - j1(x) / x)` without a division at zero.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.1 and 9.2.
    ///
    /// ```
    /// use bibun::{functions::j1, Variable};
    /// let y = j1(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], 0.0);
    /// assert!((y[1] - 0.440_050_585_744_933_5).abs() < 1e-15);
    /// ```
    j1(x) -> J1 {
        value: x.bessel_j(1.0),
        derivative(x; gy): gy * 0.5 * (x.bessel_j(0.0) - x.bessel_j(2.0)),
        sample: (-3.0..3.0, |x| reference(1, x)),
    }

    /// Computes the Bessel function of the second kind `Y₀` of each element: `-∞` at zero, NaN below it.
    ///
    /// The error is below `1e-14` times the larger of the result and the amplitude `√(2 / πx)` in f64.
    ///
    /// Gradient: `-gy y1(x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.1 and 9.2.
    ///
    /// ```
    /// use bibun::{functions::y0, Variable};
    /// let y = y0(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::NEG_INFINITY);
    /// assert!((y[1] - 0.088_256_964_215_676_96).abs() < 1e-15);
    /// ```
    y0(x) -> Y0 {
        value: x.bessel_y(0.0),
        derivative(x; gy): -(gy * x.bessel_y(1.0)),
        sample: (0.5..3.0, |x| second_reference(0, x)),
    }

    /// Computes the Bessel function of the second kind `Y₁` of each element: `-∞` at zero, NaN below it.
    ///
    /// The error is below `1e-14` times the larger of the result and the amplitude `√(2 / πx)` in f64.
    ///
    /// Gradient: `gy (Y₀(x) - Y₂(x)) / 2`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.1 and 9.2.
    ///
    /// ```
    /// use bibun::{functions::y1, Variable};
    /// let y = y1(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::NEG_INFINITY);
    /// assert!((y[1] + 0.781_212_821_300_288_7).abs() < 1e-15);
    /// ```
    y1(x) -> Y1 {
        value: x.bessel_y(1.0),
        derivative(x; gy): gy * 0.5 * (x.bessel_y(0.0) - x.bessel_y(2.0)),
        sample: (0.5..3.0, |x| second_reference(1, x)),
    }

    /// Computes the modified Bessel function of the second kind `K₀` of each element: `∞` at zero, NaN below it.
    ///
    /// The relative error is below `1e-14` in f64.
    ///
    /// Gradient: `-gy k1(x)`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.24.
    ///
    /// ```
    /// use bibun::{functions::k0, Variable};
    /// let y = k0(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::INFINITY);
    /// assert!((y[1] - 0.421_024_438_240_708_34).abs() < 1e-15);
    /// ```
    k0(x) -> K0 {
        value: x.bessel_k(0.0),
        derivative(x; gy): -(gy * x.bessel_k(1.0)),
        sample: (0.5..3.0, |x| modified_second_reference(0, x)),
    }

    /// Computes the modified Bessel function of the second kind `K₁` of each element: `∞` at zero, NaN below it.
    ///
    /// The relative error is below `1e-14` in f64.
    ///
    /// Gradient: `-gy (K₀(x) + K₂(x)) / 2`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.24.
    ///
    /// ```
    /// use bibun::{functions::k1, Variable};
    /// let y = k1(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::INFINITY);
    /// assert!((y[1] - 0.601_907_230_197_234_6).abs() < 1e-15);
    /// ```
    k1(x) -> K1 {
        value: x.bessel_k(1.0),
        derivative(x; gy): -(gy * 0.5 * (x.bessel_k(0.0) + x.bessel_k(2.0))),
        sample: (0.5..3.0, |x| modified_second_reference(1, x)),
    }

    /// Computes `eˣ K₀(x)` of each element, which does not underflow.
    ///
    /// The relative error is below `1e-14` in f64, that of the derivative too.
    ///
    /// Gradient: `gy eˣ (K₀(x) - K₁(x))`, without cancellation.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.24.
    ///
    /// ```
    /// use bibun::{functions::k0e, Variable};
    /// let y = k0e(Variable::new([1.0, 1e6])).to_vec::<f64>();
    /// assert!((y[0] - 1.144_463_079_806_894_5).abs() < 1e-14);
    /// assert!((y[1] - 1.253_313_980_651_321_2e-3).abs() < 1e-17);
    /// ```
    k0e(x) -> K0e {
        value: x.bessel_ke(0.0, 0.0),
        derivative(x; gy): gy * x.bessel_ke(0.0, 1.0),
        sample: (0.5..3.0, |x| x.exp() * modified_second_reference(0, x)),
    }

    /// Computes `eˣ K₁(x)` of each element, which does not underflow.
    ///
    /// The relative error is below `1e-14` in f64, that of the derivative too.
    ///
    /// Gradient: `gy eˣ (K₁(x) - (K₀(x) + K₂(x)) / 2)`, without cancellation.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.24.
    ///
    /// ```
    /// use bibun::{functions::k1e, Variable};
    /// let y = k1e(Variable::new([1.0])).to_vec::<f64>();
    /// assert!((y[0] - 1.636_153_486_263_258).abs() < 1e-14);
    /// ```
    k1e(x) -> K1e {
        value: x.bessel_ke(1.0, 0.0),
        derivative(x; gy): gy * x.bessel_ke(1.0, 1.0),
        sample: (0.5..3.0, |x| x.exp() * modified_second_reference(1, x)),
    }
}

/// `I` of an order, as an operation of formulas.
pub(super) struct BesselI;

element_function! {
    BesselI = "bessel_i", [a, b] [];
    operation: Special(Function::BesselI);
    derivative(a, b; gy): gy * 0.5 * (a.bessel_i(b - 1.0) + a.bessel_i(b + 1.0));
    derivative(; gy): Number::from(0.0);
}

/// A derivative of the scaled function of an order.
pub(super) struct BesselIe;

element_function! {
    BesselIe = "bessel_ie", [a, b, c] [];
    operation: Special(Function::BesselIe);
    derivative(a, b, c; gy): gy * a.bessel_ie(b, c + 1.0);
    derivative(; gy): Number::from(0.0);
    derivative(; gy): Number::from(0.0);
}

/// `J` of an order.
pub(super) struct BesselJ;

element_function! {
    BesselJ = "bessel_j", [a, b] [];
    operation: Special(Function::BesselJ);
    derivative(a, b; gy): gy * 0.5 * (a.bessel_j(b - 1.0) - a.bessel_j(b + 1.0));
    derivative(; gy): Number::from(0.0);
}

/// `Y` of an order.
pub(super) struct BesselY;

element_function! {
    BesselY = "bessel_y", [a, b] [];
    operation: Special(Function::BesselY);
    derivative(a, b; gy): gy * 0.5 * (a.bessel_y(b - 1.0) - a.bessel_y(b + 1.0));
    derivative(; gy): Number::from(0.0);
}

/// `K` of an order.
pub(super) struct BesselK;

element_function! {
    BesselK = "bessel_k", [a, b] [];
    operation: Special(Function::BesselK);
    derivative(a, b; gy): -(gy * 0.5 * (a.bessel_k(b - 1.0) + a.bessel_k(b + 1.0)));
    derivative(; gy): Number::from(0.0);
}

/// A derivative of the scaled `K` of an order.
pub(super) struct BesselKe;

element_function! {
    BesselKe = "bessel_ke", [a, b, c] [];
    operation: Special(Function::BesselKe);
    derivative(a, b, c; gy): gy * a.bessel_ke(b, c + 1.0);
    derivative(; gy): Number::from(0.0);
    derivative(; gy): Number::from(0.0);
}

/// Computes `1/π ∫₀^π cos(n t - x sin t) dt`, of a periodic integrand, by the trapezoidal rule.
#[cfg(test)]
fn reference(n: u32, x: f64) -> f64 {
    let value = |t: f64| (f64::from(n) * t - x * t.sin()).cos();
    (0..64)
        .map(|i| value(f64::from(i) * std::f64::consts::TAU / 64.0))
        .sum::<f64>()
        / 64.0
}

/// Computes `1/π ∫₀^π e^(x cos t) cos n t dt` in the same way.
#[cfg(test)]
fn modified_reference(n: u32, x: f64) -> f64 {
    let value = |t: f64| (x * t.cos()).exp() * (f64::from(n) * t).cos();
    (0..64)
        .map(|i| value(f64::from(i) * std::f64::consts::TAU / 64.0))
        .sum::<f64>()
        / 64.0
}

/// Computes `∫₀^∞ f(t) dt` of what has died out at 12, by Simpson's rule.
#[cfg(test)]
fn to_infinity(f: impl Fn(f64) -> f64) -> f64 {
    simpson(f, 12.0)
}

#[cfg(test)]
fn simpson(f: impl Fn(f64) -> f64, end: f64) -> f64 {
    const STEPS: u32 = 8000;
    let step = end / f64::from(STEPS);
    let weight = |i: u32| match i {
        0 | STEPS => 1.0,
        _ if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let terms = (0..=STEPS).map(|i| weight(i) * f(f64::from(i) * step));
    terms.sum::<f64>() * step / 3.0
}

/// Computes `1/π ∫₀^π sin(x sin t - n t) dt - 1/π ∫₀^∞ (e^(n t) + (-1)ⁿ e^(-n t)) e^(-x sinh t) dt`.
#[cfg(test)]
fn second_reference(n: u32, x: f64) -> f64 {
    let order = f64::from(n);
    let parity = if n.is_multiple_of(2) { 1.0 } else { -1.0 };
    let waves = simpson(|t| (x * t.sin() - order * t).sin(), std::f64::consts::PI);
    let growth = |t: f64| (order * t).exp() + parity * (-order * t).exp();
    let tail = to_infinity(|t| growth(t) * (-x * t.sinh()).exp());
    (waves - tail) / std::f64::consts::PI
}

/// Computes `∫₀^∞ e^(-x cosh t) cosh n t dt`.
#[cfg(test)]
fn modified_second_reference(n: u32, x: f64) -> f64 {
    to_infinity(|t| (-x * t.cosh()).exp() * (f64::from(n) * t).cosh())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives};

    fn assert_close(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
    }

    #[test]
    fn derivatives_at_zero() {
        assert_close(
            &derivatives(|x| i0(x), 0.0, 4),
            &[1.0, 0.0, 0.5, 0.0, 0.375],
        );
        assert_close(
            &derivatives(|x| i1(x), 0.0, 4),
            &[0.0, 0.5, 0.0, 0.375, 0.0],
        );
        assert_close(
            &derivatives(|x| j0(x), 0.0, 4),
            &[1.0, 0.0, -0.5, 0.0, 0.375],
        );
        assert_close(
            &derivatives(|x| j1(x), 0.0, 4),
            &[0.0, 0.5, 0.0, -0.375, 0.0],
        );
        // The kink of |x|.
        assert_close(&derivatives(|x| i0e(x), 0.0, 1), &[1.0, 0.0]);
        assert_close(&derivatives(|x| i1e(x), 0.0, 1), &[0.0, 0.5]);
    }

    #[test]
    fn far_from_zero() {
        let points = [-1e30, -1000.0, -5.0, 5.0, 24.9, 25.1, 1000.0, 1e30];
        assert_finite("i0e", |x| i0e(x), &points);
        assert_finite("i1e", |x| i1e(x), &points);
        assert_finite("j0", |x| j0(x), &points);
        assert_finite("j1", |x| j1(x), &points);
        assert_finite("i0", |x| i0(x), &[-50.0, 0.0, 50.0]);
        // e^-x I0(x) is 1/√(2πx) (1 + ..) there, and so are its derivatives.
        let [value, first, second] = derivatives(|x| i0e(x), 1e8, 2)[..] else {
            unreachable!("three numbers")
        };
        assert!((first / value * -2e8 - 1.0).abs() < 1e-7);
        assert!((second / value * 4e16 / 3.0 - 1.0).abs() < 1e-7);
    }
}
