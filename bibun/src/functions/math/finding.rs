//! Searches along axes: the position of an extreme, and whether all or any elements are true.

use bibun_array::{Array, Axes, DType};

use crate::batch::Batched;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::Over;
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::variable::Variable;

/// Returns the position of the maximum over axes: the first of equal elements, and the first NaN
/// before any number. Over several axes (`..` for all; see [`Axes`]) it is the position in row-major
/// order of these axes, as if they were flattened into one.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all → i64.
/// Gradient: none.
///
/// # Panics
/// Panics if there is no such axis, or there are no elements over the axes.
///
/// ```
/// use bibun::{functions::argmax, Variable};
/// let x = Variable::new([[1.0, 5.0, 5.0], [3.0, 0.0, 7.0]]);
/// assert_eq!(argmax(&x, 1).to_vec::<i64>(), [1, 2]);
/// assert_eq!(argmax(&x, ..).item::<i64>(), 5);
/// ```
#[track_caller]
pub fn argmax(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    extreme("argmax", x.into(), &axes.into())
}
method!(argmax, axes: impl Into<Axes>);

/// Returns the position of the minimum over axes: the first of equal elements, and the first NaN
/// before any number. Over several axes (`..` for all; see [`Axes`]) it is the position in row-major
/// order of these axes, as if they were flattened into one.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all → i64.
/// Gradient: none.
///
/// # Panics
/// Panics if there is no such axis, or there are no elements over the axes.
///
/// ```
/// use bibun::{array::keep_dims, functions::argmin, Variable};
/// let x = Variable::new([[1.0, 5.0, 5.0], [3.0, 0.0, 2.0]]);
/// assert_eq!(argmin(&x, -1).to_vec::<i64>(), [0, 1]);
/// assert_eq!(argmin(&x, keep_dims(1)).shape(), [2, 1]);
/// ```
#[track_caller]
pub fn argmin(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    extreme("argmin", x.into(), &axes.into())
}
method!(argmin, axes: impl Into<Axes>);

#[track_caller]
fn extreme(name: &'static str, x: Variable, axes: &Axes) -> Variable {
    let over = Over::new(name, axes, &x);
    Discrete::of(ArgExtreme { name, over }, [x])
}

#[derive(Clone, Debug)]
struct ArgExtreme {
    name: &'static str,
    over: Over,
}

impl DiscreteRule for ArgExtreme {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        let [y] = self.over.of_something(x)?;
        Ok(Spec::new(y.shape, DType::I64))
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        match self.name {
            "argmax" => x.argmax(self.over.axes()),
            _ => x.argmin(self.over.axes()),
        }
    }
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Discrete(Self { over, ..*self }), x)
    }
}

/// Returns whether all elements over axes are true, that is, not zero (NaN counts as true). It is
/// true for no elements.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all → bool.
/// Gradient: none.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::all, Variable};
/// let x = Variable::constant([[true, true], [true, false]]);
/// assert_eq!(all(&x, 1).to_vec::<bool>(), [true, false]);
/// ```
#[track_caller]
pub fn all(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    truth("all", x.into(), &axes.into())
}
method!(all, axes: impl Into<Axes>);

/// Returns whether any element over axes is true, that is, not zero (NaN counts as true). It is
/// false for no elements.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all → bool.
/// Gradient: none.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::any, Variable};
/// let x = Variable::constant([[true, false], [false, false]]);
/// assert_eq!(any(&x, 1).to_vec::<bool>(), [true, false]);
/// ```
#[track_caller]
pub fn any(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    truth("any", x.into(), &axes.into())
}
method!(any, axes: impl Into<Axes>);

#[track_caller]
fn truth(name: &'static str, x: Variable, axes: &Axes) -> Variable {
    let over = Over::new(name, axes, &x);
    Discrete::of(Truth { name, over }, [x])
}

#[derive(Clone, Debug)]
struct Truth {
    name: &'static str,
    over: Over,
}

impl DiscreteRule for Truth {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(self.over.reduced(&x.shape), DType::Bool))
    }
    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x]: [Array; 1]) -> Array {
        match self.name {
            "all" => x.all(self.over.axes()),
            _ => x.any(self.over.axes()),
        }
    }
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Discrete(Self { over, ..*self }), x)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::{along_axis, over_axes};
    use bibun_array::keep_dims;
    let range = -2.0..2.0;
    let position = |x: &[f64], better: fn(f64, f64) -> bool| {
        let best = (1..x.len()).fold(0, |best, i| if better(x[i], x[best]) { i } else { best });
        vec![best as f64]
    };
    vec![
        Sample::new(
            "argmax",
            |x| vec![argmax(&x[0], 1)],
            move |x| {
                let y = along_axis(&x[0], 1, |x| position(x, |a, b| a > b));
                vec![y.reshape([2, 2]).cast(DType::I64)]
            },
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "argmin",
            |x| vec![argmin(&x[0], -3)],
            move |x| {
                let y = along_axis(&x[0], 0, |x| position(x, |a, b| a < b));
                vec![y.reshape([1, 2]).cast(DType::I64)]
            },
        )
        .input([3, 1, 2], range.clone()),
        Sample::new(
            "argmax",
            |x| vec![argmax(&x[0], keep_dims([-1, 0]))],
            move |x| {
                let y = over_axes(&x[0], &[0, 2], true, |x| position(x, |a, b| a > b)[0]);
                vec![y.cast(DType::I64)]
            },
        )
        .input([3, 2, 2], range.clone()),
        Sample::new(
            "argmin",
            |x| vec![argmin(&x[0], ..)],
            move |x| {
                let y = over_axes(&x[0], &[0, 1], false, |x| position(x, |a, b| a < b)[0]);
                vec![y.cast(DType::I64)]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "all",
            |x| vec![all(x[0].greater(-1.0), keep_dims([0, -1]))],
            |x| {
                let all = |x: &[f64]| f64::from(x.iter().all(|&x| x > -1.0));
                vec![over_axes(&x[0], &[0, 2], true, all).cast(DType::Bool)]
            },
        )
        .input([2, 3, 1], range.clone()),
        Sample::new(
            "any",
            |x| vec![any(x[0].greater(1.0), 1)],
            |x| {
                let any = |x: &[f64]| f64::from(x.iter().any(|&x| x > 1.0));
                vec![over_axes(&x[0], &[1], false, any).cast(DType::Bool)]
            },
        )
        .input([3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn nan_comes_first_and_nothing_has_no_position() {
        let x = Variable::new([1.0, f64::NAN, 3.0, f64::NAN]);
        assert_eq!(
            (argmax(&x, 0).item::<i64>(), argmin(&x, 0).item::<i64>()),
            (1, 1)
        );
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        let message = attempt(|| argmax(&nothing, 1)).unwrap_err().to_string();
        assert!(message.contains("something over axes [1]"), "{message}");
        assert!(attempt(|| argmin(&nothing, ..)).is_err());
        assert_eq!(argmax(&nothing, 0).shape(), [0]);
        assert_eq!(all(&nothing, 1).to_vec::<bool>(), [true, true]);
        assert_eq!(any(&nothing, 1).to_vec::<bool>(), [false, false]);
    }
}
