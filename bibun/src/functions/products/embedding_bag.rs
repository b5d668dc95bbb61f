//! Sums of rows of a table.

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{embedding, max, mean, sum, to_indices};
use crate::variable::Variable;
use bibun_array::DType;

/// How [`embedding_bag`] makes one row of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bag {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// The largest of each column.
    Max,
}

/// Returns for each bag of ids the mean, the sum or the largest elements of the rows of a table.
///
/// Bags of different sizes are written with [`segment_sum`](crate::functions::segment_sum) and kin over
/// [`embedding`].
///
/// Shapes: ids `[.., k]`, w `[n, d]` → `[.., d]`.
/// Types: ids integers, w floats.
/// Gradient: that of the sum, mean or maximum, added up in the selected rows.
///
/// Source: `torch.nn.functional.embedding_bag`.
///
/// # Panics
/// Panics if ids have no axis or are not integers, w is not a matrix, or has no row for an id.
///
/// ```
/// use bibun::{functions::{embedding_bag, Bag}, Variable};
/// let w = Variable::new([[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]);
/// assert_eq!(embedding_bag([[0i64, 1], [2, 2]], &w, Bag::Mean).to_vec::<f64>(), [2.0, 3.0, 5.0, 0.0]);
/// ```
#[track_caller]
pub fn embedding_bag(ids: impl Into<Variable>, w: impl Into<Variable>, bag: Bag) -> Variable {
    let function = "embedding_bag";
    let _whole = composite(function);
    let (ids, w) = (to_indices(ids), w.into());
    let (ids_spec, w_spec) = (ids.spec(), w.spec());
    if ids.rank() == 0 || ids.dtype() != DType::I64 || w.rank() != 2 || !w.dtype().is_float() {
        let inputs = [("ids [.., k]", &ids_spec), ("w [n, d]", &w_spec)];
        mismatch(function, &inputs, "ids must be integers, w floats")
    }
    let rows = embedding(ids, w, None);
    match bag {
        Bag::Mean => mean(rows, -2),
        Bag::Sum => sum(rows, -2),
        Bag::Max => max(rows, -2),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    let ids = [[0i64, 2, 2], [1, 3, 0]];
    let sample = move |bag: Bag, fold: fn([f64; 3]) -> f64| {
        Sample::new(
            "embedding_bag",
            move |x| vec![embedding_bag(beside(x, ids), &x[0], bag)],
            move |x| {
                let w = x[0].to_vec::<f64>();
                let y = ids.iter().flat_map(|ids| {
                    let w = &w;
                    (0..2).map(move |column| fold(ids.map(|id| w[id as usize * 2 + column])))
                });
                vec![Array::from_vec(y.collect(), [2, 2])]
            },
        )
        .input([4, 2], -1.0..1.0)
    };
    vec![
        sample(Bag::Mean, |x| x.iter().sum::<f64>() / 3.0),
        sample(Bag::Sum, |x| x.iter().sum()),
        sample(Bag::Max, |x| x.into_iter().fold(f64::MIN, f64::max)),
    ]
}
