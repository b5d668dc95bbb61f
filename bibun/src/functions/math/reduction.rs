//! Reductions over axes.

use bibun_array::{Array, Axes, DType};
use smallvec::SmallVec;

use crate::batch::Lane;
use crate::function::{Mismatch, Spec};
use crate::functions::family::{Linear, LinearRule, method};
use crate::functions::{broadcast_to, lanes_in_front, reshape};
use crate::variable::Variable;

/// The sum over axes (`..` for all; see [`Axes`]).
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims). Types: all; bools are counted as i64.
/// Gradient: `gy` to every element summed.
///
/// # Panics
/// If there is no such axis.
///
/// ```
/// use bibun::{functions::sum, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(sum(&x, 0).to_vec::<f64>(), [4.0, 6.0]);
/// assert_eq!(sum(&x, ..).item::<f64>(), 10.0);
/// ```
#[track_caller]
pub fn sum(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = x.into();
    let (axes, keep_dims) = axes.into().resolve("sum", x.rank());
    Linear::of(Sum { axes, keep_dims }, x)
}
method!(sum, axes: impl Into<Axes>);

#[derive(Clone, Debug)]
struct Sum {
    axes: SmallVec<[usize; 4]>,
    keep_dims: bool,
}

impl LinearRule for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let dtype = if x.dtype == DType::Bool {
            DType::I64
        } else {
            x.dtype
        };
        Ok(Spec {
            shape: x.shape.reduced(&self.axes, self.keep_dims),
            dtype,
        })
    }
    fn forward(&self, x: Array) -> Array {
        x.sum(axes(&self.axes, self.keep_dims))
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        broadcast_to(reshape(gy, x.shape.reduced(&self.axes, true)), &x.shape)
    }
    fn batch(&self, x: Variable, axis: usize) -> Lane {
        let own: SmallVec<[usize; 4]> = self.axes.iter().map(|axis| axis + 1).collect();
        Lane::along(sum(lanes_in_front(x, axis), axes(&own, self.keep_dims)), 0)
    }
}

/// Axes as their names.
pub(crate) fn axes(axes: &[usize], keep_dims: bool) -> Axes {
    let axes: SmallVec<[isize; 4]> = axes.iter().map(|&axis| axis as isize).collect();
    let axes = Axes::new(&axes);
    if keep_dims {
        bibun_array::keep_dims(axes)
    } else {
        axes
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::keep_dims;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "sum",
            |x| vec![sum(&x[0], ..)],
            |x| {
                let total: f64 = x[0].to_vec::<f64>().iter().sum();
                vec![Array::scalar(total)]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "sum",
            |x| vec![sum(&x[0], keep_dims([0, 2]))],
            |x| {
                let x = &x[0];
                let total = |j| {
                    let terms = (0..2).flat_map(|i| (0..4).map(move |k| [i, j, k]));
                    terms.map(|index| x.element(&index).to_f64()).sum::<f64>()
                };
                vec![Array::from_vec((0..3).map(total).collect(), [1, 3, 1])]
            },
        )
        .input([2, 3, 4], range),
    ]
}
