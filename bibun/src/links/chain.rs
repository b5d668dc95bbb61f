//! The Chain: anything with parameters, walked by name.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape};
use rustc_hash::FxHashSet;

use crate::variable::Variable;

/// Anything with parameters: a link, a struct of links, a list of them.
///
/// A parameter is a leaf Variable, made by [`Variable::new`]. A constant Variable in a Chain is a
/// *buffer*: part of the model's state (running statistics, say), but nothing to be optimized.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no Chain",
    label = "parameters cannot be looked for in here",
    note = "put #[derive(Chain)] on `{Self}`, or #[chain(skip)] on a field that has no parameters"
)]
pub trait Chain {
    /// Shows every Variable in here to a visitor, with its name.
    ///
    /// `#[derive(Chain)]` writes this: a call of [`Visitor::child`] for each field.
    fn visit(&self, visitor: &mut Visitor<'_>);

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
        self.visit(&mut Visitor::new(&mut |name, x| {
            if !x.requires_grad() {
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
}

/// Calls `f` with every parameter and its name, with a shared one once.
pub(crate) fn for_each_parameter<C: Chain + ?Sized>(chain: &C, mut f: impl FnMut(&str, &Variable)) {
    let mut seen = FxHashSet::default();
    chain.visit(&mut Visitor::new(&mut |name, x| {
        if x.is_leaf() && seen.insert(x.key()) {
            f(name, x);
        }
    }));
}

/// Goes through a [`Chain`] and knows the name of the place it is at.
pub struct Visitor<'a> {
    path: String,
    see: &'a mut dyn FnMut(&str, &Variable),
}

impl<'a> Visitor<'a> {
    /// A visitor that calls `see` with every Variable and its name.
    ///
    /// ```
    /// use bibun::links::{Chain, Visitor};
    /// use bibun::Variable;
    /// let pair = (Variable::new(1.0), Variable::constant(2.0));
    /// let mut names = Vec::new();
    /// pair.visit(&mut Visitor::new(&mut |name, _| names.push(name.to_owned())));
    /// assert_eq!(names, ["0", "1"]);
    /// ```
    pub fn new(see: &'a mut dyn FnMut(&str, &Variable)) -> Self {
        let path = String::new();
        Self { path, see }
    }

    /// Visits a part by its name: a field, or the position in a list.
    pub fn child<C: Chain + ?Sized>(&mut self, name: impl fmt::Display, child: &C) {
        let length = self.path.len();
        let slash = if length == 0 { "" } else { "/" };
        write!(self.path, "{slash}{name}").expect("a String takes everything");
        child.visit(self);
        self.path.truncate(length);
    }

    /// The name of the place the visitor is at, empty at the root.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Chain for Variable {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (visitor.see)(&visitor.path, self);
    }
}

/// What holds one Chain and adds nothing to its name.
macro_rules! transparent {
    ($($holder:ty),*) => {$(
        impl<T: Chain + ?Sized> Chain for $holder {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                (**self).visit(visitor);
            }
        }
    )*};
}
transparent!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: Chain> Chain for Option<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(chain) = self {
            chain.visit(visitor);
        }
    }
}

impl<T: Chain> Chain for [T] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, chain) in self.iter().enumerate() {
            visitor.child(i, chain);
        }
    }
}

impl<T: Chain, const N: usize> Chain for [T; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self[..].visit(visitor);
    }
}

impl<T: Chain> Chain for Vec<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self[..].visit(visitor);
    }
}

/// By key, in the order of the keys.
impl<K: fmt::Display, T: Chain> Chain for BTreeMap<K, T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (key, chain) in self {
            visitor.child(key, chain);
        }
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),*))*) => {$(
        impl<$($T: Chain),*> Chain for ($($T,)*) {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $(visitor.child($i, &self.$i);)*
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// What has nothing to optimize.
macro_rules! empty {
    ($($plain:ty),* $(,)?) => {$(
        impl Chain for $plain {
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}
empty!(
    (),
    bool,
    char,
    str,
    String,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    Array,
    DType,
    Shape,
    Generator,
);

impl<T: ?Sized> Chain for PhantomData<T> {
    fn visit(&self, _: &mut Visitor<'_>) {}
}
