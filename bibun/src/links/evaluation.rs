//! A model in evaluation mode on every thread.

use std::fmt;

use super::{Link, Mapper, Tree, Visitor};
use crate::scope::eval_mode;
use crate::variable::Variable;

/// A model in evaluation mode by its type: on any thread, in any pool and inside any scope, dropout
/// returns its input and batch normalisation uses its running statistics without updating them.
///
/// [`eval_mode`](crate::eval_mode) applies to the thread that calls it. A server whose threads
/// share a model gives them this type instead, so that no thread can forget the mode. It does not
/// turn off history; use [`no_grad`](crate::no_grad) for that.
///
/// In a walk it is the model itself: the parameters have the same names, and the model's files load
/// into it.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Dropout, Evaluation, Link};
/// use bibun::Variable;
/// let model = Evaluation::new(Dropout::new(0.5, &mut Generator::new(0)));
/// let x = Variable::constant([1.0; 8]);
/// let answers = std::thread::scope(|threads| {
///     let asked = [(); 2].map(|()| threads.spawn(|| model.forward(&x).to_vec::<f64>()));
///     asked.map(|thread| thread.join().unwrap())
/// });
/// assert_eq!(answers, [[1.0; 8], [1.0; 8]]);
/// ```
#[derive(Clone)]
pub struct Evaluation<M>(M);

impl<M> Evaluation<M> {
    /// Returns the model in evaluation mode. If the model is a clone, both share parameters and
    /// buffers, so the original can still be trained.
    pub fn new(model: M) -> Self {
        Self(model)
    }

    /// Calls `f` with the model in evaluation mode and returns its result: for a model that is not
    /// a [`Link`].
    ///
    /// ```
    /// use bibun::is_training;
    /// use bibun::links::Evaluation;
    /// assert!(!Evaluation::new(()).run(|_| is_training()));
    /// ```
    pub fn run<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        eval_mode(|| f(&self.0))
    }

    /// Returns the model, which again follows the mode of the thread that uses it.
    pub fn into_inner(self) -> M {
        self.0
    }
}

impl<M: Link + Tree + 'static> Link for Evaluation<M> {
    /// Applies the model in evaluation mode.
    fn compute(&self, x: &Variable) -> Variable {
        self.run(|model| model.forward(x))
    }
}

impl<M: Tree> Tree for Evaluation<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        Self(self.0.map(mapper))
    }
}

impl<M: fmt::Debug> fmt::Debug for Evaluation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Evaluation").field(&self.0).finish()
    }
}
