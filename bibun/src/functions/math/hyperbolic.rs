//! Hyperbolic functions and their inverses.

use crate::functions::family::unary;

unary! {
    /// The hyperbolic tangent, `tanh x = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)`.
    ///
    /// Shapes: x any → the same. Types: f32, f64; integers give f64.
    /// Gradient: `gy (1 - y²)`.
    ///
    /// ```
    /// use bibun::{functions::tanh, Variable};
    /// let x = Variable::new([0.0, 0.5]);
    /// assert_eq!(tanh(&x).to_vec::<f64>(), [0.0, 0.5f64.tanh()]);
    /// ```
    tanh(x) -> Tanh {
        value: x.tanh(),
        gradient(y; gy): gy * (1.0 - y * y),
        sample: (-3.0..3.0, f64::tanh),
    }
}
