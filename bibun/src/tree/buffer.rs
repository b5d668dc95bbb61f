//! State of a link that is not optimized but changes as the link is used.

use std::fmt;
use std::sync::{Arc, RwLock};

use bibun_array::{Array, Device, cpu};

use super::{Mapper, Tree, Visitor};
use crate::error::{Error, raise};
use crate::function::Spec;
use crate::locks::{read, write};
use crate::surroundings;
use crate::variable::Variable;

/// A constant in a Chain whose elements can be replaced, such as running statistics.
///
/// In a walk over the Chain it is the Variable that it holds, and so a buffer. Clones share what
/// they hold; and so does the copy of a model that a transformation works on, for it does not touch
/// buffers: what changes inside of `grad(|model| ..., &model)` has changed in `model`.
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
///     model.calls.set(model.calls.get().array() + 1);
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

    /// Replaces the elements.
    ///
    /// # Panics
    /// If shape or dtype change.
    #[track_caller]
    pub fn set(&self, value: impl Into<Array>) {
        let value = value.into();
        self.update(|_| value.clone());
    }

    /// Replaces the elements by a function of them; it is called again if another thread has replaced
    /// them in the meantime.
    #[track_caller]
    pub(crate) fn update(&self, mut f: impl FnMut(Array) -> Array) {
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
                return;
            }
            let mut held = write(&self.held);
            if held.is_same(&old) {
                *held = value;
                return;
            }
        }
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
