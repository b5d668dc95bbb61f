//! Running reductions and sorting over every kind of layout, against plain loops.

use std::cmp::Ordering;

use crate::common::{Numbers, indices, same_for_all_thread_counts, shapes};
use bibun_array::{Array, DType, Element, Error, ascending, attempt, s};

/// The lines of an array along `axis`.
fn lines<T: Element>(x: &Array, axis: usize) -> Vec<Vec<T>> {
    let length = x.shape()[axis];
    let mut lines = vec![Vec::new(); x.size().checked_div(length).unwrap_or(0)];
    for (index, element) in indices(x.shape()).zip(x.to_vec::<T>()) {
        let others = (0..x.rank()).filter(|&a| a != axis);
        let line = others.fold(0, |line, a| line * x.shape()[a] + index[a]);
        lines[line].push(element);
    }
    lines
}

/// Every layout of every shape with every axis.
fn for_all(dtype: DType, mut test: impl FnMut(&Array, usize)) {
    let mut numbers = Numbers(11 + dtype.size() as u64);
    for shape in shapes(&mut numbers) {
        for _ in 0..if shape.iter().product::<usize>() > 5_000 {
            1
        } else {
            4
        } {
            let x = numbers.layout(&shape, dtype);
            (0..shape.len()).for_each(|axis| test(&x, axis));
        }
    }
}

#[test]
fn running_sums_and_products() {
    for_all(DType::F64, |x, axis| {
        let (sums, products) = (x.cumsum(axis as isize), x.cumprod(axis as isize));
        assert_eq!((sums.shape(), products.shape()), (x.shape(), x.shape()));
        let (sums, products) = (lines::<f64>(&sums, axis), lines::<f64>(&products, axis));
        for (line, elements) in lines::<f64>(x, axis).iter().enumerate() {
            let (mut sum, mut product, mut size) = (0.0, 1.0, 0.0);
            for (i, &x) in elements.iter().enumerate() {
                (sum, product, size) = (sum + x, product * x, size + f64::abs(x));
                assert!((sums[line][i] - sum).abs() <= 1e-15 * (i + 1) as f64 * size);
                assert!((products[line][i] - product).abs() <= 1e-14);
            }
        }
    });
    for_all(DType::F32, |x, axis| {
        let sums = lines::<f32>(&x.cumsum(axis as isize), axis);
        for (line, elements) in lines::<f32>(x, axis).iter().enumerate() {
            let mut sum = 0.0;
            for (i, &x) in elements.iter().enumerate() {
                sum += f64::from(x);
                assert_eq!(sums[line][i], sum as f32);
            }
        }
    });
    for_all(DType::I64, |x, axis| {
        let (sums, products) = (x.cumsum(axis as isize), x.cumprod(axis as isize));
        let (sums, products) = (lines::<i64>(&sums, axis), lines::<i64>(&products, axis));
        for (line, elements) in lines::<i64>(x, axis).iter().enumerate() {
            let (mut sum, mut product) = (0i64, 1i64);
            for (i, &x) in elements.iter().enumerate() {
                (sum, product) = (sum.wrapping_add(x), product.wrapping_mul(x));
                assert_eq!((sums[line][i], products[line][i]), (sum, product));
            }
        }
    });
    for_all(DType::Bool, |x, axis| {
        let sums = lines::<i64>(&x.cumsum(axis as isize), axis);
        for (sums, elements) in sums.iter().zip(lines::<bool>(x, axis)) {
            let count = elements.iter().filter(|&&x| x).count();
            assert_eq!(*sums.last().unwrap(), count as i64);
        }
    });
}

#[test]
fn running_sums_lose_nothing() {
    let x = Array::from([1e100, 1.0, -1e100, 1.0, f64::INFINITY, 1.0, f64::NAN]);
    let y = x.cumsum(0).to_vec::<f64>();
    assert_eq!(y[..5], [1e100, 1e100, 1.0, 2.0, f64::INFINITY]);
    assert!(y[5] == f64::INFINITY && y[6].is_nan());
    let tenths = Array::from(vec![0.1; 1_000_000]).cumsum(0);
    assert_eq!(
        tenths.element(&[999_999]).to_f64(),
        Array::full(1_000_000, 0.1).sum(..).item::<f64>()
    );
    let dense = Numbers(1).array(&[3, 4, 5], DType::F64).permute(&[1, 2, 0]);
    assert_eq!(dense.cumsum(1).strides(), dense.strides());
}

/// The order that a stable sort of this library must give, by the standard library's stable sort.
fn sorted<T: Element + PartialOrd>(elements: &[T], descending: bool) -> Vec<i64> {
    let nan = |x: T| x.partial_cmp(&x).is_none();
    let mut order: Vec<i64> = (0..elements.len() as i64).collect();
    order.sort_by(|&i, &j| {
        let (a, b) = (elements[i as usize], elements[j as usize]);
        let order = a.partial_cmp(&b).unwrap_or_else(|| nan(a).cmp(&nan(b)));
        if descending { order.reverse() } else { order }
    });
    order
}

#[test]
fn sorting() {
    fn check<T: Element + PartialOrd>(x: &Array, axis: usize) {
        let positions = lines::<i64>(&x.argsort(axis as isize), axis);
        let values = lines::<T>(&x.sort(axis as isize), axis);
        let k = x.shape()[axis].div_ceil(3);
        let (top, top_positions) = x.top_k(k, axis as isize);
        assert_eq!(top.shape(), &x.shape().replaced(axis, k));
        let (top, top_positions) = (lines::<T>(&top, axis), lines::<i64>(&top_positions, axis));
        for (line, elements) in lines::<T>(x, axis).iter().enumerate() {
            let order = sorted(elements, false);
            assert_eq!(positions[line], order);
            let at = |&i: &i64| elements[i as usize];
            let same = |a: T, b: T| {
                a.partial_cmp(&b)
                    .is_none_or(|order| order == Ordering::Equal)
            };
            assert!(
                values[line]
                    .iter()
                    .zip(&order)
                    .all(|(&x, i)| same(x, at(i)))
            );
            let order = sorted(elements, true);
            if k > 0 {
                assert_eq!(top_positions[line], order[..k]);
                assert!(top[line].iter().zip(&order).all(|(&x, i)| same(x, at(i))));
            }
        }
    }
    for_all(DType::F64, check::<f64>);
    for_all(DType::F32, check::<f32>);
    for_all(DType::I64, check::<i64>);
    for_all(DType::Bool, check::<bool>);
    let special = [
        f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        -1.0,
        -f64::NAN,
        f64::NEG_INFINITY,
        0.0,
    ];
    check::<f64>(&Array::from(special), 0);
    check::<f32>(&Array::from(special.map(|x| x as f32)), 0);
    check::<i64>(&Array::from([i64::MIN, 5, i64::MAX, -1, 0, i64::MIN]), 0);
    assert_eq!(
        Array::from(special).argsort(0).to_vec::<i64>(),
        [6, 4, 1, 2, 7, 3, 0, 5]
    );
    assert_eq!(
        Array::from(special).top_k(3, 0).1.to_vec::<i64>(),
        [0, 5, 3]
    );
    assert_eq!(Array::from(special).top_k(0, 0).0.size(), 0);
}

/// Long rows with repeated elements, of which few are wanted.
#[test]
fn the_first_of_many() {
    let mut numbers = Numbers(7);
    let draw = |numbers: &mut Numbers, length: usize, values: &[f64]| -> Vec<f64> {
        let places = numbers.array(&[length], DType::F64).abs() * 1e6;
        let places = places.to_vec::<f64>().into_iter();
        places.map(|x| values[x as usize % values.len()]).collect()
    };
    let all: Vec<f64> = (-500..500).map(f64::from).collect();
    let values: [&[f64]; 5] = [
        &all,
        &[2.0],
        &[f64::NAN],
        &[f64::NAN, 0.0, -0.0, f64::INFINITY, -1.0],
        &[f64::NEG_INFINITY, f64::NAN, 3.0, -3.0, 1.0, 0.0, -0.0],
    ];
    fn check<T: Element + PartialOrd>(row: &Array, k: usize) {
        for descending in [true, false] {
            let expected = &sorted(&row.to_vec::<T>(), descending)[..k];
            let (first, positions) = match descending {
                true => row.top_k(k, 0),
                false => row.top_k(k, ascending(0)),
            };
            assert_eq!(positions.to_vec::<i64>(), expected, "{row:?}");
            let bits = |x: &Array| format!("{:?}", x.to_vec::<T>());
            assert_eq!(bits(&first), bits(&row.take(&positions, 0)));
        }
    }
    for values in values {
        for length in [40, 63, 64, 65, 100, 127, 128, 1000] {
            let row = Array::from_vec(draw(&mut numbers, length, values), [length]);
            for k in [1, 2, 12, 13, 32, 33] {
                check::<f64>(&row, k);
                check::<f32>(&row.cast(DType::F32), k);
                check::<i64>(&row.cast(DType::I64), k);
                check::<bool>(&row.cast(DType::Bool), k);
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    let mut numbers = Numbers(12);
    for shape in [&[1 << 18][..], &[500, 600], &[3, 100_000], &[100_000, 3]] {
        for x in [
            numbers.array(shape, DType::F64),
            numbers.array(shape, DType::I64),
        ] {
            for x in [x.clone(), x.transpose(), x.slice(s![..; -1])] {
                same_for_all_thread_counts(|| x.argsort(-1).to_vec::<i64>());
                same_for_all_thread_counts(|| x.top_k(3, -1).1.to_vec::<i64>());
                same_for_all_thread_counts(|| x.cumsum(0).bits());
            }
        }
    }
}

trait Bits {
    fn bits(&self) -> Vec<u64>;
}
impl Bits for Array {
    fn bits(&self) -> Vec<u64> {
        match self.dtype() {
            DType::F64 => self.to_vec::<f64>().iter().map(|x| x.to_bits()).collect(),
            _ => self
                .to_vec::<i64>()
                .iter()
                .map(|x| x.cast_unsigned())
                .collect(),
        }
    }
}

#[test]
fn mistakes_are_named() {
    let message = |f: &dyn Fn() -> Array| attempt::<_, Error>(f).unwrap_err().to_string();
    let x = Array::zeros([2, 3], DType::F32);
    assert!(message(&|| x.cumsum(2)).starts_with("cumsum: axis 2 is outside of the rank 2"));
    assert!(message(&|| x.cumprod(-3)).contains("cumprod: axis -3 is outside of the rank 2"));
    assert!(message(&|| x.argsort(2)).contains("argsort: axis 2"));
    assert!(message(&|| x.sort(2)).contains("sort: axis 2"));
    assert!(message(&|| x.top_k(1, 2).0).contains("top_k: axis 2"));
    let expected = "top_k: axis 1 of the shape [2, 3] has fewer than 4 elements";
    assert!(message(&|| x.top_k(4, 1).0).contains(expected));
    // What `0 - 1` is in a release build.
    assert!(message(&|| x.sort(usize::MAX)).contains("is outside of the rank 2"));
    assert!(message(&|| x.sum(usize::MAX)).contains("is outside of the rank 2"));
    assert!(message(&|| x.sum([0, usize::MAX])).contains("is outside of the rank 2"));
    assert!(message(&|| x.sort(2)).contains(file!()));
}
