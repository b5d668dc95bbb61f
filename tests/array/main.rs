//! What the public API promises. One program: each takes seconds to link.

mod arithmetic;
mod common;
mod convolution;
mod device;
mod display;
mod dtypes;
mod formula;
mod fused;
mod index;
mod interop;
mod join;
mod kernels;
mod layouts;
mod math;
mod matmul;
mod normalize;
mod npy;
mod programs;
mod random;
mod reduce;
mod scan_sort;
mod sizes;
mod special;
mod stencil;
mod update;
mod views;
