//! The transforms along the last axis, as linear functions.

use bibun_array::{Array, Fourier, fourier};

use crate::batch::Batched;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule};
use crate::functions::{concat, moveaxis, pad, part, slice};
use crate::variable::Variable;

/// A transform along the last axis, times a number.
#[derive(Clone, Debug)]
pub(super) struct Transform {
    pub(super) transform: Fourier,
    pub(super) scale: f64,
}

impl LinearRule for Transform {
    fn name(&self) -> &'static str {
        match self.transform {
            Fourier::Forward => "fft",
            Fourier::Inverse => "ifft",
            Fourier::Real => "rfft",
            Fourier::RealInverse(_) => "irfft",
        }
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        match self.transform.output(&x.shape, x.dtype) {
            Some((shape, dtype)) => Ok(Spec::new(shape, dtype)),
            None => Err(Mismatch::new(
                &[("x", x)],
                "the last axis must have elements",
            )),
        }
    }

    fn forward(&self, x: Array) -> Array {
        fourier(&x, self.transform, self.scale)
    }

    /// The transpose of a transform of complex numbers is the other one, that of one of real numbers
    /// the other one but for the weights of the numbers that stand for their conjugates, too.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        let of = |transform| Self {
            transform,
            scale: self.scale,
        };
        match self.transform {
            Fourier::Forward => Linear::of(of(Fourier::Inverse), gy),
            Fourier::Inverse => Linear::of(of(Fourier::Forward), gy),
            Fourier::Real => {
                let n = x.shape[x.shape.rank() - 1];
                let weighted = weighted(gy, n, 0.5);
                Linear::of(of(Fourier::RealInverse(n)), weighted)
            }
            Fourier::RealInverse(n) => weighted(Linear::of(of(Fourier::Real), gy), n, 2.0),
        }
    }

    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        let last = x.shape.rank() - 1;
        match gy.examples.axis() == last {
            true => ExampleGradient::Unknown,
            false => ExampleGradient::sliced(self.transpose(x, gy.cotangent), gy.examples),
        }
    }
}

/// Multiplies the numbers of the last axis that stand for their conjugates, too, by a weight.
fn weighted(x: Variable, n: usize, weight: f64) -> Variable {
    let (count, axis) = (n / 2 + 1, x.rank() - 1);
    // The first stands for itself, and for an even number the last.
    let end = count - usize::from(n.is_multiple_of(2) && count > 1);
    // Of parts, and not by an array of weights, which would have to be on the device of x.
    let weighted = part(&x, axis, 1, end) * weight;
    let parts = [part(&x, axis, 0, 1), weighted, part(&x, axis, end, count)];
    concat(
        parts.iter().filter(|part| part.size() > 0 || x.size() == 0),
        -1,
    )
}

/// Applies a transform along an axis.
#[track_caller]
pub(super) fn along(x: Variable, axis: usize, transform: Transform) -> Variable {
    let last = x.rank() - 1;
    if axis == last {
        return Linear::of(transform, x);
    }
    let moved = moveaxis(x, axis as isize, -1);
    moveaxis(Linear::of(transform, moved), -1, axis as isize)
}

/// Cuts an axis, or fills it up by zeros, to a length.
#[track_caller]
pub(super) fn resized(x: Variable, axis: usize, length: usize) -> Variable {
    let (size, rank) = (x.shape()[axis], x.rank());
    if length < size {
        let mut index = vec![bibun_array::Index::ALL; axis];
        index.push(bibun_array::Index::from(0..length));
        return slice(x, &index);
    }
    if length == size {
        return x;
    }
    let mut widths = vec![(0usize, 0usize); rank];
    widths[axis].1 = length - size;
    pad(x, &widths, 0.0)
}

/// Returns the size of an axis, of which there must be some elements.
#[track_caller]
pub(super) fn size_of(function: &'static str, x: &Variable, axis: usize) -> usize {
    match x.shape()[axis] {
        0 => {
            let what = format!("x is {}; axis {axis} must have elements", x.spec());
            raise(Error::argument(function, what))
        }
        size => size,
    }
}
