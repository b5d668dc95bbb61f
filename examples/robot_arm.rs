//! A robot arm with six joints: the position of its hand, its change with the angles, and the angles
//! that bring it to a given position and orientation.
//!
//! The pose of the hand is a function of the angles, and its Jacobian is the matrix that Newton's method
//! needs. It also illustrates the chain rule: `J_xz = J_yz J_xy`.

use std::f64::consts::{FRAC_PI_2, TAU};

use bibun::array::{Array, DType, matmul};
use bibun::functions::{atan2, concat, stack};
use bibun::{Variable, jacobian, linearize, s, vmap};

/// What a link does between its joint and the next, after Denavit and Hartenberg: `offset` along the
/// axis of the joint, `length` along the link, and `twist` around it.
fn link(offset: f64, length: f64, twist: f64) -> [[f64; 4]; 4] {
    let (sin, cos) = twist.sin_cos();
    [
        [1.0, 0.0, 0.0, length],
        [0.0, cos, -sin, 0.0],
        [0.0, sin, cos, offset],
        [0.0, 0.0, 0.0, 1.0],
    ]
}

/// The turn of one joint about its axis, as a matrix of homogeneous coordinates.
fn turn(angle: &Variable) -> Variable {
    let (sin, cos) = (angle.sin(), angle.cos());
    let (zero, one) = (Variable::constant(0.0), Variable::constant(1.0));
    let elements = [
        [&cos, &-&sin, &zero, &zero],
        [&sin, &cos, &zero, &zero],
        [&zero, &zero, &one, &zero],
        [&zero, &zero, &zero, &one],
    ];
    stack(elements.concat(), 0).reshape([4, 4])
}

/// Angles `[6]` to the frame of each joint in the one before it, `[6, 4, 4]`.
fn frames(angles: &Variable) -> Variable {
    let links = Variable::constant([
        link(0.089, 0.0, FRAC_PI_2),
        link(0.0, -0.425, 0.0),
        link(0.0, -0.392, 0.0),
        link(0.109, 0.0, FRAC_PI_2),
        link(0.095, 0.0, -FRAC_PI_2),
        link(0.083, 0.0, 0.0),
    ]);
    let joints = (angles.clone(), links);
    vmap(|(angle, link)| turn(angle).matmul(link), &joints)
}

/// Frames to the pose of the hand, `[6]`: x, y, z, roll, pitch, yaw.
fn pose(frames: &Variable) -> Variable {
    let joints = frames.unstack(0);
    let base = joints[0].clone();
    let hand = joints[1..]
        .iter()
        .fold(base, |hand, joint| hand.matmul(joint));
    let element = |i: i32, j: i32| hand.slice(s![i, j]);
    let place = hand.slice(s![..3, 3]);
    let roll = atan2(element(2, 1), element(2, 2));
    let pitch = -element(2, 0).asin();
    let yaw = atan2(element(1, 0), element(0, 0));
    concat([&place, &stack([&roll, &pitch, &yaw], 0)], 0)
}

/// From one pose to another, the short way round. Lengths in the arm's reach are left as they are.
fn difference(to: &Variable, from: &Variable) -> Array {
    let difference = (to - from).array();
    &difference - TAU * (&difference / TAU).round()
}

/// The solution of `a x = b` by elimination, for a positive definite matrix.
fn solve(a: &Array, b: &Array) -> Array {
    let n = b.size();
    let mut rows: Vec<Vec<f64>> = a.to_vec().chunks(n).map(<[f64]>::to_vec).collect();
    let mut x = b.to_vec::<f64>();
    for i in 0..n {
        let (above, below) = rows.split_at_mut(i + 1);
        for (j, row) in below.iter_mut().enumerate() {
            let factor = row[i] / above[i][i];
            row.iter_mut()
                .zip(&above[i])
                .for_each(|(a, b)| *a -= factor * b);
            x[i + 1 + j] -= factor * x[i];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| rows[i][k] * x[k]).sum();
        x[i] = (x[i] - known) / rows[i][i];
    }
    x.into()
}

fn main() {
    let hand = |angles: &Variable| pose(&frames(angles));
    let angles = Variable::constant([0.3, -1.2, 1.5, -0.6, 1.1, 0.2]);

    // By angles, by frames, and one after the other.
    let between = frames(&angles);
    let (j_xy, j_yz) = (jacobian(frames, &angles), jacobian(pose, &between));
    let j_xz = jacobian(hand, &angles);
    let chained = j_yz.tensordot(&j_xy, &[1, 2, 3], &[0, 1, 2]);
    let error = (&chained - &j_xz).abs().max(..).item::<f64>();
    let [yz, xy, xz] = [&j_yz, &j_xy, &j_xz].map(Variable::shape);
    println!("J_yz {yz} times J_xy {xy} is J_xz {xz} up to {error:.1e}");
    assert!(error < 1e-14);

    // Linearised: with half the step comes a quarter of the error.
    let (here, derivative) = linearize(hand, &angles);
    let step = Variable::constant([0.01, -0.02, 0.01, 0.03, 0.02, -0.01]);
    let [whole, half, quarter] = [1.0, 0.5, 0.25].map(|part| {
        let there = hand(&(&angles + part * &step));
        let error = there - &here - derivative.call(&(part * &step));
        error.norm(..).item::<f64>()
    });
    println!("errors of the linear arm: {whole:.1e}, {half:.1e}, {quarter:.1e}");
    assert!((3.5..4.5).contains(&(whole / half)) && (3.5..4.5).contains(&(half / quarter)));

    // The angles for a pose: Newton's method, damped while it is far away.
    let target = Variable::constant([-0.45, -0.25, 0.35, 2.0, 0.4, -2.5]);
    let mut angles = angles;
    let mut missing = difference(&target, &hand(&angles));
    for iteration in 1..=20 {
        let j = jacobian(hand, &angles).array();
        let damping = 0.1 * missing.square().sum(..) * Array::eye(6, DType::F64);
        let damped = matmul(&j.transpose(), &j) + damping;
        angles += solve(&damped, &matmul(&j.transpose(), &missing));
        missing = difference(&target, &hand(&angles));
        let largest = missing.abs().max(..).item::<f64>();
        println!("step {iteration}: {largest:.1e} from the target");
        if largest < 1e-12 {
            println!("angles: {:.4?}", angles.to_vec::<f64>());
            return;
        }
    }
    panic!("the target was not reached");
}
