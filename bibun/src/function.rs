//! The contract of a differentiable operation: one function with all its rules in one place.

use std::any::Any;
use std::fmt;

use bibun_array::{Array, DType, Shape};
use smallvec::SmallVec;

use crate::apply;
use crate::batch::Batched;
use crate::context::Context;
use crate::error::{Error, Location};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::variable::Variable;

/// The number of inputs or outputs of a function: [`Fixed`] or [`Variadic`].
pub trait Arity: 'static {
    /// A list with one `T` for each input or output.
    type Of<T: Item>: IntoIterator<Item = T> + AsRef<[T]> + AsMut<[T]> + Item;
    /// Collects one `T` for each input or output.
    ///
    /// # Panics
    /// Panics if there are too few or too many items.
    fn collect<T: Item>(items: impl Iterator<Item = T>) -> Self::Of<T>;
    /// Applies a function to each item.
    fn map<T: Item, U: Item>(items: Self::Of<T>, f: impl FnMut(T) -> U) -> Self::Of<U>;
    /// Applies a function to a reference to each item.
    fn map_ref<'a, T: Item + 'a, U: Item>(
        items: &'a Self::Of<T>,
        f: impl FnMut(&'a T) -> U,
    ) -> Self::Of<U>;
    /// Applies a function to a mutable reference to each item.
    fn map_mut<T: Item, U: Item>(
        items: &mut Self::Of<T>,
        f: impl FnMut(&mut T) -> U,
    ) -> Self::Of<U>;
}

/// An element of a list of inputs or outputs. It is `Send` and `Sync` because history moves between
/// threads.
pub trait Item: Send + Sync {}
impl<T: Send + Sync> Item for T {}

/// Exactly `N` inputs or outputs. Lists of them are arrays, so that none can be forgotten.
#[derive(Debug)]
pub struct Fixed<const N: usize>;

/// Any number of inputs or outputs.
#[derive(Debug)]
pub struct Variadic;

impl<const N: usize> Arity for Fixed<N> {
    type Of<T: Item> = [T; N];
    #[inline]
    fn collect<T: Item>(mut items: impl Iterator<Item = T>) -> [T; N] {
        let list = std::array::from_fn(|_| items.next().expect("one item for each argument"));
        debug_assert!(items.next().is_none(), "more items than arguments");
        list
    }
    #[inline]
    fn map<T: Item, U: Item>(items: [T; N], f: impl FnMut(T) -> U) -> [U; N] {
        items.map(f)
    }
    #[inline]
    fn map_ref<'a, T: Item + 'a, U: Item>(items: &'a [T; N], f: impl FnMut(&'a T) -> U) -> [U; N] {
        let mut f = f;
        std::array::from_fn(|i| f(&items[i]))
    }
    #[inline]
    fn map_mut<T: Item, U: Item>(items: &mut [T; N], f: impl FnMut(&mut T) -> U) -> [U; N] {
        let mut f = f;
        std::array::from_fn(|i| f(&mut items[i]))
    }
}

impl Arity for Variadic {
    type Of<T: Item> = Vec<T>;
    fn collect<T: Item>(items: impl Iterator<Item = T>) -> Vec<T> {
        items.collect()
    }
    fn map<T: Item, U: Item>(items: Vec<T>, f: impl FnMut(T) -> U) -> Vec<U> {
        items.into_iter().map(f).collect()
    }
    fn map_ref<'a, T: Item + 'a, U: Item>(items: &'a Vec<T>, f: impl FnMut(&'a T) -> U) -> Vec<U> {
        items.iter().map(f).collect()
    }
    fn map_mut<T: Item, U: Item>(items: &mut Vec<T>, f: impl FnMut(&mut T) -> U) -> Vec<U> {
        items.iter_mut().map(f).collect()
    }
}

/// One `T` for each input of `F`.
pub type Inputs<F, T> = <<F as Function>::Inputs as Arity>::Of<T>;
/// One `T` for each output of `F`.
pub type Outputs<F, T> = <<F as Function>::Outputs as Arity>::Of<T>;

/// The shape and dtype of a value, without the value: the input and output of a shape rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The shape.
    pub shape: Shape,
    /// The dtype.
    pub dtype: DType,
}

impl Spec {
    /// Creates a spec from its parts.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> Self {
        Self {
            shape: shape.into(),
            dtype,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.shape, self.dtype)
    }
}

/// The reason why inputs do not fit a function: the shape of each input with its name, and the
/// condition that must hold. [`Mismatch::KNOWN_BY_RUNNING`] says instead that the shapes are unknown
/// before the function has run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch(Option<String>);

impl Mismatch {
    /// The answer of a shape rule when the shapes of the outputs are known only by running the
    /// function. The result of `forward`, or of the rule of the transformation that runs the
    /// function, is then used without a check.
    /// ```
    /// use bibun::array::Array;
    /// use bibun::*;
    ///
    /// /// The elements that are not negative.
    /// #[derive(Clone, Debug)]
    /// struct NotNegative;
    ///
    /// impl Function for NotNegative {
    ///     type Inputs = Fixed<1>;
    ///     type Outputs = Fixed<1>;
    ///     fn name(&self) -> &'static str {
    ///         "not_negative"
    ///     }
    ///     fn saves(&self, _: Needs<'_>) -> Saved {
    ///         Saved::NOTHING
    ///     }
    ///     fn shape(&self, _: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
    ///         Err(Mismatch::KNOWN_BY_RUNNING)
    ///     }
    ///     fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
    ///         let left: Vec<f64> = x.to_vec().into_iter().filter(|&x| x >= 0.0).collect();
    ///         let count = left.len();
    ///         [Array::from_vec(left, [count])]
    ///     }
    /// #   fn vjp(&self, _: &Context<'_>, _: [Variable; 1]) -> [Option<Variable>; 1] {
    /// #       no_rule("not_negative", "vjp", "")
    /// #   }
    /// #   fn jvp(&self, _: &Context<'_>, _: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
    /// #       no_rule("not_negative", "jvp", "")
    /// #   }
    /// #   fn batch(&self, _: [Batched; 1]) -> [Batched; 1] {
    /// #       no_rule("not_negative", "batch", "batch elements would differ in length")
    /// #   }
    /// #   fn per_example(&self, _: &Context<'_>, _: [ExampleCotangent; 1]) -> [Option<ExampleGradient>; 1] {
    /// #       [None]
    /// #   }
    ///     // ...
    /// }
    ///
    /// let [y] = apply(NotNegative, [Variable::constant([1.0, -2.0, 3.0])]);
    /// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0]);
    /// ```
    pub const KNOWN_BY_RUNNING: Self = Self(None);

    /// Creates a mismatch of named inputs, such as `("x [n, i]", x)`.
    ///
    /// ```
    /// use bibun::{Mismatch, Spec};
    /// use bibun::array::DType;
    /// let x = Spec::new([2, 3], DType::F32);
    /// let mismatch = Mismatch::new(&[("x [n, i]", &x)], "i must be even");
    /// assert_eq!(mismatch.to_string(), "x [n, i] = [2, 3] f32 (i must be even)");
    /// ```
    pub fn new(inputs: &[(&str, &Spec)], must_hold: impl fmt::Display) -> Self {
        let inputs: Vec<String> = inputs
            .iter()
            .map(|(name, spec)| format!("{name} = {spec}"))
            .collect();
        Self(Some(format!("{} ({must_hold})", inputs.join(", "))))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "the shapes are known only when the function has run";
        f.write_str(self.0.as_deref().unwrap_or(unknown))
    }
}

/// The values that a node saves for its rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Saved {
    inputs: u64,
    outputs: u64,
}

impl Saved {
    /// No values.
    pub const NOTHING: Self = Self {
        inputs: 0,
        outputs: 0,
    };
    /// All inputs and outputs.
    pub const ALL: Self = Self {
        inputs: u64::MAX,
        outputs: u64::MAX,
    };

    /// Adds input `i`. An index of 63 or more adds all inputs from 63 on.
    #[must_use]
    pub const fn input(self, i: usize) -> Self {
        Self {
            inputs: self.inputs | bit(i),
            ..self
        }
    }

    /// Adds output `i`. An index of 63 or more adds all outputs from 63 on.
    #[must_use]
    pub const fn output(self, i: usize) -> Self {
        Self {
            outputs: self.outputs | bit(i),
            ..self
        }
    }

    /// Removes all outputs.
    #[must_use]
    pub const fn without_outputs(self) -> Self {
        Self { outputs: 0, ..self }
    }

    /// Adds the values that `other` saves.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            inputs: self.inputs | other.inputs,
            outputs: self.outputs | other.outputs,
        }
    }

    /// Returns `self` if `condition` holds, and [`Saved::NOTHING`] otherwise.
    #[must_use]
    pub const fn only_if(self, condition: bool) -> Self {
        if condition { self } else { Self::NOTHING }
    }

    pub(crate) const fn has_input(self, i: usize) -> bool {
        self.inputs & bit(i) != 0
    }

    pub(crate) const fn has_output(self, i: usize) -> bool {
        self.outputs & bit(i) != 0
    }
}

const fn bit(i: usize) -> u64 {
    1 << if i < 63 { i } else { 63 }
}

/// For each input, whether its gradient is needed.
pub type Needs<'a> = &'a [bool];

/// A differentiable operation.
///
/// The types keep the rules apart: `shape` sees shapes and dtypes, `forward` sees arrays, and all
/// others see only Variables. A rule written in Variables can be differentiated again, batched and
/// recorded, and a raw array cannot get into a derivative.
///
/// There are no default rules: a function that has no derivative must say so with [`no_rule`].
///
/// ```
/// use bibun::array::Array;
/// use bibun::*;
///
/// /// y = x².
/// #[derive(Clone, Debug)]
/// struct Square;
///
/// impl Function for Square {
///     type Inputs = Fixed<1>;
///     type Outputs = Fixed<1>;
///     fn name(&self) -> &'static str {
///         "square"
///     }
///     fn saves(&self, _: Needs<'_>) -> Saved {
///         Saved::NOTHING.input(0)
///     }
///     fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
///         Ok([x.clone()])
///     }
///     fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
///         [&x * &x]
///     }
///     fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
///         [Some(2.0 * cx.input(0) * gy)]
///     }
///     fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
///         [dx.map(|dx| 2.0 * cx.input(0) * dx)]
///     }
///     fn batch(&self, [x]: [Batched; 1]) -> [Batched; 1] {
///         let [y] = apply(Square, [x.value]);
///         [Batched { value: y, axis: x.axis }]
///     }
///     fn per_example(&self, cx: &Context<'_>, [gy]: [ExampleCotangent; 1]) -> [Option<ExampleGradient>; 1] {
///         gy.pull_back(|gy| self.vjp(cx, [gy]))
///     }
/// }
///
/// let x = Variable::new(3.0);
/// let [y] = apply(Square, [x.clone()]);
/// y.backward();
/// assert_eq!(x.grad().unwrap().item::<f64>(), 6.0);
/// ```
pub trait Function: Clone + fmt::Debug + Send + Sync + 'static {
    /// The number of inputs.
    type Inputs: Arity;
    /// The number of outputs.
    type Outputs: Arity;

    /// Returns the function's name, as users call it.
    fn name(&self) -> &'static str;

    /// Returns the values that `vjp` reads when the gradients of the inputs in `needs` are needed.
    fn saves(&self, needs: Needs<'_>) -> Saved;

    /// Returns the shapes and dtypes of the outputs.
    ///
    /// # Errors
    /// Returns an error if the inputs do not fit together. The caller sees the message with the
    /// function's name and the location of the call. [`Mismatch::KNOWN_BY_RUNNING`] is not an error.
    fn shape(&self, inputs: Inputs<Self, &Spec>) -> Result<Outputs<Self, Spec>, Mismatch>;

    /// Computes the outputs. The shapes have been checked. An array that has no other owner may be
    /// reused.
    fn forward(&self, inputs: Inputs<Self, Array>) -> Outputs<Self, Array>;

    /// Returns whether `forward` gets 16-bit floats as `f32`, with its results rounded to the dtypes
    /// of the outputs. This is for functions of several steps, of which only the last is to round.
    /// Defaults to `false`.
    #[inline]
    fn in_accumulator(&self) -> bool {
        false
    }

    /// Returns whether the function and its rules are defined for complex numbers, which are refused
    /// otherwise. The cotangent of a complex value is `∂L/∂Re + i ∂L/∂Im`, so `vjp` multiplies by
    /// conjugates. Defaults to `false`.
    #[inline]
    fn takes_complex(&self) -> bool {
        false
    }

    /// Computes the cotangents of the inputs from those of the outputs, which are zeros where none
    /// arrived. The result is `None` where there is no derivative or [`Context::needs`] does not ask
    /// for one.
    fn vjp(&self, cx: &Context<'_>, gy: Outputs<Self, Variable>) -> Inputs<Self, Option<Variable>>;

    /// Computes the tangents of the outputs from those of the inputs. `None` stands for zero.
    fn jvp(
        &self,
        cx: &Context<'_>,
        dx: Inputs<Self, Option<Variable>>,
    ) -> Outputs<Self, Option<Variable>>;

    /// Computes the outputs of all batch elements at once. At least one input has a batch axis.
    fn batch(&self, inputs: Inputs<Self, Batched>) -> Outputs<Self, Batched>;

    /// Computes, from the cotangents of outputs that have the examples along an axis, the gradients
    /// of the examples with respect to each input, and where the examples are in it.
    /// [`ExampleCotangent::pull_back`] is the rule for functions whose inputs have the examples along
    /// the same axis as the output. [`ExampleGradient::Unknown`] is always correct.
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Outputs<Self, ExampleCotangent>,
    ) -> Inputs<Self, Option<ExampleGradient>>;

    /// Returns the arrays that this call itself holds for its rules, beside the inputs and outputs that it
    /// [saves](Self::saves). History counts their bytes. Defaults to none.
    fn kept(&self) -> Vec<Array> {
        Vec::new()
    }
}

/// A list that holds the inputs or outputs of most functions without an allocation.
pub(crate) type Items<T> = SmallVec<[T; 2]>;

/// Collects items.
// PERF: one by one, because `collect` of a `SmallVec` takes a hundred instructions for a single item.
#[inline]
pub(crate) fn items<T>(list: impl IntoIterator<Item = T>) -> Items<T> {
    let mut items = Items::new();
    for item in list {
        items.push(item);
    }
    items
}

/// A [`Function`] with its arity erased, as nodes and walks hold it.
pub(crate) trait AnyFunction: Any + fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn saves(&self, needs: Needs<'_>) -> Saved;
    fn shape(&self, inputs: &[&Spec]) -> Result<Items<Spec>, Mismatch>;
    fn takes_complex(&self) -> bool;
    fn forward(&self, inputs: Items<Array>) -> Items<Array>;
    /// Runs [`apply`](crate::apply) as if it were called at `location`.
    fn apply(&self, inputs: Items<Variable>, location: Location) -> Items<Variable>;
    /// Takes the cotangents out of `gy`. None may be missing.
    fn vjp(&self, cx: &Context<'_>, gy: &mut [Option<Variable>]) -> Items<Option<Variable>>;
    fn jvp(&self, cx: &Context<'_>, dx: Items<Option<Variable>>) -> Items<Option<Variable>>;
    fn batch(&self, inputs: Items<Batched>) -> Items<Batched>;
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Items<ExampleCotangent>,
    ) -> Items<Option<ExampleGradient>>;
    fn kept(&self) -> Vec<Array>;
}

impl<F: Function> AnyFunction for F {
    fn name(&self) -> &'static str {
        self.name()
    }
    fn saves(&self, needs: Needs<'_>) -> Saved {
        self.saves(needs)
    }
    fn shape(&self, inputs: &[&Spec]) -> Result<Items<Spec>, Mismatch> {
        let inputs = F::Inputs::collect(inputs.iter().copied());
        Ok(items(self.shape(inputs)?))
    }
    fn takes_complex(&self) -> bool {
        self.takes_complex()
    }
    fn forward(&self, inputs: Items<Array>) -> Items<Array> {
        items(self.forward(F::Inputs::collect(inputs.into_iter())))
    }
    fn apply(&self, inputs: Items<Variable>, location: Location) -> Items<Variable> {
        let inputs = F::Inputs::collect(inputs.into_iter());
        items(apply::run(self, inputs, location, false))
    }
    fn vjp(&self, cx: &Context<'_>, gy: &mut [Option<Variable>]) -> Items<Option<Variable>> {
        let gy = gy.iter_mut().map(|gy| gy.take().expect("a cotangent"));
        items(self.vjp(cx, F::Outputs::collect(gy)))
    }
    fn jvp(&self, cx: &Context<'_>, dx: Items<Option<Variable>>) -> Items<Option<Variable>> {
        items(self.jvp(cx, F::Inputs::collect(dx.into_iter())))
    }
    fn batch(&self, inputs: Items<Batched>) -> Items<Batched> {
        items(self.batch(F::Inputs::collect(inputs.into_iter())))
    }
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Items<ExampleCotangent>,
    ) -> Items<Option<ExampleGradient>> {
        items(self.per_example(cx, F::Outputs::collect(gy.into_iter())))
    }
    fn kept(&self) -> Vec<Array> {
        self.kept()
    }
}

/// Reports that a function has no rule of this name, such as `vjp`, `jvp` or `batch`.
///
/// # Panics
/// Always panics, with [`Error::MissingRule`].
#[cold]
#[track_caller]
pub fn no_rule(function: &'static str, rule: &'static str, advice: &'static str) -> ! {
    let location = crate::error::caller();
    crate::error::raise(Error::MissingRule {
        function,
        rule,
        advice,
        location,
    })
}
