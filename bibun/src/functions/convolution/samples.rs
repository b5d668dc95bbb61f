//! Samples and tests of convolutions, whose references are plain loops.

use bibun_array::{Array, DType, Window};

use super::conv::*;
use super::options::*;
use super::product::{CONVOLUTION, TRANSPOSED, named};
use crate::variable::Variable;

/// Calls `each` with all indices of a shape, in row-major order.
fn for_each_index(sizes: &[usize], mut each: impl FnMut(&[usize])) {
    let mut index = vec![0; sizes.len()];
    for i in 0..sizes.iter().product() {
        let mut rest = i;
        for (at, size) in index.iter_mut().zip(sizes).rev() {
            *at = rest % size;
            rest /= size;
        }
        each(&index);
    }
}

/// Returns the position in a row-major array.
fn place(shape: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    shape
        .iter()
        .zip(index)
        .fold(0, |place, (&size, i)| place * size + i)
}

/// Calls `each` with the positions of every x, w and y that belong together in a convolution, by plain
/// loops.
fn meetings(
    [x, w, y]: [&[usize]; 3],
    windows: &[Window],
    groups: usize,
    mut each: impl FnMut(usize, usize, usize),
) {
    let (inputs, outputs) = (w[1], w[0] / groups);
    for_each_index(&[y, &w[1..]].concat(), |p| {
        let (of_y, c, k) = (&p[..y.len()], p[y.len()], &p[y.len() + 1..]);
        let spatial = windows.iter().enumerate().map(|(axis, window)| {
            let at = of_y[axis + 2] * window.stride + k[axis] * window.dilation;
            at.checked_sub(window.padding[0])
                .filter(|&at| at < x[axis + 2])
        });
        let Some(spatial) = spatial.collect::<Option<Vec<usize>>>() else {
            return;
        };
        let channel = of_y[1] / outputs * inputs + c;
        each(
            place(x, [of_y[0], channel].into_iter().chain(spatial)),
            place(w, [of_y[1], c].into_iter().chain(k.iter().copied())),
            place(y, of_y.iter().copied()),
        );
    });
}

fn with_bias(mut y: Vec<f64>, shape: &[usize], b: Option<&Array>) -> Vec<Array> {
    if let Some(b) = b {
        let channel: usize = shape[2..].iter().product();
        for (i, y) in y.iter_mut().enumerate() {
            *y += b.to_vec::<f64>()[i / channel % shape[1]];
        }
    }
    vec![Array::from_vec(y, shape)]
}

/// Returns the windows of a kernel w.
fn windows<const N: usize>(
    w: &[usize],
    stride: [usize; N],
    padding: [[usize; 2]; N],
    dilation: [usize; N],
) -> [Window; N] {
    std::array::from_fn(|axis| Window {
        kernel: w[axis + 2],
        stride: stride[axis],
        padding: padding[axis],
        dilation: dilation[axis],
    })
}

/// Returns a sample of a convolution, with its padding in numbers for the reference.
fn sample<const N: usize>(
    x: &'static [usize],
    w: &'static [usize],
    y: &'static [usize],
    bias: bool,
    options: ConvOptions<N>,
    padding: [[usize; 2]; N],
) -> crate::conformance::Sample {
    let windows = windows(w, options.stride, padding, options.dilation);
    let sample = crate::conformance::Sample::new(
        named(CONVOLUTION, N),
        move |x| vec![conv(x[0].clone(), x[1].clone(), x.get(2), &options)],
        move |inputs| {
            let (a, b) = (inputs[0].to_vec::<f64>(), inputs[1].to_vec::<f64>());
            let mut out = vec![0.0; y.iter().product()];
            meetings([x, w, y], &windows, options.groups, |i, j, k| {
                out[k] += a[i] * b[j]
            });
            with_bias(out, y, inputs.get(2))
        },
    );
    let sample = sample.input(x, -2.0..2.0).input(w, -2.0..2.0);
    if bias {
        sample.input([y[1]], -2.0..2.0)
    } else {
        sample
    }
}

/// Returns a sample of a transposed convolution, from y of the convolution to x.
fn transposed_sample<const N: usize>(
    y: &'static [usize],
    w: &'static [usize],
    x: &'static [usize],
    bias: bool,
    options: ConvTransposeOptions<N>,
    padding: [[usize; 2]; N],
) -> crate::conformance::Sample {
    let windows = windows(w, options.stride, padding, options.dilation);
    let sample = crate::conformance::Sample::new(
        named(TRANSPOSED, N),
        move |x| {
            vec![conv_transpose(
                x[0].clone(),
                x[1].clone(),
                x.get(2),
                &options,
            )]
        },
        move |inputs| {
            let (a, b) = (inputs[0].to_vec::<f64>(), inputs[1].to_vec::<f64>());
            let mut out = vec![0.0; x.iter().product()];
            meetings([x, w, y], &windows, options.groups, |i, j, k| {
                out[i] += a[k] * b[j]
            });
            with_bias(out, x, inputs.get(2))
        },
    );
    let sample = sample.input(y, -2.0..2.0).input(w, -2.0..2.0);
    if bias {
        sample.input([x[1]], -2.0..2.0)
    } else {
        sample
    }
}

/// Returns a sample of a batch of one example as one of the example itself.
fn of_one_example(sample: crate::conformance::Sample) -> crate::conformance::Sample {
    use std::sync::Arc;

    let reference = Arc::clone(&sample.reference);
    let mut sample = sample;
    sample.inputs[0].0 = sample.inputs[0].0.removed(0);
    sample.reference = Arc::new(move |inputs| {
        let mut inputs = inputs.to_vec();
        inputs[0] = inputs[0].expand_dims(0);
        let results = reference(&inputs).into_iter();
        results.map(|y| y.reshape(y.shape().removed(0))).collect()
    });
    sample
}

pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    let one = ConvOptions::<1>::default();
    let two = ConvOptions::<2>::default();
    let back_one = ConvTransposeOptions::<1>::default();
    let back_two = ConvTransposeOptions::<2>::default();
    vec![
        sample(
            &[2, 3, 5],
            &[2, 3, 2],
            &[2, 2, 2],
            true,
            ConvOptions { stride: [2], ..one },
            [[0, 0]],
        ),
        // Depthwise, two outputs for each channel, strided and dilated.
        sample(
            &[2, 3, 6],
            &[6, 1, 2],
            &[2, 6, 3],
            false,
            ConvOptions {
                stride: [2],
                padding: 1.into(),
                dilation: [3],
                groups: 3,
            },
            [[1, 1]],
        ),
        // A kernel that lies in the padding altogether, and no elements at all.
        sample(
            &[1, 2, 0],
            &[1, 2, 2],
            &[1, 1, 2],
            true,
            ConvOptions {
                padding: Padding::Pairs([(1, 2)]),
                ..one
            },
            [[1, 2]],
        ),
        sample(
            &[2, 2, 5, 3],
            &[3, 2, 3, 2],
            &[2, 3, 3, 3],
            true,
            ConvOptions {
                stride: [2, 1],
                padding: Padding::Same,
                ..two
            },
            [[1, 1], [0, 1]],
        ),
        // Groups, dilation, unequal padding.
        sample(
            &[1, 4, 4, 3],
            &[2, 2, 2, 1],
            &[1, 2, 3, 2],
            false,
            ConvOptions {
                stride: [1, 2],
                padding: Padding::Pairs([(1, 0), (0, 1)]),
                dilation: [2, 1],
                groups: 2,
            },
            [[1, 0], [0, 1]],
        ),
        // Depthwise, and of size 1.
        sample(
            &[2, 2, 3, 4],
            &[2, 1, 2, 3],
            &[2, 2, 4, 4],
            true,
            ConvOptions {
                padding: [1, 1].into(),
                groups: 2,
                ..two
            },
            [[1, 1], [1, 1]],
        ),
        sample(
            &[2, 3, 2, 2],
            &[2, 3, 1, 1],
            &[2, 2, 2, 2],
            true,
            two,
            [[0, 0], [0, 0]],
        ),
        sample(
            &[1, 2, 3, 2, 3],
            &[2, 2, 2, 1, 2],
            &[1, 2, 2, 2, 2],
            false,
            ConvOptions {
                stride: [2, 1, 2],
                padding: [1, 0, 1].into(),
                ..ConvOptions::new()
            },
            [[1, 1], [0, 0], [1, 1]],
        ),
        of_one_example(sample(
            &[1, 2, 4, 3],
            &[3, 2, 2, 2],
            &[1, 3, 2, 2],
            true,
            ConvOptions {
                stride: [2, 1],
                ..two
            },
            [[0, 0], [0, 0]],
        )),
        of_one_example(transposed_sample(
            &[1, 2, 3],
            &[2, 1, 2],
            &[1, 1, 6],
            true,
            ConvTransposeOptions {
                stride: [2],
                ..back_one
            },
            [[0, 0]],
        )),
        transposed_sample(
            &[2, 3, 2],
            &[3, 2, 3],
            &[2, 2, 4],
            true,
            ConvTransposeOptions {
                stride: [2],
                padding: 1.into(),
                output_padding: [1],
                ..back_one
            },
            [[1, 1]],
        ),
        transposed_sample(
            &[2, 2, 2],
            &[2, 1, 2],
            &[2, 2, 7],
            false,
            ConvTransposeOptions {
                stride: [3],
                dilation: [3],
                groups: 2,
                ..back_one
            },
            [[0, 0]],
        ),
        transposed_sample(
            &[2, 4, 2, 2],
            &[4, 1, 3, 2],
            &[2, 2, 4, 2],
            true,
            ConvTransposeOptions {
                stride: [2, 1],
                padding: Padding::Same,
                groups: 2,
                ..back_two
            },
            [[0, 1], [0, 1]],
        ),
        transposed_sample(
            &[1, 2, 2, 1],
            &[2, 3, 1, 1],
            &[1, 3, 2, 1],
            false,
            back_two,
            [[0, 0], [0, 0]],
        ),
        transposed_sample(
            &[1, 2, 2, 1, 2],
            &[2, 1, 2, 2, 1],
            &[1, 1, 3, 2, 2],
            true,
            ConvTransposeOptions::<3>::default(),
            [[0, 0]; 3],
        ),
    ]
}

mod tests {
    use super::*;
    use crate::{attempt, grad, vmap};

    fn zeros(shape: &[usize]) -> Variable {
        Variable::new(Array::zeros(shape, DType::F32))
    }

    #[test]
    fn mistakes_are_named() {
        let x = zeros(&[2, 4, 5]);
        let message = |w: &[usize], b: Option<&Variable>, options| {
            attempt(|| conv1d(&x, zeros(w), b, options))
                .unwrap_err()
                .to_string()
        };
        let one = ConvOptions::new();
        let found = message(&[3, 2, 2], Some(&zeros(&[3])), one);
        assert!(found.starts_with("conv1d: "), "{found}");
        let shapes =
            "x [n, i, l] = [2, 4, 5] f32, w [o, i / groups, k] = [3, 2, 2] f32, b [o] = [3] f32";
        assert!(found.contains(shapes), "{found}");
        assert!(
            found.contains("the i of x must be that of w, and groups is 1"),
            "{found}"
        );
        let of_single = attempt(|| conv1d(zeros(&[4, 5]), zeros(&[3, 2, 2]), None, one));
        let found = of_single.unwrap_err().to_string();
        assert!(found.contains("x [i, l] = [4, 5] f32, w "), "{found}");
        let two = ConvOptions { groups: 2, ..one };
        assert!(
            message(&[3, 2, 2], None, two).contains("o must be a multiple of groups, which is 2")
        );
        assert!(
            message(&[3, 4, 6], None, one).contains("reaches over 6 elements does not fit into 5")
        );
        assert!(message(&[3, 4, 0], None, one).contains("must not be empty"));
        assert!(message(&[3, 4], None, one).contains("3 axes"));
        assert!(message(&[3, 4, 1], Some(&zeros(&[4])), one).contains("each output channel"));
        let still = ConvOptions { stride: [0], ..one };
        assert!(message(&[3, 4, 1], None, still).contains("stride is 0"));

        let message = |w: &[usize], options| {
            attempt(|| conv_transpose1d(&x, zeros(w), None, options))
                .unwrap_err()
                .to_string()
        };
        let one = ConvTransposeOptions::new();
        assert!(message(&[3, 2, 2], one).contains("w [i, o / groups, k] = [3, 2, 2] f32"));
        let longer = ConvTransposeOptions {
            output_padding: [1],
            ..one
        };
        assert!(message(&[4, 2, 2], longer).contains("less than the stride"));
        let less = ConvTransposeOptions {
            padding: 9.into(),
            ..one
        };
        assert!(message(&[4, 2, 2], less).contains("takes away more than the 6"));
    }

    #[test]
    fn same_keeps_what_the_stride_leaves() {
        for (size, stride, dilation) in [(5, 1, 1), (5, 2, 1), (6, 3, 2), (1, 2, 1), (7, 4, 1)] {
            let (x, w) = (zeros(&[1, 1, size]), zeros(&[1, 1, 3]));
            let options = ConvOptions {
                stride: [stride],
                padding: Padding::Same,
                dilation: [dilation],
                groups: 1,
            };
            let y = conv1d(&x, &w, None, options);
            assert_eq!(y.shape(), [1, 1, size.div_ceil(stride)]);
            let options = ConvTransposeOptions {
                stride: [stride],
                padding: Padding::Same,
                dilation: [dilation],
                ..Default::default()
            };
            let x = conv_transpose1d(&y, &w, None, options);
            assert_eq!(x.shape(), [1, 1, size.div_ceil(stride) * stride]);
        }
    }

    /// Sizes at which patches are made in several parts, sums are cut and threads are used, against
    /// plain loops.
    #[test]
    fn large_ones_are_like_loops() {
        let mut generator = bibun_array::Generator::new(3);
        let cases = [
            ([8, 8, 24, 25], [16, 8, 3, 3], [1, 1], [1, 1], 1),
            ([5, 4, 40, 33], [12, 4, 3, 3], [2, 1], [1, 1], 1),
            ([5, 8, 21, 22], [16, 2, 3, 2], [1, 1], [1, 2], 4),
            ([3, 48, 30, 31], [48, 1, 3, 3], [1, 2], [1, 1], 48),
            ([9, 12, 20, 20], [20, 12, 1, 1], [1, 1], [0, 0], 1),
            ([1, 20, 40, 26], [6, 20, 3, 3], [1, 1], [1, 0], 1),
        ];
        for (x, w, stride, padding, groups) in cases {
            let options = ConvOptions {
                stride,
                padding: padding.into(),
                dilation: [1, 1],
                groups,
            };
            let [a, b] = [&x, &w]
                .map(|shape| Variable::new(generator.normal(&shape[..], 0.0, 1.0, DType::F64)));
            let y = conv2d(&a, &b, None, options);
            let gy = Variable::constant(generator.normal(y.shape(), 0.0, 1.0, DType::F64));
            let windows = [0, 1].map(|axis| Window {
                kernel: w[axis + 2],
                stride: stride[axis],
                padding: [padding[axis]; 2],
                dilation: 1,
            });
            let values = [&a, &b, &gy].map(|x| x.to_vec::<f64>());
            let mut sums = values.clone().map(|x| vec![0.0; x.len()]);
            meetings([&x, &w, &y.shape()], &windows, groups, |i, j, k| {
                sums[0][i] += values[1][j] * values[2][k];
                sums[1][j] += values[0][i] * values[2][k];
                sums[2][k] += values[0][i] * values[1][j];
            });
            (&y * &gy).sum(..).backward();
            let found = [a.grad().unwrap(), b.grad().unwrap(), y.clone()];
            for (found, expected) in found.iter().zip(&sums) {
                let wrong = found
                    .to_vec::<f64>()
                    .iter()
                    .zip(expected)
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f64::max);
                assert!(wrong < 1e-10, "{x:?} {w:?}: off by {wrong:e}");
            }
        }
    }

    #[test]
    fn gradients_of_examples_are_groups() {
        let mut generator = bibun_array::Generator::new(5);
        let x = Variable::constant(generator.normal([4, 1, 3, 6], 0.0, 1.0, DType::F64));
        let w = Variable::constant(generator.normal([2, 3, 2], 0.0, 1.0, DType::F64));
        let loss =
            |w: &Variable, x: &Variable| conv1d(x, w, None, ConvOptions::new()).square().sum(..);
        let each = vmap(|x: &Variable| grad(|w: &Variable| loss(w, x), &w), &x);
        assert_eq!(each.shape(), [4, 2, 3, 2]);
        let all = grad(|w: &Variable| loss(w, &x.reshape([4, 3, 6])), &w);
        let wrong = (each.sum(0) - all).abs().max(..);
        assert!(wrong.item::<f64>() < 1e-12);
    }
}
