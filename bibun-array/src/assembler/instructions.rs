//! What the lines of a formula need: instructions on values, before these have registers.

use std::collections::HashMap;
use std::sync::Arc;

use super::folds::Fold;
use super::functions::Function;
use super::machine::{Machine, Width};
use super::order::{Step, Steps};
use crate::DType;
use crate::cpu::reduce::LANES;
use crate::formula::{Operation, Target, Type};

/// The number of a value in a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Value(u32);

impl Value {
    pub(super) const fn of_index(index: usize) -> Self {
        Self(index as u32)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// An instruction.
    Computed,
    /// The constants, at this offset.
    Constant(u32),
    /// An input, in this one of the vectors of a turn.
    Input(u8, u8),
    /// An input whose one element is repeated.
    Repeated(u8),
    /// The preamble, which left it in this slot.
    Kept(u32),
    /// The parts of a fold so far.
    Part(Place),
}

/// The place of some parts of a fold in scratch memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The bytes before it.
    pub(super) offset: u32,
    /// The bytes of a part, if there are as many parts before it as the index of the turn says.
    pub(super) moves: Option<u8>,
}

impl Place {
    /// A place that is the same in all turns, some bytes behind a first one.
    pub(super) const fn fixed(first: u32, bytes: usize) -> Self {
        Self {
            offset: first + bytes as u32,
            moves: None,
        }
    }
}

/// A value: a vector or a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Description {
    pub(super) width: Width,
    pub(super) origin: Origin,
    /// The type of the elements of inputs and constants, and where truths are vectors, that of their lanes.
    pub(super) element: Type,
}

/// An instruction on values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction<I> {
    pub(super) what: I,
    pub(super) target: Option<Value>,
    sources: [Value; 3],
    count: u8,
    /// The line of the formula.
    pub(super) line: u32,
}

impl<I> Instruction<I> {
    pub(super) fn sources(&self) -> &[Value] {
        &self.sources[..usize::from(self.count)]
    }
}

/// A part of the code.
#[derive(Debug)]
pub(super) struct Segment<I> {
    pub(super) instructions: Vec<Instruction<I>>,
    /// The vectors that a turn computes.
    pub(super) copies: usize,
}

/// A formula as instructions.
#[derive(Debug)]
pub(super) struct Plan<M: Machine> {
    pub(super) machine: M,
    pub(super) lanes: usize,
    pub(super) values: Vec<Description>,
    pub(super) constants: Vec<u8>,
    /// The functions that are called.
    pub(super) functions: Vec<Arc<Function>>,
    /// What is the same in all turns.
    pub(super) preamble: Segment<M::Instruction>,
    /// Turns of several vectors, the best ones first. Those are taken whose values have registers.
    pub(super) turns: Vec<Segment<M::Instruction>>,
    /// The turns of one vector.
    pub(super) rest: Segment<M::Instruction>,
    /// The collection of parts of sums, for turns of several vectors and for those of one. It comes before the turns
    /// whose first element has a multiple of [`COLLECTED`](super::folds::COLLECTED) before it.
    pub(super) collect: Option<[Segment<M::Instruction>; 2]>,
    /// The end of a row, where the parts of folds are joined.
    pub(super) end: Segment<M::Instruction>,
    /// The slots that the preamble fills.
    pub(super) kept: u32,
    /// The dtypes of the inputs that are read, and whether one element is repeated.
    pub(super) inputs: Vec<Option<(DType, bool)>>,
    /// What becomes of the results.
    pub(super) outputs: Vec<Target>,
    /// The number of elements in each row, if rows are folded.
    pub(super) rows_of: Option<usize>,
    /// Whether results are stored past the caches, in aligned vectors.
    pub(super) streams: bool,
}

impl<M: Machine> Plan<M> {
    /// For each result, the inputs in whose memory it can be written: no turn reads an element of them behind
    /// the instruction that stores the same element of the result.
    pub(super) fn homes(&self) -> Vec<Vec<bool>> {
        let mut homes = vec![vec![self.rows_of.is_none(); self.inputs.len()]; self.outputs.len()];
        for segment in self.turns.iter().chain([&self.rest]) {
            let mut stored: Vec<(u16, u8)> = Vec::new();
            for instruction in &segment.instructions {
                for source in instruction.sources() {
                    let Origin::Input(input, copy) = self.values[source.index()].origin else {
                        continue;
                    };
                    for (result, _) in stored.iter().filter(|(_, other)| *other == copy) {
                        homes[usize::from(*result)][usize::from(input)] = false;
                    }
                }
                stored.extend(M::stored(&instruction.what));
            }
        }
        homes
    }
}

/// The most results that are stored at the end of a turn, where all inputs have been read, so that they can be
/// written to the memory of any of them.
const LATE: usize = 4;

/// The most lines that take less time than their elements on the way from and to memory.
const LIGHT: usize = 12;

/// Beyond this number of instructions a processor sees no other turn anyway.
const LONG: usize = 400;

impl<M: Machine> Plan<M> {
    /// The instructions of a formula for slices of about `n` elements, or `None` if an operation has
    /// none. Results are stored past the caches if they `stream` and the machine can.
    pub(super) fn new(steps: &Steps, machine: M, n: usize, streams: bool) -> Option<Self> {
        let is_wide = |step: &Step| matches!(step.value, Type::Double | Type::Integer);
        let element = if steps.all.iter().any(is_wide) { 8 } else { 4 };
        let mut targets = steps.targets.iter();
        let has_folds = targets.any(|target| matches!(target, Target::Fold(_)));
        let is_light = !has_folds && !streams && steps.order.len() <= LIGHT;
        let lanes = machine.lanes(element, n, is_light);
        if has_folds && (n <= LANES || !machine.folds(lanes, n)) {
            return None;
        }
        let mut lowering = Lowering {
            steps,
            machine,
            lanes,
            values: Vec::new(),
            constants: Vec::new(),
            functions: Vec::new(),
            called: Vec::new(),
            known: HashMap::new(),
            of_lines: Vec::new(),
            folds: Vec::new(),
            kept: vec![None; steps.all.len()],
            converted: HashMap::new(),
            above_root: HashMap::new(),
            instructions: Vec::new(),
            line: 0,
        };
        let (preamble, kept) = lowering.preamble(n)?;
        let rest = lowering.body(1)?;
        let turns = [4, 2]
            .into_iter()
            .filter(|&copies| lowering.fits(&rest, copies, n));
        let turns: Vec<usize> = turns.collect();
        let turns = turns.into_iter().map(|copies| lowering.body(copies));
        let turns = turns.collect::<Option<Vec<_>>>()?;
        let collect = lowering.collect(2).zip(lowering.collect(1));
        let end = lowering.end()?;
        let Lowering {
            values,
            constants,
            functions,
            ..
        } = lowering;
        Some(Self {
            machine,
            lanes,
            values,
            constants,
            functions,
            preamble,
            turns,
            rest,
            collect: collect.map(<[_; 2]>::from),
            end,
            kept,
            rows_of: has_folds.then_some(n),
            streams: streams && M::STREAMS,
            inputs: steps.inputs.clone(),
            outputs: steps.targets.clone(),
        })
    }

    /// The number of inputs and outputs.
    pub(super) fn arrays(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// The numbers of the inputs that are read, and of all outputs.
    pub(super) fn arrays_in_use(&self) -> Vec<usize> {
        let read = (0..self.inputs.len()).filter(|&i| self.inputs[i].is_some());
        read.chain(self.inputs.len()..self.arrays()).collect()
    }

    /// The parts of folds that are at the same places in all turns.
    pub(super) fn parts(&self, segment: &Segment<M::Instruction>) -> Vec<Value> {
        let sources = segment.instructions.iter().flat_map(Instruction::sources);
        let is_part = |value: &&Value| match self.values[value.index()].origin {
            Origin::Part(place) => place.moves.is_none(),
            _ => false,
        };
        sources.filter(is_part).copied().collect()
    }

    /// What the turns read from memory, that which is read most often first.
    pub(super) fn read_often(&self, segment: &Segment<M::Instruction>) -> Vec<Value> {
        let mut uses: HashMap<Value, usize> = HashMap::new();
        for value in segment.instructions.iter().flat_map(Instruction::sources) {
            let description = self.values[value.index()];
            let is_in_memory = matches!(description.origin, Origin::Constant(_) | Origin::Kept(_));
            if is_in_memory && description.width != Width::Mask {
                *uses.entry(*value).or_default() += 1;
            }
        }
        let mut uses: Vec<(Value, usize)> = uses.into_iter().collect();
        uses.sort_unstable_by_key(|&(value, count)| (usize::MAX - count, value.0));
        uses.into_iter().map(|(value, _)| value).collect()
    }
}

/// The instructions of a formula while they are written.
pub(super) struct Lowering<'a, M: Machine> {
    pub(super) steps: &'a Steps,
    pub(super) machine: M,
    pub(super) lanes: usize,
    pub(super) values: Vec<Description>,
    constants: Vec<u8>,
    functions: Vec<Arc<Function>>,
    /// The offsets of functions among the constants.
    called: Vec<u32>,
    known: HashMap<(u64, usize), Value>,
    /// The value of each line in each of the vectors of a turn, as far as it is there.
    pub(super) of_lines: Vec<Vec<Option<Value>>>,
    /// The folds, by the numbers of their results.
    pub(super) folds: Vec<Option<Fold>>,
    /// What the preamble leaves of each line.
    kept: Vec<Option<Value>>,
    /// Truths in lanes of the other size.
    pub(super) converted: HashMap<Value, Value>,
    /// The bits of numbers, moved so that their exponents change at `√½`.
    pub(super) above_root: HashMap<Value, Value>,
    instructions: Vec<Instruction<M::Instruction>>,
    pub(super) line: u32,
}

impl<M: Machine> Lowering<'_, M> {
    /// What is the same in all turns, and the number of slots that it fills.
    fn preamble(&mut self, n: usize) -> Option<(Segment<M::Instruction>, u32)> {
        self.of_lines = vec![vec![None; self.steps.all.len()]];
        for (line, step) in self.steps.all.iter().enumerate() {
            if step.is_uniform && step.is_needed && !step.is_constant() {
                let value = self.line(line, 0)?;
                self.of_lines[0][line] = Some(value);
            }
        }
        let mut slot = 0;
        for (line, step) in self.steps.all.iter().enumerate() {
            if let Some(value) = self.of_lines[0][line].filter(|_| step.is_kept) {
                self.line = line as u32;
                self.instruct(M::keep_in_slot(slot), None, &[value]);
                let description = Description {
                    origin: Origin::Kept(slot),
                    ..self.values[value.index()]
                };
                self.kept[line] = Some(self.value(description));
                slot += 1;
            }
        }
        let slots = self.start_folds(n, slot);
        Some((self.segment(1), slots))
    }

    fn body(&mut self, copies: usize) -> Option<Segment<M::Instruction>> {
        self.of_lines = vec![vec![None; self.steps.all.len()]; copies];
        let mut results: Vec<(usize, u16)> = Vec::with_capacity(self.steps.results.len());
        for (k, &line) in self.steps.results.iter().enumerate() {
            results.push((line, u16::try_from(k).ok()?));
        }
        results.sort_unstable();
        let is_late = results.len() <= LATE && self.folds.iter().all(Option::is_none);
        for &line in &self.steps.order {
            for copy in 0..copies {
                let value = self.line(line, copy)?;
                self.of_lines[copy][line] = Some(value);
            }
            if self.steps.all[line].is_result && !is_late {
                let first = results.partition_point(|&(other, _)| other < line);
                let own = results[first..]
                    .iter()
                    .take_while(|&&(other, _)| other == line);
                own.map(|&(line, result)| self.result(line, result))
                    .collect::<Option<()>>()?;
            }
        }
        // Those that need no instruction of the turn come before others.
        results.sort_by_key(|&(line, _)| !self.steps.all[line].is_leaf());
        for (line, result) in results {
            if is_late || self.steps.all[line].is_leaf() {
                self.result(line, result)?;
            }
        }
        Some(self.segment(copies))
    }

    /// Stores or folds a result in all vectors of a turn.
    fn result(&mut self, line: usize, result: u16) -> Option<()> {
        match self.folds[usize::from(result)] {
            Some(fold) => self.fold(line, fold),
            None => M::store(self, line, result),
        }
    }

    pub(super) fn segment(&mut self, copies: usize) -> Segment<M::Instruction> {
        self.converted.clear();
        self.above_root.clear();
        Segment {
            instructions: std::mem::take(&mut self.instructions),
            copies,
        }
    }

    /// Whether a turn may compute several vectors, which hides the latency of instructions.
    fn fits(&self, one: &Segment<M::Instruction>, copies: usize, n: usize) -> bool {
        let vectors = self.machine.vectors();
        let live = self.steps.live(self.machine.has_masks());
        n >= self.lanes * copies
            && one.instructions.len() * copies <= LONG
            // Some of them may be read from memory when they are needed.
            && live * copies <= usize::from(vectors) * 3 / 2
    }

    pub(super) fn value(&mut self, description: Description) -> Value {
        self.values.push(description);
        Value(self.values.len() as u32 - 1)
    }

    /// The width of vectors of a type.
    pub(super) fn width(&self, value: Type) -> Width {
        Width::of((self.lanes * size(value)).max(M::NARROWEST))
    }

    /// A constant with these bits.
    pub(super) fn bits(&mut self, bits: u64, of: Type) -> Value {
        let bytes = size(of);
        if let Some(value) = self.known.get(&(bits, bytes)) {
            return *value;
        }
        let offset = self.constants.len() as u32;
        let times = self.machine.constant(bytes) / bytes;
        for _ in 0..times {
            self.constants.extend(&bits.to_le_bytes()[..bytes]);
        }
        let width = self.width(of);
        let value = self.value(Description {
            width,
            origin: Origin::Constant(offset),
            element: of,
        });
        self.known.insert((bits, bytes), value);
        value
    }

    /// A number of this precision.
    pub(super) fn number(&mut self, x: f64, of: Type) -> Value {
        match of {
            Type::Single => self.bits(u64::from((x as f32).to_bits()), of),
            _ => self.bits(x.to_bits(), of),
        }
    }

    /// Writes an instruction, which computes a value unless it stores one.
    pub(super) fn instruct(
        &mut self,
        what: M::Instruction,
        target: Option<Width>,
        sources: &[Value],
    ) -> Option<Value> {
        let target = target.map(|width| {
            self.value(Description {
                width,
                origin: Origin::Computed,
                element: Type::Number,
            })
        });
        let mut all = [Value(0); 3];
        all[..sources.len()].copy_from_slice(sources);
        self.instructions.push(Instruction {
            what,
            target,
            sources: all,
            count: sources.len() as u8,
            line: self.line,
        });
        target
    }

    /// The value of a line that has none yet, or does not need to be computed in a turn.
    pub(super) fn of_line(&mut self, line: usize, copy: usize) -> Option<Value> {
        if let Some(value) = self.of_lines[copy][line].or(self.kept[line]) {
            return Some(value);
        }
        let value = self.line(line, copy)?;
        self.of_lines[copy][line] = Some(value);
        Some(value)
    }

    /// The instructions of a line.
    fn line(&mut self, line: usize, copy: usize) -> Option<Value> {
        let step = self.steps.all[line];
        let mut arguments = [Value(0); 3];
        for (value, &argument) in arguments.iter_mut().zip(step.arguments()) {
            *value = self.of_line(argument as usize, copy)?;
        }
        self.line = line as u32;
        if let Operation::Input(i) = step.operation {
            return M::input(self, i, step, copy);
        }
        M::operation(self, &step, &arguments[..step.arguments().len()])
    }

    /// The offset among the constants of a function that is called, and of its data.
    pub(super) fn function(&mut self, step: &Step) -> u32 {
        let function = Function {
            operation: step.operation,
            of: step.of,
            lanes: self.lanes,
        };
        let known = self.functions.iter().position(|other| **other == function);
        match known {
            Some(known) => self.called[known],
            None => {
                let (offset, function) = (self.constants.len() as u32, Arc::new(function));
                let address = Arc::as_ptr(&function) as usize;
                for word in [Function::entry(), address] {
                    self.constants.extend(word.to_le_bytes());
                }
                self.functions.push(function);
                self.called.push(offset);
                offset
            }
        }
    }
}

/// The bytes of an element of a type.
pub(super) fn size(value: Type) -> usize {
    match value {
        Type::Truth => 1,
        Type::Single => 4,
        Type::Double | Type::Integer | Type::Number => 8,
    }
}

/// The bits of a precision.
pub(super) struct Format {
    pub(super) fraction: u8,
    pub(super) bias: f64,
    pub(super) sign: u64,
    pub(super) one: u64,
    /// Those of `√½`.
    pub(super) root: u64,
}

impl Format {
    pub(super) fn of(precision: Type) -> Self {
        match precision {
            Type::Single => Self {
                fraction: 23,
                bias: 127.0,
                sign: 1 << 31,
                one: u64::from(1f32.to_bits()),
                root: u64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()),
            },
            _ => Self {
                fraction: 52,
                bias: 1023.0,
                sign: 1 << 63,
                one: 1f64.to_bits(),
                root: std::f64::consts::FRAC_1_SQRT_2.to_bits(),
            },
        }
    }
}
