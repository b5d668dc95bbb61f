//! Serializers: what is kept of models, optimizers and all that changes in training, and the files
//! it is kept in.

mod state;

pub use state::{State, StateError, Stateful, Value};
