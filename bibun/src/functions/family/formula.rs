//! Elementwise functions that are formulas: a value, and derivatives that are formulas again.
//!
//! A derivative is a function as any other: it goes through the door, is recorded, batched and
//! differentiated. Where it is not given, it is [derived](super::derivative) from the value's formula.

use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use bibun_array::formula::{Formula, Node, Operation};
use bibun_array::{Array, DType, Definition, Kernel, run_kernel};
use smallvec::SmallVec;

use super::derivative::derive;
use crate::apply::apply_fitting;
use crate::batch::Lane;
use crate::context::Context;
use crate::examples::{Owned, Share};
use crate::function::{Arity, Fixed, Function, Keeps, Many, Mismatch, Needs, Spec};
use crate::functions::math::of_operation;
use crate::variable::Variable;

/// An elementwise function of inputs of equal shape and dtype.
#[derive(Debug)]
pub(crate) struct ElementFunction {
    value: Value,
    /// For each input, how its derivative is computed; where there is nothing, it is derived.
    given: &'static [Option<Gradient>],
    derivatives: OnceLock<Box<[Option<Derivative>]>>,
}

#[derive(Debug)]
enum Value {
    Known(&'static Definition),
    Derived(Kernel),
}

/// `g ∂y/∂xᵢ` as it is written: a kernel of `g` and what it reads, in this order.
#[derive(Debug)]
pub(crate) struct Gradient {
    pub(crate) reads: &'static [Read],
    pub(crate) value: GradientValue,
}

#[derive(Debug)]
pub(crate) enum GradientValue {
    /// With a loop of its own, which costs compile time: for functions that train networks.
    Loop(&'static Definition),
    /// Read where it is needed first.
    Formula(fn() -> Formula),
}

/// A value of the call that a derivative reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    Input(u8),
    Output,
}

/// `g ∂y/∂xᵢ`: a function of `g` and what it reads.
#[derive(Debug)]
struct Derivative {
    reads: SmallVec<[Read; 4]>,
    keeps: Keeps,
    function: Slope,
}

impl Derivative {
    fn new(reads: SmallVec<[Read; 4]>, function: Slope) -> Self {
        let keeps = reads.iter().fold(Keeps::NOTHING, |keeps, read| match read {
            Read::Input(i) => keeps.input(usize::from(*i)),
            Read::Output => keeps.output(0),
        });
        Self {
            reads,
            keeps,
            function,
        }
    }
}

#[derive(Debug)]
enum Slope {
    /// Zeros, which it says itself.
    Zero,
    /// `g` itself.
    Identity,
    Function(&'static ElementFunction),
}

/// The numbers that a call gives to a formula, as many as any function has.
type Given = SmallVec<[f64; 2]>;

impl ElementFunction {
    pub(crate) const fn new(
        value: &'static Definition,
        given: &'static [Option<Gradient>],
    ) -> Self {
        Self {
            value: Value::Known(value),
            given,
            derivatives: OnceLock::new(),
        }
    }

    /// A function that has been derived; it stays for as long as the program runs.
    fn derived(name: String, formula: &Formula) -> &'static Self {
        let kernel = Kernel::from_formula(name.leak(), formula);
        Box::leak(Box::new(Self {
            value: Value::Derived(kernel),
            given: &[],
            derivatives: OnceLock::new(),
        }))
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.value {
            Value::Known(definition) => definition.name(),
            Value::Derived(kernel) => kernel.name(),
        }
    }

    /// What it computes.
    pub(crate) fn formula(&self) -> Formula {
        let formula = match &self.value {
            Value::Known(definition) => definition.formula(DType::F64),
            Value::Derived(kernel) => kernel.formula(DType::F64),
        };
        formula.expect("elementwise functions are formulas")
    }

    /// How the derivative to an input is written, if it is not derived.
    pub(crate) fn gradient(&self, input: usize) -> Option<&Gradient> {
        self.given.get(input)?.as_ref()
    }

    /// `g ∂y/∂xᵢ` as it is written and as it is derived from the value, if it is both.
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
            value(gradient.reads, &gradient.formula()),
            value(&reads, &derived),
        ])
    }

    fn kernel(&self, given: &[f64]) -> Kernel {
        match &self.value {
            Value::Known(definition) => Kernel::new(definition, given),
            Value::Derived(kernel) => kernel.with_given(given),
        }
    }

    /// The derivative to an input; `None` where nothing depends on it.
    fn derivative(&'static self, input: usize) -> Option<&'static Derivative> {
        let all = self.derivatives.get_or_init(|| {
            let inputs = self.formula().inputs();
            (0..inputs).map(|i| self.find_derivative(i)).collect()
        });
        all[input].as_ref()
    }

    #[cold]
    fn find_derivative(&'static self, input: usize) -> Option<Derivative> {
        let (reads, formula) = match self.gradient(input) {
            Some(gradient) => {
                if let GradientValue::Loop(definition) = gradient.value {
                    let function = Box::leak(Box::new(Self::new(definition, &[])));
                    return Some(Derivative::new(
                        gradient.reads.into(),
                        Slope::Function(function),
                    ));
                }
                (gradient.reads.into(), gradient.formula())
            }
            None => derive(self, input)?,
        };
        let line = &formula.lines()[formula.result().index()];
        let in_order = |inputs: &[Node]| {
            let is = |(i, node): (usize, &Node)| {
                formula.lines()[node.index()].operation() == Operation::Input(i as u8)
            };
            inputs.len() == formula.inputs() && inputs.iter().enumerate().all(is)
        };
        let function = match line.operation() {
            Operation::Input(_) => Slope::Identity,
            Operation::Constant(bits) if bits == 0f64.to_bits() => Slope::Zero,
            operation if !line.arguments().is_empty() && in_order(line.arguments()) => {
                Slope::Function(of_operation(operation))
            }
            // Of a derivative, which is linear in g, the derivative to g.
            _ if formula == self.formula() => Slope::Function(self),
            _ => Slope::Function(Self::derived(format!("{} gradient", self.name()), &formula)),
        };
        Some(Derivative::new(reads, function))
    }

    /// The function of these inputs, which have one shape and dtype.
    #[track_caller]
    fn of(&'static self, given: &[f64], inputs: SmallVec<[Variable; 4]>) -> Variable {
        macro_rules! call {
            ($A:ty) => {{
                let function = Elements::<$A>(self, Given::from_slice(given), PhantomData);
                let inputs = <$A as Arity>::collect(inputs.into_iter());
                let [y] = apply_fitting(function, inputs);
                y
            }};
        }
        match inputs.len() {
            1 => call!(Fixed<1>),
            2 => call!(Fixed<2>),
            3 => call!(Fixed<3>),
            _ => call!(Many),
        }
    }
}

impl Gradient {
    /// What it computes, of `g` and what it reads.
    pub(crate) fn formula(&self) -> Formula {
        match &self.value {
            GradientValue::Loop(definition) => {
                definition.formula(DType::F64).expect("it is a formula")
            }
            GradientValue::Formula(formula) => formula(),
        }
    }
}

/// The family: an [`ElementFunction`] with the numbers given to it, as a [`Function`].
pub(crate) struct Elements<A>(&'static ElementFunction, Given, PhantomData<fn() -> A>);

impl<A> Clone for Elements<A> {
    fn clone(&self) -> Self {
        Self(self.0, Given::from_slice(&self.1), PhantomData)
    }
}

impl<A> fmt::Debug for Elements<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.1[..] {
            [] => f.write_str(self.0.name()),
            given => write!(f, "{}{given:?}", self.0.name()),
        }
    }
}

impl<A: Arity> Elements<A> {
    /// `g ∂y/∂xᵢ`: the whole of both derivative rules, for the Jacobian is diagonal.
    fn partial(&self, i: usize, cx: &Context<'_>, g: Variable) -> Option<Variable> {
        let derivative = self.0.derivative(i)?;
        let function = match derivative.function {
            Slope::Identity => return Some(g),
            Slope::Zero => return Some(Variable::constant(Array::zeros(g.shape(), g.dtype()))),
            Slope::Function(function) => function,
        };
        let mut inputs: SmallVec<[Variable; 4]> = SmallVec::new();
        inputs.push(g);
        for read in &derivative.reads {
            inputs.push(match read {
                Read::Input(i) => cx.input(usize::from(*i)),
                Read::Output => cx.output(0),
            });
        }
        Some(function.of(&self.1, inputs))
    }
}

impl<A: Arity> Function for Elements<A> {
    type Inputs = A;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn keeps(&self, needs: Needs<'_>) -> Keeps {
        let mut keeps = Keeps::NOTHING;
        for (i, &needed) in needs.iter().enumerate() {
            if needed && let Some(derivative) = self.0.derivative(i) {
                keeps = keeps.and(derivative.keeps);
            }
        }
        keeps
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

    fn forward(&self, mut inputs: A::Of<Array>) -> [Array; 1] {
        [run_kernel(&self.0.kernel(&self.1), inputs.as_mut())]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> A::Of<Option<Variable>> {
        let mut gy = Some(gy);
        let count = cx.input_count();
        A::collect((0..count).map(|i| {
            if !cx.needs(i) {
                return None;
            }
            // The last one that needs the cotangent gets it whole, and may reuse its memory.
            let last = (i + 1..count).all(|later| !cx.needs(later));
            let gy = if last { gy.take() } else { gy.clone() };
            self.partial(i, cx, gy.expect("taken by the last only"))
        }))
    }

    fn jvp(&self, cx: &Context<'_>, dx: A::Of<Option<Variable>>) -> [Option<Variable>; 1] {
        let terms = dx.into_iter().enumerate();
        let terms = terms.filter_map(|(i, dx)| self.partial(i, cx, dx?));
        [terms.reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: A::Of<Lane>) -> [Lane; 1] {
        let (inputs, axis) = Lane::aligned(inputs.as_ref());
        let [value] = crate::apply(self.clone(), A::collect(inputs.into_iter()));
        [Lane::along(value, axis)]
    }

    fn per_example(&self, cx: &Context<'_>, [gy]: [Owned; 1]) -> A::Of<Option<Share>> {
        let Owned {
            cotangent,
            examples,
        } = gy;
        let gradients = self.vjp(cx, [cotangent]);
        A::map(gradients, |gx| Some(Share::own(gx?, examples.clone())))
    }
}

/// An [`ElementFunction`] of the type `$Rule`, by which its rules can be replaced: its inputs and
/// parameters by name, the value as a formula (`value: x.exp()`, which becomes a vector loop) or as an
/// operation that has one already (`operation: Exp`), and for each input, if it is better
/// conditioned than what is derived from the value, `g dy/dx` from whichever of `x` (or `a`, `b`) and
/// `y` it reads: as a formula (`derivative(y; gy)`) or also as a loop of its own (`fused(y; gy)`).
macro_rules! element_function {
    (
        $Rule:ident = $name:expr, $count:literal $inputs:tt $parameters:tt;
        $value_kind:ident: $value:expr;
        $($gradient_kind:ident($($kept:ident),*; $gy:ident): $gradient:expr;)*
    ) => {
        impl $Rule {
            /// The function itself.
            pub(crate) fn function() -> &'static $crate::functions::family::ElementFunction {
                use $crate::functions::family::{
                    ElementFunction, Gradient, element_value, count_of,
                };
                #[allow(dead_code, reason = "operations have no parameters")]
                const GIVEN: usize = count_of!($parameters);
                static GRADIENTS: &[Option<Gradient>] = &[$(
                    $crate::functions::family::element_gradient!($gradient_kind: $name, [$($kept),*] $gy $parameters $gradient)
                ),*];
                static FUNCTION: ElementFunction = ElementFunction::new(
                    element_value!($value_kind: $name, $count $inputs $parameters $value),
                    GRADIENTS,
                );
                &FUNCTION
            }
        }
    };
}
pub(crate) use element_function;

/// The definition of a value.
macro_rules! element_value {
    (value: $name:expr, $count:literal $inputs:tt $parameters:tt $value:expr) => {{
        struct Value;
        impl bibun_array::ElementFormula<$count, GIVEN> for Value {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn value<T: bibun_array::math::Float>(
                $inputs: [bibun_array::Number<T>; $count],
                $parameters: [bibun_array::Number<T>; GIVEN],
            ) -> bibun_array::Number<T> {
                $value
            }
        }
        const DEFINITION: &bibun_array::Definition =
            &bibun_array::Definition::of::<$count, GIVEN, Value>();
        DEFINITION
    }};
    (operation: $name:expr, $count:literal $inputs:tt $parameters:tt $operation:expr) => {{
        const DEFINITION: &bibun_array::Definition = {
            use bibun_array::formula::Operation::*;
            match $operation.definition() {
                Some(definition) => definition,
                None => unreachable!(),
            }
        };
        DEFINITION
    }};
}
pub(crate) use element_value;

/// A derivative.
macro_rules! element_gradient {
    ($kind:ident: $name:expr, [$($kept:ident),*] $gy:ident $parameters:tt $gradient:expr) => {{
        struct OfInput;
        const READS: &[$crate::functions::family::Read] =
            &[$($crate::functions::family::element_read!($kept)),*];
        impl bibun_array::ElementFormula<{ READS.len() + 1 }, GIVEN> for OfInput {
            const NAME: &'static str = concat!($name, " gradient");
            #[inline(always)]
            #[allow(unused_variables, reason = "not every derivative reads all parameters")]
            fn value<T: bibun_array::math::Float>(
                [$gy $(, $kept)*]: [bibun_array::Number<T>; READS.len() + 1],
                $parameters: [bibun_array::Number<T>; GIVEN],
            ) -> bibun_array::Number<T> {
                $gradient
            }
        }
        Some($crate::functions::family::Gradient {
            reads: READS,
            value: $crate::functions::family::element_gradient!(@$kind $name, OfInput),
        })
    }};
    (@fused $name:expr, $OfInput:ident) => {{
        const DEFINITION: &bibun_array::Definition =
            &bibun_array::Definition::of::<{ READS.len() + 1 }, GIVEN, $OfInput>();
        $crate::functions::family::GradientValue::Loop(DEFINITION)
    }};
    (@derivative $name:expr, $OfInput:ident) => {
        $crate::functions::family::GradientValue::Formula(
            bibun_array::formula::Formula::read::<{ READS.len() + 1 }, GIVEN, $OfInput>,
        )
    };
}
pub(crate) use element_gradient;

/// How many names there are.
macro_rules! count_of {
    ([$($name:ident),*]) => {{
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        NAMES.len()
    }};
}
pub(crate) use count_of;

/// The values that derivatives call by these names.
macro_rules! element_read {
    (x) => {
        $crate::functions::family::Read::Input(0)
    };
    (a) => {
        $crate::functions::family::Read::Input(0)
    };
    (b) => {
        $crate::functions::family::Read::Input(1)
    };
    (y) => {
        $crate::functions::family::Read::Output
    };
}
pub(crate) use element_read;

/// The method of a function of the same name.
macro_rules! method {
    ($name:ident $(, $parameter:ident: $Type:ty)*) => {
        impl $crate::Variable {
            #[doc = concat!("[`functions::", stringify!($name), "`](crate::functions::", stringify!($name), ") of this Variable.")]
            #[must_use]
            #[track_caller]
            pub fn $name(&self $(, $parameter: $Type)*) -> Self {
                $name(self $(, $parameter)*)
            }
        }
    };
}
pub(crate) use method;

/// The type of a function, by which its rules can be replaced.
macro_rules! function_type {
    ($name:ident, $inputs:literal, $Rule:ident) => {
        #[doc = concat!("[`", stringify!($name), "`] as a type, for [`Rules::set`](crate::Rules::set).")]
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

/// Elementwise functions of one float array, or `via` another conversion, a few lines each; see
/// [`element_function`](super::element_function). A file that needs another list of samples beside this
/// one names it: `samples in unary_samples;`.
macro_rules! unary {
    (samples in $samples:ident; $(
        $(#[$documentation:meta])*
        $name:ident($x:ident $(, $parameter:ident)*) $(via $convert:ident)? -> $Rule:ident {
            $value_kind:ident: $value:expr,
            $(derivative($($kept:ident),*; $gy:ident): $gradient:expr,)?
            $(fused($($fused_kept:ident),*; $fused_gy:ident): $fused:expr,)?
            sample$(($($setting:expr),*))?: ($range:expr, $reference:expr) $(,)?
        }
    )+) => {
        $(
            $(#[$documentation])*
            #[track_caller]
            pub fn $name(x: impl Into<$crate::Variable> $(, $parameter: f64)*) -> $crate::Variable {
                let x = $crate::functions::family::unary!(@convert x $($convert)?);
                $crate::functions::family::call($Rule::function(), &[$($parameter),*], [x])
            }

            $crate::functions::family::function_type!($name, 1, $Rule);

            $crate::functions::family::element_function! {
                $Rule = stringify!($name), 1 [$x] [$($parameter),*];
                $value_kind: $value;
                $(derivative($($kept),*; $gy): $gradient;)?
                $(fused($($fused_kept),*; $fused_gy): $fused;)?
            }

            $crate::functions::family::method!($name $(, $parameter: f64)*);
        )+

        #[cfg(test)]
        pub(super) fn $samples() -> Vec<$crate::conformance::Sample> {
            vec![$({
                let settings: &[f64] = &[$($($setting),*)?];
                #[allow(unused_mut, unused_variables, reason = "most have no parameters")]
                let mut setting = settings.iter().copied();
                $(let $parameter = setting.next().expect("a setting for each parameter");)*
                $crate::conformance::Sample::unary(
                    stringify!($name),
                    $range,
                    move |x| $name(x $(, $parameter)*),
                    $reference,
                )
                .of($Rule::function(), settings)
            }),+]
        }
    };
    (@convert $x:ident) => { $crate::functions::to_float($x.into()) };
    (@convert $x:ident $convert:ident) => { $crate::functions::$convert($x.into()) };
    ($($entries:tt)+) => {
        $crate::functions::family::unary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use unary;

/// Elementwise functions of two arrays, broadcast against each other: as in [`unary`], with a
/// derivative for each of `a` and `b` or for none.
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
            $(#[$documentation])*
            #[track_caller]
            pub fn $name(
                a: impl Into<$crate::functions::Operand>,
                b: impl Into<$crate::functions::Operand>,
            ) -> $crate::Variable {
                let (inputs, _whole) = $crate::functions::Operand::pair(stringify!($name), a.into(), b.into());
                $(let inputs = inputs.map($crate::functions::$convert);)?
                $crate::functions::family::call($Rule::function(), &[], inputs)
            }

            $crate::functions::family::function_type!($name, 2, $Rule);

            $crate::functions::family::element_function! {
                $Rule = stringify!($name), 2 [$a, $b] [];
                $value_kind: $value;
                $(derivative($($kept),*; $gy): $gradient;)*
            }

            impl $crate::Variable {
                #[doc = concat!("[`functions::", stringify!($name), "`](crate::functions::", stringify!($name), ") of this Variable and another, or a number.")]
                #[must_use]
                #[track_caller]
                pub fn $name(&self, b: impl Into<$crate::functions::Operand>) -> Self {
                    $name(self, b)
                }
            }
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
        $crate::functions::family::binary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use binary;

/// Calls a function of `N` inputs.
#[track_caller]
pub(crate) fn call<const N: usize>(
    function: &'static ElementFunction,
    given: &[f64],
    inputs: [Variable; N],
) -> Variable {
    let [y] = crate::apply(
        Elements::<Fixed<N>>(function, Given::from_slice(given), PhantomData),
        inputs,
    );
    y
}
