//! What attention keeps of earlier positions.

use bibun_array::Index;

use crate::Tree;
use crate::error::{Error, mismatch, raise};
use crate::functions::{concat, slice};
use crate::variable::Variable;

/// The keys and values of the positions that causal attention has seen, for decoding step by step:
/// [`MultiHeadAttention::forward_with_cache`](super::MultiHeadAttention::forward_with_cache) reads them
/// and adds those of further positions. Each layer needs its own.
///
/// It is a [`Tree`](trait@Tree), so it can be passed through transformations, and `tree_map` reorders the
/// sequences of a batch, for example for a beam search. Its shapes grow with each position, so a compiled
/// function that takes it is traced for each length. Cloning shares the values.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::functions::take;
/// use bibun::links::{KeyValueCache, TransformerBlock};
/// use bibun::{tree_map, Variable};
/// let block = TransformerBlock::builder(8, 2).causal().build(&mut Generator::new(0));
/// let mut cache = KeyValueCache::new();
/// let token = Variable::constant(Array::ones([2, 1, 8], DType::F32));
/// for _ in 0..3 {
///     block.forward_with_cache(&token, None, &mut cache);
/// }
/// assert_eq!(cache.len(), 3);
/// let best = tree_map(|x| take(x, [1i64, 1], 0), &cache);
/// assert_eq!(best.keys().unwrap().shape(), [2, 2, 3, 4]);
/// ```
#[derive(Tree, Clone, Debug, Default)]
pub struct KeyValueCache {
    keys: Option<Variable>,
    values: Option<Variable>,
}

impl KeyValueCache {
    /// Creates a cache of no positions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        let keys = self.keys.as_ref();
        keys.map_or(0, |keys| keys.shape()[keys.rank() - 2])
    }

    /// Returns whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys, `[.., heads, t, d]`, if there are any.
    pub fn keys(&self) -> Option<&Variable> {
        self.keys.as_ref()
    }

    /// Returns the values, `[.., heads, t, d]`, if there are any.
    pub fn values(&self) -> Option<&Variable> {
        self.values.as_ref()
    }

    /// Forgets all positions behind the first `len`, so that others can follow them.
    ///
    /// # Panics
    /// Panics if there are fewer.
    #[track_caller]
    pub fn truncate(&mut self, len: usize) {
        if len > self.len() {
            let what = format!("{len} of {} positions", self.len());
            raise(Error::argument("KeyValueCache", what));
        }
        for part in [&mut self.keys, &mut self.values].into_iter().flatten() {
            *part = slice(
                &*part,
                &[Index::Ellipsis, Index::from(..len), Index::from(..)],
            );
        }
    }

    /// Returns keys and values.
    pub(super) fn parts(&self) -> Option<[&Variable; 2]> {
        Some([self.keys.as_ref()?, self.values.as_ref()?])
    }

    /// Returns the cache with further positions.
    #[track_caller]
    pub(super) fn extended(
        &self,
        function: &'static str,
        keys: Variable,
        values: Variable,
    ) -> Self {
        let Some(parts) = self.parts() else {
            return Self {
                keys: Some(keys),
                values: Some(values),
            };
        };
        let [keys, values] = [(parts[0], keys), (parts[1], values)].map(|(old, new)| {
            let (old_spec, new_spec) = (old.spec(), new.spec());
            let axis = new.rank() - 2;
            let fits = old_spec.dtype == new_spec.dtype
                && old_spec.shape.rank() == new_spec.shape.rank()
                && old_spec.shape == new_spec.shape.replaced(axis, old_spec.shape[axis]);
            if !fits {
                let named = [
                    ("cached [.., heads, k, d]", &old_spec),
                    ("new [.., heads, t, d]", &new_spec),
                ];
                mismatch(
                    function,
                    &named,
                    "all sizes but those of the positions must be equal",
                );
            }
            Some(concat([old, &new], axis as isize))
        });
        Self { keys, values }
    }
}
