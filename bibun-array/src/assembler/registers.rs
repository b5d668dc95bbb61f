//! Values in registers: one walk over the instructions, which writes them as it goes.
//!
//! A value that is needed and has no register gets one; if none is left, the value that is needed
//! last gives up its own, and goes to a slot of memory if it is in no memory yet. Code is straight,
//! so that this is nearly the best there is (Belady 1966), and takes a time that is linear in the
//! number of instructions.

use std::sync::Arc;

use super::Level;
use super::functions::Function;
use super::instructions::{Description, Form, Instruction, Origin, Plan, Segment, Value, size};
use super::memory;
use super::x86::{
    self, Condition, Encoder, General, Lanes, Memory, Note, Opcode, Operand, Register, Width,
};
use smallvec::SmallVec;

use crate::DType;

/// The code of a formula, and what a call of it needs.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) code: Vec<u8>,
    pub(super) constants: Vec<u8>,
    /// The functions whose addresses are among the constants.
    #[expect(dead_code, reason = "they live as long as the code")]
    functions: Vec<Arc<Function>>,
    /// The number of slots of scratch memory.
    pub(super) slots: usize,
    /// The least number of elements.
    pub(super) least: usize,
    /// The dtypes of the inputs that are read, and whether one element is repeated.
    pub(super) inputs: Vec<Option<(DType, bool)>>,
    pub(super) outputs: Vec<DType>,
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

/// The slots that a call needs: two arguments, the result, and all registers.
const CALL_SLOTS: u32 = 3 + 32 + 8;

/// The mask of the lanes of a turn that is not whole.
const TAIL: u8 = 1;

/// One of this number of instructions of a turn may save a value.
const FEW: usize = 16;

/// Never.
const NEVER: u32 = u32::MAX;

/// Writes the code of a plan, and the text of the instructions if it is wanted.
pub(super) fn assemble(plan: &Plan, is_listed: bool) -> (Assembled, Vec<Note>) {
    // The turns of the most vectors of which few have to leave their registers, with what is read
    // most often in the registers that are left over.
    let turns = plan.turns.iter().find_map(|turns| {
        let mut writer = Writer::new(plan, Vec::new(), false);
        let used = writer.segment(turns);
        let fits = writer.saved * FEW <= turns.instructions.len();
        fits.then_some((turns, usize::from(plan.level.registers().0) - used))
    });
    let held = turns.map_or(Vec::new(), |(turns, left)| {
        let mut held = plan.read_often(turns);
        held.truncate(left);
        held
    });
    let mut writer = Writer::new(plan, held, is_listed);
    writer.function(turns.map(|(turns, _)| turns));
    let Encoder { bytes, notes, .. } = writer.encoder;
    let assembled = Assembled {
        code: bytes,
        constants: plan.constants.clone(),
        functions: plan.functions.clone(),
        slots: writer.slots as usize,
        least: match plan.level {
            Level::Avx512 => 1,
            Level::Avx2 => plan.lanes,
        },
        inputs: plan.inputs.clone(),
        outputs: plan.outputs.clone(),
    };
    (assembled, notes.unwrap_or_default())
}

/// The registers of one kind.
struct Bank {
    holds: [Option<Value>; 32],
    /// Bits of the registers that hold nothing.
    free: u32,
    /// Bits of the registers of the operands of the instruction that is being written.
    locked: u32,
    /// Bits of the registers that have held something.
    used: u32,
}

impl Bank {
    fn new(count: u8, first: u8) -> Self {
        let all = u32::MAX >> (32 - u32::from(count));
        Self {
            holds: [None; 32],
            free: all & u32::MAX << first,
            locked: 0,
            used: 0,
        }
    }
}

struct Writer<'a> {
    plan: &'a Plan,
    /// Values in memory that have registers, the first ones, during all turns of several vectors.
    held: Vec<Value>,
    encoder: Encoder,
    /// The registers of values.
    places: Vec<Option<u8>>,
    /// The slots of values.
    homes: Vec<Option<u32>>,
    /// The instructions that need the values next.
    next: Vec<u32>,
    vectors: Bank,
    masks: Bank,
    /// The number of values that have been stored in slots for want of registers.
    saved: usize,
    /// The number of slots.
    slots: u32,
    free_slots: Vec<u32>,
    /// The slots that are free after the instruction that is being written, which may read them.
    ended_slots: Vec<u32>,
    /// The registers of the pointers to the elements of inputs, then of outputs.
    pointers: Vec<Option<General>>,
    /// Whether turns of several vectors are being written.
    is_turned: bool,
    /// The number of registers that lie on the stack.
    pushed: usize,
    /// The first of the slots of calls.
    call_slots: Option<u32>,
    /// The lanes that are read from inputs and written to outputs.
    lanes: Lanes,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a Plan, held: Vec<Value>, is_listed: bool) -> Self {
        let homes = plan.values.iter().map(|value| match value.origin {
            Origin::Kept(slot) => Some(slot),
            _ => None,
        });
        let arrays = plan.inputs.len() + plan.outputs.len();
        Self {
            plan,
            held,
            encoder: Encoder {
                is_evex: plan.level == Level::Avx512,
                notes: is_listed.then(Vec::new),
                ..Encoder::default()
            },
            places: vec![None; plan.values.len()],
            homes: homes.collect(),
            next: vec![NEVER; plan.values.len()],
            vectors: Bank::new(plan.level.registers().0, 0),
            masks: Bank::new(8, 1),
            saved: 0,
            slots: plan.kept,
            free_slots: Vec::new(),
            ended_slots: Vec::new(),
            pointers: vec![None; arrays],
            is_turned: false,
            pushed: 0,
            call_slots: None,
            lanes: Lanes::All,
        }
    }

    fn function(&mut self, turns: Option<&Segment>) {
        let plan = self.plan;
        let lanes = plan.lanes as i32;
        let in_turns = plan
            .inputs
            .iter()
            .map(|input| matches!(input, Some((_, false))));
        let in_turns = in_turns.chain(plan.outputs.iter().map(|_| true));
        let mut free = ELEMENTS.into_iter();
        self.pointers = in_turns
            .map(|is_read| if is_read { free.next() } else { None })
            .collect();
        let saved = (ELEMENTS.len() - free.len()).saturating_sub(UNSAVED);
        let saved = &ELEMENTS[UNSAVED..UNSAVED + saved];
        saved.iter().for_each(|&general| self.encoder.push(general));
        self.pushed = saved.len();
        for (i, pointer) in self.pointers.clone().into_iter().enumerate() {
            if let Some(register) = pointer {
                self.encoder.load(register, pointer_at(i));
            }
        }
        self.segment(&plan.preamble);
        self.encoder.zero(INDEX);
        if let Some(turns) = turns {
            let step = lanes * turns.copies as i32;
            let limit = Memory::at(COUNT, -step);
            self.encoder.address(LIMIT, limit);
            self.encoder.compare(INDEX, LIMIT);
            let too_few = self.encoder.jump_forward(Condition::Greater);
            self.hold();
            let start = self.encoder.align();
            self.segment(turns);
            self.let_go();
            self.encoder.line = None;
            self.encoder.add_number(INDEX, step);
            self.encoder.compare(INDEX, LIMIT);
            self.encoder.jump_back(Condition::AtMost, start);
            self.encoder.land(too_few);
        }
        self.encoder.compare(INDEX, COUNT);
        let none_left = self.encoder.jump_forward(Condition::AtLeast);
        let start = self.encoder.align();
        match plan.level {
            Level::Avx512 => {
                self.encoder.copy(LIMIT, COUNT);
                self.encoder.subtract(LIMIT, INDEX);
                self.encoder.set(SPARE, lanes);
                self.encoder.compare(LIMIT, SPARE);
                self.encoder.copy_if_greater(LIMIT, SPARE);
                self.encoder.set(SPARE, -1);
                self.encoder.low_bits(SPARE, LIMIT);
                self.encoder.mask_of_general(TAIL, SPARE);
                self.lanes = Lanes::Of(TAIL);
            }
            Level::Avx2 => {
                // The last turn may compute some elements again.
                self.encoder.address(LIMIT, Memory::at(COUNT, -lanes));
                self.encoder.compare(INDEX, LIMIT);
                self.encoder.copy_if_greater(INDEX, LIMIT);
            }
        }
        self.segment(&plan.rest);
        self.encoder.line = None;
        self.encoder.add_number(INDEX, lanes);
        self.encoder.compare(INDEX, COUNT);
        self.encoder.jump_back(Condition::Less, start);
        self.encoder.land(none_left);
        saved
            .iter()
            .rev()
            .for_each(|&general| self.encoder.pop(general));
        self.encoder.finish();
    }

    /// Loads what has a register during all turns.
    fn hold(&mut self) {
        self.encoder.line = None;
        for (register, value) in (0..).zip(self.held.clone()) {
            self.load(value, register);
            self.places[value.index()] = Some(register);
        }
    }

    fn let_go(&mut self) {
        for value in std::mem::take(&mut self.held) {
            self.places[value.index()] = None;
        }
    }

    /// Writes the instructions of a part, and returns the number of vector registers that it takes.
    fn segment(&mut self, segment: &Segment) -> usize {
        self.is_turned = segment.copies > 1;
        let held = if self.is_turned {
            self.held.len() as u8
        } else {
            0
        };
        let first_mask = if self.lanes == Lanes::All {
            1
        } else {
            TAIL + 1
        };
        self.vectors = Bank::new(self.plan.level.registers().0, held);
        self.masks = Bank::new(8, first_mask);
        let after = self.next_uses(segment);
        for (instruction, after) in segment.instructions.iter().zip(after) {
            self.encoder.line = Some(instruction.line);
            self.instruction(instruction, after);
            self.vectors.locked = 0;
            self.masks.locked = 0;
            self.free_slots.append(&mut self.ended_slots);
        }
        // Constants may be left in registers.
        for register in 0..32 {
            for bank in [&mut self.vectors, &mut self.masks] {
                if let Some(value) = bank.holds[register].take() {
                    self.places[value.index()] = None;
                }
            }
        }
        self.vectors.used.count_ones() as usize
    }

    /// The next uses of the sources and of the target after each instruction.
    fn next_uses(&mut self, segment: &Segment) -> Vec<[u32; 4]> {
        let mut after = vec![[NEVER; 4]; segment.instructions.len()];
        for (i, instruction) in segment.instructions.iter().enumerate().rev() {
            if let Some(target) = instruction.target {
                after[i][3] = self.next[target.index()];
            }
            for (next, source) in after[i].iter_mut().zip(instruction.sources()) {
                *next = self.next[source.index()];
            }
            for source in instruction.sources() {
                self.next[source.index()] = i as u32;
            }
        }
        after
    }

    fn description(&self, value: Value) -> Description {
        self.plan.values[value.index()]
    }

    fn bank(&mut self, width: Width) -> &mut Bank {
        match width {
            Width::Mask => &mut self.masks,
            Width::Xmm | Width::Ymm | Width::Zmm => &mut self.vectors,
        }
    }

    /// A register that holds nothing, after a value has gone if none does.
    fn free_register(&mut self, width: Width) -> u8 {
        let bank = self.bank(width);
        if bank.free == 0 {
            self.give_up(width);
        }
        let bank = self.bank(width);
        let register = bank.free.trailing_zeros() as u8;
        bank.free &= !(1 << register);
        bank.locked |= 1 << register;
        bank.used |= 1 << register;
        register
    }

    /// Frees the register of the value that is needed last.
    fn give_up(&mut self, width: Width) {
        let Self {
            vectors,
            masks,
            next,
            ..
        } = self;
        let bank = if width == Width::Mask { masks } else { vectors };
        let held = (0..).zip(bank.holds);
        let open = held.filter(|(register, _)| bank.locked & 1 << register == 0);
        let values = open.filter_map(|(register, value)| Some((register, value?)));
        let (register, value): (u8, Value) = values
            .max_by_key(|(_, value)| next[value.index()])
            .expect("no instruction needs all registers");
        let is_in_memory = self.description(value).origin != Origin::Computed
            || self.homes[value.index()].is_some();
        if !is_in_memory {
            let slot = self.free_slots.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            });
            self.homes[value.index()] = Some(slot);
            self.saved += 1;
            self.save(value, register, slot);
        }
        self.release(value);
    }

    /// Frees the register of a value.
    fn release(&mut self, value: Value) {
        let width = self.description(value).width;
        if let Some(register) = self.places[value.index()] {
            let bank = self.bank(width);
            // Those that are held during all turns are in no bank.
            if bank.holds[usize::from(register)] == Some(value) {
                bank.holds[usize::from(register)] = None;
                bank.free |= 1 << register;
                self.places[value.index()] = None;
            }
        }
    }

    fn take(&mut self, value: Value, register: u8) {
        let width = self.description(value).width;
        let bank = self.bank(width);
        bank.holds[usize::from(register)] = Some(value);
        bank.free &= !(1 << register);
        bank.locked |= 1 << register;
        self.places[value.index()] = Some(register);
    }

    fn slot(&self, slot: u32) -> Memory {
        Memory::at(SLOTS, slot as i32 * 64)
    }

    /// Stores a value in a slot.
    fn save(&mut self, value: Value, register: u8, slot: u32) {
        let width = self.description(value).width;
        self.save_register(Register::new(register, width), slot);
    }

    fn save_register(&mut self, register: Register, slot: u32) {
        let memory = self.slot(slot);
        match register.width {
            Width::Mask => self.encoder.store_mask(memory, register.number),
            width => {
                let (store, to) = (x86::STORE[0], (memory, width.bytes()));
                self.encoder.store(store, to, Lanes::All, register, None);
            }
        }
    }

    fn load_register(&mut self, register: Register, slot: u32) {
        let memory = self.slot(slot);
        match register.width {
            Width::Mask => self.encoder.load_mask(register.number, memory),
            width => {
                let operand = Operand::Memory(memory, width.bytes());
                self.read(x86::LOAD[0], register, Lanes::All, operand);
            }
        }
    }

    /// Loads a value from memory.
    fn load(&mut self, value: Value, register: u8) {
        let Description {
            width,
            origin,
            element,
        } = self.description(value);
        let target = Register::new(register, width);
        if let Some(slot) = self.homes[value.index()] {
            return self.load_register(target, slot);
        }
        let wide = usize::from(size(element) == 8);
        match origin {
            Origin::Computed | Origin::Kept(_) => unreachable!("it has a slot"),
            Origin::Constant(offset) => {
                let memory = Memory::at(CONSTANTS, offset as i32);
                match self.plan.level {
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
                self.encoder.load(SPARE, pointer_at(usize::from(input)));
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
                let (opcode, part) = memory::load(dtype, self.plan.level);
                let (opcode, lanes) = match self.lanes {
                    Lanes::Of(mask) => (opcode, Lanes::Only(mask)),
                    // Not more bytes than there are.
                    _ if opcode == x86::LOAD_BYTES && self.plan.lanes == 8 => {
                        let operand = Operand::Memory(elements, 8);
                        return self.read(x86::LOAD_EIGHT, target, Lanes::All, operand);
                    }
                    lanes => (opcode, lanes),
                };
                let operand = Operand::Memory(elements, width.bytes() / part);
                self.read(opcode, target, lanes, operand);
            }
        }
    }

    fn read(&mut self, opcode: Opcode, target: Register, lanes: Lanes, operand: Operand) {
        let length = target.width;
        self.encoder
            .vector(opcode, length, (target, lanes), None, operand, None);
    }

    /// The elements of an input or output in a turn.
    fn elements(&mut self, array: usize, copy: u8, size: usize) -> Memory {
        let base = self.pointers[array].unwrap_or_else(|| {
            self.encoder.load(SPARE, pointer_at(array));
            SPARE
        });
        Memory {
            base,
            index: Some((INDEX, size as u8)),
            offset: (usize::from(copy) * self.plan.lanes * size) as i32,
        }
    }

    /// The register of a value, which is loaded if it has none.
    fn register(&mut self, value: Value) -> Register {
        let width = self.description(value).width;
        let register = match self.places[value.index()] {
            Some(register) => {
                self.bank(width).locked |= 1 << register;
                register
            }
            None => {
                let register = self.free_register(width);
                self.load(value, register);
                self.take(value, register);
                register
            }
        };
        Register::new(register, width)
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
            return match self.plan.level {
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

    fn instruction(&mut self, instruction: &Instruction, after: [u32; 4]) {
        let Instruction {
            opcode,
            form,
            length,
            immediate,
            ..
        } = *instruction;
        let mut sources: [Value; 3] = [Value::default(); 3];
        let count = instruction.sources().len();
        sources[..count].copy_from_slice(instruction.sources());
        // Operands that have registers are not to lose them.
        for &source in &sources[..count] {
            if let Some(register) = self.places[source.index()] {
                let width = self.description(source).width;
                self.bank(width).locked |= 1 << register;
            }
        }
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
                self.encoder
                    .vector(opcode, length, (target, Lanes::All), None, last, immediate);
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
                self.encoder.vector(
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
                self.encoder.vector(opcode, length, first, None, last, None);
            }
            Form::Masked => {
                let mask = self.register(sources[0]).number;
                let last = Operand::Register(self.register(sources[1]));
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let lanes = Lanes::Only(mask);
                self.encoder
                    .vector(opcode, length, (target, lanes), None, last, immediate);
            }
            Form::Shift(digit) => {
                let source = match self.plan.level {
                    Level::Avx512 => self.operand(sources[0], after[0]),
                    Level::Avx2 => Operand::Register(self.register(sources[0])),
                };
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let bits = immediate.expect("a shift has a number of bits");
                self.encoder.shift((opcode, digit), target, source, bits);
            }
            Form::Fused => self.fused(instruction, sources, after),
            Form::Choice => {
                let mask = self.register(sources[0]).number;
                let otherwise = self.register(sources[2]);
                let chosen = self.operand(sources[1], after[1]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let first = (target, Lanes::Of(mask));
                self.encoder
                    .vector(opcode, length, first, Some(otherwise), chosen, None);
            }
            Form::ChoiceBySign => {
                let truth = self.register(sources[0]);
                let otherwise = self.register(sources[2]);
                let chosen = self.operand(sources[1], after[1]);
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                self.encoder
                    .blend_by_sign(opcode, target, otherwise, chosen, truth);
            }
            Form::Overwriting => {
                let second = self.register(sources[1]);
                let last = self.operand(sources[2], after[2]);
                let target = self.overwritten(instruction, sources[0], &sources[1..], after);
                self.end(&sources[..count], after);
                self.encoder.vector(
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
                self.encoder.extract(opcode, target, source, half);
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
                    0 => self.encoder.masks(opcode, target, Some(target), target),
                    1 => self.encoder.masks(opcode, target, None, first),
                    _ => self.encoder.masks(opcode, target, Some(first), second),
                }
            }
            Form::Call(offset) => {
                let mut arguments: SmallVec<[Register; 2]> = SmallVec::new();
                for &source in &sources[..count] {
                    arguments.push(self.register(source));
                }
                self.end(&sources[..count], after);
                let target = self.target(instruction, after);
                let result = self.call(offset, &arguments, Some(target));
                self.read(x86::LOAD[0], target, Lanes::All, result);
            }
            Form::GuardedCall(offset) => {
                let argument = self.register(sources[0]);
                let truth = self.register(sources[1]);
                let target = self.overwritten(instruction, sources[2], &sources[..2], after);
                match self.plan.level {
                    Level::Avx512 => self.encoder.test_mask(truth.number),
                    Level::Avx2 => {
                        let is_double = opcode == x86::BLEND_BY_SIGN[1];
                        self.encoder.test_signs(SPARE, truth, is_double);
                    }
                }
                let nowhere = self.encoder.jump_forward(Condition::Zero);
                let result = self.call(offset, &[argument], None);
                match self.plan.level {
                    Level::Avx512 => {
                        let first = (target, Lanes::Of(truth.number));
                        self.encoder
                            .vector(opcode, length, first, Some(target), result, None);
                    }
                    Level::Avx2 => self
                        .encoder
                        .blend_by_sign(opcode, target, target, result, truth),
                }
                self.encoder.land(nowhere);
                self.end(&sources[..count], after);
            }
            Form::Store(result, copy) => {
                let from = clip(self.register(sources[0]));
                self.end(&sources[..count], after);
                let size = self.plan.outputs[usize::from(result)].size();
                let array = self.plan.inputs.len() + usize::from(result);
                let elements = self.elements(array, copy, size);
                let opcode = match (opcode, self.lanes) {
                    // With a mask there is no more than it says.
                    (x86::STORE_EIGHT, Lanes::Of(_)) => x86::STORE_BYTES,
                    _ => opcode,
                };
                let to = (elements, memory::stored(opcode, from.width));
                self.encoder.store(opcode, to, self.lanes, from, immediate);
            }
            Form::Keep(slot) => {
                let register = self.register(sources[0]).number;
                self.save(sources[0], register, slot);
                self.end(&sources[..count], after);
            }
        }
    }

    /// Calls a function, after which all registers are as before except that of the target, and
    /// returns the place of the result.
    fn call(&mut self, offset: u32, arguments: &[Register], target: Option<Register>) -> Operand {
        let slots = *self.call_slots.get_or_insert_with(|| {
            self.slots += CALL_SLOTS;
            self.slots - CALL_SLOTS
        });
        for (slot, &argument) in (slots..).zip(arguments) {
            self.save_register(argument, slot);
        }
        let mut live: Vec<Register> = Vec::new();
        let held = self
            .held
            .iter()
            .map(|&value| Some(value))
            .filter(|_| self.is_turned);
        let numbered = |(number, value): (u8, Option<Value>)| Some((number, value?));
        let values = ((0..).zip(held))
            .chain((0..).zip(self.vectors.holds))
            .chain((0..).zip(self.masks.holds));
        for (number, value) in values.filter_map(numbered) {
            live.push(Register::new(number, self.description(value).width));
        }
        if let Lanes::Of(mask) = self.lanes {
            live.push(Register::new(mask, Width::Mask));
        }
        live.retain(|&register| Some(register) != target);
        for (slot, &register) in (slots + 3..).zip(&live) {
            self.save_register(register, slot);
        }
        self.encoder.forget_upper_halves();
        // The stack is aligned to 16 bytes, of which the way back has taken 8.
        let is_even = (self.pushed + CHANGED.len()).is_multiple_of(2);
        let pushed: SmallVec<[General; 9]> = CHANGED
            .into_iter()
            .chain(is_even.then_some(SPARE))
            .collect();
        pushed
            .iter()
            .for_each(|&general| self.encoder.push(general));
        let offset = offset as i32;
        self.encoder.load(SPARE, Memory::at(CONSTANTS, offset));
        self.encoder
            .load(POINTERS, Memory::at(CONSTANTS, offset + 8));
        self.encoder.address(COUNT, self.slot(slots));
        self.encoder.call(SPARE);
        let popped = pushed.iter().rev();
        popped.for_each(|&general| self.encoder.pop(general));
        for (slot, register) in (slots + 3..).zip(live) {
            self.load_register(register, slot);
        }
        let bytes = arguments[0].width.bytes();
        Operand::Memory(self.slot(slots + 2), bytes)
    }

    /// Frees what the values have that this instruction was the last to need.
    fn end(&mut self, sources: &[Value], after: [u32; 4]) {
        for (&source, after) in sources.iter().zip(after) {
            self.next[source.index()] = after;
            if after == NEVER {
                self.release(source);
                let is_ours = self.description(source).origin == Origin::Computed;
                if let Some(slot) = self.homes[source.index()].filter(|_| is_ours) {
                    self.homes[source.index()] = None;
                    self.ended_slots.push(slot);
                }
            }
        }
    }

    /// A register for the target, which may be that of a source that has ended.
    fn target(&mut self, instruction: &Instruction, after: [u32; 4]) -> Register {
        let target = instruction.target.expect("the form has a target");
        let width = self.description(target).width;
        let register = self.free_register(width);
        self.take(target, register);
        self.next[target.index()] = after[3];
        Register::new(register, width)
    }

    /// A register for the target that holds a source, which has ended or is copied.
    fn overwritten(
        &mut self,
        instruction: &Instruction,
        source: Value,
        others: &[Value],
        after: [u32; 4],
    ) -> Register {
        let place = instruction
            .sources()
            .iter()
            .position(|&other| other == source);
        let is_ended = place.is_some_and(|place| after[place] == NEVER);
        let width = self.description(source).width;
        let is_free = self.places[source.index()]
            .is_some_and(|register| self.bank(width).holds[usize::from(register)] == Some(source));
        let target = instruction.target.expect("the form has a target");
        self.next[target.index()] = after[3];
        if is_ended && is_free && !others.contains(&source) {
            let register = self.register(source).number;
            self.release(source);
            self.take(target, register);
            return Register::new(register, width);
        }
        if self.places[source.index()].is_none() {
            // Loaded for this instruction alone.
            let register = self.free_register(width);
            self.load(source, register);
            self.take(target, register);
            return Register::new(register, width);
        }
        let from = self.register(source);
        let register = self.free_register(width);
        self.take(target, register);
        let to = Register::new(register, width);
        self.read(x86::MOVE, to, Lanes::All, Operand::Register(from));
        to
    }

    /// `a b + c`, of which one may lie in memory and one is overwritten.
    fn fused(&mut self, instruction: &Instruction, sources: [Value; 3], after: [u32; 4]) {
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
        let signs = instruction.immediate.unwrap_or(0);
        let order = match (overwritten, last) {
            (2, _) => 0x20,
            (_, 2) => 0x10,
            _ => 0x00,
        };
        let wide = usize::from(instruction.opcode == x86::MULTIPLY_ADD[1]);
        let name = FUSED[usize::from(signs)][order / 16][wide];
        let distance = order as u8 + 2 * signs;
        let opcode = instruction.opcode.fused(name, distance);
        let first = (target, Lanes::All);
        let length = instruction.length;
        self.encoder.vector(
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
