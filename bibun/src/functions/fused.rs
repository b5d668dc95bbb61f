//! Compositions of functions in rules, whose steps go through large values together.

use bibun_array::Array;

use crate::variable::Variable;

/// Computes `f(&options, inputs)`, a composition of functions in a rule. Large values without history
/// are computed by [`bibun_array::fused`].
pub(super) fn fused<const N: usize, const M: usize, O, F>(
    options: O,
    inputs: [Variable; N],
    f: F,
) -> [Variable; M]
where
    O: PartialEq + Clone + 'static,
    F: Fn(&O, [Variable; N]) -> [Variable; M] + 'static,
{
    const { assert!(size_of::<F>() == 0, "the function captures something") };
    if !inputs.iter().all(|x| x.bare().is_some()) {
        return f(&options, inputs);
    }
    let arrays = inputs.map(|x| x.array());
    let of_arrays =
        move |options: &O, x: [Array; N]| f(options, x.map(Variable::constant)).map(|y| y.array());
    bibun_array::fused(options, arrays, of_arrays).map(Variable::constant)
}

#[cfg(test)]
mod tests {
    use bibun_array::{Array, DType, Generator};

    use crate::{GradOptions, Variable, gradients, gradients_with};

    /// The value, the gradient and the gradient of its norm, all as bits.
    fn bits(x: &Array, f: impl Fn(&Variable) -> Variable) -> Vec<Vec<u32>> {
        let x = Variable::new(x.clone());
        let y = f(&x);
        let gy = Variable::constant(Generator::new(2).normal(y.shape(), 0.0, 1.0, x.dtype()));
        let once = GradOptions::new().cotangents(&[&gy]);
        let twice = GradOptions::new().cotangents(&[&gy]).create_graph();
        let [gx, again] = [once, twice].map(|options| {
            let gx = gradients_with(&[&y], &[&x], options).remove(0);
            gx.expect("a gradient")
        });
        let norm = (&again * &again).sum(..);
        let second = gradients(&[&norm], &[&x]).remove(0).expect("a gradient");
        assert!(gx.array().has_same_bits(&again.array()));
        let bits = |x: Variable| {
            x.array()
                .to_vec::<f32>()
                .into_iter()
                .map(f32::to_bits)
                .collect()
        };
        [y, gx, second].map(bits).into()
    }

    #[test]
    fn results_are_the_same_when_inputs_come_again() {
        let x = Generator::new(1).normal([96, 130], 0.0, 3.0, DType::F32);
        for x in [
            x.clone(),
            x.transpose(),
            x.slice(bibun_array::s![.., ..; -1]),
        ] {
            for axis in [0, 1] {
                for function in [Variable::softmax, Variable::log_softmax] {
                    let first = bits(&x, |x| function(x, axis));
                    for _ in 0..3 {
                        assert_eq!(bits(&x, |x| function(x, axis)), first);
                    }
                }
            }
        }
    }
}
