//! Serializers: the states of models, optimizers and everything else that changes in training, and
//! the files that hold them.
//!
//! | files          | written by                              | read by                                 |
//! |----------------|-----------------------------------------|-----------------------------------------|
//! | `.npz`         | [`save_npz`], [`State::to_npz`]           | [`load_npz`], [`State::from_npz`]         |
//! | `.safetensors` | [`save_safetensors`], [`State::to_safetensors`] | [`load_safetensors`], [`State::from_safetensors`] |
//! | snapshots      | [`save_snapshot`], [`State::to_snapshot`] | [`load_snapshot`], [`State::from_snapshot`] |
//!
//! A file appears under its name complete or not at all. Reading a file with any contents results
//! in a state or an error.
//!
//! ```
//! use bibun::array::Generator;
//! use bibun::links::{Chain, Linear};
//! use bibun::serializers::{load_npz, save_npz};
//!
//! #[derive(Chain)]
//! struct Mlp {
//!     l1: Linear,
//!     l2: Linear,
//! }
//! let new = |seed| {
//!     let g = &mut Generator::new(seed);
//!     Mlp { l1: Linear::new(3, 4, g), l2: Linear::new(4, 2, g) }
//! };
//! # let folder = std::env::temp_dir().join(format!("bibun-serializers-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("mlp.npz");
//!
//! let trained = new(1);
//! save_npz(&file, &trained.state())?; // l1/weight, l1/bias, l2/weight, l2/bias
//!
//! let model = new(2);
//! model.load_state(&load_npz(&file)?)?;
//! assert_eq!(model.state().checksum(), trained.state().checksum());
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Models of Chainer and PyTorch are loaded and saved under their own [`Names`], in whole or in
//! part ([`LoadOptions`]):
//!
//! ```
//! use bibun::links::{BatchNorm, Chain};
//! use bibun::serializers::{LoadOptions, Names, State};
//! let norm = BatchNorm::new(3);
//! let theirs = norm.state().named(Names::Chainer);
//! let names: Vec<&str> = theirs.iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["gamma", "beta", "avg_mean", "N", "avg_var"]);
//! let loaded = norm.load_state_with(&theirs, &LoadOptions::new().names(Names::Chainer))?;
//! assert_eq!(loaded.loaded, ["gamma", "beta", "running_mean", "running_variance"]);
//! # Ok::<(), bibun::serializers::StateError>(())
//! ```

mod checksum;
mod elements;
mod load;
mod names;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "safetensors")]
mod safetensors;
mod state;

pub use bibun_array::{FileError, remove_unfinished, write_whole};
pub(crate) use elements::little_endian;
pub use load::{LoadOptions, Loaded};
pub use names::Names;
#[cfg(feature = "npz")]
pub use npz::{load_npz, load_snapshot, save_npz, save_snapshot};
#[cfg(feature = "safetensors")]
pub use safetensors::{load_safetensors, save_safetensors};
pub(crate) use state::same_spec;
pub use state::{State, StateError, Stateful, Value};
