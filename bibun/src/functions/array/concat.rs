//! Arrays joined along an axis.

use bibun_array::{Array, DType, normalize_axis};

use super::split::cut;
use crate::batch::Batched;
use crate::call::composite_if;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::cast;
use crate::variable::Variable;

/// Joins arrays along `axis`, one after another: Variables or arrays, owned or borrowed, in an array,
/// a slice, a vector or any other iterator.
///
/// Shapes: x₀ `[.., n₀, ..]`, x₁ `[.., n₁, ..]`, ... → `[.., n₀ + n₁ + ..., ..]`; all sizes but
/// those of `axis` are equal. Types: all, promoted.
/// Gradient: for each array its part of `gy`.
///
/// # Panics
/// Panics if there are no arrays, `axis` does not exist, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::concat, Variable};
/// let (a, b) = (Variable::new([[1.0], [2.0]]), Variable::new([[3.0, 4.0], [5.0, 6.0]]));
/// assert_eq!(concat([&a, &b], 1).to_vec::<f64>(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
/// let doubled = [a, b].into_iter().map(|x| 2.0 * x);
/// assert_eq!(concat(doubled, 1).to_vec::<f64>(), [2.0, 6.0, 8.0, 4.0, 10.0, 12.0]);
/// ```
#[track_caller]
pub fn concat(xs: impl IntoIterator<Item = impl Into<Variable>>, axis: isize) -> Variable {
    let xs = variables(xs);
    let alike = xs.windows(2).all(|pair| pair[0].dtype() == pair[1].dtype());
    let _whole = composite_if(!alike, "concat");
    let xs = promoted("concat", xs);
    let axis = normalize_axis("concat", axis, xs[0].rank());
    joined(xs, axis)
}

/// Casts arrays, at least one, to the dtype that they promote to.
#[track_caller]
pub(super) fn promoted(function: &'static str, xs: Vec<Variable>) -> Vec<Variable> {
    let Some(dtype) = xs.iter().map(Variable::dtype).reduce(DType::promote) else {
        raise(Error::argument(function, "there are no arrays to join"))
    };
    xs.into_iter().map(|x| cast(x, dtype)).collect()
}

/// Returns whatever converts into Variables as such.
pub(in crate::functions) fn variables(
    xs: impl IntoIterator<Item = impl Into<Variable>>,
) -> Vec<Variable> {
    xs.into_iter().map(Into::into).collect()
}

/// Joins arrays of one dtype.
#[track_caller]
pub(super) fn joined(xs: Vec<Variable>, axis: usize) -> Variable {
    let [y] = crate::apply(Concat { axis }, xs);
    y
}

#[derive(Clone, Debug)]
struct Concat {
    axis: usize,
}

impl Function for Concat {
    type Inputs = Variadic;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "concat"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, xs: Vec<&Spec>) -> Result<[Spec; 1], Mismatch> {
        let (first, axis) = (xs[0], self.axis);
        if axis >= first.shape.rank() {
            let must_hold = format!("there must be an axis {axis}");
            return Err(Mismatch::new(&[("x0", first)], must_hold));
        }
        for (i, x) in xs.iter().enumerate() {
            let fits = x.dtype == first.dtype
                && x.shape.rank() == first.shape.rank()
                && x.shape == first.shape.replaced(axis, x.shape[axis]);
            if !fits {
                let must_hold = format!("all sizes but those of axis {axis} must be equal");
                let inputs = [("x0", first), (&format!("x{i}"), x)];
                return Err(Mismatch::new(&inputs, must_hold));
            }
        }
        let sizes = xs.iter().map(|x| x.shape[axis]);
        let size = sizes.fold(0, usize::saturating_add);
        Ok([Spec::new(first.shape.replaced(axis, size), first.dtype)])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, xs: Vec<Array>) -> [Array; 1] {
        let xs: Vec<&Array> = xs.iter().collect();
        [bibun_array::concat(&xs, self.axis as isize)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> Vec<Option<Variable>> {
        let mut end = 0;
        let positions = (0..cx.input_count() - 1).map(|i| {
            end += cx.input_shape(i)[self.axis];
            end
        });
        let positions = positions.collect();
        let parts = cut(gy, positions, self.axis);
        let parts = parts.into_iter().enumerate();
        parts.map(|(i, gx)| cx.needs(i).then_some(gx)).collect()
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> [Option<Variable>; 1] {
        let zeros = |i| Array::zeros(cx.input_shape(i), cx.input_dtype(i));
        let dx = dx.into_iter().enumerate();
        let dx = dx.map(|(i, dx)| dx.unwrap_or_else(|| Variable::constant(zeros(i))));
        crate::apply(self.clone(), dx.collect()).map(Some)
    }

    fn batch(&self, xs: Vec<Batched>) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Self { axis }, xs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> Vec<Option<ExampleGradient>> {
        let (axis, mut start) = (gy.examples.axis(), 0);
        let parts = self.vjp(cx, [gy.cotangent]).into_iter().enumerate();
        let gradient = |(i, gx): (usize, Option<Variable>)| {
            let size = cx.input_shape(i)[self.axis];
            let slices = start..start + size;
            start += size;
            let examples = match axis == self.axis {
                true => gy.examples.picked(axis, slices),
                false => gy.examples.clone(),
            };
            Some(ExampleGradient::sliced(gx?, examples))
        };
        parts.map(gradient).collect()
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "concat",
            |x| vec![concat([&x[0], &x[1], &x[2]], -1)],
            move |x| {
                vec![by_index([2, 6], |i| match i[1] {
                    0 | 1 => at(&x[0], i),
                    2..5 => at(&x[1], &[i[0], i[1] - 2]),
                    _ => at(&x[2], &[i[0], i[1] - 5]),
                })]
            },
        )
        .input([2, 2], range.clone())
        .input([2, 3], range.clone())
        .input([2, 1], range.clone()),
        Sample::new(
            "concat",
            |x| vec![concat([&x[0], &x[0]], 0)],
            move |x| vec![by_index([4, 3], |i| at(&x[0], &[i[0] % 2, i[1]]))],
        )
        .input([2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_promotes() {
        let (a, b) = (Variable::constant([1i64, 2]), Variable::new([0.5f32]));
        assert_eq!(concat([&a, &b], 0).dtype(), DType::F32.promote(DType::I64));
        let flags = Variable::constant([true, false]);
        assert_eq!(concat([&flags, &a], 0).to_vec::<i64>(), [1, 0, 1, 2]);
    }

    #[test]
    fn whatever_converts_is_joined() {
        let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0]));
        let expected = [1.0, 2.0, 3.0];
        let list = vec![a.clone(), b.clone()];
        assert_eq!(concat(&list, 0).to_vec::<f64>(), expected);
        assert_eq!(concat(list.iter(), 0).to_vec::<f64>(), expected);
        assert_eq!(concat(&[&a, &b][..], 0).to_vec::<f64>(), expected);
        assert_eq!(concat([&a, &b], 0).to_vec::<f64>(), expected);
        assert_eq!(concat([a.array(), b.array()], 0).to_vec::<f64>(), expected);
        assert_eq!(
            concat([&a.array(), &b.array()], 0).to_vec::<f64>(),
            expected
        );
        assert_eq!(
            concat(vec![vec![1.0, 2.0], vec![3.0]], 0).to_vec::<f64>(),
            expected
        );
        let y = concat(list.into_iter().map(|x| x * 2.0), 0);
        y.sum(..).backward();
        assert_eq!(a.grad().unwrap().to_vec::<f64>(), [2.0, 2.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let (a, b) = (Variable::new([[1.0, 2.0]]), Variable::new([[1.0]]));
        let message = |xs: &[&Variable]| crate::attempt(|| concat(xs, 0)).unwrap_err().to_string();
        let error = message(&[&a, &b]);
        assert!(
            error.contains("x0 = [1, 2] f64, x1 = [1, 1] f64"),
            "{error}"
        );
        let error = message(&[]);
        assert!(error.contains("no arrays to join"), "{error}");
    }
}
