//! Random computations under random scopes, many at once: what each gives must be what it gives when it
//! is run alone on one thread, bit for bit.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bibun::array::{Array, DType, Definition, Generator, Kernel, Slice, SliceMut, run_kernel};
use bibun::functions::{ConvOptions, conv2d, dropout, ones_like, stack};
use bibun::{
    GradOptions, Randomness, Rules, Variable, VmapOptions, checkpoint, detect_anomaly, eval_mode,
    gradients, gradients_with, is_recording, is_training, jvp, no_grad, retain, train_mode,
    vmap_with, with_hook,
};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

/// What is differentiated: data of a task's own, and weights that all tasks share.
type Pair = (Variable, Variable);
type Function = Arc<dyn Fn(&Pair) -> Variable + Send + Sync>;

/// A panic on purpose, which the panic hook does not see.
struct Thrown;

/// Does nothing for a while in some parts of its work, so that threads wait for one another.
const SLOW: &Definition = &Definition::host("slow", None, |_, inputs, out| {
    let (Slice::F64(x), SliceMut::F64(y)) = (inputs[0], out) else {
        unreachable!("it is given numbers of this type")
    };
    y.copy_from_slice(x);
    if x[0] % 16_384.0 == 0.0 {
        thread::sleep(Duration::from_micros(500));
    }
});

/// A kernel that waits for other threads.
pub(crate) fn wait() {
    static POSITIONS: OnceLock<Array> = OnceLock::new();
    let positions = || Array::arange(0, 131_072).cast(DType::F64);
    run_kernel(
        &Kernel::new(SLOW, &[]),
        &mut [POSITIONS.get_or_init(positions).clone()],
    );
}

/// What all tasks of a round use.
struct Shared {
    row: Variable,
    matrix: Variable,
    filters: Variable,
    /// Whole numbers, whose gradients are the same in any order of adding.
    exact: Variable,
}

impl Shared {
    fn new(random: &mut Generator) -> Self {
        let exact = random.integers(-3, 4, [200_000]).cast(DType::F64);
        let mut leaf = |shape: &[usize]| Variable::new(random.normal(shape, 0.0, 0.1, DType::F64));
        Self {
            row: leaf(&[1000]),
            matrix: leaf(&[1000, 48]),
            filters: leaf(&[6, 3, 3, 3]),
            exact: Variable::new(exact),
        }
    }
}

/// A random computation: what it computes, under which scopes, and the factor of its part of the
/// gradient of the leaf that all share.
struct Task {
    name: String,
    function: Function,
    x: Array,
    weights: Variable,
    factor: f64,
    /// How many times its gradient is taken, each time with history from the time before.
    order: usize,
}

/// What a task gives: the bits of its value and of its gradients.
#[derive(Clone, PartialEq, Eq)]
struct Outcome {
    value: u64,
    gradients: Vec<Option<u64>>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}, gradients ", f64::from_bits(self.value))?;
        let gradients = self.gradients.iter().map(|bits| match bits {
            Some(bits) => format!("{bits:016x}"),
            None => "none".to_owned(),
        });
        f.debug_list().entries(gradients).finish()
    }
}

/// A number that two arrays of different bits hardly share.
fn digest(x: &Variable) -> u64 {
    let bits = x.array().to_vec::<f64>().into_iter().map(f64::to_bits);
    bits.fold(0xcbf2_9ce4_8422_2325, |digest, bits| {
        (digest ^ bits)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23)
    })
}

fn below(random: &mut Generator, end: i64) -> i64 {
    random.integers(0, end, ()).item()
}

impl Task {
    fn new(seed: u64, shared: &Shared) -> Self {
        let random = &mut Generator::new(seed);
        let normal =
            |random: &mut Generator, shape: &[usize]| random.normal(shape, 0.0, 1.0, DType::F64);
        let (name, x, weights, function): (_, _, _, Function) = match below(random, 4) {
            0 => {
                let f = |(x, w): &Pair| ((x * w).tanh() + x.square()).sum(..);
                ("sum", normal(random, &[80, 1000]), &shared.row, Arc::new(f))
            }
            1 => {
                let f = |(x, w): &Pair| x.matmul(w).tanh().square().sum(..);
                (
                    "matmul",
                    normal(random, &[64, 1000]),
                    &shared.matrix,
                    Arc::new(f),
                )
            }
            2 => {
                let f = |(x, w): &Pair| conv2d(x, w, None, ConvOptions::new()).tanh().sum(..);
                (
                    "convolution",
                    normal(random, &[2, 3, 40, 40]),
                    &shared.filters,
                    Arc::new(f),
                )
            }
            _ => {
                // Another function in training mode.
                let f = move |(x, w): &Pair| {
                    dropout((x * w).tanh(), 0.5, &mut Generator::new(seed))
                        .square()
                        .sum(..)
                };
                (
                    "dropout",
                    normal(random, &[80, 1000]),
                    &shared.row,
                    Arc::new(f),
                )
            }
        };
        let mut task = Self {
            name: name.to_owned(),
            function,
            x,
            weights: weights.clone(),
            factor: (1 + below(random, 7)) as f64,
            order: 1 + usize::from(below(random, 4) == 0),
        };
        let f = task.function;
        task.function = Arc::new(move |p| {
            wait();
            f(p)
        });
        let mut batch = false;
        for _ in 0..1 + below(random, 4) {
            let mut kind = below(random, 12);
            // More batch elements of batch elements would take too long.
            if kind == 7 && std::mem::replace(&mut batch, true) {
                kind = 1;
            }
            let (name, function) = within(kind, below(random, 2) == 0, task.function);
            task.name = format!("{name}({})", task.name);
            task.function = function;
        }
        task
    }

    fn run(&self, shared: &Shared) -> Outcome {
        let pair = (Variable::new(&self.x), self.weights.clone());
        assert!(
            is_recording() && is_training(),
            "a task begins under scopes of another"
        );
        let y = (self.function)(&pair);
        assert!(is_recording() && is_training(), "a scope is still open");
        let mut outcome = Outcome {
            value: y.item::<f64>().to_bits(),
            gradients: Vec::new(),
        };
        let mut last = y;
        for order in 1..=self.order {
            if !last.requires_grad() {
                outcome.gradients.push(None);
                break;
            }
            let wanted = [&pair.0, &pair.1];
            let found = match order < self.order {
                true => gradients_with(&[&last], &wanted, GradOptions::new().create_graph()),
                false => gradients(&[&last], &wanted),
            };
            outcome
                .gradients
                .extend(found.iter().map(|g| g.as_ref().map(digest)));
            match found.into_iter().next().flatten() {
                Some(gradient) => last = gradient.square().sum(..),
                None => break,
            }
        }
        assert!(
            is_recording() && is_training(),
            "a scope was opened by a walk"
        );
        let noticed = Arc::new(AtomicU64::new(0));
        let hook = pair.0.register_hook({
            let noticed = Arc::clone(&noticed);
            move |_| {
                wait();
                noticed.fetch_add(1, Ordering::Relaxed);
                None
            }
        });
        pair.0.square().sum(..).backward();
        hook.remove();
        assert_eq!(noticed.load(Ordering::Relaxed), 1, "hooks are called once");
        // Kernels over a large leaf, while others add to the same gradient.
        (&shared.exact * self.factor).sum(..).backward();
        outcome
    }
}

/// The function within a scope or a transformation.
fn within(kind: i64, flag: bool, f: Function) -> (&'static str, Function) {
    match kind {
        0 if flag => (
            "no_grad",
            Arc::new(move |p| no_grad(|| checked(&f, p, false, None))),
        ),
        0 | 1 => (
            "test",
            Arc::new(move |p| eval_mode(|| checked(&f, p, is_recording(), Some(false)))),
        ),
        2 => (
            "train",
            Arc::new(move |p| train_mode(|| checked(&f, p, is_recording(), Some(true)))),
        ),
        3 => ("retain", Arc::new(move |p| retain(|| f(p)))),
        4 => (
            "rules",
            Arc::new(move |p| {
                let doubled = Rules::new().vjp("tanh", |cx, gy| {
                    wait();
                    let gradients = cx.original_vjp(gy).into_iter();
                    gradients.map(|gx| gx.map(|gx| 2.0 * gx)).collect()
                });
                doubled.scope(|| f(p))
            }),
        ),
        5 => ("detect_anomaly", Arc::new(move |p| detect_anomaly(|| f(p)))),
        6 => (
            "with_hook",
            Arc::new(move |p| {
                let (f, count) = (&f, Rc::new(Cell::new(0)));
                let counter = Rc::clone(&count);
                let y = with_hook(move |_| counter.set(counter.get() + 1), || f(p));
                // One call more or less is another value.
                y + f64::from(count.get())
            }),
        ),
        7 => (
            if flag { "vmap" } else { "vmap same" },
            Arc::new(move |(x, w)| {
                let batch = stack([x, &(0.5 * x)], 0);
                let randomness = match flag {
                    true => Randomness::Different,
                    false => Randomness::Same,
                };
                let options = VmapOptions::new().in_axes((0, None)).randomness(randomness);
                vmap_with(|p: &Pair| f(p), &(batch, w.clone()), &options).sum(..)
            }),
        ),
        8 => (
            "jvp",
            Arc::new(move |(x, w)| {
                let tangent = ones_like(x);
                let (y, dy) = jvp(|x| f(&(x.clone(), w.clone())), x, &tangent);
                y + 0.5 * dy
            }),
        ),
        9 => (
            "checkpoint",
            Arc::new(move |p| {
                let f = Arc::clone(&f);
                checkpoint(move |p: &Pair| f(p), p)
            }),
        ),
        10 => (
            "after a panic",
            Arc::new(move |p| {
                let thrown = catch_unwind(AssertUnwindSafe(|| {
                    let throw = || -> Variable {
                        f(p);
                        resume_unwind(Box::new(Thrown))
                    };
                    match flag {
                        true => eval_mode(|| no_grad(throw)),
                        false => retain(|| Rules::new().scope(throw)),
                    }
                }));
                let Err(payload) = thrown else {
                    unreachable!("it throws")
                };
                if !payload.is::<Thrown>() {
                    resume_unwind(payload);
                }
                f(p)
            }),
        ),
        _ => ("twice", Arc::new(move |p| f(p) + f(p))),
    }
}

/// The function in a mode, which must be the mode afterwards.
fn checked(f: &Function, p: &Pair, recording: bool, training: Option<bool>) -> Variable {
    let training = training.unwrap_or_else(is_training);
    let y = f(p);
    if (is_recording(), is_training()) != (recording, training) {
        panic_any("a scope was lost within".to_owned());
    }
    y
}

/// On which threads a round runs its tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threads {
    /// A rayon pool of its own, of so many threads.
    Pool(usize),
    /// The rayon pool that all share.
    Global,
    /// So many threads of a scope.
    Scoped(usize),
}

/// What is being run, for whoever waits in vain.
#[derive(Default)]
pub(crate) struct Watch {
    running: Mutex<Vec<(u64, String, Instant)>>,
    ended: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Watches that tasks come to an end, and ends the program with what was running if for so long
    /// none has.
    pub(crate) fn begin(patience: Duration) -> Arc<Self> {
        let watch = Arc::new(Self::default());
        let watched = Arc::downgrade(&watch);
        thread::spawn(move || {
            let (mut ended, mut since) = (0, Instant::now());
            while let Some(watch) = watched.upgrade() {
                let now = watch.ended.load(Ordering::Relaxed);
                let running = lock(&watch.running);
                if now != ended || running.is_empty() {
                    (ended, since) = (now, Instant::now());
                }
                if since.elapsed() > patience {
                    let mut text = format!("nothing has ended for {patience:?}; running are:\n");
                    for (seed, name, start) in &*running {
                        let lasted = start.elapsed();
                        text += &format!("  {name}, seed {seed}, for {lasted:?}\n");
                    }
                    // Not by the macro, whose text the tests catch and lose.
                    let _ = io::stderr().write_all(text.as_bytes());
                    std::process::exit(1);
                }
                drop(running);
                drop(watch);
                thread::sleep(Duration::from_millis(200));
            }
        });
        watch
    }

    /// Runs `f` as something of this seed and name.
    pub(crate) fn during<T>(&self, seed: u64, name: &str, f: impl FnOnce() -> T) -> T {
        lock(&self.running).push((seed, name.to_owned(), Instant::now()));
        let result = f();
        let mut running = lock(&self.running);
        if let Some(at) = running.iter().position(|(other, ..)| *other == seed) {
            running.swap_remove(at);
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        result
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
    });
    let error = || {
        payload
            .downcast_ref::<bibun::Error>()
            .map(ToString::to_string)
    };
    text.or_else(error).unwrap_or_else(|| "a panic".to_owned())
}

/// Runs random tasks at once on `threads`, and each alone on one thread; what differs.
pub(crate) fn round(seed: u64, tasks: usize, threads: Threads, watch: &Watch) -> Vec<String> {
    let shared = Shared::new(&mut Generator::new(seed));
    let seeds = (0..tasks as u64).map(|i| seed.wrapping_mul(1_000_003).wrapping_add(i));
    let tasks: Vec<(u64, Task)> = seeds.map(|seed| (seed, Task::new(seed, &shared))).collect();
    let run = |(seed, task): &(u64, Task)| {
        let run = || catch_unwind(AssertUnwindSafe(|| task.run(&shared)));
        let outcome = watch.during(*seed, &task.name, run);
        outcome.map_err(|payload| message(&*payload))
    };
    let pool = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads can be started")
    };

    // Threads wait for one another where tasks come to an end, so there are few at a time.
    let at_once =
        |part: &[(u64, Task)]| -> Vec<_> { part.par_iter().with_max_len(1).map(run).collect() };
    #[expect(clippy::type_complexity, reason = "what a part gives stands above")]
    let in_parts = |threads: usize, run: &dyn Fn(&[(u64, Task)]) -> Vec<_>| -> Vec<_> {
        tasks.chunks(2 * threads).flat_map(run).collect()
    };
    let found: Vec<_> = match threads {
        Threads::Pool(count) => {
            let pool = pool(count);
            in_parts(count, &|part| pool.install(|| at_once(part)))
        }
        Threads::Global => in_parts(rayon::current_num_threads(), &at_once),
        Threads::Scoped(count) => thread::scope(|scope| {
            let parts = tasks.chunks(tasks.len().div_ceil(count));
            let spawn = |part| scope.spawn(move || Vec::from_iter(<[_]>::iter(part).map(run)));
            let handles: Vec<_> = parts.map(spawn).collect();
            let results = handles
                .into_iter()
                .flat_map(|handle| handle.join().expect("caught"));
            results.collect()
        }),
    };
    let gradient = shared.exact.grad();
    let alone: Vec<_> = pool(1).install(|| tasks.iter().map(run).collect());

    let mut wrong = Vec::new();
    for (((seed, task), found), alone) in tasks.iter().zip(&found).zip(&alone) {
        if found != alone {
            let name = &task.name;
            wrong.push(format!(
                "{name}, seed {seed}: {found:?} at once, {alone:?} alone"
            ));
        }
        if let Err(message) = alone {
            wrong.push(format!(
                "{}, seed {seed}: fails alone: {message}",
                task.name
            ));
        }
    }
    let factors = found.iter().zip(&tasks).filter(|(found, _)| found.is_ok());
    let sum: f64 = factors.map(|(_, (_, task))| task.factor).sum();
    let sums = gradient.map_or_else(Vec::new, |g| g.to_vec::<f64>());
    if let Some(other) = sums.iter().find(|&&other| other != sum) {
        wrong.push(format!(
            "the gradient of the shared leaf has {other}, the parts add up to {sum}"
        ));
    } else if sums.is_empty() {
        wrong.push("the shared leaf has no gradient".to_owned());
    }
    let context = |wrong: String| format!("round {seed} on {threads:?}: {wrong}");
    wrong.into_iter().map(context).collect()
}
