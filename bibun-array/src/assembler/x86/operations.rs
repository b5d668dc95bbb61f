//! Operations as instructions of AVX-512 and AVX2.

use smallvec::SmallVec;

use super::Level;
use super::encoder::{self as x86, Opcode};
use super::forms::{Form, Instruction};
use crate::assembler::functions::Function;
use crate::assembler::instructions::{Format, Lowering, Value, size};
use crate::assembler::machine::Width;
use crate::assembler::order::Step;
use crate::formula::{Operation, Type};

impl Lowering<'_, Level> {
    /// An instruction with a target of some width, or without one.
    pub(super) fn write(
        &mut self,
        opcode: Opcode,
        form: Form,
        length: Width,
        target: Option<Width>,
        sources: &[Value],
        immediate: Option<u8>,
    ) -> Option<Value> {
        let what = Instruction {
            opcode,
            form,
            length,
            immediate,
        };
        self.instruct(what, target, sources)
    }

    /// An instruction whose target has its length.
    pub(super) fn plain(
        &mut self,
        opcode: Opcode,
        form: Form,
        length: Width,
        sources: &[Value],
    ) -> Value {
        self.with(opcode, form, length, length, sources, None)
    }

    pub(super) fn with(
        &mut self,
        opcode: Opcode,
        form: Form,
        length: Width,
        target: Width,
        sources: &[Value],
        immediate: Option<u8>,
    ) -> Value {
        self.write(opcode, form, length, Some(target), sources, immediate)
            .expect("it has a target")
    }

    /// A test of numbers.
    fn tested(
        &mut self,
        opcode: Opcode,
        form: Form,
        of: Type,
        sources: &[Value],
        immediate: Option<u8>,
    ) -> Value {
        let width = self.width(of);
        let truth = match self.machine {
            Level::Avx512 => Width::Mask,
            Level::Avx2 => width,
        };
        let value = self.with(opcode, form, width, truth, sources, immediate);
        self.as_truth(value, of)
    }

    pub(super) fn shift(
        &mut self,
        ([single, double], digit): ([Opcode; 2], u8),
        wide: bool,
        width: Width,
        x: Value,
        bits: u8,
    ) -> Value {
        let opcode = if wide { double } else { single };
        self.with(opcode, Form::Shift(digit), width, width, &[x], Some(bits))
    }

    /// Tells in AVX2 that a value is a truth in lanes of a type. Only their signs count.
    pub(super) fn as_truth(&mut self, value: Value, of: Type) -> Value {
        if self.machine == Level::Avx2 {
            self.values[value.index()].element = of;
        }
        value
    }

    /// A truth in lanes of the size of a type.
    pub(super) fn truth(&mut self, truth: Value, of: Type) -> Value {
        let own = self.values[truth.index()];
        if self.machine == Level::Avx512 || size(own.element) == size(of) {
            return truth;
        }
        if let Some(value) = self.converted.get(&truth) {
            return *value;
        }
        let value = match (of, own.width) {
            (Type::Single, width) => {
                let upper = match width {
                    Width::V32 => self.upper_half(truth),
                    _ => truth,
                };
                // The upper halves of all lanes.
                let (xmm, sources) = (Width::V16, [truth, upper]);
                self.with(x86::SHUFFLE, Form::Plain, xmm, xmm, &sources, Some(0xDD))
            }
            _ => self.plain(x86::WIDEN_INTEGERS, Form::Convert, self.width(of), &[truth]),
        };
        let value = self.as_truth(value, of);
        self.converted.insert(truth, value);
        value
    }

    pub(super) fn upper_half(&mut self, x: Value) -> Value {
        let (ymm, xmm) = (Width::V32, Width::V16);
        let opcode = x86::UPPER_HALF[usize::from(self.machine == Level::Avx512)];
        self.with(opcode, Form::Extract, ymm, xmm, &[x], Some(1))
    }

    /// The upper half of some of the bytes of a vector.
    pub(super) fn upper_half_of(&mut self, x: Value, bytes: usize) -> Value {
        let (ymm, xmm) = (Width::V32, Width::V16);
        // Numbers of lanes of 32 bits, from the first one on.
        let shuffle = match bytes {
            64 => {
                let opcode = x86::UPPER_HALF_OF_64;
                return self.with(opcode, Form::Extract, Width::V64, ymm, &[x], Some(1));
            }
            32 => return self.upper_half(x),
            16 => 0b1110,
            _ => 0b0001,
        };
        self.with(x86::SHUFFLE, Form::Plain, xmm, xmm, &[x, x], Some(shuffle))
    }

    /// The f32 of a vector, in those lanes that the last turn of a row has.
    pub(super) fn within(&mut self, x: Value, others: Value) -> Value {
        match self.machine {
            Level::Avx512 => {
                let width = self.width(Type::Single);
                self.plain(x86::BLEND[0], Form::Within, width, &[others, x])
            }
            // It has all of them where there are folds.
            Level::Avx2 => x,
        }
    }

    /// Both halves of a vector of f32 as f64.
    pub(super) fn widened_halves(&mut self, x: Value) -> [Value; 2] {
        let bytes = self.width(Type::Single).bytes();
        let upper = self.upper_half_of(x, bytes);
        let width = Width::of(bytes);
        [
            self.plain(x86::WIDEN, Form::ConvertLower, width, &[x]),
            self.plain(x86::WIDEN, Form::Convert, width, &[upper]),
        ]
    }

    /// The instructions of an operation.
    pub(super) fn operation(&mut self, step: &Step, a: &[Value]) -> Option<Value> {
        use Operation as O;
        let of = step.of;
        let p = usize::from(of != Type::Single);
        if Function::is_called(step.operation, of) {
            return Some(self.called(step, a));
        }
        if step.value == Type::Truth && of == Type::Truth {
            return self.of_truths(step.operation, a);
        }
        if of == Type::Integer {
            return self.of_integers(step, a);
        }
        let width = match of {
            Type::Single | Type::Double => self.width(of),
            Type::Truth | Type::Number | Type::Integer => return None,
        };
        let format = Format::of(of);
        Some(match (step.operation, a) {
            (O::Constant(bits), _) => self.number(f64::from_bits(bits), of),
            (O::Add, _) => self.plain(x86::ADD[p], Form::Commutative, width, a),
            (O::Subtract, _) => self.plain(x86::SUBTRACT[p], Form::Plain, width, a),
            (O::Multiply, _) => self.plain(x86::MULTIPLY[p], Form::Commutative, width, a),
            (O::Divide, _) => self.plain(x86::DIVIDE[p], Form::Plain, width, a),
            (O::MultiplyAdd, _) => {
                let kind = u8::from(step.negative_term) + 2 * u8::from(step.negative_product);
                self.with(
                    x86::MULTIPLY_ADD[p],
                    Form::Fused,
                    width,
                    width,
                    a,
                    Some(kind),
                )
            }
            (O::Negative, &[x]) => {
                let sign = self.bits(format.sign, of);
                self.plain(x86::XOR[p], Form::Commutative, width, &[x, sign])
            }
            (O::Abs, &[x]) => {
                let others = self.bits(format.sign - 1, of);
                self.plain(x86::AND[p], Form::Commutative, width, &[x, others])
            }
            (O::CopySign, &[x, y]) => self.copy_sign(of, x, y),
            (O::Maximum, &[x, y]) => self.extreme(x86::MAXIMUM[p], step, x, y),
            (O::Minimum, &[x, y]) => self.extreme(x86::MINIMUM[p], step, x, y),
            (O::Sqrt, _) => self.plain(x86::SQRT[p], Form::Plain, width, a),
            (O::Round, &[x]) => self.rounded(of, x, 0),
            (O::Floor, &[x]) => self.rounded(of, x, 1),
            (O::Ceil, &[x]) => self.rounded(of, x, 2),
            (O::Trunc, &[x]) => self.rounded(of, x, 3),
            (O::Equal, &[x, y]) => self.compared(of, EQUAL, x, y),
            (O::Less, &[x, y]) => self.compared(of, LESS, x, y),
            (O::LessEqual, &[x, y]) => self.compared(of, LESS_EQUAL, x, y),
            (O::IsNan, &[x]) => self.compared(of, UNORDERED, x, x),
            (O::IsSignNegative, &[x]) => match self.machine {
                Level::Avx512 => {
                    self.with(x86::SIGNS[p], Form::Plain, width, Width::Mask, &[x], None)
                }
                Level::Avx2 => self.as_truth(x, of),
            },
            (O::Select, &[truth, x, y]) => self.chosen(of, truth, x, y),
            (O::PowerOfTwo, &[sum]) => {
                self.shift(x86::SHIFT_LEFT, p == 1, width, sum, format.fraction)
            }
            (O::IsOdd, &[sum]) => self.has_bit(of, sum, 0),
            (O::HasBitOfTwo, &[sum]) => self.has_bit(of, sum, 1),
            (O::Exponent, &[x]) => {
                let holder = 2f64.powi(i32::from(format.fraction));
                let bits = self.above_root(of, x);
                let exponent = self.shift(x86::SHIFT_RIGHT, p == 1, width, bits, format.fraction);
                let in_fraction = self.number(holder, of);
                let held = self.plain(
                    x86::OR[p],
                    Form::Commutative,
                    width,
                    &[exponent, in_fraction],
                );
                let bias = self.number(holder + format.bias, of);
                self.plain(x86::SUBTRACT[p], Form::Plain, width, &[held, bias])
            }
            (O::Fraction, &[x]) => {
                let bits = self.above_root(of, x);
                let mask = self.bits((1 << format.fraction) - 1, of);
                let fraction = self.plain(x86::AND[p], Form::Commutative, width, &[bits, mask]);
                let root = self.bits(format.root, of);
                self.plain(
                    x86::ADD_INTEGERS[p],
                    Form::Commutative,
                    width,
                    &[fraction, root],
                )
            }
            (O::Widen, _) => self.plain(x86::WIDEN, Form::Convert, self.width(Type::Double), a),
            (O::Narrow, _) => {
                let target = self.width(Type::Single);
                self.with(x86::NARROW, Form::Convert, width, target, a, None)
            }
            (O::ToInteger, &[x]) => self.integer_of(of, x),
            _ => return None,
        })
    }

    /// A call of a function that branches.
    fn called(&mut self, step: &Step, a: &[Value]) -> Value {
        let offset = self.function(step);
        let (width, p) = (self.width(step.of), usize::from(step.of != Type::Single));
        match step.is_guarded {
            true => {
                let sources = [a[0], self.truth(a[1], step.of), a[2]];
                let blend = match self.machine {
                    Level::Avx512 => x86::BLEND[p],
                    Level::Avx2 => x86::BLEND_BY_SIGN[p],
                };
                self.plain(blend, Form::GuardedCall(offset), width, &sources)
            }
            false => self.plain(x86::MOVE, Form::Call(offset), width, a),
        }
    }

    fn of_truths(&mut self, operation: Operation, a: &[Value]) -> Option<Value> {
        use Operation as O;
        if self.machine == Level::Avx512 {
            let opcode = match operation {
                O::And => x86::AND_MASKS,
                O::Or => x86::OR_MASKS,
                O::Xor => x86::XOR_MASKS,
                O::Not => x86::NOT_MASK,
                O::Always(holds) => {
                    let opcode = if holds {
                        x86::SAME_MASKS
                    } else {
                        x86::XOR_MASKS
                    };
                    return Some(self.plain(opcode, Form::Masks, Width::Mask, &[]));
                }
                _ => return None,
            };
            return Some(self.plain(opcode, Form::Masks, Width::Mask, a));
        }
        let is_wide = |&value: &Value| size(self.values[value.index()].element) == 8;
        let of = match a.iter().any(is_wide) {
            true => Type::Double,
            false => Type::Single,
        };
        let width = self.width(of);
        let mut a: SmallVec<[Value; 2]> = a.iter().map(|&value| self.truth(value, of)).collect();
        let opcode = match operation {
            O::And => x86::AND,
            O::Or => x86::OR,
            O::Xor => x86::XOR,
            O::Not => {
                a.push(self.always(true));
                x86::XOR
            }
            O::Always(holds) => return Some(self.always(holds)),
            _ => return None,
        };
        let value = self.plain(opcode[0], Form::Commutative, width, &a);
        Some(self.as_truth(value, of))
    }

    /// All lanes set or none, in the widest vectors that truths have.
    fn always(&mut self, holds: bool) -> Value {
        let (all, of) = match self.lanes < 8 {
            true => (u64::MAX, Type::Double),
            false => (u64::from(u32::MAX), Type::Single),
        };
        self.bits(if holds { all } else { 0 }, of)
    }

    fn of_integers(&mut self, step: &Step, a: &[Value]) -> Option<Value> {
        use Operation as O;
        let of = Type::Integer;
        let width = self.width(of);
        Some(match (step.operation, a) {
            (O::Whole(x), _) => self.bits(x.cast_unsigned(), of),
            (O::Add, _) => self.plain(x86::ADD_INTEGERS[1], Form::Commutative, width, a),
            (O::Subtract, _) => self.plain(x86::SUBTRACT_INTEGERS, Form::Plain, width, a),
            (O::Multiply, &[x, y]) => self.product(x, y),
            (O::BitsAnd, _) => self.plain(x86::AND[1], Form::Commutative, width, a),
            (O::BitsOr, _) => self.plain(x86::OR[1], Form::Commutative, width, a),
            (O::BitsXor, _) => self.plain(x86::XOR[1], Form::Commutative, width, a),
            (O::Equal, _) => self.tested(x86::EQUAL_INTEGERS, Form::Commutative, of, a, None),
            (O::Less, &[x, y]) => self.less(x, y),
            (O::Maximum | O::Minimum, &[x, y]) => {
                let is_maximum = step.operation == O::Maximum;
                match (self.machine, is_maximum) {
                    (Level::Avx512, true) => {
                        self.plain(x86::MAXIMUM_INTEGERS, Form::Commutative, width, a)
                    }
                    (Level::Avx512, false) => {
                        self.plain(x86::MINIMUM_INTEGERS, Form::Commutative, width, a)
                    }
                    (Level::Avx2, _) => {
                        let less = self.less(x, y);
                        let (below, above) = if is_maximum { (y, x) } else { (x, y) };
                        self.chosen(of, less, below, above)
                    }
                }
            }
            (O::Select, &[truth, x, y]) => self.chosen(of, truth, x, y),
            (O::ToNumber, &[x]) => self.number_of(step.value, x),
            _ => return None,
        })
    }

    fn rounded(&mut self, of: Type, x: Value, mode: u8) -> Value {
        let p = usize::from(of != Type::Single);
        let opcode = match self.machine {
            Level::Avx512 => x86::ROUND_SCALE[p],
            Level::Avx2 => x86::ROUND[p],
        };
        let width = self.width(of);
        self.with(opcode, Form::Plain, width, width, &[x], Some(mode))
    }

    pub(super) fn compared(&mut self, of: Type, predicate: u8, x: Value, y: Value) -> Value {
        let p = usize::from(of != Type::Single);
        let form = match predicate {
            EQUAL | UNORDERED => Form::Commutative,
            _ => Form::Plain,
        };
        self.tested(x86::COMPARE[p], form, of, &[x, y], Some(predicate))
    }

    fn less(&mut self, x: Value, y: Value) -> Value {
        let of = Type::Integer;
        self.tested(x86::GREATER_INTEGERS, Form::Plain, of, &[y, x], None)
    }

    pub(super) fn chosen(&mut self, of: Type, truth: Value, x: Value, y: Value) -> Value {
        let p = usize::from(of != Type::Single);
        let width = self.width(of);
        match self.machine {
            Level::Avx512 => self.plain(x86::BLEND[p], Form::Choice, width, &[truth, x, y]),
            Level::Avx2 => {
                let truth = self.truth(truth, of);
                let sources = [truth, x, y];
                self.plain(x86::BLEND_BY_SIGN[p], Form::ChoiceBySign, width, &sources)
            }
        }
    }

    /// The extreme of the processor, which is the second number where one is NaN.
    fn extreme(&mut self, opcode: Opcode, step: &Step, x: Value, y: Value) -> Value {
        let width = self.width(step.of);
        let extreme = self.plain(opcode, Form::Plain, width, &[x, y]);
        match step.keeps_nan {
            true => {
                let is_nan = self.compared(step.of, UNORDERED, x, x);
                self.chosen(step.of, is_nan, x, extreme)
            }
            false => extreme,
        }
    }

    fn copy_sign(&mut self, of: Type, x: Value, y: Value) -> Value {
        let p = usize::from(of != Type::Single);
        let width = self.width(of);
        let sign = self.bits(Format::of(of).sign, of);
        match self.machine {
            // The bits of the second where the third is set, else those of the first.
            Level::Avx512 => {
                let sources = [x, y, sign];
                self.with(
                    x86::TERNARY[p],
                    Form::Overwriting,
                    width,
                    width,
                    &sources,
                    Some(0xD8),
                )
            }
            Level::Avx2 => {
                let sign_of = self.plain(x86::AND[p], Form::Commutative, width, &[y, sign]);
                let others = self.bits(Format::of(of).sign - 1, of);
                let magnitude = self.plain(x86::AND[p], Form::Commutative, width, &[x, others]);
                self.plain(x86::OR[p], Form::Commutative, width, &[magnitude, sign_of])
            }
        }
    }

    /// A whole number and `more` in the low bits of a sum.
    fn shifted(&mut self, of: Type, n: Value, more: f64) -> Value {
        let p = usize::from(of != Type::Single);
        let shifter = 1.5 * 2f64.powi(i32::from(Format::of(of).fraction)) + more;
        let shifter = self.number(shifter, of);
        let width = self.width(of);
        self.plain(x86::ADD[p], Form::Commutative, width, &[n, shifter])
    }

    /// Whether a bit of a whole number is set.
    fn has_bit(&mut self, of: Type, sum: Value, bit: u8) -> Value {
        let p = usize::from(of != Type::Single);
        let width = self.width(of);
        match self.machine {
            Level::Avx512 => {
                let tested = self.bits(1 << bit, of);
                let sources = [sum, tested];
                self.tested(x86::TEST[p], Form::Commutative, of, &sources, None)
            }
            Level::Avx2 => {
                let highest = (8 * size(of) - 1) as u8;
                let truth = self.shift(x86::SHIFT_LEFT, p == 1, width, sum, highest - bit);
                self.as_truth(truth, of)
            }
        }
    }

    /// The bits of a number, moved so that its exponent changes at `√½`.
    fn above_root(&mut self, of: Type, x: Value) -> Value {
        if let Some(bits) = self.above_root.get(&x) {
            return *bits;
        }
        let p = usize::from(of != Type::Single);
        let format = Format::of(of);
        let above = self.bits(format.one - format.root, of);
        let width = self.width(of);
        let bits = self.plain(x86::ADD_INTEGERS[p], Form::Commutative, width, &[x, above]);
        self.above_root.insert(x, bits);
        bits
    }

    fn product(&mut self, x: Value, y: Value) -> Value {
        let width = self.width(Type::Integer);
        if self.machine == Level::Avx512 {
            return self.plain(x86::MULTIPLY_INTEGERS, Form::Commutative, width, &[x, y]);
        }
        // By halves; that of the upper ones would be above the highest bit.
        let upper_x = self.shift(x86::SHIFT_RIGHT, true, width, x, 32);
        let upper_y = self.shift(x86::SHIFT_RIGHT, true, width, y, 32);
        let first = self.plain(
            x86::MULTIPLY_HALVES,
            Form::Commutative,
            width,
            &[upper_x, y],
        );
        let second = self.plain(
            x86::MULTIPLY_HALVES,
            Form::Commutative,
            width,
            &[upper_y, x],
        );
        let sum = self.plain(
            x86::ADD_INTEGERS[1],
            Form::Commutative,
            width,
            &[first, second],
        );
        let upper = self.shift(x86::SHIFT_LEFT, true, width, sum, 32);
        let lower = self.plain(x86::MULTIPLY_HALVES, Form::Commutative, width, &[x, y]);
        self.plain(
            x86::ADD_INTEGERS[1],
            Form::Commutative,
            width,
            &[lower, upper],
        )
    }

    fn number_of(&mut self, to: Type, x: Value) -> Value {
        let wide = self.width(Type::Integer);
        if self.machine == Level::Avx512 {
            let opcode = x86::TO_NUMBER[usize::from(to != Type::Single)];
            return self.with(opcode, Form::Convert, wide, self.width(to), &[x], None);
        }
        let double = self.double_of(x);
        if to != Type::Single {
            return double;
        }
        // An f64 that has been rounded must not be rounded again: the bits beyond its precision
        // become one bit, which says whether any of them is set.
        let of = Type::Integer;
        let low = self.bits(0x7FF, of);
        let low_bits = self.plain(x86::AND[1], Form::Commutative, wide, &[x, low]);
        let sum = self.plain(
            x86::ADD_INTEGERS[1],
            Form::Commutative,
            wide,
            &[low_bits, low],
        );
        let sticky = self.plain(x86::OR[1], Form::Commutative, wide, &[sum, x]);
        let others = self.bits(!0x7FF, of);
        let exact = self.plain(x86::AND[1], Form::Commutative, wide, &[sticky, others]);
        let exact = self.double_of(exact);
        let all_but_sign = self.bits(i64::MAX.cast_unsigned(), of);
        let magnitude = self.plain(
            x86::AND[1],
            Form::Commutative,
            wide,
            &[double, all_but_sign],
        );
        let limit = self.number(2f64.powi(53), Type::Double);
        let is_rounded = self.compared(Type::Double, AT_LEAST, magnitude, limit);
        let double = self.chosen(Type::Double, is_rounded, exact, double);
        let target = self.width(to);
        self.with(x86::NARROW, Form::Convert, wide, target, &[double], None)
    }

    /// The f64 nearest to an integer, in AVX2: both halves as the low bits of numbers, whose
    /// difference is exact and whose sum is rounded once.
    fn double_of(&mut self, x: Value) -> Value {
        let wide = self.width(Type::Integer);
        let (of, exponent_52, exponent_84) = (Type::Double, 0x433_u64 << 52, 0x453_u64 << 52);
        let mask = self.bits(0xFFFF_FFFF, of);
        let low_bits = self.plain(x86::AND[1], Form::Commutative, wide, &[x, mask]);
        let exponent = self.bits(exponent_52, of);
        let low = self.plain(x86::OR[1], Form::Commutative, wide, &[low_bits, exponent]);
        let high_bits = self.shift(x86::SHIFT_RIGHT, true, wide, x, 32);
        let exponent = self.bits(exponent_84 | 1 << 31, of);
        let high = self.plain(x86::XOR[1], Form::Commutative, wide, &[high_bits, exponent]);
        let both = self.bits(exponent_84 | 1 << 31 | 1 << 20, of);
        let high = self.plain(x86::SUBTRACT[1], Form::Plain, wide, &[high, both]);
        self.plain(x86::ADD[1], Form::Commutative, wide, &[high, low])
    }

    fn integer_of(&mut self, of: Type, x: Value) -> Value {
        let p = usize::from(of != Type::Single);
        let wide = self.width(Type::Integer);
        let beyond = 2f64.powi(63);
        let largest = self.bits(i64::MAX.cast_unsigned(), Type::Integer);
        if self.machine == Level::Avx512 {
            let ordered = self.compared(of, ORDERED, x, x);
            let beyond = self.number(beyond, of);
            let is_beyond = self.compared(of, AT_LEAST, x, beyond);
            // Numbers out of range become the smallest integer.
            let sources = [ordered, x];
            let integer = self.with(x86::TO_INTEGER[p], Form::Masked, wide, wide, &sources, None);
            return self.chosen(Type::Integer, is_beyond, largest, integer);
        }
        let of = Type::Double;
        let x = match p {
            0 => self.plain(x86::WIDEN, Form::Convert, wide, &[x]),
            _ => x,
        };
        let whole = self.rounded(of, x, 3);
        let factor = self.number(2f64.powi(-32), of);
        let scaled = self.plain(x86::MULTIPLY[1], Form::Commutative, wide, &[whole, factor]);
        let high = self.rounded(of, scaled, 1);
        let factor = self.number(-2f64.powi(32), of);
        let sources = [high, factor, whole];
        let low = self.with(
            x86::MULTIPLY_ADD[1],
            Form::Fused,
            wide,
            wide,
            &sources,
            Some(0),
        );
        let high_sum = self.shifted(of, high, 0.0);
        let high_bits = self.shift(x86::SHIFT_LEFT, true, wide, high_sum, 32);
        let holder = self.number(2f64.powi(52), of);
        let low_sum = self.plain(x86::ADD[1], Form::Commutative, wide, &[low, holder]);
        let low_bits = self.plain(x86::XOR[1], Form::Commutative, wide, &[low_sum, holder]);
        let integer = self.plain(x86::OR[1], Form::Commutative, wide, &[high_bits, low_bits]);
        let smallest = self.bits(i64::MIN.cast_unsigned(), Type::Integer);
        let limit = self.number(-beyond, of);
        let is_below = self.compared(of, LESS, x, limit);
        let integer = self.chosen(Type::Integer, is_below, smallest, integer);
        let limit = self.number(beyond, of);
        let is_beyond = self.compared(of, AT_LEAST, x, limit);
        let integer = self.chosen(Type::Integer, is_beyond, largest, integer);
        let ordered = self.compared(of, ORDERED, x, x);
        self.plain(x86::AND[1], Form::Commutative, wide, &[integer, ordered])
    }
}

/// Predicates of comparisons that raise no signal.
const EQUAL: u8 = 0x00;
pub(super) const UNORDERED: u8 = 0x03;
const ORDERED: u8 = 0x07;
const LESS: u8 = 0x11;
const LESS_EQUAL: u8 = 0x12;
const AT_LEAST: u8 = 0x1D;
