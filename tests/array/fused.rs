//! Functions that run as programs when their inputs come again compute the same bits as before.

use bibun_array::{Array, DType, Generator, fused, keep_dims, s};

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
