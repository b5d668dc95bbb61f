//! Conversions from and to the crate `ndarray`.

use bibun_array::{Array, DType, Element, Error};
use ndarray::{Array1, Array2, Array3, ArrayD, IxDyn, ShapeBuilder, s};

fn check<T: Element, D: ndarray::Dimension>(x: ndarray::ArrayView<'_, T, D>) {
    let y = Array::from(x.view());
    assert_eq!((y.shape(), y.dtype()), (&x.shape().into(), T::DTYPE));
    assert_eq!(y.to_vec::<T>(), x.iter().copied().collect::<Vec<T>>());
    let back: ndarray::Array<T, D> = (&y).try_into().expect("the same dtype and rank");
    assert_eq!(back, x);
    let dynamic: ArrayD<T> = y.try_into().expect("any rank");
    assert_eq!(dynamic, x.into_dyn());
}

#[test]
fn arrays_of_every_rank_and_layout_go_there_and_back() {
    let x = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 12 + j * 4 + k) as f64);
    check(x.view());
    check(x.t());
    check(x.slice(s![..;-1, 1.., ..;2]));
    check(x.slice(s![1, .., 0]));
    check(x.slice(s![.., 0..0, ..]));
    check(x.mapv(|x| x as f32).view());
    check(x.mapv(|x| x as i64).view());
    check(x.mapv(|x| x > 5.0).view());
    check(ndarray::arr0(1.5).view());
    check(Array1::<i64>::zeros(0).view());
    check(x.slice(s![0..1, .., 0]).broadcast((5, 3)).expect("it fits"));
    let column_major = Array2::from_shape_fn((3, 4).f(), |(i, j)| i as f64 - j as f64);
    assert_eq!(Array::from(&column_major).strides(), [1, 3]);
    check(column_major.view());
    check(ArrayD::<f32>::ones(IxDyn(&[1, 2, 1, 3, 1, 2])).view());
}

#[test]
fn another_dtype_or_rank_is_an_error() {
    let x = Array::from([[1.0, 2.0]]);
    let dtype: Result<Array2<f32>, Error> = (&x).try_into();
    let Err(Error::DType {
        found,
        expected,
        location,
        ..
    }) = dtype
    else {
        panic!("{dtype:?}")
    };
    assert_eq!((found, expected), (DType::F64, DType::F32));
    assert!(!location.file().is_empty());
    let rank: Result<Array1<f64>, Error> = x.try_into();
    assert!(matches!(rank, Err(Error::Invalid { .. })));
}
