//! The words of instructions against another disassembler.

use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::ARMv8;

use super::Neon;
use crate::assembler::tests::compare_plans;

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
            if let Some(widened) = text.strip_suffix(", #0x0") {
                text = widened.replacen("shll", "xtl", 1);
            }
            (4 * i, text)
        })
        .collect()
}

#[test]
fn another_disassembler_reads_the_same_instructions() {
    compare_plans(Neon, disassembled);
}
