//! Random numbers: the counter-based generator Philox4x32-10.
//!
//! Block `c` of the stream with key `k` is a fixed scrambling of `(c, k)`, so any element of any
//! draw can be computed alone. Results are the same for every number of threads and on every
//! device: transformations of the random words use only additions, multiplications, divisions and
//! square roots, which IEEE 754 rounds in the same way everywhere.
//!
//! Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011.

use std::collections::HashMap;
use std::ops::Range;

use crate::draws::{self, Position};
use crate::error::allocating;
use crate::storage::reserved;
use crate::{Array, DType, Device, Error, Scalar, Shape, cpu, raise, record_call, refuse, undrawn};

/// A stream of random numbers: a key and the next counter.
///
/// A draw advances the counter by whole blocks of 128 bits. Equal keys and counters yield equal
/// numbers; streams with different keys are independent for all practical purposes (there are 2^64
/// keys, so collisions matter only from about 2^32 streams on). A key has 2^64 blocks.
///
/// | draw of n elements | blocks |
/// |---|---|
/// | `uniform` and `normal` of `F32`, `F16` and `BF16`, `bernoulli` | n / 4, rounded up |
/// | `uniform` and `normal` of `F64`, `integers`, `permutation`, `choice` | n / 2, rounded up |
///
/// For `permutation`, n is the number of elements permuted. For `choice`, it is the number of
/// elements drawn, but with probabilities and without replacement it is the number of
/// probabilities.
///
/// ```
/// use bibun_array::{DType, Generator};
/// let mut generator = Generator::new(7);
/// let x = generator.normal([2, 3], 0.0, 1.0, DType::F32);
/// let saved = (generator.key(), generator.counter());
/// let y = generator.uniform(4, -1.0, 1.0, DType::F64);
/// let mut again = Generator::from_state(saved.0, saved.1);
/// assert_eq!(again.uniform(4, -1.0, 1.0, DType::F64).to_vec::<f64>(), y.to_vec::<f64>());
/// assert_eq!(x.shape(), &[2, 3][..]);
/// ```
///
/// Of a program that is being traced, a generator may be an input, as its [position](Self::position). What
/// it draws is then drawn in every run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generator(Position);

/// A distribution to draw from, with its definition from the words of the stream.
///
/// Block `c` has four 32-bit words, or two 64-bit words whose first half is the low one. Elements
/// use the words in order: element `i` of an array of 32-bit words uses word `i % 4` of block
/// `i / 4`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Floats on `[low, high)`: `low + (high - low) * u`, where `u` is, for `f64`, the 53 high bits
    /// of a 64-bit word divided by 2^53, and for all other types, which are computed as `f32`, the
    /// 24 high bits of a 32-bit word divided by 2^24. A result that was rounded up to `high`
    /// becomes the number below it.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The upper bound, which is not reached.
        high: f64,
        /// The type of the elements. `low` and `high` are numbers of this type.
        dtype: DType,
    },
    /// Normally distributed floats by the Box–Muller transformation (1958): two words, of 64 bits
    /// for `f64` and of 32 for all other types, which are computed as `f32`, make `r cos t` and
    /// `r sin t`, where the first word, made odd and divided by 2^32 (2^64 for `f64`), is
    /// `exp(-r²/2)`, and the second, divided by the same, is the angle `t` in turns plus an eighth.
    /// No value is farther than 6.7 standard deviations from the mean (9.5 for `f64`).
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
        /// The type of the elements.
        dtype: DType,
    },
    /// `i64` in `low..high`, all equally likely: the high half of the product of a 64-bit word and
    /// `high - low`. If the low half is below `2^64 mod (high - low)`, the word would favour some
    /// values and is drawn again: as the same word of the same block, with the number of the
    /// attempt in the third word of the counter. Source: D. Lemire, "Fast random integer generation
    /// in an interval", 2019.
    Integers {
        /// The smallest value.
        low: i64,
        /// The upper bound, which is not reached.
        high: i64,
    },
    /// `bool`, `true` if a 32-bit word is below this number (2^32: always).
    Bernoulli(u64),
}

impl Distribution {
    /// Creates the distribution of [`Generator::uniform`].
    ///
    /// # Panics
    /// Panics if `low` is not below `high`, their distance is not finite, or `dtype` is not a
    /// float.
    #[track_caller]
    pub fn uniform(low: f64, high: f64, dtype: DType) -> Self {
        expect_float("uniform", dtype);
        let [from, to] = [low, high].map(|x| Scalar::F64(x).cast(dtype).to_f64());
        let length = Scalar::F64(to - from).cast(dtype.accumulator());
        if !(from < to && length.to_f64().is_finite()) {
            let what = format!("[{low}, {high}) is no interval of finite length for {dtype}");
            raise(Error::invalid("uniform", what));
        }
        Self::Uniform {
            low: from,
            high: to,
            dtype,
        }
    }

    /// Creates the distribution of [`Generator::normal`].
    ///
    /// # Panics
    /// Panics if `std` is negative or not finite, or `dtype` is not a float.
    #[track_caller]
    pub fn normal(mean: f64, std: f64, dtype: DType) -> Self {
        if !(std >= 0.0 && std.is_finite()) {
            let what = format!("{std} is no standard deviation");
            raise(Error::invalid("normal", what));
        }
        expect_float("normal", dtype);
        Self::Normal { mean, std, dtype }
    }

    /// Creates the distribution of [`Generator::bernoulli`].
    ///
    /// # Panics
    /// Panics if `p` is not between 0 and 1.
    #[track_caller]
    pub fn bernoulli(p: f64) -> Self {
        if !(0.0..=1.0).contains(&p) {
            raise(Error::invalid(
                "bernoulli",
                format!("{p} is no probability"),
            ));
        }
        Self::Bernoulli((p * TWO_POW_32).round() as u64)
    }

    /// Returns the number of elements that a block makes.
    pub const fn elements_per_block(self) -> usize {
        match self {
            Self::Uniform { dtype, .. } | Self::Normal { dtype, .. } => {
                16 / dtype.accumulator().size()
            }
            Self::Integers { .. } => 2,
            Self::Bernoulli(_) => 4,
        }
    }

    /// Returns the type of the elements.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Uniform { dtype, .. } | Self::Normal { dtype, .. } => dtype,
            Self::Integers { .. } => DType::I64,
            Self::Bernoulli(_) => DType::Bool,
        }
    }
}

/// The fourth word of the counter separates the uses of blocks.
const FOR_NUMBERS: u32 = 0;
const FOR_KEYS: u32 = 1;
const FOR_BATCH: u32 = 2;

impl Generator {
    /// Creates the stream of a seed. The seed is the key, and the counter starts at 0.
    pub fn new(seed: u64) -> Self {
        Self::from_state(seed, 0)
    }

    /// Creates a stream at a position saved before from [`Generator::key`] and
    /// [`Generator::counter`].
    pub fn from_state(key: u64, counter: u64) -> Self {
        Self(Position::Known(key, counter))
    }

    /// Creates a stream at a [position](Self::position), i64 `[2]`.
    ///
    /// # Panics
    /// Panics if `position` has another shape or dtype.
    #[track_caller]
    pub fn at(position: &Array) -> Self {
        if *position.shape() != [2] || position.dtype() != DType::I64 {
            let (shape, dtype) = (position.shape(), position.dtype());
            let what = format!("the position is {dtype} {shape}; it must be i64 [2]");
            raise(Error::invalid("Generator::at", what));
        }
        Self(Position::of(position))
    }

    /// Returns the key and the counter as an array, i64 `[2]`, with the bits of both.
    ///
    /// ```
    /// use bibun_array::Generator;
    /// let mut generator = Generator::new(7);
    /// generator.bernoulli(0.5, 8);
    /// assert_eq!(generator.position().to_vec::<i64>(), [7, 2]);
    /// assert_eq!(Generator::at(&generator.position()), generator);
    /// ```
    pub fn position(&self) -> Array {
        self.0.array()
    }

    #[track_caller]
    fn known(&self, asked_by: &'static str) -> (u64, u64) {
        match self.0 {
            Position::Known(key, counter) => (key, counter),
            Position::Traced(..) => {
                let what = "the generator is an input of a function that is being traced, and where it \
                            stands is known in a run only; use `position`";
                refuse(Error::invalid(asked_by, what))
            }
        }
    }

    /// Returns the key, which distinguishes streams.
    ///
    /// # Panics
    /// Panics while a function is traced whose input the generator is.
    #[track_caller]
    pub fn key(&self) -> u64 {
        self.known("Generator::key").0
    }

    /// Returns the number of blocks drawn so far.
    ///
    /// # Panics
    /// Panics while a function is traced whose input the generator is.
    #[track_caller]
    pub fn counter(&self) -> u64 {
        self.known("Generator::counter").1
    }

    /// Creates the stream with the number `stream` below this one. Its key is a Philox block of
    /// this key and the number (in a range of counters from which no numbers are drawn), and its
    /// counter is 0. It does not depend on what has been drawn from this stream.
    ///
    /// ```
    /// use bibun_array::Generator;
    /// let generator = Generator::new(0);
    /// assert_eq!(generator.split(3), generator.split(3));
    /// assert_ne!(generator.split(3), generator.split(4));
    /// ```
    #[must_use]
    pub fn split(&self, stream: u64) -> Self {
        let Position::Known(key, _) = self.0 else {
            let split = move |x: Vec<Array>| vec![Self::at(&x[0]).split(stream).position()];
            let spec = (Shape::from([2]), DType::I64);
            let below = record_call("split", &[self.position()], &[spec], split);
            return Self::at(&below[0]);
        };
        let [low, high, ..] = block(key, stream, 0, FOR_KEYS);
        Self::new(join_words(low, high))
    }

    /// Draws from any distribution on any device.
    ///
    /// ```
    /// use bibun_array::{cpu, Distribution, Generator};
    /// let dice = Distribution::Integers { low: 1, high: 7 };
    /// let x = Generator::new(0).draw(dice, 10, cpu());
    /// assert!(x.to_vec::<i64>().iter().all(|x| (1..7).contains(x)));
    /// ```
    #[track_caller]
    pub fn draw(
        &mut self,
        distribution: Distribution,
        shape: impl Into<Shape>,
        device: &'static dyn Device,
    ) -> Array {
        self.drawn("draw", distribution, shape.into(), device)
    }

    #[track_caller]
    fn drawn(
        &mut self,
        function: &'static str,
        distribution: Distribution,
        shape: Shape,
        device: &'static dyn Device,
    ) -> Array {
        let shape = shape.addressable(function);
        let blocks = shape.size().div_ceil(distribution.elements_per_block());
        let (at, next) = self.next(blocks);
        let drawn = match at {
            Position::Known(key, counter) => allocating(function, || {
                device.random(distribution, &[key], counter, &shape)
            }),
            Position::Traced(..) => {
                let of = shape.clone();
                later(
                    function,
                    &at,
                    &[],
                    shape,
                    distribution.dtype(),
                    move |own, _| own.drawn(function, distribution, of.clone(), cpu()),
                )
            }
        };
        // If there was no memory, nothing is drawn.
        self.0 = next;
        drawn
    }

    /// Draws for batch elements that are numbered from `batch.start` on, an array of this shape for
    /// each. The numbers of a batch element come from a stream that depends only on the key and on
    /// the number of the batch element, not on how many other batch elements there are. If there
    /// are several ranges, each batch element of the first has the batch elements of the second,
    /// and so on.
    ///
    /// Shapes: the numbers of batch elements, then `shape`. The counter advances as by a draw of
    /// one batch element.
    ///
    /// ```
    /// use bibun_array::{cpu, Distribution, Generator};
    /// let dice = Distribution::Integers { low: 1, high: 7 };
    /// let two = Generator::new(0).draw_batch(dice, &[0..2], 10, cpu());
    /// let three = Generator::new(0).draw_batch(dice, &[0..3], 10, cpu());
    /// assert_eq!(two.shape(), &[2, 10][..]);
    /// assert_eq!(two.to_vec::<i64>(), three.to_vec::<i64>()[..20]);
    /// ```
    #[track_caller]
    pub fn draw_batch(
        &mut self,
        distribution: Distribution,
        batch: &[Range<u64>],
        shape: impl Into<Shape>,
        device: &'static dyn Device,
    ) -> Array {
        let own = shape.into().addressable("draw_batch");
        let blocks = own.size().div_ceil(distribution.elements_per_block());
        let (at, next) = self.next(blocks);
        let counts = batch.iter().map(|batch| (batch.end - batch.start) as usize);
        let sizes: Vec<usize> = counts.chain(own.iter().copied()).collect();
        let shape = Shape::from(sizes).addressable("draw_batch");
        let Position::Known(key, counter) = at else {
            let (batch, dtype) = (batch.to_vec(), distribution.dtype());
            self.0 = next;
            return later("draw_batch", &at, &[], shape, dtype, move |stream, _| {
                stream.draw_batch(distribution, &batch, own.clone(), cpu())
            });
        };
        let key_of = |key: u64, element: u64| {
            let [low, high, ..] = block(key, element, 0, FOR_BATCH);
            join_words(low, high)
        };
        let keys = batch.iter().fold(vec![key], |keys, batch| {
            let below = |key| batch.clone().map(move |element| key_of(key, element));
            keys.into_iter().flat_map(below).collect()
        });
        let drawn = allocating("draw_batch", || {
            device.random(distribution, &keys, counter, &shape)
        });
        self.0 = next;
        drawn
    }

    /// Draws numbers equally likely everywhere on `[low, high)`, in steps of 2^-24 (`F32`) or 2^-53
    /// (`F64`) of the interval; see [`Distribution`].
    ///
    /// # Panics
    /// Panics if `low` is not below `high`, their distance is not finite, or `dtype` is not a
    /// float.
    ///
    /// ```
    /// use bibun_array::{DType, Generator};
    /// let x = Generator::new(1).uniform(1000, -1.0, 1.0, DType::F32).to_vec::<f32>();
    /// assert!(x.iter().all(|x| (-1.0..1.0).contains(x)));
    /// ```
    #[track_caller]
    pub fn uniform(&mut self, shape: impl Into<Shape>, low: f64, high: f64, dtype: DType) -> Array {
        let distribution = Distribution::uniform(low, high, dtype);
        self.drawn("uniform", distribution, shape.into(), cpu())
    }

    /// Draws normally distributed numbers; see [`Distribution`].
    ///
    /// # Panics
    /// Panics if `std` is negative or not finite, or `dtype` is not a float.
    ///
    /// ```
    /// use bibun_array::{DType, Generator};
    /// let x = Generator::new(1).normal(10_000, 5.0, 2.0, DType::F64).to_vec::<f64>();
    /// let mean = x.iter().sum::<f64>() / 10_000.0;
    /// assert!((mean - 5.0).abs() < 0.1);
    /// ```
    #[track_caller]
    pub fn normal(&mut self, shape: impl Into<Shape>, mean: f64, std: f64, dtype: DType) -> Array {
        let distribution = Distribution::normal(mean, std, dtype);
        self.drawn("normal", distribution, shape.into(), cpu())
    }

    /// Draws integers in `low..high`, all exactly equally likely, as `i64`; see [`Distribution`].
    ///
    /// # Panics
    /// Panics if `low` is not below `high`.
    ///
    /// ```
    /// use bibun_array::Generator;
    /// let x = Generator::new(1).integers(0, 10, [2, 5]);
    /// assert!(x.to_vec::<i64>().iter().all(|x| (0..10).contains(x)));
    /// ```
    #[track_caller]
    pub fn integers(&mut self, low: i64, high: i64, shape: impl Into<Shape>) -> Array {
        if low >= high {
            let what = format!("there are no integers in {low}..{high}");
            raise(Error::invalid("integers", what));
        }
        let integers = Distribution::Integers { low, high };
        self.drawn("integers", integers, shape.into(), cpu())
    }

    /// Draws `true` with probability `p` (rounded to a multiple of 2^-32), else `false`.
    ///
    /// # Panics
    /// Panics if `p` is not between 0 and 1.
    ///
    /// ```
    /// use bibun_array::Generator;
    /// let x = Generator::new(1).bernoulli(0.25, 10_000).to_vec::<bool>();
    /// let count = x.iter().filter(|&&x| x).count();
    /// assert!((2300..2700).contains(&count));
    /// ```
    #[track_caller]
    pub fn bernoulli(&mut self, p: f64, shape: impl Into<Shape>) -> Array {
        self.drawn("bernoulli", Distribution::bernoulli(p), shape.into(), cpu())
    }

    /// Draws the integers `0..n` in random order, all orders equally likely, as `i64` (the shuffle
    /// of Fisher and Yates, from the front).
    ///
    /// ```
    /// use bibun_array::Generator;
    /// let mut x = Generator::new(1).permutation(5).to_vec::<i64>();
    /// x.sort();
    /// assert_eq!(x, [0, 1, 2, 3, 4]);
    /// ```
    #[track_caller]
    pub fn permutation(&mut self, n: usize) -> Array {
        self.chosen("permutation", n, n, [n].into())
    }

    /// Returns the slices of `x` along `axis` in random order, all orders equally likely.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::{Array, Generator};
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let y = Generator::new(1).shuffle(&x, 0).to_vec::<f64>();
    /// assert!(y == [1.0, 2.0, 3.0, 4.0] || y == [3.0, 4.0, 1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn shuffle(&mut self, x: &Array, axis: isize) -> Array {
        let axis = crate::normalize_axis("shuffle", axis, x.rank());
        x.take(&self.permutation(x.shape()[axis]), axis as isize)
    }

    /// Draws integers in `0..n` as `i64`, with or without replacement, all equally likely or with
    /// the given `probabilities` (a vector of `n` numbers that need not sum to one).
    ///
    /// With replacement and probabilities, a uniform `f64` is looked up in the running sums of the
    /// probabilities. Without replacement, each choice has the given probabilities among the
    /// integers not chosen yet: the smallest of `n` exponentially distributed numbers with these
    /// rates are taken, in their order (P. S. Efraimidis, P. G. Spirakis, "Weighted random sampling
    /// with a reservoir", 2006).
    ///
    /// # Panics
    /// Panics if there are too few integers (of positive probability) to choose from, or
    /// `probabilities` is not a vector of `n` finite, nonnegative floats.
    ///
    /// ```
    /// use bibun_array::{Array, Generator};
    /// let mut generator = Generator::new(1);
    /// let hand = generator.choice(52, 5, false, None);
    /// assert_eq!(hand.shape(), &[5][..]);
    /// let p = Array::from([0.0, 0.5, 0.5]);
    /// let x = generator.choice(3, 100, true, Some(&p)).to_vec::<i64>();
    /// assert!(x.iter().all(|&x| x == 1 || x == 2));
    /// ```
    #[track_caller]
    pub fn choice(
        &mut self,
        n: usize,
        shape: impl Into<Shape>,
        replace: bool,
        probabilities: Option<&Array>,
    ) -> Array {
        let shape = shape.into().addressable("choice");
        let size = shape.size();
        if let Position::Traced(..) = self.0 {
            let blocks = match (probabilities, replace) {
                (Some(_), false) => n.div_ceil(2),
                _ => size.div_ceil(2),
            };
            let (at, next) = self.next(blocks);
            let (of, more): (_, Vec<Array>) =
                (shape.clone(), probabilities.cloned().into_iter().collect());
            self.0 = next;
            return later("choice", &at, &more, shape, DType::I64, move |own, more| {
                own.choice(n, of.clone(), replace, more.first())
            });
        }
        let weights = probabilities.map(|p| weights_of(p, n));
        let candidates = match &weights {
            Some(weights) => weights.iter().filter(|&&weight| weight > 0.0).count(),
            None => n,
        };
        if candidates < if replace { size.min(1) } else { size } {
            let what = format!("{size} of {candidates} integers cannot be chosen");
            raise(Error::invalid("choice", what));
        }
        if size == 0 {
            return Array::zeros(shape, DType::I64);
        }
        match (weights, replace) {
            (None, true) => self.integers(0, i64::try_from(n).unwrap_or(i64::MAX), shape),
            (None, false) => self.chosen("choice", n, size, shape),
            (Some(weights), true) => {
                let sums: Vec<f64> = (weights.iter())
                    .scan(0.0, |sum, weight| {
                        *sum += weight;
                        Some(*sum)
                    })
                    .collect();
                let total = sums[n - 1];
                let last = weights.iter().rposition(|&weight| weight > 0.0);
                let last = last.expect("there is a candidate");
                let at = self.uniform(size, 0.0, 1.0, DType::F64).to_vec::<f64>();
                let chosen = at.iter().map(|u| {
                    // Rounding may reach the total, above which there is no candidate.
                    sums.partition_point(|&sum| sum <= u * total).min(last) as i64
                });
                Array::from_vec(chosen.collect(), shape)
            }
            (Some(weights), false) => {
                let (key, counter) = Self(self.take(n.div_ceil(2))).known("choice");
                let mut arrivals: Vec<(f64, i64)> = (weights.iter().enumerate())
                    .filter(|&(_, &weight)| weight > 0.0)
                    .map(|(i, &weight)| {
                        let word = word(key, counter, i, 0);
                        (-ln_f64(unit_f64(word)) / weight, i as i64)
                    })
                    .collect();
                arrivals.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let chosen = arrivals[..size].iter().map(|&(_, i)| i);
                Array::from_vec(chosen.collect(), shape)
            }
        }
    }

    /// The first `count` of `0..n` in random order.
    #[track_caller]
    fn chosen(&mut self, function: &'static str, n: usize, count: usize, shape: Shape) -> Array {
        let (at, next) = self.next(count.div_ceil(2));
        let chosen = match at {
            Position::Known(key, counter) => {
                let chosen = allocating(function, || distinct(key, counter, n, count));
                Array::from_vec(chosen, shape)
            }
            Position::Traced(..) => {
                let of = shape.clone();
                later(function, &at, &[], shape, DType::I64, move |own, _| {
                    own.chosen(function, n, count, of.clone())
                })
            }
        };
        // If there was no memory, nothing is drawn.
        self.0 = next;
        chosen
    }

    /// The position from which to take `blocks` blocks, and the position of the generator after them.
    #[track_caller]
    fn next(&self, blocks: usize) -> (Position, Position) {
        let (at, moves) = draws::position(&self.0);
        let next = match moves {
            true => self.0.behind(blocks as u64),
            false => self.0.clone(),
        };
        (at, next)
    }

    /// Advances by this number of blocks, and returns where they begin.
    #[track_caller]
    fn take(&mut self, blocks: usize) -> Position {
        let (at, next) = self.next(blocks);
        self.0 = next;
        at
    }

    /// Advances by this number of blocks, and returns the [position](Self::position) at which they begin.
    #[track_caller]
    pub fn advance(&mut self, blocks: usize) -> Array {
        self.take(blocks).array()
    }
}

/// What `draw` makes of the generator at a position that is known in the run alone, and of other arrays.
#[track_caller]
fn later(
    function: &'static str,
    at: &Position,
    others: &[Array],
    shape: Shape,
    dtype: DType,
    draw: impl Fn(&mut Generator, &[Array]) -> Array + Send + Sync + 'static,
) -> Array {
    let inputs = [&[at.array()], others].concat();
    let run = move |x: Vec<Array>| vec![undrawn(|| draw(&mut Generator::at(&x[0]), &x[1..]))];
    let mut drawn = record_call(function, &inputs, &[(shape, dtype)], run);
    drawn.pop().expect("there is one result")
}

/// The first `count` of `0..n` in random order, by the words from this counter on.
fn distinct(key: u64, counter: u64, n: usize, count: usize) -> Vec<i64> {
    let few = count < n / 16;
    let mut order: Vec<i64> = reserved(if few { count } else { n });
    let partner = |i: usize| {
        let range = (n - i) as u64;
        i + below(range, |attempt| word(key, counter, i, attempt)) as usize
    };
    if !few {
        order.extend(0..n as i64);
        (0..count).for_each(|i| order.swap(i, partner(i)));
        order.truncate(count);
        return order;
    }
    // Few of many: the same swaps, but only positions that have been touched take memory.
    let mut moved: HashMap<usize, i64> = HashMap::new();
    order.extend((0..count).map(|i| {
        let j = partner(i);
        let here = moved.remove(&i).unwrap_or(i as i64);
        if i == j {
            here
        } else {
            moved.insert(j, here).unwrap_or(j as i64)
        }
    }));
    order
}

/// The probabilities of `choice` as numbers, after a check.
#[track_caller]
fn weights_of(probabilities: &Array, n: usize) -> Vec<f64> {
    expect_float("choice", probabilities.dtype());
    let weights = probabilities.to_vec::<f64>();
    if *probabilities.shape() != [n] {
        let what = format!(
            "the probabilities {} are no vector of {n}",
            probabilities.shape()
        );
        raise(Error::invalid("choice", what));
    }
    if let Some(weight) = weights.iter().find(|&&x| !(x >= 0.0 && x.is_finite())) {
        raise(Error::invalid(
            "choice",
            format!("{weight} is no probability"),
        ));
    }
    let largest = weights.iter().copied().fold(0.0, f64::max);
    weights.iter().map(|&x| rescaled(x, largest)).collect()
}

/// A weight times the power of two that brings the largest weight into a range where neither sums
/// of weights nor quotients by them overflow. A positive weight stays positive.
fn rescaled(weight: f64, largest: f64) -> f64 {
    const PLACE: i32 = 900;
    let exponent = (largest.to_bits() >> 52) as i32 - (f64::MAX_EXP - 1);
    let power = |n: i32| f64::from_bits(((n + f64::MAX_EXP - 1) as u64) << 52);
    let half = (PLACE - exponent) / 2;
    let scaled = weight * power(half) * power(PLACE - exponent - half);
    if weight > 0.0 {
        scaled.max(f64::from_bits(1))
    } else {
        0.0
    }
}

#[track_caller]
fn expect_float(function: &'static str, found: DType) {
    if !found.is_float() {
        raise(Error::DType {
            function,
            found,
            expected: DType::F64,
            location: crate::caller(),
        });
    }
}

// ----- the generator itself

/// Philox4x32-10: ten rounds, each a multiplication of two of the words and an exchange.
#[inline(always)]
pub(crate) fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k, mut l] = key;
    for _ in 0..10 {
        let left = u64::from(a) * 0xD251_1F53;
        let right = u64::from(c) * 0xCD9E_8D57;
        (a, b, c, d) = (
            (right >> 32) as u32 ^ b ^ k,
            right as u32,
            (left >> 32) as u32 ^ d ^ l,
            left as u32,
        );
        k = k.wrapping_add(0x9E37_79B9);
        l = l.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

#[inline(always)]
fn block(key: u64, counter: u64, attempt: u32, purpose: u32) -> [u32; 4] {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let [low, high] = halves(counter);
    philox([low, high, attempt, purpose], halves(key))
}

/// The block from which numbers are made. Attempts after the first are for rejected words.
#[inline(always)]
pub(crate) fn number_block(key: u64, counter: u64, attempt: u32) -> [u32; 4] {
    block(key, counter, attempt, FOR_NUMBERS)
}

#[inline(always)]
pub(crate) fn join_words(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The 64-bit word with the number `i`, counted from block `counter`.
pub(crate) fn word(key: u64, counter: u64, i: usize, attempt: u32) -> u64 {
    let words = number_block(key, counter.wrapping_add(i as u64 / 2), attempt);
    let [low, high] = [words[i % 2 * 2], words[i % 2 * 2 + 1]];
    join_words(low, high)
}

/// A number below `range`, all equally likely, from the words of as many attempts as necessary.
#[inline(always)]
pub(crate) fn below(range: u64, mut word: impl FnMut(u32) -> u64) -> u64 {
    for attempt in 0.. {
        let product = u128::from(word(attempt)) * u128::from(range);
        let (high, low) = ((product >> 64) as u64, product as u64);
        if low >= range || low >= range.wrapping_neg() % range {
            return high;
        }
    }
    unreachable!("each attempt succeeds with more than even odds")
}

// ----- functions of the words, in operations that are rounded alike on every device

const TWO_POW_32: f64 = (1u64 << 32) as f64;
const TWO_POW_64: f64 = TWO_POW_32 * TWO_POW_32;

/// A number in (0, 1], never 0.
#[inline(always)]
fn unit_f32(word: u32) -> f32 {
    (word | 1) as f32 * (1.0 / TWO_POW_32) as f32
}

/// A number in (0, 1], never 0.
#[inline(always)]
fn unit_f64(word: u64) -> f64 {
    (word | 1) as f64 * (1.0 / TWO_POW_64)
}

/// The polynomial in `x` with these coefficients, lowest first.
macro_rules! polynomial {
    ($x:expr, $last:expr) => { $last };
    ($x:expr, $first:expr, $($rest:expr),+) => {
        $first + $x * polynomial!($x, $($rest),+)
    };
}

/// The logarithm of a positive normal number: `ln m + e ln 2` for `m` near 1, by the series of
/// `2 artanh((m - 1) / (m + 1))`.
#[inline(always)]
fn ln_f32(x: f32) -> f32 {
    const ROOT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let above = x.to_bits().wrapping_sub(ROOT_HALF);
    let exponent = (above as i32 >> 23) as f32;
    let m = f32::from_bits((above & 0x007F_FFFF) + ROOT_HALF);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series = polynomial!(z, 1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0);
    exponent * std::f32::consts::LN_2 + 2.0 * s * series
}

/// [`ln_f32`] for `f64`.
#[inline(always)]
fn ln_f64(x: f64) -> f64 {
    const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    let above = x.to_bits().wrapping_sub(ROOT_HALF);
    let exponent = f64::from((above >> 32) as i32 >> 20);
    let m = f64::from_bits((above & 0x000F_FFFF_FFFF_FFFF) + ROOT_HALF);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series = polynomial!(
        z,
        1.0,
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0
    );
    exponent * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Two independent standard normal numbers (Box and Muller, with the Taylor series of cosine and
/// sine within an eighth of a turn around each quarter).
#[inline(always)]
pub(crate) fn normal_pair_f32(first: u32, second: u32) -> [f32; 2] {
    let radius = (-2.0 * ln_f32(unit_f32(first))).sqrt();
    let turn = (std::f64::consts::FRAC_PI_2 / TWO_POW_32) as f32;
    // The 30 bits below the two for the quarter, less an eighth of a turn.
    let x = (second << 2 ^ 1 << 31) as i32 as f32 * turn;
    let z = x * x;
    let cos = polynomial!(z, 1.0, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0);
    let sin = x * polynomial!(
        z,
        1.0,
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362_880.0
    );
    let (swap, negative) = (second & 1 << 30 != 0, second & 1 << 31 != 0);
    let (a, b) = if swap { (-sin, cos) } else { (cos, sin) };
    let radius = if negative { -radius } else { radius };
    [radius * a, radius * b]
}

/// [`normal_pair_f32`] for `f64`.
#[inline(always)]
pub(crate) fn normal_pair_f64(first: u64, second: u64) -> [f64; 2] {
    let radius = (-2.0 * ln_f64(unit_f64(first))).sqrt();
    // The 52 bits below the two for the quarter, as a number around 1.5.
    let fraction = f64::from_bits(0x3FF0_0000_0000_0000 | second << 2 >> 12) - 1.5;
    let x = fraction * std::f64::consts::FRAC_PI_2;
    let z = x * x;
    let cos = polynomial!(
        z,
        1.0,
        -1.0 / 2.0,
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40_320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 20_922_789_888_000.0
    );
    let sin = x * polynomial!(
        z,
        1.0,
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
        1.0 / 355_687_428_096_000.0
    );
    let (swap, negative) = (second & 1 << 62 != 0, second & 1 << 63 != 0);
    let (a, b) = if swap { (-sin, cos) } else { (cos, sin) };
    let radius = if negative { -radius } else { radius };
    [radius * a, radius * b]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that come with Random123, the authors' own implementation.
    #[test]
    fn philox_gives_the_published_answers() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(philox(counter, key), answer);
        }
    }

    /// One element, directly from the definition of the distribution.
    fn element(distribution: Distribution, key: u64, counter: u64, i: usize) -> f64 {
        let block = number_block(key, counter.wrapping_add(i as u64 / 4), 0);
        let word32 = block[i % 4];
        let word64 = word(key, counter, i, 0);
        match distribution {
            Distribution::Uniform {
                low,
                high,
                dtype: DType::F64,
            } => {
                let u = (word64 >> 11) as f64 / 9_007_199_254_740_992.0;
                (low + (high - low) * u).min(high.next_down())
            }
            Distribution::Uniform { low, high, dtype } => {
                let u = (word32 >> 8) as f32 / 16_777_216.0;
                let x = low as f32 + (high - low) as f32 * u;
                let rounded = Scalar::F32(x).cast(dtype).to_f64();
                match rounded < high {
                    true => rounded,
                    // 0.5 in bf16 and in f32.
                    false if dtype == DType::BF16 => 0.5 - 2f64.powi(-9),
                    false => 0.5 - 2f64.powi(-25),
                }
            }
            Distribution::Normal { mean, std, dtype } if dtype != DType::F64 => {
                let first = i % 4 / 2 * 2;
                let pair = normal_pair_f32(block[first], block[first + 1]);
                let x = mean as f32 + std as f32 * pair[i % 2];
                Scalar::F32(x).cast(dtype).to_f64()
            }
            Distribution::Normal { mean, std, .. } => {
                let first = i / 2 * 2;
                let words = [first, first + 1].map(|i| word(key, counter, i, 0));
                mean + std * normal_pair_f64(words[0], words[1])[i % 2]
            }
            Distribution::Integers { low, high } => {
                let range = high.wrapping_sub(low) as u64;
                let biased_below = ((1u128 << 64) % u128::from(range)) as u64;
                let accepted = (0..).map(|attempt| word(key, counter, i, attempt));
                let accepted = accepted
                    .map(|word| u128::from(word) * u128::from(range))
                    .find(|&product| product as u64 >= biased_below);
                low.wrapping_add((accepted.unwrap() >> 64) as i64) as f64
            }
            Distribution::Bernoulli(bound) => f64::from(u8::from(u64::from(word32) < bound)),
        }
    }

    fn numbers(x: &Array) -> Vec<f64> {
        x.cast(DType::F64).to_vec()
    }

    const DISTRIBUTIONS: [Distribution; 10] = [
        Distribution::Uniform {
            low: -3.0,
            high: 0.5,
            dtype: DType::F32,
        },
        Distribution::Uniform {
            low: -3.0,
            high: 0.5,
            dtype: DType::BF16,
        },
        Distribution::Uniform {
            low: 1e-3,
            high: 2.5,
            dtype: DType::F64,
        },
        Distribution::Normal {
            mean: 0.5,
            std: 3.0,
            dtype: DType::F32,
        },
        Distribution::Normal {
            mean: 0.5,
            std: 3.0,
            dtype: DType::F16,
        },
        Distribution::Normal {
            mean: -2.0,
            std: 0.1,
            dtype: DType::F64,
        },
        Distribution::Integers {
            low: -3,
            high: 1000,
        },
        Distribution::Integers {
            low: i64::MIN,
            high: 1 << 62,
        },
        Distribution::Integers {
            low: i64::MIN,
            high: i64::MAX,
        },
        Distribution::Bernoulli(1 << 30),
    ];

    #[test]
    fn draws_follow_their_definition_for_any_size_and_number_of_threads() {
        // The second stream begins close to the end of the counters.
        for (key, counter) in [(5, 0), (0xDEAD_BEEF_0123_4567, u64::MAX - 300)] {
            for distribution in DISTRIBUTIONS {
                for size in [
                    0, 1, 2, 3, 4, 5, 7, 8, 511, 512, 513, 1023, 1024, 1027, 3000,
                ] {
                    let mut generator = Generator::from_state(key, counter);
                    let x = generator.draw(distribution, size, cpu());
                    let per_block = distribution.elements_per_block() as u64;
                    let blocks = (size as u64).div_ceil(per_block);
                    assert_eq!(generator.counter(), counter.wrapping_add(blocks));
                    assert_eq!(
                        (x.dtype(), &**x.shape()),
                        (distribution.dtype(), &[size][..])
                    );
                    let expected: Vec<f64> = (0..size)
                        .map(|i| element(distribution, key, counter, i))
                        .collect();
                    assert_eq!(numbers(&x), expected, "{distribution:?} {size}");
                }
                let size = 200_001;
                let expected: Vec<f64> = (0..size)
                    .map(|i| element(distribution, key, counter, i))
                    .collect();
                for threads in [1, 2, 3, 5] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    let draw =
                        || Generator::from_state(key, counter).draw(distribution, size, cpu());
                    let x = pool.unwrap().install(draw);
                    assert!(
                        numbers(&x) == expected,
                        "{distribution:?} on {threads} threads"
                    );
                }
            }
        }
    }

    #[test]
    fn normal_pairs_agree_with_the_standard_functions() {
        for i in 0..200_000 {
            let [a, b, c, d] = number_block(11, i, 0);
            // Few leading bits and many make large and small radii.
            let (shift, a) = (i as u32 % 31, if i % 2 == 0 { a } else { !0 - (a >> 20) });
            let first = a >> shift;
            let angle = |turns: f64| (turns - 0.125) * std::f64::consts::TAU;
            let radius = (-2.0 * (f64::from(first | 1) / TWO_POW_32).ln()).sqrt();
            let t = angle(f64::from(b) / TWO_POW_32);
            let [x, y] = normal_pair_f32(first, b);
            // Near radius 0, the error is that of the distance of the f32 fraction from 1.
            let tolerance = 1e-6 * radius + if radius < 0.1 { 1e-3 } else { 2e-6 };
            assert!(
                (f64::from(x) - radius * t.cos()).abs() < tolerance,
                "{first} {b} {x}"
            );
            assert!(
                (f64::from(y) - radius * t.sin()).abs() < tolerance,
                "{first} {b} {y}"
            );

            let (first, second) = (join_words(c, a) >> (2 * shift), join_words(d, b));
            let radius = (-2.0 * ((first | 1) as f64 / TWO_POW_64).ln()).sqrt();
            let t = angle(second as f64 / TWO_POW_64);
            let [x, y] = normal_pair_f64(first, second);
            assert!(
                (x - radius * t.cos()).abs() < 5e-15 * (1.0 + radius),
                "{first} {second}"
            );
            assert!(
                (y - radius * t.sin()).abs() < 5e-15 * (1.0 + radius),
                "{first} {second}"
            );
        }
        let largest = normal_pair_f64(0, 0)
            .map(f64::abs)
            .into_iter()
            .fold(0.0, f64::max);
        assert!(largest < 9.5 && largest > 6.0);
        assert!(normal_pair_f32(u32::MAX, 1).iter().all(|x| *x == 0.0));
    }

    #[test]
    fn words_that_would_favour_some_numbers_are_rejected() {
        let range = 3 << 62;
        let mut attempts = 0;
        // The low half of 1 * range is below 2^64 mod range = 2^62 only for words 0 mod 4.
        let words = [4u64, 8, 5];
        let number = below(range, |attempt| {
            attempts += 1;
            words[attempt as usize]
        });
        assert_eq!((number, attempts), (3, 3));
    }
}
