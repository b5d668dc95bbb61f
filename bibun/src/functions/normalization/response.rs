//! Normalization by the responses of neighbouring channels.

use bibun_array::Index;

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{cast, pad, pow, slice, square, to_float};
use crate::variable::Variable;

/// Divides elements by a power of the squares of neighbouring channels,
/// `y[n, i] = x[n, i] / (k + alpha Σⱼ x[n, j]²)^beta` over the `size` channels j around i, with
/// those outside as 0 (Krizhevsky, Sutskever and Hinton 2012, section 3.3). An even size has one channel
/// more below i than above.
///
/// Shapes: x `[n, c, d..]` → the same.
/// Types: x floats; integers give f64.
/// Gradient: through the sums too.
///
/// # Panics
/// Panics if x has no axis of channels or `size` is 0.
///
/// ```
/// use bibun::{functions::local_response_normalization, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0]]);
/// let y = local_response_normalization(&x, 3, 1.0, 1.0, 1.0);
/// assert_eq!(y.to_vec::<f64>(), [1.0 / 6.0, 2.0 / 15.0, 3.0 / 14.0]);
/// ```
#[track_caller]
pub fn local_response_normalization(
    x: impl Into<Variable>,
    size: usize,
    k: f64,
    alpha: f64,
    beta: f64,
) -> Variable {
    let _whole = composite("local_response_normalization");
    let function = "local_response_normalization";
    let x = to_float(x.into());
    let dtype = x.dtype();
    let x = cast(x, dtype.accumulator());
    super::batch::expect_channels(function, &x);
    if size == 0 {
        raise(Error::argument(
            function,
            "the size is 0, it must be positive",
        ));
    }
    let channels = x.shape()[1];
    // A window that reaches beyond the outermost channels adds nothing.
    let size = size.min((2 * channels).saturating_sub(1).max(1));
    let mut widths = vec![(0, 0); x.rank()];
    widths[1] = (size / 2, (size - 1) / 2);
    let squares = pad(square(&x), &widths, 0.0);
    let shifted = |by: usize| {
        let (start, stop) = (Some(by as isize), Some((by + channels) as isize));
        let step = 1;
        slice(
            &squares,
            &[
                Index::Range {
                    start: None,
                    stop: None,
                    step,
                },
                Index::Range { start, stop, step },
            ],
        )
    };
    let around = (1..size).fold(shifted(0), |sum, by| sum + shifted(by));
    cast(x * pow(around * alpha + k, -beta), dtype)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::{Array, Shape};
    let sample = |shape: Shape, size: usize| {
        let call =
            move |x: &[Variable]| vec![local_response_normalization(&x[0], size, 2.0, 0.5, 0.75)];
        let expected = move |x: &[Array]| {
            let (shape, x) = (x[0].shape(), x[0].to_vec::<f64>());
            let (channels, inner) = (shape[1], shape[2..].iter().product::<usize>());
            let element = |i: usize| {
                let channel = i / inner % channels;
                let first = channel.saturating_sub(size / 2);
                let last = (channel + (size - 1) / 2).min(channels - 1);
                let squares = (first..=last).map(|j| x[i - channel * inner + j * inner].powi(2));
                x[i] / (2.0 + 0.5 * squares.sum::<f64>()).powf(0.75)
            };
            vec![Array::from_vec((0..x.len()).map(element).collect(), shape)]
        };
        Sample::new("local_response_normalization", call, expected).input(shape, -2.0..2.0)
    };
    vec![
        sample([2, 4].into(), 3),
        sample([1, 3, 2].into(), 5),
        sample([2, 2, 1, 2].into(), 1),
        sample([2, 5].into(), 4),
        sample([1, 3, 2].into(), 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_positive_and_may_be_large() {
        let x = Variable::new([[1.0, 2.0]]);
        let with = |size| local_response_normalization(&x, size, 1.0, 1.0, 1.0);
        let error = crate::attempt(|| with(0)).expect_err("an error");
        assert!(error.to_string().contains("the size is 0"), "{error}");
        assert_eq!(with(2).to_vec::<f64>(), [1.0 / 2.0, 2.0 / 6.0]);
        for size in [3, 4, 5, usize::MAX] {
            assert_eq!(with(size).to_vec::<f64>(), [1.0 / 6.0, 2.0 / 6.0]);
        }
    }
}
