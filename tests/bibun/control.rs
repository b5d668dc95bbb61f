//! Branches and loops as functions: against ordinary Rust, under every transformation, in eager code
//! and in programs.

use bibun::array::{Array, DType, Generator, s};
use bibun::functions::{logical_and, stack, where_};
use bibun::links::{Buffer, Dropout, Linear, Link};
use bibun::{
    Error, GradientCheckOptions, ScanOptions, Tree, Variable, VmapOptions, assert_gradients,
    attempt, checkpoint, compile, cond, eval_mode, fori_loop, grad, hessian, history, hvp,
    is_training, jacobian, jvp, linearize, per_example, scan, scan_with, value_and_grad, vjp, vmap,
    vmap_with, while_loop,
};

type F = fn(&Variable) -> Variable;

/// Control flow of vectors `[3]`, as functions and as ordinary Rust.
const CASES: [(&str, F, F); 5] = [
    (
        "cond",
        |x| {
            let rises = x.sum(..).greater(0.0);
            cond(&rises, |x| x.sin() * x, |x| (x * 0.5).exp(), x)
        },
        |x| match x.detach().sum(..).item::<f64>() > 0.0 {
            true => x.sin() * x,
            false => (x * 0.5).exp(),
        },
    ),
    (
        "while_loop",
        |x| {
            let small = |(x, _): &(Variable, Variable)| x.square().sum(..).less(30.0);
            let grow = |(x, count): &(Variable, Variable)| (x * 1.5 + x.sin(), count + 1);
            let (x, count) = while_loop(small, grow, &(x.clone(), Variable::constant(0i64)));
            x * count.cast(DType::F64)
        },
        |x| {
            let (mut x, mut count) = (x.clone(), 0);
            while x.detach().square().sum(..).item::<f64>() < 30.0 {
                x = &x * 1.5 + x.sin();
                count += 1;
            }
            x * f64::from(count)
        },
    ),
    (
        "fori_loop",
        |x| fori_loop(2..6, |i, x| (x * i.cast(DType::F64) * 0.3).sin() + x, x),
        |x| (2..6).fold(x.clone(), |x, i| (&x * f64::from(i) * 0.3).sin() + x),
    ),
    (
        "scan",
        |x| {
            let step = |sum: &Variable, x: &Variable| {
                let sum = sum * 0.5 + x.sin();
                (sum.clone(), (&sum * x, sum.square()))
            };
            let (last, (a, b)) = scan(step, &x.mean(..), x);
            a * b + last
        },
        |x| {
            let (mut sum, mut a, mut b) = (x.mean(..), Vec::new(), Vec::new());
            for i in 0..3 {
                let x = x.slice(s![i]);
                sum = &sum * 0.5 + x.sin();
                a.push(&sum * x);
                b.push(sum.square());
            }
            let [a, b] = [a, b].map(|y| stack(y.iter(), 0));
            a * b + sum
        },
    ),
    (
        "a loop in a branch in a scan",
        |x| {
            let step = |total: &Variable, x: &Variable| {
                let halve = |x: &Variable| while_loop(|x| x.abs().greater(0.4), |x| x * 0.5, x);
                let y = cond(&x.greater(0.0), halve, |x| x.square(), x);
                (total + &y, y)
            };
            let (total, y) = scan(step, &Variable::constant(0.0), x);
            y.exp() * total
        },
        |x| {
            let y: Vec<Variable> = (0..3)
                .map(|i| {
                    let mut x = x.slice(s![i]);
                    if x.detach().item::<f64>() <= 0.0 {
                        return x.square();
                    }
                    while x.detach().abs().item::<f64>() > 0.4 {
                        x *= 0.5;
                    }
                    x
                })
                .collect();
            let y = stack(y.iter(), 0);
            y.exp() * y.sum(..)
        },
    ),
];

/// Both branches of the cases, and loops of different lengths.
fn batch() -> Variable {
    Variable::constant([
        [0.3, 1.2, 0.5],
        [-0.4, -1.1, 0.2],
        [2.0, -0.7, 0.9],
        [-3.0, 4.0, 3.5],
        [0.1, 0.05, -0.02],
    ])
}

fn weights() -> Variable {
    Variable::constant([0.7, -1.3, 0.4])
}

/// What is computed with a function of vectors, given vectors in rows.
type Use = fn(F, &Variable) -> Variable;

fn loss(f: F) -> impl Fn(&Variable) -> Variable + Copy {
    move |x| (f(x) * weights()).sum(..)
}

/// Of one vector.
const OF_ONE: [(&str, Use); 10] = [
    ("value", |f, x| f(x)),
    ("grad", |f, x| grad(loss(f), x)),
    ("jvp", |f, x| jvp(f, x, &weights()).1),
    ("jacobian", |f, x| jacobian(f, x)),
    ("hessian", |f, x| hessian(loss(f), x)),
    ("hvp", |f, x| hvp(loss(f), x, &weights()).1),
    ("vjp", |f, x| {
        let (y, back) = vjp(f, x);
        back.call(&weights()) * y
    }),
    ("linearize", |f, x| linearize(f, x).1.call(&weights())),
    ("grad of grad", |f, x| {
        grad(|x| grad(loss(f), x).square().sum(..), x)
    }),
    ("third", |f, x| {
        let second = |x: &Variable| grad(|x| (grad(loss(f), x) * weights()).sum(..), x);
        jvp(second, x, &weights()).1
    }),
];

/// Of a batch: each with what it should be, from the uses of one.
const OF_MANY: [(&str, Use, usize); 8] = [
    ("vmap", |f, x| vmap(f, x), 0),
    ("vmap of grad", |f, x| vmap(|x| grad(loss(f), x), x), 1),
    (
        "grad of vmap",
        |f, x| grad(|x| (vmap(f, x) * weights()).sum(..), x),
        1,
    ),
    (
        "jvp of vmap",
        |f, x| jvp(|x| vmap(f, x), x, &(x * 0.0 + weights())).1,
        2,
    ),
    (
        "vmap of jvp",
        |f, x| vmap(|x| jvp(f, x, &weights()).1, x),
        2,
    ),
    (
        "vmap of hessian",
        |f, x| vmap(|x| hessian(loss(f), x), x),
        4,
    ),
    (
        "vmap along columns",
        |f, x| vmap_with(f, &x.transpose(), VmapOptions::new().in_axes(1)),
        0,
    ),
    (
        "vmap of vmap",
        |f, x| {
            let pairs = stack([x, &(x * 1.0)], 1);
            vmap(|x| vmap(|x| grad(loss(f), x), x), &pairs).slice(s![.., 0])
        },
        1,
    ),
];

fn rows(x: &Variable) -> Vec<Variable> {
    bibun::functions::unstack(x, 0)
}

#[track_caller]
fn close(a: &Variable, b: &Variable, what: &str) {
    assert_eq!(a.spec(), b.spec(), "{what}");
    for (a, b) in a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>()) {
        let (error, scale) = ((a - b).abs(), 1.0 + b.abs());
        assert!(error <= 1e-10 * scale, "{what}: {a} instead of {b}");
    }
}

#[track_caller]
fn same(a: &Variable, b: &Variable, what: &str) {
    assert!(
        a.array().has_same_bits(&b.array()),
        "{what}: {a} instead of {b}"
    );
}

#[test]
fn each_computes_what_ordinary_rust_does() {
    for (name, f, plain) in CASES {
        for x in rows(&batch()) {
            same(&f(&x), &plain(&x), name);
            for (of, what) in OF_ONE {
                close(&what(f, &x), &what(plain, &x), &format!("{of} of {name}"));
            }
        }
    }
}

#[test]
fn a_batch_computes_what_its_elements_do() {
    for (name, f, plain) in CASES {
        for (of, what, of_one) in OF_MANY {
            let each: Vec<Variable> = (rows(&batch()).iter())
                .map(|x| OF_ONE[of_one].1(plain, x))
                .collect();
            let each = stack(each.iter(), 0);
            close(&what(f, &batch()), &each, &format!("{of} of {name}"));
        }
    }
}

#[test]
fn programs_have_the_same_bits() {
    for (name, f, _) in CASES {
        for (of, what) in OF_ONE {
            let compiled = compile(move |x: &Variable| what(f, x));
            for x in rows(&batch()) {
                same(&compiled.call(&x), &what(f, &x), &format!("{of} of {name}"));
            }
            // A program for all values, both branches and any number of iterations.
            assert_eq!(compiled.traces(), 1, "{of} of {name}");
        }
        for (of, what, _) in OF_MANY {
            let compiled = compile(move |x: &Variable| what(f, x));
            let (found, expected) = (compiled.call(&batch()), what(f, &batch()));
            same(&found, &expected, &format!("{of} of {name}"));
        }
        // Derivatives of the program, instead of programs of derivatives.
        let compiled = compile(f);
        for x in rows(&batch()) {
            let g = grad(|x| (compiled.call(x) * weights()).sum(..), &x);
            same(&g, &grad(loss(f), &x), name);
            let h = hessian(|x| (compiled.call(x) * weights()).sum(..), &x);
            same(&h, &hessian(loss(f), &x), name);
        }
        let g = vmap(
            |x| grad(|x| (compiled.call(x) * weights()).sum(..), x),
            &batch(),
        );
        same(&g, &vmap(|x| grad(loss(f), x), &batch()), name);
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for (_, f, _) in CASES {
        for x in rows(&batch()) {
            let options = GradientCheckOptions::new().order(2).tolerance(1e-5);
            assert_gradients(|x| f(&x[0]), &[x], options);
        }
    }
}

#[test]
fn a_loop_knows_the_derivative_of_what_it_finds() {
    let sqrt = |x: &Variable| {
        let is_far = |(y, x): &(Variable, Variable)| (y * y - x).abs().greater(1e-13);
        let newton = |(y, x): &(Variable, Variable)| (0.5 * (y + x / y), x.clone());
        while_loop(is_far, newton, &(x.clone(), x.clone())).0
    };
    let xs = Variable::constant([2.0, 0.3, 1.0, 9.0, 50.0]);
    let compiled = compile(move |x: &Variable| grad(|x| vmap(sqrt, x).sum(..), x));
    for g in [
        vmap(|x| grad(sqrt, x), &xs),
        grad(|x| vmap(sqrt, x).sum(..), &xs),
        compiled.call(&xs),
    ] {
        // Of x = 1, which is a root already, nothing is computed.
        let expected = where_(xs.equal(1.0), 1.0, 0.5 / xs.sqrt());
        for (found, expected) in g.to_vec::<f64>().into_iter().zip(expected.to_vec::<f64>()) {
            assert!((found - expected).abs() < 1e-6, "{g}");
        }
    }
}

#[test]
fn what_a_branch_that_is_not_taken_computes_does_not_matter() {
    // Where the root is not taken, it is NaN, and so is its derivative.
    let root = |x: &Variable| cond(&x.greater(0.0), |x| x.sqrt(), |x| x * 0.0, x);
    let xs = Variable::constant([4.0, -1.0, 0.0]);
    let halve = |x: &Variable| while_loop(|x| x.greater(1.0), |x| (x - 1.0).sqrt(), x);
    for f in [root as F, halve as F] {
        let [each, whole] = [
            vmap(|x| grad(f, x), &xs),
            grad(|xs| vmap(f, xs).sum(..), &xs),
        ];
        let alone: Vec<f64> = (rows(&xs).iter()).map(|x| grad(f, x).item()).collect();
        assert!(alone.iter().all(|g| g.is_finite()), "{alone:?}");
        assert_eq!(each.to_vec::<f64>(), alone);
        assert_eq!(whole.to_vec::<f64>(), alone);
        let second = vmap(|x| grad(|x| grad(f, x).square(), x), &xs);
        assert!(
            second.to_vec::<f64>().iter().all(|g| g.is_finite()),
            "{second}"
        );
        let (_, tangent) = jvp(|x| vmap(f, x), &xs, &Variable::constant([1.0, 1.0, 1.0]));
        assert_eq!(tangent.to_vec::<f64>(), alone);
    }
}

#[derive(Tree, Clone)]
struct State {
    x: Variable,
    steps: Variable,
    is_even: Variable,
    history: Vec<Variable>,
    label: String,
}

fn state(x: &Variable) -> State {
    State {
        x: x.clone(),
        steps: Variable::constant(0i32),
        is_even: Variable::constant(true),
        history: vec![x * 0.0, x * 1.0],
        label: String::from("kept"),
    }
}

fn next(state: &State) -> State {
    State {
        x: &state.x * 0.8 + &state.history[0] * 0.1,
        steps: &state.steps + 1,
        is_even: state.is_even.logical_not(),
        history: vec![state.history[1].clone(), state.x.clone()],
        label: state.label.clone(),
    }
}

#[test]
fn any_tree_is_a_state() {
    let goes_on = |state: &State| {
        let far = state.x.abs().sum(..).greater(0.5);
        logical_and(far, state.steps.less(9))
    };
    let run = move |x: &Variable| while_loop(goes_on, next, &state(x));
    let (x, mut expected) = (
        Variable::constant([1.0, -2.0]),
        state(&weights().slice(s![..2])),
    );
    expected.x = x.clone();
    expected.history = vec![&x * 0.0, x.clone()];
    while goes_on(&expected).item() {
        expected = next(&expected);
    }
    for found in [run(&x), compile(run).call(&x)] {
        same(&found.x, &expected.x, "x");
        same(&found.steps, &expected.steps, "steps");
        same(&found.is_even, &expected.is_even, "is_even");
        same(&found.history[0], &expected.history[0], "history");
        assert_eq!(found.label, "kept");
        assert_eq!(
            (found.steps.dtype(), found.is_even.dtype()),
            (DType::I32, DType::Bool)
        );
    }
    let xs = Variable::constant([[1.0, -2.0], [0.1, 0.1], [300.0, 5.0]]);
    let all = vmap(move |x| run(x), &xs);
    for (i, x) in rows(&xs).iter().enumerate() {
        let one = run(x);
        same(&all.x.slice(s![i]), &one.x, "x");
        same(&all.steps.slice(s![i]), &one.steps, "steps");
        same(&all.is_even.slice(s![i]), &one.is_even, "is_even");
    }
    let [(eager, by_eager), (program, by_program)] = [
        value_and_grad(move |x: &Variable| run(x).history[0].sum(..), &x),
        compile(move |x: &Variable| value_and_grad(|x| run(x).history[0].sum(..), x)).call(&x),
    ];
    same(&program, &eager, "value");
    same(&by_program, &by_eager, "gradient");
}

#[test]
fn a_model_in_the_state_learns() {
    let model = Linear::new(2, 2, &mut Generator::new(3));
    let xs = Variable::constant([[0.1, 0.4], [0.9, -0.3], [0.2, 0.7]]).cast(DType::F32);
    let h = Variable::constant([[0.0f32, 0.0]]);
    let run = |model: &Linear, h: &Variable, xs: &Variable| {
        let step = |(model, h): &(Linear, Variable), x: &Variable| {
            let h = (model.forward(h) + x).tanh();
            ((model.clone(), h.clone()), h)
        };
        let ((_, last), all) = scan(step, &(model.clone(), h.clone()), xs);
        (last * all.sum(0)).sum(..)
    };
    let plain = |model: &Linear, h: &Variable, xs: &Variable| {
        let (mut h, mut all) = (h.clone(), Vec::new());
        for x in rows(xs) {
            h = (model.forward(&h) + x).tanh();
            all.push(h.clone());
        }
        let all = stack(all.iter(), 0);
        (h * all.sum(0)).sum(..)
    };
    let expected = grad(|model| plain(model, &h, &xs), &model);
    let found = grad(|model| run(model, &h, &xs), &model);
    let close = |a: &Variable, b: &Variable| {
        let pairs = a.to_vec::<f32>().into_iter().zip(b.to_vec::<f32>());
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-5, "{a} {b}"));
    };
    close(&found.weight, &expected.weight);
    let step = compile(move |(model, h, xs): &(Linear, Variable, Variable)| {
        grad(|model| run(model, h, xs), model)
    });
    let compiled = step.call(&(model.clone(), h.clone(), xs.clone()));
    same(&compiled.weight, &found.weight, "weight");
    // In place, too.
    run(&model, &h, &xs).backward();
    same(
        &model.weight.grad().expect("a gradient"),
        &found.weight,
        "weight",
    );
}

#[test]
fn per_example_gradients_go_through() {
    let w = Variable::new([0.5, -0.3, 0.8]);
    let xs = batch();
    let of_loop = |w: &Variable, xs: &Variable| {
        let step = |(w, h): &(Variable, Variable)| (w.clone(), (h * w).sin() + h);
        let (_, h) = fori_loop(0..3, move |_, state| step(state), &(w.clone(), xs.clone()));
        h.sum(1)
    };
    let of_scan = |w: &Variable, xs: &Variable| {
        let step = |w: &Variable, x: &Variable| (w.clone(), (x * w).tanh().sum(..));
        scan(step, w, xs).1
    };
    let of_branch = |w: &Variable, xs: &Variable| {
        let positive = xs.sum(..).greater(0.0);
        let product = |(w, xs): &(Variable, Variable)| (w * xs).tanh().sum(1);
        let sum = |(w, xs): &(Variable, Variable)| (w + xs).sum(1);
        cond(&positive, product, sum, &(w.clone(), xs.clone()))
    };
    for losses in [
        of_loop as fn(&Variable, &Variable) -> Variable,
        of_scan,
        of_branch,
    ] {
        let rows = |w: &Variable, xs: &Variable| per_example(&losses(w, xs), w).rows();
        let found = rows(&w, &xs);
        let expected = jacobian(|w| losses(w, &xs), &w.detach());
        close(&found, &expected, "rows");
        let compiled = compile(move |(w, xs): &(Variable, Variable)| {
            let w = bibun::functions::watch(w);
            per_example(&losses(&w, xs), &w).rows()
        });
        close(
            &compiled.call(&(w.detach(), xs.clone())),
            &expected,
            "compiled",
        );
    }
}

#[test]
fn loops_may_end_before_they_begin() {
    let x = Variable::new([1.0, 2.0]);
    let never = |x: &Variable| while_loop(|x| x.sum(..).less(0.0), |x| x * 2.0, x);
    let none = |x: &Variable| fori_loop(3..3, |_, x| x * 2.0, x);
    let backwards = |x: &Variable| {
        let start = x.size() as i64 + 2;
        fori_loop(start..1, |_, x| x * 2.0, x)
    };
    for f in [never as F, none, backwards] {
        same(&f(&x), &x, "nothing");
        assert_eq!(grad(|x| f(x).sum(..), &x).to_vec::<f64>(), [1.0, 1.0]);
        assert_eq!(jvp(f, &x, &x.detach()).1.to_vec::<f64>(), [1.0, 2.0]);
        same(&compile(f).call(&x), &x, "nothing");
        let compiled = compile(move |x: &Variable| grad(|x| f(x).sum(..), x));
        assert_eq!(compiled.call(&x).to_vec::<f64>(), [1.0, 1.0]);
    }
    let nobody = Variable::constant(Array::zeros([0, 2], DType::F64));
    assert_eq!(vmap(never, &nobody).shape(), [0, 2]);
}

#[test]
fn a_scan_may_run_backwards() {
    let step = |sum: &Variable, (x, by): &(Variable, Variable)| {
        let sum = sum * by + x;
        (sum.clone(), vec![sum])
    };
    let run = move |xs: &(Variable, Variable)| {
        let zero = Variable::constant(0.0);
        scan_with(step, &zero, xs, ScanOptions::new().reverse())
    };
    let xs = (
        Variable::constant([1.0, 2.0, 3.0]),
        Variable::constant([2.0, 0.5, 4.0]),
    );
    for (last, all) in [run(&xs), compile(run).call(&xs)] {
        assert_eq!(last.item::<f64>(), 8.0);
        assert_eq!(all[0].to_vec::<f64>(), [8.0, 3.5, 3.0]);
    }
    let g = grad(|xs| run(xs).0, &xs);
    assert_eq!(g.0.to_vec::<f64>(), [1.0, 2.0, 1.0]);
    assert_eq!(g.1.to_vec::<f64>(), [3.5, 6.0, 0.0]);
}

#[test]
fn a_program_holds_the_body_once() {
    let steps = |n: i64| {
        let f = compile(move |x: &Variable| fori_loop(0..n, |_, x| x.sin() * 1.5, x).sum(..));
        f.call(&Variable::constant([1.0, 2.0]));
        f.to_string().lines().count()
    };
    assert_eq!(steps(2), steps(200));
    let f = compile(|x: &Variable| while_loop(|x| x.less(100.0), |x| x * 2.0, x));
    assert_eq!(f.call(&Variable::constant(1.0)).item::<f64>(), 128.0);
    assert_eq!(f.call(&Variable::constant(99.0)).item::<f64>(), 198.0);
    assert!(f.to_string().contains("= while_loop("), "{f}");
    assert_eq!(f.traces(), 1);
}

#[test]
fn history_shows_one_call_and_a_gradient_runs_nothing_again() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let x = Variable::new(0.5);
    let body = move |_: &Variable, x: &Variable| {
        counted.fetch_add(1, Ordering::Relaxed);
        x.sin()
    };
    let y = fori_loop(0..5, body, &x);
    assert_eq!(y.creator().expect("a creator").name(), "fori_loop");
    assert!(history(&y).to_string().contains("fori_loop"));
    y.backward();
    assert_eq!(runs.load(Ordering::Relaxed), 5);
    let expected = grad(|x| (0..5).fold(x.clone(), |x, _| x.sin()), &x.detach());
    same(&x.grad().expect("a gradient"), &expected, "gradient");
    y.backward();
    same(&x.grad().expect("a gradient"), &(expected * 2.0), "twice");
}

#[test]
fn long_loops_need_no_stack() {
    let x = Variable::new(1.0);
    let y = fori_loop(0..50_000, |_, x| x * 1.0, &x);
    y.backward();
    assert_eq!(x.grad().expect("a gradient").item::<f64>(), 1.0);
    drop(y);
}

#[test]
fn the_body_sees_the_scopes_and_draws_of_the_call() {
    let x = Variable::constant(Array::ones([40], DType::F64));
    // Each iteration draws its own numbers.
    let dropout = Dropout::new(0.5, &mut Generator::new(1));
    let link = dropout.clone();
    let noise = move |_: &Variable, x: &Variable| (x.clone(), link.forward(x));
    let (_, masks) = scan(
        move |x, _: &Variable| noise(x, x),
        &x,
        &Variable::constant([0.0; 4]),
    );
    let masks = rows(&masks);
    assert!(!masks[0].array().has_same_bits(&masks[1].array()));
    // A second run for a second derivative draws the same.
    let link = dropout.clone();
    let drop = move |x: &Variable| {
        let link = link.clone();
        fori_loop(0..2, move |_, x| link.forward(x).square(), x).sum(..)
    };
    let mut value = None;
    let h = hvp(
        |x| {
            let y = drop(x);
            value = Some(y.clone());
            y
        },
        &x,
        &x,
    );
    // y = Σ (m² x⁴) for factors m: x·H·x = 12 y.
    assert!(value.is_some());
    assert!((h.0.sum(..).item::<f64>() * 3.0 - h.1.sum(..).item::<f64>()).abs() < 1e-9);
    let runs = |x: &Variable| {
        fori_loop(
            0..1,
            |_, x| if is_training() { x * 2.0 } else { x * 3.0 },
            x,
        )
    };
    let one = Variable::constant(1.0);
    let slope = |x: &Variable| grad(runs, x).item::<f64>();
    assert_eq!((slope(&one), eval_mode(|| slope(&one))), (2.0, 3.0));
    let compiled = compile(runs);
    assert_eq!(compiled.call(&one).item::<f64>(), 2.0);
    assert_eq!(eval_mode(|| compiled.call(&one)).item::<f64>(), 3.0);
    // What a second run would see changed is refused, but there is nothing in evaluation mode.
    let f = compile(move |x: &Variable| {
        let dropout = dropout.clone();
        fori_loop(0..2, move |_, x| dropout.forward(x), x)
    });
    let error = attempt(|| f.call(&x)).expect_err("draws");
    assert!(
        error
            .to_string()
            .contains("fori_loop: the function changes a buffer"),
        "{error}"
    );
    same(&eval_mode(|| f.call(&x)), &x, "no dropout");
}

#[test]
fn a_buffer_changes_once_in_each_iteration() {
    let calls = Buffer::new(0i64);
    let count = {
        move |f: &dyn Fn(F) -> Variable| {
            calls.set(0i64);
            CALLS.with(|own| own.replace(Some(calls.clone())));
            f(|x| {
                let body = |_: &Variable, x: &Variable| {
                    CALLS.with_borrow(|calls| {
                        let calls = calls.as_ref().expect("a buffer");
                        calls.set(calls.get() + 1);
                    });
                    x.sin()
                };
                fori_loop(0..4, body, x).sum(..)
            });
            calls.get().item::<i64>()
        }
    };
    let x = Variable::new([0.5, 1.0]);
    assert_eq!(count(&|f| f(&x)), 4);
    assert_eq!(count(&|f| grad(f, &x)), 4);
    assert_eq!(count(&|f| hessian(f, &x)), 4);
    assert_eq!(count(&|f| grad(|x| grad(f, x).square().sum(..), &x)), 4);
}

thread_local! {
    static CALLS: std::cell::RefCell<Option<Buffer>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn only_tangents_or_cotangents_may_be_traced() {
    for (name, f, _) in CASES {
        for x in rows(&batch()) {
            let (at, of) = (x.clone(), x.clone());
            let pushed = compile(move |dx: &Variable| jvp(f, &at, dx).1);
            same(&pushed.call(&weights()), &jvp(f, &x, &weights()).1, name);
            let pulled = compile(move |gy: &Variable| vjp(f, &of).1.call(gy));
            close(&pulled.call(&weights()), &grad(loss(f), &x), name);
        }
    }
}

#[test]
fn checkpoints_and_loops_go_into_each_other() {
    let body = |_: &Variable, x: &Variable| checkpoint(|x: &Variable| x.sin() * x, x);
    let f = move |x: &Variable| fori_loop(0..3, body, x).sum(..);
    let plain = |x: &Variable| (0..3).fold(x.clone(), |x, _| x.sin() * x).sum(..);
    let x = Variable::constant([0.5, 1.5]);
    close(&grad(f, &x), &grad(plain, &x), "in");
    close(&grad(|x| checkpoint(f, x), &x), &grad(plain, &x), "around");
    close(
        &hessian(|x| checkpoint(f, x), &x),
        &hessian(plain, &x),
        "second",
    );
}

// ----- refusals

#[track_caller]
fn refused<T>(call: impl FnOnce() -> T, message: &str, line: u32) {
    let error = attempt(call).err().expect("an error");
    assert!(error.to_string().starts_with(message), "{error}");
    let location = error.location();
    assert_eq!(
        (location.file(), location.line()),
        (file!(), line),
        "{error}"
    );
}

#[test]
fn conditions_are_single_bools() {
    let x = Variable::constant([1.0, 2.0]);
    let call = |p: &Variable| {
        let (p, x) = (p.clone(), Variable::constant(1.0));
        move || cond(&p, |x| x * 1.0, |x| x * 2.0, &x)
    };
    let line = line!() - 2;
    let message = "cond: the predicate is [2] bool; it must be a single bool ([] bool), called at";
    refused(call(&x.greater(0.0)), message, line);
    refused(
        call(&Variable::constant(1.0)),
        "cond: the predicate is [] f64; it must",
        line,
    );
    let f = |x: &Variable| while_loop(|x| x.greater(0.0), |x| x - 1.0, x);
    let line = line!() - 1;
    let message = "while_loop: the condition is [2] bool; it must be a single bool ([] bool)";
    refused(|| f(&x), message, line);
    refused(|| compile(f).call(&x), message, line);
    refused(|| grad(|x| f(x).sum(..), &x), message, line);
    // Of each batch element, it is one.
    assert_eq!(vmap(f, &x).to_vec::<f64>(), [0.0, 0.0]);
}

#[test]
fn states_stay_alike() {
    let x = Variable::constant([1.0, 2.0]);
    let f = |x: &Variable| while_loop(|_| Variable::constant(true), |x| x.sum(..), x);
    let line = line!() - 1;
    let message = "while_loop: the state is [2] f64, the result of the body [] f64; they must be \
                   alike, called at";
    refused(|| f(&x), message, line);
    refused(|| compile(f).call(&x), message, line);
    let f = |x: &Variable| fori_loop(0..2, |_, x| x.cast(DType::F32), x);
    let line = line!() - 1;
    refused(
        || f(&x),
        "fori_loop: the state is [2] f64, the result of the body [2] f32",
        line,
    );
    refused(
        || compile(f).call(&x),
        "fori_loop: the state is [2] f64",
        line,
    );
    let longer = |_: &Variable, x: &Vec<Variable>| vec![x[0].clone(), x[0].clone()];
    let f = move |x: &Variable| fori_loop(0..2, longer, &vec![x.clone()]);
    let line = line!() - 1;
    let message = "fori_loop: the result of the body has `1` and the state has not; they must";
    refused(|| f(&x), message, line);
    refused(|| compile(f).call(&x), message, line);
    let widen = |h: &Variable, x: &Variable| (h + x.expand_dims(0), x.clone());
    let f = move |x: &Variable| scan(widen, &Variable::constant(0.0), x);
    let line = line!() - 1;
    let message = "scan: the state is [] f64, the state that the function returns [1] f64";
    refused(|| f(&x), message, line);
    refused(|| compile(f).call(&x), message, line);
    let grow = |i: &Variable, x: &Variable| {
        let size = i.array().item::<i64>() as usize;
        (i + 1, x.broadcast_to([size + 1]))
    };
    let f = move |x: &Variable| scan(grow, &Variable::constant(0i64), x);
    let line = line!() - 1;
    refused(
        || f(&x),
        "scan: the first result is [1] f64, a later one [2] f64",
        line,
    );
}

#[test]
fn branches_are_alike() {
    let x = Variable::constant([1.0, 2.0]);
    let f = |x: &Variable| {
        let p = x.sum(..).greater(0.0);
        cond(&p, |x| x.sum(..), |x| x.clone(), x)
    };
    let line = line!() - 2;
    let message = "cond: the result of one branch is [2] f64, that of the other [] f64; they must";
    refused(|| compile(f).call(&x), message, line);
    let xs = Variable::constant([[1.0, 2.0], [-1.0, -2.0]]);
    let error = attempt(|| vmap(f, &xs)).expect_err("an error");
    assert!(error.to_string().contains("they must be alike"), "{error}");
    assert_eq!(error.location().line(), line);
}

#[test]
fn slices_are_equally_many() {
    let step = |h: &Variable, xs: &(Variable, Variable)| (h + &xs.0, xs.1.clone());
    let f = move |a: Variable, b: Variable| scan(step, &Variable::constant(0.0), &(a, b));
    let line = line!() - 1;
    let x = |shape: &[usize]| Variable::constant(Array::ones(shape, DType::F64));
    let message =
        "scan: the first axes differ: `0` of xs is [3] f64, `1` of xs is [4, 2] f64, called";
    refused(|| f(x(&[3]), x(&[4, 2])), message, line);
    let message = "scan: `1` of xs is [] f64, and has no first axis to run along, called at";
    refused(|| f(x(&[3]), x(&[])), message, line);
    let message = "scan: `0` of xs is [0] f64: its first axis is empty, and what the function returns \
                   is known by running it only, called at";
    refused(|| f(x(&[0]), x(&[0])), message, line);
    let none = || scan(|h: &Variable, _: &()| (h.clone(), ()), &x(&[]), &());
    let message = "scan: there is no Variable in xs; fori_loop runs a given number of times";
    refused(none, message, line!() - 2);
}

#[test]
fn captured_history_is_refused() {
    let (x, w) = (Variable::new(1.0), Variable::new(2.0));
    let message = |name| {
        format!(
            "{name}: the function captures a Variable that has history, and its gradient would be \
             lost; hand it in as part of the argument (multiply uses it), or `detach` it if it is a constant here, called at "
        )
    };
    let captured = w.clone();
    let line = line!() + 1;
    let f = move |x: &Variable| x * &captured;
    let (p, g) = (Variable::constant(true), f.clone());
    refused(|| cond(&p, g, |x| x.clone(), &x), &message("cond"), line);
    let g = f.clone();
    let all = |x: &Variable| x.less(10.0);
    refused(|| while_loop(all, g, &x), &message("while_loop"), line);
    let g = f.clone();
    refused(
        || fori_loop(0..2, move |_, x| g(x), &x),
        &message("fori_loop"),
        line,
    );
    let (g, xs) = (f.clone(), Variable::constant([1.0, 2.0]));
    let step = move |h: &Variable, x: &Variable| (h.clone(), g(x));
    refused(|| scan(step, &x, &xs), &message("scan"), line);
    let g = f.clone();
    let compiled = compile(move |x: &Variable| {
        let g = g.clone();
        fori_loop(0..2, move |_, x| g(x), x)
    });
    refused(|| compiled.call(&x.detach()), &message("fori_loop"), line);
    // Handed in, it is right.
    let power = |(x, w): &(Variable, Variable)| {
        let body = |_: &Variable, (x, w): &(Variable, Variable)| (x * w, w.clone());
        fori_loop(0..3, body, &(x.clone(), w.clone())).0
    };
    let (gx, gw) = grad(power, &(x.clone(), w.clone()));
    assert_eq!((gx.item::<f64>(), gw.item::<f64>()), (8.0, 12.0));
    power(&(x, w.clone())).backward();
    assert_eq!(w.grad().expect("a gradient").item::<f64>(), 12.0);
    // What is hidden by a transformation is refused, too.
    let hidden = |w: &Variable| {
        let w = w.clone();
        fori_loop(
            0..2,
            move |_, x: &Variable| x * &w,
            &Variable::constant(1.0),
        )
    };
    let error = attempt(|| vmap(hidden, &xs)).expect_err("an error");
    assert!(
        error.to_string().contains("is hidden by a transformation"),
        "{error}"
    );
}

#[test]
fn values_of_a_program_are_not_captured() {
    let f = compile(|(x, w): &(Variable, Variable)| {
        let w = w.clone();
        fori_loop(0..2, move |_, x| x * &w, x)
    });
    let line = line!() - 2;
    let pair = (Variable::constant(1.0), Variable::constant(2.0));
    refused(
        || f.call(&pair),
        "multiply: an input is a value of compile while it was traced, which has no elements outside \
         of it, nor on another thread; hand it over as an argument",
        line,
    );
    let f = compile(|w: &Variable| {
        let (w, one) = (w.clone(), Variable::constant(1.0));
        while_loop(move |x| x.less(&w), |x| x * 2.0, &one)
    });
    let message =
        "while_loop: the condition depends on a value of `compile` that the function captures";
    refused(|| f.call(&Variable::constant(5.0)), message, line!() - 4);
    // A value that is read in a body that is traced.
    let f = compile(|x: &Variable| fori_loop(0..2, |_, x| x * x.item::<f64>(), x));
    let line = line!() - 1;
    let error = attempt(|| f.call(&Variable::constant(5.0))).expect_err("an error");
    assert!(
        error
            .to_string()
            .contains("fori_loop is tracing its function"),
        "{error}"
    );
    assert_eq!(error.location().line(), line);
    assert!(matches!(error, Error::Array(_)), "{error}");
}
