//! Which values are better.

/// Which of two values of a name is the better one.
///
/// Not a number is worse than any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// The lower one: losses, errors.
    Lowest,
    /// The higher one: accuracies.
    Highest,
}

impl Goal {
    /// Whether `value` is better than `best` by more than `margin`; any number is better than none.
    pub fn is_better(self, value: f64, best: f64, margin: f64) -> bool {
        match self {
            _ if value.is_nan() => false,
            _ if best.is_nan() => true,
            Self::Lowest => value < best - margin,
            Self::Highest => value > best + margin,
        }
    }
}
