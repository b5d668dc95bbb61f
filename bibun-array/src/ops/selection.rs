//! Choosing between elements, clamping them to a range, and changing their type.

use std::hint::select_unpredictable;

use pulp::{Arch, NullaryFnOnce};

use crate::array_like::promoted;
use crate::conversion::not_real;
use crate::dtype::{with_dtype, with_float};
use crate::formula::{Formula, Operation, Part, Type};
use crate::{Array, ArrayLike, DType, Definition, Element, Kind, Mask, Slice, SliceMut};

/// Converts an array passed by value, as [`Array::cast`] does. It is returned unchanged if it has
/// the dtype.
///
/// ```
/// use bibun_array::{ops, Array, DType};
/// assert_eq!(ops::cast(Array::from([1.7]), DType::I64).to_vec::<i64>(), [1]);
/// ```
#[track_caller]
pub fn cast(x: Array, dtype: DType) -> Array {
    if x.dtype() == dtype {
        return x;
    }
    if x.dtype().is_complex() && !dtype.is_complex() && dtype != DType::Bool {
        not_real(x.dtype(), dtype);
    }
    with_dtype!(dtype, T => super::run(const { &Definition::cast::<T>() }, [x]))
}

/// Clamps arrays passed by value, which may give their memory to the result; see [`Array::clip`].
///
/// ```
/// use bibun_array::{ops, Array};
/// let y = ops::clip(Array::from([1, 7]), Array::from(2), Array::from([5, 6]));
/// assert_eq!(y.to_vec::<i64>(), [2, 6]);
/// ```
#[track_caller]
pub fn clip(x: Array, low: Array, high: Array) -> Array {
    let dtype = x.dtype().promote(low.dtype()).promote(high.dtype());
    let inputs = [x, low, high].map(|input| cast(input, dtype));
    super::run(&CLIP, inputs)
}

/// Chooses between arrays passed by value, which may give their memory to the result; see
/// [`Array::where_`].
///
/// ```
/// use bibun_array::{ops, Array};
/// let y = ops::where_(Array::from([true, false]), Array::from([1, 2]), Array::from(0));
/// assert_eq!(y.to_vec::<i64>(), [1, 0]);
/// ```
#[track_caller]
pub fn where_(condition: Array, a: Array, b: Array) -> Array {
    let (a, b) = promoted(a, b);
    let condition = cast(condition, DType::Bool);
    with_dtype!(a.dtype(), T => super::run(const { &where_of::<T>() }, [condition, a, b]))
}

/// The choice between integers.
pub(crate) static SELECT_INTEGERS: Definition = where_of::<i64>();

/// The conversions between types of [accumulators](DType::accumulator).
pub(crate) static CAST_TO_F32: Definition = Definition::cast::<f32>();
pub(crate) static CAST_TO_F64: Definition = Definition::cast::<f64>();
pub(crate) static CAST_TO_I64: Definition = Definition::cast::<i64>();

/// The kernel of [`where_`] for elements of one type.
const fn where_of<T: Element>() -> Definition {
    Definition::choice(
        Some(T::DTYPE),
        |_| (!T::DTYPE.is_complex()).then(|| where_formula(T::DTYPE.kind())),
        run_where::<T::Accumulator>,
    )
}

/// The choice between numbers of any precision.
pub(crate) static SELECT: Definition = Definition::choice(
    None,
    |_| Some(where_formula(Kind::Float)),
    |given, inputs, out| with_float!(out.dtype(), T => run_where::<T>(given, inputs, out)),
);

/// The choice between values of a kind.
fn where_formula(kind: Kind) -> Formula {
    let value = match kind {
        Kind::Truth => Type::Truth,
        Kind::Integer => Type::Integer,
        Kind::Float => Type::Number,
        Kind::Complex => crate::dtype::not_complex(),
    };
    Formula::trace_of(&[Type::Truth, value, value], 0, |x, _| match kind {
        Kind::Truth => {
            let [condition, a, b] = [0, 1, 2].map(|i| x[i].truth().0);
            Part::Truth(Mask(condition & a | !condition & b))
        }
        Kind::Integer | Kind::Float | Kind::Complex => Operation::Select.apply(x),
    })
}

fn run_where<T: Element>(_: &[f64], inputs: &[Slice<'_>], out: SliceMut<'_>) {
    let [condition, a, b] = inputs else {
        unreachable!("where_ has three inputs")
    };
    let operand = |slice| T::from_slice(slice).expect("where_ cast the operands");
    Arch::new().dispatch(Selection {
        condition: bool::from_slice(*condition).expect("where_ cast the condition"),
        a: operand(*a),
        b: operand(*b),
        out: T::from_slice_mut(out).expect("the device made the output"),
    });
}

/// The order of the comparisons makes a NaN among the bounds the result, like one in x.
pub(crate) static CLIP: Definition = super::definition! { clip[3] [x, low, high]:
    bool: (x | low) & high,
    number: x.clip(low, high),
};

struct Selection<'a, T> {
    condition: &'a [bool],
    a: &'a [T],
    b: &'a [T],
    out: &'a mut [T],
}

impl<T: Element> NullaryFnOnce for Selection<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let choices = self.condition.iter().zip(self.a.iter().zip(self.b));
        for (y, (&condition, (&a, &b))) in self.out.iter_mut().zip(choices) {
            // PERF: a branch on what is not foreseen takes thirty times as long.
            *y = select_unpredictable(condition, a, b);
        }
    }
}

impl Array {
    /// Converts the elements to another dtype, as [`Scalar::cast`](crate::Scalar::cast) does:
    /// floats to integers are rounded towards zero and saturate (NaN becomes 0), integers to
    /// smaller ones wrap around, and everything but zero is `true`.
    ///
    /// # Panics
    /// Panics if complex numbers are to become real ones.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// let x = Array::from([1.7, -0.5, 0.0]);
    /// assert_eq!(x.cast(DType::I64).to_vec::<i64>(), [1, 0, 0]);
    /// assert_eq!(x.cast(DType::Bool).to_vec::<bool>(), [true, true, false]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Self {
        cast(self.clone(), dtype)
    }

    /// Clamps the elements between `low` and `high`, arrays or numbers: `min(max(x, low), high)`.
    /// If `low > high` the result is `high`. It is NaN if any of the three is NaN.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([-2.0, 0.5, 3.0]).clip(0.0, 1.0).to_vec::<f64>(), [0.0, 0.5, 1.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Into<ArrayLike>, high: impl Into<ArrayLike>) -> Self {
        let dtype = self.dtype();
        let (low, high) = (low.into().beside(dtype), high.into().beside(dtype));
        clip(self.clone(), low, high)
    }

    /// Chooses `a` where the array is true and `b` elsewhere, all three broadcast: NumPy's `where`.
    /// Numbers count as true unless they are zero.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([-1.0, 4.0]);
    /// assert_eq!(x.less(0.0).where_(0.0, &x).to_vec::<f64>(), [0.0, 4.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn where_(&self, a: impl Into<ArrayLike>, b: impl Into<ArrayLike>) -> Self {
        let (a, b) = ArrayLike::pair(a.into(), b.into());
        where_(self.clone(), a, b)
    }
}
