//! The conformance test: one table of samples, and every check for every function.

mod sample;

pub(crate) use sample::Sample;
