//! Random numbers in a batch: whose they are, and that derivatives are those of one draw.

use bibun::array::{DType, Generator};
use bibun::functions::{dropout, random_bernoulli, random_normal, random_uniform};
use bibun::{
    Randomness, Variable, VmapOptions, attempt, checkpoint, custom, grad, hessian, hvp, jacobian,
    jacobian_forward, jacobian_reverse, jvp, linearize, vjp, vmap, vmap_with,
};

/// Draws, as floats, of the shape that it is given.
type Draw = fn(&[usize], &mut Generator) -> Variable;

const DRAWS: [(&str, Draw); 4] = [
    ("uniform", |shape, g| {
        random_uniform(shape, -1.0, 1.0, DType::F64, g)
    }),
    ("normal", |shape, g| {
        random_normal(shape, 0.0, 1.0, DType::F64, g)
    }),
    ("bernoulli", |shape, g| {
        random_bernoulli(shape, 0.5, g).cast(DType::F64)
    }),
    ("dropout", |shape, g| {
        dropout(Variable::constant(1.0).broadcast_to(shape), 0.5, g)
    }),
];

/// One of several ways to draw, by its name.
type Way<'a> = (&'static str, &'a dyn Fn(&mut Generator));

/// One of several ways to call a function, by its name.
type Call<'a> = (&'static str, &'a dyn Fn(&Variable) -> Variable);

/// So many that no two rows of coins are equal by accident.
const WIDE: usize = 64;

fn ones(shape: [usize; 2]) -> Variable {
    Variable::constant(1.0).broadcast_to(shape)
}

fn rows(x: &Variable) -> Vec<Vec<f64>> {
    x.to_vec::<f64>()
        .chunks(WIDE)
        .map(<[f64]>::to_vec)
        .collect()
}

/// For each row the first that is equal to it.
fn pattern(rows: &[Vec<f64>]) -> Vec<usize> {
    let first = |row| rows.iter().position(|other| other == row).expect("itself");
    rows.iter().map(first).collect()
}

#[test]
fn each_batch_element_draws_its_own_or_all_draw_the_same() {
    for (name, draw) in DRAWS {
        let run = |seed: u64, randomness: Randomness| {
            let mut g = Generator::new(seed);
            let options = VmapOptions::new().randomness(randomness);
            let y = vmap_with(|x| x * draw(&[WIDE], &mut g), &ones([5, WIDE]), &options);
            // What is drawn afterwards is something else.
            (rows(&y), draw(&[WIDE], &mut g).to_vec::<f64>())
        };
        let (different, after) = run(1, Randomness::Different);
        assert_eq!(pattern(&different), [0, 1, 2, 3, 4], "{name}");
        assert!(!different.contains(&after), "{name}");
        assert_eq!(
            run(1, Randomness::Different),
            (different.clone(), after),
            "{name}"
        );
        assert_ne!(run(2, Randomness::Different).0, different, "{name}");

        let (same, after) = run(1, Randomness::Same);
        assert_eq!(pattern(&same), [0; 5], "{name}");
        assert_ne!(same[0], after, "{name}");
        // As many numbers are used as by one batch element alone.
        let mut g = Generator::new(1);
        assert_eq!(draw(&[WIDE], &mut g).to_vec::<f64>(), same[0], "{name}");
        assert_eq!(draw(&[WIDE], &mut g).to_vec::<f64>(), after, "{name}");
    }
}

#[test]
fn each_batch_element_draws_beside_shared_values() {
    for (name, draw) in DRAWS {
        let mut g = Generator::new(3);
        let captured = Variable::constant(2.0);
        let y = vmap(
            |_: &Variable| &captured * draw(&[WIDE], &mut g),
            &ones([4, 1]),
        );
        assert_eq!(pattern(&rows(&y)), [0, 1, 2, 3], "{name}");
        // Twice in one batch element are two draws.
        let twice = vmap(
            |x| (x * draw(&[WIDE], &mut g), draw(&[WIDE], &mut g)),
            &ones([2, 1]),
        );
        let all = [rows(&twice.0), rows(&twice.1)].concat();
        assert_eq!(pattern(&all), [0, 1, 2, 3], "{name}");
    }
}

#[test]
fn batch_of_batches() {
    use Randomness::{Different, Same};
    for (name, draw) in DRAWS {
        for (outer, inner, expected) in [
            (Different, Different, [0, 1, 2, 3, 4, 5]),
            (Different, Same, [0, 0, 0, 3, 3, 3]),
            (Same, Different, [0, 1, 2, 0, 1, 2]),
            (Same, Same, [0; 6]),
        ] {
            let mut g = Generator::new(4);
            let [outer, inner] =
                [outer, inner].map(|randomness| VmapOptions::new().randomness(randomness));
            let x = Variable::constant(1.0).broadcast_to([2, 3, WIDE]);
            let y = vmap_with(
                |x| vmap_with(|x| x * draw(&[WIDE], &mut g), x, &inner),
                &x,
                &outer,
            );
            assert_eq!(pattern(&rows(&y)), expected, "{name}, {outer:?}, {inner:?}");
            // The number of axes of a batch element does not matter.
            let scalars = vmap_with(
                |x| vmap_with(|x| x * draw(&[], &mut g), x, &inner),
                &Variable::constant(1.0).broadcast_to([2, 3]),
                &outer,
            );
            assert_eq!(scalars.shape(), [2, 3], "{name}");
        }
    }
}

#[test]
fn chunks_draw_like_batch_elements() {
    for (name, draw) in DRAWS {
        for chunk in 1..6 {
            let mut g = Generator::new(5);
            let options = VmapOptions::new().chunk_size(chunk);
            let f = |x: &Variable, g: &mut Generator| x * draw(&[WIDE], g);
            let y = vmap_with(|x| f(x, &mut g), &ones([5, WIDE]), &options);
            assert_eq!(
                pattern(&rows(&y)),
                [0, 1, 2, 3, 4],
                "{name} in chunks of {chunk}"
            );
            // Chunks may share one draw.
            let options = options.randomness(Randomness::Same);
            let shared = vmap_with(|x| f(x, &mut g), &ones([5, WIDE]), &options);
            assert_eq!(
                pattern(&rows(&shared)),
                [0; 5],
                "{name} in chunks of {chunk}"
            );
        }
    }
}

#[test]
fn results_without_an_axis_are_the_same_for_the_batch() {
    for (name, draw) in DRAWS {
        let run = |randomness| {
            let mut g = Generator::new(6);
            let options = VmapOptions::new()
                .in_axes(0)
                .out_axes(None)
                .randomness(randomness);
            attempt(|| {
                vmap_with(
                    |_: &Variable| draw(&[WIDE], &mut g),
                    &ones([3, 1]),
                    &options,
                )
            })
        };
        assert_eq!(
            run(Randomness::Same).expect("one draw").shape(),
            [WIDE],
            "{name}"
        );
        let message = run(Randomness::Different)
            .expect_err("an error")
            .to_string();
        assert!(
            message.contains("differs between batch elements"),
            "{name}: {message}"
        );
    }
}

/// What dropout multiplied each element by.
fn mask(seed: u64, shape: &[usize]) -> Vec<f64> {
    let ones = Variable::constant(1.0).broadcast_to(shape);
    dropout(ones, 0.5, &mut Generator::new(seed)).to_vec()
}

#[test]
fn derivatives_of_dropout_are_of_the_kept_elements() {
    let x = random_normal([8], 0.0, 1.0, DType::F64, &mut Generator::new(7));
    let drop = |x: &Variable| dropout(x, 0.5, &mut Generator::new(8));
    let mask = mask(8, &[8]);
    assert!(mask.contains(&0.0) && mask.contains(&2.0), "{mask:?}");
    assert_eq!(grad(|x| drop(x).sum(..), &x).to_vec::<f64>(), mask);
    assert_eq!(
        jvp(drop, &x, &x).1.to_vec::<f64>(),
        drop(&x).to_vec::<f64>()
    );
    assert_eq!(
        linearize(drop, &x).1.call(&x).to_vec::<f64>(),
        drop(&x).to_vec::<f64>()
    );
    let loss = |x: &Variable| drop(x).square().sum(..) * 0.5;
    let diagonal = |h: Variable| -> Vec<f64> {
        let h = h.to_vec::<f64>();
        assert_eq!(
            h.iter().filter(|&&h| h != 0.0).count(),
            mask.iter().filter(|&&m| m != 0.0).count()
        );
        (0..8).map(|i| h[9 * i]).collect()
    };
    let squares: Vec<f64> = mask.iter().map(|m| m * m).collect();
    let close = |found: Vec<f64>, expected: &[f64], what: &str| {
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-14,
                "{what}: {found}, not {expected}"
            );
        }
    };
    close(diagonal(jacobian(drop, &x)), &mask, "jacobian");
    close(
        diagonal(jacobian_reverse(drop, &x)),
        &mask,
        "jacobian_reverse",
    );
    close(
        diagonal(jacobian_forward(drop, &x)),
        &mask,
        "jacobian_forward",
    );
    close(diagonal(hessian(loss, &x)), &squares, "hessian");
    let expected: Vec<f64> = squares
        .iter()
        .zip(x.to_vec::<f64>())
        .map(|(m, x)| m * x)
        .collect();
    close(hvp(loss, &x, &x).1.to_vec(), &expected, "hvp");
}

#[test]
fn one_run_draws_once_whatever_is_asked_of_it() {
    // A draw takes from the generator, so what is drawn next tells how many there were.
    let x = Variable::constant([0.5, -1.0, 2.0]);
    let next = |run: &dyn Fn(&mut Generator)| {
        let mut g = Generator::new(9);
        run(&mut g);
        random_uniform([], 0.0, 1.0, DType::F64, &mut g).item::<f64>()
    };
    let drop = |x: &Variable, g: &mut Generator| dropout(x, 0.5, g);
    let expected = next(&|g| forget(drop(&x, g)));
    let ways: [Way<'_>; 9] = [
        ("grad", &|g| forget(grad(|x| drop(x, g).sum(..), &x))),
        ("vjp", &|g| forget(vjp(|x| drop(x, g), &x).0)),
        ("jvp", &|g| forget(jvp(|x| drop(x, g), &x, &x).1)),
        ("linearize", &|g| {
            forget(linearize(|x| drop(x, g), &x).1.call(&x))
        }),
        ("jacobian", &|g| forget(jacobian(|x| drop(x, g), &x))),
        ("jacobian_reverse", &|g| {
            forget(jacobian_reverse(|x| drop(x, g), &x))
        }),
        ("jacobian_forward", &|g| {
            forget(jacobian_forward(|x| drop(x, g), &x))
        }),
        ("hessian", &|g| {
            forget(hessian(|x| drop(x, g).square().sum(..), &x))
        }),
        ("hvp", &|g| {
            forget(hvp(|x| drop(x, g).square().sum(..), &x, &x).1)
        }),
    ];
    for (name, way) in ways {
        assert_eq!(next(way), expected, "{name}");
    }
}

fn forget(_: Variable) {}

#[test]
fn gradients_of_dropout_in_batch_elements() {
    let x = random_normal([4, WIDE], 0.0, 1.0, DType::F64, &mut Generator::new(10));
    let w = Variable::constant(1.0).broadcast_to([WIDE]);
    let drop = |x: &Variable, g: &mut Generator| dropout(x, 0.5, g);
    for (randomness, expected) in [
        (Randomness::Different, [0, 1, 2, 3]),
        (Randomness::Same, [0; 4]),
    ] {
        let options = VmapOptions::new().randomness(randomness);
        let g = || Generator::new(11);
        let masks = {
            let mut g = g();
            vmap_with(|x| drop(&(x * 0.0 + 1.0), &mut g), &x, &options)
        };
        assert_eq!(pattern(&rows(&masks)), expected);
        let found = [
            {
                let mut g = g();
                vmap_with(|x| grad(|x| drop(x, &mut g).sum(..), x), &x, &options)
            },
            {
                let mut g = g();
                grad(|x| vmap_with(|x| drop(x, &mut g), x, &options).sum(..), &x)
            },
            {
                let mut g = g();
                vmap_with(|x| vjp(|x| drop(x, &mut g), x).1.call(&w), &x, &options)
            },
            {
                let mut g = g();
                vmap_with(|x| jvp(|x| drop(x, &mut g), x, &w).1, &x, &options)
            },
            {
                let mut g = g();
                jvp(
                    |x| vmap_with(|x| drop(x, &mut g), x, &options),
                    &x,
                    &ones([4, WIDE]),
                )
                .1
            },
            {
                // Every batch element's Jacobian is its own mask on the diagonal.
                let mut g = g();
                vmap_with(
                    |x| jacobian_forward(|x| drop(x, &mut g), x).sum(0),
                    &x,
                    &options,
                )
            },
            {
                let mut g = g();
                let half = |x: &Variable, g: &mut Generator| drop(x, g).square().sum(..) * 0.25;
                vmap_with(|x| hessian(|x| half(x, &mut g), x).sum(0), &x, &options)
            },
        ];
        for (i, found) in found.iter().enumerate() {
            assert_eq!(rows(found), rows(&masks), "{randomness:?}, way {i}");
        }
    }
}

#[test]
fn second_runs_draw_for_their_batch_elements() {
    let seeded =
        |x: &Variable| x * random_normal([WIDE], 0.0, 1.0, DType::F64, &mut Generator::new(12));
    let alone = seeded(&Variable::constant(1.0)).to_vec::<f64>();
    let calls: [Call<'_>; 3] = [
        ("checkpoint", &|x| checkpoint(seeded, x)),
        ("custom", &|x| {
            custom("seeded", move |[x]| seeded(x)).call([x])
        }),
        ("custom with a rule", &|x| {
            custom("seeded", move |[x]| seeded(x))
                .vjp(|_, _, gy| [gy.clone()])
                .call([x])
        }),
    ];
    for (name, call) in calls {
        assert_eq!(
            call(&Variable::constant(1.0).broadcast_to([WIDE])).to_vec::<f64>(),
            alone
        );
        for (randomness, expected) in [
            (Randomness::Same, [0, 0, 0]),
            (Randomness::Different, [0, 1, 2]),
        ] {
            let options = VmapOptions::new().randomness(randomness);
            let y = attempt(|| vmap_with(call, &ones([3, WIDE]), &options));
            let y = rows(&y.unwrap_or_else(|error| panic!("{name}, {randomness:?}: {error}")));
            assert_eq!(pattern(&y), expected, "{name}, {randomness:?}");
            if randomness == Randomness::Same {
                assert_eq!(y[0], alone, "{name}");
            }
            // The gradient is that of the draw that gave the value.
            let loss = |x: &Variable| vmap_with(call, x, &options).sum(..);
            if name != "custom with a rule" {
                assert_eq!(
                    rows(&grad(loss, &ones([3, WIDE]))),
                    y,
                    "{name}, {randomness:?}"
                );
            }
        }
    }
}

#[test]
fn no_batch_elements_draw_nothing() {
    for (name, draw) in DRAWS {
        let mut g = Generator::new(13);
        let y = vmap(|x| x * draw(&[3], &mut g), &ones([0, 3]));
        assert_eq!(y.shape(), [0, 3], "{name}");
        let y = vmap(|x| vmap(|x| x * draw(&[], &mut g), x), &ones([2, 0]));
        assert_eq!(y.shape(), [2, 0], "{name}");
    }
}

#[test]
fn dropout_does_nothing_in_evaluation_mode_under_vmap() {
    let x = random_normal([3, 4], 0.0, 1.0, DType::F64, &mut Generator::new(14));
    let mut g = Generator::new(15);
    let y = bibun::eval_mode(|| vmap(|x| dropout(x, 0.5, &mut g), &x));
    assert_eq!(y.to_vec::<f64>(), x.to_vec::<f64>());
}

/// The mean of many batch elements is what dropout promises.
#[test]
fn batch_elements_are_independent() {
    let mut g = Generator::new(16);
    let y = vmap(|x| dropout(x, 0.25, &mut g), &ones([64, WIDE]));
    let mean = y.mean(..).item::<f64>();
    // The deviation of 4096 such elements is 0.009.
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    let draw = |g: &mut Generator| {
        vmap(
            |_: &Variable| random_normal([WIDE], 0.0, 1.0, DType::F64, g),
            &ones([2, 1]),
        )
    };
    let y = rows(&draw(&mut g));
    let correlation: f64 = y[0].iter().zip(&y[1]).map(|(a, b)| a * b).sum::<f64>() / WIDE as f64;
    assert!(correlation.abs() < 0.6, "{correlation}");
}
