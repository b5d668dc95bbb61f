//! What is computed, and in which ways.

use std::error::Error;

use bibun::array::{Array, DType, Generator, Shape};
use bibun::functions::{
    ConvOptions, Padding, Reduction, add_at, conv2d, matmul, softmax_cross_entropy,
    softmax_cross_entropy_with, stack,
};
use bibun::links::{Chain, Link};
use bibun::{
    Compiled, GradOptions, Rows, Variable, clip_factors, compile, grad, gradients_with,
    per_example, s, vmap,
};

use crate::models::{CifarCnn, EmbeddingNet, Lstm, Mlp, MnistNet, ResNet, SimpleCnn, Transformer};
use crate::tensors::Tensors;

/// What a mode computes, in the order of the names.
pub(crate) enum Outcome {
    /// One array each.
    Whole(Vec<Variable>),
    /// Those of the examples, each in memory of its own.
    Apart(Vec<Vec<Variable>>),
    /// Rows that are zero but for what an example picked, for parameters that look like these.
    Sparse(Vec<(Rows, Shape)>),
}

impl Outcome {
    /// One array each, with an axis of examples in front where there is one for each.
    pub(crate) fn joined(self) -> Vec<Array> {
        match self {
            Self::Whole(arrays) => arrays.iter().map(Variable::array).collect(),
            Self::Apart(examples) => {
                let count = examples.first().map_or(0, Vec::len);
                let joined = (0..count).map(|leaf| {
                    let of_examples = examples.iter().map(|leaves| &leaves[leaf]);
                    stack(of_examples, 0).array()
                });
                joined.collect()
            }
            Self::Sparse(rows) => rows
                .iter()
                .map(|(rows, shape)| dense(rows, shape))
                .collect(),
        }
    }
}

/// All elements of rows.
fn dense(rows: &Rows, shape: &Shape) -> Array {
    match rows {
        Rows::Dense(rows) => rows.array(),
        Rows::Sparse { indices, values } => {
            let n = indices.shape()[0];
            let zeros = Variable::constant(Array::zeros(shape, values.dtype()));
            let each = (0..n).map(|i| {
                let [indices, values] = [indices, values].map(|all| all.slice(s![i]));
                add_at(&zeros, indices, 0, values)
            });
            stack(each, 0).array()
        }
    }
}

/// A computation that can be done in several ways.
pub(crate) trait Workload {
    /// The names of what `run` gives; `mode` is one of [`Workload::modes`].
    fn names(&self, mode: &str) -> Vec<String>;

    /// The ways.
    fn modes(&self) -> &'static [&'static str];

    /// Computes it in one of the ways.
    fn run(&self, mode: &str) -> Outcome;
}

/// The workload of this name, with weights and examples from a file.
pub(crate) fn workload(name: &str, tensors: &Tensors) -> Result<Box<dyn Workload>, Box<dyn Error>> {
    let random = &mut Generator::new(0);
    let (model, clipped) = match name.strip_suffix("-clipped") {
        Some(model) => (model, true),
        None => (name, false),
    };
    let model: Box<dyn Link> = match model {
        "mlp" => Box::new(Mlp::new(&[784, 256, 256, 10], random)),
        "mnist" => Box::new(MnistNet::new(random)),
        "simple" => Box::new(SimpleCnn::new(random)),
        "cifar" => Box::new(CifarCnn::new(random)),
        "embedding" => Box::new(EmbeddingNet::new(random)),
        "transformer" => Box::new(Transformer::new(random)),
        "lstm" => Box::new(Lstm::new(random)),
        "resnet" => Box::new(ResNet::new(random)),
        _ if name.starts_with("conv-") => return Ok(Box::new(Convolution::read(tensors)?)),
        _ => return Err(format!("there is no workload {name}").into()),
    };
    for (name, parameter) in model.parameters() {
        parameter.set_array(tensors.get(&name)?);
    }
    let x = Variable::constant(tensors.get("x")?);
    let t = Variable::constant(tensors.get("t")?);
    let apart = |x: &Variable| -> Vec<Variable> {
        (0..x.shape()[0]).map(|i| x.slice(s![i..i + 1])).collect()
    };
    let examples = apart(&x).into_iter().zip(apart(&t)).collect();
    let training = Training {
        examples,
        batch: (model, x, t),
        compiled: compile(losses),
    };
    Ok(match clipped {
        false => Box::new(training),
        true => Box::new(Clipping {
            training,
            bound: tensors.get("bound")?.item(),
        }),
    })
}

/// A classifier, inputs and classes.
type Batch = (Box<dyn Link>, Variable, Variable);

/// The loss of each example.
fn losses((model, x, t): &Batch) -> Variable {
    softmax_cross_entropy_with(model.forward(x), t, Reduction::None)
}

/// The gradient of a classifier's loss.
struct Training {
    batch: Batch,
    /// Batches of one.
    examples: Vec<(Variable, Variable)>,
    /// The losses as a program.
    compiled: Compiled<Batch, Variable>,
}

impl Training {
    fn model(&self) -> &dyn Link {
        &*self.batch.0
    }

    /// The gradient of the sum of losses.
    fn ordinary(&self, losses: &Variable) -> Vec<Variable> {
        self.gradient(&losses.sum(..))
    }

    /// The gradient of one example, alone.
    fn of_example(&self, (x, t): &(Variable, Variable)) -> Vec<Variable> {
        self.gradient(&softmax_cross_entropy(self.model().forward(x), t))
    }

    /// The gradients of all examples.
    fn rows(&self, losses: &Variable) -> Vec<Variable> {
        leaves(&*per_example(losses, &self.batch.0).rows())
    }

    fn gradient(&self, loss: &Variable) -> Vec<Variable> {
        self.model().clear_grads();
        loss.backward();
        let parameters = self.model().parameters().into_iter();
        let gradient = |(_, parameter): (_, Variable)| parameter.grad().expect("a gradient");
        parameters.map(gradient).collect()
    }

    /// Vectorised over batches of one.
    fn vmap(&self) -> Vec<Variable> {
        let loss = |model: &dyn Link, x: &Variable, t: &Variable| {
            softmax_cross_entropy(model.forward(&x.expand_dims(0)), t.expand_dims(0))
        };
        let (model, x, t) = &self.batch;
        let gradients = |(x, t): &_| grad(|model| loss(&**model, x, t), model);
        leaves(&*vmap(gradients, &(x.clone(), t.clone())))
    }
}

/// The Variables of a model of gradients.
fn leaves(model: &dyn Link) -> Vec<Variable> {
    let parameters = model.parameters().into_iter();
    parameters.map(|(_, parameter)| parameter).collect()
}

impl Workload for Training {
    fn names(&self, _: &str) -> Vec<String> {
        let parameters = self.model().parameters().into_iter();
        parameters.map(|(name, _)| name).collect()
    }

    fn modes(&self) -> &'static [&'static str] {
        const MODES: [&str; 8] = [
            "ordinary",
            "ordinary-compiled",
            "loop",
            "loop-stacked",
            "vmap",
            "per-example",
            "compiled",
            "sparse",
        ];
        match self.batch.1.dtype() {
            DType::I64 => &MODES,
            _ => MODES.split_last().expect("there are modes").1,
        }
    }

    fn run(&self, mode: &str) -> Outcome {
        let each = || self.examples.iter().map(|example| self.of_example(example));
        match mode {
            "per-example" => Outcome::Whole(self.rows(&losses(&self.batch))),
            "compiled" => Outcome::Whole(self.rows(&self.compiled.call(&self.batch))),
            "sparse" => {
                let rows = per_example(&losses(&self.batch), &self.batch.0).sparse_rows();
                let parameters = self.model().parameters().into_iter();
                let shapes = parameters.map(|(_, w)| w.shape());
                Outcome::Sparse(rows.into_iter().map(|(_, rows)| rows).zip(shapes).collect())
            }
            "ordinary" => Outcome::Whole(self.ordinary(&losses(&self.batch))),
            "ordinary-compiled" => Outcome::Whole(self.ordinary(&self.compiled.call(&self.batch))),
            "loop" => Outcome::Apart(each().collect()),
            "loop-stacked" => {
                let arrays = Outcome::Apart(each().collect()).joined();
                Outcome::Whole(arrays.into_iter().map(Variable::constant).collect())
            }
            _ => Outcome::Whole(self.vmap()),
        }
    }
}

/// The lengths of the gradients of all examples, and the sum of the gradients, each cut to a
/// length: what training with differential privacy adds its noise to.
struct Clipping {
    training: Training,
    bound: f64,
}

impl Clipping {
    /// One example after the other.
    fn by_loop(&self) -> Vec<Variable> {
        let mut norms: Vec<Variable> = Vec::new();
        let mut sum: Option<Vec<Variable>> = None;
        for example in &self.training.examples {
            let gradient = self.training.of_example(example);
            let squares = gradient.iter().map(|g| g.square().sum(..));
            let norm = squares.reduce(|a, b| a + b).expect("parameters").sqrt();
            let factor = clip_factors(&norm, self.bound);
            let clipped = gradient.iter().map(|g| &factor * g);
            sum = Some(match sum {
                None => clipped.collect(),
                Some(sum) => sum.iter().zip(clipped).map(|(sum, g)| sum + g).collect(),
            });
            norms.push(norm);
        }
        let norms = stack(norms.iter(), 0);
        [vec![norms], sum.unwrap_or_default()].concat()
    }

    /// From the gradients of all examples.
    fn by_rows(&self, rows: &[Variable]) -> Vec<Variable> {
        let matrices = rows
            .iter()
            .map(|g| g.reshape([g.shape()[0], g.size() / g.shape()[0]]));
        let matrices: Vec<Variable> = matrices.collect();
        let squares = matrices.iter().map(|g| g.square().sum(1));
        let norms = squares.reduce(|a, b| a + b).expect("parameters").sqrt();
        let factors = clip_factors(&norms, self.bound);
        let sums = matrices
            .iter()
            .zip(rows)
            .map(|(matrix, g)| matmul(&factors, matrix).reshape(&g.shape()[1..]));
        std::iter::once(norms).chain(sums).collect()
    }
}

impl Workload for Clipping {
    fn names(&self, mode: &str) -> Vec<String> {
        let mut names = self.training.names(mode);
        if mode != "ordinary" {
            names.insert(0, "norms".to_owned());
        }
        names
    }

    fn modes(&self) -> &'static [&'static str] {
        &["ordinary", "loop", "vmap", "per-example"]
    }

    fn run(&self, mode: &str) -> Outcome {
        Outcome::Whole(match mode {
            "ordinary" => self.training.ordinary(&losses(&self.training.batch)),
            "loop" => self.by_loop(),
            "per-example" => {
                let losses = losses(&self.training.batch);
                let gradients = per_example(&losses, &self.training.batch.0);
                let norms = gradients.norms();
                let sum = gradients.weighted_sum(&clip_factors(&norms, self.bound));
                [vec![norms], leaves(&*sum)].concat()
            }
            _ => self.by_rows(&self.training.vmap()),
        })
    }
}

/// The gradient of a convolution to its weights, and nothing else: what is recorded on the way
/// forward is made once.
struct Convolution {
    w: Variable,
    /// A weight for each example.
    weights: Variable,
    y: Variable,
    gy: Variable,
    /// `Σ gy · y` of each example.
    losses: Variable,
    /// What each example gives with its weight.
    y_of_each: Variable,
    /// Batches of one, with their cotangents.
    examples: Vec<(Variable, Variable)>,
}

impl Convolution {
    fn read(tensors: &Tensors) -> Result<Self, Box<dyn Error>> {
        let geometry: Vec<i64> = tensors.get("geometry")?.to_vec();
        let [stride, padding, dilation, groups] = geometry[..] else {
            return Err("the geometry has four numbers".into());
        };
        let [stride, padding, dilation] = [stride, padding, dilation].map(|size| size as usize);
        let options = ConvOptions {
            stride: [stride; 2],
            padding: Padding::from(padding),
            dilation: [dilation; 2],
            groups: groups as usize,
        };
        let w = Variable::new(tensors.get("w")?);
        let x = Variable::constant(tensors.get("x")?);
        let gy = Variable::constant(tensors.get("gy")?);
        let conv = |x: &Variable, w: &Variable| conv2d(x, w, None, options);

        let weights = Variable::new(stack(vec![&w; x.shape()[0]], 0).array());
        let of_one = |(x, w): &(Variable, Variable)| conv(&x.expand_dims(0), w);
        let examples = (0..x.shape()[0]).map(|i| {
            let y = conv(&x.slice(s![i..i + 1]), &w);
            (y, gy.slice(s![i..i + 1]))
        });
        let y = conv(&x, &w);
        Ok(Self {
            losses: (&y * &gy).sum([1, 2, 3]),
            y,
            y_of_each: vmap(of_one, &(x.clone(), weights.clone())).squeeze(1),
            examples: examples.collect(),
            w,
            weights,
            gy,
        })
    }
}

fn pull_back(y: &Variable, gy: &Variable, w: &Variable) -> Variable {
    let gradients = gradients_with(&[y], &[w], GradOptions::new().cotangents(&[gy]));
    gradients.into_iter().flatten().next().expect("a gradient")
}

impl Workload for Convolution {
    fn names(&self, _: &str) -> Vec<String> {
        vec!["w".to_owned()]
    }

    fn modes(&self) -> &'static [&'static str] {
        &["ordinary", "loop", "loop-stacked", "vmap", "per-example"]
    }

    fn run(&self, mode: &str) -> Outcome {
        let each = || {
            self.examples
                .iter()
                .map(|(y, gy)| vec![pull_back(y, gy, &self.w)])
        };
        match mode {
            "ordinary" => Outcome::Whole(vec![pull_back(&self.y, &self.gy, &self.w)]),
            "loop" => Outcome::Apart(each().collect()),
            "loop-stacked" => {
                let arrays = Outcome::Apart(each().collect()).joined();
                Outcome::Whole(arrays.into_iter().map(Variable::constant).collect())
            }
            "per-example" => Outcome::Whole(vec![per_example(&self.losses, &self.w).rows()]),
            _ => Outcome::Whole(vec![pull_back(&self.y_of_each, &self.gy, &self.weights)]),
        }
    }
}
