//! Convolutions against plain loops, at sizes that meet every way in which they are made.

use ConvolutionPart::{Input, Output, Weights};
use bibun_array::{Array, Convolution, ConvolutionPart, DType, Generator, Shape, Window, s};

use crate::common::same_for_all_thread_counts;

const PARTS: [ConvolutionPart; 3] = [Input, Weights, Output];

fn convolution(
    groups: usize,
    [inputs, outputs]: [usize; 2],
    axes: &[(usize, [usize; 5])],
) -> Convolution {
    let window = |&(_, [kernel, stride, before, after, dilation]): &(usize, [usize; 5])| Window {
        kernel,
        stride,
        padding: [before, after],
        dilation,
    };
    Convolution {
        groups,
        inputs,
        outputs,
        sizes: axes.iter().map(|axis| axis.0).collect(),
        windows: axes.iter().map(window).collect(),
    }
}

/// Examples and what they meet: many sizes that divide nothing.
fn cases() -> Vec<(usize, Convolution)> {
    vec![
        // One channel that a large kernel moves over in steps.
        (3, convolution(1, [1, 16], &[(28, [8, 2, 3, 3, 1]); 2])),
        // Several examples in a tile, whose positions do not fill its vectors.
        (5, convolution(1, [16, 32], &[(13, [4, 2, 0, 0, 1]); 2])),
        (
            37,
            convolution(1, [5, 11], &[(5, [3, 1, 1, 0, 1]), (4, [2, 1, 0, 1, 1])]),
        ),
        (19, convolution(2, [3, 7], &[(4, [3, 1, 1, 1, 1]); 2])),
        // Rows that fill vectors, and rows that do not.
        (2, convolution(1, [3, 10], &[(32, [3, 1, 1, 1, 1]); 2])),
        (2, convolution(1, [32, 12], &[(26, [3, 1, 0, 0, 1]); 2])),
        (9, convolution(1, [40, 24], &[(8, [3, 1, 1, 1, 1]); 2])),
        // Steps, dilation and padding that differ between axes.
        (
            2,
            convolution(1, [6, 9], &[(17, [3, 2, 1, 2, 2]), (23, [4, 3, 0, 3, 1])]),
        ),
        (
            2,
            convolution(3, [4, 5], &[(16, [3, 1, 2, 2, 2]), (19, [2, 2, 1, 0, 3])]),
        ),
        // Steps longer than the kernel, and more padding than it reaches.
        (
            3,
            convolution(1, [4, 3], &[(11, [1, 3, 0, 0, 1]), (10, [2, 4, 0, 1, 1])]),
        ),
        (
            2,
            convolution(1, [2, 3], &[(6, [2, 1, 4, 3, 1]), (7, [3, 2, 5, 6, 1])]),
        ),
        // Steps longer than memory, which no kernel makes.
        (
            2,
            convolution(
                1,
                [4, 3],
                &[(11, [3, 1 << 40, 1, 0, 2]), (10, [2, 4, 0, 1, 1])],
            ),
        ),
        (2, convolution(2, [3, 32], &[(9, [5, 1 << 40, 0, 2, 1]); 2])),
        (2, convolution(3, [1, 1], &[(9, [5, 1 << 40, 0, 2, 1]); 2])),
        (
            3,
            convolution(1, [20, 33], &[(9, [1, 1 << 40, 0, 0, 1]); 2]),
        ),
        // Steps that leave out most elements.
        (
            2,
            convolution(1, [3, 4], &[(70, [3, 30, 1, 0, 2]), (41, [2, 20, 0, 0, 1])]),
        ),
        (2, convolution(2, [2, 20], &[(700, [3, 300, 0, 1, 1])])),
        // Vectors of channels whose positions meet padding: many at the border, in several tiles and parts; such
        // that meet padding alone; steps and three axes.
        (2, convolution(1, [3, 32], &[(33, [5, 1, 2, 2, 1]); 2])),
        (9, convolution(1, [40, 64], &[(8, [3, 1, 1, 1, 1]); 2])),
        (
            3,
            convolution(1, [70, 48], &[(6, [2, 1, 4, 3, 1]), (7, [3, 2, 5, 6, 1])]),
        ),
        (
            3,
            convolution(2, [17, 16], &[(9, [3, 2, 2, 1, 2]), (12, [4, 3, 1, 3, 1])]),
        ),
        (
            2,
            convolution(
                1,
                [5, 16],
                &[
                    (5, [3, 1, 1, 1, 1]),
                    (4, [3, 1, 1, 1, 2]),
                    (9, [5, 1, 2, 2, 1]),
                ],
            ),
        ),
        (4, convolution(1, [3, 20], &[(60, [90, 1, 45, 45, 1])])),
        // So many positions in padding that the first sums of weights have no products.
        (
            2,
            convolution(
                1,
                [16, 5],
                &[(3, [2, 1, 12, 12, 1]), (20, [2, 1, 12, 12, 1])],
            ),
        ),
        // One element, with and without steps.
        (3, convolution(1, [20, 33], &[(9, [1, 1, 0, 0, 1]); 2])),
        (70, convolution(1, [17, 8], &[(3, [1, 1, 0, 0, 4]); 2])),
        (2, convolution(2, [8, 16], &[(16, [1, 1, 0, 0, 1]); 2])),
        (2, convolution(2, [16, 20], &[(5, [1, 1, 0, 0, 1]); 2])),
        (1, convolution(3, [18, 16], &[(5, [1, 1, 0, 0, 1]); 2])),
        // A channel for itself.
        (3, convolution(48, [1, 1], &[(16, [3, 1, 1, 1, 1]); 2])),
        (
            2,
            convolution(7, [1, 2], &[(30, [3, 1, 1, 1, 1]), (21, [3, 2, 1, 0, 2])]),
        ),
        // One output for each group: row by row, where a row is one vector to four and the number of rows is odd.
        (
            2,
            convolution(5, [1, 1], &[(9, [3, 1, 1, 1, 1]), (16, [3, 1, 1, 1, 1])]),
        ),
        (
            3,
            convolution(4, [2, 1], &[(7, [3, 1, 1, 1, 1]), (28, [5, 1, 2, 2, 1])]),
        ),
        (
            2,
            convolution(3, [1, 1], &[(5, [3, 1, 1, 1, 1]), (41, [3, 1, 2, 2, 2])]),
        ),
        (
            1,
            convolution(3, [1, 1], &[(11, [3, 1, 1, 0, 1]), (61, [3, 1, 1, 1, 1])]),
        ),
        // The same in lines of rows near each other or far apart, of several examples, longer
        // than is summed at once, and where steps leave some without a product.
        (37, convolution(5, [1, 1], &[(5, [3, 1, 1, 2, 1]); 2])),
        (
            2,
            convolution(4, [1, 1], &[(29, [3, 2, 1, 1, 1]), (31, [5, 2, 2, 1, 2])]),
        ),
        (
            1,
            convolution(3, [1, 1], &[(3, [2, 1, 0, 0, 1]), (2500, [3, 1, 1, 1, 1])]),
        ),
        (
            2,
            convolution(2, [9, 1], &[(11, [3, 1, 4, 0, 2]), (40, [3, 3, 30, 9, 4])]),
        ),
        (
            3,
            convolution(
                2,
                [3, 1],
                &[
                    (5, [1, 2, 0, 0, 1]),
                    (6, [3, 1, 1, 1, 1]),
                    (9, [2, 4, 0, 2, 2]),
                ],
            ),
        ),
        (2, convolution(8, [8, 8], &[(16, [3, 1, 1, 1, 1]); 2])),
        // Weights that no cache holds.
        (1, convolution(30, [64, 72], &[(4, [3, 1, 1, 1, 1]); 2])),
        // Other numbers of axes.
        (4, convolution(1, [3, 20], &[(200, [5, 2, 2, 2, 3])])),
        (1, convolution(2, [3, 4], &[(600, [7, 1, 3, 3, 1])])),
        (
            2,
            convolution(
                1,
                [4, 8],
                &[
                    (5, [2, 1, 1, 0, 1]),
                    (6, [3, 2, 1, 1, 1]),
                    (9, [3, 1, 0, 2, 2]),
                ],
            ),
        ),
        // Deep and wide enough to be cut.
        (3, convolution(1, [130, 70], &[(4, [3, 1, 1, 1, 1]); 2])),
    ]
}

fn normal(generator: &mut Generator, shape: &Shape, dtype: DType) -> Array {
    generator.normal(shape.clone(), 0.0, 1.0, dtype)
}

/// Indices of a row-major array of such sizes.
fn indices(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..sizes.iter().product::<usize>()).map(move |mut i| {
        let mut index = vec![0; sizes.len()];
        for (at, &size) in index.iter_mut().zip(sizes).rev() {
            *at = i % size;
            i /= size;
        }
        index
    })
}

fn place(sizes: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    sizes
        .iter()
        .zip(index)
        .fold(0, |place, (size, i)| place * size + i)
}

/// Input, weights and output by their definition, each from the other two.
fn by_loops(convolution: &Convolution, n: usize, parts: &[Vec<f64>; 3]) -> [Vec<f64>; 3] {
    let shapes = PARTS.map(|part| convolution.shape(part, n));
    let mut sums = shapes.clone().map(|shape| vec![0.0; shape.size()]);
    let stencil = indices(&shapes[1][2..]).collect::<Vec<_>>();
    let size = convolution.sizes.size();
    for y in indices(&shapes[2]) {
        let output = place(&shapes[2], y.iter().copied());
        let group = y[1] / convolution.outputs;
        for (t, tap) in stencil.iter().enumerate() {
            let read = convolution
                .windows
                .iter()
                .enumerate()
                .map(|(axis, window)| {
                    let at = y[axis + 2] * window.stride + tap[axis] * window.dilation;
                    at.checked_sub(window.padding[0])
                        .filter(|&at| at < convolution.sizes[axis])
                });
            let Some(read) = read.collect::<Option<Vec<usize>>>() else {
                continue;
            };
            let read = place(&convolution.sizes, read);
            for c in 0..convolution.inputs {
                let channel = y[0] * shapes[0][1] + group * convolution.inputs + c;
                let input = channel * size + read;
                let weight = (y[1] * convolution.inputs + c) * stencil.len() + t;
                sums[0][input] += parts[1][weight] * parts[2][output];
                sums[1][weight] += parts[0][input] * parts[2][output];
                sums[2][output] += parts[0][input] * parts[1][weight];
            }
        }
    }
    sums
}

/// Every part from the other two.
fn products(convolution: &Convolution, parts: &[Array; 3]) -> [Array; 3] {
    PARTS.map(|part| {
        let [a, b] = part.others().map(|other| {
            let at = PARTS.iter().position(|&part| part == other);
            &parts[at.expect("one of the three")]
        });
        convolution.product(part, a, b)
    })
}

#[test]
fn convolutions_are_their_definition() {
    let mut generator = Generator::new(1);
    for (n, convolution) in cases() {
        let parts = PARTS.map(|part| {
            let shape = convolution.shape(part, n);
            normal(&mut generator, &shape, DType::F64)
        });
        let expected = by_loops(&convolution, n, &parts.clone().map(|x| x.to_vec()));
        for (dtype, epsilon) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
            let found = products(&convolution, &parts.clone().map(|x| x.cast(dtype)));
            for ((found, expected), part) in found.iter().zip(&expected).zip(PARTS) {
                assert_eq!(*found.shape(), convolution.shape(part, n));
                let scale = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
                let found = found.cast(DType::F64).to_vec::<f64>();
                let wrong = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
                let wrong = wrong.fold(0.0, |max, x| if x <= max { max } else { x });
                assert!(
                    wrong < epsilon * scale * 10.0,
                    "{part:?} {dtype} of {n} x {convolution:?}: off by {wrong:e} of {scale}"
                );
            }
        }
    }
}

#[test]
fn groups_and_examples_do_not_see_each_other() {
    let mut generator = Generator::new(2);
    for (n, convolution) in cases() {
        let parts = PARTS.map(|part| {
            let shape = convolution.shape(part, n);
            normal(&mut generator, &shape, DType::F32)
        });
        // Every example as groups of its own.
        let each = Convolution {
            groups: n * convolution.groups,
            ..convolution.clone()
        };
        let batch = |x: &Array, part| x.reshape(each.shape(part, 1));
        let all = each.product(Weights, &batch(&parts[0], Input), &batch(&parts[2], Output));
        let outputs = products(&convolution, &parts);
        let one = Convolution {
            groups: 1,
            ..convolution.clone()
        };
        let kernel = one.shape(Weights, 1);
        let all = all.to_vec::<f32>();
        let groups = convolution.groups;
        for i in [0, n / 2, n - 1] {
            for group in [0, groups - 1] {
                let take = |x: &Array, part, i: usize| {
                    let shape = one.shape(part, 1);
                    let (elements, len) = (x.to_vec::<f32>(), shape.size());
                    Array::from_slice(&elements[i * len..][..len], shape)
                };
                let at = i * groups + group;
                let x = take(&parts[0], Input, at);
                let w = take(&parts[1], Weights, group);
                let y = take(&parts[2], Output, at);
                let found = products(&one, &[x, w, y]);
                let len = kernel.size();
                assert_eq!(found[1].to_vec::<f32>(), all[at * len..][..len], "{one:?}");
                for (found, outputs, part) in [
                    (&found[0], &outputs[0], Input),
                    (&found[2], &outputs[2], Output),
                ] {
                    let expected = take(outputs, part, at);
                    assert_eq!(found.to_vec::<f32>(), expected.to_vec::<f32>(), "{one:?}");
                }
            }
        }
    }
}

/// Gradients of so many weights, with so many products each, are sums over parts of the examples.
#[test]
fn gradients_of_many_weights_are_those_of_few_examples_together() {
    let n = 6;
    let convolution = convolution(1, [32, 64], &[(24, [3, 1, 1, 1, 1]); 2]);
    let mut generator = Generator::new(4);
    for (dtype, bound) in [(DType::F32, 3e-4), (DType::F64, 1e-12)] {
        let [x, y] = [Input, Output].map(|part| {
            let shape = convolution.shape(part, n);
            normal(&mut generator, &shape, dtype)
        });
        let whole = || convolution.product(Weights, &x, &y);
        same_for_all_thread_counts(|| whole().to_row_major().cast(DType::F64).to_vec::<f64>());
        let all = whole();
        let of = |i: usize| {
            let [x, y] = [&x, &y].map(|array| array.slice(s![i..i + 1]));
            convolution.product(Weights, &x, &y)
        };
        let sum = (1..n).fold(of(0), |sum, i| sum + of(i));
        let largest = (&all - &sum).abs().max(..).cast(DType::F64).item::<f64>();
        assert!(largest < bound, "{dtype}: {largest}");
    }
}

/// Threads may share the channels of an example, which go into other tiles then.
#[test]
fn results_are_the_same_for_all_thread_counts() {
    let mut generator = Generator::new(5);
    let (three, one) = ([3, 1, 1, 1, 1], [1, 1, 0, 0, 1]);
    // Of 25 and 37 rows, three threads would take 12 and 18 each and leave a single one.
    for (n, size, channels, window) in [
        (2, 28, [48, 96], three),
        (9, 8, [64, 80], three),
        (5, 32, [24, 25], one),
        (3, 24, [40, 37], one),
        (40, 24, [40, 37], one),
    ] {
        let convolution = convolution(1, channels, &[(size, window); 2]);
        let parts = PARTS.map(|part| {
            let shape = convolution.shape(part, n);
            normal(&mut generator, &shape, DType::F32)
        });
        same_for_all_thread_counts(|| {
            let found = products(&convolution, &parts);
            found
                .map(|x| x.to_row_major().cast(DType::F64).to_vec::<f64>())
                .concat()
        });
    }
}

#[test]
fn gradients_of_many_examples_do_not_drift() {
    let (n, size) = (5000, 4);
    let convolution = convolution(1, [16, 16], &[(size, [1, 1, 0, 0, 1]); 2]);
    let [x, gy] = [Input, Output].map(|part| Array::full(convolution.shape(part, n), 0.3f32));
    let want = f64::from(0.3f32).powi(2) * (n * size * size) as f64;
    for gw in convolution.product(Weights, &x, &gy).to_vec::<f32>() {
        assert!(
            (f64::from(gw) / want - 1.0).abs() < 2e-6,
            "{gw} is not {want}"
        );
    }
}

#[test]
fn what_is_no_number_stays_with_its_example() {
    let mut generator = Generator::new(3);
    for (n, convolution) in cases() {
        let wrong = n / 2;
        let mut parts = PARTS.map(|part| {
            let shape = convolution.shape(part, n);
            normal(&mut generator, &shape, DType::F32)
        });
        for part in [0, 2] {
            let len = parts[part].size() / n;
            parts[part].as_mut_slice::<f32>()[wrong * len..][..len].fill(f32::NAN);
        }
        // Memory that is used again may hold anything.
        drop(parts.clone().map(|x| &x * f32::NAN));
        let found = products(&convolution, &parts);
        for found in [&found[0], &found[2]] {
            let found = found.to_vec::<f32>();
            let len = found.len() / n;
            for (i, example) in found.chunks_exact(len).enumerate() {
                let clean = example.iter().all(|x| x.is_finite());
                assert_eq!(
                    clean,
                    i != wrong || example.iter().all(|&x| x == 0.0),
                    "{convolution:?}"
                );
            }
        }
        let each = Convolution {
            groups: n * convolution.groups,
            ..convolution.clone()
        };
        let batch = |x: &Array, part| x.reshape(each.shape(part, 1));
        let w = each.product(Weights, &batch(&parts[0], Input), &batch(&parts[2], Output));
        let w = w.to_vec::<f32>();
        let len = w.len() / n;
        for (i, example) in w.chunks_exact(len).enumerate() {
            assert_eq!(
                example.iter().all(|x| x.is_finite()),
                i != wrong,
                "{convolution:?}"
            );
        }
    }
}
