//! Quantiles without a closed form: of counts by halving, and the derivatives of roots.

use bibun_array::DType;

use super::Distribution;
use crate::functions::condition::largest;
use crate::functions::{is_finite, maximum, where_};
use crate::variable::Variable;

/// Returns the smallest count up to which the probability is at least `p`, if it is not above `most`, by halving what it
/// is between.
pub(super) fn least_count(
    distribution: &impl Distribution,
    p: &Variable,
    most: &Variable,
) -> Option<Variable> {
    // Where there are no values to read, all whole numbers are between.
    let digits = match most.dtype() == DType::F64 {
        true => f64::MANTISSA_DIGITS,
        false => f32::MANTISSA_DIGITS,
    };
    let halvings = match largest(most) {
        Some(most) => (most + 2.0).log2().ceil() as u32,
        None => digits + 1,
    };
    let (p, most) = (p.detach(), most.detach());
    let (mut below, mut reached) = (-1.0 + 0.0 * (&most + &p), &most + 0.0 * &p);
    for _ in 0..halvings {
        let middle = (0.5 * (&below + &reached)).floor();
        let is_reached = distribution.cumulative(&middle)?.greater_equal(&p);
        reached = where_(&is_reached, &middle, reached);
        below = where_(is_reached, below, middle);
    }
    Some(maximum(reached, 0.0).detach())
}

/// Returns `x`, up to which the probability is `p`, with the derivatives that follow from that.
///
/// They are those of two of Newton's steps, of which the first one has the first derivatives, and the second one also the
/// second and the third ones. Infinite ends have none.
pub(super) fn root(
    distribution: &impl Distribution,
    x: &Variable,
    p: &Variable,
) -> Option<Variable> {
    let x = x.detach();
    let is_inside = is_finite(&x);
    let start = where_(&is_inside, &x, 0.0);
    let reached = distribution.cumulative(&start)?.detach();
    // The steps do not move x: what is left of the rounding of its probability is not counted.
    let missing = p - p.detach();
    let mut root = start;
    for _ in 0..2 {
        let excess = distribution.cumulative(&root)? - &reached - &missing;
        root = &root - excess / distribution.log_density(&root).exp();
    }
    Some(where_(is_inside, root, x))
}
