//! Values of which transformations hide the elements.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::apply::Call;
use crate::function::{AnyFunction, Items, Spec};
use crate::scope::Level;
use crate::variable::{Value, Variable};

/// What a transformation puts in the place of elements: something made of Variables of the level
/// below.
///
/// The door, the Variable and the walks know hidden values by this alone, so a new kind of them is
/// a file of its own.
pub(crate) trait Hidden: Any + fmt::Debug + Send + Sync {
    /// The level of the transformation.
    fn level(&self) -> Level;

    /// The shape and the dtype as they are seen at this level.
    fn spec(&self) -> Spec;

    /// The transformation's name, and what can be done instead of asking for the elements.
    fn hidden_by(&self) -> (&'static str, &'static str);

    /// The Variables of the level below that it is made of.
    fn parts(&self) -> Items<&Variable>;

    /// Whether it carries a derivative of its own.
    fn is_differentiated(&self) -> bool;

    /// The same value, whose derivative is zero.
    fn detach(&self) -> Variable;

    /// Runs a function on inputs of which some are hidden by this transformation, this one among
    /// them, and none by an inner one. It works on Variables of the level below, with their history
    /// there, so that an outer walk finds its way through it.
    fn run(
        &self,
        function: &dyn AnyFunction,
        inputs: Items<Variable>,
        call: &Call<'_>,
    ) -> Items<Arc<Value>>;
}
