//! How elements of each dtype come from memory and go there. They are computed in the type of their
//! accumulator, and rounded (or wrap around) when they are stored.

use super::Level;
use super::encoder::{self as x86, Opcode};
use super::forms::Form;
use super::operations::UNORDERED;
use crate::DType;
use crate::assembler::instructions::{Description, Lowering, Origin, Value};
use crate::assembler::machine::Width;
use crate::assembler::order::Step;
use crate::formula::Type;

/// The instruction that reads a vector of neighbouring elements, and the part of the vector's bytes
/// that it reads.
pub(super) fn load(dtype: DType, level: Level) -> (Opcode, usize) {
    match (dtype, level) {
        (DType::F32, _) => (x86::LOAD[0], 1),
        (DType::F64 | DType::I64, _) => (x86::LOAD[1], 1),
        (DType::F16, _) => (x86::WIDEN_F16, 2),
        (DType::BF16, _) => (x86::WIDEN_WORDS, 2),
        (DType::I32, _) => (x86::WIDEN_INTEGERS, 2),
        (DType::U8, _) => (x86::WIDEN_BYTES[1], 8),
        (DType::Bool, Level::Avx512) => (x86::LOAD_BYTES, 1),
        (DType::Bool, Level::Avx2) => (x86::WIDEN_BYTES[0], 4),
        (DType::C64 | DType::C128, _) => crate::dtype::not_complex(),
    }
}

/// The instruction that reads one element into all lanes of its own size.
pub(super) fn broadcast(dtype: DType) -> Opcode {
    match dtype.size() {
        1 => x86::BROADCAST_BYTES,
        2 => x86::BROADCAST_WORDS,
        4 => x86::BROADCAST[0],
        _ => x86::BROADCAST[1],
    }
}

/// The bytes that a store writes from a vector of all lanes.
pub(super) fn stored(opcode: Opcode, width: Width) -> usize {
    match opcode {
        x86::STORE_ONE => 1,
        x86::STORE_TWO => 2,
        x86::STORE_FOUR => 4,
        x86::STORE_EIGHT => 8,
        x86::STORE_F16 | x86::STORE_WORDS | x86::STORE_INTEGERS => width.bytes() / 2,
        x86::STORE_LOW_BYTES => width.bytes() / 8,
        _ => width.bytes(),
    }
}

impl Lowering<'_, Level> {
    /// An element of an input.
    pub(super) fn input(&mut self, i: u8, step: Step, copy: usize) -> Option<Value> {
        let (dtype, _) = self.steps.inputs[usize::from(i)]?;
        let origin = match step.is_uniform {
            true => Origin::Repeated(i),
            false => Origin::Input(i, copy as u8),
        };
        let is_one = step.is_uniform || self.lanes == 1;
        let full = match step.value {
            Type::Truth if self.machine == Level::Avx512 => Width::V16,
            Type::Truth => self.width(Type::Single),
            of => self.width(of),
        };
        // What is read into all lanes has its own size, and is widened afterwards.
        let (width, widened) = match dtype {
            DType::F16 => (half(full), Some(x86::WIDEN_F16)),
            DType::I32 => (half(full), Some(x86::WIDEN_INTEGERS)),
            DType::U8 => (Width::V16, Some(x86::WIDEN_BYTES[1])),
            DType::Bool | DType::I64 | DType::BF16 | DType::F32 | DType::F64 => (full, None),
            DType::C64 | DType::C128 => crate::dtype::not_complex(),
        };
        let (width, widened) = if is_one {
            (width, widened)
        } else {
            (full, None)
        };
        let loaded = self.value(Description {
            width,
            origin,
            element: step.value,
        });
        if let Some(opcode) = widened {
            return Some(self.plain(opcode, Form::Convert, full, &[loaded]));
        }
        Some(match (dtype, self.machine) {
            (DType::BF16, _) => self.shift(x86::SHIFT_LEFT, false, full, loaded, 16),
            (DType::Bool, Level::Avx512) => {
                let (form, sources) = (Form::Plain, [loaded, loaded]);
                self.with(x86::TEST_BYTES, form, full, Width::Mask, &sources, None)
            }
            // The lowest bit becomes the sign.
            (DType::Bool, Level::Avx2) => {
                let truth = self.shift(x86::SHIFT_LEFT, false, full, loaded, 31);
                self.as_truth(truth, Type::Single)
            }
            (DType::U8 | DType::I32 | DType::I64, _) => loaded,
            (DType::F16 | DType::F32 | DType::F64, _) => loaded,
            (DType::C64 | DType::C128, _) => crate::dtype::not_complex(),
        })
    }

    /// Stores a result in all vectors of a turn.
    pub(super) fn store(&mut self, line: usize, result: u16) -> Option<()> {
        let dtype = self.steps.targets[usize::from(result)].dtype();
        let of = self.steps.all[line].value;
        for copy in 0..self.of_lines.len() {
            let value = self.of_line(line, copy)?;
            self.line = line as u32;
            let (opcode, value) = match (dtype, self.machine) {
                (DType::Bool, Level::Avx512) => {
                    let xmm = Width::V16;
                    let bytes = self.plain(x86::BYTES_OF_MASK, Form::Plain, xmm, &[value]);
                    let ones = self.plain(x86::ABS_BYTES, Form::Plain, xmm, &[bytes]);
                    match self.lanes {
                        // Not more than there are, for there may be no mask.
                        4 => (x86::STORE_FOUR, ones),
                        8 => (x86::STORE_EIGHT, ones),
                        _ => (x86::STORE_BYTES, ones),
                    }
                }
                (DType::Bool, Level::Avx2) => self.bytes_of_truth(value),
                (DType::F32, _) if self.lanes == 1 => (x86::STORE_FOUR, value),
                (DType::F32, _) => (x86::STORE[0], value),
                (DType::F64 | DType::I64, _) if self.lanes == 1 => (x86::STORE_EIGHT, value),
                (DType::F64 | DType::I64, _) => (x86::STORE[1], value),
                (DType::F16, _) if self.lanes == 1 => {
                    let (form, xmm) = (Form::Extract, Width::V16);
                    let half = self.with(x86::STORE_F16, form, xmm, xmm, &[value], Some(0));
                    (x86::STORE_TWO, half)
                }
                (DType::F16, _) => (x86::STORE_F16, value),
                (DType::BF16, level) => {
                    let words = self.brain_float(value);
                    match level {
                        Level::Avx512 => (x86::STORE_WORDS, words),
                        Level::Avx2 => self.low_words(words),
                    }
                }
                (DType::I32, Level::Avx512) => (x86::STORE_INTEGERS, value),
                (DType::I32, Level::Avx2) => match self.lanes {
                    1 => (x86::STORE_FOUR, value),
                    _ => (x86::STORE[0], self.low_halves(value)),
                },
                (DType::U8, Level::Avx512) => (x86::STORE_LOW_BYTES, value),
                (DType::U8, Level::Avx2) => self.low_bytes(value),
                (DType::C64 | DType::C128, _) => crate::dtype::not_complex(),
            };
            let width = match of {
                Type::Truth => Width::V16,
                _ => self.values[value.index()].width,
            };
            let immediate = match opcode {
                // Rounded to the nearest, of two that are equally near to the even one.
                x86::STORE_F16 | x86::STORE_ONE | x86::STORE_TWO => Some(0),
                _ => None,
            };
            let form = Form::Store(result, copy as u8);
            self.write(opcode, form, width, None, &[value], immediate);
        }
        Some(())
    }

    /// Truths as bytes, from the signs of lanes.
    fn bytes_of_truth(&mut self, truth: Value) -> (Opcode, Value) {
        let width = self.width(Type::Single);
        let truth = self.truth(truth, Type::Single);
        let words = self.shift(x86::SHIFT_RIGHT, false, width, truth, 31);
        let (opcode, upper) = match self.lanes {
            1 => return (x86::STORE_ONE, words),
            4 => (x86::STORE_FOUR, words),
            _ => (x86::STORE_EIGHT, self.upper_half(words)),
        };
        let halves = self.plain(x86::PACK_WORDS, Form::Plain, Width::V16, &[words, upper]);
        let bytes = [halves, halves];
        let bytes = self.plain(x86::PACK_BYTES, Form::Plain, Width::V16, &bytes);
        (opcode, bytes)
    }

    /// The bits of the nearest bf16 in the lower half of each lane.
    fn brain_float(&mut self, x: Value) -> Value {
        let of = Type::Single;
        let width = self.width(of);
        let high = self.shift(x86::SHIFT_RIGHT, false, width, x, 16);
        let one = self.bits(1, of);
        let is_odd = self.plain(x86::AND[0], Form::Commutative, width, &[high, one]);
        let below_half = self.bits(0x7FFF, of);
        let sources = [is_odd, below_half];
        let more = self.plain(x86::ADD_INTEGERS[0], Form::Commutative, width, &sources);
        let sum = self.plain(x86::ADD_INTEGERS[0], Form::Commutative, width, &[x, more]);
        let rounded = self.shift(x86::SHIFT_RIGHT, false, width, sum, 16);
        let quiet = self.bits(0x40, of);
        let nan = self.plain(x86::OR[0], Form::Commutative, width, &[high, quiet]);
        let is_nan = self.compared(of, UNORDERED, x, x);
        self.chosen(of, is_nan, nan, rounded)
    }

    /// The lower halves of lanes of 32 bits, whose upper halves are zero.
    fn low_words(&mut self, words: Value) -> (Opcode, Value) {
        let (opcode, upper) = match self.lanes {
            1 => return (x86::STORE_TWO, words),
            4 => (x86::STORE_EIGHT, words),
            _ => (x86::STORE[0], self.upper_half(words)),
        };
        let sources = [words, upper];
        let packed = self.plain(x86::PACK_UNSIGNED_WORDS, Form::Plain, Width::V16, &sources);
        (opcode, packed)
    }

    /// The lower halves of four lanes of 64 bits.
    fn low_halves(&mut self, x: Value) -> Value {
        let (xmm, sources) = (Width::V16, [x, self.upper_half(x)]);
        self.with(x86::SHUFFLE, Form::Plain, xmm, xmm, &sources, Some(0x88))
    }

    /// The lowest bytes of four lanes of 64 bits, or of one.
    fn low_bytes(&mut self, x: Value) -> (Opcode, Value) {
        if self.lanes == 1 {
            return (x86::STORE_ONE, x);
        }
        let of = Type::Integer;
        let mask = self.bits(0xFF, of);
        let bytes = self.plain(x86::AND[1], Form::Commutative, self.width(of), &[x, mask]);
        let halves = self.low_halves(bytes);
        let xmm = Width::V16;
        let words = [halves, halves];
        let words = self.plain(x86::PACK_UNSIGNED_WORDS, Form::Plain, xmm, &words);
        let bytes = [words, words];
        let bytes = self.plain(x86::PACK_UNSIGNED_BYTES, Form::Plain, xmm, &bytes);
        (x86::STORE_FOUR, bytes)
    }
}

/// The width of half the bytes, or the least.
const fn half(width: Width) -> Width {
    match width {
        Width::V64 => Width::V32,
        Width::V32 | Width::V16 | Width::V8 => Width::V16,
        Width::Mask => Width::Mask,
    }
}
