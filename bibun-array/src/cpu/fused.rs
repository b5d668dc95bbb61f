//! Several kernels in one pass over memory.

mod taking;

use std::fmt;

use smallvec::SmallVec;

use super::elementwise::{Input, PARALLEL, RUN, Scratch, Source, sharing};
use super::interpreter::{Interpreter, is_alone};
use super::steps::{Places, Steps, Walk};
use super::threads::{Chunks, for_each_run};
use crate::assembler::{Code, Place, Read};
use crate::formula::{Formula, Member, Target, Type};
use crate::shape::Layout;
use crate::storage::Buffer;
use crate::waiting::shared;
use crate::{Array, DType, Reduce, Scalar, Slice, SliceMut, formula};

/// The least number of elements for which machine code is called.
const LEAST_CALL: usize = 64;

/// About the number of elements of the parts of which threads take some.
const PART: usize = PARALLEL / 16;

/// The bytes of a result of which little is left in caches when it has been written.
const BEYOND_CACHES: usize = 1 << 26;

/// Several results of fewer elements share their memory.
const FEW: usize = 64;

/// The least number of elements of a row of machine code that goes through several rows.
const LEAST_ROW: usize = 8;

/// The number of elements that are gathered at once for machine code.
const CODE_RUN: usize = 2048;

/// A formula of several results, computed at each element of some arrays.
pub(crate) struct Fused {
    /// The number of elements.
    size: usize,
    inputs: Vec<(DType, Access)>,
    /// How machine code goes through inputs that are not read in order.
    row: Option<Row>,
    formula: Formula,
    computed: Computed,
    /// The code for new memory, if caches are too small to hold a result: it stores past them.
    past_caches: Option<Box<Code>>,
    targets: Vec<Target>,
    /// Those of [`Fused::run`].
    outputs: Vec<(DType, Layout)>,
}

/// Neighbouring elements for which every gathered input is neighbouring elements, too, or a single
/// one.
#[derive(Clone, Copy, Debug)]
struct Row {
    len: usize,
    /// The number of rows through which machine code goes in one call: where those of each input
    /// follow each other, or are the same.
    at_once: usize,
}

/// How the formula is computed.
enum Computed {
    /// By machine code that was made for it.
    Code(Box<Code>),
    /// By the loops of its operations, one after the other.
    Loops(Interpreter),
}

/// How an input is read, in the memory order of the results.
#[derive(Clone, Debug)]
enum Access {
    /// From its first element to its last.
    Direct,
    /// One element for all.
    Repeat,
    /// By steps from its first element, or at known places if there are few.
    Gather(Steps, Option<Places>),
}

impl Fused {
    /// Creates the pass that computes some members from inputs with these dtypes and layouts, whose
    /// axes are in the memory order of the results. `results` are the members with the `outputs`.
    pub(crate) fn new(
        size: usize,
        inputs: Vec<(DType, Layout)>,
        members: &[Member],
        results: &[usize],
        outputs: Vec<(DType, Layout)>,
    ) -> Self {
        let types: Vec<Type> = inputs.iter().map(|(dtype, _)| Type::of(*dtype)).collect();
        let formula = Formula::fused(&types, members, results).in_depth_first_order();
        let access = |layout: &Layout| {
            if layout.strides.repeat_one(&layout.shape) {
                return Access::Repeat;
            }
            match layout.is_row_major() && layout.shape.size() == size {
                true => Access::Direct,
                false => {
                    let steps = Steps::new(layout);
                    let places = (steps.len() == size).then(|| Places::of(&steps)).flatten();
                    Access::Gather(steps, places)
                }
            }
        };
        let inputs: Vec<(DType, Access)> = (inputs.iter())
            .map(|(dtype, layout)| (*dtype, access(layout)))
            .collect();
        let row = row(&inputs);
        let read = read(&inputs, row);
        let written: Vec<DType> = outputs.iter().map(|(dtype, _)| *dtype).collect();
        let at_once = row.map_or(size, |row| row.len);
        let code = match is_alone() {
            true => None,
            false => Code::for_arrays(&formula.arithmetic(), &read, &written, at_once),
        };
        let is_far = |(dtype, _): &(DType, Layout)| size * dtype.size() >= BEYOND_CACHES;
        let is_gathered = |(_, access): &(DType, Access)| matches!(access, Access::Gather(..));
        let streams =
            code.is_some() && outputs.iter().all(is_far) && !inputs.iter().any(is_gathered);
        let past_caches = streams
            .then(|| Code::past_caches(&formula.arithmetic(), &read, &written))
            .flatten();
        Self {
            size,
            inputs,
            row: row.filter(|_| code.is_some()),
            past_caches: past_caches.map(Box::new),
            computed: match code {
                Some(code) => Computed::Code(Box::new(code)),
                None => Computed::Loops(Interpreter::new(&formula)),
            },
            formula,
            targets: written.into_iter().map(Target::Elements).collect(),
            outputs,
        }
    }

    /// The pass that makes other targets of some of the results, by their numbers, in rows of `width`
    /// elements. `None` if there is no machine code for it.
    pub(crate) fn folded(&self, width: usize, targets: &[(usize, Target)]) -> Option<Self> {
        let is_gathered = |(_, access): &(DType, Access)| matches!(access, Access::Gather(..));
        let row = match self.row {
            Some(row) => Some(row).filter(|row| row.len == width),
            None => (!self.inputs.iter().any(is_gathered)).then_some(Row {
                len: width,
                at_once: usize::MAX,
            }),
        };
        let row = row.filter(|_| matches!(self.computed, Computed::Code(_)))?;
        let (results, targets): (Vec<usize>, Vec<Target>) = targets.iter().copied().unzip();
        let formula = self.formula.with_results(&results).in_depth_first_order();
        let read = read(&self.inputs, Some(row));
        let code = Code::for_rows(&formula.arithmetic(), &read, &targets, width)?;
        Some(Self {
            size: self.size,
            inputs: self.inputs.clone(),
            row: Some(row),
            formula,
            computed: Computed::Code(Box::new(code)),
            past_caches: None,
            targets,
            outputs: Vec::new(),
        })
    }

    /// The pass that folds rows of an array of f32. `None` if there is no machine code for it.
    pub(crate) fn fold_of(rows: usize, width: usize, reduction: Reduce) -> Option<Self> {
        let layout = Layout::row_major([rows, width].into());
        let identity = Member {
            formula: Formula::identity(Type::Single),
            inputs: vec![formula::Source::Input(0)],
        };
        let array = || vec![(DType::F32, layout.clone())];
        let copy = Self::new(rows * width, array(), &[identity], &[0], array());
        copy.folded(width, &[(0, Target::Fold(reduction))])
    }

    /// The machine code as text, if there is any.
    pub(crate) fn assembly(&self) -> Option<String> {
        match &self.computed {
            Computed::Code(code) => Some(code.listing()),
            Computed::Loops(_) => None,
        }
    }

    /// Whether there is machine code that reads all inputs where they lie.
    pub(crate) fn reads_in_place(&self) -> bool {
        let is_code = matches!(self.computed, Computed::Code(_));
        is_code && (self.row.is_some() || !self.gathers())
    }

    /// The number of elements.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether the pass can compute some rows of `width` elements at a time.
    pub(crate) fn has_rows(&self, width: usize) -> bool {
        self.size.is_multiple_of(width) && self.row.is_none_or(|row| width.is_multiple_of(row.len))
    }

    /// Whether an input is read from its first element to its last.
    pub(crate) fn reads_in_order(&self, input: usize) -> bool {
        matches!(self.inputs[input].1, Access::Direct)
    }

    /// Whether an input has one element for each row of `width`.
    pub(crate) fn repeats_in_rows(&self, input: usize, width: usize) -> bool {
        let Access::Gather(steps, _) = &self.inputs[input].1 else {
            return false;
        };
        steps.inner() == (width, 0) && steps.starts_rows()
    }

    /// An input whose first element to be computed is at this position.
    pub(super) fn input<'a>(&'a self, i: usize, x: &'a Array, start: usize) -> Input<'a> {
        let (dtype, access) = &self.inputs[i];
        input(*dtype, self.source(x, access), start)
    }

    /// An input for some rows, of which `memory` has the first `len` elements.
    pub(super) fn input_of_block<'a>(
        &'a self,
        i: usize,
        memory: &'a Buffer,
        len: usize,
    ) -> Input<'a> {
        match &self.inputs[i] {
            (dtype, Access::Gather(steps, places)) => {
                let steps = steps.clone().starting_at(0).clone();
                input(*dtype, Source::Gather(memory, steps, places.as_ref()), 0)
            }
            (_, Access::Direct | Access::Repeat) => {
                self.input_of_run(i, memory.as_run().range(0, len))
            }
        }
    }

    /// An input for some rows that is read in order.
    pub(super) fn input_of_run<'a>(&'a self, i: usize, elements: Slice<'a>) -> Input<'a> {
        input(self.inputs[i].0, Source::Direct(elements), 0)
    }

    /// Computes the outputs from inputs with the layouts that the pass was made for.
    pub(crate) fn run(&self, inputs: &[Array]) -> Vec<Array> {
        if self.size == 1 {
            let elements = inputs.iter().map(|x| x.element_at(x.layout().offset));
            let made = self.run_one(&elements.collect::<SmallVec<[Scalar; 8]>>());
            let made = made.into_iter().zip(&self.outputs);
            let array =
                |(y, (_, layout)): (_, &(_, Layout))| Array::constant(y, layout.shape.clone());
            return made.map(array).collect();
        }
        shared(|| {
            let sources: SmallVec<[Input<'_>; 8]> = inputs
                .iter()
                .zip(&self.inputs)
                .map(|(x, (dtype, access))| input(*dtype, self.source(x, access), 0))
                .collect();
            if let Some(made) = self.in_one_buffer(&sources) {
                return made;
            }
            let mut buffers: Vec<Buffer> = (self.outputs.iter())
                .map(|(dtype, _)| Buffer::of(*dtype, self.size))
                .collect();
            let outs = buffers.iter_mut().map(Buffer::as_mut_run).collect();
            self.fill(&sources, outs);
            let made = buffers.into_iter().zip(&self.outputs);
            made.map(|(buffer, (_, layout))| Array::of_buffer(buffer, layout.clone()))
                .collect()
        })
    }

    /// Computes small results of one dtype in memory that they share.
    // PERF: there may be many, and memory of their own would take longer than to compute them.
    fn in_one_buffer(&self, sources: &[Input<'_>]) -> Option<Vec<Array>> {
        let (dtype, _) = self.outputs.first()?;
        let are_few = self.size < FEW && self.outputs.len() > 2;
        if !are_few || !self.outputs.iter().all(|(other, _)| other == dtype) {
            return None;
        }
        let mut buffer = Buffer::of(*dtype, self.size * self.outputs.len());
        let mut rest = Some(buffer.as_mut_run());
        let outs = self.outputs.iter().filter_map(|_| {
            let (one, others) = rest.take()?.split_at(self.size);
            rest = Some(others);
            Some(one)
        });
        self.fill(sources, outs.collect());
        let layouts = self
            .outputs
            .iter()
            .enumerate()
            .map(|(i, (_, layout))| Layout {
                offset: i * self.size,
                ..layout.clone()
            });
        Some(Array::parts_of_buffer(buffer, layouts))
    }

    /// Computes the results for a single element.
    pub(crate) fn run_one(&self, inputs: &[Scalar]) -> SmallVec<[Scalar; 4]> {
        let mut elements: SmallVec<[Scalar; 4]> = (self.outputs.iter())
            .map(|(dtype, _)| Scalar::zero(*dtype))
            .collect();
        let inputs: SmallVec<[Slice<'_>; 8]> = inputs.iter().map(Slice::of_scalar).collect();
        let mut out: SmallVec<[SliceMut<'_>; 4]> =
            elements.iter_mut().map(SliceMut::of_scalar).collect();
        match &self.computed {
            Computed::Code(code) => code.run(&inputs, &mut out),
            Computed::Loops(interpreter) => interpreter.run(&inputs, &mut out),
        }
        drop(out);
        elements
    }

    fn source<'a>(&'a self, x: &'a Array, access: &'a Access) -> Source<'a> {
        if let Some(element) = x.inline() {
            return Source::Repeat(element);
        }
        let buffer = x.buffer().expect("the inputs are on the CPU");
        let start = x.layout().offset;
        match access {
            Access::Direct => Source::Direct(buffer.as_run().range(start, self.size)),
            Access::Repeat => Source::Repeat(buffer.as_run().range(start, 1).first()),
            Access::Gather(steps, places) => {
                let steps = steps.clone().starting_at(start).clone();
                Source::Gather(buffer, steps, places.as_ref())
            }
        }
    }

    fn fill(&self, inputs: &[Input<'_>], mut outs: Vec<SliceMut<'_>>) {
        if self.size < PARALLEL {
            return self.fill_from(0, inputs, &mut outs);
        }
        let row = self.row.map_or(RUN, |row| row.len);
        let parts = Parts {
            outs,
            len: row * (PART).div_ceil(row),
            size: self.size,
        };
        let len = parts.len;
        // PERF: neighbouring parts are one call of machine code, which takes a third of a microsecond.
        for_each_run(parts, sharing(self.size), 1, &|first, run| {
            let (start, mut outs) = (first * len, run.one());
            let made = self.fill_past_caches(start, inputs, &mut outs);
            made.unwrap_or_else(|| self.fill_from(start, inputs, &mut outs));
        });
    }

    /// Fills the part of results in new memory that starts at `start`, past the caches. Returns `None` if there
    /// is no code for that, or an input lies otherwise than it was made for.
    fn fill_past_caches(
        &self,
        start: usize,
        inputs: &[Input<'_>],
        outs: &mut [SliceMut<'_>],
    ) -> Option<()> {
        let code = self.past_caches.as_ref()?;
        let len = outs[0].len();
        let read = inputs.iter().zip(&self.inputs);
        let read = read.map(|(input, (_, access))| match (&input.source, access) {
            (Source::Repeat(element), Access::Repeat) => Some(Slice::of_scalar(element)),
            _ => input.in_place(start, len),
        });
        code.run(&read.collect::<Option<SmallVec<[Slice<'_>; 8]>>>()?, outs);
        Some(())
    }

    /// Fills the part of the results that starts at `start` in memory order.
    pub(super) fn fill_from(&self, start: usize, inputs: &[Input<'_>], outs: &mut [SliceMut<'_>]) {
        if let (Some(row), Computed::Code(code)) = (self.row, &self.computed) {
            return fill_rows(code, &self.targets, row, start, inputs, outs);
        }
        self.fill_blocks(start, inputs, &[], outs);
    }

    /// Fills the same block by block, with inputs read or gathered as they are. The memory of a result may
    /// have held the input that is its home so far, of which a block is copied before it is overwritten.
    fn fill_blocks(
        &self,
        start: usize,
        inputs: &[Input<'_>],
        homes: &[Option<usize>],
        outs: &mut [SliceMut<'_>],
    ) {
        if self.fill_in_place(start, inputs, homes, outs).is_some() {
            return;
        }
        let run = match &self.computed {
            // What is in memory is read where it lies, in one go.
            Computed::Code(_) if homes.is_empty() && !self.gathers() => outs[0].len(),
            Computed::Code(_) => CODE_RUN,
            Computed::Loops(_) => RUN,
        };
        let home = |input: usize| homes.iter().position(|home| *home == Some(input));
        let len = outs[0].len();
        let mut scratch: SmallVec<[Scratch; 8]> = (inputs.iter().zip(&self.inputs))
            .map(|(input, (_, access))| match self.takes_one(access) {
                true => input.scratch(0),
                false => input.scratch(run.min(len)),
            })
            .collect();
        for done in (0..len).step_by(run.max(1)) {
            let (position, len) = (start + done, run.min(len - done));
            let mut block: SmallVec<[SliceMut<'_>; 4]> =
                outs.iter_mut().map(|out| out.range(done, len)).collect();
            for (i, (input, scratch)) in inputs.iter().zip(&mut scratch).enumerate() {
                let old = block[home(i).unwrap_or(0)].as_slice();
                input.bring(position, old, scratch);
            }
            let slices: SmallVec<[Slice<'_>; 8]> = (inputs.iter().zip(&self.inputs))
                .zip(&scratch)
                .map(|((input, (_, access)), scratch)| match &input.source {
                    Source::Repeat(element) if self.takes_one(access) => Slice::of_scalar(element),
                    _ => input.run(position, len, scratch),
                })
                .collect();
            match &self.computed {
                Computed::Code(code) => code.run(&slices, &mut block),
                Computed::Loops(interpreter) => interpreter.run(&slices, &mut block),
            }
        }
    }

    /// Fills the same where machine code reads each element of an input before it writes that of the result
    /// in its place. Returns `None` if it does not.
    fn fill_in_place(
        &self,
        start: usize,
        inputs: &[Input<'_>],
        homes: &[Option<usize>],
        outs: &mut [SliceMut<'_>],
    ) -> Option<()> {
        let Computed::Code(code) = &self.computed else {
            return None;
        };
        let len = outs[0].len();
        let is_safe = |(output, home): (usize, &Option<usize>)| {
            home.is_none_or(|i| code.may_take(output, i, len))
        };
        if homes.is_empty() || self.gathers() || !homes.iter().enumerate().all(is_safe) {
            return None;
        }
        let read = inputs.iter().zip(&self.inputs).enumerate();
        let read = read.map(|(i, (input, (_, access)))| match &input.source {
            Source::Result => {
                let output = homes.iter().position(|home| *home == Some(i));
                Some(Read::Output(output?))
            }
            Source::Repeat(element) if self.takes_one(access) => {
                Some(Read::Slice(Slice::of_scalar(element)))
            }
            Source::Direct(_) => Some(Read::Slice(input.in_place(start, len)?)),
            Source::Repeat(_) | Source::Gather(..) => None,
        });
        let read: Option<SmallVec<[Read<'_>; 8]>> = read.collect();
        code.run_taking(&read?, outs);
        Some(())
    }

    /// Whether the code reads one element of an input for all.
    fn takes_one(&self, access: &Access) -> bool {
        matches!(
            (&self.computed, access),
            (Computed::Code(_), Access::Repeat)
        )
    }

    /// Whether an input is gathered before it is read.
    fn gathers(&self) -> bool {
        let is_gathered = |(_, access): &(DType, Access)| matches!(access, Access::Gather(..));
        self.inputs.iter().any(is_gathered)
    }
}

/// An input that is computed in the type in which it is stored.
fn input(dtype: DType, source: Source<'_>, start: usize) -> Input<'_> {
    Input {
        source,
        start,
        stored: dtype,
        computed: dtype,
    }
}

/// The rows of inputs that need not be gathered; see [`Row`].
fn row(inputs: &[(DType, Access)]) -> Option<Row> {
    let gathered = || {
        inputs.iter().filter_map(|(_, access)| match access {
            Access::Gather(steps, _) => Some(steps),
            Access::Direct | Access::Repeat => None,
        })
    };
    let len = gathered().map(|steps| steps.inner().0).min()?;
    let fits = |(size, step): (usize, isize)| size % len == 0 && (step == 0 || step == 1);
    if !gathered().all(|steps| fits(steps.inner())) {
        return None;
    }
    let most = gathered().map(|steps| rows_at_once(steps, len)).min()?;
    let at_once = match gathered().all(|steps| rows_at_once(steps, len).is_multiple_of(most)) {
        true => most,
        false => 1,
    };
    let least = if len * at_once.min(LEAST_CALL) >= LEAST_CALL {
        LEAST_ROW
    } else {
        LEAST_CALL
    };
    (len >= least).then_some(Row { len, at_once })
}

/// The number of rows of `len` elements of an input that follow each other or are the same.
fn rows_at_once(steps: &Steps, len: usize) -> usize {
    let (size, step) = steps.inner();
    let (rows, outer) = match size > len {
        true => (size / len, step * len as isize),
        false => steps.outer(),
    };
    match (step, outer) {
        (_, 0) | (0, 1) => rows,
        (1, outer) if outer == len as isize => rows,
        _ => 1,
    }
}

/// The dtypes of inputs, and whether machine code reads one element for all or for each row.
fn read(inputs: &[(DType, Access)], row: Option<Row>) -> Vec<(DType, bool)> {
    let repeats = |access: &Access| match access {
        Access::Direct => false,
        Access::Repeat => true,
        Access::Gather(steps, _) => row.is_some() && steps.inner().1 == 0,
    };
    let inputs = inputs.iter();
    inputs
        .map(|(dtype, access)| (*dtype, repeats(access)))
        .collect()
}

/// Fills results row by row, with all inputs read where they lie.
fn fill_rows(
    code: &Code,
    targets: &[Target],
    row: Row,
    start: usize,
    inputs: &[Input<'_>],
    outs: &mut [SliceMut<'_>],
) {
    // A single value in the place of neighbouring elements is spread once.
    let spread: SmallVec<[Scratch; 8]> =
        inputs.iter().map(|input| input.scratch(row.len)).collect();
    let mut walks: SmallVec<[Option<Walk<'_>>; 8]> = SmallVec::new();
    let mut slices: SmallVec<[Slice<'_>; 8]> = SmallVec::new();
    for (i, (input, spread)) in inputs.iter().zip(&spread).enumerate() {
        let first = input.start + start;
        walks.push(match &input.source {
            Source::Gather(_, steps, _) => Some(Walk::new(steps, first)),
            Source::Direct(_) | Source::Repeat(_) | Source::Result => None,
        });
        slices.push(match &input.source {
            Source::Direct(memory) => *memory,
            Source::Repeat(element) if code.repeats(i) => Slice::of_scalar(element),
            Source::Gather(memory, ..) => memory.as_run(),
            Source::Repeat(_) | Source::Result => input.run(start, row.len, spread),
        });
    }
    let all = outs[0].len() / targets[0].in_row(row.len);
    let mut last = 0;
    code.run_rows(row.len, &slices, outs, &mut |done, places| {
        let mut rows = all - done;
        for ((i, (input, walk)), place) in (inputs.iter().zip(&mut walks).enumerate()).zip(places) {
            if let Some(walk) = walk {
                walk.go_on(last * row.len);
                let before = (input.start + start) / row.len + done;
                rows = rows.min(row.at_once - before % row.at_once);
                let in_row = if code.repeats(i) { 1 } else { row.len };
                *place = Place {
                    first: walk.place(),
                    step: if walk.is_same_for(row.len) { 0 } else { in_row },
                };
            } else if let Source::Direct(_) = input.source {
                *place = Place {
                    first: input.start + start + done * row.len,
                    step: row.len,
                };
            }
        }
        last = rows;
        rows
    });
}

impl fmt::Debug for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fused({} lines)", self.formula.lines().len())
    }
}

impl fmt::Display for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_operation = |line: &&formula::Line| !line.arguments().is_empty();
        let operations = self.formula.lines().iter().filter(is_operation).count();
        write!(
            f,
            "{operations} operations at each of {} elements",
            self.size
        )
    }
}

/// Parts of all results, of one number of elements each.
struct Parts<'a> {
    outs: Vec<SliceMut<'a>>,
    len: usize,
    size: usize,
}

impl<'a> Chunks for Parts<'a> {
    type Chunk = Vec<SliceMut<'a>>;
    fn count(&self) -> usize {
        self.size.div_ceil(self.len)
    }
    fn split(self, count: usize) -> (Self, Self) {
        let at = (count * self.len).min(self.size);
        let (first, others) = self.outs.into_iter().map(|out| out.split_at(at)).unzip();
        let part = |outs, size| Self {
            outs,
            len: self.len,
            size,
        };
        (part(first, at), part(others, self.size - at))
    }
    fn one(self) -> Self::Chunk {
        self.outs
    }
}
