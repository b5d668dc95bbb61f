//! The check of batches: `vmap` against a loop.

use bibun_array::{Array, DType, Generator};

use super::{Argument, Call, GradientError, index_of, normal_like, pull};
use crate::error::attempt;
use crate::functions::stack;
use crate::transformations::vmap;
use crate::variable::Variable;

/// The number of examples in a batch.
const EXAMPLES: usize = 3;

/// Checks the results and the gradients of a batch against those of its examples, each by itself.
pub(super) fn check_batches(
    f: Call<'_>,
    arguments: &[Argument],
    generator: &mut Generator,
) -> Result<(), GradientError> {
    let failed = |source| GradientError::Failed { order: 1, source };
    let near = |x: &Array, generator: &mut Generator| {
        let noise = generator.normal(x.shape(), 0.0, 1e-3, DType::F64);
        Variable::constant(x + &noise)
    };
    let examples: Vec<Vec<Variable>> = (0..EXAMPLES)
        .map(|_| {
            let values = arguments.iter().map(|argument| &argument.value);
            values.map(|x| near(x, generator)).collect()
        })
        .collect();
    let y = attempt(|| f(&examples[0])).map_err(failed)?;
    let w = normal_like(&y, generator);
    let gradients = |x: &[Variable]| pull(f, x, &w, false);
    let name = |i: usize| arguments[i].name.clone();
    let functions: [(Call<'_>, &dyn Fn(usize) -> String); 2] = [
        (f, &|i| format!("output {i}")),
        (&gradients, &|i| format!("the gradient of {}", name(i))),
    ];
    for (f, called) in functions {
        let batch: Vec<Variable> = (0..arguments.len())
            .map(|i| stack(examples.iter().map(|x| &x[i]), 0))
            .collect();
        let all = attempt(|| vmap(|x: &Vec<Variable>| f(x), &batch)).map_err(failed)?;
        let each: Vec<Vec<Variable>> = (examples.iter())
            .map(|x| attempt(|| f(x)))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        for (i, all) in all.iter().enumerate() {
            let expected = stack(each.iter().map(|y| &y[i]), 0);
            let largest = expected
                .to_vec::<f64>()
                .into_iter()
                .filter(|x| x.is_finite());
            let allowed = 1e-9 * largest.fold(1.0, |most, x| x.abs().max(most));
            let pairs = all
                .to_vec::<f64>()
                .into_iter()
                .zip(expected.to_vec::<f64>());
            let same =
                |a: f64, b: f64| a == b || (a - b).abs() <= allowed || a.is_nan() && b.is_nan();
            for (position, (found, expected)) in pairs.enumerate() {
                if !same(found, expected) {
                    return Err(GradientError::Batch {
                        what: called(i),
                        position: index_of(position, &all.shape()),
                        found,
                        expected,
                    });
                }
            }
        }
    }
    Ok(())
}
