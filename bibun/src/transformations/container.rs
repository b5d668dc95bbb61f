//! Containers that can hold other values in place of their Variables.

use std::collections::BTreeMap;

use crate::tree::{Tree, for_tuples};
use crate::variable::Variable;

/// A [`Tree`] whose structure can hold other values: a Variable, or a tuple, array, `Vec`, `Option`
/// or `BTreeMap` of Containers.
///
/// A Jacobian has the structure of the result, with a container like the argument in place of each
/// Variable. Structs cannot hold other values; [`ravel_tree`](crate::ravel_tree) turns them into
/// vectors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be filled with Jacobians",
    note = "use a Variable, or a tuple, array, Vec, Option or BTreeMap of them; `ravel_tree` makes a \
            Variable of any Tree"
)]
pub trait Container: Tree {
    /// The same structure, with a `T` in place of each Variable.
    type Of<T>;

    /// Fills the structure, in the order in which a visitor sees the Variables.
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T>;
}

impl Container for Variable {
    type Of<T> = T;
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> T {
        part()
    }
}

impl<C: Container> Container for Option<C> {
    type Of<T> = Option<C::Of<T>>;
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T> {
        self.as_ref().map(|inner| inner.fill(part))
    }
}

impl<C: Container, const N: usize> Container for [C; N] {
    type Of<T> = [C::Of<T>; N];
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T> {
        std::array::from_fn(|i| self[i].fill(part))
    }
}

impl<C: Container> Container for Vec<C> {
    type Of<T> = Vec<C::Of<T>>;
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T> {
        self.iter().map(|inner| inner.fill(part)).collect()
    }
}

impl<K: std::fmt::Display + Clone + Ord, C: Container> Container for BTreeMap<K, C> {
    type Of<T> = BTreeMap<K, C::Of<T>>;
    fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T> {
        let pairs = self
            .iter()
            .map(|(key, inner)| (key.clone(), inner.fill(part)));
        pairs.collect()
    }
}

macro_rules! tuples {
    ($(($($C:ident $i:tt),*))*) => {$(
        impl<$($C: Container),*> Container for ($($C,)*) {
            type Of<T> = ($($C::Of<T>,)*);
            fn fill<T>(&self, part: &mut dyn FnMut() -> T) -> Self::Of<T> {
                ($(self.$i.fill(part),)*)
            }
        }
    )*};
}
for_tuples!(tuples);
