//! The rule of an optimizer: how the elements of a parameter follow their gradients.

use std::fmt;

use bibun_array::Element;
use bibun_array::math::Machine;

/// The element types of parameters, `f32` and `f64`, with their arithmetic.
pub trait Real: Element + Machine {}
impl<T: Element + Machine> Real for T {}

/// How elements of a parameter follow their gradients, with `N` numbers of state for each: all that
/// an optimizer of one's own needs.
///
/// [`RuleOptimizer`](super::RuleOptimizer) does the rest: state for each parameter, its names in
/// a snapshot, groups, hooks and schedules.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::{Optimizer, Real, Rule, RuleOptimizer, Step};
///
/// /// `m ← β m + (1 - β) gw`, `w ← w - η sign m`.
/// #[derive(Clone, Debug)]
/// struct SignOfMomentum(f64);
///
/// impl Rule<1> for SignOfMomentum {
///     const STATE: [&'static str; 1] = ["m"];
///
///     fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], [m]: [&mut [T]; 1]) {
///         let [beta, rest, rate] = [self.0, 1.0 - self.0, step.learning_rate].map(T::from_f64);
///         for ((w, &gw), m) in w.iter_mut().zip(gw).zip(m) {
///             *m = beta * *m + rest * gw;
///             *w = *w - rate * m.sign();
///         }
///     }
/// }
///
/// let mut optimizer = RuleOptimizer::with_rule(0.5, SignOfMomentum(0.9));
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([3.0, -4.0]));
/// optimizer.update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.5, 2.5]);
/// ```
pub trait Rule<const N: usize>: Clone + fmt::Debug + Send {
    /// The names of the numbers of state.
    const STATE: [&'static str; N];

    /// What the numbers of state are before the first step.
    const INITIAL: [f64; N] = [0.0; N];

    /// Whether [`measure`](Rule::measure) must have seen the whole parameter before the first
    /// [`apply`](Rule::apply): a second pass over its memory.
    const MEASURES: bool = false;

    /// Updates elements of a parameter, `w`, from their gradients, `gw`. It is called once or more
    /// in a step, with one piece of the parameter after another.
    fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], state: [&mut [T]; N]);

    /// Two numbers of these elements, to be summed over the parameter for
    /// [`Step::sums`]; may change the state.
    fn measure<T: Real>(&self, step: &Step, w: &[T], gw: &[T], state: [&mut [T]; N]) -> [f64; 2] {
        let _ = (step, w, gw, state);
        [0.0; 2]
    }

    /// Is told the loss before a step, by [`Optimizer::minimize`](super::Optimizer::minimize).
    fn observe(&mut self, loss: f64) {
        let _ = loss;
    }

    /// The numbers of the rule itself that change in training, with their names in the state.
    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        Vec::new()
    }
}

/// What a [`Rule`] may know of a step of one parameter.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Step {
    /// η of the parameter in this step: that of its group, times the schedule's factor.
    pub learning_rate: f64,
    /// Which step of this parameter it is, from 1.
    pub number: u64,
    /// The sums of what [`Rule::measure`] gave.
    pub sums: [f64; 2],
}

/// `xⁿ` by squaring, which rounds alike on every machine.
pub(super) fn power(mut x: f64, mut n: u64) -> f64 {
    let mut power = 1.0;
    while n > 0 {
        if n % 2 == 1 {
            power *= x;
        }
        x *= x;
        n /= 2;
    }
    power
}
