//! Convolutions whose kernels have one element: products of matrices.

use super::super::matmul::sum_of_products;
use super::super::tile::Float;
use crate::convolution::{Convolution, ConvolutionPart, Window};
use crate::{Array, matmul};

/// A kernel of one element.
const POINT: Window = Window {
    kernel: 1,
    stride: 1,
    padding: [0, 0],
    dilation: 1,
};
/// The sizes from which on matrices are worth a product.
const MATRIX: usize = 16;

/// Returns a convolution of the same numbers in memory without steps that no kernel makes, and of one axis
/// where kernels have one element.
pub(super) fn simplified(convolution: &Convolution) -> Convolution {
    let windows = convolution.sizes.iter().zip(&convolution.windows);
    let windows = windows.map(|(&size, window)| match window.positions(size) {
        // Memory is laid out in steps, and a step may be far longer than the axis.
        Some(1) => Window {
            stride: window.padded(size) - window.extent() + 1,
            ..*window
        },
        _ => *window,
    });
    let same = Convolution {
        windows: windows.collect(),
        ..convolution.clone()
    };
    let plain = |window: &Window| {
        Window {
            dilation: 1,
            ..*window
        } == POINT
    };
    match same.windows.iter().all(plain) {
        true => Convolution {
            sizes: [same.sizes.size()].into(),
            windows: [POINT].into_iter().collect(),
            ..same
        },
        false => same,
    }
}

/// Returns whether a convolution is a product of existing matrices that are large enough.
pub(super) fn is_product(convolution: &Convolution) -> bool {
    let [window] = convolution.windows[..] else {
        return false;
    };
    let sizes = [
        convolution.inputs,
        convolution.outputs,
        convolution.sizes[0],
    ];
    window == POINT && sizes.iter().all(|&size| size >= MATRIX)
}

/// Computes a convolution whose kernels have one element by products of matrices.
pub(super) fn pointwise<T: Float>(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
    n: usize,
) -> Array {
    let Convolution {
        groups,
        inputs,
        outputs,
        ref sizes,
        ..
    } = *convolution;
    let every = |part: &Array, channels: usize| part.reshape([n, groups, channels, sizes[0]]);
    let kernels = |w: &Array| {
        let w = w.reshape([groups, outputs, inputs]);
        w.broadcast_to([n, groups, outputs, inputs])
    };
    match made {
        ConvolutionPart::Output => matmul(&kernels(b), &every(a, inputs)),
        ConvolutionPart::Input => matmul(&kernels(a).swapaxes(-1, -2), &every(b, outputs)),
        ConvolutionPart::Weights => {
            sum_of_products::<T>(&every(b, outputs), &every(a, inputs).swapaxes(-1, -2))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::matmul::PRODUCTS;
    use crate::{DType, Generator};

    #[test]
    fn kernels_of_one_element_are_products_of_matrices() {
        let products = |kernel, made: ConvolutionPart| {
            let window = Window {
                kernel,
                stride: 1,
                padding: [0; 2],
                dilation: 1,
            };
            let convolution = Convolution {
                groups: 1,
                inputs: 32,
                outputs: 32,
                sizes: [8, 8].into(),
                windows: [window; 2].into_iter().collect(),
            };
            let [a, b] = made.others().map(|part| {
                Generator::new(0).normal(convolution.shape(part, 2), 0.0, 1.0, DType::F32)
            });
            let before = PRODUCTS.get();
            let _ = convolution.product(made, &a, &b);
            PRODUCTS.get() - before
        };
        use ConvolutionPart::{Input, Output, Weights};
        for made in [Output, Input, Weights] {
            assert_eq!((products(1, made), products(3, made)), (1, 0), "{made:?}");
        }
    }
}
