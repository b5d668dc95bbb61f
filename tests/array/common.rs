//! Arrays of every kind of layout, and plain loops over their indices.

#![allow(dead_code, reason = "each test file uses a part of this")]

use bibun_array::{Array, DType, Element, Index, Kind, Shape};

/// Numbers that look random (the splitmix64 generator).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between -1 and 1.
    pub(crate) fn float(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    /// A row-major array of some dtype; small integers, so that ties and zeros occur.
    pub(crate) fn array(&mut self, shape: &[usize], dtype: DType) -> Array {
        let size = shape.iter().product();
        let numbers: Vec<f64> = (0..size)
            .map(|_| match dtype.kind() {
                Kind::Truth => f64::from(u8::from(self.word() & 3 > 0)),
                Kind::Integer => self.below(11) as f64 - 5.0,
                Kind::Float | Kind::Complex => self.float(),
            })
            .collect();
        Array::from_vec(numbers, shape).cast(dtype)
    }

    /// An array of this shape in some layout: axes permuted in memory, cut out of a larger one,
    /// backwards, in steps, or repeated.
    pub(crate) fn layout(&mut self, shape: &[usize], dtype: DType) -> Array {
        let rank = shape.len();
        if self.below(12) == 0 {
            return Array::full(shape, self.array(&[], dtype).element(&[])).broadcast_to(shape);
        }
        let mut order: Vec<usize> = (0..rank).collect();
        if self.below(2) == 0 {
            for i in (1..rank).rev() {
                order.swap(i, self.below(i + 1));
            }
        }
        let mut inner = Vec::new();
        let mut index = Vec::new();
        for &axis in &order {
            let size = shape[axis];
            match self.below(8) {
                0 => {
                    inner.push(size + 3);
                    index.push(Index::from(2..size as isize + 2));
                }
                1 => {
                    inner.push(size);
                    index.push(Index::ALL.step_by(-1));
                }
                2 => {
                    inner.push(2 * size);
                    index.push(Index::ALL.step_by(2));
                }
                3 => {
                    inner.push(3 * size);
                    index.push(Index::ALL.step_by(-3));
                }
                4 if size != 0 => {
                    inner.push(1);
                    index.push(Index::ALL);
                }
                _ => {
                    inner.push(size);
                    index.push(Index::ALL);
                }
            }
        }
        let in_order: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let place: Vec<isize> = (0..rank)
            .map(|axis| order.iter().position(|&a| a == axis).unwrap() as isize)
            .collect();
        let x = self.array(&inner, dtype);
        x.slice(&index).broadcast_to(&in_order[..]).permute(&place)
    }
}

/// Every index of a shape in row-major order.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |mut rest: usize| {
        let mut index = vec![0; shape.len()];
        for (i, &size) in index.iter_mut().zip(&shape).rev() {
            *i = rest % size;
            rest /= size;
        }
        index
    })
}

/// The elements that go into each result of a reduction, in row-major order.
pub(crate) fn groups<T: Element>(x: &Array, axes: &[usize]) -> (Shape, Vec<Vec<T>>) {
    let shape = x.shape().reduced(axes, false);
    let mut groups = vec![Vec::new(); shape.size()];
    let elements = x.to_vec::<T>();
    for (index, element) in indices(x.shape()).zip(elements) {
        let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
        let place = kept.fold(0, |place, axis| place * x.shape()[axis] + index[axis]);
        groups[place].push(element);
    }
    (shape, groups)
}

/// All sets of axes of a rank.
pub(crate) fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1usize << rank).map(move |set| (0..rank).filter(|axis| set >> axis & 1 == 1).collect())
}

/// Shapes of rank 0 to 4 with sizes around all thresholds.
pub(crate) fn shapes(numbers: &mut Numbers) -> Vec<Vec<usize>> {
    let sizes = [0, 1, 2, 3, 7, 17, 64, 65, 1000];
    let mut shapes: Vec<Vec<usize>> = vec![vec![]];
    shapes.extend(sizes.iter().map(|&size| vec![size]));
    for &m in &sizes {
        shapes.extend(
            sizes
                .iter()
                .filter(|&&n| m * n <= 200_000)
                .map(|&n| vec![m, n]),
        );
    }
    for rank in 3..5 {
        for _ in 0..25 {
            let shape: Vec<usize> = (0..rank)
                .map(|_| sizes[numbers.below(sizes.len())])
                .collect();
            // Without its axes of size 0 a shape is as large as some reduction of it.
            if shape.iter().map(|&size| size.max(1)).product::<usize>() <= 200_000 {
                shapes.push(shape);
            }
        }
    }
    shapes
}

/// Runs `f` with 1, 2 and 3 threads and asserts that all results are equal.
pub(crate) fn same_for_all_thread_counts<T: PartialEq + std::fmt::Debug + Send>(
    f: impl Fn() -> T + Sync,
) {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads start").install(&f)
    };
    let one = run(1);
    for threads in [2, 3] {
        assert!(
            run(threads) == one,
            "{threads} threads give another result than one"
        );
    }
}
