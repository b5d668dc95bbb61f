//! State of a link that is not optimized but changes as the link is used.

use std::fmt;
use std::sync::{Arc, RwLock};

use bibun_array::{Array, Device, cpu};

use super::{Mapper, Tree, Visitor};
use crate::apply::apply;
use crate::batch::Batched;
use crate::call::calling;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::locks::{read, write};
use crate::surroundings;
use crate::variable::Variable;

/// A constant in a Chain whose elements can be replaced, such as running statistics.
///
/// In a walk over the Chain it is the Variable that it holds, and so a buffer. Clones share what
/// they hold; and so does the copy of a model that a transformation works on, for it does not touch
/// buffers: what changes inside of `grad(|model| ..., &model)` has changed in `model`.
///
/// A change is a function like others, told to [hooks](crate::with_hook). Derivatives do not go through
/// it: under `grad` and `jvp` the value is held by itself. Under `vmap` there are as many values as
/// lanes, and to change a buffer to these is an error.
///
/// ```
/// use bibun::array::Array;
/// use bibun::links::{Buffer, Chain};
/// use bibun::{grad, Variable};
/// #[derive(Chain)]
/// struct Counter {
///     w: Variable,
///     calls: Buffer,
/// }
/// let model = Counter { w: Variable::new(3.0), calls: Buffer::new(0i64) };
/// let square = |model: &Counter| {
///     model.calls.set(model.calls.get() + 1);
///     &model.w * &model.w
/// };
/// assert_eq!(grad(square, &model).w.item::<f64>(), 6.0);
/// assert_eq!(model.calls.get().item::<i64>(), 1);
/// assert_eq!(model.buffers()[0].0, "calls");
/// ```
#[derive(Clone)]
pub struct Buffer {
    held: Arc<RwLock<Variable>>,
    /// Whether it stays on the CPU.
    is_of_host: bool,
}

impl Buffer {
    /// A buffer that holds these elements.
    pub fn new(value: impl Into<Array>) -> Self {
        Self::holding(Variable::constant(value), false)
    }

    /// A buffer that stays on the CPU when its model is [moved](crate::links::Chain::to): for what the
    /// program itself reads, such as where a stream of random numbers stands.
    pub fn of_host(value: impl Into<Array>) -> Self {
        Self::holding(Variable::constant(value), true)
    }

    fn holding(x: Variable, is_of_host: bool) -> Self {
        let held = Arc::new(RwLock::new(x));
        Self { held, is_of_host }
    }

    /// The device that it is on where its model is on this one.
    pub(crate) fn place(&self, device: &'static dyn Device) -> &'static dyn Device {
        match self.is_of_host {
            true => cpu(),
            false => device,
        }
    }

    /// What the buffer holds now: a constant, which stays as it is when the buffer changes.
    pub fn get(&self) -> Variable {
        surroundings::look(self, || read(&self.held).clone())
    }

    /// Whether both share what they hold.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Replaces what the buffer holds by the elements of `value`; its history and its tangents are not
    /// held.
    ///
    /// # Panics
    /// If shape or dtype change, and where the lanes of [`vmap`](crate::vmap) have different values: a
    /// buffer holds one.
    #[track_caller]
    pub fn set(&self, value: impl Into<Variable>) {
        let _called = calling("Buffer::set");
        self.change("Buffer::set", [&value.into()], false, |_, [value]| value);
    }

    /// Replaces the elements by a function of them and of the elements of some values; it is called
    /// again if another thread has replaced them in the meantime.
    ///
    /// ```
    /// use bibun::{grad, links::Buffer, Variable};
    /// let largest = Buffer::new(0.0);
    /// let f = |x: &Variable| {
    ///     largest.update([x], |old, [x]| old.maximum(&x));
    ///     x * x
    /// };
    /// assert_eq!(grad(f, &Variable::constant(3.0)).item::<f64>(), 6.0);
    /// assert_eq!(largest.get().item::<f64>(), 3.0);
    /// ```
    ///
    /// # Panics
    /// As [`Buffer::set`].
    #[track_caller]
    pub fn update<const N: usize>(
        &self,
        values: [&Variable; N],
        f: impl Fn(Array, [Array; N]) -> Array + Send + Sync + 'static,
    ) {
        let _called = calling("Buffer::update");
        self.change("Buffer::update", values, false, f);
    }

    /// [`update`](Self::update) for a link; what the buffer held before, if that is wanted.
    #[track_caller]
    pub(crate) fn change<const N: usize>(
        &self,
        owner: &'static str,
        values: [&Variable; N],
        returns_old: bool,
        f: impl Fn(Array, [Array; N]) -> Array + Send + Sync + 'static,
    ) -> Option<Variable> {
        let rule = move |old, values: Vec<Array>| {
            f(old, values.try_into().expect("as many as were given"))
        };
        let change = Change {
            owner,
            buffer: self.clone(),
            returns_old,
            rule: Arc::new(rule),
        };
        let values = values.map(Variable::detach).to_vec();
        apply(change, values).pop()
    }

    /// Replaces the elements by a function of them, and returns what they were.
    #[track_caller]
    fn replace(&self, f: impl Fn(Array) -> Array) -> Array {
        loop {
            let old = self.get();
            let value = f(old.array());
            let (own, found) = (old.spec(), Spec::new(value.shape(), value.dtype()));
            if own != found {
                let what = format!("the buffer is {own}, the value {found}");
                raise(Error::argument("Buffer::set", what));
            }
            let value = Variable::constant(value);
            if surroundings::put_apart(self, &value) {
                return old.array();
            }
            let mut held = write(&self.held);
            if held.is_same(&old) {
                *held = value;
                return old.array();
            }
        }
    }
}

type Rule = dyn Fn(Array, Vec<Array>) -> Array + Send + Sync;

/// A change of what a buffer holds: a function, so that hooks are told of it and every transformation
/// says what becomes of it.
#[derive(Clone)]
struct Change {
    /// Whose buffer it is.
    owner: &'static str,
    buffer: Buffer,
    returns_old: bool,
    rule: Arc<Rule>,
}

impl Function for Change {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "update_buffer"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, _: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        let old = self.returns_old.then(|| self.buffer.get().spec());
        Ok(old.into_iter().collect())
    }

    fn forward(&self, values: Vec<Array>) -> Vec<Array> {
        let old = self.buffer.replace(|old| (self.rule)(old, values.clone()));
        self.returns_old.then_some(old).into_iter().collect()
    }

    fn vjp(&self, cx: &Context<'_>, _: Vec<Variable>) -> Vec<Option<Variable>> {
        vec![None; cx.input_count()]
    }

    fn jvp(&self, cx: &Context<'_>, _: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        vec![None; cx.output_count()]
    }

    fn batch(&self, _: Vec<Batched>) -> Vec<Batched> {
        let what = "a buffer holds one value, and every batch element of vmap has another for it (in test mode \
                    links leave their buffers alone; what is to be held can be handed out of vmap)";
        raise(Error::argument(self.owner, what))
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        vec![None; cx.input_count()]
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update_buffer of {}", self.owner)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.get()).finish()
    }
}

impl Tree for Buffer {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.buffer(self);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let x = self.get();
        let mapped = x.map(mapper);
        match mapped.is_same(&x) {
            true => self.clone(),
            false => Self::holding(mapped, self.is_of_host),
        }
    }
}
