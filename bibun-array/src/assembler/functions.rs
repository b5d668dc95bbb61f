//! Functions that branch, which code calls with vectors in memory.

use crate::formula::{Operation, Type};
use smallvec::SmallVec;

use crate::Element;

/// A slot of scratch memory: a vector of the largest size.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Slot(pub(super) [u8; 64]);

/// A function of vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Function {
    pub(super) operation: Operation,
    /// The type of its arguments and of its value.
    pub(super) of: Type,
    /// The lanes that the code uses.
    pub(super) lanes: usize,
}

impl Function {
    /// Whether code calls the operation.
    pub(super) const fn is_called(operation: Operation, of: Type) -> bool {
        match of {
            Type::Single | Type::Double => operation.branches_on_cpu(of),
            Type::Integer => matches!(operation, Operation::Quotient | Operation::Rest),
            Type::Truth | Type::Number => false,
        }
    }

    /// Where the code of calls begins.
    pub(super) fn entry() -> usize {
        call as *const () as usize
    }
}

/// A number that fills slots.
trait Lane: Sized + Copy + Default {
    fn read(slot: &Slot) -> SmallVec<[Self; 16]>;
    fn write(slot: &mut Slot, numbers: &[Self]);
}
macro_rules! lanes {
    ($($type:ty),*) => {$(
        impl Lane for $type {
            fn read(slot: &Slot) -> SmallVec<[Self; 16]> {
                let (chunks, _) = slot.0.as_chunks();
                chunks.iter().map(|&bytes| Self::from_ne_bytes(bytes)).collect()
            }

            fn write(slot: &mut Slot, numbers: &[Self]) {
                let (chunks, _) = slot.0.as_chunks_mut();
                for (bytes, number) in chunks.iter_mut().zip(numbers) {
                    *bytes = number.to_ne_bytes();
                }
            }
        }
    )*};
}
lanes!(f32, f64, i64);

/// What code calls.
#[cfg(target_arch = "x86_64")]
extern "sysv64" fn call(function: &Function, slots: &mut [Slot; 4]) {
    function.fill(slots);
}

/// What code calls.
#[cfg(target_arch = "aarch64")]
extern "C" fn call(function: &Function, slots: &mut [Slot; 4]) {
    function.fill(slots);
}

impl Function {
    /// Fills the last slot from the first ones.
    fn fill(&self, slots: &mut [Slot; 4]) {
        match self.of {
            Type::Single => self.of_floats::<f32>(slots),
            Type::Double => self.of_floats::<f64>(slots),
            Type::Integer => self.of_integers(slots),
            Type::Truth | Type::Number => unreachable!("no function of these branches"),
        }
    }

    fn of_floats<T: Lane + Element>(&self, [arguments @ .., y]: &mut [Slot; 4]) {
        let arguments = arguments.each_ref().map(|slot| {
            let mut numbers = T::read(slot);
            numbers.truncate(self.lanes);
            numbers
        });
        let mut values = arguments[0].clone();
        let inputs = arguments.each_ref().map(|numbers| T::to_slice(numbers));
        let inputs = &inputs[..self.operation.arguments().len()];
        let definition = self.operation.definition();
        let definition = definition.expect("functions that branch have loops");
        definition.run(&[], inputs, T::to_slice_mut(&mut values));
        T::write(y, &values);
    }

    fn of_integers(&self, [a, b, _, y]: &mut [Slot; 4]) {
        let of = |(a, b): (i64, i64)| match self.operation {
            // In lanes beyond the last element.
            _ if b == 0 => 0,
            Operation::Quotient => a.wrapping_div(b),
            _ => a.wrapping_rem(b),
        };
        let pairs = i64::read(a).into_iter().zip(i64::read(b));
        i64::write(y, &pairs.map(of).collect::<SmallVec<[i64; 16]>>());
    }
}
