//! y = x1 x2 + sin x1 at (2, 5), whose gradients are 5 + cos 2 and 2.

use bibun::Variable;

fn main() {
    let x1 = Variable::new(2.0);
    let x2 = Variable::new(5.0);
    let y = &x1 * &x2 + x1.sin();
    y.backward();
    let (g1, g2) = (
        x1.grad().unwrap().item::<f64>(),
        x2.grad().unwrap().item::<f64>(),
    );
    println!("y = {}, dy/dx1 = {g1}, dy/dx2 = {g2}", y.item::<f64>());
    assert!((y.item::<f64>() - (10.0 + 2f64.sin())).abs() < 1e-14);
    assert!((g1 - (5.0 + 2f64.cos())).abs() < 1e-14);
    assert_eq!(g2, 2.0);
}
