//! The same Variable passed to two functions and twice to one; clearing and retaining gradients.

use bibun::{GradOptions, Variable};

fn main() {
    // Twice into one function: 2, not 1.
    let x = Variable::new(3.0);
    let y = &x + &x;
    y.backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 2.0);

    // Without clearing, the next gradient adds to the first.
    (&x + &x + &x).backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 5.0);
    x.clear_grad();
    assert!(x.grad().is_none());

    // Into two functions that meet again: y = (x²)² + (x²)², by generations.
    let a = x.square();
    let y = a.square() + a.square();
    y.backward();
    println!(
        "y = {}, dy/dx = {}",
        y.item::<f64>(),
        x.grad().unwrap().item::<f64>()
    );
    assert_eq!(y.item::<f64>(), 162.0);
    assert_eq!(x.grad().unwrap().item::<f64>(), 8.0 * 27.0);

    // Gradients of what lies between are not kept ...
    assert!(a.grad().is_none());
    // ... but where they are asked for, one by one ...
    x.clear_grad();
    let a = x.square();
    a.retain_grad();
    (&a + &a).backward();
    assert_eq!(a.grad().unwrap().item::<f64>(), 2.0);
    // ... or all together.
    let b = &a * 10.0;
    (&b * 1.0).backward_with(&GradOptions {
        retain_grad: true,
        ..GradOptions::new()
    });
    assert_eq!(b.grad().unwrap().item::<f64>(), 1.0);
    assert_eq!(a.grad().unwrap().item::<f64>(), 12.0);
}
