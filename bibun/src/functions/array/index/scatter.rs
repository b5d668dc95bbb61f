//! Values written to elements by index: [`scatter`], and [`scatter_reduce`] with what is already there.

use bibun_array::{DType, Scalar, Shape};

use super::Picking;
use super::extreme::ScatterExtreme;
use super::gather::narrow;
use super::positions::{last_at, linear, places, positions};
use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{
    Operand, argsort, broadcast_to, cast, concat, equal, full_like, gather, greater_equal,
    in_accumulator, less, maximum, ones_like, part, reshape, scatter_add, to_float, to_indices,
    where_,
};
use crate::variable::Variable;

/// What an element and the values that are written to it become.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// The last of the values, in row-major order of the indices.
    Replace,
    /// The sum of all.
    Sum,
    /// The product of all. Derivatives are exact with zeros, of every order.
    Product,
    /// The mean of all.
    Mean,
    /// The maximum, NaN if one is NaN; equal maxima share the gradient equally.
    Max,
    /// The minimum, NaN if one is NaN; equal minima share the gradient equally.
    Min,
}

impl Combine {
    /// Returns the value that changes no other.
    pub(super) fn neutral(self, dtype: DType) -> Scalar {
        match (self, dtype.is_float()) {
            (Self::Replace | Self::Sum | Self::Mean, _) => Scalar::zero(dtype),
            (Self::Product, _) => Scalar::one(dtype),
            (Self::Max, true) => Scalar::from(f64::NEG_INFINITY).cast(dtype),
            (Self::Min, true) => Scalar::from(f64::INFINITY).cast(dtype),
            (Self::Max, false) => dtype.lowest(),
            (Self::Min, false) => dtype.highest(),
        }
    }
}

/// Returns x with `value`, broadcast, written to the elements that [`gather`] picks. Of the values of
/// equal indices the last one stays, in row-major order.
///
/// Shapes: x `[a.., n, b..]`, indices `[a'.., m, b'..]` with no size above that of x but m, value that
/// broadcasts to that → as x. Types: x all, indices integers, value of a dtype that becomes that of x.
/// Gradient: `gy` to the elements of x that stay and to the values that do; indices have none.
///
/// # Panics
/// Panics where [`gather`] does, and if `value` does not fit.
///
/// ```
/// use bibun::{functions::scatter, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = scatter(&x, [2i64, 0, 2], 0, [7.0, 8.0, 9.0]);
/// assert_eq!(y.to_vec::<f64>(), [8.0, 2.0, 9.0]);
/// ```
#[track_caller]
pub fn scatter(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    let _whole = composite("scatter");
    Writing::new("scatter", Combine::Replace).to_elements(
        x.into(),
        indices.into(),
        axis,
        value.into(),
    )
}
method!(scatter, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Returns x with `value`, broadcast, combined with the elements that [`gather`] picks. If
/// `include_self` is false, the elements of x that are picked take no part.
///
/// Shapes: as [`scatter`]. Types: as [`scatter`]; the mean of integers and bools is f64.
/// Gradient: that of the sum, product, mean or extreme; see [`Combine`]. Indices have none.
///
/// Source: `torch.scatter_reduce`.
///
/// # Panics
/// Panics where [`scatter`] does.
///
/// ```
/// use bibun::{functions::{Combine, scatter_reduce}, Variable};
/// let x = Variable::new([5.0, 5.0, 5.0]);
/// let written = |combine, include_self| {
///     let y = scatter_reduce(&x, [2i64, 0, 2], 0, [2.0, 3.0, 4.0], combine, include_self);
///     y.to_vec::<f64>()
/// };
/// assert_eq!(written(Combine::Product, true), [15.0, 5.0, 40.0]);
/// assert_eq!(written(Combine::Max, false), [3.0, 5.0, 4.0]);
/// assert_eq!(written(Combine::Mean, false), [3.0, 5.0, 3.0]);
/// ```
#[track_caller]
pub fn scatter_reduce(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
    combine: Combine,
    include_self: bool,
) -> Variable {
    let _whole = composite("scatter_reduce");
    let writing = Writing {
        include_self,
        ..Writing::new("scatter_reduce", combine)
    };
    writing.to_elements(x.into(), indices.into(), axis, value.into())
}
method!(
    scatter_reduce,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
    combine: Combine,
    include_self: bool
);

/// How values are written.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    /// The function, for errors.
    pub(super) function: &'static str,
    pub(super) combine: Combine,
    /// Whether an element that is written to takes part.
    pub(super) include_self: bool,
}

impl Writing {
    pub(super) fn new(function: &'static str, combine: Combine) -> Self {
        Self {
            function,
            combine,
            include_self: true,
        }
    }

    /// Writes to the elements that `gather` picks.
    #[track_caller]
    pub(super) fn to_elements(
        self,
        x: Variable,
        indices: Variable,
        axis: isize,
        value: Operand,
    ) -> Variable {
        let picking = Picking::elements(self.function, &x, axis);
        let (axis, indices) = (picking.axis(), to_indices(indices));
        let picked = indices.shape();
        if !narrow(&x.shape(), &picked, axis) {
            picking.expect(self.function, &x, &indices);
            let value = self.fitting(&x, value, &picked);
            return self.along(x, indices, axis, value);
        }
        let value = self.fitting(&x, value, &picked);
        let positions = (0..picked.rank()).map(|of| match of == axis {
            true => positions(self.function, &indices, &x, axis),
            false => places(&[&x, &indices, &value], picked[of], picked.rank(), of),
        });
        let positions = linear(positions.enumerate(), &x.shape(), &picked);
        self.to_positions(x, positions, value)
    }

    /// Writes to elements by their positions in row-major order.
    #[track_caller]
    pub(super) fn to_positions(
        self,
        x: Variable,
        positions: Variable,
        value: Variable,
    ) -> Variable {
        let (shape, count) = (x.shape(), positions.size());
        let [flat, value] = [(x, shape.size()), (value, count)].map(|(x, size)| reshape(x, size));
        reshape(self.along(flat, reshape(positions, count), 0, value), shape)
    }

    /// Returns a value as it is written to a part of x.
    #[track_caller]
    pub(super) fn fitting(self, x: &Variable, value: Operand, part: &Shape) -> Variable {
        fitting(self.function, x, value, part)
    }

    /// Writes to the elements that `gather` picks from x. The value has the shape of the indices.
    #[track_caller]
    pub(super) fn along(
        self,
        x: Variable,
        indices: Variable,
        axis: usize,
        value: Variable,
    ) -> Variable {
        let Self {
            combine,
            include_self,
            ..
        } = self;
        let own = axis as isize;
        let last = |indices: &Variable| last_at(indices, &x, &value, axis);
        let start = || match include_self {
            true => x.clone(),
            false => {
                let neutral = full_like(&x, combine.neutral(x.dtype()));
                where_(greater_equal(last(&indices), 0), neutral, &x)
            }
        };
        match combine {
            Combine::Replace => {
                let last = last(&indices);
                picked_or(&value, last, own, &x)
            }
            Combine::Sum => scatter_add(start(), indices, own, value),
            Combine::Mean => {
                let sums = |x, value| scatter_add(x, &indices, own, value);
                let start = to_float(start());
                in_accumulator(start, |start| {
                    let value = cast(&value, start.dtype());
                    let first = match include_self {
                        true => ones_like(&start),
                        // An element that is not written to is its own mean.
                        false => cast(less(last(&indices), 0), start.dtype()),
                    };
                    let count = sums(first, ones_like(&value));
                    sums(start, value) / count
                })
            }
            Combine::Product => {
                let (indices, products) = running_products(&indices, &value, x.shape()[axis], axis);
                let last = last(&indices);
                let product = start() * picked_or(&products, last, own, &ones_like(&x));
                // Products of bools are integers.
                cast(product, x.dtype())
            }
            Combine::Max | Combine::Min => {
                let rule = ScatterExtreme {
                    axis,
                    is_maximum: combine == Combine::Max,
                    include_self,
                };
                let [y] = crate::apply(rule, [x, indices, value]);
                y
            }
        }
    }
}

/// Returns a value as it is written to a part of x.
#[track_caller]
pub(in crate::functions::array) fn fitting(
    function: &'static str,
    x: &Variable,
    value: Operand,
    part: &Shape,
) -> Variable {
    let value = value.beside(x.dtype());
    let (x, spec) = (x.spec(), value.spec());
    if x.dtype.promote(spec.dtype) != x.dtype || spec.shape.broadcast(part).as_ref() != Some(part) {
        let must_hold =
            format!("the value must broadcast to {part} and its dtype become that of x");
        mismatch(function, &[("x", &x), ("value", &spec)], must_hold)
    }
    broadcast_to(cast(value, x.dtype), part)
}

/// Returns what the indices pick along an axis, and x where there is -1.
#[track_caller]
fn picked_or(value: &Variable, indices: Variable, axis: isize, x: &Variable) -> Variable {
    if value.size() == 0 {
        return x.clone();
    }
    let picked = gather(value, maximum(&indices, 0), axis);
    where_(less(indices, 0), x, picked)
}

/// Sorts values by their indices, and returns with the sorted indices the running products of the values
/// of each. It takes as many steps as the length has binary digits, because each step doubles the number
/// of factors that an element has seen.
#[track_caller]
fn running_products(
    indices: &Variable,
    value: &Variable,
    size: usize,
    axis: usize,
) -> (Variable, Variable) {
    let own = axis as isize;
    let indices = where_(less(indices, 0), indices + size as i64, indices);
    let order = argsort(&indices, own);
    let [indices, mut value] = [&indices, value].map(|x| gather(x, &order, own));
    let count = value.shape()[axis];
    let part = |x: &Variable, start, stop| part(x, axis, start, stop);
    let mut reach = 1;
    while reach < count {
        let same = equal(
            part(&indices, reach, count),
            part(&indices, 0, count - reach),
        );
        let before = where_(same, part(&value, 0, count - reach), 1);
        let more = part(&value, reach, count) * before;
        value = concat([&part(&value, 0, reach), &more], own);
        reach *= 2;
    }
    (indices, value)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    // The values that are written to an element, in their order, along the last axis.
    let written = |x: &[Array], i: &[usize], indices: &[[usize; 4]]| -> Vec<f64> {
        let own = (0..4).filter(|&j| indices.get(i[0]).is_some_and(|row| row[j] == i[1]));
        own.map(|j| at(&x[1], &[i[0], j])).collect()
    };
    type Reduced = fn(&[f64]) -> f64;
    let combines: [(Combine, Reduced); 6] = [
        (Combine::Replace, |x| x[x.len() - 1]),
        (Combine::Sum, |x| x.iter().sum()),
        (Combine::Product, |x| x.iter().product()),
        (Combine::Mean, |x| x.iter().sum::<f64>() / x.len() as f64),
        (Combine::Max, |x| {
            x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        }),
        (Combine::Min, |x| {
            x.iter().copied().fold(f64::INFINITY, f64::min)
        }),
    ];
    let mut samples = Vec::new();
    for (combine, reduced) in combines {
        for include_self in [true, false] {
            samples.push(
                Sample::new(
                    "scatter_reduce",
                    move |x| {
                        let indices = beside(x, [[2i64, 0, -1, 2], [1, 1, -2, 0]]);
                        vec![scatter_reduce(
                            &x[0],
                            indices,
                            1,
                            &x[1],
                            combine,
                            include_self,
                        )]
                    },
                    move |x| {
                        let indices = [[2, 0, 2, 2], [1, 1, 1, 0]];
                        vec![by_index([2, 3], |i| {
                            let values = written(x, i, &indices);
                            let own = (include_self || values.is_empty()).then(|| at(&x[0], i));
                            reduced(&own.into_iter().chain(values).collect::<Vec<f64>>())
                        })]
                    },
                )
                .input([2, 3], range.clone())
                .input([2, 4], range.clone()),
            );
        }
    }
    samples.push(
        Sample::new(
            "scatter",
            |x| vec![scatter(&x[0], beside(x, [[1i64, 0, 1, 1]]), -1, &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| {
                    let values = written(x, i, &[[1, 0, 1, 1]]);
                    values.last().copied().unwrap_or(at(&x[0], i))
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([1, 4], range.clone()),
    );
    samples.push(
        Sample::new(
            "scatter",
            |x| {
                vec![scatter(
                    &x[0],
                    beside(x, [[1i64, 1], [0, -1], [1, 1]]),
                    0,
                    &x[1],
                )]
            },
            move |x| {
                let rows = [[1, 1], [0, 1], [1, 1]];
                vec![by_index([2, 2], |i| {
                    let last = (0..3).rev().find(|&j| rows[j][i[1]] == i[0]);
                    last.map_or(at(&x[0], i), |j| at(&x[1], &[j, 0]))
                })]
            },
        )
        .input([2, 2], range.clone())
        .input([3, 1], range),
    );
    samples
}

#[cfg(test)]
mod tests {
    use bibun_array::{Array, Generator};

    use super::*;
    use crate::batch::vmap;
    use crate::{attempt, gradients};

    const ALL: [Combine; 6] = [
        Combine::Replace,
        Combine::Sum,
        Combine::Product,
        Combine::Mean,
        Combine::Max,
        Combine::Min,
    ];

    fn gradient_of(y: &Variable, x: &Variable) -> Vec<f64> {
        let gradients = gradients(&[&y.sum(..)], &[x]);
        gradients[0].as_ref().expect("a gradient").to_vec()
    }

    #[test]
    fn equal_extremes_share_equally() {
        let (x, value) = (Variable::new([3.0, 1.0]), Variable::new([3.0, 3.0, 0.0]));
        let y = scatter_reduce(&x, [0i64, 0, 1], 0, &value, Combine::Max, true);
        assert_eq!(y.to_vec::<f64>(), [3.0, 1.0]);
        let third = 1.0 / 3.0;
        assert_eq!(gradient_of(&y, &x), [third, 1.0]);
        assert_eq!(gradient_of(&y, &value), [third, third, 0.0]);
        let y = scatter_reduce(&x, [0i64, 0, 1], 0, &value, Combine::Max, false);
        assert_eq!(y.to_vec::<f64>(), [3.0, 0.0]);
        assert_eq!(gradient_of(&y, &x), [0.0, 0.0]);
        assert_eq!(gradient_of(&y, &value), [0.5, 0.5, 1.0]);
    }

    #[test]
    fn products_with_zeros_have_exact_gradients() {
        let (x, value) = (
            Variable::new([2.0, 5.0]),
            Variable::new([0.0, 3.0, 0.0, 4.0]),
        );
        let y = scatter_reduce(&x, [0i64, 0, 1, -1], 0, &value, Combine::Product, true);
        assert_eq!(y.to_vec::<f64>(), [0.0, 0.0]);
        assert_eq!(gradient_of(&y, &x), [0.0, 0.0]);
        assert_eq!(gradient_of(&y, &value), [6.0, 0.0, 20.0, 0.0]);
    }

    #[test]
    fn indices_and_values_of_a_batch() {
        let mut generator = Generator::new(5);
        let x = generator.uniform([3, 2, 4], -2.0, 2.0, DType::F64);
        let value = generator.uniform([3, 2, 5], -2.0, 2.0, DType::F64);
        let indices = generator.integers(-4, 4, [3, 2, 5]);
        let all = [x, indices, value].map(Variable::constant);
        for combine in ALL {
            let call = |v: &[Variable]| {
                let [x, indices, value] = [0, 1, 2].map(|i| &v[i]);
                let wide = scatter_reduce(x, indices, 1, value, combine, false);
                let narrow = indices.slice(crate::s![..1]);
                vec![
                    wide,
                    scatter_reduce(x, narrow, 1, value.slice(crate::s![..1]), combine, true),
                ]
            };
            for choice in 1..8usize {
                let is_mapped = |i: usize| choice >> i & 1 == 1;
                let own =
                    |i: usize, l: usize| all[i].slice(crate::s![if is_mapped(i) { l } else { 0 }]);
                let inputs = [0, 1, 2].map(|i| {
                    if is_mapped(i) {
                        all[i].clone()
                    } else {
                        own(i, 0)
                    }
                });
                let axes = [0, 1, 2].map(|i| is_mapped(i).then_some(0));
                let together = vmap(call, &inputs, &axes);
                for l in 0..3usize {
                    let alone = call(&[0, 1, 2].map(|i| own(i, l)));
                    for (all, one) in together.iter().zip(&alone) {
                        let all = all.slice(crate::s![l]).to_vec::<f64>();
                        assert_eq!(all, one.to_vec::<f64>(), "{combine:?}, {axes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_written() {
        let x = Variable::new([1.0, 2.0]);
        let nothing = Variable::new(Array::zeros([0], DType::F64));
        let nowhere = Variable::constant(Array::zeros([0], DType::I64));
        for combine in ALL {
            for include_self in [true, false] {
                let y = scatter_reduce(&x, &nowhere, 0, &nothing, combine, include_self);
                assert_eq!(y.to_vec::<f64>(), [1.0, 2.0], "{combine:?}");
                assert_eq!(gradient_of(&y, &x), [1.0, 1.0], "{combine:?}");
            }
        }
        let y = scatter(&nothing, &nowhere, 0, 1.0);
        assert_eq!(y.shape(), [0]);
    }

    #[test]
    fn dtypes_are_those_of_x() {
        let x = Variable::constant([1i64, 2]);
        let written = |combine| scatter_reduce(&x, [0i64, 0], 0, [7u8, 5], combine, true);
        assert_eq!(written(Combine::Replace).to_vec::<i64>(), [5, 2]);
        assert_eq!(written(Combine::Product).to_vec::<i64>(), [35, 2]);
        assert_eq!(written(Combine::Min).to_vec::<i64>(), [1, 2]);
        assert_eq!(written(Combine::Mean).to_vec::<f64>(), [13.0 / 3.0, 2.0]);
        let flags = Variable::constant([true, false]);
        assert_eq!(
            scatter(&flags, [0i64], 0, false).to_vec::<bool>(),
            [false, false]
        );
        let error = attempt(|| scatter(&x, [0i64], 0, 0.5))
            .unwrap_err()
            .to_string();
        assert!(error.contains("its dtype become that of x"), "{error}");
        let error = attempt(|| scatter(&x, [2i64], 0, 5))
            .unwrap_err()
            .to_string();
        assert!(error.contains("index 2 is outside of axis 0"), "{error}");
    }

    #[test]
    fn bools_stay_bools() {
        let x = Variable::constant([true, true, false]);
        for combine in [
            Combine::Replace,
            Combine::Product,
            Combine::Max,
            Combine::Min,
        ] {
            let y = scatter_reduce(
                &x,
                [1i64, 1],
                0,
                Variable::constant([true, false]),
                combine,
                true,
            );
            assert_eq!(y.dtype(), DType::Bool, "{combine:?}");
            assert_eq!(y.to_vec::<bool>(), [true, combine == Combine::Max, false]);
        }
    }
}
