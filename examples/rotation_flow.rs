//! A normalising flow with learnt rotations separates three voices: what is recorded are mixtures of independent signals with
//! heavy tails. A layer bends each coordinate, stretches it, and turns all of them by the exponential of a skew matrix, which is a rotation
//! whatever its numbers are. Most likely is the flow whose bends see the voices one by one.
//!
//! Source: A. Hyvärinen and E. Oja, "Independent component analysis: algorithms and applications", 2000.

use bibun::array::{Array, DType, Generator};
use bibun::distributions::bijectors::Bijector;
use bibun::distributions::{
    Distribution, Independent, MultivariateNormal, Normal, Reparameterized, Transformed,
};
use bibun::linalg::{cov, expm, inv, slogdet};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, jacobian, no_grad, s};

/// The number of voices.
const N: usize = 3;

/// `y = r (e^s b(x))` with the rotation `r = exp(t - tᵀ)` and the bend `b(x) = sinh(e^p asinh(x))`, which is nearly linear at zero.
#[derive(Clone, Chain)]
struct Layer {
    turn: Variable,
    stretch: Variable,
    bend: Variable,
}

impl Layer {
    fn new(random: &mut Generator) -> Self {
        let of = |array: Array| Variable::new(array);
        Self {
            turn: of(random.normal([N, N], 0.0, 0.1, DType::F64)),
            stretch: of(Array::zeros([N], DType::F64)),
            bend: of(Array::full([N], 0.1)),
        }
    }

    fn rotation(&self) -> Variable {
        expm(&self.turn - self.turn.swapaxes(0, 1))
    }
}

impl Bijector for Layer {
    fn name(&self) -> &'static str {
        "Layer"
    }

    fn event_rank(&self) -> usize {
        1
    }

    fn forward(&self, x: &Variable) -> Variable {
        let bent = (self.bend.exp() * x.asinh()).sinh();
        (bent * self.stretch.exp()).matmul(self.rotation().swapaxes(0, 1))
    }

    fn inverse(&self, y: &Variable) -> Variable {
        let bent = y.matmul(self.rotation()) * (-&self.stretch).exp();
        (bent.asinh() * (-&self.bend).exp()).sinh()
    }

    fn log_abs_det_jacobian(&self, x: &Variable, _: &Variable) -> Variable {
        let steepness = (self.bend.exp() * x.asinh()).cosh() / (x.square() + 1.0).sqrt();
        let (_, turned) = slogdet(self.rotation());
        (steepness.log() + &self.bend + &self.stretch).sum(-1) + turned
    }
}

/// Laplace's distribution, with variance 1.
fn voices(count: usize, random: &mut Generator) -> Variable {
    let u = random.uniform([count, N], -0.5, 0.5, DType::F64);
    let u = Variable::constant(u);
    u.sign() * -(1.0 - 2.0 * u.abs()).log() * 0.5f64.sqrt()
}

fn main() {
    let random = &mut Generator::new(1);
    let mix = Variable::constant(Array::from([
        [1.0, 0.6, -0.3],
        [-0.4, 1.2, 0.8],
        [0.5, -0.7, 0.9],
    ]));
    let recorded = |voices: &Variable| voices.matmul(mix.swapaxes(0, 1));
    let (train, test) = (
        recorded(&voices(4000, random)),
        recorded(&voices(4000, random)),
    );

    // A bend, and any matrix by its singular values: two rotations with a stretch in between.
    let layers = vec![Layer::new(random), Layer::new(random)];
    let base = Independent::new(Normal::new([0.0; N], 1.0), 1);
    let flow = Transformed::new(base, layers);
    let loss = |x: &Variable| -flow.log_prob(x).mean(..);
    let mut optimizer = Adam::new(0.03);
    for step in 0..600 {
        optimizer.set_learning_rate(0.03 * (1.0 - f64::from(step) / 600.0));
        if step % 100 == 0 {
            let loss = no_grad(|| loss(&test)).item::<f64>();
            println!("step {step:3}: {loss:.3} nats a point");
        }
        let at = (step as isize * 500) % 4000;
        let batch = train.slice(s![at..at + 500, ..]);
        optimizer.minimize(&flow.bijector, &mut || loss(&batch));
    }

    // A normal distribution sees covariances and nothing else.
    let normal = MultivariateNormal::new([0.0; N], cov(train.swapaxes(0, 1), 1));
    let of_normal = -normal.log_prob(&test).mean(..).item::<f64>();
    let of_flow = no_grad(|| loss(&test)).item::<f64>();
    // The mixed voices themselves.
    let (_, log) = slogdet(&mix);
    let apart = test.matmul(inv(&mix).swapaxes(0, 1));
    let laplace = (2f64.sqrt() * apart.abs() + 0.5 * 2f64.ln())
        .sum(-1)
        .mean(..);
    let best = (laplace + log).item::<f64>();
    println!(
        "a normal distribution {of_normal:.3}, the flow {of_flow:.3}, the truth {best:.3} nats a point"
    );
    assert!(of_flow < of_normal - 0.2 && of_flow < best + 0.05);

    // The stretching it reckons with is that of its Jacobian, and the rotations are rotations.
    let point = test.slice(s![0]);
    let x = flow.bijector.inverse(&point).detach();
    let (_, of_jacobian) = slogdet(jacobian(|x: &Variable| flow.bijector.forward(x), &x));
    let of_layers = flow.bijector.log_abs_det_jacobian(&x, &point);
    assert!((of_jacobian - of_layers).item::<f64>().abs() < 1e-9);
    for layer in &flow.bijector {
        let r = layer.rotation();
        let error = r.matmul(r.swapaxes(0, 1)) - Variable::constant(Array::eye(N, DType::F64));
        assert!(error.abs().max(..).item::<f64>() < 1e-13);
    }
    let samples = no_grad(|| flow.rsample([1000], random));
    let back = no_grad(|| flow.bijector.forward(&flow.bijector.inverse(&samples)));
    let error = ((back - &samples).abs() / (samples.abs() + 1.0))
        .max(..)
        .item::<f64>();
    assert!(
        error < 1e-9,
        "the inverse of the inverse is off by {error:.1e}"
    );

    // Each coordinate before the flow is one voice, bent: the derivative by voices has one large element in each row.
    let unmixing = jacobian(|y: &Variable| flow.bijector.inverse(y), &(point * 0.0)).matmul(&mix);
    println!("from voices to coordinates:\n{unmixing:.2}");
    let rows = unmixing.abs().to_vec::<f64>();
    let mut heard = Vec::new();
    for row in rows.chunks(N) {
        let most = (0..N)
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .expect("three voices");
        let others = row.iter().sum::<f64>() - row[most];
        assert!(others < 0.2 * row[most], "{row:?}");
        heard.push(most);
    }
    heard.sort_unstable();
    assert_eq!(heard, [0, 1, 2], "each voice is heard once");
}
