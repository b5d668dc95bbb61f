//! The reduction of many losses to one.

use crate::functions::{cast, in_accumulator, mean, sum, where_};
use crate::variable::Variable;

/// The reduction of the losses of all examples (or elements). It is the last argument of every loss
/// whose name ends in `_with`, by itself or in a struct of options.
///
/// ```
/// use bibun::functions::{mean_squared_error_with, Reduction};
/// use bibun::Variable;
/// let (x, t) = (Variable::new([1.0, 5.0]), Variable::constant([2.0, 2.0]));
/// let with = |reduction| mean_squared_error_with(&x, &t, reduction).to_vec::<f64>();
/// assert_eq!(with(Reduction::None), [1.0, 9.0]);
/// assert_eq!(with(Reduction::Mean), [5.0]);
/// assert_eq!(with(Reduction::Sum), [10.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// No reduction: one loss for each example (0 for an ignored one), as per-example gradients
    /// need them. The loss of a single example has the shape `[]`.
    None,
    /// The mean over all losses that are not ignored, weighted if there are weights:
    /// `Σ w loss / Σ w`. It is 0 if there are none (NaN in PyTorch).
    #[default]
    Mean,
    /// The sum of the losses.
    Sum,
}

impl Reduction {
    /// Reduces losses that count equally.
    #[track_caller]
    pub(super) fn of(self, losses: Variable) -> Variable {
        match self {
            Self::None => losses,
            Self::Mean if losses.size() > 0 => mean(losses, ..),
            Self::Mean | Self::Sum => sum(losses, ..),
        }
    }

    /// Reduces losses that are already multiplied by these weights, which are bools or numbers.
    #[track_caller]
    pub(super) fn of_weighted(self, losses: Variable, weights: &Variable) -> Variable {
        if self != Self::Mean {
            return self.of(losses);
        }
        in_accumulator(losses, |losses| {
            let total = sum(cast(weights, losses.dtype()), ..);
            let nothing = total.equal(0);
            sum(losses, ..) / where_(nothing, 1, total)
        })
    }
}
