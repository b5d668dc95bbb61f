//! What eager code runs as programs or machine code has the bits of functions one by one.

use bibun_array::math::Float;
use bibun_array::{
    Array, DType, ElementFormula, Generator, Kernel, Number, elementwise, fused, interpreted,
    keep_dims, ops, run_kernel, s,
};

/// The rows of x, each divided by its sum of squares to a power, and these sums.
fn scaled(power: f64, x: &Array) -> [Array; 2] {
    fused(power, [x.clone()], |power: &f64, [x]| {
        let total = (&x * &x).sum(keep_dims(-1)).pow(*power);
        [x / &total, total]
    })
}

#[test]
fn results_have_the_bits_of_the_first_call() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let x = Generator::new(3).normal([140, 90], 0.0, 1.0, dtype);
        let windows = [
            x.clone(),
            x.transpose(),
            x.slice(s![.., 3..; 2]),
            x.slice(s![5.., ..]),
            Array::full([140, 90], 0.7).cast(dtype),
            Array::zeros([0, 90], dtype),
            x.slice(s![0]).broadcast_to([140, 90]),
        ];
        for x in &windows {
            for power in [1.0, 0.5] {
                let first = scaled(power, x);
                for _ in 0..3 {
                    let again = scaled(power, x);
                    for (a, b) in first.iter().zip(&again) {
                        assert!(a.has_same_bits(b), "{dtype} {:?} {power}", x.shape());
                        assert_eq!(a.strides(), b.strides());
                    }
                }
            }
        }
    }
}

#[test]
fn large_results_of_what_is_broadcast_have_the_bits_of_what_is_in_memory() {
    type Function = fn(&Array, &Array) -> Array;
    let functions: [(&str, Function); 8] = [
        ("add", |x, y| x + y),
        ("divide", |x, y| y / x),
        ("maximum", |x, y| ops::maximum(x.clone(), y.clone())),
        ("pow", |x, y| ops::pow(x.clone(), y.clone())),
        ("less", |x, y| ops::less(x.clone(), y.clone())),
        ("where_", |x, y| {
            ops::where_(ops::less(y.clone(), x.clone()), x.clone(), y.clone())
        }),
        ("remainder", |x, y| ops::remainder(y.clone(), x.clone())),
        ("hypot", |x, y| ops::hypot(x.clone(), y.clone())),
    ];
    let mut generator = Generator::new(4);
    for (shape, dtype) in [
        ([70_001, 1], DType::F32),
        ([300, 257], DType::F32),
        ([2100, 33], DType::F64),
        ([12_000, 7], DType::F32),
        ([260, 256], DType::I64),
    ] {
        let x = generator.normal(shape, 0.0, 3.0, DType::F32);
        let special = generator.uniform(shape, 0.0, 1.0, DType::F32);
        let [rare, nan] = [0.02, f32::NAN].map(|value| Array::full(shape, value));
        let x = ops::where_(ops::less(special, rare), nan, x).cast(dtype);
        let others = [
            generator.normal([shape[1]], 0.0, 3.0, DType::F32),
            generator.normal([shape[0], 1], 0.0, 3.0, DType::F32),
            Array::scalar(-0.0f32),
            Array::full(shape, 2.5f32),
            generator
                .normal([2, shape[1]], 0.0, 3.0, DType::F32)
                .slice(s![1, ..; -1]),
        ];
        for other in others {
            let other = other.cast(dtype).broadcast_to(shape);
            // Integers are not raised to negative powers.
            let other = if dtype == DType::I64 {
                ops::abs(other)
            } else {
                other
            };
            let copied = Array::from_vec(other.cast(DType::F64).to_vec::<f64>(), shape).cast(dtype);
            for (name, function) in functions {
                for x in [x.clone(), x.transpose().to_row_major().transpose()] {
                    let expected = function(&x, &copied);
                    let strides = function(&x, &other).strides().to_vec();
                    for call in 0..3 {
                        let found = function(&x, &other);
                        let what = format!("{name} of {dtype} {shape:?}, call {call}");
                        assert!(found.has_same_bits(&expected), "{what}");
                        assert_eq!(found.strides(), strides, "{what}");
                        let found = interpreted(|| function(&x, &other));
                        assert!(found.has_same_bits(&expected), "{what}, interpreted");
                    }
                }
            }
        }
    }
}

#[test]
fn results_beyond_all_caches_have_the_bits_of_their_parts() {
    // A few elements more than 64 MiB, which are no whole vectors.
    for (dtype, n) in [(DType::F32, (1 << 24) + 37), (DType::F64, (1 << 23) + 5)] {
        let part = (1 << 20) + 3;
        let x = Array::arange(0, n as i64).cast(dtype) * 1e-3;
        let y = Array::full([n], 2.0).cast(dtype) - &x;
        // In memory that was given away, which begins anywhere, and in new memory.
        let given = |x: &Array| {
            let copied = x + 0.0;
            copied.slice(s![1..])
        };
        for call in 0..3 {
            let sum = &x + &y;
            let product = &x * 3.0;
            let in_place = given(&x) * 3.0;
            let [together] = fused((), [x.clone(), y.clone()], |(): &(), [x, y]| {
                [ops::maximum(x - 1.0, y * 0.5)]
            });
            // The second call makes the code.
            if call == 1 {
                continue;
            }
            for start in (0..n).step_by(part) {
                let end = n.min(start + part);
                let [x, y] = [&x, &y].map(|x| x.slice(s![start..end]));
                let what = format!("{dtype} from {start}, call {call}");
                assert!(
                    sum.slice(s![start..end]).has_same_bits(&(&x + &y)),
                    "{what}"
                );
                let expected = &x * 3.0;
                assert!(
                    product.slice(s![start..end]).has_same_bits(&expected),
                    "{what}"
                );
                let both = ops::maximum(&x - 1.0, &y * 0.5);
                let found = together.slice(s![start..end]);
                assert!(found.has_same_bits(&both), "{what}, together");
                let skipped = usize::from(start == 0);
                let found = in_place.slice(s![start + skipped - 1..end - 1]);
                let expected = expected.slice(s![skipped..]);
                assert!(found.has_same_bits(&expected), "{what}, in place");
            }
        }
    }
}

#[test]
fn functions_and_options_are_told_apart() {
    let x = Array::full([100, 100], 2.0f32);
    for _ in 0..3 {
        let [sum] = fused((), [x.clone()], |(): &(), [x]| [x.sum(..)]);
        let [product] = fused(3.0, [x.clone()], |factor: &f64, [x]| [x.sum(..) * *factor]);
        let [other] = fused(5.0, [x.clone()], |factor: &f64, [x]| [x.sum(..) * *factor]);
        let of = [sum, product, other].map(|x| x.item::<f32>());
        assert_eq!(of, [20_000.0, 60_000.0, 100_000.0]);
    }
}

#[test]
fn inputs_that_others_hold_keep_their_elements() {
    let x = Generator::new(3).normal([200, 100], 0.0, 1.0, DType::F32);
    let before = x.to_vec::<f32>();
    for _ in 0..3 {
        let [y] = fused((), [x.clone()], |(): &(), [x]| [x.exp() + 1.0]);
        assert_eq!(x.to_vec::<f32>(), before);
        // One that nobody else holds may become the result.
        let [z] = fused((), [&y * 1.0], |(): &(), [x]| [x.exp() + 1.0]);
        assert!(z.has_same_bits(&(y.exp() + 1.0)));
    }
}

#[test]
fn programs_of_many_shapes_come_and_go() {
    for round in 0..3 {
        for rows in 80..200 {
            let x = Array::full([rows, 110], 1.5f32);
            let [y] = fused((), [x], |(): &(), [x]| [(x * 2.0).sum(-1)]);
            assert_eq!(y.to_vec::<f32>(), vec![330.0; rows], "{round}");
        }
    }
}

#[test]
fn formulas_without_a_loop_compute_the_same_bits_by_machine_code_and_without() {
    struct Mixed;
    impl ElementFormula<2, 1> for Mixed {
        const NAME: &'static str = "mixed";
        #[inline(always)]
        fn value<T: Float>([x, y]: [Number<T>; 2], [c]: [Number<T>; 1]) -> Number<T> {
            x.less(y)
                .where_(x.tanh() * c - y.exp(), (x * y).erf() / (y + c))
        }
    }
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let formula = Kernel::of(Mixed, [1.0]).formula(dtype).expect("a formula");
        let kernel = Kernel::from_formula("mixed", &formula);
        let random = &mut Generator::new(5);
        for (size, given) in [
            (40, 2.0),
            (3000, 2.0),
            (3000, -0.0),
            (3000, 0.0),
            (1500, 2.0),
        ] {
            let [x, y] = [0, 1].map(|_| random.normal([size], 0.0, 3.0, dtype));
            let kernel = kernel.with_given(&[given]);
            let run = || run_kernel(&kernel, &mut [x.clone(), y.clone()]);
            let (found, expected) = (run(), interpreted(run));
            assert!(found.has_same_bits(&expected), "{dtype} {size} {given}");
            let own = elementwise(Mixed, [x.clone(), y.clone()], [given]);
            assert!(found.has_same_bits(&own), "{dtype} {size} {given}");
        }
    }
}
