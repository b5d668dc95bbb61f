//! The laws of transformations, over random functions of random containers.
//!
//! Failing cases are shrunk and kept in `laws.regressions`.

use std::collections::{BTreeMap, HashMap};

use crate::formula::{Formula, Instruction, close, execute, flat, formulae, inner, programs};
use bibun::array::{DType, Generator};
use bibun::functions::{stack, tanh};
use bibun::{
    BatchAxes, Batched, Custom, Mapper, Tree, Variable, Visitor, VmapOptions, checkpoint, custom,
    grad, hessian, hvp, jacobian, jacobian_forward, jacobian_reverse, jvp, linearize,
    stop_gradient, value_and_grad, vjp, vmap, vmap_with,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;

// ----- random containers and functions of them

/// Any form that a container may have.
#[derive(Clone, Debug, Tree)]
enum Random {
    Leaf(Variable),
    Pair(Box<Random>, Box<Random>),
    Triple((Box<Random>, f64, Box<Random>)),
    List(Vec<Random>),
    Two([Box<Random>; 2]),
    Map(BTreeMap<String, Random>),
    Table(HashMap<u8, Random>),
    Maybe(Option<Box<Random>>),
    Struct(Fields),
    Named {
        left: Box<Random>,
        right: Box<Random>,
        note: String,
    },
    Nothing,
}

#[derive(Clone, Debug, Tree)]
struct Fields {
    first: Box<Random>,
    #[tree(skip)]
    skipped: Variable,
    second: Option<Variable>,
    count: usize,
}

fn leaf() -> impl Strategy<Value = Variable> {
    (prop::collection::vec(1usize..4, 0..3), any::<u64>()).prop_map(|(shape, seed)| {
        Generator::new(seed)
            .uniform(shape, -1.0, 1.0, DType::F64)
            .into()
    })
}

fn any_container() -> impl Strategy<Value = Random> {
    let ends = prop_oneof![
        6 => leaf().prop_map(Random::Leaf),
        1 => Just(Random::Nothing),
        1 => Just(Random::Maybe(None)),
    ];
    ends.prop_recursive(3, 6, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), boxed()).prop_map(|(a, b)| Random::Pair(a, b)),
            (boxed(), boxed()).prop_map(|(a, b)| Random::Triple((a, 0.5, b))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Random::List),
            (boxed(), boxed()).prop_map(|(a, b)| Random::Two([a, b])),
            prop::collection::btree_map("[a-c]{1,2}", inner.clone(), 0..4).prop_map(Random::Map),
            prop::collection::hash_map(any::<u8>(), inner.clone(), 0..4).prop_map(Random::Table),
            boxed().prop_map(|a| Random::Maybe(Some(a))),
            (boxed(), leaf(), prop::option::of(leaf())).prop_map(|(first, skipped, second)| {
                let count = 3;
                Random::Struct(Fields {
                    first,
                    skipped,
                    second,
                    count,
                })
            }),
            (boxed(), boxed()).prop_map(|(left, right)| {
                let note = "between".to_owned();
                Random::Named { left, right, note }
            }),
        ]
    })
}

/// A container with a Variable in it.
fn argument() -> impl Strategy<Value = Random> {
    (any_container(), leaf()).prop_map(|(tree, leaf)| match leaves(&tree).len() {
        0 => Random::Pair(Box::new(tree), Box::new(Random::Leaf(leaf))),
        _ => tree,
    })
}

fn leaves<T: Tree>(tree: &T) -> Vec<Variable> {
    let mut leaves = Vec::new();
    tree.visit(&mut Visitor::new(&mut |_, x, _| leaves.push(x.clone())));
    leaves
}

fn names<T: Tree>(tree: &T) -> Vec<String> {
    let mut names = Vec::new();
    tree.visit(&mut Visitor::new(&mut |name, _, _| {
        names.push(name.to_owned())
    }));
    names
}

/// The same container with other leaves.
fn filled<T: Tree>(tree: &T, leaves: &[Variable]) -> T {
    let mut leaves = leaves.iter();
    let mut next = |_: &Variable, _| leaves.next().expect("a leaf").clone();
    tree.map(&mut Mapper::new(&mut next))
}

fn elements<T: Tree>(tree: &T) -> Vec<f64> {
    flat(&leaves(tree))
}

/// Numbers in the shapes of the leaves.
fn like<T: Tree>(tree: &T, seed: u64) -> T {
    let mut generator = Generator::new(seed);
    let mut draw = |x: &Variable, _| generator.normal(x.shape(), 0.0, 1.0, DType::F64).into();
    tree.map(&mut Mapper::new(&mut draw))
}

/// `<w, tanh(y)>`, for what is not linear in y, nor without a second derivative.
fn total<T: Tree>(y: &T, w: &T) -> Variable {
    let products = leaves(y)
        .into_iter()
        .zip(leaves(w))
        .map(|(y, w)| (tanh(y) * w).sum(..));
    products.fold(Variable::constant(0.0), |sum, product| sum + product)
}

/// A function from containers to containers: a program is run on the leaves, and its values are put
/// into the form of the result, the last one first.
#[derive(Clone, Debug)]
struct Case {
    argument: Random,
    program: Vec<Instruction>,
    result: Random,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    (argument(), programs(7), any_container(), any::<u64>()).prop_map(
        |(argument, program, result, seed)| Case {
            argument,
            program,
            result,
            seed,
        },
    )
}

impl Case {
    fn run(&self, x: &Random) -> Random {
        let values = execute(&self.program, &leaves(x));
        let mut values = values.iter().rev().cycle();
        let mut next = |_: &Variable, _| values.next().expect("a value").clone();
        self.result.map(&mut Mapper::new(&mut next))
    }

    /// All values of the program that the result would hold if it were a list.
    fn list(&self, x: &Random) -> Vec<Variable> {
        leaves(&self.run(x))
    }

    /// Random numbers in the shapes of the argument.
    fn tangent(&self, stream: u64) -> Random {
        like(&self.argument, self.seed.wrapping_add(stream))
    }

    /// Random numbers in the shapes of the result.
    fn cotangent(&self, stream: u64) -> Random {
        like(
            &self.run(&self.argument),
            self.seed.wrapping_add(100 + stream),
        )
    }

    /// The result in one number.
    fn loss(&self, x: &Random, w: &Random) -> Variable {
        total(&self.run(x), w)
    }
}

/// A batch of containers: some leaves along random axes, others the same in all.
#[derive(Debug)]
struct Stacked {
    batch: Vec<Random>,
    joined: Random,
    axes: Vec<Option<isize>>,
    in_axes: BatchAxes,
}

impl Stacked {
    /// `picks` chooses an axis for each leaf, of the argument and of the result.
    fn of(argument: &Random, seed: u64, count: usize, picks: &[Index]) -> Self {
        let single = leaves(argument);
        let mut picks = picks.iter().cycle();
        let mut pick = |below: usize| picks.next().expect("a pick").index(below);
        let axes = single.iter().enumerate().map(|(i, x)| {
            // The first leaf always has a batch axis; counted from the front or from the back.
            let batch = i == 0 || pick(3) > 0;
            let axis = pick(2 * (x.rank() + 1)) as isize - (x.rank() as isize + 1);
            batch.then_some(axis)
        });
        let axes: Vec<Option<isize>> = axes.collect();
        let element = |k: usize| {
            let own = leaves(&like(argument, seed.wrapping_add(1000 + k as u64)));
            let choose = |i: usize| axes[i].map_or(&single[i], |_| &own[i]).clone();
            (0..single.len()).map(choose).collect::<Vec<_>>()
        };
        let batch: Vec<Vec<Variable>> = (0..count).map(element).collect();
        let join = |i: usize| match axes[i] {
            None => single[i].clone(),
            Some(axis) => stack(batch.iter().map(|element| &element[i]), axis),
        };
        let joined: Vec<Variable> = (0..single.len()).map(join).collect();
        Self {
            batch: batch
                .iter()
                .map(|element| filled(argument, element))
                .collect(),
            joined: filled(argument, &joined),
            in_axes: BatchAxes::named(names(argument).into_iter().zip(axes.iter().copied())),
            axes,
        }
    }

    /// Results of all batch elements, put together along these axes.
    fn join<T: Tree>(results: &[T], axes: &[isize]) -> Vec<f64> {
        let results: Vec<Vec<Variable>> = results.iter().map(leaves).collect();
        let join = |i: usize| stack(results.iter().map(|y| &y[i]), axes[i]);
        flat(&(0..results[0].len()).map(join).collect::<Vec<_>>())
    }
}

/// What is derived from a function, in numbers.
type Derived<'a, A, Y> = &'a dyn Fn(&dyn Fn(&A) -> Y) -> Vec<f64>;

/// Two functions that shall be one, asked for everything that is derived from them.
fn agree<A: Tree + Clone, Y: Tree>(
    f: impl Fn(&A) -> Y,
    expected: impl Fn(&A) -> Y,
    x: &A,
    seed: u64,
) {
    let f: &dyn Fn(&A) -> Y = &f;
    let expected: &dyn Fn(&A) -> Y = &expected;
    let (u, v, w) = (
        like(x, seed),
        like(x, seed + 1),
        like(&expected(x), seed + 2),
    );
    let same = |what: &str, of: Derived<'_, A, Y>| {
        close(what, &of(f), &of(expected));
    };
    let loss = |f: &dyn Fn(&A) -> Y, x: &A| total(&f(x), &w);
    let dot = |a: &A| {
        let products = leaves(a)
            .into_iter()
            .zip(leaves(&v))
            .map(|(a, v)| (a * v).sum(..));
        products.fold(Variable::constant(0.0), |sum, product| sum + product)
    };
    same("value", &|f| elements(&f(x)));
    same("jvp", &|f| elements(&jvp(f, x, &v)));
    same("vjp", &|f| elements(&vjp(f, x).1.call(&w)));
    same("linearize", &|f| elements(&linearize(f, x).1.call(&v)));
    same("grad", &|f| elements(&grad(|x| loss(f, x), x)));
    same("jvp of grad", &|f| elements(&hvp(|x| loss(f, x), x, &v)));
    same("grad of grad", &|f| {
        elements(&grad(|x| dot(&grad(|x| loss(f, x), x)), x))
    });
    same("grad of jvp", &|f| {
        elements(&grad(|x| jvp(|x| loss(f, x), x, &v).1, x))
    });
    same("jvp of jvp", &|f| {
        elements(&jvp(|x| jvp(f, x, &v).1, x, &u))
    });
    same("grad of linearize", &|f| {
        elements(&grad(|x| total(&linearize(f, x).1.call(&v), &w), x))
    });
    same("third derivative", &|f| {
        elements(&jvp(|x| grad(|x| dot(&grad(|x| loss(f, x), x)), x), x, &u))
    });

    // In a batch: the argument, once more, and something else.
    let batch: Vec<Variable> = (leaves(x).iter().zip(leaves(&u)))
        .map(|(x, u)| stack([x, &(x - 0.5), &u], 0))
        .collect();
    let batch = filled(x, &batch);
    same("vmap", &|f| elements(&vmap(f, &batch)));
    same("vmap of jvp", &|f| {
        elements(&vmap(|x| jvp(f, x, &v).1, &batch))
    });
    same("vmap of vjp", &|f| {
        elements(&vmap(|x| vjp(f, x).1.call(&w), &batch))
    });
    same("vmap of jvp of grad", &|f| {
        elements(&vmap(|x| hvp(|x| loss(f, x), x, &v).1, &batch))
    });
    same("vmap of grad of grad", &|f| {
        elements(&vmap(
            |x| grad(|x| dot(&grad(|x| loss(f, x), x)), x),
            &batch,
        ))
    });
    let in_all = |f: &dyn Fn(&A) -> Y, x: &A| vmap(|x| loss(f, x), x).sum(..);
    same("grad of vmap", &|f| {
        elements(&grad(|x| in_all(f, x), &batch))
    });
    same("jvp of vmap", &|f| {
        elements(&jvp(|x| vmap(f, x), &batch, &like(&batch, seed + 3)))
    });
    same("jvp of grad of vmap", &|f| {
        elements(&hvp(|x| in_all(f, x), &batch, &like(&batch, seed + 3)).1)
    });
    // The tangents differ in a batch, the argument does not.
    same("vmap over tangents", &|f| {
        elements(&vmap(|v| jvp(f, x, v).1, &batch))
    });
    same("vmap over the batch of vmap", &|f| {
        let twice = filled(
            x,
            &leaves(&batch)
                .iter()
                .map(|x| stack([x, x], 1))
                .collect::<Vec<_>>(),
        );
        elements(&vmap(|x| vmap(|x| grad(|x| loss(f, x), x), x), &twice))
    });
}

/// Blocks in a row, as a matrix of rows of these lengths and columns of these.
fn matrix(blocks: &[f64], rows: &[usize], columns: &[usize]) -> Vec<Vec<f64>> {
    let mut matrix = vec![Vec::new(); rows.iter().sum()];
    let mut blocks = blocks.iter().copied();
    let mut start = 0;
    for &height in rows {
        for &width in columns {
            for row in &mut matrix[start..start + height] {
                row.extend(blocks.by_ref().take(width));
            }
        }
        start += height;
    }
    assert!(
        blocks.next().is_none()
            && matrix
                .iter()
                .all(|row| row.len() == columns.iter().sum::<usize>())
    );
    matrix
}

fn sizes<T: Tree>(tree: &T) -> Vec<usize> {
    leaves(tree).iter().map(Variable::size).collect()
}

fn times(matrix: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
    matrix
        .iter()
        .map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum())
        .collect()
}

/// What can be filled with more of itself, for all second derivatives.
type Point = (
    Variable,
    Vec<Variable>,
    BTreeMap<String, [Variable; 1]>,
    Option<Variable>,
);

fn points() -> impl Strategy<Value = Point> {
    let map = prop::collection::btree_map("[a-c]{1,2}", leaf().prop_map(|x| [x]), 0..2);
    (
        leaf(),
        prop::collection::vec(leaf(), 0..3),
        map,
        prop::option::of(leaf()),
    )
}

fn loss_of(program: &[Instruction], x: &Point, seed: u64) -> Variable {
    let values = execute(program, &leaves(x));
    total(&values, &like(&values, seed))
}

/// A function of two inputs, with those of the rules that `rules` has a bit for. The rules are true,
/// and written by transformations of the formula.
fn with_rules(formula: &Formula, rules: u8) -> Custom<2> {
    let run = |formula: &Formula| {
        let formula = formula.clone();
        move |x: &[Variable; 2]| formula.run(x).remove(1)
    };
    let f = run(formula);
    let mut function = custom("formula", move |[a, b]| f(&[a.clone(), b.clone()]));
    if rules & 1 != 0 {
        let f = run(formula);
        function = function.vjp(move |[a, b], _, gy| vjp(&f, &[a.clone(), b.clone()]).1.call(gy));
    }
    if rules & 2 != 0 {
        let f = run(formula);
        function = function.jvp(move |[a, b], _, [da, db]| {
            jvp(&f, &[a.clone(), b.clone()], &[da.clone(), db.clone()]).1
        });
    }
    if rules & 4 != 0 {
        let f = run(formula);
        function = function.batch(move |[a, b]| {
            let axis = |element: &Batched| element.axis.map(|axis| axis as isize);
            let options = VmapOptions::new().in_axes([axis(a), axis(b)]);
            Batched::along(
                vmap_with(&f, &[a.value.clone(), b.value.clone()], &options),
                0,
            )
        });
    }
    function
}

// ----- the laws

fn configuration(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/laws.regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(configuration(256))]

    #[test]
    fn tangents_are_linear(case in cases(), a in -2.0..2.0, b in -2.0..2.0) {
        let x = &case.argument;
        let (u, v) = (case.tangent(1), case.tangent(2));
        let sum: Vec<Variable> =
            leaves(&u).iter().zip(leaves(&v)).map(|(u, v)| a * u + b * v).collect();
        let sum = filled(x, &sum);
        let f = |x: &Random| case.run(x);
        let (y, linear) = linearize(f, x);
        close("value", &elements(&y), &elements(&case.run(x)));
        let pushed = |v: &Random| elements(&jvp(f, x, v).1);
        let called = |v: &Random| elements(&linear.call(v));
        let combined = |map: &dyn Fn(&Random) -> Vec<f64>| -> Vec<f64> {
            map(&u).iter().zip(map(&v)).map(|(u, v)| a * u + b * v).collect()
        };
        close("jvp", &pushed(&sum), &combined(&pushed));
        close("linearize", &called(&sum), &combined(&called));
        for v in [&u, &v, &sum] {
            close("linearize is jvp", &called(v), &pushed(v));
        }
    }

    #[test]
    fn vjp_transposes_jvp(case in cases()) {
        let x = &case.argument;
        let (v, w) = (case.tangent(1), case.cotangent(1));
        let (_, dy) = jvp(|x| case.run(x), x, &v);
        let (_, pullback) = vjp(|x| case.run(x), x);
        let gx = pullback.call(&w);
        prop_assert_eq!(names(&gx), names(x));
        let forward = inner(&leaves(&dy), &leaves(&w));
        close("product", &[forward], &[inner(&leaves(&gx), &leaves(&v))]);
        // The map is linear in the cotangents, and can be differentiated by them.
        if !leaves(&w).is_empty() {
            let (_, twice) = jvp(|w| pullback.call(w), &w, &case.cotangent(2));
            let expected = elements(&pullback.call(&case.cotangent(2)));
            close("tangent of vjp", &elements(&twice), &expected);
        }
    }

    #[test]
    fn vmap_is_a_loop(
        case in cases(),
        count in 1usize..5,
        chunk in 1usize..5,
        picks in prop::collection::vec(any::<Index>(), 12),
    ) {
        let batch = Stacked::of(&case.argument, case.seed, count, &picks);
        let results: Vec<Random> = batch.batch.iter().map(|x| case.run(x)).collect();
        let out_axes: Vec<isize> = (leaves(&results[0]).iter().zip(picks.iter().rev().cycle()))
            .map(|(y, pick)| {
                pick.index(2 * (y.rank() + 1)) as isize - (y.rank() as isize + 1)
            })
            .collect();
        let named = names(&results[0]).into_iter().zip(out_axes.iter().copied().map(Some));
        let options = VmapOptions::new().in_axes(batch.in_axes.clone()).out_axes(BatchAxes::named(named));
        let expected = Stacked::join(&results, &out_axes);
        let f = |x: &Random| case.run(x);
        close("at once", &elements(&vmap_with(f, &batch.joined, &options)), &expected);
        let options = options.chunk_size(chunk);
        close("in chunks", &elements(&vmap_with(f, &batch.joined, &options)), &expected);
        // A chunked vmap has the same derivative.
        let v = like(&batch.joined, case.seed);
        let pushed = |options: &VmapOptions| {
            elements(&jvp(|x| vmap_with(f, x, options), &batch.joined, &v).1)
        };
        close("jvp of chunks", &pushed(&options), &pushed(&options.clone().chunk_size(count)));
    }

    #[test]
    fn gradients_of_sums_over_batch_elements_are_sums_of_gradients(
        case in cases(),
        count in 1usize..4,
        picks in prop::collection::vec(any::<Index>(), 12),
    ) {
        let batch = Stacked::of(&case.argument, case.seed, count, &picks);
        let w = case.cotangent(1);
        let options = VmapOptions::new().in_axes(batch.in_axes.clone());
        let g = |x: &Random| grad(|x| case.loss(x, &w), x);
        let of_each: Vec<Vec<Variable>> = batch.batch.iter().map(|x| leaves(&g(x))).collect();
        let in_batch = leaves(&vmap_with(g, &batch.joined, &options));
        let losses = |x: &Random| vmap_with(|x| case.loss(x, &w), x, &options).sum(..);
        let of_sum = leaves(&grad(losses, &batch.joined));
        for (i, axis) in batch.axes.iter().enumerate() {
            let parts: Vec<&Variable> = of_each.iter().map(|g| &g[i]).collect();
            let by_loop = stack(&parts, 0);
            close("vmap of grad", &in_batch[i].to_vec::<f64>(), &by_loop.to_vec::<f64>());
            let expected = match *axis {
                Some(axis) => stack(&parts, axis),
                None => by_loop.sum(0),
            };
            close("grad of vmap", &of_sum[i].to_vec::<f64>(), &expected.to_vec::<f64>());
        }
    }

    #[test]
    fn jacobians_are_one(case in cases()) {
        let x = &case.argument;
        let f = |x: &Random| case.list(x);
        let y = f(x);
        prop_assume!(sizes(&y).iter().sum::<usize>() < 120);
        let [of_any, forward, reverse] = [
            elements(&jacobian(f, x)),
            elements(&jacobian_forward(f, x)),
            elements(&jacobian_reverse(f, x)),
        ];
        close("forward", &forward, &reverse);
        close("either", &of_any, &reverse);
        let v = case.tangent(1);
        let product = times(&matrix(&reverse, &sizes(&y), &sizes(x)), &elements(&v));
        close("times a tangent", &product, &elements(&jvp(f, x, &v).1));
    }

    #[test]
    fn hessians_are_jacobians_of_gradients(
        x in points(),
        program in programs(7),
        seed in any::<u64>(),
    ) {
        let loss = |x: &Point| loss_of(&program, x, seed);
        let g = |x: &Point| grad(loss, x);
        let of_hessian = elements(&hessian(loss, &x));
        close("jacobian of grad", &elements(&jacobian(g, &x)), &of_hessian);
        close("forward", &elements(&jacobian_forward(g, &x)), &of_hessian);
        close("reverse", &elements(&jacobian_reverse(g, &x)), &of_hessian);
        let by_forward = |x: &Point| jacobian_forward(loss, x);
        close("of forward", &elements(&jacobian_reverse(by_forward, &x)), &of_hessian);
        let h = matrix(&of_hessian, &sizes(&x), &sizes(&x));
        let transposed: Vec<f64> =
            (0..h.len()).flat_map(|i| h.iter().map(move |row| row[i])).collect();
        close("symmetry", &transposed, &h.concat());
        let v = like(&x, seed.wrapping_add(1));
        let (gradient, product) = hvp(loss, &x, &v);
        close("gradient", &elements(&gradient), &elements(&g(&x)));
        close("hvp", &elements(&product), &times(&h, &elements(&v)));
    }

    #[test]
    fn values_and_all_else_come_along_with_gradients(case in cases()) {
        let x = &case.argument;
        let (v, w) = (case.tangent(1), case.cotangent(1));
        let both = |x: &Random| {
            let y = case.run(x);
            (total(&y, &w), y)
        };
        let ((loss, y), g) = value_and_grad(both, x);
        close("loss", &[loss.item()], &[case.loss(x, &w).item()]);
        close("result", &elements(&y), &elements(&case.run(x)));
        close("gradient", &elements(&g), &elements(&grad(|x| case.loss(x, &w), x)));
        prop_assert!(leaves(&y).iter().chain(&leaves(&g)).all(|x| !x.requires_grad()));
        // What comes along has derivatives of its own.
        let (_, ((_, dy), dg)) = jvp(|x| value_and_grad(both, x), x, &v);
        close("tangent", &elements(&dy), &elements(&jvp(|x| case.run(x), x, &v).1));
        close("product", &elements(&dg), &elements(&hvp(|x| case.loss(x, &w), x, &v).1));
        let of_y = grad(|x| total(&value_and_grad(both, x).0.1, &w), x);
        close("gradient of what came along", &elements(&of_y), &elements(&g));
    }

    #[test]
    fn stopped_gradients_are_those_of_constants(case in cases()) {
        let w = case.cotangent(1);
        let product = |x: &Random, y: &Random| {
            let scaled: Vec<Variable> =
                leaves(x).iter().zip(leaves(y)).map(|(x, y)| x * y.sin()).collect();
            filled(x, &scaled)
        };
        let x = &case.argument;
        let stopped = |x: &Random| {
            let y = case.run(x);
            product(&y, &stop_gradient(&y))
        };
        let y = case.run(x);
        let constant = |x: &Random| product(&case.run(x), &y);
        let v = case.tangent(1);
        close("jvp", &elements(&jvp(stopped, x, &v)), &elements(&jvp(constant, x, &v)));
        let pulled = |f: &dyn Fn(&Random) -> Random| elements(&vjp(f, x).1.call(&w));
        close("vjp", &pulled(&stopped), &pulled(&constant));
        let second = |f: &dyn Fn(&Random) -> Random| {
            let loss = |x: &Random| total(&f(x), &w);
            (elements(&hvp(loss, x, &v)), elements(&linearize(|x| grad(loss, x), x).1.call(&v)))
        };
        let (found, expected) = (second(&stopped), second(&constant));
        close("second", &found.0, &expected.0);
        close("second, linearized", &found.1, &expected.1);
        // In a batch, with each batch element's own constant.
        let batch = filled(x, &leaves(x).iter().map(|x| stack([x, &(x * 2.0)], 0)).collect::<Vec<_>>());
        let found = vmap(|x| grad(|x| total(&stopped(x), &w), x), &batch);
        let of_one = |scale: f64| {
            let x = filled(x, &leaves(x).iter().map(|x| x * scale).collect::<Vec<_>>());
            let y = case.run(&x);
            grad(|x| total(&product(&case.run(x), &y), &w), &x)
        };
        let zeros = vec![0; leaves(x).len()].iter().map(|&axis| axis as isize).collect::<Vec<_>>();
        close("batch", &elements(&found), &Stacked::join(&[of_one(1.0), of_one(2.0)], &zeros));
    }
}

proptest! {
    #![proptest_config(configuration(48))]

    #[test]
    fn checkpoints_change_nothing(case in cases()) {
        let run = { let case = case.clone(); move |x: &Random| case.run(x) };
        let plain = |x: &Random| case.run(x);
        agree(move |x| checkpoint(run.clone(), x), plain, &case.argument, case.seed / 2);
    }

    #[test]
    fn custom_functions_with_any_rules_are_plain(mut formula in formulae(), rules in 0u8..8) {
        formula.shapes.resize(2, vec![2]);
        let function = with_rules(&formula, rules);
        let x = formula.inputs();
        let x = [x[0].clone(), x[1].clone()];
        agree(
            |[a, b]| function.call([a, b]),
            |x| formula.run(x).remove(1),
            &x,
            formula.seed / 2,
        );
        // One of the inputs is the same in all batch elements.
        let batch = [stack([&x[0], &(&x[0] * 2.0)], 0), x[1].clone()];
        let options = VmapOptions::new().in_axes([Some(0), None]);
        let in_batch = |f: &dyn Fn(&[Variable; 2]) -> Variable| {
            let loss = |x: &[Variable; 2]| vmap_with(|x| tanh(f(x)).sum(..), x, &options).sum(..);
            elements(&hvp(loss, &batch, &like(&batch, 5)))
        };
        close(
            "a shared input",
            &in_batch(&|[a, b]| function.call([a, b])),
            &in_batch(&|x| formula.run(x).remove(1)),
        );
    }

    #[test]
    fn functions_of_functions_change_nothing(case in cases()) {
        // Everything that gives the function itself back.
        let x = &case.argument;
        let plain = |x: &Random| case.run(x);
        agree(|x| linearize(plain, x).0, plain, x, case.seed / 2);
        agree(|x| vjp(plain, x).0, plain, x, case.seed / 2);
        agree(|x| jvp(plain, x, &case.tangent(7)).0, plain, x, case.seed / 2);
    }
}
