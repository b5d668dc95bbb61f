//! Results whose size is computed from integers: [`bincount`], [`repeat_interleave`] and [`unique`].

use bibun_array::{Array, DType, Device, cpu, normalize_axis};

use super::index::device_of;
use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::{Fixed, Mismatch, Spec, no_rule};
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{
    OptionalVariable, add_at, argsort, broadcast_to, cast, concat, constant_beside, cumsum, diff,
    is_nan, logical_and, logical_not, nonzero, not_equal, part, reshape, scatter, take, to_indices,
    zeros_like,
};
use crate::variable::Variable;

/// Counts how often each of the integers 0, 1, ... is in x, or adds up their weights. With a `length`,
/// all integers must be less. Without one, the length is the maximum plus one: as it depends on the
/// elements, they cannot be traced or differ between the elements of a batch.
///
/// Shapes: x any, weights as x → `[length]`. Types: x integers, weights all; → i64, or as weights (i64
/// for integers and bools). Gradient: `gy` of its integer to each weight; x has none.
///
/// Source: `numpy.bincount`; `length` is `jax.numpy.bincount`'s, which cuts off what is above.
///
/// # Panics
/// Panics if x are not integers, one is negative or not less than `length`, or the weights have
/// another shape.
///
/// ```
/// use bibun::{functions::bincount, Variable};
/// assert_eq!(bincount([3i64, 0, 3], None, None).to_vec::<i64>(), [1, 0, 0, 2]);
/// let weights = Variable::new([1.0, 2.0, 4.0]);
/// assert_eq!(bincount([1i64, 0, 1], &weights, Some(3)).to_vec::<f64>(), [2.0, 5.0, 0.0]);
/// ```
#[track_caller]
pub fn bincount(
    x: impl Into<Variable>,
    weights: impl Into<OptionalVariable>,
    length: Option<usize>,
) -> Variable {
    let _whole = composite("bincount");
    let (x, weights) = (to_indices(x), weights.into());
    let weights = weights.get().cloned();
    let (spec, size) = (x.spec(), x.size());
    let own = weights.as_ref().map_or(spec.clone(), Variable::spec);
    if own.shape != spec.shape || spec.dtype != DType::I64 {
        let must_hold = "x must be integers, the weights of its shape";
        mismatch("bincount", &[("x", &spec), ("weights", &own)], must_hold)
    }
    let weights = weights.unwrap_or_else(|| Variable::constant(1i64));
    let dtype = weights.dtype().of_sums();
    let weights = cast(weights, dtype);
    let x = Discrete::of(NotNegative("bincount"), [reshape(x, size)]);
    let zeros = match length {
        Some(length) => Variable::constant(Array::zeros(length, dtype)),
        None => cast(Discrete::of(Places, [x.clone()]), dtype),
    };
    let weights = match weights.rank() {
        0 if spec.shape.rank() > 0 => weights,
        _ => reshape(weights, size),
    };
    add_at(zeros, x, 0, weights)
}

impl Variable {
    /// Calls [`functions::bincount`](crate::functions::bincount) of this Variable.
    #[must_use]
    #[track_caller]
    pub fn bincount(&self, weights: impl Into<OptionalVariable>, length: Option<usize>) -> Self {
        bincount(self, weights, length)
    }
}

/// Repeats each slice along an axis its own number of times, with its repeats side by side. The size of
/// the result depends on the numbers, so they cannot be traced or differ between the elements of a batch.
///
/// Shapes: x `[a.., n, b..]`, repeats `[n]` or one number for all → `[a.., Σ repeats, b..]`. Types: x
/// all, repeats integers. Gradient: `gy`, summed over the repeats; the numbers have none.
///
/// Source: `torch.repeat_interleave`, `numpy.repeat`.
///
/// # Panics
/// Panics if the axis does not exist, or the numbers are not integers, not one for each slice, or
/// negative.
///
/// ```
/// use bibun::{functions::repeat_interleave, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// assert_eq!(repeat_interleave(&x, [2i64, 0, 1], 0).to_vec::<f64>(), [1.0, 1.0, 3.0]);
/// ```
#[track_caller]
pub fn repeat_interleave(
    x: impl Into<Variable>,
    repeats: impl Into<Variable>,
    axis: isize,
) -> Variable {
    let _whole = composite("repeat_interleave");
    let (x, repeats) = (x.into(), to_indices(repeats));
    let axis = normalize_axis("repeat_interleave", axis, x.rank());
    let (x_spec, spec) = (x.spec(), repeats.spec());
    let size = x_spec.shape[axis];
    if spec.dtype != DType::I64 || !(spec.shape == [size] || spec.shape.rank() == 0) {
        let must_hold = format!("repeats must be integers, one for each slice along axis {axis}");
        mismatch(
            "repeat_interleave",
            &[("x", &x_spec), ("repeats", &spec)],
            must_hold,
        )
    }
    let repeats = broadcast_to(repeats, size);
    let repeats = Discrete::of(NotNegative("repeat_interleave"), [repeats]);
    let device = device_of(&[&x, &repeats]);
    let rows = Discrete::of(Repeats { device }, [repeats]);
    take(x, rows, axis as isize)
}
method!(repeat_interleave, repeats: impl Into<Variable>, axis: isize);

/// Returns the elements of x without repetition in ascending order, the position among them of each
/// element of x, and how often each is in x. NaN is last, and equals itself. The number of results
/// depends on the elements, so they cannot be traced or differ between the elements of a batch.
///
/// Shapes: x any → `[count]`, as x, `[count]`. Types: all; positions and numbers are i64. Gradient: `gy`
/// of the elements to the first of equal ones in x.
///
/// Source: `numpy.unique` with `return_inverse` and `return_counts`.
///
/// ```
/// use bibun::{functions::unique, Variable};
/// let x = Variable::constant([[3.0, 1.0], [3.0, 2.0]]);
/// let (elements, positions, counts) = unique(&x);
/// assert_eq!(elements.to_vec::<f64>(), [1.0, 2.0, 3.0]);
/// assert_eq!(positions.to_vec::<i64>(), [2, 0, 2, 1]);
/// assert_eq!(counts.to_vec::<i64>(), [1, 1, 2]);
/// ```
#[track_caller]
pub fn unique(x: impl Into<Variable>) -> (Variable, Variable, Variable) {
    let _whole = composite("unique");
    let x = x.into();
    let (shape, size) = (x.shape(), x.size());
    let x = reshape(x, size);
    let order = argsort(x.detach(), 0);
    let sorted = take(&x, &order, 0);
    let own = sorted.detach();
    let [before, behind] = [(0, size.saturating_sub(1)), (1.min(size), size)]
        .map(|(start, stop)| part(&own, 0, start, stop));
    // NaN differs from everything, but is the same as NaN here.
    let is_new = logical_and(
        not_equal(&before, &behind),
        logical_not(logical_and(is_nan(&before), is_nan(&behind))),
    );
    let first = constant_beside(&[&x], Array::ones(1.min(size), DType::Bool));
    let is_first = concat([&first, &is_new], 0);
    let starts = nonzero(&is_first);
    let count = starts.shape()[0];
    let starts = reshape(starts, count);
    let group = cumsum(is_first, 0) - 1;
    let positions = scatter(zeros_like(&group), order, 0, group);
    let end = Variable::constant(Array::full(1, size as i64));
    let counts = diff(concat([&starts, &end], 0), 0);
    (take(sorted, starts, 0), reshape(positions, shape), counts)
}
method!(unique -> (Self, Self, Self));

const ADVICE: &str = "the elements of a batch would differ in shape";

/// Integers, after a check that none is negative.
#[derive(Clone, Debug)]
struct NotNegative(&'static str);

impl DiscreteRule for NotNegative {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "not_negative"
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(x.clone())
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        x.expect_between(self.0, 0..i64::MAX, |x| match x {
            i64::MAX => format!("{x} is too large"),
            _ => format!("{x} is negative"),
        });
        x
    }
}

/// Zeros for the integers up to the largest.
#[derive(Clone, Debug)]
struct Places;

impl DiscreteRule for Places {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "bincount"
    }
    fn shape(&self, _: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Err(Mismatch::KNOWN_BY_RUNNING)
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        let length = match x.size() {
            0 => 0,
            _ => x.max(0).to(cpu()).item::<i64>() + 1,
        };
        Array::zeros(length as usize, DType::I64)
    }
    fn batch(&self, _: [Batched; 1]) -> [Batched; 1] {
        no_rule(
            "bincount",
            "batch",
            "the elements of a batch would differ in shape; give a length",
        )
    }
}

/// Each position as often as it is repeated.
#[derive(Clone, Debug)]
struct Repeats {
    /// The device of the positions.
    device: Option<&'static dyn Device>,
}

impl DiscreteRule for Repeats {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "repeat_interleave"
    }
    fn shape(&self, _: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Err(Mismatch::KNOWN_BY_RUNNING)
    }
    fn forward(&self, [repeats]: [Array; 1]) -> Array {
        let repeats = repeats.to(cpu()).to_vec::<i64>();
        let add = |sum: i64, &times| sum.checked_add(times);
        let count = repeats.iter().try_fold(0, add).unwrap_or(i64::MAX);
        if count >= 1 << 60 {
            let what = "the repeats are 2^60 or more in all, and no array has so many slices";
            raise(Error::argument("repeat_interleave", what));
        }
        let mut rows: Vec<i64> = Vec::new();
        if rows.try_reserve_exact(count as usize).is_err() {
            // Refused as the elements of any array are.
            drop(Array::arange(0, count));
        }
        for (row, times) in repeats.into_iter().enumerate() {
            rows.extend(std::iter::repeat_n(row as i64, times as usize));
        }
        Array::from(rows).to(self.device.unwrap_or(cpu()))
    }
    fn batch(&self, _: [Batched; 1]) -> [Batched; 1] {
        no_rule("repeat_interleave", "batch", ADVICE)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "bincount",
            |x| vec![bincount(beside(x, [[2i64, 0], [2, 1]]), &x[0], Some(4))],
            move |x| {
                let integers = [2, 0, 2, 1];
                vec![by_index([4], |i| {
                    let own = (0..4).filter(|&j| integers[j] == i[0]);
                    own.map(|j| at(&x[0], &[j / 2, j % 2])).sum()
                })]
            },
        )
        .input([2, 2], range.clone()),
        Sample::new(
            "bincount",
            |x| vec![bincount(beside(x, [2i64, 0, 2]), &x[0], None)],
            move |x| {
                let sum = at(&x[0], &[0]) + at(&x[0], &[2]);
                vec![by_index([3], |i| [at(&x[0], &[1]), 0.0, sum][i[0]])]
            },
        )
        .input([3], range.clone()),
        Sample::new(
            "repeat_interleave",
            |x| vec![repeat_interleave(&x[0], beside(x, [2i64, 0, 1]), -1)],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[i[0], [0, 0, 2][i[1]]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "repeat_interleave",
            |x| vec![repeat_interleave(&x[0], beside(x, 2i64), 0)],
            move |x| vec![by_index([4, 1], |i| at(&x[0], &[i[0] / 2, 0]))],
        )
        .input([2, 1], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::{attempt, gradients};

    #[test]
    fn equal_elements_are_one() {
        let nan = f64::NAN;
        let x = Variable::new([2.0, nan, -0.0, 2.0, 0.0, nan]);
        let (elements, positions, counts) = unique(&x);
        let found = elements.to_vec::<f64>();
        assert!(found[..2] == [0.0, 2.0] && found[2].is_nan() && found.len() == 3);
        assert_eq!(positions.to_vec::<i64>(), [1, 2, 0, 1, 0, 2]);
        assert_eq!(counts.to_vec::<i64>(), [2, 2, 2]);
        let gx = gradients(&[&elements.sum(..)], &[&x]);
        let first = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        assert_eq!(gx[0].as_ref().unwrap().to_vec::<f64>(), first);
        let (elements, positions, counts) = unique(Array::zeros([0, 2], DType::I64));
        assert_eq!(elements.shape(), [0]);
        assert_eq!(positions.shape(), [0, 2]);
        assert_eq!(counts.shape(), [0]);
        let (elements, _, counts) = unique([true, false, true]);
        assert_eq!(elements.to_vec::<bool>(), [false, true]);
        assert_eq!(counts.to_vec::<i64>(), [1, 2]);
        assert_eq!(unique(5.0).1.item::<i64>(), 0);
    }

    #[test]
    fn nothing_is_counted_and_repeated() {
        let none = Variable::constant(Array::zeros([0], DType::I64));
        assert_eq!(bincount(&none, None, None).shape(), [0]);
        assert_eq!(bincount(&none, None, Some(2)).to_vec::<i64>(), [0, 0]);
        let x = Variable::new([[1.0], [2.0]]);
        assert_eq!(repeat_interleave(&x, [0i64, 0], 0).shape(), [0, 1]);
        assert_eq!(bincount([1u8, 1], None, None).to_vec::<i64>(), [0, 2]);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        let error = message(&|| bincount([1i64, -1], None, None));
        assert!(error.contains("bincount: -1 is negative"), "{error}");
        let error = message(&|| bincount([3i64], None, Some(3)));
        assert!(error.contains("index 3 is outside"), "{error}");
        let x = Variable::new([1.0, 2.0]);
        let error = message(&|| repeat_interleave(&x, [1i64, -2], 0));
        assert!(
            error.contains("repeat_interleave: -2 is negative"),
            "{error}"
        );
        let t = Variable::constant([[0i64, 1], [1, 1]]);
        let count = |v: &[Variable]| vec![bincount(&v[0], None, None)];
        let error = attempt(|| vmap(count, &[t.clone()], &[Some(0)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("give a length"), "{error}");
        let count = |v: &[Variable]| vec![bincount(&v[0], None, Some(2))];
        let y = vmap(count, &[t], &[Some(0)]);
        assert_eq!(y[0].to_vec::<i64>(), [1, 1, 0, 2]);
    }
}
