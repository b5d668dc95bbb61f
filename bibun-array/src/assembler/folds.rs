//! Folds: results of which each row leaves a single element, in the order of reductions.
//!
//! The elements of a row are distributed over [`LANES`] parts, which lie in scratch memory and, while
//! turns of several vectors go by, in registers as far as there are any. Parts of sums are collected in
//! doubles after [`RUN`] elements. At the end of a row they are joined by halves. `cpu/reduce/along.rs`
//! does the same, so that results have the same bits.

use smallvec::{SmallVec, smallvec};

use super::instructions::{Description, Lowering, Origin, Place, Segment, Value, size};
use super::machine::{Machine, Width};
use super::order::Step;
use crate::cpu::reduce::{LANES, RUN};
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

/// The number of elements of a row after which parts of sums are collected.
pub(super) const COLLECTED: usize = RUN * LANES;

/// A fold of f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    reduction: Reduce,
    /// The place of the first part in scratch memory.
    parts: u32,
    /// That of the first double in which parts are collected, if they are.
    collected: Option<u32>,
    /// Whether an extreme is NaN if an element is.
    keeps_nan: bool,
}

impl Fold {
    /// The part from which it starts, which changes no other.
    const fn neutral(self) -> f64 {
        Self::neutral_of(self.reduction)
    }

    /// The same of a reduction.
    pub(super) const fn neutral_of(reduction: Reduce) -> f64 {
        match reduction {
            Reduce::Max => f64::NEG_INFINITY,
            Reduce::Min => f64::INFINITY,
            _ => 0.0,
        }
    }

    /// The operation on an element or part and the part before it, of this type.
    const fn step(self, of: Type) -> Step {
        let operation = match self.reduction {
            Reduce::Max => Operation::Maximum,
            Reduce::Min => Operation::Minimum,
            _ => Operation::Add,
        };
        let mut step = Step::alone(operation, of, of);
        step.keeps_nan = self.keeps_nan;
        step
    }
}

impl<M: Machine> Lowering<'_, M> {
    /// Finds places for the parts of all folds behind some slots, and starts them. Returns the number of
    /// all slots.
    pub(super) fn start_folds(&mut self, n: usize, mut slots: u32) -> u32 {
        let mut place = |bytes: usize| {
            let place = slots * SLOT;
            slots += (LANES * bytes) as u32 / SLOT;
            place
        };
        for (target, &without_nan) in self.steps.targets.iter().zip(&self.steps.without_nan) {
            let Target::Fold(reduction) = *target else {
                self.folds.push(None);
                continue;
            };
            let is_collected = reduction == Reduce::Sum && n > COLLECTED;
            self.folds.push(Some(Fold {
                reduction,
                parts: place(size(Type::Single)),
                collected: is_collected.then(|| place(size(Type::Double))),
                keeps_nan: !without_nan,
            }));
        }
        let all = self.folds.clone();
        for fold in all.into_iter().flatten() {
            self.restart(fold);
            if let Some(offset) = fold.collected {
                self.fill(offset, fold.neutral(), Type::Double);
            }
        }
        slots
    }

    /// Lets the parts of a fold start anew.
    fn restart(&mut self, fold: Fold) {
        self.fill(fold.parts, fold.neutral(), Type::Single);
    }

    /// Stores a number in places for each of the [`LANES`].
    fn fill(&mut self, offset: u32, x: f64, of: Type) {
        let lanes = self.part_lanes(of);
        let x = self.with_lanes(lanes, |own| own.number(x, of));
        for lane in (0..LANES).step_by(lanes) {
            let place = Place::fixed(offset, lane * size(of));
            self.instruct(M::keep_part(place), None, &[x]);
        }
    }

    /// The number of parts, or of what is collected of them, in a vector.
    fn part_lanes(&self, of: Type) -> usize {
        self.lanes.min(self.machine.bytes() / size(of))
    }

    /// Writes instructions on another number of lanes.
    fn with_lanes<T>(&mut self, lanes: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.lanes, lanes);
        let result = f(self);
        self.lanes = own;
        result
    }

    /// What is in a place.
    fn kept(&mut self, place: Place, of: Type) -> Value {
        let description = Description {
            width: Width::of(self.part_lanes(of) * size(of)),
            origin: Origin::Part(place),
            element: of,
        };
        // One value for each place, because some have registers in all turns.
        match self.values.iter().position(|known| *known == description) {
            Some(known) => Value::of_index(known),
            None => self.value(description),
        }
    }

    /// Folds the values of a line in all vectors of a turn.
    pub(super) fn fold(&mut self, line: usize, fold: Fold) -> Option<()> {
        let copies = self.of_lines.len();
        let moves = !(copies * self.lanes).is_multiple_of(LANES);
        let bytes = size(Type::Single);
        let step = fold.step(Type::Single);
        let mut parts: SmallVec<[(Place, Value); 16]> = SmallVec::new();
        for copy in 0..copies {
            let mut x = self.of_line(line, copy)?;
            self.line = line as u32;
            if copies == 1 {
                let neutral = self.number(fold.neutral(), Type::Single);
                x = M::within(self, x, neutral);
            }
            let place = Place {
                moves: moves.then_some(bytes as u8),
                ..Place::fixed(fold.parts, copy * self.lanes % LANES * bytes)
            };
            let known = parts.iter().position(|(known, _)| *known == place);
            let part = match known {
                Some(known) => parts[known].1,
                None => self.kept(place, Type::Single),
            };
            let part = M::operation(self, &step, &[x, part])?;
            match known {
                Some(known) => parts[known].1 = part,
                None => parts.push((place, part)),
            }
        }
        for (place, part) in parts {
            self.instruct(M::keep_part(place), None, &[part]);
        }
        Some(())
    }

    /// Collects the parts of sums, which start anew, for turns of so many vectors. Returns `None` if there are none
    /// to be collected.
    pub(super) fn collect(&mut self, copies: usize) -> Option<Segment<M::Instruction>> {
        let folds: SmallVec<[Fold; 2]> = (self.folds.iter().flatten())
            .filter(|fold| fold.collected.is_some())
            .copied()
            .collect();
        for &fold in &folds {
            for (place, sum) in self.collected(fold)? {
                self.instruct(M::keep_part(place), None, &[sum]);
            }
            self.restart(fold);
        }
        (!folds.is_empty()).then(|| self.segment(copies))
    }

    /// What is collected of each part of a sum with what is in it now, and its place.
    fn collected(&mut self, fold: Fold) -> Option<SmallVec<[(Place, Value); 16]>> {
        let offset = fold.collected?;
        let (lanes, each) = (self.part_lanes(Type::Single), self.part_lanes(Type::Double));
        let mut sums = SmallVec::new();
        for lane in (0..LANES).step_by(lanes) {
            let place = Place::fixed(fold.parts, lane * size(Type::Single));
            let part = self.kept(place, Type::Single);
            let doubles: SmallVec<[Value; 2]> = match each < lanes {
                true => M::widened_halves(self, part).into(),
                false => {
                    let widen = Step::alone(Operation::Widen, Type::Single, Type::Double);
                    smallvec![M::operation(self, &widen, &[part])?]
                }
            };
            for (i, x) in doubles.into_iter().enumerate() {
                let place = Place::fixed(offset, (lane + i * each) * size(Type::Double));
                let before = self.kept(place, Type::Double);
                let step = fold.step(Type::Double);
                let sum = self.with_lanes(each, |own| M::operation(own, &step, &[x, before]))?;
                sums.push((place, sum));
            }
        }
        Some(sums)
    }

    /// Joins the parts of all folds, and stores the results.
    pub(super) fn end(&mut self) -> Option<Segment<M::Instruction>> {
        for (result, fold) in (0..).zip(self.folds.clone()) {
            let Some(fold) = fold else { continue };
            let of = match fold.collected {
                Some(_) => Type::Double,
                None => Type::Single,
            };
            let step = fold.step(of);
            let mut lanes = self.part_lanes(of);
            let mut parts: SmallVec<[Value; 16]> = match fold.collected {
                Some(_) => {
                    let sums = self.collected(fold)?;
                    sums.into_iter().map(|(_, sum)| sum).collect()
                }
                None => (0..LANES)
                    .step_by(lanes)
                    .map(|lane| self.kept(Place::fixed(fold.parts, lane * size(of)), of))
                    .collect(),
            };
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
                let upper = M::upper_half(self, part, lanes * size(of));
                lanes /= 2;
                part = self.with_lanes(lanes, |own| M::operation(own, &step, &[upper, part]))?;
            }
            if of == Type::Double {
                let narrow = Step::alone(Operation::Narrow, Type::Double, Type::Single);
                part = self.with_lanes(1, |own| M::operation(own, &narrow, &[part]))?;
            }
            self.instruct(M::store_one(result), None, &[part]);
        }
        Some(self.segment(1))
    }
}
