//! An optimizer made of an update rule, with state for each parameter, groups, hooks and a
//! schedule.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bibun_array::math::Float;
use bibun_array::{Array, Change, Device, ElementUpdate, Given, Number, Update, cpu};

use super::hooks::{Hook, Hooks, Names, Site};
use super::rule::{ParameterStep, UpdateRule};
use super::schedule::Schedule;
use super::settings::{RULE, check_rule, expect_learning_rate, learning_rate_of};
use super::slots::{Parameters, STEPS, Slots, expect_loaded};
use super::stepped::Packed;
use super::{Optimizer, check_trainable, evaluate};
use crate::call::calling;
use crate::error::{Error, raise, refuse};
use crate::links::{Chain, for_each_parameter};
use crate::serializers::{State, StateError, Stateful};
use crate::variable::Variable;

/// An optimizer that follows an [`UpdateRule`] with `N` numbers of state for each element.
///
/// [`Adam`](super::Adam) and most others are type aliases of it. A step makes one
/// [`Update`](bibun_array::Update) of each parameter on the parameter's device. On the CPU this
/// goes block by block: the hooks change a block of the gradient and the rule uses it while it is
/// in the processor's first-level cache. A hook that needs a norm over all gradients reads them
/// once beforehand, and so does a rule that needs a norm over its parameter.
///
/// Its state has `rule` ([`UpdateRule::NAME`]), `steps`, `learning_rate` (the base), the numbers of the rule if it
/// has any, and for each parameter such as `l1/weight` the arrays of the rule and the number of steps that the
/// parameter has made: `parameters/l1/weight/m`, `parameters/l1/weight/steps`. Hooks, the schedule
/// and the other settings belong to the program and are not in the state. After a state was loaded, the first step
/// has to be of a model that has a parameter of a name in it.
///
/// An optimizer may make steps of several models by turns. Its state has parameters by name, so it panics when it is
/// asked for while two models are in use whose parameters have the same names: use one optimizer for each model, or
/// one struct of both.
///
/// It is a [`Tree`](crate::Tree) without leaves, so that [`compile`](crate::compile) takes and returns it:
/// its state is made of inputs and outputs of a program, see [`minimized`](Self::minimized).
#[derive(Debug)]
pub struct RuleOptimizer<R, const N: usize, const G: usize> {
    pub(super) choice: Choice<R>,
    pub(super) hooks: Hooks,
    pub(super) steps: u64,
    pub(super) slots: Slots<N>,
    /// The state in place of the others, while a function is traced.
    pub(super) traced: Option<Packed>,
}

/// The settings that a parameter has at a step.
#[derive(Clone, Debug)]
pub(super) struct Choice<R> {
    pub(super) base: Settings<R>,
    pub(super) groups: Vec<Group<R>>,
    pub(super) schedule: Arc<dyn Schedule>,
    /// The current base learning rate.
    pub(super) learning_rate: f64,
}

/// The settings of a group of parameters: a learning rate and the rule.
#[derive(Clone, Debug)]
pub struct Settings<R> {
    /// The learning rate η, before the schedule's factor.
    pub learning_rate: f64,
    /// The rule.
    pub rule: R,
}

/// A group of parameters with separate settings.
#[derive(Clone)]
pub(super) struct Group<R> {
    pub(super) contains: Names,
    pub(super) settings: Settings<R>,
}

/// The work of a step for one parameter.
pub(super) struct Task {
    pub(super) slot: usize,
    /// The parameter's number among the parameters of the model.
    pub(super) number: usize,
    pub(super) gradient: Array,
    /// The device that the parameter belongs on.
    pub(super) home: &'static dyn Device,
}

/// The device that a parameter belongs on. A parameter of one repeated value is on every device, but its
/// gradient is not.
pub(super) fn home(gradient: &Array, parameter: &Array) -> &'static dyn Device {
    let devices = [gradient.device(), parameter.device()];
    let home = devices.into_iter().find(|&device| device != cpu());
    home.unwrap_or(cpu())
}

impl Task {
    /// Returns the changes that the first hooks, one for each of `squares`, make to the gradient.
    fn changes(&self, hooks: &Hooks, name: &str, step: u64, squares: &[Array]) -> Vec<Change> {
        hooks.changes(squares, |squares| Site {
            name,
            number: self.number,
            step,
            gradient: &self.gradient,
            device: self.home,
            squares,
        })
    }
}

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> RuleOptimizer<R, N, G> {
    /// Creates an optimizer with a learning rate and a rule.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite, or if a setting of the rule has no meaning; see
    /// [`UpdateRule::check`].
    #[track_caller]
    pub fn with_rule(learning_rate: f64, rule: R) -> Self {
        expect_learning_rate("new", learning_rate);
        expect_rule("new", &rule);
        Self {
            choice: Choice {
                base: Settings {
                    learning_rate,
                    rule,
                },
                groups: Vec::new(),
                schedule: Arc::new(1.0),
                learning_rate,
            },
            hooks: Hooks::default(),
            steps: 0,
            slots: Slots::default(),
            traced: None,
        }
    }

    /// Changes settings of the rule, for all parameters that are in no [`group`](Self::group).
    ///
    /// ```
    /// use bibun::optimizers::Adam;
    /// let optimizer = Adam::new(0.001).with(|rule| rule.betas = [0.9, 0.95]);
    /// ```
    ///
    /// # Panics
    /// Panics if a setting has no meaning afterwards; see [`UpdateRule::check`].
    #[must_use]
    #[track_caller]
    pub fn with(self, change: impl FnOnce(&mut R)) -> Self {
        self.changed("with", change)
    }

    /// Changes settings of the rule for a function.
    #[track_caller]
    pub(super) fn changed(mut self, function: &'static str, change: impl FnOnce(&mut R)) -> Self {
        let rule = &mut self.choice.base.rule;
        change(rule);
        expect_rule(function, rule);
        self
    }

    /// Adds a group: the parameters whose names satisfy a condition get separate settings, which
    /// are the present common ones after `change`. A parameter belongs to the first group whose
    /// condition it satisfies, by the name that it has in the model. (Where parts of a model make steps of their own,
    /// by the name in what made the first one.)
    ///
    /// ```
    /// use bibun::Variable;
    /// use bibun::optimizers::{AdamW, Optimizer};
    /// let mut optimizer = AdamW::new(0.001).weight_decay(0.1).group(
    ///     |name| name.ends_with("/bias"),
    ///     |biases| {
    ///         biases.learning_rate = 0.01;
    ///         biases.rule.weight_decay = 0.0;
    ///     },
    /// );
    /// // Those of the groups follow.
    /// optimizer.set_learning_rate(0.0005);
    /// ```
    ///
    /// # Panics
    /// Panics if the learning rate of the group is negative or not finite, or if a setting of its rule has no
    /// meaning.
    #[must_use]
    #[track_caller]
    pub fn group(
        mut self,
        contains: impl Fn(&str) -> bool + Send + Sync + 'static,
        change: impl FnOnce(&mut Settings<R>),
    ) -> Self {
        let mut settings = self.choice.base.clone();
        change(&mut settings);
        expect_learning_rate("group", settings.learning_rate);
        expect_rule("group", &settings.rule);
        self.choice.groups.push(Group {
            contains: Arc::new(contains),
            settings,
        });
        self
    }

    /// Adds a hook that changes the gradients of all parameters, after the hooks added before.
    ///
    /// # Panics
    /// Panics if a number of the hook has no meaning; see [`Hook::check`].
    #[must_use]
    #[track_caller]
    pub fn hook(self, hook: impl Hook) -> Self {
        self.hook_where(|_| true, hook)
    }

    /// Adds a [`hook`](Self::hook) for the parameters whose names satisfy a condition.
    ///
    /// # Panics
    /// Panics as [`hook`](Self::hook) does.
    #[must_use]
    #[track_caller]
    pub fn hook_where(
        mut self,
        contains: impl Fn(&str) -> bool + Send + Sync + 'static,
        hook: impl Hook,
    ) -> Self {
        if let Err(what) = hook.check() {
            raise(Error::argument("hook", what));
        }
        self.hooks.push(Arc::new(contains), hook);
        self
    }

    /// Sets a schedule, whose factor multiplies the learning rates at each step.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Self {
        self.choice.schedule = Arc::new(schedule);
        self
    }

    /// Returns a task for each parameter that has a gradient and is not frozen.
    #[track_caller]
    fn tasks(&mut self, model: &dyn Chain) -> Vec<Task> {
        if self.slots.are_loaded() {
            let mut names = Vec::new();
            for_each_parameter(model, |name, _| names.push(name.to_owned()));
            let loaded = self.slots.memories().map(|(name, _)| &**name);
            expect_loaded("update", loaded, names.iter().map(String::as_str));
        }
        if let Some(tasks) = self.tasks_if_named(model, false) {
            return tasks;
        }
        self.slots.settle(model);
        self.tasks_if_named(model, true)
            .expect("the names are settled")
    }

    /// Does the same, or returns `None` if the slots have other names than the parameters.
    fn tasks_if_named(&mut self, model: &dyn Chain, are_settled: bool) -> Option<Vec<Task>> {
        let mut tasks = Some(Vec::new());
        let mut number = 0;
        for_each_parameter(model, |name, parameter| {
            if let Some(found) = &mut tasks
                && let Some(gradient) = parameter.grad()
                && !parameter.is_frozen()
            {
                match self.slots.find::<R, G>(name, parameter, are_settled) {
                    Some(slot) => {
                        let gradient = gradient.array();
                        let home = home(&gradient, &parameter.array());
                        found.push(Task {
                            slot,
                            number,
                            gradient: gradient.to(home),
                            home,
                        });
                    }
                    None => tasks = None,
                }
            }
            number += 1;
        });
        tasks
    }

    /// Checks that the state is not that of a function that is being traced.
    #[track_caller]
    pub(super) fn expect_here(&self, function: &'static str) {
        if self.traced.is_some() {
            let what = "the state of this optimizer has no elements yet, because compile is tracing \
                        its function; use `minimized` or `updated` there, and this outside";
            refuse(Error::argument(function, what));
        }
    }
}

/// Checks the settings of a rule that a function is given.
#[track_caller]
fn expect_rule<R: UpdateRule<N, G>, const N: usize, const G: usize>(
    function: &'static str,
    rule: &R,
) {
    if let Err(what) = rule.check() {
        raise(Error::argument(function, what));
    }
    let mut own = rule.clone();
    let mut numbers = own.numbers().into_iter().map(|(name, _)| name);
    let number = numbers.find(|name| OWN.contains(name));
    let taken = match R::STATE.contains(&STEPS) {
        true => Some(("a part of `STATE`", STEPS)),
        false => number.map(|name| ("a number of the rule", name)),
    };
    if let Some((named, name)) = taken {
        let what = format!("{named} is called `{name}`, which is another's name in a saved state");
        raise(Error::argument(function, what));
    }
}

/// Makes a step of some parameters: the one after `steps`.
#[track_caller]
pub(super) fn advance<R: UpdateRule<N, G>, const N: usize, const G: usize>(
    choice: &Choice<R>,
    hooks: &Hooks,
    steps: u64,
    tasks: Vec<Task>,
    parameters: &mut impl Parameters<N>,
) {
    let squares = squares(hooks, steps, &tasks, parameters);
    for task in tasks {
        let name = parameters.name(task.slot);
        let changes = task.changes(hooks, name, steps, &squares);
        let (learning_rate, rule) = choice.of(name, steps);
        let Task {
            slot,
            gradient,
            home,
            ..
        } = task;
        let memory = parameters.memory(slot);
        memory.steps += 1;
        let mut step = ParameterStep {
            learning_rate,
            number: memory.steps,
            squares: [Array::scalar(0.0), Array::scalar(0.0)],
        };
        let arrays = &mut memory.arrays;
        arrays.iter_mut().for_each(|array| *array = array.to(home));
        if let Some(kernel) = rule.measured(&step) {
            let mut measured = changes.clone();
            measured.push(Change::new(kernel, arrays.to_vec()));
            let w = parameters.array(slot).to(home);
            step.squares = [
                home.sum_of_squares(&[], &w, &w),
                home.sum_of_squares(&measured, &w, &gradient),
            ];
        }
        let given = rule.given(&step).map(|given| match given {
            // One number for both parts of complex ones.
            Given::Element(x) => x.cast(gradient.dtype().accumulator().to_real()).into(),
            number @ Given::Number(_) => number,
        });
        let update = Update::new(RuleElement::<R>(PhantomData), changes, given);
        parameters.change(slot, |w, arrays| {
            *w = w.to(home);
            home.update(&update, w, &gradient, arrays);
        });
    }
}

/// Returns, for each hook that measures, `Σ gw²` over all gradients that the hook changes, as the hooks
/// before it leave them; for the other hooks zero.
fn squares<const N: usize>(
    hooks: &Hooks,
    steps: u64,
    tasks: &[Task],
    parameters: &impl Parameters<N>,
) -> Vec<Array> {
    let mut squares: Vec<Array> = Vec::new();
    for hook in 0..hooks.len() {
        let mut sum: Option<Array> = None;
        for task in tasks {
            let name = parameters.name(task.slot);
            if hooks.measures(hook, name) {
                let changes = task.changes(hooks, name, steps, &squares);
                let w = parameters.array(task.slot).to(task.home);
                let own = (task.home).sum_of_squares(&changes, &w, &task.gradient);
                sum = Some(match sum {
                    None => own,
                    Some(sum) => own.to(sum.device()) + sum,
                });
            }
        }
        squares.push(sum.unwrap_or_else(|| Array::scalar(0.0)));
    }
    squares
}

impl<R> Choice<R> {
    /// Returns the learning rate and the rule of a parameter at the step after `steps`.
    fn of(&self, name: &str, steps: u64) -> (f64, &R) {
        let factor = self.schedule.factor(steps);
        let group = self.groups.iter().find(|group| (group.contains)(name));
        match group.map(|group| &group.settings) {
            None => (self.learning_rate * factor, &self.base.rule),
            Some(own) => {
                let ratio = match self.base.learning_rate {
                    0.0 => 1.0,
                    initial => self.learning_rate / initial,
                };
                (own.learning_rate * ratio * factor, &own.rule)
            }
        }
    }

    /// Returns the rules: the base rule, then those of the groups.
    pub(super) fn rules(&self) -> impl Iterator<Item = &R> {
        let groups = self.groups.iter().map(|group| &group.settings.rule);
        std::iter::once(&self.base.rule).chain(groups)
    }

    pub(super) fn rules_mut(&mut self) -> impl Iterator<Item = &mut R> {
        let groups = self.groups.iter_mut().map(|group| &mut group.settings.rule);
        std::iter::once(&mut self.base.rule).chain(groups)
    }
}

/// The names in a state beside those of the rule's numbers.
const OWN: [&str; 3] = [RULE, STEPS, "learning_rate"];

/// Returns the name of a number of a rule in a state; groups have names of their own.
fn number_name(rule: usize, name: &str) -> String {
    match rule.checked_sub(1) {
        None => name.to_owned(),
        Some(group) => format!("groups/{group}/{name}"),
    }
}

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> Optimizer for RuleOptimizer<R, N, G> {
    #[track_caller]
    fn update(&mut self, model: &dyn Chain) {
        let _called = calling("update");
        check_trainable("update", model);
        self.expect_here("update");
        let tasks = self.tasks(model);
        advance(
            &self.choice,
            &self.hooks,
            self.steps,
            tasks,
            &mut self.slots,
        );
        self.steps += 1;
    }

    #[track_caller]
    fn minimize(&mut self, model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
        let _called = calling("minimize");
        self.expect_here("minimize");
        let loss = evaluate(model, objective);
        if R::OBSERVES {
            let loss = loss.item();
            self.choice.rules_mut().for_each(|rule| rule.observe(loss));
        }
        self.update(model);
        loss
    }

    fn learning_rate(&self) -> f64 {
        self.expect_here("learning_rate");
        self.choice.learning_rate * self.choice.schedule.factor(self.steps)
    }

    fn base_learning_rate(&self) -> f64 {
        self.expect_here("base_learning_rate");
        self.choice.learning_rate
    }

    #[track_caller]
    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.expect_here("set_learning_rate");
        expect_learning_rate("set_learning_rate", learning_rate);
        self.choice.learning_rate = learning_rate;
    }

    fn steps(&self) -> u64 {
        self.expect_here("steps");
        self.steps
    }

    /// Returns `false` for a rule that follows the loss, and with a hook that measures all gradients.
    fn is_separable(&self) -> bool {
        !R::OBSERVES && !self.hooks.measure()
    }

    /// Returns `false` also for a rule that measures a parameter, as that of [`Lamb`](super::Lamb), and with a
    /// hook that looks at more than one element.
    fn is_elementwise(&self) -> bool {
        let step = ParameterStep {
            learning_rate: self.choice.learning_rate,
            number: 1,
            squares: [Array::scalar(0.0), Array::scalar(0.0)],
        };
        self.is_separable()
            && self.hooks.are_elementwise()
            && (self.choice.rules()).all(|rule| rule.measured(&step).is_none())
    }
}

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> Stateful for RuleOptimizer<R, N, G> {
    #[track_caller]
    fn state(&self) -> State {
        self.expect_here("state");
        self.slots.expect_one_model("state");
        let mut state = State::new();
        state.insert(RULE, R::NAME);
        state.insert("steps", self.steps);
        state.insert("learning_rate", self.choice.learning_rate);
        for (i, mut rule) in self.choice.rules().cloned().enumerate() {
            for (name, number) in rule.numbers() {
                state.insert(number_name(i, name), *number);
            }
        }
        state.insert_part("parameters", self.slots.state::<R, G>());
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.expect_here("load_state");
        self.slots.expect_one_model("load_state");
        check_rule(state, R::NAME)?;
        let mut error = StateError::default();
        let steps = state.count("steps").map_err(|wrong| error.add(wrong));
        let learning_rate = learning_rate_of(state).map_err(|wrong| error.add(wrong));
        let mut wanted = OWN.map(str::to_owned).to_vec();
        let mut rules: Vec<R> = self.choice.rules().cloned().collect();
        for (i, rule) in rules.iter_mut().enumerate() {
            for (name, number) in rule.numbers() {
                let name = number_name(i, name);
                match state.number(&name) {
                    Ok(found) => *number = found,
                    Err(wrong) => error.add(wrong),
                }
                wanted.push(name);
            }
            // A setting was checked when it was chosen, so that a number of the state is wrong.
            let number = rule.numbers().first().map(|(name, _)| number_name(i, name));
            if let (Some(number), Err(what)) = (number, rule.check()) {
                error.add(StateError::wrong(number, format!("has no meaning: {what}")));
            }
        }
        let others = state.iter().map(|(name, _)| name.to_owned());
        error.unexpected.extend(
            others.filter(|name| !name.starts_with("parameters/") && !wanted.contains(name)),
        );
        let memories = self
            .slots
            .read::<R, G>(&state.part("parameters"))
            .map_err(|wrong| error.add(wrong.within("parameters")));
        if let (Ok(steps), Ok(learning_rate), Ok(memories)) = (steps, learning_rate, memories)
            && error == StateError::default()
        {
            self.steps = steps;
            self.choice.learning_rate = learning_rate;
            for (own, rule) in self.choice.rules_mut().zip(rules) {
                *own = rule;
            }
            self.slots.replace(memories);
        }
        error.or_ok()
    }
}

/// The formula of a rule.
struct RuleElement<R>(PhantomData<fn() -> R>);

impl<R: UpdateRule<N, G>, const N: usize, const G: usize> ElementUpdate<N, G> for RuleElement<R> {
    const NAME: &'static str = "update";

    #[inline(always)]
    fn value<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; N],
        given: [Number<T>; G],
    ) -> (Number<T>, [Number<T>; N]) {
        R::element(w, gw, state, given)
    }
}

impl<R: fmt::Debug> fmt::Debug for Group<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
