//! Steps as functions: from a model and an optimizer, new ones are made, and the old ones stay.
//!
//! In a function that is traced, a step is one call of the program. The call does on the arrays of a run
//! what `update` does on leaves, so that schedules, hooks and rules remain code that reads numbers.

use std::sync::Arc;

use bibun_array::{Array, DType, Shape, is_traced, record_call};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::hooks::Hooks;
use super::rule::UpdateRule;
use super::rule_optimizer::{Choice, RuleOptimizer, Task, advance, home};
use super::slots::{Memory, Parameters, Slots, expect_loaded, expect_spec, spec_of_state};
use crate::call::calling;
use crate::error::{Error, caller, raise};
use crate::function::Spec;
use crate::scope;
use crate::transformations::{Closures, Objective, are_followed, value_and_gradients};
use crate::tree::{Leaves, Mapper, Tree, Visitor};
use crate::variable::Variable;

/// The state of an optimizer as arrays.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    /// The names of the parameters that have a state.
    names: Arc<[Arc<str>]>,
    /// The number of steps, the learning rate, the numbers of each rule, and for each parameter the number
    /// of its steps and its arrays.
    arrays: Vec<Array>,
    /// Whether they were loaded, and no step has been made since.
    are_loaded: bool,
}

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> RuleOptimizer<R, N, G> {
    /// Computes the loss of a model and makes a step, as [`minimize`](super::Optimizer::minimize) does, but
    /// as a function: returns the loss, the model after the step and the optimizer after it, and changes
    /// nothing. This is a whole train step for [`compile`](crate::compile):
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::functions::softmax_cross_entropy;
    /// use bibun::links::{Link, Mlp};
    /// use bibun::optimizers::Adam;
    /// use bibun::{compile, Variable};
    ///
    /// let step = compile(|(model, adam, x, t): &(Mlp, Adam, Variable, Variable)| {
    ///     adam.minimized(model, |model| softmax_cross_entropy(model.forward(x), t))
    /// });
    /// let mut model = Mlp::new(&[2, 8, 2], &mut Generator::new(0));
    /// let mut adam = Adam::new(0.05);
    /// let x = Variable::constant([[0.0f32, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]);
    /// let t = Variable::constant([1i64, 1, 0, 0]);
    /// let mut loss = Variable::constant(0f32);
    /// for _ in 0..100 {
    ///     (loss, model, adam) = step.call_donated((model, adam, x.clone(), t.clone()));
    /// }
    /// assert!(loss.item::<f32>() < 0.1);
    /// ```
    ///
    /// The objective may return a pair of the loss and other results, as for
    /// [`value_and_grad`](crate::value_and_grad). The parameters of the returned model are new leaves.
    /// One that the loss does not depend on makes no step, and clones of one Variable are one parameter, in any
    /// container. Frozen ones and buffers are those of `model`. The bits are those of `minimize`. A step itself has no
    /// derivative: inside of a transformation, asking for one is an error, also where the step is part of a loop or of
    /// a compiled function.
    ///
    /// # Panics
    /// Panics as [`value_and_grad`](crate::value_and_grad) does, and if [`minimize`](super::Optimizer::minimize) or
    /// [`update`](super::Optimizer::update) have been called for several models with parameters of the same names. The
    /// parameters of each step here are new Variables, so names alone tell whose state is whose: several models need an
    /// optimizer each.
    #[track_caller]
    pub fn minimized<M: Tree, Y: Objective>(
        &self,
        model: &M,
        objective: impl FnOnce(&M) -> Y,
    ) -> (Y, M, Self) {
        let _called = calling("minimized");
        let leaves = Leaves::of_model(model);
        let (objective, gradients) = match is_followed(&leaves.variables) {
            true => value_and_gradients(objective, model),
            false => {
                let values: Vec<Variable> = leaves.variables.iter().map(Variable::detach).collect();
                value_and_gradients(objective, &leaves.replaced(model, &values))
            }
        };
        let loss = R::OBSERVES.then(|| objective.loss().array());
        let leaves = Leaves::trainable_of_model(model);
        let (model, optimizer) = self.step("minimized", model, leaves, gradients, loss);
        (objective, model, optimizer)
    }

    /// Makes a step by a gradient, as [`update`](super::Optimizer::update) does, but as a function: returns
    /// the model after the step and the optimizer after it, and changes nothing.
    ///
    /// ```
    /// use bibun::optimizers::Adam;
    /// use bibun::{grad, Variable};
    /// let w = Variable::new([1.0, 2.0]);
    /// let (stepped, adam) = Adam::new(0.1).updated(&w, &grad(|w| w.square().sum(..), &w));
    /// assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
    /// assert!(stepped.to_vec::<f64>()[0] < 0.91);
    /// assert_eq!(bibun::optimizers::Optimizer::steps(&adam), 1);
    /// ```
    ///
    /// # Panics
    /// Panics if the gradient is not one of the model, if there is nothing to train, if the rule follows the loss, as
    /// that of [`Eve`](super::Eve), and in the cases of [`minimized`](Self::minimized).
    #[track_caller]
    pub fn updated<M: Tree>(&self, model: &M, gradient: &M) -> (M, Self) {
        let _called = calling("updated");
        if R::OBSERVES {
            let what = "this optimizer follows the loss, so use `minimized`, which computes it";
            raise(Error::argument("updated", what));
        }
        let leaves = Leaves::trainable_of_model(model);
        let gradients = leaves.matching("updated", ["the model", "the gradient"], gradient);
        let gradients = gradients.into_iter().map(Some).collect();
        self.step("updated", model, leaves, gradients, None)
    }

    #[track_caller]
    fn step<M: Tree>(
        &self,
        function: &'static str,
        model: &M,
        leaves: Leaves,
        gradients: Vec<Option<Variable>>,
        loss: Option<Array>,
    ) -> (M, Self) {
        self.slots.expect_one_model(function);
        if leaves.variables.is_empty() {
            let what =
                "the model has no parameters that are not frozen, so there is nothing to train";
            raise(Error::argument(function, what));
        }
        // A parameter without a gradient makes no step.
        let used = (0..gradients.len()).filter(|&i| gradients[i].is_some());
        let used: Vec<usize> = used.collect();
        let parameters = used.iter().map(|&i| &leaves.variables[i]);
        let Packed {
            names,
            arrays,
            are_loaded,
        } = self.packed();
        let of_all = Leaves::of_model(model).names;
        if are_loaded {
            let loaded = names.iter().map(|name| &**name);
            expect_loaded(function, loaded, of_all.iter().map(String::as_str));
        }
        let of_all = of_all.iter().enumerate().map(|(i, name)| (&**name, i));
        let of_all: FxHashMap<&str, usize> = of_all.collect();
        let used_names = used.iter().map(|&i| &*leaves.names[i]);
        let numbers = used_names.clone().map(|name| of_all[name]).collect();
        let mut known: IndexMap<Arc<str>, (), FxBuildHasher> =
            names.iter().map(|name| (Arc::clone(name), ())).collect();
        let places = used_names.map(|name| {
            let entry = known.entry(Arc::from(name));
            let place = entry.index();
            entry.or_default();
            place
        });
        let places: Vec<usize> = places.collect();
        let (first_new, names): (usize, Vec<Arc<str>>) = (names.len(), known.into_keys().collect());
        let own_names = places.iter().map(|&place| Arc::clone(&names[place]));
        let step = Step {
            choice: self.choice.clone(),
            hooks: self.hooks.clone(),
            first_new,
            names: own_names.collect(),
            numbers,
            places,
        };

        let specs: Vec<Spec> = parameters.clone().map(Variable::spec).collect();
        let of_states = arrays.len() - first_new * (1 + N);
        for (&place, own) in step.places.iter().zip(&specs) {
            let state = arrays[of_states..].chunks(1 + N).nth(place);
            for (array, part) in state.into_iter().flat_map(|own| &own[1..]).zip(R::STATE) {
                expect_spec(&names[place], part, array, &spec_of_state(own));
            }
        }
        let count = arrays.len();
        let mut outputs: Vec<(Shape, DType)> = arrays.iter().map(spec).collect();
        for (&place, own) in step.places.iter().zip(&specs) {
            if place >= first_new {
                let Spec { shape, dtype } = spec_of_state(own);
                outputs.push((Shape::from(()), DType::I64));
                outputs.extend(vec![(shape, dtype); N]);
            }
        }
        let packed = outputs.len();
        outputs.extend(
            specs
                .into_iter()
                .map(|Spec { shape, dtype }| (shape, dtype)),
        );
        let mut inputs = arrays;
        inputs.extend(parameters.clone().map(Variable::array));
        inputs.extend(gradients.iter().flatten().map(Variable::array));
        inputs.extend(loss);
        let mut made = record_call("update", &inputs, &outputs, move |mut inputs| {
            let others = inputs.split_off(count);
            step.run::<N, G>(inputs, others)
        });
        drop(inputs);
        let others = leaves.variables.iter().map(Variable::array);
        let mut stepped: Vec<Variable> = others.map(Variable::new).collect();
        let made_parameters = made.drain(packed..).map(Variable::new).collect();
        let sources = parameters.chain(gradients.iter().flatten());
        let made_parameters = match is_followed(sources.clone()) {
            true => without_derivative(function, sources.cloned().collect(), made_parameters),
            false => made_parameters,
        };
        for (&i, parameter) in used.iter().zip(made_parameters) {
            stepped[i] = parameter;
        }
        let (choice, hooks) = (self.choice.clone(), self.hooks.clone());
        let packed = Packed {
            names: names.into(),
            arrays: made,
            are_loaded: false,
        };
        let optimizer = Self::unpacked(choice, hooks, packed);
        (leaves.replaced(model, &stepped), optimizer)
    }

    /// The state as arrays.
    fn packed(&self) -> Packed {
        if let Some(traced) = &self.traced {
            return traced.clone();
        }
        let mut names = Vec::new();
        let mut arrays = vec![
            Array::scalar(self.steps as i64),
            Array::scalar(self.choice.learning_rate),
        ];
        for mut rule in self.choice.rules().cloned() {
            let numbers = rule.numbers().into_iter();
            arrays.extend(numbers.map(|(_, number)| Array::scalar(*number)));
        }
        for (name, memory) in self.slots.memories() {
            names.push(Arc::clone(name));
            arrays.push(Array::scalar(memory.steps as i64));
            arrays.extend(memory.arrays.iter().cloned());
        }
        Packed {
            names: names.into(),
            arrays,
            are_loaded: self.slots.are_loaded(),
        }
    }

    /// An optimizer with this state, whose numbers are known unless a function is being traced.
    fn unpacked(choice: Choice<R>, hooks: Hooks, packed: Packed) -> Self {
        let mut optimizer = Self {
            choice,
            hooks,
            steps: 0,
            slots: Slots::default(),
            traced: None,
        };
        // In the structure of an argument, which has no values, the number of steps is no integer.
        if packed.arrays.iter().any(is_traced) || packed.arrays[0].dtype() != DType::I64 {
            optimizer.traced = Some(packed);
            return optimizer;
        }
        let Packed {
            names,
            arrays,
            are_loaded,
        } = packed;
        let (steps, memories) = unpack(&mut optimizer.choice, arrays);
        optimizer.steps = steps;
        let names = names.iter().map(Arc::clone);
        optimizer.slots = Slots::of(names.zip(memories).collect(), are_loaded);
        optimizer
    }
}

/// Returns whether a running transformation may ask for derivatives of what is computed from some Variables.
fn is_followed<'a>(variables: impl IntoIterator<Item = &'a Variable>) -> bool {
    scope::is_recording() && are_followed(variables)
}

/// Returns the parameters after a step as results of a function of these sources, whose derivative is an error.
#[track_caller]
fn without_derivative(
    function: &'static str,
    sources: Vec<Variable>,
    stepped: Vec<Variable>,
) -> Vec<Variable> {
    let refuse = move |_: &[Variable], _: &[Variable], _: &[Variable]| -> Vec<Variable> {
        let what = "the parameters after a step depend on the argument of this derivative, and how is not known, so \
                    that the gradient would be lost; write the step with functions, as `w - rate * gw`, or use \
                    `stop_gradient` on what the step is computed from, if that is to be constant";
        raise(Error::argument(function, what))
    };
    let step = Closures {
        name: function,
        forward: Arc::new(move |_| stepped.clone()),
        vjp: Some(Arc::new(refuse)),
        jvp: None,
        batch: None,
    };
    step.call(sources, caller())
}

/// Reads the number of steps and the state of each parameter; the other numbers go into the choice.
fn unpack<R: UpdateRule<N, G>, const N: usize, const G: usize>(
    choice: &mut Choice<R>,
    arrays: Vec<Array>,
) -> (u64, Vec<Memory<N>>) {
    let mut arrays = arrays.into_iter();
    let mut next = || arrays.next().expect("there is one for each");
    let count = |x: Array| x.item::<i64>() as u64;
    let steps = count(next());
    choice.learning_rate = next().item();
    for rule in choice.rules_mut() {
        for (_, number) in rule.numbers() {
            *number = next().item();
        }
    }
    let mut memories = Vec::with_capacity(arrays.len() / (1 + N));
    while let Some(steps) = arrays.next() {
        let arrays = std::array::from_fn(|_| arrays.next().expect("there is one for each"));
        let steps = count(steps);
        memories.push(Memory { steps, arrays });
    }
    (steps, memories)
}

fn spec(x: &Array) -> (Shape, DType) {
    (x.shape().clone(), x.dtype())
}

/// What a step does with arrays.
struct Step<R> {
    choice: Choice<R>,
    hooks: Hooks,
    /// The place of the first parameter that has no state yet.
    first_new: usize,
    /// The parameters that make a step, their numbers among the parameters of the model, and the places of
    /// their states.
    names: Vec<Arc<str>>,
    numbers: Vec<usize>,
    places: Vec<usize>,
}

impl<R> Step<R> {
    /// Computes the state and the parameters from the state, and from the parameters, their gradients and
    /// the loss, if the rule follows it.
    fn run<const N: usize, const G: usize>(
        &self,
        packed: Vec<Array>,
        mut others: Vec<Array>,
    ) -> Vec<Array>
    where
        R: UpdateRule<N, G>,
    {
        let mut choice = self.choice.clone();
        let (steps, mut memories) = unpack(&mut choice, packed);
        let count = self.names.len();
        if let Some(loss) = others.get(2 * count) {
            let loss = loss.item();
            choice.rules_mut().for_each(|rule| rule.observe(loss));
        }
        let gradients = others.split_off(count);
        let mut tasks = Vec::with_capacity(count);
        for (i, gradient) in gradients.into_iter().take(count).enumerate() {
            if self.places[i] >= self.first_new {
                let own = Spec::new(others[i].shape(), others[i].dtype());
                memories.push(Memory::initial::<R, G>(&spec_of_state(&own)));
            }
            let home = home(&gradient, &others[i]);
            let gradient = match gradient.device() == home {
                true => gradient,
                false => gradient.to(home),
            };
            tasks.push(Task {
                slot: i,
                number: self.numbers[i],
                gradient,
                home,
            });
        }
        let mut parameters = Arrays {
            names: &self.names,
            arrays: others,
            memories,
            places: &self.places,
        };
        advance(&choice, &self.hooks, steps, tasks, &mut parameters);
        let Arrays {
            arrays, memories, ..
        } = parameters;
        let mut made = vec![
            Array::scalar(steps as i64 + 1),
            Array::scalar(choice.learning_rate),
        ];
        for rule in choice.rules_mut() {
            let numbers = rule.numbers().into_iter();
            made.extend(numbers.map(|(_, number)| Array::scalar(*number)));
        }
        for memory in memories {
            made.push(Array::scalar(memory.steps as i64));
            made.extend(memory.arrays);
        }
        made.extend(arrays);
        made
    }
}

/// Parameters that are arrays.
struct Arrays<'a, const N: usize> {
    names: &'a [Arc<str>],
    arrays: Vec<Array>,
    memories: Vec<Memory<N>>,
    /// The place of the state of each.
    places: &'a [usize],
}

impl<const N: usize> Parameters<N> for Arrays<'_, N> {
    fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    fn array(&self, place: usize) -> Array {
        self.arrays[place].clone()
    }

    fn memory(&mut self, place: usize) -> &mut Memory<N> {
        &mut self.memories[self.places[place]]
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut Array, &mut [Array; N])) {
        let memory = &mut self.memories[self.places[place]];
        change(&mut self.arrays[place], &mut memory.arrays);
    }
}

/// The state of a parameter, as a Tree that is only visited.
struct State<'a>(&'a [Array]);

impl Tree for State<'_> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.iter().for_each(|array| array.visit(visitor));
    }
    fn map(&self, _: &mut Mapper<'_>) -> Self {
        Self(self.0)
    }
}

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> RuleOptimizer<R, N, G> {
    /// Shows the state as `packed` lists it.
    // PERF: without the list, because each call of a compiled step walks it.
    fn visit_state(&self, visitor: &mut Visitor<'_>) {
        visitor.child(0, &Array::scalar(self.steps as i64));
        visitor.child(1, &Array::scalar(self.choice.learning_rate));
        let mut number = 2;
        for mut rule in self.choice.rules().cloned() {
            for (_, own) in rule.numbers() {
                visitor.child(number, &Array::scalar(*own));
                number += 1;
            }
        }
        for (name, memory) in self.slots.memories() {
            let mut all: SmallVec<[Array; 4]> = SmallVec::new();
            all.push(Array::scalar(memory.steps as i64));
            all.extend(memory.arrays.iter().cloned());
            visitor.child(name, &State(&all));
        }
    }
}

/// The state is shown as arrays, the settings as plain values.
impl<R: UpdateRule<N, G>, const N: usize, const G: usize> Tree for RuleOptimizer<R, N, G> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if !visitor.sees_everything() {
            return;
        }
        self.slots.expect_one_model("compile");
        let Choice {
            base,
            groups,
            schedule,
            ..
        } = &self.choice;
        visitor.bits(base.learning_rate.to_bits());
        for group in groups {
            visitor.plain(&Arc::as_ptr(&group.contains).addr());
            visitor.bits(group.settings.learning_rate.to_bits());
        }
        for mut rule in self.choice.rules().cloned() {
            // They are among the arrays.
            rule.numbers()
                .into_iter()
                .for_each(|(_, number)| *number = 0.0);
            visitor.shown(format_args!("{rule:?}"));
        }
        visitor.plain(&Arc::as_ptr(schedule).addr());
        for address in self.hooks.addresses() {
            visitor.plain(&address);
        }
        // By the names that arrays have in `packed`.
        let Some(Packed { names, arrays, .. }) = &self.traced else {
            return self.visit_state(visitor);
        };
        let (numbers, states) = arrays.split_at(arrays.len() - names.len() * (1 + N));
        for (i, array) in numbers.iter().enumerate() {
            visitor.child(i, array);
        }
        for (name, state) in names.iter().zip(states.chunks(1 + N)) {
            visitor.child(name, &State(state));
        }
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        let mut packed = self.packed();
        packed.arrays = packed
            .arrays
            .iter()
            .map(|array| array.map(mapper))
            .collect();
        Self::unpacked(self.choice.clone(), self.hooks.clone(), packed)
    }
}
