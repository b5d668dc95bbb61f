//! The checks, which must hold for every function.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Index, Shape, stack};

use super::{Sample, Verdict};
use crate::attempt;
use crate::batch::vmap;
use crate::check::{
    Argument, check_examples, disagreement, flat, floats, normal_like, pull, push, transposed,
};
use crate::compile;
use crate::node::Edge;
use crate::scope::no_grad;
use crate::variable::Variable;

/// The largest difference of derivatives from finite differences, relative to them.
const TOLERANCE: f64 = 1e-7;
/// The largest difference between two ways of computing the same value.
const ROUNDING: f64 = 1e-12;

// ----- the subject of a check: a map at a point

type Call = Rc<dyn Fn(&[Variable]) -> Vec<Variable>>;

/// A function of float inputs, and the point at which it is checked.
#[derive(Clone)]
struct Map {
    call: Call,
    point: Vec<Array>,
}

impl Map {
    /// Returns a sample's call at a random point.
    fn of(sample: &Sample, generator: &mut Generator) -> Self {
        let call = Arc::clone(&sample.call);
        Self {
            call: Rc::new(move |x| call(x)),
            point: sample.draw(generator),
        }
    }

    /// Returns the map to the outputs that have derivatives.
    fn differentiable(self) -> Self {
        let call = self.call;
        Self {
            call: Rc::new(move |x| floats(call(x))),
            ..self
        }
    }

    fn at(&self, x: &[Variable]) -> Vec<Variable> {
        (self.call)(x)
    }

    fn inputs(&self) -> Vec<Variable> {
        self.point.iter().map(constant).collect()
    }

    /// Returns the function of only some inputs, with the others fixed.
    fn of_subset(&self, chosen: &[usize]) -> Self {
        let (call, fixed, chosen) = (Rc::clone(&self.call), self.inputs(), chosen.to_vec());
        let point = chosen.iter().map(|&i| self.point[i].clone()).collect();
        let call = move |x: &[Variable]| {
            let mut all = fixed.clone();
            for (&i, x) in chosen.iter().zip(x) {
                all[i] = x.clone();
            }
            call(&all)
        };
        Self {
            call: Rc::new(call),
            point,
        }
    }

    /// Returns the map from inputs and cotangents to the gradients.
    fn reversed(&self, generator: &mut Generator) -> Self {
        let call = Rc::clone(&self.call);
        let cotangents = normal_like(&self.at(&self.inputs()), generator);
        let count = self.point.len();
        Self {
            call: Rc::new(move |x| pull(&*call, &x[..count], &x[count..], true)),
            point: with(&self.point, &cotangents),
        }
    }

    /// Returns the map from inputs and tangents to the outputs' tangents.
    fn pushed(&self, generator: &mut Generator) -> Self {
        let call = Rc::clone(&self.call);
        let tangents = normal_like(&self.inputs(), generator);
        let count = self.point.len();
        Self {
            call: Rc::new(move |x| push(&*call, &x[..count], &x[count..])),
            point: with(&self.point, &tangents),
        }
    }
}

fn with(point: &[Array], more: &[Variable]) -> Vec<Array> {
    let more = more.iter().map(Variable::array);
    point.iter().cloned().chain(more).collect()
}

fn constant(x: &Array) -> Variable {
    Variable::constant(x.clone())
}

/// Returns the generator for a sample, which is the same in every run.
pub(super) fn generator(sample: &Sample) -> Generator {
    let name = sample.name.bytes();
    Generator::new(name.fold(1, |hash, byte| hash * 31 % 1_000_003 + u64::from(byte)))
}

/// Returns the non-empty subsets of `count` inputs; of many inputs, only one alone, all but one,
/// and all.
fn subsets(count: usize) -> Vec<Vec<usize>> {
    if count <= 4 {
        return (1..1u32 << count)
            .map(|bits| (0..count).filter(|i| bits >> i & 1 == 1).collect())
            .collect();
    }
    let alone = (0..count).map(|i| vec![i]);
    let others = (0..count).map(|i| (0..count).filter(|&j| j != i).collect());
    alone.chain(others).chain([(0..count).collect()]).collect()
}

// ----- comparisons

/// Checks that two arrays are the same: shape, dtype, and elements up to a fraction of the largest.
fn same(what: &str, found: &Array, expected: &Array, tolerance: f64) -> Verdict {
    if found.shape() != expected.shape() || found.dtype() != expected.dtype() {
        return Err(format!(
            "{what}: found {} {}, expected {} {}",
            found.shape(),
            found.dtype(),
            expected.shape(),
            expected.dtype()
        ));
    }
    let [a, b] = [found, expected].map(|x| x.cast(DType::F64).to_vec::<f64>());
    let finite = b.iter().filter(|x| x.is_finite());
    let size = finite.fold(1.0f64, |size, x| size.max(x.abs()));
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let equal = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * size;
        if !equal {
            return Err(format!("{what}: element {i} is {a:e}, expected {b:e}"));
        }
    }
    Ok(())
}

/// Checks two lists with [`same`].
fn all_same(what: &str, found: &[Array], expected: &[Array], tolerance: f64) -> Verdict {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!("{what}: {found} results, expected {expected}"));
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        same(&format!("{what} {i}"), found, expected, tolerance)?;
    }
    Ok(())
}

fn arrays(x: &[Variable]) -> Vec<Array> {
    x.iter().map(Variable::array).collect()
}

/// Returns the bits of all elements.
fn bits(x: &[Array]) -> Vec<Vec<u64>> {
    let elements = |x: &Array| x.cast(DType::F64).to_vec::<f64>();
    x.iter()
        .map(|x| elements(x).into_iter().map(f64::to_bits).collect())
        .collect()
}

// ----- values

/// Checks that the value is that of the reference, the shape rule returns the actual shape, and
/// inputs are not changed.
pub(super) fn values(sample: &Sample) -> Verdict {
    let mut generator = generator(sample);
    for _ in 0..3 {
        let map = Map::of(sample, &mut generator);
        let before = bits(&map.point);
        let leaves: Vec<Variable> = map.point.iter().cloned().map(Variable::new).collect();
        for x in [map.inputs(), leaves] {
            let y = map.at(&x);
            let reference = (sample.reference)(&map.point);
            all_same("value", &arrays(&y), &reference, ROUNDING)?;
            for y in &y {
                if let Edge::Output(node, at) = y.edge()
                    && node.output_specs()[at as usize] != y.spec()
                {
                    let (name, expected) =
                        (node.function().name(), &node.output_specs()[at as usize]);
                    return Err(format!(
                        "{name} made {}, expected {expected} by its shape rule",
                        y.spec()
                    ));
                }
            }
            if x.iter().all(Variable::is_leaf) {
                let map = map.clone().differentiable();
                let w = normal_like(&map.at(&x), &mut generator);
                pull(&*map.call, &x, &w, true);
                pull(&*map.call, &x, &w, false);
                push(&*map.call, &x, &normal_like(&x, &mut generator));
            }
            if bits(&arrays(&x)) != before {
                return Err("an input was changed".into());
            }
        }
    }
    Ok(())
}

// ----- derivatives

/// Checks that the forward derivative along a random direction agrees with finite differences,
/// recorded and not recorded.
fn differences(map: &Map, generator: &mut Generator) -> Verdict {
    let x = map.inputs();
    let v = normal_like(&x, generator);
    let recorded = push(&*map.call, &x, &v);
    let unrecorded = no_grad(|| push(&*map.call, &x, &v));
    let curve = |t: f64| {
        let moved = x.iter().zip(&v).map(|(x, v)| x.array() + v.array() * t);
        no_grad(|| map.at(&moved.map(Variable::constant).collect::<Vec<_>>()))
    };
    for (how, tangents) in [("recorded", recorded), ("unrecorded", unrecorded)] {
        let tangents = flat(&tangents);
        if let Some((position, expected)) = disagreement(&tangents, &curve, 0.0, TOLERANCE) {
            let found = tangents[position];
            return Err(format!(
                "jvp ({how}) against finite differences: element {position} is {found:e}, expected \
                 {expected:e}"
            ));
        }
    }
    Ok(())
}

/// Checks that the reverse derivative is the transpose of the forward one, recorded and not
/// recorded.
fn transposes(map: &Map, generator: &mut Generator) -> Verdict {
    let x = map.inputs();
    let v = normal_like(&x, generator);
    let tangents = push(&*map.call, &x, &v);
    let w = normal_like(&tangents, generator);
    for recorded in [true, false] {
        let gradients = pull(&*map.call, &x, &w, recorded);
        if let Err((forward, reverse)) = transposed(&tangents, &w, &gradients, &v) {
            return Err(format!(
                "dot product (recorded: {recorded}): <w, jvp(v)> = {forward:e}, \
                 <vjp(w), v> = {reverse:e}"
            ));
        }
    }
    Ok(())
}

fn both(map: &Map, generator: &mut Generator) -> Verdict {
    differences(map, generator)?;
    transposes(map, generator)
}

/// Checks the sample's derivatives, if it has any of this order.
fn differentiated(
    sample: &Sample,
    order: usize,
    check: impl Fn(&Map, &mut Generator) -> Verdict,
) -> Verdict {
    if sample.order < order {
        return Ok(());
    }
    let mut generator = generator(sample);
    let map = Map::of(sample, &mut generator).differentiable();
    check(&map, &mut generator)
}

/// Checks that forward derivatives agree with finite differences.
pub(super) fn finite_differences(sample: &Sample) -> Verdict {
    differentiated(sample, 1, differences)
}

/// Checks that reverse derivatives are the transposes of the forward ones.
pub(super) fn dot_products(sample: &Sample) -> Verdict {
    differentiated(sample, 1, transposes)
}

/// Checks that both hold if only some of the inputs have derivatives.
pub(super) fn subsets_of_inputs(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        for chosen in subsets(map.point.len()) {
            both(&map.of_subset(&chosen), generator)
                .map_err(|wrong| format!("derivatives of inputs {chosen:?} only: {wrong}"))?;
        }
        Ok(())
    })
}

/// Checks that both hold if one Variable is passed for two inputs.
pub(super) fn the_same_input_twice(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        let count = sample.inputs.len();
        for (i, j) in (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))) {
            let ((shape, a), (other, b)) = (&sample.inputs[i], &sample.inputs[j]);
            let Some(draw) = a.common(b).filter(|_| shape == other) else {
                continue;
            };
            let call = Rc::clone(&map.call);
            let rest = map.inputs();
            let tied = Map {
                call: Rc::new(move |x| {
                    let mut all = rest.clone();
                    all[i] = x[0].clone();
                    all[j] = x[0].clone();
                    call(&all)
                }),
                point: vec![draw.array(shape, generator)],
            };
            both(&tied, generator).map_err(|wrong| format!("inputs {i} and {j} tied: {wrong}"))?;
        }
        Ok(())
    })
}

/// Checks that both hold for the map from inputs and cotangents to gradients.
pub(super) fn second_order(sample: &Sample) -> Verdict {
    differentiated(sample, 2, |map, generator| {
        let gradients = map.reversed(generator);
        for chosen in subsets(gradients.point.len()) {
            both(&gradients.of_subset(&chosen), generator)
                .map_err(|wrong| format!("gradients as functions of {chosen:?}: {wrong}"))?;
        }
        Ok(())
    })
}

/// Checks that both hold for the gradients of gradients.
pub(super) fn third_order(sample: &Sample) -> Verdict {
    differentiated(sample, 3, |map, generator| {
        let second = map.reversed(generator).reversed(generator);
        both(&second, generator)?;
        for i in 0..map.point.len() {
            both(&second.of_subset(&[i]), generator)
                .map_err(|wrong| format!("as a function of input {i}: {wrong}"))?;
        }
        Ok(())
    })
}

/// Checks that the derivative of the gradient along a direction is the gradient of the derivative
/// along it.
pub(super) fn forward_over_reverse(sample: &Sample) -> Verdict {
    differentiated(sample, 2, |map, generator| {
        let x = map.inputs();
        let v = normal_like(&x, generator);
        let w = normal_like(&map.at(&x), generator);
        let gradient = |x: &[Variable]| pull(&*map.call, x, &w, true);
        let tangent = |x: &[Variable]| push(&*map.call, x, &v);
        let forward = push(&gradient, &x, &v);
        let reverse = pull(&tangent, &x, &w, false);
        all_same(
            "forward over reverse against reverse over forward, input",
            &arrays(&forward),
            &arrays(&reverse),
            1e-11,
        )
    })
}

// ----- batches

/// Returns every choice of a batch axis for every input; of too many choices, at most `most`,
/// spread evenly.
fn choices_of_axes(point: &[Array], most: usize) -> Vec<Vec<Option<usize>>> {
    let mut choices: Vec<Vec<Option<usize>>> = vec![Vec::new()];
    for x in point {
        let axes = (0..=x.rank()).map(Some).chain([None]);
        let longer = axes.flat_map(|axis| {
            choices.iter().map(move |choice| {
                let mut choice = choice.clone();
                choice.push(axis);
                choice
            })
        });
        choices = longer.collect();
    }
    choices.retain(|choice| choice.iter().any(Option::is_some));
    let step = choices.len().div_ceil(most);
    choices.into_iter().step_by(step.max(1)).collect()
}

/// The elements of batches, of which one [`Batch`] after the other is made: what a loop over them
/// returns depends on which inputs they share, not on the batch axes, and is computed once.
struct Elements {
    elements: [Vec<Array>; 3],
    /// The inputs that all share that share them.
    shared: Vec<Array>,
    /// The results of the loop, by which inputs are shared.
    looped: HashMap<Vec<bool>, Vec<Vec<Array>>>,
}

impl Elements {
    fn new(mut point: impl FnMut() -> Vec<Array>) -> Self {
        Self {
            elements: [point(), point(), point()],
            shared: point(),
            looped: HashMap::new(),
        }
    }

    /// Returns the batches to try, with at most `most` choices of axes. A batch of no element and one of
    /// one are tried with every fourth choice.
    fn batches(&self, most: usize) -> Vec<Batch> {
        let choices = choices_of_axes(&self.shared, most).into_iter().enumerate();
        let batches = choices.flat_map(|(i, axes)| {
            let counts: &[usize] = if i % 4 == 0 { &[0, 1, 3] } else { &[3] };
            counts.iter().map(move |&count| (count, axes.clone()))
        });
        batches
            .map(|(count, axes)| self.batch(count, axes))
            .collect()
    }

    fn batch(&self, count: usize, axes: Vec<Option<usize>>) -> Batch {
        let inputs = axes.iter().zip(&self.shared).enumerate();
        let inputs = inputs.map(|(i, (axis, shared))| {
            Variable::constant(match *axis {
                None => shared.clone(),
                Some(axis) if count == 0 => {
                    Array::zeros(shared.shape().inserted(axis, 0), shared.dtype())
                }
                Some(axis) => {
                    let elements = self.elements[..count].iter();
                    stack(
                        &elements.map(|element| &element[i]).collect::<Vec<_>>(),
                        axis as isize,
                    )
                }
            })
        });
        Batch {
            inputs: inputs.collect(),
            count,
            axes,
        }
    }

    /// Returns, for each output of `f`, which is given the number of an element and its inputs, the results
    /// of all elements of a batch.
    fn looped(
        &mut self,
        batch: &Batch,
        f: impl Fn(usize, &[Variable]) -> Vec<Variable>,
    ) -> Vec<Vec<Array>> {
        let shared: Vec<bool> = batch.axes.iter().map(Option::is_none).collect();
        let results = self.looped.entry(shared).or_insert_with_key(|shared| {
            let of_element = |(k, element): (usize, &Vec<Array>)| {
                let inputs = element.iter().zip(&self.shared).zip(shared);
                let inputs = inputs.map(|((own, shared), &is_shared)| {
                    constant(if is_shared { shared } else { own })
                });
                arrays(&f(k, &inputs.collect::<Vec<_>>()))
            };
            self.elements.iter().enumerate().map(of_element).collect()
        });
        let outputs = 0..results[0].len();
        outputs
            .map(|i| results.iter().map(|element| element[i].clone()).collect())
            .collect()
    }
}

/// Inputs with batch axes.
struct Batch {
    count: usize,
    axes: Vec<Option<usize>>,
    inputs: Vec<Variable>,
}

impl Batch {
    /// Returns the batch axes as `vmap` takes them.
    fn signed_axes(&self) -> Vec<Option<isize>> {
        let axes = self.axes.iter();
        axes.map(|axis| axis.map(|axis| axis as isize)).collect()
    }

    /// Returns the results of this many elements in one array.
    fn stacked(&self, results: &[Array], axis: usize) -> Array {
        match self.count {
            0 => Array::zeros(results[0].shape().inserted(axis, 0), results[0].dtype()),
            count => stack(&results[..count].iter().collect::<Vec<_>>(), axis as isize),
        }
    }

    fn describe(&self) -> String {
        format!("{} batch along {:?}", self.count, self.axes)
    }
}

/// Checks that `vmap` over batches agrees with a loop over their elements.
fn like_a_loop(map: &Map, most: usize, point: impl FnMut() -> Vec<Array>) -> Verdict {
    let mut elements = Elements::new(point);
    for batch in elements.batches(most) {
        let found = vmap(|x| map.at(x), &batch.inputs, &batch.signed_axes());
        let looped = elements.looped(&batch, |_, element| map.at(element));
        let expected: Vec<Array> = looped.iter().map(|y| batch.stacked(y, 0)).collect();
        all_same(
            &format!("vmap against a loop, {}, output", batch.describe()),
            &arrays(&found),
            &expected,
            ROUNDING,
        )?;
    }
    Ok(())
}

/// Checks that `vmap` agrees with a loop, whatever the axes are.
pub(super) fn batch(sample: &Sample) -> Verdict {
    let mut generator = generator(sample);
    let map = Map::of(sample, &mut generator);
    like_a_loop(&map, 400, || sample.draw(&mut generator))
}

/// Checks that `vmap` of gradients and of tangents agrees with a loop over them.
pub(super) fn vmap_of_derivatives(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        let maps = [
            ("gradients", map.reversed(generator)),
            ("tangents", map.pushed(generator)),
        ];
        for (what, derivative) in &maps {
            let point = || {
                let mut point = sample.draw(generator);
                let more = derivative.point[point.len()..].iter();
                point.extend(more.map(|x| generator.normal(x.shape(), 0.0, 1.0, DType::F64)));
                point
            };
            like_a_loop(derivative, 32, point).map_err(|wrong| format!("{what}: {wrong}"))?;
        }
        Ok(())
    })
}

/// Checks that the gradients of `vmap` are those of each batch element, summed for inputs that all
/// batch elements share.
pub(super) fn gradients_of_vmap(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        let outputs = map.at(&map.inputs());
        let w: Vec<Array> = (outputs.iter())
            .map(|y| generator.normal(y.shape().inserted(0, 3), 0.0, 1.0, DType::F64))
            .collect();
        let of_first = |count: usize| -> Vec<Variable> {
            let first = |w: &Array| constant(&w.slice(&[Index::from(..count), Index::Ellipsis]));
            w.iter().map(first).collect()
        };
        let mut elements = Elements::new(|| sample.draw(generator));
        for batch in elements.batches(48) {
            let axes = batch.signed_axes();
            let all = |x: &[Variable]| vmap(|x| map.at(x), x, &axes);
            let found = pull(&all, &batch.inputs, &of_first(batch.count), false);
            let looped = elements.looped(&batch, |k, element| {
                let w: Vec<Variable> = (w.iter())
                    .map(|w| constant(&w.slice(&[Index::from(k), Index::Ellipsis])))
                    .collect();
                pull(&*map.call, element, &w, false)
            });
            for (i, (found, axis)) in found.iter().zip(&batch.axes).enumerate() {
                let expected = match *axis {
                    Some(axis) => batch.stacked(&looped[i], axis),
                    None => {
                        let zeros = Array::zeros(found.shape(), DType::F64);
                        let parts = looped[i][..batch.count].iter();
                        parts.fold(zeros, |sum, part| sum + part)
                    }
                };
                let what = format!("gradient of vmap, {}, input {i}", batch.describe());
                same(&what, &found.array(), &expected, ROUNDING)?;
            }
        }
        Ok(())
    })
}

/// Checks that per-example gradients agree with a loop, whichever axis the examples are on.
pub(super) fn examples(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        for chosen in subsets(map.point.len()) {
            let map = map.of_subset(&chosen);
            let outputs = map.at(&map.inputs());
            let rank = outputs.iter().map(Variable::rank).max().unwrap_or_default();
            let arguments: Vec<Argument> = (map.point.iter().enumerate())
                .map(|(i, x)| Argument {
                    name: format!("input {}", chosen[i]),
                    value: x.clone(),
                })
                .collect();
            for axis in 0..rank as isize {
                check_examples(&*map.call, &arguments, axis, generator)
                    .map_err(|wrong| format!("examples along axis {axis}: {wrong}"))?;
            }
        }
        Ok(())
    })
}

/// Checks the same in 16-bit floats, which the walk computes wider and rounds.
pub(super) fn examples_of_halves(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        for dtype in [DType::F16, DType::BF16] {
            let inputs = map.point.iter().enumerate();
            let arguments = inputs.map(|(i, x)| Argument {
                name: format!("input {i}"),
                value: x.cast(dtype),
            });
            let arguments: Vec<Argument> = arguments.collect();
            check_examples(&*map.call, &arguments, 0, generator)
                .map_err(|wrong| format!("examples in {dtype}: {wrong}"))?;
        }
        Ok(())
    })
}

// ----- programs

/// The samples that cannot be traced: they draw random numbers, have steps whose shapes are known from
/// values alone, or move values to another device.
const NOT_TRACED: &[&str] = &[
    "alpha_dropout",
    "dropout",
    "feature_alpha_dropout",
    "feature_dropout",
    "fractional_max_pool",
    "gumbel_softmax",
    "piecewise",
    "rrelu",
    "to",
];

/// Checks that a compiled function has the bits of the function itself: its values, gradients and
/// tangents, compiled as a whole and as derivatives of a compiled function, in every layout and
/// precision.
pub(super) fn compiled(sample: &Sample) -> Verdict {
    if NOT_TRACED.contains(&sample.name) {
        return Ok(());
    }
    let mut generator = generator(sample);
    let map = Map::of(sample, &mut generator);
    let x = map.inputs();
    let v = arrays(&normal_like(&x, &mut generator));
    let call = Arc::clone(&sample.call);
    let values = compile(move |x: &Vec<Variable>| call(x));
    let call = Arc::clone(&sample.call);
    let derivatives = compile(
        move |(x, w, v): &(Vec<Variable>, Vec<Variable>, Vec<Variable>)| {
            let f = |x: &[Variable]| floats(call(x));
            (pull(&f, x, w, false), push(&f, x, v))
        },
    );
    let compiled = Map {
        call: {
            let call = Arc::clone(&sample.call);
            let compiled = compile(move |x: &Vec<Variable>| call(x));
            Rc::new(move |x| compiled.call(&x.to_vec()))
        },
        point: map.point.clone(),
    };
    let (compiled, map) = (compiled.differentiable(), map.differentiable());
    let dtypes = [DType::F64, DType::F32, DType::BF16];
    for (i, dtype) in dtypes.into_iter().enumerate() {
        let cast = |x: &[Array]| -> Vec<Array> { x.iter().map(|x| x.cast(dtype)).collect() };
        let [point, v] = [&map.point, &v].map(|list| cast(list));
        let outputs = map.at(&point.iter().map(constant).collect::<Vec<_>>());
        let w = arrays(&normal_like(&outputs, &mut generator));
        let layouts: Vec<Vec<(&str, Array)>> = point.iter().map(laid_out).collect();
        for k in 0..layouts.iter().map(Vec::len).min().unwrap_or(0) {
            let x: Vec<Variable> = layouts.iter().map(|all| constant(&all[k].1)).collect();
            let [w, v] = [&w, &v].map(|list| list.iter().map(constant).collect::<Vec<_>>());
            let what = |part: &str| format!("{part} of {dtype}, {}", layouts[0][k].0);
            same_bits(&what("values"), &values.call(&x), &(sample.call)(&x))?;
            let f = |x: &[Variable]| map.at(x);
            let (gx, dy) = derivatives.call(&(x.clone(), w.clone(), v.clone()));
            same_bits(&what("gradients"), &gx, &pull(&f, &x, &w, false))?;
            same_bits(&what("tangents"), &dy, &push(&f, &x, &v))?;
            // Once is enough for the rules of the compiled function itself.
            if i > 0 || k > 0 {
                continue;
            }
            let g = |x: &[Variable]| compiled.at(x);
            same_bits(
                "gradients through it",
                &pull(&g, &x, &w, true),
                &pull(&f, &x, &w, true),
            )?;
            same_bits("tangents through it", &push(&g, &x, &v), &push(&f, &x, &v))?;
            let stacked: Vec<Variable> = x.iter().map(|x| x.expand_dims(0)).collect();
            let axes = vec![Some(0); x.len()];
            let [batched, looped] =
                [&*compiled.call, &*map.call].map(|call| vmap(call, &stacked, &axes));
            same_bits("batch", &batched, &looped)?;
            if sample.order > 1 {
                let mut generator = generator.clone();
                let [again, eager] = [&compiled, &map].map(|map| {
                    map.reversed(&mut generator.clone())
                        .reversed(&mut generator.clone())
                });
                let _ = &mut generator;
                same_bits(
                    "second order",
                    &again.at(&again.inputs()),
                    &eager.at(&eager.inputs()),
                )?;
            }
        }
    }
    Ok(())
}

fn same_bits(what: &str, found: &[Variable], expected: &[Variable]) -> Verdict {
    let (found, expected) = (arrays(found), arrays(expected));
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        if !found.has_same_bits(expected) {
            return Err(format!(
                "{what}: result {i} is {found:?} instead of {expected:?}"
            ));
        }
    }
    match found.len() == expected.len() {
        true => Ok(()),
        false => Err(format!(
            "{what}: {} results, not {}",
            found.len(),
            expected.len()
        )),
    }
}

// ----- layouts and shapes

/// Returns the same elements in other layouts: transposed, reversed, every second one of a larger
/// array.
fn laid_out(x: &Array) -> Vec<(&'static str, Array)> {
    let mut layouts = vec![
        ("row-major", x.clone()),
        ("transposed", x.transpose().to_row_major().transpose()),
        ("backwards", x.flip(&[]).to_row_major().flip(&[])),
        ("every second", every_second(x)),
    ];
    if x.rank() > 1 {
        let swapped = x.swapaxes(0, 1).to_row_major().swapaxes(0, 1);
        layouts.push(("first axes swapped", swapped));
    }
    layouts
}

fn every_second(x: &Array) -> Array {
    let larger: Shape = x.shape().iter().map(|size| 2 * size + 1).collect();
    let odd: Vec<Index> = (0..x.rank())
        .map(|_| Index::from(1isize..).step_by(2))
        .collect();
    let mut memory = Array::full(larger, 7.0).cast(x.dtype());
    memory.assign(&odd, x);
    memory.slice(&odd)
}

/// Returns, for each axis, the first row repeated without memory.
fn repeated(x: &Array) -> Vec<Array> {
    let rows = (0..x.rank())
        .filter(|&axis| x.shape()[axis] > 0)
        .map(|axis| {
            let mut first = vec![Index::ALL; axis];
            first.push(Index::from(0..1usize));
            x.slice(&first).broadcast_to(x.shape())
        });
    rows.collect()
}

fn copied(x: &Array) -> Array {
    Array::from_vec(x.to_vec::<f64>(), x.shape())
}

/// Computes values, gradients and tangents.
fn results(map: &Map, point: &[Array], w: &[Array], v: &[Array]) -> Vec<Array> {
    let [x, w, v] = [point, w, v].map(|list| list.iter().map(constant).collect::<Vec<_>>());
    let differentiable = map.clone().differentiable();
    let mut results = arrays(&map.at(&x));
    for recorded in [true, false] {
        results.extend(arrays(&pull(&*differentiable.call, &x, &w, recorded)));
    }
    results.extend(arrays(&push(&*differentiable.call, &x, &v)));
    results.extend(arrays(&no_grad(|| push(&*differentiable.call, &x, &v))));
    results
}

/// Checks that the layout of elements in memory makes no difference.
pub(super) fn layouts(sample: &Sample) -> Verdict {
    let mut generator = generator(sample);
    let map = Map::of(sample, &mut generator);
    let x = map.inputs();
    let w = arrays(&normal_like(&floats(map.at(&x)), &mut generator));
    let v = arrays(&normal_like(&x, &mut generator));
    let expected = results(&map, &map.point, &w, &v);
    let lists: [&[Array]; 3] = [&map.point, &w, &v];
    for (place, list) in lists.iter().enumerate() {
        for i in 0..list.len() {
            for (layout, other) in laid_out(&list[i]) {
                let mut lists = lists.map(<[Array]>::to_vec);
                lists[place][i] = other;
                let found = results(&map, &lists[0], &lists[1], &lists[2]);
                let list = ["input", "cotangent", "tangent"][place];
                all_same(
                    &format!("{list} {i} {layout}: result"),
                    &found,
                    &expected,
                    ROUNDING,
                )?;
            }
            for other in repeated(&list[i]) {
                let [mut plain, mut strided] = [(); 2].map(|()| lists.map(<[Array]>::to_vec));
                plain[place][i] = copied(&other);
                strided[place][i] = other;
                // Equal rows may be outside the function's domain, which may be the regular
                // matrices, for instance.
                let expected = attempt(|| results(&map, &plain[0], &plain[1], &plain[2]));
                let Ok(expected) = expected else { continue };
                let found = results(&map, &strided[0], &strided[1], &strided[2]);
                let list = ["input", "cotangent", "tangent"][place];
                all_same(
                    &format!("{list} {i} repeated: result"),
                    &found,
                    &expected,
                    ROUNDING,
                )?;
            }
        }
    }
    let shapes = |list: &[Array]| list.iter().map(laid_out).collect::<Vec<_>>();
    let all: Vec<Vec<(&str, Array)>> = shapes(&map.point);
    for k in 0..all.iter().map(Vec::len).min().unwrap_or(0) {
        let point: Vec<Array> = all.iter().map(|layouts| layouts[k].1.clone()).collect();
        let found = results(&map, &point, &w, &v);
        let what = format!("all inputs {}: result", all[0][k].0);
        all_same(&what, &found, &expected, ROUNDING)?;
    }
    Ok(())
}

/// Checks that elementwise functions work for all ranks and sizes, including empty and large ones.
pub(super) fn shapes(sample: &Sample) -> Verdict {
    if !sample.elementwise {
        return Ok(());
    }
    let mut generator = generator(sample);
    let all: [&[usize]; 6] = [&[], &[1], &[0, 3], &[2, 3], &[3, 1, 2, 5], &[3, 2801]];
    for shape in all {
        let mut sample = sample.clone();
        sample
            .inputs
            .iter_mut()
            .for_each(|input| input.0 = shape.into());
        let map = Map::of(&sample, &mut generator);
        let found = arrays(&map.at(&map.inputs()));
        let what = format!("of {shape:?}: ");
        all_same(
            &format!("{what}value"),
            &found,
            &(sample.reference)(&map.point),
            ROUNDING,
        )?;
        if sample.order > 0 {
            both(&map.differentiable(), &mut generator).map_err(|wrong| what + &wrong)?;
        }
    }
    Ok(())
}

// ----- special values

/// Values at which formulas break.
const SPECIAL: [f64; 19] = [
    0.0,
    -0.0,
    5e-324,
    -1e-310,
    1e-40,
    -1e-40,
    1.0,
    -1.0,
    0.5,
    50.0,
    -50.0,
    1e4,
    -1e4,
    1e18,
    -1e18,
    1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Returns all special values, or all combinations of them.
fn special_inputs(values: &[f64], inputs: usize) -> Vec<Array> {
    let total = values.len().pow(inputs as u32);
    let input = |i: usize| {
        let period = values.len().pow(i as u32);
        let elements = (0..total).map(|k| values[k / period % values.len()]);
        Array::from_vec(elements.collect(), total)
    };
    (0..inputs).map(input).collect()
}

/// Checks that nothing panics at special points, and where the function is finite around a point,
/// its derivative there is not NaN.
pub(super) fn special_points(sample: &Sample) -> Verdict {
    if !sample.elementwise {
        return Ok(());
    }
    let mut generator = generator(sample);
    let count = sample.inputs.len();
    let call = Arc::clone(&sample.call);
    let map = Map {
        call: Rc::new(move |x| call(x)),
        point: special_inputs(&SPECIAL, count),
    };
    let x = map.inputs();
    let y = map.at(&x)[0].array().cast(DType::F64).to_vec::<f64>();
    if sample.order == 0 {
        return Ok(());
    }
    let map = map.differentiable();
    let gradients = map.reversed(&mut generator);
    gradients.at(&gradients.inputs());
    let w: Vec<Variable> = (map.at(&x).iter())
        .map(|y| Variable::constant(Array::ones(y.shape(), y.dtype())))
        .collect();
    let pulled = [true, false].map(|recorded| pull(&*map.call, &x, &w, recorded));
    for i in 0..count {
        let moved = |by: f64| {
            let mut x = x.clone();
            let elements = map.point[i].to_vec::<f64>().into_iter();
            let elements = elements.map(|x| x + by * x.abs().max(1.0)).collect();
            x[i] = Variable::constant(Array::from_vec(elements, map.point[i].shape()));
            flat(&map.at(&x))
        };
        // The step is not round, because a power is finite at all integer exponents.
        let (ahead, behind) = (moved(1.234_567e-3), moved(-1.234_567e-3));
        for gradients in &pulled {
            for (k, gradient) in gradients[i].to_vec::<f64>().into_iter().enumerate() {
                let at: Vec<f64> = map.point.iter().map(|x| x.to_vec::<f64>()[k]).collect();
                // If one argument is infinite, the derivative by another may have no limit; where
                // all floats are integers, a power may be finite next to points where it is not.
                let settled = count == 1 || at.iter().all(|x| x.abs() < 1e15);
                let finite = [y[k], ahead[k], behind[k]].iter().all(|y| y.is_finite());
                if settled && finite && gradient.is_nan() {
                    let y = y[k];
                    return Err(format!("at {at:?} the value is {y}, gradient {i} is NaN"));
                }
            }
        }
    }
    Ok(())
}

/// Checks that every float type agrees with a wider one up to its precision, also at special
/// points.
pub(super) fn precisions(sample: &Sample) -> Verdict {
    precision(sample, DType::F32, DType::F64)?;
    precision(sample, DType::BF16, DType::F32)?;
    precision(sample, DType::F16, DType::F32)
}

/// Returns the largest rounding error of a result, relative to the largest element of its array and
/// relative to itself; and the smallest and the largest number that are far from the ends of the
/// range.
fn format(dtype: DType) -> ([f64; 2], [f64; 2]) {
    match dtype {
        DType::F16 => ([2f64.powi(-9); 2], [1e-4, 3e4]),
        DType::BF16 => ([2f64.powi(-6); 2], [1e-37, 1e30]),
        DType::F32 => ([2e-5, 1e-3], [1e-37, 1e30]),
        DType::Bool
        | DType::U8
        | DType::I32
        | DType::I64
        | DType::F64
        | DType::C64
        | DType::C128 => {
            unreachable!("{dtype} has no wider float")
        }
    }
}

fn precision(sample: &Sample, dtype: DType, wider: DType) -> Verdict {
    let mut generator = generator(sample);
    let call = Arc::clone(&sample.call);
    let call: Call = Rc::new(move |x| floats(call(x)));
    let ([of_largest, of_itself], [smallest, largest]) = format(dtype);
    let mut points = vec![sample.draw(&mut generator)];
    if sample.elementwise {
        // Subnormal numbers of either type, and numbers outside of its range, are left out.
        let held = SPECIAL.into_iter().filter(|x| {
            let size = x.abs();
            !x.is_finite() || size == 0.0 || size > smallest && size < largest.min(1e5)
        });
        let held: Vec<f64> = held.collect();
        points.push(special_inputs(&held, sample.inputs.len()));
    }
    for (special, point) in [false, true].into_iter().zip(points) {
        // Numbers that both types can represent.
        let narrow: Vec<Array> = point.iter().map(|x| x.cast(dtype)).collect();
        let wide: Vec<Array> = narrow.iter().map(|x| x.cast(wider)).collect();
        let [narrow, wide] = [narrow, wide].map(|point| {
            let x: Vec<Variable> = point.iter().map(constant).collect();
            let y = call(&x);
            let w: Vec<Variable> = (y.iter())
                .map(|y| Variable::constant(Array::ones(y.shape(), y.dtype())))
                .collect();
            let mut results = y;
            if sample.order > 0 {
                results.extend(pull(&*call, &x, &w, false));
                results.extend(pull(&*call, &x, &w, true));
            }
            results
        });
        for (i, (narrow, wide)) in narrow.iter().zip(&wide).enumerate() {
            if sample.elementwise && narrow.dtype() != dtype {
                return Err(format!(
                    "result {i} of {dtype} inputs is {}",
                    narrow.dtype()
                ));
            }
            let [narrow, wide] = [narrow, wide].map(|x| flat(std::slice::from_ref(x)));
            let size = if special {
                0.0
            } else {
                wide.iter().fold(0.0f64, |size, x| size.max(x.abs()))
            };
            for (k, (narrow, wide)) in narrow.iter().zip(&wide).enumerate() {
                let beyond = wide.abs() > largest;
                let allowed = of_largest * (1.0 + size) + of_itself * wide.abs();
                let close = narrow == wide || (narrow - wide).abs() <= allowed;
                if !(beyond || close || narrow.is_nan() && wide.is_nan()) {
                    let at: Vec<f64> = match special {
                        true => point.iter().map(|x| x.to_vec::<f64>()[k]).collect(),
                        false => Vec::new(),
                    };
                    return Err(format!(
                        "result {i}, element {k} at {at:?}: {narrow:e} in {dtype}, {wide:e} in {wider}"
                    ));
                }
            }
        }
    }
    Ok(())
}

// ----- repetition

/// Checks that the same call gives the same bits.
pub(super) fn repetition(sample: &Sample) -> Verdict {
    let mut generator = generator(sample);
    let map = Map::of(sample, &mut generator);
    let x = map.inputs();
    let w = arrays(&normal_like(&floats(map.at(&x)), &mut generator));
    let v = arrays(&normal_like(&x, &mut generator));
    let [first, second] = [(); 2].map(|()| bits(&results(&map, &map.point, &w, &v)));
    match first == second {
        true => Ok(()),
        false => Err("a second run gave other bits".into()),
    }
}

/// Checks that rules read only values that their functions save, whichever inputs have gradients.
/// (A value that is not saved does not exist, and reading it is an error.)
pub(super) fn kept_values(sample: &Sample) -> Verdict {
    differentiated(sample, 1, |map, generator| {
        for chosen in subsets(map.point.len()) {
            let map = map.of_subset(&chosen);
            let w = normal_like(&map.at(&map.inputs()), generator);
            for recorded in [true, false] {
                attempt(|| pull(&*map.call, &map.inputs(), &w, recorded))
                    .map_err(|error| format!("gradients of inputs {chosen:?}: {error}"))?;
            }
        }
        Ok(())
    })
}

/// Checks that given derivatives agree with those derived from the formula of the value.
pub(super) fn derived_derivatives(sample: &Sample) -> Verdict {
    let Some((function, given)) = &sample.formula else {
        return Ok(());
    };
    let mut generator = Generator::new(19);
    let x = sample.draw(&mut generator);
    let g = generator.normal(x[0].shape(), 0.0, 1.0, DType::F64);
    for input in 0..x.len() {
        if let Some([written, derived]) = function.written_and_derived(input, given, &x, &g) {
            let pairs = written
                .to_vec::<f64>()
                .into_iter()
                .zip(derived.to_vec::<f64>());
            let apart =
                |(a, b): &(f64, f64)| (a - b).abs() > ROUNDING * a.abs().max(b.abs()).max(1.0);
            if let Some((a, b)) = pairs.clone().find(apart) {
                return Err(format!("to input {input}: written {a}, derived {b}"));
            }
        }
    }
    Ok(())
}
