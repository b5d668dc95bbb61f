//! Memory that holds machine code, and the call of it: all the `unsafe` code of the assembler.

use std::cell::RefCell;

use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::registers::Assembled;
use crate::formula::Type;
use crate::{Slice, SliceMut};

/// A function of the pointers to the elements of all inputs and outputs, the number of elements,
/// the constants, and scratch memory.
type Entry = unsafe extern "sysv64" fn(*const *const u8, usize, *const u8, *mut Slot);

/// A slot of scratch memory: a vector of the largest size.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Slot([u8; 64]);

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
        Some(Self { map, assembled })
    }

    /// The least number of elements, if there are any.
    pub(super) const fn least(&self) -> usize {
        self.assembled.least
    }

    /// The types of the inputs that are read, and whether one element is repeated.
    pub(super) fn inputs(&self) -> &[Option<(Type, bool)>] {
        &self.assembled.inputs
    }

    /// Runs the code. All checks are here, because the code has none.
    pub(super) fn run(&self, inputs: &[Slice<'_>], outputs: &mut [SliceMut<'_>]) {
        let code = &self.assembled;
        assert!(
            inputs.len() == code.inputs.len() && outputs.len() == code.results.len(),
            "another number of inputs or outputs"
        );
        let n = outputs[0].len();
        if n == 0 {
            return;
        }
        assert!(n >= code.least, "fewer elements than lanes");
        let mut pointers: SmallVec<[*const u8; 16]> = SmallVec::new();
        for (&input, known) in inputs.iter().zip(&code.inputs) {
            let (of, len, pointer) = parts(input);
            if let Some((expected, repeats)) = *known {
                let expected_len = if repeats { 1 } else { n };
                assert!(
                    of == Some(expected) && len == expected_len,
                    "another dtype or length of an input"
                );
            }
            pointers.push(pointer);
        }
        for (output, &expected) in outputs.iter_mut().zip(&code.results) {
            let (of, len, pointer) = parts_mut(output);
            assert!(
                of == Some(expected) && len == n,
                "another dtype or length of an output"
            );
            pointers.push(pointer);
        }
        let call = |scratch: *mut Slot| {
            // SAFETY: the bytes are those of an `Entry`, which follows the calling convention: an
            // `Assembled` is written by the assembler alone, for a level that this machine
            // has. It reads and writes the elements of the slices, whose dtypes and
            // lengths were asked above (all inputs that it reads, `n` elements of each or
            // one, and all outputs), its constants and as many slots as it has asked for.
            // It writes 0 or 1 to a bool. Outputs are borrowed mutably, so that nothing
            // else refers to them. It calls nothing and needs only a few words of the
            // stack.
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

/// The type of the elements that code computes with, their number, and their place.
macro_rules! parts {
    ($($name:ident($Slice:ty, $Variants:ident): $pointer:ident;)*) => {$(
        fn $name(slice: $Slice) -> (Option<Type>, usize, *const u8) {
            match slice {
                $Variants::F32(x) => (Some(Type::Single), x.len(), x.$pointer().cast()),
                $Variants::F64(x) => (Some(Type::Double), x.len(), x.$pointer().cast()),
                $Variants::I64(x) => (Some(Type::Integer), x.len(), x.$pointer().cast()),
                $Variants::Bool(x) => (Some(Type::Truth), x.len(), x.$pointer().cast()),
                $Variants::I32(x) => (None, x.len(), std::ptr::null()),
                $Variants::U8(x) => (None, x.len(), std::ptr::null()),
                $Variants::F16(x) => (None, x.len(), std::ptr::null()),
                $Variants::BF16(x) => (None, x.len(), std::ptr::null()),
            }
        }
    )*};
}
parts! {
    parts(Slice<'_>, Slice): as_ptr;
    parts_mut(&mut SliceMut<'_>, SliceMut): as_mut_ptr;
}
