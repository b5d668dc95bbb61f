//! What is kept of things that change: names and values.

use std::fmt;

use bibun_array::{Array, DType};
use indexmap::IndexMap;

use super::Names;
use crate::function::Spec;

/// What has to be kept of something so that it can be put back as it was: arrays and texts by
/// name, in order.
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
    /// Numbers.
    Array(Array),
    /// Words.
    Text(String),
}

/// Something that changes while a program runs, and whose state can be kept and put back.
///
/// What cannot change (sizes, formulae, folders) belongs to the program, not to the state.
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
    /// Everything that has to be known to go on from here.
    fn state(&self) -> State;

    /// Goes back to where `state` was taken.
    ///
    /// # Errors
    /// If the state is of something else; then nothing has changed.
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

/// As many names of each kind are written in the message of an error; of more, the rest is counted.
const LISTED: usize = 8;

/// In what a [`State`] does not fit to what it is loaded into: all of it, not only the first.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StateError {
    /// What is wanted and not there.
    pub missing: Vec<String>,
    /// What is there and not wanted.
    pub unexpected: Vec<String>,
    /// What is there but of another kind, shape or dtype, and how.
    pub wrong: Vec<(String, String)>,
    /// Whose names the state has, if they are another library's than was said.
    pub names_of: Option<Names>,
}

impl State {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a value under a name, in place of one that may have been there.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes a value away, if there is one.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// Puts all values of a part under `name/`.
    pub fn insert_part(&mut self, name: &str, part: State) {
        for (inner, value) in part.0 {
            self.0.insert(format!("{name}/{inner}"), value);
        }
    }

    /// What is under `name/`, with the rest of the names.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        let inner = |(whole, value): (&String, &Value)| {
            let inner = whole.strip_prefix(name)?.strip_prefix('/')?;
            Some((inner.to_owned(), value.clone()))
        };
        Self(self.0.iter().filter_map(inner).collect())
    }

    /// What has a name that satisfies a condition.
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

    /// Loads what is under `name/` into a part of something.
    ///
    /// # Errors
    /// If it does not fit; the error has the whole names.
    pub fn load_part(
        &self,
        name: &str,
        part: &mut (impl Stateful + ?Sized),
    ) -> Result<(), StateError> {
        part.load_state(&self.part(name))
            .map_err(|error| error.within(name))
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// An array.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn array(&self, name: &str) -> Result<&Array, StateError> {
        match self.get(name) {
            Some(Value::Array(array)) => Ok(array),
            Some(Value::Text(_)) => Err(StateError::wrong(name, "is a text, expected an array")),
            None => Err(StateError::missing(name)),
        }
    }

    /// An array of the same shape and dtype as another.
    ///
    /// # Errors
    /// If there is none of this name, shape and dtype.
    pub fn array_like(&self, name: &str, other: &Array) -> Result<&Array, StateError> {
        let array = self.array(name)?;
        same_spec(name, array, other)?;
        Ok(array)
    }

    /// A text.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn text(&self, name: &str) -> Result<&str, StateError> {
        match self.get(name) {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Array(_)) => Err(StateError::wrong(name, "is an array, expected a text")),
            None => Err(StateError::missing(name)),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn number(&self, name: &str) -> Result<f64, StateError> {
        Ok(self.scalar(name, DType::F64)?.item())
    }

    /// A whole number that is not negative, of 64 bits.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn count(&self, name: &str) -> Result<u64, StateError> {
        Ok(self.scalar(name, DType::I64)?.item::<i64>() as u64)
    }

    /// True or false.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn flag(&self, name: &str) -> Result<bool, StateError> {
        Ok(self.scalar(name, DType::Bool)?.item())
    }

    fn scalar(&self, name: &str, dtype: DType) -> Result<&Array, StateError> {
        let like = Array::zeros((), dtype);
        self.array_like(name, &like)
    }
}

/// Whether an array has the shape and dtype that are expected.
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
    /// The 64 bits, as those of an `i64`.
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
    /// One value is not there.
    pub fn missing(name: impl Into<String>) -> Self {
        Self {
            missing: vec![name.into()],
            ..Self::default()
        }
    }

    /// One value is of another kind: `what` goes on after its name.
    pub fn wrong(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            wrong: vec![(name.into(), what.into())],
            ..Self::default()
        }
    }

    /// The same where the whole is a part called `name`.
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

    /// All of another error too.
    pub(crate) fn add(&mut self, other: Self) {
        self.missing.extend(other.missing);
        self.unexpected.extend(other.unexpected);
        self.wrong.extend(other.wrong);
        self.names_of = self.names_of.or(other.names_of);
    }

    /// This error, unless there is nothing in it.
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
