//! A function called at chosen times.

use std::fmt;

use crate::training::{BoxError, Extension, Session, Trigger};

/// An extension that calls a function whenever it is due: to draw a model's results, to inspect
/// something, to stop.
///
/// ```
/// use bibun::training::{Callback, Trigger};
/// use bibun::Variable;
/// let hello = Callback::new("hello", Trigger::Epochs(1.0), |session| {
///     let model: &Variable = session.model();
///     session.print(format!("after {} steps: {}", session.clock().iteration(), model.item::<f64>()));
///     Ok(())
/// });
/// # let _ = hello;
/// ```
pub struct Callback<F> {
    name: String,
    trigger: Trigger,
    function: F,
}

impl<F> Callback<F> {
    /// Creates an extension that calls `function` when it is due.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[track_caller]
    pub fn new<M>(name: impl Into<String>, trigger: Trigger, function: F) -> Self
    where
        F: FnMut(&mut Session<'_, M>) -> Result<(), BoxError>,
    {
        trigger.expect("new");
        Self {
            name: name.into(),
            trigger,
            function,
        }
    }
}

impl<F> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback")
            .field("name", &self.name)
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

impl<M, F> Extension<M> for Callback<F>
where
    F: FnMut(&mut Session<'_, M>) -> Result<(), BoxError>,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn trigger(&self) -> &Trigger {
        &self.trigger
    }
    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        (self.function)(session)
    }
}
