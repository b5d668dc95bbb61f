//! The inputs of derivative rules: the values that the function saved, and all shapes. All rules are
//! called from here, in one place for each kind of rule that checks the results against the contract.

use std::cell::OnceCell;
use std::sync::Arc;

use bibun_array::{DType, Device, Shape, settle};

use crate::apply;
use crate::batch::Batched;
use crate::call::Called;
use crate::error::{Error, Location, caller, missing_at, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{AnyFunction, Items, Needs, Spec, items};
use crate::node::{Edge, Node, Way};
use crate::rules;
use crate::variable::Variable;

/// The call whose derivative a rule computes.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) needs: &'a [bool],
    /// Whether values come with their history, so that the results of the rule can be differentiated
    /// again.
    pub(crate) create_graph: bool,
}

/// The source of the values: a node that saved them, or a running call.
pub(crate) enum Call<'a> {
    Node(&'a Arc<Node>),
    Running(&'a Running<'a>),
}

/// A call that is running. Its outputs are computed on request, or by a rule that computes them on
/// the way.
pub(crate) struct Running<'a> {
    function: &'a dyn AnyFunction,
    inputs: Items<Variable>,
    call: &'a apply::Call<'a>,
    outputs: OnceCell<Items<Variable>>,
    output_specs: OnceCell<Items<Spec>>,
}

impl<'a> Running<'a> {
    pub(crate) fn new(
        function: &'a dyn AnyFunction,
        inputs: Items<Variable>,
        call: &'a apply::Call<'a>,
    ) -> Self {
        let running = Self {
            function,
            inputs,
            call,
            outputs: OnceCell::new(),
            output_specs: OnceCell::new(),
        };
        if call.output_specs.is_some() {
            running.outputs();
        }
        running
    }

    fn outputs(&self) -> &[Variable] {
        let run = || self.function.apply(self.inputs.clone(), self.call.location);
        self.outputs.get_or_init(run)
    }

    pub(crate) fn into_outputs(self) -> Items<Variable> {
        self.outputs();
        self.outputs.into_inner().expect("they have been made")
    }

    fn output_specs(&self) -> &[Spec] {
        let specs = || items(self.outputs().iter().map(Variable::spec));
        (self.call.output_specs).unwrap_or_else(|| self.output_specs.get_or_init(specs))
    }
}

impl<'a> Context<'a> {
    pub(crate) fn of(node: &'a Arc<Node>, needs: Needs<'a>, create_graph: bool) -> Self {
        Self {
            call: Call::Node(node),
            needs,
            create_graph,
        }
    }
}

impl Context<'_> {
    /// Returns input `i`.
    ///
    /// # Panics
    /// Panics if the function did not declare that it saves this input.
    pub fn input(&self, i: usize) -> Variable {
        match &self.call {
            Call::Running(running) => running.inputs[i].clone(),
            Call::Node(node) => {
                let Some(value) = &node.saved_inputs()[i] else {
                    not_kept(node.function().name(), format!("input {i}"))
                };
                let edge = match self.create_graph {
                    true => node.inputs()[i].clone(),
                    false => Edge::None,
                };
                Variable::fixed(Arc::clone(value), edge)
            }
        }
    }

    /// Returns output `i`.
    ///
    /// # Panics
    /// Panics if the function did not declare that it saves this output.
    pub fn output(&self, i: usize) -> Variable {
        match &self.call {
            Call::Running(running) => running.outputs()[i].clone(),
            Call::Node(node) => {
                let Some(value) = &node.saved_outputs()[i] else {
                    not_kept(node.function().name(), format!("output {i}"))
                };
                let edge = match self.create_graph {
                    true => Edge::Output(Way::to(node), i as u32),
                    false => Edge::None,
                };
                Variable::fixed(Arc::clone(value), edge)
            }
        }
    }

    /// Computes the cotangents by the function's own rule, for a rule that replaces it by
    /// [`Rules`](crate::Rules).
    ///
    /// # Panics
    /// Panics if it is called from a function's own rule, or if that rule is missing or fails.
    #[track_caller]
    pub fn original_vjp(&self, gy: &[Variable]) -> Vec<Option<Variable>> {
        let function = self.function();
        match rules::original_vjp(function, self, gy) {
            Some(gradients) => gradients,
            None => raise(Error::argument(
                function.name(),
                "this is the function's own rule",
            )),
        }
    }

    /// Returns whether the call is running, as opposed to a call in history.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.call, Call::Running(_))
    }

    /// Stores the outputs of a running call, from a rule that had to run the function anyway.
    pub(crate) fn give_outputs(&self, outputs: impl IntoIterator<Item = Variable>) {
        if let Call::Running(running) = &self.call {
            running.outputs.get_or_init(|| items(outputs));
        }
    }

    fn function(&self) -> &dyn AnyFunction {
        match &self.call {
            Call::Node(node) => node.function(),
            Call::Running(running) => running.function,
        }
    }

    /// Returns whether the gradient of input `i` is needed. Rules may leave out the others.
    pub fn needs(&self, i: usize) -> bool {
        self.needs[i]
    }

    /// Returns the number of inputs.
    pub fn input_count(&self) -> usize {
        self.input_specs().len()
    }

    /// Returns the shape and dtype of input `i`.
    pub fn input_spec(&self, i: usize) -> &Spec {
        &self.input_specs()[i]
    }

    /// Returns the number of outputs.
    pub fn output_count(&self) -> usize {
        self.output_specs().len()
    }

    /// Returns the shape of input `i`.
    pub fn input_shape(&self, i: usize) -> &Shape {
        &self.input_specs()[i].shape
    }

    /// Returns the dtype of input `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.input_specs()[i].dtype
    }

    /// Returns the shape of output `i`.
    pub fn output_shape(&self, i: usize) -> &Shape {
        &self.output_specs()[i].shape
    }

    /// Returns the dtype of output `i`.
    pub fn output_dtype(&self, i: usize) -> DType {
        self.output_specs()[i].dtype
    }

    fn input_specs(&self) -> &[Spec] {
        match &self.call {
            Call::Node(node) => node.input_specs(),
            Call::Running(running) => running.call.input_specs,
        }
    }

    fn output_specs(&self) -> &[Spec] {
        match &self.call {
            Call::Node(node) => node.output_specs(),
            Call::Running(running) => running.output_specs(),
        }
    }
}

// ----- asking rules

impl Context<'_> {
    /// Calls the `vjp` rule with these cotangents of the outputs, and zeros where none arrived.
    pub(crate) fn ask_vjp(&self, gy: &mut [Option<Variable>]) -> Items<Option<Variable>> {
        for (gy, spec) in gy.iter_mut().zip(self.output_specs()) {
            gy.get_or_insert_with(|| Variable::zeros(spec));
        }
        let misfit = |i: usize, gx: &Option<Variable>, spec: &Spec| {
            let gx = gx.as_ref().filter(|gx| self.needs[i] && !gx.has_spec(spec));
            gx.map(Variable::spec)
        };
        let vjp = |function: &dyn AnyFunction| function.vjp(self, gy);
        self.ask("vjp", vjp, Self::input_specs, misfit)
    }

    /// Calls the `jvp` rule with these tangents of the inputs. Returns tangents of the outputs that
    /// are floats.
    pub(crate) fn ask_jvp(&self, dx: Items<Option<Variable>>) -> Items<Option<Variable>> {
        let misfit = |_, dy: &Option<Variable>, spec: &Spec| {
            let dy = dy.as_ref().filter(|dy| !dy.has_spec(spec));
            dy.map(Variable::spec)
        };
        let jvp = |function: &dyn AnyFunction| {
            let mut tangents = function.jvp(self, dx);
            for (dy, spec) in tangents.iter_mut().zip(self.output_specs()) {
                dy.take_if(|_| !spec.dtype.is_differentiable());
            }
            tangents
        };
        missing_at(self.location(), || {
            self.ask("jvp", jvp, Self::output_specs, misfit)
        })
    }

    /// Calls the `per_example` rule with these cotangents of the outputs. Returns the gradients that
    /// are needed.
    pub(crate) fn ask_per_example(
        &self,
        gy: Items<ExampleCotangent>,
    ) -> Items<Option<ExampleGradient>> {
        let misfit = |_, gx: &Option<ExampleGradient>, spec: &Spec| gx.as_ref()?.misfit(spec);
        let per_example = |function: &dyn AnyFunction| {
            let mut gradients = function.per_example(self, gy);
            for (gx, need) in gradients.iter_mut().zip(self.needs) {
                gx.take_if(|_| !need);
            }
            gradients
        };
        self.ask("per_example", per_example, Self::input_specs, misfit)
    }

    /// Calls a rule on the device of the call, and checks the results.
    fn ask<T>(
        &self,
        rule: &'static str,
        ask: impl FnOnce(&dyn AnyFunction) -> Items<T>,
        specs: impl FnOnce(&Self) -> &[Spec],
        misfit: impl Fn(usize, &T, &Spec) -> Option<Spec>,
    ) -> Items<T> {
        let function = self.function();
        // Calls made by the rule belong to the call of the function.
        let (_, _entered) = Called::begin(function.name(), self.location());
        let _settled = self.device().map(settle);
        let given = ask(function);
        check(function, rule, &given, specs(self), misfit);
        given
    }

    /// Returns the device that the function was computed on, if history knows it.
    fn device(&self) -> Option<&'static dyn Device> {
        match &self.call {
            Call::Node(node) => node.device,
            Call::Running(_) => None,
        }
    }

    fn location(&self) -> Location {
        match &self.call {
            Call::Node(node) => node.location,
            Call::Running(running) => running.call.location,
        }
    }
}

/// Calls the `batch` rule with these inputs.
pub(crate) fn ask_batch(
    function: &dyn AnyFunction,
    inputs: Items<Batched>,
    call: &apply::Call<'_>,
) -> Items<Batched> {
    let (_, _entered) = Called::begin(function.name(), call.location);
    missing_at(call.location, || {
        let outputs = function.batch(inputs);
        let misfit =
            |_, output: &Batched, spec: &Spec| Some(output.spec()).filter(|found| found != spec);
        if let Some(specs) = call.output_specs {
            check(function, "batch", &outputs, specs, misfit);
        }
        outputs
    })
}

/// Checks that a rule has returned the right number of values, each of which fits its place.
fn check<T>(
    function: &dyn AnyFunction,
    rule: &'static str,
    given: &[T],
    expected: &[Spec],
    misfit: impl Fn(usize, &T, &Spec) -> Option<Spec>,
) {
    if given.len() != expected.len() {
        let (found, expected) = (given.len(), expected.len());
        raise(Error::wrong_number(function.name(), rule, found, expected));
    }
    for (i, (given, expected)) in given.iter().zip(expected).enumerate() {
        if let Some(found) = misfit(i, given, expected) {
            let argument = match rule {
                "vjp" | "per_example" => "input",
                _ => "output",
            };
            raise(Error::WrongRule {
                function: function.name(),
                rule,
                argument: format!("{argument} {i}"),
                found: Box::new(found),
                expected: Box::new(expected.clone()),
                location: caller(),
            });
        }
    }
}

fn not_kept(function: &'static str, argument: String) -> ! {
    let location = caller();
    raise(Error::NotKept {
        function,
        argument,
        location,
    })
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Node(node) => node.function().name(),
            Self::Running(running) => running.function.name(),
        })
    }
}
