//! Which elements are near others, zero, or one of many.

use bibun_array::{Axes, DType};

use crate::call::composite;
use crate::functions::families::method;
use crate::functions::{
    Operand, abs, all, any, cast, equal, expand_dims, float_of, is_finite, less_equal, logical_and,
    logical_or, not_equal, reshape, sum,
};
use crate::variable::Variable;

/// Returns where two values are close: `|a - b| ≤ absolute + relative |b|`, or both the same infinity. NaN is
/// close to nothing.
///
/// Shapes: a, b that broadcast → their common shape, bool. Types: floats, promoted; integers as f64.
/// Gradient: none.
///
/// Source: `numpy.isclose`, whose tolerances are 10⁻⁵ relative and 10⁻⁸ absolute if none are given.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::is_close, Variable};
/// let a = Variable::constant([1.0, 1.1, f64::INFINITY, f64::NAN]);
/// let y = is_close(&a, [1.0 + 1e-7, 1.0, f64::INFINITY, f64::NAN], 1e-5, 0.0);
/// assert_eq!(y.to_vec::<bool>(), [true, false, true, false]);
/// ```
#[track_caller]
pub fn is_close(
    a: impl Into<Operand>,
    b: impl Into<Operand>,
    relative: f64,
    absolute: f64,
) -> Variable {
    close("is_close", a.into(), b.into(), [relative, absolute])
}
method!(is_close, b: impl Into<Operand>, relative: f64, absolute: f64);

#[track_caller]
fn close(
    function: &'static str,
    a: Operand,
    b: Operand,
    [relative, absolute]: [f64; 2],
) -> Variable {
    let _whole = composite(function);
    let ([a, b], _) = Operand::pair(function, a, b);
    let dtype = float_of(a.dtype(), [&b]).accumulator();
    let [a, b] = [a, b].map(|x| cast(x, dtype).detach());
    let near = less_equal(abs(&a - &b), abs(&b) * relative + absolute);
    // An infinite tolerance has everything near it.
    logical_or(equal(&a, &b), logical_and(near, is_finite(b)))
}

/// Returns whether all elements of two values are close; see [`is_close`].
///
/// Shapes: a, b that broadcast → `[]`, bool. Types: floats, promoted; integers as f64. Gradient: none.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::all_close, Variable};
/// let a = Variable::constant([1.0, 2.0]);
/// assert!(all_close(&a, [1.0, 2.0 + 1e-9], 1e-5, 1e-8).item::<bool>());
/// assert!(!all_close(&a, 1.0, 1e-5, 1e-8).item::<bool>());
/// ```
#[track_caller]
pub fn all_close(
    a: impl Into<Operand>,
    b: impl Into<Operand>,
    relative: f64,
    absolute: f64,
) -> Variable {
    let _whole = composite("all_close");
    let is_close = close("all_close", a.into(), b.into(), [relative, absolute]);
    all(is_close, ..)
}
method!(all_close, b: impl Into<Operand>, relative: f64, absolute: f64);

/// Counts the elements that are not zero over axes; NaN is not zero.
///
/// Shapes: x any → without the axes, or with size 1 for them under [`keep_dims`](bibun_array::keep_dims); i64.
/// Types: all. Gradient: none.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::count_nonzero, Variable};
/// let x = Variable::constant([[1.0, 0.0], [f64::NAN, -2.0]]);
/// assert_eq!(count_nonzero(&x, 1).to_vec::<i64>(), [1, 2]);
/// ```
#[track_caller]
pub fn count_nonzero(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let _whole = composite("count_nonzero");
    let x = x.into();
    let is_some = match x.dtype() == DType::Bool {
        true => x,
        false => not_equal(x.detach(), 0),
    };
    sum(cast(is_some, DType::I64), axes)
}
method!(count_nonzero, axes: impl Into<Axes>);

/// Returns which elements of x are among the elements of others. NaN is not among them.
///
/// It compares all with all, `n m` comparisons.
///
/// Shapes: x any, others any → as x, bool. Types: all, promoted. Gradient: none.
///
/// Source: `numpy.isin`.
///
/// ```
/// use bibun::{functions::is_in, Variable};
/// let x = Variable::constant([[1i64, 2], [3, 4]]);
/// assert_eq!(is_in(&x, [4i64, 1]).to_vec::<bool>(), [true, false, false, true]);
/// ```
#[track_caller]
pub fn is_in(x: impl Into<Variable>, others: impl Into<Variable>) -> Variable {
    let _whole = composite("is_in");
    let (x, others) = (x.into().detach(), others.into().detach());
    let shape = x.shape();
    let rows = expand_dims(reshape(x, [shape.size()]), 1);
    let others = reshape(&others, [1, others.size()]);
    reshape(any(equal(rows, others), 1), shape)
}
method!(is_in, others: impl Into<Self>);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::{Array, keep_dims};
    // Bools have no derivative, but selecting by them has one.
    let choice = |name, call: fn(&[Variable]) -> Variable, reference: fn(f64) -> bool| {
        Sample::new(
            name,
            move |x| vec![call(x).where_(&x[0], x[0].square())],
            move |x| {
                let chosen = |x: f64| if reference(x) { x } else { x * x };
                let y = x[0].to_vec::<f64>().into_iter().map(chosen).collect();
                vec![Array::from_vec(y, [2, 3])]
            },
        )
        .input([2, 3], -2.0..2.0)
    };
    vec![
        choice(
            "is_close",
            |x| is_close(&x[0], beside(x, 1.0), 0.5, 0.25),
            |x| (x - 1.0).abs() <= 0.75,
        ),
        choice(
            "all_close",
            |x| all_close(&x[0], beside(x, 0.0), 0.0, 2.5),
            |_| true,
        ),
        choice(
            "is_in",
            |x| is_in(x[0].trunc(), beside(x, [0.0, 5.0])),
            |x| x.trunc() == 0.0,
        ),
        choice(
            "count_nonzero",
            |x| count_nonzero(x[0].trunc() * 0.0 + 1.0, keep_dims(1)).equal(3),
            |_| true,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_near_nothing_infinite() {
        let (infinity, nan) = (f64::INFINITY, f64::NAN);
        let a = Variable::constant([1.0, infinity, -infinity, nan, 1.0]);
        let b = Variable::constant([infinity, infinity, infinity, nan, 1.0 + 1e-6]);
        let found = is_close(&a, &b, 1e-5, 0.0);
        assert_eq!(found.to_vec::<bool>(), [false, true, false, false, true]);
        let x = Variable::constant([0.0, nan]);
        assert_eq!(is_in(&x, [nan, 0.0]).to_vec::<bool>(), [true, false]);
        assert_eq!(count_nonzero(&x, ..).item::<i64>(), 1);
        let nothing = Variable::constant(bibun_array::Array::zeros([0], DType::F64));
        assert_eq!(is_in(&x, &nothing).to_vec::<bool>(), [false, false]);
        assert!(all_close(&nothing, 1.0, 0.0, 0.0).item::<bool>());
    }
}
