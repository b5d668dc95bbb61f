//! Dropout with its own random numbers.

use bibun_array::{Array, Generator};

use super::{Buffer, Chain, Link};
use crate::error::{Error, raise};
use crate::functions::dropout_of_call;
use crate::variable::Variable;

/// [`dropout`](crate::functions::dropout) as a link: it sets random elements to zero in training
/// mode and returns its input in evaluation mode.
///
/// Shapes: x any → the same. The link owns a stream of random numbers. Each call draws from a part
/// of the stream that belongs to this call alone, whichever thread makes it. Clones, and the copy
/// of a model that a transformation works on, share the stream; separate links have separate
/// streams.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Dropout, Link};
/// use bibun::{eval_mode, Variable};
/// let layer = Dropout::new(0.5, &mut Generator::new(0));
/// let x = Variable::constant([1.0; 64]);
/// let (a, b) = (layer.forward(&x).to_vec::<f64>(), layer.forward(&x).to_vec::<f64>());
/// assert!(a != b && a.iter().all(|&a| a == 0.0 || a == 2.0));
/// assert!(eval_mode(|| layer.forward(&x)).is_same(&x));
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Dropout {
    rate: f64,
    /// The key of the stream and the number of calls so far. They are saved with a model, so that
    /// resumed training draws the same numbers as uninterrupted training.
    stream: Buffer,
}

impl Dropout {
    /// Creates a link that drops elements with probability `rate`; its stream is drawn from the
    /// generator.
    ///
    /// # Panics
    /// Panics if `rate` is not in `[0, 1)`.
    #[track_caller]
    pub fn new(rate: f64, generator: &mut Generator) -> Self {
        if !(0.0..1.0).contains(&rate) {
            let what = format!("the rate is {rate}, it must be at least 0 and less than 1");
            raise(Error::argument("Dropout", what));
        }
        let seed = generator.integers(i64::MIN, i64::MAX, ());
        Self {
            rate,
            stream: Buffer::of_host([seed.item::<i64>(), 0]),
        }
    }

    /// Creates a link if there is a rate.
    #[track_caller]
    pub(super) fn of_rate(rate: Option<f64>, generator: &mut Generator) -> Option<Self> {
        Some(Self::new(rate?, generator))
    }

    /// Returns the probability with which an element is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

impl Link for Dropout {
    /// Sets random elements of x to zero in training mode; returns x in evaluation mode.
    fn compute(&self, x: &Variable) -> Variable {
        // Evaluation in between must not change the numbers that training draws.
        dropout_of_call(x, self.rate, || {
            let old = self.stream.change("Dropout", [], true, |stream, []| {
                &stream + &Array::from([0i64, 1])
            });
            old.expect("it returns what it was")
        })
    }
}
