//! The comparison of logged values.

/// The direction in which a value improves.
///
/// NaN is worse than any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Lower values are better: losses, errors.
    Lowest,
    /// Higher values are better: accuracies.
    Highest,
}

impl Goal {
    /// Returns whether `value` is better than `best` by more than `margin`; any number is better
    /// than NaN.
    pub fn is_better(self, value: f64, best: f64, margin: f64) -> bool {
        match self {
            _ if value.is_nan() => false,
            _ if best.is_nan() => true,
            Self::Lowest => value < best - margin,
            Self::Highest => value > best + margin,
        }
    }
}
