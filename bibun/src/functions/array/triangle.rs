//! The triangles of matrices.

use bibun_array::Array;

use super::expect_matrix;
use crate::batch::Batched;
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::variable::Variable;

/// Returns the lower triangle of the last two axes: elements above the diagonal `offset` are zero.
/// Positive offsets are to the upper right of the main diagonal.
///
/// Shapes: x `[.., n, m]` → the same. Types: all. Gradient: the lower triangle of `gy`.
///
/// # Panics
/// Panics if there are fewer than two axes.
///
/// ```
/// use bibun::{functions::tril, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(tril(&x, 0).to_vec::<f64>(), [1.0, 0.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn tril(x: impl Into<Variable>, offset: isize) -> Variable {
    let part = Part::Lower;
    Linear::of(Triangle { part, offset }, x.into())
}
method!(tril, offset: isize);

/// Returns the upper triangle of the last two axes: elements below the diagonal `offset` are zero.
/// Positive offsets are to the upper right of the main diagonal.
///
/// Shapes: x `[.., n, m]` → the same. Types: all. Gradient: the upper triangle of `gy`.
///
/// # Panics
/// Panics if there are fewer than two axes.
///
/// ```
/// use bibun::{functions::triu, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(triu(&x, 1).to_vec::<f64>(), [0.0, 2.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn triu(x: impl Into<Variable>, offset: isize) -> Variable {
    let part = Part::Upper;
    Linear::of(Triangle { part, offset }, x.into())
}
method!(triu, offset: isize);

#[derive(Clone, Copy, Debug)]
enum Part {
    Lower,
    Upper,
}

#[derive(Clone, Debug)]
struct Triangle {
    part: Part,
    offset: isize,
}

impl LinearRule for Triangle {
    fn name(&self) -> &'static str {
        match self.part {
            Part::Lower => "tril",
            Part::Upper => "triu",
        }
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        expect_matrix(x)?;
        Ok(x.clone())
    }
    fn forward(&self, x: Array) -> Array {
        match self.part {
            Part::Lower => x.tril(self.offset),
            Part::Upper => x.triu(self.offset),
        }
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(self.clone(), gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    let shifted = |i: usize, offset: isize| i as isize + offset;
    vec![
        Sample::new(
            "tril",
            |x| vec![tril(&x[0], 1)],
            move |x| {
                vec![by_index([2, 2, 3], |i| {
                    match i[2] as isize <= shifted(i[1], 1) {
                        true => at(&x[0], i),
                        false => 0.0,
                    }
                })]
            },
        )
        .input([2, 2, 3], range.clone()),
        Sample::new(
            "triu",
            |x| vec![triu(&x[0], -1)],
            move |x| {
                vec![by_index([3, 2], |i| {
                    match i[1] as isize >= shifted(i[0], -1) {
                        true => at(&x[0], i),
                        false => 0.0,
                    }
                })]
            },
        )
        .input([3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_cut_to_triangles() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        assert_eq!(x.tril(0).to_vec::<i64>(), [1, 0, 3, 4]);
    }
}
