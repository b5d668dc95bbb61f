//! Combinations of elements, and quarter turns.

use bibun_array::{Array, normalize_axis};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::families::method;
use crate::functions::{constant_beside, flip, meshgrid, reshape, stack, swapaxes, take};
use crate::variable::Variable;

/// Turns x by `times` quarters in the plane of two axes, from the first towards the second.
///
/// Shapes: x any → the sizes of both axes exchanged if `times` is odd. Types: all.
/// Gradient: `gy`, turned back.
///
/// Source: `numpy.rot90`.
///
/// # Panics
/// Panics if there are no such axes, or they are the same.
///
/// ```
/// use bibun::{functions::rot90, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(rot90(&x, 1, [0, 1]).to_vec::<f64>(), [2.0, 4.0, 1.0, 3.0]);
/// ```
#[track_caller]
pub fn rot90(x: impl Into<Variable>, times: isize, axes: [isize; 2]) -> Variable {
    let function = "rot90";
    let _whole = composite(function);
    let x = x.into();
    let [a, b] = axes.map(|axis| normalize_axis(function, axis, x.rank()) as isize);
    if a == b {
        let what = format!("the axes {axes:?} of x = {} are the same", x.spec());
        raise(Error::argument(function, what));
    }
    match times.rem_euclid(4) {
        0 => x,
        1 => swapaxes(flip(x, b), a, b),
        2 => flip(x, [a, b]),
        _ => flip(swapaxes(x, a, b), b),
    }
}
method!(rot90, times: isize, axes: [isize; 2]);

/// Returns all tuples of one element of each vector; the last one changes fastest.
///
/// Shapes: vectors `[n₁]`, `[n₂]`, .. → `[n₁ n₂ .., vectors]`. Types: all, promoted.
/// Gradient: to each element the sum of those of the tuples that have it.
///
/// Source: `torch.cartesian_prod`, which gives a vector for one vector.
///
/// # Panics
/// Panics if there are no vectors, or one is not a vector.
///
/// ```
/// use bibun::{functions::cartesian_prod, Variable};
/// let y = cartesian_prod([Variable::new([1.0, 2.0]), Variable::new([5.0, 6.0])]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 5.0, 1.0, 6.0, 2.0, 5.0, 2.0, 6.0]);
/// ```
#[track_caller]
pub fn cartesian_prod(xs: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let function = "cartesian_prod";
    let _whole = composite(function);
    let xs: Vec<Variable> = xs.into_iter().map(Into::into).collect();
    for x in &xs {
        if x.rank() != 1 {
            mismatch(function, &[("x [n]", &x.spec())], "it must be a vector")
        }
    }
    if xs.is_empty() {
        raise(Error::argument(function, "there are no vectors"));
    }
    let count = xs.len();
    let tuples = stack(meshgrid(&xs), -1);
    reshape(&tuples, [tuples.size() / count, count])
}

/// Returns all choices of `r` elements of a vector, each in the order in which they stand there.
///
/// Shapes: x `[n]` → `[n over r, r]`. Types: all.
/// Gradient: to each element the sum of those of the choices that have it.
///
/// Source: `torch.combinations`.
///
/// # Panics
/// Panics if x is not a vector, or if there is no memory for so many choices.
///
/// ```
/// use bibun::{functions::combinations, Variable};
/// let y = combinations(&Variable::new([1.0, 2.0, 3.0]), 2);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 1.0, 3.0, 2.0, 3.0]);
/// ```
#[track_caller]
pub fn combinations(x: impl Into<Variable>, r: usize) -> Variable {
    let function = "combinations";
    let _whole = composite(function);
    let x = x.into();
    let [n] = x.shape()[..] else {
        mismatch(function, &[("x [n]", &x.spec())], "it must be a vector")
    };
    // Their number is computed before they are: in a row of Pascal's triangle it is an integer at each step.
    let mut factors = (0..r.min(n.saturating_sub(r))).map(|i| (n - i, i + 1));
    let multiply = |count: usize, (factor, divisor)| Some(count.checked_mul(factor)? / divisor);
    let count = match r > n {
        true => 0,
        false => factors.try_fold(1, multiply).unwrap_or(usize::MAX),
    };
    let size = count.saturating_mul(r);
    if size >= 1 << 60 {
        let what = format!(
            "x is {}; its choices of {r} have 2^60 elements or more",
            x.spec()
        );
        raise(Error::argument(function, what));
    }
    let mut chosen: Vec<i64> = Vec::new();
    if chosen.try_reserve_exact(size).is_err() {
        // Refused as the elements of any array are.
        drop(Array::arange(0, size as i64));
    }
    let mut choice: Vec<usize> = (0..r).collect();
    let mut is_last = r > n;
    while !is_last {
        chosen.extend(choice.iter().map(|&i| i as i64));
        // The last place that can still go on; those behind it follow.
        let place = (0..r).rev().find(|&place| choice[place] < n - r + place);
        if let Some(place) = place {
            let next = choice[place] + 1;
            (place..r).for_each(|i| choice[i] = next + i - place);
        }
        is_last = place.is_none();
    }
    let chosen = Array::from(chosen).reshape([count, r]);
    take(&x, constant_beside(&[&x], chosen), 0)
}
method!(combinations, r: usize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let turned = |times: isize| {
        Sample::new(
            "rot90",
            move |x| vec![rot90(&x[0], times, [0, -1])],
            move |x| {
                let shape = if times % 2 == 0 { [2, 3] } else { [3, 2] };
                vec![by_index(shape, |i| {
                    let from = match times.rem_euclid(4) {
                        0 => [i[0], i[1]],
                        1 => [i[1], 2 - i[0]],
                        2 => [1 - i[0], 2 - i[1]],
                        _ => [1 - i[1], i[0]],
                    };
                    at(&x[0], &from)
                })]
            },
        )
        .input([2, 3], -1.0..1.0)
    };
    vec![
        turned(0),
        turned(1),
        turned(2),
        turned(-1),
        Sample::new(
            "cartesian_prod",
            |x| vec![cartesian_prod([&x[0], &x[1]])],
            |x| {
                vec![by_index([6, 2], |i| {
                    [at(&x[0], &[i[0] / 3]), at(&x[1], &[i[0] % 3])][i[1]]
                })]
            },
        )
        .input([2], -1.0..1.0)
        .input([3], -1.0..1.0),
        Sample::new(
            "combinations",
            |x| vec![combinations(&x[0], 3)],
            |x| {
                let chosen = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]];
                vec![by_index([4, 3], |i| at(&x[0], &[chosen[i[0]][i[1]]]))]
            },
        )
        .input([4], -1.0..1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_and_too_many() {
        let x = Variable::constant([1i64, 2]);
        assert_eq!(combinations(&x, 0).shape(), [1, 0]);
        assert_eq!(combinations(&x, 2).to_vec::<i64>(), [1, 2]);
        assert_eq!(combinations(&x, 3).shape(), [0, 3]);
        assert_eq!(cartesian_prod([&x]).shape(), [2, 1]);
    }
}
