//! Functions of symmetric matrices and their derivatives.

use super::batch::{Large, Results, Rule, run};
use super::eigh::eigh;
use super::{expect_square, raise_mismatch};
use crate::{Array, matmul, ops};

/// A function of a number, which is a function of the eigenvalues of a symmetric matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spectral {
    /// `log x`, of positive numbers.
    Log,
    /// `xᵖ`, of positive numbers, and of 0 for positive p.
    Power(f64),
}

/// Computes the derivative of order k of `f(a) = v f(w) vᵀ` along the symmetric parts of k matrices, for
/// symmetric matrices a (of which only the symmetric part counts) with eigenvalues w and eigenvectors v: with no
/// direction, f(a) itself. For each matrix there is a number: 0; or k if the k-th eigenvalue is the first outside
/// of the domain of f, where the result is NaN; or -1 for elements that are not finite. Equal eigenvalues
/// are like others.
///
/// The derivative is a sum over the orders of the directions, of their products with divided differences of f.
/// It takes `nᵏ⁺¹` of these. Source: Y. Daleckii and S. Krein, 1965; R. Bhatia, "Matrix Analysis", V.3.
///
/// ```
/// use bibun_array::{Array, linalg::{Spectral, spectral}};
/// let a = Array::from([[4.0, 0.0], [0.0, 9.0]]);
/// let [y, _] = spectral(Spectral::Power(0.5), &a, &[]);
/// assert_eq!(y.to_vec::<f64>(), [2.0, 0.0, 0.0, 3.0]);
/// let [dy, _] = spectral(Spectral::Power(0.5), &a, &[Array::from([[0.0, 1.0], [1.0, 0.0]])]);
/// assert!((dy.to_vec::<f64>()[1] - 0.2).abs() < 1e-15);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither f32 nor f64, or the directions have other shapes or dtypes.
#[track_caller]
pub fn spectral(f: Spectral, a: &Array, directions: &[Array]) -> [Array; 2] {
    let n = expect_square("spectral", a);
    for x in directions {
        if x.shape() != a.shape() || x.dtype() != a.dtype() {
            raise_mismatch("spectral", &[("a", a), ("a direction", x)]);
        }
    }
    let [values, vectors, info] = eigh(a);
    let turned = vectors.swapaxes(-1, -2);
    let mut inputs = vec![values];
    for x in directions {
        let part = (x + &x.swapaxes(-1, -2)) * 0.5;
        inputs.push(matmul(&matmul(&turned, &part), &vectors));
    }
    let ranks = [&[1][..], &vec![2; directions.len()]].concat();
    let refs: Vec<&Array> = inputs.iter().collect();
    let [y, outside] = super::results(run(Contraction { f, n, ranks }, &refs));
    let y = matmul(&matmul(&vectors, &y), &turned);
    let y = (&y + &y.swapaxes(-1, -2)) * 0.5;
    [
        y,
        ops::minimum(info.clone(), outside.clone()) + ops::maximum(info, outside),
    ]
}

#[derive(Clone)]
struct Contraction {
    f: Spectral,
    n: usize,
    ranks: Vec<usize>,
}

impl Spectral {
    /// Whether it has a value.
    fn holds(self, x: f64) -> bool {
        match self {
            Self::Log => x > 0.0,
            Self::Power(p) => x > 0.0 || x == 0.0 && p > 0.0,
        }
    }

    /// The divided difference of some points in ascending order.
    fn divided_difference(self, points: &[f64]) -> f64 {
        let (&first, &last) = (&points[0], &points[points.len() - 1]);
        if points.len() == 1 {
            return match self {
                Self::Log => first.ln(),
                Self::Power(p) => first.powf(p),
            };
        }
        if last - first > 0.3 * last {
            let [above, below] = [&points[1..], &points[..points.len() - 1]];
            let rise = self.divided_difference(above) - self.divided_difference(below);
            return rise / (last - first);
        }
        // A series around their mean, in symmetric polynomials of the distances from it.
        let order = points.len() - 1;
        let mean = points.iter().sum::<f64>() / points.len() as f64;
        let mut sums = [0.0; 64];
        sums[0] = 1.0;
        for &x in points.iter().filter(|_| mean > 0.0) {
            for j in 1..sums.len() {
                sums[j] += (x / mean - 1.0) * sums[j - 1];
            }
        }
        let exponent = match self {
            Self::Log => 0.0,
            Self::Power(p) => p,
        };
        // The coefficient of the series of log (1 + t), or of (1 + t)ᵖ.
        let mut coefficient = 1.0;
        for i in 0..order {
            coefficient = self.next(coefficient, i);
        }
        let mut total = 0.0;
        for (j, sum) in sums.into_iter().enumerate() {
            total += coefficient * sum;
            coefficient = self.next(coefficient, order + j);
        }
        total * mean.powf(exponent - order as f64)
    }

    /// The coefficient of the series that comes after number i.
    fn next(self, coefficient: f64, i: usize) -> f64 {
        let i = i as f64;
        match self {
            Self::Log if i == 0.0 => 1.0,
            Self::Log => -coefficient * i / (i + 1.0),
            Self::Power(p) => coefficient * (p - i) / (i + 1.0),
        }
    }
}

/// Calls a function with all orders of the numbers from `done` on.
fn permutations(order: &mut [usize], done: usize, each: &mut dyn FnMut(&[usize])) {
    if done + 1 >= order.len() {
        return each(order);
    }
    for i in done..order.len() {
        order.swap(done, i);
        permutations(order, done + 1, each);
        order.swap(done, i);
    }
}

impl Contraction {
    /// Adds, for all ways from the last of `path` to the end, the products along them.
    fn add<T: Large>(
        &self,
        values: &[f64],
        factors: &[&[T]],
        path: &mut Vec<usize>,
        product: f64,
        y: &mut [f64],
    ) {
        let (n, at) = (self.n, path[path.len() - 1]);
        let Some((next, others)) = factors.split_first() else {
            let mut points: Vec<f64> = path.iter().map(|&i| values[i]).collect();
            points.sort_by(f64::total_cmp);
            y[path[0] * n + at] += product * self.f.divided_difference(&points);
            return;
        };
        for to in 0..n {
            let product = product * next[at * n + to].to_f64();
            if product != 0.0 {
                path.push(to);
                self.add(values, others, path, product, y);
                path.pop();
            }
        }
    }
}

impl Rule for Contraction {
    fn name(&self) -> &'static str {
        "spectral"
    }
    fn ranks(&self) -> &[usize] {
        &self.ranks
    }
    fn results(&self) -> Results {
        Results::new([vec![self.n; 2]], [vec![]])
    }
    fn work(&self) -> usize {
        20 * self.n.pow(self.ranks.len() as u32) + 1
    }
    fn is_tiny(&self) -> bool {
        false
    }
    fn compute<V: super::numbers::Numbers>(&self, _: &[&[V]], _: &mut [&mut [V]]) {
        unreachable!("it is never computed in groups")
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.n;
        let mut values: Vec<f64> = x[0].iter().map(|x| x.to_f64()).collect();
        let largest = values
            .iter()
            .fold(0.0f64, |largest, x| largest.max(x.abs()));
        // What rounding has made of zero.
        let least = n as f64 * T::epsilon().to_f64() * largest;
        for x in &mut values {
            if *x < 0.0 && *x >= -least && self.f.holds(0.0) {
                *x = 0.0;
            }
        }
        let outside = values.iter().position(|&x| !self.f.holds(x));
        if let Some(i) = outside {
            // What is not a number has been seen before.
            integers[0][0] = if values[i].is_nan() { 0 } else { i as i64 + 1 };
            return y[0].fill(T::of(f64::NAN));
        }
        let mut sums = vec![0.0; n * n];
        let mut order: Vec<usize> = (1..x.len()).collect();
        permutations(&mut order, 0, &mut |order| {
            let factors: Vec<&[T]> = order.iter().map(|&i| x[i]).collect();
            for i in 0..n {
                self.add(&values, &factors, &mut vec![i], 1.0, &mut sums);
            }
        });
        for (y, sum) in y[0].iter_mut().zip(sums) {
            *y = T::of(sum);
        }
    }
}
