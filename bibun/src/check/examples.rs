//! Checks the per-example walk against a loop over the losses.

use bibun_array::{Array, DType, Generator, Index, stack};

use super::{Argument, Call, GradientError, floats, index_of, normal_like};
use crate::error::{Error, attempt};
use crate::functions::{moveaxis, slice, sum};
use crate::reverse::gradients;
use crate::transformations::{PerExample, per_example};
use crate::variable::Variable;

/// Returns the difference allowed between two ways of computing the same values of these arguments, as a fraction
/// of the largest.
fn rounding(arguments: &[Argument]) -> f64 {
    let of_each = arguments.iter().map(|x| match x.value.dtype() {
        DType::F16 => 2f64.powi(-8),
        DType::BF16 => 2f64.powi(-5),
        _ => 1e-10,
    });
    of_each.fold(0.0, f64::max)
}

/// Compares the gradients of the per-example walk, for examples along `axis` of each output of `f`,
/// with those of one loss at a time: the rows, and all results that are computed without them. A
/// refusal is correct where examples are mixed, and only there.
pub(crate) fn check_examples(
    f: Call<'_>,
    arguments: &[Argument],
    axis: isize,
    generator: &mut Generator,
) -> Result<(), GradientError> {
    let failed = |source| GradientError::Failed { order: 1, source };
    let rounding = rounding(arguments);
    let leaves: Vec<Variable> = (arguments.iter())
        .map(|argument| Variable::new(argument.value.clone()))
        .collect();
    let outputs = attempt(|| floats(f(&leaves))).map_err(failed)?;
    let w = normal_like(&outputs, generator);
    for (output, (y, w)) in outputs.iter().zip(&w).enumerate() {
        let rank = y.rank() as isize;
        if !(-rank..rank).contains(&axis) || !y.requires_grad() {
            continue;
        }
        let losses = attempt(|| losses_along(y * w, axis)).map_err(failed)?;
        let expected = attempt(|| loop_over(&losses, &leaves)).map_err(failed)?;
        let found = attempt(|| per_example(&losses, &leaves).rows());
        match found {
            Err(source @ Error::MixesExamples { .. }) => {
                let mut seen = expected.iter().any(overlap);
                // A maximum mixes no examples if it selects no element that two of them share.
                for _ in 0..32 {
                    let moved = permuted(&leaves, generator);
                    let rows = attempt(|| {
                        let y = floats(f(&moved)).swap_remove(output);
                        loop_over(&losses_along(y * w, axis), &moved)
                    });
                    seen |= rows.map_err(failed)?.iter().any(overlap);
                }
                match seen {
                    true => continue,
                    false => return Err(failed(source)),
                }
            }
            Err(source) => return Err(failed(source)),
            Ok(found) => {
                for (found, expected) in found.iter().zip(&expected) {
                    let (found, expected) = (found.dtype(), expected.dtype());
                    if found != expected {
                        let what = format!("the rows are {found}, one gradient is {expected}");
                        return Err(failed(Error::argument("per_example", what)));
                    }
                }
                compare("rows", arguments, rounding, &found, &expected)?;
            }
        }
        let factors = normal_like(&[losses.detach()], generator).remove(0);
        let direction = normal_like(&leaves, generator);
        let all = attempt(|| summaries(&per_example(&losses, &leaves), &factors, &direction));
        let references = of_rows(&expected, &factors.array(), &direction);
        for ((what, found), expected) in all.map_err(failed)?.into_iter().zip(references) {
            match found {
                Summary::Each(found) => compare(what, arguments, rounding, &found, &expected)?,
                Summary::One(found) => {
                    let all = [Argument {
                        name: "all inputs".into(),
                        value: found.array(),
                    }];
                    compare(what, &all, rounding, &[found], &expected)?;
                }
            }
        }
    }
    Ok(())
}

/// Sums over all axes but that of the examples.
fn losses_along(y: Variable, axis: isize) -> Variable {
    let y = moveaxis(y, axis, 0);
    let others: Vec<isize> = (1..y.rank() as isize).collect();
    sum(y, &others[..])
}

/// Computes the rows by one ordinary backward walk for each loss.
fn loop_over(losses: &Variable, leaves: &[Variable]) -> Vec<Array> {
    let leaves: Vec<&Variable> = leaves.iter().collect();
    let rows: Vec<Vec<Array>> = (0..losses.size())
        .map(|example| {
            let loss = slice(losses, &[Index::from(example)]);
            let found = gradients(&[&loss], &leaves).into_iter().zip(&leaves);
            found
                .map(|(gradient, x)| match gradient {
                    Some(gradient) => gradient.array(),
                    None => Array::zeros(x.shape(), x.dtype()),
                })
                .collect()
        })
        .collect();
    let row = |i: usize| -> Array {
        let rows: Vec<&Array> = rows.iter().map(|row| &row[i]).collect();
        match rows.is_empty() {
            true => Array::zeros(leaves[i].shape().inserted(0, 0), leaves[i].dtype()),
            false => stack(&rows, 0),
        }
    };
    (0..leaves.len()).map(row).collect()
}

/// Returns the same elements in another order.
fn permuted(x: &[Variable], generator: &mut Generator) -> Vec<Variable> {
    x.iter()
        .map(|x| {
            let order = generator.permutation(x.size());
            let elements = x.array().reshape(x.size()).take(&order, 0);
            Variable::new(elements.reshape(x.shape()))
        })
        .collect()
}

/// Returns whether two examples have a gradient at one element.
fn overlap(rows: &Array) -> bool {
    let here = rows.not_equal(0.0);
    rows.size() > 0 && here.sum(0).max(..).item::<i64>() > 1
}

/// A result that is computed without rows, for each argument or for all together.
enum Summary {
    Each(Vec<Variable>),
    One(Variable),
}

fn summaries(
    gradients: &PerExample<'_, Vec<Variable>>,
    factors: &Variable,
    direction: &Vec<Variable>,
) -> Vec<(&'static str, Summary)> {
    vec![
        ("layer_norms", Summary::Each(gradients.layer_norms())),
        ("sum", Summary::Each(gradients.sum())),
        (
            "weighted_sum",
            Summary::Each(gradients.weighted_sum(factors)),
        ),
        ("second_moment", Summary::Each(gradients.second_moment())),
        ("norms", Summary::One(gradients.norms())),
        ("dot", Summary::One(gradients.dot(direction))),
        ("gram", Summary::One(gradients.gram())),
    ]
}

/// Computes the same results from rows.
fn of_rows(rows: &[Array], factors: &Array, direction: &[Variable]) -> Vec<Vec<Array>> {
    let count = factors.size();
    let wide = |x: &Array| x.cast(DType::F64);
    let rows: Vec<Array> = rows.iter().map(wide).collect();
    let factors = wide(factors);
    let flat: Vec<Array> = rows
        .iter()
        .map(|rows| rows.reshape([count, rows.shape()[1..].iter().product()]))
        .collect();
    let square = |x: &Array| x * x;
    let each = |f: &dyn Fn(&Array) -> Array| -> Vec<Array> { rows.iter().map(f).collect() };
    let total = |terms: Vec<Array>| -> Vec<Array> {
        let sum = terms.into_iter().reduce(|a, b| a + b);
        sum.into_iter().collect()
    };
    let of_flat = |f: &dyn Fn(&Array) -> Array| total(flat.iter().map(f).collect());
    let squares: Vec<Array> = flat.iter().map(|x| square(x).sum(1)).collect();
    let dots = flat.iter().zip(direction);
    let dots = dots.map(|(x, v)| bibun_array::matmul(x, &wide(&v.array()).reshape(v.size())));
    let weighted = |x: &Array| {
        let mut along = vec![1; x.rank()];
        along[0] = count;
        (x * factors.reshape(along)).sum(0)
    };
    let mean = |x: &Array| square(x).sum(0) / count.max(1) as f64;
    vec![
        squares
            .iter()
            .map(|x| bibun_array::ops::sqrt(x.clone()))
            .collect(),
        each(&|x| x.sum(0)),
        each(&weighted),
        each(&mean),
        total(squares)
            .into_iter()
            .map(bibun_array::ops::sqrt)
            .collect(),
        total(dots.collect()),
        of_flat(&|x| bibun_array::matmul(x, &x.transpose())),
    ]
}

fn compare(
    what: &'static str,
    arguments: &[Argument],
    rounding: f64,
    found: &[Variable],
    expected: &[Array],
) -> Result<(), GradientError> {
    for ((argument, found), expected) in arguments.iter().zip(found).zip(expected) {
        let (shape, values) = (found.shape(), found.to_vec::<f64>());
        // What is beyond the range of the dtype is infinite.
        let reference = expected.cast(found.dtype()).to_vec::<f64>();
        let finite = reference.iter().filter(|x| x.is_finite());
        let largest = finite.fold(1.0f64, |size, x| size.max(x.abs()));
        let allowed = largest * rounding;
        let same = |a: f64, b: f64| a == b || (a - b).abs() <= allowed || a.is_nan() && b.is_nan();
        let wrong = values
            .iter()
            .zip(&reference)
            .position(|(&a, &b)| !same(a, b));
        if shape != *expected.shape() || wrong.is_some() {
            let position = wrong.unwrap_or_default();
            return Err(GradientError::PerExample {
                what,
                argument: argument.name.clone(),
                position: index_of(position, &shape),
                found: values.get(position).copied().unwrap_or(f64::NAN),
                expected: reference.get(position).copied().unwrap_or(f64::NAN),
            });
        }
    }
    Ok(())
}
