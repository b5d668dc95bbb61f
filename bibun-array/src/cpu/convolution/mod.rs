//! Convolutions as sums of products in registers.
//!
//! Each of the three parts is a product of matrices of which one is never made as a whole: its elements
//! are read from the input, which has its padding around it.
//!
//! [`Correlation`] computes the output in vectors of neighbouring positions, each channel of the input by
//! itself, or in vectors of output channels ([`Channels`](channels::Channels)), which leave no part of a
//! vector empty where positions do, and multiply no padding. If there is one output channel, as in depthwise convolutions, rows of
//! positions are joined in [`Lines`](lines::Lines). The input is the correlation of the output with mirrored
//! kernels; where kernels move by more than one element, there is one correlation for each remainder of the
//! position, with the part of the kernel that meets it. [`Gradient`] computes the weights in vectors of neighbouring input channels,
//! which are last in its memory. Where vectors would stay half empty, their elements are first gathered
//! into whole ones.
//!
//! A program may compute [some examples at a time](ConvolutionRows).
//!
//! Every element is a sum in an order that follows from the sizes of one group of the convolution
//! and the number of examples, so that neither threads nor further groups change it.

mod border;
mod channels;
mod correlation;
mod gradient;
mod grid;
mod lines;
mod memory;
mod patches;
mod phase;
mod pointwise;
mod rows;
mod source;
mod thin;

use std::borrow::Cow;

use super::tile::Float;
use crate::convolution::{Convolution, ConvolutionPart};
use crate::dtype::with_float;
use crate::storage::list;
use crate::{Array, Shape};
use correlation::Correlation;
use gradient::Gradient;
pub(super) use memory::Scratch;
use memory::Unit;
pub(super) use patches::patches;
use pointwise::{is_product, pointwise, simplified};
pub(crate) use rows::ConvolutionRows;
pub(super) use rows::Weights;
use thin::is_thin;

/// The largest number of examples that are taken at once.
const EXAMPLES: usize = 16;
/// The most parts that the sum over examples is cut into.
const PARTS: usize = 8;
/// The sum is not cut up to this number of multiplications.
const FEW_PRODUCTS: usize = 1 << 22;
/// From this number of weights of a group on, the sums of parts take a while to be added, so that each part has at
/// least so many products for a weight.
const MANY_WEIGHTS: usize = 1 << 14;
const LONG_PART: usize = 1 << 10;

/// See [`crate::Device::convolve`].
pub(super) fn convolve(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
) -> Array {
    with_float!(a.dtype(), T => product::<T>(convolution, made, a, b))
}

fn product<T: Float>(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
) -> Array {
    let n = match made {
        ConvolutionPart::Input => b.shape()[0],
        _ => a.shape()[0],
    };
    let shape = convolution.shape(made, n);
    if [shape.size(), a.size(), b.size()].contains(&0) {
        return Array::zeros(shape, T::DTYPE);
    }
    let convolution = &simplified(convolution);
    if is_product(convolution) {
        return pointwise::<T>(convolution, made, a, b, n).reshape(shape);
    }
    let (a, b) = (a.to_row_major(), b.to_row_major());
    let (a, b) = (dense::<T>(&a), dense::<T>(&b));
    match made {
        ConvolutionPart::Output => {
            // The result comes first: where it is too large, so may be the plan, whose memory nobody asks for.
            let correlation = || Correlation::forward(convolution, n, Unit::of::<T>());
            Array::filled_by(shape, |y| correlation().run(n, &a, &b, y))
        }
        ConvolutionPart::Input => Array::filled_by(shape, |x| {
            let correlation = Correlation::backward(convolution, n, Unit::of::<T>());
            let w = correlation.turned(&a);
            correlation.run(n, &b, w.as_slice(), x);
        }),
        ConvolutionPart::Weights if is_thin(convolution) => {
            let correlation = Correlation::forward(convolution, n, Unit::of::<T>());
            let parts = parts(convolution, n);
            let each = [parts].into_iter().chain(shape.iter().copied());
            let w = Array::filled_by(each.collect(), |w| {
                correlation.thin_weights(n, parts, &a, &b, w);
            });
            w.sum(0)
        }
        ConvolutionPart::Weights => {
            let gradient = Gradient::new(convolution, n, Unit::of::<T>());
            let parts = parts(convolution, n);
            let kernel = shape[2..].iter().copied();
            let each = [parts * shape[0]].into_iter().chain(kernel);
            let w = Array::filled_by(each.chain([shape[1]]).collect(), |w| {
                gradient.run(n, parts, &a, &b, w);
            });
            // The channels stay last in memory.
            let w = w.moveaxis(-1, 1);
            match parts {
                1 => w,
                _ => {
                    let each = [parts].into_iter().chain(shape.iter().copied());
                    w.reshape(each.collect::<Shape>()).sum(0)
                }
            }
        }
    }
}

/// Returns the number of parts that the sum over `n` examples is cut into.
fn parts(convolution: &Convolution, n: usize) -> usize {
    let taps: usize = convolution.windows.iter().map(|w| w.kernel).product();
    let weights = convolution.outputs * convolution.inputs * taps;
    let summed = n * convolution.positions().size();
    let most = match weights >= MANY_WEIGHTS {
        _ if weights * summed <= FEW_PRODUCTS => 1,
        true => (summed / LONG_PART).max(1),
        false => PARTS,
    };
    most.min(PARTS).min(n)
}

/// Returns the elements of a row-major array.
fn dense<T: Float>(x: &Array) -> Cow<'_, [T]> {
    match x.as_slice() {
        Some(elements) => Cow::Borrowed(elements),
        None => {
            let value = x.inline().expect("row-major or a repeated value");
            Cow::Owned(list(T::from_scalar(value), x.size()))
        }
    }
}
