//! The instructions of x86-64 as bytes: the forms that formulas need of general, VEX (AVX2) and
//! EVEX (AVX-512) instructions.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2.

use std::fmt::Write;

use crate::assembler::machine::{Jump, Register, Width, Written};

/// Instructions of one to nine bytes that do nothing.
/// Source: the manual, "NOP", recommended multi-byte sequences.
const NOPS: [(&[u8], &str); 9] = [
    (&[0x90], "nop"),
    (&[0x66, 0x90], "xchg ax,ax"),
    (&[0x0F, 0x1F, 0x00], "nop [rax]"),
    (&[0x0F, 0x1F, 0x40, 0x00], "nop [rax]"),
    (&[0x0F, 0x1F, 0x44, 0x00, 0x00], "nop [rax+rax]"),
    (&[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00], "nop [rax+rax]"),
    (&[0x0F, 0x1F, 0x80, 0, 0, 0, 0], "nop [rax]"),
    (&[0x0F, 0x1F, 0x84, 0x00, 0, 0, 0, 0], "nop [rax+rax]"),
    (&[0x66, 0x0F, 0x1F, 0x84, 0x00, 0, 0, 0, 0], "nop [rax+rax]"),
];

/// The bits of the length in prefixes.
const fn bits(width: Width) -> u8 {
    match width {
        Width::Mask | Width::V8 | Width::V16 => 0,
        Width::V32 => 1,
        Width::V64 => 2,
    }
}

impl Register {
    fn text(self) -> String {
        let name = match self.width {
            Width::Mask => "k",
            Width::V8 | Width::V16 => "xmm",
            Width::V32 => "ymm",
            Width::V64 => "zmm",
        };
        format!("{name}{}", self.number)
    }
}

/// A general register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct General(u8);

impl General {
    pub(super) const RAX: Self = Self(0);
    pub(super) const RCX: Self = Self(1);
    pub(super) const RDX: Self = Self(2);
    pub(super) const RBX: Self = Self(3);
    pub(super) const RBP: Self = Self(5);
    pub(super) const RSI: Self = Self(6);
    pub(super) const RDI: Self = Self(7);
    pub(super) const R8: Self = Self(8);
    pub(super) const R9: Self = Self(9);
    pub(super) const R10: Self = Self(10);
    pub(super) const R11: Self = Self(11);
    pub(super) const R12: Self = Self(12);
    pub(super) const R13: Self = Self(13);
    pub(super) const R14: Self = Self(14);
    pub(super) const R15: Self = Self(15);

    const fn name(self) -> &'static str {
        const NAMES: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        NAMES[self.0 as usize]
    }

    /// The name of the lower half.
    const fn half(self) -> &'static str {
        const NAMES: [&str; 16] = [
            "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d",
            "r12d", "r13d", "r14d", "r15d",
        ];
        NAMES[self.0 as usize]
    }
}

/// The address `base + scale * index + offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Memory {
    pub(super) base: General,
    pub(super) index: Option<(General, u8)>,
    pub(super) offset: i32,
}

impl Memory {
    pub(super) const fn at(base: General, offset: i32) -> Self {
        Self {
            base,
            index: None,
            offset,
        }
    }

    fn text(self) -> String {
        let mut text = format!("[{}", self.base.name());
        if let Some((index, scale)) = self.index {
            let _ = match scale {
                1 => write!(text, "+{}", index.name()),
                _ => write!(text, "+{}*{scale}", index.name()),
            };
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        if self.offset != 0 {
            let _ = write!(text, "{sign}{:#x}", self.offset.unsigned_abs());
        }
        text + "]"
    }
}

/// The last operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operand {
    Register(Register),
    /// This number of bytes.
    Memory(Memory, usize),
    /// One element of the first number of bytes, in all of the second number of lanes.
    Broadcast(Memory, usize, usize),
}

impl Operand {
    fn text(self) -> String {
        match self {
            Self::Register(register) => register.text(),
            Self::Memory(memory, _) => memory.text(),
            Self::Broadcast(memory, _, lanes) => format!("{}{{1to{lanes}}}", memory.text()),
        }
    }
}

/// The numbers of an instruction on vectors in the manual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opcode {
    pub(super) name: &'static str,
    map: u8,
    prefix: u8,
    /// The bit W: of elements of 64 bits, with exceptions in VEX.
    wide: bool,
    byte: u8,
}

/// The prefixes in the order of their numbers.
pub(super) const NONE: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

pub(super) const fn opcode(
    name: &'static str,
    map: u8,
    prefix: u8,
    wide: bool,
    byte: u8,
) -> Opcode {
    Opcode {
        name,
        map,
        prefix,
        wide,
        byte,
    }
}

/// An instruction on f32 and the one on f64.
const fn floats(single: &'static str, double: &'static str, byte: u8) -> [Opcode; 2] {
    [
        opcode(single, 1, NONE, false, byte),
        opcode(double, 1, P66, true, byte),
    ]
}

/// An instruction with prefix 66 that differs in the bit W alone.
const fn pair(single: &'static str, double: &'static str, map: u8, byte: u8) -> [Opcode; 2] {
    [
        opcode(single, map, P66, false, byte),
        opcode(double, map, P66, true, byte),
    ]
}

pub(super) const ADD: [Opcode; 2] = floats("vaddps", "vaddpd", 0x58);
pub(super) const MULTIPLY: [Opcode; 2] = floats("vmulps", "vmulpd", 0x59);
pub(super) const SUBTRACT: [Opcode; 2] = floats("vsubps", "vsubpd", 0x5C);
pub(super) const DIVIDE: [Opcode; 2] = floats("vdivps", "vdivpd", 0x5E);
pub(super) const SQRT: [Opcode; 2] = floats("vsqrtps", "vsqrtpd", 0x51);
/// The first if it is greater (less), else the second.
pub(super) const MAXIMUM: [Opcode; 2] = floats("vmaxps", "vmaxpd", 0x5F);
pub(super) const MINIMUM: [Opcode; 2] = floats("vminps", "vminpd", 0x5D);
pub(super) const AND: [Opcode; 2] = floats("vandps", "vandpd", 0x54);
pub(super) const OR: [Opcode; 2] = floats("vorps", "vorpd", 0x56);
pub(super) const XOR: [Opcode; 2] = floats("vxorps", "vxorpd", 0x57);
pub(super) const COMPARE: [Opcode; 2] = floats("vcmpps", "vcmppd", 0xC2);
pub(super) const LOAD: [Opcode; 2] = floats("vmovups", "vmovupd", 0x10);
pub(super) const STORE: [Opcode; 2] = floats("vmovups", "vmovupd", 0x11);
/// Stores past the caches, to aligned memory.
pub(super) const STREAM: [Opcode; 2] = floats("vmovntps", "vmovntpd", 0x2B);
pub(super) const MOVE: Opcode = opcode("vmovaps", 1, NONE, false, 0x28);
pub(super) const SHUFFLE: Opcode = opcode("vshufps", 1, NONE, false, 0xC6);

/// `a b + c` with the target in the place of `b`; the others are at distances from it.
pub(super) const MULTIPLY_ADD: [Opcode; 2] = pair("132ps", "132pd", 2, 0x98);

pub(super) const BROADCAST: [Opcode; 2] = [
    opcode("vbroadcastss", 2, P66, false, 0x18),
    // `vbroadcastsd` knows no vectors of 16 bytes.
    opcode("vpbroadcastq", 2, P66, true, 0x59),
];
pub(super) const BLEND: [Opcode; 2] = pair("vblendmps", "vblendmpd", 2, 0x65);
pub(super) const BLEND_BY_SIGN: [Opcode; 2] = [
    opcode("vblendvps", 3, P66, false, 0x4A),
    opcode("vblendvpd", 3, P66, false, 0x4B),
];
pub(super) const ROUND_SCALE: [Opcode; 2] = [
    opcode("vrndscaleps", 3, P66, false, 0x08),
    opcode("vrndscalepd", 3, P66, true, 0x09),
];
pub(super) const ROUND: [Opcode; 2] = [
    opcode("vroundps", 3, P66, false, 0x08),
    opcode("vroundpd", 3, P66, false, 0x09),
];
pub(super) const TERNARY: [Opcode; 2] = pair("vpternlogd", "vpternlogq", 3, 0x25);

/// Shifts, with the number that stands in the place of a register.
pub(super) const SHIFT_LEFT: ([Opcode; 2], u8) = (shifts("vpslld", "vpsllq"), 6);
pub(super) const SHIFT_RIGHT: ([Opcode; 2], u8) = (shifts("vpsrld", "vpsrlq"), 2);

const fn shifts(single: &'static str, double: &'static str) -> [Opcode; 2] {
    [
        opcode(single, 1, P66, false, 0x72),
        opcode(double, 1, P66, true, 0x73),
    ]
}

pub(super) const ADD_INTEGERS: [Opcode; 2] = [
    opcode("vpaddd", 1, P66, false, 0xFE),
    opcode("vpaddq", 1, P66, true, 0xD4),
];
pub(super) const SUBTRACT_INTEGERS: Opcode = opcode("vpsubq", 1, P66, true, 0xFB);
pub(super) const MULTIPLY_INTEGERS: Opcode = opcode("vpmullq", 2, P66, true, 0x40);
pub(super) const MULTIPLY_HALVES: Opcode = opcode("vpmuludq", 1, P66, true, 0xF4);
pub(super) const MAXIMUM_INTEGERS: Opcode = opcode("vpmaxsq", 2, P66, true, 0x3D);
pub(super) const MINIMUM_INTEGERS: Opcode = opcode("vpminsq", 2, P66, true, 0x39);
pub(super) const EQUAL_INTEGERS: Opcode = opcode("vpcmpeqq", 2, P66, true, 0x29);
pub(super) const GREATER_INTEGERS: Opcode = opcode("vpcmpgtq", 2, P66, true, 0x37);
pub(super) const TEST: [Opcode; 2] = pair("vptestmd", "vptestmq", 2, 0x27);
pub(super) const SIGNS: [Opcode; 2] = [
    opcode("vpmovd2m", 2, PF3, false, 0x39),
    opcode("vpmovq2m", 2, PF3, true, 0x39),
];

pub(super) const WIDEN: Opcode = opcode("vcvtps2pd", 1, NONE, false, 0x5A);
pub(super) const NARROW: Opcode = opcode("vcvtpd2ps", 1, P66, true, 0x5A);
pub(super) const TO_NUMBER: [Opcode; 2] = [
    opcode("vcvtqq2ps", 1, NONE, true, 0x5B),
    opcode("vcvtqq2pd", 1, PF3, true, 0xE6),
];
pub(super) const TO_INTEGER: [Opcode; 2] = pair("vcvttps2qq", "vcvttpd2qq", 1, 0x7A);

pub(super) const BROADCAST_WORDS: Opcode = opcode("vpbroadcastw", 2, P66, false, 0x79);
pub(super) const BROADCAST_BYTES: Opcode = opcode("vpbroadcastb", 2, P66, false, 0x78);
/// Eight bytes, of which VEX does not know the bit W.
pub(super) const LOAD_EIGHT: Opcode = opcode("vmovq", 1, PF3, true, 0x7E);
pub(super) const STORE_EIGHT: Opcode = opcode("vmovq", 1, P66, true, 0xD6);

/// Bytes of truths, into and out of masks.
pub(super) const LOAD_BYTES: Opcode = opcode("vmovdqu8", 1, PF2, false, 0x6F);
pub(super) const STORE_BYTES: Opcode = opcode("vmovdqu8", 1, PF2, false, 0x7F);
pub(super) const TEST_BYTES: Opcode = opcode("vptestmb", 2, P66, false, 0x26);
pub(super) const BYTES_OF_MASK: Opcode = opcode("vpmovm2b", 2, PF3, false, 0x28);
pub(super) const ABS_BYTES: Opcode = opcode("vpabsb", 2, P66, false, 0x1C);

/// Bytes of truths, into and out of vectors.
pub(super) const WIDEN_BYTES: [Opcode; 2] = [
    opcode("vpmovzxbd", 2, P66, false, 0x31),
    opcode("vpmovzxbq", 2, P66, false, 0x32),
];
pub(super) const WIDEN_WORDS: Opcode = opcode("vpmovzxwd", 2, P66, false, 0x33);
pub(super) const WIDEN_INTEGERS: Opcode = opcode("vpmovsxdq", 2, P66, false, 0x25);
pub(super) const WIDEN_F16: Opcode = opcode("vcvtph2ps", 2, P66, false, 0x13);
pub(super) const STORE_F16: Opcode = opcode("vcvtps2ph", 3, P66, false, 0x1D);
pub(super) const STORE_WORDS: Opcode = opcode("vpmovdw", 2, PF3, false, 0x33);
pub(super) const STORE_INTEGERS: Opcode = opcode("vpmovqd", 2, PF3, false, 0x35);
pub(super) const STORE_LOW_BYTES: Opcode = opcode("vpmovqb", 2, PF3, false, 0x32);
/// Half of 32 bytes, as VEX and as EVEX name it, and of 64.
pub(super) const UPPER_HALF: [Opcode; 2] = [
    opcode("vextracti128", 3, P66, false, 0x39),
    opcode("vextracti32x4", 3, P66, false, 0x39),
];
pub(super) const UPPER_HALF_OF_64: Opcode = opcode("vextracti64x4", 3, P66, true, 0x3B);
pub(super) const PACK_WORDS: Opcode = opcode("vpackssdw", 1, P66, false, 0x6B);
pub(super) const PACK_UNSIGNED_WORDS: Opcode = opcode("vpackusdw", 2, P66, false, 0x2B);
pub(super) const PACK_UNSIGNED_BYTES: Opcode = opcode("vpackuswb", 1, P66, false, 0x67);
pub(super) const PACK_BYTES: Opcode = opcode("vpacksswb", 1, P66, false, 0x63);
pub(super) const LOAD_FOUR: Opcode = opcode("vmovd", 1, P66, false, 0x6E);
pub(super) const STORE_FOUR: Opcode = opcode("vmovd", 1, P66, false, 0x7E);
pub(super) const STORE_TWO: Opcode = opcode("vpextrw", 3, P66, false, 0x15);
pub(super) const STORE_ONE: Opcode = opcode("vpextrb", 3, P66, false, 0x14);

/// Masks. Those of two have the bit of the length set.
pub(super) const AND_MASKS: Opcode = opcode("kandw", 1, NONE, false, 0x41);
pub(super) const OR_MASKS: Opcode = opcode("korw", 1, NONE, false, 0x45);
pub(super) const XOR_MASKS: Opcode = opcode("kxorw", 1, NONE, false, 0x47);
pub(super) const SAME_MASKS: Opcode = opcode("kxnorw", 1, NONE, false, 0x46);
pub(super) const NOT_MASK: Opcode = opcode("knotw", 1, NONE, false, 0x44);
pub(super) const LOAD_MASK: Opcode = opcode("kmovw", 1, NONE, false, 0x90);
pub(super) const STORE_MASK: Opcode = opcode("kmovw", 1, NONE, false, 0x91);
const TEST_MASKS: Opcode = opcode("kortestw", 1, NONE, false, 0x98);
const GENERAL_OF_SIGNS: [Opcode; 2] = floats("vmovmskps", "vmovmskpd", 0x50);
const MASK_OF_GENERAL: Opcode = opcode("kmovw", 1, NONE, false, 0x92);

impl Opcode {
    /// The same instruction at a distance in the table, and its name.
    pub(super) const fn fused(self, name: &'static str, distance: u8) -> Self {
        Self {
            name,
            byte: self.byte + distance,
            ..self
        }
    }

    /// Whether VEX knows the bit W of the instruction: only the fused ones have it.
    const fn is_wide_in_vex(self) -> bool {
        self.wide && self.map == 2 && self.byte >= 0x96 && self.byte <= 0xBF
    }
}

/// The lanes that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lanes {
    All,
    /// Those of a mask; the others stay.
    Of(u8),
    /// Those of a mask; the others become zero.
    Only(u8),
}

/// A condition of a jump, as the number after which the opposite one comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Zero = 0x4,
    NotZero = 0x5,
    Less = 0xC,
    AtLeast = 0xD,
    AtMost = 0xE,
    Greater = 0xF,
}

/// The bytes that have been written.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) written: Written,
    /// Whether instructions are those of AVX-512.
    pub(super) is_evex: bool,
}

impl Encoder {
    fn note(&mut self, text: impl FnOnce() -> String) {
        self.written.note(text);
    }

    /// An instruction `first, second, last, immediate` on vectors of a length.
    pub(super) fn vector(
        &mut self,
        opcode: Opcode,
        length: Width,
        (first, lanes): (Register, Lanes),
        second: Option<Register>,
        last: Operand,
        immediate: Option<u8>,
    ) {
        self.note(|| {
            let mut text = format!("{} {}{}", opcode.name, first.text(), lanes.text());
            if let Some(second) = second {
                text = text + "," + &second.text();
            }
            text = text + "," + &last.text();
            if let Some(immediate) = immediate {
                text += &format!(",{immediate:#x}");
            }
            text
        });
        let second = second.map_or(0, |register| register.number);
        self.fields(opcode, length, (first.number, lanes), second, last);
        self.written.bytes.extend(immediate);
    }

    /// A store of vectors.
    pub(super) fn store(
        &mut self,
        opcode: Opcode,
        (memory, bytes): (Memory, usize),
        lanes: Lanes,
        from: Register,
        immediate: Option<u8>,
    ) {
        self.note(|| {
            let (memory, lanes, from) = (memory.text(), lanes.text(), from.text());
            let text = format!("{} {memory}{lanes},{from}", opcode.name);
            immediate.map_or(text.clone(), |immediate| format!("{text},{immediate:#x}"))
        });
        let operand = Operand::Memory(memory, bytes);
        self.fields(opcode, from.width, (from.number, lanes), 0, operand);
        self.written.bytes.extend(immediate);
    }

    /// An instruction that has its source in the place of the first operand.
    pub(super) fn extract(
        &mut self,
        opcode: Opcode,
        target: Register,
        source: Register,
        immediate: u8,
    ) {
        self.note(|| {
            let (target, source) = (target.text(), source.text());
            format!("{} {target},{source},{immediate:#x}", opcode.name)
        });
        let operand = Operand::Register(target);
        let first = (source.number, Lanes::All);
        self.fields(opcode, source.width, first, 0, operand);
        self.written.bytes.push(immediate);
    }

    /// A shift by a number of bits.
    pub(super) fn shift(
        &mut self,
        (opcode, digit): (Opcode, u8),
        target: Register,
        source: Operand,
        bits: u8,
    ) {
        let length = target.width;
        self.note(|| {
            let (target, source) = (target.text(), source.text());
            format!("{} {target},{source},{bits:#x}", opcode.name)
        });
        self.fields(opcode, length, (digit, Lanes::All), target.number, source);
        self.written.bytes.push(bits);
    }

    /// A choice by the signs of a vector, in AVX2.
    pub(super) fn blend_by_sign(
        &mut self,
        opcode: Opcode,
        target: Register,
        otherwise: Register,
        chosen: Operand,
        truth: Register,
    ) {
        let length = target.width;
        self.note(|| {
            let (target, otherwise) = (target.text(), otherwise.text());
            let (chosen, truth) = (chosen.text(), truth.text());
            format!("{} {target},{otherwise},{chosen},{truth}", opcode.name)
        });
        let first = (target.number, Lanes::All);
        self.fields(opcode, length, first, otherwise.number, chosen);
        self.written.bytes.push(truth.number << 4);
    }

    /// An instruction on registers of masks.
    pub(super) fn masks(&mut self, opcode: Opcode, first: u8, second: Option<u8>, last: u8) {
        self.note(|| match second {
            Some(second) => format!("{} k{first},k{second},k{last}", opcode.name),
            None => format!("{} k{first},k{last}", opcode.name),
        });
        let length = if second.is_some() {
            Width::V32
        } else {
            Width::V16
        };
        let last = Operand::Register(Register::new(last, Width::Mask));
        self.vex(opcode, length, first, second.unwrap_or(0), last);
    }

    pub(super) fn load_mask(&mut self, mask: u8, memory: Memory) {
        self.note(|| format!("{} k{mask},{}", LOAD_MASK.name, memory.text()));
        self.vex(LOAD_MASK, Width::V16, mask, 0, Operand::Memory(memory, 2));
    }

    pub(super) fn store_mask(&mut self, memory: Memory, mask: u8) {
        self.note(|| format!("{} {},k{mask}", STORE_MASK.name, memory.text()));
        self.vex(STORE_MASK, Width::V16, mask, 0, Operand::Memory(memory, 2));
    }

    pub(super) fn mask_of_general(&mut self, mask: u8, general: General) {
        self.note(|| format!("{} k{mask},{}", MASK_OF_GENERAL.name, general.half()));
        let last = Operand::Register(Register::new(general.0, Width::Mask));
        self.vex(MASK_OF_GENERAL, Width::V16, mask, 0, last);
    }

    /// Compares a mask with zero.
    pub(super) fn test_mask(&mut self, mask: u8) {
        self.masks(TEST_MASKS, mask, None, mask);
    }

    /// Compares the signs of the f32 or f64 in a vector with zero.
    pub(super) fn test_signs(&mut self, spare: General, vector: Register, is_double: bool) {
        let opcode = GENERAL_OF_SIGNS[usize::from(is_double)];
        self.note(|| format!("{} {},{}", opcode.name, spare.half(), vector.text()));
        self.vex(opcode, vector.width, spare.0, 0, Operand::Register(vector));
        self.note(|| format!("test {},{}", spare.name(), spare.name()));
        self.general(&[0x85], spare.0, spare.operand());
    }

    /// The prefixes, the byte of the instruction and its operands.
    fn fields(
        &mut self,
        opcode: Opcode,
        length: Width,
        (first, lanes): (u8, Lanes),
        second: u8,
        last: Operand,
    ) {
        match self.is_evex {
            true => self.evex(opcode, length, (first, lanes), second, last),
            false => {
                debug_assert_eq!(lanes, Lanes::All);
                self.vex(opcode, length, first, second, last);
            }
        }
    }

    fn evex(
        &mut self,
        opcode: Opcode,
        length: Width,
        (first, lanes): (u8, Lanes),
        second: u8,
        last: Operand,
    ) {
        let (x, b) = last.high_bits();
        // The highest bits of registers are stored inverted.
        let inverted = |bit: u8, place: u32| ((bit ^ 1) & 1) << place;
        let (mask, zeroing) = match lanes {
            Lanes::All => (0, 0),
            Lanes::Of(mask) => (mask, 0),
            Lanes::Only(mask) => (mask, 1),
        };
        let broadcast = u8::from(matches!(last, Operand::Broadcast(..)));
        self.written.bytes.extend([
            0x62,
            inverted(first >> 3, 7)
                | inverted(x, 6)
                | inverted(b, 5)
                | inverted(first >> 4, 4)
                | opcode.map,
            u8::from(opcode.wide) << 7 | (!second & 15) << 3 | 1 << 2 | opcode.prefix,
            zeroing << 7 | bits(length) << 5 | broadcast << 4 | inverted(second >> 4, 3) | mask,
            opcode.byte,
        ]);
        let unit = match last {
            Operand::Register(_) => 1,
            Operand::Memory(_, bytes) | Operand::Broadcast(_, bytes, _) => bytes as i32,
        };
        self.operands(first, last, unit);
    }

    fn vex(&mut self, opcode: Opcode, length: Width, first: u8, second: u8, last: Operand) {
        debug_assert!(first < 16 && second < 16);
        let (x, b) = last.high_bits();
        let (x, b) = match last {
            // The bit of 16 is one of EVEX.
            Operand::Register(_) => (0, b),
            Operand::Memory(..) | Operand::Broadcast(..) => (x, b),
        };
        let wide = u8::from(opcode.is_wide_in_vex());
        let tail = (!second & 15) << 3 | bits(length) << 2 | opcode.prefix;
        let r = first >> 3 & 1;
        match x == 0 && b == 0 && wide == 0 && opcode.map == 1 {
            true => self.written.bytes.extend([0xC5, (r ^ 1) << 7 | tail]),
            false => self.written.bytes.extend([
                0xC4,
                (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | opcode.map,
                wide << 7 | tail,
            ]),
        }
        self.written.bytes.push(opcode.byte);
        self.operands(first, last, 1);
    }

    /// The byte of the operands, and the address, whose short offsets count units.
    fn operands(&mut self, first: u8, last: Operand, unit: i32) {
        let first = (first & 7) << 3;
        let memory = match last {
            Operand::Register(register) => {
                return self.written.bytes.push(0xC0 | first | register.number & 7);
            }
            Operand::Memory(memory, _) | Operand::Broadcast(memory, ..) => memory,
        };
        let base = memory.base.0 & 7;
        let short = i8::try_from(memory.offset / unit).ok();
        let short = short.filter(|_| memory.offset % unit == 0);
        let (mode, offset) = match (memory.offset, short) {
            // Without an offset this base would stand for none.
            (0, _) if base != 5 => (0, None),
            (_, Some(short)) => (0x40, Some(short)),
            (_, None) => (0x80, None),
        };
        match memory.index {
            None if base != 4 => self.written.bytes.push(mode | first | base),
            index => {
                let (index, scale) = index.map_or((4, 1), |(index, scale)| (index.0 & 7, scale));
                self.written.bytes.push(mode | first | 4);
                self.written
                    .bytes
                    .push((scale.trailing_zeros() as u8) << 6 | index << 3 | base);
            }
        }
        match (mode, offset) {
            (0x80, _) => self.written.bytes.extend(memory.offset.to_le_bytes()),
            (_, Some(short)) => self.written.bytes.push(short as u8),
            (_, None) => {}
        }
    }

    /// An instruction on general registers of 64 bits.
    fn general(&mut self, bytes: &[u8], first: u8, last: Operand) {
        let (x, b) = last.high_bits();
        let x = if matches!(last, Operand::Register(_)) {
            0
        } else {
            x
        };
        self.written
            .bytes
            .push(0x48 | (first >> 3 & 1) << 2 | x << 1 | b);
        self.written.bytes.extend(bytes);
        self.operands(first, last, 1);
    }

    pub(super) fn load(&mut self, target: General, memory: Memory) {
        self.note(|| format!("mov {},{}", target.name(), memory.text()));
        self.general(&[0x8B], target.0, Operand::Memory(memory, 8));
    }

    /// Adds a register to a number in memory.
    pub(super) fn add_to_memory(&mut self, memory: Memory, source: General) {
        self.note(|| format!("add {},{}", memory.text(), source.name()));
        self.general(&[0x01], source.0, Operand::Memory(memory, 8));
    }

    pub(super) fn address(&mut self, target: General, memory: Memory) {
        self.note(|| format!("lea {},{}", target.name(), memory.text()));
        self.general(&[0x8D], target.0, Operand::Memory(memory, 8));
    }

    pub(super) fn zero(&mut self, target: General) {
        self.note(|| format!("xor {},{}", target.name(), target.name()));
        self.general(&[0x31], target.0, target.operand());
    }

    pub(super) fn copy(&mut self, target: General, source: General) {
        self.note(|| format!("mov {},{}", target.name(), source.name()));
        self.general(&[0x89], source.0, target.operand());
    }

    pub(super) fn subtract(&mut self, target: General, other: General) {
        self.note(|| format!("sub {},{}", target.name(), other.name()));
        self.general(&[0x29], other.0, target.operand());
    }

    pub(super) fn add_number(&mut self, target: General, number: i32) {
        self.note(|| format!("add {},{number:#x}", target.name()));
        self.general(&[0x81], 0, target.operand());
        self.written.bytes.extend(number.to_le_bytes());
    }

    pub(super) fn set(&mut self, target: General, number: i32) {
        self.note(|| format!("mov {},{:#x}", target.name(), i64::from(number)));
        self.general(&[0xC7], 0, target.operand());
        self.written.bytes.extend(number.to_le_bytes());
    }

    pub(super) fn compare(&mut self, first: General, second: General) {
        self.note(|| format!("cmp {},{}", first.name(), second.name()));
        self.general(&[0x39], second.0, first.operand());
    }

    /// Compares some bits of a register with zero.
    pub(super) fn test(&mut self, general: General, bits: u32) {
        self.note(|| format!("test {},{bits:#x}", general.name()));
        self.general(&[0xF7], 0, general.operand());
        self.written.bytes.extend(bits.to_le_bytes());
    }

    pub(super) fn copy_if_greater(&mut self, target: General, source: General) {
        self.note(|| format!("cmovg {},{}", target.name(), source.name()));
        self.general(&[0x0F, 0x4F], target.0, source.operand());
    }

    /// Keeps the bits of a register that are set in a small number.
    pub(super) fn keep_low_bits(&mut self, target: General, bits: u8) {
        self.note(|| format!("and {},{bits:#x}", target.name()));
        self.general(&[0x83], 4, target.operand());
        self.written.bytes.push(bits);
    }

    /// The lowest `count` bits of a register.
    pub(super) fn low_bits(&mut self, target: General, count: General) {
        self.note(|| {
            let target = target.half();
            format!("bzhi {target},{target},{}", count.half())
        });
        let bzhi = opcode("bzhi", 2, NONE, false, 0xF5);
        let last = target.operand();
        self.vex(bzhi, Width::V16, target.0, count.0, last);
    }

    pub(super) fn push(&mut self, general: General) {
        self.note(|| format!("push {}", general.name()));
        self.with_high_bit(general, 0x50);
    }

    pub(super) fn pop(&mut self, general: General) {
        self.note(|| format!("pop {}", general.name()));
        self.with_high_bit(general, 0x58);
    }

    fn with_high_bit(&mut self, general: General, byte: u8) {
        if general.0 >= 8 {
            self.written.bytes.push(0x41);
        }
        self.written.bytes.push(byte | general.0 & 7);
    }

    /// A jump to a place that [`Encoder::land`] tells.
    pub(super) fn jump_forward(&mut self, condition: Condition) -> Jump {
        self.note(|| condition.text());
        self.written.bytes.extend([0x0F, 0x80 | condition as u8]);
        self.written.bytes.extend([0; 4]);
        Jump(self.written.bytes.len())
    }

    pub(super) fn land(&mut self, jump: Jump) {
        let distance = (self.written.bytes.len() - jump.0) as i32;
        self.written.bytes[jump.0 - 4..jump.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// A jump to a place that is known.
    pub(super) fn jump_back(&mut self, condition: Condition, to: usize) {
        self.note(|| condition.text());
        self.written.bytes.extend([0x0F, 0x80 | condition as u8]);
        let distance = -((self.written.bytes.len() + 4 - to) as i32);
        self.written.bytes.extend(distance.to_le_bytes());
    }

    /// The start of a loop.
    // PERF: what fills the space before a loop in a row runs in each row, so it is few instructions.
    pub(super) fn align(&mut self) -> usize {
        let bytes = self.written.bytes.len();
        let mut left = bytes.next_multiple_of(32) - bytes;
        while left > 0 {
            let (nop, text) = NOPS[left.min(NOPS.len()) - 1];
            self.note(|| text.to_owned());
            self.written.bytes.extend(nop);
            left -= nop.len();
        }
        self.written.bytes.len()
    }

    pub(super) fn call(&mut self, general: General) {
        self.note(|| format!("call {}", general.name()));
        self.general(&[0xFF], 2, general.operand());
    }

    /// What compiled code expects where it begins and after it has called.
    pub(super) fn forget_upper_halves(&mut self) {
        self.note(|| "vzeroupper".to_owned());
        self.written.bytes.extend([0xC5, 0xF8, 0x77]);
    }

    /// Stores past the caches come before all that follows.
    pub(super) fn fence(&mut self) {
        self.note(|| "sfence".to_owned());
        self.written.bytes.extend([0x0F, 0xAE, 0xF8]);
    }

    /// The end of the function.
    pub(super) fn finish(&mut self) {
        self.forget_upper_halves();
        self.note(|| "ret".to_owned());
        self.written.bytes.push(0xC3);
    }
}

impl Lanes {
    fn text(self) -> String {
        match self {
            Self::All => String::new(),
            Self::Of(mask) => format!("{{k{mask}}}"),
            Self::Only(mask) => format!("{{k{mask}}}{{z}}"),
        }
    }
}

impl Condition {
    fn text(self) -> String {
        let name = match self {
            Self::Zero => "je",
            Self::NotZero => "jne",
            Self::Less => "jl",
            Self::AtLeast => "jge",
            Self::AtMost => "jle",
            Self::Greater => "jg",
        };
        name.to_owned()
    }
}

impl General {
    const fn operand(self) -> Operand {
        Operand::Register(Register::new(self.0, Width::V16))
    }
}

impl Operand {
    /// The bits of 16 (or of the index) and of 8.
    const fn high_bits(self) -> (u8, u8) {
        match self {
            Self::Register(register) => (register.number >> 4 & 1, register.number >> 3 & 1),
            Self::Memory(memory, _) | Self::Broadcast(memory, ..) => {
                let x = match memory.index {
                    Some((index, _)) => index.0 >> 3 & 1,
                    None => 0,
                };
                (x, memory.base.0 >> 3 & 1)
            }
        }
    }
}
