//! Fields that a derived Tree leaves out, for those who ask for everything: the value itself if its type
//! is a Tree, else its hash, else its text. Part of what `#[derive(Tree)]` writes.
//!
//! A derive macro does not know what a type implements. The compiler does: it takes the method of the
//! first of these traits that `&&&&&Skipped` reaches.

use std::any::type_name;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;

use super::{Part, Seer, Tree, Visitor};

/// A field that a Tree leaves out.
#[derive(Debug)]
pub struct Skipped<'a, T: ?Sized>(pub &'a T);

/// A Tree is shown with all of its parts.
pub trait OfTree {
    /// Shows the field.
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>);
}

impl<T: Tree + ?Sized> OfTree for &&&&Skipped<'_, T> {
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>) {
        visitor.skipped(name, |visitor| self.0.visit(visitor));
    }
}

/// Other types are shown by their hash.
pub trait OfHash {
    /// Shows the field.
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>);
}

impl<T: Hash + ?Sized> OfHash for &&&Skipped<'_, T> {
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>) {
        visitor.skipped(name, |visitor| visitor.plain(self.0));
    }
}

/// Types without a hash are shown by their text.
pub trait OfText {
    /// Shows the field.
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>);
}

impl<T: Debug + ?Sized> OfText for &&Skipped<'_, T> {
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>) {
        visitor.skipped(name, |visitor| visitor.shown(format_args!("{:?}", self.0)));
    }
}

/// A shared value without a text, such as a closure, is shown by its address: clones have the same.
pub trait OfAddress {
    /// Shows the field.
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>);
}

impl<T: ?Sized> OfAddress for &Skipped<'_, Arc<T>> {
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>) {
        visitor.skipped(name, |visitor| {
            visitor.bits(Arc::as_ptr(self.0).addr() as u64)
        });
    }
}

/// Of other types, only the name is known.
pub trait OfNothing {
    /// Shows the field.
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>);
}

impl<T: ?Sized> OfNothing for Skipped<'_, T> {
    fn show(&self, name: impl Display, visitor: &mut Visitor<'_>) {
        visitor.skipped(name, |visitor| {
            if let Seer::Everything(see) = &mut visitor.see {
                see(&visitor.path, Part::Opaque(type_name::<T>()));
            }
        });
    }
}
