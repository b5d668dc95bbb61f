//! Complex numbers: made of real ones, and taken apart.
//!
//! The cotangent of a complex value `z = a + i b` is `∂L/∂a + i ∂L/∂b`, for a real `L`: the
//! direction of steepest ascent, as in PyTorch.

mod power;

use bibun_array::{Array, DType, Index};

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::error::mismatch;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{Operand, atan2, cast, cos, multiply, sin, slice, stack};
use crate::variable::Variable;

pub(in crate::functions) use power::Power;

/// The functions of a complex number that are linear over the real numbers.
#[derive(Clone, Copy, Debug)]
enum Part {
    Real,
    Imaginary,
    Conjugate,
}

impl LinearRule for Part {
    fn name(&self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Imaginary => "imag",
            Self::Conjugate => "conj",
        }
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let dtype = match self {
            Self::Real | Self::Imaginary => x.dtype.to_real(),
            Self::Conjugate => x.dtype,
        };
        Ok(Spec::new(&x.shape, dtype))
    }

    fn forward(&self, x: Array) -> Array {
        match self {
            Self::Real => x.real(),
            Self::Imaginary => x.imag(),
            Self::Conjugate => x.conj(),
        }
    }

    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        match self {
            Self::Real => cast(gy, x.dtype),
            Self::Imaginary => {
                Complex::of([Variable::constant(Array::zeros(&x.shape, gy.dtype())), gy])
            }
            Self::Conjugate => conj(gy),
        }
    }
}

/// Returns the real part of each element; x itself if it is real.
///
/// Shapes: x any → the same.
/// Types: all; complex numbers give the dtype of their parts.
/// Gradient: `gy`, as a complex number.
///
/// ```
/// use bibun::{array::Complex, functions::real, Variable};
/// let z = Variable::new([Complex::new(1.0, 2.0)]);
/// assert_eq!(real(&z).to_vec::<f64>(), [1.0]);
/// ```
#[track_caller]
pub fn real(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    match x.dtype().is_complex() {
        true => Linear::of(Part::Real, x),
        false => x,
    }
}
method!(real);

/// Returns the imaginary part of each element; zeros if x is real.
///
/// Shapes: x any → the same.
/// Types: all; complex numbers give the dtype of their parts.
/// Gradient: `i gy`.
///
/// ```
/// use bibun::{array::Complex, functions::imag, Variable};
/// let z = Variable::new([Complex::new(1.0, 2.0)]);
/// assert_eq!(imag(&z).to_vec::<f64>(), [2.0]);
/// ```
#[track_caller]
pub fn imag(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    match x.dtype().is_complex() {
        true => Linear::of(Part::Imaginary, x),
        false => Variable::zeros(&x.spec()),
    }
}
method!(imag);

/// Returns the complex conjugate of each element; x itself if it is real.
///
/// Shapes: x any → the same.
/// Types: all.
/// Gradient: the conjugate of `gy`.
///
/// ```
/// use bibun::{array::Complex, functions::conj, Variable};
/// let z = Variable::new([Complex::new(1.0, 2.0)]);
/// assert_eq!(conj(&z).to_vec::<Complex<f64>>(), [Complex::new(1.0, -2.0)]);
/// ```
#[track_caller]
pub fn conj(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    match x.dtype().is_complex() {
        true => Linear::of(Part::Conjugate, x),
        false => x,
    }
}
method!(conj);

/// Returns the angle of each element as a point in the plane, from -π to π: 0 or π for real numbers.
///
/// Shapes: x any → the same.
/// Types: complex numbers, which give the dtype of their parts; floats; integers give f64.
/// Gradient: `i gy x / |x|²`; zero at zero.
///
/// ```
/// use bibun::{array::Complex, functions::angle, Variable};
/// let z = Variable::new([Complex::new(0.0, 2.0)]);
/// assert_eq!(angle(&z).to_vec::<f64>(), [std::f64::consts::FRAC_PI_2]);
/// ```
#[track_caller]
pub fn angle(x: impl Into<Variable>) -> Variable {
    let _whole = composite("angle");
    let x = x.into();
    atan2(imag(&x), real(x))
}
method!(angle);

/// Returns the complex numbers with these real and imaginary parts.
///
/// Shapes: parts that broadcast → their common shape.
/// Types: real numbers, promoted; f64 and integers give c128, all others c64.
/// Gradient: the real and the imaginary part of `gy`.
///
/// # Panics
/// Panics if the shapes do not broadcast, or a part is complex.
///
/// ```
/// use bibun::{array::Complex, functions::complex, Variable};
/// let z = complex(Variable::new([1.0, 2.0]), 3.0);
/// assert_eq!(z.to_vec::<Complex<f64>>()[1], Complex::new(2.0, 3.0));
/// ```
#[track_caller]
pub fn complex(real: impl Into<Operand>, imag: impl Into<Operand>) -> Variable {
    let _whole = composite("complex");
    let (parts, _pair) = Operand::pair("complex", real.into(), imag.into());
    let dtype = parts[0].dtype();
    if dtype.is_complex() {
        let specs = parts.each_ref().map(Variable::spec);
        let inputs = [("real", &specs[0]), ("imag", &specs[1])];
        mismatch("complex", &inputs, "the parts must be real");
    }
    Complex::of(parts.map(|part| cast(part, dtype.to_complex().to_real())))
}

/// Returns the complex numbers with these magnitudes and angles: `abs e^(i angle)`.
///
/// Shapes: abs, angle that broadcast → their common shape.
/// Types: real numbers, promoted; f64 and integers give c128, all others c64.
/// Gradient: that of `abs cos(angle) + i abs sin(angle)`.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{array::Complex, functions::polar, Variable};
/// let z = polar(Variable::new([2.0]), Variable::new([0.0]));
/// assert_eq!(z.to_vec::<Complex<f64>>(), [Complex::new(2.0, 0.0)]);
/// ```
#[track_caller]
pub fn polar(abs: impl Into<Operand>, angle: impl Into<Operand>) -> Variable {
    let _whole = composite("polar");
    let ([abs, angle], _pair) = Operand::pair("polar", abs.into(), angle.into());
    complex(multiply(&abs, cos(&angle)), multiply(abs, sin(angle)))
}

/// Returns the real and imaginary parts along a new last axis, as a copy.
///
/// Shapes: x `[..]` → `[.., 2]`.
/// Types: complex numbers, which give the dtype of their parts.
/// Gradient: `gy`, as complex numbers.
///
/// # Panics
/// Panics if x is not complex.
///
/// ```
/// use bibun::{array::Complex, functions::view_as_real, Variable};
/// let z = Variable::new([Complex::new(1.0, 2.0)]);
/// assert_eq!(view_as_real(&z).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn view_as_real(x: impl Into<Variable>) -> Variable {
    let _whole = composite("view_as_real");
    let x = x.into();
    if !x.dtype().is_complex() {
        mismatch("view_as_real", &[("x", &x.spec())], "x must be complex");
    }
    stack(&[real(&x), imag(x)], -1)
}
method!(view_as_real);

/// Returns the complex numbers whose real and imaginary parts are along the last axis, as a copy.
///
/// Shapes: x `[.., 2]` → `[..]`.
/// Types: floats.
/// Gradient: the parts of `gy`.
///
/// # Panics
/// Panics if the last axis has not two elements, or they are not floats.
///
/// ```
/// use bibun::{array::Complex, functions::view_as_complex, Variable};
/// let z = view_as_complex(Variable::new([[1.0, 2.0]]));
/// assert_eq!(z.to_vec::<Complex<f64>>(), [Complex::new(1.0, 2.0)]);
/// ```
#[track_caller]
pub fn view_as_complex(x: impl Into<Variable>) -> Variable {
    let _whole = composite("view_as_complex");
    let x = x.into();
    let spec = x.spec();
    if spec.shape.last() != Some(&2) || !spec.dtype.is_float() {
        mismatch(
            "view_as_complex",
            &[("x [.., 2]", &spec)],
            "x must be pairs of floats",
        );
    }
    let part = |i: isize| {
        let mut index = vec![Index::ALL; spec.shape.rank() - 1];
        index.push(Index::from(i));
        slice(&x, &index)
    };
    complex(part(0), part(1))
}
method!(view_as_complex);

/// The complex numbers with two parts of one shape, both f32 or f64.
#[derive(Clone, Copy, Debug)]
struct Complex;

impl Complex {
    #[track_caller]
    fn of(parts: [Variable; 2]) -> Variable {
        let [y] = crate::apply(Self, parts);
        y
    }
}

impl Function for Complex {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "complex"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [real, imag]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        if real != imag || !matches!(real.dtype, DType::F32 | DType::F64) {
            let inputs = [("real", real), ("imag", imag)];
            return Err(Mismatch::new(&inputs, "both must be equal, of f32 or f64"));
        }
        Ok([Spec::new(&real.shape, real.dtype.to_complex())])
    }

    fn forward(&self, [re, im]: [Array; 2]) -> [Array; 1] {
        [Array::complex(&re, &im)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let of_real = cx.needs(0).then(|| real(&gy));
        [of_real, cx.needs(1).then(|| imag(gy))]
    }

    fn jvp(&self, _: &Context<'_>, parts: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let spec = parts.iter().flatten().next().map(Variable::spec);
        [spec
            .map(|spec| Self::of(parts.map(|part| part.unwrap_or_else(|| Variable::zeros(&spec)))))]
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        Batched::of_elements(self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        gy.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
mod samples;

#[cfg(test)]
pub(super) use samples::samples;
