//! What a back end is: how operations become instructions, and these bytes.

use std::fmt::Debug;
use std::ops::Range;

use super::instructions::{Instruction, Lowering, Place, Plan, Value};
use super::order::Step;
use super::registers::Writer;

/// A set of instructions of some processors.
///
/// The lines of a formula become instructions on values in a [`Lowering`]. A [`Writer`] then gives
/// values registers and writes a function of a preamble, turns of several vectors, and a rest of
/// single vectors, with the parts that are here.
pub(super) trait Machine: Copy + PartialEq + Debug + 'static {
    /// An instruction, without its operands.
    type Instruction: Copy + Debug;
    /// What has been written, and what the machine has to know of it.
    type Output: Loops;

    /// The bytes of the smallest vectors.
    const NARROWEST: usize;
    /// Whether results may be stored past the caches, in aligned vectors.
    const STREAMS: bool;

    /// The number of registers for vectors.
    fn vectors(self) -> u8;
    /// Whether truths are in registers of their own.
    fn has_masks(self) -> bool;
    /// The lanes for elements of at most this number of bytes, in slices of about `n`. Light code takes less time
    /// than its elements on the way from and to memory.
    fn lanes(self, bytes: usize, n: usize, is_light: bool) -> usize;
    /// The least number of elements that the function can compute, if there are any.
    fn least(self, lanes: usize) -> usize;
    /// The bytes of the largest vectors.
    fn bytes(self) -> usize;
    /// Whether rows of `n` elements can be folded in vectors of some lanes.
    fn folds(self, lanes: usize, n: usize) -> bool;
    /// The bytes of a constant in memory: those of one element if instructions repeat it, else those
    /// of the largest vector.
    fn constant(self, element: usize) -> usize;

    /// Reads an element of an input.
    fn input(lowering: &mut Lowering<'_, Self>, i: u8, step: Step, copy: usize) -> Option<Value>;
    /// Computes an operation, or returns `None` if there are no instructions for it.
    fn operation(lowering: &mut Lowering<'_, Self>, step: &Step, a: &[Value]) -> Option<Value>;
    /// Stores a result in all vectors of a turn.
    fn store(lowering: &mut Lowering<'_, Self>, line: usize, result: u16) -> Option<()>;
    /// The f32 of a vector in the lanes that the last turn of a row has, with others elsewhere.
    fn within(lowering: &mut Lowering<'_, Self>, x: Value, others: Value) -> Value;
    /// The lower and the upper half of a vector of f32, as f64.
    fn widened_halves(lowering: &mut Lowering<'_, Self>, x: Value) -> [Value; 2];
    /// The upper half of some of the bytes of a vector.
    fn upper_half(lowering: &mut Lowering<'_, Self>, x: Value, bytes: usize) -> Value;
    /// The instruction that leaves its source in a slot.
    fn keep_in_slot(slot: u32) -> Self::Instruction;
    /// The instruction that leaves its source where parts of a fold are.
    fn keep_part(place: Place) -> Self::Instruction;
    /// The instruction that stores the first lane of its source as the result of a row.
    fn store_one(result: u16) -> Self::Instruction;

    /// The result that an instruction stores, and in which of the vectors of a turn.
    fn stored(instruction: &Self::Instruction) -> Option<(u16, u8)>;

    fn output(plan: &Plan<Self>, is_listed: bool) -> Self::Output;

    /// Stores a register in a slot.
    fn save(writer: &mut Writer<'_, Self>, register: Register, slot: u32);
    /// Stores a register where parts of a fold are.
    fn keep(writer: &mut Writer<'_, Self>, register: Register, place: Place);
    /// Loads a register from a slot.
    fn restore(writer: &mut Writer<'_, Self>, register: Register, slot: u32);
    /// Loads a constant or an input.
    fn load(writer: &mut Writer<'_, Self>, value: Value, register: u8);
    fn copy(writer: &mut Writer<'_, Self>, to: Register, from: Register);
    /// Writes an instruction whose operands are still needed after it as `after` says.
    fn write(
        writer: &mut Writer<'_, Self>,
        instruction: &Instruction<Self::Instruction>,
        after: [u32; 4],
    );

    /// Calls a function, whose address is among the constants at this offset, with slots.
    fn call(writer: &mut Writer<'_, Self>, offset: u32, slots: u32);

    /// The start of the function, up to the first row.
    fn enter(writer: &mut Writer<'_, Self>);
    /// The start of a row, up to the preamble.
    fn start_row(writer: &mut Writer<'_, Self>);
    /// Moves all pointers by the steps behind them, and goes on, to the start if a row is left.
    fn end_row(writer: &mut Writer<'_, Self>, start: usize);
    /// Finds the elements of a turn of the rest, which may be fewer than all lanes.
    fn start_rest(writer: &mut Writer<'_, Self>);
    /// Orders stores past the caches before all that follows.
    fn fence(writer: &mut Writer<'_, Self>);
}

/// A function that is being written: the loops around its instructions.
pub(super) trait Loops: Debug {
    fn written(&mut self) -> &mut Written;
    /// The registers of masks that values may have.
    fn masks(&self) -> Range<u8>;

    /// Sets the index of the first element of a turn to 0.
    fn start(&mut self);
    /// Jumps if there are fewer elements than a turn has.
    fn skip_turns(&mut self, elements: i32) -> Jump;
    /// Jumps unless the index of the first element of a turn is a multiple of a power of two.
    fn skip_unless_multiple(&mut self, elements: u32) -> Jump;
    /// The start of a loop.
    fn align(&mut self) -> usize;
    /// Goes on, to the start if there are enough elements left for another turn.
    fn end_turn(&mut self, elements: i32, start: usize);
    /// Jumps if no element is left.
    fn skip_rest(&mut self) -> Jump;
    /// Goes on, to the start if any element is left.
    fn end_rest(&mut self, lanes: i32, start: usize);
    fn land(&mut self, jump: Jump);
    /// The end of the function.
    fn leave(&mut self);
}

/// The size of a register: one for masks, or for vectors of this number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Mask,
    V8,
    V16,
    V32,
    V64,
}

impl Width {
    /// The width of a vector.
    pub(super) fn of(bytes: usize) -> Self {
        match bytes {
            8 => Self::V8,
            16 => Self::V16,
            32 => Self::V32,
            64 => Self::V64,
            _ => unreachable!("no vector has {bytes} bytes"),
        }
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Mask => 2,
            Self::V8 => 8,
            Self::V16 => 16,
            Self::V32 => 32,
            Self::V64 => 64,
        }
    }
}

/// A register of vectors or masks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Register {
    pub(super) number: u8,
    pub(super) width: Width,
}

impl Register {
    pub(super) const fn new(number: u8, width: Width) -> Self {
        Self { number, width }
    }
}

/// A place that is known later: the end of a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Jump(pub(super) usize);

/// An instruction in the listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// The place of the first byte.
    pub(super) start: usize,
    pub(super) text: String,
    /// The line of the formula.
    pub(super) line: Option<u32>,
}

/// The bytes that have been written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) bytes: Vec<u8>,
    /// The text of the instructions, if it is wanted.
    pub(super) notes: Option<Vec<Note>>,
    /// The line of the formula that is being written.
    pub(super) line: Option<u32>,
}

impl Written {
    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push(Note {
                start: self.bytes.len(),
                text: text(),
                line: self.line,
            });
        }
    }
}
