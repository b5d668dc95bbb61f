//! Recurrent cells over whole sequences: at each step one product with the weights, then one pass over
//! the rows of the batch while they are in the cache.
//!
//! Rows do not depend on each other, so each thread takes some of them through all steps. A product
//! has the same sums for any number of rows from two on.

use std::borrow::Cow;
use std::ops::Range;

use pulp::{Arch, NullaryFnOnce};

use super::matmul::{Matrix, MatrixProduct, Number};
use super::product::product;
use super::threads::{chunks, for_each};
use super::{CPU, tile, worth_threads};
use crate::device::Device;
use crate::dtype::with_float;
use crate::math::Float;
use crate::recurrence::Sizes;
use crate::{Array, Element, Recurrence, RecurrenceCell, Shape};

/// The number of rows from which on they are worth a thread. It must be two at least.
const ROWS: usize = 4;
/// The number of columns of a panel of weights.
const PANEL: usize = 64;

/// The outputs of [`crate::recurrence`].
pub(super) fn run(rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
    with_float!(inputs[0].dtype(), T => forward::<T>(rule, inputs))
}

/// The results of [`crate::recurrence_gradient`].
pub(super) fn gradient(rule: &Recurrence, inputs: &[Cow<'_, Array>]) -> Vec<Array> {
    with_float!(inputs[0].dtype(), T => backward::<T>(rule, inputs))
}

/// A float of products and of formulas.
trait Real: tile::Float + Float {}
impl<T: tile::Float + Float> Real for T {}

/// The elements in row-major order.
fn listed<T: Element>(x: &Array) -> Cow<'_, [T]> {
    match x.as_slice() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(x.to_vec()),
    }
}

/// Rows of elements at each step. Those of a repeated value are in memory for one step.
struct Rows<'a, T: Clone> {
    memory: Cow<'a, [T]>,
    width: usize,
    /// The distance between steps.
    step: usize,
}

impl<'a, T: Element> Rows<'a, T> {
    fn new(x: &'a Array, batch: usize) -> Self {
        let width = x.shape().last().copied().unwrap_or_default();
        let (memory, step) = match x.inline() {
            Some(_) => (listed(&x.slice(crate::s![0])).into_owned().into(), 0),
            None => (listed(x), batch * width),
        };
        Self {
            memory,
            width,
            step,
        }
    }

    /// The same rows at every step.
    fn fixed(x: &'a Array) -> Self {
        let width = x.shape().last().copied().unwrap_or_default();
        let (memory, step) = (listed(x), 0);
        Self {
            memory,
            width,
            step,
        }
    }

    fn at(&self, step: usize, rows: &Range<usize>) -> &[T] {
        let start = step * self.step;
        &self.memory[start + rows.start * self.width..start + rows.end * self.width]
    }
}

/// The rows of each thread.
fn parts(rule: &Recurrence, sizes: Sizes) -> Vec<Range<usize>> {
    let Sizes {
        steps,
        batch,
        units,
        width,
    } = sizes;
    // Vector instructions do about a hundred multiplications in a nanosecond.
    let work = steps * batch * (width * units / 100 + width);
    let count = match worth_threads(work) {
        true => rayon::current_num_threads().min(batch / ROWS).max(1),
        false => 1,
    };
    debug_assert!(
        rule.lengths
            .as_ref()
            .is_none_or(|lengths| lengths.len() == batch)
    );
    (0..count)
        .map(|i| i * batch / count..(i + 1) * batch / count)
        .collect()
}

/// The memory of each part at each step.
fn split<'a, T>(
    memory: &'a mut [T],
    width: usize,
    parts: &[Range<usize>],
) -> Vec<Vec<&'a mut [T]>> {
    let batch = parts.last().map_or(0, |part| part.end);
    let mut lists: Vec<Vec<&mut [T]>> = parts.iter().map(|_| Vec::new()).collect();
    for mut step in memory.chunks_mut(batch * width) {
        for (part, list) in parts.iter().zip(&mut lists) {
            let (rows, rest) = step.split_at_mut(part.len() * width);
            list.push(rows);
            step = rest;
        }
    }
    lists
}

/// The rows at a step to write, and those that the cell had before it.
fn beside<'a, T>(
    rows: &'a mut [&mut [T]],
    step: usize,
    reverse: bool,
    start: &'a [T],
) -> (&'a mut [T], &'a [T]) {
    if reverse {
        let (own, later) = rows.split_at_mut(step + 1);
        (own[step], later.first().map_or(start, |before| before))
    } else {
        let (earlier, own) = rows.split_at_mut(step);
        (own[0], earlier.last().map_or(start, |before| before))
    }
}

/// The steps in the order of the cell.
fn order(steps: usize, reverse: bool) -> impl Iterator<Item = usize> {
    (0..steps).map(move |step| if reverse { steps - 1 - step } else { step })
}

/// The transpose of a row-major matrix, in panels of columns: a panel has all rows of [`PANEL`] columns
/// and stays in the first cache while it is multiplied.
fn panels<T: Copy>(w: &[T], columns: usize) -> Vec<T> {
    let mut panels = Vec::with_capacity(w.len());
    for rows in w.chunks(PANEL * columns) {
        for column in 0..columns {
            panels.extend(rows[column..].iter().step_by(columns));
        }
    }
    panels
}

/// Computes `out = a b + beta out`, where `b` has `k` rows and is in panels of columns.
fn multiply<T: Real>(a: &[T], b: &[T], k: usize, panel: usize, beta: T, out: &mut [T]) {
    let (m, step) = (a.len() / k, b.len() / k);
    let matrix = |memory, row| Matrix {
        memory,
        row,
        column: 1,
    };
    for (b, start) in b.chunks(panel * k).zip((0..).step_by(panel)) {
        let n = b.len() / k;
        let work = MatrixProduct {
            m,
            n,
            k,
            alpha: <T as Number>::ONE,
            a: matrix(a, k),
            b: matrix(b, n),
            beta,
            addend: None,
            out: &mut out[start..],
            step,
        };
        product(work, false);
    }
}

fn zeros(shapes: &[Shape], x: &Array) -> Vec<Array> {
    shapes
        .iter()
        .map(|shape| Array::zeros(shape, x.dtype()))
        .collect()
}

/// What one thread writes.
struct Part<'a, T> {
    rows: Range<usize>,
    state: Vec<&'a mut [T]>,
    memory: Vec<&'a mut [T]>,
    gates: Vec<&'a mut [T]>,
}

fn forward<T: Real>(rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
    let mut inputs = inputs.into_iter();
    let mut next = || inputs.next().expect("the number was checked");
    let (mut p, w, start) = (next(), next(), next());
    let cell = rule.cell;
    let second = match cell {
        RecurrenceCell::Tanh | RecurrenceCell::Relu => start.clone(),
        RecurrenceCell::Lstm | RecurrenceCell::Gru => next(),
    };
    let shapes = rule.outputs(p.shape(), w.shape());
    if p.size() == 0 {
        return zeros(&shapes, &p);
    }
    let sizes = rule.sizes(p.shape(), w.shape());
    let Sizes {
        steps,
        units,
        width,
        ..
    } = sizes;
    let w = panels(&listed::<T>(&w), units);
    let (start, second) = (Rows::<T>::fixed(&start), Rows::<T>::fixed(&second));
    let parts = parts(rule, sizes);
    // The gates are computed where their inputs were, and the state is if it has none.
    let mut others: Vec<Array> = match cell.has_gates() {
        true => [&shapes[0], &shapes[1]]
            .map(|shape| CPU.empty(shape, T::DTYPE))
            .into(),
        false => Vec::new(),
    };
    let (mut state, mut memory, mut gates) = match &mut others[..] {
        [state, memory] => (
            split(state.as_mut_slice::<T>(), units, &parts),
            split(memory.as_mut_slice(), units, &parts),
            split(p.as_mut_slice(), width, &parts),
        ),
        _ => (
            split(p.as_mut_slice(), units, &parts),
            split(&mut [], units, &parts),
            split(&mut [], width, &parts),
        ),
    };
    let mut tasks: Vec<Part<'_, T>> = Vec::with_capacity(parts.len());
    for (i, rows) in parts.into_iter().enumerate() {
        let take = std::mem::take::<Vec<&mut [T]>>;
        tasks.push(Part {
            rows,
            state: take(&mut state[i]),
            memory: take(&mut memory[i]),
            gates: take(&mut gates[i]),
        });
    }
    let parallel = tasks.len() > 1;
    for_each(chunks(&mut tasks, 1), parallel, 1, &|_, task| {
        let Part {
            rows,
            state,
            memory,
            gates,
        } = &mut task[0];
        let start = start.at(0, rows);
        let mut hidden = match cell {
            RecurrenceCell::Gru => vec![<T as Float>::ZERO; rows.len() * width],
            RecurrenceCell::Tanh | RecurrenceCell::Relu | RecurrenceCell::Lstm => Vec::new(),
        };
        for step in order(steps, rule.reverse) {
            let (h, before) = beside(state, step, rule.reverse, start);
            let one = <T as Float>::ONE;
            let own = match cell {
                RecurrenceCell::Tanh | RecurrenceCell::Relu => {
                    multiply(before, &w, units, PANEL, one, h);
                    Own::Plain
                }
                RecurrenceCell::Lstm => {
                    let start = second.at(0, rows);
                    let (c, c_before) = beside(memory, step, rule.reverse, start);
                    multiply(before, &w, units, PANEL, one, gates[step]);
                    Own::Lstm {
                        gates: &mut *gates[step],
                        c,
                        before: c_before,
                    }
                }
                RecurrenceCell::Gru => {
                    multiply(before, &w, units, PANEL, <T as Float>::ZERO, &mut hidden);
                    Own::Gru {
                        gates: &mut *gates[step],
                        m: &mut *memory[step],
                        hidden: &hidden,
                        bias: &second.memory,
                    }
                }
            };
            Arch::new().dispatch(Step {
                rule,
                units,
                step,
                first: rows.start,
                h,
                before,
                own,
            });
        }
    });
    others.push(p);
    others
}

/// The values of a step that differ from cell to cell, for all rows.
enum Own<'a, T> {
    Plain,
    Lstm {
        gates: &'a mut [T],
        c: &'a mut [T],
        before: &'a [T],
    },
    Gru {
        gates: &'a mut [T],
        m: &'a mut [T],
        hidden: &'a [T],
        bias: &'a [T],
    },
}

/// The pass over the rows of one step.
struct Step<'a, T> {
    rule: &'a Recurrence,
    units: usize,
    step: usize,
    first: usize,
    h: &'a mut [T],
    before: &'a [T],
    own: Own<'a, T>,
}

impl<T: Float> NullaryFnOnce for Step<'_, T> {
    type Output = ();
    // Each loop writes one slice, so that it becomes vector code without too many checks. A row
    // stays in the first cache.
    #[inline(always)]
    fn call(self) {
        let Self {
            rule,
            units,
            step,
            first,
            h,
            before,
            own,
        } = self;
        let is_over = |i: usize| rule.is_over(first + i, step);
        let rows = h.chunks_exact_mut(units).zip(before.chunks_exact(units));
        match own {
            Own::Plain => {
                for (i, (h, before)) in rows.enumerate() {
                    if is_over(i) {
                        h.copy_from_slice(before);
                    } else if rule.cell == RecurrenceCell::Relu {
                        for h in h {
                            *h = T::select(h.less(T::ZERO), T::ZERO, *h);
                        }
                    } else {
                        for h in h {
                            *h = h.tanh();
                        }
                    }
                }
            }
            Own::Lstm {
                gates,
                c,
                before: c_before,
            } => {
                let gates = gates.chunks_exact_mut(4 * units);
                let cs = c.chunks_exact_mut(units).zip(c_before.chunks_exact(units));
                for (i, (((h, before), gates), (c, c_before))) in
                    rows.zip(gates).zip(cs).enumerate()
                {
                    if is_over(i) {
                        h.copy_from_slice(before);
                        c.copy_from_slice(c_before);
                        gates.fill(T::ZERO);
                        continue;
                    }
                    let (i_and_f, g_and_o) = gates.split_at_mut(2 * units);
                    let (g, o) = g_and_o.split_at_mut(units);
                    for x in i_and_f.iter_mut() {
                        *x = x.sigmoid();
                    }
                    for x in g.iter_mut() {
                        *x = x.tanh();
                    }
                    for x in o.iter_mut() {
                        *x = x.sigmoid();
                    }
                    let (i, f) = i_and_f.split_at(units);
                    let terms = i.iter().zip(&*g).zip(f.iter().zip(c_before));
                    for (c, ((&i, &g), (&f, &before))) in c.iter_mut().zip(terms) {
                        *c = f * before + i * g;
                    }
                    for ((h, &o), &c) in h.iter_mut().zip(&*o).zip(&*c) {
                        *h = o * c.tanh();
                    }
                }
            }
            Own::Gru {
                gates,
                m,
                hidden,
                bias,
            } => {
                let gates = gates.chunks_exact_mut(3 * units);
                let more = m
                    .chunks_exact_mut(units)
                    .zip(hidden.chunks_exact(3 * units));
                for (i, (((h, before), gates), (m, hidden))) in
                    rows.zip(gates).zip(more).enumerate()
                {
                    if is_over(i) {
                        h.copy_from_slice(before);
                        m.fill(T::ZERO);
                        gates.fill(T::ZERO);
                        continue;
                    }
                    let (r_and_z, n) = gates.split_at_mut(2 * units);
                    let (of_r_and_z, of_n) = hidden.split_at(2 * units);
                    for (x, &y) in r_and_z.iter_mut().zip(of_r_and_z) {
                        *x = (*x + y).sigmoid();
                    }
                    for ((m, &x), &b) in m.iter_mut().zip(of_n).zip(bias) {
                        *m = x + b;
                    }
                    let (r, z) = r_and_z.split_at(units);
                    for ((n, &r), &m) in n.iter_mut().zip(r).zip(&*m) {
                        *n = (*n + r * m).tanh();
                    }
                    let terms = z.iter().zip(&*n).zip(before);
                    for (h, ((&z, &n), &before)) in h.iter_mut().zip(terms) {
                        *h = z * (before - n) + n;
                    }
                }
            }
        }
    }
}

/// What one thread writes.
struct GradientPart<'a, T> {
    rows: Range<usize>,
    p: Vec<&'a mut [T]>,
    hidden: Vec<&'a mut [T]>,
    /// The cotangent of the state, and that of the memory of an LSTM.
    state: &'a mut [T],
    memory: &'a mut [T],
}

fn backward<T: Real>(rule: &Recurrence, inputs: &[Cow<'_, Array>]) -> Vec<Array> {
    let (w, start, h) = (&*inputs[0], &*inputs[1], &*inputs[2]);
    let cell = rule.cell;
    let shapes = rule.gradients(&h.shape().replaced(2, w.shape()[0]), w.shape());
    let sizes = rule.sizes(&shapes[0], w.shape());
    let Sizes {
        steps,
        batch,
        units,
        width,
    } = sizes;
    if h.size() == 0 {
        return zeros(&shapes, h);
    }
    let w: Cow<'_, [T]> = listed(w);
    let start = Rows::<T>::fixed(start);
    let values: Vec<Rows<'_, T>> = inputs[2..].iter().map(|x| Rows::new(x, batch)).collect();
    let parts = parts(rule, sizes);
    let mut results: Vec<Array> = shapes
        .iter()
        .map(|shape| CPU.empty(shape, T::DTYPE))
        .collect();
    let is_lstm = cell == RecurrenceCell::Lstm;
    let mut slices = results.iter_mut().map(Array::as_mut_slice::<T>);
    let mut next = || slices.next();
    let (p, state) = (next().expect("that of p"), next().expect("that of h"));
    let third = next().unwrap_or_default();
    let (memory, hidden) = match is_lstm {
        true => (third, Default::default()),
        false => (Default::default(), third),
    };
    state.fill(<T as Float>::ZERO);
    memory.fill(<T as Float>::ZERO);
    let (p, hidden) = (split(p, width, &parts), split(hidden, width, &parts));
    let state = split(state, units, &parts)
        .into_iter()
        .map(|mut rows| rows.remove(0));
    let mut memory = split(memory, units, &parts).into_iter();
    let mut tasks: Vec<GradientPart<'_, T>> = (parts.into_iter().zip(p).zip(hidden).zip(state))
        .map(|(((rows, p), hidden), state)| {
            let memory = memory.next().and_then(|mut rows| rows.pop());
            GradientPart {
                rows,
                p,
                hidden,
                state,
                memory: memory.unwrap_or_default(),
            }
        })
        .collect();
    let parallel = tasks.len() > 1;
    for_each(chunks(&mut tasks, 1), parallel, 1, &|_, task| {
        let GradientPart {
            rows,
            p,
            hidden,
            state,
            memory,
        } = &mut task[0];
        let mut scratch = vec![<T as Float>::ZERO; units];
        for step in order(steps, !rule.reverse) {
            let at = |i: usize| values[i].at(step, rows);
            let before = |i: usize| {
                let earlier = match rule.reverse {
                    true => Some(step + 1).filter(|&step| step < steps),
                    false => step.checked_sub(1),
                };
                match earlier {
                    Some(step) => values[i].at(step, rows),
                    None => start.at(0, rows),
                }
            };
            let gp = &mut *p[step];
            let own = match cell {
                RecurrenceCell::Tanh | RecurrenceCell::Relu => OwnGradient::Plain {
                    h: at(0),
                    gy: at(1),
                },
                RecurrenceCell::Lstm => OwnGradient::Lstm {
                    c: at(1),
                    before: before(1),
                    gates: at(2),
                    gy: [at(3), at(4), at(5)],
                    gc: memory,
                },
                RecurrenceCell::Gru => OwnGradient::Gru {
                    before: before(0),
                    m: at(1),
                    gates: at(2),
                    gy: [at(3), at(4), at(5)],
                    hidden: &mut *hidden[step],
                },
            };
            Arch::new().dispatch(GradientStep {
                rule,
                units,
                step,
                first: rows.start,
                gp,
                gh: state,
                scratch: &mut scratch,
                own,
            });
            let from = hidden.get(step).unwrap_or(&p[step]);
            multiply(from, &w, width, units, <T as Float>::ONE, state);
        }
    });
    results
}

/// The values of a step on the way back that differ from cell to cell, for all rows. `gy` has the
/// cotangents of the outputs at this step.
enum OwnGradient<'a, T> {
    Plain {
        h: &'a [T],
        gy: &'a [T],
    },
    Lstm {
        c: &'a [T],
        before: &'a [T],
        gates: &'a [T],
        gy: [&'a [T]; 3],
        gc: &'a mut [T],
    },
    Gru {
        before: &'a [T],
        m: &'a [T],
        gates: &'a [T],
        gy: [&'a [T]; 3],
        hidden: &'a mut [T],
    },
}

/// The pass over the rows of one step on the way back, which leaves in `gh` what reaches the state
/// before it other than through the product.
struct GradientStep<'a, T> {
    rule: &'a Recurrence,
    units: usize,
    step: usize,
    first: usize,
    gp: &'a mut [T],
    gh: &'a mut [T],
    scratch: &'a mut [T],
    own: OwnGradient<'a, T>,
}

impl<T: Float> NullaryFnOnce for GradientStep<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            rule,
            units,
            step,
            first,
            gp,
            gh,
            scratch,
            own,
        } = self;
        let is_over = |i: usize| rule.is_over(first + i, step);
        let width = rule.cell.gates() * units;
        let rows = gp.chunks_exact_mut(width).zip(gh.chunks_exact_mut(units));
        match own {
            OwnGradient::Plain { h, gy } => {
                for (i, (gp, gh)) in rows.enumerate() {
                    let (h, gy) = (row(h, i, units), row(gy, i, units));
                    for (gh, &gy) in gh.iter_mut().zip(gy) {
                        *gh = *gh + gy;
                    }
                    if is_over(i) {
                        gp.fill(T::ZERO);
                        continue;
                    }
                    if rule.cell == RecurrenceCell::Relu {
                        for ((gp, &gh), &h) in gp.iter_mut().zip(&*gh).zip(h) {
                            *gp = T::select(h.greater(T::ZERO), gh, T::ZERO);
                        }
                    } else {
                        for ((gp, &gh), &h) in gp.iter_mut().zip(&*gh).zip(h) {
                            *gp = gh * (T::ONE - h * h);
                        }
                    }
                    gh.fill(T::ZERO);
                }
            }
            OwnGradient::Lstm {
                c,
                before,
                gates,
                gy,
                gc,
            } => {
                let rows = rows.zip(gc.chunks_exact_mut(units));
                for (i, ((gp, gh), gc)) in rows.enumerate() {
                    let of_units = [c, before, gy[0], gy[1]].map(|x| row(x, i, units));
                    let [c, before, gy_h, gy_c] = of_units;
                    for (gh, &gy) in gh.iter_mut().zip(gy_h) {
                        *gh = *gh + gy;
                    }
                    for (gc, &gy) in gc.iter_mut().zip(gy_c) {
                        *gc = *gc + gy;
                    }
                    if is_over(i) {
                        gp.fill(T::ZERO);
                        continue;
                    }
                    let [gate_i, f, g, o] = gates_of(row(gates, i, width), units);
                    let [gy_i, gy_f, gy_g, gy_o] = gates_of(row(gy[2], i, width), units);
                    let (first, second) = gp.split_at_mut(2 * units);
                    let (gp_i, gp_f) = first.split_at_mut(units);
                    let (gp_g, gp_o) = second.split_at_mut(units);
                    for (tanh, &c) in scratch.iter_mut().zip(c) {
                        *tanh = c.tanh();
                    }
                    let terms = scratch.iter().zip(o).zip(&*gh);
                    for (gc, ((&tanh, &o), &gh)) in gc.iter_mut().zip(terms) {
                        *gc = *gc + gh * o * (T::ONE - tanh * tanh);
                    }
                    let terms = scratch.iter().zip(o).zip(gh.iter().zip(gy_o));
                    for (gp, ((&tanh, &o), (&gh, &gy))) in gp_o.iter_mut().zip(terms) {
                        *gp = (gh * tanh + gy) * (o * (T::ONE - o));
                    }
                    let terms = gate_i.iter().zip(g).zip(gc.iter().zip(gy_i));
                    for (gp, ((&i, &g), (&gc, &gy))) in gp_i.iter_mut().zip(terms) {
                        *gp = (gc * g + gy) * (i * (T::ONE - i));
                    }
                    let terms = f.iter().zip(before).zip(gc.iter().zip(gy_f));
                    for (gp, ((&f, &before), (&gc, &gy))) in gp_f.iter_mut().zip(terms) {
                        *gp = (gc * before + gy) * (f * (T::ONE - f));
                    }
                    let terms = gate_i.iter().zip(g).zip(gc.iter().zip(gy_g));
                    for (gp, ((&i, &g), (&gc, &gy))) in gp_g.iter_mut().zip(terms) {
                        *gp = (gc * i + gy) * (T::ONE - g * g);
                    }
                    for (gc, &f) in gc.iter_mut().zip(f) {
                        *gc = *gc * f;
                    }
                    gh.fill(T::ZERO);
                }
            }
            OwnGradient::Gru {
                before,
                m,
                gates,
                gy,
                hidden,
            } => {
                let rows = rows.zip(hidden.chunks_exact_mut(width));
                for (i, ((gp, gh), hidden)) in rows.enumerate() {
                    let of_units = [m, before, gy[0], gy[1]].map(|x| row(x, i, units));
                    let [m, before, gy_h, gy_m] = of_units;
                    for (gh, &gy) in gh.iter_mut().zip(gy_h) {
                        *gh = *gh + gy;
                    }
                    if is_over(i) {
                        gp.fill(T::ZERO);
                        hidden.fill(T::ZERO);
                        continue;
                    }
                    let [r, z, n] = gates_of(row(gates, i, width), units);
                    let [gy_r, gy_z, gy_n] = gates_of(row(gy[2], i, width), units);
                    let (gp_r_and_z, gp_n) = gp.split_at_mut(2 * units);
                    let (gp_r, gp_z) = gp_r_and_z.split_at_mut(units);
                    let terms = z.iter().zip(n).zip(gh.iter().zip(gy_n));
                    for (gp, ((&z, &n), (&gh, &gy))) in gp_n.iter_mut().zip(terms) {
                        *gp = (gh * (T::ONE - z) + gy) * (T::ONE - n * n);
                    }
                    let terms = z.iter().zip(n).zip(before).zip(gh.iter().zip(gy_z));
                    for (gp, (((&z, &n), &before), (&gh, &gy))) in gp_z.iter_mut().zip(terms) {
                        *gp = (gh * (before - n) + gy) * (z * (T::ONE - z));
                    }
                    let terms = r.iter().zip(m).zip(gp_n.iter().zip(gy_r));
                    for (gp, ((&r, &m), (&gn, &gy))) in gp_r.iter_mut().zip(terms) {
                        *gp = (gn * m + gy) * (r * (T::ONE - r));
                    }
                    let (of_r_and_z, of_n) = hidden.split_at_mut(2 * units);
                    of_r_and_z.copy_from_slice(gp_r_and_z);
                    let terms = r.iter().zip(&*gp_n).zip(gy_m);
                    for (of_n, ((&r, &gn), &gy)) in of_n.iter_mut().zip(terms) {
                        *of_n = gn * r + gy;
                    }
                    for (gh, &z) in gh.iter_mut().zip(z) {
                        *gh = *gh * z;
                    }
                }
            }
        }
    }
}

/// Row `i`.
#[inline(always)]
fn row<T>(x: &[T], i: usize, width: usize) -> &[T] {
    &x[i * width..(i + 1) * width]
}

/// The gates of a row.
#[inline(always)]
fn gates_of<T, const N: usize>(x: &[T], units: usize) -> [&[T]; N] {
    std::array::from_fn(|i| &x[i * units..(i + 1) * units])
}
