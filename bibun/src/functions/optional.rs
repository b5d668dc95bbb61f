//! Inputs that a function can do without.

use bibun_array::Array;

use crate::variable::Variable;

/// An input that may be left out, such as a bias: a Variable, an array (a constant), or `None`.
///
/// ```
/// use bibun::array::Array;
/// use bibun::functions::linear;
/// use bibun::Variable;
/// let (x, w) = (Variable::new([[1.0, 2.0]]), Variable::new([[1.0, 1.0]]));
/// assert_eq!(linear(&x, &w, None).to_vec::<f64>(), [3.0]);
/// assert_eq!(linear(&x, &w, Array::from([10.0])).to_vec::<f64>(), [13.0]);
/// let bias = Some(Variable::new([20.0]));
/// assert_eq!(linear(&x, &w, &bias).to_vec::<f64>(), [23.0]);
/// ```
#[derive(Clone, Debug)]
pub struct OptionalVariable(Option<Variable>);

impl OptionalVariable {
    /// Returns the input, if there is one.
    pub fn get(&self) -> Option<&Variable> {
        self.0.as_ref()
    }
}

macro_rules! optional_from {
    ($($Input:ty),+) => {$(
        impl From<$Input> for OptionalVariable {
            fn from(input: $Input) -> Self {
                Self(Some(input.into()))
            }
        }
    )+};
}
optional_from!(Variable, &Variable, Array, &Array);

/// The only conversion from an [`Option`] by value, so that Rust can tell the type of `None`.
impl From<Option<&Variable>> for OptionalVariable {
    fn from(input: Option<&Variable>) -> Self {
        Self(input.cloned())
    }
}
impl From<&Option<Variable>> for OptionalVariable {
    fn from(input: &Option<Variable>) -> Self {
        Self(input.clone())
    }
}
