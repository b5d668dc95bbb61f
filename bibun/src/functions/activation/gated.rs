//! Gated linear units.

use bibun_array::normalize_axis;

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{in_accumulator, sigmoid, split, to_float};
use crate::variable::Variable;

/// Computes the gated linear unit, `a sigmoid(b)`, of the halves a and b of x along `axis`.
///
/// Shapes: x of an even size along `axis` → half as many elements along it.
/// Types: floats; integers give f64.
/// Gradient: `gy sigmoid(b)` to a, `gy a sigmoid(b) sigmoid(-b)` to b.
/// Source: Y. N. Dauphin, A. Fan, M. Auli and D. Grangier, Language modeling with gated convolutional
/// networks, 2017.
///
/// # Panics
/// Panics if there is no such axis or its size is odd.
///
/// ```
/// use bibun::{functions::glu, Variable};
/// let x = Variable::new([[3.0, 4.0, 0.0, 1000.0]]);
/// assert_eq!(glu(&x, -1).to_vec::<f64>(), [1.5, 4.0]);
/// ```
#[track_caller]
pub fn glu(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("glu");
    let x = to_float(x.into());
    let size = x.shape()[normalize_axis("glu", axis, x.rank())];
    if !size.is_multiple_of(2) {
        mismatch(
            "glu",
            &[("x", &x.spec())],
            format!("the size along axis {axis} must be even"),
        )
    }
    in_accumulator(x, |x| {
        let halves = split(x, 2, axis);
        &halves[0] * sigmoid(&halves[1])
    })
}
method!(glu, axis: isize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let gated = |a: f64, b: f64| a / (1.0 + (-b).exp());
    vec![
        Sample::new(
            "glu",
            |x| vec![glu(&x[0], 0)],
            move |x| {
                let x = x[0].to_vec::<f64>();
                let y = (0..6).map(|i| gated(x[i], x[i + 6]));
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([4, 3], -2.0..2.0),
        Sample::new(
            "glu",
            |x| vec![glu(&x[0], -1)],
            move |x| {
                let x = x[0].to_vec::<f64>();
                let y = (0..6).map(|i| gated(x[i / 2 * 4 + i % 2], x[i / 2 * 4 + i % 2 + 2]));
                vec![Array::from_vec(y.collect(), [3, 2])]
            },
        )
        .input([3, 4], -2.0..2.0),
    ]
}
