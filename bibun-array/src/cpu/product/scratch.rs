//! Working memory, which a thread keeps.

use crate::cpu::tile::Float;
use crate::storage::LINE;

/// The largest memory that a thread keeps, in elements: more than a block of each matrix.
pub(super) const KEPT: usize = 3 << 18;

/// The working memory of this thread. It is taken, because other work may run while this waits.
pub(super) struct Scratch<T>(pub(super) Vec<T>);

impl<T: Float> Scratch<T> {
    #[inline]
    pub(super) fn take() -> Self {
        Self(T::scratch().take())
    }

    /// Two parts with any content, which begin at cache lines.
    #[inline]
    pub(super) fn split(&mut self, first: usize, second: usize) -> (&mut [T], &mut [T]) {
        let line = LINE / size_of::<T>();
        let first_len = first.next_multiple_of(line);
        if self.0.len() < first_len + second + line {
            self.0.resize(first_len + second + line, T::ZERO);
        }
        let start = self.0.as_ptr().align_offset(LINE).min(line);
        let (one, other) = self.0[start..].split_at_mut(first_len);
        (&mut one[..first], &mut other[..second])
    }

    #[inline]
    pub(super) fn give_back(self) {
        if self.0.len() <= KEPT {
            T::scratch().set(self.0);
        }
    }
}
