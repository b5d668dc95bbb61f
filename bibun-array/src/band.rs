//! Recurrences over time along a row of places, each reached from itself and the two before it.

use crate::cpu::band;
use crate::placement::on_cpu;
use crate::{Array, DType, Error, raise};

/// Computes the logarithm of the sum over all paths that end at each place and time, of the product of the
/// exponentials of x on the path: the forward variables of a hidden Markov model.
///
/// A path begins at any place, and then stays, moves to the next place, or where `skips` is true to the place
/// behind that: `y[t, p] = x[t, p] + log(exp y[t-1, p] + exp y[t-1, p-1] + exp y[t-1, p-2] skips[p])`. It is
/// computed on the CPU.
///
/// Shapes: x `[.., time, places]`, skips `[.., places]` → as x. Types: x f32 or f64, skips bool.
/// Source: L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech
/// recognition", 1989.
///
/// ```
/// use bibun_array::{Array, log_band_scan};
/// let x = Array::from([[0.5f64.ln(), f64::NEG_INFINITY], [0.25f64.ln(), 0.75f64.ln()]]);
/// let y = log_band_scan(&x, &Array::from([false, false]));
/// assert!((y.to_vec::<f64>()[3] - (0.5 * 0.75f64).ln()).abs() < 1e-15);
/// ```
///
/// # Panics
/// Panics if the shapes or the dtypes do not fit.
#[track_caller]
pub fn log_band_scan(x: &Array, skips: &Array) -> Array {
    let fits = match (&x.shape()[..], &skips.shape()[..]) {
        ([front @ .., _, places], [others @ .., same]) => front == others && places == same,
        _ => false,
    };
    if !fits || !is_computed(x.dtype()) || skips.dtype() != DType::Bool {
        refuse(
            "log_band_scan",
            [x, skips],
            "[.., time, places] of f32 or f64 and [.., places] of bool",
        )
    }
    recorded("log_band_scan", [x, skips], |x, skips| {
        match x.dtype() == DType::F32 {
            true => band::log_scan::<f32>(x, skips),
            false => band::log_scan::<f64>(x, skips),
        }
    })
}

/// Computes a linear recurrence with its weights:
/// `y[t, p] = x[t, p] + Σ w[t, k, p] y[t-1, p-k]` over `k` from 0 to 2, or in reverse
/// `y[t, p] = x[t, p] + Σ w[t+1, k, p+k] y[t+1, p+k]`, which is the transposed one. What lies outside is 0. It
/// is computed on the CPU.
///
/// Shapes: x `[.., time, places]`, w `[.., time, 3, places]` → as x. Types: f32 or f64.
///
/// ```
/// use bibun_array::{Array, band_scan};
/// let x = Array::from([[1.0, 0.0], [0.0, 10.0]]);
/// let w = Array::full([2, 3, 2], 0.5);
/// assert_eq!(band_scan(&x, &w, false).to_vec::<f64>(), [1.0, 0.0, 0.5, 10.5]);
/// assert_eq!(band_scan(&x, &w, true).to_vec::<f64>(), [6.0, 5.0, 0.0, 10.0]);
/// ```
///
/// # Panics
/// Panics if the shapes or the dtypes do not fit.
#[track_caller]
pub fn band_scan(x: &Array, w: &Array, reverse: bool) -> Array {
    let fits = match (&x.shape()[..], &w.shape()[..]) {
        ([front @ .., time, places], [others @ .., steps, 3, same]) => {
            front == others && time == steps && places == same
        }
        _ => false,
    };
    if !fits || !is_computed(x.dtype()) || w.dtype() != x.dtype() {
        refuse(
            "band_scan",
            [x, w],
            "[.., time, places] and [.., time, 3, places] of f32 or of f64",
        )
    }
    recorded("band_scan", [x, w], move |x, w| {
        match x.dtype() == DType::F32 {
            true => band::scan::<f32>(x, w, reverse),
            false => band::scan::<f64>(x, w, reverse),
        }
    })
}

fn is_computed(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

#[track_caller]
fn refuse(function: &'static str, [x, other]: [&Array; 2], must: &str) -> ! {
    let of = |x: &Array| format!("{} {}", x.shape(), x.dtype());
    let what = format!("{} and {}; they must be {must}", of(x), of(other));
    raise(Error::invalid(function, what))
}

/// Computes, or writes down, a function of two arrays, which makes an array like the first.
#[track_caller]
fn recorded(
    function: &'static str,
    [x, other]: [&Array; 2],
    compute: impl Fn(&Array, &Array) -> Array + Send + Sync + 'static,
) -> Array {
    let spec = (x.shape().clone(), x.dtype());
    let run = move |x: &[Array]| vec![compute(&x[0], &x[1])];
    let mut results = on_cpu(function, &[x, other], &[spec], run);
    results.pop().expect("there is one result")
}
