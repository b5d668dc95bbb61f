//! Formulas without their own loop: machine code that is made at the first run, or one operation
//! after the other, each over a block of elements that stays in the first-level cache.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::elementwise::RUN;
use super::interpreter::is_alone;
use crate::assembler::Code;
use crate::dtype::Accumulator;
use crate::formula::{Formula, Line, Operation, Type};
use crate::math::Machine;
use crate::{DType, Definition, Element, Slice, SliceMut};

/// A formula with its values assigned to registers.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    formula: Formula,
    steps: Vec<Step>,
    /// Registers that have the same number in all elements.
    fixed: Vec<(usize, Fixed)>,
    fixed_truths: Vec<(usize, bool)>,
    numbers: usize,
    truths: usize,
    result: Operand,
    result_type: Type,
    /// The number of this program, which no other program has.
    id: u64,
    /// The code for f32 and for f64.
    codes: [OnceLock<Assembled>; 2],
    /// The formula of complex numbers, if it has a meaning for them.
    of_complex: OnceLock<Option<Formula>>,
}

/// Machine code with the numbers that were given when it was made, if this machine can have some.
#[derive(Debug)]
struct Assembled {
    given: Vec<f64>,
    code: Option<Code>,
}

/// The least number of elements for which machine code is called.
const LEAST: usize = 256;

#[derive(Debug)]
struct Step {
    run: &'static Definition,
    inputs: [Operand; 3],
    count: usize,
    output: Operand,
}

/// The location of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operand {
    Input(usize),
    Number(usize),
    Truth(usize),
}

#[derive(Clone, Copy, Debug)]
enum Fixed {
    Given(usize),
    Constant(f64),
    Largest,
}

/// The number of the next program. It starts at 1, because 0 is for scratch memory without a
/// program.
static PROGRAMS: AtomicU64 = AtomicU64::new(1);

impl Program {
    pub(crate) fn new(name: &'static str, formula: &Formula) -> Self {
        assert_eq!(formula.results().len(), 1, "a kernel has one result");
        let is_of_floats = |line: &Line| {
            let is_input = matches!(line.operation(), Operation::Input(_));
            line.value() == Type::Number || line.value() == Type::Truth && !is_input
        };
        assert!(
            formula.lines().iter().all(is_of_floats),
            "there are no loops for integers that are known only now"
        );
        let composed = formula.composed(&|operation| {
            operation.arguments().is_empty() || operation.definition().is_some()
        });
        let lines = composed.lines();
        let mut last_use: Vec<usize> = (0..lines.len()).collect();
        for (i, line) in lines.iter().enumerate() {
            line.arguments()
                .iter()
                .for_each(|node| last_use[node.index()] = i);
        }
        last_use[composed.result().index()] = usize::MAX;
        let (mut numbers, mut truths) = (Registers::default(), Registers::default());
        let (mut steps, mut fixed, mut fixed_truths) = (Vec::new(), Vec::new(), Vec::new());
        let mut places: Vec<Operand> = Vec::with_capacity(lines.len());
        for (i, line) in lines.iter().enumerate() {
            let is_truth = line.value() == Type::Truth;
            let leaf = match line.operation() {
                Operation::Input(input) => {
                    places.push(Operand::Input(usize::from(input)));
                    continue;
                }
                Operation::Given(given) => Some(Fixed::Given(usize::from(given))),
                Operation::Constant(bits) => Some(Fixed::Constant(f64::from_bits(bits))),
                Operation::Largest => Some(Fixed::Largest),
                _ => None,
            };
            if let Operation::Always(holds) = line.operation() {
                let register = truths.take_new();
                fixed_truths.push((register, holds));
                places.push(Operand::Truth(register));
                continue;
            }
            if let Some(leaf) = leaf {
                let register = numbers.take_new();
                fixed.push((register, leaf));
                places.push(Operand::Number(register));
                continue;
            }
            let output = match is_truth {
                true => Operand::Truth(truths.take()),
                false => Operand::Number(numbers.take()),
            };
            let mut inputs = [Operand::Input(0); 3];
            for (input, node) in inputs.iter_mut().zip(line.arguments()) {
                *input = places[node.index()];
            }
            // Registers are free from the next step on, so that a step never overwrites its inputs.
            let mut ended: Vec<usize> = line
                .arguments()
                .iter()
                .map(|node| node.index())
                .filter(|&node| last_use[node] == i)
                .collect();
            ended.sort_unstable();
            ended.dedup();
            for node in ended {
                match places[node] {
                    Operand::Truth(register)
                        if !fixed_truths.iter().any(|(fixed, _)| *fixed == register) =>
                    {
                        truths.free(register);
                    }
                    Operand::Number(register)
                        if !fixed.iter().any(|(fixed, _)| *fixed == register) =>
                    {
                        numbers.free(register);
                    }
                    Operand::Number(_) | Operand::Truth(_) | Operand::Input(_) => {}
                }
            }
            steps.push(Step {
                run: line
                    .operation()
                    .definition()
                    .expect("the formula has been composed"),
                inputs,
                count: line.arguments().len(),
                output,
            });
            places.push(output);
        }
        Self {
            name,
            formula: formula.clone(),
            steps,
            fixed,
            fixed_truths,
            numbers: numbers.count,
            truths: truths.count,
            result: places[composed.result().index()],
            result_type: lines[composed.result().index()].value(),
            id: PROGRAMS.fetch_add(1, Ordering::Relaxed),
            codes: Default::default(),
            of_complex: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn formula(&self) -> &Formula {
        &self.formula
    }

    /// The formula of complex numbers, if it has a meaning for them.
    pub(crate) fn of_complex(&self) -> Option<&Formula> {
        let formula = || crate::complex::complex_formula(&self.formula);
        self.of_complex.get_or_init(formula).as_ref()
    }

    pub(crate) fn output(&self, input: DType) -> DType {
        match self.result_type {
            Type::Truth => DType::Bool,
            Type::Number | Type::Single | Type::Double | Type::Integer => input,
        }
    }

    /// Fills `out` from runs of the same length.
    pub(crate) fn run(&self, given: &[f64], inputs: &[Slice<'_>], out: SliceMut<'_>) {
        if inputs[0].dtype().is_complex() {
            let formula = self.of_complex().expect("the caller has asked for it");
            return crate::complex::run(formula, given, inputs, out);
        }
        if let Some(code) = self.code(given, inputs[0].dtype(), out.len()) {
            return code.run(inputs, &mut [out]);
        }
        match inputs[0].dtype().computed() {
            Accumulator::F32 => SINGLE.with(|scratch| self.run_in(scratch, given, inputs, out)),
            Accumulator::F64 => DOUBLE.with(|scratch| self.run_in(scratch, given, inputs, out)),
            Accumulator::Bool | Accumulator::I64 | Accumulator::C64 | Accumulator::C128 => {
                unreachable!("formulas are of floats")
            }
        }
    }

    /// Whether there is machine code for runs of this length.
    pub(crate) fn has_code(&self, given: &[f64], dtype: DType, len: usize) -> bool {
        self.code(given, dtype, len).is_some()
    }

    /// The machine code for runs of this length, and the numbers that were given first.
    fn code(&self, given: &[f64], dtype: DType, len: usize) -> Option<&Code> {
        if len < LEAST || is_alone() {
            return None;
        }
        let place = &self.codes[usize::from(dtype.computed() == Accumulator::F64)];
        let assembled = place.get_or_init(|| Assembled {
            given: given.to_vec(),
            code: self.assembled(given, dtype),
        });
        let mut both = assembled.given.iter().zip(given);
        let fits = both.all(|(a, b)| a.to_bits() == b.to_bits());
        assembled.code.as_ref().filter(|_| fits)
    }

    fn assembled(&self, given: &[f64], dtype: DType) -> Option<Code> {
        let (inputs, output) = (self.formula.inputs(), self.output(dtype));
        let dtypes: Vec<DType> = (0..inputs).map(|_| dtype).chain([output]).collect();
        let formula = self.formula.bound(&dtypes, given)?.in_depth_first_order();
        let read = vec![(dtype, false); inputs];
        Code::for_arrays(&formula.arithmetic(), &read, &[output], RUN)
    }

    fn run_in<T: Machine + Element>(
        &self,
        scratch: &RefCell<Scratch<T>>,
        given: &[f64],
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) {
        // Taken out, so that nothing is borrowed while loops run.
        let mut registers = scratch.take();
        registers.prepare(self, given, out.len());
        registers.run(self, inputs, out);
        scratch.replace(registers);
    }
}

/// Registers during their assignment.
#[derive(Default)]
struct Registers {
    count: usize,
    free: Vec<usize>,
}

impl Registers {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| self.take_new())
    }

    /// A register that has not been used before, so that it may be filled before the first step.
    fn take_new(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }

    fn free(&mut self, register: usize) {
        self.free.push(register);
    }
}

thread_local! {
    static SINGLE: RefCell<Scratch<f32>> = RefCell::default();
    static DOUBLE: RefCell<Scratch<f64>> = RefCell::default();
}

/// The memory of the registers, reused from block to block.
#[derive(Default)]
struct Scratch<T> {
    numbers: Vec<Vec<T>>,
    truths: Vec<Vec<bool>>,
    /// The program whose fixed numbers are stored, its given numbers, and the number of elements.
    fixed_for: (u64, Vec<f64>, usize),
}

impl<T: Machine + Element> Scratch<T> {
    fn prepare(&mut self, program: &Program, given: &[f64], len: usize) {
        let grow = |registers: usize, have: usize| registers.saturating_sub(have);
        let more = grow(program.numbers, self.numbers.len());
        self.numbers.extend((0..more).map(|_| Vec::new()));
        let more = grow(program.truths, self.truths.len());
        self.truths.extend((0..more).map(|_| Vec::new()));
        for register in &mut self.numbers[..program.numbers] {
            if register.len() < len {
                register.resize(len, T::ZERO);
                self.fixed_for.2 = 0;
            }
        }
        for register in &mut self.truths[..program.truths] {
            if register.len() < len {
                register.resize(len, false);
                self.fixed_for.2 = 0;
            }
        }
        let id = program.id;
        let (of, with, up_to) = &self.fixed_for;
        if *of == id && with == given && *up_to >= len {
            return;
        }
        for &(register, fixed) in &program.fixed {
            let number = match fixed {
                Fixed::Given(i) => T::from_f64(given[i]),
                Fixed::Constant(x) => T::from_f64(x),
                Fixed::Largest => T::largest(),
            };
            self.numbers[register][..len].fill(number);
        }
        for &(register, holds) in &program.fixed_truths {
            self.truths[register][..len].fill(holds);
        }
        self.fixed_for = (id, given.to_vec(), len);
    }

    fn run(&mut self, program: &Program, inputs: &[Slice<'_>], out: SliceMut<'_>) {
        let len = out.len();
        let mut out = Some(out);
        for (i, step) in program.steps.iter().enumerate() {
            // A formula has nothing that its result does not need, so the last step computes the
            // result.
            if i + 1 == program.steps.len() {
                let out = out.take().expect("there is one last step");
                let slices = self.slices(step, inputs, len);
                return step.run.run(&[], &slices[..step.count], out);
            }
            match step.output {
                Operand::Number(register) => {
                    let mut target = std::mem::take(&mut self.numbers[register]);
                    let slices = self.slices(step, inputs, len);
                    step.run.run(
                        &[],
                        &slices[..step.count],
                        T::to_slice_mut(&mut target[..len]),
                    );
                    self.numbers[register] = target;
                }
                Operand::Truth(register) => {
                    let mut target = std::mem::take(&mut self.truths[register]);
                    let slices = self.slices(step, inputs, len);
                    let written = SliceMut::Bool(&mut target[..len]);
                    step.run.run(&[], &slices[..step.count], written);
                    self.truths[register] = target;
                }
                Operand::Input(_) => unreachable!("no step writes to an input"),
            }
        }
        let out = out.expect("no step has written it");
        let numbers = match program.result {
            Operand::Input(i) => T::from_slice(inputs[i]).expect("the inputs are numbers"),
            Operand::Number(register) => &self.numbers[register][..len],
            Operand::Truth(register) => {
                let y = bool::from_slice_mut(out).expect("the result is a truth");
                return y.copy_from_slice(&self.truths[register][..len]);
            }
        };
        let y = T::from_slice_mut(out).expect("the result is a number");
        y.copy_from_slice(numbers);
    }

    fn slices<'a>(&'a self, step: &Step, inputs: &[Slice<'a>], len: usize) -> [Slice<'a>; 3] {
        step.inputs.map(|operand| match operand {
            Operand::Input(i) => inputs[i],
            Operand::Number(register) => T::to_slice(&self.numbers[register][..len]),
            Operand::Truth(register) => Slice::Bool(&self.truths[register][..len]),
        })
    }
}
