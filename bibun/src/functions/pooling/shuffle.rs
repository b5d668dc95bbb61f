//! Moving channels into space and back.

use bibun_array::Shape;

use crate::call::composite;
use crate::functions::pooling::window::{last_axes, mismatch};
use crate::functions::{permute, reshape, swapaxes};
use crate::variable::Variable;

/// Moves channels into space: `y[.., c, h r + i, w r + j] = x[.., c r² + i r + j, h, w]`.
///
/// Shapes: x `[.., c r², h, w]` → `[.., c, h r, w r]`.
/// Types: all.
/// Gradient: `gy` moved back by [`pixel_unshuffle`].
///
/// Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient
/// Sub-Pixel Convolutional Neural Network (2016).
///
/// # Panics
/// Panics if x has fewer than three axes, or r² does not divide the number of its channels.
///
/// ```
/// use bibun::{array::Array, functions::pixel_shuffle, Variable};
/// let x = Variable::new(Array::arange(0, 8).reshape([4, 1, 2]));
/// let y = pixel_shuffle(&x, 2);
/// assert_eq!(y.shape(), [1, 2, 4]);
/// assert_eq!(y.to_vec::<i64>(), [0, 2, 1, 3, 4, 6, 5, 7]);
/// ```
#[track_caller]
pub fn pixel_shuffle(x: impl Into<Variable>, r: usize) -> Variable {
    let _whole = composite("pixel_shuffle");
    let x = x.into();
    let [channels, h, w] = last_axes("pixel_shuffle", &x);
    let square = r.saturating_mul(r);
    if r == 0 || channels % square != 0 {
        let must_hold = format!("the {channels} channels must be divisible by r² with r = {r}");
        mismatch("pixel_shuffle", &x, 0, must_hold)
    }
    let c = channels / square;
    rearranged(
        x,
        [c, r, r, h, w],
        [0, 3, 1, 4, 2],
        [c, h.saturating_mul(r), w.saturating_mul(r)],
    )
}

/// Moves space into channels, the inverse of [`pixel_shuffle`]:
/// `y[.., c r² + i r + j, h, w] = x[.., c, h r + i, w r + j]`.
///
/// Shapes: x `[.., c, h r, w r]` → `[.., c r², h, w]`.
/// Types: all.
/// Gradient: `gy` moved back by [`pixel_shuffle`].
///
/// # Panics
/// Panics if x has fewer than three axes, or r does not divide the last two.
///
/// ```
/// use bibun::{functions::{pixel_shuffle, pixel_unshuffle}, Variable};
/// let x = Variable::new([[[1.0, 2.0], [3.0, 4.0]]]);
/// let y = pixel_unshuffle(&x, 2);
/// assert_eq!(y.shape(), [4, 1, 1]);
/// assert_eq!(pixel_shuffle(&y, 2).to_vec::<f64>(), x.to_vec::<f64>());
/// ```
#[track_caller]
pub fn pixel_unshuffle(x: impl Into<Variable>, r: usize) -> Variable {
    let _whole = composite("pixel_unshuffle");
    let x = x.into();
    let [c, h, w] = last_axes("pixel_unshuffle", &x);
    if r == 0 || h % r != 0 || w % r != 0 {
        let must_hold = format!("the last two axes must be divisible by r = {r}");
        mismatch("pixel_unshuffle", &x, 0, must_hold)
    }
    let (h, w) = (h / r, w / r);
    rearranged(
        x,
        [c, h, r, w, r],
        [0, 2, 4, 1, 3],
        [c.saturating_mul(r).saturating_mul(r), h, w],
    )
}

/// Deals channels out: of `groups` groups of neighbours, the first ones come first, then the second ones.
///
/// Shapes: x `[n, c, ..]`, where `groups` divides c → the same. Types: all.
/// Gradient: `gy`, dealt back.
///
/// Source: Zhang et al., "ShuffleNet: An extremely efficient convolutional neural network for mobile devices",
/// 2018.
///
/// # Panics
/// Panics if x has fewer than two axes, or the groups do not divide the number of its channels.
///
/// ```
/// use bibun::{functions::channel_shuffle, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0, 4.0]]);
/// assert_eq!(channel_shuffle(&x, 2).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn channel_shuffle(x: impl Into<Variable>, groups: usize) -> Variable {
    let function = "channel_shuffle";
    let _whole = composite(function);
    let x = x.into();
    let shape = x.shape();
    let [n, channels, ..] = shape[..] else {
        mismatch(
            function,
            &x,
            0,
            "x must have an axis of channels, its second",
        )
    };
    if groups == 0 || channels % groups != 0 {
        let must_hold = format!("the {channels} channels must be divisible by {groups} groups");
        mismatch(function, &x, 0, must_hold)
    }
    let rest = x.size() / (n * channels).max(1);
    let dealt = swapaxes(reshape(x, [n, groups, channels / groups, rest]), 1, 2);
    reshape(dealt, shape)
}

/// Splits the last three axes, permutes them and merges them again.
#[track_caller]
fn rearranged(x: Variable, split: [usize; 5], order: [isize; 5], joined: [usize; 3]) -> Variable {
    let shape = x.shape();
    let in_front = &shape[..shape.rank() - 3];
    let with = |sizes: &[usize]| in_front.iter().chain(sizes).copied().collect::<Shape>();
    let first = in_front.len() as isize;
    let axes: Vec<isize> = (0..first).chain(order.map(|axis| axis + first)).collect();
    reshape(permute(reshape(x, with(&split)), &axes), with(&joined))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;

    /// Returns both functions as one list of positions: in the shuffled array, and in the other.
    fn pairs(c: usize, r: usize, h: usize, w: usize) -> Vec<([usize; 3], [usize; 3])> {
        let mut pairs = Vec::new();
        for k in 0..c {
            for (y, x) in (0..h * r).flat_map(|y| (0..w * r).map(move |x| (y, x))) {
                let channel = k * r * r + y % r * r + x % r;
                pairs.push(([k, y, x], [channel, y / r, x / r]));
            }
        }
        pairs
    }
    vec![
        Sample::new(
            "pixel_shuffle",
            |x| vec![pixel_shuffle(&x[0], 2)],
            |x| {
                let mut y = Array::zeros([2, 2, 6], x[0].dtype());
                for ([k, i, j], [c, h, w]) in pairs(2, 2, 1, 3) {
                    y.as_mut_slice::<f64>()[(k * 2 + i) * 6 + j] =
                        x[0].element(&[c, h, w]).to_f64();
                }
                vec![y]
            },
        )
        .input([8, 1, 3], -2.0..2.0),
        Sample::new(
            "pixel_unshuffle",
            |x| vec![pixel_unshuffle(&x[0], 3)],
            |x| {
                let mut y = Array::zeros([1, 9, 2, 1], x[0].dtype());
                for ([k, i, j], [c, h, w]) in pairs(1, 3, 2, 1) {
                    y.as_mut_slice::<f64>()[(c * 2 + h) + w] = x[0].element(&[0, k, i, j]).to_f64();
                }
                vec![y]
            },
        )
        .input([1, 1, 6, 3], -2.0..2.0),
        Sample::new(
            "channel_shuffle",
            |x| vec![channel_shuffle(&x[0], 3)],
            |x| {
                let mut y = Array::zeros([2, 6, 2], x[0].dtype());
                for (i, y) in y.as_mut_slice::<f64>().iter_mut().enumerate() {
                    let (n, c, k) = (i / 12, i / 2 % 6, i % 2);
                    *y = x[0].element(&[n, c % 3 * 2 + c / 3, k]).to_f64();
                }
                vec![y]
            },
        )
        .input([2, 6, 2], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::DType;

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new(bibun_array::Array::zeros([6, 2, 3], DType::F32));
        let text = attempt(|| pixel_shuffle(&x, 2)).unwrap_err().to_string();
        assert!(text.contains("x = [6, 2, 3] f32"), "{text}");
        assert!(text.contains("divisible by r² with r = 2"), "{text}");
        let text = attempt(|| pixel_unshuffle(&x, 2)).unwrap_err().to_string();
        assert!(text.contains("divisible by r = 2"), "{text}");
        assert!(attempt(|| pixel_shuffle(&x, 0)).is_err());
    }
}
