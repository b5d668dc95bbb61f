//! Polynomials as vectors of coefficients, that of the highest power first.

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::families::method;
use crate::functions::{cast, concat, constant_beside, float_of, slice, to_float};
use crate::s;
use crate::variable::Variable;
use bibun_array::{Array, DType};

/// Returns the coefficients of the polynomial with these roots, that of the highest power first, which is 1.
///
/// Shapes: roots `[n]` → `[n + 1]`. Types: floats; integers give f64.
/// Gradient: that of the product of `x - root` over all roots.
///
/// Source: `numpy.poly`.
///
/// # Panics
/// Panics if the roots are not a vector.
///
/// ```
/// use bibun::{functions::poly, Variable};
/// assert_eq!(poly(Variable::new([1.0, 2.0])).to_vec::<f64>(), [1.0, -3.0, 2.0]);
/// ```
#[track_caller]
pub fn poly(roots: impl Into<Variable>) -> Variable {
    let function = "poly";
    let _whole = composite(function);
    let roots = roots.into();
    expect_vectors(function, &[("roots [n]", &roots)]);
    let (roots, dtype) = accumulated(roots);
    let one = constant_beside(&[&roots], Array::ones(1, roots.dtype()));
    let zero = constant_beside(&[&roots], Array::zeros(1, roots.dtype()));
    let y = (0..roots.size()).fold(one, |y, i| {
        let i = i as isize;
        let scaled = -(&y * slice(&roots, s![i..i + 1]));
        match i {
            0 => concat([&y, &scaled], 0),
            _ => concat([&y, &zero], 0) + concat([&zero, &scaled], 0),
        }
    });
    cast(y, dtype)
}
method!(poly);

/// Returns the coefficients of a derivative of a polynomial: `order` of them are lost.
///
/// Shapes: p `[n]` → `[n - order]`, at least `[0]`. Types: floats; integers give f64.
/// Gradient: `gy` times the same factors.
///
/// Source: `numpy.polyder`.
///
/// # Panics
/// Panics if p is not a vector.
///
/// ```
/// use bibun::{functions::polyder, Variable};
/// let p = Variable::new([1.0, 4.0, 5.0, 7.0]);
/// assert_eq!(polyder(&p, 1).to_vec::<f64>(), [3.0, 8.0, 5.0]);
/// assert_eq!(polyder(&p, 2).to_vec::<f64>(), [6.0, 8.0]);
/// ```
#[track_caller]
pub fn polyder(p: impl Into<Variable>, order: usize) -> Variable {
    let function = "polyder";
    let _whole = composite(function);
    let p = p.into();
    expect_vectors(function, &[("p [n]", &p)]);
    let p = to_float(p);
    let left = p.size().saturating_sub(order);
    // The power that a coefficient gets, and the product of those that it has lost.
    let factors = (0..left).rev().map(|power| falling(power + order, order));
    let factors = factors_beside(&p, factors.collect());
    slice(p, s![..left]) * factors
}
method!(polyder, order: usize);

/// Returns the coefficients of an integral of a polynomial, whose value and first derivatives are zero at zero:
/// `order` zeros follow, to which constants of integration can be added.
///
/// Shapes: p `[n]` → `[n + order]`. Types: floats; integers give f64.
/// Gradient: `gy` times the same factors.
///
/// Source: `numpy.polyint`.
///
/// # Panics
/// Panics if p is not a vector.
///
/// ```
/// use bibun::{functions::polyint, Variable};
/// let p = Variable::new([3.0, 8.0, 5.0]);
/// assert_eq!(polyint(&p, 1).to_vec::<f64>(), [1.0, 4.0, 5.0, 0.0]);
/// ```
#[track_caller]
pub fn polyint(p: impl Into<Variable>, order: usize) -> Variable {
    let function = "polyint";
    let _whole = composite(function);
    let p = p.into();
    expect_vectors(function, &[("p [n]", &p)]);
    let p = to_float(p);
    let factors = (0..p.size())
        .rev()
        .map(|power| falling(power + order, order));
    let factors = factors_beside(&p, factors.collect());
    let constants = constant_beside(&[&p], Array::zeros(order, p.dtype()));
    concat([&(&p / factors), &constants], 0)
}
method!(polyint, order: usize);

/// Divides a polynomial by another, and returns quotient and remainder: `u` is `v` times the quotient, plus the
/// remainder. Zeros in front of the remainder stay.
///
/// Shapes: u `[n]`, v `[m]` → `[n - m + 1]`, `[m - 1]`; if n is less than m, `[1]` of zero and u.
/// Types: floats, promoted; integers give f64.
/// Gradient: that of each step of the division, to both.
///
/// Source: `numpy.polydiv`, which leaves out the zeros in front.
///
/// # Panics
/// Panics if u or v are not vectors of one element or more.
///
/// ```
/// use bibun::{functions::polydiv, Variable};
/// let (quotient, rest) = polydiv(Variable::new([3.0, 5.0, 2.0]), [2.0, 1.0]);
/// assert_eq!(quotient.to_vec::<f64>(), [1.5, 1.75]);
/// assert_eq!(rest.to_vec::<f64>(), [0.25]);
/// ```
#[track_caller]
pub fn polydiv(u: impl Into<Variable>, v: impl Into<Variable>) -> (Variable, Variable) {
    let function = "polydiv";
    let _whole = composite(function);
    let (u, v) = (u.into(), v.into());
    expect_vectors(function, &[("u [n]", &u), ("v [m]", &v)]);
    if u.size() == 0 || v.size() == 0 {
        raise(Error::argument(
            function,
            "there must be a coefficient in each",
        ));
    }
    let dtype = float_of(u.dtype(), [&v]);
    let [u, v] = [u, v].map(|x| cast(x, dtype.accumulator()));
    let (n, m) = (u.size(), v.size());
    if n < m {
        let zero = constant_beside(&[&u], Array::zeros(1, dtype));
        return (zero, cast(u, dtype));
    }
    let (first, others) = (slice(&v, s![..1]), slice(&v, s![1..]));
    let mut quotient = Vec::new();
    let mut rest = u;
    for _ in m..=n {
        let digit = slice(&rest, s![..1]) / &first;
        let near = slice(&rest, s![1..m]) - &others * &digit;
        rest = concat([&near, &slice(&rest, s![m..])], 0);
        quotient.push(digit);
    }
    let quotient = concat(&quotient, 0);
    (cast(quotient, dtype), cast(rest, dtype))
}
method!(polydiv -> (Self, Self), v: impl Into<Self>);

/// Returns `n (n - 1) ..`, of so many factors.
fn falling(n: usize, factors: usize) -> f64 {
    (0..factors).map(|i| (n - i) as f64).product()
}

fn factors_beside(p: &Variable, factors: Vec<f64>) -> Variable {
    let count = factors.len();
    constant_beside(&[p], Array::from_vec(factors, [count]).cast(p.dtype()))
}

fn accumulated(x: Variable) -> (Variable, DType) {
    let x = to_float(x);
    let dtype = x.dtype();
    (cast(x, dtype.accumulator()), dtype)
}

#[track_caller]
fn expect_vectors(function: &'static str, xs: &[(&str, &Variable)]) {
    if xs.iter().any(|(_, x)| x.rank() != 1) {
        let specs: Vec<Spec> = xs.iter().map(|(_, x)| x.spec()).collect();
        let inputs: Vec<(&str, &Spec)> = xs.iter().map(|(name, _)| *name).zip(&specs).collect();
        mismatch(function, &inputs, "it must be a vector")
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let vector = |x: Vec<f64>| vec![Array::from(x)];
    vec![
        Sample::new(
            "poly",
            |x| vec![poly(&x[0])],
            move |x| {
                let r = x[0].to_vec::<f64>();
                let pairs = r[0] * r[1] + r[0] * r[2] + r[1] * r[2];
                vector(vec![1.0, -r[0] - r[1] - r[2], pairs, -r[0] * r[1] * r[2]])
            },
        )
        .input([3], -1.0..1.0),
        Sample::new(
            "polyder",
            |x| vec![polyder(&x[0], 2)],
            move |x| {
                let p = x[0].to_vec::<f64>();
                vector(vec![12.0 * p[0], 6.0 * p[1], 2.0 * p[2]])
            },
        )
        .input([5], -1.0..1.0),
        Sample::new(
            "polyint",
            |x| vec![polyint(&x[0], 2)],
            move |x| {
                let p = x[0].to_vec::<f64>();
                vector(vec![p[0] / 12.0, p[1] / 6.0, p[2] / 2.0, 0.0, 0.0])
            },
        )
        .input([3], -1.0..1.0),
        Sample::new(
            "polydiv",
            |x| {
                let (quotient, rest) = polydiv(&x[0], &x[1]);
                vec![quotient, rest]
            },
            move |x| {
                let (u, v) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
                let first = u[0] / v[0];
                let second = (u[1] - first * v[1]) / v[0];
                let rest = vec![u[2] - first * v[2] - second * v[1], u[3] - second * v[2]];
                vec![Array::from(vec![first, second]), Array::from(rest)]
            },
        )
        .input([4], -1.0..1.0)
        .input([3], 0.5..1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_polynomials() {
        let two = Variable::new([3.0, 4.0]);
        assert_eq!(polyder(&two, 5).shape(), [0]);
        assert_eq!(polyder(&two, 0).to_vec::<f64>(), [3.0, 4.0]);
        assert_eq!(polyint(&two, 0).to_vec::<f64>(), [3.0, 4.0]);
        let none = Variable::new(Array::zeros([0], DType::F64));
        assert_eq!(poly(&none).to_vec::<f64>(), [1.0]);
        let (quotient, rest) = polydiv([1i64], &two);
        assert_eq!(quotient.to_vec::<f64>(), [0.0]);
        assert_eq!(rest.to_vec::<f64>(), [1.0]);
        let (quotient, rest) = polydiv(&two, [2.0]);
        assert_eq!(quotient.to_vec::<f64>(), [1.5, 2.0]);
        assert_eq!(rest.shape(), [0]);
    }
}
