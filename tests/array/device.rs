//! Devices other than the CPU: one that counts and refuses, one that has nothing but memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bibun_array::{
    Array, Change, Convolution, ConvolutionPart, DType, Device, Distribution, Error, Fourier,
    Generator, Normalization, Stencil, Update, Window, attempt, concat, cpu, fourier, gemm,
    keep_dims, linalg, log_band_scan, matmul, normalize_gradient, ops, s, settle, stack,
};
use test_device::{BARE, Counting};

use crate::common::Numbers;
use crate::update::{Blend, Decay, Moments};

/// What is computed from a few arrays, by every operation that a device has.
fn everything(device: &'static dyn Device) -> Vec<(&'static str, Array)> {
    let mut numbers = Numbers(7);
    let mut on_device = |shape: &[usize], dtype| numbers.array(shape, dtype).to(device);
    let x = on_device(&[4, 6], DType::F64);
    let y = on_device(&[4, 6], DType::F64);
    let w = on_device(&[6, 3], DType::F64);
    let integers = on_device(&[4, 6], DType::I64);
    let mask = on_device(&[4, 6], DType::Bool);
    let images = on_device(&[2, 3, 5, 5], DType::F32);
    let kernels = on_device(&[4, 3, 3, 3], DType::F32);
    let rows = Array::from([3i64, -4, 0]).to(device);
    let places = Array::from([[0i64, 3, -1, 2, 1, 0]]).to(device);
    let mut written = y.clone();
    written.assign(s![1, ..; 2], &Array::from([1.0, 2.0, 3.0]).to(device));
    let mut added = x.clone();
    added.add_assign_slice(s![.., 2], &Array::from(2.5));
    let window = Window {
        kernel: 3,
        stride: 1,
        padding: [1, 0],
        dilation: 1,
    };
    let convolution = Convolution {
        groups: 1,
        inputs: 3,
        outputs: 4,
        sizes: [5, 5].into(),
        windows: [window; 2].into_iter().collect(),
    };
    let rule = Normalization {
        centered: true,
        epsilon: 1e-5,
    };
    let (scale, shift) = (y.slice(s![..1]), y.slice(s![1..2]));
    let [normal, mean, variance] = x.normalize(rule, &[1], &[&scale, &shift]);
    let cotangents = [&y, &variance, &variance];
    let [gx, gscale, gshift] =
        normalize_gradient(rule, &[1], &x, [&mean, &variance], Some(&scale), cotangents)
            .try_into()
            .expect("there is a scale");
    let halves = Stencil::new(6, [[(0, 0.5), (1, 0.5)], [(4, 0.5), (5, 0.5)]]);
    let windows = Stencil::new(6, [[(0, 1.0), (1, 1.0)], [(3, 1.0), (5, 1.0)]]);
    let all_rows = Stencil::new(4, [[(0, 1.0), (2, 1.0)]]);
    let (largest, at) = x.window_max(&[all_rows, windows]);
    let (top, top_at) = x.top_k(2, 1);
    let (mut parameter, mut state) = (x.clone(), [y.clone(), Array::zeros([4, 6], DType::F64)]);
    let blend = Change::of(Blend, [&y * 0.5, x.max(..)], [0.25]);
    let given = [y.max(..).into(), 0.9.into(), 0.1.into()];
    let changes = vec![Change::of(Decay, [], [0.1]), blend];
    let squares = device.sum_of_squares(&changes, &x, &y);
    let update = Update::new(Moments, changes, given);
    device.update(
        &update,
        &mut parameter,
        &y.transpose().transpose(),
        &mut state,
    );
    let [m, count] = state;
    let draw = |distribution| Generator::new(3).draw(distribution, [3, 5], device);
    vec![
        ("random", draw(Distribution::normal(0.0, 1.0, DType::F32))),
        ("update", parameter),
        ("update of state", m),
        ("update of zeros", count),
        ("sum_of_squares", squares),
        ("bernoulli", draw(Distribution::bernoulli(0.5))),
        ("elementwise", (&x * &y + 1.0).transpose() * 2.0),
        ("where", mask.where_(&x, 0.0)),
        ("reshape", x.transpose().reshape(24)),
        ("copy", x.transpose().to_row_major()),
        ("assign", written),
        ("add_assign_slice", added),
        ("sum", x.sum(0)),
        ("total", x.sum(..)),
        ("single", x.sum(..) * 2.0 + y.max(..)),
        ("argmax", x.argmax(1)),
        ("any", mask.any(keep_dims(0))),
        ("take", x.take(&rows, 0)),
        ("gather", x.gather(&places, 0)),
        ("add_at", x.clone().add_at(&rows, 0, &y.slice(s![..3]))),
        (
            "scatter_add",
            x.clone().scatter_add(&places, 0, &y.slice(s![..1])),
        ),
        ("one_hot", Array::one_hot(&rows, 4, DType::F32)),
        ("nonzero", integers.nonzero()),
        ("flat_nonzero", mask.flat_nonzero()),
        ("mask_select", x.mask_select(&mask)),
        ("compress", x.compress(&mask.slice(s![1]), 1)),
        ("matmul", matmul(&x, &w)),
        ("gemm", gemm(2.0, &x, &w, 0.5, y.slice(s![.., ..3]))),
        (
            "convolve",
            convolution.product(ConvolutionPart::Output, &images, &kernels),
        ),
        ("patches", convolution.patches(&images)),
        ("scan", x.cumsum(1)),
        ("normal", normal),
        ("mean", mean),
        ("normalize_gradient", gx),
        ("normalize_gradient of the scale", gscale),
        ("normalize_gradient of the shift", gshift),
        ("argsort", x.argsort(1)),
        ("sort", x.sort(0)),
        ("top", top),
        ("top positions", top_at),
        ("reduce_window", x.reduce_window(&[halves])),
        ("window_max", largest),
        ("window_max positions", at),
        ("concat", concat(&[&x, &y.transpose().reshape([4, 6])], 0)),
        ("stack", stack(&[&x, &y], -1)),
        ("pad", x.pad(&[(1, 0), (0, 2)], 7.0)),
        ("roll", x.roll(2, 1)),
        ("tile", x.tile(&[2, 2])),
        ("tril", x.slice(s![.., ..4]).tril(0)),
        ("cast", ops::cast(x.clone(), DType::F32)),
    ]
}

fn same(what: &str, a: &Array, b: &Array) {
    let bits = |x: &Array| -> Vec<u64> {
        let x = x.to(cpu()).cast(DType::F64).to_vec::<f64>();
        x.into_iter().map(f64::to_bits).collect()
    };
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{what}");
    assert_eq!(bits(a), bits(b), "{what}");
}

#[test]
fn every_operation_gives_the_same_bits_on_every_device() {
    let expected = everything(cpu());
    let counting = Counting::new(&["to"]);
    for device in [&BARE as &'static dyn Device, counting] {
        for ((what, found), (_, expected)) in everything(device).iter().zip(&expected) {
            let on = found.memory().map(|memory| memory.device() == device);
            assert_ne!(on, Some(false), "{what} is on another device");
            same(&format!("{what} on {device:?}"), found, expected);
        }
    }
}

#[test]
fn what_is_computed_on_a_device_stays_there() {
    let counting = Counting::new(&["to"]);
    let (results, counts) = counting.counting(|| everything(counting));
    assert!(counts.kernels.len() > 20, "{counts:?}");
    for (what, result) in &results {
        assert!(result.memory_key().is_some(), "{what} is known to the host");
        assert!(result.as_slice::<f64>().is_none(), "{what} can be read");
    }
    let bytes: usize = results.iter().map(|(_, x)| x.memory_bytes()).sum();
    assert!(counting.counts().live_bytes >= bytes / 2);
    drop(results);
    assert_eq!(counting.counts().live_bytes, 0);
}

#[test]
fn work_is_done_in_the_memory_of_what_nobody_else_holds() {
    let device = Counting::new(&["to_vec"]);
    let x = Array::from([1.0, 2.0, 3.0]).to(device);
    let (y, counts) = device.counting(|| &x * 2.0);
    assert_eq!((counts.kernel_count(), counts.allocations), (1, 1));
    let (y, counts) = device.counting(|| y * 3.0 + 1.0);
    assert_eq!((counts.kernel_count(), counts.allocations), (2, 0));
    assert_eq!(y.to_vec::<f64>(), [7.0, 13.0, 19.0]);
    assert_eq!(x.to_vec::<f64>(), [1.0, 2.0, 3.0]);
}

#[test]
fn arrays_are_moved_and_found_equal() {
    let device = Counting::new(&["to", "to_vec", "item", "display", "element", "save"]);
    let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    let there = x.transpose().to(device);
    assert!(there.device() == device as &dyn Device && there.device() != cpu());
    assert!(there.to(device).shares_memory_with(&there));
    assert!(x.to(cpu()).shares_memory_with(&x));
    assert_eq!(
        there.to(cpu()).as_slice::<f64>().unwrap(),
        [1.0, 3.0, 2.0, 4.0]
    );
    assert_eq!(there.transpose().to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(there.sum(..).item::<f64>(), 10.0);
    assert_eq!(there.to_string(), x.transpose().to_string());
    assert_eq!(there.slice(s![1]).element(&[1]).to_f64(), 4.0);
    let other = Counting::new(&["to"]);
    assert!(there.to(other).device() == other as &dyn Device);
    // A single value has no memory, and is on every device.
    let zeros = Array::zeros([2, 2], DType::F64);
    assert!(zeros.to(device).memory().is_none());
    assert_eq!((&there + &zeros).to_vec::<f64>(), there.to_vec::<f64>());
}

#[test]
fn repeated_values_are_computed_where_that_is_settled() {
    let device = Counting::new(&["to"]);
    let _here = settle(device);
    let x = Array::ones([2, 2], DType::F64);
    let first = Array::zeros([1, 2], DType::I64);
    let none = Array::zeros([2], DType::Bool);
    for (what, y) in [
        ("cumsum", x.cumsum(0)),
        (
            "scatter_add",
            x.clone().scatter_add(&first, 0, &x.slice(s![..1])),
        ),
        ("log_band_scan", log_band_scan(&x, &none)),
        ("cofactors", linalg::cofactors(&x)),
        ("nextafter", ops::nextafter(&x, &(&x + 1.0))),
        ("fourier", fourier(&x, Fourier::Real, 1.0)),
    ] {
        assert!(y.device() == device as &dyn Device, "{what}");
    }
}

fn refused<T>(f: impl FnOnce() -> T) -> Error {
    attempt(f).err().expect("an error")
}

#[test]
fn two_devices_are_not_computed_with() {
    let [one, other] = [(); 2].map(|()| Counting::new(&[]));
    let x = Array::from([1.0, 2.0]);
    let (a, b) = (x.to(one), x.to(other));
    for (left, right) in [(&a, &b), (&a, &x), (&x, &b)] {
        let error = refused(|| left + right).to_string();
        assert!(
            error.starts_with("add: the arrays are on two devices"),
            "{error}"
        );
        assert!(error.contains("`to(device)`"), "{error}");
    }
    let mut a = a;
    let error = refused(|| a.as_mut_slice::<f64>().len()).to_string();
    assert!(error.contains("`to(cpu())` brings them here"), "{error}");
}

#[test]
fn indices_out_of_bounds_are_told_with_the_call_when_elements_are_read() {
    let device = Counting::new(&["to_vec"]);
    let x = Array::from([1.0, 2.0, 3.0]).to(device);
    let indices = Array::from([0i64, 7]).to(device);
    let (y, line) = (x.take(&indices, 0), line!());
    let sum = y + 1.0;
    let error = refused(|| sum.to_vec::<f64>());
    assert!(
        error
            .to_string()
            .starts_with("take: index 7 is outside of axis 0")
    );
    assert_eq!(
        (error.location().file(), error.location().line()),
        (file!(), line)
    );
    assert_eq!(
        x.take(&Array::from([-1i64, 0]).to(device), 0)
            .to_vec::<f64>(),
        [3.0, 1.0]
    );
}

#[test]
fn elements_of_somebody_else_are_read_where_they_lie_and_never_written() {
    let theirs: Arc<[f64]> = (0..6).map(f64::from).collect();
    let x = Array::from_buffer(Arc::clone(&theirs), [2, 3]);
    assert_eq!(x.as_slice::<f64>().unwrap().as_ptr(), theirs.as_ptr());
    assert_eq!(x.slice(s![.., 1]).to_vec::<f64>(), [1.0, 4.0]);
    assert_eq!(
        (matmul(&x, &x.transpose())).to_vec::<f64>(),
        [5.0, 14.0, 14.0, 50.0]
    );
    assert_eq!(x.memory_bytes(), 48);
    // An array that nobody else holds gives its memory to results, but not this one.
    let y = Array::from_buffer(Arc::clone(&theirs), 6) * 2.0;
    assert_eq!(y.to_vec::<f64>(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    let y = Array::from_buffer(Arc::clone(&theirs), 6).add_at(
        &Array::from([5i64]),
        0,
        &Array::from(1.0),
    );
    assert_eq!(y.element(&[5]).to_f64(), 6.0);
    let mut z = Array::from_buffer(Arc::clone(&theirs), 6);
    z.as_mut_slice::<f64>()[0] = 7.0;
    z.assign(s![1], &Array::from(8.0));
    assert_eq!(z.to_vec::<f64>()[..3], [7.0, 8.0, 2.0]);
    assert_eq!(theirs[..2], [0.0, 1.0]);
    assert_eq!(Arc::strong_count(&theirs), 2);
    drop(x);
    assert_eq!(Arc::strong_count(&theirs), 1);
    // All types, and what does not fit.
    assert_eq!(
        Array::from_buffer(vec![true, false], 2).to_vec::<bool>(),
        [true, false]
    );
    assert_eq!(
        Array::from_buffer(Box::<[i64]>::from([3, 4]), [2, 1])
            .sum(..)
            .item::<i64>(),
        7
    );
    assert_eq!(Array::from_buffer(vec![2.5f32], ()).item::<f32>(), 2.5);
    let error = refused(|| Array::from_buffer(vec![1.0, 2.0], 3)).to_string();
    assert!(
        error.starts_with("from_buffer: 2 elements do not fill the shape [3]"),
        "{error}"
    );
}

#[test]
fn an_owner_that_shows_other_elements_later_is_refused() {
    /// Fewer elements each time.
    struct Shrinking(Vec<f64>, std::sync::atomic::AtomicUsize);
    impl AsRef<[f64]> for Shrinking {
        fn as_ref(&self) -> &[f64] {
            let looks = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            &self.0[..10usize.saturating_sub(looks / 3)]
        }
    }
    let x = Array::from_buffer(Shrinking(vec![1.0; 10], Default::default()), 10);
    let look = AssertUnwindSafe(|| (0..9).map(|_| x.sum(..).item::<f64>()).sum::<f64>());
    let looked = catch_unwind(look);
    let text = *looked.unwrap_err().downcast::<&str>().expect("a message");
    assert_eq!(text, "the owner has changed");
}

#[test]
fn memory_of_another_dtype_is_no_image() {
    let x = Array::from([1i64, 2]);
    let bools = Array::from(vec![true; 16]);
    let mut memory = None;
    let _ = bools.map_memory(|theirs| {
        memory = Some(Arc::clone(&theirs));
        theirs
    });
    let memory = memory.expect("taken");
    let error = refused(|| x.map_memory(|_| Arc::clone(&memory))).to_string();
    assert!(
        error.contains("16 bytes of bool are no image of 16 bytes of i64"),
        "{error}"
    );
    let error = refused(|| Array::from_memory(memory, 3)).to_string();
    assert!(
        error.contains("16 bytes of bool do not fill the shape [3]"),
        "{error}"
    );
}
