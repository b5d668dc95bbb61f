//! A frame of one value around an array.

use bibun_array::{Array, Index, Scalar, Shape};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::slice;
use crate::variable::Variable;

/// Pads x with `value`: `widths[i]` is the number of elements before and after axis `i`.
///
/// Shapes: x `[n, ..]` → `[before + n + after, ..]`. Types: all; `value` is cast to the dtype of x.
/// Gradient: the part of `gy` inside the padding.
///
/// # Panics
/// Panics if the number of pairs in `widths` is not the number of axes.
///
/// ```
/// use bibun::{functions::pad, Variable};
/// let y = pad(&Variable::new([1.0, 2.0]), &[(1, 2)], 0.5);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 1.0, 2.0, 0.5, 0.5]);
/// ```
#[track_caller]
pub fn pad(
    x: impl Into<Variable>,
    widths: &[(usize, usize)],
    value: impl Into<Scalar>,
) -> Variable {
    let x = x.into();
    let value = value.into().beside(x.dtype()).cast(x.dtype());
    let widths = SmallVec::from_slice(widths);
    let [y] = crate::apply(Pad { widths, value }, [x]);
    y
}
method!(pad, widths: &[(usize, usize)], value: impl Into<Scalar>);

#[derive(Clone, Debug)]
struct Pad {
    widths: SmallVec<[(usize, usize); 4]>,
    value: Scalar,
}

impl Function for Pad {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "pad"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        if self.widths.len() != x.shape.rank() {
            let must_hold = format!("each axis needs a pair of widths of {:?}", self.widths);
            return Err(Mismatch::new(&[("x", x)], must_hold));
        }
        let sizes = x.shape.iter().zip(&self.widths);
        let shape: Shape = sizes
            .map(|(size, (before, after))| before.saturating_add(*size).saturating_add(*after))
            .collect();
        Ok([Spec::new(shape, x.dtype)])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [x.pad(&self.widths, self.value)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let sizes = cx.input_shape(0).iter().zip(&self.widths);
        let inside = sizes.map(|(&size, &(before, _))| Index::from(before..before + size));
        let inside: SmallVec<[Index; 4]> = inside.collect();
        [Some(slice(gy, &inside))]
    }

    fn jvp(&self, _: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| pad(dx, &self.widths, 0.0))]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let mut widths = self.widths.clone();
        widths.insert(0, (0, 0));
        Batched::in_front(Self { widths, ..*self }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let axis = gy.examples.axis();
        let (before, size) = (self.widths[axis].0, cx.input_shape(0)[axis]);
        let examples = gy.examples.picked(axis, before..before + size);
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(0, 1), (2, 0)], 0.5)],
            move |x| {
                vec![by_index([3, 5], |i| match (i[0] < 2, i[1] >= 2) {
                    (true, true) => at(&x[0], &[i[0], i[1] - 2]),
                    _ => 0.5,
                })]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new("pad", |x| vec![pad(&x[0], &[], 1)], |x| vec![x[0].clone()]).input((), range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_padded() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        let frame = [9, 1, 2, 9, 3, 4];
        assert_eq!(x.pad(&[(0, 0), (1, 0)], 9.0).to_vec::<i64>(), frame);
    }

    #[test]
    fn a_frame_may_be_infinite() {
        let x = Variable::new([1.0]);
        let y = x.pad(&[(1, 0)], f64::NEG_INFINITY);
        assert_eq!(y.to_vec::<f64>(), [f64::NEG_INFINITY, 1.0]);
        y.slice(crate::s![1]).backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0]);
    }
}
