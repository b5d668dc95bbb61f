//! Parameters of elementwise functions: numbers, which are given to the kernel, or Variables, which
//! become inputs with derivatives of their own.

use bibun_array::Number;
use bibun_array::formula::{Formula, Part, Symbol};
use smallvec::SmallVec;

use super::derivative::{derive, without_unread};
use super::formula::{ElementFunction, Read, call};
use crate::call::composite_if;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{Operand, broadcast_to, cast};
use crate::locks::{read, write};
use crate::variable::Variable;

/// The places of parameters that are inputs.
pub(super) type Places = SmallVec<[usize; 2]>;

/// Applies a function of `x` and parameters with these names.
#[track_caller]
pub(crate) fn call_with<const G: usize>(
    name: &'static str,
    function: &'static ElementFunction,
    x: Variable,
    names: [&'static str; G],
    parameters: [Operand; G],
) -> Variable {
    let number = |parameter: &Operand| match parameter {
        Operand::Number(number) => Some(number.to_f64()),
        Operand::Variable(_) => None,
    };
    let numbers = parameters.each_ref().map(number);
    if numbers.iter().all(Option::is_some) {
        return call(function, &numbers.map(Option::unwrap_or_default), [x]);
    }
    let mut names_of_inputs: SmallVec<[&str; 4]> = SmallVec::from_slice(&["x"]);
    let mut inputs: SmallVec<[Variable; 4]> = SmallVec::from_iter([x]);
    let mut places = Places::new();
    for (place, parameter) in parameters.into_iter().enumerate() {
        if let Operand::Variable(parameter) = parameter {
            places.push(place);
            names_of_inputs.push(names[place]);
            inputs.push(parameter);
        }
    }
    let given: SmallVec<[f64; 2]> = numbers.into_iter().flatten().collect();
    let specs: SmallVec<[Spec; 4]> = inputs.iter().map(Variable::spec).collect();
    let fits = specs.iter().all(|spec| *spec == specs[0]);
    let _whole = composite_if(!fits, name);
    if !fits {
        let common = (specs[1..].iter()).try_fold(specs[0].clone(), |common, spec| {
            let shape = common.shape.broadcast(&spec.shape)?;
            Some(Spec::new(shape, common.dtype.promote(spec.dtype)))
        });
        let Some(common) = common else {
            let named: Vec<(&str, &Spec)> = names_of_inputs.into_iter().zip(&specs).collect();
            mismatch(name, &named, MUST_BROADCAST)
        };
        let shape = common.shape.addressable(name);
        for x in &mut inputs {
            *x = broadcast_to(cast(&*x, common.dtype), &shape);
        }
    }
    function.with_inputs(&places).of(&given, inputs)
}

impl ElementFunction {
    /// Returns the function that has the parameters in these places as inputs, behind its own. It is
    /// made when it is first wanted, lives as long as the program, and has no compiled loop.
    fn with_inputs(&'static self, places: &Places) -> &'static Self {
        let known = |all: &[(Places, &'static Self)]| {
            let known = all.iter().find(|(known, _)| known == places);
            known.map(|(_, function)| *function)
        };
        if let Some(function) = known(&read(&self.variants)) {
            return function;
        }
        let mut all = write(&self.variants);
        known(&all).unwrap_or_else(|| {
            let function = self.variant(places);
            all.push((places.clone(), function));
            function
        })
    }

    fn variant(&'static self, places: &Places) -> &'static Self {
        let value = self.formula();
        let own = value.inputs();
        let function = Self::derived(self.name().to_owned(), &with_inputs(&value, places));
        let all_places = (0..own).chain(places.iter().map(|place| own + place));
        let derivatives = all_places.enumerate().map(|(input, place)| {
            let (reads, formula) = match self.gradient(place) {
                Some(gradient) => {
                    let whole = with_inputs(&(gradient.formula)(), places);
                    let parameters = (0..places.len()).map(|k| Read::Input((own + k) as u8));
                    let reads: Vec<Read> =
                        (gradient.reads.iter().copied()).chain(parameters).collect();
                    without_unread(&whole, &reads)
                }
                None => derive(function, input)?,
            };
            Some(function.derivative_of(reads, &formula))
        });
        function.set_derivatives(derivatives.collect());
        function
    }
}

/// Returns the formula with the given numbers in these places as inputs, behind its own.
fn with_inputs(formula: &Formula, places: &Places) -> Formula {
    let (own, given) = (formula.inputs(), formula.given());
    Formula::trace(
        own + places.len(),
        given - places.len(),
        |x, given_numbers| {
            let (x, parameters) = x.split_at(own);
            let (mut parameters, mut numbers) = (parameters.iter(), given_numbers.iter());
            let given: Vec<Number<Symbol>> = (0..given)
                .map(|place| match places.contains(&place) {
                    true => parameters.next(),
                    false => numbers.next(),
                })
                .map(|number| *number.expect("as many as there are"))
                .collect();
            let x: Vec<Part> = x.iter().copied().map(Part::Number).collect();
            formula.on(&x, &given)
        },
    )
}
