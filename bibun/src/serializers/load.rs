//! How a State is loaded into a model.

use super::Names;

/// How a model is loaded from a [`State`](super::State) by
/// [`Chain::load_state_with`](crate::links::Chain::load_state_with). If nothing is said, all names
/// are bibun's own, and everything must fit.
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
    /// Whose names the state has.
    pub names: Names,
    /// Where in the state the model is: the part of all names before its own, without the
    /// separator. What is elsewhere is not looked at.
    pub under: Option<String>,
    /// The parts of the model that are loaded, by their names in bibun: `encoder` is all that is in
    /// there. The others stay as they are, and what the state has for these is not looked at. Nothing
    /// stands for the whole model.
    pub only: Option<Vec<String>>,
    /// Whether places of the model may be missing in the state; they stay as they are.
    pub allow_missing: bool,
    /// Whether the state may have what the model has not.
    pub allow_unexpected: bool,
    /// Whether values of another shape or dtype are left out, as if they were missing.
    pub skip_wrong: bool,
    /// Whether floats of one width become those of the other where the model has these.
    pub convert_floats: bool,
}

impl LoadOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whose names the state has. Defaults to bibun's.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// The model is a part of the state: its names stand behind this one, and the rest is not
    /// looked at.
    #[must_use]
    pub fn under(mut self, name: impl Into<String>) -> Self {
        self.under = Some(name.into());
        self
    }

    /// Only these parts of the model are loaded, and all of them.
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

    /// What is missing in the state stays as it is in the model.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// What the model has not is left out.
    #[must_use]
    pub fn allow_unexpected(mut self) -> Self {
        self.allow_unexpected = true;
        self
    }

    /// What has another shape or dtype is left out.
    #[must_use]
    pub fn skip_wrong(mut self) -> Self {
        self.skip_wrong = true;
        self
    }

    /// Floats of one width become those of the other where the model has these.
    #[must_use]
    pub fn convert_floats(mut self) -> Self {
        self.convert_floats = true;
        self
    }
}

/// What [`Chain::load_state_with`](crate::links::Chain::load_state_with) did.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The places of the model that have been loaded, by their names in bibun.
    pub loaded: Vec<String>,
    /// What the model has and the state has not, by its name in the state.
    pub missing: Vec<String>,
    /// What the state has and the model has not, by its name in the state.
    pub unexpected: Vec<String>,
    /// What is of another kind, shape or dtype and was left out, and how.
    pub wrong: Vec<(String, String)>,
}
