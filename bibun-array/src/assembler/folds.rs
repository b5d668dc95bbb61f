//! Folds: results of which each row leaves a single element, in the order of reductions.
//!
//! The elements of a row are distributed over [`LANES`] parts, which lie in scratch memory and, while
//! turns of several vectors go by, in registers as far as there are any. At the end of a row they are
//! joined by halves. `cpu/reduce/along.rs` does the same, so that results have the same bits.

use smallvec::{SmallVec, smallvec};

use super::instructions::{Description, Lowering, Origin, Place, Segment, Value, size};
use super::machine::{Machine, Width};
use super::order::Step;
use crate::cpu::reduce::LANES;
use crate::formula::{Operation, Target, Type};
use crate::{DType, Reduce};

/// The bytes of a slot.
const SLOT: u32 = 64;

impl Target {
    /// The dtype of what is stored.
    pub(super) const fn dtype(self) -> DType {
        match self {
            Self::Elements(dtype) => dtype,
            Self::Fold(_) => DType::F32,
        }
    }
}

/// A fold of f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    reduction: Reduce,
    /// The type of the parts.
    of: Type,
    /// The place of the first part in scratch memory.
    offset: u32,
}

impl Fold {
    /// The part from which it starts, which changes no other.
    const fn neutral(self) -> f64 {
        match self.reduction {
            Reduce::Max => f64::NEG_INFINITY,
            Reduce::Min => f64::INFINITY,
            _ => 0.0,
        }
    }

    /// The operation on an element or part and the part before it.
    const fn step(self) -> Step {
        let operation = match self.reduction {
            Reduce::Max => Operation::Maximum,
            Reduce::Min => Operation::Minimum,
            _ => Operation::Add,
        };
        Step::alone(operation, self.of, self.of)
    }
}

impl<M: Machine> Lowering<'_, M> {
    /// Finds places for the parts of all folds behind some slots, and starts them. Returns the number of
    /// all slots.
    pub(super) fn start_folds(&mut self, mut slots: u32) -> u32 {
        for target in &self.steps.targets {
            let Target::Fold(reduction) = *target else {
                self.folds.push(None);
                continue;
            };
            let of = match reduction {
                Reduce::Sum => Type::Double,
                _ => Type::Single,
            };
            let fold = Fold {
                reduction,
                of,
                offset: slots * SLOT,
            };
            self.folds.push(Some(fold));
            slots += (LANES * size(of)) as u32 / SLOT;
        }
        let all = self.folds.clone();
        for fold in all.into_iter().flatten() {
            let lanes = self.part_lanes(fold);
            let neutral = self.with_lanes(lanes, |own| own.number(fold.neutral(), fold.of));
            for lane in (0..LANES).step_by(lanes) {
                let place = self.place(fold, lane, false);
                self.instruct(M::keep_part(place), None, &[neutral]);
            }
        }
        slots
    }

    /// The number of parts in a vector.
    fn part_lanes(&self, fold: Fold) -> usize {
        self.lanes.min(self.machine.bytes() / size(fold.of))
    }

    /// The place of some parts, the first of which takes the element of a lane of a turn.
    fn place(&self, fold: Fold, lane: usize, moves: bool) -> Place {
        let bytes = size(fold.of);
        Place {
            offset: fold.offset + (lane % LANES * bytes) as u32,
            moves: moves.then_some(bytes as u8),
        }
    }

    /// Writes instructions on another number of lanes.
    fn with_lanes<T>(&mut self, lanes: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.lanes, lanes);
        let result = f(self);
        self.lanes = own;
        result
    }

    fn part(&mut self, fold: Fold, lane: usize, moves: bool) -> (Place, Value) {
        let place = self.place(fold, lane, moves);
        let width = Width::of(self.part_lanes(fold) * size(fold.of));
        let value = self.value(Description {
            width,
            origin: Origin::Part(place),
            element: fold.of,
        });
        (place, value)
    }

    /// Folds the values of a line in all vectors of a turn.
    pub(super) fn fold(&mut self, line: usize, fold: Fold) -> Option<()> {
        let copies = self.of_lines.len();
        let moves = !(copies * self.lanes).is_multiple_of(LANES);
        let each = self.part_lanes(fold);
        let mut parts: SmallVec<[(Place, Value); 16]> = SmallVec::new();
        for copy in 0..copies {
            let mut x = self.of_line(line, copy)?;
            self.line = line as u32;
            if copies == 1 {
                let neutral = self.number(fold.neutral(), Type::Single);
                x = M::within(self, x, neutral);
            }
            let elements: SmallVec<[Value; 2]> = match fold.of {
                Type::Double if each < self.lanes => M::widened_halves(self, x).into(),
                Type::Double => {
                    let widen = Step::alone(Operation::Widen, Type::Single, Type::Double);
                    smallvec![M::operation(self, &widen, &[x])?]
                }
                _ => smallvec![x],
            };
            for (i, x) in elements.into_iter().enumerate() {
                let (place, start) = self.part(fold, copy * self.lanes + i * each, moves);
                let known = parts.iter().position(|(known, _)| *known == place);
                let part = known.map_or(start, |known| parts[known].1);
                let step = fold.step();
                let part = self.with_lanes(each, |own| M::operation(own, &step, &[x, part]))?;
                match known {
                    Some(known) => parts[known].1 = part,
                    None => parts.push((place, part)),
                }
            }
        }
        for (place, part) in parts {
            self.instruct(M::keep_part(place), None, &[part]);
        }
        Some(())
    }

    /// Joins the parts of all folds, and stores the results.
    pub(super) fn end(&mut self) -> Option<Segment<M::Instruction>> {
        for (result, fold) in (0..).zip(self.folds.clone()) {
            let Some(fold) = fold else { continue };
            let step = fold.step();
            let mut lanes = self.part_lanes(fold);
            let mut parts: SmallVec<[Value; 16]> = (0..LANES)
                .step_by(lanes)
                .map(|lane| self.part(fold, lane, false).1)
                .collect();
            while parts.len() > 1 {
                let (first, others) = parts.split_at(parts.len() / 2);
                let pairs = first.iter().zip(others);
                let join = |(&part, &other): (&Value, &Value)| {
                    self.with_lanes(lanes, |own| M::operation(own, &step, &[other, part]))
                };
                parts = pairs.map(join).collect::<Option<_>>()?;
            }
            let mut part = parts[0];
            while lanes > 1 {
                let upper = M::upper_half(self, part, lanes * size(fold.of));
                lanes /= 2;
                part = self.with_lanes(lanes, |own| M::operation(own, &step, &[upper, part]))?;
            }
            if fold.of == Type::Double {
                let narrow = Step::alone(Operation::Narrow, Type::Double, Type::Single);
                part = self.with_lanes(1, |own| M::operation(own, &narrow, &[part]))?;
            }
            self.instruct(M::store_one(result), None, &[part]);
        }
        Some(self.segment(1))
    }
}
