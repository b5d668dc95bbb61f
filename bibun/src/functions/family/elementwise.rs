//! Elementwise functions: each output element depends on the input elements at the same index.

use std::fmt;

use bibun_array::Array;

use crate::batch::Lane;
use crate::context::Context;
use crate::examples::{Owned, Share};
use crate::function::{Fixed, Function, Keeps, Mismatch, Needs, Spec};
use crate::scope;
use crate::variable::Variable;

/// What is particular to one elementwise function of `N` inputs of equal shape and dtype.
pub(crate) trait ElementwiseRule<const N: usize>:
    Copy + fmt::Debug + Send + Sync + 'static
{
    /// The function's name.
    const NAME: &'static str;

    /// The values that [`ElementwiseRule::partial`] reads for the inputs in `needs`.
    fn keeps(needs: Needs<'_>) -> Keeps;

    /// The dtype and what else must hold; the shapes are equal.
    fn output(self, inputs: [&Spec; N]) -> Result<Spec, Mismatch> {
        Ok(inputs[0].clone())
    }

    /// The values.
    fn forward(self, inputs: [Array; N]) -> Array;

    /// `g ∂y/∂xᵢ`: the whole of both derivative rules, for the Jacobian is diagonal.
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable;
}

/// The family: an [`ElementwiseRule`] as a [`Function`].
#[derive(Clone, Copy)]
pub(crate) struct Elementwise<const N: usize, R>(pub(crate) R);

impl<const N: usize, R: ElementwiseRule<N>> Function for Elementwise<N, R> {
    type Inputs = Fixed<N>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        R::NAME
    }

    fn keeps(&self, needs: Needs<'_>) -> Keeps {
        R::keeps(needs)
    }

    fn shape(&self, inputs: [&Spec; N]) -> Result<[Spec; 1], Mismatch> {
        let first = inputs[0];
        if inputs.iter().any(|input| *input != first) {
            let inputs: Vec<(&str, &Spec)> = ["x0", "x1", "x2"].into_iter().zip(inputs).collect();
            return Err(Mismatch::new(&inputs, "all must be equal"));
        }
        Ok([self.0.output(inputs)?])
    }

    fn forward(&self, inputs: [Array; N]) -> [Array; 1] {
        [self.0.forward(inputs)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; N] {
        let mut gy = Some(gy);
        std::array::from_fn(|i| {
            if !cx.needs(i) {
                return None;
            }
            // The last one that needs the cotangent gets it whole, and may reuse its memory.
            let last = (i + 1..N).all(|later| !cx.needs(later));
            let gy = if last { gy.take() } else { gy.clone() };
            Some(self.0.partial(i, cx, gy.expect("taken by the last only")))
        })
    }

    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; N]) -> [Option<Variable>; 1] {
        let terms = dx.into_iter().enumerate();
        let terms = terms.filter_map(|(i, dx)| Some(self.0.partial(i, cx, dx?)));
        [terms.reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: [Lane; N]) -> [Lane; 1] {
        let (inputs, axis) = Lane::aligned(inputs);
        let [value] = crate::apply(*self, inputs);
        [Lane {
            value,
            axis: Some(axis),
        }]
    }

    fn per_example(&self, cx: &Context<'_>, [gy]: [Owned; 1]) -> [Option<Share>; N] {
        gy.through(|gy| self.vjp(cx, [gy]))
    }
}

impl<const N: usize, R: fmt::Debug> fmt::Debug for Elementwise<N, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The arrays under the values that a derivative reads, if it can be computed on them in one loop:
/// when nobody will differentiate it and no transformation hides the elements.
pub(crate) fn plain<const N: usize>(values: [&Variable; N]) -> Option<[Array; N]> {
    let recording = scope::is_recording();
    let is_looked_behind = |x: &&Variable| x.level() > 0 || recording && x.has_history();
    if values.iter().any(is_looked_behind) {
        return None;
    }
    Some(std::array::from_fn(|i| values[i].array()))
}

/// One formula over [`Number`](bibun_array::Number)s as a vector loop, for `f32` and for `f64`: a
/// kernel `$Kernel<T>(rule)` that names the rule's parameters and the inputs in the formula.
macro_rules! number_kernel {
    ($Kernel:ident, $name:expr, $Rule:ident { $($parameter:ident),* }, $inputs:tt, $value:expr) => {
        #[derive(Clone, Copy)]
        struct $Kernel<T>($Rule, std::marker::PhantomData<T>);
        $crate::functions::family::number_kernel!(@precision f32, $Kernel, $name, $Rule { $($parameter),* }, $inputs, $value);
        $crate::functions::family::number_kernel!(@precision f64, $Kernel, $name, $Rule { $($parameter),* }, $inputs, $value);
        impl $Kernel<()> {
            fn run<const N: usize>(rule: $Rule, inputs: [bibun_array::Array; N]) -> bibun_array::Array
            where
                $Kernel<f32>: bibun_array::ElementKernel<N>,
                $Kernel<f64>: bibun_array::ElementKernel<N>,
            {
                match inputs[0].dtype() {
                    bibun_array::DType::F32 => {
                        bibun_array::elementwise(&$Kernel::<f32>(rule, std::marker::PhantomData), inputs)
                    }
                    _ => bibun_array::elementwise(&$Kernel::<f64>(rule, std::marker::PhantomData), inputs),
                }
            }
        }
    };
    (@precision $T:ty, $Kernel:ident, $name:expr, $Rule:ident { $($parameter:ident),* }, [$($input:ident),*], $value:expr) => {
        impl bibun_array::ElementKernel<{ [$(stringify!($input)),*].len() }> for $Kernel<$T> {
            type Input = $T;
            type Output = $T;
            const NAME: &'static str = $name;
            #[inline(always)]
            #[allow(unused_variables, reason = "not every formula reads all")]
            fn apply(self, [$($input),*]: [$T; [$(stringify!($input)),*].len()]) -> $T {
                let $Rule { $($parameter),* } = self.0;
                $(let $input = bibun_array::Number($input);)*
                let value: bibun_array::Number<$T> = $value;
                value.0
            }
        }
    };
}
pub(crate) use number_kernel;

/// `g ∂y/∂xᵢ` by its formula: `fused` into one kernel where nobody will differentiate it, or always
/// composed of functions.
macro_rules! partial {
    (fused: $self:ident, $cx:ident, $Kernel:ident, $Rule:ident { $($parameter:ident),* }, [$($kept:ident),*], $g:ident, $gradient:expr) => {{
        $(let $kept = $cx.$kept();)*
        match $crate::functions::family::plain([$(&$kept,)* &$g]) {
            Some(arrays) => {
                $(drop($kept);)*
                drop($g);
                $crate::Variable::constant($Kernel::run($self, arrays))
            }
            None => {
                let $Rule { $($parameter),* } = $self;
                $(let $kept = &$kept;)*
                let $g = &$g;
                $crate::Variable::from($gradient)
            }
        }
    }};
    (gradient: $self:ident, $cx:ident, $Kernel:ident, $Rule:ident { $($parameter:ident),* }, [$($kept:ident),*], $g:ident, $gradient:expr) => {{
        $(let $kept = &$cx.$kept();)*
        let $g = &$g;
        let $Rule { $($parameter),* } = $self;
        $crate::Variable::from($gradient)
    }};
}
pub(crate) use partial;

/// The kernels that one of the two ways to give a formula needs, and none for the other.
macro_rules! kernel_if {
    (value: $($kernel:tt)*) => { $crate::functions::family::number_kernel!($($kernel)*); };
    (fused: $($kernel:tt)*) => { $crate::functions::family::number_kernel!($($kernel)*); };
    ($other:ident: $($kernel:tt)*) => {};
}
pub(crate) use kernel_if;

/// The value by a formula's own kernel, or by a function of arrays that has one already.
macro_rules! value_of {
    (value: $rule:expr, $inputs:expr, $formula:expr) => {
        Value::run($rule, $inputs)
    };
    (array: $rule:expr, $inputs:expr, $function:expr) => {{
        let [x] = $inputs;
        $function(x)
    }};
}
pub(crate) use value_of;

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
    ($name:ident, $inputs:literal, $Rule:ident { $($parameter:ident),* }) => {
        #[doc = concat!("[`", stringify!($name), "`] as a type, for [`Rules::set`](crate::Rules::set).")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Rule { $($parameter: f64),* }

        impl $crate::Replaceable for $Rule {
            type Inputs = $crate::Fixed<$inputs>;
            type Outputs = $crate::Fixed<1>;
            const NAME: &'static str = stringify!($name);
        }
    };
}
pub(crate) use function_type;

/// Elementwise functions of one float array, a few lines each: the name and parameters, the value as
/// a formula (`value: x.exp()`, which becomes a vector loop) or as a function of arrays
/// (`array: ops::exp`), and `gy dy/dx` from whichever of `x` and `y` it reads, composed of functions
/// (`gradient(y; gy)`) or also as a vector loop of its own (`fused(y; gy)`), which spares the
/// passes over memory between them and costs compile time: for functions that train networks. A
/// file that needs another list of samples beside this one names it: `samples in unary_samples;`.
macro_rules! unary {
    (samples in $samples:ident; $(
        $(#[$documentation:meta])*
        $name:ident($x:ident $(, $parameter:ident)*) -> $Rule:ident {
            $value_kind:ident: $value:expr,
            $gradient_kind:ident($($kept:ident),*; $gy:ident): $gradient:expr,
            sample$(($($setting:expr),*))?: ($range:expr, $reference:expr) $(,)?
        }
    )+) => {
        $(
            $(#[$documentation])*
            #[track_caller]
            pub fn $name(x: impl Into<$crate::Variable> $(, $parameter: f64)*) -> $crate::Variable {
                let x = $crate::functions::to_float(x.into());
                let rule = $crate::functions::family::Elementwise::<1, _>($Rule { $($parameter),* });
                let [y] = $crate::apply(rule, [x]);
                y
            }

            $crate::functions::family::function_type!($name, 1, $Rule { $($parameter),* });

            const _: () = {
                use $crate::functions::family::{kernel_if, partial, value_of};
                use $crate::{Context, Keeps, Needs, Variable};

                kernel_if!($value_kind: Value, stringify!($name), $Rule { $($parameter),* }, [$x], $value);
                kernel_if!(
                    $gradient_kind: Gradient,
                    concat!(stringify!($name), " gradient"),
                    $Rule { $($parameter),* },
                    [$($kept,)* $gy],
                    $gradient
                );

                impl $crate::functions::family::ElementwiseRule<1> for $Rule {
                    const NAME: &'static str = stringify!($name);

                    fn keeps(_: Needs<'_>) -> Keeps {
                        Keeps::NOTHING$(.$kept())*
                    }

                    fn forward(self, inputs: [bibun_array::Array; 1]) -> bibun_array::Array {
                        value_of!($value_kind: self, inputs, $value)
                    }

                    #[allow(unused_variables, reason = "not every derivative reads all")]
                    fn partial(self, _: usize, cx: &Context<'_>, $gy: Variable) -> Variable {
                        partial!(
                            $gradient_kind: self, cx, Gradient, $Rule { $($parameter),* }, [$($kept),*], $gy, $gradient
                        )
                    }
                }
            };

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
            }),+]
        }
    };
    ($($entries:tt)+) => {
        $crate::functions::family::unary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use unary;

/// Elementwise functions of two arrays, broadcast against each other: the name (`via` a conversion
/// of both where not all dtypes will do), the value on arrays, and for each of `a` and `b` its
/// gradient from whichever of `a`, `b`, `y` it reads.
macro_rules! binary {
    (samples in $samples:ident; $(
        $(#[$documentation:meta])*
        $name:ident $(via $convert:ident)? -> $Rule:ident {
            value: $value:expr,
            gradient_a($($kept_a:ident),*; $ga:ident): $gradient_a:expr,
            gradient_b($($kept_b:ident),*; $gb:ident): $gradient_b:expr,
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
                let [y] = $crate::apply($crate::functions::family::Elementwise::<2, _>($Rule {}), inputs);
                y
            }

            $crate::functions::family::function_type!($name, 2, $Rule {});

            const _: () = {
                use $crate::functions::family::partial;
                use $crate::{Context, Keeps, Needs, Variable};

                impl $crate::functions::family::ElementwiseRule<2> for $Rule {
                    const NAME: &'static str = stringify!($name);

                    fn keeps(needs: Needs<'_>) -> Keeps {
                        let of_a = Keeps::NOTHING$(.$kept_a())*;
                        let of_b = Keeps::NOTHING$(.$kept_b())*;
                        of_a.only_if(needs[0]).and(of_b.only_if(needs[1]))
                    }

                    fn forward(self, [a, b]: [bibun_array::Array; 2]) -> bibun_array::Array {
                        $value(a, b)
                    }

                    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable {
                        if i == 0 {
                            let $ga = g;
                            partial!(gradient: self, cx, None, $Rule {}, [$($kept_a),*], $ga, $gradient_a)
                        } else {
                            let $gb = g;
                            partial!(gradient: self, cx, None, $Rule {}, [$($kept_b),*], $gb, $gradient_b)
                        }
                    }
                }
            };

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
            ),+]
        }
    };
    ($($entries:tt)+) => {
        $crate::functions::family::binary! { samples in samples; $($entries)+ }
    };
}
pub(crate) use binary;

impl Keeps {
    pub(crate) const fn x(self) -> Self {
        self.input(0)
    }
    pub(crate) const fn a(self) -> Self {
        self.input(0)
    }
    pub(crate) const fn b(self) -> Self {
        self.input(1)
    }
    pub(crate) const fn y(self) -> Self {
        self.output(0)
    }
}

/// The names by which the formulae of elementwise functions call their values.
impl Context<'_> {
    pub(crate) fn x(&self) -> Variable {
        self.input(0)
    }
    pub(crate) fn a(&self) -> Variable {
        self.input(0)
    }
    pub(crate) fn b(&self) -> Variable {
        self.input(1)
    }
    pub(crate) fn y(&self) -> Variable {
        self.output(0)
    }
}
