//! Metrics of the order that scores put positions in.

use bibun_array::DType;

use super::classification::{expect_class, expect_same_shape};
use crate::variable::Variable;

/// Returns the area under the curve of true positives over false positives: the probability that a
/// position of class 1 has a larger score than one of class 0, where equal scores count as a half.
///
/// Shapes: y and t of one shape, t of integers 0 and 1. Positions of class -1 are ignored. The result
/// is NaN if one of the classes is missing. A score of NaN counts as the largest.
///
/// Source: `sklearn.metrics.roc_auc_score` has the same value.
///
/// ```
/// use bibun::functions::roc_auc;
/// use bibun::Variable;
/// let y = Variable::constant([0.1, 0.4, 0.35, 0.8]);
/// assert_eq!(roc_auc(&y, [0i64, 0, 1, 1]), 0.75);
/// ```
///
/// # Panics
/// Panics if the shapes differ, t is not of integers, or a class is not -1, 0 or 1.
#[track_caller]
pub fn roc_auc(y: &Variable, t: impl Into<Variable>) -> f64 {
    let steps = steps("roc_auc", y, &t.into());
    let [negatives, positives] = totals(&steps);
    let (mut above, mut wins) = (0.0, 0.0);
    for [negative, positive] in steps {
        wins += negative * (above + 0.5 * positive);
        above += positive;
    }
    wins / (negatives * positives)
}

/// Returns the average precision, `Σ (Rᵢ - Rᵢ₋₁) Pᵢ` over all thresholds, from the largest score down:
/// the precision of the positions with at least this score, weighted by the increase of their recall.
///
/// Shapes: y and t of one shape, t of integers 0 and 1. Positions of class -1 are ignored. The result
/// is NaN if class 1 is missing. A score of NaN counts as the largest.
///
/// Source: `sklearn.metrics.average_precision_score` has the same value.
///
/// ```
/// use bibun::functions::average_precision;
/// use bibun::Variable;
/// let y = Variable::constant([0.1, 0.4, 0.35, 0.8]);
/// assert_eq!(average_precision(&y, [0i64, 0, 1, 1]), 0.5 + 0.5 * 2.0 / 3.0);
/// ```
///
/// # Panics
/// Panics if the shapes differ, t is not of integers, or a class is not -1, 0 or 1.
#[track_caller]
pub fn average_precision(y: &Variable, t: impl Into<Variable>) -> f64 {
    let steps = steps("average_precision", y, &t.into());
    let [_, positives] = totals(&steps);
    let (mut all, mut right, mut sum) = (0.0, 0.0, 0.0);
    for [negative, positive] in steps {
        all += negative + positive;
        right += positive;
        sum += positive / positives * (right / all);
    }
    if positives == 0.0 { f64::NAN } else { sum }
}

/// Returns the numbers of positions of class 0 and of class 1 with each score, the largest first.
#[track_caller]
fn steps(function: &'static str, y: &Variable, t: &Variable) -> Vec<[f64; 2]> {
    let (y, t) = expect_same_shape(function, y, t);
    let (scores, classes) = (y.cast(DType::F64).to_vec::<f64>(), t.to_vec::<i64>());
    let mut positions = Vec::with_capacity(scores.len());
    for (score, class) in scores.into_iter().zip(classes) {
        expect_class(function, class, 2);
        if class >= 0 {
            // Zeros are equal, and so are all NaNs.
            let score = if score.is_nan() {
                f64::NAN
            } else {
                score + 0.0
            };
            positions.push((score, class as usize));
        }
    }
    positions.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut steps: Vec<[f64; 2]> = Vec::new();
    for group in positions.chunk_by(|(a, _), (b, _)| a.total_cmp(b).is_eq()) {
        let mut step = [0.0; 2];
        group.iter().for_each(|&(_, class)| step[class] += 1.0);
        steps.push(step);
    }
    steps
}

fn totals(steps: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|class| steps.iter().map(|step| step[class]).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    /// The numbers are those of scikit-learn.
    #[test]
    fn as_in_scikit_learn() {
        let y = Variable::constant([0.2, 0.9, 0.4, 0.4, 0.4, 0.1, 0.7, 0.2, 0.8, 0.3]);
        let t = [0i64, 1, 1, 0, 1, 0, 1, 1, 0, 0];
        assert!((roc_auc(&y, t) - 0.7).abs() < 1e-15);
        assert!((average_precision(&y, t) - 0.711111111111111).abs() < 1e-15);
    }

    #[test]
    fn missing_classes_and_equal_scores() {
        let y = Variable::constant([0.0, -0.0, 0.0, f64::NAN]);
        assert_eq!(roc_auc(&y, [0i64, 1, -1, 1]), 0.75);
        assert!(roc_auc(&y, [1i64, 1, 1, 1]).is_nan());
        assert!(average_precision(&y, [0i64, 0, -1, 0]).is_nan());
        assert_eq!(average_precision(&y, [1i64, 1, 1, 1]), 1.0);
        assert!(attempt(|| roc_auc(&y, [0i64, 1, 2, 1])).is_err());
    }
}
