//! Whitening: data are turned and scaled until their covariance is the identity, by the eigenvectors of the covariance, and by
//! its power -1/2, which turns them least. Gradients go through both.

use bibun::array::{Array, DType, Generator, keep_dims};

use bibun::linalg::{cov, eigh, fractional_matrix_power};
use bibun::{Variable, grad};

/// Along the eigenvectors (PCA).
fn by_eigenvectors(x: &Variable) -> Variable {
    let (w, v) = eigh(cov(x, 1));
    let apart = x - x.mean(keep_dims(1));
    (v / w.sqrt().expand_dims(0)).swapaxes(0, 1).matmul(apart)
}

/// As near to the data as can be (ZCA).
fn by_root(x: &Variable) -> Variable {
    let apart = x - x.mean(keep_dims(1));
    fractional_matrix_power(cov(x, 1), -0.5).matmul(apart)
}

/// How far the covariance is from the identity.
fn distance(x: &Variable) -> f64 {
    let n = x.shape()[0];
    let identity = Variable::constant(Array::eye(n, DType::F64));
    (cov(x, 1) - identity).abs().max(..).item::<f64>()
}

fn main() {
    let n = 4;
    let noise = Variable::constant(Generator::new(3).normal([n, 500], 0.0, 1.0, DType::F64));
    let mix = Variable::constant(Generator::new(4).uniform([n, n], -1.0, 1.0, DType::F64));
    let x = Variable::new((mix.matmul(noise) + 5.0).array());
    println!("before: {:.3}", distance(&x));
    assert!(distance(&x) > 0.1);
    let (turned, near) = (by_eigenvectors(&x), by_root(&x));
    for white in [&turned, &near] {
        println!("white: {:.1e}", distance(white));
        assert!(distance(white) < 1e-12);
    }
    let apart = |y: &Variable| {
        (y - (&x - x.mean(keep_dims(1))))
            .square()
            .sum(..)
            .item::<f64>()
    };
    assert!(apart(&near) < apart(&turned));

    // Whitened data do not change with the scale of all data, nor with their place: the gradient has no part in these
    // directions, whichever function is asked.
    let weights = Variable::constant(Generator::new(5).normal([n, 500], 0.0, 1.0, DType::F64));
    for whiten in [by_eigenvectors, by_root] {
        let g = grad(|x| (whiten(x).tanh() * &weights).sum(..), &x);
        let centred = &x - x.mean(keep_dims(1));
        let by_scale = (&g * &centred).sum(..).item::<f64>();
        let by_place = g.sum(1).abs().max(..).item::<f64>();
        let size = g.norm(..).item::<f64>();
        println!(
            "gradient {size:.3}, along the scale {by_scale:.1e}, along the place {by_place:.1e}"
        );
        assert!(size > 1.0 && by_scale.abs() < 1e-9 * size * centred.norm(..).item::<f64>());
        assert!(by_place < 1e-9 * size);
    }
}
