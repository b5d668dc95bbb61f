//! The rule of an optimizer: how the elements of a parameter follow their gradients.

use std::fmt;

use bibun_array::math::Float;
use bibun_array::{Array, Given, Kernel, Number};

/// How elements of a parameter follow their gradients, with `N` numbers of state for each and `G` given
/// numbers that are the same for all: all that an optimizer of one's own needs.
///
/// [`RuleOptimizer`](super::RuleOptimizer) does the rest: state for each parameter, its names in
/// a snapshot, groups, hooks and schedules. What happens at an element is a formula, in one loop on the
/// CPU and readable for any other device.
///
/// ```
/// use bibun::Variable;
/// use bibun::array::math::Float;
/// use bibun::array::{Given, Number};
/// use bibun::optimizers::{Optimizer, UpdateRule, RuleOptimizer, ParameterStep};
///
/// /// `m ← β m + (1 - β) gw`, `w ← w - η sign m`.
/// #[derive(Clone, Debug)]
/// struct SignOfMomentum(f64);
///
/// impl UpdateRule<1, 3> for SignOfMomentum {
///     const STATE: [&'static str; 1] = ["m"];
///
///     fn given(&self, step: &ParameterStep) -> [Given; 3] {
///         [step.learning_rate, self.0, 1.0 - self.0].map(Given::Number)
///     }
///
///     #[inline(always)]
///     fn element<T: Float>(
///         w: Number<T>,
///         gw: Number<T>,
///         [m]: [Number<T>; 1],
///         [rate, beta, rest]: [Number<T>; 3],
///     ) -> (Number<T>, [Number<T>; 1]) {
///         let m = beta * m + rest * gw;
///         (w - rate * m.sign(), [m])
///     }
/// }
///
/// let mut optimizer = RuleOptimizer::with_rule(0.5, SignOfMomentum(0.9));
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([3.0, -4.0]));
/// optimizer.update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.5, 2.5]);
/// ```
pub trait UpdateRule<const N: usize, const G: usize>: Clone + fmt::Debug + Send + 'static {
    /// The names of the numbers of state.
    const STATE: [&'static str; N];

    /// What the numbers of state are before the first step.
    const INITIAL: [f64; N] = [0.0; N];

    /// Whether the rule wants to [`observe`](UpdateRule::observe) the loss, for which every step waits.
    const OBSERVES: bool = false;

    /// The numbers given to [`element`](UpdateRule::element) in a step of a parameter.
    fn given(&self, step: &ParameterStep) -> [Given; G];

    /// What an element of a parameter, `w`, and its state become by its gradient, `gw`. Mark it as
    /// `#[inline(always)]`, and the loop around it becomes vector instructions.
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; N],
        given: [Number<T>; G],
    ) -> (Number<T>, [Number<T>; N]);

    /// What must be measured of a whole parameter before [`given`](UpdateRule::given) is asked, for
    /// [`ParameterStep::squares`]: what this kernel of `w`, `gw` and the numbers of state gives at each element. It
    /// takes a second pass over the parameter's memory. Defaults to nothing.
    fn measured(&self, step: &ParameterStep) -> Option<Kernel> {
        let _ = step;
        None
    }

    /// Is told the loss before a step, by [`Optimizer::minimize`](super::Optimizer::minimize), if it
    /// [wants](UpdateRule::OBSERVES) to be.
    fn observe(&mut self, loss: f64) {
        let _ = loss;
    }

    /// The numbers of the rule itself that change in training, with their names in the state.
    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        Vec::new()
    }
}

/// What a [`UpdateRule`] may know of a step of one parameter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParameterStep {
    /// η of the parameter in this step: that of its group, times the schedule's factor.
    pub learning_rate: f64,
    /// Which step of this parameter it is, from 1.
    pub number: u64,
    /// `Σ w²` over the parameter, and `Σ r²` of what [`UpdateRule::measured`] says: single elements of `f64`,
    /// where the parameter is. Zeros if nothing is measured.
    pub squares: [Array; 2],
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
