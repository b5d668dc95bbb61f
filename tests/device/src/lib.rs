//! Devices for tests.
//!
//! [`Counting`] computes as the CPU does, in memory that nobody else can read, and counts what it is
//! asked for. [`Bare`] has memory and nothing else: everything goes through the host.

mod golden;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bibun_array::{
    Array, Attention, Change, Complaint, Convolution, ConvolutionPart, DType, Device, Distribution,
    Error, Kernel, Memory, Normalization, Recurrence, Reduce, Scan, Scatter, Shape, Slice, Stencil,
    Update, View, attempt, cpu, raise,
};

pub use golden::expect_golden;

/// What a [`Counting`] device was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How often each operation ran, by the name of its kernel where it has one.
    pub kernels: BTreeMap<String, usize>,
    /// How many pieces of memory were made.
    pub allocations: usize,
    /// How many copies were made: on the device, to it and from it.
    pub copies: usize,
    /// Bytes of the memory that is in use.
    pub live_bytes: usize,
}

impl Counts {
    /// How many kernels ran.
    pub fn kernel_count(&self) -> usize {
        self.kernels.values().sum()
    }

    /// Kernels, allocations and copies as a cell of a table.
    pub fn cell(&self) -> String {
        let kernels = self.kernel_count();
        format!("{kernels:3} {:3} {:3}", self.allocations, self.copies)
    }
}

/// A device that computes as the CPU does and counts.
///
/// Its memory cannot be read but by [`Device::download`], and that only for the functions that the
/// device was [made](Counting::new) for. Single elements stay on it. Indices that are out of bounds
/// are reported late, as by a device that does not wait.
pub struct Counting {
    readers: &'static [&'static str],
    counts: Mutex<Counts>,
    late: Mutex<Option<Error>>,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Memory that holds the CPU's.
#[derive(Debug)]
struct Held {
    memory: Arc<dyn Memory>,
    device: &'static Counting,
}

impl Memory for Held {
    fn device(&self) -> &'static dyn Device {
        self.device
    }
    fn dtype(&self) -> DType {
        self.memory.dtype()
    }
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.count().live_bytes -= self.memory.bytes();
    }
}

impl Counting {
    /// A device of its own, that shows elements to the functions of these names alone: `to`, `to_vec`,
    /// `item`, `element`, `display`, `save`.
    pub fn new(readers: &'static [&'static str]) -> &'static Self {
        // Kept where a search for leaks finds them: what a device says late is its own for good.
        static DEVICES: Mutex<Vec<&'static Counting>> = Mutex::new(Vec::new());
        let device: &'static Self = Box::leak(Box::new(Self {
            readers,
            counts: Mutex::default(),
            late: Mutex::default(),
        }));
        DEVICES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(device);
        device
    }

    /// What was asked for since the device was made, or [`counting`](Counting::counting) began.
    pub fn counts(&self) -> Counts {
        self.count().clone()
    }

    /// What `work` asks for, beside its result.
    pub fn counting<T>(&self, work: impl FnOnce() -> T) -> (T, Counts) {
        let live_bytes = self.count().live_bytes;
        *self.count() = Counts {
            live_bytes,
            ..Counts::default()
        };
        let result = work();
        (result, self.counts())
    }

    fn count(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is computed by an operation of this name, from inputs of which it may take the memory.
    fn run<const N: usize>(
        &'static self,
        operation: &str,
        inputs: Vec<Array>,
        compute: impl FnOnce(Vec<Array>) -> [Array; N],
    ) -> [Array; N] {
        let results = self.run_all(operation, inputs, |inputs| {
            *inputs = compute(mem::take(inputs)).into();
        });
        results.try_into().expect("as many as there were")
    }

    /// [`Counting::run`] for any number of results, which take the places of the inputs.
    fn run_all(
        &'static self,
        operation: &str,
        inputs: Vec<Array>,
        compute: impl FnOnce(&mut Vec<Array>),
    ) -> Vec<Array> {
        *self
            .count()
            .kernels
            .entry(operation.to_owned())
            .or_default() += 1;
        let mut arrays: Vec<Array> = inputs.into_iter().map(|x| self.as_host(x)).collect();
        let theirs: Vec<_> = arrays.iter().filter_map(Array::memory_key).collect();
        compute(&mut arrays);
        let owned = arrays.into_iter().map(|y| {
            if y.memory_key().is_none_or(|key| !theirs.contains(&key)) {
                self.count().allocations += 1;
            }
            self.as_own(y)
        });
        owned.collect()
    }

    /// [`Counting::run`] for one result, from inputs that stay as they are.
    fn make<const N: usize>(
        &'static self,
        operation: &str,
        inputs: [&Array; N],
        compute: impl FnOnce([&Array; N]) -> Array,
    ) -> Array {
        let inputs = inputs.into_iter().cloned().collect();
        let [y] = self.run(operation, inputs, |inputs| {
            [compute(std::array::from_fn(|i| &inputs[i]))]
        });
        y
    }

    /// One of our arrays as one of the CPU's, which holds the memory alone if nobody else did.
    fn as_host(&self, x: Array) -> Array {
        x.map_memory(|memory| {
            let memory: Arc<dyn Any + Send + Sync> = memory;
            let Ok(held) = memory.downcast::<Held>() else {
                panic!("memory of another device")
            };
            Arc::clone(&held.memory)
        })
    }

    /// One of the CPU's arrays as one of ours; single elements, which the CPU puts into the array
    /// itself, too.
    fn as_own(&'static self, y: Array) -> Array {
        let y = match y.memory_key() {
            None if y.size() == 1 => {
                let element = y.element(&vec![0; y.rank()]);
                Array::from_memory(cpu().upload(Slice::of_scalar(&element)), y.shape())
            }
            _ => y,
        };
        y.map_memory(|memory| self.hold(memory))
    }

    /// Indices that do no harm, where some were reported.
    fn harmless(&'static self, indices: &Array, size: usize) -> Array {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.is_none() {
            return indices.clone();
        }
        let clamp = |index: i64| index.clamp(-(size as i64), size as i64 - 1);
        let indices = self.as_host(indices.clone());
        let elements = indices.to_vec().into_iter().map(clamp).collect();
        self.as_own(Array::from_vec(elements, indices.shape()))
    }

    fn hold(&'static self, memory: Arc<dyn Memory>) -> Arc<dyn Memory> {
        self.count().live_bytes += memory.bytes();
        Arc::new(Held {
            memory,
            device: self,
        })
    }
}

impl Device for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn host(&self) -> &'static dyn Device {
        cpu()
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
        let mut count = self.count();
        count.copies += 1;
        count.allocations += 1;
        drop(count);
        self.hold(cpu().upload(elements))
    }

    fn download(&'static self, x: &Array, asked_by: &'static str) -> Array {
        assert!(
            self.readers.contains(&asked_by),
            "{asked_by} reads elements that are on a device"
        );
        self.count().copies += 1;
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = late.take() {
            drop(late);
            raise(error);
        }
        cpu().copy(&self.as_host(x.clone()))
    }

    fn copy(&'static self, x: &Array) -> Array {
        self.count().copies += 1;
        self.count().allocations += 1;
        self.as_own(cpu().copy(&self.as_host(x.clone())))
    }

    fn empty(&'static self, shape: &Shape, dtype: DType) -> Array {
        self.count().allocations += 1;
        self.as_own(cpu().empty(shape, dtype))
    }

    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        let taken = |x: &mut Array| mem::replace(x, Array::zeros((), x.dtype()));
        let inputs = inputs.iter_mut().map(taken).collect();
        let [y] = self.run(kernel.name(), inputs, |mut inputs| {
            [cpu().elementwise(kernel, &mut inputs)]
        });
        y
    }

    fn update(
        &'static self,
        update: &Update,
        parameter: &mut Array,
        gradient: &Array,
        state: &mut [Array],
    ) {
        let own = update.map(|x| self.as_host(x.clone()));
        let gradient = self.as_host(gradient.clone());
        let taken = |x: &mut Array| mem::replace(x, Array::zeros((), x.dtype()));
        let targets = std::iter::once(&mut *parameter).chain(&mut *state);
        let targets = targets.map(taken).collect();
        let results = self.run_all(update.name(), targets, |targets| {
            let (parameter, state) = targets.split_first_mut().expect("a parameter");
            cpu().update(&own, parameter, &gradient, state);
        });
        let targets = std::iter::once(parameter).chain(state);
        targets.zip(results).for_each(|(target, y)| *target = y);
    }

    fn sum_of_squares(
        &'static self,
        changes: &[Change],
        parameter: &Array,
        gradient: &Array,
    ) -> Array {
        let own = |change: &Change| change.map(|x| self.as_host(x.clone()));
        let changes: Vec<Change> = changes.iter().map(own).collect();
        self.make("sum_of_squares", [parameter, gradient], |[x, g]| {
            cpu().sum_of_squares(&changes, x, g)
        })
    }

    fn assign(&'static self, target: &mut Array, part: View, value: &Array) {
        let taken = mem::replace(target, Array::zeros((), target.dtype()));
        let inputs = vec![taken, value.clone()];
        [*target] = self.run("assign", inputs, |inputs| {
            let [mut target, value] = inputs.try_into().expect("two");
            cpu().assign(&mut target, part, &value);
            [target]
        });
    }

    fn reduce(&'static self, reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
        let name = format!("{reduction:?}").to_lowercase();
        self.make(&name, [x], |[x]| cpu().reduce(reduction, x, axes))
    }

    fn check(&'static self, x: &Array, bounds: Range<i64>, complaint: Complaint) {
        *self.count().kernels.entry("check".into()).or_default() += 1;
        let x = self.as_host(x.clone());
        if let Err(error) = attempt(|| cpu().check(&x, bounds, complaint)) {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.get_or_insert(error);
        }
    }

    fn nonzero(&'static self, x: &Array) -> Array {
        self.make("nonzero", [x], |[x]| cpu().nonzero(x))
    }

    fn take(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        let indices = &self.harmless(indices, x.shape()[axis]);
        self.make("take", [x, indices], |[x, indices]| {
            cpu().take(x, indices, axis)
        })
    }

    fn add_at(&'static self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array {
        let indices = self.harmless(indices, target.shape()[axis]);
        let inputs = vec![target, indices, value.clone()];
        let [y] = self.run("add_at", inputs, |inputs| {
            let [target, indices, value] = inputs.try_into().expect("three");
            [cpu().add_at(target, &indices, axis, &value)]
        });
        y
    }

    fn gather(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        let indices = &self.harmless(indices, x.shape()[axis]);
        self.make("gather", [x, indices], |[x, indices]| {
            cpu().gather(x, indices, axis)
        })
    }

    fn scatter_add(
        &'static self,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let indices = self.harmless(indices, target.shape()[axis]);
        let inputs = vec![target, indices, value.clone()];
        let [y] = self.run("scatter_add", inputs, |inputs| {
            let [target, indices, value] = inputs.try_into().expect("three");
            [cpu().scatter_add(target, &indices, axis, &value)]
        });
        y
    }

    fn scatter(
        &'static self,
        rule: Scatter,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let indices = self.harmless(indices, target.shape()[axis]);
        let inputs = vec![target, indices, value.clone()];
        let [y] = self.run("scatter", inputs, |inputs| {
            let [target, indices, value] = inputs.try_into().expect("three");
            [cpu().scatter(rule, target, &indices, axis, &value)]
        });
        y
    }

    fn random(
        &'static self,
        distribution: Distribution,
        keys: &[u64],
        counter: u64,
        shape: &Shape,
    ) -> Array {
        self.make("random", [], |[]| {
            cpu().random(distribution, keys, counter, shape)
        })
    }

    fn gemm(&'static self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        let inputs = vec![a.clone(), b.clone(), c];
        let [y] = self.run("gemm", inputs, |inputs| {
            let [a, b, c] = inputs.try_into().expect("three");
            [cpu().gemm(alpha, &a, &b, beta, c)]
        });
        y
    }

    fn convolve(
        &'static self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array {
        self.make("convolve", [a, b], |[a, b]| {
            cpu().convolve(convolution, made, a, b)
        })
    }

    fn patches(&'static self, convolution: &Convolution, x: &Array) -> Array {
        self.make("patches", [x], |[x]| cpu().patches(convolution, x))
    }

    fn scan(&'static self, scan: Scan, x: &Array, axis: usize) -> Array {
        self.make("scan", [x], |[x]| cpu().scan(scan, x, axis))
    }

    fn moments(&'static self, x: &Array, axes: &[usize]) -> [Array; 2] {
        self.run("moments", vec![x.clone()], |inputs| {
            cpu().moments(&inputs[0], axes)
        })
    }

    fn normalize(
        &'static self,
        rule: Normalization,
        x: &Array,
        axes: &[usize],
        parameters: &[&Array],
    ) -> [Array; 3] {
        let inputs = std::iter::once(x).chain(parameters.iter().copied());
        self.run("normalize", inputs.cloned().collect(), |inputs| {
            let parameters: Vec<&Array> = inputs[1..].iter().collect();
            cpu().normalize(rule, &inputs[0], axes, &parameters)
        })
    }

    fn normalize_gradient(
        &'static self,
        rule: Normalization,
        axes: &[usize],
        x: &Array,
        [mean, variance]: [&Array; 2],
        scale: Option<&Array>,
        [gy, gmean, gvariance]: [&Array; 3],
    ) -> Vec<Array> {
        let inputs = [x, mean, variance, gy, gmean, gvariance].into_iter();
        let inputs = inputs.chain(scale).cloned().collect();
        self.run_all("normalize gradient", inputs, |inputs| {
            let ([x, mean, variance, gy, gmean, gvariance], scale) =
                inputs.split_first_chunk().expect("there are six");
            let (statistics, cotangents) = ([mean, variance], [gy, gmean, gvariance]);
            let scale = scale.first();
            *inputs = cpu().normalize_gradient(rule, axes, x, statistics, scale, cotangents);
        })
    }

    fn attention(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
    ) -> [Array; 2] {
        let all = inputs.into_iter().chain(mask).cloned().collect();
        self.run("attention", all, |inputs| {
            let (inputs, mask) = inputs.split_first_chunk::<3>().expect("there are three");
            cpu().attention(rule, inputs.each_ref(), mask.first())
        })
    }

    fn attention_gradient(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
        results: [&Array; 3],
    ) -> [Array; 3] {
        let all = inputs
            .into_iter()
            .chain(results)
            .chain(mask)
            .cloned()
            .collect();
        self.run("attention gradient", all, |inputs| {
            let (inputs, rest) = inputs.split_first_chunk::<3>().expect("there are three");
            let (results, mask) = rest.split_first_chunk::<3>().expect("there are three");
            cpu().attention_gradient(rule, inputs.each_ref(), mask.first(), results.each_ref())
        })
    }

    fn recurrence(&'static self, rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
        self.run_all("recurrence", inputs, |inputs| {
            *inputs = cpu().recurrence(rule, mem::take(inputs));
        })
    }

    fn recurrence_gradient(&'static self, rule: &Recurrence, inputs: &[Array]) -> Vec<Array> {
        self.run_all("recurrence gradient", inputs.to_vec(), |inputs| {
            *inputs = cpu().recurrence_gradient(rule, inputs);
        })
    }

    fn argsort(&'static self, x: &Array, axis: usize, descending: bool, count: usize) -> Array {
        self.make("argsort", [x], |[x]| {
            cpu().argsort(x, axis, descending, count)
        })
    }

    fn reduce_window(&'static self, x: &Array, first: usize, stencil: &[Stencil]) -> Array {
        self.make("reduce_window", [x], |[x]| {
            cpu().reduce_window(x, first, stencil)
        })
    }

    fn window_max(&'static self, x: &Array, rows: &Stencil, columns: &Stencil) -> (Array, Array) {
        let [largest, positions] = self.run("window_max", vec![x.clone()], |inputs| {
            cpu().window_max(&inputs[0], rows, columns).into()
        });
        (largest, positions)
    }
}

/// A device that has memory and nothing else. What is computed on it is computed on the host.
#[derive(Debug)]
pub struct Bare(());

/// The bare device.
pub static BARE: Bare = Bare(());

/// Memory of the bare device.
#[derive(Debug)]
struct Plain(Arc<dyn Memory>);

impl Memory for Plain {
    fn device(&self) -> &'static dyn Device {
        &BARE
    }
    fn dtype(&self) -> DType {
        self.0.dtype()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Device for Bare {
    fn name(&self) -> &str {
        "bare"
    }

    fn host(&self) -> &'static dyn Device {
        cpu()
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
        Arc::new(Plain(cpu().upload(elements)))
    }

    fn download(&'static self, x: &Array, _: &'static str) -> Array {
        cpu().copy(&x.clone().map_memory(|memory| {
            let memory: Arc<dyn Any + Send + Sync> = memory;
            let plain = memory.downcast::<Plain>().expect("memory of this device");
            Arc::clone(&plain.0)
        }))
    }
}
