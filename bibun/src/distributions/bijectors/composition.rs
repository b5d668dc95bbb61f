//! Bijectors one after the other, and turned around.

use bibun_array::{Array, Shape};

use super::Bijector;
use crate::Tree;
use crate::distributions::parameters::last_axes;
use crate::functions::{equal, zeros_like};
use crate::variable::Variable;

/// The inverse of a bijector as a bijector.
///
/// ```
/// use bibun::distributions::bijectors::{Bijector, Exp, Inverse};
/// assert_eq!(Inverse(Exp).forward(&1.0.into()).item::<f64>(), 0.0);
/// ```
#[derive(Clone, Copy, Debug, Tree)]
pub struct Inverse<B>(pub B);

impl<B: Bijector> Bijector for Inverse<B> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn event_rank(&self) -> usize {
        self.0.event_rank()
    }

    fn forward(&self, x: &Variable) -> Variable {
        self.0.inverse(x)
    }

    fn inverse(&self, y: &Variable) -> Variable {
        self.0.forward(y)
    }

    fn log_abs_det_jacobian(&self, x: &Variable, y: &Variable) -> Variable {
        -self.0.log_abs_det_jacobian(y, x)
    }

    fn forward_shape(&self, x: &Shape) -> Shape {
        self.0.inverse_shape(x)
    }

    fn inverse_shape(&self, y: &Shape) -> Shape {
        self.0.forward_shape(y)
    }

    fn increases(&self) -> Option<Variable> {
        self.0.increases()
    }
}

/// Bijectors one after the other. They may have different types, so each is behind a reference.
fn forward(all: &[&dyn Bijector], x: &Variable) -> Variable {
    all.iter().fold(x.clone(), |x, f| f.forward(&x))
}

fn inverse(all: &[&dyn Bijector], y: &Variable) -> Variable {
    all.iter().rev().fold(y.clone(), |y, f| f.inverse(&y))
}

fn event_rank(all: &[&dyn Bijector]) -> usize {
    all.iter().map(|f| f.event_rank()).max().unwrap_or(0)
}

fn log_abs_det_jacobian(all: &[&dyn Bijector], x: &Variable, y: &Variable) -> Variable {
    let rank = event_rank(all);
    let (mut at, mut sum) = (x.clone(), None);
    for (i, f) in all.iter().enumerate() {
        let next = match i + 1 == all.len() {
            true => y.clone(),
            false => f.forward(&at),
        };
        let log = f.log_abs_det_jacobian(&at, &next);
        let log = log.sum(last_axes(rank - f.event_rank()));
        sum = Some(match sum {
            Some(sum) => sum + log,
            None => log,
        });
        at = next;
    }
    sum.unwrap_or_else(|| zeros_like(x))
}

fn forward_shape(all: &[&dyn Bijector], x: &Shape) -> Shape {
    all.iter().fold(x.clone(), |x, f| f.forward_shape(&x))
}

fn inverse_shape(all: &[&dyn Bijector], y: &Shape) -> Shape {
    all.iter().rev().fold(y.clone(), |y, f| f.inverse_shape(&y))
}

/// A function increases if an even number of its parts decrease.
fn increases(all: &[&dyn Bijector]) -> Option<Variable> {
    let mut increases = Variable::constant(Array::from(true));
    for f in all {
        increases = equal(increases, f.increases()?);
    }
    Some(increases)
}

/// Implements [`Bijector`] for a sequence by the functions above.
macro_rules! sequence {
    ([$($generics:tt)+] $Sequence:ty, |$own:ident| $all:expr) => {
        impl<$($generics)+> Bijector for $Sequence {
            fn name(&self) -> &'static str {
                "a sequence of bijectors"
            }

            fn event_rank(&self) -> usize {
                let $own = self;
                event_rank($all)
            }

            fn forward(&self, x: &Variable) -> Variable {
                let $own = self;
                forward($all, x)
            }

            fn inverse(&self, y: &Variable) -> Variable {
                let $own = self;
                inverse($all, y)
            }

            fn log_abs_det_jacobian(&self, x: &Variable, y: &Variable) -> Variable {
                let $own = self;
                log_abs_det_jacobian($all, x, y)
            }

            fn forward_shape(&self, x: &Shape) -> Shape {
                let $own = self;
                forward_shape($all, x)
            }

            fn inverse_shape(&self, y: &Shape) -> Shape {
                let $own = self;
                inverse_shape($all, y)
            }

            fn increases(&self) -> Option<Variable> {
                let $own = self;
                increases($all)
            }
        }
    };
}
sequence!([A: Bijector, B: Bijector] (A, B), |all| &[&all.0, &all.1]);
sequence!([A: Bijector, B: Bijector, C: Bijector] (A, B, C), |all| &[&all.0, &all.1, &all.2]);
sequence!([A: Bijector, B: Bijector, C: Bijector, D: Bijector] (A, B, C, D), |all| &[&all.0, &all.1, &all.2, &all.3]);
sequence!([B: Bijector] Vec<B>, |all| &all.iter().map(|f| f as &dyn Bijector).collect::<Vec<_>>());
