//! Errors: the message of a caller's mistake, and its location.

use std::fmt;

pub use bibun_array::Location;
pub(crate) use bibun_array::caller;
use bibun_array::user_of;

use crate::function::{Mismatch, Spec};
use crate::node::Key;

/// An error in the use of Variables.
///
/// A caller's mistake panics with one of these, so that formulas stay formulas.
/// [`attempt`](crate::attempt) turns the panic of any piece of code into a `Result`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The inputs of a function do not fit together.
    #[error("{function}: inputs do not fit: {what}, called at {location}")]
    Mismatch {
        /// The function's name.
        function: &'static str,
        /// The shape of each input with its name, and the condition that must hold.
        what: String,
        /// The location of the function's call.
        location: Location,
    },
    /// An argument that is not a Variable (an axis, a size, an option) is invalid.
    #[error("{function}: {what}, called at {location}")]
    Argument {
        /// The function's name.
        function: &'static str,
        /// The value of the argument and the condition that must hold.
        what: String,
        /// The location of the function's call.
        location: Location,
    },
    /// A function has no rule of the kind that a transformation needs.
    #[error("{function}: there is no {rule} rule ({advice}), called at {location}")]
    MissingRule {
        /// The function's name.
        function: &'static str,
        /// `vjp`, `jvp`, `batch` or `per_example`.
        rule: &'static str,
        /// An alternative for the caller.
        advice: &'static str,
        /// The location of the function's call.
        location: Location,
    },
    /// A rule failed during the computation of gradients.
    #[error("in the gradient of {function}, which was called at {location}: {source}")]
    InGradient {
        /// The function whose rule failed.
        function: &'static str,
        /// The location of the function's forward call.
        location: Location,
        /// The error in the rule.
        source: Box<Error>,
    },
    /// A link of a model failed. The path is relative to the outermost running link.
    #[error("{}{source}", in_link(path))]
    InLink {
        /// The path of the link.
        path: LinkPath,
        /// The error in the link.
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
        /// The input or output in question.
        argument: String,
        /// The shape and dtype that were returned.
        found: Box<Spec>,
        /// The correct shape and dtype.
        expected: Box<Spec>,
        /// The location of the function's call.
        location: Location,
    },
    /// A rule returned a wrong number of gradients, tangents or batched values.
    #[error(
        "{function}: the {rule} rule gave {found} Variables, it must give {expected}, called at \
         {location}"
    )]
    WrongNumber {
        /// The function's name.
        function: &'static str,
        /// `vjp`, `jvp`, `batch` or `per_example`.
        rule: &'static str,
        /// The number that was returned.
        found: usize,
        /// The correct number.
        expected: usize,
        /// The location of the function's call.
        location: Location,
    },
    /// A function or its gradient returned a value that is not finite, although its inputs are.
    /// [`detect_anomaly`](crate::detect_anomaly) finds this.
    #[error("{function}: {what}, called at {location}")]
    Anomaly {
        /// The function's name.
        function: &'static str,
        /// The value in question, and its position.
        what: String,
        /// The location of the function's call.
        location: Location,
    },
    /// A gradient is requested of a result that a transformation computed from the value of a leaf.
    #[error(
        "what the transformation at {location} gave takes part in this, and how it depends on the leaf \
         that was its argument is not known (detach it if it is a constant here; else take this \
         derivative by `grad` around both)"
    )]
    LeafLost {
        /// The location of the transformation's call.
        location: Location,
    },
    /// A function makes the loss of one example depend on another, although the gradient of each
    /// example is requested.
    #[error(
        "{function}: examples are mixed: what belongs to one goes into the losses of others, so that \
         none has a gradient of its own (detach what they share if it is to be a constant), called \
         at {location}"
    )]
    MixesExamples {
        /// The function's name.
        function: &'static str,
        /// The location of the function's call.
        location: Location,
    },
    /// A rule reads a value that its function did not declare in `saves`.
    #[error(
        "{function}: a rule reads {argument}, which the function does not keep, called at {location}"
    )]
    NotKept {
        /// The function's name.
        function: &'static str,
        /// The input or output in question.
        argument: String,
        /// The location of the function's call.
        location: Location,
    },
    /// The elements of a Variable are requested where a transformation hides them.
    #[error(
        "{function}: the elements of this Variable are hidden by {transformation} \
         ({advice}), asked for at {location}"
    )]
    Hidden {
        /// The function that requested the elements.
        function: &'static str,
        /// `vmap` or `jvp`.
        transformation: &'static str,
        /// An alternative for the caller.
        advice: &'static str,
        /// The location of the request.
        location: Location,
    },
    /// The processes of a [`Communicator`](crate::parallel::Communicator) do not come together: one of them
    /// has ended, hangs, or is somewhere else in the program.
    #[error("{function}: {what}, called at {location}")]
    Communication {
        /// The collective that was called.
        function: &'static str,
        /// The process that is missing, and where it was last.
        what: String,
        /// The location of the collective's call.
        location: Location,
    },
    /// A mistake in the use of arrays.
    #[error(transparent)]
    Array(#[from] bibun_array::Error),
}

impl Error {
    /// Creates an [`Error::Argument`] at the caller's location.
    #[track_caller]
    pub fn argument(function: &'static str, what: impl Into<String>) -> Self {
        Self::Argument {
            function,
            what: what.into() + &user_of(function),
            location: caller(),
        }
    }

    /// Creates an [`Error::Mismatch`] at the caller's location.
    #[track_caller]
    pub fn mismatch(function: &'static str, mismatch: &Mismatch) -> Self {
        Self::Mismatch {
            function,
            what: mismatch.to_string() + &user_of(function),
            location: caller(),
        }
    }

    /// Returns the location of the call that failed.
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
            | Self::Communication { location, .. }
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

/// The path through a model to one of its links, such as `encoder/layers/3/linear`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LinkPath {
    pub(crate) path: String,
    /// A Variable of the link where the path begins, by which the enclosing links find that link.
    pub(crate) anchor: Option<Anchor>,
}

/// A Variable of a link, and its name there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Anchor {
    pub(crate) identity: Key,
    pub(crate) name: String,
}

impl LinkPath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for LinkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// Returns `in encoder/layers/3: `, or an empty text for the outermost link itself.
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

/// Panics with an error about what cannot be done while a function is traced. The function is refused even
/// if it catches the error.
#[cold]
#[track_caller]
pub(crate) fn refuse(error: Error) -> ! {
    bibun_array::refuse(error)
}

/// Panics with an [`Error::Mismatch`] of these inputs, which do not fulfil `must_hold`.
#[cold]
#[track_caller]
pub(crate) fn mismatch(
    function: &'static str,
    inputs: &[(&str, &Spec)],
    must_hold: impl fmt::Display,
) -> ! {
    raise(Error::mismatch(function, &Mismatch::new(inputs, must_hold)))
}

/// Runs `f`, and returns a mistake that would panic (shapes, dtypes, axes, a missing rule) as its
/// typed error. Other panics pass through.
///
/// This function is the fallible form of every other function, operators included.
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
/// Returns the error that `f` raised.
pub fn attempt<T>(f: impl FnOnce() -> T) -> Result<T, Error> {
    bibun_array::attempt_with(f, |payload| match payload.downcast::<Error>() {
        Ok(error) => Ok(*error),
        Err(payload) => Ok(Error::Array(*payload.downcast()?)),
    })
}

/// Runs a rule of a function that was called at `location`. If the rule is missing, the error has the
/// location of that call, not that of the rule.
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
