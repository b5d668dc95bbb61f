//! Arrays split into parts along an axis.

use bibun_array::{Array, normalize_axis};

use super::concat::joined;
use crate::batch::Batched;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::families::method;
use crate::variable::Variable;

/// Splits x into `sections` parts of equal size along `axis`.
///
/// Shapes: x `[.., n, ..]` → `sections` times `[.., n / sections, ..]`. Types: all.
/// Gradient: those of the parts, joined; unused parts have zeros.
///
/// # Panics
/// Panics if the axis cannot be split into equal sections (see [`array_split`]) or does not exist.
///
/// ```
/// use bibun::{functions::split, Variable};
/// let parts = split(&Variable::new([1.0, 2.0, 3.0, 4.0]), 2, 0);
/// assert_eq!(parts[1].to_vec::<f64>(), [3.0, 4.0]);
/// ```
#[track_caller]
pub fn split(x: impl Into<Variable>, sections: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split", axis, x.rank());
    if sections == 0 || !x.shape()[axis].is_multiple_of(sections) {
        let spec = x.spec();
        let what = format!("axis {axis} of x = {spec} has no {sections} sections of equal size");
        raise(Error::argument("split", what));
    }
    array_split(x, sections, axis as isize)
}
method!(split -> Vec<Self>, sections: usize, axis: isize);

/// Splits x into `sections` parts along `axis` whose sizes differ by at most one, the larger ones first.
///
/// Shapes: x `[.., n, ..]` → `sections` times `[.., m, ..]` with `m` about `n / sections`.
/// Types: all. Gradient: those of the parts, joined; unused parts have zeros.
///
/// # Panics
/// Panics if `sections` is zero or `axis` does not exist.
///
/// ```
/// use bibun::{functions::array_split, Variable};
/// let parts = array_split(&Variable::new([1.0, 2.0, 3.0]), 2, 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [3.0]);
/// ```
#[track_caller]
pub fn array_split(x: impl Into<Variable>, sections: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("array_split", axis, x.rank());
    if sections == 0 {
        raise(Error::argument("array_split", "no sections are asked for"));
    }
    let size = x.shape()[axis];
    let (each, larger) = (size / sections, size % sections);
    let positions = (1..sections).map(|section| section * each + section.min(larger));
    let positions = positions.collect();
    cut(x, positions, axis)
}
method!(array_split -> Vec<Self>, sections: usize, axis: isize);

/// Splits x along `axis` before each of `positions`: from the start to the first, from there to the
/// second, ..., and from the last to the end. Positions behind the end give empty parts.
///
/// Shapes: x `[.., n, ..]` → one array more than there are positions. Types: all.
/// Gradient: those of the parts, joined; unused parts have zeros.
///
/// # Panics
/// Panics if the positions are not in ascending order or `axis` does not exist.
///
/// ```
/// use bibun::{functions::split_at, Variable};
/// let parts = split_at(&Variable::new([1.0, 2.0, 3.0, 4.0]), &[1], 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [2.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn split_at(x: impl Into<Variable>, positions: &[usize], axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split_at", axis, x.rank());
    if !positions.is_sorted() {
        let what = format!("the positions {positions:?} are not in ascending order");
        raise(Error::argument("split_at", what));
    }
    let size = x.shape()[axis];
    let positions = positions.iter().map(|&position| position.min(size));
    let positions = positions.collect();
    cut(x, positions, axis)
}
method!(split_at -> Vec<Self>, positions: &[usize], axis: isize);

/// Splits x into parts of these sizes along `axis`.
///
/// Shapes: x `[.., n, ..]`, sizes that add up to n → for each of them `[.., size, ..]`. Types: all.
/// Gradient: those of the parts, joined; unused parts have zeros.
///
/// # Panics
/// Panics if the sizes do not add up to that of the axis, or `axis` does not exist.
///
/// ```
/// use bibun::{functions::split_sizes, Variable};
/// let parts = split_sizes(&Variable::new([1.0, 2.0, 3.0]), &[1, 2], 0);
/// assert_eq!(parts[0].to_vec::<f64>(), [1.0]);
/// assert_eq!(parts[1].to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn split_sizes(x: impl Into<Variable>, sizes: &[usize], axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("split_sizes", axis, x.rank());
    let total = sizes
        .iter()
        .try_fold(0usize, |sum, &size| sum.checked_add(size));
    if total != Some(x.shape()[axis]) {
        let what = format!(
            "the sizes {sizes:?} do not add up to axis {axis} of x = {}",
            x.spec()
        );
        raise(Error::argument("split_sizes", what));
    }
    if sizes.is_empty() {
        return Vec::new();
    }
    let mut end = 0;
    let mut positions = Vec::with_capacity(sizes.len() - 1);
    for size in &sizes[..sizes.len() - 1] {
        end += size;
        positions.push(end);
    }
    cut(x, positions, axis)
}
method!(split_sizes -> Vec<Self>, sizes: &[usize], axis: isize);

/// Splits x into at most `chunks` parts along `axis`, all but the last of size `⌈n / chunks⌉`, as
/// `torch.chunk` does. There may be fewer parts than `chunks`; [`array_split`] always returns that
/// number.
///
/// Shapes: x `[.., n, ..]` → several `[.., ⌈n / chunks⌉, ..]`, the last of the remaining size. Types: all.
/// Gradient: those of the parts, joined; unused parts have zeros.
///
/// # Panics
/// Panics if `chunks` is zero or `axis` does not exist.
///
/// ```
/// use bibun::{functions::chunk, Variable};
/// let parts = chunk(&Variable::new([1.0, 2.0, 3.0, 4.0, 5.0]), 4, 0);
/// let sizes: Vec<usize> = parts.iter().map(Variable::size).collect();
/// assert_eq!(sizes, [2, 2, 1]);
/// ```
#[track_caller]
pub fn chunk(x: impl Into<Variable>, chunks: usize, axis: isize) -> Vec<Variable> {
    let x = x.into();
    let axis = normalize_axis("chunk", axis, x.rank());
    if chunks == 0 {
        raise(Error::argument("chunk", "no chunks are asked for"));
    }
    let size = x.shape()[axis];
    let positions = match size.div_ceil(chunks) {
        // An empty axis has as many parts as were asked for, as in PyTorch.
        0 => vec![0; chunks - 1],
        each => (1..size.div_ceil(each)).map(|part| part * each).collect(),
    };
    cut(x, positions, axis)
}
method!(chunk -> Vec<Self>, chunks: usize, axis: isize);

/// Splits before each of `positions`, which are ascending and within the axis.
#[track_caller]
pub(super) fn cut(x: Variable, positions: Vec<usize>, axis: usize) -> Vec<Variable> {
    crate::apply(Split { positions, axis }, [x])
}

#[derive(Clone, Debug)]
struct Split {
    positions: Vec<usize>,
    axis: usize,
}

impl Function for Split {
    type Inputs = Fixed<1>;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "split"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<Vec<Spec>, Mismatch> {
        let size = x.shape[self.axis];
        let starts = [0].into_iter().chain(self.positions.iter().copied());
        let stops = self.positions.iter().copied().chain([size]);
        let part = |(start, stop)| Spec::new(x.shape.replaced(self.axis, stop - start), x.dtype);
        Ok(starts.zip(stops).map(part).collect())
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, [x]: [Array; 1]) -> Vec<Array> {
        x.split_at(&self.positions, self.axis as isize)
    }

    fn vjp(&self, _: &Context<'_>, gy: Vec<Variable>) -> [Option<Variable>; 1] {
        [Some(joined(gy, self.axis))]
    }

    fn jvp(&self, _: &Context<'_>, [dx]: [Option<Variable>; 1]) -> Vec<Option<Variable>> {
        let parts = self.positions.len() + 1;
        match dx {
            Some(dx) => crate::apply(self.clone(), [dx])
                .into_iter()
                .map(Some)
                .collect(),
            None => vec![None; parts],
        }
    }

    fn batch(&self, [x]: [Batched; 1]) -> Vec<Batched> {
        let batch = x.axis.expect("the only input has a batch axis");
        // The batch axis stays where it is; only the own axis may be behind it now.
        let split = Self {
            axis: self.axis + usize::from(batch <= self.axis),
            ..self.clone()
        };
        let parts = crate::apply(split, [x.value]);
        parts
            .into_iter()
            .map(|y| Batched::along(y, batch))
            .collect()
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> [Option<ExampleGradient>; 1] {
        let first = &gy[0].examples;
        let axis = first.axis();
        let examples = match axis == self.axis {
            _ if gy.iter().any(|gy| gy.examples.axis() != axis) => None,
            true => {
                let owners = gy
                    .iter()
                    .flat_map(|gy| (0..gy.examples.slices()).map(|slice| gy.examples.owner(slice)));
                Some(first.owned_by(axis, owners.collect()))
            }
            false => {
                let merged = |all: Examples, gy: &ExampleCotangent| all.merged(&gy.examples);
                gy.iter().try_fold(first.clone(), merged)
            }
        };
        let Some(examples) = examples else {
            return [Some(ExampleGradient::Unknown)];
        };
        let cotangents = gy.into_iter().map(|gy| gy.cotangent).collect();
        let [gx] = self.vjp(cx, cotangents);
        [gx.map(|gx| ExampleGradient::sliced(gx, examples))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "split",
            |x| split(&x[0], 2, 1),
            move |x| {
                let part = |p: usize| by_index([3, 2], |i| at(&x[0], &[i[0], 2 * p + i[1]]));
                vec![part(0), part(1)]
            },
        )
        .input([3, 4], range.clone()),
        Sample::new(
            "split",
            |x| split(&x[0], 3, 0).split_off(2),
            move |x| vec![by_index([1, 2], |i| at(&x[0], &[2, i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "array_split",
            |x| array_split(&x[0], 2, -2),
            move |x| {
                vec![
                    by_index([2, 2], |i| at(&x[0], i)),
                    by_index([1, 2], |i| at(&x[0], &[2, i[1]])),
                ]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "split_sizes",
            |x| split_sizes(&x[0], &[1, 0, 2], 0),
            move |x| {
                vec![
                    by_index([1, 2], |i| at(&x[0], i)),
                    by_index([0, 2], |_| 0.0),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 1, i[1]])),
                ]
            },
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "chunk",
            |x| chunk(&x[0], 4, -2),
            move |x| {
                vec![
                    by_index([2, 2], |i| at(&x[0], i)),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 2, i[1]])),
                    by_index([1, 2], |i| at(&x[0], &[i[0] + 4, i[1]])),
                ]
            },
        )
        .input([5, 2], range.clone()),
        Sample::new(
            "split_at",
            |x| split_at(&x[0], &[1, 1, 7], 0),
            move |x| {
                vec![
                    by_index([1, 2], |i| at(&x[0], i)),
                    by_index([0, 2], |_| 0.0),
                    by_index([2, 2], |i| at(&x[0], &[i[0] + 1, i[1]])),
                    by_index([0, 2], |_| 0.0),
                ]
            },
        )
        .input([3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::DType;

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = |f: &dyn Fn() -> Vec<Variable>| crate::attempt(f).unwrap_err().to_string();
        let error = message(&|| split(&x, 3, 1));
        assert!(error.contains("no 3 sections of equal size"), "{error}");
        let error = message(&|| split_at(&x, &[2, 1], 1));
        assert!(error.contains("ascending"), "{error}");
    }

    #[test]
    fn chunks_may_be_fewer_and_sizes_must_add_up() {
        let sizes = |parts: Vec<Variable>| {
            let sizes = parts.iter().map(|part| part.shape()[0]);
            sizes.collect::<Vec<usize>>()
        };
        let x = Variable::new([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(sizes(x.chunk(4, 0)), [2, 2, 1]);
        assert_eq!(sizes(x.chunk(2, 0)), [3, 2]);
        assert_eq!(sizes(x.chunk(9, 0)), [1; 5]);
        let nothing = Variable::new(Array::zeros([0, 2], DType::F64));
        assert_eq!(sizes(nothing.chunk(3, 0)), [0; 3]);
        assert_eq!(sizes(x.split_sizes(&[0, 5], 0)), [0, 5]);
        assert!(nothing.split_sizes(&[], 0).is_empty());
        for wrong in [&[2, 2][..], &[], &[usize::MAX, 6]] {
            let error = crate::attempt(|| x.split_sizes(wrong, 0)).unwrap_err();
            let message =
                format!("split_sizes: the sizes {wrong:?} do not add up to axis 0 of x = [5] f64");
            assert!(error.to_string().starts_with(&message), "{error}");
        }
        assert!(crate::attempt(|| x.chunk(0, 0)).is_err());
    }
}
