//! The Euclidean norm.

use bibun_array::{Array, Axes, DType, ops};

use super::reduction::Over;
use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{call, element_function, method};
use crate::functions::{abs, concat, imag, real, reshape, sum, to_differentiable};
use crate::variable::Variable;

/// Computes the Euclidean norm `√Σ |x|²` over axes, without overflow or underflow in between.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; complex numbers, whose norms are real; integers and bools give f64.
/// Gradient: `gy x / y`; zero where the norm is zero. Infinite elements get `±gy`, and the finite
/// ones beside them zero.
///
/// # Panics
/// Panics if there is no such axis.
///
/// ```
/// use bibun::{functions::norm, Variable};
/// let y = norm(Variable::new([[3.0, 4.0], [3e-300, 4e-300]]), 1).to_vec::<f64>();
/// assert!(y[0] == 5.0 && (y[1] / 5e-300 - 1.0).abs() < 1e-15);
/// ```
#[track_caller]
pub fn norm(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let (x, axes) = (to_differentiable(x.into()), axes.into());
    if !x.dtype().is_complex() {
        return root_of_squares("norm", x, axes, 1.0);
    }
    let _whole = composite("norm");
    let (own, _) = axes.resolve("norm", x.rank());
    // The length of all parts, whose derivatives at zero are not those of sizes.
    match own.first() {
        Some(&axis) => root_of_squares(
            "norm",
            concat([real(&x), imag(x)], axis as isize),
            axes,
            1.0,
        ),
        None => abs(x),
    }
}
method!(norm, axes: impl Into<Axes>);

/// Computes `√(Σ x² / count)` over axes for the function with this name.
#[track_caller]
pub(super) fn root_of_squares(
    function: &'static str,
    x: Variable,
    axes: Axes,
    count: f64,
) -> Variable {
    let rule = Norm {
        function,
        over: Over::new(function, &axes, &x),
        count,
    };
    let [y] = crate::apply(rule, [x]);
    y
}

#[derive(Clone, Debug)]
struct Norm {
    /// The name of the public function.
    function: &'static str,
    over: Over,
    count: f64,
}

/// `g x / y`, which scales the unit vector along `x` by `g`; where the length `y` is infinite, only
/// the infinite elements count.
struct Along;

element_function! {
    Along = "norm gradient", [x, y, g] [];
    value: g * y.equal(f64::INFINITY).where_(
        x.abs().equal(f64::INFINITY).where_(x.sign(), 0.0),
        y.equal(f64::INFINITY).where_(0.0, x)
            / (y.equal(0.0).logical_or(y.equal(f64::INFINITY))).where_(1.0, y),
    );
}

impl Norm {
    fn along(&self, cx: &Context<'_>, g: Variable) -> Variable {
        let x = cx.input(0);
        let y = reshape(cx.output(0), self.over.aligned(&x.shape()));
        let [y, g] = [y, g].map(|small| small.broadcast_to(x.shape()));
        call(Along::function(), &[], [x, y, g])
    }
}

impl Function for Norm {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.function
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new(self.over.reduced(&x.shape), x.dtype)])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        let over = || self.over.kept_axes();
        // Within [1 / limit, limit], no square overflows or loses bits; multiplying by `step` or
        // its inverse moves other numbers there. It is a power of two, so that nothing is rounded.
        // Dtypes other than f64 arrive as f32.
        let (limit, step) = match x.dtype() == DType::F64 {
            true => (2f64.powi(480), 2f64.powi(600)),
            false => (2f64.powi(50), 2f64.powi(100)),
        };
        let squares = ops::square(x.clone()).sum(over());
        let is_exact = (squares.greater_equal(limit.powi(-2))).logical_and(squares.less(f64::MAX));
        // A device is not asked, because the other branch is right too.
        let y = match is_exact.all(..).known_item() == Some(true) || x.size() == 0 {
            true => ops::sqrt(squares / self.count),
            false => {
                let largest = x.abs().max(over());
                let small = largest.less(1.0 / limit).where_(step, 1.0);
                let scale = largest.greater(limit).where_(1.0 / step, small);
                let scale = scale.cast(x.dtype());
                let squares = ops::square(ops::multiply(x.clone(), scale.clone()));
                ops::divide(ops::sqrt(squares.sum(over()) / self.count), scale)
            }
        };
        [y.reshape(self.over.reduced(x.shape()))]
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let gy = reshape(gy, self.over.aligned(cx.input_shape(0)));
        [Some(self.along(cx, gy / self.count))]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| sum(self.along(cx, dx), self.over.axes()) / self.count)]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over, ..*self }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let examples = self.over.examples(cx.input_shape(0), &gy.examples);
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::functions::reduction_samples;
    let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    reduction_samples("norm", 0.3..2.0, |x, axes| norm(x, axes), length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{std, var};
    use crate::transformations::grad;

    #[test]
    fn nothing_overflows_or_underflows_between() {
        let x = Variable::new([[3e30f32, 4e30], [3e-30, -4e-30], [0.3, 0.4], [3e-40, 4e-40]]);
        let ordinary = norm(Variable::new([0.3f32, 0.4]), 0).item::<f32>();
        let y = norm(&x, 1).to_vec::<f32>();
        assert_eq!(y[..3], [5e30, 5e-30, ordinary]);
        assert!((y[3] - 5e-40).abs() < 5e-45, "{}", y[3]);
        let gradient = grad(|x| norm(x, 1).sum(..), &x).to_vec::<f32>();
        for (got, wanted) in gradient[..6].iter().zip([0.6f32, 0.8, 0.6, -0.8, 0.6, 0.8]) {
            assert!((got - wanted).abs() < 1e-7, "{gradient:?}");
        }
        let x = Variable::new([3e-200, 4e-200]);
        assert!((norm(&x, 0).item::<f64>() / 5e-200 - 1.0).abs() < 1e-15);
        let x = Variable::new([3e200, 4e200]);
        assert!((norm(&x, 0).item::<f64>() / 5e200 - 1.0).abs() < 1e-15);
        let second = grad(|x| grad(|x| norm(x, 0), x).square().sum(..), &x);
        assert!(second.to_vec::<f64>().iter().all(|x| x.abs() < 1e-200));
    }

    #[test]
    fn zero_infinity_and_nothing() {
        let x = Variable::new([[0.0, 0.0], [f64::NEG_INFINITY, 2.0]]);
        assert_eq!(norm(&x, 1).to_vec::<f64>(), [0.0, f64::INFINITY]);
        let first = |x: &Variable| grad(|x| norm(x, 1).sum(..), x);
        assert_eq!(first(&x).to_vec::<f64>(), [0.0, 0.0, -1.0, 0.0]);
        let second = grad(|x| first(x).sum(..), &x).to_vec::<f64>();
        assert_eq!(second[2..], [0.0, 0.0]);
        let x = Variable::new([f64::NAN, 1.0]);
        assert!(norm(&x, 0).item::<f64>().is_nan());
        assert!(
            first(&x.reshape([1, 2]))
                .to_vec::<f64>()
                .iter()
                .all(|x| x.is_nan())
        );
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(norm(&nothing, 1).to_vec::<f64>(), [0.0, 0.0]);
        assert_eq!(norm(&nothing, 0).shape(), [0]);
    }

    #[test]
    fn deviations_of_any_size() {
        let deviation = |x: [f32; 2]| std(Variable::new(x), .., 0).item::<f32>();
        for (x, wanted) in [
            ([1e30, 3e30], 1e30),
            ([1e-30, 3e-30], 1e-30),
            ([2e38, 3e38], 5e37),
        ] {
            assert!((deviation(x) / wanted - 1.0).abs() < 1e-6, "{x:?}");
        }
        assert_eq!(deviation([3e38, 3e38]), 0.0);
        assert_eq!(
            var(Variable::new([3e38f32, 3e38]), .., 0).item::<f32>(),
            0.0
        );
        for x in [[1e30f32, 3e30], [1e-30, 3e-30]] {
            let gradient = grad(|x| std(x, .., 0), &Variable::new(x)).to_vec::<f32>();
            for (got, wanted) in gradient.iter().zip([-0.5, 0.5]) {
                assert!((got - wanted).abs() < 1e-6, "{gradient:?}");
            }
        }
    }
}
