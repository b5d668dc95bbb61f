//! Trees: containers of Variables, whose leaves can be walked by name and replaced.

mod buffer;
mod containers;
mod tuples;

pub use buffer::Buffer;
pub(crate) use tuples::for_tuples;

use std::fmt::{self, Write};

use bibun_array::Shape;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, caller, raise};
use crate::functions::apart;
use crate::node::Key;
use crate::variable::Variable;

/// A container of Variables: a Variable, a tuple, array, `Vec`, `Option` or map of Trees, or a
/// struct or enum with `#[derive(Tree)]`. [Transformations](crate::transformations) take and give
/// Trees.
///
/// Its *leaves* are the Variables in it, each with a name (`layers/0/weight`). Numbers, strings and the
/// like are part of the structure: they are copied, and have no derivative.
///
/// `#[derive(Chain)]` makes a Tree too, with two differences that a model wants: constant
/// Variables in it are *buffers*, state that no transformation touches; and clones of one Variable
/// are one parameter, with one gradient.
///
/// *Frozen* parameters ([`Chain::freeze`](crate::links::Chain::freeze)) are leaves to
/// [`tree_map`], [`tree_zip`], `vmap` and `checkpoint`, which keep them frozen, but not to what takes
/// derivatives: there they are constants, a gradient has nothing in their places, and whoever uses
/// it all the same is told so.
///
/// ```
/// use bibun::{grad, Tree, Variable};
///
/// #[derive(Tree)]
/// struct Line {
///     slope: Variable,
///     offset: Option<Variable>,
/// }
///
/// let line = Line { slope: 2.0.into(), offset: Some(1.0.into()) };
/// let error = |line: &Line| (3.0 * &line.slope + line.offset.as_ref().unwrap() - 5.0).square();
/// let gradient = grad(error, &line);
/// assert_eq!(gradient.slope.item::<f64>(), 12.0);
/// assert_eq!(gradient.offset.unwrap().item::<f64>(), 4.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no Tree",
    label = "Variables cannot be looked for in here",
    note = "put #[derive(Tree)], or #[derive(Chain)] for a model, on `{Self}`; a field without \
            Variables can be left out by #[tree(skip)] or #[chain(skip)]",
    note = "a Tree owns its parts: put a clone, which copies no elements, in place of a reference"
)]
pub trait Tree {
    /// Shows every Variable in here to a visitor, with its name: [`Visitor::child`] for each part.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// The same container with other Variables: this function of each part.
    #[must_use]
    fn map(&self, mapper: &mut Mapper<'_>) -> Self
    where
        Self: Sized;
}

/// What a Variable is in a [`Tree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A leaf of a plain container.
    Argument,
    /// A Variable of a Chain that is no constant; [`Variable::is_frozen`] tells the frozen ones.
    Parameter,
    /// A constant in a Chain: state that no transformation touches.
    Buffer,
}

impl Role {
    fn of(x: &Variable, in_chain: bool) -> Self {
        match in_chain {
            false => Self::Argument,
            true if x.is_plain_constant() => Self::Buffer,
            true => Self::Parameter,
        }
    }
}

/// Goes through a [`Tree`] and knows the name of the place it is at.
pub struct Visitor<'a> {
    path: String,
    in_chain: bool,
    see: Seer<'a>,
}

/// What is shown to whoever walks a [`Tree`].
enum Seer<'a> {
    /// Every Variable.
    Variables(&'a mut dyn FnMut(&str, &Variable, Role)),
    /// Every place where a Variable stands.
    Places(&'a mut dyn FnMut(&str, Held<'_>, Role)),
}

/// A place in a [`Tree`] where a Variable stands.
pub(crate) enum Held<'a> {
    /// The Variable itself.
    Variable(&'a Variable),
    /// The one that a cell holds now.
    Buffer(&'a Buffer),
}

impl<'a> Visitor<'a> {
    /// A visitor that calls `see` with every Variable, its name and its role.
    ///
    /// ```
    /// use bibun::{Tree, Variable, Visitor};
    /// let pair = (Variable::new(1.0), Variable::constant(2.0));
    /// let mut names = Vec::new();
    /// pair.visit(&mut Visitor::new(&mut |name, _, _| names.push(name.to_owned())));
    /// assert_eq!(names, ["0", "1"]);
    /// ```
    pub fn new(see: &'a mut dyn FnMut(&str, &Variable, Role)) -> Self {
        Self {
            path: String::new(),
            in_chain: false,
            see: Seer::Variables(see),
        }
    }

    /// A visitor that shows the cells of buffers, not only what they hold.
    pub(crate) fn of_places(see: &'a mut dyn FnMut(&str, Held<'_>, Role)) -> Self {
        Self {
            path: String::new(),
            in_chain: false,
            see: Seer::Places(see),
        }
    }

    /// Visits the place of a Variable.
    fn variable(&mut self, x: &Variable) {
        let role = Role::of(x, self.in_chain);
        match &mut self.see {
            Seer::Variables(see) => see(&self.path, x, role),
            Seer::Places(see) => see(&self.path, Held::Variable(x), role),
        }
    }

    /// Visits the place of a buffer.
    fn buffer(&mut self, buffer: &Buffer) {
        let x = buffer.get();
        let role = Role::of(&x, self.in_chain);
        match &mut self.see {
            Seer::Variables(see) => see(&self.path, &x, role),
            Seer::Places(see) => see(&self.path, Held::Buffer(buffer), role),
        }
    }

    /// Visits a part by its name: a field, or the position in a list.
    pub fn child<T: Tree + ?Sized>(&mut self, name: impl fmt::Display, child: &T) {
        let length = self.path.len();
        let slash = if length == 0 { "" } else { "/" };
        write!(self.path, "{slash}{name}").expect("a String takes everything");
        child.visit(self);
        self.path.truncate(length);
    }

    /// Visits the parts of a Chain, in which Variables are parameters or buffers.
    pub fn chain(&mut self, parts: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.in_chain, true);
        parts(self);
        self.in_chain = outside;
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
            .field("in_chain", &self.in_chain)
            .finish_non_exhaustive()
    }
}

/// Puts other Variables into a [`Tree`], in the order in which a [`Visitor`] sees them.
pub struct Mapper<'a> {
    in_chain: bool,
    replace: &'a mut dyn FnMut(&Variable, Role) -> Variable,
}

impl<'a> Mapper<'a> {
    /// A mapper that puts what `replace` gives for each Variable and its role.
    ///
    /// ```
    /// use bibun::{Mapper, Tree, Variable};
    /// let pair = (Variable::new(1.0), 2.5);
    /// let twice = pair.map(&mut Mapper::new(&mut |x, _| 2.0 * x));
    /// assert_eq!((twice.0.item::<f64>(), twice.1), (2.0, 2.5));
    /// ```
    pub fn new(replace: &'a mut dyn FnMut(&Variable, Role) -> Variable) -> Self {
        Self {
            in_chain: false,
            replace,
        }
    }

    /// Maps the parts of a Chain, in which Variables are parameters or buffers.
    pub fn chain<T>(&mut self, parts: impl FnOnce(&mut Self) -> T) -> T {
        let outside = std::mem::replace(&mut self.in_chain, true);
        let mapped = parts(self);
        self.in_chain = outside;
        mapped
    }
}

impl fmt::Debug for Mapper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapper")
            .field("in_chain", &self.in_chain)
            .finish_non_exhaustive()
    }
}

/// The leaves of a Tree that a transformation works on, in the order of their places. Of a Chain
/// these are the parameters, each once.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    pub(crate) names: Vec<String>,
    pub(crate) variables: Vec<Variable>,
    roles: Vec<Role>,
    /// Whether each was frozen as it was listed.
    frozen: Vec<bool>,
    /// Every place by its name, and what is there.
    places: Vec<(String, Place)>,
}

/// What is in a place of a Tree.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The leaf of this number.
    Leaf(usize),
    /// A frozen parameter, which is none of the leaves.
    Frozen,
    /// A buffer, or nothing.
    Other,
}

impl Leaves {
    pub(crate) fn of<T: Tree + ?Sized>(tree: &T) -> Self {
        Self::filtered(tree, |_, _| true)
    }

    /// Those that a derivative can be taken by.
    pub(crate) fn trainable<T: Tree + ?Sized>(tree: &T) -> Self {
        Self::filtered(tree, |_, x| !x.is_frozen())
    }

    /// Those in places that are `wanted`, by name and Variable.
    fn filtered<T: Tree + ?Sized>(tree: &T, wanted: impl Fn(&str, &Variable) -> bool) -> Self {
        let mut leaves = Self::default();
        let mut known: FxHashMap<Key, usize> = FxHashMap::default();
        tree.visit(&mut Visitor::new(&mut |name, x, role| {
            let frozen = x.is_frozen();
            let mut push = || {
                leaves.names.push(name.to_owned());
                leaves.variables.push(x.clone());
                leaves.roles.push(role);
                leaves.frozen.push(frozen);
                leaves.variables.len() - 1
            };
            let place = match role {
                Role::Buffer => Place::Other,
                Role::Argument | Role::Parameter if x.is_absent() => Place::Other,
                Role::Argument | Role::Parameter if !wanted(name, x) => match frozen {
                    true => Place::Frozen,
                    false => Place::Other,
                },
                Role::Parameter => Place::Leaf(*known.entry(x.identity()).or_insert_with(push)),
                Role::Argument => Place::Leaf(push()),
            };
            leaves.places.push((name.to_owned(), place));
        }));
        leaves
    }

    /// The Tree with other leaves. Parameters stay parameters, whatever they are replaced by, frozen
    /// if they are, and as many as they are.
    pub(crate) fn replaced<T: Tree>(&self, tree: &T, leaves: &[Variable]) -> T {
        self.put(tree, leaves, Variable::clone)
    }

    /// The Tree with derivatives in place of the leaves, and nothing in place of frozen parameters.
    pub(crate) fn derivatives<T: Tree>(&self, tree: &T, leaves: &[Variable]) -> T {
        self.put(tree, leaves, Variable::absent)
    }

    fn put<T: Tree>(
        &self,
        tree: &T,
        leaves: &[Variable],
        in_place_of_frozen: impl Fn(&Variable) -> Variable,
    ) -> T {
        let in_role = |((leaf, role), &frozen): ((&Variable, &Role), &bool)| match role {
            Role::Argument | Role::Parameter if frozen => leaf.as_frozen(),
            Role::Parameter => leaf.as_parameter(),
            Role::Argument | Role::Buffer => leaf.clone(),
        };
        let leaves = leaves.iter().zip(&self.roles).zip(&self.frozen);
        let mut leaves: Vec<Variable> = leaves.map(in_role).collect();
        self.keep_apart(&mut leaves);
        let mut places = self.places.iter();
        let mut replace = |x: &Variable, _| match places.next() {
            Some((_, Place::Leaf(leaf))) => leaves[*leaf].clone(),
            Some((_, Place::Frozen)) => in_place_of_frozen(x),
            Some((_, Place::Other)) | None => x.clone(),
        };
        tree.map(&mut Mapper::new(&mut replace))
    }

    /// The Variables of `other` in the places of these leaves, each like its leaf.
    ///
    /// # Panics
    /// If `other` has other places, or a Variable is not like its leaf.
    #[track_caller]
    pub(crate) fn matching<T: Tree + ?Sized>(
        &self,
        function: &'static str,
        what: [&str; 2],
        other: &T,
    ) -> Vec<Variable> {
        let mut others: Vec<(String, Variable)> = Vec::with_capacity(self.places.len());
        other.visit(&mut Visitor::new(&mut |name, x, _| {
            others.push((name.to_owned(), x.clone()));
        }));
        let [this, that] = what;
        let called = |name: &str| match name {
            "" => "a single Variable".to_owned(),
            name => format!("`{name}`"),
        };
        let part = |name: &str, whole: &str| match name {
            "" => whole.to_owned(),
            name => format!("`{name}` of {whole}"),
        };
        let alone = |name: &str, a: &str, b: &str| {
            let name = called(name);
            format!("{a} has {name} and {b} has not; they must be alike")
        };
        for (name, _) in &self.places {
            if !others.iter().any(|(other, _)| other == name) {
                raise(Error::argument(function, alone(name, this, that)));
            }
        }
        for (name, _) in &others {
            if !self.places.iter().any(|(place, _)| place == name) {
                raise(Error::argument(function, alone(name, that, this)));
            }
        }
        let mut found: Vec<Variable> = Vec::with_capacity(self.variables.len());
        for ((name, leaf), (_, b)) in self.places.iter().zip(others) {
            let Place::Leaf(leaf) = *leaf else { continue };
            let a = &self.variables[leaf];
            if b.is_absent() && !self.frozen[leaf] {
                let [this, that] = [this, that].map(|whole| part(name, whole));
                let what = format!("{that} is not there, for it was frozen; {this} is not");
                raise(Error::argument(function, what));
            }
            if !a.has_same_spec(&b) {
                let [this, that] = [this, that].map(|whole| part(name, whole));
                let (a, b) = (a.spec(), b.spec());
                let what = format!("{this} is {a}, {that} {b}; they must be alike");
                raise(Error::argument(function, what));
            }
            match found.get(leaf) {
                None => found.push(b),
                Some(first) if first.is_same(&b) || first.has_same_elements(&b) => {}
                Some(_) => {
                    let name = called(name);
                    let what = format!(
                        "{name} of {this} is one Variable with an earlier one, but of {that} they \
                         differ; they must be alike"
                    );
                    raise(Error::argument(function, what));
                }
            }
        }
        found
    }

    /// Makes parameters different that happen to be replaced by the same Variable, as the gradients
    /// of a and b in `a + b` are: they are not tied.
    fn keep_apart(&self, leaves: &mut [Variable]) {
        let mut known: FxHashSet<Key> = FxHashSet::default();
        for (i, leaf) in leaves.iter_mut().enumerate() {
            if self.roles[i] == Role::Parameter && !known.insert(leaf.identity()) {
                *leaf = match self.frozen[i] {
                    true => apart(leaf).as_frozen(),
                    false => apart(leaf).as_parameter(),
                };
            }
        }
    }
}

/// The same container with a function of each leaf in its place. In a Chain the leaves are the
/// parameters, of which frozen ones stay frozen; buffers stay what they are. Of a gradient those
/// places stay empty that are.
///
/// ```
/// use bibun::{grad, tree_map, tree_zip, Variable};
/// let x = (Variable::constant(1.0), Variable::constant([2.0, 3.0]));
/// let g = grad(|(a, b)| a * b.square().sum(..), &x);
/// // A step downhill, for any container.
/// let x = tree_zip(|x, g| x - 0.1 * g, &x, &g);
/// assert_eq!(tree_map(|x| 10.0 * x, &x).1.to_vec::<f64>(), [16.0, 24.0]);
/// ```
///
/// A model that was computed can be trained once its parameters are leaves:
/// `tree_map(|w| Variable::new(w.array()), &model)`.
#[must_use]
pub fn tree_map<T: Tree>(f: impl FnMut(&Variable) -> Variable, tree: &T) -> T {
    let leaves = Leaves::of(tree);
    let mapped: Vec<Variable> = leaves.variables.iter().map(f).collect();
    leaves.replaced(tree, &mapped)
}

/// The container `a` with a function of each leaf and of that in the same place of `b` in its place:
/// sums of models, steps along gradients. Where one of the two is a gradient that has nothing in a
/// place, what `a` has stays: a step along a gradient leaves frozen parameters alone.
///
/// # Panics
/// If leaves in the same place differ in shape or dtype, or only one of the Trees has them.
#[track_caller]
#[must_use]
pub fn tree_zip<T: Tree>(mut f: impl FnMut(&Variable, &Variable) -> Variable, a: &T, b: &T) -> T {
    let mut absent = FxHashSet::default();
    b.visit(&mut Visitor::new(&mut |name, x, _| {
        if x.is_absent() {
            absent.insert(name.to_owned());
        }
    }));
    let leaves = Leaves::filtered(a, |name, _| !absent.contains(name));
    let others = leaves.matching("tree_zip", ["the first Tree", "the second"], b);
    let pairs = leaves.variables.iter().zip(&others);
    let mapped: Vec<Variable> = pairs.map(|(a, b)| f(a, b)).collect();
    leaves.replaced(a, &mapped)
}

/// All leaves of a Tree in one vector, and the way back: for solvers that know vectors only. Frozen
/// parameters are not among them, and stay what they are.
///
/// Shapes: the leaves, of one float dtype, any → `[n]`. The second result makes a Tree of any such
/// vector; both can be differentiated.
///
/// ```
/// use bibun::{hessian, ravel_tree, Variable};
/// let point = (Variable::constant(1.0), Variable::constant([2.0, 3.0]));
/// let (vector, unravel) = ravel_tree(&point);
/// assert_eq!(vector.to_vec::<f64>(), [1.0, 2.0, 3.0]);
/// let f = |(a, b): &(Variable, Variable)| a * (b * b).sum(..);
/// let h = hessian(|v| f(&unravel(v)), &vector);
/// assert_eq!(h.to_vec::<f64>(), [0.0, 4.0, 6.0, 4.0, 2.0, 0.0, 6.0, 0.0, 2.0]);
/// ```
///
/// # Panics
/// If there is no leaf, or their dtypes differ; the way back, if the vector has another length (its
/// message has the place where the way was made).
#[track_caller]
pub fn ravel_tree<T: Tree>(tree: &T) -> (Variable, impl Fn(&Variable) -> T + use<T>) {
    use crate::functions::{concat, split_at};
    let location = caller();
    let leaves = Leaves::trainable(tree);
    let Some(first) = leaves.variables.first() else {
        let what = match Leaves::of(tree).variables.is_empty() {
            true => "there is no Variable in here",
            false => "every Variable in here is frozen",
        };
        raise(Error::argument("ravel_tree", what))
    };
    for (name, x) in leaves.names.iter().zip(&leaves.variables) {
        if x.dtype() != first.dtype() {
            let (first, other) = (first.dtype(), x.dtype());
            let what = format!("one leaf is {first}, `{name}` is {other}; cast to one dtype");
            raise(Error::argument("ravel_tree", what));
        }
    }
    let shapes: Vec<Shape> = leaves.variables.iter().map(Variable::shape).collect();
    let flat: Vec<Variable> = leaves
        .variables
        .iter()
        .map(|x| x.reshape([x.size()]))
        .collect();
    let vector = match &*flat {
        [only] => only.clone(),
        several => concat(&several.iter().collect::<Vec<_>>(), 0),
    };
    let template = tree.map(&mut Mapper::new(&mut |x, _| x.clone()));
    let unravel = move |vector: &Variable| {
        let total: usize = shapes.iter().map(Shape::size).sum();
        if vector.shape() != [total] {
            raise(Error::Argument {
                function: "ravel_tree",
                what: format!(
                    "the way back is for {total} elements, the vector is {}",
                    vector.spec()
                ),
                location,
            });
        }
        let mut ends = Vec::new();
        let mut end = 0;
        for shape in &shapes[..shapes.len() - 1] {
            end += shape.size();
            ends.push(end);
        }
        let parts = split_at(vector, &ends, 0);
        let parts: Vec<Variable> = parts
            .iter()
            .zip(&shapes)
            .map(|(part, shape)| part.reshape(shape))
            .collect();
        leaves.replaced(&template, &parts)
    };
    (vector, unravel)
}

impl Tree for Variable {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.variable(self);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        (mapper.replace)(self, Role::of(self, mapper.in_chain))
    }
}
