//! Names of parameters in other libraries.

use bibun_array::{Array, DType};

use super::{State, Value};
use crate::error::{Error, raise};

/// The library whose names the parameters and buffers in a [`State`] have.
///
/// | item                            | bibun              | Chainer    | PyTorch               |
/// |---------------------------------|--------------------|------------|-----------------------|
/// | separator of a name's parts     | `/`                | `/`        | `.`                   |
/// | weights, also of an `Embedding` | `weight`           | `W`        | `weight`              |
/// | biases                          | `bias`             | `b`        | `bias`                |
/// | scales of a normalisation       | `gamma`            | `gamma`    | `weight`              |
/// | shifts of a normalisation       | `beta`             | `beta`     | `bias`                |
/// | running mean                    | `running_mean`     | `avg_mean` | `running_mean`        |
/// | running variance (unbiased)     | `running_variance` | `avg_var`  | `running_var`         |
/// | number of batches seen          |                    | `N`        | `num_batches_tracked` |
/// | a [`Dropout`]'s random numbers  | `stream`           |            |                       |
///
/// Everything else has the same name. Shapes and axes are the same everywhere: weights of linear
/// layers are `[outputs, inputs]`, of convolutions `[outputs, inputs / groups, kernel..]`, of
/// transposed ones `[inputs, outputs / groups, kernel..]`. None of the three libraries stores
/// momentum or epsilon; epsilon defaults to 1e-5 in bibun and PyTorch, and in Chainer to 2e-5 for
/// batch normalisation and 1e-6 for layer normalisation.
///
/// [`Dropout`]: crate::links::Dropout
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Names {
    /// The names of the fields: `layers/0/weight`.
    #[default]
    Bibun,
    /// The names in Chainer 7: `layers/0/W`.
    Chainer,
    /// The names in PyTorch's `state_dict`: `layers.0.weight`.
    PyTorch,
}

impl Names {
    pub(crate) const ALL: [Self; 3] = [Self::Bibun, Self::Chainer, Self::PyTorch];

    /// Returns this library's name of the value that is called `name` in bibun, or `None` if the
    /// library has no such value.
    pub(crate) fn of(self, name: &str, value: &Array) -> Option<String> {
        let (path, leaf) = match name.rsplit_once('/') {
            Some((path, leaf)) => (Some(path), leaf),
            None => (None, name),
        };
        if self == Self::Bibun {
            return Some(name.to_owned());
        }
        if leaf == "stream" && is_random(value) {
            return None;
        }
        let leaf = match (self, leaf) {
            (Self::Chainer, "weight") => "W",
            (Self::Chainer, "bias") => "b",
            (Self::Chainer, "running_mean") => "avg_mean",
            (Self::Chainer, "running_variance") => "avg_var",
            (Self::PyTorch, "gamma") => "weight",
            (Self::PyTorch, "beta") => "bias",
            (Self::PyTorch, "running_variance") => "running_var",
            (_, leaf) => leaf,
        };
        Some(match path {
            Some(path) if self == Self::PyTorch => format!("{}.{leaf}", path.replace('/', ".")),
            Some(path) => format!("{path}/{leaf}"),
            None => leaf.to_owned(),
        })
    }

    /// Returns the separator between the parts of a name.
    pub(crate) fn separator(self) -> char {
        match self {
            Self::Bibun | Self::Chainer => '/',
            Self::PyTorch => '.',
        }
    }

    /// Returns the name of the number of batches that belongs to a running mean.
    pub(crate) fn batches(self, name: &str) -> Option<String> {
        let (mean, batches) = match self {
            Self::Bibun => return None,
            Self::Chainer => ("avg_mean", "N"),
            Self::PyTorch => ("running_mean", "num_batches_tracked"),
        };
        let path = name.strip_suffix(mean)?;
        (path.is_empty() || path.ends_with(self.separator())).then(|| format!("{path}{batches}"))
    }
}

/// Returns whether this is the stream of a Dropout.
fn is_random(x: &Array) -> bool {
    x.dtype() == DType::I64 && x.shape()[..] == [2]
}

impl State {
    /// Returns the state of a model under the names that another library has for the same values.
    /// It is complete, so that the library can load it strictly: a number of batches, 0, is added
    /// beside each running mean.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Chain, Linear};
    /// use bibun::serializers::{save_safetensors, Names};
    /// #[derive(Chain)]
    /// struct Mlp {
    ///     layers: Vec<Linear>,
    /// }
    /// let g = &mut Generator::new(0);
    /// let model = Mlp { layers: vec![Linear::new(3, 4, g), Linear::new(4, 2, g)] };
    /// # let folder = std::env::temp_dir().join(format!("bibun-named-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let file = folder.join("model.safetensors");
    /// save_safetensors(&file, &model.state().named(Names::PyTorch))?;
    ///
    /// let state = model.state().named(Names::PyTorch);
    /// let names: Vec<&str> = state.iter().map(|(name, _)| name).collect();
    /// assert_eq!(
    ///     names,
    ///     ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"],
    /// );
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if two values would have one name, as `gamma` and `weight` of one link in PyTorch.
    #[must_use]
    #[track_caller]
    pub fn named(&self, names: Names) -> Self {
        let mut named = Self::new();
        for (own, value) in self.iter() {
            let name = match value {
                Value::Array(x) => names.of(own, x),
                Value::Text(_) => Some(own.to_owned()),
            };
            let Some(name) = name else {
                continue;
            };
            if named.get(&name).is_some() {
                let what =
                    format!("`{own}` would be `{name}` there, which is another value's name");
                raise(Error::argument("named", what));
            }
            let batches = names.batches(&name);
            named.insert(name, value.clone());
            if let Some(batches) = batches {
                named.insert(batches, 0u64);
            }
        }
        named
    }
}
