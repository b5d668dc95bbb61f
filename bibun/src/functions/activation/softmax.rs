//! Softmax and its logarithm.

use bibun_array::math::Float;
use bibun_array::{
    Array, Axes, ElementFormula, Number, elementwise, is_traced, keep_dims, normalize_axis, ops,
    run_kernel,
};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{element_function, method};
use crate::functions::fused::fused;
use crate::functions::{broadcast_to, sum, to_float, to_float_of};
use crate::variable::Variable;

/// Computes the softmax along an axis, `yᵢ = exp xᵢ / Σⱼ exp xⱼ`, from the differences to the
/// largest element, so that nothing overflows.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `y (gy - Σ gy y)`. An element of -∞ gives 0 and has the gradient 0. Where all elements
/// along the axis are -∞, the result is NaN. Elements of ∞ share the total of 1 equally.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::softmax, Variable};
/// let y = softmax(&Variable::new([[1000.0, 1000.0]]), 1);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.5]);
/// ```
#[track_caller]
pub fn softmax(x: impl Into<Variable>, axis: isize) -> Variable {
    Softmax::of("softmax", x.into(), axis)
}
method!(softmax, axis: isize);

/// Computes the logarithm of [`softmax`], `yᵢ = xᵢ - log Σⱼ exp xⱼ`, without computing the softmax
/// itself, whose elements may underflow.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `gy - (exp y) Σ gy`.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::log_softmax, Variable};
/// let y = log_softmax(&Variable::new([0.0, 1000.0]), 0);
/// assert_eq!(y.to_vec::<f64>(), [-1000.0, 0.0]);
/// ```
#[track_caller]
pub fn log_softmax(x: impl Into<Variable>, axis: isize) -> Variable {
    Softmax::of("log_softmax", x.into(), axis)
}
method!(log_softmax, axis: isize);

/// Computes the softmax of the opposite numbers, `yᵢ = exp(-xᵢ) / Σⱼ exp(-xⱼ)`: the smallest element
/// gets the greatest part.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `y (Σ gy y - gy)`; see [`softmax`].
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::softmin, Variable};
/// let y = softmin(&Variable::new([[0.0, 1000.0, 0.0]]), 1);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.5]);
/// ```
#[track_caller]
pub fn softmin(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("softmin");
    softmax(-to_float(x.into()), axis)
}
method!(softmin, axis: isize);

/// `x - shift`, for a shift that is no smaller than x; 0 where both are ∞.
struct Below;
impl ElementFormula<2> for Below {
    const NAME: &'static str = "subtract";
    #[inline(always)]
    fn value<T: Float>([x, shift]: [Number<T>; 2], []: [Number<T>; 0]) -> Number<T> {
        x.equal(f64::INFINITY).where_(0.0, x - shift)
    }
}

/// `exp(x - shift)`, with the difference of [`Below`], which is not positive. It is its own derivative,
/// also at ∞.
pub(crate) struct ShiftedExp;

element_function! {
    ShiftedExp = "exp", [x, shift] [];
    value: x.equal(f64::INFINITY).where_(0.0, x - shift).exp_of_negative();
    derivative(y; gy): gy * y;
    derivative(y; gy): -(gy * y);
}

/// An element, or -∞ instead of NaN.
struct NumberOrLeast;
impl ElementFormula<1> for NumberOrLeast {
    const NAME: &'static str = "where";
    #[inline(always)]
    fn value<T: Float>([x]: [Number<T>; 1], []: [Number<T>; 0]) -> Number<T> {
        x.is_nan().where_(f64::NEG_INFINITY, x)
    }
}

/// Computes a shift for [`shifted_exp`]: the largest elements over axes, which are kept with size 1.
///
/// In programs it is the largest of what is not NaN along the last axis, for which machine code needs a
/// third of the instructions. The exponential of what is NaN is NaN with any shift, and so is the sum.
pub(crate) fn shift_over(x: &Array, axes: &[usize]) -> Array {
    let names: SmallVec<[isize; 4]> = axes.iter().map(|&axis| axis as isize).collect();
    let kept = keep_dims(Axes::new(&names));
    let are_rows = axes.len() == 1 && axes[0] + 1 == x.rank();
    match are_rows && is_traced(x) {
        true => elementwise(NumberOrLeast, [x.clone()], []).max(kept),
        false => x.max(kept),
    }
}

/// Computes `exp(x - shift)`, broadcast.
pub(crate) fn shifted_exp(x: Array, shift: Array) -> Array {
    run_kernel(&ShiftedExp::function().kernel(&[]), &mut [x, shift])
}

/// Returns the position of a batch element's `axis` in a value whose batch axis is `batch_axis`.
pub(crate) fn beside_batch(axis: usize, batch_axis: usize) -> usize {
    axis + usize::from(axis >= batch_axis)
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Softmax {
    name: &'static str,
    axis: usize,
}

impl Softmax {
    #[track_caller]
    fn of(name: &'static str, x: Variable, axis: isize) -> Variable {
        let axis = normalize_axis(name, axis, x.rank());
        let [y] = crate::apply(Self { name, axis }, [to_float_of(name, x)]);
        y
    }

    fn is_log(self) -> bool {
        self.name == "log_softmax"
    }

    fn value(&self, [x]: [Array; 1]) -> [Array; 1] {
        let axis = keep_dims(self.axis as isize);
        let largest = shift_over(&x, &[self.axis]);
        if self.is_log() {
            let total = shifted_exp(x.clone(), largest.clone()).sum(axis);
            // The two are subtracted one after the other: if they were added first, a large
            // `largest` would absorb the logarithm.
            let shifted = elementwise(Below, [x, largest], []);
            return [ops::subtract(shifted, ops::log(total))];
        }
        let y = shifted_exp(x, largest);
        let total = y.sum(axis);
        [ops::divide(y, total)]
    }

    /// Returns the sum along the axis, which is kept with size 1.
    fn sum(self, x: impl Into<Variable>) -> Variable {
        sum(x, keep_dims(self.axis as isize))
    }
}

impl Function for Softmax {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([x.clone()])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        if x.size() == 0 {
            return [x];
        }
        bibun_array::fused(*self, [x], Self::value)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        if !self.is_log() {
            // The Jacobian is symmetric.
            return self.jvp(cx, [Some(gy)]);
        }
        fused(*self, [cx.output(0), gy], |own, [y, gy]| {
            let total = own.sum(&gy);
            [gy - y.exp_of_negative() * total]
        })
        .map(Some)
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        let Some(dx) = dx else { return [None] };
        fused(*self, [cx.output(0), dx], |own, [y, dx]| {
            if own.is_log() {
                let mean = own.sum(y.exp_of_negative() * &dx);
                let shape = dx.shape();
                return [dx - broadcast_to(mean, shape)];
            }
            let mean = own.sum(&y * &dx);
            [(dx - mean) * y]
        })
        .map(Some)
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        crate::apply(Self { axis, ..*self }, [x]).map(|y| Batched::along(y, batch_axis))
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        gy.pull_back_unless(&[self.axis], |gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::along_axis;
    let range = -2.0..2.0;
    let mut samples = Vec::new();
    for (shape, axis) in [
        (vec![2, 3], 1),
        (vec![2, 3], 0),
        (vec![3, 1, 2], -1),
        (vec![3, 1, 2], 1),
    ] {
        let at = normalize_axis("softmax", axis, shape.len());
        let softmax_of = |x: &[f64]| {
            let total: f64 = x.iter().map(|x| x.exp()).sum();
            x.iter().map(|x| x.exp() / total).collect::<Vec<_>>()
        };
        samples.push(
            Sample::new(
                "softmax",
                move |x| vec![softmax(&x[0], axis)],
                move |x| vec![along_axis(&x[0], at, softmax_of)],
            )
            .input(&shape, range.clone()),
        );
        let softmin_of = move |x: &[f64]| softmax_of(&x.iter().map(|x| -x).collect::<Vec<_>>());
        samples.push(
            Sample::new(
                "softmin",
                move |x| vec![softmin(&x[0], axis)],
                move |x| vec![along_axis(&x[0], at, softmin_of)],
            )
            .input(&shape, range.clone()),
        );
        let log_softmax_of = move |x: &[f64]| softmax_of(x).into_iter().map(f64::ln).collect();
        samples.push(
            Sample::new(
                "log_softmax",
                move |x| vec![log_softmax(&x[0], axis)],
                move |x| vec![along_axis(&x[0], at, log_softmax_of)],
            )
            .input(&shape, range.clone()),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{Reduction, logsumexp, softmax_cross_entropy_with};
    use crate::{attempt, gradients};
    use bibun_array::DType;

    fn gradient(y: &Variable, x: &Variable) -> Vec<f64> {
        let gradients = gradients(&[y], &[x]);
        gradients[0].as_ref().expect("a gradient").to_vec()
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        let x = Variable::new([1e300, 1e300, -1e300]);
        assert_eq!(softmax(&x, 0).to_vec::<f64>(), [0.5, 0.5, 0.0]);
        let y = log_softmax(Variable::new([1e5f32, 1e5]), 0);
        assert_eq!(y.to_vec::<f32>(), [-std::f32::consts::LN_2; 2]);
    }

    #[test]
    fn elements_masked_by_infinity_do_not_count() {
        let x = Variable::new([0.0, f64::NEG_INFINITY, 0.0]);
        let y = softmax(&x, 0);
        assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.5]);
        let weights = Variable::constant([1.0, 5.0, 3.0]);
        assert_eq!(gradient(&(&y * &weights).sum(..), &x), [-0.5, 0.0, 0.5]);
        let y = log_softmax(&x, 0);
        let picked = y.take(Variable::constant([0i64]), 0);
        assert_eq!(gradient(&picked.sum(..), &x), [0.5, 0.0, -0.5]);
    }

    #[test]
    fn infinity_takes_all() {
        let infinity = f64::INFINITY;
        let x = Variable::new([infinity, 1.0, -infinity]);
        assert_eq!(softmax(&x, 0).to_vec::<f64>(), [1.0, 0.0, 0.0]);
        let y = log_softmax(&x, 0);
        assert_eq!(y.to_vec::<f64>(), [0.0, -infinity, -infinity]);
        assert_eq!(
            gradient(&y.take(Variable::constant([0i64]), 0).sum(..), &x),
            [0.0; 3]
        );
        let all = softmax(Variable::new([-infinity; 2]), 0);
        assert!(all.to_vec::<f64>().iter().all(|y| y.is_nan()));
    }

    #[test]
    fn rows_with_nan_are_nan_in_programs_too() {
        let (rows, width) = (2048, 64);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
        let values: Vec<f32> = (0..rows * width)
            .map(|i| match (i / width % 4, i % 13) {
                (0, 5) => special[i / 13 % 4],
                (1, 3) if i % 3 == 0 => f32::NAN,
                (2, _) if i / width % 64 == 2 => special[i / (64 * width) % 3],
                (_, j) => (i % 101) as f32 * 0.3 - j as f32,
            })
            .collect();
        let has_nan = |row: usize| values[row * width..][..width].iter().any(|x| x.is_nan());
        let nan: Vec<usize> = (0..rows).filter(|&row| has_nan(row)).collect();
        let x = Variable::new(Array::from_vec(values, [rows, width]));
        let t = Variable::constant(Array::full([rows], 7_i64));
        let all = |x: &Variable, t: &Variable| {
            let losses = softmax_cross_entropy_with(x, t, Reduction::None);
            let values = [softmax(x, 1), log_softmax(x, 1), logsumexp(x, 1), losses];
            let slopes = values.each_ref().map(|y| {
                let dx = gradients(&[&(y * y).sum(..)], &[x]);
                dx[0].clone().expect("a gradient").reshape([-1])
            });
            values.map(|y| y.reshape([-1])).into_iter().chain(slopes)
        };
        let bits = |y: Variable| -> Vec<u32> {
            let y: Vec<f32> = y.to_vec();
            let same = |y: &f32| if y.is_nan() { 1 } else { y.to_bits() };
            y.iter().map(same).collect()
        };
        // Programs are made when inputs of the same size come again.
        let mut found = Vec::new();
        for _ in 0..3 {
            found = all(&x, &t).map(bits).collect();
        }
        let mut expected = vec![Vec::new(); found.len()];
        for row in 0..rows as i64 {
            let part = [(row..row + 1).into()];
            let (x, t) = (x.slice(&part).detach(), t.slice(&part));
            let x = Variable::new(x.array());
            for (bits_of, y) in expected.iter_mut().zip(all(&x, &t)) {
                bits_of.extend(bits(y));
            }
        }
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let each = found.len() / rows;
            let is_nan = |&row: &usize| found[row * each..][..each].iter().all(|&y| y == 1);
            assert!(nan.iter().all(is_nan), "{i}: rows with NaN have numbers");
            let wrong = (0..found.len()).find(|&j| found[j] != expected[j]);
            assert!(wrong.is_none(), "{i}: element {wrong:?}");
        }
    }

    #[test]
    fn nothing_has_a_softmax() {
        let x = Variable::new(Array::zeros([2, 0], DType::F32));
        assert_eq!(softmax(&x, 1).shape(), [2, 0]);
        assert_eq!(log_softmax(&x, 0).shape(), [2, 0]);
        assert!(attempt(|| softmax(&x, 2)).is_err());
    }
}
