//! Data sets, and the way from them to batches.

mod batches;
mod mnist;
mod splits;
