//! The function of the fully connected layer.

use bibun_array::{Array, DType, Shape};

use crate::batch::Batched;
use crate::call::composite_if;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, OuterProduct, ProductForm};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::OptionalVariable;
use crate::functions::products::reshaped;
use crate::functions::{cast, conj, matmul, reshape, sum, swapaxes};
use crate::variable::Variable;

/// Computes a fully connected layer, `y = x Wᵀ + b`; each row of the weight belongs to one output.
///
/// Shapes: x `[.., i]`, w `[o, i]`, b `[o]` → `[.., o]`.
/// Types: numbers, promoted.
/// Gradient: `gy w` to x, `gyᵀ x` to w, `Σ gy` to b; of complex numbers `gy conj(w)` and `gyᵀ conj(x)`.
///
/// # Panics
/// Panics if the shapes do not fit, or all are bool.
///
/// ```
/// use bibun::{functions::linear, Variable};
/// let x = Variable::new([[1.0, 2.0]]);
/// let w = Variable::new([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]);
/// let b = Variable::new([0.0, 10.0, 100.0]);
/// assert_eq!(linear(&x, &w, &b).to_vec::<f64>(), [1.0, 12.0, 103.0]);
/// ```
#[track_caller]
pub fn linear(
    x: impl Into<Variable>,
    w: impl Into<Variable>,
    b: impl Into<OptionalVariable>,
) -> Variable {
    match b.into().get() {
        Some(b) => of_inputs([x.into(), w.into(), b.clone()]),
        None => of_inputs([x.into(), w.into()]),
    }
}

/// [`linear`] of x, w and, if there is one, b.
#[track_caller]
fn of_inputs<const N: usize>(inputs: [Variable; N]) -> Variable {
    let dtypes = inputs.iter().map(Variable::dtype);
    let dtype = dtypes.reduce(DType::promote).expect("at least two");
    let is_mixed = inputs.iter().any(|x| x.dtype() != dtype);
    let _whole = composite_if(is_mixed, "linear");
    let inputs = match is_mixed {
        true => inputs.map(|x| cast(x, dtype)),
        false => inputs,
    };
    let [y] = crate::apply(LinearLayer, inputs);
    y
}

/// The layer of x and w, and, if `N` is 3, b.
#[derive(Clone, Debug)]
struct LinearLayer<const N: usize>;

/// Returns the shape with all axes but the last merged into one.
fn folded(shape: &Shape) -> [usize; 2] {
    let (columns, rows) = shape.split_last().expect("checked by the shape rule");
    [rows.iter().product(), *columns]
}

/// Returns what is for each input from what is for x, w and b.
fn for_inputs<T, const N: usize>(all: [Option<T>; 3]) -> [Option<T>; N] {
    let mut all = all.into_iter();
    std::array::from_fn(|_| all.next().flatten())
}

impl<const N: usize> Function for LinearLayer<N> {
    type Inputs = Fixed<N>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "linear"
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        let [a, b] = [0, 1].map(|i| Saved::NOTHING.input(i));
        b.only_if(needs[0]).and(a.only_if(needs[1]))
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn shape(&self, inputs: [&Spec; N]) -> Result<[Spec; 1], Mismatch> {
        let named = ["x [.., i]", "w [o, i]", "b [o]"]
            .into_iter()
            .zip(inputs.iter().copied());
        let fail = |must_hold| Err(Mismatch::new(&named.collect::<Vec<_>>(), must_hold));
        let (x, w) = (inputs[0], inputs[1]);
        let Some(&i) = x.shape.last() else {
            return fail("x must have an axis");
        };
        let Some([o, _]) = w.shape.dims().filter(|&[_, columns]| columns == i) else {
            return fail("w must be a matrix, and i be equal");
        };
        if inputs.get(2).is_some_and(|b| b.shape != [o]) {
            return fail("b must be a vector with as many elements as w has rows");
        }
        if x.dtype == DType::Bool {
            return fail("a product is not defined for bools");
        }
        Ok([Spec::new(x.shape.replaced(x.shape.rank() - 1, o), x.dtype)])
    }

    fn forward(&self, inputs: [Array; N]) -> [Array; 1] {
        let (x, w) = (&inputs[0], &inputs[1]);
        let product = |rows: &Array| match inputs.get(2) {
            Some(b) => bibun_array::gemm(1.0, rows, &w.transpose(), 1.0, b.clone()),
            None => bibun_array::matmul(rows, &w.transpose()),
        };
        [match x.rank() {
            2 => product(x),
            rank => product(&x.reshape(folded(x.shape())))
                .reshape(x.shape().replaced(rank - 1, w.shape()[0])),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; N] {
        let x_shape = cx.input_shape(0);
        let rows = reshaped(gy, folded(cx.output_shape(0)));
        let gx = cx
            .needs(0)
            .then(|| reshaped(matmul(&rows, conj(cx.input(1))), x_shape));
        let gw = cx.needs(1).then(|| {
            let x = reshaped(conj(cx.input(0)), folded(x_shape));
            matmul(swapaxes(&rows, 0, 1), x)
        });
        let gb = (N == 3 && cx.needs(2)).then(|| sum(rows, 0));
        for_inputs([gx, gw, gb])
    }

    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; N]) -> [Option<Variable>; 1] {
        let mut tangents = dx.into_iter();
        let (dx, dw) = (tangents.next().flatten(), tangents.next().flatten());
        let db = tangents.next().flatten();
        let from_x = dx.map(|dx| linear(dx, cx.input(1), None));
        let from_w = dw.map(|dw| linear(cx.input(0), dw, None));
        let from_b = db.map(|db| db.broadcast_to(cx.output_shape(0)));
        let terms = [from_x, from_w, from_b];
        [terms.into_iter().flatten().reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: [Batched; N]) -> [Batched; 1] {
        let count = Batched::batch_size(&inputs);
        let mut inputs = inputs.into_iter();
        let (x, w) = (inputs.next().expect("x"), inputs.next().expect("w"));
        let (same_b, own_b) = match inputs.next() {
            Some(Batched { value, axis: None }) => (Some(value), None),
            Some(b) => (None, Some(b)),
            None => (None, None),
        };
        let y = match (x.axis, w.axis) {
            // Batch elements of x are more rows.
            (axis, None) => {
                let last = x.value.rank() - 1;
                let x = match axis {
                    Some(axis) if axis == last => Batched::along(x.to_front(count), 0),
                    _ => x,
                };
                Batched {
                    value: linear(x.value, w.value, same_b.as_ref()),
                    axis: x.axis,
                }
            }
            // Batch elements of w are more outputs.
            (None, Some(_)) => {
                let w = w.to_front(count);
                let [batch, o, i] = w.shape().dims().expect("a batch of matrices");
                let b = same_b.map(|b| reshape(b.broadcast_to([batch, o]), batch * o));
                let y = linear(&x.value, reshape(w, [batch * o, i]), b.as_ref());
                let axis = y.rank() - 1;
                let shape = y.shape().replaced(axis, batch).inserted(axis + 1, o);
                Batched::along(reshape(y, shape), axis)
            }
            (Some(_), Some(_)) => {
                let (x, w) = (x.to_front(count), w.to_front(count));
                let shape = x.shape();
                let [rows, i] = folded(&shape.removed(0));
                let y = matmul(reshape(x, [count, rows, i]), swapaxes(&w, 1, 2));
                let y = match &same_b {
                    Some(b) => y + b,
                    None => y,
                };
                Batched::along(
                    reshape(y, shape.replaced(shape.rank() - 1, w.shape()[1])),
                    0,
                )
            }
        };
        let Some(b) = own_b else {
            return [y];
        };
        let (y, b) = (y.to_front(count), b.to_front(count));
        let mut shape = Shape::from(vec![1; y.rank()]).replaced(0, count);
        shape = shape.replaced(y.rank() - 1, b.shape()[1]);
        [Batched::along(y + reshape(b, shape), 0)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; N] {
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        let x_shape = cx.input_shape(0);
        // Factors are kept as they are, and not as their conjugates.
        if examples.axis() + 1 == x_shape.rank() || cotangent.dtype().is_complex() {
            return for_inputs([(); 3].map(|()| Some(ExampleGradient::Unknown)));
        }
        // The slices of each example, `[examples, l, ..]`, with all axes between the first and the
        // last merged.
        let of_each = |x: &Variable| {
            let each = examples.of_each(x);
            let shape = each.shape();
            let (columns, rows) = shape.split_last().expect("axes of examples");
            reshaped(each, [rows[0], rows[1..].iter().product(), *columns])
        };
        let rows = of_each(&cotangent);
        let gx = cx.needs(0).then(|| {
            let rows = reshaped(cotangent, folded(cx.output_shape(0)));
            let gx = reshaped(matmul(rows, cx.input(1)), x_shape);
            ExampleGradient::sliced(gx, examples.clone())
        });
        let gw = cx.needs(1).then(|| {
            let sum = |x: &Variable, gy: &Variable| matmul(swapaxes(gy, 0, 1), x);
            let product = OuterProduct::new(
                ProductForm::Matrix { transposed: true },
                of_each(&cx.input(0)),
                rows.clone(),
                sum,
            );
            ExampleGradient::OuterProduct(product)
        });
        let gb = (N == 3 && cx.needs(2)).then(|| ExampleGradient::Stacked(sum(rows, 1)));
        for_inputs([gx, gw, gb])
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let reference = |x: &[Array]| {
        let (rows, i, o) = (x[0].size() / 3, 3, x[1].shape()[0]);
        let at = |x: &Array, position: usize| x.to_vec::<f64>()[position];
        let element = |row: usize, column: usize| {
            let products = (0..i).map(|k| at(&x[0], row * i + k) * at(&x[1], column * i + k));
            products.sum::<f64>() + x.get(2).map_or(0.0, |b| at(b, column))
        };
        let elements = (0..rows).flat_map(|row| (0..o).map(move |column| (row, column)));
        let elements = elements.map(|(row, column)| element(row, column)).collect();
        let shape = x[0].shape().replaced(x[0].rank() - 1, o);
        vec![Array::from_vec(elements, shape)]
    };
    let range = -2.0..2.0;
    let sample = |x: Shape, o: usize, biased: bool| {
        let call = |x: &[Variable]| vec![linear(&x[0], &x[1], x.get(2))];
        let sample = Sample::new("linear", call, reference)
            .input(x, range.clone())
            .input([o, 3], range.clone());
        if biased {
            sample.input(o, range.clone())
        } else {
            sample
        }
    };
    vec![
        sample([2, 3].into(), 4, true),
        sample([2, 3].into(), 1, false),
        sample([2, 1, 3].into(), 2, true),
        sample([3].into(), 2, true),
        sample([3].into(), 2, false),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let w = Variable::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
        let message = |x: &Variable, w: &Variable, b: Option<&Variable>| {
            attempt(|| linear(x, w, b)).unwrap_err().to_string()
        };
        let long = Variable::new([1.0; 4]);
        let found = message(&x, &w, Some(&long));
        assert!(found.contains("x [.., i] = [1, 2] f64, w [o, i] = [3, 2] f64, b [o] = [4] f64"));
        assert!(found.contains("as many elements as w has rows"), "{found}");
        assert!(message(&x, &w.transpose(), None).contains("i be equal"));
        assert!(message(&x, &long, None).contains("w must be a matrix"));
        assert!(message(&Variable::new(1.0), &w, None).contains("x must have an axis"));
        let truth = Variable::constant([[true]]);
        assert!(message(&truth, &truth, None).contains("bools"));
    }

    #[test]
    fn only_what_is_read_is_kept() {
        let x = Variable::constant([[1.0, 2.0]]);
        let w = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        let y = linear(&x, &w * 1.0, None);
        let kept = y.creator().unwrap().inputs();
        assert!(kept[0].value().is_some() && kept[1].value().is_none());
        y.sum(..).backward();
        assert_eq!(w.grad().unwrap().to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
    }
}
