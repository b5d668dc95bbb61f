//! The functions behind [`take`] and [`gather`](crate::functions::gather), and behind their adjoints
//! [`add_at`] and [`scatter_add`](crate::functions::scatter_add).

use std::cmp::Ordering;
use std::fmt;

use bibun_array::{Array, DType, Shape, cpu, normalize_axis};

use super::batch::{fold_batch, rows_of_batch};
use super::{add_at, take};
use crate::batch::Batched;
use crate::call::composite_if;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, OuterProduct, ProductForm};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::{Operand, batch_in_front, broadcast_to, moveaxis, reshape};
use crate::variable::Variable;

/// The positions that indices name along an axis.
#[derive(Clone, Copy)]
pub(super) struct Picking {
    /// Whether there is one index for each element, and not one for each slice.
    each: bool,
    axis: usize,
}

impl Picking {
    /// Returns a picking of whole slices along `axis`, as [`take`] picks them.
    #[track_caller]
    pub(super) fn slices(function: &'static str, x: &Variable, axis: isize) -> Self {
        let (each, axis) = (false, normalize_axis(function, axis, x.rank()));
        Self { each, axis }
    }

    /// Returns a picking of single elements along `axis`, as [`gather`](crate::functions::gather) picks
    /// them.
    #[track_caller]
    pub(super) fn elements(function: &'static str, x: &Variable, axis: isize) -> Self {
        let each = true;
        Self {
            each,
            ..Self::slices(function, x, axis)
        }
    }

    pub(super) fn axis(self) -> usize {
        self.axis
    }

    /// Returns the same positions with the batch axis in front.
    fn in_batch(self) -> Self {
        let axis = self.axis + 1;
        Self { axis, ..self }
    }

    /// Returns the shape of the result of a pick.
    fn shape(self, x: &Shape, indices: &Shape) -> Shape {
        if self.each {
            return indices.clone();
        }
        let (before, after) = (&x[..self.axis], &x[self.axis + 1..]);
        let sizes = before.iter().chain(indices.iter()).chain(after);
        sizes.copied().collect()
    }

    fn checked_shape(self, x: &Spec, indices: &Spec) -> Result<Shape, Mismatch> {
        let inputs = [("x", x), ("indices", indices)];
        if indices.dtype != DType::I64 {
            return Err(Mismatch::new(&inputs, "indices must be integers"));
        }
        let axis = self.axis;
        let fits = !self.each
            || indices.shape.rank() == x.shape.rank()
                && indices.shape == x.shape.replaced(axis, indices.shape[axis]);
        if !fits {
            let must_hold = format!(
                "all sizes but those of axis {axis} must be equal, or none above that of x"
            );
            return Err(Mismatch::new(&inputs, must_hold));
        }
        Ok(self.shape(&x.shape, &indices.shape))
    }

    /// Raises an error unless these indices fit x.
    #[track_caller]
    pub(super) fn expect(self, function: &'static str, x: &Variable, indices: &Variable) {
        if let Err(mismatch) = self.checked_shape(&x.spec(), &indices.spec()) {
            raise(Error::mismatch(function, &mismatch));
        }
    }

    /// Returns what `indices` pick from x.
    #[track_caller]
    pub(super) fn pick(self, x: Variable, indices: Variable) -> Variable {
        let [y] = crate::apply(Pick(self), [x, indices]);
        y
    }

    /// Returns x with `value`, broadcast, added to what `indices` pick.
    #[track_caller]
    pub(super) fn add_operand(self, x: Variable, indices: Variable, value: Operand) -> Variable {
        let picked = self.shape(&x.shape(), &indices.shape());
        let value = value.beside(x.dtype());
        let _whole = composite_if(value.shape() != picked, Add(self).name());
        self.add(x, indices, broadcast_to(value, picked))
    }

    #[track_caller]
    fn add(self, x: Variable, indices: Variable, value: Variable) -> Variable {
        let [y] = crate::apply(Add(self), [x, indices, value]);
        y
    }

    /// Returns zeros like x with `value` added: the adjoint of [`Picking::pick`].
    #[track_caller]
    fn put(self, x: &Spec, indices: Variable, value: Variable) -> Variable {
        self.add(zeros(x), indices, value)
    }
}

impl fmt::Debug for Picking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.each { "elements" } else { "slices" };
        write!(f, "{what} along axis {}", self.axis)
    }
}

/// Returns zeros of the shape and dtype of an input.
pub(super) fn zeros(spec: &Spec) -> Variable {
    Variable::constant(Array::zeros(&spec.shape, spec.dtype))
}

/// Returns the positions that indices name along an axis of `size`, if they can be read without waiting
/// for a device.
fn known_positions(indices: &Variable, size: usize) -> Option<impl Iterator<Item = usize>> {
    let indices = indices.plain_array();
    let indices = indices.filter(|indices| indices.device() == cpu())?;
    let position = move |index: i64| index.rem_euclid(size as i64) as usize;
    Some(indices.to_vec::<i64>().into_iter().map(position))
}

#[derive(Clone, Debug)]
struct Pick(Picking);

impl Function for Pick {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        if self.0.each { "gather" } else { "take" }
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(1)
    }

    fn shape(&self, [x, indices]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        let shape = self.0.checked_shape(x, indices)?;
        Ok([Spec::new(shape, x.dtype)])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x, indices]: [Array; 2]) -> [Array; 1] {
        let axis = self.0.axis as isize;
        [match self.0.each {
            true => x.gather(&indices, axis),
            false => x.take(&indices, axis),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        [Some(self.0.put(cx.input_spec(0), cx.input(1), gy)), None]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, _]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [dx.map(|dx| self.0.pick(dx, cx.input(1)))]
    }

    fn batch(&self, [x, indices]: [Batched; 2]) -> [Batched; 1] {
        let Picking { each, axis: own } = self.0;
        match (x.axis, indices.axis) {
            _ if each => Batched::in_front(Self(self.0.in_batch()), [x, indices]),
            // The batch axis of the indices is one more axis of what is picked.
            (None, Some(batch)) => {
                let indices = batch_in_front(indices.value, batch);
                [Batched::along(self.0.pick(x.value, indices), own)]
            }
            (Some(batch), None) => {
                let x = batch_in_front(x.value, batch);
                let y = self.0.in_batch().pick(x, indices.value);
                [Batched::along(y, 0)]
            }
            (Some(x_batch), Some(batch)) => {
                let x = batch_in_front(x.value, x_batch);
                let indices = batch_in_front(indices.value, batch);
                let own_rank = indices.rank() - 1;
                let rows = rows_of_batch(indices, &x, own + 1);
                // [batch, i.., a.., b..]: the axes a.. go back in front of i...
                let mut y = take(fold_batch(x, own), rows, 0);
                for before in 0..own {
                    y = moveaxis(y, (1 + own_rank + before) as isize, 1 + before as isize);
                }
                [Batched::along(y, 0)]
            }
            (None, None) => unreachable!("a batch rule is asked only where there is a batch"),
        }
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        let Picking { each, axis: own } = self.0;
        let (x, axis) = (cx.input_spec(0).clone(), gy.examples.axis());
        if each && axis == own {
            return [Some(ExampleGradient::Unknown), None];
        }
        let rank = if each { 1 } else { cx.input_shape(1).rank() };
        let indices = cx.input(1);
        let inside = axis >= own && axis < own + rank;
        let examples = match (inside, rank) {
            (false, _) if axis < own => Some(gy.examples.clone()),
            (false, _) => Some(gy.examples.moved(axis + 1 - rank)),
            (true, 1) => known_positions(&indices, x.shape[own])
                .and_then(|positions| gy.examples.spread(own, x.shape[own], positions)),
            (true, _) => None,
        };
        if let Some(examples) = examples {
            let [gx, _] = self.vjp(cx, [gy.cotangent]);
            return [gx.map(|gx| ExampleGradient::sliced(gx, examples)), None];
        }
        if own != 0 {
            return [Some(ExampleGradient::Unknown), None];
        }
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        // The indices that each example picks, `[examples, l]`, and the rows of the cotangent there.
        let indices = examples.of_each(&indices);
        let count = examples.count();
        let most = indices.shape()[1..].iter().product();
        let rows = examples.of_each(&cotangent);
        let rows = reshape(rows, x.shape.replaced(0, most).inserted(0, count));
        let indices = reshape(indices, [count, most]);
        let picking = self.0;
        // The rows may be wider than x.
        let sum = move |indices: &Variable, rows: &Variable| {
            let x = Spec::new(&x.shape, rows.dtype());
            picking.put(&x, indices.clone(), rows.clone())
        };
        let product = OuterProduct::new(ProductForm::Picked, indices, rows, sum);
        [Some(ExampleGradient::OuterProduct(product)), None]
    }
}

#[derive(Clone, Debug)]
struct Add(Picking);

impl Function for Add {
    type Inputs = Fixed<3>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        if self.0.each { "scatter_add" } else { "add_at" }
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        Saved::NOTHING.input(1).only_if(needs[2])
    }

    fn shape(&self, [x, indices, value]: [&Spec; 3]) -> Result<[Spec; 1], Mismatch> {
        let shape = self.0.checked_shape(x, indices)?;
        if value.dtype != x.dtype || value.shape != shape {
            let must_hold = format!("value must be {shape} {}", x.dtype);
            return Err(Mismatch::new(&[("x", x), ("value", value)], must_hold));
        }
        Ok([x.clone()])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x, indices, value]: [Array; 3]) -> [Array; 1] {
        let axis = self.0.axis as isize;
        [match self.0.each {
            true => x.scatter_add(&indices, axis, &value),
            false => x.add_at(&indices, axis, &value),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 3] {
        let of_value = cx.needs(2).then(|| self.0.pick(gy.clone(), cx.input(1)));
        [cx.needs(0).then_some(gy), None, of_value]
    }

    fn jvp(
        &self,
        cx: &Context<'_>,
        [dx, _, dvalue]: [Option<Variable>; 3],
    ) -> [Option<Variable>; 1] {
        let dx = dx.unwrap_or_else(|| zeros(cx.input_spec(0)));
        [Some(match dvalue {
            Some(dvalue) => self.0.add(dx, cx.input(1), dvalue),
            None => dx,
        })]
    }

    fn batch(&self, inputs: [Batched; 3]) -> [Batched; 1] {
        let Picking { each, axis } = self.0;
        if each {
            return Batched::in_front(Self(self.0.in_batch()), inputs);
        }
        let count = Batched::batch_size(&inputs);
        let [x, indices, value] = inputs;
        let (x, mut value) = (x.to_front(count), value.to_front(count));
        let Some(batch) = indices.axis else {
            let y = self.0.in_batch().add(x, indices.value, value);
            return [Batched::along(y, 0)];
        };
        let indices = batch_in_front(indices.value, batch);
        let own_rank = indices.rank() - 1;
        let rows = rows_of_batch(indices, &x, axis + 1);
        let unfolded = moveaxis(&x, axis as isize + 1, 1).shape();
        // From [batch, a.., i.., b..] to [batch, i.., a.., b..], the order of what is picked from the
        // folded x.
        for _ in 0..axis {
            value = moveaxis(value, 1, (axis + own_rank) as isize);
        }
        let y = add_at(fold_batch(x, axis), rows, 0, value);
        let y = moveaxis(reshape(y, unfolded), 1, axis as isize + 1);
        [Batched::along(y, 0)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 3] {
        let Picking { each, axis: own } = self.0;
        let (examples, rank) = (gy.examples, cx.input_shape(1).rank());
        let axis = examples.axis();
        let of_value = match axis.cmp(&own) {
            Ordering::Equal if each || rank != 1 || !cx.needs(2) => None,
            Ordering::Equal => known_positions(&cx.input(1), cx.input_shape(0)[own])
                .map(|positions| examples.picked(own, positions)),
            Ordering::Greater if !each => Some(examples.moved(axis + rank - 1)),
            _ => Some(examples.clone()),
        };
        let [gx, _, of_needed] = self.vjp(cx, [gy.cotangent]);
        let value = match of_value {
            Some(examples) => of_needed.map(|value| ExampleGradient::sliced(value, examples)),
            None => Some(ExampleGradient::Unknown),
        };
        [
            gx.map(|gx| ExampleGradient::sliced(gx, examples)),
            None,
            value,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::functions::{gather, scatter_add, select_item};
    use crate::{attempt, gradients};
    use bibun_array::Generator;

    /// Compares `f` and its gradients under `vmap` with a loop over batch elements, for every choice of
    /// mapped inputs and with the batch axis first or last. `inputs` have it in front.
    fn check_batch(f: &dyn Fn(&[Variable]) -> Variable, inputs: &[Array]) {
        let with_gradients = |x: &[Variable]| {
            let x: Vec<Variable> = x.iter().map(crate::functions::watch).collect();
            let y = f(&x);
            let weights = Array::arange(1, y.size() as i64 + 1).cast(DType::F64);
            let loss = (&y * &Variable::constant(weights.reshape(y.shape()))).sum(..);
            let floats: Vec<&Variable> = x.iter().filter(|x| x.dtype().is_float()).collect();
            let gradients = gradients(&[&loss], &floats).into_iter();
            let gradients = gradients.map(|g| g.expect("every input is used"));
            [y].into_iter().chain(gradients).collect::<Vec<_>>()
        };
        let count = inputs[0].shape()[0];
        for choice in 1..1usize << inputs.len() {
            for behind in [false, true] {
                let mapped = |i: usize| choice >> i & 1 == 1;
                let element = |i: usize, l: usize| {
                    let first = Array::from(if mapped(i) { l as i64 } else { 0 });
                    Variable::constant(inputs[i].take(&first, 0))
                };
                let whole: Vec<Variable> = (0..inputs.len())
                    .map(|i| match (mapped(i), behind) {
                        (false, _) => element(i, 0),
                        (true, false) => Variable::constant(inputs[i].clone()),
                        (true, true) => Variable::constant(inputs[i].moveaxis(0, -1)),
                    })
                    .collect();
                let axis = if behind { -1 } else { 0 };
                let axes: Vec<Option<isize>> = (0..inputs.len())
                    .map(|i| mapped(i).then_some(axis))
                    .collect();
                let together = vmap(with_gradients, &whole, &axes);
                for l in 0..count {
                    let single: Vec<Variable> = (0..inputs.len()).map(|i| element(i, l)).collect();
                    let alone = with_gradients(&single);
                    for (all, one) in together.iter().zip(alone) {
                        let all = all.array().take(&Array::from(l as i64), 0);
                        assert_eq!(all.shape(), &*one.shape());
                        for (a, b) in all.to_vec::<f64>().iter().zip(one.to_vec::<f64>()) {
                            assert!((a - b).abs() < 1e-12, "{a} {b}, mapped {axes:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn indices_may_differ_between_batch_elements() {
        let mut generator = Generator::new(1);
        let mut draw = |shape: &[usize]| generator.uniform(shape, -1.0, 1.0, DType::F64);
        let mut indices = Generator::new(2);
        for count in [1, 3] {
            for axis in 0..3isize {
                let x = draw(&[count, 2, 3, 4]);
                let size = x.shape()[axis as usize + 1] as i64;
                let picks = indices.integers(-size, size, [count, 5, 1]);
                check_batch(&|x| take(&x[0], &x[1], axis), &[x.clone(), picks.clone()]);
                let value = x.slice(bibun_array::s![..1]);
                let one = value.take(&Array::zeros([5, 1], DType::I64), axis + 1);
                let value = one.broadcast_to(one.shape().replaced(0, count)) * 2.0;
                check_batch(
                    &|x| add_at(&x[0], &x[1], axis, &x[2]),
                    &[x.clone(), picks, value],
                );
                let single = indices.integers(-size, size, [count]);
                check_batch(&|x| take(&x[0], &x[1], axis), &[x.clone(), single]);
                let shape = x.shape().replaced(axis as usize + 1, 2);
                let picks = indices.integers(-size, size, &shape);
                check_batch(&|x| gather(&x[0], &x[1], axis), &[x.clone(), picks.clone()]);
                let value = draw(&shape);
                check_batch(
                    &|x| scatter_add(&x[0], &x[1], axis, &x[2]),
                    &[x, picks, value],
                );
            }
            let x = draw(&[count, 4, 3]);
            let t = indices.integers(-3, 3, [count, 4]);
            check_batch(&|x| select_item(&x[0], &x[1]), &[x, t]);
        }
    }

    #[test]
    fn indices_may_differ_in_nested_batches() {
        let x = Generator::new(3).uniform([2, 3, 4], -1.0, 1.0, DType::F64);
        let picks = Generator::new(4).integers(-4, 4, [3, 2, 5]);
        let y = vmap(
            |v| vmap(|v| vec![take(&v[0], &v[1], 0)], v, &[Some(0), Some(0)]),
            &[Variable::new(x.clone()), Variable::constant(picks.clone())],
            &[Some(0), Some(1)],
        );
        let expected = x.gather(&picks.swapaxes(0, 1), 2);
        assert_eq!(y[0].to_vec::<f64>(), expected.to_vec::<f64>());
    }

    #[test]
    fn no_batch_at_all() {
        let x = Variable::new(Array::zeros([0, 3], DType::F64));
        let t = Variable::constant(Array::zeros([0, 2], DType::I64));
        let axes = [Some(0), Some(0)];
        let y = vmap(
            |v| vec![take(&v[0], &v[1], 0)],
            &[x.clone(), t.clone()],
            &axes,
        );
        assert_eq!(y[0].shape(), [0, 2]);
        let y = vmap(|v| vec![add_at(&v[0], &v[1], 0, 1.0)], &[x, t], &axes);
        assert_eq!(y[0].shape(), [0, 3]);
    }

    #[test]
    fn an_index_does_not_reach_the_next_batch_element() {
        let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
        let t = Variable::constant([[2i64], [0]]);
        let pick = |v: &[Variable]| vec![take(&v[0], &v[1], 0)];
        let error = attempt(|| vmap(pick, &[x, t], &[Some(0), Some(0)])).unwrap_err();
        assert!(error.to_string().contains("index 2 is outside"), "{error}");
    }

    #[test]
    fn integers_and_bools_are_picked() {
        let flags = Variable::constant([true, false]);
        assert_eq!(flags.take([1i64, 0], 0).to_vec::<bool>(), [false, true]);
        assert_eq!(flags.add_at([1i64], 0, true).to_vec::<bool>(), [true, true]);
        let counts = Variable::constant([1i64, 2]);
        assert_eq!(counts.add_at([1i64, 1], 0, 3).to_vec::<i64>(), [1, 8]);
        assert_eq!(counts.scatter_add([0i64], 0, 3).to_vec::<i64>(), [4, 2]);
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = |f: &dyn Fn() -> Variable| attempt(f).unwrap_err().to_string();
        let error = message(&|| take(&x, [0.0], 0));
        assert!(error.contains("indices must be integers"), "{error}");
        let error = message(&|| gather(&x, [[0i64], [0]], 1));
        assert!(error.contains("all sizes but those of axis 1"), "{error}");
        let error = message(&|| add_at(&x, [0i64], 0, Array::from([1i64, 2])));
        assert!(error.contains("value must be [1, 2] f64"), "{error}");
        let error = message(&|| take(&x, [2i64], 1));
        assert!(error.contains("index 2 is outside of axis 1"), "{error}");
    }
}
