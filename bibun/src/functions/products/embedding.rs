//! Lookup of rows of a table.

use crate::call::composite;
use crate::functions::{expand_dims, not_equal, take, to_indices, where_};
use crate::variable::Variable;

/// Returns row `ids[i]` of a table for each id; zeros, and no gradient, where the id is `padding`.
///
/// Shapes: ids any `[i..]`, w `[n, d..]` → `[i.., d..]`.
/// Types: ids integers, w all. `padding` need not be a row of the table (it may be -1); other
/// negative ids count from the end, as in [`take`].
/// Gradient: `gy`, added up in the selected rows; ids have none.
///
/// # Panics
/// Panics if ids are not integers, an id is outside of the table, or w is a scalar.
///
/// ```
/// use bibun::{functions::embedding, Variable};
/// let w = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = embedding([1i64, -1, 1], &w, Some(-1));
/// assert_eq!(y.to_vec::<f64>(), [3.0, 4.0, 0.0, 0.0, 3.0, 4.0]);
/// y.sum(..).backward();
/// assert_eq!(w.grad().unwrap().to_vec::<f64>(), [0.0, 0.0, 2.0, 2.0]);
/// ```
#[track_caller]
pub fn embedding(
    ids: impl Into<Variable>,
    w: impl Into<Variable>,
    padding: Option<i64>,
) -> Variable {
    let _whole = composite("embedding");
    let (ids, w) = (to_indices(ids), w.into());
    let Some(padding) = padding else {
        return take(w, ids, 0);
    };
    let row_rank = w.rank().saturating_sub(1);
    let mut is_row = not_equal(&ids, padding);
    let rows = take(w, where_(&is_row, ids, 0), 0);
    for _ in 0..row_rank {
        is_row = expand_dims(is_row, -1);
    }
    where_(is_row, rows, 0)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::{Array, Shape};
    let sample = |ids: &'static [i64], picked: Shape, w: Shape, padding: Option<i64>| {
        let shape = picked.clone();
        let call = move |x: &[Variable]| {
            let ids = Array::from_slice(ids, &shape);
            vec![embedding(beside(x, ids), &x[0], padding)]
        };
        let expected = move |x: &[Array]| {
            let (w, width) = (x[0].to_vec::<f64>(), x[0].shape()[1..].iter().product());
            let rows = ids.iter().flat_map(|&id| match Some(id) == padding {
                true => vec![0.0; width],
                false => w[id as usize * width..][..width].to_vec(),
            });
            let shape: Shape = picked.iter().chain(&x[0].shape()[1..]).copied().collect();
            vec![Array::from_vec(rows.collect(), shape)]
        };
        Sample::new("embedding", call, expected).input(w, -2.0..2.0)
    };
    vec![
        sample(&[2, 0, 2], 3.into(), [3, 2].into(), None),
        sample(&[2, 0, 1, 2], [2, 2].into(), [3, 2].into(), Some(2)),
        sample(&[-1, 0], 2.into(), [1, 2, 3].into(), Some(-1)),
        sample(&[1, 0], 2.into(), 3.into(), Some(0)),
    ]
}
