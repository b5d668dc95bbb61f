//! How the inputs of samples are drawn.

use std::ops::Range;

use bibun_array::linalg::{Triangle, qr};
use bibun_array::{Array, DType, Generator, Shape, matmul};

/// How an input is drawn. Matrices are the last two axes, and those that are said to be square must be.
///
/// This is about the point at which a function is checked. Its derivatives are checked along any direction, for all
/// functions of symmetric or triangular matrices here say what the other matrices nearby give.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Draw {
    /// Each element from a range, whatever the others are.
    Uniform(Range<f64>),
    /// Matrices far from singular, whose rows elimination must exchange.
    Regular,
    /// Square matrices of one triangle, far from singular, with a positive diagonal.
    Triangular(Triangle),
    /// Symmetric matrices with positive eigenvalues.
    PositiveDefinite,
    /// Symmetric matrices with eigenvalues of both signs that are far from each other.
    Symmetric,
    /// Matrices with singular values that are far from each other and from zero.
    Separated,
}

impl From<Range<f64>> for Draw {
    fn from(range: Range<f64>) -> Self {
        Self::Uniform(range)
    }
}

impl Draw {
    /// Draws an array of f64.
    pub(super) fn array(&self, shape: &Shape, generator: &mut Generator) -> Array {
        match self {
            Self::Uniform(range) => uniform(&shape[..], range.clone(), generator),
            Self::Regular => regular(&shape[..], generator),
            Self::Triangular(triangle) => {
                let n = shape[shape.rank() - 1];
                let x = uniform(&shape[..], -0.25..0.25, generator) + Array::eye(n, DType::F64);
                match triangle {
                    Triangle::Lower => x.tril(0),
                    Triangle::Upper => x.triu(0),
                }
            }
            Self::PositiveDefinite => symmetric(shape, generator, |n, g| uniform(n, 0.5..2.5, g)),
            Self::Symmetric => symmetric(shape, generator, |n, g| {
                steps(n, g) - 0.6 * n[n.len() - 1] as f64
            }),
            Self::Separated => {
                let [front @ .., m, n] = &shape[..] else {
                    panic!("{shape} is no shape of matrices");
                };
                let k = *m.min(n);
                let values = steps(&[front, &[k]].concat(), generator) + 1.0;
                let [u, v] =
                    [*m, *n].map(|size| orthonormal(&[front, &[size, k]].concat(), generator));
                composed(&u, &values, &v)
            }
        }
    }

    /// Returns how one array is drawn that is passed for two inputs, if there is one.
    pub(super) fn common(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Uniform(a), Self::Uniform(b)) => {
                let (low, high) = (a.start.max(b.start), a.end.min(b.end));
                (low < high).then_some(Self::Uniform(low..high))
            }
            (a, b) => (a == b).then(|| a.clone()),
        }
    }
}

fn uniform(shape: &[usize], range: Range<f64>, generator: &mut Generator) -> Array {
    generator.uniform(shape, range.start, range.end, DType::F64)
}

/// Near the matrix that moves every row up, the first one to the end.
fn regular(shape: &[usize], generator: &mut Generator) -> Array {
    let [.., m, n] = *shape else {
        panic!("{shape:?} is no shape of matrices");
    };
    let moved = (0..m * n).map(|at| f64::from(u8::from((at / n + 1) % m == at % n)));
    uniform(shape, -0.25..0.25, generator) + Array::from_vec(moved.collect(), [m, n])
}

/// Numbers near 0, 1, 2, and so on, along the last axis.
fn steps(shape: &[usize], generator: &mut Generator) -> Array {
    let whole = Array::arange(0, shape[shape.len() - 1] as i64).cast(DType::F64);
    uniform(shape, -0.2..0.2, generator) + whole
}

/// Orthonormal columns. One element of each is larger than the others, so that small changes of a matrix do not turn
/// the signs of its eigenvectors.
fn orthonormal(shape: &[usize], generator: &mut Generator) -> Array {
    let [q, _] = qr(&regular(shape, generator), false);
    q
}

/// `u diag(values) vᵀ`
fn composed(u: &Array, values: &Array, v: &Array) -> Array {
    matmul(&(u * values.expand_dims(-2)), &v.swapaxes(-1, -2))
}

fn symmetric(
    shape: &Shape,
    generator: &mut Generator,
    values: impl Fn(&[usize], &mut Generator) -> Array,
) -> Array {
    let values = values(&shape[..shape.rank() - 1], generator);
    let v = orthonormal(&shape[..], generator);
    let x = composed(&v, &values, &v);
    (&x + &x.swapaxes(-1, -2)) * 0.5
}

#[test]
fn matrices_are_what_they_are_called() {
    use bibun_array::linalg::{cholesky, determinants, eigvalsh, lu_factor, svdvals};

    let mut generator = Generator::new(5);
    let mut draw = |draw: Draw, shape: [usize; 3]| draw.array(&shape.into(), &mut generator);
    let gaps = |x: &Array| -> Vec<f64> {
        let n = x.shape()[1];
        let rows = x.to_vec::<f64>();
        let rows = rows.chunks(n);
        rows.flat_map(|row| row.windows(2).map(|pair| (pair[1] - pair[0]).abs()))
            .collect()
    };
    let least = |x: Vec<f64>| x.into_iter().fold(f64::INFINITY, f64::min);
    for n in [2, 3, 4] {
        let shape = [50, n, n];
        for kind in [Draw::PositiveDefinite, Draw::Symmetric] {
            let x = draw(kind, shape);
            assert_eq!(x.to_vec::<f64>(), x.swapaxes(1, 2).to_vec::<f64>());
        }
        let [_, info] = cholesky(&draw(Draw::PositiveDefinite, shape));
        assert_eq!(info.to_vec::<i64>(), [0; 50]);
        let [w, _] = eigvalsh(&draw(Draw::Symmetric, shape));
        assert!(least(gaps(&w)) > 0.59 && w.min(..).item::<f64>() < 0.0);
        for shape in [shape, [50, n + 1, n], [50, n, n + 2]] {
            let [s, _] = svdvals(&draw(Draw::Separated, shape));
            assert!(least(gaps(&s)) > 0.59 && s.min(..).item::<f64>() > 0.79);
        }
        let x = draw(Draw::Regular, shape);
        let [det, ..] = determinants(&x);
        assert!(least(det.abs().to_vec()) > 0.2, "{n}");
        let [_, rows, _] = lu_factor(&x);
        assert!(
            rows.to_vec::<i64>()
                .chunks(n)
                .all(|rows| rows[0] == n as i64 - 1)
        );
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let x = draw(Draw::Triangular(triangle), shape);
            let other = match triangle {
                Triangle::Lower => x.triu(1),
                Triangle::Upper => x.tril(-1),
            };
            assert!(other.to_vec::<f64>().iter().all(|&x| x == 0.0));
            assert!(x.diagonal(0).min(..).item::<f64>() > 0.7);
        }
    }
}
