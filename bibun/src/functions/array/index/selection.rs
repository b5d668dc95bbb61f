//! Indexing with arrays and masks among ranges and numbers, as in NumPy: [`index`] and [`index_put`].

use bibun_array::{Array, DType, Index, Shape};
use smallvec::SmallVec;

use super::Combine;
use super::positions::linear;
use super::request::{Item, Request, expect_mask};
use super::scatter::Writing;
use crate::call::composite;
use crate::functions::families::method;
use crate::functions::{
    Operand, add_at, cast, maximum, minimum, multiply, permute, reshape, slice, take, to_float_of,
    where_,
};
use crate::variable::Variable;

/// The index of an axis or of several, as [`index`] takes it: whatever [`Index`] is made from, an array
/// of integers, or a mask (an array of bools) for as many axes as it has. [`at!`](crate::at) writes lists
/// of them.
#[derive(Clone, Debug)]
pub enum Selection {
    /// A number, a range, a new axis, or all axes that are left over.
    Part(Index),
    /// Positions along an axis, or a mask.
    Array(Variable),
}

macro_rules! selection_from {
    ($Case:ident: $($From:ty),+) => {$(
        impl From<$From> for Selection {
            fn from(index: $From) -> Self {
                Self::$Case(index.into())
            }
        }
    )+};
}
macro_rules! selection_from_integers {
    ($($integer:ty),+) => {
        selection_from!(Part: $($integer),+);
        selection_from!(Part: $(std::ops::Range<$integer>),+);
        selection_from!(Part: $(std::ops::RangeFrom<$integer>),+);
        selection_from!(Part: $(std::ops::RangeTo<$integer>),+);
    };
}
selection_from!(Part: Index, std::ops::RangeFull);
selection_from!(Array: Variable, &Variable, Array, &Array);
selection_from_integers!(isize, i8, i16, i32, i64, usize, u8, u16, u32, u64);

impl<T, const N: usize> From<[T; N]> for Selection
where
    Array: From<[T; N]>,
{
    fn from(elements: [T; N]) -> Self {
        Self::from(Array::from(elements))
    }
}

impl<T> From<Vec<T>> for Selection
where
    Array: From<Vec<T>>,
{
    fn from(elements: Vec<T>) -> Self {
        Self::from(Array::from(elements))
    }
}

/// Creates the index of [`index`](crate::functions::index) in NumPy's notation: all of [`s!`](crate::s),
/// arrays of integers and masks.
///
/// ```
/// use bibun::{Variable, array::Array, at};
/// let x = Variable::constant(Array::arange(0, 12).reshape([3, 4]));
/// assert_eq!(x.index(at![[2, 0], [1, -1]]).to_vec::<i64>(), [9, 3]);
/// assert_eq!(x.index(at![[2, 0], new, ..; 2]).shape(), [2, 1, 2]);
/// assert_eq!(x.index(at![x.greater(9)]).to_vec::<i64>(), [10, 11]);
/// ```
#[macro_export]
macro_rules! at {
    (@list [$($done:expr),*]) => { &[$($done),*][..] };
    (@list [$($done:expr),*] new $(, $($rest:tt)*)?) => {
        $crate::at!(@list [
            $($done,)* $crate::functions::Selection::Part($crate::array::Index::NewAxis)
        ] $($($rest)*)?)
    };
    (@list [$($done:expr),*] ... $(, $($rest:tt)*)?) => {
        $crate::at!(@list [
            $($done,)* $crate::functions::Selection::Part($crate::array::Index::Ellipsis)
        ] $($($rest)*)?)
    };
    (@list [$($done:expr),*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::at!(@list [
            $($done,)*
            $crate::functions::Selection::Part($crate::array::Index::from($range).step_by($step))
        ] $($($rest)*)?)
    };
    (@list [$($done:expr),*] $index:expr $(, $($rest:tt)*)?) => {
        $crate::at!(@list [$($done,)* $crate::functions::Selection::from($index)] $($($rest)*)?)
    };
    ($($index:tt)*) => { $crate::at!(@list [] $($index)*) };
}

/// Returns a part of x, as NumPy's `x[..]` does; [`at!`](crate::at) describes how to write the index.
/// Arrays of positions are broadcast together and pick elements one by one, and numbers beside them count
/// as such arrays. Their common axes come in the place of the axes they index, or first if others are
/// between these. A mask stands for the positions of its elements that are true. Negative positions count
/// from the end.
///
/// Shapes: x any → without the indexed axes, with those of the arrays. Types: x all, arrays integers or
/// bools. Gradient: `gy`, summed where x was picked ([`index_put_with`] a sum); indices have none. A mask
/// has results of unknown shape, so it cannot be traced or differ between the elements of a batch.
///
/// Source: NumPy, "Indexing on ndarrays".
///
/// # Panics
/// Panics if there are more indices than axes, a position is out of bounds, or the arrays do not
/// broadcast.
///
/// ```
/// use bibun::{Variable, at, functions::index};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(index(&x, at![[1, 0, 1], [0, 0, -1]]).to_vec::<f64>(), [4.0, 1.0, 6.0]);
/// assert_eq!(index(&x, at![[[0], [1]], [0, 2]]).to_vec::<f64>(), [1.0, 3.0, 4.0, 6.0]);
/// assert_eq!(index(&x, at![.., [true, false, true]]).shape(), [2, 2]);
/// ```
#[track_caller]
pub fn index(x: impl Into<Variable>, selections: &[Selection]) -> Variable {
    let _whole = composite("index");
    let x = x.into();
    let part = |selection: &Selection| match selection {
        Selection::Part(part) => Some(*part),
        Selection::Array(_) => None,
    };
    let parts = selections
        .iter()
        .map(part)
        .collect::<Option<SmallVec<[Index; 4]>>>();
    if let Some(parts) = parts {
        return slice(x, &parts);
    }
    let request = Request::new("index", &x, selections);
    let parts: SmallVec<[Index; 4]> = request.items.iter().map(Item::part).collect();
    let x = slice(x, &parts);
    // The axes with arrays, one behind the other.
    let first = request.first();
    let indexed: SmallVec<[usize; 4]> = request.arrays.iter().map(|array| array.item).collect();
    let others = (0..x.rank()).filter(|axis| !indexed.contains(axis));
    let mut order: SmallVec<[isize; 4]> = others.map(|axis| axis as isize).collect();
    order.insert_many(first, indexed.iter().map(|&axis| axis as isize));
    let is_in_order = order
        .iter()
        .enumerate()
        .all(|(i, &axis)| axis as usize == i);
    let x = if is_in_order { x } else { permute(x, &order) };
    let (sizes, count) = (x.shape(), indexed.len());
    let (merged, rest) = sizes[first..].split_at(count);
    let [array] = &request.arrays[..] else {
        let lines: Shape = merged.iter().copied().collect();
        let of_axes = request.arrays.iter().enumerate();
        let of_axes = of_axes.map(|(i, array)| (i, array.positions.clone()));
        let rows = linear(of_axes, &lines, &request.common);
        let flat = sizes[..first].iter().copied();
        let flat = flat.chain([lines.size()]).chain(rest.iter().copied());
        return take(reshape(&x, flat.collect::<Shape>()), rows, first as isize);
    };
    take(x, &array.positions, first as isize)
}
method!(index, selections: &[Selection]);

/// Returns x with `value`, broadcast, written to the part that [`index()`] returns. Where an element is
/// named several times, the last value stays, in row-major order of the part.
///
/// Shapes: x any, value that broadcasts to the part → as x. Types: x all, value of a dtype that becomes
/// that of x. Gradient: `gy` to the elements of x that stay and to the values that do; indices have none.
///
/// Source: `torch.index_put` and JAX's `x.at[..].set`.
///
/// # Panics
/// Panics where [`index()`] does, and if `value` does not fit.
///
/// ```
/// use bibun::{Variable, at, functions::index_put};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = index_put(&x, at![[1, 0], [0, 1]], [7.0, 8.0]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 8.0, 7.0, 4.0]);
/// let y = index_put(&x, at![x.greater(2)], 0.0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn index_put(
    x: impl Into<Variable>,
    index: &[Selection],
    value: impl Into<Operand>,
) -> Variable {
    let _whole = composite("index_put");
    let writing = Writing::new("index_put", Combine::Replace);
    put(writing, x.into(), index, value.into())
}
method!(index_put, index: &[Selection], value: impl Into<Operand>);

/// Returns x with `value`, broadcast, combined with the part that [`index()`] returns. All values for an
/// element take part.
///
/// Shapes: as [`index_put`]. Types: as [`index_put`]; the mean of integers and bools is f64.
/// Gradient: that of the sum, product, mean or extreme; see [`Combine`]. Indices have none.
///
/// Source: JAX's `x.at[..].add`, `multiply`, `max` and `min`.
///
/// # Panics
/// Panics where [`index_put`] does.
///
/// ```
/// use bibun::{Variable, at, functions::{Combine, index_put_with}};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = index_put_with(&x, at![[0, 2, 0]], [4.0, 5.0, 6.0], Combine::Sum);
/// assert_eq!(y.to_vec::<f64>(), [11.0, 2.0, 8.0]);
/// let y = index_put_with(&x, at![1..], 2.5, Combine::Max);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.5, 3.0]);
/// ```
#[track_caller]
pub fn index_put_with(
    x: impl Into<Variable>,
    index: &[Selection],
    value: impl Into<Operand>,
    combine: Combine,
) -> Variable {
    let _whole = composite("index_put");
    let writing = Writing::new("index_put", combine);
    put(writing, x.into(), index, value.into())
}
method!(index_put_with, index: &[Selection], value: impl Into<Operand>, combine: Combine);

#[track_caller]
fn put(writing: Writing, x: Variable, index: &[Selection], value: Operand) -> Variable {
    let function = writing.function;
    if let [Selection::Array(mask)] = index
        && let Some(value) = of_one_value(&value, &x)
        && mask.dtype() == DType::Bool
    {
        let value = writing.fitting(&x, value, &x.shape());
        return masked(writing.combine, function, x, mask, value);
    }
    let request = Request::new(function, &x, index);
    let shape = x.shape();
    let part = request.part(&shape);
    if let ([array], Combine::Sum) = (&request.arrays[..], writing.combine)
        && request.items.iter().all(Item::is_whole)
    {
        let value = writing.fitting(&x, value, &part);
        return add_at(x, &array.positions, array.axis as isize, value);
    }
    let value = writing.fitting(&x, value, &part);
    let positions = request.positions(&shape, &[&x, &value]).collect::<Vec<_>>();
    let positions = linear(positions, &shape, &part);
    writing.to_positions(x, positions, value)
}

/// Returns a value for all elements of x, if it is one.
fn of_one_value(value: &Operand, x: &Variable) -> Option<Operand> {
    let is_one = match value {
        Operand::Variable(value) => value.rank() == 0,
        Operand::Number(_) => true,
    };
    (is_one && x.size() > 0).then(|| value.clone())
}

/// Combines a value of the shape of x with x where a mask of the first axes holds. The positions need not
/// be known.
#[track_caller]
fn masked(
    combine: Combine,
    function: &'static str,
    x: Variable,
    mask: &Variable,
    value: Variable,
) -> Variable {
    let shape = x.shape();
    expect_mask(function, &x, mask, 0);
    let aligned = mask.shape();
    let aligned = aligned
        .iter()
        .copied()
        .chain((mask.rank()..shape.rank()).map(|_| 1));
    let mask = reshape(mask, aligned.collect::<Shape>());
    let both = match combine {
        Combine::Replace => value,
        Combine::Sum => &x + value,
        Combine::Product => multiply(&x, value),
        Combine::Mean => (to_float_of(function, x.clone()) + to_float_of(function, value)) / 2.0,
        Combine::Max => maximum(&x, value),
        Combine::Min => minimum(&x, value),
    };
    let dtype = both.dtype();
    where_(mask, both, cast(x, dtype))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    let product = |x: &[Array], i: &[usize], own: &[usize]| {
        let value = |&j: &usize| at(&x[1], &[j, 0]);
        at(&x[0], i) * own.iter().map(value).product::<f64>()
    };
    vec![
        // Arrays side by side, which are broadcast.
        Sample::new(
            "index",
            |x| {
                vec![index(
                    &x[0],
                    at![.., beside(x, [[1i64], [-1]]), beside(x, [0i64, 1, 0])],
                )]
            },
            move |x| {
                vec![by_index([2, 2, 3], |i| {
                    at(&x[0], &[i[0], [1, 2][i[1]], [0, 1, 0][i[2]]])
                })]
            },
        )
        .input([2, 3, 2], range.clone()),
        // Arrays apart, and a number, which counts as one.
        Sample::new(
            "index",
            |x| vec![index(&x[0], at![beside(x, [1i64, 0, 1]), ..; -1, new, 1])],
            move |x| {
                vec![by_index([3, 3, 1], |i| {
                    at(&x[0], &[[1, 0, 1][i[0]], 2 - i[1], 1])
                })]
            },
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "index",
            |x| vec![index(&x[0], at![..., beside(x, [2i64, 2, 0])])],
            move |x| vec![by_index([2, 3], |i| at(&x[0], &[i[0], [2, 2, 0][i[1]]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "index",
            |x| vec![index(&x[0], at![beside(x, [[true, false], [true, true]])])],
            move |x| {
                let places = [[0, 0], [1, 0], [1, 1]];
                vec![by_index([3, 2], |i| {
                    at(&x[0], &[places[i[0]][0], places[i[0]][1], i[1]])
                })]
            },
        )
        .input([2, 2, 2], range.clone()),
        Sample::new(
            "index_put",
            |x| {
                let (rows, columns) = (beside(x, [1i64, 0, 1]), beside(x, [2i64, 0, 2]));
                vec![index_put(&x[0], at![rows, columns], &x[1])]
            },
            move |x| {
                vec![by_index([2, 3], |i| match i {
                    [1, 2] => at(&x[1], &[2]),
                    [0, 0] => at(&x[1], &[1]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([3], range.clone()),
        Sample::new(
            "index_put",
            |x| vec![index_put(&x[0], at![..; 2, new, 1..], &x[1])],
            move |x| {
                vec![by_index([3, 3], |i| match (i[0], i[1]) {
                    (0 | 2, 1 | 2) => at(&x[1], &[i[0] / 2, 0, 0]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([3, 3], range.clone())
        .input([2, 1, 1], range.clone()),
        Sample::new(
            "index_put",
            |x| vec![index_put(&x[0], at![beside(x, [true, false, true])], &x[1])],
            move |x| {
                vec![by_index([3, 2], |i| match i[0] {
                    1 => at(&x[0], i),
                    _ => at(&x[1], &[]),
                })]
            },
        )
        .input([3, 2], range.clone())
        .input((), range.clone()),
        Sample::new(
            "index_put_with",
            |x| {
                let rows = beside(x, [1i64, -1, 0]);
                vec![index_put_with(
                    &x[0],
                    at![rows, new, 0],
                    &x[1],
                    Combine::Product,
                )]
            },
            move |x| {
                vec![by_index([2, 2], |i| match i {
                    [1, 0] => product(x, i, &[0, 1]),
                    [0, 0] => product(x, i, &[2]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([2, 2], range.clone())
        .input([3, 1], range.clone()),
        Sample::new(
            "index_put_with",
            |x| {
                vec![index_put_with(
                    &x[0],
                    at![.., beside(x, [2i64, 2])],
                    &x[1],
                    Combine::Sum,
                )]
            },
            move |x| {
                vec![by_index([2, 3], |i| {
                    at(&x[0], i)
                        + if i[1] == 2 {
                            at(&x[1], &[0]) + at(&x[1], &[1])
                        } else {
                            0.0
                        }
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2], range.clone()),
        Sample::new(
            "index_put_with",
            |x| {
                vec![index_put_with(
                    &x[0],
                    at![0, beside(x, [1i64, 1])],
                    &x[1],
                    Combine::Mean,
                )]
            },
            move |x| {
                vec![by_index([2, 2], |i| match i {
                    [0, 1] => (at(&x[0], i) + at(&x[1], &[0]) + at(&x[1], &[1])) / 3.0,
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([2, 2], range.clone())
        .input([2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::batch::vmap;

    fn counted(shape: &[usize]) -> Variable {
        let shape = Shape::new(shape);
        Variable::constant(Array::arange(0, shape.size() as i64).reshape(&shape))
    }

    #[test]
    fn axes_are_where_numpy_has_them() {
        let x = counted(&[2, 3, 4, 5]);
        let (a, b) = (
            Variable::constant([1i64, 0]),
            Variable::constant([[1i64], [0], [2]]),
        );
        let shapes: [(&[Selection], &[usize]); 9] = [
            (at![&a, &b], &[3, 2, 4, 5]),
            (at![.., &a, &b], &[2, 3, 2, 5]),
            (at![&a, .., &b], &[3, 2, 3, 5]),
            (at![0, .., &a], &[2, 3, 5]),
            (at![.., 0, &a], &[2, 2, 5]),
            (at![&a, new, 1], &[2, 1, 4, 5]),
            (at![..., &a, 1..; 2], &[2, 3, 2, 2]),
            (at![new, 1, ...], &[1, 3, 4, 5]),
            (at![[true, false], .., [0, 1]], &[2, 3, 5]),
        ];
        for (index, shape) in shapes {
            assert_eq!(x.index(index).shape(), *shape, "{index:?}");
            // What is written is what is read.
            let value = counted(shape) + 1000;
            let y = x.index_put(index, &value);
            if index.len() != 1 {
                assert_eq!(
                    y.index(index).to_vec::<i64>(),
                    value.to_vec::<i64>(),
                    "{index:?}"
                );
            }
        }
    }

    #[test]
    fn masks_of_no_element() {
        let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        let none = x.greater(9);
        assert_eq!(x.index(at![&none]).shape(), [0]);
        assert_eq!(
            x.index_put(at![&none], 0.0).to_vec::<f64>(),
            x.to_vec::<f64>()
        );
        let empty = Variable::new(Array::zeros([0, 3], DType::F64));
        assert_eq!(empty.index(at![.., [1, 0]]).shape(), [0, 2]);
        assert_eq!(empty.index_put(at![.., [1, 0]], 5.0).shape(), [0, 3]);
        assert_eq!(empty.index_put(at![empty.greater(0)], 5.0).shape(), [0, 3]);
    }

    #[test]
    fn indices_of_a_batch() {
        let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        let t = Variable::constant([[0i64, 2], [1, -1]]);
        let pick = |v: &[Variable]| vec![v[0].index(at![&v[1]]), v[0].index_put(at![&v[1]], 9.0)];
        for axes in [[Some(0), Some(0)], [None, Some(0)], [Some(0), None]] {
            let inputs = [0, 1].map(|i| match axes[i] {
                Some(_) => [&x, &t][i].clone(),
                None => [&x, &t][i].slice(crate::s![1]),
            });
            let y = vmap(pick, &inputs, &axes);
            for l in 0..2usize {
                let own = |i: usize| match axes[i] {
                    Some(_) => inputs[i].slice(crate::s![l]),
                    None => inputs[i].clone(),
                };
                let alone = pick(&[own(0), own(1)]);
                for (all, one) in y.iter().zip(&alone) {
                    let all = all.slice(crate::s![l]);
                    assert_eq!(all.to_vec::<f64>(), one.to_vec::<f64>());
                }
            }
        }
        // Masks that differ have as many elements as they like, but a number needs no positions.
        let kept = |v: &[Variable]| vec![v[0].index_put(at![v[0].greater(2)], 0.0)];
        let y = vmap(kept, &[x.clone()], &[Some(0)]);
        assert_eq!(y[0].to_vec::<f64>(), [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        let picked = |v: &[Variable]| vec![v[0].index(at![v[0].greater(2)])];
        let error = attempt(|| vmap(picked, &[x], &[Some(0)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("nonzero"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0, 3.0]]);
        let message = |index: &[Selection]| attempt(|| x.index(index)).unwrap_err().to_string();
        let error = message(at![.., [3]]);
        assert!(
            error.contains("index: index 3 is outside of axis 1 of the shape [1, 3]"),
            "{error}"
        );
        assert!(message(at![0, 0, [0]]).contains("3 indices"));
        assert!(message(at![[0, 0], [0, 1, 2]]).contains("sizes must be equal or 1"));
        assert!(message(at![[true, true]]).contains("the mask must have the sizes of x"));
        assert!(message(at![[0.5]]).contains("they must be integers"));
        assert!(attempt(|| x.index_put(at![.., [0, 1]], [1.0, 2.0, 3.0])).is_err());
    }
}
