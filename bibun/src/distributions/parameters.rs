//! Parameters of distributions: conversion, checks, and noise like them.

use bibun_array::{Array, DType, Distribution as Noise, Generator, Shape, cpu};

use crate::error::{Error, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::random::Random;
use crate::functions::{
    Operand, broadcast_to, cast, float_of, greater, greater_equal, is_finite, less_equal,
    logical_and, maximum, where_,
};
use crate::variable::Variable;

/// Euler's constant.
pub(super) const EULER: f64 = 0.577_215_664_901_532_9;
/// `½ log 2π`.
pub(super) const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// Returns parameters as floats of one dtype, broadcast to their common shape. Halves become f32: in their own
/// precision, tails of samples would be missing, and counts above some hundreds be rounded.
#[track_caller]
pub(super) fn parameters<const N: usize>(
    name: &'static str,
    parameters: [Operand; N],
) -> [Variable; N] {
    let variables = || {
        parameters.iter().filter_map(|x| match x {
            Operand::Variable(x) => Some(x),
            Operand::Number(_) => None,
        })
    };
    let dtype = match variables().next() {
        Some(first) => float_of(first.dtype(), variables()),
        None => {
            let numbers = parameters.iter().filter_map(|x| match x {
                Operand::Number(x) => Some(x.dtype()),
                Operand::Variable(_) => None,
            });
            float_of(numbers.fold(DType::Bool, DType::promote), [])
        }
    };
    let dtype = dtype.accumulator();
    let all = parameters.map(|x| cast(x.beside(dtype), dtype));
    let mut shape = all[0].shape();
    for x in &all[1..] {
        shape = shape.broadcast(&x.shape()).unwrap_or_else(|| {
            let shapes: Vec<Shape> = all.iter().map(Variable::shape).collect();
            let what = format!("the parameters have the shapes {shapes:?}, which do not broadcast");
            raise(Error::argument(name, what))
        });
    }
    all.map(|x| broadcast_to(x, &shape))
}

/// Returns one parameter as floats.
#[track_caller]
pub(super) fn parameter(name: &'static str, x: Operand) -> Variable {
    let [x] = parameters(name, [x]);
    x
}

#[track_caller]
pub(super) fn expect_positive(name: &'static str, what: &str, x: &Variable) {
    let holds = logical_and(greater(x, 0.0), is_finite(x));
    expect_everywhere(name, what, x, &holds, "a positive, finite number");
}

#[track_caller]
pub(super) fn expect_not_negative(name: &'static str, what: &str, x: &Variable) {
    let holds = logical_and(greater_equal(x, 0.0), is_finite(x));
    expect_everywhere(name, what, x, &holds, "a finite number, not negative");
}

#[track_caller]
pub(super) fn expect_finite(name: &'static str, what: &str, x: &Variable) {
    expect_everywhere(name, what, x, &is_finite(x), "a finite number");
}

#[track_caller]
pub(super) fn expect_probability(name: &'static str, what: &str, x: &Variable) {
    let holds = logical_and(greater_equal(x, 0.0), less_equal(x, 1.0));
    expect_everywhere(name, what, x, &holds, "between 0 and 1");
}

/// Draws from the standard normal distribution, in the dtype and on the device of `like`.
pub(super) fn normals(like: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    drawn(
        like,
        shape,
        Noise::normal(0.0, 1.0, like.dtype()),
        generator,
    )
}

/// Draws numbers on `[0, 1)`, in the dtype and on the device of `like`.
pub(super) fn uniforms(like: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    drawn(
        like,
        shape,
        Noise::uniform(0.0, 1.0, like.dtype()),
        generator,
    )
}

/// Draws numbers between 0 and 1, and neither of them: none is nearer to 0 than half of the distance of
/// neighbouring draws.
pub(super) fn open_uniforms(like: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    let is_double = like.dtype().accumulator() == DType::F64;
    let bits = if is_double { 53 } else { 24 };
    maximum(uniforms(like, shape, generator), 0.5f64.powi(bits + 1))
}

/// Draws from the exponential distribution of rate 1.
pub(super) fn exponentials(like: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    -(-uniforms(like, shape, generator)).log1p()
}

/// Draws from the standard Gumbel distribution.
pub(super) fn gumbels(like: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    -(-open_uniforms(like, shape, generator).log()).log()
}

fn drawn(like: &Variable, shape: &Shape, noise: Noise, generator: &mut Generator) -> Variable {
    let device = like.known_device().unwrap_or(cpu());
    Random::new("sample", noise, shape.clone(), device).draw(generator)
}

/// Returns the counts from 0 to `most` along a first axis in front of those of `like`, to sum over.
pub(super) fn counts_to(most: usize, like: &Variable) -> Variable {
    let mut shape = vec![1; like.shape().rank() + 1];
    shape[0] = most + 1;
    let counts = Array::arange(0, most as i64 + 1).reshape(shape);
    Variable::constant(counts.cast(like.dtype()))
}

/// Returns this number of last axes.
pub(super) fn last_axes(count: usize) -> Vec<isize> {
    (1..=count as isize).map(|axis| -axis).collect()
}

/// Computes `count · x`, and 0 for no count even where x is infinite or NaN, and so for all derivatives.
pub(super) fn times(count: &Variable, x: &Variable) -> Variable {
    count * where_(count.equal(0.0), 0.0, x)
}

/// Computes the logarithm, -∞ with a derivative of 0 at 0: other probabilities that sum to 1 with this one have
/// derivatives there.
pub(super) fn log_of_probability(p: &Variable) -> Variable {
    let is_zero = p.equal(0.0);
    let log = where_(&is_zero, 1.0, p).log();
    where_(is_zero, f64::NEG_INFINITY, log)
}

/// Defines a distribution as a struct of parameters that broadcast, each with the check that it must pass,
/// and its constructor.
macro_rules! parameterized {
    (
        $(#[$documentation:meta])*
        $Name:ident { $($(#[$of_field:meta])* $field:ident: $must:ident),+ $(,)? }
    ) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, $crate::Tree)]
        pub struct $Name {
            $($(#[$of_field])* pub $field: $crate::Variable),+
        }

        impl $Name {
            /// Creates the distribution from its parameters, which broadcast.
            ///
            /// # Panics
            /// Panics if the shapes do not broadcast, or a parameter is out of its range.
            #[track_caller]
            pub fn new($($field: impl Into<$crate::functions::Operand>),+) -> Self {
                use $crate::distributions::parameters::{self, parameters};
                let _whole = $crate::call::composite(stringify!($Name));
                let [$($field),+] = parameters(stringify!($Name), [$($field.into()),+]);
                $(parameters::$must(stringify!($Name), stringify!($field), &$field);)+
                Self { $($field),+ }
            }
        }
    };
}
pub(super) use parameterized;

/// Writes the methods of a distribution that say its name, its shape and its dtype, by the parameter that
/// has them.
macro_rules! described_by {
    ($Name:ident, $parameter:ident) => {
        fn name(&self) -> &'static str {
            stringify!($Name)
        }

        fn batch_shape(&self) -> bibun_array::Shape {
            self.$parameter.shape()
        }

        fn dtype(&self) -> bibun_array::DType {
            self.$parameter.dtype()
        }
    };
}
pub(super) use described_by;
