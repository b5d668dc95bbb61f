//! What a transformation costs above the code that it stands for: `grad` beside `backward`, `jvp`
//! beside the function, `vmap` beside code that was written for batches.
//!
//! `cargo bench -p bibun-benches --bench transformations`. Both run in turns; the ratio is the median of the
//! ratios of the turns. Limits: `grad` does the same arithmetic (1), `jvp` twice that of products
//! and sums and as much as the formula of the derivative takes elsewhere (about 2 to 3), `vmap` the
//! same (1).

use std::hint::black_box;
use std::time::Instant;

use bibun::array::{DType, Generator};
use bibun::functions::{relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::{Tree, Variable, grad, jvp, no_grad, value_and_grad, vmap};

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

impl Mlp {
    fn new(sizes: [usize; 4], random: &mut Generator) -> Self {
        let [a, b, c, d] = sizes;
        Self {
            l1: Linear::new(a, b, random),
            l2: Linear::new(b, c, random),
            l3: Linear::new(c, d, random),
        }
    }

    fn loss(&self, x: &Variable, t: &Variable) -> Variable {
        softmax_cross_entropy(self.forward(x), t)
    }
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        self.l3
            .forward(&relu(self.l2.forward(&relu(self.l1.forward(x)))))
    }
}

/// Runs both in turns and prints the median of the ratios of their times.
fn compare(name: &str, limit: f64, mut plain: impl FnMut(), mut transformed: impl FnMut()) {
    let time = |f: &mut dyn FnMut(), calls: usize| {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        start.elapsed().as_secs_f64() / calls as f64
    };
    time(&mut plain, 3);
    time(&mut transformed, 3);
    // Turns of about two milliseconds.
    let calls = (2e-3 / time(&mut plain, 3)).ceil().clamp(1.0, 1e6) as usize;
    let mut turns: Vec<[f64; 2]> = (0..301)
        .map(|_| [time(&mut plain, calls), time(&mut transformed, calls)])
        .collect();
    let mut median = |key: fn(&[f64; 2]) -> f64| {
        turns.sort_by(|a, b| key(a).total_cmp(&key(b)));
        key(&turns[turns.len() / 2])
    };
    let (plain, transformed) = (median(|t| t[0] * 1e6), median(|t| t[1] * 1e6));
    let ratio = median(|t| t[1] / t[0]);
    println!("{name:<48} {plain:>9.1} {transformed:>9.1} {ratio:>7.2} {limit:>6.2}");
}

fn main() {
    println!(
        "{:<48} {:>9} {:>9} {:>7} {:>6}",
        "", "plain µs", "µs", "ratio", "aim"
    );
    let random = &mut Generator::new(0);
    let batch = 128;
    for sizes in [[784, 100, 100, 10], [8, 16, 16, 4]] {
        let model = Mlp::new(sizes, random);
        let x = Variable::constant(random.uniform([batch, sizes[0]], 0.0, 1.0, DType::F32));
        let t = Variable::constant(random.integers(0, sizes[3] as i64, [batch]));
        let name = |what: &str| format!("{what}, {sizes:?}, {batch} examples");

        let backward = || {
            model.clear_grads();
            model.loss(&x, &t).backward();
        };
        let transformed = || {
            black_box(value_and_grad(|model| model.loss(&x, &t), &model));
        };
        compare(&name("grad / backward"), 1.1, backward, transformed);

        let direction = grad(|model| model.loss(&x, &t), &model);
        let constant = model.map(&mut bibun::Mapper::new(&mut |w, _| w.detach()));
        let forward = || {
            black_box(no_grad(|| model.loss(&x, &t)));
        };
        let transformed = || {
            black_box(no_grad(|| {
                jvp(|model| model.loss(&x, &t), &model, &direction)
            }));
        };
        compare(&name("jvp / forward"), 2.5, forward, transformed);

        let batched = || {
            black_box(constant.forward(&x));
        };
        let transformed = || {
            black_box(vmap(|x| constant.forward(x), &x));
        };
        compare(&name("vmap / batched"), 1.2, batched, transformed);

        let batched = || {
            black_box(grad(|model| model.loss(&x, &t), &model));
        };
        let pairs = (x.clone(), t.clone());
        let transformed = || {
            let mean = |model: &Mlp| vmap(|(x, t)| one(model, x, t), &pairs).mean(..);
            black_box(grad(mean, &model));
        };
        compare(
            &name("grad of vmap / grad of batched"),
            1.2,
            batched,
            transformed,
        );
    }

    let x = Variable::new(0.3);
    let f = |x: &Variable| {
        let mut y = x.clone();
        for _ in 0..20 {
            y = y.sin() * x;
        }
        y
    };
    let backward = || {
        x.clear_grad();
        f(&x).backward();
    };
    let transformed = || {
        black_box(grad(f, &x));
    };
    compare(
        "grad / backward, 40 scalar functions",
        1.1,
        backward,
        transformed,
    );
    let (constant, one) = (Variable::constant(0.3), Variable::constant(1.0));
    let forward = || {
        black_box(f(&constant));
    };
    let transformed = || {
        black_box(jvp(f, &constant, &one));
    };
    compare(
        "jvp / forward, 40 scalar functions",
        2.5,
        forward,
        transformed,
    );
    let xs = Variable::constant(random.uniform([1000], 0.0, 1.0, DType::F64));
    let batched = || {
        black_box(f(&xs));
    };
    let transformed = || {
        black_box(vmap(f, &xs));
    };
    compare(
        "vmap / batched, 40 functions of 1000",
        1.2,
        batched,
        transformed,
    );
    let forward = || {
        black_box(f(&xs));
    };
    let ones = Variable::constant(random.uniform([1000], 0.0, 1.0, DType::F64));
    let transformed = || {
        black_box(jvp(f, &xs, &ones));
    };
    compare(
        "jvp / forward, 40 functions of 1000",
        2.5,
        forward,
        transformed,
    );
}

/// The loss of one example.
fn one(model: &Mlp, x: &Variable, t: &Variable) -> Variable {
    softmax_cross_entropy(model.forward(&x.expand_dims(0)), t.expand_dims(0))
}
