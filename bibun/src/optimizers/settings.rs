//! Checks of the numbers that users choose for optimizers and hooks.

use crate::error::{Error, raise};
use crate::serializers::{State, StateError};

/// What a setting must be, in errors and documentation.
macro_rules! text {
    (Fraction) => {
        "at least 0 and less than 1"
    };
    (NotNegative) => {
        "finite and not negative"
    };
    (Positive) => {
        "finite and more than 0"
    };
    (AtLeastOne) => {
        "finite and at least 1"
    };
    (Bound) => {
        "at least 0"
    };
    (Finite) => {
        "finite"
    };
}
pub(super) use text;

/// The numbers that a setting may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range {
    /// From 0 to less than 1.
    Fraction,
    /// From 0 on.
    NotNegative,
    /// More than 0.
    Positive,
    /// From 1 on.
    AtLeastOne,
    /// From 0 to infinity.
    Bound,
    /// All but infinities and NaN.
    Finite,
}

impl Range {
    fn contains(self, x: f64) -> bool {
        match self {
            Self::Fraction => (0.0..1.0).contains(&x),
            Self::NotNegative => (0.0..f64::INFINITY).contains(&x),
            Self::Positive => x > 0.0 && x.is_finite(),
            Self::AtLeastOne => (1.0..f64::INFINITY).contains(&x),
            Self::Bound => x >= 0.0,
            Self::Finite => x.is_finite(),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Fraction => text!(Fraction),
            Self::NotNegative => text!(NotNegative),
            Self::Positive => text!(Positive),
            Self::AtLeastOne => text!(AtLeastOne),
            Self::Bound => text!(Bound),
            Self::Finite => text!(Finite),
        }
    }
}

/// Checks a setting, and says what it must be.
pub(super) fn check(name: &str, x: f64, range: Range) -> Result<(), String> {
    match range.contains(x) {
        true => Ok(()),
        false => Err(format!("the {name} is {x}; it must be {}", range.text())),
    }
}

/// Checks a setting of a function.
///
/// # Panics
/// Panics if the number is out of the range.
#[track_caller]
pub(super) fn expect(function: &'static str, name: &str, x: f64, range: Range) {
    if let Err(what) = check(name, x, range) {
        raise(Error::argument(function, what));
    }
}

/// Checks a learning rate that a function is given.
///
/// # Panics
/// Panics if it is negative or not finite.
#[track_caller]
pub(super) fn expect_learning_rate(function: &'static str, learning_rate: f64) {
    expect(
        function,
        "learning rate η",
        learning_rate,
        Range::NotNegative,
    );
}

/// The name that the name of an optimizer's rule has in a state.
pub(super) const RULE: &str = "rule";

/// Checks that a state is that of an optimizer with this rule, before what follows from another is listed.
pub(super) fn check_rule(state: &State, own: &str) -> Result<(), StateError> {
    match state.text(RULE)? {
        found if found == own => Ok(()),
        other => Err(StateError::wrong(
            RULE,
            format!("is `{other}`, expected `{own}`"),
        )),
    }
}

/// Reads the learning rate of a state.
pub(super) fn learning_rate_of(state: &State) -> Result<f64, StateError> {
    let (name, range) = ("learning_rate", Range::NotNegative);
    let learning_rate = state.number(name)?;
    match range.contains(learning_rate) {
        true => Ok(learning_rate),
        false => {
            let what = format!("is {learning_rate}; it must be {}", range.text());
            Err(StateError::wrong(name, what))
        }
    }
}
