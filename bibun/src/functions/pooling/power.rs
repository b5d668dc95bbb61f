//! Pooling by norms.

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::{
    Pooling, abs, avg_pool, equal, in_accumulator, max_pool, pow, to_float, where_,
};
use crate::variable::Variable;

/// Computes the norms of order `p` of windows over the last axes, `(Σ |x|ᵖ)^(1/p)`: 1 gives sums of
/// absolute values, infinity the largest.
///
/// Shapes: x `[.., h, w]` → as for [`avg_pool`], over one, two or more axes.
/// Types: floats; integers give f64.
/// Gradient: `gy sign(x) (|x| / y)ᵖ⁻¹`; 0 to elements that are 0, for every `p`.
/// Source: P. Sermanet, S. Chintala and Y. LeCun, Convolutional neural networks applied to house numbers
/// digit classification, 2012. PyTorch takes powers of x itself, not of `|x|`.
///
/// # Panics
/// Panics in the cases of [`avg_pool`], or if `p` is not positive.
///
/// ```
/// use bibun::{functions::lp_pool, Variable};
/// let x = Variable::new([3.0, -4.0, 0.0, 0.0]);
/// assert_eq!(lp_pool(&x, 2.0, 2).to_vec::<f64>(), [5.0, 0.0]);
/// assert_eq!(lp_pool(&x, f64::INFINITY, 2).to_vec::<f64>(), [4.0, 0.0]);
/// ```
#[track_caller]
pub fn lp_pool(x: impl Into<Variable>, p: f64, pooling: impl Into<Pooling>) -> Variable {
    let _whole = composite("lp_pool");
    if p.is_nan() || p <= 0.0 {
        raise(Error::argument(
            "lp_pool",
            format!("the order p is {p}, it must be positive"),
        ));
    }
    let pooling = pooling.into();
    in_accumulator(to_float(x.into()), |x| {
        let size = abs(x);
        if p == f64::INFINITY {
            return max_pool(size, pooling);
        }
        // The powers of 0, and their roots, have infinite derivatives.
        let zero = equal(&size, 0.0);
        let powers = where_(&zero, 0.0, pow(where_(&zero, 1.0, size), p));
        let sums = avg_pool(powers, pooling.divisor(1));
        let zero = equal(&sums, 0.0);
        where_(&zero, 0.0, pow(where_(&zero, 1.0, sums), 1.0 / p))
    })
}
method!(lp_pool, p: f64, pooling: impl Into<Pooling>);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::window::reference;
    use crate::conformance::Sample;
    let orders = [0.5, 1.0, 2.0, 3.0, f64::INFINITY];
    let sample = |p: f64| {
        Sample::new(
            "lp_pool",
            move |x| {
                vec![lp_pool(
                    &x[0],
                    p,
                    Pooling::new([2, 3]).stride([1, 2]).padding([1, 0]),
                )]
            },
            move |x| {
                let norm = |seen: &[(f64, usize)], _| {
                    let sizes = seen.iter().map(|(x, _)| x.abs());
                    match p == f64::INFINITY {
                        true => sizes.fold(0.0, f64::max),
                        false => sizes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
                    }
                };
                let pooling: [&[usize]; 4] = [&[2, 3], &[1, 2], &[1, 0], &[1, 1]];
                vec![reference(&x[0], pooling, &[4, 2], norm)]
            },
        )
        .input([2, 3, 5], -2.0..-0.3)
    };
    orders.map(sample).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;

    #[test]
    fn zeros_have_no_gradient() {
        let x = Variable::new([0.0, 0.0, 3.0, 0.0]);
        for p in [0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
            let first = |x: &Variable| grad(|x| lp_pool(x, p, 2).sum(..), x);
            let [a, b, c, d] = first(&x).to_vec::<f64>()[..] else {
                unreachable!("four elements")
            };
            assert!([a, b, d] == [0.0; 3] && (c - 1.0).abs() < 1e-15, "{p}: {c}");
            let second = grad(|x| first(x).square().sum(..), &x).to_vec::<f64>();
            assert!(second.iter().all(|x| x.is_finite()), "{p}: {second:?}");
        }
    }
}
