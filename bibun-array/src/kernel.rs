//! Elementwise kernels: what is computed at each element, apart from where the elements lie.
//!
//! A [`Kernel`] sees runs of neighbouring elements. Broadcasting, strides, threads and memory are
//! the device's business, so a kernel is a plain loop, compiled for each instruction set that the
//! machine may have.

use pulp::{Arch, NullaryFnOnce};

use crate::{Array, DType, Element, Error, Scalar, raise};

/// A run of elements of some dtype.
#[derive(Clone, Copy, Debug)]
pub enum Slice<'a> {
    /// Of `bool`.
    Bool(&'a [bool]),
    /// Of `i64`.
    I64(&'a [i64]),
    /// Of `f32`.
    F32(&'a [f32]),
    /// Of `f64`.
    F64(&'a [f64]),
}

/// A run of elements of some dtype, to be written.
#[derive(Debug)]
pub enum SliceMut<'a> {
    /// Of `bool`.
    Bool(&'a mut [bool]),
    /// Of `i64`.
    I64(&'a mut [i64]),
    /// Of `f32`.
    F32(&'a mut [f32]),
    /// Of `f64`.
    F64(&'a mut [f64]),
}

/// A computation on the elements of some arrays, one output element from one element of each.
pub trait Kernel: Sync {
    /// The name, as it stands in error messages and profiles.
    fn name(&self) -> &'static str;

    /// The dtype of the result.
    fn output(&self) -> DType;

    /// Fills `out` from runs of the same length, one of each input. Runs may be of any length.
    fn run(&self, inputs: &[Slice<'_>], out: SliceMut<'_>);
}

/// A kernel of `N` inputs of one type, written for a single element.
///
/// Mark `apply` as `#[inline(always)]` and keep it free of branches and calls, and the loop around
/// it becomes vector instructions.
///
/// ```
/// use bibun_array::{elementwise, Array, ElementKernel};
///
/// #[derive(Clone, Copy)]
/// struct Axpy(f32);
/// impl ElementKernel<2> for Axpy {
///     type Input = f32;
///     type Output = f32;
///     const NAME: &'static str = "axpy";
///     #[inline(always)]
///     fn apply(self, [x, y]: [f32; 2]) -> f32 {
///         self.0 * x + y
///     }
/// }
/// let x = Array::from([1.0f32, 2.0]);
/// let y = Array::from([10.0f32, 20.0]);
/// assert_eq!(elementwise(&Axpy(3.0), [x, y]).to_vec::<f32>(), [13.0, 26.0]);
/// ```
pub trait ElementKernel<const N: usize>: Copy + Sync {
    /// The type of every input.
    type Input: Element;
    /// The type of the result.
    type Output: Element;
    /// See [`Kernel::name`].
    const NAME: &'static str;
    /// The result at one element.
    fn apply(self, x: [Self::Input; N]) -> Self::Output;
}

/// Makes any [`ElementKernel`] a [`Kernel`]. (A type of its own, for Rust allows only one blanket
/// implementation over all `N`.)
#[derive(Clone, Copy, Debug)]
struct Loop<const N: usize, K>(K);

struct Run<'a, const N: usize, K: ElementKernel<N>> {
    kernel: K,
    inputs: [&'a [K::Input]; N],
    out: &'a mut [K::Output],
}

impl<const N: usize, K: ElementKernel<N>> NullaryFnOnce for Run<'_, N, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        // Bare loops: iterators, and the functions of arrays of any length, would be compiled anew for
        // every kernel, and are slow where nothing is optimised.
        let Self {
            kernel,
            mut inputs,
            out,
        } = self;
        let len = out.len();
        for input in &mut inputs {
            *input = &input[..len];
        }
        let mut i = 0;
        while i < len {
            let mut x = [inputs[0][i]; N];
            let mut k = 1;
            while k < N {
                x[k] = inputs[k][i];
                k += 1;
            }
            out[i] = kernel.apply(x);
            i += 1;
        }
    }
}

impl<const N: usize, K: ElementKernel<N>> Kernel for Loop<N, K> {
    fn name(&self) -> &'static str {
        K::NAME
    }
    fn output(&self) -> DType {
        K::Output::DTYPE
    }
    fn run(&self, inputs: &[Slice<'_>], out: SliceMut<'_>) {
        let mut all = [elements::<K::Input>(inputs[0]); N];
        for k in 1..N {
            all[k] = elements(inputs[k]);
        }
        let out = K::Output::from_slice_mut(out).expect("the device made the output");
        Arch::new().dispatch(Run {
            kernel: self.0,
            inputs: all,
            out,
        });
    }
}

fn elements<T: Element>(x: Slice<'_>) -> &[T] {
    T::from_slice(x).expect("elementwise checked the dtypes")
}

/// Computes `kernel` at every element of the inputs, broadcast against each other.
///
/// An input that is passed by value and shared with nobody gives its memory to the result.
///
/// # Panics
/// If the shapes do not broadcast or an input has another dtype than the kernel's.
#[track_caller]
pub fn elementwise<const N: usize, K: ElementKernel<N>>(kernel: &K, inputs: [Array; N]) -> Array {
    for input in &inputs {
        input.expect_dtype::<K::Input>(K::NAME);
    }
    run_kernel(&Loop(*kernel), inputs)
}

/// [`elementwise`] for kernels that work on whole runs or on inputs of several types, which must
/// match what the kernel expects.
///
/// # Panics
/// If the shapes do not broadcast.
#[track_caller]
pub fn run_kernel<const N: usize>(kernel: &dyn Kernel, mut inputs: [Array; N]) -> Array {
    let (first, rest) = inputs.split_first().expect("a kernel has inputs");
    if rest.iter().any(|input| input.shape() != first.shape()) {
        // Closures have no caller of their own.
        let location = crate::caller();
        let mut shape = first.shape().clone();
        for input in rest {
            shape = shape.broadcast(input.shape()).unwrap_or_else(|| {
                raise(Error::Broadcast {
                    function: kernel.name(),
                    left: shape.clone(),
                    right: input.shape().clone(),
                    location,
                })
            });
        }
        let shape = shape.addressable(kernel.name());
        for input in &mut inputs {
            if *input.shape() != shape {
                *input = input.broadcast_to(&shape);
            }
        }
    }
    if let Some(scalars) = all_inline(&inputs) {
        let mut y = Scalar::zero(kernel.output());
        kernel.run(
            &scalars.each_ref().map(Slice::of_scalar),
            SliceMut::of_scalar(&mut y),
        );
        let [first, ..] = &inputs[..] else {
            unreachable!("a kernel has inputs")
        };
        return Array::constant(y, first.shape().clone());
    }
    let device = crate::device::common(kernel.name(), &inputs);
    crate::device::allocating(kernel.name(), || device.elementwise(kernel, &mut inputs))
}

fn all_inline<const N: usize>(inputs: &[Array; N]) -> Option<[Scalar; N]> {
    let mut scalars = [Scalar::Bool(false); N];
    for (scalar, input) in scalars.iter_mut().zip(inputs) {
        *scalar = input.inline()?;
    }
    Some(scalars)
}

impl<'a> Slice<'a> {
    /// The run of one element.
    pub fn of_scalar(scalar: &'a Scalar) -> Self {
        match scalar {
            Scalar::Bool(x) => Self::Bool(std::slice::from_ref(x)),
            Scalar::I64(x) => Self::I64(std::slice::from_ref(x)),
            Scalar::F32(x) => Self::F32(std::slice::from_ref(x)),
            Scalar::F64(x) => Self::F64(std::slice::from_ref(x)),
        }
    }

    /// A part of the run.
    pub fn range(self, start: usize, len: usize) -> Self {
        match self {
            Self::Bool(x) => Self::Bool(&x[start..start + len]),
            Self::I64(x) => Self::I64(&x[start..start + len]),
            Self::F32(x) => Self::F32(&x[start..start + len]),
            Self::F64(x) => Self::F64(&x[start..start + len]),
        }
    }
}

impl<'a> SliceMut<'a> {
    /// The run of one element.
    pub fn of_scalar(scalar: &'a mut Scalar) -> Self {
        match scalar {
            Scalar::Bool(x) => Self::Bool(std::slice::from_mut(x)),
            Scalar::I64(x) => Self::I64(std::slice::from_mut(x)),
            Scalar::F32(x) => Self::F32(std::slice::from_mut(x)),
            Scalar::F64(x) => Self::F64(std::slice::from_mut(x)),
        }
    }
}
