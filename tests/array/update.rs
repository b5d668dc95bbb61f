//! Updates in place: the loop of the CPU against the formula that other devices read.

use bibun_array::formula::{Formula, Part};
use bibun_array::math::Float;
use bibun_array::{
    Array, Change, DType, ElementFormula, ElementUpdate, Generator, Given, Kernel, Number, Scalar,
    Update, cpu, run_kernel,
};

/// Two numbers of state, one of which the parameter is not made of.
pub(crate) struct Moments;

impl ElementUpdate<2, 3> for Moments {
    const NAME: &'static str = "moments";

    #[inline(always)]
    fn value<T: Float>(
        x: Number<T>,
        gradient: Number<T>,
        [m, count]: [Number<T>; 2],
        [rate, beta, rest]: [Number<T>; 3],
    ) -> (Number<T>, [Number<T>; 2]) {
        let m = beta * m + rest * gradient;
        let direction = m.greater(0.0).where_(m.sqrt(), m);
        (x - rate * direction, [m, count + 1.0])
    }
}

pub(crate) struct Decay;

impl ElementFormula<2, 1> for Decay {
    const NAME: &'static str = "decay";

    #[inline(always)]
    fn value<T: Float>([x, gradient]: [Number<T>; 2], [lambda]: [Number<T>; 1]) -> Number<T> {
        gradient + lambda * x
    }
}

pub(crate) struct Blend;

impl ElementFormula<4, 1> for Blend {
    const NAME: &'static str = "blend";

    #[inline(always)]
    fn value<T: Float>([x, g, a, b]: [Number<T>; 4], [c]: [Number<T>; 1]) -> Number<T> {
        (g * a + b) * c - x
    }
}

fn bits(x: &Array) -> Vec<u64> {
    let x = x.cast(DType::F64).to_vec::<f64>();
    x.into_iter().map(f64::to_bits).collect()
}

/// Each result of the formula alone, as a kernel of its own.
fn by_formula(formula: &Formula, inputs: &[Array], given: &[f64]) -> Vec<Array> {
    let results = 0..formula.results().len();
    let alone = results.map(|k| {
        let one = Formula::trace(formula.inputs(), formula.given(), |x, c| {
            let x: Vec<Part> = x.iter().copied().map(Part::Number).collect();
            formula.results_on(&x, c).swap_remove(k)
        });
        let kernel = Kernel::from_formula("alone", &one).with_given(given);
        run_kernel(&kernel, &mut inputs.to_vec())
    });
    alone.collect()
}

#[test]
fn the_pass_does_what_its_formula_says() {
    for dtype in [DType::F32, DType::F64] {
        for shape in [[0, 3], [1, 1], [1, 5], [10, 100], [77, 130]] {
            let g = &mut Generator::new(4);
            let [x, m, count, gradient, noise] = [(); 5].map(|()| g.normal(shape, 0.0, 1.0, dtype));
            let turned = g.normal([shape[1], shape[0]], 0.0, 1.0, dtype).transpose();
            let repeated = Array::full(shape, Scalar::F64(0.75).cast(dtype));
            let one = Array::scalar(1.5).cast(dtype);
            for gradient in [gradient, turned, repeated] {
                for changed in [false, true] {
                    let mut changes = vec![
                        Change::of(Decay, [], [0.125]),
                        Change::of(Blend, [noise.clone(), one.clone()], [0.25]),
                        Change::of(Decay, [], [0.5]),
                    ];
                    changes.truncate(if changed { 3 } else { 0 });
                    let rate = Given::from(one.clone());
                    let given = [rate, Given::Number(0.9), Given::Number(0.1)];
                    let update = Update::new(Moments, changes, given);
                    let mut inputs = vec![x.clone(), gradient.clone(), m.clone(), count.clone()];
                    let mut numbers = Vec::new();
                    for change in update.changes() {
                        inputs.extend_from_slice(change.others());
                        numbers.extend_from_slice(change.kernel().given());
                    }
                    inputs.push(one.clone());
                    numbers.extend([0.9, 0.1]);
                    let formula = update.formula().expect("all of it is formulas");
                    let expected = by_formula(&formula, &inputs, &numbers);

                    let (mut y, mut state) = (x.clone(), [m.clone(), count.clone()]);
                    cpu().update(&update, &mut y, &gradient, &mut state);
                    for (found, expected) in [&y, &state[0], &state[1]].into_iter().zip(&expected) {
                        assert!(bits(found) == bits(expected), "{dtype} {shape:?} {changed}");
                    }
                    // What others hold of the parameter is as it was, and its own memory stays.
                    assert!(y.size() == 0 || !y.shares_memory_with(&x));
                    let key = y.memory_key();
                    cpu().update(&update, &mut y, &gradient, &mut state);
                    assert_eq!(y.memory_key(), key);
                }
            }
        }
    }
}

#[test]
fn formulas_of_updates_are_compared() {
    let update = |changes: Vec<Change>, rate: f64| {
        let given = [rate, 0.9, 0.1].map(Given::Number);
        Update::new(Moments, changes, given)
    };
    let formula = |update: Update| update.formula().expect("a formula");
    let plain = formula(update(Vec::new(), 0.1));
    // Another learning rate is no other formula, a hook is.
    assert_eq!(plain, formula(update(Vec::new(), 0.2)));
    let decay = || vec![Change::of(Decay, [], [0.5])];
    assert_ne!(plain, formula(update(decay(), 0.1)));
    assert_eq!(formula(update(decay(), 0.1)), formula(update(decay(), 0.3)));
    assert_eq!(plain.results().len(), 3);
    let code: Change = Change::new(
        Kernel::new(
            &const { bibun_array::Definition::host("code", None, |_, _, _| ()) },
            &[],
        ),
        [],
    );
    assert!(update(vec![code], 0.1).formula().is_none());
}

#[test]
fn sums_of_squares() {
    let huge = Array::full([3], 1e30f32);
    let sum = cpu().sum_of_squares(&[], &huge, &huge);
    assert_eq!((sum.dtype(), sum.rank()), (DType::F64, 0));
    assert!((sum.item::<f64>() / 3e60 - 1.0).abs() < 1e-6);
    for size in [0, 1, 7, 1000, 5000] {
        let x = Generator::new(1).normal(size, 0.0, 1.0, DType::F64);
        let gradient = Generator::new(2).normal(size, 0.0, 1.0, DType::F64);
        let changes = [Change::of(Decay, [], [0.5])];
        let sum = cpu().sum_of_squares(&changes, &x, &gradient).item::<f64>();
        let each = x.to_vec::<f64>().into_iter().zip(gradient.to_vec::<f64>());
        let expected: f64 = each.map(|(x, g)| (g + 0.5 * x).powi(2)).sum();
        assert!((sum - expected).abs() <= 1e-12 * expected, "{size}");
    }
}
