//! Bijectors of numbers.

use bibun_array::{Array, Shape};

use super::Bijector;
use crate::Tree;
use crate::call::composite;
use crate::distributions::parameters::{expect_finite, parameters};
use crate::error::{Error, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, clip, is_finite, log_sigmoid, logical_and, maximum, sigmoid, zeros_like,
};
use crate::variable::Variable;

/// `loc + scale x`, for a scale that is not 0.
///
/// ```
/// use bibun::distributions::bijectors::{Affine, Bijector};
/// let f = Affine::new(1.0, -2.0);
/// assert_eq!(f.forward(&3.0.into()).item::<f64>(), -5.0);
/// assert_eq!(f.inverse(&(-5.0).into()).item::<f64>(), 3.0);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Affine {
    /// The value at 0.
    pub loc: Variable,
    /// The slope.
    pub scale: Variable,
}

impl Affine {
    /// Creates the bijector from its value at 0 and its slope, which broadcast.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, one is not finite, or a slope is 0.
    #[track_caller]
    pub fn new(loc: impl Into<Operand>, scale: impl Into<Operand>) -> Self {
        let _whole = composite("Affine");
        let [loc, scale] = parameters("Affine", [loc.into(), scale.into()]);
        expect_finite("Affine", "loc", &loc);
        let holds = logical_and(is_finite(&scale), scale.not_equal(0.0));
        expect_everywhere("Affine", "scale", &scale, &holds, "a finite number, not 0");
        Self { loc, scale }
    }
}

impl Bijector for Affine {
    fn name(&self) -> &'static str {
        "Affine"
    }

    fn forward(&self, x: &Variable) -> Variable {
        &self.loc + &self.scale * x
    }

    fn inverse(&self, y: &Variable) -> Variable {
        (y - &self.loc) / &self.scale
    }

    fn log_abs_det_jacobian(&self, x: &Variable, _: &Variable) -> Variable {
        self.scale.abs().log() + zeros_like(x)
    }

    /// Its parameters broadcast with x.
    fn forward_shape(&self, x: &Shape) -> Shape {
        let own = self.loc.shape();
        own.broadcast(x).unwrap_or_else(|| {
            let what = format!("parameters {own} do not broadcast with values {x}");
            raise(Error::argument("Affine", what))
        })
    }

    fn increases(&self) -> Option<Variable> {
        Some(self.scale.greater(0.0))
    }
}

/// Defines an increasing bijector of numbers without parameters.
macro_rules! increasing {
    ($(
        $(#[$documentation:meta])*
        $Name:ident: |$x:ident| $forward:expr, |$y:ident| $inverse:expr, |$at:ident| $log_slope:expr;
    )+) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, Tree)]
        pub struct $Name;

        impl Bijector for $Name {
            fn name(&self) -> &'static str {
                stringify!($Name)
            }

            fn forward(&self, $x: &Variable) -> Variable {
                $forward
            }

            fn inverse(&self, $y: &Variable) -> Variable {
                $inverse
            }

            fn log_abs_det_jacobian(&self, $at: &Variable, _: &Variable) -> Variable {
                $log_slope
            }

            fn increases(&self) -> Option<Variable> {
                Some(Variable::constant(Array::from(true)))
            }
        }
    )+};
}

increasing! {
    /// `exp(x)`, onto the positive numbers.
    ///
    /// ```
    /// use bibun::distributions::bijectors::{Bijector, Exp};
    /// assert_eq!(Exp.inverse(&1.0.into()).item::<f64>(), 0.0);
    /// ```
    Exp: |x| x.exp(), |y| maximum(y, 0.0).log(), |x| x.clone();

    /// `1 / (1 + exp(-x))`, onto the numbers between 0 and 1.
    ///
    /// ```
    /// use bibun::distributions::bijectors::{Bijector, Sigmoid};
    /// assert_eq!(Sigmoid.forward(&0.0.into()).item::<f64>(), 0.5);
    /// ```
    Sigmoid: |x| sigmoid(x),
        |y| {
            let y = clip(y, 0.0, 1.0);
            y.log() - (-y).log1p()
        },
        |x| log_sigmoid(x) + log_sigmoid(-x);

    /// `log(1 + exp(x))`, onto the positive numbers.
    ///
    /// ```
    /// use bibun::distributions::bijectors::{Bijector, Softplus};
    /// let y = Softplus.forward(&(-700.0).into());
    /// assert!((Softplus.inverse(&y).item::<f64>() + 700.0).abs() < 1e-10);
    /// ```
    Softplus: |x| -log_sigmoid(-x),
        |y| {
            // log(exp(y) - 1) without overflow.
            let y = maximum(y, 0.0);
            &y + (-(-&y).expm1()).log()
        },
        |x| log_sigmoid(x);

    /// `tanh(x)`, onto the numbers between -1 and 1.
    ///
    /// ```
    /// use bibun::distributions::bijectors::{Bijector, Tanh};
    /// assert_eq!(Tanh.inverse(&0.0.into()).item::<f64>(), 0.0);
    /// ```
    Tanh: |x| x.tanh(),
        |y| clip(y, -1.0, 1.0).atanh(),
        // log(1 - tanh² x) = 2 (log 2 - x + log σ(2x))
        |x| 2.0 * (std::f64::consts::LN_2 - x + log_sigmoid(2.0 * x));
}
