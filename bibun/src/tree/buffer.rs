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
/// A walk over the Chain sees the Variable that it holds, and so a buffer. Clones share their
/// content, and so does the copy of a model that a transformation works on: an update inside
/// `grad(|model| ..., &model)` is an update of the buffer in `model`.
///
/// An update is a function like others, and [hooks](crate::with_hook) see it. Derivatives do not go
/// through it: under `grad` and `jvp` the buffer stores the value without its derivative. Under
/// `vmap` there is a value for each batch element, and to store these in a buffer is an error.
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
    /// Creates a buffer with these elements.
    pub fn new(value: impl Into<Array>) -> Self {
        Self::holding(Variable::constant(value), false)
    }

    /// Creates a buffer that stays on the CPU when its model is [moved](crate::links::Chain::to), for
    /// values that the program itself reads, such as the position in a stream of random numbers.
    pub fn of_host(value: impl Into<Array>) -> Self {
        Self::holding(Variable::constant(value), true)
    }

    fn holding(x: Variable, is_of_host: bool) -> Self {
        let held = Arc::new(RwLock::new(x));
        Self { held, is_of_host }
    }

    /// Returns the device of the buffer when its model is on `device`.
    pub(crate) fn place(&self, device: &'static dyn Device) -> &'static dyn Device {
        match self.is_of_host {
            true => cpu(),
            false => device,
        }
    }

    /// Returns the content of the buffer, as a constant that does not change when the buffer does.
    pub fn get(&self) -> Variable {
        surroundings::look(self, || read(&self.held).clone())
    }

    /// Returns whether both share their content.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Replaces the content of the buffer by the elements of `value`. Its history and its tangents
    /// are not stored.
    ///
    /// # Panics
    /// Panics if the shape or dtype would change, or if the batch elements of [`vmap`](crate::vmap)
    /// have different values, because a buffer holds one.
    #[track_caller]
    pub fn set(&self, value: impl Into<Variable>) {
        let _called = calling("Buffer::set");
        self.change("Buffer::set", [&value.into()], false, |_, [value]| value);
    }

    /// Replaces the elements by a function of them and of the elements of some values. `f` is called
    /// again if another thread has replaced the elements in the meantime.
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
    /// Panics in the same cases as [`Buffer::set`].
    #[track_caller]
    pub fn update<const N: usize>(
        &self,
        values: [&Variable; N],
        f: impl Fn(Array, [Array; N]) -> Array + Send + Sync + 'static,
    ) {
        let _called = calling("Buffer::update");
        self.change("Buffer::update", values, false, f);
    }

    /// Does the same as [`update`](Self::update), for a link. Returns the previous content if
    /// `returns_old` is set.
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

    /// Replaces the content, unless it is no longer `old`. Returns whether it did.
    pub(crate) fn exchange(&self, old: &Variable, value: &Variable) -> bool {
        if surroundings::put_apart(self, value) {
            return true;
        }
        let mut held = write(&self.held);
        let is_old = held.is_identical(old);
        if is_old {
            *held = value.clone();
        }
        is_old
    }

    /// Replaces the elements by a function of them, and returns the previous ones.
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
            if held.is_identical(&old) {
                *held = value;
                return old.array();
            }
        }
    }
}

type Rule = dyn Fn(Array, Vec<Array>) -> Array + Send + Sync;

/// An update of a buffer. It is a function, so that hooks see it and each transformation has a rule
/// for it.
#[derive(Clone)]
struct Change {
    /// The owner of the buffer, for errors.
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

    fn takes_complex(&self) -> bool {
        true
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
        let what = "a buffer holds one value, and every batch element of vmap has another for it (in evaluation mode \
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
        match mapped.is_identical(&x) {
            true => self.clone(),
            false => Self::holding(mapped, self.is_of_host),
        }
    }
}
