//! Rules in place of functions' own: which calls they reach, and in which nestings.

use bibun::functions::{Relu, Tanh, identity, relu, softmax_cross_entropy};
use bibun::{
    Batched, Error, Rules, Variable, attempt, checkpoint, custom, grad, hessian, jvp, linearize,
    vmap,
};

fn doubled() -> Rules {
    Rules::new().vjp("tanh", |cx, gy| {
        let gradients = cx.original_vjp(gy).into_iter();
        gradients.map(|gx| gx.map(|gx| 2.0 * gx)).collect()
    })
}

fn slope(x: f64) -> f64 {
    1.0 - x.tanh().powi(2)
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-14 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn the_rule_in_force_at_the_call_stays_with_it() {
    let x = Variable::new(0.3);
    let before = x.tanh();
    let (inside, early) = doubled().scope(|| {
        before.backward();
        let early = x.grad().unwrap().item::<f64>();
        x.clear_grad();
        (x.tanh(), early)
    });
    close(early, slope(0.3));
    inside.backward();
    close(x.grad().unwrap().item(), 2.0 * slope(0.3));
    x.clear_grad();
    x.tanh().backward();
    close(x.grad().unwrap().item(), slope(0.3));
    assert_eq!(inside.creator().unwrap().name(), "tanh");
}

#[test]
fn rules_hold_in_every_nesting() {
    let x = Variable::constant(0.3);
    let f = |x: &Variable| x.tanh();
    doubled().scope(|| {
        close(grad(f, &x).item(), 2.0 * slope(0.3));
        // The rule is differentiated as it is written: it reads x, and no tanh whose rule it would be.
        let t = 0.3f64.tanh();
        let second = -2.0 * t * slope(0.3);
        close(grad(|x| grad(f, x), &x).item(), 2.0 * second);
        close(
            jvp(|x| grad(f, x), &x, &Variable::constant(1.0)).1.item(),
            2.0 * second,
        );
        close(hessian(f, &x).item(), 2.0 * second);
        let batch = Variable::constant([0.3, -1.0]);
        let by_element = vmap(|x| grad(f, x), &batch).to_vec::<f64>();
        close(by_element[0], 2.0 * slope(0.3));
        close(by_element[1], 2.0 * slope(-1.0));
        let of_sum = grad(|x| vmap(f, x).sum(..), &batch).to_vec::<f64>();
        assert_eq!(of_sum, by_element);
        close(grad(|x| checkpoint(f, x), &x).item(), 2.0 * slope(0.3));
        // Only the reverse rule is replaced.
        close(jvp(f, &x, &Variable::constant(1.0)).1.item(), slope(0.3));
        close(
            linearize(f, &x).1.call(&Variable::constant(1.0)).item(),
            slope(0.3),
        );
    });
    close(grad(f, &x).item(), slope(0.3));
}

#[test]
fn forward_and_batch_rules() {
    let rules = Rules::new()
        .jvp("tanh", |_, dx| vec![dx[0].as_ref().map(|dx| 5.0 * dx)])
        .batch("tanh", |x| {
            vec![Batched {
                value: &x[0].value * 0.0,
                axis: x[0].axis,
            }]
        });
    let (x, one) = (
        Variable::constant([0.3, 0.4]),
        Variable::constant([1.0, 1.0]),
    );
    rules.scope(|| {
        assert_eq!(
            jvp(|x: &Variable| x.tanh(), &x, &one).1.to_vec::<f64>(),
            [5.0, 5.0]
        );
        assert_eq!(
            vmap(|x: &Variable| x.tanh(), &x).to_vec::<f64>(),
            [0.0, 0.0]
        );
    });
    assert_eq!(format!("{rules:?}"), r#"{"tanh": ["jvp", "batch"]}"#);
}

/// What transformations put into history is no call of a user.
#[test]
fn rules_for_the_identity_leave_transformations_alone() {
    let reverse = Rules::new().vjp("identity", |_, gy| vec![Some(-&gy[0])]);
    let x = Variable::constant(2.0);
    let cube = |x: &Variable| x * x * x;
    let second = |x: &Variable| grad(|x| grad(cube, x), x);
    reverse.scope(|| {
        assert_eq!(second(&x).item::<f64>(), 12.0);
        assert_eq!(grad(second, &x).item::<f64>(), 6.0);
        assert_eq!(
            vmap(second, &Variable::constant([2.0])).to_vec::<f64>(),
            [12.0]
        );
        assert_eq!(jvp(second, &x, &x).1.item::<f64>(), 12.0);
        let checked = |x: &Variable| checkpoint(cube, x);
        assert_eq!(grad(|x| grad(checked, x), &x).item::<f64>(), 12.0);
        assert_eq!(grad(|x| identity(x), &x).item::<f64>(), -1.0);
    });
}

#[test]
fn scopes_nest_and_end() {
    let x = Variable::constant(0.3);
    let gradient = || grad(|x: &Variable| relu(x.tanh()), &x).item::<f64>();
    let constant = Rules::new().set::<Tanh>(|_, [_]| [Some(Variable::constant(7.0))]);
    let blocked = Rules::new().set::<Relu>(|_, [_]| [None]);
    doubled().scope(|| {
        constant.scope(|| close(gradient(), 7.0));
        close(gradient(), 2.0 * slope(0.3));
        blocked.scope(|| close(gradient(), 0.0));
        let panicked =
            attempt(|| constant.scope(|| &x + Variable::constant([1.0; 3]).reshape([2, 9])));
        assert!(panicked.is_err());
        close(gradient(), 2.0 * slope(0.3));
    });
    close(gradient(), slope(0.3));
}

#[test]
fn functions_of_any_kind() {
    // Of several inputs, and of a user's own, from closures.
    let logits = Variable::new([[1.0, 2.0]]);
    let labels = Variable::constant([1i64]);
    let rules = Rules::new().vjp("softmax_cross_entropy", |cx, _| {
        let mut gradients = vec![None; cx.input_count()];
        gradients[0] = Some(Variable::constant([[9.0, 9.0]]));
        gradients
    });
    rules.scope(|| softmax_cross_entropy(&logits, &labels).backward());
    assert!(rules.unused().is_empty(), "{:?}", rules.unused());
    assert_eq!(logits.grad().unwrap().to_vec::<f64>(), [9.0, 9.0]);
    let square = custom("my_square", |[x]| x * x);
    let x = Variable::new(3.0);
    let rules = Rules::new().vjp("my_square", |cx, gy| vec![Some(&gy[0] * cx.input(0))]);
    rules.scope(|| square.call([&x])).backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 3.0);
}

#[test]
fn mistakes() {
    let x = Variable::new(0.3);
    let misspelt = Rules::new().vjp("tahn", |_, gy| vec![Some(gy[0].clone())]);
    misspelt.scope(|| x.tanh());
    assert_eq!(misspelt.unused(), ["tahn"]);
    let wrong = Rules::new().vjp("tanh", |_, _| vec![]);
    let error = attempt(|| wrong.scope(|| x.tanh()).backward()).expect_err("an error");
    let message = "tanh: the vjp rule gave 0 Variables, it must give 1";
    assert!(error.to_string().contains(message), "{error}");
    let wrong = Rules::new().vjp("tanh", |_, _| vec![Some(Variable::constant([1.0, 2.0]))]);
    let error = attempt(|| wrong.scope(|| x.tanh()).backward()).expect_err("an error");
    let here = (file!(), line!() - 1);
    let message = "the vjp rule gave [2] f64 for input 0, which is [] f64";
    assert!(error.to_string().contains(message), "{error}");
    let location = error.location();
    assert_eq!((location.file(), location.line()), here, "{error}");
    let own = custom("own", |[x]| x.clone()).vjp(|_, _, gy| [gy.clone()]);
    let again = Rules::new().vjp("own", |cx, gy| cx.original_vjp(gy));
    again.scope(|| own.call([&x])).backward();
    let wrong = Rules::new().jvp("tanh", |_, _| vec![]);
    let error = attempt(|| wrong.scope(|| jvp(|x: &Variable| x.tanh(), &x, &x)));
    let here = (file!(), line!() - 1);
    let error = error.expect_err("an error");
    assert_eq!((error.location().file(), error.location().line()), here);
    let expected = Error::WrongNumber {
        function: "tanh",
        rule: "jvp",
        found: 0,
        expected: 1,
        location: error.location(),
    };
    assert_eq!(error, expected);
}
