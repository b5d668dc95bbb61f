//! Instructions of Advanced SIMD with their registers, and the function around them.
//!
//! Source of the calling convention: Procedure Call Standard for the Arm 64-bit Architecture.

use std::ops::Range;

use super::Neon;
use super::encoder::{
    self as arm, Condition, Encoder, General, Memory, Opcode, Shape, UNSAVED_VECTORS,
};
use super::operations::shape;
use crate::assembler::instructions::{Description, Instruction as OnValues, Origin, Place, Value};
use crate::assembler::machine::{Jump, Loops, Register, Width, Written};
use crate::assembler::registers::{NEVER, Writer};
use crate::cpu::reduce::LANES;

/// An instruction, without its operands.
#[derive(Clone, Copy, Debug)]
pub(in crate::assembler) struct Instruction {
    pub(super) opcode: Opcode,
    pub(super) form: Form,
}

impl Instruction {
    /// One that is known by its form.
    pub(super) const fn on_registers(form: Form) -> Self {
        let opcode = arm::OR.of(Shape::B16);
        Self { opcode, form }
    }
}

/// What is done with the operands of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::assembler) enum Form {
    /// One or two sources.
    Plain,
    /// One source, by bits.
    Shift(u8),
    /// The last source is overwritten.
    Accumulating,
    /// Bits of the second source where those of the first are set, else of the third. One of them is
    /// overwritten.
    Choice,
    /// The f32 nearest to the integer in a lane of the source, as the first lane.
    SingleOfLane(u8),
    /// A function, whose address is among the constants, of one or two sources.
    Call(u32),
    /// The same of the first source, only where the truth that is the second source holds; else
    /// the third source.
    GuardedCall(u32),
    /// A result, in one of the vectors of a turn.
    Store(u16, u8),
    /// The first lane is the result of a row.
    StoreOne(u16),
    /// The value is left in a slot.
    Keep(u32),
    /// The value is left where the parts of a fold are.
    KeepPart(Place),
}

// What general registers hold. The first four are those of the arguments.
const POINTERS: General = General(0);
const COUNT: General = General(1);
const CONSTANTS: General = General(2);
const SLOTS: General = General(3);
const INDEX: General = General(4);
const LIMIT: General = General(5);
const SPARE: General = General(6);
const SECOND_SPARE: General = General(7);

/// The first of the registers for pointers to elements, and the one after the last. A function may
/// use them as it likes.
const ELEMENTS: (u8, u8) = (8, 18);

/// The general registers that a function may change, in pairs.
const CHANGED: [[General; 2]; 9] = [
    [POINTERS, COUNT],
    [CONSTANTS, SLOTS],
    [INDEX, LIMIT],
    [General(8), General(9)],
    [General(10), General(11)],
    [General(12), General(13)],
    [General(14), General(15)],
    [General(16), General(17)],
    [General::LINK, General::STACK],
];

/// What has been written, and what is known of it.
#[derive(Debug)]
pub(in crate::assembler) struct Output {
    pub(super) encoder: Encoder,
    /// The registers of the pointers to the elements of inputs, then of outputs, with the bytes of
    /// an element. They go on with the turns.
    pointers: Vec<Option<(General, usize)>>,
    /// Whether registers are used whose halves belong to the caller.
    saves_halves: bool,
}

impl Output {
    pub(super) fn new(
        sizes: impl Iterator<Item = Option<usize>>,
        values: usize,
        is_listed: bool,
    ) -> Self {
        let mut free = (ELEMENTS.0..ELEMENTS.1).map(General);
        let pointers = sizes.map(|size| size.and_then(|size| Some((free.next()?, size))));
        Self {
            pointers: pointers.collect(),
            encoder: Encoder {
                written: Written {
                    notes: is_listed.then(Vec::new),
                    ..Written::default()
                },
            },
            saves_halves: values > usize::from(UNSAVED_VECTORS),
        }
    }

    pub(super) fn enter(&mut self) {
        if self.saves_halves {
            arm::saved_halves().for_each(|pair| self.encoder.push_halves(pair));
        }
    }

    /// Loads pointers to the first elements of arrays.
    fn load_pointers(&mut self) {
        for (i, pointer) in self.pointers.clone().into_iter().enumerate() {
            if let Some((register, _)) = pointer {
                self.load_general(register, POINTERS, pointer_at(i));
            }
        }
    }

    /// Moves the pointers of `read` to the next row, and goes on if there is one.
    pub(super) fn end_row(&mut self, read: &[usize], arrays: usize, start: usize) {
        for &i in read {
            self.load_general(INDEX, POINTERS, pointer_at(i));
            self.load_general(SPARE, POINTERS, pointer_at(arrays + i));
            self.encoder.add(INDEX, INDEX, SPARE, 0);
            self.store_general(INDEX, POINTERS, pointer_at(i));
        }
        let rows = pointer_at(2 * arrays);
        self.load_general(SPARE, POINTERS, rows);
        self.encoder.subtract_number(SPARE, SPARE, 1);
        self.store_general(SPARE, POINTERS, rows);
        self.encoder.set(INDEX, 0);
        self.encoder.compare(SPARE, INDEX);
        self.encoder.jump_back(Condition::Greater, start);
    }

    pub(super) fn start_rest(&mut self, lanes: usize) {
        // The last turn may compute some elements again.
        self.encoder.subtract_number(LIMIT, COUNT, lanes as u32);
        self.encoder.compare(INDEX, LIMIT);
        self.encoder.choose(INDEX, LIMIT, INDEX, Condition::Greater);
        self.load_pointers();
        for (register, size) in self.pointers.iter().flatten() {
            let shift = size.trailing_zeros() as u8;
            self.encoder.add(*register, *register, INDEX, shift);
        }
    }

    /// An address that an instruction on this number of bytes can have.
    fn reached(&mut self, base: General, offset: u32, bytes: usize) -> Memory {
        let bytes = bytes as u32;
        if offset.is_multiple_of(bytes) && offset / bytes < 1 << 12 {
            return Memory::at(base, offset);
        }
        self.encoder.set(SECOND_SPARE, offset);
        self.encoder.add(SECOND_SPARE, base, SECOND_SPARE, 0);
        Memory::at(SECOND_SPARE, 0)
    }

    fn load_general(&mut self, target: General, base: General, offset: u32) {
        let memory = self.reached(base, offset, 8);
        self.encoder.load_general(target, memory);
    }

    fn store_general(&mut self, source: General, base: General, offset: u32) {
        let memory = self.reached(base, offset, 8);
        self.encoder.store_general(memory, source);
    }

    pub(super) fn load_register(&mut self, register: Register, slot: u32) {
        let bytes = register.width.bytes();
        let memory = self.reached(SLOTS, slot * 64, bytes);
        self.encoder.load(register, memory, bytes);
    }

    pub(super) fn store_register(&mut self, register: Register, slot: u32) {
        let bytes = register.width.bytes();
        let memory = self.reached(SLOTS, slot * 64, bytes);
        self.encoder.store(memory, register, bytes);
    }

    /// The place of parts of a fold.
    fn part(&mut self, place: Place, bytes: usize) -> Memory {
        let base = match place.moves {
            None => SLOTS,
            Some(size) => {
                let shift = size.trailing_zeros() as u8;
                self.encoder
                    .low_bits(SPARE, INDEX, LANES.trailing_zeros() as u8);
                self.encoder.add(SPARE, SLOTS, SPARE, shift);
                SPARE
            }
        };
        self.reached(base, place.offset, bytes)
    }

    pub(super) fn store_part(&mut self, register: Register, place: Place) {
        let bytes = register.width.bytes();
        let memory = self.part(place, bytes);
        self.encoder.store(memory, register, bytes);
    }

    /// A call, which leaves general registers as they were.
    pub(super) fn call_entry(&mut self, offset: u32, slots: u32) {
        let pairs = CHANGED.into_iter();
        pairs.clone().for_each(|pair| self.encoder.push(pair));
        self.load_general(SPARE, CONSTANTS, offset);
        self.load_general(POINTERS, CONSTANTS, offset + 8);
        self.encoder.set(COUNT, slots * 64);
        self.encoder.add(COUNT, SLOTS, COUNT, 0);
        self.encoder.call(SPARE);
        pairs.rev().for_each(|pair| self.encoder.pop(pair));
    }
}

impl Loops for Output {
    fn written(&mut self) -> &mut Written {
        &mut self.encoder.written
    }

    fn masks(&self) -> Range<u8> {
        0..0
    }

    fn start(&mut self) {
        self.encoder.set(INDEX, 0);
    }

    fn skip_turns(&mut self, elements: i32) -> Jump {
        self.encoder.subtract_number(LIMIT, COUNT, elements as u32);
        self.encoder.compare(INDEX, LIMIT);
        let too_few = self.encoder.jump_forward(Condition::Greater);
        self.load_pointers();
        too_few
    }

    fn skip_unless_multiple(&mut self, elements: u32) -> Jump {
        self.encoder.test_low_bits(INDEX, elements.trailing_zeros());
        self.encoder.jump_forward(Condition::NotEqual)
    }

    fn align(&mut self) -> usize {
        self.encoder.align()
    }

    fn end_turn(&mut self, elements: i32, start: usize) {
        for (register, size) in self.pointers.iter().flatten() {
            let bytes = elements as u32 * *size as u32;
            self.encoder.add_number(*register, *register, bytes);
        }
        self.encoder.add_number(INDEX, INDEX, elements as u32);
        self.encoder.compare(INDEX, LIMIT);
        self.encoder.jump_back(Condition::AtMost, start);
    }

    fn skip_rest(&mut self) -> Jump {
        self.encoder.compare(INDEX, COUNT);
        self.encoder.jump_forward(Condition::AtLeast)
    }

    fn end_rest(&mut self, lanes: i32, start: usize) {
        self.encoder.add_number(INDEX, INDEX, lanes as u32);
        self.encoder.compare(INDEX, COUNT);
        self.encoder.jump_back(Condition::Less, start);
    }

    fn land(&mut self, jump: Jump) {
        self.encoder.land(jump);
    }

    fn leave(&mut self) {
        if self.saves_halves {
            arm::saved_halves()
                .rev()
                .for_each(|pair| self.encoder.pop_halves(pair));
        }
        self.encoder.finish();
    }
}

impl Writer<'_, Neon> {
    /// Loads a constant, an input or parts of a fold.
    pub(super) fn load_own(&mut self, value: Value, register: u8) {
        let Description { width, origin, .. } = self.description(value);
        let target = Register::new(register, width);
        match origin {
            Origin::Computed | Origin::Kept(_) => unreachable!("it has a slot"),
            Origin::Part(place) => {
                let bytes = width.bytes();
                let memory = self.output.part(place, bytes);
                self.output.encoder.load(target, memory, bytes);
            }
            Origin::Constant(offset) => {
                let bytes = width.bytes();
                let memory = self.output.reached(CONSTANTS, offset, bytes);
                self.output.encoder.load(target, memory, bytes);
            }
            Origin::Repeated(input) => {
                let (dtype, _) = self.plan.inputs[usize::from(input)].expect("it is read");
                let pointer = pointer_at(usize::from(input));
                self.output.load_general(SPARE, POINTERS, pointer);
                let shape = shape(dtype.size(), width);
                self.output.encoder.repeat(target, SPARE, shape);
            }
            Origin::Input(input, copy) => {
                let (dtype, _) = self.plan.inputs[usize::from(input)].expect("it is read");
                let (memory, bytes) = self.elements(usize::from(input), copy, dtype.size());
                self.output.encoder.load(target, memory, bytes);
            }
        }
    }

    /// The elements of an input or output in a turn, and their bytes.
    fn elements(&mut self, array: usize, copy: u8, size: usize) -> (Memory, usize) {
        let bytes = self.plan.lanes * size;
        let base = match self.output.pointers[array] {
            Some((register, _)) => register,
            None => {
                self.output.load_general(SPARE, POINTERS, pointer_at(array));
                let shift = size.trailing_zeros() as u8;
                self.output.encoder.add(SPARE, SPARE, INDEX, shift);
                SPARE
            }
        };
        (Memory::at(base, u32::from(copy) * bytes as u32), bytes)
    }

    pub(super) fn form(&mut self, instruction: &OnValues<Instruction>, after: [u32; 4]) {
        let Instruction { opcode, form } = instruction.what;
        let sources = instruction.sources();
        match form {
            Form::Plain | Form::Shift(_) => {
                let first = self.register(sources[0]);
                let second = sources.get(1).map(|&second| self.register(second));
                self.end(sources, after);
                let target = self.target(instruction, after);
                let bits = match form {
                    Form::Shift(bits) => Some(bits),
                    _ => None,
                };
                self.output
                    .encoder
                    .vector(opcode, target, first, second, bits);
            }
            Form::Accumulating => {
                let first = self.register(sources[0]);
                let second = self.register(sources[1]);
                let target = self.overwritten(instruction, sources[2], &sources[..2], after);
                self.end(sources, after);
                self.output
                    .encoder
                    .vector(opcode, target, first, Some(second), None);
            }
            Form::Choice => self.choice(instruction, after),
            Form::SingleOfLane(lane) => {
                let source = self.register(sources[0]);
                self.end(sources, after);
                let target = self.target(instruction, after);
                self.output.encoder.lane(SPARE, source, lane);
                self.output.encoder.single_of(target, SPARE);
            }
            Form::Call(offset) => {
                let first = self.register(sources[0]);
                let second = sources.get(1).map(|&second| self.register(second));
                self.end(sources, after);
                let target = self.target(instruction, after);
                let result = match second {
                    Some(second) => self.call(offset, &[first, second], Some(target), None),
                    None => self.call(offset, &[first], Some(target), None),
                };
                self.output.load_register(target, result);
            }
            Form::GuardedCall(offset) => {
                let argument = self.register(sources[0]);
                let truth = self.register(sources[1]);
                let target = self.overwritten(instruction, sources[2], &sources[..2], after);
                let result = Register::new(self.free_register(target.width), target.width);
                let nowhere = self.output.skip_unless(truth);
                let slot = self.call(offset, &[argument], None, None);
                self.output.load_register(result, slot);
                self.output
                    .encoder
                    .vector(opcode, target, result, Some(truth), None);
                self.output.encoder.land(nowhere);
                self.vectors.free |= 1 << result.number;
                self.end(sources, after);
            }
            Form::Store(result, copy) => {
                let source = self.register(sources[0]);
                self.end(sources, after);
                let size = self.plan.outputs[usize::from(result)].dtype().size();
                let array = self.plan.inputs.len() + usize::from(result);
                let (memory, bytes) = self.elements(array, copy, size);
                self.output.encoder.store(memory, source, bytes);
            }
            Form::StoreOne(result) => {
                let source = self.register(sources[0]);
                self.end(sources, after);
                let array = self.plan.inputs.len() + usize::from(result);
                let pointer = pointer_at(array);
                self.output.load_general(SPARE, POINTERS, pointer);
                self.output.encoder.store(Memory::at(SPARE, 0), source, 4);
            }
            Form::KeepPart(place) => {
                let part = self.register(sources[0]);
                self.keep_part(part, place);
                self.end(sources, after);
            }
            Form::Keep(slot) => {
                let register = self.register(sources[0]);
                self.output.store_register(register, slot);
                self.end(sources, after);
            }
        }
    }

    /// A choice by bits, which overwrites the mask or one of both: one that ends here, or one that
    /// has to be loaded anyway.
    fn choice(&mut self, instruction: &OnValues<Instruction>, after: [u32; 4]) {
        let sources = instruction.sources();
        let is_other = |i: usize| (0..3).all(|j| j == i || sources[j] != sources[i]);
        let place = |writer: &Self, i: usize| writer.places[sources[i].index()];
        let is_own = |writer: &Self, i: usize| {
            place(writer, i)
                .is_none_or(|r| writer.vectors.holds[usize::from(r)] == Some(sources[i]))
        };
        let overwritten = [0, 2, 1]
            .into_iter()
            .find(|&i| after[i] == NEVER && is_other(i) && is_own(self, i))
            .or_else(|| {
                [0, 2, 1]
                    .into_iter()
                    .find(|&i| place(self, i).is_none() && is_other(i))
            })
            .unwrap_or(2);
        let (opcode, [first, second]) = match overwritten {
            0 => (arm::SELECT, [1, 2]),
            1 => (arm::INSERT_UNLESS, [2, 0]),
            _ => (arm::INSERT, [1, 0]),
        };
        let others = [first, second].map(|i| sources[i]);
        let [first, second] = others.map(|other| self.register(other));
        let target = self.overwritten(instruction, sources[overwritten], &others, after);
        self.end(sources, after);
        let opcode = opcode.of(shape(1, target.width));
        self.output
            .encoder
            .vector(opcode, target, first, Some(second), None);
    }
}

impl Output {
    /// Jumps if a truth holds in no lane.
    fn skip_unless(&mut self, truth: Register) -> Jump {
        self.encoder.lane(SPARE, truth, 0);
        if truth.width == Width::V16 {
            self.encoder.lane(SECOND_SPARE, truth, 1);
            self.encoder.or(SPARE, SPARE, SECOND_SPARE);
        }
        self.encoder.jump_if_zero(SPARE)
    }
}

/// The place of the pointer to the elements of an input or output.
const fn pointer_at(array: usize) -> u32 {
    array as u32 * 8
}
