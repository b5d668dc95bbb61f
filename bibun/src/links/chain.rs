//! The Chain: anything with parameters, which are walked by name.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use bibun_array::{Array, Device};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Buffer, Evaluation, Link};
use crate::error::{Error, raise};
use crate::serializers::{LoadOptions, Loaded, Names, State, StateError, Value, same_spec};
use crate::tree::{Held, Leaves, Tree, Visitor, for_tuples};
use crate::variable::Variable;

/// A model: a link, a struct of links that derives it with `#[derive(Chain)]`, a list or a tuple of
/// models, or a single Variable. Every Chain is a [`Tree`], whose leaves are its parameters.
///
/// A parameter is a leaf Variable, made by [`Variable::new`], or, inside a transformation, the
/// Variable that replaces it there. A constant Variable in a Chain is a *buffer*: part of the
/// model's state (running statistics, for example) that is not optimized. Numbers, strings and the
/// like in a Chain are neither, and need no attribute. Clones of a Variable are one parameter: a
/// tied weight is visited in every place, but [`parameters`](Chain::parameters) lists it once, and
/// an optimizer updates it once.
///
/// A [frozen](Chain::freeze) parameter is still a parameter: it is listed, counted, saved and
/// loaded, but it gets no gradient and is not trained.
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
/// assert_eq!(names, ["layers/0/weight", "layers/0/bias", "layers/1/weight", "layers/1/bias", "head/weight", "head/bias"]);
/// assert_eq!(model.parameter_count(), 4 * 3 + 3 + 3 * 3 + 3 + 3 * 2 + 2);
/// ```
pub trait Chain: Tree {
    /// Returns every parameter with its name, such as `layers/0/weight`; a shared one once, by its
    /// first name.
    fn parameters(&self) -> Vec<(String, Variable)> {
        let mut parameters = Vec::new();
        for_each_parameter(self, |name, parameter| {
            parameters.push((name.to_owned(), parameter.clone()));
        });
        parameters
    }

    /// Returns the [parameters](Chain::parameters) that are not frozen: those that an optimizer
    /// updates.
    fn trainable_parameters(&self) -> Vec<(String, Variable)> {
        let mut parameters = self.parameters();
        parameters.retain(|(_, parameter)| !parameter.is_frozen());
        parameters
    }

    /// Freezes all parameters: they get no gradient and no optimizer updates them, until they are
    /// [unfrozen](Chain::unfreeze). A part of a model is a Chain as well, and so is a single
    /// Variable: `model.encoder.freeze()`, `model.encoder.weight.unfreeze()`.
    ///
    /// A computation that uses only frozen parameters records no history: a frozen encoder adds
    /// nothing to the backward pass. Frozen parameters are saved and loaded as usual. A shared
    /// parameter is frozen in every place where it is used. [Buffers](Chain::buffers) are not
    /// affected: the statistics of a `BatchNorm` are still updated in training mode
    /// ([`eval_mode`](crate::eval_mode) prevents that).
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear, Link};
    /// use bibun::optimizers::{Optimizer, Sgd};
    /// use bibun::Variable;
    /// let g = &mut Generator::new(0);
    /// let model = [Linear::new(3, 4, g), Linear::new(4, 2, g)];
    /// model[0].freeze();
    /// let names: Vec<String> = model.trainable_parameters().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["1/weight", "1/bias"]);
    ///
    /// let x = Variable::constant([[1f32, 2.0, 3.0]]);
    /// assert!(!model[0].forward(&x).requires_grad());
    /// let before = model[0].state().checksum();
    /// let loss = || model[1].forward(&model[0].forward(&x).tanh()).square().sum(..);
    /// Sgd::new(0.1).minimize(&model, &mut || loss());
    /// assert_eq!(model[0].state().checksum(), before);
    /// ```
    ///
    /// # Panics
    /// Panics if a parameter is not a leaf, as inside a transformation. Freeze the model
    /// beforehand.
    #[track_caller]
    fn freeze(&self) {
        set_frozen(self, "freeze", true);
    }

    /// Unfreezes all parameters, so that they are trained again. The state that an optimizer holds
    /// for them is unchanged.
    ///
    /// # Panics
    /// Panics if a frozen parameter is not a leaf, as inside a transformation.
    #[track_caller]
    fn unfreeze(&self) {
        set_frozen(self, "unfreeze", false);
    }

    /// Returns every constant Variable with its name: the state of a model that is not optimized.
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

    /// Returns the complete state of the model: parameters and buffers by name, a shared one once,
    /// by its first name.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear};
    /// let [trained, fresh] = [1, 2].map(|seed| Linear::new(3, 2, &mut Generator::new(seed)));
    /// fresh.load_state(&trained.state())?;
    /// assert_eq!(fresh.weight.to_vec::<f32>(), trained.weight.to_vec::<f32>());
    /// # Ok::<(), bibun::serializers::StateError>(())
    /// ```
    #[track_caller]
    fn state(&self) -> State {
        let places = places(self);
        expect_names("state", &places);
        places
            .into_iter()
            .map(|mut place| (place.names.swap_remove(0), place.now))
            .collect()
    }

    /// Returns the trained part of the state: the parameters that are not frozen, for example
    /// adapters beside a frozen model. It has no buffers; if some have changed, [`State::filter`]
    /// can select them from [`state`](Chain::state).
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear};
    /// let new = |seed| {
    ///     let g = &mut Generator::new(seed);
    ///     let model = [Linear::new(3, 4, g), Linear::new(4, 2, g)];
    ///     model[0].freeze();
    ///     model
    /// };
    /// let (tuned, fresh) = (new(1), new(2));
    /// let head = tuned.trainable_state(); // 1/weight, 1/bias
    /// assert_eq!(head.len(), 2);
    /// fresh.load_trainable_state(&head)?;
    /// assert_eq!(fresh[1].state().checksum(), tuned[1].state().checksum());
    /// # Ok::<(), bibun::serializers::StateError>(())
    /// ```
    #[track_caller]
    fn trainable_state(&self) -> State {
        expect_names("trainable_state", &places(self));
        let parameters = self.trainable_parameters().into_iter();
        parameters
            .map(|(name, parameter)| (name, parameter.array()))
            .collect()
    }

    /// Sets the parameters that are not frozen to their values in a
    /// [`trainable_state`](Chain::trainable_state).
    ///
    /// # Errors
    /// Returns an error if the state does not have exactly these parameters; an entry for a frozen
    /// parameter is an error too. Nothing has changed then.
    fn load_trainable_state(&self, state: &State) -> Result<(), StateError> {
        let trainable = |place: &Place| match &place.cell {
            Cell::Leaf(leaf) => !leaf.is_frozen(),
            Cell::Buffer(_) | Cell::Constant => false,
        };
        let mut places = places(self);
        places.retain(trainable);
        load(&places, &[], state, &LoadOptions::new())?;
        Ok(())
    }

    /// Sets parameters and buffers to their values in `state`.
    ///
    /// A constant Variable that is not a [`Buffer`] cannot change: the state must have an equal
    /// value for it.
    ///
    /// # Errors
    /// Returns an error if the state is of another model: the error lists the names that are
    /// missing, unexpected or of another shape or dtype, and nothing has changed.
    fn load_state(&self, state: &State) -> Result<(), StateError> {
        self.load_state_with(state, &LoadOptions::new())?;
        Ok(())
    }

    /// Loads a state that has other names, only a part of one, or one that does not fit everywhere;
    /// see [`LoadOptions`].
    ///
    /// The state may have a tied weight under any of its names, or under several with equal
    /// elements.
    ///
    /// # Errors
    /// Returns an error if there is a difference that the options do not allow; nothing has changed
    /// then.
    fn load_state_with(&self, state: &State, options: &LoadOptions) -> Result<Loaded, StateError> {
        let mut places = places(self);
        let own = places.iter().map(|place| place.names.clone());
        let theirs = places.iter().map(|place| theirs(place, options));
        if let Some(name) = common_name(own).or_else(|| common_name(theirs)) {
            let what = "is the name of two Variables of the model";
            return Err(StateError::wrong(name, what));
        }
        let mut others = Vec::new();
        if let Some(parts) = &options.only {
            check_parts(parts, &places)?;
            let is_wanted = |place: &mut Place| {
                let mut names = place.names.iter();
                names.any(|name| parts.iter().any(|part| is_within(name, part)))
            };
            others = places.extract_if(.., |place| !is_wanted(place)).collect();
        }
        load(&places, &others, state, options)
    }

    /// Clears the gradients of all parameters, before a backward pass that is not to add to them.
    fn clear_grads(&self) {
        for_each_parameter(self, |_, parameter| parameter.clear_grad());
    }

    /// Moves every parameter, with its gradient, and every [`Buffer`] to a device. The parameters
    /// stay the same Variables: an optimizer continues with them, and its state for them follows.
    ///
    /// Values computed before stay on their device.
    ///
    /// ```
    /// use bibun::array::{cpu, Generator};
    /// use bibun::links::{Chain, Linear};
    /// let model = Linear::new(3, 2, &mut Generator::new(0));
    /// model.to(cpu());
    /// assert!(model.weight.device() == cpu());
    /// ```
    ///
    /// # Panics
    /// Panics if anything that is neither a parameter nor a Buffer is on another device, because it
    /// cannot be moved: a constant in the model or, inside a transformation, the parameters. Move
    /// the model beforehand.
    #[track_caller]
    fn to(&self, device: &'static dyn Device) {
        let places = places(self);
        for place in &places {
            let moves = place.now.memory().is_some() && place.now.device() != device;
            if matches!(place.cell, Cell::Constant) && moves {
                let what = format!(
                    "`{}` is neither a parameter nor a Buffer, and cannot be moved",
                    place.names[0]
                );
                raise(Error::argument("to", what));
            }
        }
        for place in places {
            match place.cell {
                Cell::Leaf(leaf) => {
                    leaf.set_array(place.now.to(device));
                    if let Some(gradient) = leaf.grad() {
                        leaf.set_grad(&gradient.to(device));
                    }
                }
                Cell::Buffer(buffer) => buffer.set(place.now.to(buffer.place(device))),
                Cell::Constant => {}
            }
        }
    }

    /// Returns the number of elements of all parameters together, including frozen ones.
    fn parameter_count(&self) -> usize {
        let mut count = 0;
        for_each_parameter(self, |_, parameter| count += parameter.size());
        count
    }

    /// Returns the number of elements of the parameters that are not frozen.
    fn trainable_parameter_count(&self) -> usize {
        let parameters = self.trainable_parameters();
        parameters
            .iter()
            .map(|(_, parameter)| parameter.size())
            .sum()
    }

    /// Sets the gradients of the parameters to those that [`value_and_grad`](crate::value_and_grad)
    /// returned, for an optimizer to use. They replace the accumulated ones. Frozen parameters keep
    /// theirs.
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
    /// Panics if a parameter that is not frozen is not a leaf, or if its gradient is missing or has
    /// another shape or dtype.
    #[track_caller]
    fn set_gradients(&self, gradients: &Self)
    where
        Self: Sized,
    {
        let leaves = Leaves::trainable(self);
        let gradients = leaves.matching("set_gradients", ["the model", "the gradient"], gradients);
        for (parameter, gradient) in leaves.variables.iter().zip(&gradients) {
            parameter.set_grad(gradient);
        }
    }
}

macro_rules! chains {
    ($([$($T:ident)*] $Type:ty;)+) => {
        $(impl<$($T: Chain),*> Chain for $Type {})+
    };
}
chains! {
    [] Variable;
    [] Buffer;
    [] Box<dyn Link>;
    [] ();
    [T] Option<T>;
    [T] Vec<T>;
    [T] Box<T>;
    [T] Rc<T>;
    [T] Arc<T>;
}
macro_rules! tuple_chains {
    ($(($($T:ident $position:tt),*))*) => {
        $(impl<$($T: Chain),*> Chain for ($($T,)*) {})*
    };
}
for_tuples!(tuple_chains);
impl<T: Chain, const N: usize> Chain for [T; N] {}
impl<K: fmt::Display + Clone + Ord, T: Chain> Chain for BTreeMap<K, T> {}
impl<K, T: Chain, S> Chain for HashMap<K, T, S>
where
    K: fmt::Display + Clone + Ord + Hash,
    S: BuildHasher + Default + Clone,
{
}
impl<M: Chain> Chain for Evaluation<M> {}

/// A place in a model's state.
struct Place {
    /// All its names, in order: several if it is shared.
    names: Vec<String>,
    now: Array,
    cell: Cell,
}

/// The holder of the elements of a [`Place`].
enum Cell {
    Leaf(Variable),
    Buffer(Buffer),
    /// A constant, which cannot be changed.
    Constant,
}

/// Returns the places of a model's state, each shared one once.
fn places<C: Chain + ?Sized>(chain: &C) -> Vec<Place> {
    let mut seen = FxHashMap::default();
    let mut places: Vec<Place> = Vec::new();
    chain.visit(&mut Visitor::of_places(&mut |name, held, _| {
        let (x, cell) = match held {
            Held::Variable(x) if x.is_absent() => return,
            Held::Variable(x) if x.is_leaf() => (x.clone(), Cell::Leaf(x.clone())),
            Held::Variable(x) => (x.clone(), Cell::Constant),
            Held::Buffer(buffer) => (buffer.get(), Cell::Buffer(buffer.clone())),
        };
        let at = *seen.entry(x.identity()).or_insert(places.len());
        match places.get_mut(at) {
            Some(place) => place.names.push(name.to_owned()),
            None => places.push(Place {
                names: vec![name.to_owned()],
                now: x.array(),
                cell,
            }),
        }
    }));
    places
}

/// Returns a name that several places have, of the names of each.
fn common_name(names: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let mut seen = FxHashMap::default();
    let names = names.enumerate();
    let mut names = names.flat_map(|(at, own)| own.into_iter().map(move |name| (at, name)));
    names.find_map(|(at, name)| {
        let is_own = *seen.entry(name.clone()).or_insert(at) == at;
        (!is_own).then_some(name)
    })
}

/// Checks that names tell the places apart.
#[track_caller]
fn expect_names(function: &'static str, places: &[Place]) {
    let own = places.iter().map(|place| place.names.clone());
    if let Some(name) = common_name(own) {
        let what = format!(
            "two Variables of the model are named `{name}`, of which a state can have only one; there may be a `/` in \
             a key of a map"
        );
        raise(Error::argument(function, what));
    }
}

/// Returns whether this is the name of a part or of something in it.
fn is_within(name: &str, part: &str) -> bool {
    let rest = name.strip_prefix(part);
    part.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks that the model has every part that is to be loaded.
fn check_parts(parts: &[String], places: &[Place]) -> Result<(), StateError> {
    let names = places.iter().flat_map(|place| &place.names);
    let unknown = parts
        .iter()
        .filter(|part| !names.clone().any(|name| is_within(name, part)));
    let unknown = unknown.map(|part| (part.clone(), "is no part of the model".to_owned()));
    StateError {
        wrong: unknown.collect(),
        ..StateError::default()
    }
    .or_ok()
}

/// Loads these places. Entries of the state for `others` are ignored.
fn load(
    places: &[Place],
    others: &[Place],
    state: &State,
    options: &LoadOptions,
) -> Result<Loaded, StateError> {
    let mut found = Vec::new();
    let mut loaded = Loaded::default();
    let mut wanted = FxHashSet::default();
    for place in others {
        wanted.extend(theirs(place, options));
    }
    for (at, place) in places.iter().enumerate() {
        let names = theirs(place, options);
        let batches = names.iter().filter_map(|name| options.names.batches(name));
        wanted.extend(batches);
        match find(place, &names, state, options) {
            Ok(Some(x)) => {
                loaded.loaded.push(place.names[0].clone());
                found.push((at, x));
            }
            // The other library has nothing that corresponds to this place.
            Ok(None) => {}
            Err(error) => {
                loaded.missing.extend(error.missing);
                loaded.wrong.extend(error.wrong);
            }
        }
        wanted.extend(names);
    }
    let prefix = options.under.as_ref();
    let prefix = prefix.map_or_else(String::new, |under| {
        format!("{under}{}", options.names.separator())
    });
    for (name, value) in state.iter() {
        let is_remark = is_remark(value, options);
        if name.starts_with(&prefix) && !wanted.contains(name) && !is_remark {
            loaded.unexpected.push(name.to_owned());
        }
    }
    let refused = |list: &[String], allowed| match allowed {
        true => Vec::new(),
        false => list.to_vec(),
    };
    StateError {
        missing: refused(&loaded.missing, options.allow_missing),
        unexpected: refused(&loaded.unexpected, options.allow_unexpected),
        wrong: match options.skip_wrong {
            true => Vec::new(),
            false => loaded.wrong.clone(),
        },
        names_of: match loaded.missing.is_empty() || options.allow_missing {
            true => None,
            false => names_of(state, places, options),
        },
    }
    .or_ok()?;
    for (at, x) in found {
        match &places[at].cell {
            Cell::Leaf(leaf) => leaf.set_array(x.to(places[at].now.device()).to_row_major()),
            Cell::Buffer(buffer) => buffer.set(x.to(places[at].now.device())),
            Cell::Constant => {}
        }
    }
    Ok(loaded)
}

/// Returns the library whose names the state seems to have: one under whose names more of the model
/// is found than under those of the options.
fn names_of(state: &State, places: &[Place], options: &LoadOptions) -> Option<Names> {
    let found = |names: Names| {
        let options = LoadOptions {
            names,
            under: options.under.clone(),
            ..LoadOptions::new()
        };
        let is_there = |place: &&Place| {
            let mut names = theirs(place, &options).into_iter();
            names.any(|name| state.get(&name).is_some())
        };
        places.iter().filter(is_there).count()
    };
    let best = Names::ALL.into_iter().max_by_key(|&names| found(names))?;
    (found(best) > found(options.names)).then_some(best)
}

/// Returns whether this entry is not part of a model. The header of a PyTorch file has texts, under
/// names of their own or under those of tied weights that it leaves out.
fn is_remark(value: &Value, options: &LoadOptions) -> bool {
    options.names == Names::PyTorch && matches!(value, Value::Text(_))
}

/// Returns the names of a place in a state.
fn theirs(place: &Place, options: &LoadOptions) -> Vec<String> {
    let names = place.names.iter();
    let theirs = names.filter_map(|name| options.names.of(name, &place.now));
    let whole = |name| match &options.under {
        Some(under) => format!("{under}{}{name}", options.names.separator()),
        None => name,
    };
    theirs.map(whole).collect()
}

/// Returns the value that a state has for a place, under one of its names there or under several.
fn find(
    place: &Place,
    names: &[String],
    state: &State,
    options: &LoadOptions,
) -> Result<Option<Array>, StateError> {
    let Some(first) = names.first() else {
        return Ok(None);
    };
    let mut found: Option<(&str, Array)> = None;
    let is_there = |name: &&String| {
        let value = state.get(name);
        value.is_some_and(|value| !is_remark(value, options))
    };
    for name in names.iter().filter(is_there) {
        let x = match state.array(name)? {
            x if options.convert_floats && x.dtype().is_float() && place.now.dtype().is_float() => {
                x.cast(place.now.dtype())
            }
            x => x.clone(),
        };
        same_spec(name, &x, &place.now)?;
        match &found {
            Some((first, other)) if !other.has_same_bits(&x) => {
                let what = format!("is not equal to `{first}`, with which it is tied");
                return Err(StateError::wrong(name, what));
            }
            Some(_) => {}
            None => found = Some((name, x)),
        }
    }
    let (name, x) = found.ok_or_else(|| StateError::missing(first))?;
    match place.cell {
        Cell::Constant if !x.has_same_bits(&place.now) => Err(StateError::wrong(
            name,
            "is another constant, expected the same or a `Buffer` in the model",
        )),
        _ => Ok(Some(x)),
    }
}

/// Calls `f` with every parameter and its name, once for a shared one.
pub(crate) fn for_each_parameter<C: Chain + ?Sized>(chain: &C, mut f: impl FnMut(&str, &Variable)) {
    let mut seen = FxHashSet::default();
    chain.visit(&mut Visitor::new(&mut |name, x, _| {
        if !x.is_plain_constant() && !x.is_absent() && seen.insert(x.identity()) {
            f(name, x);
        }
    }));
}

/// Freezes or unfreezes every parameter, or none if one is not a leaf.
#[track_caller]
fn set_frozen<C: Chain + ?Sized>(chain: &C, function: &'static str, frozen: bool) {
    let mut parameters = chain.parameters();
    parameters.retain(|(_, parameter)| parameter.is_frozen() != frozen);
    for (name, parameter) in &parameters {
        if !parameter.is_leaf() {
            let what = format!(
                "the parameter `{name}` is no leaf; freeze and unfreeze models outside of \
                 transformations"
            );
            raise(Error::argument(function, what));
        }
    }
    for (_, parameter) in &parameters {
        parameter.set_requires_grad(!frozen);
    }
}
