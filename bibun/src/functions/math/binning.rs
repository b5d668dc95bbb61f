//! Bins: where elements belong among sorted ones, and how many belong to each.

use bibun_array::{Array, DType, Index};

use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::condition::expect_everywhere;
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::functions::{
    Operand, add_at, cast, constant_beside, equal, is_finite, less, less_equal, linspace, max, min,
    part, reshape, slice, to_float, where_,
};
use crate::variable::Variable;

/// Returns for each value the position at which it could be inserted into a sorted axis so that it stays
/// sorted: the first one, or with `right` the last one. NaN counts as larger than all numbers.
///
/// Shapes: sorted `[n]`, values any → as values; or sorted `[a.., n]`, values `[a.., m]` → `[a.., m]`.
/// Types: all, promoted → i64. Gradient: none.
///
/// Source: `torch.searchsorted`, `numpy.searchsorted`.
///
/// # Panics
/// Panics if `sorted` has no axes, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::searchsorted, Variable};
/// let sorted = Variable::constant([1.0, 2.0, 2.0, 5.0]);
/// assert_eq!(searchsorted(&sorted, [2.0, 9.0], false).to_vec::<i64>(), [1, 4]);
/// assert_eq!(searchsorted(&sorted, [2.0, 0.0], true).to_vec::<i64>(), [3, 0]);
/// ```
#[track_caller]
pub fn searchsorted(
    sorted: impl Into<Variable>,
    values: impl Into<Operand>,
    right: bool,
) -> Variable {
    search("searchsorted", sorted.into(), values.into(), right)
}
method!(searchsorted, values: impl Into<Operand>, right: bool);

/// Returns for each element of x its bin among boundaries in ascending order: the number of boundaries
/// that are less than it, or with `right` not greater. NaN counts as larger than all numbers.
///
/// Shapes: x any, boundaries `[n]` → as x. Types: all, promoted → i64. Gradient: none.
///
/// Source: `torch.bucketize`; `numpy.digitize` counts with `right` the other way round.
///
/// # Panics
/// Panics if the boundaries are not a vector.
///
/// ```
/// use bibun::{functions::bucketize, Variable};
/// let x = Variable::constant([[0.5, 1.0], [1.5, 9.0]]);
/// assert_eq!(bucketize(&x, [1.0, 2.0], false).to_vec::<i64>(), [0, 0, 1, 2]);
/// assert_eq!(bucketize(&x, [1.0, 2.0], true).to_vec::<i64>(), [0, 1, 1, 2]);
/// ```
#[track_caller]
pub fn bucketize(x: impl Into<Operand>, boundaries: impl Into<Variable>, right: bool) -> Variable {
    let boundaries = boundaries.into();
    expect_vector("bucketize", "boundaries", &boundaries);
    search("bucketize", boundaries, x.into(), right)
}

impl Variable {
    /// Calls [`functions::bucketize`](crate::functions::bucketize) of this Variable.
    #[must_use]
    #[track_caller]
    pub fn bucketize(&self, boundaries: impl Into<Self>, right: bool) -> Self {
        bucketize(self, boundaries, right)
    }
}

#[track_caller]
fn expect_vector(function: &'static str, name: &str, x: &Variable) {
    if x.rank() != 1 {
        mismatch(function, &[(name, &x.spec())], "they must be a vector")
    }
}

#[track_caller]
fn search(function: &'static str, sorted: Variable, values: Operand, right: bool) -> Variable {
    let _whole = composite(function);
    let values = values.beside(sorted.dtype());
    let dtype = sorted.dtype().promote(values.dtype());
    let [sorted, values] = [sorted, values].map(|x| cast(x, dtype).detach());
    let (shape, size) = (values.shape(), values.size());
    match sorted.rank() {
        1 => {
            let rule = SearchSorted { function, right };
            reshape(Discrete::of(rule, [sorted, reshape(values, size)]), shape)
        }
        _ => Discrete::of(SearchSorted { function, right }, [sorted, values]),
    }
}

#[derive(Clone, Debug)]
struct SearchSorted {
    function: &'static str,
    right: bool,
}

impl DiscreteRule for SearchSorted {
    type Inputs = Fixed<2>;

    fn name(&self) -> &'static str {
        self.function
    }

    fn shape(&self, [sorted, values]: [&Spec; 2]) -> Result<Spec, Mismatch> {
        let before = |x: &Spec| x.shape.split_last().map(|(_, before)| before.to_vec());
        if sorted.shape.rank() == 0 || before(sorted) != before(values) {
            let inputs = [("sorted [a.., n]", sorted), ("values [a.., m]", values)];
            let must_hold = "sorted must be a vector, or all sizes but the last equal";
            return Err(Mismatch::new(&inputs, must_hold));
        }
        Ok(Spec::new(&values.shape, DType::I64))
    }

    /// Adds to the position the powers of two that still have smaller elements before them, from the
    /// largest on.
    fn forward(&self, [sorted, values]: [Array; 2]) -> Array {
        let size = sorted.shape()[sorted.rank() - 1];
        let mut position = Array::zeros(values.shape(), DType::I64);
        let Some(digits) = size.checked_ilog2() else {
            return position;
        };
        // NaN is above all numbers and equal to itself.
        let is_less = |a: &Array, b: &Array| a.less(b) | (b.is_nan() & a.is_nan().logical_not());
        for digit in (0..=digits).rev() {
            let next = &position + (1i64 << digit);
            let element = sorted.gather(&(&next - 1).minimum(size as i64 - 1), -1);
            let is_before = match self.right {
                true => is_less(&values, &element).logical_not(),
                false => is_less(&element, &values),
            };
            let is_before = is_before & next.less_equal(size as i64);
            position = is_before.where_(&next, &position);
        }
        position
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        Batched::in_front(Discrete(self.clone()), inputs)
    }
}

/// The bins of a [`histogram`].
#[derive(Clone, Debug)]
pub enum Bins {
    /// A number of bins of equal width from the smallest element to the largest.
    Count(usize),
    /// A number of bins of equal width between two numbers.
    Between(usize, f64, f64),
    /// The edges of the bins, in ascending order.
    Edges(Variable),
}

impl From<usize> for Bins {
    fn from(count: usize) -> Self {
        Self::Count(count)
    }
}
impl From<(usize, f64, f64)> for Bins {
    fn from((count, low, high): (usize, f64, f64)) -> Self {
        Self::Between(count, low, high)
    }
}
macro_rules! bins_from {
    ($($Edges:ty),+) => {$(
        impl From<$Edges> for Bins {
            fn from(edges: $Edges) -> Self {
                Self::Edges(edges.into())
            }
        }
    )+};
}
bins_from!(Variable, &Variable, Array, &Array);
impl<const N: usize> From<[f64; N]> for Bins {
    fn from(edges: [f64; N]) -> Self {
        Self::from(Array::from(edges))
    }
}

/// Counts the elements of x in bins, and returns the counts and the edges of the bins. A bin holds its
/// left edge, and the last one its right edge, too. Elements outside of all bins, and NaN, are not
/// counted.
///
/// Shapes: x any → counts `[bins]`, edges `[bins + 1]`. Types: all → counts i64, edges a float dtype.
/// Gradient: none for the counts; that of edges between the smallest and the largest element goes to
/// these.
///
/// A range that is a single number becomes one of width 1 around it.
///
/// Source: `numpy.histogram`.
///
/// # Panics
/// Panics if there is no bin, the edges are not a vector in ascending order, the range is not finite or its end is
/// before its beginning, or elements are not finite and the range has to be found.
///
/// ```
/// use bibun::{functions::histogram, Variable};
/// let x = Variable::constant([1.0, 2.0, 1.5, 4.0, 5.0]);
/// let (counts, edges) = histogram(&x, 2);
/// assert_eq!(counts.to_vec::<i64>(), [3, 2]);
/// assert_eq!(edges.to_vec::<f64>(), [1.0, 3.0, 5.0]);
/// assert_eq!(histogram(&x, [0.0, 2.0, 4.0]).0.to_vec::<i64>(), [2, 2]);
/// assert_eq!(histogram(&x, (2, 0.0, 2.0)).0.to_vec::<i64>(), [0, 3]);
/// ```
#[track_caller]
pub fn histogram(x: impl Into<Variable>, bins: impl Into<Bins>) -> (Variable, Variable) {
    let _whole = composite("histogram");
    let x = x.into();
    let x = reshape(&x, x.size());
    let (x, edges) = match bins.into() {
        Bins::Edges(edges) => {
            expect_vector("histogram", "edges", &edges);
            if let Some(inner) = edges.size().checked_sub(1) {
                let [before, behind] = [0, 1].map(|at| part(&edges, 0, at, inner + at));
                let is_ascending = less_equal(before, &behind);
                let must = "at least the edge before";
                expect_everywhere("histogram", "an edge", &behind, &is_ascending, must);
            }
            (x, edges)
        }
        Bins::Between(count, low, high) => {
            let x = to_float(x);
            if !(low <= high && low.is_finite() && high.is_finite()) {
                let what =
                    format!("the range is from {low} to {high}; it must be finite and ascend");
                raise(Error::argument("histogram", what));
            }
            let margin = if low == high { 0.5 } else { 0.0 };
            let edges = Array::linspace(low - margin, high + margin, count.saturating_add(1));
            let edges = edges.cast(x.dtype());
            let edges = constant_beside(&[&x], edges);
            (x, edges)
        }
        Bins::Count(count) => {
            let x = to_float(x);
            let must = "finite, for bins from the smallest to the largest";
            expect_everywhere("histogram", "an element", &x, &is_finite(&x), must);
            let [low, high] = match x.size() {
                0 => [0.0, 1.0].map(|end| cast(Variable::constant(end), x.dtype())),
                _ => [min(&x, ..), max(&x, ..)],
            };
            // A single value is in the middle of a range of width 1.
            let margin = where_(equal(&low, &high), 0.5, 0.0);
            let margin = cast(margin, x.dtype());
            (
                x,
                linspace(low - &margin, high + margin, count.saturating_add(1)),
            )
        }
    };
    let Some(count) = edges.size().checked_sub(2).map(|inner| inner + 1) else {
        raise(Error::argument(
            "histogram",
            "there must be at least one bin",
        ));
    };
    let last = slice(&edges, &[Index::At(-1)]);
    let bin = search("histogram", edges.clone(), (&x).into(), true) - 1;
    let bin = where_(equal(&x, last), count as i64 - 1, bin);
    // Behind the last bin is one for all elements that are not counted.
    let bin = where_(less(&bin, 0), count as i64, &bin);
    let zeros = Variable::constant(Array::zeros(count + 1, DType::I64));
    let counts = add_at(zeros, bin, 0, 1);
    (slice(counts, &[Index::from(..count)]), edges)
}
method!(histogram -> (Self, Self), bins: impl Into<Bins>);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    let edges = [-1.0, 0.0, 0.5, 1.0];
    let numbers = |x: Vec<f64>, shape: &[usize]| {
        Array::from_vec(x, bibun_array::Shape::new(shape)).cast(DType::I64)
    };
    let before = move |x: f64| edges.iter().filter(|&&edge| edge < x).count() as f64;
    vec![
        Sample::new(
            "searchsorted",
            move |x| vec![searchsorted(beside(x, edges), &x[0], false)],
            move |x| {
                vec![numbers(
                    x[0].to_vec::<f64>().into_iter().map(before).collect(),
                    &[2, 3],
                )]
            },
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "searchsorted",
            move |x| vec![searchsorted(crate::functions::sort(&x[0], 1), &x[1], true)],
            move |x| {
                let (rows, values) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
                let found = (0..4).map(|i| {
                    let row = &rows[i / 2 * 5..][..5];
                    row.iter().filter(|&&element| element <= values[i]).count() as f64
                });
                vec![numbers(found.collect(), &[2, 2])]
            },
        )
        .input([2, 5], -2.0..2.0)
        .input([2, 2], -2.0..2.0),
        Sample::new(
            "bucketize",
            move |x| vec![bucketize(&x[0], beside(x, edges), true)],
            move |x| {
                vec![numbers(
                    x[0].to_vec::<f64>().into_iter().map(before).collect(),
                    &[4],
                )]
            },
        )
        .input([4], -2.0..2.0),
        Sample::new(
            "histogram",
            |x| {
                let (counts, edges) = histogram(&x[0], 3);
                vec![counts, edges]
            },
            move |x| {
                let x = x[0].to_vec::<f64>();
                let low = x.iter().copied().fold(f64::INFINITY, f64::min);
                let high = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let edges = Array::linspace(low, high, 4);
                let bin = |x: f64| (((x - low) / (high - low) * 3.0) as usize).min(2);
                let count = |i: usize| x.iter().filter(|&&x| bin(x) == i).count() as f64;
                vec![numbers((0..3).map(count).collect(), &[3]), edges]
            },
        )
        .input([4, 5], -2.0..2.0),
        Sample::new(
            "histogram",
            move |x| vec![histogram(&x[0], beside(x, edges)).0],
            move |x| {
                let x = x[0].to_vec::<f64>();
                let count = |i: usize| {
                    let inside = x.iter().filter(|&&x| edges[i] <= x && x < edges[i + 1]);
                    inside.count() as f64
                };
                vec![numbers((0..3).map(count).collect(), &[3])]
            },
        )
        .input([7], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn nan_is_last_and_empty_axes_have_no_places() {
        let nan = f64::NAN;
        let sorted = Variable::constant([1.0, 3.0, nan, nan]);
        let values = [nan, 2.0, f64::INFINITY, 1.0];
        assert_eq!(
            searchsorted(&sorted, values, false).to_vec::<i64>(),
            [2, 1, 2, 0]
        );
        assert_eq!(
            searchsorted(&sorted, values, true).to_vec::<i64>(),
            [4, 1, 2, 1]
        );
        let nothing = Variable::constant(Array::zeros([0], DType::F64));
        assert_eq!(searchsorted(&nothing, values, true).to_vec::<i64>(), [0; 4]);
        assert_eq!(searchsorted(&sorted, &nothing, true).shape(), [0]);
        assert_eq!(searchsorted([1i64, 5], 2.5, false).item::<i64>(), 1);
        for size in 1..20i64 {
            let sorted = Variable::constant(Array::arange(0, size));
            let values = Array::arange(-1, size + 1);
            let left = (-1..=size).map(|v| v.clamp(0, size)).collect::<Vec<i64>>();
            assert_eq!(searchsorted(&sorted, &values, false).to_vec::<i64>(), left);
            let right = (0..=size + 1)
                .map(|v| v.clamp(0, size))
                .collect::<Vec<i64>>();
            assert_eq!(searchsorted(&sorted, &values, true).to_vec::<i64>(), right);
        }
        let batch = Variable::constant([[1.0, 2.0], [3.0, 4.0]]);
        assert!(attempt(|| searchsorted(&batch, [[1.0, 2.0]], true)).is_err());
        assert!(attempt(|| searchsorted(1.0, 1.0, true)).is_err());
    }

    #[test]
    fn elements_at_edges_and_outside() {
        let x = Variable::constant([0.0, 1.0, 2.0, 3.0, -1.0, f64::NAN]);
        assert_eq!(histogram(&x, (2, 0.0, 2.0)).0.to_vec::<i64>(), [1, 2]);
        let (counts, edges) = histogram([7i64, 7], 2);
        assert_eq!(counts.to_vec::<i64>(), [0, 2]);
        assert_eq!(edges.to_vec::<f64>(), [6.5, 7.0, 7.5]);
        let nothing = Variable::constant(Array::zeros([0], DType::F32));
        let (counts, edges) = histogram(&nothing, 2);
        assert_eq!(counts.to_vec::<i64>(), [0, 0]);
        assert_eq!(edges.to_vec::<f32>(), [0.0, 0.5, 1.0]);
        assert!(attempt(|| histogram(&x, 0)).is_err());
        assert!(attempt(|| histogram(&x, [1.0])).is_err());
    }

    #[test]
    fn bins_that_are_none_are_errors() {
        let x = Variable::constant([1.0, 2.0]);
        let error = |bins: Bins| attempt(|| histogram(&x, bins)).unwrap_err().to_string();
        let text = error(Bins::Between(3, 2.0, 1.0));
        assert!(text.contains("the range is from 2 to 1"), "{text}");
        assert!(error(Bins::Between(3, f64::NAN, 1.0)).contains("must be finite"));
        let text = error(Bins::from([2.0, 1.0]));
        assert!(
            text.contains("it must be at least the edge before"),
            "{text}"
        );
        for wrong in [f64::INFINITY, f64::NAN] {
            let error = attempt(|| histogram([1.0, wrong], 3))
                .unwrap_err()
                .to_string();
            assert!(error.contains("it must be finite"), "{error}");
        }
        let (counts, edges) = histogram(&x, (2, 1.0, 1.0));
        assert_eq!(edges.to_vec::<f64>(), [0.5, 1.0, 1.5]);
        assert_eq!(counts.to_vec::<i64>(), [0, 1]);
    }
}
