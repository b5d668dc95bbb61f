//! Derive macros for bibun.
