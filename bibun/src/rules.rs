//! Rules that replace those of functions within a scope.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{
    AnyFunction, Arity, Function, Mismatch, Needs, Saved, Spec, Variadic, items,
};
use crate::scope;
use crate::surroundings::Aside;
use crate::variable::Variable;

type Reverse = dyn Fn(&Context<'_>, &[Variable]) -> Vec<Option<Variable>> + Send + Sync;
type Forward = dyn Fn(&Context<'_>, &[Option<Variable>]) -> Vec<Option<Variable>> + Send + Sync;
type PerExample =
    dyn Fn(&Context<'_>, &[ExampleCotangent]) -> Vec<Option<ExampleGradient>> + Send + Sync;
type Batch = dyn Fn(&[Batched]) -> Vec<Batched> + Send + Sync;

/// Rules that replace those of functions: a registry by the functions' names, in force within a
/// [scope](Rules::scope).
///
/// The rule is chosen when a function is called and stays with that call: gradients computed after
/// the scope has ended still use it, and calls made before it do not. The rules of an inner scope
/// take precedence over those of an outer one.
///
/// A rule reads the inputs and outputs of the call from the [`Context`], and calls the function's own
/// rule by [`Context::original_vjp`].
///
/// ```
/// use bibun::{Rules, Variable};
/// // Guided backpropagation (Springenberg et al. 2015, arXiv:1412.6806): through a rectifier go
/// // only gradients that are positive, where the input was.
/// let guided = Rules::new().vjp("relu", |cx, gy| {
///     let passed = cx.original_vjp(gy);
///     passed.into_iter().map(|gx| gx.map(|gx| gx.relu())).collect()
/// });
/// let x = Variable::new([1.0, -2.0, 3.0]);
/// let y = guided.scope(|| x.relu()) * Variable::constant([-1.0, 1.0, 5.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 0.0, 5.0]);
/// assert!(guided.unused().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Rules(BTreeMap<String, Arc<Replacement>>);

/// The rules that replace those of one function.
#[derive(Default)]
struct Replacement {
    vjp: Option<Arc<Reverse>>,
    jvp: Option<Arc<Forward>>,
    batch: Option<Arc<Batch>>,
    per_example: Option<Arc<PerExample>>,
    used: AtomicBool,
}

/// A function as a type, for [`Rules::set`]. Every elementwise function has one, such as
/// [`functions::Relu`](crate::functions::Relu), and a custom function can have one.
pub trait Replaceable {
    /// The number of inputs.
    type Inputs: Arity;
    /// The number of outputs.
    type Outputs: Arity;
    /// The function's name.
    const NAME: &'static str;
}

impl Rules {
    /// Creates an empty set of rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the `vjp` rule of the function with this name. The rule computes the cotangents of
    /// the inputs from those of the outputs. `None` means that there is none.
    ///
    /// ```
    /// use bibun::{Rules, Variable};
    /// // Rounding, with its gradient passed straight through.
    /// let rules = Rules::new().vjp("round", |_, gy| vec![Some(gy[0].clone())]);
    /// let x = Variable::new(1.7);
    /// rules.scope(|| x.round() * 3.0).backward();
    /// assert_eq!(x.grad().unwrap().item::<f64>(), 3.0);
    /// ```
    #[must_use]
    pub fn vjp(
        self,
        function: impl Into<String>,
        rule: impl Fn(&Context<'_>, &[Variable]) -> Vec<Option<Variable>> + Send + Sync + 'static,
    ) -> Self {
        self.replace(function.into(), |replacement| {
            replacement.vjp = Some(Arc::new(rule))
        })
    }

    /// Replaces the `jvp` rule of the function with this name. The rule computes the tangents of the
    /// outputs from those of the inputs. `None` stands for zero.
    #[must_use]
    pub fn jvp(
        self,
        function: impl Into<String>,
        rule: impl Fn(&Context<'_>, &[Option<Variable>]) -> Vec<Option<Variable>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.replace(function.into(), |replacement| {
            replacement.jvp = Some(Arc::new(rule))
        })
    }

    /// Replaces the `batch` rule of the function with this name. The rule computes the outputs of all
    /// batch elements at once.
    #[must_use]
    pub fn batch(
        self,
        function: impl Into<String>,
        rule: impl Fn(&[Batched]) -> Vec<Batched> + Send + Sync + 'static,
    ) -> Self {
        self.replace(function.into(), |replacement| {
            replacement.batch = Some(Arc::new(rule))
        })
    }

    /// Replaces the `per_example` rule of the function with this name. See
    /// [`Function::per_example`](crate::Function::per_example).
    ///
    /// If the `vjp` of a function is replaced and its `per_example` rule is not, the gradients of the
    /// examples are computed by the new `vjp` under `vmap`.
    ///
    /// ```
    /// use bibun::{per_example, ExampleCotangent, Rules, ExampleGradient, Variable};
    /// // The gradients of each example, cut off at 1 on their way through `tanh`.
    /// let cut = Rules::new().per_example("tanh", |cx, gy| {
    ///     let ExampleCotangent { cotangent, examples } = gy[0].clone();
    ///     let gradients = cx.original_vjp(&[cotangent]).into_iter();
    ///     gradients.map(|gx| Some(ExampleGradient::sliced(gx?.clip(-1.0, 1.0), examples.clone()))).collect()
    /// });
    /// let w = Variable::new(0.0);
    /// let x = Variable::constant([2.0, 2.0]);
    /// let losses = cut.scope(|| (&x * &w).tanh()) * Variable::constant([0.5, 3.0]);
    /// assert_eq!(per_example(&losses, &w).rows().to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    #[must_use]
    pub fn per_example(
        self,
        function: impl Into<String>,
        rule: impl Fn(&Context<'_>, &[ExampleCotangent]) -> Vec<Option<ExampleGradient>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.replace(function.into(), |replacement| {
            replacement.per_example = Some(Arc::new(rule))
        })
    }

    /// Replaces the `vjp` rule of a function given as a type, so that the name and the number of
    /// inputs and outputs cannot be mistaken.
    ///
    /// ```
    /// use bibun::functions::Relu;
    /// use bibun::{Rules, Variable};
    /// let rules = Rules::new().set::<Relu>(|_, [gy]| [Some(gy.clone())]);
    /// let x = Variable::new(-1.0);
    /// rules.scope(|| x.relu()).backward();
    /// assert_eq!(x.grad().unwrap().item::<f64>(), 1.0);
    /// ```
    #[must_use]
    pub fn set<F: Replaceable>(
        self,
        rule: impl Fn(&Context<'_>, Of<F::Outputs, Variable>) -> Of<F::Inputs, Option<Variable>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.vjp(F::NAME, move |cx, gy| {
            let gy = F::Outputs::collect(gy.iter().cloned());
            rule(cx, gy).into_iter().collect()
        })
    }

    fn replace(mut self, function: String, put: impl FnOnce(&mut Replacement)) -> Self {
        let known = self.0.remove(&function);
        let mut replacement = known.map_or_else(Replacement::default, |known| Replacement {
            vjp: known.vjp.clone(),
            jvp: known.jvp.clone(),
            batch: known.batch.clone(),
            per_example: known.per_example.clone(),
            used: AtomicBool::new(false),
        });
        put(&mut replacement);
        self.0.insert(function, Arc::new(replacement));
        self
    }

    /// Runs `f` with these rules in force on this thread. They end when `f` returns or panics.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        let mut all = Self::in_force();
        all.0.extend(
            self.0
                .iter()
                .map(|(name, rule)| (name.clone(), Arc::clone(rule))),
        );
        with_in_force(all, || scope::attended(f))
    }

    /// Returns the rules of all scopes around.
    pub(crate) fn in_force() -> Self {
        match ARE_ANY.get() {
            true => IN_FORCE.with_borrow(Clone::clone),
            false => Self::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of which no function was called in a scope of these rules. They may be
    /// misspelt.
    pub fn unused(&self) -> Vec<&str> {
        let unused = self
            .0
            .iter()
            .filter(|(_, rule)| !rule.used.load(Ordering::Relaxed));
        unused.map(|(name, _)| name.as_str()).collect()
    }
}

/// A list with one `T` for each input or output.
type Of<A, T> = <A as Arity>::Of<T>;

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.0.iter().map(|(name, rule)| {
            let kinds = [
                ("vjp", rule.vjp.is_some()),
                ("jvp", rule.jvp.is_some()),
                ("batch", rule.batch.is_some()),
                ("per_example", rule.per_example.is_some()),
            ];
            let kinds = kinds
                .into_iter()
                .filter_map(|(kind, is)| is.then_some(kind));
            (name, kinds.collect::<Vec<_>>())
        });
        f.debug_map().entries(rules).finish()
    }
}

thread_local! {
    static IN_FORCE: RefCell<Rules> = const { RefCell::new(Rules(BTreeMap::new())) };
    static ARE_ANY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with these rules and no others.
pub(crate) fn with_in_force<T>(rules: Rules, f: impl FnOnce() -> T) -> T {
    struct Restore(Rules, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_FORCE.replace(std::mem::take(&mut self.0));
            ARE_ANY.set(self.1);
        }
    }
    let are_any = ARE_ANY.replace(!rules.is_empty());
    let _restore = Restore(IN_FORCE.replace(rules), are_any);
    f()
}

pub(crate) fn put_aside() -> impl Sized {
    (
        Aside::of(&IN_FORCE, Rules::new()),
        Aside::of(&ARE_ANY, false),
    )
}

/// Returns the function with the rules in force, if there are any for it.
pub(crate) fn replaced<F: Function>(function: &F) -> Option<Replaced> {
    if TypeId::of::<F>() == TypeId::of::<Replaced>() {
        return None;
    }
    let rules = in_force(function.name())?;
    Some(Replaced {
        function: Arc::new(function.clone()),
        rules,
    })
}

fn in_force(function: &str) -> Option<Arc<Replacement>> {
    if !ARE_ANY.get() {
        return None;
    }
    let rules = IN_FORCE.with_borrow(|rules| rules.0.get(function).cloned())?;
    rules.used.store(true, Ordering::Relaxed);
    Some(rules)
}

/// A function some of whose rules have been replaced.
#[derive(Clone)]
pub(crate) struct Replaced {
    function: Arc<dyn AnyFunction>,
    rules: Arc<Replacement>,
}

impl Function for Replaced {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        match self.rules.vjp.is_some() || self.rules.per_example.is_some() {
            true => Saved::ALL,
            false => self.function.saves(needs),
        }
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        Ok(self.function.shape(&inputs)?.into_vec())
    }

    fn takes_complex(&self) -> bool {
        self.function.takes_complex()
    }

    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        self.function.forward(inputs.into()).into_vec()
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        match &self.rules.vjp {
            Some(rule) => rule(cx, &gy),
            None => vjp_of(&*self.function, cx, &gy),
        }
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        match &self.rules.jvp {
            Some(rule) => rule(cx, &dx),
            None => self.function.jvp(cx, items(dx)).into_vec(),
        }
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        match &self.rules.batch {
            Some(rule) => rule(&inputs),
            None => self.function.batch(items(inputs)).into_vec(),
        }
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        match (&self.rules.per_example, &self.rules.vjp) {
            (Some(rule), _) => rule(cx, &gy),
            (None, Some(_)) => vec![Some(ExampleGradient::Unknown); cx.input_count()],
            (None, None) => self.function.per_example(cx, items(gy)).into_vec(),
        }
    }
}

/// Computes the cotangents by the function's own rule. Returns `None` if no rule has replaced it.
pub(crate) fn original_vjp(
    function: &dyn AnyFunction,
    cx: &Context<'_>,
    gy: &[Variable],
) -> Option<Vec<Option<Variable>>> {
    let function: &dyn Any = function;
    let replaced = function.downcast_ref::<Replaced>()?;
    Some(vjp_of(&*replaced.function, cx, gy))
}

fn vjp_of(function: &dyn AnyFunction, cx: &Context<'_>, gy: &[Variable]) -> Vec<Option<Variable>> {
    let mut gy: Vec<Option<Variable>> = gy.iter().cloned().map(Some).collect();
    function.vjp(cx, &mut gy).into_vec()
}

impl fmt::Debug for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (replaced)", self.function)
    }
}
