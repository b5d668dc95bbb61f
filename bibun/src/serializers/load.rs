//! Options for loading a State into a model.

use super::Names;

/// Options of [`Chain::load_state_with`](crate::links::Chain::load_state_with), which loads a model
/// from a [`State`](super::State). By default, all names are bibun's own, and everything must fit.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Chain, Linear};
/// use bibun::serializers::{LoadOptions, Names, State};
/// use bibun::array::{Array, DType};
/// #[derive(Chain)]
/// struct Mlp {
///     body: Linear,
///     head: Linear,
/// }
/// let g = &mut Generator::new(0);
/// let model = Mlp { body: Linear::new(3, 4, g), head: Linear::new(4, 2, g) };
///
/// // All but the head, out of a file of Chainer.
/// let mut state = State::new();
/// state.insert("updater/model:main/body/W", Array::zeros([4, 3], DType::F32));
/// state.insert("updater/model:main/body/b", Array::ones(4, DType::F32));
/// state.insert("updater/iteration", 600u64);
/// let options = LoadOptions::new().names(Names::Chainer).under("updater/model:main").allow_missing();
/// let loaded = model.load_state_with(&state, &options)?;
/// assert_eq!(loaded.loaded, ["body/weight", "body/bias"]);
/// assert_eq!(loaded.missing, ["updater/model:main/head/W", "updater/model:main/head/b"]);
/// assert_eq!(model.body.bias.unwrap().to_vec::<f32>(), [1.0; 4]);
/// # Ok::<(), bibun::serializers::StateError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct LoadOptions {
    /// The library whose names the state has.
    pub names: Names,
    /// The part of all names in the state that comes before the model's own, without the separator.
    /// Entries elsewhere in the state are ignored.
    pub under: Option<String>,
    /// The parts of the model that are loaded, by their names in bibun: `encoder` stands for
    /// everything in it. The other parts keep their values, and entries of the state for them are
    /// ignored. `None` stands for the whole model.
    pub only: Option<Vec<String>>,
    /// Whether places of the model may be missing in the state; they keep their values.
    pub allow_missing: bool,
    /// Whether the state may have entries that the model does not have.
    pub allow_unexpected: bool,
    /// Whether values of another shape or dtype are skipped, as if they were missing.
    pub skip_wrong: bool,
    /// Whether floats are converted to the width that the model has.
    pub convert_floats: bool,
}

impl LoadOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the library whose names the state has. Defaults to bibun.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// Sets the name under which the model is in the state: its names follow this one, and the rest
    /// of the state is ignored.
    #[must_use]
    pub fn under(mut self, name: impl Into<String>) -> Self {
        self.under = Some(name.into());
        self
    }

    /// Loads only these parts of the model, and each of them entirely.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear};
    /// use bibun::serializers::LoadOptions;
    /// let new = |seed| [3, 4].map(|n| Linear::new(n, 2, &mut Generator::new(seed)));
    /// let (trained, fresh) = (new(1), new(2));
    /// let loaded = fresh.load_state_with(&trained.state(), &LoadOptions::new().only(["1"]))?;
    /// assert_eq!(loaded.loaded, ["1/weight", "1/bias"]);
    /// # Ok::<(), bibun::serializers::StateError>(())
    /// ```
    #[must_use]
    pub fn only<N: Into<String>>(mut self, parts: impl IntoIterator<Item = N>) -> Self {
        self.only = Some(parts.into_iter().map(Into::into).collect());
        self
    }

    /// Allows places of the model to be missing in the state; they keep their values.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// Allows entries of the state that the model does not have; they are ignored.
    #[must_use]
    pub fn allow_unexpected(mut self) -> Self {
        self.allow_unexpected = true;
        self
    }

    /// Skips values of another shape or dtype.
    #[must_use]
    pub fn skip_wrong(mut self) -> Self {
        self.skip_wrong = true;
        self
    }

    /// Converts floats to the width that the model has.
    #[must_use]
    pub fn convert_floats(mut self) -> Self {
        self.convert_floats = true;
        self
    }
}

/// The result of [`Chain::load_state_with`](crate::links::Chain::load_state_with).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The places of the model that have been loaded, by their names in bibun.
    pub loaded: Vec<String>,
    /// The places that the model has and the state does not, by their names in the state.
    pub missing: Vec<String>,
    /// The entries that the state has and the model does not, by their names in the state.
    pub unexpected: Vec<String>,
    /// The entries of another kind, shape or dtype that were skipped, each with a description.
    pub wrong: Vec<(String, String)>,
}
