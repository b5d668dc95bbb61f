//! Programs: what a function of arrays computes, as a list of steps that can be run again and again.
//!
//! A [`Tracer`](crate::Tracer) records the steps. Equal steps become one, those that no result needs
//! are left out, and kernels that follow each other are fused: one pass over memory computes all of
//! them, element by element, with the same bits. The other operations are calls of the CPU.

mod fused;
mod fusion;
mod join;
pub mod listing;
mod rows;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use std::collections::{HashMap, HashSet};

use smallvec::{SmallVec, smallvec};

pub use self::fused::fused;
use self::listing::Origin;
use crate::cpu::{Fused, Join, Rows};
use crate::formula::Source;
use crate::shape::Layout;
use crate::trace::{Along, Content, Operand, Run, SlotSpec, Step, Work};
use crate::{Array, Error, Scalar, Shape, raise};

/// A function of arrays with fixed shapes and dtypes, recorded by a [`Tracer`](crate::Tracer).
///
/// A run computes the same bits as the function that was recorded, on any number of threads.
#[derive(Debug)]
pub struct Program {
    slots: Vec<SlotSpec>,
    inputs: Vec<usize>,
    items: Vec<Item>,
    outputs: Vec<Operand>,
    /// Whether each output is the whole value of a slot, which no other output is.
    moved: Vec<bool>,
    /// The number of steps as they were recorded.
    recorded: usize,
    /// The steps that were left out: those equal to another one, and those that no output needs.
    repeated: Vec<Origin>,
    unneeded: Vec<Origin>,
    peak_bytes: usize,
    /// Where the elements are in a program of numbers.
    numbers: Option<Numbers>,
}

/// A program of one pass over single elements that are in no memory.
#[derive(Debug)]
struct Numbers {
    /// For each operand the number of an input, or the element itself.
    operands: Vec<Result<usize, Scalar>>,
    /// For each output the number of a result of the pass.
    outputs: Vec<(usize, Shape)>,
}

impl Numbers {
    fn of(
        items: &[Item],
        slots: &[SlotSpec],
        inputs: &[usize],
        outputs: &[Operand],
    ) -> Option<Self> {
        let [Item { work, .. }] = items else {
            return None;
        };
        let Planned::Fused {
            fused,
            operands,
            outputs: made,
            ..
        } = work
        else {
            return None;
        };
        let operand = |operand: &Operand| match operand {
            Operand::Constant(x) => Some(Err(x.element_at(x.layout().offset))),
            Operand::Slot(slot, _) => {
                let input = inputs.iter().position(|input| input == slot)?;
                slots[*slot].is_inline.then_some(Ok(input))
            }
        };
        let output = |output: &Operand| match output {
            Operand::Constant(_) => None,
            Operand::Slot(slot, layout) => {
                let result = made.iter().position(|made| made == slot)?;
                Some((result, layout.shape.clone()))
            }
        };
        let is_single = fused.size() == 1;
        is_single.then_some(())?;
        Some(Self {
            operands: operands.iter().map(operand).collect::<Option<_>>()?,
            outputs: outputs.iter().map(output).collect::<Option<_>>()?,
        })
    }
}

/// A kernel of a pass: its call, what it reads, and the position of its result among those of the pass.
type FusedKernel = (Origin, Vec<Source>, Option<usize>);

/// The values of the slots during a run.
type Values = SmallVec<[Option<Array>; 4]>;

/// A step of a program.
#[derive(Debug)]
struct Item {
    work: Planned,
    /// The slots whose values are not needed afterwards.
    last: Vec<usize>,
    /// Whether each operand of a call is the whole value of such a slot, which no other operand reads.
    moved: Vec<bool>,
}

enum Planned {
    /// Kernels in one pass over memory.
    Fused {
        fused: Arc<Fused>,
        operands: Vec<Operand>,
        outputs: Vec<usize>,
        /// The kernels, for display.
        operations: Vec<FusedKernel>,
    },
    /// An operation of the CPU.
    Call {
        name: &'static str,
        along: Option<Along>,
        /// Whether all is known that the results depend on.
        is_known: bool,
        /// What it makes of its operands where they lie, if that is all that it does.
        join: Option<Arc<Join>>,
        run: Arc<Run>,
        operands: Vec<Operand>,
        first: usize,
        outputs: usize,
        origin: Origin,
    },
    /// Passes and calls that go through some rows at a time.
    Rows {
        rows: Box<Rows>,
        /// The same steps one after the other.
        items: Vec<Planned>,
        operands: Vec<Operand>,
        outputs: Vec<usize>,
    },
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fused { fused, .. } => fused.fmt(f),
            Self::Call { name, .. } => f.write_str(name),
            Self::Rows { rows, .. } => rows.fmt(f),
        }
    }
}

impl Planned {
    fn operands(&self) -> &[Operand] {
        match self {
            Self::Fused { operands, .. }
            | Self::Call { operands, .. }
            | Self::Rows { operands, .. } => operands,
        }
    }

    fn outputs(&self) -> Vec<usize> {
        match self {
            Self::Fused { outputs, .. } | Self::Rows { outputs, .. } => outputs.clone(),
            Self::Call { first, outputs, .. } => (*first..first + outputs).collect(),
        }
    }

    /// The steps inside of it, or itself.
    fn parts(&self) -> &[Self] {
        match self {
            Self::Rows { items, .. } => items,
            Self::Fused { .. } | Self::Call { .. } => std::slice::from_ref(self),
        }
    }

    /// Calls `keep` with each slot that it names.
    fn for_each_slot(&mut self, keep: &mut dyn FnMut(&mut usize)) {
        let operands = match self {
            Self::Fused {
                operands, outputs, ..
            } => {
                outputs.iter_mut().for_each(&mut *keep);
                operands
            }
            Self::Call {
                operands,
                first,
                outputs,
                ..
            } => {
                // Results of a call have neighbouring numbers.
                match *outputs {
                    0 => *first = 0,
                    count => {
                        let old = *first;
                        keep(first);
                        (old + 1..old + count).for_each(|mut slot| keep(&mut slot));
                    }
                }
                operands
            }
            Self::Rows {
                items,
                operands,
                outputs,
                ..
            } => {
                items.iter_mut().for_each(|item| item.for_each_slot(keep));
                outputs.iter_mut().for_each(&mut *keep);
                operands
            }
        };
        for operand in operands {
            if let Operand::Slot(slot, _) = operand {
                keep(slot);
            }
        }
    }
}

impl Program {
    pub(crate) fn new(content: Content, mut outputs: Vec<Operand>) -> Self {
        let Content {
            steps,
            slots,
            mut inputs,
        } = content;
        let recorded = steps.len();
        let (steps, repeated) = without_repeats(steps, slots.len(), &mut outputs);
        let (steps, unneeded) = needed(steps, slots.len(), &inputs, &outputs);
        let steps = join::joined(steps, &slots, &outputs);
        let work = fusion::plan(steps, &slots, &outputs);
        let work = rows::plan(work, &slots, &outputs);
        let mut items: Vec<Item> = work
            .into_iter()
            .map(|work| Item {
                work,
                last: Vec::new(),
                moved: Vec::new(),
            })
            .collect();
        // Walking back, the first reader of a slot that is met is the last to run.
        let mut is_read = vec![false; slots.len()];
        for operand in &outputs {
            if let Operand::Slot(slot, _) = operand {
                is_read[*slot] = true;
            }
        }
        for item in items.iter_mut().rev() {
            let operands = item.work.operands().iter();
            let read = operands.filter_map(|operand| match operand {
                Operand::Slot(slot, _) => Some(*slot),
                Operand::Constant(_) => None,
            });
            let mut last: Vec<usize> = Vec::new();
            for slot in read.chain(item.work.outputs()) {
                if !std::mem::replace(&mut is_read[slot], true) {
                    last.push(slot);
                }
            }
            if let Planned::Call { operands, .. } = &item.work {
                let last: HashSet<usize> = last.iter().copied().collect();
                item.moved = moved(operands, &slots, |slot| last.contains(&slot));
            }
            item.last = last;
        }
        let moved = moved(&outputs, &slots, |_| true);
        let slots = numbered_anew(slots, &mut inputs, &mut items, &mut outputs);
        let peak_bytes = peak_bytes(&items, &slots);
        let numbers = Numbers::of(&items, &slots, &inputs, &outputs);
        Self {
            numbers,
            moved,
            slots,
            inputs,
            items,
            outputs,
            recorded,
            repeated,
            unneeded,
            peak_bytes,
        }
    }

    /// The program of the steps that compute the outputs from the inputs, some of which are results of
    /// the first steps. `None` if more inputs are needed.
    pub(crate) fn of_rest(
        content: Content,
        first: usize,
        mut outputs: Vec<Operand>,
    ) -> Option<Self> {
        let Content {
            steps,
            slots,
            inputs,
        } = content;
        // What is checked by the first part is not checked again.
        let (first, rest) = steps.split_at(first);
        let first = first.iter().filter(|step| step.outputs > 0);
        let steps = first.chain(rest).cloned().collect();
        let (steps, _) = without_repeats(steps, slots.len(), &mut outputs);
        let (steps, _) = needed(steps, slots.len(), &inputs, &outputs);
        let mut is_known = vec![false; slots.len()];
        inputs.iter().for_each(|&slot| is_known[slot] = true);
        for step in &steps {
            let made = &mut is_known[step.first..][..step.outputs];
            // Of a call, all results are kept or none.
            if made.contains(&true) {
                return None;
            }
            made.fill(true);
        }
        let reads = steps.iter().flat_map(|step| &step.inputs).chain(&outputs);
        let missing =
            |operand: &Operand| matches!(operand, Operand::Slot(slot, _) if !is_known[*slot]);
        if reads.into_iter().any(missing) {
            return None;
        }
        let content = Content {
            steps,
            slots,
            inputs,
        };
        Some(Self::new(content, outputs))
    }

    /// Computes the outputs for these inputs, which are taken: the memory of an input that nobody
    /// else holds may become that of a result.
    ///
    /// # Panics
    /// Panics if the inputs do not have the number, shapes, dtypes and strides of those of the
    /// [`Tracer`](crate::Tracer), or are not on the CPU.
    #[track_caller]
    pub fn run(&self, inputs: Vec<Array>) -> Vec<Array> {
        // PERF: without places for values, which take longer than a few operations.
        if let Some(numbers) = &self.numbers
            && let [Item { work, .. }] = &self.items[..]
            && let Planned::Fused { fused, .. } = work
        {
            self.expect_inputs(&inputs);
            let elements = numbers.operands.iter();
            let elements = elements.map(|operand| match *operand {
                Ok(input) => inputs[input].element_at(0),
                Err(constant) => constant,
            });
            let made = fused.run_one(&elements.collect::<SmallVec<[Scalar; 8]>>());
            let outputs = numbers.outputs.iter();
            let array = |(i, shape): &(usize, Shape)| Array::constant(made[*i], shape.clone());
            return outputs.map(array).collect();
        }
        self.run_watched(inputs, &mut |_| ())
    }

    /// Computes the outputs, and measures the time of each step. The steps are those that are
    /// displayed, in their order.
    ///
    /// # Panics
    /// Panics in the same cases as [`run`](Self::run).
    #[track_caller]
    pub fn profile(&self, inputs: Vec<Array>) -> (Vec<Array>, Vec<Duration>) {
        let mut times = Vec::with_capacity(self.items.len());
        let mut since = Instant::now();
        let outputs = self.run_watched(inputs, &mut |_| {
            let now = Instant::now();
            times.push(now - std::mem::replace(&mut since, now));
        });
        (outputs, times)
    }

    /// Runs the program, and calls `done` with the number of each step when it is done.
    #[track_caller]
    fn run_watched(&self, inputs: Vec<Array>, done: &mut dyn FnMut(usize)) -> Vec<Array> {
        self.expect_inputs(&inputs);
        let mut values: Values = smallvec![None; self.slots.len()];
        for (&slot, x) in self.inputs.iter().zip(inputs) {
            values[slot] = Some(x);
        }
        for (i, item) in self.items.iter().enumerate() {
            self.run_step(&item.work, (&item.last, &item.moved), &mut values);
            done(i);
        }
        self.taken(&self.outputs, &self.moved, &mut values)
    }

    /// The arrays that operands stand for. Those that are moved are taken out of their slots.
    // PERF: there may be thousands.
    fn taken(
        &self,
        operands: &[Operand],
        moved: &[bool],
        values: &mut [Option<Array>],
    ) -> Vec<Array> {
        let take = |(i, operand): (usize, &Operand)| match operand {
            Operand::Slot(slot, layout) if moved.get(i) == Some(&true) => {
                let value = values[*slot].take();
                let value = value.expect("it is computed before it is read");
                value.with_strides(&layout.strides)
            }
            operand => window(operand, values, &self.slots),
        };
        operands.iter().enumerate().map(take).collect()
    }

    /// Runs a step, after which the values of the slots `last` are dropped.
    fn run_step(
        &self,
        work: &Planned,
        (last, moved): (&[usize], &[bool]),
        values: &mut [Option<Array>],
    ) {
        let arrays = |values: &[Option<Array>]| -> Vec<Array> {
            let operands = work.operands().iter();
            operands
                .map(|operand| window(operand, values, &self.slots))
                .collect()
        };
        match work {
            // PERF: single elements are in no memory, and nothing has to be found out about it.
            Planned::Fused {
                fused,
                operands,
                outputs,
                ..
            } if fused.size() == 1 => {
                let elements = operands.iter();
                let elements = elements.map(|operand| {
                    let (x, place) = place(operand, values, &self.slots);
                    x.element_at(place)
                });
                let made = fused.run_one(&elements.collect::<SmallVec<[Scalar; 8]>>());
                for (&slot, y) in outputs.iter().zip(made) {
                    let shape = self.slots[slot].layout.shape.clone();
                    values[slot] = Some(Array::constant(y, shape));
                }
            }
            Planned::Fused { fused, outputs, .. } => {
                let mut arrays = arrays(values);
                // From here on, the pass is the only holder of inputs that were given away.
                let given = last.iter().filter(|slot| self.inputs.contains(slot));
                given.for_each(|&slot| values[slot] = None);
                let made = fused.run_taking(&mut arrays);
                for (&slot, y) in outputs.iter().zip(made) {
                    values[slot] = Some(y);
                }
            }
            Planned::Rows {
                rows,
                items,
                outputs,
                ..
            } => match rows.run(&arrays(values)) {
                Some(made) => {
                    for (&slot, y) in outputs.iter().zip(made) {
                        values[slot] = Some(y);
                    }
                }
                None => (items.iter()).for_each(|item| self.run_step(item, (&[], &[]), values)),
            },
            // PERF: there may be many parts, which need not become arrays for this.
            Planned::Call {
                join: Some(join),
                operands,
                first,
                ..
            } => {
                let value = |i: usize| place(&operands[i], values, &self.slots);
                let made = join.run(value);
                values[*first] = Some(made);
            }
            Planned::Call { run, first, .. } => {
                let arrays = self.taken(work.operands(), moved, values);
                // From here on, the call is the only holder of what is not needed later.
                last.iter().for_each(|&slot| values[slot] = None);
                for (slot, y) in (*first..).zip(run(arrays)) {
                    let expected = &self.slots[slot].layout;
                    debug_assert_eq!(y.inline().is_some(), self.slots[slot].is_inline, "{work:?}");
                    assert!(
                        y.inline().is_some() || y.layout().has_steps_of(expected),
                        "{work:?} has the order that it had for zeros"
                    );
                    values[slot] = Some(y);
                }
            }
        }
        last.iter().for_each(|&slot| values[slot] = None);
    }

    #[track_caller]
    fn expect_inputs(&self, inputs: &[Array]) {
        let slots = || self.inputs.iter().map(|&slot| &self.slots[slot]);
        let fits = |(x, slot): (&Array, &SlotSpec)| {
            *x.shape() == slot.layout.shape
                && x.dtype() == slot.dtype
                && (x.inline().is_some()
                    || !slot.is_inline
                        && x.buffer().is_some()
                        && x.layout().has_steps_of(&slot.layout))
        };
        if inputs.len() != self.inputs.len() || !inputs.iter().zip(slots()).all(fits) {
            let found: Vec<String> = inputs
                .iter()
                .map(|x| {
                    let (shape, strides, device) = (x.shape(), x.strides(), x.device().name());
                    format!("{} {shape} by steps {strides:?} on {device}", x.dtype())
                })
                .collect();
            let expected: Vec<String> = slots()
                .map(|slot| {
                    let Layout { shape, strides, .. } = &slot.layout;
                    format!("{} {shape} by steps {strides:?}", slot.dtype)
                })
                .collect();
            let what = format!(
                "the inputs are {}, the program is for {} on cpu",
                found.join(", "),
                expected.join(", ")
            );
            raise(Error::invalid("Program::run", what));
        }
    }

    /// Returns the number of bytes of the values that a run holds at most at a time, without those
    /// of the inputs and without temporary memory inside of operations.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Returns the number of passes over memory and calls that a run makes.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the machine code of each pass over memory that has some, as text: bytes and
    /// instructions, under the lines of the formula that they compute.
    pub fn assembly(&self) -> String {
        let mut text = String::new();
        for item in &self.items {
            match &item.work {
                Planned::Fused { fused, outputs, .. } => {
                    if let Some(code) = fused.assembly() {
                        text += &format!("; {fused} to %{outputs:?}\n{code}\n");
                    }
                }
                Planned::Rows { rows, outputs, .. } => {
                    for code in rows.assembly() {
                        text += &format!("; rows to %{outputs:?}\n{code}\n");
                    }
                }
                Planned::Call { .. } => {}
            }
        }
        text
    }

    /// Returns whether a run depends on its inputs alone, because each of its calls says what it depends on.
    pub fn sees_inputs_alone(&self) -> bool {
        let is_known = |part: &Planned| {
            !matches!(
                part,
                Planned::Call {
                    is_known: false,
                    ..
                }
            )
        };
        let mut parts = self.items.iter().flat_map(|item| item.work.parts());
        parts.all(is_known)
    }

    /// Returns whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// The memory of an operand, and the place of its first element.
fn place<'a>(
    operand: &'a Operand,
    values: &'a [Option<Array>],
    slots: &[SlotSpec],
) -> (&'a Array, usize) {
    match operand {
        Operand::Constant(x) => (x, x.layout().offset),
        Operand::Slot(slot, layout) => {
            let value = values[*slot]
                .as_ref()
                .expect("it is computed before it is read");
            let own = match value.inline() {
                Some(_) => 0,
                None => layout.offset + value.layout().offset - slots[*slot].layout.offset,
            };
            (value, own)
        }
    }
}

/// Whether each operand is the whole value of a slot of which the value `may_move`, and which no other operand
/// reads.
fn moved(operands: &[Operand], slots: &[SlotSpec], may_move: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut readers: HashMap<usize, usize> = HashMap::new();
    for slot in operands.iter().filter_map(Operand::slot) {
        *readers.entry(slot).or_default() += 1;
    }
    let is_moved = |operand: &Operand| match operand {
        Operand::Constant(_) => false,
        Operand::Slot(slot, layout) => {
            let own = &slots[*slot].layout;
            let is_whole = layout.shape == own.shape
                && layout.offset == own.offset
                && *layout.strides == *own.strides;
            is_whole && readers[slot] == 1 && may_move(*slot)
        }
    };
    operands.iter().map(is_moved).collect()
}

/// The array that an operand stands for.
fn window(operand: &Operand, values: &[Option<Array>], slots: &[SlotSpec]) -> Array {
    match operand {
        Operand::Constant(x) => x.clone(),
        Operand::Slot(slot, layout) => {
            let value = values[*slot]
                .as_ref()
                .expect("it is computed before it is read");
            match value.inline() {
                Some(element) => Array::constant(element, layout.shape.clone()),
                None => {
                    let start = slots[*slot].layout.offset;
                    let offset = layout.offset + value.layout().offset - start;
                    value.with_layout(Layout {
                        offset,
                        ..layout.clone()
                    })
                }
            }
        }
    }
}

/// The steps without those that compute what another one has computed before, and the origins of these.
fn without_repeats(
    steps: Vec<Step>,
    slots: usize,
    outputs: &mut [Operand],
) -> (Vec<Step>, Vec<Origin>) {
    let mut same: Vec<usize> = (0..slots).collect();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    let mut removed = Vec::new();
    for mut step in steps {
        for operand in &mut step.inputs {
            if let Operand::Slot(slot, _) = operand {
                *slot = same[*slot];
            }
        }
        if let Some(key) = key(&step) {
            let first = *known.entry(key).or_insert(step.first);
            if first != step.first {
                for i in 0..step.outputs {
                    same[step.first + i] = first + i;
                }
                removed.push(step.origin());
                continue;
            }
        }
        kept.push(step);
    }
    for operand in outputs {
        if let Operand::Slot(slot, _) = operand {
            *slot = same[*slot];
        }
    }
    (kept, removed)
}

/// The slots that are in memory at some time, with new numbers.
fn numbered_anew(
    slots: Vec<SlotSpec>,
    inputs: &mut [usize],
    items: &mut [Item],
    outputs: &mut [Operand],
) -> Vec<SlotSpec> {
    let mut number: Vec<Option<usize>> = vec![None; slots.len()];
    let mut kept: Vec<SlotSpec> = Vec::new();
    let mut keep = |slot: &mut usize| {
        let new = *number[*slot].get_or_insert_with(|| {
            kept.push(slots[*slot].clone());
            kept.len() - 1
        });
        *slot = new;
    };
    inputs.iter_mut().for_each(&mut keep);
    for item in items {
        item.work.for_each_slot(&mut keep);
        item.last.iter_mut().for_each(&mut keep);
    }
    for operand in outputs {
        if let Operand::Slot(slot, _) = operand {
            keep(slot);
        }
    }
    kept
}

/// A text that only equal steps share, if there is one.
fn key(step: &Step) -> Option<String> {
    use fmt::Write;
    let mut key = match &step.work {
        Work::Kernel(kernel) => kernel.key(),
        Work::Call {
            name, parameters, ..
        } => format!("{name} {}", parameters.as_ref()?),
        Work::Join(_) => return None,
    };
    for operand in &step.inputs {
        let shape = operand.shape();
        let written = match operand {
            Operand::Slot(slot, layout) => {
                write!(
                    key,
                    "|{slot} {shape} {:?} {}",
                    layout.strides, layout.offset
                )
            }
            Operand::Constant(x) => match (x.inline(), x.memory_key()) {
                (Some(element), _) => {
                    write!(key, "|{shape} {:?} {}", x.dtype(), element.to_bits())
                }
                (None, Some(memory)) => {
                    write!(key, "|@{memory} {shape} {:?} {}", x.strides(), x.offset())
                }
                (None, None) => return None,
            },
        };
        written.ok()?;
    }
    Some(key)
}

/// The steps that the outputs need, and the checks; and the origins of the others.
fn needed(
    steps: Vec<Step>,
    slots: usize,
    inputs: &[usize],
    outputs: &[Operand],
) -> (Vec<Step>, Vec<Origin>) {
    let mut is_needed = vec![false; slots];
    let mut is_input = vec![false; slots];
    inputs.iter().for_each(|&slot| is_input[slot] = true);
    let mark = |operand: &Operand, is_needed: &mut Vec<bool>| {
        if let Operand::Slot(slot, _) = operand {
            // Steps do not make what is there already.
            is_needed[*slot] = !is_input[*slot];
        }
    };
    outputs
        .iter()
        .for_each(|operand| mark(operand, &mut is_needed));
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    let mut removed = Vec::new();
    for step in steps.into_iter().rev() {
        let made = &is_needed[step.first..step.first + step.outputs];
        if step.outputs == 0 || made.contains(&true) {
            step.inputs
                .iter()
                .for_each(|operand| mark(operand, &mut is_needed));
            kept.push(step);
        } else {
            removed.push(step.origin());
        }
    }
    kept.reverse();
    removed.reverse();
    (kept, removed)
}

/// The most operations of a value that is computed again instead of being kept.
const AGAIN: usize = 24;

/// The slots below `early` that the outputs are computed from, in so far as they are not quickly computed
/// again from others of these.
pub(crate) fn kept(content: Content, early: usize, mut outputs: Vec<Operand>) -> Vec<usize> {
    let Content { steps, slots, .. } = content;
    let (steps, _) = without_repeats(steps, slots.len(), &mut outputs);
    let slot = |operand: &Operand| match operand {
        Operand::Slot(slot, _) => Some(*slot),
        Operand::Constant(_) => None,
    };
    // The operations that compute an early slot again, or `None` if it is kept.
    let mut again: Vec<Option<usize>> = vec![None; slots.len()];
    for step in steps.iter().filter(|step| step.first < early) {
        if let Work::Kernel(kernel) = &step.work
            && let Some(formula) = fusion::member_formula(kernel, step, &slots)
        {
            let before = step.inputs.iter().filter_map(slot);
            let before: usize = before.map(|slot| again[slot].unwrap_or(0)).sum();
            let cost = formula.arithmetic().lines().len() + before;
            again[step.first] = (cost <= AGAIN).then_some(cost);
        }
    }
    let mut is_needed = vec![false; slots.len()];
    outputs
        .iter()
        .filter_map(slot)
        .for_each(|slot| is_needed[slot] = true);
    for step in steps.iter().rev() {
        let results = step.first..step.first + step.outputs;
        let is_late = step.first >= early;
        let runs = match is_late {
            true => step.outputs == 0 || is_needed[results].contains(&true),
            false => step.outputs == 1 && is_needed[step.first] && again[step.first].is_some(),
        };
        if runs {
            let read = step.inputs.iter().filter_map(slot);
            read.for_each(|slot| is_needed[slot] = true);
        }
    }
    let is_kept = |&slot: &usize| is_needed[slot] && again[slot].is_none();
    (0..early).filter(is_kept).collect()
}

impl Step {
    fn origin(&self) -> Origin {
        Origin {
            operation: self.work.name(),
            function: self.function,
            location: self.location,
        }
    }
}

fn peak_bytes(items: &[Item], slots: &[SlotSpec]) -> usize {
    let (mut live, mut peak) = (0, 0);
    let mut is_live = vec![false; slots.len()];
    for item in items {
        for slot in item.work.outputs() {
            is_live[slot] = true;
            live += slots[slot].bytes();
        }
        peak = peak.max(live);
        for &slot in &item.last {
            if std::mem::take(&mut is_live[slot]) {
                live -= slots[slot].bytes();
            }
        }
    }
    peak
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listing().fmt(f)
    }
}
