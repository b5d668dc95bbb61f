//! The choice of the kernels that are computed in one pass over memory.

use std::sync::Arc;

use super::Planned;
use super::listing::Origin;
use crate::DType;
use crate::cpu::Fused;
use crate::formula::{Member, Source};
use crate::kernel::Kernel;
use crate::shape::Layout;
use crate::trace::{CHECK, Operand, SlotSpec, Step, Work};

/// The most arrays that one pass reads: an input of a formula has a number below 256.
const INPUTS: usize = 200;

/// Kernels that will be computed in one pass.
struct Group {
    /// The number of elements.
    size: usize,
    operands: Vec<GroupInput>,
    members: Vec<Member>,
    /// The slot of the result of each member.
    slots: Vec<usize>,
    origins: Vec<Origin>,
}

/// An array that a pass reads.
struct GroupInput {
    operand: Operand,
    dtype: DType,
    /// The layout with its axes in the memory order of the results.
    ordered: Layout,
}

/// A step of the plan while it is made.
enum Draft {
    Group(Group),
    Call(Step),
}

/// The steps in an order in which they can be run, with kernels fused into the groups they fit.
pub(super) fn plan(steps: Vec<Step>, slots: &[SlotSpec], outputs: &[Operand]) -> Vec<Planned> {
    let mut drafts: Vec<Draft> = Vec::new();
    // Where each slot is computed: the position of its draft, and its member in that group.
    let mut made: Vec<Option<(usize, Option<usize>)>> = vec![None; slots.len()];
    // The latest group for each number of elements, and all before it.
    for step in steps {
        let formula = match &step.work {
            Work::Kernel(kernel) => member_formula(kernel, &step, slots),
            Work::Call { .. } | Work::Join(_) => None,
        };
        let Some(formula) = formula else {
            made[step.first..][..step.outputs].fill(Some((drafts.len(), None)));
            drafts.push(Draft::Call(step));
            continue;
        };
        let spec = &slots[step.first];
        let out = match spec.is_inline {
            true => &Layout::default(),
            false => &spec.layout,
        };
        let size = out.shape.size();
        let ordered: Vec<Layout> = step
            .inputs
            .iter()
            .map(|operand| match spec.is_inline {
                // All inputs are single values, too.
                true => Layout {
                    offset: operand.layout().offset,
                    ..Layout::default()
                },
                false => in_memory_order(operand.layout(), out),
            })
            .collect();
        // A value of the group itself is read from a register if it is read in its own order.
        let from_register = |i: usize, draft: usize| match &step.inputs[i] {
            Operand::Slot(slot, _) => match made[*slot] {
                Some((position, Some(member))) if position == draft => {
                    is_linear(&ordered[i], slots[*slot].elements()).then_some(member)
                }
                _ => None,
            },
            Operand::Constant(_) => None,
        };
        // The group comes after everything that is read from memory.
        let fits = |draft: usize| {
            (0..step.inputs.len()).all(|i| match &step.inputs[i] {
                Operand::Slot(slot, _) => match made[*slot] {
                    None => true,
                    Some((position, _)) => position < draft || from_register(i, draft).is_some(),
                },
                Operand::Constant(_) => true,
            })
        };
        let candidates = drafts.iter().enumerate().rev();
        let found = candidates
            .filter(|(_, draft)| {
                matches!(draft, Draft::Group(group) if group.size == size
                    && group.operands.len() + step.inputs.len() <= INPUTS)
            })
            .map(|(position, _)| position)
            .take(8)
            .find(|&position| fits(position));
        let position = found.unwrap_or_else(|| {
            drafts.push(Draft::Group(Group {
                size,
                operands: Vec::new(),
                members: Vec::new(),
                slots: Vec::new(),
                origins: Vec::new(),
            }));
            drafts.len() - 1
        });
        let registers: Vec<Option<usize>> = (0..step.inputs.len())
            .map(|i| from_register(i, position))
            .collect();
        let Draft::Group(group) = &mut drafts[position] else {
            unreachable!("a group was found or made")
        };
        let inputs = step.inputs.iter().zip(ordered).zip(registers);
        let inputs = inputs.map(|((operand, ordered), register)| {
            let known = match operand {
                Operand::Constant(x) => x.inline(),
                Operand::Slot(..) => None,
            };
            match (known, register) {
                (Some(element), _) => Source::Constant(element),
                (None, Some(member)) => Source::Member(member),
                (None, None) => Source::Input(group.input(operand, ordered, slots)),
            }
        });
        let inputs = inputs.collect();
        made[step.first] = Some((position, Some(group.members.len())));
        group.members.push(Member { formula, inputs });
        group.slots.push(step.first);
        group.origins.push(step.origin());
    }
    let is_read = read_from_memory(&drafts, outputs, slots.len());
    drafts
        .into_iter()
        .map(|draft| match draft {
            Draft::Group(group) => group.finish(slots, &is_read),
            Draft::Call(step) => call(step, slots),
        })
        .collect()
}

impl Group {
    /// The number of an input, which is a new one if no equal one is there.
    fn input(&mut self, operand: &Operand, ordered: Layout, slots: &[SlotSpec]) -> usize {
        let same = |input: &GroupInput| match (&input.operand, operand) {
            (Operand::Slot(a, _), Operand::Slot(b, _)) => {
                a == b
                    && input.ordered.offset == ordered.offset
                    && input.ordered.shape == ordered.shape
                    && input.ordered.has_steps_of(&ordered)
            }
            _ => false,
        };
        if let Some(known) = self.operands.iter().position(same) {
            return known;
        }
        let dtype = match operand {
            Operand::Slot(slot, _) => slots[*slot].dtype,
            Operand::Constant(x) => x.dtype(),
        };
        self.operands.push(GroupInput {
            operand: operand.clone(),
            dtype,
            ordered,
        });
        self.operands.len() - 1
    }

    fn finish(self, slots: &[SlotSpec], is_read: &[bool]) -> Planned {
        let results: Vec<usize> = (0..self.slots.len())
            .filter(|&member| is_read[self.slots[member]])
            .collect();
        let outputs: Vec<usize> = results.iter().map(|&member| self.slots[member]).collect();
        let inputs = self
            .operands
            .iter()
            .map(|input| (input.dtype, input.ordered.clone()));
        let operations = (self.origins.into_iter().zip(&self.members).enumerate())
            .map(|(i, (origin, member))| {
                let result = results.iter().position(|&result| result == i);
                (origin, member.inputs.clone(), result)
            })
            .collect();
        let made = outputs.iter().map(|&slot| slots[slot].clone());
        let fused = Fused::new(
            self.size,
            inputs.collect(),
            &self.members,
            &results,
            made.map(|spec| (spec.dtype, spec.layout)).collect(),
        );
        Planned::Fused {
            fused: Arc::new(fused),
            operands: self
                .operands
                .into_iter()
                .map(|input| input.operand)
                .collect(),
            outputs,
            operations,
        }
    }
}

/// The formula of a kernel that can be computed with others, or `None` if it has none, or elements
/// are stored in another type than the one they are computed in.
pub(super) fn member_formula(
    kernel: &Kernel,
    step: &Step,
    slots: &[SlotSpec],
) -> Option<crate::formula::Formula> {
    let dtype = |operand: &Operand| match operand {
        Operand::Slot(slot, _) => slots[*slot].dtype,
        Operand::Constant(x) => x.dtype(),
    };
    let output = slots[step.first].dtype;
    let dtypes = step.inputs.iter().map(dtype).chain([output]);
    kernel.bound_formula(&dtypes.collect::<Vec<DType>>())
}

fn call(step: Step, slots: &[SlotSpec]) -> Planned {
    let origin = step.origin();
    let is_known = match &step.work {
        Work::Call {
            name, parameters, ..
        } => parameters.is_some() || *name == CHECK,
        Work::Kernel(_) | Work::Join(_) => true,
    };
    let (name, along, join, run) = match step.work {
        Work::Call {
            name, along, run, ..
        } => (name, along, None, run),
        Work::Join(join) => {
            let own = Arc::clone(&join);
            let run: Arc<crate::trace::Run> =
                Arc::new(move |values| vec![own.run(|i| (&values[i], values[i].layout().offset))]);
            ("join", None, Some(join), run)
        }
        Work::Kernel(kernel) => {
            let name = kernel.name();
            let run: Arc<crate::trace::Run> =
                Arc::new(move |mut inputs| vec![crate::run_kernel(&kernel, &mut inputs)]);
            (name, None, None, run)
        }
    };
    debug_assert!(step.first + step.outputs <= slots.len());
    Planned::Call {
        name,
        along,
        is_known,
        join,
        run,
        operands: step.inputs,
        first: step.first,
        outputs: step.outputs,
        origin,
    }
}

/// The slots that are read from memory: as outputs, by calls, by other groups, and in another order.
fn read_from_memory(drafts: &[Draft], outputs: &[Operand], slots: usize) -> Vec<bool> {
    let mut is_read = vec![false; slots];
    let groups = drafts.iter().flat_map(|draft| -> Vec<&Operand> {
        match draft {
            Draft::Group(group) => group.operands.iter().map(|input| &input.operand).collect(),
            Draft::Call(step) => step.inputs.iter().collect(),
        }
    });
    for operand in groups.chain(outputs) {
        if let Operand::Slot(slot, _) = operand {
            is_read[*slot] = true;
        }
    }
    is_read
}

/// The axes of `own` in the memory order of `out`, those of size 1 left out.
fn in_memory_order(own: &Layout, out: &Layout) -> Layout {
    let order = out.order();
    let axes = || order.iter().filter(|&&axis| own.shape[axis] != 1);
    Layout {
        shape: axes().map(|&axis| own.shape[axis]).collect(),
        strides: axes().map(|&axis| own.strides[axis]).collect(),
        offset: own.offset,
    }
}

/// Whether a window goes through the memory of a slot from its beginning to its end.
fn is_linear(ordered: &Layout, size: usize) -> bool {
    ordered.offset == 0 && ordered.shape.size() == size && ordered.is_row_major()
}
