//! The types of per-example rules: which slices of a value belong to which example, and the gradients
//! of the examples with respect to the value.

use std::fmt;
use std::sync::Arc;

use crate::function::Spec;
use crate::variable::Variable;

/// For each slice of a value along one axis, the example that it belongs to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Examples {
    axis: usize,
    count: usize,
    /// The owner of each slice. Without a list, slice `i` belongs to example `i`.
    owners: Option<Arc<[Option<usize>]>>,
}

impl Examples {
    /// Creates `count` examples, of which example `i` owns slice `i` along `axis`.
    pub fn along(axis: usize, count: usize) -> Self {
        Self {
            axis,
            count,
            owners: None,
        }
    }

    /// Returns the axis.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// Returns the number of examples.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of slices.
    pub fn slices(&self) -> usize {
        self.owners
            .as_ref()
            .map_or(self.count, |owners| owners.len())
    }

    /// Returns the example that a slice belongs to, or `None` if no loss depends on it.
    pub fn owner(&self, slice: usize) -> Option<usize> {
        match &self.owners {
            None => Some(slice),
            Some(owners) => owners[slice],
        }
    }

    /// Returns the same examples along another axis.
    #[must_use]
    pub fn moved(&self, axis: usize) -> Self {
        Self {
            axis,
            ..self.clone()
        }
    }

    /// Returns the same examples along an axis with other slices, whose owners are `owners`.
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

    /// Returns whether slice `i` belongs to example `i` for every `i`.
    pub fn is_each(&self) -> bool {
        self.owners.is_none()
    }

    /// Returns the examples along an axis whose slice `k` is the slice of `self` at position `k` of
    /// `positions`.
    #[must_use]
    pub(crate) fn picked(&self, axis: usize, positions: impl IntoIterator<Item = usize>) -> Self {
        let owners = positions.into_iter().map(|slice| self.owner(slice));
        self.owned_by(axis, owners.collect())
    }

    /// Returns the examples along an axis with `size` slices, where slice `k` of `self` is put at
    /// position `k` of `positions`. Returns `None` if two examples meet in one slice.
    pub(crate) fn spread(
        &self,
        axis: usize,
        size: usize,
        positions: impl IntoIterator<Item = usize>,
    ) -> Option<Self> {
        self.parted(axis, size, positions.into_iter().map(|position| [position]))
    }

    /// Does the same as [`Examples::spread`], with slice `k` of `self` put at all the positions in
    /// part `k`.
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

    /// Returns the owners of the slices of a sum whose terms have the same slices, or `None` if two
    /// examples meet in one slice or the slices differ.
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

    /// Returns whether a value with this shape has the axis of the examples.
    pub(crate) fn fit(&self, spec: &Spec) -> bool {
        spec.shape.get(self.axis) == Some(&self.slices())
    }

    /// Returns the examples after a reshape: along the first axis of the new shape whose every slice
    /// belongs to one example.
    pub(crate) fn reshaped(&self, from: &[usize], to: &[usize]) -> Option<Self> {
        let size = self.slices();
        let inner = |shape: &[usize], axis: usize| shape[axis + 1..].iter().product::<usize>();
        let (total, own) = (from.iter().product::<usize>(), inner(from, self.axis));
        let along = |axis: usize| -> Option<Self> {
            let (slices, step) = (to[axis], inner(to, axis));
            if (slices, step) == (size, own) {
                return Some(self.moved(axis));
            }
            // No loss depends on the elements of an empty value.
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

    /// Returns the slices of each example, padded with `None` to the same number for every example.
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

/// The cotangent of a value whose slices each belong to one example. Together, the cotangents of all
/// examples are as large as the value itself.
#[derive(Clone, Debug)]
pub struct ExampleCotangent {
    /// The cotangents, in the shape of the value.
    pub cotangent: Variable,
    /// The owners of the slices.
    pub examples: Examples,
}

impl ExampleCotangent {
    /// Computes the gradients of inputs that have the examples along the same axis as the output, by
    /// a rule that computes their cotangents.
    pub fn pull_back<const N: usize>(
        self,
        vjp: impl FnOnce(Variable) -> [Option<Variable>; N],
    ) -> [Option<ExampleGradient>; N] {
        let examples = self.examples;
        vjp(self.cotangent).map(|gx| Some(ExampleGradient::sliced(gx?, examples.clone())))
    }

    /// Does the same as [`ExampleCotangent::pull_back`], for a function that mixes the slices along
    /// the axes in `mixed`.
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

/// The result of a per-example rule for one input.
#[derive(Clone, Debug)]
pub enum ExampleGradient {
    /// Each slice of the input belongs to one example.
    Sliced(ExampleCotangent),
    /// All examples use the whole input: a cotangent for each of them, with shape `[examples, ..]`.
    Stacked(Variable),
    /// All examples use the whole input: their cotangents as a sum of products, computed on request.
    OuterProduct(OuterProduct),
    /// The sum of several of the kinds above, which are kept apart.
    Sum(Vec<ExampleGradient>),
    /// The result of one example depends on a part of the input that belongs to another.
    Mixed,
    /// The rule does not know. The cotangents of all examples are then computed by `vjp` under
    /// `vmap`.
    Unknown,
}

impl ExampleGradient {
    /// Creates the gradient of an input whose slices belong to the examples.
    pub fn sliced(cotangent: Variable, examples: Examples) -> Self {
        Self::Sliced(ExampleCotangent {
            cotangent,
            examples,
        })
    }

    /// Returns the shape and dtype of the cotangent if they do not fit this input.
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
            Self::Sum(terms) => return terms.iter().find_map(|term| term.misfit(input)),
            Self::OuterProduct(_) | Self::Mixed | Self::Unknown => return None,
        };
        (!fits).then_some(found)
    }
}

type Sum = dyn Fn(&Variable, &Variable) -> Variable + Send + Sync;

/// The cotangents of a value that all examples use, as factors. The cotangent of example `e` is
/// `sum(a[e], b[e])`, where `sum` is linear in `b` and adds up products over the first axis of its
/// arguments.
#[derive(Clone)]
pub struct OuterProduct {
    /// The values that each example combines with the shared value, `[examples, l, ..]`.
    pub a: Variable,
    /// The cotangents at the same positions, `[examples, l, ..]`.
    pub b: Variable,
    /// The function from `[m, ..]` and `[m, ..]` to the cotangent of the value.
    pub sum: Arc<Sum>,
    /// The known form of the sum.
    pub form: ProductForm,
    /// The same sum as a product of matrices, where there is one.
    pub(crate) matrices: Option<Matrices>,
}

type Pair = dyn Fn(&Variable, &Variable) -> [Variable; 2] + Send + Sync;

/// A sum of products as the product of matrices `[l, d]` and `[l, p]` for each example. Norms are
/// computed from it.
#[derive(Clone)]
pub(crate) struct Matrices {
    /// `l`, `d` and `p`.
    pub(crate) sizes: [usize; 3],
    /// Computes the matrices of some examples.
    pub(crate) make: Arc<Pair>,
}

/// The known form of the sum of an [`OuterProduct`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProductForm {
    /// `aᵀ b`, a product of matrices, or its transpose `bᵀ a`.
    Matrix {
        /// Whether it is `bᵀ a`.
        transposed: bool,
    },
    /// The rows of `b`, added up at the positions `a`.
    Picked,
    /// Any other sum.
    Other,
}

impl OuterProduct {
    /// Creates a product whose sum has this form.
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

    /// Adds a way to compute the same sum as a product of matrices.
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
