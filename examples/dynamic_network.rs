//! A network whose branches, depth and layers are decided by the data while it runs.

use bibun::functions::{identity, relu};
use bibun::{GradOptions, Variable, gradients_with};

/// Doubles until the norm passes 100, then takes one branch or the other.
fn network(x: &Variable, w: &Variable) -> (Variable, usize) {
    let mut h = x * w;
    let mut layers = 0;
    while h.square().sum(..).item::<f64>() < 100.0 {
        h = if layers % 2 == 0 {
            h * 2.0
        } else {
            relu(&h) + identity(&h)
        };
        layers += 1;
    }
    let y = if h.sum(..).item::<f64>() > 0.0 {
        h.sum(..)
    } else {
        h.square().sum(..)
    };
    (y, layers)
}

fn main() {
    let w = Variable::new([0.5, -0.25]);
    let mut depths = Vec::new();
    for data in [[1.0, 1.0], [20.0, 30.0], [-12.0, 8.0]] {
        let x = Variable::constant(data);
        w.clear_grad();
        let (y, layers) = network(&x, &w);
        y.backward();
        depths.push(layers);
        let found = w.grad().unwrap().to_vec::<f64>();
        // The branches taken stay the same nearby, so differences tell the same gradient.
        for i in 0..2 {
            let moved = |step: f64| {
                let mut at = [0.5, -0.25];
                at[i] += step;
                network(&x, &Variable::new(at)).0.item::<f64>()
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((found[i] - difference).abs() < 1e-5 * found[i].abs().max(1.0));
        }
        // And it can be differentiated again.
        let gradient = gradients_with(
            &[&network(&x, &w).0],
            &[&w],
            GradOptions::new().create_graph(),
        );
        assert!(
            gradient[0].as_ref().unwrap().requires_grad() || y.creator().unwrap().name() == "sum"
        );
        println!("{data:?}: {layers} layers, gradient {found:?}");
    }
    assert_eq!(depths[1], 0);
    assert!(depths[0] > depths[2] && depths[2] > 0);
}
