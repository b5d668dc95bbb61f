//! Positions in row-major order, from indices along axes and back.

use bibun_array::{Array, DType, Shape};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule};
use crate::functions::{broadcast_to, cast, remainder};
use crate::variable::Variable;

/// Returns the indices along the axes of a shape of positions in row-major order, one Variable for each axis.
///
/// Shapes: positions any → as positions, for each axis. Types: integers → i64. Gradient: none.
///
/// Source: `numpy.unravel_index`.
///
/// # Panics
/// Panics if positions are not integers, or one is not below the number of elements.
///
/// ```
/// use bibun::{functions::unravel_index, Variable};
/// let index = unravel_index(Variable::constant([5i64, 0]), [2, 3]);
/// assert_eq!(index[0].to_vec::<i64>(), [1, 0]);
/// assert_eq!(index[1].to_vec::<i64>(), [2, 0]);
/// ```
#[track_caller]
pub fn unravel_index(positions: impl Into<Variable>, shape: impl Into<Shape>) -> Vec<Variable> {
    let function = "unravel_index";
    let _whole = composite(function);
    let shape = shape.into().addressable(function);
    let mut rest = below(function, positions.into(), shape.size());
    let mut indices: Vec<Variable> = Vec::new();
    for &size in shape.iter().rev() {
        let own = remainder(&rest, size as i64);
        rest = cast((rest - &own) / size as i64, DType::I64);
        indices.push(own);
    }
    indices.reverse();
    indices
}

/// Returns the positions in row-major order of indices along the axes of a shape.
///
/// Shapes: one of indices for each axis, that broadcast → their common shape. Types: integers → i64. Gradient: none.
///
/// Source: `numpy.ravel_multi_index`, which refuses indices outside, too.
///
/// # Panics
/// Panics if there is not one for each axis, they are not integers, do not broadcast, or one is outside of its axis.
///
/// ```
/// use bibun::{functions::ravel_multi_index, Variable};
/// let (row, column) = (Variable::constant([1i64, 0]), Variable::constant([2i64, 0]));
/// assert_eq!(ravel_multi_index(&[&row, &column], [2, 3]).to_vec::<i64>(), [5, 0]);
/// ```
#[track_caller]
pub fn ravel_multi_index(indices: &[&Variable], shape: impl Into<Shape>) -> Variable {
    let function = "ravel_multi_index";
    let _whole = composite(function);
    let shape = shape.into().addressable(function);
    if indices.len() != shape.rank() || indices.is_empty() {
        let what = format!("{} indices, for the axes of {shape:?}", indices.len());
        raise(Error::argument(function, what));
    }
    let specs: Vec<Spec> = indices.iter().map(|index| index.spec()).collect();
    let common = specs.iter().try_fold(Shape::from(()), |common, spec| {
        common.broadcast(&spec.shape)
    });
    let Some(common) = common else {
        let inputs: Vec<(&str, &Spec)> = specs.iter().map(|spec| ("index", spec)).collect();
        mismatch(function, &inputs, "the shapes must broadcast")
    };
    let mut along = indices.iter().zip(shape.iter());
    let mut next = || {
        along
            .next()
            .map(|(index, &size)| (below(function, (*index).clone(), size), size))
    };
    let (mut positions, _) = next().expect("there is an axis");
    while let Some((index, size)) = next() {
        positions = positions * size as i64 + index;
    }
    broadcast_to(positions, common)
}

/// Returns integers, after a check that none is negative or reaches the size.
#[track_caller]
fn below(function: &'static str, x: Variable, size: usize) -> Variable {
    if !x.dtype().is_integer() {
        mismatch(function, &[("x", &x.spec())], "they must be integers")
    }
    Discrete::of(Below { function, size }, [cast(x.detach(), DType::I64)])
}

#[derive(Clone, Debug)]
struct Below {
    function: &'static str,
    size: usize,
}

impl DiscreteRule for Below {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "below"
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(x.clone())
    }
    fn forward(&self, [x]: [Array; 1]) -> Array {
        let size = self.size;
        x.expect_between(self.function, 0..size as i64, move |x| {
            format!("{x} is not between 0 and {size}, which is excluded")
        });
        x
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::argsort;
    let order = |x: &Array| {
        let x = x.to_vec::<f64>();
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
        order
    };
    let integers =
        |x: Vec<usize>| Array::from(x.into_iter().map(|x| x as i64).collect::<Vec<i64>>());
    vec![
        Sample::new(
            "unravel_index",
            |x| unravel_index(argsort(&x[0], 0), [2, 3]),
            move |x| {
                let order = order(&x[0]);
                let of = |f: fn(usize) -> usize| integers(order.iter().map(|&i| f(i)).collect());
                vec![of(|i| i / 3), of(|i| i % 3)]
            },
        )
        .input([6], -1.0..1.0),
        Sample::new(
            "ravel_multi_index",
            |x| {
                let order = argsort(&x[0], 0);
                vec![ravel_multi_index(&[&order, &order], [3, 4])]
            },
            move |x| vec![integers(order(&x[0]).iter().map(|i| 5 * i).collect())],
        )
        .input([3], -1.0..1.0),
    ]
}
