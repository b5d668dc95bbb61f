//! Collectives as functions: linear maps of the values of all processes, with all their rules.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{
    all_gather, all_reduce, all_to_all, broadcast, receive, reduce, reduce_scatter, send,
};
use bibun::parallel::{Communicator, local};
use bibun::{
    GradOptions, Spec, Variable, VmapOptions, compile, gradients_with, jvp, vjp, vmap, vmap_with,
};

type Call = fn(&Variable, &Communicator) -> Variable;

/// Each function, and one from messages: everybody's x goes one further in a ring.
const CALLS: [(&str, Call); 7] = [
    ("all_reduce", |x, all| all_reduce(x, all)),
    ("all_gather", |x, all| all_gather(x, all)),
    ("reduce_scatter", |x, all| reduce_scatter(x, all)),
    ("all_to_all", |x, all| all_to_all(x, all)),
    ("broadcast", |x, all| broadcast(x, all.size() - 1, all)),
    ("reduce", |x, all| reduce(x, all.size() / 2, all)),
    ("ring", ring),
];

fn ring(x: &Variable, all: &Communicator) -> Variable {
    if all.size() == 1 {
        return x.clone();
    }
    let zero = send(x, (all.rank() + 1) % all.size(), all);
    let before = (all.rank() + all.size() - 1) % all.size();
    // Half of them know only by the zero that something went out.
    receive(x, x.spec(), before, all) + zero
}

fn of_rank(rank: usize, seed: u64, shape: &[usize]) -> Array {
    let mut random = Generator::new(seed).split(rank as u64);
    random.normal(shape, 0.0, 1.0, DType::F64)
}

/// Calls `f` in every group of 1 to 4 processes, with every function and a shape that fits it.
fn for_each(f: impl Fn(&str, Call, &Communicator, &[usize]) + Sync) {
    for count in 1..=4 {
        local::run(count, |world| {
            for (name, call) in CALLS {
                f(name, call, &world, &[2 * count, 3]);
            }
        });
    }
}

/// The sum of a number over all processes.
fn total(world: &Communicator, own: f64) -> f64 {
    world.all_reduce(&Array::from(own)).item::<f64>()
}

fn dot(a: &Array, b: &Array) -> f64 {
    (a * b).sum(..).item::<f64>()
}

#[test]
fn the_gradient_is_the_transpose_over_all_processes() {
    for_each(|name, call, world, shape| {
        let x = Variable::constant(of_rank(world.rank(), 1, shape));
        let (y, back) = vjp(|x| call(x, world), &x);
        let w = of_rank(world.rank(), 2, &y.shape());
        let v = of_rank(world.rank(), 3, shape);
        let gx = back.call(&Variable::constant(&w)).array();
        let (_, dy) = jvp(|x| call(x, world), &x, &Variable::constant(&v));
        let (ahead, behind) = (dot(&w, &dy.array()), dot(&gx, &v));
        let (ahead, behind) = (total(world, ahead), total(world, behind));
        assert!(
            (ahead - behind).abs() < 1e-10 * (1.0 + ahead.abs()),
            "{name}: {ahead} {behind}"
        );
        assert!(ahead.abs() > 1e-3, "{name}: a test of nothing");
    });
}

/// The sum of cubes of the results, whose derivatives are not constant.
fn loss(call: Call, x: &Variable, world: &Communicator) -> Variable {
    let y = call(x, world);
    (&y * &y * &y).sum(..)
}

#[test]
fn derivatives_agree_with_differences() {
    for_each(|name, call, world, shape| {
        let (x, v) = (
            of_rank(world.rank(), 1, shape),
            of_rank(world.rank(), 2, shape),
        );
        let value = |t: f64| {
            let x = Variable::constant(&x + &(&v * &Array::from(t)));
            total(world, loss(call, &x, world).item::<f64>())
        };
        let gradient = |t: f64| {
            let leaf = Variable::new(&x + &(&v * &Array::from(t)));
            loss(call, &leaf, world).backward();
            leaf.grad().expect("a gradient").array()
        };
        let step = 1e-5;
        let expected = (value(step) - value(-step)) / (2.0 * step);
        let found = total(world, dot(&gradient(0.0), &v));
        assert!(
            (found - expected).abs() < 1e-5 * (1.0 + expected.abs()),
            "{name}: {found} {expected}"
        );
        // And again: the second derivative along v, by a walk over the walk.
        let expected = (gradient(step) - gradient(-step)) * Array::from(0.5 / step);
        let leaf = Variable::new(&x);
        let first = loss(call, &leaf, world);
        let options = GradOptions::new().create_graph();
        let first = gradients_with(&[&first], &[&leaf], options)
            .remove(0)
            .expect("a gradient");
        let along = (first * Variable::constant(&v)).sum(..);
        let second = gradients_with(&[&along], &[&leaf], GradOptions::new()).remove(0);
        let second = second.expect("a gradient").array();
        let error = (&second - &expected).abs().max(..).item::<f64>();
        assert!(error < 1e-4, "{name}: {error}");
    });
}

#[test]
fn batches_are_loops() {
    for_each(|name, call, world, shape| {
        let whole: Vec<usize> = [&[3], shape].concat();
        let x = Variable::constant(of_rank(world.rank(), 1, &whole));
        let element = |i: usize| call(&Variable::constant(x.array().slice(&[i.into()])), world);
        for axis in 0..3isize {
            let moved = Variable::constant(x.array().moveaxis(0, axis));
            let y = vmap_with(|x| call(x, world), &moved, VmapOptions::new().in_axes(axis));
            for i in 0..3 {
                let expected = element(i);
                let found = y.array().slice(&[i.into()]);
                assert!(
                    found.has_same_bits(&expected.array()),
                    "{name}, axis {axis}"
                );
            }
        }
        let gradients = vmap(|x| bibun::grad(|x| loss(call, x, world), x), &x);
        for i in 0..3 {
            let own = Variable::constant(x.array().slice(&[i.into()]));
            let expected = bibun::grad(|x| loss(call, x, world), &own).array();
            let error = (gradients.array().slice(&[i.into()]) - expected)
                .abs()
                .max(..);
            assert!(error.item::<f64>() < 1e-12, "{name}");
        }
    });
}

#[test]
fn compiled_calls_communicate_in_every_run() {
    for_each(|name, call, world, shape| {
        let compiled = {
            let world = world.clone();
            compile(move |x: &Variable| bibun::grad(|x| loss(call, x, &world), x))
        };
        for seed in 1..4 {
            let x = Variable::constant(of_rank(world.rank(), seed, shape));
            let expected = bibun::grad(|x| loss(call, x, world), &x);
            let found = compiled.call(&x);
            assert!(found.array().has_same_bits(&expected.array()), "{name}");
        }
    });
}

#[test]
fn halves_and_other_layouts() {
    for_each(|name, call, world, shape| {
        let x = of_rank(world.rank(), 1, &[shape[1], shape[0]]);
        let x = x.cast(DType::BF16).transpose();
        let (expected, found) = (x.to_row_major(), x);
        let [expected, found] =
            [expected, found].map(|x| call(&Variable::constant(x), world).array());
        assert!(found.has_same_bits(&expected), "{name}");
        assert_eq!(found.dtype(), DType::BF16);
    });
}

#[test]
fn examples_at_the_same_place_are_the_same() {
    local::run(2, |world| {
        // Half of the features on each process, all examples on both.
        let w = Variable::new(of_rank(world.rank(), 1, &[3, 2]));
        let x = Variable::constant(of_rank(world.rank(), 2, &[4, 3]));
        let losses = || {
            let y = all_reduce(x.matmul(&w), &world);
            (&y * &y).sum(1) / world.size() as f64
        };
        let rows = bibun::per_example(&losses(), &w);
        let squares = rows.norms().square().array();
        for i in 0..4usize {
            w.clear_grad();
            losses().slice(&[i.into()]).backward();
            let own = w.grad().expect("a gradient").square().sum(..).item::<f64>();
            let found = squares.to_vec::<f64>()[i];
            assert!((found - own).abs() < 1e-10 * own, "{found} {own}");
        }
    });
}

#[test]
fn what_does_not_fit_is_named() {
    local::run(2, |world| {
        let refused = |what: &str, f: &dyn Fn() -> Variable| {
            let error = bibun::attempt(f).unwrap_err().to_string();
            assert!(
                error.contains(what) && error.contains("parallel/functions.rs"),
                "{error}"
            );
        };
        let x = Variable::new([1.0, 2.0, 3.0]);
        refused(
            "reduce_scatter: inputs do not fit: x [n, ..] = [3] f64",
            &|| reduce_scatter(&x, &world),
        );
        refused(
            "all_to_all: inputs do not fit: x [n, ..] = [3] f64",
            &|| all_to_all(&x, &world),
        );
        refused("all_gather: inputs do not fit: x [k, ..] = [] f64", &|| {
            all_gather(1.0, &world)
        });
        refused("truths are not added", &|| {
            all_reduce(Variable::constant([true]), &world)
        });
        refused("broadcast: there is no process 2 in a group of 2", &|| {
            broadcast(&x, 2, &world)
        });
        refused("reduce: there is no process 7", &|| reduce(&x, 7, &world));
        refused("send: process", &|| send(&x, world.rank(), &world));
        let spec = Spec::new([1], DType::F64);
        refused("receive: process", &|| {
            receive(&x, spec.clone(), world.rank(), &world)
        });
    });
}
