//! Data sets, and how they become batches.
//!
//! A [`Dataset`] is examples by index. It may be in memory (an [`Array`](crate::array::Array) whose
//! first axis counts examples, a tuple of them, a `Vec`), be read when it is needed, or be drawn by
//! the program like [`Digits`]. [`Collate`] defines how examples become a batch. [`DataLoader`]
//! iterates over a data set, in random order and on threads if wanted, and can be saved and
//! resumed.
//!
//! ```
//! use bibun::array::Array;
//! use bibun::datasets::{DataLoader, Dataset};
//! let x = Array::arange(0, 10).reshape([10, 1]);
//! let t = Array::arange(0, 10);
//! let [train, test] = (x, t).shuffled_split([0.8, 0.2], 0);
//! let mut batches = DataLoader::new(train, 4).shuffle(1);
//! while batches.epoch() < 2 {
//!     let (x, t) = batches.next_batch()?;
//!     assert_eq!((x.shape(), t.shape()), (&[4, 1].into(), &[4].into()));
//! }
//! assert_eq!(test.len(), 2);
//! # Ok::<(), bibun::datasets::DataError>(())
//! ```

mod collate;
mod data_loader;
mod dataset;
mod digits;
#[cfg(feature = "download")]
pub mod download;
mod error;
#[cfg(feature = "images")]
mod image_folder;
mod labeled_images;
mod memory;
mod mnist;
#[cfg(feature = "npz")]
mod npz;
pub mod splits;
#[cfg(feature = "csv")]
mod table;
pub mod transforms;

pub use collate::{Collate, Padded, Sequence};
pub use data_loader::DataLoader;
pub use dataset::{Batch, Chained, Dataset, Mapped, Subset};
pub use digits::Digits;
pub use error::DataError;
#[cfg(feature = "images")]
pub use image_folder::ImageFolder;
pub use labeled_images::{LabeledImages, Planes};
pub use mnist::{IdxError, Mnist, fashion_mnist, mnist};
#[cfg(feature = "npz")]
pub use npz::npz;
#[cfg(feature = "csv")]
pub use table::{Classes, Column, Csv, LabeledTable, Table};
