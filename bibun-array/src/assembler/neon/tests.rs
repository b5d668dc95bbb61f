//! The words of instructions against another disassembler.

use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::ARMv8;

use super::Neon;
use super::encoder::{self as arm, Condition, Encoder, Family, General, Memory, Opcode, Shape};
use crate::assembler::machine::{Register, Width, Written};
use crate::assembler::registers::assemble;
use crate::assembler::tests::{compare, compare_plans, with_plans};

/// The instructions in some code, by another disassembler.
fn disassembled(code: &[u8]) -> Vec<(usize, String)> {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let words = code.chunks(4).enumerate();
    words
        .map(|(i, word)| {
            let instruction = decoder
                .decode(&mut U8Reader::new(word))
                .unwrap_or_else(|error| panic!("{error} at {}: {word:02x?}", 4 * i));
            let mut text = instruction.to_string();
            // Where a jump goes.
            if let Some(end) = text.find("$").filter(|_| text.starts_with(['b', 'c'])) {
                text.truncate(end);
                text = text.trim_end_matches([' ', ',']).to_owned();
            }
            // Widening as it is commonly written.
            if text.starts_with(['s', 'u']) && text[1..].starts_with("shll ") {
                text = text.replacen("shll", "xtl", 1).replace(", #0x0", "");
            }
            (4 * i, text)
        })
        .collect()
}

#[test]
fn another_disassembler_reads_the_same_instructions() {
    compare_plans(Neon, disassembled);
}

/// Instructions on one vector or two, in all their shapes.
fn families(of_two: bool) -> Vec<Opcode> {
    use Shape::{B8, B16, D2, H4, H8, S2, S4};
    let of_floats: &[Family] = match of_two {
        true => &[
            arm::ADD,
            arm::SUBTRACT,
            arm::MULTIPLY,
            arm::DIVIDE,
            arm::MULTIPLY_ADD,
            arm::MULTIPLY_SUBTRACT,
            arm::EQUAL,
            arm::AT_LEAST,
            arm::GREATER,
        ],
        false => &[
            arm::NEGATIVE,
            arm::ABS,
            arm::SQRT,
            arm::ROUND,
            arm::FLOOR,
            arm::CEIL,
            arm::TRUNC,
            arm::TO_INTEGER,
            arm::TO_NUMBER,
            arm::OF_UNSIGNED,
        ],
    };
    let of_bits: &[Family] = match of_two {
        true => &[
            arm::AND,
            arm::OR,
            arm::XOR,
            arm::SELECT,
            arm::INSERT,
            arm::INSERT_UNLESS,
        ],
        false => &[arm::NOT],
    };
    let of_integers: &[Family] = match of_two {
        true => &[
            arm::ADD_INTEGERS,
            arm::SUBTRACT_INTEGERS,
            arm::EQUAL_INTEGERS,
            arm::GREATER_INTEGERS,
            arm::TEST,
            arm::ZIP,
            arm::SECONDS,
        ],
        false => &[],
    };
    // There are none of lanes of 64 bits.
    let of_small: &[Family] = match of_two {
        true => &[arm::MULTIPLY_INTEGERS],
        false => &[arm::REVERSE],
    };
    let in_shapes = |families: &[Family], shapes: &[Shape]| -> Vec<Opcode> {
        let of = |family: &Family| shapes.iter().map(|&shape| family.of(shape)).collect();
        families.iter().flat_map::<Vec<Opcode>, _>(of).collect()
    };
    [
        in_shapes(of_floats, &[S2, S4, D2]),
        in_shapes(of_bits, &[B8, B16]),
        in_shapes(of_integers, &[B8, B16, H4, H8, S2, S4, D2]),
        in_shapes(of_small, &[B8, B16, H4, H8, S2, S4]),
    ]
    .concat()
}

const CONVERSIONS: [Opcode; 13] = [
    arm::WIDEN_HALVES,
    arm::WIDEN,
    arm::WIDEN_UPPER,
    arm::NARROW_TO_HALVES,
    arm::NARROW,
    arm::LOW_BYTES,
    arm::LOW_WORDS,
    arm::LOW_HALVES,
    arm::WIDEN_BYTES,
    arm::WIDEN_WORDS,
    arm::WIDEN_UNSIGNED,
    arm::WIDEN_INTEGERS,
    arm::ADD_HALVES,
];

#[test]
fn all_registers_and_addresses_are_encoded() {
    let mut encoder = Encoder {
        written: Written {
            notes: Some(Vec::new()),
            ..Written::default()
        },
    };
    let vector = |number: u8| Register::new(number % 32, Width::V16);
    for i in 0..32 {
        let (first, second, third) = (vector(i), vector(5 * i + 3), vector(7 * i + 2));
        for opcode in families(true).into_iter().chain([arm::ADD_PRODUCT]) {
            encoder.vector(opcode, first, second, Some(third), None);
        }
        for opcode in families(false).into_iter().chain(CONVERSIONS) {
            encoder.vector(opcode, first, second, None, None);
        }
        for (shape, most) in [
            (Shape::B8, 8),
            (Shape::H8, 16),
            (Shape::S2, 32),
            (Shape::S4, 32),
            (Shape::D2, 64),
        ] {
            for bits in 1..most {
                for opcode in [arm::shift_left(shape, bits), arm::shift_right(shape, bits)] {
                    encoder.vector(opcode, first, second, None, Some(bits));
                }
            }
        }
        encoder.vector(arm::UPPER_WORDS, first, second, None, Some(16));
        encoder.copy(first, second);
        for number in 0..31 {
            let general = General(number);
            for shape in [Shape::B8, Shape::H4, Shape::S2, Shape::S4, Shape::D2] {
                encoder.repeat(first, general, shape);
            }
            for lane in [0, 1] {
                encoder.lane(general, first, lane);
            }
            encoder.single_of(first, general);
            for bytes in [1, 2, 4, 8, 16] {
                for units in [0, 1, 7, 255, 256, 4095] {
                    let memory = Memory::at(general, units * bytes as u32);
                    encoder.load(first, memory, bytes);
                    encoder.store(memory, first, bytes);
                }
            }
        }
    }
    for pair in arm::saved_halves() {
        encoder.push_halves(pair);
        encoder.pop_halves(pair);
    }
    for i in 0..31 {
        let [a, b, c] = [i, (i + 11) % 31, (i * 7 + 3) % 31].map(General);
        encoder.push([a, b]);
        encoder.pop([a, b]);
        encoder.push([a, General::STACK]);
        encoder.pop([a, General::STACK]);
        for offset in [0, 8, 64, 32760] {
            encoder.load_general(a, Memory::at(b, offset));
            encoder.store_general(Memory::at(b, offset), a);
        }
        for number in [0, 1, 64, 0x0FFF] {
            encoder.add_number(a, b, number);
            encoder.subtract_number(a, b, number);
        }
        for number in [0, 1, 0xFFFF, 0x0001_0000, 0x0012_3456, 0x7FFF_FFFF] {
            encoder.set(a, number);
        }
        for shift in 0..4 {
            encoder.add(a, b, c, shift);
        }
        for count in [1, 5, 31] {
            encoder.low_bits(a, b, count);
        }
        encoder.or(a, b, c);
        encoder.compare(a, b);
        for condition in [
            Condition::AtLeast,
            Condition::Less,
            Condition::Greater,
            Condition::AtMost,
        ] {
            encoder.choose(a, b, c, condition);
            let start = encoder.align();
            let jump = encoder.jump_forward(condition);
            encoder.jump_back(condition, start);
            encoder.land(jump);
        }
        let jump = encoder.jump_if_zero(a);
        encoder.land(jump);
        encoder.call(a);
    }
    encoder.finish();
    compare(&encoder.written, disassembled);
}

/// Where a jump leads, by the other disassembler.
fn target(code: &[u8], at: usize) -> i64 {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let instruction = decoder
        .decode(&mut U8Reader::new(&code[at..at + 4]))
        .expect("it is a jump");
    let text = instruction.to_string();
    let distance = text.split('$').nth(1).expect("it has a distance");
    let (sign, digits) = distance.split_at(1);
    let digits = digits.trim_start_matches("0x");
    let distance = i64::from_str_radix(digits, 16).expect("a number");
    at as i64 + if sign == "-" { -distance } else { distance }
}

#[test]
fn jumps_lead_where_they_should() {
    let mut encoder = Encoder::default();
    let start = encoder.align();
    let jump = encoder.jump_forward(Condition::Less);
    encoder.set(General(3), 5);
    encoder.jump_back(Condition::Greater, start);
    let end = encoder.written.bytes.len();
    encoder.land(jump);
    let bytes = &encoder.written.bytes;
    // Over the jump, unless its condition holds.
    assert_eq!([0, 4].map(|at| target(bytes, at)), [8, end as i64]);
    assert_eq!(target(bytes, 12), start as i64);
    // Beyond the reach of a jump with a condition.
    let mut encoder = Encoder::default();
    let jump = encoder.jump_if_zero(General(1));
    encoder.written.bytes.resize(1 << 22, 0);
    encoder.land(jump);
    encoder.jump_back(Condition::AtMost, 4);
    let bytes = &encoder.written.bytes;
    assert_eq!(target(bytes, 4), 1 << 22);
    assert_eq!(target(bytes, 1 << 22), (1 << 22) + 8);
    assert_eq!(target(bytes, (1 << 22) + 4), 4);
}

#[test]
fn what_belongs_to_the_caller_is_saved_or_left_alone() {
    let is_in = |text: &str, kinds: &str, numbers: std::ops::Range<u8>| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter_map(|word| Some((word.get(..1)?, word.get(1..)?.parse::<u8>().ok()?)))
            .any(|(kind, number)| kinds.contains(kind) && numbers.contains(&number))
    };
    let [saving, other] = [(); 2].map(|()| std::cell::Cell::new(0));
    with_plans(Neon, |plan| {
        let (_, notes) = assemble(plan, true);
        let saves = ["stp d8, d9", "ldp d8, d9"];
        let saves = saves.map(|text| notes.iter().any(|note| note.text.starts_with(text)));
        let uses = notes.iter().any(|note| is_in(&note.text, "vbhsdq", 8..16));
        assert_eq!(saves, [uses; 2]);
        let count = if uses { &saving } else { &other };
        count.set(count.get() + 1);
        assert!(!notes.iter().any(|note| is_in(&note.text, "x", 18..30)));
    });
    assert!(saving.get() > 20 && other.get() > 20);
}
