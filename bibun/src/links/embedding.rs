//! A learned table of vectors.

use bibun_array::{Array, DType, Generator, Index};

use super::{Chain, Link, expect_float};
use crate::call::calling;
use crate::functions::embedding;
use crate::initializers::{Initializer, Normal};
use crate::variable::Variable;

/// A learned vector for each id ([`embedding`](crate::functions::embedding)).
///
/// Shapes: ids `[i..]`, integers → `[i.., d]`, with weight `[n, d]`. Cloning shares the parameter.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Embedding, Link};
/// use bibun::Variable;
/// let table = Embedding::new(10, 4, &mut Generator::new(0));
/// let words = Variable::constant([[1i64, 2, 3], [9, 0, 1]]);
/// assert_eq!(table.forward(&words).shape(), [2, 3, 4]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Embedding {
    /// The vectors, `[n, d]`.
    pub weight: Variable,
    padding: Option<i64>,
}

impl Embedding {
    /// Creates a table in f32 of `count` vectors with `size` elements, drawn from a normal
    /// distribution with standard deviation 1.
    #[track_caller]
    pub fn new(count: usize, size: usize, generator: &mut Generator) -> Self {
        Self::builder(count, size).build(generator)
    }

    /// Returns a builder of a table with custom options.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Embedding, Link};
    /// use bibun::Variable;
    /// let table = Embedding::builder(10, 2).padding(0).build(&mut Generator::new(0));
    /// assert_eq!(table.forward(&Variable::constant([0i64])).to_vec::<f32>(), [0.0, 0.0]);
    /// ```
    pub fn builder(count: usize, size: usize) -> EmbeddingBuilder {
        EmbeddingBuilder {
            count,
            size,
            dtype: DType::F32,
            padding: None,
            w: Box::new(Normal {
                mean: 0.0,
                std: 1.0,
            }),
        }
    }
}

impl Link for Embedding {
    /// Returns the vectors of the ids.
    ///
    /// # Panics
    /// Panics if the ids are not integers, or there is no vector for one of them.
    fn compute(&self, ids: &Variable) -> Variable {
        embedding(ids, &self.weight, self.padding)
    }
}

/// A builder of an [`Embedding`]; see [`Embedding::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct EmbeddingBuilder {
    count: usize,
    size: usize,
    dtype: DType,
    padding: Option<i64>,
    w: Box<dyn Initializer>,
}

impl EmbeddingBuilder {
    /// Sets the initializer of the vectors. Defaults to a normal distribution with standard
    /// deviation 1.
    pub fn initializer(mut self, w: impl Initializer + 'static) -> Self {
        self.w = Box::new(w);
        self
    }

    /// Sets the id that stands for padding: its vector is zero and not learned. The id need not be
    /// in the table.
    pub fn padding(mut self, id: i64) -> Self {
        self.padding = Some(id);
        self
    }

    /// Sets the dtype of the vectors. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Draws the vectors and builds the table; the vector of the padding id is zero.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Embedding {
        let _called = calling("Embedding");
        expect_float("Embedding", self.dtype);
        let shape = [self.count, self.size].into();
        let mut w = self.w.initialize(&shape, self.dtype, generator);
        if let Some(id) = self.padding
            && (0..self.count as i64).contains(&id)
        {
            let row = [Index::At(id as isize)];
            w.assign(&row, &Array::zeros(self.size, self.dtype));
        }
        Embedding {
            weight: Variable::new(w),
            padding: self.padding,
        }
    }
}
