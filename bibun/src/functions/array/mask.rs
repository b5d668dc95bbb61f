//! Masks of the positions that attention may use.

use bibun_array::{Array, DType, Shape, allocating};

use crate::error::{Error, raise};
use crate::variable::Variable;

/// Returns the mask under which each position attends to itself and to earlier positions: true on the
/// diagonal and below.
///
/// Shapes: → `[size, size]`, bool; rows are the positions that attend. Gradient: none.
///
/// # Panics
/// Panics if there are more elements than memory holds.
///
/// ```
/// use bibun::functions::causal_mask;
/// assert_eq!(causal_mask(2).to_vec::<bool>(), [true, false, true, true]);
/// ```
#[track_caller]
pub fn causal_mask(size: usize) -> Variable {
    let shape = Shape::from([size, size]).addressable("causal_mask");
    let mask = allocating("causal_mask", || Array::ones(shape, DType::Bool).tril(0));
    Variable::constant(mask)
}

/// Returns the mask of the elements of sequences that have been padded to one size: true at the first
/// `lengths[i]` positions of row `i`.
///
/// Shapes: → `[n, size]` for n lengths, bool. Gradient: none.
///
/// # Panics
/// Panics if a length is above `size`.
///
/// ```
/// use bibun::functions::length_mask;
/// assert_eq!(length_mask(&[1, 2], 2).to_vec::<bool>(), [true, false, true, true]);
/// ```
#[track_caller]
pub fn length_mask(lengths: &[usize], size: usize) -> Variable {
    if let Some(&length) = lengths.iter().find(|&&length| length > size) {
        let what = format!("a length is {length}, it must not be above the size {size}");
        raise(Error::argument("length_mask", what));
    }
    let shape = Shape::from([lengths.len(), size]).addressable("length_mask");
    let mask = allocating("length_mask", || {
        let mut mask = Array::zeros(shape, DType::Bool);
        let rows = mask.as_mut_slice::<bool>().chunks_exact_mut(size.max(1));
        for (row, &length) in rows.zip(lengths) {
            row[..length].fill(true);
        }
        mask
    });
    Variable::constant(mask)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    // A mask has no derivative, but a choice by it has.
    let sample = |name, mask: fn() -> Variable, kept: fn(usize, usize) -> bool| {
        Sample::new(
            name,
            move |x| vec![beside(x, mask()).where_(&x[0], 0.0)],
            move |x| {
                let x = x[0].to_vec::<f64>().into_iter().enumerate();
                let kept = x.map(|(i, x)| if kept(i / 3, i % 3) { x } else { 0.0 });
                vec![Array::from_vec(kept.collect(), [3, 3])]
            },
        )
        .input([3, 3], -2.0..2.0)
    };
    vec![
        sample("causal_mask", || causal_mask(3), |i, j| j <= i),
        sample(
            "length_mask",
            || length_mask(&[2, 0, 3], 3),
            |i, j| j < [2, 0, 3][i],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn ends_of_masks() {
        assert_eq!(causal_mask(0).shape(), [0, 0]);
        assert_eq!(length_mask(&[], 3).shape(), [0, 3]);
        let error = attempt(|| length_mask(&[1, 4], 3)).unwrap_err().to_string();
        assert!(error.contains("length_mask: a length is 4"), "{error}");
    }
}
