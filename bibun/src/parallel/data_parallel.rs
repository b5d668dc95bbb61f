//! An optimizer over many processes, each with its part of the data.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use bibun_array::Array;
use rustc_hash::FxHasher;

use super::buckets::{Exchange, Grain, Parameter, Plan};
use super::communicator::Communicator;
use super::sharded::{Shard, bare};
use crate::Batched;
use crate::apply;
use crate::call::calling;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic, no_rule};
use crate::links::Chain;
use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError, Stateful, Value, little_endian};
use crate::variable::Variable;

/// An optimizer for a model that every process has, and data of which each has a part: the gradient is the
/// mean of the gradients of all processes, so the loss is their mean, and all make the same step.
///
/// Gradients leave while the backward pass still runs: as soon as the gradients of a bucket of parameters are
/// complete, their sum begins. A parameter that some processes do not use, or have frozen, has the gradient of
/// the others; one that nobody uses has none. Parts of a batch whose sizes differ are weighted by
/// [`DataLoader::share`](crate::datasets::DataLoader::share), which a trainer does.
///
/// The parameters stay equal bit for bit on all processes. This is checked in the first step and then every
/// hundred ([`check_every`](Self::check_every)). The [state](Stateful::state) is that of the optimizer inside,
/// so a training can go on with another number of processes, or with one.
///
/// ```
/// use bibun::optimizers::{Adam, Optimizer};
/// use bibun::parallel::{DataParallel, local};
/// use bibun::Variable;
/// let results = local::run(3, |world| {
///     let w = Variable::new(0.0);
///     let mut optimizer = DataParallel::new(Adam::new(0.1), &world);
///     let own = world.rank() as f64;
///     let loss = optimizer.minimize(&w, &mut || (&w - own).square());
///     (loss.item::<f64>(), w.item::<f64>())
/// });
/// // The mean of 0², 1² and 2².
/// assert!((results[0].0 - 5.0 / 3.0).abs() < 1e-15);
/// assert_eq!(results[0], results[2]);
/// ```
///
/// To accumulate the gradient of a batch that does not fit into memory, use
/// [`backward`](Self::backward).
pub struct DataParallel<O> {
    optimizer: O,
    world: Communicator,
    bucket_bytes: usize,
    check_every: u64,
    is_sharded: bool,
    plan: Option<Arc<Plan>>,
    /// What this process updates, if the state of the optimizer inside is divided.
    shard: Option<Shard>,
    /// Whether the gradients in the leaves are those of all processes already.
    is_exchanged: bool,
}

impl<O: Optimizer> DataParallel<O> {
    /// Creates an optimizer over all processes of a group from one for a single process.
    pub fn new(optimizer: O, world: &Communicator) -> Self {
        Self {
            optimizer,
            world: world.clone(),
            bucket_bytes: 4 << 20,
            check_every: 100,
            is_sharded: false,
            plan: None,
            shard: None,
            is_exchanged: false,
        }
    }

    /// Sets the number of bytes of gradients that travel as one message. Defaults to 4 MiB. Smaller buckets
    /// leave earlier, larger ones have fewer messages.
    #[must_use]
    pub fn bucket_bytes(mut self, bytes: usize) -> Self {
        self.bucket_bytes = bytes;
        self.plan = None;
        self
    }

    /// Sets after how many steps it is checked that the parameters are equal on all processes: with 1 before
    /// each step, with 0 never. Defaults to 100.
    #[must_use]
    pub fn check_every(mut self, steps: u64) -> Self {
        self.check_every = steps;
        self
    }

    /// Divides the optimizer's state: each process gets the sum of the gradients of its part of the elements,
    /// updates them, keeps the state of them alone, and gives the others the new values (reduce-scatter, update,
    /// all-gather). That sends what adding up all gradients sends. The bits are the same as without.
    ///
    /// If the update of each element depends on itself alone ([`Optimizer::is_elementwise`]: SGD, Adam, RMSprop
    /// and all others that are not named here), each process has `1 / n` of the elements of every bucket,
    /// however large the parameters are. `Lamb`, and optimizers with hooks that look at a whole parameter
    /// (`GradientNoise`, and those that do not say otherwise), need whole parameters: then each process has
    /// some of them, the largest first, each given to the one that has least.
    ///
    /// The parameters themselves have no gradients after a step. [`state`](Stateful::state) and
    /// [`load_state`](Stateful::load_state) are collectives, of the whole state, which goes on with any other
    /// number of processes, divided or not.
    ///
    /// # Panics
    /// The step panics if the update of a parameter depends on the gradients of others
    /// ([`Optimizer::is_separable`]), as with `ClipNorm`, `Eve` and `Lbfgs`.
    #[cfg(feature = "npz")]
    #[must_use]
    pub fn sharded(mut self) -> Self {
        self.is_sharded = true;
        self.plan = None;
        self
    }

    /// Returns the optimizer inside.
    pub fn optimizer(&self) -> &O {
        &self.optimizer
    }

    /// Runs the backward pass of the last part of a loss, and adds up the gradients of all processes and all
    /// parts, while it runs. Earlier parts accumulate by [`Variable::backward`], without communication; then
    /// comes [`update`](Optimizer::update).
    ///
    /// ```
    /// use bibun::links::Chain;
    /// use bibun::optimizers::{Optimizer, Sgd};
    /// use bibun::parallel::{DataParallel, local};
    /// use bibun::Variable;
    /// local::run(2, |world| {
    ///     let w = Variable::new(1.0);
    ///     let mut optimizer = DataParallel::new(Sgd::new(0.1), &world);
    ///     w.clear_grads();
    ///     (&w * 1.0).backward();
    ///     optimizer.backward(&w, &(&w * 3.0));
    ///     assert_eq!(w.grad().unwrap().item::<f64>(), 4.0);
    ///     optimizer.update(&w);
    ///     assert!((w.item::<f64>() - 0.6).abs() < 1e-15);
    /// });
    /// ```
    ///
    /// # Panics
    /// Panics as [`Variable::backward`] does, and if the processes do not come together.
    #[track_caller]
    pub fn backward(&mut self, model: &dyn Chain, loss: &Variable) {
        let _called = calling("DataParallel");
        let gradients = self.exchange(model, || loss.backward());
        self.put(&gradients);
        self.is_exchanged = true;
    }

    /// Returns the plan for a model, and checks now and then that the model is equal everywhere.
    #[track_caller]
    fn plan(&mut self, model: &dyn Chain) -> Arc<Plan> {
        let parameters = model.parameters();
        let plan = match self.plan.take() {
            Some(plan) if plan.is_for(&parameters) => plan,
            _ => {
                let divided = self.is_sharded.then(|| (self.grain(), self.world.size()));
                let plan = Arc::new(Plan::of(parameters, self.bucket_bytes, divided));
                expect_same_model(&self.world, &plan);
                self.keep_own(Shard::of(&plan, self.world.rank()));
                plan
            }
        };
        if self.check_every > 0 && self.optimizer.steps().is_multiple_of(self.check_every) {
            expect_same_values(&self.world, &plan, self.optimizer.steps());
        }
        self.plan = Some(Arc::clone(&plan));
        plan
    }

    /// Returns how the optimizer allows its state to be divided.
    #[track_caller]
    fn grain(&self) -> Grain {
        if !self.optimizer.is_separable() {
            let what = "the state is sharded, but this optimizer updates a parameter by the gradients of \
                        others too, which are on other processes; use it without `sharded`";
            raise(Error::argument("DataParallel", what));
        }
        match self.optimizer.is_elementwise() {
            true => Grain::Elements,
            false => Grain::Parameters,
        }
    }

    #[track_caller]
    fn exchange(&mut self, model: &dyn Chain, walk: impl FnOnce()) -> Vec<Option<Array>> {
        let plan = self.plan(model);
        Exchange::during(&plan, &self.world, walk)
    }

    /// Puts gradients into the leaves in place of their own.
    fn put(&self, gradients: &[Option<Array>]) {
        if let Some(shard) = &self.shard {
            let parameters = self.parameters().iter();
            parameters.for_each(|parameter| parameter.variable.clear_grad());
            return shard.put(gradients);
        }
        for (Parameter { variable, .. }, gradient) in self.parameters().iter().zip(gradients) {
            match gradient {
                Some(gradient) => variable.set_grad(&Variable::constant(gradient)),
                None => variable.clear_grad(),
            }
        }
    }

    fn parameters(&self) -> &[Parameter] {
        self.plan.as_ref().map_or(&[], |plan| &plan.parameters)
    }

    /// Makes the step of the optimizer inside by the gradients that were put.
    #[track_caller]
    fn step(&mut self, model: &dyn Chain) {
        let (Some(shard), Some(plan)) = (&self.shard, &self.plan) else {
            let trained = Trained::among(self.parameters());
            self.optimizer.update(model);
            drop(trained);
            return;
        };
        shard.take_values();
        self.optimizer.update(shard);
        shard.clear();
        plan.share_values(&self.world, |parameter| shard.value(parameter));
    }
}

impl<O: Optimizer> Optimizer for DataParallel<O> {
    #[track_caller]
    fn update(&mut self, model: &dyn Chain) {
        let _called = calling("DataParallel");
        if !std::mem::take(&mut self.is_exchanged) {
            let gradients = self.exchange(model, || ());
            self.put(&gradients);
        }
        self.step(model);
    }

    #[track_caller]
    fn minimize(&mut self, model: &dyn Chain, objective: &mut dyn FnMut() -> Variable) -> Variable {
        let _called = calling("DataParallel");
        self.is_exchanged = false;
        let plan = self.plan(model);
        let world = self.world.clone();
        let mut trained = None;
        // The loss of all processes, whose history is one step: the exchange of the gradients.
        let mut evaluate = || {
            model.clear_grads();
            let loss = objective();
            let scale = 1.0 / world.size() as f64;
            let own = loss.array();
            let flat = own.to(bibun_array::cpu()).reshape([own.size()]);
            let what = format!("the loss, {}", loss.spec());
            let whole = world.start_sum(what, &flat, scale);
            let gradients = Exchange::during(&plan, &world, || loss.backward());
            model.clear_grads();
            let whole = whole.wait().reshape(own.shape().clone()).to(own.device());
            (whole, gradients)
        };
        if self.is_sharded {
            let (loss, gradients) = evaluate();
            self.put(&gradients);
            self.step(model);
            return Variable::constant(loss);
        }
        let loss = self.optimizer.minimize(model, &mut || {
            let (loss, gradients) = evaluate();
            let pairs = plan.parameters.iter().zip(gradients);
            let (inputs, gradients): (Vec<Variable>, Vec<Array>) = pairs
                .filter_map(|(parameter, gradient)| Some((parameter.variable.clone(), gradient?)))
                .unzip();
            trained.get_or_insert_with(|| Trained::of(&inputs));
            let [loss] = apply(Exchanged { loss, gradients }, inputs);
            loss
        });
        drop(trained);
        loss
    }

    fn learning_rate(&self) -> f64 {
        self.optimizer.learning_rate()
    }

    fn base_learning_rate(&self) -> f64 {
        self.optimizer.base_learning_rate()
    }

    #[track_caller]
    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.optimizer.set_learning_rate(learning_rate);
    }

    fn steps(&self) -> u64 {
        self.optimizer.steps()
    }

    fn is_separable(&self) -> bool {
        self.optimizer.is_separable()
    }

    fn is_elementwise(&self) -> bool {
        self.optimizer.is_elementwise()
    }
}

/// The parameters that are frozen here, but not on all processes: for the time of a step they are not, for
/// they stay equal on all.
struct Trained(Vec<Variable>);

impl Trained {
    fn of(parameters: &[Variable]) -> Self {
        let frozen = parameters.iter().filter(|parameter| parameter.is_frozen());
        let frozen: Vec<Variable> = frozen.cloned().collect();
        for parameter in &frozen {
            parameter.set_requires_grad(true);
        }
        Self(frozen)
    }

    fn among(parameters: &[Parameter]) -> Self {
        let with_gradient = parameters.iter().map(|parameter| &parameter.variable);
        let with_gradient = with_gradient.filter(|parameter| parameter.grad().is_some());
        Self::of(&with_gradient.cloned().collect::<Vec<_>>())
    }
}

impl Drop for Trained {
    fn drop(&mut self) {
        for parameter in &self.0 {
            parameter.set_requires_grad(false);
        }
    }
}

/// The loss of all processes as a function of the parameters, with the gradients that came with it.
#[derive(Clone, Debug)]
struct Exchanged {
    loss: Array,
    gradients: Vec<Array>,
}

impl Function for Exchanged {
    type Inputs = Variadic;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "DataParallel"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, _: Vec<&Spec>) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new(self.loss.shape(), self.loss.dtype())])
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, _: Vec<Array>) -> [Array; 1] {
        [self.loss.clone()]
    }

    fn vjp(&self, _: &Context<'_>, [gy]: [Variable; 1]) -> Vec<Option<Variable>> {
        let is_one = gy.plain_array().and_then(|gy| gy.known_item::<f64>()) == Some(1.0);
        let gradient = |gradient: &Array| {
            let gradient = Variable::constant(gradient);
            match is_one {
                true => gradient,
                false => {
                    let gy = gy.reshape(()).cast(gradient.dtype());
                    gradient * gy
                }
            }
        };
        self.gradients.iter().map(|g| Some(gradient(g))).collect()
    }

    fn jvp(&self, _: &Context<'_>, _: Vec<Option<Variable>>) -> [Option<Variable>; 1] {
        no_rule(
            "DataParallel",
            "jvp",
            "the gradient is known at one point only",
        )
    }

    fn batch(&self, _: Vec<Batched>) -> [Batched; 1] {
        no_rule(
            "DataParallel",
            "batch",
            "there is one step for all processes",
        )
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: [ExampleCotangent; 1],
    ) -> Vec<Option<ExampleGradient>> {
        (0..cx.input_count())
            .map(|_| Some(ExampleGradient::Mixed))
            .collect()
    }

    fn kept(&self) -> Vec<Array> {
        self.gradients.clone()
    }
}

/// Checks that all processes have a model with the same parameters.
#[track_caller]
fn expect_same_model(world: &Communicator, plan: &Plan) {
    let own: Vec<String> = plan
        .parameters
        .iter()
        .map(|parameter| format!("`{}` {}", parameter.name, parameter.variable.spec()))
        .collect();
    let all = world.gather_bytes(own.join("\n").as_bytes());
    for (rank, theirs) in all.iter().enumerate() {
        let theirs = String::from_utf8_lossy(theirs);
        let theirs: Vec<&str> = theirs.lines().collect();
        let none = "nothing";
        let differs = (0..own.len().max(theirs.len())).find_map(|i| {
            let (own, theirs) = (
                own.get(i).map_or(none, |own| own),
                theirs.get(i).unwrap_or(&none),
            );
            (own != *theirs).then(|| (own.to_owned(), (*theirs).to_owned()))
        });
        if let Some((own, theirs)) = differs {
            let here = world.rank();
            let what = format!(
                "the models differ: process {here} has the parameter {own} where process {rank} has {theirs}"
            );
            raise(Error::argument("DataParallel", what));
        }
    }
}

/// Checks that the parameters have the same bits on all processes.
#[track_caller]
fn expect_same_values(world: &Communicator, plan: &Plan, steps: u64) {
    let own = plan
        .parameters
        .iter()
        .map(|parameter| hash(&parameter.variable.array()));
    let own: Vec<u8> = own.flat_map(u64::to_le_bytes).collect();
    let all = world.gather_bytes(&own);
    for (rank, theirs) in all.iter().enumerate() {
        let (first, _) = all[0].as_chunks::<8>();
        let (theirs, _) = theirs.as_chunks::<8>();
        if let Some(at) = (0..first.len()).find(|&i| theirs.get(i) != Some(&first[i])) {
            let what = format!(
                "the parameter `{}` of process {rank} differs from that of process 0 after step {steps}; \
                 parameters must begin equal (the same seed, or `Communicator::broadcast_model`), and \
                 nothing but the optimizer may change them",
                plan.parameters[at].name
            );
            raise(Error::argument("DataParallel", what));
        }
    }
}

fn hash(x: &Array) -> u64 {
    let mut hash = FxHasher::default();
    let Ok(()) = little_endian(x, |bytes| {
        hash.write(bytes);
        Ok::<(), std::convert::Infallible>(())
    });
    hash.finish()
}

impl Communicator {
    /// Gives the parameters and buffers of the first process to all, in place.
    ///
    /// # Panics
    /// Panics if a parameter is no leaf, or the models differ in shapes.
    #[track_caller]
    pub fn broadcast_model(&self, model: &dyn Chain) {
        let _called = calling("broadcast_model");
        let mut state = State::new();
        for (name, value) in model.state().iter() {
            if let Value::Array(value) = value {
                state.insert(name, self.broadcast(value, 0));
            }
        }
        let loaded = model.load_state(&state);
        loaded.expect("a model fits to its own state");
    }
}

impl<O: Optimizer> Stateful for DataParallel<O> {
    fn state(&self) -> State {
        match &self.shard {
            #[cfg(feature = "npz")]
            Some(shard) => shard.gathered(&self.world, &self.optimizer.state()),
            _ => self.optimizer.state(),
        }
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.is_exchanged = false;
        if self.shard.is_some() {
            // The leaves of the shard have other shapes than the parameters in the state.
            let own = self.optimizer.state();
            self.optimizer.load_state(&bare(&own))?;
            if let Err(error) = self.optimizer.load_state(state) {
                self.optimizer.load_state(&own)?;
                return Err(error);
            }
        } else {
            self.optimizer.load_state(state)?;
        }
        // With the next step it is divided again.
        (self.plan, self.shard) = (None, None);
        Ok(())
    }
}

impl<O: Optimizer> DataParallel<O> {
    /// Keeps the state of what this process updates from now on.
    #[track_caller]
    fn keep_own(&mut self, shard: Option<Shard>) {
        if self.shard.is_none() && shard.is_none() {
            return;
        }
        let whole = self.state();
        let own = shard.as_ref().map(|shard| shard.cut(&whole));
        // What the optimizer knows of leaves with these names is forgotten.
        for state in [&bare(&whole), own.as_ref().unwrap_or(&whole)] {
            let kept = self.optimizer.load_state(state);
            kept.expect("a part of the optimizer's own state fits");
        }
        self.shard = shard;
    }
}

impl<O: fmt::Debug> fmt::Debug for DataParallel<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataParallel")
            .field("optimizer", &self.optimizer)
            .field("world", &self.world)
            .finish_non_exhaustive()
    }
}
