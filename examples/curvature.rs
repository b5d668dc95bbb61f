//! Minima found by second derivatives: Newton's method with the whole Hessian, and a trust-region method
//! that only uses its products with vectors.

use bibun::functions::{dot, zeros_like};
use bibun::{Variable, grad, hessian, hvp, s, value_and_grad};

/// A valley along a parabola; smallest at (1, 1, ..), with 0.
fn rosenbrock(x: &Variable) -> Variable {
    let (a, b) = (x.slice(s![..-1]), x.slice(s![1..]));
    (100 * (b - a.square()).square() + (1 - a).square()).sum(..)
}

/// Smallest at (0, -1), with 3.
fn goldstein_price(x: &Variable) -> Variable {
    let (x, y) = (&x.slice(s![0]), &x.slice(s![1]));
    let a = 19 - 14 * x + 3 * x.pow(2) - 14 * y + 6 * x * y + 3 * y.pow(2);
    let b = 18 - 32 * x + 12 * x.pow(2) + 48 * y - 36 * x * y + 27 * y.pow(2);
    (1 + (x + y + 1).pow(2) * a) * (30 + (2 * x - 3 * y).pow(2) * b)
}

/// To where the gradient would vanish if `f` were a parabola: `x - H⁻¹ g`.
fn newton(f: impl Fn(&Variable) -> Variable, x: &Variable) -> Variable {
    let g = grad(&f, x).to_vec::<f64>();
    let h = hessian(&f, x).to_vec::<f64>();
    let determinant = h[0] * h[3] - h[1] * h[2];
    let step = [h[3] * g[0] - h[1] * g[1], h[0] * g[1] - h[2] * g[0]];
    x - Variable::constant(step) / determinant
}

/// The step to where a parabola with the slope `g` and the curvature of `f` is smallest, by conjugate
/// gradients, or to the border of the region (Steihaug 1983).
fn step(f: impl Fn(&Variable) -> Variable, x: &Variable, g: &Variable, radius: f64) -> Variable {
    let product = |a: &Variable, b: &Variable| dot(a, b).item::<f64>();
    // How far it is from p along d to the border.
    let to_border = |p: &Variable, d: &Variable| {
        let (pp, pd, dd) = (product(p, p), product(p, d), product(d, d));
        ((pd * pd + dd * (radius * radius - pp)).sqrt() - pd) / dd
    };
    let (mut p, mut r, mut d) = (zeros_like(x), g.clone(), -g);
    let mut rr = product(&r, &r);
    let tolerance = rr * rr.sqrt().min(0.25);
    while rr > tolerance {
        let (_, hd) = hvp(&f, x, &d);
        let curvature = product(&d, &hd);
        let next = &p + rr / curvature * &d;
        // Downhill for ever, or out of the region.
        if curvature <= 0.0 || product(&next, &next) >= radius * radius {
            return &p + to_border(&p, &d) * d;
        }
        (p, r) = (next, r + rr / curvature * hd);
        let before = std::mem::replace(&mut rr, product(&r, &r));
        d = rr / before * d - &r;
    }
    p
}

/// Steps in a region that grows and shrinks with how well the parabola foretells the function.
fn minimize(name: &str, f: impl Fn(&Variable) -> Variable, start: Variable) -> Variable {
    let (mut x, mut radius) = (start, 1.0);
    for iteration in 0..200 {
        let (y, g) = value_and_grad(&f, &x);
        let p = step(&f, &x, &g, radius);
        let (_, hp) = hvp(&f, &x, &p);
        let foretold = -dot(&p, g + hp / 2.0).item::<f64>();
        let y = y.item::<f64>();
        // Nothing is left to gain that the value could show.
        if foretold <= f64::EPSILON * (1.0 + y.abs()) {
            println!("{name}: {y:.3e} after {iteration} steps");
            return x + p;
        }
        let gained = y - f(&(&x + &p)).item::<f64>();
        if gained < 0.25 * foretold {
            radius /= 4.0;
        } else if gained > 0.75 * foretold && p.norm(..).item::<f64>() > 0.99 * radius {
            radius *= 2.0;
        }
        if gained > 0.0 {
            x += p;
        }
    }
    panic!("{name}: no minimum found");
}

fn distance(x: &Variable, minimum: &[f64]) -> f64 {
    (x - Variable::constant(minimum)).abs().max(..).item()
}

fn main() {
    // Newton's method leaps, uphill too, and in the end doubles its digits with every step.
    let mut x = Variable::constant([-1.2, 1.0]);
    for iteration in 1..=7 {
        x = newton(rosenbrock, &x);
        let y = rosenbrock(&x).item::<f64>();
        println!("Newton's method, step {iteration}: {y:.3e}");
    }
    assert!(distance(&x, &[1.0, 1.0]) < 1e-10);

    // Far from a minimum the curvature may be negative; the region always leads down.
    let start = Variable::constant([-1.2, 1.0]);
    let x = minimize("Rosenbrock", rosenbrock, start);
    assert!(distance(&x, &[1.0, 1.0]) < 1e-8);

    // There are four minima; from here it is the lowest that is found.
    let start = Variable::constant([0.5, -0.5]);
    let x = minimize("Goldstein-Price", goldstein_price, start);
    assert!(distance(&x, &[0.0, -1.0]) < 1e-8);
    assert!((goldstein_price(&x).item::<f64>() - 3.0).abs() < 1e-12);

    let start = Variable::constant([-1.2, 1.0].repeat(10));
    let x = minimize("Rosenbrock in 20 dimensions", rosenbrock, start);
    assert!(distance(&x, &[1.0; 20]) < 1e-8);
}
