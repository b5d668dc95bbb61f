//! Advanced SIMD (NEON), the instructions of Armv8-A for vectors, as all its processors have them.

mod encoder;
mod forms;
mod operations;
#[cfg(test)]
mod tests;

use super::instructions::{Instruction as OnValues, Lowering, Place, Plan, Value};
use super::machine::{Machine, Register};
use super::order::Step;
use super::registers::Writer;
use forms::{Form, Instruction, Output};

use crate::formula::Target;

/// The set of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neon;

#[cfg(target_arch = "aarch64")]
impl Neon {
    /// All of them, of which there is one.
    pub(super) const ALL: [Self; 1] = [Self];

    /// Whether this machine has the instructions.
    pub(super) const fn is_available(self) -> bool {
        true
    }
}

impl Machine for Neon {
    type Instruction = Instruction;
    type Output = Output;
    const NARROWEST: usize = 8;
    const STREAMS: bool = false;

    fn vectors(self) -> u8 {
        encoder::VECTORS
    }

    fn has_masks(self) -> bool {
        false
    }

    fn lanes(self, bytes: usize, n: usize, _is_light: bool) -> usize {
        let all = 16 / bytes;
        if n <= all / 2 { 1 } else { all }
    }

    fn least(self, lanes: usize) -> usize {
        lanes
    }

    fn bytes(self) -> usize {
        16
    }

    fn folds(self, lanes: usize, n: usize) -> bool {
        // Without masks the last turn would take some elements again.
        n.is_multiple_of(lanes)
    }

    fn constant(self, _element: usize) -> usize {
        16
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

    fn within(_lowering: &mut Lowering<'_, Self>, x: Value, _others: Value) -> Value {
        // The last turn has all lanes where there are folds.
        x
    }

    fn widened_halves(lowering: &mut Lowering<'_, Self>, x: Value) -> [Value; 2] {
        lowering.widened_halves(x)
    }

    fn upper_half(lowering: &mut Lowering<'_, Self>, x: Value, bytes: usize) -> Value {
        lowering.upper_half(x, bytes)
    }

    fn keep_in_slot(slot: u32) -> Instruction {
        Instruction::on_registers(Form::Keep(slot))
    }

    fn keep_part(place: Place) -> Instruction {
        Instruction::on_registers(Form::KeepPart(place))
    }

    fn store_one(result: u16) -> Instruction {
        Instruction::on_registers(Form::StoreOne(result))
    }

    fn stored(instruction: &Instruction) -> Option<(u16, u8)> {
        match instruction.form {
            Form::Store(result, copy) => Some((result, copy)),
            _ => None,
        }
    }

    fn output(plan: &Plan<Self>, is_listed: bool) -> Output {
        let inputs = plan.inputs.iter().map(|input| match *input {
            Some((dtype, false)) => Some(dtype.size()),
            Some((_, true)) | None => None,
        });
        let outputs = plan.outputs.iter().map(|target| match target {
            Target::Elements(dtype) => Some(dtype.size()),
            Target::Fold(_) => None,
        });
        let sizes = inputs.chain(outputs);
        Output::new(sizes, plan.values.len(), is_listed)
    }

    fn save(writer: &mut Writer<'_, Self>, register: Register, slot: u32) {
        writer.output.store_register(register, slot);
    }

    fn keep(writer: &mut Writer<'_, Self>, register: Register, place: Place) {
        writer.output.store_part(register, place);
    }

    fn restore(writer: &mut Writer<'_, Self>, register: Register, slot: u32) {
        writer.output.load_register(register, slot);
    }

    fn load(writer: &mut Writer<'_, Self>, value: Value, register: u8) {
        writer.load_own(value, register);
    }

    fn copy(writer: &mut Writer<'_, Self>, to: Register, from: Register) {
        writer.output.encoder.copy(to, from);
    }

    fn write(writer: &mut Writer<'_, Self>, instruction: &OnValues<Instruction>, after: [u32; 4]) {
        writer.form(instruction, after);
    }

    fn call(writer: &mut Writer<'_, Self>, offset: u32, slots: u32) {
        writer.output.call_entry(offset, slots);
    }

    fn enter(writer: &mut Writer<'_, Self>) {
        writer.output.enter();
    }

    fn start_row(_writer: &mut Writer<'_, Self>) {
        // Pointers are loaded where turns start.
    }

    fn end_row(writer: &mut Writer<'_, Self>, start: usize) {
        let (read, arrays) = (writer.plan.arrays_in_use(), writer.plan.arrays());
        writer.output.end_row(&read, arrays, start);
    }

    fn start_rest(writer: &mut Writer<'_, Self>) {
        let lanes = writer.plan.lanes;
        writer.output.start_rest(lanes);
    }

    fn fence(_: &mut Writer<'_, Self>) {}
}
