//! Parts that are written into one array, as one step.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cpu::Join;
use crate::trace::{ASSIGN, COPY, EMPTY, Operand, SlotSpec, Step, Work};

/// An array while its parts are written, one after the other.
struct Open {
    join: Join,
    /// The step of the last part, with the values of all parts.
    step: Step,
}

impl Open {
    /// The step that writes all parts.
    fn finish(self) -> Step {
        Step {
            work: Work::Join(Arc::new(self.join)),
            ..self.step
        }
    }
}

/// What has been read of a recording.
#[derive(Default)]
struct Joins {
    empty: HashMap<usize, Step>,
    open: HashMap<usize, Open>,
    done: Vec<Step>,
}

impl Joins {
    /// Ends the array of a slot, because it is read.
    fn close(&mut self, operand: &Operand) {
        let Some(slot) = operand.slot() else {
            return;
        };
        let join = self.open.remove(&slot).map(Open::finish);
        self.done.extend(join.or_else(|| self.empty.remove(&slot)));
    }

    /// Adds a part to the array whose slot it overwrites, if nobody else reads that, or gives the part
    /// back.
    fn write(&mut self, mut part: Step, readers: &[usize], slots: &[SlotSpec]) -> Option<Step> {
        let Work::Call { part: Some(to), .. } = &part.work else {
            return Some(part);
        };
        if Join::is_shared(to.shape.size()) {
            return Some(part);
        }
        let to = to.clone();
        let target = part.inputs.first().and_then(|target| match target {
            Operand::Slot(slot, layout) => {
                let own = &slots[*slot].layout;
                let is_whole = own.shape == layout.shape
                    && own.offset == layout.offset
                    && own.has_steps_of(layout);
                is_whole.then_some(*slot)
            }
            Operand::Constant(_) => None,
        });
        let open = target.filter(|&target| readers[target] == 1);
        let open = open.and_then(|target| self.open.remove(&target));
        let new = || {
            let spec = &slots[self.empty.get(&target?)?.first];
            Some((Join::new(spec.dtype, spec.layout.shape.clone()), Vec::new()))
        };
        let known = open.map(|open| (open.join, open.step.inputs));
        let Some((mut join, mut values)) = known.or_else(new) else {
            return Some(part);
        };
        let value = part.inputs.pop().expect("a target and a value");
        self.close(&value);
        join.add(&to, value.layout());
        values.push(value);
        part.inputs = values;
        let open = Open { join, step: part };
        self.open.insert(open.step.first, open);
        None
    }
}

/// The same steps, with all parts of an array that begins empty written by one of them.
pub(super) fn joined(steps: Vec<Step>, slots: &[SlotSpec], outputs: &[Operand]) -> Vec<Step> {
    let mut readers = vec![0; slots.len()];
    let operands = steps.iter().flat_map(|step| &step.inputs);
    for slot in operands.chain(outputs).filter_map(Operand::slot) {
        readers[slot] += 1;
    }
    let mut joins = Joins::default();
    for step in steps {
        let left = match step.work.name() {
            EMPTY => {
                joins.empty.insert(step.first, step);
                continue;
            }
            ASSIGN => joins.write(step, &readers, slots),
            COPY => Some(copied(step, slots)),
            _ => Some(step),
        };
        if let Some(step) = left {
            step.inputs.iter().for_each(|operand| joins.close(operand));
            joins.done.push(step);
        }
    }
    outputs.iter().for_each(|output| joins.close(output));
    joins.done
}

/// A copy as an array of one part, if it is small, which takes less time.
fn copied(step: Step, slots: &[SlotSpec]) -> Step {
    let spec = &slots[step.first];
    if spec.is_inline || !Join::is_small(spec.layout.shape.size()) {
        return step;
    }
    let mut join = Join::new(spec.dtype, spec.layout.shape.clone());
    join.add(&spec.layout, step.inputs[0].layout());
    Step {
        work: Work::Join(Arc::new(join)),
        ..step
    }
}
