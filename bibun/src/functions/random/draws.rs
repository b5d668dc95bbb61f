//! Random numbers as constants.

use bibun_array::{
    Array, DType, Device, Distribution, Generator, Index, Shape, cpu, is_traced, record_call,
    undrawn,
};

use crate::batch::Batched;
use crate::call::calling;
use crate::function::{Mismatch, Spec, Variadic, no_rule};
use crate::functions::families::{Discrete, DiscreteRule};
use crate::randomness::{BatchPart, element_numbers, part};
use crate::variable::Variable;

/// Draws random numbers from the uniform distribution on `[low, high)`.
///
/// Shapes: the given `shape`.
/// Types: `dtype`, a float.
/// Gradient: none.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::{functions::random_uniform, vmap, Variable};
/// let generator = &mut Generator::new(0);
/// let x = Variable::constant([1.0, 1.0]);
/// let y = vmap(|x| x * random_uniform([], 0.0, 1.0, DType::F64, generator), &x).to_vec::<f64>();
/// assert!(y[0] != y[1] && y[0] < 1.0);
/// ```
///
/// # Panics
/// Panics if `low` is not below `high`, or `dtype` is not a float.
#[track_caller]
pub fn random_uniform(
    shape: impl Into<Shape>,
    low: f64,
    high: f64,
    dtype: DType,
    generator: &mut Generator,
) -> Variable {
    let _called = calling("random_uniform");
    let distribution = Distribution::uniform(low, high, dtype);
    Random::new("random_uniform", distribution, shape.into(), cpu()).draw(generator)
}

/// Draws random numbers from a normal distribution.
///
/// Shapes: the given `shape`.
/// Types: `dtype`, a float.
/// Gradient: none; `mean + std * random_normal(..)` has one with respect to `mean` and `std`.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::functions::random_normal;
/// let x = random_normal([2, 3], 0.0, 1.0, DType::F32, &mut Generator::new(0));
/// assert_eq!(x.shape(), [2, 3]);
/// ```
///
/// # Panics
/// Panics if `std` is negative or not finite, or `dtype` is not a float.
#[track_caller]
pub fn random_normal(
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    dtype: DType,
    generator: &mut Generator,
) -> Variable {
    let _called = calling("random_normal");
    let distribution = Distribution::normal(mean, std, dtype);
    Random::new("random_normal", distribution, shape.into(), cpu()).draw(generator)
}

/// Draws bools that are `true` with probability `p`.
///
/// Shapes: the given `shape`.
/// Types: bool.
/// Gradient: none.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::functions::random_bernoulli;
/// let x = random_bernoulli([3], 1.0, &mut Generator::new(0));
/// assert_eq!(x.to_vec::<bool>(), [true; 3]);
/// ```
///
/// # Panics
/// Panics if `p` is not between 0 and 1.
#[track_caller]
pub fn random_bernoulli(shape: impl Into<Shape>, p: f64, generator: &mut Generator) -> Variable {
    let _called = calling("random_bernoulli");
    let distribution = Distribution::bernoulli(p);
    Random::new("random_bernoulli", distribution, shape.into(), cpu()).draw(generator)
}

/// Random numbers as a function of the position in a stream, which is two words as i64 `[2]`, and
/// of the numbers of the batch elements that draw their own, from the outermost batch to the
/// innermost.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    name: &'static str,
    distribution: Distribution,
    /// The shape that one batch element draws.
    shape: Shape,
    device: &'static dyn Device,
    /// Whether the second word is the number of a stream split from the one with the first word as
    /// its key, rather than a counter.
    is_below: bool,
    /// The part of a batch that is drawn, and the axis of its examples.
    part: Option<(BatchPart, usize)>,
}

impl Random {
    #[track_caller]
    pub(crate) fn new(
        name: &'static str,
        distribution: Distribution,
        shape: Shape,
        device: &'static dyn Device,
    ) -> Self {
        let shape = shape.addressable(name);
        let part = part().and_then(|part| Some((part, part.axis(&shape)?)));
        Self {
            name,
            distribution,
            shape,
            device,
            is_below: false,
            part,
        }
    }

    /// Draws at the generator's position, and advances the generator.
    #[track_caller]
    pub(crate) fn draw(self, generator: &mut Generator) -> Variable {
        // A part advances the generator as the whole batch does.
        let size = match &self.part {
            Some((part, axis)) => {
                let sizes = self.shape.iter().enumerate();
                let whole = sizes.map(|(i, &size)| if i == *axis { part.whole() } else { size });
                whole.product()
            }
            None => self.shape.size(),
        };
        let blocks = size.div_ceil(self.distribution.elements_per_block());
        let mut after = generator.clone();
        let y = self.at(Variable::constant(after.advance(blocks)));
        // The generator advances only now: if there was no memory for the numbers, none were drawn.
        *generator = after;
        y
    }

    /// Draws from the stream with a number that is split from the stream with a key.
    #[track_caller]
    pub(super) fn draw_below(mut self, key_and_number: Variable) -> Variable {
        self.is_below = true;
        self.at(key_and_number)
    }

    #[track_caller]
    fn at(self, place: Variable) -> Variable {
        let mut inputs = element_numbers();
        inputs.insert(0, place);
        Discrete::of(self, inputs)
    }

    fn drawn(&self, inputs: &[Array]) -> Array {
        let mut stream = Generator::at(&inputs[0]);
        if self.is_below {
            stream = stream.split(stream.counter());
        }
        let numbers = inputs[1..].iter().map(|batch| {
            let first = batch
                .to_vec::<i64>()
                .first()
                .map_or(0, |&first| first as u64);
            first..first + batch.size() as u64
        });
        let numbers: Vec<_> = numbers.collect();
        let draw = |mut stream: Generator, shape: Shape| match numbers.is_empty() {
            true => stream.draw(self.distribution, shape, self.device),
            false => stream.draw_batch(self.distribution, &numbers, shape, self.device),
        };
        let Some((part, axis)) = &self.part else {
            return draw(stream, self.shape.clone());
        };
        // The examples of a part lie behind each other in the stream, as often as there are indices before
        // their axis; each time the draw begins with a whole block.
        let before: usize = self.shape[..*axis].iter().product();
        let each: usize = self.shape[axis + 1..].iter().product();
        let in_block = self.distribution.elements_per_block();
        let batch: Vec<usize> = inputs[1..]
            .iter()
            .flat_map(|x| x.shape().to_vec())
            .collect();
        let piece = |i: usize| {
            let from = (i * part.whole() + part.examples().start) * each;
            let (block, skipped) = (from / in_block, from % in_block);
            let size = part.examples().len() * each;
            let mut stream = stream.clone();
            stream.advance(block);
            let drawn = draw(stream, [skipped + size].into());
            let mut own = vec![Index::from(..); batch.len()];
            own.push((skipped..skipped + size).into());
            let sizes = [&batch[..], &[1, size]].concat();
            drawn.slice(&own).to_row_major().reshape(sizes)
        };
        let pieces: Vec<Array> = (0..before).map(piece).collect();
        let shape = [&batch[..], &self.shape[..]].concat();
        match &pieces[..] {
            [] => Array::zeros(shape, self.distribution.dtype()),
            [only] => only.reshape(shape),
            all => {
                let all: Vec<&Array> = all.iter().collect();
                bibun_array::concat(&all, batch.len() as isize).reshape(shape)
            }
        }
    }
}

impl DiscreteRule for Random {
    type Inputs = Variadic;

    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<Spec, Mismatch> {
        let batch = inputs[1..].iter().flat_map(|batch| batch.shape.iter());
        let sizes: Vec<usize> = batch.chain(self.shape.iter()).copied().collect();
        Ok(Spec::new(sizes, self.distribution.dtype()))
    }

    fn forward(&self, inputs: Vec<Array>) -> Array {
        if !inputs.iter().any(is_traced) {
            return undrawn(|| self.drawn(&inputs));
        }
        // The position in the stream is known in the run alone, and so are the numbers.
        let batch = inputs[1..].iter().flat_map(|batch| batch.shape().iter());
        let shape: Shape = batch.chain(self.shape.iter()).copied().collect();
        let own = self.clone();
        let run = move |inputs: Vec<Array>| vec![undrawn(|| own.drawn(&inputs))];
        let spec = (shape, self.distribution.dtype());
        let mut results = record_call(self.name, &inputs, &[spec], run);
        results.pop().expect("there is one result")
    }

    /// Batch elements with numbers draw their own.
    fn batch(&self, inputs: Vec<Batched>) -> [Batched; 1] {
        if inputs[0].axis.is_some() {
            let advice = "batch elements draw from one stream, by their numbers";
            no_rule(self.name, "batch", advice)
        }
        let others = inputs[1..].iter().take_while(|input| input.axis.is_none());
        let axis = others.map(|input| input.value.rank()).sum();
        let inputs = inputs.into_iter().map(|input| input.value);
        [Batched::along(
            Discrete::of(self.clone(), inputs.collect()),
            axis,
        )]
    }
}
