//! Memory that holds machine code, and the call of it: all the `unsafe` code of the assembler.

use std::cell::RefCell;

use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::functions::Slot;
use super::registers::Assembled;
use crate::{DType, Slice, SliceMut};

/// A function of the pointers to the elements of all inputs and outputs in the first row, their
/// steps to the next row and the number of rows, all of which it may change, the number of elements in each row, the constants, and scratch memory.
#[cfg(target_arch = "x86_64")]
type Entry = unsafe extern "sysv64" fn(*mut usize, usize, *const u8, *mut Slot);
#[cfg(target_arch = "aarch64")]
type Entry = unsafe extern "C" fn(*mut usize, usize, *const u8, *mut Slot);

thread_local! {
    static SCRATCH: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Code in memory that can be executed and no longer be written.
#[derive(Debug)]
pub(super) struct Pages {
    map: Mmap,
    assembled: Assembled,
}

impl Pages {
    /// Copies the code, or returns `None` if the system forbids to execute it.
    pub(super) fn new(assembled: Assembled) -> Option<Self> {
        let mut map = MmapMut::map_anon(assembled.code.len()).ok()?;
        map.copy_from_slice(&assembled.code);
        let map = map.make_exec().ok()?;
        synchronize(&map).then_some(Self { map, assembled })
    }

    /// The least number of elements, if there are any.
    pub(super) const fn least(&self) -> usize {
        self.assembled.least
    }

    /// The dtypes of the inputs that are read, and whether one element is repeated.
    pub(super) fn inputs(&self) -> &[Option<(DType, bool)>] {
        &self.assembled.inputs
    }

    /// Runs the code on rows of `n` elements. Of inputs there are as many elements as of outputs, or
    /// those of one row, or where one is repeated, one for each row or one for all. All checks are
    /// here, because the code has none.
    pub(super) fn run(&self, n: usize, inputs: &[Slice<'_>], outputs: &mut [SliceMut<'_>]) {
        let code = &self.assembled;
        assert!(
            inputs.len() == code.inputs.len() && outputs.len() == code.outputs.len(),
            "another number of inputs or outputs"
        );
        let all = outputs[0].len();
        if all == 0 {
            return;
        }
        assert!(
            n >= code.least && all.is_multiple_of(n),
            "fewer elements than lanes, or no whole rows"
        );
        let rows = all / n;
        // The pointers to the first elements, the bytes from one row to the next, and the number of
        // rows that are left.
        let mut row: SmallVec<[usize; 32]> = SmallVec::new();
        let mut steps: SmallVec<[usize; 16]> = SmallVec::new();
        for (input, known) in inputs.iter().zip(&code.inputs) {
            let mut step = 0;
            if let Some((dtype, repeats)) = *known {
                let in_row = if repeats { 1 } else { n };
                let len = input.len();
                assert!(
                    input.dtype() == dtype && (len == in_row || len == in_row * rows),
                    "another dtype or length of an input"
                );
                step = (len / in_row / rows) * in_row * dtype.size();
            }
            row.push(elements(*input).expose_provenance());
            steps.push(step);
        }
        for (output, &dtype) in outputs.iter_mut().zip(&code.outputs) {
            assert!(
                output.dtype() == dtype && output.len() == all,
                "another dtype or length of an output"
            );
            row.push(elements_mut(output).expose_provenance());
            steps.push(n * dtype.size());
        }
        row.extend(steps);
        row.push(rows);
        let mut call = |scratch: *mut Slot| {
            // SAFETY: the bytes are those of an `Entry`, which follows the calling convention: an
            // `Assembled` is written by the assembler alone, for a level that this machine has. It
            // reads and writes the elements of the slices, whose dtypes and lengths were asked above
            // (all inputs that it reads and all outputs: `n` elements or one, then the same after a
            // step, as often as there are rows, all of which is in the slices), its constants
            // and as many slots as it has asked for. It writes 0 or 1 to a bool. Outputs are borrowed
            // mutably, so that nothing else refers to them. What it calls are the functions whose
            // addresses `Assembled` holds, with three slots that it does not use meanwhile, and they
            // do not come back here. It needs only a few words of the stack.
            unsafe {
                let entry: Entry = std::mem::transmute(self.map.as_ptr());
                entry(row.as_mut_ptr(), n, code.constants.as_ptr(), scratch);
            }
        };
        if code.slots == 0 {
            return call(std::ptr::null_mut());
        }
        SCRATCH.with_borrow_mut(|slots| {
            if slots.len() < code.slots {
                slots.resize(code.slots, Slot([0; 64]));
            }
            call(slots.as_mut_ptr());
        });
    }
}

/// Makes the processor execute what has been written, and returns whether it does.
#[cfg(target_arch = "x86_64")]
const fn synchronize(_code: &[u8]) -> bool {
    // Caches of data and of instructions are the same to programs.
    true
}

#[cfg(target_arch = "aarch64")]
fn synchronize(code: &[u8]) -> bool {
    let range = code.as_ptr_range();
    // SAFETY: it cleans and invalidates lines of caches in memory that is there and can be read.
    unsafe { clear_cache::clear_cache(range.start, range.end) }
}

/// The place of the elements.
macro_rules! elements {
    ($($name:ident($Slice:ty, $Variants:ident): $pointer:ident;)*) => {$(
        fn $name(slice: $Slice) -> *const u8 {
            match slice {
                $Variants::Bool(x) => x.$pointer().cast(),
                $Variants::U8(x) => x.$pointer().cast(),
                $Variants::I32(x) => x.$pointer().cast(),
                $Variants::I64(x) => x.$pointer().cast(),
                $Variants::F16(x) => x.$pointer().cast(),
                $Variants::BF16(x) => x.$pointer().cast(),
                $Variants::F32(x) => x.$pointer().cast(),
                $Variants::F64(x) => x.$pointer().cast(),
            }
        }
    )*};
}
elements! {
    elements(Slice<'_>, Slice): as_ptr;
    elements_mut(&mut SliceMut<'_>, SliceMut): as_mut_ptr;
}
