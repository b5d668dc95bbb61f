//! What is known of the elements up to each one: the largest, the smallest, and the logarithm of the sum
//! of exponentials.

use bibun_array::{Array, DType, Index, normalize_axis};

use super::scan::part;
use crate::batch::Batched;
use crate::call::composite;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{beside_batch, concat, gather, in_accumulator, logaddexp, to_float};
use crate::variable::Variable;

/// Returns the cumulative maximum along an axis, `yᵢ = maxⱼ≤ᵢ xⱼ`, and its positions: the last of equal
/// elements. From the first NaN on it is NaN.
///
/// Shapes: x any → the same, twice. Types: all; positions are i64.
/// Gradient: `gy`, summed at its position; the positions have none.
///
/// Source: `torch.cummax`.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::cummax, Variable};
/// let (y, positions) = cummax(&Variable::new([1.0, 3.0, 2.0, 3.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 3.0, 3.0]);
/// assert_eq!(positions.to_vec::<i64>(), [0, 1, 1, 3]);
/// ```
#[track_caller]
pub fn cummax(x: impl Into<Variable>, axis: isize) -> (Variable, Variable) {
    extremes("cummax", x.into(), axis)
}
method!(cummax -> (Self, Self), axis: isize);

/// Returns the cumulative minimum along an axis, `yᵢ = minⱼ≤ᵢ xⱼ`, and its positions: the last of equal
/// elements. From the first NaN on it is NaN.
///
/// Shapes: x any → the same, twice. Types: all; positions are i64.
/// Gradient: `gy`, summed at its position; the positions have none.
///
/// Source: `torch.cummin`.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::cummin, Variable};
/// let (y, positions) = cummin(&Variable::new([3.0, 1.0, 2.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 1.0, 1.0]);
/// assert_eq!(positions.to_vec::<i64>(), [0, 1, 1]);
/// ```
#[track_caller]
pub fn cummin(x: impl Into<Variable>, axis: isize) -> (Variable, Variable) {
    extremes("cummin", x.into(), axis)
}
method!(cummin -> (Self, Self), axis: isize);

#[track_caller]
fn extremes(name: &'static str, x: Variable, axis: isize) -> (Variable, Variable) {
    let _whole = composite(name);
    let axis = normalize_axis(name, axis, x.rank());
    let positions = Discrete::of(RunningExtreme { name, axis }, [x.clone()]);
    (gather(x, &positions, axis as isize), positions)
}

/// Computes the logarithm of the cumulative sum of exponentials along an axis, `yᵢ = log Σⱼ≤ᵢ exp xⱼ`, so
/// that nothing overflows. It takes as many steps as the length has binary digits, because each step
/// doubles the number of elements that an element has seen.
///
/// Shapes: x any → the same. Types: floats; integers give f64.
/// Gradient: `exp xⱼ Σᵢ≥ⱼ gyᵢ / exp yᵢ`, by shares that are each at most 1, however large x is.
///
/// Source: `torch.logcumsumexp`; W. D. Hillis and G. L. Steele, Data parallel algorithms, 1986.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::logcumsumexp, Variable};
/// let y = logcumsumexp(&Variable::new([1000.0, 1000.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [1000.0, 1000.0 + 2f64.ln()]);
/// ```
#[track_caller]
pub fn logcumsumexp(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("logcumsumexp");
    let x = to_float(x.into());
    let axis = normalize_axis("logcumsumexp", axis, x.rank());
    let size = x.shape()[axis];
    in_accumulator(x, |mut y| {
        let mut reach = 1;
        while reach < size {
            let more = logaddexp(part(&y, axis, reach, size), part(&y, axis, 0, size - reach));
            y = concat([&part(&y, axis, 0, reach), &more], axis as isize);
            reach *= 2;
        }
        y
    })
}
method!(logcumsumexp, axis: isize);

/// The positions of running extremes.
#[derive(Clone, Debug)]
struct RunningExtreme {
    name: &'static str,
    axis: usize,
}

impl DiscreteRule for RunningExtreme {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&x.shape, DType::I64))
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        let (axis, shape) = (self.axis, x.shape().clone());
        let size = shape[axis];
        let mut aligned = vec![1; shape.rank()];
        aligned[axis] = size;
        let places = Array::arange(0, size as i64).to(x.device());
        let mut places = places.reshape(aligned).broadcast_to(&shape);
        let mut best = x;
        let part = |x: &Array, start: usize, stop: usize| {
            let mut index = vec![Index::ALL; axis];
            index.push(Index::from(start..stop));
            x.slice(&index)
        };
        let mut reach = 1;
        while reach < size {
            let [before, own] =
                [(0, size - reach), (reach, size)].map(|(start, stop)| part(&best, start, stop));
            let stays = match self.name {
                "cummax" => own.greater_equal(&before),
                _ => own.less_equal(&before),
            };
            // A NaN is the extreme of all before it.
            let stays = stays | own.is_nan();
            let joined = |x: &Array| {
                let later = stays.where_(part(x, reach, size), part(x, 0, size - reach));
                bibun_array::concat(&[&part(x, 0, reach), &later], axis as isize)
            };
            (best, places) = (joined(&best), joined(&places));
            reach *= 2;
        }
        places
    }
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        let y = Discrete::of(Self { axis, ..*self }, [x]);
        [Batched::along(y, batch_axis)]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::along_axis;
    type Better = fn(f64, f64) -> bool;
    let best = |x: &[f64], is_better: Better| -> Vec<usize> {
        let of =
            |i: usize| (0..=i).fold(0, |best, j| if is_better(x[j], x[best]) { j } else { best });
        (0..x.len()).map(of).collect()
    };
    let mut samples = Vec::new();
    for (shape, axis) in [(vec![2, 5], 1), (vec![3, 1, 2], 0), (vec![2, 1, 3], 1)] {
        let own = axis as usize;
        type Call = fn(&Variable, isize) -> (Variable, Variable);
        let functions: [(&'static str, Call, Better); 2] = [
            ("cummax", |x, axis| cummax(x, axis), |a, b| a > b),
            ("cummin", |x, axis| cummin(x, axis), |a, b| a < b),
        ];
        for (name, call, is_better) in functions {
            samples.push(
                Sample::new(
                    name,
                    move |x| {
                        let (y, positions) = call(&x[0], axis);
                        vec![y, positions]
                    },
                    move |x| {
                        let values = |x: &[f64]| best(x, is_better).iter().map(|&i| x[i]).collect();
                        let places =
                            |x: &[f64]| best(x, is_better).iter().map(|&i| i as f64).collect();
                        let places = along_axis(&x[0], own, places).cast(DType::I64);
                        vec![along_axis(&x[0], own, values), places]
                    },
                )
                .input(&shape, -2.0..2.0),
            );
        }
        samples.push(
            Sample::new(
                "logcumsumexp",
                move |x| vec![logcumsumexp(&x[0], axis)],
                move |x| {
                    let sums = |x: &[f64]| {
                        let sum = |i: usize| x[..=i].iter().map(|x| x.exp()).sum::<f64>().ln();
                        (0..x.len()).map(sum).collect()
                    };
                    vec![along_axis(&x[0], own, sums)]
                },
            )
            .input(&shape, -2.0..2.0),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;

    #[test]
    fn equal_elements_and_nan() {
        let nan = f64::NAN;
        let x = Variable::new([2.0, 2.0, 1.0, nan, 5.0, nan, 7.0]);
        assert_eq!(cummax(&x, 0).1.to_vec::<i64>(), [0, 1, 1, 3, 3, 5, 5]);
        assert_eq!(cummin(&x, 0).1.to_vec::<i64>(), [0, 1, 2, 3, 3, 5, 5]);
        let (y, positions) = cummax([true, false], 0);
        assert_eq!(
            (y.to_vec::<bool>(), positions.to_vec::<i64>()),
            (vec![true, true], vec![0, 0])
        );
        let none = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(cummin(&none, 1).0.shape(), [2, 0]);
        assert_eq!(logcumsumexp(&none, 1).shape(), [2, 0]);
    }

    #[test]
    fn sums_of_nothing_have_finite_shares() {
        let infinity = f64::INFINITY;
        let x = Variable::new([-infinity, -infinity, 0.0, 1000.0]);
        let y = logcumsumexp(&x, 0);
        assert_eq!(y.to_vec::<f64>(), [-infinity, -infinity, 0.0, 1000.0]);
        let gx = gradients(&[&y.slice(crate::s![2..]).sum(..)], &[&x]);
        assert_eq!(
            gx[0].as_ref().unwrap().to_vec::<f64>(),
            [0.0, 0.0, 1.0, 1.0]
        );
    }
}
