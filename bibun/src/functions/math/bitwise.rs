//! Operations on integers: their bits, and their divisors.

use std::fmt;

use bibun_array::{Array, DType, Definition, Kernel, Slice, SliceMut, ops, run_kernel};

use crate::error::mismatch;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::Operand;
use crate::functions::families::{Discrete, DiscreteRule, method};
use crate::variable::Variable;

/// An elementwise operation on the bits of `N` arrays of one dtype.
#[derive(Clone, Copy)]
struct Bits<const N: usize> {
    name: &'static str,
    forward: fn([Array; N]) -> Array,
}

impl<const N: usize> DiscreteRule for Bits<N> {
    type Inputs = Fixed<N>;

    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, inputs: [&Spec; N]) -> Result<Spec, Mismatch> {
        Ok(inputs[0].clone())
    }
    fn forward(&self, inputs: [Array; N]) -> Array {
        (self.forward)(inputs)
    }
}

impl<const N: usize> fmt::Debug for Bits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Functions of two arrays of integers, or of bools if they `allow` them, which are broadcast and
/// promoted.
macro_rules! bitwise {
    ($($(#[$documentation:meta])* $name:ident -> bools: $bools:literal, $forward:expr;)+) => {$(
        $(#[$documentation])*
        ///
        /// Shapes: inputs that broadcast → their common shape.
        #[track_caller]
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Variable {
            let (inputs, _whole) = Operand::pair(stringify!($name), a.into(), b.into());
            expect(stringify!($name), &inputs, $bools);
            let (name, forward) = (stringify!($name), $forward);
            Discrete::of(Bits { name, forward }, inputs)
        }
        method!($name, b: impl Into<Operand>);
    )+};
}

bitwise! {
    /// Computes the greatest common divisor of integers, which is not negative; 0 of zeros.
    ///
    /// Types: integers, promoted. Gradient: none.
    /// Source: Euclid, "Elements", book VII.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one is not integers.
    ///
    /// ```
    /// use bibun::functions::gcd;
    /// assert_eq!(gcd([12i64, -18, 0], 8).to_vec::<i64>(), [4, 2, 8]);
    /// ```
    gcd -> bools: false, |[a, b]: [Array; 2]| of_pairs(&GCD, a, b);

    /// Computes the least common multiple of integers, which is not negative; 0 if one is 0.
    ///
    /// Types: integers, promoted; wraps around. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one is not integers.
    ///
    /// ```
    /// use bibun::functions::lcm;
    /// assert_eq!(lcm([12i64, -18, 0], 8).to_vec::<i64>(), [24, 72, 0]);
    /// ```
    lcm -> bools: false, |[a, b]: [Array; 2]| of_pairs(&LCM, a, b);

    /// Computes the bitwise `a & b` of integers or bools.
    ///
    /// Types: integers and bools, promoted. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one is a float.
    ///
    /// ```
    /// use bibun::{functions::bitwise_and, Variable};
    /// assert_eq!(bitwise_and([6i64, 5], 3).to_vec::<i64>(), [2, 1]);
    /// let x = Variable::constant([true, false]);
    /// assert_eq!((&x & !&x).to_vec::<bool>(), [false, false]);
    /// ```
    bitwise_and -> bools: true, |[a, b]: [Array; 2]| ops::bitwise_and(a, b);

    /// Computes the bitwise `a | b` of integers or bools.
    ///
    /// Types: integers and bools, promoted. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one is a float.
    ///
    /// ```
    /// use bibun::functions::bitwise_or;
    /// assert_eq!(bitwise_or([6i64, 5], 3).to_vec::<i64>(), [7, 7]);
    /// ```
    bitwise_or -> bools: true, |[a, b]: [Array; 2]| ops::bitwise_or(a, b);

    /// Computes the bitwise `a ^ b` of integers or bools.
    ///
    /// Types: integers and bools, promoted. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or one is a float.
    ///
    /// ```
    /// use bibun::functions::bitwise_xor;
    /// assert_eq!(bitwise_xor([6i64, 5], 3).to_vec::<i64>(), [5, 6]);
    /// ```
    bitwise_xor -> bools: true, |[a, b]: [Array; 2]| ops::bitwise_xor(a, b);

    /// Shifts the bits of `a` to the left by `b` places: `a 2ᵇ`, without the bits that leave the dtype.
    ///
    /// Types: integers, promoted. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, one is not integers, or `b` is negative.
    ///
    /// ```
    /// use bibun::functions::left_shift;
    /// assert_eq!(left_shift([3i64, -1], 2).to_vec::<i64>(), [12, -4]);
    /// assert_eq!(left_shift([3u8], 7u8).to_vec::<u8>(), [128]);
    /// ```
    left_shift -> bools: false, |[a, b]: [Array; 2]| {
        let bits = 8 * a.dtype().size();
        let powers = (0..=bits).map(|place| 1i64.checked_shl(place as u32).unwrap_or(0));
        let power = power_of(powers, places("left_shift", b, bits), a.dtype());
        a * power
    };

    /// Shifts the bits of `a` to the right by `b` places, with copies of the sign: `⌊a / 2ᵇ⌋`.
    ///
    /// Types: integers, promoted. Gradient: none.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, one is not integers, or `b` is negative.
    ///
    /// ```
    /// use bibun::functions::right_shift;
    /// assert_eq!(right_shift([13i64, -1], 2).to_vec::<i64>(), [3, -1]);
    /// ```
    right_shift -> bools: false, |[a, b]: [Array; 2]| {
        let (bits, dtype) = (8 * a.dtype().size(), a.dtype());
        let places = places("right_shift", b, bits);
        // In two steps, because the highest power of two is negative.
        let half = places.floor_divide(2);
        let divisor = |places: Array| power_of((0..=bits / 2).map(|place| 1i64 << place), places, dtype);
        let rest = divisor(&places - &half);
        a.floor_divide(divisor(half)).floor_divide(rest)
    };
}

/// Computes the bitwise complement of each element, which is `-1 - x` for integers with a sign.
///
/// Shapes: x any → the same. Types: integers and bools. Gradient: none.
///
/// # Panics
/// Panics if x are floats.
///
/// ```
/// use bibun::functions::bitwise_not;
/// assert_eq!(bitwise_not([0i64, 5]).to_vec::<i64>(), [-1, -6]);
/// assert_eq!(bitwise_not([true, false]).to_vec::<bool>(), [false, true]);
/// ```
#[track_caller]
pub fn bitwise_not(x: impl Into<Variable>) -> Variable {
    let x = [x.into()];
    expect("bitwise_not", &x, true);
    let forward = |[x]: [Array; 1]| {
        // The lowest and the highest have no bit in common, and all bits together.
        let [lowest, highest] = [x.dtype().lowest(), x.dtype().highest()];
        let all = Array::full((), lowest).bitwise_xor(Array::full((), highest));
        ops::bitwise_xor(x, all)
    };
    let name = "bitwise_not";
    Discrete::of(Bits { name, forward }, x)
}
method!(bitwise_not);

/// Raises an error unless all are integers, or bools if they are allowed.
/// Loops over pairs of integers, of which the accumulator is i64.
static GCD: Definition = Definition::host("gcd", None, |_, x, out| each_pair(x, out, divisor));
static LCM: Definition = Definition::host("lcm", None, |_, x, out| {
    each_pair(x, out, |a, b| match divisor(a, b) {
        0 => 0,
        common => (a / common).wrapping_mul(b).wrapping_abs(),
    });
});

fn of_pairs(definition: &'static Definition, a: Array, b: Array) -> Array {
    run_kernel(&Kernel::new(definition, &[]), &mut [a, b])
}

fn each_pair(inputs: &[Slice<'_>], out: SliceMut<'_>, of: impl Fn(i64, i64) -> i64) {
    let (Slice::I64(a), Slice::I64(b), SliceMut::I64(out)) = (inputs[0], inputs[1], out) else {
        unreachable!("integers are computed as i64")
    };
    for ((&a, &b), out) in a.iter().zip(b).zip(out) {
        *out = of(a, b);
    }
}

fn divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.cast_signed()
}

#[track_caller]
fn expect(function: &'static str, inputs: &[Variable], bools: bool) {
    let is_allowed = |x: &Variable| x.dtype().is_integer() || bools && x.dtype() == DType::Bool;
    if !inputs.iter().all(is_allowed) {
        let specs: Vec<Spec> = inputs.iter().map(Variable::spec).collect();
        let inputs: Vec<(&str, &Spec)> = ["a", "b"].into_iter().zip(&specs).collect();
        let allowed = if bools {
            "integers or bools"
        } else {
            "integers"
        };
        mismatch(function, &inputs, format!("they must be {allowed}"))
    }
}

/// Returns the numbers of places of a shift, at most all bits, after a check that none is negative.
fn places(function: &'static str, places: Array, bits: usize) -> Array {
    let places = places.cast(DType::I64);
    let what = |places| format!("a shift by {places} places");
    places.expect_between(function, 0..i64::MAX, what);
    places.minimum(bits as i64)
}

/// Returns powers of two, from a table of them, as integers of a dtype.
fn power_of(table: impl Iterator<Item = i64>, places: Array, dtype: DType) -> Array {
    let wrapped = |power: i64| match dtype {
        DType::U8 => i64::from(power as u8),
        DType::I32 => i64::from(power as i32),
        DType::I64
        | DType::Bool
        | DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64
        | DType::C64
        | DType::C128 => power,
    };
    let table = Array::from(table.map(wrapped).collect::<Vec<i64>>()).cast(dtype);
    table.to(places.device()).take(&places, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::batch::vmap;

    #[test]
    fn shifts_are_those_of_rust() {
        let numbers = [0, 1, -1, 5, -6, i64::MAX, i64::MIN];
        for places in [0, 1, 2, 31, 32, 33, 62, 63] {
            let left = left_shift(numbers, places).to_vec::<i64>();
            assert_eq!(left, numbers.map(|x| x << places), "{places}");
            let right = right_shift(numbers, places).to_vec::<i64>();
            assert_eq!(right, numbers.map(|x| x >> places), "{places}");
        }
        for places in [64, 1000] {
            assert_eq!(left_shift(numbers, places).to_vec::<i64>(), [0; 7]);
            let signs = numbers.map(|x| x >> 63);
            assert_eq!(right_shift(numbers, places).to_vec::<i64>(), signs);
        }
        let numbers = [7, -7, i32::MAX, i32::MIN];
        for places in [0i32, 1, 16, 31] {
            let shifted = left_shift(numbers, places).to_vec::<i32>();
            assert_eq!(shifted, numbers.map(|x| x << places), "{places}");
            let shifted = right_shift(numbers, places).to_vec::<i32>();
            assert_eq!(shifted, numbers.map(|x| x >> places), "{places}");
        }
        let numbers = [7u8, 255, 128];
        for places in [0u8, 1, 4, 7] {
            let shifted = left_shift(numbers, places).to_vec::<u8>();
            assert_eq!(shifted, numbers.map(|x| x << places), "{places}");
            let shifted = right_shift(numbers, places).to_vec::<u8>();
            assert_eq!(shifted, numbers.map(|x| x >> places), "{places}");
        }
    }

    #[test]
    fn dtypes_and_batches() {
        assert_eq!(bitwise_and([6u8], [3i64]).dtype(), DType::I64);
        assert_eq!(bitwise_not([1u8, 255]).to_vec::<u8>(), [254, 0]);
        assert_eq!(
            bitwise_xor([true, false], true).to_vec::<bool>(),
            [false, true]
        );
        let error = attempt(|| bitwise_or([1i64], 0.5)).unwrap_err().to_string();
        assert!(error.contains("they must be integers or bools"), "{error}");
        assert!(attempt(|| left_shift([true], [true])).is_err());
        let error = attempt(|| right_shift([4i64], -1)).unwrap_err().to_string();
        assert!(error.contains("a shift by -1 places"), "{error}");
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        let y = vmap(
            |v| vec![left_shift(&v[0], &v[1])],
            &[x, Variable::constant(1i64)],
            &[Some(1), None],
        );
        assert_eq!(y[0].to_vec::<i64>(), [2, 6, 4, 8]);
        let none = Variable::constant(Array::zeros([0], DType::I64));
        assert_eq!(right_shift(&none, 1).shape(), [0]);
    }
}
