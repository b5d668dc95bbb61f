//! Sizes that no memory has: every function that computes one refuses it with its name and the line
//! of the call, and memory that the system does not give is an error that can be caught.

use std::panic::Location;

use bibun_array::{
    Array, Convolution, ConvolutionPart, DType, Error, Generator, Index, Scalar, Shape, Window,
    attempt, concat, dot, matmul, ops, outer, s, stack,
};
use smallvec::smallvec;

/// Too many for any array.
const HUGE: usize = 1 << 61;
/// An array can have so many elements, but no machine has the memory.
const LARGE: usize = 1 << 50;

/// What a call is refused with, and whether it names its function and this line.
#[track_caller]
fn refused<T>(function: &str, call: impl FnOnce() -> T) -> Error {
    let line = Location::caller();
    let Err(error) = attempt(call) else {
        panic!("{function} gave something, {line}")
    };
    let (name, location) = match &error {
        Error::TooLarge {
            function, location, ..
        }
        | Error::OutOfMemory {
            function, location, ..
        }
        | Error::Invalid {
            function, location, ..
        } => (*function, *location),
        other => panic!("{other}"),
    };
    assert_eq!(name, function, "{error}");
    assert_eq!(location.file(), line.file(), "{error}");
    // The call may stand on a line of its own.
    let lines = line.line()..line.line() + 2;
    assert!(lines.contains(&location.line()), "{error}, {line}");
    error
}

#[track_caller]
fn too_large<T>(function: &str, call: impl FnOnce() -> T) {
    let error = refused(function, call);
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("2^60"), "{error}");
}

#[track_caller]
fn out_of_memory<T>(function: &str, call: impl FnOnce() -> T) {
    let error = refused(function, call);
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
}

/// One value, so often.
fn repeated(shape: impl Into<Shape>) -> Array {
    Array::full(shape, 1.0)
}

#[rustfmt::skip]
#[test]
fn results_that_cannot_be_counted_are_refused() {
    let g = &mut Generator::new(0);
    let x = Array::from([1.0, 2.0]);
    too_large("zeros", || Array::zeros([HUGE], DType::F32));
    too_large("ones", || Array::ones([1 << 31, 0, 1 << 31], DType::F32));
    too_large("full", || Array::full([usize::MAX, 2], 1.0));
    too_large("eye", || Array::eye(1 << 31, DType::Bool));
    too_large("linspace", || Array::linspace(0.0, 1.0, usize::MAX));
    too_large("arange", || Array::arange(i64::MIN, i64::MAX));
    too_large("uniform", || g.uniform([HUGE], 0.0, 1.0, DType::F32));
    too_large("normal", || g.normal([HUGE, 8], 0.0, 1.0, DType::F64));
    too_large("integers", || g.integers(0, 5, [HUGE]));
    too_large("bernoulli", || g.bernoulli(0.5, [HUGE]));
    too_large("choice", || g.choice(5, [HUGE], true, None));
    let half = repeated([(1 << 60) - 1]);
    too_large("concat", || concat(&[&half, &half], 0));
    too_large("concat", || stack(&[&half, &half], 0));
    too_large("tile", || x.tile(&[1 << 63]));
    too_large("tile", || x.tile(&[1 << 30, 1 << 30]));
    too_large("repeat", || x.repeat(1 << 63, 0));
    too_large("repeat", || repeated([0]).repeat(1 << 63, 0));
    too_large("pad", || x.pad(&[(usize::MAX, 2)], 0.0));
    too_large("pad", || x.pad(&[(HUGE, HUGE)], 0.0));
    too_large("diag", || x.diag(isize::MAX));
    too_large("diag", || x.diag(isize::MIN));
    too_large("broadcast_to", || x.broadcast_to([HUGE, 2]));
    too_large("reshape", || repeated([0]).reshape([0, HUGE]));
    too_large("one_hot", || Array::one_hot(&Array::from([1i64]), usize::MAX, DType::F32));
    too_large("take", || repeated([1 << 31, 1]).take(&Array::zeros([1 << 31], DType::I64), 1));
    let (rows, columns) = (repeated([1 << 31, 1]), repeated([1, 1 << 31]));
    too_large("add", || &rows + &columns);
    too_large("maximum", || ops::maximum(rows.clone(), columns.clone()));
    too_large("matmul", || matmul(&rows, &columns));
    too_large("dot", || dot(&repeated([1 << 31, 1]), &repeated([1 << 31, 1, 1])));
    too_large("outer", || outer(&rows, &columns));
}

#[rustfmt::skip]
#[test]
fn memory_that_the_system_does_not_give_is_an_error_of_the_call() {
    let g = &mut Generator::new(0);
    let x = Array::from([1.0, 2.0]);
    let before = g.clone();
    out_of_memory("uniform", || g.uniform([LARGE], 0.0, 1.0, DType::F32));
    out_of_memory("integers", || g.integers(0, 5, [LARGE]));
    out_of_memory("permutation", || g.permutation(LARGE));
    out_of_memory("choice", || g.choice(LARGE, [LARGE], false, None));
    assert_eq!(g.counter(), before.counter());
    out_of_memory("eye", || Array::eye(1 << 26, DType::F64));
    out_of_memory("linspace", || Array::linspace(0.0, 1.0, LARGE));
    out_of_memory("arange", || Array::arange(0, LARGE as i64));
    out_of_memory("to_vec", || repeated([LARGE]).to_vec::<f64>());
    out_of_memory("as_mut_slice", || repeated([LARGE]).as_mut_slice::<f64>().len());
    out_of_memory("to_row_major", || x.broadcast_to([LARGE, 2]).to_row_major());
    out_of_memory("reshape", || x.broadcast_to([LARGE, 2]).reshape([2 * LARGE]));
    out_of_memory("concat", || concat(&[&repeated([LARGE]), &repeated([1])], 0));
    out_of_memory("tile", || x.tile(&[LARGE]));
    out_of_memory("repeat", || x.repeat(LARGE, 0));
    out_of_memory("pad", || x.pad(&[(LARGE, 0)], 0.0));
    out_of_memory("diag", || x.diag(1 << 26));
    out_of_memory("one_hot", || Array::one_hot(&Array::from([1i64]), LARGE, DType::F32));
    out_of_memory("take", || x.take(&Array::zeros([LARGE], DType::I64), 0));
    out_of_memory("multiply", || x.broadcast_to([LARGE, 2]) * 2.0);
    let row = repeated([1, 1 << 26]).to_row_major();
    assert_eq!(row.memory_bytes(), 0);
    let [a, b] = [[1 << 26, 1], [1, 1 << 26]].map(|shape| Array::from([1.0]).reshape([1, 1]).broadcast_to(shape));
    out_of_memory("matmul", || matmul(&a, &b));
    out_of_memory("cumsum", || repeated([LARGE]).cumsum(0));
    out_of_memory("sort", || x.broadcast_to([LARGE, 2]).sort(1));
    // What was asked for before is still there, and memory for the rest too.
    assert_eq!(x.tile(&[2]).to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn an_array_that_could_not_be_changed_is_as_it_was() {
    let mut x = Array::from([1.0, 2.0]).broadcast_to([LARGE, 2]);
    out_of_memory("assign", || x.assign(s![0, 0], &Array::from(5.0)));
    assert_eq!(x.element(&[LARGE - 1, 1]), Scalar::F64(2.0));
}

#[test]
fn convolutions_with_padding_that_cannot_be_counted() {
    let convolution = |padding, stride| Convolution {
        groups: 1,
        inputs: 1,
        outputs: 1,
        sizes: [4].into(),
        windows: smallvec![Window {
            kernel: 3,
            stride,
            padding: [padding; 2],
            dilation: 1,
        }],
    };
    let (x, w) = (repeated([1, 1, 4]), repeated([1, 1, 3]));
    let made = ConvolutionPart::Output;
    too_large("convolution", || {
        convolution(usize::MAX, 1).product(made, &x, &w)
    });
    too_large("patches", || convolution(1 << 60, 1 << 60).patches(&x));
    out_of_memory("convolution", || {
        convolution(LARGE, LARGE).product(made, &x, &w)
    });
    out_of_memory("patches", || convolution(LARGE, LARGE).patches(&x));
    let window = Window {
        kernel: usize::MAX,
        stride: 1,
        padding: [usize::MAX; 2],
        dilation: usize::MAX,
    };
    assert_eq!(window.positions(3), Some(1));
}

#[test]
fn indices_that_no_axis_has() {
    let x = Array::arange(0, 5);
    assert_eq!(Index::from(usize::MAX), Index::At(isize::MAX));
    for at in [usize::MAX, 1 << 63, 5] {
        let error = refused("slice", || x.slice(&[at.into()]));
        assert!(error.to_string().contains("is outside of axis 0"));
    }
    assert_eq!(x.slice(s![3..usize::MAX]).to_vec::<i64>(), [3, 4]);
    assert_eq!(x.slice(s![usize::MAX..]).size(), 0);
    assert_eq!(x.slice(s![..usize::MAX]).size(), 5);
    assert_eq!(x.slice(s![1..; isize::MAX]).to_vec::<i64>(), [1]);
    assert_eq!(x.slice(s![..; isize::MIN]).to_vec::<i64>(), [4]);
    let matrix = x.slice(s![..4]).reshape([2, 2]);
    assert_eq!(matrix.slice(s![..; isize::MAX]).to_vec::<i64>(), [0, 1]);
    for offset in [isize::MIN, isize::MAX] {
        assert_eq!(matrix.diagonal(offset).size(), 0);
    }
    assert_eq!(matrix.tril(isize::MAX).to_vec::<i64>(), [0, 1, 2, 3]);
    assert_eq!(matrix.triu(isize::MAX).to_vec::<i64>(), [0; 4]);
    assert_eq!(x.roll(isize::MIN, 0).size(), 5);
}
