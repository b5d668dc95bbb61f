//! Walks over the elements of a layout in row-major order: in runs of one step, in rows and planes, or from
//! one position to another.
// PERF: all is inlined, because other files walk over short runs, and a call for each takes a fifth of `scatter_add`.

use smallvec::SmallVec;

use super::threads::{chunks, for_each};
use super::tile::SQUARE;
use super::worth_threads;
use crate::shape::Layout;

/// A walk over the elements of a layout in row-major order, in runs of one step. Axes of size 1 are
/// left out, and axes that follow each other evenly are joined, so that runs are long.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) sizes: SmallVec<[usize; 4]>,
    pub(super) strides: SmallVec<[isize; 4]>,
    pub(super) offset: usize,
}

impl Steps {
    #[inline]
    pub(super) fn new(layout: &Layout) -> Self {
        let mut sizes: SmallVec<[usize; 4]> = SmallVec::new();
        let mut strides: SmallVec<[isize; 4]> = SmallVec::new();
        for (&size, &stride) in layout.shape.iter().zip(layout.strides.iter()) {
            if size == 1 {
                continue;
            }
            match (sizes.last_mut(), strides.last_mut()) {
                (Some(outer), Some(step)) if *step == stride * size as isize => {
                    *outer *= size;
                    *step = stride;
                }
                _ => {
                    sizes.push(size);
                    strides.push(stride);
                }
            }
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.push(1);
        }
        Self {
            sizes,
            strides,
            offset: layout.offset,
        }
    }

    /// The step between neighbours, if it is the same everywhere.
    #[inline]
    pub(super) fn even_step(&self) -> Option<isize> {
        match self.strides[..] {
            [step] => Some(step),
            _ => None,
        }
    }

    /// The number of elements along the innermost axis, and the step between them.
    #[inline]
    pub(super) fn inner(&self) -> (usize, isize) {
        let last = self.sizes.len() - 1;
        (self.sizes[last], self.strides[last])
    }

    /// The axis whose elements are neighbours in memory, if it is not the last one and both are long.
    #[inline]
    pub(super) fn turned_axis(&self) -> Option<usize> {
        let (last, others) = self.sizes.split_last()?;
        let is_long = |size: usize| size >= SQUARE / 2;
        let is_apart = self.strides[others.len()].unsigned_abs() > 1;
        let axis = self.strides[..others.len()]
            .iter()
            .rposition(|&step| step == 1)?;
        (is_apart && is_long(*last) && is_long(others[axis])).then_some(axis)
    }

    /// Whether rows of the innermost axis begin at elements that follow each other.
    #[inline]
    pub(super) fn starts_rows(&self) -> bool {
        matches!((&self.sizes[..], &self.strides[..]), ([_, _], [1, _]))
    }

    /// The number of rows of the innermost axis before the next one begins in a new place, and the
    /// step between them.
    #[inline]
    pub(super) fn outer(&self) -> (usize, isize) {
        match self.sizes.len() {
            1 => (1, 0),
            axes => (self.sizes[axes - 2], self.strides[axes - 2]),
        }
    }

    /// Whether some elements are whole rows of neighbours.
    #[inline]
    fn has_rows(&self, position: usize, count: usize) -> bool {
        let (row, step) = self.inner();
        let is_whole = position.is_multiple_of(row) && count.is_multiple_of(row);
        step == 1 && self.sizes.len() > 1 && count > 0 && is_whole
    }

    /// Calls `f(done, start, step, rows)` for whole rows of the innermost axis: `rows` of them, each
    /// `step` behind the one before.
    // Inlined, and without an iterator over rows, because there may be many short ones.
    #[inline(always)]
    fn for_each_plane(
        &self,
        position: usize,
        count: usize,
        mut f: impl FnMut(usize, usize, isize, usize),
    ) {
        let (row, (size, step)) = (self.inner().0, self.outer());
        let mut walk = Walk::new(self, position);
        let mut done = 0;
        while done < count {
            let first = (position + done) / row % size;
            let rows = (size - first).min((count - done) / row);
            f(done, walk.place(), step, rows);
            walk.go_on(rows * row);
            done += rows * row;
        }
    }

    /// Writes elements, in row-major order, to their places in memory.
    #[inline]
    pub(super) fn write<T: Copy>(&self, memory: &mut [T], elements: &[T]) {
        if self.has_rows(0, elements.len()) {
            let row = self.inner().0;
            return self.for_each_plane(0, elements.len(), |done, start, apart, rows| {
                let elements = &elements[done..][..rows * row];
                for (i, elements) in elements.chunks_exact(row).enumerate() {
                    let start = start.strict_add_signed(i as isize * apart);
                    memory[start..][..row].copy_from_slice(elements);
                }
            });
        }
        self.for_each_run(0, elements.len(), |done, start, step, len| {
            let elements = &elements[done..done + len];
            if step == 1 {
                memory[start..start + len].copy_from_slice(elements);
                return;
            }
            for (i, &x) in elements.iter().enumerate() {
                memory[start.strict_add_signed(i as isize * step)] = x;
            }
        });
    }

    /// Does the same on several threads, if that pays.
    #[inline]
    pub(super) fn write_shared<T: Copy + Send + Sync>(&self, memory: &mut [T], elements: &[T]) {
        let apart = usize::try_from(self.strides[0]).ok();
        let (Some((share, each)), Some(apart)) = (self.shares(elements.len(), 1), apart) else {
            return self.write(memory, elements);
        };
        // The places of each index of the first axis lie behind those of the index before.
        let inner = self.sizes.iter().zip(&self.strides).skip(1);
        let last = inner.map(|(&size, &step)| (size as isize - 1) * step);
        let reach = last.sum::<isize>();
        if self.strides.iter().any(|&step| step < 0) || reach >= apart as isize {
            return self.write(memory, elements);
        }
        let all = &mut memory[self.offset..][..(self.sizes[0] - 1) * apart + reach as usize + 1];
        for_each(chunks(all, share * apart), true, 1, &|i, memory| {
            let elements = &elements[i * share * each..];
            let elements = &elements[..elements.len().min(share * each)];
            let mut part = self.part(0, elements.len() / each);
            part.starting_at(0).write(memory, elements);
        });
    }

    /// Writes one element to all places.
    #[inline]
    pub(super) fn fill<T: Copy>(&self, memory: &mut [T], size: usize, element: T) {
        self.for_each_run(0, size, |_, start, step, len| {
            if step == 1 {
                memory[start..start + len].fill(element);
                return;
            }
            for i in 0..len {
                memory[start.strict_add_signed(i as isize * step)] = element;
            }
        });
    }

    /// The number of elements.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// How a copy of all `len` elements is shared by threads, if that pays: the number of indices of the first
    /// axis, at least `least` of them, and the number of elements for each.
    #[inline]
    pub(super) fn shares(&self, len: usize, least: usize) -> Option<(usize, usize)> {
        // Memory delivers about four elements in a nanosecond.
        if !worth_threads(len / 4) {
            return None;
        }
        let share = self.sizes[0].div_ceil(4 * rayon::current_num_threads());
        Some((share.next_multiple_of(least), len / self.sizes[0]))
    }

    /// The part with some indices of the first axis.
    #[inline]
    pub(super) fn part(&self, first: usize, count: usize) -> Self {
        let mut part = self.clone();
        part.sizes[0] = count;
        part.offset = part
            .offset
            .wrapping_add_signed(first as isize * self.strides[0]);
        part
    }

    /// The same walk from another first element.
    #[inline]
    pub(super) fn starting_at(&mut self, offset: usize) -> &Self {
        self.offset = offset;
        self
    }

    /// Calls `run(done, start, step, len)` for all of [`runs`](Steps::runs).
    // Inlined so that loops inside `run` use the vector instructions that the caller enabled.
    #[inline(always)]
    pub(super) fn for_each_run(
        &self,
        position: usize,
        count: usize,
        mut run: impl FnMut(usize, usize, isize, usize),
    ) {
        for one in self.runs(position, count) {
            run(one.done, one.start, one.step, one.len);
        }
    }

    /// The elements `position..position + count` in runs of one step.
    #[inline(always)]
    pub(super) fn runs(&self, position: usize, count: usize) -> Runs<'_> {
        let mut runs = Runs {
            steps: self,
            index: SmallVec::new(),
            start: self.offset as isize,
            done: 0,
            count,
        };
        if let ([_], [step]) = (&self.sizes[..], &self.strides[..]) {
            runs.index.push(position);
            runs.start += position as isize * step;
        } else {
            runs.move_to(position);
        }
        runs
    }
}

/// Gathers as many elements as `out` has, starting at `position`.
#[inline]
pub(super) fn gather<T: Copy>(memory: &[T], steps: &Steps, position: usize, out: &mut [T]) {
    if steps.has_rows(position, out.len()) {
        let row = steps.inner().0;
        return steps.for_each_plane(position, out.len(), |done, start, apart, rows| {
            let out = &mut out[done..][..rows * row];
            for (i, out) in out.chunks_exact_mut(row).enumerate() {
                let start = start.strict_add_signed(i as isize * apart);
                out.copy_from_slice(&memory[start..][..row]);
            }
        });
    }
    steps.for_each_run(position, out.len(), |done, start, step, len| {
        let out = &mut out[done..done + len];
        match step {
            1 => out.copy_from_slice(&memory[start..start + len]),
            0 => out.fill(memory[start]),
            step if step > 0 => {
                let elements = memory[start..].iter().step_by(step as usize);
                out.iter_mut().zip(elements).for_each(|(y, &x)| *y = x);
            }
            step => {
                let elements = memory[..=start].iter().rev().step_by(step.unsigned_abs());
                out.iter_mut().zip(elements).for_each(|(y, &x)| *y = x);
            }
        }
    });
}

/// The place of each element of a few, beside that of the first one.
// PERF: to find the places of a few elements takes longer than to read them.
#[derive(Clone, Debug)]
pub(super) struct Places(Box<[i32]>);

impl Places {
    /// The most elements whose places are worth their memory.
    pub(super) const MOST: usize = 1024;

    /// The places that a walk over all its elements goes to, if they are few.
    #[inline]
    pub(super) fn of(steps: &Steps) -> Option<Self> {
        let len = steps.len();
        if len > Self::MOST {
            return None;
        }
        let mut places = Vec::with_capacity(len);
        steps.for_each_run(0, len, |_, start, step, len| {
            let first = start as isize - steps.offset as isize;
            places.extend((0..len as isize).map(|i| i32::try_from(first + i * step)));
        });
        let places: Result<Box<[i32]>, _> = places.into_iter().collect();
        places.ok().map(Self)
    }

    /// Gathers elements, starting at `position`, from memory where the first place is `first`.
    #[inline]
    pub(super) fn gather<T: Copy>(
        &self,
        memory: &[T],
        first: usize,
        position: usize,
        out: &mut [T],
    ) {
        let places = &self.0[position..][..out.len()];
        for (y, &place) in out.iter_mut().zip(places) {
            *y = memory[first.wrapping_add_signed(place as isize)];
        }
    }

    /// Writes elements to their places in memory where the first one is `first`.
    #[inline]
    pub(super) fn write<T: Copy>(
        &self,
        memory: &mut [T],
        first: usize,
        elements: impl Iterator<Item = T>,
    ) {
        for (&place, element) in self.0.iter().zip(elements) {
            memory[first.wrapping_add_signed(place as isize)] = element;
        }
    }
}

/// A position on its way through the elements of [`Steps`].
pub(super) struct Walk<'a> {
    steps: &'a Steps,
    index: SmallVec<[usize; 4]>,
    place: isize,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(super) fn new(steps: &'a Steps, position: usize) -> Self {
        let mut walk = Self {
            steps,
            index: SmallVec::from_elem(0, steps.sizes.len()),
            place: steps.offset as isize,
        };
        walk.go_on(position);
        walk
    }

    /// Goes on by a number of elements.
    #[inline]
    pub(super) fn go_on(&mut self, elements: usize) {
        let mut carry = elements;
        for axis in (0..self.index.len()).rev() {
            if carry == 0 {
                return;
            }
            let (old, size) = (self.index[axis], self.steps.sizes[axis].max(1));
            let mut new = old + carry;
            carry = 0;
            // After the last element, there is no other axis.
            if new >= size && axis > 0 {
                (carry, new) = (new / size, new % size);
            }
            self.index[axis] = new;
            self.place += (new as isize - old as isize) * self.steps.strides[axis];
        }
    }

    /// The place of the element.
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.place as usize
    }

    /// Whether neighbouring rows of `len` elements are the same.
    #[inline]
    pub(super) fn is_same_for(&self, len: usize) -> bool {
        let (size, step) = self.steps.inner();
        match size > len {
            true => step == 0,
            false => self.steps.outer().1 == 0,
        }
    }
}

/// Elements at one distance from each other.
pub(super) struct Run {
    /// The number of elements before this run.
    pub(super) done: usize,
    pub(super) start: usize,
    pub(super) step: isize,
    pub(super) len: usize,
}

/// An iterator over runs; see [`Steps::runs`].
pub(super) struct Runs<'a> {
    steps: &'a Steps,
    /// The index of the walk along each axis.
    index: SmallVec<[usize; 4]>,
    start: isize,
    done: usize,
    count: usize,
}

impl Runs<'_> {
    #[inline]
    fn move_to(&mut self, position: usize) {
        let mut rest = position;
        self.index.resize(self.steps.sizes.len(), 0);
        for (axis, &size) in self.steps.sizes.iter().enumerate().rev() {
            self.index[axis] = rest % size.max(1);
            rest /= size.max(1);
            self.start += self.index[axis] as isize * self.steps.strides[axis];
        }
    }

    /// Goes to the next row, because the innermost axis is at its end.
    #[inline]
    fn carry(&mut self) {
        let Steps { sizes, strides, .. } = self.steps;
        let mut axis = sizes.len() - 1;
        while self.index[axis] == sizes[axis] && axis > 0 {
            self.start -= self.index[axis] as isize * strides[axis];
            self.index[axis] = 0;
            axis -= 1;
            self.index[axis] += 1;
            self.start += strides[axis];
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;
    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        if self.done == self.count {
            return None;
        }
        let inner = self.steps.sizes.len() - 1;
        let (size, step) = (self.steps.sizes[inner], self.steps.strides[inner]);
        let run = Run {
            done: self.done,
            start: self.start as usize,
            step,
            len: (size - self.index[inner]).min(self.count - self.done),
        };
        self.done += run.len;
        self.index[inner] += run.len;
        self.start += run.len as isize * step;
        if self.index[inner] == size && inner > 0 {
            self.carry();
        }
        Some(run)
    }
}
