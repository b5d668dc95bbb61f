//! Scores of classes: how many of those found are right, and how many of those right are found.

use bibun_array::DType;

use super::classification::{expect_class, expect_classes, expect_same_shape};
use crate::error::{Error, raise};
use crate::variable::Variable;

/// What [`precision`], [`recall`] and [`f1_score`] are computed of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Average {
    /// Two classes, of which 1 counts: one score for each position, which is positive where class 1
    /// is found.
    Binary,
    /// All positions together, whatever their classes.
    Micro,
    /// The mean over the classes that occur, as right ones or as found ones.
    Macro,
    /// The mean over all classes, weighted by the numbers of positions where they are right.
    Weighted,
    /// One class.
    Class(usize),
}

/// Returns the fraction of the positions of a class, among those where it has the largest score, at
/// which it is the right one; 0 if there are none. Of equal scores the first counts as the largest.
///
/// Shapes: y `[n, c, ...]`, t `[n, ...]` of integers; both of one shape under [`Average::Binary`].
/// Positions of class -1 are ignored. The result is NaN if there are no others.
/// Source: the names and averages are those of scikit-learn.
///
/// ```
/// use bibun::functions::{precision, Average};
/// use bibun::Variable;
/// let y = Variable::constant([[0.1, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
/// let t = [1i64, 0, 0, 0];
/// assert_eq!(precision(&y, t, Average::Class(1)), 0.5);
/// assert_eq!(precision(&y, t, Average::Macro), 0.75);
/// assert_eq!(precision(&Variable::constant([2.0, -1.0, 0.5]), [1i64, 0, 0], Average::Binary), 0.5);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or there is no such class.
#[track_caller]
pub fn precision(y: &Variable, t: impl Into<Variable>, average: Average) -> f64 {
    averaged("precision", y, t.into(), average, |counts| {
        ratio(counts.both, counts.found)
    })
}

/// Returns the fraction of the positions where a class is the right one at which it has the largest
/// score; 0 if there are none. Of equal scores the first counts as the largest.
///
/// Shapes: those of [`precision`]. Positions of class -1 are ignored. The result is NaN if there are no
/// others. Source: the names and averages are those of scikit-learn.
///
/// ```
/// use bibun::functions::{recall, Average};
/// use bibun::Variable;
/// let y = Variable::constant([[0.1, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
/// assert_eq!(recall(&y, [1i64, 1, 0, 0], Average::Class(1)), 0.5);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or there is no such class.
#[track_caller]
pub fn recall(y: &Variable, t: impl Into<Variable>, average: Average) -> f64 {
    averaged("recall", y, t.into(), average, |counts| {
        ratio(counts.both, counts.right)
    })
}

/// Returns the harmonic mean of [`precision`] and [`recall`]; 0 if a class neither is right anywhere
/// nor is found.
///
/// Shapes: those of [`precision`]. Positions of class -1 are ignored. The result is NaN if there are no
/// others. Source: the names and averages are those of scikit-learn.
///
/// ```
/// use bibun::functions::{f1_score, Average};
/// use bibun::Variable;
/// let y = Variable::constant([[0.1, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
/// assert_eq!(f1_score(&y, [1i64, 0, 0, 0], Average::Class(1)), 2.0 / 3.0);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or there is no such class.
#[track_caller]
pub fn f1_score(y: &Variable, t: impl Into<Variable>, average: Average) -> f64 {
    averaged("f1_score", y, t.into(), average, |counts| {
        ratio(2 * counts.both, counts.found + counts.right)
    })
}

/// The numbers of positions of a class.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    /// Where it is the right one.
    right: usize,
    /// Where it has the largest score.
    found: usize,
    /// Where it is both.
    both: usize,
}

fn ratio(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

#[track_caller]
fn averaged(
    function: &'static str,
    y: &Variable,
    t: Variable,
    average: Average,
    score: impl Fn(Counts) -> f64,
) -> f64 {
    let classes = match average {
        Average::Binary => of_two(function, y, &t),
        _ => of_classes(function, y, &t),
    };
    let positions: usize = classes.iter().map(|class| class.right).sum();
    if positions == 0 {
        return f64::NAN;
    }
    match average {
        Average::Binary => score(classes[1]),
        Average::Class(class) => match classes.get(class) {
            Some(&counts) => score(counts),
            None => {
                let what = format!("there is no class {class} of {}", classes.len());
                raise(Error::argument(function, what))
            }
        },
        Average::Micro => {
            let add = |all: Counts, class: &Counts| Counts {
                right: all.right + class.right,
                found: all.found + class.found,
                both: all.both + class.both,
            };
            score(classes.iter().fold(Counts::default(), add))
        }
        Average::Macro => {
            let occurs = |class: &&Counts| class.right + class.found > 0;
            let scores: Vec<f64> = (classes.iter().filter(occurs))
                .map(|&class| score(class))
                .collect();
            scores.iter().sum::<f64>() / scores.len() as f64
        }
        Average::Weighted => {
            let weighted = |&class: &Counts| class.right as f64 * score(class);
            classes.iter().map(weighted).sum::<f64>() / positions as f64
        }
    }
}

/// Counts the positions of each class.
#[track_caller]
fn of_classes(function: &'static str, y: &Variable, t: &Variable) -> Vec<Counts> {
    let (y, t) = expect_classes(function, y, t);
    let mut classes = vec![Counts::default(); y.shape()[1]];
    let found = y.argmax(1).to_vec::<i64>();
    for (right, found) in t.to_vec::<i64>().into_iter().zip(found) {
        expect_class(function, right, classes.len());
        if right >= 0 {
            counted(&mut classes, right as usize, found as usize);
        }
    }
    classes
}

/// Counts the positions of two classes.
#[track_caller]
fn of_two(function: &'static str, y: &Variable, t: &Variable) -> Vec<Counts> {
    let (y, t) = expect_same_shape(function, y, t);
    let mut classes = vec![Counts::default(); 2];
    let found = y.greater(0.0).cast(DType::I64).to_vec::<i64>();
    for (right, found) in t.to_vec::<i64>().into_iter().zip(found) {
        expect_class(function, right, 2);
        if right >= 0 {
            counted(&mut classes, right as usize, found as usize);
        }
    }
    classes
}

fn counted(classes: &mut [Counts], right: usize, found: usize) {
    classes[right].right += 1;
    classes[found].found += 1;
    classes[right].both += usize::from(right == found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    /// Scores that are largest at these classes.
    fn finding(classes: &[usize], count: usize) -> Variable {
        let of_one = |&found: &usize| (0..count).map(move |i| if i == found { 1.0 } else { 0.0 });
        let scores: Vec<f64> = classes.iter().flat_map(of_one).collect();
        Variable::constant(bibun_array::Array::from_vec(scores, [classes.len(), count]))
    }

    /// The numbers are those of scikit-learn 1.7, for `precision_score(t, y, average=...,
    /// zero_division=0)` and so on.
    #[test]
    fn as_in_scikit_learn() {
        let t = [0i64, 1, 2, 2, 1, 0, 3, 3, 0, 1];
        let y = finding(&[0, 2, 2, 1, 1, 0, 0, 3, 4, 1], 5);
        let scores = |average| {
            let t = Variable::constant(t);
            [
                precision(&y, &t, average),
                recall(&y, &t, average),
                f1_score(&y, &t, average),
            ]
        };
        let expected = [
            (Average::Micro, [0.6, 0.6, 0.6]),
            (
                Average::Macro,
                [0.5666666666666667, 0.4666666666666667, 0.5],
            ),
            (Average::Weighted, [0.7, 0.6, 0.6333333333333333]),
            (Average::Class(0), [2.0 / 3.0; 3]),
            (Average::Class(2), [0.5; 3]),
            (Average::Class(3), [1.0, 0.5, 2.0 / 3.0]),
            (Average::Class(4), [0.0; 3]),
        ];
        for (average, expected) in expected {
            for (found, expected) in scores(average).into_iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-15,
                    "{average:?}: {found} {expected}"
                );
            }
        }
        // A class that does not occur takes no part in the mean.
        let more = finding(&[0, 2, 2, 1, 1, 0, 0, 3, 4, 1], 7);
        assert_eq!(
            f1_score(&more, t, Average::Macro),
            scores(Average::Macro)[2]
        );
        let (y, t) = (
            Variable::constant([1.0, 0.5, -1.0, -0.1, 2.0, 0.0]),
            [0i64, 1, 1, 0, 1, 1],
        );
        assert_eq!(precision(&y, t, Average::Binary), 2.0 / 3.0);
        assert_eq!(recall(&y, t, Average::Binary), 0.5);
        assert_eq!(f1_score(&y, t, Average::Binary), 4.0 / 7.0);
    }

    #[test]
    fn ignored_positions_and_none() {
        let y = finding(&[0, 1, 1], 2);
        assert_eq!(precision(&y, [0i64, 1, -1], Average::Micro), 1.0);
        assert_eq!(recall(&y, [0i64, 1, -1], Average::Class(1)), 1.0);
        assert!(f1_score(&y, [-1i64, -1, -1], Average::Macro).is_nan());
        assert!(attempt(|| precision(&y, [0i64, 1, 2], Average::Micro)).is_err());
        assert!(attempt(|| precision(&y, [0i64, 1, 0], Average::Class(2))).is_err());
    }
}
