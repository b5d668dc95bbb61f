//! Where the examples lie in a value, and what of their cotangents reaches it: what per-example
//! rules speak of.

use std::fmt;
use std::sync::Arc;

use crate::function::Spec;
use crate::variable::Variable;

/// Which example each slice of a value along one axis belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examples {
    axis: usize,
    count: usize,
    /// The owner of each slice; without, slice `i` belongs to example `i`.
    owners: Option<Arc<[Option<usize>]>>,
}

impl Examples {
    /// `count` examples, of which number `i` has slice `i` along `axis`.
    pub fn along(axis: usize, count: usize) -> Self {
        Self {
            axis,
            count,
            owners: None,
        }
    }

    /// The axis.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// How many examples there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many slices there are.
    pub fn slices(&self) -> usize {
        self.owners
            .as_ref()
            .map_or(self.count, |owners| owners.len())
    }

    /// The example that a slice belongs to; `None` if no loss depends on it.
    pub fn owner(&self, slice: usize) -> Option<usize> {
        match &self.owners {
            None => Some(slice),
            Some(owners) => owners[slice],
        }
    }

    /// The same examples along another axis.
    #[must_use]
    pub fn moved(&self, axis: usize) -> Self {
        Self {
            axis,
            ..self.clone()
        }
    }

    /// The same examples along an axis with other slices, of which each has this owner.
    #[must_use]
    pub fn owned_by(&self, axis: usize, owners: Vec<Option<usize>>) -> Self {
        let each = owners.len() == self.count
            && (owners.iter().enumerate()).all(|(slice, owner)| *owner == Some(slice));
        Self {
            axis,
            count: self.count,
            owners: (!each).then(|| owners.into()),
        }
    }

    /// Whether slice `i` belongs to example `i`.
    pub fn is_each(&self) -> bool {
        self.owners.is_none()
    }

    /// The examples along an axis whose slice `k` is the one at position `k` of some here.
    #[must_use]
    pub(crate) fn picked(&self, axis: usize, positions: impl IntoIterator<Item = usize>) -> Self {
        let owners = positions.into_iter().map(|slice| self.owner(slice));
        self.owned_by(axis, owners.collect())
    }

    /// The examples along an axis of `size` of which slice `k` here is that at position `k` of some;
    /// `None` if two examples meet in one slice.
    pub(crate) fn spread(
        &self,
        axis: usize,
        size: usize,
        positions: impl IntoIterator<Item = usize>,
    ) -> Option<Self> {
        self.parted(axis, size, positions.into_iter().map(|position| [position]))
    }

    /// [`Examples::spread`], where slice `k` here comes from all of the positions in part `k`.
    pub(crate) fn parted(
        &self,
        axis: usize,
        size: usize,
        parts: impl IntoIterator<Item = impl IntoIterator<Item = usize>>,
    ) -> Option<Self> {
        let mut owners = vec![None; size];
        for (slice, positions) in parts.into_iter().enumerate() {
            let owner = self.owner(slice);
            for position in positions {
                let known = &mut owners[position];
                if known.is_some() && owner.is_some() && *known != owner {
                    return None;
                }
                *known = known.or(owner);
            }
        }
        Some(self.owned_by(axis, owners))
    }

    /// Whose the slices of a sum are, of which both terms have slices along the same axis.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        if (self.axis, self.slices()) != (other.axis, other.slices()) {
            return None;
        }
        let owners =
            (0..self.slices()).map(|slice| match (self.owner(slice), other.owner(slice)) {
                (Some(a), Some(b)) if a != b => None,
                (a, b) => Some(a.or(b)),
            });
        Some(self.owned_by(self.axis, owners.collect::<Option<_>>()?))
    }

    /// Whether a value that looks like this has the examples' axis.
    pub(crate) fn fit(&self, spec: &Spec) -> bool {
        spec.shape.get(self.axis) == Some(&self.slices())
    }

    /// Where the examples lie after a reshape: the first axis of the new shape along which every
    /// slice belongs to one example.
    pub(crate) fn reshaped(&self, from: &[usize], to: &[usize]) -> Option<Self> {
        let size = self.slices();
        let inner = |shape: &[usize], axis: usize| shape[axis + 1..].iter().product::<usize>();
        let (total, own) = (from.iter().product::<usize>(), inner(from, self.axis));
        let along = |axis: usize| -> Option<Self> {
            let (slices, step) = (to[axis], inner(to, axis));
            if (slices, step) == (size, own) {
                return Some(self.moved(axis));
            }
            // No loss depends on elements of which there are none.
            if total == 0 {
                return (slices == 0).then(|| self.owned_by(axis, Vec::new()));
            }
            let (fine, coarse) = (own.min(step), own.max(step));
            if coarse % fine != 0 {
                return None;
            }
            let mut owners: Vec<Option<Option<usize>>> = vec![None; slices];
            for at in (0..total).step_by(fine) {
                let owner = self.owner(at / own % size);
                let known = owners[at / step % slices].get_or_insert(owner);
                if *known != owner {
                    return None;
                }
            }
            let owners = owners.into_iter().map(|owner| owner.unwrap_or_default());
            Some(self.owned_by(axis, owners.collect()))
        };
        (0..to.len()).find_map(along)
    }

    /// For each example its slices, as many for one as for every other; `None` fills up.
    pub(crate) fn slices_of_each(&self) -> Vec<Vec<Option<usize>>> {
        let mut slices = vec![Vec::new(); self.count];
        for slice in 0..self.slices() {
            if let Some(owner) = self.owner(slice) {
                slices[owner].push(Some(slice));
            }
        }
        let most = slices.iter().map(Vec::len).max().unwrap_or_default();
        for own in &mut slices {
            own.resize(most, None);
        }
        slices
    }
}

/// The cotangents of a value of which each slice belongs to one example: together they are as large
/// as the value itself.
#[derive(Clone, Debug)]
pub struct ExampleCotangent {
    /// The cotangents, in the shape of the value.
    pub cotangent: Variable,
    /// Whose they are.
    pub examples: Examples,
}

impl ExampleCotangent {
    /// The shares of inputs that have the examples along the same axis as the output, from a rule
    /// that gives their cotangents.
    pub fn pull_back<const N: usize>(
        self,
        vjp: impl FnOnce(Variable) -> [Option<Variable>; N],
    ) -> [Option<ExampleGradient>; N] {
        let examples = self.examples;
        vjp(self.cotangent).map(|gx| Some(ExampleGradient::sliced(gx?, examples.clone())))
    }

    /// [`ExampleCotangent::pull_back`], of a function that mixes what lies along some axes.
    pub(crate) fn pull_back_unless<const N: usize>(
        self,
        mixed: &[usize],
        vjp: impl FnOnce(Variable) -> [Option<Variable>; N],
    ) -> [Option<ExampleGradient>; N] {
        match mixed.contains(&self.examples.axis()) {
            true => [const { Some(ExampleGradient::Mixed) }; N],
            false => self.pull_back(vjp),
        }
    }
}

/// What a per-example rule gives for one input.
#[derive(Clone, Debug)]
pub enum ExampleGradient {
    /// Each slice of the input belongs to one example.
    Sliced(ExampleCotangent),
    /// All examples use all of the input: a cotangent `[examples, ..]` for each of them.
    Stacked(Variable),
    /// The same as a sum of products that are made when they are asked for.
    OuterProduct(OuterProduct),
    /// A result of one example depends on a part of the input that belongs to another.
    Mixed,
    /// The rule does not know; the cotangents of all examples are computed by `vjp` under `vmap`.
    Unknown,
}

impl ExampleGradient {
    /// The share of an input whose slices belong to the examples.
    pub fn sliced(cotangent: Variable, examples: Examples) -> Self {
        Self::Sliced(ExampleCotangent {
            cotangent,
            examples,
        })
    }

    /// What the cotangent looks like, if it cannot be that of an input like this.
    pub(crate) fn misfit(&self, input: &Spec) -> Option<Spec> {
        let (found, fits) = match self {
            Self::Sliced(ExampleCotangent {
                cotangent,
                examples,
            }) => {
                let found = cotangent.spec();
                let fits = found == *input && examples.fit(input);
                (found, fits)
            }
            Self::Stacked(cotangent) => {
                let found = cotangent.spec();
                let of_one = found.shape.get(1..);
                let fits = of_one == Some(&input.shape[..]) && found.dtype == input.dtype;
                (found, fits)
            }
            Self::OuterProduct(_) | Self::Mixed | Self::Unknown => return None,
        };
        (!fits).then_some(found)
    }
}

type Sum = dyn Fn(&Variable, &Variable) -> Variable + Send + Sync;

/// The cotangents of a value that all examples use, in factors: that of example `e` is
/// `sum(a[e], b[e])`, where `sum` is linear in `b` and adds up products over the first axis of what
/// it is given.
#[derive(Clone)]
pub struct OuterProduct {
    /// What one example meets the value with, `[examples, l, ..]`.
    pub a: Variable,
    /// The cotangents there, `[examples, l, ..]`.
    pub b: Variable,
    /// From `[m, ..]` and `[m, ..]` to the cotangent of the value.
    pub sum: Arc<Sum>,
    /// What is known of the sum.
    pub form: ProductForm,
    /// The same sum as one of matrices, where that can be made.
    pub(crate) matrices: Option<Matrices>,
}

type Pair = dyn Fn(&Variable, &Variable) -> [Variable; 2] + Send + Sync;

/// A sum of products as the product of matrices `[l, d]` and `[l, p]` for each example, from which
/// norms can be taken.
#[derive(Clone)]
pub(crate) struct Matrices {
    /// `l`, `d` and `p`.
    pub(crate) sizes: [usize; 3],
    /// The matrices of some examples.
    pub(crate) make: Arc<Pair>,
}

/// What is known of a [`OuterProduct`]'s sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProductForm {
    /// `aᵀ b`, of matrices, or transposed `bᵀ a`.
    Matrix {
        /// Whether it is `bᵀ a`.
        transposed: bool,
    },
    /// Rows `b` added up at the positions `a`.
    Picked,
    /// Nothing more.
    Other,
}

impl OuterProduct {
    /// The product of what is `form`ed so.
    pub fn new(
        form: ProductForm,
        a: Variable,
        b: Variable,
        sum: impl Fn(&Variable, &Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        Self {
            a,
            b,
            sum: Arc::new(sum),
            form,
            matrices: None,
        }
    }

    /// With the same sum as one of matrices.
    pub(crate) fn with_matrices(
        self,
        sizes: [usize; 3],
        make: impl Fn(&Variable, &Variable) -> [Variable; 2] + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(make);
        let matrices = Some(Matrices { sizes, make });
        Self { matrices, ..self }
    }
}

impl fmt::Debug for OuterProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { a, b, form, .. } = self;
        write!(
            f,
            "{form:?} product of {} and {}",
            a.spec().shape,
            b.spec().shape
        )
    }
}
