//! Matrix products of arrays: one product after another, or several at once, each by
//! [`product`](super::product::product) or, if the sums are short, by plain loops.
//!
//! The number of threads does not change the result: the order of each sum depends only on the
//! sizes of its product.

use std::borrow::Cow;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::elementwise::PARALLEL;
use super::product::{self, HIGH, product, some_rows};
use super::steps::Steps;
use super::threads::{Chunks, chunks, for_each, for_each_run};
use super::tile::Float;
use super::{elements, worth_threads};
use crate::dtype::{Accumulator, with_float};
use crate::math::Float as _;
use crate::shape::Layout;
use crate::{Array, DType, Element, Scalar, Slice, SliceMut};

/// The number of multiplications from which on an integer product is split into blocks of rows.
const CUT: usize = 1 << 20;
/// The number of rows of a block is a multiple of this.
const BLOCK: usize = 64;
/// The number of multiplications up to which plain loops are faster than setting up a product.
const TINY: usize = 64;
/// The number of products that are added where the first one lies.
const TERMS: usize = 32;

/// `alpha a b + beta c`; see [`crate::Device::gemm`].
pub(super) fn gemm(alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
    match a.dtype().computed() {
        Accumulator::F32 => multiply::<f32>(alpha as f32, a, b, beta as f32, c),
        Accumulator::F64 => multiply::<f64>(alpha, a, b, beta, c),
        Accumulator::I64 => multiply::<i64>(alpha as i64, a, b, beta as i64, c),
        Accumulator::Bool | Accumulator::C64 | Accumulator::C128 => {
            unreachable!("the caller checked the dtype")
        }
    }
}

/// An element of a matrix.
pub(crate) trait Number: Element {
    const ZERO: Self;
    const ONE: Self;
    /// `self + a * b`
    fn plus_product(self, a: Self, b: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Computes `out = alpha a b + beta out`, where `out` is not read if `beta` is 0.
    fn product(product: MatrixProduct<'_, Self>, parallel: bool);
    /// Computes products of the same sizes and steps.
    fn products<'a>(products: impl Iterator<Item = MatrixProduct<'a, Self>>);
}

impl Number for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn plus_product(self, a: f32, b: f32) -> f32 {
        self + a * b
    }
    #[inline(always)]
    fn times(self, other: f32) -> f32 {
        self * other
    }
    fn product(product: MatrixProduct<'_, f32>, parallel: bool) {
        product.of_floats(parallel);
    }
    fn products<'a>(products: impl Iterator<Item = MatrixProduct<'a, f32>>) {
        product::products(products.inspect(MatrixProduct::expect_inside));
    }
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn plus_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
    #[inline(always)]
    fn times(self, other: f64) -> f64 {
        self * other
    }
    fn product(product: MatrixProduct<'_, f64>, parallel: bool) {
        product.of_floats(parallel);
    }
    fn products<'a>(products: impl Iterator<Item = MatrixProduct<'a, f64>>) {
        product::products(products.inspect(MatrixProduct::expect_inside));
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    #[inline(always)]
    fn plus_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    fn product(product: MatrixProduct<'_, i64>, _: bool) {
        Arch::new().dispatch(ByRows(product));
    }
    fn products<'a>(products: impl Iterator<Item = MatrixProduct<'a, i64>>) {
        products.for_each(|product| product.cut(false));
    }
}

/// The window of a matrix: element `[i, j]` is `memory[i * row + j * column]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) memory: &'a [T],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A row-major matrix.
    pub(crate) fn of_rows(memory: &'a [T], width: usize) -> Self {
        Self {
            memory,
            row: width,
            column: 1,
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            row: self.column,
            column: self.row,
            ..self
        }
    }

    pub(crate) fn rows_from(self, first: usize) -> Self {
        let start = (first * self.row).min(self.memory.len());
        Self {
            memory: &self.memory[start..],
            ..self
        }
    }

    pub(crate) fn at(self, row: usize, column: usize) -> T
    where
        T: Copy,
    {
        self.memory[row * self.row + column * self.column]
    }

    /// Whether all elements of `rows` and `columns` are in the memory.
    fn holds(self, rows: usize, columns: usize) -> bool {
        rows == 0
            || columns == 0
            || (rows - 1) * self.row + (columns - 1) * self.column < self.memory.len()
    }
}

/// The product `out = alpha a b + beta addend`, with the rows of `out` `step >= n` apart. Without an
/// addend, it is the content of `out`.
pub(crate) struct MatrixProduct<'a, T> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) alpha: T,
    pub(crate) a: Matrix<'a, T>,
    pub(crate) b: Matrix<'a, T>,
    pub(crate) beta: T,
    pub(crate) addend: Option<Matrix<'a, T>>,
    pub(crate) out: &'a mut [T],
    pub(crate) step: usize,
}

impl<T: Number> MatrixProduct<'_, T> {
    /// Computes a product, split into blocks of rows if that does not happen later on: for integers.
    fn cut(self, parallel: bool) {
        let Self { m, n, k, a, .. } = self;
        if T::DTYPE != DType::I64 || m * n * k < CUT {
            return T::product(self, parallel);
        }
        let rows = (PARALLEL / (n * k)).next_multiple_of(BLOCK).max(BLOCK);
        for_each(chunks(self.out, rows * n), parallel, 1, &|i, out| {
            let block = MatrixProduct {
                m: out.len() / n,
                a: a.rows_from(i * rows),
                addend: self.addend.map(|addend| addend.rows_from(i * rows)),
                out,
                step: n,
                ..self
            };
            T::product(block, false);
        });
    }

    /// Whether all elements of the result are in `out` and none of them overlap.
    fn holds_out(&self) -> bool {
        let Self { m, n, step, .. } = *self;
        m == 0 || n == 0 || step >= n && (m - 1) * step + n <= self.out.len()
    }
}

impl<T: Float> MatrixProduct<'_, T> {
    fn of_floats(self, parallel: bool) {
        self.expect_inside();
        match self.is_tiny() {
            true => Arch::new().dispatch(ByRows(self)),
            false => product(self, parallel),
        }
    }

    /// Checks that the matrices are in their memory.
    #[inline]
    fn expect_inside(&self) {
        let Self { m, n, k, a, b, .. } = *self;
        let holds_addend = self.addend.is_none_or(|addend| addend.holds(m, n));
        assert!(self.holds_out() && a.holds(m, k) && b.holds(k, n) && holds_addend);
    }

    /// Whether plain loops compute it.
    #[inline]
    pub(super) const fn is_tiny(&self) -> bool {
        self.m * self.n * self.k <= TINY
    }
}

/// A product by plain loops.
struct ByRows<'a, T>(MatrixProduct<'a, T>);

impl<T: Number> NullaryFnOnce for ByRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.0.by_rows();
    }
}

impl<T: Number> MatrixProduct<'_, T> {
    /// Computes a product by plain loops, one row of the result at a time.
    #[inline(always)]
    pub(super) fn by_rows(self) {
        let MatrixProduct {
            m,
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            out,
            step,
        } = self;
        if n == 0 {
            return;
        }
        for (i, row) in out.chunks_mut(step).take(m).enumerate() {
            let row = &mut row[..n];
            if let Some(addend) = addend.filter(|_| beta != T::ZERO) {
                for (j, y) in row.iter_mut().enumerate() {
                    *y = addend.at(i, j);
                }
            }
            if beta == T::ZERO {
                row.fill(T::ZERO);
            } else if beta != T::ONE {
                row.iter_mut().for_each(|y| *y = y.times(beta));
            }
            for l in 0..k {
                let factor = alpha.times(a.memory[i * a.row + l * a.column]);
                let others = &b.memory[l * b.row..];
                if b.column == 1 {
                    for (y, &x) in row.iter_mut().zip(others) {
                        *y = y.plus_product(factor, x);
                    }
                } else {
                    for (j, y) in row.iter_mut().enumerate() {
                        *y = y.plus_product(factor, others[j * b.column]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// The number of products of arrays that this thread has computed.
    pub(super) static PRODUCTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn multiply<T: Number>(alpha: T, a: &Array, b: &Array, beta: T, mut c: Array) -> Array {
    #[cfg(test)]
    PRODUCTS.set(PRODUCTS.get() + 1);
    let rank = a.rank();
    let (m, k, n) = (
        a.shape()[rank - 2],
        a.shape()[rank - 1],
        b.shape()[rank - 1],
    );
    let shape = a.shape().replaced(rank - 1, n);
    let (a, b) = (usable(a), usable(b));
    let (inline_a, inline_b) = (a.inline(), b.inline());
    let work = Batch {
        sizes: [m, n, k],
        alpha,
        a: Operand::<T>::new(&a, &inline_a),
        b: Operand::<T>::new(&b, &inline_b),
        beta,
        addend: None,
    };
    if beta == T::ZERO {
        return Array::filled_by(shape, |out| work.joined(&a, None).run(out));
    }
    if *c.shape() != shape {
        // What is repeated, such as a bias, is read where it lies.
        let c = c.broadcast_to(&shape);
        let inline_c = c.inline();
        let c = usable(&c);
        let work = Batch {
            addend: Some(Operand::<T>::new(&c, &inline_c)),
            ..work
        };
        return Array::filled_by(shape, |out| work.joined(&a, Some(&c)).run(out));
    }
    work.joined(&a, None).run(c.as_mut_slice());
    c
}

/// The array, or a copy if its matrices have negative steps.
pub(super) fn usable(x: &Array) -> Cow<'_, Array> {
    match x.strides()[x.rank() - 2..].iter().any(|&step| step < 0) {
        true => Cow::Owned(x.to_row_major()),
        false => Cow::Borrowed(x),
    }
}

/// The least number of rows for which a right factor is copied once so that blocks of rows read it
/// in order. For fewer, each block copies its own rows instead.
const MANY_ROWS: usize = 256;
/// The number of rows that fill tiles, and of those that fill vectors.
const TILES: usize = 48;
const VECTORS: usize = 16;

/// Whether each row of a product is computed in the same way in a product of fewer rows.
pub(crate) fn goes_by_rows([m, n, k]: [usize; 3], dtype: DType) -> bool {
    let is_float = matches!(dtype, DType::F32 | DType::F64);
    is_float && m > 1 && n > 1 && m * n * k > TINY
}

/// The number of rows that are computed at a time where about `block` stay in the cache.
pub(super) fn block_of_rows(block: usize, rows: usize) -> usize {
    match block.min(rows.div_ceil(4)) {
        few if few < TILES => few.next_multiple_of(VECTORS),
        many => many / TILES * TILES,
    }
}

/// The right factor of a product by rows as it is read, if it is read from a copy.
pub(super) fn factor_of_rows(b: &Array, rows: usize) -> Option<Array> {
    let is_in_order = b.inline().is_some() || b.strides()[1] == 1 && b.strides()[0] >= 0;
    let is_turned = b.strides().iter().all(|&step| step >= 0) && rows < MANY_ROWS;
    (!is_in_order && !is_turned).then(|| b.to_row_major())
}

/// Computes some rows of a product for which [`goes_by_rows`] holds.
pub(super) fn rows(
    factors: [f64; 2],
    a: Slice<'_>,
    b: &Array,
    c: &Array,
    rows: usize,
    out: SliceMut<'_>,
) {
    with_float!(a.dtype(), T => {
        let a = T::from_slice(a).expect("it has the dtype that was asked");
        let out = T::from_slice_mut(out).expect("all have the same dtype");
        let [alpha, beta] = factors.map(T::from_f64);
        let n = out.len() / rows;
        let c = (factors[1] != 0.0).then(|| c.broadcast_to([rows, n]));
        let c = c.as_ref().map(usable);
        let (inline_b, inline_c) = (b.inline(), c.as_ref().and_then(|c| c.inline()));
        some_rows(MatrixProduct {
            m: rows,
            n,
            k: a.len() / rows,
            alpha,
            a: Matrix::of_rows(a, a.len() / rows),
            b: Operand::new(b, &inline_b).matrix(0),
            beta,
            addend: c.as_ref().map(|c| Operand::new(c, &inline_c).matrix(0)),
            out,
            step: n,
        });
    });
}

/// The sum, over the first axis, of products of batches of matrices, which all have four axes.
pub(super) fn sum_of_products<T: Float>(a: &Array, b: &Array) -> Array {
    #[cfg(test)]
    PRODUCTS.set(PRODUCTS.get() + 1);
    let ([terms, batch, m, k], n) = (a.shape()[..].try_into().expect("four axes"), b.shape()[3]);
    let (a, b) = (usable(a), usable(b));
    let (inline_a, inline_b) = (a.inline(), b.inline());
    let (a, b) = (
        Operand::<T>::new(&a, &inline_a),
        Operand::<T>::new(&b, &inline_b),
    );
    let is_shared = worth_threads(terms * batch * m * n * k / 100);
    let threads = match is_shared {
        true => rayon::current_num_threads(),
        false => 1,
    };
    // The errors of few additions do not add up to much; the rest is added by a sum.
    let sums = terms.div_ceil(TERMS);
    // A thread adds the same rows of all terms, so that the order of sums does not depend on their number. A
    // single row would be a product with a vector.
    let rows = match (m.div_ceil(threads.div_ceil(sums * batch))).next_multiple_of(HIGH) {
        rows if m % rows == 1 => rows + 1,
        rows => rows,
    };
    let blocks = m.div_ceil(rows);
    let of_each = Array::filled_by([sums, batch, m, n].into(), |out| {
        let mut parts: Vec<_> = out
            .chunks_mut(m * n)
            .flat_map(|out| out.chunks_mut(rows * n))
            .collect();
        for_each(chunks(&mut parts, 1), is_shared, 1, &|i, part| {
            let (matrix, first) = (i / blocks, i % blocks * rows);
            let start = matrix / batch * TERMS;
            for term in start..terms.min(start + TERMS) {
                let place = term * batch + matrix % batch;
                let product = MatrixProduct {
                    m: part[0].len() / n,
                    n,
                    k,
                    alpha: T::ONE,
                    a: a.matrix(place).rows_from(first),
                    b: b.matrix(place),
                    beta: if term == start { T::ZERO } else { T::ONE },
                    addend: None,
                    out: &mut *part[0],
                    step: n,
                };
                product.of_floats(false);
            }
        });
    });
    match sums {
        1 => of_each.reshape([batch, m, n]),
        _ => of_each.sum(0),
    }
}

/// Matrices in one memory.
pub(super) struct Operand<'a, T> {
    memory: &'a [T],
    /// The start of each matrix.
    starts: SmallVec<[usize; 4]>,
    row: usize,
    column: usize,
}

impl<'a, T: Element> Operand<'a, T> {
    pub(super) fn new(x: &'a Array, inline: &'a Option<Scalar>) -> Self {
        let [row, column] = [x.rank() - 2, x.rank() - 1];
        let mut starts = SmallVec::new();
        if row == 0 {
            starts.push(x.layout().offset);
        } else if x.size() > 0 {
            let steps = Steps::new(&leading(x.layout(), row));
            steps.for_each_run(0, steps.len(), |_, start, step, len| {
                starts.extend((0..len as isize).map(|i| start.wrapping_add_signed(i * step)));
            });
        }
        Self {
            memory: elements(x, inline),
            starts,
            row: x.strides()[row].unsigned_abs(),
            column: x.strides()[column].unsigned_abs(),
        }
    }

    pub(super) fn matrix(&self, i: usize) -> Matrix<'a, T> {
        Matrix {
            memory: self
                .starts
                .get(i)
                .map_or(&[], |&start| &self.memory[start..]),
            row: self.row,
            column: self.column,
        }
    }
}

/// The first `axes` axes.
fn leading(layout: &Layout, axes: usize) -> Layout {
    Layout {
        shape: layout.shape.iter().copied().take(axes).collect(),
        strides: layout.strides.iter().copied().take(axes).collect(),
        offset: layout.offset,
    }
}

/// Products of the same sizes, one after another in the result.
struct Batch<'a, T> {
    sizes: [usize; 3],
    alpha: T,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    beta: T,
    /// What is added instead of the content of the result.
    addend: Option<Operand<'a, T>>,
}

impl<T: Number> Batch<'_, T> {
    /// One product instead of many, if the rows of all `a`, and those of the addend, are evenly spaced
    /// and `b` is the same for all of them.
    fn joined(mut self, a: &Array, addend: Option<&Array>) -> Self {
        let [first, rest @ ..] = &self.b.starts[..] else {
            return self;
        };
        if rest.is_empty() || rest.iter().any(|start| start != first) {
            return self;
        }
        let rows = |x: &Array| {
            let step = Steps::new(&leading(x.layout(), x.rank() - 1)).even_step();
            step.and_then(|step| usize::try_from(step).ok())
        };
        let added = addend.map_or(Some(0), rows);
        if let (Some(step), Some(added)) = (rows(a), added) {
            self.sizes[0] *= self.a.starts.len();
            self.a.starts.truncate(1);
            self.a.row = step;
            if let Some(addend) = &mut self.addend {
                addend.starts.truncate(1);
                addend.row = added;
            }
        }
        self
    }

    fn run(&self, out: &mut [T]) {
        let [m, n, k] = self.sizes;
        if out.is_empty() {
            return;
        }
        // Vector instructions do about a hundred multiplications in a nanosecond.
        let is_shared = worth_threads(out.len() * k / 100);
        let count = out.len() / (m * n);
        if is_shared && count < rayon::current_num_threads() {
            return (self.products(0, out)).for_each(|product| product.cut(true));
        }
        for_each_run(chunks(out, m * n), is_shared, 1, &|first, run| {
            T::products(self.products(first, run.one()));
        });
    }

    /// The products from a number on, as many as there is room for.
    fn products<'s>(
        &'s self,
        first: usize,
        out: &'s mut [T],
    ) -> impl Iterator<Item = MatrixProduct<'s, T>> {
        let [m, n, k] = self.sizes;
        out.chunks_mut(m * n)
            .enumerate()
            .map(move |(i, out)| MatrixProduct {
                m,
                n,
                k,
                alpha: self.alpha,
                a: self.a.matrix(first + i),
                b: self.b.matrix(first + i),
                beta: self.beta,
                addend: self.addend.as_ref().map(|addend| addend.matrix(first + i)),
                out,
                step: n,
            })
    }
}
