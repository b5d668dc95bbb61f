//! Convolutions of some examples at a time, which the next step of a program reads while they are in the
//! cache.

use std::fmt;

use super::channels::packed;
use super::correlation::Correlation;
use super::memory::{Scratch, Unit};
use super::pointwise::{is_product, simplified};
use super::{Convolution, ConvolutionPart, dense};
use crate::cpu::matmul::{Matrix, MatrixProduct};
use crate::cpu::tile::Float;
use crate::dtype::with_float;
use crate::storage::Buffer;
use crate::{Array, DType, Element, Slice, SliceMut};

/// A convolution whose examples are computed some at a time, each with the bits of
/// [`convolve`](super::convolve).
pub(crate) struct ConvolutionRows {
    convolution: Convolution,
    made: ConvolutionPart,
    /// `None` if each example is a product of matrices.
    correlation: Option<Correlation>,
    /// The number of multiplications for one example.
    products: usize,
}

impl fmt::Debug for ConvolutionRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.convolution, self.made).fmt(f)
    }
}

/// The weights of a convolution as they are read.
pub(in crate::cpu) struct Weights {
    matrix: Buffer,
    /// The same for vectors of channels.
    panels: Option<Buffer>,
}

impl ConvolutionRows {
    /// The convolution of `n` examples, or `None` if what it makes has no rows for them.
    pub(crate) fn new(
        convolution: &Convolution,
        made: ConvolutionPart,
        n: usize,
        dtype: DType,
    ) -> Option<Self> {
        if !matches!(dtype, DType::F32 | DType::F64) {
            return None;
        }
        let unit = with_float!(dtype, T => Unit::of::<T>());
        let convolution = simplified(convolution);
        let sizes = |part| convolution.shape(part, n).size();
        let weights = sizes(ConvolutionPart::Weights);
        let others = [ConvolutionPart::Input, ConvolutionPart::Output].map(sizes);
        if weights == 0 || others.contains(&0) {
            return None;
        }
        let correlation = match made {
            ConvolutionPart::Weights => return None,
            _ if is_product(&convolution) => None,
            ConvolutionPart::Output => Some(Correlation::forward(&convolution, n, unit)),
            ConvolutionPart::Input => Some(Correlation::backward(&convolution, n, unit)),
        };
        Some(Self {
            products: weights * convolution.positions().size(),
            convolution,
            made,
            correlation,
        })
    }

    /// The number of examples that are computed together, of which some at a time are a multiple.
    pub(crate) fn at_once(&self) -> usize {
        self.correlation.as_ref().map_or(1, |own| own.block)
    }

    /// The number of multiplications for one example.
    pub(crate) fn products(&self) -> usize {
        self.products
    }

    /// The weights as [`run`](Self::run) reads them.
    pub(in crate::cpu) fn weights(&self, w: &Array) -> Weights {
        let w = w.to_row_major();
        with_float!(w.dtype(), T => {
            let elements = dense::<T>(&w);
            let copied = || {
                let mut copy = Buffer::new::<T>(elements.len());
                copy.as_mut_slice::<T>().copy_from_slice(&elements);
                copy
            };
            let matrix = match (&self.correlation, self.made) {
                (Some(correlation), ConvolutionPart::Input) => correlation.turned(&elements),
                _ => copied(),
            };
            let panels = self.correlation.as_ref().filter(|own| own.is_in_channels());
            let panels = panels.map(|own| packed(own, own.outputs, matrix.as_slice::<T>()));
            Weights { matrix, panels }
        })
    }

    /// The memory that a thread works in.
    pub(in crate::cpu) fn scratch(&self, dtype: DType) -> Option<Scratch> {
        let correlation = self.correlation.as_ref()?;
        Some(with_float!(dtype, T => correlation.scratch::<T>()))
    }

    /// Computes the results of the examples in `x`.
    pub(in crate::cpu) fn run(
        &self,
        x: Slice<'_>,
        weights: &Weights,
        scratch: Option<&mut Scratch>,
        out: SliceMut<'_>,
    ) {
        with_float!(x.dtype(), T => {
            let x = T::from_slice(x).expect("it has the dtype that was asked");
            let out = T::from_slice_mut(out).expect("all have the same dtype");
            let w = weights.matrix.as_slice::<T>();
            match (&self.correlation, scratch) {
                (Some(correlation), Some(scratch)) => {
                    let panels = weights.panels.as_ref().map(|panels| panels.as_slice::<T>());
                    correlation.run_some(x, (w, panels), scratch, out);
                }
                _ => self.multiply(x, w, out),
            }
        });
    }

    /// One product of matrices for each group of each example.
    fn multiply<T: Float>(&self, x: &[T], w: &[T], out: &mut [T]) {
        let Convolution {
            groups,
            inputs,
            outputs,
            ref sizes,
            ..
        } = self.convolution;
        let size = sizes[0];
        let (m, k) = match self.made {
            ConvolutionPart::Input => (inputs, outputs),
            _ => (outputs, inputs),
        };
        let both = out.chunks_exact_mut(m * size).zip(x.chunks_exact(k * size));
        for (i, (out, x)) in both.enumerate() {
            let w = &w[i % groups * inputs * outputs..][..inputs * outputs];
            let w = Matrix::of_rows(w, inputs);
            let product = MatrixProduct {
                m,
                n: size,
                k,
                alpha: T::ONE,
                a: match self.made {
                    ConvolutionPart::Input => w.transposed(),
                    _ => w,
                },
                b: Matrix::of_rows(x, size),
                beta: T::ZERO,
                addend: None,
                out,
                step: size,
            };
            T::product(product, false);
        }
    }
}
