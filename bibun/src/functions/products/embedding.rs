//! Lookup of rows of a table.

use bibun_array::{Array, DType};

use crate::call::composite;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule};
use crate::functions::{expand_dims, not_equal, take, to_indices, where_};
use crate::variable::Variable;

/// Returns row `ids[i]` of a table for each id; zeros, and no gradient, where the id is `padding`.
///
/// Shapes: ids any `[i..]`, w `[n, d..]` → `[i.., d..]`.
/// Types: ids integers, w all. `padding` need not be a row of the table (it may be -1). Other negative ids are refused,
/// where [`take`] counts them from the end.
/// Gradient: `gy`, added up in the selected rows; ids have none.
///
/// # Panics
/// Panics if ids are not integers, the table has no row for an id, or w is a scalar.
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
        return rows(w, ids);
    };
    let row_rank = w.rank().saturating_sub(1);
    let mut is_row = not_equal(&ids, padding);
    let rows = rows(w, where_(&is_row, ids, 0));
    for _ in 0..row_rank {
        is_row = expand_dims(is_row, -1);
    }
    where_(is_row, rows, 0)
}

#[track_caller]
fn rows(w: Variable, ids: Variable) -> Variable {
    let is_table = w.rank() > 0 && ids.dtype() == DType::I64;
    let ids = match is_table {
        true => {
            let count = w.shape()[0];
            Discrete::of(Ids { count }, [ids])
        }
        // Its message is about these.
        false => ids,
    };
    take(w, ids, 0)
}

/// Numbers of rows, after a check of them.
#[derive(Clone, Debug)]
struct Ids {
    count: usize,
}

impl DiscreteRule for Ids {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "ids"
    }

    fn shape(&self, [ids]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(ids.clone())
    }

    fn forward(&self, [ids]: [Array; 1]) -> Array {
        let count = self.count;
        ids.expect_between("embedding", 0..count as i64, move |id| {
            format!("there is no row {id} among {count} (`padding` of `embedding` leaves one out)")
        });
        ids
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Shape;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn negative_ids_name_no_rows() {
        let w = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        let refused = |ids: [i64; 2], padding: Option<i64>| {
            let error = attempt(|| embedding(ids, &w, padding))
                .unwrap_err()
                .to_string();
            assert!(error.contains(file!()), "{error}");
            error
        };
        let error = refused([1, -1], None);
        let expected = "embedding: there is no row -1 among 2 (`padding` of `embedding` leaves one out); it is element 1";
        assert!(error.starts_with(expected), "{error}");
        assert!(refused([-2, -1], Some(-1)).contains("no row -2"));
        assert!(refused([2, 0], Some(0)).contains("no row 2"));
        let none = embedding(Array::zeros([0, 3], DType::I64), &w, None);
        assert_eq!(none.shape(), [0, 3, 2]);
    }
}
