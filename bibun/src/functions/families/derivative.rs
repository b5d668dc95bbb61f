//! Derivatives of formulas, as formulas, by a reverse walk through their operations.

use bibun_array::formula::{Formula, Line, Operation, Part, Symbol, Type};
use bibun_array::math::Float;
use bibun_array::{Mask, Number};
use smallvec::SmallVec;

use super::formula::{ElementFunction, Read};
use crate::function::no_rule;
use crate::functions::math::of_operation;

/// Returns the derivative of a formula with respect to one of its inputs, times a factor `g`.
///
/// The result is a formula of `g`, of all inputs and of the result of the formula, in this order,
/// with the same given numbers. It is `None` if the formula does not depend on the input.
///
/// It is the derivative that reverse mode would compute, with the conventions of
/// [`functions`](crate::functions) at kinks and ties; the result of the formula is read, not
/// computed again.
///
/// ```
/// use bibun::array::formula::Formula;
/// use bibun::functions::derivative;
/// let formula = Formula::trace(1, 0, |x, _| x[0].exp() * 3.0);
/// assert_eq!(
///     derivative(&formula, 0).unwrap().to_string(),
///     "v0 = exp(x1)\nv1 = x0 * 3\nv1 * v0"
/// );
/// ```
///
/// # Panics
/// Panics if the result depends on the input through an argument of a special function to which no
/// derivative is known, such as the first one of `zeta`.
#[track_caller]
pub fn derivative(formula: &Formula, input: usize) -> Option<Formula> {
    if let Some((function, why)) = unknown(formula, input) {
        no_rule(function, "derivative", why);
    }
    let mut is_zero = false;
    let inputs = formula.inputs();
    let whole = Formula::trace(inputs + 2, formula.given(), |x, given| {
        let [g, x @ .., y] = x else {
            unreachable!("a factor comes before the inputs and the result behind them")
        };
        let x: Vec<Part> = x.iter().copied().map(Part::Number).collect();
        let mut values = formula.values(&x, given);
        values[formula.result().index()] = Part::Number(*y);
        let gradient = walk(formula, &values, input, *g);
        is_zero = gradient.is_none();
        gradient.unwrap_or(Number(Symbol::ZERO))
    });
    (!is_zero).then_some(whole)
}

/// Returns the [`derivative`] as a formula of only the values that it reads: `g`, then these values
/// of a call in order.
pub(crate) fn derive(
    function: &ElementFunction,
    input: usize,
) -> Option<(SmallVec<[Read; 4]>, Formula)> {
    let formula = function.formula();
    let inputs = formula.inputs();
    let whole = derivative(&formula, input)?;
    let values = (0..inputs).map(|i| Read::Input(i as u8));
    let values: Vec<Read> = values.chain([Read::Output]).collect();
    Some(without_unread(&whole, &values))
}

/// Returns a derivative, a formula of `g` and these values, as one of only the values that it reads.
pub(crate) fn without_unread(whole: &Formula, values: &[Read]) -> (SmallVec<[Read; 4]>, Formula) {
    let read: Vec<usize> = (1..=values.len()).filter(|&i| whole.reads(i)).collect();
    let reads = read.iter().map(|&i| values[i - 1]).collect();
    let formula = Formula::trace(read.len() + 1, whole.given(), |x, given| {
        // Values that are not read may be anything.
        let place = |i: usize| {
            read.iter()
                .position(|&one| one == i)
                .map_or(0, |place| place + 1)
        };
        let all = (0..=values.len()).map(|i| Part::Number(x[place(i)]));
        whole.on(&all.collect::<Vec<Part>>(), given)
    });
    (reads, formula)
}

/// Returns a function in a formula through which the result depends on an input by an argument to which it has
/// no derivative, and why it has none.
pub(crate) fn unknown(formula: &Formula, input: usize) -> Option<(&'static str, &'static str)> {
    let depends = dependents(formula, input);
    formula.lines().iter().find_map(|line| {
        let Operation::Special(_) = line.operation() else {
            return None;
        };
        let function = of_operation(line.operation());
        (line.arguments().iter().enumerate())
            .filter(|(_, node)| depends[node.index()])
            .find_map(|(place, _)| function.gradient(place)?.unknown)
            .map(|why| (function.name(), why))
    })
}

/// Returns which lines depend on an input.
fn dependents(formula: &Formula, input: usize) -> Vec<bool> {
    let lines = formula.lines();
    let mut depends = vec![false; lines.len()];
    for (i, line) in lines.iter().enumerate() {
        let by_arguments = || line.arguments().iter().any(|node| depends[node.index()]);
        depends[i] = line.operation() == Operation::Input(input as u8)
            || line.value() != Type::Truth && by_arguments();
    }
    depends
}

/// Computes the cotangent of an input.
fn walk(
    formula: &Formula,
    values: &[Part],
    input: usize,
    g: Number<Symbol>,
) -> Option<Number<Symbol>> {
    let (lines, depends) = (formula.lines(), dependents(formula, input));
    let mut cotangents: Vec<Option<Number<Symbol>>> = vec![None; lines.len()];
    cotangents[formula.result().index()] = Some(g);
    for (i, line) in lines.iter().enumerate().rev() {
        let Some(g) = cotangents[i] else { continue };
        if let Operation::Input(_) = line.operation() {
            return Some(g);
        }
        for (place, &node) in line.arguments().iter().enumerate() {
            if !depends[node.index()] {
                continue;
            }
            if let Some(term) = term(line, place, values, values[i], g) {
                let sum = cotangents[node.index()].map_or(term, |sum| sum + term);
                cotangents[node.index()] = Some(sum);
            }
        }
    }
    None
}

/// Returns the cotangent of the argument at `place`, for an operation with the result `y` and the
/// cotangent `g`.
fn term(
    line: &Line,
    place: usize,
    values: &[Part],
    y: Part,
    g: Number<Symbol>,
) -> Option<Number<Symbol>> {
    use Operation::*;
    let value = |i: usize| values[line.arguments()[i].index()];
    let zero = Number(Symbol::ZERO);
    match (line.operation(), place) {
        (Select, 1) => Some(value(0).truth().where_(g, zero)),
        (Select, _) => Some(value(0).truth().where_(zero, g)),
        (MultiplyAdd, 0 | 1) => Some(g * value(1 - place).number()),
        (MultiplyAdd, _) => Some(g),
        (Clip, 0) => {
            let (x, low, high) = (value(0).number(), value(1).number(), value(2).number());
            let outside: Mask<Symbol> = x.less(low).logical_or(x.greater(high));
            Some(outside.where_(zero, g))
        }
        (Clip, _) => unreachable!("bounds are given numbers or constants"),
        // At zero the derivative is unknown and counts as 0; elsewhere the function is a product
        // with ±1.
        (CopySign, 0) => {
            let (a, b) = (value(0).number(), value(1).number());
            Some(g * a.sign() * Number(Symbol::ONE).copysign(b))
        }
        (CopySign | Floor | Ceil | Trunc | Round | Sign, _) => None,
        (operation, _) => {
            let gradient = of_operation(operation).gradient(place);
            let gradient = gradient.expect("operations have derivatives");
            let reads = gradient.reads.iter().map(|read| match read {
                Read::Input(i) => value(usize::from(*i)),
                Read::Output => y,
            });
            let reads: Vec<Part> = std::iter::once(Part::Number(g)).chain(reads).collect();
            Some((gradient.formula)().on(&reads, &[]).number())
        }
    }
}
