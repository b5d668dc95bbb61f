//! Where there is no assembler: without the feature `jit`, and on other systems than those of x86-64 and aarch64.

use crate::formula::Formula;
use crate::{DType, Slice, SliceMut};

/// Machine code that computes a formula. There is none.
#[derive(Debug)]
pub(crate) enum Code {}

impl Code {
    /// Returns `None`.
    pub(crate) fn for_arrays(
        _formula: &Formula,
        _inputs: &[(DType, bool)],
        _outputs: &[DType],
        _n: usize,
    ) -> Option<Self> {
        None
    }

    pub(crate) fn repeats(&self, _input: usize) -> bool {
        match *self {}
    }

    pub(crate) fn run_rows(&self, _n: usize, _inputs: &[Slice<'_>], _outputs: &mut [SliceMut<'_>]) {
        match *self {}
    }

    pub(crate) fn run(&self, _inputs: &[Slice<'_>], _outputs: &mut [SliceMut<'_>]) {
        match *self {}
    }

    pub(crate) fn listing(&self) -> String {
        match *self {}
    }
}
