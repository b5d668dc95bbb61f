//! Rows of the table: what they compute, eagerly and as a compiled program.

use std::collections::BTreeMap;
use std::error::Error;

use bibun::array::Array;
use bibun::links::Chain;
use bibun::optimizers::{Optimizer, RuleOptimizer, UpdateRule};
use bibun::serializers::{State, StateError};
use bibun::{Compiled, Tree, Variable, compile, tree_map, vjp};

/// How a row is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Eager,
    Compiled,
}

impl Mode {
    pub(crate) fn named(name: &str) -> Result<Self, Box<dyn Error>> {
        match name {
            "eager" => Ok(Self::Eager),
            "compiled" => Ok(Self::Compiled),
            _ => Err(format!("there is no mode {name}").into()),
        }
    }
}

/// A row with its inputs.
pub(crate) trait Work {
    /// Computes once, and drops the outputs.
    fn run(&mut self, mode: Mode);

    /// Computes once, and returns all outputs by name. A training step that has not run before makes
    /// its first step.
    fn outputs(&mut self, mode: Mode) -> Vec<(String, Array)>;
}

/// The arrays in the file of a row: `0`, `1` and so on are inputs, `cotangent` is that of the
/// output, and `parameters/NAME` and `gradients/NAME` belong to a model.
#[derive(Clone)]
pub(crate) struct Inputs(State);

impl Inputs {
    pub(crate) fn new(state: State) -> Self {
        Self(state)
    }

    fn get(&self, name: &str) -> Result<Variable, StateError> {
        Ok(Variable::constant(self.0.array(name)?.clone()))
    }

    fn list<const N: usize>(&self) -> Result<[Variable; N], Box<dyn Error>> {
        let list = (0..N).map(|i| self.get(&i.to_string()));
        let list = list.collect::<Result<Vec<_>, _>>()?;
        list.try_into().map_err(|_| "there are N of them".into())
    }

    fn named(&self, part: &str) -> Result<BTreeMap<String, Array>, StateError> {
        let part = self.0.part(part);
        let names = part.iter().map(|(name, _)| name);
        names
            .map(|name| Ok((name.to_owned(), part.array(name)?.clone())))
            .collect()
    }

    /// Gives a model the parameters of the file, which must be all of its own.
    fn load<M: Chain>(&self, model: &M) -> Result<(), Box<dyn Error>> {
        let mut values = self.named("parameters")?;
        for (name, parameter) in model.parameters() {
            let value = values
                .remove(&name)
                .ok_or_else(|| format!("the file has no {name}"))?;
            parameter.set_array(value);
        }
        match values.keys().next() {
            Some(name) => Err(format!("the model has no {name}").into()),
            None => Ok(()),
        }
    }
}

type Maker = Box<dyn Fn(&Inputs) -> Result<Box<dyn Work>, Box<dyn Error>>>;

/// All rows by name, in order.
#[derive(Default)]
pub(crate) struct Rows(Vec<(String, Maker)>);

impl Rows {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &name[..])
    }

    pub(crate) fn work(
        &self,
        name: &str,
        inputs: &Inputs,
    ) -> Result<Box<dyn Work>, Box<dyn Error>> {
        let row = self.0.iter().find(|(row, _)| row == name);
        let (_, make) = row.ok_or_else(|| format!("there is no row {name}"))?;
        make(inputs)
    }

    fn add<W: Work + 'static>(
        &mut self,
        name: &str,
        make: impl Fn(&Inputs) -> Result<W, Box<dyn Error>> + 'static,
    ) {
        let make = move |inputs: &Inputs| Ok(Box::new(make(inputs)?) as Box<dyn Work>);
        self.0.push((name.to_owned(), Box::new(make)));
    }

    /// A function of the inputs.
    pub(crate) fn forward<Y: Tree + Send + 'static, const N: usize>(
        &mut self,
        name: &str,
        f: impl Fn(&[Variable; N]) -> Y + Copy + Send + Sync + 'static,
    ) {
        self.add(name, move |inputs| Ok(Function::new(f, inputs.list()?)));
    }

    /// The output of a function, and from its cotangent those of all inputs that are floats.
    pub(crate) fn gradient<const N: usize>(
        &mut self,
        name: &str,
        f: impl Fn(&[Variable; N]) -> Variable + Copy + Send + Sync + 'static,
    ) {
        let step = move |(inputs, cotangent): &([Variable; N], Variable)| {
            let floats: Vec<Variable> = inputs
                .iter()
                .filter(|x| x.dtype().is_float())
                .cloned()
                .collect();
            let of_floats = |floats: &Vec<Variable>| {
                let mut floats = floats.iter();
                f(&inputs.each_ref().map(|x| match x.dtype().is_float() {
                    true => floats.next().expect("one for each float").clone(),
                    false => x.clone(),
                }))
            };
            let (y, pullback) = vjp(of_floats, &floats);
            (y, pullback.call(cotangent))
        };
        self.add(name, move |inputs| {
            let argument = (inputs.list()?, inputs.get("cotangent")?);
            Ok(Function::new(step, argument))
        });
    }

    /// Two rows: a function, and the function with its gradient.
    pub(crate) fn both<const N: usize>(
        &mut self,
        name: &str,
        f: impl Fn(&[Variable; N]) -> Variable + Copy + Send + Sync + 'static,
    ) {
        self.forward(name, f);
        self.gradient(&format!("{name}/gradient"), f);
    }

    /// A function of a model, whose parameters are constants, and of inputs.
    pub(crate) fn inference<M: Chain + Send + Sync + 'static, const N: usize>(
        &mut self,
        name: &str,
        model: fn() -> M,
        f: impl Fn(&M, &[Variable; N]) -> Variable + Copy + Send + Sync + 'static,
    ) {
        self.add(name, move |inputs| {
            let model = model();
            inputs.load(&model)?;
            let model = tree_map(Variable::detach, &model);
            let f = move |(model, inputs): &(M, [Variable; N])| f(model, inputs);
            Ok(Function::new(f, (model, inputs.list()?)))
        });
    }

    /// A step of training with a loss; the outputs are the loss and the new parameters.
    pub(crate) fn training<M, R, const N: usize, const S: usize, const G: usize>(
        &mut self,
        name: &str,
        model: fn() -> M,
        optimizer: fn() -> RuleOptimizer<R, S, G>,
        loss: impl Fn(&M, &[Variable; N]) -> Variable + Copy + Send + Sync + 'static,
    ) where
        M: Chain + Send + Sync + 'static,
        R: UpdateRule<S, G> + Send + Sync + 'static,
        RuleOptimizer<R, S, G>: Tree + Optimizer + Send + Sync,
    {
        self.add(name, move |inputs| {
            inputs.load(&model())?;
            let file = inputs.clone();
            let start = move || {
                let model = model();
                file.load(&model).expect("the file has been read before");
                (model, optimizer())
            };
            Ok(Training {
                loss,
                batch: inputs.list()?,
                start: Box::new(start),
                eager: None,
                donated: None,
                compiled: compile(
                    move |(model, optimizer, batch): &Before<M, RuleOptimizer<R, S, G>, N>| {
                        optimizer.minimized(model, |model| loss(model, batch))
                    },
                ),
            })
        });
    }

    /// A step of an optimizer by gradients that are there; the outputs are the new parameters.
    pub(crate) fn update<R, const S: usize, const G: usize>(
        &mut self,
        name: &str,
        optimizer: fn() -> RuleOptimizer<R, S, G>,
    ) where
        R: UpdateRule<S, G> + Send + Sync + 'static,
        RuleOptimizer<R, S, G>: Tree + Optimizer + Send + Sync,
    {
        self.add(name, move |inputs| {
            let (values, gradients) = (inputs.named("parameters")?, inputs.named("gradients")?);
            let start = move || {
                let leaf = |(name, value): (&String, &Array)| (name.clone(), Variable::new(value));
                (values.iter().map(leaf).collect(), optimizer())
            };
            let constant = |(name, value)| (name, Variable::constant(value));
            Ok(Update {
                gradients: gradients.into_iter().map(constant).collect(),
                start: Box::new(start),
                eager: None,
                donated: None,
                compiled: compile(
                    |(model, optimizer, gradients): &(
                        Parameters,
                        RuleOptimizer<R, S, G>,
                        Parameters,
                    )| { optimizer.updated(model, gradients) },
                ),
            })
        });
    }
}

/// Parameters by name.
type Parameters = BTreeMap<String, Variable>;

/// The leaves of a container, numbered.
fn numbered<Y: Tree>(outputs: &Y) -> Vec<(String, Array)> {
    let mut arrays = Vec::new();
    drop(tree_map(
        |y| {
            arrays.push((arrays.len().to_string(), y.array()));
            y.clone()
        },
        outputs,
    ));
    arrays
}

/// The parameters of a model by name.
fn values<M: Chain>(model: &M) -> Vec<(String, Array)> {
    let parameters = model.parameters().into_iter();
    parameters.map(|(name, w)| (name, w.array())).collect()
}

struct Function<F, A, Y> {
    f: F,
    argument: A,
    compiled: Compiled<A, Y>,
}

impl<F, A, Y> Function<F, A, Y>
where
    F: Fn(&A) -> Y + Copy + Send + Sync + 'static,
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    fn new(f: F, argument: A) -> Self {
        Self {
            f,
            argument,
            compiled: compile(f),
        }
    }

    fn call(&self, mode: Mode) -> Y {
        match mode {
            Mode::Eager => (self.f)(&self.argument),
            Mode::Compiled => self.compiled.call(&self.argument),
        }
    }
}

impl<F, A, Y> Work for Function<F, A, Y>
where
    F: Fn(&A) -> Y + Copy + Send + Sync + 'static,
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    fn run(&mut self, mode: Mode) {
        drop(self.call(mode));
    }

    fn outputs(&mut self, mode: Mode) -> Vec<(String, Array)> {
        numbered(&self.call(mode))
    }
}

/// What a compiled step of training is given: a model, an optimizer and a batch.
type Before<M, O, const N: usize> = (M, O, [Variable; N]);
/// What it returns, with the loss.
type After<M, O> = (Variable, M, O);

struct Training<L, M, O, const N: usize> {
    loss: L,
    batch: [Variable; N],
    /// The model and the optimizer before the first step.
    start: Box<dyn Fn() -> (M, O)>,
    eager: Option<(M, O)>,
    donated: Option<Before<M, O, N>>,
    compiled: Compiled<Before<M, O, N>, After<M, O>>,
}

impl<L, M, O, const N: usize> Training<L, M, O, N>
where
    L: Fn(&M, &[Variable; N]) -> Variable,
    M: Chain + Send + Sync + 'static,
    O: Optimizer + Tree + Sync + 'static,
{
    fn step(&mut self, mode: Mode) -> Variable {
        match mode {
            Mode::Eager => {
                let (model, optimizer) = self.eager.get_or_insert_with(&self.start);
                optimizer.minimize(model, &mut || (self.loss)(model, &self.batch))
            }
            Mode::Compiled => {
                let batch = self.batch.clone();
                let step = self.donated.take().unwrap_or_else(|| {
                    let (model, optimizer) = (self.start)();
                    (model, optimizer, batch.clone())
                });
                let (loss, model, optimizer) = self.compiled.call_donated(step);
                self.donated = Some((model, optimizer, batch));
                loss
            }
        }
    }
}

impl<L, M, O, const N: usize> Work for Training<L, M, O, N>
where
    L: Fn(&M, &[Variable; N]) -> Variable,
    M: Chain + Send + Sync + 'static,
    O: Optimizer + Tree + Sync + 'static,
{
    fn run(&mut self, mode: Mode) {
        drop(self.step(mode));
    }

    fn outputs(&mut self, mode: Mode) -> Vec<(String, Array)> {
        let loss = self.step(mode);
        let model = match mode {
            Mode::Eager => self.eager.as_ref().map(|(model, _)| values(model)),
            Mode::Compiled => self.donated.as_ref().map(|(model, ..)| values(model)),
        };
        let mut outputs = model.expect("a step was made");
        outputs.push(("loss".to_owned(), loss.array()));
        outputs
    }
}

struct Update<O> {
    gradients: Parameters,
    /// The parameters and the optimizer before the first step.
    start: Box<dyn Fn() -> (Parameters, O)>,
    eager: Option<(Parameters, O)>,
    donated: Option<(Parameters, O, Parameters)>,
    compiled: Compiled<(Parameters, O, Parameters), (Parameters, O)>,
}

impl<O: Optimizer + Tree + Sync + 'static> Work for Update<O> {
    fn run(&mut self, mode: Mode) {
        match mode {
            Mode::Eager => {
                let (model, optimizer) = self.eager.get_or_insert_with(|| {
                    let (model, optimizer) = (self.start)();
                    for (name, parameter) in &model {
                        parameter.set_grad(&self.gradients[name]);
                    }
                    (model, optimizer)
                });
                optimizer.update(model);
            }
            Mode::Compiled => {
                let gradients = self.gradients.clone();
                let step = self.donated.take().unwrap_or_else(|| {
                    let (model, optimizer) = (self.start)();
                    (model, optimizer, gradients.clone())
                });
                let (model, optimizer) = self.compiled.call_donated(step);
                self.donated = Some((model, optimizer, gradients));
            }
        }
    }

    fn outputs(&mut self, mode: Mode) -> Vec<(String, Array)> {
        self.run(mode);
        let model = match mode {
            Mode::Eager => self.eager.as_ref().map(|(model, _)| values(model)),
            Mode::Compiled => self.donated.as_ref().map(|(model, ..)| values(model)),
        };
        model.expect("a step was made")
    }
}
