//! Sums of products in Einstein notation.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bibun_array::{Index, Shape};

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::products::reshaped;
use crate::functions::variables;
use crate::functions::{broadcast_to, cast, matmul, permute, slice, sum};
use crate::variable::Variable;

/// Computes a sum of products in Einstein notation, as in NumPy: `spec` names the axes of each
/// operand by letters; the letters after `->` are the axes of the result, and all others are summed
/// over. The operands are taken as by [`concat`](crate::functions::concat).
///
/// `"ik,kj->ij"` is the product of two matrices, `"ii"` the trace of one, `"ij->ji"` a transpose. A
/// letter that occurs twice in one operand takes the diagonal; `...` stands for unnamed axes, which
/// broadcast. Without `->` the result has the axes of `...`, followed by the letters that occur
/// once, in alphabetical order. Spaces are ignored.
///
/// Operands are multiplied from left to right, each time by one matrix product, after summing over
/// the axes that no later operand needs; with many operands their order determines the cost.
///
/// Shapes: as `spec` states.
/// Types: floats and integers, promoted.
/// Gradient: that of the products, sums and movements it is made of.
///
/// # Panics
/// Panics if `spec` is not well-formed or the operands do not fit it.
///
/// ```
/// use bibun::{functions::einsum, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(einsum("ik,kj->ij", [&x, &x]).to_vec::<f64>(), [7.0, 10.0, 15.0, 22.0]);
/// assert_eq!(einsum("ii", [&x]).item::<f64>(), 5.0);
/// assert_eq!(einsum("ij,ij", [&x, &x]).item::<f64>(), 30.0);
/// ```
#[track_caller]
pub fn einsum(spec: &str, operands: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("einsum");
    let (mut terms, result) = parsed(spec, &variables(operands));
    let mut product = terms.remove(0);
    for i in 0..terms.len() {
        let later = |axis: &Axis| {
            result.contains(axis) || terms[i + 1..].iter().any(|term| term.axes.contains(axis))
        };
        let (a, b) = (product, terms[i].clone());
        // First sum over the axes that only one of the two has and that are not needed later.
        let a_axes = a.axes.clone();
        let a = a.summed(|axis| later(axis) || b.axes.contains(axis));
        let b = b.summed(|axis| later(axis) || a_axes.contains(axis));
        product = a.times(b, later);
    }
    let product = product.summed(|axis| result.contains(axis));
    product.in_order(&result).value
}

/// The name of an axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Axis {
    /// An axis of `...`, counted from the last.
    Unnamed(Reverse<usize>),
    /// An axis named by a letter.
    Letter(char),
}

/// An operand with the names of its axes.
#[derive(Clone, Debug)]
struct Term {
    value: Variable,
    axes: Vec<Axis>,
}

/// Returns the operands with all axes named, and the axes of the result.
#[track_caller]
fn parsed(spec: &str, operands: &[Variable]) -> (Vec<Term>, Vec<Axis>) {
    let fail =
        |what: String| -> ! { raise(Error::argument("einsum", format!("\"{spec}\": {what}"))) };
    let plain: String = spec
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    let (left, right) = match plain.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (plain.as_str(), None),
    };
    let names: Vec<&str> = left.split(',').collect();
    if names.len() != operands.len() {
        fail(format!(
            "{} operands are named, {} given",
            names.len(),
            operands.len()
        ));
    }
    let letters = |name: &str| -> Vec<Axis> {
        if let Some(other) = name.chars().find(|letter| !letter.is_alphabetic()) {
            fail(format!("'{other}' is no name of an axis"));
        }
        name.chars().map(Axis::Letter).collect()
    };
    // Returns the axes of a name; `unnamed` maps the number of its letters to the number of axes of
    // "...".
    let axes_of = |name: &str, unnamed: &dyn Fn(usize) -> usize| match name.split_once("...") {
        Some((front, back)) => {
            let (front, back) = (letters(front), letters(back));
            let count = unnamed(front.len() + back.len());
            let unnamed = (0..count).rev().map(|i| Axis::Unnamed(Reverse(i)));
            front.into_iter().chain(unnamed).chain(back).collect()
        }
        None => letters(name),
    };

    let dtypes = operands.iter().map(|operand| operand.dtype());
    let dtype = dtypes
        .reduce(bibun_array::DType::promote)
        .expect("a name for each");
    let mut sizes: BTreeMap<Axis, usize> = BTreeMap::new();
    let mut terms = Vec::new();
    for (name, operand) in names.iter().zip(operands) {
        let shape = operand.shape();
        let spec = operand.spec();
        let axes = axes_of(name, &|named| match shape.rank().checked_sub(named) {
            Some(count) => count,
            None => fail(format!("\"{name}\" names more axes than {spec} has")),
        });
        if axes.len() != shape.rank() {
            fail(format!("\"{name}\" does not name the axes of {spec}"));
        }
        for (&axis, &size) in axes.iter().zip(shape.iter()) {
            let other = sizes.entry(axis).or_insert(size);
            match axis {
                _ if *other == size => {}
                Axis::Unnamed(_) if *other == 1 => *other = size,
                Axis::Unnamed(_) if size == 1 => {}
                Axis::Letter(letter) => {
                    fail(format!("'{letter}' has the sizes {other} and {size}"))
                }
                Axis::Unnamed(_) => fail(format!(
                    "the sizes {other} and {size} of \"...\" do not broadcast"
                )),
            }
        }
        terms.push(Term {
            value: cast(operand, dtype),
            axes,
        });
    }

    let has_letter = |axis: &&Axis| matches!(axis, Axis::Letter(_));
    let unnamed = sizes.len() - sizes.keys().filter(has_letter).count();
    let result = match right {
        Some(right) => {
            let result = axes_of(right, &|_| unnamed);
            for (i, axis) in result.iter().enumerate() {
                if result[..i].contains(axis) {
                    fail(format!("the result \"{right}\" names an axis twice"));
                }
                if !sizes.contains_key(axis) {
                    let what = format!("the result \"{right}\" names an axis that no operand has");
                    fail(what);
                }
            }
            result
        }
        None => {
            let all: Vec<Axis> = terms.iter().flat_map(|term| term.axes.clone()).collect();
            let once = |axis: &&Axis| all.iter().filter(|other| other == axis).count() == 1;
            // In alphabetical order.
            let named = sizes.keys().filter(has_letter).filter(once);
            let unnamed = axes_of("...", &|_| unnamed);
            unnamed.into_iter().chain(named.copied()).collect()
        }
    };

    for term in &mut terms {
        let full = term.axes.iter().map(|axis| sizes[axis]);
        term.value = broadcast_to(&term.value, full.collect::<Shape>());
        term.take_diagonals();
    }
    (terms, result)
}

impl Term {
    fn size(&self, axis: Axis) -> usize {
        let at = self.axes.iter().position(|&other| other == axis);
        self.value.shape()[at.expect("an axis of this operand")]
    }

    /// Makes the names unique: two axes with the same name are replaced by their diagonal, put
    /// last.
    #[track_caller]
    fn take_diagonals(&mut self) {
        let twice = |axes: &[Axis]| {
            let mut pairs = (0..axes.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
            pairs.find(|&(i, j)| axes[i] == axes[j])
        };
        while let Some((i, j)) = twice(&self.axes) {
            let axis = self.axes[i];
            let others: Vec<usize> = (0..self.axes.len()).filter(|&k| k != i && k != j).collect();
            let order = others.iter().chain([&i, &j]).map(|&k| k as isize);
            let matrices = permute(&self.value, &order.collect::<Vec<_>>());
            // In the flattened matrix, the elements of the diagonal are a row and one element
            // apart.
            let size = self.size(axis);
            let mut flat: Vec<usize> = matrices.shape()[..others.len()].to_vec();
            flat.push(size * size);
            let every = Index::ALL.step_by(size as isize + 1);
            self.value = slice(reshaped(matrices, flat), &[Index::Ellipsis, every]);
            self.axes = others.iter().map(|&k| self.axes[k]).chain([axis]).collect();
        }
    }

    /// Sums over all axes but those to keep.
    #[track_caller]
    fn summed(self, keep: impl Fn(&Axis) -> bool) -> Self {
        let gone = (0..self.axes.len()).filter(|&i| !keep(&self.axes[i]));
        let gone: Vec<isize> = gone.map(|i| i as isize).collect();
        if gone.is_empty() {
            return self;
        }
        let axes = self.axes.into_iter().filter(|axis| keep(axis)).collect();
        Self {
            value: sum(self.value, &gone[..]),
            axes,
        }
    }

    /// Returns the operand with its axes in another order.
    #[track_caller]
    fn in_order(self, axes: &[Axis]) -> Self {
        let position = |axis| self.axes.iter().position(|other| other == axis);
        let order = axes
            .iter()
            .map(|axis| position(axis).expect("the same axes") as isize);
        let order: Vec<isize> = order.collect();
        Self {
            value: permute(self.value, &order),
            axes: axes.to_vec(),
        }
    }

    /// Multiplies by another operand and sums over all common axes but those to keep. Axes that
    /// only one of the two has are all kept.
    #[track_caller]
    fn times(self, other: Self, keep: impl Fn(&Axis) -> bool) -> Self {
        let (a, b) = (self, other);
        let of = |axes: &[Axis], wanted: &dyn Fn(&Axis) -> bool| -> Vec<Axis> {
            axes.iter().copied().filter(|axis| wanted(axis)).collect()
        };
        let common = of(&a.axes, &|axis| b.axes.contains(axis) && keep(axis));
        let gone = of(&a.axes, &|axis| b.axes.contains(axis) && !keep(axis));
        let rows = of(&a.axes, &|axis| !b.axes.contains(axis));
        let columns = of(&b.axes, &|axis| !a.axes.contains(axis));
        let sizes = |term: &Self, axes: &[Axis]| -> Vec<usize> {
            axes.iter().map(|&axis| term.size(axis)).collect()
        };
        let (common_sizes, gone_sizes) = (sizes(&a, &common), sizes(&a, &gone));
        let (row_sizes, column_sizes) = (sizes(&a, &rows), sizes(&b, &columns));
        let result = [&common[..], &rows, &columns].concat();

        let a = a.in_order(&[&common[..], &rows, &gone].concat());
        if gone.is_empty() || (rows.is_empty() && columns.is_empty()) {
            // An elementwise product, with an axis of size 1 where one of the two lacks an axis.
            let b = b.in_order(&[&common[..], &columns, &gone].concat());
            let ones = vec![1; columns.len()];
            let left = [&common_sizes[..], &row_sizes, &ones, &gone_sizes].concat();
            let ones = vec![1; rows.len()];
            let right = [&common_sizes[..], &ones, &column_sizes, &gone_sizes].concat();
            let products = reshaped(a.value, left) * reshaped(b.value, right);
            let last: Vec<isize> = (result.len()..result.len() + gone.len())
                .map(|axis| axis as isize)
                .collect();
            let value = if last.is_empty() {
                products
            } else {
                sum(products, &last[..])
            };
            return Self {
                value,
                axes: result,
            };
        }
        let b = b.in_order(&[&common[..], &gone, &columns].concat());
        let [m, k, n] =
            [&row_sizes, &gone_sizes, &column_sizes].map(|sizes| sizes.iter().product());
        let left = reshaped(a.value, [&common_sizes[..], &[m, k]].concat());
        let right = reshaped(b.value, [&common_sizes[..], &[k, n]].concat());
        let shape = [common_sizes, row_sizes, column_sizes].concat();
        Self {
            value: reshaped(matmul(left, right), shape),
            axes: result,
        }
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;

    /// Computes the plain sum over all values of all letters; `spec` has an output and no `...`.
    fn reference(spec: &str, x: &[Array]) -> Array {
        let (left, right) = spec.split_once("->").expect("an output");
        let names: Vec<&str> = left.split(',').collect();
        let mut letters: Vec<(char, usize)> = Vec::new();
        for (name, x) in names.iter().zip(x) {
            for (letter, &size) in name.chars().zip(x.shape().iter()) {
                if !letters.iter().any(|(other, _)| *other == letter) {
                    letters.push((letter, size));
                }
            }
        }
        let size_of = |letter| {
            letters
                .iter()
                .find(|(other, _)| *other == letter)
                .unwrap()
                .1
        };
        let shape: Shape = right.chars().map(size_of).collect();
        let mut y = vec![0.0; shape.size()];
        for position in 0..letters.iter().map(|(_, size)| size).product() {
            let mut rest: usize = position;
            let mut values = Vec::new();
            for (letter, size) in &letters {
                values.push((*letter, rest % size));
                rest /= size;
            }
            let at = |letter| values.iter().find(|(other, _)| *other == letter).unwrap().1;
            let product: f64 = (names.iter().zip(x))
                .map(|(name, x)| {
                    x.element(&name.chars().map(at).collect::<Vec<_>>())
                        .to_f64()
                })
                .product();
            let place = right.chars().fold(0, |place, c| place * size_of(c) + at(c));
            y[place] += product;
        }
        Array::from_vec(y, shape)
    }

    let cases: [(&'static str, &'static str, &[&[usize]]); 15] = [
        ("ik,kj->ij", "ik,kj->ij", &[&[2, 3], &[3, 4]]),
        ("ik , kj", "ik,kj->ij", &[&[2, 3], &[3, 4]]),
        ("kj,ik", "kj,ik->ij", &[&[3, 1], &[2, 3]]),
        ("ba", "ba->ab", &[&[2, 3]]),
        ("ii", "ii->", &[&[3, 3]]),
        ("iji->ij", "iji->ij", &[&[2, 3, 2]]),
        ("iii->i", "iii->i", &[&[2, 2, 2]]),
        ("bij,bjk->bik", "bij,bjk->bik", &[&[2, 1, 3], &[2, 3, 2]]),
        ("...ij,...jk", "bij,jk->bik", &[&[2, 1, 3], &[3, 2]]),
        ("i...,i...->...", "iab,ib->ab", &[&[2, 3, 2], &[2, 2]]),
        ("i,j->ji", "i,j->ji", &[&[2], &[3]]),
        ("bi,bi->b", "bi,bi->b", &[&[3, 2], &[3, 2]]),
        ("ij,jk,kl->il", "ij,jk,kl->il", &[&[2, 3], &[3, 2], &[2, 1]]),
        ("ijk,j->", "ijk,j->", &[&[2, 3, 1], &[3]]),
        ("ab,ab,cb->ca", "ab,ab,cb->ca", &[&[2, 3], &[2, 3], &[1, 3]]),
    ];
    let sample = |(spec, plain, shapes): (&'static str, &'static str, &[&[usize]])| {
        let sample = Sample::new(
            "einsum",
            move |x| vec![einsum(spec, x.iter())],
            move |x| vec![reference(plain, x)],
        );
        shapes
            .iter()
            .fold(sample, |sample, &shape| sample.input(shape, -2.0..2.0))
    };
    cases.into_iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn unnamed_axes_of_size_one_broadcast() {
        let a = Variable::new([[1.0, 2.0]]);
        let b = Variable::new([[1.0], [10.0]]);
        let y = einsum("...,...", [&a, &b]);
        assert_eq!(
            (y.shape(), y.to_vec::<f64>()),
            ([2, 2].into(), vec![1.0, 2.0, 10.0, 20.0])
        );
        assert_eq!(einsum("...->", [&a]).item::<f64>(), 3.0);
    }

    #[test]
    fn mistakes_in_a_specification_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = |spec: &str, operands: &[&Variable]| {
            attempt(|| einsum(spec, operands)).unwrap_err().to_string()
        };
        assert!(message("ij,jk", &[&x]).contains("2 operands are named, 1 given"));
        assert!(message("i", &[&x]).contains("does not name the axes of [1, 2] f64"));
        assert!(message("i...jk", &[&x]).contains("more axes than"));
        assert!(message("i1", &[&x]).contains("'1' is no name"));
        assert!(message("ij->ii", &[&x]).contains("names an axis twice"));
        assert!(message("ij->k", &[&x]).contains("no operand has"));
        assert!(message("ij,ji", &[&x, &x]).contains("has the sizes"));
        let found = message("ii", &[&x]);
        assert!(found.contains("'i' has the sizes 1 and 2"), "{found}");
    }
}
