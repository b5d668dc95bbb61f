//! Functions that branch or loop, in f64 for both types: one table, of which each entry is an operation of
//! formulas with its loop, and a method of [`Number`].

use super::{Float, bessel, exponential_integral, gamma, incomplete, normal};
use crate::dtype::with_float;
use crate::formula::Type;
use crate::kernel::elements;
use crate::{Definition, Element, ElementFormula, Number, Slice, SliceMut};

/// `Number`, in the place of an argument.
macro_rules! number {
    ($argument:ident) => {
        Type::Number
    };
}

macro_rules! functions {
    ($(
        $(#[$documentation:meta])*
        $Function:ident = $name:ident($first:ident $(, $other:ident)*) => $value:path;
    )*) => {
        /// A function that is computed one number at a time, in f64 for both types. The methods of
        /// [`Number`] with these names compute them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Special {
            $($(#[$documentation])* $Function,)*
        }

        impl Special {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$Function),*];

            /// Returns the name in printed formulas.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Function => stringify!($name),)*
                }
            }

            /// The types of the arguments.
            pub(crate) const fn arguments(self) -> &'static [Type] {
                match self {
                    $(Self::$Function => &[number!($first) $(, number!($other))*],)*
                }
            }

            /// The loop.
            pub(crate) const fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$Function => {
                        const COUNT: usize = Special::$Function.arguments().len();
                        struct Own;
                        impl ElementFormula<COUNT> for Own {
                            const NAME: &'static str = stringify!($name);
                            #[inline(always)]
                            fn value<T: Float>(
                                [$first $(, $other)*]: [Number<T>; COUNT],
                                []: [Number<T>; 0],
                            ) -> Number<T> {
                                $first.$name($($other),*)
                            }
                        }
                        static DEFINITION: Definition = Definition::with_loop::<COUNT, 0, Own>(
                            |_, inputs, out| fill(Special::$Function, inputs, out),
                        );
                        &DEFINITION
                    })*
                }
            }

            /// The value at as many numbers as the function has arguments.
            #[inline(never)]
            pub(super) fn value(self, x: [f64; 3]) -> f64 {
                match self {
                    $(Self::$Function => {
                        let [$first $(, $other)*, ..] = x;
                        $value($first $(, $other)*)
                    })*
                }
            }
        }

        impl<T: Float> Number<T> {$(
            $(#[$documentation])*
            #[inline(always)]
            #[must_use]
            pub fn $name(self $(, $other: impl Into<Self>)*) -> Self {
                Self(T::special(Special::$Function, &[self.0 $(, $other.into().0)*]))
            }
        )*}
    };
}

/// Computes a function at each element. One loop for all of them, since vector instructions are of no use
/// in it.
fn fill(function: Special, inputs: &[Slice<'_>], out: SliceMut<'_>) {
    with_float!(out.dtype(), T => {
        let out = T::from_slice_mut(out).expect("the device made the output");
        let mut x = [T::ZERO; 3];
        for (i, y) in out.iter_mut().enumerate() {
            for (x, input) in x.iter_mut().zip(inputs) {
                *x = elements::<T>(*input)[i];
            }
            *y = T::special(function, &x[..inputs.len()]);
        }
    });
}

functions! {
    /// The derivative of order `n` of [`digamma`](Float::digamma) at `x`, where `n` is a natural number: the
    /// polygamma function. Relative error below `1e-14` away from its zeros.
    Polygamma = polygamma(x, n) => gamma::polygamma;
    /// Hurwitz's zeta function, the sum of `(q + k)^-s` over natural `k`. Relative error below `1e-14` for
    /// positive `q`.
    Zeta = zeta(s, q) => gamma::zeta;
    /// The beta function `Γ(a) Γ(b) / Γ(a + b)`. Relative error below `1e-12`.
    Beta = beta(a, b) => gamma::beta;
    /// The logarithm of the magnitude of the beta function. Its error is below `1e-14` times the larger of 1
    /// and its own magnitude, for positive arguments.
    Betaln = betaln(a, b) => gamma::betaln;
    /// The derivative of the beta function by its first argument. Relative error below `1e-12`.
    BetaSlope = beta_slope(a, b) => gamma::beta_slope;
    /// The derivative of order `n` of [`digamma`](Float::digamma) at `a`, less that at `a + b`. Relative error
    /// below `1e-13` for positive arguments and `n = 0`; for others, that of the two.
    PolygammaDifference = polygamma_difference(a, b, n) => gamma::polygamma_difference;
    /// The regularized lower incomplete gamma function. Relative error below `1e-12` for `a` up to `1e6`; NaN
    /// where a million terms are not enough, near `a = x` beyond `1e10`.
    Gammainc = gammainc(a, x) => incomplete::gammainc;
    /// The regularized upper incomplete gamma function; see [`Special::Gammainc`].
    Gammaincc = gammaincc(a, x) => incomplete::gammaincc;
    /// The derivative of [`Special::Gammainc`] by `a`. Relative error below `1e-10` for `a` up to `1e6`.
    GammaincA = gammainc_a(a, x) => incomplete::gammainc_a;
    /// The second derivative of [`Special::Gammainc`] by `a`. Error below `1e-10` times the larger of 1 and its
    /// magnitude.
    GammaincAa = gammainc_aa(a, x) => incomplete::gammainc_aa;
    /// The density of the gamma distribution, `x^(a - 1) e^-x / Γ(a)`. Relative error below `1e-12`.
    GammaDensity = gamma_density(a, x) => incomplete::gamma_density;
    /// The regularized incomplete beta function. Relative error below `1e-12` for `a` and `b` up to `1e6`; NaN
    /// where a million terms are not enough, for some beyond `1e10`.
    Betainc = betainc(a, b, x) => incomplete::betainc;
    /// The derivative of [`Special::Betainc`] by `a`. Relative error below `1e-10` for `a` and `b` up to `1e6`.
    BetaincA = betainc_a(a, b, x) => incomplete::betainc_a;
    /// The derivative of [`Special::Betainc`] by `b`, as exact.
    BetaincB = betainc_b(a, b, x) => incomplete::betainc_b;
    /// The second derivative of [`Special::Betainc`] by `a`, as exact as that of [`Special::Gammainc`].
    BetaincAa = betainc_aa(a, b, x) => incomplete::betainc_aa;
    /// The derivative of [`Special::Betainc`] by `a` and `b`, as exact.
    BetaincAb = betainc_ab(a, b, x) => incomplete::betainc_ab;
    /// The second derivative of [`Special::Betainc`] by `b`, as exact.
    BetaincBb = betainc_bb(a, b, x) => incomplete::betainc_bb;
    /// The density of the beta distribution, `x^(a - 1) (1 - x)^(b - 1) / B(a, b)`. Relative error below `1e-12`.
    BetaDensity = beta_density(a, b, x) => incomplete::beta_density;
    /// The inverse of [`Special::Gammainc`] by its second argument. Relative error below `1e-12`, and below `1e-12 / a`
    /// for `a` below 1.
    Gammaincinv = gammaincinv(a, p) => incomplete::gammaincinv;
    /// The inverse of [`Special::Gammaincc`] by its second argument, as exact as [`Special::Gammaincinv`].
    Gammainccinv = gammainccinv(a, q) => incomplete::gammainccinv;
    /// The inverse of [`Special::Betainc`] by its third argument. Relative error below `1e-12`, and below `1e-12` by the
    /// smaller of `a` and `b` if one is below 1.
    Betaincinv = betaincinv(a, b, p) => incomplete::betaincinv;
    /// The modified Bessel function `I` of the integer order `n`. Relative error below `1e-14`.
    BesselI = bessel_i(x, n) => bessel::bessel_i;
    /// The derivative of order `k` of `e^-|x|` times the modified Bessel function `I` of the integer order `n`,
    /// at 0 the mean of both sides. Relative error below `1e-14`, and a hundred times that for each order of
    /// derivative.
    BesselIe = bessel_ie(x, n, k) => bessel::bessel_ie;
    /// The Bessel function `J` of the integer order `n`. Error below `1e-14` times the larger of the value and
    /// the amplitude `√(2 / π|x|)`.
    BesselJ = bessel_j(x, n) => bessel::bessel_j;
    /// The Bessel function `Y` of the integer order `n`. Error below `1e-14` times the larger of the value and
    /// the amplitude `√(2 / πx)`, and a hundred times that from the second order on.
    BesselY = bessel_y(x, n) => bessel::bessel_y;
    /// The modified Bessel function `K` of the integer order `n`. Relative error below `1e-14`.
    BesselK = bessel_k(x, n) => bessel::bessel_k;
    /// The derivative of order `k` of `e^x` times the modified Bessel function `K` of the integer order `n`.
    /// Relative error below `1e-14`.
    BesselKe = bessel_ke(x, n, k) => bessel::bessel_ke;
    /// The exponential integral `E` of the integer order `n`. Relative error below `1e-14`.
    Expn = expn(x, n) => exponential_integral::expn;
    /// The exponential integral `Ei`. Its error is below `1e-14` times the larger of 1 and its own magnitude.
    Expi = expi(x) => exponential_integral::expi;
    /// The derivative of order `n` at `x` of the scaled complementary error function `e^(x²) erfc x`.
    /// Relative error below `1e-14` on the right of -1, and `1e-13` on its left.
    Erfcx = erfcx(x, n) => normal::erfcx;
    /// The derivative of order `n` at `x` of the logarithm of the standard normal distribution function.
    /// Relative error below `1e-13` up to the second order, away from zeros.
    LogNdtr = log_ndtr(x, n) => normal::log_ndtr;
    /// The inverse of the standard normal distribution function. Relative error below `2e-15`.
    Ndtri = ndtri(p) => normal::ndtri;
}
