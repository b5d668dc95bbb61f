//! Derivatives of functions, and functions of numbers that are small beside the cost of calling.

use bibun::array::{Array, DType};
use bibun::functions::{add_at, argmin, matmul};
use bibun::{Variable, grad, hessian, hvp, jacobian, s, vmap};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    let energy = |w: &Variable, x: &Variable| matmul(w, x).tanh().square().sum(..);
    rows.forward("transformations/hvp-100", move |[w, x, v]| {
        hvp(|x| energy(w, x), x, v).1
    });
    rows.forward("transformations/hvp-1000", move |[w, x, v]| {
        hvp(|x| energy(w, x), x, v).1
    });
    rows.forward("transformations/hessian-30", |[x]| hessian(rosenbrock, x));
    rows.forward("transformations/jacobian-10-to-1000", |[w, x]| {
        jacobian(|x| matmul(w, x).tanh(), x)
    });
    rows.forward("transformations/jacobian-1000-to-10", |[w, x]| {
        jacobian(|x| matmul(w, x).tanh(), x)
    });
    rows.forward("transformations/vmap-grad-128", move |[w, xs]| {
        vmap(|x| grad(|x| energy(w, x), x), xs)
    });
    rows.gradient("transformations/goldstein-price-point", |[x, y]| {
        goldstein_price(x, y)
    });
    rows.gradient("transformations/goldstein-price-10^6", |[x, y]| {
        goldstein_price(x, y)
    });
    rows.forward("transformations/k-means", |[points, centers]| {
        let distances = centers.square().sum(1) - 2.0 * matmul(points, centers.transpose());
        let nearest = argmin(distances, 1);
        let zeros = Array::zeros(centers.shape(), DType::F32);
        let sums = add_at(zeros, &nearest, 0, points);
        let ones = Array::ones([points.shape()[0]], DType::F32);
        let counts = add_at(
            Array::zeros([centers.shape()[0]], DType::F32),
            &nearest,
            0,
            ones,
        );
        sums / counts.maximum(1.0).expand_dims(1)
    });
}

fn rosenbrock(x: &Variable) -> Variable {
    let (head, tail) = (x.slice(s![..-1]), x.slice(s![1..]));
    (100.0 * (tail - head.square()).square() + (1.0 - head).square()).sum(..)
}

/// The function of Goldstein and Price, at each element.
fn goldstein_price(x: &Variable, y: &Variable) -> Variable {
    let sum = (x + y + 1.0).square();
    let difference = (2.0 * x - 3.0 * y).square();
    let a = 19.0 - 14.0 * x + 3.0 * x.square() - 14.0 * y + 6.0 * x * y + 3.0 * y.square();
    let b = 18.0 - 32.0 * x + 12.0 * x.square() + 48.0 * y - 36.0 * x * y + 27.0 * y.square();
    (1.0 + sum * a) * (30.0 + difference * b)
}
