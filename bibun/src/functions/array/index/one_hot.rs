//! Integer classes as vectors of zeros and a one.

use bibun_array::{Array, DType};

use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::condition::expect_everywhere;
use crate::functions::families::{Discrete, DiscreteRule};
use crate::functions::{greater_equal, to_indices};
use crate::variable::Variable;

/// Returns ones at the classes that `indices` name and zeros elsewhere, along a new last axis.
///
/// Shapes: indices any `[i..]` → `[i.., classes]`. Types: integers → `dtype`. Gradient: none.
///
/// # Panics
/// Panics if `indices` are not integers, or a class is negative or not below `classes`. (Elsewhere a negative index counts
/// from the end; here it would make the last class of a label that means none.)
///
/// ```
/// use bibun::{array::DType, functions::one_hot};
/// let y = one_hot([1i64, 0], 3, DType::F32);
/// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn one_hot(indices: impl Into<Variable>, classes: usize, dtype: DType) -> Variable {
    let indices = to_indices(indices);
    if indices.dtype() == DType::I64 {
        let is_class = greater_equal(&indices, 0);
        expect_everywhere("one_hot", "a class", &indices, &is_class, "0 or more");
    }
    one_hot_of_classes(indices, classes, dtype)
}

/// Returns [`one_hot`] of what are known to be classes.
#[track_caller]
pub(in crate::functions) fn one_hot_of_classes(
    indices: impl Into<Variable>,
    classes: usize,
    dtype: DType,
) -> Variable {
    Discrete::of(OneHot { classes, dtype }, [to_indices(indices)])
}

#[derive(Clone, Debug)]
struct OneHot {
    classes: usize,
    dtype: DType,
}

impl DiscreteRule for OneHot {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "one_hot"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        if indices.dtype != DType::I64 {
            return Err(Mismatch::new(&[("indices", indices)], "must be integers"));
        }
        let rank = indices.shape.rank();
        let shape = indices.shape.inserted(rank, self.classes);
        Ok(Spec::new(shape, self.dtype))
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        Array::one_hot(&indices, self.classes, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::batch::vmap;

    #[test]
    fn one_hot_of_batch_elements() {
        let t = Variable::constant([[0i64, 1, 1]]);
        let y = vmap(|v| vec![one_hot(&v[0], 2, DType::I64)], &[t], &[Some(1)]);
        assert_eq!(y[0].shape(), [3, 1, 2]);
        assert_eq!(y[0].to_vec::<i64>(), [1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn a_negative_class_is_named() {
        let error = attempt(|| one_hot([1i64, -1], 3, DType::F64)).unwrap_err();
        assert!(
            error.to_string().contains("a class is -1 at [1]"),
            "{error}"
        );
    }

    #[test]
    fn classes_are_integers() {
        let refused = |indices: Variable| {
            let error = attempt(|| one_hot(indices, 2, DType::F64)).unwrap_err();
            error.to_string()
        };
        let error = refused(Variable::constant([0.0]));
        assert!(error.contains("must be integers"), "{error}");
        let error = refused(Variable::constant(Array::zeros(1, DType::C128)));
        assert!(error.starts_with("one_hot: it is not defined"), "{error}");
    }
}
