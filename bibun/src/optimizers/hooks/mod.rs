//! Hooks: changes of the gradients between the backward walk and the rule of an optimizer.
//!
//! They run in the order in which they were added, each on the gradients as the ones before it
//! left them, for all parameters or for those of certain names. The gradients that
//! [`Variable::grad`](crate::Variable::grad) gives do not change: hooks work on a copy of a block
//! at a time.
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

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bibun_array::{Array, Slice, SliceMut};

use super::blocks::{for_each_copied, for_each_piece};
use super::rule::Real;

pub use clip::{ClipNorm, ClipValue};
pub use decay::{Lasso, WeightDecay};
pub use noise::GradientNoise;

/// A change of gradients, by [`RuleOptimizer::hook`](super::RuleOptimizer::hook).
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::{Hook, Site};
/// use bibun::optimizers::{Optimizer, Real, Sgd};
///
/// /// Only the first steps may change a parameter.
/// #[derive(Debug)]
/// struct FreezeAfter(u64);
///
/// impl Hook for FreezeAfter {
///     fn apply<T: Real>(&self, site: &Site<'_>, _: &[T], gw: &mut [T]) {
///         if site.step >= self.0 {
///             gw.fill(T::ZERO);
///         }
///     }
/// }
///
/// let mut optimizer = Sgd::new(1.0).hook(FreezeAfter(2));
/// let w = Variable::new(0.0);
/// for _ in 0..5 {
///     w.set_grad(&Variable::constant(-1.0));
///     optimizer.update(&w);
/// }
/// assert_eq!(w.item::<f64>(), 2.0);
/// ```
pub trait Hook: fmt::Debug + Send + 'static {
    /// Whether [`measure`](Hook::measure) must have seen all gradients before the first
    /// [`apply`](Hook::apply): one more pass that reads them.
    const MEASURES: bool = false;

    /// Changes elements of the gradient `gw` of the elements `w` of a parameter.
    fn apply<T: Real>(&self, site: &Site<'_>, w: &[T], gw: &mut [T]);

    /// A number of these elements, to be summed over all that the hook will change, for
    /// [`Site::sum`].
    fn measure<T: Real>(&self, site: &Site<'_>, w: &[T], gw: &[T]) -> f64 {
        let _ = (site, w, gw);
        0.0
    }
}

/// Where a [`Hook`] is at work.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The name of the parameter.
    pub name: &'a str,
    /// Which of the model's parameters it is, from 0.
    pub number: usize,
    /// Where the elements begin in the parameter, in row-major order.
    pub start: usize,
    /// How many steps the optimizer has made before this one.
    pub step: u64,
    /// The sum of what [`Hook::measure`] gave.
    pub sum: f64,
}

/// A [`Hook`] of any type.
trait AnyHook: fmt::Debug + Send {
    fn measures(&self) -> bool;
    fn apply(&self, site: &Site<'_>, w: Slice<'_>, gw: SliceMut<'_>);
    fn measure(&self, site: &Site<'_>, w: Slice<'_>, gw: Slice<'_>) -> f64;
}

impl<H: Hook> AnyHook for H {
    fn measures(&self) -> bool {
        H::MEASURES
    }

    fn apply(&self, site: &Site<'_>, w: Slice<'_>, gw: SliceMut<'_>) {
        match (w, gw) {
            (Slice::F32(w), SliceMut::F32(gw)) => Hook::apply(self, site, w, gw),
            (Slice::F64(w), SliceMut::F64(gw)) => Hook::apply(self, site, w, gw),
            _ => unreachable!("a gradient has the dtype of its leaf, which holds floats"),
        }
    }

    fn measure(&self, site: &Site<'_>, w: Slice<'_>, gw: Slice<'_>) -> f64 {
        match (w, gw) {
            (Slice::F32(w), Slice::F32(gw)) => Hook::measure(self, site, w, gw),
            (Slice::F64(w), Slice::F64(gw)) => Hook::measure(self, site, w, gw),
            _ => unreachable!("a gradient has the dtype of its leaf, which holds floats"),
        }
    }
}

/// Which parameters, by their names.
pub(super) type Names = Box<dyn Fn(&str) -> bool + Send>;

/// The hooks of an optimizer, in order, each with the parameters that it is for.
#[derive(Default)]
pub(super) struct Hooks(Vec<(Names, Box<dyn AnyHook>)>);

impl Hooks {
    pub(super) fn push(&mut self, contains: Names, hook: impl Hook) {
        self.0.push((contains, Box::new(hook)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers of the hooks that need a sum over all gradients.
    pub(super) fn measuring(&self) -> impl Iterator<Item = usize> {
        let hooks = self.0.iter().enumerate();
        hooks.filter_map(|(i, (_, hook))| hook.measures().then_some(i))
    }

    /// What is done with the gradient of a parameter before the rule sees it.
    pub(super) fn preparation<'a>(
        &'a self,
        name: &'a str,
        number: usize,
        step: u64,
        sums: &'a [f64],
    ) -> Preparation<'a> {
        let hooks = self.0.iter().enumerate();
        let hooks = hooks.filter(|(_, (contains, _))| contains(name));
        let site = Site {
            name,
            number,
            start: 0,
            step,
            sum: 0.0,
        };
        Preparation {
            hooks: hooks.map(|(i, (_, hook))| (i, &**hook)).collect(),
            site,
            sums,
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(_, hook)| hook))
            .finish()
    }
}

/// The hooks of one parameter in one step.
pub(super) struct Preparation<'a> {
    /// With their numbers among all hooks.
    hooks: Vec<(usize, &'a dyn AnyHook)>,
    site: Site<'a>,
    /// By the number of the hook.
    sums: &'a [f64],
}

impl Preparation<'_> {
    /// What a hook, by its number, measures at this parameter, after the hooks before it.
    pub(super) fn measure<T: Real>(&self, number: usize, w: &Array, gradient: &Array) -> f64 {
        let Some(before) = self.hooks.iter().position(|&(i, _)| i == number) else {
            return 0.0;
        };
        // Only a parameter that has not made a step yet can lie otherwise.
        let w = match w.as_slice::<T>() {
            Some(w) => Cow::Borrowed(w),
            None => Cow::Owned(w.to_vec()),
        };
        let (hooks, (_, hook)) = (&self.hooks[..before], self.hooks[before]);
        let mut sum = 0.0;
        let mut add = |range: Range<usize>, gw: &[T]| {
            let site = self.site(range.start, number);
            sum += hook.measure(&site, T::to_slice(&w[range]), T::to_slice(gw));
        };
        if hooks.is_empty() {
            for_each_piece(gradient, &mut add);
        } else {
            for_each_copied(gradient, &mut |range, gw: &mut [T]| {
                self.change(hooks, range.start, &w[range.clone()], gw);
                add(range, gw);
            });
        }
        sum
    }

    /// Calls `f` with pieces of a parameter and of its gradient as the hooks leave it.
    pub(super) fn for_each<T: Real>(
        &self,
        w: &mut [T],
        gradient: &Array,
        mut f: impl FnMut(Range<usize>, &mut [T], &[T]),
    ) {
        if self.hooks.is_empty() {
            for_each_piece(gradient, &mut |range, gw: &[T]| {
                f(range.clone(), &mut w[range], gw)
            });
        } else {
            for_each_copied(gradient, &mut |range, gw: &mut [T]| {
                let w = &mut w[range.clone()];
                self.change(&self.hooks, range.start, w, gw);
                f(range, w, gw);
            });
        }
    }

    fn change<T: Real>(
        &self,
        hooks: &[(usize, &dyn AnyHook)],
        start: usize,
        w: &[T],
        gw: &mut [T],
    ) {
        for &(number, hook) in hooks {
            let site = self.site(start, number);
            hook.apply(&site, T::to_slice(w), T::to_slice_mut(gw));
        }
    }

    fn site(&self, start: usize, hook: usize) -> Site<'_> {
        Site {
            start,
            sum: self.sums[hook],
            ..self.site
        }
    }
}
