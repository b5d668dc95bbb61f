//! Normalisation layers.

use std::fmt;

use bibun_array::{Array, DType, Shape};

use super::{Buffer, Chain, Link, expect_float};
use crate::error::{Error, raise};
use crate::functions::{
    all_reduce, batch_normalization_with_statistics, fixed_batch_normalization,
    group_normalization, instance_normalization, layer_normalization, rms_normalization,
};
use crate::parallel::Communicator;
use crate::scope;
use crate::variable::Variable;

/// Batch normalisation with running statistics. In training mode it uses the mean and variance of
/// the batch ([`batch_normalization`](crate::functions::batch_normalization)), in evaluation mode
/// the running ones ([`fixed_batch_normalization`](crate::functions::fixed_batch_normalization)).
///
/// Shapes: x `[n, c, d..]`, with any number of axes after the channels → as x.
///
/// Every call in training mode moves the running statistics by a fraction `momentum` towards those
/// of the batch. For the variance this is the unbiased estimate (divided by `n - 1`). A batch
/// without elements changes nothing. Under [`grad`](crate::grad) and [`jvp`](crate::jvp) the
/// statistics change as usual, in the model that was passed in; under
/// [`checkpoint`](crate::checkpoint) they change once, in the first run. Under
/// [`vmap`](crate::vmap) each batch element has its own batch, and updating the statistics from all
/// of them is an error; in evaluation mode all batch elements use the same statistics. Cloning
/// shares parameters and statistics.
///
/// ```
/// use bibun::links::{BatchNorm, Chain, Link};
/// use bibun::{eval_mode, Variable};
/// let layer = BatchNorm::builder(2).momentum(0.5).build();
/// let x = Variable::constant([[1.0f32, 10.0], [3.0, 30.0]]);
/// let y = layer.forward(&x).to_vec::<f32>();
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[3] - 1.0).abs() < 1e-4);
/// assert_eq!(layer.running_mean.get().to_vec::<f32>(), [1.0, 10.0]);
/// assert_eq!(layer.running_variance.get().to_vec::<f32>(), [1.5, 100.5]);
/// assert_eq!(layer.buffers()[0].0, "running_mean");
/// assert_eq!(eval_mode(|| layer.forward(&x)).to_vec::<f32>()[0], 0.0);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct BatchNorm {
    /// The scales, `[channels]`, if there are any.
    pub gamma: Option<Variable>,
    /// The shifts, `[channels]`, if there are any.
    pub beta: Option<Variable>,
    /// The running mean, `[channels]`.
    pub running_mean: Buffer,
    /// The running variance, `[channels]`.
    pub running_variance: Buffer,
    momentum: f64,
    epsilon: f64,
    #[chain(skip)]
    processes: Option<Communicator>,
}

impl BatchNorm {
    /// Creates a layer in f32 with scales of one and shifts of zero, a momentum of 0.1 and an
    /// epsilon of 1e-5.
    pub fn new(channels: usize) -> Self {
        Self::builder(channels).build()
    }

    /// Returns a builder of a layer with custom options.
    ///
    /// ```
    /// use bibun::links::BatchNorm;
    /// let layer = BatchNorm::builder(3).momentum(0.01).epsilon(1e-3).without_beta().build();
    /// assert!(layer.gamma.is_some() && layer.beta.is_none());
    /// ```
    pub fn builder(channels: usize) -> NormBuilder<Self> {
        NormBuilder::new("BatchNorm", channels, move |parts| Self {
            running_mean: Buffer::new(Array::zeros(channels, parts.dtype.accumulator())),
            running_variance: Buffer::new(Array::ones(channels, parts.dtype.accumulator())),
            gamma: parts.gamma,
            beta: parts.beta,
            momentum: parts.momentum,
            epsilon: parts.epsilon,
            processes: None,
        })
    }

    /// Takes the statistics of the batch over all processes of a group, as if one had the whole batch. All
    /// of them must use the layer, equally often. Per-example gradients are refused, as for one process.
    ///
    /// ```
    /// use bibun::links::{BatchNorm, Link};
    /// use bibun::parallel::local;
    /// use bibun::{array::Array, Variable};
    /// local::run(2, |world| {
    ///     let layer = BatchNorm::new(1).over(&world);
    ///     let own = [[[1f32], [2.0]], [[3.0], [6.0]]][world.rank()];
    ///     layer.forward(&Variable::constant(Array::from(own)));
    ///     // The mean of all four, from zero.
    ///     assert_eq!(layer.running_mean.get().to_vec::<f32>(), [0.3]);
    /// });
    /// ```
    #[must_use]
    pub fn over(mut self, processes: &Communicator) -> Self {
        self.processes = Some(processes.clone());
        self
    }

    /// Moves the running statistics towards the mean and the variance of a batch; the unbiased variance is
    /// `unbiased` times that.
    fn observe(&self, mean: &Variable, variance: &Variable, unbiased: f64) {
        for (buffer, value, scale) in [
            (&self.running_mean, mean, 1.0),
            (&self.running_variance, variance, unbiased),
        ] {
            let momentum = self.momentum;
            buffer.change("BatchNorm", [value], false, move |old, [value]| {
                let value = (value * scale).cast(old.dtype());
                old * (1.0 - momentum) + value * momentum
            });
        }
    }
}

impl Link for BatchNorm {
    /// Normalises the batch; in training mode it also updates the running statistics.
    ///
    /// # Panics
    /// Panics if x is not `[n, channels, ..]`, or if in training mode it has only one value per
    /// channel, as happens with a last batch of one example
    /// ([`DataLoader`](crate::datasets::DataLoader) can drop it); the message has all shapes. In
    /// training mode it also panics under `vmap` if x is batched there.
    fn compute(&self, x: &Variable) -> Variable {
        let (gamma, beta) = (self.gamma.as_ref(), self.beta.as_ref());
        let (mean, variance) = (self.running_mean.get(), self.running_variance.get());
        let shape = x.shape();
        if !scope::is_training() || shape.get(1).is_none_or(|&c| mean.shape() != [c]) {
            // This function reports a mismatch of shapes, in training mode too.
            return fixed_batch_normalization(x, gamma, beta, &mean, &variance, self.epsilon);
        }
        let count = shape.size() / shape[1].max(1);
        let Some(processes) = &self.processes else {
            let [y, mean, variance] =
                batch_normalization_with_statistics(x, gamma, beta, self.epsilon);
            if count > 0 {
                self.observe(&mean, &variance, count as f64 / (count - 1) as f64);
            }
            return y;
        };
        let [mean, variance, unbiased] = statistics_of_all(x, count, processes);
        self.observe(&mean, &unbiased, 1.0);
        fixed_batch_normalization(x, gamma, beta, &mean, &variance, self.epsilon)
    }
}

/// Returns the mean, the variance and the unbiased variance, `[channels]`, of a batch of which each process
/// has a part with `count` elements of a channel.
fn statistics_of_all(x: &Variable, count: usize, processes: &Communicator) -> [Variable; 3] {
    let dtype = x.dtype().accumulator();
    let x = x.cast(dtype);
    let others: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
    let own = Variable::constant(Array::full((), count as f64).cast(dtype));
    let count = all_reduce(own, processes);
    let mean = all_reduce(x.sum(&others[..]), processes) / &count;
    let mut along = vec![1; x.rank()];
    along[1] = x.shape()[1];
    let deviation = &x - mean.reshape(&along[..]);
    let squares = all_reduce((&deviation * &deviation).sum(&others[..]), processes);
    let (variance, unbiased) = (&squares / &count, &squares / (&count - 1.0));
    [mean, variance, unbiased]
}

/// Layer normalisation over the last axes of the input
/// ([`layer_normalization`](crate::functions::layer_normalization)).
///
/// Shapes: x `[.., shape..]` → as x, with gamma and beta of the shape. Cloning shares the parameters.
///
/// ```
/// use bibun::links::{LayerNorm, Link};
/// use bibun::Variable;
/// let layer = LayerNorm::new(2);
/// let y = layer.forward(&Variable::constant([[1.0f32, 3.0]])).to_vec::<f32>();
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct LayerNorm {
    /// The scales, of the shape normalised over, if there are any.
    pub gamma: Option<Variable>,
    /// The shifts, of the shape normalised over, if there are any.
    pub beta: Option<Variable>,
    rank: usize,
    epsilon: f64,
}

impl LayerNorm {
    /// Creates a layer in f32 over last axes of this shape (a number for one axis), with scales of
    /// one, shifts of zero and an epsilon of 1e-5.
    pub fn new(shape: impl Into<Shape>) -> Self {
        Self::builder(shape).build()
    }

    /// Returns a builder of a layer with custom options.
    pub fn builder(shape: impl Into<Shape>) -> NormBuilder<Self> {
        let shape = shape.into();
        let rank = shape.rank();
        NormBuilder::new("LayerNorm", shape, move |parts| Self {
            gamma: parts.gamma,
            beta: parts.beta,
            rank,
            epsilon: parts.epsilon,
        })
    }
}

impl Link for LayerNorm {
    /// Normalises the input over its last axes.
    ///
    /// # Panics
    /// Panics if x does not end in the layer's shape; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let axes = last_axes(self.rank);
        let (gamma, beta) = (self.gamma.as_ref(), self.beta.as_ref());
        layer_normalization(x, &axes[..], gamma, beta, self.epsilon)
    }
}

/// Normalisation by the root mean square over the last axes of the input
/// ([`rms_normalization`](crate::functions::rms_normalization)).
///
/// Shapes: x `[.., shape..]` → as x, with gamma of the shape. Cloning shares the parameters.
///
/// ```
/// use bibun::links::{Link, RmsNorm};
/// use bibun::Variable;
/// let layer = RmsNorm::new(2);
/// let y = layer.forward(&Variable::constant([[1.0f32, 7.0]])).to_vec::<f32>();
/// assert!((y[0] - 0.2).abs() < 1e-6 && (y[1] - 1.4).abs() < 1e-6);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct RmsNorm {
    /// The scales, of the shape normalised over, if there are any.
    pub gamma: Option<Variable>,
    rank: usize,
    epsilon: f64,
}

impl RmsNorm {
    /// Creates a layer in f32 over last axes of this shape (a number for one axis), with scales of
    /// one and an epsilon of 1e-5.
    pub fn new(shape: impl Into<Shape>) -> Self {
        Self::builder(shape).build()
    }

    /// Returns a builder of a layer with custom options.
    pub fn builder(shape: impl Into<Shape>) -> NormBuilder<Self> {
        let shape = shape.into();
        let rank = shape.rank();
        NormBuilder::new("RmsNorm", shape, move |parts| Self {
            gamma: parts.gamma,
            rank,
            epsilon: parts.epsilon,
        })
    }
}

impl Link for RmsNorm {
    /// Divides the input by its root mean square over the last axes.
    ///
    /// # Panics
    /// Panics if x does not end in the layer's shape; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let axes = last_axes(self.rank);
        rms_normalization(x, &axes[..], self.gamma.as_ref(), self.epsilon)
    }
}

/// Group normalisation ([`group_normalization`](crate::functions::group_normalization)).
///
/// Shapes: x `[n, channels, d..]` → as x, with gamma and beta `[channels]`. Cloning shares the
/// parameters.
///
/// ```
/// use bibun::links::{GroupNorm, Link};
/// use bibun::Variable;
/// let layer = GroupNorm::new(2, 4);
/// let x = Variable::constant([[1.0f32, 3.0, 10.0, 10.0]]);
/// let y = layer.forward(&x).to_vec::<f32>();
/// assert!((y[0] + 1.0).abs() < 1e-4 && y[2] == 0.0);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct GroupNorm {
    /// The scales, `[channels]`, if there are any.
    pub gamma: Option<Variable>,
    /// The shifts, `[channels]`, if there are any.
    pub beta: Option<Variable>,
    groups: usize,
    epsilon: f64,
}

impl GroupNorm {
    /// Creates a layer in f32 with scales of one, shifts of zero and an epsilon of 1e-5.
    ///
    /// # Panics
    /// Panics if the number of channels is not a multiple of `groups`.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> Self {
        Self::builder(groups, channels).build()
    }

    /// Returns a builder of a layer with custom options.
    ///
    /// # Panics
    /// Panics if the number of channels is not a multiple of `groups`.
    #[track_caller]
    pub fn builder(groups: usize, channels: usize) -> NormBuilder<Self> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            let what = format!("{channels} channels do not make {groups} groups");
            raise(Error::argument("GroupNorm", what));
        }
        NormBuilder::new("GroupNorm", channels, move |parts| Self {
            gamma: parts.gamma,
            beta: parts.beta,
            groups,
            epsilon: parts.epsilon,
        })
    }
}

impl Link for GroupNorm {
    /// Normalises each group of channels of each example.
    ///
    /// # Panics
    /// Panics if x is not `[n, channels, ..]`; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let (gamma, beta) = (self.gamma.as_ref(), self.beta.as_ref());
        group_normalization(x, self.groups, gamma, beta, self.epsilon)
    }
}

/// Instance normalisation ([`instance_normalization`](crate::functions::instance_normalization)).
///
/// Shapes: x `[n, channels, d, ..]` → as x, with gamma and beta `[channels]`. Cloning shares the
/// parameters.
///
/// ```
/// use bibun::links::{InstanceNorm, Link};
/// use bibun::Variable;
/// let layer = InstanceNorm::new(2);
/// let x = Variable::constant([[[1.0f32, 3.0], [10.0, 10.0]]]);
/// let y = layer.forward(&x).to_vec::<f32>();
/// assert!((y[0] + 1.0).abs() < 1e-4 && y[2] == 0.0);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct InstanceNorm {
    /// The scales, `[channels]`, if there are any.
    pub gamma: Option<Variable>,
    /// The shifts, `[channels]`, if there are any.
    pub beta: Option<Variable>,
    epsilon: f64,
}

impl InstanceNorm {
    /// Creates a layer in f32 with scales of one, shifts of zero and an epsilon of 1e-5.
    pub fn new(channels: usize) -> Self {
        Self::builder(channels).build()
    }

    /// Returns a builder of a layer with custom options.
    pub fn builder(channels: usize) -> NormBuilder<Self> {
        NormBuilder::new("InstanceNorm", channels, |parts| Self {
            gamma: parts.gamma,
            beta: parts.beta,
            epsilon: parts.epsilon,
        })
    }
}

impl Link for InstanceNorm {
    /// Normalises each channel of each example.
    ///
    /// # Panics
    /// Panics if x is not `[n, channels, d, ..]`; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        instance_normalization(x, self.gamma.as_ref(), self.beta.as_ref(), self.epsilon)
    }
}

/// Returns the last `rank` axes, counted from the end.
fn last_axes(rank: usize) -> Vec<isize> {
    (1..=rank as isize).rev().map(|axis| -axis).collect()
}

/// The parts that a normalisation layer is made of.
struct Parts {
    gamma: Option<Variable>,
    beta: Option<Variable>,
    dtype: DType,
    momentum: f64,
    epsilon: f64,
}

/// A builder of a normalisation layer; see [`BatchNorm::builder`].
#[must_use = "nothing is made before `build`"]
pub struct NormBuilder<L> {
    link: &'static str,
    shape: Shape,
    has_gamma: bool,
    has_beta: bool,
    dtype: DType,
    momentum: f64,
    epsilon: f64,
    make: Box<dyn FnOnce(Parts) -> L>,
}

impl<L> NormBuilder<L> {
    fn new(
        link: &'static str,
        shape: impl Into<Shape>,
        make: impl FnOnce(Parts) -> L + 'static,
    ) -> Self {
        Self {
            link,
            shape: shape.into(),
            has_gamma: true,
            has_beta: true,
            dtype: DType::F32,
            momentum: 0.1,
            epsilon: 1e-5,
            make: Box::new(make),
        }
    }

    /// Leaves out the scales.
    pub fn without_gamma(mut self) -> Self {
        self.has_gamma = false;
        self
    }

    /// Leaves out the shifts.
    pub fn without_beta(mut self) -> Self {
        self.has_beta = false;
        self
    }

    /// Sets the number added to the variance. Defaults to 1e-5.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Sets the dtype of parameters and buffers. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Builds the link.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type, epsilon is negative or NaN, or momentum is not
    /// between 0 and 1.
    #[track_caller]
    pub fn build(self) -> L {
        expect_float(self.link, self.dtype);
        if self.epsilon.is_nan() || self.epsilon < 0.0 {
            let what = format!("epsilon is {}, it must not be negative", self.epsilon);
            raise(Error::argument(self.link, what));
        }
        if !(0.0..=1.0).contains(&self.momentum) {
            let what = format!("momentum is {}, it must be between 0 and 1", self.momentum);
            raise(Error::argument(self.link, what));
        }
        let (shape, dtype) = (&self.shape, self.dtype);
        let gamma = self.has_gamma.then(|| Array::ones(shape, dtype));
        let beta = self.has_beta.then(|| Array::zeros(shape, dtype));
        (self.make)(Parts {
            gamma: gamma.map(Variable::new),
            beta: beta.map(Variable::new),
            dtype,
            momentum: self.momentum,
            epsilon: self.epsilon,
        })
    }
}

impl NormBuilder<BatchNorm> {
    /// Sets the fraction by which the running statistics move towards those of a batch: 0 leaves
    /// them unchanged, 1 replaces them. Defaults to 0.1.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }
}

impl<L> fmt::Debug for NormBuilder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NormBuilder")
            .field("link", &self.link)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
