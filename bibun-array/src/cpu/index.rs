//! Picking and adding by index. Rows that are contiguous are copied whole, and values at equal
//! indices add up in their order, whatever the number of threads: each thread owns a part of the
//! target.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use pulp::{Arch, NullaryFnOnce};

use super::elementwise::PARALLEL;
use super::steps::{Steps, gather as gather_run};
use super::threads::{Sharing, chunks, for_each};
use crate::device::Complaint;
use crate::dtype::with_word;
use crate::shape::Layout;
use crate::storage::{LINE, Word, page, prefetch, reserved};
use crate::{Array, Element, Scalar, Scatter, Shape, raise};

/// From this many elements on, adding a row takes longer than reading its index once per thread.
const LONG_ROW: usize = 16;

/// Elements that can be added up.
pub(super) trait Accumulate: Element {
    fn add(&mut self, x: Self);
}

impl Accumulate for bool {
    #[inline(always)]
    fn add(&mut self, x: Self) {
        *self |= x;
    }
}
impl Accumulate for i64 {
    #[inline(always)]
    fn add(&mut self, x: Self) {
        *self = self.wrapping_add(x);
    }
}
impl Accumulate for f32 {
    #[inline(always)]
    fn add(&mut self, x: Self) {
        *self += x;
    }
}
impl Accumulate for f64 {
    #[inline(always)]
    fn add(&mut self, x: Self) {
        *self += x;
    }
}

/// See [`Device::check`](crate::Device::check).
pub(super) fn check(x: &Array, bounds: Range<i64>, complaint: Complaint) {
    let x = x.to_row_major();
    let one;
    let elements = match x.inline() {
        _ if x.size() == 0 => return,
        Some(element) => {
            one = [i64::from_scalar(element)];
            &one[..]
        }
        None => x.host_slice::<i64>(),
    };
    let mut is_outside = vec![false; elements.len().div_ceil(PARALLEL)];
    let sharing = Sharing::of(elements.len() / 4);
    for_each(chunks(&mut is_outside, 1), sharing, 1, &|i, is_outside| {
        let end = elements.len().min((i + 1) * PARALLEL);
        let part = &elements[i * PARALLEL..end];
        is_outside[0] = Arch::new().dispatch(AnyOutside(part, &bounds));
    });
    if is_outside.contains(&true) {
        complain(elements, &bounds, &complaint);
    }
}

/// Raises the error about the first element that is out of bounds. Whether there is one is found by vectors, the first
/// of them is not.
#[cold]
fn complain(elements: &[i64], bounds: &Range<i64>, complaint: &Complaint) -> ! {
    let outside = elements.iter().position(|x| !bounds.contains(x));
    let position = outside.expect("there is one");
    raise(complaint(position, elements[position]))
}

/// Whether any element is out of bounds.
struct AnyOutside<'a>(&'a [i64], &'a Range<i64>);

impl NullaryFnOnce for AnyOutside<'_> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        let Self(elements, &Range { start, end }) = self;
        let mut any = false;
        for &x in elements {
            any |= (x < start) | (x >= end);
        }
        any
    }
}

/// See [`Device::nonzero`](crate::Device::nonzero).
pub(super) fn nonzero(x: &Array) -> Array {
    let (size, rank) = (x.size(), x.rank());
    let positions: Vec<usize> = match x.inline() {
        Some(Scalar::Bool(false)) => Vec::new(),
        Some(_) => {
            let mut all = reserved(size);
            all.extend(0..size);
            all
        }
        None => {
            let x = x.to_row_major();
            let elements = x.host_slice::<bool>().iter().enumerate();
            let nonzero = elements.filter(|&(_, &x)| x);
            nonzero.map(|(position, _)| position).collect()
        }
    };
    Array::filled_by(Shape::from([positions.len(), rank]), |out: &mut [i64]| {
        for (row, mut rest) in out.chunks_exact_mut(rank.max(1)).zip(positions) {
            for (index, &size) in row.iter_mut().zip(x.shape().iter()).rev() {
                *index = (rest % size) as i64;
                rest /= size;
            }
        }
    })
}

/// The position along an axis of an index that may count from its end.
#[inline(always)]
fn from_front(index: i64, size: usize) -> usize {
    // Without a branch, which LLVM makes of a choice.
    (index + (index >> 63 & size as i64)) as usize
}

/// See [`Device::take`](crate::Device::take).
pub(super) fn take<W: Word>(x: &Array, indices: &Array, axis: usize) -> Array {
    let Layout {
        shape,
        strides,
        offset,
    } = x.layout();
    let picked = (shape[..axis].iter())
        .chain(indices.shape().iter())
        .chain(&shape[axis + 1..]);
    let picked: Shape = picked.copied().collect();
    if let Some(value) = x.inline() {
        return Array::constant(value, picked);
    }
    let outer = Layout {
        shape: Shape::new(&shape[..axis]),
        strides: strides[..axis].iter().copied().collect(),
        offset: *offset,
    };
    let inner = Layout {
        shape: Shape::new(&shape[axis + 1..]),
        strides: strides[axis + 1..].iter().copied().collect(),
        offset: 0,
    };
    let (size, stride) = (shape[axis], strides[axis]);
    let row = inner.shape.size();
    let whole_rows = inner.is_row_major();
    let indices = spread(indices);
    let indices = indices.host_slice::<i64>();
    let memory = x.buffer().expect("the device was chosen by its memory");
    let memory = memory.as_words::<W>();
    Array::moved(x.dtype(), picked, |out: &mut [W]| {
        for_each_part(out, row, |first, mut out| {
            let mut steps = Steps::new(&inner);
            let mut position = first / row;
            while !out.is_empty() {
                let begin = position % indices.len();
                let count = (indices.len() - begin).min(out.len() / row);
                let (rows, rest) = out.split_at_mut(count * row);
                let start = element_at(&outer, position / indices.len());
                let starts = (indices[begin..begin + count].iter()).map(|&index| {
                    start.strict_add_signed(from_front(index, size) as isize * stride)
                });
                if row == 1 {
                    rows.iter_mut()
                        .zip(starts)
                        .for_each(|(y, i)| *y = memory[i]);
                } else if whole_rows {
                    for (row_out, i) in rows.chunks_exact_mut(row).zip(starts) {
                        row_out.copy_from_slice(&memory[i..i + row]);
                    }
                } else {
                    for (row_out, i) in rows.chunks_exact_mut(row).zip(starts) {
                        gather_run(memory, steps.starting_at(i), 0, row_out);
                    }
                }
                position += count;
                out = rest;
            }
        });
    })
}

/// See [`Device::add_at`](crate::Device::add_at).
pub(super) fn add_at<T: Accumulate>(
    mut target: Array,
    indices: &Array,
    axis: usize,
    value: &Array,
) -> Array {
    let rows = target.shape()[axis];
    let row: usize = target.shape()[axis + 1..].iter().product();
    if value.size() == 0 {
        return target;
    }
    let indices = spread(indices);
    let indices = indices.host_slice::<i64>();
    let value = spread(value);
    let value = value.host_slice::<T>();
    let (whole, picked) = (rows * row, indices.len() * row);
    let add = |first: usize, target: &mut [T], value: &[T]| {
        let own = first..first + target.len() / row;
        for (&index, value) in indices.iter().zip(value.chunks_exact(row)) {
            let index = from_front(index, rows);
            if own.contains(&index) {
                let start = (index - first) * row;
                add_row(&mut target[start..start + row], value);
            }
        }
    };
    let elements = target.as_mut_slice::<T>();
    let threads = rayon::current_num_threads();
    let many = value.len() >= PARALLEL && threads > 1;
    if many && elements.len() / whole < threads && row >= LONG_ROW {
        // Each thread goes through all indices and adds the values for its own rows.
        let share = rows.div_ceil(threads);
        for (target, value) in elements.chunks_mut(whole).zip(value.chunks(picked)) {
            for_each(chunks(target, share * row), true, 1, &|i, target| {
                add(i * share, target, value);
            });
        }
    } else {
        for_each(chunks(elements, whole), many, 1, &|i, target| {
            add(0, target, &value[i * picked..][..picked]);
        });
    }
    target
}

/// See [`Device::gather`](crate::Device::gather).
pub(super) fn gather<W: Word>(x: &Array, indices: &Array, axis: usize) -> Array {
    gather_within::<W>(x, indices, axis, None)
}

/// Gathers, and checks the indices in the same walk if there is something to complain of.
pub(super) fn gather_within<W: Word>(
    x: &Array,
    indices: &Array,
    axis: usize,
    complaint: Option<Complaint>,
) -> Array {
    let shape = indices.shape().clone();
    let size = x.shape()[axis] as i64;
    let bounds = -size..size;
    if let Some(value) = x.inline() {
        if let Some(complaint) = complaint {
            check(indices, bounds, complaint);
        }
        return Array::constant(value, shape);
    }
    // The walk does not move along `axis`, where the indices do.
    let mut layout = x.layout().clone();
    let (size, stride) = (layout.shape[axis], layout.strides[axis]);
    let still = |(i, &stride): (usize, &isize)| if i == axis { 0 } else { stride };
    layout.strides = layout.strides.iter().enumerate().map(still).collect();
    layout.shape = shape.clone();
    let steps = Steps::new(&layout);
    let indices = spread(indices);
    let indices = indices.host_slice::<i64>();
    let memory = x.buffer().expect("the device was chosen by its memory");
    let memory = memory.as_words::<W>();
    let is_outside = AtomicBool::new(false);
    let y = Array::moved(x.dtype(), shape, |out: &mut [W]| {
        for_each_part(out, 1, |first, out| {
            let mut places = [0; AT_ONCE];
            steps.for_each_run(first, out.len(), |done, start, step, len| {
                let indices = &indices[first + done..first + done + len];
                let out = &mut out[done..done + len];
                if len < FEW {
                    let mut start = start as isize;
                    for (y, &index) in out.iter_mut().zip(indices) {
                        let index = from_front(index, size);
                        if index >= size {
                            return is_outside.store(true, Ordering::Relaxed);
                        }
                        *y = memory[(start + index as isize * stride) as usize];
                        start += step;
                    }
                    return;
                }
                if step == 0 && stride == 1 {
                    bring(&memory[start..start + size], len);
                }
                let mut locate = Locate {
                    indices,
                    size: size as i64,
                    stride: stride as i64,
                    start: start as i64,
                    step: step as i64,
                    places: &mut places,
                };
                for out in out.chunks_mut(AT_ONCE) {
                    if Arch::new().dispatch(&mut locate) {
                        is_outside.store(true, Ordering::Relaxed);
                        return;
                    }
                    // Several at a time, because a turn of a loop takes longer than what is done in it.
                    let (groups, few) = out.as_chunks_mut::<GROUP>();
                    let (places, rest) = locate.places.split_at(groups.len() * GROUP);
                    for (group, places) in groups.iter_mut().zip(places.as_chunks::<GROUP>().0) {
                        *group = places.map(|place| memory[place]);
                    }
                    for (y, &place) in few.iter_mut().zip(rest) {
                        *y = memory[place];
                    }
                }
            });
        });
    });
    if is_outside.into_inner() {
        let complaint = complaint.expect("without one, the indices were checked before");
        complain(indices, &bounds, &complaint);
    }
    y
}

/// Reads a row, of which `count` elements will be used in no order, if that pays.
// PERF: the processor foresees what is read in order, and each of the others would wait for memory.
#[inline(always)]
fn bring<T: Copy>(row: &[T], count: usize) {
    let line = LINE / size_of::<T>();
    if count >= row.len() / line {
        for x in row.iter().step_by(line) {
            black_box(*x);
        }
    }
}

/// Fewer indices are not worth it to compute their places with vectors.
const FEW: usize = 64;

/// The number of elements that are taken in a turn.
const GROUP: usize = 8;

/// The number of indices whose places are computed at once.
const AT_ONCE: usize = 256;

/// The places in memory of the elements that indices stand for: on an axis of `size` elements, `stride` apart, that begins at
/// `start`, for each index `step` further on.
struct Locate<'a> {
    indices: &'a [i64],
    size: i64,
    stride: i64,
    start: i64,
    step: i64,
    places: &'a mut [usize; AT_ONCE],
}

impl NullaryFnOnce for &mut Locate<'_> {
    type Output = bool;
    /// Writes the places of the next indices. Returns whether one of these is out of bounds.
    #[inline(always)]
    fn call(self) -> bool {
        let size = self.size;
        let (own, others) = self.indices.split_at(self.indices.len().min(AT_ONCE));
        prefetch(own, page::<i64>());
        let mut is_outside = false;
        for (i, (place, &index)) in self.places.iter_mut().zip(own).enumerate() {
            let from_front = index + if index < 0 { size } else { 0 };
            is_outside |= from_front.cast_unsigned() >= size.cast_unsigned();
            // The place of an index that is out of bounds may be no number; it is not used.
            let along = from_front.wrapping_mul(self.stride);
            *place = (self.start + i as i64 * self.step).wrapping_add(along) as usize;
        }
        self.indices = others;
        self.start += own.len() as i64 * self.step;
        is_outside
    }
}

/// See [`Device::scatter_add`](crate::Device::scatter_add). Checks the indices in the same walk if there is something
/// to complain of.
pub(super) fn scatter_add<T: Accumulate>(
    target: Array,
    indices: &Array,
    axis: usize,
    value: &Array,
    complaint: Option<Complaint>,
) -> Array {
    written(target, indices, axis, value, complaint, T::add)
}

/// See [`Device::scatter`](crate::Device::scatter).
pub(super) fn scatter<T: Accumulate + PartialOrd>(
    rule: Scatter,
    target: Array,
    indices: &Array,
    axis: usize,
    value: &Array,
) -> Array {
    // A value that is NaN comes before all others, and nothing comes before an element that is.
    let take_if = |y: &mut T, x: T, comes_first: bool| {
        if comes_first || x.partial_cmp(&x).is_none() {
            *y = x;
        }
    };
    match rule {
        Scatter::Set => written(target, indices, axis, value, None, |y: &mut T, x| *y = x),
        Scatter::Max => written(target, indices, axis, value, None, |y, x| {
            take_if(y, x, x > *y)
        }),
        Scatter::Min => written(target, indices, axis, value, None, |y, x| {
            take_if(y, x, x < *y)
        }),
    }
}

/// The bytes of a part that stays in a near cache between being copied and being written to.
const NEAR: usize = 1 << 18;

/// The target after `write` has been called with each value and the element it is for. Each thread has
/// whole parts of the target before `axis`, so the order of the values at one element is theirs.
fn written<T: Element>(
    mut target: Array,
    indices: &Array,
    axis: usize,
    value: &Array,
    complaint: Option<Complaint>,
    write: impl Fn(&mut T, T) + Sync,
) -> Array {
    let rows = target.shape()[axis];
    let row: usize = target.shape()[axis + 1..].iter().product();
    let (whole, picked) = (rows * row, indices.shape()[axis] * row);
    if value.size() == 0 {
        return target;
    }
    let indices = spread(indices);
    let indices = indices.host_slice::<i64>();
    let value = spread(value);
    let value = value.host_slice::<T>();
    // There is no index into an axis without elements.
    let is_outside = AtomicBool::new(rows == 0);
    let at_once = (PARALLEL / 4).div_ceil(picked);
    let many = rayon::current_num_threads() > 1;
    let write_part = |i: usize, target: &mut [T]| {
        let own = i * picked..(i + 1) * picked;
        let mut is_missing = false;
        if row == 1 {
            let mut write_all = |indices: &[i64], values: &[T]| {
                for (&index, &x) in indices.iter().zip(values) {
                    match target.get_mut(from_front(index, rows)) {
                        Some(y) => write(y, x),
                        None => is_missing = true,
                    }
                }
            };
            // Several at a time, as in gather.
            let (groups, few) = indices[own.clone()].as_chunks::<GROUP>();
            let (values, rest) = value[own].as_chunks::<GROUP>();
            for (indices, values) in groups.iter().zip(values) {
                write_all(indices, values);
            }
            write_all(few, rest);
        } else {
            let value = value[own.clone()].chunks_exact(row);
            for (indices, value) in indices[own].chunks_exact(row).zip(value) {
                for (column, (&index, &x)) in indices.iter().zip(value).enumerate() {
                    match from_front(index, rows) {
                        index if index < rows => write(&mut target[index * row + column], x),
                        _ => is_missing = true,
                    }
                }
            }
        }
        if is_missing {
            is_outside.store(true, Ordering::Relaxed);
        }
    };
    target = target.to_row_major();
    if target.is_unique() || size_of::<T>() * whole > NEAR {
        let parts = chunks(target.as_mut_slice::<T>(), whole.max(1));
        for_each(parts, many, at_once, &|i, part| {
            if row == 1 {
                bring(part, picked);
            }
            write_part(i, part);
        });
    } else {
        // Each part is copied right before it is written to.
        let start = target;
        target = Array::filled_by(start.shape().clone(), |out: &mut [T]| {
            for_each(chunks(out, whole.max(1)), many, at_once, &|i, part| {
                match start.inline() {
                    Some(value) => part.fill(T::from_scalar(value)),
                    None => part.copy_from_slice(&start.host_slice::<T>()[i * whole..][..whole]),
                }
                write_part(i, part);
            });
        });
    }
    if is_outside.into_inner() {
        let complaint = complaint.expect("without one, the indices were checked before");
        let size = rows as i64;
        complain(indices, &(-size..size), &complaint);
    }
    target
}

#[inline(always)]
fn add_row<T: Accumulate>(target: &mut [T], value: &[T]) {
    target.iter_mut().zip(value).for_each(|(y, &x)| y.add(x));
}

/// Calls `fill(first, part)` for the parts of `out`, each of whole rows, on several threads if that
/// pays.
fn for_each_part<T: Send>(out: &mut [T], row: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() {
        return;
    }
    let threads = rayon::current_num_threads();
    if out.len() < PARALLEL || threads == 1 {
        return fill(0, out);
    }
    let share = out.len().div_ceil(4 * threads).next_multiple_of(row);
    for_each(chunks(out, share), true, 1, &|i, part| {
        fill(i * share, part)
    });
}

/// The position in memory of the element with the number `index` in row-major order.
fn element_at(layout: &Layout, mut index: usize) -> usize {
    let mut position = layout.offset as isize;
    for (&size, &stride) in layout.shape.iter().zip(layout.strides.iter()).rev() {
        position += (index % size) as isize * stride;
        index /= size;
    }
    position as usize
}

/// The elements in row-major order, in memory even if they are one repeated value.
pub(super) fn spread(x: &Array) -> Array {
    match x.inline() {
        Some(value) if x.size() > 1 => with_word!(x.dtype(), W => x.spread(W::of(value))),
        _ => x.to_row_major(),
    }
}
