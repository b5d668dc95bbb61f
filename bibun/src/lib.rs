//! bibun.
