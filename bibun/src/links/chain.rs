//! The Chain: anything with parameters, walked by name.

use rustc_hash::FxHashSet;

use crate::tree::{Leaves, Tree, Visitor};
use crate::variable::Variable;

/// Anything with parameters: a link, a struct of links, a list of them. Every [`Tree`] is one;
/// `#[derive(Chain)]` makes a Tree of a model.
///
/// A parameter is a leaf Variable, made by [`Variable::new`]; inside a transformation, what stands in
/// its place. A constant Variable in a Chain is a *buffer*: part of the model's state (running
/// statistics, say), but nothing to be optimized.
/// Numbers, strings and the like are neither, and are Chains without anything in them, so that
/// they need no attribute. Clones of a Variable are one parameter: where a weight is tied, every
/// place is visited, but [`parameters`](Chain::parameters) lists it once, and an optimizer updates
/// it once.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Chain, Link, Linear};
/// use bibun::Variable;
///
/// #[derive(Chain)]
/// struct Mlp {
///     layers: Vec<Linear>,
///     head: Linear,
///     slope: f64,
/// }
///
/// let g = &mut Generator::new(0);
/// let model = Mlp {
///     layers: vec![Linear::new(4, 3, g), Linear::new(3, 3, g)],
///     head: Linear::new(3, 2, g),
///     slope: 0.1,
/// };
/// let names: Vec<String> = model.parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["layers/0/w", "layers/0/b", "layers/1/w", "layers/1/b", "head/w", "head/b"]);
/// assert_eq!(model.parameter_count(), 4 * 3 + 3 + 3 * 3 + 3 + 3 * 2 + 2);
/// ```
pub trait Chain: Tree {
    /// Every parameter with its name, such as `layers/0/w`; a shared one once, by its first name.
    fn parameters(&self) -> Vec<(String, Variable)> {
        let mut parameters = Vec::new();
        for_each_parameter(self, |name, parameter| {
            parameters.push((name.to_owned(), parameter.clone()));
        });
        parameters
    }

    /// Every constant Variable with its name: the state of a model that is not optimized.
    ///
    /// ```
    /// use bibun::links::Chain;
    /// use bibun::Variable;
    /// #[derive(Chain)]
    /// struct Scale {
    ///     factor: Variable,
    ///     mean: Variable,
    /// }
    /// let scale = Scale { factor: Variable::new(2.0), mean: Variable::constant(0.5) };
    /// assert_eq!(scale.parameters()[0].0, "factor");
    /// assert_eq!(scale.buffers()[0].0, "mean");
    /// ```
    fn buffers(&self) -> Vec<(String, Variable)> {
        let mut buffers = Vec::new();
        self.visit(&mut Visitor::new(&mut |name, x, _| {
            if x.is_plain_constant() {
                buffers.push((name.to_owned(), x.clone()));
            }
        }));
        buffers
    }

    /// Forgets the gradients of all parameters, before a backward walk that shall not add to them.
    fn clear_grads(&self) {
        for_each_parameter(self, |_, parameter| parameter.clear_grad());
    }

    /// The number of elements of all parameters together.
    fn parameter_count(&self) -> usize {
        let mut count = 0;
        for_each_parameter(self, |_, parameter| count += parameter.size());
        count
    }

    /// Puts the gradients that [`value_and_grad`](crate::value_and_grad) gave in place of the
    /// accumulated ones, for an optimizer to use.
    ///
    /// ```
    /// use bibun::links::Chain;
    /// use bibun::optimizers::{Optimizer, Sgd};
    /// use bibun::{value_and_grad, Variable};
    /// #[derive(Chain)]
    /// struct Line {
    ///     slope: Variable,
    /// }
    /// let model = Line { slope: Variable::new(1.0) };
    /// let (loss, gradients) = value_and_grad(|model| (&model.slope - 3.0).square(), &model);
    /// model.set_gradients(&gradients);
    /// Sgd::new(0.5).update(&model);
    /// assert_eq!((loss.item::<f64>(), model.slope.item::<f64>()), (4.0, 3.0));
    /// ```
    ///
    /// # Panics
    /// If a parameter is no leaf, or its gradient is missing or looks different.
    #[track_caller]
    fn set_gradients(&self, gradients: &Self)
    where
        Self: Sized,
    {
        let leaves = Leaves::of(self);
        let gradients = leaves.matching("set_gradients", ["the model", "the gradient"], gradients);
        for (parameter, gradient) in leaves.variables.iter().zip(&gradients) {
            parameter.set_grad(gradient);
        }
    }
}

impl<T: Tree> Chain for T {}

/// Calls `f` with every parameter and its name, with a shared one once.
pub(crate) fn for_each_parameter<C: Chain + ?Sized>(chain: &C, mut f: impl FnMut(&str, &Variable)) {
    let mut seen = FxHashSet::default();
    chain.visit(&mut Visitor::new(&mut |name, x, _| {
        if !x.is_plain_constant() && seen.insert(x.identity()) {
            f(name, x);
        }
    }));
}
