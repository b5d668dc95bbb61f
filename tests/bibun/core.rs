//! The core by itself: history, accumulation, nesting of walks, depth.

use std::sync::{Arc, Mutex};

use bibun::functions::{tanh, watch};
use bibun::{GradOptions, Variable, custom, gradients, gradients_with, jvp, vmap};

fn first(gradients: Vec<Option<Variable>>) -> Variable {
    gradients.into_iter().next().flatten().expect("a gradient")
}

fn derivative(y: &Variable, x: &Variable) -> Variable {
    first(gradients_with(
        &[y],
        &[x],
        GradOptions::new().create_graph(),
    ))
}

#[test]
fn a_variable_used_twice_and_in_two_functions_adds_up() {
    let x = Variable::new(3.0);
    (&x + &x).backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 2.0);
    x.clear_grad();
    let a = &x * &x;
    (&a * &a + &a * 3.0).backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 4.0 * 27.0 + 6.0 * 3.0);
}

#[test]
fn derivatives_of_any_order() {
    // d/dx tanh = 1 - t², and so on; values by the recurrence on polynomials in t.
    let x = Variable::new(0.3);
    let t = 0.3f64.tanh();
    let u = 1.0 - t * t;
    let expected = [
        u,
        -2.0 * t * u,
        u * (6.0 * t * t - 2.0),
        u * t * (16.0 - 24.0 * t * t),
    ];
    let mut y = tanh(&x);
    for expected in expected {
        y = derivative(&y, &x);
        assert!((y.item::<f64>() - expected).abs() < 1e-14);
    }
}

#[test]
fn walks_nest_without_confusion() {
    // d/dx [x · d/dy (x + y)] = 1
    let x = Variable::new(2.0);
    let y = watch(Variable::constant(5.0));
    let inner = derivative(&(&x + &y), &y);
    assert_eq!(derivative(&(&x * &inner), &x).item::<f64>(), 1.0);
    // The same by jvp inside of a gradient, by a gradient inside of jvp, and by jvp inside of jvp.
    let one = Variable::constant(1.0);
    let inner = |x: &Variable| jvp(|y| x + y, &Variable::constant(5.0), &one).1;
    assert_eq!(derivative(&(&x * inner(&x)), &x).item::<f64>(), 1.0);
    let (_, dx) = jvp(|x| x * inner(x), &Variable::constant(2.0), &one);
    assert_eq!(dx.item::<f64>(), 1.0);
    let by_grad = |x: &Variable| {
        let y = watch(Variable::constant(5.0));
        derivative(&(x + &y), &y)
    };
    let (_, dx) = jvp(|x| x * by_grad(x), &Variable::constant(2.0), &one);
    assert_eq!(dx.item::<f64>(), 1.0);
    // d/dx [x · d/dy (x y)] = 2 x
    let by_grad = |x: &Variable| {
        let y = watch(Variable::constant(5.0));
        derivative(&(x * &y), &y)
    };
    let (_, dx) = jvp(|x| x * by_grad(x), &Variable::constant(2.0), &one);
    assert_eq!(dx.item::<f64>(), 4.0);
    // A captured leaf keeps its gradient through jvp and vmap.
    let w = Variable::new(7.0);
    let (y, dy) = jvp(|a| a * &w * &w, &Variable::constant(3.0), &one);
    assert_eq!(
        first(gradients(&[&y], &[&w])).item::<f64>(),
        2.0 * 7.0 * 3.0
    );
    assert_eq!(first(gradients(&[&dy], &[&w])).item::<f64>(), 14.0);
    let batch = Variable::constant([1.0, 2.0, 3.0]);
    let y = vmap(|a| a * &w * &w, &batch);
    let total = y.sum(..);
    assert_eq!(first(gradients(&[&total], &[&w])).item::<f64>(), 14.0 * 6.0);
}

#[test]
fn gradients_inside_of_vmap_and_vmap_inside_of_gradients() {
    let data = [0.1, 0.4, -0.7];
    let second = |x: f64| {
        let t = x.tanh();
        -2.0 * t * (1.0 - t * t)
    };
    let expected: Vec<f64> = data.iter().map(|&x| second(x)).collect();
    let close = |found: Vec<f64>| {
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-14),
            "{found:?}"
        );
    };
    let x = Variable::new(data);
    let twice = |x: &Variable| {
        let x = watch(x);
        derivative(&derivative(&tanh(&x), &x), &x)
    };
    close(vmap(twice, &x).to_vec());
    let once = vmap(
        |x| {
            let x = watch(x);
            derivative(&tanh(&x), &x)
        },
        &x,
    );
    close(derivative(&once.sum(..), &x).to_vec());
    let y = vmap(|x: &Variable| tanh(x), &x);
    let dy = derivative(&y.sum(..), &x);
    close(derivative(&dy.sum(..), &x).to_vec());
}

#[test]
fn a_million_functions_fit_on_a_small_stack() {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(|| {
            let x = Variable::new(1.0);
            let mut y = x.clone();
            for _ in 0..1_000_000 {
                y = &y * 1.000001;
            }
            y.backward();
            let expected = 1.000001f64.powi(1_000_000);
            assert!((x.grad().unwrap().item::<f64>() / expected - 1.0).abs() < 1e-9);
            assert_eq!(y.generation(), 1_000_000);
            drop(y);
        })
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn gradients_of_intermediate_variables_add_up() {
    let x = Variable::new(2.0);
    let y = &x * &x;
    y.retain_grad();
    let loss = 3.0 * &y;
    for walks in [1.0, 2.0, 3.0] {
        loss.backward();
        let held = [&x, &y].map(|v| v.grad().unwrap().item::<f64>());
        assert_eq!(held, [12.0 * walks, 3.0 * walks]);
    }
    y.clear_grad();
    loss.backward();
    assert_eq!(y.grad().unwrap().item::<f64>(), 3.0);
}

#[test]
fn captures_of_a_rule_leave_no_history_in_gradients() {
    let w = Variable::new(3.0);
    let captured = w.clone();
    let scaled = custom("scaled", |[x]| x.clone()).vjp(move |_, _, gy| [gy * &captured]);
    let hooked = Variable::new(1.0);
    let captured = w.clone();
    hooked.register_hook(move |g| Some(g * &captured));
    let x = Variable::new(1.0);
    let loss = scaled.call([&x]) + &hooked;
    loss.backward();
    loss.backward();
    for leaf in [&x, &hooked] {
        let gradient = leaf.grad().unwrap();
        assert_eq!(gradient.item::<f64>(), 6.0);
        assert!(!gradient.requires_grad() && gradient.creator().is_none());
    }
    // Where it is asked for, there is.
    let options = GradOptions::new().create_graph();
    let gradient = gradients_with(&[&loss], &[&x], &options).remove(0).unwrap();
    gradient.backward();
    assert_eq!(w.grad().unwrap().item::<f64>(), 1.0);
    x.clear_grad();
    loss.backward_with(&options);
    assert!(x.grad().unwrap().requires_grad());
}

#[test]
fn a_cotangent_gives_its_memory_to_the_next() {
    let x = Variable::new([0.5; 64]);
    let a = x.tanh();
    let b = a.tanh();
    let c = b.tanh();
    let y = c.tanh();
    let memory = Arc::new(Mutex::new(Vec::new()));
    for part in [&a, &b, &c, &y] {
        let memory = Arc::clone(&memory);
        part.register_hook(move |g| {
            memory.lock().unwrap().push(g.array().memory_key());
            None
        });
    }
    y.sum(..).backward();
    let memory = memory.lock().unwrap().clone();
    // That of y is one number for all; from there on everything is computed in one place.
    let last = x.grad().unwrap().array().memory_key();
    assert!(last.is_some() && memory[0] != last, "{memory:?} {last:?}");
    assert_eq!(memory[1..], [last; 3]);
}
