//! The samples of complex numbers, and of functions that take them.

use std::ops::Range;

use bibun_array::{Array, Complex, Shape, s};

use super::{angle, complex, conj, imag, polar, real, view_as_complex, view_as_real};
use crate::conformance::{Sample, beside};
use crate::functions::{
    abs, broadcast_to, concat, cos, cosh, cumprod, cumsum, divide, einsum, exp, exp2, expm1, flip,
    linear, log, log1p, log2, log10, matmul, mean, pow, prod, reciprocal, rsqrt, sigmoid, sin,
    sinh, slice, sqrt, square, sum, take, tan, tanh, transpose, where_,
};
use crate::variable::Variable;

type C = Complex<f64>;

/// The elements of a complex array.
fn elements(x: &Array) -> Vec<C> {
    x.to_vec::<C>()
}

fn mapped(x: &Array, f: impl Fn(C) -> C) -> Array {
    Array::from_vec(elements(x).into_iter().map(f).collect(), x.shape())
}

const RANGES: [Range<f64>; 2] = [0.4..1.6, -1.3..1.2];

/// A function of each element.
fn unary(name: &'static str, call: fn(&Variable) -> Variable, reference: fn(C) -> C) -> Sample {
    let shape = Shape::from([2, 3]);
    let sample = Sample::of_complex(
        name,
        &[(shape, RANGES)],
        move |x| vec![call(&x[0])],
        move |x| vec![mapped(&x[0], reference)],
    );
    Sample { order: 3, ..sample }
}

/// A function of two elements.
fn binary(
    name: &'static str,
    call: fn(&Variable, &Variable) -> Variable,
    reference: fn(C, C) -> C,
) -> Sample {
    let shape = Shape::from([2, 3]);
    Sample::of_complex(
        name,
        &[(shape.clone(), RANGES), (shape, [-1.5..-0.3, 0.2..1.4])],
        move |x| vec![call(&x[0], &x[1])],
        move |x| {
            let pairs = elements(&x[0]).into_iter().zip(elements(&x[1]));
            let y = pairs.map(|(a, b)| reference(a, b)).collect();
            vec![Array::from_vec(y, x[0].shape())]
        },
    )
}

/// A function of an array.
fn whole(
    name: &'static str,
    shape: impl Into<Shape>,
    call: fn(&Variable) -> Variable,
    reference: fn(&Array) -> Array,
) -> Sample {
    Sample::of_complex(
        name,
        &[(shape.into(), RANGES)],
        move |x| vec![call(&x[0])],
        move |x| vec![reference(&x[0])],
    )
}

/// The matrix product of single loops.
fn product(a: &Array, b: &Array) -> Array {
    let (n, k, m) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let (a, b) = (elements(a), elements(b));
    let element = |i: usize| (0..k).map(|l| a[i / m * k + l] * b[l * m + i % m]).sum();
    Array::from_vec((0..n * m).map(element).collect::<Vec<C>>(), [n, m])
}

/// Real numbers of complex ones.
fn of_parts(x: &Array, f: fn(C) -> f64) -> Array {
    Array::from_vec(elements(x).into_iter().map(f).collect(), x.shape())
}

fn scalar() -> C {
    C::new(0.6, -0.8)
}

pub(in crate::functions) fn samples() -> Vec<Sample> {
    [parts(), analytic(), arrays()].concat()
}

/// Functions that take complex numbers apart and join them.
fn parts() -> Vec<Sample> {
    vec![
        whole("real", [2, 3], |x| real(x), |x| of_parts(x, |x| x.re)),
        whole("imag", [2, 3], |x| imag(x), |x| of_parts(x, |x| x.im)),
        whole("abs", [2, 3], |x| abs(x), |x| of_parts(x, |x| x.norm())),
        whole("angle", [2, 3], |x| angle(x), |x| of_parts(x, |x| x.arg())),
        unary("conj", |x| conj(x), |x| x.conj()),
        whole(
            "view_as_real",
            [3],
            |x| square(view_as_real(x)),
            |x| {
                let parts = elements(x)
                    .into_iter()
                    .flat_map(|x| [x.re * x.re, x.im * x.im]);
                Array::from_vec(parts.collect(), [3, 2])
            },
        ),
        Sample::new(
            "view_as_complex",
            |x| vec![real(view_as_complex(&x[0])), imag(view_as_complex(&x[0]))],
            |x| vec![x[0].slice(s![.., 0]), x[0].slice(s![.., 1])],
        )
        .input([3, 2], -1.0..1.0),
        Sample::new(
            "polar",
            |x| {
                let z = polar(&x[0], &x[1]);
                vec![real(&z), imag(z)]
            },
            |x| vec![&x[0] * x[1].cos(), &x[0] * x[1].sin()],
        )
        .input([2, 3], 0.5..2.0)
        .input([2, 3], -3.0..3.0),
        // Real numbers beside complex ones, which are cast.
        Sample::new(
            "complex",
            |x| {
                let z = complex(&x[0], &x[1]) * &x[0] * Complex::new(0.5, 2.0);
                vec![real(&z), imag(z)]
            },
            |x| {
                let z = Array::complex(&x[0], &x[1]).multiply(&x[0]);
                let z = z.multiply(Complex::new(0.5, 2.0));
                vec![z.real(), z.imag()]
            },
        )
        .input([2, 3], -1.0..1.0)
        .input([2, 3], -1.0..1.0),
    ]
}

/// Sums, products and analytic functions.
fn analytic() -> Vec<Sample> {
    vec![
        binary("add", |a, b| a + b, |a, b| a + b),
        binary("subtract", |a, b| a - b, |a, b| a - b),
        binary("multiply", |a, b| a * b, |a, b| a * b),
        binary("divide", |a, b| divide(a, b), |a, b| a / b),
        binary("pow", |a, b| pow(a, b), |a, b| a.powc(b)),
        unary("negative", |x| -x, |x| -x),
        unary(
            "add",
            |x| 0.5 + x + scalar() - 2,
            |x| x + 0.5 + scalar() - 2.0,
        ),
        unary("multiply", |x| scalar() * x * 2.0, |x| x * scalar() * 2.0),
        unary("divide", |x| 2.0 / x / scalar(), |x| 2.0 / x / scalar()),
        unary("exp", |x| exp(x), |x| x.exp()),
        unary("expm1", |x| expm1(x), |x| x.exp() - 1.0),
        unary("exp2", |x| exp2(x), |x| C::new(2.0, 0.0).powc(x)),
        unary("log", |x| log(x), |x| x.ln()),
        unary("log2", |x| log2(x), |x| x.ln() / 2f64.ln()),
        unary("log10", |x| log10(x), |x| x.ln() / 10f64.ln()),
        unary("log1p", |x| log1p(x), |x| (x + 1.0).ln()),
        unary("sqrt", |x| sqrt(x), |x| x.sqrt()),
        unary("rsqrt", |x| rsqrt(x), |x| 1.0 / x.sqrt()),
        unary("reciprocal", |x| reciprocal(x), |x| 1.0 / x),
        unary("square", |x| square(x), |x| x * x),
        unary("pow", |x| pow(x, -1), |x| 1.0 / x),
        unary("pow", |x| pow(x, 3), |x| x * x * x),
        unary("pow", |x| pow(x, 5), |x| x * x * x * x * x),
        unary("pow", |x| pow(x, 1.7), |x| x.powf(1.7)),
        unary("pow", |x| pow(x, scalar()), |x| x.powc(scalar())),
        unary("sigmoid", |x| sigmoid(x), |x| 1.0 / (1.0 + (-x).exp())),
        unary("sin", |x| sin(x), |x| x.sin()),
        unary("cos", |x| cos(x), |x| x.cos()),
        unary("tan", |x| tan(x), |x| x.tan()),
        unary("sinh", |x| sinh(x), |x| x.sinh()),
        unary("cosh", |x| cosh(x), |x| x.cosh()),
        unary("tanh", |x| tanh(x), |x| x.tanh()),
    ]
}

/// Functions of whole arrays.
fn arrays() -> Vec<Sample> {
    vec![
        whole(
            "sum",
            [2, 3],
            |x| sum(x, 0) * x,
            |x| {
                let all = elements(x);
                let y = (0..6).map(|i| (all[i % 3] + all[3 + i % 3]) * all[i]);
                Array::from_vec(y.collect::<Vec<C>>(), [2, 3])
            },
        ),
        whole(
            "mean",
            [2, 3],
            |x| mean(square(x), ..),
            |x| {
                let sum: C = elements(x).into_iter().map(|x| x * x).sum();
                Array::from_vec(vec![sum / 6.0], Shape::from(()))
            },
        ),
        whole(
            "prod",
            [2, 3],
            |x| prod(x, 1),
            |x| {
                let all = elements(x);
                let y = all.chunks(3).map(|row| row.iter().product());
                Array::from_vec(y.collect::<Vec<C>>(), [2])
            },
        ),
        whole(
            "cumprod",
            [4],
            |x| cumprod(x, 0) * x,
            |x| {
                let mut product = C::ONE;
                let running = elements(x).into_iter().map(|x| {
                    product *= x;
                    product * x
                });
                Array::from_vec(running.collect::<Vec<C>>(), [4])
            },
        ),
        whole(
            "cumsum",
            [4],
            |x| cumsum(x, 0) * x,
            |x| {
                let mut sum = C::ZERO;
                let running = elements(x).into_iter().map(|x| {
                    sum += x;
                    sum * x
                });
                Array::from_vec(running.collect::<Vec<C>>(), [4])
            },
        ),
        binary(
            "where_",
            |a, b| where_(real(a).greater(1.0), a * b, b),
            |a, b| if a.re > 1.0 { a * b } else { b },
        ),
        binary(
            "equal",
            |a, b| where_(a.equal(a + b * 0.0), a * b, b),
            |a, b| a * b,
        ),
        whole(
            "index",
            [3, 2],
            |x| {
                let picked = take(
                    x,
                    beside(std::slice::from_ref(x), Array::from([2, 0, 2])),
                    0,
                );
                let rows = concat([flip(&picked, 0), slice(x, s![1..2, ..])], 0);
                rows * broadcast_to(slice(x, s![0, ..]), [4, 2])
            },
            |x| {
                let all = elements(x);
                let y = [2, 0, 2, 1]
                    .iter()
                    .flat_map(|&row| [all[2 * row] * all[0], all[2 * row + 1] * all[1]]);
                Array::from_vec(y.collect::<Vec<C>>(), [4, 2])
            },
        ),
        Sample::of_complex(
            "matmul",
            &[([2, 3].into(), RANGES), ([3, 2].into(), RANGES)],
            |x| vec![matmul(&x[0], &x[1])],
            |x| vec![product(&x[0], &x[1])],
        ),
        Sample::of_complex(
            "matmul",
            &[([2, 3].into(), RANGES), ([2, 3].into(), RANGES)],
            |x| vec![matmul(conj(&x[0]), transpose(&x[1]))],
            |x| vec![product(&x[0].conj(), &x[1].transpose())],
        ),
        Sample::of_complex(
            "linear",
            &[
                ([2, 3].into(), RANGES),
                ([2, 3].into(), RANGES),
                ([2].into(), RANGES),
            ],
            |x| vec![linear(&x[0], &x[1], &x[2])],
            |x| vec![product(&x[0], &x[1].transpose()) + &x[2]],
        ),
        Sample::of_complex(
            "einsum",
            &[([2, 3].into(), RANGES), ([3, 2].into(), RANGES)],
            |x| vec![einsum("ij,jk->ik", [&x[0], &x[1]])],
            |x| vec![product(&x[0], &x[1])],
        ),
    ]
}

/// The functions whose samples take complex numbers as well as real ones, or take no numbers at all.
const OF_COMPLEX: &[&str] = &[
    "abs",
    "add",
    "add_at",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "array_split",
    "bartlett_window",
    "batch_l2_norm_squared",
    "bilinear",
    "bincount",
    "blackman_window",
    "block_diag",
    "broadcast",
    "broadcast_to",
    "cartesian_prod",
    "causal_mask",
    "channel_shuffle",
    "chunk",
    "circulant",
    "circular_pad",
    "combinations",
    "concat",
    "cond",
    "corrcoef",
    "cos",
    "cosh",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "det",
    "diag",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "diff_with",
    "divide",
    "dot",
    "dstack",
    "einsum",
    "embedding",
    "equal",
    "exp",
    "exp2",
    "exp_of_negative",
    "expm",
    "expm1",
    "fft_convolve",
    "fftshift",
    "fiedler",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "gather",
    "global_avg_pool",
    "hadamard",
    "hamming_window",
    "hankel",
    "hann_window",
    "helmert",
    "hilbert",
    "hstack",
    "identity",
    "ifftshift",
    "index",
    "index_copy",
    "index_fill",
    "index_put",
    "index_put_with",
    "inv",
    "invhilbert",
    "invpascal",
    "is_finite",
    "is_inf",
    "is_nan",
    "kaiser_window",
    "kron",
    "ldexp",
    "length_mask",
    "leslie",
    "linear",
    "log",
    "log10",
    "log1p",
    "log2",
    "logdet",
    "logistic_density",
    "lu",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "mean",
    "meshgrid",
    "multi_dot",
    "multiply",
    "nancumprod",
    "nancumsum",
    "nanprod",
    "nansum",
    "negative",
    "norm",
    "not_equal",
    "one_minus_square",
    "outer",
    "pad",
    "pascal",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "pow",
    "prod",
    "put_slice",
    "reciprocal",
    "reduce",
    "reduce_scatter",
    "reflection_pad",
    "repeat",
    "repeat_interleave",
    "replication_pad",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "rsqrt",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select_item",
    "select_scatter",
    "sigmoid",
    "sin",
    "sinh",
    "sinusoidal_positions",
    "slice",
    "slogdet",
    "solve",
    "split",
    "split_at",
    "split_sizes",
    "sqrt",
    "square",
    "stack",
    "subtract",
    "sum",
    "svdvals",
    "take",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "to",
    "toeplitz",
    "trace",
    "triangular_solve",
    "tril",
    "triu",
    "unstack",
    "vander",
    "vecdot",
    "vector_norm",
    "vstack",
];

/// Functions refuse complex numbers unless they are known to be right for them.
#[test]
fn functions_are_defined_for_complex_numbers_or_refuse_them() {
    use std::collections::BTreeSet;

    use bibun_array::{DType, Generator};

    let mut taken = BTreeSet::new();
    for sample in crate::functions::samples() {
        let x = sample.draw(&mut Generator::new(1)).into_iter();
        let x: Vec<Variable> = x.map(|x| Variable::constant(x.cast(DType::C128))).collect();
        if crate::attempt(|| (sample.call)(&x)).is_ok() {
            taken.insert(sample.name);
        }
    }
    let known: BTreeSet<&str> = OF_COMPLEX.iter().copied().collect();
    let new: Vec<&&str> = taken.difference(&known).collect();
    let gone: Vec<&&str> = known.difference(&taken).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:?}, gone: {gone:?}"
    );
}
