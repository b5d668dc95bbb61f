//! Recurrences over time along a row of places, each reached from itself and the two before it: what the sum
//! over all alignments of a sequence is made of.

use bibun_array::Array;

use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices, sum_of};
use crate::functions::{exp, expand_dims, greater, logical_and, pad, stack, sum, unstack, where_};
use crate::variable::Variable;

const NEVER: f64 = f64::NEG_INFINITY;

/// Computes the logarithm of the sum over all paths to each place and time of the product of the exponentials
/// of x on the path. A path stays, moves on by one place, or by two where `skips` is true.
///
/// Shapes: x `[.., time, places]`, skips `[.., places]` → as x.
#[track_caller]
pub(super) fn log_band_scan(x: Variable, skips: Variable) -> Variable {
    let [y] = OfMatrices::of(LogBandScan, [x, skips]);
    y
}

#[derive(Clone, Copy, Debug)]
struct LogBandScan;

impl MatrixRule for LogBandScan {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "log_band_scan"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).input(1).output(0)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn results(&self, [x, _]: [&Spec; 2]) -> [Spec; 1] {
        [x.clone()]
    }

    fn forward(&self, [x, skips]: [Array; 2]) -> [Array; 1] {
        [bibun_array::log_band_scan(&x, &skips)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        [Some(band_scan(gy, shares(cx), true)), None]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, _]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [dx.map(|dx| band_scan(dx, shares(cx), false))]
    }
}

/// Returns the share `[.., time, 3, places]` that each of the places before has in what reaches a place, and 0
/// where nothing does.
fn shares(cx: &Context<'_>) -> Variable {
    let (x, skips, y) = (cx.input(0), cx.input(1), cx.output(0));
    let reached = expand_dims(&y - x, -2);
    let [own, before, last] = moved_on(&y, NEVER);
    let last = where_(expand_dims(skips, -2), last, NEVER);
    let before = stack([own, before, last], -2);
    let is_there = logical_and(greater(&reached, NEVER), greater(&before, NEVER));
    exp(where_(is_there, before - reached, NEVER))
}

/// Returns `y[t-1, p-k]` for each `k`, and `outside` where that lies outside.
fn moved_on(y: &Variable, outside: f64) -> [Variable; 3] {
    [0, 1, 2].map(|k| moved(y, 1, k, outside))
}

/// Moves x by a step of time and some places, onwards or back.
fn moved(x: &Variable, steps: isize, places: isize, outside: f64) -> Variable {
    let mut widths = vec![(0, 0); x.rank()];
    // Beyond the end there is nothing, wherever it comes from.
    let count = x.shape()[x.rank() - 1] as isize;
    let places = places.clamp(-count, count);
    widths[x.rank() - 2] = (steps, -steps);
    widths[x.rank() - 1] = (places, -places);
    pad(x, &widths, outside)
}

/// Computes a linear recurrence with its weights:
/// `y[t, p] = x[t, p] + Σ w[t, k, p] y[t-1, p-k]` over `k` from 0 to 2, or in reverse
/// `y[t, p] = x[t, p] + Σ w[t+1, k, p+k] y[t+1, p+k]`, which is the transposed one.
///
/// Shapes: x `[.., time, places]`, w `[.., time, 3, places]` → as x.
#[track_caller]
fn band_scan(x: Variable, w: Variable, reverse: bool) -> Variable {
    let [y] = OfMatrices::of(BandScan { reverse }, [x, w]);
    y
}

#[derive(Clone, Copy, Debug)]
struct BandScan {
    reverse: bool,
}

impl BandScan {
    /// The cotangent of the weights, `[.., time, 3, places]`, from those of x and the result: what comes late
    /// times what comes early.
    fn of_weights(self, gx: &Variable, y: &Variable) -> Variable {
        let (late, early) = if self.reverse { (y, gx) } else { (gx, y) };
        expand_dims(late, -2) * stack(moved_on(early, 0.0), -2)
    }

    /// The change of x that does what a change of the weights does.
    fn of_change(self, dw: &Variable, y: &Variable) -> Variable {
        if !self.reverse {
            return sum(dw * stack(moved_on(y, 0.0), -2), -2);
        }
        let late = dw * expand_dims(y, -2);
        let parts = unstack(late, -2);
        let part = |k: usize| moved(&parts[k], -1, -(k as isize), 0.0);
        part(0) + part(1) + part(2)
    }
}

impl MatrixRule for BandScan {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "band_scan"
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        Saved::NOTHING
            .input(1)
            .and(Saved::NOTHING.output(0).only_if(needs[1]))
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn results(&self, [x, _]: [&Spec; 2]) -> [Spec; 1] {
        [x.clone()]
    }

    fn forward(&self, [x, w]: [Array; 2]) -> [Array; 1] {
        [bibun_array::band_scan(&x, &w, self.reverse)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let gx = band_scan(gy, cx.input(1), !self.reverse);
        let gw = cx.needs(1).then(|| self.of_weights(&gx, &cx.output(0)));
        [cx.needs(0).then_some(gx), gw]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, dw]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let of_w = dw.map(|dw| self.of_change(&dw, &cx.output(0)));
        [sum_of(dx, of_w).map(|change| band_scan(change, cx.input(1), self.reverse))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use crate::functions::broadcast_to;

    let never_skips = [false, false, true, false, true];
    let log = Sample::new(
        "log_band_scan",
        move |x| {
            let skips = broadcast_to(beside(x, Variable::constant(never_skips)), [2, 5]);
            vec![log_band_scan(x[0].clone(), skips)]
        },
        move |x| {
            let mut y = x[0].to_vec::<f64>();
            for row in y.chunks_exact_mut(4 * 5) {
                for i in 5..row.len() {
                    let mut sum = row[i - 5].exp();
                    if i % 5 > 0 {
                        sum += row[i - 6].exp();
                    }
                    if i % 5 > 1 && never_skips[i % 5] {
                        sum += row[i - 7].exp();
                    }
                    row[i] += sum.ln();
                }
            }
            vec![Array::from_vec(y, [2, 4, 5])]
        },
    );
    let linear = |reverse: bool, places: usize| {
        let reference = move |x: &[Array]| {
            let (mut y, w) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
            let at = |n: usize, t: usize, p: usize| (n * 3 + t) * places + p;
            for (n, step, k, p) in (0..2 * 2 * 3 * places).map(|i| {
                let (n, step) = (i / (6 * places), i / (3 * places) % 2);
                (n, step, i / places % 3, i % places)
            }) {
                // Of the two neighbours in time, and the weights of the later one.
                let (own, other, t) = match reverse {
                    false => (step + 1, step, step + 1),
                    true => (1 - step, 2 - step, 2 - step),
                };
                let (from, to) = if reverse {
                    (p, p.wrapping_sub(k))
                } else {
                    (p.wrapping_sub(k), p)
                };
                if p >= k {
                    let w = w[(at(n, t, 0) * 3) + k * places + p];
                    y[at(n, own, to)] += w * y[at(n, other, from)];
                }
            }
            vec![Array::from_vec(y, [2, 3, places])]
        };
        Sample::new(
            "band_scan",
            move |x| vec![band_scan(x[0].clone(), x[1].clone(), reverse)],
            reference,
        )
        .input([2, 3, places], -1.0..1.0)
        .input([2, 3, 3, places], -1.0..1.0)
    };
    vec![
        log.input([2, 4, 5], -2.0..0.0),
        linear(false, 4),
        linear(true, 4),
        linear(false, 1),
        linear(true, 1),
    ]
}
