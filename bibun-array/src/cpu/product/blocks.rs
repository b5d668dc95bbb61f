//! The order of a product: blocks of `b`, and strips of `a`.

use std::iter;
use std::mem::take;

use pulp::{Simd, WithSimd};

use super::from;
use super::pack::{Pack, Panels, copy_rows};
use super::part::Part;
use super::plan::{OnePanel, Plan, Strips, strips};
use super::scratch::Scratch;
use super::tiles::{HIGH, Tiles, wide};
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::Float;

impl<T: Float> Part<'_, T> {
    /// Computes the part as planned.
    #[inline(always)]
    pub(super) fn in_blocks<S: Simd>(&mut self, simd: S, plan: Plan) {
        if let Some(panel) = plan.panel {
            // Whole vectors can be read up to the end.
            let width = panel.vectors * T::lanes::<S>();
            if panel.packed || (self.k - 1) * self.b.row + width <= self.b.memory.len() {
                return simd.vectorize(Panel(self, panel));
            }
        }
        simd.vectorize(Product(self, plan));
    }
}

/// Computes a part whose `b` is one panel.
// PERF: what other parts need takes as long as a small product.
struct Panel<'t, 'a, T>(&'t mut Part<'a, T>, OnePanel);

impl<T: Float> WithSimd for Panel<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            ref mut out,
            ..
        } = *self.0;
        let OnePanel {
            packed,
            vectors,
            strips,
        } = self.1;
        let width = vectors * T::lanes::<S>();
        let mut scratch = packed.then(Scratch::<T>::take);
        let (b, step) = match &mut scratch {
            None => (b.memory, b.row),
            Some(scratch) => {
                let (to, _) = scratch.split(k * width, 0);
                simd.vectorize(Pack {
                    from: b,
                    depth: k,
                    columns: n,
                    panels: Panels::new(vectors, vectors, false),
                    to,
                });
                (&*to, width)
            }
        };
        for Strips {
            row,
            height,
            count,
            skip,
        } in strips
        {
            if count == 0 {
                continue;
            }
            let mut tiles = Tiles {
                a: from(a, row * a.row),
                strip: height * a.row,
                count,
                b,
                step,
                depth: k,
                rest: &[],
                rest_depth: 0,
                alpha,
                beta,
                addend,
                out,
                row,
                skip,
                start: 0,
                len: n,
                sums: &mut [],
                sums_step: 0,
                goes_on: false,
                is_last: true,
            };
            tiles.run(simd, height, vectors);
        }
        if let Some(scratch) = scratch {
            scratch.give_back();
        }
    }
}

/// Computes a part, block by block.
struct Product<'t, 'a, T>(&'t mut Part<'a, T>, Plan);

impl<T: Float> WithSimd for Product<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            m,
            n,
            k,
            alpha,
            mut a,
            b,
            beta,
            addend,
            ref mut out,
        } = *self.0;
        let Plan {
            depth,
            block,
            packed,
            share,
            turned,
            copied,
            kept,
            tall,
            high,
            tallest,
            panel: _,
        } = self.1;
        let (lanes, wide) = (T::lanes::<S>(), wide::<S>());
        let strips_of_a = if kept { tall + 2 } else { high * HIGH };
        let mut scratch = Scratch::<T>::take();
        let of_b = if packed { block } else { wide * lanes } * depth;
        let of_sums = if share < depth { (m + 1) * block } else { 0 };
        let of_a = match turned {
            true => m * k,
            false if copied => strips_of_a * depth,
            false => 0,
        };
        let (for_b, mut for_a) = scratch.split(of_b + of_sums, of_a);
        if turned {
            for (i, row) in for_a.chunks_exact_mut(k).enumerate() {
                for (l, to) in row.iter_mut().enumerate() {
                    *to = a.at(i, l);
                }
            }
            let rows: &mut [T] = take(&mut for_a);
            a = Matrix::of_rows(rows, k);
        }
        let (for_b, for_sums) = for_b.split_at_mut(of_b);
        // Strips that are kept serve all blocks of some `k`.
        let ((outer, size_of_outer), (inner, size_of_inner)) = match kept {
            true => ((k, depth), (n, block)),
            false => ((n, block), (k, depth)),
        };
        let blocks = pieces(outer, size_of_outer)
            .flat_map(|outer| pieces(inner, size_of_inner).map(move |inner| (outer, inner)));
        let mut below = 0;
        while below < m {
            // No tile has a single row.
            let rows = if m - below <= tall + 1 {
                m - below
            } else {
                tall
            };
            for (outer, inner) in blocks.clone() {
                let ((first, depth), (start, columns)) = match kept {
                    true => (outer, inner),
                    false => (inner, outer),
                };
                let panels = Panels::new(columns.div_ceil(lanes), wide, S::IS_SCALAR);
                let b = from(b, first * b.row + start * b.column);
                let (beta, addend) = match first {
                    0 => (beta, addend),
                    _ => (T::ONE, None),
                };
                if packed {
                    simd.vectorize(Pack {
                        from: b,
                        depth,
                        columns,
                        panels,
                        to: for_b,
                    });
                }
                let whole = depth;
                for (part, depth) in pieces(whole, share) {
                    let (is_last, b) = (part + depth == whole, from(b, part * b.row));
                    for Strips {
                        row,
                        height,
                        count,
                        skip,
                    } in strips(rows, tallest)
                    {
                        for (done, count) in pieces(count, high) {
                            let row = row + done * height;
                            let mut a = from(a, (below + row) * a.row + (first + part) * a.column);
                            let mut strip = height * a.row;
                            if copied {
                                strip = height * depth;
                                let place = if kept { (row + skip) * depth } else { 0 };
                                let to = &mut for_a[place..][..count * strip];
                                if !kept || start == 0 {
                                    for (i, to) in to.chunks_exact_mut(strip).enumerate() {
                                        copy_rows(from(a, i * height * a.row), height, to);
                                    }
                                }
                                a = Matrix {
                                    memory: to,
                                    row: 1,
                                    column: height,
                                };
                            }
                            let row = below + row;
                            let mut at = 0;
                            for vectors in panels {
                                let width = vectors * lanes;
                                let len = width.min(columns - at);
                                let mut tiles = Tiles {
                                    a,
                                    strip,
                                    count,
                                    b: &[],
                                    step: width,
                                    depth,
                                    rest: &[],
                                    rest_depth: 0,
                                    alpha,
                                    beta,
                                    addend,
                                    out,
                                    row,
                                    skip,
                                    start: start + at,
                                    len,
                                    sums: &mut [],
                                    sums_step: 0,
                                    goes_on: part > 0,
                                    is_last,
                                };
                                if share < whole {
                                    tiles.sums =
                                        &mut for_sums[(row + skip) * block + at * height..];
                                    tiles.sums_step = height * block;
                                }
                                if packed {
                                    tiles.b = &for_b[at * depth..(at + width) * depth];
                                } else {
                                    tiles.b = &b.memory[at..];
                                    tiles.step = b.row;
                                    if (depth - 1) * b.row + width > tiles.b.len() {
                                        // Whole vectors cannot be read up to the end.
                                        tiles.depth = match tiles.b.len().checked_sub(width) {
                                            None => 0,
                                            Some(_) if b.row == 0 => depth,
                                            Some(rest) => depth.min(rest / b.row + 1),
                                        };
                                        tiles.rest_depth = depth - tiles.depth;
                                        let rest = &mut for_b[..tiles.rest_depth * width];
                                        for (l, to) in
                                            (tiles.depth..).zip(rest.chunks_exact_mut(width))
                                        {
                                            to[..len].copy_from_slice(&tiles.b[l * b.row..][..len]);
                                        }
                                        tiles.rest = rest;
                                    }
                                }
                                tiles.run(simd, height, vectors);
                                at += width;
                            }
                        }
                    }
                }
            }
            below += rows;
        }
        scratch.give_back();
    }
}

/// Pieces of a size and the rest: where each of them begins, and its length.
// PERF: `step_by` divides, and a small product takes no longer than a few divisions.
#[inline(always)]
fn pieces(len: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let mut start = 0;
    iter::from_fn(move || {
        let piece = (start, size.min(len - start));
        start += piece.1;
        (piece.1 > 0).then_some(piece)
    })
}
