//! Derivatives of functions, and functions of numbers that are small beside the cost of calling.

use bibun::array::{Array, DType};
use bibun::functions::{add_at, argmin, matmul, stack};
use bibun::{Variable, grad, hessian, hvp, jacobian, jacobian_forward, s, vmap};

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
    rows.forward("transformations/robot-arm", |[angles]| {
        jacobian_forward(hand, angles)
    });
    rows.forward(
        "transformations/physics-informed",
        |inputs: &[Variable; 7]| {
            let [points, weights @ ..] = inputs;
            grad(|weights| residual(points, weights), &weights.to_vec())
        },
    );
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

/// The joints of a robot's arm: the length of what follows each, and its twist.
const JOINTS: [(f64, f64); 6] = [
    (0.3, 1.5),
    (0.4, 0.0),
    (0.2, 0.1),
    (0.1, 1.5),
    (0.1, -1.5),
    (0.05, 0.0),
];

/// The place and the orientation of the hand, `[4, 4]`, for the angles of the joints.
fn hand(angles: &Variable) -> Variable {
    let turn = |angle: &Variable, (length, twist): (f64, f64)| {
        let (s, c) = (angle.sin(), angle.cos());
        let (up, along) = (twist.sin(), twist.cos());
        let constant = |x: f64| Variable::constant(x as f32);
        let moving = [
            c.clone(),
            -&s * along,
            &s * up,
            &c * length,
            s.clone(),
            &c * along,
            -&c * up,
            &s * length,
        ];
        let still = [0.0, up, along, 0.1 * length, 0.0, 0.0, 0.0, 1.0].map(constant);
        let all: Vec<&Variable> = moving.iter().chain(&still).collect();
        stack(&all, 0).reshape([4, 4])
    };
    let frames = angles.unstack(0);
    let frames = frames.iter().zip(JOINTS);
    let frames = frames.map(|(angle, joint)| turn(angle, joint));
    let hand = frames.reduce(|hand, frame| hand.matmul(frame));
    hand.expect("there are joints")
}

/// The mean square of a small network's second derivatives by its two inputs.
fn residual(points: &Variable, weights: &[Variable]) -> Variable {
    let u = |point: &Variable| {
        let mut layers = weights.chunks_exact(2).peekable();
        let mut h = point.clone();
        while let Some(layer) = layers.next() {
            h = matmul(&layer[0], &h) + &layer[1];
            if layers.peek().is_some() {
                h = h.tanh();
            }
        }
        h.sum(..)
    };
    vmap(|point| hessian(u, point), points).square().mean(..)
}
