//! Functions from closures: every rule, in every nesting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bibun::{
    GradOptions, Rules, Variable, VmapOptions, attempt, checkpoint, custom, grad, gradients_with,
    hessian, jvp, linearize, vmap, vmap_with,
};

fn cube() -> bibun::Custom<1> {
    custom("cube", |[x]| x * x * x).vjp(|[x], _, gy| [3.0 * x * x * gy])
}

fn derivative(y: &Variable, x: &Variable) -> Variable {
    let gradients = gradients_with(&[y], &[x], GradOptions::new().create_graph());
    gradients.into_iter().next().flatten().expect("a gradient")
}

#[test]
fn every_order_and_jvp() {
    let x = Variable::new(2.0);
    let y = cube().call([&x]);
    assert_eq!(y.creator().unwrap().name(), "cube");
    let dy = derivative(&y, &x);
    let ddy = derivative(&dy, &x);
    let dddy = derivative(&ddy, &x);
    assert_eq!(
        [&y, &dy, &ddy, &dddy].map(|v| v.item::<f64>()),
        [8.0, 12.0, 12.0, 6.0]
    );
    let f = |x: &Variable| cube().call([x]);
    let one = Variable::constant(1.0);
    let (_, dy) = jvp(f, &x, &one);
    assert_eq!(dy.item::<f64>(), 12.0);
    assert_eq!(derivative(&dy, &x).item::<f64>(), 12.0);
    let (_, ddy) = jvp(|x| jvp(f, x, &one).1, &x, &one);
    assert_eq!(ddy.item::<f64>(), 12.0);
}

#[test]
fn batch() {
    let scale = custom("scale", |[x, s]| x * s).vjp(|[x, s], _, gy| [gy * s, (gy * x).sum(..)]);
    let x = Variable::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let s = Variable::new(10.0);
    let axes = VmapOptions::new().in_axes((1, None));
    let y = vmap_with(|(x, s)| scale.call([x, s]), &(x.clone(), s.clone()), &axes);
    assert_eq!(y.to_vec::<f64>(), [10.0, 30.0, 50.0, 20.0, 40.0, 60.0]);
    (&y * &y).sum(..).backward();
    assert_eq!(s.grad().unwrap().item::<f64>(), 2.0 * 10.0 * 91.0);
    assert_eq!(
        x.grad().unwrap().to_vec::<f64>(),
        [200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
    );
}

#[test]
fn rules_that_give_something_else_are_told_of() {
    let message = |run: &dyn Fn() -> Variable| attempt(run).unwrap_err().to_string();
    let wide = |x: &Variable| Variable::constant([1.0, 2.0]) * x;
    let f = custom("f", |[x]| x.clone())
        .vjp(move |[x], _, _| [wide(x)])
        .jvp(move |[x], _, _| wide(x));
    let gave = |rule, argument| {
        format!("f: the {rule} rule gave [2] f64 for {argument} 0, which is [] f64, called at")
    };
    let (x, one) = (two(), Variable::constant(1.0));
    let found = message(&|| grad(|x| f.call([x]), &x));
    assert!(found.contains(&gave("vjp", "input")), "{found}");
    let found = message(&|| jvp(|x| f.call([x]), &x, &one).1);
    assert!(found.contains(&gave("jvp", "output")), "{found}");
    let found = message(&|| linearize(|x| f.call([x]), &x).1.call(&one));
    assert!(found.contains(&gave("jvp", "output")), "{found}");
    // Of what is not known before it is run, this at least is.
    let none = Rules::new().batch("f", |_| Vec::new());
    let found = message(&|| none.scope(|| vmap(|x| f.call([x]), &three_elements())));
    let expected = "f: the batch rule gave 0 Variables, it must give 1, called at";
    assert!(found.starts_with(expected), "{found}");
}

/// A function made anew, given what counts the calls of its closure.
type Maker = fn(Arc<AtomicUsize>) -> Box<dyn Fn(&Variable) -> Variable>;

fn counted(x: &Variable, calls: &AtomicUsize) -> Variable {
    calls.fetch_add(1, Ordering::Relaxed);
    x * x * x
}

const COUNTED: [(&str, Maker); 4] = [
    ("checkpoint", |calls| {
        Box::new(move |x| {
            let calls = Arc::clone(&calls);
            checkpoint(move |x: &Variable| counted(x, &calls), x)
        })
    }),
    ("custom", |calls| {
        let f = custom("cube", move |[x]| counted(x, &calls));
        Box::new(move |x| f.call([x]))
    }),
    ("custom with vjp", |calls| {
        let f = custom("cube", move |[x]| counted(x, &calls));
        let f = f.vjp(|[x], _, gy| [3.0 * x * x * gy]);
        Box::new(move |x| f.call([x]))
    }),
    ("custom with jvp", |calls| {
        let f = custom("cube", move |[x]| counted(x, &calls));
        let f = f.jvp(|[x], _, [dx]| 3.0 * x * x * dx);
        Box::new(move |x| f.call([x]))
    }),
];

/// A transformation at 2 of a function that gives the third power.
type Way = (&'static str, fn(&dyn Fn(&Variable) -> Variable) -> f64);

#[test]
fn a_closure_is_called_as_often_as_it_must_be() {
    let ways: [Way; 11] = [
        ("a call", |f| f(&two()).item()),
        ("grad", |f| grad(f, &two()).item()),
        ("vmap", |f| element(&vmap(f, &three_elements()))),
        ("jvp", |f| {
            let (y, dy) = jvp(f, &two(), &Variable::constant(1.0));
            assert_eq!(y.item::<f64>(), 8.0);
            dy.item()
        }),
        ("hessian", |f| hessian(f, &two()).item()),
        ("vmap of grad", |f| {
            element(&vmap(|x| grad(f, x), &three_elements()))
        }),
        ("grad of vmap", |f| {
            element(&grad(|x| vmap(f, x).sum(..), &three_elements()))
        }),
        ("grad of jvp", |f| {
            let one = Variable::constant(1.0);
            grad(|x| jvp(f, x, &one).1, &two()).item()
        }),
        ("jvp of jvp", |f| {
            let one = Variable::constant(1.0);
            jvp(|x| jvp(f, x, &one).1, &two(), &one).1.item()
        }),
        ("grad of grad", |f| grad(|x| grad(f, x), &two()).item()),
        ("linearize", |f| {
            let (_, derivative) = linearize(f, &two());
            derivative.call(&Variable::constant(1.0)).item()
        }),
    ];
    // Without rules of its own a function is run once for its values, with whatever tangents and batch elements
    // there are, and once more for all its gradients, for it has forgotten everything. With a rule it
    // is run once.
    for (name, make) in COUNTED {
        for (way, run) in ways {
            let calls = Arc::new(AtomicUsize::new(0));
            let found = run(&*make(Arc::clone(&calls)));
            let value = if ["a call", "vmap"].contains(&way) {
                8.0
            } else {
                12.0
            };
            assert_eq!(found, value, "{name}, {way}");
            let forward = ["a call", "vmap", "jvp", "jvp of jvp"].contains(&way);
            let expected = match forward || name.starts_with("custom with") {
                true => 1,
                false => 2,
            };
            assert_eq!(calls.load(Ordering::Relaxed), expected, "{name}, {way}");
        }
    }
}

fn two() -> Variable {
    Variable::constant(2.0)
}

fn three_elements() -> Variable {
    Variable::constant([2.0, 2.0, 2.0])
}

fn element(y: &Variable) -> f64 {
    y.to_vec::<f64>()[2]
}
