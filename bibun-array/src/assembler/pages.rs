//! Memory that holds machine code, and the call of it: all the `unsafe` code of the assembler.

use std::cell::RefCell;

use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::functions::Slot;
use super::registers::Assembled;
use crate::{DType, Slice, SliceMut};

/// A function of the pointers to the elements of all inputs and outputs, the number of elements,
/// the constants, and scratch memory.
#[cfg(target_arch = "x86_64")]
type Entry = unsafe extern "sysv64" fn(*const *const u8, usize, *const u8, *mut Slot);
#[cfg(target_arch = "aarch64")]
type Entry = unsafe extern "C" fn(*const *const u8, usize, *const u8, *mut Slot);

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

    /// Runs the code. All checks are here, because the code has none.
    pub(super) fn run(&self, inputs: &[Slice<'_>], outputs: &mut [SliceMut<'_>]) {
        let code = &self.assembled;
        assert!(
            inputs.len() == code.inputs.len() && outputs.len() == code.outputs.len(),
            "another number of inputs or outputs"
        );
        let n = outputs[0].len();
        if n == 0 {
            return;
        }
        assert!(n >= code.least, "fewer elements than lanes");
        let mut pointers: SmallVec<[*const u8; 16]> = SmallVec::new();
        for (input, known) in inputs.iter().zip(&code.inputs) {
            if let Some((dtype, repeats)) = *known {
                let len = if repeats { 1 } else { n };
                assert!(
                    input.dtype() == dtype && input.len() == len,
                    "another dtype or length of an input"
                );
            }
            pointers.push(elements(*input));
        }
        for (output, &dtype) in outputs.iter_mut().zip(&code.outputs) {
            assert!(
                output.dtype() == dtype && output.len() == n,
                "another dtype or length of an output"
            );
            pointers.push(elements_mut(output));
        }
        let call = |scratch: *mut Slot| {
            // SAFETY: the bytes are those of an `Entry`, which follows the calling convention: an
            // `Assembled` is written by the assembler alone, for a level that this machine has. It
            // reads and writes the elements of the slices, whose dtypes and lengths were asked above
            // (all inputs that it reads, `n` elements of each or one, and all outputs), its constants
            // and as many slots as it has asked for. It writes 0 or 1 to a bool. Outputs are borrowed
            // mutably, so that nothing else refers to them. What it calls are the functions whose
            // addresses `Assembled` holds, with three slots that it does not use meanwhile, and they
            // do not come back here. It needs only a few words of the stack.
            unsafe {
                let entry: Entry = std::mem::transmute(self.map.as_ptr());
                entry(pointers.as_ptr(), n, code.constants.as_ptr(), scratch);
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
