//! The next float.

use half::{bf16, f16};

use crate::placement::on_cpu;
use crate::{Array, DType, Element, Error, raise};

/// Moves each float by one in the order of its bits.
macro_rules! next_after {
    ($T:ident, $a:ident, $b:ident) => {{
        let next = |(a, b): ($T, $T)| {
            let (x, y) = (f64::from(a), f64::from(b));
            if x.is_nan() {
                return a;
            }
            if y.is_nan() || x == y {
                return b;
            }
            $T::from_bits(match x == 0.0 {
                // The smallest number with the sign of b.
                true => b.to_bits() >> ($T::DTYPE.size() * 8 - 1) << ($T::DTYPE.size() * 8 - 1) | 1,
                false if (y > x) == (x > 0.0) => a.to_bits() + 1,
                false => a.to_bits() - 1,
            })
        };
        let pairs = $a.to_vec::<$T>().into_iter().zip($b.to_vec::<$T>());
        Array::from_vec(pairs.map(next).collect(), $a.shape())
    }};
}

/// Returns the number next to `a` towards `b`, for each pair of elements of two arrays of floats of one shape
/// and dtype; `b` where they are equal. It is computed on the CPU.
///
/// ```
/// use bibun_array::{Array, ops};
/// let y = ops::nextafter(&Array::from([1.0]), &Array::from([2.0]));
/// assert_eq!(y.to_vec::<f64>(), [1.0 + f64::EPSILON]);
/// ```
///
/// # Panics
/// Panics if the shapes or dtypes differ, or the dtype is no float.
#[track_caller]
pub fn nextafter(a: &Array, b: &Array) -> Array {
    if a.shape() != b.shape() || a.dtype() != b.dtype() || !a.dtype().is_float() {
        let of = |x: &Array| format!("{} {}", x.shape(), x.dtype());
        let what = format!(
            "{} and {} must be floats of one shape and dtype",
            of(a),
            of(b)
        );
        raise(Error::invalid("nextafter", what));
    }
    let spec = (a.shape().clone(), a.dtype());
    let next = |x: &[Array]| {
        let [a, b] = [&x[0], &x[1]];
        vec![match a.dtype() {
            DType::F16 => next_after!(f16, a, b),
            DType::BF16 => next_after!(bf16, a, b),
            DType::F32 => next_after!(f32, a, b),
            DType::F64 => next_after!(f64, a, b),
            DType::Bool | DType::U8 | DType::I32 | DType::I64 | DType::C64 | DType::C128 => {
                unreachable!("it has been checked")
            }
        }]
    };
    let mut next = on_cpu("nextafter", &[a, b], &[spec], next);
    next.pop().expect("there is one result")
}
