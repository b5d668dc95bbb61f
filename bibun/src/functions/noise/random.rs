//! Random numbers as constants.

use bibun_array::{DType, Distribution, Generator, Shape, cpu};

use crate::call::calling;
use crate::randomness;
use crate::variable::Variable;

/// Random numbers, equally likely everywhere on `[low, high)`.
///
/// Shapes: as asked. Types: `dtype`, a float. Gradient: none.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::{functions::random_uniform, vmap, Variable};
/// let generator = &mut Generator::new(0);
/// let x = Variable::constant([1.0, 1.0]);
/// let y = vmap(|x| x * random_uniform([], 0.0, 1.0, DType::F64, generator), &x).to_vec::<f64>();
/// assert!(y[0] != y[1] && y[0] < 1.0);
/// ```
///
/// # Panics
/// If `low` is not below `high`, or `dtype` is no float.
#[track_caller]
pub fn random_uniform(
    shape: impl Into<Shape>,
    low: f64,
    high: f64,
    dtype: DType,
    generator: &mut Generator,
) -> Variable {
    let _called = calling("random_uniform");
    randomness::random(
        Distribution::uniform(low, high, dtype),
        shape.into(),
        generator,
        cpu(),
    )
}

/// Normally distributed random numbers.
///
/// Shapes: as asked. Types: `dtype`, a float. Gradient: none; `mean + std * random_normal(..)` has
/// one by `mean` and `std`.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::functions::random_normal;
/// let x = random_normal([2, 3], 0.0, 1.0, DType::F32, &mut Generator::new(0));
/// assert_eq!(x.shape(), [2, 3]);
/// ```
///
/// # Panics
/// If `std` is negative or not finite, or `dtype` is no float.
#[track_caller]
pub fn random_normal(
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    dtype: DType,
    generator: &mut Generator,
) -> Variable {
    let _called = calling("random_normal");
    randomness::random(
        Distribution::normal(mean, std, dtype),
        shape.into(),
        generator,
        cpu(),
    )
}

/// `true` with probability `p`, else `false`.
///
/// Shapes: as asked. Types: bool. Gradient: none.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_bernoulli;
/// let x = random_bernoulli([3], 1.0, &mut Generator::new(0));
/// assert_eq!(x.to_vec::<bool>(), [true; 3]);
/// ```
///
/// # Panics
/// If `p` is not between 0 and 1.
#[track_caller]
pub fn random_bernoulli(shape: impl Into<Shape>, p: f64, generator: &mut Generator) -> Variable {
    let _called = calling("random_bernoulli");
    randomness::random(Distribution::bernoulli(p), shape.into(), generator, cpu())
}
