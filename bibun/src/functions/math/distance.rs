//! Distances of vectors and the cosine of their angle.

use bibun_array::{Axes, keep_dims};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::families::method;
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{
    Operand, abs, cast, expand_dims, float_of, logical_and, max, min, multiply, norm, not_equal,
    pow, subtract, sum, where_,
};
use crate::variable::Variable;

/// Computes the cosine of the angle between vectors along `axis`, `a · b / (|a| |b|)`, without overflow
/// in between; 0 where a vector is zero.
///
/// Shapes: a, b that broadcast → their common shape without `axis`.
/// Types: floats, promoted; integers give f64.
/// Gradient: `gy (b / |b| - y a / |a|) / |a|` to a, and likewise to b; 0 to vectors of zeros (to which
/// PyTorch, with denominators of at least 10⁻⁸, gives large ones).
///
/// # Panics
/// Panics if the shapes do not broadcast or there is no such axis.
///
/// ```
/// use bibun::{functions::cosine_similarity, Variable};
/// let a = Variable::new([[3.0, 4.0], [1e200, 0.0], [0.0, 0.0]]);
/// let y = cosine_similarity(&a, Variable::new([2.0, 0.0]), -1);
/// assert_eq!(y.to_vec::<f64>(), [0.6, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn cosine_similarity(a: impl Into<Operand>, b: impl Into<Operand>, axis: isize) -> Variable {
    let function = "cosine_similarity";
    let _whole = composite(function);
    let ([a, b], _) = Operand::pair(function, a.into(), b.into());
    let dtype = float_of(a.dtype(), [&b]);
    let [a, b] = [a, b].map(|x| direction(cast(x, dtype.accumulator()), axis));
    cast(sum(a * b, axis), dtype)
}
method!(cosine_similarity, b: impl Into<Operand>, axis: isize);

/// Returns vectors of length 1, or of zeros, which have no gradient.
#[track_caller]
fn direction(x: Variable, axis: isize) -> Variable {
    let length = norm(&x, keep_dims(axis));
    let nothing = length.equal(0.0);
    where_(&nothing, 0.0, x / where_(&nothing, 1.0, length))
}

/// Computes the distance of each vector of a from the one of b, `(Σ |a - b|ᵖ)^(1/p)` along the last axis.
///
/// The order `p` is any number from 0 on: 1 is the sum of the absolute differences, 2 the Euclidean
/// distance, infinity the largest absolute difference, and 0 the number of elements that differ.
///
/// Shapes: a, b that broadcast to `[n.., d]` → `[n..]`.
/// Types: floats, promoted; integers give f64.
/// Gradient: `gy sign(a - b) (|a - b| / y)ᵖ⁻¹` to a, the opposite to b; 0 where elements are equal, for
/// every `p` and all orders of derivative; none for `p = 0`; shared equally among the largest differences
/// for an infinite `p`; NaN at an infinite difference, unless `p` is 1, 2 or infinite.
///
/// # Panics
/// Panics if the shapes do not broadcast, or have no axis, or `p` is negative or NaN.
///
/// ```
/// use bibun::{functions::pairwise_distance, Variable};
/// let (a, b) = (Variable::new([[4.0, 5.0], [1.0, 1.0]]), Variable::new([1.0, 1.0]));
/// assert_eq!(pairwise_distance(&a, &b, 2.0).to_vec::<f64>(), [5.0, 0.0]);
/// assert_eq!(pairwise_distance(&a, &b, 1.0).to_vec::<f64>(), [7.0, 0.0]);
/// assert_eq!(pairwise_distance(&a, &b, f64::INFINITY).to_vec::<f64>(), [4.0, 0.0]);
/// ```
#[track_caller]
pub fn pairwise_distance(a: impl Into<Operand>, b: impl Into<Operand>, p: f64) -> Variable {
    let function = "pairwise_distance";
    let _whole = composite(function);
    let ([a, b], _) = Operand::pair(function, a.into(), b.into());
    distance(function, [a, b], p)
}
method!(pairwise_distance, b: impl Into<Operand>, p: f64);

/// Computes the distances of all vectors of a from all vectors of b, of any order `p`; see
/// [`pairwise_distance`].
///
/// They are computed from the differences, `n m d` numbers, and not from products of matrices, so that
/// those of near vectors are exact.
///
/// Shapes: a `[.., n, d]`, b `[.., m, d]`, whose first axes broadcast → `[.., n, m]`.
/// Types: floats, promoted; integers give f64.
/// Gradient: as of [`pairwise_distance`].
///
/// # Panics
/// Panics if the shapes do not fit, or `p` is negative or NaN.
///
/// ```
/// use bibun::{functions::cdist, Variable};
/// let a = Variable::new([[0.0, 0.0], [3.0, 4.0]]);
/// let b = Variable::new([[0.0, 1.0], [3.0, 4.0], [0.0, 0.0]]);
/// assert_eq!(cdist(&a, &b, 1.0).to_vec::<f64>(), [1.0, 7.0, 0.0, 6.0, 0.0, 7.0]);
/// ```
#[track_caller]
pub fn cdist(a: impl Into<Variable>, b: impl Into<Variable>, p: f64) -> Variable {
    let function = "cdist";
    let _whole = composite(function);
    let (a, b) = (a.into(), b.into());
    let (a_spec, b_spec) = (a.spec(), b.spec());
    let fits = a.rank() >= 2 && b.rank() >= 2 && a_spec.shape.last() == b_spec.shape.last();
    if !fits {
        let inputs = [("a [.., n, d]", &a_spec), ("b [.., m, d]", &b_spec)];
        mismatch(function, &inputs, "d must be equal")
    }
    let (rows, columns) = (expand_dims(a, -2), expand_dims(b, -3));
    if rows.shape().broadcast(&columns.shape()).is_none() {
        let inputs = [("a [.., n, d]", &a_spec), ("b [.., m, d]", &b_spec)];
        mismatch(function, &inputs, MUST_BROADCAST)
    }
    let ([rows, columns], _) = Operand::pair(function, rows.into(), columns.into());
    distance(function, [rows, columns], p)
}
method!(cdist, b: impl Into<Variable>, p: f64);

/// Computes the norm of order `p` of differences, along the last axis.
#[track_caller]
fn distance(function: &'static str, [a, b]: [Variable; 2], p: f64) -> Variable {
    if p.is_nan() || p < 0.0 {
        raise(Error::argument(
            function,
            format!("the order p is {p}, it must be at least 0"),
        ));
    }
    let (a_spec, b_spec) = (a.spec(), b.spec());
    if a.rank() == 0 {
        mismatch(
            function,
            &[("a", &a_spec), ("b", &b_spec)],
            "there must be an axis",
        )
    }
    let dtype = float_of(a_spec.dtype, [&b]);
    let [a, b] = [a, b].map(|x| cast(x, dtype.accumulator()));
    let difference = subtract(a, b);
    let axis = || Axes::from(-1);
    let y = if p == 0.0 {
        let differ = cast(not_equal(&difference, 0.0), dtype.accumulator());
        sum(differ, axis())
    } else if p == 1.0 {
        sum(abs(difference), axis())
    } else if p == 2.0 {
        norm(difference, axis())
    } else if difference.shape().last() == Some(&0) {
        sum(difference, axis())
    } else if p == f64::INFINITY {
        max(abs(difference), axis())
    } else {
        norm_of_order(abs(difference), p, axis())
    };
    cast(y, dtype)
}

/// Computes `(Σ sizeᵖ)^(1/p)` over axes, of sizes that are not negative and an order that is neither 0 nor infinite.
/// There must be elements.
pub(crate) fn norm_of_order(size: Variable, p: f64, axes: Axes) -> Variable {
    // Relative to the one that counts most, so that no power overflows; zeros are replaced, so that
    // their powers have no infinite derivatives.
    let most = match p > 0.0 {
        true => max(size.detach(), keep_dims(axes.clone())),
        false => min(size.detach(), keep_dims(axes.clone())),
    };
    let nothing = most.equal(0.0);
    let is_plain = logical_and(most.greater(0.0), most.less(f64::INFINITY));
    let scale = where_(is_plain, most, 1.0);
    let zero = size.equal(0.0);
    let powers = pow(where_(&zero, 1.0, size) / &scale, p);
    let total = sum(where_(zero, 0.0, powers), keep_dims(axes.clone()));
    let root = pow(where_(&nothing, 1.0, total), 1.0 / p);
    sum(where_(nothing, 0.0, multiply(root, scale)), axes)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = move |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    let mut samples = vec![
        Sample::new(
            "cosine_similarity",
            |x| vec![cosine_similarity(&x[0], &x[1], -1)],
            move |x| {
                let [a, b] = [0, 1].map(|i| x[i].to_vec::<f64>());
                vec![Array::from([0, 3].map(|row| cosine(&a[row..][..3], &b)))]
            },
        )
        .input([2, 3], 0.3..2.0)
        .input([3], 0.3..2.0),
        Sample::new(
            "cosine_similarity",
            |x| vec![cosine_similarity(&x[0], &x[1], 0)],
            move |x| {
                let [a, b] = [0, 1].map(|i| x[i].to_vec::<f64>());
                let column = |x: &[f64], i: usize| [x[i], x[i + 2]];
                vec![Array::from(
                    [0, 1].map(|i| cosine(&column(&a, i), &column(&b, i))),
                )]
            },
        )
        .input([2, 2], -2.0..-0.3)
        .input([2, 2], 0.3..2.0),
    ];
    for p in [0.0, 0.7, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        let length = move |a: &[f64], b: &[f64]| {
            let sizes = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            match p {
                0.0 => sizes.filter(|&size| size != 0.0).count() as f64,
                f64::INFINITY => sizes.fold(0.0, f64::max),
                _ => sizes.map(|size| size.powf(p)).sum::<f64>().powf(1.0 / p),
            }
        };
        let pairs = Sample::new(
            "pairwise_distance",
            move |x| vec![pairwise_distance(&x[0], &x[1], p)],
            move |x| {
                let [a, b] = [0, 1].map(|i| x[i].to_vec::<f64>());
                vec![Array::from([0, 3].map(|row| length(&a[row..][..3], &b)))]
            },
        );
        samples.push(pairs.input([2, 3], 0.5..2.0).input([3], -2.0..0.3));
        let all = Sample::new(
            "cdist",
            move |x| vec![cdist(&x[0], &x[1], p)],
            move |x| {
                let [a, b] = [0, 1].map(|i| x[i].to_vec::<f64>());
                let places = (0..12).map(|i| {
                    let (row, column) = ((i / 6 * 3 + i % 6 / 2) * 2, (i / 6 * 2 + i % 2) * 2);
                    length(&a[row..][..2], &b[column..][..2])
                });
                vec![Array::from_vec(places.collect(), [2, 3, 2])]
            },
        );
        samples.push(all.input([2, 3, 2], 0.5..2.0).input([2, 2, 2], -2.0..0.3));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::transformations::grad;

    const ORDERS: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, f64::INFINITY];

    #[test]
    fn equal_points_have_no_gradient() {
        let a = Variable::new([[1.0, 2.0], [1.0, 5.0]]);
        let b = Variable::new([[1.0, 2.0], [1.0, 2.0]]);
        for p in ORDERS {
            let first = |a: &Variable| grad(|a| pairwise_distance(a, &b, p).sum(..), a);
            let slopes = first(&a).to_vec::<f64>();
            let own = if p == 0.0 { 0.0 } else { 1.0 };
            assert_eq!(slopes[..3], [0.0; 3], "{p}");
            assert!((slopes[3] - own).abs() < 1e-15, "{p}: {slopes:?}");
            let second = grad(|a| first(a).square().sum(..), &a).to_vec::<f64>();
            assert!(second.iter().all(|x| x.is_finite()), "{p}: {second:?}");
            let first = grad(|a| cdist(a, a, p).sum(..), &a).to_vec::<f64>();
            assert!(first.iter().all(|x| x.is_finite()), "{p}: {first:?}");
        }
    }

    #[test]
    fn nothing_overflows_or_underflows_between() {
        for size in [1e-35f32, 1e35] {
            let a = Variable::new([3.0 * size, 4.0 * size]);
            for (p, expected) in ORDERS.into_iter().zip([
                2.0,
                7.0 + 48f32.sqrt(),
                7.0,
                (27f32.sqrt() + 8.0).powf(2.0 / 3.0),
                5.0,
                (3f32.powf(2.5) + 32.0).powf(0.4),
                91f32.cbrt(),
                4.0,
            ]) {
                let scale = if p == 0.0 { 1.0 } else { size };
                let y = pairwise_distance(&a, Variable::new([0.0f32]), p).item::<f32>();
                assert!((y / scale / expected - 1.0).abs() < 1e-5, "{p}: {y}");
                let slopes = grad(|a| pairwise_distance(a, 0.0, p), &a).to_vec::<f32>();
                assert!(
                    slopes.iter().all(|slope| slope.is_finite()),
                    "{p}: {slopes:?}"
                );
            }
        }
        let nothing = Variable::new([[0.0; 0]; 2]);
        for p in ORDERS {
            assert_eq!(
                pairwise_distance(&nothing, &nothing, p).to_vec::<f64>(),
                [0.0, 0.0]
            );
        }
    }

    #[test]
    fn an_infinite_difference_is_the_distance() {
        let a = Variable::new([f64::INFINITY, 0.0]);
        for p in [0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
            let far = |a: &Variable| pairwise_distance(a, [0.0, 1.0], p);
            assert_eq!(far(&a).item::<f64>(), f64::INFINITY, "{p}");
        }
        let nan = pairwise_distance(Variable::new([f64::NAN, 0.0]), [0.0, 1.0], 3.0);
        assert!(nan.item::<f64>().is_nan());
    }

    #[test]
    fn zeros_have_no_direction() {
        let a = Variable::new([[0.0, 0.0], [3e-200, 4e-200]]);
        let b = Variable::new([1.0, 0.0]);
        let first = |a: &Variable| grad(|a| cosine_similarity(a, &b, 1).sum(..), a);
        let slopes = first(&a).to_vec::<f64>();
        assert_eq!(slopes[..2], [0.0, 0.0]);
        assert!(
            (slopes[2] / (0.64 / 5e-200) - 1.0).abs() < 1e-12,
            "{slopes:?}"
        );
        let second = grad(|a| first(a).slice(crate::s![0]).sum(..), &a).to_vec::<f64>();
        assert_eq!(second, [0.0; 4]);
    }

    #[test]
    fn orders_are_not_negative() {
        let x = Variable::new([1.0]);
        for p in [-1.0, f64::NAN] {
            let error = attempt(|| pairwise_distance(&x, &x, p)).unwrap_err();
            assert!(error.to_string().contains("the order p is"), "{error}");
        }
        let error = attempt(|| cdist(&x, &x, 2.0)).unwrap_err();
        assert!(
            error.to_string().contains("a [.., n, d] = [1] f64"),
            "{error}"
        );
    }
}
