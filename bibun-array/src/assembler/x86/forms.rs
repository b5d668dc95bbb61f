//! Instructions of AVX-512 and AVX2 with their registers.

use std::ops::Range;

use smallvec::SmallVec;

use super::encoder::{self as x86, Condition, Encoder, General, Lanes, Memory, Opcode, Operand};
use super::{Level, memory};
use crate::assembler::instructions::{
    Description, Instruction as OnValues, Origin, Place, Value, size,
};
use crate::assembler::machine::{Jump, Loops, Register, Width, Written};
use crate::assembler::registers::{NEVER, Writer};
use crate::cpu::reduce::LANES;
use crate::formula::Target;

/// An instruction, without its operands.
#[derive(Clone, Copy, Debug)]
pub(in crate::assembler) struct Instruction {
    pub(super) opcode: Opcode,
    pub(super) form: Form,
    pub(super) length: Width,
    pub(super) immediate: Option<u8>,
}

impl Instruction {
    /// One that is known by its form.
    pub(super) const fn of_form(form: Form) -> Self {
        Self {
            opcode: x86::MOVE,
            form,
            length: Width::V16,
            immediate: None,
        }
    }
}

/// The places of the operands of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::assembler) enum Form {
    /// The last of one or two sources may lie in memory.
    Plain,
    /// The same, and the two may change places.
    Commutative,
    /// One source, of elements of another size, in a register.
    Convert,
    /// The same of the lower half of a source.
    ConvertLower,
    /// The second source in the lanes of the last turn of a row, else the first.
    Within,
    /// The same, only in the lanes of the mask that is the first source; others are zero.
    Masked,
    /// By bits, with this number in the place of a register.
    Shift(u8),
    /// `a b + c`, which overwrites one of the three.
    Fused,
    /// The second source in the lanes of the mask that is the first one, else the third.
    Choice,
    /// The same with a vector, whose signs are the mask.
    ChoiceBySign,
    /// The first source is overwritten, the last may lie in memory.
    Overwriting,
    /// The target stands in the place of the last operand.
    Extract,
    /// Of masks.
    Masks,
    /// A function, whose address lies among the constants, of one or two sources.
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
const POINTERS: General = General::RDI;
const COUNT: General = General::RSI;
const CONSTANTS: General = General::RDX;
const SLOTS: General = General::RCX;
const INDEX: General = General::R8;
const LIMIT: General = General::R9;
const SPARE: General = General::RAX;

/// Registers for pointers to elements; a function may use the first two as it likes.
const ELEMENTS: [General; 8] = [
    General::R10,
    General::R11,
    General::RBX,
    General::RBP,
    General::R12,
    General::R13,
    General::R14,
    General::R15,
];
const UNSAVED: usize = 2;

/// The general registers that a function may change.
const CHANGED: [General; 8] = [
    POINTERS,
    COUNT,
    CONSTANTS,
    SLOTS,
    INDEX,
    LIMIT,
    General::R10,
    General::R11,
];

/// The mask of the lanes of a turn that is not whole.
const TAIL: u8 = 1;

/// What has been written, and what is known of it.
#[derive(Debug)]
pub(in crate::assembler) struct Output {
    pub(super) encoder: Encoder,
    /// The registers of the pointers to the elements of inputs, then of outputs.
    pointers: Vec<Option<General>>,
    /// The number of registers that lie on the stack.
    pushed: usize,
    /// The lanes that are read from inputs and written to outputs.
    pub(super) lanes: Lanes,
}

impl Output {
    pub(super) fn new(level: Level, arrays: usize, is_listed: bool) -> Self {
        Self {
            encoder: Encoder {
                is_evex: level == Level::Avx512,
                written: Written {
                    notes: is_listed.then(Vec::new),
                    ..Written::default()
                },
            },
            pointers: vec![None; arrays],
            pushed: 0,
            lanes: Lanes::All,
        }
    }

    /// Goes on by some elements, and to the start if the condition holds of the index and a limit.
    fn go_on(&mut self, elements: i32, condition: Condition, limit: General, start: usize) {
        self.encoder.add_number(INDEX, elements);
        self.encoder.compare(INDEX, limit);
        self.encoder.jump_back(condition, start);
    }
}

impl Loops for Output {
    fn written(&mut self) -> &mut Written {
        &mut self.encoder.written
    }

    fn masks(&self) -> Range<u8> {
        match self.lanes {
            Lanes::All => 1..8,
            Lanes::Of(_) | Lanes::Only(_) => TAIL + 1..8,
        }
    }

    fn start(&mut self) {
        self.encoder.zero(INDEX);
    }

    fn skip_turns(&mut self, elements: i32) -> Jump {
        let limit = Memory::at(COUNT, -elements);
        self.encoder.address(LIMIT, limit);
        self.encoder.compare(INDEX, LIMIT);
        self.encoder.jump_forward(Condition::Greater)
    }

    fn skip_unless_multiple(&mut self, elements: u32) -> Jump {
        self.encoder.test(INDEX, elements - 1);
        self.encoder.jump_forward(Condition::NotZero)
    }

    fn align(&mut self) -> usize {
        self.encoder.align()
    }

    fn end_turn(&mut self, elements: i32, start: usize) {
        self.go_on(elements, Condition::AtMost, LIMIT, start);
    }

    fn skip_rest(&mut self) -> Jump {
        self.encoder.compare(INDEX, COUNT);
        self.encoder.jump_forward(Condition::AtLeast)
    }

    fn end_rest(&mut self, lanes: i32, start: usize) {
        self.go_on(lanes, Condition::Less, COUNT, start);
    }

    fn land(&mut self, jump: Jump) {
        self.encoder.land(jump);
    }

    fn leave(&mut self) {
        let saved = &ELEMENTS[UNSAVED..UNSAVED + self.pushed];
        for &general in saved.iter().rev() {
            self.encoder.pop(general);
        }
        self.encoder.finish();
    }
}

impl Writer<'_, Level> {
    /// Saves what the caller expects as it was, and loads pointers to elements.
    pub(super) fn enter(&mut self) {
        let plan = self.plan;
        let in_turns = plan
            .inputs
            .iter()
            .map(|input| matches!(input, Some((_, false))));
        let is_stored = |target: &Target| matches!(target, Target::Elements(_));
        let in_turns = in_turns.chain(plan.outputs.iter().map(is_stored));
        let mut free = ELEMENTS.into_iter();
        self.output.pointers = in_turns
            .map(|is_read| if is_read { free.next() } else { None })
            .collect();
        let saved = (ELEMENTS.len() - free.len()).saturating_sub(UNSAVED);
        self.output.pushed = saved;
        let saved = &ELEMENTS[UNSAVED..UNSAVED + saved];
        saved
            .iter()
            .for_each(|&general| self.output.encoder.push(general));
    }

    /// Loads pointers to the first elements of a row.
    pub(super) fn start_row(&mut self) {
        for (i, pointer) in self.output.pointers.clone().into_iter().enumerate() {
            if let Some(register) = pointer {
                self.output.encoder.load(register, pointer_at(i));
            }
        }
    }

    /// Moves all pointers to the next row, and goes on if there is one.
    pub(super) fn end_row(&mut self, start: usize) {
        let (read, arrays) = (self.plan.arrays_in_use(), self.plan.arrays());
        let encoder = &mut self.output.encoder;
        for i in read {
            encoder.load(SPARE, pointer_at(arrays + i));
            encoder.add_to_memory(pointer_at(i), SPARE);
        }
        encoder.set(SPARE, -1);
        encoder.add_to_memory(pointer_at(2 * arrays), SPARE);
        encoder.jump_back(Condition::Greater, start);
    }

    /// Finds the elements of a turn that may not be whole.
    pub(super) fn start_rest(&mut self) {
        let lanes = self.plan.lanes as i32;
        match self.plan.machine {
            Level::Avx512 => {
                self.output.encoder.copy(LIMIT, COUNT);
                self.output.encoder.subtract(LIMIT, INDEX);
                self.output.encoder.set(SPARE, lanes);
                self.output.encoder.compare(LIMIT, SPARE);
                self.output.encoder.copy_if_greater(LIMIT, SPARE);
                self.output.encoder.set(SPARE, -1);
                self.output.encoder.low_bits(SPARE, LIMIT);
                self.output.encoder.mask_of_general(TAIL, SPARE);
                self.output.lanes = Lanes::Of(TAIL);
            }
            Level::Avx2 => {
                // The last turn may compute some elements again.
                self.output
                    .encoder
                    .address(LIMIT, Memory::at(COUNT, -lanes));
                self.output.encoder.compare(INDEX, LIMIT);
                self.output.encoder.copy_if_greater(INDEX, LIMIT);
            }
        }
    }

    fn slot(&self, slot: u32) -> Memory {
        Memory::at(SLOTS, slot as i32 * 64)
    }

    pub(super) fn store_register(&mut self, register: Register, slot: u32) {
        let memory = self.slot(slot);
        match register.width {
            Width::Mask => self.output.encoder.store_mask(memory, register.number),
            width => {
                let (store, to) = (x86::STORE[0], (memory, width.bytes()));
                self.output
                    .encoder
                    .store(store, to, Lanes::All, register, None);
            }
        }
    }

    pub(super) fn load_register(&mut self, register: Register, slot: u32) {
        let memory = self.slot(slot);
        match register.width {
            Width::Mask => self.output.encoder.load_mask(register.number, memory),
            width => {
                let operand = Operand::Memory(memory, width.bytes());
                self.read(x86::LOAD[0], register, Lanes::All, operand);
            }
        }
    }

    /// The place of parts of a fold.
    fn part(&mut self, place: Place) -> Memory {
        let index = place.moves.map(|bytes| {
            self.output.encoder.copy(SPARE, INDEX);
            self.output.encoder.keep_low_bits(SPARE, LANES as u8 - 1);
            (SPARE, bytes)
        });
        Memory {
            base: SLOTS,
            index,
            offset: place.offset as i32,
        }
    }

    pub(super) fn store_part(&mut self, register: Register, place: Place) {
        let to = (self.part(place), register.width.bytes());
        self.output
            .encoder
            .store(x86::STORE[0], to, Lanes::All, register, None);
    }

    /// Loads a constant, an input or parts of a fold.
    pub(super) fn load_own(&mut self, value: Value, register: u8) {
        let Description {
            width,
            origin,
            element,
        } = self.description(value);
        let target = Register::new(register, width);
        let wide = usize::from(size(element) == 8);
        match origin {
            Origin::Computed | Origin::Kept(_) => unreachable!("it has a slot"),
            Origin::Part(place) => {
                let operand = Operand::Memory(self.part(place), width.bytes());
                self.read(x86::LOAD[0], target, Lanes::All, operand);
            }
            Origin::Constant(offset) => {
                let memory = Memory::at(CONSTANTS, offset as i32);
                match self.plan.machine {
                    Level::Avx512 => {
                        let operand = Operand::Memory(memory, size(element));
                        self.read(x86::BROADCAST[wide], target, Lanes::All, operand);
                    }
                    Level::Avx2 => {
                        let operand = Operand::Memory(memory, width.bytes());
                        self.read(x86::LOAD[wide], target, Lanes::All, operand);
                    }
                }
            }
            Origin::Repeated(input) => {
                let (dtype, _) = self.plan.inputs[usize::from(input)].expect("it is read");
                self.output
                    .encoder
                    .load(SPARE, pointer_at(usize::from(input)));
                let operand = Operand::Memory(Memory::at(SPARE, 0), dtype.size());
                self.read(memory::broadcast(dtype), target, Lanes::All, operand);
            }
            Origin::Input(input, copy) => {
                let (dtype, _) = self.plan.inputs[usize::from(input)].expect("it is read");
                let elements = self.elements(usize::from(input), copy, dtype.size());
                if self.plan.lanes == 1 {
                    let operand = Operand::Memory(elements, dtype.size());
                    return self.read(memory::broadcast(dtype), target, Lanes::All, operand);
                }
                let (opcode, part) = memory::load(dtype, self.plan.machine);
                let (opcode, lanes) = match self.output.lanes {
                    Lanes::Of(mask) => (opcode, Lanes::Only(mask)),
                    // Not more bytes than there are.
                    lanes if opcode == x86::LOAD_BYTES => match self.plan.lanes {
                        4 => (x86::LOAD_FOUR, lanes),
                        8 => (x86::LOAD_EIGHT, lanes),
                        _ => (opcode, lanes),
                    },
                    lanes => (opcode, lanes),
                };
                let bytes = match opcode {
                    x86::LOAD_FOUR => 4,
                    x86::LOAD_EIGHT => 8,
                    _ => width.bytes() / part,
                };
                let operand = Operand::Memory(elements, bytes);
                self.read(opcode, target, lanes, operand);
            }
        }
    }

    pub(super) fn read(
        &mut self,
        opcode: Opcode,
        target: Register,
        lanes: Lanes,
        operand: Operand,
    ) {
        let length = target.width;
        self.output
            .encoder
            .vector(opcode, length, (target, lanes), None, operand, None);
    }

    /// The elements of an input or output in a turn.
    fn elements(&mut self, array: usize, copy: u8, size: usize) -> Memory {
        let base = self.output.pointers[array].unwrap_or_else(|| {
            self.output.encoder.load(SPARE, pointer_at(array));
            SPARE
        });
        Memory {
            base,
            index: Some((INDEX, size as u8)),
            offset: (usize::from(copy) * self.plan.lanes * size) as i32,
        }
    }

    /// Whether an instruction can read the value from memory.
    fn is_in_memory(&self, value: Value) -> bool {
        let is_constant = matches!(self.description(value).origin, Origin::Constant(_));
        let has_home = is_constant || self.homes[value.index()].is_some();
        self.places[value.index()].is_none()
            && has_home
            && self.description(value).width != Width::Mask
    }

    /// A value as the last operand.
    fn operand(&mut self, value: Value, after: u32) -> Operand {
        if !self.is_in_memory(value) {
            return Operand::Register(self.register(value));
        }
        let Description {
            width,
            origin,
            element,
        } = self.description(value);
        if let Origin::Constant(offset) = origin {
            let memory = Memory::at(CONSTANTS, offset as i32);
            return match self.plan.machine {
                Level::Avx512 => {
                    let bytes = size(element);
                    Operand::Broadcast(memory, bytes, width.bytes() / bytes)
                }
                Level::Avx2 => Operand::Memory(memory, width.bytes()),
            };
        }
        // One that is needed again takes a register that nothing else needs.
        let is_own = origin == Origin::Computed;
        if is_own && after != NEVER && self.vectors.free != 0 {
            return Operand::Register(self.register(value));
        }
        let slot = self.homes[value.index()].expect("it is in memory");
        Operand::Memory(self.slot(slot), width.bytes())
    }

    pub(super) fn form(&mut self, instruction: &OnValues<Instruction>, after: [u32; 4]) {
        let Instruction {
            opcode,
            form,
            length,
            immediate,
        } = instruction.what;
        let mut sources: [Value; 3] = [Value::default(); 3];
        let count = instruction.sources().len();
        sources[..count].copy_from_slice(instruction.sources());
        let clip = |register: Register| match register.width {
            Width::Mask => register,
            width if width.bytes() > length.bytes() => Register::new(register.number, length),
            _ => register,
        };
        let clipped = |operand: Operand| match operand {
            Operand::Register(register) => Operand::Register(clip(register)),
            operand => operand,
        };
        match form {
            Form::Plain | Form::Commutative if count == 1 => {
                let last = clipped(self.operand(sources[0], after[0]));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                self.output.encoder.vector(
                    opcode,
                    length,
                    (target, Lanes::All),
                    None,
                    last,
                    immediate,
                );
            }
            Form::Plain | Form::Commutative => {
                let is_last_in_register = !self.is_in_memory(sources[1]);
                let (a, b) = match form == Form::Commutative
                    && is_last_in_register
                    && self.is_in_memory(sources[0])
                {
                    true => (1, 0),
                    false => (0, 1),
                };
                let second = clip(self.register(sources[a]));
                let last = clipped(self.operand(sources[b], after[b]));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                self.output.encoder.vector(
                    opcode,
                    length,
                    (target, Lanes::All),
                    Some(second),
                    last,
                    immediate,
                );
            }
            Form::Convert => {
                let last = Operand::Register(clip(self.register(sources[0])));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let first = (target, Lanes::All);
                self.output
                    .encoder
                    .vector(opcode, length, first, None, last, None);
            }
            Form::ConvertLower => {
                let source = self.register(sources[0]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let half = Width::of(length.bytes() / 2);
                let last = Operand::Register(Register::new(source.number, half));
                let first = (target, Lanes::All);
                self.output
                    .encoder
                    .vector(opcode, length, first, None, last, None);
            }
            Form::Within => {
                let others = self.register(sources[0]);
                let last = Operand::Register(self.register(sources[1]));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let first = (target, self.output.lanes);
                self.output
                    .encoder
                    .vector(opcode, length, first, Some(others), last, None);
            }
            Form::Masked => {
                let mask = self.register(sources[0]).number;
                let last = Operand::Register(self.register(sources[1]));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let lanes = Lanes::Only(mask);
                self.output
                    .encoder
                    .vector(opcode, length, (target, lanes), None, last, immediate);
            }
            Form::Shift(digit) => {
                let source = match self.plan.machine {
                    Level::Avx512 => self.operand(sources[0], after[0]),
                    Level::Avx2 => Operand::Register(self.register(sources[0])),
                };
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let bits = immediate.expect("a shift has a number of bits");
                self.output
                    .encoder
                    .shift((opcode, digit), target, source, bits);
            }
            Form::Fused => self.fused(instruction, sources, after),
            Form::Choice => {
                let mask = self.register(sources[0]).number;
                let otherwise = self.register(sources[2]);
                let chosen = self.operand(sources[1], after[1]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let first = (target, Lanes::Of(mask));
                self.output
                    .encoder
                    .vector(opcode, length, first, Some(otherwise), chosen, None);
            }
            Form::ChoiceBySign => {
                let truth = self.register(sources[0]);
                let otherwise = self.register(sources[2]);
                let chosen = self.operand(sources[1], after[1]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                self.output
                    .encoder
                    .blend_by_sign(opcode, target, otherwise, chosen, truth);
            }
            Form::Overwriting => {
                let second = self.register(sources[1]);
                let last = self.operand(sources[2], after[2]);
                let target = self.overwritten(instruction, sources[0], &sources[1..], after);
                self.end(&sources[..count], after);
                self.output.encoder.vector(
                    opcode,
                    length,
                    (target, Lanes::All),
                    Some(second),
                    last,
                    immediate,
                );
            }
            Form::Extract => {
                let source = self.register(sources[0]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let half = immediate.expect("an extract has a number");
                self.output.encoder.extract(opcode, target, source, half);
            }
            Form::Masks => {
                let mut registers = [0; 3];
                for (register, &source) in registers.iter_mut().zip(&sources[..count]) {
                    *register = self.register(source).number;
                }
                self.end(&sources[..count], after);
                let target = self.target(instruction, after).number;
                let [first, second, _] = registers;
                match count {
                    0 => self
                        .output
                        .encoder
                        .masks(opcode, target, Some(target), target),
                    1 => self.output.encoder.masks(opcode, target, None, first),
                    _ => self
                        .output
                        .encoder
                        .masks(opcode, target, Some(first), second),
                }
            }
            Form::Call(offset) => {
                let mut arguments: SmallVec<[Register; 2]> = SmallVec::new();
                for &source in &sources[..count] {
                    arguments.push(self.register(source));
                }
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let result = self.result(offset, &arguments, Some(target));
                self.read(x86::LOAD[0], target, Lanes::All, result);
            }
            Form::GuardedCall(offset) => {
                let argument = self.register(sources[0]);
                let truth = self.register(sources[1]);
                let target = self.overwritten(instruction, sources[2], &sources[..2], after);
                match self.plan.machine {
                    Level::Avx512 => self.output.encoder.test_mask(truth.number),
                    Level::Avx2 => {
                        let is_double = opcode == x86::BLEND_BY_SIGN[1];
                        self.output.encoder.test_signs(SPARE, truth, is_double);
                    }
                }
                let nowhere = self.output.encoder.jump_forward(Condition::Zero);
                let result = self.result(offset, &[argument], None);
                match self.plan.machine {
                    Level::Avx512 => {
                        let first = (target, Lanes::Of(truth.number));
                        self.output.encoder.vector(
                            opcode,
                            length,
                            first,
                            Some(target),
                            result,
                            None,
                        );
                    }
                    Level::Avx2 => self
                        .output
                        .encoder
                        .blend_by_sign(opcode, target, target, result, truth),
                }
                self.output.encoder.land(nowhere);
                self.end(&sources[..count], after);
            }
            Form::Store(result, copy) => {
                let from = clip(self.register(sources[0]));
                self.end(&sources[..count], after);
                let size = self.plan.outputs[usize::from(result)].dtype().size();
                let array = self.plan.inputs.len() + usize::from(result);
                let elements = self.elements(array, copy, size);
                let is_whole = self.plan.streams && self.is_turned;
                let opcode = match (opcode, self.output.lanes) {
                    // With a mask there is no more than it says.
                    (x86::STORE_FOUR | x86::STORE_EIGHT, Lanes::Of(_)) => x86::STORE_BYTES,
                    (store, _) if is_whole && store == x86::STORE[0] => x86::STREAM[0],
                    (store, _) if is_whole && store == x86::STORE[1] => x86::STREAM[1],
                    _ => opcode,
                };
                let to = (elements, memory::stored(opcode, from.width));
                self.output
                    .encoder
                    .store(opcode, to, self.output.lanes, from, immediate);
            }
            Form::StoreOne(result) => {
                let from = Register::new(self.register(sources[0]).number, Width::V16);
                self.end(&sources[..count], after);
                let array = self.plan.inputs.len() + usize::from(result);
                self.output.encoder.load(SPARE, pointer_at(array));
                let to = (Memory::at(SPARE, 0), 4);
                self.output
                    .encoder
                    .store(x86::STORE_FOUR, to, Lanes::All, from, None);
            }
            Form::KeepPart(place) => {
                let part = self.register(sources[0]);
                self.keep_part(part, place);
                self.end(&sources[..count], after);
            }
            Form::Keep(slot) => {
                let register = self.register(sources[0]).number;
                self.save(sources[0], register, slot);
                self.end(&sources[..count], after);
            }
        }
    }

    /// Calls a function with a slot of the mask of lanes, and returns the place of the result.
    fn result(&mut self, offset: u32, arguments: &[Register], target: Option<Register>) -> Operand {
        let mask = match self.output.lanes {
            Lanes::Of(mask) => Some(Register::new(mask, Width::Mask)),
            Lanes::All | Lanes::Only(_) => None,
        };
        let slot = self.call(offset, arguments, target, mask);
        Operand::Memory(self.slot(slot), arguments[0].width.bytes())
    }

    /// The call itself, which leaves general registers as they were.
    pub(super) fn call_entry(&mut self, offset: u32, slots: u32) {
        self.output.encoder.forget_upper_halves();
        // The stack is aligned to 16 bytes, of which the way back has taken 8.
        let is_even = (self.output.pushed + CHANGED.len()).is_multiple_of(2);
        let pushed: SmallVec<[General; 9]> = CHANGED
            .into_iter()
            .chain(is_even.then_some(SPARE))
            .collect();
        pushed
            .iter()
            .for_each(|&general| self.output.encoder.push(general));
        let offset = offset as i32;
        self.output
            .encoder
            .load(SPARE, Memory::at(CONSTANTS, offset));
        self.output
            .encoder
            .load(POINTERS, Memory::at(CONSTANTS, offset + 8));
        self.output.encoder.address(COUNT, self.slot(slots));
        self.output.encoder.call(SPARE);
        let popped = pushed.iter().rev();
        popped.for_each(|&general| self.output.encoder.pop(general));
    }

    /// `a b + c`, of which one may lie in memory and one is overwritten.
    fn fused(&mut self, instruction: &OnValues<Instruction>, sources: [Value; 3], after: [u32; 4]) {
        let in_memory = sources.map(|source| self.is_in_memory(source));
        // The one that stays in memory, and the one to be overwritten: one that ends here, or one
        // that has to be loaded anyway.
        let kept = [2, 0, 1].into_iter().find(|&i| in_memory[i]);
        let ends = |i: usize| {
            let others = (0..3).filter(|&j| j != i);
            after[i] == NEVER && others.clone().all(|j| sources[j] != sources[i])
        };
        let is_own = |writer: &Self, i: usize| {
            let value = sources[i];
            let register = writer.places[value.index()];
            register.is_none_or(|r| writer.vectors.holds[usize::from(r)] == Some(value))
        };
        let overwritten = [2, 0, 1]
            .into_iter()
            .filter(|&i| Some(i) != kept)
            .find(|&i| ends(i) && is_own(self, i));
        let (kept, overwritten) = match (kept, overwritten) {
            (kept, Some(overwritten)) => (kept, overwritten),
            // Loading it is the copy.
            (Some(loaded), None) => (None, loaded),
            (None, None) => (None, 2),
        };
        // The last operand: the one in memory, or any other.
        let last = kept.unwrap_or(if overwritten == 2 { 1 } else { 2 });
        let second = 3 - last - overwritten;
        let second_register = self.register(sources[second]);
        let last_operand = match kept {
            Some(_) => self.operand(sources[last], after[last]),
            None => Operand::Register(self.register(sources[last])),
        };
        let others = [sources[second], sources[last]];
        let target = self.overwritten(instruction, sources[overwritten], &others, after);
        self.end(&sources, after);
        // The numbers in the names are those of the factors and the term.
        let signs = instruction.what.immediate.unwrap_or(0);
        let order = match (overwritten, last) {
            (2, _) => 0x20,
            (_, 2) => 0x10,
            _ => 0x00,
        };
        let wide = usize::from(instruction.what.opcode == x86::MULTIPLY_ADD[1]);
        let name = FUSED[usize::from(signs)][order / 16][wide];
        let distance = order as u8 + 2 * signs;
        let opcode = instruction.what.opcode.fused(name, distance);
        let first = (target, Lanes::All);
        let length = instruction.what.length;
        self.output.encoder.vector(
            opcode,
            length,
            first,
            Some(second_register),
            last_operand,
            None,
        );
    }
}

/// The names of fused instructions, by signs, order and precision.
const FUSED: [[[&str; 2]; 3]; 4] = [
    [
        ["vfmadd132ps", "vfmadd132pd"],
        ["vfmadd213ps", "vfmadd213pd"],
        ["vfmadd231ps", "vfmadd231pd"],
    ],
    [
        ["vfmsub132ps", "vfmsub132pd"],
        ["vfmsub213ps", "vfmsub213pd"],
        ["vfmsub231ps", "vfmsub231pd"],
    ],
    [
        ["vfnmadd132ps", "vfnmadd132pd"],
        ["vfnmadd213ps", "vfnmadd213pd"],
        ["vfnmadd231ps", "vfnmadd231pd"],
    ],
    [
        ["vfnmsub132ps", "vfnmsub132pd"],
        ["vfnmsub213ps", "vfnmsub213pd"],
        ["vfnmsub231ps", "vfnmsub231pd"],
    ],
];

/// The place of the pointer to the elements of an input or output.
fn pointer_at(array: usize) -> Memory {
    Memory::at(POINTERS, array as i32 * 8)
}
