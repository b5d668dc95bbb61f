//! Optimizers, which update parameters by their gradients.
//!
//! ```
//! use bibun::optimizers::{Optimizer, Sgd};
//! use bibun::Variable;
//!
//! // The smallest x² - 6 x.
//! let x = Variable::new(0.0);
//! let mut optimizer = Sgd::new(0.1);
//! for _ in 0..100 {
//!     optimizer.minimize(&x, &mut || &x * &x - 6.0 * &x);
//! }
//! assert!((x.item::<f64>() - 3.0).abs() < 1e-8);
//! ```
//!
//! | | | state of each element |
//! |---|---|---|
//! | [`Sgd`], [`MomentumSgd`], [`NesterovAg`] | along the negative gradient | none; `v`; `v` |
//! | [`AdaGrad`], [`AdaDelta`], [`RmsProp`], [`RmsPropGraves`], [`Smorms3`] | scaled by past gradients | `h`; `g`, `d`; `v`; `n`, `g`, `d`; `g`, `v`, `memory` |
//! | [`Adam`], [`AdamW`], [`AmsGrad`], [`Eve`], [`Lamb`] | momentum and scaling | `m`, `v`; AMSGrad also `largest` |
//! | [`Rprop`], [`Lion`] | by the sign alone | `s`, `g`; `m` |
//! | [`Lbfgs`] | by curvature, for losses that can be evaluated repeatedly | vectors of its history |
//!
//! All except L-BFGS are a [`RuleOptimizer`]: an [`UpdateRule`] of a few lines, to which
//! `RuleOptimizer` adds groups, [`hooks`] and [schedules](schedule).
//!
//! ```
//! use bibun::array::Generator;
//! use bibun::links::{Linear, Link};
//! use bibun::optimizers::hooks::{ClipNorm, WeightDecay};
//! use bibun::optimizers::schedule::{Lasting, cosine, warm_up};
//! use bibun::optimizers::{MomentumSgd, Optimizer};
//! use bibun::Variable;
//!
//! let model = Linear::new(3, 2, &mut Generator::new(0));
//! let mut optimizer = MomentumSgd::new(0.02, 0.5)
//!     .group(|name| name.ends_with("bias"), |biases| biases.learning_rate = 0.04)
//!     .hook_where(|name| !name.ends_with("bias"), WeightDecay(1e-4))
//!     .hook(ClipNorm(1.0))
//!     .schedule(warm_up(10).then(cosine(90)));
//! let x = Variable::constant([[1f32, 2.0, 3.0]]);
//! for _ in 0..100 {
//!     optimizer.minimize(&model, &mut || (model.forward(&x) - 1.0).square().sum(..));
//! }
//! assert!((model.forward(&x) - 1.0).abs().sum(..).item::<f64>() < 0.01);
//! ```

mod ada_delta;
mod ada_grad;
mod adam;
mod adam_w;
mod ams_grad;
mod eve;
pub mod hooks;
mod lamb;
mod lbfgs;
mod lion;
mod momentum_sgd;
mod nesterov_ag;
mod rms_prop;
mod rms_prop_graves;
mod rprop;
mod rule;
mod rule_optimizer;
pub mod schedule;
mod settings;
mod sgd;
mod slots;
mod smorms3;
mod stepped;

pub use ada_delta::{AdaDelta, AdaDeltaRule};
pub use ada_grad::{AdaGrad, AdaGradRule};
pub use adam::{Adam, AdamRule};
pub use adam_w::{AdamW, AdamWRule};
pub use ams_grad::{AmsGrad, AmsGradRule};
pub use eve::{Eve, EveRule};
pub use lamb::{Lamb, LambRule};
pub use lbfgs::Lbfgs;
pub use lion::{Lion, LionRule};
pub use momentum_sgd::{MomentumSgd, MomentumSgdRule};
pub use nesterov_ag::{NesterovAg, NesterovAgRule};
pub use rms_prop::{RmsProp, RmsPropRule};
pub use rms_prop_graves::{RmsPropGraves, RmsPropGravesRule};
pub use rprop::{Rprop, RpropRule};
pub use rule::{ParameterStep, UpdateRule};
pub use rule_optimizer::{RuleOptimizer, Settings};
pub use sgd::{Sgd, SgdRule};
pub use smorms3::{Smorms3, Smorms3Rule};

use std::fmt;

use crate::call::calling;
use crate::error::{Error, raise};
use crate::links::{Chain, for_each_parameter};
use crate::serializers::Stateful;
use crate::variable::Variable;

/// An algorithm that updates the parameters of a [`Chain`] by their gradients.
///
/// Parameters are updated in place, in one pass over parameter, gradient and state, as long as no
/// history holds the old values, so drop the loss first. A parameter without a gradient is not
/// changed, nor is its state. The same is true of a [frozen](Chain::freeze) parameter, whether it
/// has a gradient or not: no decay applies to it, and when it is unfrozen it continues with the
/// state that it had. A shared parameter is updated once.
///
/// An optimizer holds the parameters that it has state for, and the names that they had in the model at
/// the last step. Its [`state`](Stateful::state) uses these names, and can be loaded into an optimizer of
/// the same kind for a model with parameters of the same names, before or after its first update.
/// Parameters that no model has any more are left out.
/// Training that resumes from such a state gives the same bits as training that was not
/// interrupted.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::{Adam, Optimizer};
/// use bibun::serializers::Stateful;
///
/// let step = |optimizer: &mut dyn Optimizer, w: &Variable| {
///     optimizer.minimize(w, &mut || (w - 3.0).square());
/// };
/// let (w, mut optimizer) = (Variable::new(0.0), Adam::new(0.1));
/// step(&mut optimizer, &w);
/// let (resumed, mut other) = (Variable::new(w.array()), Adam::new(0.1));
/// other.load_state(&optimizer.state())?;
/// step(&mut optimizer, &w);
/// step(&mut other, &resumed);
/// assert_eq!(resumed.item::<f64>(), w.item::<f64>());
/// # Ok::<(), bibun::serializers::StateError>(())
/// ```
pub trait Optimizer: Stateful + fmt::Debug + Send {
    /// Makes one step, by the accumulated gradients.
    ///
    /// # Panics
    /// Panics if there is nothing to train because all parameters are frozen or there are none, or
    /// if a loaded state has arrays of another shape or dtype for one of the parameters.
    #[track_caller]
    fn update(&mut self, model: &dyn Chain);

    /// Clears the gradients, computes the loss, runs the backward pass, releases the history and
    /// makes one step. Returns the loss from before the step, detached.
    ///
    /// [`Eve`] needs to know the loss, and [`Lbfgs`] may compute it several times.
    ///
    /// # Panics
    /// Panics as [`update`](Optimizer::update) and [`Variable::backward`] do.
    #[track_caller]
    fn minimize(&mut self, model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
        let loss = evaluate(model, objective);
        self.update(model);
        loss
    }

    /// Returns the learning rate of the next step: the base learning rate times the schedule's
    /// factor.
    fn learning_rate(&self) -> f64;

    /// Returns the learning rate before the schedule's factor.
    fn base_learning_rate(&self) -> f64;

    /// Sets the base learning rate for the following steps. The learning rates of groups change by
    /// the same ratio.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    fn set_learning_rate(&mut self, learning_rate: f64);

    /// Returns the number of steps made.
    fn steps(&self) -> u64;

    /// Returns whether the update of each parameter depends on its own gradient and state alone, so that
    /// different processes can update different parameters. Defaults to `false`.
    fn is_separable(&self) -> bool {
        false
    }

    /// Returns whether the update of each element depends on its own gradient and state alone, so that
    /// different processes can update different elements of a parameter. Defaults to `false`.
    fn is_elementwise(&self) -> bool {
        false
    }
}

// A call through `dyn` does not know the caller's line.
impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    #[track_caller]
    fn update(&mut self, model: &dyn Chain) {
        let _called = calling("update");
        (**self).update(model);
    }

    #[track_caller]
    fn minimize(&mut self, model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
        let _called = calling("minimize");
        (**self).minimize(model, objective)
    }

    fn learning_rate(&self) -> f64 {
        (**self).learning_rate()
    }

    fn base_learning_rate(&self) -> f64 {
        (**self).base_learning_rate()
    }

    #[track_caller]
    fn set_learning_rate(&mut self, learning_rate: f64) {
        let _called = calling("set_learning_rate");
        (**self).set_learning_rate(learning_rate);
    }

    fn steps(&self) -> u64 {
        (**self).steps()
    }

    fn is_separable(&self) -> bool {
        (**self).is_separable()
    }

    fn is_elementwise(&self) -> bool {
        (**self).is_elementwise()
    }
}

/// Computes the loss and its gradients in the parameters; returns the loss detached, with its
/// history released.
#[track_caller]
fn evaluate(model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
    check_trainable("minimize", model);
    model.clear_grads();
    let loss = objective();
    loss.backward();
    loss.detach()
}

/// Checks that there is something to train.
#[track_caller]
fn check_trainable(function: &'static str, model: &dyn Chain) {
    let (mut all, mut frozen) = (0, 0);
    for_each_parameter(model, |_, parameter| {
        all += 1;
        frozen += usize::from(parameter.is_frozen());
    });
    let what = match (all, frozen) {
        (0, _) => "the model has no parameters, so there is nothing to train".to_owned(),
        _ if frozen == all => format!(
            "all parameters of the model are frozen ({all}), so there is nothing to train; unfreeze \
             what shall be trained"
        ),
        _ => return,
    };
    raise(Error::argument(function, what));
}
