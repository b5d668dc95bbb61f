//! Per-example gradients against a loop over single examples: for every link, through everything
//! that other libraries get wrong, and with what must be refused.

use bibun::array::{Array, DType, Generator};
use bibun::functions::*;
use bibun::links::*;
use bibun::{
    Error, GradOptions, PerExample, Rows, Rules, Tree, Variable, attempt, checkpoint, clip_factors,
    custom_gradient, grad, gradients, per_example, per_example_with, s, vmap,
};

fn normal(seed: u64, shape: impl Into<bibun::array::Shape>) -> Array {
    Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64)
}

fn weight(seed: u64, shape: impl Into<bibun::array::Shape>) -> Variable {
    Variable::new(normal(seed, shape))
}

fn data(seed: u64, shape: impl Into<bibun::array::Shape>) -> Variable {
    Variable::constant(normal(seed, shape))
}

fn close(found: &Array, expected: &Array, tolerance: f64) {
    assert_eq!(found.shape(), expected.shape());
    let (found, expected) = (
        found.cast(DType::F64).to_vec::<f64>(),
        expected.cast(DType::F64).to_vec::<f64>(),
    );
    let size = expected.iter().fold(1e-3f64, |size, x| size.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{i}: {a} is not {b}");
    }
}

fn leaves<T: Tree>(tree: &T) -> Vec<Array> {
    let mut leaves = Vec::new();
    tree.visit(&mut bibun::Visitor::new(&mut |_, x, role| {
        if role != bibun::Role::Buffer {
            leaves.push(x.array());
        }
    }));
    leaves
}

/// Rows, and what is made without them, against the rows of a reference.
fn agree<T: Tree>(found: &PerExample<'_, T>, expected: &[Array], tolerance: f64) {
    let n = found.count();
    let rows = leaves(&found.rows());
    assert_eq!(rows.len(), expected.len());
    for (rows, expected) in rows.iter().zip(expected) {
        close(rows, expected, tolerance);
    }
    let flat = |x: &Array| {
        x.reshape([n, x.shape()[1..].iter().product()])
            .cast(DType::F64)
    };
    let squares: Vec<Array> = expected.iter().map(|x| flat(x).clone()).collect();
    let squares = squares.iter().map(|x| (x * x).sum(1));
    let norms = squares.reduce(|a, b| a + b).expect("parameters");
    let norms = Variable::constant(norms).sqrt().array();
    close(&found.norms().array(), &norms, tolerance);
    let c = Generator::new(1).normal([n], 0.0, 1.0, rows[0].dtype());
    let weighted = leaves(&found.weighted_sum(&Variable::constant(c.clone())));
    for (found, rows) in weighted.iter().zip(expected) {
        let mut along = vec![1; rows.rank()];
        along[0] = n;
        close(found, &(rows * &c.reshape(along)).sum(0), tolerance * 10.0);
    }
    for (found, rows) in leaves(&found.second_moment()).iter().zip(expected) {
        close(
            found,
            &((rows * rows).sum(0) / n.max(1) as f64),
            tolerance * 10.0,
        );
    }
    let gram = expected.iter().map(|x| {
        let x = flat(x);
        bibun::array::matmul(&x, &x.transpose())
    });
    let gram = gram.reduce(|a, b| a + b).expect("parameters");
    close(&found.gram().array(), &gram, tolerance);
}

/// A model on single examples, one after the other: `f` is given example `i` as a batch of one.
fn looped<T: Tree>(n: usize, model: &T, f: impl Fn(&T, usize) -> Variable) -> Vec<Array> {
    let each: Vec<Vec<Array>> = (0..n)
        .map(|i| leaves(&grad(|model: &T| f(model, i).sum(..), model)))
        .collect();
    let parameters = leaves(model);
    let rows = |p: usize| {
        let rows: Vec<&Array> = each.iter().map(|row| &row[p]).collect();
        match rows.is_empty() {
            true => Array::zeros(parameters[p].shape().inserted(0, 0), parameters[p].dtype()),
            false => bibun::array::stack(&rows, 0),
        }
    };
    (0..parameters.len()).map(rows).collect()
}

/// A batch at once against batches of one.
fn like_single_examples<T: Tree>(
    model: &T,
    x: &Variable,
    f: impl Fn(&T, &Variable) -> Variable,
    tolerance: f64,
) {
    let n = x.shape()[0];
    let losses = |model: &T, x: &Variable| {
        let y = f(model, x);
        let rest: Vec<isize> = (1..y.rank() as isize).collect();
        // Every output element counts, with a weight of its own.
        let along = y.shape().replaced(0, 1);
        let weights = Generator::new(9).normal(along, 0.0, 1.0, y.dtype());
        (y * Variable::constant(weights)).sum(&rest[..])
    };
    let one = |model: &T, i: usize| {
        let i = i as isize;
        losses(model, &x.slice(s![i..i + 1]))
    };
    let found = losses(model, x);
    agree(
        &per_example(&found, model),
        &looped(n, model, one),
        tolerance,
    );
}
