//! The instructions of Armv8-A as words of 32 bits: those on vectors (Advanced SIMD) that formulas
//! need, and a few others.
//!
//! Source: Arm Architecture Reference Manual for A-profile architecture, chapter C4.

use crate::assembler::machine::{Jump, Register, Width, Written};

/// The number of vector registers.
pub(super) const VECTORS: u8 = 32;
/// Those of them that a function may use as it likes.
pub(super) const UNSAVED_VECTORS: u8 = 24;

/// The number of a vector register in instructions. Those whose lower halves belong to the caller,
/// `v8` to `v15`, are the last.
const fn number(register: Register) -> u32 {
    let number = register.number as u32;
    match number {
        0..8 => number,
        8..24 => number + 8,
        _ => number - 16,
    }
}

/// How the lanes of a vector are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    B8,
    B16,
    H4,
    H8,
    S2,
    S4,
    D2,
}

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::B8 => "8b",
            Self::B16 => "16b",
            Self::H4 => "4h",
            Self::H8 => "8h",
            Self::S2 => "2s",
            Self::S4 => "4s",
            Self::D2 => "2d",
        }
    }

    /// The bit Q, of vectors of 16 bytes.
    const fn is_long(self) -> u32 {
        matches!(self, Self::B16 | Self::H8 | Self::S4 | Self::D2) as u32
    }

    /// The number of the size of lanes.
    const fn size(self) -> u32 {
        match self {
            Self::B8 | Self::B16 => 0,
            Self::H4 | Self::H8 => 1,
            Self::S2 | Self::S4 => 2,
            Self::D2 => 3,
        }
    }
}

/// An instruction on vectors, without registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opcode {
    name: &'static str,
    word: u32,
    target: Shape,
    source: Shape,
}

/// An instruction on vectors of several shapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    name: &'static str,
    word: u32,
    of: Lanes,
}

/// What the lanes of an instruction are.
#[derive(Clone, Copy, Debug)]
enum Lanes {
    Floats,
    Integers,
    Bits,
}

impl Family {
    pub(super) const fn of(self, shape: Shape) -> Opcode {
        let (size, shape) = match self.of {
            Lanes::Floats => (shape.size() & 1, shape),
            Lanes::Integers => (shape.size(), shape),
            Lanes::Bits if shape.is_long() == 1 => (0, Shape::B16),
            Lanes::Bits => (0, Shape::B8),
        };
        Opcode {
            name: self.name,
            word: self.word | shape.is_long() << 30 | size << 22,
            target: shape,
            source: shape,
        }
    }
}

const fn floats(name: &'static str, word: u32) -> Family {
    let of = Lanes::Floats;
    Family { name, word, of }
}

const fn integers(name: &'static str, word: u32) -> Family {
    let of = Lanes::Integers;
    Family { name, word, of }
}

const fn bits(name: &'static str, word: u32) -> Family {
    let of = Lanes::Bits;
    Family { name, word, of }
}

const fn between(name: &'static str, word: u32, target: Shape, source: Shape) -> Opcode {
    Opcode {
        name,
        word,
        target,
        source,
    }
}

pub(super) const ADD: Family = floats("fadd", 0x0E20_D400);
pub(super) const SUBTRACT: Family = floats("fsub", 0x0EA0_D400);
pub(super) const MULTIPLY: Family = floats("fmul", 0x2E20_DC00);
pub(super) const DIVIDE: Family = floats("fdiv", 0x2E20_FC00);
/// The target and the product of the sources, and the target without it.
pub(super) const MULTIPLY_ADD: Family = floats("fmla", 0x0E20_CC00);
pub(super) const MULTIPLY_SUBTRACT: Family = floats("fmls", 0x0EA0_CC00);
pub(super) const EQUAL: Family = floats("fcmeq", 0x0E20_E400);
pub(super) const AT_LEAST: Family = floats("fcmge", 0x2E20_E400);
pub(super) const GREATER: Family = floats("fcmgt", 0x2EA0_E400);
pub(super) const NEGATIVE: Family = floats("fneg", 0x2EA0_F800);
pub(super) const ABS: Family = floats("fabs", 0x0EA0_F800);
pub(super) const SQRT: Family = floats("fsqrt", 0x2EA1_F800);
pub(super) const ROUND: Family = floats("frintn", 0x0E21_8800);
pub(super) const FLOOR: Family = floats("frintm", 0x0E21_9800);
pub(super) const CEIL: Family = floats("frintp", 0x0EA1_8800);
pub(super) const TRUNC: Family = floats("frintz", 0x0EA1_9800);
/// The nearest integer towards zero; 0 for NaN, and the nearest of those there are for others.
pub(super) const TO_INTEGER: Family = floats("fcvtzs", 0x0EA1_B800);
pub(super) const TO_NUMBER: Family = floats("scvtf", 0x0E21_D800);
pub(super) const OF_UNSIGNED: Family = floats("ucvtf", 0x2E21_D800);

pub(super) const AND: Family = bits("and", 0x0E20_1C00);
pub(super) const OR: Family = bits("orr", 0x0EA0_1C00);
pub(super) const XOR: Family = bits("eor", 0x2E20_1C00);
pub(super) const NOT: Family = bits("mvn", 0x2E20_5800);
/// Bits of the first source where those of the target are set, else of the second.
pub(super) const SELECT: Family = bits("bsl", 0x2E60_1C00);
/// Bits of the first source where those of the second are set, else of the target.
pub(super) const INSERT: Family = bits("bit", 0x2EA0_1C00);
/// Bits of the first source where those of the second are not set, else of the target.
pub(super) const INSERT_UNLESS: Family = bits("bif", 0x2EE0_1C00);

pub(super) const ADD_INTEGERS: Family = integers("add", 0x0E20_8400);
pub(super) const SUBTRACT_INTEGERS: Family = integers("sub", 0x2E20_8400);
pub(super) const MULTIPLY_INTEGERS: Family = integers("mul", 0x0E20_9C00);
pub(super) const EQUAL_INTEGERS: Family = integers("cmeq", 0x2E20_8C00);
pub(super) const GREATER_INTEGERS: Family = integers("cmgt", 0x0E20_3400);
/// Whether any bit of both is set.
pub(super) const TEST: Family = integers("cmtst", 0x0E20_8C00);
/// Parts of two lanes change places.
pub(super) const REVERSE: Family = integers("rev64", 0x0E20_0800);
/// The lower halves of the lanes of both, in turns.
pub(super) const ZIP: Family = integers("zip1", 0x0E00_3800);
/// The second lane of each pair, of both in turns.
pub(super) const SECONDS: Family = integers("trn2", 0x0E00_6800);

pub(super) const WIDEN_HALVES: Opcode = between("fcvtl", 0x0E21_7800, Shape::S4, Shape::H4);
pub(super) const WIDEN: Opcode = between("fcvtl", 0x0E61_7800, Shape::D2, Shape::S2);
/// The same of the upper half.
pub(super) const WIDEN_UPPER: Opcode = between("fcvtl2", 0x4E61_7800, Shape::D2, Shape::S4);
pub(super) const NARROW_TO_HALVES: Opcode = between("fcvtn", 0x0E21_6800, Shape::H4, Shape::S4);
pub(super) const NARROW: Opcode = between("fcvtn", 0x0E61_6800, Shape::S2, Shape::D2);
/// The lower halves of lanes.
pub(super) const LOW_BYTES: Opcode = between("xtn", 0x0E21_2800, Shape::B8, Shape::H8);
pub(super) const LOW_WORDS: Opcode = between("xtn", 0x0E61_2800, Shape::H4, Shape::S4);
pub(super) const LOW_HALVES: Opcode = between("xtn", 0x0EA1_2800, Shape::S2, Shape::D2);
pub(super) const WIDEN_BYTES: Opcode = between("uxtl", 0x2F08_A400, Shape::H8, Shape::B8);
pub(super) const WIDEN_WORDS: Opcode = between("uxtl", 0x2F10_A400, Shape::S4, Shape::H4);
pub(super) const WIDEN_UNSIGNED: Opcode = between("uxtl", 0x2F20_A400, Shape::D2, Shape::S2);
pub(super) const WIDEN_INTEGERS: Opcode = between("sxtl", 0x0F20_A400, Shape::D2, Shape::S2);
/// 16 bits that become the upper halves of lanes.
pub(super) const UPPER_WORDS: Opcode = between("shll", 0x2E61_3800, Shape::S4, Shape::H4);
/// The sum of both halves of each lane.
pub(super) const ADD_HALVES: Opcode = between("uaddlp", 0x6EA0_2800, Shape::D2, Shape::S4);
/// The target and the product of the lower halves.
pub(super) const ADD_PRODUCT: Opcode = between("umlal", 0x2EA0_8000, Shape::D2, Shape::S2);

/// Shifts by a number of bits.
pub(super) const fn shift_left(shape: Shape, bits: u8) -> Opcode {
    shift("shl", 0x0F00_5400, shape, (8 << shape.size()) + bits as u32)
}

pub(super) const fn shift_right(shape: Shape, bits: u8) -> Opcode {
    let number = (16 << shape.size()) - bits as u32;
    shift("ushr", 0x2F00_0400, shape, number)
}

const fn shift(name: &'static str, word: u32, shape: Shape, number: u32) -> Opcode {
    let word = word | shape.is_long() << 30 | number << 16;
    between(name, word, shape, shape)
}

/// A general register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct General(pub(super) u8);

impl General {
    /// The pointer to the stack, as a base.
    pub(super) const STACK: Self = Self(31);
    /// The place from which a function was called.
    pub(super) const LINK: Self = Self(30);

    const fn word(self) -> u32 {
        self.0 as u32
    }

    fn base(self) -> String {
        match self {
            Self::STACK => "sp".to_owned(),
            other => other.text(),
        }
    }

    fn text(self) -> String {
        match self.0 {
            31 => "xzr".to_owned(),
            number => format!("x{number}"),
        }
    }
}

/// The address `base + offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Memory {
    pub(super) base: General,
    pub(super) offset: u32,
}

impl Memory {
    pub(super) const fn at(base: General, offset: u32) -> Self {
        Self { base, offset }
    }

    fn text(self) -> String {
        match self.offset {
            0 => format!("[{}]", self.base.base()),
            offset => format!("[{}, #{offset:#x}]", self.base.base()),
        }
    }
}

/// A condition of a jump, by its number. The opposite one differs in the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Equal = 0,
    NotEqual = 1,
    AtLeast = 10,
    Less = 11,
    Greater = 12,
    AtMost = 13,
}

impl Condition {
    const fn name(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::NotEqual => "ne",
            Self::AtLeast => "ge",
            Self::Less => "lt",
            Self::Greater => "gt",
            Self::AtMost => "le",
        }
    }

    const fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::AtLeast => Self::Less,
            Self::Less => Self::AtLeast,
            Self::Greater => Self::AtMost,
            Self::AtMost => Self::Greater,
        }
    }
}

/// The bytes that have been written.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) written: Written,
}

/// The part of a register that is loaded or stored.
const fn part(bytes: usize) -> (&'static str, u32) {
    match bytes {
        1 => ("b", 0x3D00_0000),
        2 => ("h", 0x7D00_0000),
        4 => ("s", 0xBD00_0000),
        8 => ("d", 0xFD00_0000),
        _ => ("q", 0x3D80_0000),
    }
}

impl Encoder {
    fn word(&mut self, word: u32, text: impl FnOnce() -> String) {
        self.written.note(text);
        self.written.bytes.extend(word.to_le_bytes());
    }

    /// An instruction `target, first, second` on vectors, or one that shifts by a number of bits.
    pub(super) fn vector(
        &mut self,
        opcode: Opcode,
        target: Register,
        first: Register,
        second: Option<Register>,
        bits: Option<u8>,
    ) {
        let [d, n] = [target, first].map(number);
        let m = second.map_or(0, number);
        self.word(opcode.word | m << 16 | n << 5 | d, || {
            let [to, of] = [opcode.target, opcode.source].map(Shape::name);
            // A vector or itself is the usual way to copy.
            let is_copy = opcode.name == "orr" && second == Some(first);
            let name = if is_copy { "mov" } else { opcode.name };
            let mut text = format!("{name} v{d}.{to}, v{n}.{of}");
            if second.is_some() && !is_copy {
                text += &format!(", v{m}.{of}");
            }
            if let Some(bits) = bits {
                text += &format!(", #{bits:#x}");
            }
            text
        });
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.vector(OR.of(Shape::B16), to, from, Some(from), None);
    }

    /// Loads the lowest bytes of a vector, and zeros.
    pub(super) fn load(&mut self, target: Register, memory: Memory, bytes: usize) {
        let (name, word) = part(bytes);
        let (d, n) = (number(target), memory.base.word());
        let units = memory.offset / bytes as u32;
        self.word(word | 0x0040_0000 | units << 10 | n << 5 | d, || {
            format!("ldr {name}{d}, {}", memory.text())
        });
    }

    /// Stores the lowest bytes of a vector.
    pub(super) fn store(&mut self, memory: Memory, source: Register, bytes: usize) {
        let (name, word) = part(bytes);
        let (d, n) = (number(source), memory.base.word());
        let units = memory.offset / bytes as u32;
        self.word(word | units << 10 | n << 5 | d, || {
            format!("str {name}{d}, {}", memory.text())
        });
    }

    /// Loads one element into all lanes.
    pub(super) fn repeat(&mut self, target: Register, base: General, shape: Shape) {
        let (d, n) = (number(target), base.word());
        let word = 0x0D40_C000 | shape.is_long() << 30 | shape.size() << 10;
        self.word(word | n << 5 | d, || {
            format!("ld1r {{v{d}.{}}}, [{}]", shape.name(), base.base())
        });
    }

    /// A lane of 64 bits.
    pub(super) fn lane(&mut self, target: General, source: Register, lane: u8) {
        let n = number(source);
        let word = 0x4E08_3C00 | u32::from(lane) << 20;
        self.word(word | n << 5 | target.word(), || {
            format!("mov {}, v{n}.d[{lane}]", target.text())
        });
    }

    /// The f32 nearest to an integer, in the first lane.
    pub(super) fn single_of(&mut self, target: Register, source: General) {
        let d = number(target);
        self.word(0x9E22_0000 | source.word() << 5 | d, || {
            format!("scvtf s{d}, {}", source.text())
        });
    }

    /// Stores or loads the lower halves of two vectors at the end of the stack.
    pub(super) fn push_halves(&mut self, [a, b]: [Register; 2]) {
        let [a, b] = [a, b].map(number);
        self.word(0x6DBF_03E0 | b << 10 | a, || {
            format!("stp d{a}, d{b}, [sp, #-0x10]!")
        });
    }

    pub(super) fn pop_halves(&mut self, [a, b]: [Register; 2]) {
        let [a, b] = [a, b].map(number);
        self.word(0x6CC1_03E0 | b << 10 | a, || {
            format!("ldp d{a}, d{b}, [sp], #0x10")
        });
    }

    pub(super) fn push(&mut self, [a, b]: [General; 2]) {
        self.word(0xA9BF_03E0 | b.word() << 10 | a.word(), || {
            format!("stp {}, {}, [sp, #-0x10]!", a.text(), b.text())
        });
    }

    pub(super) fn pop(&mut self, [a, b]: [General; 2]) {
        self.word(0xA8C1_03E0 | b.word() << 10 | a.word(), || {
            format!("ldp {}, {}, [sp], #0x10", a.text(), b.text())
        });
    }

    /// Loads a general register.
    pub(super) fn load_general(&mut self, target: General, memory: Memory) {
        let units = memory.offset / 8;
        let word = 0xF940_0000 | units << 10 | memory.base.word() << 5;
        self.word(word | target.word(), || {
            format!("ldr {}, {}", target.text(), memory.text())
        });
    }

    /// Stores a general register.
    pub(super) fn store_general(&mut self, memory: Memory, source: General) {
        let units = memory.offset / 8;
        let word = 0xF900_0000 | units << 10 | memory.base.word() << 5;
        self.word(word | source.word(), || {
            format!("str {}, {}", source.text(), memory.text())
        });
    }

    /// Sets a register to a number.
    pub(super) fn set(&mut self, target: General, number: u32) {
        let (low, high) = (number & 0xFFFF, number >> 16);
        self.word(0xD280_0000 | low << 5 | target.word(), || {
            format!("mov {}, #{low:#x}", target.text())
        });
        if high != 0 {
            self.word(0xF2A0_0000 | high << 5 | target.word(), || {
                format!("movk {}, #{high:#x}, lsl #16", target.text())
            });
        }
    }

    pub(super) fn add_number(&mut self, target: General, source: General, number: u32) {
        self.word(
            0x9100_0000 | number << 10 | source.word() << 5 | target.word(),
            || format!("add {}, {}, #{number:#x}", target.text(), source.text()),
        );
    }

    pub(super) fn subtract_number(&mut self, target: General, source: General, number: u32) {
        self.word(
            0xD100_0000 | number << 10 | source.word() << 5 | target.word(),
            || format!("sub {}, {}, #{number:#x}", target.text(), source.text()),
        );
    }

    /// Adds `2^shift` times another register.
    pub(super) fn add(&mut self, target: General, source: General, other: General, shift: u8) {
        let word = 0x8B00_0000 | other.word() << 16 | u32::from(shift) << 10;
        self.word(word | source.word() << 5 | target.word(), || {
            let (target, source, other) = (target.text(), source.text(), other.text());
            match shift {
                0 => format!("add {target}, {source}, {other}"),
                _ => format!("add {target}, {source}, {other}, lsl #{shift}"),
            }
        });
    }

    /// The lowest bits of a register.
    pub(super) fn low_bits(&mut self, target: General, source: General, count: u8) {
        let last = u32::from(count) - 1;
        let word = 0x9240_0000 | last << 10 | source.word() << 5;
        self.word(word | target.word(), || {
            let mask = (1u64 << count) - 1;
            format!("and {}, {}, #{mask:#x}", target.text(), source.text())
        });
    }

    pub(super) fn or(&mut self, target: General, source: General, other: General) {
        let word = 0xAA00_0000 | other.word() << 16 | source.word() << 5;
        self.word(word | target.word(), || {
            let (target, source, other) = (target.text(), source.text(), other.text());
            format!("orr {target}, {source}, {other}")
        });
    }

    pub(super) fn compare(&mut self, first: General, second: General) {
        self.word(
            0xEB00_001F | second.word() << 16 | first.word() << 5,
            || format!("cmp {}, {}", first.text(), second.text()),
        );
    }

    /// Compares some of the lowest bits of a register with zero.
    pub(super) fn test_low_bits(&mut self, general: General, count: u32) {
        let word = 0xF240_001F | (count - 1) << 10 | general.word() << 5;
        self.word(word, || {
            format!("tst {}, #{:#x}", general.text(), (1_u64 << count) - 1)
        });
    }

    /// The first of two registers if the condition holds, else the second.
    pub(super) fn choose(
        &mut self,
        target: General,
        first: General,
        second: General,
        condition: Condition,
    ) {
        let word = 0x9A80_0000 | second.word() << 16 | (condition as u32) << 12;
        self.word(word | first.word() << 5 | target.word(), || {
            let (first, second) = (first.text(), second.text());
            format!(
                "csel {}, {first}, {second}, {}",
                target.text(),
                condition.name()
            )
        });
    }

    /// A jump over the next instruction.
    fn skip_one(&mut self, condition: Condition) {
        self.word(0x5400_0040 | condition as u32, || {
            format!("b.{}", condition.name())
        });
    }

    /// A jump to a place that [`Encoder::land`] tells. It may be far away.
    pub(super) fn jump_forward(&mut self, condition: Condition) -> Jump {
        self.skip_one(condition.opposite());
        self.jump()
    }

    /// The same if a register is zero.
    pub(super) fn jump_if_zero(&mut self, general: General) -> Jump {
        self.word(0xB500_0040 | general.word(), || {
            format!("cbnz {}", general.text())
        });
        self.jump()
    }

    fn jump(&mut self) -> Jump {
        let start = self.written.bytes.len();
        self.word(0x1400_0000, || "b".to_owned());
        Jump(start)
    }

    pub(super) fn land(&mut self, jump: Jump) {
        let distance = (self.written.bytes.len() - jump.0) / 4;
        let word = 0x1400_0000 | distance as u32;
        self.written.bytes[jump.0..jump.0 + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// A jump to a place that is known.
    pub(super) fn jump_back(&mut self, condition: Condition, to: usize) {
        let words = ((self.written.bytes.len() - to) / 4) as u32;
        if words < 1 << 18 {
            let distance = words.wrapping_neg() << 5 & 0x00FF_FFE0;
            return self.word(0x5400_0000 | distance | condition as u32, || {
                format!("b.{}", condition.name())
            });
        }
        // Too far for a condition.
        self.skip_one(condition.opposite());
        let distance = (words + 1).wrapping_neg() & 0x03FF_FFFF;
        self.word(0x1400_0000 | distance, || "b".to_owned());
    }

    /// The start of a loop.
    pub(super) fn align(&mut self) -> usize {
        while !self.written.bytes.len().is_multiple_of(32) {
            self.word(0xD503_201F, || "nop".to_owned());
        }
        self.written.bytes.len()
    }

    pub(super) fn call(&mut self, general: General) {
        self.word(0xD63F_0000 | general.word() << 5, || {
            format!("blr {}", general.text())
        });
    }

    /// The end of the function.
    pub(super) fn finish(&mut self) {
        self.word(0xD65F_03C0, || "ret".to_owned());
    }
}

/// The pairs of registers whose lower halves belong to the caller.
pub(super) fn saved_halves() -> impl DoubleEndedIterator<Item = [Register; 2]> {
    let pairs = [24, 26, 28, 30].into_iter();
    pairs.map(|first| [first, first + 1].map(|number| Register::new(number, Width::V8)))
}
