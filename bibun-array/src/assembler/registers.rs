//! Values in registers: one walk over the instructions, which writes them as it goes.
//!
//! A value that is needed and has no register gets one; if none is left, the value that is needed
//! last gives up its own, and goes to a slot of memory if it is in no memory yet. Code is straight,
//! so that this is nearly the best there is (Belady 1966), and takes a time that is linear in the
//! number of instructions.

use std::ops::Range;
use std::sync::Arc;

use super::folds::COLLECTED;
use super::functions::Function;
use super::instructions::{Description, Instruction, Origin, Place, Plan, Segment, Value};
use super::machine::{Loops, Machine, Note, Register, Width};
use crate::DType;
use crate::formula::Target;

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
    /// What becomes of the results.
    pub(super) outputs: Vec<Target>,
    /// See [`Plan::homes`].
    pub(super) homes: Vec<Vec<bool>>,
    /// The number of elements in each row, if rows are folded.
    pub(super) rows_of: Option<usize>,
    /// Whether results are stored past the caches, in aligned vectors.
    pub(super) streams: bool,
}

/// The slots that a call needs: three arguments, the result, and all registers.
const CALL_SLOTS: u32 = 4 + 32 + 8;

/// One of this number of instructions of a turn may save a value.
const FEW: usize = 16;

/// Never.
pub(super) const NEVER: u32 = u32::MAX;

/// Writes the code of a plan, and the text of the instructions if it is wanted.
pub(super) fn assemble<M: Machine>(plan: &Plan<M>, is_listed: bool) -> (Assembled, Vec<Note>) {
    // The turns of the most vectors of which few have to leave their registers, with the parts of folds
    // and what is read most often in the registers that are left over.
    let turns = plan.turns.iter().find_map(|turns| {
        let mut writer = Writer::new(plan, Vec::new(), false);
        let mut used = writer.segment(turns);
        if let Some([collect, _]) = &plan.collect {
            used = used.max(writer.segment(collect));
        }
        let fits = writer.saved * FEW <= turns.instructions.len();
        fits.then_some((turns, usize::from(plan.machine.vectors()) - used))
    });
    let held = turns.map_or(Vec::new(), |(turns, left)| {
        let mut held = plan.parts(turns);
        held.extend(plan.read_often(turns));
        held.truncate(left);
        held
    });
    let mut writer = Writer::new(plan, held, is_listed);
    writer.function(turns.map(|(turns, _)| turns));
    let written = std::mem::take(writer.output.written());
    let assembled = Assembled {
        code: written.bytes,
        constants: plan.constants.clone(),
        functions: plan.functions.clone(),
        slots: writer.slots as usize,
        least: plan.machine.least(plan.lanes),
        inputs: plan.inputs.clone(),
        outputs: plan.outputs.clone(),
        homes: plan.homes(),
        rows_of: plan.rows_of,
        streams: plan.streams,
    };
    (assembled, written.notes.unwrap_or_default())
}

/// The registers of one kind.
pub(super) struct Bank {
    pub(super) holds: [Option<Value>; 32],
    /// Bits of the registers that hold nothing.
    pub(super) free: u32,
    /// Bits of the registers of the operands of the instruction that is being written.
    locked: u32,
    /// Bits of the registers that have held something.
    used: u32,
}

impl Bank {
    fn new(registers: Range<u8>) -> Self {
        Self {
            holds: [None; 32],
            free: registers.map(|register| 1 << register).sum(),
            locked: 0,
            used: 0,
        }
    }
}

pub(super) struct Writer<'a, M: Machine> {
    pub(super) plan: &'a Plan<M>,
    /// Values in memory that have registers, the first ones, during all turns of several vectors.
    held: Vec<Value>,
    pub(super) output: M::Output,
    /// The registers of values.
    pub(super) places: Vec<Option<u8>>,
    /// The slots of values.
    pub(super) homes: Vec<Option<u32>>,
    /// The instructions that need the values next.
    next: Vec<u32>,
    pub(super) vectors: Bank,
    masks: Bank,
    /// The number of values that have been stored in slots for want of registers.
    saved: usize,
    /// The number of slots.
    slots: u32,
    free_slots: Vec<u32>,
    /// The slots that are free after the instruction that is being written, which may read them.
    ended_slots: Vec<u32>,
    /// Whether turns of several vectors are being written.
    pub(super) is_turned: bool,
    /// The first of the slots of calls.
    call_slots: Option<u32>,
}

impl<'a, M: Machine> Writer<'a, M> {
    fn new(plan: &'a Plan<M>, held: Vec<Value>, is_listed: bool) -> Self {
        let homes = plan.values.iter().map(|value| match value.origin {
            Origin::Kept(slot) => Some(slot),
            _ => None,
        });
        Self {
            plan,
            held,
            output: M::output(plan, is_listed),
            places: vec![None; plan.values.len()],
            homes: homes.collect(),
            next: vec![NEVER; plan.values.len()],
            vectors: Bank::new(0..0),
            masks: Bank::new(0..0),
            saved: 0,
            slots: plan.kept,
            free_slots: Vec::new(),
            ended_slots: Vec::new(),
            is_turned: false,
            call_slots: None,
        }
    }

    fn function(&mut self, turns: Option<&Segment<M::Instruction>>) {
        let plan = self.plan;
        let lanes = plan.lanes as i32;
        M::enter(self);
        let row = self.output.align();
        M::start_row(self);
        self.segment(&plan.preamble);
        self.output.start();
        if let Some(turns) = turns {
            let elements = lanes * turns.copies as i32;
            let too_few = self.output.skip_turns(elements);
            self.hold();
            let start = self.output.align();
            self.collect(0);
            self.segment(turns);
            let held = self.let_go();
            self.line(None);
            self.output.end_turn(elements, start);
            self.keep_parts(&held);
            self.output.land(too_few);
        }
        let none_left = self.output.skip_rest();
        let start = self.output.align();
        self.collect(1);
        M::start_rest(self);
        self.segment(&plan.rest);
        self.line(None);
        self.output.end_rest(lanes, start);
        self.output.land(none_left);
        self.segment(&plan.end);
        self.line(None);
        M::end_row(self, row);
        if plan.streams {
            M::fence(self);
        }
        self.output.leave();
    }

    /// Collects the parts of sums where it is time to, as one of the ways of [`Plan::collect`].
    fn collect(&mut self, way: usize) {
        if let Some(collect) = &self.plan.collect {
            self.line(None);
            let not_yet = self.output.skip_unless_multiple(COLLECTED as u32);
            self.segment(&collect[way]);
            self.line(None);
            self.output.land(not_yet);
        }
    }

    fn line(&mut self, line: Option<u32>) {
        self.output.written().line = line;
    }

    /// Loads what has a register during all turns.
    fn hold(&mut self) {
        self.line(None);
        for (register, value) in (0..).zip(self.held.clone()) {
            self.load(value, register);
            self.places[value.index()] = Some(register);
        }
    }

    fn let_go(&mut self) -> Vec<Value> {
        let held = std::mem::take(&mut self.held);
        for value in &held {
            self.places[value.index()] = None;
        }
        held
    }

    /// Stores the parts of folds that had registers.
    fn keep_parts(&mut self, held: &[Value]) {
        for (number, value) in (0..).zip(held) {
            let Description { width, origin, .. } = self.description(*value);
            if let Origin::Part(place) = origin {
                M::keep(self, Register::new(number, width), place);
            }
        }
    }

    /// Leaves the parts of a fold where the next turn finds them.
    pub(super) fn keep_part(&mut self, part: Register, place: Place) {
        let is_same = |value: &Value| self.description(*value).origin == Origin::Part(place);
        match self
            .held
            .iter()
            .position(is_same)
            .filter(|_| self.is_turned)
        {
            Some(number) => M::copy(self, Register::new(number as u8, part.width), part),
            None => M::keep(self, part, place),
        }
    }

    /// Writes the instructions of a part, and returns the number of vector registers that it takes.
    fn segment(&mut self, segment: &Segment<M::Instruction>) -> usize {
        self.is_turned = segment.copies > 1;
        let held = if self.is_turned {
            self.held.len() as u8
        } else {
            0
        };
        self.vectors = Bank::new(held..self.plan.machine.vectors());
        self.masks = Bank::new(self.output.masks());
        let after = self.next_uses(segment);
        for (instruction, after) in segment.instructions.iter().zip(after) {
            self.line(Some(instruction.line));
            self.lock(instruction.sources());
            M::write(self, instruction, after);
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
    fn next_uses(&mut self, segment: &Segment<M::Instruction>) -> Vec<[u32; 4]> {
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

    pub(super) fn description(&self, value: Value) -> Description {
        self.plan.values[value.index()]
    }

    pub(super) fn bank(&mut self, width: Width) -> &mut Bank {
        match width {
            Width::Mask => &mut self.masks,
            Width::V8 | Width::V16 | Width::V32 | Width::V64 => &mut self.vectors,
        }
    }

    /// A register that holds nothing, after a value has gone if none does.
    pub(super) fn free_register(&mut self, width: Width) -> u8 {
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
    pub(super) fn release(&mut self, value: Value) {
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

    pub(super) fn take(&mut self, value: Value, register: u8) {
        let width = self.description(value).width;
        let bank = self.bank(width);
        bank.holds[usize::from(register)] = Some(value);
        bank.free &= !(1 << register);
        bank.locked |= 1 << register;
        self.places[value.index()] = Some(register);
    }

    /// Stores a value in a slot.
    pub(super) fn save(&mut self, value: Value, register: u8, slot: u32) {
        let width = self.description(value).width;
        M::save(self, Register::new(register, width), slot);
    }

    /// Loads a value from memory.
    pub(super) fn load(&mut self, value: Value, register: u8) {
        let width = self.description(value).width;
        match self.homes[value.index()] {
            Some(slot) => M::restore(self, Register::new(register, width), slot),
            None => M::load(self, value, register),
        }
    }

    /// The register of a value, which is loaded if it has none.
    pub(super) fn register(&mut self, value: Value) -> Register {
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

    /// Locks the registers of operands, which are not to lose them.
    pub(super) fn lock(&mut self, sources: &[Value]) {
        for &source in sources {
            if let Some(register) = self.places[source.index()] {
                let width = self.description(source).width;
                self.bank(width).locked |= 1 << register;
            }
        }
    }

    /// Calls a function, after which all registers are as before except that of the target, and
    /// returns the slot of the result.
    pub(super) fn call(
        &mut self,
        offset: u32,
        arguments: &[Register],
        target: Option<Register>,
        others: Option<Register>,
    ) -> u32 {
        let slots = *self.call_slots.get_or_insert_with(|| {
            self.slots += CALL_SLOTS;
            self.slots - CALL_SLOTS
        });
        for (slot, &argument) in (slots..).zip(arguments) {
            M::save(self, argument, slot);
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
        live.extend(others);
        live.retain(|&register| Some(register) != target);
        for (slot, &register) in (slots + 4..).zip(&live) {
            M::save(self, register, slot);
        }
        M::call(self, offset, slots);
        for (slot, register) in (slots + 4..).zip(live) {
            M::restore(self, register, slot);
        }
        slots + 3
    }

    /// Frees what the values have that this instruction was the last to need.
    pub(super) fn end(&mut self, sources: &[Value], after: [u32; 4]) {
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
    pub(super) fn target(
        &mut self,
        instruction: &Instruction<M::Instruction>,
        after: [u32; 4],
    ) -> Register {
        let target = instruction.target.expect("the form has a target");
        let width = self.description(target).width;
        let register = self.free_register(width);
        self.take(target, register);
        self.next[target.index()] = after[3];
        Register::new(register, width)
    }

    /// A register for the target that holds a source, which has ended or is copied.
    pub(super) fn overwritten(
        &mut self,
        instruction: &Instruction<M::Instruction>,
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
        M::copy(self, to, from);
        to
    }
}
