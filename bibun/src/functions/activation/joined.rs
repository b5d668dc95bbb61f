//! Activations that change the number of channels: concatenated ReLU and maxout.

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::{concat, max, relu, reshape};
use crate::variable::Variable;
use bibun_array::{Shape, normalize_axis};

/// Concatenates `relu(x)` and `relu(-x)` along `axis`.
///
/// Shapes: x any → twice as many elements along `axis`.
/// Types: floats; integers give f64.
/// Gradient: that of `relu`, 0 at 0.
/// Source: Shang, Sohn, Almeida, Lee 2016, arXiv:1603.05201.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::crelu, Variable};
/// let x = Variable::new([1.0, -2.0]);
/// assert_eq!(crelu(&x, 0).to_vec::<f64>(), [1.0, 0.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn crelu(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("crelu");
    let x = x.into();
    concat([&relu(&x), &relu(-&x)], axis)
}
method!(crelu, axis: isize);

/// Computes the maximum of every `pool_size` neighbours along `axis`.
///
/// Shapes: x with a size along `axis` that `pool_size` divides → that size divided by `pool_size`.
/// Types: all.
/// Gradient: `gy` to the maximum; equal maxima share it equally.
/// Source: Goodfellow, Warde-Farley, Mirza, Courville, Bengio 2013, arXiv:1302.4389.
///
/// # Panics
/// Panics if there is no such axis, or `pool_size` does not divide its size.
///
/// ```
/// use bibun::{functions::maxout, Variable};
/// let x = Variable::new([1.0, 5.0, -2.0, -3.0]);
/// assert_eq!(maxout(&x, 2, 0).to_vec::<f64>(), [5.0, -2.0]);
/// ```
#[track_caller]
pub fn maxout(x: impl Into<Variable>, pool_size: usize, axis: isize) -> Variable {
    let _whole = composite("maxout");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("maxout", axis, shape.rank());
    if pool_size == 0 || !shape[axis].is_multiple_of(pool_size) {
        let what = format!(
            "pool size {pool_size} must divide axis {axis} of x = {}",
            x.spec()
        );
        raise(Error::argument("maxout", what));
    }
    let pools = shape.replaced(axis, shape[axis] / pool_size);
    let split: Shape = pools.inserted(axis + 1, pool_size);
    max(reshape(x, split), axis as isize + 1)
}
method!(maxout, pool_size: usize, axis: isize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    vec![
        Sample::new(
            "crelu",
            |x| vec![crelu(&x[0], 1)],
            |x| {
                let rows = x[0].to_vec::<f64>();
                let both = |row: &[f64]| -> Vec<f64> {
                    let right = row.iter().map(|x| x.max(0.0));
                    right.chain(row.iter().map(|x| (-x).max(0.0))).collect()
                };
                vec![Array::from_vec(
                    rows.chunks(3).flat_map(both).collect(),
                    [2, 6],
                )]
            },
        )
        .input([2, 3], 0.2..2.0),
        Sample::new(
            "maxout",
            |x| vec![maxout(&x[0], 2, -1)],
            |x| {
                let pairs = x[0].to_vec::<f64>();
                let greatest = pairs.chunks(2).map(|pair| pair[0].max(pair[1]));
                vec![Array::from_vec(greatest.collect(), [3, 2])]
            },
        )
        .input([3, 4], -2.0..2.0),
    ]
}
