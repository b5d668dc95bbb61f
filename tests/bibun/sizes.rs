//! Functions whose results no memory holds: refused with the name of the function and the line of the
//! call, and never with a hang or an abort.

use std::panic::Location;

use bibun::array::{Array, DType, Error as ArrayError, Generator};
use bibun::datasets::transforms::random_crop;
use bibun::functions::*;
use bibun::{Error, Variable, attempt, jacobian, vmap};

/// Too many for any array.
const HUGE: usize = 1 << 61;
/// An array can have so many elements, but no machine has the memory.
const LARGE: usize = 1 << 50;

#[track_caller]
fn refused<T>(call: impl FnOnce() -> T) -> Error {
    let place = Location::caller();
    match attempt(call) {
        Ok(_) => panic!("a result, {place}"),
        Err(error) => error,
    }
}

/// The same function, called on the same line.
fn expect_same(found: (&str, &Location<'_>), expected: (&str, &Location<'_>)) {
    let parts = |(name, place): (&str, &Location<'_>)| {
        (name.to_owned(), place.file().to_owned(), place.line())
    };
    assert_eq!(parts(found), parts(expected));
}

/// Refused by its shape, with the name of the function and this line.
#[track_caller]
fn too_large<T>(name: &str, call: impl FnOnce() -> T) {
    let place = Location::caller();
    match refused(call) {
        Error::Array(ArrayError::TooLarge {
            function, location, ..
        }) => expect_same((function, location), (name, place)),
        other => panic!("{other}"),
    }
}

/// Refused by the system, with the name of the function and this line.
#[track_caller]
fn out_of_memory<T>(name: &str, call: impl FnOnce() -> T) {
    let place = Location::caller();
    match refused(call) {
        Error::Array(ArrayError::OutOfMemory {
            function, location, ..
        }) => expect_same((function, location), (name, place)),
        other => panic!("{other}"),
    }
}

fn repeated(shape: impl Into<bibun::array::Shape>) -> Variable {
    Variable::new(Array::full(shape, 1.0))
}

#[rustfmt::skip]
#[test]
fn results_that_cannot_be_counted() {
    let x = Variable::new([1.0, 2.0]);
    let (rows, columns) = (repeated([1 << 31, 1]), repeated([1, 1 << 31]));
    let half = repeated([(1 << 60) - 1]);
    too_large("add", || &rows + &columns);
    too_large("matmul", || matmul(&rows, &columns));
    too_large("broadcast_to", || broadcast_to(&x, [HUGE, 2]));
    too_large("concat", || concat([&half, &half], 0));
    too_large("tile", || tile(&x, &[1 << 63]));
    too_large("tile", || tile(&x, &[1 << 30, 1 << 30]));
    too_large("repeat", || repeat(&x, 1 << 63, 0));
    too_large("pad", || pad(&x, &[(usize::MAX, 2)], 0.0));
    too_large("diag", || diag(&x, isize::MAX));
    too_large("diag", || diag(&x, isize::MIN));
    too_large("one_hot", || one_hot([1i64], usize::MAX, DType::F32));
    too_large("take", || take(&rows, Array::zeros([1 << 31], DType::I64), 1));
    too_large("causal_mask", || causal_mask(1 << 32));
    too_large("length_mask", || length_mask(&[1, 2], 1 << 60));
    too_large("sinusoidal_positions", || sinusoidal_positions(1 << 31, 1 << 31, DType::F32));
    too_large("interpolate", || interpolate(&x, [HUGE], Interpolation::LINEAR));
    too_large("upsample", || upsample(&x, [usize::MAX], Interpolation::Nearest));
    too_large("random_crop", || random_crop(&Array::ones([1, 2, 2], DType::F32), [1, 1], usize::MAX, &mut Generator::new(0)));
    let image = repeated([1, 1, 2, 2]);
    let options = UnfoldOptions { padding: Padding::Sizes([1 << 40, 1 << 40]), ..Default::default() };
    too_large("unfold", || unfold(&image, [1, 1], options));
    let options = ConvOptions { padding: Padding::Sizes([1 << 40, 1 << 40]), ..Default::default() };
    too_large("conv2d", || conv2d(&image, repeated([1, 1, 1, 1]), None, options));
}

#[rustfmt::skip]
#[test]
fn memory_that_the_system_does_not_give() {
    let x = Variable::new([1.0, 2.0]);
    out_of_memory("causal_mask", || causal_mask(1 << 29));
    out_of_memory("length_mask", || length_mask(&[1, 2], LARGE));
    out_of_memory("sinusoidal_positions", || sinusoidal_positions(LARGE, 2, DType::F32));
    out_of_memory("tile", || tile(&x, &[LARGE]));
    out_of_memory("repeat", || repeat(&x, LARGE, 0));
    out_of_memory("pad", || pad(&x, &[(LARGE, 0)], 0.0));
    out_of_memory("diag", || diag(&x, 1 << 26));
    out_of_memory("one_hot", || one_hot([1i64], LARGE, DType::F32));
    out_of_memory("exp", || broadcast_to(&x, [LARGE, 2]).exp());
    out_of_memory("matmul", || matmul(x.reshape([2, 1]), broadcast_to(&x, [1 << 40, 2]).transpose().sum(0).reshape([1, 1_usize << 40])));
    out_of_memory("interpolate", || interpolate(&x, [LARGE], Interpolation::LINEAR));
    out_of_memory("upsample", || upsample(&x, [LARGE], Interpolation::Nearest));
    out_of_memory("max_pool", || max_pool(x.reshape([1, 1, 2]), Pooling::new([LARGE]).stride([1]).padding([LARGE - 1])));
    out_of_memory("avg_pool", || avg_pool(x.reshape([1, 1, 2]), Pooling::new([LARGE]).stride([1]).padding([LARGE - 1])));
    let options = ConvOptions { padding: Padding::Sizes([1 << 42]), ..Default::default() };
    out_of_memory("conv1d", || conv1d(x.reshape([1, 1, 2]), repeated([1, 1, 2]), None, options));
    let image = repeated([1, 1, 2, 2]);
    let options = UnfoldOptions { padding: Padding::Sizes([1 << 25, 1 << 25]), ..Default::default() };
    out_of_memory("unfold", || unfold(&image, [1, 1], options));
    out_of_memory("tile", || vmap(|x: &Variable| tile(x, &[LARGE]), &Variable::new([[1.0, 2.0], [3.0, 4.0]])));
    out_of_memory("jacobian", || jacobian(|x: &Variable| x * 2.0, &repeated([1 << 26])));
}

/// Of a long stride, the steps that meet no element of the kernel are not looked at one by one.
#[test]
fn long_strides_take_no_time() {
    let options = ConvTransposeOptions {
        stride: [1 << 24],
        ..Default::default()
    };
    let y = conv_transpose1d(
        Variable::new([[[2f32, 3.0]]]),
        Variable::new([[[1f32, 10.0]]]),
        None,
        options,
    );
    assert_eq!(y.shape(), [1, 1, (1 << 24) + 2]);
    let places = Array::from([0i64, 1, 2, (1 << 24) - 1, 1 << 24, (1 << 24) + 1]);
    let found = take(&y, places, 2).to_vec::<f32>();
    assert_eq!(found, [2.0, 20.0, 0.0, 0.0, 3.0, 30.0]);
}

/// What is far away from all elements is not looked at one by one.
#[test]
fn sizes_beyond_all_elements_take_no_time() {
    let x = Variable::new([[1.0, 2.0, 3.0]]);
    let all = local_response_normalization(&x, usize::MAX, 2.0, 1e-4, 0.75);
    let near = local_response_normalization(&x, 5, 2.0, 1e-4, 0.75);
    assert_eq!(all.to_vec::<f64>(), near.to_vec::<f64>());
    let whole = Pooling::new([1 << 40]).padding([1 << 39]);
    let y = avg_pool(x.reshape([1, 1, 3]), whole.count_include_pad(false));
    assert_eq!(y.to_vec::<f64>(), [2.0]);
    let nothing = attempt(|| max_pool(x.reshape([1, 1, 3]), Pooling::new([1]).padding([1 << 50])));
    let nothing = nothing.unwrap_err().to_string();
    assert!(
        nothing.contains("must see at least one element"),
        "{nothing}"
    );
    assert_eq!(roll(&x, isize::MIN, 1).to_vec::<f64>().len(), 3);
    for offset in [isize::MIN, isize::MAX] {
        assert_eq!(diagonal(&x, offset, [0, 1]).size(), 0);
    }
}
