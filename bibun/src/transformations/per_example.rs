//! The gradient of each example's loss, from one forward and one backward run.

use std::fmt;
use std::ops::Range;

use bibun_array::{Array, DType, Index, Shape, cpu, is_traced};

use super::{float_leaves, vjp};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, Examples, Matrices, OuterProduct, ProductForm};
use crate::function::Spec;
use crate::functions::{
    batch_l2_norm_squared, cast, concat, equal, matmul, maximum, ones_like, reshape, slice, sqrt,
    square, sum, swapaxes, take, where_,
};
use crate::node::{Edge, HistoryEntry};
use crate::per_example::{Part, pull_apart};
use crate::reverse::GradOptions;
use crate::tree::{Leaves, Tree};
use crate::variable::Variable;

/// The number of bytes of rows that are computed at once where only a summary of them is needed:
/// about the size of a core's cache.
const CHUNK: usize = 1 << 19;

/// Computes the gradient of each example's loss with respect to `parameters` (a model, a part of it,
/// a Variable, any [`Tree`] of floats), from the history of one forward run, by one walk back.
///
/// `losses` is the vector `[n]` of the examples' losses, not reduced. A scalar is accepted if it is
/// the sum or the mean of such a vector, and then stands for the vector: gradients are never divided
/// by the number of examples. Nothing is computed for layers in front of the first of the
/// `parameters`. Frozen parameters are left out: containers that are returned have no value in their
/// places.
///
/// The result stores the gradients as factors, and computes results from them on request:
/// [`PerExample::rows`], or, without ever computing rows, [`norms`](PerExample::norms),
/// [`clipped_sum`](PerExample::clipped_sum), [`dot`](PerExample::dot) and so on. The rows of a
/// parameter on which no loss depends are zeros.
///
/// Row `i` is the derivative of `losses[i]`: examples may be permuted, gathered, routed or folded
/// into other axes (`[n, t, d]` to `[n·t, d]`) on their way. A function that mixes different examples
/// (batch statistics, a softmax over the batch, `h - h.mean(0)`) is an error that names the function
/// and the location of its call. A value that all examples share counts as a function of parameters,
/// whatever it was computed from. Terms that belong to no example, such as weight decay, must be left
/// out of the losses. Hooks of Variables are not called.
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
/// Panics if `losses` is not a vector of floats (or the sum or mean of one) with history; if examples
/// are mixed; if all parameters are frozen or one is not a float; or if a rule is missing or fails.
#[track_caller]
pub fn per_example<'a, T: Tree>(losses: &Variable, parameters: &'a T) -> PerExample<'a, T> {
    per_example_with(losses, parameters, GradOptions::new())
}

/// Does the same as [`per_example`], with options. With `create_graph` the gradients can be
/// differentiated again; a cotangent `[n]` multiplies the losses.
///
/// # Panics
/// Panics in the same cases as [`per_example`], and if a cotangent differs from the losses in shape
/// or dtype.
#[track_caller]
pub fn per_example_with<'a, T: Tree>(
    losses: &Variable,
    parameters: &'a T,
    options: impl Into<GradOptions>,
) -> PerExample<'a, T> {
    let _called = calling("per_example");
    let options = options.into();
    let leaves = float_leaves("per_example", parameters);
    if let Some(x) = leaves.variables.iter().find(|x| x.dtype().is_complex()) {
        let what = format!(
            "a parameter is {}; per-example gradients are of real numbers (make it of them by \
             `view_as_complex`)",
            x.spec()
        );
        raise(Error::argument("per_example", what))
    }
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
    let cotangent = ExampleCotangent {
        cotangent: seed,
        examples: Examples::along(0, count),
    };
    let inputs = leaves.variables.iter().map(Variable::edge).collect();
    let parts = pull_apart(vec![(edge, cotangent)], inputs, options.create_graph);
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

/// Returns the edge of the vector of losses: `losses` itself, or the vector that it is the sum or the
/// mean of.
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
        if losses.plain_array().is_some_and(|x| is_traced(&x)) {
            fail(
                "computed from leaves, but no history leads to it: `compile` traces its function, to which \
                 the model came as values without history; make leaves of them there, as \
                 `let model = tree_map(|w| Variable::new(w.array()), model);`",
            );
        }
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

/// Returns the vector that a scalar is the sum or the mean of.
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

/// Computes the factors `min(1, max_norm / norm)` by which gradients are clipped to a norm. The
/// factor of a norm of 0 is 1, as are all if `max_norm` is ∞. The factor of a norm that is not a number is
/// 0, so that such an example is left out.
///
/// Shapes: norms any → the same.
///
/// ```
/// use bibun::{clip_factors, Variable};
/// let norms = Variable::constant([0.0, 0.5, 4.0, f64::NAN]);
/// assert_eq!(clip_factors(&norms, 1.0).to_vec::<f64>(), [1.0, 1.0, 0.25, 0.0]);
/// ```
///
/// # Panics
/// Panics if `max_norm` is not greater than 0.
#[must_use]
#[track_caller]
pub fn clip_factors(norms: &Variable, max_norm: f64) -> Variable {
    expect_bound("clip_factors", max_norm);
    let clipped = match max_norm {
        f64::INFINITY => ones_like(norms),
        _ => max_norm / maximum(norms, max_norm),
    };
    where_(equal(norms, norms), clipped, 0.0)
}

#[track_caller]
fn expect_bound(function: &'static str, max_norm: f64) {
    if max_norm.is_nan() || max_norm <= 0.0 {
        let what = format!("max_norm is {max_norm}; it must be greater than 0");
        raise(Error::argument(function, what));
    }
}

/// The result of [`per_example`]: the gradients of all examples, as factors.
///
/// Containers that are returned have the structure of the parameters, with the described value in
/// place of each parameter.
pub struct PerExample<'a, T> {
    parameters: &'a T,
    leaves: Leaves,
    count: usize,
    gradients: Vec<Gradient>,
}

/// The gradient of one parameter, as [`PerExample::sparse_rows`] returns it.
#[derive(Clone, Debug)]
pub enum Rows {
    /// All elements, `[n, ..]`.
    Dense(Variable),
    /// The gradient of a table from which each example picked `l` rows: values for the picked rows,
    /// and zeros elsewhere.
    Sparse {
        /// The picked rows, i64 `[n, l]`. If a row occurs more than once, its values add up.
        indices: Variable,
        /// The gradients of the picked rows, `[n, l, ..]`.
        values: Variable,
    },
}

impl<T: Tree> PerExample<'_, T> {
    /// Returns the number of examples.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of bytes that [`PerExample::rows`] takes.
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

    /// Computes the gradients of all examples, `[n, ..]`, for uses that need them whole. They take
    /// [`PerExample::bytes`] in all.
    #[must_use]
    #[track_caller]
    pub fn rows(&self) -> T {
        self.each(Gradient::rows)
    }

    /// Calls `f` with the name and the rows of each parameter, one after the other. When `f` has
    /// returned, the memory of the rows is reused for the next parameter.
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

    /// Computes the rows of all parameters, with their names. They are sparse for tables whose rows
    /// were picked by index ([`embedding`](crate::functions::embedding),
    /// [`take`](crate::functions::take)).
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

    /// Computes the Euclidean norm of each example's gradient over all parameters, `[n]`.
    ///
    /// No rows are stored. If an example uses a weight at few positions, the norm is computed from
    /// the products between positions (Goodfellow 2015; Li et al., "Large language models can be
    /// strong differentially private learners", arXiv:2110.05679), otherwise from the rows of a few
    /// examples at a time.
    ///
    /// # Panics
    /// Panics if the parameters have different dtypes.
    #[must_use]
    #[track_caller]
    pub fn norms(&self) -> Variable {
        sqrt(self.squared_norms())
    }

    /// Computes the squares of [`PerExample::norms`], `[n]`, the measure of influence and noise.
    ///
    /// # Panics
    /// Panics if the parameters have different dtypes.
    #[must_use]
    #[track_caller]
    pub fn squared_norms(&self) -> Variable {
        self.sum_over_parameters(Gradient::squared_norms)
    }

    /// Computes the norm of each example's gradient for every parameter separately, `[n]` each.
    #[must_use]
    #[track_caller]
    pub fn layer_norms(&self) -> T {
        let norms = self.gradients.iter().map(|x| sqrt(x.squared_norms()));
        self.leaves
            .derivatives(self.parameters, &norms.collect::<Vec<_>>())
    }

    /// Computes `Σᵢ gᵢ`, the gradient of the sum of the losses.
    #[must_use]
    #[track_caller]
    pub fn sum(&self) -> T {
        self.each(|gradient| gradient.weighted_sum(None))
    }

    /// Computes `Σᵢ cᵢ gᵢ` for a vector `c` `[n]`, by one product of factors for each parameter. An
    /// example with a factor of 0 is left out altogether, even if its gradient is not finite.
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
    /// Panics if the number of factors differs from the number of examples.
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

    /// Computes the sum of the gradients, each clipped to a norm over all parameters,
    /// `Σᵢ gᵢ min(1, max_norm / |gᵢ|)`. Examples whose norm is not a number are left out. No rows are
    /// stored. (If the norms are already known, [`PerExample::weighted_sum`] of their
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
    /// let sum = per_example(&losses, &w).clipped_sum(f64::INFINITY);
    /// assert_eq!(sum.to_vec::<f64>(), [3.1, 4.0]);
    /// ```
    ///
    /// # Panics
    /// Panics if `max_norm` is not greater than 0.
    #[must_use]
    #[track_caller]
    pub fn clipped_sum(&self, max_norm: f64) -> T {
        expect_bound("clipped_sum", max_norm);
        self.weighted_sum(&clip_factors(&self.norms(), max_norm))
    }

    /// Computes the product of each example's gradient with one direction, `[n]`: the slope of each
    /// loss along it.
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
    /// Panics if the direction differs from the parameters in structure, shape or dtype.
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

    /// Computes the products of all pairs of gradients over all parameters, `[n, n]`: the empirical
    /// neural tangent kernel of the losses.
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

    /// Computes the mean of the squared gradients, element by element, `Σᵢ gᵢ² / n` (zeros if there
    /// are no examples): the diagonal of the empirical Fisher information.
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

    /// Computes a result for each parameter, in its dtype.
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
    /// The terms of the gradients.
    parts: Vec<Part>,
}

/// Merges products of one form into one that has the positions of all of them, so that the gradients
/// of a weight that was used several times are one product.
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
    /// Returns whether both are the same kind of sum of values of the same kind.
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

    /// Returns the number of positions of each example.
    fn length(&self) -> usize {
        self.b.shape()[1]
    }

    /// Merges the positions of all examples into one axis, for one sum.
    fn folded(x: &Variable) -> Variable {
        let shape = x.shape();
        reshape(x, shape.removed(0).replaced(0, shape[0] * shape[1]))
    }

    /// Returns the product of some examples.
    fn of(&self, examples: Range<usize>) -> Self {
        Self {
            a: some(&self.a, examples.clone()),
            b: some(&self.b, examples),
            ..self.clone()
        }
    }

    /// Returns the number of positions and the sizes of the matrices in the product.
    fn sizes(&self) -> Option<[usize; 3]> {
        let (a, b) = (self.a.shape(), self.b.shape());
        match self.form {
            ProductForm::Matrix { .. } => Some([a[1], a[2], b[2]]),
            _ => Some(self.matrices.as_ref()?.sizes),
        }
    }

    /// Returns whether `Σ (A Aᵀ) ∘ (B Bᵀ)` is less work than the elements of the products themselves.
    fn is_short(&self) -> bool {
        let short = |[l, d, p]: [usize; 3]| l * (d + p) <= d * p;
        self.sizes().is_some_and(short)
    }

    /// Computes the squared norms by `Σ (A Aᵀ) ∘ (B Bᵀ)`.
    fn short_norms(&self) -> Variable {
        if let Some(pair) = self.single() {
            let [a, b] = pair.map(batch_l2_norm_squared);
            return a * b;
        }
        let gram = |x: &Variable| matmul(x, swapaxes(x, 1, 2));
        // Rounding can make the sum negative.
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
        concat(parts.iter(), 0)
    }

    /// Returns the factors if every sum has one term.
    fn single(&self) -> Option<[Variable; 2]> {
        let one = matches!(self.form, ProductForm::Matrix { .. }) && self.length() == 1;
        one.then(|| [&self.a, &self.b].map(Self::folded))
    }

    /// Computes the product of each example's sum with one value.
    fn dot(&self, direction: &Variable) -> Variable {
        let (a, b) = (Self::folded(&self.a), Self::folded(&self.b));
        let met = match self.form {
            ProductForm::Matrix { transposed: false } => matmul(a, direction),
            ProductForm::Matrix { transposed: true } => matmul(a, swapaxes(direction, 0, 1)),
            ProductForm::Picked => take(direction, a, 0),
            ProductForm::Other => {
                let (sum, pullback) = vjp(|b: &Variable| (self.sum)(&a, b), &b);
                pullback.call(&cast(direction, sum.dtype()))
            }
        };
        let met = reshape(met * b, self.b.shape());
        sum_but_first(met)
    }
}

/// Returns the number of examples of this size in bytes that fit into the cache, and at least two,
/// for threads to share.
fn chunk(bytes: usize) -> usize {
    (CHUNK / bytes.max(1)).max(2)
}

/// Returns examples `start..stop` of a value that has the examples in front.
fn some(x: &Variable, examples: Range<usize>) -> Variable {
    slice(x, &[Index::from(examples)])
}

/// Computes the sum over all axes but the first.
fn sum_but_first(x: Variable) -> Variable {
    let rest: Vec<isize> = (1..x.rank() as isize).collect();
    sum(x, &rest[..])
}

/// Merges all axes but the first into one.
fn flat(x: Variable) -> Variable {
    let shape = x.shape();
    let rest: usize = shape[1..].iter().product();
    reshape(x, [shape[0], rest])
}

/// Reshapes a vector to an array of this rank, along the first axis.
fn in_front(vector: &Variable, rank: usize) -> Variable {
    let mut along = vec![1; rank];
    along[0] = vector.size();
    reshape(vector, along)
}

/// Computes `c x` along the first axis, with 0 where `c` is 0, even if `x` is not finite there.
fn scaled(c: &Variable, x: &Variable) -> Variable {
    let c = in_front(c, x.rank());
    where_(equal(&c, 0.0), 0.0, c * x)
}

impl Part {
    /// Returns the same part in the accumulator dtype, because squares of 16-bit floats can overflow.
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
            Self::Sliced(sliced) => Self::Sliced(ExampleCotangent {
                cotangent: wide(sliced.cotangent),
                ..sliced
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
            Part::Sliced(sliced) => some(&sliced.stacked(), examples.clone()),
        });
        rows.reduce(|a, b| a + b)
            .unwrap_or_else(|| self.zeros(self.spec.shape.inserted(0, examples.len())))
    }

    /// Computes the rows, of as many examples at a time as fit into the cache.
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
                    norms => concat(norms.iter(), 0),
                }
            }
        }
    }

    fn weighted_sum(&self, factors: Option<&Variable>) -> Variable {
        let factors = factors.map(|c| c.cast(self.spec.dtype.accumulator()));
        // An example that is left out must not affect the others, not even as 0 times a value that is
        // not finite. Elements on a device are not read to find out whether there is one.
        let left_out = |c: &Variable| {
            let elements = c.plain_array().filter(|c| c.device() == cpu());
            elements.is_none_or(|c| c.cast(DType::F64).to_vec::<f64>().contains(&0.0))
        };
        let masked = factors.as_ref().is_some_and(left_out);
        let of_part = |part: &Part| match (part, &factors) {
            (Part::Stacked(rows), None) => sum(rows, 0),
            (Part::Stacked(rows), Some(c)) => sum(scaled(c, rows), 0),
            (Part::Sliced(sliced), None) => sliced.cotangent.clone(),
            (Part::Sliced(sliced), Some(c)) => sum(scaled(c, &sliced.stacked()), 0),
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
            [Part::Sliced(sliced)] => square(&sliced.cotangent),
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
