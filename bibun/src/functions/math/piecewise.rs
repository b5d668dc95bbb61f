//! The selection between two functions, each computed only where it is selected.

use bibun_array::{Array, DType, Shape, ops};

use crate::batch::Batched;
use crate::call::calling;
use crate::context::Context;
use crate::error::{Error, mismatch, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{Operand, broadcast_to, cast, concat, logical_not, reshape, take, where_};
use crate::tree::{Tree, tree_map};
use crate::variable::Variable;

/// Applies `taken` to the elements where the condition holds, and `otherwise` to the rest.
///
/// The result is that of [`where_`], but each function gets only the elements it is taken for. So
/// nothing that a function does elsewhere (a NaN, an infinite derivative, a division by zero) is
/// ever computed, and values and derivatives of every order are finite wherever those of the
/// function taken are. [`where_`], which selects between two values, cannot guarantee this: an
/// infinite derivative of the value not taken is multiplied by zero, which is NaN.
///
/// The inputs are any [`Tree`](trait@Tree): a Variable, or a tuple of several. The functions get
/// the same container, with the elements of each input in a vector, and must be elementwise: each
/// element of the result, which is a vector of the same length or a number, must depend only on the
/// elements in the same position. They may capture numbers and Variables of shape `[]`, and
/// gradients flow to these. Arrays must be among the inputs, because a captured array does not have
/// only the selected elements. A function that is taken nowhere gets vectors of length 0.
///
/// Under [`vmap`](crate::vmap), where the condition may hold for different elements in each batch
/// element, the vectors have all elements: those not selected are replaced by one that is, and the
/// results in their positions are discarded.
///
/// Shapes: condition and inputs that broadcast → their common shape.
/// Types: condition any, zero is false; inputs all; results all, promoted.
/// Gradient: that of the function taken; exactly zero from the other; none to the condition.
/// Source: `numpy.piecewise` has the same contract.
///
/// # Panics
/// Panics if the shapes do not broadcast, or a function returns another shape.
///
/// ```
/// use bibun::{functions::piecewise, grad, Variable};
/// let x = Variable::constant([-4.0, 0.0, 4.0]);
/// let root = |x: &Variable| piecewise(x.greater(0), x, |x| x.sqrt(), |_| 0.0);
/// assert_eq!(root(&x).to_vec::<f64>(), [0.0, 0.0, 2.0]);
/// assert_eq!(grad(|x| root(x).sum(..), &x).to_vec::<f64>(), [0.0, 0.0, 0.25]);
///
/// let y = Variable::constant([1.0, 0.0, 2.0]);
/// let quotient = y.not_equal(0).piecewise(&(x, y), |(x, y)| x / y, |(x, _)| x.clone());
/// assert_eq!(quotient.to_vec::<f64>(), [-4.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn piecewise<T: Tree, A: Into<Operand>, B: Into<Operand>>(
    condition: impl Into<Variable>,
    inputs: &T,
    taken: impl FnOnce(&T) -> A,
    otherwise: impl FnOnce(&T) -> B,
) -> Variable {
    // This is no composite, because the functions call user code.
    let _called = calling("piecewise");
    // Bools have no derivative, so `jvp` need not hide them.
    let condition = cast(condition.into(), DType::Bool).detach();
    let shape = common_shape(&condition, inputs);
    let vector = |x: &Variable| reshape(broadcast_to(x, &shape), shape.size());
    let (condition, inputs) = (vector(&condition), tree_map(vector, inputs));
    let taken = |inputs: &T| taken(inputs).into();
    let otherwise = |inputs: &T| otherwise(inputs).into();
    let y = match condition.plain_array() {
        Some(condition) => parted(&condition, &inputs, taken, otherwise),
        None => replaced(&condition, &inputs, taken, otherwise),
    };
    reshape(y, shape)
}

impl Variable {
    /// Applies `taken` to the elements where this Variable holds, and `otherwise` to the rest; see
    /// [`functions::piecewise`](crate::functions::piecewise).
    #[must_use]
    #[track_caller]
    pub fn piecewise<T: Tree, A: Into<Operand>, B: Into<Operand>>(
        &self,
        inputs: &T,
        taken: impl FnOnce(&T) -> A,
        otherwise: impl FnOnce(&T) -> B,
    ) -> Self {
        piecewise(self, inputs, taken, otherwise)
    }
}

#[track_caller]
fn common_shape(condition: &Variable, inputs: &impl Tree) -> Shape {
    let mut specs = vec![condition.spec()];
    // The Tree is only read.
    inputs.visit(&mut crate::tree::Visitor::new(&mut |_, x, _| {
        specs.push(x.spec())
    }));
    let common = (specs.iter()).try_fold(Shape::from(()), |common, spec| {
        common.broadcast(&spec.shape)
    });
    let Some(common) = common else {
        let names = std::iter::once("condition").chain(std::iter::repeat("input"));
        let named: Vec<(&str, &Spec)> = names.zip(&specs).collect();
        mismatch("piecewise", &named, MUST_BROADCAST)
    };
    common
}

/// Applies each function to its own elements and puts the results back into their positions.
#[track_caller]
fn parted<T: Tree>(
    condition: &Array,
    inputs: &T,
    taken: impl FnOnce(&T) -> Operand,
    otherwise: impl FnOnce(&T) -> Operand,
) -> Variable {
    let (chosen, others) = (
        condition.flat_nonzero(),
        condition.logical_not().flat_nonzero(),
    );
    let sizes = [chosen.size(), others.size()];
    let order = bibun_array::concat(&[&chosen, &others], 0);
    let positions = Array::arange(0, order.size() as i64).to(order.device());
    let places = Array::zeros(order.shape(), DType::I64).add_at(&order, 0, &positions);
    let part = |positions: &Array| tree_map(|x| take(x, positions.to(x.device()), 0), inputs);
    let results = [taken(&part(&chosen)), otherwise(&part(&others))];
    let [a, b] = together(results, sizes);
    let [a, b] = [(a, sizes[0]), (b, sizes[1])].map(|(y, size)| broadcast_to(y, size));
    let all = concat([&a, &b], 0);
    take(&all, places.to(all.device()), 0)
}

/// Applies both functions to all elements, replacing those that are not taken by an element that
/// is, so that no NaN or infinity arises that would not arise anyway. A function that is taken
/// nowhere gets no elements.
#[track_caller]
fn replaced<T: Tree>(
    condition: &Variable,
    inputs: &T,
    taken: impl FnOnce(&T) -> Operand,
    otherwise: impl FnOnce(&T) -> Operand,
) -> Variable {
    let sides = [condition.clone(), logical_not(condition)];
    let [some, others] = sides.each_ref().map(|side| {
        let holds = Batched::all(side).flat_nonzero().size() > 0;
        let inputs = tree_map(
            |x| match holds {
                true => {
                    let [x] = crate::apply(Replaced, [side.clone(), x.clone()]);
                    x
                }
                false => Variable::constant(Array::zeros([0], x.dtype())),
            },
            inputs,
        );
        let size = if holds { condition.shape().size() } else { 0 };
        (inputs, size)
    });
    let results = [taken(&some.0), otherwise(&others.0)];
    let [a, b] = together(results, [some.1, others.1]);
    let [a, b] = [(a, some.1), (b, others.1)].map(|(y, size)| match size {
        0 => Variable::constant(Array::zeros((), y.dtype())),
        _ => y,
    });
    where_(condition, a, b)
}

/// Brings the results of both functions to a common dtype, and checks that each fits its vectors.
#[track_caller]
fn together(results: [Operand; 2], sizes: [usize; 2]) -> [Variable; 2] {
    let dtypes = results.each_ref().map(|result| match result {
        Operand::Variable(y) => y.dtype(),
        Operand::Number(y) => y.dtype(),
    });
    let [a, b] = results;
    let results = [a.beside(dtypes[1]), b.beside(dtypes[0])];
    for ((y, size), name) in results.iter().zip(sizes).zip(["taken", "otherwise"]) {
        let expected = Shape::from(size);
        if !y.shape().broadcasts_to(&expected) {
            let what = format!(
                "`{name}` gave {} for vectors of {size} elements; it must be elementwise, and arrays \
                 that it uses must be among the inputs",
                y.spec()
            );
            raise(Error::argument("piecewise", what));
        }
    }
    results
}

/// `x` where the condition holds, and elsewhere one element of `x` for which it holds, taken as a
/// constant. Its position is the same for all `x` with the same condition, and may be in another
/// batch element.
#[derive(Clone, Copy, Debug)]
struct Replaced;

impl Function for Replaced {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "piecewise"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }

    fn shape(&self, [_, x]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        Ok([x.clone()])
    }

    fn forward(&self, [condition, x]: [Array; 2]) -> [Array; 1] {
        if x.size() == 0 {
            return [x];
        }
        let first = condition.reshape(x.size()).argmax(0);
        let element = x.reshape(x.size()).take(&first, 0).broadcast_to(x.shape());
        [ops::where_(condition, x, element)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        [None, cx.needs(1).then(|| where_(cx.input(0), gy, 0.0))]
    }

    fn jvp(&self, cx: &Context<'_>, [_, dx]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [dx.map(|dx| where_(cx.input(0), dx, 0.0))]
    }

    /// Batch elements are just more elements. The batch axis always goes to the front, so that the
    /// first element is the same for all `x`.
    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        Batched::in_front(*self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        gy.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    vec![
        Sample::new(
            "piecewise",
            |x| {
                let y = x[0]
                    .greater(0)
                    .piecewise(&x[0], |x| (x + 0.5).log(), |x| x.exp());
                vec![y]
            },
            |x| {
                let f = |x: f64| if x > 0.0 { (x + 0.5).ln() } else { x.exp() };
                let y = x[0].to_vec::<f64>().into_iter().map(f).collect();
                vec![Array::from_vec(y, [2, 3])]
            },
        )
        .input([2, 3], -2.0..2.0),
        // Inputs that broadcast, and a captured Variable of shape [].
        Sample::new(
            "piecewise",
            |x| {
                let both = (x[0].clone(), x[1].clone());
                let y = x[0].greater(&x[1]).piecewise(
                    &both,
                    |(a, b)| (a - b + &x[2]).sqrt(),
                    |(a, b)| a * b * &x[2],
                );
                vec![y]
            },
            |x| {
                let [a, b, c] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                let y = (0..6).map(|i| match (a[i % 3], b[i / 3], c[0]) {
                    (a, b, c) if a > b => (a - b + c).sqrt(),
                    (a, b, c) => a * b * c,
                });
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([3], -2.0..2.0)
        .input([2, 1], -2.0..2.0)
        .input((), 0.5..1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GradOptions, attempt, detect_anomaly, grad, gradients, gradients_with, jvp, vmap};

    fn root(x: &Variable) -> Variable {
        x.greater(0).piecewise(x, |x| x.sqrt(), |_| 0.0)
    }

    /// Computes the first, second and third derivative of an elementwise function.
    fn derivatives(f: impl Fn(&Variable) -> Variable, x: &Variable) -> [Vec<f64>; 3] {
        let first = |x: &Variable| grad(|x| f(x).sum(..), x);
        let second = |x: &Variable| grad(|x| first(x).sum(..), x);
        let third = |x: &Variable| grad(|x| second(x).sum(..), x);
        [first(x), second(x), third(x)].map(|g| g.to_vec::<f64>())
    }

    #[test]
    fn branches_not_taken_affect_no_derivative() {
        let x = Variable::new([-4.0, 0.0, 4.0, f64::NAN]);
        assert_eq!(root(&x).to_vec::<f64>(), [0.0, 0.0, 2.0, 0.0]);
        let expected = [
            [0.0, 0.0, 0.25, 0.0],
            [0.0, 0.0, -1.0 / 32.0, 0.0],
            [0.0, 0.0, 3.0 / 256.0, 0.0],
        ];
        assert_eq!(derivatives(root, &x), expected);
        // where_ multiplies by the infinite derivative of the value that is not taken.
        let spoiled = |x: &Variable| x.greater(0).where_(x.sqrt(), 0.0).sum(..);
        assert!(grad(spoiled, &x).to_vec::<f64>()[0].is_nan());
        // The same by tangents, where the condition is hidden.
        let (_, tangent) = jvp(root, &x, &Variable::constant([1.0; 4]));
        assert_eq!(tangent.to_vec::<f64>(), expected[0]);
        let tangent = |x: &Variable| jvp(root, x, &Variable::constant([1.0; 4])).1;
        let (_, second) = jvp(tangent, &x, &Variable::constant([1.0; 4]));
        assert_eq!(second.to_vec::<f64>(), expected[1]);
        let y = detect_anomaly(|| {
            let y = root(&x).sum(..);
            y.backward();
            y
        });
        assert_eq!(y.item::<f64>(), 2.0);
    }

    #[test]
    fn batch_elements_choose_by_themselves() {
        // All taken, none taken, and some: in rows and in columns.
        let x = Variable::new([[1.0, 4.0, 9.0], [-1.0, 0.0, -4.0], [0.0, 16.0, f64::NAN]]);
        let by_rows = [[0.5, 0.25, 1.0 / 6.0], [0.0; 3], [0.0, 0.125, 0.0]].concat();
        let slopes = |row: &Variable| grad(|row| root(row).sum(..), row);
        assert_eq!(vmap(slopes, &x).to_vec::<f64>(), by_rows);
        let outside = grad(|x| vmap(root, x).sum(..), &x);
        assert_eq!(outside.to_vec::<f64>(), by_rows);
        let elements = |row: &Variable| vmap(|x: &Variable| grad(root, x), row);
        assert_eq!(vmap(elements, &x).to_vec::<f64>(), by_rows);
        let curvatures = vmap(|row: &Variable| grad(|r| slopes(r).sum(..), row), &x);
        let plain = derivatives(root, &x);
        assert_eq!(curvatures.to_vec::<f64>(), plain[1]);
        let ones = Variable::constant([[1.0; 3]; 3]);
        let (_, tangent) = jvp(|x: &Variable| vmap(root, x), &x, &ones);
        assert_eq!(tangent.to_vec::<f64>(), by_rows);
        let (_, tangents) = vmap(|(x, v): &(Variable, Variable)| jvp(root, x, v), &(x, ones));
        assert_eq!(tangents.to_vec::<f64>(), by_rows);
    }

    #[test]
    fn nothing_is_computed_where_it_is_taken_nowhere() {
        let scale = Variable::new(3.0);
        let f = |x: &Variable| {
            x.greater(0).piecewise(
                x,
                |x| {
                    let values = Batched::all(x).to_vec::<f64>();
                    assert!(values.iter().all(|&x| x > 0.0), "{values:?}");
                    (x * &scale).sqrt()
                },
                |x| x * &scale,
            )
        };
        for x in [[-1.0, -2.0], [1.0, 2.0], [-1.0, 2.0]] {
            let x = Variable::new(x);
            let g = |y: Variable| {
                let gradients = gradients(&[&y.sum(..)], &[&x, &scale]).into_iter();
                let of_all = gradients.map(|g| g.expect("a gradient").to_vec::<f64>());
                of_all.collect::<Vec<_>>().concat()
            };
            for (whole, batch) in g(f(&x)).into_iter().zip(g(vmap(f, &x))) {
                assert!((whole - batch).abs() < 1e-12, "{whole} {batch}");
            }
            // Inputs with different batch axes, beside one that is the same for all batch elements.
            let pairs = [[1.0, -1.0], [-1.0, -2.0]];
            let (a, b) = (Variable::new(pairs), Variable::new(pairs));
            let call = |v: &[Variable]| {
                let choice = v[0].greater(0);
                let inputs = (v[0].clone(), v[1].clone(), x.clone());
                vec![choice.piecewise(&inputs, |(a, b, x)| (a + b) * x, |_| 0.0)]
            };
            let found = crate::batch::vmap(call, &[a.clone(), b], &[Some(0), Some(1)]);
            let x = x.to_vec::<f64>();
            assert_eq!(found[0].to_vec::<f64>(), [2.0 * x[0], 0.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn replacements_are_elements_of_one_position() {
        let a = Variable::new([[0.0, 1.0, 2.0], [5.0, 6.0, 0.0]]);
        let b = Variable::new([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).transpose();
        let call = |v: &[Variable]| {
            let inputs = (v[0].clone(), v[1].clone());
            let quotient = |(a, b): &(Variable, Variable)| {
                let (places_a, places_b) = (
                    Batched::all(a).to_vec::<f64>(),
                    Batched::all(b).to_vec::<f64>(),
                );
                for place in places_a.into_iter().zip(places_b) {
                    assert!(
                        [(0.0, 1.0), (2.0, 2.0), (6.0, 3.0)].contains(&place),
                        "{place:?}"
                    );
                }
                a / b
            };
            vec![v[1].not_equal(0).piecewise(&inputs, quotient, |_| -1.0)]
        };
        let y = crate::batch::vmap(call, &[a, b], &[Some(0), Some(1)]);
        assert_eq!(y[0].to_vec::<f64>(), [0.0, -1.0, 1.0, -1.0, 2.0, -1.0]);
    }

    #[test]
    fn numbers_shapes_and_dtypes() {
        let x = Variable::new([[1.0f32, -1.0]]);
        let choice = Variable::constant([[1i64], [0]]);
        let y = choice.piecewise(&x, |x| x * 2.0, |_| 0.5);
        assert_eq!((y.shape(), y.dtype()), ([2, 2].into(), DType::F32));
        assert_eq!(y.to_vec::<f32>(), [2.0, -2.0, 0.5, 0.5]);
        let y = choice.piecewise(&(), |()| 1, |()| 2.5);
        assert_eq!(
            (y.to_vec::<f64>(), y.shape()),
            (vec![1.0, 2.5], [2, 1].into())
        );
        // The dtype is that of both functions, whichever is taken.
        for chosen in [true, false] {
            let y =
                Variable::constant([chosen]).piecewise(&x, |x| x.clone(), |x| x.cast(DType::F64));
            assert_eq!(y.dtype(), DType::F64);
            let batch = vmap(
                |x: &Variable| {
                    let choice = if chosen { x.equal(x) } else { x.not_equal(x) };
                    choice.piecewise(x, |x| x.clone(), |x| x.cast(DType::F64))
                },
                &x,
            );
            assert_eq!(batch.dtype(), DType::F64);
        }
        let nothing = Variable::new(Array::zeros([0, 3], DType::F32));
        assert_eq!(root(&nothing).shape(), [0, 3]);
        assert_eq!(
            vmap(root, &Variable::new(Array::zeros([2, 0], DType::F32))).shape(),
            [2, 0]
        );
        let scalar = Variable::new(4.0);
        let options = GradOptions::new().create_graph();
        let g = gradients_with(&[&root(&scalar)], &[&scalar], &options)[0]
            .clone()
            .unwrap();
        assert_eq!((g.item::<f64>(), g.shape()), (0.25, [0; 0].into()));
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([1.0, 2.0, -3.0]);
        let message = |call: &dyn Fn() -> Variable| attempt(call).unwrap_err().to_string();
        let found = message(&|| {
            x.greater(0)
                .piecewise(&x, |x| x.sum(..).reshape([1, 1]), |_| 0.0)
        });
        let expected = "piecewise: `taken` gave [1, 1] f64 for vectors of 2 elements";
        assert!(found.starts_with(expected), "{found}");
        let found = message(&|| x.greater(0).piecewise(&x, |_| 0.0, |_| x.clone()));
        let expected = "piecewise: `otherwise` gave [3] f64 for vectors of 1 elements";
        assert!(found.starts_with(expected), "{found}");
        let found = message(&|| Variable::constant([true, false]).piecewise(&x, |_| 0.0, |_| 1.0));
        let expected = "piecewise: inputs do not fit: condition = [2] bool, input = [3] f64";
        assert!(found.starts_with(expected), "{found}");
    }
}
