//! The Variable: a value that remembers the Function that made it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, DType, Device, Element, Memory, Shape, cpu};

use crate::error::{Error, Location, caller, raise};
use crate::function::Spec;
use crate::hidden::Hidden;
use crate::hooks::HookHandle;
use crate::leaf::{Leaf, LeafOwner};
use crate::node::{Creator, Cut, Edge, Key};
use crate::scope::Level;

/// A value that remembers the Function that made it.
///
/// [`Variable::new`] makes a leaf, in which gradients accumulate; the results of functions of
/// leaves know their [`creator`](Variable::creator); [`Variable::constant`] (and every number or
/// array that is mixed in) takes part without gradients. Cloning is cheap, and all clones are the
/// same Variable.
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
    /// A value that stays as it is, with the way back to where it came from.
    Fixed { value: Arc<Value>, edge: Edge },
    /// A leaf, whose value can be replaced.
    Leaf(Arc<LeafOwner>),
}

/// What a Variable stands for: elements, or what a transformation makes of them.
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

    /// The elements, unless a transformation hides them.
    pub(crate) fn array(&self) -> Option<&Array> {
        match self {
            Self::Array(x) => Some(x),
            Self::Hidden(_) => None,
        }
    }

    /// The device that the elements are on, below all that hides them, unless it is every one.
    fn known_device(&self) -> Option<&'static dyn Device> {
        match self {
            Self::Array(x) => x.memory().map(Memory::device),
            Self::Hidden(hidden) => hidden.parts().into_iter().find_map(Variable::known_device),
        }
    }

    /// The elements, for values that are known to have them.
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

    /// What the transformation at this level makes of the elements, if it hides them.
    pub(crate) fn hidden_at<H: Hidden>(&self, level: Level) -> Option<&H> {
        let hidden = self.hidden()?;
        let any: &dyn Any = &**hidden;
        any.downcast_ref().filter(|_| hidden.level() == level)
    }

    /// The level of the transformation that hides the elements, 0 for none.
    pub(crate) fn level(&self) -> Level {
        match self {
            Self::Array(_) => 0,
            Self::Hidden(hidden) => hidden.level(),
        }
    }
}

impl Variable {
    /// A leaf: gradients accumulate in it. An integer or bool array has none and gives a constant.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.shape(), [2, 2]);
    /// assert!(x.requires_grad());
    /// ```
    pub fn new(value: impl Into<Array>) -> Self {
        let value = value.into();
        if !value.dtype().is_float() {
            return Self::constant(value);
        }
        Self(Kind::Leaf(LeafOwner::new(Value::Array(value))))
    }

    /// A value without gradient: data, targets, masks.
    ///
    /// ```
    /// use bibun::Variable;
    /// let t = Variable::constant([0i64, 2, 1]);
    /// assert!(!t.requires_grad());
    /// ```
    pub fn constant(value: impl Into<Array>) -> Self {
        Self::from_value(Value::Array(value.into()))
    }

    /// A constant of zeros.
    pub(crate) fn zeros(spec: &Spec) -> Self {
        Self::constant(Array::zeros(&spec.shape, spec.dtype))
    }

    pub(crate) fn from_value(value: Value) -> Self {
        Self::fixed(Arc::new(value), Edge::None)
    }

    pub(crate) fn fixed(value: Arc<Value>, edge: Edge) -> Self {
        Self(Kind::Fixed { value, edge })
    }

    /// A leaf that history leads to.
    pub(crate) fn of_leaf(leaf: &Arc<Leaf>) -> Self {
        Self(Kind::Leaf(LeafOwner::of(leaf)))
    }

    // ----- the value

    /// The elements. What is computed from them is not part of this Variable's history: inside of a
    /// function under `grad` it is a constant.
    ///
    /// # Panics
    /// Inside `vmap` and `jvp`, for a Variable whose elements they hide.
    #[track_caller]
    pub fn array(&self) -> Array {
        self.elements("array")
    }

    /// The elements, for a function of this name.
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

    /// The elements as a vector in row-major order.
    ///
    /// # Panics
    /// If the dtype is not `T`, or the elements are hidden (see [`Variable::array`]).
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.elements("to_vec").to_vec()
    }

    /// The only element, converted to `T`.
    ///
    /// # Panics
    /// If there is not just one element, or it is hidden (see [`Variable::array`]).
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        self.elements("item").item()
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.spec().shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.look(|value| match value {
            Value::Array(x) => x.shape().rank(),
            Value::Hidden(hidden) => hidden.spec().shape.rank(),
        })
    }

    /// The number of elements.
    pub fn size(&self) -> usize {
        self.look(|value| match value {
            Value::Array(x) => x.shape().size(),
            Value::Hidden(hidden) => hidden.spec().shape.size(),
        })
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.look(Value::dtype)
    }

    /// The device that the elements are on; of a single repeated value, which is on all of them, the
    /// CPU. [`Variable::to`] moves them.
    pub fn device(&self) -> &'static dyn Device {
        self.known_device().unwrap_or(cpu())
    }

    /// The device that the elements are on, unless it is every one.
    pub(crate) fn known_device(&self) -> Option<&'static dyn Device> {
        self.look(Value::known_device)
    }

    /// Whether shape and dtype are these.
    pub(crate) fn has_spec(&self, spec: &Spec) -> bool {
        self.look(|value| match value {
            Value::Array(x) => *x.shape() == spec.shape && x.dtype() == spec.dtype,
            Value::Hidden(hidden) => hidden.spec() == *spec,
        })
    }

    /// Whether shape and dtype are those of another.
    pub(crate) fn has_same_spec(&self, other: &Self) -> bool {
        self.look(|a| match a {
            Value::Array(a) => other.look(|b| match b {
                Value::Array(b) => a.shape() == b.shape() && a.dtype() == b.dtype(),
                Value::Hidden(b) => b.spec() == Spec::new(a.shape(), a.dtype()),
            }),
            Value::Hidden(a) => other.has_spec(&a.spec()),
        })
    }

    /// Whether both have the same elements, and nothing hides them.
    pub(crate) fn has_same_elements(&self, other: &Self) -> bool {
        let elements = |x: &Self| Some(x.plain_array()?.cast(DType::F64).to_vec::<f64>());
        self.has_same_spec(other) && elements(self).is_some_and(|a| elements(other) == Some(a))
    }

    /// The elements, unless a transformation hides them.
    pub(crate) fn plain_array(&self) -> Option<Array> {
        self.look(|value| value.array().cloned())
    }

    /// The level of the transformation that hides the elements, 0 for none.
    pub(crate) fn level(&self) -> Level {
        self.look(Value::level)
    }

    /// The shape and the dtype.
    pub fn spec(&self) -> Spec {
        self.look(Value::spec)
    }

    /// Replaces the value of a leaf; what was computed from the old one stays as it is.
    ///
    /// # Panics
    /// If this is not a leaf, or shape or dtype change.
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
        leaf.set_value(Arc::new(Value::Array(value)));
    }

    /// Replaces the value of a leaf by a function of it. The leaf keeps its old value until `f` has
    /// returned, so that `f` may read it, and so that a panic changes nothing.
    ///
    /// Where another thread has changed the leaf in the meantime, `f` is called again with what is
    /// there now: updates from many threads all take effect, one after the other. So `f` should do
    /// nothing but compute the new value.
    ///
    /// # Panics
    /// If this is not a leaf, shape or dtype change, or `f` itself writes this leaf.
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
            if leaf.replace_value(&old, Arc::new(Value::Array(new))) {
                return;
            }
        }
    }

    /// Changes the value of a leaf in its own memory, if no history holds it, by a function that must
    /// not read the leaf and keeps the shape.
    #[track_caller]
    pub(crate) fn update_in_place(&self, f: impl FnOnce(&mut Array)) {
        let leaf = self.leaf("update");
        leaf.expect_no_update("update");
        leaf.change(f);
    }

    /// The leaf that a function is about to change.
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

    /// A function of the value, which it only looks at.
    // PERF: counting one more owner and one less costs as much as a scalar function.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&Value) -> T) -> T {
        match &self.0 {
            Kind::Fixed { value, .. } => f(value),
            Kind::Leaf(owner) => f(&owner.value()),
        }
    }

    /// Takes the way back out; the value stays, as a constant.
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

    /// Whether it is nothing but elements: no leaf, without history, not hidden.
    pub(crate) fn is_bare(&self) -> bool {
        match &self.0 {
            Kind::Fixed { value, edge } => {
                matches!((&**value, edge), (Value::Array(_), Edge::None))
            }
            Kind::Leaf(_) => false,
        }
    }

    /// The value of a Variable whose way back was taken out.
    pub(crate) fn into_value(self) -> Arc<Value> {
        match self.0 {
            Kind::Fixed { value, .. } => value,
            Kind::Leaf(owner) => owner.value(),
        }
    }

    /// The way back.
    pub(crate) fn edge(&self) -> Edge {
        match &self.0 {
            Kind::Leaf(owner) if owner.leaf().is_frozen() => Edge::Cut(Cut::Frozen),
            _ => self.home(),
        }
    }

    /// Where name, gradient and hooks are kept: the way back, or what it would be if this were not
    /// frozen.
    fn home(&self) -> Edge {
        match &self.0 {
            Kind::Fixed { edge, .. } => edge.clone(),
            Kind::Leaf(owner) => Edge::Leaf(Arc::clone(owner.leaf())),
        }
    }

    // ----- history

    /// The function call that made this Variable; `None` for leaves and constants.
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

    /// How many functions lie between the leaves and this Variable, on the longest way.
    pub fn generation(&self) -> u64 {
        self.edge().generation()
    }

    /// Whether gradients reach this Variable: it is a leaf that is not frozen, or was computed from
    /// one.
    pub fn requires_grad(&self) -> bool {
        self.has_history()
    }

    /// Freezes a leaf (`false`) or thaws it (`true`), for all clones and threads. To freeze whole
    /// models there is [`Chain::freeze`](crate::links::Chain::freeze).
    ///
    /// A frozen leaf is still a parameter, with a name and a value that can be replaced, but it
    /// takes no gradient: it is a constant of whatever is computed from it while it is frozen, and
    /// transformations and optimizers leave it out. A gradient that has accumulated stays until it is
    /// cleared. From what was computed before it was frozen no gradient reaches it either, as long
    /// as it is frozen (as in PyTorch); to what was computed while it was frozen no gradient ever
    /// goes back.
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
    /// If this is no leaf and [`requires_grad`](Variable::requires_grad) is not so already: what was
    /// computed has the gradients that its inputs have ([`Variable::detach`] gives a constant), and a
    /// constant is not made a leaf ([`Variable::new`] makes one).
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

    /// Whether this is a frozen parameter, or stands in the place of one: inside of a
    /// transformation, or in a gradient, which has no value there.
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

    /// What is said to whoever asks for the gradient of a frozen parameter.
    pub(crate) const ABSENT: &str = "this is the place of a frozen parameter in a gradient, and there is no gradient of it \
         (is_frozen tells these places; unfreeze the parameter, or hand it to grad detached)";

    /// What a gradient has in the place of this, which is frozen: nothing, of the same shape and
    /// dtype.
    pub(crate) fn absent(&self) -> Self {
        let Spec { shape, dtype } = self.spec();
        let nothing = Array::zeros((), dtype).broadcast_to(shape);
        Self::fixed(Arc::new(Value::Array(nothing)), Edge::Cut(Cut::Absent))
    }

    /// Whether this is the place of a frozen parameter in a gradient.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(
            &self.0,
            Kind::Fixed {
                edge: Edge::Cut(Cut::Absent),
                ..
            }
        )
    }

    /// Whether this is a leaf: made by [`Variable::new`].
    pub fn is_leaf(&self) -> bool {
        matches!(self.home(), Edge::Leaf(_))
    }

    /// What tells this Variable from others as long as it lives; `None` for constants.
    pub(crate) fn key(&self) -> Option<Key> {
        self.home().key()
    }

    /// What tells this Variable from others as long as it lives, constants included.
    pub(crate) fn identity(&self) -> Key {
        let constant = || (Arc::as_ptr(&self.value()).addr(), u32::MAX);
        self.key().unwrap_or_else(constant)
    }

    /// Whether both are the same Variable, not only equal.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// The first element that is not a finite number, by its index in the array that holds it, and
    /// how many there are; under transformations, of all lanes and tangents.
    pub(crate) fn first_non_finite(&self) -> Option<(Vec<usize>, f64, usize)> {
        self.look(|value| match value {
            Value::Array(x) => first_non_finite(x),
            Value::Hidden(hidden) => (hidden.parts().iter()).find_map(|x| x.first_non_finite()),
        })
    }

    /// Whether this is a value and nothing else: no history, and no transformation hides it.
    pub(crate) fn is_plain_constant(&self) -> bool {
        let constant = |edge: &Edge| matches!(edge, Edge::None | Edge::Cut(Cut::Unrecorded(_)));
        matches!(&self.0, Kind::Fixed { value, edge } if constant(edge) && value.level() == 0)
    }

    /// This value as a parameter of a model: not taken for a buffer, and not for another parameter
    /// of the same value.
    pub(crate) fn as_parameter(&self) -> Self {
        match &self.0 {
            Kind::Fixed { value, edge } if !edge.is_some() => {
                let cut = edge.lost_at().map_or(Cut::Parameter, Cut::Lost);
                Self::fixed(Arc::new((**value).clone()), Edge::Cut(cut))
            }
            Kind::Fixed { .. } | Kind::Leaf(_) => self.clone(),
        }
    }

    /// This value as a frozen parameter of a model. What is being differentiated is a parameter as
    /// others are, for its derivative must not be lost.
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

    /// Whether a derivative goes through this, backwards or forwards.
    fn is_differentiated(&self) -> bool {
        self.has_history()
            || self.look(|value| {
                value.hidden().is_some_and(|hidden| {
                    hidden.is_differentiated()
                        || hidden.parts().iter().any(|x| x.is_differentiated())
                })
            })
    }

    /// [`Variable::requires_grad`], without counting owners.
    pub(crate) fn has_history(&self) -> bool {
        match &self.0 {
            Kind::Fixed { edge, .. } => edge.is_some(),
            Kind::Leaf(owner) => !owner.leaf().is_frozen(),
        }
    }

    /// The same value without history, as the result of a transformation that took the value of a
    /// leaf: a later derivative by that leaf must not overlook it.
    #[must_use]
    pub(crate) fn lost_at(self, location: Location) -> Self {
        match self.0 {
            Kind::Fixed { value, .. } if value.dtype().is_float() => {
                Self::fixed(value, Edge::Cut(Cut::Lost(location)))
            }
            other => Self(other),
        }
    }

    /// The same value without history at its own level.
    #[must_use]
    pub(crate) fn without_history(mut self) -> Self {
        self.take_edge();
        self
    }

    /// The same value, cut off from history (inside transformations too: its derivative is zero).
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

    /// Gives a leaf, or the result of a function, a name for errors and pictures.
    ///
    /// # Panics
    /// For a constant, which has nothing to remember a name.
    #[track_caller]
    pub fn set_name(&self, name: impl Into<String>) {
        if let Err(nameless) = self.home().set_name(name.into()) {
            raise(Error::argument("set_name", nameless));
        }
    }

    /// The same Variable with a name.
    ///
    /// # Panics
    /// For a constant.
    #[must_use]
    #[track_caller]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.set_name(name);
        self
    }

    /// The name, if one was given.
    pub fn name(&self) -> Option<String> {
        self.home().name()
    }

    // ----- gradients

    /// The gradient that [`Variable::backward`] left here; `None` if none has arrived.
    pub fn grad(&self) -> Option<Self> {
        self.home().gradient()
    }

    /// Forgets the gradient, so that the next one does not add to it.
    pub fn clear_grad(&self) {
        self.home().set_gradient(None);
    }

    /// Puts a gradient in place of the accumulated one.
    ///
    /// # Panics
    /// If this is neither a leaf nor retains its gradient, or shape or dtype differ.
    #[track_caller]
    pub fn set_grad(&self, gradient: &Self) {
        let (own, other) = (self.spec(), gradient.spec());
        if own != other {
            let what = format!("the Variable is {own}, the gradient {other}");
            raise(Error::argument("set_grad", what));
        }
        if !self.home().set_gradient(Some(gradient.clone())) {
            raise(Error::argument(
                "set_grad",
                "not a leaf, and retain_grad was not called (a computed model gets leaves by \
                 tree_map(|w| Variable::new(w.array()), &model))",
            ));
        }
    }

    /// Lets `hook` see the gradient of this Variable in every backward walk that brings one: the
    /// whole gradient, before it goes on to what this was computed from or accumulates in a leaf.
    /// What the hook gives, if anything, takes its place.
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
    /// For a constant, which has no gradient; the walk, if the hook gives a gradient of another
    /// shape or dtype.
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

    /// Saved the gradient of the result of a function too, when one passes.
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
    if !x.dtype().is_float() {
        return None;
    }
    let elements = x.cast(DType::F64).to_vec::<f64>();
    let count = elements
        .iter()
        .filter(|element| !element.is_finite())
        .count();
    let first = elements.iter().position(|element| !element.is_finite())?;
    let mut rest = first;
    let mut index = vec![0; x.rank()];
    for (i, &size) in index.iter_mut().zip(x.shape().iter()).rev() {
        (*i, rest) = (rest % size, rest / size);
    }
    Some((index, elements[first], count))
}

/// A leaf keeps its shape and dtype.
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

/// Writes the elements, as [`Array`] does; where a transformation hides them, the transformation and
/// what they look like.
///
/// ```
/// use bibun::{vmap, Variable};
/// assert_eq!(Variable::new([1.0, 2.5]).to_string(), "[1. , 2.5]");
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
    /// A constant, as [`Variable::constant`].
    fn from(value: T) -> Self {
        Self::constant(value)
    }
}

impl From<&Variable> for Variable {
    fn from(x: &Variable) -> Self {
        x.clone()
    }
}
