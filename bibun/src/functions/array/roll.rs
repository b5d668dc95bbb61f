//! Elements shifted along an axis, from its end back to its start.

use bibun_array::{Array, normalize_axis};

use crate::batch::Batched;
use crate::examples::Examples;
use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule, method};
use crate::variable::Variable;

/// Shifts the elements by `shift` positions along `axis`. Elements that leave at the end come in at
/// the start. A negative shift moves towards the start.
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, rolled back.
///
/// # Panics
/// Panics if `axis` does not exist.
///
/// ```
/// use bibun::{functions::roll, Variable};
/// assert_eq!(roll(&Variable::new([1.0, 2.0, 3.0]), 1, 0).to_vec::<f64>(), [3.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn roll(x: impl Into<Variable>, shift: isize, axis: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("roll", axis, x.rank());
    // Reduced to the size of the axis, so that no shift overflows when it is negated.
    let shift = match x.shape()[axis] {
        0 => 0,
        size => shift.rem_euclid(size as isize),
    };
    Linear::of(Roll { shift, axis }, x)
}
method!(roll, shift: isize, axis: isize);

#[derive(Clone, Debug)]
struct Roll {
    shift: isize,
    axis: usize,
}

impl LinearRule for Roll {
    fn name(&self) -> &'static str {
        "roll"
    }
    fn forward(&self, x: Array) -> Array {
        x.roll(self.shift, self.axis as isize)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        roll(gy, -self.shift, self.axis as isize)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let own = self.axis + 1;
        Linear::in_front(Self { axis: own, ..*self }, x, axis)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        let (axis, slices) = (y.axis(), y.slices());
        let from = |slice| (slice + self.shift as usize) % slices;
        Some(match axis == self.axis {
            true => y.picked(axis, (0..slices).map(from)),
            false => y.clone(),
        })
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], 1, 0)],
            move |x| vec![by_index([3, 2], |i| at(&x[0], &[(i[0] + 2) % 3, i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], -5, -1)],
            move |x| vec![by_index([1, 3], |i| at(&x[0], &[i[0], (i[1] + 5) % 3]))],
        )
        .input([1, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::DType;

    #[test]
    fn bools_are_rolled() {
        let flags = Variable::constant([true, false]);
        assert_eq!(flags.roll(1, 0).to_vec::<bool>(), [false, true]);
    }

    #[test]
    fn nothing_stays_nothing() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(x.roll(3, 1).shape(), [2, 0]);
    }
}
