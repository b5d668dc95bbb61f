//! An initializer with orthonormal rows or columns.

use bibun_array::{Array, DType, Generator, Shape};

use super::Initializer;
use crate::error::{Error, raise};

/// A matrix with orthonormal rows, or with orthonormal columns if there are fewer columns than
/// rows, times a gain.
///
/// For a weight of rank above two, all axes but the first count as one. The distribution is uniform
/// over all such matrices: the rows of a normally distributed matrix are made orthonormal one after
/// another (by the Gram-Schmidt process, each row twice, in f64).
///
/// Source: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in
/// deep linear neural networks", ICLR 2014.
///
/// ```
/// use bibun::array::{DType, Generator, matmul};
/// use bibun::initializers::{Initializer, Orthogonal};
/// let w = Orthogonal { gain: 1.0 }.initialize(&[2, 5].into(), DType::F64, &mut Generator::new(0));
/// let product = matmul(&w, &w.transpose()).to_vec::<f64>();
/// for (found, expected) in product.iter().zip([1.0, 0.0, 0.0, 1.0]) {
///     assert!((found - expected).abs() < 1e-14);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Orthogonal {
    /// The factor that the matrix is multiplied by.
    pub gain: f64,
}

impl Initializer for Orthogonal {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        let [rows, rest @ ..] = &**shape else {
            let what = format!("the shape is {shape}, expected at least one axis");
            raise(Error::argument("Orthogonal", what))
        };
        let _ = shape.clone().addressable("Orthogonal");
        let (rows, columns): (usize, usize) = (*rows, rest.iter().product());
        let (count, length) = (columns.min(rows), columns.max(rows));
        let mut vectors = generator
            .normal([count, length], 0.0, 1.0, DType::F64)
            .to_vec::<f64>();
        orthonormalize(&mut vectors, length);
        vectors.iter_mut().for_each(|x| *x *= self.gain);
        let vectors = Array::from_vec(vectors, [count, length]);
        let matrix = if rows <= columns {
            vectors
        } else {
            vectors.transpose()
        };
        matrix.to_row_major().reshape(shape).cast(dtype)
    }
}

/// Makes vectors of the given length, stored one after another, orthonormal.
fn orthonormalize(vectors: &mut [f64], length: usize) {
    for start in (0..vectors.len()).step_by(length.max(1)) {
        let (before, rest) = vectors.split_at_mut(start);
        let vector = &mut rest[..length];
        // Rounding leaves a component along the earlier vectors, which a second round removes.
        for _ in 0..2 {
            for other in before.chunks_exact(length) {
                let along = dot(vector, other);
                for (x, y) in vector.iter_mut().zip(other) {
                    *x -= along * y;
                }
            }
        }
        let norm = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
