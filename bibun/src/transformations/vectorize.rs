//! The transformation that runs many examples at once.

use std::fmt;

use bibun_array::normalize_axis;

use crate::batch::{self, Batched};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::{concat, split_at};
use crate::randomness::{Draw, Randomness};
use crate::surroundings::Surroundings;
use crate::tree::{Leaves, Tree, for_tuples};
use crate::variable::Variable;

/// Where lanes lie: an axis, or [`None`] for what is the same in every lane, for all leaves of a
/// Tree or for each part of it.
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
    /// An axis for each part, by its name: a field of a struct, a key, a position, or a path of
    /// these such as `layers/0`.
    pub fn named<S: Into<String>>(parts: impl IntoIterator<Item = (S, Option<isize>)>) -> Self {
        Self(
            parts
                .into_iter()
                .map(|(name, axis)| (name.into(), axis))
                .collect(),
        )
    }

    /// Axes for the parts of a part.
    fn below(self, name: impl fmt::Display) -> impl Iterator<Item = (String, Option<isize>)> {
        self.0
            .into_iter()
            .map(move |(path, axis)| match path.as_str() {
                "" => (name.to_string(), axis),
                path => (format!("{name}/{path}"), axis),
            })
    }

    /// The axis for each leaf.
    ///
    /// # Panics
    /// If there is none for a leaf, or one for what is not there.
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

/// How [`vmap_with`] runs.
#[derive(Clone, Debug)]
pub struct VmapOptions {
    /// Where the lanes of the argument lie: on axis 0 if nothing is said.
    pub in_axes: BatchAxes,
    /// Where the lanes of the result shall lie: on axis 0 if nothing is said. `None` for a part
    /// that is the same in every lane.
    pub out_axes: BatchAxes,
    /// How many lanes run at once, all if nothing is said: fewer take less memory.
    pub chunk: Option<usize>,
    /// Whether each lane draws random numbers of its own, as it does if nothing is said.
    pub randomness: Randomness,
}

impl Default for VmapOptions {
    fn default() -> Self {
        Self {
            in_axes: 0.into(),
            out_axes: 0.into(),
            chunk: None,
            randomness: Randomness::Different,
        }
    }
}

impl VmapOptions {
    /// With the lanes of the argument on these axes.
    pub fn axes(in_axes: impl Into<BatchAxes>) -> Self {
        Self {
            in_axes: in_axes.into(),
            ..Self::default()
        }
    }

    /// With the lanes of the result on these axes.
    #[must_use]
    pub fn out_axes(mut self, out_axes: impl Into<BatchAxes>) -> Self {
        self.out_axes = out_axes.into();
        self
    }

    /// With so many lanes at once.
    #[must_use]
    pub fn chunk(mut self, batch: usize) -> Self {
        self.chunk = Some(batch);
        self
    }

    /// With the same random numbers in every lane, or different ones.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }
}

/// Runs a function of one example for many at once: `f` sees single lanes, which lie along the first
/// axis of every leaf of `x`; those of the results do too. No loop is run: each function has a rule
/// for all lanes at once.
///
/// Captured values are the same in every lane. [`vmap_with`] has a choice of axes.
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
/// If there is no Variable with an axis in `x`, numbers of lanes differ, or `f` reads elements of a
/// lane: control flow must not depend on them, for there are as many ways as lanes
/// ([`where_`](crate::functions::where_) chooses by value). If lanes would put values of their own into
/// a [`Buffer`](crate::links::Buffer), which holds one. The message has the line.
#[track_caller]
pub fn vmap<A: Tree, Y: Tree>(f: impl FnOnce(&A) -> Y, x: &A) -> Y {
    let _called = calling("vmap");
    let options = VmapOptions::default();
    let (leaves, batch) = batch(x, &options);
    let result = run(f, x, &leaves, &batch, Draw::Own(0));
    let out_axes = options.out_axes.of("result", &result.outputs);
    finish(&result, &out_axes)
}

/// [`vmap`] with options: axes of each part of argument and result, parts that are the same in
/// every lane, chunks, and random numbers.
///
/// ```
/// use bibun::{vmap_with, VmapOptions, Variable};
/// let a = Variable::constant([[1.0, 2.0], [3.0, 4.0]]);
/// let b = Variable::constant([10.0, 1.0]);
/// // Along the columns of a, with all of b each time.
/// let y = vmap_with(|(a, b)| (a * b).sum(..), &(a, b), &VmapOptions::axes((1, None)));
/// assert_eq!(y.to_vec::<f64>(), [13.0, 24.0]);
/// ```
///
/// # Panics
/// As [`vmap`], and if axes are missing, too many or out of range, a result for which `None` is
/// said differs between batch elements, or chunks are empty.
#[track_caller]
pub fn vmap_with<A: Tree, Y: Tree>(mut f: impl FnMut(&A) -> Y, x: &A, options: &VmapOptions) -> Y {
    let _called = calling("vmap");
    let (leaves, batch) = batch(x, options);
    let count = batch.iter().find_map(Batched::count).unwrap_or(0);
    let chunk = options.chunk.unwrap_or(count);
    if chunk >= count {
        let draw = Draw::of(options.randomness, 0);
        let result = run(f, x, &leaves, &batch, draw);
        let out_axes = options.out_axes.of("result", &result.outputs);
        return finish(&result, &out_axes);
    }
    if chunk == 0 {
        raise(Error::argument("vmap", "a chunk has no batch elements"));
    }
    let ends: Vec<usize> = (chunk..count).step_by(chunk).collect();
    let chunks: Vec<Vec<Batched>> = batch.iter().map(|element| element.split(&ends)).collect();
    let mut parts: Vec<Y> = Vec::new();
    let mut pieces: Vec<Vec<Variable>> = Vec::new();
    let mut axes = Vec::new();
    let mut first = None;
    for i in 0..=ends.len() {
        let batch: Vec<Batched> = chunks.iter().map(|chunks| chunks[i].clone()).collect();
        let draw = Draw::of(options.randomness, i * chunk);
        // Chunks are one run: each sees what the first has seen, and what it changes is changed once.
        let run = || run(&mut f, x, &leaves, &batch, draw);
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

/// The leaves of the argument, and their lanes.
#[track_caller]
fn batch<A: Tree>(x: &A, options: &VmapOptions) -> (Leaves, Vec<Batched>) {
    let leaves = Leaves::of(x);
    let axes = options.in_axes.of("argument", &leaves);
    let mut batch = Vec::with_capacity(axes.len());
    for ((value, axis), name) in leaves.variables.iter().zip(axes).zip(&leaves.names) {
        let value = value.clone();
        // In a closure the caller's place would be lost.
        #[allow(clippy::manual_map)]
        let axis = match axis {
            Some(_) if value.rank() == 0 => {
                let at = if name.is_empty() { "" } else { " at " };
                let what = format!(
                    "the argument{at}{name} is a single number and has no batch axis (None in \
                     VmapOptions says that it is the same in every element)"
                );
                raise(Error::argument("vmap", what))
            }
            Some(axis) => Some(normalize_axis("vmap", axis, value.rank())),
            None => None,
        };
        batch.push(Batched { value, axis });
    }
    let mut counts = leaves
        .names
        .iter()
        .zip(&batch)
        .filter(|(_, element)| element.axis.is_some());
    let Some((first, element)) = counts.next() else {
        raise(Error::argument(
            "vmap",
            "no part of the argument has an axis of batch",
        ))
    };
    let count = element.count();
    if let Some((other, element)) = counts.find(|(_, element)| element.count() != count) {
        let (a, b) = (count.unwrap_or(0), element.count().unwrap_or(0));
        let what = format!(
            "the argument has {a} batch at `{first}` and {b} at `{other}` (vmap_with has an axis, or \
             None, for each part)"
        );
        raise(Error::argument("vmap", what));
    }
    (leaves, batch)
}

/// What all lanes gave.
struct Result<Y> {
    output: Y,
    outputs: Leaves,
    batch: Vec<Batched>,
    count: usize,
}

fn run<A: Tree, Y: Tree>(
    f: impl FnOnce(&A) -> Y,
    x: &A,
    leaves: &Leaves,
    batch: &[Batched],
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
    let count = batch.iter().find_map(Batched::count).unwrap_or(0);
    let batch = batch::run_batch(run, batch, draw);
    let (output, outputs) = result.expect("the function has run");
    Result {
        output,
        outputs,
        batch,
        count,
    }
}

/// Puts the lanes of all results where they shall lie.
#[track_caller]
fn finish<Y: Tree>(result: &Result<Y>, axes: &[Option<isize>]) -> Y {
    let mut values = Vec::with_capacity(axes.len());
    for ((element, &axis), name) in result.batch.iter().zip(axes).zip(&result.outputs.names) {
        let value = match axis {
            Some(axis) => {
                let axis = normalize_axis("vmap", axis, element.spec().shape.rank() + 1);
                match element.axis {
                    Some(at) if at == axis => element.value.clone(),
                    _ => element.to_front(result.count).moveaxis(0, axis as isize),
                }
            }
            None if element.axis.is_none() => element.value.clone(),
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
    /// The lanes up to each end, and the rest.
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
