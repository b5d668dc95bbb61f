//! Errors: what a caller's mistake says, and where it happened.

use std::fmt;

pub use bibun_array::Location;
pub(crate) use bibun_array::caller;
use bibun_array::user_of;

use crate::function::{Mismatch, Spec};
use crate::node::Key;

/// What can go wrong between Variables.
///
/// A caller's mistake panics with one of these, so that formulae stay formulae;
/// [`attempt`](crate::attempt) turns the panic of any piece of code into a `Result`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The inputs of a function do not fit together.
    #[error("{function}: shapes do not fit: {what}, called at {location}")]
    Mismatch {
        /// The function's name.
        function: &'static str,
        /// Every shape by its name, and what must hold.
        what: String,
        /// Where the function was called.
        location: Location,
    },
    /// An argument that is not a Variable (an axis, a size, an option) does not fit.
    #[error("{function}: {what}, called at {location}")]
    Argument {
        /// The function's name.
        function: &'static str,
        /// What was given and what must hold.
        what: String,
        /// Where the function was called.
        location: Location,
    },
    /// A function has no rule of the kind that a transformation asks for.
    #[error("{function}: there is no {rule} rule ({advice}), called at {location}")]
    MissingRule {
        /// The function's name.
        function: &'static str,
        /// `vjp`, `jvp`, `batch` or `per_example`.
        rule: &'static str,
        /// What can be done instead.
        advice: &'static str,
        /// Where the function was called.
        location: Location,
    },
    /// A rule went wrong while gradients were taken.
    #[error("in the gradient of {function}, which was called at {location}: {source}")]
    InGradient {
        /// The function whose rule it was.
        function: &'static str,
        /// Where the function was called, going forward.
        location: Location,
        /// What went wrong.
        source: Box<Error>,
    },
    /// A link of a model went wrong: the path as the outermost link sees it that was running.
    #[error("{}{source}", in_link(path))]
    InLink {
        /// Which link it was.
        path: LinkPath,
        /// What went wrong.
        source: Box<Error>,
    },
    /// A rule returned a gradient or tangent of a wrong shape or dtype.
    #[error(
        "{function}: the {rule} rule gave {found} for {argument}, which is {expected}, called at \
         {location}"
    )]
    WrongRule {
        /// The function's name.
        function: &'static str,
        /// `vjp`, `jvp`, `batch` or `per_example`.
        rule: &'static str,
        /// Which input or output.
        argument: String,
        /// The shape and dtype given.
        found: Box<Spec>,
        /// Those that are right.
        expected: Box<Spec>,
        /// Where the function was called.
        location: Location,
    },
    /// A rule returned a wrong number of gradients, tangents or lanes.
    #[error(
        "{function}: the {rule} rule gave {found} Variables, it must give {expected}, called at \
         {location}"
    )]
    WrongNumber {
        /// The function's name.
        function: &'static str,
        /// `vjp`, `jvp`, `batch` or `per_example`.
        rule: &'static str,
        /// How many were given.
        found: usize,
        /// How many are right.
        expected: usize,
        /// Where the function was called.
        location: Location,
    },
    /// A function or its gradient gave a value that is not finite, from values that are: found by
    /// [`detect_anomaly`](crate::detect_anomaly).
    #[error("{function}: {what}, called at {location}")]
    Anomaly {
        /// The function's name.
        function: &'static str,
        /// Which value, and where.
        what: String,
        /// Where the function was called.
        location: Location,
    },
    /// A gradient is asked for of something that a transformation computed from the value of a leaf.
    #[error(
        "what the transformation at {location} gave takes part in this, and how it depends on the leaf \
         that was its argument is not known (detach it if it is a constant here; else take this \
         derivative by `grad` around both)"
    )]
    LeafLost {
        /// Where the transformation was called.
        location: Location,
    },
    /// A function makes the loss of one example depend on another, where each example's gradient is
    /// wanted.
    #[error(
        "{function}: examples are mixed: what belongs to one goes into the losses of others, so that \
         none has a gradient of its own (detach what they share if it is to be a constant), called \
         at {location}"
    )]
    MixesExamples {
        /// The function's name.
        function: &'static str,
        /// Where the function was called.
        location: Location,
    },
    /// A rule reads a value that its function did not declare in `saves`.
    #[error(
        "{function}: a rule reads {argument}, which the function does not keep, called at {location}"
    )]
    NotKept {
        /// The function's name.
        function: &'static str,
        /// Which input or output.
        argument: String,
        /// Where the function was called.
        location: Location,
    },
    /// The elements of a Variable are asked for where a transformation hides them.
    #[error(
        "{function}: the elements of this Variable are hidden by {transformation} \
         ({advice}), asked for at {location}"
    )]
    Hidden {
        /// What asked for the elements.
        function: &'static str,
        /// `vmap` or `jvp`.
        transformation: &'static str,
        /// What can be done instead.
        advice: &'static str,
        /// Where they were asked for.
        location: Location,
    },
    /// A mistake in the use of arrays.
    #[error(transparent)]
    Array(#[from] bibun_array::Error),
}

impl Error {
    /// An [`Error::Argument`] at the caller's place.
    #[track_caller]
    pub fn argument(function: &'static str, what: impl Into<String>) -> Self {
        Self::Argument {
            function,
            what: what.into() + &user_of(function),
            location: caller(),
        }
    }

    /// An [`Error::Mismatch`] at the caller's place.
    #[track_caller]
    pub fn mismatch(function: &'static str, mismatch: &Mismatch) -> Self {
        Self::Mismatch {
            function,
            what: mismatch.to_string() + &user_of(function),
            location: caller(),
        }
    }

    /// The line of the call that went wrong.
    ///
    /// ```
    /// use bibun::{attempt, Variable};
    /// let x = Variable::new([1.0, 2.0]);
    /// let (error, line) = (attempt(|| x.reshape(3)).unwrap_err(), line!());
    /// assert_eq!(error.location().line(), line);
    /// ```
    pub fn location(&self) -> Location {
        match self {
            Self::Mismatch { location, .. }
            | Self::Argument { location, .. }
            | Self::MissingRule { location, .. }
            | Self::InGradient { location, .. }
            | Self::Anomaly { location, .. }
            | Self::LeafLost { location }
            | Self::MixesExamples { location, .. }
            | Self::WrongRule { location, .. }
            | Self::WrongNumber { location, .. }
            | Self::NotKept { location, .. }
            | Self::Hidden { location, .. } => location,
            Self::Array(error) => error.location(),
            Self::InLink { source, .. } => source.location(),
        }
    }

    pub(crate) fn wrong_number(
        function: &'static str,
        rule: &'static str,
        found: usize,
        expected: usize,
    ) -> Self {
        Self::WrongNumber {
            function,
            rule,
            found,
            expected,
            location: caller(),
        }
    }
}

/// The way through a model to one of its links, such as `encoder/layers/3/linear`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LinkPath {
    pub(crate) path: String,
    /// A Variable of the link that the path begins in, by which the links around find that one.
    pub(crate) anchor: Option<Anchor>,
}

/// A Variable of a link, and its name there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Anchor {
    pub(crate) identity: Key,
    pub(crate) name: String,
}

impl LinkPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for LinkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// `in encoder/layers/3: `, or nothing of the outermost link itself.
fn in_link(path: &LinkPath) -> String {
    match path.as_str() {
        "" => String::new(),
        path => format!("in {path}: "),
    }
}

/// Panics with `error`, typed for [`attempt`].
#[cold]
#[track_caller]
pub(crate) fn raise(error: Error) -> ! {
    bibun_array::raise(error)
}

/// Panics with an [`Error::Mismatch`] of these inputs, of which `must_hold` does not.
#[cold]
#[track_caller]
pub(crate) fn mismatch(
    function: &'static str,
    inputs: &[(&str, &Spec)],
    must_hold: impl fmt::Display,
) -> ! {
    raise(Error::mismatch(function, &Mismatch::new(inputs, must_hold)))
}

/// Runs `f`; a mistake that would panic (shapes, dtypes, axes, a missing rule) comes back as its
/// typed error. Other panics go on.
///
/// This one function is the fallible form of every other, operators included.
///
/// ```
/// use bibun::{attempt, Error, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let w = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = attempt(|| &w + &x);
/// assert!(matches!(y, Err(Error::Mismatch { function: "add", .. })));
/// ```
///
/// # Errors
/// The error that `f` raised.
pub fn attempt<T>(f: impl FnOnce() -> T) -> Result<T, Error> {
    bibun_array::attempt_with(f, |payload| match payload.downcast::<Error>() {
        Ok(error) => Ok(*error),
        Err(payload) => Ok(Error::Array(*payload.downcast()?)),
    })
}

/// Runs a rule of a function that was called at `location`. If the rule is missing, the error names that
/// location, and not the rule's.
pub(crate) fn missing_at<T>(location: Location, rule: impl FnOnce() -> T) -> T {
    attempt(rule).unwrap_or_else(|mut error| {
        if let Error::MissingRule {
            location: place, ..
        } = &mut error
        {
            *place = location;
        }
        raise(error)
    })
}
