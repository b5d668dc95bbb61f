//! Recurrent links against plain loops, and against each other.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{concat, stack};
use bibun::links::{
    Chain, Gru, GruCell, Link, Lstm, LstmCell, LstmState, Recurrent, RecurrentBuilder,
    RecurrentCell, RecurrentLayer, RecurrentState, RecurrentSteps, Rnn, RnnCell,
};
use bibun::{
    GradOptions, GradientCheckOptions, Tree, Variable, VmapOptions, assert_gradients, attempt,
    checkpoint, compile, eval_mode, grad, gradients, gradients_with, hvp, jvp, linearize,
    per_example, s, vmap, vmap_with,
};

const INPUTS: usize = 3;
const UNITS: usize = 4;

fn normal(shape: &[usize], seed: u64) -> Variable {
    let x = Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64);
    Variable::constant(x)
}

/// A cell or network whose biases are not all alike.
macro_rules! with_biases {
    ($builder:expr) => {
        $builder
            .bias_initializer(bibun::initializers::Normal {
                mean: 0.1,
                std: 0.5,
            })
            .dtype(DType::F64)
            .build(&mut Generator::new(5))
    };
}

fn assert_close(found: &Variable, expected: &[f64], what: &str) {
    let found = found.to_vec::<f64>();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= 1e-11 * expected.abs().max(1.0),
            "{what}, element {i}: {found} for {expected}"
        );
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `w x + b`, row by row.
fn affine(w: &Variable, x: &[f64], b: Option<&Variable>) -> Vec<f64> {
    let (w, b) = (w.to_vec::<f64>(), b.map(Variable::to_vec::<f64>));
    let row = |(i, row): (usize, &[f64])| {
        let products = row.iter().zip(x).map(|(w, x)| w * x);
        products.sum::<f64>() + b.as_ref().map_or(0.0, |b| b[i])
    };
    w.chunks(x.len()).enumerate().map(row).collect()
}

#[test]
fn rnn_steps_by_loops() {
    for has_relu in [false, true] {
        let builder = RnnCell::builder(INPUTS, UNITS);
        let builder = if has_relu { builder.relu() } else { builder };
        let cell = with_biases!(builder);
        let (x, h) = (normal(&[INPUTS], 1), normal(&[UNITS], 2));
        let from_x = affine(&cell.weight_ih, &x.to_vec::<f64>(), cell.bias.as_ref());
        let from_h = affine(&cell.weight_hh, &h.to_vec::<f64>(), None);
        let sums = from_x.iter().zip(from_h).map(|(a, b)| a + b);
        let expected = sums.map(|sum| if has_relu { sum.max(0.0) } else { sum.tanh() });
        assert_close(&cell.step(&x, &h), &expected.collect::<Vec<_>>(), "rnn");
    }
}

#[test]
fn lstm_steps_by_loops() {
    let cell = with_biases!(LstmCell::builder(INPUTS, UNITS));
    let (x, h, c) = (
        normal(&[INPUTS], 1),
        normal(&[UNITS], 2),
        normal(&[UNITS], 3),
    );
    let from_x = affine(&cell.weight_ih, &x.to_vec::<f64>(), cell.bias.as_ref());
    let from_h = affine(&cell.weight_hh, &h.to_vec::<f64>(), None);
    let gate = |gate: usize, k: usize| from_x[gate * UNITS + k] + from_h[gate * UNITS + k];
    let before = c.to_vec::<f64>();
    let memory =
        |k: usize| sigmoid(gate(1, k)) * before[k] + sigmoid(gate(0, k)) * gate(2, k).tanh();
    let output = |k: usize| sigmoid(gate(3, k)) * memory(k).tanh();
    let state = cell.step(&x, &LstmState { h, c });
    assert_close(&state.c, &(0..UNITS).map(memory).collect::<Vec<_>>(), "c");
    assert_close(&state.h, &(0..UNITS).map(output).collect::<Vec<_>>(), "h");
}

#[test]
fn gru_steps_by_loops() {
    let cell = with_biases!(GruCell::builder(INPUTS, UNITS));
    let (x, h) = (normal(&[INPUTS], 1), normal(&[UNITS], 2));
    let from_x = affine(&cell.weight_ih, &x.to_vec::<f64>(), cell.bias.as_ref());
    let from_h = affine(&cell.weight_hh, &h.to_vec::<f64>(), None);
    let bn = cell.bias_hn.as_ref().unwrap().to_vec::<f64>();
    let before = h.to_vec::<f64>();
    let expected = (0..UNITS).map(|k| {
        let at = |gate: usize| gate * UNITS + k;
        let r = sigmoid(from_x[at(0)] + from_h[at(0)]);
        let z = sigmoid(from_x[at(1)] + from_h[at(1)]);
        let n = (from_x[at(2)] + r * (from_h[at(2)] + bn[k])).tanh();
        (1.0 - z) * n + z * before[k]
    });
    assert_close(&cell.step(&x, &h), &expected.collect::<Vec<_>>(), "gru");
}

/// Two layers in both directions by single steps of their cells, for one sequence `[time, inputs]`.
fn by_steps<C: RecurrentCell>(
    network: &Recurrent<C>,
    x: &Variable,
    initial: &[C::State],
) -> (Variable, Vec<C::State>) {
    let mut x: Vec<Variable> = x.unstack(0);
    let mut initial = initial.iter();
    let mut states = Vec::new();
    for layer in &network.layers {
        let mut outputs = vec![Vec::new(); x.len()];
        let mut state = initial.next().unwrap().clone();
        for (x, outputs) in x.iter().zip(&mut outputs) {
            state = layer.forward.step(x, &state);
            outputs.push(state.output().clone());
        }
        states.push(state);
        if let Some(backward) = &layer.backward {
            let mut state = initial.next().unwrap().clone();
            for (x, outputs) in x.iter().zip(&mut outputs).rev() {
                state = backward.step(x, &state);
                outputs.push(state.output().clone());
            }
            states.push(state);
        }
        x = (outputs.iter())
            .map(|parts| concat(parts.iter(), -1))
            .collect();
    }
    (stack(x.iter(), 0), states)
}

/// All of a result in one number, each element with a weight of its own.
fn weighed<S: RecurrentState>(y: &Variable, states: &[S], seed: u64) -> Variable {
    let parts = states.iter().flat_map(RecurrentState::parts);
    let all = parts.map(|(_, part)| part).chain([y]);
    let sums = all
        .enumerate()
        .map(|(i, part)| (part * normal(&part.shape(), seed + i as u64)).sum(..));
    sums.reduce(|a, b| a + b).unwrap()
}

fn picked<S: RecurrentState>(state: &S, i: usize) -> Vec<Vec<f64>> {
    let part = |(_, part): (_, &Variable)| part.slice(s![i]).to_vec::<f64>();
    state.parts().into_iter().map(part).collect()
}

/// Sequences of different lengths in one batch are what each is alone: outputs, states, and the
/// gradients of parameters and inputs.
fn lengths_do_not_matter<C: RecurrentCell>(
    builder: RecurrentBuilder<C>,
    at: impl Fn(&[C::State], usize) -> Vec<C::State>,
) {
    let network = with_biases!(builder.layers(2).bidirectional());
    let lengths = [3, 5, 0, 1];
    let x = Variable::new(normal(&[4, 5, INPUTS], 9).array());
    // Initial states that are not zero.
    let (_, initial) = network.forward_sequence(&normal(&[4, 2, INPUTS], 10), None);
    let (y, states) = network.forward_lengths(&x, &lengths, Some(&initial));
    assert_eq!(y.shape(), [4, 5, 2 * UNITS]);
    let parameters = network.parameters();
    let mut wanted: Vec<&Variable> = parameters.iter().map(|(_, w)| w).collect();
    wanted.push(&x);
    let mut total = Vec::new();
    for (i, &length) in lengths.iter().enumerate() {
        let own = x.slice(s![i, ..length]);
        let initial = at(&initial, i);
        let (expected, last) = match length {
            0 => (
                Variable::constant(Array::zeros([0, 2 * UNITS], DType::F64)),
                initial,
            ),
            _ => by_steps(&network, &own, &initial),
        };
        let row = y.slice(s![i, ..length]);
        assert_close(&row, &expected.to_vec::<f64>(), "outputs");
        let beyond = y.slice(s![i, length..]).to_vec::<f64>();
        assert!(beyond.iter().all(|&y| y == 0.0));
        for (state, last) in states.iter().zip(&last) {
            let alone = last
                .parts()
                .into_iter()
                .map(|(_, part)| part.to_vec::<f64>());
            for (found, expected) in picked(state, i).iter().zip(alone) {
                assert_close(
                    &Variable::constant(Array::from_vec(found.clone(), UNITS)),
                    &expected,
                    "states",
                );
            }
        }
        if length > 0 {
            total.push(weighed(&expected, &last, 100 * i as u64));
        }
    }
    let alone = total.into_iter().reduce(|a, b| a + b).unwrap();
    let together = (lengths
        .iter()
        .enumerate()
        .filter(|(_, length)| **length > 0))
    .map(|(i, &length)| weighed(&y.slice(s![i, ..length]), &at(&states, i), 100 * i as u64))
    .reduce(|a, b| a + b)
    .unwrap();
    let [expected, found] = [&alone, &together].map(|loss| gradients(&[loss], &wanted));
    for ((found, expected), x) in found.iter().zip(&expected).zip(&wanted) {
        let (found, expected) = (found.as_ref().unwrap(), expected.as_ref().unwrap());
        assert_eq!(found.shape(), x.shape());
        assert_close(found, &expected.to_vec::<f64>(), "gradients");
    }
    // What lies beyond takes no part, whatever it is.
    let spoilt = x.array();
    let mut elements = spoilt.to_vec::<f64>();
    for (i, &length) in lengths.iter().enumerate() {
        elements[(i * 5 + length) * INPUTS..(i + 1) * 5 * INPUTS].fill(f64::NAN);
    }
    let spoilt = Variable::new(Array::from_vec(elements, [4, 5, INPUTS]));
    let (again, _) = network.forward_lengths(&spoilt, &lengths, Some(&initial));
    assert_eq!(again.to_vec::<f64>(), y.to_vec::<f64>());
    let gradients = gradients(&[&again.sum(..)], &wanted[..1]);
    let gradient = gradients[0].as_ref().unwrap().to_vec::<f64>();
    assert!(gradient.iter().all(|x| x.is_finite()));
}

fn rows(states: &[Variable], i: usize) -> Vec<Variable> {
    states.iter().map(|h| h.slice(s![i])).collect()
}

fn lstm_rows(states: &[LstmState], i: usize) -> Vec<LstmState> {
    let row = |state: &LstmState| LstmState {
        h: state.h.slice(s![i]),
        c: state.c.slice(s![i]),
    };
    states.iter().map(row).collect()
}

#[test]
fn rnn_of_any_lengths() {
    lengths_do_not_matter(Rnn::builder(INPUTS, UNITS), rows);
}

#[test]
fn lstm_of_any_lengths() {
    lengths_do_not_matter(Lstm::builder(INPUTS, UNITS), lstm_rows);
}

#[test]
fn gru_of_any_lengths() {
    lengths_do_not_matter(Gru::builder(INPUTS, UNITS), rows);
}

/// Derivatives of a network with respect to everything: by differences, per example, in a batch, and of
/// second order.
fn derivatives<C: RecurrentCell + Chain>(network: &Recurrent<C>) {
    let x = Variable::new(normal(&[3, 4, INPUTS], 3).array());
    let lengths = [4, 2, 3];
    let run = |network: &Recurrent<C>, x: &Variable| network.forward_lengths(x, &lengths, None).0;
    // By differences, with the parameters as inputs.
    let (vector, unravel) = bibun::ravel_tree(network);
    let inputs = [&x, &Variable::new(vector.array())].map(Clone::clone);
    let options = GradientCheckOptions {
        positions: 12,
        ..GradientCheckOptions::new().order(2)
    };
    assert_gradients(|x| run(&unravel(&x[1]), &x[0]), &inputs, &options);
    // Each example's gradient by itself.
    let losses = run(network, &x).square().sum([1, 2]);
    let each = per_example(&losses, network);
    let (rows, norms) = (each.rows(), each.norms().to_vec::<f64>());
    for (i, norm) in norms.into_iter().enumerate() {
        let loss = |network: &Recurrent<C>| run(network, &x).slice(s![i]).square().sum(..);
        let expected = grad(loss, network);
        let mut squares = 0.0;
        for ((name, row), (_, expected)) in rows.parameters().iter().zip(expected.parameters()) {
            let expected = expected.to_vec::<f64>();
            assert_close(&row.slice(s![i]), &expected, name);
            squares += expected.iter().map(|x| x * x).sum::<f64>();
        }
        assert!((norm - squares.sqrt()).abs() < 1e-10 * norm.max(1.0));
    }
    // Batch elements are turns of a loop.
    let alone = |x: &Variable| network.forward(x);
    let batch = vmap(alone, &x);
    let turns: Vec<Variable> = x.unstack(0).iter().map(alone).collect();
    let turns = stack(turns.iter(), 0);
    assert_close(&batch, &turns.to_vec::<f64>(), "batch");
    assert_close(&network.forward(&x), &turns.to_vec::<f64>(), "a batch");
    // A product with the Hessian against a difference of gradients along the direction.
    let loss = |network: &Recurrent<C>| run(network, &x).square().sum(..);
    let direction = grad(loss, network);
    let (_, product) = hvp(loss, network, &direction);
    let ahead = |step: f64| {
        grad(
            loss,
            &bibun::tree_zip(|w, d| w + step * d, network, &direction),
        )
    };
    let (after, before) = (ahead(1e-5), ahead(-1e-5));
    for ((name, found), ((_, a), (_, b))) in product
        .parameters()
        .iter()
        .zip(after.parameters().iter().zip(before.parameters()))
    {
        let expected = (a - b) / 2e-5;
        let scale = expected.abs().max(..).item::<f64>().max(1.0);
        let difference = (found - expected).abs().max(..).item::<f64>();
        assert!(difference < 1e-5 * scale, "{name}: {difference}");
    }
}

#[test]
fn derivatives_of_rnn() {
    derivatives(&with_biases!(Rnn::builder(INPUTS, 2).layers(2)));
}

#[test]
fn derivatives_of_lstm() {
    derivatives(&with_biases!(Lstm::builder(INPUTS, 2).bidirectional()));
}

#[test]
fn derivatives_of_gru() {
    derivatives(&with_biases!(
        Gru::builder(INPUTS, 2).layers(2).bidirectional()
    ));
}

#[test]
fn parameters_have_short_names() {
    let g = &mut Generator::new(0);
    let names = |chain: &dyn Chain| -> Vec<String> {
        chain
            .parameters()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    let gru = Gru::builder(INPUTS, UNITS).layers(2).build(g);
    let expected = ["weight_ih", "weight_hh", "bias", "bias_hn"];
    let expected = (0..2).flat_map(|i| expected.map(|name| format!("layers/{i}/forward/{name}")));
    assert_eq!(names(&gru), expected.collect::<Vec<_>>());
    let lstm = Lstm::builder(INPUTS, UNITS)
        .bidirectional()
        .without_bias()
        .build(g);
    let expected = [
        "forward/weight_ih",
        "forward/weight_hh",
        "backward/weight_ih",
        "backward/weight_hh",
    ];
    assert_eq!(
        names(&lstm),
        expected.map(|name| format!("layers/0/{name}"))
    );
}

#[test]
fn cells_start_as_told() {
    let cell = LstmCell::new(50, 60, &mut Generator::new(1));
    assert_eq!(
        (cell.weight_ih.shape(), cell.weight_hh.shape()),
        ([240, 50].into(), [240, 60].into())
    );
    let b = cell.bias.as_ref().unwrap().to_vec::<f32>();
    assert!(
        b.iter()
            .enumerate()
            .all(|(i, &b)| b == f32::from((60..120).contains(&i)))
    );
    // Each gate's weights of the state are orthogonal, those of the input are scaled by its inputs.
    let gate = cell.weight_hh.slice(s![60..120]);
    let product = gate.matmul(gate.transpose()) - Variable::constant(Array::eye(60, DType::F32));
    assert!(product.abs().max(..).item::<f32>() < 1e-5);
    let variance = cell.weight_ih.square().mean(..).item::<f32>();
    assert!((variance * 50.0 - 1.0).abs() < 0.05, "{variance}");
}

#[test]
fn dropout_stands_between_layers() {
    let network = Lstm::builder(INPUTS, UNITS).layers(2).dropout(0.5);
    let network = network.dtype(DType::F64).build(&mut Generator::new(0));
    let x = normal(&[2, 3, INPUTS], 0);
    let (a, first) = network.forward_sequence(&x, None);
    let (b, second) = network.forward_sequence(&x, None);
    assert_ne!(a.to_vec::<f64>(), b.to_vec::<f64>());
    assert_eq!(first[0].h.to_vec::<f64>(), second[0].h.to_vec::<f64>());
    let [a, b] = [(); 2].map(|()| eval_mode(|| network.forward(&x)).to_vec::<f64>());
    assert_eq!(a, b);
}

#[test]
fn steps_are_sequences() {
    let network = with_biases!(Gru::builder(INPUTS, UNITS).layers(2));
    let x = normal(&[2, 3, INPUTS], 0);
    let mut states = network.zero_states(&[2]);
    for x in x.unstack(1) {
        states = network.step(&x, &states);
    }
    let (_, expected) = network.forward_sequence(&x, None);
    for (state, expected) in states.iter().zip(expected) {
        assert_close(state, &expected.to_vec::<f64>(), "states");
    }
    // No steps at all leave the state.
    let (y, states) = network.forward_sequence(&normal(&[2, 0, INPUTS], 0), Some(&states));
    assert_eq!((y.shape(), states.len()), ([2, 0, UNITS].into(), 2));
}

#[test]
fn gradients_of_states_arrive() {
    let network = with_biases!(Lstm::builder(INPUTS, UNITS));
    let state = LstmState {
        h: Variable::new(normal(&[2, UNITS], 1).array()),
        c: Variable::new(normal(&[2, UNITS], 2).array()),
    };
    let x = normal(&[2, 3, INPUTS], 0);
    let call = |x: &[Variable]| {
        let initial = LstmState {
            h: x[1].clone(),
            c: x[2].clone(),
        };
        let (y, mut last) = network.forward_sequence(&x[0], Some(&[initial]));
        let last = last.remove(0);
        vec![y, last.h, last.c]
    };
    let inputs = [Variable::new(x.array()), state.h, state.c];
    assert_gradients(call, &inputs, GradientCheckOptions::new().order(1));
    let y = call(&inputs);
    let options = GradOptions::new();
    assert!(gradients_with(&[&y[0].sum(..)], &[&inputs[2]], &options)[0].is_some());
}

#[test]
fn mistakes_are_named() {
    let network = Lstm::builder(INPUTS, UNITS)
        .bidirectional()
        .build(&mut Generator::new(0));
    let message = |call: &dyn Fn()| attempt(call).unwrap_err().to_string();
    let x = Variable::constant(Array::zeros([2, 5, INPUTS], DType::F32));
    let found = message(&|| drop(network.forward(&x.slice(s![.., .., 1..]))));
    let here = format!("{}:{}:", file!(), line!() - 1);
    assert!(
        found.contains("x [.., time, inputs] = [2, 5, 2] f32 (there are 3 inputs)"),
        "{found}"
    );
    assert!(found.contains(&here), "{found}");
    let found = message(&|| drop(network.forward_lengths(&x, &[5, 6], None)));
    assert!(
        found.contains("the lengths are [5, 6], expected one for each of 2"),
        "{found}"
    );
    let found = message(&|| drop(network.forward_lengths(&x.slice(s![0]), &[5], None)));
    assert!(found.contains("must be [batch, time, inputs]"), "{found}");
    let states = network.zero_states(&[2]);
    let found = message(&|| drop(network.forward_sequence(&x, Some(&states[1..]))));
    assert!(found.contains("there are 1 states, expected 2"), "{found}");
    let found = message(&|| {
        drop(network.forward_sequence(&x, Some(&network.zero_states(&[1]))));
    });
    assert!(
        found.contains("h = [1, 4] f32 (the state must be [2, 4])"),
        "{found}"
    );
    let found = message(&|| drop(network.step(&x.slice(s![0]), &states)));
    assert!(found.contains("needs whole sequences"), "{found}");
    let cell = LstmCell::new(INPUTS, UNITS, &mut Generator::new(0));
    let found = message(&|| drop(cell.step(&x.slice(s![0]), &cell.zero_state(&[2]))));
    assert!(
        found.contains("the state is [2, 4] f32, expected [5, 4]"),
        "{found}"
    );
    let steps = RecurrentSteps::default();
    let found = message(&|| drop(cell.unroll(&x, cell.zero_state(&[3]), &steps)));
    assert!(found.contains("(the state must be [2, 4])"), "{found}");
    let none = x.slice(s![.., ..0]);
    let found = message(&|| drop(cell.unroll(&none, cell.zero_state(&[2]), &steps)));
    assert!(found.contains("at least one step"), "{found}");
    let found = message(&|| {
        drop(Gru::builder(2, 3).layers(0).build(&mut Generator::new(0)));
    });
    assert!(found.contains("there are no layers"), "{found}");
    let found = message(&|| {
        drop(
            GruCell::builder(2, 3)
                .dtype(DType::I64)
                .build(&mut Generator::new(0)),
        );
    });
    assert!(found.contains("GruCell: the dtype is i64"), "{found}");
}

/// A cell of a user, which takes single steps.
#[derive(Chain, Clone, Debug)]
struct Own<C>(C);

impl<C: RecurrentCell> RecurrentCell for Own<C>
where
    Self: Tree,
{
    type State = C::State;
    fn inputs(&self) -> usize {
        self.0.inputs()
    }
    fn units(&self) -> usize {
        self.0.units()
    }
    fn dtype(&self) -> DType {
        self.0.dtype()
    }
    fn project(&self, x: &Variable) -> Variable {
        self.0.project(x)
    }
    fn advance(&self, projected: &Variable, state: &C::State) -> C::State {
        self.0.advance(projected, state)
    }
    fn zero_state(&self, leading: &[usize]) -> C::State {
        self.0.zero_state(leading)
    }
}

/// A network of two cells that go in both directions, step by step.
fn single_steps<C: RecurrentCell>(network: &Recurrent<C>) -> Recurrent<Own<C>> {
    let layer = |layer: &RecurrentLayer<C>| RecurrentLayer {
        forward: Own(layer.forward.clone()),
        backward: layer.backward.clone().map(Own),
    };
    Recurrent::of_layers(network.layers.iter().map(layer).collect(), None)
}

/// Cells of a user compute what the built-in ones do, and so do all transformations of both.
fn as_single_steps<C: RecurrentCell>(network: &Recurrent<C>) {
    let own = single_steps(network);
    for shape in [
        &[2, 3, INPUTS][..],
        &[1, 1, INPUTS],
        &[4, INPUTS],
        &[2, 1, 3, INPUTS],
    ] {
        let x = normal(shape, 1);
        let (y, last) = network.forward_sequence(&x, None);
        let (expected, states) = own.forward_sequence(&x, None);
        assert_eq!(y.shape(), expected.shape());
        assert_close(&y, &expected.to_vec::<f64>(), "outputs");
        for (state, expected) in last.iter().zip(&states) {
            for ((name, part), (_, expected)) in state.parts().into_iter().zip(expected.parts()) {
                assert_eq!(part.shape(), expected.shape());
                assert_close(part, &expected.to_vec::<f64>(), name);
            }
        }
    }
    let (x, dx) = (normal(&[2, 3, INPUTS], 1), normal(&[2, 3, INPUTS], 2));
    let lengths = [3, 2];
    let fast = |x: &Variable| network.forward_lengths(x, &lengths, None).0;
    let slow = |x: &Variable| own.forward_lengths(x, &lengths, None).0;
    let (_, tangent) = jvp(fast, &x, &dx);
    let (_, expected) = jvp(slow, &x, &dx);
    assert_close(&tangent, &expected.to_vec::<f64>(), "jvp");
    let along = linearize(fast, &x).1.call(&dx);
    assert_close(&along, &expected.to_vec::<f64>(), "linearize");
    let loss = |y: Variable| (y.square() * normal(&[6], 3).slice(s![0])).sum(..);
    let expected = grad(|x| loss(slow(x)), &x).to_vec::<f64>();
    assert_close(&grad(|x| loss(fast(x)), &x), &expected, "gradient");
    let copy = network.clone();
    let again = grad(
        |x| {
            loss(checkpoint(
                move |(n, x): &(Recurrent<C>, Variable)| n.forward_lengths(x, &[3, 2], None).0,
                &(copy.clone(), x.clone()),
            ))
        },
        &x,
    );
    assert_close(&again, &expected, "checkpoint");
    // A derivative along a direction of the gradient: forward over reverse, and reverse over forward.
    let (_, found) = jvp(|x| grad(|x| loss(fast(x)), x), &x, &dx);
    let (_, expected) = jvp(|x| grad(|x| loss(slow(x)), x), &x, &dx);
    assert_close(&found, &expected.to_vec::<f64>(), "forward over reverse");
    let found = grad(|x| (jvp(|x| loss(fast(x)), x, &dx).1).sum(..), &x);
    assert_close(&found, &expected.to_vec::<f64>(), "reverse over forward");
    // Networks of their own for each batch element.
    let networks = bibun::tree_map(
        |w| bibun::functions::stack([w, &(w * 0.5), &-w], 0),
        network,
    );
    let run = |network: &Recurrent<C>| grad(|n: &Recurrent<C>| loss(n.forward(&x)), network);
    let all = vmap_with(run, &networks, VmapOptions::new());
    for k in 0..3 {
        let one = bibun::tree_map(|w| w.slice(s![k]), &networks);
        let expected = bibun::ravel_tree(&run(&one)).0.to_vec::<f64>();
        let found = bibun::ravel_tree(&bibun::tree_map(|w| w.slice(s![k]), &all)).0;
        assert_close(&found, &expected, "vmap over weights");
    }
}

#[test]
fn cells_of_users_take_single_steps() {
    as_single_steps(&with_biases!(Rnn::builder(INPUTS, 2).bidirectional()));
    as_single_steps(&with_biases!(Rnn::builder(INPUTS, 2).relu()));
    as_single_steps(&with_biases!(Lstm::builder(INPUTS, 2).bidirectional()));
    as_single_steps(&with_biases!(Gru::builder(INPUTS, 2).layers(2)));
    let gru = Gru::builder(INPUTS, 2).without_bias().dtype(DType::F64);
    as_single_steps(&gru.build(&mut Generator::new(3)));
}

#[test]
fn halves_are_rounded_at_the_end() {
    for dtype in [DType::BF16, DType::F16] {
        let network = Lstm::builder(INPUTS, UNITS)
            .dtype(dtype)
            .build(&mut Generator::new(1));
        let x = normal(&[2, 5, INPUTS], 1).cast(dtype);
        let wide = bibun::tree_map(|w| w.cast(DType::F64), &network);
        let y = network.forward(&x);
        assert_eq!(y.dtype(), dtype);
        let difference = y.cast(DType::F64) - wide.forward(&x.cast(DType::F64));
        assert!(difference.abs().max(..).item::<f64>() < 0.02);
        let gradient = grad(|n: &Lstm| n.forward(&x).square().sum(..), &network);
        assert_eq!(gradient.parameters()[0].1.dtype(), dtype);
    }
}

/// The steps of a sequence are one step of a program, and a program computes the bits of the function.
#[test]
fn programs_do_not_grow_with_time() {
    let network = Lstm::builder(INPUTS, UNITS)
        .bidirectional()
        .build(&mut Generator::new(0));
    let step = compile(|(network, x): &(Lstm, Variable)| {
        grad(
            |network: &Lstm| network.forward(x).square().sum(..),
            network,
        )
    });
    let lines = |time: usize| {
        let x = normal(&[2, time, INPUTS], 1).cast(DType::F32);
        step.check(&(network.clone(), x.clone())).unwrap();
        step.profile(&(network.clone(), x)).lines().count()
    };
    assert_eq!(lines(3), lines(50));
}

/// Threads share the rows of a batch.
#[test]
fn threads_change_no_bit() {
    let x = normal(&[37, 9, 40], 1).cast(DType::F32);
    fn all<C: RecurrentCell>(network: &Recurrent<C>, x: &Variable) -> Vec<Vec<u32>> {
        let lengths: Vec<usize> = (0..37).map(|i| i % 10).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                let loss = |(n, x): &(Recurrent<C>, Variable)| {
                    n.forward_lengths(x, &lengths, None).0.square().sum(..)
                };
                let gradient = grad(loss, &(network.clone(), x.clone()));
                bibun::ravel_tree(&gradient).0.to_vec::<f32>()
            })
        };
        [1, 2, 3, 7]
            .map(|threads| run(threads).into_iter().map(f32::to_bits).collect())
            .into()
    }
    let g = &mut Generator::new(2);
    let found = [
        all(&Lstm::new(40, 48, g), &x),
        all(&Gru::new(40, 48, g), &x),
        all(&Rnn::new(40, 128, g), &x),
    ];
    for found in found {
        assert!(found.iter().all(|bits| *bits == found[0]));
    }
}
