//! A random formula, drawn as a list of numbers that are read as instructions for a machine with a
//! list of values: each takes one or two of the values so far, used before or not, and adds its
//! result.

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::{broadcast_to, permute, reshape, sum, tanh};
use proptest::prelude::*;

/// An instruction: what to do, to which values, and along which axis.
pub(crate) type Instruction = (u8, usize, usize, usize);

/// A function of several inputs, and where to take it.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    pub(crate) shapes: Vec<Vec<usize>>,
    pub(crate) program: Vec<Instruction>,
    pub(crate) seed: u64,
}

pub(crate) fn formulae() -> impl Strategy<Value = Formula> {
    let shape = prop::collection::vec(1usize..4, 0..4);
    (
        prop::collection::vec(shape, 1..4),
        programs(9),
        any::<u64>(),
    )
        .prop_map(|(shapes, program, seed)| Formula {
            shapes,
            program,
            seed,
        })
}

/// At least one instruction, and fewer than `end`.
pub(crate) fn programs(end: usize) -> impl Strategy<Value = Vec<Instruction>> {
    let instruction = (0u8..11, 0usize..8, 0usize..8, 0usize..4);
    prop::collection::vec(instruction, 1..end)
}

impl Formula {
    /// The two last values.
    pub(crate) fn run(&self, inputs: &[Variable]) -> Vec<Variable> {
        let mut values = execute(&self.program, inputs);
        values.split_off(values.len() - 2)
    }

    pub(crate) fn inputs(&self) -> Vec<Variable> {
        let mut generator = Generator::new(self.seed);
        let draw = |shape: &Vec<usize>| generator.uniform(shape, -1.0, 1.0, DType::F64);
        self.shapes
            .iter()
            .map(draw)
            .map(Variable::constant)
            .collect()
    }
}

/// All values of a program: the inputs, and the result of each instruction.
pub(crate) fn execute(program: &[Instruction], inputs: &[Variable]) -> Vec<Variable> {
    let mut values = inputs.to_vec();
    for &(what, i, j, axis) in program {
        let (a, b) = (&values[i % values.len()], &values[j % values.len()]);
        values.push(step(what, a, b, axis));
    }
    values
}

/// One instruction. Operands that do not broadcast are brought together by a sum.
fn step(what: u8, a: &Variable, b: &Variable, axis: usize) -> Variable {
    let fits = a.shape().broadcast(&b.shape()).is_some();
    let b = if fits { b.clone() } else { sum(b, ..) };
    let rank = a.rank();
    match what {
        0 => a + b,
        1 => a - b,
        2 | 3 => 0.5 * a * b,
        4 => tanh(a),
        5 => -a,
        6 if rank > 0 => sum(a, (axis % rank) as isize),
        7 if rank > 0 => {
            let axes: Vec<isize> = (0..rank).map(|i| ((i + axis) % rank) as isize).collect();
            permute(a, &axes)
        }
        8 if rank < 4 => {
            let mut shape = a.shape().to_vec();
            shape.insert(0, 1 + axis % 3);
            broadcast_to(a, shape)
        }
        9 => reshape(a, a.size()),
        10 => {
            let mut shape = a.shape().to_vec();
            shape.insert(axis % (rank + 1), 1);
            reshape(a, shape)
        }
        _ => a / (2.0 + b.tanh()),
    }
}

pub(crate) fn flat(x: &[Variable]) -> Vec<f64> {
    x.iter().flat_map(|x| x.to_vec::<f64>()).collect()
}

pub(crate) fn inner(a: &[Variable], b: &[Variable]) -> f64 {
    flat(a).iter().zip(flat(b)).map(|(a, b)| a * b).sum()
}

/// Equal up to rounding, as a part of the largest element.
pub(crate) fn close(what: &str, a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{what}");
    let size = b.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(
            (a - b).abs() <= 1e-11 * size,
            "{what}: element {i} is {a}, not {b}"
        );
    }
}
