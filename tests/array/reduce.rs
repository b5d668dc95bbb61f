//! Reductions over every kind of layout and every set of axes, against plain loops.

use crate::common::{Numbers, groups, same_for_all_thread_counts, shapes, subsets};
use bibun_array::{
    Array, Axes, DType, Error, Generator, Normalization, attempt, bf16, concat, f16, keep_dims, s,
};

fn axes_of(axes: &[usize]) -> Axes {
    Axes::new(&axes.iter().map(|&axis| axis as isize).collect::<Vec<_>>())
}

/// Every layout of every shape with every set of axes.
fn for_all(dtype: DType, mut test: impl FnMut(&Array, &[usize])) {
    let mut numbers = Numbers(dtype.size() as u64);
    for shape in shapes(&mut numbers) {
        for _ in 0..if shape.iter().product::<usize>() > 5_000 {
            1
        } else {
            4
        } {
            let x = numbers.layout(&shape, dtype);
            for axes in subsets(shape.len()) {
                test(&x, &axes);
            }
        }
    }
}

fn close(got: f64, want: f64, tolerance: f64) -> bool {
    got == want || (got - want).abs() <= tolerance || got.is_nan() && want.is_nan()
}

#[test]
fn floats() {
    for_all(DType::F64, |x, axes| {
        let (shape, groups) = groups::<f64>(x, axes);
        let by = axes_of(axes);
        let results = [x.sum(by.clone()), x.prod(by.clone()), x.mean(by.clone())];
        let (var, std) = (x.var(by.clone(), 0), x.std(by.clone(), 1));
        let (all, any) = (x.all(by.clone()), x.any(by.clone()));
        assert!(results.iter().all(|y| *y.shape() == shape));
        let results = results.map(|y| y.to_vec::<f64>());
        let (var, std) = (var.to_vec::<f64>(), std.to_vec::<f64>());
        let (all, any) = (all.to_vec::<bool>(), any.to_vec::<bool>());
        for (i, group) in groups.iter().enumerate() {
            let n = group.len() as f64;
            let size: f64 = group.iter().map(|x| x.abs()).sum();
            let sum: f64 = group.iter().sum();
            let product: f64 = group.iter().product();
            let mean = sum / n;
            let squares: f64 = group.iter().map(|x| (x - mean).powi(2)).sum();
            assert!(close(results[0][i], sum, 1e-14 * n * size));
            assert!(close(
                results[1][i],
                product,
                1e-15 * n * product.abs() + 1e-300
            ));
            assert!(close(results[2][i], mean, 1e-14 * size));
            assert!(close(var[i], squares / n, 1e-13));
            assert!(
                close(std[i], (squares / (n - 1.0).max(0.0)).sqrt(), 1e-6),
                "{} {squares}",
                std[i]
            );
            assert_eq!(all[i], group.iter().all(|&x| x != 0.0));
            assert_eq!(any[i], group.iter().any(|&x| x != 0.0));
        }
        if groups.iter().all(|group| !group.is_empty()) {
            let extremes = [x.max(by.clone()), x.min(by)].map(|y| y.to_vec::<f64>());
            for (i, group) in groups.iter().enumerate() {
                assert_eq!(
                    extremes[0][i],
                    group.iter().copied().fold(f64::NEG_INFINITY, f64::max)
                );
                assert_eq!(
                    extremes[1][i],
                    group.iter().copied().fold(f64::INFINITY, f64::min)
                );
            }
        }
    });
}

/// The largest error of the sum of some f32.
fn bound(group: &[f32]) -> f64 {
    let sizes: f64 = group.iter().map(|&x| f64::from(x).abs()).sum();
    32.0 * f64::from(f32::EPSILON) / 2.0 * sizes
}

#[test]
fn sums_of_singles_keep_their_error_bound() {
    for_all(DType::F32, |x, axes| {
        let (_, groups) = groups::<f32>(x, axes);
        let sums = x.sum(axes_of(axes)).to_vec::<f32>();
        for (sum, group) in sums.iter().zip(&groups) {
            let exact: f64 = group.iter().map(|&x| f64::from(x)).sum();
            assert!((f64::from(*sum) - exact).abs() <= bound(group));
        }
        if groups.iter().all(|group| !group.is_empty()) {
            let largest = x.max(axes_of(axes)).to_vec::<f32>();
            for (largest, group) in largest.iter().zip(&groups) {
                assert_eq!(
                    *largest,
                    group.iter().copied().fold(f32::NEG_INFINITY, f32::max)
                );
            }
        }
    });
}

/// Many planes of results are taken whole, few of them in pieces.
#[test]
fn sums_of_large_planes_keep_their_error_bound() {
    let mut numbers = Numbers(11);
    for shape in [[20, 40, 130], [3, 200, 130], [40, 300, 5], [700, 2, 33]] {
        let x = numbers.array(&shape, DType::F32);
        for axes in subsets(3) {
            let (_, groups) = groups::<f32>(&x, &axes);
            let sums = x.sum(axes_of(&axes)).to_vec::<f32>();
            let most = x.max(axes_of(&axes)).to_vec::<f32>();
            assert_eq!(sums.len(), groups.len());
            for ((sum, most), group) in sums.iter().zip(&most).zip(&groups) {
                let exact: f64 = group.iter().map(|&x| f64::from(x)).sum();
                assert!((f64::from(*sum) - exact).abs() <= bound(group));
                assert_eq!(
                    *most,
                    group.iter().copied().fold(f32::NEG_INFINITY, f32::max)
                );
            }
        }
    }
}

#[test]
fn integers_and_bools() {
    for_all(DType::I64, |x, axes| {
        let (shape, groups) = groups::<i64>(x, axes);
        let by = axes_of(axes);
        let (sum, product) = (x.sum(by.clone()), x.prod(by.clone()));
        let (all, any) = (x.all(by.clone()), x.any(by.clone()));
        assert_eq!((sum.dtype(), product.dtype()), (DType::I64, DType::I64));
        assert_eq!(all.shape(), &shape);
        let mean = x.mean(by.clone()).to_vec::<f64>();
        for (i, group) in groups.iter().enumerate() {
            assert_eq!(sum.to_vec::<i64>()[i], group.iter().sum::<i64>());
            let wrapped = group.iter().fold(1i64, |a, &b| a.wrapping_mul(b));
            assert_eq!(product.to_vec::<i64>()[i], wrapped);
            assert_eq!(all.to_vec::<bool>()[i], group.iter().all(|&x| x != 0));
            assert_eq!(any.to_vec::<bool>()[i], group.iter().any(|&x| x != 0));
            let expected = group.iter().sum::<i64>() as f64 / group.len() as f64;
            assert!(close(mean[i], expected, 1e-14));
            if i > 20 {
                break;
            }
        }
        if groups.iter().all(|group| !group.is_empty()) {
            let extremes = [x.max(by.clone()), x.min(by)].map(|y| y.to_vec::<i64>());
            for (i, group) in groups.iter().enumerate() {
                assert_eq!(Some(&extremes[0][i]), group.iter().max());
                assert_eq!(Some(&extremes[1][i]), group.iter().min());
            }
        }
    });
    for_all(DType::Bool, |x, axes| {
        let (_, groups) = groups::<bool>(x, axes);
        let by = axes_of(axes);
        let (sum, product) = (x.sum(by.clone()).to_vec::<i64>(), x.prod(by.clone()));
        let (all, any) = (x.all(by.clone()).to_vec::<bool>(), x.any(by.clone()));
        let (product, any) = (product.to_vec::<i64>(), any.to_vec::<bool>());
        for (i, group) in groups.iter().enumerate() {
            let count = group.iter().filter(|&&x| x).count();
            assert_eq!(sum[i], count as i64);
            assert_eq!(product[i] == 1, count == group.len());
            assert_eq!((all[i], any[i]), (count == group.len(), count > 0));
        }
        if groups.iter().all(|group| !group.is_empty()) {
            assert_eq!(x.max(by.clone()).to_vec::<bool>(), any);
            assert_eq!(x.min(by).to_vec::<bool>(), all);
        }
    });
}

/// The first position of the extreme, NaN before all.
fn first<T: PartialOrd + Copy>(group: &[T], better: impl Fn(T, T) -> bool) -> i64 {
    let nan = |x: T| x.partial_cmp(&x).is_none();
    let mut best = 0;
    for (i, &x) in group.iter().enumerate() {
        if better(x, group[best]) && !nan(group[best]) || nan(x) && !nan(group[best]) {
            best = i;
        }
    }
    best as i64
}

#[test]
fn positions_of_extremes() {
    for dtype in [DType::F64, DType::F32, DType::I64, DType::Bool] {
        for_all(dtype, |x, axes| {
            let &[axis] = axes else { return };
            if x.shape()[axis] == 0 {
                return;
            }
            let (most, least) = (x.argmax(axis as isize), x.argmin(axis as isize));
            let (most, least) = (most.to_vec::<i64>(), least.to_vec::<i64>());
            macro_rules! check {
                ($type:ty) => {{
                    let (_, groups) = groups::<$type>(x, axes);
                    for (i, group) in groups.iter().enumerate() {
                        assert_eq!(most[i], first(group, |a, b| a > b));
                        assert_eq!(least[i], first(group, |a, b| a < b));
                    }
                }};
            }
            match dtype {
                DType::F64 => check!(f64),
                DType::F32 => check!(f32),
                DType::BF16 => check!(bf16),
                DType::F16 => check!(f16),
                DType::I64 => check!(i64),
                DType::I32 => check!(i32),
                DType::U8 => check!(u8),
                DType::Bool => check!(bool),
                DType::C64 | DType::C128 => unreachable!("they have no order"),
            }
        });
    }
}

#[test]
fn nan_wins_wherever_it_is() {
    for size in [1, 3, 33, 1500, 70_000] {
        for at in [0, size / 2, size - 1] {
            let mut elements = vec![f64::INFINITY; size];
            elements[at] = f64::NAN;
            let x = Array::from(elements);
            let rows = x.expand_dims(1).broadcast_to([size, 3]).to_row_major();
            assert!(x.max(..).item::<f64>().is_nan() && x.min(..).item::<f64>().is_nan());
            assert!(rows.max(0).to_vec::<f64>().iter().all(|x| x.is_nan()));
            assert_eq!(
                (x.argmax(0).item::<i64>(), x.argmin(0).item::<i64>()),
                (at as i64, at as i64)
            );
            assert_eq!(rows.argmin(0).to_vec::<i64>(), [at as i64; 3]);
            assert!(x.sum(..).item::<f64>().is_nan());
        }
    }
    let x = Array::from([f64::INFINITY, 1.0, f64::INFINITY]);
    assert_eq!(x.sum(..).item::<f64>(), f64::INFINITY);
    assert_eq!(
        Array::from([f64::MAX, f64::MAX, 1.0]).sum(..).item::<f64>(),
        f64::INFINITY
    );
    assert!(
        Array::from([f64::INFINITY, f64::NEG_INFINITY])
            .sum(..)
            .item::<f64>()
            .is_nan()
    );
    let minus = Array::full([40, 3], f64::NEG_INFINITY)
        .broadcast_to([40, 3])
        .to_row_major();
    assert_eq!(minus.max(..).item::<f64>(), f64::NEG_INFINITY);
    assert_eq!(minus.argmax(0).to_vec::<i64>(), [0; 3]);
}

#[test]
fn sums_keep_their_error_bound() {
    let mut numbers = Numbers(5);
    let size = 1_000_000;
    // Large terms that cancel, with small ones between them; and a million equal tenths.
    let mut cancelling: Vec<f64> = (0..size / 2).map(|_| numbers.float() * 1e15).collect();
    cancelling.extend(cancelling.clone().iter().map(|x| -x));
    for i in (1..size).rev() {
        cancelling.swap(i, numbers.below(i + 1));
    }
    cancelling.iter_mut().step_by(1000).for_each(|x| *x += 1.0);
    let tenths = vec![0.1; size];
    for elements in [cancelling, tenths] {
        // Integers of 128 bits add up multiples of 2⁻⁶⁰ exactly.
        let unit = (1u64 << 60) as f64;
        let exact: i128 = elements.iter().map(|x| (x * unit) as i128).sum();
        let bound = 22.0 * f64::EPSILON / 2.0 * elements.iter().map(|x| x.abs()).sum::<f64>();
        let x = Array::from(elements);
        let sums = [
            x.sum(..),
            x.reshape([1000, 1000]).transpose().sum(..),
            x.reshape([size, 1])
                .broadcast_to([size, 2])
                .to_row_major()
                .sum(0)
                .slice(s![1]),
            x.slice(s![..; -1]).sum(0),
        ];
        for sum in sums {
            let error = ((sum.item::<f64>() * unit) as i128 - exact) as f64 / unit;
            assert!(error.abs() <= bound, "{error} > {bound}");
        }
    }
    // All roundings in the same direction.
    let tenths = vec![0.1f32; size];
    let exact = f64::from(0.1f32) * size as f64;
    let largest = bound(&tenths);
    let sum = Array::from(tenths).sum(..).item::<f32>();
    assert!((f64::from(sum) - exact).abs() <= largest, "{sum}");
    // The same where neighbouring results take runs of fewer rows than a part has elements.
    let tenths = vec![0.1f32; 10_000];
    let largest = bound(&tenths);
    let x = Array::from(vec![0.1f32; 2000 * 3 * 5 * 70]).reshape([2000, 3, 5, 70]);
    for sum in x.sum([0, 2]).to_vec::<f64>() {
        let error = sum - f64::from(0.1f32) * 1e4;
        assert!(error.abs() <= largest, "{sum}");
    }
    // The mean is far from zero, the variance is not lost.
    let far = Array::from(
        (0..1000)
            .map(|i| 1e9 + f64::from(i % 2))
            .collect::<Vec<_>>(),
    );
    assert!((far.var(.., 0).item::<f64>() - 0.25).abs() < 1e-12);
}

/// Computes the sum of numbers, in parts.
fn sum_of(x: impl Iterator<Item = f64>) -> f64 {
    let x: Vec<f64> = x.collect();
    x.chunks(256).map(|part| part.iter().sum::<f64>()).sum()
}

/// Computes `[mean, variance]` of a multiple of numbers; the mean is corrected by that of the differences from it.
fn moments_of(x: &[f64]) -> [f64; 2] {
    let largest = x.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    // Division by a power of two rounds nothing.
    let unit = largest.log2().floor().exp2();
    let count = x.len() as f64;
    let mut mean = x[x.len() - 1] / unit;
    for _ in 0..3 {
        mean += sum_of(x.iter().map(|x| x / unit - mean)) / count;
    }
    let squares = sum_of(x.iter().map(|x| (x / unit - mean).powi(2)));
    [mean * unit, squares / count * unit * unit]
}

#[test]
fn moments_keep_their_precision_wherever_elements_are() {
    const COUNT: usize = 3 << 15;
    let noise = Generator::new(3).normal([COUNT], 0.0, 1.0, DType::F64);
    let noise = noise.to_vec::<f64>();
    // The first elements, from which differences are taken, are far away from all others.
    let starts = |first: usize, far: f64| -> Vec<f64> {
        let ends = noise[first..].iter().map(|x| far + x);
        (0..first).map(|_| 0.0).chain(ends).collect()
    };
    for (x, tolerance) in [
        (noise.clone(), 1e-14),
        (starts(8, 1e6), 3e-14),
        (starts(8, 1e8), 3e-14),
        (starts(24, 1e8), 3e-14),
        (noise.iter().map(|x| x + 1e9).collect(), 3e-14),
        (noise.iter().map(|x| x * 1e-200).collect(), 0.0),
        (noise.iter().map(|x| x * 1e153).collect(), 3e-14),
        (noise.iter().map(|x| x * 1e307).collect(), 0.0),
        (vec![1e308; COUNT], 0.0),
    ] {
        // One long line, lines, lines of pieces, and lines side by side.
        let cases: [([usize; 3], &[usize]); 5] = [
            ([1, COUNT, 1], &[0, 1, 2]),
            ([1, 96, 1024], &[0, 2]),
            ([64, 16, 96], &[0, 2]),
            ([1 << 12, 4, 6], &[0]),
            ([3, 1 << 11, 16], &[1]),
        ];
        for (shape, axes) in cases {
            let own = Array::from(x.clone()).reshape(shape);
            let (reduced, groups) = groups::<f64>(&own, axes);
            let turned = own.transpose();
            let turned_axes: Vec<usize> = axes.iter().map(|axis| 2 - axis).collect();
            let plain = own.moments(axes_of(axes));
            let turned = turned.moments(axes_of(&turned_axes)).map(|y| y.transpose());
            let names: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
            let rule = Normalization {
                centered: true,
                epsilon: 0.0,
            };
            let [_, mean, variance] = own.normalize(rule, &names, &[]);
            let beside = [mean, variance].map(|y| y.reshape(&reduced));
            for results in [plain, turned, beside] {
                let [means, variances] = results.map(|y| y.to_vec::<f64>());
                for ((group, mean), variance) in groups.iter().zip(means).zip(variances) {
                    let want = moments_of(group);
                    let size = group.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                    assert!(
                        close(mean, want[0], 1e-14 * size),
                        "{mean:e} {want:?} {shape:?}"
                    );
                    let limit = tolerance * want[1].min(f64::MAX);
                    assert!(
                        close(variance, want[1], limit),
                        "{variance:e} {want:?} {shape:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn moments_of_singles_are_taken_again_from_a_number_that_is_near() {
    let noise = Generator::new(4).normal([3 << 15], 1e3, 1.0, DType::F32);
    let mut x = noise.to_vec::<f32>();
    x[..8].fill(0.0);
    for shape in [[1, 3 << 15], [12, 1 << 13]] {
        let own = Array::from(x.clone()).reshape(shape);
        let (_, groups) = groups::<f32>(&own, &[1]);
        let [means, variances] = own.moments(1).map(|y| y.to_vec::<f32>());
        for ((group, mean), variance) in groups.iter().zip(means).zip(variances) {
            let group: Vec<f64> = group.iter().map(|&x| f64::from(x)).collect();
            let want = moments_of(&group);
            assert!(
                close(f64::from(mean), want[0], 1e-6 * want[0]),
                "{mean} {want:?}"
            );
            let limit = 4e-6 * want[1];
            assert!(
                close(f64::from(variance), want[1], limit),
                "{variance} {want:?}"
            );
        }
    }
}

#[test]
fn moments_of_what_is_not_finite_or_nothing() {
    for dtype in [DType::F32, DType::F64] {
        for shape in [[1, 40], [40, 1]] {
            let mut x = vec![1.0; 40];
            x[17] = f64::INFINITY;
            let x = Array::from(x).reshape(shape).cast(dtype);
            let both = concat(
                &[&x, &Array::zeros(x.shape(), dtype)],
                isize::from(shape[0] > 1),
            );
            let axis = isize::from(shape[0] == 1);
            let [mean, variance] = both.moments(axis).map(|y| y.cast(DType::F64));
            assert_eq!(mean.to_vec::<f64>()[0], f64::INFINITY);
            assert!(variance.to_vec::<f64>()[0].is_nan());
        }
    }
    let of_nothing = Array::zeros([2, 0], DType::F32).moments(1);
    for y in of_nothing {
        assert!(y.shape()[..] == [2] && y.to_vec::<f32>().iter().all(|x| x.is_nan()));
    }
    let y = Array::arange(0, 4).moments(keep_dims(0));
    assert_eq!(y.map(|y| y.to_vec::<f64>()), [[1.5], [1.25]]);
    let error: Error = attempt(|| Array::arange(0, 4).moments(5)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("moments: axis 5 is outside of the rank 1")
    );
}

#[test]
fn repeated_values_need_no_loop() {
    let x = Array::full([1 << 40, 1 << 19], 0.5f32);
    assert_eq!(x.sum(0).to_vec_of_one(), (1u64 << 39) as f32);
    assert_eq!(x.mean(0).to_vec_of_one(), 0.5);
    assert_eq!(x.max(0).to_vec_of_one(), 0.5);
    let signs = Array::from([1.0, -1.0])
        .expand_dims(1)
        .broadcast_to([2, 1 << 41]);
    assert_eq!(signs.prod(1).to_vec::<f64>(), [1.0, 1.0]);
    assert_eq!(
        signs.sum(1).to_vec::<f64>(),
        [(1u64 << 41) as f64, -((1u64 << 41) as f64)]
    );
    assert_eq!(Array::full(5, 3).prod(..).item::<i64>(), 243);
}

trait FirstElement {
    fn to_vec_of_one(&self) -> f32;
}
impl FirstElement for Array {
    fn to_vec_of_one(&self) -> f32 {
        match self.element(&[0]) {
            bibun_array::Scalar::F32(x) => x,
            other => panic!("{other:?} is not an f32"),
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut numbers = Numbers(9);
    let arrays = [
        numbers.array(&[1 << 20], DType::F64),
        numbers.array(&[300, 1000], DType::F64),
        numbers.array(&[1000, 300], DType::F32),
        numbers.array(&[100_000, 3], DType::F64),
        numbers.array(&[3, 100_000], DType::F64),
        numbers.array(&[17, 65, 64, 3], DType::F64),
        numbers.array(&[20, 40, 130], DType::F32),
    ];
    for x in arrays {
        for x in [x.clone(), x.transpose(), x.slice(s![..; -1])] {
            for axes in subsets(x.rank()) {
                same_for_all_thread_counts(|| {
                    let results = [
                        x.sum(axes_of(&axes)),
                        x.prod(axes_of(&axes)),
                        x.var(axes_of(&axes), 1),
                    ];
                    results.map(|y| bits(&y))
                });
            }
            same_for_all_thread_counts(|| x.argmax(0).to_vec::<i64>());
        }
    }
}

fn bits(x: &Array) -> Vec<u64> {
    match x.dtype() {
        DType::F32 => x
            .to_vec::<f32>()
            .iter()
            .map(|x| u64::from(x.to_bits()))
            .collect(),
        _ => x.to_vec::<f64>().iter().map(|x| x.to_bits()).collect(),
    }
}

#[test]
fn axes_stay_where_asked_and_results_keep_the_memory_order() {
    let x = Numbers(3).array(&[2, 3, 4], DType::F64);
    assert_eq!(x.sum(keep_dims([0, -1])).shape(), &[1, 3, 1][..]);
    assert_eq!(x.max(keep_dims(..)).shape(), &[1, 1, 1][..]);
    assert_eq!(x.sum(Axes::new(&[])).to_vec::<f64>(), x.to_vec::<f64>());
    let y = x.permute(&[2, 0, 1]).sum(1);
    assert_eq!((y.shape().dims(), y.strides()), (Some([4, 3]), &[1, 4][..]));
}

#[test]
fn mistakes_are_named() {
    let message = |f: &dyn Fn() -> Array| attempt::<_, Error>(f).unwrap_err().to_string();
    let x = Array::zeros([2, 0, 3], DType::F32);
    assert!(message(&|| x.max(1)).starts_with(
        "max: nothing to choose from along axes [1] of the shape [2, 0, 3], called at"
    ));
    assert!(message(&|| x.min(..)).contains("min: nothing to choose from along axes [0, 1, 2]"));
    assert!(message(&|| x.argmax(1)).contains("argmax: nothing to choose from along axes [1]"));
    assert!(message(&|| x.argmin(3)).contains("argmin: axis 3 is outside of the rank 3"));
    assert!(message(&|| x.sum([0, -3])).contains("sum: axis -3 is named twice in [0, -3]"));
    assert!(message(&|| x.var(5, 0)).contains("var: axis 5 is outside of the rank 3"));
    assert!(message(&|| x.max(1)).contains(file!()));
    assert_eq!(x.max(0).shape(), &[0, 3][..]);
}

#[test]
fn what_is_repeated_takes_no_memory() {
    let x = Array::from([0.0, 2.0, 0.0]).broadcast_to([1 << 40, 3]);
    assert_eq!(x.any(0).to_vec::<bool>(), [false, true, false]);
    assert_eq!(x.all(0).to_vec::<bool>(), [false, true, false]);
    let truths = Array::from([false, true, false]).broadcast_to([1 << 40, 3]);
    assert_eq!(truths.argmax(0).to_vec::<i64>(), [0, 0, 0]);
    assert_eq!(truths.prod(0).to_vec::<i64>(), [0, 1, 0]);
}
