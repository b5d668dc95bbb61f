//! Rows in candle.

use std::collections::HashMap;

use candle_core::{D, Device, Error, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD, loss, ops};

use crate::Work;

type Function = fn(&[Tensor]) -> Result<Tensor>;

/// The function of a row. Some have a faster form that has no gradient.
fn function(name: &str, has_gradient: bool) -> Option<Function> {
    let x: Function = match (name, has_gradient) {
        ("softmax/softmax-1024x1024" | "softmax/softmax-2048x64", false) => {
            |x| ops::softmax_last_dim(&x[0])
        }
        ("softmax/softmax-1024x1024" | "softmax/softmax-2048x64", true) => {
            |x| ops::softmax(&x[0], D::Minus1)
        }
        ("softmax/log-softmax-1024x1024" | "softmax/log-softmax-2048x64", _) => {
            |x| ops::log_softmax(&x[0], D::Minus1)
        }
        ("softmax/cross-entropy-1024x1024" | "softmax/cross-entropy-2048x64", _) => {
            |x| loss::cross_entropy(&x[0], &x[1])
        }
        ("attention/full-64" | "attention/full-512" | "attention/full-2048", _) => attention,
        ("normalization/layer-1024x1024" | "normalization/layer-4096x768", false) => {
            |x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5)
        }
        ("normalization/layer-1024x1024" | "normalization/layer-4096x768", true) => {
            |x| ops::layer_norm_slow(&x[0], &x[1], &x[2], 1e-5)
        }
        ("normalization/rms-1024x1024" | "normalization/rms-4096x768", false) => {
            |x| ops::rms_norm(&x[0], &x[1], 1e-5)
        }
        ("normalization/rms-1024x1024" | "normalization/rms-4096x768", true) => {
            |x| ops::rms_norm_slow(&x[0], &x[1], 1e-5)
        }
        ("elementwise/add", _) => |x| &x[0] + &x[1],
        ("elementwise/multiply", _) => |x| &x[0] * &x[1],
        ("elementwise/divide", _) => |x| &x[0] / &x[1],
        ("elementwise/add-row" | "elementwise/add-column", _) => |x| x[0].broadcast_add(&x[1]),
        ("elementwise/relu", _) => |x| x[0].relu(),
        ("elementwise/sigmoid", _) => |x| ops::sigmoid(&x[0]),
        ("elementwise/tanh", _) => |x| x[0].tanh(),
        ("elementwise/gelu", _) => |x| x[0].gelu_erf(),
        ("elementwise/silu", _) => |x| x[0].silu(),
        ("elementwise/mish", _) => |x| ops::mish(&x[0]),
        ("elementwise/erf", _) => |x| x[0].erf(),
        ("elementwise/exp", _) => |x| x[0].exp(),
        ("elementwise/log", _) => |x| x[0].log(),
        ("elementwise/sqrt", _) => |x| x[0].sqrt(),
        ("elementwise/sin", _) => |x| x[0].sin(),
        ("elementwise/power-2.5", _) => |x| x[0].powf(2.5),
        ("elementwise/power", _) => |x| x[0].pow(&x[1]),
        ("reductions/sum-rows", _) => |x| x[0].sum(1),
        ("reductions/sum-columns", _) => |x| x[0].sum(0),
        ("reductions/sum-all", _) => |x| x[0].sum_all(),
        ("reductions/max-rows", _) => |x| x[0].max(1),
        ("reductions/max-columns", _) => |x| x[0].max(0),
        ("reductions/logsumexp-rows", _) => |x| x[0].log_sum_exp(1),
        ("reductions/logsumexp-columns", _) => |x| x[0].log_sum_exp(0),
        ("arrays/transposed-1024x1024" | "arrays/transposed-4096x64", _) => {
            |x| x[0].t()?.flatten_all()
        }
        ("arrays/channels-last", _) => |x| x[0].permute((0, 2, 3, 1))?.flatten_all(),
        ("arrays/concat-rows", _) => |x| Tensor::cat(x, 0),
        ("arrays/concat-columns", _) => |x| Tensor::cat(x, 1),
        ("arrays/gather", _) => |x| x[0].gather(&x[1], 1),
        ("arrays/scatter-add", _) => |x| x[0].scatter_add(&x[1], &x[2], 1),
        ("arrays/take-rows", _) => |x| x[0].index_select(&x[1], 0),
        ("arrays/sort-rows", _) => |x| Ok(x[0].sort_last_dim(true)?.0),
        ("arrays/cumsum-rows", _) => |x| x[0].cumsum(1),
        ("arrays/cumsum-columns", _) => |x| x[0].cumsum(0),
        ("convolutions/1x1", _) => |x| x[0].conv2d(&x[1], 0, 1, 1, 1),
        ("convolutions/3x3" | "convolutions/3x3-of-3" | "convolutions/3x3-small", _) => {
            |x| x[0].conv2d(&x[1], 1, 1, 1, 1)
        }
        ("convolutions/3x3-stride-2", _) => |x| x[0].conv2d(&x[1], 1, 2, 1, 1),
        ("convolutions/5x5", _) => |x| x[0].conv2d(&x[1], 2, 1, 1, 1),
        ("convolutions/7x7-stride-2", _) => |x| x[0].conv2d(&x[1], 3, 2, 1, 1),
        ("convolutions/depthwise", _) => |x| x[0].conv2d(&x[1], 1, 1, 1, 64),
        ("convolutions/dilated", _) => |x| x[0].conv2d(&x[1], 2, 1, 2, 1),
        ("pooling/max-2x2", _) => |x| x[0].max_pool2d(2),
        ("pooling/average-2x2", _) => |x| x[0].avg_pool2d(2),
        (name, _) if name.starts_with("limits/copy") => |x| &x[0] * 2.0,
        (name, _) if name.starts_with("products/nt-") => |x| x[0].matmul(&x[1].t()?),
        (name, _) if name.starts_with("products/tn-") => |x| x[0].t()?.matmul(&x[1]),
        (name, _) if name.starts_with("products/tt-") => |x| x[0].t()?.matmul(&x[1].t()?),
        (name, _) if name.starts_with("products/linear") => |x| linear(&x[0], &x[1], &x[2]),
        (name, _)
            if name == "limits/product"
                || name.starts_with("products/")
                    && !name.contains("einsum")
                    && !name.contains("vector") =>
        {
            |x| x[0].matmul(&x[1])
        }
        _ => return None,
    };
    Some(x)
}

fn attention(x: &[Tensor]) -> Result<Tensor> {
    let scale = 1.0 / (x[0].dim(D::Minus1)? as f64).sqrt();
    let scores = (x[0].matmul(&x[1].t()?)? * scale)?;
    ops::softmax(&scores, D::Minus1)?.matmul(&x[2])
}

fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    x.matmul(&w.t()?)?.broadcast_add(b)
}

/// The layers of a perceptron with ReLUs between.
fn mlp(p: &HashMap<String, Var>, x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for i in 0..p.len() / 2 {
        let [w, b] = ["weight", "bias"].map(|part| &p[&format!("layers/{i}/{part}")]);
        let h = if i == 0 { x } else { x.relu()? };
        x = linear(&h, w, b)?;
    }
    Ok(x)
}

/// A row with its inputs.
enum Row {
    Forward(Function, Vec<Tensor>),
    Gradient {
        function: Function,
        inputs: Vec<Tensor>,
        leaves: Vec<Var>,
        cotangent: Tensor,
    },
    Inference(HashMap<String, Var>, Tensor),
    Training {
        parameters: HashMap<String, Var>,
        batch: [Tensor; 2],
    },
}

pub(crate) fn load(row: &str, file: &str) -> std::result::Result<Box<dyn Work>, Box<dyn std::error::Error>> {
    Ok(Box::new(loaded(row, file)?))
}

fn loaded(row: &str, file: &str) -> Result<Row> {
    let mut arrays = candle_core::safetensors::load(file, &Device::Cpu)?;
    let inputs: Vec<Tensor> = (0..)
        .map_while(|i| arrays.remove(&i.to_string()))
        .collect();
    let parameters = arrays.iter().filter_map(|(name, x)| {
        let name = name.strip_prefix("parameters/")?.to_owned();
        Some(Var::from_tensor(x).map(|x| (name, x)))
    });
    let parameters: HashMap<String, Var> = parameters.collect::<Result<_>>()?;
    let missing = || Error::Msg("candle has no such row here".to_owned());
    match row {
        "networks/mlp-4-128-128-2-one" => Ok(Row::Inference(parameters, inputs[0].clone())),
        "networks/mlp-784-100-100-10" => Ok(Row::Training {
            parameters,
            batch: [inputs[0].clone(), inputs[1].clone()],
        }),
        _ => match row.strip_suffix("/gradient") {
            None if arrays.contains_key("cotangent") => gradient(row, inputs, &arrays),
            None => Ok(Row::Forward(function(row, false).ok_or_else(missing)?, inputs)),
            Some(row) => gradient(row, inputs, &arrays),
        },
    }
}

fn gradient(row: &str, inputs: Vec<Tensor>, arrays: &HashMap<String, Tensor>) -> Result<Row> {
    let missing = || Error::Msg("candle has no such row here".to_owned());
    let mut leaves = Vec::new();
    let mut all = Vec::new();
    for x in inputs {
        if x.dtype().is_float() {
            let leaf = Var::from_tensor(&x)?;
            all.push(leaf.as_tensor().clone());
            leaves.push(leaf);
        } else {
            all.push(x);
        }
    }
    Ok(Row::Gradient {
        function: function(row, true).ok_or_else(missing)?,
        inputs: all,
        leaves,
        cotangent: arrays["cotangent"].clone(),
    })
}

impl Row {
    fn outputs(&self) -> Result<HashMap<String, Tensor>> {
        let one = |y: Tensor| HashMap::from([("0".to_owned(), y)]);
        match self {
            Self::Forward(function, inputs) => Ok(one(function(inputs)?)),
            Self::Inference(parameters, x) => Ok(one(mlp(parameters, x)?)),
            Self::Gradient {
                function,
                inputs,
                leaves,
                cotangent,
            } => {
                let y = function(inputs)?;
                let gradients = (&y * cotangent)?.sum_all()?.backward()?;
                let mut outputs = one(y);
                for (i, leaf) in leaves.iter().enumerate() {
                    let gradient = gradients.get(leaf).ok_or_else(|| {
                        Error::Msg("an input has no gradient in candle".to_owned())
                    })?;
                    outputs.insert((i + 1).to_string(), gradient.clone());
                }
                Ok(outputs)
            }
            Self::Training { parameters, batch } => {
                let loss = loss::cross_entropy(&mlp(parameters, &batch[0])?, &batch[1])?;
                SGD::new(parameters.values().cloned().collect(), 0.05)?.backward_step(&loss)?;
                Ok(HashMap::from([("loss".to_owned(), loss)]))
            }
        }
    }

}

impl Work for Row {
    fn run(&self) -> std::result::Result<(), Box<dyn std::error::Error>> {
        self.outputs()?;
        Ok(())
    }

    fn write_outputs(&self, file: &str) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let mut outputs = self.outputs()?;
        if let Self::Training { parameters, .. } = self {
            let values = parameters.iter();
            outputs.extend(values.map(|(name, x)| (name.clone(), x.as_tensor().clone())));
        }
        for y in outputs.values_mut() {
            *y = y.contiguous()?;
        }
        Ok(candle_core::safetensors::save(&outputs, file)?)
    }
}
