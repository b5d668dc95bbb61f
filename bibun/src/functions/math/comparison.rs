//! Comparisons, predicates, logic, and the selection between two values.

use std::fmt;

use bibun_array::{Array, DType, Device, ops};

use crate::batch::Batched;
use crate::call::composite_if;
use crate::context::Context;
use crate::error::mismatch;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Discrete, DiscreteRule, method, shapes_and_types};
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{Operand, broadcast_to, cast};
use crate::variable::Variable;

/// An elementwise function with results of `bool`, which has no derivative.
#[derive(Clone, Copy)]
struct Predicate<const N: usize> {
    name: &'static str,
    forward: fn([Array; N]) -> Array,
}

impl<const N: usize> DiscreteRule for Predicate<N> {
    type Inputs = Fixed<N>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: [&Spec; N]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&inputs[0].shape, DType::Bool))
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, inputs: [Array; N]) -> Array {
        (self.forward)(inputs)
    }
}

impl<const N: usize> fmt::Debug for Predicate<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Predicates of two arrays, which are broadcast and promoted.
macro_rules! binary_predicates {
    ($($(#[$documentation:meta])* $name:ident;)+) => {$(
        $(#[$documentation])*
        #[doc = shapes_and_types!(binary "all, promoted → bool.\nGradient: none.")]
        #[track_caller]
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Variable {
            let (inputs, _whole) = Operand::pair(stringify!($name), a.into(), b.into());
            let (name, forward) = (stringify!($name), |[a, b]: [Array; 2]| ops::$name(a, b));
            Discrete::of(Predicate { name, forward }, inputs)
        }

        method!($name, b: impl Into<Operand>);
    )+};
}

binary_predicates! {
    /// Returns, for each element, whether `a == b`. NaN equals nothing.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([1.0, 2.0]).equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    equal;

    /// Returns, for each element, whether `a != b`. NaN differs from everything.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([1.0, 2.0]).not_equal(2).to_vec::<bool>(), [true, false]);
    /// ```
    not_equal;

    /// Returns, for each element, whether `a < b`, which is false if one is NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([1.0, 2.0]).less(2).to_vec::<bool>(), [true, false]);
    /// ```
    less;

    /// Returns, for each element, whether `a <= b`, which is false if one is NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([2.0, 3.0]).less_equal(2).to_vec::<bool>(), [true, false]);
    /// ```
    less_equal;

    /// Returns, for each element, whether `a > b`, which is false if one is NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([2.0, 3.0]).greater(2).to_vec::<bool>(), [false, true]);
    /// ```
    greater;

    /// Returns, for each element, whether `a >= b`, which is false if one is NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([1.0, 2.0]).greater_equal(2).to_vec::<bool>(), [false, true]);
    /// ```
    greater_equal;

    /// Returns, for each element, whether both are true. Numbers count as true unless they are
    /// zero.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// let inside = x.greater(1).logical_and(x.less(3));
    /// assert_eq!(inside.to_vec::<bool>(), [false, true, false]);
    /// ```
    logical_and;

    /// Returns, for each element, whether one or both are true. Numbers count as true unless they
    /// are zero.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// let outside = x.less(2).logical_or(x.greater(2));
    /// assert_eq!(outside.to_vec::<bool>(), [true, false, true]);
    /// ```
    logical_or;

    /// Returns, for each element, whether exactly one is true. Numbers count as true unless they
    /// are zero.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([true, false]);
    /// assert_eq!(x.logical_xor(true).to_vec::<bool>(), [false, true]);
    /// ```
    logical_xor;
}

/// Predicates of one array.
macro_rules! unary_predicates {
    ($($(#[$documentation:meta])* $name:ident;)+) => {$(
        $(#[$documentation])*
        #[doc = shapes_and_types!(unary "all → bool.\nGradient: none.")]
        #[track_caller]
        pub fn $name(x: impl Into<Variable>) -> Variable {
            let (name, forward) = (stringify!($name), |[x]: [Array; 1]| ops::$name(x));
            Discrete::of(Predicate { name, forward }, [x.into()])
        }
        method!($name);
    )+};
}

unary_predicates! {
    /// Returns, for each element, whether `x` is false. Numbers count as true unless they are zero.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([0.0, 2.0]).logical_not().to_vec::<bool>(), [true, false]);
    /// ```
    logical_not;

    /// Returns, for each element, whether `x` is NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([0.0, f64::NAN]).is_nan().to_vec::<bool>(), [false, true]);
    /// ```
    is_nan;

    /// Returns, for each element, whether `x` is neither infinite nor NaN.
    ///
    /// ```
    /// use bibun::Variable;
    /// assert_eq!(Variable::new([0.0, f64::NAN]).is_finite().to_vec::<bool>(), [true, false]);
    /// ```
    is_finite;

    /// Returns, for each element, whether `x` is infinite, of either sign.
    ///
    /// ```
    /// use bibun::Variable;
    /// let x = Variable::new([0.0, f64::NEG_INFINITY]);
    /// assert_eq!(x.is_inf().to_vec::<bool>(), [false, true]);
    /// ```
    is_inf;
}

/// Selects `a` where the condition holds and `b` elsewhere; all three are broadcast.
///
/// A number in the condition counts as true unless it is zero.
///
/// Shapes: condition, a, b that broadcast → their common shape.
/// Types: condition any; a, b all, promoted.
/// Gradient: `gy` to a where the condition holds, to b elsewhere, and exactly zero where the other
/// was selected, even if `gy` is NaN there; none to the condition.
///
/// The function that computed a value that was not selected still multiplies this zero by its own
/// derivative: if that is infinite or NaN, the product is NaN.
/// [`piecewise`](crate::functions::piecewise) computes each of two functions only where it is
/// selected.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::where_, Variable};
/// let x = Variable::new([-1.0, 4.0]);
/// let y = where_(x.less(0), 0.0, &x);
/// assert_eq!(y.to_vec::<f64>(), [0.0, 4.0]);
/// ```
#[track_caller]
pub fn where_(
    condition: impl Into<Variable>,
    a: impl Into<Operand>,
    b: impl Into<Operand>,
) -> Variable {
    let condition = condition.into();
    let ([a, b], whole) = Operand::pair("where_", a.into(), b.into());
    let (c_spec, a_spec) = (condition.spec(), a.spec());
    let fits = c_spec == Spec::new(&a_spec.shape, DType::Bool);
    let _whole = composite_if(whole.is_none() && !fits, "where_");
    let Some(shape) = c_spec.shape.broadcast(&a_spec.shape) else {
        let inputs = [("condition", &c_spec), ("a, b", &a_spec)];
        mismatch("where_", &inputs, MUST_BROADCAST)
    };
    let condition = cast(condition, DType::Bool);
    let inputs = [condition, a, b].map(|x| broadcast_to(x, &shape));
    let [y] = crate::apply(Where, inputs);
    y
}

impl Variable {
    /// Selects `a` where this Variable holds and `b` elsewhere; see
    /// [`functions::where_`](crate::functions::where_).
    #[must_use]
    #[track_caller]
    pub fn where_(&self, a: impl Into<Operand>, b: impl Into<Operand>) -> Self {
        where_(self, a, b)
    }
}

#[derive(Clone, Copy, Debug)]
struct Where;

/// Returns a condition on the device of a cotangent. It is on another one if the values that it was made
/// for had no elements, which are on every device. A trace takes constants of the CPU as they are.
fn beside(condition: Variable, gy: &Variable) -> Variable {
    let is_apart = |from: &'static dyn Device, to: &'static dyn Device| {
        from != to && !from.takes_constants() && !to.takes_constants()
    };
    match (condition.known_device(), gy.known_device()) {
        (Some(from), Some(to)) if is_apart(from, to) => condition.to(to),
        _ => condition,
    }
}

impl Function for Where {
    type Inputs = Fixed<3>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "where_"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }

    fn shape(&self, [condition, a, b]: [&Spec; 3]) -> Result<[Spec; 1], Mismatch> {
        if a != b || condition.shape != a.shape || condition.dtype != DType::Bool {
            return Err(Mismatch::new(
                &[("condition", condition), ("a", a), ("b", b)],
                "a and b must be equal, the condition bool of their shape",
            ));
        }
        Ok([a.clone()])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [condition, a, b]: [Array; 3]) -> [Array; 1] {
        [ops::where_(condition, a, b)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 3] {
        let condition = beside(cx.input(0), &gy);
        let ga = cx.needs(1).then(|| where_(&condition, &gy, 0.0));
        let gb = cx.needs(2).then(|| where_(condition, 0.0, gy));
        [None, ga, gb]
    }

    fn jvp(&self, cx: &Context<'_>, [_, da, db]: [Option<Variable>; 3]) -> [Option<Variable>; 1] {
        let condition = cx.input(0);
        [match (da, db) {
            (Some(da), Some(db)) => Some(where_(condition, da, db)),
            (Some(da), None) => Some(where_(condition, da, 0.0)),
            (None, Some(db)) => Some(where_(condition, 0.0, db)),
            (None, None) => None,
        }]
    }

    fn batch(&self, inputs: [Batched; 3]) -> [Batched; 1] {
        Batched::of_elements(self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 3] {
        gy.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    // Bools have no derivative, but selecting by them has one.
    let choice =
        |name, call: fn(&Variable, &Variable) -> Variable, reference: fn(f64, f64) -> bool| {
            Sample::binary(
                name,
                -2.0..2.0,
                -2.0..2.0,
                move |a, b| call(a, b).where_(a, a * b),
                move |a, b| if reference(a, b) { a } else { a * b },
            )
        };
    let mut samples = vec![
        choice("equal", |a, b| a.equal(b), |a, b| a == b),
        choice("equal", |a, b| a.equal(a + 0.0 * b), |_, _| true),
        choice("not_equal", |a, b| a.not_equal(b), |a, b| a != b),
        choice("less", |a, b| a.less(b), |a, b| a < b),
        choice("less_equal", |a, b| a.less_equal(b), |a, b| a <= b),
        choice("greater", |a, b| a.greater(b), |a, b| a > b),
        choice("greater_equal", |a, b| a.greater_equal(b), |a, b| a >= b),
        choice(
            "logical_and",
            |a, b| a.greater(0).logical_and(b.greater(0)),
            |a, b| a > 0.0 && b > 0.0,
        ),
        choice(
            "logical_or",
            |a, b| a.greater(0).logical_or(b.greater(0)),
            |a, b| a > 0.0 || b > 0.0,
        ),
        choice(
            "logical_xor",
            |a, b| a.greater(0).logical_xor(b.greater(0)),
            |a, b| (a > 0.0) != (b > 0.0),
        ),
        choice(
            "logical_not",
            |a, _| a.greater(0).logical_not(),
            |a, _| a <= 0.0,
        ),
        choice("is_nan", |_, b| b.log().is_nan(), |_, b| b < 0.0),
        choice("is_finite", |a, _| a.log().is_finite(), |a, _| a > 0.0),
        choice("is_inf", |a, _| (a / 0.0).is_inf(), |_, _| true),
    ];
    samples.push(
        Sample::new(
            "where_",
            |x| vec![where_(x[0].less(0.5), &x[1], &x[2]) * &x[0]],
            |x| {
                let [c, a, b] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                let y = (0..6).map(|i| c[i % 3] * if c[i % 3] < 0.5 { a[i / 3] } else { b[i] });
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([3], 0.0..1.0)
        .input([2, 1], -2.0..2.0)
        .input([2, 3], -2.0..2.0),
    );
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::gradients;

    #[test]
    fn bools_carry_no_history() {
        let x = Variable::new([1.0, -1.0]);
        assert!(x.greater(0).creator().is_none());
        assert_eq!(x.greater(0).dtype(), DType::Bool);
        assert_eq!(x.greater(f64::NAN).to_vec::<bool>(), [false, false]);
        assert_eq!(
            Variable::new([1, 2]).less(1.5).to_vec::<bool>(),
            [true, false]
        );
    }

    #[test]
    fn batches_of_some_inputs() {
        let x = Variable::new([[1.0, 5.0], [2.0, 0.0], [3.0, 3.0]]);
        let limit = Variable::new([2.0, 1.0, 3.0]);
        let greater = vmap(
            |v| vec![v[0].greater(&v[1])],
            &[x.clone(), limit.clone()],
            &[Some(0), Some(0)],
        );
        let expected = [false, true, true, false, false, false];
        assert_eq!(greater[0].to_vec::<bool>(), expected);
        let chosen = vmap(
            |v| vec![v[0].greater(&v[1]).where_(&v[0], -1.0), v[1].equal(2.0)],
            &[x, limit],
            &[Some(1), None],
        );
        assert_eq!(
            chosen[0].to_vec::<f64>(),
            [-1.0, 2.0, -1.0, 5.0, -1.0, -1.0]
        );
        assert_eq!(chosen[1].shape(), [2, 3]);
    }

    #[test]
    fn the_branch_not_taken_cannot_spoil_a_gradient() {
        let x = Variable::new([0.0, 2.0]);
        let safe = x.equal(0).where_(1.0, &x);
        let y = x.equal(0).where_(0.0, safe.log()).sum(..);
        let g = gradients(&[&y], &[&x])[0].clone().expect("a gradient");
        assert_eq!(g.to_vec::<f64>(), [0.0, 0.5]);
        let y = x.less(1).where_(&x, f64::NAN).sum(..);
        let g = gradients(&[&y], &[&x])[0].clone().expect("a gradient");
        assert_eq!(g.to_vec::<f64>(), [1.0, 0.0]);
    }

    #[test]
    fn dtypes_of_where_follow_the_arrays() {
        let x = Variable::new([1.0f32, -1.0]);
        assert_eq!(x.greater(0).where_(&x, 0.0).dtype(), DType::F32);
        assert_eq!(x.where_(1, 2).to_vec::<i64>(), [1, 1]);
    }

    #[test]
    fn shapes_that_do_not_broadcast() {
        let (condition, a) = (Variable::new([true, false]), Variable::new([1.0, 2.0, 3.0]));
        let error = crate::attempt(|| where_(&condition, &a, 0.0)).expect_err("[2] beside [3]");
        assert!(
            error.to_string().contains("condition = [2] bool"),
            "{error}"
        );
    }
}
