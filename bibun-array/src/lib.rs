//! Arrays.

pub mod math;
