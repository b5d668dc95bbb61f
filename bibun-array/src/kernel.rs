//! Elementwise kernels: the computation at each element, apart from where the elements are stored.
//!
//! A [`Kernel`] has a [`Formula`], which any device can read, and for the CPU a loop over runs of
//! neighbouring elements, compiled from the same source for each instruction set that the machine
//! may have. If there is no loop, the CPU makes machine code of the formula, or goes through it block by block. Broadcasting,
//! strides, threads and memory are left to the device.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use crate::complex::formula_of;
use crate::conversion::convert;
use crate::cpu::Program;
use crate::dtype::with_float;
use crate::formula::{Formula, Type};
use crate::math::{Float, Integer, Machine, Truth};
use crate::{
    Array, DType, Element, Error, Kind, Mask, Number, Scalar, Slice, SliceMut, Whole, raise,
};

/// A formula of `N` inputs and `G` given numbers, as a type: the computation of an elementwise
/// function, for every precision and every device.
///
/// Mark `value` as `#[inline(always)]`, so that the loop around it becomes vector instructions.
/// Rust code around the operations (constants, loops of fixed length) runs once, when the formula
/// is read; a branch on a value does not compile.
///
/// ```
/// use bibun_array::math::Float;
/// use bibun_array::{elementwise, Array, ElementFormula, Number};
///
/// struct Axpy;
/// impl ElementFormula<2, 1> for Axpy {
///     const NAME: &'static str = "axpy";
///     #[inline(always)]
///     fn value<T: Float>([x, y]: [Number<T>; 2], [a]: [Number<T>; 1]) -> Number<T> {
///         a * x + y
///     }
/// }
/// let x = Array::from([1.0f32, 2.0]);
/// let y = Array::from([10.0f32, 20.0]);
/// assert_eq!(elementwise(Axpy, [x, y], [3.0]).to_vec::<f32>(), [13.0, 26.0]);
/// ```
pub trait ElementFormula<const N: usize, const G: usize = 0>: 'static {
    /// The name in error messages and profiles.
    const NAME: &'static str;
    /// Computes the result at one element, from the inputs there and the given numbers.
    fn value<T: Float>(x: [Number<T>; N], given: [Number<T>; G]) -> Number<T>;
}

/// A computation at each element of some arrays, which makes one output element from one element of
/// each: a [`Formula`] and the numbers given to it, or code of the host.
pub struct Kernel {
    computed: Computed,
    given: Given,
}

/// The numbers given with a call.
type Given = SmallVec<[f64; 2]>;

// PERF: `into` and `clone` take a hundred instructions even for no numbers, a copy by `from_slice`
// twenty.
#[inline]
fn given_numbers(given: &[f64]) -> Given {
    match given {
        [] => Given::new(),
        _ => Given::from_slice(given),
    }
}

#[derive(Clone)]
enum Computed {
    Loop(&'static Definition),
    Program(Arc<Program>),
}

/// A loop on the CPU. It fills the last argument from runs of the same length, one of each input.
pub type Run = fn(given: &[f64], inputs: &[Slice<'_>], out: SliceMut<'_>);

/// A kernel that is known when the library is compiled, apart from the numbers given to it.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    name: &'static str,
    /// Whether elements are passed in their own dtype, and not in that of their accumulator.
    stored: bool,
    /// The computation for a first input of each [`Kind`], if there is one.
    cases: [Option<Case>; 4],
}

#[derive(Clone, Copy, Debug)]
struct Case {
    /// The dtype of the result, if it is not that of the first input.
    output: Option<DType>,
    /// Returns the formula for a first input of a dtype, or `None` for code that only the host can
    /// run.
    formula: fn(DType) -> Option<Formula>,
    run: Run,
}

/// The kinds of elements for which a kernel can have a formula, each with the loop over it.
macro_rules! cases {
    ($($(#[$documentation:meta])* $name:ident: $Formula:ident => $Kind:ident, $output:expr,
        $formula:expr, $run:expr;)*) => {$(
        $(#[$documentation])*
        pub(crate) const fn $name<const N: usize, F: $Formula<N>>(self) -> Self {
            self.case(Kind::$Kind, Case {
                output: $output,
                formula: |_| $formula,
                run: $run,
            })
        }
    )*};
}

impl Definition {
    /// A definition that computes nothing yet.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self {
            name,
            stored: false,
            cases: [None; 4],
        }
    }

    const fn case(mut self, kind: Kind, case: Case) -> Self {
        self.cases[kind as usize] = Some(case);
        self
    }

    cases! {
        bool: LogicFormula => Truth, None, Some(trace_logic::<N, F>()), run_logic::<N, F>;
        integer: IntegerFormula => Integer, None, Some(trace_integer::<N, F>()),
            run_integers::<N, F>;
        integer_to_bool: IntegerTruthFormula => Integer, Some(DType::Bool),
            Some(trace_integer_truth::<N, F>()), run_integer_truths::<N, F>;
        integer_loop: IntegerLoop => Integer, None, None, run_integer_loop::<N, F>;
        float: ElementFormula => Float, None, Some(trace::<N, 0, F>()), run_floats::<N, 0, F>;
        angle: AngleFormula => Float, None, Some(trace::<N, 0, F>()), run_angles::<N, F>;
        float_to_bool: TruthFormula => Float, Some(DType::Bool), Some(trace_truth::<N, F>()),
            run_truths::<N, F>;
    }

    pub(crate) const fn number<const N: usize, F>(self) -> Self
    where
        F: IntegerFormula<N> + ElementFormula<N>,
    {
        self.integer::<N, F>().float::<N, F>()
    }

    pub(crate) const fn number_to_bool<const N: usize, F>(self) -> Self
    where
        F: IntegerTruthFormula<N> + TruthFormula<N>,
    {
        self.integer_to_bool::<N, F>().float_to_bool::<N, F>()
    }

    /// A choice by conditions.
    pub(crate) const fn choice(
        output: Option<DType>,
        formula: fn(DType) -> Option<Formula>,
        run: Run,
    ) -> Self {
        let case = Case {
            output,
            formula,
            run,
        };
        Self::named("where_").case(Kind::Truth, case)
    }

    /// A conversion to the dtype of `T`.
    pub(crate) const fn cast<T: Element>() -> Self {
        let case = Case {
            output: Some(T::DTYPE),
            formula: |input| {
                let is_real = !input.is_complex() && !T::DTYPE.is_complex();
                is_real.then(|| Formula::cast(input, T::DTYPE))
            },
            run: |_, inputs, out| convert(inputs[0], out),
        };
        Self {
            name: "cast",
            stored: true,
            cases: [Some(case); 4],
        }
    }

    /// A function of complex numbers that is no formula: `output` is the dtype of the result, if it
    /// is not that of the first input.
    pub(crate) const fn of_complex(name: &'static str, output: Option<DType>, run: Run) -> Self {
        let formula: fn(DType) -> Option<Formula> = |_| None;
        let case = Case {
            output,
            formula,
            run,
        };
        Self::named(name).case(Kind::Complex, case)
    }

    /// A function of real numbers whose results are complex numbers of this dtype.
    pub(crate) const fn to_complex(name: &'static str, output: DType, run: Run) -> Self {
        let formula: fn(DType) -> Option<Formula> = |_| None;
        let case = Case {
            output: Some(output),
            formula,
            run,
        };
        Self::named(name).case(Kind::Float, case)
    }

    /// Creates a kernel of host code, to which other devices send their elements: `run` fills the
    /// output for a first input of any dtype that is not complex (`output`: the dtype of the result, if it is not that
    /// of the first input). All elements are passed in the type of their
    /// [accumulator](DType::accumulator).
    pub const fn host(name: &'static str, output: Option<DType>, run: Run) -> Self {
        let formula: fn(DType) -> Option<Formula> = |_| None;
        let case = Case {
            output,
            formula,
            run,
        };
        Self {
            name,
            stored: false,
            cases: [Some(case), Some(case), Some(case), None],
        }
    }

    /// Creates a kernel of a formula, with loops for f32 and f64.
    pub const fn of<const N: usize, const G: usize, F: ElementFormula<N, G>>() -> Self {
        Self::with_loop::<N, G, F>(run_floats::<N, G, F>)
    }

    /// Creates a kernel of a formula, with another loop for f32 and f64 than one made of it.
    pub(crate) const fn with_loop<const N: usize, const G: usize, F>(run: Run) -> Self
    where
        F: ElementFormula<N, G>,
    {
        let case = Case {
            output: None,
            formula: |_| Some(trace::<N, G, F>()),
            run,
        };
        Self::named(F::NAME).case(Kind::Float, case)
    }

    /// Whether the kernel is defined for a first input of this dtype.
    pub(crate) fn takes(&'static self, input: DType) -> bool {
        self.cases[input.kind() as usize].is_some()
            || input.is_complex() && formula_of(self).is_some()
    }

    /// Computes a run of elements on the CPU.
    pub(crate) fn run(&'static self, given: &[f64], inputs: &[Slice<'_>], out: SliceMut<'_>) {
        let input = inputs[0].dtype();
        if let Some(case) = &self.cases[input.kind() as usize] {
            return (case.run)(given, inputs, out);
        }
        match formula_of(self).filter(|_| input.is_complex()) {
            Some(formula) => crate::complex::run(&formula, given, inputs, out),
            None => unreachable!("{} takes no {input}", self.name),
        }
    }

    /// Returns the name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the formula for a first input of this dtype, in the types of accumulators, or `None`
    /// for code that only the host can run, as for complex numbers, and for dtypes that the kernel does
    /// not take.
    pub fn formula(&self, input: DType) -> Option<Formula> {
        let case = self.cases[input.kind() as usize].as_ref()?;
        (case.formula)(input)
    }
}

impl Kernel {
    /// Creates the kernel of a definition, with the numbers given to it.
    #[inline]
    pub fn new(definition: &'static Definition, given: &[f64]) -> Self {
        Self {
            computed: Computed::Loop(definition),
            given: given_numbers(given),
        }
    }

    /// Creates a kernel from a formula with one result that is known only at run time. The CPU makes
    /// machine code of it at the first run, for the numbers that are given then, or goes through it
    /// block by block. It takes floats, all of one dtype.
    ///
    /// # Panics
    /// Panics if the formula has several results, or inputs that are not floats.
    pub fn from_formula(name: &'static str, formula: &Formula) -> Self {
        Self {
            computed: Computed::Program(Arc::new(Program::new(name, formula))),
            given: Given::new(),
        }
    }

    /// Creates the kernel of a formula that is a type.
    ///
    /// ```
    /// use bibun_array::math::Float;
    /// use bibun_array::{DType, ElementFormula, Kernel, Number};
    ///
    /// struct Scale;
    /// impl ElementFormula<1, 1> for Scale {
    ///     const NAME: &'static str = "scale";
    ///     #[inline(always)]
    ///     fn value<T: Float>([x]: [Number<T>; 1], [factor]: [Number<T>; 1]) -> Number<T> {
    ///         x * factor
    ///     }
    /// }
    /// let formula = Kernel::of(Scale, [2.0]).formula(DType::F32);
    /// assert_eq!(formula.unwrap().to_string(), "x0 * c0");
    /// ```
    pub fn of<F: ElementFormula<N, G>, const N: usize, const G: usize>(
        _formula: F,
        given: [f64; G],
    ) -> Self {
        Self::new(const { &Definition::of::<N, G, F>() }, &given)
    }

    /// Returns the same kernel with other given numbers.
    #[must_use]
    #[inline]
    pub fn with_given(&self, given: &[f64]) -> Self {
        Self {
            computed: self.computed.clone(),
            given: given_numbers(given),
        }
    }

    /// Returns the name in error messages and profiles.
    pub fn name(&self) -> &'static str {
        match &self.computed {
            Computed::Loop(definition) => definition.name,
            Computed::Program(program) => program.name(),
        }
    }

    /// Returns the dtype of the result for a first input of this dtype.
    pub fn output(&self, input: DType) -> DType {
        match &self.computed {
            Computed::Loop(definition) => {
                let case = definition.cases[input.kind() as usize];
                case.and_then(|case| case.output).unwrap_or(input)
            }
            Computed::Program(program) => program.output(input),
        }
    }

    /// Returns whether the kernel is defined for a first input of this dtype. A formula is for complex
    /// numbers if all of its operations have a meaning for them.
    pub fn takes(&self, input: DType) -> bool {
        match &self.computed {
            Computed::Loop(definition) => definition.takes(input),
            Computed::Program(program) => {
                input.is_float() || input.is_complex() && program.of_complex().is_some()
            }
        }
    }

    /// The dtype in which elements of this dtype are passed to the kernel.
    pub(crate) fn computed(&self, stored: DType) -> DType {
        match &self.computed {
            Computed::Loop(Definition { stored: true, .. }) => stored,
            Computed::Loop(_) | Computed::Program(_) => stored.accumulator(),
        }
    }

    /// Whether it goes through its inputs once, so that runs may be longer than the first-level cache.
    pub(crate) fn reads_once(&self, input: DType, len: usize) -> bool {
        match &self.computed {
            Computed::Loop(_) => true,
            Computed::Program(program) => {
                !input.is_complex() && program.has_code(&self.given, input, len)
            }
        }
    }

    /// Returns the formula for a first input of this dtype, in the types of
    /// [accumulators](DType::accumulator), or `None` for code that only the host can run.
    pub fn formula(&self, input: DType) -> Option<Formula> {
        match &self.computed {
            Computed::Loop(definition) => definition.formula(input),
            Computed::Program(program) => (!input.is_complex()).then(|| program.formula().clone()),
        }
    }

    /// The formula for inputs and a result of these dtypes (the result last), with the given numbers as
    /// constants. `None` if there is none, or elements are stored in another type than the one they are computed
    /// in.
    pub(crate) fn bound_formula(&self, dtypes: &[DType]) -> Option<Formula> {
        let is_computed = |dtype: &DType| dtype.accumulator() == *dtype && !dtype.is_complex();
        if !dtypes.iter().all(is_computed) {
            return None;
        }
        self.formula(dtypes[0])?.bound(dtypes, &self.given)
    }

    /// Whether another kernel computes the same because it is the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = match (&self.computed, &other.computed) {
            (Computed::Loop(a), Computed::Loop(b)) => std::ptr::eq(*a, *b),
            (Computed::Program(a), Computed::Program(b)) => Arc::ptr_eq(a, b),
            (Computed::Loop(_) | Computed::Program(_), _) => false,
        };
        let bits = |x: &f64| x.to_bits();
        is_same && self.given.iter().map(bits).eq(other.given.iter().map(bits))
    }

    /// A text that only kernels have in common that compute the same.
    pub(crate) fn key(&self) -> String {
        let bits: Vec<u64> = self.given.iter().map(|x| x.to_bits()).collect();
        match &self.computed {
            Computed::Loop(definition) => {
                let address = std::ptr::from_ref::<Definition>(definition).addr();
                format!("{} {address} {bits:?}", definition.name)
            }
            Computed::Program(program) => {
                format!(
                    "{} {} {bits:?}",
                    program.name(),
                    Arc::as_ptr(program).addr()
                )
            }
        }
    }

    /// Returns the numbers given to the formula.
    pub fn given(&self) -> &[f64] {
        &self.given
    }

    /// Fills `out` from runs of the same length, one of each input, on the CPU. All runs are in the
    /// type of their [accumulator](DType::accumulator), except in casts.
    pub fn run(&self, inputs: &[Slice<'_>], out: SliceMut<'_>) {
        match &self.computed {
            Computed::Loop(definition) => definition.run(&self.given, inputs, out),
            Computed::Program(program) => program.run(&self.given, inputs, out),
        }
    }
}

impl Clone for Kernel {
    #[inline]
    fn clone(&self) -> Self {
        self.with_given(&self.given)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name(), &self.given[..])
    }
}

pub(crate) fn trace<const N: usize, const G: usize, F: ElementFormula<N, G>>() -> Formula {
    Formula::trace(N, G, |x, given| {
        F::value(array(x, Clone::clone), array(given, Clone::clone))
    })
}

/// The elements, each converted by `f`. It is a function pointer so that this is not compiled anew
/// for each kernel.
fn array<const N: usize, X, Y>(x: &[X], f: fn(&X) -> Y) -> [Y; N] {
    std::array::from_fn(|i| f(&x[i]))
}

fn run_floats<const N: usize, const G: usize, F: ElementFormula<N, G>>(
    given: &[f64],
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
) {
    fn run<const N: usize, const G: usize, F: ElementFormula<N, G>, T: Machine + Element>(
        given: &[f64],
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) {
        let given = array(given, |&x| Number(T::from_f64(x)));
        run_loop(FloatLoop::<N, G, F, T>(given, PhantomData), inputs, out);
    }
    with_float!(out.dtype(), T => run::<N, G, F, T>(given, inputs, out));
}

/// The loop of a formula in one precision.
struct FloatLoop<const N: usize, const G: usize, F, T>([Number<T>; G], PhantomData<fn() -> F>);

impl<const N: usize, const G: usize, F, T: Copy> Clone for FloatLoop<N, G, F, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const N: usize, const G: usize, F, T: Copy> Copy for FloatLoop<N, G, F, T> {}

impl<const N: usize, const G: usize, F: ElementFormula<N, G>, T: Machine + Element> ElementLoop<N>
    for FloatLoop<N, G, F, T>
{
    type Input = T;
    type Item = Number<T>;
    type Output = T;
    #[inline(always)]
    fn item(x: T) -> Number<T> {
        Number(x)
    }
    #[inline(always)]
    fn apply(self, x: [Number<T>; N]) -> T {
        F::value(x, self.0).0
    }
}

/// A function of an angle, with its loop: those of numbers that need no long reduction, and then the
/// others.
pub(crate) trait AngleFormula<const N: usize>: ElementFormula<N> {
    fn fill<T: Machine>(x: &[T], y: &mut [T]);
}

struct AngleLoop<'a, const N: usize, F, T>(&'a [T], &'a mut [T], PhantomData<fn() -> F>);

impl<const N: usize, F: AngleFormula<N>, T: Machine> NullaryFnOnce for AngleLoop<'_, N, F, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        F::fill(self.0, self.1);
    }
}

fn run_angles<const N: usize, F: AngleFormula<N>>(
    _: &[f64],
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
) {
    with_float!(out.dtype(), T => {
        let out = T::from_slice_mut(out).expect("the device made the output");
        Arch::new().dispatch(AngleLoop::<N, F, T>(elements(inputs[0]), out, PhantomData));
    });
}

/// A comparison: an [`ElementFormula`] with a boolean result.
pub(crate) trait TruthFormula<const N: usize>: 'static {
    fn value<T: Float>(x: [Number<T>; N]) -> Mask<T>;
}

/// A formula over integers.
pub(crate) trait IntegerFormula<const N: usize>: 'static {
    fn value<T: Integer>(x: [Whole<T>; N]) -> Whole<T>;
}

/// A comparison of integers.
pub(crate) trait IntegerTruthFormula<const N: usize>: 'static {
    fn value<T: Integer>(x: [Whole<T>; N]) -> T::Truth;
}

/// A formula over booleans.
pub(crate) trait LogicFormula<const N: usize>: 'static {
    fn value<B: Truth>(x: [B; N]) -> B;
}

/// Code with a loop over integers, which therefore is not a formula.
pub(crate) trait IntegerLoop<const N: usize>: 'static {
    fn value(x: [i64; N]) -> i64;
}

fn trace_truth<const N: usize, F: TruthFormula<N>>() -> Formula {
    Formula::trace(N, 0, |x, _| F::value(array(x, Clone::clone)))
}

fn trace_integer<const N: usize, F: IntegerFormula<N>>() -> Formula {
    Formula::trace_of(&[Type::Integer; N], 0, |x, _| {
        F::value(array(x, |part| part.integer()))
    })
}

fn trace_integer_truth<const N: usize, F: IntegerTruthFormula<N>>() -> Formula {
    Formula::trace_of(&[Type::Integer; N], 0, |x, _| {
        F::value(array(x, |part| part.integer()))
    })
}

fn trace_logic<const N: usize, F: LogicFormula<N>>() -> Formula {
    Formula::trace_of(&[Type::Truth; N], 0, |x, _| {
        F::value(array(x, |part| part.truth().0))
    })
}

fn run_truths<const N: usize, F: TruthFormula<N>>(
    _: &[f64],
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
) {
    with_float!(inputs[0].dtype(), T => {
        run_loop(TruthLoop::<N, F, T>(PhantomData), inputs, out);
    });
}

macro_rules! loop_of {
    ($Loop:ident) => {
        struct $Loop<const N: usize, F, T>(PhantomData<fn() -> (F, T)>);
        impl<const N: usize, F, T> Clone for $Loop<N, F, T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<const N: usize, F, T> Copy for $Loop<N, F, T> {}
    };
}
/// Defines loops over integers or booleans by a formula of this type.
macro_rules! other_loops {
    ($($run:ident, $Loop:ident, $Formula:ident: $input:ty => $item:ty => $output:ty,
        |$x:ident| $to_item:expr, |$y:ident| $to_output:expr;)*) => {$(
        loop_of!($Loop);
        impl<const N: usize, F: $Formula<N>> ElementLoop<N> for $Loop<N, F, $input> {
            type Input = $input;
            type Item = $item;
            type Output = $output;
            #[inline(always)]
            fn item($x: $input) -> $item {
                $to_item
            }
            #[inline(always)]
            fn apply(self, x: [$item; N]) -> $output {
                let $y = F::value(x);
                $to_output
            }
        }
        fn $run<const N: usize, F: $Formula<N>>(
            _: &[f64],
            inputs: &[Slice<'_>],
            out: SliceMut<'_>,
        ) {
            run_loop($Loop::<N, F, $input>(PhantomData), inputs, out);
        }
    )*};
}

loop_of!(TruthLoop);
other_loops! {
    run_integers, WholeLoop, IntegerFormula: i64 => Whole<i64> => i64, |x| Whole(x), |y| y.0;
    run_integer_truths, WholeTruthLoop, IntegerTruthFormula: i64 => Whole<i64> => bool,
        |x| Whole(x), |y| y;
    run_logic, LogicLoop, LogicFormula: bool => bool => bool, |x| x, |y| y;
    run_integer_loop, PlainLoop, IntegerLoop: i64 => i64 => i64, |x| x, |y| y;
}

impl<const N: usize, F: TruthFormula<N>, T: Machine + Element> ElementLoop<N>
    for TruthLoop<N, F, T>
{
    type Input = T;
    type Item = Number<T>;
    type Output = bool;
    #[inline(always)]
    fn item(x: T) -> Number<T> {
        Number(x)
    }
    #[inline(always)]
    fn apply(self, x: [Number<T>; N]) -> bool {
        F::value(x).0
    }
}

/// The computation of a loop at one element, from inputs of one type.
pub(crate) trait ElementLoop<const N: usize>: Copy + Sync {
    /// The type of every input.
    type Input: Element;
    /// The type that an element has in the expression.
    type Item: Copy;
    /// The type of the result.
    type Output: Element;
    fn item(x: Self::Input) -> Self::Item;
    /// The result at one element.
    fn apply(self, x: [Self::Item; N]) -> Self::Output;
}

struct Loop<'a, const N: usize, K: ElementLoop<N>> {
    kernel: K,
    inputs: [&'a [K::Input]; N],
    out: &'a mut [K::Output],
}

impl<const N: usize, K: ElementLoop<N>> NullaryFnOnce for Loop<'_, N, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        // Bare loops: iterators, and functions of arrays of any length, would be compiled anew for
        // every kernel, and are slow without optimisation.
        let Self {
            kernel,
            mut inputs,
            out,
        } = self;
        let len = out.len();
        for input in &mut inputs {
            *input = &input[..len];
        }
        let mut i = 0;
        while i < len {
            let mut x = [K::item(inputs[0][i]); N];
            let mut k = 1;
            while k < N {
                x[k] = K::item(inputs[k][i]);
                k += 1;
            }
            out[i] = kernel.apply(x);
            i += 1;
        }
    }
}

/// Runs a loop with the vector instructions of this machine.
pub(crate) fn run_loop<const N: usize, K: ElementLoop<N>>(
    kernel: K,
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
) {
    let mut all = [elements::<K::Input>(inputs[0]); N];
    for k in 1..N {
        all[k] = elements(inputs[k]);
    }
    let out = K::Output::from_slice_mut(out).expect("the device made the output");
    Arch::new().dispatch(Loop {
        kernel,
        inputs: all,
        out,
    });
}

pub(crate) fn elements<T: Element>(x: Slice<'_>) -> &[T] {
    T::from_slice(x).expect("the dtypes have been checked")
}

/// Computes a formula at every element of the inputs, broadcast against each other.
///
/// An input that is passed by value and that no other array shares gives its memory to the result.
///
/// # Panics
/// Panics if the shapes do not broadcast, or the inputs are not all floats of one dtype.
#[track_caller]
pub fn elementwise<F: ElementFormula<N, G>, const N: usize, const G: usize>(
    formula: F,
    mut inputs: [Array; N],
    given: [f64; G],
) -> Array {
    let dtype = inputs[0].dtype();
    for input in &inputs {
        if input.dtype() != dtype || !dtype.is_differentiable() {
            let other = input.dtype();
            let what = format!("the inputs must be floats of one dtype, not {dtype} and {other}");
            raise(Error::invalid(F::NAME, what));
        }
    }
    run_kernel(&Kernel::of(formula, given), &mut inputs)
}

/// Runs a kernel at every element of the inputs, as [`elementwise`] does for a formula. The dtypes
/// of the inputs must be those that the kernel expects.
///
/// # Panics
/// Panics if the shapes do not broadcast, or the kernel is not defined for the dtype of the first
/// input.
#[track_caller]
pub fn run_kernel(kernel: &Kernel, inputs: &mut [Array]) -> Array {
    let (first, rest) = inputs.split_first().expect("a kernel has inputs");
    if rest.iter().any(|input| input.shape() != first.shape()) {
        broadcast(kernel, inputs);
    }
    if !kernel.takes(inputs[0].dtype()) {
        let what = format!("is not defined for the dtype {}", inputs[0].dtype());
        raise(Error::invalid(kernel.name(), what));
    }
    if let Some(y) = of_repeated(kernel, inputs) {
        return y;
    }
    let device = crate::placement::common(kernel.name(), &*inputs);
    crate::error::allocating(kernel.name(), || device.elementwise(kernel, inputs))
}

/// Broadcasts all inputs to their common shape.
#[track_caller]
fn broadcast(kernel: &Kernel, inputs: &mut [Array]) {
    // Closures have no caller of their own.
    let location = crate::caller();
    let mut shape = inputs[0].shape().clone();
    for input in &inputs[1..] {
        shape = shape.broadcast(input.shape()).unwrap_or_else(|| {
            raise(Error::Broadcast {
                function: kernel.name(),
                left: shape.clone(),
                right: input.shape().clone(),
                location,
            })
        });
    }
    let shape = shape.addressable(kernel.name());
    for input in inputs {
        if *input.shape() != shape {
            *input = input.broadcast_to(&shape);
        }
    }
}

/// The result, if all inputs repeat a single value, or are single elements: whether these are in memory would else
/// depend on who holds them, and later sums on that, to the last bit.
// PERF: most kernels fit into arrays, because lists that can grow cost more than the arithmetic.
fn of_repeated(kernel: &Kernel, inputs: &[Array]) -> Option<Array> {
    const MOST: usize = 4;
    let dtype = kernel.output(inputs[0].dtype());
    let computed = |x: Scalar| x.cast(kernel.computed(x.dtype()));
    let known = |x: &Array| {
        let is_here = x.size() == 1 && x.buffer().is_some();
        x.inline()
            .or_else(|| is_here.then(|| x.element_at(x.layout().offset)))
    };
    let mut y = Scalar::zero(kernel.computed(dtype));
    if inputs.len() <= MOST {
        let mut scalars = [Scalar::Bool(false); MOST];
        for (scalar, input) in scalars.iter_mut().zip(inputs) {
            *scalar = computed(known(input)?);
        }
        let slices = scalars.each_ref().map(Slice::of_scalar);
        kernel.run(&slices[..inputs.len()], SliceMut::of_scalar(&mut y));
    } else {
        let value = |input: &Array| known(input).map(computed);
        let scalars: Vec<Scalar> = inputs.iter().map(value).collect::<Option<_>>()?;
        let slices: Vec<Slice<'_>> = scalars.iter().map(Slice::of_scalar).collect();
        kernel.run(&slices, SliceMut::of_scalar(&mut y));
    }
    Some(Array::constant(y.cast(dtype), inputs[0].shape().clone()))
}
