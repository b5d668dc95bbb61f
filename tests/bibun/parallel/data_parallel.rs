//! One training over several processes is that of one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bibun::array::{Array, DType, Generator};
use bibun::links::{Chain, Linear, Link, Mlp};
use bibun::optimizers::hooks::{ClipNorm, ClipValue, GradientNoise, WeightDecay};
use bibun::optimizers::{Adam, AdamW, Eve, Lamb, Lbfgs, MomentumSgd, Optimizer, RmsProp, Sgd};
use bibun::parallel::{Communicator, DataParallel, Message, Transport, local};
use bibun::serializers::{State, Stateful, Value};
use bibun::{Variable, attempt, tree_map};

const EXAMPLES: usize = 12;

fn model() -> Mlp {
    let mlp = Mlp::new(&[3, 7, 5, 2], &mut Generator::new(1));
    tree_map(|w| Variable::new(w.array().cast(DType::F64)), &mlp)
}

/// The examples of a process.
fn data(world: &Communicator) -> [Variable; 2] {
    let mut random = Generator::new(2);
    let x = random.normal([EXAMPLES, 3], 0.0, 1.0, DType::F64);
    let t = random.normal([EXAMPLES, 2], 0.0, 1.0, DType::F64);
    [x, t].map(|all| Variable::constant(all.slice(&[world.share(EXAMPLES).into()])))
}

fn loss(model: &Mlp, [x, t]: &[Variable; 2]) -> Variable {
    (model.forward(x) - t).square().mean(..)
}

type Made = Box<dyn Optimizer>;

fn values(model: &dyn Chain) -> Vec<Array> {
    let parameters = model.parameters().into_iter();
    parameters
        .map(|(_, parameter)| parameter.array().to_row_major())
        .collect()
}

/// Trains for some steps; returns the losses and the parameters of each process.
fn train(
    count: usize,
    steps: usize,
    make: impl Fn() -> Made + Sync,
    wrap: impl Fn(Made, &Communicator) -> DataParallel<Made> + Sync,
) -> Vec<(Vec<f64>, Vec<Array>)> {
    local::run(count, |world| {
        let (model, data) = (model(), data(&world));
        let mut optimizer = wrap(make(), &world);
        let mut step = |_| {
            optimizer
                .minimize(&model, &mut || loss(&model, &data))
                .item::<f64>()
        };
        let losses = (0..steps).map(&mut step).collect();
        (losses, values(&model))
    })
}

fn expect_close(a: &[Array], b: &[Array], tolerance: f64, what: &str) {
    for (a, b) in a.iter().zip(b) {
        for (a, b) in a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>()) {
            assert!(
                (a - b).abs() <= tolerance * (1.0 + a.abs()),
                "{what}: {a} {b}"
            );
        }
    }
}

fn same_bits(a: &[Array], b: &[Array]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.has_same_bits(b))
}

#[test]
fn processes_together_train_as_one() {
    /// A name, an optimizer, and the steps after which rounding has grown to no more than this.
    type Row = (&'static str, fn() -> Made, usize, f64);
    let optimizers: [Row; 6] = [
        ("Sgd", || Box::new(Sgd::new(0.1)), 6, 1e-13),
        (
            "MomentumSgd",
            || Box::new(MomentumSgd::new(0.05, 0.9)),
            6,
            1e-13,
        ),
        ("Adam", || Box::new(Adam::new(0.01)), 6, 1e-10),
        ("Lamb", || Box::new(Lamb::new(0.01)), 6, 1e-10),
        ("Eve", || Box::new(Eve::new(0.01)), 6, 1e-10),
        ("Lbfgs", || Box::new(Lbfgs::new(1.0)), 3, 1e-6),
    ];
    for (name, make, steps, tolerance) in optimizers {
        let alone = {
            let world = local::run(1, |world| data(&world)).remove(0);
            let (model, mut optimizer) = (model(), make());
            let mut step = |_| {
                optimizer
                    .minimize(&model, &mut || loss(&model, &world))
                    .item()
            };
            let losses: Vec<f64> = (0..steps).map(&mut step).collect();
            (losses, values(&model))
        };
        let of_one = train(1, steps, make, |inner, world| {
            DataParallel::new(inner, world)
        });
        assert!(
            same_bits(&of_one[0].1, &alone.1),
            "{name}: one process is the optimizer inside"
        );
        for count in 2..=4 {
            let wrap = |inner, world: &Communicator| DataParallel::new(inner, world).check_every(1);
            let all = train(count, steps, make, wrap);
            expect_close(&all[0].1, &alone.1, tolerance, name);
            for (a, b) in all[0].0.iter().zip(&alone.0) {
                assert!(
                    (a - b).abs() < 1e-6 * (1.0 + a.abs()),
                    "{name}, {count}: {a} {b}"
                );
            }
            for process in &all {
                assert_eq!(process.0, all[0].0);
                assert!(same_bits(&process.1, &all[0].1), "{name}, {count}");
            }
            // The bits are those of every run, however the gradients travel.
            let wrap =
                |inner, world: &Communicator| DataParallel::new(inner, world).bucket_bytes(70);
            let again = train(count, steps, make, wrap);
            assert!(same_bits(&again[0].1, &all[0].1), "{name}, {count}");
        }
    }
}

/// A layer that only some use, a shared weight, and one that nobody uses.
#[derive(Chain)]
struct Parts {
    shared: Variable,
    first_only: Variable,
    unused: Variable,
    frozen: Variable,
}

#[test]
fn parameters_that_some_do_not_use() {
    for bytes in [1, 1 << 20] {
        let results = local::run(3, |world| {
            let parts = Parts {
                shared: Variable::new([1.0, 2.0]),
                first_only: Variable::new(3.0),
                unused: Variable::new(5.0),
                frozen: Variable::new(7.0),
            };
            if world.rank() == 1 {
                parts.frozen.set_requires_grad(false);
            }
            let sgd = Sgd::new(1.0);
            let mut optimizer = DataParallel::new(sgd, &world)
                .bucket_bytes(bytes)
                .check_every(1);
            for _ in 0..2 {
                optimizer.minimize(&parts, &mut || {
                    let y = (&parts.shared * &parts.shared).sum(..) + &parts.frozen * 6.0;
                    match world.is_first() {
                        true => y + 9.0 * &parts.first_only,
                        false => y,
                    }
                });
            }
            assert!(parts.unused.grad().is_none());
            assert_eq!(parts.frozen.is_frozen(), world.rank() == 1);
            values(&parts)
                .iter()
                .map(Array::to_vec::<f64>)
                .collect::<Vec<_>>()
        });
        // A third of 9 by the first; two thirds of 6 by those where it is not frozen.
        let expected = vec![
            vec![1.0, 2.0],
            vec![3.0 - 2.0 * 3.0],
            vec![5.0],
            vec![7.0 - 2.0 * 4.0],
        ];
        assert_eq!(results, vec![expected; 3]);
    }
}

#[test]
fn parts_of_a_batch_accumulate_without_communication() {
    let results = local::run(2, |world| {
        let (model, [x, t]) = (model(), data(&world));
        let mut optimizer = DataParallel::new(Adam::new(0.01), &world);
        let part = |i: usize| {
            let rows = |x: &Variable| x.slice(&[(2 * i..2 * i + 2).into()]);
            loss(&model, &[rows(&x), rows(&t)]) / 3.0
        };
        for _ in 0..3 {
            model.clear_grads();
            part(0).backward();
            part(1).backward();
            let last = part(2);
            optimizer.backward(&model, &last);
            optimizer.update(&model);
        }
        // By `update` alone, after the passes.
        model.clear_grads();
        (0..3).for_each(|i| part(i).backward());
        optimizer.update(&model);
        values(&model)
    });
    let whole = train(1, 4, || Box::new(Adam::new(0.01)), DataParallel::new);
    assert!(same_bits(&results[0], &results[1]));
    expect_close(&results[0], &whole[0].1, 1e-10, "accumulated");
}

/// Threads that count what they send.
struct Counted {
    rank: usize,
    inbox: Receiver<(usize, Message)>,
    outboxes: Vec<Sender<(usize, Message)>>,
    sent: Arc<AtomicUsize>,
}

impl Transport for Counted {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.outboxes.len()
    }
    fn send(&mut self, to: usize, message: Message) -> Result<(), String> {
        if matches!(&message, Message::Part { what, .. } if what.starts_with("the gradients")) {
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
        // The end of a process is heard by nobody in the end.
        let _ = self.outboxes[to].send((self.rank, message));
        Ok(())
    }
    fn receive(&mut self, patience: Duration) -> Result<Option<(usize, Message)>, String> {
        Ok(self.inbox.recv_timeout(patience).ok())
    }
    fn is_idle(&mut self) -> bool {
        true
    }
    fn close(self: Box<Self>, _: bool) {}
}

#[test]
fn gradients_leave_while_the_walk_goes_on() {
    let (outboxes, inboxes): (Vec<_>, Vec<_>) = (0..2).map(|_| channel()).unzip();
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for (rank, inbox) in inboxes.into_iter().enumerate() {
            let (outboxes, seen) = (outboxes.clone(), &seen);
            threads.spawn(move || {
                let sent = Arc::new(AtomicUsize::new(0));
                let count = Arc::clone(&sent);
                let connect = move || -> Result<Box<dyn Transport>, ()> {
                    Ok(Box::new(Counted {
                        rank,
                        inbox,
                        outboxes,
                        sent: count,
                    }))
                };
                let world = Communicator::new(connect).unwrap();
                let layers = [3, 4].map(|n| Linear::new(n, n + 1, &mut Generator::new(0)));
                let mut optimizer = DataParallel::new(Sgd::new(0.1), &world).bucket_bytes(1);
                // Before the first layer, the walk waits for what the second one has sent.
                let at_first = Arc::new(AtomicUsize::new(0));
                let told = (Arc::clone(&sent), Arc::clone(&at_first));
                let gate =
                    bibun::custom("gate", |[x]: [&Variable; 1]| x * 1.0).vjp(move |_, _, gy| {
                        let began = Instant::now();
                        while told.0.load(Ordering::SeqCst) < 2
                            && began.elapsed() < Duration::from_secs(20)
                        {
                            std::thread::yield_now();
                        }
                        told.1
                            .store(told.0.load(Ordering::SeqCst), Ordering::SeqCst);
                        [gy.clone()]
                    });
                let x = Variable::constant([[1f32, 2.0, 3.0]]);
                optimizer.minimize(&layers, &mut || {
                    let hidden = gate.call([&layers[0].forward(&x)]);
                    layers[1].forward(&hidden).sum(..)
                });
                let all = [&at_first, &sent].map(|count| count.load(Ordering::SeqCst));
                seen.lock().unwrap().push(all);
            });
        }
    });
    // Weight and bias of the second layer had left, and not those of the first.
    for [at_first, sent] in seen.into_inner().unwrap() {
        assert!((2..sent).contains(&at_first), "{at_first} of {sent}");
    }
}

#[test]
fn what_differs_is_named() {
    let failed = |f: &(dyn Fn(&Communicator) + Sync)| {
        let errors = local::try_run(2, |world| f(&world))
            .into_iter()
            .filter_map(Result::err);
        errors
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let step = |model: &dyn Chain, world: &Communicator, steps: usize, w: &Variable| {
        let mut optimizer = DataParallel::new(Sgd::new(0.1), world).check_every(2);
        for step in 0..steps {
            if step == 1 && world.rank() == 1 {
                w.update(|old| old + 1e-12);
            }
            optimizer.minimize(model, &mut || w.square().sum(..));
        }
    };
    let errors = failed(&|world| {
        let w = Variable::new([1.0, 2.0]);
        step(&vec![Variable::new(1.0), w.clone()], world, 4, &w);
    });
    let expected = "the parameter `1` of process 1 differs from that of process 0 after step 2";
    assert!(errors.contains(expected), "{errors}");
    let errors = failed(&|world| {
        let w = Variable::new(vec![1.0; 2 + world.rank()]);
        step(&w, world, 1, &w);
    });
    assert!(
        errors.contains("process 0 has the parameter `` [2] f64 where process 1 has `` [3] f64"),
        "{errors}"
    );
    let errors = failed(&|world| {
        let w = Variable::new(world.rank() as f64);
        step(&w, world, 1, &w);
    });
    assert!(errors.contains("broadcast_model"), "{errors}");
    // More than one backward pass.
    let errors = failed(&|world| {
        let w = Variable::new(1.0);
        let twice = bibun::custom("twice", |[x]: [&Variable; 1]| x * 1.0);
        let own = w.clone();
        let twice = twice.vjp(move |_, _, gy| {
            own.square().backward();
            [gy.clone()]
        });
        DataParallel::new(Sgd::new(0.1), world).minimize(&w, &mut || twice.call([&w]));
    });
    assert!(errors.contains("has left already"), "{errors}");
    local::run(3, |world| {
        let model = Linear::new(2, 2, &mut Generator::new(world.rank() as u64));
        world.broadcast_model(&model);
        let expected = Linear::new(2, 2, &mut Generator::new(0));
        assert!(same_bits(&values(&model), &values(&expected)));
    });
}

#[test]
fn shared_weights_are_added_once() {
    let results = local::run(2, |world| {
        let w = Variable::new(2.0);
        let model = (w.clone(), w.clone());
        let mut optimizer = DataParallel::new(Sgd::new(0.5), &world);
        let own = 1.0 + world.rank() as f64;
        optimizer.minimize(&model, &mut || &model.0 * &model.1 * own);
        w.item::<f64>()
    });
    // The mean of 4 and 8, halved.
    assert_eq!(results, [-1.0, -1.0]);
}

/// The number of elements that a state has moments of.
fn moments(state: &State) -> usize {
    let moments = state.iter().filter(|(name, _)| name.ends_with("/m"));
    let size = |value: &Value| match value {
        Value::Array(moments) => moments.size(),
        Value::Text(_) => 0,
    };
    moments.map(|(_, value)| size(value)).sum()
}

fn sharded(inner: Made, world: &Communicator) -> DataParallel<Made> {
    DataParallel::new(inner, world).check_every(1).sharded()
}

#[test]
fn a_divided_state_has_the_same_bits() {
    let makes: [fn() -> Made; 8] = [
        || Box::new(Sgd::new(0.1).hook(WeightDecay(0.1)).hook(ClipValue(0.3))),
        || Box::new(Adam::new(0.01)),
        || Box::new(AdamW::new(0.01)),
        || Box::new(RmsProp::new(0.01)),
        || Box::new(MomentumSgd::new(0.01, 0.9)),
        || Box::new(Lamb::new(0.01)),
        || Box::new(Adam::new(0.01).hook(GradientNoise::new(0.1, 3))),
        || {
            Box::new(
                Adam::new(0.01).group(|name| name.ends_with("bias"), |g| g.learning_rate = 0.1),
            )
        },
    ];
    for make in makes {
        for count in [1, 2, 3, 7] {
            let whole = train(count, 5, make, |inner, world| {
                DataParallel::new(inner, world)
            });
            let parts = train(count, 5, make, sharded);
            assert_eq!(whole[0].0, parts[0].0);
            for process in &parts {
                assert!(same_bits(&process.1, &whole[0].1), "{count}");
            }
        }
    }
}

#[test]
fn a_divided_state_is_saved_as_one() {
    let steps = |optimizer: &mut dyn Optimizer, model: &Mlp, world: &Communicator, steps: usize| {
        let data = data(world);
        for _ in 0..steps {
            optimizer.minimize(model, &mut || loss(model, &data));
        }
    };
    let adam = || -> Made { Box::new(Adam::new(0.01)) };
    let saved = local::run(3, |world| {
        let (model, mut optimizer) = (model(), sharded(adam(), &world));
        steps(&mut optimizer, &model, &world, 3);
        // A third is here, though the largest parameter is almost a half.
        let own = optimizer.optimizer().state();
        let all = world
            .all_reduce(&Array::from(moments(&own) as i64))
            .item::<i64>();
        let count = model.parameter_count();
        assert_eq!((all, moments(&optimizer.state())), (count as i64, count));
        assert_eq!(moments(&own), world.share(count).len());
        let (first, state) = (values(&model), optimizer.state());
        steps(&mut optimizer, &model, &world, 2);
        (first, state, values(&model))
    });
    let (first, state, last) = &saved[0];
    assert_eq!(state.checksum(), saved[2].1.checksum());
    let unsharded = local::run(3, |world| {
        let (model, mut optimizer) = (model(), DataParallel::new(adam(), &world));
        steps(&mut optimizer, &model, &world, 3);
        optimizer.state().checksum()
    });
    assert_eq!(state.checksum(), unsharded[0]);
    // It goes on with the same number of processes, divided or not, and with another one.
    for (count, is_sharded) in [(3, true), (3, false), (2, true), (1, false)] {
        let resumed = local::run(count, |world| {
            let model = model();
            for ((_, parameter), value) in model.parameters().into_iter().zip(first) {
                parameter.set_array(value.clone());
            }
            let mut optimizer = match is_sharded {
                true => sharded(adam(), &world),
                false => DataParallel::new(adam(), &world),
            };
            optimizer.load_state(state).unwrap();
            steps(&mut optimizer, &model, &world, 2);
            let own = moments(&optimizer.optimizer().state());
            let is_divided = own < model.parameter_count();
            assert_eq!(is_divided, is_sharded, "{count}");
            values(&model)
        });
        match count {
            3 => assert!(same_bits(&resumed[0], last)),
            _ => expect_close(&resumed[0], last, 1e-10, "resumed"),
        }
    }
}

#[test]
fn a_state_that_cannot_be_divided_is_refused() {
    let makes: [fn() -> Made; 3] = [
        || Box::new(Sgd::new(0.1).hook(ClipNorm(1.0))),
        || Box::new(Eve::new(0.1)),
        || Box::new(Lbfgs::new(1.0)),
    ];
    for make in makes {
        local::run(2, |world| {
            let w = Variable::new(1.0);
            let mut optimizer = sharded(make(), &world);
            let error = attempt(|| optimizer.minimize(&w, &mut || w.square())).unwrap_err();
            assert!(
                error.to_string().contains("use it without `sharded`"),
                "{error}"
            );
        });
    }
}

/// Each process has its part of the elements, whatever the sizes of parameters and buckets, and goes on when its
/// own optimizer has been used before, or a state of another kind is refused.
#[test]
fn every_process_keeps_its_part_of_the_elements() {
    let sizes = [1, 1000, 3, 17];
    let parameters = || sizes.map(|size| Variable::new(Array::ones([size], DType::F64)));
    for (count, bytes) in [(2, 1 << 20), (3, 1 << 20), (3, 64), (5, 8000)] {
        let kept = local::run(count, |world| {
            let model = parameters();
            let step = |optimizer: &mut dyn Optimizer| {
                optimizer.minimize(&model, &mut || {
                    let squares = model.iter().map(|w| w.square().sum(..));
                    squares.reduce(|a, b| a + b).unwrap()
                });
            };
            let mut adam = Adam::new(0.1);
            step(&mut adam);
            let wrapped = DataParallel::new(adam, &world);
            let mut optimizer = wrapped.bucket_bytes(bytes).check_every(1).sharded();
            step(&mut optimizer);
            let kept = moments(&optimizer.optimizer().state());
            assert_eq!(moments(&optimizer.state()), 1021);
            let refused = optimizer.load_state(&State::new()).unwrap_err();
            assert!(refused.to_string().contains("rule"), "{refused}");
            step(&mut optimizer);
            // Its own state, again.
            let state = optimizer.state();
            optimizer.load_state(&state).unwrap();
            step(&mut optimizer);
            let mut whole = Adam::new(0.1);
            let alone = parameters();
            for _ in 0..4 {
                whole.minimize(&alone, &mut || {
                    let squares = alone.iter().map(|w| w.square().sum(..));
                    squares.reduce(|a, b| a + b).unwrap()
                });
            }
            expect_close(&values(&model), &values(&alone), 1e-12, "all parts");
            kept
        });
        assert_eq!(kept.iter().sum::<usize>(), 1021);
        // One element of difference in each bucket.
        let (least, most) = (kept.iter().min().unwrap(), kept.iter().max().unwrap());
        assert!(most - least <= 4, "{kept:?}");
    }
}
