#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../programs.rs"]
mod programs;

fuzz_target!(|bytes: &[u8]| programs::Program::read(bytes, 60).check());
