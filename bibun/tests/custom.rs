//! Functions from closures: every rule, in every nesting.

use bibun::{GradOptions, Variable, custom, grad_with, jvp, vmap};

fn cube() -> bibun::Custom<1> {
    custom(
        "cube",
        |[x]: [&Variable; 1]| x * x * x,
        |[x], _, gy| [3.0 * x * x * gy],
    )
}

fn derivative(y: &Variable, x: &Variable) -> Variable {
    let gradients = grad_with(&[y], &[x], &GradOptions::create_graph());
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
    let f = |x: &[Variable]| vec![cube().call([&x[0]])];
    let one = Variable::constant(1.0);
    let (_, dy) = jvp(f, &[x.clone()], &[one.clone()]);
    let dy = dy[0].clone().unwrap();
    assert_eq!(dy.item::<f64>(), 12.0);
    assert_eq!(derivative(&dy, &x).item::<f64>(), 12.0);
    let twice = |x: &[Variable]| vec![jvp(f, x, &[one.clone()]).1[0].clone().unwrap()];
    let (_, ddy) = jvp(twice, &[x], &[one.clone()]);
    assert_eq!(ddy[0].clone().unwrap().item::<f64>(), 12.0);
}

#[test]
fn lanes() {
    let scale = custom(
        "scale",
        |[x, s]: [&Variable; 2]| x * s,
        |[x, s], _, gy| [gy * s, (gy * x).sum(..)],
    );
    let x = Variable::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let s = Variable::new(10.0);
    let y = vmap(
        |v| vec![scale.call([&v[0], &v[1]])],
        &[x.clone(), s.clone()],
        &[Some(1), None],
    );
    assert_eq!(y[0].to_vec::<f64>(), [10.0, 30.0, 50.0, 20.0, 40.0, 60.0]);
    (&y[0] * &y[0]).sum(..).backward();
    assert_eq!(s.grad().unwrap().item::<f64>(), 2.0 * 10.0 * 91.0);
    assert_eq!(
        x.grad().unwrap().to_vec::<f64>(),
        [200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
    );
}
