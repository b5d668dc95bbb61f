//! Initializers of weights with a known function: passing the input on, or enlarging it.

use bibun_array::{Array, DType, Generator, Shape};

use super::Initializer;
use crate::error::{Error, raise};

/// A multiple of the identity, for square weights.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Identity, Initializer};
/// let w = Identity { gain: 2.0 }.initialize(&[2, 2].into(), DType::F64, &mut Generator::new(0));
/// assert_eq!(w.to_vec::<f64>(), [2.0, 0.0, 0.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The value on the diagonal.
    pub gain: f64,
}

impl Initializer for Identity {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        match shape.dims() {
            Some([rows, columns]) if rows == columns => {}
            _ => {
                let what = format!("the shape is {shape}, expected the one of a square matrix");
                raise(Error::argument("Identity", what));
            }
        }
        from_elements(shape, dtype, |index| {
            if index[0] == index[1] { self.gain } else { 0.0 }
        })
    }
}

/// Kernels of a convolution that passes its input on: the middle of the kernel is one where output
/// and input channel are the same, and everything else is zero. Output channels without a
/// corresponding input channel are zero.
///
/// With groups, the channels of each group pass on those of the group. The middle of a kernel of
/// even size is the element after the centre. For weights `[o, i / groups, kernel..]`.
///
/// Source: Zagoruyko, Komodakis, "DiracNets", arXiv:1706.00388, 2017.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::Dirac;
/// use bibun::links::{Conv1d, Link};
/// use bibun::Variable;
/// let layer = Conv1d::builder(1, 1, 3).padding(1).initializer(Dirac { groups: 1 });
/// let layer = layer.build(&mut Generator::new(0));
/// let x = Variable::constant([[[1.0f32, 2.0, 3.0]]]);
/// assert_eq!(layer.forward(&x).to_vec::<f32>(), [1.0, 2.0, 3.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dirac {
    /// The number of groups of the convolution; 1 for an ordinary one.
    pub groups: usize,
}

impl Initializer for Dirac {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        let groups = self.groups;
        let outputs = match &**shape {
            [outputs, _, _, ..] if groups > 0 && outputs.is_multiple_of(groups) => outputs / groups,
            _ => {
                let what = format!(
                    "the shape is {shape}, expected the one of a convolution's weight, \
                     [o, i, kernel..], with o a multiple of {groups}"
                );
                raise(Error::argument("Dirac", what))
            }
        };
        from_elements(shape, dtype, |index| {
            let mut kernel = index[2..].iter().zip(&shape[2..]);
            let is_middle = kernel.all(|(&at, &size)| at == size / 2);
            if is_middle && index[0] % outputs == index[1] {
                1.0
            } else {
                0.0
            }
        })
    }
}

/// Kernels of a transposed convolution over two axes that enlarges its input by linear
/// interpolation: with a stride of `s`, a kernel of `2 s - s % 2` and a padding of
/// `(s - s % 2) / 2`, it enlarges `s` times.
///
/// Each channel is enlarged separately. For weights `[i, o, height, width]`.
///
/// Source: Long, Shelhamer, Darrell, "Fully Convolutional Networks for Semantic Segmentation",
/// CVPR 2015.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, LinearUpsampling};
/// let w = LinearUpsampling.initialize(&[1, 1, 1, 4].into(), DType::F64, &mut Generator::new(0));
/// assert_eq!(w.to_vec::<f64>(), [0.25, 0.75, 0.75, 0.25]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinearUpsampling;

impl Initializer for LinearUpsampling {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, _: &mut Generator) -> Array {
        if shape.rank() != 4 {
            let what = format!(
                "the shape is {shape}, expected the one of a transposed convolution's weight, \
                 [i, o, height, width]"
            );
            raise(Error::argument("LinearUpsampling", what));
        }
        // A tent function over the kernel, whose peak is in the middle.
        let height = |at: usize, size: usize| {
            let half = size.div_ceil(2) as f64;
            let middle = if size % 2 == 1 {
                half - 1.0
            } else {
                half - 0.5
            };
            1.0 - (at as f64 - middle).abs() / half
        };
        from_elements(shape, dtype, |index| match index[0] == index[1] {
            true => height(index[2], shape[2]) * height(index[3], shape[3]),
            false => 0.0,
        })
    }
}

/// Creates an array whose elements are computed from their index.
fn from_elements(shape: &Shape, dtype: DType, element: impl Fn(&[usize]) -> f64) -> Array {
    let mut index = vec![0; shape.rank()];
    let elements: Vec<f64> = (0..shape.size())
        .map(|position| {
            let mut rest = position;
            for (at, &size) in index.iter_mut().zip(shape.iter()).rev() {
                (*at, rest) = (rest % size, rest / size);
            }
            element(&index)
        })
        .collect();
    Array::from_vec(elements, shape).cast(dtype)
}
