//! Links applied one after another.

use std::fmt;

use super::path::part;
use super::{Chain, FunctionLink, Link};
use crate::variable::Variable;

/// Links applied one after another: the result of each is the input of the next.
///
/// Shapes: the input of the first link → the output of the last; without links, the input itself.
/// Parameters are named by position: `0/weight`, `2/bias`.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Chain, Linear, Link, Sequential};
/// use bibun::Variable;
/// let g = &mut Generator::new(0);
/// let model = Sequential::new()
///     .then(Linear::new(4, 8, g))
///     .then_function(Variable::relu)
///     .then(Linear::new(8, 2, g));
/// let x = Variable::constant([[1.0f32, 2.0, 3.0, 4.0]]);
/// assert_eq!(model.forward(&x).shape(), [1, 2]);
/// let names: Vec<String> = model.parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0/weight", "0/bias", "2/weight", "2/bias"]);
/// ```
#[derive(Chain, Default)]
pub struct Sequential(Vec<Box<dyn Link>>);

impl Sequential {
    /// Creates a sequence without links.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link at the end.
    #[must_use]
    pub fn then(mut self, link: impl Link + 'static) -> Self {
        self.0.push(Box::new(link));
        self
    }

    /// Adds a function at the end; see [`FunctionLink`].
    #[must_use]
    pub fn then_function(
        self,
        function: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.then(FunctionLink::new(function))
    }

    /// Returns the links in order.
    ///
    /// ```
    /// use bibun::{links::Sequential, Variable};
    /// assert_eq!(Sequential::new().then_function(Variable::relu).links().len(), 1);
    /// ```
    pub fn links(&self) -> &[Box<dyn Link>] {
        &self.0
    }
}

impl FromIterator<Box<dyn Link>> for Sequential {
    fn from_iter<I: IntoIterator<Item = Box<dyn Link>>>(links: I) -> Self {
        Self(links.into_iter().collect())
    }
}

impl Link for Sequential {
    /// Applies all links in order and returns the output of the last.
    ///
    /// # Panics
    /// Panics if a link does not accept the output of the one before it.
    fn compute(&self, x: &Variable) -> Variable {
        let mut y = x.clone();
        for (i, link) in self.0.iter().enumerate() {
            y = part(i, || link.forward(&y));
        }
        y
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters().into_iter();
        f.debug_struct("Sequential")
            .field("links", &self.0.len())
            .field(
                "parameters",
                &parameters
                    .map(|(name, x)| (name, x.shape()))
                    .collect::<Vec<_>>(),
            )
            .finish()
    }
}
