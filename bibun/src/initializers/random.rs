//! Initializers with random numbers of a given spread.

use bibun_array::{Array, DType, Generator, Scalar, Shape};

use super::Initializer;
use crate::error::{Error, raise};

/// Normally distributed numbers.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, Normal};
/// let normal = Normal { mean: 0.0, std: 0.02 };
/// let w = normal.initialize(&[50, 4].into(), DType::F32, &mut Generator::new(0));
/// assert!(w.to_vec::<f32>().iter().all(|w| w.abs() < 0.2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
}

impl Initializer for Normal {
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        generator.normal(shape, self.mean, self.std, dtype)
    }
}

/// Numbers uniformly distributed on `[low, high)`.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, Uniform};
/// let uniform = Uniform { low: -0.1, high: 0.1 };
/// let w = uniform.initialize(&[50, 4].into(), DType::F64, &mut Generator::new(0));
/// assert!(w.to_vec::<f64>().iter().all(|w| (-0.1..0.1).contains(w)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// The lower end, inclusive.
    pub low: f64,
    /// The upper end, exclusive.
    pub high: f64,
}

impl Initializer for Uniform {
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        generator.uniform(shape, self.low, self.high, dtype)
    }
}

/// Normally distributed numbers, restricted to those between two ends.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, TruncatedNormal};
/// let normal = TruncatedNormal { mean: 0.0, std: 1.0, low: -2.0, high: 2.0 };
/// let w = normal.initialize(&[50, 4].into(), DType::F64, &mut Generator::new(0));
/// assert!(w.to_vec::<f64>().iter().all(|w| (-2.0..=2.0).contains(w)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TruncatedNormal {
    /// The mean of the distribution before truncation.
    pub mean: f64,
    /// The standard deviation of the distribution before truncation.
    pub std: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Initializer for TruncatedNormal {
    /// # Panics
    /// Panics if `low` is not below `high`, the standard deviation is not positive, or the mean or
    /// the standard deviation is not finite.
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        let Self {
            mean,
            std,
            low,
            high,
        } = *self;
        let is_plain = mean.is_finite() && std.is_finite() && std > 0.0;
        if !(is_plain && low < high && low < f64::INFINITY && high > f64::NEG_INFINITY) {
            let what = format!("{self:?} has no numbers between its ends");
            raise(Error::argument("TruncatedNormal", what));
        }
        // In standard deviations from the mean: the ends, the most likely point between them, and
        // the distance from it at which the density has fallen by e⁻⁴⁰ and no longer matters.
        let (from, to) = ((low - mean) / std, (high - mean) / std);
        let peak = 0f64.clamp(from, to);
        let reach = (peak * peak + 80.0).sqrt() - peak.abs();
        let (from, to) = (from.max(peak - reach), to.min(peak + reach));
        let rounded = |x: f64| Scalar::F64(x).cast(dtype).to_f64();
        let _ = shape.clone().addressable("TruncatedNormal");
        let mut elements: Vec<f64> = Vec::new();
        while elements.len() < shape.size() {
            let missing = shape.size() - elements.len();
            let count = 2 * missing + 16;
            // Rejection sampling (von Neumann): of points under a box, those under the density are
            // accepted.
            let points = generator
                .uniform(count, from, to, DType::F64)
                .to_vec::<f64>();
            let heights = generator
                .uniform(count, 0.0, 1.0, DType::F64)
                .to_vec::<f64>();
            let kept = (points.into_iter().zip(heights))
                .filter(|(x, height)| *height < ((peak * peak - x * x) / 2.0).exp())
                .map(|(x, _)| rounded(mean + std * x))
                .filter(|x| (low..=high).contains(x));
            elements.extend(kept.take(missing));
        }
        Array::from_vec(elements, shape).cast(dtype)
    }
}

/// Normally distributed numbers with mean 0, with a part of each column set to zero: in a weight
/// `[o, i]`, each input reaches only some outputs.
///
/// Source: Martens, "Deep Learning via Hessian-free Optimization", ICML 2010.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Initializer, Sparse};
/// let sparse = Sparse { sparsity: 0.75, std: 0.01 };
/// let w = sparse.initialize(&[4, 3].into(), DType::F32, &mut Generator::new(0));
/// assert_eq!(w.to_vec::<f32>().iter().filter(|&&w| w != 0.0).count(), 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sparse {
    /// The fraction of each column that is zero, rounded up to whole elements.
    pub sparsity: f64,
    /// The standard deviation of the other elements.
    pub std: f64,
}

impl Initializer for Sparse {
    /// # Panics
    /// Panics if the shape is not that of a matrix or the sparsity is not between 0 and 1.
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        let Some([rows, columns]) = shape.dims() else {
            let what = format!("the shape is {shape}, expected the one of a matrix");
            raise(Error::argument("Sparse", what))
        };
        if !(0.0..=1.0).contains(&self.sparsity) {
            let what = format!(
                "the sparsity is {}, it must be between 0 and 1",
                self.sparsity
            );
            raise(Error::argument("Sparse", what));
        }
        let zeros = (self.sparsity * rows as f64).ceil() as usize;
        let _ = shape.clone().addressable("Sparse");
        let mut kept = Array::ones(shape, DType::Bool);
        let ones = kept.as_mut_slice::<bool>();
        for column in 0..columns {
            for row in generator
                .permutation(rows)
                .to_vec::<i64>()
                .into_iter()
                .take(zeros)
            {
                ones[row as usize * columns + column] = false;
            }
        }
        let w = generator.normal(shape, 0.0, self.std, dtype);
        w * kept.cast(dtype)
    }
}
