//! The update rule of an optimizer for the elements of a parameter.

use std::fmt;

use bibun_array::math::Float;
use bibun_array::{Array, Given, Kernel, Number};

/// The update rule of an optimizer for each element of a parameter, with `N` numbers of state per
/// element and `G` given numbers that are the same for all elements. A custom optimizer needs only
/// this.
///
/// [`RuleOptimizer`](super::RuleOptimizer) does the rest: state for each parameter, its names in a
/// snapshot, groups, hooks and schedules. The update of an element is a formula, which runs in one
/// loop on the CPU and which any other device can read. `Debug` must show all settings of the rule,
/// because [`compile`](crate::compile) tells optimizers apart by it.
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
///     const NAME: &'static str = "SignOfMomentum";
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
pub trait UpdateRule<const N: usize, const G: usize>:
    Clone + fmt::Debug + Send + Sync + 'static
{
    /// The name of the optimizer in a saved state, which no optimizer of another name loads.
    const NAME: &'static str;

    /// The names of the numbers of state; `steps` is taken.
    const STATE: [&'static str; N];

    /// The values of the numbers of state before the first step.
    const INITIAL: [f64; N] = [0.0; N];

    /// Whether the rule [`observe`](UpdateRule::observe)s the loss. Every step then waits for the
    /// loss.
    const OBSERVES: bool = false;

    /// Checks the settings wherever an optimizer is given them, and the [`numbers`](UpdateRule::numbers) of a
    /// loaded state, and returns what must hold if one has no meaning. Defaults to no check.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the numbers given to [`element`](UpdateRule::element) in a step of a parameter.
    fn given(&self, step: &ParameterStep) -> [Given; G];

    /// Computes the new value of an element of a parameter, `w`, and of its state from its
    /// gradient, `gw`. Mark the implementation as `#[inline(always)]`, so that the loop around it
    /// is compiled to vector instructions.
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; N],
        given: [Number<T>; G],
    ) -> (Number<T>, [Number<T>; N]);

    /// Returns a kernel to measure over a whole parameter before [`given`](UpdateRule::given) is
    /// called, for [`ParameterStep::squares`]. The kernel computes a value from `w`, `gw` and the
    /// numbers of state at each element. Measuring takes a second pass over the parameter's memory.
    /// Defaults to no measurement.
    fn measured(&self, step: &ParameterStep) -> Option<Kernel> {
        let _ = step;
        None
    }

    /// Receives the loss before a step, from [`Optimizer::minimize`](super::Optimizer::minimize),
    /// if [`OBSERVES`](UpdateRule::OBSERVES) is true.
    fn observe(&mut self, loss: f64) {
        let _ = loss;
    }

    /// Returns the numbers of the rule itself that change in training, with their names in the
    /// state; `rule`, `steps` and `learning_rate` are taken.
    fn numbers(&mut self) -> Vec<(&'static str, &mut f64)> {
        Vec::new()
    }
}

/// The information about one step of a parameter that an [`UpdateRule`] can use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParameterStep {
    /// The learning rate η of the parameter in this step: that of its group, times the schedule's
    /// factor.
    pub learning_rate: f64,
    /// The number of this step of the parameter, from 1.
    pub number: u64,
    /// `Σ w²` over the parameter, and `Σ r²` of the values r of the kernel from
    /// [`UpdateRule::measured`]: single elements of `f64`, on the parameter's device. Zeros if
    /// nothing is measured.
    pub squares: [Array; 2],
}

/// Computes `xⁿ` by squaring, which rounds the same on every machine.
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

/// Defines the rule of an optimizer by its options, each a field of the rule and a method of the
/// optimizer: name, default (or parameters with theirs), range and meaning. The numbers behind them are
/// those that the rule itself changes, as they are at first.
macro_rules! rule {
    (
        $Rule:ident of $Optimizer:ident { $($option:ident $default:tt in $range:ident: $meaning:literal;)+ }
        $($(#[$documentation:meta])* $number:ident = $initial:expr;)*
    ) => {
        #[doc = concat!("The rule of [`", stringify!($Optimizer), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Rule {
            $(
                #[doc = concat!("The ", $meaning, ".")]
                pub $option: $crate::optimizers::rule::rule!(@type $default),
            )+
            $($(#[$documentation])* $number: f64,)*
        }

        impl Default for $Rule {
            fn default() -> Self {
                Self {
                    $($option: $crate::optimizers::rule::rule!(@value $default),)+
                    $($number: $initial,)*
                }
            }
        }

        impl $Rule {
            fn check_options(&self) -> Result<(), String> {
                $($crate::optimizers::rule::rule! { @check (self.$option) $default $range $meaning })+
                Ok(())
            }
        }

        impl $Optimizer {
            $($crate::optimizers::rule::rule! { @method $option $default $range $meaning })+
        }
    };
    (@type ($value:literal)) => { f64 };
    (@type ($a:ident: $x:literal, $b:ident: $y:literal)) => { [f64; 2] };
    (@type ($a:ident: $x:literal, $b:ident: $y:literal, $c:ident: $z:literal)) => { [f64; 3] };
    (@value ($value:literal)) => { $value };
    (@value ($($part:ident: $value:literal),+)) => { [$($value),+] };
    (@check ($option:expr) ($value:literal) $range:ident $meaning:literal) => {
        $crate::optimizers::settings::check($meaning, $option, $crate::optimizers::settings::Range::$range)?;
    };
    (@check ($option:expr) ($($part:ident: $value:literal),+) $range:ident $meaning:literal) => {
        let [$($part),+] = $option;
        $(
            let name = concat!("`", stringify!($part), "` of the ", $meaning);
            $crate::optimizers::settings::check(name, $part, $crate::optimizers::settings::Range::$range)?;
        )+
    };
    (@method $option:ident ($value:literal) $range:ident $meaning:literal) => {
        #[doc = concat!("Sets the ", $meaning, ". Defaults to `", $value, "`.")]
        ///
        /// # Panics
        #[doc = concat!("Panics unless it is ", $crate::optimizers::settings::text!($range), ".")]
        #[must_use]
        #[track_caller]
        pub fn $option(self, $option: f64) -> Self {
            self.changed(stringify!($option), |rule| rule.$option = $option)
        }
    };
    (@method $option:ident ($($part:ident: $value:literal),+) $range:ident $meaning:literal) => {
        #[doc = concat!("Sets the ", $meaning, ". Defaults to `", stringify!($($value),+), "`.")]
        ///
        /// # Panics
        #[doc = concat!("Panics unless each is ", $crate::optimizers::settings::text!($range), ".")]
        #[must_use]
        #[track_caller]
        pub fn $option(self, $($part: f64),+) -> Self {
            self.changed(stringify!($option), |rule| rule.$option = [$($part),+])
        }
    };
}
pub(super) use rule;
