//! Machine code for formulas that are known only when the program runs.
//!
//! A [`Formula`] whose operations are all arithmetic becomes one loop over slices, in the
//! instructions of AVX-512, AVX2 or NEON. Each operation is rounded once, as in the loops of the CPU, and
//! results have the same bits; only sign and payload of NaN may be others.
//!
//! `order` reads the lines, `instructions` says what each of them needs, `folds` does for sums and extremes of
//! rows, `registers` assigns registers and writes a function, and `pages` runs it. What depends on the instructions of a processor is a
//! `Machine`: `x86` and `neon`. Functions that branch are those of `functions`, which the code calls; sine, cosine and
//! tangent of f64 only for numbers beyond `2^32`.

mod folds;
mod functions;
mod instructions;
mod machine;
#[cfg(any(test, target_arch = "aarch64"))]
mod neon;
mod order;
mod pages;
mod registers;
#[cfg(test)]
mod tests;
#[cfg(any(test, target_arch = "x86_64"))]
mod x86;

use std::fmt::Write;
use std::sync::LazyLock;

use instructions::Plan;
#[cfg(target_arch = "aarch64")]
use neon::Neon as Level;
use order::Steps;
use pages::Pages;
pub(crate) use pages::{Place, Read};
use registers::assemble;
use smallvec::SmallVec;
#[cfg(target_arch = "x86_64")]
use x86::Level;

#[cfg(test)]
use crate::formula::Type;
use crate::formula::{Formula, Target};
use crate::{DType, Slice, SliceMut, bf16, f16};

/// The best instructions that this machine has.
fn best() -> Option<Level> {
    // Miri runs no machine code.
    Level::ALL
        .into_iter()
        .find(|level| !cfg!(miri) && level.is_available())
}

/// Machine code that computes a formula.
#[derive(Debug)]
pub(crate) struct Code {
    pages: Pages,
    formula: Formula,
    inputs: Vec<(DType, bool)>,
    targets: Vec<Target>,
    n: usize,
    streams: bool,
    level: Level,
}

/// The best instructions, unless machine code is forbidden.
fn wanted() -> Option<Level> {
    static IS_WANTED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("BIBUN_JIT").is_none_or(|value| value != "0"));
    best().filter(|_| *IS_WANTED)
}

impl Code {
    /// Assembles a formula that is [expanded](Formula::expanded), for slices of many elements of the
    /// types of its inputs and results. An input that repeats is one element that is the same
    /// everywhere.
    ///
    /// Returns `None` if this machine has neither AVX-512 nor AVX2 with FMA nor NEON, if the formula
    /// has given numbers, values without a precision or functions that are not expanded, if the
    /// system forbids to execute new code, or if `BIBUN_JIT=0`.
    ///
    /// # Panics
    /// Panics if there is not one answer for each input.
    #[cfg(test)]
    pub(crate) fn new(formula: &Formula, repeats: &[bool]) -> Option<Self> {
        let (inputs, outputs) = own_dtypes(formula, repeats);
        Self::for_arrays(formula, &inputs, &outputs, MANY)
    }

    /// [`Code::new`] for inputs and outputs of these dtypes, which are computed in the types of the
    /// formula, and for slices of about `n` elements. It runs on others, too.
    ///
    /// Returns `None` also if elements of a dtype are computed in another type.
    pub(crate) fn for_arrays(
        formula: &Formula,
        inputs: &[(DType, bool)],
        outputs: &[DType],
        n: usize,
    ) -> Option<Self> {
        let targets: Vec<Target> = outputs
            .iter()
            .map(|&dtype| Target::Elements(dtype))
            .collect();
        Self::for_level(formula, inputs, &targets, n, false, wanted()?)
    }

    /// [`Code::for_arrays`] for outputs that no cache would hold: they are written past them, if the machine can.
    /// These begin at the beginning of a line of memory.
    pub(crate) fn past_caches(
        formula: &Formula,
        inputs: &[(DType, bool)],
        outputs: &[DType],
    ) -> Option<Self> {
        let targets = outputs.iter().map(|&dtype| Target::Elements(dtype));
        let targets: Vec<Target> = targets.collect();
        Self::for_level(formula, inputs, &targets, MANY, true, wanted()?)
    }

    /// [`Code::for_arrays`] for rows of `n` elements, of which the results become these targets. Each
    /// target is an output.
    ///
    /// Returns `None` also if rows are too short to be folded, or this machine cannot.
    pub(crate) fn for_rows(
        formula: &Formula,
        inputs: &[(DType, bool)],
        targets: &[Target],
        n: usize,
    ) -> Option<Self> {
        Self::for_level(formula, inputs, targets, n, false, wanted()?)
    }

    fn for_level(
        formula: &Formula,
        inputs: &[(DType, bool)],
        targets: &[Target],
        n: usize,
        streams: bool,
        level: Level,
    ) -> Option<Self> {
        assert_eq!(inputs.len(), formula.inputs(), "one dtype for each input");
        assert_eq!(
            targets.len(),
            formula.results().len(),
            "one target for each result"
        );
        let has_folds = targets
            .iter()
            .any(|target| matches!(target, Target::Fold(_)));
        let n = if has_folds { n } else { n.min(MANY) };
        let formula = formula
            .with_reduced_angles()
            .unwrap_or_else(|| formula.clone());
        let plan = Plan::new(&Steps::new(&formula, inputs, targets)?, level, n, streams)?;
        let (assembled, _) = assemble(&plan, false);
        Some(Self {
            pages: Pages::new(assembled)?,
            formula,
            inputs: inputs.to_vec(),
            targets: targets.to_vec(),
            n,
            streams,
            level,
        })
    }

    /// Whether an input is one element that is the same everywhere.
    pub(crate) fn repeats(&self, input: usize) -> bool {
        self.inputs[input].1
    }

    /// Fills rows of `n` elements of the outputs, or of one where a row is folded, some at a time. Before
    /// the row with a number, `next` returns for how many, and changes where in each input they lie.
    ///
    /// # Panics
    /// Panics if the numbers, dtypes or lengths of the slices are not those of the formula, or if rows
    /// have fewer elements than a vector of AVX2, or others than the code was made for if it folds them.
    pub(crate) fn run_rows(
        &self,
        n: usize,
        inputs: &[Slice<'_>],
        outputs: &mut [SliceMut<'_>],
        next: &mut dyn FnMut(usize, &mut [Place]) -> usize,
    ) {
        self.pages.run_rows(n, &read_all(inputs), outputs, next);
    }

    /// Whether [`run_taking`](Self::run_taking) may write an output of `n` elements to the memory of an input.
    pub(crate) fn may_take(&self, output: usize, input: usize, n: usize) -> bool {
        n >= self.pages.least() && self.pages.may_take(output, input, n)
    }

    /// Fills the outputs, of which some have held inputs so far.
    ///
    /// # Panics
    /// Panics if the numbers, dtypes or lengths of the slices are not those of the formula, or if
    /// [`may_take`](Self::may_take) does not hold.
    pub(crate) fn run_taking(&self, inputs: &[Read<'_>], outputs: &mut [SliceMut<'_>]) {
        self.pages.run(outputs[0].len(), inputs, outputs);
    }

    /// Fills the outputs.
    ///
    /// # Panics
    /// Panics if the numbers, dtypes or lengths of the slices are not those of the formula.
    pub(crate) fn run(&self, inputs: &[Slice<'_>], outputs: &mut [SliceMut<'_>]) {
        let least = self.pages.least();
        let n = outputs[0].len();
        if n == 0 || n >= least {
            return self.pages.run(n.max(1), &read_all(inputs), outputs);
        }
        // Fewer elements than lanes are computed in longer slices.
        let known = self.pages.inputs();
        assert_eq!(inputs.len(), known.len(), "another number of inputs");
        let padded: SmallVec<[Padded; 8]> = inputs.iter().map(|&input| Padded::of(input)).collect();
        let longer: SmallVec<[Slice<'_>; 8]> = (inputs.iter().zip(&padded).zip(known))
            .map(|((input, padded), known)| match known {
                Some((_, false)) => {
                    assert_eq!(input.len(), n, "another length of an input");
                    padded.slice(least)
                }
                Some((_, true)) | None => *input,
            })
            .collect();
        let mut filled: SmallVec<[Padded; 8]> = outputs.iter().map(Padded::like).collect();
        let mut targets: SmallVec<[SliceMut<'_>; 8]> = filled
            .iter_mut()
            .map(|padded| padded.slice_mut(least))
            .collect();
        self.pages.run(least, &read_all(&longer), &mut targets);
        drop(targets);
        for (output, filled) in outputs.iter_mut().zip(&filled) {
            assert_eq!(output.len(), n, "another length of an output");
            filled.copy_to(output);
        }
    }

    /// The code as text: each instruction with its bytes, under the line of the formula that it
    /// belongs to.
    pub(crate) fn listing(&self) -> String {
        let plan = Steps::new(&self.formula, &self.inputs, &self.targets)
            .and_then(|steps| Plan::new(&steps, self.level, self.n, self.streams))
            .expect("it was assembled before");
        let (assembled, notes) = assemble(&plan, true);
        let ends = notes.iter().skip(1).map(|note| note.start);
        let ends = ends.chain([assembled.code.len()]);
        let (mut text, mut last) = (String::new(), None);
        for (note, end) in notes.iter().zip(ends) {
            if let Some(line) = note.line.filter(|_| note.line != last) {
                let line = &self.formula.lines()[line as usize];
                let arguments = line
                    .arguments()
                    .iter()
                    .map(|node| format!(" v{}", node.index()));
                let arguments: String = arguments.collect();
                let _ = writeln!(
                    text,
                    "; v{} = {}{arguments}",
                    note.line.unwrap_or(0),
                    line.operation().name()
                );
            }
            last = note.line;
            let bytes = &assembled.code[note.start..end];
            let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "{bytes:<22} {}", note.text);
        }
        text
    }
}

/// Inputs that no output has held.
fn read_all<'a>(inputs: &[Slice<'a>]) -> SmallVec<[Read<'a>; 8]> {
    inputs.iter().map(|&x| Read::Slice(x)).collect()
}

/// A number of elements beyond which code is the same.
const MANY: usize = 1 << 20;

/// The dtypes of the types of inputs and results.
#[cfg(test)]
fn own_dtypes(formula: &Formula, repeats: &[bool]) -> (Vec<(DType, bool)>, Vec<DType>) {
    assert_eq!(repeats.len(), formula.inputs(), "one answer for each input");
    let inputs = formula.input_types().into_iter().map(own_dtype);
    let results = formula.results().iter();
    let results = results.map(|node| own_dtype(formula.lines()[node.index()].value()));
    (
        inputs.zip(repeats.iter().copied()).collect(),
        results.collect(),
    )
}

/// The dtype of a type. An input that is not read may have any.
#[cfg(test)]
fn own_dtype(of: Type) -> DType {
    match of {
        Type::Single => DType::F32,
        Type::Double | Type::Number => DType::F64,
        Type::Integer => DType::I64,
        Type::Truth => DType::Bool,
    }
}

/// The most elements that a vector has where there are no masks of lanes.
const MOST: usize = 8;

/// Elements in longer memory.
enum Padded {
    U8([u8; MOST]),
    I32([i32; MOST]),
    F16([f16; MOST]),
    BF16([bf16; MOST]),
    F32([f32; MOST]),
    F64([f64; MOST]),
    I64([i64; MOST]),
    Bool([bool; MOST]),
    C64([num_complex::Complex<f32>; MOST]),
    C128([num_complex::Complex<f64>; MOST]),
}

macro_rules! padded {
    ($($variant:ident: $zero:expr;)*) => {
        impl Padded {
            /// The elements of a short slice, and zeros.
            fn of(slice: Slice<'_>) -> Self {
                match slice {
                    $(Slice::$variant(x) => {
                        let mut all = [$zero; MOST];
                        let n = x.len().min(MOST);
                        all[..n].copy_from_slice(&x[..n]);
                        Self::$variant(all)
                    })*
                }
            }

            /// Zeros of the same type.
            fn like(slice: &SliceMut<'_>) -> Self {
                match slice {
                    $(SliceMut::$variant(_) => Self::$variant([$zero; MOST]),)*
                }
            }

            fn slice(&self, n: usize) -> Slice<'_> {
                match self {
                    $(Self::$variant(x) => Slice::$variant(&x[..n]),)*
                }
            }

            fn slice_mut(&mut self, n: usize) -> SliceMut<'_> {
                match self {
                    $(Self::$variant(x) => SliceMut::$variant(&mut x[..n]),)*
                }
            }

            fn copy_to(&self, target: &mut SliceMut<'_>) {
                match (self, target) {
                    $((Self::$variant(x), SliceMut::$variant(y)) => {
                        let n = y.len();
                        y.copy_from_slice(&x[..n]);
                    })*
                    _ => unreachable!("they have the same type"),
                }
            }
        }
    };
}
padded! {
    U8: 0;
    I32: 0;
    F16: f16::ZERO;
    BF16: bf16::ZERO;
    F32: 0.0;
    F64: 0.0;
    I64: 0;
    Bool: false;
    C64: num_complex::Complex::ZERO;
    C128: num_complex::Complex::ZERO;
}
