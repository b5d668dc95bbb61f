//! Training, transformations and files with floats of 16 bits and small integers.

use bibun::array::{Array, DType, Generator, bf16, s};
use bibun::functions::{
    ConvOptions, ConvTransposeOptions, UnfoldOptions, attention_weights, average,
    batch_normalization, confusion_matrix, conv_transpose2d, conv2d, embedding, gather, huber_loss,
    layer_normalization, linear, mean_squared_error, one_hot, prelu, select_item,
    sigmoid_cross_entropy, softmax_cross_entropy, take, unfold, var,
};
use bibun::linalg::{VectorNorm, corrcoef, cov, vector_norm};
use bibun::links::{BatchNorm, Chain as _, Linear, Link as _, Mlp};
use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::{Adam, Optimizer as _, Sgd};
use bibun::serializers::{LoadOptions, State, Value, load_safetensors, save_safetensors};
use bibun::{Variable, attempt, eval_mode, grad, jvp, per_example, vmap};

use crate::optimizers::all;

const HALVES: [DType; 2] = [DType::F16, DType::BF16];

fn normal(shape: &[usize], dtype: DType) -> Array {
    Generator::new(shape.iter().sum::<usize>() as u64).normal(shape, 0.0, 1.0, dtype)
}

/// The largest distance, relative to the largest number.
fn distance(a: &Array, b: &Array) -> f64 {
    let [a, b] = [a, b].map(|x| x.cast(DType::F64));
    (&a - &b).abs().max(..).item::<f64>() / b.abs().max(..).item::<f64>()
}

#[test]
fn a_network_of_halves_learns() {
    for dtype in HALVES {
        let x = normal(&[64, 2], DType::F32);
        let t = x.slice(s![.., 0]).greater(0.0).cast(DType::U8);
        let (x, t) = (Variable::constant(x.cast(dtype)), Variable::constant(t));
        let model = Mlp::builder(&[2, 16, 2])
            .dtype(dtype)
            .build(&mut Generator::new(2));
        let mut optimizer = Adam::new(0.02);
        let mut losses = Vec::new();
        for _ in 0..60 {
            let loss =
                optimizer.minimize(&model, &mut || softmax_cross_entropy(model.forward(&x), &t));
            assert_eq!(loss.dtype(), dtype);
            losses.push(loss.item::<f64>());
        }
        assert!(
            losses[59] < 0.3 * losses[0],
            "{} -> {}",
            losses[0],
            losses[59]
        );
    }
}

#[test]
fn every_optimizer_takes_halves() {
    for dtype in HALVES {
        for (name, mut optimizer) in all(0.01) {
            let of = |dtype| Variable::new(normal(&[7], DType::F16).cast(dtype));
            let (w, wide) = (of(dtype), of(DType::F32));
            let mut other = (all(0.01).into_iter())
                .find(|(same, _)| *same == name)
                .expect("the same list")
                .1;
            for _ in 0..2 {
                optimizer.minimize(&w, &mut || w.square().sum(..));
                other.minimize(&wide, &mut || wide.square().sum(..));
            }
            assert_eq!(w.dtype(), dtype);
            let apart = (w.cast(DType::F32) - wide).abs().max(..).item::<f64>();
            // The search along a line compares losses, which 16 bits hardly tell apart.
            assert!(
                apart < 0.02 || name == "lbfgs",
                "{name} of {dtype}: {apart}"
            );
            // What it remembers is not rounded to halves, and comes back.
            let state = optimizer.state();
            let narrow = state
                .iter()
                .find(|(_, value)| matches!(value, Value::Array(x) if x.dtype() == dtype));
            assert!(narrow.is_none(), "{name}: {narrow:?}");
            assert!(optimizer.load_state(&state).is_ok(), "{name}");
        }
    }
}

#[test]
fn transformations_of_halves_are_those_of_floats() {
    for dtype in HALVES {
        let tolerance = if dtype == DType::F16 { 0.004 } else { 0.03 };
        let at = |dtype| {
            let x = Variable::new(normal(&[5, 3], DType::BF16).cast(dtype));
            let layer = Linear::builder(3, 4).dtype(DType::BF16);
            let w = layer.build(&mut Generator::new(1)).weight.array();
            let w = Variable::new(w.cast(dtype));
            let f = |x: &Variable| x.matmul(w.transpose()).tanh().square().sum(-1);
            let total = |x: &Variable| f(x).sum(..);
            let ones = Variable::constant(Array::ones([5, 3], dtype));
            let (y, tangent) = jvp(|x| f(x), &x, &ones);
            let gradient = grad(total, &x);
            let second = grad(|x: &Variable| grad(total, x).square().sum(..), &x);
            let batch = vmap(|x: &Variable| grad(|x: &Variable| f(x), x), &x);
            let rows = per_example(&f(&x), &w).rows();
            [y, tangent, gradient, second, batch, rows]
        };
        for (i, (narrow, wide)) in at(dtype).iter().zip(at(DType::F32)).enumerate() {
            assert_eq!(narrow.dtype(), dtype, "result {i}");
            let apart = distance(&narrow.array(), &wide.array());
            assert!(apart < tolerance, "result {i} of {dtype}: {apart}");
        }
    }
}

#[test]
fn convolutions_of_halves_round_once() {
    type Layer = fn(&Variable, &Variable, Option<&Variable>) -> Variable;
    let strided: Layer = |x, w, b| conv2d(x, w, b, ConvOptions::new().stride([2, 1]).padding(1));
    let turned: Layer =
        |x, w, b| conv_transpose2d(x, w, b, ConvTransposeOptions::new().stride([1, 2]));
    for dtype in HALVES {
        let of = |shape: &[usize], dtype| {
            // Values that all three dtypes have.
            Variable::new((normal(shape, DType::F32) * 16.0).round().cast(dtype) / 16.0)
        };
        for (layer, kernel) in [(strided, [4, 3, 3, 2]), (turned, [3, 4, 3, 2])] {
            let at = |dtype| {
                let (x, w) = (of(&[3, 3, 6, 5], dtype), of(&kernel, dtype));
                let b = of(&[4], dtype);
                let loss = |x: &Variable| layer(x, &w, Some(&b)).square().sum(..);
                let (y, tangent) = jvp(|w| layer(&x, w, Some(&b)), &w, &of(&kernel, dtype));
                let each = vmap(|x: &Variable| layer(x, &w, Some(&b)), &x);
                let gradients = grad(
                    |(w, b): &(Variable, Variable)| layer(&x, w, Some(b)).square().sum(..),
                    &(w.clone(), b.clone()),
                );
                let second = grad(|x: &Variable| grad(loss, x).square().mean(..), &x);
                let losses = layer(&x, &w, Some(&b)).square().sum([1, 2, 3]);
                let rows = [&w, &b].map(|each| per_example(&losses, each).rows());
                let [of_w, of_b] = rows;
                let (gw, gb) = gradients;
                [y, each, tangent, grad(loss, &x), gw, gb, second, of_w, of_b]
            };
            let (narrow, wide) = (at(dtype), at(DType::F32));
            let tolerance = if dtype == DType::F16 { 0.004 } else { 0.03 };
            for (i, (narrow, wide)) in narrow.iter().zip(&wide).enumerate() {
                assert_eq!(narrow.dtype(), dtype, "result {i}");
                if i < 2 {
                    let once = wide.cast(dtype).to_vec::<f64>();
                    assert_eq!(narrow.to_vec::<f64>(), once, "result {i} of {dtype}");
                }
                let apart = distance(&narrow.array(), &wide.array());
                assert!(apart < tolerance, "result {i} of {dtype}: {apart}");
            }
        }
    }
    // 2049 is no half.
    let half = |values: &[f64]| Variable::new(Array::from(values.to_vec()).cast(DType::F16));
    let x = half(&[2048.0, 1.0]).reshape([1, 2, 1, 1]);
    let w = half(&[1.0, 1.0]).reshape([1, 2, 1, 1]);
    let y = conv2d(x, w, half(&[-2048.0]), ConvOptions::new());
    assert_eq!(y.to_vec::<f64>(), [1.0]);
}

#[test]
fn norms_of_examples_of_halves_neither_overflow_nor_vanish() {
    let pick = Variable::constant(Array::from([[0i64], [0]]));
    type Losses = fn(&Variable, &Variable, &Variable) -> Variable;
    let losses: [(&str, &[usize], Losses); 6] = [
        ("linear", &[1, 1], |w, x, _| {
            linear(x.reshape([2, 1]), w, None)
        }),
        ("matmul", &[1, 1], |w, x, _| x.reshape([2, 1]).matmul(w)),
        ("product", &[1], |w, x, _| w * x.reshape([2, 1])),
        ("conv2d", &[1, 1, 1, 1], |w, x, _| {
            conv2d(
                x,
                w,
                Variable::new(Array::ones([1], x.dtype())),
                ConvOptions::new(),
            )
        }),
        ("conv_transpose2d", &[1, 1, 1, 1], |w, x, _| {
            conv_transpose2d(x, w, None, ConvTransposeOptions::new())
        }),
        ("take", &[3, 1], |w, x, pick| {
            w.take(pick, 0) * x.reshape([2, 1, 1])
        }),
    ];
    for dtype in HALVES {
        for (name, shape, losses) in losses {
            for scale in [400.0, 1e-4] {
                let w = Variable::new(Array::ones(shape, dtype));
                let x = Variable::constant(Array::full([2, 1, 1, 1], scale).cast(dtype));
                let losses = losses(&w, &x, &pick).reshape([2, -1]).sum(1);
                let examples = per_example(&losses, &w);
                let norms = examples.norms();
                assert_eq!(norms.dtype(), DType::F32, "{name} of {dtype}");
                let sums = examples.clipped_sum(f64::INFINITY).cast(DType::F64).sum(..);
                let clipped = examples.clipped_sum(scale / 2.0).cast(DType::F64).sum(..);
                let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
                for norm in norms.to_vec::<f64>() {
                    assert!(close(norm, scale), "{name} of {dtype}: {norm}");
                }
                let (sum, clipped) = (sums.item::<f64>(), clipped.item::<f64>());
                assert!(close(sum, 2.0 * scale), "{name} of {dtype}: {sum}");
                assert!(close(clipped, scale), "{name} of {dtype}: {clipped}");
            }
        }
    }
}

#[test]
fn any_integers_are_indices_and_classes() {
    let x = Variable::new(normal(&[4, 3], DType::F64));
    let table = Variable::new(normal(&[4, 2], DType::F64));
    let results = |dtype: DType| {
        let t = &Variable::constant(Array::from([2, 0, 1, 1]).cast(dtype));
        [
            take(&x, t, 0),
            gather(&x, t.reshape([4, 1]), 1),
            one_hot(t, 3, DType::F64),
            select_item(&x, t),
            embedding(t, &table, Some(-1)),
            softmax_cross_entropy(&x, t),
            sigmoid_cross_entropy(&x, t.reshape([4, 1]).broadcast_to([4, 3]).minimum(1)),
            Variable::constant(confusion_matrix(&x, t)),
        ]
        .map(|y| y.cast(DType::F64).to_vec::<f64>())
    };
    let expected = results(DType::I64);
    assert_eq!(
        (results(DType::U8), results(DType::I32)),
        (expected.clone(), expected)
    );
    let error = attempt(|| take(&x, [0.0], 0)).unwrap_err().to_string();
    assert!(error.contains("integers"), "{error}");
}

#[test]
fn numbers_of_the_host_never_widen() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = &Variable::new(normal(&[2, 3], dtype));
        let results = [
            ("+", x + 0.5),
            ("-", 1 - x),
            ("*", x * 2.5f32),
            ("/", 0.5 / x.exp()),
            ("pow", x.square().pow(0.3)),
            ("maximum", x.maximum(0.1)),
            ("where_", x.greater(0.0).where_(x, 0.5)),
            ("clip", x.clip(-0.5, 0.5)),
            ("prelu", prelu(x, 0.25)),
            (
                "average",
                average(x, 0, [0.5f32, 1.5].map(bf16::from_f32).to_vec()),
            ),
            ("average by a number", average(x, .., 2.0)),
            ("add_at", x.add_at([0], 0, 0.5)),
            ("mean", x.mean(..)),
            ("var", x.var(.., 1)),
            ("std", x.std(0, 0)),
        ];
        for (name, y) in results {
            let by_weights = name == "average" && dtype == DType::F16;
            let wanted = if by_weights { DType::F32 } else { dtype };
            assert_eq!(y.dtype(), wanted, "{name} of {dtype}");
        }
    }
    let bytes = Variable::constant([1u8, 2]);
    let error = attempt(|| &bytes + 256).unwrap_err().to_string();
    assert!(
        error.contains("no 256 in u8") && error.contains(file!()),
        "{error}"
    );
}

/// Squares of a half are often no halves: what is composed of several functions must not pass through
/// them.
#[test]
fn composed_functions_do_not_overflow_on_their_way() {
    let half = |x: &Array| x.cast(DType::F16);
    // Norms of examples whose squares are too small or too large.
    for scale in [1e-4, 100.0] {
        let x = Variable::constant(half(&(Array::from([[3.0, 4.0], [0.3, 0.4]]) * scale)));
        let w = Variable::new(Array::ones([1, 2], DType::F16));
        let gradients = per_example(&linear(&x, &w, None).sum(1), &w);
        let norms = gradients.norms().cast(DType::F64).to_vec::<f64>();
        assert!((norms[0] / (5.0 * scale) - 1.0).abs() < 2e-3, "{norms:?}");
        assert!((norms[1] / (0.5 * scale) - 1.0).abs() < 2e-3, "{norms:?}");
        let sum = gradients.clipped_sum(scale);
        assert_eq!(sum.dtype(), DType::F16);
        let sum = sum.to_vec::<f64>();
        assert!((sum[0] / (0.9 * scale) - 1.0).abs() < 2e-3, "{sum:?}");
    }
    // Means over more losses than a half can count, or whose sum it cannot hold.
    let x = Variable::new(Array::zeros([70_000, 2], DType::F16));
    let loss = softmax_cross_entropy(&x, Array::zeros([70_000], DType::U8));
    assert!((loss.item::<f64>() - 2f64.ln()).abs() < 1e-3);
    loss.backward();
    assert!(x.grad().expect("a gradient").abs().max(..).item::<f64>() > 0.0);
    let far = Variable::constant(half(&Array::from([300.0, 0.0, 0.0])));
    let zeros = Variable::constant(Array::zeros([3], DType::F16));
    let loss = mean_squared_error(&far, &zeros);
    assert_eq!((loss.dtype(), loss.item::<f64>()), (DType::F16, 30_000.0));
    assert_eq!(huber_loss(&far, &zeros, 300.0).item::<f64>(), 15_000.0);
    // Variances.
    let x = Variable::new(half(&Array::from([[-400.0, 400.0, 100.0]])));
    let wide = Variable::new(x.array().cast(DType::F64));
    let gradient = |x: &Variable| {
        let y = layer_normalization(x, 1, None, None, 1e-5);
        assert_eq!(y.dtype(), x.dtype());
        y.slice(s![0, 0]).backward();
        x.grad().expect("a gradient").array()
    };
    assert!(distance(&gradient(&x), &gradient(&wide)) < 2e-3);
    // A step as long as it may be.
    let w = Variable::new(Array::zeros([100_000], DType::F16));
    w.set_grad(&Variable::constant(half(&Array::full([100_000], 60_000.0))));
    Sgd::new(1.0).hook(ClipNorm(1.0)).update(&w);
    let norm = w.cast(DType::F64).square().sum(..).item::<f64>().sqrt();
    assert!((norm - 1.0).abs() < 1e-3, "{norm}");
}

/// The values of a function in every 16-bit dtype, against those in f64 of the same numbers.
fn close_to_wide(f: impl Fn(&Variable) -> Variable, x: &[f64], shape: &[usize], tolerance: f64) {
    for dtype in HALVES {
        let x = Array::from_vec(x.to_vec(), shape).cast(dtype);
        let [narrow, wide] = [dtype, DType::F64].map(|dtype| f(&Variable::constant(x.cast(dtype))));
        assert_eq!(narrow.dtype(), dtype);
        let apart = distance(&narrow.array(), &wide.array());
        assert!(apart < tolerance, "{dtype}: {apart}, {narrow:?} {wide:?}");
    }
}

#[test]
fn sums_and_products_of_halves_inside_of_functions_are_wide() {
    let data = [100.0, 200.0, 400.0, 300.0, 200.0, 100.0, 300.0, 500.0];
    for scale in [1.0, 1e-5] {
        let data = data.map(|x| x * scale);
        close_to_wide(|x| corrcoef(x), &data, &[2, 4], 0.01);
    }
    close_to_wide(|x| cov(x, 1), &data, &[2, 4], 0.01);
    // Two thousand windows overlap in the middle.
    let ones = vec![1.0; 3000];
    let unfolded = |x: &Variable| unfold(x, [1, 1000], UnfoldOptions::new()).sum(..) * 1e-3;
    close_to_wide(|x| grad(unfolded, x), &ones, &[1, 1, 1, 3000], 0.01);
    // The mean is not a number of 8 bits.
    let odd: Vec<f64> = (0..4000)
        .map(|i| (0.7 * f64::from(i)).sin() + 30.0)
        .collect();
    let along: Vec<f64> = odd.iter().map(|x| x - 28.5).collect();
    let slope = |x: &Variable| {
        let along = Variable::constant(Array::from(along.clone()).cast(x.dtype()));
        jvp(|x| var(x, .., 0), x, &along).1.expand_dims(0)
    };
    close_to_wide(slope, &odd, &[4000], 0.01);
    let gradient = |x: &Variable| grad(|x| var(x, 0, 0), x);
    close_to_wide(gradient, &[400.0, 500.0, 600.0], &[3], 0.01);
    for p in [3.0, 0.5, -1.0, -2.0] {
        for scale in [1.0, 1e-5] {
            let x = [100.0, 200.0, 300.0].map(|x| x * scale);
            let norm = |x: &Variable| vector_norm(x, VectorNorm::P(p), 0).expand_dims(0);
            close_to_wide(norm, &x, &[3], 0.01);
            close_to_wide(|x| grad(|x| norm(x).sum(..), x), &x, &[3], 0.02);
        }
    }
}

#[test]
fn a_half_model_is_one_when_it_is_evaluated() {
    let norm = BatchNorm::builder(2).dtype(DType::F16).build();
    let x = Variable::constant(normal(&[4, 2], DType::F16));
    assert_eq!(norm.forward(&x).dtype(), DType::F16);
    assert_eq!(eval_mode(|| norm.forward(&x)).dtype(), DType::F16);
}

#[test]
fn running_statistics_of_halves_arrive() {
    for dtype in HALVES {
        let layer = BatchNorm::builder(1).momentum(0.01).dtype(dtype).build();
        let x = Array::from([[80.0], [120.0], [90.0], [110.0]]).cast(dtype);
        let x = Variable::constant(x);
        for _ in 0..1500 {
            assert_eq!(layer.forward(&x).dtype(), dtype);
        }
        let mean = layer.running_mean.get().item::<f64>();
        assert!((mean - 100.0).abs() < 0.1, "{mean}");
        let y = eval_mode(|| layer.forward(&x))
            .cast(DType::F64)
            .to_vec::<f64>();
        assert!(
            (y[0] + 20.0 / (1000.0f64 / 3.0).sqrt()).abs() < 0.02,
            "{y:?}"
        );
    }
}

#[test]
fn integers_beside_parameters_become_their_floats() {
    let bytes = &Variable::constant([[1u8, 2, 3], [4, 5, 7]]);
    for dtype in [DType::BF16, DType::F32] {
        let ones = &Variable::new(Array::ones([3], dtype));
        let results = [
            layer_normalization(bytes, 1, Some(ones), None, 1e-5),
            batch_normalization(bytes, Some(ones), None, 1e-5),
            average(bytes, 1, ones),
            linear(bytes, ones.reshape([1, 3]), None),
            attention_weights(bytes, ones.reshape([1, 3]), None),
        ];
        for (i, y) in results.iter().enumerate() {
            assert_eq!(y.dtype(), dtype, "result {i}");
        }
    }
    let error = attempt(|| bytes.pad(&[(0, 0), (1, 1)], -1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no -1 in u8"), "{error}");
    let power = Array::from([bf16::from_f32(1000.0)]).pow(1.0 / 3.0);
    assert_eq!(power.to_vec::<f64>(), [10.0]);
}

#[test]
fn halves_go_through_files_into_models() {
    let folder = tempdir();
    let path = folder.join("model.safetensors");
    for dtype in HALVES {
        let model = Linear::builder(3, 2)
            .dtype(dtype)
            .build(&mut Generator::new(1));
        let mut state = model.state();
        let held = |dtype: &DType| dtype.safetensors().is_some();
        for (i, dtype) in DType::ALL.into_iter().filter(held).enumerate() {
            let x = Array::from([1, 0, i as i32]).cast(dtype);
            state.insert(format!("more {dtype}"), x);
        }
        save_safetensors(&path, &state).expect("written");
        let back: State = load_safetensors(&path).expect("read");
        assert_eq!(back.checksum(), state.checksum());
        let same = Linear::builder(3, 2)
            .dtype(dtype)
            .build(&mut Generator::new(2));
        let options = LoadOptions::new().allow_unexpected();
        same.load_state_with(&back, &options).expect("it fits");
        assert_eq!(same.weight.to_vec::<f64>(), model.weight.to_vec::<f64>());
        // Into a model of another precision where that is asked for.
        let wide = Linear::new(3, 2, &mut Generator::new(3));
        let error = wide
            .load_state_with(&back, &options)
            .expect_err("another dtype");
        assert!(error.to_string().contains("convert_floats"), "{error}");
        let loaded = wide.load_state_with(&back, &options.convert_floats());
        assert!(loaded.is_ok());
        assert_eq!(wide.weight.to_vec::<f64>(), model.weight.to_vec::<f64>());
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

fn tempdir() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("bibun-dtypes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    folder
}
