//! Elements in reverse order along axes.

use bibun_array::{Array, Axes};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite;
use crate::examples::Examples;
use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule, method};
use crate::variable::Variable;

/// Reverses the order of the elements along axes (`..` for all; see [`Axes`]).
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, flipped back.
///
/// # Panics
/// Panics if an axis does not exist.
///
/// ```
/// use bibun::{functions::flip, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(flip(&x, 1).to_vec::<f64>(), [2.0, 1.0, 4.0, 3.0]);
/// ```
#[track_caller]
pub fn flip(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = x.into();
    let (axes, _) = axes.into().resolve("flip", x.rank());
    if axes.is_empty() {
        return x;
    }
    let axes = axes.into_iter().map(|axis| axis as isize).collect();
    Linear::of(Flip(axes), x)
}
method!(flip, axes: impl Into<Axes>);

/// Reverses the order of the columns: [`flip`] along the second axis.
///
/// Shapes: x `[n, m, ..]` → the same. Types: all. Gradient: `gy`, flipped back.
///
/// # Panics
/// Panics if there are fewer than two axes.
///
/// ```
/// use bibun::{functions::fliplr, Variable};
/// assert_eq!(fliplr(&Variable::new([[1.0, 2.0]])).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn fliplr(x: impl Into<Variable>) -> Variable {
    let _whole = composite("fliplr");
    flip(x, 1)
}
method!(fliplr);

/// Reverses the order of the rows: [`flip`] along the first axis.
///
/// Shapes: x `[n, ..]` → the same. Types: all. Gradient: `gy`, flipped back.
///
/// # Panics
/// Panics if there are no axes.
///
/// ```
/// use bibun::{functions::flipud, Variable};
/// assert_eq!(flipud(&Variable::new([[1.0], [2.0]])).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn flipud(x: impl Into<Variable>) -> Variable {
    let _whole = composite("flipud");
    flip(x, 0)
}
method!(flipud);

#[derive(Clone, Debug)]
struct Flip(SmallVec<[isize; 4]>);

impl LinearRule for Flip {
    fn name(&self) -> &'static str {
        "flip"
    }
    fn forward(&self, x: Array) -> Array {
        x.flip(&self.0)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(self.clone(), gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let axes = self.0.iter().map(|axis| axis + 1).collect();
        Linear::in_front(Self(axes), x, axis)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        Some(match self.0.contains(&(y.axis() as isize)) {
            true => y.picked(y.axis(), (0..y.slices()).rev()),
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
            "flip",
            |x| vec![flip(&x[0], [0, -1])],
            move |x| {
                vec![by_index([2, 3, 2], |i| {
                    at(&x[0], &[1 - i[0], i[1], 1 - i[2]])
                })]
            },
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "flip",
            |x| vec![flip(&x[0], ..)],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[1 - i[0], 2 - i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "fliplr",
            |x| vec![fliplr(&x[0])],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[i[0], 2 - i[1]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "flipud",
            |x| vec![flipud(&x[0])],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[1 - i[0], i[1]]))],
        )
        .input([2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::DType;

    #[test]
    fn integers_are_flipped() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        assert_eq!(x.flip(0).to_vec::<i64>(), [3, 4, 1, 2]);
    }

    #[test]
    fn nothing_stays_nothing() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(x.flip(..).shape(), [2, 0]);
        assert!(Variable::new(1.0).flip(..).is_leaf());
    }
}
