//! Matrix products.

use std::borrow::Cow;

use crate::{Array, DType, Error, Shape, ops, raise};

/// Computes the matrix product as in NumPy: over the last two axes, with all axes before them
/// broadcast. A vector on the left is a row, one on the right a column, and the axis that this adds
/// is removed from the result.
///
/// Takes floats and integers (which wrap around), and computes in [`DType::promote`] of the dtypes.
/// Transposed and sliced operands are read in place. The result does not depend on the number of
/// threads, not even in the last bit. The last bits of an element may differ in a product of other
/// sizes: a row alone is summed in another order than among others.
///
/// # Panics
/// Panics if an operand has rank 0, all dtypes are `bool`, or the shapes do not fit.
///
/// ```
/// use bibun_array::{matmul, Array};
/// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(matmul(&x, &x.transpose()).to_vec::<f64>(), [5.0, 11.0, 11.0, 25.0]);
/// assert_eq!(matmul(&x, &Array::from([1.0, 1.0])).to_vec::<f64>(), [3.0, 7.0]);
/// ```
#[track_caller]
pub fn matmul(a: &Array, b: &Array) -> Array {
    product("matmul", 1.0, a, b, None)
}

/// Computes `alpha a b + beta c`, with the product as in [`matmul`]. `c` is broadcast to the shape
/// of the product, so it can be a bias. If it is passed by value and no other array shares it, it
/// gives its memory to the result. It is not read if `beta` is 0, but its dtype counts. The product is
/// computed even if `alpha` is 0, which leaves NaN and infinite elements NaN.
///
/// # Panics
/// Panics as [`matmul`] does, and if `c` does not broadcast to the product, or if the dtype is an
/// integer and `alpha` or `beta` is not.
///
/// ```
/// use bibun_array::{gemm, Array};
/// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
/// let w = Array::from([[1.0, 0.0], [0.0, 2.0]]);
/// let b = Array::from([10.0, 20.0]);
/// let y = gemm(1.0, &x, &w, 1.0, b);
/// assert_eq!(y.to_vec::<f64>(), [11.0, 24.0, 13.0, 28.0]);
/// ```
#[track_caller]
pub fn gemm(alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
    product("gemm", alpha, a, b, Some((beta, c)))
}

/// Computes the sum of products over the last axis of `a` and the second-to-last of `b` (the only
/// one of a vector), as in NumPy. For two vectors this is their inner product. The axes of the
/// result are the remaining axes of `a`, then those of `b`.
///
/// # Panics
/// Panics as [`matmul`] does.
///
/// ```
/// use bibun_array::{dot, Array};
/// let x = Array::from([1.0, 2.0, 3.0]);
/// assert_eq!(dot(&x, &x).item::<f64>(), 14.0);
/// ```
#[track_caller]
pub fn dot(a: &Array, b: &Array) -> Array {
    if a.rank() <= 2 && b.rank() <= 2 {
        return product("dot", 1.0, a, b, None);
    }
    let (Some(k), Some(&n)) = (a.shape().last(), b.shape().last()) else {
        no_matrix("dot", a, b)
    };
    let rows: usize = a.shape()[..a.rank() - 1].iter().product();
    let others = match b.rank() {
        1 => &[][..],
        rank => &b.shape()[..rank - 2],
    };
    let (b_rows, columns) = match b.rank() {
        1 => (n, 1),
        rank => (b.shape()[rank - 2], n * others.iter().product::<usize>()),
    };
    if *k != b_rows {
        mismatch("dot", a, b);
    }
    let shape = (a.shape()[..a.rank() - 1].iter())
        .chain(others)
        .chain((b.rank() > 1).then_some(&n))
        .copied();
    let shape = shape.collect::<Shape>().addressable("dot");
    let flat_b = match b.rank() {
        1 => b.expand_dims(1),
        _ => b.moveaxis(-2, 0).reshape([b_rows, columns]),
    };
    product("dot", 1.0, &a.reshape([rows, *k]), &flat_b, None).reshape(shape)
}

/// Computes the products of each element of `a` with each element of `b`: a matrix
/// `[a.size(), b.size()]`.
///
/// # Panics
/// Panics if both dtypes are `bool`.
///
/// ```
/// use bibun_array::{outer, Array};
/// let y = outer(&Array::from([1.0, 2.0]), &Array::from([3.0, 4.0]));
/// assert_eq!(y.to_vec::<f64>(), [3.0, 4.0, 6.0, 8.0]);
/// ```
#[track_caller]
pub fn outer(a: &Array, b: &Array) -> Array {
    let (a, b) = (a.reshape([a.size(), 1]), b.reshape([1, b.size()]));
    product("outer", 1.0, &a, &b, None)
}

/// `alpha a b`, plus `beta c` for an `addend` `(beta, c)`.
#[track_caller]
fn product(
    function: &'static str,
    alpha: f64,
    a: &Array,
    b: &Array,
    addend: Option<(f64, Array)>,
) -> Array {
    if a.rank() == 0 || b.rank() == 0 {
        no_matrix(function, a, b);
    }
    let dtype = a.dtype().promote(b.dtype());
    let dtype = (addend.iter()).fold(dtype, |dtype, (_, c)| dtype.promote(c.dtype()));
    let (beta, c) = addend.unwrap_or_else(|| (0.0, Array::zeros((), dtype)));
    if dtype == DType::Bool {
        let what = "is not defined for the dtype bool";
        raise(Error::invalid(function, what));
    }
    if dtype.is_integer() && (alpha.fract() != 0.0 || beta.fract() != 0.0) {
        let what = format!("the factors {alpha} and {beta} of whole numbers are not whole");
        raise(Error::invalid(function, what));
    }
    if a.shape()[a.rank() - 1] != b.shape()[b.rank().saturating_sub(2)] {
        mismatch(function, a, b);
    }

    let matrix = |x, new_axis| -> Cow<'_, Array> {
        let x: &Array = x;
        match x.rank() {
            1 => Cow::Owned(ops::cast(x.expand_dims(new_axis), dtype)),
            _ if x.dtype() == dtype => Cow::Borrowed(x),
            _ => Cow::Owned(ops::cast(x.clone(), dtype)),
        }
    };
    let (mut left, mut right) = (matrix(a, 0), matrix(b, 1));
    let [m, n] = [
        left.shape()[left.rank() - 2],
        right.shape()[right.rank() - 1],
    ];
    let mut full = Shape::from([m, n]);
    if left.rank() > 2 || right.rank() > 2 {
        let batch_of = |x: &Array| Shape::from(&x.shape()[..x.rank() - 2]);
        let Some(batch) = batch_of(&left).broadcast(&batch_of(&right)) else {
            raise(Error::Broadcast {
                function,
                left: a.shape().clone(),
                right: b.shape().clone(),
                location: crate::caller(),
            })
        };
        let k = a.shape()[a.rank() - 1];
        let with = |sizes: [usize; 2]| batch.iter().copied().chain(sizes).collect::<Shape>();
        let repeated = |x: &Array, sizes| x.broadcast_to(with(sizes).addressable(function));
        (left, right) = (
            Cow::Owned(repeated(&left, [m, k])),
            Cow::Owned(repeated(&right, [k, n])),
        );
        full = with([m, n]);
    }
    let full = full.addressable(function);

    // The result of vectors has fewer axes, and `c` is broadcast to those.
    let mut shape = full.clone();
    if b.rank() == 1 {
        shape = shape.removed(shape.rank() - 1);
    }
    if a.rank() == 1 {
        shape = shape.removed(full.rank() - 2);
    }
    if !c.shape().broadcasts_to(&shape) {
        let what = format!(
            "c {} cannot be repeated to the shape {shape} of the product of a {} and b {}",
            c.shape(),
            a.shape(),
            b.shape()
        );
        raise(Error::invalid(function, what));
    }
    let mut c = ops::cast(c, dtype);
    if shape != full {
        c = c.broadcast_to(&shape).reshape(&full);
    }
    let device = crate::placement::common(function, [&*left, &right, &c]);
    let y = crate::error::allocating(function, || device.gemm(alpha, &left, &right, beta, c));
    match shape == full {
        true => y,
        false => y.reshape(shape),
    }
}

#[cold]
#[track_caller]
fn no_matrix(function: &'static str, a: &Array, b: &Array) -> ! {
    let what = format!(
        "the shapes are {} and {}, expected at least one axis",
        a.shape(),
        b.shape()
    );
    raise(Error::invalid(function, what))
}

#[cold]
#[track_caller]
fn mismatch(function: &'static str, a: &Array, b: &Array) -> ! {
    let what = format!(
        "the shapes are {} and {}: {} columns on the left, {} rows on the right",
        a.shape(),
        b.shape(),
        a.shape()[a.rank() - 1],
        b.shape()[b.rank().saturating_sub(2)],
    );
    raise(Error::invalid(function, what))
}
