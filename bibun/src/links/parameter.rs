//! A single parameter as a link.

use bibun_array::{Array, DType, Generator, Shape};

use super::{Chain, expect_float};
use crate::initializers::Initializer;
use crate::variable::Variable;

/// A link that is only a parameter: a learned array that takes no input.
///
/// Shapes: → that of the weight. Cloning shares the parameter. A field of type [`Variable`] does
/// the same under its own name.
///
/// ```
/// use bibun::links::{Chain, Parameter};
/// let scale = Parameter::new([1.0, 2.0]);
/// assert_eq!(scale.forward().to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(scale.parameters()[0].0, "weight");
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Parameter {
    /// The parameter.
    pub weight: Variable,
}

impl Parameter {
    /// Creates a parameter with this initial value.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    #[track_caller]
    pub fn new(array: impl Into<Array>) -> Self {
        let array = array.into();
        expect_float("Parameter", array.dtype());
        Self {
            weight: Variable::new(array),
        }
    }

    /// Creates a parameter whose initial value comes from an initializer.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::initializers::Constant;
    /// use bibun::links::Parameter;
    /// let g = &mut Generator::new(0);
    /// let scale = Parameter::initialized([2], DType::F32, &Constant(0.5), g);
    /// assert_eq!(scale.weight.to_vec::<f32>(), [0.5, 0.5]);
    /// ```
    #[track_caller]
    pub fn initialized(
        shape: impl Into<Shape>,
        dtype: DType,
        initializer: &dyn Initializer,
        generator: &mut Generator,
    ) -> Self {
        expect_float("Parameter", dtype);
        Self::new(initializer.initialize(&shape.into(), dtype, generator))
    }

    /// Returns the parameter.
    pub fn forward(&self) -> Variable {
        self.weight.clone()
    }
}
