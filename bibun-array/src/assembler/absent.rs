//! Where there is no assembler: without the feature `jit`, and on other systems than those of x86-64 and aarch64.

use crate::formula::{Formula, Target};
use crate::{DType, Slice, SliceMut};

/// Machine code that computes a formula. There is none.
#[derive(Debug)]
pub(crate) enum Code {}

/// Where rows of an input lie: the first element of the first of them, and the elements from one to the next.
#[derive(Clone, Copy, Default, Debug)]
#[expect(dead_code, reason = "only machine code reads them")]
pub(crate) struct Place {
    pub(crate) first: usize,
    pub(crate) step: usize,
}

/// Where an input is read: in a slice, or in the memory of an output.
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "only machine code reads them")]
pub(crate) enum Read<'a> {
    Slice(Slice<'a>),
    Output(usize),
}

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

    /// Returns `None`.
    pub(crate) fn past_caches(
        _formula: &Formula,
        _inputs: &[(DType, bool)],
        _outputs: &[DType],
    ) -> Option<Self> {
        None
    }

    /// Returns `None`.
    pub(crate) fn for_rows(
        _formula: &Formula,
        _inputs: &[(DType, bool)],
        _targets: &[Target],
        _n: usize,
    ) -> Option<Self> {
        None
    }

    pub(crate) fn repeats(&self, _input: usize) -> bool {
        match *self {}
    }

    pub(crate) fn run_rows(
        &self,
        _n: usize,
        _inputs: &[Slice<'_>],
        _outputs: &mut [SliceMut<'_>],
        _next: &mut dyn FnMut(usize, &mut [Place]) -> usize,
    ) {
        match *self {}
    }

    pub(crate) fn may_take(&self, _output: usize, _input: usize, _n: usize) -> bool {
        match *self {}
    }

    pub(crate) fn run_taking(&self, _inputs: &[Read<'_>], _outputs: &mut [SliceMut<'_>]) {
        match *self {}
    }

    pub(crate) fn run(&self, _inputs: &[Slice<'_>], _outputs: &mut [SliceMut<'_>]) {
        match *self {}
    }

    pub(crate) fn listing(&self) -> String {
        match *self {}
    }
}
