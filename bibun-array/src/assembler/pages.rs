//! Memory that holds machine code, and the call of it: all the `unsafe` code of the assembler.

use std::cell::RefCell;

use memmap2::{Mmap, MmapMut};
use smallvec::{SmallVec, smallvec};

use super::functions::Slot;
use super::registers::Assembled;
use crate::storage::LINE;
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

    /// Whether the code may write an output to the memory of an input, for `n` elements.
    pub(super) fn may_take(&self, output: usize, input: usize, n: usize) -> bool {
        // Without masks of lanes, the last turn computes elements again.
        !self.assembled.streams
            && n.is_multiple_of(self.assembled.least)
            && self.assembled.homes[output][input]
    }

    /// Runs the code on `n` elements of each input, or one that is repeated, and each output.
    pub(super) fn run(&self, n: usize, inputs: &[Read<'_>], outputs: &mut [SliceMut<'_>]) {
        let all = outputs[0].len();
        if all == 0 {
            return;
        }
        let fits = |(input, known): (&Read<'_>, &Option<(DType, bool)>)| match input {
            Read::Slice(input) => {
                known.is_none_or(|(_, repeats)| input.len() == if repeats { 1 } else { n })
            }
            Read::Output(_) => true,
        };
        assert!(
            all == n && inputs.iter().zip(&self.assembled.inputs).all(fits),
            "another length of an input"
        );
        self.run_rows(n, inputs, outputs, &mut |_, _| 1);
    }

    /// Runs the code on rows of `n` elements. Before the output row with a number, `next` says for how many
    /// rows, and where in each input that is read the first of them lies and the next one. All checks are
    /// here, because the code has none.
    pub(super) fn run_rows(
        &self,
        n: usize,
        inputs: &[Read<'_>],
        outputs: &mut [SliceMut<'_>],
        next: &mut dyn FnMut(usize, &mut [Place]) -> usize,
    ) {
        let code = &self.assembled;
        let count = inputs.len();
        assert!(
            count == code.inputs.len() && outputs.len() == code.outputs.len(),
            "another number of inputs or outputs"
        );
        let (all, in_row) = (outputs[0].len(), code.outputs[0].in_row(n));
        if all == 0 {
            return;
        }
        assert!(
            n >= code.least && all.is_multiple_of(in_row),
            "fewer elements than lanes, or no whole rows"
        );
        assert!(
            code.rows_of.is_none_or(|made_for| n == made_for),
            "another number of elements in a row"
        );
        let rows = all / in_row;
        assert!(!code.streams || rows == 1, "several rows past the caches");
        // The pointers to the first elements, the bytes from one row to the next, and the number of
        // rows that are left.
        let arrays = count + outputs.len();
        let mut call: SmallVec<[usize; 32]> = smallvec![0; 2 * arrays + 1];
        let mut first: SmallVec<[usize; 16]> = SmallVec::new();
        let mut lengths: SmallVec<[usize; 16]> = SmallVec::new();
        for (i, (input, known)) in inputs.iter().zip(&code.inputs).enumerate() {
            let (dtype, len, place) = match input {
                Read::Slice(input) => {
                    let place = elements(*input).expose_provenance();
                    (input.dtype(), input.len(), place)
                }
                // Its place is that of the output, below.
                Read::Output(output) => {
                    let is_one = known.is_none_or(|(_, repeats)| !repeats) && all == in_row;
                    assert!(
                        is_one && self.may_take(*output, i, n),
                        "an input is read where an output has been written"
                    );
                    (outputs[*output].dtype(), outputs[*output].len(), 0)
                }
            };
            assert!(
                known.is_none_or(|(known, _)| dtype == known),
                "another dtype of an input"
            );
            lengths.push(len);
            first.push(place);
        }
        for (output, target) in outputs.iter_mut().zip(&code.outputs) {
            let (dtype, in_row) = (target.dtype(), target.in_row(n));
            assert!(
                output.dtype() == dtype && output.len() == in_row * rows,
                "another dtype or length of an output"
            );
            let place = elements_mut(output).expose_provenance();
            assert!(
                !code.streams || place.is_multiple_of(LINE),
                "an output past the caches that is not aligned"
            );
            first.push(place);
        }
        for (i, input) in inputs.iter().enumerate() {
            if let Read::Output(output) = input {
                first[i] = first[count + output];
            }
        }
        let mut places: SmallVec<[Place; 16]> = smallvec![Place::default(); count];
        let mut run = |scratch: *mut Slot| {
            let mut done = 0;
            while done < rows {
                let now = next(done, &mut places);
                assert!(now > 0 && now <= rows - done, "another number of rows");
                for (i, known) in code.inputs.iter().enumerate() {
                    let Some((dtype, repeats)) = *known else {
                        continue;
                    };
                    let Place { first: row, step } = places[i];
                    let in_row = if repeats { 1 } else { n };
                    let last = step.checked_mul(now - 1);
                    let end = last.and_then(|last| last.checked_add(row)?.checked_add(in_row));
                    assert!(
                        end.is_some_and(|end| end <= lengths[i]),
                        "a row of an input is outside of its slice"
                    );
                    call[i] = first[i] + row * dtype.size();
                    call[arrays + i] = step * dtype.size();
                }
                for (i, target) in (count..).zip(&code.outputs) {
                    let step = target.in_row(n) * target.dtype().size();
                    call[i] = first[i] + done * step;
                    call[arrays + i] = step;
                }
                call[2 * arrays] = now;
                // SAFETY: the bytes are those of an `Entry`, which follows the calling convention: an
                // `Assembled` is written by the assembler alone, for a level that this machine has. It
                // reads and writes the elements of the slices, whose dtypes were asked above and whose
                // lengths were here (all inputs that it reads: `n` elements or one, of folds for the `n` that
                // the code was made for, then the same after a
                // step, as often as there are rows, all of which is in the slices; and all outputs, whose
                // rows `done` to `done + now` are in the slices; an input that is an output has its dtype and
                // length, and each of its elements is read before it is written), its constants and as many slots as it has
                // asked for. It writes 0 or 1 to a bool. Vectors that need aligned memory have it, as was asked above. Outputs are borrowed mutably, so that nothing else
                // refers to them. What it calls are the functions whose addresses `Assembled` holds, with
                // three slots that it does not use meanwhile, and they do not come back here. It needs only
                // a few words of the stack.
                unsafe {
                    let entry: Entry = std::mem::transmute(self.map.as_ptr());
                    entry(call.as_mut_ptr(), n, code.constants.as_ptr(), scratch);
                }
                done += now;
            }
        };
        if code.slots == 0 {
            return run(std::ptr::null_mut());
        }
        SCRATCH.with_borrow_mut(|slots| {
            if slots.len() < code.slots {
                slots.resize(code.slots, Slot([0; 64]));
            }
            run(slots.as_mut_ptr());
        });
    }
}

/// Where an input is read.
#[derive(Clone, Copy)]
pub(crate) enum Read<'a> {
    Slice(Slice<'a>),
    /// In the memory of the output with this number, which has held it so far.
    Output(usize),
}

/// Where rows of an input lie: the first element of the first of them, and the elements from one to the next.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Place {
    pub(crate) first: usize,
    pub(crate) step: usize,
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
                $Variants::C64(x) => x.$pointer().cast(),
                $Variants::C128(x) => x.$pointer().cast(),
            }
        }
    )*};
}
elements! {
    elements(Slice<'_>, Slice): as_ptr;
    elements_mut(&mut SliceMut<'_>, SliceMut): as_mut_ptr;
}
