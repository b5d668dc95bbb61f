//! The state of things that change, as names and values.

use std::fmt;

use bibun_array::{Array, DType};
use indexmap::IndexMap;

use super::Names;
use crate::function::Spec;

/// The state of something that changes, from which it can be restored: arrays and texts by name, in
/// order.
///
/// Parts have names with a slash: the state of `optimizer` is under `optimizer/`. Numbers are
/// arrays of rank 0.
///
/// ```
/// use bibun::serializers::State;
/// let mut state = State::new();
/// state.insert("epoch", 3u64);
/// state.insert("name", "first run");
/// let mut whole = State::new();
/// whole.insert_part("trainer", state);
/// assert_eq!(whole.count("trainer/epoch")?, 3);
/// assert_eq!(whole.part("trainer").text("name")?, "first run");
/// assert_eq!(whole.text("title").unwrap_err().to_string(), "the state does not fit: `title` is missing");
/// # Ok::<(), bibun::serializers::StateError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct State(IndexMap<String, Value>);

/// One value of a [`State`].
#[derive(Clone, Debug)]
pub enum Value {
    /// An array, or a number as an array of rank 0.
    Array(Array),
    /// A text.
    Text(String),
}

/// Something that changes while a program runs, and whose state can be saved and restored.
///
/// Settings that cannot change (sizes, formulas, folders) belong to the program, not to the state.
///
/// ```
/// use bibun::serializers::{State, StateError, Stateful};
/// struct Counter(u64);
/// impl Stateful for Counter {
///     fn state(&self) -> State {
///         [("count", self.0)].into_iter().collect()
///     }
///     fn load_state(&mut self, state: &State) -> Result<(), StateError> {
///         self.0 = state.count("count")?;
///         Ok(())
///     }
/// }
/// let (old, mut new) = (Counter(5), Counter(0));
/// new.load_state(&old.state())?;
/// assert_eq!(new.0, 5);
/// # Ok::<(), StateError>(())
/// ```
pub trait Stateful {
    /// Returns everything that is needed to continue from here.
    #[track_caller]
    fn state(&self) -> State;

    /// Restores the state that was taken.
    ///
    /// # Errors
    /// Returns an error if the state is of something else; nothing has changed then.
    #[track_caller]
    fn load_state(&mut self, state: &State) -> Result<(), StateError>;
}

impl<T: Stateful + ?Sized> Stateful for Box<T> {
    fn state(&self) -> State {
        (**self).state()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        (**self).load_state(state)
    }
}

/// The number of names of each kind that an error message lists; the rest are counted.
const LISTED: usize = 8;

/// The ways in which a [`State`] does not fit what it is loaded into: all of them, not only the
/// first.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StateError {
    /// The names that are expected and absent.
    pub missing: Vec<String>,
    /// The names that are present and not expected.
    pub unexpected: Vec<String>,
    /// The names that are present with another kind, shape or dtype, each with a description.
    pub wrong: Vec<(String, String)>,
    /// The library whose names the state seems to have, if it is not the one that the options say.
    pub names_of: Option<Names>,
}

impl State {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Inserts a value under a name, replacing the previous one if there is one.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Removes a value and returns it, if there is one.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// Inserts all values of a part under `name/`.
    pub fn insert_part(&mut self, name: &str, part: State) {
        for (inner, value) in part.0 {
            self.0.insert(format!("{name}/{inner}"), value);
        }
    }

    /// Returns the part under `name/`, with the rest of the names.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        let inner = |(whole, value): (&String, &Value)| {
            let inner = whole.strip_prefix(name)?.strip_prefix('/')?;
            Some((inner.to_owned(), value.clone()))
        };
        Self(self.0.iter().filter_map(inner).collect())
    }

    /// Returns the values whose names satisfy a condition.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear};
    /// let layers = [2, 3].map(|n| Linear::new(n, 2, &mut Generator::new(0)));
    /// let weights = layers.state().filter(|name| name.ends_with("/weight"));
    /// assert_eq!(weights.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["0/weight", "1/weight"]);
    /// ```
    #[must_use]
    pub fn filter(&self, mut wanted: impl FnMut(&str) -> bool) -> Self {
        let values = self.0.iter().filter(|(name, _)| wanted(name));
        Self(
            values
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }

    /// Loads the part under `name/` into a part of something.
    ///
    /// # Errors
    /// Returns an error if it does not fit; the error has the full names.
    pub fn load_part(
        &self,
        name: &str,
        part: &mut (impl Stateful + ?Sized),
    ) -> Result<(), StateError> {
        part.load_state(&self.part(name))
            .map_err(|error| error.within(name))
    }

    /// Returns an iterator over names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the array of a name.
    ///
    /// # Errors
    /// Returns an error if there is no array of this name.
    pub fn array(&self, name: &str) -> Result<&Array, StateError> {
        match self.get(name) {
            Some(Value::Array(array)) => Ok(array),
            Some(Value::Text(_)) => Err(StateError::wrong(name, "is a text, expected an array")),
            None => Err(StateError::missing(name)),
        }
    }

    /// Returns the array of a name, which must have the same shape and dtype as another.
    ///
    /// # Errors
    /// Returns an error if there is no array of this name, shape and dtype.
    pub fn array_like(&self, name: &str, other: &Array) -> Result<&Array, StateError> {
        let array = self.array(name)?;
        same_spec(name, array, other)?;
        Ok(array)
    }

    /// Returns the text of a name.
    ///
    /// # Errors
    /// Returns an error if there is no text of this name.
    pub fn text(&self, name: &str) -> Result<&str, StateError> {
        match self.get(name) {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Array(_)) => Err(StateError::wrong(name, "is an array, expected a text")),
            None => Err(StateError::missing(name)),
        }
    }

    /// Returns the number of a name.
    ///
    /// # Errors
    /// Returns an error if there is no number of this name.
    pub fn number(&self, name: &str) -> Result<f64, StateError> {
        Ok(self.scalar(name, DType::F64)?.item())
    }

    /// Returns the count of a name: a whole number of 64 bits that is not negative.
    ///
    /// # Errors
    /// Returns an error if there is no count of this name.
    pub fn count(&self, name: &str) -> Result<u64, StateError> {
        Ok(self.scalar(name, DType::I64)?.item::<i64>() as u64)
    }

    /// Returns the truth value of a name.
    ///
    /// # Errors
    /// Returns an error if there is no truth value of this name.
    pub fn flag(&self, name: &str) -> Result<bool, StateError> {
        Ok(self.scalar(name, DType::Bool)?.item())
    }

    fn scalar(&self, name: &str, dtype: DType) -> Result<&Array, StateError> {
        let like = Array::zeros((), dtype);
        self.array_like(name, &like)
    }
}

/// Checks that an array has the expected shape and dtype.
pub(crate) fn same_spec(name: &str, array: &Array, other: &Array) -> Result<(), StateError> {
    let [found, expected] = [array, other].map(|x| Spec::new(x.shape(), x.dtype()));
    match found == expected {
        true => Ok(()),
        false => {
            let are_floats = found.dtype.is_float() && expected.dtype.is_float();
            let hint = match are_floats && found.shape == expected.shape {
                true => " (`LoadOptions::convert_floats` converts it)",
                false => "",
            };
            let what = format!("is {found}, expected {expected}{hint}");
            Err(StateError::wrong(name, what))
        }
    }
}

impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for State {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(values: I) -> Self {
        let values = values.into_iter();
        Self(
            values
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl IntoIterator for State {
    type Item = (String, Value);
    type IntoIter = indexmap::map::IntoIter<String, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Self {
        Self::Array(array)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Array(Array::scalar(number))
    }
}

impl From<u64> for Value {
    /// Stores the 64 bits as those of an `i64`.
    fn from(count: u64) -> Self {
        Self::Array(Array::scalar(count as i64))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Array(Array::scalar(flag))
    }
}

impl StateError {
    /// Creates the error that one value is missing.
    pub fn missing(name: impl Into<String>) -> Self {
        Self {
            missing: vec![name.into()],
            ..Self::default()
        }
    }

    /// Creates the error that one value is of another kind: in the message, `what` follows its
    /// name.
    pub fn wrong(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            wrong: vec![(name.into(), what.into())],
            ..Self::default()
        }
    }

    /// Returns the same error for a state in which this one is a part called `name`.
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        let wrong = self.wrong.iter_mut().map(|(inner, _)| inner);
        for inner in self
            .missing
            .iter_mut()
            .chain(&mut self.unexpected)
            .chain(wrong)
        {
            *inner = format!("{name}/{inner}");
        }
        self
    }

    /// Adds the contents of another error.
    pub(crate) fn add(&mut self, other: Self) {
        self.missing.extend(other.missing);
        self.unexpected.extend(other.unexpected);
        self.wrong.extend(other.wrong);
        self.names_of = self.names_of.or(other.names_of);
    }

    /// Returns this error, or `Ok` if it is empty.
    pub(crate) fn or_ok(self) -> Result<(), Self> {
        match self == Self::default() {
            true => Ok(()),
            false => Err(self),
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| {
            let listed = names.iter().take(LISTED).map(|name| format!("`{name}`"));
            let mut listed: Vec<String> = listed.collect();
            if let more @ 1.. = names.len().saturating_sub(LISTED) {
                listed.push(format!("{more} more"));
            }
            let verb = if names.len() == 1 { "is" } else { "are" };
            (!names.is_empty()).then(|| format!("{} {verb}", listed.join(", ")))
        };
        let names = self.names_of.map(|names| {
            format!(
                "its names are those of {names:?} (load_state_with takes them, with \
                 LoadOptions::new().names(Names::{names:?}))"
            )
        });
        let missing = list(&self.missing).map(|names| format!("{names} missing"));
        let unexpected = list(&self.unexpected).map(|names| format!("{names} unexpected"));
        let wrong = self.wrong.iter().take(LISTED);
        let wrong = wrong.map(|(name, what)| format!("`{name}` {what}"));
        let more = match self.wrong.len().saturating_sub(LISTED) {
            0 => None,
            more => Some(format!("{more} more are wrong")),
        };
        let parts = names.into_iter().chain(missing).chain(unexpected);
        let parts: Vec<String> = parts.chain(wrong).chain(more).collect();
        write!(f, "the state does not fit: {}", parts.join("; "))
    }
}

impl std::error::Error for StateError {}
