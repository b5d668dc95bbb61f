//! Trees: containers of Variables, whose leaves can be walked by name and replaced.

mod buffer;
mod containers;
pub(crate) mod skipped;
mod tuples;

pub use buffer::Buffer;
pub(crate) use tuples::for_tuples;

use std::cell::Cell;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use bibun_array::{Array, Shape};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::error::{Error, caller, raise};
use crate::functions::apart;
use crate::node::Key;
use crate::variable::Variable;

/// A container of Variables: a Variable, a tuple, array, `Vec`, `Option` or map of Trees, or a struct
/// or enum with `#[derive(Tree)]`. [Transformations](crate::transformations) take and return Trees.
///
/// Its *leaves* are the Variables in it, each with a name (`layers/0/weight`). Numbers, strings and
/// the like are *plain fields*, part of the structure: they are copied, and have no derivative. An
/// [`Array`](crate::array::Array) is plain as well, and so is a [`Generator`](crate::array::Generator), except
/// that [`compile`](crate::compile) takes them as inputs, and [loops](crate::scan) as part of the state.
///
/// `#[derive(Chain)]` makes a Tree, too, with two differences for models: constant Variables in it
/// are *buffers*, state that no transformation changes, and clones of one Variable are one parameter,
/// with one gradient.
///
/// *Frozen* parameters ([`Chain::freeze`](crate::links::Chain::freeze)) are leaves for [`tree_map`],
/// [`tree_zip`], `vmap` and `checkpoint`, which leave them frozen, but not for derivatives. There
/// they are constants, a gradient has no value in their places, and to use such a place is an error.
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
    /// Shows every Variable in the container to a visitor, with its name, by [`Visitor::child`] for
    /// each part, and by [`Visitor::plain`] for values that are no Trees.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Returns the same container with other Variables, by applying the mapper to each part.
    #[must_use]
    fn map(&self, mapper: &mut Mapper<'_>) -> Self
    where
        Self: Sized;
}

/// The role of a Variable in a [`Tree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A leaf of a plain container.
    Argument,
    /// A Variable of a Chain that is not a constant. [`Variable::is_frozen`] returns whether it is
    /// frozen.
    Parameter,
    /// A constant in a Chain: state that no transformation changes.
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

/// A walk through a [`Tree`] that knows the name of its current position.
pub struct Visitor<'a> {
    path: String,
    /// The number of names around the current position.
    depth: usize,
    /// Whether names are shown by themselves, and whether they are put together to a path.
    shows_names: bool,
    writes_path: bool,
    is_path_asked: Cell<bool>,
    in_chain: bool,
    /// Whether this is a field that the Tree leaves out.
    in_skipped: bool,
    see: Seer<'a>,
}

/// The callback of a walk through a [`Tree`].
enum Seer<'a> {
    /// Gets every Variable.
    Variables(&'a mut dyn FnMut(&str, &Variable, Role)),
    /// Gets every position of a Variable.
    Places(&'a mut dyn FnMut(&str, Held<'_>, Role)),
    /// Gets everything that a function may depend on.
    Everything(&'a mut dyn FnMut(&str, Part<'_>)),
}

/// A position of a Variable in a [`Tree`].
pub(crate) enum Held<'a> {
    /// The Variable itself.
    Variable(&'a Variable),
    /// A buffer, which holds a Variable.
    Buffer(&'a Buffer),
}

/// A part of a [`Tree`].
pub(crate) enum Part<'a> {
    /// The name of a field that comes next, behind the number of names around it.
    Field(usize, &'static str),
    /// The same for a part whose name may be another one next time.
    Child(usize, &'a str),
    /// The position of a Variable.
    Held(Held<'a>, Role),
    /// An array that is no Variable.
    Array(&'a Array),
    /// A plain field, by its bits or their hash.
    Plain(u64),
    /// A Variable in a field that the Tree leaves out.
    Skipped(&'a Variable),
    /// An array in such a field.
    SkippedArray(&'a Array),
    /// A field that the Tree leaves out, of a type whose values cannot be compared.
    Opaque(&'static str),
}

impl<'a> Visitor<'a> {
    /// Creates a visitor that calls `see` with the name and the role of every Variable.
    ///
    /// ```
    /// use bibun::{Tree, Variable, Visitor};
    /// let pair = (Variable::new(1.0), Variable::constant(2.0));
    /// let mut names = Vec::new();
    /// pair.visit(&mut Visitor::new(&mut |name, _, _| names.push(name.to_owned())));
    /// assert_eq!(names, ["0", "1"]);
    /// ```
    pub fn new(see: &'a mut dyn FnMut(&str, &Variable, Role)) -> Self {
        Self::with(Seer::Variables(see))
    }

    /// Creates a visitor that shows buffers themselves, and not only the Variables that they hold.
    pub(crate) fn of_places(see: &'a mut dyn FnMut(&str, Held<'_>, Role)) -> Self {
        Self::with(Seer::Places(see))
    }

    /// Creates a visitor that shows plain fields, too, and those that the Tree leaves out.
    pub(crate) fn of_everything(see: &'a mut dyn FnMut(&str, Part<'_>)) -> Self {
        Self::with(Seer::Everything(see))
    }

    /// Makes the visitor show names by themselves, before what they are the names of.
    // PERF: paths are written only if they are wanted, because each call of a compiled function walks its
    // argument.
    pub(crate) fn showing_names(self, writes_path: bool) -> Self {
        Self {
            shows_names: true,
            writes_path,
            ..self
        }
    }

    /// Returns whether a Tree has asked for the path.
    pub(crate) fn is_path_asked(&self) -> bool {
        self.is_path_asked.get()
    }

    fn with(see: Seer<'a>) -> Self {
        Self {
            path: String::new(),
            depth: 0,
            shows_names: false,
            writes_path: true,
            is_path_asked: Cell::new(false),
            in_chain: false,
            in_skipped: false,
            see,
        }
    }

    /// Visits the position of a Variable.
    fn variable(&mut self, x: &Variable) {
        let role = Role::of(x, self.in_chain);
        match &mut self.see {
            Seer::Variables(see) => see(&self.path, x, role),
            Seer::Places(see) => see(&self.path, Held::Variable(x), role),
            Seer::Everything(see) if self.in_skipped => see(&self.path, Part::Skipped(x)),
            Seer::Everything(see) => see(&self.path, Part::Held(Held::Variable(x), role)),
        }
    }

    /// Visits the position of a buffer.
    fn buffer(&mut self, buffer: &Buffer) {
        let x = buffer.get();
        let role = Role::of(&x, self.in_chain);
        match &mut self.see {
            Seer::Variables(see) => see(&self.path, &x, role),
            Seer::Places(see) => see(&self.path, Held::Buffer(buffer), role),
            // Its cell is what counts, whatever the Tree says of its content.
            Seer::Everything(see) if self.in_skipped => {
                see(&self.path, Part::Held(Held::Buffer(buffer), Role::Buffer));
            }
            Seer::Everything(see) => see(&self.path, Part::Held(Held::Buffer(buffer), role)),
        }
    }

    /// Visits an array that is no Variable.
    fn array(&mut self, x: &Array) {
        if let Seer::Everything(see) = &mut self.see {
            let part = match self.in_skipped {
                true => Part::SkippedArray(x),
                false => Part::Array(x),
            };
            see(&self.path, part);
        }
    }

    /// Shows a plain value at the current position: a number, an option, an address of a function, the
    /// number of parts. [`compile`](crate::compile) traces a function again if one of them has changed.
    ///
    /// ```
    /// use bibun::{compile, Mapper, Tree, Variable, Visitor};
    ///
    /// struct Power(Variable, u32);
    ///
    /// impl Tree for Power {
    ///     fn visit(&self, visitor: &mut Visitor<'_>) {
    ///         visitor.child("base", &self.0);
    ///         visitor.plain(&self.1);
    ///     }
    ///     fn map(&self, mapper: &mut Mapper<'_>) -> Self {
    ///         Self(self.0.map(mapper), self.1)
    ///     }
    /// }
    ///
    /// let f = compile(|x: &Power| x.0.pow(f64::from(x.1)));
    /// let x = Variable::constant(3.0);
    /// assert_eq!(f.call(&Power(x.clone(), 2)).item::<f64>(), 9.0);
    /// assert_eq!(f.call(&Power(x, 3)).item::<f64>(), 27.0);
    /// ```
    pub fn plain(&mut self, value: &(impl Hash + ?Sized)) {
        if self.sees_everything() {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            self.bits(hasher.finish());
        }
    }

    /// Returns whether parts are wanted that are no Variables.
    pub(crate) fn sees_everything(&self) -> bool {
        matches!(self.see, Seer::Everything(_))
    }

    /// Shows a plain value that its text tells from others.
    pub(crate) fn shown(&mut self, text: fmt::Arguments<'_>) {
        struct Hashed(DefaultHasher);
        impl Write for Hashed {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        if self.sees_everything() {
            let mut hashed = Hashed(DefaultHasher::new());
            hashed.write_fmt(text).expect("a hash takes everything");
            self.bits(hashed.0.finish());
        }
    }

    /// Shows a plain value by its bits.
    pub(crate) fn bits(&mut self, bits: u64) {
        if let Seer::Everything(see) = &mut self.see {
            see(&self.path, Part::Plain(bits));
        }
    }

    /// Shows a field that the Tree leaves out, to those who want everything.
    #[doc(hidden)]
    pub fn skipped(&mut self, name: impl fmt::Display, show: impl FnOnce(&mut Self)) {
        if self.sees_everything() {
            let outside = std::mem::replace(&mut self.in_skipped, true);
            self.within(name, show);
            self.in_skipped = outside;
        }
    }

    /// Visits a part by its name: a field, or the position in a list.
    pub fn child<T: Tree + ?Sized>(&mut self, name: impl fmt::Display, child: &T) {
        self.within(name, |visitor| child.visit(visitor));
    }

    /// Visits a field by its name.
    // PERF: without formatting.
    #[doc(hidden)]
    #[inline]
    pub fn field<T: Tree + ?Sized>(&mut self, name: &'static str, field: &T) {
        if let (true, Seer::Everything(see)) = (self.shows_names, &mut self.see) {
            see("", Part::Field(self.depth, name));
        }
        let length = self.path.len();
        if self.writes_path {
            self.begin_name();
            self.path.push_str(name);
        }
        self.depth += 1;
        field.visit(self);
        self.depth -= 1;
        self.path.truncate(length);
    }

    fn within(&mut self, name: impl fmt::Display, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if self.writes_path {
            self.begin_name();
        }
        let start = self.path.len();
        write!(self.path, "{name}").expect("a String takes everything");
        if let (true, Seer::Everything(see)) = (self.shows_names, &mut self.see) {
            see("", Part::Child(self.depth, &self.path[start..]));
        }
        if !self.writes_path {
            self.path.truncate(length);
        }
        self.depth += 1;
        visit(self);
        self.depth -= 1;
        self.path.truncate(length);
    }

    fn begin_name(&mut self) {
        if !self.path.is_empty() {
            self.path.push('/');
        }
    }

    /// Visits the parts of a Chain, in which Variables are parameters or buffers.
    pub fn chain(&mut self, parts: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.in_chain, true);
        parts(self);
        self.in_chain = outside;
    }

    /// Returns the name of the current position, which is empty at the root.
    pub fn path(&self) -> &str {
        self.is_path_asked.set(true);
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

/// A walk that replaces the Variables of a [`Tree`], in the order in which a [`Visitor`] sees them.
pub struct Mapper<'a> {
    in_chain: bool,
    replace: &'a mut dyn FnMut(&Variable, Role) -> Variable,
    replace_array: Option<&'a mut dyn FnMut(&Array) -> Array>,
}

impl<'a> Mapper<'a> {
    /// Creates a mapper that replaces each Variable by `replace` of it and its role.
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
            replace_array: None,
        }
    }

    /// Makes the mapper replace arrays that are no Variables, too.
    fn with_arrays(mut self, replace: &'a mut dyn FnMut(&Array) -> Array) -> Self {
        self.replace_array = Some(replace);
        self
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

/// The leaves of a Tree that a transformation works on, in the order of their positions. In a Chain
/// they are the parameters, each once.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    pub(crate) names: Vec<String>,
    pub(crate) variables: Vec<Variable>,
    roles: Vec<Role>,
    /// Whether each leaf was frozen when it was listed.
    frozen: Vec<bool>,
    /// The name and the content of every position.
    places: Vec<(String, Place)>,
}

/// The content of a position in a Tree.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The leaf with this number.
    Leaf(usize),
    /// A frozen parameter that is not one of the leaves.
    Frozen,
    /// A buffer, or nothing.
    Other,
}

impl Leaves {
    pub(crate) fn of<T: Tree + ?Sized>(tree: &T) -> Self {
        Self::filtered(tree, false, |_, _| true)
    }

    /// The name of each leaf, and whether it is a parameter and frozen.
    pub(crate) fn structure(&self) -> impl Iterator<Item = (String, bool, bool)> + '_ {
        let leaves = self.names.iter().zip(&self.roles).zip(&self.frozen);
        leaves.map(|((name, role), &frozen)| (name.clone(), *role == Role::Parameter, frozen))
    }

    /// Lists the leaves with respect to which a derivative can be taken.
    pub(crate) fn trainable<T: Tree + ?Sized>(tree: &T) -> Self {
        Self::filtered(tree, false, |_, x| !x.is_frozen())
    }

    /// Lists the parameters of a model: clones of one Variable are one of them in any container.
    pub(crate) fn of_model<T: Tree + ?Sized>(model: &T) -> Self {
        Self::filtered(model, true, |_, _| true)
    }

    /// Lists those that are not frozen.
    pub(crate) fn trainable_of_model<T: Tree + ?Sized>(model: &T) -> Self {
        Self::filtered(model, true, |_, x| !x.is_frozen())
    }

    /// Lists the leaves at positions that are `wanted`, by name and Variable.
    fn filtered<T: Tree + ?Sized>(
        tree: &T,
        is_model: bool,
        wanted: impl Fn(&str, &Variable) -> bool,
    ) -> Self {
        let mut leaves = Self::default();
        let mut known: FxHashMap<Key, usize> = FxHashMap::default();
        tree.visit(&mut Visitor::new(&mut |name, x, role| {
            let frozen = x.is_frozen();
            let role = match role {
                Role::Argument if is_model => Role::Parameter,
                role => role,
            };
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

    /// Returns the Tree with other leaves. Parameters stay parameters, whatever replaces them. Frozen
    /// ones stay frozen, and different ones stay different.
    pub(crate) fn replaced<T: Tree>(&self, tree: &T, leaves: &[Variable]) -> T {
        self.put(tree, leaves.iter().cloned(), &[], Variable::clone)
    }

    /// Does the same as [`replaced`](Self::replaced), and puts in other [arrays](arrays_of).
    pub(crate) fn replaced_all<T: Tree>(
        &self,
        tree: &T,
        leaves: impl IntoIterator<Item = Variable>,
        arrays: &[Array],
    ) -> T {
        self.put(tree, leaves, arrays, Variable::clone)
    }

    /// Whether leaves are all Variables of the Tree, each at a position of its own, so that it can be
    /// [filled](Self::filled).
    pub(crate) fn are_arguments(&self) -> bool {
        let is_leaf = |place: &(String, Place)| matches!(place.1, Place::Leaf(_));
        self.places.iter().all(is_leaf)
            && self.roles.iter().all(|role| *role == Role::Argument)
            && !self.frozen.contains(&true)
    }

    /// Does the same as [`replaced_all`](Self::replaced_all) if the leaves [are
    /// arguments](Self::are_arguments).
    // PERF: the leaves are moved, and nothing has to be found out about them.
    pub(crate) fn filled<T: Tree>(tree: &T, mut leaves: impl Iterator<Item = Variable>) -> T {
        let mut replace = |_: &Variable, _| leaves.next().expect("one for each position");
        tree.map(&mut Mapper::new(&mut replace))
    }

    /// Returns the Tree with derivatives in place of the leaves, and no values in place of frozen
    /// parameters.
    pub(crate) fn derivatives<T: Tree>(&self, tree: &T, leaves: &[Variable]) -> T {
        self.put(tree, leaves.iter().cloned(), &[], Variable::absent)
    }

    fn put<T: Tree>(
        &self,
        tree: &T,
        leaves: impl IntoIterator<Item = Variable>,
        arrays: &[Array],
        in_place_of_frozen: impl Fn(&Variable) -> Variable,
    ) -> T {
        let in_role = |((leaf, role), &frozen): ((Variable, &Role), &bool)| match role {
            Role::Argument | Role::Parameter if frozen => leaf.as_frozen(),
            Role::Parameter => leaf.as_parameter(),
            Role::Argument | Role::Buffer => leaf,
        };
        let leaves = leaves.into_iter().zip(&self.roles).zip(&self.frozen);
        let mut leaves: SmallVec<[Variable; 8]> = leaves.map(in_role).collect();
        self.keep_apart(&mut leaves);
        let mut places = self.places.iter();
        let mut replace = |x: &Variable, _| match places.next() {
            Some((_, Place::Leaf(leaf))) => leaves[*leaf].clone(),
            Some((_, Place::Frozen)) => in_place_of_frozen(x),
            Some((_, Place::Other)) | None => x.clone(),
        };
        let mut arrays = arrays.iter();
        let mut replace_array = |x: &Array| arrays.next().unwrap_or(x).clone();
        tree.map(&mut Mapper::new(&mut replace).with_arrays(&mut replace_array))
    }

    /// Returns the Variables of `other` at the positions of these leaves.
    ///
    /// # Panics
    /// Panics if `other` has other positions, or if a Variable differs from its leaf in shape or
    /// dtype.
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
        let all: FxHashSet<&str> = others.iter().map(|(name, _)| &**name).collect();
        for (name, _) in &self.places {
            if !all.contains(&**name) {
                raise(Error::argument(function, alone(name, this, that)));
            }
        }
        let all: FxHashSet<&str> = self.places.iter().map(|(name, _)| &**name).collect();
        for (name, _) in &others {
            if !all.contains(&**name) {
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
                Some(first) if first.is_identical(&b) || first.has_same_elements(&b) => {}
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

    /// Separates parameters that happen to be replaced by the same Variable, such as the gradients of
    /// a and b in `a + b`, because they are not tied.
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

/// Returns the arrays of a Tree that are no Variables.
pub(crate) fn arrays_of<T: Tree + ?Sized>(tree: &T) -> Vec<Array> {
    let mut arrays = Vec::new();
    tree.visit(&mut Visitor::of_everything(&mut |_, part| {
        if let Part::Array(x) = part {
            arrays.push(x.clone());
        }
    }));
    arrays
}

/// Applies a function to each leaf, and returns the container of the results. In a Chain the leaves
/// are the parameters: frozen ones stay frozen, and buffers do not change. Empty positions of a
/// gradient stay empty.
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
/// To train a model that was computed, make its parameters leaves:
/// `tree_map(|w| Variable::new(w.array()), &model)`.
#[must_use]
pub fn tree_map<T: Tree>(f: impl FnMut(&Variable) -> Variable, tree: &T) -> T {
    let leaves = Leaves::of(tree);
    let mapped: Vec<Variable> = leaves.variables.iter().map(f).collect();
    leaves.replaced(tree, &mapped)
}

/// Applies a function to each leaf of `a` and the leaf at the same position in `b`, and returns the
/// container `a` with the results: sums of models, steps along gradients. At positions where one of
/// the two is a gradient without a value, the content of `a` stays, so that a step along a gradient
/// does not change frozen parameters.
///
/// # Panics
/// Panics if leaves at the same position differ in shape or dtype, or if a position exists in only
/// one of the Trees.
#[track_caller]
#[must_use]
pub fn tree_zip<T: Tree>(mut f: impl FnMut(&Variable, &Variable) -> Variable, a: &T, b: &T) -> T {
    let mut absent = FxHashSet::default();
    b.visit(&mut Visitor::new(&mut |name, x, _| {
        if x.is_absent() {
            absent.insert(name.to_owned());
        }
    }));
    let leaves = Leaves::filtered(a, false, |name, _| !absent.contains(name));
    let others = leaves.matching("tree_zip", ["the first Tree", "the second"], b);
    let pairs = leaves.variables.iter().zip(&others);
    let mapped: Vec<Variable> = pairs.map(|(a, b)| f(a, b)).collect();
    leaves.replaced(a, &mapped)
}

/// Concatenates all leaves of a Tree into one vector, and returns it with the inverse function: for
/// solvers that work on vectors. Frozen parameters are not part of the vector, and do not change.
///
/// Shapes: the leaves, of one float dtype, any → `[n]`. The inverse function makes a Tree of any such
/// vector. Both can be differentiated.
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
/// Panics if there is no leaf, or if their dtypes differ. The inverse function panics if the vector
/// has another length, with the location of the call of `ravel_tree`.
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
        several => concat(several.iter(), 0),
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
