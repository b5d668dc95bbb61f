//! What has been computed lately, and what was made for it when it came again.

use crate::shape::Strides;
use crate::{Array, DType, Shape};

/// The number of entries.
const KEPT: usize = 64;

/// Keys, each with what was made for it if it came a second time; the latest last.
pub(crate) struct Recent<K, V> {
    entries: Vec<(K, Option<V>)>,
}

/// What is known of a key.
pub(crate) enum Seen<V> {
    /// It comes for the first time, or for the first time since long.
    Never,
    /// It has come before, and nothing has been made for it yet.
    Before,
    Made(V),
}

impl<K, V: Clone> Recent<K, V> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Looks for a key, and adds it if it is not there.
    pub(crate) fn look(&mut self, fits: impl Fn(&K) -> bool, key: impl FnOnce() -> K) -> Seen<V> {
        match self.entries.iter().rposition(|(known, _)| fits(known)) {
            None => {
                if self.entries.len() == KEPT {
                    self.entries.remove(0);
                }
                self.entries.push((key(), None));
                Seen::Never
            }
            Some(at) => {
                self.entries[at..].rotate_left(1);
                let latest = self.entries.last().and_then(|(_, made)| made.clone());
                latest.map_or(Seen::Before, Seen::Made)
            }
        }
    }

    /// Keeps what was made for a key, if that is still there.
    pub(crate) fn keep(&mut self, fits: impl Fn(&K) -> bool, made: V) {
        if let Some((_, kept)) = self.entries.iter_mut().rfind(|(known, _)| fits(known)) {
            *kept = Some(made);
        }
    }
}

/// What a computation depends on of an input, beside its elements.
pub(crate) struct InputSpec {
    dtype: DType,
    shape: Shape,
    strides: Strides,
    is_inline: bool,
}

impl InputSpec {
    pub(crate) fn of(x: &Array) -> Self {
        Self {
            dtype: x.dtype(),
            shape: x.shape().clone(),
            strides: x.layout().strides.clone(),
            is_inline: x.inline().is_some(),
        }
    }

    pub(crate) fn fits(&self, x: &Array) -> bool {
        self.dtype == x.dtype()
            && self.is_inline == x.inline().is_some()
            && self.shape == *x.shape()
            && self.strides[..] == *x.strides()
    }
}
