//! Compiled functions compute the bits of the functions themselves, and say what they cannot compute.

use std::sync::{Arc, Barrier};
use std::thread;

use bibun::array::{Array, DType, Generator};
use bibun::functions::{
    ConvOptions, conv2d, dropout, layer_normalization, linear, max_pool, relu, softmax,
    softmax_cross_entropy, where_,
};
use bibun::links::{
    BatchNorm, Chain, Conv2d, ConvTranspose2d, Dropout, GroupNorm, Gru, LayerNorm, Linear, Link,
    Lstm, Mlp, MultiHeadAttention, TransformerBlock,
};
use bibun::optimizers::{Adam, MomentumSgd, Optimizer};
use bibun::{
    Compiled, FunctionEvent, Phase, Tree, Variable, attempt, checkpoint, compile, cond, eval_mode,
    fori_loop, grad, hessian, jacobian, jvp, no_grad, per_example, train_mode, tree_map,
    value_and_grad, vmap, with_hook,
};
use proptest::prelude::*;

use crate::formula::formulae;
use crate::programs::Program;

fn normal(shape: &[usize], stream: u64) -> Variable {
    let mut generator = Generator::new(5).split(stream);
    Variable::constant(generator.normal(shape, 0.0, 1.0, DType::F32))
}

#[track_caller]
fn same_bits(a: &Variable, b: &Variable) {
    assert!(a.array().has_same_bits(&b.array()), "{a:?} is not {b:?}");
}

fn all_the_same_bits<T: Tree>(a: &T, b: &T) {
    let _ = bibun::tree_zip(
        |a, b| {
            same_bits(a, b);
            a.clone()
        },
        a,
        b,
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_formulae_have_the_same_bits(formula in formulae()) {
        let x = formula.inputs();
        let formula = Arc::new(formula);
        let (own, again) = (Arc::clone(&formula), Arc::clone(&formula));
        let compiled = compile(move |x: &Vec<Variable>| own.run(x));
        compiled.check(&x).unwrap();
        let donated = compiled.call_donated(formula.inputs());
        all_the_same_bits(&donated, &formula.run(&x));
        let tangents = compile(move |(x, v): &(Vec<Variable>, Vec<Variable>)| {
            jvp(|x: &Vec<Variable>| again.run(x), x, v)
        });
        let v: Vec<Variable> = x.iter().map(|x| x.sin()).collect();
        tangents.check(&(x, v)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_have_the_same_bits(bytes in prop::collection::vec(any::<u8>(), 20..160)) {
        Program::read(&bytes, 60).check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn programs_of_hundreds_of_operations_have_the_same_bits(
        bytes in prop::collection::vec(any::<u8>(), 2000..3000),
    ) {
        Program::read(&bytes, 400).check();
    }
}

#[test]
fn programs_that_the_fuzzer_kept_have_the_same_bits() {
    let folder = crate::sources::workspace().join("fuzz/corpus/compile");
    for file in std::fs::read_dir(folder).expect("the corpus") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("its bytes");
        Program::read(&bytes, 60).check();
    }
}

/// Sums of what repeats are a single value without memory, and a sum of that is a product.
#[test]
fn results_that_repeat_one_value_have_the_same_bits() {
    let row = Variable::constant([0.1, 0.2, 0.3]);
    let wide = Variable::constant(row.array().broadcast_to([9, 3]));
    let sums: [fn(&Variable) -> Variable; 4] = [
        |x| x.sum(1).sin().sum(..),
        |x| x.mean(1).sum(..),
        |x| x.prod(1).sin().sum(..),
        |x| (x.max(1) * 0.1).sum(..),
    ];
    for f in sums {
        let compiled = compile(f);
        compiled.check(&wide).unwrap();
        same_bits(&grad(|x| compiled.call(x), &wide), &grad(f, &wide));
        let of_row = compile(move |x: &Variable| grad(|x| f(&x.broadcast_to([9, 3])), x));
        of_row.check(&row).unwrap();
        let mapped =
            compile(move |x: &Variable| vmap(|x| f(&x.reshape([1, 3])), &x.broadcast_to([9, 3])));
        mapped.check(&row).unwrap();
    }
    // A sum of nothing, and loops that end with such a value.
    let nothing = Variable::constant(Array::zeros([9, 0], DType::F64));
    compile(|x: &Variable| (x.sum(1) + 0.1).sum(..))
        .check(&nothing)
        .unwrap();
    let looped = |x: &Variable| {
        let state = fori_loop(0..3, |_, state: &Variable| state * 0.7, &x.sum(1));
        (
            state.sin().sum(..),
            cond(
                &x.sum(..).greater(0.0),
                |x: &Variable| x.sum(1),
                |x: &Variable| x.max(1),
                x,
            )
            .sum(..),
        )
    };
    compile(looped).check(&wide).unwrap();
}

#[test]
fn what_a_trace_cannot_know_is_an_error_at_its_own_line() {
    use std::sync::Mutex;
    let x = Variable::constant([1.0, 2.0]);
    type Read = fn(&Variable) -> Variable;
    let reads: [(u32, Read); 4] = [
        (line!(), |x| x * x.sum(..).item::<f64>()),
        (line!(), |x| x * x.to_vec::<f64>()[0]),
        (line!(), |x| x * x.array().to_vec::<f64>()[0]),
        (line!(), |x| x.grad().unwrap_or_else(|| x.clone())),
    ];
    for (line, f) in reads {
        let error = attempt(|| compile(f).call(&x)).unwrap_err().to_string();
        let place = format!("{}:{line}:", file!());
        assert!(error.contains(&place), "{error} is not at {place}");
    }
    // Values that were kept from a trace say so at the line that uses them.
    static KEPT: Mutex<Option<Variable>> = Mutex::new(None);
    let keeps = compile(|x: &Variable| {
        let y = x.sin();
        *KEPT.lock().unwrap() = Some(y.clone());
        y
    });
    keeps.call(&x);
    let kept = KEPT.lock().unwrap().take().unwrap();
    let line = line!() + 1;
    let error = attempt(|| kept.to_vec::<f64>());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("while it was traced"), "{error}");
    assert!(error.contains(&format!("{}:{line}:", file!())), "{error}");
}

#[test]
fn gradients_of_leaves_are_not_read_in_a_trace() {
    let w = Variable::new([1.0, 2.0]);
    w.square().sum(..).backward();
    let own = w.clone();
    let captured = compile(move |x: &Variable| x * own.grad().unwrap());
    let x = Variable::constant([3.0, 4.0]);
    let error = attempt(|| captured.call(&x)).unwrap_err().to_string();
    assert!(error.starts_with("grad: reads the gradient"), "{error}");
    let given = compile(|w: &Variable| w * w.grad().unwrap());
    for error in [
        attempt(|| given.call(&w)),
        attempt(|| given.call_donated(w.clone())),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("grad: reads the gradient"), "{error}");
    }
}

/// A convolution and the passes around it go through some examples at a time.
#[test]
fn convolutions_and_passes_share_examples_with_the_same_bits() {
    type Three = (Variable, Variable, Variable);
    // Examples, channels, results, rows, columns, groups, and the kernel with its stride and dilation.
    let cases = [
        (32, 3, 8, 32, 32, 1, 3, 1, 1),
        (17, 16, 24, 9, 7, 2, 3, 1, 1),
        (33, 8, 8, 5, 5, 8, 3, 1, 1),
        (16, 16, 32, 8, 8, 1, 1, 1, 1),
        (16, 32, 32, 8, 8, 2, 1, 1, 1),
        (20, 4, 6, 13, 11, 1, 3, 2, 1),
        (9, 4, 6, 13, 11, 1, 3, 1, 2),
        (5, 2, 3, 40, 40, 1, 5, 3, 1),
    ];
    for (n, channels, results, rows, columns, groups, kernel, stride, dilation) in cases {
        let x = normal(&[n, channels, rows, columns], 1);
        let w = normal(&[results, channels / groups, kernel, kernel], 2);
        let b = normal(&[results], 3);
        let options = ConvOptions::new()
            .groups(groups)
            .stride([stride; 2])
            .dilation([dilation; 2])
            .padding([kernel / 2; 2]);
        let f = move |(x, w, b): &Three| {
            let y = relu(conv2d(x.tanh(), w, b, options));
            let wide = 0.5 * relu(conv2d(x.flip(-1) * 2.0, w, None, options));
            (y.sum([1, 2, 3]), wide)
        };
        let gradients = move |argument: &Three| {
            let loss = |(x, w, b): &Three| relu(conv2d(x.sin(), w, b, options)).square().sum(..);
            grad(loss, argument)
        };
        let (f, gradients) = (compile(f), compile(gradients));
        for dtype in [DType::F32, DType::F64] {
            let argument = (x.cast(dtype), w.cast(dtype), b.cast(dtype));
            for threads in [1, 3, 40] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().expect("threads");
                pool.install(|| {
                    f.check(&argument).unwrap();
                    gradients.check(&argument).unwrap();
                });
            }
        }
        assert!(f.to_string().contains("rows at a time"), "{f}");
        assert!(
            gradients.to_string().contains("rows at a time"),
            "{gradients}"
        );
    }
}

/// Of images of 9x9, three are taken at once, of 7x7 five, of 5x5 ten: blocks are whole multiples of all.
#[test]
fn convolutions_of_different_sizes_share_examples_with_the_same_bits() {
    let g = &mut Generator::new(2);
    let layers: Vec<Conv2d> = (0..3).map(|_| Conv2d::new(3, 3, [3, 3], g)).collect();
    let f = |(layers, x): &(Vec<Conv2d>, Variable)| {
        let all = layers.iter();
        all.fold(x.clone(), |h, layer| relu(layer.forward(&h)))
    };
    let forward = compile(f);
    let gradient = compile(move |argument: &(Vec<Conv2d>, Variable)| {
        grad(
            |x| f(&(argument.0.clone(), x.clone())).square().sum(..),
            &argument.1,
        )
    });
    for n in [2, 17, 33, 47, 64, 131, 500] {
        let argument = (layers.clone(), normal(&[n, 3, 11, 11], n as u64).detach());
        forward.check(&argument).unwrap();
        gradient.check(&argument).unwrap();
    }
    // A layer behind them takes the same rows.
    let layer = (
        Conv2d::new(1, 32, [3, 3], g),
        Linear::new(32 * 18 * 18, 10, g),
    );
    let network = compile(|((conv, linear), x): &((Conv2d, Linear), Variable)| {
        let h = relu(conv.forward(x));
        linear.forward(&h.reshape([h.shape()[0] as isize, -1]))
    });
    for n in [128, 257] {
        let argument = (layer.clone(), normal(&[n, 1, 20, 20], n as u64));
        network.check(&argument).unwrap();
    }
}

/// Where nothing is recorded, no gradient is lost, and leaves are read in every run.
#[test]
fn captured_leaves_are_constants_under_no_grad() {
    let g = &mut Generator::new(3);
    let net = Arc::new((Linear::new(3, 4, g), BatchNorm::new(4)));
    let own = Arc::clone(&net);
    let forward = move |x: &Variable| own.1.forward(&own.0.forward(x)).square().sum(..);
    let again = forward.clone();
    let f = compile(move |x: &Variable| eval_mode(|| no_grad(|| forward(x))));
    for i in 0..3 {
        let x = normal(&[5, 3], i);
        same_bits(&f.call(&x), &eval_mode(|| again(&x)).detach());
        net.0.weight.set_array(normal(&[4, 3], 7 + i).array());
    }
    let around = compile(again.clone());
    let x = normal(&[5, 3], 9);
    same_bits(
        &no_grad(|| eval_mode(|| around.call(&x))),
        &eval_mode(|| again(&x)).detach(),
    );
    assert!(attempt(|| eval_mode(|| around.call(&x))).is_err());
}

/// A frozen leaf is a constant, and one that is not would lose its gradient.
#[test]
fn a_captured_leaf_that_is_unfrozen_is_seen() {
    let w = Variable::new([1.0, 2.0]);
    w.freeze();
    let own = w.clone();
    let f = compile(move |x: &Variable| (x * &own).sum(..));
    let x = Variable::new([3.0, 4.0]);
    for x in [x.clone(), x.detach()] {
        assert_eq!(f.call(&x).item::<f64>(), 11.0);
    }
    w.unfreeze();
    for x in [x.clone(), x.detach()] {
        let error = attempt(|| f.call(&x)).unwrap_err().to_string();
        assert!(
            error.contains("captures a Variable that has history"),
            "{error}"
        );
    }
    w.freeze();
    let traces = f.traces();
    assert_eq!((f.call(&x).item::<f64>(), f.traces()), (11.0, traces));
    // A trace that failed left no program, and does not count.
    let f = compile(|x: &Variable| 2.0 * x.sum(0).broadcast_to(x.shape())).limit(1);
    assert!(attempt(|| f.call(&Variable::constant(1.0))).is_err());
    assert_eq!((f.call(&x).size(), f.traces()), (2, 1));
}

/// Threads that trace the same at once get one program, and none of them exceeds the limit.
#[test]
fn threads_trace_a_function_once() {
    let both_trace = Barrier::new(2);
    let f = compile(move |x: &Variable| {
        both_trace.wait();
        2.0 * x
    });
    let f = f.limit(1);
    let x = Array::from([1.0, 2.0]);
    let call = || f.call(&Variable::constant(x.clone())).to_vec::<f64>();
    let results = thread::scope(|scope| {
        let calls = [scope.spawn(call), scope.spawn(call)];
        calls.map(|call| call.join().expect("no call fails"))
    });
    assert_eq!((results, f.traces()), ([(); 2].map(|()| vec![2.0, 4.0]), 1));
    let (other, error) = (Variable::constant(1.0), "trace 2 of at most 1");
    assert!(
        attempt(|| f.call(&other))
            .unwrap_err()
            .to_string()
            .contains(error)
    );
}

/// What other threads draw and read is not part of a trace, so that they must not compute with its values.
#[test]
fn a_function_is_traced_on_one_thread() {
    let norm = Arc::new(BatchNorm::new(2));
    let inside = Arc::clone(&norm);
    let f = compile(move |x: &Variable| {
        thread::scope(|scope| {
            let other = scope.spawn(|| attempt(|| inside.forward(x)));
            other.join().expect("it is an error").unwrap_err();
        });
        x * 2.0
    });
    let x = Variable::constant([[1f32, 2.0], [3.0, 5.0]]);
    let error = attempt(|| f.call(&x)).unwrap_err().to_string();
    assert!(
        error.contains("nor on another thread") && error.contains(file!()),
        "{error}"
    );
    assert_eq!(norm.running_mean.get().to_vec::<f32>(), [0.0, 0.0]);
    eval_mode(|| norm.forward(&x)).to_vec::<f32>();
}

#[test]
fn gradients_through_donated_arguments_are_refused() {
    let f = compile(|x: &Variable| x.square().sum(..));
    let x = Variable::new([1.0, 2.0]);
    assert_eq!(f.call_donated(x.clone()).item::<f64>(), 5.0);
    let donated = |x: &Variable| f.call_donated(x.clone());
    let way_back = [
        attempt(|| grad(donated, &x)),
        attempt(|| hessian(donated, &x)),
        attempt(|| f.call_donated(&x * 2.0)),
        attempt(|| {
            vmap(
                |x: &Variable| grad(donated, x),
                &Variable::constant([[1.0, 2.0]]),
            )
        }),
    ];
    for refused in way_back {
        let error = refused.unwrap_err().to_string();
        assert!(
            error.starts_with("call_donated: an argument has history"),
            "{error}"
        );
        assert!(error.contains(file!()), "{error}");
    }
    assert_eq!(no_grad(|| f.call_donated(&x * 2.0)).item::<f64>(), 20.0);
    assert_eq!(f.call_donated((&x * 2.0).detach()).item::<f64>(), 20.0);
    let tangent = jvp(donated, &x, &Variable::constant([1.0, 1.0])).1;
    assert_eq!(tangent.item::<f64>(), 6.0);
}

/// No thread is refused because another one has counted its trace and is about to keep the program.
#[test]
fn a_limit_that_is_used_up_refuses_no_thread_that_needs_no_trace() {
    let x = Array::from([1.0, 2.0]);
    for _ in 0..500 {
        let f = compile(|x: &Variable| 2.0 * x).limit(1);
        let start = Barrier::new(4);
        let call = || {
            start.wait();
            f.call(&Variable::constant(x.clone())).to_vec::<f64>()
        };
        let results = thread::scope(|scope| {
            let calls = [(); 4].map(|()| scope.spawn(call));
            calls.map(|call| call.join().expect("no call fails"))
        });
        assert_eq!((results, f.traces()), ([(); 4].map(|()| vec![2.0, 4.0]), 1));
    }
}

#[test]
fn derivatives_of_compiled_functions_are_those_of_the_function() {
    let f = |x: &Variable| (x.sin() * x.exp() / (1.0 + x.square())).sum(..);
    let compiled = compile(f);
    let g = |x: &Variable| compiled.call(x);
    let x = normal(&[5], 1);
    same_bits(&grad(g, &x), &grad(f, &x));
    same_bits(&hessian(g, &x), &hessian(f, &x));
    same_bits(&jacobian(|x| grad(g, x), &x), &jacobian(|x| grad(f, x), &x));
    let (one, other) = (jvp(g, &x, &x), jvp(f, &x, &x));
    all_the_same_bits(&one, &other);
    let batch = normal(&[3, 5], 2);
    same_bits(&vmap(g, &batch), &vmap(f, &batch));
    same_bits(&vmap(|x| grad(g, x), &batch), &vmap(|x| grad(f, x), &batch));
    let third =
        |f: &dyn Fn(&Variable) -> Variable| grad(|x| grad(|x| grad(f, x).sum(..), x).sum(..), &x);
    same_bits(&third(&g), &third(&f));
    same_bits(&checkpoint_of(compile(f), &x), &grad(f, &x));
    // Compiled in compiled is one program.
    let inner = compile(|x: &Variable| x.sin() * 2.0);
    let outer = compile(move |x: &Variable| inner.call(x) + inner.call(x).exp());
    outer.check(&x).unwrap();
    assert!(outer.to_string().contains("in 1 steps"), "{outer}");
    let outer = compile(move |x: &Variable| grad(|x| compiled.call(x), x));
    same_bits(&outer.call(&x), &grad(f, &x));
}

type Pair = (Variable, Variable);

#[test]
fn pullbacks_take_what_the_function_has_computed() {
    // Several results, none of them a number.
    let f = |(x, w): &(Variable, Variable)| {
        let h = relu(x.matmul(w) + 1.0);
        let y = softmax(&h, 1) * h.sin();
        (h.matmul(w.transpose()), y)
    };
    let compiled = compile(f);
    let at = (normal(&[6, 4], 1), normal(&[4, 5], 2));
    let loss = |(a, b): &(Variable, Variable)| (a.square().sum(..) + (b * b.exp()).sum(..)).tanh();
    let own = grad(|at| loss(&compiled.call(at)), &at);
    all_the_same_bits(&own, &grad(|at| loss(&f(at)), &at));
    let text = compiled.to_string();
    let products = |title: &str| {
        let listed = text.split("\n\n").find(|listed| listed.starts_with(title));
        let listed = listed.unwrap_or_else(|| panic!("no {title}: {text}"));
        listed.matches("gemm(").count()
    };
    // Two on the way there, and four on the way back: none is computed again.
    assert_eq!(products("value before its gradient"), 2);
    assert_eq!(products("gradient of"), 4);
    assert_eq!(compiled.traces(), 2);
    // Other cotangents, of one result and of one input alone, and in another order in memory.
    for only in 0..2 {
        let pick = |at: &(Variable, Variable)| match only {
            0 => compiled.call(at).0.sum(..),
            _ => (compiled.call(at).1.transpose() * normal(&[5, 6], 3)).sum(..),
        };
        let eager = |at: &(Variable, Variable)| match only {
            0 => f(at).0.sum(..),
            _ => (f(at).1.transpose() * normal(&[5, 6], 3)).sum(..),
        };
        all_the_same_bits(&grad(pick, &at), &grad(eager, &at));
        let by_w = |f: &dyn Fn(&(Variable, Variable)) -> Variable| {
            grad(|w| f(&(at.0.clone(), w.clone())), &at.1)
        };
        same_bits(&by_w(&pick), &by_w(&eager));
    }
    // Derivatives of higher order, and of batches of cotangents, compute the function again.
    let second =
        |f: &dyn Fn(&Pair) -> Pair| grad(|at| grad(|at| loss(&f(at)), at).0.square().sum(..), &at);
    all_the_same_bits(&second(&|at| compiled.call(at)), &second(&f));
    let of_batch = |f: &dyn Fn(&Pair) -> Pair| jacobian(|x| f(&(x.clone(), at.1.clone())).1, &at.0);
    same_bits(&of_batch(&|at| compiled.call(at)), &of_batch(&f));
    // Nothing is kept where no gradient is asked for.
    let leaf = (Variable::new(at.0.array()), Variable::new(at.1.array()));
    let before = compiled.traces();
    no_grad(|| compiled.call(&leaf));
    assert_eq!(
        compiled.traces(),
        before + 1,
        "a program of the results alone"
    );
}

#[test]
fn pullbacks_see_buffers_and_masks_of_the_first_run() {
    let loss = |y: &Variable| y.square().mean(..);
    let nets = [Net::new(), Net::new()].map(Arc::new);
    let forward = compile(|(net, x): &(Arc<Net>, Variable)| net.forward(x));
    for i in 0..3 {
        let (x, _) = batch(i);
        let y = forward.call(&(Arc::clone(&nets[1]), x.clone()));
        let other = forward.call(&(Arc::clone(&nets[1]), x.clone()));
        loss(&y).backward();
        drop(other);
        let eager = nets[0].forward(&x);
        // The second run changes buffers and masks before the first is pulled back.
        nets[0].forward(&x);
        loss(&eager).backward();
        same_bits(&y, &eager);
        for ((name, a), (_, b)) in nets[0].parameters().into_iter().zip(nets[1].parameters()) {
            let [a, b] = [a, b].map(|x| x.grad().expect("a gradient"));
            assert!(a.array().has_same_bits(&b.array()), "{name}");
        }
        nets.iter().for_each(|net| net.clear_grads());
    }
}

fn checkpoint_of(f: Compiled<Variable, Variable>, x: &Variable) -> Variable {
    let f = Arc::new(f);
    grad(
        |x| {
            let f = Arc::clone(&f);
            checkpoint(move |x: &Variable| f.call(x), x)
        },
        x,
    )
}

#[test]
fn gradients_reach_leaves_and_history_goes_on() {
    let w = Variable::new([1.0, 2.0]);
    let f = compile(|(w, x): &(Variable, Variable)| (w * x).sum(..));
    let x = Variable::constant([3.0, 4.0]);
    let loss = f.call(&(w.clone() * 2.0, x)).square();
    loss.backward();
    // (2 w x)² with w x = 11.
    assert_eq!(w.grad().unwrap().to_vec::<f64>(), [3.0 * 88.0, 4.0 * 88.0]);
    assert_eq!(
        loss.creator().unwrap().inputs()[0]
            .creator()
            .unwrap()
            .name(),
        "compile"
    );
}

#[derive(Chain)]
pub(crate) struct Net {
    pub(crate) first: Linear,
    norm: BatchNorm,
    drop: Dropout,
    last: Linear,
}

impl Net {
    pub(crate) fn new() -> Self {
        let g = &mut Generator::new(3);
        Self {
            first: Linear::new(6, 8, g),
            norm: BatchNorm::new(8),
            drop: Dropout::new(0.3, g),
            last: Linear::new(8, 3, g),
        }
    }
    pub(crate) fn forward(&self, x: &Variable) -> Variable {
        let h = relu(self.norm.forward(&self.first.forward(x)));
        self.last.forward(&self.drop.forward(&h))
    }
}

fn descend(optimizer: &mut Adam, net: &Net, gradient: &Net) {
    for ((_, w), (_, g)) in net.parameters().iter().zip(gradient.parameters()) {
        w.set_grad(&g);
    }
    optimizer.update(net);
}

fn batch(step: u64) -> (Variable, Variable) {
    let labels = Generator::new(9).split(step).integers(0, 3, 16);
    (normal(&[16, 6], step), Variable::constant(labels))
}

#[test]
fn training_has_the_same_bits_with_buffers_and_dropout() {
    let (eager, compiled) = (Net::new(), Net::new());
    let loss = |net: &Net, x: &Variable, t: &Variable| softmax_cross_entropy(net.forward(x), t);
    let step = compile(move |(net, x, t): &(Net, Variable, Variable)| {
        value_and_grad(|net: &Net| loss(net, x, t), net)
    });
    let mut optimizers = [Adam::new(0.01), Adam::new(0.01)];
    let mut nets = (eager, compiled);
    for i in 0..5 {
        let (x, t) = batch(i);
        let (a, gradient) = value_and_grad(|net: &Net| loss(net, &x, &t), &nets.0);
        descend(&mut optimizers[0], &nets.0, &gradient);
        let (of_step, b) = {
            let argument = (nets.1, x, t);
            let (b, gradient) = step.call(&argument);
            descend(&mut optimizers[1], &argument.0, &gradient);
            (argument.0, b)
        };
        nets.1 = of_step;
        same_bits(&a, &b);
    }
    // Biases begin as zeros that take no memory.
    assert_eq!(step.traces(), 2);
    let states = [&nets.0, &nets.1].map(|net| {
        let arrays = net.parameters().into_iter().chain(net.buffers());
        arrays.map(|(_, x)| x).collect::<Vec<_>>()
    });
    assert!(states[0].len() >= 9);
    all_the_same_bits(&states[0], &states[1]);
    // Evaluation is another program, of the same statistics.
    let forward = compile(|(net, x): &(Net, Variable)| net.forward(x));
    let argument = (nets.1, batch(7).0);
    let y = eval_mode(|| forward.call(&argument));
    same_bits(&y, &eval_mode(|| nets.0.forward(&argument.1)));
    let before = argument.0.buffers();
    let z = train_mode(|| forward.call(&argument));
    assert!(!z.array().has_same_bits(&y.array()) && forward.traces() == 2);
    assert!(
        before
            .iter()
            .zip(argument.0.buffers())
            .any(|((_, a), (_, b))| { !a.array().has_same_bits(&b.array()) })
    );
}

#[test]
fn a_loss_comes_with_its_gradient() {
    let (eager, compiled) = (Net::new(), Net::new());
    let loss = compile(|(net, x, t): &(Arc<Net>, Variable, Variable)| {
        softmax_cross_entropy(net.forward(x), t)
    });
    let compiled = Arc::new(compiled);
    let mut optimizers = [Adam::new(0.01), Adam::new(0.01)];
    for i in 0..4 {
        let (x, t) = batch(i);
        softmax_cross_entropy(eager.forward(&x), &t).backward();
        optimizers[0].update(&eager);
        let value = loss.call(&(Arc::clone(&compiled), x, t));
        value.backward();
        optimizers[1].update(&*compiled);
        eager.clear_grads();
        compiled.clear_grads();
    }
    let states = [&eager, &*compiled].map(|net| {
        let arrays = net.parameters().into_iter().chain(net.buffers());
        arrays.map(|(_, x)| x).collect::<Vec<_>>()
    });
    all_the_same_bits(&states[0], &states[1]);
    // One program computed both; biases begin as zeros that take no memory.
    assert_eq!(loss.traces(), 2);
    // Another cotangent, a gradient of a gradient, and part of the inputs.
    let f = |(a, b): &(Variable, Variable)| (a.sin() * b.exp()).sum(..);
    let compiled = compile(f);
    let x = (normal(&[3], 1), normal(&[3], 2));
    let half = |f: &dyn Fn(&(Variable, Variable)) -> Variable| grad(|x| 0.5 * f(x), &x);
    all_the_same_bits(&half(&|x| compiled.call(x)), &half(&f));
    let second =
        |f: &dyn Fn(&(Variable, Variable)) -> Variable| grad(|x| grad(f, x).0.square().sum(..), &x);
    all_the_same_bits(&second(&|x| compiled.call(x)), &second(&f));
    let [a, b] = [&x.0, &x.1].map(|x| Variable::new(x.array()));
    let y = compiled.call(&(a, b.clone()));
    let partial = bibun::gradients(&[&y], &[&b]);
    same_bits(partial[0].as_ref().unwrap(), &grad(f, &x).1);
    same_bits(
        &grad(|a| compiled.call(&(a.clone(), x.1.clone())), &x.0),
        &grad(f, &x).0,
    );
}

#[test]
fn each_model_has_its_own_buffers() {
    let f = compile(|(norm, x): &(BatchNorm, Variable)| norm.forward(x));
    let x = normal(&[4, 3], 1);
    let (a, b) = (BatchNorm::new(3), BatchNorm::new(3));
    let pairs = [(a, x.clone()), (b, x.clone() * 2.0)];
    pairs.iter().for_each(|pair| drop(f.call(pair)));
    let eager = [BatchNorm::new(3), BatchNorm::new(3)];
    eager[0].forward(&x);
    eager[1].forward(&(x * 2.0));
    for (pair, eager) in pairs.iter().zip(&eager) {
        for ((_, a), (_, b)) in pair.0.buffers().iter().zip(eager.buffers()) {
            same_bits(a, &b);
        }
    }
}

#[test]
fn what_a_function_captures_is_read_in_every_run() {
    let w = Variable::new([1.0, 2.0]);
    let captured = w.clone();
    let f = compile(move |x: &Variable| x * captured.detach());
    let x = Variable::constant([10.0, 10.0]);
    assert_eq!(f.call(&x).to_vec::<f64>(), [10.0, 20.0]);
    w.set_array(Array::from([3.0, 4.0]));
    assert_eq!(f.call(&x).to_vec::<f64>(), [30.0, 40.0]);
    assert_eq!(f.traces(), 1);
}

#[test]
fn networks_have_the_same_bits() {
    let g = &mut Generator::new(1);
    let (lstm, gru) = (Lstm::new(4, 5, g), Gru::new(4, 5, g));
    let x = normal(&[7, 2, 4], 1);
    let of_lstm = compile(|(lstm, x): &(Lstm, Variable)| {
        grad(|lstm: &Lstm| lstm.forward(x).square().sum(..), lstm)
    });
    of_lstm.check(&(lstm, x.clone())).unwrap();
    let of_gru = compile(|(gru, x): &(Gru, Variable)| gru.forward(x));
    of_gru.check(&(gru, x)).unwrap();
    let block = TransformerBlock::new(8, 2, g);
    let of_block = compile(|(block, x): &(TransformerBlock, Variable)| {
        grad(
            |block: &TransformerBlock| block.forward(x).square().mean(..),
            block,
        )
    });
    eval_mode(|| of_block.check(&(block, normal(&[2, 5, 8], 2)))).unwrap();
    let of_images = compile(|(w, x): &(Variable, Variable)| {
        let loss = |w: &Variable| {
            let y = max_pool(relu(conv2d(x, w, None, ConvOptions::new())), [2, 2]);
            layer_normalization(y, -1, None, None, 1e-5)
                .square()
                .sum(..)
        };
        grad(loss, w)
    });
    of_images
        .check(&(normal(&[3, 2, 3, 3], 3), normal(&[2, 2, 8, 8], 4)))
        .unwrap();
    let of_examples = compile(|(w, x): &(Variable, Variable)| {
        let w = Variable::new(w.array());
        per_example(&x.matmul(&w).square().sum(-1), &w).norms()
    });
    of_examples
        .check(&(normal(&[4, 3], 5), normal(&[6, 4], 6)))
        .unwrap();
}

#[test]
fn threads_and_sizes_change_no_bit() {
    let f = Arc::new(compile(|(x, y): &(Variable, Variable)| {
        let z = (x.tanh() * y).exp() + y.where_below();
        (z.clone(), z.sum(0), z.astype_i64())
    }));
    for size in [0, 1, 2, 15, 16, 17, 1000, 70_000] {
        let argument = (normal(&[size], 1), normal(&[size], 2));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| f.check(&argument)).unwrap();
        }
    }
    assert_eq!(f.traces(), 8);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let f = Arc::clone(&f);
            scope.spawn(move || f.check(&(normal(&[100 + i % 2], 1), normal(&[100 + i % 2], 2))));
        }
    });
}

trait Mixed {
    fn where_below(&self) -> Variable;
    fn astype_i64(&self) -> Variable;
}
impl Mixed for Variable {
    fn where_below(&self) -> Variable {
        where_(self.less(0.0), self, 2.0 * self)
    }
    fn astype_i64(&self) -> Variable {
        (self * 10.0).cast(DType::I64) + 1i64
    }
}

#[test]
fn all_dtypes_and_layouts_are_traced_apart() {
    let f = compile(|x: &Variable| (x + 1).square() - x);
    let x = Array::arange(0, 12).reshape([3, 4]);
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let x = x.cast(dtype);
        f.check(&Variable::constant(x.clone())).unwrap();
        f.check(&Variable::constant(x.transpose())).unwrap();
        f.check(&Variable::constant(x.flip(&[0]))).unwrap();
        f.check(&Variable::constant(Array::ones([3, 4], dtype)))
            .unwrap();
    }
    assert_eq!(f.traces(), 4 * (DType::COUNT - 1));
}

#[test]
fn a_program_holds_what_it_needs_and_no_more() {
    let f = compile(|x: &Variable| {
        let unused = x.exp().sum(..) * 3.0;
        let (a, b) = (x.sin(), x.sin());
        drop(unused);
        a * b
    });
    let x = normal(&[1000], 1);
    assert_eq!(f.peak_bytes(&x), 4000);
    let text = f.to_string();
    assert!(
        text.contains("2 operations at each of 1000 elements"),
        "{text}"
    );
    assert!(text.contains("tests/bibun/compile.rs:"), "{text}");
    assert!(text.contains("; 4000 bytes in, 4000 bytes out"), "{text}");
    for removed in [
        ("sin", "computed before"),
        ("exp", "no result needs"),
        ("sum (reduce)", "no result needs"),
    ] {
        let is_it = |line: &str| {
            line.starts_with(&format!("removed: {} at ", removed.0)) && line.ends_with(removed.1)
        };
        assert!(text.lines().any(is_it), "{removed:?}: {text}");
    }
    assert_eq!(f.traces(), 1);
}

#[test]
fn bytes_of_views_and_repeated_rows_are_those_of_their_elements() {
    let f = compile(|(x, row): &(Variable, Variable)| (x + row).sum(0) + x.max(..));
    f.call(&(normal(&[30, 100], 1), normal(&[100], 2)));
    let text = f.to_string();
    // 3,000 elements and a row of 100 are read, 3,000 are written.
    assert!(text.contains("; 12400 bytes in, 12000 bytes out"), "{text}");
    assert!(text.contains("reduce(%"), "{text}");
}

#[test]
fn the_listing_shows_the_programs_of_derivatives() {
    let f = compile(|x: &Variable| (x.sin() * x).sum(..));
    let x = normal(&[10], 1);
    grad(|x| f.call(x), &x);
    let text = f.to_string();
    assert!(
        text.starts_with("value with its gradient of f32 [10]:\n%0"),
        "{text}"
    );
    vmap(|x| f.call(x), &normal(&[3, 10], 2));
    f.call(&x);
    let text = f.to_string();
    assert!(text.starts_with("function of f32 [10]:\n%0"), "{text}");
    assert!(
        text.contains("\n\nvalue with its gradient of f32 [10]:\n"),
        "{text}"
    );
    assert!(text.contains("\n\nbatch of 3 of f32 [3, 10]:\n"), "{text}");
}

#[test]
fn integers_have_powers_and_refuse_negative_ones_in_every_run() {
    let f = compile(|(x, n): &(Variable, Variable)| x.pow(n));
    let x = Variable::constant([2i64, 3, 4]);
    let call = |n: [i64; 3]| f.call(&(x.clone(), Variable::constant(n)));
    assert_eq!(call([3, 2, 0]).to_vec::<i64>(), [8, 9, 1]);
    let error = attempt(|| call([1, -1, 2])).unwrap_err().to_string();
    assert!(error.contains("negative integer power"), "{error}");
    assert!(error.contains(file!()), "{error}");
    assert_eq!(f.traces(), 1);
}

#[test]
fn what_is_picked_of_a_repeated_value_is_repeated() {
    // Products and sums of a repeated value are computed by powers and products, eagerly.
    let x = Variable::constant(Array::full([16, 3, 5], -1.3));
    let f = |(x, i): &(Variable, Variable)| {
        (
            x.sort(0).prod(2),
            x.take(i, 2).exp().prod(2),
            x.take(i, 2).sum(2),
        )
    };
    let indices = Variable::constant([0i64, 2, 2, 4, 1, 3, 0]);
    compile(f).check(&(x, indices)).unwrap();
}

#[test]
fn hooks_see_every_function() {
    let f = compile(|x: &Variable| x.sin().exp());
    let x = normal(&[3], 1);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let names = Arc::clone(&seen);
    let hook = move |event: &FunctionEvent<'_>| {
        if event.phase == Phase::Forward {
            names.lock().unwrap().push(event.name);
        }
    };
    with_hook(hook, || f.call(&x));
    assert_eq!(*seen.lock().unwrap(), ["sin", "exp"]);
}

#[test]
fn optimizers_are_traced_too() {
    // A whole step as a function of parameters and state.
    let step = compile(|(w, v, g): &(Variable, Variable, Variable)| {
        let v = 0.9 * v - 0.1 * g;
        (w + &v, v)
    });
    let (mut w, mut v) = (
        Variable::constant([1.0, -2.0]),
        Variable::constant([0.0, 0.0]),
    );
    let leaf = Variable::new([1.0, -2.0]);
    let mut optimizer = MomentumSgd::new(0.1, 0.9);
    for _ in 0..4 {
        leaf.set_grad(&leaf.detach());
        optimizer.update(&leaf);
        (w, v) = step.call(&(w.clone(), v, w));
    }
    same_bits(&w, &leaf);
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let x = Variable::constant([1.0, 2.0]);
    let fails = |f: Compiled<Variable, Variable>| attempt(|| f.call(&x)).unwrap_err().to_string();
    let read = fails(compile(|x: &Variable| {
        if x.sum(..).item::<f64>() > 0.0 {
            x.clone()
        } else {
            -x
        }
    }));
    assert!(
        read.contains("item: reads the elements") && read.contains("where_"),
        "{read}"
    );
    let counted = fails(compile(|x: &Variable| {
        x.less(0.0).piecewise(x, |x| -x, |x| x.clone())
    }));
    assert!(
        counted.contains("the shape of the result depends on values"),
        "{counted}"
    );
    let w = Variable::new([1.0, 2.0]);
    let captured = fails(compile(move |x: &Variable| x * &w));
    assert!(
        captured.contains("captures a Variable that has history"),
        "{captured}"
    );
    let drawn = fails(compile(|x: &Variable| {
        dropout(x, 0.5, &mut Generator::new(1))
    }));
    assert!(drawn.contains("draws from a generator"), "{drawn}");
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keeps = Arc::clone(&kept);
    let f = compile(move |x: &Variable| {
        *keeps.lock().unwrap() = Some(x.sin());
        x.clone()
    });
    f.call(&x);
    let escaped = kept.lock().unwrap().take().unwrap();
    let used = fails(compile(move |x: &Variable| x + &escaped));
    assert!(used.contains("while it was traced"), "{used}");
    let f = compile(|x: &Variable| 2.0 * x).limit(1);
    f.call(&x);
    let limited = attempt(|| f.call(&Variable::constant([1.0])))
        .unwrap_err()
        .to_string();
    assert!(
        limited.contains("trace 2 of at most 1, for inputs f64 [1]"),
        "{limited}"
    );
    f.call(&x);
    // A failed trace leaves nothing behind.
    let f = compile(|x: &Variable| linear(x, x, None));
    let vector = Variable::constant([1.0, 2.0]).reshape([1, 2]);
    assert!(attempt(|| f.call(&vector.reshape([2, 1, 1]))).is_err());
    f.check(&normal(&[2, 3], 1)).unwrap();
}

#[test]
fn results_keep_their_structure() {
    #[derive(Tree)]
    struct Pair {
        a: Variable,
        list: Vec<Variable>,
        count: usize,
    }
    let f = compile(|x: &Pair| Pair {
        a: x.a.exp(),
        list: x.list.iter().map(|x| 2.0 * x).collect(),
        count: x.count + 1,
    });
    let of = |n: usize| Pair {
        a: normal(&[2], 1),
        list: (0..n as u64).map(|i| normal(&[3], i)).collect(),
        count: n,
    };
    for n in [0, 2, 3] {
        let y = f.call(&of(n));
        assert_eq!((y.list.len(), y.count), (n, n + 1));
        f.check(&of(n)).unwrap();
    }
    let doubled = tree_map(|x| x + x, &f.call(&of(2)));
    assert_eq!(doubled.list.len(), 2);
}

#[test]
fn batches_of_other_sizes_are_other_programs() {
    let constant = compile(|_: &Variable| Variable::constant([1.0, 2.0]));
    for count in [2, 3, 1] {
        let y = vmap(
            |x| constant.call(x),
            &Variable::constant(Array::ones([count, 2], DType::F64)),
        );
        assert_eq!(y.shape(), [count, 2]);
    }
    let f = |x: &Variable| (2.0 * x).sum(..);
    let linear = compile(f);
    for size in [2, 3] {
        let x = normal(&[size], 1);
        same_bits(&hessian(|x| linear.call(x), &x), &hessian(f, &x));
    }
}

#[test]
fn values_that_repeat_have_the_same_bits() {
    let scaled = compile(|x: &Variable| (x * 3.0).sum(..));
    scaled
        .check(&Variable::constant(Array::full([17], 0.1)))
        .unwrap();
    let of_sum = compile(|x: &Variable| {
        let mean = x.mean(..).broadcast_to([1000]) * 1.1;
        (
            x.sum(..).broadcast_to([17]).sin().sum(..),
            mean.mean(..),
            x.slice(bibun::s![1..2]),
        )
    });
    of_sum.check(&normal(&[5], 1)).unwrap();
    of_sum
        .check(&Variable::constant(Array::full([5], 0.3)))
        .unwrap();
    let one = Variable::constant(
        Array::from([0.1, 0.2])
            .slice(bibun::s![1..2])
            .broadcast_to([17]),
    );
    scaled.check(&one).unwrap();
    let f = |x: &Variable| grad(|x| grad(|x| x.mean(..).exp(), x).square().sum(..), x);
    compile(f).check(&normal(&[7], 2)).unwrap();
}

#[test]
fn what_does_not_matter_has_no_gradient() {
    let f = compile(|(a, _): &(Variable, Variable)| a.square().sum(..));
    let [a, b] = [1.0, 2.0].map(Variable::new);
    f.call(&(a.clone(), b.clone())).backward();
    assert_eq!(a.grad().unwrap().item::<f64>(), 2.0);
    assert!(b.grad().is_none());
    (2.0 * f.call(&(a.clone(), b.clone()))).backward();
    assert_eq!(a.grad().unwrap().item::<f64>(), 6.0);
    assert!(b.grad().is_none());
}

#[test]
fn examples_see_the_masks_and_buffers_of_the_first_run() {
    let links = [(); 2].map(|()| {
        let g = &mut Generator::new(4);
        (Linear::new(3, 4, g), Dropout::new(0.5, g))
    });
    type Links = (Arc<Linear>, Arc<Dropout>, Variable);
    let losses = |(linear, drop, x): &Links| drop.forward(&linear.forward(x)).square().sum(-1);
    let compiled = compile(losses);
    let x = normal(&[6, 3], 1);
    let [eager, program] =
        links.map(|(linear, drop)| (Arc::new(linear), Arc::new(drop), x.clone()));
    for _ in 0..3 {
        let norms = [losses(&eager), compiled.call(&program)]
            .iter()
            .zip([&eager.0, &program.0])
            .map(|(losses, linear)| per_example(losses, &**linear).norms())
            .collect::<Vec<_>>();
        same_bits(&norms[0], &norms[1]);
    }
    let streams = [&eager.1, &program.1].map(|drop| drop.buffers()[0].1.clone());
    same_bits(&streams[0], &streams[1]);
}

#[test]
fn layers_may_be_compiled_alone_and_together() {
    let layer = Arc::new(compile(|x: &Variable| x.exp()));
    let loss = compile(move |x: &Variable| layer.call(x).sum(..));
    let x = Variable::new([1.0, 2.0]);
    let y = loss.call(&x);
    y.backward();
    let plain = Variable::new([1.0, 2.0]);
    plain.exp().sum(..).backward();
    same_bits(&x.grad().unwrap(), &plain.grad().unwrap());
    same_bits(&grad(|x| loss.call(x), &x.detach()), &x.grad().unwrap());
}

#[test]
fn buffers_lose_no_update() {
    use bibun::links::Buffer;
    let [calls, others] = [Buffer::new(0i64), Buffer::new(0i64)];
    let own = (calls.clone(), others.clone());
    let f = Arc::new(compile(move |x: &Variable| {
        own.0.update([], |old, []| old + 1i64);
        own.1.update([], |old, []| old + 2i64);
        x * 2.0
    }));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            let f = Arc::clone(&f);
            threads.spawn(move || {
                for _ in 0..100 {
                    f.call(&Variable::constant([1.0, 2.0]));
                }
            });
        }
    });
    assert_eq!(calls.get().item::<i64>(), 400);
    assert_eq!(others.get().item::<i64>(), 800);
}

#[test]
fn results_without_history_are_constants() {
    let f = |(a, b): &(Variable, Variable)| (a * b, b.sin(), a.greater(0.0), a.detach() * 2.0);
    let compiled = compile(f);
    let at = (Variable::new([1.0, 2.0]), Variable::constant([3.0, 4.0]));
    let (own, eager) = (compiled.call(&at), f(&at));
    let flags = |y: &(Variable, Variable, Variable, Variable)| {
        [&y.0, &y.1, &y.2, &y.3].map(Variable::requires_grad)
    };
    assert_eq!(flags(&eager), [true, false, false, false]);
    assert_eq!(flags(&own), flags(&eager));
    own.0.sum(..).backward();
    assert_eq!(at.0.grad().unwrap().to_vec::<f64>(), [3.0, 4.0]);
}

#[test]
fn a_refusal_that_the_function_catches_is_an_error_all_the_same() {
    let f = compile(|x: &Variable| match attempt(|| x.item::<f64>() > 0.0) {
        Ok(true) => x.clone(),
        Ok(false) => -x,
        Err(_) => 2.0 * x,
    });
    let refused = || {
        attempt(|| f.call(&Variable::constant(1.0)))
            .unwrap_err()
            .to_string()
    };
    let error = refused();
    assert!(
        error.starts_with("item: reads the elements of a value"),
        "{error}"
    );
    assert!(error.contains(file!()), "{error}");
    assert_eq!(refused(), error, "and the next time");
    // Other errors are the same with values, and may be caught.
    let f = |x: &Variable| attempt(|| x.reshape(7)).unwrap_or_else(|_| x * 3.0);
    compile(f).check(&normal(&[5], 1)).unwrap();
}

#[test]
fn a_check_sees_one_mask_and_changes_buffers_once() {
    let (net, other) = (Arc::new(Net::new()), Net::new());
    let forward = compile(|(net, x): &(Arc<Net>, Variable)| net.forward(x));
    let x = batch(1).0;
    forward.check(&(Arc::clone(&net), x.clone())).unwrap();
    other.forward(&x);
    for ((name, a), (_, b)) in net.buffers().into_iter().zip(other.buffers()) {
        assert!(a.array().has_same_bits(&b.array()), "{name}");
    }
}

#[test]
fn changes_of_leaves_are_refused() {
    let x = Variable::constant([1.0, 2.0]);
    let w = Variable::new([1.0, 2.0]);
    let fails = |f: Compiled<Variable, Variable>| attempt(|| f.call(&x)).unwrap_err().to_string();
    let own = w.clone();
    let set = fails(compile(move |x: &Variable| {
        own.set_array(x.array());
        x.clone()
    }));
    assert!(set.contains("set_array: changes a leaf"), "{set}");
    let own = w.clone();
    let graded = fails(compile(move |x: &Variable| {
        own.set_grad(x);
        x.clone()
    }));
    assert!(graded.contains("set_grad: changes a leaf"), "{graded}");
    let walked = compile(|x: &Variable| {
        let loss = x.square().sum(..);
        loss.backward();
        loss
    });
    let leaf = Variable::new([1.0, 2.0]);
    let walked = attempt(|| walked.call(&leaf)).unwrap_err().to_string();
    assert!(
        walked.contains("backward: gradients would be put"),
        "{walked}"
    );
    assert_eq!(
        (w.to_vec::<f64>(), w.grad().is_none()),
        (vec![1.0, 2.0], true)
    );
    #[derive(Chain)]
    struct Line {
        slope: Variable,
    }
    let returned = compile(|x: &Variable| Line { slope: x * 2.0 });
    let returned = attempt(|| returned.call(&x))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        returned.contains("`slope` of the result is a constant in a model"),
        "{returned}"
    );
}

/// A stand-in for options of a library that knows nothing of bibun.
#[derive(Clone, Debug)]
struct OnlyText(f64);

#[derive(Clone, Hash)]
struct OnlyHash(u32);

#[derive(Clone)]
struct Neither;

#[derive(Clone, Copy, Tree)]
enum Activation {
    Tanh,
    Leaky(f64),
    Power { n: u32 },
}

#[derive(Chain, Clone)]
struct Options {
    w: Variable,
    alpha: f64,
    twice: bool,
    activation: Activation,
    name: String,
    units: Vec<()>,
    offset: Option<f32>,
    table: std::collections::BTreeMap<&'static str, i32>,
    #[chain(skip)]
    text: OnlyText,
    #[chain(skip)]
    hash: OnlyHash,
    #[chain(skip)]
    function: fn(f64) -> f64,
    #[chain(skip)]
    closure: Arc<dyn Fn(&Variable) -> Variable + Send + Sync>,
    #[chain(skip)]
    teacher: Linear,
    #[chain(skip)]
    limits: (f64, Array),
}

impl Options {
    fn forward(&self, x: &Variable) -> Variable {
        let y = self.teacher.forward(&(x * &self.w)) * self.alpha;
        let y = if self.twice { y.exp() } else { y };
        let y = match self.activation {
            Activation::Tanh => y.tanh(),
            Activation::Leaky(slope) => y.leaky_relu(slope),
            Activation::Power { n } => y.pow(f64::from(n)),
        };
        let y = (self.closure)(&y) + self.offset.unwrap_or(0.5) + self.name.len() as f64;
        let y = y * (self.units.len() + 1) as f64 + self.table.values().sum::<i32>();
        let y = y * self.text.0 + f64::from(self.hash.0);
        (self.function)(2.0) * y + self.limits.0 + Variable::constant(&self.limits.1)
    }
}

#[test]
fn plain_fields_are_part_of_what_a_program_is_for() {
    let g = &mut Generator::new(0);
    let first = Options {
        w: Variable::new(Generator::new(1).normal([3], 0.0, 1.0, DType::F32)),
        alpha: 0.5,
        twice: false,
        activation: Activation::Tanh,
        name: "a".to_owned(),
        units: vec![()],
        offset: None,
        table: [("a", 1)].into(),
        text: OnlyText(0.0),
        hash: OnlyHash(1),
        function: f64::sqrt,
        closure: Arc::new(|x| x.sin()),
        teacher: Linear::new(3, 3, g),
        limits: (1.0, Array::from([1f32, 2.0, 3.0])),
    };
    let mut all = vec![first.clone()];
    let mut other = |change: &dyn Fn(&mut Options)| {
        let mut model = first.clone();
        change(&mut model);
        all.push(model);
    };
    other(&|model| model.alpha = -0.5);
    other(&|model| model.twice = true);
    other(&|model| model.activation = Activation::Leaky(0.1));
    other(&|model| model.activation = Activation::Leaky(0.2));
    other(&|model| model.activation = Activation::Power { n: 2 });
    other(&|model| model.activation = Activation::Power { n: 3 });
    other(&|model| model.name.push('b'));
    other(&|model| model.units.push(()));
    other(&|model| model.offset = Some(0.25));
    other(&|model| model.offset = Some(-0.25));
    other(&|model| model.table = [("a", 2)].into());
    other(&|model| model.text.0 = 3.0);
    // What `==` does not tell apart.
    other(&|model| model.text.0 = -0.0);
    other(&|model| model.hash.0 = 2);
    other(&|model| model.function = f64::exp);
    let factor = 2.0;
    other(&|model| model.closure = Arc::new(move |x| factor * x));
    other(&|model| model.teacher = Linear::new(3, 3, &mut Generator::new(1)));
    other(&|model| model.limits.0 = 2.0);
    other(&|model| model.limits.1 = Array::from([0f32, 2.0, 3.0]));
    all.iter().for_each(|model| model.teacher.freeze());
    let f = |(model, x): &(Options, Variable)| model.forward(x);
    let compiled = compile(f);
    let x = normal(&[2, 3], 7);
    for _ in 0..2 {
        for model in &all {
            let argument = (model.clone(), x.clone());
            same_bits(&compiled.call(&argument), &f(&argument));
        }
    }
    assert_eq!(compiled.traces(), all.len());

    #[derive(Tree)]
    struct Unknown(Variable, #[tree(skip)] Neither);
    let refused = compile(|x: &Unknown| x.0.exp());
    let error = attempt(|| refused.call(&Unknown(x, Neither))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`1` of the argument is a"), "{text}");
    assert!(text.contains("neither `Hash` nor `Debug`"), "{text}");
}

#[test]
fn links_with_other_options_are_other_programs() {
    let g = || Generator::new(4);
    let x = || normal(&[2, 4, 6, 6], 1);
    let rows = || normal(&[5, 6], 2);
    let sequence = || normal(&[2, 5, 6], 3);
    let check = |links: Vec<Box<dyn Link>>, x: Variable| {
        let count = links.len();
        let f = compile(|(link, x): &(Box<dyn Link>, Variable)| eval_mode(|| link.forward(x)));
        for link in links {
            let eager = eval_mode(|| link.forward(&x));
            same_bits(&f.call(&(link, x.clone())), &eager);
        }
        assert_eq!(f.traces(), count);
    };
    let conv = |stride, padding, dilation, groups| -> Box<dyn Link> {
        let builder = Conv2d::builder(4, 4, 3).stride(stride).padding(padding);
        Box::new(builder.dilation(dilation).groups(groups).build(&mut g()))
    };
    check(
        vec![
            conv(1, 1, 1, 1),
            conv(2, 1, 1, 1),
            conv(1, 2, 1, 1),
            conv(1, 1, 2, 1),
            conv(1, 1, 1, 2),
        ],
        x(),
    );
    let transposed = |output_padding| -> Box<dyn Link> {
        let builder = ConvTranspose2d::builder(4, 4, 3).stride(2);
        Box::new(builder.output_padding(output_padding).build(&mut g()))
    };
    check(vec![transposed(0), transposed(1)], x());
    let norm = |groups, epsilon| -> Box<dyn Link> {
        Box::new(GroupNorm::builder(groups, 4).epsilon(epsilon).build())
    };
    check(vec![norm(2, 1e-5), norm(4, 1e-5), norm(2, 0.1)], x());
    let norm =
        |epsilon| -> Box<dyn Link> { Box::new(BatchNorm::builder(6).epsilon(epsilon).build()) };
    check(vec![norm(1e-5), norm(0.1)], rows());
    let norm =
        |epsilon| -> Box<dyn Link> { Box::new(LayerNorm::builder(6).epsilon(epsilon).build()) };
    check(vec![norm(1e-5), norm(0.1)], rows());
    let mlp = |mlp: bibun::links::MlpBuilder| -> Box<dyn Link> { Box::new(mlp.build(&mut g())) };
    let sizes = [6, 8, 2];
    check(
        vec![
            mlp(Mlp::builder(&sizes)),
            mlp(Mlp::builder(&sizes).activation(Variable::tanh)),
        ],
        rows(),
    );
    let attention = |heads, is_causal| -> Box<dyn Link> {
        let builder = MultiHeadAttention::builder(6, heads);
        let builder = if is_causal { builder.causal() } else { builder };
        Box::new(builder.build(&mut g()))
    };
    check(
        vec![attention(2, false), attention(3, false), attention(2, true)],
        sequence(),
    );
    // Functions that capture nothing are the same in models that were made one by one.
    let f = compile(|(model, x): &(Mlp, Variable)| model.forward(x));
    let argument = |seed| (Mlp::new(&sizes, &mut Generator::new(seed)), rows());
    f.call(&argument(1));
    f.call(&argument(2));
    assert_eq!(f.traces(), 1);
    // Links without parameters are told apart by their types.
    #[derive(Chain)]
    struct Doubled;
    impl Link for Doubled {
        fn compute(&self, x: &Variable) -> Variable {
            x * 2.0
        }
    }
    #[derive(Chain)]
    struct Squared;
    impl Link for Squared {
        fn compute(&self, x: &Variable) -> Variable {
            x.square()
        }
    }
    check(vec![Box::new(Doubled), Box::new(Squared)], rows());
}

#[test]
fn arrays_are_inputs_and_results() {
    let f = compile(|(x, list, step): &(Array, Vec<Array>, Array)| {
        let x = Variable::constant(x);
        let sum = list.iter().fold(x, |sum, y| sum + Variable::constant(y));
        (sum.exp(), (step + 1, vec![sum.array()]))
    });
    for (i, seed) in [1, 2, 3].into_iter().enumerate() {
        let x = || normal(&[3], seed).array();
        let argument = (x(), vec![x(), x()], Array::from(i as i64));
        f.check(&argument).unwrap();
        let (y, (step, sums)) = f.call(&argument);
        assert_eq!(step.item::<i64>(), i as i64 + 1);
        same_bits(&y, &Variable::constant(&sums[0]).exp());
    }
    assert_eq!(f.traces(), 1);
    let error = attempt(|| {
        compile(|x: &Array| Variable::constant(x.item::<f64>())).call(&Array::from(1.0))
    });
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("item: reads the elements"), "{text}");
}

#[test]
fn fields_that_change_in_every_call_are_traced_in_every_call() {
    let f = compile(|(x, step): &(Variable, u64)| x * *step as f64).limit(3);
    let x = normal(&[3], 1);
    for step in [1, 2, 3, 2, 1] {
        same_bits(&f.call(&(x.clone(), step)), &(&x * step as f64));
    }
    let error = attempt(|| f.call(&(x, 4))).unwrap_err().to_string();
    assert!(error.contains("trace 4 of at most 3"), "{error}");
    assert!(error.contains("plain fields"), "{error}");
}
