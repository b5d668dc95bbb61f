//! Every function with inputs of another dtype or shape: it computes, or it refuses them by an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bibun_array::{Array, DType, Generator, Index, concat};

use super::{Sample, Verdict};
use crate::{Variable, attempt};

/// An array in several dtypes and shapes in which it was not meant to be.
fn misfits(x: &Array) -> Vec<(String, Array)> {
    let dtypes = [DType::C128, DType::F16, DType::I64, DType::U8, DType::Bool];
    let cast = |dtype: DType| (format!("as {dtype}"), x.cast(dtype));
    let mut all: Vec<(String, Array)> = dtypes.map(cast).into();
    all.push(("with one axis more".into(), x.expand_dims(0)));
    let wide = (0..3).fold(x.clone(), |x, _| x.expand_dims(0));
    all.push(("with three axes more".into(), wide));
    for axis in (0..x.rank()).filter(|&axis| x.shape()[axis] > 0) {
        let along = |range: std::ops::Range<isize>| {
            let mut index = vec![Index::from(..); axis];
            index.push(range.into());
            x.slice(&index)
        };
        let first = along(0..1);
        let longer = concat(&[x, &first], axis as isize);
        let without = first.squeeze(&[axis as isize]);
        all.extend([
            (format!("without axis {axis}"), without),
            (format!("with one element along axis {axis}"), first),
            (format!("with none along axis {axis}"), along(0..0)),
            (format!("with one more along axis {axis}"), longer),
        ]);
    }
    all
}

pub(super) fn misfits_are_computed_or_refused(sample: &Sample) -> Verdict {
    let point = sample.draw(&mut Generator::new(5));
    for (i, x) in point.iter().enumerate() {
        for (what, misfit) in misfits(x) {
            let mut inputs: Vec<Variable> = point.iter().map(Variable::constant).collect();
            inputs[i] = Variable::constant(misfit);
            let call = AssertUnwindSafe(|| attempt(|| (sample.call)(&inputs)));
            let answer = catch_unwind(call);
            if answer.is_err() {
                return Err(format!("input {i} {what}: a panic that is no error"));
            }
        }
    }
    Ok(())
}
