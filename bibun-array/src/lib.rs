//! NumPy-like n-dimensional arrays.
//!
//! ```
//! use bibun_array::{s, Array};
//! let x = Array::arange(0, 6).reshape([2, 3]);
//! assert_eq!(x.slice(s![.., ..; -1]).to_vec::<i64>(), [2, 1, 0, 5, 4, 3]);
//! ```

mod arithmetic;
mod array;
mod array_like;
// Where there is no machine code, the module says so.
#[cfg_attr(
    not(all(
        feature = "jit",
        any(
            target_arch = "x86_64",
            all(
                target_arch = "aarch64",
                target_endian = "little",
                any(target_os = "linux", target_os = "android", target_os = "macos")
            )
        )
    )),
    path = "assembler/absent.rs"
)]
mod assembler;
mod attention;
mod axes;
mod band;
mod call;
mod complex;
mod conversion;
mod convolution;
mod cpu;
mod device;
mod display;
mod draws;
mod dtype;
mod error;
#[cfg(feature = "fft")]
mod fft;
pub mod formula;
mod index;
#[cfg(feature = "ndarray")]
mod interop;
mod join;
mod kernel;
pub mod linalg;
pub mod math;
mod matmul;
mod nested;
mod normalize;
mod npy;
mod number;
pub mod ops;
mod placement;
pub mod program;
mod random;
mod recent;
mod recurrence;
mod reduce;
mod rejection;
mod scan;
mod shape;
mod sort;
mod stencil;
mod storage;
mod trace;
mod update;
mod view;
mod waiting;

pub use array::Array;
pub use array_like::ArrayLike;
pub use attention::{attention, attention_gradient};
pub use axes::{Axes, keep_dims, normalize_axes, normalize_axis};
pub use band::{band_scan, log_band_scan};
pub use call::{Call, Entered, Location, caller, folder, user_of};
pub use convolution::{Convolution, ConvolutionPart, Window};
#[doc(hidden)]
pub use cpu::interpreted;
pub use device::{
    Attention, Complaint, Device, Memory, Normalization, Reduce, Scan, Scatter, View,
};
pub use draws::{Draws, undrawn};
pub use dtype::{DType, Element, Kind, Scalar, Slice, SliceMut};
pub use error::{Error, allocating, attempt, attempt_with, raise};
#[cfg(feature = "fft")]
pub use fft::{Fourier, fourier};
pub use half::{bf16, f16};
pub use join::{concat, stack};
pub use kernel::{Definition, ElementFormula, Kernel, Run, elementwise, run_kernel};
pub use linalg::{Triangle, triangular_solve};
pub use matmul::{dot, gemm, matmul, outer};
pub use nested::Nested;
pub use normalize::normalize_gradient;
pub use npy::{FileError, remove_unfinished, write_whole};
#[cfg(feature = "npz")]
pub use npy::{NpzReader, NpzValue, NpzWriter, read_npz, write_npz};
pub use num_complex::{Complex, Complex64};
pub use number::{Mask, Number, Whole};
pub use placement::{Settled, cpu, is_another_device, settle};
pub use program::{Program, fused, listing};
pub use random::{Distribution, Generator};
pub use recurrence::{Recurrence, RecurrenceCell, recurrence, recurrence_gradient};
pub use rejection::Rejection;
pub use shape::{NewShape, Shape};
pub use sort::{SortAxis, ascending, descending};
pub use stencil::Stencil;
pub use storage::{pooled_bytes, set_huge_pages, set_pool_limit};
pub use trace::{
    Cut, Tracer, in_row_major_memory, is_traced, is_traced_input, record_call, refuse,
};
pub use update::{Change, ElementUpdate, Given, Update};
pub use view::Index;
pub use waiting::set_put_aside;
