//! What holds for every dtype: promotion, numbers beside arrays, and types that are computed in another.

use crate::common::Numbers;
use crate::layouts::DTYPES;
use bibun_array::{
    Array, ArrayLike, DType, Error, Generator, Kind, Scalar, attempt, bf16, concat, f16, matmul, s,
};

/// The types that are computed in another.
fn narrow() -> impl Iterator<Item = DType> {
    (DTYPES.into_iter()).filter(|dtype| dtype.accumulator() != *dtype)
}

#[test]
fn promotion_is_that_of_jax() {
    use DType::*;
    // jax.numpy.promote_types with 64 bits enabled; both 16-bit floats are beside each other.
    let order = [Bool, U8, I32, I64, F16, F32, F64];
    for (i, &a) in order.iter().enumerate() {
        for (k, &b) in order.iter().enumerate() {
            assert_eq!(a.promote(b), order[i.max(k)], "{a} and {b}");
        }
    }
    for other in [Bool, U8, I32, I64, BF16] {
        assert_eq!((other.promote(BF16), BF16.promote(other)), (BF16, BF16));
    }
    for (other, both) in [(F16, F32), (F32, F32), (F64, F64)] {
        assert_eq!((other.promote(BF16), BF16.promote(other)), (both, both));
    }
}

#[test]
fn the_table_is_in_itself_right() {
    for dtype in DTYPES {
        assert_eq!(dtype.accumulator().accumulator(), dtype.accumulator());
        assert_eq!(dtype.accumulator().kind(), dtype.kind());
        assert!(dtype.accumulator().holds(dtype) && dtype.holds(dtype));
        let bytes =
            Array::zeros([2, 2], dtype).to_npy().len() - Array::zeros([0, 2], dtype).to_npy().len();
        assert_eq!(bytes, 4 * dtype.size());
        let of_sum = Array::ones([3], dtype).sum(..);
        assert_eq!(
            (of_sum.dtype(), of_sum.item::<f64>()),
            (dtype.of_sums(), 3.0)
        );
        for other in DTYPES {
            let both = dtype.promote(other);
            assert_eq!((both, both.promote(dtype)), (other.promote(dtype), both));
            assert!(
                both.kind() == dtype.kind().max(other.kind()),
                "{dtype} and {other}"
            );
        }
    }
}

/// Elements as Rust's crate converts them, without any code of ours.
fn rounded(x: &[f32], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F16 => Vec::from_iter(x.iter().map(|&x| f16::from_f32(x).to_f64())),
        DType::BF16 => Vec::from_iter(x.iter().map(|&x| bf16::from_f32(x).to_f64())),
        other => unreachable!("{other} is no float of 16 bits"),
    }
}

fn same(found: &Array, expected: &[f64], what: &str) {
    let found = found.cast(DType::F64).to_vec::<f64>();
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            a == b || a.is_nan() && b.is_nan(),
            "{what}, element {i}: {a:e}, not {b:e}"
        );
    }
}

type Unary = fn(&Array) -> Array;
type Binary = fn(&Array, &Array) -> Array;

const FLOAT_FUNCTIONS: [(&str, Unary); 12] = [
    ("exp", Array::exp),
    ("log", Array::log),
    ("tanh", Array::tanh),
    ("sin", Array::sin),
    ("sqrt", Array::sqrt),
    ("sigmoid", Array::sigmoid),
    ("erf", Array::erf),
    ("square", Array::square),
    ("negative", Array::negative),
    ("floor", Array::floor),
    ("lgamma", Array::lgamma),
    ("reciprocal", Array::reciprocal),
];

const BINARY_FUNCTIONS: [(&str, Binary); 9] = [
    ("add", |a, b| a + b),
    ("subtract", |a, b| a - b),
    ("multiply", |a, b| a * b),
    ("divide", |a, b| a / b),
    ("remainder", |a, b| a % b),
    ("floor_divide", |a, b| a.floor_divide(b)),
    ("maximum", |a, b| a.maximum(b)),
    ("where_", |a, b| a.greater(b).where_(a, b)),
    ("pow", |a, b| a.abs().pow(b)),
];

#[test]
fn floats_of_16_bits_are_computed_in_f32_and_rounded_once() {
    // All of them.
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let all = [
        Array::from(bits.iter().map(|&x| f16::from_bits(x)).collect::<Vec<_>>()),
        Array::from(bits.iter().map(|&x| bf16::from_bits(x)).collect::<Vec<_>>()),
    ];
    for x in &all {
        for (name, f) in FLOAT_FUNCTIONS {
            let expected = rounded(&f(&x.cast(DType::F32)).to_vec::<f32>(), x.dtype());
            same(&f(x), &expected, name);
            // Not where it lies, and in memory that nobody else holds.
            let [even, odd] = [s![..; 2], s![1..; 2]].map(|part| f(&x.slice(part)));
            let both = concat(&[&even.expand_dims(1), &odd.expand_dims(1)], 1).reshape(x.size());
            same(&both, &expected, name);
        }
        let turned = x.flip(&[0]).slice(s![7..; 3]);
        let other = x.slice(s![..turned.size()]);
        for (name, f) in BINARY_FUNCTIONS {
            let [a, b] = [&turned, &other].map(|x| x.cast(DType::F32));
            let expected = rounded(&f(&a, &b).to_vec::<f32>(), x.dtype());
            same(&f(&turned, &other), &expected, name);
        }
        let grown = bibun_array::ops::add(x.to_row_major(), x.clone());
        same(
            &grown,
            &rounded(&(x.cast(DType::F32) * 2).to_vec::<f32>(), x.dtype()),
            "in place",
        );
    }
}

#[test]
fn small_integers_are_computed_in_i64_and_wrap_around() {
    let mut numbers = Numbers(5);
    for dtype in [DType::U8, DType::I32] {
        let mut draw = || {
            let words = (0..5000).map(|_| numbers.word().cast_signed());
            Array::from_vec(words.collect(), [50, 100]).cast(dtype)
        };
        let (a, b) = (draw(), draw().transpose().reshape([100, 50]).transpose());
        let binary: [(&str, Binary); 8] = [
            ("add", |a, b| a + b),
            ("subtract", |a, b| a - b),
            ("multiply", |a, b| a * b),
            ("remainder", |a, b| a % b),
            ("floor_divide", |a, b| a.floor_divide(b)),
            ("fmod", |a, b| a.fmod(b)),
            ("maximum", |a, b| a.maximum(b)),
            ("bitwise_xor", |a, b| a.bitwise_xor(b)),
        ];
        let [wide_a, wide_b] = [&a, &b].map(|x| x.cast(DType::I64));
        for (name, f) in binary {
            let found = f(&a, &b);
            assert_eq!(found.dtype(), dtype, "{name}");
            let expected = f(&wide_a, &wide_b).cast(dtype);
            assert_eq!(
                found.to_vec::<i64>(),
                expected.to_vec::<i64>(),
                "{name} of {dtype}"
            );
        }
        assert_eq!(
            a.less(&b).to_vec::<bool>(),
            wide_a.less(&wide_b).to_vec::<bool>()
        );
        assert_eq!(
            a.equal(&b).to_vec::<bool>(),
            wide_a.equal(&wide_b).to_vec::<bool>()
        );
        assert_eq!((&a / &b).dtype(), DType::F64);
        let sums = [a.sum(0), wide_a.sum(0), a.cumsum(1), wide_a.cumsum(1)];
        assert_eq!(sums[0].to_vec::<i64>(), sums[1].to_vec::<i64>());
        assert_eq!(sums[2].to_vec::<i64>(), sums[3].to_vec::<i64>());
        let product = [
            matmul(&a, &b.transpose()),
            matmul(&wide_a, &wide_b.transpose()),
        ];
        assert_eq!(product[0].dtype(), dtype);
        assert_eq!(
            product[0].to_vec::<i64>(),
            product[1].cast(dtype).to_vec::<i64>()
        );
        let sorted = [
            a.argsort(1),
            wide_a.argsort(1),
            a.argmax(0),
            wide_a.argmax(0),
        ];
        assert_eq!(sorted[0].to_vec::<i64>(), sorted[1].to_vec::<i64>());
        assert_eq!(sorted[2].to_vec::<i64>(), sorted[3].to_vec::<i64>());
        assert_eq!(a.max(..).item::<i64>(), wide_a.max(..).item::<i64>());
    }
}

#[test]
fn many_small_numbers_are_added_up_in_more_than_sixteen_bits() {
    for dtype in [DType::F16, DType::BF16] {
        // One by one they would stop at 2,048 or 256.
        let ones = Array::ones([10_000], dtype)
            .broadcast_to([2, 10_000])
            .to_row_major();
        let ones = ops_at_work(&ones);
        assert_eq!(
            ones.sum(1).to_vec::<f64>(),
            [Scalar::I64(10_000).cast(dtype).to_f64(); 2]
        );
        assert_eq!(ones.mean(1).to_vec::<f64>(), [1.0; 2]);
        let product = matmul(&ones, &ones.transpose());
        assert_eq!(product.element(&[0, 0]), Scalar::I64(10_000).cast(dtype));
        let last = ones.cumsum(1).slice(s![.., -1]);
        assert_eq!(
            last.to_vec::<f64>(),
            [Scalar::I64(10_000).cast(dtype).to_f64(); 2]
        );
    }
    // No sum of these is a number of half precision, but their mean is.
    let large = Array::from(vec![f16::from_f32(60_000.0); 64]);
    assert_eq!(
        large.mean(..).item::<f64>(),
        f16::from_f32(60_000.0).to_f64()
    );
    assert_eq!(large.sum(..).item::<f64>(), f64::INFINITY);
    assert_eq!(large.std(.., 0).item::<f64>(), 0.0);
}

/// The same elements, in memory.
fn ops_at_work(x: &Array) -> Array {
    let mut x = x.clone();
    x.assign(s![0, 0], &Array::ones((), x.dtype()));
    assert!(x.memory().is_some());
    x
}

#[test]
fn numbers_of_the_host_never_widen() {
    for dtype in DTYPES {
        let x = Array::ones([2, 3], dtype);
        let float = if dtype.is_float() { dtype } else { DType::F64 };
        let integer = if dtype == DType::Bool {
            DType::I64
        } else {
            dtype
        };
        let of_float: [(&str, Array); 9] = [
            ("add", &x + 0.5),
            ("subtract", 0.5 - &x),
            ("multiply", &x * 0.5f32),
            ("divide", 0.5 / &x),
            ("pow", x.pow(0.5)),
            ("maximum", x.maximum(0.5)),
            ("clip", x.clip(0.25, 0.5)),
            ("where_", x.where_(&x, 0.5)),
            ("atan2", x.atan2(0.5)),
        ];
        for (name, y) in of_float {
            let wanted = if name == "where_" {
                dtype.promote(float)
            } else {
                float
            };
            assert_eq!(y.dtype(), wanted, "{name} of {dtype}");
        }
        for (name, y) in [
            ("add", &x + 1),
            ("remainder", &x % 2),
            ("clip", x.clip(0, 1)),
        ] {
            assert_eq!(y.dtype(), integer, "{name} of {dtype}");
        }
        assert_eq!((&x * true).dtype(), dtype);
        assert_eq!(x.less(0.5).dtype(), DType::Bool);
    }
    let bytes = Array::from([1u8, 2]);
    for what in [
        attempt(|| &bytes + 300),
        attempt(|| &bytes * -1),
        attempt(|| 256 - &bytes),
        attempt(|| bytes.less(256)),
    ] {
        let Err::<_, Error>(error) = what else {
            panic!("a number that no byte is was taken")
        };
        let (line, error) = (file!(), error.to_string());
        assert!(
            error.contains("in u8; cast the array") && error.contains(line),
            "{error}"
        );
    }
    assert_eq!(
        ArrayLike::from(7).beside(DType::U8).element(&[]),
        Scalar::U8(7)
    );
}

#[test]
fn every_dtype_goes_through_files() {
    let mut numbers = Numbers(8);
    for dtype in DTYPES {
        for shape in [&[][..], &[0, 2], &[3, 4], &[5000]] {
            let x = numbers.array(shape, dtype);
            let back = Array::from_npy(&x.to_npy()).expect("a file of ours");
            assert_eq!((back.dtype(), back.shape()), (dtype, x.shape()));
            same(&back, &x.cast(DType::F64).to_vec::<f64>(), dtype.name());
        }
    }
    let header = |x: &Array| String::from_utf8_lossy(&x.to_npy()[..40]).into_owned();
    assert!(header(&Array::from([bf16::ONE])).contains("'descr': '<V2'"));
}

#[test]
fn what_is_lent_stays_what_it_was() {
    let theirs = std::sync::Arc::<[bf16]>::from([1.0, -0.5, 3.0].map(bf16::from_f32));
    let x = Array::from_buffer(std::sync::Arc::clone(&theirs), 3);
    assert_eq!(x.as_slice::<bf16>(), Some(&theirs[..]));
    assert_eq!(
        x.take(&Array::from([2u8, 0]), 0).to_vec::<f32>(),
        [3.0, 1.0]
    );
    let mut y = x.clone();
    y.as_mut_slice::<bf16>()[0] = bf16::ZERO;
    assert_eq!((y + &x).to_vec::<f32>(), [1.0, -1.0, 6.0]);
    assert_eq!(theirs[0], bf16::ONE);
}

#[test]
fn draws_of_sixteen_bits_are_within_their_bounds() {
    for dtype in [DType::F16, DType::BF16] {
        let x = Generator::new(3).uniform(100_000, -1.0, 1.0, dtype);
        assert_eq!(x.dtype(), dtype);
        let x = x.to_vec::<f64>();
        assert!(x.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        assert!(mean.abs() < 0.01, "{mean}");
        let x = Generator::new(4)
            .normal(100_000, 0.0, 1.0, dtype)
            .to_vec::<f64>();
        let square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        assert!((square - 1.0).abs() < 0.02, "{square}");
    }
    assert_eq!(
        narrow()
            .map(DType::kind)
            .filter(|kind| *kind == Kind::Float)
            .count(),
        2
    );
}

/// What NumPy 2 writes.
#[test]
fn sixteen_bits_have_the_digits_that_numpy_gives_them() {
    let half = |x: &[f64]| Array::from(x).cast(DType::F16);
    for (x, text) in [
        (
            half(&[0.1, 0.2, 1000.0, 0.001]),
            "array([1.e-01, 2.e-01, 1.e+03, 1.e-03], dtype=float16)",
        ),
        (
            half(&[1.0, 2.5, -3.0]),
            "array([ 1. ,  2.5, -3. ], dtype=float16)",
        ),
        (
            half(&[65504.0, 1.0]),
            "array([6.55e+04, 1.00e+00], dtype=float16)",
        ),
        (half(&[1e-4, 1.0]), "array([1.e-04, 1.e+00], dtype=float16)"),
        (half(&[999.0, 998.0]), "array([999., 998.], dtype=float16)"),
        (
            half(&[1e-5, 1e-5]),
            "array([1.e-05, 1.e-05], dtype=float16)",
        ),
        (Array::from([1u8, 2]), "array([1, 2], dtype=uint8)"),
        (Array::from([1, 2]), "array([1, 2], dtype=int32)"),
        (Array::zeros([0], DType::U8), "array([], dtype=uint8)"),
    ] {
        assert_eq!(format!("{x:?}"), text);
    }
    assert_eq!(
        half(&[0.1, -2.0, 3.0, f64::NAN])
            .reshape([2, 2])
            .to_string(),
        "[[ 0.1 -2. ]\n [ 3.   nan]]"
    );
    for (x, text) in [
        (0.1, "0.1"),
        (1000.0, "1e+03"),
        (65504.0, "6.55e+04"),
        (1e-5, "1e-05"),
        (12345.0, "1.2344e+04"),
        (999.5, "999.5"),
        (2049.0, "2.048e+03"),
    ] {
        assert_eq!(Array::scalar(f16::from_f64(x)).to_string(), text);
    }
    let tenth = Scalar::BF16(bf16::from_f64(0.1));
    assert_eq!(
        (Array::scalar(tenth).to_string(), tenth.to_string()),
        ("0.1".into(), "0.1".into())
    );
}
