//! The Variable: a value that remembers the Function that made it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bibun_array::{
    Array, Complex, DType, Device, Element, Memory, Shape, cpu, is_traced, is_traced_input,
};

use crate::error::{Error, Location, caller, raise, refuse};
use crate::function::Spec;
use crate::hidden::Hidden;
use crate::hooks::HookHandle;
use crate::leaf::{Leaf, LeafOwner};
use crate::node::{Creator, Cut, Edge, Key};
use crate::scope::{self, Level};

/// A value that remembers the Function that made it.
///
/// [`Variable::new`] creates a leaf, in which gradients accumulate. The result of a function of
/// leaves knows its [`creator`](Variable::creator). [`Variable::constant`] creates a value without a
/// gradient, as does every number or array that is used in an expression. Cloning is cheap, and all
/// clones are the same Variable.
///
/// ```
/// use bibun::Variable;
/// let x = Variable::new(2.0);
/// let y = &x * &x + 3.0 * &x;
/// y.backward();
/// assert_eq!(x.grad().unwrap().item::<f64>(), 7.0);
/// ```
#[derive(Clone)]
pub struct Variable(Kind);

#[derive(Clone)]
enum Kind {
    /// A value that never changes, with the edge back to the call that made it.
    Fixed { value: Arc<Value>, edge: Edge },
    /// A leaf, whose value can be replaced.
    Leaf(Arc<LeafOwner>),
}

/// The value of a Variable: elements, or the value that a transformation has put in their place.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Array(Array),
    Hidden(Arc<dyn Hidden>),
}

impl Value {
    pub(crate) fn hiding(hidden: impl Hidden) -> Self {
        Self::Hidden(Arc::new(hidden))
    }

    pub(crate) fn spec(&self) -> Spec {
        match self {
            Self::Array(x) => Spec {
                shape: x.shape().clone(),
                dtype: x.dtype(),
            },
            Self::Hidden(hidden) => hidden.spec(),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Array(x) => x.dtype(),
            Self::Hidden(hidden) => hidden.dtype(),
        }
    }

    /// Returns the elements, unless a transformation hides them.
    pub(crate) fn array(&self) -> Option<&Array> {
        match self {
            Self::Array(x) => Some(x),
            Self::Hidden(_) => None,
        }
    }

    /// Returns the device of the elements below all hidden values, or `None` for a repeated value,
    /// which is on every device.
    fn known_device(&self) -> Option<&'static dyn Device> {
        match self {
            Self::Array(x) => x.memory().map(Memory::device),
            Self::Hidden(hidden) => hidden.parts().into_iter().find_map(Variable::known_device),
        }
    }

    /// Returns the elements of a value that is known to be an array.
    pub(crate) fn to_array(&self) -> Array {
        match self {
            Self::Array(x) => x.clone(),
            Self::Hidden(hidden) => unreachable!("the elements of {hidden:?} are hidden"),
        }
    }

    pub(crate) fn hidden(&self) -> Option<&Arc<dyn Hidden>> {
        match self {
            Self::Array(_) => None,
            Self::Hidden(hidden) => Some(hidden),
        }
    }

    /// Returns the hidden value of the transformation at `level`, if that is what hides the elements.
    pub(crate) fn hidden_at<H: Hidden>(&self, level: Level) -> Option<&H> {
        let hidden = self.hidden()?;
        let any: &dyn Any = &**hidden;
        any.downcast_ref().filter(|_| hidden.level() == level)
    }

    /// Returns the level of the transformation that hides the elements, or 0 for none.
    pub(crate) fn level(&self) -> Level {
        match self {
            Self::Array(_) => 0,
            Self::Hidden(hidden) => hidden.level(),
        }
    }
}

impl Variable {
    /// Creates a leaf, in which gradients accumulate. Integer and bool arrays have no gradient and
    /// become constants.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.shape(), [2, 2]);
    /// assert!(x.requires_grad());
    /// ```
    pub fn new(value: impl Into<Array>) -> Self {
        let value = value.into();
        if !value.dtype().is_differentiable() {
            return Self::constant(value);
        }
        Self(Kind::Leaf(LeafOwner::new(Value::Array(value))))
    }

    /// Creates a value without a gradient, such as data, targets or masks.
    ///
    /// ```
    /// use bibun::Variable;
    /// let t = Variable::constant([0i64, 2, 1]);
    /// assert!(!t.requires_grad());
    /// ```
    pub fn constant(value: impl Into<Array>) -> Self {
        Self::from_value(Value::Array(value.into()))
    }

    /// Creates a constant of zeros.
    pub(crate) fn zeros(spec: &Spec) -> Self {
        Self::constant(Array::zeros(&spec.shape, spec.dtype))
    }

    pub(crate) fn from_value(value: Value) -> Self {
        Self::fixed(Arc::new(value), Edge::None)
    }

    pub(crate) fn fixed(value: Arc<Value>, edge: Edge) -> Self {
        Self(Kind::Fixed { value, edge })
    }

    /// Creates the Variable of a leaf that history leads to.
    pub(crate) fn of_leaf(leaf: &Arc<Leaf>) -> Self {
        Self(Kind::Leaf(LeafOwner::of(leaf)))
    }

    // ----- the value

    /// Returns the elements. Results computed from them are not part of this Variable's history:
    /// inside a function under `grad`, the array is a constant.
    ///
    /// # Panics
    /// Panics inside `vmap` and `jvp` for a Variable whose elements they hide.
    #[track_caller]
    pub fn array(&self) -> Array {
        self.elements("array")
    }

    /// Returns the elements. Errors name `function`.
    #[track_caller]
    fn elements(&self, function: &'static str) -> Array {
        if self.is_absent() {
            raise(Error::argument(function, Self::ABSENT));
        }
        let location = caller();
        match &*self.value() {
            Value::Array(x) => x.clone(),
            Value::Hidden(hidden) => {
                let (transformation, advice) = hidden.hidden_by();
                raise(Error::Hidden {
                    function,
                    transformation,
                    advice,
                    location,
                })
            }
        }
    }

    /// Returns the elements as a vector in row-major order.
    ///
    /// # Panics
    /// Panics if the dtype is not `T`, or if the elements are hidden (see [`Variable::array`]).
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.elements("to_vec").to_vec()
    }

    /// Returns the only element, converted to `T`.
    ///
    /// # Panics
    /// Panics if the number of elements is not one, or if the element is hidden (see
    /// [`Variable::array`]).
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        self.elements("item").item()
    }

    /// Returns the shape.
    pub fn shape(&self) -> Shape {
        self.spec().shape
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.look(|value| match value {
            Value::Array(x) => x.shape().rank(),
            Value::Hidden(hidden) => hidden.spec().shape.rank(),
        })
    }

    /// Returns the number of elements.
    pub fn size(&self) -> usize {
        self.look(|value| match value {
            Value::Array(x) => x.shape().size(),
            Value::Hidden(hidden) => hidden.spec().shape.size(),
        })
    }

    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.look(Value::dtype)
    }

    /// Returns the device that the elements are on. A single repeated value is on every device; for
    /// it, this is the CPU. [`Variable::to`] moves the elements.
    pub fn device(&self) -> &'static dyn Device {
        self.known_device().unwrap_or(cpu())
    }

    /// Returns the device that the elements are on, or `None` for a repeated value, which is on every
    /// device.
    pub(crate) fn known_device(&self) -> Option<&'static dyn Device> {
        self.look(Value::known_device)
    }

    /// Returns whether the shape and dtype are those of `spec`.
    pub(crate) fn has_spec(&self, spec: &Spec) -> bool {
        self.look(|value| match value {
            Value::Array(x) => *x.shape() == spec.shape && x.dtype() == spec.dtype,
            Value::Hidden(hidden) => hidden.spec() == *spec,
        })
    }

    /// Returns whether the shape and dtype are those of `other`.
    pub(crate) fn has_same_spec(&self, other: &Self) -> bool {
        self.look(|a| match a {
            Value::Array(a) => other.look(|b| match b {
                Value::Array(b) => a.shape() == b.shape() && a.dtype() == b.dtype(),
                Value::Hidden(b) => b.spec() == Spec::new(a.shape(), a.dtype()),
            }),
            Value::Hidden(a) => other.has_spec(&a.spec()),
        })
    }

    /// Returns whether both have the same elements, and no transformation hides them.
    pub(crate) fn has_same_elements(&self, other: &Self) -> bool {
        let elements = |x: &Self| Some(x.plain_array()?.cast(DType::F64).to_vec::<f64>());
        self.has_same_spec(other) && elements(self).is_some_and(|a| elements(other) == Some(a))
    }

    /// Returns the elements, unless a transformation hides them.
    pub(crate) fn plain_array(&self) -> Option<Array> {
        self.look(|value| value.array().cloned())
    }

    /// Returns the level of the transformation that hides the elements, or 0 for none.
    pub(crate) fn level(&self) -> Level {
        self.look(Value::level)
    }

    /// Returns the shape and the dtype.
    pub fn spec(&self) -> Spec {
        self.look(Value::spec)
    }

    /// Replaces the value of a leaf. Results computed from the old value do not change.
    ///
    /// # Panics
    /// Panics if this is not a leaf, or if the shape or dtype would change.
    ///
    /// ```
    /// use bibun::{array::Array, Variable};
    /// let w = Variable::new([1.0, 2.0]);
    /// w.set_array(Array::from([5.0, 6.0]));
    /// assert_eq!(w.to_vec::<f64>(), [5.0, 6.0]);
    /// ```
    #[track_caller]
    pub fn set_array(&self, value: Array) {
        let leaf = self.leaf("set_array");
        leaf.expect_no_update("set_array");
        check_replacement("set_array", &leaf.value().spec(), &value);
        scope::expect_to_stay(leaf, "set_array", Some(&value));
        leaf.set_value(Arc::new(Value::Array(value)));
    }

    /// Replaces the value of a leaf by a function of it. The leaf has its old value until `f` has
    /// returned, so that `f` may read it, and a panic changes nothing.
    ///
    /// If another thread has changed the leaf in the meantime, `f` is called again with the new
    /// value. Updates from many threads therefore all take effect, one after the other, and `f`
    /// should do nothing but compute the new value.
    ///
    /// # Panics
    /// Panics if this is not a leaf, if the shape or dtype would change, or if `f` itself writes this
    /// leaf.
    ///
    /// ```
    /// use bibun::Variable;
    /// let w = Variable::new([1.0, 2.0]);
    /// w.update(|old| old - w.array() * 0.5);
    /// assert_eq!(w.to_vec::<f64>(), [0.5, 1.0]);
    /// ```
    #[track_caller]
    pub fn update(&self, mut f: impl FnMut(Array) -> Array) {
        let leaf = self.leaf("update");
        let _updating = leaf.updating("update");
        loop {
            let old = leaf.value();
            let new = f(old.to_array());
            check_replacement("update", &old.spec(), &new);
            scope::expect_to_stay(leaf, "update", Some(&new));
            if leaf.replace_value(&old, Arc::new(Value::Array(new))) {
                return;
            }
        }
    }

    /// Changes the value of a leaf in its own memory, if no history holds it. `f` must not read the
    /// leaf and must not change its shape.
    #[track_caller]
    pub(crate) fn update_in_place(&self, f: impl FnOnce(&mut Array)) {
        let leaf = self.leaf("update");
        leaf.expect_no_update("update");
        leaf.change(f);
    }

    /// Returns the leaf that `function` is about to change.
    #[track_caller]
    fn leaf(&self, function: &'static str) -> &Arc<Leaf> {
        match &self.0 {
            Kind::Leaf(owner) => owner.leaf(),
            Kind::Fixed { .. } => raise(Error::argument(
                function,
                "only a leaf's value can be replaced",
            )),
        }
    }

    #[track_caller]
    pub(crate) fn value(&self) -> Arc<Value> {
        match &self.0 {
            Kind::Fixed { value, .. } => Arc::clone(value),
            Kind::Leaf(owner) => owner.value(),
        }
    }

    /// Applies a function to the value by reference.
    // PERF: one more reference count up and down costs as much as a scalar function.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&Value) -> T) -> T {
        match &self.0 {
            Kind::Fixed { value, .. } => f(value),
            Kind::Leaf(owner) => f(&owner.value()),
        }
    }

    /// Takes out the edge. The value stays, as a constant.
    pub(crate) fn take_edge(&mut self) -> Edge {
        match &mut self.0 {
            Kind::Fixed { edge, .. } => std::mem::take(edge),
            Kind::Leaf(owner) => {
                let leaf = Arc::clone(owner.leaf());
                *self = Self::fixed(owner.value(), Edge::None);
                match leaf.is_frozen() {
                    true => Edge::Cut(Cut::Frozen),
                    false => Edge::Leaf(leaf),
                }
            }
        }
    }

    /// Returns the elements if this is only them: not a leaf, without history, not hidden.
    pub(crate) fn bare(&self) -> Option<&Array> {
        match &self.0 {
            Kind::Fixed { value, edge } => value.array().filter(|_| matches!(edge, Edge::None)),
            Kind::Leaf(_) => None,
        }
    }

    /// Returns the value of a Variable whose edge was taken out.
    pub(crate) fn into_value(self) -> Arc<Value> {
        match self.0 {
            Kind::Fixed { value, .. } => value,
            Kind::Leaf(owner) => owner.value(),
        }
    }

    /// Returns the edge to the call or leaf behind this Variable.
    pub(crate) fn edge(&self) -> Edge {
        match &self.0 {
            Kind::Leaf(owner) if owner.leaf().is_frozen() => Edge::Cut(Cut::Frozen),
            _ => self.home(),
        }
    }

    /// Returns the edge that stores the name, the gradient and the hooks: the edge of this Variable,
    /// or the edge that it would have if it were not frozen.
    pub(crate) fn home(&self) -> Edge {
        match &self.0 {
            Kind::Fixed { edge, .. } => edge.clone(),
            Kind::Leaf(owner) => Edge::Leaf(Arc::clone(owner.leaf())),
        }
    }

    // ----- history

    /// Returns the function call that made this Variable, or `None` for leaves and constants.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new(1.0);
    /// let y = x.tanh();
    /// let creator = y.creator().unwrap();
    /// assert_eq!(creator.name(), "tanh");
    /// assert_eq!(creator.inputs()[0].value().unwrap().item::<f64>(), 1.0);
    /// ```
    pub fn creator(&self) -> Option<Creator> {
        match self.edge() {
            Edge::Output(node, _) => Some(Creator(node)),
            Edge::Leaf(_) | Edge::Cut(_) | Edge::None => None,
        }
    }

    /// Returns the number of functions between the leaves and this Variable, on the longest path.
    pub fn generation(&self) -> u64 {
        self.edge().generation()
    }

    /// Returns whether gradients reach this Variable: whether it is a leaf that is not frozen, or was
    /// computed from one.
    pub fn requires_grad(&self) -> bool {
        self.has_history()
    }

    /// Freezes a leaf (`false`) or unfreezes it (`true`), for all clones and threads.
    /// [`Chain::freeze`](crate::links::Chain::freeze) freezes a whole model.
    ///
    /// A frozen leaf is still a parameter, with a name and a value that can be replaced, but it gets
    /// no gradient. It is a constant in everything computed from it while it is frozen, and
    /// transformations and optimizers leave it out. A gradient that has already accumulated stays
    /// until it is cleared. As long as the leaf is frozen, it gets no gradient from results computed
    /// before it was frozen either (as in PyTorch). Results computed while it was frozen never send a
    /// gradient to it.
    ///
    /// ```
    /// use bibun::Variable;
    /// let (w, b) = (Variable::new(2.0), Variable::new(1.0));
    /// w.set_requires_grad(false);
    /// (&w * 3.0 + &b).backward();
    /// assert!(w.grad().is_none() && b.grad().is_some());
    /// assert!((&w * 3.0).creator().is_none());
    /// w.set_requires_grad(true);
    /// (&w * 3.0).backward();
    /// assert_eq!(w.grad().unwrap().item::<f64>(), 3.0);
    /// ```
    ///
    /// # Panics
    /// Panics if this is not a leaf and [`requires_grad`](Variable::requires_grad) differs from the
    /// argument. The result of a function requires a gradient if its inputs do ([`Variable::detach`]
    /// returns a constant), and a constant cannot become a leaf ([`Variable::new`] creates one).
    #[track_caller]
    pub fn set_requires_grad(&self, requires_grad: bool) {
        match &self.0 {
            Kind::Leaf(owner) => owner.leaf().set_frozen(!requires_grad),
            Kind::Fixed { .. } if self.has_history() == requires_grad => {}
            Kind::Fixed { .. } => {
                let what = match requires_grad {
                    true => "this is no leaf; Variable::new makes one of an array",
                    false => {
                        "this is no leaf (inside of a transformation, nothing is), and its \
                         gradient is that of what it was computed from; detach gives a constant"
                    }
                };
                raise(Error::argument("set_requires_grad", what));
            }
        }
    }

    /// Returns whether this is a frozen parameter or takes the place of one, inside a transformation
    /// or in a gradient. A gradient has no value there.
    ///
    /// ```
    /// use bibun::links::Chain;
    /// use bibun::{grad, Variable};
    /// let model = [Variable::new(2.0), Variable::new(3.0)];
    /// model[0].freeze();
    /// let gradient = grad(|[a, b]| a * b, &model);
    /// assert!(model[0].is_frozen() && gradient[0].is_frozen());
    /// assert_eq!(gradient[1].item::<f64>(), 2.0);
    /// ```
    pub fn is_frozen(&self) -> bool {
        match &self.0 {
            Kind::Leaf(owner) => owner.leaf().is_frozen(),
            Kind::Fixed { edge, .. } => matches!(edge, Edge::Cut(Cut::Frozen | Cut::Absent)),
        }
    }

    /// The message to a caller who asks for the gradient of a frozen parameter.
    pub(crate) const ABSENT: &str = "this is the place of a frozen parameter in a gradient, and there is no gradient of it \
         (is_frozen tells these places; unfreeze the parameter, or hand it to grad detached)";

    /// Returns the entry of a gradient for this frozen parameter: no value, with the same shape and
    /// dtype.
    pub(crate) fn absent(&self) -> Self {
        let Spec { shape, dtype } = self.spec();
        let nothing = Array::zeros((), dtype).broadcast_to(shape);
        Self::fixed(Arc::new(Value::Array(nothing)), Edge::Cut(Cut::Absent))
    }

    /// Returns whether this takes the place of a frozen parameter in a gradient.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(
            &self.0,
            Kind::Fixed {
                edge: Edge::Cut(Cut::Absent),
                ..
            }
        )
    }

    /// Returns whether this is a leaf, made by [`Variable::new`].
    pub fn is_leaf(&self) -> bool {
        matches!(self.home(), Edge::Leaf(_))
    }

    /// Returns a key that is unique to this Variable as long as it lives, or `None` for constants.
    pub(crate) fn key(&self) -> Option<Key> {
        self.home().key()
    }

    /// Returns whether this is the only Variable of its leaf, so that no model has it.
    pub(crate) fn is_held_alone(&self) -> bool {
        matches!(&self.0, Kind::Leaf(owner) if Arc::strong_count(owner) == 1)
    }

    /// Returns a key that is unique to this Variable as long as it lives, constants included.
    pub(crate) fn identity(&self) -> Key {
        let constant = |value: &Value| (std::ptr::from_ref(value).addr(), u32::MAX);
        self.key().unwrap_or_else(|| self.look(constant))
    }

    /// Returns whether both are the same Variable, not only equal.
    ///
    /// # Panics
    /// Panics in a function that [`compile`](crate::compile) traces, if one is of its argument and the other
    /// from outside: in another run, they might be the same.
    #[track_caller]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_input = |x: &Self| x.plain_array().is_some_and(|x| is_traced_input(&x));
        let is_outside = |x: &Self| x.is_leaf() || x.plain_array().is_some_and(|x| !is_traced(&x));
        let is_unknown = |a: &Self, b: &Self| is_input(a) && is_outside(b);
        let is_same = self.is_identical(other);
        if !is_same && (is_unknown(self, other) || is_unknown(other, self)) {
            let what = "one is a part of the argument of a function that `compile` traces, and the other \
                        is not, so that the answer may differ from run to run; hand in both of them";
            refuse(Error::argument("is_same", what));
        }
        is_same
    }

    /// Returns whether both are the same Variable as far as this run knows.
    pub(crate) fn is_identical(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// Returns the index of the first element that is not finite in the array that holds it, its
    /// value, and the number of such elements. Under transformations the array is that of all batch
    /// elements, or that of the primals or tangents.
    pub(crate) fn first_non_finite(&self) -> Option<(Vec<usize>, f64, usize)> {
        self.look(|value| match value {
            Value::Array(x) => first_non_finite(x),
            Value::Hidden(hidden) => (hidden.parts().iter()).find_map(|x| x.first_non_finite()),
        })
    }

    /// Returns whether this is only a value: without history, and hidden by no transformation.
    pub(crate) fn is_plain_constant(&self) -> bool {
        let constant = |edge: &Edge| matches!(edge, Edge::None | Edge::Cut(Cut::Unrecorded(_)));
        matches!(&self.0, Kind::Fixed { value, edge } if constant(edge) && value.level() == 0)
    }

    /// Returns this value as a parameter of a model, so that it is not mistaken for a buffer or for
    /// another parameter with the same value.
    pub(crate) fn as_parameter(&self) -> Self {
        match &self.0 {
            Kind::Fixed { value, edge } if !edge.is_some() => {
                let cut = edge.lost_at().map_or(Cut::Parameter, Cut::Lost);
                Self::fixed(Arc::new((**value).clone()), Edge::Cut(cut))
            }
            Kind::Fixed { .. } | Kind::Leaf(_) => self.clone(),
        }
    }

    /// Returns this value as a frozen parameter of a model. A value that is being differentiated
    /// becomes an ordinary parameter, so that its derivative is not lost.
    pub(crate) fn as_frozen(&self) -> Self {
        match &self.0 {
            Kind::Leaf(owner) if owner.leaf().is_frozen() => self.clone(),
            Kind::Leaf(owner) => {
                let own = LeafOwner::new((*owner.leaf().value()).clone());
                own.leaf().set_frozen(true);
                Self(Kind::Leaf(own))
            }
            Kind::Fixed { .. } if self.is_differentiated() => self.as_parameter(),
            Kind::Fixed { value, .. } => {
                Self::fixed(Arc::new((**value).clone()), Edge::Cut(Cut::Frozen))
            }
        }
    }

    /// Returns whether a derivative goes through this value, backwards or forwards.
    fn is_differentiated(&self) -> bool {
        self.has_history()
            || self.look(|value| {
                value.hidden().is_some_and(|hidden| {
                    hidden.is_differentiated()
                        || hidden.parts().iter().any(|x| x.is_differentiated())
                })
            })
    }

    /// Implements [`Variable::requires_grad`].
    pub(crate) fn has_history(&self) -> bool {
        match &self.0 {
            Kind::Fixed { edge, .. } => edge.is_some(),
            Kind::Leaf(owner) => !owner.leaf().is_frozen(),
        }
    }

    /// Returns the same value without history, as the result of a transformation that took the value
    /// of a leaf. It is marked, so that a later derivative with respect to that leaf cannot overlook
    /// it.
    #[must_use]
    pub(crate) fn lost_at(self, location: Location) -> Self {
        match self.0 {
            Kind::Fixed { value, .. } if value.dtype().is_differentiable() => {
                Self::fixed(value, Edge::Cut(Cut::Lost(location)))
            }
            other => Self(other),
        }
    }

    /// Returns the same value without history at its own level.
    #[must_use]
    pub(crate) fn without_history(mut self) -> Self {
        self.take_edge();
        self
    }

    /// Returns the same value, cut off from its history. Inside transformations its derivative is
    /// zero too.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new(3.0);
    /// assert!(!(&x * 2.0).detach().requires_grad());
    /// ```
    #[must_use]
    pub fn detach(&self) -> Self {
        match &*self.value() {
            _ if self.is_absent() => self.clone(),
            Value::Array(_) => Self::fixed(self.value(), Edge::None),
            Value::Hidden(hidden) => hidden.detach(),
        }
    }

    // ----- names

    /// Names a leaf or the result of a function, for errors and pictures.
    ///
    /// # Panics
    /// Panics for a constant, which cannot store a name.
    #[track_caller]
    pub fn set_name(&self, name: impl Into<String>) {
        if let Err(nameless) = self.home().set_name(name.into()) {
            raise(Error::argument("set_name", nameless));
        }
    }

    /// Returns the same Variable with a name.
    ///
    /// # Panics
    /// Panics for a constant.
    #[must_use]
    #[track_caller]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.set_name(name);
        self
    }

    /// Returns the name, or `None` if there is none.
    pub fn name(&self) -> Option<String> {
        self.home().name()
    }

    // ----- gradients

    /// Returns the gradient that [`Variable::backward`] accumulated here, or `None` if none has
    /// arrived.
    ///
    /// # Panics
    /// Panics in a function that [`compile`](crate::compile) traces, because the gradient would be that of
    /// this moment in every run. (One computed there, by [`grad`](crate::grad) and the like, can be used.)
    #[track_caller]
    pub fn grad(&self) -> Option<Self> {
        scope::expect_known_gradient(self);
        self.home().gradient()
    }

    /// Clears the gradient, so that the next one does not add to it.
    pub fn clear_grad(&self) {
        self.home().set_gradient(None);
    }

    /// Replaces the accumulated gradient.
    ///
    /// # Panics
    /// Panics if this is neither a leaf nor retains its gradient, or if the shape or dtype differs.
    #[track_caller]
    pub fn set_grad(&self, gradient: &Self) {
        let (own, other) = (self.spec(), gradient.spec());
        if own != other {
            let what = format!("the Variable is {own}, the gradient {other}");
            raise(Error::argument("set_grad", what));
        }
        if let Kind::Leaf(owner) = &self.0 {
            scope::expect_to_stay(owner.leaf(), "set_grad", gradient.plain_array().as_ref());
        }
        if !self.home().set_gradient(Some(gradient.clone())) {
            raise(Error::argument(
                "set_grad",
                "not a leaf, and retain_grad was not called (a computed model gets leaves by \
                 tree_map(|w| Variable::new(w.array()), &model))",
            ));
        }
    }

    /// Calls `hook` with the gradient of this Variable in every backward pass that brings one. This
    /// is the whole gradient, before it goes on to the inputs of the function that made this
    /// Variable, or accumulates in a leaf. If the hook returns a gradient, it replaces the original
    /// one.
    ///
    /// The hook of a leaf is called as soon as the last function that used the leaf has given its part,
    /// while the walk goes on: what leaves the process here travels meanwhile.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new(2.0);
    /// let y = &x * &x;
    /// let hook = y.register_hook(|gy| Some(gy.clip(-1.0, 1.0)));
    /// (10.0 * &y).backward();
    /// assert_eq!(x.grad().unwrap().item::<f64>(), 4.0);
    /// hook.remove();
    /// ```
    ///
    /// # Panics
    /// Panics for a constant, which has no gradient. The backward pass panics if the hook returns a
    /// gradient of another shape or dtype.
    #[track_caller]
    pub fn register_hook(
        &self,
        hook: impl Fn(&Self) -> Option<Self> + Send + Sync + 'static,
    ) -> HookHandle {
        let edge = self.home();
        match edge.add_hook(Arc::new(hook)) {
            Some(number) => HookHandle::new(edge, number),
            None => raise(Error::argument(
                "register_hook",
                "a constant has no gradient",
            )),
        }
    }

    /// Saves the gradient of the result of a function, too, when one passes.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new(2.0);
    /// let y = &x * &x;
    /// y.retain_grad();
    /// (3.0 * &y).backward();
    /// assert_eq!(y.grad().unwrap().item::<f64>(), 3.0);
    /// ```
    pub fn retain_grad(&self) {
        self.edge().retain_gradient();
    }
}

fn first_non_finite(x: &Array) -> Option<(Vec<usize>, f64, usize)> {
    if !x.dtype().is_differentiable() {
        return None;
    }
    let elements: Vec<f64> = match x.dtype().is_complex() {
        true => {
            // The sum of both parts is finite if they are.
            let elements = x.cast(DType::C128).to_vec::<Complex<f64>>().into_iter();
            elements.map(|x| x.re / 2.0 + x.im / 2.0).collect()
        }
        false => x.cast(DType::F64).to_vec::<f64>(),
    };
    let count = elements
        .iter()
        .filter(|element| !element.is_finite())
        .count();
    let first = elements.iter().position(|element| !element.is_finite())?;
    Some((x.shape().unravel(first), elements[first], count))
}

/// Checks that a leaf's new value has the same shape and dtype as the old one.
#[track_caller]
fn check_replacement(function: &'static str, leaf: &Spec, value: &Array) {
    let found = Spec::new(value.shape(), value.dtype());
    if found != *leaf {
        let what = format!("the leaf is {leaf}, the value {found}");
        raise(Error::argument(function, what));
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value() {
            _ if self.is_absent() => write!(f, "Variable({}, no gradient", self.spec())?,
            Value::Array(x) => write!(f, "Variable({x:?}")?,
            Value::Hidden(x) => write!(f, "Variable({}, hidden", x.spec())?,
        }
        if let Some(name) = self.name() {
            write!(f, ", name = {name}")?;
        }
        if let Some(creator) = self.creator() {
            write!(f, ", creator = {}", creator.name())?;
        }
        if self.is_frozen() {
            f.write_str(", frozen")?;
        }
        f.write_str(")")
    }
}

/// Writes the elements, as [`Array`] does. If a transformation hides them, writes their shape and
/// dtype, and the transformation.
///
/// ```
/// use bibun::{vmap, Variable};
/// assert_eq!(Variable::new([1.0, 2.5]).to_string(), "[1.  2.5]");
/// vmap(
///     |x| {
///         assert_eq!(x.to_string(), "[3] f64, hidden by vmap");
///         x.clone()
///     },
///     &Variable::new([[1.0, 2.0, 3.0]]),
/// );
/// ```
impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value() {
            Value::Array(x) => fmt::Display::fmt(x, f),
            Value::Hidden(x) => write!(f, "{}, hidden by {}", x.spec(), x.hidden_by().0),
        }
    }
}

impl<T: Into<Array>> From<T> for Variable {
    /// Creates a constant, as [`Variable::constant`] does.
    fn from(value: T) -> Self {
        Self::constant(value)
    }
}

impl From<&Variable> for Variable {
    fn from(x: &Variable) -> Self {
        x.clone()
    }
}
