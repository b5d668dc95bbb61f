//! The path of the link in which an error occurred.

use std::cell::Cell;
use std::fmt;

use crate::call::calling;
use crate::error::{Anchor, Error, LinkPath, attempt, raise};
use crate::surroundings::{Aside, keep_to_this_task};
use crate::tree::{Tree, Visitor};

impl LinkPath {
    /// Returns the path as seen from an enclosing link.
    fn seen_from<L: Tree + ?Sized>(self, link: &L) -> Self {
        let (mut inner, mut anchor) = (None, None);
        link.visit(&mut Visitor::new(&mut |name, x, _| {
            let identity = x.identity();
            if let Some(known) = &self.anchor
                && known.identity == identity
                && let Some(path) = name.strip_suffix(&known.name)
            {
                inner.get_or_insert_with(|| path.trim_end_matches('/').to_owned());
            }
            anchor.get_or_insert_with(|| {
                let name = name.to_owned();
                Anchor { identity, name }
            });
        }));
        Self {
            path: joined(&inner.unwrap_or_default(), &self.path),
            anchor,
        }
    }
}

fn joined(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{outer}/{inner}"),
    }
}

/// Splits an error into its path, as far as it is known, and its cause.
fn taken_apart(error: Error) -> (LinkPath, Box<Error>) {
    match error {
        Error::InLink { path, source } => (path, source),
        error => (LinkPath::default(), Box::new(error)),
    }
}

thread_local! {
    static AROUND: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn put_aside() -> impl Sized {
    Aside::of(&AROUND, 0)
}

/// Runs the computation of a link. An error names the caller's location and the path of the link,
/// as seen from the outermost link that is running.
///
/// [`Link::forward`](crate::links::Link::forward) calls this function. Call it in links that take
/// more than one Variable and so have a method of their own.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{within, Chain, Linear, Link};
/// use bibun::{attempt, Variable};
/// #[derive(Chain)]
/// struct Both {
///     left: Linear,
///     right: Linear,
/// }
/// impl Both {
///     #[track_caller]
///     fn forward(&self, a: &Variable, b: &Variable) -> Variable {
///         within(self, || self.left.forward(a) + self.right.forward(b))
///     }
/// }
/// let g = &mut Generator::new(0);
/// let both = Both { left: Linear::new(2, 3, g), right: Linear::new(2, 3, g) };
/// let (a, b) = (Variable::constant([[1f32, 2.0]]), Variable::constant([[1f32]]));
/// let error = attempt(|| both.forward(&a, &b)).unwrap_err();
/// assert!(error.to_string().starts_with("in right: linear: inputs do not fit"));
/// ```
///
/// # Panics
/// Panics if `f` does, with [`Error::InLink`] if the error is in a part of the link.
#[track_caller]
pub fn within<L: Tree + ?Sized, T>(link: &L, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            AROUND.set(AROUND.get() - 1);
        }
    }
    let _called = calling("");
    keep_to_this_task();
    AROUND.set(AROUND.get() + 1);
    let leave = Leave;
    let error = match attempt(f) {
        Ok(y) => return y,
        Err(error) => error,
    };
    drop(leave);
    let (path, source) = taken_apart(error);
    let path = path.seen_from(link);
    raise(match AROUND.get() == 0 && path.path.is_empty() {
        true => *source,
        false => Error::InLink { path, source },
    })
}

/// Runs a part of a link under this name. For parts that have no Variable by which the path could
/// be found.
#[track_caller]
pub(super) fn part<T>(name: impl fmt::Display, f: impl FnOnce() -> T) -> T {
    let error = match attempt(f) {
        Ok(y) => return y,
        Err(error) => error,
    };
    let (mut path, source) = taken_apart(error);
    if path.anchor.is_none() {
        path.path = joined(&name.to_string(), &path.path);
    }
    raise(Error::InLink { path, source })
}
