//! Samples: function calls with inputs for trying them and expected results.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bibun_array::{Array, Generator, Shape, cpu};

use super::Draw;
use crate::Variable;
use crate::functions::{ElementFunction, complex, imag, real};

type Call = Arc<dyn Fn(&[Variable]) -> Vec<Variable> + Send + Sync>;
type Reference = Arc<dyn Fn(&[Array]) -> Vec<Array> + Send + Sync>;

/// One way to call a function, on which the conformance test runs every check.
#[derive(Clone)]
pub(crate) struct Sample {
    /// The function's name.
    pub(crate) name: &'static str,
    /// The call.
    pub(crate) call: Call,
    /// The expected values, computed by plain loops in f64.
    pub(crate) reference: Reference,
    /// The inputs that carry gradients: their shapes, and how they are drawn.
    pub(crate) inputs: Vec<(Shape, Draw)>,
    /// Whether the function is elementwise (and is checked on more shapes, layouts and orders of
    /// derivative).
    pub(crate) elementwise: bool,
    /// The highest order of derivative to check; less than 2 where there are kinks everywhere.
    pub(crate) order: usize,
    /// The function as a formula, with its given numbers.
    pub(crate) formula: Option<(&'static ElementFunction, Vec<f64>)>,
}

impl Sample {
    /// Creates a sample of a call with its reference; [`Sample::input`] adds inputs.
    pub(crate) fn new(
        name: &'static str,
        call: impl Fn(&[Variable]) -> Vec<Variable> + Send + Sync + 'static,
        reference: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> Self {
        let (call, reference) = (Arc::new(call), Arc::new(reference));
        Self {
            name,
            call,
            reference,
            inputs: Vec::new(),
            elementwise: false,
            order: 2,
            formula: None,
        }
    }

    /// Adds an input.
    pub(crate) fn input(mut self, shape: impl Into<Shape>, draw: impl Into<Draw>) -> Self {
        self.inputs.push((shape.into(), draw.into()));
        self
    }

    /// Draws all inputs.
    pub(crate) fn draw(&self, generator: &mut Generator) -> Vec<Array> {
        let inputs = self.inputs.iter();
        inputs
            .map(|(shape, draw)| draw.array(shape, generator))
            .collect()
    }

    /// Creates a sample of a call with complex inputs, each of a shape, and drawn as its real and its imaginary
    /// part. It is a function of these parts, so that all checks hold in both directions.
    pub(crate) fn of_complex(
        name: &'static str,
        inputs: &[(Shape, [impl Into<Draw> + Clone; 2])],
        call: impl Fn(&[Variable]) -> Vec<Variable> + Send + Sync + 'static,
        reference: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> Self {
        let call = move |x: &[Variable]| {
            let whole = x.chunks(2).map(|parts| complex(&parts[0], &parts[1]));
            let y = call(&whole.collect::<Vec<_>>()).into_iter();
            let parts = |y: Variable| match y.dtype().is_complex() {
                true => vec![real(&y), imag(y)],
                false => vec![y],
            };
            y.flat_map(parts).collect()
        };
        let reference = move |x: &[Array]| {
            let whole = x
                .chunks(2)
                .map(|parts| Array::complex(&parts[0], &parts[1]));
            let y = reference(&whole.collect::<Vec<_>>()).into_iter();
            let parts = |y: Array| match y.dtype().is_complex() {
                true => vec![y.real(), y.imag()],
                false => vec![y],
            };
            y.flat_map(parts).collect()
        };
        let sample = Self::new(name, call, reference);
        inputs.iter().fold(sample, |sample, (shape, parts)| {
            let [real, imag] = parts.clone();
            sample.input(shape, real).input(shape, imag)
        })
    }

    /// Sets the formula of the function, with its given numbers.
    pub(crate) fn of(self, function: &'static ElementFunction, given: &[f64]) -> Self {
        Self {
            formula: Some((function, given.to_vec())),
            ..self
        }
    }

    /// Creates a sample of an elementwise function of one input.
    pub(crate) fn unary(
        name: &'static str,
        range: Range<f64>,
        call: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
        reference: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let reference = move |x: &[Array]| {
            let elements = x[0].to_vec::<f64>().into_iter().map(&reference).collect();
            vec![Array::from_vec(elements, x[0].shape())]
        };
        let sample = Self::new(name, move |x| vec![call(&x[0])], reference);
        Self {
            elementwise: true,
            order: 3,
            ..sample
        }
        .input([2, 3], range)
    }

    /// Creates a sample of an elementwise function of two inputs of one shape.
    pub(crate) fn binary(
        name: &'static str,
        range_a: Range<f64>,
        range_b: Range<f64>,
        call: impl Fn(&Variable, &Variable) -> Variable + Send + Sync + 'static,
        reference: impl Fn(f64, f64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let reference = move |x: &[Array]| {
            let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
            let elements = pairs.map(|(a, b)| reference(a, b)).collect();
            vec![Array::from_vec(elements, x[0].shape())]
        };
        let sample = Self::new(name, move |x| vec![call(&x[0], &x[1])], reference);
        Self {
            elementwise: true,
            order: 3,
            ..sample
        }
        .input([2, 3], range_a)
        .input([2, 3], range_b)
    }

    /// Creates a sample of an elementwise function of one input and of parameters near these numbers,
    /// which are Variables of the same shape.
    pub(crate) fn with_parameters(
        name: &'static str,
        range: Range<f64>,
        parameters: &[f64],
        call: impl Fn(&Variable, &[Variable]) -> Variable + Send + Sync + 'static,
        reference: impl Fn(f64, &[f64]) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let reference = move |x: &[Array]| {
            let values: Vec<Vec<f64>> = x.iter().map(Array::to_vec::<f64>).collect();
            let at = |i: usize| -> Vec<f64> { values.iter().map(|values| values[i]).collect() };
            let elements = (0..x[0].size()).map(|i| reference(at(i)[0], &at(i)[1..]));
            vec![Array::from_vec(elements.collect(), x[0].shape())]
        };
        let sample = Self::new(name, move |x| vec![call(&x[0], &x[1..])], reference);
        let sample = Self {
            elementwise: true,
            order: 3,
            ..sample
        };
        let sample = sample.input([2, 3], range);
        parameters.iter().fold(sample, |sample, &parameter| {
            let ends = [0.9 * parameter, 1.1 * parameter];
            sample.input([2, 3], ends[0].min(ends[1])..ends[0].max(ends[1]))
        })
    }
}

/// Returns a constant of a sample on the device of its inputs.
pub(crate) fn beside(x: &[Variable], constant: impl Into<Variable>) -> Variable {
    let device = x.iter().find_map(Variable::known_device);
    constant.into().to(device.unwrap_or(cpu()))
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes: Vec<&Shape> = self.inputs.iter().map(|(shape, _)| shape).collect();
        write!(f, "{} of {shapes:?}", self.name)
    }
}
