//! Training over several processes and machines.
//!
//! A [`Communicator`] is what one process knows of the others: how many there are, which of them it is, and
//! how arrays go from one to the other. A [`Transport`] carries the messages: between threads of one process
//! ([`local`]), or between processes by MPI (the crate `bibun-mpi`). Everything above it is the same code:
//! collectives, also as functions with derivatives ([`all_reduce`](crate::functions::all_reduce) and its
//! kin), [`DataParallel`] around an optimizer, data that is divided by
//! [`DataLoader::shard`](crate::datasets::DataLoader::shard), statistics of a batch over all processes.
//!
//! ```
//! use bibun::optimizers::{Optimizer, Sgd};
//! use bibun::parallel::{DataParallel, local};
//! use bibun::{array::Array, Variable};
//!
//! // Each process has half of the examples; all end with the same parameters.
//! let results = local::run(2, |world| {
//!     let own = [[1.0, 2.0], [3.0, 6.0]][world.rank()];
//!     let (w, x) = (Variable::new(0.0), Variable::constant(Array::from(own)));
//!     let mut optimizer = DataParallel::new(Sgd::new(0.05), &world);
//!     for _ in 0..50 {
//!         optimizer.minimize(&w, &mut || (&w * &x - 2.0 * &x).square().mean(..));
//!     }
//!     w.item::<f64>()
//! });
//! assert_eq!(results[0], results[1]);
//! assert!((results[0] - 2.0).abs() < 1e-6);
//! ```
//!
//! # Sums
//!
//! Sums are formed in the order of the ranks, whatever arrives first: each process adds up one part of the
//! elements, and all gather the parts. That sends 2 (n - 1) / n times the array from each process, which is
//! the least possible. So results have the same bits in every run. 16-bit floats are added in `f32` and
//! rounded once.
//!
//! # Derivatives
//!
//! What is differentiated is the *sum* of the losses of all processes, so that a collective is a linear map
//! of the values of all processes, with its transpose as the gradient. A loss that every process computes as
//! a whole counts once in each.
//!
//! # Faults
//!
//! Every wait ends: with what was waited for, with an error that names the process that ended, or that is
//! somewhere else in the program, or with an error after the time of [`Communicator::set_timeout`]. All
//! processes take part in the same collectives in the same order; each message says what it belongs to, and
//! the receiver compares.

mod buckets;
mod bytes;
mod communicator;
mod data_parallel;
mod engine;
pub mod local;
mod sharded;
mod transport;

pub use communicator::{Communicator, Pending, Traffic};
pub use data_parallel::DataParallel;
pub use transport::{Message, Transport};
