//! The transformation that runs many examples at once.

use std::fmt;

use bibun_array::normalize_axis;

use crate::batch::{self, Batched};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::{concat, split_at};
use crate::randomness::{Draw, Randomness, first_of_elements};
use crate::surroundings::Surroundings;
use crate::tree::{Leaves, Tree, for_tuples};
use crate::variable::Variable;

/// The batch axes of a Tree: an axis, or [`None`] for a value that is the same for all batch
/// elements, for all leaves of the Tree or for each part of it.
///
/// ```
/// use bibun::BatchAxes;
/// let _all = BatchAxes::from(0);
/// let _of_a_pair = BatchAxes::from((0, None));
/// let _of_fields = BatchAxes::named([("images", Some(0)), ("model", None)]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchAxes(Vec<(String, Option<isize>)>);

impl BatchAxes {
    /// Creates the axes of parts given by name: a field of a struct, a key, a position, or a path of
    /// these such as `layers/0`.
    pub fn named<S: Into<String>>(parts: impl IntoIterator<Item = (S, Option<isize>)>) -> Self {
        Self(
            parts
                .into_iter()
                .map(|(name, axis)| (name.into(), axis))
                .collect(),
        )
    }

    /// Returns the axes for the parts of a part.
    fn below(self, name: impl fmt::Display) -> impl Iterator<Item = (String, Option<isize>)> {
        self.0
            .into_iter()
            .map(move |(path, axis)| match path.as_str() {
                "" => (name.to_string(), axis),
                path => (format!("{name}/{path}"), axis),
            })
    }

    /// Returns the axis for each leaf.
    ///
    /// # Panics
    /// Panics if there is no axis for a leaf, or an axis for a part that does not exist.
    #[track_caller]
    fn of(&self, what: &str, leaves: &Leaves) -> Vec<Option<isize>> {
        let covers = |part: &str, name: &str| {
            part.is_empty()
                || name
                    .strip_prefix(part)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for (part, _) in &self.0 {
            if !part.is_empty() && !leaves.names.iter().any(|name| covers(part, name)) {
                let what =
                    format!("there is an axis for `{part}`, but the {what} has no such part");
                raise(Error::argument("vmap", what));
            }
        }
        let mut axes = Vec::with_capacity(leaves.names.len());
        for name in &leaves.names {
            match self.0.iter().find(|(part, _)| covers(part, name)) {
                Some((_, axis)) => axes.push(*axis),
                None => {
                    let what = format!("there is no axis for `{name}` of the {what}");
                    raise(Error::argument("vmap", what))
                }
            }
        }
        axes
    }
}

impl From<isize> for BatchAxes {
    fn from(axis: isize) -> Self {
        Self::from(Some(axis))
    }
}

impl From<i32> for BatchAxes {
    fn from(axis: i32) -> Self {
        Self::from(Some(axis as isize))
    }
}

impl From<Option<isize>> for BatchAxes {
    fn from(axis: Option<isize>) -> Self {
        Self(vec![(String::new(), axis)])
    }
}

impl<T: Into<BatchAxes>> From<Vec<T>> for BatchAxes {
    fn from(parts: Vec<T>) -> Self {
        let parts = parts.into_iter().enumerate();
        Self(parts.flat_map(|(i, part)| part.into().below(i)).collect())
    }
}

impl<T: Into<BatchAxes>, const N: usize> From<[T; N]> for BatchAxes {
    fn from(parts: [T; N]) -> Self {
        Self::from(Vec::from(parts))
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),*))*) => {$(
        impl<$($T: Into<BatchAxes>),*> From<($($T,)*)> for BatchAxes {
            fn from(parts: ($($T,)*)) -> Self {
                let mut axes = Vec::new();
                $(axes.extend(parts.$i.into().below($i));)*
                Self(axes)
            }
        }
    )*};
}
for_tuples!(tuples);

/// Options of [`vmap_with`].
#[derive(Clone, Debug)]
pub struct VmapOptions {
    /// The batch axes of the argument. Defaults to axis 0.
    pub in_axes: BatchAxes,
    /// The batch axes of the result. Defaults to axis 0. `None` is for a part that is the same for
    /// all batch elements.
    pub out_axes: BatchAxes,
    /// The number of batch elements that run at once. Defaults to all of them; fewer take less
    /// memory.
    pub chunk_size: Option<usize>,
    /// Whether each batch element draws its own random numbers. Defaults to
    /// [`Randomness::Different`].
    pub randomness: Randomness,
}

impl Default for VmapOptions {
    fn default() -> Self {
        Self {
            in_axes: 0.into(),
            out_axes: 0.into(),
            chunk_size: None,
            randomness: Randomness::Different,
        }
    }
}

impl VmapOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the batch axes of the argument. Defaults to axis 0 of every part.
    #[must_use]
    pub fn in_axes(mut self, in_axes: impl Into<BatchAxes>) -> Self {
        self.in_axes = in_axes.into();
        self
    }

    /// Sets the batch axes of the result. Defaults to axis 0 of every part.
    #[must_use]
    pub fn out_axes(mut self, out_axes: impl Into<BatchAxes>) -> Self {
        self.out_axes = out_axes.into();
        self
    }

    /// Sets the number of batch elements that run at once. Defaults to all of them.
    #[must_use]
    pub fn chunk_size(mut self, chunk_size: usize) -> Self {
        self.chunk_size = Some(chunk_size);
        self
    }

    /// Sets whether each batch element draws its own random numbers. Defaults to
    /// [`Randomness::Different`].
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }
}

impl From<&Self> for VmapOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}

/// Runs a function of one example for many examples at once. The batch axis is the first axis of
/// every leaf of `x` and of the result, and `f` sees single batch elements. There is no loop: each
/// function has a rule for all batch elements at once.
///
/// Captured values are the same for all batch elements. [`vmap_with`] has options for other axes.
///
/// ```
/// use bibun::{grad, vmap, Variable};
/// let w = Variable::constant([10.0, 1.0]);
/// let xs = Variable::constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let y = vmap(|x| (x * &w).sum(..), &xs);
/// assert_eq!(y.to_vec::<f64>(), [12.0, 34.0, 56.0]);
///
/// // The gradient of each example: the general way.
/// let of_each = vmap(|x| grad(|w| (x * w).sum(..).square(), &w), &xs);
/// assert_eq!(of_each.shape(), [3, 2]);
/// ```
///
/// # Panics
/// Panics if no Variable in `x` has an axis, if the numbers of batch elements differ, or if `f` reads
/// the elements of a batch element: control flow must not depend on them, because it would differ
/// between batch elements ([`where_`](crate::functions::where_) chooses by value). Also panics if
/// batch elements would store different values in a [`Buffer`](crate::links::Buffer), which holds
/// one. The message has the line.
#[track_caller]
pub fn vmap<A: Tree, Y: Tree>(f: impl FnOnce(&A) -> Y, x: &A) -> Y {
    let _called = calling("vmap");
    let options = VmapOptions::new();
    let (leaves, inputs) = batched(x, &options);
    let count = inputs.iter().find_map(Batched::count).unwrap_or(0);
    let (first, _examples) = first_of_elements(count);
    let result = run(f, x, &leaves, &inputs, Draw::Own(first));
    let out_axes = options.out_axes.of("result", &result.outputs);
    finish(&result, &out_axes)
}

/// Does the same as [`vmap`], with options: axes of each part of argument and result, parts that are
/// the same for all batch elements, chunks, and random numbers.
///
/// ```
/// use bibun::{vmap_with, VmapOptions, Variable};
/// let a = Variable::constant([[1.0, 2.0], [3.0, 4.0]]);
/// let b = Variable::constant([10.0, 1.0]);
/// // Along the columns of a, with all of b each time.
/// let y = vmap_with(|(a, b)| (a * b).sum(..), &(a, b), VmapOptions::new().in_axes((1, None)));
/// assert_eq!(y.to_vec::<f64>(), [13.0, 24.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`vmap`]; if axes are missing, too many or out of range; if a result
/// whose axis is `None` differs between batch elements; or if chunks are empty.
#[track_caller]
pub fn vmap_with<A: Tree, Y: Tree>(
    mut f: impl FnMut(&A) -> Y,
    x: &A,
    options: impl Into<VmapOptions>,
) -> Y {
    let _called = calling("vmap");
    let options = &options.into();
    let (leaves, inputs) = batched(x, options);
    let count = inputs.iter().find_map(Batched::count).unwrap_or(0);
    let chunk = options.chunk_size.unwrap_or(count);
    let (before, _examples) = first_of_elements(count);
    if chunk >= count {
        let draw = Draw::of(options.randomness, before);
        let result = run(f, x, &leaves, &inputs, draw);
        let out_axes = options.out_axes.of("result", &result.outputs);
        return finish(&result, &out_axes);
    }
    if chunk == 0 {
        raise(Error::argument("vmap", "a chunk has no batch elements"));
    }
    let ends: Vec<usize> = (chunk..count).step_by(chunk).collect();
    let chunks: Vec<Vec<Batched>> = inputs.iter().map(|input| input.split(&ends)).collect();
    let mut parts: Vec<Y> = Vec::new();
    let mut pieces: Vec<Vec<Variable>> = Vec::new();
    let mut axes = Vec::new();
    let mut first = None;
    for i in 0..=ends.len() {
        let inputs: Vec<Batched> = chunks.iter().map(|chunks| chunks[i].clone()).collect();
        let draw = Draw::of(options.randomness, before + i * chunk);
        // Chunks are one run: each sees what the first has seen, and buffers change only once.
        let run = || run(&mut f, x, &leaves, &inputs, draw);
        let result = match &first {
            None => {
                let (result, surroundings) = Surroundings::record(run);
                first = Some(surroundings);
                result
            }
            Some(first) => first.again(run),
        };
        let out_axes = options.out_axes.of("result", &result.outputs);
        let piece = finish(&result, &out_axes);
        pieces.push(Leaves::of(&piece).variables);
        parts.push(piece);
        axes = out_axes;
    }
    let whole: Vec<Variable> = (0..pieces[0].len())
        .map(|leaf| {
            let of_chunks: Vec<&Variable> = pieces.iter().map(|piece| &piece[leaf]).collect();
            match axes[leaf] {
                Some(axis) => concat(&of_chunks, axis),
                None => of_chunks[0].clone(),
            }
        })
        .collect();
    Leaves::of(&parts[0]).replaced(&parts[0], &whole)
}

/// Returns the leaves of the argument, and each with its batch axis.
#[track_caller]
fn batched<A: Tree>(x: &A, options: &VmapOptions) -> (Leaves, Vec<Batched>) {
    let leaves = Leaves::of(x);
    let axes = options.in_axes.of("argument", &leaves);
    let mut inputs = Vec::with_capacity(axes.len());
    for ((value, axis), name) in leaves.variables.iter().zip(axes).zip(&leaves.names) {
        let value = value.clone();
        // In a closure, the caller's location would be lost.
        #[allow(clippy::manual_map)]
        let axis = match axis {
            Some(_) if value.rank() == 0 => {
                let at = if name.is_empty() { "" } else { " at " };
                let what = format!(
                    "the argument{at}{name} is a single number and has no batch axis (None in \
                     VmapOptions says that it is the same for all batch elements)"
                );
                raise(Error::argument("vmap", what))
            }
            Some(axis) => Some(normalize_axis("vmap", axis, value.rank())),
            None => None,
        };
        inputs.push(Batched { value, axis });
    }
    let mut counts = leaves
        .names
        .iter()
        .zip(&inputs)
        .filter(|(_, input)| input.axis.is_some());
    let Some((first, input)) = counts.next() else {
        raise(Error::argument(
            "vmap",
            "no part of the argument has a batch axis",
        ))
    };
    let count = input.count();
    if let Some((other, input)) = counts.find(|(_, input)| input.count() != count) {
        let (a, b) = (count.unwrap_or(0), input.count().unwrap_or(0));
        let what = format!(
            "the argument has {a} batch elements at `{first}` and {b} at `{other}` (VmapOptions has an axis, or \
             None, for each part)"
        );
        raise(Error::argument("vmap", what));
    }
    (leaves, inputs)
}

/// The results of all batch elements.
struct Result<Y> {
    output: Y,
    outputs: Leaves,
    values: Vec<Batched>,
    count: usize,
}

fn run<A: Tree, Y: Tree>(
    f: impl FnOnce(&A) -> Y,
    x: &A,
    leaves: &Leaves,
    inputs: &[Batched],
    draw: Draw,
) -> Result<Y> {
    let mut result = None;
    let run = |inputs: &[Variable]| {
        let output = f(&leaves.replaced(x, inputs));
        let outputs = Leaves::of(&output);
        let variables = outputs.variables.clone();
        result = Some((output, outputs));
        variables
    };
    let count = inputs.iter().find_map(Batched::count).unwrap_or(0);
    let values = batch::run_batch(run, inputs, draw);
    let (output, outputs) = result.expect("the function has run");
    Result {
        output,
        outputs,
        values,
        count,
    }
}

/// Moves the batch axes of all results to their final positions.
#[track_caller]
fn finish<Y: Tree>(result: &Result<Y>, axes: &[Option<isize>]) -> Y {
    let mut values = Vec::with_capacity(axes.len());
    for ((output, &axis), name) in result.values.iter().zip(axes).zip(&result.outputs.names) {
        let value = match axis {
            Some(axis) => {
                let axis = normalize_axis("vmap", axis, output.spec().shape.rank() + 1);
                match output.axis {
                    Some(at) if at == axis => output.value.clone(),
                    _ => output.to_front(result.count).moveaxis(0, axis as isize),
                }
            }
            None if output.axis.is_none() => output.value.clone(),
            None => {
                let what =
                    format!("the result `{name}` differs between batch elements; it needs an axis");
                raise(Error::argument("vmap", what))
            }
        };
        values.push(value);
    }
    result.outputs.replaced(&result.output, &values)
}

impl Batched {
    /// Returns the batch elements up to each end, and the rest.
    fn split(&self, ends: &[usize]) -> Vec<Self> {
        match self.axis {
            Some(axis) => split_at(&self.value, ends, axis as isize)
                .into_iter()
                .map(|value| Self {
                    value,
                    axis: self.axis,
                })
                .collect(),
            None => vec![self.clone(); ends.len() + 1],
        }
    }
}
