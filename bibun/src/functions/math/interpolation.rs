//! Values between others: on a line, on lines through points, of a polynomial.

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{
    Operand, abs, bucketize, cast, equal, float_of, greater_equal, less, logical_or, maximum,
    minimum, slice, take, to_float, unstack, where_, zeros_like,
};
use crate::s;
use crate::variable::Variable;

/// Computes `a + w (b - a)`, element by element: a where `w` is 0, b where it is 1.
///
/// Shapes: a, b, w that broadcast → their common shape. Types: floats, promoted; integers give f64.
/// Gradient: `gy (1 - w)` to a, `gy w` to b, `gy (b - a)` to w.
///
/// Source: `torch.lerp`.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::lerp, Variable};
/// let y = lerp(Variable::new([1.0, 2.0]), [3.0, 2.0], 0.25);
/// assert_eq!(y.to_vec::<f64>(), [1.5, 2.0]);
/// ```
#[track_caller]
pub fn lerp(a: impl Into<Operand>, b: impl Into<Operand>, w: impl Into<Operand>) -> Variable {
    let function = "lerp";
    let _whole = composite(function);
    let ([a, b], _) = Operand::pair(function, a.into(), b.into());
    let (a, b) = (to_float(a), to_float(b));
    let ([a, w], _) = Operand::pair(function, a.into(), w.into());
    let dtype = float_of(a.dtype(), [&b, &w]);
    let [a, b, w] = [a, b, w].map(|x| cast(x, dtype.accumulator()));
    let (difference, near) = (&b - &a, less(abs(&w), 0.5));
    // From the nearer end, which is so met exactly.
    let from_a = a + &w * &difference;
    let from_b = b - (1.0 - w) * difference;
    cast(where_(near, from_a, from_b), dtype)
}
method!(lerp, b: impl Into<Operand>, w: impl Into<Operand>);

/// Interpolates between points: the value at each element of x of the line through the points `(xp, fp)`,
/// which is constant outside of them.
///
/// Shapes: x any, xp `[n]` in ascending order, fp `[n]` → as x. Types: floats, promoted; integers give f64.
/// Gradient: to x the slope of the segment on the right (0 outside); to fp the weights of its ends; to xp
/// likewise.
///
/// Source: `numpy.interp`.
///
/// # Panics
/// Panics if xp and fp are not vectors of one length, or have no elements.
///
/// ```
/// use bibun::{functions::interp, Variable};
/// let x = Variable::new([-1.0, 0.5, 2.0, 9.0]);
/// let y = interp(&x, [0.0, 1.0, 3.0], [0.0, 10.0, 20.0]);
/// assert_eq!(y.to_vec::<f64>(), [0.0, 5.0, 15.0, 20.0]);
/// ```
#[track_caller]
pub fn interp(
    x: impl Into<Variable>,
    xp: impl Into<Variable>,
    fp: impl Into<Variable>,
) -> Variable {
    let function = "interp";
    let _whole = composite(function);
    let (x, xp, fp) = (x.into(), xp.into(), fp.into());
    let (xp_spec, fp_spec) = (xp.spec(), fp.spec());
    if xp.rank() != 1 || xp_spec.shape != fp_spec.shape || xp.size() == 0 {
        let inputs = [("xp [n]", &xp_spec), ("fp [n]", &fp_spec)];
        mismatch(function, &inputs, "n must be equal and not 0")
    }
    let dtype = float_of(x.dtype(), [&xp, &fp]);
    let [x, xp, fp] = [x, xp, fp].map(|x| cast(x, dtype.accumulator()));
    let count = xp.size();
    if count == 1 {
        return cast(where_(equal(&x, &x), fp, x), dtype);
    }
    let right = minimum(maximum(bucketize(&x, &xp, true), 1), count as i64 - 1);
    let at = |points: &Variable, index: &Variable| take(points, index, 0);
    let left = &right - 1;
    let (x0, x1) = (at(&xp, &left), at(&xp, &right));
    let (y0, y1) = (at(&fp, &left), at(&fp, &right));
    let width = &x1 - &x0;
    // Between points at the same place there is nothing.
    let nothing = equal(&width, 0.0);
    let (first, last) = (slice(&fp, s![0]), slice(&fp, s![-1]));
    let before = less(&x, slice(&xp, s![0]));
    let behind = greater_equal(&x, slice(&xp, s![-1]));
    // What is not chosen must be finite, for its derivatives are multiplied by 0.
    let near = where_(logical_or(&before, &behind), &x0, &x);
    let share = (near - &x0) / where_(nothing, 1.0, width);
    let inside = &y0 + share * (y1 - &y0);
    cast(where_(before, first, where_(behind, last, inside)), dtype)
}
method!(interp, xp: impl Into<Self>, fp: impl Into<Self>);

/// Computes a polynomial with the coefficients `p`, that of the highest power first, at each element of x, by
/// Horner's scheme.
///
/// Shapes: p `[n]`, x any → as x. Types: floats, promoted; integers give f64.
/// Gradient: `gy p'(x)` to x, and the sums of `gy` times its powers to p.
///
/// Source: `numpy.polyval`.
///
/// # Panics
/// Panics if the coefficients are not a vector.
///
/// ```
/// use bibun::{functions::polyval, Variable};
/// let y = polyval([1.0, 0.0, -2.0], Variable::new([3.0, 0.0]));
/// assert_eq!(y.to_vec::<f64>(), [7.0, -2.0]);
/// ```
#[track_caller]
pub fn polyval(p: impl Into<Variable>, x: impl Into<Variable>) -> Variable {
    let function = "polyval";
    let _whole = composite(function);
    let (p, x) = (p.into(), x.into());
    if p.rank() != 1 {
        mismatch(function, &[("p [n]", &p.spec())], "it must be a vector")
    }
    let dtype = float_of(x.dtype(), [&p]);
    let [p, x] = [p, x].map(|x| cast(x, dtype.accumulator()));
    let start = zeros_like(&x);
    let coefficients = unstack(p, 0);
    let y = (coefficients.into_iter()).fold(None, |y: Option<Variable>, coefficient| {
        Some(match y {
            None => &start + coefficient,
            Some(y) => y * &x + coefficient,
        })
    });
    cast(y.unwrap_or(start), dtype)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    let elements = |x: &[Array], i: usize| x[i].to_vec::<f64>();
    let points = [-1.0, 0.25, 0.5, 2.0];
    vec![
        Sample::new(
            "lerp",
            |x| vec![lerp(&x[0], &x[1], &x[2])],
            move |x| {
                let (a, b, w) = (elements(x, 0), elements(x, 1), elements(x, 2));
                let y = (0..6).map(|i| a[i] + w[i % 3] * (b[i / 3] - a[i]));
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([2, 3], -1.0..1.0)
        .input([2, 1], -1.0..1.0)
        .input([3], 0.0..1.0),
        Sample::new(
            "interp",
            move |x| vec![interp(&x[0], beside(x, points), &x[1])],
            move |x| {
                let (x, f) = (elements(x, 0), elements(x, 1));
                let y = x.iter().map(|&x| {
                    let segment = (0..3).find(|&i| points[i] <= x && x < points[i + 1]);
                    match segment {
                        None if x < 0.0 => f[0],
                        None => f[3],
                        Some(i) => {
                            let share = (x - points[i]) / (points[i + 1] - points[i]);
                            f[i] + share * (f[i + 1] - f[i])
                        }
                    }
                });
                vec![Array::from_vec(y.collect(), [3, 4])]
            },
        )
        .input([3, 4], -1.5..2.5)
        .input([4], -1.0..1.0),
        Sample::new(
            "polyval",
            |x| vec![polyval(&x[0], &x[1])],
            move |x| {
                let (p, x) = (elements(x, 0), elements(x, 1));
                let y = x.iter().map(|x| p[0] * x * x + p[1] * x + p[2]);
                vec![Array::from_vec(y.collect(), [2, 2])]
            },
        )
        .input([3], -1.0..1.0)
        .input([2, 2], -1.0..1.0),
    ]
}

#[cfg(test)]
mod tests {
    use bibun_array::DType;

    use super::*;
    use crate::transformations::grad;

    #[test]
    fn steps_and_the_ends() {
        let xp = Variable::new([0.0, 1.0, 1.0, 2.0]);
        let fp = Variable::new([0.0, 1.0, 5.0, 6.0]);
        let y = interp([1.0, 1.5, 2.0, f64::NAN], &xp, &fp).to_vec::<f64>();
        assert!(y[..3] == [5.0, 5.5, 6.0] && y[3].is_nan(), "{y:?}");
        let x = Variable::new([-1.0, 0.5, 1.5, 3.0]);
        let slopes = grad(|x| interp(x, &xp, &fp).sum(..), &x);
        assert_eq!(slopes.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(
            interp([1i64, 7], [2i64], [3i64]).to_vec::<f64>(),
            [3.0, 3.0]
        );
        let y = |fp: &Variable| interp([f64::NEG_INFINITY, 0.5, f64::INFINITY], &xp, fp);
        assert_eq!(y(&fp).to_vec::<f64>(), [0.0, 0.5, 6.0]);
        let slopes = grad(|fp| y(fp).sum(..), &fp);
        assert_eq!(slopes.to_vec::<f64>(), [1.5, 0.5, 0.0, 1.0]);
        assert_eq!(interp([f64::INFINITY], [2.0], [3.0]).item::<f64>(), 3.0);
        assert_eq!(polyval([5.0], [f64::INFINITY]).item::<f64>(), 5.0);
        let nothing = Variable::constant(bibun_array::Array::zeros([0], DType::F64));
        assert_eq!(polyval(nothing, [2.0]).to_vec::<f64>(), [0.0]);
    }
}
