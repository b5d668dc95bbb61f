//! Indices that a program or a batch is given, and sizes that only values tell.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{
    Combine, bincount, bucketize, cummax, gather, histogram, index_copy, masked_scatter,
    masked_select, median, mode, repeat_interleave, scatter_reduce, searchsorted, segment_max,
    segment_mean, segment_prod, unique,
};
use bibun::{Variable, at, attempt, compile, grad, jvp, per_example, vmap};

fn normal(shape: &[usize], seed: u64) -> Variable {
    let shape = bibun::array::Shape::new(shape);
    Variable::constant(Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64))
}

fn integers(size: i64, shape: &[usize], seed: u64) -> Variable {
    let shape = bibun::array::Shape::new(shape);
    Variable::constant(Generator::new(seed).integers(-size, size, shape))
}

const COMBINES: [Combine; 6] = [
    Combine::Replace,
    Combine::Sum,
    Combine::Product,
    Combine::Mean,
    Combine::Max,
    Combine::Min,
];

/// What is computed with the same indices, as numbers and gradients.
fn computed((x, value, t): &(Variable, Variable, Variable)) -> Vec<Variable> {
    let mut all = Vec::new();
    for combine in COMBINES {
        let f = |(x, value): &(Variable, Variable)| {
            let part = x.index_put_with(at![t.slice(bibun::s![.., new]), [1, 0]], value, combine);
            let rows = scatter_reduce(x, t.slice(bibun::s![.., new]), 0, 0.5, combine, true);
            (part.sin() + rows.cos()).sum(..)
        };
        let (gx, gvalue) = grad(f, &(x.clone(), value.clone()));
        all.extend([gx, gvalue]);
    }
    all.push(x.index(at![t, new, 0]));
    all.push(gather(x, t.slice(bibun::s![.., new]), 0));
    all.push(index_copy(x, t, 0, 0.0));
    all.push(masked_scatter(x, x.greater(0.0), value.tile(&[2])));
    all.push(searchsorted(x.slice(bibun::s![0]).sort(0), x, true));
    all.push(bucketize(x, [-1.0, 0.0, 1.0], false));
    all.push(histogram(x, 3).0);
    all.push(bincount(t.remainder(5), None, Some(5)));
    all.push(segment_mean(x, t.slice(bibun::s![..2]).remainder(3), 3));
    all.push(segment_prod(x, t.slice(bibun::s![..2]).remainder(2), 2));
    all.push(cummax(x, 1).0);
    all.extend([median(x, 1), mode(x, 1).0]);
    all
}

fn arguments(seed: u64) -> (Variable, Variable, Variable) {
    let (x, value) = (normal(&[2, 4], seed), normal(&[3, 2], seed + 1));
    (x, value, integers(2, &[3], seed + 2))
}

#[test]
fn indices_are_arguments_of_programs() {
    let f = compile(computed);
    for seed in [1, 5, 9] {
        f.check(&arguments(seed)).unwrap();
    }
    assert_eq!(f.traces(), 1);
}

#[test]
fn indices_differ_between_batch_elements() {
    let seeds = [1, 5, 9];
    let all = seeds.map(arguments);
    let stacked = |of: fn(&(Variable, Variable, Variable)) -> &Variable| {
        bibun::functions::stack(all.iter().map(of).collect::<Vec<_>>(), 0)
    };
    let batch = (stacked(|a| &a.0), stacked(|a| &a.1), stacked(|a| &a.2));
    let together = vmap(computed, &batch);
    for (l, argument) in all.iter().enumerate() {
        for (all, one) in together.iter().zip(computed(argument)) {
            let all = all.slice(bibun::s![l]).cast(DType::F64).to_vec::<f64>();
            let one = one.cast(DType::F64).to_vec::<f64>();
            assert_eq!(all.len(), one.len());
            for (a, b) in all.iter().zip(&one) {
                // The mean of no slice is NaN.
                let same = (a - b).abs() < 1e-12 || a == b || a.is_nan() && b.is_nan();
                assert!(same, "{a} {b}");
            }
        }
    }
}

#[test]
fn sizes_that_values_tell_are_not_traced() {
    let refused = |f: fn(&Variable) -> Variable| {
        let x = Variable::constant([1i64, 0, 2]);
        let traced = attempt(|| compile(f).call(&x))
            .expect_err("a refusal")
            .to_string();
        let batch = Variable::constant([[1i64, 0], [2, 2]]);
        let mapped = attempt(|| vmap(f, &batch))
            .expect_err("a refusal")
            .to_string();
        // A single batch, a tangent and a loss of the values have a size.
        f(&x);
        jvp(
            |x| f(&x.cast(DType::I64)),
            &normal(&[3], 1).abs(),
            &normal(&[3], 2),
        );
        (traced, mapped)
    };
    type Unary = fn(&Variable) -> Variable;
    let functions: [(Unary, &str); 5] = [
        (|x| x.nonzero(), "nonzero"),
        (|x| masked_select(x, x.greater(0)), "nonzero"),
        (|x| unique(x).0, "nonzero"),
        (|x| bincount(x, None, None), "bincount"),
        (|x| repeat_interleave(x, x, 0), "repeat_interleave"),
    ];
    for (f, name) in functions {
        let (traced, mapped) = refused(f);
        for text in [traced, mapped] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
}

#[test]
fn gradients_of_examples_with_their_own_indices() {
    let (table, t) = (normal(&[5, 3], 1), integers(5, &[4, 2], 2));
    let columns = Variable::constant([[0i64], [2]]);
    let value = normal(&[4, 3], 3);
    type Losses<'a> = Box<dyn Fn(&Variable) -> Variable + 'a>;
    let functions: [Losses<'_>; 2] = [
        Box::new(|table| {
            table
                .index(at![&t, columns.slice(bibun::s![.., 0])])
                .square()
                .sum(1)
        }),
        Box::new(|table| {
            let y = value.index_put_with(
                at![.., 1],
                table.index(at![t.slice(bibun::s![.., 0]), 1]),
                Combine::Max,
            );
            y.square().sum(1)
        }),
    ];
    for (which, losses) in functions.iter().enumerate() {
        let leaf = Variable::new(table.array());
        let found = per_example(&losses(&leaf), &leaf).rows().to_vec::<f64>();
        let one =
            |i: usize| grad(|table| losses(table).slice(bibun::s![i]), &table).to_vec::<f64>();
        let expected: Vec<f64> = (0..4usize).flat_map(one).collect();
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-12, "function {which}: {a} {b}");
        }
    }
}

#[test]
fn layouts_and_dtypes() {
    let x = Array::arange(0, 24).reshape([2, 3, 4]);
    for x in [
        x.clone(),
        x.permute(&[2, 0, 1]).to_row_major().permute(&[1, 2, 0]),
        x.flip(&[-1]).flip(&[-1]),
    ] {
        for dtype in [
            DType::U8,
            DType::I32,
            DType::I64,
            DType::BF16,
            DType::F16,
            DType::F32,
            DType::F64,
        ] {
            let x = Variable::constant(x.cast(dtype));
            let picked = x.index(at![[1, 0], .., [3, -1]]);
            assert_eq!(picked.dtype(), dtype);
            assert_eq!(
                picked.cast(DType::I64).to_vec::<i64>(),
                [15, 19, 23, 3, 7, 11]
            );
            for combine in COMBINES {
                let y = x.index_put_with(at![[1, 1], 0, [0, 0]], [2u8, 5], combine);
                let own = y.index(at![1, 0, 0]).cast(DType::F64).item::<f64>();
                let expected = match combine {
                    Combine::Replace => 5.0,
                    Combine::Sum => 19.0,
                    Combine::Product => 120.0,
                    Combine::Mean => 19.0 / 3.0,
                    Combine::Max => 12.0,
                    Combine::Min => 2.0,
                };
                assert!(
                    (own - expected).abs() < 0.05,
                    "{combine:?} of {dtype}: {own}"
                );
                let is_float = combine == Combine::Mean && !dtype.is_float();
                assert_eq!(y.dtype(), if is_float { DType::F64 } else { dtype });
            }
        }
    }
}

#[test]
fn extremes_that_many_halves_reach_share_equally() {
    const COUNT: usize = 70_000;
    for dtype in [DType::F16, DType::BF16] {
        let x = Variable::new(Array::ones([COUNT], dtype));
        let ids = Variable::constant(Array::zeros([COUNT], DType::I64));
        let y = |x: &Variable| segment_max(x, &ids, 1);
        let total = y(&x).sum(..) * (COUNT as f64 / 2.0);
        total.backward();
        let gx = x.grad().unwrap().array().cast(DType::F64);
        assert_eq!(
            [gx.min(..), gx.max(..)].map(|gx| gx.item::<f64>()),
            [0.5; 2]
        );
        let (_, dy) = jvp(y, &x, &Variable::constant(Array::ones([COUNT], dtype)));
        assert_eq!(dy.array().cast(DType::F64).to_vec::<f64>(), [1.0]);
    }
}
