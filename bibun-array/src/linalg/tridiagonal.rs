//! Symmetric matrices made tridiagonal, by reflections.
//!
//! The last column is reflected first, and what is left is the leading part of the matrix. Of a large one, a panel of
//! columns is reflected before the rest is changed by products of matrices, and of the rest each axis needs only its
//! product. A part that fits the second cache is changed while it is multiplied with the next axis, and so read once.
//! Only the lower triangle is read, with whole tiles on the diagonal. The sizes alone decide which rows a thread
//! multiplies, and their sums are added in order, so that the number of threads changes no bit.
//!
//! Source: J. Dongarra, D. Sorensen and S. Hammarling, "Block reduction of matrices to condensed forms for eigenvalue
//! computations" (1989).

use std::array;

use pulp::{Arch, NullaryFnOnce, Simd, WithSimd};

use super::batch::Large;
use super::blocked::{divide_by_unit, multiply, subtract_product};
use super::passes::{ROWS, pass};
use super::reflections::{Reflect, Reflections, dot};
use super::tiles::{TILE, row_step, symmetric_part};
use super::triangular::Triangle;
use crate::cpu::matmul::Matrix;
use crate::cpu::{chunks, for_each};

/// The number of columns that are reflected before the rest is changed, and the bytes of a triangle that is changed
/// for each column.
const PANEL: usize = 32;
const NEAR: usize = 1 << 19;
/// The number of rows that one product changes.
const STRIP: usize = 128;
/// The number of rows of a thread's share, and the order from which on threads share a product.
const SHARE: usize = 64;
const SHARED: usize = 256;

/// A tridiagonal matrix `Qᵀ A Q / unit`.
pub(super) struct Tridiagonal<T> {
    pub(super) unit: T,
    pub(super) diagonal: Vec<T>,
    /// The elements beside the diagonal: the first one is between the first two.
    pub(super) beside: Vec<T>,
    /// The axis of each reflection in a row: that of row k has k elements, of which the last is one, then zeros. Before,
    /// the matrix.
    axes: Vec<T>,
    step: usize,
    factors: Vec<T>,
}

impl<T: Large> Tridiagonal<T> {
    /// Reduces the symmetric part of a matrix of order n. There is none if its elements are not finite.
    pub(super) fn of(a: &[T], n: usize) -> Option<Self> {
        let zero = T::of(0.0);
        let step = row_step(n);
        let mut axes = vec![zero; n.next_multiple_of(TILE) * step];
        symmetric_part(a, n, Triangle::Lower, (&mut axes, step));
        let unit = divide_by_unit(&mut axes)?;
        let mut own = Self {
            unit,
            diagonal: vec![zero; n],
            beside: vec![zero; n],
            axes,
            step,
            factors: vec![zero; n],
        };
        let mut rest = n;
        while rest > PANEL && rest * rest / 2 * size_of::<T>() > NEAR {
            own.reduce_panel(rest);
            rest -= PANEL;
        }
        own.reduce(rest);
        Some(own)
    }

    /// Reduces the last columns of the leading part of order n.
    fn reduce_panel(&mut self, n: usize) {
        let (zero, step) = (T::of(0.0), self.step);
        // The axes V, the products W, and V again: the part becomes `A - V Wᵀ - W Vᵀ`.
        let mut memory = vec![zero; 3 * PANEL * step];
        let mut own = vec![zero; 2 * PANEL];
        for (count, k) in (n - PANEL..n).rev().enumerate() {
            let (v, others) = memory.split_at_mut(PANEL * step);
            let (v, axis) = v.split_at_mut(count * step);
            let (w, product) = others.split_at_mut(count * step);
            let (axis, product) = (&mut axis[..step], &mut product[..step]);
            let [v, w] = [&*v, &*w].map(|memory| Matrix::of_rows(memory, step));
            let row = &mut self.axes[k * step..];
            for (from, to) in [(v, w), (w, v)] {
                (0..count).for_each(|i| own[i] = from.at(i, k));
                let factors = Matrix::of_rows(&own, count);
                subtract_product(row, step, [1, k + 1, count], factors, to);
            }
            self.reflect(k, axis);
            self.multiply::<false>(k, axis, [&[]; 2], product);
            for (from, to) in [(v, w), (w, v)] {
                let column = Matrix::of_rows(axis, 1);
                multiply(&mut own, 1, [count, 1, k], from, column);
                let factors = Matrix::of_rows(&own, count);
                subtract_product(product, step, [1, k, count], factors, to);
            }
            Arch::new().dispatch(Second(self.factors[k], axis, product));
        }
        memory.copy_within(..PANEL * step, 2 * PANEL * step);
        let rest = n - PANEL;
        for first in (0..rest).step_by(STRIP) {
            let rows = STRIP.min(rest - first);
            let sizes = [rows, (first + rows).next_multiple_of(TILE), 2 * PANEL];
            let left = Matrix::of_rows(&memory[first..], step).transposed();
            let right = Matrix::of_rows(&memory[PANEL * step..], step);
            subtract_product(&mut self.axes[first * step..], step, sizes, left, right);
        }
    }

    /// Reduces the leading part of order n.
    fn reduce(&mut self, n: usize) {
        let step = self.step;
        let [mut axis, mut product, mut v, mut w] = array::from_fn(|_| vec![T::of(0.0); step]);
        for k in (0..n).rev() {
            let row = &mut self.axes[k * step..][..=k];
            Arch::new().dispatch(Change(row, &v[..=k], &w[..=k]));
            (v[k], w[k]) = (T::of(0.0), T::of(0.0));
            self.reflect(k, &mut axis);
            self.multiply::<true>(k, &axis, [&v, &w], &mut product);
            Arch::new().dispatch(Second(self.factors[k], &axis, &mut product));
            (axis, v) = (v, axis);
            (product, w) = (w, product);
        }
    }

    /// Makes the reflection of row k.
    fn reflect(&mut self, k: usize, axis: &mut [T]) {
        let row = &mut self.axes[k * self.step..][..self.step];
        self.diagonal[k] = row[k];
        axis[k..].fill(T::of(0.0));
        if k > 0 {
            self.factors[k] = Arch::new().dispatch(Reflect(&mut row[..k], &mut axis[..k]));
            self.beside[k - 1] = row[k - 1];
        }
        row.copy_from_slice(axis);
    }

    /// Computes the product of the leading part of order k and an axis, after it has become `A - v wᵀ - w vᵀ` if it
    /// `CHANGES`. What follows the axis, v and w is zeros.
    fn multiply<const CHANGES: bool>(
        &mut self,
        k: usize,
        axis: &[T],
        last: [&[T]; 2],
        product: &mut [T],
    ) {
        let (zero, step) = (T::of(0.0), self.step);
        let order = k.next_multiple_of(TILE);
        let rows = &mut self.axes[..order * step];
        product.fill(zero);
        let each = |first: usize, rows: &mut [T], sums: &mut [T]| {
            Arch::new().dispatch(Pass::<T, CHANGES> {
                rows,
                first,
                step,
                axis,
                last,
                sums,
            });
        };
        if k < SHARED {
            each(0, rows, product);
        } else {
            let mut sums = vec![zero; order.div_ceil(SHARE) * step];
            let shares = (chunks(rows, SHARE * step), chunks(&mut sums, step));
            for_each(shares, true, 1, &|i, (rows, sums)| {
                each(i * SHARE, rows, sums);
            });
            for sums in sums.chunks_exact(step) {
                for (product, &sum) in product.iter_mut().zip(sums) {
                    *product += sum;
                }
            }
        }
        product[k..].fill(zero);
    }

    /// Computes `Q x` of n vectors, which are in rows, [`row_step`] apart.
    pub(super) fn turn_back(&self, rows: &mut [T]) {
        let reflections = Reflections {
            axes: &self.axes,
            step: self.step,
            factors: &self.factors,
        };
        reflections.turn(rows, self.step);
    }
}

/// The last row of `A - v wᵀ - w vᵀ`.
struct Change<'a, T>(&'a mut [T], &'a [T], &'a [T]);

impl<T: Large> NullaryFnOnce for Change<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(row, v, w) = self;
        let (of_v, of_w) = (v[v.len() - 1], w[w.len() - 1]);
        for ((x, &v), &w) in row.iter_mut().zip(v).zip(w) {
            *x -= of_v * w + of_w * v;
        }
    }
}

/// Makes w of the product y of an axis v: reflected from both sides, A is `A - v wᵀ - w vᵀ`.
struct Second<'a, T>(T, &'a [T], &'a mut [T]);

impl<T: Large> NullaryFnOnce for Second<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(factor, v, w) = self;
        let half = T::of(0.5) * factor * dot(v, w);
        for (w, &v) in w.iter_mut().zip(v) {
            *w = factor * (*w - half * v);
        }
    }
}

/// Adds the products of some rows, and of what mirrors them, to sums.
struct Pass<'a, T, const CHANGES: bool> {
    rows: &'a mut [T],
    /// The number of the first row.
    first: usize,
    step: usize,
    axis: &'a [T],
    last: [&'a [T]; 2],
    sums: &'a mut [T],
}

impl<T: Large, const CHANGES: bool> WithSimd for Pass<'_, T, CHANGES> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            rows,
            first,
            step,
            axis,
            last,
            sums: out,
        } = self;
        let [v, w] = if CHANGES { last } else { [axis; 2] };
        for (i, rows) in rows.chunks_exact_mut(ROWS * step).enumerate() {
            let top = first + i * ROWS;
            let tile = top / TILE * TILE;
            let own = |x: &[T], sign: f64| -> [T::Vector<S>; ROWS] {
                array::from_fn(|i| T::splat(simd, T::of(sign) * x[top + i]))
            };
            let factors = [own(axis, 1.0), own(v, -1.0), own(w, -1.0)];
            let mut sums = [T::splat(simd, T::of(0.0)); ROWS];
            for (columns, mirrors) in [(0..tile, true), (tile..tile + TILE, false)] {
                let mut each = rows.chunks_exact_mut(step);
                let each: [&mut [T]; ROWS] = array::from_fn(|_| {
                    let row = each.next().expect("so many rows");
                    &mut row[columns.clone()]
                });
                let others = [axis, v, w].map(|x| &x[columns.clone()]);
                let out = &mut out[columns];
                match mirrors {
                    true => pass::<S, T, CHANGES, true, true>(
                        simd, each, others, &factors, &mut sums, out,
                    ),
                    false => pass::<S, T, CHANGES, true, false>(
                        simd, each, others, &factors, &mut sums, out,
                    ),
                }
            }
            for (out, sum) in out[top..].iter_mut().zip(sums) {
                *out += T::sum(simd, sum);
            }
        }
    }
}
