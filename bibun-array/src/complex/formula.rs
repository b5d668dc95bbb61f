//! Formulas over complex numbers: one operation after the other, over blocks of elements.
//!
//! A formula of sums, products and analytic functions means the same for complex numbers as for
//! real ones, so no function needs a loop of its own. Elements are computed in double precision and
//! rounded once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use num_complex::Complex;

use super::functions as of;
use crate::formula::{Formula, Operation};
use crate::{Complex64, DType, Definition, Slice, SliceMut};

/// The number of elements that are computed at once.
const BLOCK: usize = 256;

/// How an operation is computed.
enum Rule {
    Leaf,
    One(fn(Complex64) -> Complex64),
    Two(fn(Complex64, Complex64) -> Complex64),
    MultiplyAdd,
}

/// The rule of an operation, or `None` if it has no meaning for complex numbers.
fn rule(operation: Operation) -> Option<Rule> {
    use Operation as O;
    Some(match operation {
        O::Input(_) | O::Given(_) | O::Constant(_) => Rule::Leaf,
        O::Add => Rule::Two(|a, b| a + b),
        O::Subtract => Rule::Two(|a, b| a - b),
        O::Multiply => Rule::Two(|a, b| a * b),
        O::Divide => Rule::Two(of::divide),
        O::MultiplyAdd => Rule::MultiplyAdd,
        O::Power => Rule::Two(of::power),
        O::Negative => Rule::One(|x| -x),
        O::Square => Rule::One(|x| x * x),
        O::OneMinusSquare => Rule::One(|x| (1.0 - x) * (1.0 + x)),
        O::Reciprocal => Rule::One(|x| of::divide(Complex::ONE, x)),
        O::Sqrt => Rule::One(of::sqrt),
        O::Rsqrt => Rule::One(|x| of::divide(Complex::ONE, of::sqrt(x))),
        O::Exp => Rule::One(of::exp),
        O::Exp2 => Rule::One(|x| of::exp(x * std::f64::consts::LN_2)),
        O::Expm1 => Rule::One(of::expm1),
        O::Log => Rule::One(of::log),
        O::Log2 => Rule::One(|x| of::log(x) * std::f64::consts::LOG2_E),
        O::Log10 => Rule::One(|x| of::log(x) * std::f64::consts::LOG10_E),
        O::Log1p => Rule::One(of::log1p),
        O::Sigmoid => Rule::One(of::sigmoid),
        O::LogisticDensity => Rule::One(of::logistic_density),
        O::Sin => Rule::One(of::sin),
        O::Cos => Rule::One(of::cos),
        O::Tan => Rule::One(of::tan),
        O::Sinh => Rule::One(of::sinh),
        O::Cosh => Rule::One(of::cosh),
        O::Tanh => Rule::One(of::tanh),
        _ => return None,
    })
}

/// A formula all of whose operations have a meaning for complex numbers.
pub(crate) fn complex_formula(formula: &Formula) -> Option<Formula> {
    let composed = formula.composed(&|operation| rule(operation).is_some());
    let mut operations = composed.lines().iter().map(|line| line.operation());
    operations
        .all(|operation| rule(operation).is_some())
        .then_some(composed)
}

/// The formula of a definition for complex numbers, if it has one. It is found once.
pub(crate) fn formula_of(definition: &'static Definition) -> Option<Arc<Formula>> {
    type Found = HashMap<usize, Option<Arc<Formula>>>;
    static FOUND: OnceLock<RwLock<Found>> = OnceLock::new();
    let found = FOUND.get_or_init(RwLock::default);
    let key = std::ptr::from_ref(definition).addr();
    let known = found.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&key) {
        return known.clone();
    }
    drop(known);
    let formula = definition.formula(DType::F64);
    let formula = formula
        .and_then(|formula| complex_formula(&formula))
        .map(Arc::new);
    let mut found = found.write().unwrap_or_else(PoisonError::into_inner);
    found.entry(key).or_insert(formula).clone()
}

/// Fills `out` from runs of the same length, one of each input.
pub(crate) fn run(formula: &Formula, given: &[f64], inputs: &[Slice<'_>], mut out: SliceMut<'_>) {
    let lines = formula.lines();
    let result = formula.result().index();
    let block = BLOCK.min(out.len());
    let mut values = vec![vec![Complex::ZERO; block]; lines.len()];
    for (value, line) in values.iter_mut().zip(lines) {
        match line.operation() {
            Operation::Given(i) => value.fill(given[usize::from(i)].into()),
            Operation::Constant(bits) => value.fill(f64::from_bits(bits).into()),
            _ => {}
        }
    }
    for start in (0..out.len()).step_by(BLOCK) {
        let len = BLOCK.min(out.len() - start);
        for (i, line) in lines.iter().enumerate() {
            let (before, own) = values.split_at_mut(i);
            let own = &mut own[0][..len];
            let argument = |place: usize| &before[line.arguments()[place].index()][..len];
            match rule(line.operation()) {
                Some(Rule::Leaf) => {
                    if let Operation::Input(input) = line.operation() {
                        read(inputs[usize::from(input)].range(start, len), own);
                    }
                }
                Some(Rule::One(f)) => one(own, argument(0), f),
                Some(Rule::Two(_)) if line.operation() == Operation::Multiply => {
                    two(own, argument(0), argument(1), |a, b| a * b);
                }
                Some(Rule::Two(_)) if line.operation() == Operation::Add => {
                    two(own, argument(0), argument(1), |a, b| a + b);
                }
                Some(Rule::Two(f)) => two(own, argument(0), argument(1), f),
                Some(Rule::MultiplyAdd) => {
                    two(own, argument(0), argument(1), |a, b| a * b);
                    let addend = argument(2);
                    own.iter_mut().zip(addend).for_each(|(y, c)| *y += c);
                }
                None => unreachable!("the formula has been looked through"),
            }
        }
        write(&values[result][..len], out.range(start, len));
    }
}

fn one(y: &mut [Complex64], x: &[Complex64], f: impl Fn(Complex64) -> Complex64) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x));
}

fn two(
    y: &mut [Complex64],
    a: &[Complex64],
    b: &[Complex64],
    f: impl Fn(Complex64, Complex64) -> Complex64,
) {
    let pairs = a.iter().zip(b);
    y.iter_mut()
        .zip(pairs)
        .for_each(|(y, (&a, &b))| *y = f(a, b));
}

/// Reads complex elements.
fn read(x: Slice<'_>, y: &mut [Complex64]) {
    crate::conversion::convert(x, SliceMut::C128(y));
}

fn write(x: &[Complex64], y: SliceMut<'_>) {
    crate::conversion::convert(Slice::C128(x), y);
}
