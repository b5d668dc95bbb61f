//! Windows of signal processing.

use std::f64::consts::PI;

use bibun_array::math::{Float, Special};
use bibun_array::{Array, Shape, allocating};

use crate::variable::Variable;

/// Computes a window from the places from 0 to 1. The last place of a periodic one would be the first of the
/// next period, and is left out.
#[track_caller]
fn window(
    function: &'static str,
    count: usize,
    periodic: bool,
    value: impl Fn(f64) -> f64,
) -> Variable {
    let shape = Shape::from(count).addressable(function);
    let steps = if periodic || count == 0 {
        count
    } else {
        count - 1
    };
    Variable::constant(allocating(function, || {
        let value = |i: usize| match count {
            1 => 1.0,
            _ => value(i as f64 / steps as f64),
        };
        Array::from_vec((0..count).map(value).collect(), &shape)
    }))
}

macro_rules! windows {
    ($(
        $(#[$documentation:meta])*
        $name:ident($($parameter:ident: $Type:ty)?) -> |$place:ident| $value:expr;
    )*) => {
        $(
            $(#[$documentation])*
            ///
            /// A symmetric window, for the design of filters, ends as it begins; a periodic one, for spectra, is
            /// that of one more element without the last. A window of one element is 1.
            ///
            /// Shapes: → `[count]`. Types: f64. Gradient: none; the result is a constant.
            ///
            /// # Panics
            /// Panics if there are more elements than memory holds.
            #[track_caller]
            pub fn $name(count: usize, periodic: bool $(, $parameter: $Type)?) -> Variable {
                window(stringify!($name), count, periodic, |$place| $value)
            }
        )*
    };
}

windows! {
    /// Returns the window of Bartlett, a triangle from 0 to 1 and back.
    ///
    /// ```
    /// use bibun::functions::bartlett_window;
    /// assert_eq!(bartlett_window(5, false).to_vec::<f64>(), [0.0, 0.5, 1.0, 0.5, 0.0]);
    /// ```
    bartlett_window() -> |t| 1.0 - (2.0 * t - 1.0).abs();

    /// Returns the window of Blackman, `0.42 - 0.5 cos 2πt + 0.08 cos 4πt`.
    ///
    /// ```
    /// use bibun::functions::blackman_window;
    /// assert!((blackman_window(3, false).to_vec::<f64>()[1] - 1.0).abs() < 1e-15);
    /// ```
    blackman_window() -> |t| 0.42 - 0.5 * (2.0 * PI * t).cos() + 0.08 * (4.0 * PI * t).cos();

    /// Returns the window of Hamming, `0.54 - 0.46 cos 2πt`.
    ///
    /// ```
    /// use bibun::functions::hamming_window;
    /// assert!((hamming_window(3, false).to_vec::<f64>()[1] - 1.0).abs() < 1e-15);
    /// ```
    hamming_window() -> |t| 0.54 - 0.46 * (2.0 * PI * t).cos();

    /// Returns the window of Hann, `sin² πt`.
    ///
    /// ```
    /// use bibun::functions::hann_window;
    /// assert_eq!(hann_window(3, false).to_vec::<f64>()[..2], [0.0, 1.0]);
    /// ```
    hann_window() -> |t| 0.5 - 0.5 * (2.0 * PI * t).cos();

    /// Returns the window of Kaiser, `I₀(β √(1 - (2t - 1)²)) / I₀(β)`, which is narrower the larger `beta` is.
    ///
    /// ```
    /// use bibun::functions::kaiser_window;
    /// assert_eq!(kaiser_window(3, false, 12.0).to_vec::<f64>()[1], 1.0);
    /// ```
    kaiser_window(beta: f64) -> |t| {
        let i0 = |x: f64| f64::special(Special::BesselI, &[x, 0.0]);
        i0(beta * (1.0 - (2.0 * t - 1.0).powi(2)).max(0.0).sqrt()) / i0(beta)
    };
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    type Window = (&'static str, fn(bool) -> Variable, fn(f64) -> f64);
    let windows: [Window; 5] = [
        (
            "bartlett_window",
            |periodic| bartlett_window(5, periodic),
            |t| if t < 0.5 { 2.0 * t } else { 2.0 - 2.0 * t },
        ),
        (
            "blackman_window",
            |periodic| blackman_window(5, periodic),
            |t| {
                let c = (2.0 * PI * t).cos();
                0.34 - 0.5 * c + 0.16 * c * c
            },
        ),
        (
            "hamming_window",
            |periodic| hamming_window(5, periodic),
            |t| 0.08 + 0.92 * (PI * t).sin().powi(2),
        ),
        (
            "hann_window",
            |periodic| hann_window(5, periodic),
            |t| (PI * t).sin().powi(2),
        ),
        (
            "kaiser_window",
            |periodic| kaiser_window(5, periodic, 2.0),
            |t| {
                // The series of I₀.
                let i0 = |square: f64| {
                    let terms = (1..30).scan(1.0, |term, k| {
                        *term *= square / 4.0 / f64::from(k * k);
                        Some(*term)
                    });
                    1.0 + terms.sum::<f64>()
                };
                i0(4.0 * (4.0 * t * (1.0 - t))) / i0(4.0)
            },
        ),
    ];
    let sample = |(name, call, reference): Window| {
        Sample::new(
            name,
            move |x| [true, false].map(|is| &x[0] * beside(x, call(is))).into(),
            move |x| {
                let x = x[0].to_vec::<f64>();
                // Five places, of five or four steps.
                let of = |steps: f64| {
                    let y = x
                        .iter()
                        .zip(0..)
                        .map(|(x, i)| x * reference(f64::from(i) / steps));
                    Array::from(y.collect::<Vec<_>>())
                };
                vec![of(5.0), of(4.0)]
            },
        )
        .input([5], -1.0..1.0)
    };
    windows.map(sample).into()
}
