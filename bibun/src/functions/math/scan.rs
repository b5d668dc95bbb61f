//! Cumulative sums and products, differences, and the product over axes, whose derivative the
//! cumulative product computes.

use bibun_array::{Array, Axes, DType, Index, normalize_axis};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::composite_if;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{
    beside_batch, cast, concat, conj, expand_dims, pad, permute, reshape, slice, sum, to_number,
};
use crate::variable::Variable;

/// Computes the cumulative sum along an axis, `yᵢ = Σⱼ≤ᵢ xⱼ`.
///
/// Shapes: x any → the same.
/// Types: all; integers and bools are added up as i64.
/// Gradient: the cumulative sum of `gy` from the end.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::cumsum, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// assert_eq!(cumsum(&x, 0).to_vec::<f64>(), [1.0, 3.0, 6.0]);
/// ```
#[track_caller]
pub fn cumsum(x: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("cumsum", axis, x.rank());
    Linear::of(CumSum { axis }, x)
}
method!(cumsum, axis: isize);

#[derive(Clone, Debug)]
struct CumSum {
    axis: usize,
}

impl LinearRule for CumSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&x.shape, x.dtype.of_sums()))
    }
    fn forward(&self, x: Array) -> Array {
        x.cumsum(self.axis as isize)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let running = Linear::of(self.clone(), reversed(&gy, self.axis));
        reversed(&running, self.axis)
    }
    fn batch(&self, x: Variable, batch_axis: usize) -> Batched {
        let axis = beside_batch(self.axis, batch_axis);
        Batched::along(Linear::of(Self { axis }, x), batch_axis)
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        let [gradient] = gy.pull_back_unless(&[self.axis], |gy| [Some(self.transpose(x, gy))]);
        gradient.expect("there is a transpose")
    }
}

/// Computes the differences of neighbours along an axis, `yᵢ = xᵢ₊₁ - xᵢ`.
///
/// Shapes: x any → the same, with one element less along the axis; none stay none.
/// Types: all; integers wrap around, bool counts as i64.
/// Gradient: `gyᵢ₋₁ - gyᵢ`, without the missing ones at both ends.
///
/// Source: `numpy.diff` with `n = 1`, which gives bools for bools.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::diff, Variable};
/// let x = Variable::new([1.0, 3.0, 9.0]);
/// let y = diff(&x, 0);
/// assert_eq!(y.to_vec::<f64>(), [2.0, 6.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [-1.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn diff(x: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("diff", axis, x.rank());
    let _whole = composite_if(x.dtype() == DType::Bool, "diff");
    Linear::of(Diff { axis }, to_number(x))
}
method!(diff, axis: isize);

#[derive(Clone, Debug)]
struct Diff {
    axis: usize,
}

impl LinearRule for Diff {
    fn name(&self) -> &'static str {
        "diff"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let left = x.shape[self.axis].saturating_sub(1);
        Ok(Spec::new(x.shape.replaced(self.axis, left), x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        let index = |range: Index| {
            let mut index = vec![Index::ALL; self.axis];
            index.push(range);
            index
        };
        x.slice(&index(Index::from(1..))) - x.slice(&index(Index::from(..-1)))
    }
    /// The negative differences of the cotangent between two zeros.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        if x.shape[self.axis] == 0 {
            return gy;
        }
        let mut widths = vec![(0, 0); x.shape.rank()];
        widths[self.axis] = (1, 1);
        -Linear::of(self.clone(), pad(gy, &widths, 0))
    }
    fn batch(&self, x: Variable, batch_axis: usize) -> Batched {
        let axis = beside_batch(self.axis, batch_axis);
        Batched::along(Linear::of(Self { axis }, x), batch_axis)
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        let [gradient] = gy.pull_back_unless(&[self.axis], |gy| [Some(self.transpose(x, gy))]);
        gradient.expect("there is a transpose")
    }
}

/// Computes the cumulative product along an axis, `yᵢ = Πⱼ≤ᵢ xⱼ`.
///
/// Shapes: x any → the same.
/// Types: all; integers and bools are multiplied as i64.
/// Gradient: `Σᵢ gyᵢ Πⱼ≤ᵢ xⱼ` without the factor itself, computed by products alone, so that it is
/// exact with zeros, at every order.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::cumprod, Variable};
/// let x = Variable::new([2.0, 0.0, 3.0]);
/// let y = cumprod(&x, 0);
/// assert_eq!(y.to_vec::<f64>(), [2.0, 0.0, 0.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 8.0, 0.0]);
/// ```
#[track_caller]
pub fn cumprod(x: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("cumprod", axis, x.rank());
    let [y] = crate::apply(CumProd { axis }, [x]);
    y
}
method!(cumprod, axis: isize);

#[derive(Clone, Copy, Debug)]
struct CumProd {
    axis: usize,
}

impl Function for CumProd {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "cumprod"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new(&x.shape, x.dtype.of_sums())])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [x.cumprod(self.axis as isize)]
    }

    /// `before` is the product of all factors before an element, and `rest` accumulates the
    /// cotangents through the factors after it, `restᵢ = gyᵢ + xᵢ₊₁ restᵢ₊₁`; the gradient is
    /// `before rest`.
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let (dtype, size) = (gy.dtype(), cx.input_shape(0)[self.axis]);
        if size == 0 {
            return [Some(gy)];
        }
        // Products of 16 bits overflow where others make up for them.
        let [x, y, gy] = [conj(cx.input(0)), conj(cx.output(0)), gy].map(wide);
        let behind = part(&x, self.axis, 1, size);
        let rest = recurrence(behind, gy, self.axis);
        [Some(cast(shifted(y, self.axis) * rest, dtype))]
    }

    /// The same recurrence from the front: `dyᵢ = beforeᵢ dxᵢ + xᵢ dyᵢ₋₁`.
    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        let size = cx.input_shape(0)[self.axis];
        [dx.map(|dx| {
            if size == 0 {
                return dx;
            }
            let dtype = dx.dtype();
            let [x, y, dx] = [cx.input(0), cx.output(0), dx].map(wide);
            let own = shifted(y, self.axis) * dx;
            let factors = part(&reversed(&x, self.axis), self.axis, 0, size - 1);
            let dy = recurrence(factors, reversed(&own, self.axis), self.axis);
            cast(reversed(&dy, self.axis), dtype)
        })]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        crate::apply(Self { axis }, [x]).map(|y| Batched::along(y, batch_axis))
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        gy.pull_back_unless(&[self.axis], |gy| self.vjp(cx, [gy]))
    }
}

/// Computes the product over axes.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all; integers and bools are multiplied as i64.
/// Gradient: `gy` times the product of the other elements, exact with zeros, at every order.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::prod, Variable};
/// let x = Variable::new([2.0, 0.0, 3.0]);
/// let y = prod(&x, ..);
/// assert_eq!(y.item::<f64>(), 0.0);
/// y.backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 6.0, 0.0]);
/// ```
#[track_caller]
pub fn prod(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = x.into();
    let shape = x.shape();
    let (axes, keep_dims) = axes.into().resolve("prod", shape.rank());
    let _whole = composite_if(axes.len() != 1 || keep_dims, "prod");
    let y = match axes[..] {
        [axis] => product_along(x, axis),
        // All axes are merged into one, which comes last.
        _ => {
            let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis));
            let order = kept.chain(axes.iter().copied()).map(|axis| axis as isize);
            let order: SmallVec<[isize; 4]> = order.collect();
            let result = shape.reduced(&axes, false);
            let count = axes.iter().map(|&axis| shape[axis]).product();
            let x = reshape(permute(x, &order), result.inserted(result.rank(), count));
            product_along(x, result.rank())
        }
    };
    match keep_dims {
        true => reshape(y, shape.reduced(&axes, true)),
        false => y,
    }
}
method!(prod, axes: impl Into<Axes>);

#[track_caller]
fn product_along(x: Variable, axis: usize) -> Variable {
    let [y] = crate::apply(CumulativeProduct { axis }, [x]);
    y
}

#[derive(Clone, Copy, Debug)]
struct CumulativeProduct {
    axis: usize,
}

impl CumulativeProduct {
    /// Returns, for each element, the product of all others: of those before it and of those after
    /// it.
    fn of_others(self, x: &Variable) -> Variable {
        let axis = self.axis;
        let running = |x: &Variable| shifted(cumprod(x, axis as isize), axis);
        running(x) * reversed(&running(&reversed(x, axis)), axis)
    }
}

impl Function for CumulativeProduct {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "prod"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new(x.shape.removed(self.axis), x.dtype.of_sums())])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [x.prod(self.axis as isize)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let x = cx.input(0);
        if x.size() == 0 {
            return [Some(x)];
        }
        let dtype = gy.dtype();
        let [x, gy] = [x, expand_dims(gy, self.axis as isize)].map(wide);
        [Some(cast(conj(self.of_others(&x)) * gy, dtype))]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| {
            let dtype = dx.dtype();
            let [x, dx] = [cx.input(0), dx].map(wide);
            let terms = match x.size() {
                0 => dx,
                _ => self.of_others(&x) * dx,
            };
            cast(sum(terms, self.axis as isize), dtype)
        })]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, batch_axis) = Batched::mapped(x);
        let axis = beside_batch(self.axis, batch_axis);
        let y = product_along(x, axis);
        [Batched::along(
            y,
            batch_axis - usize::from(axis < batch_axis),
        )]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let axis = gy.examples.axis();
        let examples = gy.examples.moved(beside_batch(axis, self.axis));
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

/// Casts halves to f32.
fn wide(x: Variable) -> Variable {
    let dtype = x.dtype().accumulator();
    cast(x, dtype)
}

/// Returns the elements `start..stop` along an axis.
pub(crate) fn part(x: &Variable, axis: usize, start: usize, stop: usize) -> Variable {
    let range = Index::Range {
        start: Some(start as isize),
        stop: Some(stop as isize),
        step: 1,
    };
    along(x, axis, range)
}

/// Returns the elements in reverse order along an axis.
pub(crate) fn reversed(x: &Variable, axis: usize) -> Variable {
    along(x, axis, Index::ALL.step_by(-1))
}

fn along(x: &Variable, axis: usize, range: Index) -> Variable {
    let mut index = vec![Index::ALL; axis];
    index.push(range);
    slice(x, &index)
}

/// Returns a one, then all elements but the last, of at least one along an axis.
fn shifted(x: Variable, axis: usize) -> Variable {
    let shape = x.shape();
    let one = Variable::constant(Array::ones(shape.replaced(axis, 1), x.dtype()));
    match shape[axis] {
        1 => one,
        size => concat([&one, &part(&x, axis, 0, size - 1)], axis as isize),
    }
}

/// Computes the sequence `yᵢ = bᵢ + aᵢ yᵢ₊₁`, which starts at the end with the last of `b`; `a` has
/// one element less. It takes as many steps as the length has binary digits, because each step
/// doubles the number of elements that an element has seen (W. D. Hillis and G. L. Steele, Data
/// parallel algorithms, 1986).
fn recurrence(a: Variable, b: Variable, axis: usize) -> Variable {
    let size = b.shape()[axis];
    let (mut a, mut y) = (a, b);
    let mut reach = 1;
    while reach < size {
        let left = size - reach;
        let more = part(&y, axis, 0, left) + &a * part(&y, axis, reach, size);
        y = concat([&more, &part(&y, axis, left, size)], axis as isize);
        if 2 * reach < size {
            a = part(&a, axis, 0, left - reach) * part(&a, axis, reach, left);
        }
        reach *= 2;
    }
    y
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::{along_axis, reduction_samples};
    let running = |x: &[f64], start: f64, step: fn(f64, f64) -> f64| {
        let mut total = start;
        let next = |&x: &f64| {
            total = step(total, x);
            total
        };
        x.iter().map(next).collect::<Vec<f64>>()
    };
    let mut samples = reduction_samples(
        "prod",
        -2.0..2.0,
        |x, axes| prod(x, axes),
        |x| x.iter().product(),
    );
    for (shape, axis) in [
        (vec![2, 3], 1),
        (vec![3, 1, 2], 0),
        (vec![2, 1, 3], 1),
        (vec![5], 0),
    ] {
        samples.push(
            Sample::new(
                "cumsum",
                move |x| vec![cumsum(&x[0], axis)],
                move |x| {
                    vec![along_axis(&x[0], axis as usize, |x| {
                        running(x, 0.0, |a, b| a + b)
                    })]
                },
            )
            .input(&shape, -2.0..2.0),
        );
        samples.push(
            Sample::new(
                "diff",
                move |x| vec![diff(&x[0], axis)],
                move |x| {
                    vec![along_axis(&x[0], axis as usize, |x| {
                        x.windows(2).map(|pair| pair[1] - pair[0]).collect()
                    })]
                },
            )
            .input(&shape, -2.0..2.0),
        );
        samples.push(
            Sample::new(
                "cumprod",
                move |x| vec![cumprod(&x[0], axis)],
                move |x| {
                    vec![along_axis(&x[0], axis as usize, |x| {
                        running(x, 1.0, |a, b| a * b)
                    })]
                },
            )
            .input(&shape, -2.0..2.0),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::jvp;
    use crate::{GradOptions, gradients_with};

    fn derivative(y: &Variable, x: &Variable) -> Variable {
        let gradients = gradients_with(&[&y.sum(..)], &[x], GradOptions::new().create_graph());
        gradients[0].clone().expect("a gradient")
    }

    #[test]
    fn zeros_are_exact_in_the_second_order() {
        // d²(x₀ x₁ x₂) / dxᵢ dxⱼ is the third factor.
        for factors in [
            [0.0, 0.0, 3.0],
            [0.0, 2.0, 5.0],
            [0.0, 0.0, 0.0],
            [4.0, 2.0, 5.0],
        ] {
            let [a, b, c] = factors;
            let x = Variable::new(factors);
            let first = derivative(&prod(&x, 0), &x);
            assert_eq!(first.to_vec::<f64>(), [b * c, a * c, a * b]);
            for (i, expected) in [[0.0, c, b], [c, 0.0, a], [b, a, 0.0]]
                .into_iter()
                .enumerate()
            {
                let picked = part(&first, 0, i, i + 1);
                assert_eq!(derivative(&picked, &x).to_vec::<f64>(), expected);
            }
            // The sum of cumulative products: a + a b + a b c.
            let first = derivative(&cumprod(&x, 0), &x);
            assert_eq!(first.to_vec::<f64>(), [1.0 + b + b * c, a + a * c, a * b]);
            let second = [[0.0, 1.0 + c, b], [1.0 + c, 0.0, a], [b, a, 0.0]];
            for (i, expected) in second.into_iter().enumerate() {
                let picked = part(&first, 0, i, i + 1);
                assert_eq!(derivative(&picked, &x).to_vec::<f64>(), expected);
            }
        }
    }

    /// The gradients fit 16 bits, and products on the way to them do not.
    #[test]
    fn products_of_16_bits_overflow_on_no_way() {
        let part = 1.0 / 1024.0;
        let of_prod =
            |i: usize| [225.0 / 256.0, 225.0 / 256.0, 67_500.0, 90_000.0 / 256.0][i] * part;
        let of_cumprod =
            |i: usize| [1.0 + 300.0 + 90_000.0, 301.0 / 256.0, 300.0 / 256.0][i] * part;
        let check = |x: Vec<f64>, f: fn(&Variable) -> Variable, expected: &dyn Fn(usize) -> f64| {
            for dtype in [DType::F16, DType::BF16] {
                let x = Variable::new(Array::from(x.clone()).cast(dtype));
                let numbers = |x: &Variable| x.array().cast(DType::F64).to_vec::<f64>();
                let gradient = numbers(&derivative(&(f(&x) * part), &x));
                let direction = |i: usize| {
                    let ones = (0..x.size())
                        .map(|j| f64::from(i == j))
                        .collect::<Vec<f64>>();
                    let dx = Variable::constant(Array::from(ones).cast(dtype) * part);
                    let (_, dy) = jvp(|x| vec![f(&x[0])], &[x.clone()], &[dx]);
                    let dy = dy[0].as_ref().expect("a tangent");
                    numbers(dy).into_iter().sum::<f64>()
                };
                for (i, gradient) in gradient.into_iter().enumerate() {
                    for found in [gradient, direction(i)] {
                        let error = (found - expected(i)).abs() / expected(i);
                        assert!(error < 0.02, "{dtype} {i}: {found} and {}", expected(i));
                    }
                }
            }
        };
        check(
            vec![300.0, 300.0, 1.0 / 256.0, 0.75],
            |x| prod(x, 0),
            &of_prod,
        );
        check(
            vec![1.0 / 256.0, 300.0, 300.0],
            |x| cumprod(x, 0),
            &of_cumprod,
        );
    }

    #[test]
    fn nothing_and_truths() {
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(prod(&nothing, 1).to_vec::<f64>(), [1.0, 1.0]);
        assert_eq!(derivative(&prod(&nothing, 1), &nothing).shape(), [2, 0]);
        assert_eq!(derivative(&cumprod(&nothing, 1), &nothing).shape(), [2, 0]);
        assert_eq!(derivative(&cumsum(&nothing, 1), &nothing).shape(), [2, 0]);
        assert_eq!(diff(&nothing, 1).shape(), [2, 0]);
        assert_eq!(derivative(&diff(&nothing, 1), &nothing).shape(), [2, 0]);
        let one = Variable::new([5.0]);
        assert_eq!(derivative(&diff(&one, 0), &one).to_vec::<f64>(), [0.0]);
        let truths = Variable::constant([true, true, false]);
        assert_eq!(diff(&truths, 0).to_vec::<i64>(), [0, -1]);
        assert_eq!(cumsum(&truths, 0).to_vec::<i64>(), [1, 2, 2]);
        assert_eq!(cumprod(&truths, 0).to_vec::<i64>(), [1, 1, 0]);
        assert_eq!(prod(&truths, ..).item::<i64>(), 0);
    }
}
