//! Elements shifted along axes, from their ends back to their starts.

use bibun_array::{Array, Axes};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::error::{Error, raise};
use crate::examples::Examples;
use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule, method};
use crate::variable::Variable;

/// Shifts the elements along axes (`..` for all; see [`Axes`]): by one number of positions along
/// each of them, or by one for each, `[1, -2]`. Elements that leave at the end come in at the start.
/// A negative shift moves towards the start. Shifts along an axis that is named twice add up.
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, rolled back.
///
/// # Panics
/// Panics if there is no such axis, or there are several shifts, but not one for each axis.
///
/// ```
/// use bibun::{functions::roll, Variable};
/// assert_eq!(roll(&Variable::new([1.0, 2.0, 3.0]), 1, 0).to_vec::<f64>(), [3.0, 1.0, 2.0]);
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(roll(&x, [1, -1], [0, 1]).to_vec::<f64>(), [5.0, 6.0, 4.0, 2.0, 3.0, 1.0]);
/// ```
#[track_caller]
pub fn roll(x: impl Into<Variable>, shifts: impl Into<Shifts>, axes: impl Into<Axes>) -> Variable {
    let (x, shifts) = (x.into(), shifts.into());
    let axes = axes.into().in_order("roll", x.rank());
    if !shifts.is_one && shifts.each.len() != axes.len() {
        let what = format!(
            "{} shifts for {} axes of x = {}",
            shifts.each.len(),
            axes.len(),
            x.spec()
        );
        raise(Error::argument("roll", what));
    }
    let shape = x.shape();
    let shifts = axes.iter().zip(shifts.each.iter().cycle());
    // Reduced to the size of the axis, so that no shift overflows when it is negated.
    let shifts = shifts.map(|(&axis, shift)| match shape[axis] {
        0 => (axis, 0),
        size => (axis, shift.rem_euclid(size as isize)),
    });
    let shifts = shifts.collect();
    Linear::of(Roll { shifts }, x)
}
method!(roll, shifts: impl Into<Shifts>, axes: impl Into<Axes>);

/// How far [`roll`] shifts: `1` along each axis, or `[1, -2]`, a number for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shifts {
    each: SmallVec<[isize; 2]>,
    /// Whether it is one number for all axes.
    is_one: bool,
}

impl From<isize> for Shifts {
    fn from(shift: isize) -> Self {
        Self {
            each: SmallVec::from_slice(&[shift]),
            is_one: true,
        }
    }
}

impl From<i32> for Shifts {
    fn from(shift: i32) -> Self {
        Self::from(shift as isize)
    }
}

impl From<&[isize]> for Shifts {
    fn from(shifts: &[isize]) -> Self {
        Self {
            each: SmallVec::from_slice(shifts),
            is_one: false,
        }
    }
}

impl<const N: usize> From<[isize; N]> for Shifts {
    fn from(shifts: [isize; N]) -> Self {
        Self::from(&shifts[..])
    }
}

impl<const N: usize> From<[i32; N]> for Shifts {
    fn from(shifts: [i32; N]) -> Self {
        Self::from(shifts.map(|shift| shift as isize))
    }
}

impl From<Vec<isize>> for Shifts {
    fn from(shifts: Vec<isize>) -> Self {
        Self::from(&shifts[..])
    }
}

impl From<&Vec<isize>> for Shifts {
    fn from(shifts: &Vec<isize>) -> Self {
        Self::from(&shifts[..])
    }
}

/// Shifts, each with its axis.
#[derive(Clone, Debug)]
struct Roll {
    shifts: SmallVec<[(usize, isize); 2]>,
}

impl LinearRule for Roll {
    fn name(&self) -> &'static str {
        "roll"
    }
    fn forward(&self, x: Array) -> Array {
        (self.shifts.iter()).fold(x, |x, &(axis, shift)| x.roll(shift, axis as isize))
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let shifts = self.shifts.iter().map(|&(axis, shift)| (axis, -shift));
        let shifts = shifts.collect();
        Linear::of(Self { shifts }, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let shifts = self.shifts.iter().map(|&(own, shift)| (own + 1, shift));
        let shifts = shifts.collect();
        Linear::in_front(Self { shifts }, x, axis)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        let (axis, slices) = (y.axis(), y.slices());
        let along = self.shifts.iter().filter(|(own, _)| *own == axis);
        let shift: isize = along.map(|(_, shift)| shift).sum();
        let from = |slice| (slice as isize + shift).rem_euclid(slices as isize) as usize;
        Some(match shift {
            0 => y.clone(),
            _ => y.picked(axis, (0..slices).map(from)),
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
        .input([1, 3], range.clone()),
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], [1, -1, 1], [2, 0, -1])],
            move |x| {
                let from = |i: &[usize]| [(i[0] + 1) % 3, i[1], (i[2] + 2) % 4];
                vec![by_index([3, 2, 4], |i| at(&x[0], &from(i)))]
            },
        )
        .input([3, 2, 4], range.clone()),
        Sample::new(
            "roll",
            |x| vec![roll(&x[0], 1, ..)],
            move |x| {
                vec![by_index([2, 3], |i| {
                    at(&x[0], &[(i[0] + 1) % 2, (i[1] + 2) % 3])
                })]
            },
        )
        .input([2, 3], range),
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
        assert_eq!(Variable::new(1.0).roll(2, ..).item::<f64>(), 1.0);
    }

    #[test]
    fn as_many_shifts_as_axes() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = crate::attempt(|| x.roll([1, 2], 0)).unwrap_err();
        assert!(
            message
                .to_string()
                .contains("2 shifts for 1 axes of x = [1, 2] f64")
        );
    }
}
