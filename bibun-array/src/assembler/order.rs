//! The lines of a formula in the order in which they are computed, with what is known of each.

use super::folds::Fold;
use super::functions::Function;
use crate::dtype::Accumulator;
use crate::formula::{Formula, Operation, Target, Type};
use crate::{DType, Reduce};

/// A line of a formula.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) value: Type,
    /// The type that is computed with.
    pub(super) of: Type,
    arguments: [u32; 3],
    count: u8,
    /// Whether the product of a `MultiplyAdd` is negated, and its term.
    pub(super) negative_product: bool,
    pub(super) negative_term: bool,
    /// Whether a function is called only where the truth holds that is the second argument; else
    /// it is the third.
    pub(super) is_guarded: bool,
    /// Whether an extreme is NaN if its first argument is.
    pub(super) keeps_nan: bool,
    /// Whether a result needs it.
    pub(super) is_needed: bool,
    /// Whether it is a result.
    pub(super) is_result: bool,
    /// Whether it is the same at all elements.
    pub(super) is_uniform: bool,
    /// Whether it is uniform, and a line needs it that is not.
    pub(super) is_kept: bool,
}

impl Step {
    /// A step of no line.
    pub(super) const fn alone(operation: Operation, of: Type, value: Type) -> Self {
        Self {
            operation,
            value,
            of,
            arguments: [0; 3],
            count: 0,
            negative_product: false,
            negative_term: false,
            is_guarded: false,
            keeps_nan: true,
            is_needed: true,
            is_result: false,
            is_uniform: false,
            is_kept: false,
        }
    }

    pub(super) fn arguments(&self) -> &[u32] {
        &self.arguments[..usize::from(self.count)]
    }

    /// Whether this is a constant of the formula.
    pub(super) const fn is_constant(&self) -> bool {
        matches!(self.operation, Operation::Constant(_) | Operation::Whole(_))
    }

    /// Whether there is nothing to compute in a turn.
    pub(super) const fn is_leaf(&self) -> bool {
        self.is_uniform || matches!(self.operation, Operation::Input(_))
    }
}

/// The lines of a formula.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) all: Vec<Step>,
    /// The lines of the results.
    pub(super) results: Vec<usize>,
    /// The lines that are computed in every turn.
    pub(super) order: Vec<usize>,
    /// The dtypes of the inputs that are read, and whether one element is repeated.
    pub(super) inputs: Vec<Option<(DType, bool)>>,
    /// What becomes of the results.
    pub(super) targets: Vec<Target>,
    /// The results of which folds leave out what is NaN.
    pub(super) without_nan: Vec<bool>,
    live: Live,
}

/// The largest numbers of values that are needed at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Live {
    all: usize,
    numbers: usize,
    truths: usize,
}

impl Steps {
    /// The lines of a formula on inputs of these dtypes, each one element that is repeated or as
    /// many as there are, and with these outputs. Returns `None` if a value has no
    /// precision, or another one than the elements.
    pub(super) fn new(
        formula: &Formula,
        stored_inputs: &[(DType, bool)],
        targets: &[Target],
    ) -> Option<Self> {
        let mut inputs = vec![None; formula.inputs()];
        let mut all: Vec<Step> = Vec::with_capacity(formula.lines().len());
        for line in formula.lines() {
            let mut arguments = [0; 3];
            for (argument, node) in arguments.iter_mut().zip(line.arguments()) {
                *argument = node.index() as u32;
            }
            let count = line.arguments().len();
            let types = arguments[..count].iter().map(|&a| all[a as usize].value);
            let of = types.clone().find(|&of| of != Type::Truth);
            if line.value() == Type::Number {
                return None;
            }
            let is_uniform = match line.operation() {
                Operation::Input(i) => {
                    let (dtype, is_repeated) = stored_inputs[usize::from(i)];
                    if computed(dtype) != line.value() {
                        return None;
                    }
                    inputs[usize::from(i)] = Some((dtype, is_repeated));
                    is_repeated
                }
                _ => arguments[..count]
                    .iter()
                    .all(|&a| all[a as usize].is_uniform),
            };
            let mut step = Step {
                operation: line.operation(),
                value: line.value(),
                of: of.unwrap_or(line.value()),
                arguments,
                count: count as u8,
                negative_product: false,
                negative_term: false,
                is_guarded: false,
                keeps_nan: false,
                is_needed: false,
                is_result: false,
                is_uniform,
                is_kept: false,
            };
            match line.operation() {
                Operation::MultiplyAdd => step.take_signs(&all),
                Operation::Select => {
                    step.find_extreme(&all);
                    step.find_call(&all);
                }
                _ => {}
            }
            all.push(step);
        }
        let mut results: Vec<usize> = formula.results().iter().map(|node| node.index()).collect();
        let are_of =
            |(&line, target): (&usize, &Target)| all[line].value == computed(target.dtype());
        if !results.iter().zip(targets).all(are_of) {
            return None;
        }
        let without_nan = (results.iter_mut().zip(targets))
            .map(
                |(line, target)| match folded_numbers(&all, *line, *target) {
                    Some(of) => {
                        *line = of;
                        true
                    }
                    None => false,
                },
            )
            .collect();
        let mut steps = Self {
            all,
            results,
            without_nan,
            order: Vec::new(),
            inputs,
            targets: targets.to_vec(),
            live: Live::default(),
        };
        steps.mark();
        let as_written: Vec<usize> = (0..steps.all.len())
            .filter(|&i| steps.all[i].is_needed && !steps.all[i].is_leaf())
            .collect();
        let as_asked = steps.as_asked();
        let live = [&as_written, &as_asked].map(|order| steps.live_in(order));
        (steps.live, steps.order) = match live[1] < live[0] {
            true => (live[1], as_asked),
            false => (live[0], as_written),
        };
        Some(steps)
    }

    /// The largest number of vectors that are needed at once.
    pub(super) const fn live(&self, has_masks: bool) -> usize {
        match has_masks {
            true => self.live.numbers,
            false => self.live.all,
        }
    }

    /// Marks the lines that results need, and what is kept for all turns.
    fn mark(&mut self) {
        for &result in &self.results {
            self.all[result].is_needed = true;
            self.all[result].is_result = true;
            self.all[result].is_kept = self.all[result].is_uniform;
        }
        for i in (0..self.all.len()).rev() {
            let step = self.all[i];
            if !step.is_needed {
                continue;
            }
            for &argument in step.arguments() {
                let argument = &mut self.all[argument as usize];
                argument.is_needed = true;
                argument.is_kept |= argument.is_uniform && !step.is_uniform;
            }
        }
        for step in &mut self.all {
            step.is_kept &= !step.is_constant();
        }
    }

    /// The lines in the order in which the results ask for them, those first that need more
    /// registers.
    fn as_asked(&self) -> Vec<usize> {
        let mut needs: Vec<u32> = Vec::with_capacity(self.all.len());
        let mut sorted: Vec<[u32; 3]> = Vec::with_capacity(self.all.len());
        for step in &self.all {
            let mut arguments = step.arguments;
            let own = &mut arguments[..usize::from(step.count)];
            own.sort_by_key(|&a| u32::MAX - needs[a as usize]);
            let need = (0..)
                .zip(own.iter())
                .map(|(held, &a)| needs[a as usize] + held);
            needs.push(match step.is_uniform {
                true => 0,
                false => need.max().unwrap_or(0).max(1),
            });
            sorted.push(arguments);
        }
        let mut order = Vec::new();
        let mut done: Vec<bool> = self.all.iter().map(Step::is_leaf).collect();
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for &result in &self.results {
            stack.push((result, 0));
            while let Some((line, argument)) = stack.pop() {
                if done[line] {
                    continue;
                }
                if argument < usize::from(self.all[line].count) {
                    stack.push((line, argument + 1));
                    stack.push((sorted[line][argument] as usize, 0));
                } else {
                    done[line] = true;
                    order.push(line);
                }
            }
        }
        order
    }

    /// The largest numbers of values that are needed at once in an order.
    fn live_in(&self, order: &[usize]) -> Live {
        let mut last_use = vec![0; self.all.len()];
        for (place, &line) in order.iter().enumerate() {
            for &argument in self.all[line].arguments() {
                last_use[argument as usize] = place;
            }
        }
        let mut is_live = vec![false; self.all.len()];
        let (mut now, mut most) = (Live::default(), Live::default());
        for (place, &line) in order.iter().enumerate() {
            let arguments = self.all[line].arguments();
            for value in arguments.iter().map(|&a| a as usize).chain([line]) {
                if !self.all[value].is_uniform && !is_live[value] {
                    is_live[value] = true;
                    now.count(self.all[value].value, 1);
                }
            }
            most = most.max_of(now);
            for value in arguments.iter().map(|&a| a as usize).chain([line]) {
                if is_live[value] && last_use[value] <= place {
                    is_live[value] = false;
                    now.count(self.all[value].value, -1);
                }
            }
        }
        most
    }
}

impl Step {
    /// Takes the signs of negated arguments of a `MultiplyAdd` into the instruction.
    fn take_signs(&mut self, all: &[Self]) {
        for (i, argument) in self.arguments.iter_mut().enumerate() {
            let step = &all[*argument as usize];
            if step.operation == Operation::Negative {
                *argument = step.arguments[0];
                match i {
                    2 => self.negative_term ^= true,
                    _ => self.negative_product ^= true,
                }
            }
        }
    }
}

/// The line of which a fold finds the extreme of what is not NaN, where this line is the choice of the
/// fold's neutral number instead of NaN: the extremes of processors leave NaN out themselves.
fn folded_numbers(all: &[Step], line: usize, target: Target) -> Option<usize> {
    let Target::Fold(reduction) = target else {
        return None;
    };
    let step = &all[line];
    let &[truth, chosen, x] = step.arguments() else {
        return None;
    };
    let [truth, chosen] = [truth, chosen].map(|line| &all[line as usize]);
    let neutral = Fold::neutral_of(reduction).to_bits();
    let is_extreme = matches!(reduction, Reduce::Max | Reduce::Min);
    let leaves_nan_out = step.operation == Operation::Select
        && truth.operation == Operation::IsNan
        && truth.arguments() == [x]
        && chosen.operation == Operation::Constant(neutral);
    (is_extreme && leaves_nan_out).then_some(x as usize)
}

impl Step {
    /// Finds choices of the greater or lesser number, for which there are instructions. In steps,
    /// `Maximum` of floats is the first number if it is greater than the second, which is what it
    /// is otherwise; `Minimum` likewise.
    fn find_extreme(&mut self, all: &[Self]) {
        let step = |line: u32| &all[line as usize];
        let [truth, x, y] = self.arguments;
        if step(truth).operation == Operation::Not {
            self.arguments = [step(truth).arguments[0], y, x];
            return self.find_extreme(all);
        }
        if !matches!(self.of, Type::Single | Type::Double) {
            return;
        }
        let is = |truth: u32, operation: Operation, arguments: &[u32]| {
            step(truth).operation == operation && step(truth).arguments() == arguments
        };
        if is(truth, Operation::Less, &[y, x]) {
            return self.become_extreme(Operation::Maximum, x, y);
        }
        if is(truth, Operation::Less, &[x, y]) {
            return self.become_extreme(Operation::Minimum, x, y);
        }
        if step(truth).operation != Operation::Or {
            return;
        }
        // As `maximum` and `minimum` are expanded, and as others may write them.
        let [either, is_nan, _] = step(truth).arguments;
        if !is(is_nan, Operation::IsNan, &[x]) {
            return;
        }
        let operation = match *step(either).arguments() {
            [a, b] if (a, b) == (y, x) => Operation::Maximum,
            [a, b] if (a, b) == (x, y) => Operation::Minimum,
            _ => return,
        };
        match step(either).operation {
            Operation::Less => {
                self.become_extreme(operation, x, y);
                self.keeps_nan = true;
            }
            Operation::LessEqual => {
                self.become_extreme(operation, y, x);
                let is_number = |bits: u64| !f64::from_bits(bits).is_nan();
                self.keeps_nan =
                    !matches!(step(y).operation, Operation::Constant(bits) if is_number(bits));
            }
            _ => {}
        }
    }

    /// Finds a function of one argument that is called only where it is chosen.
    fn find_call(&mut self, all: &[Self]) {
        let [truth, x, y] = self.arguments;
        let chosen = &all[x as usize];
        if self.operation == Operation::Select
            && Function::is_called(chosen.operation, chosen.of)
            && chosen.count == 1
        {
            self.operation = chosen.operation;
            self.arguments = [chosen.arguments[0], truth, y];
            self.is_guarded = true;
        }
    }

    fn become_extreme(&mut self, operation: Operation, x: u32, y: u32) {
        self.operation = operation;
        self.arguments = [x, y, 0];
        self.count = 2;
    }
}

impl Live {
    fn count(&mut self, value: Type, change: isize) {
        let own = match value {
            Type::Truth => &mut self.truths,
            _ => &mut self.numbers,
        };
        *own = own.wrapping_add_signed(change);
        self.all = self.all.wrapping_add_signed(change);
    }

    fn max_of(self, other: Self) -> Self {
        Self {
            all: self.all.max(other.all),
            numbers: self.numbers.max(other.numbers),
            truths: self.truths.max(other.truths),
        }
    }
}

/// The type in which elements of a dtype are computed.
pub(super) fn computed(dtype: DType) -> Type {
    match dtype.computed() {
        Accumulator::Bool => Type::Truth,
        Accumulator::I64 => Type::Integer,
        Accumulator::F32 => Type::Single,
        Accumulator::F64 => Type::Double,
        Accumulator::C64 | Accumulator::C128 => crate::dtype::not_complex(),
    }
}
