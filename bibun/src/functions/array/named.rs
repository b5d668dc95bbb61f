//! Constant matrices with names.

use bibun_array::{Array, Shape, allocating};

use crate::error::{Error, raise};
use crate::variable::Variable;

/// Returns the matrix of `n` rows and columns with these elements.
#[track_caller]
fn matrix(function: &'static str, n: usize, element: impl Fn(usize, usize) -> f64) -> Variable {
    let shape = Shape::from([n, n]).addressable(function);
    Variable::constant(allocating(function, || {
        let elements = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let elements = elements.map(|(i, j)| element(i, j)).collect();
        Array::from_vec(elements, &shape)
    }))
}

/// Returns `n` over `k`.
fn choose(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    let k = k.min(n - k);
    (0..k).fold(1.0, |product, i| {
        (product * (n - i) as f64 / (i + 1) as f64).round()
    })
}

fn sign(power: usize) -> f64 {
    if power.is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// The form of a [`pascal`] matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pascal {
    /// `i + j` over `i`.
    #[default]
    Symmetric,
    /// `i` over `j`, below the diagonal and on it.
    Lower,
    /// `j` over `i`, above the diagonal and on it.
    Upper,
}

macro_rules! matrices {
    ($(
        $(#[$documentation:meta])*
        $name:ident($n:ident $(, $parameter:ident: $Type:ty)?) -> |$i:ident, $j:ident| $element:expr;
    )*) => {
        $(
            $(#[$documentation])*
            ///
            /// # Panics
            /// Panics if there are more elements than memory holds.
            #[track_caller]
            pub fn $name($n: usize $(, $parameter: $Type)?) -> Variable {
                matrix(stringify!($name), $n, |$i, $j| $element)
            }
        )*
    };
}

matrices! {
    /// Returns Hilbert's matrix `1 / (i + j + 1)`, which is hard to invert.
    ///
    /// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
    ///
    /// Source: `scipy.linalg.hilbert`.
    ///
    /// ```
    /// use bibun::functions::hilbert;
    /// assert_eq!(hilbert(2).to_vec::<f64>(), [1.0, 0.5, 0.5, 1.0 / 3.0]);
    /// ```
    hilbert(n) -> |i, j| 1.0 / (i + j + 1) as f64;

    /// Returns the inverse of [`hilbert`]'s matrix, of integers that f64 holds exactly up to 12 rows.
    ///
    /// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
    ///
    /// Source: `scipy.linalg.invhilbert`.
    ///
    /// ```
    /// use bibun::functions::invhilbert;
    /// assert_eq!(invhilbert(2).to_vec::<f64>(), [4.0, -6.0, -6.0, 12.0]);
    /// ```
    invhilbert(n) -> |i, j| {
        let square = choose(i + j, i).powi(2);
        sign(i + j) * (i + j + 1) as f64 * choose(n + i, n - j - 1) * choose(n + j, n - i - 1) * square
    };

    /// Returns Pascal's matrix of binomial coefficients, which f64 holds exactly up to 2⁵³.
    ///
    /// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
    ///
    /// Source: `scipy.linalg.pascal`.
    ///
    /// ```
    /// use bibun::functions::{pascal, Pascal};
    /// assert_eq!(pascal(2, Pascal::Symmetric).to_vec::<f64>(), [1.0, 1.0, 1.0, 2.0]);
    /// assert_eq!(pascal(2, Pascal::Lower).to_vec::<f64>(), [1.0, 0.0, 1.0, 1.0]);
    /// ```
    pascal(n, form: Pascal) -> |i, j| match form {
        Pascal::Symmetric => choose(i + j, i),
        Pascal::Lower => choose(i, j),
        Pascal::Upper => choose(j, i),
    };

    /// Returns the inverse of [`pascal`]'s matrix.
    ///
    /// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
    ///
    /// Source: `scipy.linalg.invpascal`.
    ///
    /// ```
    /// use bibun::functions::{invpascal, Pascal};
    /// assert_eq!(invpascal(2, Pascal::Symmetric).to_vec::<f64>(), [2.0, -1.0, -1.0, 1.0]);
    /// ```
    invpascal(n, form: Pascal) -> |i, j| match form {
        Pascal::Symmetric => {
            let both = i.max(j)..n;
            sign(i + j) * both.map(|k| choose(k, i) * choose(k, j)).sum::<f64>()
        }
        Pascal::Lower => sign(i + j) * choose(i, j),
        Pascal::Upper => sign(i + j) * choose(j, i),
    };

    /// Returns the orthogonal matrix of Helmert: a constant row, and in row i the mean of the i numbers before
    /// against number i.
    ///
    /// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
    ///
    /// Source: `scipy.linalg.helmert` with `full=True`; without it the first row is left out.
    ///
    /// ```
    /// use bibun::functions::helmert;
    /// let half = 0.5f64.sqrt();
    /// assert_eq!(helmert(2).to_vec::<f64>(), [half, half, half, -half]);
    /// ```
    helmert(n) -> |i, j| {
        let length = match i {
            0 => n as f64,
            _ => (i * (i + 1)) as f64,
        };
        let value = match j {
            _ if i == 0 || j < i => 1.0,
            _ if j == i => -(i as f64),
            _ => 0.0,
        };
        value * length.recip().sqrt()
    };
}

/// Returns Hadamard's matrix of ones and minus ones, whose rows are orthogonal, by Sylvester's construction.
///
/// Shapes: → `[n, n]`. Types: f64. Gradient: none; the result is a constant.
///
/// Source: `scipy.linalg.hadamard`.
///
/// # Panics
/// Panics if n is not a power of two, or there are more elements than memory holds.
///
/// ```
/// use bibun::functions::hadamard;
/// assert_eq!(hadamard(2).to_vec::<f64>(), [1.0, 1.0, 1.0, -1.0]);
/// ```
#[track_caller]
pub fn hadamard(n: usize) -> Variable {
    if !n.is_power_of_two() {
        let what = format!("n is {n}, it must be a power of two");
        raise(Error::argument("hadamard", what));
    }
    matrix("hadamard", n, |i, j| sign((i & j).count_ones() as usize))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::by_index;
    use crate::conformance::{Sample, beside};
    type Matrix = (&'static str, fn() -> Variable, [[f64; 4]; 4]);
    let third = 1.0 / 3.0;
    let (r2, r6, r12) = (0.5f64.sqrt(), 6f64.sqrt().recip(), 12f64.sqrt().recip());
    let matrices: [Matrix; 6] = [
        (
            "hilbert",
            || hilbert(4),
            [
                [1.0, 0.5, third, 0.25],
                [0.5, third, 0.25, 0.2],
                [third, 0.25, 0.2, 1.0 / 6.0],
                [0.25, 0.2, 1.0 / 6.0, 1.0 / 7.0],
            ],
        ),
        (
            "invhilbert",
            || invhilbert(4),
            [
                [16.0, -120.0, 240.0, -140.0],
                [-120.0, 1200.0, -2700.0, 1680.0],
                [240.0, -2700.0, 6480.0, -4200.0],
                [-140.0, 1680.0, -4200.0, 2800.0],
            ],
        ),
        (
            "pascal",
            || pascal(4, Pascal::Symmetric),
            [
                [1.0, 1.0, 1.0, 1.0],
                [1.0, 2.0, 3.0, 4.0],
                [1.0, 3.0, 6.0, 10.0],
                [1.0, 4.0, 10.0, 20.0],
            ],
        ),
        (
            "invpascal",
            || invpascal(4, Pascal::Symmetric),
            [
                [4.0, -6.0, 4.0, -1.0],
                [-6.0, 14.0, -11.0, 3.0],
                [4.0, -11.0, 10.0, -3.0],
                [-1.0, 3.0, -3.0, 1.0],
            ],
        ),
        (
            "helmert",
            || helmert(4),
            [
                [0.5, 0.5, 0.5, 0.5],
                [r2, -r2, 0.0, 0.0],
                [r6, r6, -2.0 * r6, 0.0],
                [r12, r12, r12, -3.0 * r12],
            ],
        ),
        (
            "hadamard",
            || hadamard(4),
            [
                [1.0, 1.0, 1.0, 1.0],
                [1.0, -1.0, 1.0, -1.0],
                [1.0, 1.0, -1.0, -1.0],
                [1.0, -1.0, -1.0, 1.0],
            ],
        ),
    ];
    let sample = |(name, call, known): Matrix| {
        Sample::new(
            name,
            move |x| vec![&x[0] * beside(x, call().array())],
            move |x| {
                vec![by_index([4, 4], |i| {
                    super::at(&x[0], &[i[1]]) * known[i[0]][i[1]]
                })]
            },
        )
        .input([4], -1.0..1.0)
    };
    matrices.map(sample).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::matmul;

    #[test]
    fn inverses_are_inverse() {
        for form in [Pascal::Symmetric, Pascal::Lower, Pascal::Upper] {
            let y = matmul(pascal(6, form), invpascal(6, form)).to_vec::<f64>();
            assert!(
                (0..36).all(|i| y[i] == f64::from(u8::from(i % 7 == 0))),
                "{form:?}"
            );
        }
        let y = matmul(hilbert(5), invhilbert(5)).to_vec::<f64>();
        assert!((0..25).all(|i| (y[i] - f64::from(u8::from(i % 6 == 0))).abs() < 1e-9));
        assert_eq!(pascal(0, Pascal::Lower).shape(), [0, 0]);
    }
}
