//! How many losses become one.

use crate::functions::{cast, in_accumulator, mean, sum, where_};
use crate::variable::Variable;

/// What a loss makes of the losses of all examples (or elements): the last argument of every loss
/// that ends in `_with`, by itself or in a struct of options.
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
    /// Nothing: one loss for each example (0 for an ignored one), as gradients of single examples
    /// need them. That of a single example has the shape `[]`.
    None,
    /// Their mean over all that are not ignored, by their weights if there are any:
    /// `Σ w loss / Σ w`. Where nothing is left to take the mean of, 0 (in PyTorch NaN).
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// Of losses that count alike.
    #[track_caller]
    pub(super) fn of(self, losses: Variable) -> Variable {
        match self {
            Self::None => losses,
            Self::Mean if losses.size() > 0 => mean(losses, ..),
            Self::Mean | Self::Sum => sum(losses, ..),
        }
    }

    /// Of losses with weights in them; these weights are bools, or numbers.
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
