//! Formulas run one operation after the other, each over a block of elements that stays in the
//! first-level cache.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::formula::{Formula, Operation, Type};
use crate::{Definition, Slice, SliceMut};

thread_local! {
    /// Whether programs get no machine code.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; programs that it makes are without machine code, as all are with `BIBUN_JIT=0`. For tests
/// that compare both.
#[doc(hidden)]
pub fn interpreted<T>(f: impl FnOnce() -> T) -> T {
    struct PutBack(bool);
    impl Drop for PutBack {
        fn drop(&mut self) {
            IS_ALONE.set(self.0);
        }
    }
    let _put_back = PutBack(IS_ALONE.replace(true));
    f()
}

pub(super) fn is_alone() -> bool {
    IS_ALONE.get()
}

/// A formula whose lines have types, with its values assigned to registers.
#[derive(Debug)]
pub(super) struct Interpreter {
    steps: Vec<Step>,
    /// Registers that have the same value in all elements.
    constants: Vec<(Register, Constant)>,
    /// The number of registers of each type.
    counts: [usize; 4],
    /// Results that no step writes: inputs, constants, and what another result is, too.
    copies: Vec<(usize, Place)>,
    /// The number of this interpreter, which no other one has.
    id: u64,
}

#[derive(Debug)]
struct Step {
    run: &'static Definition,
    inputs: [Place; 3],
    count: usize,
    output: Place,
}

/// The location of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Input(usize),
    Register(Register),
    /// The memory of a result.
    Output(usize),
}

/// A register of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Register {
    class: Class,
    number: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Single,
    Double,
    Integer,
    Truth,
}

#[derive(Clone, Copy, Debug)]
enum Constant {
    Number(f64),
    Whole(i64),
    Truth(bool),
}

/// The number of the next interpreter. It starts at 1, because 0 is for scratch memory without one.
static INTERPRETERS: AtomicU64 = AtomicU64::new(1);

impl Class {
    fn of(value: Type) -> Self {
        match value {
            Type::Single => Self::Single,
            Type::Double => Self::Double,
            Type::Integer => Self::Integer,
            Type::Truth => Self::Truth,
            Type::Number => unreachable!("the lines have types"),
        }
    }
}

impl Interpreter {
    pub(super) fn new(formula: &Formula) -> Self {
        let lines = formula.lines();
        let mut last_use: Vec<usize> = (0..lines.len()).collect();
        for (i, line) in lines.iter().enumerate() {
            line.arguments()
                .iter()
                .for_each(|node| last_use[node.index()] = i);
        }
        let mut result_of: Vec<Option<usize>> = vec![None; lines.len()];
        for (i, node) in formula.results().iter().enumerate() {
            result_of[node.index()].get_or_insert(i);
        }
        let mut free: [Vec<usize>; 4] = Default::default();
        let mut counts = [0; 4];
        let (mut steps, mut constants) = (Vec::new(), Vec::new());
        let mut places: Vec<Place> = Vec::with_capacity(lines.len());
        for (i, line) in lines.iter().enumerate() {
            let class = Class::of(line.value());
            let mut fresh = || {
                counts[class as usize] += 1;
                let number = counts[class as usize] - 1;
                Register { class, number }
            };
            let constant = match line.operation() {
                Operation::Input(input) => {
                    places.push(Place::Input(usize::from(input)));
                    continue;
                }
                Operation::Constant(bits) => Some(Constant::Number(f64::from_bits(bits))),
                Operation::Whole(x) => Some(Constant::Whole(x)),
                Operation::Always(holds) => Some(Constant::Truth(holds)),
                _ => None,
            };
            if let Some(constant) = constant {
                // A register of its own, because it is filled before the first step.
                let register = fresh();
                constants.push((register, constant));
                places.push(Place::Register(register));
                continue;
            }
            let output = match (result_of[i], free[class as usize].pop()) {
                (Some(result), unused) => {
                    free[class as usize].extend(unused);
                    Place::Output(result)
                }
                (None, Some(number)) => Place::Register(Register { class, number }),
                (None, None) => Place::Register(fresh()),
            };
            let mut inputs = [Place::Input(0); 3];
            for (input, node) in inputs.iter_mut().zip(line.arguments()) {
                *input = places[node.index()];
            }
            // Registers are free from the next step on, so that no step overwrites its inputs.
            let mut ended: Vec<usize> = (line.arguments().iter())
                .map(|node| node.index())
                .filter(|&node| last_use[node] == i && !lines[node].arguments().is_empty())
                .collect();
            ended.sort_unstable();
            ended.dedup();
            for node in ended {
                if let Place::Register(register) = places[node] {
                    free[register.class as usize].push(register.number);
                }
            }
            steps.push(Step {
                run: line.loop_definition().expect("the formula is bound"),
                inputs,
                count: line.arguments().len(),
                output,
            });
            places.push(output);
        }
        let copies = formula
            .results()
            .iter()
            .enumerate()
            .filter_map(|(i, node)| {
                let place = places[node.index()];
                (place != Place::Output(i)).then_some((i, place))
            });
        Self {
            steps,
            constants,
            counts,
            copies: copies.collect(),
            id: INTERPRETERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Fills `outputs` from inputs of the same length.
    pub(super) fn run(&self, inputs: &[Slice<'_>], outputs: &mut [SliceMut<'_>]) {
        // Taken out, so that nothing is borrowed while loops run.
        let mut scratch = SCRATCH.take();
        scratch.prepare(self, outputs.first().map_or(0, SliceMut::len));
        scratch.run(self, inputs, outputs);
        SCRATCH.set(scratch);
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The memory of the registers, reused from block to block.
#[derive(Default)]
struct Scratch {
    single: Vec<Vec<f32>>,
    double: Vec<Vec<f64>>,
    integer: Vec<Vec<i64>>,
    truth: Vec<Vec<bool>>,
    /// The interpreter whose constants are stored, and the number of elements.
    constants_of: (u64, usize),
}

/// Makes room for some registers. Returns whether memory moved.
fn grow<T: Copy + Default>(registers: &mut Vec<Vec<T>>, count: usize, len: usize) -> bool {
    let is_new = registers.len() < count;
    if is_new {
        registers.resize_with(count, Vec::new);
    }
    let short = registers[..count]
        .iter_mut()
        .filter(|register| register.len() < len);
    let resized = short.map(|register| register.resize(len, T::default()));
    resized.count() > 0 || is_new
}

impl Scratch {
    fn prepare(&mut self, interpreter: &Interpreter, len: usize) {
        let [single, double, integer, truth] = interpreter.counts;
        let grown = [
            grow(&mut self.single, single, len),
            grow(&mut self.double, double, len),
            grow(&mut self.integer, integer, len),
            grow(&mut self.truth, truth, len),
        ];
        let (id, up_to) = self.constants_of;
        if id == interpreter.id && up_to >= len && !grown.contains(&true) {
            return;
        }
        for &(register, constant) in &interpreter.constants {
            let i = register.number;
            match (constant, register.class) {
                (Constant::Number(x), Class::Single) => self.single[i].fill(x as f32),
                (Constant::Number(x), _) => self.double[i].fill(x),
                (Constant::Whole(x), _) => self.integer[i].fill(x),
                (Constant::Truth(x), _) => self.truth[i].fill(x),
            }
        }
        self.constants_of = (interpreter.id, len);
    }

    fn run(
        &mut self,
        interpreter: &Interpreter,
        inputs: &[Slice<'_>],
        outputs: &mut [SliceMut<'_>],
    ) {
        let len = outputs.first().map_or(0, SliceMut::len);
        for step in &interpreter.steps {
            // The output is taken out of its place, so that the inputs can be read.
            macro_rules! into_register {
                ($registers:ident, $Variant:ident, $i:expr) => {{
                    let mut target = std::mem::take(&mut self.$registers[$i]);
                    let slices = self.slices(step, inputs, outputs, len);
                    let written = SliceMut::$Variant(&mut target[..len]);
                    step.run.run(&[], &slices[..step.count], written);
                    self.$registers[$i] = target;
                }};
            }
            match step.output {
                Place::Output(i) => {
                    let mut target = outputs[i].take();
                    let slices = self.slices(step, inputs, outputs, len);
                    step.run
                        .run(&[], &slices[..step.count], target.range(0, len));
                    outputs[i] = target;
                }
                Place::Register(Register { class, number }) => match class {
                    Class::Single => into_register!(single, F32, number),
                    Class::Double => into_register!(double, F64, number),
                    Class::Integer => into_register!(integer, I64, number),
                    Class::Truth => into_register!(truth, Bool, number),
                },
                Place::Input(_) => unreachable!("no step writes to an input"),
            }
        }
        for &(i, place) in &interpreter.copies {
            let target = outputs[i].take();
            let source = self.slice(place, inputs, outputs, len);
            let mut target = target;
            crate::conversion::convert(source, target.range(0, len));
            outputs[i] = target;
        }
    }

    fn slices<'a>(
        &'a self,
        step: &Step,
        inputs: &[Slice<'a>],
        outputs: &'a [SliceMut<'_>],
        len: usize,
    ) -> [Slice<'a>; 3] {
        let mut slices = [self.slice(step.inputs[0], inputs, outputs, len); 3];
        let others = slices.iter_mut().zip(step.inputs).take(step.count).skip(1);
        others.for_each(|(slice, place)| *slice = self.slice(place, inputs, outputs, len));
        slices
    }

    fn slice<'a>(
        &'a self,
        place: Place,
        inputs: &[Slice<'a>],
        outputs: &'a [SliceMut<'_>],
        len: usize,
    ) -> Slice<'a> {
        match place {
            Place::Input(i) => inputs[i],
            Place::Output(i) => outputs[i].as_slice(),
            Place::Register(Register { class, number }) => match class {
                Class::Single => Slice::F32(&self.single[number][..len]),
                Class::Double => Slice::F64(&self.double[number][..len]),
                Class::Integer => Slice::I64(&self.integer[number][..len]),
                Class::Truth => Slice::Bool(&self.truth[number][..len]),
            },
        }
    }
}
