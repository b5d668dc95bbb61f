//! The rules of compiled functions are programs, too: what they compute has the bits of the function
//! itself, and the function does not run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bibun::array::{Array, DType, Generator};
use bibun::functions::{
    dropout, layer_normalization, linear, random_bernoulli, random_normal, random_uniform, relu,
    take, where_,
};
use bibun::links::{Chain, Conv2d, Dropout, Embedding, Linear, Link};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{
    Compiled, GradOptions, PerExample, Tree, Variable, attempt, checkpoint, compile, cond,
    eval_mode, fori_loop, grad, gradients, gradients_with, history, jacobian, jvp, no_grad,
    per_example, per_example_with, scan, vmap, while_loop,
};

fn normal(shape: &[usize], stream: u64) -> Variable {
    let mut generator = Generator::new(7).split(stream);
    Variable::constant(generator.normal(shape, 0.0, 1.0, DType::F32))
}

#[track_caller]
fn same_bits(a: &Variable, b: &Variable) {
    assert!(a.array().has_same_bits(&b.array()), "{a:?} is not {b:?}");
}

#[track_caller]
fn all_the_same_bits<T: Tree>(a: &T, b: &T) {
    let location = std::panic::Location::caller();
    let _ = bibun::tree_zip(
        |a, b| {
            let same = a.array().has_same_bits(&b.array());
            assert!(same, "{location}: {a:?} is not {b:?}");
            a.clone()
        },
        a,
        b,
    );
}

/// Sums whose terms come from several ways back may be added up in another order.
#[track_caller]
fn all_close<T: Tree>(a: &T, b: &T) {
    let _ = bibun::tree_zip(
        |a, b| {
            let error = (a - b).abs().max(..).item::<f32>();
            let size = b.abs().max(..).item::<f32>();
            assert!(error <= 1e-5 * size, "{a:?} is not {b:?}");
            a.clone()
        },
        a,
        b,
    );
}

/// Losses of weights and examples.
type Losses = Arc<dyn Fn(&(Variable, Variable)) -> Variable + Send + Sync>;

/// A function that counts how often it runs.
fn counted<A, Y>(
    f: impl Fn(&A) -> Y + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, impl Fn(&A) -> Y + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&runs);
    let f = move |x: &A| {
        own.fetch_add(1, Ordering::Relaxed);
        f(x)
    };
    (runs, f)
}

/// Everything that gradients of examples are asked for.
#[track_caller]
fn same_examples<T: Tree>(a: &PerExample<'_, T>, b: &PerExample<'_, T>) {
    all_the_same_bits(&a.rows(), &b.rows());
    same_bits(&a.norms(), &b.norms());
    all_the_same_bits(&a.sum(), &b.sum());
    all_the_same_bits(&a.clipped_sum(0.5), &b.clipped_sum(0.5));
    same_bits(&a.gram(), &b.gram());
    all_the_same_bits(&a.second_moment(), &b.second_moment());
    let rows = [a, b].map(|x| format!("{:?}", x.sparse_rows()));
    assert_eq!(rows[0], rows[1]);
}

/// Parameters of many kinds: picked rows, kernels of convolutions, biases, one weight used twice.
#[derive(Chain)]
struct Model {
    words: Embedding,
    conv: Conv2d,
    hidden: Linear,
    scale: Variable,
}

impl Model {
    fn new() -> Self {
        let g = &mut Generator::new(1);
        Self {
            words: Embedding::new(9, 6, g),
            conv: Conv2d::new(1, 2, [3, 3], g),
            hidden: Linear::new(6, 6, g),
            scale: Variable::new(normal(&[6], 3).array()),
        }
    }

    /// The loss of each example, from words `[n, l]` and images `[n, 1, h, w]`.
    fn losses(&self, words: &Variable, images: &Variable) -> Variable {
        let h = self.words.forward(words).mean(1);
        let h = relu(self.hidden.forward(&h));
        let h = self.hidden.forward(&h).tanh() * &self.scale;
        let h = layer_normalization(h, -1, None, None, 1e-5);
        let y = self.conv.forward(images).sin().sum([2, 3]);
        (h * self.scale.exp()).sum(1) + y.square().sum(1)
    }
}

type Input = (Arc<Model>, Variable, Variable);

fn inputs(model: &Arc<Model>, step: u64, n: usize) -> Input {
    let words = Generator::new(step).integers(0, 9, [n, 4]);
    (
        Arc::clone(model),
        Variable::constant(words),
        normal(&[n, 1, 5, 5], step),
    )
}

fn losses((model, words, images): &Input) -> Variable {
    model.losses(words, images)
}

#[test]
fn gradients_of_examples_are_a_program() {
    let model = Arc::new(Model::new());
    let (runs, f) = counted(losses);
    let compiled = compile(f);
    for step in 0..4 {
        let x = inputs(&model, step, 5);
        let (own, eager) = (compiled.call(&x), losses(&x));
        same_bits(&own, &eager);
        same_examples(&per_example(&own, &*model), &per_example(&eager, &*model));
    }
    // The losses with what their way back needs, and the way back.
    assert_eq!((runs.load(Ordering::Relaxed), compiled.traces()), (1, 2));
    let text = compiled.to_string();
    assert!(text.contains("gradients of examples of"), "{text}");
    // Another number of examples is another program; functions of the losses are part of the walk.
    for step in 0..2 {
        let x = inputs(&model, step, 3);
        let of = |losses: Variable| (losses * 0.5).tanh();
        let (own, eager) = (of(compiled.call(&x)), of(losses(&x)));
        same_examples(&per_example(&own, &*model), &per_example(&eager, &*model));
        // Of some of the parameters.
        let hidden = &model.hidden;
        same_examples(&per_example(&own, hidden), &per_example(&eager, hidden));
    }
    assert_eq!((runs.load(Ordering::Relaxed), compiled.traces()), (2, 5));
    // One walk does not disturb the other.
    let x = inputs(&model, 9, 5);
    let own = compiled.call(&x);
    own.sum(..).backward();
    let gradient = model.hidden.weight.grad().expect("a gradient");
    model.clear_grads();
    losses(&x).sum(..).backward();
    same_bits(&gradient, &model.hidden.weight.grad().expect("a gradient"));
    same_examples(
        &per_example(&own, &*model),
        &per_example(&losses(&x), &*model),
    );
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[test]
fn gradients_of_examples_can_be_differentiated_and_nested() {
    // The gradient of the norms of gradients.
    let f = |(w, x): &(Variable, Variable)| (x.matmul(w).tanh() * x.matmul(w)).sum(1);
    let (runs, own) = counted(f);
    let compiled = Arc::new(compile(own));
    let (w, x) = (normal(&[4, 3], 1), normal(&[5, 4], 2));
    let norms = |f: &dyn Fn(&(Variable, Variable)) -> Variable, at: &(Variable, Variable)| {
        let options = GradOptions::new().create_graph();
        per_example_with(&f(at), &at.0, options).norms()
    };
    let penalty = |f: &dyn Fn(&(Variable, Variable)) -> Variable, scale: f64| {
        grad(|w| norms(f, &(w.clone(), scale * &x)).square().sum(..), &w)
    };
    for scale in [1.0, 0.5, 2.0] {
        let own = penalty(&|at| compiled.call(at), scale);
        same_bits(&own, &penalty(&f, scale));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    // Tangents of them, batches of them, and all of it in one program.
    let own = Arc::clone(&compiled);
    let of = |f: Losses| {
        let rows = move |(w, x): &(Variable, Variable)| {
            let w = bibun::functions::watch(w);
            let options = GradOptions::new().create_graph();
            per_example_with(&f(&(w.clone(), x.clone())), &w, options).rows()
        };
        let rows = Arc::new(rows);
        let (at, along) = ((w.clone(), x.clone()), (w.sin(), x.cos()));
        let tangent = jvp(|at| rows(at), &at, &along);
        let stacked = (normal(&[3, 4, 3], 4), normal(&[3, 5, 4], 5));
        let batch = vmap(|at| rows(at), &stacked);
        let again = Arc::clone(&rows);
        let recomputed = grad(
            |at| {
                let again = Arc::clone(&again);
                let sum = move |at: &(Variable, Variable)| again(at).square().sum(..);
                checkpoint(sum, at)
            },
            &at,
        );
        let again = Arc::clone(&rows);
        let whole = compile(move |at: &(Variable, Variable)| again(at)).call(&at);
        ((tangent, batch, whole), recomputed)
    };
    let (found, recomputed) = of(Arc::new(move |at| own.call(at)));
    let eager = of(Arc::new(f));
    all_the_same_bits(&found, &eager.0);
    all_close(&recomputed, &eager.1);
    // Checkpoints around and inside.
    let outside = |f: Losses| {
        let w = Variable::new(w.array());
        let own = Arc::clone(&f);
        let y = checkpoint(
            move |at: &(Variable, Variable)| own(at),
            &(w.clone(), x.clone()),
        );
        let direct = f(&(w.clone(), x.clone()));
        [y, direct].map(|y| per_example(&y, &w).rows())
    };
    let inside = Arc::new(compile(move |at: &(Variable, Variable)| checkpoint(f, at)));
    let eager = outside(Arc::new(f));
    let own = Arc::clone(&compiled);
    all_the_same_bits(&outside(Arc::new(move |at| own.call(at))), &eager);
    all_the_same_bits(&outside(Arc::new(move |at| inside.call(at))), &eager);
    // Compiled in compiled.
    let outer = Arc::new(compile(move |at: &(Variable, Variable)| compiled.call(at)));
    all_the_same_bits(&outside(Arc::new(move |at| outer.call(at))), &eager);
}

#[test]
fn examples_that_only_values_tell_apart_are_found_by_the_function() {
    // The indices say which example is where.
    let order = [3i64, 0, 2, 1];
    let f = |(w, x, order): &(Variable, Variable, Variable)| {
        let h = bibun::functions::take(&(x * w), order, 0);
        h.sin().sum(1)
    };
    let compiled = compile(f);
    let (w, x) = (Variable::new(normal(&[3], 1).array()), normal(&[4, 3], 2));
    for shift in 0..3 {
        let order = order.map(|i| (i + shift) % 4);
        let at = (w.clone(), x.clone(), Variable::constant(order));
        let (own, eager) = (compiled.call(&at), f(&at));
        same_examples(&per_example(&own, &w), &per_example(&eager, &w));
    }
    // What mixes examples is the same error.
    let mixed = |(w, x): &(Variable, Variable)| {
        let h = x * w;
        (&h - h.mean(0)).square().sum(1)
    };
    let at = (w.clone(), x);
    let compiled = compile(mixed);
    for _ in 0..2 {
        let errors = [compiled.call(&at), mixed(&at)]
            .map(|losses| attempt(|| per_example(&losses, &w).norms()).unwrap_err());
        assert_eq!(errors[0].to_string(), errors[1].to_string());
        assert!(errors[0].to_string().contains("examples are mixed"));
    }
}

#[test]
fn gradients_of_examples_belong_to_their_mode_and_thread() {
    let g = &mut Generator::new(4);
    let net = Arc::new((Linear::new(3, 4, g), Dropout::new(0.5, g)));
    type Net = (Arc<(Linear, Dropout)>, Variable);
    let f = |(net, x): &Net| net.1.forward(&net.0.forward(x)).square().sum(-1);
    let (runs, own) = counted(f);
    let compiled = compile(own);
    let norms = |losses: &Variable| per_example(losses, &net.0).norms();
    let eager: Vec<Array> = (0..4)
        .map(|i| norms(&eval_mode(|| f(&(Arc::clone(&net), normal(&[6, 3], i))))).array())
        .collect();
    std::thread::scope(|threads| {
        for (i, expected) in (0..).zip(&eager) {
            let (compiled, net, norms) = (&compiled, &net, &norms);
            threads.spawn(move || {
                for _ in 0..8 {
                    let x = (Arc::clone(net), normal(&[6, 3], i));
                    let found = norms(&eval_mode(|| compiled.call(&x)));
                    assert!(found.array().has_same_bits(expected));
                    // Training in between draws masks, and is another program.
                    norms(&compiled.call(&x));
                }
            });
        }
    });
    // Several threads may trace at the same time, and no run is a trace.
    assert!(runs.load(Ordering::Relaxed) <= 8);
    let x = (Arc::clone(&net), normal(&[6, 3], 9));
    let losses = no_grad(|| compiled.call(&x));
    assert!(attempt(|| per_example(&losses, &net.0).norms()).is_err());
}

#[test]
fn gradients_of_gradients_compute_nothing_twice() {
    let f = |(x, w): &(Variable, Variable)| {
        let h = x.matmul(w).tanh();
        (h.matmul(w.transpose()).sin() * x).sum(..)
    };
    let (runs, own) = counted(f);
    let compiled = compile(own);
    let at = (normal(&[3, 4], 1), normal(&[4, 5], 2));
    type Of<'a> = &'a dyn Fn(&(Variable, Variable)) -> Variable;
    let second = |f: Of<'_>, scale: f64| {
        let at = (scale * &at.0, at.1.clone());
        grad(
            |at| {
                let (gx, gw) = grad(f, at);
                gx.square().sum(..) + gw.sin().sum(..)
            },
            &at,
        )
    };
    for scale in [1.0, 0.5, 0.25] {
        let own = second(&|at| compiled.call(at), scale);
        all_the_same_bits(&own, &second(&f, scale));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let text = compiled.to_string();
    let products = |title: &str| {
        let listed = text.split("\n\n").find(|listed| listed.starts_with(title));
        let listed = listed.unwrap_or_else(|| panic!("no {title}: {text}"));
        listed.matches("gemm(").count()
    };
    // Two products, two for the gradient of each, and two for the gradient of each of all these.
    assert_eq!(products("value before its gradient"), 2, "{text}");
    assert_eq!(products("gradient before its gradient"), 4, "{text}");
    assert_eq!(products("gradient of"), 12, "{text}");
    // The third, of which only the last is not differentiated again.
    let third = |f: Of<'_>| {
        let second = |at: &(Variable, Variable)| grad(|at| grad(f, at).0.square().sum(..), at);
        grad(|at| second(at).1.sin().sum(..), &at)
    };
    all_close(&third(&|at| compiled.call(at)), &third(&f));
    let before = compiled.traces();
    all_close(&third(&|at| compiled.call(at)), &third(&f));
    assert_eq!(
        (runs.load(Ordering::Relaxed), compiled.traces()),
        (1, before)
    );
    // Leaves, whose gradient comes with the loss until it is differentiated.
    let leaves = (Variable::new(at.0.array()), Variable::new(at.1.array()));
    let penalty = |f: Of<'_>| {
        let y = f(&leaves);
        let options = GradOptions::new().create_graph();
        let gx = gradients_with(&[&y], &[&leaves.0], options)
            .remove(0)
            .unwrap();
        let loss = y + gx.square().sum(..);
        gradients(&[&loss], &[&leaves.0, &leaves.1]).map_all()
    };
    let (own_runs, own) = counted(f);
    let fresh = compile(own);
    let eager = penalty(&f);
    for _ in 0..4 {
        all_close(&penalty(&|at| fresh.call(at)), &eager);
    }
    assert_eq!(
        own_runs.load(Ordering::Relaxed),
        2,
        "once more when it was first asked for"
    );
}

trait MapAll {
    fn map_all(self) -> Vec<Variable>;
}

impl MapAll for Vec<Option<Variable>> {
    fn map_all(self) -> Vec<Variable> {
        self.into_iter().map(|g| g.expect("a gradient")).collect()
    }
}

#[test]
fn recorded_gradients_of_batches_and_other_levels_have_the_same_bits() {
    let f = |(x, w): &(Variable, Variable)| linear(x, w, None).tanh().square().sum(-1);
    let compiled = compile(f);
    let at = (normal(&[3, 4], 1), normal(&[5, 4], 2));
    type Of<'a> = &'a dyn Fn(&(Variable, Variable)) -> Variable;
    let all = |f: Of<'_>| {
        let by_w = |w: &Variable| f(&(at.0.clone(), w.clone()));
        let curvature = jacobian(|w| grad(|w| by_w(w).sum(..), w), &at.1);
        let forward = jvp(|w| grad(|w| by_w(w).sum(..), w), &at.1, &at.1.sin());
        let batch = vmap(
            |x| {
                let of = |w: &Variable| f(&(x.expand_dims(0), w.clone())).sum(..);
                grad(|w| grad(of, w).square().sum(..), &at.1)
            },
            &at.0,
        );
        let none = grad(
            |at| {
                let g = no_grad(|| grad(|at| f(at).sum(..), at));
                (g.0 * &at.0).sum(..) + f(at).sum(..)
            },
            &at,
        );
        (curvature, forward, batch, none)
    };
    all_the_same_bits(&all(&|at| compiled.call(at)), &all(&f));
    let inner = compile(f);
    let outer = compile(move |at: &(Variable, Variable)| inner.call(at) * 2.0);
    let eager = |at: &(Variable, Variable)| f(at) * 2.0;
    all_the_same_bits(&all(&|at| outer.call(at)), &all(&eager));
}

#[test]
fn bytes_that_wait_for_a_gradient_are_counted() {
    let f = |x: &Variable| x.matmul(x).tanh().matmul(x);
    let compiled = compile(f);
    let x = Variable::new(normal(&[8, 8], 1).array());
    let y = compiled.call(&x);
    let (own, eager) = (history(&y).kept_bytes(), history(&f(&x)).kept_bytes());
    // x, the first product, and its tanh.
    assert_eq!((own, eager), (768, 768));
    assert_eq!(y.creator().expect("compile").kept_bytes(), 768);
    let y = no_grad(|| compiled.call(&x));
    assert_eq!(history(&y).kept_bytes(), 0);
    // Loops hold the history of their run.
    let loop_of = |x: &Variable| bibun::fori_loop(0..3, |_, x| x.tanh(), x);
    let [own, eager] = [loop_of(&x), x.tanh().tanh().tanh()].map(|y| history(&y).kept_bytes());
    assert!(own >= eager, "{own} and {eager}");
}

#[test]
fn ways_back_do_not_add_up() {
    // Each kind of cotangents is a program of its own, from one recording of the function.
    let f = |x: &Variable| x.matmul(x.transpose()).tanh();
    let (runs, own) = counted(f);
    let compiled = compile(own);
    let x = normal(&[4, 4], 1);
    for round in 0..3 {
        for order in 0..2 {
            let pick = |y: Variable| match order {
                0 => (y * normal(&[4, 4], round)).sum(..),
                _ => (y.transpose() * normal(&[4, 4], round)).sum(..),
            };
            let own = grad(|x| pick(compiled.call(x)), &x);
            same_bits(&own, &grad(|x| pick(f(x)), &x));
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(compiled.traces() <= 3);
    let steps = |of: &Compiled<Variable, Variable>| of.to_string().lines().count();
    let before = steps(&compiled);
    grad(|x| (compiled.call(x) * 3.0).sum(..), &x);
    assert_eq!(steps(&compiled), before);
}

// ----- generators

/// Everything that is drawn of a generator.
fn draws(generator: &mut Generator) -> Vec<Variable> {
    let p = Array::from([0.2, 0.5, 0.3]);
    let arrays = [
        generator.normal([2, 3], 1.0, 2.0, DType::F32),
        generator.uniform(5, -1.0, 1.0, DType::F64),
        generator.integers(-3, 9, 4),
        generator.bernoulli(0.3, [7]),
        generator.split(3).normal((), 0.0, 1.0, DType::BF16),
        generator.permutation(6),
        generator.shuffle(&Array::arange(0, 12).reshape([4, 3]), 0),
        generator.choice(100, 3, false, None),
        generator.choice(3, 5, true, Some(&p)),
        generator.choice(3, 2, false, Some(&p)),
        generator.integers(0, 2, ()),
    ];
    let mut all: Vec<Variable> = arrays.into_iter().map(Variable::constant).collect();
    all.push(random_normal([2, 2], 0.0, 1.0, DType::F64, generator));
    all.push(random_bernoulli([5], 0.5, generator));
    all.push(dropout(Variable::constant([[1f32; 3]; 3]), 0.4, generator));
    all
}

#[test]
fn a_generator_in_the_argument_draws_anew_in_every_run() {
    let f = |generator: &Generator| {
        let mut generator = generator.clone();
        let drawn = draws(&mut generator);
        (drawn, generator)
    };
    let compiled = compile(f);
    let [mut own, mut eager] = [Generator::new(3), Generator::new(3)];
    let mut last: Option<Vec<Variable>> = None;
    for round in 0..4 {
        let (found, expected);
        (found, own) = match round % 2 {
            0 => compiled.call(&own),
            _ => compiled.call_donated(own),
        };
        (expected, eager) = f(&eager);
        all_the_same_bits(&found, &expected);
        assert_eq!(own, eager);
        if let Some(last) = last.replace(found) {
            assert!(!last[0].array().has_same_bits(&expected[0].array()));
        }
    }
    assert_eq!(compiled.traces(), 1);
    // Far on in a stream, with keys and counters of all bits.
    for generator in [
        Generator::from_state(u64::MAX - 5, u64::MAX - 3),
        Generator::from_state(1 << 63, 1 << 63),
    ] {
        compiled.check(&generator).unwrap();
        assert_eq!(compiled.call(&generator).1, f(&generator).1);
    }
    assert_eq!(compiled.traces(), 1);
    // Where it stands is not known while the function is traced.
    let error = attempt(|| compile(|g: &Generator| Variable::constant(g.key() as i64)).call(&own));
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("Generator::key: the generator is an input"),
        "{error}"
    );
    // One that is captured would draw the same.
    let mut captured = Generator::new(1);
    captured.bernoulli(0.5, 4);
    let f = compile(move |g: &Generator| {
        let mine = captured.clone().normal(2, 0.0, 1.0, DType::F32);
        Variable::constant(g.clone().normal(2, 0.0, 1.0, DType::F32) + mine)
    });
    let error = attempt(|| f.call(&own)).unwrap_err().to_string();
    assert!(error.contains("draws from a generator"), "{error}");
}

type Noisy = (Variable, Variable, Generator);

/// The mean loss of noisy inputs with dropout.
fn noisy((w, x, generator): &Noisy) -> Variable {
    let g = &mut generator.clone();
    let x = x + 0.1 * random_normal(x.shape(), 0.0, 1.0, DType::F32, g);
    dropout(x.matmul(w).tanh(), 0.3, g).square().mean(..)
}

#[test]
fn generators_go_through_all_transformations() {
    let compiled = Arc::new(compile(noisy));
    let (w, x) = (normal(&[4, 3], 1), normal(&[5, 4], 2));
    type Of = Arc<dyn Fn(&Noisy) -> Variable + Send + Sync>;
    let all = |f: Of, seed: u64| {
        let g = Generator::new(seed);
        let with = |w: &Variable, x: &Variable| (w.clone(), x.clone(), g.clone());
        let gradient = grad(|w| f(&with(w, &x)), &w);
        let both = grad(|(w, x)| f(&with(w, x)), &(w.clone(), x.clone()));
        let second = jacobian(|w| grad(|w| f(&with(w, &x)), w), &w);
        let tangent = jvp(|w| f(&with(w, &x)), &w, &w.sin());
        let xs = normal(&[3, 5, 4], 3);
        let batch = vmap(|x| f(&with(&w, x)), &xs);
        let grads = vmap(|x| grad(|w| f(&with(w, x)), &w), &xs);
        let nested = vmap(|x| vmap(|x| f(&with(&w, &x.expand_dims(0))), x), &xs);
        let own = Arc::clone(&f);
        let again = grad(
            |w| {
                let own = Arc::clone(&own);
                checkpoint(move |at: &Noisy| own(at), &with(w, &x))
            },
            &w,
        );
        let quiet = eval_mode(|| f(&with(&w, &x)));
        let leaf = Variable::new(w.array());
        f(&with(&leaf, &x)).backward();
        let walked = leaf.grad().expect("a gradient");
        let held = no_grad(|| f(&with(&w, &x)));
        (
            (gradient, both, second, tangent),
            (batch, grads, nested),
            (again, quiet, walked, held),
        )
    };
    let again = Arc::clone(&compiled);
    let outer = Arc::new(compile(move |at: &Noisy| again.call(at)));
    let checkpointed = Arc::new(compile(|at: &Noisy| checkpoint(noisy, at)));
    for seed in [1, 2] {
        let eager = all(Arc::new(noisy), seed);
        let own = Arc::clone(&compiled);
        all_the_same_bits(&all(Arc::new(move |at| own.call(at)), seed), &eager);
        let own = Arc::clone(&outer);
        all_the_same_bits(&all(Arc::new(move |at| own.call(at)), seed), &eager);
        let own = Arc::clone(&checkpointed);
        all_the_same_bits(&all(Arc::new(move |at| own.call(at)), seed), &eager);
    }
    // All of it in one program.
    let whole = move |(w, xs, g): &Noisy| {
        let with = |w: &Variable, x: &Variable| (w.clone(), x.clone(), g.clone());
        let tangent = jvp(|w| noisy(&with(w, &xs.slice(bibun::s![0]))), w, &w.cos());
        let grads = vmap(|x| grad(|w| noisy(&with(w, x)), w), xs);
        let second = vmap(
            |x| grad(|w| grad(|w| noisy(&with(w, x)), w).sin().sum(..), w),
            xs,
        );
        (tangent, grads, second)
    };
    let compiled = compile(whole);
    for seed in [1, 2, 3] {
        let at = (w.clone(), normal(&[3, 5, 4], seed), Generator::new(seed));
        all_the_same_bits(&compiled.call(&at), &whole(&at));
    }
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn generators_are_part_of_the_state_of_loops() {
    type State = (Generator, Variable);
    let walk = |start: &State, xs: &Variable| {
        let step = |(g, h): &State, x: &Variable| {
            let mut g = g.clone();
            let noise = random_normal([3], 0.0, 1.0, DType::F32, &mut g);
            let h = (h + x * noise).tanh();
            ((g, h.clone()), h)
        };
        scan(step, start, xs)
    };
    let rust = |(g, h): &State, xs: &Variable| {
        let (mut g, mut h) = (g.clone(), h.clone());
        let mut all = Vec::new();
        for i in 0..4 {
            let noise = random_normal([3], 0.0, 1.0, DType::F32, &mut g);
            h = (h + xs.slice(bibun::s![i]) * noise).tanh();
            all.push(h.clone());
        }
        let all: Vec<&Variable> = all.iter().collect();
        ((g, h), bibun::functions::stack(&all, 0))
    };
    let (h, xs) = (normal(&[3], 1), normal(&[4, 3], 2));
    let compiled = compile(move |(state, xs): &(State, Variable)| walk(state, xs));
    for seed in 0..3 {
        let start = (Generator::new(seed), h.clone());
        let expected = rust(&start, &xs);
        for found in [
            walk(&start, &xs),
            compiled.call(&(start.clone(), xs.clone())),
        ] {
            assert_eq!(found.0.0, expected.0.0);
            all_the_same_bits(
                &(found.0.1, found.1),
                &(expected.0.1.clone(), expected.1.clone()),
            );
        }
        // Gradients, batches and both.
        let of = |f: &dyn Fn(&State, &Variable) -> (State, Variable)| {
            let loss = |xs: &Variable| f(&start, xs).1.square().sum(..);
            let gradient = grad(loss, &xs);
            let batch = normal(&[2, 4, 3], 5);
            (
                gradient,
                vmap(loss, &batch),
                vmap(|xs| grad(loss, xs), &batch),
            )
        };
        let expected = of(&rust);
        all_the_same_bits(&of(&walk), &expected);
        let own = |state: &State, xs: &Variable| compiled.call(&(state.clone(), xs.clone()));
        all_the_same_bits(&of(&own), &expected);
    }
    assert!(compiled.traces() < 8);
    // Other loops and branches.
    let others = |g: &Generator| {
        let draw = |g: &Generator| {
            let mut g = g.clone();
            let x = random_normal([2], 0.0, 1.0, DType::F32, &mut g);
            (g, x)
        };
        let (g, x) = fori_loop(
            0..3,
            move |_, (g, x): &State| {
                let (g, y) = draw(g);
                (g, x + y)
            },
            &(g.clone(), Variable::constant([0f32; 2])),
        );
        let far = |(_, x): &State| x.square().sum(..).less(9.0);
        let (g, x) = while_loop(
            far,
            move |(g, x): &State| {
                let (g, y) = draw(g);
                (g, x + y)
            },
            &(g, x),
        );
        let is_right = x.sum(..).greater(0.0);
        let (mut g, y) = cond(
            &is_right,
            move |(g, _): &State| draw(g),
            State::clone,
            &(g, x),
        );
        (y, random_bernoulli([8], 0.5, &mut g), g)
    };
    let compiled = compile(others);
    for seed in 0..5 {
        let g = Generator::new(seed);
        let (found, expected) = (compiled.call(&g), others(&g));
        assert_eq!(found.2, expected.2);
        all_the_same_bits(&(found.0, found.1), &(expected.0, expected.1));
    }
    assert_eq!(compiled.traces(), 1);
    let stacked = attempt(|| {
        let own = |x: &Variable, _: &Variable| (x.clone(), Generator::new(0));
        scan(own, &h, &xs)
    });
    let error = stacked.map(drop).unwrap_err().to_string();
    assert!(error.contains("return it as part of the state"), "{error}");
}

/// Images that are moved and mirrored at random, each in its own way.
fn augmented(images: &Variable, generator: &Generator) -> Variable {
    let side = images.shape()[2];
    let one = |image: &Variable| {
        let g = &mut generator.clone();
        let padded = image.pad(&[(0, 0), (2, 2), (2, 2)], 0.0);
        let offset = |g: &mut Generator| {
            let u = random_uniform([], 0.0, 5.0, DType::F32, g);
            u.floor().cast(DType::I64) + Variable::constant(Array::arange(0, side as i64))
        };
        let (rows, columns) = (offset(g), offset(g));
        let cropped = take(take(&padded, &rows, 1), &columns, 2);
        let is_flipped = random_bernoulli([], 0.5, g);
        where_(&is_flipped, cropped.flip(2), &cropped)
    };
    vmap(one, images)
}

#[test]
fn images_are_augmented_in_a_compiled_step() {
    type State = (Conv2d, Adam, Generator);
    let loss =
        |conv: &Conv2d, x: &Variable| conv.forward(x).square().sum([1, 2, 3]).tanh().mean(..);
    let step = move |(state, x): &(State, Variable)| {
        let (conv, adam, g) = state;
        let mut g = g.clone();
        // Each step has a stream of its own.
        let own = g.split(0);
        let image = augmented(x, &own);
        let loss_of = |conv: &Conv2d| loss(conv, &image);
        let (value, conv, adam) = adam.minimized(conv, loss_of);
        g.advance(1);
        (
            value,
            (conv, adam, Generator::at(&g.position()).split(1)),
            image,
        )
    };
    let compiled = compile(step);
    let start = || {
        let conv = Conv2d::new(1, 2, [3, 3], &mut Generator::new(1));
        (conv, Adam::new(0.01), Generator::new(9))
    };
    let (mut own, mut eager) = (start(), start());
    let mut images: Vec<Variable> = Vec::new();
    for i in 0..4 {
        let x = normal(&[6, 1, 7, 7], i % 2);
        let (found, expected, image, other);
        (found, own, image) = compiled.call_donated((own, x.clone()));
        (expected, eager, other) = step(&(eager, x));
        same_bits(&found, &expected);
        same_bits(&image, &other);
        assert_eq!(own.2, eager.2);
        images.push(image);
    }
    all_the_same_bits(&own.0, &eager.0);
    assert!(
        !images[0].array().has_same_bits(&images[2].array()),
        "other crops of the same images"
    );
    // The states of Adam come with its first step, and biases are zeros without memory before it.
    assert!(compiled.traces() <= 2);
}

// ----- what no trace can know

#[test]
fn refusals_reach_the_caller_whatever_the_function_catches() {
    let leaf = Variable::new([1.0, 2.0]);
    let x = Variable::constant([3.0, 4.0]);
    let fails = |f: Compiled<Variable, Variable>, x: &Variable| {
        let first = attempt(|| f.call(x)).unwrap_err().to_string();
        let donated = attempt(|| f.call_donated(x.clone()))
            .unwrap_err()
            .to_string();
        assert!(attempt(|| f.call(x)).is_err(), "and the next time");
        let outer = compile(move |x: &Variable| attempt(|| f.call(x)).unwrap_or_else(|_| x * 2.0));
        assert!(attempt(|| outer.call(x)).is_err(), "and of what calls it");
        (first, donated)
    };
    let own = leaf.clone();
    let set = compile(move |x: &Variable| {
        let _ = attempt(|| own.set_array(x.array()));
        x * 2.0
    });
    assert!(fails(set, &x).0.starts_with("set_array: changes a leaf"));
    let own = leaf.clone();
    let graded = compile(move |x: &Variable| {
        let _ = attempt(|| own.set_grad(x));
        x * 2.0
    });
    assert!(fails(graded, &x).0.starts_with("set_grad: changes a leaf"));
    let walked = compile(|x: &Variable| {
        let loss = x.square().sum(..);
        let _ = attempt(|| loss.backward());
        loss
    });
    assert!(
        fails(walked, &leaf)
            .0
            .starts_with("backward: gradients would be put")
    );
    let own = leaf.clone();
    let captured = compile(move |x: &Variable| attempt(|| x * &own).unwrap_or_else(|_| x * 2.0));
    assert!(
        fails(captured, &x)
            .0
            .contains("captures a Variable that has history")
    );
    let asked = compile(|(x, adam): &(Variable, Adam)| {
        let steps = attempt(|| adam.steps()).unwrap_or(7);
        x * steps as f64
    });
    let error = attempt(|| asked.call(&(x.clone(), Adam::new(0.1)))).unwrap_err();
    assert!(error.to_string().contains("has no elements yet"), "{error}");
    let own = leaf.clone();
    let looped = compile(move |x: &Variable| {
        let own = own.clone();
        let body = move |_: &Variable, x: &Variable| {
            let _ = attempt(|| own.set_array(x.array()));
            x * 2.0
        };
        fori_loop(0..2, body, x)
    });
    assert!(fails(looped, &x).0.contains("set_array: changes a leaf"));
    let read = compile(|x: &Variable| {
        grad(
            |x| attempt(|| x.sum(..).item::<f64>()).map_or_else(|_| x.sum(..), |y| x.sum(..) * y),
            x,
        )
    });
    assert!(fails(read, &x).0.contains("item: reads the elements"));
    assert_eq!(
        (leaf.to_vec::<f64>(), leaf.grad().is_none()),
        (vec![1.0, 2.0], true)
    );
    // Errors that come with values, too, may be caught.
    let f = |x: &Variable| attempt(|| x.reshape(7)).unwrap_or_else(|_| x * 3.0);
    compile(f).check(&x).unwrap();
    let captured = leaf * 2.0;
    let f = move |x: &Variable| {
        let captured = captured.clone();
        attempt(|| checkpoint(move |x: &Variable| x * &captured, x)).unwrap_or_else(|_| x * 3.0)
    };
    compile(f).check(&x).unwrap();
}

#[test]
fn variables_that_are_one_are_one_in_a_program() {
    let f = |(a, b): &(Variable, Variable)| match a.is_same(b) {
        true => a * a,
        false => a.sin() + b * b * a,
    };
    let compiled = compile(f);
    let (x, y) = (normal(&[3], 1), normal(&[3], 2));
    let alike = Variable::constant(x.array());
    for _ in 0..2 {
        for pair in [(&x, &x), (&x, &y), (&y, &y), (&x, &alike)] {
            let pair = (pair.0.clone(), pair.1.clone());
            same_bits(&compiled.call(&pair), &f(&pair));
            let leaf = Variable::new(pair.0.array());
            let pair = match pair.0.is_same(&pair.1) {
                true => (leaf.clone(), leaf.clone()),
                false => (leaf.clone(), pair.1),
            };
            compiled.call(&pair).sum(..).backward();
            let found = leaf.grad().expect("a gradient");
            leaf.clear_grad();
            f(&pair).sum(..).backward();
            same_bits(&found, &leaf.grad().expect("a gradient"));
            // Transformations see each of them apart.
            let of = |f: &dyn Fn(&(Variable, Variable)) -> Variable| {
                let sum = |at: &(Variable, Variable)| f(at).sum(..);
                (grad(sum, &pair), vmap(f, &pair), jvp(f, &pair, &pair))
            };
            all_the_same_bits(&of(&|at| compiled.call(at)), &of(&f));
        }
    }
    // A parameter that is an argument, too.
    let linear = Arc::new(Linear::new(3, 3, &mut Generator::new(1)));
    let g = |(w, linear): &(Variable, Arc<Linear>)| linear.forward(w).sum(..);
    let compiled = compile(g);
    let at = (linear.weight.clone(), Arc::clone(&linear));
    for _ in 0..2 {
        same_bits(&compiled.call(&at), &g(&at));
    }
    assert_eq!(compiled.traces(), 1);
    // What comes from outside might be the same in another run.
    for own in [Variable::new(x.array()), x.clone()] {
        let f = compile(move |x: &Variable| match attempt(|| x.is_same(&own)) {
            Ok(true) => x * 2.0,
            _ => x * 3.0,
        });
        let error = attempt(|| f.call(&y)).unwrap_err().to_string();
        assert!(
            error.starts_with("is_same: one is a part of the argument"),
            "{error}"
        );
    }
    // What is computed is another Variable, and what is handed on is the same.
    let f = |x: &Variable| match (x.is_same(&x.clone()), x.is_same(&x.sin())) {
        (true, false) => x * 2.0,
        _ => x * 3.0,
    };
    compile(f).check(&x).unwrap();
}

#[test]
fn per_example_says_what_to_write_in_a_compiled_function() {
    let losses = |w: &Variable, x: &Variable| x.matmul(w).square().sum(-1);
    let direct =
        compile(move |(w, x): &(Variable, Variable)| per_example(&losses(w, x), w).norms());
    let written = compile(move |(w, x): &(Variable, Variable)| {
        let w = bibun::tree_map(|w| Variable::new(w.array()), w);
        per_example(&losses(&w, x), &w).norms()
    });
    let x = normal(&[5, 4], 1);
    let leaf = Variable::new(normal(&[4, 3], 2).array());
    let expected = per_example(&losses(&leaf, &x), &leaf).norms();
    // A leaf has history in the function, too.
    same_bits(&direct.call(&(leaf.clone(), x.clone())), &expected);
    for w in [leaf.clone(), leaf.detach()] {
        same_bits(&written.call(&(w, x.clone())), &expected);
    }
    let error = attempt(|| direct.call(&(leaf.detach(), x)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tree_map(|w| Variable::new(w.array()), model)"),
        "{error}"
    );
}
