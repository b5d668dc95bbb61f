//! Gradients at (1, 1) of three test functions for optimizers.

use bibun::Variable;

fn sphere(x: &Variable, y: &Variable) -> Variable {
    x.pow(2) + y.pow(2)
}

fn matyas(x: &Variable, y: &Variable) -> Variable {
    0.26 * (x.pow(2) + y.pow(2)) - 0.48 * x * y
}

fn goldstein_price(x: &Variable, y: &Variable) -> Variable {
    let a = 19 - 14 * x + 3 * x.pow(2) - 14 * y + 6 * x * y + 3 * y.pow(2);
    let b = 18 - 32 * x + 12 * x.pow(2) + 48 * y - 36 * x * y + 27 * y.pow(2);
    (1 + (x + y + 1).pow(2) * a) * (30 + (2 * x - 3 * y).pow(2) * b)
}

fn main() {
    let (x, y) = (Variable::new(1.0), Variable::new(1.0));
    type Case = (
        &'static str,
        fn(&Variable, &Variable) -> Variable,
        (f64, f64),
    );
    let cases: [Case; 3] = [
        ("Sphere", sphere, (2.0, 2.0)),
        ("Matyas", matyas, (0.04, 0.04)),
        ("Goldstein-Price", goldstein_price, (-5376.0, 8064.0)),
    ];
    for (name, f, expected) in cases {
        x.clear_grad();
        y.clear_grad();
        f(&x, &y).backward();
        let gx = x.grad().unwrap().item::<f64>();
        let gy = y.grad().unwrap().item::<f64>();
        println!("{name}: ({gx}, {gy})");
        assert!((gx - expected.0).abs() < 1e-12 && (gy - expected.1).abs() < 1e-12);
    }
}
