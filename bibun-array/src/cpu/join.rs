//! Arrays that are made of parts, all of which are written in one step.

use smallvec::SmallVec;

use super::elementwise::sharing;
use super::steps::{Places, Steps, gather};
use super::threads::Sharing;
use crate::dtype::with_word;
use crate::shape::Layout;
use crate::storage::Word;
use crate::{Array, DType, Shape};

/// An array and its parts.
#[derive(Debug)]
pub(crate) struct Join {
    dtype: DType,
    shape: Shape,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    size: usize,
    /// The places of its elements in the array.
    to: Way,
    /// How they are read, if it is not from the first to the last.
    from: Option<Way>,
}

/// A walk over elements.
#[derive(Debug)]
struct Way {
    steps: Steps,
    offset: usize,
    /// Whether the elements lie one behind the other.
    is_in_order: bool,
    /// The place of each element, if they are few.
    places: Option<Places>,
}

impl Way {
    fn of(layout: &Layout) -> Self {
        let steps = Steps::new(layout);
        Self {
            places: Places::of(&steps),
            steps,
            offset: layout.offset,
            is_in_order: layout.is_row_major(),
        }
    }

    fn write<W: Word>(&self, out: &mut [W], elements: &[W]) {
        match &self.places {
            Some(places) => places.write(out, self.offset, elements.iter().copied()),
            None => self.steps.write(out, elements),
        }
    }

    fn fill<W: Word>(&self, out: &mut [W], size: usize, element: W) {
        match &self.places {
            Some(places) => places.write(out, self.offset, std::iter::repeat(element)),
            None => self.steps.fill(out, size, element),
        }
    }

    fn gather<W: Word>(&self, memory: &[W], first: usize, out: &mut [W]) {
        match &self.places {
            Some(places) => places.gather(memory, first, 0, out),
            None => gather(memory, self.steps.clone().starting_at(first), 0, out),
        }
    }
}

impl Join {
    /// Creates an array without parts.
    pub(crate) const fn new(dtype: DType, shape: Shape) -> Self {
        let parts = Vec::new();
        Self {
            dtype,
            shape,
            parts,
        }
    }

    /// Whether the places of so many elements are known.
    pub(crate) const fn is_small(size: usize) -> bool {
        size <= Places::MOST
    }

    /// Whether threads would share the writing of so many elements, which they do not of a join.
    pub(crate) fn is_shared(size: usize) -> bool {
        sharing(size) != Sharing::Never
    }

    /// Adds a part, which overwrites those before it. It lies in memory in the layout `from`, wherever that
    /// begins.
    pub(crate) fn add(&mut self, to: &Layout, from: &Layout) {
        self.parts.push(Part {
            size: to.shape.size(),
            to: Way::of(to),
            from: (!from.is_row_major()).then(|| Way::of(from)),
        });
    }

    /// Makes the array. `value` returns the memory of each part, and the place of its first element.
    pub(crate) fn run<'a>(&self, value: impl Fn(usize) -> (&'a Array, usize)) -> Array {
        if self.shape.size() == 1 {
            let part = self.parts.iter().rposition(|part| part.size == 1);
            let (x, place) = value(part.expect("the parts fill it"));
            return Array::constant(x.element_at(place), self.shape.clone());
        }
        with_word!(self.dtype, W => {
            Array::moved(self.dtype, self.shape.clone(), |out: &mut [W]| self.fill(out, value))
        })
    }

    fn fill<'a, W: Word>(&self, out: &mut [W], value: impl Fn(usize) -> (&'a Array, usize)) {
        for (i, Part { size, to, from }) in self.parts.iter().enumerate() {
            let (x, place) = value(i);
            if let Some(element) = x.inline() {
                to.fill(out, *size, W::of(element));
                continue;
            }
            let memory = x.buffer().expect("it is on the CPU").as_words::<W>();
            match from {
                None => to.write(out, &memory[place..place + size]),
                Some(from) if to.is_in_order => {
                    from.gather(memory, place, &mut out[to.offset..][..*size]);
                }
                Some(from) => {
                    let mut gathered: SmallVec<[W; 64]> = SmallVec::from_elem(memory[place], *size);
                    from.gather(memory, place, &mut gathered);
                    to.write(out, &gathered);
                }
            }
        }
    }
}
