//! Arrays of complex numbers: text, files, conversion, and functions at awkward points.

use bibun_array::{Array, Complex, DType, Error, Scalar, Scatter, attempt, matmul};

type C = Complex<f64>;

#[test]
fn text_is_that_of_numpy() {
    let x = Array::from([C::new(1.0, 2.0), C::new(-0.5, -3.0), C::new(10.0, 0.0)]);
    assert_eq!(x.to_string(), "[ 1. +2.j -0.5-3.j 10. +0.j]");
    let x = Array::from([C::new(1.0, 2.25), C::new(-0.5, -3.0), C::new(10.0, 0.0)]);
    assert_eq!(x.to_string(), "[ 1. +2.25j -0.5-3.j   10. +0.j  ]");
    assert_eq!(
        format!("{:?}", Array::from([C::new(0.0, 1.0)])),
        "array([0.+1.j])"
    );
    let single = Array::from([Complex::new(0.5f32, 1.0)]);
    assert_eq!(format!("{single:?}"), "array([0.5+1.j], dtype=complex64)");
    let texts = [
        (C::new(1.0, 2.0), "(1+2j)"),
        (C::new(0.0, 2.0), "2j"),
        (C::new(-0.0, 2.0), "(-0+2j)"),
        (C::new(1.5, -2.0), "(1.5-2j)"),
        (C::new(1e20, 2.0), "(1e+20+2j)"),
        (C::new(f64::NAN, 1.0), "(nan+1j)"),
        (C::new(f64::INFINITY, f64::NEG_INFINITY), "(inf-infj)"),
    ];
    for (x, text) in texts {
        assert_eq!(Array::scalar(x).to_string(), text);
    }
}

#[test]
fn files_are_those_of_numpy() {
    for dtype in [DType::C64, DType::C128] {
        let x = Array::from([[C::new(1.0, -2.5), C::new(0.0, 3.0)]; 2]).cast(dtype);
        let bytes = x.to_npy();
        let descr = format!("'descr': '<c{}'", dtype.size());
        assert!(String::from_utf8_lossy(&bytes[..40]).contains(&descr));
        let back = Array::from_npy(&bytes).expect("a file of ours");
        assert!(back.has_same_bits(&x));
        // In the other order of bytes, each part is reversed.
        let mut other = bytes.clone();
        let at = bytes
            .iter()
            .position(|&byte| byte == b'<')
            .expect("an order");
        other[at] = b'>';
        let start = bytes.len() - 4 * dtype.size();
        other[start..]
            .chunks_mut(dtype.size() / 2)
            .for_each(<[u8]>::reverse);
        assert!(Array::from_npy(&other).expect("a file").has_same_bits(&x));
    }
}

#[test]
fn what_needs_an_order_is_refused() {
    let z = Array::from([C::new(1.0, 2.0), C::new(3.0, 0.0)]);
    let first = Array::from([0i64, 1]);
    let refused: [(&str, &dyn Fn()); 9] = [
        ("sort", &|| drop(z.sort(0))),
        ("argsort", &|| drop(z.argsort(0))),
        ("top_k", &|| drop(z.top_k(1, 0))),
        ("scatter", &|| {
            drop(z.clone().scatter(Scatter::Max, &first, 0, &z))
        }),
        ("scatter", &|| {
            drop(z.clone().scatter(Scatter::Min, &first, 0, &z))
        }),
        ("floor", &|| drop(z.floor())),
        ("ceil", &|| drop(z.ceil())),
        ("trunc", &|| drop(z.trunc())),
        ("round", &|| drop(z.round())),
    ];
    for (function, call) in refused {
        let error: Result<(), Error> = attempt(call);
        let error = error.unwrap_err().to_string();
        let expected = format!("{function}: is not defined for the dtype c128");
        assert!(
            error.starts_with(&expected) && error.contains(file!()),
            "{error}"
        );
    }
    let written = z.clone().scatter(Scatter::Set, &first, 0, &z.flip(&[0]));
    assert!(written.has_same_bits(&z.flip(&[0])));
}

#[test]
fn complex_numbers_do_not_become_real_ones() {
    let z = Array::from([C::new(1.0, 2.0)]);
    for dtype in [DType::F64, DType::F32, DType::I64, DType::U8] {
        let error =
            attempt(|| z.cast(dtype)).map_err(|error: bibun_array::Error| error.to_string());
        let error = error.expect_err("a part would be lost");
        assert!(
            error.contains("cast") && error.contains("`real`"),
            "{error}"
        );
    }
    assert_eq!(z.cast(DType::Bool).to_vec::<bool>(), [true]);
    assert_eq!(Array::from([2]).cast(DType::C64).dtype(), DType::C64);
    assert_eq!(
        Scalar::from(2.0).beside(DType::C64),
        Scalar::C64(Complex::new(2.0, 0.0))
    );
    assert_eq!(DType::F64.promote(DType::C64), DType::C128);
    assert_eq!(DType::BF16.promote(DType::C64), DType::C64);
}

#[test]
fn parts_and_products() {
    let z = Array::from([
        [C::new(1.0, 2.0), C::new(0.0, -1.0)],
        [C::new(3.0, 0.5), C::new(2.0, 2.0)],
    ]);
    assert!(Array::complex(&z.real(), &z.imag()).has_same_bits(&z));
    assert!(z.view_as_real().view_as_complex().has_same_bits(&z));
    assert_eq!(z.abs().to_vec::<f64>()[1], 1.0);
    assert_eq!(z.sum(0).to_vec::<C>(), [C::new(4.0, 2.5), C::new(2.0, 1.0)]);
    assert_eq!(z.prod(1).to_vec::<C>()[0], C::new(2.0, -1.0));
    assert_eq!(z.cumprod(1).to_vec::<C>()[1], C::new(2.0, -1.0));
    let product = matmul(&z, &z.transpose()).to_vec::<C>();
    let at = |i: usize, k: usize| z.to_vec::<C>()[2 * i + k];
    for (i, k) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let want: C = (0..2).map(|l| at(i, l) * at(k, l)).sum();
        assert!((product[2 * i + k] - want).norm() < 1e-14);
    }
    assert_eq!(
        Array::zeros([0, 3], DType::C128).prod(0).to_vec::<C>(),
        [C::ONE; 3]
    );
    assert!(z.equal(&z).all(..).item::<bool>());
    assert!(
        attempt(|| z.less(&z))
            .map_err(|error: bibun_array::Error| error)
            .is_err()
    );
}

#[test]
fn functions_neither_overflow_nor_cancel_on_the_way() {
    let at = |re: f64, im: f64| Array::from([C::new(re, im), C::ONE]);
    let first = |x: Array| x.to_vec::<C>()[0];
    let near = |found: C, want: C| {
        assert!(
            (found - want).norm() <= 1e-14 * want.norm(),
            "{found}, not {want}"
        );
    };
    near(first(at(1e300, 1e300) / C::new(1e300, 1e300)), C::ONE);
    near(first(at(3e200, 4e200).sqrt()), C::new(2e100, 1e100));
    near(first(at(-4.0, 0.0).sqrt()), C::new(0.0, 2.0));
    near(first(at(-4.0, -0.0).sqrt()), C::new(0.0, -2.0));
    near(
        first(at(1e-12, 1e-12).expm1()),
        C::new(1e-12, 1e-12 + 1e-24),
    );
    near(
        first(at(1e-12, 1e-12).log1p()),
        C::new(1e-12, 1e-12 - 1e-24),
    );
    near(first(at(1.0, 1e-9).log()), C::new(5e-19, 1e-9));
    near(first(at(400.0, 1.0).tanh()), C::ONE);
    near(first(at(1.0, -400.0).tan()), C::new(0.0, -1.0));
    near(
        first(at(-1.0, 0.0).log()),
        C::new(0.0, std::f64::consts::PI),
    );
    near(first(at(0.0, 0.0).pow(2)), C::ZERO);
    near(
        first(at(2.0, 1.0).pow(-3)),
        C::ONE / C::new(2.0, 1.0).powi(3),
    );
    near(first(at(f64::NEG_INFINITY, 3.0).exp()), C::ZERO);
    near(first(at(-800.0, 2.0).sigmoid()), C::ZERO);
}
