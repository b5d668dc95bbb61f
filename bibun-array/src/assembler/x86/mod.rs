//! AVX-512 and AVX2, the instructions of x86-64 for vectors.

mod encoder;
mod forms;
mod memory;
mod operations;
#[cfg(test)]
mod tests;

use super::instructions::{Instruction as OnValues, Lowering, Place, Plan, Value};
use super::machine::{Machine, Register};
use super::order::Step;
use super::registers::Writer;
use encoder::{self as x86, Lanes, Operand};
use forms::{Form, Instruction, Output};

/// A set of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// AVX-512 with its parts F, BW, DQ and VL.
    Avx512,
    /// AVX2 with FMA.
    Avx2,
}

impl Level {
    /// All of them, the best one first.
    pub(super) const ALL: [Self; 2] = [Self::Avx512, Self::Avx2];

    /// Whether this machine has the instructions.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn is_available(self) -> bool {
        match self {
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("bmi2")
            }
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
        }
    }
}

/// The most elements for which light code has the longest vectors, too.
const FEW: usize = 64;

impl Machine for Level {
    type Instruction = Instruction;
    type Output = Output;
    const NARROWEST: usize = 16;
    const STREAMS: bool = true;

    fn vectors(self) -> u8 {
        match self {
            Self::Avx512 => 32,
            Self::Avx2 => 16,
        }
    }

    fn has_masks(self) -> bool {
        self == Self::Avx512
    }

    fn lanes(self, bytes: usize, n: usize, is_light: bool) -> usize {
        // What waits for memory gains nothing from long vectors, and processors store the halves of one by one.
        let longest = if is_light && n > FEW { 32 } else { 64 };
        match self {
            // Short vectors where they hold all elements: some instructions take less time.
            Self::Avx512 => (n.next_power_of_two() * bytes).clamp(16, longest) / bytes,
            Self::Avx2 if n <= 2 => 1,
            Self::Avx2 => 32 / bytes,
        }
    }

    fn least(self, lanes: usize) -> usize {
        match self {
            Self::Avx512 => 1,
            Self::Avx2 => lanes,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Avx512 => 64,
            Self::Avx2 => 32,
        }
    }

    fn folds(self, lanes: usize, n: usize) -> bool {
        match self {
            Self::Avx512 => true,
            // Without masks the last turn would take some elements again.
            Self::Avx2 => n.is_multiple_of(lanes),
        }
    }

    fn constant(self, element: usize) -> usize {
        match self {
            Self::Avx512 => element,
            // Without broadcasts from memory it lies there in all lanes.
            Self::Avx2 => 32,
        }
    }

    fn input(lowering: &mut Lowering<'_, Self>, i: u8, step: Step, copy: usize) -> Option<Value> {
        lowering.input(i, step, copy)
    }

    fn operation(lowering: &mut Lowering<'_, Self>, step: &Step, a: &[Value]) -> Option<Value> {
        lowering.operation(step, a)
    }

    fn store(lowering: &mut Lowering<'_, Self>, line: usize, result: u16) -> Option<()> {
        lowering.store(line, result)
    }

    fn within(lowering: &mut Lowering<'_, Self>, x: Value, others: Value) -> Value {
        lowering.within(x, others)
    }

    fn widened_halves(lowering: &mut Lowering<'_, Self>, x: Value) -> [Value; 2] {
        lowering.widened_halves(x)
    }

    fn upper_half(lowering: &mut Lowering<'_, Self>, x: Value, bytes: usize) -> Value {
        lowering.upper_half_of(x, bytes)
    }

    fn keep_in_slot(slot: u32) -> Instruction {
        Instruction::of_form(Form::Keep(slot))
    }

    fn keep_part(place: Place) -> Instruction {
        Instruction::of_form(Form::KeepPart(place))
    }

    fn store_one(result: u16) -> Instruction {
        Instruction::of_form(Form::StoreOne(result))
    }

    fn stored(instruction: &Instruction) -> Option<(u16, u8)> {
        match instruction.form {
            Form::Store(result, copy) => Some((result, copy)),
            _ => None,
        }
    }

    fn output(plan: &Plan<Self>, is_listed: bool) -> Output {
        let arrays = plan.inputs.len() + plan.outputs.len();
        Output::new(plan.machine, arrays, is_listed)
    }

    fn save(writer: &mut Writer<'_, Self>, register: Register, slot: u32) {
        writer.store_register(register, slot);
    }

    fn keep(writer: &mut Writer<'_, Self>, register: Register, place: Place) {
        writer.store_part(register, place);
    }

    fn restore(writer: &mut Writer<'_, Self>, register: Register, slot: u32) {
        writer.load_register(register, slot);
    }

    fn load(writer: &mut Writer<'_, Self>, value: Value, register: u8) {
        writer.load_own(value, register);
    }

    fn copy(writer: &mut Writer<'_, Self>, to: Register, from: Register) {
        writer.read(x86::MOVE, to, Lanes::All, Operand::Register(from));
    }

    fn write(writer: &mut Writer<'_, Self>, instruction: &OnValues<Instruction>, after: [u32; 4]) {
        writer.form(instruction, after);
    }

    fn call(writer: &mut Writer<'_, Self>, offset: u32, slots: u32) {
        writer.call_entry(offset, slots);
    }

    fn enter(writer: &mut Writer<'_, Self>) {
        writer.enter();
    }

    fn start_row(writer: &mut Writer<'_, Self>) {
        writer.start_row();
    }

    fn end_row(writer: &mut Writer<'_, Self>, start: usize) {
        writer.end_row(start);
    }

    fn start_rest(writer: &mut Writer<'_, Self>) {
        writer.start_rest();
    }

    fn fence(writer: &mut Writer<'_, Self>) {
        writer.output.encoder.fence();
    }
}
