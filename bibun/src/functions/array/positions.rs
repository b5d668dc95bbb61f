//! Positions as vectors.

use bibun_array::{Array, DType, Shape, allocating};

use crate::variable::Variable;

/// Computes the sinusoidal encoding of positions, a vector of sines and cosines of falling frequency
/// for each position `t`:
/// `y[t, 2i] = sin(t / 10000^(2i / size))` and `y[t, 2i + 1] = cos(t / 10000^(2i / size))`.
///
/// Shapes: → `[length, size]`. Types: `dtype`, a float or integers. Gradient: none; the result is a constant.
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017, section 3.5.
///
/// # Panics
/// Panics if the dtype is bool, or there are more elements than memory holds.
///
/// ```
/// use bibun::{array::DType, functions::sinusoidal_positions};
/// let positions = sinusoidal_positions(3, 2, DType::F64);
/// assert_eq!(positions.to_vec::<f64>()[..2], [0.0, 1.0]);
/// assert_eq!(positions.to_vec::<f64>()[2], 1f64.sin());
/// ```
#[track_caller]
pub fn sinusoidal_positions(length: usize, size: usize, dtype: DType) -> Variable {
    let element = |t: usize, i: usize| {
        let exponent = (i / 2 * 2) as f64 / size as f64;
        let angle = t as f64 / 10_000f64.powf(exponent);
        if i.is_multiple_of(2) {
            angle.sin()
        } else {
            angle.cos()
        }
    };
    let shape = Shape::from([length, size]).addressable("sinusoidal_positions");
    Variable::constant(allocating("sinusoidal_positions", || {
        let mut positions = Array::zeros(shape, DType::F64);
        let rows = positions
            .as_mut_slice::<f64>()
            .chunks_exact_mut(size.max(1));
        for (t, row) in rows.enumerate() {
            for (i, y) in row.iter_mut().enumerate() {
                *y = element(t, i);
            }
        }
        positions.cast(dtype)
    }))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    vec![
        Sample::new(
            "sinusoidal_positions",
            |x| vec![&x[0] * beside(x, sinusoidal_positions(3, 4, DType::F64))],
            |x| {
                let x = x[0].to_vec::<f64>().into_iter().enumerate();
                let y = x.map(|(at, x)| {
                    let (t, i) = ((at / 4) as f64, at % 4);
                    x * [t.sin(), t.cos(), (t / 100.0).sin(), (t / 100.0).cos()][i]
                });
                vec![Array::from_vec(y.collect(), [3, 4])]
            },
        )
        .input([3, 4], -2.0..2.0),
    ]
}
