//! Convolution and correlation of two vectors, as in signal processing.

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{ConvOptions, cast, conv1d, flip, float_of, reshape, slice};
use crate::s;
use crate::variable::Variable;

/// Which part of a convolution of vectors is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overlap {
    /// Wherever both overlap: `n + m - 1` elements.
    #[default]
    Full,
    /// The middle, as many elements as the longer vector has.
    Same,
    /// Where the shorter vector lies within the longer one: `|n - m| + 1` elements.
    Valid,
}

/// Computes the convolution of two vectors, `y[k] = Σ a[i] b[k - i]`.
///
/// Shapes: a `[n]`, b `[m]` → as the [`Overlap`] says. Types: floats, promoted; integers give f64.
/// Gradient: the correlation of `gy` with b to a, with a to b.
///
/// Source: `numpy.convolve`.
///
/// # Panics
/// Panics if a or b is not a vector or has no elements.
///
/// ```
/// use bibun::{functions::{convolve, Overlap}, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0, 3.0]), Variable::new([1.0, 10.0]));
/// assert_eq!(convolve(&a, &b, Overlap::Full).to_vec::<f64>(), [1.0, 12.0, 23.0, 30.0]);
/// assert_eq!(convolve(&a, &b, Overlap::Same).to_vec::<f64>(), [1.0, 12.0, 23.0]);
/// assert_eq!(convolve(&a, &b, Overlap::Valid).to_vec::<f64>(), [12.0, 23.0]);
/// ```
#[track_caller]
pub fn convolve(a: impl Into<Variable>, b: impl Into<Variable>, overlap: Overlap) -> Variable {
    let (a, b) = (a.into(), b.into());
    sliding("convolve", [a, b], overlap, false)
}
method!(convolve, b: impl Into<Self>, overlap: Overlap);

/// Computes the correlation of two vectors, `y[k] = Σ a[i + k] b[i]`, from the first k where they overlap on.
///
/// Shapes: a `[n]`, b `[m]` → as the [`Overlap`] says. Types: floats, promoted; integers give f64.
/// Gradient: the convolution of `gy` with b to a, the correlation with a to b.
///
/// Source: `numpy.correlate`.
///
/// # Panics
/// Panics if a or b is not a vector or has no elements.
///
/// ```
/// use bibun::{functions::{correlate, Overlap}, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0, 3.0]), Variable::new([1.0, 10.0]));
/// assert_eq!(correlate(&a, &b, Overlap::Valid).to_vec::<f64>(), [21.0, 32.0]);
/// assert_eq!(correlate(&a, &b, Overlap::Full).to_vec::<f64>(), [10.0, 21.0, 32.0, 3.0]);
/// ```
#[track_caller]
pub fn correlate(a: impl Into<Variable>, b: impl Into<Variable>, overlap: Overlap) -> Variable {
    let (a, b) = (a.into(), b.into());
    sliding("correlate", [a, b], overlap, true)
}
method!(correlate, b: impl Into<Self>, overlap: Overlap);

#[track_caller]
fn sliding(
    function: &'static str,
    [a, b]: [Variable; 2],
    overlap: Overlap,
    is_correlation: bool,
) -> Variable {
    let _whole = composite(function);
    let (a_spec, b_spec) = (a.spec(), b.spec());
    if a.rank() != 1 || b.rank() != 1 || a.size() == 0 || b.size() == 0 {
        let inputs = [("a [n]", &a_spec), ("b [m]", &b_spec)];
        mismatch(
            function,
            &inputs,
            "both must be vectors of one element or more",
        )
    }
    let dtype = float_of(a.dtype(), [&b]);
    let (n, m) = (a.size(), b.size());
    let [a, b] = [a, b].map(|x| cast(x, dtype));
    let b = if is_correlation { flip(b, 0) } else { b };
    // The shorter one slides along the longer one.
    let (long, short) = if n >= m { (a, b) } else { (b, a) };
    let (most, least) = (n.max(m), n.min(m));
    let kernel = reshape(flip(short, 0), [1, 1, least]);
    let options = ConvOptions::new().padding(least - 1);
    let full = reshape(
        conv1d(reshape(long, [1, 1, most]), kernel, None, options),
        [n + m - 1],
    );
    match overlap {
        Overlap::Full => full,
        Overlap::Same => {
            // NumPy's correlation leaves the larger half away in front where the second one is longer.
            let start = match is_correlation && m > n {
                true => least / 2,
                false => (least - 1) / 2,
            };
            slice(full, s![start..start + most])
        }
        Overlap::Valid => slice(full, s![least - 1..most]),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let full = |a: &[f64], b: &[f64]| {
        let mut y = vec![0.0; a.len() + b.len() - 1];
        for (i, a) in a.iter().enumerate() {
            b.iter().enumerate().for_each(|(j, b)| y[i + j] += a * b);
        }
        y
    };
    let mut samples = Vec::new();
    for (overlap, n, m) in [
        (Overlap::Full, 4, 3),
        (Overlap::Same, 4, 3),
        (Overlap::Valid, 2, 5),
        (Overlap::Same, 3, 3),
    ] {
        let part = move |y: Vec<f64>| {
            let (most, least) = (n.max(m), n.min(m));
            let range = match overlap {
                Overlap::Full => 0..n + m - 1,
                Overlap::Same => (least - 1) / 2..(least - 1) / 2 + most,
                Overlap::Valid => least - 1..most,
            };
            vec![Array::from(y[range].to_vec())]
        };
        let convolution = Sample::new(
            "convolve",
            move |x| vec![convolve(&x[0], &x[1], overlap)],
            move |x| part(full(&x[0].to_vec(), &x[1].to_vec())),
        );
        let correlation = Sample::new(
            "correlate",
            move |x| vec![correlate(&x[0], &x[1], overlap)],
            move |x| {
                let mut b = x[1].to_vec::<f64>();
                b.reverse();
                part(full(&x[0].to_vec(), &b))
            },
        );
        for sample in [convolution, correlation] {
            samples.push(sample.input([n], -1.0..1.0).input([m], -1.0..1.0));
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are NumPy's.
    #[test]
    fn the_same_where_the_second_is_longer_or_even() {
        let (short, long) = ([1.0, 2.0], [1.0, 10.0, 100.0, 1000.0, 10000.0]);
        let found = |y: Variable| y.to_vec::<f64>();
        let [a, b] = [Variable::new(short), Variable::new(long)];
        let same = Overlap::Same;
        assert_eq!(
            found(convolve(&a, &b, same)),
            [1.0, 12.0, 120.0, 1200.0, 12000.0]
        );
        assert_eq!(
            found(convolve(&b, &a, same)),
            [1.0, 12.0, 120.0, 1200.0, 12000.0]
        );
        assert_eq!(
            found(correlate(&a, &b, same)),
            [21000.0, 2100.0, 210.0, 21.0, 2.0]
        );
        assert_eq!(
            found(correlate(&b, &a, same)),
            [2.0, 21.0, 210.0, 2100.0, 21000.0]
        );
    }
}
