//! Orthogonal polynomials, by their recurrences of three terms.

use crate::call::composite;
use crate::functions::{in_accumulator, ones_like, to_float};
use crate::variable::Variable;

/// Computes `p_n(x)` from the first two and `p_(k+1) = next(k, p_k, p_(k-1))`.
fn recurrence(
    n: usize,
    [mut before, mut y]: [Variable; 2],
    next: impl Fn(f64, &Variable, &Variable) -> Variable,
) -> Variable {
    if n == 0 {
        return before;
    }
    for k in 1..n {
        let following = next(k as f64, &y, &before);
        before = std::mem::replace(&mut y, following);
    }
    y
}

macro_rules! polynomials {
    ($(
        $(#[$documentation:meta])*
        $name:ident($x:ident) -> $first:expr; |$k:ident, $y:ident, $before:ident| $next:expr;
    )*) => {
        $(
            $(#[$documentation])*
            ///
            /// Shapes: x any → the same. Types: floats; integers give f64.
            /// Gradient: `gy p'(x)`, through the recurrence.
            ///
            /// Source: M. Abramowitz and I. A. Stegun, Handbook of mathematical functions, 1964, table 22.7.
            #[track_caller]
            pub fn $name(x: impl Into<Variable>, n: usize) -> Variable {
                let _whole = composite(stringify!($name));
                in_accumulator(to_float(x.into()), |$x| {
                    let start = [ones_like(&$x), $first];
                    recurrence(n, start, |$k, $y, $before| $next)
                })
            }

            impl Variable {
                #[doc = concat!("Calls [`functions::", stringify!($name), "`](crate::functions::",
                    stringify!($name), ") of this Variable.")]
                #[must_use]
                #[track_caller]
                pub fn $name(&self, n: usize) -> Self {
                    $name(self, n)
                }
            }
        )*
    };
}

polynomials! {
    /// Computes Chebyshev's polynomial of the first kind `T_n` at each element, `cos(n acos x)`.
    ///
    /// ```
    /// use bibun::{functions::chebyshev_polynomial_t, Variable};
    /// let y = chebyshev_polynomial_t(Variable::new([0.5, 2.0]), 3);
    /// assert_eq!(y.to_vec::<f64>(), [-1.0, 26.0]);
    /// ```
    chebyshev_polynomial_t(x) -> x.clone(); |_k, y, before| &x * y * 2.0 - before;

    /// Computes Chebyshev's polynomial of the second kind `U_n` at each element.
    ///
    /// ```
    /// use bibun::{functions::chebyshev_polynomial_u, Variable};
    /// assert_eq!(chebyshev_polynomial_u(Variable::new([0.5]), 2).to_vec::<f64>(), [0.0]);
    /// ```
    chebyshev_polynomial_u(x) -> &x * 2.0; |_k, y, before| &x * y * 2.0 - before;

    /// Computes Chebyshev's polynomial of the third kind `V_n` at each element.
    ///
    /// ```
    /// use bibun::{functions::chebyshev_polynomial_v, Variable};
    /// assert_eq!(chebyshev_polynomial_v(Variable::new([0.5]), 1).to_vec::<f64>(), [0.0]);
    /// ```
    chebyshev_polynomial_v(x) -> &x * 2.0 - 1.0; |_k, y, before| &x * y * 2.0 - before;

    /// Computes Chebyshev's polynomial of the fourth kind `W_n` at each element.
    ///
    /// ```
    /// use bibun::{functions::chebyshev_polynomial_w, Variable};
    /// assert_eq!(chebyshev_polynomial_w(Variable::new([0.5]), 1).to_vec::<f64>(), [2.0]);
    /// ```
    chebyshev_polynomial_w(x) -> &x * 2.0 + 1.0; |_k, y, before| &x * y * 2.0 - before;

    /// Computes the Hermite polynomial `H_n` of the physicists at each element.
    ///
    /// ```
    /// use bibun::{functions::hermite_polynomial_h, Variable};
    /// assert_eq!(hermite_polynomial_h(Variable::new([2.0]), 2).to_vec::<f64>(), [14.0]);
    /// ```
    hermite_polynomial_h(x) -> &x * 2.0; |k, y, before| &x * y * 2.0 - before * (2.0 * k);

    /// Computes the Hermite polynomial `He_n` of probability theory at each element.
    ///
    /// ```
    /// use bibun::{functions::hermite_polynomial_he, Variable};
    /// assert_eq!(hermite_polynomial_he(Variable::new([2.0]), 2).to_vec::<f64>(), [3.0]);
    /// ```
    hermite_polynomial_he(x) -> x.clone(); |k, y, before| &x * y - before * k;

    /// Computes the Laguerre polynomial `L_n` at each element.
    ///
    /// ```
    /// use bibun::{functions::laguerre_polynomial_l, Variable};
    /// assert_eq!(laguerre_polynomial_l(Variable::new([2.0]), 2).to_vec::<f64>(), [-1.0]);
    /// ```
    laguerre_polynomial_l(x) -> 1.0 - &x;
        |k, y, before| ((2.0 * k + 1.0 - &x) * y - before * k) / (k + 1.0);

    /// Computes the Legendre polynomial `P_n` at each element.
    ///
    /// ```
    /// use bibun::{functions::legendre_polynomial_p, Variable};
    /// assert_eq!(legendre_polynomial_p(Variable::new([2.0]), 2).to_vec::<f64>(), [5.5]);
    /// ```
    legendre_polynomial_p(x) -> x.clone();
        |k, y, before| (&x * y * (2.0 * k + 1.0) - before * k) / (k + 1.0);
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    type Polynomial = (&'static str, fn(&Variable) -> Variable, fn(f64) -> f64);
    let polynomials: [Polynomial; 8] = [
        (
            "chebyshev_polynomial_t",
            |x| chebyshev_polynomial_t(x, 4),
            |x| (4.0 * x.acos()).cos(),
        ),
        (
            "chebyshev_polynomial_u",
            |x| chebyshev_polynomial_u(x, 3),
            |x| (4.0 * x.acos()).sin() / x.acos().sin(),
        ),
        (
            "chebyshev_polynomial_v",
            |x| chebyshev_polynomial_v(x, 3),
            |x| (3.5 * x.acos()).cos() / (0.5 * x.acos()).cos(),
        ),
        (
            "chebyshev_polynomial_w",
            |x| chebyshev_polynomial_w(x, 3),
            |x| (3.5 * x.acos()).sin() / (0.5 * x.acos()).sin(),
        ),
        (
            "hermite_polynomial_h",
            |x| hermite_polynomial_h(x, 3),
            |x| 8.0 * x * x * x - 12.0 * x,
        ),
        (
            "hermite_polynomial_he",
            |x| hermite_polynomial_he(x, 3),
            |x| x * x * x - 3.0 * x,
        ),
        (
            "laguerre_polynomial_l",
            |x| laguerre_polynomial_l(x, 3),
            |x| (-x * x * x + 9.0 * x * x - 18.0 * x + 6.0) / 6.0,
        ),
        (
            "legendre_polynomial_p",
            |x| legendre_polynomial_p(x, 3),
            |x| (5.0 * x * x * x - 3.0 * x) / 2.0,
        ),
    ];
    let sample = |(name, call, reference): Polynomial| {
        Sample::new(
            name,
            move |x| vec![call(&x[0])],
            move |x| {
                let y = x[0].to_vec::<f64>().into_iter().map(reference);
                vec![Array::from(y.collect::<Vec<_>>())]
            },
        )
        .input([4], -0.9..0.9)
    };
    polynomials.map(sample).into()
}
