//! Operations as instructions of Advanced SIMD, and elements of each dtype, which are computed in
//! the type of their accumulator and rounded (or wrap around) when they are stored.
//!
//! Truths are vectors, in whose lanes all bits are set or none.

use smallvec::SmallVec;

use super::Neon;
use super::encoder::{self as arm, Family, Opcode, Shape};
use super::forms::{Form, Instruction};
use crate::DType;
use crate::assembler::functions::Function;
use crate::assembler::instructions::{Description, Format, Lowering, Origin, Value, size};
use crate::assembler::machine::Width;
use crate::assembler::order::Step;
use crate::formula::{Operation, Type};

/// The shape of a vector in instructions that have lanes of any size.
pub(super) fn shape(bytes: usize, width: Width) -> Shape {
    match (bytes, width) {
        (1, Width::V8) => Shape::B8,
        (1, _) => Shape::B16,
        (2, Width::V8) => Shape::H4,
        (2, _) => Shape::H8,
        (4, Width::V8) => Shape::S2,
        (4, _) => Shape::S4,
        _ => Shape::D2,
    }
}

impl Lowering<'_, Neon> {
    fn with(&mut self, opcode: Opcode, form: Form, width: Width, sources: &[Value]) -> Value {
        let what = Instruction { opcode, form };
        self.instruct(what, Some(width), sources)
            .expect("it has a target")
    }

    /// An instruction on all lanes of a type.
    fn plain(&mut self, family: Family, of: Type, sources: &[Value]) -> Value {
        self.formed(family, Form::Plain, of, sources)
    }

    fn formed(&mut self, family: Family, form: Form, of: Type, sources: &[Value]) -> Value {
        let width = self.width(of);
        self.with(family.of(shape(size(of), width)), form, width, sources)
    }

    /// An instruction between lanes of different sizes.
    fn convert(&mut self, opcode: Opcode, width: Width, x: Value) -> Value {
        self.with(opcode, Form::Plain, width, &[x])
    }

    fn shifted_left(&mut self, of: Type, x: Value, bits: u8) -> Value {
        let width = self.width(of);
        let opcode = arm::shift_left(shape(size(of), width), bits);
        self.with(opcode, Form::Shift(bits), width, &[x])
    }

    fn shifted_right(&mut self, of: Type, x: Value, bits: u8) -> Value {
        let width = self.width(of);
        let opcode = arm::shift_right(shape(size(of), width), bits);
        self.with(opcode, Form::Shift(bits), width, &[x])
    }

    /// A test of numbers, or of truths in lanes of a type.
    fn tested(&mut self, family: Family, of: Type, sources: &[Value]) -> Value {
        let value = self.plain(family, of, sources);
        self.as_truth(value, of)
    }

    /// Tells that a value is a truth in lanes of a type.
    fn as_truth(&mut self, value: Value, of: Type) -> Value {
        self.values[value.index()].element = of;
        value
    }

    /// A truth in lanes of the size of a type.
    fn truth(&mut self, truth: Value, of: Type) -> Value {
        let own = self.values[truth.index()].element;
        if size(own) == size(of) {
            return truth;
        }
        if let Some(value) = self.converted.get(&truth) {
            return *value;
        }
        let opcode = match of {
            Type::Single => arm::LOW_HALVES,
            _ => arm::WIDEN_INTEGERS,
        };
        let value = self.convert(opcode, self.width(of), truth);
        let value = self.as_truth(value, of);
        self.converted.insert(truth, value);
        value
    }

    /// An element of an input.
    pub(super) fn input(&mut self, i: u8, step: Step, copy: usize) -> Option<Value> {
        let (dtype, _) = self.steps.inputs[usize::from(i)]?;
        let origin = match step.is_uniform {
            true => Origin::Repeated(i),
            false => Origin::Input(i, copy as u8),
        };
        let width = match dtype {
            DType::F32 | DType::F64 | DType::I64 => self.width(step.value),
            DType::Bool | DType::U8 | DType::I32 | DType::F16 | DType::BF16 => Width::V8,
            DType::C64 | DType::C128 => crate::dtype::not_complex(),
        };
        let loaded = self.value(Description {
            width,
            origin,
            element: step.value,
        });
        let single = self.width(Type::Single);
        Some(match dtype {
            DType::F32 | DType::F64 | DType::I64 => loaded,
            DType::F16 => self.convert(arm::WIDEN_HALVES, single, loaded),
            DType::BF16 => self.with(arm::UPPER_WORDS, Form::Shift(16), single, &[loaded]),
            DType::I32 => self.convert(arm::WIDEN_INTEGERS, Width::V16, loaded),
            DType::U8 => {
                let words = self.convert(arm::WIDEN_BYTES, Width::V16, loaded);
                let halves = self.convert(arm::WIDEN_WORDS, Width::V16, words);
                self.convert(arm::WIDEN_UNSIGNED, Width::V16, halves)
            }
            DType::Bool => {
                let words = self.convert(arm::WIDEN_BYTES, Width::V16, loaded);
                let halves = self.convert(arm::WIDEN_WORDS, single, words);
                self.tested(arm::TEST, Type::Single, &[halves, halves])
            }
            DType::C64 | DType::C128 => crate::dtype::not_complex(),
        })
    }

    /// Stores a result in all vectors of a turn.
    pub(super) fn store(&mut self, line: usize, result: u16) -> Option<()> {
        for copy in 0..self.of_lines.len() {
            let value = self.of_line(line, copy)?;
            self.line = line as u32;
            let value = match self.steps.targets[usize::from(result)].dtype() {
                DType::F32 | DType::F64 | DType::I64 => value,
                DType::F16 => self.convert(arm::NARROW_TO_HALVES, Width::V8, value),
                DType::BF16 => {
                    let words = self.brain_float(value);
                    self.convert(arm::LOW_WORDS, Width::V8, words)
                }
                DType::I32 => self.convert(arm::LOW_HALVES, Width::V8, value),
                DType::U8 => {
                    let halves = self.convert(arm::LOW_HALVES, Width::V8, value);
                    let words = self.convert(arm::LOW_WORDS, Width::V8, halves);
                    self.convert(arm::LOW_BYTES, Width::V8, words)
                }
                DType::Bool => {
                    let truth = self.truth(value, Type::Single);
                    let words = self.convert(arm::LOW_WORDS, Width::V8, truth);
                    let bytes = self.convert(arm::LOW_BYTES, Width::V8, words);
                    let opcode = arm::shift_right(Shape::B8, 7);
                    self.with(opcode, Form::Shift(7), Width::V8, &[bytes])
                }
                DType::C64 | DType::C128 => crate::dtype::not_complex(),
            };
            let what = Instruction::on_registers(Form::Store(result, copy as u8));
            self.instruct(what, None, &[value]);
        }
        Some(())
    }

    /// Both halves of a vector of f32 as f64.
    pub(super) fn widened_halves(&mut self, x: Value) -> [Value; 2] {
        [arm::WIDEN, arm::WIDEN_UPPER].map(|opcode| self.convert(opcode, Width::V16, x))
    }

    /// The upper half of some of the bytes of a vector.
    pub(super) fn upper_half(&mut self, x: Value, bytes: usize) -> Value {
        let shape = if bytes == 16 { Shape::D2 } else { Shape::S2 };
        let width = Width::of(bytes);
        self.with(arm::SECONDS.of(shape), Form::Plain, width, &[x, x])
    }

    /// The bits of the nearest bf16 in the lower half of each lane.
    fn brain_float(&mut self, x: Value) -> Value {
        let of = Type::Single;
        let high = self.shifted_right(of, x, 16);
        let one = self.bits(1, of);
        let is_odd = self.plain(arm::AND, of, &[high, one]);
        let below_half = self.bits(0x7FFF, of);
        let more = self.plain(arm::ADD_INTEGERS, of, &[is_odd, below_half]);
        let sum = self.plain(arm::ADD_INTEGERS, of, &[x, more]);
        let rounded = self.shifted_right(of, sum, 16);
        let quiet = self.bits(0x40, of);
        let nan = self.plain(arm::OR, of, &[high, quiet]);
        let is_number = self.tested(arm::EQUAL, of, &[x, x]);
        self.chosen(of, is_number, rounded, nan)
    }

    /// The instructions of an operation.
    pub(super) fn operation(&mut self, step: &Step, a: &[Value]) -> Option<Value> {
        use Operation as O;
        let of = step.of;
        if Function::is_called(step.operation, of) {
            return Some(self.called(step, a));
        }
        if step.value == Type::Truth && of == Type::Truth {
            return self.of_truths(step.operation, a);
        }
        match of {
            Type::Integer => return self.of_integers(step, a),
            Type::Single | Type::Double => {}
            Type::Truth | Type::Number => return None,
        }
        let format = Format::of(of);
        Some(match (step.operation, a) {
            (O::Constant(bits), _) => self.number(f64::from_bits(bits), of),
            (O::Add, _) => self.plain(arm::ADD, of, a),
            (O::Subtract, _) => self.plain(arm::SUBTRACT, of, a),
            (O::Multiply, _) => self.plain(arm::MULTIPLY, of, a),
            (O::Divide, _) => self.plain(arm::DIVIDE, of, a),
            (O::MultiplyAdd, &[x, y, z]) => {
                let term = match step.negative_term {
                    true => self.plain(arm::NEGATIVE, of, &[z]),
                    false => z,
                };
                let family = match step.negative_product {
                    true => arm::MULTIPLY_SUBTRACT,
                    false => arm::MULTIPLY_ADD,
                };
                self.formed(family, Form::Accumulating, of, &[x, y, term])
            }
            (O::Negative, _) => self.plain(arm::NEGATIVE, of, a),
            (O::Abs, _) => self.plain(arm::ABS, of, a),
            (O::CopySign, &[x, y]) => {
                let sign = self.bits(format.sign, of);
                self.chosen_bits(of, sign, y, x)
            }
            (O::Maximum, &[x, y]) => self.extreme(step, [x, y], [x, y]),
            (O::Minimum, &[x, y]) => self.extreme(step, [y, x], [x, y]),
            (O::Sqrt, _) => self.plain(arm::SQRT, of, a),
            (O::Round, _) => self.plain(arm::ROUND, of, a),
            (O::Floor, _) => self.plain(arm::FLOOR, of, a),
            (O::Ceil, _) => self.plain(arm::CEIL, of, a),
            (O::Trunc, _) => self.plain(arm::TRUNC, of, a),
            (O::Equal, _) => self.tested(arm::EQUAL, of, a),
            (O::Less, &[x, y]) => self.tested(arm::GREATER, of, &[y, x]),
            (O::LessEqual, &[x, y]) => self.tested(arm::AT_LEAST, of, &[y, x]),
            (O::IsNan, &[x]) => {
                let is_number = self.tested(arm::EQUAL, of, &[x, x]);
                self.tested(arm::NOT, of, &[is_number])
            }
            (O::IsSignNegative, &[x]) => {
                let sign = self.bits(format.sign, of);
                self.tested(arm::TEST, of, &[x, sign])
            }
            (O::Select, &[truth, x, y]) => self.chosen(of, truth, x, y),
            (O::PowerOfTwo, &[sum]) => self.shifted_left(of, sum, format.fraction),
            (O::IsOdd, &[sum]) => self.has_bit(of, sum, 0),
            (O::HasBitOfTwo, &[sum]) => self.has_bit(of, sum, 1),
            (O::Exponent, &[x]) => {
                let bits = self.above_root(of, x);
                let exponent = self.shifted_right(of, bits, format.fraction);
                let exponent = self.plain(arm::OF_UNSIGNED, of, &[exponent]);
                let bias = self.number(format.bias, of);
                self.plain(arm::SUBTRACT, of, &[exponent, bias])
            }
            (O::Fraction, &[x]) => {
                let bits = self.above_root(of, x);
                let mask = self.bits((1 << format.fraction) - 1, of);
                let fraction = self.plain(arm::AND, of, &[bits, mask]);
                let root = self.bits(format.root, of);
                self.plain(arm::ADD_INTEGERS, of, &[fraction, root])
            }
            (O::Widen, &[x]) => self.convert(arm::WIDEN, Width::V16, x),
            (O::Narrow, &[x]) => self.convert(arm::NARROW, self.width(Type::Single), x),
            (O::ToInteger, &[x]) => {
                let x = match of {
                    Type::Single => self.convert(arm::WIDEN, Width::V16, x),
                    _ => x,
                };
                self.plain(arm::TO_INTEGER, Type::Double, &[x])
            }
            _ => return None,
        })
    }

    /// A call of a function that branches.
    fn called(&mut self, step: &Step, a: &[Value]) -> Value {
        let offset = self.function(step);
        let width = self.width(step.of);
        let shape = shape(size(step.of), width);
        match step.is_guarded {
            true => {
                let sources = [a[0], self.truth(a[1], step.of), a[2]];
                let form = Form::GuardedCall(offset);
                self.with(arm::INSERT.of(shape), form, width, &sources)
            }
            false => self.with(arm::INSERT.of(shape), Form::Call(offset), width, a),
        }
    }

    fn of_truths(&mut self, operation: Operation, a: &[Value]) -> Option<Value> {
        use Operation as O;
        let is_wide = |&value: &Value| size(self.values[value.index()].element) == 8;
        let of = match a.iter().any(is_wide) {
            true => Type::Double,
            false => Type::Single,
        };
        let a: SmallVec<[Value; 2]> = a.iter().map(|&value| self.truth(value, of)).collect();
        let family = match operation {
            O::And => arm::AND,
            O::Or => arm::OR,
            O::Xor => arm::XOR,
            O::Not => arm::NOT,
            O::Always(holds) => {
                return Some(self.bits(if holds { u64::from(u32::MAX) } else { 0 }, of));
            }
            _ => return None,
        };
        Some(self.tested(family, of, &a))
    }

    fn of_integers(&mut self, step: &Step, a: &[Value]) -> Option<Value> {
        use Operation as O;
        let of = Type::Integer;
        Some(match (step.operation, a) {
            (O::Whole(x), _) => self.bits(x.cast_unsigned(), of),
            (O::Add, _) => self.plain(arm::ADD_INTEGERS, of, a),
            (O::Subtract, _) => self.plain(arm::SUBTRACT_INTEGERS, of, a),
            (O::Multiply, &[x, y]) => self.product(x, y),
            (O::BitsAnd, _) => self.plain(arm::AND, of, a),
            (O::BitsOr, _) => self.plain(arm::OR, of, a),
            (O::BitsXor, _) => self.plain(arm::XOR, of, a),
            (O::Equal, _) => self.tested(arm::EQUAL_INTEGERS, of, a),
            (O::Less, &[x, y]) => self.tested(arm::GREATER_INTEGERS, of, &[y, x]),
            (O::Maximum | O::Minimum, &[x, y]) => {
                let is_greater = self.tested(arm::GREATER_INTEGERS, of, &[x, y]);
                match step.operation {
                    O::Maximum => self.chosen(of, is_greater, x, y),
                    _ => self.chosen(of, is_greater, y, x),
                }
            }
            (O::Select, &[truth, x, y]) => self.chosen(of, truth, x, y),
            (O::ToNumber, &[x]) => self.number_of(step.value, x),
            _ => return None,
        })
    }

    fn chosen(&mut self, of: Type, truth: Value, x: Value, y: Value) -> Value {
        let truth = self.truth(truth, of);
        self.chosen_bits(of, truth, x, y)
    }

    /// The bits of one vector where those of the mask are set, else those of another.
    fn chosen_bits(&mut self, of: Type, mask: Value, x: Value, y: Value) -> Value {
        self.formed(arm::SELECT, Form::Choice, of, &[mask, x, y])
    }

    /// The first of two numbers if one of two others is greater than the other, else the second;
    /// NaN if the first is NaN and the line says so.
    fn extreme(&mut self, step: &Step, others: [Value; 2], [x, y]: [Value; 2]) -> Value {
        let of = step.of;
        let is_greater = self.tested(arm::GREATER, of, &others);
        let extreme = self.chosen(of, is_greater, x, y);
        match step.keeps_nan {
            true => {
                let is_number = self.tested(arm::EQUAL, of, &[x, x]);
                self.chosen(of, is_number, extreme, x)
            }
            false => extreme,
        }
    }

    /// Whether a bit of a whole number is set.
    fn has_bit(&mut self, of: Type, sum: Value, bit: u8) -> Value {
        let bit = self.bits(1 << bit, of);
        self.tested(arm::TEST, of, &[sum, bit])
    }

    /// The bits of a number, moved so that its exponent changes at `√½`.
    fn above_root(&mut self, of: Type, x: Value) -> Value {
        if let Some(bits) = self.above_root.get(&x) {
            return *bits;
        }
        let format = Format::of(of);
        let above = self.bits(format.one - format.root, of);
        let bits = self.plain(arm::ADD_INTEGERS, of, &[x, above]);
        self.above_root.insert(x, bits);
        bits
    }

    /// A product of integers, by halves; that of the upper ones would be above the highest bit.
    fn product(&mut self, x: Value, y: Value) -> Value {
        let (wide, halves) = (Width::V16, Shape::S4);
        let reversed = self.with(arm::REVERSE.of(halves), Form::Plain, wide, &[y]);
        let crossed = [x, reversed];
        let crossed = self.with(
            arm::MULTIPLY_INTEGERS.of(halves),
            Form::Plain,
            wide,
            &crossed,
        );
        let sum = self.convert(arm::ADD_HALVES, wide, crossed);
        let upper = self.shifted_left(Type::Integer, sum, 32);
        let [x, y] = [x, y].map(|x| self.convert(arm::LOW_HALVES, Width::V8, x));
        self.with(arm::ADD_PRODUCT, Form::Accumulating, wide, &[x, y, upper])
    }

    fn number_of(&mut self, to: Type, x: Value) -> Value {
        if to != Type::Single {
            return self.plain(arm::TO_NUMBER, Type::Double, &[x]);
        }
        // There is no instruction for vectors that rounds once.
        let width = self.width(to);
        let of_lane = |lowering: &mut Self, lane: u8| {
            let what = Instruction::on_registers(Form::SingleOfLane(lane));
            lowering
                .instruct(what, Some(width), &[x])
                .expect("it has a target")
        };
        let first = of_lane(self, 0);
        if self.lanes == 1 {
            return first;
        }
        let second = of_lane(self, 1);
        self.with(arm::ZIP.of(Shape::S2), Form::Plain, width, &[first, second])
    }
}
