//! Elements, and whole arrays, several times.

use bibun_array::{Shape, normalize_axis};
use smallvec::SmallVec;

use crate::call::composite;
use crate::functions::families::method;
use crate::functions::{broadcast_to, expand_dims, reshape};
use crate::variable::Variable;

/// Repeats each element `times` times along `axis`, with its repeats side by side.
///
/// Shapes: x `[.., n, ..]` → `[.., n times, ..]`. Types: all.
/// Gradient: `gy`, summed over the repeats.
///
/// # Panics
/// Panics if `axis` does not exist.
///
/// ```
/// use bibun::{functions::repeat, Variable};
/// let y = repeat(&Variable::new([1.0, 2.0]), 2, 0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 2.0, 2.0]);
/// ```
#[track_caller]
pub fn repeat(x: impl Into<Variable>, times: usize, axis: isize) -> Variable {
    let _whole = composite("repeat");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("repeat", axis, shape.rank());
    let apart = expand_dims(x, axis as isize + 1);
    let repeated = shape.inserted(axis + 1, times).addressable("repeat");
    let joined = shape.replaced(axis, shape[axis].saturating_mul(times));
    reshape(broadcast_to(apart, repeated), joined.addressable("repeat"))
}
method!(repeat, times: usize, axis: isize);

/// Repeats x as a whole, `repeats[i]` times along axis `i`. If there are fewer repeats than axes, they
/// belong to the last axes; if there are more, x gets new axes in front.
///
/// Shapes: x `[n, ..]` → `[n repeats, ..]`. Types: all. Gradient: `gy`, summed over the repeats.
///
/// ```
/// use bibun::{functions::tile, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// assert_eq!(tile(&x, &[2]).to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
/// assert_eq!(tile(&x, &[3, 1]).shape(), [3, 2]);
/// ```
#[track_caller]
pub fn tile(x: impl Into<Variable>, repeats: &[usize]) -> Variable {
    let _whole = composite("tile");
    let x = x.into();
    let shape = x.shape();
    let rank = shape.rank().max(repeats.len());
    let aligned = |sizes: &[usize]| -> SmallVec<[usize; 4]> {
        let new = std::iter::repeat_n(1, rank - sizes.len());
        new.chain(sizes.iter().copied()).collect()
    };
    let (sizes, repeats) = (aligned(&shape), aligned(repeats));
    let pairs = || repeats.iter().copied().zip(sizes.iter().copied());
    let apart: Shape = pairs().flat_map(|(_, size)| [1, size]).collect();
    let repeated: Shape = pairs().flat_map(|(times, size)| [times, size]).collect();
    let tiled = pairs().map(|(times, size)| times.saturating_mul(size));
    let tiled = tiled.collect::<Shape>().addressable("tile");
    let repeated = repeated.addressable("tile");
    reshape(broadcast_to(reshape(x, apart), repeated), tiled)
}
method!(tile, repeats: &[usize]);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "repeat",
            |x| vec![repeat(&x[0], 3, 0)],
            move |x| vec![by_index([6, 3], |i| at(&x[0], &[i[0] / 3, i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "repeat",
            |x| vec![repeat(&x[0], 2, -1)],
            move |x| vec![by_index([2, 6], |i| at(&x[0], &[i[0], i[1] / 2]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "tile",
            |x| vec![tile(&x[0], &[2])],
            move |x| vec![by_index([2, 6], |i| at(&x[0], &[i[0], i[1] % 3]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "tile",
            |x| vec![tile(&x[0], &[2, 1, 3])],
            move |x| vec![by_index([2, 1, 6], |i| at(&x[0], &[i[2] % 2]))],
        )
        .input([2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::{Array, DType};

    #[test]
    fn bools_are_repeated() {
        let flags = Variable::constant([true, false]);
        let twice = [true, true, false, false];
        assert_eq!(flags.repeat(2, 0).to_vec::<bool>(), twice);
    }

    #[test]
    fn nothing_stays_nothing() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(x.repeat(0, 0).shape(), [0, 0]);
        assert_eq!(x.tile(&[0]).shape(), [2, 0]);
    }
}
