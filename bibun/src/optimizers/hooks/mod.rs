//! Hooks: changes of the gradients between the backward pass and the rule of an optimizer.
//!
//! Hooks run in the order in which they were added, each on the gradients as the ones before it
//! left them, for all parameters or for those with certain names. The gradients that
//! [`Variable::grad`](crate::Variable::grad) returns do not change: on the CPU, hooks write their
//! results for one block at a time, and other devices read the hooks as formulas.
//!
//! ```
//! use bibun::Variable;
//! use bibun::optimizers::hooks::{ClipValue, WeightDecay};
//! use bibun::optimizers::{Optimizer, Sgd};
//! let mut optimizer = Sgd::new(1.0).hook(ClipValue(1.0)).hook(WeightDecay(0.5));
//! let w = Variable::new([2.0, -4.0]);
//! w.set_grad(&Variable::constant([0.25, 10.0]));
//! optimizer.update(&w);
//! assert_eq!(w.to_vec::<f64>(), [2.0 - (0.25 + 1.0), -4.0 - (1.0 - 2.0)]);
//! ```

mod clip;
mod decay;
mod noise;

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, Change, Device};

use crate::error::{Error, raise};

pub use clip::{ClipNorm, ClipValue};
pub use decay::{Lasso, WeightDecay};
pub use noise::GradientNoise;

/// A change of gradients, added to an optimizer by
/// [`RuleOptimizer::hook`](super::RuleOptimizer::hook).
///
/// ```
/// use bibun::Variable;
/// use bibun::array::math::Float;
/// use bibun::array::{Change, ElementFormula, Number};
/// use bibun::optimizers::hooks::{Hook, Site};
/// use bibun::optimizers::{Optimizer, Sgd};
///
/// /// Later steps change a parameter less.
/// #[derive(Clone, Copy, Debug)]
/// struct Fading(f64);
///
/// impl ElementFormula<2, 1> for Fading {
///     const NAME: &'static str = "fading";
///     #[inline(always)]
///     fn value<T: Float>([_, gw]: [Number<T>; 2], [factor]: [Number<T>; 1]) -> Number<T> {
///         factor * gw
///     }
/// }
///
/// impl Hook for Fading {
///     fn change(&self, site: &Site<'_>) -> Option<Change> {
///         Some(Change::of(*self, [], [self.0.powi(site.step as i32)]))
///     }
/// }
///
/// let mut optimizer = Sgd::new(1.0).hook(Fading(0.5));
/// let w = Variable::new(0.0);
/// for _ in 0..3 {
///     w.set_grad(&Variable::constant(-1.0));
///     optimizer.update(&w);
/// }
/// assert_eq!(w.item::<f64>(), 1.0 + 0.5 + 0.25);
/// ```
pub trait Hook: fmt::Debug + Send + Sync + 'static {
    /// Returns the change to the gradient of a parameter, a formula of `w` and `gw`, or `None` for
    /// no change.
    fn change(&self, site: &Site<'_>) -> Option<Change>;

    /// Checks the numbers of the hook when it is added to an optimizer, and returns what must hold if one has
    /// no meaning. Defaults to no check.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the gradients must be measured beforehand, for [`Site::squares`], in one
    /// more pass that reads them. Defaults to `false`.
    fn measures(&self) -> bool {
        false
    }

    /// Returns whether the change of each element depends on nothing of its parameter but this element, so that
    /// a parameter can be updated in parts, each as one axis
    /// ([`DataParallel::sharded`](crate::parallel::DataParallel::sharded)). Defaults to `false`.
    fn is_elementwise(&self) -> bool {
        false
    }
}

/// The parameter and step at which a [`Hook`] is applied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The name of the parameter.
    pub name: &'a str,
    /// The number of the parameter among the model's parameters, from 0.
    pub number: usize,
    /// The number of steps that the optimizer has made before this one.
    pub step: u64,
    /// The gradient before all hooks.
    pub gradient: &'a Array,
    /// The device on which the gradient is changed.
    pub device: &'static dyn Device,
    /// `Σ gw²` over all gradients that the hook changes, if it [measures](Hook::measures) them: a
    /// single element of `f64`.
    pub squares: &'a Array,
}

/// A condition on the names of parameters.
pub(super) type Names = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The hooks of an optimizer, in order, each with the condition on the parameters it applies to.
#[derive(Clone, Default)]
pub(super) struct Hooks(Vec<(Names, Arc<dyn Hook>)>);

impl Hooks {
    pub(super) fn push(&mut self, contains: Names, hook: impl Hook) {
        self.0.push((contains, Arc::new(hook)));
    }

    /// Returns the addresses of the conditions and hooks, which clones share.
    pub(super) fn addresses(&self) -> impl Iterator<Item = usize> {
        let each = |(contains, hook): &(Names, Arc<dyn Hook>)| {
            [Arc::as_ptr(contains).addr(), Arc::as_ptr(hook).addr()]
        };
        self.0.iter().flat_map(each)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a hook needs gradients measured.
    pub(super) fn measure(&self) -> bool {
        self.0.iter().any(|(_, hook)| hook.measures())
    }

    /// Returns whether no hook looks at more than single elements.
    pub(super) fn are_elementwise(&self) -> bool {
        self.0.iter().all(|(_, hook)| hook.is_elementwise())
    }

    /// Returns whether a hook, by its number, needs the gradient of a parameter measured.
    pub(super) fn measures(&self, number: usize, name: &str) -> bool {
        let (contains, hook) = &self.0[number];
        hook.measures() && contains(name)
    }

    /// Returns the changes that the first hooks, one for each sum of squares, make to a parameter's
    /// gradient.
    ///
    /// # Panics
    /// Panics if an array of a change does not fit the gradient.
    #[track_caller]
    pub(super) fn changes<'a>(
        &self,
        squares: &'a [Array],
        site: impl Fn(&'a Array) -> Site<'a>,
    ) -> Vec<Change> {
        let sites = squares.iter().map(site);
        let hooks = self.0.iter().zip(sites);
        let changes = hooks.filter(|((contains, _), site)| contains(site.name));
        let mut made = Vec::new();
        for ((_, hook), site) in changes {
            let Some(change) = hook.change(&site) else {
                continue;
            };
            change
                .others()
                .iter()
                .for_each(|x| expect_fit(&**hook, &site, x));
            made.push(change);
        }
        made
    }
}

/// Checks that an array of a change has the size and the dtype that the gradient asks for.
#[track_caller]
fn expect_fit(hook: &dyn Hook, site: &Site<'_>, x: &Array) {
    let gradient = site.gradient;
    let computed = gradient.dtype().accumulator();
    let dtypes = [gradient.dtype(), computed, computed.to_real()];
    let is_fit = x.size() == 1 || x.shape() == gradient.shape();
    if !is_fit || !dtypes.contains(&x.dtype()) {
        let what = format!(
            "{hook:?} changes the gradient of the parameter `{}`, {} {}, by an array {} {}; it must have a \
             single element or the shape of the gradient, and the dtype {}",
            site.name,
            gradient.dtype(),
            gradient.shape(),
            x.dtype(),
            x.shape(),
            computed,
        );
        raise(Error::argument("update", what));
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(_, hook)| hook))
            .finish()
    }
}
