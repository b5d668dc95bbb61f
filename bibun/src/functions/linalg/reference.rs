//! What is computed of matrices by plain loops in f64.

use bibun_array::{Array, Complex};

use crate::conformance::Draw;

/// A matrix in rows.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) x: Vec<f64>,
}

/// Complex matrices far from singular: how their parts are drawn.
pub(crate) const REGULAR: [Draw; 2] = [Draw::Regular, Draw::Uniform(-0.25..0.25)];

/// Complex matrices with singular values that are far from each other and from zero.
pub(crate) const SEPARATED: [Draw; 2] = [Draw::Separated, Draw::Uniform(-0.1..0.1)];

fn is_diagonal(i: usize, j: usize) -> f64 {
    if i == j { 1.0 } else { 0.0 }
}

impl Matrix {
    pub(crate) fn of(m: usize, n: usize, x: impl Fn(usize, usize) -> f64) -> Self {
        let x = (0..m * n).map(|at| x(at / n, at % n)).collect();
        Self { m, n, x }
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.x[i * self.n + j]
    }

    /// The absolute values of the complex elements of a matrix that is given as a real one.
    pub(crate) fn sizes(&self) -> Self {
        let (m, n) = (self.m / 2, self.n / 2);
        Self::of(m, n, |i, j| self.at(i, j).hypot(self.at(i + m, j)))
    }

    // ----- arithmetic

    pub(crate) fn transposed(&self) -> Self {
        Self::of(self.n, self.m, |i, j| self.at(j, i))
    }
    pub(crate) fn times(&self, b: &Self) -> Self {
        Self::of(self.m, b.n, |i, j| {
            (0..self.n).map(|k| self.at(i, k) * b.at(k, j)).sum()
        })
    }
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::of(self.m, self.n, |i, j| f(self.at(i, j)))
    }

    pub(crate) fn cholesky(&self) -> Self {
        let n = self.n;
        let mut l = Self::of(n, n, |_, _| 0.0);
        for j in 0..n {
            for i in j..n {
                let known: f64 = (0..j).map(|k| l.at(i, k) * l.at(j, k)).sum();
                let rest = self.at(i, j) - known;
                l.x[i * n + j] = if i == j {
                    rest.sqrt()
                } else {
                    rest / l.at(j, j)
                };
            }
        }
        l
    }

    /// Gauss and Jordan, with row exchanges. The determinant comes with the solution.
    fn eliminated(&self, b: &Self) -> (Self, f64) {
        let n = self.n;
        let (mut a, mut x, mut det) = (self.clone(), b.clone(), 1.0);
        for k in 0..n {
            let p = (k..n).max_by(|&i, &j| a.at(i, k).abs().total_cmp(&a.at(j, k).abs()));
            let p = p.expect("a row");
            for (rows, width) in [(&mut a.x, n), (&mut x.x, b.n)] {
                (0..width).for_each(|j| rows.swap(k * width + j, p * width + j));
            }
            det *= if p == k { a.at(k, k) } else { -a.at(k, k) };
            for i in (0..n).filter(|&i| i != k) {
                let factor = a.at(i, k) / a.at(k, k);
                (0..n).for_each(|j| a.x[i * n + j] -= factor * a.at(k, j));
                (0..b.n).for_each(|j| x.x[i * b.n + j] -= factor * x.at(k, j));
            }
        }
        let solved = Self::of(n, b.n, |i, j| x.at(i, j) / a.at(i, i));
        (solved, det)
    }

    pub(crate) fn solve(&self, b: &Self) -> Self {
        self.eliminated(b).0
    }
    pub(crate) fn inverse(&self) -> Self {
        self.solve(&Self::of(self.n, self.n, is_diagonal))
    }
    pub(crate) fn det(&self) -> f64 {
        self.eliminated(&Self::of(self.n, 0, |_, _| 0.0)).1
    }

    /// P, L and U.
    pub(crate) fn lu(&self) -> [Self; 3] {
        let (m, n, k) = (self.m, self.n, self.m.min(self.n));
        let mut a = self.clone();
        let mut rows: Vec<usize> = (0..m).collect();
        for c in 0..k {
            let p = (c..m).max_by(|&i, &j| a.at(i, c).abs().total_cmp(&a.at(j, c).abs()));
            let p = p.expect("a row");
            rows.swap(c, p);
            (0..n).for_each(|j| a.x.swap(c * n + j, p * n + j));
            for i in c + 1..m {
                a.x[i * n + c] /= a.at(c, c);
                (c + 1..n).for_each(|j| a.x[i * n + j] -= a.at(i, c) * a.at(c, j));
            }
        }
        let p = Self::of(m, m, |i, j| if rows[j] == i { 1.0 } else { 0.0 });
        let l = Self::of(
            m,
            k,
            |i, j| if j < i { a.at(i, j) } else { is_diagonal(i, j) },
        );
        let u = Self::of(k, n, |i, j| if j >= i { a.at(i, j) } else { 0.0 });
        [p, l, u]
    }

    /// The eigenvalues of a symmetric matrix in ascending order, and the eigenvectors, whose largest elements are
    /// positive.
    pub(crate) fn eigh(&self) -> [Self; 2] {
        let n = self.n;
        let mut a = self.clone();
        let mut v = Self::of(n, n, is_diagonal);
        for _ in 0..60 {
            for p in 0..n {
                for q in p + 1..n {
                    let angle = 0.5 * (2.0 * a.at(p, q)).atan2(a.at(q, q) - a.at(p, p));
                    let (s, c) = angle.sin_cos();
                    let turn = Self::of(n, n, |i, j| match (i, j) {
                        _ if (i == p || i == q) && i == j => c,
                        _ if (i, j) == (p, q) => s,
                        _ if (i, j) == (q, p) => -s,
                        _ => is_diagonal(i, j),
                    });
                    a = turn.transposed().times(&a).times(&turn);
                    v = v.times(&turn);
                }
            }
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| a.at(i, i).total_cmp(&a.at(j, j)));
        let sign = |j: usize| {
            let largest = (0..n).map(|i| v.at(i, j));
            let largest = largest.max_by(|a, b| a.abs().total_cmp(&b.abs()));
            largest.unwrap_or(1.0).signum()
        };
        [
            Self::of(n, 1, |i, _| a.at(order[i], order[i])),
            Self::of(n, n, |i, j| v.at(i, order[j]) * sign(order[j])),
        ]
    }

    /// `v f(w) vᵀ`
    pub(crate) fn spectral(&self, f: impl Fn(f64) -> f64) -> Self {
        let [w, v] = self.eigh();
        let scaled = Self::of(self.n, self.n, |i, j| v.at(i, j) * f(w.at(j, 0)));
        scaled.times(&v.transposed())
    }

    /// U, S and Vᵀ.
    pub(crate) fn svd(&self) -> [Self; 3] {
        let (m, n, k) = (self.m, self.n, self.m.min(self.n));
        // Of the larger of both products, the largest eigenvalues.
        let [w, v] = self.times(&self.transposed()).eigh();
        let s = Self::of(k, 1, |i, _| w.at(m - 1 - i, 0).sqrt());
        let u = Self::of(m, k, |i, j| v.at(i, m - 1 - j));
        let product = u.transposed().times(self);
        let vt = Self::of(k, n, |i, j| product.at(i, j) / s.at(i, 0));
        [u, s, vt]
    }

    /// Q and R, by Gram and Schmidt.
    pub(crate) fn qr(&self) -> [Self; 2] {
        let (m, n, k) = (self.m, self.n, self.m.min(self.n));
        let mut q = Self::of(m, k, |i, j| self.at(i, j));
        for j in 0..k {
            for _ in 0..2 {
                for p in 0..j {
                    let along: f64 = (0..m).map(|i| q.at(i, p) * q.at(i, j)).sum();
                    (0..m).for_each(|i| q.x[i * k + j] -= along * q.at(i, p));
                }
            }
            let norm = (0..m).map(|i| q.at(i, j).powi(2)).sum::<f64>().sqrt();
            (0..m).for_each(|i| q.x[i * k + j] /= norm);
        }
        let r = q.transposed().times(self);
        let r = Self::of(k, n, |i, j| if j >= i { r.at(i, j) } else { 0.0 });
        [q, r]
    }

    /// The sum of its powers over factorials.
    pub(crate) fn exponential(&self) -> Self {
        let mut term = Self::of(self.n, self.n, is_diagonal);
        let mut sum = term.clone();
        for k in 1..60 {
            term = term.times(self).map(|x| x / f64::from(k));
            sum = Self::of(self.n, self.n, |i, j| sum.at(i, j) + term.at(i, j));
        }
        sum
    }
}

/// Returns the results for each matrix of a batch, as matrices.
pub(crate) fn each(x: &[Array], f: impl Fn(&[Matrix]) -> Vec<Matrix>) -> Vec<Array> {
    let most = x.iter().max_by_key(|x| x.rank()).expect("an input");
    let batch = most.shape()[..most.rank() - 2].to_vec();
    let count: usize = batch.iter().product();
    let parts = |k: usize| -> Vec<Matrix> {
        let part = |x: &Array| {
            let shape = x.shape();
            let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
            let all = x.to_vec::<f64>();
            let k = if all.len() == m * n { 0 } else { k };
            Matrix {
                m,
                n,
                x: all[k * m * n..][..m * n].to_vec(),
            }
        };
        x.iter().map(part).collect()
    };
    let results: Vec<Vec<Matrix>> = (0..count).map(|k| f(&parts(k))).collect();
    let of = |i: usize| {
        let first = &results[0][i];
        let all = results.iter().flat_map(|list| list[i].x.clone()).collect();
        Array::from_vec(all, [&batch[..], &[first.m, first.n]].concat())
    };
    (0..results[0].len()).map(of).collect()
}

/// Does the same for complex arrays, which are given as the real matrices `[[a, -b], [b, a]]` for `a + i b`: their
/// products, sums and inverses are those of complex matrices, and their singular values, each twice.
pub(crate) fn each_embedded(x: &[Array], f: impl Fn(&[Matrix]) -> Vec<Matrix>) -> Vec<Array> {
    let parts: Vec<Array> = x.iter().flat_map(|x| [x.real(), x.imag()]).collect();
    each(&parts, |parts| {
        let whole = parts.chunks(2).map(|parts| {
            let (a, b) = (&parts[0], &parts[1]);
            Matrix::of(2 * a.m, 2 * a.n, |i, j| match (i < a.m, j < a.n) {
                (true, true) => a.at(i, j),
                (true, false) => -b.at(i, j - a.n),
                (false, true) => b.at(i - a.m, j),
                (false, false) => a.at(i - a.m, j - a.n),
            })
        });
        f(&whole.collect::<Vec<_>>())
    })
}

/// Does the same for results that are such matrices, too.
pub(crate) fn each_complex(x: &[Array], f: impl Fn(&[Matrix]) -> Vec<Matrix>) -> Vec<Array> {
    let y = each_embedded(x, |x| {
        let y = f(x).into_iter();
        y.flat_map(|y| {
            [0, y.m / 2].map(|down| Matrix::of(y.m / 2, y.n / 2, |i, j| y.at(i + down, j)))
        })
        .collect()
    });
    y.chunks(2)
        .map(|parts| Array::complex(&parts[0], &parts[1]))
        .collect()
}

/// The determinants of complex matrices, by their first rows.
pub(crate) fn complex_determinants(x: &Array) -> Array {
    fn det(x: &[Complex<f64>], n: usize) -> Complex<f64> {
        if n == 0 {
            return Complex::ONE;
        }
        let term = |column: usize| {
            let rest = x[n..].iter().enumerate();
            let minor: Vec<_> = { rest }
                .filter(|(at, _)| at % n != column)
                .map(|(_, &x)| x)
                .collect();
            let sign = if column.is_multiple_of(2) { 1.0 } else { -1.0 };
            x[column] * det(&minor, n - 1) * sign
        };
        (0..n).map(term).sum()
    }
    let n = x.shape()[x.rank() - 1];
    let all = x.to_vec::<Complex<f64>>();
    let dets = all.chunks(n * n).map(|x| det(x, n)).collect();
    Array::from_vec(dets, x.shape()[..x.rank() - 2].to_vec())
}

/// Drops the axes of matrices of one element.
pub(crate) fn numbers(x: Vec<Array>) -> Vec<Array> {
    x.into_iter()
        .map(|x| x.reshape(x.shape()[..x.rank() - 2].to_vec()))
        .collect()
}

/// Drops the axis of matrices of one column.
pub(crate) fn vector(x: &Array) -> Array {
    x.reshape(x.shape()[..x.rank() - 1].to_vec())
}
