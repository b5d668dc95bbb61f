//! Random initializers, scaled so that signals neither vanish nor explode on their way through
//! layers.

use bibun_array::{Array, DType, Generator, Shape};

use super::{Initializer, TruncatedNormal, Uniform};
use crate::error::{Error, raise};

/// Returns the number of inputs that contribute to one output of a weight, and the number of
/// outputs that one input contributes to.
#[track_caller]
fn fans(initializer: &'static str, shape: &Shape) -> (f64, f64) {
    let [outputs, inputs, kernel @ ..] = &**shape else {
        let what = format!("the shape is {shape}, expected the one of a weight, [o, i, ...]");
        raise(Error::argument(initializer, what))
    };
    let kernel: f64 = kernel.iter().map(|&size| size as f64).product();
    (*inputs as f64 * kernel, *outputs as f64 * kernel)
}

/// Draws a normal distribution of this variance.
fn normal(shape: &Shape, variance: f64, dtype: DType, generator: &mut Generator) -> Array {
    generator.normal(shape, 0.0, variance.sqrt(), dtype)
}

/// Draws a uniform distribution of this variance, which is r² / 3 on ±r.
fn uniform(shape: &Shape, variance: f64, dtype: DType, generator: &mut Generator) -> Array {
    let range = (3.0 * variance).sqrt();
    generator.uniform(shape, -range, range, dtype)
}

/// Declares the normal and the uniform initializer of one variance.
macro_rules! scaled {
    (
        $(#[$documentation:meta])*
        |$fan_in:ident, $fan_out:ident| $variance:expr,
        $normal_range:literal, $uniform_range:literal,
        $Normal:ident, $Uniform:ident
    ) => {
        scaled! {
            #[doc = concat!("The normal distribution with mean 0 and standard deviation ", $normal_range, ".")]
            ///
            $(#[$documentation])*
            $Normal = normal(|$fan_in, $fan_out| $variance)
        }
        scaled! {
            #[doc = concat!("The uniform distribution on ±", $uniform_range, ".")]
            ///
            $(#[$documentation])*
            $Uniform = uniform(|$fan_in, $fan_out| $variance)
        }
    };
    (
        $(#[$documentation:meta])*
        $Initializer:ident = $draw:ident(|$fan_in:ident, $fan_out:ident| $variance:expr)
    ) => {
        $(#[$documentation])*
        ///
        /// ```
        /// use bibun::array::{DType, Generator};
        #[doc = concat!("use bibun::initializers::{Initializer, ", stringify!($Initializer), "};")]
        #[doc = concat!("let w = ", stringify!($Initializer))]
        ///     .initialize(&[30, 20].into(), DType::F32, &mut Generator::new(0));
        /// assert_eq!(w.shape(), &[30, 20][..]);
        /// ```
        #[derive(Clone, Copy, Debug)]
        pub struct $Initializer;

        impl Initializer for $Initializer {
            #[track_caller]
            fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
                let ($fan_in, $fan_out) = fans(stringify!($Initializer), shape);
                match shape.size() {
                    0 => Array::zeros(shape, dtype),
                    _ => $draw(shape, $variance, dtype, generator),
                }
            }
        }
    };
}

scaled! {
    /// Keeps the size of signals through linear layers and through layers with `selu`. Source:
    /// LeCun, Bottou, Orr, Müller, "Efficient BackProp", 1998.
    |fan_in, _fan_out| 1.0 / fan_in,
    "`√(1 / fan_in)`", "`√(3 / fan_in)`",
    LeCunNormal, LeCunUniform
}

scaled! {
    /// A compromise between keeping the size of signals in the forward pass and that of gradients
    /// in the backward pass, for layers with `tanh` and similar activations. Source: Glorot,
    /// Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
    /// 2010.
    |fan_in, fan_out| 2.0 / (fan_in + fan_out),
    "`√(2 / (fan_in + fan_out))`", "`√(6 / (fan_in + fan_out))`",
    GlorotNormal, GlorotUniform
}

scaled! {
    /// Keeps the size of signals through layers with `relu`, which halves their variance. Source:
    /// He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015.
    |fan_in, _fan_out| 2.0 / fan_in,
    "`√(2 / fan_in)`", "`√(6 / fan_in)`",
    HeNormal, HeUniform
}

scaled! {
    /// [`FanInUniform`] is PyTorch's distribution of the weights of linear and convolutional
    /// layers. PyTorch's biases are uniform on the same range, which cannot be derived from their
    /// own shape: see [`FanInUniform::of_bias`].
    |fan_in, _fan_out| 1.0 / (3.0 * fan_in),
    "`√(1 / (3 fan_in))`", "`1 / √fan_in`",
    FanInNormal, FanInUniform
}

impl FanInUniform {
    /// Returns PyTorch's initializer for the biases of a layer with this `fan_in`: uniform on
    /// ±1/√fan_in.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::initializers::FanInUniform;
    /// use bibun::links::Linear;
    /// let layer = Linear::builder(16, 2)
    ///     .initializer(FanInUniform)
    ///     .bias_initializer(FanInUniform::of_bias(16))
    ///     .build(&mut Generator::new(0));
    /// assert!(layer.bias.unwrap().to_vec::<f32>().iter().all(|b| b.abs() <= 0.25));
    /// ```
    pub fn of_bias(fan_in: usize) -> Uniform {
        let range = 1.0 / (fan_in.max(1) as f64).sqrt();
        Uniform {
            low: -range,
            high: range,
        }
    }
}

/// The number by which [`VarianceScaling`] divides the variance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// The number of inputs that contribute to one output: keeps the size of signals.
    In,
    /// The number of outputs that one input contributes to: keeps the size of gradients.
    Out,
    /// The mean of both.
    Average,
}

/// The distribution of the numbers of [`VarianceScaling`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Normally distributed.
    Normal,
    /// Uniformly distributed on an interval around zero.
    Uniform,
    /// Normally distributed within two standard deviations; the variance is that after truncation.
    TruncatedNormal,
}

/// Numbers with mean 0 and a variance of `gain² / fan`: the general form of the scaled
/// initializers.
///
/// The Kaiming and Xavier initializers with PyTorch's parameters are [`kaiming`](Self::kaiming) and
/// [`xavier`](Self::xavier).
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::initializers::{Fan, Initializer, Nonlinearity, Spread, VarianceScaling};
/// let kaiming = VarianceScaling::kaiming(Nonlinearity::LeakyRelu(0.2), Fan::Out, Spread::Normal);
/// let w = kaiming.initialize(&[30, 20].into(), DType::F32, &mut Generator::new(0));
/// assert_eq!(w.shape(), &[30, 20][..]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VarianceScaling {
    /// The square root of the variance times the fan.
    pub gain: f64,
    /// The number that the variance is divided by.
    pub fan: Fan,
    /// The distribution of the numbers.
    pub spread: Spread,
}

impl VarianceScaling {
    /// Creates a Kaiming initializer, for layers followed by a nonlinearity, whose gain it uses.
    ///
    /// Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015.
    pub fn kaiming(nonlinearity: Nonlinearity, fan: Fan, spread: Spread) -> Self {
        Self {
            gain: nonlinearity.gain(),
            fan,
            spread,
        }
    }

    /// Creates a Xavier initializer: the mean of both fans, with this gain.
    ///
    /// Source: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural
    /// networks", AISTATS 2010.
    ///
    /// ```
    /// use bibun::initializers::{Fan, Nonlinearity, Spread, VarianceScaling};
    /// let xavier = VarianceScaling::xavier(Nonlinearity::Tanh.gain(), Spread::Uniform);
    /// assert_eq!(xavier.fan, Fan::Average);
    /// ```
    pub fn xavier(gain: f64, spread: Spread) -> Self {
        Self {
            gain,
            fan: Fan::Average,
            spread,
        }
    }
}

impl Initializer for VarianceScaling {
    #[track_caller]
    fn initialize(&self, shape: &Shape, dtype: DType, generator: &mut Generator) -> Array {
        let (fan_in, fan_out) = fans("VarianceScaling", shape);
        if shape.size() == 0 {
            return Array::zeros(shape, dtype);
        }
        let fan = match self.fan {
            Fan::In => fan_in,
            Fan::Out => fan_out,
            Fan::Average => (fan_in + fan_out) / 2.0,
        };
        let std = self.gain / fan.sqrt();
        match self.spread {
            Spread::Normal => generator.normal(shape, 0.0, std, dtype),
            // The variance of the uniform distribution on ±r is r² / 3.
            Spread::Uniform => {
                let range = 3f64.sqrt() * std;
                generator.uniform(shape, -range, range, dtype)
            }
            Spread::TruncatedNormal => {
                let std = std / WITHIN_TWO;
                let (low, high) = (-2.0 * std, 2.0 * std);
                let normal = TruncatedNormal {
                    mean: 0.0,
                    std,
                    low,
                    high,
                };
                normal.initialize(shape, dtype, generator)
            }
        }
    }
}

/// The standard deviation of the standard normal distribution truncated at ±2,
/// `√(1 - 4 φ(2) / (2 Φ(2) - 1))`.
const WITHIN_TWO: f64 = 0.879_625_661_034_239_8;

/// The nonlinearity that follows a layer, which determines the gain that keeps the size of its
/// signals.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nonlinearity {
    /// No nonlinearity.
    Linear,
    /// `sigmoid`.
    Sigmoid,
    /// `tanh`.
    Tanh,
    /// `relu`.
    Relu,
    /// `leaky_relu` with this slope on the left.
    LeakyRelu(f64),
    /// `selu`.
    Selu,
}

impl Nonlinearity {
    /// Returns the gain of the weights before this nonlinearity, as in PyTorch: 1 for `Linear` and
    /// `Sigmoid`, 5/3 for `Tanh`, √2 for `Relu`, `√(2 / (1 + slope²))` for `LeakyRelu`, 3/4 for
    /// `Selu`.
    ///
    /// ```
    /// use bibun::initializers::Nonlinearity;
    /// assert_eq!(Nonlinearity::LeakyRelu(0.0).gain(), Nonlinearity::Relu.gain());
    /// ```
    pub fn gain(self) -> f64 {
        match self {
            Self::Linear | Self::Sigmoid => 1.0,
            Self::Tanh => 5.0 / 3.0,
            Self::Relu => 2f64.sqrt(),
            Self::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Self::Selu => 0.75,
        }
    }
}
