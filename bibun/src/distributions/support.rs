//! The values that a distribution gives a probability or a density.

use std::fmt;

use bibun_array::DType;

use crate::functions::{
    all, cast, equal, greater, greater_equal, is_finite, less_equal, logical_and, not_equal,
};
use crate::variable::Variable;

/// The values that a distribution gives a probability or a density.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Support {
    /// All finite numbers.
    Real,
    /// Numbers above 0.
    Positive,
    /// Numbers from 0 on.
    NonNegative,
    /// Numbers from the first to the second, inclusive.
    Interval(Variable, Variable),
    /// Whole numbers from 0 on.
    Counts,
    /// Whole numbers from 0 to this one.
    CountsTo(Variable),
    /// Vectors of finite numbers.
    Vectors,
    /// Vectors of numbers from 0 on whose sum is 1.
    Simplex,
    /// Vectors with a single 1, and 0 else.
    OneHot,
    /// Vectors of whole numbers from 0 on with this sum.
    CountVectors(Variable),
    /// What a bijector makes of the values of another support.
    Image(Box<Support>),
}

impl Support {
    /// Returns whether the values can be counted.
    pub(super) fn is_discrete(&self) -> bool {
        match self {
            Self::Counts | Self::CountsTo(_) | Self::OneHot | Self::CountVectors(_) => true,
            Self::Image(support) => support.is_discrete(),
            Self::Real
            | Self::Positive
            | Self::NonNegative
            | Self::Interval(..)
            | Self::Vectors
            | Self::Simplex => false,
        }
    }

    /// Returns which values are in the support, as bools without the axes of single values. An image is
    /// known to the distribution alone, by the inverse of its bijector.
    pub(super) fn contains(&self, x: &Variable) -> Variable {
        let whole = |x: &Variable| equal(x, x.floor());
        match self {
            Self::Real => is_finite(x),
            Self::Positive => logical_and(greater(x, 0.0), is_finite(x)),
            Self::NonNegative => logical_and(greater_equal(x, 0.0), is_finite(x)),
            Self::Interval(low, high) => logical_and(greater_equal(x, low), less_equal(x, high)),
            Self::Counts => logical_and(logical_and(greater_equal(x, 0.0), whole(x)), is_finite(x)),
            Self::CountsTo(most) => logical_and(
                logical_and(greater_equal(x, 0.0), whole(x)),
                less_equal(x, most),
            ),
            Self::Vectors => all(is_finite(x), -1),
            Self::Simplex => {
                let sum = cast(x, DType::F64).sum(-1);
                let slack = 1e3 * epsilon(x.dtype());
                logical_and(
                    all(greater_equal(x, 0.0), -1),
                    less_equal((sum - 1.0).abs(), slack),
                )
            }
            Self::OneHot => {
                let is_one = equal(x, 1.0);
                let is_single = equal(cast(&is_one, DType::I64).sum(-1), 1);
                let others = not_equal(x, 0.0);
                logical_and(is_single, all(equal(others, is_one), -1))
            }
            Self::CountVectors(total) => logical_and(
                all(logical_and(greater_equal(x, 0.0), whole(x)), -1),
                equal(x.sum(-1), total),
            ),
            Self::Image(_) => unreachable!("a transformed distribution asks its base"),
        }
    }
}

/// The distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 0.5f64.powi(7),
        DType::F16 => 0.5f64.powi(10),
        DType::F32 | DType::C64 => f64::from(f32::EPSILON),
        DType::F64 | DType::C128 | DType::Bool | DType::U8 | DType::I32 | DType::I64 => {
            f64::EPSILON
        }
    }
}

/// Writes what a value must be.
impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Real => "a finite number",
            Self::Positive => "a positive, finite number",
            Self::NonNegative => "a finite number, not negative",
            Self::Interval(..) => "within the interval of the distribution",
            Self::Counts => "a whole number, not negative",
            Self::CountsTo(_) => "a whole number from 0 to the largest count",
            Self::Vectors => "a vector of finite numbers",
            Self::Simplex => "a vector of numbers, not negative, with the sum 1",
            Self::OneHot => "a vector of a single 1, and 0 else",
            Self::CountVectors(_) => {
                "a vector of whole numbers, not negative, whose sum is the total count"
            }
            Self::Image(support) => return write!(f, "what the bijector makes of {support}"),
        };
        f.write_str(text)
    }
}
