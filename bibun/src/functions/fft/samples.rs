//! The samples of Fourier transforms, beside sums of all terms.

use std::f64::consts::TAU;
use std::ops::Range;

use bibun_array::{Array, Complex, Shape};

use super::{
    FourierNorm, FourierOptions, StftOptions, fft, fft_convolve, fft2, fftn, fftshift, hfft, hfft2,
    hfftn, ifft, ifft2, ifftn, ifftshift, ihfft, ihfft2, ihfftn, irfft, irfft2, irfftn, istft,
    rfft, rfft2, rfftn, stft,
};
use crate::conformance::{Sample, beside};
use crate::functions::{imag, real};
use crate::variable::Variable;

type C = Complex<f64>;

const RANGES: [Range<f64>; 2] = [-1.0..1.2, -0.8..1.0];

/// The transform of the rows of a matrix, cut or filled up to n.
fn rows(x: &Array, n: usize, sign: f64, scale: f64) -> Array {
    let (m, count) = (
        x.shape()[x.rank() - 1],
        x.shape().size() / x.shape()[x.rank() - 1],
    );
    let x = x.cast(bibun_array::DType::C128).to_vec::<C>();
    let element = |i: usize| {
        let (row, k) = (i / n, i % n);
        let term = |j: usize| {
            x[row * m + j] * C::from_polar(scale, sign * TAU * ((j * k) % n) as f64 / n as f64)
        };
        (0..m.min(n)).map(term).sum()
    };
    Array::from_vec((0..count * n).map(element).collect::<Vec<C>>(), [count, n])
}

/// The transform of both axes of a matrix.
fn both(x: &Array, sign: f64, scale: f64) -> Array {
    let (n, m) = (x.shape()[0], x.shape()[1]);
    let first = rows(x, m, sign, scale);
    rows(&first.transpose(), n, sign, 1.0).transpose()
}

fn first_columns(x: &Array, count: usize) -> Array {
    x.slice(bibun_array::s![.., 0..count])
}

/// The numbers of a whole transform of which the first columns are known.
fn completed(x: &Array, n: usize) -> Array {
    let (count, m) = (x.shape()[0], x.shape()[1]);
    let known = x.to_vec::<C>();
    let element = |i: usize| {
        let (row, k) = (i / n, i % n);
        let own = |k: usize| match k == 0 || 2 * k == n {
            true => C::from(known[row * m + k].re),
            false => known[row * m + k],
        };
        if k <= n / 2 {
            own(k)
        } else {
            own(n - k).conj()
        }
    };
    Array::from_vec((0..count * n).map(element).collect::<Vec<C>>(), [count, n])
}

fn of_complex(
    name: &'static str,
    shape: [usize; 2],
    call: fn(&Variable) -> Variable,
    reference: fn(&Array) -> Array,
) -> Sample {
    Sample::of_complex(
        name,
        &[(Shape::from(shape), RANGES)],
        move |x| vec![call(&x[0])],
        move |x| vec![reference(&x[0])],
    )
}

fn of_real(
    name: &'static str,
    shape: [usize; 2],
    call: fn(&Variable) -> Variable,
    reference: fn(&Array) -> Array,
) -> Sample {
    let call = move |x: &[Variable]| {
        let y = call(&x[0]);
        vec![real(&y), imag(y)]
    };
    let reference = move |x: &[Array]| {
        let y = reference(&x[0]);
        vec![y.real(), y.imag()]
    };
    Sample::new(name, call, reference).input(shape, -1.0..1.2)
}

fn plain() -> FourierOptions {
    FourierOptions::new()
}

pub(in crate::functions) fn samples() -> Vec<Sample> {
    let window = [0.5, 1.0, 0.7, 0.2];
    let signal = Sample::new(
        "stft",
        move |x| {
            let window = beside(x, Array::from(window)).cast(x[0].dtype());
            let y = stft(
                &x[0],
                StftOptions::new(4).hop(2).window(window).center(false),
            );
            vec![real(&y), imag(y)]
        },
        move |x| {
            let x = x[0].to_vec::<f64>();
            let pieces = (0..3).flat_map(|piece| (0..4).map(move |i| 2 * piece + i).zip(window));
            let pieces = pieces.map(|(place, factor)| x[place] * factor).collect();
            let y = rows(&Array::from_vec(pieces, [3, 4]), 4, -1.0, 1.0);
            let y = first_columns(&y, 3).transpose();
            vec![y.real(), y.imag()]
        },
    );
    let there_and_back = Sample::new(
        "istft",
        |x| {
            let options = || StftOptions::new(5).hop(2).window(&x[1]);
            vec![istft(stft(&x[0], options()), options().length(9))]
        },
        |x| vec![x[0].clone()],
    );
    let convolved = Sample::new(
        "fft_convolve",
        |x| vec![fft_convolve(&x[0], &x[1])],
        |x| {
            let (a, b) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
            let mut y = vec![0.0; 12];
            for (row, a) in a.chunks(4).enumerate() {
                for (i, a) in a.iter().enumerate() {
                    for (j, b) in b.iter().enumerate() {
                        y[row * 6 + i + j] += a * b;
                    }
                }
            }
            vec![Array::from_vec(y, [2, 6])]
        },
    );
    let mut all = super::cosine::samples();
    all.extend([
        of_complex(
            "fft",
            [2, 3],
            |x| fft(x, plain()),
            |x| rows(x, 3, -1.0, 1.0),
        ),
        of_complex(
            "fft",
            [3, 2],
            |x| fft(x, plain().axes(0).lengths([5]).norm(FourierNorm::Ortho)),
            |x| rows(&x.transpose(), 5, -1.0, 0.2f64.sqrt()).transpose(),
        ),
        of_complex(
            "ifft",
            [2, 4],
            |x| ifft(x, plain()),
            |x| rows(x, 4, 1.0, 0.25),
        ),
        of_complex(
            "ifft",
            [2, 4],
            |x| ifft(x, plain().lengths([3]).norm(FourierNorm::Forward)),
            |x| rows(x, 3, 1.0, 1.0),
        ),
        of_complex("fft2", [3, 4], |x| fft2(x, plain()), |x| both(x, -1.0, 1.0)),
        of_complex(
            "ifft2",
            [2, 3],
            |x| ifft2(x, plain()),
            |x| both(x, 1.0, 1.0 / 6.0),
        ),
        of_complex("fftn", [2, 3], |x| fftn(x, plain()), |x| both(x, -1.0, 1.0)),
        of_complex(
            "ifftn",
            [2, 3],
            |x| ifftn(x, plain()),
            |x| both(x, 1.0, 1.0 / 6.0),
        ),
        of_real(
            "rfft",
            [2, 5],
            |x| rfft(x, plain()),
            |x| first_columns(&rows(x, 5, -1.0, 1.0), 3),
        ),
        of_real(
            "rfft",
            [2, 4],
            |x| rfft(x, plain().norm(FourierNorm::Forward)),
            |x| first_columns(&rows(x, 4, -1.0, 0.25), 3),
        ),
        of_real(
            "rfft2",
            [2, 3],
            |x| rfft2(x, plain()),
            |x| first_columns(&both(x, -1.0, 1.0), 2),
        ),
        of_real(
            "rfftn",
            [2, 4],
            |x| rfftn(x, plain()),
            |x| first_columns(&both(x, -1.0, 1.0), 3),
        ),
        of_complex(
            "irfft",
            [2, 3],
            |x| irfft(x, plain()),
            |x| rows(&completed(x, 4), 4, 1.0, 0.25).real(),
        ),
        of_complex(
            "irfft",
            [2, 3],
            |x| irfft(x, plain().lengths([5])),
            |x| rows(&completed(x, 5), 5, 1.0, 0.2).real(),
        ),
        of_complex(
            "irfft2",
            [2, 3],
            |x| irfft2(x, plain()),
            |x| {
                let first = rows(&x.transpose(), 2, 1.0, 0.5).transpose();
                rows(&completed(&first, 4), 4, 1.0, 0.25).real()
            },
        ),
        of_complex(
            "irfftn",
            [3, 3],
            |x| irfftn(x, plain().lengths([3, 5])),
            |x| {
                let first = rows(&x.transpose(), 3, 1.0, 1.0 / 3.0).transpose();
                rows(&completed(&first, 5), 5, 1.0, 0.2).real()
            },
        ),
        of_complex(
            "hfft",
            [2, 3],
            |x| hfft(x, plain()),
            |x| rows(&completed(&x.conj(), 4), 4, 1.0, 1.0).real(),
        ),
        of_real(
            "ihfft",
            [2, 4],
            |x| ihfft(x, plain()),
            |x| first_columns(&rows(x, 4, 1.0, 0.25), 3),
        ),
        of_complex(
            "hfft2",
            [2, 3],
            |x| hfft2(x, plain()),
            |x| {
                let first = rows(&x.transpose(), 2, -1.0, 1.0).transpose();
                rows(&completed(&first.conj(), 4), 4, 1.0, 1.0).real()
            },
        ),
        of_complex(
            "hfftn",
            [3, 3],
            |x| hfftn(x, plain().lengths([3, 5])),
            |x| {
                let first = rows(&x.transpose(), 3, -1.0, 1.0).transpose();
                rows(&completed(&first.conj(), 5), 5, 1.0, 1.0).real()
            },
        ),
        of_real(
            "ihfft2",
            [2, 4],
            |x| ihfft2(x, plain()),
            |x| first_columns(&both(x, 1.0, 1.0 / 8.0), 3),
        ),
        of_real(
            "ihfftn",
            [2, 4],
            |x| ihfftn(x, plain()),
            |x| first_columns(&both(x, 1.0, 1.0 / 8.0), 3),
        ),
        of_real(
            "fftshift",
            [2, 3],
            |x| fftshift(x, 1),
            |x| x.take(&Array::from([2, 0, 1]), 1),
        ),
        of_real(
            "ifftshift",
            [2, 3],
            |x| ifftshift(x, 1),
            |x| x.take(&Array::from([1, 2, 0]), 1),
        ),
        signal.input([8], -1.0..1.0),
        there_and_back.input([9], -1.0..1.0).input([4], 0.5..1.0),
        convolved.input([2, 4], -1.0..1.0).input([3], -1.0..1.0),
    ]);
    all
}
