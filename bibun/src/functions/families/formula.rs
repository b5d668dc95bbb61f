//! Elementwise functions that are formulas: a value, and derivatives that are formulas too.
//!
//! A derivative is a function like any other: it is applied by [`apply`](crate::apply), recorded,
//! batched and differentiated. If it is not given, it is [derived](super::derivative) from the
//! formula of the value.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{OnceLock, RwLock};

use bibun_array::formula::{Formula, Node, Operation};
use bibun_array::{Array, DType, Definition, Kernel, run_kernel};
use smallvec::SmallVec;

use super::derivative::{derive, unknown};
use super::parameter::Places;
use crate::apply::apply_fitting;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Arity, Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic, no_rule};
use crate::functions::conj;
use crate::functions::math::of_operation;
use crate::variable::Variable;

/// An elementwise function of inputs of equal shape and dtype.
#[derive(Debug)]
pub(crate) struct ElementFunction {
    value: Value,
    /// The derivatives that are given, by input and then by parameter; the missing ones are derived.
    given: &'static [Gradient],
    derivatives: OnceLock<Box<[Option<Derivative>]>>,
    /// The functions with parameters as inputs, by the places of these.
    pub(super) variants: RwLock<Vec<(Places, &'static Self)>>,
}

#[derive(Debug)]
enum Value {
    Known(&'static Definition),
    Derived(Kernel),
}

/// A given `g ∂y/∂xᵢ`: a formula of `g` and the values it reads, in this order.
#[derive(Debug)]
pub(crate) struct Gradient {
    pub(crate) reads: &'static [Read],
    /// The formula, which is traced when it is first needed.
    pub(crate) formula: fn() -> Formula,
    /// A separately compiled loop of the formula, which costs compile time: for functions that are
    /// used in training networks.
    pub(crate) fused: Option<&'static Definition>,
    /// Why the derivative is not known, if it is not: the rest has no meaning then.
    pub(crate) unknown: Option<&'static str>,
}

/// A value of the call that a derivative reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    Input(u8),
    Output,
}

impl Read {
    /// Returns the value that a name in a derivative stands for.
    pub(crate) const fn named(name: &str) -> Self {
        match name.as_bytes() {
            b"x" | b"a" => Self::Input(0),
            b"b" => Self::Input(1),
            b"c" => Self::Input(2),
            b"y" => Self::Output,
            _ => panic!("derivatives read x, or a, b and c, and y"),
        }
    }
}

/// `g ∂y/∂xᵢ` as a function of `g` and the values it reads.
#[derive(Debug)]
pub(super) struct Derivative {
    reads: SmallVec<[Read; 4]>,
    saves: Saved,
    function: Slope,
}

impl Derivative {
    fn new(reads: SmallVec<[Read; 4]>, function: Slope) -> Self {
        let saves = reads.iter().fold(Saved::NOTHING, |saves, read| match read {
            Read::Input(i) => saves.input(usize::from(*i)),
            Read::Output => saves.output(0),
        });
        Self {
            reads,
            saves,
            function,
        }
    }
}

#[derive(Debug)]
enum Slope {
    /// Zeros, which need no function.
    Zero,
    /// `g` itself.
    Identity,
    Function(&'static ElementFunction),
    /// None: the function whose derivative is not known, and why.
    Unknown(&'static str, &'static str),
}

impl ElementFunction {
    pub(crate) const fn new(value: &'static Definition, given: &'static [Gradient]) -> Self {
        Self {
            value: Value::Known(value),
            given,
            derivatives: OnceLock::new(),
            variants: RwLock::new(Vec::new()),
        }
    }

    /// Creates a function of a derived formula, which lives as long as the program.
    pub(super) fn derived(name: String, formula: &Formula) -> &'static Self {
        let kernel = Kernel::from_formula(name.leak(), formula);
        Box::leak(Box::new(Self {
            value: Value::Derived(kernel),
            given: &[],
            derivatives: OnceLock::new(),
            variants: RwLock::new(Vec::new()),
        }))
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.value {
            Value::Known(definition) => definition.name(),
            Value::Derived(kernel) => kernel.name(),
        }
    }

    /// Returns the formula of the value.
    pub(crate) fn formula(&self) -> Formula {
        let formula = self.kernel(&[]).formula(DType::F64);
        formula.expect("elementwise functions are formulas")
    }

    /// Returns the given derivative with respect to an input, or to a parameter in a place behind
    /// the inputs, if there is one.
    pub(crate) fn gradient(&self, input: usize) -> Option<&Gradient> {
        self.given.get(input)
    }

    /// Computes `g ∂y/∂xᵢ` both as given and as derived from the value, if it is given.
    #[cfg(test)]
    pub(crate) fn written_and_derived(
        &self,
        input: usize,
        given: &[f64],
        x: &[Array],
        g: &Array,
    ) -> Option<[Array; 2]> {
        let gradient = self.gradient(input)?;
        let (reads, derived) = derive(self, input)?;
        let y = run_kernel(&self.kernel(given), &mut x.to_vec());
        let value = |reads: &[Read], formula: &Formula| {
            let read = reads.iter().map(|read| match read {
                Read::Input(i) => x[usize::from(*i)].clone(),
                Read::Output => y.clone(),
            });
            let mut inputs: Vec<Array> = std::iter::once(g.clone()).chain(read).collect();
            let kernel = Kernel::from_formula("gradient", formula).with_given(given);
            run_kernel(&kernel, &mut inputs)
        };
        Some([
            value(gradient.reads, &(gradient.formula)()),
            value(&reads, &derived),
        ])
    }

    pub(crate) fn kernel(&self, given: &[f64]) -> Kernel {
        match &self.value {
            Value::Known(definition) => Kernel::new(definition, given),
            Value::Derived(kernel) => kernel.with_given(given),
        }
    }

    /// Returns the derivative with respect to an input; `None` if the value does not depend on it.
    fn derivative(&'static self, input: usize) -> Option<&'static Derivative> {
        let all = self.derivatives.get_or_init(|| {
            let inputs = self.formula().inputs();
            (0..inputs).map(|i| self.find_derivative(i)).collect()
        });
        all[input].as_ref()
    }

    #[cold]
    fn find_derivative(&'static self, input: usize) -> Option<Derivative> {
        let (reads, function) = match self.gradient(input) {
            Some(Gradient {
                unknown: Some(why), ..
            }) => (SmallVec::new(), Slope::Unknown(self.name(), why)),
            Some(gradient) => {
                let function = match gradient.fused {
                    Some(fused) => Slope::Function(Box::leak(Box::new(Self::new(fused, &[])))),
                    None => self.slope(&(gradient.formula)()),
                };
                (gradient.reads.into(), function)
            }
            None => match unknown(&self.formula(), input) {
                Some((function, why)) => (SmallVec::new(), Slope::Unknown(function, why)),
                None => {
                    let (reads, formula) = derive(self, input)?;
                    (reads, self.slope(&formula))
                }
            },
        };
        Some(Derivative::new(reads, function))
    }

    /// Returns the derivative with this formula.
    pub(super) fn derivative_of(
        &'static self,
        reads: SmallVec<[Read; 4]>,
        formula: &Formula,
    ) -> Derivative {
        Derivative::new(reads, self.slope(formula))
    }

    /// Sets the derivatives of a function that has just been made.
    pub(super) fn set_derivatives(&self, all: Box<[Option<Derivative>]>) {
        let is_first = self.derivatives.set(all).is_ok();
        debug_assert!(is_first, "the function is new");
    }

    /// Returns the function of a derivative's formula, an existing one if there is one.
    fn slope(&'static self, formula: &Formula) -> Slope {
        let line = |node: Node| &formula.lines()[node.index()];
        let result = line(formula.result());
        let is_input =
            |(i, &node): (usize, &Node)| line(node).operation() == Operation::Input(i as u8);
        let in_order = result.arguments().len() == formula.inputs()
            && result.arguments().iter().enumerate().all(is_input);
        match result.operation() {
            Operation::Input(_) => Slope::Identity,
            Operation::Constant(bits) if bits == 0f64.to_bits() => Slope::Zero,
            operation if in_order => Slope::Function(of_operation(operation)),
            // A derivative is linear in g, and so is its own derivative with respect to g.
            _ if *formula == self.formula() => Slope::Function(self),
            _ => Slope::Function(Self::derived(format!("{} gradient", self.name()), formula)),
        }
    }

    /// Applies the function to inputs of one shape and dtype.
    #[track_caller]
    pub(super) fn of(&'static self, given: &[f64], inputs: SmallVec<[Variable; 4]>) -> Variable {
        macro_rules! call {
            ($A:ty) => {{
                let function = Elements::<$A>(self, self.kernel(given), PhantomData);
                let inputs = <$A as Arity>::collect(inputs.into_iter());
                let [y] = apply_fitting(function, inputs);
                y
            }};
        }
        match inputs.len() {
            1 => call!(Fixed<1>),
            2 => call!(Fixed<2>),
            3 => call!(Fixed<3>),
            _ => call!(Variadic),
        }
    }
}

/// The family: an [`ElementFunction`] as a [`Function`], with its kernel, which holds the given
/// numbers.
pub(crate) struct Elements<A>(&'static ElementFunction, Kernel, PhantomData<fn() -> A>);

impl<A> Clone for Elements<A> {
    fn clone(&self) -> Self {
        Self(self.0, self.1.clone(), PhantomData)
    }
}

impl<A> fmt::Debug for Elements<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.given() {
            [] => f.write_str(self.0.name()),
            given => write!(f, "{}{given:?}", self.0.name()),
        }
    }
}

impl<A: Arity> Elements<A> {
    /// Computes `g ∂y/∂xᵢ`, which serves both derivative rules, because the Jacobian is diagonal.
    fn partial(&self, i: usize, cx: &Context<'_>, g: Variable) -> Option<Variable> {
        let derivative = self.0.derivative(i)?;
        let function = match derivative.function {
            Slope::Identity => return Some(g),
            Slope::Zero => return Some(Variable::constant(Array::zeros(g.shape(), g.dtype()))),
            Slope::Function(function) => function,
            Slope::Unknown(function, why) => no_rule(function, "derivative", why),
        };
        let mut inputs: SmallVec<[Variable; 4]> = SmallVec::new();
        inputs.push(g);
        for read in &derivative.reads {
            inputs.push(match read {
                Read::Input(i) => cx.input(usize::from(*i)),
                Read::Output => cx.output(0),
            });
        }
        Some(function.of(self.1.given(), inputs))
    }
}

impl<A: Arity> Function for Elements<A> {
    type Inputs = A;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        let mut saves = Saved::NOTHING;
        for (i, &needed) in needs.iter().enumerate() {
            if needed && let Some(derivative) = self.0.derivative(i) {
                saves = saves.and(derivative.saves);
            }
        }
        saves
    }

    fn shape(&self, inputs: A::Of<&Spec>) -> Result<[Spec; 1], Mismatch> {
        let inputs = inputs.as_ref();
        let first = inputs[0];
        if inputs[1..].iter().any(|input| *input != first) {
            let names = ["x0", "x1", "x2"].into_iter().chain(std::iter::repeat("x"));
            let inputs: Vec<(&str, &Spec)> = names.zip(inputs.iter().copied()).collect();
            return Err(Mismatch::new(&inputs, "all must be equal"));
        }
        Ok([first.clone()])
    }

    fn takes_complex(&self) -> bool {
        self.1.takes(DType::C64)
    }

    fn forward(&self, mut inputs: A::Of<Array>) -> [Array; 1] {
        [run_kernel(&self.1, inputs.as_mut())]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> A::Of<Option<Variable>> {
        let mut gy = Some(gy);
        let count = cx.input_count();
        A::collect((0..count).map(|i| {
            if !cx.needs(i) {
                return None;
            }
            // The last input that needs the cotangent takes it, so that its memory may be reused.
            let last = (i + 1..count).all(|later| !cx.needs(later));
            let gy = if last { gy.take() } else { gy.clone() };
            let gy = gy.expect("taken by the last only");
            // The partial derivative is linear in its factor, and analytic in all else.
            match gy.dtype().is_complex() {
                true => self.partial(i, cx, conj(gy)).map(conj),
                false => self.partial(i, cx, gy),
            }
        }))
    }

    fn jvp(&self, cx: &Context<'_>, dx: A::Of<Option<Variable>>) -> [Option<Variable>; 1] {
        let terms = dx.into_iter().enumerate();
        let terms = terms.filter_map(|(i, dx)| self.partial(i, cx, dx?));
        [terms.reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: A::Of<Batched>) -> [Batched; 1] {
        Batched::of_elements(self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> A::Of<Option<ExampleGradient>> {
        let ExampleCotangent {
            cotangent,
            examples,
        } = gy;
        let gradients = self.vjp(cx, [cotangent]);
        A::map(gradients, |gx| {
            Some(ExampleGradient::sliced(gx?, examples.clone()))
        })
    }
}

/// Defines an [`ElementFunction`] of the type `$Rule`, by which its rules can be replaced.
///
/// It takes the inputs and parameters by name, and the value as a formula (`value: x.exp()`, which
/// becomes a vector loop) or as an operation that already has a loop (`operation: Exp`). For each
/// input, `g dy/dx` may be given if it is better conditioned than the derivative derived from the
/// value. It reads any of `x` (or `a`, `b`) and `y`, and is a formula (`derivative(y; gy)`), or a
/// formula with a loop of its own (`fused(y; gy)`); or it is not known, for a reason
/// (`unknown(; gy): \"why\"`). After those of all inputs come derivatives by the
/// parameters, for calls with Variables in their place ([`call_with`](super::call_with)).
macro_rules! element_function {
    (
        $Rule:ident = $name:expr, $inputs:tt $parameters:tt;
        $value_kind:ident: $value:expr;
        $($gradient_kind:ident($($kept:ident),*; $gy:ident): $gradient:expr;)*
    ) => {
        impl $Rule {
            /// Returns the function.
            pub(crate) fn function() -> &'static $crate::functions::families::ElementFunction {
                use $crate::functions::families::{
                    ElementFunction, Gradient, count_of, element_definition,
                };
                #[allow(dead_code, reason = "operations have no parameters")]
                const GIVEN: usize = count_of!($parameters);
                static GRADIENTS: &[Gradient] = &[$($crate::functions::families::gradient! {
                    $gradient_kind($($kept),*; $gy) $name, $parameters $gradient
                }),*];
                static FUNCTION: ElementFunction = {
                    #[allow(dead_code, reason = "operations are of their own")]
                    const COUNT: usize = count_of!($inputs);
                    let definition: Option<&bibun_array::Definition> =
                        element_definition!($value_kind $name, $inputs $parameters $value);
                    ElementFunction::new(definition.expect("a formula"), GRADIENTS)
                };
                &FUNCTION
            }
        }
    };
}
pub(crate) use element_function;

/// Defines the derivative of an [`element_function`] with respect to one input.
macro_rules! gradient {
    (unknown(; $gy:ident) $name:expr, $parameters:tt $why:expr) => {
        Gradient {
            reads: &[],
            formula: || unreachable!("it is not known"),
            fused: None,
            unknown: Some($why),
        }
    };
    (
        $kind:ident($($kept:ident),*; $gy:ident) $name:expr, $parameters:tt $gradient:expr
    ) => {{
        use $crate::functions::families::{Read, element_definition, element_formula};
        const READS: &[Read] = &[$(Read::named(stringify!($kept))),*];
        const COUNT: usize = READS.len() + 1;
        element_formula! {
            concat!($name, " gradient"), [$gy $(, $kept)*] $parameters $gradient
        }
        Gradient {
            reads: READS,
            formula: bibun_array::formula::Formula::read::<COUNT, GIVEN, Formula>,
            fused: element_definition!($kind),
            unknown: None,
        }
    }};
}
pub(crate) use gradient;

/// Defines a formula as a type with `COUNT` inputs and `GIVEN` parameters.
macro_rules! element_formula {
    ($name:expr, $inputs:tt $parameters:tt $value:expr) => {
        struct Formula;
        impl bibun_array::ElementFormula<COUNT, GIVEN> for Formula {
            const NAME: &'static str = $name;
            #[inline(always)]
            #[allow(unused_variables, reason = "not every derivative reads all parameters")]
            fn value<T: bibun_array::math::Float>(
                $inputs: [bibun_array::Number<T>; COUNT],
                $parameters: [bibun_array::Number<T>; GIVEN],
            ) -> bibun_array::Number<T> {
                $value
            }
        }
    };
}
pub(crate) use element_formula;

/// Returns the loop of a value, an operation or a fused derivative.
macro_rules! element_definition {
    (value $name:expr, $inputs:tt $parameters:tt $value:expr) => {{
        $crate::functions::families::element_formula! { $name, $inputs $parameters $value }
        $crate::functions::families::element_definition!(fused)
    }};
    (operation $name:expr, $inputs:tt $parameters:tt $operation:expr) => {{
        use bibun_array::formula::Operation::*;
        $operation.definition()
    }};
    (fused) => {
        Some(const { &bibun_array::Definition::of::<COUNT, GIVEN, Formula>() })
    };
    (derivative) => {
        None
    };
}
pub(crate) use element_definition;

/// Counts names.
macro_rules! count_of {
    ([$($name:ident),*]) => {
        <[&str]>::len(&[$(stringify!($name)),*])
    };
}
pub(crate) use count_of;

/// Defines the method of the function with the same name, which returns a Variable or the given
/// type.
macro_rules! method {
    ($name:ident $(<$N:ident>)? -> $Output:ty $(, $parameter:ident: $Type:ty)*) => {
        impl $crate::Variable {
            #[doc = concat!("Calls [`functions::", stringify!($name), "`](crate::functions::", stringify!($name), ") of this Variable.")]
            #[must_use]
            #[track_caller]
            pub fn $name $(<const $N: usize>)? (&self $(, $parameter: $Type)*) -> $Output {
                $name(self $(, $parameter)*)
            }
        }
    };
    ($name:ident $(<$N:ident>)? $(, $parameter:ident: $Type:ty)*) => {
        $crate::functions::families::method!($name $(<$N>)? -> Self $(, $parameter: $Type)*);
    };
}
pub(crate) use method;

/// Defines the type of a function, by which its rules can be replaced.
macro_rules! function_type {
    ($name:ident, $inputs:literal, $Rule:ident) => {
        #[doc = concat!("The function [`", stringify!($name), "`] as a type, for [`Rules::set`](crate::Rules::set).")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Rule;

        impl $crate::Replaceable for $Rule {
            type Inputs = $crate::Fixed<$inputs>;
            type Outputs = $crate::Fixed<1>;
            const NAME: &'static str = stringify!($name);
        }
    };
}
pub(crate) use function_type;

/// Writes the end of an elementwise function's documentation: its shapes and types, which follow from
/// the number of its inputs and from their conversion.
macro_rules! shapes_and_types {
    (unary) => {
        $crate::functions::families::shapes_and_types!(unary "floats; integers give f64.")
    };
    (unary to_differentiable) => {
        $crate::functions::families::shapes_and_types!(
            unary "floats and complex numbers; integers give f64."
        )
    };
    (unary to_number) => {
        $crate::functions::families::shapes_and_types!(unary "all; bool gives i64.")
    };
    (unary $([$parameter:ident])+) => {
        concat!(
            "\nShapes: x any → the same; ",
            $crate::functions::families::shapes_and_types!(@list $($parameter)+),
            " a number, or an array that is broadcast with x.\nTypes: floats, promoted; integers \
             give f64.\n\n# Panics\nPanics if the shapes do not broadcast."
        )
    };
    (@list $only:ident) => { stringify!($only) };
    (@list $first:ident $($more:ident)+) => {
        concat!(stringify!($first), $(", ", stringify!($more)),+, ", each")
    };
    (unary $types:literal) => {
        concat!("\nShapes: x any → the same.\nTypes: ", $types)
    };
    (binary) => {
        $crate::functions::families::shapes_and_types!(binary "all, promoted.")
    };
    (binary to_float) => {
        $crate::functions::families::shapes_and_types!(
            binary "floats, promoted; integers give f64."
        )
    };
    (binary to_differentiable) => {
        $crate::functions::families::shapes_and_types!(
            binary "floats and complex numbers, promoted; integers give f64."
        )
    };
    (binary to_number) => {
        $crate::functions::families::shapes_and_types!(binary "all, promoted; bool gives i64.")
    };
    (binary $types:literal) => {
        concat!(
            "\nShapes: inputs that broadcast → their common shape.\nTypes: ",
            $types,
            "\n\n# Panics\nPanics if the shapes do not broadcast."
        )
    };
}
pub(crate) use shapes_and_types;

/// Defines elementwise functions of one float array, or converted `via` another function, in a few
/// lines each; see [`element_function`](super::element_function). Parameters are numbers or Variables:
/// `parameter(x; gy)` is the derivative by each, in order, for the first few or all of them. A file
/// that needs another list of samples besides this one names it: `samples in unary_samples;`.
macro_rules! unary {
    (samples in $samples:ident; $(
        $(#[$documentation:meta])*
        $name:ident($x:ident $(, $parameter:ident)*) $(via $convert:ident)? -> $Rule:ident {
            $value_kind:ident: $value:expr,
            $(derivative($($kept:ident),*; $gy:ident): $gradient:expr,)?
            $(fused($($fused_kept:ident),*; $fused_gy:ident): $fused:expr,)?
            $(parameter($($by_kept:ident),*; $by_gy:ident): $by:expr,)*
            sample$(($($setting:expr),*))?: ($range:expr, $reference:expr) $(,)?
        }
    )+) => {
        $(
            $(#[$documentation])*
            #[doc = $crate::functions::families::shapes_and_types!(
                unary $($convert)? $([$parameter])*
            )]
            #[track_caller]
            pub fn $name(
                x: impl Into<$crate::Variable>
                $(, $parameter: impl Into<$crate::functions::Operand>)*
            ) -> $crate::Variable {
                let x = $crate::functions::families::unary!(@convert $name x $($convert)?);
                $crate::functions::families::unary!(@call $name, $Rule, x $(, $parameter)*)
            }

            $crate::functions::families::function_type!($name, 1, $Rule);

            $crate::functions::families::element_function! {
                $Rule = stringify!($name), [$x] [$($parameter),*];
                $value_kind: $value;
                $(derivative($($kept),*; $gy): $gradient;)?
                $(fused($($fused_kept),*; $fused_gy): $fused;)?
                $(derivative($($by_kept),*; $by_gy): $by;)*
            }

            $crate::functions::families::method!(
                $name $(, $parameter: impl Into<$crate::functions::Operand>)*
            );
        )+

        #[cfg(test)]
        pub(super) fn $samples() -> Vec<$crate::conformance::Sample> {
            let mut samples = Vec::new();
            $({
                let settings: &[f64] = &[$($($setting),*)?];
                #[allow(unused_mut, unused_variables, reason = "most have no parameters")]
                let mut setting = settings.iter().copied();
                $(let $parameter = setting.next().expect("a setting for each parameter");)*
                samples.push(
                    $crate::conformance::Sample::unary(
                        stringify!($name),
                        $range,
                        move |x| $name(x $(, $parameter)*),
                        $reference,
                    )
                    .of($Rule::function(), settings),
                );
                $crate::functions::families::unary!(
                    @variables samples, $name, $range, settings, $reference $(, $parameter)*
                );
            })+
            samples
        }
    };
    (@call $name:ident, $Rule:ident, $x:ident) => {
        $crate::functions::families::call($Rule::function(), &[], [$x])
    };
    (@call $name:ident, $Rule:ident, $x:ident $(, $parameter:ident)+) => {
        $crate::functions::families::call_with(
            stringify!($name),
            $Rule::function(),
            $x,
            [$(stringify!($parameter)),+],
            [$($parameter.into()),+],
        )
    };
    (@variables $samples:ident, $name:ident, $range:expr, $settings:ident, $reference:expr) => {};
    (
        @variables $samples:ident, $name:ident, $range:expr, $settings:ident, $reference:expr
        $(, $parameter:ident)+
    ) => {
        $samples.push($crate::conformance::Sample::with_parameters(
            stringify!($name),
            $range,
            $settings,
            |x, parameters| {
                let mut parameter = parameters.iter();
                $(let $parameter = parameter.next().expect("one for each parameter");)+
                $name(x $(, $parameter)+)
            },
            |x, parameters| {
                let mut parameter = parameters.iter().copied();
                $(let $parameter = parameter.next().expect("one for each parameter");)+
                let reference: fn(&dyn Fn(f64) -> f64, f64) -> f64 = |f, x| f(x);
                reference(&$reference, x)
            },
        ));
    };
    (@convert $name:ident $x:ident) => {
        $crate::functions::to_float_of(stringify!($name), $x.into())
    };
    (@convert $name:ident $x:ident $convert:ident) => { $crate::functions::$convert($x.into()) };
    ($($entries:tt)+) => {
        $crate::functions::families::unary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use unary;

/// Defines a function of two arrays, broadcast against each other, without its method.
macro_rules! binary_function {
    (
        $(#[$documentation:meta])*
        $name:ident($a:ident, $b:ident) $(via $convert:ident)? -> $Rule:ident;
        $($rules:tt)*
    ) => {
        $(#[$documentation])*
        #[doc = $crate::functions::families::shapes_and_types!(binary $($convert)?)]
        #[track_caller]
        pub fn $name(
            a: impl Into<$crate::functions::Operand>,
            b: impl Into<$crate::functions::Operand>,
        ) -> $crate::Variable {
            let (inputs, _whole) = $crate::functions::Operand::pair(stringify!($name), a.into(), b.into());
            // Not by `map`: errors are at the caller's line.
            $(
                let [a, b] = inputs;
                let inputs = [$crate::functions::$convert(a), $crate::functions::$convert(b)];
            )?
            $crate::functions::families::call($Rule::function(), &[], inputs)
        }

        $crate::functions::families::function_type!($name, 2, $Rule);

        $crate::functions::families::element_function! {
            $Rule = stringify!($name), [$a, $b] [];
            $($rules)*
        }
    };
}
pub(crate) use binary_function;

/// Defines elementwise functions of two arrays, broadcast against each other, as in [`unary`], with
/// a derivative for each of `a` and `b` or for neither.
macro_rules! binary {
    (samples in $samples:ident; $(
        $(#[$documentation:meta])*
        $name:ident($a:ident, $b:ident) $(via $convert:ident)? -> $Rule:ident {
            $value_kind:ident: $value:expr,
            $(derivative($($kept:ident),*; $gy:ident): $gradient:expr,)*
            sample: ($range_a:expr, $range_b:expr, $reference:expr) $(,)?
        }
    )+) => {
        $(
            $crate::functions::families::binary_function! {
                $(#[$documentation])*
                $name($a, $b) $(via $convert)? -> $Rule;
                $value_kind: $value;
                $(derivative($($kept),*; $gy): $gradient;)*
            }

            $crate::functions::families::method!($name, b: impl Into<$crate::functions::Operand>);
        )+

        #[cfg(test)]
        pub(super) fn $samples() -> Vec<$crate::conformance::Sample> {
            vec![$(
                $crate::conformance::Sample::binary(
                    stringify!($name), $range_a, $range_b, |a, b| $name(a, b), $reference,
                )
                .of($Rule::function(), &[])
            ),+]
        }
    };
    ($($entries:tt)+) => {
        $crate::functions::families::binary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use binary;

/// Applies a function to `N` inputs.
#[track_caller]
pub(crate) fn call<const N: usize>(
    function: &'static ElementFunction,
    given: &[f64],
    inputs: [Variable; N],
) -> Variable {
    let [y] = crate::apply(
        Elements::<Fixed<N>>(function, function.kernel(given), PhantomData),
        inputs,
    );
    y
}
