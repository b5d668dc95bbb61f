//! Compositions of functions in rules, whose steps go through large values together.

use bibun_array::Array;

use crate::hooks;
use crate::variable::Variable;

/// Computes `f(&options, inputs)`, a composition of functions. Large values without history are
/// computed by [`bibun_array::fused`], unless the calls are to be seen.
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
    let is_attended = hooks::are_any() || hooks::detects_anomaly();
    if is_attended || !inputs.iter().all(Variable::is_bare) {
        return f(&options, inputs);
    }
    let arrays = inputs.map(|x| x.array());
    let of_arrays = move |options: &O, x: [Array; N]| {
        f(options, x.map(Variable::constant)).map(|y| y.array())
    };
    bibun_array::fused(options, arrays, of_arrays).map(Variable::constant)
}
