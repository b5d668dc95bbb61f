//! The types of the standard library that are Trees.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape, bf16, f16};

use super::{Mapper, Tree, Visitor, for_tuples};

/// Types that hold one Tree and add nothing to its name.
macro_rules! transparent {
    ($($holder:ident),*) => {$(
        impl<T: Tree> Tree for $holder<T> {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                (**self).visit(visitor);
            }
            fn map(&self, mapper: &mut Mapper<'_>) -> Self {
                Self::new((**self).map(mapper))
            }
        }
    )*};
}
transparent!(Box, Rc, Arc);

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.bits(self.is_some().into());
        if let Some(tree) = self {
            tree.visit(visitor);
        }
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        self.as_ref().map(|tree| tree.map(mapper))
    }
}

fn visit_list<T: Tree>(list: &[T], visitor: &mut Visitor<'_>) {
    for (i, tree) in list.iter().enumerate() {
        visitor.child(i, tree);
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visit_list(self, visitor);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        std::array::from_fn(|i| self[i].map(mapper))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.bits(self.len() as u64);
        visit_list(self, visitor);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        self.iter().map(|tree| tree.map(mapper)).collect()
    }
}

/// The parts are named by key, in the order of the keys.
impl<K: fmt::Display + Clone + Ord, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.bits(self.len() as u64);
        for (key, tree) in self {
            visitor.child(key, tree);
        }
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let pairs = self
            .iter()
            .map(|(key, tree)| (key.clone(), tree.map(mapper)));
        pairs.collect()
    }
}

/// The parts are named by key, in the order of the keys.
impl<K: fmt::Display + Clone + Ord + Hash, T: Tree, S: BuildHasher + Default> Tree
    for HashMap<K, T, S>
{
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.bits(self.len() as u64);
        for (key, tree) in in_order(self) {
            visitor.child(key, tree);
        }
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let pairs = in_order(self).into_iter();
        pairs
            .map(|(key, tree)| (key.clone(), tree.map(mapper)))
            .collect()
    }
}

fn in_order<K: Ord, T, S>(map: &HashMap<K, T, S>) -> Vec<(&K, &T)> {
    let mut pairs: Vec<(&K, &T)> = map.iter().collect();
    pairs.sort_unstable_by_key(|(key, _)| *key);
    pairs
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),*))*) => {$(
        impl<$($T: Tree),*> Tree for ($($T,)*) {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $(visitor.field(stringify!($i), &self.$i);)*
            }
            fn map(&self, mapper: &mut Mapper<'_>) -> Self {
                ($(self.$i.map(mapper),)*)
            }
        }
    )*};
}
for_tuples!(tuples);

/// Types that hold no Variable, and what tells their values from each other.
macro_rules! plain {
    ($($plain:ty: |$x:ident, $visitor:ident| $show:expr;)*) => {$(
        impl Tree for $plain {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                let ($x, $visitor) = (self, visitor);
                $show;
            }
            fn map(&self, _: &mut Mapper<'_>) -> Self {
                self.clone()
            }
        }
    )*};
}
plain! {
    (): |_x, visitor| visitor.bits(0);
    bool: |x, visitor| visitor.bits((*x).into());
    char: |x, visitor| visitor.bits((*x).into());
    &'static str: |x, visitor| visitor.plain(*x);
    Cow<'static, str>: |x, visitor| visitor.plain(x);
    String: |x, visitor| visitor.plain(x);
    u8: |x, visitor| visitor.bits((*x).into());
    u16: |x, visitor| visitor.bits((*x).into());
    u32: |x, visitor| visitor.bits((*x).into());
    u64: |x, visitor| visitor.bits(*x);
    u128: |x, visitor| visitor.plain(x);
    usize: |x, visitor| visitor.bits(*x as u64);
    i8: |x, visitor| visitor.bits(*x as u64);
    i16: |x, visitor| visitor.bits(*x as u64);
    i32: |x, visitor| visitor.bits(*x as u64);
    i64: |x, visitor| visitor.bits(*x as u64);
    i128: |x, visitor| visitor.plain(x);
    isize: |x, visitor| visitor.bits(*x as u64);
    f16: |x, visitor| visitor.bits(x.to_bits().into());
    bf16: |x, visitor| visitor.bits(x.to_bits().into());
    f32: |x, visitor| visitor.bits(x.to_bits().into());
    f64: |x, visitor| visitor.bits(x.to_bits());
    DType: |x, visitor| visitor.plain(x);
    Shape: |x, visitor| visitor.plain(x);
}

/// An array is no leaf, but an input of compiled functions.
impl Tree for Array {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.array(self);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        match &mut mapper.replace_array {
            Some(replace) => replace(self),
            None => self.clone(),
        }
    }
}

/// The position in the stream is an array.
impl Tree for Generator {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if visitor.sees_everything() {
            visitor.array(&self.position());
        }
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let Some(replace) = &mut mapper.replace_array else {
            return self.clone();
        };
        let position = replace(&self.position());
        match *position.shape() == [2] {
            true => Self::at(&position),
            // The structure of an argument has no values.
            false => Self::new(0),
        }
    }
}

impl<T: ?Sized> Tree for PhantomData<T> {
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn map(&self, _: &mut Mapper<'_>) -> Self {
        Self
    }
}
