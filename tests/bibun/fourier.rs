//! Fourier transforms beside NumPy, SciPy and PyTorch, and complex numbers in the rest of the library.

use bibun::array::{Array, Complex, DType, Generator, s};
use bibun::functions::{
    FourierNorm, FourierOptions, StftOptions, abs, complex, fft, fft_convolve, fft2, fftfreq, fftn,
    fftshift, hfft, ifft, ifft2, ifftn, ifftshift, ihfft, irfft, irfft2, irfftn, istft, real, rfft,
    rfft2, rfftfreq, rfftn, square, stft, sum, view_as_real,
};
use bibun::optimizers::{Adam, Optimizer, Sgd};
use bibun::{Variable, attempt, compile, grad, jvp, vjp, vmap};

const GOLDEN: &str = include_str!("../golden/fft/values.txt");

type C = Complex<f64>;

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect()
}

/// The numbers of an array, two for each complex one.
fn flat(x: &Array) -> Vec<f64> {
    match x.dtype().is_complex() {
        true => x.view_as_real().to_vec::<f64>(),
        false => x.to_vec::<f64>(),
    }
}

fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * size,
            "{what}, number {i}: {a}, not {b}"
        );
    }
}

/// The sum of all parts times cos(0), cos(1), ...
fn weighted(y: &Variable) -> Variable {
    let parts = match y.dtype().is_complex() {
        true => view_as_real(y),
        false => y.clone(),
    };
    let weights = (0..parts.size()).map(|i| (i as f64).cos()).collect();
    let weights = Array::from_vec(weights, parts.shape()).cast(parts.dtype());
    sum(parts * Variable::constant(weights), ..)
}

/// Calls the function of a line of the table.
fn called(name: &str, parameters: &[&str], x: &Variable) -> Variable {
    let number = |i: usize| parameters[i].parse::<usize>().expect("a length");
    let one = || {
        let norm = match parameters[1] {
            "backward" => FourierNorm::Backward,
            "ortho" => FourierNorm::Ortho,
            "forward" => FourierNorm::Forward,
            other => panic!("{other}"),
        };
        FourierOptions::new().lengths([number(0)]).norm(norm)
    };
    let two = || FourierOptions::new().lengths([number(0), number(1)]);
    let pieces = || {
        let width = number(2);
        let angle = |i: usize| std::f64::consts::TAU * i as f64 / width as f64;
        let hann: Vec<f64> = (0..width).map(|i| 0.6 - 0.5 * angle(i).cos()).collect();
        StftOptions::new(number(0))
            .hop(number(1))
            .window(Variable::constant(hann).cast(x.dtype().to_real()))
            .center(number(3) == 1)
            .normalized(number(4) == 1)
    };
    match name {
        "fft" => fft(x, one()),
        "ifft" => ifft(x, one()),
        "rfft" => rfft(x, one()),
        "irfft" => irfft(x, one()),
        "hfft" => hfft(x, one()),
        "ihfft" => ihfft(x, one()),
        "fft2" => fft2(x, two()),
        "ifft2" => ifft2(x, two()),
        "rfft2" => rfft2(x, two()),
        "irfft2" => irfft2(x, two()),
        "fftn" => fftn(x, two()),
        "ifftn" => ifftn(x, two()),
        "rfftn" => rfftn(x, two()),
        "irfftn" => irfftn(x, two()),
        "stft" => stft(x, pieces()),
        "istft" => istft(x, pieces()),
        "fft_convolve" => {
            let b: Vec<f64> = parameters
                .iter()
                .map(|b| b.parse().expect("a number"))
                .collect();
            fft_convolve(x, Variable::constant(b))
        }
        "fftfreq" => fftfreq(number(0), 0.3),
        "rfftfreq" => rfftfreq(number(0), 0.3),
        "fftshift" => fftshift(x, ..),
        "ifftshift" => ifftshift(x, ..),
        other => panic!("{other}"),
    }
}

/// The input of a line, whose numbers are parts of complex ones if there are twice as many.
fn input(shape: &[usize], numbers: &[f64]) -> Array {
    let size: usize = shape.iter().product();
    match numbers.len() == size {
        true => Array::from_slice(numbers, shape),
        false => {
            let pairs = numbers.chunks(2).map(|part| C::new(part[0], part[1]));
            Array::from_vec(pairs.collect(), shape)
        }
    }
}

#[test]
fn values_and_gradients_are_those_of_numpy_scipy_and_pytorch() {
    let mut count = 0;
    for line in GOLDEN.lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let head: Vec<&str> = fields[0].split_whitespace().collect();
        let shape: Vec<usize> = numbers(fields[1])
            .into_iter()
            .map(|size| size as usize)
            .collect();
        let x = Variable::new(input(&shape, &numbers(fields[2])));
        let what = fields[0];
        let y = called(head[0], &head[1..], &x);
        close(what, &flat(&y.array()), &numbers(fields[3]), 1e-13);
        let expected = numbers(fields[4]);
        if !expected.is_empty() {
            weighted(&y).backward();
            let gradient = x.grad().expect("a gradient reaches it");
            close(
                &format!("gradient of {what}"),
                &flat(&gradient.array()),
                &expected,
                1e-13,
            );
        }
        // In single precision.
        let narrow = match x.dtype().is_complex() {
            true => x.cast(DType::C64),
            false => x.cast(DType::F32),
        };
        if !head[0].ends_with("freq") && head[0] != "fft_convolve" {
            let y = called(head[0], &head[1..], &narrow);
            assert!(
                matches!(y.dtype(), DType::F32 | DType::C64),
                "{what} is {}",
                y.dtype()
            );
            let wide = y.array().cast(match y.dtype() {
                DType::F32 => DType::F64,
                _ => DType::C128,
            });
            close(what, &flat(&wide), &numbers(fields[3]), 2e-6);
        }
        count += 1;
    }
    assert_eq!(count, 263);
}

#[test]
fn many_rows_on_threads_are_what_single_rows_are() {
    let x = Array::from_vec(
        (0..300 * 128).map(|i| (i as f64 * 0.7).sin()).collect(),
        [300, 128],
    );
    let x = Variable::constant(x);
    let all = rfft(&x, FourierOptions::new());
    for row in [0isize, 1, 150, 299] {
        let one = rfft(x.slice(s![row, ..]), FourierOptions::new());
        assert_eq!(flat(&all.array().slice(s![row, ..])), flat(&one.array()));
    }
}

#[test]
fn transforms_work_under_all_transformations() {
    let power = |x: &Variable| sum(square(abs(rfft(x, FourierOptions::new()))), ..);
    let x = Variable::constant([1.0, -2.0, 0.5, 3.0, 0.25]);
    // Parseval: n Σ x² but for the half that is left out.
    let gradient = grad(power, &x);
    let program = compile(move |x: &Variable| grad(power, x));
    assert_eq!(program.call(&x).to_vec::<f64>(), gradient.to_vec::<f64>());
    let rows = Variable::constant([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]]);
    let each = vmap(|x: &Variable| grad(power, x), &rows);
    for row in [0isize, 1] {
        let own = grad(power, &rows.slice(s![row, ..]));
        assert_eq!(each.slice(s![row, ..]).to_vec::<f64>(), own.to_vec::<f64>());
    }
}

// ----- complex numbers

#[test]
fn the_gradient_of_a_real_function_of_complex_numbers_is_its_steepest_ascent() {
    let z = Variable::constant([C::new(3.0, -4.0), C::new(0.0, 0.0)]);
    // |z|² has 2 z, |z| has z / |z|, and the real part of z² has the conjugate of 2 z.
    let of =
        |f: fn(&Variable) -> Variable| grad(move |z: &Variable| sum(f(z), ..), &z).to_vec::<C>();
    assert_eq!(of(|z| square(abs(z))), [C::new(6.0, -8.0), C::ZERO]);
    assert_eq!(of(|z| abs(z)), [C::new(0.6, -0.8), C::ZERO]);
    assert_eq!(of(|z| real(z * z)), [C::new(6.0, 8.0), C::ZERO]);
    assert_eq!(of(|z| real(z.conj() * z)), [C::new(6.0, -8.0), C::ZERO]);
}

#[test]
fn analytic_functions_have_their_derivative_as_tangents() {
    let z = Variable::constant(C::new(0.3, 0.7));
    let one = Variable::constant(C::new(1.0, 0.0));
    let (y, dy) = jvp(|z: &Variable| z.exp() * z, &z, &one);
    let at = C::new(0.3, 0.7);
    close(
        "value",
        &flat(&y.array()),
        &flat(&Array::from([at.exp() * at])),
        1e-14,
    );
    close(
        "tangent",
        &flat(&dy.array()),
        &flat(&Array::from([at.exp() * (at + 1.0)])),
        1e-14,
    );
    // The cotangent is multiplied by the conjugate.
    let (_, back) = vjp(|z: &Variable| z.exp() * z, &z);
    let expected = (at.exp() * (at + 1.0)).conj();
    close(
        "cotangent",
        &flat(&back.call(&one).array()),
        &flat(&Array::from([expected])),
        1e-14,
    );
}

#[test]
fn real_numbers_beside_complex_ones_get_real_gradients() {
    let x = Variable::new([0.5f32, 2.0]);
    let z = complex(&x, 1.0) * &x * C::new(0.0, 1.0);
    assert_eq!(z.dtype(), DType::C64);
    abs(&z).sum(..).backward();
    assert_eq!(x.grad().expect("it has one").dtype(), DType::F32);
    assert_eq!((&x + C::new(1.0, 1.0)).dtype(), DType::C64);
    assert_eq!(
        (C::new(1.0, 1.0) * Variable::new([1, 2])).dtype(),
        DType::C128
    );
    assert_eq!(
        (Variable::new([1.0]) + Variable::new([Complex::new(1.0f32, 0.0)])).dtype(),
        DType::C128
    );
}

#[test]
fn optimizers_take_both_parts_of_complex_parameters() {
    fn trained(mut optimizer: impl Optimizer, steps: usize) -> (Vec<f64>, Vec<f64>) {
        let goal = [C::new(1.0, -2.0), C::new(-0.5, 3.0)];
        let z = Variable::new([C::ZERO; 2]);
        let goals = Array::from(goal);
        for _ in 0..steps {
            optimizer.minimize(&z, &mut || sum(square(abs(&z - &goals)), ..));
        }
        (flat(&z.array()), flat(&goals))
    }
    let (found, goal) = trained(Sgd::new(0.1), 80);
    close("sgd", &found, &goal, 1e-6);
    let (found, goal) = trained(Adam::new(0.1), 800);
    close("adam", &found, &goal, 1e-3);
}

#[test]
fn what_is_not_defined_for_complex_numbers_says_so() {
    let z = Variable::new([[C::new(1.0, 2.0), C::new(0.0, 1.0)]; 2]);
    type Call = fn(&Variable) -> Variable;
    let cases: &[(&str, Call)] = &[
        ("less", |z| z.less(z)),
        ("maximum", |z| bibun::functions::maximum(z, z)),
        ("max", |z| z.max(..)),
        ("argsort", |z| bibun::functions::argsort(z, 0)),
        ("floor", |z| z.floor()),
        ("sign", |z| z.sign()),
        ("relu", |z| bibun::functions::relu(z)),
        ("softmax", |z| bibun::functions::softmax(z, -1)),
        ("erf", |z| bibun::functions::erf(z)),
        ("var", |z| bibun::functions::var(z, .., 0)),
        ("cast", |z| z.cast(DType::F64)),
        ("complex", |z| complex(z, 0.0)),
        ("view_as_complex", |z| z.view_as_complex()),
        ("rfft", |z| rfft(z, FourierOptions::new())),
        ("backward", |z| {
            sum(z, ..).backward();
            z.clone()
        }),
        ("grad", |z| grad(|z: &Variable| sum(z, ..), z)),
    ];
    for (name, call) in cases {
        let error = attempt(|| call(&z)).expect_err(name).to_string();
        let is_named = error.contains(name) || error.starts_with("cast: ");
        assert!(is_named && error.contains("fourier.rs"), "{name}: {error}");
        let tells = ["complex", "real", "c128"]
            .iter()
            .any(|word| error.contains(word));
        assert!(tells, "{name}: {error}");
    }
}

#[test]
fn mistakes_with_transforms_are_errors() {
    let x = || Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    let signal = || Variable::new(vec![1.0; 8]);
    let cases: &[(&str, &dyn Fn() -> Variable)] = &[
        ("fft", &|| fft(x(), FourierOptions::new().axes(2))),
        ("fft", &|| fft(x(), FourierOptions::new().axes([0, 1]))),
        ("fft", &|| fft(x(), FourierOptions::new().lengths([0]))),
        ("fft2", &|| fft2(signal(), FourierOptions::new())),
        ("fftn", &|| fftn(x(), FourierOptions::new().axes([0, 0]))),
        ("fftn", &|| {
            fftn(x(), FourierOptions::new().axes([0]).lengths([2, 2]))
        }),
        ("fft", &|| {
            fft(
                Variable::new(Array::zeros([2, 0], DType::F64)),
                FourierOptions::new(),
            )
        }),
        ("irfft", &|| {
            irfft(Variable::new([1.0]), FourierOptions::new())
        }),
        ("fftfreq", &|| fftfreq(0, 1.0)),
        ("rfftfreq", &|| rfftfreq(0, 1.0)),
        ("fftshift", &|| fftshift(x(), 2)),
        ("ifftshift", &|| ifftshift(x(), 2)),
        ("fft_convolve", &|| fft_convolve(1.0, x())),
        ("stft", &|| stft(signal(), StftOptions::new(0))),
        ("stft", &|| stft(signal(), StftOptions::new(4).hop(0))),
        ("stft", &|| stft(signal(), StftOptions::new(20))),
        ("stft", &|| {
            stft(
                signal(),
                StftOptions::new(4).window(Variable::new([1.0; 5])),
            )
        }),
        ("stft", &|| {
            stft(complex(signal(), 1.0), StftOptions::new(4).onesided(true))
        }),
        ("istft", &|| istft(x(), StftOptions::new(2))),
        ("istft", &|| {
            istft(complex(x(), 1.0), StftOptions::new(2).length(40))
        }),
    ];
    for (name, call) in cases {
        let error = attempt(call).expect_err(name).to_string();
        assert!(
            error.contains(name) && error.contains("fourier.rs"),
            "{name}: {error}"
        );
    }
}

#[test]
fn both_sides_of_short_transforms_come_back() {
    let mut generator = Generator::new(3);
    let x = generator.normal([2, 32], 0.0, 1.0, DType::F64);
    let y = generator.normal([2, 32], 0.0, 1.0, DType::F64);
    let options = || StftOptions::new(8).hop(2).onesided(false);
    for signal in [complex(x.clone(), y), complex(x, 0.0)] {
        let back = istft(stft(&signal, options()), options());
        assert_eq!(back.dtype(), DType::C128);
        let error = (back - &signal).abs().max(..).item::<f64>();
        assert!(error < 1e-14, "{error}");
    }
}
