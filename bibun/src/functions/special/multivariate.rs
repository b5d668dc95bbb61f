//! The multivariate gamma function.

use std::f64::consts::PI;

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::{in_accumulator, lgamma, to_float};
use crate::variable::Variable;

/// Computes the logarithm of the multivariate gamma function of dimension `d` of each element,
/// `d (d - 1) / 4 log π + Σ log Γ(x - j / 2)` over `j` from 0 to `d - 1`, for x above `(d - 1) / 2`.
///
/// Shapes: x any → the same. Types: floats; integers give f64.
/// Gradient: `gy Σ ψ(x - j / 2)`.
///
/// Source: A. T. James, "Distributions of matrix variates and latent roots derived from normal samples", 1964;
/// `scipy.special.multigammaln`.
///
/// # Panics
/// Panics if `d` is 0.
///
/// ```
/// use bibun::{functions::multigammaln, Variable};
/// let y = multigammaln(Variable::new([2.0]), 2).to_vec::<f64>()[0];
/// assert!((y - (std::f64::consts::PI / 2.0).ln()).abs() < 1e-15);
/// ```
#[track_caller]
pub fn multigammaln(x: impl Into<Variable>, d: usize) -> Variable {
    let function = "multigammaln";
    let _whole = composite(function);
    if d == 0 {
        raise(Error::argument(function, "the dimension d is 0"));
    }
    in_accumulator(to_float(x.into()), |x| {
        let constant = d as f64 * (d as f64 - 1.0) / 4.0 * PI.ln();
        let terms = (1..d).map(|j| lgamma(&x - j as f64 / 2.0));
        terms.fold(lgamma(&x) + constant, |sum, term| sum + term)
    })
}
method!(multigammaln, d: usize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    // Of whole numbers and halves it is known in closed form.
    let reference = |x: &[Array]| {
        let y = x[0].to_vec::<f64>().into_iter().map(|x| {
            // Γ(x) Γ(x - 1/2) = 2^(2 - 2x) √π Γ(2x - 1)
            let gamma = |x: f64| bibun_array::math::Float::lgamma(x);
            0.5 * PI.ln() + (2.0 - 2.0 * x) * 2f64.ln() + 0.5 * PI.ln() + gamma(2.0 * x - 1.0)
        });
        vec![Array::from(y.collect::<Vec<_>>())]
    };
    vec![
        Sample::new("multigammaln", |x| vec![multigammaln(&x[0], 2)], reference)
            .input([3], 1.5..4.0),
    ]
}
