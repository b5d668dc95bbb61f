//! A frame of one value around an array, and between its elements.

use bibun_array::{Array, DType, Index, Scalar, Shape};
use smallvec::SmallVec;

use crate::batch::Batched;
use crate::call::{composite, composite_if};
use crate::context::Context;
use crate::error::{Error, mismatch, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::{Operand, cast, expand_dims, reshape, slice, where_};
use crate::variable::Variable;

/// Pads x with `value`: `widths[i]` is the number of elements before and after axis `i`, or also,
/// third, between each two of its elements. Negative numbers before and after take elements away,
/// after those between are there.
///
/// Shapes: x `[n, ..]` → `[before + n + between (n - 1) + after, ..]`, value `[]` or a number.
/// Types: all; `value` is cast to the dtype of x.
/// Gradient: to each element of x the `gy` where it is; to a value that is a Variable the sum of the
/// others.
/// Source: the third number and the order are those of `lax.pad`.
///
/// # Panics
/// Panics if there is not one of `widths` for each axis, more is taken away than there is, a number
/// between elements is negative, or the value is more than one.
///
/// ```
/// use bibun::{functions::pad, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// assert_eq!(pad(&x, &[(1, 2)], 0.5).to_vec::<f64>(), [0.5, 1.0, 2.0, 0.5, 0.5]);
/// assert_eq!(pad(&x, &[(-1, 1)], 0.5).to_vec::<f64>(), [2.0, 0.5]);
/// assert_eq!(pad(&x, &[(0, 1, 2)], 0).to_vec::<f64>(), [1.0, 0.0, 0.0, 2.0, 0.0]);
/// let value = Variable::new(0.5);
/// pad(&x, &[(1, 2)], &value).sum(..).backward();
/// assert_eq!(value.grad().unwrap().item::<f64>(), 3.0);
/// ```
#[track_caller]
pub fn pad(
    x: impl Into<Variable>,
    widths: &[impl Into<PadWidth> + Copy],
    value: impl Into<Operand>,
) -> Variable {
    let x = x.into();
    let widths: SmallVec<[PadWidth; 4]> = widths.iter().map(|&width| width.into()).collect();
    match (widths.iter().map(PadWidth::around).collect(), value.into()) {
        (Some(around), Operand::Number(value)) => {
            let is_kept = value.dtype().kind() == x.dtype().kind();
            let _whole = composite_if(!is_kept || x.dtype().is_integer(), "pad");
            framed(x, around, value)
        }
        (_, value) => {
            let _whole = composite("pad");
            check(&x.spec(), &widths);
            match value {
                Operand::Number(value) => moved(x, &widths, value),
                Operand::Variable(value) => {
                    if value.rank() > 0 {
                        let what =
                            format!("the value is {}, expected [] or a number", value.spec());
                        raise(Error::argument("pad", what));
                    }
                    let inside = Variable::constant(Array::ones(x.shape(), DType::Bool));
                    let inside = moved(inside, &widths, false.into()).to(x.device());
                    let value = cast(value, x.dtype());
                    where_(inside, moved(x, &widths, 0.into()), value)
                }
            }
        }
    }
}
method!(pad, widths: &[impl Into<PadWidth> + Copy], value: impl Into<Operand>);

/// The padding of one axis: `(before, after)`, or `(before, after, between)` with a number of elements
/// between each two; see [`pad`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PadWidth {
    before: isize,
    after: isize,
    between: isize,
}

impl<A: TryInto<isize>, B: TryInto<isize>> From<(A, B)> for PadWidth {
    fn from((before, after): (A, B)) -> Self {
        Self::from((before, after, 0))
    }
}

impl<A: TryInto<isize>, B: TryInto<isize>, C: TryInto<isize>> From<(A, B, C)> for PadWidth {
    fn from((before, after, between): (A, B, C)) -> Self {
        // No array is so large that the difference matters.
        Self {
            before: before.try_into().unwrap_or(isize::MAX),
            after: after.try_into().unwrap_or(isize::MAX),
            between: between.try_into().unwrap_or(isize::MAX),
        }
    }
}

impl PadWidth {
    /// Returns the numbers of elements before and after, if that is all.
    fn around(&self) -> Option<(usize, usize)> {
        let width = |width: isize| usize::try_from(width).ok();
        match self.between {
            0 => Some((width(self.before)?, width(self.after)?)),
            _ => None,
        }
    }

    /// Returns the size of an axis with the elements between its own.
    fn spread(&self, size: usize) -> isize {
        let gaps = size.saturating_sub(1) as isize;
        (size as isize).saturating_add(gaps.saturating_mul(self.between))
    }

    /// Returns the size of the padded axis.
    fn size(&self, size: usize) -> isize {
        let kept = self.spread(size).saturating_add(self.before);
        kept.saturating_add(self.after)
    }
}

#[track_caller]
fn check(x: &Spec, widths: &[PadWidth]) {
    if widths.len() != x.shape.rank() {
        let must_hold = format!("each axis needs one of the {} widths", widths.len());
        mismatch("pad", &[("x", x)], must_hold);
    }
    for (axis, (&size, width)) in x.shape.iter().zip(widths).enumerate() {
        let PadWidth { before, after, .. } = width;
        if width.between < 0 {
            let what = format!("{} elements between those of axis {axis}", width.between);
            raise(Error::argument("pad", what));
        }
        if width.size(size) < 0 {
            let what =
                format!("{before} and {after} take more from axis {axis} of x = {x} than it has");
            raise(Error::argument("pad", what));
        }
    }
}

/// Pads x by widths that fit.
#[track_caller]
fn moved(mut x: Variable, widths: &[PadWidth], value: Scalar) -> Variable {
    for (axis, width) in widths.iter().enumerate() {
        if width.between > 0 {
            x = spread(x, axis, width.between as usize, value);
        }
    }
    let shape = x.shape();
    let mut kept: SmallVec<[Index; 4]> = SmallVec::new();
    let mut around: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    let mut is_cut = false;
    for (&size, width) in shape.iter().zip(widths) {
        // The elements of x are in `before..before + size` of `0..whole`.
        let (size, before) = (size as isize, width.before);
        let whole = size.saturating_add(before).saturating_add(width.after);
        let begin = before.clamp(0, whole);
        let end = before.saturating_add(size).clamp(begin, whole);
        let first = (begin - before).clamp(0, size);
        kept.push(Index::from(first as usize..(first + end - begin) as usize));
        around.push((begin as usize, (whole - end) as usize));
        is_cut |= end - begin < size;
    }
    let x = if is_cut { slice(x, &kept) } else { x };
    framed(x, around, value)
}

/// Puts elements between those of an axis.
#[track_caller]
fn spread(x: Variable, axis: usize, between: usize, value: Scalar) -> Variable {
    let shape = x.shape();
    let (size, rank) = (shape[axis], shape.rank());
    let mut widths = SmallVec::from_elem((0, 0), rank + 1);
    widths[axis + 1] = (0, between);
    let x = framed(expand_dims(x, axis as isize + 1), widths, value);
    let x = reshape(x, shape.replaced(axis, size * (between + 1)));
    let mut kept: SmallVec<[Index; 4]> = SmallVec::from_elem(Index::from(..), axis + 1);
    kept[axis] = Index::from(..(size * (between + 1)).saturating_sub(between));
    slice(x, &kept)
}

/// Puts elements around those of x.
#[track_caller]
fn framed(x: Variable, widths: SmallVec<[(usize, usize); 4]>, value: Scalar) -> Variable {
    let value = value.beside(x.dtype()).cast(x.dtype());
    let [y] = crate::apply(Pad { widths, value }, [x]);
    y
}

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

    fn takes_complex(&self) -> bool {
        true
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
    /// Each element of the result by itself.
    fn padded(x: &Array, widths: &[(isize, isize, isize)], value: f64) -> Array {
        let sizes = x.shape().iter().zip(widths);
        let shape: Shape = sizes
            .map(|(&n, (before, after, between))| {
                let n = n as isize;
                (before + n + (n - 1) * between + after) as usize
            })
            .collect();
        let of_axis = |i: usize, n: usize, (before, _, between): (isize, isize, isize)| {
            let place = i as isize - before;
            let is_one = place >= 0 && place % (between + 1) == 0;
            let place = place / (between + 1);
            (is_one && place < n as isize).then_some(place as usize)
        };
        by_index(shape, |i| {
            let axes = i.iter().zip(x.shape().iter()).zip(widths);
            let place: Option<Vec<usize>> = axes
                .map(|((&i, &n), &width)| of_axis(i, n, width))
                .collect();
            place.map_or(value, |place| at(x, &place))
        })
    }
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
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(0, 0); 0], 1)],
            |x| vec![x[0].clone()],
        )
        .input((), range.clone()),
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(-1, 1), (2, -2)], 0.5)],
            move |x| vec![padded(&x[0], &[(-1, 1, 0), (2, -2, 0)], 0.5)],
        )
        .input([3, 4], range.clone()),
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(1, 0, 2), (-2, 1, 1), (0, 0, 0)], 0.5)],
            move |x| vec![padded(&x[0], &[(1, 0, 2), (-2, 1, 1), (0, 0, 0)], 0.5)],
        )
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(1, -1, 1), (0, 2, 0)], &x[1])],
            move |x| {
                let value = x[1].item::<f64>();
                vec![padded(&x[0], &[(1, -1, 1), (0, 2, 0)], value)]
            },
        )
        .input([3, 2], range.clone())
        .input((), range.clone()),
        Sample::new(
            "pad",
            |x| vec![pad(&x[0], &[(1, 2)], &x[1])],
            move |x| vec![padded(&x[0], &[(1, 2, 0)], x[1].item::<f64>())],
        )
        .input([2], range.clone())
        .input((), range),
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
    fn more_may_be_taken_than_is_there_if_enough_is_added() {
        let x = Variable::new([1.0, 2.0]);
        // As in lax.pad, -3 leaves less than nothing, and takes one of the four.
        assert_eq!(x.pad(&[(-3, 4)], 9).to_vec::<f64>(), [9.0; 3]);
        assert_eq!(x.pad(&[(4, -5)], 9).to_vec::<f64>(), [9.0]);
        assert_eq!(x.pad(&[(-1, -1)], 9).shape(), [0]);
        assert_eq!(x.pad(&[(-1, -1, 3)], 9).to_vec::<f64>(), [9.0; 3]);
        let nothing = Variable::new(Array::zeros([0], DType::F64));
        assert_eq!(nothing.pad(&[(1, 1, 3)], 9).to_vec::<f64>(), [9.0; 2]);
        let error = crate::attempt(|| x.pad(&[(-2, -1)], 0))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("-2 and -1 take more from axis 0 of x = [2] f64"),
            "{error}"
        );
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
