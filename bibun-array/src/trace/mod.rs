//! Programs recorded from calls: a device that writes down what it is asked for.
//!
//! The arguments of a function become arrays whose memory is a numbered slot of a [`Tracer`].
//! Whatever is computed from them is a step of its recording, with slots for the results. No
//! element is there yet, so a function that reads one is refused.

mod device;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::convolution::{Convolution, ConvolutionPart};
use crate::cpu::Join;
use crate::dtype::with_word;
use crate::kernel::Kernel;
use crate::program::Program;
use crate::shape::Layout;
use crate::storage::{Buffer, Word};
use crate::{Array, DType, Device, Error, Location, Memory, Reduce, Scalar, Shape, raise};

use device::TRACE;

/// A recording of a function of arrays, which becomes a [`Program`].
///
/// ```
/// use bibun_array::{Array, Tracer};
/// let tracer = Tracer::new("square");
/// let x = tracer.input(&Array::from([1.0, 2.0]));
/// let y = tracer.run(|| vec![&x * &x]);
/// let program = tracer.finish(&y);
/// let [y] = &program.run(vec![Array::from([3.0, 4.0])])[..] else { panic!() };
/// assert_eq!(y.to_vec::<f64>(), [9.0, 16.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Tracer(Arc<Recording>);

/// What has been recorded so far.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The function that is traced, for errors.
    name: &'static str,
    /// The end of the recording that this one goes on from. Its content is part of this one's.
    from: Option<Cut>,
    content: Mutex<Content>,
    /// Raises the first error about what no trace can do. The function may have caught it, and gone another
    /// way than where there are values.
    refused: Mutex<Option<Refusal>>,
}

/// An error to be raised.
struct Refusal(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// The steps in the order of their calls.
    pub(crate) steps: Vec<Step>,
    /// The slots: first those of the inputs, then those of results.
    pub(crate) slots: Vec<SlotSpec>,
    /// The slots of the inputs.
    pub(crate) inputs: Vec<usize>,
}

/// The elements that a slot will have: their dtype, and where they will be in memory.
#[derive(Clone, Debug)]
pub(crate) struct SlotSpec {
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    /// Whether it is a single value that the array itself holds.
    pub(crate) is_inline: bool,
}

impl SlotSpec {
    fn set_inline(&mut self) {
        self.layout.strides = self.layout.shape.no_steps();
        self.is_inline = true;
    }

    /// The number of elements in memory.
    pub(crate) fn elements(&self) -> usize {
        match self.is_inline {
            true => 1,
            false => self.layout.shape.size(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// One call of a device.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) work: Work,
    pub(crate) inputs: Vec<Operand>,
    /// The first slot of the results, and their number.
    pub(crate) first: usize,
    pub(crate) outputs: usize,
    /// The function of the user's call, and its location.
    pub(crate) function: &'static str,
    pub(crate) location: Location,
}

/// A function of host arrays.
pub(crate) type Run = dyn Fn(Vec<Array>) -> Vec<Array> + Send + Sync;

/// What a step computes.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel at each element of inputs of one shape.
    Kernel(Kernel),
    /// Another operation of the CPU.
    Call {
        name: &'static str,
        /// All that the result depends on beside the inputs, as text; without it, no other call is
        /// known to be equal.
        parameters: Option<String>,
        /// What it computes, if it can be computed row by row.
        along: Option<Along>,
        /// The places that it writes its second input to, if it is an [`ASSIGN`].
        part: Option<Layout>,
        run: Arc<Run>,
    },
    /// An array that is made of the inputs.
    Join(Arc<Join>),
}

/// The name of the call that refuses values.
pub(crate) const CHECK: &str = "check";

/// The name of the call that copies an array into row-major order.
pub(crate) const COPY: &str = "copy";

/// The name of the call that makes an array for parts.
pub(crate) const EMPTY: &str = "empty";

/// The name of the call that writes a part, its second input, into an array.
pub(crate) const ASSIGN: &str = "assign";

/// An operation along axes of its first input.
#[derive(Clone, Debug)]
pub(crate) struct Along {
    pub(crate) operation: AlongAxes,
    pub(crate) axes: Vec<usize>,
}

/// An operation along axes.
#[derive(Clone, Debug)]
pub(crate) enum AlongAxes {
    Reduce(Reduce),
    /// A convolution of each example with weights, its second input, or the transposed one.
    Convolve(Arc<Convolution>, ConvolutionPart),
    /// `alpha a b + beta c`, one row for each of `a`.
    Product {
        alpha: f64,
        beta: f64,
    },
}

impl Work {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Kernel(kernel) => kernel.name(),
            Self::Call { name, .. } => name,
            Self::Join(_) => "join",
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An input of a step.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// A window on a slot.
    Slot(usize, Layout),
    /// An array that was there when the function was traced.
    Constant(Array),
}

impl Operand {
    pub(crate) fn shape(&self) -> &Shape {
        match self {
            Self::Slot(_, layout) => &layout.shape,
            Self::Constant(x) => x.shape(),
        }
    }

    pub(crate) fn slot(&self) -> Option<usize> {
        match self {
            Self::Slot(slot, _) => Some(*slot),
            Self::Constant(_) => None,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        match self {
            Self::Slot(_, layout) => layout,
            Self::Constant(x) => x.layout(),
        }
    }
}

/// The memory of a value that is not there yet.
#[derive(Debug)]
pub(crate) struct Slot {
    recording: Arc<Recording>,
    number: usize,
    dtype: DType,
    bytes: usize,
    is_inline: bool,
}

impl Memory for Slot {
    fn device(&self) -> &'static dyn Device {
        &TRACE
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The end of a recording; see [`Tracer::cut`].
#[derive(Clone, Debug)]
pub struct Cut {
    recording: Arc<Recording>,
    /// The numbers of steps and of slots before it.
    steps: usize,
    slots: usize,
}

impl Cut {
    /// Returns a tracer that goes on from here. What it records, for further inputs, no other tracer sees.
    pub fn tracer(&self) -> Tracer {
        Tracer(Arc::new(Recording {
            name: self.recording.name,
            from: Some(self.clone()),
            content: Mutex::new(self.content()),
            refused: Mutex::default(),
        }))
    }

    /// Returns the program that computes these arrays from the inputs up to here.
    pub fn program(&self, outputs: &[Array]) -> Program {
        let outputs = outputs.iter().map(|y| self.recording.operand(y)).collect();
        Program::new(self.content(), outputs)
    }

    fn content(&self) -> Content {
        let content = self.recording.content();
        Content {
            steps: content.steps[..self.steps].to_vec(),
            slots: content.slots[..self.slots].to_vec(),
            inputs: content.inputs.clone(),
        }
    }
}

thread_local! {
    /// The recordings of the functions that are being traced, the innermost last.
    static CURRENT: RefCell<Vec<Arc<Recording>>> = const { RefCell::new(Vec::new()) };
}

impl Tracer {
    /// Creates an empty recording. The name of the traced function is for errors.
    pub fn new(name: &'static str) -> Self {
        Self(Arc::new(Recording {
            name,
            from: None,
            content: Mutex::default(),
            refused: Mutex::default(),
        }))
    }

    /// Returns an array that stands for the next input. In every run, the input will have the shape,
    /// dtype and strides of `like`, or repeat a single value.
    pub fn input(&self, like: &Array) -> Array {
        self.input_in(like.dtype(), input_layout(like), like.inline().is_some())
    }

    /// Returns an array that stands for the next input, whose elements will be in row-major order.
    pub fn row_major_input(&self, shape: &Shape, dtype: DType) -> Array {
        self.input_in(dtype, Layout::row_major(shape.clone()), false)
    }

    fn input_in(&self, dtype: DType, layout: Layout, is_inline: bool) -> Array {
        let mut content = self.0.content();
        let number = content.slots.len();
        content.inputs.push(number);
        let spec = SlotSpec {
            dtype,
            layout,
            is_inline,
        };
        self.0.slot(&mut content, spec)
    }

    /// Runs a function that computes with the inputs.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(|all| all.pop());
            }
        }
        CURRENT.with_borrow_mut(|all| all.push(Arc::clone(&self.0)));
        let _end = End;
        f()
    }

    /// Raises the first error that the trace has [refused](refuse) something with, which the function may
    /// have caught.
    ///
    /// # Panics
    /// Panics if there is such an error.
    pub fn expect_not_refused(&self) {
        let refused = lock(&self.0.refused).take();
        if let Some(Refusal(raise)) = refused {
            raise();
        }
    }

    /// Returns the program that computes these arrays.
    pub fn finish(self, outputs: &[Array]) -> Program {
        let outputs = outputs.iter().map(|y| self.0.operand(y)).collect();
        let content = std::mem::take(&mut *self.0.content());
        Program::new(content, outputs)
    }

    /// Ends the recording, and returns its end, from which others can go on.
    ///
    /// ```
    /// use bibun_array::{Array, Tracer};
    /// let tracer = Tracer::new("product");
    /// let like = Array::from([1.0, 2.0]);
    /// let x = tracer.input(&like);
    /// let y = tracer.run(|| x.exp());
    /// let cut = tracer.cut();
    /// let later = cut.tracer();
    /// let g = later.input(&like);
    /// let gx = later.run(|| &g * &y);
    /// // The exponential is kept, and not computed again.
    /// let kept = later.kept(&[], &[gx.clone()]);
    /// let first = cut.program(&[vec![y], kept.clone()].concat());
    /// let rest = later.rest(&[kept, vec![g]].concat(), &[gx]).expect("all that it needs");
    /// let made = first.run(vec![Array::from([0.0, 1.0])]);
    /// let gx = rest.run(vec![made[1].clone(), Array::from([3.0, 0.0])]);
    /// assert_eq!(gx[0].to_vec::<f64>(), [3.0, 0.0]);
    /// ```
    pub fn cut(&self) -> Cut {
        let content = self.0.content();
        Cut {
            recording: Arc::clone(&self.0),
            steps: content.steps.len(),
            slots: content.slots.len(),
        }
    }

    /// Returns the values of the part that this tracer goes on from, from which these arrays can be
    /// computed, without those that are `given`, and those that are quickly computed again from the others
    /// in a pass over memory.
    pub fn kept(&self, given: &[Array], outputs: &[Array]) -> Vec<Array> {
        let number = |x: &Array| slot(x).map(|slot| slot.number);
        let given: Vec<usize> = given.iter().filter_map(number).collect();
        let outputs = outputs.iter().map(|y| self.0.operand(y)).collect();
        let content = self.0.content().clone();
        let specs = content.slots.clone();
        let Some(before) = &self.0.from else {
            return Vec::new();
        };
        let kept = crate::program::kept(content, before.slots, outputs);
        let kept = kept.into_iter().filter(|slot| !given.contains(slot));
        kept.map(|slot| before.recording.array(slot, specs[slot].clone()))
            .collect()
    }

    /// Returns the program that computes some arrays from these, or `None` if they do not suffice. Checks of
    /// the part that this tracer goes on from are not in it.
    pub fn rest(&self, inputs: &[Array], outputs: &[Array]) -> Option<Program> {
        let outputs = outputs.iter().map(|y| self.0.operand(y)).collect();
        let numbers = inputs.iter().map(|x| slot(x).map(|slot| slot.number));
        let inputs = numbers.collect::<Option<Vec<usize>>>()?;
        let content = Content {
            inputs,
            ..self.0.content().clone()
        };
        let before = self.0.from.as_ref().map_or(0, |cut| cut.steps);
        Program::of_rest(content, before, outputs)
    }
}

/// Whether the elements of an array are not there yet, because a function is being traced.
pub fn is_traced(x: &Array) -> bool {
    slot(x).is_some()
}

/// Whether an array is a view of an input of a function that is being traced, and computed of nothing.
pub fn is_traced_input(x: &Array) -> bool {
    slot(x).is_some_and(|slot| slot.recording.content().inputs.contains(&slot.number))
}

/// Records a call of `run` as one step of the function that is being traced, and returns its results,
/// which have these shapes and dtypes. Here `run` is not called: it may do what no trace can follow,
/// such as a loop whose end depends on values. Without a trace, it is called at once.
///
/// ```
/// use bibun_array::{Array, DType, Shape, Tracer, record_call};
/// let halve = |x: Vec<Array>| {
///     let mut x = x[0].clone();
///     while x.item::<f64>() > 1.0 {
///         x = &x / 2.0;
///     }
///     vec![x]
/// };
/// let tracer = Tracer::new("halve");
/// let x = tracer.input(&Array::from(0.0));
/// let y = tracer.run(|| record_call("halve", &[x], &[(Shape::from(()), DType::F64)], halve));
/// let program = tracer.finish(&y);
/// assert_eq!(program.run(vec![Array::from(12.0)])[0].item::<f64>(), 0.75);
/// ```
///
/// # Panics
/// Panics if an input belongs to another trace. A run panics if the results are not of these shapes
/// and dtypes.
#[track_caller]
pub fn record_call(
    name: &'static str,
    inputs: &[Array],
    outputs: &[(Shape, DType)],
    run: impl Fn(Vec<Array>) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    let expected = outputs.to_vec();
    let run = move |inputs: Vec<Array>| -> Vec<Array> {
        let made = run(inputs);
        let is_expected = |(y, (shape, dtype)): (&Array, &(Shape, DType))| {
            y.shape() == shape && y.dtype() == *dtype
        };
        assert!(
            made.len() == expected.len() && made.iter().zip(&expected).all(is_expected),
            "{name} returns {made:?}, it was recorded for {expected:?}"
        );
        made.into_iter().map(in_row_major_memory).collect()
    };
    let refs: Vec<&Array> = inputs.iter().collect();
    let Some(recording) = Recording::of(name, &refs) else {
        return run(inputs.to_vec());
    };
    let slots = outputs.iter().map(|(shape, dtype)| SlotSpec {
        dtype: *dtype,
        layout: Layout::row_major(shape.clone()),
        is_inline: shape.size() <= 1,
    });
    let work = Work::Call {
        name,
        parameters: None,
        along: None,
        part: None,
        run: Arc::new(run),
    };
    recording.write(work, &refs, slots)
}

/// Returns the same elements as [`record_call`] returns them: in row-major memory, even if they repeat one
/// value, of which a sum may differ in the last bit from one of elements. A single element is in no memory, nor is nothing.
///
/// ```
/// use bibun_array::{Array, in_row_major_memory};
/// let ones = Array::from(1.0).broadcast_to([3]);
/// assert_eq!(ones.strides(), [0]);
/// assert_eq!(in_row_major_memory(ones).strides(), [1]);
/// ```
#[must_use]
pub fn in_row_major_memory(y: Array) -> Array {
    match y.inline() {
        Some(element) if y.size() > 1 => {
            with_word!(y.dtype(), W => {
                Array::moved(y.dtype(), y.shape().clone(), |out: &mut [W]| out.fill(W::of(element)))
            })
        }
        Some(_) => y,
        None if y.size() == 0 => Array::zeros(y.shape(), y.dtype()),
        None if y.size() == 1 && y.buffer().is_some() => {
            Array::constant(y.element_at(y.layout().offset), y.shape().clone())
        }
        None => y.to_row_major(),
    }
}

/// Panics with an error about what no trace can do. If the function that is being traced catches it,
/// [`Tracer::expect_not_refused`] raises it again, because where there are values the function would have
/// gone on. Without a trace, this is [`raise`].
///
/// ```
/// use bibun_array::{attempt, refuse, Error, Tracer};
/// let tracer = Tracer::new("demo");
/// let caught = tracer.run(|| attempt::<(), Error>(|| refuse(Error::invalid("f", "is refused"))));
/// assert!(caught.is_err());
/// let again: Result<(), Error> = attempt(|| tracer.expect_not_refused());
/// assert_eq!(again, caught);
/// ```
#[cold]
#[track_caller]
pub fn refuse<E: std::error::Error + Clone + Send + 'static>(error: E) -> ! {
    let current = CURRENT.with_borrow(|all| all.last().cloned());
    match current {
        Some(recording) => recording.refuse(error),
        None => raise(error),
    }
}

/// Puts the recordings of the functions that are being traced aside until the result is dropped.
pub(crate) fn put_aside() -> impl Drop {
    struct PutBack(Vec<Arc<Recording>>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            CURRENT.set(std::mem::take(&mut self.0));
        }
    }
    PutBack(CURRENT.take())
}

/// The layout of an input, from the beginning of the memory that it covers.
pub(crate) fn input_layout(x: &Array) -> Layout {
    let layout = x.layout();
    let axes = layout.shape.iter().zip(layout.strides.iter());
    let before = axes.map(|(&size, &step)| match step < 0 {
        true => (size.saturating_sub(1)) * step.unsigned_abs(),
        false => 0,
    });
    Layout {
        offset: before.sum(),
        ..layout.clone()
    }
}

/// The array itself, or zeros in the place of elements that are not there yet.
fn zeros_for(x: &Array) -> Array {
    if !is_traced(x) {
        return x.clone();
    }
    if is_inline(x) {
        return Array::zeros(x.shape(), x.dtype());
    }
    let own = input_layout(x);
    let axes = own.shape.iter().zip(own.strides.iter());
    let last: usize = axes
        .map(|(&size, &step)| (size - 1) * step.unsigned_abs())
        .sum();
    let mut buffer = Buffer::of(x.dtype(), last + 1);
    with_word!(x.dtype(), W => buffer.as_mut_words::<W>().fill(W::of(Scalar::zero(x.dtype()))));
    Array::of_buffer(buffer, own)
}

/// Whether an array is, or will be, a single value without memory.
fn is_inline(x: &Array) -> bool {
    x.inline().is_some() || slot(x).is_some_and(|slot| slot.is_inline)
}

fn slot(x: &Array) -> Option<&Slot> {
    (x.memory()? as &dyn Any).downcast_ref()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    fn content(&self) -> MutexGuard<'_, Content> {
        lock(&self.content)
    }

    /// Raises an error that the function must not go on from.
    #[cold]
    #[track_caller]
    fn refuse<E: std::error::Error + Clone + Send + 'static>(&self, error: E) -> ! {
        let again = error.clone();
        // A trace around is refused with it.
        let refusal = || Refusal(Box::new(move || refuse(again)));
        lock(&self.refused).get_or_insert_with(refusal);
        raise(error)
    }

    /// Whether this recording is the other one, or goes on from it.
    fn goes_on_from(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let mut own = self;
        loop {
            match &own.from {
                _ if Arc::ptr_eq(own, other) => return true,
                Some(cut) => own = &cut.recording,
                None => return false,
            }
        }
    }

    /// Whether a slot belongs to this recording, or to one that it goes on from.
    fn has(self: &Arc<Self>, slot: &Slot) -> bool {
        let (mut own, mut end) = (self, usize::MAX);
        loop {
            match &own.from {
                _ if Arc::ptr_eq(own, &slot.recording) => return slot.number < end,
                Some(cut) => (own, end) = (&cut.recording, cut.slots),
                None => return false,
            }
        }
    }

    /// The recording that these arrays belong to, or else the current one, if a function is traced.
    fn of(function: &'static str, inputs: &[&Array]) -> Option<Arc<Self>> {
        let current = CURRENT.with_borrow(|all| all.last().cloned());
        let mut found: Option<Arc<Self>> = None;
        for slot in inputs.iter().filter_map(|x| slot(x)) {
            if !slot.recording.is_going_on() {
                slot.recording.escaped(function);
            }
            let own = slot.recording.going_on();
            match &found {
                Some(found) if !Arc::ptr_eq(found, &own) => {
                    let is_current = current.is_some_and(|current| Arc::ptr_eq(found, &current));
                    let other = if is_current { &own } else { found };
                    other.escaped(function)
                }
                _ => found = Some(own),
            }
        }
        found.or(current)
    }

    /// The innermost recording on this thread that goes on from this one, or else this one.
    fn going_on(self: &Arc<Self>) -> Arc<Self> {
        let of_this = |other: &&Arc<Self>| other.goes_on_from(self);
        let found = CURRENT.with_borrow(|all| all.iter().rev().find(of_this).cloned());
        found.unwrap_or_else(|| Arc::clone(self))
    }

    /// Whether the function is being traced on this thread.
    fn is_going_on(self: &Arc<Self>) -> bool {
        CURRENT.with_borrow(|all| all.iter().any(|other| other.goes_on_from(self)))
    }

    /// A value that was kept from a trace that has ended, or from another one.
    #[cold]
    #[track_caller]
    fn escaped(self: &Arc<Self>, function: &'static str) -> ! {
        let what = format!(
            "an input is a value of {} while it was traced, which has no elements outside of it, nor on \
             another thread; hand it over as an argument or a result instead",
            self.name
        );
        self.refuse(Error::invalid(function, what))
    }

    /// A new slot, as an array.
    fn slot(self: &Arc<Self>, content: &mut Content, spec: SlotSpec) -> Array {
        let number = content.slots.len();
        content.slots.push(spec.clone());
        self.array(number, spec)
    }

    /// The slot with this number, as an array.
    fn array(self: &Arc<Self>, number: usize, spec: SlotSpec) -> Array {
        let memory = Slot {
            recording: Arc::clone(self),
            number,
            dtype: spec.dtype,
            bytes: spec.bytes(),
            is_inline: spec.is_inline,
        };
        Array::on_memory(Arc::new(memory), spec.layout)
    }

    fn operand(self: &Arc<Self>, x: &Array) -> Operand {
        match slot(x) {
            Some(slot) if self.has(slot) => Operand::Slot(slot.number, x.layout().clone()),
            Some(slot) => slot.recording.escaped(slot.recording.name),
            None => Operand::Constant(x.clone()),
        }
    }

    /// Writes a step with results of these dtypes and layouts.
    #[track_caller]
    fn write(
        self: &Arc<Self>,
        work: Work,
        inputs: &[&Array],
        outputs: impl IntoIterator<Item = SlotSpec>,
    ) -> Vec<Array> {
        let inputs = inputs.iter().map(|x| self.operand(x)).collect();
        let mut content = self.content();
        let first = content.slots.len();
        let results: Vec<Array> = outputs
            .into_iter()
            .map(|spec| self.slot(&mut content, spec))
            .collect();
        let running = crate::Call::running();
        let function = running.map_or("", |call| call.function);
        content.steps.push(Step {
            function: if function.is_empty() {
                work.name()
            } else {
                function
            },
            work,
            inputs,
            first,
            outputs: results.len(),
            location: crate::caller(),
        });
        results
    }
}
