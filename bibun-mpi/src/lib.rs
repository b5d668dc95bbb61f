//! bibun over many processes and machines, by MPI.
//!
//! [`init`] makes the [`Communicator`] of all processes that `mpiexec` has started. All the rest is in
//! [`bibun::parallel`]: collectives, [`DataParallel`](bibun::parallel::DataParallel), divided data.
//!
//! ```no_run
//! use bibun::optimizers::{Optimizer, Sgd};
//! use bibun::parallel::DataParallel;
//! use bibun::Variable;
//!
//! let world = bibun_mpi::init()?;
//! let w = Variable::new(0.0);
//! let mut optimizer = DataParallel::new(Sgd::new(0.1), &world);
//! optimizer.minimize(&w, &mut || (&w - world.rank() as f64).square());
//! if world.is_first() {
//!     println!("{w}");
//! }
//! # Ok::<(), bibun_mpi::InitError>(())
//! ```
//!
//! MPI carries messages from process to process, on a thread that does nothing else, so they travel while the
//! program computes. What is added up, and in which order, is bibun's own, so the bits do not depend on the
//! MPI or on the network. See the README for what has to be installed, and for machines.

#![warn(missing_docs)]

mod transport;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};

use bibun::parallel::Communicator;
use mpi::Threading;

use transport::Mpi;

/// The reason why there is no communication by MPI.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// MPI can be started once in a process.
    #[error(
        "MPI has been started in this process before, and it can be started once; pass the Communicator on"
    )]
    Again,
    /// The MPI cannot be used with threads.
    #[error(
        "this MPI ({library}) does not allow a program with threads (it supports {found}, FUNNELED is needed)"
    )]
    NoThreads {
        /// The MPI.
        library: String,
        /// What it supports.
        found: String,
    },
    /// The processes were started by the `mpiexec` of another MPI, so that each of them is alone.
    #[error(
        "this process is one of {started}, but MPI ({library}) finds it alone: it was started by the mpiexec \
         of another MPI than the one that it was built with"
    )]
    OtherMpi {
        /// The number of processes that were started.
        started: usize,
        /// The MPI of this program.
        library: String,
    },
}

/// Starts MPI, and returns the communicator of all processes that `mpiexec` has started. A program that was
/// started without `mpiexec` is alone, and works as well.
///
/// When the last clone of the communicator is dropped, the process waits for the others to end as well, as
/// MPI asks; after an error or a panic it does not wait, and `mpiexec` ends the others.
///
/// # Errors
/// Returns an error if MPI has been started before, does not allow threads, or was started by the `mpiexec`
/// of another MPI.
pub fn init() -> Result<Communicator, InitError> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::SeqCst) || mpi::is_initialized() {
        return Err(InitError::Again);
    }
    Communicator::new(|| {
        // The thread that starts MPI is the one that uses it.
        let (universe, found) = transport::initialize().ok_or(InitError::Again)?;
        let transport = Mpi::new(universe);
        let library = || mpi::environment::library_version().unwrap_or_default();
        let first_line = || {
            library()
                .lines()
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        if found < Threading::Funneled {
            return Err(InitError::NoThreads {
                library: first_line(),
                found: format!("{found:?}"),
            });
        }
        let started = started();
        if transport.count() == 1 && started > 1 {
            return Err(InitError::OtherMpi {
                started,
                library: first_line(),
            });
        }
        Ok(Box::new(transport) as _)
    })
}

/// Returns the number of processes that an `mpiexec` says to have started; 1 if it says nothing.
fn started() -> usize {
    let of_open_mpi_and_mpich = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
    let size = |name| env::var(name).ok()?.parse().ok();
    of_open_mpi_and_mpich
        .into_iter()
        .find_map(size)
        .unwrap_or(1)
}
