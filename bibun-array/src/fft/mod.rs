//! Discrete Fourier transforms along the last axis, by the crates `rustfft` and `realfft`.

use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex;
use realfft::RealFftPlanner;
use rustfft::{FftNum, FftPlanner};

use crate::cpu::{chunks, for_each, worth_threads};
use crate::placement::on_cpu;
use crate::{Array, DType, Element, Error, Shape, raise};

/// A Fourier transform along the last axis, without its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fourier {
    /// `yₖ = Σⱼ xⱼ e^(-2πi jk/n)` of complex numbers.
    Forward,
    /// The same with `e^(2πi jk/n)`; it is not divided by n.
    Inverse,
    /// The first `n / 2 + 1` results of `Forward` of real numbers.
    Real,
    /// The `n` real results of `Inverse` of complex numbers of which the first `n / 2 + 1` are given:
    /// the others are their conjugates. Imaginary parts that would have to be zero are ignored.
    RealInverse(usize),
}

impl Fourier {
    /// Returns the shape and dtype of the result, or `None` if the input does not fit.
    pub fn output(self, shape: &Shape, dtype: DType) -> Option<(Shape, DType)> {
        let (&n, axis) = (shape.last()?, shape.rank() - 1);
        let is_float = matches!(dtype, DType::F32 | DType::F64);
        match self {
            Self::Forward | Self::Inverse => {
                (n > 0 && dtype.is_complex()).then(|| (shape.clone(), dtype))
            }
            Self::Real => {
                (n > 0 && is_float).then(|| (shape.replaced(axis, n / 2 + 1), dtype.to_complex()))
            }
            Self::RealInverse(length) => (length > 0 && n == length / 2 + 1 && dtype.is_complex())
                .then(|| (shape.replaced(axis, length), dtype.to_real())),
        }
    }
}

/// Computes a Fourier transform along the last axis of `x`, times `scale`. It is computed on the CPU,
/// on several threads if there are many rows.
///
/// ```
/// use bibun_array::{Array, Complex, Fourier, fourier};
/// let y = fourier(&Array::from([1.0, 0.0, 0.0]), Fourier::Real, 2.0);
/// assert_eq!(y.to_vec::<Complex<f64>>(), [Complex::new(2.0, 0.0); 2]);
/// ```
///
/// # Panics
/// Panics if the shape or the dtype does not fit.
#[track_caller]
pub fn fourier(x: &Array, transform: Fourier, scale: f64) -> Array {
    let Some((shape, dtype)) = transform.output(x.shape(), x.dtype()) else {
        let what = format!("{} {} does not fit {transform:?}", x.shape(), x.dtype());
        raise(Error::invalid("fourier", what));
    };
    let result = shape.clone();
    let run = move |x: &[Array]| {
        vec![match dtype.to_real() == DType::F32 {
            true => transformed::<f32>(&x[0], transform, scale, &result),
            false => transformed::<f64>(&x[0], transform, scale, &result),
        }]
    };
    let mut results = on_cpu("fourier", &[x], &[(shape, dtype)], run);
    results.pop().expect("there is one result")
}

/// A precision, with its plans, which are kept as long as the program runs.
trait Precision: Element + FftNum
where
    Complex<Self>: Element,
{
    fn plans() -> &'static Mutex<Option<(FftPlanner<Self>, RealFftPlanner<Self>)>>;
}

macro_rules! precisions {
    ($($T:ty),*) => {$(
        impl Precision for $T {
            fn plans() -> &'static Mutex<Option<(FftPlanner<Self>, RealFftPlanner<Self>)>> {
                static PLANS: Mutex<Option<(FftPlanner<$T>, RealFftPlanner<$T>)>> = Mutex::new(None);
                &PLANS
            }
        }
    )*};
}
precisions!(f32, f64);

/// Makes a plan, or takes one that was made before.
fn planned<T: Precision, P>(
    plan: impl FnOnce(&mut (FftPlanner<T>, RealFftPlanner<T>)) -> Arc<P>,
) -> Arc<P>
where
    P: ?Sized,
    Complex<T>: Element,
{
    let mut plans = T::plans().lock().unwrap_or_else(PoisonError::into_inner);
    plan(plans.get_or_insert_with(|| (FftPlanner::new(), RealFftPlanner::new())))
}

fn transformed<T: Precision>(x: &Array, transform: Fourier, scale: f64, shape: &Shape) -> Array
where
    Complex<T>: Element,
{
    let scale = T::from_f64(scale).expect("a float");
    let (n, length) = (x.shape()[x.rank() - 1], shape[shape.rank() - 1]);
    if shape.size() == 0 {
        return Array::zeros(shape, T::DTYPE).cast(transform.result::<T>());
    }
    // About a nanosecond for each step of each element.
    let most = n.max(length);
    let threads = worth_threads(x.size() * (most.ilog2() as usize + 1));
    match transform {
        Fourier::Forward | Fourier::Inverse => {
            let plan = planned::<T, _>(|(plans, _)| match transform == Fourier::Forward {
                true => plans.plan_fft_forward(n),
                false => plans.plan_fft_inverse(n),
            });
            let mut y = x.to_vec::<Complex<T>>();
            for_each(chunks(&mut y, n), threads, 1, &|_, row| {
                let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
                plan.process_with_scratch(row, &mut scratch);
                row.iter_mut().for_each(|y| *y = *y * scale);
            });
            Array::from_vec(y, shape)
        }
        Fourier::Real => {
            let plan = planned::<T, _>(|(_, plans)| plans.plan_fft_forward(n));
            let mut x = x.to_vec::<T>();
            let mut y = vec![Complex::default(); shape.size()];
            let rows = (chunks(&mut x, n), chunks(&mut y, length));
            for_each(rows, threads, 1, &|_, (x, y)| {
                let done = plan.process(x, y);
                done.expect("the lengths are those of the plan");
                y.iter_mut().for_each(|y| *y = *y * scale);
            });
            Array::from_vec(y, shape)
        }
        Fourier::RealInverse(_) => {
            let plan = planned::<T, _>(|(_, plans)| plans.plan_fft_inverse(length));
            let mut x = x.to_vec::<Complex<T>>();
            let mut y = vec![T::zero(); shape.size()];
            let rows = (chunks(&mut x, n), chunks(&mut y, length));
            for_each(rows, threads, 1, &|_, (x, y)| {
                x[0].im = T::zero();
                if length % 2 == 0 {
                    x[n - 1].im = T::zero();
                }
                let done = plan.process(x, y);
                done.expect("the lengths are those of the plan");
                y.iter_mut().for_each(|y| *y = *y * scale);
            });
            Array::from_vec(y, shape)
        }
    }
}

impl Fourier {
    /// The dtype of the results in one precision.
    fn result<T: Element>(self) -> DType {
        match self {
            Self::Forward | Self::Inverse | Self::Real => T::DTYPE.to_complex(),
            Self::RealInverse(_) => T::DTYPE,
        }
    }
}
