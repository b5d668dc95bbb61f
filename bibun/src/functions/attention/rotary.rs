//! Positions as rotations.

use bibun_array::{Array, Shape};

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{concat, in_accumulator, reshape, split, stack, to_float, unstack};
use crate::variable::Variable;

/// Options of [`rotary_embedding_with`].
///
/// ```
/// use bibun::functions::RotaryOptions;
/// assert_eq!(RotaryOptions::new().halves(true).base, 10_000.0);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RotaryOptions {
    /// The base of the angles' sizes, which are from 1 down to almost 1 / base. Defaults to 10,000.
    pub base: f64,
    /// The position of the first vector. Defaults to 0.
    pub offset: usize,
    /// Whether element `i` is rotated with element `i + d / 2`, as in the weights of many language models,
    /// instead of each element with its neighbour. Defaults to false.
    pub halves: bool,
}

impl Default for RotaryOptions {
    fn default() -> Self {
        Self {
            base: 10_000.0,
            offset: 0,
            halves: false,
        }
    }
}

impl RotaryOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the base of the angles' sizes. Defaults to 10,000.
    #[must_use]
    pub fn base(self, base: f64) -> Self {
        Self { base, ..self }
    }

    /// Sets the position of the first vector. Defaults to 0.
    #[must_use]
    pub fn offset(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Sets whether element `i` is rotated with element `i + d / 2`. Defaults to false.
    #[must_use]
    pub fn halves(self, halves: bool) -> Self {
        Self { halves, ..self }
    }
}

/// Rotates pairs of neighbouring elements by angles that grow with the position of their vector:
/// elements 2i and 2i + 1 at position t by `t 10000^(-2i / d)`.
///
/// The product of a query and a key that are both rotated depends on the difference of their positions.
///
/// Shapes: x `[.., t, d]`, with an even d → the same.
/// Types: floats; integers give f64.
/// Gradient: `gy`, rotated back.
/// Source: J. Su, Y. Lu, S. Pan, B. Wen and Y. Liu, RoFormer: enhanced transformer with rotary position
/// embedding, 2021.
///
/// # Panics
/// Panics if x has fewer than two axes, or the size of the last one is odd.
///
/// ```
/// use bibun::{functions::rotary_embedding, Variable};
/// let x = Variable::new([[1.0, 0.0], [1.0, 0.0]]);
/// let y = rotary_embedding(&x);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 0.0, 1f64.cos(), 1f64.sin()]);
/// ```
#[track_caller]
pub fn rotary_embedding(x: impl Into<Variable>) -> Variable {
    rotary_embedding_with(x, RotaryOptions::new())
}

/// Computes [`rotary_embedding`] with options: another base, another first position, or other pairs.
///
/// Shapes: those of [`rotary_embedding`].
///
/// # Panics
/// Panics as [`rotary_embedding`] does.
///
/// ```
/// use bibun::{functions::{rotary_embedding_with, RotaryOptions}, Variable};
/// let x = Variable::new([[1.0, 5.0, 0.0, 0.0]]);
/// let y = rotary_embedding_with(&x, RotaryOptions::new().offset(3).halves(true)).to_vec::<f64>();
/// assert_eq!((y[0], y[2]), (3f64.cos(), 3f64.sin()));
/// ```
#[track_caller]
pub fn rotary_embedding_with(x: impl Into<Variable>, options: RotaryOptions) -> Variable {
    let function = "rotary_embedding";
    let _whole = composite(function);
    let x = to_float(x.into());
    let shape = x.shape();
    let Some(&[length, size]) = shape
        .last_chunk()
        .filter(|[_, size]| size.is_multiple_of(2))
    else {
        mismatch(function, &[("x [.., t, d]", &x.spec())], "d must be even")
    };
    in_accumulator(x, |x| {
        let pairs = size / 2;
        let turned = |turn: fn(f64) -> f64| {
            let angle = |i: usize| {
                let position = (options.offset + i / pairs) as f64;
                position * options.base.powf(-2.0 * (i % pairs) as f64 / size as f64)
            };
            let values = (0..length * pairs).map(|i| turn(angle(i))).collect();
            let values = Array::from_vec(values, [length, pairs]).cast(x.dtype());
            Variable::constant(values).to(x.device())
        };
        let (cosines, sines) = (turned(f64::cos), turned(f64::sin));
        let parts = match options.halves {
            true => split(&x, 2, -1),
            false => {
                let front = shape.iter().take(shape.rank() - 1).copied();
                let paired: Shape = front.chain([pairs, 2]).collect();
                unstack(reshape(&x, paired), -1)
            }
        };
        let [a, b] = [&parts[0], &parts[1]];
        let (a, b) = (a * &cosines - b * &sines, a * &sines + b * &cosines);
        match options.halves {
            true => concat([&a, &b], -1),
            false => reshape(stack([&a, &b], -1), &shape),
        }
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let sample = |options: RotaryOptions| {
        Sample::new(
            "rotary_embedding",
            move |x| vec![rotary_embedding_with(&x[0], options)],
            move |x| {
                let x = x[0].to_vec::<f64>();
                let y = (0..24).map(|i| {
                    let (row, place) = (i / 4, i % 4);
                    let (first, second, pair, is_second) = match options.halves {
                        true => (place % 2, place % 2 + 2, place % 2, place >= 2),
                        false => (place / 2 * 2, place / 2 * 2 + 1, place / 2, place % 2 == 1),
                    };
                    let position = (row % 3 + options.offset) as f64;
                    let angle = position / options.base.powf(pair as f64 / 2.0);
                    let (a, b) = (x[row * 4 + first], x[row * 4 + second]);
                    match is_second {
                        true => a * angle.sin() + b * angle.cos(),
                        false => a * angle.cos() - b * angle.sin(),
                    }
                });
                vec![Array::from_vec(y.collect(), [2, 3, 4])]
            },
        )
        .input([2, 3, 4], -2.0..2.0)
    };
    vec![
        sample(RotaryOptions::new()),
        sample(RotaryOptions::new().halves(true).offset(5).base(100.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::functions::matmul;
    use bibun_array::{DType, Generator};

    #[test]
    fn products_depend_on_differences_of_positions() {
        let generator = &mut Generator::new(0);
        let mut vector = || Variable::new(generator.uniform([1, 8], -1.0, 1.0, DType::F64));
        let (query, key) = (vector(), vector());
        for halves in [false, true] {
            let product = |q, k| {
                let at = |x, offset| {
                    rotary_embedding_with(x, RotaryOptions::new().offset(offset).halves(halves))
                };
                matmul(at(&query, q), at(&key, k).transpose()).item::<f64>()
            };
            assert!((product(3, 1) - product(1002, 1000)).abs() < 1e-12);
            assert!((product(3, 1) - product(3, 2)).abs() > 1e-3);
        }
    }

    #[test]
    fn sizes_are_even() {
        let error = attempt(|| rotary_embedding(Variable::new([[1.0, 2.0, 3.0]]))).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("x [.., t, d] = [1, 3] f64 (d must be even)"),
            "{message}"
        );
        let none = Variable::new(Array::zeros([2, 0, 4], DType::F32));
        assert_eq!(rotary_embedding(none).shape(), [2, 0, 4]);
        let none = Variable::new(Array::zeros([2, 3, 0], DType::F32));
        assert_eq!(rotary_embedding(none).shape(), [2, 3, 0]);
    }
}
