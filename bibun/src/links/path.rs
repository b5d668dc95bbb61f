//! Which link of a model a mistake was made in.

use std::cell::Cell;
use std::fmt;

use crate::call::calling;
use crate::error::{Anchor, Error, LinkPath, attempt, raise};
use crate::tree::{Tree, Visitor};

impl LinkPath {
    /// The path from a link around.
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

/// What went wrong, and where as far as is known.
fn taken_apart(error: Error) -> (LinkPath, Box<Error>) {
    match error {
        Error::InLink { path, source } => (path, source),
        error => (LinkPath::default(), Box::new(error)),
    }
}

thread_local! {
    static AROUND: Cell<usize> = const { Cell::new(0) };
}

/// Runs what a link computes: a mistake names the caller's line and the path of the link, as it is
/// seen from the outermost one that is running.
///
/// [`Link::forward`](crate::links::Link::forward) does so; it is for links that take more than one
/// Variable and have a method of their own.
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
/// assert!(error.to_string().starts_with("in right: linear: shapes do not fit"));
/// ```
///
/// # Panics
/// If `f` does; a mistake in a part of the link with [`Error::InLink`].
#[track_caller]
pub fn within<L: Tree + ?Sized, T>(link: &L, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            AROUND.set(AROUND.get() - 1);
        }
    }
    let _called = calling("");
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

/// Runs a part of a link that has this name in it, for parts without a Variable to be found by.
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
