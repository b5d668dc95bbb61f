//! The gradient of each example's loss by itself, from one forward and one backward run.

use std::fmt;
use std::ops::Range;

use bibun_array::{Array, DType, Index, Shape, cpu};

use super::{float_leaves, vjp};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, Examples, Matrices, OuterProduct, ProductForm};
use crate::function::Spec;
use crate::functions::{
    batch_l2_norm_squared, concat, equal, matmul, maximum, reshape, slice, sqrt, square, sum,
    swapaxes, take, where_,
};
use crate::node::{Edge, HistoryEntry};
use crate::per_example::{Part, pull_apart};
use crate::reverse::GradOptions;
use crate::tree::{Leaves, Tree};
use crate::variable::Variable;

/// Bytes of rows that are made at once where only a summary of them is wanted: about what stays in
/// a core's cache.
const CHUNK: usize = 1 << 19;

/// The gradients of the losses of examples with respect to `parameters` (a model, a part of it, a
/// Variable, any [`Tree`] of floats), each example's by itself: from the history of one forward run,
/// by one walk back.
///
/// `losses` is the vector `[n]` of the examples' losses, not yet reduced. A scalar is taken if it is
/// the sum or the mean of such a vector, and then means the vector: gradients are never divided by
/// the number of examples. Nothing is computed for layers in front of the first parameter that is
/// asked for. Frozen parameters are not asked for: containers that come back have nothing in their places.
///
/// What comes back keeps the gradients in factors, and computes from them what it is asked for:
/// [`PerExample::rows`], or, without ever making rows, [`norms`](PerExample::norms),
/// [`clipped_sum`](PerExample::clipped_sum), [`dot`](PerExample::dot) and so on. The rows of a
/// parameter on which no loss depends are zeros.
///
/// Row `i` is the derivative of `losses[i]`: examples may be permuted, gathered, routed or folded
/// into other axes (`[n, t, d]` to `[n·t, d]`) on their way. A function that mixes what belongs to
/// different examples (batch statistics, a softmax over the batch, `h - h.mean(0)`) is an error that
/// names it and the place of its call. A value that all examples share is a function of parameters, whatever it is
/// made of; terms that belong to no example, such as weight decay, must be left out of the losses.
/// Hooks of Variables are not called.
///
/// Sources: Goodfellow, "Efficient per-example gradient computations", arXiv:1510.01799, 2015 (one
/// walk is enough); Rochette, Manoel, Tramel, arXiv:1912.06015, 2019 (convolutions).
///
/// ```
/// use bibun::{functions::linear, per_example, Variable};
/// let x = Variable::constant([[1.0, 2.0], [3.0, 4.0]]);
/// let w = Variable::new([[1.0, 1.0]]);
/// let losses = linear(&x, &w, None).reshape([2]).square();
/// let gradients = per_example(&losses, &w);
/// assert_eq!(gradients.rows().to_vec::<f64>(), [6.0, 12.0, 42.0, 56.0]);
/// assert_eq!(gradients.norms().to_vec::<f64>(), [180f64.sqrt(), 70.0]);
/// ```
///
/// # Panics
/// If `losses` is not a vector of floats (or the sum or mean of one) with history; if examples are
/// mixed; if all parameters are frozen or one is not a float, or a rule is missing or fails.
#[track_caller]
pub fn per_example<'a, T: Tree>(losses: &Variable, parameters: &'a T) -> PerExample<'a, T> {
    per_example_with(losses, parameters, GradOptions::new())
}

/// [`per_example`] with options: with `create_graph` the gradients can be differentiated again; one
/// cotangent `[n]` multiplies the losses.
///
/// # Panics
/// As [`per_example`], and if a cotangent does not look like the losses.
#[track_caller]
pub fn per_example_with<'a, T: Tree>(
    losses: &Variable,
    parameters: &'a T,
    options: impl Into<GradOptions>,
) -> PerExample<'a, T> {
    let _called = calling("per_example");
    let options = options.into();
    let leaves = float_leaves("per_example", parameters);
    let (edge, spec) = unreduced(losses);
    let seed = match &options.cotangents[..] {
        [] => Variable::constant(Array::ones(&spec.shape, spec.dtype)),
        [seed] if seed.spec() == spec => seed.clone(),
        _ => {
            let what = format!("there must be one cotangent like the losses, {spec}");
            raise(Error::argument("per_example", what))
        }
    };
    let count = spec.shape[0];
    let owned = ExampleCotangent {
        cotangent: seed,
        examples: Examples::along(0, count),
    };
    let inputs = leaves.variables.iter().map(Variable::edge).collect();
    let parts = pull_apart(vec![(edge, owned)], inputs, options.create_graph);
    let gradients = (leaves.variables.iter().zip(parts))
        .map(|(parameter, parts)| Gradient {
            spec: parameter.spec(),
            count,
            parts: merged(parts).into_iter().map(Part::widened).collect(),
        })
        .collect();
    PerExample {
        parameters,
        leaves,
        count,
        gradients,
    }
}

/// The vector of losses: itself, or what it is the sum or the mean of.
#[track_caller]
fn unreduced(losses: &Variable) -> (Edge, Spec) {
    let spec = losses.spec();
    let fail = |what: &str| -> ! {
        let what = format!("losses is {spec}; it must be {what}");
        raise(Error::argument("per_example", what))
    };
    if !spec.dtype.is_float() {
        fail("a vector of floats, one for each example");
    }
    if !losses.requires_grad() {
        fail("computed from a leaf or under a transformation, but no history leads to it");
    }
    if spec.shape.rank() == 1 {
        return (losses.edge(), spec);
    }
    let found = (spec.shape.rank() == 0).then(|| summed(&HistoryEntry::of(losses)));
    found.flatten().unwrap_or_else(|| {
        fail(
            "the vector [n] of the examples' losses, or the sum or mean over it (reduce all other \
             axes, and nothing over the examples)",
        )
    })
}

/// The vector that a scalar is the sum or the mean of.
fn summed(scalar: &HistoryEntry) -> Option<(Edge, Spec)> {
    let creator = scalar.creator()?;
    let inputs = creator.inputs();
    let (vector, count) = match creator.name() {
        "sum" => (inputs[0].clone(), None),
        "divide" => {
            let count = inputs[1].value()?.plain_array()?;
            let sum = inputs[0].creator().filter(|sum| sum.name() == "sum")?;
            let count = (count.size() == 1).then(|| count.cast(DType::F64).to_vec::<f64>()[0])?;
            (sum.inputs()[0].clone(), Some(count))
        }
        _ => return None,
    };
    let spec = Spec::new(vector.shape(), vector.dtype());
    let whole = count.is_none_or(|count| count == spec.shape.size() as f64);
    (spec.shape.rank() == 1 && whole).then(|| (vector.edge().clone(), spec))
}

/// The factors `min(1, max_norm / norm)` by which gradients are clipped to a norm; of a norm of 0 it
/// is 1, of one that is not a number 0, so that such an example is left out.
///
/// Shapes: norms any → the same.
///
/// ```
/// use bibun::{clip_factors, Variable};
/// let norms = Variable::constant([0.0, 0.5, 4.0, f64::NAN]);
/// assert_eq!(clip_factors(&norms, 1.0).to_vec::<f64>(), [1.0, 1.0, 0.25, 0.0]);
/// ```
#[must_use]
#[track_caller]
pub fn clip_factors(norms: &Variable, max_norm: f64) -> Variable {
    let clipped = max_norm / maximum(norms, max_norm);
    where_(equal(norms, norms), clipped, 0.0)
}

/// What [`per_example`] gives: the gradients of all examples, in factors.
///
/// Containers that come back are like the parameters, with what is described in place of each.
pub struct PerExample<'a, T> {
    parameters: &'a T,
    leaves: Leaves,
    count: usize,
    gradients: Vec<Gradient>,
}

/// The gradient of one parameter, as [`PerExample::sparse_rows`] gives it.
#[derive(Clone, Debug)]
pub enum Rows {
    /// All elements, `[n, ..]`.
    Dense(Variable),
    /// Of a table of which each example picked `l` rows: what belongs to those, and zeros elsewhere.
    Sparse {
        /// The rows that were picked, i64 `[n, l]`; one may be there more than once, and its parts
        /// then add up.
        indices: Variable,
        /// Their gradients, `[n, l, ..]`.
        values: Variable,
    },
}

impl<T: Tree> PerExample<'_, T> {
    /// How many examples there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes that [`PerExample::rows`] takes.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new([1.0, 2.0]);
    /// let losses = Variable::constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).matmul(&w);
    /// assert_eq!(per_example(&losses, &w).bytes(), 3 * 2 * 8);
    /// ```
    pub fn bytes(&self) -> usize {
        let bytes = |gradient: &Gradient| {
            self.count * gradient.spec.shape.size() * gradient.spec.dtype.size()
        };
        self.gradients.iter().map(bytes).sum()
    }

    /// The gradients of all examples, `[n, ..]`: where one is needed whole, [`PerExample::bytes`] in
    /// all.
    #[must_use]
    #[track_caller]
    pub fn rows(&self) -> T {
        self.each(Gradient::rows)
    }

    /// The rows of one parameter after the other, with its name: when `f` has seen them their memory
    /// serves for the next ones.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let pair = (Variable::new(2.0), Variable::new(3.0));
    /// let losses = Variable::constant([1.0, 10.0]) * &pair.0 * &pair.1;
    /// let mut largest = Vec::new();
    /// per_example(&losses, &pair).for_each_layer(|name, rows| {
    ///     largest.push((name.to_owned(), rows.max(..).item::<f64>()));
    /// });
    /// assert_eq!(largest, [("0".to_owned(), 30.0), ("1".to_owned(), 20.0)]);
    /// ```
    #[track_caller]
    pub fn for_each_layer(&self, mut f: impl FnMut(&str, &Variable)) {
        for (name, gradient) in self.leaves.names.iter().zip(&self.gradients) {
            f(name, &gradient.rows().cast(gradient.spec.dtype));
        }
    }

    /// The rows of all parameters by name, sparse for tables whose rows were picked by index
    /// ([`embedding`](crate::functions::embedding), [`take`](crate::functions::take)).
    ///
    /// ```
    /// use bibun::{functions::take, per_example, Rows, Variable};
    /// let table = Variable::new([[1.0], [2.0], [3.0], [4.0]]);
    /// let words = Variable::constant([[3i64, 0], [1, 1]]);
    /// let losses = take(&table, &words, 0).sum([1, 2]);
    /// let gradients = per_example(&losses, &table);
    /// let rows = gradients.sparse_rows();
    /// let Rows::Sparse { indices, values } = &rows[0].1 else { panic!() };
    /// assert_eq!(indices.to_vec::<i64>(), [3, 0, 1, 1]);
    /// assert_eq!(values.to_vec::<f64>(), [1.0; 4]);
    /// assert_eq!(gradients.norms().to_vec::<f64>(), [2f64.sqrt(), 2.0]);
    /// ```
    #[track_caller]
    pub fn sparse_rows(&self) -> Vec<(String, Rows)> {
        let rows = self.gradients.iter().map(Gradient::sparse_rows);
        self.leaves.names.iter().cloned().zip(rows).collect()
    }

    /// The Euclidean norm of each example's gradient over all parameters, `[n]`.
    ///
    /// Rows are not made: where an example uses a weight at few positions, the norm comes from the
    /// products of what met there (Goodfellow 2015; Li et al., "Large language models can be strong
    /// differentially private learners", arXiv:2110.05679), elsewhere from a few examples' rows at a
    /// time.
    ///
    /// # Panics
    /// If the parameters have different dtypes.
    #[must_use]
    #[track_caller]
    pub fn norms(&self) -> Variable {
        sqrt(self.squared_norms())
    }

    /// The squares of [`PerExample::norms`], `[n]`: what influence and noise are measured by.
    ///
    /// # Panics
    /// If the parameters have different dtypes.
    #[must_use]
    #[track_caller]
    pub fn squared_norms(&self) -> Variable {
        self.sum_over_parameters(Gradient::squared_norms)
    }

    /// The norm of each example's gradient for every parameter by itself, `[n]` each.
    #[must_use]
    #[track_caller]
    pub fn layer_norms(&self) -> T {
        let norms = self.gradients.iter().map(|x| sqrt(x.squared_norms()));
        self.leaves
            .derivatives(self.parameters, &norms.collect::<Vec<_>>())
    }

    /// `Σᵢ gᵢ`: the gradient of the sum of the losses.
    #[must_use]
    #[track_caller]
    pub fn sum(&self) -> T {
        self.each(|gradient| gradient.weighted_sum(None))
    }

    /// `Σᵢ cᵢ gᵢ` for a vector `c` `[n]`, by one product of factors for each parameter. An example with
    /// a factor of 0 is left out altogether, even if its gradient is not finite.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new(2.0);
    /// let losses = Variable::constant([1.0, f64::NAN, 3.0]) * &w;
    /// let sum = per_example(&losses, &w).weighted_sum(&Variable::constant([1.0, 0.0, 10.0]));
    /// assert_eq!(sum.item::<f64>(), 31.0);
    /// ```
    ///
    /// # Panics
    /// If there is not one factor for each example.
    #[must_use]
    #[track_caller]
    pub fn weighted_sum(&self, factors: &Variable) -> T {
        if factors.shape() != [self.count] {
            let what = format!(
                "there must be one factor for each of {} examples, found {}",
                self.count,
                factors.spec()
            );
            raise(Error::argument("weighted_sum", what));
        }
        self.each(|gradient| gradient.weighted_sum(Some(factors)))
    }

    /// The sum of the gradients, each clipped to a norm over all parameters,
    /// `Σᵢ gᵢ min(1, max_norm / |gᵢ|)`; examples whose norm is not a number are left out. Rows are not
    /// made. (Where the norms are known already, [`PerExample::weighted_sum`] by their
    /// [`clip_factors`] is the same.)
    ///
    /// Source: Abadi et al., "Deep learning with differential privacy", arXiv:1607.00133, 2016; without
    /// a second walk back as in Bu et al., arXiv:2210.00038, 2022.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new([0.0, 0.0]);
    /// let losses = Variable::constant([[3.0, 4.0], [0.1, 0.0]]).matmul(&w);
    /// let sum = per_example(&losses, &w).clipped_sum(1.0);
    /// assert_eq!(sum.to_vec::<f64>(), [0.6000000000000001 + 0.1, 0.8]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn clipped_sum(&self, max_norm: f64) -> T {
        self.weighted_sum(&clip_factors(&self.norms(), max_norm))
    }

    /// The product of each example's gradient with one direction, `[n]`: how fast each loss grows along
    /// it.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new([1.0, 1.0]);
    /// let losses = Variable::constant([[1.0, 2.0], [3.0, 4.0]]).matmul(&w);
    /// let slopes = per_example(&losses, &w).dot(&Variable::constant([10.0, 1.0]));
    /// assert_eq!(slopes.to_vec::<f64>(), [12.0, 34.0]);
    /// ```
    ///
    /// # Panics
    /// If the direction does not look like the parameters.
    #[must_use]
    #[track_caller]
    pub fn dot(&self, direction: &T) -> Variable {
        let what = ["the parameters", "the direction"];
        let directions = self.leaves.matching("dot", what, direction);
        let mut directions = directions.iter();
        self.sum_over_parameters(|gradient| {
            gradient.dot(directions.next().expect("one for each parameter"))
        })
    }

    /// The products of all pairs of gradients over all parameters, `[n, n]`: the empirical neural
    /// tangent kernel of the losses.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new([1.0, 1.0]);
    /// let losses = Variable::constant([[1.0, 2.0], [3.0, 4.0]]).matmul(&w);
    /// let products = per_example(&losses, &w).gram();
    /// assert_eq!(products.to_vec::<f64>(), [5.0, 11.0, 11.0, 25.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn gram(&self) -> Variable {
        self.sum_over_parameters(Gradient::gram)
    }

    /// The mean of the squared gradients, element by element, `Σᵢ gᵢ² / n` (zeros without examples):
    /// the diagonal of the empirical Fisher information.
    ///
    /// ```
    /// use bibun::{per_example, Variable};
    /// let w = Variable::new([1.0, 1.0]);
    /// let losses = Variable::constant([[1.0, 2.0], [3.0, 4.0]]).matmul(&w);
    /// let moment = per_example(&losses, &w).second_moment();
    /// assert_eq!(moment.to_vec::<f64>(), [5.0, 10.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn second_moment(&self) -> T {
        self.each(Gradient::second_moment)
    }

    /// A result in the dtype of each parameter.
    fn each(&self, mut f: impl FnMut(&Gradient) -> Variable) -> T {
        let results = self.gradients.iter().map(|x| f(x).cast(x.spec.dtype));
        let results: Vec<Variable> = results.collect();
        self.leaves.derivatives(self.parameters, &results)
    }

    #[track_caller]
    fn sum_over_parameters(&self, f: impl FnMut(&Gradient) -> Variable) -> Variable {
        let terms = self.gradients.iter().map(f);
        terms.reduce(|a, b| a + b).expect("at least one parameter")
    }
}

impl<T> fmt::Debug for PerExample<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gradients = self.leaves.names.iter().zip(&self.gradients);
        let parts = gradients.map(|(name, gradient)| (name, &gradient.parts));
        f.debug_map().entries(parts).finish()
    }
}

/// The gradients of one parameter.
struct Gradient {
    spec: Spec,
    count: usize,
    /// What adds up to them.
    parts: Vec<Part>,
}

/// Products of one form as one, longer by the positions of each, so that the gradients of a weight
/// that was used several times are one product.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut merged = Vec::with_capacity(parts.len());
    let mut alike: Vec<Vec<OuterProduct>> = Vec::new();
    for part in parts {
        match part {
            Part::OuterProduct(product) => {
                match alike
                    .iter_mut()
                    .find(|known| known[0].goes_on_with(&product))
                {
                    Some(known) => known.push(product),
                    None => alike.push(vec![product]),
                }
            }
            other => merged.push(other),
        }
    }
    let longer = |products: &[OuterProduct], factor: fn(&OuterProduct) -> &Variable| {
        let factors: Vec<&Variable> = products.iter().map(factor).collect();
        match factors[..] {
            [only] => only.clone(),
            _ => concat(&factors, 1),
        }
    };
    merged.extend(alike.into_iter().map(|products| {
        let (a, b) = (longer(&products, |p| &p.a), longer(&products, |p| &p.b));
        let first = products.into_iter().next().expect("at least one");
        Part::OuterProduct(OuterProduct { a, b, ..first })
    }));
    merged
}

impl OuterProduct {
    /// Whether both are the same sum of the same kind of things.
    fn goes_on_with(&self, other: &Self) -> bool {
        let alike = |a: &Variable, b: &Variable| {
            let (a, b) = (a.spec(), b.spec());
            a.dtype == b.dtype && a.shape[2..] == b.shape[2..]
        };
        self.form == other.form
            && self.form != ProductForm::Other
            && alike(&self.a, &other.a)
            && alike(&self.b, &other.b)
    }

    /// How many positions each example has.
    fn length(&self) -> usize {
        self.b.shape()[1]
    }

    /// All examples' positions as one sum.
    fn folded(x: &Variable) -> Variable {
        let shape = x.shape();
        reshape(x, shape.removed(0).replaced(0, shape[0] * shape[1]))
    }

    /// The product of some examples.
    fn of(&self, examples: Range<usize>) -> Self {
        Self {
            a: some(&self.a, examples.clone()),
            b: some(&self.b, examples),
            ..self.clone()
        }
    }

    /// The positions and the sizes of the matrices that this is a product of.
    fn sizes(&self) -> Option<[usize; 3]> {
        let (a, b) = (self.a.shape(), self.b.shape());
        match self.form {
            ProductForm::Matrix { .. } => Some([a[1], a[2], b[2]]),
            _ => Some(self.matrices.as_ref()?.sizes),
        }
    }

    /// Whether `Σ (A Aᵀ) ∘ (B Bᵀ)` is less work than the products' own elements.
    fn is_short(&self) -> bool {
        let short = |[l, d, p]: [usize; 3]| l * (d + p) <= d * p;
        self.sizes().is_some_and(short)
    }

    /// The squared norms by `Σ (A Aᵀ) ∘ (B Bᵀ)`.
    fn short_norms(&self) -> Variable {
        if let Some(pair) = self.single() {
            let [a, b] = pair.map(batch_l2_norm_squared);
            return a * b;
        }
        let gram = |x: &Variable| matmul(x, swapaxes(x, 1, 2));
        // Rounding can leave less than nothing.
        let norms = |a: &Variable, b: &Variable| maximum(sum(gram(a) * gram(b), [1, 2]), 0.0);
        let Some(Matrices { sizes, make }) = &self.matrices else {
            return norms(&self.a, &self.b);
        };
        let count = self.a.shape()[0];
        let examples = chunk(sizes[0] * sizes[1] * self.a.dtype().size());
        let starts = (0..count).step_by(examples);
        let of_some = |start: usize| {
            let part = self.of(start..(start + examples).min(count));
            let [a, b] = make(&part.a, &part.b);
            norms(&a, &b)
        };
        let parts: Vec<Variable> = starts.map(of_some).collect();
        concat(&parts.iter().collect::<Vec<_>>(), 0)
    }

    /// All sums of one term each, if there are no others.
    fn single(&self) -> Option<[Variable; 2]> {
        let one = matches!(self.form, ProductForm::Matrix { .. }) && self.length() == 1;
        one.then(|| [&self.a, &self.b].map(Self::folded))
    }

    /// The products of each example's sum with one value.
    fn dot(&self, direction: &Variable) -> Variable {
        let (a, b) = (Self::folded(&self.a), Self::folded(&self.b));
        let met = match self.form {
            ProductForm::Matrix { transposed: false } => matmul(a, direction),
            ProductForm::Matrix { transposed: true } => matmul(a, swapaxes(direction, 0, 1)),
            ProductForm::Picked => take(direction, a, 0),
            ProductForm::Other => {
                let (_, pullback) = vjp(|b: &Variable| (self.sum)(&a, b), &b);
                pullback.call(direction)
            }
        };
        let met = reshape(met * b, self.b.shape());
        sum_but_first(met)
    }
}

/// How many examples of so many bytes stay in the cache, and enough of them for threads to share.
fn chunk(bytes: usize) -> usize {
    (CHUNK / bytes.max(1)).max(2)
}

/// Examples `start..stop` of what has them in front.
fn some(x: &Variable, examples: Range<usize>) -> Variable {
    slice(x, &[Index::from(examples)])
}

/// The sum over all axes but the first.
fn sum_but_first(x: Variable) -> Variable {
    let rest: Vec<isize> = (1..x.rank() as isize).collect();
    sum(x, &rest[..])
}

/// All axes but the first as one.
fn flat(x: Variable) -> Variable {
    let shape = x.shape();
    let rest: usize = shape[1..].iter().product();
    reshape(x, [shape[0], rest])
}

/// A vector along the first axis of an array of that many axes.
fn in_front(vector: &Variable, rank: usize) -> Variable {
    let mut along = vec![1; rank];
    along[0] = vector.size();
    reshape(vector, along)
}

/// `c x` along the first axis, and 0 where c is, whatever x is there.
fn scaled(c: &Variable, x: &Variable) -> Variable {
    let c = in_front(c, x.rank());
    where_(equal(&c, 0.0), 0.0, c * x)
}

impl Part {
    /// The same in the type in which floats are added up: squares of halves do not fit into halves.
    fn widened(self) -> Self {
        let wide = |x: Variable| match x.dtype() {
            dtype if dtype.is_float() => x.cast(dtype.accumulator()),
            _ => x,
        };
        match self {
            Self::OuterProduct(product) => Self::OuterProduct(OuterProduct {
                a: wide(product.a),
                b: wide(product.b),
                ..product
            }),
            Self::Stacked(rows) => Self::Stacked(wide(rows)),
            Self::Sliced(owned) => Self::Sliced(ExampleCotangent {
                cotangent: wide(owned.cotangent),
                ..owned
            }),
        }
    }
}

impl Gradient {
    fn zeros(&self, shape: Shape) -> Variable {
        Variable::constant(Array::zeros(shape, self.spec.dtype.accumulator()))
    }

    fn rows(&self) -> Variable {
        self.rows_of(0..self.count)
    }

    fn rows_of(&self, examples: Range<usize>) -> Variable {
        let all = examples.len() == self.count;
        let rows = self.parts.iter().map(|part| match part {
            Part::OuterProduct(product) if all => product.rows(),
            Part::OuterProduct(product) => product.of(examples.clone()).rows(),
            Part::Stacked(rows) if all => rows.clone(),
            Part::Stacked(rows) => some(rows, examples.clone()),
            Part::Sliced(owned) => some(&owned.stacked(), examples.clone()),
        });
        rows.reduce(|a, b| a + b)
            .unwrap_or_else(|| self.zeros(self.spec.shape.inserted(0, examples.len())))
    }

    /// Rows of as many examples at a time as stay in the cache.
    fn chunks(&self) -> impl Iterator<Item = Variable> + '_ {
        let examples = chunk(self.spec.shape.size() * self.spec.dtype.size());
        let starts = (0..self.count).step_by(examples);
        starts.map(move |start| self.rows_of(start..(start + examples).min(self.count)))
    }

    fn sparse_rows(&self) -> Rows {
        match &self.parts[..] {
            [Part::OuterProduct(OuterProduct { a, b, form, .. })]
                if *form == ProductForm::Picked =>
            {
                Rows::Sparse {
                    indices: a.clone(),
                    values: b.cast(self.spec.dtype),
                }
            }
            [
                Part::Sliced(ExampleCotangent {
                    cotangent,
                    examples,
                }),
            ] if examples.axis() == 0 => {
                let size = examples.slices() as i64;
                let positions = Array::arange(0, size).to(cotangent.device());
                let positions = Variable::constant(positions);
                Rows::Sparse {
                    indices: examples.of_each(&positions),
                    values: examples.of_each(cotangent).cast(self.spec.dtype),
                }
            }
            _ => Rows::Dense(self.rows().cast(self.spec.dtype)),
        }
    }

    fn squared_norms(&self) -> Variable {
        if let [Part::OuterProduct(product)] = &self.parts[..]
            && self.count > 0
            && product.is_short()
        {
            return product.short_norms();
        }
        match &self.parts[..] {
            [] => self.zeros([self.count].into()),
            [Part::Stacked(rows)] => batch_l2_norm_squared(rows),
            [
                Part::Sliced(ExampleCotangent {
                    cotangent,
                    examples,
                }),
            ] => sum_but_first(square(examples.of_each(cotangent))),
            _ => {
                let norms: Vec<Variable> = self.chunks().map(batch_l2_norm_squared).collect();
                match &norms[..] {
                    [] => self.zeros([0].into()),
                    norms => concat(&norms.iter().collect::<Vec<_>>(), 0),
                }
            }
        }
    }

    fn weighted_sum(&self, factors: Option<&Variable>) -> Variable {
        let factors = factors.map(|c| c.cast(self.spec.dtype.accumulator()));
        // Left out, an example must not meet the others, not even as 0 times what is not finite.
        // A device is not asked whether there is one.
        let left_out = |c: &Variable| {
            let elements = c.plain_array().filter(|c| c.device() == cpu());
            elements.is_none_or(|c| c.cast(DType::F64).to_vec::<f64>().contains(&0.0))
        };
        let masked = factors.as_ref().is_some_and(left_out);
        let of_part = |part: &Part| match (part, &factors) {
            (Part::Stacked(rows), None) => sum(rows, 0),
            (Part::Stacked(rows), Some(c)) => sum(scaled(c, rows), 0),
            (Part::Sliced(owned), None) => owned.cotangent.clone(),
            (Part::Sliced(owned), Some(c)) => sum(scaled(c, &owned.stacked()), 0),
            (Part::OuterProduct(product), None) => {
                let (a, b) = (&product.a, &product.b);
                (product.sum)(&OuterProduct::folded(a), &OuterProduct::folded(b))
            }
            (Part::OuterProduct(OuterProduct { a, b, sum, .. }), Some(c)) => {
                let (a, b) = match masked {
                    true if a.dtype().is_float() => {
                        let here = in_front(c, a.rank());
                        (where_(equal(here, 0.0), 0.0, a), scaled(c, b))
                    }
                    true => (a.clone(), scaled(c, b)),
                    false => (a.clone(), in_front(c, b.rank()) * b),
                };
                sum(&OuterProduct::folded(&a), &OuterProduct::folded(&b))
            }
        };
        let sums = self.parts.iter().map(of_part);
        sums.reduce(|a, b| a + b)
            .unwrap_or_else(|| self.zeros(self.spec.shape.clone()))
    }

    fn dot(&self, direction: &Variable) -> Variable {
        let of_part = |part: &Part| match part {
            Part::OuterProduct(product) => product.dot(direction),
            Part::Stacked(rows) => sum_but_first(rows * direction),
            Part::Sliced(ExampleCotangent {
                cotangent,
                examples,
            }) => sum_but_first(examples.of_each(&(cotangent * direction))),
        };
        let products = self.parts.iter().map(of_part);
        let products = products.reduce(|a, b| a + b);
        products.unwrap_or_else(|| self.zeros([self.count].into()))
    }

    fn gram(&self) -> Variable {
        let products = |x: Variable| matmul(&x, swapaxes(&x, 0, 1));
        match &self.parts[..] {
            [] => self.zeros([self.count; 2].into()),
            [Part::OuterProduct(product)] if product.single().is_some() => {
                let [a, b] = [&product.a, &product.b].map(|x| products(OuterProduct::folded(x)));
                a * b
            }
            _ => products(flat(self.rows())),
        }
    }

    fn second_moment(&self) -> Variable {
        let sum_of_squares = match &self.parts[..] {
            [Part::OuterProduct(product)] if product.single().is_some() => {
                let [a, b] = [&product.a, &product.b].map(|x| square(OuterProduct::folded(x)));
                (product.sum)(&a, &b)
            }
            [Part::Sliced(owned)] => square(&owned.cotangent),
            [Part::Stacked(rows)] => sum(square(rows), 0),
            _ => {
                let squares = self.chunks().map(|rows| sum(square(rows), 0));
                let zeros = || self.zeros(self.spec.shape.clone());
                squares.reduce(|a, b| a + b).unwrap_or_else(zeros)
            }
        };
        sum_of_squares / self.count.max(1) as f64
    }
}
