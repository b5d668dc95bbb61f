//! Average pooling.

use bibun_array::Shape;

use crate::call::composite;
use crate::functions::families::method;
use crate::functions::mean;
use crate::functions::pooling::window::{Pooling, WindowSum, adaptive_stencil, mismatch};
use crate::variable::Variable;

const NAMES: [&str; 2] = ["avg_pool", "avg_pool_transpose"];
const ADAPTIVE_NAMES: [&str; 2] = ["adaptive_avg_pool", "adaptive_avg_pool_transpose"];

/// Computes the averages of windows over the last axes, `y[.., o] = Σⱼ x[.., o s + j d − p] / k`.
///
/// The kernel has one size for each of these axes. Padding is of zeros;
/// [`Pooling::count_include_pad`] sets whether it counts, and [`Pooling::divisor`] another number than
/// that of the elements.
///
/// Shapes: x `[.., h, w]` → `[.., (h + 2p − (k − 1)d − 1)/s + 1, ..]`, rounded down, or up with
/// [`Pooling::ceil_mode`]; likewise over one, three or more axes.
/// Types: floats.
/// Gradient: `gy / k` of each window to each of its elements.
///
/// # Panics
/// Panics if a window covers nothing but padding or x has too few axes, or if a size of the kernel,
/// a stride or a dilation is 0, or if there are several strides, paddings or dilations, but not one
/// for each axis.
///
/// ```
/// use bibun::{functions::{avg_pool, Pooling}, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]);
/// assert_eq!(avg_pool(&x, [2, 2]).to_vec::<f64>(), [3.5, 5.5]);
/// let y = avg_pool(&x, Pooling::new([2]).padding(1).count_include_pad(false));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.5, 4.0, 5.0, 6.5, 8.0]);
/// ```
#[track_caller]
pub fn avg_pool(x: impl Into<Variable>, pooling: impl Into<Pooling>) -> Variable {
    let x = x.into();
    WindowSum::of(NAMES, pooling.into().stencil(NAMES[0], &x), x)
}
method!(avg_pool, pooling: impl Into<Pooling>);

/// Computes the averages of the given number of windows along each of the last axes, which cover
/// the axis.
///
/// Window i of o along an axis of n covers the elements from `⌊i n / o⌋` to before
/// `⌈(i + 1) n / o⌉`.
///
/// Shapes: x `[.., h, w]` → `[.., windows]`, over one, two or more axes.
/// Types: floats.
/// Gradient: `gy` of each window in equal parts to its elements.
///
/// # Panics
/// Panics if a window would be empty, or x has too few axes.
///
/// ```
/// use bibun::{functions::adaptive_avg_pool, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(adaptive_avg_pool(&x, [3]).to_vec::<f64>(), [1.5, 2.5, 3.5]);
/// ```
#[track_caller]
pub fn adaptive_avg_pool(x: impl Into<Variable>, windows: impl Into<Shape>) -> Variable {
    let x = x.into();
    let stencil = adaptive_stencil(ADAPTIVE_NAMES[0], &x, &windows.into());
    WindowSum::of(ADAPTIVE_NAMES, stencil, x)
}

/// Computes the average of each channel: the [`mean`] over all axes after the second.
///
/// Shapes: x `[n, c, ..]` → `[n, c]`.
/// Types: those of [`mean`].
/// Gradient: that of [`mean`].
///
/// # Panics
/// Panics if x has fewer than three axes.
///
/// ```
/// use bibun::{functions::global_avg_pool, Variable};
/// let x = Variable::new([[[1.0, 2.0, 6.0], [4.0, 5.0, 6.0]]]);
/// assert_eq!(global_avg_pool(&x).to_vec::<f64>(), [3.0, 5.0]);
/// ```
#[track_caller]
pub fn global_avg_pool(x: impl Into<Variable>) -> Variable {
    let _whole = composite("global_avg_pool");
    let x = x.into();
    let axes = axes_of_channels("global_avg_pool", &x);
    mean(x, &axes[..])
}

/// Returns all axes after those of examples and channels.
#[track_caller]
pub(super) fn axes_of_channels(function: &'static str, x: &Variable) -> Vec<isize> {
    if x.rank() < 3 {
        mismatch(
            function,
            x,
            0,
            "x must be [n, c, ..] with at least three axes",
        )
    }
    (2..x.rank() as isize).collect()
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::window::reference;
    use crate::conformance::Sample;
    use bibun_array::Array;

    fn mean_of(seen: &[(f64, usize)], count: usize) -> f64 {
        seen.iter().map(|&(x, _)| x).sum::<f64>() / count as f64
    }
    let range = -2.0..2.0;
    vec![
        // As many axes as are known at run time.
        Sample::new(
            "avg_pool",
            |x| {
                let axes = x[0].rank() - 1;
                let pooling = Pooling::new(vec![2; axes]).stride(vec![1; axes]);
                vec![avg_pool(&x[0], pooling.padding(&vec![1; axes][..]))]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[2, 2], &[1, 1], &[1, 1], &[1, 1]];
                vec![reference(&x[0], pooling, &[4, 3], mean_of)]
            },
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "avg_pool",
            |x| vec![avg_pool(&x[0], 2)],
            |x| vec![reference(&x[0], [&[2], &[2], &[0], &[1]], &[2], mean_of)],
        )
        .input([2, 5], range.clone()),
        Sample::new(
            "avg_pool",
            |x| {
                let pooling = Pooling::new([3, 2]).stride([2, 1]).padding([1, 1]);
                vec![avg_pool(&x[0], pooling)]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[3, 2], &[2, 1], &[1, 1], &[1, 1]];
                vec![reference(&x[0], pooling, &[3, 4], mean_of)]
            },
        )
        .input([2, 1, 5, 3], range.clone()),
        Sample::new(
            "avg_pool",
            |x| {
                let pooling = Pooling::new([2, 2]).stride([2, 3]).padding([0, 1]);
                let pooling = pooling.dilation([1, 2]).ceil_mode(true);
                vec![avg_pool(&x[0], pooling.count_include_pad(false))]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[2, 2], &[2, 3], &[0, 1], &[1, 2]];
                let mean = |seen: &[(f64, usize)], _| mean_of(seen, seen.len());
                vec![reference(&x[0], pooling, &[3, 2], mean)]
            },
        )
        .input([3, 5, 4], range.clone()),
        Sample::new(
            "avg_pool",
            |x| {
                let pooling = Pooling::new([2, 1, 2]).stride([3, 1, 2]).padding([1, 0, 0]);
                vec![avg_pool(&x[0], pooling.ceil_mode(true))]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[2, 1, 2], &[3, 1, 2], &[1, 0, 0], &[1, 1, 1]];
                vec![reference(&x[0], pooling, &[2, 2, 2], mean_of)]
            },
        )
        .input([2, 4, 2, 3], range.clone()),
        Sample::new(
            "avg_pool",
            |x| {
                let pooling = Pooling::new([2, 3]).padding([1, 1]).stride(1).divisor(5);
                vec![avg_pool(&x[0], pooling)]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[2, 3], &[1, 1], &[1, 1], &[1, 1]];
                vec![reference(&x[0], pooling, &[4, 4], |seen, _| {
                    mean_of(seen, 5)
                })]
            },
        )
        .input([2, 3, 4], range.clone()),
        Sample::new(
            "adaptive_avg_pool",
            |x| vec![adaptive_avg_pool(&x[0], [3, 2])],
            |x| {
                let x0 = &x[0];
                let at = |b, i, j| x0.element(&[b, i, j]).to_f64();
                let (rows, columns) = ([0..2, 1..4, 3..5], [0..1, 0..1]);
                let mut y = Vec::new();
                for b in 0..2 {
                    for rows in &rows {
                        for columns in &columns {
                            let pairs = rows
                                .clone()
                                .flat_map(|i| columns.clone().map(move |j| (i, j)));
                            let sum: f64 = pairs.map(|(i, j)| at(b, i, j)).sum();
                            y.push(sum / (rows.len() * columns.len()) as f64);
                        }
                    }
                }
                vec![Array::from_vec(y, [2, 3, 2])]
            },
        )
        .input([2, 5, 1], range.clone()),
        Sample::new(
            "global_avg_pool",
            |x| vec![global_avg_pool(&x[0])],
            |x| {
                let rows = x[0].to_vec::<f64>();
                let means = rows.chunks(6).map(|row| row.iter().sum::<f64>() / 6.0);
                vec![Array::from_vec(means.collect(), [2, 3])]
            },
        )
        .input([2, 3, 2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, gradients};
    use bibun_array::{Array, DType};

    #[test]
    fn no_examples_are_pooled_to_none() {
        let x = Variable::new(Array::zeros([0, 3, 4, 4], DType::F32));
        let y = avg_pool(&x, [2, 2]);
        assert_eq!((y.shape(), y.dtype()), ([0, 3, 2, 2].into(), DType::F32));
        let gx = gradients(&[&y.sum(..)], &[&x]);
        assert_eq!(gx[0].as_ref().expect("a gradient").shape(), x.shape());
    }

    #[test]
    fn elements_that_no_window_sees_have_gradient_zero() {
        let x = Variable::new([1.0f32, 2.0, 3.0, 4.0, 5.0]);
        let y = avg_pool(&x, Pooling::new([1]).stride(2));
        assert_eq!(y.to_vec::<f32>(), [1.0, 3.0, 5.0]);
        let gx = gradients(&[&y.sum(..)], &[&x]);
        let gx = gx[0].as_ref().expect("a gradient").to_vec::<f32>();
        assert_eq!(gx, [1.0, 0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        let x = Variable::new(Array::zeros([2, 3], DType::F64));
        let text = message(&|| avg_pool(&x, [4, 2]));
        assert!(text.starts_with("avg_pool: inputs do not fit"), "{text}");
        assert!(text.contains("x [.., h, w] = [2, 3] f64"), "{text}");
        assert!(text.contains("must see at least one element"), "{text}");
        let text = message(&|| avg_pool(&x, [1, 1, 1]));
        assert!(text.contains("at least 3 axes"), "{text}");
        let text = message(&|| avg_pool(&x, Pooling::new([2]).stride(0)));
        assert!(text.contains("stride = [0] must be positive"), "{text}");
        let text = message(&|| avg_pool(&x, Pooling::new([1]).padding(1)));
        assert!(text.contains("must see at least one element"), "{text}");
        let text = message(&|| avg_pool(Variable::constant([1i64, 2]), 2));
        assert!(text.contains("must be of floats"), "{text}");
        let text = message(&|| adaptive_avg_pool(x.slice(&[]).sum(..), [1]));
        assert!(text.contains("at least 1 axes"), "{text}");
        let text = message(&|| global_avg_pool(&x));
        assert!(text.contains("at least three axes"), "{text}");
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        let text = message(&|| adaptive_avg_pool(&nothing, [2]));
        assert!(text.contains("must see at least one element"), "{text}");
        assert_eq!(adaptive_avg_pool(&x, [0]).shape(), [2, 0]);
    }
}
