//! Vectors: their products with each other, the distances among them, and their length held within a bound.

use bibun_array::Array;

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::families::method;
use crate::functions::{
    Operand, cast, conj, constant_beside, in_accumulator, less_equal, moveaxis, pairwise_distance,
    reshape, sum, take, to_float, to_number, where_,
};
use crate::variable::Variable;

/// Computes the dot products of vectors along an axis, `Σ conj(a) b`.
///
/// Shapes: a, b that broadcast → their common shape without `axis`.
/// Types: all, promoted; bools are added up as i64.
/// Gradient: `gy b` to a, `gy a` to b, of complex numbers `conj(gy) b` to a.
///
/// Source: `torch.linalg.vecdot`.
///
/// # Panics
/// Panics if the shapes do not broadcast, or there is no such axis.
///
/// ```
/// use bibun::{functions::vecdot, Variable};
/// let a = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(vecdot(&a, [10.0, 1.0], -1).to_vec::<f64>(), [12.0, 34.0]);
/// ```
#[track_caller]
pub fn vecdot(a: impl Into<Operand>, b: impl Into<Operand>, axis: isize) -> Variable {
    let function = "vecdot";
    let _whole = composite(function);
    let ([a, b], _) = Operand::pair(function, a.into(), b.into());
    let dtype = to_number(a.clone()).dtype().promote(b.dtype());
    let [a, b] = [a, b].map(|x| cast(x, dtype.accumulator()));
    cast(sum(conj(a) * b, axis), dtype)
}
method!(vecdot, b: impl Into<Operand>, axis: isize);

/// Computes the distances of order `p` between each two vectors of x, the pairs in the order
/// (0, 1), (0, 2), .., (1, 2), ..; see [`pairwise_distance`].
///
/// Shapes: x `[n, d]` → `[n (n - 1) / 2]`. Types: floats; integers give f64.
/// Gradient: as of [`pairwise_distance`].
///
/// # Panics
/// Panics if x is not a matrix, or `p` is negative or NaN.
///
/// ```
/// use bibun::{functions::pdist, Variable};
/// let x = Variable::new([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]);
/// assert_eq!(pdist(&x, 1.0).to_vec::<f64>(), [7.0, 1.0, 6.0]);
/// ```
#[track_caller]
pub fn pdist(x: impl Into<Variable>, p: f64) -> Variable {
    let function = "pdist";
    let _whole = composite(function);
    let x = x.into();
    let [n, _] = x.shape()[..] else {
        mismatch(function, &[("x [n, d]", &x.spec())], "it must be a matrix")
    };
    let pairs = (0..n as i64).flat_map(|i| (i + 1..n as i64).map(move |j| [i, j]));
    let (rows, others): (Vec<i64>, Vec<i64>) = pairs.map(|[i, j]| (i, j)).unzip();
    let [rows, others] =
        [rows, others].map(|index| take(&x, constant_beside(&[&x], Array::from(index)), 0));
    pairwise_distance(rows, others, p)
}
method!(pdist, p: f64);

/// Scales each slice of x along an axis so that its norm of order `p` is at most a bound; slices within it are
/// left as they are.
///
/// Shapes: x any → the same. Types: floats; integers give f64.
/// Gradient: through the scaling, of the slices that are scaled; `gy` to the others.
///
/// Source: `torch.renorm`.
///
/// # Panics
/// Panics if there is no such axis, `p` is not greater than 0, or the bound is negative or NaN.
///
/// ```
/// use bibun::{functions::renorm, Variable};
/// let x = Variable::new([[3.0, 4.0], [0.3, 0.4]]);
/// assert_eq!(renorm(&x, 2.0, 0, 2.5).to_vec::<f64>(), [1.5, 2.0, 0.3, 0.4]);
/// ```
#[track_caller]
pub fn renorm(x: impl Into<Variable>, p: f64, axis: isize, bound: f64) -> Variable {
    let function = "renorm";
    let _whole = composite(function);
    let is_order = p > 0.0;
    if !is_order || bound.is_nan() || bound < 0.0 {
        let what = format!(
            "p is {p} and the bound {bound}; p must be greater than 0, the bound at least 0"
        );
        raise(Error::argument(function, what));
    }
    let x = to_float(x.into());
    let axis = bibun_array::normalize_axis(function, axis, x.rank());
    in_accumulator(x, |x| {
        let rows = moveaxis(&x, axis as isize, 0);
        let count = rows.shape()[0];
        let rows = reshape(&rows, [count, rows.size() / count.max(1)]);
        let length = pairwise_distance(rows, 0.0, p);
        let is_within = less_equal(&length, bound);
        let scale = where_(&is_within, 1.0, bound / where_(&is_within, 1.0, length));
        let mut aligned = vec![1; x.rank()];
        aligned[axis] = count;
        x * reshape(scale, aligned)
    })
}
method!(renorm, p: f64, axis: isize, bound: f64);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    let elements = |x: &[Array], i: usize| x[i].to_vec::<f64>();
    vec![
        Sample::new(
            "vecdot",
            |x| vec![vecdot(&x[0], &x[1], 0)],
            move |x| {
                let (a, b) = (elements(x, 0), elements(x, 1));
                let y = (0..3).map(|i| (0..2).map(|k| a[k * 3 + i] * b[k]).sum::<f64>());
                vec![Array::from(y.collect::<Vec<_>>())]
            },
        )
        .input([2, 3], -1.0..1.0)
        .input([2, 1], -1.0..1.0),
        Sample::new(
            "pdist",
            |x| vec![pdist(&x[0], 3.0)],
            move |x| {
                let x = elements(x, 0);
                let distance = |[i, j]: [usize; 2]| {
                    let terms = (0..2).map(|k| (x[i * 2 + k] - x[j * 2 + k]).abs().powi(3));
                    terms.sum::<f64>().cbrt()
                };
                let y = [[0, 1], [0, 2], [1, 2]].map(distance);
                vec![Array::from(y)]
            },
        )
        .input([3, 2], -2.0..2.0),
        Sample::new(
            "renorm",
            |x| vec![renorm(&x[0] * beside(x, [1.0, 0.1, 1.0]), 2.0, 1, 0.9)],
            move |x| {
                let x = elements(x, 0);
                let x: Vec<f64> = (0..6).map(|i| x[i] * [1.0, 0.1, 1.0][i % 3]).collect();
                let y = (0..6).map(|i| {
                    let length = x[i % 3].hypot(x[i % 3 + 3]);
                    if length <= 0.9 {
                        x[i]
                    } else {
                        x[i] * 0.9 / length
                    }
                });
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([2, 3], 1.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::{Complex, DType};

    #[test]
    fn nothing_and_zeros() {
        let nothing = |shape: [usize; 2]| Variable::new(Array::zeros(shape, DType::F64));
        assert_eq!(pdist(nothing([1, 2]), 2.0).shape(), [0]);
        assert_eq!(pdist(nothing([0, 2]), 2.0).shape(), [0]);
        assert_eq!(renorm(nothing([0, 2]), 2.0, 0, 1.0).shape(), [0, 2]);
        assert_eq!(
            renorm(nothing([1, 2]), 2.0, 0, 0.0).to_vec::<f64>(),
            [0.0, 0.0]
        );
        assert_eq!(vecdot([1i64, 2], [3i64, 4], 0).item::<i64>(), 11);
        let [a, b] = [[(1.0, 2.0), (0.0, 1.0)], [(3.0, -1.0), (2.0, 0.0)]];
        let [a, b] = [a, b].map(|x| Variable::new(x.map(|(re, im)| Complex::new(re, im))));
        let y = vecdot(a, b, 0).item::<Complex<f64>>();
        assert_eq!(y, Complex::new(1.0, -9.0));
        assert_eq!(vecdot([true, true], [true, false], 0).item::<i64>(), 1);
    }
}
