//! What is run a second time sees what the first run saw, and leaves nothing behind that the first did
//! not leave: `checkpoint`, `custom` without rules, the chunks of `vmap`, a loss that was not finite.

use std::sync::{Arc, Mutex};
use std::thread;

use bibun::array::{Array, DType, Generator};
use bibun::functions::{dropout, random_normal, square};
use bibun::links::{BatchNorm, Buffer, Chain, Dropout, Evaluation, Link, TransformerBlock};
use bibun::{
    GradOptions, Randomness, Rules, Scopes, Tree, Variable, VmapOptions, attempt, checkpoint,
    custom, eval_mode, grad, gradients_with, is_recording, is_training, jvp, linearize, no_grad,
    per_example, train_mode, value_and_grad, vjp, vmap, vmap_with,
};

const WIDE: usize = 24;

fn input(shape: &[usize]) -> Variable {
    let g = &mut Generator::new(77);
    Variable::constant(g.normal(shape, 0.0, 1.0, DType::F64))
}

/// A function of something random, with all that its run leaves behind: called by itself, and by a
/// caller that may run it several times.
type Block = Arc<dyn Fn(&Variable) -> Variable + Send + Sync>;

/// A block made anew, and what it has left behind.
type Made = (Block, Left);

/// What a block has left behind.
type Left = Box<dyn Fn() -> Vec<f64>>;

/// How a block is made, by its name.
type Maker = (&'static str, fn() -> Made);

/// Blocks that differ each time they run.
fn blocks() -> Vec<Maker> {
    vec![
        ("the link", || {
            let link = Dropout::new(0.5, &mut Generator::new(1));
            let own = link.clone();
            let block: Block = Arc::new(move |x| square(link.forward(x)) * x);
            (block, left(own))
        }),
        ("a generator behind a lock", || {
            let generator = Arc::new(Mutex::new(Generator::new(2)));
            let own = Arc::clone(&generator);
            let block: Block = Arc::new(move |x| {
                let mut generator = generator.lock().unwrap();
                dropout(x, 0.5, &mut generator) * dropout(x, 0.3, &mut generator)
            });
            let left = move || {
                let own = own.lock().unwrap();
                vec![own.key() as f64, own.counter() as f64]
            };
            (block, Box::new(left))
        }),
        ("arrays of numbers", || {
            let generator = Arc::new(Mutex::new(Generator::new(3)));
            let own = Arc::clone(&generator);
            let block: Block = Arc::new(move |x| {
                let noise = generator.lock().unwrap().normal(WIDE, 0.0, 1.0, DType::F64);
                (x * Variable::constant(noise)).tanh()
            });
            let left = move || vec![own.lock().unwrap().counter() as f64];
            (block, Box::new(left))
        }),
        ("a buffer that counts", || {
            let calls = Buffer::new(1.0);
            let own = calls.clone();
            let block: Block = Arc::new(move |x| {
                let n = calls.get();
                calls.set(n.array() + 1.0);
                (x * n).sin() * calls.get()
            });
            (block, Box::new(move || own.get().to_vec()))
        }),
    ]
}

fn left(link: impl Chain + 'static) -> Left {
    Box::new(move || {
        let buffers = link.buffers().into_iter();
        buffers
            .flat_map(|(_, x)| x.array().cast(DType::F64).to_vec::<f64>())
            .collect()
    })
}

/// A way to run a block, by its name.
type Way = (&'static str, fn(&Block) -> Vec<f64>);

/// The block with its memory forgotten.
fn forgetful(block: &Block) -> Block {
    let block = Arc::clone(block);
    Arc::new(move |x| {
        let block = Arc::clone(&block);
        checkpoint(move |x: &Variable| block(x), x)
    })
}

fn ruleless(block: &Block) -> Block {
    let block = Arc::clone(block);
    Arc::new(move |x| {
        let block = Arc::clone(&block);
        custom("ruleless", move |[x]| block(x)).call([x])
    })
}

/// A checkpoint in a checkpoint.
fn twice_forgetful(block: &Block) -> Block {
    forgetful(&forgetful(block))
}

fn ways() -> Vec<Way> {
    fn flat(list: &[&Variable]) -> Vec<f64> {
        list.iter().flat_map(|x| x.to_vec::<f64>()).collect()
    }
    fn w() -> Variable {
        input(&[WIDE]).exp()
    }
    vec![
        ("backward", |f| {
            let x = Variable::new(input(&[WIDE]).array());
            let y = f(&x);
            (&y * w()).sum(..).backward();
            flat(&[&y, &x.grad().unwrap()])
        }),
        ("backward twice", |f| {
            let x = Variable::new(input(&[WIDE]).array());
            let y = f(&x);
            let loss = (&y * w()).sum(..);
            loss.backward();
            loss.backward();
            flat(&[&y, &x.grad().unwrap()])
        }),
        ("one after the other", |f| {
            let x = Variable::new(input(&[WIDE]).array());
            let y = f(&f(&x));
            (&y * w()).sum(..).backward();
            flat(&[&y, &x.grad().unwrap()])
        }),
        ("grad", |f| {
            let ((_, y), g) = value_and_grad(
                |x| {
                    let y = f(x);
                    ((&y * w()).sum(..), y)
                },
                &input(&[WIDE]),
            );
            flat(&[&y, &g])
        }),
        ("grad of grad", |f| {
            let once = |x: &Variable| grad(|x| (f(x) * w()).sum(..), x);
            flat(&[&grad(|x| (once(x) * w()).sum(..), &input(&[WIDE]))])
        }),
        ("gradients with history", |f| {
            let x = Variable::new(input(&[WIDE]).array());
            let loss = (f(&x) * w()).sum(..);
            let options = GradOptions::new().create_graph();
            let g = gradients_with(&[&loss], &[&x], &options).remove(0).unwrap();
            (&g * w()).sum(..).backward();
            flat(&[&g, &x.grad().unwrap()])
        }),
        ("jvp", |f| {
            let (y, dy) = jvp(|x| f(x), &input(&[WIDE]), &w());
            flat(&[&y, &dy])
        }),
        ("jvp of jvp", |f| {
            let once = |x: &Variable| jvp(|x| f(x), x, &w()).1;
            let (y, dy) = jvp(once, &input(&[WIDE]), &w());
            flat(&[&y, &dy])
        }),
        ("jvp of grad", |f| {
            let once = |x: &Variable| grad(|x| (f(x) * w()).sum(..), x);
            let (y, dy) = jvp(once, &input(&[WIDE]), &w());
            flat(&[&y, &dy])
        }),
        ("grad of jvp", |f| {
            let once = |x: &Variable| (jvp(|x| f(x), x, &w()).1 * w()).sum(..);
            flat(&[&grad(once, &input(&[WIDE]))])
        }),
        ("linearize", |f| {
            let (y, linear) = linearize(|x| f(x), &input(&[WIDE]));
            flat(&[&y, &linear.call(&w())])
        }),
        ("vmap", |f| flat(&[&vmap(|x| f(x), &input(&[3, WIDE]))])),
        ("vmap, the same numbers", |f| {
            let options = VmapOptions::new().randomness(Randomness::Same);
            flat(&[&vmap_with(|x| f(x), &input(&[3, WIDE]), &options)])
        }),
        ("vmap of grad", |f| {
            let of_one = |x: &Variable| grad(|x| (f(x) * w()).sum(..), x);
            flat(&[&vmap(of_one, &input(&[3, WIDE]))])
        }),
        ("vmap of grad in chunks", |f| {
            let of_one = |x: &Variable| grad(|x| (f(x) * w()).sum(..), x);
            let options = VmapOptions::new().chunk_size(2);
            flat(&[&vmap_with(of_one, &input(&[5, WIDE]), &options)])
        }),
        ("grad of vmap", |f| {
            let all = |x: &Variable| (vmap(|x| f(x), x) * w()).sum(..);
            flat(&[&grad(all, &input(&[3, WIDE]))])
        }),
        ("jvp of vmap", |f| {
            let x = input(&[3, WIDE]);
            let (y, dy) = jvp(|x| vmap(|x| f(x), x), &x, &x.exp());
            flat(&[&y, &dy])
        }),
        ("vmap of jvp", |f| {
            let of_one = |x: &Variable| jvp(|x| f(x), x, &w());
            let (y, dy) = vmap(of_one, &input(&[3, WIDE]));
            flat(&[&y, &dy])
        }),
        ("vmap of vmap of grad", |f| {
            let of_one = |x: &Variable| grad(|x| (f(x) * w()).sum(..), x);
            flat(&[&vmap(|x| vmap(of_one, x), &input(&[2, 3, WIDE]))])
        }),
        ("a pullback under vmap", |f| {
            let (y, pullback) = vjp(|x| f(x), &input(&[WIDE]));
            let all = vmap(|gy| pullback.call(gy), &input(&[3, WIDE]));
            flat(&[&y, &all])
        }),
        ("a derivative under vmap", |f| {
            let (y, linear) = linearize(|x| f(x), &input(&[WIDE]));
            let all = vmap(|dx| linear.call(dx), &input(&[3, WIDE]));
            flat(&[&y, &all])
        }),
    ]
}

#[test]
fn a_second_run_draws_and_counts_as_the_first_did() {
    for (what, make) in blocks() {
        for (name, way) in ways() {
            let (block, left) = make();
            let expected = (way(&block), left());
            for (how, forget) in [
                ("checkpoint", forgetful as fn(&Block) -> Block),
                ("custom", ruleless),
                ("checkpoint of checkpoint", twice_forgetful),
            ] {
                let (block, left) = make();
                let found = way(&forget(&block));
                assert_eq!(found.len(), expected.0.len());
                for (i, (a, b)) in found.iter().zip(&expected.0).enumerate() {
                    let close = (a - b).abs() <= 1e-12 * b.abs().max(1.0);
                    assert!(close, "{what}, {name}, {how}: {a}, not {b} at {i}");
                }
                assert_eq!(left(), expected.1, "{what}, {name}, {how}: what is left");
            }
        }
    }
}

#[test]
fn it_sees_the_mode_of_its_first_run() {
    let x = Variable::new([[2.0f32], [6.0], [10.0]]);
    let w = Variable::constant([[1.0f32], [2.0], [4.0]]);
    let layer = BatchNorm::new(1);
    let run = |how: fn(&BatchNorm, &Variable) -> Variable, forward_in_test: bool| {
        layer.running_mean.set(Array::from([1.0f32]));
        x.clear_grad();
        let forward = || (how(&layer, &x) * &w).sum(..);
        let loss = match forward_in_test {
            true => eval_mode(forward),
            false => forward(),
        };
        match forward_in_test {
            true => train_mode(|| loss.backward()),
            false => eval_mode(|| loss.backward()),
        }
        let gradient = x.grad().unwrap().to_vec::<f32>();
        (gradient, layer.running_mean.get().to_vec::<f32>())
    };
    let plain = |layer: &BatchNorm, x: &Variable| layer.forward(x);
    let forgetful = |layer: &BatchNorm, x: &Variable| {
        let of_pair = |(layer, x): &(BatchNorm, Variable)| layer.forward(x);
        checkpoint(of_pair, &(layer.clone(), x.clone()))
    };
    for in_test in [true, false] {
        let expected = run(plain, in_test);
        assert_eq!(run(forgetful, in_test), expected, "{in_test}");
        // Running statistics move once in training, and not at all in use.
        let moved = if in_test { 1.0 } else { 0.9 + 0.6 };
        assert_eq!(expected.1, [moved]);
    }
}

#[test]
fn it_sees_the_rules_of_its_first_run() {
    let straight = Rules::new().vjp("round", |_, gy| vec![Some(gy[0].clone())]);
    let x = Variable::new([1.4, 2.6]);
    let y = straight.scope(|| checkpoint(|x: &Variable| x.round() * 3.0, &x));
    y.sum(..).backward();
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [3.0, 3.0]);
    // And not those of the walk back.
    x.clear_grad();
    let y = checkpoint(|x: &Variable| x.round() * 3.0, &x);
    straight.scope(|| y.sum(..).backward());
    assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 0.0]);
}

#[test]
fn it_sees_the_captured_leaves_of_its_first_run() {
    // What is frozen, or read as an array, is a constant and may be captured.
    let run = |how: fn(Block, &Variable) -> Variable| {
        let (frozen, read) = (Variable::new(3.0), Variable::new(5.0));
        frozen.freeze();
        let captured = (frozen.clone(), read.clone());
        let block: Block =
            Arc::new(move |w| w * &captured.0 * Variable::constant(captured.1.array()));
        let w = Variable::new(2.0);
        let y = how(block, &w);
        frozen.update(|old| old + 2.0);
        read.set_array(Array::from(0.0));
        y.backward();
        assert_eq!((frozen.item::<f64>(), read.item::<f64>()), (5.0, 0.0));
        w.grad().unwrap().item::<f64>()
    };
    assert_eq!(run(|block, w| block(w)), 15.0);
    assert_eq!(run(|block, w| forgetful(&block)(w)), 15.0);
    assert_eq!(run(|block, w| ruleless(&block)(w)), 15.0);
    assert_eq!(run(|block, w| twice_forgetful(&block)(w)), 15.0);
}

#[test]
fn it_sees_whether_history_is_recorded() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let f = move |x: &Variable| {
        told.lock().unwrap().push(is_recording());
        let constant = no_grad(|| x * 2.0);
        x * constant
    };
    let x = Variable::new(3.0);
    let y = checkpoint(f.clone(), &x);
    y.backward();
    assert_eq!(x.grad().unwrap().item::<f64>(), 6.0);
    assert_eq!(*seen.lock().unwrap(), [true, true]);
    seen.lock().unwrap().clear();
    no_grad(|| checkpoint(f, &x));
    assert_eq!(*seen.lock().unwrap(), [false]);
}

#[test]
fn a_transformer_block_with_dropout_as_the_book_has_it() {
    let block = || {
        let g = &mut Generator::new(4);
        TransformerBlock::builder(8, 2).dropout(0.3).build(g)
    };
    let x = Variable::constant(Generator::new(5).normal([2, 5, 8], 0.0, 1.0, DType::F32));
    let run = |forward: fn(&TransformerBlock, &Variable) -> Variable| {
        let block = block();
        let y = forward(&block, &x);
        (&y * &x).sum(..).backward();
        let gradients = block.parameters().into_iter();
        let gradients: Vec<Vec<f32>> = gradients.map(|(_, w)| w.grad().unwrap().to_vec()).collect();
        // What is drawn next.
        (
            y.to_vec::<f32>(),
            gradients,
            block.forward(&x).to_vec::<f32>(),
        )
    };
    let plain = run(|block, x| block.forward(x));
    let forgetful = run(|block, x| {
        let of_pair = |(block, x): &(TransformerBlock, Variable)| block.forward(x);
        checkpoint(of_pair, &(block.clone(), x.clone()))
    });
    assert_eq!(plain.0, forgetful.0);
    assert_eq!(plain.2, forgetful.2);
    for (a, b) in plain.1.iter().flatten().zip(forgetful.1.iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} and {b}");
    }
}

#[test]
fn per_example_gradients_of_what_was_forgotten() {
    let w = Variable::new(input(&[WIDE]).array());
    let x = input(&[3, WIDE]);
    let run = |forget: bool| {
        let link = Dropout::new(0.5, &mut Generator::new(6));
        let f = move |(w, x): &(Variable, Variable)| link.forward(&(x * w)).tanh();
        let pair = (w.clone(), x.clone());
        let y = match forget {
            true => checkpoint(f, &pair),
            false => f(&pair),
        };
        per_example(&y.sum(1), &w).rows().to_vec::<f64>()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_second_run_that_differs_is_an_error() {
    let calls = Arc::new(Mutex::new(0));
    let generator = Mutex::new(Generator::new(0));
    let x = Variable::new([1.0; 4]);
    let y = checkpoint(
        move |x: &Variable| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            let mut generator = generator.lock().unwrap();
            (0..*calls).fold(x.clone(), |x, _| dropout(&x, 0.1, &mut generator))
        },
        &x,
    );
    let error = attempt(|| y.sum(..).backward()).unwrap_err().to_string();
    assert!(error.contains("more often than the first time"), "{error}");
}

#[test]
fn a_checkpoint_computes_on_one_thread() {
    let drop = Arc::new(Dropout::new(0.5, &mut Generator::new(1)));
    let forward = move |x: &Variable| {
        let scopes = Scopes::current();
        thread::scope(|threads| {
            let other = threads.spawn(|| attempt(|| scopes.run(|| drop.forward(x))));
            other.join().expect("it is an error")
        })
        .unwrap_or_else(|error| bibun::array::raise(error))
    };
    let x = Variable::new([1.0; 64]);
    let forward = Arc::new(forward);
    let own = Arc::clone(&forward);
    let error = attempt(|| checkpoint(move |x: &Variable| own(x), &x))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("Scopes::run: these are scopes of a function"),
        "{error}"
    );
    assert!(error.contains(file!()), "{error}");
    // Afterwards they are scopes like others.
    let scopes = checkpoint_scopes();
    assert_eq!(
        thread::spawn(move || scopes.run(is_training)).join().ok(),
        Some(true)
    );
    assert_eq!(forward(&x).size(), 64);
}

/// The scopes of a function that is no longer running.
fn checkpoint_scopes() -> Scopes {
    let seen = Arc::new(Mutex::new(None));
    let inside = Arc::clone(&seen);
    let see = move |x: &Variable| {
        *inside.lock().unwrap() = Some(Scopes::current());
        x * 2.0
    };
    checkpoint(see, &Variable::new(1.0));
    seen.lock().unwrap().take().expect("it ran")
}

#[test]
fn draws_of_a_batch_element_do_not_depend_on_the_others() {
    let run = |batch: usize, chunk: usize, randomness| {
        let mut g = Generator::new(8);
        let options = VmapOptions::new().chunk_size(chunk).randomness(randomness);
        let f = |x: &Variable| {
            x + random_normal([WIDE], 0.0, 1.0, DType::F64, &mut g) + dropout(x + 1.0, 0.5, &mut g)
        };
        let zeros = Variable::constant(Array::zeros([batch, WIDE], DType::F64));
        let y = vmap_with(f, &zeros, &options).to_vec::<f64>();
        (y, g)
    };
    for randomness in [Randomness::Different, Randomness::Same] {
        let (all, after) = run(6, 6, randomness);
        for batch in 1..6 {
            for chunk in 1..=batch {
                let (some, generator) = run(batch, chunk, randomness);
                assert_eq!(some, all[..batch * WIDE], "{batch} in chunks of {chunk}");
                // And the generator moves as for one of them.
                assert_eq!(generator, after);
            }
        }
    }
    // Batches of batches.
    let nested = |outer: usize, inner: usize| {
        let mut g = Generator::new(9);
        let x = Variable::constant(Array::zeros([outer, inner], DType::F64));
        let mut f = |x: &Variable| x + random_normal([], 0.0, 1.0, DType::F64, &mut g);
        vmap(|x| vmap(&mut f, x), &x).to_vec::<f64>()
    };
    let (few, many) = (nested(2, 3), nested(4, 5));
    for (i, row) in few.chunks(3).enumerate() {
        assert_eq!(row, &many[5 * i..5 * i + 3]);
    }
}

#[test]
fn chunks_leave_behind_what_one_run_leaves() {
    #[derive(Tree)]
    struct Pair {
        x: Variable,
    }
    for chunk in [5, 2, 1] {
        let link = Dropout::new(0.5, &mut Generator::new(10));
        let options = VmapOptions::new().chunk_size(chunk);
        let x = Pair {
            x: input(&[5, WIDE]),
        };
        let first = vmap_with(|p: &Pair| link.forward(&p.x), &x, &options).to_vec::<f64>();
        let second = vmap_with(|p: &Pair| link.forward(&p.x), &x, &options).to_vec::<f64>();
        assert_ne!(first, second);
        let alone = Dropout::new(0.5, &mut Generator::new(10));
        let expected = vmap(|p: &Pair| alone.forward(&p.x), &x).to_vec::<f64>();
        assert_eq!(first, expected, "chunks of {chunk}");
        let stream = |link: &Dropout| link.buffers()[0].1.to_vec::<i64>();
        assert_eq!(stream(&link)[1], 2 * stream(&alone)[1]);
    }
}

#[test]
fn a_model_in_evaluation_is_so_on_every_thread() {
    let layer = BatchNorm::new(1);
    let before = layer.running_mean.get().to_vec::<f32>();
    let x = Variable::constant([[2.0f32], [6.0]]);
    let server = Evaluation::new(layer.clone());
    let expected = eval_mode(|| layer.forward(&x)).to_vec::<f32>();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                assert!(is_training());
                assert_eq!(server.forward(&x).to_vec::<f32>(), expected);
                assert_eq!(train_mode(|| server.forward(&x)).to_vec::<f32>(), expected);
            });
        }
    });
    assert_eq!(layer.running_mean.get().to_vec::<f32>(), before);
    assert_eq!(server.parameters().len(), layer.parameters().len());
    assert_eq!(server.parameters()[0].0, layer.parameters()[0].0);
}
