//! A step length that satisfies the strong Wolfe conditions.

/// A point on the ray of a line search.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The distance from the start, in units of the direction.
    pub length: f64,
    pub loss: f64,
    /// The derivative of the loss along the ray.
    pub slope: f64,
    pub w: Vec<f64>,
    pub gw: Vec<f64>,
}

/// The part of the decrease predicted by the first slope that must be achieved.
const DECREASE: f64 = 1e-4;
/// The part of the first slope that may remain.
const CURVATURE: f64 = 0.9;
/// The largest number of evaluations of the loss.
const EVALUATIONS: usize = 25;

/// Finds a point where the loss has decreased and become flat enough. `first` is tried first, from
/// `start`, whose slope is negative. If that fails, returns the best point with enough decrease, or
/// `None` if there is none.
///
/// Source: Nocedal, Wright, "Numerical optimization", 2nd edition, 2006, algorithms 3.5 and 3.6.
pub(super) fn strong_wolfe(
    start: &Trial,
    first: f64,
    evaluate: &mut dyn FnMut(f64) -> Trial,
) -> Option<Trial> {
    let falls = |trial: &Trial| {
        trial.loss <= start.loss + DECREASE * trial.length * start.slope && trial.slope.is_finite()
    };
    let is_flat = |trial: &Trial| trial.slope.abs() <= -CURVATURE * start.slope;
    // The lower end satisfies the first condition; `high` bounds the interval once it is set.
    let (mut low, mut high) = (start.clone(), None::<Trial>);
    let mut length = first;
    for _ in 0..EVALUATIONS {
        let trial = evaluate(length);
        if !falls(&trial) || trial.loss >= low.loss && low.length > 0.0 {
            high = Some(trial);
        } else if is_flat(&trial) {
            return Some(trial);
        } else {
            // The minimum is on the side to which the loss decreases from the new lower end.
            let ahead = high.as_ref().map_or(f64::INFINITY, |high| high.length) - trial.length;
            let old = std::mem::replace(&mut low, trial);
            if low.slope * ahead >= 0.0 {
                high = Some(old);
            } else if high.is_none() {
                length = extrapolate(&old, &low);
                continue;
            }
        }
        let high = high.as_ref().expect("set above unless the loop went on");
        if (high.length - low.length).abs() <= f64::EPSILON * low.length {
            break;
        }
        length = interpolate(&low, high);
    }
    (low.length > 0.0).then_some(low)
}

/// Returns a length beyond `b`, which is beyond `a`, where the loss still decreases.
fn extrapolate(a: &Trial, b: &Trial) -> f64 {
    let (least, most) = (b.length + 0.1 * (b.length - a.length), 10.0 * b.length);
    match cubic(a, b) {
        length if length > least => length.min(most),
        _ if b.slope > a.slope => least,
        _ => most,
    }
}

/// Returns a length between two points, not too near to either.
fn interpolate(a: &Trial, b: &Trial) -> f64 {
    let margin = 0.1 * (b.length - a.length).abs();
    let (least, most) = (a.length.min(b.length), a.length.max(b.length));
    let length = cubic(a, b);
    match length.is_finite() {
        true => length.clamp(least + margin, most - margin),
        false => 0.5 * (a.length + b.length),
    }
}

/// Returns the minimum of the cubic polynomial with the losses and slopes of two points; it is not
/// finite if there is no minimum or they are not finite.
///
/// Source: as above, equation 3.59.
fn cubic(a: &Trial, b: &Trial) -> f64 {
    let width = b.length - a.length;
    let d1 = a.slope + b.slope - 3.0 * (b.loss - a.loss) / width;
    let d2 = (d1 * d1 - a.slope * b.slope).sqrt() * width.signum();
    b.length - width * (b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2)
}
