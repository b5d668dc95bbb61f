//! Hooks on gradients and functions, and the search for what is not finite.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bibun::functions::where_;
use bibun::{
    Error, Phase, Variable, attempt, detect_anomaly, grad, gradients, jvp, vmap, with_hook,
};

type Seen = Arc<Mutex<Vec<f64>>>;

/// A hook that remembers what it saw.
fn recorder() -> (Seen, impl Fn(&Variable) -> Option<Variable>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let memory = Arc::clone(&seen);
    let hook = move |g: &Variable| {
        memory.lock().unwrap().push(g.item::<f64>());
        None
    };
    (seen, hook)
}

#[test]
fn a_hook_sees_the_whole_gradient_once() {
    let x = Variable::new(2.0);
    let y = &x * &x;
    let (of_x, hook) = recorder();
    x.register_hook(hook);
    let (of_y, hook) = recorder();
    y.register_hook(hook);
    (&y * &y + 3.0 * &y + &x).backward();
    assert_eq!(*of_y.lock().unwrap(), [2.0 * 4.0 + 3.0]);
    assert_eq!(*of_x.lock().unwrap(), [11.0 * 4.0 + 1.0]);
    // A second walk, and one that only wants y.
    y.backward();
    assert_eq!(of_x.lock().unwrap()[1], 4.0);
    gradients(&[&(5.0 * &y)], &[&y]);
    assert_eq!(*of_y.lock().unwrap(), [11.0, 1.0, 5.0]);
    assert_eq!(of_x.lock().unwrap().len(), 2);
}

#[test]
fn the_result_of_a_hook_replaces_the_gradient() {
    let x = Variable::new(2.0);
    let y = &x * &x;
    let first = y.register_hook(|g| Some(g * 10.0));
    let second = y.register_hook(|g| Some(g + 1.0));
    y.retain_grad();
    let of_x = x.register_hook(|g| Some(-g));
    let run = || {
        x.clear_grad();
        y.clear_grad();
        y.backward();
        (
            y.grad().unwrap().item::<f64>(),
            x.grad().unwrap().item::<f64>(),
        )
    };
    assert_eq!(run(), (11.0, -44.0));
    first.remove();
    assert_eq!(run(), (2.0, -8.0));
    second.remove();
    of_x.remove();
    assert_eq!(run(), (1.0, 4.0));
    let handle = y.register_hook(|_| Some(Variable::constant([1.0, 2.0])));
    let error = attempt(|| y.backward()).expect_err("an error").to_string();
    assert!(
        error.contains("the hook gave [2] f64 for a gradient that is [] f64"),
        "{error}"
    );
    handle.remove();
    let error = attempt(|| Variable::constant(1.0).register_hook(|_| None)).expect_err("an error");
    assert!(
        error
            .to_string()
            .contains("a constant has no gradient, called at"),
        "{error}"
    );
}

#[test]
fn hooks_are_differentiated() {
    let f = |x: &Variable| {
        let y = x * x;
        y.register_hook(|g| Some(g * g));
        &y * &y
    };
    // The hooked gradient is (2 x²)² 2 x = 8 x⁵, its derivative 40 x⁴ - but the hook sees that of
    // the second walk too, whose y is the same.
    let x = Variable::constant(1.5);
    assert_eq!(grad(f, &x).item::<f64>(), 8.0 * 1.5f64.powi(5));
    let (_, second) = jvp(|x| grad(f, x), &x, &Variable::constant(1.0));
    assert_eq!(second.item::<f64>(), 40.0 * 1.5f64.powi(4));
    let batch = vmap(|x| grad(f, x), &Variable::constant([1.0, 1.5]));
    assert_eq!(batch.to_vec::<f64>(), [8.0, 8.0 * 1.5f64.powi(5)]);
}

#[test]
fn function_hooks_see_values_and_cotangents() {
    let x = Variable::new(3.0);
    let told = Rc::new(RefCell::new(Vec::new()));
    let memory = Rc::clone(&told);
    let hook = move |event: &bibun::FunctionEvent<'_>| {
        let values = |list: &[Option<Variable>]| -> Vec<Option<f64>> {
            list.iter().map(|x| x.as_ref().map(|x| x.item())).collect()
        };
        // What a hook computes is not told.
        let _ = x_squared(&Variable::constant(1.0));
        assert_eq!(event.location.file(), file!(), "{event:?}");
        let entry = (
            event.phase,
            event.name,
            values(event.inputs),
            values(event.outputs),
        );
        memory.borrow_mut().push(entry);
    };
    with_hook(hook, || x_squared(&x).backward());
    let three = Some(3.0);
    let expected = [
        (
            Phase::Forward,
            "multiply",
            vec![three, three],
            vec![Some(9.0)],
        ),
        (
            Phase::Backward,
            "multiply",
            vec![Some(1.0)],
            vec![three, three],
        ),
    ];
    assert_eq!(*told.borrow(), expected);
    x_squared(&x).backward();
    assert_eq!(told.borrow().len(), 2);
}

fn x_squared(x: &Variable) -> Variable {
    x * x
}

#[test]
fn anomalies_are_named_where_they_begin() {
    let x = Variable::new([[1.0, 4.0], [0.0, 0.0]]);
    // In the gradient.
    let y = x.sqrt();
    let line = line!() - 1;
    let error = attempt(|| detect_anomaly(|| y.sum(..).backward())).expect_err("an error");
    let Error::InGradient {
        function,
        location,
        source,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*function, location.line()), ("sqrt", line));
    let Error::Anomaly { function, what, .. } = &**source else {
        panic!("{source}")
    };
    assert_eq!(*function, "sqrt");
    let message = "the gradient of input 0 is inf at [1, 0] (the first of 2 such elements), though \
                   all it was given is finite";
    assert_eq!(what, message);
    // On the way forwards.
    let line = line!() + 1;
    let error = attempt(|| detect_anomaly(|| (&x - 1.0).log().exp().sum(..)));
    let error = error.expect_err("an error").to_string();
    assert!(
        error.starts_with("log: output 0 is -inf at [0, 0] (the first of 3"),
        "{error}"
    );
    assert!(
        error.contains(&format!("called at {}:{line}", file!())),
        "{error}"
    );
    // Without the scope nobody asks.
    x.sqrt().sum(..).backward();
    assert!(!x.grad().unwrap().to_vec::<f64>()[2].is_finite());
}

#[test]
fn infinities_on_purpose_are_passed_on() {
    let x = Variable::new([1.0, 2.0]);
    let mask = Variable::constant([true, false]);
    let masked = || where_(&mask, &x, f64::NEG_INFINITY).exp().sum(..);
    detect_anomaly(|| masked().backward());
    assert_eq!(
        x.grad()
            .unwrap()
            .cast(bibun::array::DType::F32)
            .to_vec::<f32>(),
        [1f32.exp(), 0.0]
    );
    let x = Variable::constant([1.0, 2.0]);
    detect_anomaly(|| grad(|x| (x * x).sum(..), &x));
}

#[test]
fn anomalies_under_transformations() {
    let x = Variable::constant([1.0, 0.0]);
    let f = |x: &Variable| x.sqrt();
    for error in [
        attempt(|| detect_anomaly(|| vmap(|x| grad(f, x), &x))),
        attempt(|| detect_anomaly(|| grad(|x| vmap(f, x).sum(..), &x))),
    ] {
        let error = error.expect_err("an error").to_string();
        assert!(error.contains("in the gradient of sqrt"), "{error}");
        assert!(error.contains("is inf at [1]"), "{error}");
    }
    let error = attempt(|| detect_anomaly(|| vmap(|x: &Variable| x.log(), &x)));
    assert!(
        error
            .expect_err("an error")
            .to_string()
            .starts_with("log: output 0 is -inf at [1]")
    );
}

/// Returns what happens in a walk, in order: rules that run by their names, leaves by theirs.
fn order_of(leaves: &[(&'static str, &Variable)], loss: impl Fn() -> Variable) -> Vec<String> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hooks = leaves.iter().map(|&(name, leaf)| {
        let told = Arc::clone(&told);
        leaf.register_hook(move |_| {
            told.lock().unwrap().push(name.to_owned());
            None
        })
    });
    let hooks: Vec<_> = hooks.collect();
    let loss = loss();
    let rules = Arc::clone(&told);
    let tell = move |event: &bibun::FunctionEvent<'_>| {
        rules.lock().unwrap().push(event.name.to_owned());
    };
    with_hook(tell, || loss.backward());
    hooks.into_iter().for_each(bibun::HookHandle::remove);
    let told = told.lock().unwrap();
    told.clone()
}

#[test]
fn a_leaf_is_delivered_when_its_last_consumer_is_done() {
    let [a, b, c] = [2.0, 3.0, 5.0].map(Variable::new);
    let names = [("a", &a), ("b", &b), ("c", &c)];
    // A chain: the last layer's parameter leaves first, long before the walk ends.
    let chain = || ((a.exp() * &b).sin() * &c).cos();
    let expected = ["cos", "multiply", "c", "sin", "multiply", "b", "exp", "a"];
    assert_eq!(order_of(&names, chain), expected);
    // A shared one waits for its first use.
    let shared = || ((a.exp() * &b).sin() * &c * &a).cos();
    let expected = [
        "cos", "multiply", "multiply", "c", "sin", "multiply", "b", "exp", "a",
    ];
    assert_eq!(order_of(&names, shared), expected);
    let twice = || (&b * &b * &a).exp();
    assert_eq!(
        order_of(&names, twice),
        ["exp", "multiply", "a", "multiply", "b"]
    );
    // A leaf that is the output, one that nothing reaches, and no hook at all.
    assert_eq!(order_of(&names, || a.clone()), ["a"]);
    assert_eq!(order_of(&[("c", &c)], || a.exp()), ["exp"]);
    assert_eq!(order_of(&[], chain).len(), 5);
    // Frozen ones are not waited for.
    b.set_requires_grad(false);
    assert_eq!(order_of(&names, twice), ["exp", "multiply", "a"]);
}

/// A step that gives no gradient, though its input has history.
#[derive(Clone, Debug)]
struct Stop;

impl bibun::Function for Stop {
    type Inputs = bibun::Fixed<1>;
    type Outputs = bibun::Fixed<1>;
    fn name(&self) -> &'static str {
        "stop"
    }
    fn saves(&self, _: bibun::Needs<'_>) -> bibun::Saved {
        bibun::Saved::NOTHING
    }
    fn shape(&self, [x]: [&bibun::Spec; 1]) -> Result<[bibun::Spec; 1], bibun::Mismatch> {
        Ok([x.clone()])
    }
    fn forward(&self, x: [bibun::array::Array; 1]) -> [bibun::array::Array; 1] {
        x
    }
    fn vjp(&self, _: &bibun::Context<'_>, _: [Variable; 1]) -> [Option<Variable>; 1] {
        [None]
    }
    fn jvp(&self, _: &bibun::Context<'_>, _: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [None]
    }
    fn batch(&self, x: [bibun::Batched; 1]) -> [bibun::Batched; 1] {
        x
    }
    fn per_example(
        &self,
        _: &bibun::Context<'_>,
        _: [bibun::ExampleCotangent; 1],
    ) -> [Option<bibun::ExampleGradient>; 1] {
        [None]
    }
}

#[test]
fn a_leaf_that_a_gradient_never_reaches_again_is_delivered_at_the_end() {
    let (a, b) = (Variable::new(2.0), Variable::new(3.0));
    // The second use of `a` lies behind a rule that gives nothing, so it is never asked.
    let loss = || {
        let [stopped] = bibun::apply(Stop, [&a * 2.0]);
        (&b.exp() * stopped + &a).sin()
    };
    let order = order_of(&[("a", &a), ("b", &b)], loss);
    let expected = ["sin", "add", "multiply", "stop", "exp", "b", "a"];
    assert_eq!(order, expected);
    assert!(a.grad().is_some());
}

#[test]
fn gradients_that_accumulate_are_seen_part_by_part() {
    let w = Variable::new(2.0);
    let (seen, hook) = recorder();
    let hook = w.register_hook(hook);
    for part in [1.0, 10.0] {
        (&w * part + &w * part).backward();
    }
    assert_eq!(*seen.lock().unwrap(), [2.0, 20.0]);
    assert_eq!(w.grad().unwrap().item::<f64>(), 22.0);
    hook.remove();
    w.exp().backward();
    assert_eq!(seen.lock().unwrap().len(), 2);
}
