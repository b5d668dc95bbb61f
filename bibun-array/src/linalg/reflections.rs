//! Orthogonal factors of large matrices, by the products of blocks.
//!
//! Reflections of neighbouring columns together are `I - V T Vᵀ`, where the columns of V are their axes and T is an
//! upper triangle. Columns are halved until loops do the rest, and reflections of one half are applied to the other,
//! and to all further columns, by products of matrices, which threads share. The sizes alone decide how columns are
//! halved, and products have the same bits for any number of threads.
//!
//! Source: R. Schreiber and C. Van Loan, "A storage-efficient WY representation for products of Householder
//! transformations" (1989); E. Elmroth and F. Gustavson, "Applying recursion to serial and parallel QR factorization
//! leads to better performance" (2000).

use std::array;

use pulp::{Arch, NullaryFnOnce};

use super::batch::Large;
use super::blocked::{Triangular, multiply, subtract_product};
use super::numbers::Numbers;
use super::tiles::{row_step, transpose};
use super::triangular::Triangle;
use crate::cpu::matmul::Matrix;
use crate::storage::Buffer;

/// The number of columns that are reflected before all further ones, and of those that loops reflect.
const PANEL: usize = 32;
const COLUMNS: usize = 8;
/// The number of reflections in rows that vectors go through at once, and from which order on it is the second one.
const AXES: [usize; 2] = [32, 64];
const WIDE: usize = 512;
/// The number of sums that are computed side by side.
const LANES: usize = 32;

/// Reflections of neighbouring columns.
struct Panel<T> {
    /// The number of the first column, and of the first row that is reflected.
    first: usize,
    width: usize,
    height: usize,
    /// The axes, each in a row: zeros, then a one.
    v: Vec<T>,
    t: Vec<T>,
}

/// Computes `a = q r` of a matrix `[m, n]`, with k columns of q and rows of r, which is zeros at first. Its diagonal is
/// not negative.
pub(super) fn qr<T: Large>(a: &[T], [m, n]: [usize; 2], k: usize, q: &mut [T], r: &mut [T]) {
    // The columns are neighbours in memory.
    let step = row_step(m);
    let mut columns = Buffer::new::<T>(n * step);
    let columns = columns.as_mut_slice::<T>();
    transpose((a, n), [m, n], (columns, step));
    let size = m.min(n);
    let mut panels = Vec::new();
    for first in (0..size).step_by(PANEL) {
        let width = PANEL.min(size - first);
        let (own, others) = columns.split_at_mut((first + width) * step);
        let panel = Panel::of(&mut own[first * step..], step, first, m - first);
        if !others.is_empty() {
            let count = others.len() / step;
            panel.axes().reflect_rows(&mut others[first..], count, step);
        }
        panels.push(panel);
    }
    let zero = T::of(0.0);
    let is_turned = |i: usize| i < size && columns[i * step + i] < zero;
    // The columns of q: those of one with the signs of the diagonal of r, reflected.
    let mut turned = Buffer::new::<T>(k * step);
    let turned = turned.as_mut_slice::<T>();
    turned.fill(zero);
    for i in 0..k {
        turned[i * step + i] = T::of(if is_turned(i) { -1.0 } else { 1.0 });
    }
    for panel in panels.iter().rev() {
        // What is left of the panel's first column, and above its first row, is not changed by it.
        let own = &mut turned[panel.first * (step + 1)..];
        let axes = panel.axes().reversed();
        axes.reflect_rows(own, k - panel.first, step);
    }
    transpose((turned, step), [k, m], (q, k));
    for first in (0..size).step_by(PANEL) {
        let count = PANEL.min(size - first);
        let right = (&columns[first * step + first..], step);
        let own = &mut r[first * n + first..];
        transpose(right, [n - first, count], (own, n));
        for (i, row) in own.chunks_mut(n).take(count).enumerate() {
            row[..i].fill(zero);
            if is_turned(first + i) {
                row[i..n - first].iter_mut().for_each(|x| *x = -*x);
            }
        }
    }
}

impl<T: Large> Panel<T> {
    /// Reflects columns, which are `step` apart, such that nothing is left below the diagonal, which begins at the element
    /// `first` of the first one. (What is below is not written.)
    fn of(columns: &mut [T], step: usize, first: usize, height: usize) -> Self {
        let width = columns.len() / step;
        let mut own = Vec::with_capacity(width * height);
        for column in columns.chunks_exact(step) {
            own.extend_from_slice(&column[first..][..height]);
        }
        let mut panel = Self {
            first,
            width,
            height,
            v: vec![T::of(0.0); width * height],
            t: vec![T::of(0.0); width * width],
        };
        panel.make(&mut own, 0, width);
        for (i, (column, own)) in (columns.chunks_exact_mut(step))
            .zip(own.chunks_exact(height))
            .enumerate()
        {
            column[first..=first + i].copy_from_slice(&own[..=i]);
        }
        panel
    }

    /// Makes the reflections of the columns `from..end`, which are reflected.
    fn make(&mut self, columns: &mut [T], from: usize, end: usize) {
        let (width, height) = (self.width, self.height);
        let count = end - from;
        if count <= COLUMNS {
            return Arch::new().dispatch(Make {
                columns: &mut columns[from * height..end * height],
                v: &mut self.v[from * height..end * height],
                t: &mut self.t[from * width + from..],
                sizes: [width, height, from],
            });
        }
        let half = from + (count / 2).next_multiple_of(COLUMNS);
        self.make(columns, from, half);
        let left = Axes {
            v: &self.v[from * height..half * height],
            height,
            top: from,
            t: Matrix::of_rows(&self.t[from * width + from..], width),
            count: half - from,
        };
        let right = &mut columns[half * height..end * height];
        left.reflect_rows(&mut right[from..], end - half, height);
        self.make(columns, half, end);
        // Of the two triangles T and U, what lies beside both is `-T Vᵀ W U`.
        let (left, right) = (half - from, end - half);
        let [v, w] = [from, half].map(|i| Matrix::of_rows(&self.v[i * height + half..], height));
        let mut beside = vec![T::of(0.0); left * right];
        let below = height - half;
        multiply(&mut beside, right, [left, right, below], v, w.transposed());
        let (upper, lower) = self.t.split_at_mut(half * width);
        let mut product = vec![T::of(0.0); left * right];
        let triangle = Matrix::of_rows(&lower[half..], width);
        let rows = Matrix::of_rows(&beside, right);
        multiply(&mut product, right, [left, right, right], rows, triangle);
        let own = &mut upper[from * width..];
        let triangle: Vec<T> = (own.chunks(width).take(left))
            .flat_map(|row| row[from..half].iter().map(|&x| -x))
            .collect();
        let [triangle, rows] = [(&triangle, left), (&product, right)]
            .map(|(memory, width)| Matrix::of_rows(memory, width));
        multiply(&mut own[half..], width, [left, right, left], triangle, rows);
    }

    fn axes(&self) -> Axes<'_, T> {
        Axes {
            v: &self.v,
            height: self.height,
            top: 0,
            t: Matrix::of_rows(&self.t, self.width),
            count: self.width,
        }
    }
}

/// Reflections whose axes are in rows: that of row k has k elements, of which the last is one, then zeros.
#[derive(Clone, Copy)]
pub(super) struct Reflections<'a, T> {
    pub(super) axes: &'a [T],
    pub(super) step: usize,
    /// Those of rows; zero if one reflects nothing.
    pub(super) factors: &'a [T],
}

impl<T: Large> Reflections<'_, T> {
    /// Reflects vectors, which are in rows that are a `distance` apart, by those of the first rows first.
    ///
    /// Reflections of neighbouring rows together are `I - V T Vᵀ`, where T is the inverse of a triangle of the products
    /// of their axes, with the inverses of their factors on its diagonal (C. Puglisi, "Modification of the Householder
    /// method based on the compact WY representation", 1992).
    pub(super) fn turn(self, rows: &mut [T], distance: usize) {
        let Self {
            axes,
            step,
            factors,
        } = self;
        let (zero, end, n) = (T::of(0.0), factors.len(), rows.len() / distance);
        let most = if end < WIDE { AXES[0] } else { AXES[1] };
        let [mut products, mut t] = array::from_fn(|_| vec![zero; most * most]);
        let [mut along, mut turned] = array::from_fn(|_| vec![zero; most * n]);
        for first in (1..end).step_by(most) {
            let count = most.min(end - first);
            let height = first + count - 1;
            let v = Matrix::of_rows(&axes[first * step..], step);
            let sizes = [count, count, height];
            multiply(&mut products, count, sizes, v, v.transposed());
            t.fill(zero);
            for (i, &factor) in factors[first..][..count].iter().enumerate() {
                products[i * count + i] = T::of(1.0) / factor;
                t[i * count + i] = T::of(1.0);
            }
            let triangle = Triangular {
                n: count,
                matrix: Matrix::of_rows(&products, count),
                triangle: Triangle::Upper,
                has_ones: false,
            };
            triangle.solve(&mut t, count, count);
            let sizes = [n, count, height];
            let x = Matrix::of_rows(rows, distance);
            multiply(&mut along, count, sizes, x, v.transposed());
            let [along, t] = [&along, &t].map(|x| Matrix::of_rows(x, count));
            multiply(&mut turned, count, [n, count, count], along, t);
            let turned = Matrix::of_rows(&turned, count);
            subtract_product(rows, distance, [n, height, count], turned, v);
        }
    }
}

/// The reflection that leaves nothing of a vector but its last element, and its axis. Returns the factor.
pub(super) struct Reflect<'a, T>(pub(super) &'a mut [T], pub(super) &'a mut [T]);

impl<T: Large> NullaryFnOnce for Reflect<'_, T> {
    type Output = T;
    #[inline(always)]
    fn call(self) -> T {
        let (head, rest) = self.0.split_last_mut().expect("a vector of elements");
        let (one, axis) = self.1.split_last_mut().expect("as many elements");
        *one = T::of(1.0);
        reflection(head, rest, axis)
    }
}

/// Some neighbouring reflections of a panel.
struct Axes<'a, T> {
    v: &'a [T],
    height: usize,
    /// The number of elements of all axes, from the first, that are zero.
    top: usize,
    /// The triangle.
    t: Matrix<'a, T>,
    count: usize,
}

impl<T: Large> Axes<'_, T> {
    /// The reflections in the reverse order.
    fn reversed(self) -> Self {
        let t = self.t.transposed();
        Self { t, ..self }
    }

    /// Reflects, in reverse order, columns that are rows in memory, `step` apart, from their element `top` on:
    /// `c - c V T Vᵀ`.
    fn reflect_rows(&self, rows: &mut [T], columns: usize, step: usize) {
        let Self { count, .. } = *self;
        let height = self.height - self.top;
        let v = Matrix::of_rows(&self.v[self.top..], self.height);
        let mut along = vec![T::of(0.0); columns * count];
        let c = Matrix::of_rows(rows, step);
        let sizes = [columns, count, height];
        multiply(&mut along, count, sizes, c, v.transposed());
        let mut turned = vec![T::of(0.0); columns * count];
        let along = Matrix::of_rows(&along, count);
        multiply(&mut turned, count, [columns, count, count], along, self.t);
        let turned = Matrix::of_rows(&turned, count);
        subtract_product(rows, step, [columns, height, count], turned, v);
    }
}

/// Makes reflections one after the other.
struct Make<'a, T> {
    columns: &'a mut [T],
    v: &'a mut [T],
    /// The triangle from the first element of these reflections on.
    t: &'a mut [T],
    /// The distance of its rows, the length of a column, and the number of the first one.
    sizes: [usize; 3],
}

impl<T: Large> NullaryFnOnce for Make<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            columns,
            v,
            t,
            sizes: [width, height, first],
        } = self;
        let count = columns.len() / height;
        for j in 0..count {
            let top = first + j;
            let (own, others) = columns[j * height..].split_at_mut(height);
            let (before, axis) = v[..(j + 1) * height].split_at_mut(j * height);
            let (head, rest) = own[top..].split_first_mut().expect("the diagonal");
            let factor = reflection(head, rest, &mut axis[top + 1..]);
            axis[top] = T::of(1.0);
            for other in others.chunks_exact_mut(height) {
                subtract_multiple(&mut other[top..], &axis[top..], factor);
            }
            // The column of the triangle: `-factor T Vᵀ v`.
            let mut along = [T::of(0.0); COLUMNS];
            for (along, before) in along.iter_mut().zip(before.chunks_exact(height)) {
                *along = dot(&before[top..], &axis[top..]);
            }
            for i in 0..j {
                let row = &t[i * width..][..j];
                let sum = (row.iter().zip(&along)).fold(T::of(0.0), |sum, (&t, &x)| sum + t * x);
                t[i * width + j] = -factor * sum;
            }
            t[j * width + j] = factor;
        }
    }
}

/// Computes the reflection `I - factor v vᵀ` that leaves nothing of a column but its head, which is written: the factor,
/// and the axis v but for its head, which is one. Of a column that has nothing to be reflected, the factor is zero.
#[inline(always)]
fn reflection<T: Large>(head: &mut T, rest: &[T], axis: &mut [T]) -> T {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let mut unit = one;
    let mut squares = dot(rest, rest);
    let all = squares + *head * *head;
    // Squares that were rounded to zero, or are too large, are computed of a multiple.
    if !(all > T::least() && all < one / T::least()) {
        let larger = |most: T, &x: &T| Numbers::max(most, Numbers::abs(x));
        let largest = rest.iter().fold(Numbers::abs(*head), larger);
        if largest > zero && largest < T::of(f64::INFINITY) {
            unit = Numbers::max(largest.binade(), T::least() * T::epsilon());
        }
        for (axis, &x) in axis.iter_mut().zip(rest) {
            *axis = x / unit;
        }
        squares = dot(axis, axis);
    }
    if squares == zero {
        axis.fill(zero);
        return zero;
    }
    let own = *head / unit;
    let norm = Numbers::sqrt(own * own + squares);
    let turned = -own.sign() * norm;
    let difference = own - turned;
    for (axis, &x) in axis.iter_mut().zip(rest) {
        *axis = x / unit / difference;
    }
    *head = turned * unit;
    -difference / turned
}

/// Computes `y - factor x (x y)`.
#[inline(always)]
fn subtract_multiple<T: Large>(y: &mut [T], x: &[T], factor: T) {
    let factor = factor * dot(x, y);
    for (y, &x) in y.iter_mut().zip(x) {
        *y -= factor * x;
    }
}

#[inline(always)]
pub(super) fn dot<T: Large>(x: &[T], y: &[T]) -> T {
    let y = &y[..x.len()];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sums = [T::of(0.0); LANES];
    for (x, y) in x.iter().zip(y) {
        for i in 0..LANES {
            sums[i] += x[i] * y[i];
        }
    }
    let mut sum = T::of(0.0);
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        sum += x * y;
    }
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for i in 0..count {
            let other = sums[i + count];
            sums[i] += other;
        }
    }
    sum + sums[0]
}
