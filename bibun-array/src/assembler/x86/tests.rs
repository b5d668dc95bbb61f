//! The bytes of instructions against another disassembler.

use super::Level;
use super::encoder::{self as x86, Encoder, General as G, Lanes, Memory, Operand};
use crate::assembler::machine::{Machine, Register, Width, Written};
use crate::assembler::tests::{compare, compare_plans};

/// The instructions in some code, by another disassembler.
fn disassembled(code: &[u8]) -> Vec<(usize, String)> {
    use iced_x86::{Decoder, DecoderOptions, Formatter, MemorySizeOptions, NasmFormatter};
    let mut formatter = NasmFormatter::new();
    let options = formatter.options_mut();
    options.set_memory_size_options(MemorySizeOptions::Never);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_use_pseudo_ops(false);
    options.set_add_leading_zero_to_hex_numbers(false);
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        assert!(
            !instruction.is_invalid(),
            "invalid bytes at {}",
            instruction.ip()
        );
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        if text.starts_with('j') {
            text.truncate(text.find(' ').expect("a jump has a target"));
        }
        all.push((instruction.ip() as usize, text));
    }
    all
}

#[test]
fn another_disassembler_reads_the_same_instructions() {
    for level in Level::ALL {
        compare_plans(level, disassembled);
    }
}

/// All registers of a width, or of masks.
fn registers(level: Level, width: Width) -> Vec<Register> {
    let count = match width {
        Width::Mask => 8,
        _ => level.vectors(),
    };
    (0..count)
        .map(|number| Register::new(number, width))
        .collect()
}

fn addresses() -> Vec<Memory> {
    let general = [
        G::RAX,
        G::RCX,
        G::RDX,
        G::RBX,
        G::RBP,
        G::RSI,
        G::RDI,
        G::R8,
        G::R9,
        G::R10,
        G::R11,
        G::R12,
        G::R13,
        G::R14,
        G::R15,
    ];
    let offsets = [
        0,
        1,
        4,
        8,
        64,
        127,
        128,
        508,
        512,
        8128,
        8192,
        1 << 20,
        -1,
        -64,
        -128,
        -8192,
    ];
    let mut all = Vec::new();
    for base in general {
        for offset in offsets {
            all.push(Memory::at(base, offset));
        }
        for (index, scale) in [(G::R8, 1), (G::R12, 4), (G::RAX, 8), (G::RBP, 2)] {
            all.extend([0, 64, 100].map(|offset| Memory {
                index: Some((index, scale)),
                ..Memory::at(base, offset)
            }));
        }
    }
    all
}

#[test]
fn all_registers_and_addresses_are_encoded() {
    for level in [Level::Avx512, Level::Avx2] {
        let is_evex = level == Level::Avx512;
        let mut encoder = Encoder {
            is_evex,
            written: Written {
                notes: Some(Vec::new()),
                ..Written::default()
            },
        };
        let widths = if is_evex {
            &[Width::V16, Width::V32, Width::V64][..]
        } else {
            &[Width::V16, Width::V32]
        };
        for &width in widths {
            let all = registers(level, width);
            let next = |i: usize, by: usize| all[(i * by + 3) % all.len()];
            for (i, &first) in all.iter().enumerate() {
                let (second, third) = (next(i, 5), next(i, 7));
                let last = Operand::Register(third);
                let lanes = match i % 3 {
                    1 if is_evex => Lanes::Of(1 + i as u8 % 7),
                    2 if is_evex => Lanes::Only(1 + i as u8 % 7),
                    _ => Lanes::All,
                };
                for p in [0, 1] {
                    let target = (first, lanes);
                    encoder.vector(x86::ADD[p], width, target, Some(second), last, None);
                    let fused = x86::MULTIPLY_ADD[p];
                    let fused = fused.fused(["vfnmadd213ps", "vfnmadd213pd"][p], 0x14);
                    encoder.vector(fused, width, target, Some(second), last, None);
                    encoder.vector(x86::SQRT[p], width, target, None, last, None);
                    let compared = match is_evex {
                        true => Register::new(i as u8 % 8, Width::Mask),
                        false => first,
                    };
                    let target = (compared, Lanes::All);
                    encoder.vector(
                        x86::COMPARE[p],
                        width,
                        target,
                        Some(second),
                        last,
                        Some(0x11),
                    );
                    let shift = (x86::SHIFT_LEFT.0[p], x86::SHIFT_LEFT.1);
                    encoder.shift(shift, first, Operand::Register(second), 23);
                    if is_evex {
                        let signs = x86::SIGNS[p];
                        encoder.vector(signs, width, target, None, last, None);
                        let target = (first, lanes);
                        encoder.vector(
                            x86::TERNARY[p],
                            width,
                            target,
                            Some(second),
                            last,
                            Some(0xD8),
                        );
                    } else {
                        let blend = x86::BLEND_BY_SIGN[p];
                        encoder.blend_by_sign(blend, first, second, last, next(i, 11));
                    }
                }
                if width == Width::V32 {
                    let target = Register::new(second.number, Width::V16);
                    let upper_half = x86::UPPER_HALF[usize::from(is_evex)];
                    encoder.extract(upper_half, target, first, 1);
                }
                if width == Width::V64 {
                    let target = Register::new(second.number, Width::V32);
                    encoder.extract(x86::UPPER_HALF_OF_64, target, first, 1);
                }
            }
            for (i, memory) in addresses().into_iter().enumerate() {
                let (first, second) = (next(i, 3), next(i, 5));
                let operand = Operand::Memory(memory, width.bytes());
                let p = i % 2;
                let target = (first, Lanes::All);
                encoder.vector(x86::MULTIPLY[p], width, target, Some(second), operand, None);
                encoder.vector(x86::LOAD[p], width, target, None, operand, None);
                encoder.store(
                    x86::STORE[p],
                    (memory, width.bytes()),
                    Lanes::All,
                    first,
                    None,
                );
                if is_evex {
                    let bytes = [4, 8][p];
                    let operand = Operand::Broadcast(memory, bytes, width.bytes() / bytes);
                    encoder.vector(x86::ADD[p], width, target, Some(second), operand, None);
                    let only = (first, Lanes::Only(3));
                    encoder.vector(
                        x86::LOAD[p],
                        width,
                        only,
                        None,
                        Operand::Memory(memory, width.bytes()),
                        None,
                    );
                    encoder.store(
                        x86::STORE[p],
                        (memory, width.bytes()),
                        Lanes::Of(5),
                        first,
                        None,
                    );
                } else {
                    let blend = x86::BLEND_BY_SIGN[p];
                    encoder.blend_by_sign(blend, first, second, operand, next(i, 7));
                }
            }
        }
        for i in 0..64 {
            let (a, b, c) = (i % 8, i / 8, (i * 3 + 1) % 8);
            encoder.masks(x86::OR_MASKS, a, Some(b), c);
            encoder.masks(x86::NOT_MASK, a, None, b);
        }
        for (i, memory) in (0..8).cycle().zip(addresses()) {
            encoder.load_mask(i, memory);
            encoder.store_mask(memory, i);
            encoder.load(memory.base, memory);
            encoder.address(memory.base, memory);
            encoder.keep_low_bits(memory.base, 31);
        }
        compare(&encoder.written, disassembled);
    }
}
