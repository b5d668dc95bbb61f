//! The choice of the steps that go through some rows at a time.
//!
//! Sums and extremes of rows, products, and the passes before and behind them work on the same rows. If
//! each of them went through all of memory, it would find little of what the one before it left in the
//! cache.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Planned;
use crate::cpu::{
    ConvolutionRows, Fused, RowSource, RowStep, RowValue, RowWork, Rows, Widths, matmul, reduce,
};
use crate::formula::Target;
use crate::shape::Layout;
use crate::trace::{Along, AlongAxes, Operand, SlotSpec};
use crate::{DType, Reduce};

/// The number of other steps over which a step may be moved to those that it belongs to.
const AHEAD: usize = 8;

/// The widest rows: beyond, not even one stays in the cache.
const WIDEST: usize = 1 << 16;

/// The same for examples of a convolution, whose next step gains from more distant caches, too.
const WIDEST_EXAMPLE: usize = 1 << 20;

/// The least number of rows, so that there is work for several threads.
const FEWEST: usize = 16;

/// The least number of rows of a product, and the most bytes of the right factors and the weights of a table,
/// which stay in the cache while the rows go through.
const PRODUCT_ROWS: usize = 64;
const FACTORS: usize = 1 << 20;

/// The least number of bytes of the rows of a product that are worth it: fewer stay in the cache between two steps.
const FAR: usize = 1 << 22;

/// The least number of pieces of a table with products, so that there is work for several threads.
const PIECES: usize = 8;

/// The same steps, with those together that go through the same rows.
pub(super) fn plan(items: Vec<Planned>, slots: &[SlotSpec], outputs: &[Operand]) -> Vec<Planned> {
    let mut done: Vec<Planned> = Vec::with_capacity(items.len());
    // Those that are left, the next one last.
    let mut rest: Vec<Planned> = items.into_iter().rev().collect();
    while let Some(first) = rest.pop() {
        let Some(mut table) = Table::opened_by(&first, &rest, slots) else {
            done.push(first);
            continue;
        };
        let choices = table.choices(&rest, slots);
        let mut postponed: Vec<Planned> = Vec::new();
        let mut items = vec![first];
        for choice in choices {
            let item = rest.pop().expect("there is an item for each choice");
            match choice {
                Choice::Join => items.push(item),
                Choice::Before => done.push(item),
                Choice::After => postponed.push(item),
            }
        }
        rest.extend(postponed.into_iter().rev());
        match items.len() > 1 && !table.is_of_products() {
            true => done.push(table.finish(items, &rest, slots, outputs)),
            false => done.extend(items),
        }
    }
    done
}

/// What becomes of a step behind the first one of a table.
enum Choice {
    Join,
    Before,
    After,
}

/// Steps that go through the same rows.
struct Table {
    rows: usize,
    /// See [`reduce::column_piece`].
    piece: Option<usize>,
    /// The number of elements in each row of what the steps compute.
    widths: HashMap<usize, usize>,
    /// The slots from outside that are read row by row.
    read: HashSet<usize>,
    /// The number of bytes of the right factors of products and of the weights of convolutions.
    factors: usize,
    steps: Vec<Placed>,
}

/// A step as one of a table.
struct Placed {
    work: RowWork,
    /// The number of elements in each row of the results, or 0 for sums of columns.
    widths: Vec<usize>,
    /// The slots that it reads row by row.
    read: Vec<usize>,
    piece: Option<usize>,
    factors: usize,
}

impl Table {
    /// The table of a step, if steps behind it may go through the same rows.
    fn opened_by(first: &Planned, rest: &[Planned], slots: &[SlotSpec]) -> Option<Self> {
        let made = first.outputs();
        let reads_it = |item: &&Planned| {
            let table = item.operands().first();
            matches!(table, Some(Operand::Slot(slot, _)) if made.contains(slot))
        };
        let rows = match first {
            Planned::Call { .. } => rows_of(first)?,
            Planned::Fused { .. } => {
                let next = rest.iter().rev().take(AHEAD).filter(reads_it);
                next.filter_map(rows_of).next()?
            }
            Planned::Rows { .. } => return None,
        };
        let mut table = Self {
            rows,
            piece: None,
            widths: HashMap::new(),
            read: HashSet::new(),
            factors: 0,
            steps: Vec::new(),
        };
        let placed = table.placed(first, slots)?;
        table.add(first, placed);
        Some(table)
    }

    /// Adds the steps that belong to the table, and says what becomes of the next ones, up to the last
    /// one that joins.
    fn choices(&mut self, rest: &[Planned], slots: &[SlotSpec]) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        let mut late: HashSet<usize> = HashSet::new();
        let (mut others, mut joined) = (0, 0);
        for item in rest.iter().rev() {
            let reads = |slots: &dyn Fn(usize) -> bool| {
                let mut operands = item.operands().iter();
                operands.any(|operand| matches!(operand, Operand::Slot(slot, _) if slots(*slot)))
            };
            let depends = reads(&|slot| self.widths.contains_key(&slot));
            let is_late = reads(&|slot| late.contains(&slot));
            let next = &rest[..rest.len() - choices.len() - 1];
            let placed = (!is_late)
                .then(|| self.placed(item, slots))
                .flatten()
                .filter(|placed| {
                    let is_shared = placed.read.iter().any(|x| self.read.contains(x));
                    depends || is_shared || self.needs(item, next, slots)
                });
            choices.push(match placed {
                Some(placed) => {
                    self.add(item, placed);
                    joined = choices.len() + 1;
                    Choice::Join
                }
                None if depends || is_late => {
                    late.extend(item.outputs());
                    Choice::After
                }
                None => Choice::Before,
            });
            if !matches!(choices.last(), Some(Choice::Join)) {
                others += 1;
                if others == AHEAD {
                    break;
                }
            }
        }
        choices.truncate(joined);
        choices
    }

    /// Whether a step is a reduction for one of the `next` steps, which also reads rows of the table, as the sum of
    /// a cotangent is in the gradient of a softmax.
    fn needs(&self, item: &Planned, next: &[Planned], slots: &[SlotSpec]) -> bool {
        let made = item.outputs();
        let reads = |next: &Planned, is_one: &dyn Fn(usize) -> bool| {
            let mut slots = next.operands().iter().filter_map(Operand::slot);
            slots.any(is_one)
        };
        let is_for = |next: &&Planned| {
            reads(next, &|slot| made.contains(&slot))
                && reads(next, &|slot| self.widths.contains_key(&slot))
                && self.placed(next, slots).is_some()
        };
        matches!(item, Planned::Call { .. }) && next.iter().rev().take(AHEAD).any(|x| is_for(&x))
    }

    fn add(&mut self, item: &Planned, placed: Placed) {
        self.widths.extend(
            item.outputs()
                .into_iter()
                .zip(placed.widths.iter().copied()),
        );
        let outside = placed.read.iter().filter(|x| !self.widths.contains_key(x));
        self.read.extend(outside);
        self.piece = self.piece.or(placed.piece);
        self.factors += placed.factors;
        self.steps.push(placed);
    }

    /// Whether nothing is computed from the rows while they are in the cache.
    fn is_of_products(&self) -> bool {
        let is_product =
            |step: &Placed| matches!(step.work, RowWork::Product { .. } | RowWork::Convolution(_));
        self.steps.iter().all(is_product)
    }

    /// A step as one of the table, if it computes rows from the same rows.
    fn placed(&self, item: &Planned, slots: &[SlotSpec]) -> Option<Placed> {
        let is_dense = |&slot: &usize| slots[slot].layout.offset == 0 && !slots[slot].is_inline;
        if !item.outputs().iter().all(is_dense) {
            return None;
        }
        match item {
            Planned::Fused {
                fused,
                operands,
                outputs,
                ..
            } => {
                let width = fused.size() / self.rows;
                if fused.size() % self.rows != 0 || width == 0 || !fused.has_rows(width) {
                    return None;
                }
                let mut read: Vec<usize> = Vec::new();
                for (i, operand) in operands.iter().enumerate() {
                    let Operand::Slot(slot, layout) = operand else {
                        continue;
                    };
                    let in_order = fused.reads_in_order(i);
                    if in_order && width > 1 {
                        read.push(*slot);
                    }
                    let fits = match self.widths.get(slot) {
                        None => true,
                        Some(&own) if in_order => own == width,
                        Some(&own) => {
                            own == 1 && layout.offset == 0 && fused.repeats_in_rows(i, width)
                        }
                    };
                    if !fits {
                        return None;
                    }
                }
                Some(Placed {
                    work: RowWork::Pass(Arc::clone(fused)),
                    widths: vec![width; outputs.len()],
                    read,
                    piece: None,
                    factors: 0,
                })
            }
            Planned::Call {
                along: Some(along),
                operands,
                first,
                ..
            } => self.placed_call(along, operands, *first, slots),
            Planned::Call { .. } | Planned::Rows { .. } => None,
        }
    }

    fn placed_call(
        &self,
        along: &Along,
        operands: &[Operand],
        first: usize,
        slots: &[SlotSpec],
    ) -> Option<Placed> {
        let dtype = slots[first].dtype;
        let shape = shape_of(along, &operands[0])?;
        if shape.rows() != self.rows {
            return None;
        }
        let mut read: Vec<usize> = Vec::new();
        let mut table = |operand: &Operand, width: usize| {
            let Operand::Slot(slot, layout) = operand else {
                return None;
            };
            let own = self.widths.get(slot);
            let fits = slots[*slot].dtype == dtype
                && !slots[*slot].is_inline
                && own.is_none_or(|&own| own == width && layout.offset == 0);
            read.push(*slot);
            fits.then_some(())
        };
        let mut factors = 0;
        let (work, width, piece) = match (&along.operation, shape) {
            (&AlongAxes::Reduce(reduction), TableShape::Rows(rows, width)) => {
                table(&operands[0], width)?;
                let is_same = reduce::reduces_rows(reduction, dtype, rows, width);
                is_same.then_some((RowWork::Reduce(reduction), 1, None))?
            }
            (AlongAxes::Reduce(Reduce::Sum), TableShape::Columns(rows, width)) => {
                let no_examples = |step: &Placed| !matches!(step.work, RowWork::Convolution(_));
                self.steps.iter().all(no_examples).then_some(())?;
                table(&operands[0], width)?;
                let piece = reduce::column_piece(dtype, rows, width)?;
                let is_same = self.piece.is_none_or(|own| own == piece)
                    && (self.factors == 0 || rows >= PIECES * piece);
                is_same.then_some((RowWork::SumOfColumns, 0, Some(piece)))?
            }
            (AlongAxes::Reduce(_), TableShape::Columns(..)) => return None,
            (AlongAxes::Convolve(convolution, made), shape) => {
                let (rows, read) = shape.sizes();
                table(&operands[0], read)?;
                let made = ConvolutionRows::new(convolution, *made, rows, dtype)?;
                let result = &slots[first].layout;
                factors = operands[1].shape().size() * dtype.size();
                let is_there = |slot: usize| !self.widths.contains_key(&slot);
                let fits = operands[1].slot().is_none_or(is_there)
                    && (self.factors == 0 || self.factors + factors <= FACTORS)
                    && self.piece.is_none()
                    && result.is_row_major();
                let work = || RowWork::Convolution(Arc::new(made));
                fits.then(|| (work(), result.shape.size() / rows, None))?
            }
            (&AlongAxes::Product { alpha, beta }, shape) => {
                let (rows, depth) = shape.sizes();
                table(&operands[0], depth)?;
                let width = self.width_of_product(operands, dtype, [rows, depth], beta)?;
                let is_large = rows * depth.max(width) * dtype.size() >= FAR;
                is_large.then_some(())?;
                factors = depth * width * dtype.size();
                let is_wide = self.piece.is_some_and(|piece| rows < PIECES * piece);
                let fits = self.factors + factors <= FACTORS && !is_wide;
                let work = RowWork::Product {
                    alpha,
                    beta,
                    size: depth * width,
                };
                fits.then_some((work, width, None))?
            }
        };
        Some(Placed {
            work,
            widths: vec![width],
            read,
            piece,
            factors,
        })
    }

    /// The number of columns of a product whose rows can be computed some at a time, from a factor and
    /// a row to add that are there before.
    fn width_of_product(
        &self,
        operands: &[Operand],
        dtype: DType,
        [rows, depth]: [usize; 2],
        beta: f64,
    ) -> Option<usize> {
        let is_there = |operand: &Operand| {
            let slot = operand.slot();
            slot.is_none_or(|slot| !self.widths.contains_key(&slot))
        };
        let width = operands[1].shape()[1];
        let is_row = operands[2]
            .shape()
            .iter()
            .rev()
            .skip(1)
            .all(|&size| size == 1);
        let is_known = is_there(&operands[1]) && (beta == 0.0 || is_there(&operands[2]) && is_row);
        let is_same = matmul::goes_by_rows([rows, width, depth], dtype);
        (is_known && is_same && rows >= PRODUCT_ROWS).then_some(width)
    }

    /// The table as one step of a program.
    fn finish(
        self,
        items: Vec<Planned>,
        rest: &[Planned],
        slots: &[SlotSpec],
        results: &[Operand],
    ) -> Planned {
        let later = rest.iter().flat_map(Planned::operands).chain(results);
        let later: HashSet<usize> = later.filter_map(Operand::slot).collect();
        let mut operands: Vec<Operand> = Vec::new();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let (mut values, mut outputs) = (Vec::new(), Vec::new());
        let mut steps: Vec<RowStep> = Vec::with_capacity(items.len());
        for (item, placed) in items.iter().zip(self.steps) {
            let inputs = item.operands().iter().map(|operand| {
                let own = operand.slot().and_then(|slot| numbers.get(&slot));
                if let Some(&value) = own {
                    return RowSource::Value(value);
                }
                operands.push(operand.clone());
                RowSource::Array(operands.len() - 1)
            });
            let inputs: Vec<RowSource> = inputs.collect();
            let mut made: Vec<usize> = Vec::new();
            for (slot, width) in item.outputs().into_iter().zip(placed.widths) {
                let is_output = later.contains(&slot) || width == 0;
                made.push(values.len());
                numbers.insert(slot, values.len());
                values.push(RowValue {
                    dtype: slots[slot].dtype,
                    width,
                    layout: slots[slot].layout.clone(),
                    is_output,
                });
                outputs.extend(is_output.then_some(slot));
            }
            steps.push(RowStep {
                work: placed.work,
                inputs,
                outputs: made,
            });
        }
        let width_of = |source: RowSource| match source {
            RowSource::Value(value) => values[value].width,
            RowSource::Array(array) => operands[array].layout().shape.size() / self.rows,
        };
        // Others read only what is as wide as the values that they compute.
        let reduced = steps
            .iter()
            .filter(|step| !matches!(step.work, RowWork::Pass(_)));
        let read = reduced.map(|step| width_of(step.inputs[0])).max();
        let steps = with_folds(steps, &values, self.rows, &width_of);
        let widths = Widths {
            read: read.unwrap_or(1),
            kept: widest_kept(&steps, &operands, &width_of),
        };
        Planned::Rows {
            rows: Box::new(Rows::new(self.rows, widths, self.piece, values, steps)),
            items,
            operands,
            outputs,
        }
    }
}

/// The number of elements in the widest row that several steps read or compute, or 1.
fn widest_kept(
    steps: &[RowStep],
    operands: &[Operand],
    width_of: &dyn Fn(RowSource) -> usize,
) -> usize {
    // Windows on the same memory count as one.
    let whole = |source: RowSource| match source {
        RowSource::Array(array) => {
            let slot = operands[array].slot();
            let first = operands
                .iter()
                .position(|operand| slot.is_some() && operand.slot() == slot);
            RowSource::Array(first.unwrap_or(array))
        }
        RowSource::Value(value) => RowSource::Value(value),
    };
    let mut touched: HashMap<RowSource, usize> = HashMap::new();
    for step in steps {
        let read = step.inputs.iter().map(|&source| whole(source));
        let made = step.outputs.iter().map(|&value| RowSource::Value(value));
        for source in read.chain(made).collect::<HashSet<RowSource>>() {
            *touched.entry(source).or_default() += 1;
        }
    }
    let kept = touched.into_iter().filter(|&(_, steps)| steps > 1);
    kept.map(|(source, _)| width_of(source))
        .max()
        .unwrap_or(1)
        .max(1)
}

/// The steps with sums and extremes of rows in the passes that compute these rows, where there is machine
/// code for that. So rows are read once less, and those that nothing else reads are not stored.
fn with_folds(
    mut steps: Vec<RowStep>,
    values: &[RowValue],
    rows: usize,
    width_of: &dyn Fn(RowSource) -> usize,
) -> Vec<RowStep> {
    let fold = |step: &RowStep| match step.work {
        RowWork::Reduce(reduction) => {
            let dtype = values[*step.outputs.first()?].dtype;
            let width = width_of(step.inputs[0]);
            reduce::folds_rows(reduction, dtype, width).then_some((reduction, width))
        }
        _ => None,
    };
    for i in 0..steps.len() {
        let RowWork::Pass(fused) = &steps[i].work else {
            continue;
        };
        let made = &steps[i].outputs;
        let place = |step: &RowStep| match step.inputs.first() {
            Some(RowSource::Value(value)) => made.iter().position(|own| own == value),
            Some(RowSource::Array(_)) | None => None,
        };
        let mut folds: Vec<(usize, Target)> = Vec::new();
        let mut folded: Vec<usize> = Vec::new();
        let mut is_read: Vec<bool> = made.iter().map(|&value| values[value].is_output).collect();
        let mut width = 0;
        for step in &steps {
            if let (Some((reduction, own)), Some(place)) = (fold(step), place(step)) {
                folds.push((place, Target::Fold(reduction)));
                folded.push(step.outputs[0]);
                width = own;
                continue;
            }
            for (is_read, value) in is_read.iter_mut().zip(made) {
                let reads =
                    |source: &RowSource| matches!(source, RowSource::Value(own) if own == value);
                *is_read |= step.inputs.iter().any(reads);
            }
        }
        let stored = (0..made.len()).filter(|&place| is_read[place]);
        let elements = stored
            .clone()
            .map(|place| (place, Target::Elements(values[made[place]].dtype)));
        let targets: Vec<(usize, Target)> = elements.chain(folds).collect();
        if folded.is_empty() {
            continue;
        }
        if let Some(fused) = fused.folded(width, &targets) {
            let outputs = stored
                .map(|place| made[place])
                .chain(folded.iter().copied());
            let outputs: Vec<usize> = outputs.collect();
            steps[i].work = RowWork::Pass(Arc::new(fused));
            steps[i].outputs = outputs;
            // What is folded is left out below.
            for step in &mut steps {
                if matches!(step.work, RowWork::Reduce(_)) {
                    step.outputs.retain(|own| !folded.contains(own));
                }
            }
        }
    }
    steps.retain(|step| !step.outputs.is_empty());
    for step in &mut steps {
        if let Some((reduction, width)) = fold(step)
            && let Some(fused) = Fused::fold_of(rows, width, reduction)
        {
            step.work = RowWork::Fold(Arc::new(fused));
        }
    }
    steps
}

/// The rows that a call goes through.
fn rows_of(item: &Planned) -> Option<usize> {
    let Planned::Call {
        along: Some(along),
        operands,
        ..
    } = item
    else {
        return None;
    };
    let shape = shape_of(along, &operands[0])?;
    let (rows, width) = shape.sizes();
    if let AlongAxes::Convolve(..) = along.operation {
        return (rows > 1 && width <= WIDEST_EXAMPLE).then_some(rows);
    }
    let are_enough = rows >= FEWEST || rows * width <= WIDEST;
    (rows > 1 && width <= WIDEST && are_enough).then_some(rows)
}

/// An array seen as a table, with the number of its rows and of the elements in each, whose rows or
/// columns an operation goes along.
#[derive(Clone, Copy)]
enum TableShape {
    Rows(usize, usize),
    Columns(usize, usize),
}

impl TableShape {
    const fn sizes(self) -> (usize, usize) {
        match self {
            Self::Rows(rows, width) | Self::Columns(rows, width) => (rows, width),
        }
    }

    const fn rows(self) -> usize {
        self.sizes().0
    }
}

/// The first operand of an operation as a table without gaps in memory, if it is one.
fn shape_of(along: &Along, operand: &Operand) -> Option<TableShape> {
    let layout = operand.layout();
    if let AlongAxes::Convolve(..) = along.operation {
        let rows = *layout.shape.first()?;
        let is_table = layout.is_row_major() && layout.shape.size() > 0;
        return is_table.then(|| TableShape::Rows(rows, layout.shape.size() / rows));
    }
    if let AlongAxes::Product { .. } = along.operation {
        let &[rows, width] = &layout.shape[..] else {
            return None;
        };
        return (layout.is_row_major() && rows * width > 0)
            .then_some(TableShape::Rows(rows, width));
    }
    let order = layout.order();
    let axes = || order.iter().filter(|&&axis| layout.shape[axis] != 1);
    let ordered = Layout {
        shape: axes().map(|&axis| layout.shape[axis]).collect(),
        strides: axes().map(|&axis| layout.strides[axis]).collect(),
        offset: 0,
    };
    if !ordered.is_row_major() || ordered.shape.size() == 0 {
        return None;
    }
    let is_reduced: Vec<bool> = axes().map(|axis| along.axes.contains(axis)).collect();
    let first = *is_reduced.first()?;
    let turn = is_reduced.iter().position(|&is| is != first)?;
    if is_reduced[turn..].contains(&first) {
        return None;
    }
    let rows: usize = ordered.shape[..turn].iter().product();
    let width: usize = ordered.shape[turn..].iter().product();
    Some(match first {
        true => TableShape::Columns(rows, width),
        false => TableShape::Rows(rows, width),
    })
}
