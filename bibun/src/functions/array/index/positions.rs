//! The positions that indices name, as integers that other functions compute with.

use bibun_array::{Array, DType, Device, Scatter, Shape, cpu, settle};

use crate::batch::Batched;
use crate::error::mismatch;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::broadcast_to;
use crate::functions::families::{Discrete, DiscreteRule};
use crate::variable::Variable;

/// Positions along an axis from indices that may count from the end, after a check of them.
#[derive(Clone, Debug)]
struct Positions {
    function: &'static str,
    /// The shape that is indexed, and its axis.
    shape: Shape,
    axis: usize,
}

/// Applies [`Positions`] to indices of an axis of x.
#[track_caller]
pub(super) fn positions(
    function: &'static str,
    indices: &Variable,
    x: &Variable,
    axis: usize,
) -> Variable {
    let shape = x.shape();
    if indices.dtype() != DType::I64 {
        mismatch(
            function,
            &[("indices", &indices.spec())],
            "they must be integers",
        );
    }
    Discrete::of(
        Positions {
            function,
            shape,
            axis,
        },
        [indices.clone()],
    )
}

impl DiscreteRule for Positions {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "positions"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(indices.clone())
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        let (size, axis, shape) = (self.shape[self.axis] as i64, self.axis, self.shape.clone());
        indices.expect_between(self.function, -size..size, move |index| {
            format!("index {index} is outside of axis {axis} of the shape {shape}")
        });
        let from_end = indices.less(0);
        from_end.where_(&indices + size, indices)
    }
}

/// Returns the positions `0..count` along one axis of `rank`, beside some values.
pub(in crate::functions::array) fn places(
    values: &[&Variable],
    count: usize,
    rank: usize,
    axis: usize,
) -> Variable {
    let mut aligned = vec![1; rank];
    aligned[axis] = count;
    let places = Array::arange(0, count as i64).reshape(aligned);
    constant_beside(values, places)
}

/// Returns a constant on the device of some values.
pub(crate) fn constant_beside(values: &[&Variable], constant: Array) -> Variable {
    Variable::constant(match device_of(values) {
        Some(device) if !device.takes_constants() => constant.to(device),
        _ => constant,
    })
}

/// Returns the device of those values that have one.
pub(in crate::functions::array) fn device_of(values: &[&Variable]) -> Option<&'static dyn Device> {
    values.iter().find_map(|value| value.known_device())
}

/// Returns the positions in row-major order of an array of `shape` from the positions along each axis,
/// broadcast to the shape of a part.
#[track_caller]
pub(super) fn linear(
    positions: impl IntoIterator<Item = (usize, Variable)>,
    shape: &Shape,
    part: &Shape,
) -> Variable {
    let step = |axis: usize| shape[axis + 1..].iter().product::<usize>() as i64;
    let terms = positions
        .into_iter()
        .map(|(axis, positions)| match step(axis) {
            1 => positions,
            step => positions * step,
        });
    let sum = terms.reduce(|sum, term| sum + term);
    broadcast_to(sum.unwrap_or_else(|| Variable::constant(0i64)), part)
}

/// Returns for each element of x along an axis the last place among the indices that names it, or -1,
/// beside x and the values.
#[track_caller]
pub(super) fn last_at(indices: &Variable, x: &Variable, value: &Variable, axis: usize) -> Variable {
    let size = x.shape()[axis];
    let device = device_of(&[x, indices, value]);
    Discrete::of(LastAt { axis, size, device }, [indices.clone()])
}

#[derive(Clone, Debug)]
struct LastAt {
    axis: usize,
    size: usize,
    /// The device of the places.
    device: Option<&'static dyn Device>,
}

impl DiscreteRule for LastAt {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "last_at"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        let shape = indices.shape.replaced(self.axis, self.size);
        Ok(Spec::new(shape, DType::I64))
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        let _here = self.device.map(settle);
        let shape = indices.shape();
        let mut aligned = vec![1; shape.rank()];
        aligned[self.axis] = shape[self.axis];
        let places = Array::arange(0, shape[self.axis] as i64).reshape(aligned);
        let places = places.to(self.device.unwrap_or(cpu()));
        let nowhere = Array::full(shape.replaced(self.axis, self.size), -1i64);
        nowhere.scatter(Scatter::Set, &indices, self.axis as isize, &places)
    }

    fn batch(&self, indices: [Batched; 1]) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Discrete(Self { axis, ..*self }), indices)
    }
}
