//! Regression by Gaussian processes: the scales of the kernel are found where the data are most likely, by Newton's
//! method with the gradient and the Hessian of the marginal likelihood, for several data sets at once.

use bibun::array::{DType, Generator};
use bibun::functions::{eye, stack};
use bibun::linalg::{Triangle, cholesky, cholesky_solve, solve, triangular_solve};
use bibun::{Variable, grad, hessian, s, vmap};

const POINTS: usize = 30;
const DATA_SETS: usize = 4;

/// The squared exponential: `variance exp(-(a - b)² / 2 length²)`.
fn kernel(a: &Variable, b: &Variable, length: &Variable, variance: &Variable) -> Variable {
    let distances = a.expand_dims(1) - b.expand_dims(0);
    variance * (-0.5 * (distances / length).square()).exp()
}

/// The covariances of observations, whose noise is independent.
fn covariance(x: &Variable, scales: &Variable) -> Variable {
    let [length, variance, noise] = [0, 1, 2].map(|i| scales.slice(s![i]).exp());
    kernel(x, x, &length, &variance) + noise * eye(POINTS, DType::F64)
}

/// The negative logarithm of the marginal likelihood, by the Cholesky factor of the covariance, without `POINTS log √2π`.
fn loss(x: &Variable, y: &Variable, scales: &Variable) -> Variable {
    let l = cholesky(covariance(x, scales));
    let z = triangular_solve(&l, y, Triangle::Lower);
    0.5 * z.square().sum(..) + l.diagonal(0, [0, 1]).log().sum(..)
}

/// A step of Newton's method, with the Hessian lifted until it is positive, and not longer than 1.
fn step(x: &Variable, y: &Variable, scales: &Variable) -> Variable {
    let f = |scales: &Variable| loss(x, y, scales);
    let g = grad(f, scales);
    let h = hessian(f, scales);
    // Absolute values of eigenvalues: downhill also where there is a saddle.
    let (w, v) = bibun::linalg::eigh(h);
    let step = v.matmul(g.matmul(&v) / (w.abs() + 0.1));
    let length = step.norm(..);
    scales - step / length.maximum(1.0)
}

fn main() {
    let x = Variable::constant(Generator::new(1).uniform([POINTS], -3.0, 3.0, DType::F64));
    let noise = Generator::new(2).normal([DATA_SETS, POINTS], 0.0, 0.1, DType::F64);
    let truths = (1..=DATA_SETS).map(|k| (&x * (0.5 * k as f64)).sin());
    let y = stack(truths, 0) + Variable::constant(noise);

    // All data sets at once: gradients, Hessians and factorisations of a batch.
    let mut scales = Variable::constant(bibun::array::Array::zeros([DATA_SETS, 3], DType::F64));
    let losses = |scales: &Variable| {
        vmap(
            |(y, s): &(Variable, Variable)| loss(&x, y, s),
            &(y.clone(), scales.clone()),
        )
    };
    let before = losses(&scales);
    for _ in 0..30 {
        scales = vmap(
            |(y, s): &(Variable, Variable)| step(&x, y, s),
            &(y.clone(), scales),
        );
    }
    let after = losses(&scales);
    println!("losses {before}\n    -> {after}");
    println!("lengths, variances and noise:\n{}", scales.exp());

    let found = scales.exp().to_vec::<f64>();
    for k in 0..DATA_SETS {
        // The gradient vanishes, and the noise is found: its variance is 0.01.
        let (y, own) = (y.slice(s![k as isize]), scales.slice(s![k as isize]));
        let g = grad(|scales| loss(&x, &y, scales), &own).to_vec::<f64>();
        assert!(g.iter().all(|g| g.abs() < 1e-4), "the gradient is {g:?}");
        let noise = found[k * 3 + 2];
        assert!((0.003..0.03).contains(&noise), "the noise is {noise}");

        // Predictions between the points, by the Cholesky factor and by elimination.
        let at = Variable::constant(bibun::array::Array::from_vec(vec![-1.5, 0.1, 1.2], [3]));
        let all = covariance(&x, &own);
        let beside = kernel(&at, &x, &own.slice(s![0]).exp(), &own.slice(s![1]).exp());
        let mean = beside.matmul(cholesky_solve(&y, cholesky(&all)));
        let same = beside.matmul(solve(&all, &y));
        let truth = (at * (0.5 * (k + 1) as f64)).sin();
        for ((mean, same), truth) in
            (mean.to_vec::<f64>().iter().zip(same.to_vec::<f64>())).zip(truth.to_vec::<f64>())
        {
            assert!((mean - same).abs() < 1e-8);
            assert!((mean - truth).abs() < 0.2, "{mean} instead of {truth}");
        }
    }
    // What varies faster has a shorter length.
    assert!(found[0] > found[3 * (DATA_SETS - 1)]);
}
