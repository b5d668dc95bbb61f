//! Sums and extremes of windows against plain loops: every layout, one thread and many.

use std::cmp::Ordering;

use bibun_array::{Array, DType, Error, Generator, Stencil, attempt};

/// Windows of `kernel` every `stride`, the first of which begins before the axis.
fn windows(size: usize, kernel: usize, stride: usize) -> Stencil {
    let of_each = (0..size.div_ceil(stride)).map(|i| {
        let seen = (i * stride + 1).saturating_sub(kernel)..(i * stride + 1).min(size);
        seen.map(|at| (at, 1.0 + at as f64))
    });
    Stencil::new(size, of_each)
}

/// The value of every window, from its weighted elements and their positions.
fn by_loops(
    x: &Array,
    [rows, columns]: [&Stencil; 2],
    of_window: impl Fn(&[(f64, f64, usize)]) -> f64,
) -> Vec<f64> {
    let elements = x.to_vec::<f64>();
    let mut y = Vec::new();
    for image in elements.chunks(rows.size() * columns.size()) {
        for (i, j) in (0..rows.count()).flat_map(|i| (0..columns.count()).map(move |j| (i, j))) {
            let mut seen = Vec::new();
            for (row, v) in rows.of(i) {
                for (column, w) in columns.of(j) {
                    let at = row * columns.size() + column;
                    seen.push((image[at], v * w, at));
                }
            }
            y.push(of_window(&seen));
        }
    }
    y
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }
}

#[test]
fn windows_are_what_plain_loops_say() {
    // The last is large enough for several threads.
    for shape in [
        [1, 1, 1],
        [2, 5, 3],
        [3, 4, 1],
        [1, 7, 9],
        [2, 20, 3],
        [2, 20, 9],
        [64, 61, 67],
    ] {
        let [n, h, w] = shape;
        let whole = Generator::new(1).uniform([n, h, w], -2.0, 2.0, DType::F64);
        let swapped = Generator::new(2).uniform([h, w, n], -2.0, 2.0, DType::F64);
        for x in [whole, swapped.permute(&[2, 0, 1])] {
            // A quarter of all values are equal.
            let x = (&x * 8.0).floor().maximum(0.0);
            let stencil = [windows(h, 3, 2), windows(w, 2, 1)];
            let [rows, columns] = &stencil;
            let sum = by_loops(&x, [rows, columns], |seen| {
                seen.iter().map(|(x, w, _)| x * w).sum()
            });
            close(&x.reduce_window(&stencil).to_vec::<f64>(), &sum);
            let largest = |seen: &[(f64, f64, usize)]| {
                let first = |a: (f64, f64, usize), b| if b > a.0 { (b, 0.0, 0) } else { a };
                seen.iter().fold(
                    (f64::MIN, 0.0, 0),
                    |a, b| if first(a, b.0) == a { a } else { *b },
                )
            };
            let (y, at) = x.window_max(&stencil);
            let expected = by_loops(&x, [rows, columns], |seen| largest(seen).0);
            assert_eq!(y.to_vec::<f64>(), expected);
            let expected = by_loops(&x, [rows, columns], |seen| largest(seen).2 as f64);
            assert_eq!(at.cast(DType::F64).to_vec::<f64>(), expected);
            let single = x.cast(DType::F32);
            let (y32, at32) = single.window_max(&stencil);
            assert_eq!(y32.cast(DType::F64).to_vec::<f64>(), y.to_vec::<f64>());
            assert_eq!(at32.to_vec::<i64>(), at.to_vec::<i64>());
            let back = stencil.clone().map(|stencil| stencil.transposed());
            let z = Generator::new(3).uniform(y.shape(), -1.0, 1.0, DType::F64);
            let there = (x.reduce_window(&stencil) * &z).sum(..).item::<f64>();
            let and_back = (x * z.reduce_window(&back)).sum(..).item::<f64>();
            close(&[there], &[and_back]);
        }
    }
}

/// Windows of `kernel` elements, `dilation` apart, every `stride`, with the same weights, and `padding` before and
/// behind the axis, where nothing is read.
fn regular(size: usize, [kernel, stride, dilation, padding]: [usize; 4]) -> Option<Stencil> {
    let extent = (kernel - 1) * dilation + 1;
    let room = (size + 2 * padding).checked_sub(extent)?;
    let of_each = (0..=room / stride).map(|i| {
        let taps = (0..kernel).map(move |k| (i * stride + k * dilation, 1.0 + k as f64));
        taps.filter_map(move |(at, weight)| {
            let at = at.checked_sub(padding).filter(|&at| at < size)?;
            Some((at, weight))
        })
    });
    Some(Stencil::new(size, of_each))
}

/// The largest of many equal elements and a few NaNs, and where it is.
fn largest_by_loops(x: &Array, stencil: &[Stencil; 2]) {
    let [rows, columns] = stencil;
    let is_empty = |stencil: &Stencil| (0..stencil.count()).any(|i| stencil.of(i).count() == 0);
    if is_empty(rows) || is_empty(columns) {
        return;
    }
    let mut elements = (x * 2.0).floor().to_vec::<f64>();
    elements
        .iter_mut()
        .skip(5)
        .step_by(11)
        .for_each(|x| *x = f64::NAN);
    let x = Array::from_vec(elements, x.shape());
    let largest = |seen: &[(f64, f64, usize)]| {
        let before = |a: &(f64, f64, usize), b: &(f64, f64, usize)| {
            let by_value = b.0.is_nan().cmp(&a.0.is_nan());
            let by_value = by_value.then(b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
            by_value.then(a.2.cmp(&b.2))
        };
        *seen
            .iter()
            .min_by(|a, b| before(a, b))
            .expect("no window is empty")
    };
    let values = by_loops(&x, [rows, columns], |seen| largest(seen).0);
    let places = by_loops(&x, [rows, columns], |seen| largest(seen).2 as f64);
    for x in [x.cast(DType::F32), x] {
        let (y, at) = x.window_max(stencil);
        let y = y.cast(DType::F64).to_vec::<f64>();
        assert!(
            y.iter()
                .zip(&values)
                .all(|(y, value)| y == value || y.is_nan() && value.is_nan())
        );
        assert_eq!(at.cast(DType::F64).to_vec::<f64>(), places);
    }
}

#[test]
fn windows_of_any_regularity_are_what_plain_loops_say() {
    let options = [
        [1, 1, 1, 0],
        [2, 2, 1, 0],
        [3, 2, 1, 1],
        [3, 1, 2, 2],
        [2, 3, 3, 1],
        [4, 4, 1, 3],
        [5, 7, 1, 0],
        [12, 1, 1, 4],
    ];
    for size in [1, 2, 3, 7, 16, 33, 70] {
        for options in options {
            let Some(forward) = regular(size, options) else {
                continue;
            };
            // Those of the transposed matrix begin at the same place several times.
            for stencil in [forward.transposed(), forward] {
                let size = stencil.size();
                let x = Generator::new(3).uniform([3, size, 2], -2.0, 2.0, DType::F64);
                let alone = Stencil::new(2, [[(0, 1.0)], [(1, 1.0)]]);
                let sum = |stencils: [&Stencil; 2], x: &Array| {
                    by_loops(x, stencils, |seen| seen.iter().map(|(x, w, _)| x * w).sum())
                };
                let both = [stencil.clone(), alone.clone()];
                close(
                    &x.reduce_window(&both).to_vec::<f64>(),
                    &sum([&stencil, &alone], &x),
                );
                let turned = x.swapaxes(1, 2);
                let expected = sum([&alone, &stencil], &turned);
                let last = [stencil];
                close(&turned.reduce_window(&last).to_vec::<f64>(), &expected);
                largest_by_loops(&x, &both);
                largest_by_loops(&turned, &[alone, last[0].clone()]);
                let single = turned.cast(DType::F32).reduce_window(&last);
                for (y, expected) in single.to_vec::<f32>().into_iter().zip(expected) {
                    assert!((f64::from(y) - expected).abs() < 1e-4);
                }
            }
        }
    }
}

#[test]
fn sums_along_several_axes_are_those_along_one_after_the_other() {
    let along = |x: &Array, axis: isize, stencil: &Stencil| {
        let moved = x.moveaxis(axis, -1).reduce_window(&[stencil.clone()]);
        moved.moveaxis(-1, axis)
    };
    for dtype in [DType::F32, DType::F64] {
        // Planes that stay in a cache, many of them and one, and larger ones.
        for shape in [[700, 6, 9, 10], [1, 6, 9, 10], [3, 20, 50, 41]] {
            let x = Generator::new(3).uniform(&shape[..], -2.0, 2.0, dtype);
            let forward = [0, 1, 2].map(|i| windows(shape[i + 1], 3 - i / 2, 1 + i % 2));
            let transposed = forward.clone().map(|stencil| stencil.transposed());
            let y = x.reduce_window(&forward);
            let each = (1..4).zip(&forward);
            let expected = each.fold(x, |x, (axis, stencil)| along(&x, axis, stencil));
            assert!(y.has_same_bits(&expected.to_row_major()), "{shape:?}");
            let back = y.reduce_window(&transposed);
            let each = (1..4).zip(&transposed).rev();
            let expected = each.fold(y, |y, (axis, stencil)| along(&y, axis, stencil));
            assert!(back.has_same_bits(&expected.to_row_major()), "{shape:?}");
        }
    }
}

#[test]
fn sums_of_singles_are_as_exact_as_their_elements() {
    let of = |size: usize, weight: f64| Stencil::new(size, [(0..size).map(|i| (i, weight))]);
    for size in [3, 7, 10, 14, 17, 100_000] {
        for shape in [[1, size], [size, 1]] {
            let x = Array::full(shape, 0.1f32);
            let mean = of(size, 1.0 / size as f64);
            let stencils = match shape[0] {
                1 => [of(1, 1.0), mean],
                _ => [mean, of(1, 1.0)],
            };
            assert_eq!(x.reduce_window(&stencils).to_vec::<f32>(), [0.1]);
        }
    }
}

#[test]
fn what_windows_leave_out_reaches_no_sum() {
    let [nan, one] = [f32::NAN, 1.0];
    let x = Array::from([one, nan, one, nan, one, nan, one, nan, one, nan]);
    let stencil = regular(10, [2, 2, 4, 0]).expect("it fits");
    assert_eq!(x.reduce_window(&[stencil]).to_vec::<f32>(), [3.0; 3]);
    let stencil = regular(10, [1, 2, 1, 0]).expect("it fits");
    assert_eq!(x.reduce_window(&[stencil]).to_vec::<f32>(), [1.0; 5]);
}

#[test]
fn the_first_of_several_nans_is_the_largest() {
    for size in [8, 40] {
        let pairs = (0..size / 2).map(|i| [(2 * i, 1.0), (2 * i + 1, 1.0)]);
        let mut x = vec![0.0; size];
        x[3..6].fill(f64::NAN);
        let (y, at) = Array::from(x).window_max(&[Stencil::new(size, pairs)]);
        let y = y.to_vec::<f64>();
        assert!(
            y.iter()
                .enumerate()
                .all(|(i, y)| y.is_nan() == [1, 2].contains(&i))
        );
        assert_eq!(at.to_vec::<i64>()[..4], [0, 3, 4, 6]);
    }
}

#[test]
fn repeated_values_and_truths_have_windows() {
    let stencil = [windows(3, 2, 1)];
    let ones = Array::ones([2, 3], DType::F32);
    assert_eq!(
        ones.reduce_window(&stencil).to_vec::<f32>(),
        [1.0, 3.0, 5.0, 1.0, 3.0, 5.0]
    );
    assert_eq!(
        ones.window_max(&stencil).1.to_vec::<i64>(),
        [0, 0, 1, 0, 0, 1]
    );
    let (y, at) = Array::from([false, true, false]).window_max(&stencil);
    assert_eq!(
        (y.to_vec::<bool>(), at.to_vec::<i64>()),
        (vec![false, true, true], vec![0, 1, 1])
    );
}

#[test]
fn what_does_not_fit_is_an_error() {
    let message = |f: &dyn Fn() -> Array| match attempt::<_, Error>(f) {
        Err(error) => error.to_string(),
        Ok(y) => panic!("gave {y:?}"),
    };
    let x = Array::from([1.0, 2.0]);
    let text = message(&|| x.reduce_window(&[windows(3, 2, 1)]));
    assert!(text.contains("array/stencil.rs"), "{text}");
    assert!(
        text.contains("Stencil(3 to 3)") && text.contains("do not fit"),
        "{text}"
    );
    let text = message(&|| x.cast(DType::I64).reduce_window(&[windows(2, 2, 1)]));
    assert!(text.contains("only floats"), "{text}");
    let none = Stencil::new(2, [[]]);
    assert_eq!(x.reduce_window(&[none.clone()]).to_vec::<f64>(), [0.0]);
    let nothing = Array::zeros([2, 0], DType::F64);
    let of_nothing = [none.clone(), Stencil::new(0, [[], []])];
    assert_eq!(nothing.reduce_window(&of_nothing).to_vec::<f64>(), [0.0; 2]);
    assert_eq!(x.reduce_window(&[]).to_vec::<f64>(), [1.0, 2.0]);
    let text = message(&|| x.window_max(&[none.clone()]).0);
    assert!(text.contains("at least one element"), "{text}");
    let (same, at) = x.window_max(&[]);
    assert_eq!(
        (same.to_vec(), at.to_vec()),
        (vec![1.0, 2.0], vec![0i64; 2])
    );
    let outside = attempt::<_, Error>(|| Stencil::new(2, [[(2, 1.0)]])).unwrap_err();
    assert!(
        outside.to_string().contains("position 2 is outside"),
        "{outside}"
    );
}
