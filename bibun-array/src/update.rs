//! Updates in place: the step of an optimizer at each element of a parameter.

use std::fmt;
use std::marker::PhantomData;

use pulp::NullaryFnOnce;
use smallvec::SmallVec;

use crate::cpu::dispatch_short;
use crate::formula::{Formula, Part, Symbol};
use crate::kernel::Kernel;
use crate::math::{Float, Machine};
use crate::{Array, DType, ElementFormula, Number};

/// A rule that changes an element of a parameter and its `N` numbers of state by its gradient and
/// `G` given numbers: a formula of `1 + N` results, for every precision and every device. Mark
/// `value` as `#[inline(always)]`, like that of an [`ElementFormula`].
///
/// ```
/// use bibun_array::math::Float;
/// use bibun_array::{Array, ElementUpdate, Given, Number, Update, cpu};
///
/// /// `v ← μ v - η g`, `x ← x + v`.
/// struct Momentum;
/// impl ElementUpdate<1, 2> for Momentum {
///     const NAME: &'static str = "momentum";
///     #[inline(always)]
///     fn value<T: Float>(
///         x: Number<T>,
///         gradient: Number<T>,
///         [v]: [Number<T>; 1],
///         [momentum, rate]: [Number<T>; 2],
///     ) -> (Number<T>, [Number<T>; 1]) {
///         let v = momentum * v - rate * gradient;
///         (x + v, [v])
///     }
/// }
/// let update = Update::new(Momentum, Vec::new(), [0.5, 0.25].map(Given::Number));
/// assert_eq!(
///     update.formula().unwrap().to_string(),
///     "v0 = c0 * x2\nv1 = c1 * x1\nv2 = v0 - v1\nv3 = x0 + v2\nv3, v2"
/// );
/// let (mut x, gradient) = (Array::from([1.0, 2.0]), Array::from([4.0, -4.0]));
/// let mut state = [Array::from([1.0, 0.0])];
/// cpu().update(&update, &mut x, &gradient, &mut state);
/// assert_eq!(x.to_vec::<f64>(), [0.5, 3.0]);
/// assert_eq!(state[0].to_vec::<f64>(), [-0.5, 1.0]);
/// ```
pub trait ElementUpdate<const N: usize, const G: usize>: 'static {
    /// The name in error messages and profiles.
    const NAME: &'static str;
    /// Computes the new values of an element and its state.
    fn value<T: Float>(
        x: Number<T>,
        gradient: Number<T>,
        state: [Number<T>; N],
        given: [Number<T>; G],
    ) -> (Number<T>, [Number<T>; N]);
}

/// A number given to an [`Update`], the same for all elements.
#[derive(Clone, Debug)]
pub enum Given {
    /// A number that the host knows.
    Number(f64),
    /// The single element of an array of the parameter's dtype. It may be on a device, and is not
    /// waited for.
    // PERF: boxed, because most are numbers.
    Element(Box<Array>),
}

impl From<f64> for Given {
    fn from(x: f64) -> Self {
        Self::Number(x)
    }
}

impl From<Array> for Given {
    fn from(element: Array) -> Self {
        Self::Element(Box::new(element))
    }
}

/// A change of a gradient at each element. An [`Update`] may apply several before its own rule.
#[derive(Clone, Debug)]
pub struct Change {
    kernel: Kernel,
    others: Vec<Array>,
}

impl Change {
    /// Creates a change whose kernel computes the new gradient from the parameter, its gradient and
    /// some other arrays. The other arrays have a single element or the shape of the parameter, and
    /// its dtype or the [accumulator](crate::DType::accumulator) of that.
    pub fn new(kernel: Kernel, others: impl Into<Vec<Array>>) -> Self {
        let others = others.into();
        Self { kernel, others }
    }

    /// Creates a change by a formula; see [`Change::new`].
    pub fn of<F: ElementFormula<N, G>, const N: usize, const G: usize>(
        formula: F,
        others: impl Into<Vec<Array>>,
        given: [f64; G],
    ) -> Self {
        Self::new(Kernel::of(formula, given), others)
    }

    /// Returns the kernel, whose inputs are the parameter, the gradient and the other arrays.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the other arrays.
    pub fn others(&self) -> &[Array] {
        &self.others
    }

    /// Returns the same change with other arrays in the place of its own, such as their copies on
    /// the host. For implementations of devices.
    #[must_use]
    pub fn map(&self, other: impl FnMut(&Array) -> Array) -> Self {
        Self::new(
            self.kernel.clone(),
            self.others.iter().map(other).collect::<Vec<_>>(),
        )
    }
}

/// A change of a parameter by a [`Device`](crate::Device) in one pass: some changes of the
/// gradient, then an [`ElementUpdate`] of parameter and state.
#[derive(Clone)]
pub struct Update {
    changes: Vec<Change>,
    definition: &'static Definition,
    given: SmallVec<[Given; 9]>,
}

/// An update that is known when the library is compiled, with loops for the CPU.
struct Definition {
    name: &'static str,
    formula: fn() -> Formula,
    single: Run<f32>,
    double: Run<f64>,
}

/// Changes a run of a parameter and of its state. The arguments are given numbers, parameter,
/// gradient and state.
pub(crate) type Run<T> = fn(&[f64], &mut [T], &[T], &mut [&mut [T]]);

impl Definition {
    const fn of<const N: usize, const G: usize, F: ElementUpdate<N, G>>() -> Self {
        Self {
            name: F::NAME,
            formula: trace::<N, G, F>,
            single: run::<N, G, F, f32>,
            double: run::<N, G, F, f64>,
        }
    }
}

impl Update {
    /// Creates an update by a formula, which is applied after the changes of the gradient.
    pub fn new<F: ElementUpdate<N, G>, const N: usize, const G: usize>(
        _formula: F,
        changes: Vec<Change>,
        given: [Given; G],
    ) -> Self {
        Self {
            changes,
            definition: const { &Definition::of::<N, G, F>() },
            given: given.into_iter().collect(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    /// Returns the changes of the gradient, in their order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the numbers given to the update, without those of the changes.
    pub fn given(&self) -> &[Given] {
        &self.given
    }

    /// Returns the whole update as one formula, or `None` if a change is code of the host. Its
    /// inputs are the parameter, the gradient, the state, the other arrays of each change and the
    /// given numbers that are elements; its given numbers are those of each change and those of the
    /// update; its results are the parameter and the state.
    pub fn formula(&self) -> Option<Formula> {
        let kernels = self
            .changes
            .iter()
            .map(|change| change.kernel.formula(DType::F64));
        let changes: Vec<Formula> = kernels.collect::<Option<_>>()?;
        let update = (self.definition.formula)();
        let own = update.inputs();
        let is_element = |given: &&Given| matches!(given, Given::Element(_));
        let elements = self.given.iter().filter(is_element).count();
        let others = changes
            .iter()
            .map(|change| change.inputs() - 2)
            .sum::<usize>();
        let numbers = changes.iter().map(Formula::given).sum::<usize>();
        let given = numbers + update.given() - elements;
        Some(Formula::trace(own + others + elements, given, |x, c| {
            let (own, mut others) = (&x[..own], x[own..].iter().copied());
            let mut numbers = c.iter().copied();
            let mut x: Vec<Part> = own.iter().copied().map(Part::Number).collect();
            for change in &changes {
                let mut inputs = x[..2].to_vec();
                inputs.extend(others.by_ref().take(change.inputs() - 2).map(Part::Number));
                let given: Vec<Number<Symbol>> = numbers.by_ref().take(change.given()).collect();
                x[1] = change.on(&inputs, &given);
            }
            let given = self.given.iter().map(|given| match given {
                Given::Number(_) => numbers.next(),
                Given::Element(_) => others.next(),
            });
            let given: Option<Vec<Number<Symbol>>> = given.collect();
            update.results_on(&x, &given.expect("there is one for each"))
        }))
    }

    /// Returns the same update with other arrays in the place of its own, such as their copies on
    /// the host. For implementations of devices.
    #[must_use]
    pub fn map(&self, mut other: impl FnMut(&Array) -> Array) -> Self {
        let changes = self.changes.iter().map(|change| change.map(&mut other));
        Self {
            changes: changes.collect(),
            definition: self.definition,
            given: (self.given.iter())
                .map(|given| match given {
                    Given::Number(x) => Given::Number(*x),
                    Given::Element(x) => other(x).into(),
                })
                .collect(),
        }
    }

    pub(crate) fn single(&self) -> Run<f32> {
        self.definition.single
    }

    pub(crate) fn double(&self) -> Run<f64> {
        self.definition.double
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name())
            .field("changes", &self.changes)
            .field("given", &self.given)
            .finish()
    }
}

fn trace<const N: usize, const G: usize, F: ElementUpdate<N, G>>() -> Formula {
    Formula::trace(2 + N, G, |x, given| {
        let state = std::array::from_fn(|i| x[2 + i]);
        let (x, state) = F::value(x[0], x[1], state, std::array::from_fn(|i| given[i]));
        let mut results = vec![x];
        results.extend(state);
        results
    })
}

fn run<const N: usize, const G: usize, F: ElementUpdate<N, G>, T: Machine>(
    given: &[f64],
    x: &mut [T],
    gradient: &[T],
    state: &mut [&mut [T]],
) {
    let mut state = state.iter_mut();
    dispatch_short(Loop::<N, G, F, T> {
        given: std::array::from_fn(|i| Number(T::from_f64(given[i]))),
        x,
        gradient,
        state: std::array::from_fn(|_| &mut **state.next().expect("a state has its arrays")),
        formula: PhantomData,
    });
}

/// The loop of an update in one precision.
struct Loop<'a, const N: usize, const G: usize, F, T> {
    given: [Number<T>; G],
    x: &'a mut [T],
    gradient: &'a [T],
    state: [&'a mut [T]; N],
    formula: PhantomData<fn() -> F>,
}

impl<const N: usize, const G: usize, F: ElementUpdate<N, G>, T: Machine> NullaryFnOnce
    for Loop<'_, N, G, F, T>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        // A bare loop, like that of a kernel.
        let Self {
            given, x, gradient, ..
        } = self;
        let len = x.len();
        let gradient = &gradient[..len];
        let state = self.state.map(|state| &mut state[..len]);
        let mut i = 0;
        while i < len {
            let mut own = [Number(x[i]); N];
            let mut k = 0;
            while k < N {
                own[k] = Number(state[k][i]);
                k += 1;
            }
            let (new, own) = F::value(Number(x[i]), Number(gradient[i]), own, given);
            x[i] = new.0;
            k = 0;
            while k < N {
                state[k][i] = own[k].0;
                k += 1;
            }
            i += 1;
        }
    }
}
