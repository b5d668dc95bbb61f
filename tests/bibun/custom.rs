//! Functions from closures: every rule, in every nesting.

use bibun::{GradOptions, Variable, VmapOptions, custom, gradients_with, jvp, vmap_with};

fn cube() -> bibun::Custom<1> {
    custom("cube", |[x]| x * x * x).vjp(|[x], _, gy| [3.0 * x * x * gy])
}

fn derivative(y: &Variable, x: &Variable) -> Variable {
    let gradients = gradients_with(&[y], &[x], &GradOptions::create_graph());
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
fn lanes() {
    let scale = custom("scale", |[x, s]| x * s).vjp(|[x, s], _, gy| [gy * s, (gy * x).sum(..)]);
    let x = Variable::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let s = Variable::new(10.0);
    let axes = VmapOptions::axes((1, None));
    let y = vmap_with(|(x, s)| scale.call([x, s]), &(x.clone(), s.clone()), &axes);
    assert_eq!(y.to_vec::<f64>(), [10.0, 30.0, 50.0, 20.0, 40.0, 60.0]);
    (&y * &y).sum(..).backward();
    assert_eq!(s.grad().unwrap().item::<f64>(), 2.0 * 10.0 * 91.0);
    assert_eq!(
        x.grad().unwrap().to_vec::<f64>(),
        [200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
    );
}
