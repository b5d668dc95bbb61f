//! A perceptron whose outputs see only the inputs before them.

use bibun_array::{Array, DType, Generator};

use super::{Chain, Linear, Link};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::{linear, relu};
use crate::variable::Variable;

/// The masked autoencoder for distribution estimation (MADE): a perceptron with `outputs` numbers for each
/// input, which depend only on the inputs before it.
///
/// Every hidden value has a number, and a layer's weight between two values is masked unless the second has
/// a number that is not smaller (for the outputs: larger). The numbers go round.
///
/// Shapes: x `[.., inputs]` → `[.., outputs · inputs]`: the first output of all inputs, then the second, and
/// so on. Parameters: `layers/0/weight`, `layers/0/bias` and so on.
/// Source: M. Germain, K. Gregor, I. Murray, H. Larochelle, "MADE: masked autoencoder for distribution
/// estimation", 2015.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Link, Made};
/// use bibun::{jacobian, Variable};
/// let network = Made::new(3, &[32], 1, &mut Generator::new(0));
/// let slopes = jacobian(|x| network.forward(x), &Variable::constant([0.1f32, 0.2, 0.3]));
/// let above = slopes.triu(0);
/// assert_eq!(above.to_vec::<f32>(), [0.0; 9]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Made {
    /// The layers, whose weights are multiplied by the masks.
    pub layers: Vec<Linear>,
    /// The masks, 0 or 1, in the shapes of the weights.
    masks: Vec<Variable>,
}

impl Made {
    /// Creates the network in f32 with hidden layers of these sizes, with `relu` between the layers, and with
    /// `outputs` numbers for each of the inputs.
    ///
    /// # Panics
    /// Panics if there are no inputs.
    #[track_caller]
    pub fn new(inputs: usize, hidden: &[usize], outputs: usize, generator: &mut Generator) -> Self {
        let _called = calling("Made");
        if inputs == 0 {
            raise(Error::argument(
                "Made",
                "it has no inputs; it must have one or more",
            ));
        }
        let rounds = inputs.saturating_sub(1).max(1);
        let mut degrees: Vec<usize> = (1..=inputs).collect();
        let (mut layers, mut masks) = (Vec::new(), Vec::new());
        for &size in hidden {
            let own: Vec<usize> = (0..size).map(|i| i % rounds + 1).collect();
            layers.push(Linear::new(degrees.len(), size, generator));
            masks.push(mask(&degrees, &own, |from, to| to >= from));
            degrees = own;
        }
        let own: Vec<usize> = (0..outputs).flat_map(|_| 1..=inputs).collect();
        layers.push(Linear::new(degrees.len(), own.len(), generator));
        masks.push(mask(&degrees, &own, |from, to| to > from));
        Self { layers, masks }
    }
}

/// The mask of a layer between values with these numbers.
fn mask(from: &[usize], to: &[usize], is_seen: impl Fn(usize, usize) -> bool) -> Variable {
    let rows = to
        .iter()
        .flat_map(|&to| from.iter().map(move |&from| (from, to)));
    let elements: Vec<bool> = rows.map(|(from, to)| is_seen(from, to)).collect();
    let mask = Array::from_vec(elements, [to.len(), from.len()]);
    Variable::constant(mask.cast(DType::F32))
}

impl Link for Made {
    fn compute(&self, x: &Variable) -> Variable {
        let mut y = x.clone();
        for (i, (layer, mask)) in self.layers.iter().zip(&self.masks).enumerate() {
            if i > 0 {
                y = relu(y);
            }
            y = linear(y, &layer.weight * mask, layer.bias.as_ref());
        }
        y
    }
}
