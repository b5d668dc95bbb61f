//! Square matrices made bidiagonal, by reflections from both sides.
//!
//! The last column is reflected first and the last row second, and what is left is the leading part of the matrix. Of a
//! large one, a panel of columns and rows is reflected before the rest is changed by products of matrices, and of the
//! rest each axis needs only its product. A part that fits the second cache is changed while it is multiplied with the
//! next axis. The sizes alone decide which rows a thread multiplies, and their sums are added in order, so that the number
//! of threads changes no bit.
//!
//! Source: J. Dongarra, D. Sorensen and S. Hammarling, "Block reduction of matrices to condensed forms for eigenvalue
//! computations" (1989).

use std::array;

use pulp::{Arch, NullaryFnOnce, Simd, WithSimd};
use smallvec::SmallVec;

use super::batch::Large;
use super::blocked::{divide_by_unit, subtract_product};
use super::passes::{ROWS, pass, products};
use super::reflections::{Reflect, Reflections, dot};
use super::tiles::{TILE, row_step};
use crate::cpu::matmul::Matrix;
use crate::cpu::{chunks, for_each};

/// The number of columns that are reflected before the rest is changed, and the bytes of a part that is changed for each
/// column.
const PANEL: usize = 32;
const NEAR: usize = 1 << 19;
/// The number of rows that one product changes.
const STRIP: usize = 128;
/// The number of rows of a thread's share, and the order from which on threads share a product.
const SHARE: usize = 64;
const SHARED: usize = 256;

/// A lower bidiagonal matrix `B = Qᵀ A P / unit`.
pub(super) struct Bidiagonal<T> {
    pub(super) unit: T,
    pub(super) diagonal: Vec<T>,
    /// The elements below the diagonal: the first one is in the second row. The last one is zero.
    pub(super) beside: Vec<T>,
    step: usize,
    /// The axes of the reflections of rows, and before, the matrix; those of columns.
    rows: Vec<T>,
    columns: Vec<T>,
    of_rows: Vec<T>,
    of_columns: Vec<T>,
}

/// What is to be subtracted from the matrix: products `l rᵀ` of vectors in rows, `step` apart.
struct Changes<T> {
    step: usize,
    count: usize,
    left: Vec<T>,
    right: Vec<T>,
}

/// An element, or a product, for each change.
type Each<T> = SmallVec<[T; 2 * PANEL]>;

/// The two lists of a change.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl<T: Large> Changes<T> {
    fn new(most: usize, step: usize) -> Self {
        let [left, right] = array::from_fn(|_| vec![T::of(0.0); most * step]);
        Self {
            step,
            count: 0,
            left,
            right,
        }
    }

    /// The vectors of a side, and those of the other.
    fn of(&self, side: Side) -> [&[T]; 2] {
        let both = [&self.left, &self.right].map(|x| &x[..self.count * self.step]);
        match side {
            Side::Left => both,
            Side::Right => [both[1], both[0]],
        }
    }

    /// Subtracts what belongs to a row or column k from it: of a column, of the left vectors.
    fn subtract(&self, side: Side, k: usize, out: &mut [T]) {
        let [own, others] = self.of(side);
        let factors: Each<T> = others.iter().skip(k).step_by(self.step).copied().collect();
        Arch::new().dispatch(Subtract(out, &factors, own, self.step));
    }

    /// Subtracts what belongs to the product with a vector.
    fn subtract_product(&self, side: Side, x: &[T], out: &mut [T]) {
        let [own, others] = self.of(side);
        let factors: Each<T> = others
            .chunks_exact(self.step)
            .map(|other| Arch::new().dispatch(Dot(other, x)))
            .collect();
        Arch::new().dispatch(Subtract(out, &factors, own, self.step));
    }

    fn push(&mut self, left: &[T], right: &[T]) {
        let at = self.count * self.step;
        self.left[at..][..self.step].copy_from_slice(left);
        self.right[at..][..self.step].copy_from_slice(right);
        self.count += 1;
    }
}

impl<T: Large> Bidiagonal<T> {
    /// Reduces a matrix of order n. There is none if its elements are not finite.
    pub(super) fn of(a: &[T], n: usize) -> Option<Self> {
        let zero = T::of(0.0);
        let step = row_step(n + 1);
        let mut rows = vec![zero; n.next_multiple_of(TILE) * step];
        for (to, from) in rows.chunks_exact_mut(step).zip(a.chunks_exact(n)) {
            to[..n].copy_from_slice(from);
        }
        let unit = divide_by_unit(&mut rows)?;
        let mut own = Self {
            unit,
            diagonal: vec![zero; n],
            beside: vec![zero; n],
            step,
            rows,
            columns: vec![zero; (n + 1) * step],
            of_rows: vec![zero; n],
            of_columns: vec![zero; n + 1],
        };
        let mut rest = n;
        while rest > PANEL && rest * rest * size_of::<T>() > NEAR {
            let changes = own.reduce::<false>(rest, PANEL);
            rest -= PANEL;
            own.change(rest, &changes);
        }
        own.reduce::<true>(rest, rest);
        Some(own)
    }

    /// Computes `Q x` of vectors in rows that are a `distance` apart.
    pub(super) fn turn_left(&self, rows: &mut [T], distance: usize) {
        let reflections = Reflections {
            axes: &self.columns,
            step: self.step,
            factors: &self.of_columns,
        };
        reflections.turn(rows, distance);
    }

    /// Computes `P x` of vectors in rows that are a `distance` apart.
    pub(super) fn turn_right(&self, rows: &mut [T], distance: usize) {
        let reflections = Reflections {
            axes: &self.rows,
            step: self.step,
            factors: &self.of_rows,
        };
        reflections.turn(rows, distance);
    }

    /// Reduces the last `count` columns and rows of the leading part of order n. What this changes in the rest is returned,
    /// or, if the part is `NEAR`, written on the way.
    fn reduce<const NEAR: bool>(&mut self, n: usize, count: usize) -> Changes<T> {
        let (zero, step) = (T::of(0.0), self.step);
        let mut changes = Changes::new(2 * if NEAR { 1 } else { count }, step);
        let [mut u, mut w, mut x, mut v] = array::from_fn(|_| vec![zero; step]);
        for k in (n - count..n).rev() {
            (0..=k).for_each(|i| u[i] = self.rows[i * step + k]);
            changes.subtract(Side::Left, k, &mut u[..=k]);
            let own = &mut self.columns[(k + 1) * step..][..step];
            let factor = Arch::new().dispatch(Reflect(&mut u[..=k], &mut own[..=k]));
            self.diagonal[k] = u[k];
            self.of_columns[k + 1] = factor;
            u.copy_from_slice(own);
            self.multiply_left::<NEAR>(k, &u, &changes, &mut w);
            match NEAR {
                true => changes.count = 0,
                false => changes.subtract_product(Side::Right, &u, &mut w[..k]),
            }
            w[..k].iter_mut().for_each(|w| *w = *w * factor);
            w[k..].fill(zero);
            changes.push(&u, &w);

            let row = &mut self.rows[k * step..][..step];
            changes.subtract(Side::Right, k, &mut row[..k]);
            v.fill(zero);
            let mut factor = zero;
            if k > 0 {
                factor = Arch::new().dispatch(Reflect(&mut row[..k], &mut v[..k]));
                self.beside[k - 1] = row[k - 1];
                self.of_rows[k] = factor;
            }
            row.copy_from_slice(&v);
            // The row is done.
            changes.left[(changes.count - 1) * step + k] = zero;
            self.multiply_right(k, &v, &mut x);
            changes.subtract_product(Side::Left, &v, &mut x[..k]);
            x[..k].iter_mut().for_each(|x| *x = *x * factor);
            x[k..].fill(zero);
            changes.push(&x, &v);
        }
        changes
    }

    /// Changes the leading part of order n.
    fn change(&mut self, n: usize, changes: &Changes<T>) {
        let step = self.step;
        for first in (0..n).step_by(STRIP) {
            let sizes = [STRIP.min(n - first), n, changes.count];
            let left = Matrix::of_rows(&changes.left[first..], step).transposed();
            let right = Matrix::of_rows(&changes.right, step);
            subtract_product(&mut self.rows[first * step..], step, sizes, left, right);
        }
    }

    /// Computes `Aᵀ u` of the leading columns of a part of order k + 1, after it is changed if it `CHANGES`.
    fn multiply_left<const CHANGES: bool>(
        &mut self,
        k: usize,
        u: &[T],
        changes: &Changes<T>,
        w: &mut [T],
    ) {
        let (zero, step) = (T::of(0.0), self.step);
        let order = (k + 1).next_multiple_of(TILE);
        let rows = &mut self.rows[..order * step];
        w.fill(zero);
        let each = |first: usize, rows: &mut [T], sums: &mut [T]| {
            Arch::new().dispatch(Left::<T, CHANGES> {
                rows,
                first,
                step,
                width: order,
                u,
                changes,
                sums,
            });
        };
        if k < SHARED {
            return each(0, rows, w);
        }
        let mut sums = vec![zero; order.div_ceil(SHARE) * step];
        let shares = (chunks(rows, SHARE * step), chunks(&mut sums, step));
        for_each(shares, true, 1, &|i, (rows, sums)| {
            each(i * SHARE, rows, sums);
        });
        for sums in sums.chunks_exact(step) {
            for (w, &sum) in w.iter_mut().zip(sums) {
                *w += sum;
            }
        }
    }

    /// Computes `A v` of the leading part of order k.
    fn multiply_right(&mut self, k: usize, v: &[T], x: &mut [T]) {
        let step = self.step;
        let order = k.next_multiple_of(TILE);
        let shares = (
            chunks(&mut self.rows[..order * step], SHARE * step),
            chunks(&mut x[..order], SHARE),
        );
        for_each(shares, k >= SHARED, 1, &|_, (rows, x)| {
            let width = order;
            Arch::new().dispatch(Right {
                rows,
                step,
                width,
                v,
                x,
            });
        });
    }
}

/// Subtracts multiples of vectors in rows.
struct Subtract<'a, T>(&'a mut [T], &'a [T], &'a [T], usize);

impl<T: Large> NullaryFnOnce for Subtract<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(out, factors, vectors, step) = self;
        for (&factor, vector) in factors.iter().zip(vectors.chunks_exact(step)) {
            for (out, &x) in out.iter_mut().zip(vector) {
                *out -= factor * x;
            }
        }
    }
}

struct Dot<'a, T>(&'a [T], &'a [T]);

impl<T: Large> NullaryFnOnce for Dot<'_, T> {
    type Output = T;
    #[inline(always)]
    fn call(self) -> T {
        dot(self.0, self.1)
    }
}

/// Adds the product of the transpose of some rows and a vector to sums.
struct Left<'a, T, const CHANGES: bool> {
    rows: &'a mut [T],
    /// The number of the first row.
    first: usize,
    step: usize,
    width: usize,
    u: &'a [T],
    changes: &'a Changes<T>,
    sums: &'a mut [T],
}

impl<T: Large, const CHANGES: bool> WithSimd for Left<'_, T, CHANGES> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            rows,
            first,
            step,
            width,
            u,
            changes,
            sums: out,
        } = self;
        let changed = CHANGES && changes.count > 0;
        let [left, right] = changes.of(Side::Left);
        // The left vectors, and the right ones in the order in which a pass takes them.
        let [[u_before, x], [w, v]] = match changed {
            true => [left, right].map(|x| [&x[..step], &x[step..]]),
            false => [[u; 2]; 2],
        };
        let out = &mut out[..width];
        for (i, rows) in rows.chunks_exact_mut(ROWS * step).enumerate() {
            let top = first + i * ROWS;
            let own = |x: &[T], sign: f64| -> [T::Vector<S>; ROWS] {
                array::from_fn(|i| T::splat(simd, T::of(sign) * x[top + i]))
            };
            let factors = [own(u, 1.0), own(u_before, -1.0), own(x, -1.0)];
            let mut sums = [T::splat(simd, T::of(0.0)); ROWS];
            let mut each = rows.chunks_exact_mut(step);
            let each = array::from_fn(|_| &mut each.next().expect("so many rows")[..width]);
            let others = [w, v, w].map(|x| &x[..width]);
            match changed {
                true => {
                    pass::<S, T, true, false, true>(simd, each, others, &factors, &mut sums, out)
                }
                false => {
                    pass::<S, T, false, false, true>(simd, each, others, &factors, &mut sums, out)
                }
            }
        }
    }
}

/// Computes the product of some rows and a vector.
struct Right<'a, T> {
    rows: &'a [T],
    step: usize,
    width: usize,
    v: &'a [T],
    x: &'a mut [T],
}

impl<T: Large> WithSimd for Right<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            rows,
            step,
            width,
            v,
            x,
        } = self;
        for (rows, x) in (rows.chunks_exact(ROWS * step)).zip(x.chunks_exact_mut(ROWS)) {
            let mut each = rows.chunks_exact(step);
            let each = array::from_fn(|_| &each.next().expect("so many rows")[..width]);
            let sums = products::<S, T>(simd, each, &v[..width]);
            for (x, sum) in x.iter_mut().zip(sums) {
                *x = T::sum(simd, sum);
            }
        }
    }
}
