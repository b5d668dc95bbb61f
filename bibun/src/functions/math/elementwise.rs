//! User-defined formulas as functions.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::RwLock;

use bibun_array::{Definition, ElementFormula, Shape};

use crate::call::composite_if;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::families::{ElementFunction, call};
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{broadcast_to, cast, float_of};
use crate::locks::{read, write};
use crate::variable::Variable;

/// Applies a custom formula to each element of the inputs, which are broadcast against each other.
///
/// Its derivatives of every order are derived from the formula, and each of them runs as a single
/// loop, like the formula itself.
///
/// Shapes: those of the inputs, broadcast.
/// Types: floats, promoted; integers count as f64.
/// Gradient: that of the operations in the formula, with their conventions at kinks and ties.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::array::math::Float;
/// use bibun::array::{ElementFormula, Number};
/// use bibun::functions::elementwise;
/// use bibun::{grad, Variable};
///
/// /// `sin(w x) / w`.
/// struct Wave;
/// impl ElementFormula<1, 1> for Wave {
///     const NAME: &'static str = "wave";
///     #[inline(always)]
///     fn value<T: Float>([x]: [Number<T>; 1], [w]: [Number<T>; 1]) -> Number<T> {
///         (w * x).sin() / w
///     }
/// }
/// let wave = |x: &Variable| elementwise(Wave, [x], [2.0]);
/// let x = Variable::new(0.5);
/// assert_eq!(wave(&x).item::<f64>(), 1f64.sin() / 2.0);
/// let second = grad(|x: &Variable| grad(wave, x), &x).item::<f64>();
/// assert!((second + 2.0 * 1f64.sin()).abs() < 1e-12);
/// ```
#[track_caller]
pub fn elementwise<F: ElementFormula<N, G>, const N: usize, const G: usize>(
    formula: F,
    inputs: [impl Into<Variable>; N],
    given: [f64; G],
) -> Variable {
    let _ = formula;
    let inputs = inputs.map(Into::into);
    let first = inputs[0].spec();
    let fits = first.dtype.is_float() && inputs.iter().all(|x| x.spec() == first);
    let _whole = composite_if(!fits, F::NAME);
    let inputs = match fits {
        true => inputs,
        false => alike(F::NAME, inputs),
    };
    call(function_of::<F, N, G>(), &given, inputs)
}

/// Returns the inputs with one common shape and dtype.
#[track_caller]
pub(in crate::functions) fn alike<const N: usize>(
    function: &'static str,
    inputs: [Variable; N],
) -> [Variable; N] {
    let dtype = float_of(inputs[0].dtype(), &inputs);
    let inputs = inputs.map(|x| cast(x, dtype));
    let specs: Vec<Spec> = inputs.iter().map(Variable::spec).collect();
    let common = |shape: Shape, spec: &Spec| shape.broadcast(&spec.shape);
    let Some(shape) = specs[1..].iter().try_fold(specs[0].shape.clone(), common) else {
        let named: Vec<(&str, &Spec)> = specs.iter().map(|spec| ("x", spec)).collect();
        mismatch(function, &named, MUST_BROADCAST)
    };
    let shape = shape.addressable(function);
    inputs.map(|x| broadcast_to(x, &shape))
}

/// Returns the function of a formula, which is made at the first call.
fn function_of<F: ElementFormula<N, G>, const N: usize, const G: usize>() -> &'static ElementFunction
{
    static KNOWN: RwLock<Option<Functions>> = RwLock::new(None);
    // A type may have several formulas, with different numbers of inputs.
    let id = (TypeId::of::<F>(), N, G);
    if let Some(function) = read(&KNOWN).as_ref().and_then(|known| known.get(&id)) {
        return function;
    }
    let definition = const { &Definition::of::<N, G, F>() };
    let mut known = write(&KNOWN);
    (known.get_or_insert_default().entry(id))
        .or_insert_with(|| Box::leak(Box::new(ElementFunction::new(definition, &[]))))
}

/// Functions by the type of their formula and its numbers of inputs and of given numbers.
type Functions = HashMap<(TypeId, usize, usize), &'static ElementFunction>;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::math::Float;
    use bibun_array::{Array, Number};

    use crate::conformance::Sample;

    struct Wave;
    impl ElementFormula<1, 1> for Wave {
        const NAME: &'static str = "wave";
        #[inline(always)]
        fn value<T: Float>([x]: [Number<T>; 1], [w]: [Number<T>; 1]) -> Number<T> {
            (w * x).sin() / w
        }
    }
    /// A formula of many operations: `a` where it is larger than 1, else an expression of all three
    /// inputs.
    struct Mixed;
    impl ElementFormula<3> for Mixed {
        const NAME: &'static str = "mixed";
        #[inline(always)]
        fn value<T: Float>([a, b, c]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
            let inner = (a * b).tanh() + Number(a.0.mul_add(b.0, c.0));
            a.greater(1.0)
                .where_(a, (inner / (1.0 + c.square())).exp().copysign(b))
        }
    }
    let mixed = |a: f64, b: f64, c: f64| match a > 1.0 {
        true => a,
        false => (((a * b).tanh() + a.mul_add(b, c)) / (1.0 + c * c))
            .exp()
            .copysign(b),
    };
    let function = function_of::<Wave, 1, 1>();
    vec![
        Sample::unary(
            "wave",
            -2.0..2.0,
            |x| elementwise(Wave, [x], [1.5]),
            |x| (1.5 * x).sin() / 1.5,
        )
        .of(function, &[1.5]),
        Sample::new(
            "mixed",
            |x| vec![elementwise(Mixed, [&x[0], &x[1], &x[2]], [])],
            move |x| {
                let [a, b, c] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                let y = (0..6).map(|i| mixed(a[i], b[i % 3], c[i / 3]));
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([2, 3], -2.0..0.9)
        .input([3], 0.3..2.0)
        .input([2, 1], -2.0..2.0),
        Sample::new(
            "mixed",
            |x| vec![elementwise(Mixed, [&x[0], &x[1], &x[2]], [])],
            move |x| {
                let [a, b, c] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                vec![Array::from_vec(
                    (0..4).map(|i| mixed(a[i], b[i], c[i])).collect(),
                    [4],
                )]
            },
        )
        .input([4], 1.1..2.0)
        .input([4], -2.0..-0.3)
        .input([4], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use bibun_array::Number;
    use bibun_array::math::Float;

    use super::*;

    #[test]
    fn a_type_may_be_formulas_of_one_input_and_of_two() {
        struct Both;
        impl ElementFormula<1> for Both {
            const NAME: &'static str = "both";
            fn value<T: Float>([x]: [Number<T>; 1], []: [Number<T>; 0]) -> Number<T> {
                x * x
            }
        }
        impl ElementFormula<2> for Both {
            const NAME: &'static str = "both";
            fn value<T: Float>([a, b]: [Number<T>; 2], []: [Number<T>; 0]) -> Number<T> {
                a - b
            }
        }
        let (a, b) = (Variable::new(3.0), Variable::new(5.0));
        assert_eq!(elementwise(Both, [&a], []).item::<f64>(), 9.0);
        let y = elementwise(Both, [&a, &b], []);
        assert_eq!(y.item::<f64>(), -2.0);
        y.backward();
        assert_eq!(b.grad().expect("a gradient").item::<f64>(), -1.0);
    }
}
